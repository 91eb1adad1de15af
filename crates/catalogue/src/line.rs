//! Texts of files that are shown again: each is one line, and none steers a terminal.

use serde::{Deserialize, Deserializer};

/// A text as it is shown: what is no letter but a command to a terminal becomes a dot.
pub fn shown(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '·' } else { letter }).collect()
}

/// Reads a text as it will be [`shown`].
///
/// # Errors
///
/// What the text comes from says.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(shown(&String::deserialize(from)?))
}
