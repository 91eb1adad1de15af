//! Table of what hosts see of a server: immutable, and replaced as a whole by a change.

use std::net::IpAddr;
use std::sync::Arc;

use block::Geometry;
use proto::iscsi::{Directory, TargetEntry};
use proto::nbd::{NbdExport, NbdExports};
use proto::nvme::{Namespace, Portal, Subsystem, Subsystems, check_nqn};
use proto::scsi::{Identity, Unit};

use crate::config::Export;
use crate::host_lists::HostLists;
use crate::places::Place;
use crate::protocol::Protocol;
use crate::server::ServeError;

/// Properties of a server that no change concerns.
pub(crate) struct Doors {
    /// NVMe/TCP addresses that discovery reports; empty: NVMe/TCP is not served.
    pub(crate) nvme_portals: Vec<Portal>,
    /// NBD is served: its names matter.
    pub(crate) with_nbd: bool,
    /// Each disk has several paths.
    pub(crate) shared: bool,
}

/// Table of volumes and their hosts.
pub(crate) struct Table {
    places: Vec<Place>,
    pub(crate) host_lists: HostLists,
    directory: Arc<Directory>,
    pub(crate) subsystems: Arc<Subsystems>,
    nbd_exports: Arc<NbdExports>,
    /// Tables before this one, and 1.
    pub(crate) number: u64,
}

impl Table {
    /// A table of these volumes, the `number`th of the server.
    ///
    /// # Errors
    ///
    /// Invalid or duplicate names and numbers of exports.
    pub(crate) fn new(
        places: Vec<Place>,
        host_lists: HostLists,
        doors: &Doors,
        number: u64,
    ) -> Result<Table, ServeError> {
        let with_nvme = !doors.nvme_portals.is_empty();
        let list =
            if with_nvme { subsystems(&places, &host_lists, doors.shared)? } else { Vec::new() };
        let list = Subsystems::new(list)?.of_generation(number);
        let list = list.with_portals(doors.nvme_portals.clone());
        let list = host_lists.nvme.iter().try_fold(list, restrict)?;
        let closed = |export: &&Export| {
            host_lists.restrict(export) && !host_lists.has(Protocol::NvmeTcp, export)
        };
        let closed = places.iter().map(|place| &place.export).filter(closed);
        let subsystems =
            closed.fold(list, |all, export| all.allow_only(&export.subsystem, Vec::new()));
        let directory = Arc::new(directory(&places, &host_lists)?);
        let nbd_exports =
            if doors.with_nbd { nbd_exports(&places, &host_lists) } else { Vec::new() };
        let nbd_exports = Arc::new(NbdExports::new(nbd_exports)?);
        let subsystems = Arc::new(subsystems);
        Ok(Table { places, host_lists, directory, subsystems, nbd_exports, number })
    }

    /// The iSCSI targets that a peer may use.
    pub(crate) fn directory_for(&self, peer: IpAddr) -> Arc<Directory> {
        if self.host_lists.are_none() {
            return Arc::clone(&self.directory);
        }
        let may_use = |entry: &TargetEntry| {
            let of = self.places.iter().find(|place| place.export.target == entry.name);
            of.is_some_and(|one| self.host_lists.allow(Protocol::Iscsi, &one.export, peer))
        };
        Arc::new(self.directory.only(may_use))
    }

    /// The NBD exports that a peer may use.
    pub(crate) fn nbd_exports_for(&self, peer: IpAddr) -> Arc<NbdExports> {
        if self.host_lists.are_none() {
            return Arc::clone(&self.nbd_exports);
        }
        let may_use = |export: &NbdExport| {
            let of = self.places.iter().find(|place| place.unit == export.id);
            of.is_some_and(|one| self.host_lists.allow(Protocol::Nbd, &one.export, peer))
        };
        Arc::new(self.nbd_exports.only(may_use))
    }
}

/// Restricts a subsystem to these hosts.
fn restrict(
    subsystems: Subsystems,
    (nqn, hosts): (&String, &Vec<String>),
) -> Result<Subsystems, ServeError> {
    for host in hosts {
        check_nqn(host).map_err(|error| ServeError::HostName(host.clone(), error))?;
    }
    Ok(subsystems.allow_only(nqn, hosts.clone()))
}

/// The geometry of a volume as hosts see it.
fn shown(geometry: Geometry, export: &Export, lists: &HostLists) -> Geometry {
    Geometry { read_only: geometry.read_only || lists.protect(export), ..geometry }
}

/// The iSCSI targets of `places`.
fn directory(places: &[Place], lists: &HostLists) -> Result<Directory, ServeError> {
    let mut targets: Vec<TargetEntry> = Vec::new();
    for Place { unit: id, export, instance, shared, .. } in places {
        let known = targets.iter().position(|target| target.name == export.target);
        let at = known.unwrap_or_else(|| {
            let (name, alias) = (export.target.clone(), String::new());
            let chap = lists.chap.get(&name).cloned();
            targets.push(TargetEntry { name, units: Vec::new(), alias, chap });
            targets.len() - 1
        });
        let (product, backing) = (product(export), export.volume.backing());
        let identity = Identity { disk: export.disk, product };
        let geometry = shown(export.volume.geometry(), export, lists);
        let memory = export.volume.memory();
        let unit = Unit::new(*id, geometry, memory, identity);
        let unit = unit.backed_by(backing).of_instance(instance.clone()).sharing(shared);
        let unit = unit.of_extents(export.volume.extents());
        if put(&mut targets[at].units, usize::from(export.lun), unit) {
            return Err(ServeError::DoubleLun(export.target.clone(), export.lun));
        }
    }
    Ok(Directory::new(targets)?.with_discovery_chap(lists.discovery_chap.clone()))
}

