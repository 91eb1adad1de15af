//! The exports of a server.

use std::sync::Arc;

use block::{Extents, Geometry, Memory};

use crate::scsi::UnitShared;
use crate::{Instance, UnitId};

use super::EXPORT_MAX_BYTES;
use super::wire::flag;

/// A volume as clients see it.
#[derive(Clone, Debug)]
pub struct NbdExport {
    /// Name.
    pub name: String,
    /// A second name, such as that of the iSCSI target.
    pub alias: String,
    /// Description for clients that request it, such as `Drumfire RAM`; at most 4096 bytes.
    pub description: String,
    /// Id of the volume in requests.
    pub id: UnitId,
    /// The volume's geometry.
    pub geometry: Geometry,
    /// The volume's memory, if it is of this process: reads and writes are executed on it at once,
    /// without requests. Same size as the volume.
    pub memory: Option<Memory>,
    /// Shows clients that reconnect whether the volatile cache is the same as before.
    pub instance: Option<Instance>,
    /// Holes of the volume, if they are known: clients may then select the metadata context
    /// `base:allocation`.
    pub extents: Option<Arc<dyn Extents>>,
    /// Reservations over iSCSI, which bind these clients, too.
    pub shared: UnitShared,
}

/// All exports of a server, shared by its connections and immutable.
#[derive(Clone, Debug, Default)]
pub struct NbdExports {
    list: Vec<Arc<NbdExport>>,
}

/// Invalid exports.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NbdExportsError {
    /// Two exports have the same name.
    #[error("NBD export '{0}' is given twice")]
    Duplicate(String),
    /// An invalid name.
    #[error("an NBD export has a name of 1 to {EXPORT_MAX_BYTES} bytes")]
    Name,
}

impl NbdExports {
    /// The exports in `list`.
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
        Ok(NbdExports { list: list.into_iter().map(Arc::new).collect() })
    }

    /// The exports that fit.
    #[must_use]
    pub fn only(&self, fits: impl Fn(&NbdExport) -> bool) -> NbdExports {
        NbdExports { list: self.list.iter().filter(|export| fits(export)).cloned().collect() }
    }

    /// All exports.
    pub fn list(&self) -> &[Arc<NbdExport>] {
        &self.list
    }

    /// The export with this name.
    //= NBD §Option types: the empty name is the default export, if there is only one.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<NbdExport>> {
        if name.is_empty() {
            return self.list.first().filter(|_| self.list.len() == 1);
        }
        let by_name = self.list.iter().find(|export| export.name.as_bytes() == name);
        by_name.or_else(|| self.list.iter().find(|export| export.alias.as_bytes() == name))
    }
}

impl NbdExport {
    /// No export, for a client before its choice.
    pub(super) fn none() -> NbdExport {
        NbdExport {
            name: String::new(),
            alias: String::new(),
            description: String::new(),
            id: UnitId(u32::MAX),
            geometry: Geometry::new(0, 512),
            memory: None,
            instance: None,
            extents: None,
            shared: UnitShared::default(),
        }
    }

    /// Transmission flags.
    pub(super) fn flags(&self) -> u16 {
        //= NBD §Transmission flags: MULTI_CONN promises that a flush on one connection covers the
        // acknowledged writes of all.
        let all = flag::HAS_FLAGS | flag::FLUSH | flag::FUA | flag::MULTI_CONN;
        match self.geometry.read_only {
            true => all | flag::READ_ONLY,
            false => all | flag::TRIM | flag::WRITE_ZEROES,
        }
    }
}
