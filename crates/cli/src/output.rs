//! What is printed. Whoever reads it may have seen enough and leave, as `head` does: that fails
//! nothing, and it ends neither a run nor a target.

use std::fmt::Display;
use std::io::{self, StdoutLock, Write};

use anyhow::{Context, Result};

/// Prints a text to standard output, [`plain`].
pub fn print(text: &str) -> Result<()> {
    write(|out| out.write_all(plain(text).as_bytes()))
}

/// Lets `fill` print to standard output.
pub fn write(fill: impl FnOnce(&mut StdoutLock<'static>) -> io::Result<()>) -> Result<()> {
    let mut out = io::stdout().lock();
    match fill(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot print"),
    }
}

/// A line of diagnostics on standard error. `eprintln` panics where nobody reads it.
pub fn note(line: impl Display) {
    let _ = writeln!(io::stderr(), "{}", plain(&line.to_string()));
}

/// A text for a terminal. Names and files of others may hold letters that steer it: they become
/// dots.
fn plain(text: &str) -> String {
    let steers = |letter: char| letter.is_control() && !['\n', '\t'].contains(&letter);
    text.chars().map(|letter| if steers(letter) { '·' } else { letter }).collect()
}
