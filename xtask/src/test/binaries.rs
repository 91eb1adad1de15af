//! Test programs built by cargo: built together, run several at a time.
//!
//! Cargo runs test programs one after the other. Most system tests wait for clocks and disks, and
//! leave a core idle meanwhile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::UNIT_LIMIT;
use super::lint::{Variable, Warnings};
use super::tally::Tally;
use crate::process::{self, Outcome, Show};
use crate::say::{self, say};

/// Time limit of a test program, which takes at most two minutes; each test has its own, shorter
/// limits.
const LIMIT: Duration = Duration::from_secs(60 * 60);
/// Time limit for a program to list its tests.
const LIST_LIMIT: Duration = Duration::from_secs(120);

/// A program of tests.
#[derive(Clone, Debug)]
pub struct Binary {
    /// Package of the program.
    pub package: String,
    /// The crate's or the file's name.
    pub name: String,
    path: PathBuf,
    /// Folder of the package, where cargo starts the program.
    folder: PathBuf,
    /// Tests to run; all if empty.
    tests: Vec<String>,
}

impl Binary {
    /// This program with one of its tests; none if `test` is not one of them.
    pub fn only(&self, test: &str) -> Option<Binary> {
        let known = self.tests.iter().any(|it| it == test);
        known.then(|| Binary { tests: vec![test.to_owned()], ..self.clone() })
    }
}

/// Builds the program with MPI, if a library is installed, and copies it beside the one without.
pub fn build_with_mpi(clippy: Option<&Variable>, warnings: &mut Warnings) -> Result<()> {
    if process::find("mpicc").is_none() {
        return Ok(());
    }
    let args = "build --workspace --bin drumfire --example starts \
                --features drumfire/mpi,drumfire-fleet/mpi --message-format json";
    // The MPI of `mpirun`: of several, pkg-config names MPICH first.
    say!("MPICC=mpicc cargo {args}");
    let mut command = Command::new("cargo");
    command.args(args.split_whitespace()).current_dir(crate::root()).envs(clippy.cloned());
    command.env("MPICC", "mpicc");
    let outcome = process::run(&mut command, UNIT_LIMIT, Show::Nothing)?;
    say::lines(&outcome.stderr);
    warnings.add(&outcome.stdout);
    ensure!(outcome.success(), "build with MPI: {}", outcome.ending());
    copy_as("mpi")?;
    build_with_mpich()
}

/// Builds the program with MPICH, if it is installed in addition to another MPI.
fn build_with_mpich() -> Result<()> {
    if process::find("mpicc.mpich").is_none() || process::find("mpirun.mpich").is_none() {
        say!("no MPICH, tests that want it will be skipped: apt-get install libmpich-dev mpich");
        return Ok(());
    }
    let args = "build --workspace --bin drumfire --example starts \
                --features drumfire/mpi,drumfire-fleet/mpi";
    say!("MPICC=mpicc.mpich cargo {args}");
    let mut command = Command::new("cargo");
    command.args(args.split_whitespace()).current_dir(crate::root()).env("MPICC", "mpicc.mpich");
    let outcome = process::run(&mut command, UNIT_LIMIT, Show::Nothing)?;
    ensure!(outcome.success(), "build with MPICH: {}", outcome.ending());
    copy_as("mpich")
}

/// Copies the programs with an MPI to names of their own.
fn copy_as(mpi: &str) -> Result<()> {
    let built = crate::target_folder().join("debug");
    for (from, name) in [("drumfire", "drumfire"), ("examples/starts", "starts")] {
        std::fs::copy(built.join(from), built.join(format!("{name}-{mpi}")))
            .with_context(|| format!("copy of {from}"))?;
    }
    Ok(())
}

/// Builds all targets of all packages, with Clippy as the compiler if requested, and collects
/// warnings.
pub fn build(clippy: Option<&Variable>, warnings: &mut Warnings) -> Result<Vec<Binary>> {
    let args = "build --workspace --all-targets --message-format json";
    say!("cargo {args}");
    let mut command = Command::new("cargo");
    command.args(args.split(' ')).current_dir(crate::root()).envs(clippy.cloned());
    let outcome = process::run(&mut command, UNIT_LIMIT, Show::Nothing)?;
    say::lines(&outcome.stderr);
    warnings.add(&outcome.stdout);
    ensure!(outcome.success(), "build of the tests: {}", outcome.ending());
    let messages = outcome.stdout.lines().map(serde_json::from_str::<Value>);
    let found = messages.filter_map(|message| message.ok().and_then(|it| binary(&it)));
    let found: Vec<Binary> = found.collect();
    ensure!(!found.is_empty(), "cargo names no program of tests");
    Ok(found)
}

/// Test program in a message of cargo, if there is one.
fn binary(message: &Value) -> Option<Binary> {
    let path = PathBuf::from(message["executable"].as_str()?);
    if message["profile"]["test"] != true {
        return None;
    }
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    // Cargo appends a hash.
    let stem = path.file_stem()?.to_str()?;
    let name = stem.rsplit_once('-').map_or(stem, |(name, _)| name).to_owned();
    let package = folder.file_name()?.to_str()?.to_owned();
    Some(Binary { package, name, folder: folder.to_owned(), path, tests: Vec::new() })
}

