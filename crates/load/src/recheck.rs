//! Rechecks volumes without I/O, such as after a crash: does each hold the data of a verified run?
//! Runs that only wrote are checked in this way after they end, which decides H05.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use block::{Arena, Buf, Cause, Fault, Io, Lane, Nanos, Op, Pool, Rng, Tag};
use os::Core;
use stats::RunResult;

use crate::judge;
use crate::ledger::{Finding, Ledger};
use crate::run::Prepared;
use crate::runner::{RunError, ledger_path};
use job::spec::Workload;

/// Reads in flight.
const OUTSTANDING: usize = 32;
/// Length of a read, unless a block is longer.
const READ_BYTES: u64 = 256 << 10;
/// Findings listed in full.
const EXAMPLES: usize = 20;
/// Reads of a sample, of each volume.
const SAMPLE_READS: u64 = 1024;
/// Time-out without any completion.
const PATIENCE: Nanos = Nanos::from_secs(60);

/// Volumes to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// All volumes that a verified run wrote.
    All,
    /// Volumes that were written for verification and that the run did not read.
    Unread,
    /// Unread volumes, by at most 1024 reads at random places.
    UnreadSample,
}

/// The result of one volume.
#[derive(Clone, Debug, Default)]
pub struct Recheck {
    /// URI.
    pub uri: String,
    /// Block length: all I/Os of the run were multiples of it.
    pub block_bytes: u64,
    /// Blocks compared.
    pub compared: u64,
    /// Blocks that the run never wrote; they may hold anything.
    pub never_written: u64,
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// The first failed read, and why.
    pub unreadable_first: Option<String>,
    /// Number of lost, stale, torn, foreign blocks.
    pub found: BTreeMap<&'static str, u64>,
    /// The first findings.
    pub examples: Vec<Finding>,
}

impl Recheck {
    /// Whether all acknowledged data is there.
    pub fn is_right(&self) -> bool {
        self.found.is_empty() && self.unreadable == 0
    }

    /// Returns the number of blocks without the acknowledged data, or unreadable.
    pub(crate) fn wrong(&self) -> u64 {
        self.found.values().sum::<u64>() + self.unreadable
    }
}

/// Judges H05 of a run again, with the data read from its volumes after its end.
pub fn judge_read_back(run: &Prepared, found: &[Recheck], result: &mut RunResult) {
    let before = result.checks.iter().find(|check| check.code == "H05").cloned();
    let check = before.and_then(|before| judge::read_back(&run.spec, &before, found));
    if let Some(check) = check {
        result.set_check(check);
    }
}

/// Reads every block of the `asked` verified volumes of `run`, and compares it with the ledgers
/// that the run left in `folder`.
///
/// Acknowledged data must be there. On a volume with a volatile cache a power cut may lose it
/// legally, unless the run used FUA (`fua_percent = 100`).
pub fn recheck(run: &Prepared, folder: &Path, asked: Asked) -> Result<Vec<Recheck>, RunError> {
    let spec = &run.spec;
    let core = Core::open(Pool::new(64, 64)).map_err(|error| RunError::Open(error.to_string()))?;
    let mut all = Vec::new();
    for (number, workers) in spec.volumes().into_iter().enumerate() {
        let workloads: Vec<&Workload> =
            workers.iter().map(|index| &*spec.workers[*index].workload).collect();
        let wanted = |workload: &&Workload| match asked {
            Asked::All => workload.has_ledger(),
            Asked::Unread | Asked::UnreadSample => workload.is_unread(),
        };
        if !workloads.iter().any(wanted) {
            continue;
        }
        let worker = &spec.workers[workers[0]];
        let path = ledger_path(folder, number);
        let geometry = run.volume(worker).geometry();
        let ledger = Ledger::reopen(&workloads, geometry, spec.seed, &path);
        let ledger =
            ledger.map_err(|error| RunError::Ledger { path: path.display().to_string(), error })?;
        let lane =
            run.volume(worker).lane(&core).map_err(|error| RunError::Open(error.to_string()))?;
        let mut pass = Pass::new(lane, Arc::new(ledger), worker.uri.clone())
            .map_err(|error| RunError::Open(format!("no memory for buffers: {error}")))?;
        if asked == Asked::UnreadSample {
            pass.sample(SAMPLE_READS, Rng::new(os::random(), 0));
        }
        pass.run(&core)?;
        all.push(pass.result);
    }
    Ok(all)
}

/// A pass over one volume.
struct Pass {
    lane: Box<dyn Lane>,
    ledger: Arc<Ledger>,
    bufs: Vec<Option<Buf>>,
    /// Offset and length of the read in each slot.
    reads: Vec<(u64, u32)>,
    free: Vec<usize>,
    next: u64,
    end: u64,
    read_bytes: u64,
    /// Bytes of a part, in each of which one read is drawn; without, all are read.
    sampled: Option<(u64, Rng)>,
    result: Recheck,
}

