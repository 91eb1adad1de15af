//! The targets of a portal and their logical units.

use std::sync::Arc;

use crate::scsi::{Unit, decode_lun};

use super::chap::Chap;
use super::name::{NameError, check_name};

/// All targets of a portal, with valid, distinct names. Shared by its connections.
#[derive(Debug, Default)]
pub struct Directory {
    targets: Vec<Arc<TargetEntry>>,
    discovery_chap: Option<Chap>,
}

/// One target.
#[derive(Clone, Debug, Default)]
pub struct TargetEntry {
    /// iSCSI name.
    pub name: String,
    /// Logical units; the index is the LUN, at most [`Directory::MAX_UNITS`].
    pub units: Vec<Option<Unit>>,
    /// TargetAlias, sent at login. May be empty; at most 255 bytes.
    pub alias: String,
    /// Secrets that a login has to prove; `None`: anybody may log in.
    pub chap: Option<Chap>,
}

/// Why a directory is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// An invalid iSCSI name.
    #[error("'{name}' is not an iSCSI name: {error}")]
    Name {
        /// The name.
        name: String,
        /// Error in the name.
        error: NameError,
    },
    /// Two targets have the same name.
    #[error("two targets are named '{0}'")]
    Duplicate(String),
    /// Too many logical units.
    #[error("target '{0}' has more than 256 logical units")]
    Units(String),
    /// An invalid alias.
    #[error("the alias of '{0}' is longer than 255 bytes or has control characters")]
    Alias(String),
}

impl Directory {
    /// LUNs 0 to 255 fit peripheral device addressing, which every initiator supports.
    pub const MAX_UNITS: usize = 256;

    /// A directory of `targets`, in that order.
    pub fn new(targets: Vec<TargetEntry>) -> Result<Directory, DirectoryError> {
        let mut names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DirectoryError::Duplicate(twice[0].to_owned()));
        }
        targets.iter().try_for_each(check)?;
        let targets = targets.into_iter().map(Arc::new).collect();
        Ok(Directory { targets, discovery_chap: None })
    }

    /// A directory of the targets that fit, with the same secrets.
    #[must_use]
    pub fn only(&self, fits: impl Fn(&TargetEntry) -> bool) -> Directory {
        let targets = self.targets.iter().filter(|target| fits(target)).cloned().collect();
        Directory { targets, discovery_chap: self.discovery_chap.clone() }
    }

    /// Demands CHAP of discovery sessions, too.
    #[must_use]
    pub fn with_discovery_chap(mut self, chap: Option<Chap>) -> Directory {
        self.discovery_chap = chap;
        self
    }

    /// Secrets that a discovery session has to prove.
    pub fn discovery_chap(&self) -> Option<&Chap> {
        self.discovery_chap.as_ref()
    }

    /// The targets.
    pub fn targets(&self) -> &[Arc<TargetEntry>] {
        &self.targets
    }

    /// Index of the target with this name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        //= RFC 7143 §4.2.7.1: names are compared without regard to case.
        self.targets.iter().position(|target| target.name.eq_ignore_ascii_case(name))
    }
}

impl TargetEntry {
    /// The logical unit with this LUN field.
    #[inline(always)]
    pub(super) fn unit(&self, lun: [u8; 8]) -> Option<&Unit> {
        self.units.get(usize::from(decode_lun(lun)?))?.as_ref()
    }
}

fn check(target: &TargetEntry) -> Result<(), DirectoryError> {
    let name = || target.name.clone();
    check_name(&target.name).map_err(|error| DirectoryError::Name { name: name(), error })?;
    if target.units.len() > Directory::MAX_UNITS {
        return Err(DirectoryError::Units(name()));
    }
    if target.alias.len() > 255 || target.alias.chars().any(char::is_control) {
        return Err(DirectoryError::Alias(name()));
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    fn target(name: &str) -> TargetEntry {
        TargetEntry { name: name.to_owned(), units: Vec::new(), alias: String::new(), chap: None }
    }

    #[test]
    fn refuses_bad_and_double_names() {
        let [a, b] = ["iqn.2026-01.org.drumfire:a", "iqn.2026-01.org.drumfire:b"];
        let directory = Directory::new(vec![target(a), target(b)]).unwrap();
        assert_eq!(directory.find(&b.to_uppercase()), Some(1));
        assert_eq!(directory.find("iqn.2026-01.org.drumfire:c"), None);
        let twice = Directory::new(vec![target(a), target(b), target(a)]);
        assert_eq!(twice.unwrap_err(), DirectoryError::Duplicate(a.to_owned()));
        assert!(matches!(Directory::new(vec![target("a")]), Err(DirectoryError::Name { .. })));
        let alias = TargetEntry { alias: "a\0b".to_owned(), ..target(a) };
        assert!(matches!(Directory::new(vec![alias]), Err(DirectoryError::Alias(_))));
    }
}
