//! Backing store of a volume's data: facts about files, devices and targets that need no I/O on the
//! volume.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use block::{Backing, Nanos, Rng};
use os::{Clock, Device, Extents, Stack};

use crate::sample::places;

/// Backing store of a volume's data.
#[derive(Debug)]
pub enum Ground {
    /// Discards writes.
    Nothing,
    /// Memory of this process.
    Memory,
    /// A file or device of this host.
    File(FileGround),
    /// A target, by its product name: vendor and product of INQUIRY, model of Identify.
    Target(String),
    /// Several volumes combined into one.
    Several(Several),
    /// Data on another host, or on several backing stores.
    Elsewhere,
}

/// Several volumes combined into one.
#[derive(Debug)]
pub struct Several {
    /// Each with its length in bytes.
    pub parts: Vec<(Ground, u64)>,
    /// Stripe size in bytes; `None` if each part has all the data.
    pub stripe_bytes: Option<u64>,
}

/// A single volume, or a part of one.
#[derive(Debug)]
pub struct Leaf {
    /// Backing store of the part.
    pub ground: Ground,
    /// Size of the part in bytes.
    pub bytes: u64,
    /// The used ranges: offset and length.
    pub ranges: Vec<(u64, u64)>,
    /// The part's share of the whole's reads and writes, 0 to 1, if offsets are uniform.
    pub shares: [f64; 2],
    /// The volume is a part of another volume.
    pub is_part: bool,
}

/// Further parts are not looked at: each is an open file.
const PARTS_MAX: usize = 256;

impl Ground {
    /// The leaves of a volume of `bytes` bytes, if these ranges of it are used.
    pub fn leaves(self, bytes: u64, ranges: Vec<(u64, u64)>) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        let whole = Leaf { ground: self, bytes, ranges, shares: [1.0; 2], is_part: false };
        whole.divide(&mut leaves);
        leaves
    }
}

impl Leaf {
    fn divide(self, into: &mut Vec<Leaf>) {
        let Ground::Several(several) = self.ground else { return into.push(self) };
        let Several { parts, stripe_bytes } = several;
        if into.len() + parts.len() > PARTS_MAX {
            return into.push(Leaf { ground: Ground::Elsewhere, ..self });
        }
        let (count, stripe) = (parts.len() as u64, stripe_bytes.unwrap_or(0));
        // Bytes of a part before an offset of the whole.
        let before = |index: u64, place: u64| {
            let (round, within) = (place / (stripe * count), place % (stripe * count));
            round * stripe + within.saturating_sub(index * stripe).min(stripe)
        };
        let each = (0..).zip(&parts).map(|(index, (_, length))| {
            let range = |(start, used): &(u64, u64)| {
                let end = start.saturating_add(*used);
                let (from, to) = match stripe_bytes {
                    Some(_) => (before(index, *start), before(index, end)),
                    None => (*start, end),
                };
                (from.min(*length), to.min(*length).saturating_sub(from.min(*length)))
            };
            let ranges = self.ranges.iter().map(range);
            ranges.filter(|(_, used)| *used > 0).collect::<Vec<_>>()
        });
        let each: Vec<Vec<(u64, u64)>> = each.collect();
        let used = |ranges: &[(u64, u64)]| ranges.iter().map(|(_, used)| *used).sum::<u64>() as f64;
        let all: f64 = each.iter().map(|ranges| used(ranges)).sum();
        for ((ground, bytes), ranges) in parts.into_iter().zip(each) {
            let part = used(&ranges) / all.max(1.0);
            let [reads, writes] = self.shares;
            let writes = if stripe_bytes.is_some() { writes * part } else { writes };
            let shares = [reads * part, writes];
            Leaf { ground, bytes, ranges, shares, is_part: true }.divide(into);
        }
    }
}

