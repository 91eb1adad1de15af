//! The format of a backup: a head, frames, and an [`index`]. Every part is aligned to [`ALIGN`]
//! bytes or more, and carries the backup's identity, a checksum and its own offset: these detect
//! remains of an older backup on the same volume and misdirected writes.
//!
//! ```text
//! | head | frame | frame | … | index |
//! ```
//!
//! The head is written as "in flight" before the first frame and as "complete" last. Frames are in
//! the order in which they were read and compressed. Numbers are little-endian, checksums are
//! CRC-32C, and compressed data are one block of LZ4, without LZ4's own frame.
//!
//! | at | bytes | of the head |
//! |---|---|---|
//! | 0 | 16 | `drumfire backup` and a line feed |
//! | 16 | 4 | version |
//! | 20 | 4 | 1 if complete |
//! | 24 | 8 | identity |
//! | 32 | 4 | alignment |
//! | 36 | 4 | longest extent of a source in a frame |
//! | 40, 48 | 8 each | offset and length of the index |
//! | 56 | 4 | checksum of the index |
//! | 60 | 4 | checksum of the 60 bytes before |
//!
//! | at | bytes | of a frame |
//! |---|---|---|
//! | 0 | 4 | `DFBF` |
//! | 4 | 4 | 1 if compressed |
//! | 8 | 8 | identity of the backup |
//! | 16 | 8 | offset of this frame |
//! | 24 | 8 | offset in the source |
//! | 32 | 4 | number of the entry in the index |
//! | 36, 40 | 4 each | bytes of the source, and stored ones |
//! | 44 | 4 | checksum of the source's bytes |
//! | 60 | 4 | checksum of the 60 bytes before |
//! | 64 | | the stored bytes, padded to the alignment |

pub mod index;

use crc_fast::CrcAlgorithm::Crc32Iscsi;

/// Minimum alignment of all parts, in bytes; volumes with longer blocks have theirs.
pub const ALIGN: usize = 4096;
/// Bytes of a head in use.
const HEAD_BYTES: usize = 64;
/// Bytes of a frame's header.
pub const FRAME_HEAD_BYTES: usize = 64;
/// Longest extent of a source in a frame, in bytes.
pub const TRANSFER_MAX_BYTES: u32 = 16 << 20;
/// Maximum entries of an index: bounds memory if the index is damaged.
pub const ENTRIES_MAX: u32 = 1 << 24;
/// Longest index in bytes.
pub const INDEX_MAX_BYTES: u64 = 1 << 30;
const MAGIC: &[u8; 16] = b"drumfire backup\n";
const FRAME_MAGIC: &[u8; 4] = b"DFBF";
/// Version of the format. Version 1 had neither fates nor gaps, so it does not record whether a
/// file was complete.
const VERSION: u32 = 2;

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
    /// Offset of the index, and end of the frames.
    pub index_at: u64,
    /// Length of the index.
    pub index_bytes: u64,
    /// Checksum of the index.
    pub index_crc: u32,
}

impl Head {
    /// Encodes the head into `block`, and zeroes the rest.
    pub fn put(&self, block: &mut [u8]) {
        block.fill(0);
        block[..16].copy_from_slice(MAGIC);
        put32(block, 16, VERSION);
        put32(block, 20, u32::from(self.complete));
        put64(block, 24, self.id);
        put32(block, 32, self.align);
        put32(block, 36, self.transfer_bytes);
        put64(block, 40, self.index_at);
        put64(block, 48, self.index_bytes);
        put32(block, 56, self.index_crc);
        let crc = checksum(&block[..HEAD_BYTES - 4]);
        put32(block, HEAD_BYTES - 4, crc);
    }

    /// Decodes a head.
    ///
    /// # Errors
    ///
    /// The reason why the head is invalid: no head, another version or damage.
    pub fn take(block: &[u8]) -> Result<Head, String> {
        if block.len() < HEAD_BYTES || &block[..16] != MAGIC {
            return Err("no backup found".to_owned());
        }
        let version = get32(block, 16);
        if version != VERSION {
            return Err(format!(
                "the backup has format version {version}, and this program reads {VERSION}: \
                restore it with the release of drumfire that wrote it, and back up again"
            ));
        }
        if checksum(&block[..HEAD_BYTES - 4]) != get32(block, HEAD_BYTES - 4) {
            return Err("the header is damaged: checksum mismatch".to_owned());
        }
        let head = Head {
            complete: get32(block, 20) == 1,
            id: get64(block, 24),
            align: get32(block, 32),
            transfer_bytes: get32(block, 36),
            index_at: get64(block, 40),
            index_bytes: get64(block, 48),
            index_crc: get32(block, 56),
        };
        let sane = head.align.is_power_of_two()
            && (ALIGN as u32..=1 << 16).contains(&head.align)
            && (1..=TRANSFER_MAX_BYTES).contains(&head.transfer_bytes)
            && head.index_bytes <= INDEX_MAX_BYTES
            && (!head.complete || head.index_at >= u64::from(head.align))
            && head.index_at.is_multiple_of(u64::from(head.align));
        if sane { Ok(head) } else { Err("the header is invalid".to_owned()) }
    }
}

/// Whether this is the head of a complete backup that an older version wrote.
pub(crate) fn is_older(block: &[u8]) -> bool {
    let is_one = block.len() >= HEAD_BYTES && &block[..16] == MAGIC;
    is_one && get32(block, 16) < VERSION && get32(block, 20) == 1
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
    /// Encodes the header into `frame`.
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
    /// The reason why the frame is invalid: damaged, at a wrong offset or of another backup.
    pub fn take(bytes: &[u8], at: u64, head: &Head) -> Result<FrameHead, String> {
        if bytes.len() < FRAME_HEAD_BYTES || &bytes[..4] != FRAME_MAGIC {
            return Err("frame not found".to_owned());
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
            return Err("a frame larger than a transfer".to_owned());
        }
        if found.source_bytes == 0 {
            return Err("a frame without data".to_owned());
        }
        Ok(found)
    }

    /// Bytes of the frame, with header and padding.
    pub fn whole_bytes(&self, align: usize) -> usize {
        padded(FRAME_HEAD_BYTES + self.stored_bytes as usize, align)
    }
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
    fn an_older_backup_is_refused_with_a_remedy() {
        let mut block = vec![0; ALIGN];
        head().put(&mut block);
        put32(&mut block, 16, 1);
        let why = Head::take(&block).unwrap_err();
        assert!(why.contains("has format version 1") && why.contains("restore it with"), "{why}");
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
        assert!(
            FrameHead::take(&bytes, 4096, &short).unwrap_err().contains("larger than a transfer")
        );
        for bit in 0..FRAME_HEAD_BYTES * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(FrameHead::take(&bytes, 4096, &head()).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(frame.whole_bytes(4096), 4096);
        assert_eq!(FrameHead { stored_bytes: 4096, ..frame }.whole_bytes(4096), 8192);
    }
}
