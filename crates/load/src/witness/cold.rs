//! Reads of random places before and after a run, through lanes of their own: whether a cache
//! served the job (H25). They are in no figure of the run.

use std::sync::Arc;

use block::{Backing, Nanos};
use stats::verdict::{self, Below, Cached, Finding, JobReads, PLACES_LEAST, Probed};
use stats::{Check, Collector, Verdict};
use volume::{TimedReads, Timing, Volume, time_reads};

use super::Witness;
use super::aside::any_is_remote;
use super::seen::{Seen, looked, united};
use crate::run::Prepared;
use job::spec::Workload;

/// Time limit of all reads before a run.
const LIMIT: Nanos = Nanos::from_secs(1);
/// Time of all reads after the run, as a multiple of the time before it: these are compared too.
const AFTER: f64 = 1.5;
/// Longer reads are shortened.
const LONGEST_BYTES: u32 = 1 << 20;
/// Least share of a worker's reads that are as long as those of random places, or longer.
const LONG_SHARE: f64 = 0.2;
/// Jobs that are nearly always at random places are held against these reads.
const RANDOM_PERCENT: f64 = 90.0;

/// A volume whose places are read.
pub(super) struct Cold {
    /// Number of the volume.
    pub(super) whole: usize,
    name: String,
    volume: Arc<dyn Volume>,
    workers: Vec<usize>,
    used: Vec<(u64, u64)>,
    /// Bytes of a read.
    len: u32,
    /// Comparison with the job's reads.
    alike: Alike,
    below: Below,
    /// Places to read, and how long.
    most: u32,
    limit: Nanos,
    before: Result<TimedReads, String>,
    after: Result<TimedReads, String>,
}

/// Comparison of a job's reads with reads of random offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alike {
    /// Not at all.
    No,
    /// Both have the same length, at random offsets.
    All,
    /// Reads at random offsets, of several sizes: a fifth of each worker's, or more, are as
    /// long.
    Fifth,
}

/// State of a volume's probe.
enum Asked {
    /// Places of the volume are read.
    Read(Box<Cold>),
    /// The number of a volume that is not checked, or cannot be, with the reason.
    Not(usize, Finding),
}

/// All volumes of a run.
#[derive(Default)]
pub(super) struct Colds {
    cold: Vec<Cold>,
    others: Vec<(usize, Finding)>,
}

impl Colds {
    /// Reads every volume of a run for the first time.
    pub(super) fn look(run: &Prepared, seen: &[Seen], wanted: bool) -> Colds {
        let all = run.spec.volumes();
        let count = all.len();
        let mut colds = Colds::default();
        for (whole, workers) in all.into_iter().enumerate() {
            let parts: Vec<&Seen> = seen.iter().filter(|seen| seen.whole == whole).collect();
            match ask(run, (whole, workers), &parts, (count, wanted)) {
                Asked::Read(cold) => colds.cold.push(*cold),
                Asked::Not(whole, finding) => colds.others.push((whole, finding)),
            }
        }
        let is_remote = |cold: &&Cold| matches!(cold.below, Below::Remote { .. });
        let longest = colds.cold.iter().filter(is_remote).map(|cold| cold.len).max();
        let program_ns =
            longest.and_then(|len| os::program_round_trip(len as usize).ok()).map(|trip| trip.0);
        for cold in &mut colds.cold {
            cold.look(program_ns);
        }
        colds
    }

    /// Medium below a volume that was read, as far as it is known.
    pub(super) fn below(&self, whole: usize) -> Option<Below> {
        self.cold.iter().find(|cold| cold.whole == whole).map(|cold| cold.below)
    }

    /// Reads other places of them after the run.
    pub(super) fn look_again(&mut self) {
        for cold in &mut self.cold {
            cold.after = cold.read(false);
        }
    }
}

