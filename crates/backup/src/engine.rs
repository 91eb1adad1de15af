//! The three stages, each with its own threads, and the queues between them.
//!
//! ```text
//! free → readers → raw → compressors → packed → writers
//! ```

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use block::{Arena, Buf, Io, Nanos, Op, Tag};
use os::Clock;
use os::sample::HostCpu;

use crate::format::{FRAME_HEAD_BYTES, FrameHead, Head, Kept, Kind, checksum, padded, put_index};
use crate::queue::Queue;
use crate::source::{Entry, Fate, Origin, Part, Work};
use crate::stage::{Limit, Stage, Times, Watch, limit};
use crate::target::Target;
use crate::way::{Waited, Way};
use crate::{BackupError, source};

/// Compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// LZ4; incompressible data are stored as they are.
    Lz4,
    /// None.
    Stored,
}

/// Options of a backup.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Reader threads, 1 or more; each has one read in flight.
    pub readers: u32,
    /// Compressor threads, 1 or more.
    pub compressors: u32,
    /// Writes in flight, 1 or more: as many threads for a file, one thread for a volume.
    pub writers: u32,
    /// Buffers before compression, and as many after it; 1 or more.
    pub buffers: u32,
    /// Longest extent of a source in bytes: a multiple of 64 KiB, up to
    /// [`TRANSFER_MAX_BYTES`](crate::format::TRANSFER_MAX_BYTES).
    pub transfer_bytes: u32,
    /// Compression.
    pub codec: Codec,
    /// Reads files with `O_DIRECT` where their file system supports it.
    pub direct: bool,
}

/// The outcome of a complete backup.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the first read to the last flush.
    pub time: Nanos,
    /// Bytes of the sources.
    pub source_bytes: u64,
    /// Bytes of frames, including headers and padding.
    pub stored_bytes: u64,
    /// Stretches.
    pub frames: u64,
    /// Time split of each stage.
    pub stages: [(Stage, Times); 3],
    /// The bottleneck.
    pub limit: Limit,
    /// CPU use meanwhile.
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

/// Interval in which a writer with writes in flight polls for more.
const GLANCE: Nanos = Nanos(500_000);

/// An extent of a source in memory.
struct Raw {
    entry: u32,
    offset: u64,
    len: usize,
    buf: Buf,
}

/// A frame ready to be written.
struct Packed {
    at: u64,
    len: usize,
    source_bytes: u64,
    buf: Buf,
}

/// State shared by all threads.
struct Shared<'a> {
    entries: &'a [Entry],
    work: Work<'a>,
    target: &'a Target,
    options: Options,
    head: Head,
    free: Queue<Buf>,
    raw: Queue<Raw>,
    room: Queue<Buf>,
    packed: Queue<Packed>,
    /// Offset of the next frame.
    next_at: AtomicU64,
    frames: AtomicU64,
    written: AtomicU64,
    listed: u64,
    /// Tenths reported so far.
    tenths: AtomicU32,
    progress: &'a (dyn Fn(u32) + Sync),
    stop: &'a (dyn Fn() -> bool + Sync),
    stopped: AtomicBool,
    failed: Mutex<Option<BackupError>>,
}

