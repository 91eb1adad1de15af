//! Results as tables and pictures, read by others: pandas, R, and programs that draw.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run, skip};

const LIMIT: Duration = Duration::from_secs(300);

/// The how-to page.
const PAGE: &str = include_str!("../../docs/how-to/analyse-with-pandas-or-r.md");

/// Lines of the first block of a language.
fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    rest.split("```").next().unwrap()
}

/// Runs the commands of the page, and returns its folder.
fn made(drumfire: &Drumfire) -> Folder {
    let folder = Folder::new();
    for line in block("sh").replace("\\\n", " ").lines() {
        let args = line.trim().strip_prefix("drumfire ").unwrap();
        let (args, file) = args.split_once(" > ").unwrap_or((args, ""));
        let ended = drumfire.run(folder.path(), args, LIMIT).ok();
        if !file.is_empty() {
            folder.file(file, ended.stdout.as_bytes());
        }
    }
    folder
}

/// Returns whether a program with these arguments succeeds.
fn has(program: &Path, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|ended| ended.status.success())
}

#[test]
fn pandas_reads_rows_that_add_up() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(python) = require("python3") else { return };
    if !has(&python, &["-c", "import pandas"]) {
        return skip("python3 has no pandas");
    }
    let folder = made(&drumfire);
    let mut command = Command::new(python);
    let ended = run(command.args(["-c", block("python")]).current_dir(folder.path()), LIMIT).ok();
    assert!(ended.stdout.contains("latency_p99_ns"), "{ended:?}");
    assert!(ended.stdout.contains("65536"), "{ended:?}");
}

#[test]
fn r_reads_the_same_rows() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(r) = require("Rscript") else { return };
    let folder = made(&drumfire);
    folder.file("script.R", block("r").as_bytes());
    let ended = run(Command::new(r).arg("script.R").current_dir(folder.path()), LIMIT).ok();
    assert!(ended.stdout.contains("axis_size_bytes"), "{ended:?}");
}

#[test]
fn a_comparison_has_rows_of_both_sides() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT).ok().stdout;
    for (name, size) in [("before", "4k"), ("after", "4k")] {
        run(&format!("run ram:16m --size {size} --seconds 0.5 --ramp 0 --no-ceiling --out {name}"));
    }
    let sides = |csv: &str| -> Vec<String> {
        let mut lines = csv.lines();
        let at = lines.next().unwrap().split(',').position(|name| name == "side").unwrap();
        lines.map(|line| line.split(',').nth(at).unwrap().to_owned()).collect()
    };
    let compared = drumfire.run(folder.path(), "compare before after --as csv --rows run", LIMIT);
    assert_eq!(sides(&compared.stdout), ["a", "a", "b", "b"], "{compared:?}");
    // The folders as `compare --run` saves them.
    std::fs::create_dir(folder.path().join("turns")).unwrap();
    for (from, to) in [("before", "turns/a"), ("after", "turns/b")] {
        std::fs::rename(folder.path().join(from), folder.path().join(to)).unwrap();
    }
    assert_eq!(sides(&run("report turns --as csv --rows run")), ["a", "a", "b", "b"]);
    assert_eq!(sides(&run("report turns/a --as csv --rows run")), ["", ""]);
    let points = run("report turns --as influx");
    assert!(points.lines().all(|line| line.starts_with("drumfire_")), "{points}");
    assert!(points.contains(",side=a,") && points.contains(",side=b,"), "{points}");
}

#[test]
fn pictures_are_drawn_or_said_to_be_of_another_build() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let report = |args: &str| drumfire.run(folder.path(), &format!("report r {args}"), LIMIT);
    let run = "run ram:16m --size 4k --seconds 2 --ramp 0 --no-ceiling --out r";
    drumfire.run(folder.path(), run, LIMIT).ok();
    let svg = report("--as svg").ok().stdout;
    assert!(svg.starts_with("<svg xmlns=") && svg.contains("Rate over time"), "{svg}");
    let one = report("--as svg --chart rate-over-time").ok().stdout;
    assert_eq!(one.matches("class=\"heading\"").count(), 1, "{one}");
    let none = report("--as svg --chart speed");
    assert_eq!(none.code, Some(2), "{none:?}");
    assert!(none.stderr.contains("charts are: rate-over-time, latency-over-time"), "{none:?}");
    for (form, feature) in [("png", "--features png"), ("parquet", "--features parquet")] {
        let ended = report(&format!("--as {form}"));
        // Builds with the feature print the file.
        let is_said = ended.code == Some(2) && ended.stderr.contains(feature);
        assert!(is_said || ended.code == Some(0), "{ended:?}");
    }
    if let Some(xmllint) = require("xmllint") {
        let path = folder.file("all.svg", svg.as_bytes());
        let mut command = Command::new(xmllint);
        drumfire_tests::run(command.args(["--noout", "--nonet"]).arg(path), LIMIT).ok();
    }
}
