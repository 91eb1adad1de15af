//! Results of earlier versions are read in all formats, with a note on missing fields, and compared
//! only where the meaning is the same; newer and invalid ones are refused in one line.

use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder};

const LIMIT: Duration = Duration::from_secs(60);
const USAGE: Option<i32> = Some(2);
/// Name, text, and expected report.
type Earlier = (&'static str, &'static str, &'static str);

/// Results of layouts whose figures have another meaning.
const EARLIER: [Earlier; 3] = [
    ("first.json", include_str!("../earlier/layout-1-first.json"), "19.8k IOPS"),
    ("last.json", include_str!("../earlier/layout-1-last.json"), "IOPS"),
    ("sweep.json", include_str!("../earlier/layout-1-sweep.json"), "182k"),
];
/// Layout, a result and its expected report, a sweep and its expected report, and the note on
/// missing fields.
type Before = (u32, &'static str, &'static str, &'static str, &'static str, &'static str);
/// Results with the same figures: of layout 2, which has only the checks that applied, and of 3,
/// which counts flushes as I/Os where there are any, and of 4, which lacks H25 and H26.
const BEFORE: [Before; 3] = [
    (
        2,
        include_str!("../earlier/layout-2.json"),
        "1.57M IOPS",
        include_str!("../earlier/layout-2-sweep.json"),
        "1.10M",
        "made by an earlier version (layout 2): checks that did",
    ),
    (
        3,
        include_str!("../earlier/layout-3.json"),
        "3.77M IOPS",
        include_str!("../earlier/layout-3-sweep.json"),
        "1.82M",
        "",
    ),
    (
        4,
        include_str!("../earlier/layout-4.json"),
        "64.0M IOPS",
        include_str!("../earlier/layout-4-sweep.json"),
        "12.5M",
        "",
    ),
];
/// The layout of today, which has no file here.
const NOW: u64 = 5;

fn refused(finished: &Finished, words: &str) {
    assert_eq!(finished.code, USAGE, "{finished:?}");
    assert!(finished.stderr.contains(words), "{words} in {finished:?}");
    assert_eq!((finished.stderr.lines().count(), &*finished.stdout), (1, ""), "{finished:?}");
}

#[test]
fn results_of_each_earlier_layout_are_read_and_not_compared_with_those_of_now() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    run("run null:1g --seconds 0.5 --ramp 0 --no-ceiling --out now").ok();
    let now = std::fs::read(folder.path().join("now/result.json")).unwrap();
    let now: serde_json::Value = serde_json::from_slice(&now).unwrap();
    assert_eq!(now["schema_version"], NOW, "keep a result of the layout before in tests/earlier");
    for (name, text, shows) in EARLIER {
        let file = match name {
            "sweep.json" => {
                std::fs::create_dir(folder.path().join("swept")).unwrap();
                folder.file("swept/sweep.json", text.as_bytes());
                "swept"
            }
            _ => {
                folder.file(name, text.as_bytes());
                name
            }
        };
        // Cases and tables of a sweep are made of its runs, which are not here.
        let forms = if file == "swept" { 3 } else { 5 };
        for form in &["text", "markdown", "html", "junit", "csv"][..forms] {
            let shown = run(&format!("report {file} --as {form}")).ok();
            assert!(!shown.stdout.is_empty() && !shown.stdout.contains("NaN"), "{shown:?}");
        }
        let shown = run(&format!("report {file}")).ok().stdout;
        assert!(shown.contains(shows), "{shown}");
        if file == "swept" {
            continue;
        }
        let why = "a result of layout 1 (drumfire 0.1.0) has figures of another meaning than one \
                   of layout 5: measure it again with this version";
        refused(&run(&format!("compare {file} now")), why);
        refused(&run(&format!("compare now {file} --as html")), why);
        // A comparison with the same layout works.
        run(&format!("compare {file} {file}")).ok();
    }
    for file in ["first.json", "last.json"] {
        let shown = run(&format!("report {file}")).ok().stdout;
        assert!(shown.contains("made by an earlier version (layout 1)"), "{shown}");
    }
    refused(&run("sweep swept"), "was started by another version (layout 1, this version 5)");
}

#[test]
fn results_of_layouts_with_the_same_figures_are_read_as_they_were() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    run("run null:1g --seconds 0.5 --ramp 0 --no-ceiling --out now").ok();
    for before in BEFORE {
        are_read_as_they_were(&folder, &run, before);
    }
}

fn are_read_as_they_were(
    folder: &Folder,
    run: &dyn Fn(&str) -> Finished,
    (layout, text, shows, sweep, of_sweep, lacks): Before,
) {
    let name = format!("layout-{layout}.json");
    folder.file(&name, text.as_bytes());
    for form in ["text", "markdown", "html", "junit", "csv", "fio"] {
        let shown = run(&format!("report {name} --as {form}")).ok();
        assert!(!shown.stdout.is_empty() && !shown.stdout.contains("NaN"), "{shown:?}");
    }
    let shown = run(&format!("report {name}")).ok().stdout;
    assert!(
        shown.starts_with(shows) && shown.contains("indicative: nothing is stored (H02)"),
        "{shown}"
    );
    assert!(shown.contains(lacks), "{shown}");
    // A report keeps the checks and the class that the document was written with.
    let document = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
    let printed = document(&run(&format!("report {name} --as json")).ok().stdout);
    let written = document(text);
    for part in ["class", "schema_version"] {
        assert_eq!(printed[part], written[part], "{part}");
    }
    let mut checks = printed["checks"].clone();
    for check in checks.as_array_mut().unwrap() {
        // The evidence again, by its newer name.
        let because = check.as_object_mut().unwrap().remove("because");
        assert_eq!(because.as_ref(), check.get("evidence"));
        if check["verdict"] == "not-applicable" {
            check["verdict"] = "does-not-apply".into();
        }
    }
    assert_eq!(checks, written["checks"]);
    for figure in ["ios", "iops", "seconds", "latency_ns"] {
        assert_eq!(printed["totals"][figure], written["totals"][figure], "{figure}");
    }
    run(&format!("compare {name} now")).ok();
    let swept = format!("swept-{layout}");
    std::fs::create_dir(folder.path().join(&swept)).unwrap();
    folder.file(&format!("{swept}/sweep.json"), sweep.as_bytes());
    let shown = run(&format!("report {swept}")).ok().stdout;
    assert!(shown.contains(of_sweep), "{shown}");
    let words = format!("was started by another version (layout {layout}, this version {NOW})");
    refused(&run(&format!("sweep {swept}")), &words);
}

#[test]
fn a_newer_or_broken_result_is_refused_in_a_line() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    for (name, text, _) in EARLIER {
        let newer = text.replace("\"schema_version\": 1", "\"schema_version\": 99");
        let many = text.replace("\"seed\": ", "\"seed\": -");
        let is_sweep = name == "sweep.json";
        let spoilt = if is_sweep { "name its folder" } else { "invalid value: integer `-" };
        for (content, why) in [
            (newer.as_str(), "it has layout 99 of drumfire 0.1.0, and this version reads up to 5"),
            (&text[..text.len() / 2], "the file was truncated"),
            (&many, spoilt),
            ("", "the file was truncated"),
            ("[1]", ""),
        ] {
            folder.file(name, content.as_bytes());
            for command in ["report", "compare"] {
                let other = if command == "compare" { format!(" {name}") } else { String::new() };
                refused(&run(&format!("{command} {name}{other}")), why);
            }
        }
    }
}
