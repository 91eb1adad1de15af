//! The other C library: crates with system calls compile for musl, as the static program needs.
//! Their types differ from those of the GNU library, which all other tests use.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::tally::Tally;
use crate::dist;
use crate::process::{self, Show};
use crate::say::say;

/// Time limit of a download or of the check, each less than a minute.
const LIMIT: Duration = Duration::from_secs(10 * 60);
const NAME: &str = "os compiles for musl";

/// Checks the crates with system calls; installs the target first if it is missing and allowed.
pub fn check(install: bool) -> Result<Tally> {
    let mut tally = Tally::default();
    let target = dist::static_target()?;
    if install && !dist::build::is_installed(&target)? && process::find("rustup").is_some() {
        say!("rustup target add {target}");
        // A failure is a skip below.
        let mut rustup = Command::new("rustup");
        process::run(rustup.args(["target", "add", &target]), LIMIT, Show::Nothing)?;
    }
    if !dist::build::is_installed(&target)? {
        tally.skip(NAME, format!("rustup target add {target}"));
        return Ok(tally);
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["check", "-p", "drumfire-os", "--target", &target]).current_dir(crate::root());
    let outcome = process::run(&mut cargo, LIMIT, Show::Lines)?;
    match outcome.success() {
        true => tally.passed += 1,
        false => tally.failed.push(format!("{NAME}: {}", outcome.ending())),
    }
    Ok(tally)
}