/// Backs up `entries` to `target`. `progress` is called at each tenth with a percentage; `stop`
/// is checked before each read.
///
/// # Errors
///
/// Those of the target, and [`BackupError::Stopped`]: the target then holds an incomplete
/// backup. What happens to sources is not an error, but their [`Fate`].
pub fn run(
    entries: &[Entry],
    target: &Target,
    options: Options,
    progress: &(dyn Fn(u32) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, BackupError> {
    let align = target.align();
    let mut way = target.way()?;
    let head = Head {
        id: os::random(),
        align: align as u32,
        transfer_bytes: options.transfer_bytes,
        ..Head::default()
    };
    let clock = Clock::get();
    put_head(&mut way, &head).map_err(|why| target.fail(why))?;
    let shared = Shared::new(entries, target, options, head, progress, stop)?;
    let (begin, before) = (clock.now(), HostCpu::now());
    let stages = stages(&shared)?;
    if let Some(error) = shared.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    if shared.stopped.load(Ordering::Relaxed) {
        return Err(BackupError::Stopped);
    }
    let frames = shared.frames.load(Ordering::Relaxed);
    let source_bytes = shared.written.load(Ordering::Relaxed);
    let end = shared.next_at.load(Ordering::Relaxed);
    let head = Head { frames, source_bytes, index_at: end, ..head };
    finish(&mut way, entries, head, target)?;
    let (time, busy) = (clock.now().since(begin), HostCpu::now().since(&before));
    (shared.tenths.load(Ordering::Relaxed) < 10).then(|| progress(100));
    let cpu: u64 = stages.iter().map(|(_, times)| times.cpu.0).sum();
    let host = Host {
        cores: os::cpu::allowed().len() as u32,
        busy_percent: (busy.total() > 0.0).then(|| 100.0 * busy.busy() / busy.total()),
        own_cores: cpu as f64 / (time.0 as f64).max(1.0),
    };
    let stored_bytes = end - align as u64;
    let limit = limit(&stages);
    Ok(Outcome { time, source_bytes, stored_bytes, frames, stages, limit, host })
}

fn put_head(way: &mut Way, head: &Head) -> Result<(), String> {
    let mut block = Buf::new(head.align as usize).map_err(|error| error.to_string())?;
    head.put(&mut block);
    way.write(0, block, head.align as usize)?;
    way.flush()
}

/// Writes the index, then marks the head complete.
fn finish(
    way: &mut Way,
    entries: &[Entry],
    head: Head,
    target: &Target,
) -> Result<(), BackupError> {
    let kept = |entry: &Entry| {
        let lost = matches!(entry.fate(), Fate::Vanished | Fate::Unreadable(_) | Fate::Skipped);
        let absent = lost && entry.read_bytes() == 0;
        Kept {
            kind: if absent { Kind::Absent } else { entry.kind.clone() },
            path: entry.path.clone(),
            mode: entry.mode,
            bytes: entry.read_bytes(),
        }
    };
    let index = put_index(&entries.iter().map(kept).collect::<Vec<Kept>>());
    let head = Head {
        complete: true,
        index_bytes: index.len() as u64,
        index_crc: checksum(&index),
        ..head
    };
    let align = head.align as usize;
    let end = head.index_at + padded(index.len(), align) as u64;
    if end > target.capacity_bytes() {
        return Err(full(target, head.source_bytes, head.source_bytes));
    }
    let step = padded(head.transfer_bytes as usize, align);
    let mut at = head.index_at;
    for piece in index.chunks(step) {
        let len = padded(piece.len(), align);
        let mut buf = Buf::new(len)?;
        buf[..piece.len()].copy_from_slice(piece);
        way.write(at, buf, len).map_err(|why| target.fail(why))?;
        at += len as u64;
    }
    way.flush().and_then(|()| put_head(way, &head)).map_err(|why| target.fail(why))
}

fn full(target: &Target, wanted: u64, kept: u64) -> BackupError {
    let (name, capacity) = (target.name().to_owned(), target.capacity_bytes());
    BackupError::Full { name, wanted, kept, capacity }
}

/// Runs all threads until they end.
fn stages(shared: &Shared) -> Result<[(Stage, Times); 3], BackupError> {
    let options = &shared.options;
    let all = std::thread::scope(|scope| {
        let begin = |name: &str, count: u32, work: fn(&Shared, &mut Watch), leave: fn(&Shared)| {
            let body = move || {
                let mut watch = Watch::start();
                work(shared, &mut watch);
                leave(shared);
                watch.end()
            };
            let named = |_| std::thread::Builder::new().name(name.to_owned());
            (0..count).map(|n| named(n).spawn_scoped(scope, body)).collect::<Vec<_>>()
        };
        let reading = begin("reader", options.readers, read, |shared| shared.raw.leave());
        let packing = begin("packer", options.compressors, pack, |shared| shared.packed.leave());
        let writers = if shared.target.is_volume() { 1 } else { options.writers };
        let writing = begin("writer", writers, write, |_| ());
        let all = [reading, packing, writing];
        if all.iter().flatten().any(Result::is_err) {
            shared.end();
        }
        all.map(|threads| {
            let mut sum = Ok(Times::default());
            for thread in threads {
                let times = thread.map(|thread| thread.join().expect("no stage panics"));
                sum = sum.and_then(|sum: Times| times.map(|times| sum.and(times)));
            }
            sum
        })
    });
    let [reading, packing, writing] = all;
    Ok([(Stage::Reading, reading?), (Stage::Compressing, packing?), (Stage::Writing, writing?)])
}

impl<'a> Shared<'a> {
    fn new(
        entries: &'a [Entry],
        target: &'a Target,
        options: Options,
        head: Head,
        progress: &'a (dyn Fn(u32) + Sync),
        stop: &'a (dyn Fn() -> bool + Sync),
    ) -> Result<Shared<'a>, BackupError> {
        let count = options.buffers as usize;
        let transfer = options.transfer_bytes as usize;
        let longest = lz4_flex::block::get_maximum_output_size(transfer);
        let packed_len = padded(FRAME_HEAD_BYTES + longest, head.align as usize);
        Ok(Shared {
            entries,
            work: Work::new(entries, options.transfer_bytes, options.direct),
            target,
            options,
            head,
            free: Queue::filled(Arena::cut(count, transfer)?),
            raw: Queue::new(count, options.readers as usize),
            room: Queue::filled(Arena::cut(count, packed_len)?),
            packed: Queue::new(count, options.compressors as usize),
            next_at: AtomicU64::new(u64::from(head.align)),
            frames: AtomicU64::new(0),
            written: AtomicU64::new(0),
            listed: entries.iter().map(|entry| entry.listed_bytes).sum(),
            tenths: AtomicU32::new(0),
            progress,
            stop,
            stopped: AtomicBool::new(false),
            failed: Mutex::new(None),
        })
    }

    /// Ends all queues.
    fn end(&self) {
        self.free.end();
        self.raw.end();
        self.room.end();
        self.packed.end();
    }

    fn fail(&self, error: BackupError) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.end();
    }

    /// Adds `bytes` of sources to the progress.
    fn tell(&self, bytes: u64) {
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let tenth = (u128::from(written) * 10 / u128::from(self.listed.max(1))).min(10) as u32;
        let told = self.tenths.fetch_max(tenth, Ordering::Relaxed);
        (told + 1..=tenth).for_each(|tenth| (self.progress)(10 * tenth));
    }
}

