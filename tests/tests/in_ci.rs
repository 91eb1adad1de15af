//! Files for other people's CI: the action, the template, the example and the manifest. Each step
//! is run as its file has it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use drumfire_tests::{Drumfire, Finished, Folder, Running, run};
use yaml_rust2::{Yaml, YamlLoader};

const LIMIT: Duration = Duration::from_secs(120);

/// A file of the project.
fn of_project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(path)
}

/// The one document of a file.
fn yaml(path: &str) -> Yaml {
    let text = fs::read_to_string(of_project(path)).unwrap();
    let mut documents = YamlLoader::load_from_str(&text).unwrap();
    assert_eq!(documents.len(), 1, "{path}");
    documents.remove(0)
}

fn text(value: &Yaml) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value:?}"))
}

/// Returns keys and values of a map; empty for other values.
fn pairs(value: &Yaml) -> Vec<(&str, &Yaml)> {
    let map = value.as_hash();
    map.into_iter().flatten().map(|(key, value)| (text(key), value)).collect()
}

/// A runner of the steps of a composite action.
struct Runner<'a> {
    folder: &'a Folder,
    /// `inputs.volume`, `steps.start.outputs.nvme`, `runner.temp` and so on.
    known: BTreeMap<String, String>,
    summary: PathBuf,
}

impl Runner<'_> {
    /// A text with its expressions replaced. An output that no step made is empty.
    fn expanded(&self, text: &str) -> String {
        let mut parts = text.split("${{");
        let mut out = parts.next().unwrap().to_owned();
        for part in parts {
            let (name, rest) = part.split_once("}}").unwrap();
            out += self.known.get(name.trim()).map_or("", String::as_str);
            out += rest;
        }
        out
    }

    /// Runs a step, and takes its outputs.
    fn step(&mut self, step: &Yaml) -> Finished {
        let outputs = self.folder.file("outputs", b"");
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", text(&step["run"])]);
        bash.current_dir(self.folder.path());
        bash.env("GITHUB_OUTPUT", &outputs).env("GITHUB_STEP_SUMMARY", &self.summary);
        for (name, value) in pairs(&step["env"]) {
            bash.env(name, self.expanded(text(value)));
        }
        let ended = run(&mut bash, LIMIT);
        let id = step["id"].as_str().unwrap_or_default();
        for line in fs::read_to_string(outputs).unwrap().lines() {
            let (name, value) = line.split_once('=').unwrap();
            self.known.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
        }
        ended
    }
}

/// Outcome of the steps of the action.
struct Ran {
    failed: Option<String>,
    log: String,
    summary: String,
    folder: PathBuf,
}

/// Runs the action with these inputs in place of its defaults.
fn act(drumfire: &Drumfire, folder: &Folder, inputs: &[(&str, &str)]) -> Ran {
    let action = yaml("packaging/action/action.yml");
    let mut known = BTreeMap::new();
    for (name, input) in pairs(&action["inputs"]) {
        known.insert(format!("inputs.{name}"), text(&input["default"]).to_owned());
    }
    let program = drumfire.path().display().to_string();
    for (name, value) in inputs.iter().copied().chain([("drumfire", &*program)]) {
        let old = known.insert(format!("inputs.{name}"), value.to_owned());
        assert!(old.is_some(), "no input is called {name}");
    }
    let here = of_project("packaging/action").display().to_string();
    known.insert("github.action_path".to_owned(), here);
    known.insert("runner.temp".to_owned(), folder.path().display().to_string());
    let summary = folder.file("summary", b"");
    let mut runner = Runner { folder, known, summary };
    let (mut failed, mut log) = (None, String::new());
    for step in action["runs"]["steps"].as_vec().unwrap() {
        let always = step["if"].as_str().is_some_and(|when| when.starts_with("always()"));
        if step["run"].is_badvalue() || (failed.is_some() && !always) {
            continue;
        }
        let ended = runner.step(step);
        log += &format!("{}{}", ended.stdout, ended.stderr);
        if ended.code != Some(0) {
            failed.get_or_insert(text(&step["name"]).to_owned());
        }
    }
    let summary = fs::read_to_string(&runner.summary).unwrap();
    let of = runner.known.get("steps.start.outputs.folder").cloned().unwrap_or_default();
    Ran { failed, log, summary, folder: of.into() }
}

