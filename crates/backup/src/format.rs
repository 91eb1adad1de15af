//! The format of a backup: a head, frames, and an index. Every part is aligned to [`ALIGN`]
//! bytes or more, and carries the backup's identity, a checksum and its own offset: these detect
//! remains of an older backup on the same volume and misdirected writes.
//!
//! ```text
//! | head | frame | frame | … | index |
//! ```
//!
//! The head is written first as "in flight" and last as "complete". Numbers are little-endian.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// Least alignment of all parts, in bytes; volumes with longer blocks have theirs.
pub const ALIGN: usize = 4096;
/// Bytes of a head in use.
const HEAD_BYTES: usize = 96;
/// Bytes of a frame's header.
pub const FRAME_HEAD_BYTES: usize = 64;
/// Longest extent of a source in a frame, in bytes.
pub const TRANSFER_MAX_BYTES: u32 = 16 << 20;
/// Most entries of an index: bounds memory if it is damaged.
pub const ENTRIES_MAX: u32 = 1 << 24;
/// Longest path, in bytes (`PATH_MAX` of Linux).
const PATH_MAX_BYTES: usize = 4096;
const MAGIC: &[u8; 16] = b"drumfire backup\n";
const FRAME_MAGIC: &[u8; 4] = b"DFBF";
const VERSION: u32 = 1;

/// CRC-32C.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}

/// `bytes` rounded up to a multiple of `align`.
pub fn padded(bytes: usize, align: usize) -> usize {
    bytes.next_multiple_of(align)
}

/// The first block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Random per backup.
    pub id: u64,
    /// The backup is complete.
    pub complete: bool,
    /// Alignment of all parts in bytes.
    pub align: u32,
    /// Longest extent of a source in a frame.
    pub transfer_bytes: u32,
    /// Frames.
    pub frames: u64,
    /// Bytes of the sources in them.
    pub source_bytes: u64,
    /// Offset of the index, and end of the frames.
    pub index_at: u64,
    /// Length of the index.
    pub index_bytes: u64,
    /// Checksum of the index.
    pub index_crc: u32,
}

impl Head {
    /// Encodes it into `block`, and zeroes the rest.
    pub fn put(&self, block: &mut [u8]) {
        block.fill(0);
        block[..16].copy_from_slice(MAGIC);
        put32(block, 16, VERSION);
        put32(block, 20, u32::from(self.complete));
        put64(block, 24, self.id);
        put32(block, 32, self.align);
        put32(block, 36, self.transfer_bytes);
        put64(block, 40, self.frames);
        put64(block, 48, self.source_bytes);
        put64(block, 56, self.index_at);
        put64(block, 64, self.index_bytes);
        put32(block, 72, self.index_crc);
        let crc = checksum(&block[..HEAD_BYTES - 4]);
        put32(block, HEAD_BYTES - 4, crc);
    }

    /// Decodes it.
    ///
    /// # Errors
    ///
    /// Why it is invalid: no head, another version or damage.
    pub fn take(block: &[u8]) -> Result<Head, String> {
        if block.len() < HEAD_BYTES || &block[..16] != MAGIC {
            return Err("no backup found".to_owned());
        }
        let version = get32(block, 16);
        if version != VERSION {
            return Err(format!("the backup has version {version}: this program reads {VERSION}"));
        }
        if checksum(&block[..HEAD_BYTES - 4]) != get32(block, HEAD_BYTES - 4) {
            return Err("the head is damaged: checksum mismatch".to_owned());
        }
        let head = Head {
            complete: get32(block, 20) == 1,
            id: get64(block, 24),
            align: get32(block, 32),
            transfer_bytes: get32(block, 36),
            frames: get64(block, 40),
            source_bytes: get64(block, 48),
            index_at: get64(block, 56),
            index_bytes: get64(block, 64),
            index_crc: get32(block, 72),
        };
        let sane = head.align.is_power_of_two()
            && (ALIGN as u32..=1 << 16).contains(&head.align)
            && (1..=TRANSFER_MAX_BYTES).contains(&head.transfer_bytes);
        if sane { Ok(head) } else { Err("the head is invalid".to_owned()) }
    }
}

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Identity of the backup.
    pub id: u64,
    /// Offset of the frame in the target.
    pub at: u64,
    /// Number of the entry in the index.
    pub entry: u32,
    /// Offset in the source.
    pub offset: u64,
    /// Bytes of the source.
    pub source_bytes: u32,
    /// Bytes after this header.
    pub stored_bytes: u32,
    /// The data are compressed.
    pub compressed: bool,
    /// Checksum of the source's bytes.
    pub crc: u32,
}

