//! What the server has: volumes by name.

use block::{Geometry, Memory};

use crate::UnitId;

use super::EXPORT_MAX_BYTES;
use super::wire::flag;

/// A volume as clients see it.
#[derive(Clone, Debug)]
pub struct NbdExport {
    /// Its name.
    pub name: String,
    /// Another name that means it, such as that of the iSCSI target.
    pub alias: String,
    /// What clients that ask are told it is, such as `Drumfire RAM`; at most 4096 bytes.
    pub description: String,
    /// The volume, in requests.
    pub id: UnitId,
    /// Its shape.
    pub geometry: Geometry,
    /// The volume's bytes, if they are memory of this process: reads and writes happen there and
    /// then, and are never requested. As long as the volume.
    pub memory: Option<Memory>,
}

/// All exports of a server. Never changes; shared by its connections.
#[derive(Clone, Debug, Default)]
pub struct NbdExports {
    list: Vec<NbdExport>,
}

/// Why exports cannot be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NbdExportsError {
    /// Two exports have the same name.
    #[error("NBD export '{0}' is given twice")]
    Duplicate(String),
    /// A name that none can have.
    #[error("an NBD export has a name of 1 to {EXPORT_MAX_BYTES} bytes")]
    Name,
}

impl NbdExports {
    /// A directory of these.
    ///
    /// # Errors
    ///
    /// A name is given twice, empty or too long.
    pub fn new(list: Vec<NbdExport>) -> Result<NbdExports, NbdExportsError> {
        for (index, export) in list.iter().enumerate() {
            let longest = export.name.len().max(export.description.len());
            if export.name.is_empty() || longest > EXPORT_MAX_BYTES {
                return Err(NbdExportsError::Name);
            }
            if list[..index].iter().any(|other| other.name == export.name) {
                return Err(NbdExportsError::Duplicate(export.name.clone()));
            }
        }
        Ok(NbdExports { list })
    }

    /// All of them.
    pub fn list(&self) -> &[NbdExport] {
        &self.list
    }

    /// The one that a client means.
    //= NBD §Option types: the empty name is the default export; ours is the only one there is.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        if name.is_empty() && self.list.len() == 1 {
            return Some(0);
        }
        let by_name = self.list.iter().position(|export| export.name.as_bytes() == name);
        let by_alias = || {
            let named = |export: &NbdExport| export.alias.as_bytes() == name && !name.is_empty();
            self.list.iter().position(named)
        };
        by_name.or_else(by_alias)
    }
}

impl NbdExport {
    /// What it can do.
    pub(super) fn flags(&self) -> u16 {
        //= NBD §Transmission flags: MULTI_CONN promises that a flush on one connection is good for
        // what was answered on all.
        let all = flag::HAS_FLAGS | flag::FLUSH | flag::FUA | flag::MULTI_CONN;
        match self.geometry.read_only {
            true => all | flag::READ_ONLY,
            false => all | flag::TRIM | flag::WRITE_ZEROES,
        }
    }
}