fn read(shared: &Shared, watch: &mut Watch) {
    let (mut mine, mut lane) = (None, None);
    while let Some(part) = shared.work.take(&mut mine) {
        if (shared.stop)() {
            shared.stopped.store(true, Ordering::Relaxed);
            return;
        }
        watch.worked();
        let Some(buf) = shared.free.take() else { return };
        watch.blocked();
        let entry = &shared.entries[part.entry];
        let (buf, len) = match read_part(entry, &part, buf, &mut lane, shared.options.direct) {
            Ok(found) => found,
            Err(why) => {
                entry.note(Fate::Unreadable(why));
                shared.work.cut(part.entry);
                // The failed read kept the buffer: replace it.
                let Ok(buf) = Buf::new(shared.options.transfer_bytes as usize) else { return };
                (buf, 0)
            }
        };
        if len < part.len && entry.fate() == Fate::Whole {
            entry.note(Fate::Shrank);
            shared.work.cut(part.entry);
        }
        entry.read_bytes.fetch_add(len as u64, Ordering::Relaxed);
        watch.worked();
        if len == 0 {
            // It has room for all buffers.
            let _ = shared.free.give(buf);
            continue;
        }
        let raw = Raw { entry: part.entry as u32, offset: part.offset, len, buf };
        if shared.raw.give(raw).is_err() {
            return;
        }
        watch.blocked();
    }
    watch.worked();
}

/// Reads a part, and checks at its end whether the file has grown.
fn read_part(
    entry: &Entry,
    part: &Part,
    mut buf: Buf,
    lane: &mut Option<(usize, Way)>,
    direct: bool,
) -> Result<(Buf, usize), String> {
    if let Origin::Volume(volume) = &entry.from {
        if lane.as_ref().is_none_or(|(of, _)| *of != part.entry) {
            *lane = Some((part.entry, Way::to(&**volume)?));
        }
        let (_, way) = lane.as_mut().expect("it was just made");
        return way.read(part.offset, buf, part.len).map(|buf| (buf, part.len));
    }
    let file = part.file.as_ref().expect("a file was opened");
    let len = source::read_at(file, &mut buf, part.offset, part.len, direct)
        .map_err(|error| error.to_string())?;
    if part.last && len == part.len {
        let now = file.metadata().map_or(0, |about| about.len());
        if now > entry.listed_bytes {
            entry.note(Fate::Grew { to: now });
        }
    }
    Ok((buf, len))
}

