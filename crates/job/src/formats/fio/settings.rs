//! What the settings of a fio job say, typed, with fio's defaults. Nothing is judged here.

use super::calls::Calls;
use super::control::Control;
use super::logs::Logs;
use super::remote::Connection;
use super::replay::Replays;
use super::value::{Amount, KbBase, Triple};
use super::zones::Zones;
use crate::formats::note::Note;
use crate::spec::{DataPattern, Figures, Quantity};

/// All settings of a job, or the defaults for the jobs that follow.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Name of the job, `name=`; that of the section otherwise.
    pub name: Option<String>,
    /// What `k` means.
    pub kb_base: KbBase,
    /// Files and devices, `filename=a:b`.
    pub files: Vec<String>,
    /// Where files without a path lie.
    pub directory: Option<String>,
    /// What files are called that are not named, `filename_format=`.
    pub name_format: Option<String>,
    /// Files of each clone that are not named, `nrfiles=`.
    pub nr_files: u32,
    /// Files that are open at once, `openfiles=`.
    pub open_files: Option<u32>,
    /// In which order several files are used.
    pub service: Service,
    /// What is done, `rw=`.
    pub mix: Mix,
    /// Share of reads where both are done, 0 to 100.
    pub read_percent: f64,
    /// Share of random places for each direction, 0 to 100, where `rw` is random.
    pub random_percent: Triple<f64>,
    /// Lengths for each direction, by what of `lengths` counts.
    pub sizes: Triple<Sizes>,
    /// Lengths as each of their words says them.
    pub lengths: Lengths,
    /// Lengths are of any number of bytes within their ranges.
    pub unaligned: bool,
    /// The lengths of reads are those of sequential I/Os, and of writes those of random ones.
    pub sizes_by_order: bool,
    /// All I/Os of a run go to the place of the first.
    pub run_stays: bool,
    /// Random I/Os begin at multiples of this; at multiples of the smallest length otherwise.
    pub align_bytes: Triple<Option<u64>>,
    /// How I/O is done, `ioengine=`.
    pub engine: Engine,
    /// Files are in memory for fio: they go through the page cache, whatever `direct` says.
    pub mapped: Mapped,
    /// What it says of calls that move no data.
    pub calls: Calls,
    /// What it says of connections to volumes on other hosts.
    pub connection: Connection,
    /// I/Os in flight, `iodepth=`.
    pub depth: u32,
    /// When the queue is filled again, `iodepth_low=`; 0 for at once.
    pub depth_low: u32,
    /// Around the page cache.
    pub direct: bool,
    /// What is cached is dropped before the job.
    pub invalidate: bool,
    /// What is done before the job.
    pub before: Before,
    /// What the kernel is told of the order of I/Os.
    pub hint: Hint,
    /// The device is polled for completions, `hipri`.
    pub hipri: bool,
    /// A thread of the kernel polls for submissions, `sqthread_poll`.
    pub sqthread_poll: bool,
    /// Part of the volume that is used.
    pub size: Option<Amount>,
    /// It is written until no room is left, `fill_device=`.
    pub fill: bool,
    /// The same of each of several files, whatever `size` says of all.
    pub file_size: Option<Amount>,
    /// How much is read and written, where that is not `size`.
    pub io_size: Option<Amount>,
    /// Where the part begins.
    pub offset: Amount,
    /// How far the part of each clone lies behind that of the one before it.
    pub offset_increment: Amount,
    /// It begins at the end of the file, `file_append=`.
    pub appends: bool,
    /// A beginning in percent goes up to a multiple of this; 0 for the smallest length.
    pub offset_align: u64,
    /// How often the part is gone through.
    pub loops: u64,
    /// Clones of the job.
    pub clones: u32,
    /// Longest time in microseconds.
    pub runtime_us: Option<u64>,
    /// The whole time is used.
    pub time_based: bool,
    /// Time before the measured window in microseconds.
    pub ramp_us: u64,
    /// Time before the job begins in microseconds: each clone draws its own between the two.
    pub delay_us: (u64, u64),
    /// The job that must have ended before.
    pub wait_for: Option<String>,
    /// As soon as one job ends, all do.
    pub exit_all: bool,
    /// When what is measured has come to rest, `steadystate=`.
    pub steady: Rest,
    /// I/Os after which the job ends.
    pub most_ios: Option<u64>,
    /// What was written is made durable at the end of the job.
    pub end_flush: bool,
    /// Which random places.
    pub distribution: Distribution,
    /// Random places may come again before all others had their turn.
    pub no_random_map: bool,
    /// Seed of every random choice.
    pub seed: Option<u64>,
    /// Most bytes per second in each direction.
    pub rate_bytes: Triple<u64>,
    /// Most I/Os per second in each direction.
    pub rate_ios: Triple<u64>,
    /// Planned starts are a Poisson process.
    pub poisson: bool,
    /// What steers it while it runs.
    pub control: Control,
    /// Zones one after the other.
    pub zones: Zones,
    /// How data are compared.
    pub verify: Verify,
    /// Writes between two flushes; 0 for none.
    pub flush_every: u32,
    /// Writes are durable before they are acknowledged.
    pub durable: bool,
    /// What is written.
    pub data: Data,
    /// Where it runs.
    pub seats: Seats,
    /// The job waits for all before it.
    pub stonewall: bool,
    /// Clones are shown as one.
    pub grouped: bool,
    /// The trace that takes the place of what the job does otherwise.
    pub replays: Replays,
    /// What is written of the job over time.
    pub logs: Logs,
    /// What is shown of it.
    pub figures: Figures,
    /// What is not taken as it stands, of the defaults too.
    pub notes: Vec<Note>,
}

