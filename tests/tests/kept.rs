//! Results are safe: none is overwritten by mistake, and a result that does not fit on a full disk
//! is saved elsewhere.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, Running, await_second, require, run, skip};

const LIMIT: Duration = Duration::from_secs(300);
/// The run failed.
const FAILED: Option<i32> = Some(1);
/// Exit code for wrong arguments.
const USAGE: Option<i32> = Some(2);

const SHORT: &str = "--seconds 0.2 --ramp 0 --out same";

fn text(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.path().join(name)).unwrap_or_default()
}

fn refused(finished: &Finished, word: &str) {
    assert_eq!(finished.code, USAGE, "{finished:?}");
    assert!(finished.stderr.contains(word), "{word} in {finished:?}");
    assert_eq!(finished.stdout, "", "{finished:?}");
}

#[test]
fn a_result_is_replaced_only_when_that_is_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), &format!("{args} {SHORT}"), LIMIT);
    run("run null:1g").ok();
    let before = text(&folder, "same/result.json");
    for other in [
        "run null:1g --size 4k --ramp 0",
        "race --targets 1 --volumes 1 --volume-size 1m --ramp 0",
        "simulate x25-m --ramp 0",
        "sweep null:1g --repeats 1 --ramp 0",
        "sweep race --repeats 1 --volume-size 1m --ramp 0",
        "run same/job.toml",
    ] {
        let args = format!("{other} --seconds 0.2 --out same");
        let finished = drumfire.run(folder.path(), &args, LIMIT);
        refused(&finished, "same holds a run, result.json: choose another --out, or add --replace");
        assert_eq!(text(&folder, "same/result.json"), before, "{other}");
    }
    run("run null:1g --size 4k --replace").ok();
    let after = text(&folder, "same/result.json");
    assert!(after != before && after.contains("\"size_bytes\": 4096"), "{after}");
    // A run may replace the folder that contains its own job.
    drumfire.run(folder.path(), "run same/job.toml --out same --replace", LIMIT).ok();
    refused(&drumfire.run(folder.path(), "run null:1g --replace", LIMIT), "--out");
}

/// Mistakes that show only when volumes are opened, or when the job is checked against them.
#[test]
fn a_wrong_word_costs_no_old_result() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    run("run null:1g --seconds 0.2 --ramp 0 --out one").ok();
    run("sweep null:1g --repeats 1 --seconds 0.2 --ramp 0 --out many").ok();
    let names = ["one/result.json", "one/report.txt", "many/sweep.json"];
    let before = names.map(|name| text(&folder, name));
    assert!(before.iter().all(|text| !text.is_empty()));
    for wrong in [
        "file:nosuch",
        "file:nosuch/either?size=1m",
        "nbd://127.0.0.1:1/d",
        "fault:nosuch.toml(ram:1m)",
        "mirror(ram:1m,file:nosuch)",
        "ram:1m --size 3",
    ] {
        for made in ["run {} --out one", "sweep {} --axis outstanding=1,2 --repeats 1 --out many"] {
            if wrong.ends_with("--size 3") && made.starts_with("sweep") {
                // The first cell cannot be run, but the others can.
                continue;
            }
            let args = made.replace("{}", wrong);
            let ended = run(&format!("{args} --seconds 0.2 --ramp 0 --replace"));
            assert!([USAGE, FAILED].contains(&ended.code), "{args}: {ended:?}");
            assert_eq!(names.map(|name| text(&folder, name)), before, "{args}: {ended:?}");
        }
    }
}

