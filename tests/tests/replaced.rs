//! `--replace` replaces an old result only with a new one: not with a run or sweep that fails, is
//! killed, or measures nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, Patience, Running};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const SHORT: &str = "--seconds 0.3 --ramp 0 --no-ceiling";

struct Rig {
    drumfire: Drumfire,
    folder: Folder,
}

impl Rig {
    fn new() -> Option<Rig> {
        let rig = Rig { drumfire: Drumfire::find()?, folder: Folder::new() };
        rig.folder.file("bad.toml", b"name = 'bad'\n[[fault]]\nverb = 'error'\nop = 'read'\n");
        let hangs = b"name = 'hangs'\n[[fault]]\nverb = 'hang'\nop = 'read'\n";
        rig.folder.file("hangs.toml", hangs);
        let first = "[a]\nioengine=null\nsize=1g\ntime_based\nruntime=1\n";
        let second = "[b]\nstonewall\nioengine=null\nsize=1g\ntime_based\nruntime=";
        rig.folder.file("short.fio", format!("{first}{second}1\n").as_bytes());
        rig.folder.file("long.fio", format!("{first}{second}100\n").as_bytes());
        Some(rig)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, args: &str) -> Finished {
        self.drumfire.run(self.folder.path(), args, LIMIT)
    }

    fn start(&self, args: &str) -> Running {
        Running::start(&mut self.drumfire.command(self.folder.path(), args))
    }

