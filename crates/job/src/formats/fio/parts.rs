//! Amount of I/O of a job in its part of a file.

use super::settings::Settings;
use super::storage::JobFiles;
use super::value::Amount;
use super::{access, lengths};
use crate::spec::{Access, Line, Places};

/// Returns the bytes that are read and written before the job ends, if known. As in fio, a pass
/// over the part ends when all offsets were visited, or the bytes are done; `loops` is the number
/// of passes, and an `io_size` greater than all of them is met all the same.
pub(super) fn all_bytes(settings: &Settings, place: &JobFiles, access: &Access) -> Option<u64> {
    let files = u64::from(place.files);
    // With `filesize`, the lesser of the two.
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
        // The last I/O extends past it.
        None => bytes.checked_mul(settings.loops),
    }
}

/// Returns whether the amount is less than an I/O, which fio refuses.
pub(super) fn is_too_little(settings: &Settings, place: &JobFiles) -> bool {
    let Some(part) = place.part_bytes else { return false };
    let used = match settings.io_size {
        Some(Amount::Percent(percent)) => share(part, percent),
        _ => part,
    };
    used < lengths::least(settings)
}

/// Returns the bytes after which no offset is left; `None` if offsets repeat or are unknown.
pub(super) fn pass_bytes(settings: &Settings, place: &JobFiles, access: &Access) -> Option<u64> {
    let part = place.part_bytes?;
    let random = access.lines.iter().any(|line| line.random_percent > 0.0);
    let all_random = access.lines.iter().all(|line| line.random_percent == 100.0);
    // Reads and writes with separate offsets do not reach the end.
    let ends = if random { all_random && access.random == Places::Once } else { !access.apart };
    if !ends {
        return None;
    }
    // An I/O that does not fit after the last whole one is not started.
    match access::size(settings) {
        Some(size) if size <= part => {
            Some(access::pass_bytes(settings, place).unwrap_or(part / size * size))
        }
        // Sizes differ: the last I/O ends with the last offset.
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