fn pack(shared: &Shared, watch: &mut Watch) {
    while let Some(raw) = shared.raw.take() {
        watch.starved();
        let Some(mut out) = shared.room.take() else { return };
        watch.blocked();
        let bytes = &raw.buf[..raw.len];
        let data = &mut out[FRAME_HEAD_BYTES..];
        let smaller = match shared.options.codec {
            Codec::Lz4 => lz4_flex::block::compress_into(bytes, data).ok(),
            Codec::Stored => None,
        };
        let smaller = smaller.filter(|len| *len < raw.len);
        if smaller.is_none() {
            data[..raw.len].copy_from_slice(bytes);
        }
        let mut frame = FrameHead {
            id: shared.head.id,
            at: 0,
            entry: raw.entry,
            offset: raw.offset,
            source_bytes: raw.len as u32,
            stored_bytes: smaller.unwrap_or(raw.len) as u32,
            compressed: smaller.is_some(),
            crc: checksum(bytes),
        };
        let whole = frame.whole_bytes(shared.head.align as usize);
        out[FRAME_HEAD_BYTES + frame.stored_bytes as usize..whole].fill(0);
        frame.at = shared.next_at.fetch_add(whole as u64, Ordering::Relaxed);
        frame.put(&mut out);
        if frame.at + whole as u64 > shared.target.capacity_bytes() {
            let kept = shared.written.load(Ordering::Relaxed);
            return shared.fail(full(shared.target, shared.listed, kept));
        }
        shared.frames.fetch_add(1, Ordering::Relaxed);
        watch.worked();
        let packed = Packed { at: frame.at, len: whole, source_bytes: raw.len as u64, buf: out };
        // It has room for all buffers.
        if shared.free.give(raw.buf).is_err() || shared.packed.give(packed).is_err() {
            return;
        }
        watch.blocked();
    }
    watch.starved();
}

fn write(shared: &Shared, watch: &mut Watch) {
    let written = match shared.target.way() {
        Ok(Way::Lane(mut lane)) => write_lane(shared, watch, &mut lane),
        Ok(way) => write_calls(shared, watch, way),
        Err(error) => return shared.fail(error),
    };
    if let Err(why) = written {
        shared.fail(shared.target.fail(why));
    }
}

/// Writes one frame after the other with system calls.
fn write_calls(shared: &Shared, watch: &mut Watch, mut way: Way) -> Result<(), String> {
    while let Some(packed) = shared.packed.take() {
        watch.starved();
        let buf = way.write(packed.at, packed.buf, packed.len)?;
        watch.worked();
        shared.tell(packed.source_bytes);
        if shared.room.give(buf).is_err() {
            return Ok(());
        }
    }
    watch.starved();
    Ok(())
}

/// Keeps the volume's write queue full.
fn write_lane(shared: &Shared, watch: &mut Watch, lane: &mut Waited) -> Result<(), String> {
    let places = shared.options.writers as usize;
    let mut done = Vec::new();
    loop {
        while lane.in_flight() < places {
            let next = match lane.in_flight() {
                0 => shared.packed.take(),
                _ => shared.packed.take_now(),
            };
            watch.shared(lane.in_flight(), places);
            match next {
                Some(packed) => lane.begin(io(packed)),
                None if lane.in_flight() == 0 => return Ok(()),
                None => break,
            }
        }
        let patience = if lane.in_flight() < places { GLANCE } else { Nanos::from_millis(100) };
        lane.turn(patience, &mut done)?;
        watch.shared(lane.in_flight() + done.len(), places);
        for one in done.drain(..) {
            one.result.map_err(|fault| format!("a write: {}", lane.words(fault, one.cause)))?;
            shared.tell(one.tag.0);
            if shared.room.give(one.buf.expect("a write gives its buffer back")).is_err() {
                return Ok(());
            }
        }
    }
}

/// A write; its tag holds the source's bytes.
fn io(packed: Packed) -> Io {
    let Packed { at, len, source_bytes, buf } = packed;
    let (len, buf) = (len as u32, Some(buf));
    Io { tag: Tag(source_bytes), op: Op::Write, fua: false, len, offset: at, buf }
}