impl FrameHead {
    /// Encodes it into `frame`.
    pub fn put(&self, frame: &mut [u8]) {
        let head = &mut frame[..FRAME_HEAD_BYTES];
        head.fill(0);
        head[..4].copy_from_slice(FRAME_MAGIC);
        put32(head, 4, u32::from(self.compressed));
        put64(head, 8, self.id);
        put64(head, 16, self.at);
        put64(head, 24, self.offset);
        put32(head, 32, self.entry);
        put32(head, 36, self.source_bytes);
        put32(head, 40, self.stored_bytes);
        put32(head, 44, self.crc);
        let crc = checksum(&head[..FRAME_HEAD_BYTES - 4]);
        put32(head, FRAME_HEAD_BYTES - 4, crc);
    }

    /// Decodes the header of the frame at `at` of the backup of `head`.
    ///
    /// # Errors
    ///
    /// Why it is invalid: damaged, misplaced or of another backup.
    pub fn take(bytes: &[u8], at: u64, head: &Head) -> Result<FrameHead, String> {
        if bytes.len() < FRAME_HEAD_BYTES || &bytes[..4] != FRAME_MAGIC {
            return Err("no frame found".to_owned());
        }
        if checksum(&bytes[..FRAME_HEAD_BYTES - 4]) != get32(bytes, FRAME_HEAD_BYTES - 4) {
            return Err("the header of a frame is damaged".to_owned());
        }
        let found = FrameHead {
            compressed: get32(bytes, 4) == 1,
            id: get64(bytes, 8),
            at: get64(bytes, 16),
            offset: get64(bytes, 24),
            entry: get32(bytes, 32),
            source_bytes: get32(bytes, 36),
            stored_bytes: get32(bytes, 40),
            crc: get32(bytes, 44),
        };
        if found.id != head.id {
            return Err("a frame of another backup".to_owned());
        }
        if found.at != at {
            return Err(format!("a misplaced frame, written for offset {}", found.at));
        }
        if found.source_bytes > head.transfer_bytes || found.stored_bytes > head.transfer_bytes {
            return Err("a frame longer than a transfer".to_owned());
        }
        Ok(found)
    }

    /// Bytes of the frame, with header and padding.
    pub fn whole_bytes(&self, align: usize) -> usize {
        padded(FRAME_HEAD_BYTES + self.stored_bytes as usize, align)
    }
}

/// Kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder, which may be empty.
    Folder,
    /// A symbolic link, and its target.
    Link(PathBuf),
    /// A volume, kept as a file.
    Volume,
    /// It was listed, then gone or unreadable: not backed up.
    Absent,
}

/// A file, folder or link in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Kind.
    pub kind: Kind,
    /// Relative to the folder of a restore.
    pub path: PathBuf,
    /// Permissions.
    pub mode: u32,
    /// Bytes backed up.
    pub bytes: u64,
}

/// Encodes the index.
pub fn put_index(entries: &[Kept]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((entries.len() as u32).to_le_bytes());
    for entry in entries {
        let (kind, link) = match &entry.kind {
            Kind::File => (0_u8, None),
            Kind::Folder => (1, None),
            Kind::Link(to) => (2, Some(to)),
            Kind::Volume => (3, None),
            Kind::Absent => (4, None),
        };
        out.push(kind);
        out.extend(entry.mode.to_le_bytes());
        out.extend(entry.bytes.to_le_bytes());
        let link = link.map_or(&b""[..], |link| link.as_os_str().as_bytes());
        for text in [entry.path.as_os_str().as_bytes(), link] {
            out.extend((text.len() as u16).to_le_bytes());
            out.extend(text);
        }
    }
    out
}

