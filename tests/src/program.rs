//! Programs with time limits.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Patience, skip};

/// Time-out of a dead program's pipes.
const PIPE_PATIENCE: Duration = Duration::from_secs(60);

/// Time to wait for unread output of an ended program.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(10);

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; `None` when a signal ended the program.
    pub code: Option<i32>,
    /// Output on stdout.
    pub stdout: String,
    /// Output on stderr.
    pub stderr: String,
}

impl Finished {
    /// Fails the test unless the program succeeded.
    pub fn ok(self) -> Finished {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// The single JSON document on stdout.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Finds a program by its name. Without it, the calling test is recorded as skipped.
pub fn require(program: &str) -> Option<PathBuf> {
    let found = find(program);
    if found.is_none() {
        skip(&format!("{program} is not installed"));
    }
    found
}

/// Path of a program, searched as a shell does, and in /sbin folders.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/local/sbin"]);
    folders.map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

/// Runs a program to its end. Fails the test when it takes longer than `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Finished {
    Running::start(command).finish(limit)
}

/// A running program, stopped by its id on drop.
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    stdout: Collected,
    stderr: Collected,
}

/// Output of a pipe so far, and the thread that reads it.
#[derive(Debug)]
struct Collected {
    text: Arc<Mutex<String>>,
    reader: thread::JoinHandle<()>,
}

impl Running {
    /// Starts a program and collects its output.
    pub fn start(command: &mut Command) -> Running {
        let name = format!("{command:?}");
        let mut command = leashed(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        Running { child, name, stdout, stderr }
    }

    /// Process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Output on stdout so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Output on stderr so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Whether the program still runs.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a child has an id"), signal).expect("it is not waited for yet");
    }

    /// Waits for the program's end. Fails the test if that takes longer than `limit`.
    pub fn finish(mut self, limit: Duration) -> Finished {
        let mut patience = Patience::new(limit);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            let name = &self.name;
            assert!(patience.wait(), "{name} did not end in {limit:?}: {self:?}");
        };
        // The pipes close with the program, unless a child of the program survives.
        let mut patience = Patience::new(PIPE_PATIENCE);
        let reading = || ![&self.stdout, &self.stderr].iter().all(|pipe| pipe.reader.is_finished());
        while reading() && patience.wait() {}
        Finished { code: status.code(), stdout: self.stdout(), stderr: self.stderr() }
    }

    /// Waits until `ready` finds its text in stdout. Fails the test after `limit`.
    pub fn await_stdout<T>(&mut self, limit: Duration, ready: impl Fn(&str) -> Option<T>) -> T {
        self.await_that(limit, |running| ready(&running.stdout()))
    }

    /// Waits until `ready` finds its text in stderr. Fails the test after `limit`.
    pub fn await_stderr<T>(&mut self, limit: Duration, ready: impl Fn(&str) -> Option<T>) -> T {
        self.await_that(limit, |running| ready(&running.stderr()))
    }

    /// Waits until `ready` returns something. Fails the test after `limit`, or if the program ended
    /// without it.
    pub fn await_that<T>(
        &mut self,
        limit: Duration,
        mut ready: impl FnMut(&Running) -> Option<T>,
    ) -> T {
        let mut patience = Patience::new(limit);
        let mut last_words = Patience::new(LAST_WORDS);
        loop {
            // Checked first: all output before the end is read afterwards.
            let alive = self.alive();
            let read = [&self.stdout, &self.stderr].iter().all(|pipe| pipe.reader.is_finished());
            if let Some(found) = ready(self) {
                return found;
            }
            let waits = if alive { patience.wait() } else { !read && last_words.wait() };
            assert!(waits, "{} did not come to what is awaited: {self:?}", self.name);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.alive() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
        if thread::panicking() {
            eprintln!("stderr of {}:\n{}", self.name, self.stderr());
        }
    }
}

/// Wraps a command so that the kernel kills the program if this test dies without stopping it, such
/// as by an interrupt. The process ID remains the program's own.
pub(crate) fn leashed(command: &Command) -> Command {
    let program = command.get_program();
    let mut leashed = match find("setpriv") {
        Some(setpriv) => {
            let mut leashed = Command::new(setpriv);
            leashed.args(["--pdeathsig", "KILL", "--"]).arg(program);
            leashed
        }
        None => Command::new(program),
    };
    leashed.args(command.get_args());
    for (name, value) in command.get_envs() {
        leashed.env(name, value.expect("no test takes a variable away"));
    }
    if let Some(folder) = command.get_current_dir() {
        leashed.current_dir(folder);
    }
    leashed
}

/// Reads a pipe to its end in a separate thread.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Collected {
    let text = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&text);
    let reader = thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut bytes = [0; 4096];
        // Start of a UTF-8 sequence that ends in the next read.
        let mut cut = 0;
        while let Ok(len @ 1..) = pipe.read(&mut bytes[cut..]) {
            let all = cut + len;
            let whole = match std::str::from_utf8(&bytes[..all]) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => all,
            };
            let part = String::from_utf8_lossy(&bytes[..whole]);
            kept.lock().expect("readers do not panic").push_str(&part);
            bytes.copy_within(whole..all, 0);
            cut = all - whole;
        }
    });
    Collected { text, reader }
}

impl Collected {
    fn text(&self) -> String {
        self.text.lock().expect("readers do not panic").clone()
    }
}
