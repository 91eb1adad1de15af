//! `--trace`: activity of the cores of a run, as a file for Perfetto.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);

/// The events of a file, by their kind.
fn events(path: &Path) -> (Value, BTreeMap<String, Vec<Value>>) {
    let text = std::fs::read(path).unwrap();
    let mut document: Value = serde_json::from_slice(&text).unwrap();
    let mut by_kind: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for event in document["traceEvents"].take().as_array().unwrap() {
        let kind = event["ph"].as_str().unwrap().to_owned();
        by_kind.entry(kind).or_default().push(event.clone());
    }
    (document["otherData"].take(), by_kind)
}

/// Slices of a core: name, beginning and end in nanoseconds.
fn slices(events: &BTreeMap<String, Vec<Value>>, cpu: u64) -> Vec<(String, u64, u64)> {
    let ns = |value: &Value| (value.as_f64().unwrap() * 1e3).round() as u64;
    let all = events["X"].iter().filter(|event| event["tid"] == cpu + 1);
    let slice = |event: &Value| {
        let start = ns(&event["ts"]);
        (event["name"].as_str().unwrap().to_owned(), start, start + ns(&event["dur"]))
    };
    all.map(slice).collect()
}

/// Share of the time that the outermost slices cover; checks that each slice is within its parent.
fn covered(slices: &[(String, u64, u64)]) -> f64 {
    let mut open: Vec<u64> = Vec::new();
    let (mut sum, mut until) = (0, 0);
    for (name, start, end) in slices {
        assert!(start <= end, "{name}");
        while open.last().is_some_and(|above| above <= start && (above < end || start == end)) {
            open.pop();
        }
        match open.last() {
            Some(above) => assert!(end <= above, "{name} at {start} ends after what holds it"),
            None => {
                assert!(["workers", "turn"].contains(&name.as_str()), "{name} is in nothing");
                assert!(*start >= until, "{name} at {start} overlaps what was before");
                sum += end - start;
                until = *end;
            }
        }
        open.push(*end);
    }
    sum as f64 / (until - slices[0].1) as f64
}

#[test]
fn slices_nest_and_cover_the_time() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    std::fs::write(folder.path().join("disk"), vec![7; 16 << 20]).unwrap();
    // A slow drive, so that there is room for all of it; a file; and both ends on one thread.
    for (name, args) in [
        ("slow", "run delay:x25-m(ram:64m) --outstanding 4 --trace 500ms:slow.json"),
        ("file", "run file:disk --size 4k --outstanding 16 --trace 500ms:file.json"),
        ("race", "race --targets 2 --volumes 1 --volume-size 1m --trace 500ms:race.json"),
    ] {
        let args = format!("{args} --seconds 1 --ramp 0.2 --no-ceiling --out {name} --json");
        let result = run(&args).ok().json();
        let warned = result["warnings"].to_string();
        assert!(warned.contains("--trace"), "{warned}");
        let (told, events) = events(&folder.path().join(format!("{name}.json")));
        let core = &told["cores"][0];
        let slices = slices(&events, core["cpu"].as_u64().unwrap());
        assert_eq!(slices.len() as u64, core["slices"].as_u64().unwrap(), "{name}");
        assert!(core["slices_left_out"].is_u64(), "{name}");
        let share = covered(&slices);
        assert!((0.8..=1.0).contains(&share), "{name}: slices cover {share} of the time");
        let has = |what: &str| slices.iter().any(|(name, ..)| name == what);
        assert!(has("poll") && has("submit"), "{name}");
        // Every I/O shown has both its ends, and began before that.
        let (begun, ended) = (&events["b"], &events["e"]);
        assert!(!begun.is_empty() && begun.len() == ended.len(), "{name}");
        for (begun, ended) in begun.iter().zip(ended) {
            assert_eq!(begun["id"], ended["id"]);
            assert!(begun["ts"].as_f64() <= ended["ts"].as_f64(), "{begun} {ended}");
        }
        let rates = events["C"].iter().filter(|event| event["name"] == "IOPS");
        let rates: Vec<f64> = rates.map(|rate| rate["args"]["value"].as_f64().unwrap()).collect();
        assert!(rates.iter().any(|rate| *rate > 0.0), "{name}");
        match name {
            "slow" => assert!(has("sleep") || has("wait")),
            "file" => assert!(has("kernel")),
            _ => {}
        }
    }
}

#[test]
fn the_file_is_in_the_folder_unless_it_is_named() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    // Longer than the run is as long as the run.
    let usual = run("run null:1g --seconds 0.3 --ramp 0 --no-ceiling --trace 1h --out usual");
    assert!(usual.stderr.contains("usual/trace.json in https://ui.perfetto.dev"), "{usual:?}");
    let (told, _) = events(&folder.path().join("usual/trace.json"));
    let seconds = told["cores"][0]["seconds"].as_f64().unwrap();
    assert!((0.2..20.0).contains(&seconds), "{seconds}");
    // More happens than there is room for, and this is reported.
    assert!(told["cores"][0]["slices"].as_u64().unwrap() <= 200_000);
    for (args, why) in [
        ("run null:1g --trace 0", "above 0"),
        ("run null:1g --trace 2s:", "a file name is missing after"),
        ("run null:1g --trace 2s:nowhere/t.json", "its folder does not exist"),
        ("simulate x25-m --trace 2s", "a simulation does not have"),
        ("sweep null:1g --axis outstanding=1,2 --trace 2s", "shows one run"),
    ] {
        let refused = run(args);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(why), "{refused:?}");
    }
    // A trace that cannot be written at the end costs no result.
    let full =
        run("run null:1g --seconds 0.3 --ramp 0 --no-ceiling --trace 1s:/dev/full --out full");
    assert_eq!(full.code, Some(1), "{full:?}");
    assert!(full.stderr.contains("cannot write /dev/full"), "{full:?}");
    assert!(folder.path().join("full/result.json").is_file());
}
