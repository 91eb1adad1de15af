//! The lines of an Iometer configuration: keys begin with an apostrophe, values follow them.

use std::sync::Arc;

use crate::formats::note::{FormatError, Location};

/// Maximum number of lines of a file.
const LINES_MAX: usize = 1 << 16;

/// A non-empty line with its location.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Location of the line.
    pub at: Location,
    /// Text without the surrounding blanks.
    pub text: String,
}

impl Text {
    /// Returns an error about this line with the reason `why`.
    pub fn error(&self, why: impl Into<String>) -> FormatError {
        FormatError::new(&self.at, &self.text, why)
    }

    /// Returns the fields between commas, or between blanks if there is no comma.
    pub fn fields(&self) -> Vec<&str> {
        match self.text.contains(',') {
            true => self.text.split(',').map(str::trim).collect(),
            false => self.text.split_whitespace().collect(),
        }
    }

    /// Reads a field as a number.
    pub fn number<T: std::str::FromStr>(&self, index: usize, what: &str) -> Result<T, FormatError> {
        let fields = self.fields();
        let field = fields.get(index).copied().unwrap_or_default();
        field.parse().map_err(|_| self.error(format!("{what} is not a number: '{field}'")))
    }
}

/// Iterates over the lines of a file.
pub struct Scanner<'a> {
    file: Arc<str>,
    lines: Vec<&'a str>,
    next: usize,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner of the text of `file`.
    pub fn new(file: &str, text: &'a str) -> Result<Scanner<'a>, FormatError> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let scanner = Scanner { file: file.into(), lines, next: 0 };
        match scanner.lines.len() <= LINES_MAX {
            true => Ok(scanner),
            false => Err(FormatError::new(&scanner.at(LINES_MAX), "", "more than 65536 lines")),
        }
    }

    /// Returns the next line outside of every section, skipping blank lines and versions; `None` at
    /// the end of the file.
    pub fn outside(&mut self) -> Option<Text> {
        while let Some(line) = self.lines.get(self.next) {
            let at = self.at(self.next);
            self.next += 1;
            if !line.is_empty() && !is_version(line) && !is_bare_version(line) {
                return Some(Text { at, text: (*line).to_owned() });
            }
        }
        None
    }

    /// Steps back before the key that was just read.
    pub fn back(&mut self) {
        self.next = self.next.saturating_sub(1);
    }

    /// Returns the next key without its apostrophe, skipping blank lines; `None` at the end of the
    /// file. A line that is no key is an error, except for the version that ends a file.
    pub fn key(&mut self) -> Result<Option<Text>, FormatError> {
        while let Some(line) = self.lines.get(self.next) {
            let at = self.at(self.next);
            self.next += 1;
            match line.strip_prefix('\'') {
                Some(key) if !is_caption(key) => {
                    return Ok(Some(Text { at, text: key.trim().to_owned() }));
                }
                Some(_) => {}
                None if line.is_empty() || is_version(line) => {}
                None => {
                    let why = "a value without a key: keys start with an apostrophe";
                    return Err(FormatError::new(&at, line, why));
                }
            }
        }
        Ok(None)
    }

    /// Returns the value of the previous key: the next line that is no caption. The value may be
    /// empty; in a file with blank lines between all others it follows a blank line.
    pub fn value(&mut self) -> Result<Text, FormatError> {
        self.skip_captions();
        let rest = self.lines.get(self.next..).unwrap_or_default();
        let blank = rest.iter().take_while(|line| line.is_empty()).count();
        if rest.get(blank).is_some_and(|line| !line.starts_with('\'') && !is_version(line)) {
            self.next += blank;
        }
        let at = self.at(self.next);
        match self.lines.get(self.next) {
            Some(line) if !line.starts_with('\'') => {
                self.next += 1;
                Ok(Text { at, text: (*line).to_owned() })
            }
            Some(line) => Err(FormatError::new(&at, line, "the previous key has no value")),
            None => Err(FormatError::new(&at, "", "the file ends before a value")),
        }
    }

    /// Returns the value of the previous key, or an empty text if it is missing.
    pub fn text(&mut self) -> String {
        match self.lines.get(self.next) {
            Some(line) if !line.starts_with('\'') => {
                self.value().map_or_else(|_| String::new(), |value| value.text)
            }
            _ => String::new(),
        }
    }

    /// Skips the values of the previous key.
    pub fn skip(&mut self) {
        self.skip_captions();
        self.values();
    }

    /// Returns all values up to the next key.
    pub fn values(&mut self) -> Vec<Text> {
        let mut values = Vec::new();
        while let Some(line) = self.lines.get(self.next).filter(|line| !line.starts_with('\'')) {
            let at = self.at(self.next);
            self.next += 1;
            if !line.is_empty() && !is_version(line) {
                values.push(Text { at, text: (*line).to_owned() });
            }
        }
        values
    }

    /// Returns the location of the last line that was read.
    pub fn here(&self) -> Location {
        self.at(self.next.saturating_sub(1))
    }

    /// Skips column headings, and blank lines before them.
    fn skip_captions(&mut self) {
        loop {
            let rest = self.lines.get(self.next..).unwrap_or_default();
            let blank = rest.iter().take_while(|line| line.is_empty()).count();
            let key = rest.get(blank).and_then(|line| line.strip_prefix('\''));
            if !key.is_some_and(is_caption) {
                return;
            }
            self.next += blank + 1;
        }
    }

    fn at(&self, index: usize) -> Location {
        Location { file: Arc::clone(&self.file), line: index as u32 + 1 }
    }
}

/// Returns whether a key is only a column heading.
fn is_caption(key: &str) -> bool {
    let words = key.trim_start().to_ascii_lowercase();
    words.starts_with("hours") || words.starts_with("start ") || words.starts_with("start\t")
}

/// Returns whether a line is a bare version such as `2006.07.27`, as some programs write it.
fn is_bare_version(line: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    line.split('.').count() == 3 && line.split('.').all(is_number)
}

fn is_version(line: &str) -> bool {
    let line = line.strip_prefix('\'').unwrap_or(line);
    line.get(..8).is_some_and(|word| word.eq_ignore_ascii_case("version "))
}
