//! What the server has: subsystems and their namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{Geometry, Memory};

use crate::{DiskId, UnitId};

use super::name::{DISCOVERY_NQN, NqnError, check_nqn};

/// A subsystem: what a host connects to by name.
#[derive(Clone, Debug)]
pub struct Subsystem {
    /// Its name, as [`check_nqn`] wants it.
    pub nqn: String,
    /// Index is the namespace identifier less one; holes are identifiers that are not in use.
    pub namespaces: Vec<Option<Namespace>>,
    /// Serial number: 1 to 20 printable ASCII characters.
    pub serial: String,
    /// Model number: 1 to 40 printable ASCII characters.
    pub model: String,
    /// There are several ways to it: several addresses, or several servers that give it the same
    /// name and its namespaces the same identities. Only then are hosts told to join what they
    /// find under one name.
    pub shared: bool,
}

/// A volume as hosts see it.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// The volume, in requests.
    pub id: UnitId,
    /// Its shape.
    pub geometry: Geometry,
    /// The volume's bytes, if they are memory of this process: reads and writes happen there and
    /// then, and are never requested. As long as the volume.
    pub memory: Option<Memory>,
    /// Which disk it is.
    pub disk: DiskId,
}

/// An address at which the subsystems can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// IPv4 or IPv6 address in its usual text form.
    pub address: String,
    /// TCP port in decimal.
    pub port: String,
}

/// All subsystems of a server. Never changes; shared by its connections.
///
/// Who connects to [`DISCOVERY_NQN`] is told of all of them.
#[derive(Clone, Debug)]
pub struct Subsystems {
    list: Vec<Arc<Subsystem>>,
    portals: Vec<Portal>,
    /// Hosts that may use a subsystem, by its name; without an entry all may.
    hosts: BTreeMap<String, Vec<String>>,
}

/// Why subsystems cannot be served.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubsystemsError {
    /// Two subsystems have the same name.
    #[error("subsystem '{0}' is given twice")]
    Duplicate(String),
    /// A name that is no NQN.
    #[error("subsystem '{name}': {error}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        error: NqnError,
    },
    /// The name of the discovery service is ours to give.
    #[error("a subsystem may not be called '{DISCOVERY_NQN}': that name answers by itself")]
    Discovery,
    /// More namespaces than one list can tell.
    #[error("subsystem '{0}' has more than {max} namespaces", max = Subsystems::MAX_NAMESPACES)]
    Namespaces(String),
    /// A serial or model number that cannot be told.
    #[error(
        "subsystem '{0}': serial and model have 1 to 20 and 1 to 40 printable ASCII characters"
    )]
    Text(String),
}

impl Subsystems {
    /// One list of 4096 bytes tells of so many.
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
        Ok(Subsystems { list, portals: Vec::new(), hosts: BTreeMap::new() })
    }

    /// Lets only hosts of these names use the subsystem `nqn`. Others are refused, and not told of
    /// it by discovery.
    pub fn allow_only(mut self, nqn: &str, hosts: Vec<String>) -> Subsystems {
        self.hosts.insert(nqn.to_owned(), hosts);
        self
    }

    /// Whether a host may use a subsystem.
    pub(super) fn admits(&self, subsystem: &Subsystem, host: &str) -> bool {
        let hosts = self.hosts.get(&subsystem.nqn);
        hosts.is_none_or(|hosts| hosts.iter().any(|allowed| allowed == host))
    }

    /// Tells of these addresses too, beside the one at which discovery is asked.
    pub fn with_portals(self, portals: Vec<Portal>) -> Subsystems {
        Subsystems { portals, ..self }
    }

    /// The subsystems.
    pub fn list(&self) -> &[Arc<Subsystem>] {
        &self.list
    }

    /// Addresses beside the one at which discovery is asked.
    pub(super) fn portals(&self) -> &[Portal] {
        &self.portals
    }

    /// The subsystem of that name.
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
    /// One without a name and without namespaces: what a host has before it connects.
    pub(super) fn empty() -> Subsystem {
        let (nqn, serial, model) = (String::new(), String::new(), String::new());
        Subsystem { nqn, namespaces: Vec::new(), serial, model, shared: false }
    }

    /// What hosts of the discovery service are connected to.
    pub(super) fn discovery() -> Subsystem {
        let (nqn, serial) = (DISCOVERY_NQN.to_owned(), "discovery".to_owned());
        let model = "Drumfire discovery".to_owned();
        Subsystem { nqn, namespaces: Vec::new(), serial, model, shared: false }
    }

    /// The namespace of that identifier.
    #[inline(always)]
    pub(super) fn namespace(&self, id: u32) -> Option<&Namespace> {
        self.namespaces.get((id as usize).wrapping_sub(1))?.as_ref()
    }

    /// The bytes of the namespace of that identifier, if they are memory.
    #[inline(always)]
    pub(super) fn memory(&self, id: u32) -> Option<&Memory> {
        self.namespace(id)?.memory.as_ref()
    }

    /// Identifiers in use, rising.
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
        let namespace = Namespace { id: UnitId(0), geometry, memory: None, disk };
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