impl Settings {
    /// fio's defaults.
    pub fn usual() -> Settings {
        Settings {
            nr_files: 1,
            read_percent: 50.0,
            random_percent: [100.0; 3],
            calls: Calls { chunk_us: 50_000, ..Calls::default() },
            depth: 1,
            invalidate: true,
            loops: 1,
            clones: 1,
            control: Control { cycle_ms: 1000, percent: 100.0, ..Control::default() },
            data: Data { scramble: true, working_set_percent: 5, ..Data::default() },
            ..Settings::default()
        }
    }

    /// I/Os that one clone keeps in flight: one with an engine that can do no more.
    pub fn in_flight(&self) -> u32 {
        if matches!(self.engine, Engine::Synchronous | Engine::Calls(_)) { 1 } else { self.depth }
    }

    /// Whether the part begins at a share of the volume.
    pub fn offset_in_percent(&self) -> bool {
        [self.offset, self.offset_increment].iter().any(|at| matches!(at, Amount::Percent(_)))
    }
}

/// The processors that a job may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seats {
    /// Processors, empty for all.
    pub cpus: Vec<usize>,
    /// Groups of processors beside a memory of their own, whose processors are meant.
    pub nodes: Vec<usize>,
}

/// Whether files are in memory for fio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// They are.
    pub on: bool,
    /// What `direct` says, which comes to nothing then.
    pub direct: bool,
}

/// What is done before a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Files are made, and nothing is done with them, `create_only=`.
    pub only_made: bool,
    /// They are read into the page cache, `pre_read=`.
    pub read: bool,
    /// Files that are not there are not made, `allow_file_create=0`.
    pub none_made: bool,
    /// Files are removed in the end, `unlink=`.
    pub unlink: bool,
}

/// What `rw=` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// It reads.
    pub reads: bool,
    /// It writes.
    pub writes: bool,
    /// It trims; if it writes too, each write comes behind a trim.
    pub trims: bool,
    /// Places are random.
    pub random: bool,
    /// Random: I/Os from each random place on.
    pub run: u32,
    /// Sequential: bytes between the end of one I/O and the beginning of the next; the way is
    /// backward when it is negative.
    pub hole_bytes: i64,
}

impl Default for Mix {
    fn default() -> Mix {
        let (writes, trims, random) = (false, false, false);
        Mix { reads: true, writes, trims, random, run: 1, hole_bytes: 0 }
    }
}

/// Lengths of I/Os in one direction, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Always the same.
    Fixed(u64),
    /// Every multiple of the least up to the most, as likely as any other.
    Range(u64, u64),
    /// Some, with the share of each, 0 to 100.
    Split(Vec<(u64, f64)>),
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes::Fixed(4096)
    }
}

/// What each word says about lengths, for each direction. fio keeps all three: a `bs` does not take
/// away a `bsrange` or `bssplit` that stands before it.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    /// `bs=`.
    pub fixed: Triple<Option<Sizes>>,
    /// `bsrange=`.
    pub ranges: Triple<Option<Sizes>>,
    /// `bssplit=`.
    pub splits: Triple<Option<Sizes>>,
}

impl Lengths {
    /// What counts: shares before ranges before a single length, as with fio.
    pub fn sizes(&self) -> Triple<Sizes> {
        let counts = |of: usize| {
            let word = self.splits[of].as_ref().or(self.ranges[of].as_ref());
            match word.or(self.fixed[of].as_ref()) {
                Some(Sizes::Range(least, most)) if least == most => Sizes::Fixed(*most),
                Some(sizes) => sizes.clone(),
                None => Sizes::default(),
            }
        };
        [0, 1, 2].map(counts)
    }
}

