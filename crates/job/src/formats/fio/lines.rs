//! The grammar of fio's job files: sections of settings, comments, includes, variables.
//!
//! Meaning comes later: this module splits a file into sections in order, each setting with its
//! location.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::expression;
use crate::formats::note::{FormatError, Location};
use crate::formats::surroundings::Surroundings;

/// Maximum length of a line in bytes, variables filled in; fio's own limit.
const LINE_MAX_BYTES: usize = 8192;
/// Maximum nesting of included files; a file that includes itself ends at it.
const NESTED_MAX: usize = 8;
/// Maximum number of files that one job file includes, counting each as often as it is named.
const INCLUDED_MAX: usize = 256;
/// Maximum number of settings of one job file, included files counted.
const SETTINGS_MAX: usize = 1 << 14;
/// Maximum number of sections of one job file.
const SECTIONS_MAX: usize = 1024;
/// Maximum length of a section's name in bytes; fio's own limit.
const NAME_MAX_BYTES: usize = 255;

/// One section: the defaults of the following ones, or a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// Name between the brackets.
    pub name: String,
    /// Location of its beginning.
    pub at: Location,
    /// True if the job waits for all previous ones, though none of its settings says so.
    pub waits: bool,
    /// Settings in order; those of an included file are at the position of its `include`.
    pub settings: Vec<Setting>,
}

impl Section {
    /// Returns whether the section sets defaults: any name with this prefix does, as in fio.
    pub fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

/// One line `key=value`, or `key` alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Location of the line.
    pub at: Location,
    /// Text before the `=`.
    pub key: String,
    /// Text after the `=`, with variables filled in; `None` without a `=`.
    pub value: Option<String>,
    /// Text of the line.
    pub text: String,
}

impl Setting {
    /// Returns an error about this setting with the reason `why`.
    pub fn error(&self, why: impl Into<String>) -> FormatError {
        FormatError::new(&self.at, &self.text, why)
    }
}

/// Splits the text of a job file, called `file`, into its sections.
pub fn split(
    file: &str,
    text: &str,
    surroundings: &Surroundings<'_>,
) -> Result<Vec<Section>, FormatError> {
    let mut sections = Vec::new();
    let mut splitter = Splitter { surroundings, settings: 0, included: 0 };
    let name: Arc<str> = file.into();
    for (at, line) in lines(&name, text)? {
        if let Some(rest) = line.strip_prefix('[') {
            if sections.len() == SECTIONS_MAX {
                return Err(FormatError::new(&at, line, "more than 1024 sections"));
            }
            let name = section_name(rest, &at, line)?;
            sections.push(Section { name, at, waits: false, settings: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            let why = "option outside a section: start one with [global] or [NAME]";
            return Err(FormatError::new(&at, line, why));
        };
        splitter.take(&at, line, Path::new(file), 0, &mut section.settings)?;
    }
    Ok(sections)
}

/// Returns the non-empty lines without comments, each with its location.
fn lines<'a>(file: &Arc<str>, text: &'a str) -> Result<Vec<(Location, &'a str)>, FormatError> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let at = Location { file: Arc::clone(file), line };
        if text.len() > LINE_MAX_BYTES {
            return Err(FormatError::new(&at, text, "the line exceeds 8192 bytes"));
        }
        // Comments begin anywhere in a line, as in fio: no value can contain these two characters.
        let text = text.split([';', '#']).next().unwrap_or_default().trim();
        if !text.is_empty() {
            found.push((at, text));
        }
    }
    Ok(found)
}

fn section_name(rest: &str, at: &Location, line: &str) -> Result<String, FormatError> {
    let name = rest.strip_suffix(']').unwrap_or_default();
    match name.len() {
        0 => Err(FormatError::new(at, line, "not a section: write [NAME]")),
        1..=NAME_MAX_BYTES => Ok(name.to_owned()),
        _ => Err(FormatError::new(at, line, "the section name exceeds 255 bytes")),
    }
}

