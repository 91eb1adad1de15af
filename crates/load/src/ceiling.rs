//! The generator's ceiling: the same workload on null volumes, for honesty check H10.
//!
//! The opener of volumes calls [`stand_ins`], opens a null volume of each geometry, and runs the
//! result of [`on_stand_ins`] right after the judged run: on the same cores, with the same queue
//! depth, pattern and recording.

use std::sync::Arc;

use block::Geometry;
use volume::Volume;

use crate::run::Prepared;
use job::spec::{Pacing, Range, RunSpec, When, Workload};

/// Length of the window: a generator that waits for nothing settles in milliseconds.
pub const SECONDS: f64 = 2.0;
/// Ramp: warms up pages, caches and the CPU's clock.
const RAMP_SECONDS: f64 = 0.5;
/// IOPS of a worker beyond any generator.
const UNREACHABLE_PER_S: f64 = 1e9;
/// Bytes stored per volume in verifying runs, and in total, unless the I/Os in flight need more.
const KEPT_BYTES: (u64, u64) = (64 << 20, 1 << 30);

/// A stand-in for a volume of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct StandIn {
    /// URI of the volume.
    pub uri: String,
    /// The group of its first worker: its volumes may be striped.
    pub group: usize,
    /// Geometry.
    pub geometry: Geometry,
    /// Whether the stand-in must store data, because reads are verified.
    pub keeps: bool,
}

/// Stand-ins for a run's volumes, each once, in order of their first workers.
pub fn stand_ins(run: &Prepared) -> Vec<StandIn> {
    let spec = &run.spec;
    let volumes = spec.volumes();
    let share = KEPT_BYTES.1 / volumes.len().max(1) as u64;
    let one = |workers: &Vec<usize>| {
        let first = &spec.workers[workers[0]];
        let workloads = || workers.iter().map(|index| &*spec.workers[*index].workload);
        let real = run.volume(first).geometry();
        let keeps = workloads().any(|workload| workload.verify.is_some());
        let bytes = match keeps {
            false => real.bytes(),
            // Overlapping writes wait for each other: leave room for twice the I/Os in flight.
            true => {
                let in_flight: u64 = workloads().map(in_flight_bytes).sum();
                let used = workloads().map(|workload| workload.range.on(real).1).max();
                used.unwrap_or(0).min(KEPT_BYTES.0.min(share).max(2 * in_flight))
            }
        };
        let geometry = Geometry::new(bytes, real.block_bytes);
        StandIn { uri: first.uri.clone(), group: first.shift.group, geometry, keeps }
    };
    volumes.iter().map(one).collect()
}

fn in_flight_bytes(workload: &Workload) -> u64 {
    u64::from(workload.outstanding) * u64::from(workload.access.longest_bytes())
}

/// The run on `volumes`, in the order of [`stand_ins`].
pub fn on_stand_ins(run: &Prepared, stand_ins: &[(StandIn, Arc<dyn Volume>)]) -> Prepared {
    let mut bare = RunSpec {
        seconds: SECONDS,
        ramp_seconds: RAMP_SECONDS,
        ends_with_first: false,
        steady: None,
        ledgers: None,
        ..run.spec.clone()
    };
    for (number, (workers, (stand_in, _))) in run.spec.volumes().iter().zip(stand_ins).enumerate() {
        for index in workers {
            let worker = &mut bare.workers[*index];
            worker.volume = number;
            worker.workload = Arc::new(unbound(&worker.workload, stand_in.keeps));
            // All at once, on the same CPUs.
            worker.shift.when = When::default();
            worker.shift.after.clear();
            worker.shift.cache = Default::default();
        }
    }
    let volumes = stand_ins.iter().map(|(_, volume)| Arc::clone(volume)).collect();
    Prepared { spec: bare, volumes, targets: None }
}

