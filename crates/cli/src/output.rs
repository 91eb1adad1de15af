//! Output of the program. A reader may close the pipe early, as `head` does: this is no error, and
//! neither a run nor a target ends.
//!
//! No outside text reaches a terminal unchanged: [`print`] takes a [`Text`], [`painted`] a
//! [`Painted`], and neither type has control characters from outside. [`note`] prints one line.
//! Documents are printed so that a parser gets every byte ([`document`]); files in the formats of
//! other programs ([`file`]) keep their bytes unless they go to a terminal.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use block::{Text, printable, steers};
use report::Painted;
use rustix::io::Errno;
use serde::Serialize;
use textwrap::core::display_width;
use textwrap::{Options, WordSplitter};

use crate::exit::UsageError;

/// Prints lines to standard output.
pub fn print(text: &Text) -> Result<()> {
    show(text.as_str())
}

/// Prints one line to standard output.
pub fn print_line(line: impl Display) -> Result<()> {
    print(&[line].into_iter().collect())
}

/// Prints a rendering of a result to standard output.
pub fn painted(painted: &Painted) -> Result<()> {
    show(painted.as_str())
}

/// Prints lines; on a terminal, long lines are wrapped between words.
fn show(text: &str) -> Result<()> {
    match terminal_columns() {
        Some(columns) => write(wrapped(text, columns).as_bytes()),
        None => write(text.as_bytes()),
    }
}

/// Prints the end of a command's output: on a terminal, a summary and the last lines in at most
/// [`ROWS`] rows, which the user sees at once; elsewhere only the last lines.
pub fn end(sum: &Painted, last: &Text) -> Result<()> {
    match (is_terminal(), terminal_columns()) {
        (false, _) => print(last),
        (true, Some(columns)) => write(fitting(sum.as_str(), last.as_str(), columns).as_bytes()),
        (true, None) => write(format!("{}{}", sum.as_str(), last.as_str()).as_bytes()),
    }
}

/// Rows that are visible at once, above the next prompt and a few scrolled rows.
const ROWS: usize = 12;

/// The last lines, after as many lines of the summary as fit: the first ones are most important.
fn fitting(sum: &str, last: &str, columns: usize) -> String {
    let last = wrapped(last, columns);
    let mut room = ROWS.saturating_sub(last.lines().count());
    let mut all = String::new();
    for line in sum.split_inclusive('\n') {
        let line = wrapped(line, columns);
        let rows = line.lines().count();
        if rows > room {
            break;
        }
        (room, all) = (room - rows, all + &line);
    }
    all + &last
}

/// Prints the help of a command, which the parser has wrapped but for its usage.
pub fn help(text: &str) -> Result<()> {
    show(&format!("{}\n", text.trim_end()))
}

/// Prints the parser's message about a wrong command line to standard error.
pub fn refusal(text: &str) {
    let text = match columns_of(&io::stderr()) {
        Some(columns) => wrapped(text, columns),
        None => text.to_owned(),
    };
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Columns of the reader's terminal: that of standard output, or with a pager between that of
/// standard error.
pub fn reader_columns() -> Option<usize> {
    terminal_columns().or_else(|| columns_of(&io::stderr()))
}

/// Columns of the terminal on standard output; `None` if it is none, or too narrow for wrapping.
pub fn terminal_columns() -> Option<usize> {
    columns_of(&io::stdout())
}

fn columns_of(out: &(impl AsFd + IsTerminal)) -> Option<usize> {
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(out).ok())??;
    Some(usize::from(size.ws_col)).filter(|columns| *columns >= COLUMNS_LEAST)
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Narrower terminals wrap by themselves.
const COLUMNS_LEAST: usize = 40;

/// Wraps text to lines of at most `columns`. Continuation lines are indented to the text after
/// their label. A word that is longer than a line stays whole.
fn wrapped(text: &str, columns: usize) -> String {
    let mut all = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if display_width(line) <= columns {
            all += line;
        } else {
            let indent = " ".repeat(label_columns(line).min(columns / 2));
            let options = Options::new(columns).subsequent_indent(&indent).break_words(false);
            let options = options.word_splitter(WordSplitter::NoHyphenation);
            all += &textwrap::wrap(line, options).join("\n");
        }
        all += end;
    }
    all
}

