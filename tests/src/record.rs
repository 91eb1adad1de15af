//! Reports to the task runner, in addition to cargo's: skipped tests with their reasons, and the
//! cases of third-party suites.
//!
//! Lines of tab-separated fields are appended to the file `DRUMFIRE_TEST_RECORD`. Without it they
//! only appear on stderr.

use std::fs::OpenOptions;
use std::io::Write;

/// Result of a case of a foreign suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Case {
    /// The test passed.
    Passed,
    /// The test was skipped, for this reason.
    Skipped(String),
    /// The test failed, for this reason.
    Failed(String),
}

/// Records the calling test as skipped.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    // The thread's name is the test's file and name in the harness.
    write(&["skip", thread.name().unwrap_or("a test"), reason]);
}

/// Records the result of a case.
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
        // One write per line: other tests append concurrently.
        let file = OpenOptions::new().create(true).append(true).open(path);
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.expect("the record can be written");
    }
}
