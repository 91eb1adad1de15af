//! Tells the task runner what cargo cannot: which tests did not run and why, and what the cases of
//! a foreign suite gave.
//!
//! Lines go to the file that `DRUMFIRE_TEST_RECORD` names, parts separated by tabs. Without it they
//! only appear on stderr.

use std::fs::OpenOptions;
use std::io::Write;

/// What a case of a foreign suite gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Case {
    /// It ran and held.
    Passed,
    /// It did not test anything, for this reason.
    Skipped(String),
    /// It did not hold.
    Failed(String),
}

/// Records that the test which calls this does not run.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let name = format!("{}::{}", file(), thread.name().unwrap_or("a test"));
    write(&["skip", &name, reason]);
}

/// The name of the file of tests that runs: cargo appends a hash to it.
fn file() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let stem = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    stem.rsplit_once('-').map_or(stem.clone(), |(name, _)| name.to_string())
}

/// Records what a case of a foreign suite gave.
pub fn case(suite: &str, name: &str, case: &Case) {
    let (word, reason) = match case {
        Case::Passed => ("passed", ""),
        Case::Skipped(reason) => ("skipped", reason.as_str()),
        Case::Failed(reason) => ("failed", reason.as_str()),
    };
    write(&["case", suite, name, word, reason]);
}

fn write(parts: &[&str]) {
    let parts: Vec<String> = parts.iter().map(|part| part.replace(['\t', '\n'], " ")).collect();
    let line = parts.join("\t");
    eprintln!("{line}");
    if let Some(path) = std::env::var_os("DRUMFIRE_TEST_RECORD") {
        // One write of one line: other tests append at the same time.
        let file = OpenOptions::new().create(true).append(true).open(path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.expect("the record can be written");
    }
}
