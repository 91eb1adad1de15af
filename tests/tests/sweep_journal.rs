//! Journal of a sweep: copies, runs of other sweeps and picked runs are reported, and honest sweeps
//! are not.

use std::fs;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const SWEEP: &str = "sweep ram:64m --size 4k --outstanding 1 --seconds 0.3 --ramp 0 --repeats 4";

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn write(path: &Path, value: &Value) {
    fs::write(path, serde_json::to_vec(value).unwrap()).unwrap();
}

/// Folders of the runs of a sweep with one cell.
fn runs(sweep: &Path) -> Vec<String> {
    let document = read(&sweep.join("sweep.json"));
    let runs = document["cells"][0]["runs"].as_array().unwrap().clone();
    runs.iter().map(|run| run["folder"].as_str().unwrap().to_owned()).collect()
}

/// Findings about repeats: lines of the report, all doubts, and the class.
fn told(drumfire: &Drumfire, folder: &Folder) -> (String, Vec<String>, String) {
    let text = drumfire.run(folder.path(), "report s", LIMIT).ok().stdout;
    let lines =
        text.lines().filter(|it| it.starts_with("repeats: ") || it.starts_with("journal: "));
    let lines: Vec<&str> = lines.collect();
    let document = drumfire.run(folder.path(), "report s --as json", LIMIT).ok().json();
    let cell = &document["cells"][0];
    let doubts = cell["doubts"].as_array().cloned().unwrap_or_default();
    let doubts = doubts.iter().map(|doubt| doubt["why"].as_str().unwrap().to_owned()).collect();
    (lines.join("\n"), doubts, cell["class"].as_str().unwrap().to_owned())
}

/// H20 accepts: repeats of one sweep, also of one that was interrupted and resumed.
#[test]
fn honest_repeats_are_not_doubted() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    drumfire.run(folder.path(), &format!("{SWEEP} --out s"), LIMIT).ok();
    let (text, doubts, class) = told(&drumfire, &folder);
    assert_eq!(text, "journal: 4 runs begun, 4 went through");
    assert_eq!((doubts.len(), &*class), (0, "indicative"));
    let compared = drumfire.run(folder.path(), "compare s s", LIMIT).ok().stdout;
    assert!(!compared.contains(" side: "), "{compared}");
    assert!(compared.ends_with(&"journal of s: 4 runs begun, 4 went through\n".repeat(2)));
    // Interrupted after the third result, and before its line: the result is recovered.
    let sweep = folder.path().join("s");
    let journal = fs::read_to_string(sweep.join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = journal.lines().collect();
    assert_eq!(lines.len(), 9, "{journal}");
    let torn = format!("{}\n{}", lines[..6].join("\n"), &lines[6][..20]);
    fs::write(sweep.join("journal.jsonl"), torn).unwrap();
    let mut document = read(&sweep.join("sweep.json"));
    let all = document["cells"][0]["runs"].as_array_mut().unwrap();
    let last = all.pop().unwrap()["folder"].as_str().unwrap().to_owned();
    write(&sweep.join("sweep.json"), &document);
    fs::remove_dir_all(sweep.join(last)).unwrap();
    let (text, doubts, _) = told(&drumfire, &folder);
    assert_eq!(
        text,
        "journal: 3 runs begun, 2 went through, 1 cut or not over, 1 of its lines torn"
    );
    assert_eq!(doubts, [""; 0]);
    drumfire.run(folder.path(), "sweep s", LIMIT).ok();
    let (text, doubts, _) = told(&drumfire, &folder);
    assert_eq!(text, "journal: 4 runs begun, 4 went through, 1 of its lines torn");
    assert_eq!(doubts, [""; 0]);
}