/// A file or device of this host that holds a volume.
#[derive(Debug)]
pub struct FileGround {
    /// Path of the file or device.
    pub path: PathBuf,
    /// Direct I/O was requested.
    pub asked_direct: bool,
    /// Direct I/O is used.
    pub direct: bool,
    /// The opened device, or the one with the file; `None` on tmpfs or a network file system.
    pub device: Option<Device>,
    /// All block devices below the file or device.
    pub stack: Box<Stack>,
    /// The device itself was opened, not a file on it.
    pub is_device: bool,
    /// I/Os are NVMe passthrough commands, which neither the device's nor the process's I/O
    /// statistics count.
    pub passthrough: bool,
    /// File system, such as `ext4`.
    pub file_system: Option<String>,
    file: File,
    /// Path to open for inspection.
    shown: PathBuf,
}

/// Sampled blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Number of blocks.
    pub blocks: u32,
    /// Blocks of zeroes only.
    pub zero: u32,
    /// Other blocks that are identical to another one, or repeat a few bytes throughout.
    pub alike: u32,
}

impl Looked {
    pub(crate) fn note(&mut self, block: &[u8], seen: &mut HashSet<Vec<u8>>) {
        self.blocks += 1;
        if block.iter().all(|byte| *byte == 0) {
            self.zero += 1;
            return;
        }
        let repeats = block[..block.len() - PERIOD] == block[PERIOD..];
        // The first of equal blocks does not count.
        self.alike += u32::from(repeats || !seen.insert(block.to_vec()));
    }
}

/// A pattern with a period of 1, 2, 4 … bytes also has this one.
const PERIOD: usize = 512;

/// Blocks sampled per volume, unless there are many volumes.
pub const SAMPLES: u32 = 64;
/// Bytes of a sample.
pub(crate) const SAMPLE_BYTES: usize = 4096;
/// Time limit for a slow disk.
const PATIENCE: Nanos = Nanos::from_millis(2_000);

impl FileGround {
    /// Backing store of the file at a path.
    pub(crate) fn open(path: PathBuf, asked_direct: bool, direct: bool) -> std::io::Result<Self> {
        let twin = os::block_twin(&path);
        let passthrough = twin.is_some();
        let shown = twin.unwrap_or_else(|| path.clone());
        let file = File::open(&shown)?;
        let kind = file.metadata()?.file_type();
        if kind.is_char_device() {
            return Err(std::io::ErrorKind::Unsupported.into());
        }
        let is_device = kind.is_block_device();
        let mut stack = Box::new(Stack::of(&file));
        stack.is_charged &= !passthrough;
        let device = stack.top.clone().filter(|_| !passthrough);
        let file_system = if is_device { None } else { os::file_system(&file) };
        Ok(FileGround {
            path,
            asked_direct,
            direct,
            device,
            stack,
            is_device,
            passthrough,
            file_system,
            file,
            shown,
        })
    }

    /// Identity of the file or device on this host, independent of its path: device and inode, or 0
    /// and the device number.
    pub fn identity(&self) -> Option<[u64; 2]> {
        let found = self.file.metadata().ok()?;
        Some(if self.is_device { [0, found.rdev()] } else { [found.dev(), found.ino()] })
    }

    /// Allocated extents of a range. A block device has no extent map.
    pub fn extents(&self, start: u64, length: u64) -> std::io::Result<Extents> {
        if self.is_device {
            return Err(std::io::Error::other("a block device has no extent map"));
        }
        Extents::of(&self.file, start, length)
    }

    /// Backing store of the file: as reported by a layer below, else inferred from the layers.
    pub fn backing(&self) -> Backing {
        match &self.stack {
            stack if stack.backing().is_some() => stack.backing().cloned().unwrap_or_default(),
            stack if stack.memory().is_some() => Backing::Memory,
            stack if stack.hidden().is_some() => Backing::Unknown,
            _ => Backing::Medium,
        }
    }

    /// Bytes of the file in the page cache; `None` before Linux 6.5.
    pub fn cached_bytes(&self) -> Option<u64> {
        os::cached_bytes(&self.file)
    }

