//! Creates, shows and changes arrays that are not in use.

use block::{Plant, planted};

use super::assemble::copies_of;
use super::desk::Desk;
use super::grow::{Growth, Put};
use super::map::{page_slots, region_bytes};
use super::superblock::{
    Generation, LegState, MEMBERS_MAX, Member, NAME_MAX_BYTES, Superblock, data_bytes,
};
use super::volume::{Opened, look};
use super::{ArrayError, blank_pages};
use crate::uri::ArrayUri;
use crate::{OpenError, Purpose, Uri, all_differ, may_destroy};

/// A change of an array's legs.
#[derive(Clone, Debug)]
pub enum Change {
    /// Adds a leg: an active one, to which all data is copied, or a hot spare.
    Add {
        /// The leg.
        leg: Uri,
        /// Whether the new leg is a spare.
        spare: bool,
    },
    /// Removes a leg; the array then needs one leg less.
    Remove {
        /// Number of the leg, from 1.
        number: usize,
    },
    /// Replaces a leg with another one.
    Replace {
        /// The leg to replace, from 1.
        number: usize,
        /// The new leg.
        leg: Uri,
    },
}

/// Creates an array of these legs, filled with zeroes. Data on a leg that `destroy` names is lost.
///
/// # Errors
///
/// A leg holds data and is not named, is too small, or cannot be written.
pub fn create(
    name: &str,
    legs: &[Uri],
    spares: &[Uri],
    destroy: &[String],
) -> Result<ArrayUri, OpenError> {
    let all: Vec<Uri> = legs.iter().chain(spares).cloned().collect();
    let wrong = |why: String| ArrayError::Change { array: name.to_owned(), why };
    if legs.is_empty() || all.len() > MEMBERS_MAX {
        return Err(wrong(format!("{} legs: 1 to {MEMBERS_MAX}", all.len())).into());
    }
    if !is_name(name) {
        return Err(wrong(format!(
            "a name has 1 to {NAME_MAX_BYTES} characters of a-z, 0-9, . _ -"
        ))
        .into());
    }
    suit(name, &all)?;
    let mut desks = Vec::new();
    for leg in &all {
        desks.push(blank(leg, destroy)?);
    }
    let bytes = desks.iter().map(|desk| data_bytes(desk.bytes())).min().unwrap_or(0);
    let block_bytes = desks.iter().map(|desk| desk.volume.geometry().block_bytes).max();
    let block_bytes = block_bytes.unwrap_or(512).max(512);
    if bytes == 0 || block_bytes > 4096 {
        let why = "each leg needs at least 2112 KiB and blocks of at most 4096 bytes";
        return Err(wrong(why.to_owned()).into());
    }
    let member = |index: usize| Member {
        uuid: uuid(),
        state: if index < legs.len() { LegState::In } else { LegState::Spare },
        empty: index >= legs.len(),
        left: Generation::default(),
    };
    let members: Vec<Member> = (0..all.len()).map(member).collect();
    let block = Superblock {
        array: uuid(),
        name: name.to_owned(),
        leg: members[0].uuid,
        generation: Generation { number: 1, tag: os::random() },
        bytes,
        block_bytes,
        region_bytes: region_bytes(bytes),
        copies: legs.len() as u32,
        members,
        history: Vec::new(),
    };
    for desk in &mut desks {
        desk.clear()?;
        write_map(desk, &block)?;
    }
    for (desk, member) in desks.iter_mut().zip(&block.members) {
        write(desk, &block, member.uuid)?;
    }
    Ok(ArrayUri { name: name.to_owned(), legs: all, ..ArrayUri::default() })
}

/// Describes an array: a line for each property and leg.
///
/// # Errors
///
/// Why the array cannot be opened.
pub fn show(uri: &ArrayUri) -> Result<Vec<String>, OpenError> {
    let Opened { found, assembly, .. } = look(uri, false)?;
    let block = &assembly.newest;
    let in_it = block.in_state(LegState::In).count_ones();
    let mut lines = vec![
        format!("array {} {:032x}", block.name, block.array),
        format!("capacity {} bytes, blocks of {}", block.bytes, block.block_bytes),
        format!("regions of {} bytes", block.region_bytes),
        format!("generation {}, {in_it} of {} legs active", block.generation.number, block.copies),
    ];
    for (number, (member, place)) in block.members.iter().zip(&assembly.places).enumerate() {
        let name = place.map_or("missing", |place| found[place].name.as_str());
        lines.push(format!("leg {}: {}, {name}", number + 1, member.state.word()));
    }
    lines.extend(assembly.notes);
    Ok(lines)
}

