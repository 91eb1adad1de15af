//! Volumes to serve: their names, and what is opened of them.

use std::sync::Arc;

use ::serve::{Export, UnitShared};
use anyhow::Result;
use volume::{DataLocation, Lifetime, OpenError, Purpose, Uri, Volume};

use crate::exit::UsageError;
use crate::identity::Identity;
use crate::opened;
use crate::output::note;

use super::reservations::ReservationFiles;

/// Common part of the names of targets and subsystems.
const NAMING_AUTHORITY: &str = "2026-11.io.drumfire";
/// LUN of a single volume: the first that most initiators try.
pub(super) const DEFAULT_LUN: u8 = 1;

/// Names of a served volume.
pub struct Shown {
    /// Name on the command line.
    pub name: String,
    /// Name of the iSCSI target.
    pub target: String,
    /// Name of the NVMe subsystem.
    pub subsystem: String,
    /// Logical unit number.
    pub lun: u8,
    /// Capacity.
    pub bytes: u64,
}

/// A volume that is named to be served.
#[derive(Clone)]
pub(super) struct Named {
    /// The volume as the user wrote it.
    pub(super) text: String,
    pub(super) names: Names,
    pub(super) lun: u8,
    /// Location of its data, if other processes can name them.
    place: Option<DataLocation>,
}

/// A volume to serve.
pub(super) struct Opened {
    pub(super) named: Named,
    pub(super) volume: Arc<dyn Volume>,
    pub(super) lifetime: Lifetime,
}

impl Named {
    /// The NAME, or NAME/LUN.
    pub(super) fn name(&self) -> &str {
        self.text.split('=').next().unwrap_or_default()
    }

    /// The URI.
    pub(super) fn uri(&self) -> &str {
        self.text.split_once('=').map_or("", |(_, uri)| uri)
    }
}

impl Opened {
    pub(super) fn shown(&self) -> Shown {
        let Named { text, names, lun, .. } = &self.named;
        let name = text.split(['/', '=']).next().unwrap_or_default();
        Shown {
            name: name.to_owned(),
            target: names.target.clone(),
            subsystem: names.subsystem.clone(),
            lun: *lun,
            bytes: self.volume.geometry().bytes(),
        }
    }
}

