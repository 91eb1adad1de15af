//! Display of text from files: one line, without control characters.

use serde::{Deserialize, Deserializer};

/// Returns a text for display, control characters replaced by dots.
pub fn shown(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '·' } else { letter }).collect()
}

/// Deserialises a string as [`shown`] returns it.
///
/// # Errors
///
/// Errors of the deserialiser.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(shown(&String::deserialize(from)?))
}
