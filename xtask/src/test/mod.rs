//! All tests: `cargo xtask test`, which the README names and CI runs.
//!
//! Each step has a time limit. Steps that compute run concurrently with steps that wait, on the CPU
//! time that these leave; tests that need a quiet host run last, alone. A test that cannot run on
//! this machine is reported as skipped with its reason. The last line is always `N passed, M
//! failed, K skipped`.

mod binaries;
mod changed;
mod fuzz;
mod lint;
mod musl;
pub mod packages;
mod system;
pub mod tally;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{self, Outcome, Show};
use crate::say::{self, say};
use crate::target_folder;
use crate::{dist, kernel, miri, sim};
use binaries::Binary;
use lint::{Variable, Warnings};
use tally::Tally;

/// Time limit of the build: a fresh machine compiles all dependencies in a few minutes, a busy one
/// in several times as many; a hang must not use up CI's 90.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Building the tests included.
const UNIT_LIMIT: Duration = Duration::from_secs(50 * 60);
/// Each system test has its own, shorter limits.
const SYSTEM_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Nice value of steps that compute, relative to steps that wait: a tenth of a CPU that both need.
const STAND_BACK: i32 = 10;
/// Nice value of the guest: it has one thread and takes longest, so it runs before the other steps
/// that compute.
const GUEST_BACK: i32 = 2;

/// Build of the binary that system tests and the guest drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Build {
    /// The one that `cargo build --release` makes.
    Release,
    /// The build with the tests, of the same crates: with the assertions of a debug build, and
    /// optimized where it moves data.
    Checked,
}

impl Build {
    /// Folder in which cargo puts the binary.
    fn folder(self) -> PathBuf {
        target_folder().join(match self {
            Build::Release => "release",
            Build::Checked => "debug",
        })
    }

    /// The binary.
    pub fn drumfire(self) -> PathBuf {
        self.folder().join("drumfire")
    }
}

struct Options {
    fuzz_seconds: u64,
    install: bool,
    changed: bool,
    lint: bool,
    build: Build,
}

/// Result of a step.
struct Step {
    name: &'static str,
    took: Duration,
    tally: Tally,
}

/// Runs all tests. True if none failed.
pub fn main(args: &[String]) -> Result<bool> {
    let options = parse(args)?;
    let began = Instant::now();
    let steps = if options.changed { changed()? } else { all(&options) };
    let took = began.elapsed();
    Ok(summary(&steps, took))
}

fn changed() -> Result<Vec<Step>> {
    let changed = changed::Changed::find()?;
    Ok(vec![step("unit", || changed.unit()), step("system", || changed.system())])
}

/// Runs the binary's build, and then the system tests; concurrently the steps that compute, and the
/// guest.
fn all(options: &Options) -> Vec<Step> {
    let mut steps = vec![step("programs", || packages::provide(options.install))];
    let (tests, made) = mpsc::channel();
    let (binary, for_guest) = mpsc::channel();
    let drumfire = &options.build.drumfire();
    let (waiting, beside, guest, built, tests) = std::thread::scope(|scope| {
        let beside = scope.spawn(move || beside(options, &tests));
        let guest = scope.spawn(move || guest(options, drumfire, &for_guest));
        // The sender may have panicked.
        let tests = || made.recv().unwrap_or_default();
        let (mut waiting, built, all) = match options.build {
            Build::Release => {
                let build = step("build", build);
                let built = build.tally.failed.is_empty();
                let _ = binary.send(built);
                (vec![build], built, tests())
            }
            Build::Checked => {
                let all = tests();
                let _ = binary.send(!all.is_empty());
                (Vec::new(), !all.is_empty(), all)
            }
        };
        let test = || if built { system::beside(&all, drumfire) } else { Ok(no_binary()) };
        waiting.push(step("system", test));
        let ended = "a step reports its errors";
        (waiting, beside.join().expect(ended), guest.join().expect(ended), built, all)
    });
    steps.extend(waiting);
    steps.extend(beside);
    steps.push(guest);
    let test = || if built { system::quiet(&tests, drumfire) } else { Ok(no_binary()) };
    steps.push(step("quiet", test));
    if built {
        let failed = failed_of_system(&steps);
        steps.push(step("again", || system::again(&tests, drumfire, &failed)));
        forgive(&mut steps);
    }
    steps
}

/// Names of the failed system tests.
fn failed_of_system(steps: &[Step]) -> Vec<String> {
    let system = steps.iter().filter(|step| ["system", "quiet"].contains(&step.name));
    system.flat_map(|step| step.tally.failed.clone()).collect()
}