/// Every file that the artifact is to have.
const KEPT: [&str; 4] = ["drumfire.xml", "report.html", "charts.svg", "summary.md"];

#[test]
fn the_action_passes_and_keeps_what_came_of_it() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let seen = folder.path().join("seen").display().to_string();
    let test = format!("echo \"$DRUMFIRE_ISCSI $DRUMFIRE_NVME $DRUMFIRE_NBD\" > {seen}");
    let inputs = [
        ("volume", "fault:fail-slow(ram:32m)"),
        ("test", &*test),
        ("run", "--size 4k --seconds 1 --ramp 0 --read 50 --destroy"),
        ("fail-if", "errors>0\nmax>60s\n"),
    ];
    let ran = act(&drumfire, &folder, &inputs);
    assert_eq!(ran.failed, None, "{}", ran.log);
    for name in KEPT {
        assert!(fs::metadata(ran.folder.join(name)).unwrap().len() > 100, "{name}");
    }
    let junit = fs::read_to_string(ran.folder.join("drumfire.xml")).unwrap();
    assert!(junit.contains("fail if max&gt;60s"), "{junit}");
    assert!(ran.summary.contains("IOPS") && ran.summary.contains("emulated"), "{}", ran.summary);
    let seen = fs::read_to_string(seen).unwrap();
    let uris: Vec<&str> = seen.split_whitespace().collect();
    let kinds = ["iscsi://127.0.0.1:", "nvme+tcp://127.0.0.1:", "nbd://127.0.0.1:"];
    assert!(uris.iter().zip(kinds).all(|(uri, kind)| uri.starts_with(kind)), "{seen}");
    assert!(drumfire_is_gone(&ran.folder), "the target still runs");
}