/// Columns of a line's label: up to the text that follows its last gap of two columns within the
/// first twenty; else as many as the line is indented, and two more.
fn label_columns(line: &str) -> usize {
    let first: String = line.chars().take(LABEL_COLUMNS_MAX).collect();
    let indented = first.len() - first.trim_start().len();
    let gap = first.trim_end().rfind("  ").filter(|at| *at > indented);
    gap.map_or(indented + 2, |at| display_width(&first[..at + 2]))
}

/// Maximum columns of a label.
const LABEL_COLUMNS_MAX: usize = 20;

/// Prints a JSON document to standard output, indented.
pub fn document(document: &impl Serialize) -> Result<()> {
    json(&(serde_json::to_string_pretty(document)? + "\n"))
}

/// Prints the text of JSON documents to standard output.
pub fn json(text: &str) -> Result<()> {
    write(escaped(text).as_bytes())
}

/// A JSON document with escaped control characters: they occur only in strings, where an escape has
/// the same meaning.
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

/// Prints a file to standard output, to the last byte. On a terminal, the file is shown as text
/// without control characters.
pub fn file(bytes: &[u8]) -> Result<()> {
    if !io::stdout().is_terminal() {
        return write(bytes);
    }
    let lines = String::from_utf8_lossy(bytes);
    print(&lines.lines().collect())
}

/// Prints binary data to standard output; refuses a terminal.
pub fn bytes(bytes: &[u8]) -> Result<()> {
    if io::stdout().is_terminal() {
        let why = "this format is binary: redirect the output to a file with > FILE";
        return Err(UsageError(why.to_owned()).into());
    }
    write(bytes)
}

fn write(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if is_unread(&error, &out) => Ok(()),
        written => written.context("cannot print"),
    }
}

/// Whether an error of `out` only means that no reader is left: a pipe without a reader, or a
/// closed terminal, which returns "input/output error" (EIO). For a file, EIO is an error of the
/// disk.
pub fn is_unread(error: &io::Error, out: &impl AsFd) -> bool {
    let is_device = || {
        let file = out.as_fd().try_clone_to_owned().map(File::from);
        file.and_then(|file| file.metadata()).is_ok_and(|of| of.file_type().is_char_device())
    };
    let is_gone = error.raw_os_error() == Some(Errno::IO.raw_os_error());
    error.kind() == io::ErrorKind::BrokenPipe || is_gone && is_device()
}

/// Prints a line of diagnostics to standard error. `eprintln` would panic if the pipe has no
/// reader.
pub fn note(line: impl Display) {
    notes(&[line].into_iter().collect());
}

/// Prints lines of diagnostics to standard error.
pub fn notes(text: &Text) {
    // The transient line is cleared first and replaced by this output.
    let clears = cleared();
    let text = match columns_of(&io::stderr()) {
        Some(columns) => wrapped(text.as_str(), columns),
        None => text.as_str().to_owned(),
    };
    let _ = io::stderr().write_all(format!("{clears}{text}").as_bytes());
}

/// Columns of the unfinished line on standard error: 0 if there is none.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Overwrites the unfinished line without escape sequences, which not every terminal supports.
fn cleared() -> String {
    match WAITING.swap(0, Ordering::Relaxed) {
        0 => String::new(),
        columns => format!("\r{:columns$}\r", ""),
    }
}

/// Prints a transient line on standard error, which the next line replaces.
fn put(line: &str) {
    let columns = columns_of(&io::stderr()).unwrap_or(COLUMNS_LEAST);
    // A line that reaches the last column would wrap.
    let line = fitted(line, columns - 1);
    let _ = write!(io::stderr(), "{}{line}", cleared());
    WAITING.store(display_width(&line), Ordering::Relaxed);
}

