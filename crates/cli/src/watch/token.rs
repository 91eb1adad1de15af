//! Access token of viewers.

use std::path::Path;

use anyhow::Result;
use job::formats::read_text;

use crate::exit::{UsageError, of_file};

/// A token. Tokens are never printed.
#[derive(Clone)]
pub(super) struct Token(String);

/// Minimum length: shorter tokens can be guessed.
const LEAST: usize = 16;

impl Token {
    /// The first line of a file.
    pub(super) fn read(path: &Path) -> Result<Token> {
        let name = path.display();
        let text = read_text(path).map_err(|error| of_file(&name, error))?;
        let token = text.lines().next().unwrap_or_default().trim();
        let is_plain = token.chars().all(|c| c.is_ascii_alphanumeric() || "-._~".contains(c));
        if token.len() < LEAST || !is_plain {
            let why = format!(
                "--listen-token {name}: its first line must be {LEAST} or more letters and digits: \
                 openssl rand -hex 16 > {name}"
            );
            return Err(UsageError(why).into());
        }
        Ok(Token(token.to_owned()))
    }

    /// Compares a token in constant time, which does not reveal where a guess was wrong.
    pub(super) fn is(&self, said: &str) -> bool {
        let (own, said) = (self.0.as_bytes(), said.as_bytes());
        let differ = own.iter().zip(said).fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == said.len() && differ == 0
    }

    #[cfg(test)]
    pub(super) fn of(text: &str) -> Token {
        Token(text.to_owned())
    }
}