/// Changes the legs of an array that is not in use; returns its new name.
///
/// # Errors
///
/// The reason why the change is refused; nothing was written then.
pub fn change(uri: &ArrayUri, change: Change, destroy: &[String]) -> Result<ArrayUri, OpenError> {
    let Opened { mut desks, assembly, .. } = look(uri, true)?;
    let mut block = assembly.newest;
    let wrong = |why: &str| ArrayError::Change { array: uri.name.clone(), why: why.to_owned() };
    let mut legs: Vec<Option<usize>> = assembly.places;
    let (gone, comes, spare) = match change {
        Change::Add { leg, spare } => (None, Some(leg), spare),
        Change::Remove { number } => (Some(number), None, false),
        Change::Replace { number, leg } => (Some(number), Some(leg), false),
    };
    let left = block.generation;
    for (member, leg) in block.members.iter_mut().zip(&legs) {
        if leg.is_none() && member.state == LegState::In {
            *member = Member { state: LegState::Out, left, ..*member };
        }
    }
    // A replacement gets the number of the old leg.
    let mut seat = legs.len();
    if let Some(number) = gone {
        let at = number.checked_sub(1).filter(|at| *at < legs.len());
        seat = at.ok_or_else(|| wrong("no such leg"))?;
        let was = block.members.remove(seat);
        legs.remove(seat);
        if comes.is_none() && was.state != LegState::Spare {
            block.copies = block.copies.saturating_sub(1).max(1);
        }
        if block.in_state(LegState::In) == 0 {
            return Err(wrong("it is the last leg with all the data").into());
        }
    }
    if let Some(leg) = &comes {
        if block.members.len() >= MEMBERS_MAX {
            return Err(wrong("the array already has 16 legs").into());
        }
        let every: Vec<Uri> = uri.legs.iter().chain([leg]).cloned().collect();
        all_differ(&every)?;
        suits(&uri.name, leg)?;
        let mut desk = blank(leg, destroy)?;
        super::assemble::fits(&uri.name, &desk.found(), &block)?;
        desk.clear()?;
        write_map(&mut desk, &block)?;
        let state = if spare { LegState::Spare } else { LegState::Out };
        block.members.insert(seat, Member { uuid: uuid(), state, empty: true, left });
        block.copies += u32::from(gone.is_none() && !spare);
        legs.insert(seat, Some(desks.len()));
        desks.push(desk);
    }
    block.advance(os::random());
    let here: Vec<(usize, u128)> = legs
        .iter()
        .zip(&block.members)
        .filter_map(|(place, member)| Some(((*place)?, member.uuid)))
        .collect();
    // Existing legs first: a new leg alone does not make the array.
    for (place, leg) in &here {
        if block.members.iter().any(|one| one.uuid == *leg && one.state != LegState::Out) {
            write(&mut desks[*place], &block, *leg)?;
        }
    }
    for (place, leg) in &here {
        if block.members.iter().any(|one| one.uuid == *leg && one.empty) {
            write(&mut desks[*place], &block, *leg)?;
        }
    }
    let names = here.iter().map(|(place, _)| desks[*place].name.parse());
    let legs = names.collect::<Result<Vec<Uri>, _>>().unwrap_or_default();
    Ok(ArrayUri { legs, degraded: false, ..uri.clone() })
}

/// Grows an array that is not in use, to `bytes` or as far as its legs allow. Returns the new
/// capacity.
///
/// # Errors
///
/// The reason of a refusal; the capacity is unchanged then.
pub fn grow(uri: &ArrayUri, bytes: Option<u64>) -> Result<u64, OpenError> {
    let Opened { mut desks, found, assembly, maps } = look(uri, true)?;
    let growth = Growth::new(&uri.name, &found, &assembly, &maps, bytes)?;
    for step in growth.steps(os::random()) {
        match &step.put {
            Put::Bytes(bytes) => desks[step.leg].write(step.offset, &bytes[..])?,
            Put::Zeroes(len) => desks[step.leg].zero(step.offset, *len)?,
        }
    }
    Ok(growth.bytes())
}

/// Whether this is a valid array name.
pub(crate) fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=NAME_MAX_BYTES).contains(&name.len()) && name.bytes().all(allowed)
}

/// Checks that these volumes can be the legs of an array, or of several.
///
/// # Errors
///
/// A leg cannot be one, or two are the same data.
pub fn suit(array: &str, legs: &[Uri]) -> Result<(), OpenError> {
    all_differ(legs)?;
    Ok(legs.iter().try_for_each(|leg| suits(array, leg))?)
}

