//! Messages of a reader about a file: location, text, and treatment of a setting.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location {
    /// Name of the file, as given.
    pub file: Arc<str>,
    /// Number of the line, from 1.
    pub line: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Error for a file that cannot be read: location, offending text, and remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {}{why}", quoted(.text))]
pub struct FormatError {
    /// Location of the text.
    pub at: Location,
    /// Offending text, at most [`SHOWN_CHARS`] of it.
    pub text: String,
    /// Reason, and the remedy.
    pub why: String,
}

/// Maximum number of characters to show of an offending line.
pub const SHOWN_CHARS: usize = 80;

impl FormatError {
    /// Creates an error at `at` about `text`.
    pub fn new(at: &Location, text: &str, why: impl Into<String>) -> FormatError {
        FormatError { at: at.clone(), text: shown(text), why: why.into() }
    }
}

/// Treatment of a setting that is not applied unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Treatment {
    /// The setting prevents the run.
    Refused,
    /// The setting has another effect than in its author's tool.
    Differs,
    /// The setting is ignored, and the load is the same without it.
    Ignored,
}

impl Treatment {
    /// Returns the word for the treatment.
    pub fn word(self) -> &'static str {
        match self {
            Treatment::Refused => "refused",
            Treatment::Differs => "differs",
            Treatment::Ignored => "ignored",
        }
    }
}

/// Note on a setting that is not applied unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// Location of the setting.
    pub at: Location,
    /// Text of the setting.
    pub text: String,
    /// Treatment of the setting.
    pub treatment: Treatment,
    /// Reason, and the remedy if there is one.
    pub why: String,
}

impl Note {
    /// Creates a note about `text` at `at`.
    pub fn new(at: &Location, text: &str, treatment: Treatment, why: impl Into<String>) -> Note {
        Note { at: at.clone(), text: shown(text), treatment, why: why.into() }
    }

    /// Returns the note without the word for its treatment: as the only reason why a file is
    /// refused.
    pub fn reason(&self) -> String {
        format!("{}: {}{}", self.at, quoted(&self.text), self.why)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.treatment.word(), self.reason())
    }
}

/// Notes in order, each once.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    all: Vec<Note>,
    seen: HashSet<Note>,
}

impl Notes {
    /// Adds a note, unless it was added before.
    pub fn take(&mut self, note: Note) {
        if self.seen.insert(note.clone()) {
            self.all.push(note);
        }
    }

    /// Returns all notes.
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

/// Returns the quoted text before the reason; empty if the file lacks something.
fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`: ") }
}

/// Returns the beginning of a text, without control characters, for a terminal.
fn shown(text: &str) -> String {
    let mut chars = text.trim().chars().map(|c| if c.is_control() { '·' } else { c });
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}
