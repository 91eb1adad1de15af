//! Finds the profile of an emulated drive by the name in its URI.

use std::path::Path;

use catalogue::Catalogue;
use model::device::{Profile, shipped_names};

use crate::watch::read_short;

/// Maximum length of a profile, in bytes.
pub(super) const TEXT_BYTES_MAX: u64 = 1 << 16;

/// Reason why a profile was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile {name}: {reason}")]
pub struct ProfileError {
    /// The name as given.
    pub name: String,
    /// The problem and its fix.
    pub reason: String,
}

/// A profile, and whether it is from a file, which may change.
pub(super) struct Found {
    pub profile: Profile,
    pub is_file: bool,
}

/// Loads a built-in profile, one from a file, or that of a drive of the catalogue, in this order.
///
/// # Errors
///
/// There is no such profile, or it is invalid; with the remedy.
pub(super) fn load(name: &str) -> Result<Found, ProfileError> {
    if let Some(profile) = Profile::shipped(name) {
        return Ok(Found { profile, is_file: false });
    }
    let refuse = |reason: String| ProfileError { name: name.to_owned(), reason };
    let error = match read_short(Path::new(name), TEXT_BYTES_MAX) {
        Ok(text) => {
            let profile = Profile::parse(&text).map_err(refuse)?;
            return Ok(Found { profile, is_file: true });
        }
        Err(error) => error,
    };
    let catalogue = Catalogue::shipped();
    if let Ok(part) = catalogue.part(name) {
        let profile = catalogue.profile(part).map_err(|why| refuse(why.to_string()))?;
        return Ok(Found { profile, is_file: false });
    }
    let near = match catalogue.drives_near(name) {
        near if near.is_empty() => String::new(),
        near => format!(" (similar: {})", near.join(", ")),
    };
    let known: Vec<&str> = shipped_names().collect();
    let shipped = known.join(", ");
    Err(refuse(format!(
        "{error}; name a file, a drive of the catalogue{near}, or one of {shipped}"
    )))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_name_is_a_profile_a_file_or_a_drive_of_the_catalogue() {
        let found = load("x25-m").unwrap();
        assert!(!found.is_file && Some(found.profile) == Profile::shipped("x25-m"));
        let found = load("Micron-9200").unwrap();
        assert!(!found.is_file && found.profile.name == "micron-9200");
        let refused = |name: &str| load(name).err().unwrap().to_string();
        let missing = refused("csd5310");
        let says = "profile csd5310: csd5310 cannot be emulated: the catalogue has no write_iops; ";
        assert!(missing.starts_with(says), "{missing}");
        let unknown = refused("cd66");
        assert!(unknown.contains("a drive of the catalogue (similar: cd6, "), "{unknown}");
        assert!(unknown.contains("or one of x25-m, sas-15k, disk-15k"), "{unknown}");
        assert!(!unknown.contains('\n') && refused("/nowhere").contains("No such file"));
    }
}
