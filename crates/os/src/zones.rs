//! Zones of a block device: BLKREPORTZONE and BLKRESETZONE.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use block::{Zone, Zones};

use crate::device::pair;

/// `BLKREPORTZONE` of linux/blkzoned.h: `_IOWR(0x12, 130, struct blk_zone_report)` of 16 bytes.
const BLKREPORTZONE: libc::Ioctl = 0xC010_1282_u32 as libc::Ioctl;
/// `BLKRESETZONE`: `_IOW(0x12, 131, struct blk_zone_range)` of 16 bytes.
const BLKRESETZONE: libc::Ioctl = 0x4010_1283_u32 as libc::Ioctl;

/// Zones per call.
const ZONES_AT_ONCE: usize = 256;
/// 64-bit words of a report's header, and of each of its zones.
const HEAD_WORDS: usize = 2;
const ZONE_WORDS: usize = 8;
/// The kernel's unit.
const SECTOR_BYTES: u64 = 512;
/// `BLK_ZONE_REP_CAPACITY`: the report has capacities. Linux 5.9.
const KNOWS_CAPACITY: u64 = 1;

/// The zones of an open block device; `None` for a device without zones, and for anything else.
pub fn zones_of(file: &File) -> Option<Zones> {
    let about = file.metadata().ok()?;
    if !about.file_type().is_block_device() {
        return None;
    }
    let queue = format!("/sys/dev/block/{}/queue", pair(about.rdev()));
    let read = |name: &str| fs::read_to_string(format!("{queue}/{name}")).ok();
    if read("zoned").is_none_or(|text| text.trim() == "none") {
        return None;
    }
    let max_open = read("max_open_zones").and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let mut zones: Vec<Zone> = Vec::new();
    loop {
        let next = zones.last().map_or(0, |zone| zone.start + zone.bytes);
        let found = report(file, next).ok()?;
        if found.is_empty() {
            return Some(Zones { zones, max_open });
        }
        zones.extend(found);
    }
}

/// Reports zones from an offset on; none beyond the last one.
fn report(file: &File, from: u64) -> io::Result<Vec<Zone>> {
    let mut words = vec![0_u64; HEAD_WORDS + ZONES_AT_ONCE * ZONE_WORDS];
    (words[0], words[1]) = (from / SECTOR_BYTES, ZONES_AT_ONCE as u64);
    // SAFETY: the kernel fills as many zones as the head says that there is room for, which we own.
    let failed = unsafe { libc::ioctl(file.as_raw_fd(), BLKREPORTZONE, words.as_mut_ptr()) };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(read(&words))
}

/// Parses a report: the header is a sector, a 32-bit count and 32-bit flags.
fn read(words: &[u64]) -> Vec<Zone> {
    let bytes = words[1].to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (count, flags) = (half(0) as usize, u64::from(half(4)));
    let zone = |words: &[u64]| {
        let [start, length, pointer, kinds] = [0, 1, 2, 3].map(|index: usize| words[index]);
        // Type, condition, and two flags not used here.
        let [kind, condition, ..] = kinds.to_ne_bytes();
        let capacity = if flags & KNOWS_CAPACITY != 0 { words[4] } else { length };
        let sequential = kind != 1;
        let written = match condition {
            // Conventional zones have no write pointer, full ones no valid one.
            0x0 => 0,
            0xe => capacity,
            _ => pointer.saturating_sub(start).min(capacity),
        };
        Zone {
            start: start * SECTOR_BYTES,
            bytes: length * SECTOR_BYTES,
            capacity: capacity * SECTOR_BYTES,
            written: written * SECTOR_BYTES,
            sequential,
            open: matches!(condition, 0x2 | 0x3),
            usable: !matches!(condition, 0xd | 0xf),
        }
    };
    words[HEAD_WORDS..].chunks_exact(ZONE_WORDS).take(count).map(zone).collect()
}

/// Resets the write pointer of a zone: its data is gone.
///
/// # Errors
///
/// Errors of the device.
pub fn reset_zone(file: &File, start: u64, bytes: u64) -> io::Result<()> {
    let range = [start / SECTOR_BYTES, bytes / SECTOR_BYTES];
    // SAFETY: the kernel reads a structure of two words, which we own.
    match unsafe { libc::ioctl(file.as_raw_fd(), BLKRESETZONE, range.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let kinds =
            |kind: u8, condition: u8| u64::from_ne_bytes([kind, condition, 0, 0, 0, 0, 0, 0]);
        let head = |count: u32, flags: u32| {
            let [count, flags] = [count, flags].map(u32::to_ne_bytes);
            u64::from_ne_bytes([count, flags].concat().try_into().unwrap())
        };
        let mut words = vec![0, head(4, 1)];
        for (index, (kind, condition, written)) in
            [(1, 0, 0), (2, 1, 0), (2, 2, 8), (2, 0xe, 0)].into_iter().enumerate()
        {
            let start = index as u64 * 64;
            words.extend([start, 64, start + written, kinds(kind, condition), 48, 0, 0, 0]);
        }
        words.extend([0; 8]);
        let zones = read(&words);
        let written: Vec<u64> = zones.iter().map(|zone| zone.written / 512).collect();
        assert_eq!(written, [0, 0, 8, 48]);
        assert_eq!(zones[2].start, 128 * 512);
        assert_eq!((zones[2].bytes, zones[2].capacity), (64 * 512, 48 * 512));
        let sequential: Vec<bool> = zones.iter().map(|zone| zone.sequential).collect();
        assert_eq!(sequential, [false, true, true, true]);
        assert!(zones[2].open && !zones[3].open && zones.iter().all(|zone| zone.usable));
        // Before Linux 5.9 capacity equals length.
        words[1] = head(4, 0);
        assert_eq!(read(&words)[3].written, 64 * 512);
    }

    #[test]
    fn a_file_has_no_zones() {
        let file = File::open("/proc/self/exe").unwrap();
        assert_eq!(zones_of(&file), None);
        assert!(reset_zone(&file, 0, 4096).is_err());
    }
}