/// Refuses a leg that is unsuitable, at any depth: one that loses its data when its process ends,
/// so that no later process could re-add it, and one that reconnects by itself.
pub(super) fn suits(array: &str, leg: &Uri) -> Result<(), ArrayError> {
    let below: Vec<&Uri> = match leg {
        Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => vec![&**inner],
        Uri::Stripe { parts, .. } => parts.iter().collect(),
        Uri::Mirror { legs } => legs.iter().collect(),
        Uri::Array(inner) => inner.legs.iter().collect(),
        _ => Vec::new(),
    };
    below.into_iter().try_for_each(|part| suits(array, part))?;
    let session = match leg {
        Uri::Iscsi(far) => Some(&far.session),
        Uri::Nvme(far) => Some(&far.session),
        Uri::Nbd(far) => Some(&far.session),
        _ => None,
    };
    let reconnects = session.is_some_and(|session| session.reconnect_seconds.is_some())
        && !planted(Plant::NestReconnect);
    let why = match leg {
        Uri::Ram { .. } | Uri::Null { .. } => format!(
            "{leg} loses its data when the process ends, and the legs of an array must be \
            persistent: use file: or a remote volume, or mirror(URI,URI) for memory"
        ),
        _ if reconnects => {
            format!("{leg}: remove ?reconnect=: the array itself reconnects its legs")
        }
        _ => return Ok(()),
    };
    Err(ArrayError::Change { array: array.to_owned(), why })
}

fn uuid() -> u128 {
    u128::from(os::random()) << 64 | u128::from(os::random())
}

/// A leg that may be overwritten: blank, or named in `destroy`.
fn blank(leg: &Uri, destroy: &[String]) -> Result<Desk, OpenError> {
    let allowed = may_destroy(leg, destroy);
    let mut desk = Desk::open(leg, if allowed { Purpose::Destroy } else { Purpose::Write })?;
    if !allowed {
        let bytes = desk.bytes();
        for place in [0, copies_of(bytes)[1] & !0xffff] {
            let len = (bytes - place).min(64 << 10) & !4095;
            if desk.read(place, len as usize)?.iter().any(|byte| *byte != 0) {
                let (leg, what) = (desk.name.clone(), "data".to_owned());
                return Err(ArrayError::HoldsData { leg, what }.into());
            }
        }
    }
    Ok(desk)
}

fn write(desk: &mut Desk, block: &Superblock, leg: u128) -> Result<(), OpenError> {
    let bytes = block.encode(leg);
    for place in copies_of(desk.bytes()) {
        desk.write(place, &bytes)?;
    }
    Ok(())
}

fn write_map(desk: &mut Desk, block: &Superblock) -> Result<(), OpenError> {
    for (page, bytes) in blank_pages(block.array, block.bytes).iter().enumerate() {
        desk.write(page_slots(page)[0], bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_leg_that_forgets_is_refused_with_the_remedy() {
        for leg in ["ram:8m", "null:8m", "delay:x25-m(ram:8m)", "mirror(ram:8m,file:/x)"] {
            let leg: Uri = leg.parse().unwrap();
            let error = create("disk", &[leg.clone(), leg], &[], &[]).unwrap_err().to_string();
            let said =
                error.contains("loses its data when the process ends") || error.contains("same");
            assert!(said, "{error}");
        }
        assert!(suits("disk", &"ram:8m".parse().unwrap()).is_err());
        assert!(suits("disk", &"delay:x25-m(null:8m)".parse().unwrap()).is_err());
        assert!(suits("disk", &"stripe:64k(file:/x,ram:8m)".parse().unwrap()).is_err());
        assert!(suits("disk", &"delay:x25-m(file:/x)".parse().unwrap()).is_ok());
        assert!(suits("disk", &"nbd://host/disk".parse().unwrap()).is_ok());
    }

    #[test]
    fn a_leg_that_reconnects_is_refused_however_deep_it_is() {
        let far = "nbd://host/disk?reconnect=30s";
        for leg in [
            far.to_owned(),
            format!("stripe:64k({far},nbd://host/other)"),
            format!("fault:x.toml(stripe:64k(file:/x,delay:x25-m({far})))"),
            format!("mirror(file:/x,{far})"),
            format!("stripe:64k(mirror(file:/x,stripe:64k(file:/y,{far})),file:/z)"),
        ] {
            let refused = suits("disk", &leg.parse().unwrap()).unwrap_err().to_string();
            assert!(refused.contains("remove ?reconnect="), "{leg}: {refused}");
            let legs = [leg.parse().unwrap(), "file:/a".parse().unwrap()];
            let created = create("disk", &legs, &[], &[]).unwrap_err().to_string();
            assert!(created.contains("remove ?reconnect="), "{leg}: {created}");
        }
    }
}