#[test]
fn a_sweep_goes_on_in_its_folder_and_begins_anew_when_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), &format!("{args} {SHORT}"), LIMIT);
    let sweep = "sweep null:1g --axis outstanding=1,2 --repeats 1";
    run(sweep).ok();
    refused(&run("run null:1g"), "same holds a sweep: choose another --out");
    refused(&run("run null:1g --replace"), "same holds a sweep: choose another --out");
    let cell = "same/001-outstanding=1/result.json";
    let before = text(&folder, cell);
    assert!(!before.is_empty(), "it is there");
    let again = run(sweep).ok();
    assert!(again.stderr.contains("2 of 2 runs already done"), "{again:?}");
    assert_eq!(text(&folder, cell), before, "no run is made twice");
    refused(&run(&sweep.replace("1,2", "4,8")), "holds another sweep");
    assert_eq!(text(&folder, cell), before);
    let anew = run(&format!("{sweep} --replace")).ok();
    assert!(!anew.stderr.contains("already"), "{anew:?}");
    assert_ne!(text(&folder, cell), before);
    run(&format!("{} --replace", sweep.replace("1,2", "4,8"))).ok();
    assert!(text(&folder, cell).is_empty(), "the old cell is no part of it");
    let process = format!("{sweep} --repeat-as process --replace");
    run(&process).ok();
}

/// Two runs begin before either has a result.
#[test]
fn of_two_runs_at_once_one_has_the_folder() {
    let Some(drumfire) = Drumfire::find() else { return };
    for kind in [
        "run null:1g",
        "run null:1g --replace",
        "sweep null:1g --repeats 1",
        "race --volume-size 1m",
    ] {
        let folder = Folder::new();
        let args = format!("{kind} --seconds 3 --ramp 0 --out same");
        let start = || Running::start(&mut drumfire.command(folder.path(), &args));
        let both = [start(), start()].map(|run| run.finish(LIMIT));
        assert!(both.iter().any(|run| run.code == Some(0)), "{both:?}");
        let lost = both.iter().find(|run| run.code == USAGE);
        let lost = lost.unwrap_or_else(|| panic!("both ran: {both:?}"));
        // A sweep in progress reports this.
        let begun = kind.starts_with("sweep") && lost.stderr.contains("this sweep is running");
        refused(lost, if begun { "wait until it ends" } else { "in use by another run" });
    }
}

/// Runs without --out that start in the same second have separate folders.
#[test]
fn runs_of_the_same_second_have_their_own_folders() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run null:1m --seconds 0.2 --ramp 0 --json";
    let start = |_| Running::start(&mut drumfire.command(folder.path(), args));
    let all: Vec<Running> = (0..8).map(start).collect();
    all.into_iter().for_each(|run| drop(run.finish(LIMIT).ok()));
    let runs = std::fs::read_dir(folder.path().join("drumfire-runs")).unwrap();
    let kept = runs.flatten().filter(|run| run.path().join("result.json").is_file());
    assert_eq!(kept.count(), 8);
}

