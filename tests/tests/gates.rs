//! Bounds of `--fail-if`: missed bounds, and the agreement of every report with the exit code.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Chance, Drumfire, Finished, Folder, check};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
/// A bound was crossed.
const MISSED: i32 = 4;
/// Reads of a moment.
const SHORT: &str = "--size 4k --seconds 0.3 --ramp 0 --no-ceiling --destroy";

/// A volume that fails one read, after half a second of use.
fn one_error(folder: &Folder) -> String {
    let text = "name = 'one'\nseed = 3\n[[fault]]\nverb = 'error'\nop = 'read'\nafter_s = 0.5\n\
                count = 1\n";
    format!("fault:{}(ram:16m)", folder.file("one.toml", text.as_bytes()).display())
}

fn hole(folder: &Folder) -> String {
    let path = folder.file("hole", b"");
    File::options().write(true).open(&path).unwrap().set_len(64 << 20).unwrap();
    format!("file:{}", path.display())
}

fn document(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn an_error_in_one_of_ten_repeats_is_missed() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let volume = one_error(&folder);
    let args =
        format!("sweep {volume} {SHORT} --rate 2000 --repeats 10 --out s --fail-if errors>0");
    let swept = run(&args);
    // A failed I/O has its own exit code.
    assert_eq!(swept.code, Some(1), "{swept:?}");
    let why = "fail if errors>0: 1 error in 1 of 10 runs";
    assert!(swept.stderr.contains(&format!("MISSED: {why}")), "{swept:?}");
    let document = document(&folder.path().join("s/sweep.json"));
    let runs = document["cells"][0]["runs"].as_array().unwrap().iter();
    let errors: u64 = runs.map(|run| run["errors"].as_u64().unwrap()).sum();
    assert_eq!(errors, 1, "{document}");
    let bound = &document["gates"][0];
    assert_eq!((&bound["bound"], &bound["verdict"]), (&"errors>0".into(), &"missed".into()));
    for args in ["report s", "compare s s"] {
        let told = run(&format!("{args} --fail-if errors>0"));
        assert_eq!(told.code, Some(MISSED), "{told:?}");
        assert!(told.stderr.contains(why), "{told:?}");
        let told = run(&format!("{args} --fail-if errors>1"));
        assert_eq!(told.code, Some(0), "{told:?}");
    }
    // The maximum of all runs decides, too: the median is far below.
    let longest = run("report s --fail-if max>1us").stderr;
    assert!(longest.contains(", the most of 10 runs"), "{longest}");
}

#[test]
fn no_result_that_means_something_else_keeps_a_bound() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let judged = |volume: &str| run(&format!("run {volume} {SHORT} --fail-if iops<1"));
    let missed = judged(&hole(&folder));
    assert_eq!(missed.code, Some(MISSED), "{missed:?}");
    assert!(missed.stderr.contains("IOPS; the result is invalid: "), "{missed:?}");
    let missed = judged("null:1g");
    assert_eq!(missed.code, Some(MISSED), "{missed:?}");
    assert!(missed.stderr.contains("null:1g stores nothing"), "{missed:?}");
    // A user who requests an emulated drive gets its figures.
    for asked in ["ram:16m", "delay:x25-m(ram:16m)", "fault:one.toml(ram:16m)"] {
        one_error(&folder);
        let kept = judged(asked);
        assert_eq!(kept.code, Some(0), "{asked}: {kept:?}");
        assert!(kept.stderr.contains("kept: fail if iops<1: "), "{kept:?}");
    }
    run("simulate x25-m --size 4k --seconds 1 --fail-if iops<1").ok();
    let swept = "--axis volume=null:1g,ram:16m --repeats 2 --out s --fail-if iops<1";
    let swept = run(&format!("sweep ram:16m {SHORT} {swept}"));
    assert_eq!(swept.code, Some(MISSED), "{swept:?}");
    assert!(swept.stderr.contains("MISSED: volume=null:1g fail if iops<1"), "{swept:?}");
    assert!(swept.stderr.contains("kept: volume=ram:16m fail if iops<1"), "{swept:?}");
    let sure = "of 2 runs (50 % confidence; 6 runs give 95 %)";
    assert_eq!(swept.stderr.matches(sure).count(), 2, "{swept:?}");
}

