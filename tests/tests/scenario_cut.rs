//! An interrupted scenario is resumed, at any step and after any kind of interruption; two in one
//! folder do not interfere.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Running};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// A step of each kind, and a row for each live one.
const KINDS: &str = r#"
name = "kinds"
title = "a step of each kind"
source = "nobody"
scaled = "nothing"
[[step]]
id = "simulate"
way = "modelled"
run = ["simulate", "x25-m", "--seconds", "1"]
[[step]]
id = "run"
way = "live"
run = ["run", "ram:4m", "--ramp", "0.1"]
[[step]]
id = "served"
way = "live"
clients = 2
serve = ["--iscsi", "127.0.0.1:0", "--volume", "disk=ram:4m"]
run = ["run", "iscsi://{iscsi}/iqn.2026-11.io.drumfire:disk/1", "--ramp", "0.3"]
[[step]]
id = "race"
way = "live"
run = ["race", "--targets", "2", "--volumes", "1", "--volume-size", "4m", "--ramp", "0.1"]
[[step]]
id = "sweep"
way = "live"
run = ["sweep", "ram:4m", "--axis", "outstanding=1,2,4", "--repeats", "1", "--ramp", "0"]
[[step]]
id = "job"
way = "live"
run = ["run", "make.fio"]
[step.files]
"make.fio" = """
[global]
size=8m
rw=read
bs=1m
time_based
[db]
numjobs=2
"""
[[step]]
id = "backup"
way = "live"
run = ["backup", "delay:slow.toml(file:../job/db.0.0?direct=0)", "--to", "out.bak"]
[step.files]
"slow.toml" = """
name = "4 MB/s"
[[stage]]
name = "bytes"
servers = 1
read = { per_byte_s = 250e-9 }
write = { per_byte_s = 250e-9 }
shape = "fixed"
"""
[[row]]
id = "run"
figure = "f"
published = 1.0
unit = "IOPS"
live = { step = "run", at = "/totals/iops" }
[[row]]
id = "sweep"
figure = "f"
published = 1.0
unit = "IOPS"
live = { step = "sweep", at = "/cells/2/iops/median" }
[[row]]
id = "backup"
figure = "f"
published = 1.0
unit = "MiB/s"
live = { step = "backup", at = "/totals/source_mib_per_second" }
"#;
const STEPS: [&str; 7] = ["simulate", "run", "served", "race", "sweep", "job", "backup"];
const ARGS: &str = "scenario run kinds.toml --seconds 1 --out kept --json";

/// Content of the file of a step.
fn kept(folder: &Folder, step: &str) -> Option<Value> {
    let text = std::fs::read(folder.path().join(format!("kept/kinds/{step}.json"))).ok()?;
    Some(serde_json::from_slice(&text).expect("it is written whole"))
}

#[test]
fn a_scenario_that_is_cut_in_each_step_does_none_twice() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("kinds.toml", KINDS.as_bytes());
    for (at, step) in STEPS.into_iter().enumerate() {
        let done: Vec<Option<Value>> = STEPS.map(|step| kept(&folder, step)).into();
        let mut running = Running::start(&mut drumfire.command(folder.path(), ARGS));
        let begins = format!("drumfire: kinds {}/7 {step}\n", at + 1);
        running.await_stderr(LIMIT, |text| text.contains(&begins).then_some(()));
        // Interrupt the step in the middle, if it runs that long.
        std::thread::sleep(Duration::from_millis(300));
        let signal = if at % 2 == 0 { Signal::KILL } else { Signal::INT };
        running.signal(signal);
        let ended = running.finish(LIMIT);
        if signal == Signal::INT && kept(&folder, "backup").is_none() {
            assert_eq!(ended.code, Some(130), "{ended:?}");
            let words =
                "drumfire: to resume: drumfire scenario run kinds.toml --seconds 1 --out kept";
            assert!(ended.stderr.contains(words), "{ended:?}");
        }
        let there = done.iter().flatten().count();
        if there > 0 {
            let words = format!("drumfire: {there} of 7 steps already done\n");
            assert!(ended.stderr.contains(&words), "{ended:?}");
        }
        for (before, step) in done.iter().zip(STEPS).filter(|(before, _)| before.is_some()) {
            assert_eq!(*before, kept(&folder, step), "{step} was done twice");
        }
    }
    // A busy machine may give no figure, with a reason: refused steps are run again.
    let mut tries = (0..5).map(|_| drumfire.run(folder.path(), ARGS, LIMIT));
    let whole = tries.find(|run| run.code == Some(0)).expect("one of five is believed");
    let document = &whole.json()["scenarios"][0];
    for row in document["rows"].as_array().unwrap() {
        let busy = row["reason"].to_string().contains("the host was not quiet");
        assert!(busy || row["live"].as_f64().is_some_and(|live| live > 0.0), "{row}");
    }
    let runs: Vec<&str> = STEPS.map(|step| document["steps"][step]["run"].as_str().unwrap()).into();
    assert!(runs.is_sorted() && runs.first() != runs.last(), "{runs:?}");
    let text = drumfire.run(folder.path(), &ARGS.replace(" --json", ""), LIMIT).ok();
    assert!(text.stdout.contains("live steps are from the run of 20"), "{}", text.stdout);
    drumfire.run(folder.path(), "report kept/scenarios.json --as html", LIMIT).ok();
}

#[test]
fn two_scenarios_take_a_folder_each() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("kinds.toml", KINDS.replace("\"--ramp\", \"0.1\"", "\"--ramp\", \"5\"").as_bytes());
    let mut first = Running::start(&mut drumfire.command(folder.path(), ARGS));
    first.await_stderr(LIMIT, |text| text.contains("kinds 2/7 run").then_some(()));
    let second = drumfire.run(folder.path(), ARGS, LIMIT);
    assert_eq!(second.code, Some(2), "{second:?}");
    assert!(second.stderr.contains("in use by another run"), "{second:?}");
    first.signal(Signal::INT);
    assert_eq!(first.finish(LIMIT).code, Some(130));
    // Without `--out` each run has its own folder.
    let args = "scenario run marvell-modules --modelled";
    let others = [0, 1].map(|_| Running::start(&mut drumfire.command(folder.path(), args)));
    let places = others.map(|other| {
        let ended = other.finish(LIMIT).ok();
        ended.stderr.split("saved in ").nth(1).map(str::to_owned).expect("it says where")
    });
    assert_ne!(places[0], places[1]);
}
