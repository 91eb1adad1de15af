//! A network as TOML.

use crate::{ModelError, Network};

/// Reads a network. Unknown keys, values that are no numbers, negative and absurd ones are refused,
/// with the key and its line.
///
/// # Errors
///
/// [`ModelError::Profile`] for the text, [`ModelError::Invalid`] for its values.
pub fn parse(_text: &str) -> Result<Network, ModelError> {
    todo!()
}

/// Writes a network so that [`parse`] reads the same one.
pub fn print(_network: &Network) -> String {
    todo!()
}