/// The NVMe subsystems of `places`.
fn subsystems(
    places: &[Place],
    lists: &HostLists,
    with_paths: bool,
) -> Result<Vec<Subsystem>, ServeError> {
    let mut list: Vec<Subsystem> = Vec::new();
    for Place { unit: id, export, instance, shared, .. } in places {
        let known = list.iter().position(|subsystem| subsystem.nqn == export.subsystem);
        let at = known.unwrap_or_else(|| {
            list.push(Subsystem {
                nqn: export.subsystem.clone(),
                namespaces: Vec::new(),
                serial: String::new(),
                model: model(export),
                shared: with_paths,
            });
            list.len() - 1
        });
        if list[at].model != model(export) {
            "Drumfire".clone_into(&mut list[at].model);
        }
        let geometry = shown(export.volume.geometry(), export, lists);
        let memory = export.volume.memory();
        let (id, instance) = (*id, Some(instance.clone()));
        let (disk, backing) = (export.disk, export.volume.backing());
        let namespace =
            Namespace { id, geometry, memory, disk, backing, instance, shared: shared.clone() };
        let place = usize::from(export.lun).checked_sub(1);
        let place = place.ok_or_else(|| ServeError::NamespaceZero(export.subsystem.clone()))?;
        if put(&mut list[at].namespaces, place, namespace) {
            return Err(ServeError::DoubleLun(export.target.clone(), export.lun));
        }
    }
    for subsystem in &mut list {
        subsystem.serial = serial(subsystem);
    }
    Ok(list)
}

/// The model name that Identify reports for an export's subsystem.
fn model(export: &Export) -> String {
    format!("Drumfire {}", product(export))
}

/// Product name that INQUIRY reports for an export: the kind of its volume, and the word of its
/// backing store if that is no medium and the kind does not say so.
fn product(export: &Export) -> String {
    let kind = export.volume.kind().to_uppercase();
    let word = export.volume.backing().word().to_uppercase();
    let is_told = kind.contains(&word) || !["EMULATED", "FAULTY"].contains(&&*word);
    if is_told { kind } else { format!("{word} {kind}") }
}

/// Prefix of our own target names.
const OWN_TARGETS: &str = "iqn.2026-11.io.drumfire:";
/// LUN that an NBD export's name omits.
const USUAL_LUN: u8 = 1;

/// The NBD exports of `places`: by the short name of a target of ours, and by its full name.
fn nbd_exports(places: &[Place], lists: &HostLists) -> Vec<NbdExport> {
    let export = |place: &Place| {
        let export = &place.export;
        let short = export.target.strip_prefix(OWN_TARGETS).filter(|name| !name.is_empty());
        let numbered = |name: &str| match export.lun {
            USUAL_LUN => name.to_owned(),
            lun => format!("{name}/{lun}"),
        };
        NbdExport {
            name: numbered(short.unwrap_or(&export.target)),
            alias: numbered(&export.target),
            description: format!("{}, {}", model(export), export.volume.backing().line()),
            id: place.unit,
            geometry: shown(export.volume.byte_geometry(), export, lists),
            memory: export.volume.memory(),
            instance: Some(place.instance.clone()),
            extents: export.volume.extents(),
            shared: place.shared.clone(),
        }
    };
    places.iter().map(export).collect()
}

/// A subsystem's serial number: that of its first namespace. Unrelated subsystems of equal name
/// have different serial numbers, which stay when namespaces are added.
fn serial(subsystem: &Subsystem) -> String {
    let first = subsystem.namespaces.iter().flatten().next();
    first.map(|namespace| namespace.disk.serial()).unwrap_or_default()
}

/// Puts `unit` at `index` of a sparse list; true if the index was taken.
fn put<T: Clone>(list: &mut Vec<Option<T>>, index: usize, unit: T) -> bool {
    if list.len() <= index {
        list.resize(index + 1, None);
    }
    list[index].replace(unit).is_some()
}

#[cfg(test)]
mod test {
    use proto::DiskId;
    use volume::Purpose;

    use super::*;
    use crate::places::Places;

    fn export(lun: u8, disk: u8) -> Export {
        Export {
            target: "iqn.2026-11.io.drumfire:disk".to_owned(),
            subsystem: "nqn.2026-11.io.drumfire:disk".to_owned(),
            lun,
            volume: volume::open(&"null:1m".parse().unwrap(), Purpose::Store).unwrap(),
            disk: DiskId::new([disk; 16]),
            reservations: Default::default(),
        }
    }

    #[test]
    fn subsystems_have_the_serial_number_of_their_first_namespace() {
        let serial = |exports: &[Export]| {
            let places = Places::new(exports, 0, 1);
            subsystems(&places.offered(), &HostLists::default(), false).unwrap()[0].serial.clone()
        };
        let first = DiskId::new([1; 16]).serial();
        assert_eq!(serial(&[export(3, 1)]), first);
        assert_eq!(serial(&[export(9, 2), export(3, 1)]), first, "in whichever order");
        assert_ne!(serial(&[export(3, 2), export(9, 1)]), first);
    }
}
