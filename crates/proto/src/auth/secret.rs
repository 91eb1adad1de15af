//! Names and secrets.

use std::fmt;
use std::sync::Arc;

use constant_time_eq::constant_time_eq;
use zeroize::Zeroizing;

/// A secret: compared in constant time, zeroed when dropped, and never printed.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

/// Why a secret is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Too short to resist guessing by whoever recorded a login.
    #[error("a secret has at least {} bytes", Secret::MIN_BYTES)]
    Short,
    /// Too long for other implementations.
    #[error("a secret has at most {} bytes", Secret::MAX_BYTES)]
    Long,
}

impl Secret {
    /// Minimum length in bytes.
    //= RFC 7143 §12.1.3: a secret of fewer than 96 bits is refused.
    pub const MIN_BYTES: usize = 12;
    /// Maximum length in bytes.
    pub const MAX_BYTES: usize = 255;

    /// Creates a secret.
    ///
    /// # Errors
    ///
    /// The secret is shorter than [`MIN_BYTES`](Self::MIN_BYTES) or longer than
    /// [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn new(bytes: &[u8]) -> Result<Secret, SecretError> {
        match bytes.len() {
            ..Self::MIN_BYTES => Err(SecretError::Short),
            Self::MIN_BYTES..=Self::MAX_BYTES => {
                Ok(Secret(Arc::new(Zeroizing::new(bytes.to_vec()))))
            }
            _ => Err(SecretError::Long),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether two secrets are equal.
    pub fn equals(&self, other: &Secret) -> bool {
        same(self.bytes(), other.bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Compares in a time that depends on the lengths only.
pub(crate) fn same(one: &[u8], other: &[u8]) -> bool {
    constant_time_eq(one, other)
}

/// A user's name and secret.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// Name, 1 to 255 bytes without control characters.
    pub user: String,
    /// Secret.
    pub secret: Secret,
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_secret_has_a_length_and_is_never_printed() {
        let made = |len| Secret::new(&vec![b'x'; len]);
        assert_eq!(made(11).unwrap_err(), SecretError::Short);
        assert_eq!(made(256).unwrap_err(), SecretError::Long);
        let user = Credentials { user: "u".to_owned(), secret: made(12).unwrap() };
        assert!(!format!("{user:?}").contains("xx"), "{user:?}");
        assert!(user.secret.equals(&made(12).unwrap()) && !user.secret.equals(&made(13).unwrap()));
    }
}