#[test]
fn what_cannot_be_told_is_missed_unless_it_is_ignored() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let few = format!("run ram:16m {SHORT} --rate 1000 --fail-if p99.99>9s");
    let missed = run(&few);
    assert_eq!(missed.code, Some(MISSED), "{missed:?}");
    let why = "MISSED: fail if p99.99>9s: cannot tell: too few I/Os";
    assert!(missed.stderr.contains(why), "{missed:?}");
    let ignored = run(&format!("{few} --fail-if-unknown=ignore --out r")).ok();
    let why = "drumfire: cannot tell: fail if p99.99>9s: too few I/Os";
    assert!(ignored.stderr.contains(why), "{ignored:?}");
    let result = document(&folder.path().join("r/result.json"));
    assert_eq!(result["gates"][0]["verdict"], "unknown", "{result}");
    let junit = run("report r --as junit").ok().stdout;
    assert!(junit.contains("<skipped message=\"cannot tell: too few I/Os"), "{junit}");
    // A baseline that is a copy of what is held against it keeps no bound.
    let copied = folder.path().join("copied");
    std::fs::create_dir(&copied).unwrap();
    for entry in std::fs::read_dir(folder.path().join("r")).unwrap().flatten() {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), copied.join(entry.file_name())).unwrap();
        }
    }
    let same = run("compare r copied --fail-if iops<-3%");
    assert!(matches!(same.code, Some(3 | MISSED)), "{same:?}");
    assert!(same.stdout.contains("are copies of the first side's runs"), "{same:?}");
    // A comparison of one run each decides nothing.
    let compared = run("compare r r --fail-if iops<-3%");
    assert_eq!(compared.code, Some(MISSED), "{compared:?}");
    run("compare r r --fail-if iops<-3% --fail-if-unknown=ignore").ok();
    let compared = run("compare r r --json --fail-if iops<-3%");
    assert_eq!(compared.json()["gates"][0]["verdict"], "missed", "{compared:?}");
    let page = run("compare r r --as markdown --fail-if iops<-3%").stdout;
    assert!(page.contains("| MISSED |"), "{page}");
}

#[test]
fn a_sweep_that_is_taken_up_keeps_its_bounds() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let args = format!("sweep ram:16m {SHORT} --repeats 2 --out s --fail-if iops<1000G");
    assert_eq!(run(&args).code, Some(MISSED));
    let again = run("sweep s --destroy");
    assert_eq!(again.code, Some(MISSED), "{again:?}");
    assert!(again.stderr.contains("MISSED: fail if iops<1000G"), "{again:?}");
    let other = run("sweep s --destroy --fail-if iops<1");
    assert_eq!(other.code, Some(0), "{other:?}");
    let document = document(&folder.path().join("s/sweep.json"));
    assert_eq!(document["gates"][0]["bound"], "iops<1", "{document}");
    // Showing is not judging.
    run("report s").ok();
}

#[test]
fn a_mirror_that_lost_a_leg_says_so_on_the_first_line() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let text = "name = 'leg'\nseed = 3\n[[fault]]\nverb = 'error'\nop = 'write'\nafter_s = 0.2\n\
                sticky = true\n";
    folder.file("leg.toml", text.as_bytes());
    let uri = "mirror(ram:16m,fault:leg.toml(ram:16m))";
    // The leg fails in the ramp: one leg is measured.
    let args = format!("run {uri} --size 4k --read 50 --seconds 1 --ramp 1 --no-ceiling --out r");
    let told = drumfire.run(folder.path(), &args, LIMIT).ok();
    let result = document(&folder.path().join("r/result.json"));
    let (verdict, evidence) = check(&result, "H21");
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(evidence.contains("mirror: leg 2 (fault:leg.toml(ram:16m)) left: write"), "{evidence}");
    let first = told.stdout.lines().next().unwrap();
    let has_failed = |check: &Value| check["verdict"] == "fail";
    match result["checks"].as_array().unwrap().iter().any(has_failed) {
        // A stall of the host is reported first.
        true => assert!(first.contains(", invalid: "), "{first}"),
        false => assert!(first.ends_with("indicative: a mirror lost a leg (H21)"), "{first}"),
    }
    let whole = "run mirror(ram:16m,ram:16m) --size 4k --read 50 --seconds 0.5 --ramp 0 --json";
    let whole = drumfire.run(folder.path(), whole, LIMIT).ok().json();
    assert_eq!(check(&whole, "H21").0, "pass");
}

