//! Extents of a file. Reads of holes and unwritten extents return zeroes without any device I/O:
//! they measure nothing.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// The composition of a file's range, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    /// Written bytes, as reported by the file system.
    pub written: u64,
    /// Preallocated and never written.
    pub unwritten: u64,
    /// Holes.
    pub holes: u64,
    /// Compressed, among the written.
    pub compressed: u64,
    /// Sharing blocks with another part of the range, among the written.
    pub repeated: u64,
    /// The file system distinguishes unwritten extents; otherwise they count as written.
    pub exact: bool,
}

impl Extents {
    /// Bytes that reads return as zeroes without I/O.
    pub fn missing(&self) -> u64 {
        self.unwritten + self.holes
    }
}

/// Extents per call.
const BATCH: usize = 256;
/// Maximum number of extents: more add no information and take seconds.
const MOST: usize = 1 << 20;

/// `FS_IOC_FIEMAP` of linux/fs.h: `_IOWR('f', 11, struct fiemap)`.
const FIEMAP: libc::c_ulong = 0xc020_660b;
/// Flush the file first.
const SYNC: u32 = 1;
/// The last extent of the file.
const LAST: u32 = 1;
/// Not stored as is: compressed, or encrypted, as the next flag shows.
const ENCODED: u32 = 0x8;
/// Encrypted.
const ENCRYPTED: u32 = 0x80;
/// Preallocated and never written.
const UNWRITTEN: u32 = 0x800;
/// Blocks shared with other files, or other parts of this one.
const SHARED: u32 = 0x2000;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

/// `struct fiemap` of linux/fiemap.h with its array.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; BATCH],
}

impl Extents {
    /// Extents of `length` bytes of a file from `start` on. Flushes the file first. Without FIEMAP,
    /// SEEK_DATA and SEEK_HOLE are used.
    pub fn of(file: &File, start: u64, length: u64) -> io::Result<Extents> {
        match Extents::by_map(file, start, length) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY)) => {
                Extents::by_seek(file, start, length)
            }
            other => other,
        }
    }

    fn by_map(file: &File, start: u64, length: u64) -> io::Result<Extents> {
        let end = start.saturating_add(length);
        let mut found = Extents { exact: true, ..Extents::default() };
        let mut at = start;
        let mut shared = Vec::new();
        let mut map = Box::new(Map {
            start: 0,
            length: 0,
            flags: SYNC,
            mapped: 0,
            count: BATCH as u32,
            reserved: 0,
            extents: [Extent::default(); BATCH],
        });
        for _ in 0..MOST / BATCH {
            if at >= end {
                break;
            }
            (map.start, map.length, map.mapped) = (at, end - at, 0);
            // SAFETY: the kernel reads the head and fills at most `count` extents, which is the
            // length of the array after the head; we own both for the whole call.
            let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut *map) };
            if result != 0 {
                return Err(io::Error::last_os_error());
            }
            let extents = &map.extents[..(map.mapped as usize).min(BATCH)];
            for extent in extents {
                let before = at;
                at = found.add(at, extent.logical, extent.length, extent.flags, end);
                let skipped = before.saturating_sub(extent.logical);
                let length = at.saturating_sub(before.max(extent.logical));
                if extent.flags & (SHARED | ENCODED | UNWRITTEN) == SHARED {
                    shared.push((extent.physical.saturating_add(skipped), length));
                }
            }
            if extents.last().is_none_or(|extent| extent.flags & LAST != 0) {
                found.holes += end.saturating_sub(at);
                at = end;
            }
        }
        if at < end {
            return Err(io::Error::other("more than 1,000,000 extents"));
        }
        found.repeated = repeated(shared);
        Ok(found)
    }

    /// Adds an extent, and the hole between `at` and it; returns its end.
    fn add(&mut self, at: u64, logical: u64, length: u64, flags: u32, end: u64) -> u64 {
        let first = logical.clamp(at, end);
        let last = logical.saturating_add(length).clamp(first, end);
        self.holes += first - at;
        let kind = if flags & UNWRITTEN != 0 { &mut self.unwritten } else { &mut self.written };
        *kind += last - first;
        if flags & (UNWRITTEN | ENCODED | ENCRYPTED) == ENCODED {
            self.compressed += last - first;
        }
        last
    }

    fn by_seek(file: &File, start: u64, length: u64) -> io::Result<Extents> {
        let end = start.saturating_add(length);
        let mut found = Extents::default();
        let mut at = start;
        for _ in 0..MOST {
            if at >= end {
                return Ok(found);
            }
            let data = next_data(file, at..end)?;
            found.holes += data.start - at;
            found.written += data.end - data.start;
            at = data.end;
        }
        Err(io::Error::other("more than 1,000,000 extents"))
    }
}

