//! Processes of a step: clients, and the targets that serve them. They end with this process,
//! however that ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use block::Nanos;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::Failed;
use crate::companion;
use crate::gate::Gate;

/// Command of this program, in a folder, optionally started through prefix programs that exec it.
pub fn program(work: &Path, by: &[String]) -> Result<Command> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut command = match by {
        [] => Command::new(own),
        [first, more @ ..] => {
            let mut command = Command::new(first);
            command.args(more).arg(own);
            command
        }
    };
    // A separate process group: Ctrl-C reaches only this process, which forwards it once.
    command.current_dir(work).process_group(0).stdin(Stdio::null());
    command.env(companion::VARIABLE, std::process::id().to_string());
    // A child is no rank, even if this process is one.
    fleet::forget_launcher(&mut command);
    Ok(command)
}

/// A process that drives or computes.
pub struct Client {
    child: Child,
    out: JoinHandle<String>,
    words: JoinHandle<String>,
    /// Gate at which the process waits for the others.
    pub gate: Option<Gate>,
}

impl Client {
    /// Starts a client, behind a gate if others are to start with it.
    pub fn start(mut command: Command, gate: Option<Gate>) -> Result<Client> {
        command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a child process")?;
        let out = child.stdout.take().expect("it was asked for");
        let words = child.stderr.take().expect("it was asked for");
        Ok(Client { child, out: gather(out), words: gather(words), gate })
    }

    /// Whether the client has arrived at its gate, if it has one.
    pub fn has_arrived(&mut self) -> bool {
        self.gate.as_mut().is_none_or(Gate::has_arrived)
    }

    /// Whether the client is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Requests an early end.
    pub fn interrupt(&self) {
        // The process may have ended already; then the signal has no receiver.
        let _ = kill_process(Pid::from_child(&self.child), Signal::INT);
    }

    /// JSON document that the client printed, or the reason why there is none.
    pub fn document(mut self, step: &str) -> Result<Value> {
        let status = self.child.wait().context("cannot wait for a step's process")?;
        let out = self.out.join().unwrap_or_default();
        let words = self.words.join().unwrap_or_default();
        let last = reason(&words);
        if !status.success() {
            return Err(
                Failed(format!("step {step}: its process ended with {status}: {last}")).into()
            );
        }
        serde_json::from_str(&out).map_err(|_| {
            Failed(format!("step {step}: its process printed no result: {last}")).into()
        })
    }
}

fn gather(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        // Output before a read error is still reported.
        let _ = from.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Targets of a step.
pub struct Server {
    child: Child,
    /// Portals of the target, by protocol.
    pub portals: BTreeMap<String, Vec<String>>,
}

impl Server {
    /// Starts the target, and waits until it is ready.
    pub fn start(args: &[String], work: &Path, by: &[String]) -> Result<Server> {
        let mut command = program(work, by)?;
        command.arg("serve").args(args).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let child = command.spawn().context("cannot start a target")?;
        let mut server = Server { child, portals: BTreeMap::new() };
        let mut line = String::new();
        let out = server.child.stdout.take().expect("it was asked for");
        BufReader::new(out).read_line(&mut line).context("cannot read the output of the target")?;
        let words = line
            .strip_prefix("ready")
            .ok_or_else(|| Failed("its target ended before it was ready: see stderr".to_owned()))?;
        let portals = words.split_whitespace().filter_map(|word| word.split_once('='));
        for (name, at) in portals {
            server.portals.entry(name.to_owned()).or_default().push(at.to_owned());
        }
        Ok(server)
    }

    /// Process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Processor time of all its threads so far.
    pub fn processor_time(&self) -> Option<Nanos> {
        os::sample::process_cpu(self.child.id()).ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGTERM ends a target cleanly; it may have ended already.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let _ = self.child.wait();
    }
}

/// Line of the diagnostics with the reason of the exit.
fn reason(words: &str) -> &str {
    // Errors in arguments come first, followed by hints.
    let told = words.lines().find_map(|line| line.strip_prefix("error: "));
    let last = told.or_else(|| words.lines().last()).unwrap_or("it printed no reason").trim();
    last.trim_start_matches("drumfire: ")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn of_what_a_process_says_the_reason_is_shown() {
        let wrong = "error: unrecognized subcommand 'rnu'\n\n  tip: 'run'\n\nFor more, --help.\n";
        assert_eq!(reason(wrong), "unrecognized subcommand 'rnu'");
        assert_eq!(reason("one line\ndrumfire: no such file\n"), "no such file");
        assert_eq!(reason(""), "it printed no reason");
    }
}