/// H20 detects: a slow repeat that is deleted and run again.
#[test]
fn runs_that_were_picked_are_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    drumfire.run(folder.path(), &format!("{SWEEP} --out s"), LIMIT).ok();
    let sweep = folder.path().join("s");
    // The slowest is deleted from folder and document, and made again.
    let mut document = read(&sweep.join("sweep.json"));
    let slow = document["cells"][0]["runs"].as_array_mut().unwrap().remove(1);
    fs::remove_dir_all(sweep.join(slow["folder"].as_str().unwrap())).unwrap();
    write(&sweep.join("sweep.json"), &document);
    drumfire.run(folder.path(), "sweep s", LIMIT).ok();
    let (text, doubts, _) = told(&drumfire, &folder);
    let words = "5 runs begun, 5 went through, 1 made again, 1 went through and thrown away";
    assert!(text.contains(words), "{text}");
    assert_eq!(doubts, ["repeats 2 were measured before, and those results were discarded"]);
    let compared = drumfire.run(folder.path(), "compare s s", LIMIT).ok().stdout;
    for side in ["first", "second"] {
        let words =
            format!("the {side} side: repeats 2 were measured before, and those results were");
        assert!(compared.contains(&words), "{compared}");
    }
    assert!(compared.contains("journal of s: 5 runs begun, 5 went through, 1 made"), "{compared}");
    let page = drumfire.run(folder.path(), "compare s s --as html", LIMIT).ok().stdout;
    assert!(page.contains("the second side: repeats 2 were measured before"), "{page}");
    assert!(page.contains("journal of s: 5 runs begun"), "{page}");
    let document = drumfire.run(folder.path(), "compare s s --json", LIMIT).ok().json();
    assert_eq!(document["journals"][1]["thrown_away"], 1, "{document}");
    // A complete sweep that was replaced is honest, too.
    drumfire.run(folder.path(), &format!("{SWEEP} --out s --replace"), LIMIT).ok();
    let (text, ..) = told(&drumfire, &folder);
    assert!(text.contains("9 runs begun") && text.contains("5 went through and thrown"), "{text}");
    let page = drumfire.run(folder.path(), "report s --as html", LIMIT).ok().stdout;
    assert!(page.contains("9 runs begun"));
}

/// H20 detects: copies of one run; runs of another host and version.
#[test]
fn copies_and_runs_of_others_are_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    drumfire.run(folder.path(), &format!("{SWEEP} --out s"), LIMIT).ok();
    let sweep = folder.path().join("s");
    let names = runs(&sweep);
    let at = |name: &String| sweep.join(name).join("result.json");
    let whole: Vec<Value> = names.iter().map(|name| read(&at(name))).collect();
    // Another host and another version: no digest covers these fields.
    let mut other = whole[2].clone();
    other["host"]["name"] = "box".into();
    other["tool"]["version"] = "9.9".into();
    write(&at(&names[2]), &other);
    let (text, doubts, _) = told(&drumfire, &folder);
    assert!(text.contains("repeats of 2 hosts: ") && text.contains("2 versions: "), "{text}");
    assert_eq!(doubts.len(), 2, "{doubts:?}");
    // All repeats become copies of the first one.
    let mut document = read(&sweep.join("sweep.json"));
    let all = document["cells"][0]["runs"].as_array_mut().unwrap();
    let first = all[0].clone();
    for (run, name) in all.iter_mut().zip(&names).skip(1) {
        let repeat = run["repeat"].clone();
        *run = first.clone();
        (run["repeat"], run["folder"]) = (repeat, name.clone().into());
        fs::copy(at(&names[0]), at(name)).unwrap();
    }
    write(&sweep.join("sweep.json"), &document);
    let (text, doubts, class) = told(&drumfire, &folder);
    assert!(
        text.contains("repeats 1, 2, 3, 4 are copies of one run: same digest, start, seed"),
        "{text}"
    );
    assert!(doubts.iter().any(|why| why.contains("are not the runs that the journal lists")));
    assert_eq!(class, "invalid");
    let compared = drumfire.run(folder.path(), "compare s s", LIMIT);
    assert_eq!(compared.code, Some(3), "{compared:?}");
    let words = "NOT COMPARABLE, the first side: repeats 1, 2, 3, 4 are copies of one run";
    assert!(compared.stdout.contains(words), "{compared:?}");
    // Without the journal they are still reported, and so is its absence.
    fs::remove_file(sweep.join("journal.jsonl")).unwrap();
    let (text, doubts, _) = told(&drumfire, &folder);
    assert!(text.contains("are copies of one run") && !text.contains("thrown"), "{text}");
    assert!(doubts.iter().any(|why| why.contains("the journal has no repeats 1, 2, 3, 4")));
}
