//! Text of files for display: one line, without control characters.

use serde::{Deserialize, Deserializer};

/// A text for display: control characters become dots.
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