impl Pass {
    fn new(lane: Box<dyn Lane>, ledger: Arc<Ledger>, uri: String) -> std::io::Result<Pass> {
        let unit = ledger.unit_bytes();
        let read_bytes = (READ_BYTES / unit).max(1) * unit;
        let (next, end) = ledger.range();
        let bufs = Arena::cut(OUTSTANDING, read_bytes as usize)?.into_iter().map(Some).collect();
        Ok(Pass {
            lane,
            ledger,
            bufs,
            reads: vec![(0, 0); OUTSTANDING],
            free: (0..OUTSTANDING).collect(),
            next,
            end,
            read_bytes,
            sampled: None,
            result: Recheck { uri, block_bytes: unit, ..Recheck::default() },
        })
    }

    /// Reads random offsets, one in each of `reads` equal parts of the range, if it has more.
    fn sample(&mut self, reads: u64, rng: Rng) {
        let all = (self.end - self.next).div_ceil(self.read_bytes);
        let part = all.div_ceil(reads.max(1)).max(1) * self.read_bytes;
        self.sampled = (part > self.read_bytes).then_some((part, rng));
    }

    fn run(&mut self, core: &Core) -> Result<(), RunError> {
        let (mut batch, mut done, mut ready) = (VecDeque::new(), Vec::new(), Vec::new());
        let mut last = core.now();
        while self.next < self.end || self.free.len() < OUTSTANDING {
            let now = core.now();
            self.lane.poll(now, &mut done);
            for one in done.drain(..) {
                last = now;
                let index = one.tag.0 as usize;
                self.free.push(index);
                if one.result.is_err_and(Fault::is_lost) {
                    let why = self.lane.broken().unwrap_or("connection lost");
                    return Err(RunError::Open(format!("{}: {why}", self.result.uri)));
                }
                if let Err(fault) = one.result {
                    self.fail(index, fault, one.cause);
                }
                self.compare(index, one.buf.as_deref().filter(|_| one.result.is_ok()));
                self.bufs[index] = one.buf;
            }
            self.start(&mut batch);
            self.lane.submit(now, &mut batch);
            if now.since(last) > PATIENCE {
                let why = "timed out after 60 s";
                return Err(RunError::Open(format!("{}: {why}", self.result.uri)));
            }
            let soon = now + Nanos::from_millis(100);
            let wake = self.lane.wake().map_or(soon, |wake| wake.min(soon));
            core.turn(Some(wake), &mut ready)
                .map_err(|error| RunError::Open(format!("io_uring: {error}")))?;
            ready.clear();
        }
        Ok(())
    }

    fn start(&mut self, batch: &mut VecDeque<Io>) {
        while self.next < self.end {
            let Some(index) = self.free.pop() else { return };
            let (mut offset, mut next) = (self.next, self.next + self.read_bytes);
            if let Some((part, rng)) = &mut self.sampled {
                next = self.next + *part;
                let places = (next.min(self.end) - offset).div_ceil(self.read_bytes);
                offset += rng.below(places) * self.read_bytes;
            }
            let len = self.read_bytes.min(self.end - offset) as u32;
            self.next = next.min(self.end);
            self.reads[index] = (offset, len);
            let (tag, buf) = (Tag(index as u64), self.bufs[index].take());
            batch.push_back(Io { tag, op: Op::Read, offset, len, fua: false, buf });
        }
    }

    #[cold]
    fn fail(&mut self, index: usize, fault: Fault, cause: Cause) {
        let (offset, len) = self.reads[index];
        let why = || self.lane.words_of(cause).unwrap_or_else(|| fault.to_string());
        let words = || format!("{len} bytes at offset {offset}: {}", why());
        self.result.unreadable_first.get_or_insert_with(words);
    }

    fn compare(&mut self, index: usize, data: Option<&[u8]>) {
        let (offset, len) = self.reads[index];
        let unit = self.ledger.unit_bytes() as usize;
        let Some(data) = data else {
            self.result.unreadable += u64::from(len).div_ceil(unit as u64);
            return;
        };
        for (place, block) in (offset..).step_by(unit).zip(data[..len as usize].chunks(unit)) {
            if !self.ledger.is_written(place) {
                self.result.never_written += 1;
                continue;
            }
            self.result.compared += 1;
            if let Some(finding) = self.ledger.check_at_rest(block, place) {
                *self.result.found.entry(finding.kind.word()).or_default() += 1;
                if self.result.examples.len() < EXAMPLES {
                    self.result.examples.push(finding);
                }
            }
        }
    }
}
