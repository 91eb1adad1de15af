//! Evidence of the host about a run: whether the data read exists, what devices counted, what
//! interfered. The runner collects it before the run and at both ends of the measured window;
//! [`stats::verdict`] judges it.

use std::cell::RefCell;
use std::sync::Arc;

use os::{Clock, counters};
use stats::verdict::{self, Opened, Readable, Window};
use stats::{Check, Collector, Cpu, DeviceUse, KernelThread};
use volume::Volume;

use self::moment::{Glanced, busy_threads, retransmitted};
use self::seen::{Seen, beneath};
use crate::run::Prepared;

mod bounds;
mod devices;
mod media;
mod moment;
mod seen;

pub(crate) use self::moment::Moment;

/// Evidence from before a run.
pub(crate) struct Witness {
    volumes: Vec<Seen>,
    /// Length of the measurement; 0 without one.
    asked_s: f64,
    /// All of the workers' I/O in that time is measured: none has a ramp of its own.
    counts_all: bool,
    /// CPUs of the run.
    cores: Vec<usize>,
    /// Targets are in this process.
    has_targets: bool,
    /// Bytes of the largest CPU cache.
    cache_bytes: Option<u64>,
    /// Bytes of memory available to the page cache.
    memory_bytes: u64,
    /// Evidence from within the window.
    glanced: RefCell<Glanced>,
}

/// The result.
pub(crate) struct Testimony {
    /// Checks that need nothing else.
    pub(crate) checks: Vec<Check>,
    /// How often a CPU quota throttled us.
    pub(crate) throttled: Option<u64>,
    /// Retransmitted TCP segments of the host, in percent.
    pub(crate) retransmitted_percent: Option<f64>,
    /// Busy kernel threads, the busiest first.
    pub(crate) threads: Vec<KernelThread>,
    /// Use of the devices, by name.
    pub(crate) devices: Vec<DeviceUse>,
}

impl Witness {
    /// Looks at every volume of a run: data must exist before the first read.
    pub(crate) fn look(run: &Prepared) -> Witness {
        let spec = &run.spec;
        let all = spec.volumes();
        let count = all.len();
        let seen = all.into_iter().enumerate();
        let seen = seen.flat_map(|(whole, workers)| Seen::all(run, whole, workers, count));
        let counts_all = spec.workers.iter().all(|worker| worker.shift.when.ramp_seconds == 0.0);
        let targets = run.targets.iter().flat_map(|targets| &targets.cores);
        let mut cores: Vec<usize> = spec.cores.iter().chain(targets).copied().collect();
        cores.sort_unstable();
        cores.dedup();
        Witness {
            volumes: seen.collect(),
            asked_s: spec.seconds,
            counts_all,
            cores,
            has_targets: run.targets.is_some(),
            cache_bytes: os::cpu::cache_bytes(),
            memory_bytes: memory_bytes(),
            glanced: RefCell::default(),
        }
    }

    /// The counters now.
    pub(crate) fn now(&self) -> Moment {
        Moment::of(&self.volumes, &self.cores)
    }

    /// Looks once more within the window that began at `before`: a setting changed and restored
    /// shows at neither end.
    pub(crate) fn glance(&self, before: &Moment) {
        self.glanced.borrow_mut().glance(before, &self.volumes, &self.cores);
    }

    /// The evidence of the window between two moments. `collected` is our own count.
    pub(crate) fn testify(
        &self,
        before: &Moment,
        after: &Moment,
        collected: &Collector,
        cpu: &Cpu,
    ) -> Testimony {
        let moved = self.moved(collected);
        let measured_s = collected.totals().seconds;
        let stopped_s = collected.stopped_s();
        let window = Window { asked_s: self.asked_s, measured_s, stopped_s };
        let mut checks = vec![
            verdict::data_exists(&self.readable()),
            clock(cpu.core_us_per_io, Some(window)),
            verdict::repeats(&[(collected.totals().iops, measured_s)]),
        ];
        checks.extend(verdict::direct_io(&self.opened(before, after, &moved)));
        if self.counts_all {
            checks.extend(self.counters(before, after, &moved));
        }
        let limits = self.throttles((before, Some(after)), Some(collected));
        checks.extend(verdict::block_layer(&self.disks(before, Some(after)), &limits));
        checks.extend(self.content());
        checks.extend(self.preconditioning(before));
        checks.extend(self.working_set());
        checks.extend(self.distinct());
        checks.extend(self.quota(before, Some(cpu)));
        checks.extend(self.frequency(before, after));
        checks.extend(self.placement());
        checks.extend(self.shared(before, after, &moved, measured_s));
        checks.extend(self.one_medium());
        let pair = before.throttled.zip(after.throttled);
        Testimony {
            checks,
            throttled: pair.map(|(before, after)| after.saturating_sub(before)),
            retransmitted_percent: retransmitted(before.segments, after.segments),
            threads: busy_threads(before, after, measured_s),
            devices: self.devices(before, after, measured_s),
        }
    }

