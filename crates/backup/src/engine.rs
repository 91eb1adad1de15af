//! The three stages, each with its own threads, and the queues between them.
//!
//! ```text
//! free → readers → raw → compressors → packed → writers
//! ```
//!
//! A stage that fails or panics ends all queues: the backup fails, and no thread waits for ever.

mod pack;
mod read;
mod shared;
mod write;

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use block::{Buf, Nanos};
use os::Clock;
use os::sample::HostCpu;

use crate::BackupError;
use crate::engine::shared::{Shared, full};
use crate::format::index::{put_index, take_index};
use crate::format::{FRAME_HEAD_BYTES, Head, INDEX_MAX_BYTES, checksum, padded};
use crate::progress::{Meter, Tell};
use crate::source::{Entry, kept};
use crate::stage::{Limit, Stage, Times, Watch, limit};
use crate::target::Target;
use crate::way::Way;

/// Compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// LZ4; incompressible data are stored as they are.
    Lz4,
    /// No compression.
    Stored,
}

/// Options of a backup.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of reader threads, 1 or more; each has one read in flight.
    pub readers: u32,
    /// Compressor threads, 1 or more.
    pub compressors: u32,
    /// Writes in flight, 1 or more: one thread each for a file, one thread in all for a volume.
    pub writers: u32,
    /// Number of buffers before compression, and of buffers after it; 1 or more.
    pub buffers: u32,
    /// Longest extent of a source in bytes: a multiple of 64 KiB, up to
    /// [`TRANSFER_MAX_BYTES`](crate::format::TRANSFER_MAX_BYTES).
    pub transfer_bytes: u32,
    /// Compression.
    pub codec: Codec,
    /// Reads files with `O_DIRECT` if their file system supports it.
    pub direct: bool,
}

/// The outcome of a complete backup.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time from the first read to the last flush.
    pub time: Nanos,
    /// Bytes read from the sources.
    pub source_bytes: u64,
    /// Bytes of frames, including headers and padding.
    pub stored_bytes: u64,
    /// Bytes of holes, which have no frames: not read, or read as zeroes.
    pub hole_bytes: u64,
    /// Extents of sources that are stored.
    pub frames: u64,
    /// Time split of each stage.
    pub stages: [(Stage, Times); 3],
    /// The bottleneck.
    pub limit: Limit,
    /// CPU use of the host during the backup.
    pub host: Host,
}

/// CPU use of this host.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// CPUs.
    pub cores: u32,
    /// Utilisation of all CPUs in percent; `None` if the system shows no counters.
    pub busy_percent: Option<f64>,
    /// Mean number of CPUs used by the three stages.
    pub own_cores: f64,
}