/// Takes flaky tests from the failures.
fn forgive(steps: &mut [Step]) {
    let flaky: Vec<String> = steps.iter().flat_map(|step| step.tally.flaky.clone()).collect();
    for step in steps {
        step.tally.failed.retain(|name| !flaky.contains(name));
    }
}

/// Runs the guest, once its requirements are built. Its packages are downloaded before.
fn guest(options: &Options, drumfire: &Path, built: &mpsc::Receiver<bool>) -> Step {
    stand_back(GUEST_BACK);
    let guest = say::within("kernel", || kernel::provide(options.install));
    // A panicked build sends nothing.
    let built = built.recv().unwrap_or(false);
    step("kernel", || if built { kernel::test(guest, drumfire) } else { Ok(no_binary()) })
}

/// Runs the steps that compute, one after the other. Sends the test programs when they are built.
fn beside(options: &Options, tests: &mpsc::Sender<Arc<Vec<Binary>>>) -> Vec<Step> {
    // The checked binary is built with the tests: all wait for it.
    if options.build == Build::Release {
        stand_back(STAND_BACK);
    }
    let clippy = options.lint.then(lint::variable).transpose();
    let with = clippy.as_ref().ok().and_then(Option::as_ref);
    let (mut all, mut warnings) = (Arc::default(), Warnings::default());
    let made = step("tests", || {
        // Before the others: both builds have a program of one name.
        let with_mpi = binaries::build_with_mpi(with, &mut warnings);
        all = Arc::new(binaries::build(with, &mut warnings)?);
        Ok(with_mpi
            .map_or_else(|error| Tally::failure(format!("{error:#}")), |()| Tally::default()))
    });
    // The receiver may have panicked.
    let _ = tests.send(Arc::clone(&all));
    if options.build == Build::Checked {
        stand_back(STAND_BACK);
    }
    // Fuzzing rarely uses more than one core, so other steps run at the same time.
    let seconds = options.fuzz_seconds;
    let fuzz = std::thread::spawn(move || step("fuzz", || fuzz::smoke(fuzz::build()?, seconds)));
    let mut steps = vec![made, step("unit", || unit(&all, with))];
    match &clippy {
        Ok(None) => {}
        Ok(Some(_)) => steps.push(step("lint", || Ok(warnings.finish()))),
        Err(error) => steps.push(step("lint", || bail!("{error:#}"))),
    }
    let drumfire = Build::Checked.drumfire();
    let test = || if all.is_empty() { Ok(no_binary()) } else { dist::test(&drumfire, None) };
    steps.push(step("packages", test));
    steps.push(step("musl", || musl::check(options.install)));
    steps.push(step("miri", miri::test));
    let worlds = || match options.build {
        Build::Release => sim::test(None),
        Build::Checked if all.is_empty() => Ok(no_binary()),
        Build::Checked => sim::test(Some(&options.build.folder().join("drumfire-sim"))),
    };
    steps.push(step("sim", worlds));
    steps.push(fuzz.join().expect("a step reports its errors"));
    steps
}

/// Lowers the priority of everything that this thread starts from now on.
fn stand_back(by: i32) {
    // Without the permission the run is only slower.
    let _ = rustix::process::nice(by);
}

fn step(name: &'static str, work: impl FnOnce() -> Result<Tally>) -> Step {
    say::within(name, || {
        say!("== {name}");
        let began = Instant::now();
        // A step that could not be run at all must not hide the findings of the others.
        let tally = work().unwrap_or_else(|error| Tally::failure(format!("{name}: {error:#}")));
        let took = began.elapsed();
        say!("== {name} took {:.1} s", took.as_secs_f64());
        Step { name, took, tally }
    })
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options {
        fuzz_seconds: 10,
        install: true,
        changed: false,
        lint: false,
        build: Build::Release,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--fuzz-seconds" => {
                let value = args.next().context("--fuzz-seconds wants a number")?;
                options.fuzz_seconds = value.parse().context("--fuzz-seconds")?;
            }
            "--no-install" => options.install = false,
            "--changed" => options.changed = true,
            "--lint" => options.lint = true,
            "--checked" => options.build = Build::Checked,
            arg => bail!(
                "test knows --changed, --checked, --fuzz-seconds, --lint and --no-install, \
                 not `{arg}`"
            ),
        }
    }
    Ok(options)
}

/// The binary that users get.
pub fn build() -> Result<Tally> {
    let outcome = cargo(&["build", "--release", "-p", "drumfire"], &[], BUILD_LIMIT)?;
    Ok(if outcome.success() {
        Tally::default()
    } else {
        Tally::failure(format!("build of drumfire: {}", outcome.ending()))
    })
}

