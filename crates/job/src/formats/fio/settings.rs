//! Settings of a fio job, typed, with fio's defaults. Nothing is judged here.

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
    /// Meaning of `k`.
    pub kb_base: KbBase,
    /// Files and devices, `filename=a:b`.
    pub files: Vec<String>,
    /// Folder of files without a path.
    pub directory: Option<String>,
    /// Name format of generated files, `filename_format=`.
    pub name_format: Option<String>,
    /// Number of generated files of each clone, `nrfiles=`.
    pub nr_files: u32,
    /// Number of files open at once, `openfiles=`.
    pub open_files: Option<u32>,
    /// Order in which several files are used.
    pub service: Service,
    /// Operations, `rw=`.
    pub mix: Mix,
    /// Share of reads in a mix of both, 0 to 100.
    pub read_percent: f64,
    /// Share of random offsets for each direction, 0 to 100, if `rw` is random.
    pub random_percent: Triple<f64>,
    /// I/O sizes of each direction, from the option in `lengths` that counts.
    pub sizes: Triple<Sizes>,
    /// I/O sizes as each of the options sets them.
    pub lengths: Lengths,
    /// True if sizes are any number of bytes within their ranges.
    pub unaligned: bool,
    /// True if the sizes of reads are those of sequential I/Os, and the sizes of writes those of
    /// random ones.
    pub sizes_by_order: bool,
    /// True if all I/Os of a run go to the offset of the first.
    pub run_stays: bool,
    /// Alignment of random I/Os; the smallest size otherwise.
    pub align_bytes: Triple<Option<u64>>,
    /// I/O engine, `ioengine=`.
    pub engine: Engine,
    /// Memory mapping: mapped files use the page cache, whatever `direct` is.
    pub mapped: Mapped,
    /// Options of calls that move no data.
    pub calls: Calls,
    /// Options of connections to volumes on other hosts.
    pub connection: Connection,
    /// Queue depth, `iodepth=`.
    pub depth: u32,
    /// Low watermark of the queue, `iodepth_low=`; 0 to refill at once.
    pub depth_low: u32,
    /// True for direct I/O.
    pub direct: bool,
    /// True if the page cache is invalidated before the job.
    pub invalidate: bool,
    /// Actions before the job.
    pub before: Before,
    /// Hint to the kernel about the order of I/Os.
    pub hint: Hint,
    /// True if the device is polled for completions, `hipri`.
    pub hipri: bool,
    /// True if a kernel thread polls for submissions, `sqthread_poll`.
    pub sqthread_poll: bool,
    /// Size of the used part of the volume.
    pub size: Option<Amount>,
    /// True if the job writes until no space is left, `fill_device=`.
    pub fill: bool,
    /// Size of each of several files, whatever `size` is for all.
    pub file_size: Option<Amount>,
    /// Amount of I/O, if it is not `size`.
    pub io_size: Option<Amount>,
    /// Offset of the part.
    pub offset: Amount,
    /// Distance between the parts of consecutive clones.
    pub offset_increment: Amount,
    /// True if the job begins at the end of the file, `file_append=`.
    pub appends: bool,
    /// Alignment of an offset in percent, rounded up; 0 for the smallest I/O size.
    pub offset_align: u64,
    /// Number of passes over the part.
    pub loops: u64,
    /// Number of clones of the job.
    pub clones: u32,
    /// Maximum run time in microseconds.
    pub runtime_us: Option<u64>,
    /// True if the job always runs for the whole time.
    pub time_based: bool,
    /// Ramp time before the measured window in microseconds.
    pub ramp_us: u64,
    /// Start delay in microseconds: each clone draws its own between the two.
    pub delay_us: (u64, u64),
    /// Name of the job that must end before this one begins.
    pub wait_for: Option<String>,
    /// True if all jobs end as soon as one does.
    pub exit_all: bool,
    /// Steady-state criterion, `steadystate=`.
    pub steady: Rest,
    /// Number of I/Os after which the job ends.
    pub most_ios: Option<u64>,
    /// True if writes are flushed at the end of the job.
    pub end_flush: bool,
    /// Distribution of random offsets.
    pub distribution: Distribution,
    /// True if random offsets may repeat before all others were visited.
    pub no_random_map: bool,
    /// Seed of every random choice.
    pub seed: Option<u64>,
    /// Maximum bytes per second in each direction.
    pub rate_bytes: Triple<u64>,
    /// Maximum IOPS in each direction.
    pub rate_ios: Triple<u64>,
    /// True if planned starts are a Poisson process.
    pub poisson: bool,
    /// Control of the running job.
    pub control: Control,
    /// Zones in sequence.
    pub zones: Zones,
    /// Verification of data.
    pub verify: Verify,
    /// Number of writes between two flushes; 0 for none.
    pub flush_every: u32,
    /// True if writes are durable before they are acknowledged.
    pub durable: bool,
    /// Data to write.
    pub data: Data,
    /// CPUs of the job.
    pub seats: Seats,
    /// True if the job waits for all previous ones.
    pub stonewall: bool,
    /// True if clones are shown as one.
    pub grouped: bool,
    /// Trace to replay instead of the job's own I/Os.
    pub replays: Replays,
    /// Logs of the job over time.
    pub logs: Logs,
    /// Figures to show.
    pub figures: Figures,
    /// Notes on settings that are not applied unchanged, including those of the defaults.
    pub notes: Vec<Note>,
}