/// Shortens a line to whole words that fit in this many columns.
fn fitted(line: &str, columns: usize) -> String {
    let line = printable(line);
    if display_width(&line) <= columns {
        return line.into_owned();
    }
    let options = Options::new(columns - 2).word_splitter(WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(&line, options);
    lines.first().map_or_else(String::new, |line| format!("{line} …"))
}

/// Whether standard error is a terminal on which a line can be written over.
fn writes_over() -> bool {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stderr().is_terminal() && !is_dumb
}

/// Guard that shows on a terminal that an operation takes a moment, until dropped. Elsewhere
/// nothing is printed.
pub struct Wait(bool);

impl Wait {
    /// Shows `what` until dropped.
    pub fn says(what: &str) -> Wait {
        let is_seen = writes_over();
        if is_seen {
            put(&format!("{what} …"));
        }
        Wait(is_seen)
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if self.0 {
            let _ = write!(io::stderr(), "{}", cleared());
        }
    }
}

/// A progress line on standard error: overwritten on a terminal, and cleared on drop; in a log, a
/// line for each report.
pub struct Progress(bool);

impl Progress {
    /// Creates the line without showing it yet.
    pub fn new() -> Progress {
        Progress(writes_over())
    }

    /// Whether the progress is shown on a terminal.
    pub fn is_seen(&self) -> bool {
        self.0
    }

    /// Shows a progress line.
    pub fn show(&mut self, line: &str) {
        match self.0 {
            true => put(line),
            false => note(line),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.0 {
            let _ = write!(io::stderr(), "{}", cleared());
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn wide_lines_go_on_below_their_text() {
        let text = "short\n  warn     H02 data-exist: a b c d e f g h i j k l m n o p\n\nend";
        let lines =
            "short\n  warn     H02 data-exist: a b c d e f g\n           h i j k l m n o p\n\nend";
        assert_eq!(wrapped(text, 40), lines);
        let plain = "one two three four five six seven eight nine ten\n";
        assert_eq!(wrapped(plain, 40), "one two three four five six seven eight\n  nine ten\n");
        // A colour has no width, and a path is not split.
        let red = "\x1b[31mone two three four five six seven eight\x1b[0m\n";
        assert_eq!(wrapped(red, 40), red);
        let path = format!("saved in {}\n", "/a".repeat(30));
        assert_eq!(wrapped(&path, 40), format!("saved in\n  {}\n", "/a".repeat(30)));
    }

    #[test]
    fn a_line_that_is_written_over_keeps_whole_words() {
        assert_eq!(fitted("checked 3 of 40", 40), "checked 3 of 40");
        assert_eq!(fitted("checked 3 of 40 GiB at 200 MB/s", 20), "checked 3 of 40 …");
        WAITING.store(3, Ordering::Relaxed);
        assert_eq!((cleared().as_str(), cleared().as_str()), ("\r   \r", ""));
    }

    #[test]
    fn a_sum_gives_way_to_the_last_lines() {
        let sum: String = (1..=14).map(|line| format!("line {line}\n")).collect();
        let last = "\nsaved in a\n";
        let shown = fitting(&sum, last, 80);
        assert_eq!(shown.lines().count(), ROWS);
        assert!(
            shown.starts_with("line 1\n") && shown.ends_with("line 10\n\nsaved in a\n"),
            "{shown}"
        );
        // A line counts with all its rows, and is printed completely.
        let wide = format!("{}\n{}\nend\n", "a ".repeat(150), "b ".repeat(300));
        let shown = fitting(&wide, last, 40);
        assert_eq!((shown.matches('a').count(), shown.matches('b').count()), (152, 0), "{shown}");
        assert_eq!(fitting("one\n", last, 80), "one\n\nsaved in a\n");
    }
}