/// Whether a volume is to be read, and how.
fn ask(
    run: &Prepared,
    (whole, workers): (usize, Vec<usize>),
    parts: &[&Seen],
    (count, wanted): (usize, bool),
) -> Asked {
    let spec = &run.spec;
    let first = &spec.workers[workers[0]];
    let (name, volume) = (first.uri.clone(), run.volume(first).clone());
    let not = |verdict, why: &str| Asked::Not(whole, (verdict, format!("{name}: {why}")));
    if volume.emulates().is_some() {
        return not(Verdict::DoesNotApply, "an emulated drive: its model has no other cache");
    }
    if parts.iter().all(|seen| seen.is_memory() || seen.is_in_memory()) {
        return not(Verdict::DoesNotApply, "memory or null, without a cache in front of it");
    }
    // A call of the kernel in place of a read may do anything.
    match stored(&*volume) {
        [0, _] => return not(Verdict::DoesNotApply, "stores nothing"),
        [_, 0] => {}
        _ => return not(Verdict::Unknown, "a part of the volume stores nothing"),
    }
    let is_remote = any_is_remote(&*volume);
    let most = looked(count);
    match () {
        () if !wanted => {
            return not(
                Verdict::Unknown,
                "no sample reads were made for comparison \
            with the job",
            );
        }
        () if run.targets.is_some() => {
            return not(Verdict::Unknown, "its target, in this process, had no earlier I/O");
        }
        () if is_remote && matches!(volume.backing(), Backing::Memory | Backing::Nothing) => {
            return not(Verdict::Unknown, "its target reports memory as its storage");
        }
        () if most == 0 => return not(Verdict::Unknown, "too many volumes for sample reads"),
        () => {}
    }
    let geometry = volume.geometry();
    let workloads = || workers.iter().map(|index| &*spec.workers[*index].workload);
    let (len, alike) = length(workloads(), geometry.block_bytes);
    Asked::Read(Box::new(Cold {
        whole,
        used: united(workloads().map(|workload| workload.range.on(geometry))),
        len,
        alike,
        below: below(parts, is_remote),
        most,
        limit: Nanos(LIMIT.0 / count.max(1) as u64),
        before: Err("no sample reads yet".to_owned()),
        after: Err(
            "no sample reads after the run, which is not over, or was interrupted".to_owned()
        ),
        name,
        volume,
        workers,
    }))
}

/// Number of parts of a volume that store anything, and of those that store nothing.
fn stored(volume: &dyn Volume) -> [u32; 2] {
    let below = volume.below();
    if below.is_empty() {
        let nothing = volume.transport() == "local" && volume.backing() == Backing::Nothing;
        return [u32::from(!nothing), u32::from(nothing)];
    }
    let parts = below.into_iter().map(stored);
    parts.fold([0, 0], |[some, none], [more, fewer]| [some + more, none + fewer])
}

/// Bytes of a read as long as those of the job, and how it is like them.
fn length<'a>(workloads: impl Iterator<Item = &'a Workload>, block_bytes: u32) -> (u32, Alike) {
    let all: Vec<&Workload> = workloads.collect();
    let readers: Vec<&&Workload> =
        all.iter().filter(|workload| workload.access.read_percent() > 0.0).collect();
    let block = block_bytes.max(1);
    let fitting = |len: u32| len.min(LONGEST_BYTES).next_multiple_of(block);
    let long: Option<Vec<u32>> = readers.iter().map(|workload| long_bytes(workload)).collect();
    let random = readers.iter().all(|workload| is_random(workload));
    let Some(len) = long.and_then(|long| long.into_iter().min()).filter(|_| random) else {
        let mean = all.first().map_or(4096.0, |workload| workload.access.mean_bytes());
        let first = all.first().and_then(|workload| workload.access.size_bytes());
        return (fitting(first.unwrap_or(mean as u32)), Alike::No);
    };
    let same = all.iter().all(|workload| workload.access.size_bytes() == Some(len));
    match fitting(len) == len {
        false => (fitting(len), Alike::No),
        true if same => (len, Alike::All),
        true => (len, Alike::Fifth),
    }
}