fn unit(all: &[Binary], with: Option<&Variable>) -> Result<Tally> {
    let units: Vec<&Binary> = all.iter().filter(|it| it.package != system::FOLDER).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut tally = binaries::run(&units, cores, &[]);
    let args = ["test", "--workspace", "--doc", "--no-fail-fast"];
    let outcome = cargo(&args, with.map_or(&[], std::slice::from_ref), UNIT_LIMIT)?;
    tally.add(Tally::of_cargo_test("documentation tests", &outcome));
    Ok(tally)
}

fn no_binary() -> Tally {
    let mut tally = Tally::default();
    tally.skip("tests of the binary", "it did not build");
    tally
}

fn cargo(args: &[&str], variables: &[(&str, PathBuf)], limit: Duration) -> Result<Outcome> {
    say!("cargo {}", args.join(" "));
    let mut command = Command::new("cargo");
    command.args(args).current_dir(crate::root()).envs(variables.iter().cloned());
    process::run(&mut command, limit, Show::Lines)
}

/// Prints the results, the closing line last. True if nothing failed.
fn summary(steps: &[Step], took: Duration) -> bool {
    println!("\n== summary");
    for Step { name, took, tally } in steps {
        let [passed, failed, skipped] = tally.counts();
        let seconds = took.as_secs_f64();
        let spent = process::spent(name).as_secs_f64();
        println!(
            "{name:9}{seconds:8.1} s{spent:8.1} s CPU{passed:6} passed{failed:5} failed\
             {skipped:5} skipped"
        );
    }
    println!("whole    {:8.1} s: steps ran beside each other", took.as_secs_f64());
    for (name, reason) in steps.iter().flat_map(|step| &step.tally.skipped) {
        println!("skipped: {name}: {reason}");
    }
    for name in steps.iter().flat_map(|step| &step.tally.flaky) {
        println!("flaky: {name}: it failed, and passed alone");
    }
    for name in steps.iter().flat_map(|step| &step.tally.failed) {
        println!("FAILED: {name}");
    }
    let sum = |i: usize| steps.iter().map(|step| step.tally.counts()[i]).sum::<usize>();
    println!("{} passed, {} failed, {} skipped", sum(0), sum(1), sum(2));
    sum(1) == 0
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn options_have_defaults_and_are_checked() {
        let parse = |args: &[&str]| {
            parse(&args.iter().map(ToString::to_string).collect::<Vec<_>>())
                .map(|it| (it.fuzz_seconds, it.install, it.changed, it.lint, it.build))
                .map_err(|error| error.to_string())
        };
        assert_eq!(parse(&[]), Ok((10, true, false, false, Build::Release)));
        assert_eq!(
            parse(&["--fuzz-seconds", "60", "--no-install"]),
            Ok((60, false, false, false, Build::Release))
        );
        assert_eq!(parse(&["--changed"]), Ok((10, true, true, false, Build::Release)));
        let both = parse(&["--lint", "--checked"]);
        assert_eq!(both, Ok((10, true, false, true, Build::Checked)));
        assert!(parse(&["--fuzz-seconds"]).is_err() && parse(&["--all"]).is_err());
    }

    #[test]
    fn one_failure_fails_the_whole() {
        let step = |tally| Step { name: "x", took: Duration::ZERO, tally };
        let summary = |steps: [Step; 2]| summary(&steps, Duration::ZERO);
        assert!(summary([step(Tally::default()), step(no_binary())]));
        assert!(!summary([step(Tally::default()), step(Tally::failure("y"))]));
    }

    #[test]
    fn only_a_test_that_passed_again_is_forgiven() {
        let step = |name, tally| Step { name, took: Duration::ZERO, tally };
        let failed = |names: [&str; 2]| names.map(String::from).to_vec();
        let system = Tally { failed: failed(["a::b", "a: exit code 1"]), ..Tally::default() };
        let flaky = vec!["a::b".to_owned(), "c::d".to_owned()];
        let again = Tally { flaky, ..Tally::default() };
        let quiet = Tally { failed: failed(["c::d", "c::e"]), ..Tally::default() };
        let mut steps = vec![step("system", system), step("unit", Tally::failure("u::v"))];
        steps.extend([step("quiet", quiet), step("again", again)]);
        let names = ["a::b", "a: exit code 1", "c::d", "c::e"];
        assert_eq!(failed_of_system(&steps), names);
        forgive(&mut steps);
        let left: Vec<_> = steps.iter().flat_map(|step| &step.tally.failed).collect();
        assert_eq!(left, ["a: exit code 1", "u::v", "c::e"]);
    }
}
