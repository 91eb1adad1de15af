//! Reads a whole backup: verifies the checksum of each frame, and that the frames of each file
//! cover exactly the ranges in the index; and restores the files if requested.
//!
//! Nothing in a backup is trusted: it may be damaged or forged.

mod checked;
mod folder;

use block::Buf;
use os::Clock;

pub use self::checked::{Checked, Damage, Missing};
pub use self::folder::Destination;

use self::checked::Account;
use self::folder::Restored;
use crate::BackupError;
use crate::format::index::{Kept, take_index};
use crate::format::{FRAME_HEAD_BYTES, FrameHead, Head, checksum, is_older, padded};
use crate::progress::{Meter, Tell};
use crate::target::Target;
use crate::way::{Stop, Way};

/// Minimum bytes per read.
const WINDOW_BYTES: usize = 4 << 20;

/// Verifies a backup. With `into` also restores its files into a new folder. Damages are reported;
/// everything else is restored, and the folder keeps a name that marks it as incomplete.
///
/// # Errors
///
/// Errors of the target and the folder, an error if there is no complete backup, and
/// [`BackupError::Stopped`]. [`BackupError::Unfinished`] has the path of an interrupted restore.
pub fn restore(
    target: &Target,
    into: Option<Destination>,
    tell: Tell,
    stop: Stop,
) -> Result<Checked, BackupError> {
    let clock = Clock::get();
    let begin = clock.now();
    let mut way = target.way(stop)?;
    let (head, entries) = open(target, &mut way, stop)?;
    let Some(into) = into else {
        let account = scan(target, &mut way, &head, &entries, None, tell, stop)?;
        return Ok(Checked { time: clock.now().since(begin), ..account.end(&entries) });
    };
    let mut place = Restored::new(into)?;
    let done = place.begin(&entries, stop).and_then(|()| {
        let account = scan(target, &mut way, &head, &entries, Some(&mut place), tell, stop)?;
        let checked = account.end(&entries);
        let left_out = place.end(&entries, stop)?;
        let is_whole = checked.damaged == 0 && checked.partial == 0;
        let in_folder = place.publish(is_whole)?;
        let time = clock.now().since(begin);
        Ok(Checked { time, left_out, in_folder: Some(in_folder), ..checked })
    });
    done.map_err(|error| {
        let left = place.path().to_owned();
        BackupError::Unfinished { error: Box::new(error), left }
    })
}

/// Whether there is a backup without missing data, according to its index. Backups of older
/// versions do not record missing data, and count as complete.
pub(crate) fn is_whole(target: &Target) -> bool {
    let never = || false;
    let Ok(mut way) = target.way(&never) else { return false };
    match open(target, &mut way, &never) {
        Ok((_, entries)) => entries.iter().all(|entry| !entry.fate.is_partial()),
        Err(_) => {
            let block = Buf::new(target.align()).ok();
            let block = block.and_then(|buf| way.read(0, buf, target.align()).ok());
            block.is_some_and(|block| is_older(&block))
        }
    }
}

/// Reads head and index.
fn open(target: &Target, way: &mut Way, stop: Stop) -> Result<(Head, Vec<Kept>), BackupError> {
    let unusable = |why: String| BackupError::Unusable { name: target.name().to_owned(), why };
    let failed = |error: crate::way::ReadError| match stop() {
        true => BackupError::Stopped,
        false => target.fail(error.why),
    };
    let held = target.held_bytes()?;
    let first = target.align();
    if held < first as u64 {
        return Err(unusable("no backup found".to_owned()));
    }
    let block = way.read(0, Buf::new(first)?, first).map_err(failed)?;
    let head = Head::take(&block).map_err(unusable)?;
    if !head.complete {
        return Err(unusable("the backup is incomplete: it was stopped or failed".to_owned()));
    }
    let align = head.align as usize;
    let end = head.index_at.saturating_add(padded(head.index_bytes as usize, align) as u64);
    if end > held || align < first {
        return Err(unusable(format!(
            "the backup is truncated: the index ends at byte {end}, the backup at {held}"
        )));
    }
    let mut index: Vec<u8> = Vec::new();
    let no_memory = |error| unusable(format!("no memory for the index: {error}"));
    index.try_reserve_exact((end - head.index_at) as usize).map_err(no_memory)?;
    let mut buf = Buf::new(WINDOW_BYTES)?;
    let mut at = head.index_at;
    while at < end {
        let len = (end - at).min(WINDOW_BYTES as u64) as usize;
        buf = way.read(at, buf, len).map_err(failed)?;
        index.extend(&buf[..len]);
        at += len as u64;
    }
    index.truncate(head.index_bytes as usize);
    if checksum(&index) != head.index_crc {
        return Err(unusable("the index is damaged: checksum mismatch".to_owned()));
    }
    let entries = take_index(&index).map_err(unusable)?;
    Ok((head, entries))
}