/// Files that are modules of this program, each as a program that runs only its tests.
pub fn files(program: &Binary) -> Result<Vec<Binary>> {
    let mut command = Command::new(&program.path);
    command.arg("--list").current_dir(&program.folder);
    let outcome = process::run(&mut command, LIST_LIMIT, Show::Nothing)?;
    ensure!(outcome.success(), "{} --list: {}", program.name, outcome.ending());
    let files = by_file(&outcome.stdout).into_iter();
    Ok(files.map(|(name, tests)| Binary { name, tests, ..program.clone() }).collect())
}

/// The tests of each file, of a list of all.
fn by_file(list: &str) -> BTreeMap<String, Vec<String>> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for test in list.lines().filter_map(|line| line.strip_suffix(": test")) {
        let file = test.split("::").next().unwrap_or(test);
        files.entry(file.to_owned()).or_default().push(test.to_owned());
    }
    files
}

/// Runs these in their order, `width` at a time.
pub fn run(binaries: &[&Binary], width: usize, variables: &[(&str, PathBuf)]) -> Tally {
    let queue = Mutex::new(binaries.iter());
    let all = Mutex::new(Tally::default());
    let step = say::step();
    let work = || {
        // The queue is free again before a program runs.
        let next = || queue.lock().expect("nobody panics with it").next();
        while let Some(binary) = next() {
            let tally = one(binary, variables)
                .unwrap_or_else(|error| Tally::failure(format!("{}: {error:#}", binary.name)));
            all.lock().expect("nobody panics with it").add(tally);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..width {
            scope.spawn(|| say::within(step, work));
        }
    });
    all.into_inner().expect("nobody panics with it")
}

fn one(binary: &Binary, variables: &[(&str, PathBuf)]) -> Result<Tally> {
    let mut command = Command::new(&binary.path);
    command.current_dir(&binary.folder).env("CARGO_MANIFEST_DIR", &binary.folder);
    command.envs(variables.iter().cloned());
    if !binary.tests.is_empty() {
        command.arg("--exact").args(&binary.tests);
    }
    let outcome =
        process::run(&mut command, LIMIT, Show::Nothing).with_context(|| binary.name.clone())?;
    let tally = Tally::of_binary(&binary.name, &outcome);
    show(&binary.name, &tally, &outcome);
    Ok(tally)
}

/// Prints a line if all went well, and all known details otherwise.
fn show(name: &str, tally: &Tally, outcome: &Outcome) {
    let [passed, failed, skipped] = tally.counts();
    if failed > 0 {
        say::lines(&outcome.stdout);
        say::lines(&outcome.stderr);
    }
    let [seconds, spent] = [outcome.took, outcome.spent].map(|it| it.as_secs_f64());
    let counts = format!("{passed} passed, {failed} failed, {skipped} ignored");
    say!("{name}: {counts} in {seconds:.1} s, {spent:.1} s CPU");
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn programs_of_tests_are_found_among_what_cargo_says() {
        let said = |name: &str, test: bool| {
            serde_json::json!({
                "manifest_path": "/a/crates/job/Cargo.toml",
                "profile": { "test": test },
                "executable": format!("/a/target/debug/deps/{name}"),
            })
        };
        let found = binary(&said("of_chance-0123abc", true)).unwrap();
        assert_eq!((found.package.as_str(), found.name.as_str()), ("job", "of_chance"));
        assert_eq!(found.folder, Path::new("/a/crates/job"));
        assert!(binary(&said("job-0123abc", false)).is_none());
        assert!(binary(&serde_json::json!({ "executable": null })).is_none());
    }

    #[test]
    fn tests_are_told_apart_by_their_file() {
        let list =
            "late::a: test\nlate::deep::b: test\nsimulate::c: test\n\n3 tests, 0 benchmarks\n";
        let found: Vec<_> = by_file(list).into_iter().collect();
        let tests = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let late = ("late".to_owned(), tests(&["late::a", "late::deep::b"]));
        assert_eq!(found, [late, ("simulate".to_owned(), tests(&["simulate::c"]))]);
    }

    #[test]
    fn one_test_of_a_file_can_be_run_alone() {
        let names = ["late::a", "late::deep::b"];
        let tests = names.map(String::from).to_vec();
        let path = PathBuf::new;
        let (package, name) = ("x".to_owned(), "late".to_owned());
        let late = Binary { package, name, path: path(), folder: path(), tests };
        assert_eq!(late.only("late::a").unwrap().tests, ["late::a"]);
        assert!(late.only("late::b").is_none());
    }

    #[test]
    fn each_runs_once_with_its_variables_and_failures_are_named() {
        let shell = |name: &str| Binary {
            package: "x".to_owned(),
            name: name.to_owned(),
            path: PathBuf::from("env"),
            folder: std::env::temp_dir(),
            tests: Vec::new(),
        };
        let missing = Binary { path: PathBuf::from("no-such-program"), ..shell("missing") };
        let all = [shell("a"), missing, shell("b")];
        // In the format of a test program.
        let said = PathBuf::from("\ntest result: ok. 2 passed; 0 failed");
        let tally = run(&all.iter().collect::<Vec<_>>(), 2, &[("SAID", said)]);
        assert_eq!((tally.passed, tally.failed.len()), (4, 1), "{tally:?}");
        assert!(tally.failed[0].starts_with("missing: "), "{tally:?}");
    }
}
