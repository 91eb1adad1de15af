//! Counts of tests, from cargo's output and from the records of the system tests.

use crate::process::Outcome;

/// Findings of a step.
#[derive(Debug, Default, PartialEq)]
pub struct Tally {
    /// Number of tests that really passed.
    pub passed: usize,
    /// Names of failed tests.
    pub failed: Vec<String>,
    /// Names of skipped tests, each with its reason.
    pub skipped: Vec<(String, String)>,
    /// Names of tests that failed and passed when they were repeated alone.
    pub flaky: Vec<String>,
}

impl Tally {
    /// One failure.
    pub fn failure(name: impl Into<String>) -> Tally {
        Tally { failed: vec![name.into()], ..Tally::default() }
    }

    /// Counts a test that did not run.
    pub fn skip(&mut self, name: impl Into<String>, reason: impl Into<String>) {
        self.skipped.push((name.into(), reason.into()));
    }

    /// Numbers of passed, failed and skipped tests.
    pub fn counts(&self) -> [usize; 3] {
        [self.passed, self.failed.len(), self.skipped.len()]
    }

    /// Adds the findings of another step, or of a part of this one.
    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
        self.flaky.extend(other.flaky);
    }

    /// Reads the output of `cargo test`.
    pub fn of_cargo_test(name: &str, outcome: &Outcome) -> Tally {
        Tally::of_output(name, String::new(), outcome)
    }

    /// Reads the output of one test program.
    pub fn of_binary(name: &str, outcome: &Outcome) -> Tally {
        Tally::of_output(name, name.to_owned(), outcome)
    }

    /// Reads output that begins with the tests of `file`.
    fn of_output(name: &str, mut file: String, outcome: &Outcome) -> Tally {
        let mut tally = Tally::default();
        for line in outcome.stdout.lines() {
            file = file_of(line).unwrap_or(file);
            tally.add_line(&file, line);
        }
        // The program did not compile, crashed, or hung, without a counted failure.
        if !outcome.success() && tally.failed.is_empty() {
            tally.failed.push(format!("{name}: {}", outcome.ending()));
        }
        if outcome.status.is_none() {
            tally.failed.push(format!("{name}: {}", outcome.ending()));
        }
        tally
    }

    fn add_line(&mut self, file: &str, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
            // "ok. 12 passed; 0 failed; 0 ignored; …"
            let passed = result.split([' ', ';']).nth(1).and_then(|count| count.parse().ok());
            self.passed += passed.unwrap_or(0_usize);
        } else if let Some(test) = line.strip_prefix("test ") {
            match test.rsplit_once(" ... ") {
                Some((name, "FAILED")) => self.failed.push(of_file(file, name)),
                Some((name, how)) if how.starts_with("ignored") => {
                    self.skip(of_file(file, name), how);
                }
                _ => {}
            }
        }
    }

    /// Adds the records of the system tests, a line per event, parts separated by tabs: `skip TEST
    /// REASON`, or `case SUITE NAME passed|failed|skipped REASON` for the cases of a third-party
    /// suite, which ran inside one of our tests.
    pub fn add_record(&mut self, record: &str) {
        for line in record.lines() {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["skip", test, reason] => {
                    // The test returned, so cargo counted it as passed.
                    self.passed = self.passed.saturating_sub(1);
                    self.skip(test, reason);
                }
                ["case", _, _, "passed", _] => self.passed += 1,
                ["case", suite, name, "skipped", reason] => {
                    self.skip(format!("{suite} {name}"), reason);
                }
                ["case", suite, name, "failed", reason] => {
                    self.failed.push(format!("{suite} {name}: {reason}"));
                }
                _ => self.failed.push(format!("a line of the record makes no sense: {line}")),
            }
        }
    }
}

/// Name of a test with that of its file, which the test's name already includes if files are
/// modules.
fn of_file(file: &str, test: &str) -> String {
    match test.strip_prefix(file).is_some_and(|rest| rest.starts_with("::")) {
        true => test.to_owned(),
        false => format!("{file}::{test}"),
    }
}

/// Name of the crate or file whose tests follow: `volume` for `Running unittests src/lib.rs
/// (…/drumfire_volume-0123abc)`.
fn file_of(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(name.into());
    }
    let (_, program) = line.strip_prefix("Running ")?.split_once('(')?;
    let (_, name) = program.trim_end_matches(')').rsplit_once('/')?;
    name.rsplit_once('-').map(|(name, _)| name.to_string())
}

#[cfg(test)]
mod test {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    use super::*;

    fn outcome(stdout: &str, code: Option<i32>) -> Outcome {
        let status = code.map(|code| ExitStatus::from_raw(code << 8));
        let took = Duration::from_secs(7);
        let (stdout, stderr) = (stdout.into(), String::new());
        Outcome { status, stdout, stderr, took, spent: took }
    }

    const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/volume-0123abc)

running 3 tests
test a::b ... ok
test a::c ... FAILED
test a::d ... ignored, no disk

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out

   Doc-tests x
test crates/x/src/lib.rs - X (line 3) ... ok
test result: ok. 21 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out
";

    #[test]
    fn adds_up_all_binaries() {
        let tally = Tally::of_cargo_test("unit", &outcome(OUTPUT, Some(101)));
        assert_eq!(tally.counts(), [22, 1, 1]);
        assert_eq!(tally.failed, ["volume::a::c"]);
        assert_eq!(tally.skipped, [("volume::a::d".into(), "ignored, no disk".into())]);
    }

    #[test]
    fn a_program_that_runs_by_itself_has_its_own_name() {
        let stdout = "test a ... FAILED\ntest result: FAILED. 3 passed; 1 failed\n";
        let mut tally = Tally::of_binary("faults", &outcome(stdout, Some(101)));
        assert_eq!((tally.counts(), tally.failed[0].as_str()), ([3, 1, 0], "faults::a"));
        tally.add(Tally::of_binary("nbd", &outcome("test a ... ok\n", Some(9))));
        assert_eq!(tally.counts(), [3, 2, 0], "{tally:?}");
        assert!(tally.failed[1].starts_with("nbd: "), "{tally:?}");
    }

    #[test]
    fn what_nobody_counted_is_a_failure() {
        let broken = Tally::of_cargo_test("unit", &outcome("", Some(101)));
        assert_eq!(broken.counts(), [0, 1, 0]);
        let hung = Tally::of_cargo_test("unit", &outcome("test a ... ok\n", None));
        assert!(hung.failed[0].contains("its limit"), "{hung:?}");
    }

    #[test]
    fn a_recorded_skip_is_no_pass() {
        let mut tally = Tally { passed: 2, ..Tally::default() };
        tally.add_record(
            "skip\tlists\tiscsi-ls is missing\ncase\tlibiscsi\tRead10.Simple\tpassed\t\n\
             case\tlibiscsi\tRead10.X\tskipped\tno such command\n",
        );
        assert_eq!(tally.counts(), [2, 0, 2]);
        assert_eq!(tally.skipped[1], ("libiscsi Read10.X".into(), "no such command".into()));
        tally.add_record("what\tis this\n");
        assert_eq!(tally.counts(), [2, 1, 2]);
    }
}
