//! Iometer's configurations (`.icf`).

mod convert;
mod cycle;
mod file;
mod scan;
mod specs;
mod write;

pub use convert::Options;
pub use write::write;

use super::note::FormatError;
use super::reading::Reading;

/// Reads a configuration, called `file` in messages.
pub fn read(file: &str, text: &str, options: &Options<'_>) -> Result<Reading, FormatError> {
    convert::convert(&file::read(file, text)?, options)
}

#[cfg(test)]
mod test;
