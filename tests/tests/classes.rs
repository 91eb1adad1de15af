//! A result is publishable, indicative or invalid for its own reasons. The file has one test:
//! honesty checks would see a concurrent one as another user of the host.

use std::collections::BTreeMap;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(600);
/// Checks that other work on the host can fail; every other check must pass anywhere.
const OF_THE_HOST: [&str; 7] = ["H06", "H10", "H12", "H13", "H15", "H17", "H20"];

/// Checks that did not pass, with their results.
fn held_against(result: &Value) -> BTreeMap<String, String> {
    let checks = result["checks"].as_array().expect("a list of checks");
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let speaks =
        |check: &&Value| check["verdict"] != "pass" && check["verdict"] != "not-applicable";
    let held = checks.iter().filter(speaks);
    held.map(|check| {
        let said = format!("{}: {}", text(check, "verdict"), text(check, "evidence"));
        (text(check, "code"), said)
    })
    .collect()
}

/// Class of a result whose non-host checks cannot fail, nor all pass: invalid, if a check of the
/// host failed.
fn indicative(result: &Value) -> &'static str {
    let mut class = "indicative";
    for (code, check) in held_against(result).iter().filter(|(_, check)| check.starts_with("fail"))
    {
        assert!(OF_THE_HOST.contains(&code.as_str()), "{check}");
        class = "invalid";
    }
    class
}

#[test]
fn each_class_is_reached_for_its_own_reasons() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT).ok().json();

    // Invalid: the data read was never written.
    std::fs::File::create(folder.path().join("hole")).unwrap().set_len(16 << 20).unwrap();
    let hole = run("run file:hole --size 4k --seconds 1 --ramp 0 --json");
    assert_eq!(hole["class"], "invalid");
    assert!(held_against(&hole)["H02"].starts_with("fail"), "{hole}");
    let said =
        drumfire.run(folder.path(), "run file:hole --size 4k --seconds 1 --ramp 0", LIMIT).ok();
    assert!(said.stdout.contains("not compared with published figures"), "{}", said.stdout);

    // The generator's own rate: its value depends on the machine; the test checks that it is
    // reported.
    let nothing = run("run null:1g --seconds 2 --ramp 0.5 --ceiling --json");
    let rate = |value: &Value| value["iops"].as_f64().unwrap();
    let share = rate(&nothing["totals"]) / rate(&nothing["ceiling"]);
    let h10 = held_against(&nothing).remove("H10").unwrap_or_default();
    let verdict = match share {
        s if s >= 0.95 => "fail",
        s if s > 0.80 => "warn",
        // One CPU that was always busy cannot be halved.
        s if s > 0.40 => "unknown",
        _ => "",
    };
    assert!(h10.starts_with(verdict) && h10.is_empty() == verdict.is_empty(), "{share}: {h10}");
    assert_eq!(nothing["class"], indicative(&nothing), "{nothing}");

    // Five times an emulated drive on which everything was looked at.
    let job = "delay:x25-m(ram:16m) --size 4k --outstanding 8 --verify --seconds 5 --ramp 0.3";
    let sweep = run(&format!("sweep {job} --ceiling --repeats 5 --out s --json"));
    let cell = &sweep["cells"][0];
    let result = |name: &str| -> Value {
        let text = std::fs::read(folder.path().join("s").join(name).join("result.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    };

    // Each repeat is a single measurement: indicative.
    let repeats = cell["runs"].as_array().unwrap();
    assert_eq!(repeats.len(), 5, "{cell}");
    for repeat in repeats {
        let once = result(repeat["folder"].as_str().unwrap());
        assert_eq!(once["class"], indicative(&once), "{once}");
        assert!(held_against(&once)["H20"].starts_with("unknown"), "{once}");
    }

    // Publishable: the median of all.
    let median = result(cell["folder"].as_str().unwrap());
    assert_eq!(median["class"], cell["class"]);
    let held = held_against(&median);
    let ours: Vec<_> =
        held.iter().filter(|(code, _)| !OF_THE_HOST.contains(&code.as_str())).collect();
    assert!(ours.is_empty(), "{ours:?}");
    assert!(held.values().all(|check| !check.starts_with("unknown")), "all were made: {held:?}");
    assert_eq!(cell["class"] == "publishable", held.is_empty(), "{held:?}");
    if !held.is_empty() {
        skip(&format!("no publishable result: the host is not quiet: {held:?}"));
    }
}