impl Settings {
    /// Returns fio's defaults.
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

    /// Returns the queue depth of one clone: 1 with an engine that supports no more.
    pub fn in_flight(&self) -> u32 {
        if matches!(self.engine, Engine::Synchronous | Engine::Calls(_)) { 1 } else { self.depth }
    }

    /// Returns whether the part begins at a percentage of the volume.
    pub fn offset_in_percent(&self) -> bool {
        [self.offset, self.offset_increment].iter().any(|at| matches!(at, Amount::Percent(_)))
    }
}

/// CPUs that a job may use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seats {
    /// CPUs by number; empty for all.
    pub cpus: Vec<usize>,
    /// NUMA nodes whose CPUs are meant.
    pub nodes: Vec<usize>,
}

/// Memory mapping of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// True if files are mapped.
    pub on: bool,
    /// Value of `direct`, which has no effect then.
    pub direct: bool,
}

/// Actions before a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// True if files are created and not used, `create_only=`.
    pub only_made: bool,
    /// True if files are read into the page cache, `pre_read=`.
    pub read: bool,
    /// True if missing files are not created, `allow_file_create=0`.
    pub none_made: bool,
    /// True if files are removed at the end, `unlink=`.
    pub unlink: bool,
}

/// Value of `rw=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// True if the job reads.
    pub reads: bool,
    /// True if the job writes.
    pub writes: bool,
    /// True if the job trims; if it writes too, each write follows a trim.
    pub trims: bool,
    /// True if offsets are random.
    pub random: bool,
    /// Random: number of sequential I/Os from each random offset.
    pub run: u32,
    /// Sequential: bytes between the end of one I/O and the beginning of the next; negative for
    /// backward I/O.
    pub hole_bytes: i64,
}

impl Default for Mix {
    fn default() -> Mix {
        let (writes, trims, random) = (false, false, false);
        Mix { reads: true, writes, trims, random, run: 1, hole_bytes: 0 }
    }
}

/// I/O sizes of one direction, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// A fixed size.
    Fixed(u64),
    /// Every multiple of the minimum up to the maximum, with equal probability.
    Range(u64, u64),
    /// Several sizes, with the share of each, 0 to 100.
    Split(Vec<(u64, f64)>),
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes::Fixed(4096)
    }
}

/// I/O sizes of each option, for each direction. fio keeps all three: a `bs` does not override a
/// `bsrange` or `bssplit` before it.
#[derive(Clone, Debug, Default)]
pub struct Lengths {
    /// I/O sizes of `bs=`.
    pub fixed: Triple<Option<Sizes>>,
    /// I/O sizes of `bsrange=`.
    pub ranges: Triple<Option<Sizes>>,
    /// I/O sizes of `bssplit=`.
    pub splits: Triple<Option<Sizes>>,
}