/// The longest size that a fifth of a worker's reads have, or more; `None` if a trace says the
/// sizes, or too many are short.
fn long_bytes(workload: &Workload) -> Option<u32> {
    let access = &workload.access;
    if access.trace.is_some() {
        return None;
    }
    let share = |line: &job::spec::Line| line.share_percent * line.read_percent;
    let all: f64 = access.lines.iter().map(share).sum();
    let mut lines: Vec<&job::spec::Line> = access.lines.iter().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.size_bytes));
    let mut longer = 0.0;
    let mut is_enough = |line: &&&job::spec::Line| {
        longer += share(line);
        longer >= LONG_SHARE * all
    };
    lines.iter().find(|line| is_enough(line)).map(|line| line.size_bytes)
}

/// Whether a worker reads places of its own choice, also if it comes back to each some times.
fn is_random(workload: &Workload) -> bool {
    let access = &workload.access;
    let alone = access.run <= 1 || access.run_stays;
    access.trace.is_none() && access.random_percent() >= RANDOM_PERCENT && alone
}

/// Finds the storage below a volume, as far as it is known.
fn below(parts: &[&Seen], is_remote: bool) -> Below {
    if is_remote {
        return Below::Remote { wire_ns: None, program_ns: None };
    }
    let disk = |seen: &&Seen| {
        let file = seen.file().filter(|file| file.stack.hidden().is_none())?;
        let real = |device: &os::Device| !device.is_virtual() && !device.has_thread();
        (file.device.is_some() && file.stack.devices.iter().all(real)).then_some(seen.turns?)
    };
    let turns: Option<Vec<bool>> = parts.iter().map(disk).collect();
    match turns {
        Some(turns) if turns.iter().all(|turns| *turns) => Below::Turns,
        Some(_) => Below::Solid,
        None => Below::Hidden,
    }
}

impl Cold {
    fn read(&self, beside: bool) -> Result<TimedReads, String> {
        let Cold { used, len, most, .. } = self;
        let share = if beside { 1.0 } else { AFTER };
        let limit = Nanos((self.limit.0 as f64 * share) as u64);
        let known = match &self.before {
            Ok(timed) => &timed.held[..],
            Err(_) => &[],
        };
        let timing = Timing { used, len: *len, most: *most, beside, limit, known };
        time_reads(&*self.volume, &timing).map_err(|error| format!("sample reads failed: {error}"))
    }

    fn look(&mut self, program_ns: Option<u64>) {
        self.before = self.read(true);
        if let (Below::Remote { .. }, Ok(timed)) = (self.below, &self.before) {
            self.below = Below::Remote { wire_ns: timed.wire_ns, program_ns };
        }
    }

    /// Times of the job's reads, from the worker with the shortest.
    fn job(&self, collected: &Collector) -> JobReads {
        let workers = collected.workers();
        let reads = || self.workers.iter().map(|at| &workers[*at].read.latency_ns);
        match self.alike {
            Alike::No => JobReads::Unlike,
            Alike::All => JobReads::Like { p50_ns: reads().filter_map(|all| all.p50).min() },
            Alike::Fifth => JobReads::Mixed { p90_ns: reads().filter_map(|all| all.p90).min() },
        }
    }

    fn cached(&self, collected: &Collector) -> Cached {
        let probed = self.before.clone().and_then(|timed| {
            let TimedReads { first_ns, again_ns, unused_ns, .. } = timed;
            let TimedReads { first_ns: after_ns, again_ns: after_again_ns, .. } =
                self.after.clone()?;
            Ok(Probed { first_ns, again_ns, unused_ns, after_ns, after_again_ns })
        });
        Cached {
            name: self.name.clone(),
            used_bytes: self.used.iter().map(|(_, length)| length).sum(),
            below: self.below,
            job: self.job(collected),
            probed,
        }
    }
}

impl Witness {
    /// Reads the volumes once more, when nothing of the run is in flight.
    pub(crate) fn look_again(&self) {
        self.colds.borrow_mut().look_again();
    }

