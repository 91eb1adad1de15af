//! The subsystems of a server and their namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Backing, Geometry, Memory};

use crate::scsi::UnitShared;
use crate::{DiskId, Instance, UnitId};

use super::name::{DISCOVERY_NQN, NqnError, check_nqn};
use super::pdu::Status;

/// An NVM subsystem.
#[derive(Clone, Debug)]
pub struct Subsystem {
    /// NQN, valid according to [`check_nqn`].
    pub nqn: String,
    /// The index is the NSID less one; holes are inactive.
    pub namespaces: Vec<Option<Namespace>>,
    /// Serial number: 1 to 20 printable ASCII characters.
    pub serial: String,
    /// Model number: 1 to 40 printable ASCII characters.
    pub model: String,
    /// Whether the subsystem has several paths: several addresses, or several servers with the same
    /// NQN and namespace identities. Only then do hosts get the multipath flags.
    pub shared: bool,
}

/// A volume as hosts see it.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Id of the volume in requests.
    pub id: UnitId,
    /// The volume's geometry.
    pub geometry: Geometry,
    /// The volume's memory, if it is of this process: reads and writes are executed on it at once,
    /// without requests. Same size as the volume.
    pub memory: Option<Memory>,
    /// Identity of the disk.
    pub disk: DiskId,
    /// The backing store.
    pub backing: Backing,
    /// Shows hosts that reconnect whether the volatile cache is the same as before.
    pub instance: Option<Instance>,
    /// Reservations, which all protocols share.
    pub shared: UnitShared,
}

/// An address of the subsystems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// IPv4 or IPv6 address as text.
    pub address: String,
    /// TCP port in decimal.
    pub port: String,
}

/// All subsystems of a server, shared by its connections and immutable.
///
/// [`DISCOVERY_NQN`] lists all of them.
#[derive(Clone, Debug)]
pub struct Subsystems {
    list: Vec<Arc<Subsystem>>,
    portals: Vec<Portal>,
    /// Hosts allowed to use a subsystem, by its NQN; without an entry all are.
    hosts: BTreeMap<String, Vec<String>>,
    generation: u64,
}

/// Invalid subsystems.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubsystemsError {
    /// Two subsystems have the same name.
    #[error("subsystem '{0}' is given twice")]
    Duplicate(String),
    /// An invalid NQN.
    #[error("subsystem '{name}': {error}")]
    Name {
        /// The name.
        name: String,
        /// Error in the name.
        error: NqnError,
    },
    /// The discovery NQN is reserved.
    #[error("a subsystem may not be called '{DISCOVERY_NQN}': that name answers by itself")]
    Discovery,
    /// More namespaces than fit an Active Namespace ID list.
    #[error("subsystem '{0}' has more than {max} namespaces", max = Subsystems::MAX_NAMESPACES)]
    Namespaces(String),
    /// An invalid serial or model number.
    #[error(
        "subsystem '{0}': serial and model have 1 to 20 and 1 to 40 printable ASCII characters"
    )]
    Text(String),
}

impl Subsystems {
    /// Maximum number of namespaces: one list of 4096 bytes.
    //= NVMe base §Active Namespace ID list: up to 1024 identifiers.
    pub const MAX_NAMESPACES: usize = 1024;

    /// A directory of `subsystems`, in that order.
    pub fn new(subsystems: Vec<Subsystem>) -> Result<Subsystems, SubsystemsError> {
        let mut names: Vec<&str> = subsystems.iter().map(|entry| entry.nqn.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SubsystemsError::Duplicate(twice[0].to_owned()));
        }
        subsystems.iter().try_for_each(check)?;
        let list = subsystems.into_iter().map(Arc::new).collect();
        Ok(Subsystems { list, portals: Vec::new(), hosts: BTreeMap::new(), generation: 1 })
    }

    /// Allows only these hosts to use the subsystem `nqn`. Others are refused, and discovery hides
    /// it from them.
    pub fn allow_only(mut self, nqn: &str, hosts: Vec<String>) -> Subsystems {
        self.hosts.insert(nqn.to_owned(), hosts);
        self
    }

    /// Whether a host may use a subsystem.
    pub(super) fn admits(&self, subsystem: &Subsystem, host: &str) -> bool {
        let hosts = self.hosts.get(&subsystem.nqn);
        hosts.is_none_or(|hosts| hosts.iter().any(|allowed| allowed == host))
    }

    /// Adds addresses for discovery to report, besides the one on which the host connected.
    pub fn with_portals(self, portals: Vec<Portal>) -> Subsystems {
        Subsystems { portals, ..self }
    }

    /// Sets the generation counter of the discovery log: 1, or more after a change.
    //= NVMe-oF §Discovery Log Page: GENCTR changes whenever the entries do.
    pub fn of_generation(self, generation: u64) -> Subsystems {
        Subsystems { generation, ..self }
    }

    /// Generation counter of the discovery log.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The subsystems.
    pub fn list(&self) -> &[Arc<Subsystem>] {
        &self.list
    }

    /// Returns the addresses besides the one on which the host connected.
    pub(super) fn portals(&self) -> &[Portal] {
        &self.portals
    }

    /// The subsystem with this NQN.
    pub(super) fn find(&self, nqn: &str) -> Option<&Arc<Subsystem>> {
        //= NVMe base §4.7: names are compared byte by byte.
        self.list.iter().find(|subsystem| subsystem.nqn == nqn)
    }
}

