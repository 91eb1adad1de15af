//! Our own files of settings and jobs.

use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use crate::exit::UsageError;

/// Reads a file of TOML. What is wrong with it is said in one line, with file and line.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    toml::from_str(&text).map_err(|error| {
        let before = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(before).filter(|byte| *byte == b'\n').count() + 1;
        let reason = error.message().lines().collect::<Vec<_>>().join("; ");
        UsageError(format!("{name}:{line}: {reason}")).into()
    })
}
