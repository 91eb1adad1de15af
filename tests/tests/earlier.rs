//! Results of earlier versions are read in all forms, with a word on what they lack, and held
//! against nothing that they do not mean; newer and broken ones are refused in a line.

use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder};

const LIMIT: Duration = Duration::from_secs(60);
const USAGE: Option<i32> = Some(2);
/// Name, text, what its report shows, and how many I/Os a second it says.
const EARLIER: [(&str, &str, &str); 3] = [
    ("first.json", include_str!("../earlier/layout-1-first.json"), "19.8k IOPS"),
    ("last.json", include_str!("../earlier/layout-1-last.json"), "IOPS"),
    ("sweep.json", include_str!("../earlier/layout-1-sweep.json"), "182k"),
];
/// The layout of today, which has no file here.
const NOW: u64 = 2;

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
                   of layout 2: measure it again with this version";
        refused(&run(&format!("compare {file} now")), why);
        refused(&run(&format!("compare now {file} --as html")), why);
        // With its own kind it is.
        run(&format!("compare {file} {file}")).ok();
    }
    for file in ["first.json", "last.json"] {
        let shown = run(&format!("report {file}")).ok().stdout;
        assert!(shown.contains("made by an earlier version (layout 1)"), "{shown}");
    }
    refused(&run("sweep swept"), "was started by another version (layout 1, here 2)");
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
            (newer.as_str(), "it has layout 99 of drumfire 0.1.0, and this version reads up to 2"),
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