fn check(subsystem: &Subsystem) -> Result<(), SubsystemsError> {
    let name = || subsystem.nqn.clone();
    if subsystem.nqn == DISCOVERY_NQN {
        return Err(SubsystemsError::Discovery);
    }
    check_nqn(&subsystem.nqn).map_err(|error| SubsystemsError::Name { name: name(), error })?;
    if subsystem.namespaces.len() > Subsystems::MAX_NAMESPACES {
        return Err(SubsystemsError::Namespaces(name()));
    }
    //= NVMe base §1.5.3: ASCII fields hold 20h to 7Eh, padded with spaces.
    let printable = |text: &str, max: usize| {
        let plain = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        plain && (1..=max).contains(&text.len())
    };
    if !printable(&subsystem.serial, 20) || !printable(&subsystem.model, 40) {
        return Err(SubsystemsError::Text(name()));
    }
    Ok(())
}

impl Subsystem {
    /// An empty one, for a host before Connect.
    pub(super) fn empty() -> Subsystem {
        let (nqn, serial, model) = (String::new(), String::new(), String::new());
        Subsystem { nqn, namespaces: Vec::new(), serial, model, shared: false }
    }

    /// The discovery subsystem.
    pub(super) fn discovery() -> Subsystem {
        let (nqn, serial) = (DISCOVERY_NQN.to_owned(), "discovery".to_owned());
        let model = "Drumfire discovery".to_owned();
        Subsystem { nqn, namespaces: Vec::new(), serial, model, shared: false }
    }

    /// The namespace with this identifier.
    #[inline(always)]
    pub(super) fn namespace(&self, id: u32) -> Option<&Namespace> {
        self.namespaces.get((id as usize).wrapping_sub(1))?.as_ref()
    }

    /// The active namespace with this identifier, or the status of commands to any other.
    //= NVMe base §3.2.1.4: an inactive identifier is an invalid field, an invalid one is Invalid
    // Namespace or Format.
    #[inline(always)]
    pub(super) fn active(&self, id: u32) -> Result<&Namespace, Status> {
        self.namespace(id).ok_or_else(|| self.inactive(id))
    }

    #[cold]
    fn inactive(&self, id: u32) -> Status {
        match id != 0 && id as usize <= self.namespaces.len() {
            true => Status::INVALID_FIELD,
            false => Status::INVALID_NAMESPACE,
        }
    }

    /// The memory of the namespace with this identifier, if it has any.
    #[inline(always)]
    pub(super) fn memory(&self, id: u32) -> Option<&Memory> {
        self.namespace(id)?.memory.as_ref()
    }

    /// Active identifiers, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        let numbered = (1..).zip(&self.namespaces);
        numbered.filter(|(_, namespace)| namespace.is_some()).map(|(id, _)| id)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn subsystem(nqn: &str) -> Subsystem {
        let geometry = Geometry::new(1 << 20, 512);
        let disk = DiskId::new([0; 16]);
        let namespace = Namespace {
            id: UnitId(0),
            geometry,
            memory: None,
            disk,
            backing: Backing::Unknown,
            instance: None,
            shared: UnitShared::default(),
        };
        Subsystem {
            nqn: nqn.to_owned(),
            namespaces: vec![Some(namespace.clone()), None, Some(namespace)],
            serial: "S1".to_owned(),
            model: "M".to_owned(),
            shared: false,
        }
    }

    #[test]
    fn refuses_what_cannot_be_served() {
        let [a, b] = ["nqn.2026-01.io.drumfire:a", "nqn.2026-01.io.drumfire:b"];
        let directory = Subsystems::new(vec![subsystem(a), subsystem(b)]).unwrap();
        assert_eq!(directory.find(b).unwrap().nqn, b);
        assert!(directory.find(&b.to_uppercase()).is_none());
        let error = |list| Subsystems::new(list).unwrap_err();
        let twice = error(vec![subsystem(a), subsystem(b), subsystem(a)]);
        assert_eq!(twice, SubsystemsError::Duplicate(a.to_owned()));
        assert_eq!(error(vec![subsystem(DISCOVERY_NQN)]), SubsystemsError::Discovery);
        assert!(matches!(error(vec![subsystem("a")]), SubsystemsError::Name { .. }));
        for (serial, model) in [("", "M"), ("S", ""), ("ü", "M"), (&*"1".repeat(21), "M")] {
            let (serial, model) = (serial.to_owned(), model.to_owned());
            let bad = Subsystem { serial, model, ..subsystem(a) };
            assert_eq!(error(vec![bad]), SubsystemsError::Text(a.to_owned()));
        }
        let many = Subsystem { namespaces: vec![None; 1025], ..subsystem(a) };
        assert_eq!(error(vec![many]), SubsystemsError::Namespaces(a.to_owned()));
    }

    #[test]
    fn finds_namespaces_by_their_identifier() {
        let subsystem = subsystem("nqn.2026-01.io.drumfire:a");
        assert_eq!(subsystem.ids().collect::<Vec<_>>(), [1, 3]);
        for (id, there) in [(0, false), (1, true), (2, false), (3, true), (4, false)] {
            assert_eq!(subsystem.namespace(id).is_some(), there, "{id}");
        }
        assert!(subsystem.namespace(u32::MAX).is_none());
    }
}