/// Whether the target of a step has ended.
fn drumfire_is_gone(folder: &Path) -> bool {
    let id = fs::read_to_string(folder.join("pid")).unwrap();
    let status = || fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        // Without a parent that waits for it, a program that ended may stay as a zombie.
        if status().is_empty() || status().contains(") Z ") {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

#[test]
fn the_action_fails_where_a_bound_or_the_test_or_the_volume_does() {
    let Some(drumfire) = Drumfire::find() else { return };
    let quick = ("run", "--size 4k --seconds 0.5 --ramp 0 --read 50 --destroy");
    for (input, step, words) in [
        (("fail-if", "iops<900G"), "Gate", "MISSED: fail if iops<900G"),
        (("test", "echo to no avail; false"), "Test", "to no avail"),
        (("volume", "ram:32x"), "Start the target", "::error::the target is not ready"),
    ] {
        let folder = Folder::new();
        let ran = act(&drumfire, &folder, &[input, quick]);
        assert_eq!(ran.failed.as_deref(), Some(step), "{}", ran.log);
        assert!(ran.log.contains(words), "{}", ran.log);
        // A gate that failed has its report.
        let kept = KEPT.iter().filter(|name| ran.folder.join(name).is_file()).count();
        assert_eq!(kept, if step == "Gate" { 4 } else { 1 }, "{}", ran.log);
        assert!(!ran.summary.is_empty());
        if step != "Start the target" {
            assert!(drumfire_is_gone(&ran.folder), "the target still runs");
        }
    }
}

#[test]
fn actions_are_pinned_and_no_script_holds_an_expression() {
    let mut used = 0;
    let files = [
        "packaging/action/action.yml",
        ".github/workflows/ci.yml",
        ".github/workflows/storage.yml",
    ];
    for file in files {
        let document = yaml(file);
        let mut lists = vec![&document["runs"]["steps"]];
        lists.extend(pairs(&document["jobs"]).into_iter().map(|(_, job)| &job["steps"]));
        for step in lists.into_iter().filter_map(Yaml::as_vec).flatten() {
            if let Some(uses) = step["uses"].as_str().filter(|uses| !uses.starts_with("./")) {
                let (_, commit) = uses.split_once('@').unwrap();
                let is_commit = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
                assert!(is_commit, "{file}: {uses}");
                used += 1;
            }
            // An expression within a script is run as a part of it, whoever wrote the input.
            let script = step["run"].as_str().unwrap_or_default();
            assert!(!script.contains("${{"), "{file}: {script}");
            assert!(!script.is_empty() || step["uses"].as_str().is_some(), "{file}: {step:?}");
        }
    }
    assert!(used >= 4);
    let inputs = yaml("packaging/action/action.yml");
    let known: Vec<&str> = pairs(&inputs["inputs"]).into_iter().map(|(name, _)| name).collect();
    let caller = yaml(".github/workflows/storage.yml");
    let with = &caller["jobs"]["gate"]["steps"][1]["with"];
    assert!(pairs(with).iter().all(|(name, _)| known.contains(name)), "{with:?}");
}

#[test]
fn our_own_workflows_run_what_ci_runs() {
    let ours = yaml(".github/workflows/ci.yml");
    let steps = ours["jobs"]["test"]["steps"].as_vec().unwrap();
    let scripts: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
    assert_eq!(scripts, ["sudo env \"PATH=$PATH\" \"HOME=$HOME\" .ci/run"]);
    let theirs = yaml(".gitlab-ci.yml");
    assert_eq!(theirs["test"]["script"][0].as_str(), Some(".ci/run"));
    assert!(of_project(".ci/run").is_file());
    let features = ours["jobs"]["features"]["steps"][1]["run"].as_str().unwrap();
    let manifest = fs::read_to_string(of_project("crates/cli/Cargo.toml")).unwrap();
    for feature in features.split("--features ").nth(1).unwrap().split(',') {
        assert!(manifest.contains(&format!("\n{feature} = [")), "{feature}");
    }
}

/// Lines of a section of a job of GitLab, as one script.
fn script(job: &Yaml, section: &str) -> String {
    let lines = job[section].as_vec().unwrap().iter().map(text);
    lines.collect::<Vec<_>>().join("\n")
}

/// Runs the template with these variables in place of its defaults: the outcome of the job.
fn template(drumfire: &Drumfire, folder: &Folder, variables: &[(&str, &str)]) -> Finished {
    let document = yaml("packaging/gitlab/drumfire.yml");
    let job = &document[".drumfire"];
    let mut known: BTreeMap<&str, String> = pairs(&job["variables"])
        .into_iter()
        .map(|(name, it)| (name, text(it).to_owned()))
        .collect();
    known.insert("DRUMFIRE", drumfire.path().display().to_string());
    for (name, value) in variables {
        assert!(known.insert(name, (*value).to_owned()).is_some(), "no variable {name}");
    }
    let shell = |script: &str, flags: &str| {
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", flags, "pipefail", "-c", script]);
        run(bash.current_dir(folder.path()).envs(&known), LIMIT)
    };
    let ended = shell(&(script(job, "before_script") + "\n" + &script(job, "script")), "-eo");
    shell(&script(job, "after_script"), "-o").ok();
    for path in job["artifacts"]["paths"].as_vec().unwrap() {
        assert!(folder.path().join(text(path)).exists(), "{path:?}");
    }
    ended
}

#[test]
fn the_template_of_gitlab_passes_and_fails_as_its_bounds_do() {
    let Some(drumfire) = Drumfire::find() else { return };
    let run = ("DRUMFIRE_RUN", "--size 4k --seconds 0.5 --ramp 0 --read 50 --destroy");
    let folder = Folder::new();
    let test = ("DRUMFIRE_TEST", "test -n \"$DRUMFIRE_ISCSI\"");
    template(&drumfire, &folder, &[run, test, ("DRUMFIRE_VOLUME", "ram:32m")]).ok();
    for name in KEPT {
        let path = folder.path().join("drumfire").join(name);
        assert!(fs::metadata(&path).unwrap().len() > 100, "{name}");
    }
    assert!(drumfire_is_gone(&folder.path().join("drumfire")), "the target still runs");
    let folder = Folder::new();
    let missed = template(&drumfire, &folder, &[run, ("DRUMFIRE_FAIL_IF", "errors>0 iops<900G")]);
    assert_eq!(missed.code, Some(4), "{missed:?}");
    let junit = folder.path().join("drumfire/drumfire.xml");
    assert!(fs::read_to_string(junit).unwrap().contains("<failure "));
    let folder = Folder::new();
    let failed = template(&drumfire, &folder, &[run, ("DRUMFIRE_TEST", "false")]);
    assert_ne!(failed.code, Some(0), "{failed:?}");
    assert!(drumfire_is_gone(&folder.path().join("drumfire")), "the target still runs");
}

#[test]
fn the_example_of_a_driver_ends_within_a_minute() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let begun = Instant::now();
    let mut bash = Command::new("bash");
    bash.arg(of_project("packaging/examples/csi/test.sh")).current_dir(folder.path());
    // A plain container: no variables, no home.
    bash.env_clear().env("PATH", "/usr/bin:/bin").env("DRUMFIRE", drumfire.path());
    bash.env("TMPDIR", folder.path());
    let ended = run(&mut bash, LIMIT).ok();
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(
        ended.stdout.ends_with("passed\n") && ended.stdout.contains("reconnects: "),
        "{ended:?}"
    );
}

/// Keys that a part of a manifest may have, by the API of Kubernetes 1.29 and later.
const KEYS: &[(&str, &[&str])] = &[
    ("", &["apiVersion", "kind", "metadata", "spec"]),
    ("metadata", &["name", "labels"]),
    ("spec", &["backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "template"]),
    (
        "pod",
        &[
            "restartPolicy",
            "automountServiceAccountToken",
            "securityContext",
            "initContainers",
            "containers",
            "volumes",
        ],
    ),
    (
        "container",
        &[
            "name",
            "image",
            "command",
            "args",
            "resources",
            "securityContext",
            "volumeMounts",
            "restartPolicy",
            "startupProbe",
        ],
    ),
];

fn only(part: &str, value: &Yaml) {
    let (_, keys) = KEYS.iter().find(|(name, _)| *name == part).unwrap();
    for (key, _) in pairs(value) {
        assert!(keys.contains(&key), "{part} has no {key}");
    }
}

/// Command and arguments of a container.
fn command_of(container: &Yaml) -> Vec<String> {
    let list = |name: &str| container[name].as_vec().cloned().unwrap_or_default();
    let words = list("command").into_iter().chain(list("args"));
    words.map(|word| text(&word).to_owned()).collect()
}

#[test]
fn the_manifest_is_a_job_whose_commands_run() {
    let Some(drumfire) = Drumfire::find() else { return };
    let job = yaml("packaging/kubernetes/job.yaml");
    only("", &job);
    only("metadata", &job["metadata"]);
    only("spec", &job["spec"]);
    assert_eq!((text(&job["apiVersion"]), text(&job["kind"])), ("batch/v1", "Job"));
    let pod = &job["spec"]["template"]["spec"];
    only("pod", pod);
    assert_eq!(text(&pod["restartPolicy"]), "Never");
    let (target, gate) = (&pod["initContainers"][0], &pod["containers"][0]);
    for container in [target, gate] {
        only("container", container);
        let safe = &container["securityContext"];
        assert_eq!(safe["allowPrivilegeEscalation"].as_bool(), Some(false));
        assert_eq!(text(&safe["capabilities"]["drop"][0]), "ALL");
        assert!(container["resources"]["limits"]["memory"].as_str().is_some());
    }
    let mounted = text(&gate["volumeMounts"][0]["name"]);
    assert_eq!(mounted, text(&pod["volumes"][0]["name"]));
    // The commands, on another port and in another folder.
    let folder = Folder::new();
    let port = drumfire_tests::free_port().to_string();
    let results = folder.path().join("results").display().to_string();
    fs::create_dir(&results).unwrap();
    let command = |words: &[String]| {
        assert_eq!(words[0], "drumfire");
        let there = |word: &String| word.replace("4420", &port).replace("/results", &results);
        let mut command = Command::new(drumfire.path());
        command.args(words[1..].iter().map(there)).current_dir(folder.path());
        command
    };
    let mut running = Running::start(&mut command(&command_of(target)));
    running.await_stdout(LIMIT, |text| text.contains("ready ").then_some(()));
    let probe = command_of(&target["startupProbe"]["exec"]);
    run(&mut command(&probe), LIMIT).ok();
    let mut words = command_of(gate);
    let at = words.iter().position(|word| word == "--seconds").unwrap();
    assert_eq!(words[at + 1], "10");
    words[at + 1] = "1".to_owned();
    run(&mut command(&words), LIMIT).ok();
    assert!(Path::new(&results).join("run/result.json").is_file());
}
