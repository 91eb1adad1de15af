//! What a reader says about a file: where it stands, what it means, what is not done.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// The file as it was named.
    pub file: Arc<str>,
    /// Counted from 1.
    pub line: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A file that cannot be read: where, the offending text, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {}{why}", quoted(.text))]
pub struct FormatError {
    /// Where.
    pub at: Location,
    /// The text that is to blame, at most [`SHOWN_CHARS`] of it.
    pub text: String,
    /// What is wrong, and the remedy.
    pub why: String,
}

/// So much of an offending line is shown.
pub const SHOWN_CHARS: usize = 80;

impl FormatError {
    /// An error at `at` about `text`.
    pub fn new(at: &Location, text: &str, why: impl Into<String>) -> FormatError {
        FormatError { at: at.clone(), text: shown(text), why: why.into() }
    }
}

/// What becomes of a setting that is not taken as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Treatment {
    /// The file is not run because of it.
    Refused,
    /// It is run, and does something else than its author's tool would do.
    Differs,
    /// It is left out, and the load is the same without it.
    Ignored,
}

impl Treatment {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Treatment::Refused => "refused",
            Treatment::Differs => "differs",
            Treatment::Ignored => "ignored",
        }
    }
}

/// A setting that is not taken as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Where it stands.
    pub at: Location,
    /// The setting.
    pub text: String,
    /// What becomes of it.
    pub treatment: Treatment,
    /// Why, and the remedy where there is one.
    pub why: String,
}

impl Note {
    /// A note about `text` at `at`.
    pub fn new(at: &Location, text: &str, treatment: Treatment, why: impl Into<String>) -> Note {
        Note { at: at.clone(), text: shown(text), treatment, why: why.into() }
    }

    /// It without the word for its treatment: as the one reason why a file is refused.
    pub fn reason(&self) -> String {
        format!("{}: {}{}", self.at, quoted(&self.text), self.why)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.treatment.word(), self.reason())
    }
}

/// Notes in the order in which they were taken, each once.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    all: Vec<Note>,
    seen: HashSet<Note>,
}

impl Notes {
    /// Takes a note, unless it was taken before.
    pub fn take(&mut self, note: Note) {
        if self.seen.insert(note.clone()) {
            self.all.push(note);
        }
    }

    /// All of them.
    pub fn into_vec(self) -> Vec<Note> {
        self.all
    }
}

impl FromIterator<Note> for Notes {
    fn from_iter<I: IntoIterator<Item = Note>>(notes: I) -> Notes {
        let mut all = Notes::default();
        notes.into_iter().for_each(|note| all.take(note));
        all
    }
}

/// What is said before the reason; a file may also lack something.
fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`: ") }
}

/// The beginning of a text, without control characters: it goes to a terminal.
fn shown(text: &str) -> String {
    let mut chars = text.trim().chars().map(|c| if c.is_control() { '·' } else { c });
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}
