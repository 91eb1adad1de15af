//! fio's job files.
//!
//! Reading has three independent steps: [`lines`] parses the grammar, [`option`] and its helpers
//! parse each setting, [`convert`] maps them to our specification. Each difference of a file's
//! effect is noted, never silent.

mod access;
mod append;
mod bdev;
mod cached;
mod calls;
mod control;
mod convert;
mod data;
mod expression;
mod extents;
mod figures;
mod fill;
mod job;
mod laid_out;
mod lengths;
mod lines;
mod logs;
mod option;
mod parse;
mod parts;
mod passthrough;
mod rates;
mod remote;
mod replay;
mod rows;
mod service;
mod settings;
mod storage;
mod times;
mod told;
mod transport;
mod treated;
mod value;
mod write;
mod zones;

pub use convert::Options;
pub use option::{is_option, options, stands_alone};
pub use parse::engine::engines;
pub use told::told;
pub use write::write;

use super::note::FormatError;
use super::reading::Reading;
use super::surroundings::Surroundings;

/// Name of a command line in messages.
pub const COMMAND_LINE: &str = "the command line";

/// Reads a job file, called `file` in messages.
pub fn read(
    file: &str,
    text: &str,
    surroundings: &Surroundings<'_>,
    options: &Options<'_>,
) -> Result<Reading, FormatError> {
    read_all(&[Source { name: file, text, waits: false }], &[], surroundings, options)
}

/// A job file, or its equivalent on a command line.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Name in messages.
    pub name: &'a str,
    /// Text of the file.
    pub text: &'a str,
    /// True if its jobs begin when all previous ones have ended.
    pub waits: bool,
}

/// Reads job files in order: the defaults of one file apply to those after it, too. Of their
/// sections, only those in `wanted` are read; all if none is named.
pub fn read_all(
    files: &[Source<'_>],
    wanted: &[String],
    surroundings: &Surroundings<'_>,
    options: &Options<'_>,
) -> Result<Reading, FormatError> {
    let mut sections = Vec::new();
    let is_wanted = |section: &lines::Section| {
        wanted.is_empty() || section.is_global() || wanted.contains(&section.name)
    };
    for file in files {
        let mut found = lines::split(file.name, file.text, surroundings)?;
        found.retain(is_wanted);
        let first = found.iter_mut().find(|section| !section.is_global());
        if let Some(first) = first.filter(|_| file.waits) {
            first.waits = true;
        }
        sections.extend(found);
    }
    let file = files.last().map_or("", |file| file.name);
    let (jobs, notes) = job::jobs(&sections, surroundings)?;
    if jobs.jobs.is_empty() {
        let at = super::note::Location { file: file.into(), line: 1 };
        return Err(FormatError::new(&at, "", "no job: start one with [NAME]"));
    }
    Ok(convert::convert(jobs, notes, options, surroundings))
}

#[cfg(test)]
pub(super) mod test;
