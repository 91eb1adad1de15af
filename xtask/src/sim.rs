//! Deterministic simulation: whole servers, and measurements with known truth: `cargo xtask sim`.
//!
//! Worlds of many seeds, one world by the line that a failure prints, or planted mistakes that must
//! be found; `--rig` for situations instead of worlds, `--array` for stories of arrays, `--remote`
//! for those whose legs are on other hosts, `--fleet` for many hosts as one. The
//! simulator is the package `drumfire-sim`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::process::{self, Outcome, Show};
use crate::test::tally::Tally;

/// Worlds in a run of all tests.
const SEEDS: &str = "10000";
/// Number of stories over a network, which take four times as long.
const REMOTE_SEEDS: &str = "400";
/// Number of fleets, of which some have hundreds of hosts.
const FLEET_SEEDS: &str = "3000";
/// Seeds within which each planted mistake must be found.
const PLANT_SEEDS: &str = "1000";
/// The build, and a minute or two of worlds on two cores.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// Time limit of runs with more seeds.
const LONG: Duration = Duration::from_secs(7 * 24 * 3600);

/// Runs the simulator with `args`. True if all cases hold.
pub fn main(args: &[String]) -> Result<bool> {
    if args.iter().any(|arg| arg == "--help") {
        bail!(
            "sim takes --rig, --array, --remote, --fleet, --short, --seeds N, --from S, \
             --threads N, --plants, --plant NAME, or a world"
        );
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Ok(run(None, &args, LONG)?.success())
}

/// Checks that worlds, situations and stories of many seeds hold, and that each planted mistake is
/// found. Uses this simulator, or builds one first.
pub fn test(simulator: Option<&Path>) -> Result<Tally> {
    let mut tally = Tally::default();
    let many = &["--seeds", SEEDS][..];
    let plants = &["--plants", "--seeds", PLANT_SEEDS][..];
    let array = |rest: &[&'static str]| [&["--array"], rest].concat();
    let jobs = [
        many,
        plants,
        &[&["--rig"], many].concat(),
        &["--rig", "--plants"],
        &array(many),
        &array(plants),
        &array(&["--short"]),
        &["--remote", "--seeds", REMOTE_SEEDS],
        &["--remote", "--plants", "--seeds", PLANT_SEEDS],
        &["--fleet", "--seeds", FLEET_SEEDS],
        &["--fleet", "--plants", "--seeds", PLANT_SEEDS],
    ];
    for args in jobs {
        let outcome = run(simulator, args, LIMIT)?;
        match outcome.success() {
            true => tally.passed += 1,
            false => tally.failed.push(format!("sim {}: {}", args.join(" "), outcome.ending())),
        }
    }
    Ok(tally)
}

fn run(simulator: Option<&Path>, args: &[&str], limit: Duration) -> Result<Outcome> {
    let mut command = Command::new(simulator.unwrap_or(Path::new("cargo")));
    if simulator.is_none() {
        command.args(["run", "--quiet", "--profile", "sim", "-p", "drumfire-sim", "--"]);
    }
    command.args(args).current_dir(crate::root());
    process::run(&mut command, limit, Show::Lines)
}
