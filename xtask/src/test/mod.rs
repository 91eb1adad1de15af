//! Every test there is: `cargo xtask test`. What the README names and CI runs.
//!
//! Steps run one after the other with a limit each. What cannot run on this machine is a skip with
//! its reason, never silence. The last line is always `N passed, M failed, K skipped`.

mod changed;
mod fuzz;
pub mod packages;
pub mod tally;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{self, Outcome, Show};
use crate::target_folder;
use crate::{kernel, miri, sim};
use tally::Tally;

/// A fresh machine compiles all dependencies in a few minutes, one that others keep busy in several
/// times as many; a hang must not eat CI's 90.
const BUILD_LIMIT: Duration = Duration::from_secs(40 * 60);
/// Building the tests included.
const UNIT_LIMIT: Duration = Duration::from_secs(50 * 60);
/// Each system test has its own, shorter limits.
const SYSTEM_LIMIT: Duration = Duration::from_secs(60 * 60);

struct Options {
    fuzz_seconds: u64,
    install: bool,
    changed: bool,
}

/// What a step gave.
struct Step {
    name: &'static str,
    took: Duration,
    tally: Tally,
}

/// Runs all tests. True when none failed.
pub fn main(args: &[String]) -> Result<bool> {
    let options = parse(args)?;
    let mut steps = Vec::new();
    let mut step = |name: &'static str, work: &dyn Fn() -> Result<Tally>| {
        println!("\n== {name}");
        let began = Instant::now();
        // A step that could not be run at all must not hide what the others find.
        let tally = work().unwrap_or_else(|error| Tally::failure(format!("{name}: {error:#}")));
        let good = tally.failed.is_empty();
        steps.push(Step { name, took: began.elapsed(), tally });
        good
    };
    if options.changed {
        let changed = changed::Changed::find()?;
        step("unit", &|| changed.unit());
        step("system", &|| changed.system());
        return Ok(summary(&steps));
    }
    step("programs", &|| packages::provide(options.install));
    let built = step("build", &build);
    step("unit", &unit);
    step("miri", &miri::test);
    step("sim", &sim::test);
    step("system", &|| if built { system() } else { Ok(no_binary()) });
    step("kernel", &|| if built { kernel::test(options.install) } else { Ok(no_binary()) });
    step("fuzz", &|| fuzz::smoke(options.fuzz_seconds));
    Ok(summary(&steps))
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options = Options { fuzz_seconds: 10, install: true, changed: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--fuzz-seconds" => {
                let value = args.next().context("--fuzz-seconds wants a number")?;
                options.fuzz_seconds = value.parse().context("--fuzz-seconds")?;
            }
            "--no-install" => options.install = false,
            "--changed" => options.changed = true,
            arg => bail!("test knows --changed, --fuzz-seconds and --no-install, not `{arg}`"),
        }
    }
    Ok(options)
}

/// System tests drive the binary that users get, not a debug build of it.
pub fn build() -> Result<Tally> {
    let outcome = cargo(&["build", "--release", "-p", "drumfire"], &[], BUILD_LIMIT)?;
    Ok(if outcome.success() {
        Tally::default()
    } else {
        Tally::failure(format!("build of drumfire: {}", outcome.ending()))
    })
}

fn unit() -> Result<Tally> {
    let args = ["test", "--workspace", "--exclude", "drumfire-tests", "--no-fail-fast"];
    let outcome = cargo(&args, &[], UNIT_LIMIT)?;
    Ok(Tally::of_cargo_test("unit tests", &outcome))
}

fn system() -> Result<Tally> {
    let record = target_folder().join("test-record.tsv");
    // What stands in it is from an earlier run.
    let _ = std::fs::remove_file(&record);
    let mut variables = packages::variables();
    variables.push(("DRUMFIRE_BIN", target_folder().join("release/drumfire")));
    variables.push(("DRUMFIRE_TEST_RECORD", record.clone()));
    let args = ["test", "-p", "drumfire-tests", "--no-fail-fast"];
    let outcome = cargo(&args, &variables, SYSTEM_LIMIT)?;
    let mut tally = Tally::of_cargo_test("system tests", &outcome);
    tally.add_record(&std::fs::read_to_string(&record).unwrap_or_default());
    Ok(tally)
}

fn no_binary() -> Tally {
    let mut tally = Tally::default();
    tally.skip("tests of the binary", "it did not build");
    tally
}

fn cargo(args: &[&str], variables: &[(&str, PathBuf)], limit: Duration) -> Result<Outcome> {
    println!("cargo {}", args.join(" "));
    let mut command = Command::new("cargo");
    command.args(args).current_dir(crate::root()).envs(variables.iter().cloned());
    process::run(&mut command, limit, Show::Lines)
}

/// Prints what happened, the closing line last. True when nothing failed.
fn summary(steps: &[Step]) -> bool {
    println!("\n== summary");
    for Step { name, took, tally } in steps {
        let [passed, failed, skipped] = tally.counts();
        let seconds = took.as_secs_f64();
        println!("{name:9}{seconds:8.1} s{passed:6} passed{failed:5} failed{skipped:5} skipped");
    }
    for (name, reason) in steps.iter().flat_map(|step| &step.tally.skipped) {
        println!("skipped: {name}: {reason}");
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
                .map(|options| (options.fuzz_seconds, options.install, options.changed))
                .map_err(|error| error.to_string())
        };
        assert_eq!(parse(&[]), Ok((10, true, false)));
        assert_eq!(parse(&["--fuzz-seconds", "60", "--no-install"]), Ok((60, false, false)));
        assert_eq!(parse(&["--changed"]), Ok((10, true, true)));
        assert!(parse(&["--fuzz-seconds"]).is_err() && parse(&["--all"]).is_err());
    }

    #[test]
    fn one_failure_fails_the_whole() {
        let step = |tally| Step { name: "x", took: Duration::ZERO, tally };
        assert!(summary(&[step(Tally::default()), step(no_binary())]));
        assert!(!summary(&[step(Tally::default()), step(Tally::failure("y"))]));
    }
}
