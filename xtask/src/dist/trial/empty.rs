//! The static program in a root without any other file.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::super::tool;
use crate::target_folder;

/// Starts that are timed.
const STARTS: usize = 50;
/// Time of a start, at most; by the median, as other programs run meanwhile.
const START_LIMIT: Duration = Duration::from_millis(20);

/// Script that serves in the root, and drives the served volume.
const SERVE: &str = include_str!("serve.sh");

/// Starts the program of the static archive, lets it race and serve, and times its start.
pub fn run(archive: &Path) -> Result<String> {
    let root = target_folder().join("dist-empty");
    let _ = std::fs::remove_dir_all(&root);
    std::fs::create_dir_all(&root)?;
    let mut unpack = Command::new("tar");
    unpack.args(["--strip-components=1", "--wildcards", "-xzf"]).arg(archive);
    tool(unpack.arg("-C").arg(&root).arg("*/drumfire"))?;
    let inside = || {
        let mut command = Command::new("chroot");
        command.arg(&root).arg("/drumfire");
        command
    };
    let version = tool(inside().arg("--version"))?;
    let race = tool(inside().args(["race", "--seconds", "1", "--ramp", "1"]))?;
    ensure!(race.contains("IOPS"), "race printed no rate:\n{race}");
    let mut serve = Command::new("unshare");
    // Nothing that the script starts outlives it.
    serve.args(["--pid", "--fork", "--kill-child", "sh", "-c", SERVE, "sh"]);
    let served = tool(serve.arg(&root))?;
    ensure!(served.lines().count() == 2, "two clients printed:\n{served}");
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let status = inside().arg("--version").stdout(Stdio::null()).status().context("chroot")?;
        ensure!(status.success(), "{status}");
        times.push(began.elapsed());
    }
    times.sort();
    let median = times[STARTS / 2];
    ensure!(median <= START_LIMIT, "a start takes {median:?}, not {START_LIMIT:?}");
    std::fs::remove_dir_all(&root)?;
    let rate = race.lines().find(|line| line.contains("IOPS measured")).unwrap_or_default();
    Ok(format!("{}, starts in {median:?} in an empty root, serves: {rate}", version.trim()))
}
