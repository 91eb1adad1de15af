//! Reports of results that are invalid, changed by hand, truncated or of another version, in every
//! format and in comparisons.

use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);

/// A folder with a written file, a hole, and a short run of each.
fn runs(drumfire: &Drumfire) -> Folder {
    let folder = Folder::new();
    folder.file("full", &[7; 1 << 20]);
    std::fs::File::create(folder.path().join("hole")).unwrap().set_len(1 << 20).unwrap();
    for name in ["full", "hole"] {
        let args = format!(
            "run file:{name}?direct=0 --size 4k --seconds 0.3 --ramp 0 --out of-{name} \
             --json-lines {name}.lines"
        );
        let done = drumfire.run(folder.path(), &args, LIMIT).ok();
        assert!(done.stdout.contains(" IOPS measured in "), "{done:?}");
    }
    folder
}

#[test]
fn the_class_of_a_result_travels_with_every_form() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = runs(&drumfire);
    let report = |form: &str| {
        drumfire.run(folder.path(), &format!("report of-hole --as {form}"), LIMIT).ok().stdout
    };
    let why = "invalid: reads of blocks never written (H02)";
    let text = report("text");
    let first = text.lines().next().unwrap();
    assert!(first.ends_with(why), "{text}");
    assert!(text.contains("\n           fix: drumfire run "), "{text}");
    let fio: Value = serde_json::from_str(&report("fio")).unwrap();
    let job = &fio["jobs"][0];
    assert_eq!((&job["error"], &job["drumfire"]["class"]), (&json!(0), &json!("invalid")));
    assert_eq!(job["drumfire"]["checks"]["H02"], "fail");
    let iometer = report("iometer");
    assert!(
        iometer.contains(&format!("\n'Class: {why}\n'Checks not passed: H02 fail")),
        "{iometer}"
    );
    let csv = report("csv");
    assert!(csv.lines().count() > 1, "{csv}");
    assert!(csv.lines().skip(1).all(|row| row.contains(",measured,,invalid,")), "{csv}");
    assert!(report("hlog").contains(&format!("\n#[Class: {why}]\n")), "{}", report("hlog"));
    let html = report("html");
    assert!(html.contains(why), "{html}");
    let lines = std::fs::read_to_string(folder.path().join("hole.lines")).unwrap();
    let end: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&end["type"], &end["class"]), (&json!("end"), &json!("invalid")), "{end}");
    assert_eq!(end["totals"]["errors"], 0);
}

#[test]
fn what_is_invalid_is_not_compared_and_one_run_has_no_interval() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = runs(&drumfire);
    let both = drumfire.run(folder.path(), "compare of-full of-hole", LIMIT);
    assert_eq!(both.code, Some(3), "{both:?}");
    let said = &both.stdout;
    assert!(said.contains("NOT COMPARABLE, the second side: invalid: "), "{said}");
    assert!(said.contains("\n  volume: file:full?direct=0 → file:hole?direct=0\n"), "{said}");
    assert!(said.contains(" → invalid: "), "{said}");
    for word in ["higher", "lower", "unchanged"] {
        assert!(!said.contains(word), "{said}");
    }
    assert!(said.contains("no interval: one run each"), "{said}");
    assert!(said.contains("drumfire sweep of-full/job.toml --repeats 5"), "{said}");
    let json = drumfire.run(folder.path(), "compare of-full of-hole --json", LIMIT);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    let compared = &document["comparisons"][0];
    assert_eq!(compared["comparable"], false);
    assert!(!compared["invalid"].as_array().unwrap().is_empty(), "{compared}");
    for figure in compared["figures"].as_array().unwrap() {
        assert_eq!(
            (&figure["verdict"], &figure["ratio_range"]),
            (&json!("cannot-tell"), &Value::Null)
        );
    }
}

/// Changes a document by hand.
fn changed(from: &Path, to: &Path, change: impl FnOnce(&mut Value)) {
    let mut document: Value = serde_json::from_slice(&std::fs::read(from).unwrap()).unwrap();
    change(&mut document);
    std::fs::write(to, document.to_string()).unwrap();
}