    /// Samples up to `most` random blocks of a range with direct I/O, so that the samples cannot be
    /// prepared. A slow disk yields fewer.
    pub fn sample(&self, start: u64, length: u64, most: u32) -> std::io::Result<Looked> {
        let direct =
            std::fs::OpenOptions::new().read(true).custom_flags(os::O_DIRECT).open(&self.shown);
        let file = direct.or_else(|_| self.file.try_clone())?;
        // Direct reads need memory aligned to the device's block.
        let mut memory = vec![0_u8; 2 * SAMPLE_BYTES];
        let at = memory.as_ptr().align_offset(SAMPLE_BYTES);
        let block = &mut memory[at..at + SAMPLE_BYTES];
        let clock = Clock::get();
        let end = clock.now() + PATIENCE;
        let mut looked = Looked::default();
        let mut seen = HashSet::new();
        let mut rng = Rng::new(os::random(), 0);
        for place in places(start, length, most, &mut rng) {
            file.read_exact_at(block, place)?;
            looked.note(block, &mut seen);
            if clock.now() > end {
                break;
            }
        }
        Ok(looked)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn several(stripe_bytes: Option<u64>, lengths: &[u64]) -> Ground {
        let parts = lengths.iter().map(|bytes| (Ground::Memory, *bytes)).collect();
        Ground::Several(Several { parts, stripe_bytes })
    }

    fn used(ground: Ground, bytes: u64, range: (u64, u64)) -> Vec<Vec<(u64, u64)>> {
        ground.leaves(bytes, vec![range]).into_iter().map(|leaf| leaf.ranges).collect()
    }

    #[test]
    fn blocks_that_are_alike_are_counted() {
        let (mut looked, mut seen) = (Looked::default(), HashSet::new());
        let random = |seed: u64| {
            let mut rng = Rng::new(seed, 0);
            (0..SAMPLE_BYTES).map(|_| rng.below(256) as u8).collect::<Vec<_>>()
        };
        let pattern: Vec<u8> = [1, 2, 3, 4].repeat(SAMPLE_BYTES / 4);
        for block in [random(1), random(2), random(1), vec![0; SAMPLE_BYTES], pattern] {
            looked.note(&block, &mut seen);
        }
        assert_eq!(looked, Looked { blocks: 5, zero: 1, alike: 2 });
    }

    #[test]
    fn each_part_has_what_falls_on_it() {
        let striped = || several(Some(4), &[20, 20]);
        assert_eq!(used(striped(), 40, (0, 40)), [[(0, 20)], [(0, 20)]]);
        assert_eq!(used(striped(), 40, (6, 12)), [[(4, 6)], [(2, 6)]]);
        assert_eq!(used(striped(), 40, (8, 4)), [vec![(4, 4)], vec![]]);
        // Concatenated, the second shorter than a stripe.
        assert_eq!(used(several(Some(16), &[16, 10]), 32, (8, 24)), [[(8, 8)], [(0, 10)]]);
        assert_eq!(used(several(None, &[20, 24]), 20, (4, 8)), [[(4, 8)], [(4, 8)]]);
        let alone = Ground::Memory.leaves(20, vec![(4, 8)]);
        assert_eq!((alone.len(), alone[0].shares, alone[0].is_part), (1, [1.0; 2], false));
    }

    #[test]
    fn a_mirror_writes_all_to_each_and_parts_have_parts() {
        let shares = |ground: Ground| {
            let leaves = ground.leaves(32, vec![(0, 32)]);
            leaves.iter().map(|leaf| leaf.shares).collect::<Vec<_>>()
        };
        assert_eq!(shares(several(None, &[32, 32])), [[0.5, 1.0]; 2]);
        assert_eq!(shares(several(Some(4), &[16, 16])), [[0.5; 2]; 2]);
        let parts = vec![(several(None, &[16; 2]), 16), (Ground::Nothing, 16)];
        let nested = Ground::Several(Several { parts, stripe_bytes: Some(4) });
        assert_eq!(shares(nested), [[0.25, 0.5], [0.25, 0.5], [0.5, 0.5]]);
        let many = several(Some(4), &[16; PARTS_MAX + 1]).leaves(1, Vec::new());
        assert!(matches!(many[..], [Leaf { ground: Ground::Elsewhere, .. }]));
    }
}
