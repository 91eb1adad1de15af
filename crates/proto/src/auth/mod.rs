//! Secrets of authentication, and challenges.

mod chance;
mod failures;
mod secret;

pub use chance::Chance;
pub(crate) use failures::Failures;
pub(crate) use secret::same;
pub use secret::{Credentials, Secret, SecretError};