    /// H25: no cache served the job.
    pub(super) fn cache(&self, collected: &Collector) -> Check {
        let colds = self.colds.borrow();
        let cached: Vec<Cached> = colds.cold.iter().map(|cold| cold.cached(collected)).collect();
        verdict::cache(&cached, colds.others.iter().map(|(_, finding)| finding.clone()).collect())
    }

    /// Number of offsets that were read before and after a job that does not write them, and number
    /// of those that changed; `None` where one volume was not, or too few places.
    pub(super) fn kept(&self) -> Option<[u32; 2]> {
        let colds = self.colds.borrow();
        let one = |cold: &Cold| {
            let [before, after] = [&cold.before, &cold.after].map(|it| it.as_ref().ok());
            let (before, after) = (before?, after?);
            (after.compared >= PLACES_LEAST as u32)
                .then_some([after.compared, before.changed + after.changed])
        };
        let all: Option<Vec<[u32; 2]>> = colds.cold.iter().map(one).collect();
        let sum = |[a, b]: [u32; 2], [c, d]: [u32; 2]| [a + c, b + d];
        all.filter(|_| colds.others.is_empty())?.into_iter().reduce(sum)
    }

    /// Verdict of H25 on this volume, or on the one it is a part of; `None` if none was probed.
    pub(super) fn served_by_cache(&self, seen: &Seen, collected: &Collector) -> Option<Verdict> {
        let colds = self.colds.borrow();
        let cold = colds.cold.iter().find(|cold| cold.whole == seen.whole);
        cold.map(|cold| cold.cached(collected).judge().0)
    }
}

#[cfg(test)]
mod test {
    use job::spec::{Access, Line};

    use super::*;

    fn workload(access: Access) -> Workload {
        Workload::new(access, 1)
    }

    #[test]
    fn what_stores_nothing_is_never_read() {
        let of = |uri: &str| {
            let uri: volume::Uri = uri.parse().unwrap();
            stored(&*volume::open(&uri, volume::Purpose::Read).unwrap())
        };
        assert_eq!(of("null:1m"), [0, 1]);
        assert_eq!(of("ram:1m"), [1, 0]);
        assert_eq!(of("stripe:64k(ram:1m,null:1m)"), [1, 1]);
    }

    #[test]
    fn reads_are_as_long_as_those_of_the_job() {
        let of = |all: &[Access]| {
            let all: Vec<Workload> = all.iter().cloned().map(workload).collect();
            length(all.iter(), 512)
        };
        use Alike::{All, Fifth, No};
        assert_eq!(of(&[Access::new(8192, 100.0, 100.0)]), (8192, All));
        assert_eq!(of(&[Access::new(8192, 100.0, 0.0)]), (8192, No), "in sequence");
        assert_eq!(of(&[Access::new(8192, 0.0, 100.0)]), (8192, No), "only written");
        let mix = |shares: [f64; 2]| {
            let line =
                |size, share_percent| Line { share_percent, ..Line::new(size, 100.0, 100.0) };
            of(&[Access::of(vec![line(4096, shares[0]), line(65_536, shares[1])])])
        };
        assert_eq!(mix([80.0, 20.0]), (65_536, Fifth));
        assert_eq!(mix([85.0, 15.0]), (4096, Fifth), "too few are long");
        let two = [Access::new(8192, 100.0, 100.0), Access::new(512, 100.0, 100.0)];
        assert_eq!(of(&two), (512, Fifth), "each worker is held against the shorter");
        assert_eq!(of(&[Access::new(4 << 20, 100.0, 100.0)]), (1 << 20, No));
        let stays = Access { run: 8, run_stays: true, ..Access::new(4096, 100.0, 100.0) };
        assert_eq!(of(std::slice::from_ref(&stays)), (4096, All));
        assert_eq!(of(&[Access { run_stays: false, ..stays }]), (4096, No));
    }
}