/// Reads all frames, and accounts for each.
fn scan(
    target: &Target,
    way: &mut Way,
    head: &Head,
    entries: &[Kept],
    mut place: Option<&mut Restored>,
    tell: Tell,
    stop: Stop,
) -> Result<Account, BackupError> {
    let mut account = Account::of(entries);
    let mut unpacked = vec![0; head.transfer_bytes as usize];
    let align = head.align as usize;
    let window = WINDOW_BYTES.max(padded(FRAME_HEAD_BYTES + unpacked.len(), align));
    let mut buf = Buf::new(window)?;
    let mut at = u64::from(head.align);
    let meter = Meter::new(head.index_at - at, tell);
    while at < head.index_at {
        if stop() {
            return Err(BackupError::Stopped);
        }
        let len = (head.index_at - at).min(window as u64) as usize;
        buf = way.read(at, buf, len).map_err(|error| match stop() {
            true => BackupError::Stopped,
            false => target.fail(error.why),
        })?;
        let mut next = 0;
        while next < len {
            let here = at + next as u64;
            let frame = match FrameHead::take(&buf[next..len], here, head) {
                Ok(frame) if next + frame.whole_bytes(align) <= len => frame,
                // The rest comes with the next window, unless the backup is truncated.
                Ok(_) if next > 0 => break,
                Ok(_) => {
                    account.damage(here, "a frame overlaps the index");
                    next = len;
                    break;
                }
                Err(why) => {
                    account.damage(here, why);
                    next = next_head(&buf[..len], next + align, at, head);
                    continue;
                }
            };
            let data = &buf[next + FRAME_HEAD_BYTES..][..frame.stored_bytes as usize];
            let found = unpack(&frame, data, &mut unpacked, entries);
            match found.and_then(|bytes| account.claim(&frame, entries).map(|()| bytes)) {
                Ok(bytes) => {
                    if let Some(place) = &mut place {
                        place.write(entries, &frame, bytes)?;
                    }
                }
                Err(why) => account.damage(here, why),
            }
            next += frame.whole_bytes(align);
        }
        at += next as u64;
        meter.add(next as u64);
    }
    Ok(account)
}

/// The offset of the next frame in a window, at or after `from`.
fn next_head(window: &[u8], from: usize, at: u64, head: &Head) -> usize {
    let begins =
        |place: &usize| FrameHead::take(&window[*place..], at + *place as u64, head).is_ok();
    let places = (from..window.len()).step_by(head.align as usize);
    { places }.find(begins).unwrap_or(window.len())
}

/// The source's bytes in a frame.
fn unpack<'a>(
    frame: &FrameHead,
    data: &'a [u8],
    unpacked: &'a mut [u8],
    entries: &[Kept],
) -> Result<&'a [u8], String> {
    let entry = entries.get(frame.entry as usize).ok_or("a frame of an unknown file")?;
    let len = frame.source_bytes as usize;
    let bytes = if frame.compressed {
        match lz4_flex::block::decompress_into(data, &mut unpacked[..len]) {
            Ok(found) if found == len => &unpacked[..len],
            _ => return Err(format!("{} is damaged: decompression failed", entry.path.display())),
        }
    } else if data.len() == len {
        data
    } else {
        return Err(format!("{} is damaged: a frame has the wrong length", entry.path.display()));
    };
    if checksum(bytes) != frame.crc {
        let (path, offset) = (entry.path.display(), frame.offset);
        return Err(format!("{path} is damaged at {offset}: checksum mismatch"));
    }
    Ok(bytes)
}
