//! How much a job does in its part of a file.

use super::settings::Settings;
use super::storage::JobFiles;
use super::value::Amount;
use super::{access, lengths};
use crate::spec::{Access, Line, Places};

/// Bytes that are read and written before the job ends, where that is known. As with fio a time
/// through the part ends when all places had their turn, or the bytes are done; `loops` says how
/// often, and an `io_size` that is more than all of them is reached all the same.
pub(super) fn all_bytes(settings: &Settings, place: &JobFiles, access: &Access) -> Option<u64> {
    let files = u64::from(place.files);
    // With a filesize beside it, whichever is less.
    let at_most = |bytes: u64| match settings.size {
        Some(Amount::Bytes(all)) => bytes.min(all / files),
        _ => bytes,
    };
    let bytes = match settings.io_size {
        Some(Amount::Bytes(bytes)) => bytes / files,
        Some(Amount::Percent(percent)) => at_most(share(place.part_bytes?, percent)),
        None => at_most(place.part_bytes?),
    };
    match pass_bytes(settings, place, access).filter(|pass| *pass <= bytes) {
        Some(pass) => {
            let all = pass.checked_mul(settings.loops)?;
            Some(if settings.io_size.is_some() { all.max(bytes) } else { all })
        }
        // The last I/O of all goes beyond it.
        None => bytes.checked_mul(settings.loops),
    }
}

/// Whether what is to be done is less than an I/O, which fio refuses.
pub(super) fn is_too_little(settings: &Settings, place: &JobFiles) -> bool {
    let Some(part) = place.part_bytes else { return false };
    let used = match settings.io_size {
        Some(Amount::Percent(percent)) => share(part, percent),
        _ => part,
    };
    used < lengths::least(settings)
}

/// Bytes after which no place is left; `None` where places come again or are not known.
pub(super) fn pass_bytes(settings: &Settings, place: &JobFiles, access: &Access) -> Option<u64> {
    let part = place.part_bytes?;
    let random = access.lines.iter().any(|line| line.random_percent > 0.0);
    let all_random = access.lines.iter().all(|line| line.random_percent == 100.0);
    // Reads and writes that go their own ways do not get to the end.
    let ends = if random { all_random && access.random == Places::Once } else { !access.apart };
    if !ends {
        return None;
    }
    // What does not fit behind the last whole one is not begun.
    match access::size(settings) {
        Some(size) if size <= part => {
            Some(access::pass_bytes(settings, place).unwrap_or(part / size * size))
        }
        // Lengths differ: the last one ends with the last place.
        _ if random => {
            let align = u64::from(access.lines.first().map_or(1, Line::align));
            Some(part / align * align)
        }
        _ => Some(part),
    }
}

fn share(bytes: u64, percent: u32) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}