/// The workload without limits: unreachable rates, no pauses, no ends.
fn unbound(workload: &Workload, keeps: bool) -> Workload {
    let mut free = workload.clone();
    match &mut free.pacing {
        Pacing::Closed => {}
        Pacing::Ios { per_second, .. } => *per_second = UNREACHABLE_PER_S,
        Pacing::Bytes { per_second, .. } => {
            *per_second = UNREACHABLE_PER_S * f64::from(workload.access.longest_bytes());
        }
    }
    if let Some(replay) = &mut free.access.trace {
        replay.endless = true;
    }
    free.access.lines.iter_mut().for_each(|line| line.delay_us = 0);
    // A limit that is never reached still has to be counted.
    free.limit_bytes = free.limit_bytes.map(|_| u64::MAX);
    free.limit_ios = free.limit_ios.map(|_| u64::MAX);
    free.end_flush = false;
    (free.think, free.demands, free.depth_search, free.flow) = (None, None, None, None);
    if keeps {
        free.range = Range::WHOLE;
    }
    if let Some(verify) = &mut free.verify {
        // No earlier run wrote to a stand-in.
        (verify.fill, verify.earlier) = (true, false);
    }
    free
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::run::on;
    use job::spec::{Access, Arrivals, Extent, Line, Verify, WorkerSpec};
    use volume::Purpose;

    fn prepared(workloads: &[Workload]) -> Prepared {
        let worker = |workload: &Workload| WorkerSpec::new(workload.clone());
        let workers = workloads.iter().map(worker).collect();
        let (seconds, ramp_seconds, seed, cores) = (100.0, 50.0, 7, vec![0]);
        on("null:1t", RunSpec { workers, seconds, ramp_seconds, seed, cores, ..RunSpec::default() })
    }

    fn bare(run: &Prepared) -> Prepared {
        let open = |stand_in: StandIn| {
            let uri = format!("null:{}", stand_in.geometry.bytes());
            (stand_in, volume::open(&uri.parse().unwrap(), Purpose::Read).unwrap())
        };
        on_stand_ins(run, &stand_ins(run).into_iter().map(open).collect::<Vec<_>>())
    }

    #[test]
    fn the_same_is_done_as_fast_as_it_goes() {
        let mut line = Line::new(4096, 70.0, 100.0);
        line.delay_us = 500;
        let closed = Workload::new(Access::of(vec![line]), 32);
        let mut open = Workload::new(Access::of(vec![Line::new(512, 100.0, 0.0)]), 8);
        open.pacing = Pacing::Ios { per_second: 10.0, arrivals: Arrivals::Poisson };
        open.limit_bytes = Some(4096);
        open.range = Range { start: Extent::Percent(50.0), length: None };
        let run = prepared(&[closed.clone(), open.clone()]);
        assert_eq!(stand_ins(&run).len(), 1, "they share a volume");
        let Prepared { spec: bare, volumes, .. } = bare(&run);
        let spec = &run.spec;
        assert_eq!((bare.seconds, &bare.cores, bare.seed), (SECONDS, &spec.cores, spec.seed));
        let [first, second] = [0, 1].map(|index| (*bare.workers[index].workload).clone());
        assert_eq!(first.access.lines[0].delay_us, 0);
        assert_eq!((first.outstanding, &first.pacing), (32, &Pacing::Closed));
        let arrivals = Arrivals::Poisson;
        assert_eq!(second.pacing, Pacing::Ios { per_second: UNREACHABLE_PER_S, arrivals });
        assert_eq!(second.limit_bytes, Some(u64::MAX));
        assert_eq!((second.range, second.access), (open.range, open.access));
        assert_eq!(volumes[0].geometry(), run.volumes[0].geometry());
    }

    #[test]
    fn data_that_are_compared_are_kept_in_little_memory() {
        let mut verified = Workload::new(Access::of(vec![Line::new(4096, 70.0, 100.0)]), 32);
        verified.verify = Some(Verify { fill: false, sample_percent: 50.0, ..Verify::default() });
        verified.range = Range { start: Extent::Bytes(1 << 30), length: None };
        let run = prepared(&[verified.clone()]);
        let [stand_in] = &stand_ins(&run)[..] else { panic!("one volume") };
        assert!(stand_in.keeps);
        assert_eq!(stand_in.geometry.bytes(), 64 << 20);
        let bare = bare(&run).spec;
        let workload = &bare.workers[0].workload;
        assert_eq!(workload.verify, Some(Verify { sample_percent: 50.0, ..Verify::default() }));
        assert_eq!(workload.range, Range::WHOLE);
        // A high queue depth needs more room; a small range no more than it has.
        verified.outstanding = 65_536;
        assert_eq!(stand_ins(&prepared(&[verified.clone()]))[0].geometry.bytes(), 512 << 20);
        verified.range.length = Some(Extent::Bytes(1 << 20));
        assert_eq!(stand_ins(&prepared(&[verified]))[0].geometry.bytes(), 1 << 20);
    }
}
