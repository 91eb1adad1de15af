//! fio's job files.
//!
//! Read in three steps that do not know of each other's difficulties: [`lines`] knows the grammar,
//! [`option`] and its helpers know what each setting says, [`convert`] knows what of it our
//! specification can express. What a file would do otherwise is noted, never silent.

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

/// What a command line is called in messages.
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

/// A job file, or what stands for one.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// What it is called in messages.
    pub name: &'a str,
    /// What it says.
    pub text: &'a str,
    /// Its jobs begin when all before them have ended.
    pub waits: bool,
}

/// Reads job files one behind the other: what one sets for all jobs holds in those behind it, too.
/// Of their sections, those that are `wanted`; all if none is named.
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
        return Err(FormatError::new(&at, "", "no job: begin one with [NAME]"));
    }
    Ok(convert::convert(jobs, notes, options, surroundings))
}

#[cfg(test)]
pub(super) mod test;