    /// Results in a folder: its documents and those of its steps and cells, each with its length
    /// and a checksum.
    fn kept(&self, name: &str) -> Vec<(PathBuf, (usize, u64))> {
        let (mut found, mut open) = (Vec::new(), vec![self.at(name)]);
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).unwrap().flatten() {
                let path = entry.path();
                let is_incomplete = entry.file_name().to_string_lossy().starts_with("incomplete-");
                if path.is_dir() && !is_incomplete {
                    open.push(path);
                } else if path.extension().is_some_and(|end| end == "json" || end == "txt") {
                    let bytes = fs::read(&path).unwrap();
                    let sum =
                        |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add((*byte).into());
                    found.push((path, (bytes.len(), bytes.iter().fold(0, sum))));
                }
            }
        }
        found.sort();
        found
    }

    /// Incomplete folders in a folder.
    fn incomplete(&self, name: &str) -> Vec<PathBuf> {
        let all = fs::read_dir(self.at(name)).unwrap().flatten();
        let is_it = |name: &str| name.starts_with("incomplete-");
        all.filter(|entry| is_it(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .collect()
    }

    fn json(&self, path: &Path) -> Value {
        serde_json::from_slice(&fs::read(self.folder.path().join(path)).unwrap()).unwrap()
    }
}

#[test]
fn a_run_that_comes_to_nothing_costs_no_old_result() {
    let Some(rig) = Rig::new() else { return };
    rig.run(&format!("run null:1g {SHORT} --out o")).ok();
    let before = rig.kept("o");
    assert_eq!(before.len(), 2, "{before:?}");
    // No I/O succeeds, and the location of the partial result is reported.
    let ended = rig.run(&format!("run fault:bad.toml(ram:1m) {SHORT} --out o --replace"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!(rig.kept("o"), before, "{ended:?}");
    let [incomplete] = &rig.incomplete("o")[..] else { panic!("{ended:?}") };
    let name = format!("o/{}", incomplete.file_name().unwrap().to_str().unwrap());
    assert!(ended.stderr.contains(&format!("the incomplete new one is in {name}")), "{ended:?}");
    assert!(ended.stdout.contains(&format!("saved in {name}")), "{ended:?}");
    rig.run(&format!("report {name}")).ok();
    fs::remove_dir_all(incomplete).unwrap();
    // A run that fails at its start leaves nothing; nor do steps of which the last one fails.
    for args in ["run null:1k --size 4k", "run ram:1m null:1g --size 2m"] {
        let ended = rig.run(&format!("{args} {SHORT} --out o --replace"));
        assert!(![Some(0), None].contains(&ended.code), "{ended:?}");
        assert_eq!((rig.kept("o"), rig.incomplete("o")), (before.clone(), vec![]), "{ended:?}");
    }
    rig.run("report o").ok();
    // The next successful run replaces the result, and leaves no separate file.
    rig.run(&format!("run null:1g --size 8k {SHORT} --out o --replace")).ok();
    assert_eq!(rig.json(Path::new("o/result.json"))["job"]["size_bytes"], 8192);
    assert!(rig.incomplete("o").is_empty());
    assert!(fs::read_to_string(rig.at("o/job.toml")).unwrap().contains("8192"));
}

#[test]
fn a_run_that_is_killed_or_whose_target_dies_costs_no_old_result() {
    let Some(rig) = Rig::new() else { return };
    rig.run(&format!("run null:1g {SHORT} --out o")).ok();
    let before = rig.kept("o");
    let long = "--seconds 100 --ramp 0 --no-ceiling --out o --replace";
    let measures = |running: &mut Running| {
        running.await_stderr(LIMIT, |text| text.contains("s  ").then_some(()));
    };
    let mut running = rig.start(&format!("run null:1g {long}"));
    measures(&mut running);
    running.signal(Signal::KILL);
    running.finish(LIMIT);
    assert_eq!(rig.kept("o"), before);
    let mut serves = rig.start("serve --nbd 127.0.0.1:0 --volume d=ram:8m");
    let address = serves.await_stdout(LIMIT, |text| {
        Some(text.split_once('\n')?.0.rsplit_once("nbd=")?.1.to_owned())
    });
    let mut running = rig.start(&format!("run nbd://{address}/d {long}"));
    measures(&mut running);
    serves.signal(Signal::KILL);
    let ended = running.finish(LIMIT);
    assert!(matches!(ended.code, Some(1 | 6)), "{ended:?}");
    assert_eq!(rig.kept("o"), before, "{ended:?}");
    assert!(ended.stderr.contains("o keeps its old result: the incomplete"), "{ended:?}");
    // A user who ends a run in its ramp has noticed a mistake.
    let args = "run null:1g --seconds 100 --ramp 100 --no-ceiling --out o --replace";
    let mut running = rig.start(args);
    running.await_stderr(LIMIT, |text| text.contains("keeps its old result").then_some(()));
    running.signal(Signal::INT);
    let ended = running.finish(LIMIT);
    assert_eq!(rig.kept("o"), before, "{ended:?}");
    // After a measured second there is a result that may replace the old one.
    let mut running = rig.start(&format!("run null:1g --size 8k {long}"));
    measures(&mut running);
    running.signal(Signal::INT);
    let ended = running.finish(LIMIT);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    let result = rig.json(Path::new("o/result.json"));
    assert!(result["partial"].as_str().is_some_and(|why| why.contains("interrupted")), "{result}");
    assert_eq!(result["job"]["size_bytes"], 8192);
}

#[test]
fn steps_take_the_place_of_old_ones_together() {
    let Some(rig) = Rig::new() else { return };
    rig.run("run short.fio --out o").ok();
    let before = rig.kept("o");
    assert_eq!(before.len(), 4, "{before:?}");
    let mut running = rig.start("run long.fio --out o --replace");
    let first = |rig: &Rig| {
        rig.incomplete("o").iter().any(|folder| folder.join("step-1/result.json").is_file())
    };
    running.await_that(LIMIT, |_| first(&rig).then_some(()));
    running.signal(Signal::KILL);
    running.finish(LIMIT);
    assert_eq!(rig.kept("o"), before, "no step of one beside one of another");
    rig.run("run short.fio --out o --replace").ok();
    assert!(rig.kept("o").iter().zip(&before).all(|(new, old)| new.0 == old.0 && new.1 != old.1));
    // One step replaces two: both old steps are removed.
    rig.run(&format!("run null:1g {SHORT} --out o --replace")).ok();
    assert!(!rig.at("o/step-1/result.json").exists() && rig.at("o/result.json").is_file());
    rig.run("run short.fio --out o --replace").ok();
    assert!(rig.at("o/step-2/result.json").is_file() && !rig.at("o/result.json").exists());
}

/// The ledger is of the volume, which the new run writes from its start.
#[test]
fn what_a_killed_run_wrote_is_held_against_its_own_ledger() {
    let Some(rig) = Rig::new() else { return };
    fs::File::create(rig.at("img")).unwrap().set_len(4 << 20).unwrap();
    let args = "run file:img --read 0 --verify --ramp 0 --no-ceiling --destroy --out o";
    rig.run(&format!("{args} --seconds 1 --seed 1")).ok();
    let before = fs::read_to_string(rig.at("o/result.json")).unwrap();
    let mut running = rig.start(&format!("{args} --seconds 100 --seed 2 --replace"));
    running.await_stderr(LIMIT, |text| text.contains("s  ").then_some(()));
    running.signal(Signal::KILL);
    running.finish(LIMIT);
    assert_eq!(fs::read_to_string(rig.at("o/result.json")).unwrap(), before);
    let looked = rig.run("run o/job.toml --verify-only").ok();
    assert!(looked.stdout.contains("all acknowledged writes are there"), "{looked:?}");
    rig.run(&format!("{args} --seconds 1 --seed 3 --replace")).ok();
    rig.run("run o/job.toml --verify-only").ok();
    assert_ne!(fs::read_to_string(rig.at("o/result.json")).unwrap(), before);
}

const SWEEP: &str = "sweep null:1g --repeats 1 --ramp 0 --no-ceiling --out s";

#[test]
fn a_sweep_that_comes_to_nothing_costs_no_old_one() {
    let Some(rig) = Rig::new() else { return };
    rig.run(&format!("{SWEEP} --axis outstanding=1,2 --seconds 0.2")).ok();
    let before = rig.kept("s");
    assert!(before.len() >= 4, "{before:?}");
    let sweep = "--axis outstanding=1,2 --repeats 1 --ramp 0 --out s --replace";
    for (args, is_kept) in [
        // No I/O of any cell succeeds; no cell can be run.
        (format!("sweep fault:bad.toml(ram:1m) --seconds 0.2 {sweep}"), true),
        (format!("sweep ram:1m --size 3 --seconds 0.2 {sweep}"), true),
        (format!("sweep ram:1m --size 3 --seconds 0.2 --repeat-as process {sweep}"), true),
        (format!("sweep file:nosuch --seconds 0.2 {sweep}"), false),
    ] {
        let ended = rig.run(&args);
        assert!(![Some(0), None].contains(&ended.code), "{args}: {ended:?}");
        assert_eq!(rig.kept("s"), before, "{args}: {ended:?}");
        assert_eq!(
            ended.stderr.contains("s keeps its old result: the incomplete"),
            is_kept,
            "{ended:?}"
        );
        for folder in rig.incomplete("s") {
            fs::remove_dir_all(folder).unwrap();
        }
    }
    // Interrupted and killed before a run is complete.
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut running = rig.start(&format!("sweep null:1g --size 8k --seconds 60 {sweep}"));
        running.await_stderr(LIMIT, |text| text.contains("[1/2]").then_some(()));
        running.signal(signal);
        let ended = running.finish(LIMIT);
        assert_eq!(rig.kept("s"), before, "{signal:?}: {ended:?}");
    }
    rig.run("report s").ok();
}

#[test]
fn half_a_sweep_that_is_interrupted_takes_the_place_and_goes_on() {
    let Some(rig) = Rig::new() else { return };
    rig.run(&format!("{SWEEP} --axis outstanding=1,2,3 --seconds 0.2")).ok();
    let args = format!("{SWEEP} --axis outstanding=4,5,6 --seconds 1 --replace");
    let mut running = rig.start(&args);
    running.await_stderr(LIMIT, |text| text.contains("[2/3]").then_some(()));
    running.signal(Signal::INT);
    let ended = running.finish(LIMIT);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stderr.contains("to resume: drumfire sweep s\n"), "{ended:?}");
    assert!(rig.incomplete("s").is_empty());
    let old =
        rig.kept("s").iter().any(|(path, _)| path.to_string_lossy().contains("outstanding=1"));
    assert!(!old, "the old cells are no part of it");
    let ended = rig.run("sweep s").ok();
    assert!(ended.stderr.contains("of 3 runs already done"), "{ended:?}");
}

#[test]
fn half_a_sweep_that_is_killed_goes_on_and_takes_the_place_at_its_end() {
    let Some(rig) = Rig::new() else { return };
    rig.run(&format!("{SWEEP} --axis outstanding=1,2,3 --seconds 0.2")).ok();
    for way in ["connection", "process"] {
        let before = rig.kept("s");
        let args = "sweep null:1g --repeats 1 --ramp 0 --no-ceiling --axis outstanding=4,5,6 \
            --seconds 1 --out s --replace";
        let mut running = rig.start(&format!("{args} --repeat-as {way}"));
        running.await_stderr(LIMIT, |text| text.contains("[2/3]").then_some(()));
        running.signal(Signal::KILL);
        running.finish(LIMIT);
        assert_eq!(rig.kept("s"), before, "{way}");
        let [folder] = &rig.incomplete("s")[..] else { panic!("{way}") };
        let folder = format!("s/{}", folder.file_name().unwrap().to_str().unwrap());
        // A run in a separate process outlives the sweep, which is waited for.
        let mut patience = Patience::new(LIMIT);
        let ended = loop {
            let ended = rig.run(&format!("sweep {folder}"));
            if ended.code != Some(2) {
                break ended.ok();
            }
            assert!(ended.stderr.contains("wait until it ends"), "{ended:?}");
            assert!(patience.wait(), "{ended:?}");
        };
        assert!(ended.stderr.contains("of 3 runs already done"), "{ended:?}");
        assert!(ended.stdout.contains("saved in s\n"), "{ended:?}");
        assert!(rig.incomplete("s").is_empty());
        let document = rig.json(Path::new("s/sweep.json"));
        let done = document["cells"].as_array().unwrap().iter();
        assert!(done.clone().all(|cell| cell["runs"].as_array().unwrap().len() == 1), "{document}");
        assert!(rig.kept("s").iter().all(|(path, _)| !path.ends_with("001-outstanding=1")));
        rig.run("report s --as csv").ok();
    }
}

/// Logs are named by their final path.
#[test]
fn logs_of_a_sweep_are_where_its_jobs_say() {
    let Some(rig) = Rig::new() else { return };
    rig.folder
        .file("log.fio", b"[a]\nioengine=null\nsize=1g\nruntime=1\ntime_based\nwrite_bw_log=l\n");
    for (replace, way) in
        [("", "connection"), ("--replace", "connection"), ("--replace", "process")]
    {
        let args = format!(
            "sweep log.fio --axis outstanding=1,2 --repeats 1 --out s --repeat-as {way} {replace}"
        );
        let ended = rig.run(&args).ok();
        let path = Path::new("s/001-outstanding=1");
        let result = rig.json(&path.join("result.json"));
        let name = result["spec"]["steps"][0]["groups"][0]["logs"]["bandwidth"].as_str().unwrap();
        assert_eq!(name, "s/001-outstanding=1/l", "{ended:?}");
        assert!(rig.at(&format!("{name}_bw.1.log")).is_file(), "{ended:?}");
        rig.run(&format!("run {}/job.toml --out again-{way}{replace}", path.display())).ok();
    }
}
