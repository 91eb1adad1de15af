//! A run of a sweep in a separate process.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use job::spec::JobSpec;
use load::Stop;
use rustix::process::{Pid, Signal, kill_process};
use stats::RunResult;

use crate::args::Drive;
use crate::bench::{Allowed, Failed};
use crate::exit::UsageError;
use crate::folder::Folder;
use crate::{folder, output, report};

/// Interval at which the process and stop requests are polled.
const POLL: Duration = Duration::from_millis(20);

/// Runs `job` with a program, this one by default, and reads the result from its folder. The
/// process holds `lock` until its end, also when it outlives its parent.
pub fn run(
    job: &JobSpec,
    folder: &Path,
    (program, allowed): (Option<&Path>, &Allowed),
    drive: &Drive,
    lock: &File,
    stop: &Stop,
) -> Result<RunResult> {
    let folder = Folder::at(folder)?;
    let result = folder.join("result.json");
    let opened = os::Folder::open_trusted(&folder);
    match opened.and_then(|folder| folder.remove(Path::new("result.json"))) {
        // The result of an earlier run must not be mistaken for this one's.
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", result.display()));
        }
        _ => {}
    }
    folder::write_job(&folder, &serde_json::to_value(job).context("the job as a document")?)?;
    let mut command = command(program, &folder, allowed, drive)?;
    command.stdin(Stdio::from(lock.try_clone().context("cannot share the lock")?));
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
    let words = last_words(&mut child);
    let mut told = 0;
    let status = loop {
        if let Some(status) = child.try_wait().context("cannot wait for the run's process")? {
            break status;
        }
        if stop.asked() > told {
            told = stop.asked();
            let pid = Pid::from_child(&child);
            // The process may have ended already; then the signal has no receiver.
            let _ = kill_process(pid, Signal::INT);
        }
        std::thread::sleep(POLL);
    };
    let last = words.join().unwrap_or_default();
    if !result.is_file() {
        let why = if last.is_empty() { String::new() } else { format!(": {last}") };
        return Err(Failed(format!("its process ended with {status}{why}")).into());
    }
    report::read_document(&result)
}

fn command(
    program: Option<&Path>,
    folder: &Path,
    allowed: &Allowed,
    drive: &Drive,
) -> Result<Command> {
    let ours = || std::env::current_exe().context("cannot find the drumfire binary");
    let program = program.map_or_else(ours, |program| Ok(program.to_owned()))?;
    let mut command = Command::new(program);
    // The process is no rank, even if a launcher of MPI started this one.
    fleet::forget_launcher(&mut command);
    command.arg("run").arg(folder.join("job.toml")).arg("--out").arg(folder);
    // The folder already has the job file.
    command.arg("--replace");
    if !allowed.cores.is_empty() {
        let cores: Vec<String> = allowed.cores.iter().map(usize::to_string).collect();
        command.args(["--cores", &cores.join(",")]);
    }
    for what in &allowed.destroy {
        command.arg(if what.is_empty() { "--destroy".into() } else { format!("--destroy={what}") });
    }
    if drive.ceiling {
        command.arg("--ceiling");
    }
    if drive.no_ceiling {
        command.arg("--no-ceiling");
    }
    if drive.no_cold_reads {
        command.arg("--no-cold-reads");
    }
    // A separate process group: Ctrl-C reaches only this process, which forwards it once.
    command.process_group(0).stdout(Stdio::null()).stderr(Stdio::piped());
    match &drive.json_lines {
        Some(path) if path.as_os_str() == "-" => {
            let why = "--json-lines - cannot be combined with --repeat-as process: name a file";
            return Err(UsageError(why.to_owned()).into());
        }
        Some(path) => drop(command.arg("--json-lines").arg(path)),
        None => {}
    }
    Ok(command)
}

/// Forwards the process's messages; returns the last line.
fn last_words(child: &mut Child) -> std::thread::JoinHandle<String> {
    let out = child.stderr.take().expect("it was asked for");
    std::thread::spawn(move || {
        let mut last = String::new();
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            output::note(&line);
            last = line.trim_start_matches("drumfire: ").to_owned();
        }
        last
    })
}