/// Backs up `entries` to `target`. `tell` gets the progress; `stop` is called before each read. The
/// earlier content of a volume is overwritten when the first data of the sources were read. A file
/// still has to be [published](Target::publish).
///
/// # Errors
///
/// Errors of the target and the system, and [`BackupError::Stopped`]: a volume then holds an
/// incomplete backup. An unreadable source is not an error: its [`Fate`](crate::Fate) reports it.
pub fn run(
    entries: &[Entry],
    target: &Target,
    options: Options,
    tell: Tell,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, BackupError> {
    let align = target.align();
    let head = Head {
        id: os::random(),
        align: align as u32,
        transfer_bytes: options.transfer_bytes,
        ..Head::default()
    };
    let listed = entries.iter().map(|entry| entry.listed_bytes).sum();
    let least = least_bytes(entries, &options, align);
    if least > target.capacity_bytes() {
        return Err(full(target, listed, 0));
    }
    let clock = Clock::get();
    let meter = Meter::new(listed, tell);
    let shared = Shared::new(entries, target, options, head, &meter, stop)?;
    let (begin, before) = (clock.now(), HostCpu::now());
    let stages = stages(&shared);
    if let Some(error) = shared.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    if shared.stopped.load(Ordering::Relaxed) || stop() {
        return Err(BackupError::Stopped);
    }
    let end = shared.next_at.load(Ordering::Relaxed);
    finish(&shared, Head { index_at: end, ..head })?;
    let (time, busy) = (clock.now().since(begin), HostCpu::now().since(&before));
    meter.end();
    let cpu: u64 = stages.iter().map(|(_, times)| times.cpu.0).sum();
    let host = Host {
        cores: os::cpu::allowed().len() as u32,
        busy_percent: (busy.total() > 0.0).then(|| 100.0 * busy.busy() / busy.total()),
        own_cores: cpu as f64 / (time.0 as f64).max(1.0),
    };
    let limit = limit(&stages);
    Ok(Outcome {
        time,
        source_bytes: shared.read_bytes.load(Ordering::Relaxed),
        stored_bytes: end - align as u64,
        hole_bytes: entries.iter().map(Entry::hole_bytes).sum(),
        frames: shared.frames.load(Ordering::Relaxed),
        stages,
        limit,
        host,
    })
}

/// Minimum size of the backup: an old one is not overwritten for one that cannot fit.
fn least_bytes(entries: &[Entry], options: &Options, align: usize) -> u64 {
    let transfer = u64::from(options.transfer_bytes);
    let frame = |bytes: u64| {
        let stored = if options.codec == Codec::Stored { bytes as usize } else { 0 };
        padded(FRAME_HEAD_BYTES + stored, align) as u64
    };
    let of = |entry: &Entry| {
        let bytes = entry.listed_bytes;
        let rest = bytes % transfer;
        let last = if rest > 0 { frame(rest) } else { 0 };
        (bytes / transfer).saturating_mul(frame(transfer)).saturating_add(last)
    };
    // Holes use no space, and a source that may have some may have nothing else.
    let dense = entries.iter().filter(|entry| !entry.is_sparse && entry.kind.has_data());
    dense.map(of).fold(align as u64, u64::saturating_add)
}

/// Writes the index, then marks the head complete.
fn finish(shared: &Shared, head: Head) -> Result<(), BackupError> {
    let target = shared.target;
    let failed = |why: String| shared.failure(why);
    let index = put_index(&kept(shared.entries));
    if index.len() as u64 > INDEX_MAX_BYTES {
        return Err(BackupError::TooMany);
    }
    // An index that cannot be read would make all that was written useless.
    take_index(&index).map_err(|why| target.fail(format!("this is a bug in drumfire: {why}")))?;
    let head = Head {
        complete: true,
        index_bytes: index.len() as u64,
        index_crc: checksum(&index),
        ..head
    };
    let align = head.align as usize;
    let end = head.index_at + padded(index.len(), align) as u64;
    if end > target.capacity_bytes() {
        let kept = shared.read_bytes.load(Ordering::Relaxed);
        return Err(full(target, shared.listed, kept));
    }
    let mut way = target.way(shared.stop)?;
    shared.begin_target(&mut way).map_err(failed)?;
    let step = padded(head.transfer_bytes as usize, align);
    let mut at = head.index_at;
    for piece in index.chunks(step) {
        let len = padded(piece.len(), align);
        let mut buf = Buf::new(len)?;
        buf[..piece.len()].copy_from_slice(piece);
        way.write(at, buf, len).map_err(failed)?;
        at += len as u64;
    }
    way.flush().and_then(|()| put_head(&mut way, &head)).map_err(failed)
}

/// Writes the head, and makes it durable.
fn put_head(way: &mut Way, head: &Head) -> Result<(), String> {
    let mut block = Buf::new(head.align as usize).map_err(|error| error.to_string())?;
    head.put(&mut block);
    way.write(0, block, head.align as usize)?;
    way.flush()
}

/// Runs all threads until they end.
fn stages(shared: &Shared) -> [(Stage, Times); 3] {
    let options = &shared.options;
    std::thread::scope(|scope| {
        let begin =
            |stage: Stage, count: u32, work: fn(&Shared, &mut Watch), leave: fn(&Shared)| {
                let body = move || {
                    let _leaving = Leaving { shared, stage, leave };
                    let mut watch = Watch::start();
                    work(shared, &mut watch);
                    watch.end()
                };
                let named = |_| std::thread::Builder::new().name(stage.to_string());
                let threads = (0..count).map(|number| named(number).spawn_scoped(scope, body));
                let begun = |thread: io::Result<_>| match thread {
                    Ok(thread) => Some(thread),
                    Err(error) => {
                        shared.fail(BackupError::System(error));
                        None
                    }
                };
                (stage, threads.filter_map(begun).collect::<Vec<_>>())
            };
        let writers = if shared.target.is_volume() { 1 } else { options.writers };
        let all = [
            begin(Stage::Reading, options.readers, read::read, |shared| shared.raw.leave()),
            begin(Stage::Compressing, options.compressors, pack::pack, |shared| {
                shared.packed.leave();
            }),
            begin(Stage::Writing, writers, write::write, |_| ()),
        ];
        all.map(|(stage, threads)| {
            // A thread that panicked has failed the backup already.
            let times = threads.into_iter().filter_map(|thread| thread.join().ok());
            (stage, times.fold(Times::default(), Times::and))
        })
    })
}

/// Signals that a thread of a stage ends, also by a panic.
struct Leaving<'s, 'a> {
    shared: &'s Shared<'a>,
    stage: Stage,
    leave: fn(&Shared),
}

impl Drop for Leaving<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(BackupError::Panicked(self.stage));
        }
        (self.leave)(self.shared);
    }
}