/// How fio does the I/O, as far as it decides what is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// One I/O at a time, whatever depth is asked for.
    #[default]
    Synchronous,
    /// The kernel keeps several in flight.
    Kernel,
    /// The same through libaio: it blocks unless the I/O is direct.
    Libaio,
    /// NVMe commands, several in flight.
    Passthrough,
    /// Nothing is stored.
    Nothing,
    /// Nothing is moved: calls of this kind.
    Calls(&'static str),
    /// A volume on another host, named by a URI.
    Remote,
    /// The same, named as SPDK's plugin has it.
    Spdk,
    /// A block device of SPDK's configuration.
    Bdev,
    /// A volume on another host, named by `uri=` whatever the files are called.
    Nbd,
}

impl Engine {
    /// Whether it reads and writes files or devices.
    pub fn has_files(self) -> bool {
        use Engine::{Kernel, Libaio, Passthrough, Synchronous};
        matches!(self, Synchronous | Kernel | Libaio | Passthrough)
    }
}

/// What ends a job before its time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rest {
    /// What is looked at, whether its slope, below what, and whether that is in percent.
    pub criterion: Option<(Quantity, bool, f64, bool)>,
    /// How long, in microseconds; 0 for not at all.
    pub duration_us: u64,
    /// After what time, in microseconds.
    pub ramp_us: u64,
    /// Length of an interval in microseconds, if not a second.
    pub interval_us: Option<u64>,
}

/// In which order several files are used, `file_service_type=`.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// So many I/Os on each, in turn.
    Turns(u32),
    /// At random, this many I/Os on each.
    Random(u32),
    /// By a law.
    ByLaw(Distribution),
    /// One after the other.
    OneByOne,
}

impl Default for Service {
    fn default() -> Service {
        Service::Turns(1)
    }
}

/// What the kernel is told of the order of I/Os, `fadvise_hint=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    None,
    /// What `rw` says.
    #[default]
    ByMix,
    /// They are random.
    Random,
    /// They are sequential.
    Sequential,
}

/// Which places are how likely.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// All the same.
    #[default]
    Uniform,
    /// Zipf's law with this exponent.
    Zipf(f64),
    /// Self-similar, with this part hot, 0 to 1.
    Pareto(f64),
    /// A bell with this deviation in percent.
    Normal(f64),
    /// Zones: share of the I/Os, and space.
    Zones(Vec<(f64, Amount)>),
}

/// How data are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    /// By what; `None` until `verify=` says.
    pub method: Option<Method>,
    /// What was written is read again, `do_verify=`.
    pub reads: bool,
    /// What a run before wrote is read, and nothing is written.
    pub only: bool,
    /// What all data are, `verify_pattern=`.
    pub pattern: Option<DataPattern>,
    /// I/Os behind which what was written is read again, `verify_backlog=`; 0: at the end.
    pub backlog: u64,
}

impl Default for Verify {
    fn default() -> Verify {
        Verify { method: None, reads: true, only: false, pattern: None, backlog: 0 }
    }
}

impl Verify {
    /// Whether anything is written or read to be compared, and how: as in fio a pattern alone is
    /// one with a header.
    pub fn method(&self) -> Option<Method> {
        let pattern = self.pattern.as_ref().map(|_| Method::PatternWithHeader);
        self.method.or(pattern).filter(|method| !matches!(method, Method::Nothing | Method::Null))
    }
}

/// What `verify=` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Nothing is compared.
    Nothing,
    /// It is only pretended.
    Null,
    /// By a checksum in a header.
    Sum,
    /// By a pattern.
    Pattern,
    /// By a pattern behind a header.
    PatternWithHeader,
}

/// What is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Nothing but zeroes.
    pub zeroes: bool,
    /// Every buffer is filled anew.
    pub refill: bool,
    /// Buffers are changed a little before each write.
    pub scramble: bool,
    /// Share that a compressor would take away, 0 to 100.
    pub compress_percent: u32,
    /// Share of blocks that were written before, 0 to 100.
    pub dedupe_percent: u32,
    /// Shares hold within each window of this many bytes.
    pub chunk_bytes: Option<u32>,
    /// Duplicates are drawn from a set of blocks.
    pub working_set: bool,
    /// How large that is, in percent of `size`.
    pub working_set_percent: u32,
    /// What stands where a compressor finds something, or everywhere, `buffer_pattern=`.
    pub pattern: Option<DataPattern>,
}
