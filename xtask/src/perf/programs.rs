//! Runs the contenders' programs, or fakes them in a dry run.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::profile;
use crate::process::{self, Show};

/// Start, ramp and end of a run, beyond its measured seconds.
const SLACK: Duration = Duration::from_secs(60);
/// A target is ready within this.
const READY_LIMIT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// Ways to run programs.
#[derive(Clone)]
pub enum Programs {
    /// Real runs.
    Real {
        /// The binary under test.
        drumfire: PathBuf,
        /// Output of `perf record`, if the run is profiled.
        record: Option<PathBuf>,
    },
    /// Dry runs with canned outputs.
    Dry,
}

/// A call of a program.
pub struct Call<'a> {
    /// Name of the program.
    pub program: &'a str,
    /// Arguments, separated by single spaces; tabs are part of an argument.
    pub args: String,
    /// CPU to which the program is pinned.
    pub core: Option<usize>,
}

impl Programs {
    /// Runs a program of about `seconds` to its end and returns its stdout.
    pub fn run(&self, call: &Call<'_>, seconds: u64) -> Result<String> {
        let Programs::Real { drumfire, record } = self else { return Ok(canned(call)) };
        let limit = Duration::from_secs(seconds) + SLACK;
        let mut command = command(drumfire, record.as_deref(), call)?;
        let outcome = process::run(&mut command, limit, Show::Nothing)?;
        if !outcome.success() {
            let said = outcome.stderr.trim().lines().last().unwrap_or_default();
            bail!("{} {}: {}: {said}", call.program, call.args, outcome.ending());
        }
        Ok(outcome.stdout)
    }

    /// Starts a program that runs until stopped.
    pub fn start(&self, call: &Call<'_>) -> Result<Service> {
        let Programs::Real { drumfire, .. } = self else {
            // Any process suffices: this one.
            return Ok(Service { child: None, id: std::process::id(), log: None });
        };
        let mut command = command(drumfire, None, call)?;
        // A file, not a pipe: no reader is needed while it runs.
        let name = format!("drumfire-perf-{}-{}", std::process::id(), call.program);
        let log = std::env::temp_dir().join(name);
        command.stdin(Stdio::null()).stdout(std::fs::File::create(&log)?).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("starting {}", call.program))?;
        Ok(Service { id: child.id(), child: Some(child), log: Some(log) })
    }

    /// Waits until a condition holds; returns at once in a dry run.
    pub fn wait_until<T>(&self, what: &str, mut ready: impl FnMut() -> Option<T>) -> Result<T>
    where
        T: Default,
    {
        if matches!(self, Programs::Dry) {
            return Ok(T::default());
        }
        let began = Instant::now();
        loop {
            if let Some(found) = ready() {
                return Ok(found);
            }
            if began.elapsed() > READY_LIMIT {
                bail!("{what} within {READY_LIMIT:?}");
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// A running program, stopped when this is dropped.
pub struct Service {
    /// Process ID.
    pub id: u32,
    child: Option<Child>,
    log: Option<PathBuf>,
}

impl Service {
    /// Output on stdout so far.
    pub fn stdout(&self) -> String {
        self.log.as_ref().and_then(|log| std::fs::read_to_string(log).ok()).unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            process::end_tree(child.id());
            let _ = child.wait();
        }
        if let Some(log) = &self.log {
            let _ = std::fs::remove_file(log);
        }
    }
}

fn command(drumfire: &Path, record: Option<&Path>, call: &Call<'_>) -> Result<Command> {
    let program = if call.program == "drumfire" {
        drumfire.to_path_buf()
    } else {
        process::find(call.program).with_context(|| format!("{} is not installed", call.program))?
    };
    // The kernel kills the program when this process dies; each program execs the next, with one
    // process ID.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    if let Some(core) = call.core {
        command.args(["taskset", "-c", &core.to_string()]);
    }
    if let Some(file) = record {
        let (frequency, delay) = (profile::FREQUENCY, profile::DELAY_MS);
        command
            .args(["perf", "record", "-q", "-F", frequency, "-D", delay, "-o"])
            .arg(file)
            .arg("--");
    }
    command.arg(program);
    // Results go where they do not pile up in the repository.
    let args = call.args.split(' ').filter(|arg| !arg.is_empty());
    command.args(args).current_dir(std::env::temp_dir());
    Ok(command)
}

/// Canned output of a program.
fn canned(call: &Call<'_>) -> String {
    let text = match call.program {
        "drumfire" => {
            r#"{"schema_version": 1, "totals": {"errors": 0, "iops": 1000000.0,
                "paced": {"service_ns": {"mean": 160000.0}, "lag_ns": {"p99": 39000.0}},
                "latency_ns": {"mean": 32000.0, "p99": 64000}}, "cpu": {"core_us_per_io": 1.9}}"#
        }
        "iscsi-perf" => "\r00:00:01 - lba 4\riops average 50000 (195 MB/s)   \nfinished.\n",
        "spdk_nvme_perf" => {
            "Total                    :  480000.00    1875.00     133.10      90.00     900.00\n"
        }
        "t/io_uring" => "IOPS=1.5M, BW=1\nIOPS=900.00K, BW=1\nIOPS=1.10M, BW=1\nMaximum IOPS=9M\n",
        "fio" => r#"{"jobs": [{"read": {"iops": 2000000.0, "lat_ns": {"mean": 300.0}}}]}"#,
        _ => "",
    };
    text.into()
}
