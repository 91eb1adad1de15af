//! Synchronised start of child processes: rates add up only if they were measured at the same time,
//! and a process that starts late on a busy host starts very late.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use block::Nanos;
use load::Stop;

/// Says that standard input is a gate.
const VARIABLE: &str = "DRUMFIRE_GATE";

/// The way to a process that waits.
#[derive(Debug)]
pub struct Gate {
    stream: UnixStream,
    arrived: bool,
}

impl Gate {
    /// Installs a gate as the standard input of a process that is about to start.
    pub fn before(command: &mut Command) -> Result<Gate> {
        let made = UnixStream::pair().and_then(|(stream, theirs)| {
            stream.set_nonblocking(true)?;
            Ok((stream, theirs))
        });
        let (stream, theirs) = made.context("cannot make a socket for another process")?;
        command.stdin(Stdio::from(OwnedFd::from(theirs))).env(VARIABLE, "1");
        Ok(Gate { stream, arrived: false })
    }

    /// Whether the process waits at the gate, or has ended.
    pub fn has_arrived(&mut self) -> bool {
        let mut waits = || self.stream.read(&mut [0]);
        self.arrived |= !waits().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        self.arrived
    }

    /// Releases the process.
    pub fn open(&mut self) {
        // An error means that the process has ended, which is harmless.
        let _ = self.stream.write_all(b".");
    }
}

/// The gate that the process which started this one opens, if there is one and it was not open
/// before.
#[derive(Debug)]
pub struct Parent;

impl load::Gate for Parent {
    fn wait(&self, _: &Stop, _: &mut dyn FnMut()) -> Option<Nanos> {
        static PASSED: AtomicBool = AtomicBool::new(false);
        if std::env::var_os(VARIABLE).is_none() || PASSED.swap(true, Ordering::Relaxed) {
            return None;
        }
        let stdin = std::io::stdin();
        // If the parent is gone, this process ends anyway.
        let _ = rustix::io::write(&stdin, b".");
        let _ = rustix::io::read(&stdin, &mut [0_u8; 1]);
        None
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_process_waits_until_the_gate_opens() {
        let mut command = Command::new("sh");
        // The shell writes to its standard input, as the process behind a gate does.
        command.args(["-c", "test $DRUMFIRE_GATE = 1 && printf . >&0 && read -r _; exit 3"]);
        let mut gate = Gate::before(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        drop(command);
        while !gate.has_arrived() {
            std::thread::yield_now();
        }
        assert!(child.try_wait().unwrap().is_none());
        gate.stream.write_all(b"\n").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(3));
    }

    #[test]
    fn nobody_waits_for_a_process_that_has_ended() {
        let mut command = Command::new("true");
        let mut gate = Gate::before(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        drop(command);
        child.wait().unwrap();
        assert!(gate.has_arrived());
        gate.open();
    }
}