/// Folder of a result that was saved elsewhere.
fn elsewhere(finished: &Finished, temporary: &Path) -> serde_json::Value {
    let told = finished.stderr.split_once(" the result is in ");
    let place = told.unwrap_or_else(|| panic!("no place: {finished:?}")).1.lines().next().unwrap();
    assert!(Path::new(place).starts_with(temporary), "{place}");
    let text = std::fs::read_to_string(Path::new(place).join("result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The folder of the result disappears during the run.
#[test]
fn a_result_without_its_folder_is_kept_elsewhere() {
    let Some(drumfire) = Drumfire::find() else { return };
    for form in ["", "--json"] {
        let (folder, temporary) = (Folder::new(), Folder::new());
        let args = format!("run null:1g --rate 1000 --seconds 3 --ramp 0 --out o {form}");
        let mut command = drumfire.command(folder.path(), &args);
        command.env("TMPDIR", temporary.path()).args(["--json-lines", "lines"]);
        let mut running = Running::start(&mut command);
        await_second(&mut running, &folder.path().join("lines"));
        std::fs::remove_dir(folder.path().join("o")).unwrap();
        let finished = running.finish(LIMIT);
        assert_eq!(finished.code, FAILED, "{finished:?}");
        assert!(finished.stderr.contains("cannot write o/result.json"), "{finished:?}");
        let result = elsewhere(&finished, temporary.path());
        assert!(result["totals"]["ios"].as_f64().unwrap() > 2000.0, "{result}");
        assert!(!finished.stdout.is_empty(), "it is printed as well");
        assert!(!finished.stdout.contains("saved in"), "{finished:?}");
    }
}

/// A file system with a few free kilobytes.
struct Small(Folder);

impl Small {
    fn mount() -> Option<Small> {
        let mount = require("mount")?;
        let folder = Folder::new();
        let mut command = Command::new(mount);
        command.args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(folder.path());
        if run(&mut command, LIMIT).code != Some(0) {
            skip("a file system cannot be mounted here");
            return None;
        }
        Some(Small(folder))
    }

    /// Leaves no room.
    fn fill(&self) {
        let _ = std::fs::write(self.0.path().join("filler"), vec![1; 1 << 20]);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_fills_up_loses_no_result() {
    let (Some(drumfire), Some(small)) = (Drumfire::find(), Small::mount()) else { return };
    let (folder, temporary) = (Folder::new(), Folder::new());
    let (out, lines) = (small.0.path().join("o"), small.0.path().join("lines"));
    let args = "run null:1g --rate 1000 --seconds 4 --ramp 0 --json";
    let mut command = drumfire.command(folder.path(), args);
    command.arg("--out").arg(&out).arg("--json-lines").arg(&lines);
    let mut running = Running::start(command.env("TMPDIR", temporary.path()));
    await_second(&mut running, &lines);
    small.fill();
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, FAILED, "{finished:?}");
    assert!(finished.stderr.contains("No space left"), "{finished:?}");
    elsewhere(&finished, temporary.path());
    // No half of a line stays.
    let text = std::fs::read_to_string(&lines).unwrap();
    assert!(text.ends_with("}\n"), "{text}");
    let whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    assert!(text.lines().all(whole), "{text}");
}

#[test]
fn lines_that_nothing_takes_are_an_error() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run null:1g --seconds 1 --ramp 0 --json-lines";
    let finished = drumfire.run(folder.path(), &format!("{args} /dev/full"), LIMIT);
    assert_eq!(finished.code, FAILED, "{finished:?}");
    let told = "--json-lines /dev/full: 3 lines are missing: No space left on device";
    assert!(finished.stderr.contains(told), "{finished:?}");
    // The run itself is as good as any.
    assert!(folder.result().is_some(), "{finished:?}");
    assert!(finished.stdout.contains("saved in"), "{finished:?}");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = drumfire.command(folder.path(), &format!("{args} -"));
    let done = command.stdout(full).stderr(std::process::Stdio::null()).status().unwrap();
    assert_eq!(done.code(), FAILED);
    // Steps and cells continue without their lines, and the loss is reported at the end.
    let sweep = "sweep null:1g --axis outstanding=1,2 --repeats 1 --seconds 0.2 --ramp 0 --out s";
    let swept = drumfire.run(folder.path(), &format!("{sweep} --json-lines /dev/full"), LIMIT);
    assert_eq!(swept.code, FAILED, "{swept:?}");
    assert!(folder.path().join("s/002-outstanding=2/result.json").is_file(), "{swept:?}");
}

/// No file may be written (`ulimit -f 0`): the printed output is the only copy.
#[test]
fn a_result_that_nothing_takes_is_printed() {
    let (Some(drumfire), Some(shell)) = (Drumfire::find(), require("sh")) else { return };
    let folder = Folder::new();
    let path = drumfire.path().display();
    for (form, lines) in [("", false), ("--json-lines -", true)] {
        let script = format!(
            "ulimit -f 0; exec {path} run null:1g --seconds 1 --ramp 0 --out o {form} | cat"
        );
        let mut command = Command::new(&shell);
        let finished = run(command.arg("-c").arg(script).current_dir(folder.path()), LIMIT);
        assert!(finished.stderr.contains("File too large"), "{finished:?}");
        assert!(finished.stderr.contains("this output is the only copy"), "{finished:?}");
        let out = if lines { &finished.stderr } else { &finished.stdout };
        assert!(out.contains("IOPS"), "{finished:?}");
    }
}
