//! What is printed. Whoever reads it may have seen enough and leave, as `head` does: that fails
//! nothing, and it ends neither a run nor a target.
//!
//! Nothing from outside reaches a terminal as it is: [`print`] takes a [`Text`], [`painted`] a
//! [`Painted`], and neither of them holds a character that steers one. [`note`] prints one line.
//! Documents are printed so that whoever parses them gets every byte ([`document`]); files in the
//! forms of other programs ([`file`]) keep theirs unless they go to a terminal.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use block::{Text, printable, steers};
use report::Painted;
use rustix::io::Errno;
use serde::Serialize;

/// Prints lines to standard output.
pub fn print(text: &Text) -> Result<()> {
    write(text.as_str().as_bytes())
}

/// Prints one line to standard output.
pub fn print_line(line: impl Display) -> Result<()> {
    print(&[line].into_iter().collect())
}

/// Prints a rendering of a result to standard output.
pub fn painted(painted: &Painted) -> Result<()> {
    write(painted.as_str().as_bytes())
}

/// Prints a JSON document to standard output, indented.
pub fn document(document: &impl Serialize) -> Result<()> {
    json(&(serde_json::to_string_pretty(document)? + "\n"))
}

/// Prints the text of JSON documents to standard output.
pub fn json(text: &str) -> Result<()> {
    write(escaped(text).as_bytes())
}

/// A JSON document whose characters that steer a terminal are escaped: they occur in strings alone,
/// where an escape means the same.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if steers(letter) && letter != '\n' {
            for unit in letter.encode_utf16(&mut [0; 2]) {
                escaped += &format!("\\u{unit:04x}");
            }
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Prints a file to standard output, to the last byte. On a terminal it is shown, without what
/// would steer that.
pub fn file(bytes: &[u8]) -> Result<()> {
    if !io::stdout().is_terminal() {
        return write(bytes);
    }
    let lines = String::from_utf8_lossy(bytes);
    print(&lines.lines().collect())
}

fn write(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
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

/// Prints a line of diagnostics to standard error. `eprintln` panics where nobody reads it.
pub fn note(line: impl Display) {
    notes(&[line].into_iter().collect());
}

/// Prints lines of diagnostics to standard error.
pub fn notes(text: &Text) {
    // They take the place of what is said meanwhile.
    let clears = if WAITING.swap(false, Ordering::Relaxed) { CLEARED } else { "" };
    let _ = io::stderr().write_all(format!("{clears}{}", text.as_str()).as_bytes());
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
            let _ = write!(io::stderr(), "{} …", printable(what));
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

    /// Whether it is on a terminal.
    pub fn is_seen(&self) -> bool {
        self.0
    }

    /// Shows it.
    pub fn show(&mut self, line: &str) {
        if !self.0 {
            return note(line);
        }
        let _ = write!(io::stderr(), "{CLEARED}{}", printable(line));
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
