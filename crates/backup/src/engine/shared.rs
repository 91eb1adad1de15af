//! State shared by all threads of a backup.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use block::{Arena, Buf};

use super::{Options, put_head};
use crate::BackupError;
use crate::format::{FRAME_HEAD_BYTES, Head, padded};
use crate::progress::Meter;
use crate::queue::Queue;
use crate::source::Entry;
use crate::target::Target;
use crate::way::Way;
use crate::work::Work;

/// An extent of a source in memory.
pub(super) struct Raw {
    pub(super) entry: u32,
    pub(super) offset: u64,
    pub(super) len: usize,
    pub(super) buf: Buf,
}

/// A frame ready to be written.
pub(super) struct Packed {
    pub(super) at: u64,
    pub(super) len: usize,
    pub(super) source_bytes: u64,
    pub(super) buf: Buf,
}

/// State that the stages share.
pub(super) struct Shared<'a> {
    pub(super) entries: &'a [Entry],
    pub(super) work: Work<'a>,
    pub(super) target: &'a Target,
    pub(super) options: Options,
    pub(super) head: Head,
    pub(super) free: Queue<Buf>,
    pub(super) raw: Queue<Raw>,
    pub(super) room: Queue<Buf>,
    pub(super) packed: Queue<Packed>,
    /// Offset of the next frame.
    pub(super) next_at: AtomicU64,
    pub(super) frames: AtomicU64,
    /// Bytes of the sources that are written, or read and zeroes.
    pub(super) read_bytes: AtomicU64,
    pub(super) listed: u64,
    pub(super) meter: &'a Meter<'a>,
    pub(super) stop: &'a (dyn Fn() -> bool + Sync),
    pub(super) stopped: AtomicBool,
    pub(super) failed: Mutex<Option<BackupError>>,
    /// Whether the target's earlier content has been invalidated.
    begun: Mutex<bool>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        entries: &'a [Entry],
        target: &'a Target,
        options: Options,
        head: Head,
        meter: &'a Meter<'a>,
        stop: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Shared<'a>, BackupError> {
        let count = options.buffers as usize;
        let transfer = options.transfer_bytes as usize;
        let longest = lz4_flex::block::get_maximum_output_size(transfer);
        let packed_len = padded(FRAME_HEAD_BYTES + longest, head.align as usize);
        Ok(Shared {
            entries,
            work: Work::new(entries, options.transfer_bytes, options.direct, meter),
            target,
            options,
            head,
            free: Queue::filled(Arena::cut(count, transfer)?),
            raw: Queue::new(count, options.readers as usize),
            room: Queue::filled(Arena::cut(count, packed_len)?),
            packed: Queue::new(count, options.compressors as usize),
            next_at: AtomicU64::new(u64::from(head.align)),
            frames: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            listed: entries.iter().map(|entry| entry.listed_bytes).sum(),
            meter,
            stop,
            stopped: AtomicBool::new(false),
            failed: Mutex::new(None),
            begun: Mutex::new(false),
        })
    }

    /// Whether the user requested a stop; all threads see the request.
    pub(super) fn is_stopped(&self) -> bool {
        let stops = self.stopped.load(Ordering::Relaxed) || (self.stop)();
        if stops {
            self.stopped.store(true, Ordering::Relaxed);
            self.end();
        }
        stops
    }

    /// Ends all queues.
    fn end(&self) {
        self.free.end();
        self.raw.end();
        self.room.end();
        self.packed.end();
    }

    /// Fails the whole backup; the first error is kept.
    pub(super) fn fail(&self, error: BackupError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.end();
    }

    /// Error of the target, unless the target only failed because the user requested a stop.
    pub(super) fn failure(&self, why: String) -> BackupError {
        if self.is_stopped() { BackupError::Stopped } else { self.target.fail(why) }
    }

    /// Invalidates the earlier content of the target, once. Called before the first write, when
    /// data of the sources were read.
    pub(super) fn begin_target(&self, way: &mut Way) -> Result<(), String> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if !*begun {
            put_head(way, &self.head)?;
            *begun = true;
        }
        Ok(())
    }

    /// Counts bytes of sources that are done with.
    pub(super) fn count(&self, bytes: u64) {
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.meter.add(bytes);
    }
}

/// Error of a target that is too small for the backup.
pub(super) fn full(target: &Target, wanted: u64, kept: u64) -> BackupError {
    let (name, capacity) = (target.name().to_owned(), target.capacity_bytes());
    BackupError::Full { name, wanted, kept, capacity }
}
