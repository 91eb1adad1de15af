//! What a volume's data rest on: what can be known of it without driving it, and again while it is
//! driven.

use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::PathBuf;

use block::{Nanos, Rng};
use os::{Clock, Device, Extents, Stack};

/// What a volume's data rest on.
#[derive(Debug)]
pub enum Ground {
    /// Nothing is stored.
    Nothing,
    /// Memory of this process.
    Memory,
    /// A file or device of this host.
    File(FileGround),
    /// A target, which calls the volume so: vendor and product of INQUIRY, model of Identify.
    Target(String),
    /// Another host, or several places.
    Elsewhere,
}

/// A file or device of this host that a volume is kept in.
#[derive(Debug)]
pub struct FileGround {
    /// Its path.
    pub path: PathBuf,
    /// It was to go around the page cache.
    pub asked_direct: bool,
    /// It does.
    pub direct: bool,
    /// The device that it is or lies on; `None` for file systems in memory or elsewhere.
    pub device: Option<Device>,
    /// All that lies below it.
    pub stack: Box<Stack>,
    /// It is that device.
    pub is_device: bool,
    /// The file system that it lies on, as `ext4`.
    pub file_system: Option<String>,
    file: File,
}

/// Blocks of a volume that are looked at, unless there are many volumes.
pub const SAMPLES: u32 = 64;
/// Bytes of each.
const SAMPLE_BYTES: usize = 4096;
/// A slow disk is asked no longer than this.
const PATIENCE: Nanos = Nanos::from_millis(2_000);

impl FileGround {
    /// Of the file at a path.
    pub(crate) fn open(path: PathBuf, asked_direct: bool, direct: bool) -> std::io::Result<Self> {
        let file = File::open(&path)?;
        let is_device = file.metadata()?.file_type().is_block_device();
        let stack = Box::new(Stack::of(&file));
        let device = stack.top.clone();
        let file_system = if is_device { None } else { os::file_system(&file) };
        Ok(FileGround { path, asked_direct, direct, device, stack, is_device, file_system, file })
    }

    /// What of a range was ever written. A block device has no map: it is an error to ask for one.
    pub fn extents(&self, start: u64, length: u64) -> std::io::Result<Extents> {
        if self.is_device {
            return Err(std::io::Error::other("a block device has no map of extents"));
        }
        Extents::of(&self.file, start, length)
    }

    /// Bytes of it that stand in the page cache; `None` before Linux 6.5.
    pub fn cached_bytes(&self) -> Option<u64> {
        os::cached_bytes(&self.file)
    }

    /// Looks at up to `most` blocks spread over a range, around the page cache: how many, and
    /// how many of them hold only zeroes. Nobody knows which ones before: none can be prepared. A
    /// disk that is too slow is asked for fewer.
    pub fn sample(&self, start: u64, length: u64, most: u32) -> std::io::Result<(u32, u32)> {
        let direct =
            std::fs::OpenOptions::new().read(true).custom_flags(os::O_DIRECT).open(&self.path);
        let file = direct.or_else(|_| self.file.try_clone())?;
        // Direct reads want memory at a multiple of the device's block.
        let mut memory = vec![0_u8; 2 * SAMPLE_BYTES];
        let at = memory.as_ptr().align_offset(SAMPLE_BYTES);
        let block = &mut memory[at..at + SAMPLE_BYTES];
        let clock = Clock::get();
        let end = clock.now() + PATIENCE;
        let (mut looked, mut zero) = (0, 0);
        let blocks = length / SAMPLE_BYTES as u64;
        let mut rng = Rng::new(os::random(), 0);
        for index in 0..u64::from(most).min(blocks) {
            // Anywhere in equal parts: a table at the beginning does not stand for all.
            let parts = u128::from(most).min(u128::from(blocks));
            let begins = |index: u64| (u128::from(blocks) * u128::from(index) / parts) as u64;
            let place = begins(index) + rng.below(begins(index + 1) - begins(index));
            let begin = start - start % SAMPLE_BYTES as u64;
            file.read_exact_at(block, begin + place * SAMPLE_BYTES as u64)?;
            looked += 1;
            zero += u32::from(block.iter().all(|byte| *byte == 0));
            if clock.now() > end {
                break;
            }
        }
        Ok((looked, zero))
    }
}