/// First part of `range` that is no hole of the file, empty at its end if there is none. A file
/// system that does not report holes has none.
pub fn next_data(file: &File, range: Range<u64>) -> io::Result<Range<u64>> {
    let end = range.end;
    let start = match seek(file, range.start, libc::SEEK_DATA) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => return Ok(range),
        found => found?.unwrap_or(end).clamp(range.start, end),
    };
    if start == end {
        return Ok(end..end);
    }
    let hole = seek(file, start, libc::SEEK_HOLE)?.unwrap_or(end).clamp(start, end);
    Ok(start..hole)
}

/// Bytes of extents that overlap earlier ones.
fn repeated(mut pieces: Vec<(u64, u64)>) -> u64 {
    pieces.sort_unstable();
    let (mut sum, mut end) = (0, 0_u64);
    for (place, length) in pieces {
        let after = place.saturating_add(length);
        sum += end.min(after).saturating_sub(place);
        end = end.max(after);
    }
    sum
}

/// The next data or hole; `None` if there is none up to the end of the file.
fn seek(file: &File, from: u64, kind: libc::c_int) -> io::Result<Option<u64>> {
    // SAFETY: moves the offset of a file that is open as long as we borrow it.
    let at = unsafe { libc::lseek(file.as_raw_fd(), from as libc::off_t, kind) };
    if at >= 0 {
        return Ok(Some(at as u64));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENXIO) { Ok(None) } else { Err(error) }
}

/// Bytes of a file in the page cache; `None` before Linux 6.5.
pub fn cached_bytes(file: &File) -> Option<u64> {
    /// Number of the system call, identical on every architecture.
    const SYS_CACHESTAT: libc::c_long = 451;
    // `struct cachestat_range` (offset, length; 0 is to the end) and `struct cachestat` (pages in
    // the cache, dirty, in writeback, evicted, recently evicted) of linux/mman.h.
    let range = [0_u64; 2];
    let mut found = [0_u64; 5];
    // SAFETY: the kernel reads the range and fills the counters, which we own for the whole call.
    let result = unsafe {
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), found.as_mut_ptr(), 0)
    };
    (result == 0).then(|| found[0] * page_bytes())
}

pub(crate) fn page_bytes() -> u64 {
    // SAFETY: asks for a constant of the system.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn adds_up_what_extents_say() {
        let mut found = Extents { exact: true, ..Extents::default() };
        // A hole, data, an unwritten extent, and an extent that continues beyond the range.
        let mut at = found.add(100, 0, 50, 0, 1000);
        assert_eq!(at, 100);
        at = found.add(at, 200, 300, 0, 1000);
        at = found.add(at, 500, 100, UNWRITTEN, 1000);
        at = found.add(at, 700, u64::MAX, 0, 1000);
        assert_eq!(at, 1000);
        assert_eq!((found.written, found.unwritten, found.holes), (600, 100, 200));
        assert_eq!((found.missing(), found.compressed), (300, 0));
        at = found.add(at, 1000, 100, ENCODED, 2000);
        found.add(at, 1100, 50, ENCODED | ENCRYPTED, 2000);
        assert_eq!((found.written, found.compressed), (750, 100));
    }

    #[test]
    fn data_between_holes_are_found_one_after_the_other() {
        use std::os::unix::fs::FileExt;
        let path = std::env::temp_dir().join(format!("drumfire-holes-{:x}", crate::random()));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(&[7; 4096], 1 << 20).unwrap();
        file.write_all_at(&[7; 4096], 4 << 20).unwrap();
        let next = |start: u64| next_data(&file, start..8 << 20).unwrap();
        let first = next(0);
        // A file system that does not report holes has none.
        let shown = first != (0..8 << 20);
        if shown {
            assert_eq!(first, 1 << 20..(1 << 20) + 4096);
            assert_eq!(next(first.end), 4 << 20..(4 << 20) + 4096);
            assert_eq!(next((4 << 20) + 4096), 8 << 20..8 << 20);
            assert_eq!(next_data(&file, 0..4096).unwrap(), 4096..4096);
        }
        assert_eq!(next_data(&file, 9..9).unwrap(), 9..9);
    }

    #[test]
    fn what_has_the_same_place_is_repeated() {
        // One extent three times, one that overlaps by half, one that is separate.
        assert_eq!(repeated(vec![(0, 100), (0, 100), (50, 100), (0, 100), (500, 9)]), 250);
        assert_eq!(repeated(vec![(100, 100), (0, 100)]), 0);
        assert_eq!(repeated(Vec::new()), 0);
    }
}