impl Lengths {
    /// Returns the sizes that count: shares before ranges before a single size, as in fio.
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

/// I/O engine of fio, as far as it determines what is possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// One I/O at a time, whatever queue depth is requested.
    #[default]
    Synchronous,
    /// Several I/Os in flight in the kernel.
    Kernel,
    /// Several I/Os in flight through libaio, which blocks unless the I/O is direct.
    Libaio,
    /// NVMe commands, several in flight.
    Passthrough,
    /// No storage.
    Nothing,
    /// Calls of this kind, which move no data.
    Calls(&'static str),
    /// A volume on another host, named by a URI.
    Remote,
    /// A volume on another host, named as in SPDK's plugin.
    Spdk,
    /// A block device of SPDK's configuration.
    Bdev,
    /// A volume on another host, named by `uri=` whatever the file names are.
    Nbd,
}

impl Engine {
    /// Returns whether the engine reads and writes files or devices.
    pub fn has_files(self) -> bool {
        use Engine::{Kernel, Libaio, Passthrough, Synchronous};
        matches!(self, Synchronous | Kernel | Libaio | Passthrough)
    }
}

/// Criterion that ends a job early.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rest {
    /// Quantity, whether its slope is meant, the limit, and whether the limit is in percent.
    pub criterion: Option<(Quantity, bool, f64, bool)>,
    /// Length of the observed window in microseconds; 0 to disable the criterion.
    pub duration_us: u64,
    /// Time before the criterion applies, in microseconds.
    pub ramp_us: u64,
    /// Length of an interval in microseconds, if not a second.
    pub interval_us: Option<u64>,
}

/// Order in which several files are used, `file_service_type=`.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// In turn, with this number of I/Os on each.
    Turns(u32),
    /// At random, with this number of I/Os on each.
    Random(u32),
    /// Drawn from a distribution.
    ByLaw(Distribution),
    /// One after the other.
    OneByOne,
}

impl Default for Service {
    fn default() -> Service {
        Service::Turns(1)
    }
}

/// Hint to the kernel about the order of I/Os, `fadvise_hint=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hint {
    /// No hint.
    None,
    /// The order of `rw`.
    #[default]
    ByMix,
    /// Random.
    Random,
    /// Sequential.
    Sequential,
}

/// Distribution of random offsets.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Distribution {
    /// Uniform.
    #[default]
    Uniform,
    /// Zipf distribution with this exponent.
    Zipf(f64),
    /// Self-similar, with this share of offsets hot, 0 to 1.
    Pareto(f64),
    /// Normal distribution with this standard deviation in percent.
    Normal(f64),
    /// Zones: share of the I/Os, and space.
    Zones(Vec<(f64, Amount)>),
}

/// Verification of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verify {
    /// Method of verification; `None` without `verify=`.
    pub method: Option<Method>,
    /// True if writes are read back, `do_verify=`.
    pub reads: bool,
    /// True if the data of an earlier run are verified, and nothing is written.
    pub only: bool,
    /// Pattern of all data, `verify_pattern=`.
    pub pattern: Option<DataPattern>,
    /// Number of I/Os after which writes are read back, `verify_backlog=`; 0: at the end.
    pub backlog: u64,
}

impl Default for Verify {
    fn default() -> Verify {
        Verify { method: None, reads: true, only: false, pattern: None, backlog: 0 }
    }
}

impl Verify {
    /// Returns the method if anything is written or read to be verified: as in fio, a pattern alone
    /// is one with a header.
    pub fn method(&self) -> Option<Method> {
        let pattern = self.pattern.as_ref().map(|_| Method::PatternWithHeader);
        self.method.or(pattern).filter(|method| !matches!(method, Method::Nothing | Method::Null))
    }
}

/// Value of `verify=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// No verification.
    Nothing,
    /// Simulated verification.
    Null,
    /// Checksum in a header.
    Sum,
    /// Pattern.
    Pattern,
    /// Pattern after a header.
    PatternWithHeader,
}

/// Data to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// True for zeroes only.
    pub zeroes: bool,
    /// True if every buffer is filled again before each write.
    pub refill: bool,
    /// True if buffers are changed slightly before each write.
    pub scramble: bool,
    /// Compressible share, 0 to 100.
    pub compress_percent: u32,
    /// Share of duplicate blocks, 0 to 100.
    pub dedupe_percent: u32,
    /// Window in bytes within which the shares apply.
    pub chunk_bytes: Option<u32>,
    /// True if duplicates are drawn from a set of blocks.
    pub working_set: bool,
    /// Size of that set, in percent of `size`.
    pub working_set_percent: u32,
    /// Pattern of the compressible part, or of all data, `buffer_pattern=`.
    pub pattern: Option<DataPattern>,
}
