//! CPU placement: the cost of passing a cache line between two cores.
//!
//! Virtual machines migrate between caches while they run, and every exchange between two cores
//! then costs several times as much. Numbers are comparable only at equal placement.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use super::{latency, width};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Below this, two cores share a cache: 20 to 30 ns measured.
const NEAR_NS: f64 = 60.0;
/// Above this, they do not: 180 to 200 ns measured.
const FAR_NS: f64 = 120.0;

/// Round trips per batch: a few milliseconds.
const TRIPS: u64 = 20_000;
/// The median of this many batches is robust against an interruption.
const BATCHES: usize = 5;

/// Placement of two cores during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Sharing a cache, before and after.
    Near,
    /// Apart, before and after.
    Far,
    /// Neither near nor far, or changed during the run.
    Mixed,
    /// A single core.
    Alone,
}

/// State of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Latency of a cache line between two cores, in nanoseconds: minimum and maximum. `None` with
    /// one core.
    pub one_way_ns: Option<(f64, f64)>,
    /// Maximum latency of a load from memory, in nanoseconds.
    pub load_ns: Option<f64>,
    /// Minimum of our share of a core: see [`width`].
    pub width: Option<f64>,
}

impl State {
    /// Probes now.
    pub fn probe() -> State {
        let one_way_ns = one_way_ns().map(|ns| (ns, ns));
        State { one_way_ns, load_ns: latency::load_ns(), width: Some(width::ours()) }
    }

    /// State of a run between two probes.
    pub fn and(&self, after: &State) -> State {
        let both = self.one_way_ns.zip(after.one_way_ns);
        State {
            one_way_ns: both.map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))),
            load_ns: self.load_ns.zip(after.load_ns).map(|(a, b)| a.max(b)),
            width: self.width.zip(after.width).map(|(a, b)| a.min(b)),
        }
    }

    /// The placement of the cores.
    pub fn placement(&self) -> Placement {
        match self.one_way_ns {
            None => Placement::Alone,
            Some((_, most)) if most < NEAR_NS => Placement::Near,
            Some((least, _)) if least > FAR_NS => Placement::Far,
            Some(_) => Placement::Mixed,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.placement())?;
        if let Some(ns) = self.load_ns {
            write!(f, ", memory {ns:.0} ns")?;
        }
        self.width.map_or(Ok(()), |width| write!(f, ", width {width:.2}"))
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Placement::Near => "near",
            Placement::Far => "far",
            Placement::Mixed => "mixed",
            Placement::Alone => "alone",
        })
    }
}

/// A counter alone on its cache line, and on the one that is prefetched with it.
#[repr(align(128))]
struct Line(AtomicU64);

/// Latency of a cache line from the first core to the second, in nanoseconds. `None` with one core.
fn one_way_ns() -> Option<f64> {
    let allowed = sched_getaffinity(None).ok()?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let (first, second) = (cores.next()?, cores.next()?);
    let line = Line(AtomicU64::new(0));
    thread::scope(|scope| {
        // Threads of their own: the pinning ends with them.
        scope.spawn(|| pong(&line, second));
        scope.spawn(|| ping(&line, first)).join().ok()
    })
}

/// Makes the number odd, and waits until the other core makes it even again.
fn ping(line: &Line, core: usize) -> f64 {
    pin(core);
    let mut batches: Vec<f64> = (0..BATCHES as u64)
        .map(|batch| {
            let began = Instant::now();
            for trip in batch * TRIPS..(batch + 1) * TRIPS {
                line.0.store(2 * trip + 1, Ordering::Release);
                await_value(line, 2 * trip + 2);
            }
            began.elapsed().as_nanos() as f64 / (2 * TRIPS) as f64
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    batches[BATCHES / 2]
}

fn pong(line: &Line, core: usize) {
    pin(core);
    for trip in 0..BATCHES as u64 * TRIPS {
        await_value(line, 2 * trip + 1);
        line.0.store(2 * trip + 2, Ordering::Release);
    }
}

fn await_value(line: &Line, value: u64) {
    while line.0.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
    }
}

pub(super) fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // Without pinning the probe measures on any core, which is still a number.
    let _ = sched_setaffinity(None, &set);
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn labels_need_both_probes() {
        for (before, after, placement) in [
            (25.0, 31.0, Placement::Near),
            (190.0, 185.0, Placement::Far),
            (25.0, 190.0, Placement::Mixed),
            (90.0, 90.0, Placement::Mixed),
        ] {
            let seen = |ns| State { one_way_ns: Some((ns, ns)), load_ns: Some(ns), width: None };
            let run = seen(before).and(&seen(after));
            assert_eq!((run.placement(), run.load_ns), (placement, Some(before.max(after))));
            assert_eq!(seen(before).and(&State::default()).placement(), Placement::Alone);
        }
    }

    #[test]
    fn takes_nanoseconds() {
        if let Some(ns) = one_way_ns() {
            assert!(ns > 1.0 && ns < 1e6, "{ns}");
        }
    }
}
