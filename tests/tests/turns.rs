//! `drumfire compare --run`: both sides in turn, and the same answer from the saved results.

use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, run};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);
const TINY: &str = "--seconds 0.2 --ramp 0";

/// Runs `compare` with these arguments, blanks and all.
fn compare(drumfire: &Drumfire, folder: &Folder, args: &[&str]) -> Finished {
    run(drumfire.command(folder.path(), "compare").args(args), LIMIT)
}

#[test]
fn both_sides_are_measured_in_turn_and_compared_again_to_the_same_answer() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &[&str]| compare(&drumfire, &folder, args);
    let (a, b) = (format!("null:1g {TINY} --size 512"), format!("null:1g {TINY} --size 4k"));
    let measured =
        run(&["--run", &a, &b, "--rounds", "3", "--control", "3", "--out", "o", "--json"]);
    let measured = measured.json();
    let again = run(&["o/a", "o/b", "--json"]).json();
    assert_eq!(measured, again);
    let compared = &measured["comparisons"][0];
    assert_eq!(compared["turns"], "rounds");
    let what = |of: &Value| of["what"].as_str().unwrap().to_owned();
    let differences: Vec<String> =
        compared["differences"].as_array().unwrap().iter().map(what).collect();
    assert_eq!(differences, ["size", "access.lines"]);
    assert_eq!(measured["figures_judged"].as_u64().map(|count| count > 3), Some(true));
    // A-B, B-A, A-B.
    let started = |side: &str, repeat: u32| {
        let path = format!("o/{side}/001/repeat-{repeat}/result.json");
        let text = std::fs::read(folder.path().join(path)).unwrap();
        let result: Value = serde_json::from_slice(&text).unwrap();
        result["started"].as_str().unwrap().to_owned()
    };
    let order = [("a", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 3), ("b", 3)];
    let times = order.map(|(side, repeat)| started(side, repeat));
    assert!(times.is_sorted(), "{times:?}");
    assert!(started("control", 6) < times[0]);
    // Figures that differ between equal runs are named in both sweeps, and not as changes.
    for side in ["a", "b"] {
        let path = folder.path().join(format!("o/{side}/sweep.json"));
        let mut sweep: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        sweep["unkept"] = json!(["IOPS"]);
        std::fs::write(&path, sweep.to_string()).unwrap();
    }
    let doubted = run(&["o/a", "o/b"]);
    let line = doubted.stdout.lines().find(|line| line.starts_with("  IOPS")).unwrap();
    assert!(line.ends_with("cannot tell: equal runs in turn differed, too"), "{line}");
}

#[test]
fn what_makes_no_side_is_refused_before_anything_runs() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for (args, says) in [
        (&["null:1g --out x", "null:1g"][..], "--out cannot be used in a side of a comparison"),
        (&["null:1g", "null:1g --fail-if p99>1s"], "--fail-if cannot be used in a side"),
        (&["null:1g --sizzze 4k", "null:1g"], "unexpected argument '--sizzze'"),
        (&["null:1g", "sweep null:1g"], "'sweep' is not a volume"),
        (&["job.toml --size 4k", "null:1g"], "--size cannot be used with job.toml"),
        (
            &["null:1g", "null:1g", "--binary", "a", "--binary", "b", "--binary", "c"],
            "once or twice",
        ),
    ] {
        let args = [&["--run"][..], args].concat();
        let done = compare(&drumfire, &folder, &args);
        assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
        assert!(done.stderr.contains(says), "{args:?}: {done:?}");
    }
    assert!(!folder.path().join("drumfire-runs").exists(), "nothing was begun");
}

#[test]
fn each_side_may_have_a_program_of_its_own() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let side = format!("null:1g {TINY}");
    let ours = drumfire.path().to_str().unwrap();
    let args = ["--run", &side, &side, "--rounds", "1", "--control", "0"];
    let args = [&args[..], &["--out", "o", "--binary", ours, "--binary", "./no-such"]].concat();
    let done = compare(&drumfire, &folder, &args);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("cannot start ./no-such"), "{done:?}");
}
