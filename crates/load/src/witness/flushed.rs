//! Times after which what a job flushes is on its medium (H18).

use block::Backing;
use job::spec::Workload;
use stats::verdict::{self, Below, Flushed, FlushedTo};
use stats::{Check, Collector, WorkerResult};

use super::Witness;
use super::aside::all_are_remote;
use super::moment::Moment;
use super::seen::Seen;

/// Least share of writes with FUA whose time is that of FUA: the other writes are sooner at best.
const FORCED_PERCENT: f64 = 75.0;

impl Witness {
    /// H18, for volatile caches that are flushed sooner than any medium writes.
    pub(super) fn flushed(&self, before: &Moment, collected: &Collector) -> Option<Check> {
        let workers = collected.workers();
        let all = self.volumes.iter().enumerate().filter_map(|(index, seen)| {
            let of = |at: &usize| self.forced(*at, &workers[*at]);
            let all: Vec<Forced> = seen.workers.iter().filter_map(of).collect();
            let took = all.iter().filter_map(|one| match one {
                Forced::Took(ns) => Some(*ns),
                Forced::TooRare => None,
            });
            let took_ns = took.min();
            if all.is_empty() {
                return None;
            }
            let volatile = before.settings[index].volatile_cache == Some(true);
            let to = self.flushed_to(seen, volatile)?;
            Some(Flushed { name: seen.name.clone(), to, took_ns })
        });
        verdict::flushed(&all.collect::<Vec<_>>())
    }

    /// Time that half of what a worker forces onto the medium takes at most; `None` if it forces
    /// nothing.
    fn forced(&self, worker: usize, result: &WorkerResult) -> Option<Forced> {
        let workload = &self.workloads[worker];
        let of = &result.flush.latency_ns;
        let flush = match followers(workload)? {
            Followers::Most => of.p50.map(Forced::Took),
            // Flushes that follow a write are the slow ones: half of them are beyond this quantile.
            Followers::Share(share) => {
                let quantiles = [(0.2, of.p90), (0.02, of.p99), (0.002, of.p99_9)];
                let supported = quantiles.into_iter().find(|(least, _)| share >= *least);
                Some(supported.and_then(|(_, ns)| ns).map_or(Forced::TooRare, Forced::Took))
            }
            Followers::None => None,
        };
        let fua = result.write.latency_ns.p50.filter(|_| is_forced(workload)).map(Forced::Took);
        flush.into_iter().chain(fua).min()
    }

    /// The medium below a volatile cache; `None` without such a cache, and where nothing is known.
    fn flushed_to(&self, seen: &Seen, volatile: bool) -> Option<FlushedTo> {
        if let Some(file) = seen.file() {
            let device = file.device.as_ref().filter(|_| volatile && !seen.is_in_memory())?;
            return Some(match seen.turns {
                _ if device.is_virtual() || device.has_thread() => FlushedTo::Hidden,
                Some(true) => FlushedTo::Turns,
                Some(false) => FlushedTo::Solid,
                None => FlushedTo::Hidden,
            });
        }
        let keeps = !matches!(seen.volume.backing(), Backing::Memory | Backing::Nothing);
        let says = seen.volume.geometry().volatile && all_are_remote(&*seen.volume);
        let wire = match self.colds.borrow().below(seen.whole)? {
            Below::Remote { wire_ns, .. } => wire_ns,
            _ => None,
        };
        wire.filter(|_| keeps && says).map(|wire_ns| FlushedTo::Remote { wire_ns })
    }
}

/// Known time of the writes and flushes that a worker forces onto the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Forced {
    /// Half of it takes at most this many nanoseconds.
    Took(u64),
    /// Most flushes follow no write, and too few were measured.
    TooRare,
}

/// Flushes of a worker that follow a write.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Followers {
    /// Most.
    Most,
    /// At least this share.
    Share(f64),
    /// No flush.
    None,
}

/// Flushes of a worker that follow a write; `None` if it writes nothing.
fn followers(workload: &Workload) -> Option<Followers> {
    let access = &workload.access;
    if !access.writes() {
        return None;
    }
    let is_rare = |line: &job::spec::Line| line.flush_percent <= line.write_percent();
    if access.lines.iter().all(is_rare) {
        return Some(Followers::Most);
    }
    let sum = |of: &dyn Fn(&job::spec::Line) -> f64| -> f64 {
        access.lines.iter().map(|line| line.share_percent * of(line)).sum()
    };
    let (writes, flushes) = (sum(&|line| line.write_percent()), sum(&|line| line.flush_percent));
    // The next flush after a write; half of that where several are in flight, since one flush
    // covers all writes before it.
    let share = writes / (writes + flushes) / 2.0;
    Some(if share > 0.0 { Followers::Share(share) } else { Followers::None })
}

/// Whether enough writes are on the medium before they are acknowledged that half of all writes
/// cannot be sooner than a third of these.
fn is_forced(workload: &Workload) -> bool {
    let access = &workload.access;
    access.writes() && access.lines.iter().all(|line| line.fua_percent >= FORCED_PERCENT)
}

#[cfg(test)]
mod test {
    use job::spec::{Access, Line};

    use super::*;

    #[test]
    fn what_is_forced_onto_a_medium_is_known_by_the_job() {
        let of = |access: Access| {
            let workload = Workload::new(access, 1);
            (followers(&workload), is_forced(&workload))
        };
        let most = Some(Followers::Most);
        let writes = Access::new(4096, 0.0, 100.0);
        assert_eq!(of(Access { flush_every: 8, ..writes.clone() }), (most, false));
        assert_eq!(of(Access::new(4096, 100.0, 100.0)), (None, false));
        let line = |flush_percent, fua_percent| {
            Access::of(vec![Line { flush_percent, fua_percent, ..Line::new(4096, 0.0, 100.0) }])
        };
        assert_eq!(of(line(10.0, 100.0)), (most, true));
        let (Some(Followers::Share(share)), false) = of(line(90.0, 50.0)) else {
            panic!("nine flushes for each write")
        };
        assert!((share - 0.05).abs() < 1e-9, "{share}");
        assert_eq!(of(line(0.0, 99.0)), (most, true), "a few other writes change nothing");
    }
}
