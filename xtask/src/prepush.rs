//! Runs everything that CI runs: `cargo xtask prepush`.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::process::{self, Show};
use crate::{test, tidy};

/// Time limit of a check: none takes that long on two cores.
const LIMIT: Duration = Duration::from_secs(30 * 60);

const CARGO: &[&[&str]] = &[
    &["fmt", "--all", "--check"],
    &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
];

/// Runs every check, short ones first. Stops at the first failure.
pub fn main(args: &[String]) -> Result<bool> {
    if let Some(arg) = args.first() {
        bail!("prepush takes no arguments, not `{arg}`");
    }
    for args in CARGO {
        if !cargo(args)? {
            return Ok(false);
        }
    }
    if !tidy::main(&[])? || !deny()? {
        return Ok(false);
    }
    test::main(&[])
}

/// Licences, advisories and duplicates of dependencies, if the tool is installed.
fn deny() -> Result<bool> {
    if process::find("cargo-deny").is_none() {
        println!("cargo deny: skipped, not installed (cargo install cargo-deny --locked)");
        return Ok(true);
    }
    cargo(&["deny", "check"])
}

fn cargo(args: &[&str]) -> Result<bool> {
    println!("cargo {}", args.join(" "));
    let mut command = Command::new("cargo");
    let outcome = process::run(command.args(args).current_dir(crate::root()), LIMIT, Show::Lines)?;
    if !outcome.success() {
        println!("cargo {}: {}", args.join(" "), outcome.ending());
    }
    Ok(outcome.success())
}
