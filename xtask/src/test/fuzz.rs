//! A short run of every fuzz target, so that targets stay correct and find obvious bugs early.
//!
//! The run needs no cargo-fuzz and no nightly compiler: libFuzzer's flags are passed to plain
//! cargo. Inputs that found something are saved in `fuzz/corpus`, and are all run again here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::BUILD_LIMIT;
use super::tally::Tally;
use crate::dist::build::host;
use crate::process::{self, Outcome, Show};
use crate::say::say;
use crate::target_folder;

/// Coverage for libFuzzer: counters per edge, comparisons traced. Checks of a debug build stay on.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions --cfg fuzzing";

/// Time beyond the fuzzing itself: start, corpus, end, and stalls of the host.
const SLACK: Duration = Duration::from_secs(5 * 60);
/// Time limit of one input, in seconds of wall-clock time.
const INPUT_LIMIT_S: u64 = 120;

/// The targets, as they were built.
pub struct Built {
    package: PathBuf,
    host: String,
    outcome: Outcome,
}

/// Runs each target for `seconds`.
pub fn smoke(built: Built, seconds: u64) -> Result<Tally> {
    let Built { package, host, outcome: built } = built;
    let manifest =
        std::fs::read_to_string(package.join("Cargo.toml")).context("fuzz/Cargo.toml")?;
    let mut tally = Tally::default();
    if !built.success() {
        match why_not_possible(&built) {
            Some(reason) => targets(&manifest).for_each(|name| tally.skip(fuzz(name), reason)),
            None => tally.failed.push(format!("build of fuzz targets: {}", built.ending())),
        }
        return Ok(tally);
    }
    let names: Vec<&str> = targets(&manifest).collect();
    for (name, outcome) in run_all(&package, &host, &names, seconds) {
        let outcome = outcome?;
        let executions = executions(&outcome.stderr);
        say!("{}: {executions} executions in {seconds} s", fuzz(name));
        if outcome.success() && executions > 0 {
            tally.passed += 1;
        } else {
            let lines: Vec<&str> = outcome.stderr.lines().collect();
            say!("{}", lines[lines.len().saturating_sub(60)..].join("\n"));
            tally.failed.push(format!("{}: {}", fuzz(name), outcome.ending()));
        }
    }
    Ok(tally)
}

/// Runs the targets, one per core at a time.
fn run_all<'a>(
    package: &Path,
    host: &str,
    names: &[&'a str],
    seconds: u64,
) -> Vec<(&'a str, Result<Outcome>)> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let one_after_another = |first: usize| {
        let mine = names.iter().skip(first).step_by(cores);
        mine.map(|name| (*name, run(package, host, name, seconds))).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..cores).map(|first| scope.spawn(move || one_after_another(first))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("no panic in a run"));
        ended.flatten().collect()
    })
}

fn fuzz(name: &str) -> String {
    format!("fuzz {name}")
}

/// Builds all targets.
pub fn build() -> Result<Built> {
    let (package, host) = (crate::root().join("fuzz"), host()?);
    let mut command = Command::new("cargo");
    // With a target named, the flags are not given to build scripts and macros.
    command.args(["build", "--release", "--target", &host, "--target-dir"]);
    command.arg(target_folder().join("fuzz")).current_dir(&package);
    command.env("RUSTFLAGS", FLAGS);
    let outcome = process::run(&mut command, BUILD_LIMIT, Show::Lines)?;
    Ok(Built { package, host, outcome })
}

/// Why this machine cannot build libFuzzer; `None` when the fault is ours.
fn why_not_possible(built: &Outcome) -> Option<&'static str> {
    if ["c++", "g++", "clang++"].iter().all(|compiler| process::find(compiler).is_none()) {
        return Some("libFuzzer needs a C++ compiler: apt-get install g++");
    }
    let library = "custom build command for `libfuzzer-sys";
    built.stdout.contains(library).then_some("libFuzzer does not compile on this machine")
}

fn run(package: &Path, host: &str, name: &str, seconds: u64) -> Result<Outcome> {
    let folder = target_folder().join("fuzz");
    let fresh = folder.join("corpus").join(name);
    let artifacts = package.join("artifacts").join(name);
    let kept = package.join("corpus").join(name);
    for folder in [&fresh, &artifacts, &kept] {
        std::fs::create_dir_all(folder)?;
    }
    let mut command = Command::new(folder.join(host).join("release").join(name));
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args(["-print_final_stats=1", "-rss_limit_mb=2048"]);
    command.arg(format!("-timeout={INPUT_LIMIT_S}"));
    // New inputs go into the first folder only; the saved ones are chosen by hand.
    command.arg(fresh).arg(kept);
    process::run(&mut command, Duration::from_secs(seconds) + SLACK, Show::Nothing)
}

/// Names of the targets in the manifest.
fn targets(manifest: &str) -> impl Iterator<Item = &str> {
    let name = |bin| str::lines(bin).find_map(|line| line.strip_prefix("name = \""));
    manifest.split("[[bin]]").skip(1).filter_map(name).map(|name| name.trim_end_matches('"'))
}

fn executions(stderr: &str) -> u64 {
    let count =
        |line: &str| line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok();
    stderr.lines().find_map(count).unwrap_or(0)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_the_manifest_and_the_statistics() {
        let manifest = "[package]\nname = \"x\"\n[[bin]]\nname = \"a\"\npath = \"a.rs\"\n\n\
                        [[bin]]\nname = \"b\"\n";
        assert_eq!(targets(manifest).collect::<Vec<_>>(), ["a", "b"]);
        let stderr = "Done 5 runs\nstat::number_of_executed_units: 1234\nstat::x: 1\n";
        assert_eq!((executions(stderr), executions("")), (1234, 0));
    }
}
