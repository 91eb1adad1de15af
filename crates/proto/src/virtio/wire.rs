//! Words of the block device: features, configuration, request headers.

use block::Geometry;

/// A sector, the unit of offsets whatever the size of a block.
pub const SECTOR_BYTES: u64 = 512;

/// `VIRTIO_F_INDIRECT_DESC`.
pub const F_INDIRECT: u64 = 1 << 28;
/// `VIRTIO_F_EVENT_IDX`.
pub const F_EVENT_IDX: u64 = 1 << 29;
/// `VIRTIO_F_VERSION_1`.
pub const F_VERSION_1: u64 = 1 << 32;
/// `VIRTIO_BLK_F_SEG_MAX`.
const F_SEG_MAX: u64 = 1 << 2;
/// `VIRTIO_BLK_F_RO`.
const F_RO: u64 = 1 << 5;
/// `VIRTIO_BLK_F_BLK_SIZE`.
const F_BLK_SIZE: u64 = 1 << 6;
/// `VIRTIO_BLK_F_FLUSH`.
const F_FLUSH: u64 = 1 << 9;
/// `VIRTIO_BLK_F_MQ`.
const F_MQ: u64 = 1 << 12;
/// `VIRTIO_BLK_F_DISCARD`.
const F_DISCARD: u64 = 1 << 13;
/// `VIRTIO_BLK_F_WRITE_ZEROES`.
const F_WRITE_ZEROES: u64 = 1 << 14;

/// Request types.
pub(super) const IN: u32 = 0;
pub(super) const OUT: u32 = 1;
pub(super) const FLUSH: u32 = 4;
pub(super) const GET_ID: u32 = 8;
pub(super) const DISCARD: u32 = 11;
pub(super) const WRITE_ZEROES: u32 = 13;

/// Status bytes.
pub(super) const OK: u8 = 0;
pub(super) const IOERR: u8 = 1;
pub(super) const UNSUPP: u8 = 2;

/// Length of a request's header.
pub(super) const HEADER_BYTES: usize = 16;
/// Length of a segment of a discard or write zeroes.
pub(super) const RANGE_BYTES: usize = 16;
/// Length of a serial number.
pub(super) const ID_BYTES: usize = 20;
/// Maximum number of data buffers of a request: with header and status they fill a queue of 128.
const SEGMENTS_MOST: u32 = 126;
/// Maximum length of a discard or write zeroes in sectors: 16 MiB, some milliseconds in memory.
pub(super) const RANGE_SECTORS_MOST: u32 = 32 << 10;
/// `VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP`.
pub(super) const UNMAP: u32 = 1;

/// Negotiated features of a block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// Features of a device for a volume.
    pub fn offered(geometry: &Geometry) -> Features {
        let mut bits = F_VERSION_1 | F_EVENT_IDX | F_INDIRECT | F_SEG_MAX | F_BLK_SIZE | F_MQ;
        bits |= F_FLUSH;
        bits |= if geometry.read_only { F_RO } else { F_DISCARD | F_WRITE_ZEROES };
        Features(bits)
    }

    /// The part of a device's features that our driver uses.
    pub fn used(offered: u64) -> Features {
        let known = F_VERSION_1 | F_EVENT_IDX | F_INDIRECT | F_SEG_MAX | F_BLK_SIZE | F_MQ;
        Features(offered & (known | F_FLUSH | F_RO | F_DISCARD | F_WRITE_ZEROES))
    }

    /// Whether this bit is set.
    #[inline]
    pub fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// Whether the driver flushes; otherwise each write is durable when it completes.
    pub fn flushes(self) -> bool {
        self.has(F_FLUSH)
    }

    /// Whether the device cannot be written.
    pub fn read_only(self) -> bool {
        self.has(F_RO)
    }

    /// Whether the device discards.
    pub fn discards(self) -> bool {
        self.has(F_DISCARD)
    }

    /// Whether the device writes zeroes.
    pub fn writes_zeroes(self) -> bool {
        self.has(F_WRITE_ZEROES)
    }
}

/// The configuration space of a block device, as far as it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Capacity in sectors.
    pub sectors: u64,
    /// Maximum number of data buffers of a request.
    pub segments_most: u32,
    /// Size of a block in bytes.
    pub block_bytes: u32,
    /// Number of queues.
    pub queues: u16,
    /// Maximum sectors of a discard.
    pub discard_sectors_most: u32,
    /// Alignment of a discard in sectors.
    pub discard_alignment: u32,
    /// Maximum sectors of a write zeroes.
    pub zeroes_sectors_most: u32,
    /// Whether write zeroes may deallocate.
    pub zeroes_unmap: bool,
}