/// Opens all volumes.
pub(super) fn open(texts: &[&String]) -> Result<Vec<Opened>> {
    let mut opened: Vec<Opened> = Vec::new();
    let mut refused = None;
    for text in texts {
        let others = opened.iter().map(|one| &one.named);
        match open_one(text, others) {
            Ok(one) => opened.push(one),
            // The others do not suffer by legs that were lost.
            Err(error) if texts.len() > 1 && is_array(&error) => {
                note(format_args!("drumfire: --volume {text} is not served: {error}"));
                refused = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match refused {
        Some(error) if opened.is_empty() => Err(error),
        _ => Ok(opened),
    }
}

fn is_array(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(OpenError::Array(_)))
}

/// Opens a volume beside others. No data may have two names: hosts would treat them as two disks,
/// and each would overwrite the other's data.
pub(super) fn open_one<'a>(
    text: &str,
    mut others: impl Iterator<Item = &'a Named>,
) -> Result<Opened> {
    let (names, lun, uri) = parse(text)?;
    // Located before opening, which already claims a device.
    let place = DataLocation::of(&uri);
    let taken = |other: &&Named| match (&place, &other.place) {
        (Some(place), Some(other)) => place.overlaps(other),
        _ => false,
    };
    if let Some(other) = others.find(taken) {
        let message = format!(
            "--volume {text}: same data as --volume {}, which hosts would see as two disks: serve \
            it once; for several paths, repeat --iscsi or --nvme-tcp",
            other.text
        );
        return Err(UsageError(message).into());
    }
    let volume = opened::open(&uri.to_the_byte(), Purpose::Store)?;
    let lifetime = Lifetime::of(&uri, &*volume);
    // The file may have been created just now.
    let place = place.or_else(|| DataLocation::of(&uri));
    Ok(Opened { named: Named { text: text.to_owned(), names, lun, place }, volume, lifetime })
}

/// `NAME=URI` or `NAME/LUN=URI`.
pub(super) fn parse(text: &str) -> Result<(Names, u8, Uri)> {
    let wrong = |why: &str| UsageError(format!("--volume {text}: {why}"));
    let (place, uri) = text.split_once('=').ok_or_else(|| wrong("write NAME=URI"))?;
    let (name, lun) = match place.split_once('/') {
        None => (place, DEFAULT_LUN),
        Some((name, lun)) => (name, lun.parse().map_err(|_| wrong("a LUN is from 0 to 255"))?),
    };
    if name.is_empty() {
        return Err(wrong("the name is missing").into());
    }
    Ok((Names::of(name), lun, uri.parse()?))
}

/// Identity of this server. If all volumes end with the process, nothing is saved.
pub(super) fn own(volumes: &[Opened]) -> Identity {
    let ends = |volume: &Opened| volume.lifetime == Lifetime::Process;
    match volumes.iter().all(ends) {
        true => Identity::of_process(),
        false => Identity::kept(|line| note(format_args!("drumfire: {line}"))),
    }
}

/// Warns if memory gets a given identity: two processes never have the same memory.
pub(super) fn warn_of_memory(identity: &Identity, volumes: &[Opened]) {
    let ends = |volume: &&Opened| volume.lifetime == Lifetime::Process;
    if let Some(volume) = volumes.iter().find(ends).filter(|_| identity.is_given()) {
        note(format_args!(
            "drumfire: --volume {}: its data is private to this process, but with --id hosts \
            treat it as the same disk as on other servers",
            volume.named.text
        ));
    }
}

/// A volume with its identity and its reservations, which `files` save if the disk lasts.
pub(super) fn export(
    identity: &Identity,
    opened: Opened,
    files: Option<&ReservationFiles>,
    removable: bool,
) -> Result<Export> {
    let Opened { named, volume, lifetime } = opened;
    let Named { text, names, lun, .. } = named;
    let disk = identity.disk(&names.target, lun, &lifetime);
    let lasts = lifetime != Lifetime::Process || identity.is_given();
    let reservations = match files.filter(|_| lasts) {
        Some(files) => files.of(&disk, &text)?,
        None => UnitShared::default(),
    };
    let reservations = if removable { reservations.removable() } else { reservations };
    Ok(Export { target: names.target, subsystem: names.subsystem, lun, volume, disk, reservations })
}

/// Names of the volumes with one NAME in each protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) target: String,
    pub(super) subsystem: String,
}

impl Names {
    /// Names for `name`: a full name is used unchanged, and gives the other protocol's name its
    /// ending.
    pub(super) fn of(name: &str) -> Names {
        let own = |kind: &str| format!("{kind}.{NAMING_AUTHORITY}:{name}");
        if let Some(rest) = name.strip_prefix("nqn.") {
            return Names { target: format!("iqn.{rest}"), subsystem: name.to_owned() };
        }
        let subsystem = match name.strip_prefix("iqn.") {
            // An NQN of this form needs the colon.
            Some(rest) if rest.contains(':') => format!("nqn.{rest}"),
            _ => own("nqn"),
        };
        let full = ["iqn.", "eui.", "naa."].iter().any(|prefix| name.starts_with(prefix));
        Names { target: if full { name.to_owned() } else { own("iqn") }, subsystem }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_name_is_one_of_ours_or_stands_for_itself() {
        for (name, target, subsystem) in [
            ("disk", "iqn.2026-11.io.drumfire:disk", "nqn.2026-11.io.drumfire:disk"),
            ("a:b", "iqn.2026-11.io.drumfire:a:b", "nqn.2026-11.io.drumfire:a:b"),
            ("iqn.2001-04.org.x:a:b", "iqn.2001-04.org.x:a:b", "nqn.2001-04.org.x:a:b"),
            ("nqn.2001-04.org.x:a", "iqn.2001-04.org.x:a", "nqn.2001-04.org.x:a"),
            ("iqn.2001-04.org.x", "iqn.2001-04.org.x", "nqn.2026-11.io.drumfire:iqn.2001-04.org.x"),
            (
                "naa.3000000000000001",
                "naa.3000000000000001",
                "nqn.2026-11.io.drumfire:naa.3000000000000001",
            ),
        ] {
            let names = Names { target: target.to_owned(), subsystem: subsystem.to_owned() };
            assert_eq!(Names::of(name), names);
        }
    }
}
