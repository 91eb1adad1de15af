//! A pseudo-terminal, a program on it, and a user who reads its output or does not.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::Patience;
use crate::program::{LAST_WORDS, leashed};

/// Polling interval for a close.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// The user's end of a pseudo-terminal.
#[derive(Debug)]
pub struct Terminal {
    user: Arc<Mutex<Option<OwnedFd>>>,
    /// Path of the program's end.
    name: String,
    seen: Arc<Mutex<Vec<u8>>>,
    /// The reader is idle: no output arrives, or nobody reads.
    has_read: Arc<AtomicBool>,
}

/// A program on the terminal, stopped by its id on drop.
#[derive(Debug)]
pub struct OnTerminal {
    child: Child,
    seen: Arc<Mutex<Vec<u8>>>,
    has_read: Arc<AtomicBool>,
}

impl Terminal {
    /// A terminal of 100 columns whose user reads everything.
    pub fn open() -> Terminal {
        Terminal::sized(30, 100)
    }

    /// A terminal of this size whose user reads everything.
    pub fn sized(rows: u16, columns: u16) -> Terminal {
        let terminal = Terminal::of(rows, columns);
        terminal.has_read.store(false, Ordering::Release);
        let (user, seen) = (Arc::clone(&terminal.user), Arc::clone(&terminal.seen));
        let has_read = Arc::clone(&terminal.has_read);
        thread::spawn(move || {
            while read_some(&user, &seen) {}
            has_read.store(true, Ordering::Release);
        });
        terminal
    }

    /// A terminal whose user reads nothing, as over a broken connection.
    pub fn unread() -> Terminal {
        Terminal::of(30, 100)
    }

    fn of(rows: u16, columns: u16) -> Terminal {
        // No program may inherit the user's end.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let user = openpt(flags).expect("there are terminals");
        grantpt(&user).and_then(|()| unlockpt(&user)).expect("it is ours");
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&user, size).expect("it is a terminal");
        let name = ptsname(&user, Vec::new()).expect("it has a name");
        Terminal {
            user: Arc::new(Mutex::new(Some(user))),
            name: name.into_string().expect("a name of letters"),
            seen: Arc::default(),
            has_read: Arc::new(AtomicBool::new(true)),
        }
    }

    /// Starts a program on the terminal.
    pub fn start(&self, command: &Command) -> OnTerminal {
        let end = File::options().read(true).write(true).open(&self.name).expect("it is there");
        let mut command = leashed(command);
        let copy = || end.try_clone().expect("there are numbers left");
        command.stdin(copy()).stdout(copy()).stderr(copy()).env("TERM", "xterm");
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (seen, has_read) = (Arc::clone(&self.seen), Arc::clone(&self.has_read));
        OnTerminal { child, seen, has_read }
    }

    /// Presses keys.
    pub fn press(&self, keys: &str) {
        let user = self.user.lock().expect("nobody panics with it");
        let user = user.as_ref().expect("it is open").try_clone().expect("a number is left");
        File::from(user).write_all(keys.as_bytes()).expect("it takes a key");
    }

    /// Closes the window.
    pub fn close(&self) {
        *self.user.lock().expect("nobody panics with it") = None;
    }
}

/// Reads output that arrives within a moment. False once no more can arrive: the window is closed,
/// or the program gone.
fn read_some(user: &Mutex<Option<OwnedFd>>, seen: &Mutex<Vec<u8>>) -> bool {
    let user = user.lock().expect("nobody panics with it");
    let Some(user) = user.as_ref() else { return false };
    if poll(&mut [PollFd::new(user, PollFlags::IN)], Some(&LOOK)) != Ok(1) {
        return true;
    }
    let mut bytes = [0; 4096];
    let Ok(len @ 1..) = rustix::io::read(user, &mut bytes) else { return false };
    seen.lock().expect("nobody panics with it").extend(&bytes[..len]);
    true
}

impl OnTerminal {
    /// Process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Output that the user has seen so far.
    pub fn seen(&self) -> String {
        let bytes = self.seen.lock().expect("nobody panics with it");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("a child has an id"), signal).expect("it is not waited for yet");
    }

    /// Waits until `ready`. Fails the test after `limit`, or when the program ended before.
    pub fn await_that(&mut self, limit: Duration, ready: impl Fn(&OnTerminal) -> bool) {
        let mut patience = Patience::new(limit);
        // The last output before the exit may not be read yet.
        let mut last_words = Patience::new(LAST_WORDS);
        while !ready(self) {
            let ended = self.child.try_wait().expect("it is our child");
            let waits = if ended.is_none() { patience.wait() } else { last_words.wait() };
            assert!(waits, "{ended:?}: {}", self.seen());
        }
    }

    /// Waits for the program's end and its remaining output, and returns its exit code; `None` if a
    /// signal ended it. Fails the test if that takes longer than `limit`.
    pub fn finish(&mut self, limit: Duration) -> Option<i32> {
        let mut patience = Patience::new(limit);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it is our child") {
                break status;
            }
            assert!(patience.wait(), "it did not end in {limit:?}: {}", self.seen());
        };
        let mut last_words = Patience::new(LAST_WORDS);
        while !self.has_read.load(Ordering::Acquire) && last_words.wait() {}
        status.code()
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
