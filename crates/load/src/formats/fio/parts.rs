//! Which part of a file a job uses: where it begins, how long it is, and how much is done in it.

use super::access;
use super::convert::Converter;
use super::job::FioJob;
use super::settings::Settings;
use super::storage::Place;
use super::value::Amount;
use crate::formats::note::Treatment;
use crate::formats::reading::Storage;
use crate::spec::{Access, Places};

/// Where the part of a clone begins.
pub(super) fn offset(converter: &mut Converter<'_>, job: &FioJob, part: u32) -> Option<Amount> {
    let settings = &job.settings;
    let offset = match (settings.offset, settings.offset_increment) {
        (offset, Amount::Bytes(0)) => Some(offset),
        (Amount::Bytes(start), Amount::Bytes(step)) => {
            let moved = step.checked_mul(u64::from(part)).and_then(|far| far.checked_add(start));
            moved.map(Amount::Bytes)
        }
        (Amount::Percent(start), Amount::Percent(step)) => {
            let moved = u64::from(start) + u64::from(step) * u64::from(part);
            u32::try_from(moved).ok().filter(|percent| *percent <= 100).map(Amount::Percent)
        }
        (Amount::Bytes(0), Amount::Percent(step)) => {
            let moved = u64::from(step) * u64::from(part);
            u32::try_from(moved).ok().filter(|percent| *percent <= 100).map(Amount::Percent)
        }
        _ => None,
    };
    if offset.is_none() {
        let why = "offset and offset_increment are both bytes or both percent, and end within the \
                   volume";
        converter.refuse(job, "offset_increment", why);
    }
    let whole = settings.file_size;
    if let (Some(Amount::Bytes(whole)), Some(Amount::Bytes(start))) = (whole, offset)
        && start > whole
    {
        converter.refuse(job, "filesize", "the file ends before the offset");
        return None;
    }
    offset
}

/// The offset in files that are not there yet: a share of nothing is 0, as with fio.
pub(super) fn of_missing(
    converter: &mut Converter<'_>,
    job: &FioJob,
    offset: Amount,
    files: &[Storage],
) -> Amount {
    let Amount::Percent(percent) = offset else { return offset };
    if !converter.options.volumes.is_empty() {
        return offset;
    }
    let there = |storage: &Storage| match storage {
        Storage::File { path, size_bytes: None, .. } if !path.starts_with("/dev/") => {
            let uri = (converter.options.volume)(storage);
            uri.is_ok_and(|uri| (converter.options.capacity)(&uri).is_some())
        }
        _ => true,
    };
    if files.iter().any(there) {
        return offset;
    }
    if percent > 0 {
        let key = if job.sets("offset") { "offset" } else { "offset_increment" };
        let why = "a share of a file that is not there yet is 0, as with fio";
        converter.note(job, key, Treatment::Ignored, why);
    }
    Amount::Bytes(0)
}

/// Part of one of so many files that is used: `size` is what all of them have together, and
/// `filesize` where each of them ends.
pub(super) fn part(settings: &Settings, files: u32, offset: Amount) -> Option<Amount> {
    match (settings.file_size, settings.size) {
        (Some(Amount::Bytes(whole)), size) => {
            let start = match offset {
                Amount::Bytes(start) => start,
                Amount::Percent(percent) => share(whole, percent),
            };
            let rest = whole.saturating_sub(start);
            let used = match size {
                Some(Amount::Percent(percent)) if percent < 100 => {
                    let least = access::least_bytes(settings);
                    rest.min(share(whole, percent)) / least * least
                }
                _ => rest,
            };
            Some(Amount::Bytes(used))
        }
        (Some(percent), _) => Some(percent),
        (None, Some(Amount::Bytes(all))) => Some(Amount::Bytes(all / u64::from(files.max(1)))),
        (None, percent) => percent,
    }
}

/// Size with which a file is made that is not there.
pub(super) fn file_bytes(part: Option<Amount>, offset: Amount) -> Option<u64> {
    match (part, offset) {
        (Some(Amount::Bytes(size)), Amount::Bytes(start)) => start.checked_add(size),
        _ => None,
    }
}

/// Length of the part that is used, where it is known.
pub(super) fn part_bytes(
    part: Option<Amount>,
    offset: Amount,
    capacity: Option<u64>,
) -> Option<u64> {
    match (part, capacity) {
        (Some(Amount::Bytes(bytes)), _) => Some(bytes),
        (Some(Amount::Percent(percent)), Some(capacity)) => Some(share(capacity, percent)),
        (None, Some(capacity)) => {
            let start = match offset {
                Amount::Bytes(start) => start,
                Amount::Percent(percent) => share(capacity, percent),
            };
            capacity.checked_sub(start)
        }
        (_, None) => None,
    }
}

/// Bytes that are read and written before the job ends, where that is known. As with fio a time
/// through the part ends when all places had their turn, or the bytes are done; `loops` says how
/// often, and an `io_size` that is more than all of them is reached all the same.
pub(super) fn all_bytes(settings: &Settings, place: &Place, access: &Access) -> Option<u64> {
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
pub(super) fn is_too_little(settings: &Settings, place: &Place) -> bool {
    let Some(part) = place.part_bytes else { return false };
    let used = match settings.io_size {
        Some(Amount::Percent(percent)) => share(part, percent),
        _ => part,
    };
    used < access::least_bytes(settings)
}

/// Bytes after which no place is left; `None` where places come again or are not known.
fn pass_bytes(settings: &Settings, place: &Place, access: &Access) -> Option<u64> {
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
        _ => Some(part),
    }
}

fn share(bytes: u64, percent: u32) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}
