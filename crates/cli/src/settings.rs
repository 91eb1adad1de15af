//! Our own files of settings and jobs.

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use toml::Spanned;

use crate::exit::{UsageError, of_file};

/// Reads a file of TOML. What is wrong with it is said in one line, with file and line.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| of_file(&name, error))?;
    toml::from_str(&text).map_err(|error| {
        let line = line_at(&text, error.span().map_or(0, |span| span.start));
        let reason = error.message().lines().collect::<Vec<_>>().join("; ");
        UsageError(format!("{name}:{line}: {reason}")).into()
    })
}

/// A job's file, as far as it says where its parts are.
#[derive(Deserialize)]
struct Parts {
    steps: Vec<Spanned<Groups>>,
}

/// A step of it.
#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Spanned<IgnoredAny>>,
}

/// The place of a step of a job's file or of a group in it, both counted from 1, as `FILE:LINE`.
/// The file alone where that cannot be said.
pub fn place_of(path: &Path, step: usize, group: Option<usize>) -> String {
    let name = path.display();
    let line = || -> Option<usize> {
        let text = std::fs::read_to_string(path).ok()?;
        let parts: Parts = toml::from_str(&text).ok()?;
        let step = parts.steps.get(step.checked_sub(1)?)?;
        let group = group.and_then(|group| step.get_ref().groups.get(group.checked_sub(1)?));
        Some(line_at(&text, group.map_or(step.span(), Spanned::span).start))
    };
    line().map_or_else(|| name.to_string(), |line| format!("{name}:{line}"))
}

/// The line in which a byte stands.
fn line_at(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}