/// Decodes the index.
///
/// # Errors
///
/// Why it is invalid: truncated, or a path outside the folder of a restore.
pub fn take_index(bytes: &[u8]) -> Result<Vec<Kept>, String> {
    let mut rest = bytes;
    let mut next = |len: usize| -> Result<&[u8], String> {
        let (taken, left) = rest.split_at_checked(len).ok_or("the index is truncated")?;
        rest = left;
        Ok(taken)
    };
    let count = get32(next(4)?, 0);
    if count > ENTRIES_MAX {
        return Err("the index is invalid".to_owned());
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let fixed = next(13)?;
        let (kind, mode, kept) = (fixed[0], get32(fixed, 1), get64(fixed, 5));
        let mut text = || -> Result<PathBuf, String> {
            let len = next(2)?;
            let len = usize::from(u16::from_le_bytes([len[0], len[1]]));
            if len > PATH_MAX_BYTES {
                return Err("the index has a path that is too long".to_owned());
            }
            Ok(PathBuf::from(OsString::from_vec(next(len)?.to_vec())))
        };
        let (path, link) = (text()?, text()?);
        if !stays_below(&path) {
            return Err(format!("the index has a path outside its folder: {}", path.display()));
        }
        let kind = match kind {
            0 => Kind::File,
            1 => Kind::Folder,
            2 => Kind::Link(link),
            3 => Kind::Volume,
            4 => Kind::Absent,
            _ => return Err("the index has an entry of an unknown kind".to_owned()),
        };
        entries.push(Kept { kind, path, mode, bytes: kept });
    }
    Ok(entries)
}

/// Whether a path has only plain components.
fn stays_below(path: &Path) -> bool {
    let mut parts = path.components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn put32(to: &mut [u8], at: usize, value: u32) {
    to[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put64(to: &mut [u8], at: usize, value: u64) {
    to[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get32(from: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(from[at..at + 4].try_into().expect("four bytes"))
}

fn get64(from: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(from[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod test {
    use super::*;

    fn head() -> Head {
        Head {
            id: 7,
            complete: true,
            align: 4096,
            transfer_bytes: 1 << 20,
            frames: 3,
            source_bytes: 5,
            index_at: 8192,
            index_bytes: 17,
            index_crc: 9,
        }
    }

    #[test]
    fn a_head_comes_back_and_each_flipped_bit_is_told() {
        let mut block = vec![1; ALIGN];
        head().put(&mut block);
        assert_eq!(Head::take(&block), Ok(head()));
        for bit in 0..HEAD_BYTES * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::take(&block).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(Head::take(&[0; ALIGN]).unwrap_err().contains("no backup"));
    }

    #[test]
    fn a_frame_of_another_place_or_backup_is_told() {
        let frame = FrameHead {
            id: 7,
            at: 4096,
            entry: 2,
            offset: 1 << 40,
            source_bytes: 100,
            stored_bytes: 90,
            compressed: true,
            crc: 3,
        };
        let mut bytes = vec![0; 4096];
        frame.put(&mut bytes);
        assert_eq!(FrameHead::take(&bytes, 4096, &head()), Ok(frame));
        assert!(
            FrameHead::take(&bytes, 8192, &head()).unwrap_err().contains("written for offset 4096")
        );
        let other = Head { id: 8, ..head() };
        assert!(FrameHead::take(&bytes, 4096, &other).unwrap_err().contains("another backup"));
        let short = Head { transfer_bytes: 64, ..head() };
        assert!(FrameHead::take(&bytes, 4096, &short).unwrap_err().contains("longer"));
        for bit in 0..FRAME_HEAD_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(FrameHead::take(&bytes, 4096, &head()).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(frame.whole_bytes(4096), 4096);
        assert_eq!(FrameHead { stored_bytes: 4096, ..frame }.whole_bytes(4096), 8192);
    }

    fn kept(path: &str, kind: Kind) -> Kept {
        Kept { kind, path: path.into(), mode: 0o640, bytes: 12 }
    }

    #[test]
    fn an_index_comes_back_and_a_cut_one_does_not() {
        let all = [
            kept("data/base/1", Kind::File),
            kept("data/pg_notify", Kind::Folder),
            kept("data/pg_tblspc/1", Kind::Link("/elsewhere".into())),
            kept("volume-1", Kind::Volume),
        ];
        let bytes = put_index(&all);
        assert_eq!(take_index(&bytes).unwrap(), all);
        for cut in 0..bytes.len() {
            assert!(take_index(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(take_index(&[0xff; 64]).is_err());
    }

    #[test]
    fn no_path_leads_out_of_a_restore() {
        for path in ["../x", "/etc/passwd", "a/../../x", ""] {
            assert!(take_index(&put_index(&[kept(path, Kind::File)])).is_err(), "{path}");
        }
    }
}
