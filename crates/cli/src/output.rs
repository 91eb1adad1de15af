//! What is printed. Whoever reads it may have seen enough and leave, as `head` does: that fails
//! nothing, and it ends neither a run nor a target.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rustix::io::Errno;

/// Prints a text to standard output, [`plain`].
pub fn print(text: &str) -> Result<()> {
    write(|out| out.write_all(plain(text).as_bytes()))
}

/// Lets `fill` print to standard output.
pub fn write(fill: impl FnOnce(&mut StdoutLock<'static>) -> io::Result<()>) -> Result<()> {
    let mut out = io::stdout().lock();
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(error) if is_unread(&error, &out) => Ok(()),
        written => written.context("cannot print"),
    }
}

/// Whether an error of `out` only says that nobody reads there: a pipe without a reader, or a
/// terminal that went away, which is "input/output error". Of a file that one is of the disk.
pub fn is_unread(error: &io::Error, out: &impl AsFd) -> bool {
    let is_device = || {
        let file = out.as_fd().try_clone_to_owned().map(File::from);
        file.and_then(|file| file.metadata()).is_ok_and(|of| of.file_type().is_char_device())
    };
    let is_gone = error.raw_os_error() == Some(Errno::IO.raw_os_error());
    error.kind() == io::ErrorKind::BrokenPipe || is_gone && is_device()
}

/// A line of diagnostics on standard error. `eprintln` panics where nobody reads it.
pub fn note(line: impl Display) {
    // It takes the place of what is said meanwhile.
    let clears = if WAITING.swap(false, Ordering::Relaxed) { CLEARED } else { "" };
    let _ = writeln!(io::stderr(), "{clears}{}", plain(&line.to_string()));
}

/// Something is said on a line that is not ended.
static WAITING: AtomicBool = AtomicBool::new(false);
/// Back to the first column, and the line is empty again.
const CLEARED: &str = "\r\x1b[K";

/// Says on a terminal that something takes a moment, until it is dropped. Elsewhere nothing.
pub struct Wait(bool);

impl Wait {
    /// From now on.
    pub fn says(what: &str) -> Wait {
        let is_seen = io::stderr().is_terminal();
        if is_seen {
            let _ = write!(io::stderr(), "{} …", plain(what));
            WAITING.store(true, Ordering::Relaxed);
        }
        Wait(is_seen)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.0 && WAITING.swap(false, Ordering::Relaxed) {
            let _ = write!(io::stderr(), "{CLEARED}");
        }
    }
}

/// A line on standard error that tells how far something is: on a terminal it is written over, and
/// gone when this is dropped; in a log each is a line.
pub struct Progress(bool);

impl Progress {
    /// Nothing is shown yet.
    pub fn new() -> Progress {
        Progress(io::stderr().is_terminal())
    }

    /// Shows it.
    pub fn show(&mut self, line: &str) {
        if !self.0 {
            return note(line);
        }
        let _ = write!(io::stderr(), "{CLEARED}{}", plain(line));
        WAITING.store(true, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.0 && WAITING.swap(false, Ordering::Relaxed) {
            let _ = write!(io::stderr(), "{CLEARED}");
        }
    }
}

/// A text for a terminal. Names and files of others may hold letters that steer it: they become
/// dots.
fn plain(text: &str) -> String {
    let steers = |letter: char| letter.is_control() && !['\n', '\t'].contains(&letter);
    text.chars().map(|letter| if steers(letter) { '·' } else { letter }).collect()
}
