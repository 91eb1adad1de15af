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
            let of = |at: &usize| self.forced_ns(*at, &workers[*at]);
            let p50_ns = seen.workers.iter().filter_map(of).min()?;
            let volatile = before.settings[index].volatile_cache == Some(true);
            let to = self.flushed_to(seen, volatile)?;
            Some(Flushed { name: seen.name.clone(), to, p50_ns })
        });
        verdict::flushed(&all.collect::<Vec<_>>())
    }

    /// Median time of what a worker forces onto the medium.
    fn forced_ns(&self, worker: usize, result: &WorkerResult) -> Option<u64> {
        let workload = &self.workloads[worker];
        let flush = result.flush.latency_ns.p50.filter(|_| flushes_writes(workload));
        let fua = result.write.latency_ns.p50.filter(|_| is_forced(workload));
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

/// Whether most flushes of a worker follow a write.
fn flushes_writes(workload: &Workload) -> bool {
    let access = &workload.access;
    let is_flush_rare = |line: &job::spec::Line| line.flush_percent <= line.write_percent();
    access.writes() && access.lines.iter().all(is_flush_rare)
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
            (flushes_writes(&workload), is_forced(&workload))
        };
        let writes = Access::new(4096, 0.0, 100.0);
        assert_eq!(of(Access { flush_every: 8, ..writes.clone() }), (true, false));
        assert_eq!(of(Access::new(4096, 100.0, 100.0)), (false, false));
        let line = |flush_percent, fua_percent| {
            Access::of(vec![Line { flush_percent, fua_percent, ..Line::new(4096, 0.0, 100.0) }])
        };
        assert_eq!(of(line(10.0, 100.0)), (true, true));
        assert_eq!(of(line(90.0, 50.0)), (false, false));
        assert_eq!(of(line(0.0, 99.0)), (true, true), "a few other writes change nothing");
    }
}