    fn readable(&self) -> Vec<Readable> {
        let one = |seen: &Seen| {
            let (name, existence) = (seen.name.clone(), seen.existence.clone());
            Readable { name, existence, reads: seen.reads }
        };
        self.volumes.iter().map(one).collect()
    }

    /// Bytes read and written by each volume's workers.
    fn moved(&self, collected: &Collector) -> Vec<[u64; 2]> {
        let workers = collected.workers();
        let sum = |seen: &Seen| {
            let done = seen.workers.iter().map(|index| &workers[*index]);
            let whole = done.fold([0; 2], |[read, written], worker| {
                [read + worker.read.bytes, written + worker.write.bytes]
            });
            seen.part_of(whole)
        };
        self.volumes.iter().map(sum).collect()
    }

    fn opened(&self, before: &Moment, after: &Moment, moved: &[[u64; 2]]) -> Vec<Opened> {
        let files = self.volumes.iter().enumerate();
        let files = files.filter_map(|(index, seen)| Some((index, seen, seen.file()?)));
        files
            .map(|(index, seen, file)| {
                let pair = before.cached[index].zip(after.cached[index]);
                Opened {
                    name: seen.name.clone(),
                    asked: file.asked_direct,
                    had: file.direct,
                    beneath: beneath(file),
                    cache_growth_bytes: pair.map(|(before, after)| after as i64 - before as i64),
                    moved_bytes: Some(moved[index].iter().sum()),
                }
            })
            .collect()
    }
}

/// Checks of volumes and their host that are possible before a run. Reads only a few blocks of
/// devices.
pub fn inspect(opened: &[(String, Arc<dyn Volume>)]) -> Vec<Check> {
    let witness = Witness {
        volumes: (0..)
            .zip(opened)
            .flat_map(|(whole, (name, volume))| Seen::unasked(whole, name, volume))
            .collect(),
        asked_s: 0.0,
        counts_all: true,
        cores: Vec::new(),
        has_targets: false,
        cache_bytes: os::cpu::cache_bytes(),
        memory_bytes: memory_bytes(),
        glanced: RefCell::default(),
    };
    let files = witness.volumes.iter().filter_map(|seen| Some((seen, seen.file()?)));
    let files: Vec<Opened> = files
        .map(|(seen, file)| Opened {
            name: seen.name.clone(),
            asked: file.asked_direct,
            had: file.direct,
            beneath: beneath(file),
            cache_growth_bytes: None,
            moved_bytes: None,
        })
        .collect();
    let now = witness.now();
    let mut checks = vec![clock(None, None)];
    if !opened.is_empty() {
        checks.push(verdict::data_exists(&witness.readable()));
    }
    checks.extend(verdict::direct_io(&files));
    let limits = witness.throttles((&now, None), None);
    checks.extend(verdict::block_layer(&witness.disks(&now, None), &limits));
    checks.extend(witness.content());
    checks.extend(witness.working_set());
    checks.extend(witness.quota(&now, None));
    checks.sort_by(|a, b| a.code.cmp(&b.code));
    checks
}

/// Memory of the host, or the room in its cgroup.
fn memory_bytes() -> u64 {
    let limit = os::cgroup::memory_room().and_then(|room| room.limit);
    let all = os::sample::memory_total_bytes().unwrap_or(0);
    limit.map_or(all, |limit| limit.limit_bytes.min(all))
}

fn clock(io_us: Option<f64>, window: Option<Window>) -> Check {
    let clock = Clock::get();
    let source = counters::clock_source();
    verdict::clock(source.as_deref(), clock.uses_counter(), clock.cost_ns(), io_us, window)
}