/// Bounds that are met, then some that are missed or cannot be decided.
const BOUNDS: [&str; 9] = [
    "iops<1",
    "bw<1B/s",
    "errors>0",
    "max>100s",
    "mean>100s",
    "read.iops<1",
    "iops<1000G",
    "max>1ns",
    "p99.99>1ns",
];

#[test]
fn every_report_says_what_the_exit_code_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let seed = 42;
    let mut chance = Chance(seed);
    let hole = hole(&folder);
    let (ram, delay) = ("ram:16m", "delay:x25-m(ram:16m)");
    let volumes = [ram, ram, ram, ram, delay, delay, "null:1g", &hole];
    let (mut codes, rounds) = ([0; 2], 30);
    for round in 0..rounds {
        let mut pick = |of: &[&str]| of[chance.below(of.len() as u64) as usize].to_owned();
        let how = pick(&["run", "run", "sweep"]);
        let volume = pick(&volumes);
        let mut args = format!("{how} {volume} --size 4k --seconds 0.2 --ramp 0 --no-ceiling");
        args += &format!(" --rate 2000 --destroy --out {round}");
        if how == "sweep" {
            args += &pick(&[" --repeats 1", " --repeats 2", " --repeats 3 --axis size=4k,8k"]);
        }
        for _ in 0..=pick(&["0", "1", "2"]).parse::<u32>().unwrap() {
            args += &format!(" --fail-if {}", pick(&BOUNDS));
        }
        args += &pick(&["", " --fail-if-unknown=ignore"]);
        let made = drumfire.run(folder.path(), &args, LIMIT);
        let is_missed = made.code == Some(MISSED);
        codes[usize::from(is_missed)] += 1;
        let told = format!("round {round} of seed {seed}: {args}: {made:?}");
        assert!(is_missed || made.code == Some(0), "{told}");
        assert_eq!(made.stderr.contains("drumfire: MISSED: "), is_missed, "{told}");
        agree(&drumfire, &folder, round, is_missed, &told);
    }
    assert!(codes.iter().all(|count| *count >= 5), "{codes:?}");
}

/// Checks that all reports of a folder agree.
fn agree(drumfire: &Drumfire, folder: &Folder, name: usize, is_missed: bool, told: &str) {
    let report = |form: &str| -> Finished {
        drumfire.run(folder.path(), &format!("report {name} --as {form}"), LIMIT).ok()
    };
    let document = report("json").json();
    let bounds = document["gates"].as_array().unwrap_or_else(|| panic!("no bounds: {told}"));
    let missed = bounds.iter().filter(|bound| bound["verdict"] == "missed").count();
    assert_eq!(missed > 0, is_missed, "{told}");
    let counts = |form: &str, word: &str| {
        let text = report(form).stdout;
        assert_eq!(text.matches(word).count(), missed, "{form}: {told}\n{text}");
        text
    };
    counts("text", "\n  MISSED       ");
    counts("markdown", "| MISSED |");
    counts("html", "<td>MISSED</td>");
    let junit = report("junit").stdout;
    let failed = junit.lines().filter(|line| {
        line.contains(" name=\"") && line.contains("fail if ") && line.contains("<failure ")
    });
    assert_eq!(failed.count(), missed, "{told}\n{junit}");
    let cases = junit.lines().filter(|line| line.contains("<testcase "));
    let cases = cases.filter(|line| line.contains("fail if ")).count();
    assert_eq!(cases, bounds.len(), "{told}\n{junit}");
}
