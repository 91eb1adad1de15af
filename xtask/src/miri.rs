//! Runs Miri on unsafe code without system calls: `cargo xtask miri`.
//!
//! Miri interprets the tests and stops at undefined behaviour: a data race, a write through a
//! read-only pointer, an access out of bounds. Miri is part of nightly compilers only; without one
//! these tests are skipped, and nothing is installed.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::process::{self, Show};
use crate::say::say;
use crate::test::tally::Tally;

/// Time limit: Miri needs a minute on two idle cores; most of an hour on busy ones.
const LIMIT: Duration = Duration::from_secs(40 * 60);
const LOOK_LIMIT: Duration = Duration::from_secs(60);

const REMEDY: &str = "miri is not installed: rustup toolchain install nightly \
                      --component miri --component rust-src";

/// Packages, and the tests of each that need no system calls.
const TESTS: &[(&str, &[&str])] = &[
    (
        "drumfire-block",
        &[
            "--lib",
            "--",
            "buf::",
            "chain::",
            "copy::",
            "count::",
            "kept::",
            "landing::",
            "lap::",
            "memory::",
        ],
    ),
    ("drumfire-block", &["--test", "races"]),
    ("drumfire-os", &["--lib", "--", "receive::"]),
];

/// Runs the tests and prints the result. True if none failed.
pub fn main(args: &[String]) -> Result<bool> {
    if let Some(arg) = args.first() {
        bail!("miri takes no arguments, not `{arg}`");
    }
    let tally = test()?;
    for (name, reason) in &tally.skipped {
        say!("skipped: {name}: {reason}");
    }
    for name in &tally.failed {
        say!("FAILED: {name}");
    }
    let [passed, failed, skipped] = tally.counts();
    say!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(failed == 0)
}

/// Runs the tests of `TESTS`, or skips all of them if Miri is missing.
pub fn test() -> Result<Tally> {
    let mut tally = Tally::default();
    if !is_there()? {
        for (package, _) in TESTS {
            tally.skip(format!("miri {package}"), REMEDY);
        }
        return Ok(tally);
    }
    for (package, tests) in TESTS {
        let mut args = vec!["miri", "test", "-p", *package];
        args.extend(*tests);
        say!("cargo {}", args.join(" "));
        // Strict provenance: the tests need no addresses made from integers.
        let mut command = nightly(&args);
        command.env("MIRIFLAGS", "-Zmiri-strict-provenance");
        let outcome = process::run(&mut command, LIMIT, Show::Lines)?;
        let found = Tally::of_cargo_test(&format!("miri {package}"), &outcome);
        if found.counts() == [0, 0, 0] {
            tally.failed.push(format!("miri {package}: no test ran of {}", tests.join(" ")));
        }
        tally.add(found);
    }
    Ok(tally)
}

/// Whether there is a nightly compiler with Miri and the library source, from which Miri builds the
/// standard library.
fn is_there() -> Result<bool> {
    if process::find("rustup").is_none() {
        return Ok(false);
    }
    let miri = nightly(&["miri", "--version"]);
    let mut sysroot = Command::new("rustup");
    sysroot.args(["run", "nightly", "rustc", "--print", "sysroot"]);
    for (number, mut command) in [miri, sysroot].into_iter().enumerate() {
        let outcome = process::run(&mut command, LOOK_LIMIT, Show::Nothing)?;
        let source = std::path::Path::new(outcome.stdout.trim()).join("lib/rustlib/src/rust");
        if !outcome.success() || number == 1 && !source.is_dir() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn nightly(args: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(args).current_dir(crate::root());
    // Variables of the running cargo would apply to the nightly one.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        command.env_remove(name);
    }
    command
}