#[test]
fn results_that_were_changed_cut_or_made_by_others_are_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = runs(&drumfire);
    let original = folder.path().join("of-full/result.json");
    let change = |name: &str, change: fn(&mut Value)| {
        changed(&original, &folder.path().join(name), change);
    };
    change("rate.json", |r| r["totals"]["iops"] = json!(5e6));
    change("class.json", |r| r["class"] = json!("publishable"));
    change("seed.json", |r| r["seed"] = json!(7));
    change("cleared.json", |r| {
        r["checks"].as_array_mut().unwrap().iter_mut().for_each(|it| it["verdict"] = json!("pass"));
        r["class"] = json!("publishable");
    });
    change("fewer.json", |r| r["checks"].as_array_mut().unwrap().retain(|it| it["code"] != "H01"));
    change("job.json", |r| r["job"]["outstanding"] = json!(1));
    change("open.json", |r| drop(r.as_object_mut().unwrap().remove("digest")));
    change("empty.json", |r| r["digest"] = json!(""));
    change("host.json", |r| r["host"]["name"] = json!("anybody"));
    change("slow.json", |r| r["totals"]["latency_ns"]["p50"] = json!(1));
    change("newer.json", |r| r["schema_version"] = json!(999));
    change("earlier.json", |r| r["schema_version"] = json!(1));
    let text = std::fs::read(&original).unwrap();
    folder.file("cut.json", &text[..text.len() / 2]);
    for (args, words) in [
        ("report rate.json", "totals.iops says 5.00M, its "),
        ("report class.json --as json", "its class says publishable, its checks come to "),
        ("report seed.json", "its digest does not match its figures"),
        // The host's load decides which of two reasons is given.
        ("report cleared.json --as html", "the file was changed since it was made"),
        ("report fewer.json --as csv", "check H01 appears 0 times, expected once"),
        ("compare job.json of-full", "its digest does not match its figures"),
        ("report empty.json", "its digest does not match its figures"),
        ("report slow.json --as fio", "totals.latency_ns says p50 1 ns, its histogram "),
        ("compare of-full rate.json", "the file was changed since it was made"),
        ("report newer.json", "it has layout 999 of drumfire "),
        ("report cut.json", "it ends at line"),
        ("compare earlier.json of-full", "measure it again with this version"),
    ] {
        let done = drumfire.run(folder.path(), args, LIMIT);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{args}: {done:?}");
        assert!(done.stderr.contains(words), "{args}: {done:?}");
        assert_eq!(done.stderr.trim_end().lines().count(), 1, "{args}: {done:?}");
    }
    // Whether it was changed is unknown: it is shown, and never for publication.
    let open = drumfire.run(folder.path(), "report open.json", LIMIT).ok();
    assert!(open.stdout.contains("it has no digest"), "{open:?}");
    assert!(!open.stdout.contains("publishable"), "{open:?}");
    let host = drumfire.run(folder.path(), "report host.json", LIMIT).ok();
    assert!(!host.stdout.contains("digest"), "{host:?}");
    let earlier = drumfire.run(folder.path(), "report earlier.json", LIMIT).ok();
    assert!(earlier.stdout.contains("made by an earlier version (layout 1)"), "{earlier:?}");
}

#[test]
fn a_sweep_whose_figures_are_not_those_of_its_runs_is_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "sweep null:1g --seconds 0.2 --ramp 0 --repeats 1 --axis size=512,4k --out s";
    let table = drumfire.run(folder.path(), args, LIMIT).ok().stdout;
    let row = table.lines().nth(1).unwrap();
    assert!(row.contains(" 1/1 × ") && row.ends_with(')'), "{table}");
    let path = folder.path().join("s/sweep.json");
    changed(&path, &path, |sweep| sweep["cells"][1]["runs"][0]["iops"] = json!(9e9));
    let done = drumfire.run(folder.path(), "report s", LIMIT);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("one of them was changed after the run"), "{done:?}");
}
