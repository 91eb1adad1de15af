//! System tests: the real binary beside real clients, several files at a time, and at last, one by
//! one, those that need a quiet host.

use std::path::{Path, PathBuf};

use super::binaries::{self, Binary};
use super::packages;
use super::tally::Tally;
use crate::target_folder;

/// The folder of the package of the system tests.
pub const FOLDER: &str = "tests";

/// Files that say something of shares of the processors, of a host on which nothing else runs, or
/// of how near an emulated drive is to its law.
const QUIET: [&str; 4] = ["busy_host", "classes", "fair", "simulate"];

/// Files that take longest, in this order. They are begun first, so that none is still alone when
/// the others have ended.
const LONG: [&str; 13] = [
    "database",
    "scenario",
    "tutorial",
    "honesty_media",
    "our_initiator",
    "unanswered",
    "faults",
    "grown",
    "terminal",
    "sweep",
    "fio",
    "arrays",
    "fio_plot",
];

/// Those that do not mind others, so many more at a time than there are processors: they wait half
/// of their time.
pub fn beside(all: &[Binary], drumfire: &Path) -> Tally {
    let (_, mut mine) = split(all);
    mine.sort_by_key(|binary| LONG.iter().position(|name| *name == binary.name).unwrap_or(99));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    run(&mine, drumfire, cores + 1, "system")
}

/// Those that want the host for themselves.
pub fn quiet(all: &[Binary], drumfire: &Path) -> Tally {
    run(&split(all).0, drumfire, 1, "quiet")
}

/// The files that need quiet, and the others.
fn split(all: &[Binary]) -> (Vec<&Binary>, Vec<&Binary>) {
    let system = all.iter().filter(|binary| binary.package == FOLDER);
    system.partition(|binary| QUIET.contains(&binary.name.as_str()))
}

fn run(binaries: &[&Binary], drumfire: &Path, width: usize, name: &str) -> Tally {
    let record = target_folder().join(format!("test-record-{name}.tsv"));
    // What stands in it is from an earlier run.
    let _ = std::fs::remove_file(&record);
    let mut variables = packages::variables();
    variables.push(("DRUMFIRE_BIN", drumfire.to_owned()));
    variables.push(("DRUMFIRE_TEST_RECORD", PathBuf::from(&record)));
    let mut tally = binaries::run(binaries, width, &variables);
    tally.add_record(&std::fs::read_to_string(&record).unwrap_or_default());
    tally
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn files_that_are_named_exist() {
        for name in QUIET.iter().chain(&LONG) {
            let tests = crate::root().join("tests/tests");
            let found = [format!("{name}.rs"), format!("{name}/main.rs")];
            assert!(found.iter().any(|file| tests.join(file).is_file()), "{name} is no file");
        }
    }
}
