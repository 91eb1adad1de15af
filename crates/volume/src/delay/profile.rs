//! The profile of an emulated drive, by the name that stands in its URI.

use std::path::Path;

use model::device::{Profile, shipped_names};

use crate::watch::read_short;

/// Longest text that is read, in bytes.
pub(super) const TEXT_BYTES_MAX: u64 = 1 << 16;

/// Why a profile was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile {name}: {reason}")]
pub struct ProfileError {
    /// As it was named.
    pub name: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// The profile that comes along under this name, or that of a file.
///
/// # Errors
///
/// With the remedy, when there is none or it makes no sense.
pub(super) fn load(name: &str) -> Result<Profile, ProfileError> {
    if let Some(profile) = Profile::shipped(name) {
        return Ok(profile);
    }
    let refuse = |reason: String| ProfileError { name: name.to_owned(), reason };
    let text = read_short(Path::new(name), TEXT_BYTES_MAX).map_err(|error| {
        let known: Vec<&str> = shipped_names().collect();
        refuse(format!("{error}; name a file, or one of {}", known.join(", ")))
    })?;
    Profile::parse(&text).map_err(refuse)
}

/// Whether it is the name of a file, which may change.
pub(super) fn is_file(name: &str) -> bool {
    !shipped_names().any(|shipped| shipped == name)
}
