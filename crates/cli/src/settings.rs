//! Our own files of settings and jobs.

use std::io::{self, Read};
use std::path::Path;

use anyhow::Result;
use job::formats::open_file;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use toml::Spanned;

use crate::exit::{UsageError, of_file};

/// Reads a TOML file. An error is one line, with file and line number.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let name = path.display();
    let text = text_of(path).map_err(|error| of_file(&name, error))?;
    toml::from_str(&text).map_err(|error| {
        let line = line_at(&text, error.span().map_or(0, |span| span.start));
        let reason = error.message().lines().collect::<Vec<_>>().join("; ");
        UsageError(format!("{name}:{line}: {reason}")).into()
    })
}

/// Longest file: a job may name thousands of volumes.
const FILE_MAX_BYTES: u64 = 64 << 20;

/// The text of a file. A device without end is not read to its end.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let len = open_file(path)?.take(FILE_MAX_BYTES + 1).read_to_string(&mut text)?;
    match len as u64 > FILE_MAX_BYTES {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "longer than 64 MiB")),
        false => Ok(text),
    }
}

/// Positions of the parts of a job file.
#[derive(Deserialize)]
struct Parts {
    steps: Vec<Spanned<Groups>>,
}

/// A step of the file.
#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Spanned<IgnoredAny>>,
}

/// Line of a step or group in a job file, both counted from 1, as `FILE:LINE`; the file alone if
/// the line is unknown.
pub fn place_of(path: &Path, step: usize, group: Option<usize>) -> String {
    let name = path.display();
    let line = || -> Option<usize> {
        let text = text_of(path).ok()?;
        let parts: Parts = toml::from_str(&text).ok()?;
        let step = parts.steps.get(step.checked_sub(1)?)?;
        let group = group.and_then(|group| step.get_ref().groups.get(group.checked_sub(1)?));
        Some(line_at(&text, group.map_or(step.span(), Spanned::span).start))
    };
    line().map_or_else(|| name.to_string(), |line| format!("{name}:{line}"))
}

/// Line number of a byte offset.
fn line_at(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}