struct Splitter<'a> {
    surroundings: &'a Surroundings<'a>,
    settings: usize,
    included: usize,
}

impl Splitter<'_> {
    /// Parses one line of a section: a setting, or an `include`.
    fn take(
        &mut self,
        at: &Location,
        line: &str,
        file: &Path,
        nested: usize,
        settings: &mut Vec<Setting>,
    ) -> Result<(), FormatError> {
        let included = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t']));
        if let Some(path) = included {
            return self.include(at, line, path.trim(), file, nested, settings);
        }
        self.settings += 1;
        if self.settings > SETTINGS_MAX {
            return Err(FormatError::new(at, line, "more than 16384 options"));
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (line, None),
        };
        if key.is_empty() {
            return Err(FormatError::new(at, line, "not an option: write NAME=VALUE or NAME"));
        }
        let value = value.map(|value| self.fill_in(at, line, value)).transpose()?;
        let (key, text) = (key.to_owned(), line.to_owned());
        settings.push(Setting { at: at.clone(), key, value, text });
        Ok(())
    }

    fn include(
        &mut self,
        at: &Location,
        line: &str,
        path: &str,
        file: &Path,
        nested: usize,
        settings: &mut Vec<Setting>,
    ) -> Result<(), FormatError> {
        let error = |why: String| FormatError::new(at, line, why);
        if nested == NESTED_MAX {
            return Err(error(format!("include nested more than {NESTED_MAX} deep")));
        }
        self.included += 1;
        if self.included > INCLUDED_MAX {
            return Err(error(format!("more than {INCLUDED_MAX} files included")));
        }
        let (path, text) = self.find(Path::new(path), file).map_err(error)?;
        let name: Arc<str> = path.to_string_lossy().into();
        for (at, line) in lines(&name, &text)? {
            if line.starts_with('[') {
                let why = "an included file cannot have sections";
                return Err(FormatError::new(&at, line, why));
            }
            self.take(&at, line, &path, nested + 1, settings)?;
        }
        Ok(())
    }

    /// Finds an included file: by its path, or in the folder of the file that includes it.
    fn find(&self, path: &Path, file: &Path) -> Result<(PathBuf, String), String> {
        let beside = file.parent().map(|folder| folder.join(path));
        let mut why = String::new();
        for path in std::iter::once(path.to_owned()).chain(beside) {
            match (self.surroundings.read)(&path) {
                Ok(text) => return Ok((path, text)),
                Err(error) => why = format!("cannot read {}: {error}", path.display()),
            }
        }
        Err(why)
    }

    /// Fills in `${VARIABLE}`, then `$pagesize`, `$mb_memory` and `$ncpus` with their arithmetic.
    fn fill_in(&self, at: &Location, line: &str, value: &str) -> Result<String, FormatError> {
        let mut value = self.variables(at, line, value)?;
        let around = self.surroundings;
        let words = [
            ("$pagesize", around.page_bytes),
            ("$mb_memory", around.memory_mib),
            ("$ncpus", around.cpus),
        ];
        let mut calculate = false;
        for (word, number) in words {
            calculate |= value.contains(word);
            value = value.replace(word, &number.to_string());
        }
        if calculate && value.contains(['+', '-', '*', '/']) {
            let number = expression::evaluate(&value, &|digits| digits.parse().ok());
            let number = number.map_err(|why| FormatError::new(at, line, why))?;
            value = number.to_string();
        }
        Ok(value)
    }

    fn variables(&self, at: &Location, line: &str, value: &str) -> Result<String, FormatError> {
        let mut filled = String::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else { break };
            let Some(found) = (self.surroundings.variable)(name) else {
                let why = format!("the environment variable {name} is not set");
                return Err(FormatError::new(at, line, why));
            };
            filled.push_str(before);
            filled.push_str(&found);
            if filled.len() > LINE_MAX_BYTES {
                return Err(FormatError::new(
                    at,
                    line,
                    "the line exceeds 8192 bytes after expansion of its variables",
                ));
            }
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }
}
