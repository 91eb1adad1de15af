//! System tests: the real binary against real clients, several files at a time, and at the end, one
//! by one, those that need a quiet host.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::binaries::{self, Binary};
use super::packages;
use super::tally::Tally;
use crate::say::say;
use crate::target_folder;

/// The folder of the package of the system tests.
pub const FOLDER: &str = "tests";

/// Test program of the files that need the host for themselves.
const QUIET: &str = "quiet";
/// Test program of all other files.
const BESIDE: &str = "main";

/// Files that take longest, in this order. They are begun first, so that none is still alone when
/// the others have ended.
const LONG: [&str; 16] = [
    "ranks_roles",
    "database",
    "scenario",
    "plan_flags",
    "tutorial",
    "honesty_media",
    "our_initiator",
    "unanswered",
    "faults",
    "grown",
    "terminal",
    "simulate",
    "sweep",
    "fio",
    "arrays",
    "fio_plot",
];

/// Runs the files that tolerate concurrent tests, one more at a time than there are CPUs: they wait
/// half of their time.
pub fn beside(all: &[Binary], drumfire: &Path) -> Result<Tally> {
    let mut mine = files(all, BESIDE)?;
    mine.sort_by_key(|binary| LONG.iter().position(|name| *name == binary.name).unwrap_or(99));
    // Tests of the shared helpers, which are in a separate program.
    let programs = [QUIET, BESIDE];
    let own = |it: &&Binary| it.package == FOLDER && !programs.contains(&it.name.as_str());
    mine.extend(all.iter().filter(own).cloned());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(run(&mine, drumfire, cores + 1, "system"))
}

/// Runs the files that need the host for themselves.
pub fn quiet(all: &[Binary], drumfire: &Path) -> Result<Tally> {
    Ok(run(&files(all, QUIET)?, drumfire, 1, "quiet"))
}

/// Largest number of failed tests that are repeated: more are no matter of a busy host.
const FEW: usize = 8;

/// Runs the failed tests of both programs again, one by one, if they are few. Returns those that
/// passed as flaky: they fail on a busy host, or only sometimes.
pub fn again(all: &[Binary], drumfire: &Path, failed: &[String]) -> Result<Tally> {
    let mut tally = Tally::default();
    if failed.len() > FEW {
        say!("{} tests failed: none is repeated", failed.len());
        return Ok(tally);
    }
    let programs = [files(all, BESIDE)?, files(all, QUIET)?].concat();
    for name in failed {
        // A failure that is no test's, such as a program that crashed, stays one.
        let Some(alone) = programs.iter().find_map(|program| program.only(name)) else { continue };
        let once = run(&[alone], drumfire, 1, "again");
        if once.failed.is_empty() {
            tally.flaky.push(name.clone());
        }
        tally.passed += once.passed;
        tally.skipped.extend(once.skipped);
    }
    Ok(tally)
}

/// The files of a program of system tests.
fn files(all: &[Binary], program: &str) -> Result<Vec<Binary>> {
    let it = |binary: &&Binary| binary.package == FOLDER && binary.name == program;
    let program = all.iter().find(it).with_context(|| format!("no program `{program}`"))?;
    binaries::files(program)
}

fn run(binaries: &[Binary], drumfire: &Path, width: usize, name: &str) -> Tally {
    let record = target_folder().join(format!("test-record-{name}.tsv"));
    // Existing content is from an earlier run.
    let _ = std::fs::remove_file(&record);
    let mut variables = packages::variables();
    variables.push(("DRUMFIRE_BIN", drumfire.to_owned()));
    variables.push(("DRUMFIRE_TEST_RECORD", PathBuf::from(&record)));
    let binaries: Vec<&Binary> = binaries.iter().collect();
    let mut tally = binaries::run(&binaries, width, &variables);
    tally.add_record(&std::fs::read_to_string(&record).unwrap_or_default());
    tally
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_file_is_in_a_program() {
        let tests = crate::root().join("tests/tests");
        let text = |name: &str| std::fs::read_to_string(tests.join(format!("{name}.rs"))).unwrap();
        let programs = [QUIET, BESIDE].map(text);
        let lines: Vec<&str> = programs.iter().flat_map(|text| text.lines()).collect();
        let is_module = |name: &str| lines.contains(&format!("mod {name};").as_str());
        LONG.iter().for_each(|name| assert!(is_module(name), "{name} is no file"));
        // A file that is in neither program would never run.
        for entry in std::fs::read_dir(&tests).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            assert!(is_module(name) || [QUIET, BESIDE].contains(&name), "{name} is in no program");
        }
    }
}