impl Config {
    /// Length in bytes.
    pub const BYTES: usize = 60;

    /// The configuration of a volume's device.
    pub fn of(geometry: &Geometry, queues: u16) -> Config {
        let block_bytes = geometry.block_bytes.max(SECTOR_BYTES as u32);
        let alignment = block_bytes / SECTOR_BYTES as u32;
        Config {
            sectors: geometry.bytes() / SECTOR_BYTES,
            segments_most: SEGMENTS_MOST,
            block_bytes,
            queues,
            discard_sectors_most: RANGE_SECTORS_MOST,
            discard_alignment: alignment,
            zeroes_sectors_most: RANGE_SECTORS_MOST,
            zeroes_unmap: geometry.trim_zeroes,
        }
    }

    /// The bytes of the configuration space.
    //= VIRTIO 1.2 §5.2.4: struct virtio_blk_config.
    pub fn to_bytes(self) -> [u8; Config::BYTES] {
        let mut bytes = [0; Config::BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &self.sectors.to_le_bytes());
        put(12, &self.segments_most.to_le_bytes());
        put(20, &self.block_bytes.to_le_bytes());
        put(32, &[1]);
        put(34, &self.queues.to_le_bytes());
        put(36, &self.discard_sectors_most.to_le_bytes());
        put(40, &1_u32.to_le_bytes());
        put(44, &self.discard_alignment.to_le_bytes());
        put(48, &self.zeroes_sectors_most.to_le_bytes());
        put(52, &1_u32.to_le_bytes());
        put(56, &[self.zeroes_unmap.into()]);
        bytes
    }

    /// Reads a configuration space; fields beyond the end of `bytes` are zero.
    pub fn parse(bytes: &[u8]) -> Config {
        let mut all = [0; Config::BYTES];
        let len = bytes.len().min(Config::BYTES);
        all[..len].copy_from_slice(&bytes[..len]);
        let word = |at: usize| u32::from_le_bytes([all[at], all[at + 1], all[at + 2], all[at + 3]]);
        Config {
            sectors: u64::from(word(0)) | u64::from(word(4)) << 32,
            segments_most: word(12),
            block_bytes: word(20),
            queues: u16::from_le_bytes([all[34], all[35]]),
            discard_sectors_most: word(36),
            discard_alignment: word(44),
            zeroes_sectors_most: word(48),
            zeroes_unmap: all[56] & 1 == 1,
        }
    }

    /// The geometry of a device with these features; `None` if it makes no volume: no blocks, or
    /// blocks of another size than a power of two from 512 to 65536 bytes.
    pub fn geometry(&self, features: Features) -> Option<Geometry> {
        let given = if features.has(F_BLK_SIZE) { self.block_bytes } else { 512 };
        let fits = given.is_power_of_two() && (512..=65536).contains(&given);
        let bytes = self.sectors.checked_mul(SECTOR_BYTES)?;
        if !fits || bytes < u64::from(given) || bytes > i64::MAX as u64 {
            return None;
        }
        Some(Geometry {
            read_only: features.read_only(),
            volatile: features.flushes(),
            trim_zeroes: false,
            ..Geometry::new(bytes, given)
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_configuration_is_read_as_it_was_written() {
        let geometry = Geometry::new(3 << 20, 4096);
        let config = Config::of(&geometry, 4);
        let bytes = config.to_bytes();
        assert_eq!(bytes[..16], [0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 126, 0, 0, 0]);
        assert_eq!(bytes[20..36], [0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 4, 0]);
        assert_eq!(Config::parse(&bytes), config);
        assert_eq!(Config::parse(&bytes[..8]).sectors, 6144);
        let back = config.geometry(Features::offered(&geometry)).unwrap();
        assert_eq!((back.bytes(), back.block_bytes, back.read_only), (3 << 20, 4096, false));
    }

    #[test]
    fn configurations_that_make_no_volume_are_refused() {
        let features = Features(F_BLK_SIZE);
        let good = Config { sectors: 8, block_bytes: 512, ..Config::default() };
        assert!(good.geometry(features).is_some());
        for bad in [
            Config { sectors: 0, ..good },
            Config { sectors: u64::MAX, ..good },
            Config { block_bytes: 0, ..good },
            Config { block_bytes: 513, ..good },
            Config { block_bytes: 1 << 17, ..good },
            Config { sectors: 7, block_bytes: 4096, ..good },
        ] {
            assert!(bad.geometry(features).is_none(), "{bad:?}");
        }
    }
}
