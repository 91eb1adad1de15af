//! Evidence of the host about a run: whether the data read exists, counters of devices,
//! interference. The runner collects the evidence before the run and at both ends of the measured
//! window; [`stats::verdict`] judges it.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use os::{Clock, counters, namespaces};
use stats::verdict::{self, Finding, Lender, Opened, Readable, Throttle, Window};
use stats::{Check, Collector, Cpu, DeviceUse, KernelThread};
use volume::Volume;

use self::cold::Colds;
use self::moment::{Glanced, busy_threads, retransmitted};
use self::seen::{Seen, beneath};
use crate::run::Prepared;
use job::spec::Workload;

mod aside;
mod bounds;
mod cold;
mod devices;
mod flushed;
mod hot;
mod lenders;
mod media;
mod moment;
mod rest;
mod sectors;
mod seen;
mod wear;

pub(crate) use self::moment::Moment;

/// Evidence from before a run.
pub(crate) struct Witness {
    volumes: Vec<Seen>,
    /// Workload of each worker.
    workloads: Vec<Arc<Workload>>,
    /// Length of the measurement; 0 without one.
    asked_s: f64,
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
    /// Reads of random places before and after it.
    colds: RefCell<Colds>,
}

/// The result.
pub(crate) struct Testimony {
    /// Checks that need nothing else.
    pub(crate) checks: Vec<Check>,
    /// Number of places that were read before and after the run, and of those that changed.
    pub(crate) kept: Option<[u32; 2]>,
    /// Whether part of the volume is behind a connection.
    pub(crate) is_remote: bool,
    /// Number of times that a CPU quota throttled us.
    pub(crate) throttled: Option<u64>,
    /// TCP segments of the run's connections that were sent again, in percent.
    pub(crate) retransmitted_percent: Option<f64>,
    /// Busy kernel threads, the busiest first.
    pub(crate) threads: Vec<KernelThread>,
    /// Use of the devices, by name.
    pub(crate) devices: Vec<DeviceUse>,
    /// Source of a rate that does not last, for each volume.
    pub(crate) lenders: Vec<Lender>,
}

impl Witness {
    /// Looks at every volume of a run: data must exist before the first read. `cold_reads`: also
    /// probes random places before and after the run (H25).
    pub(crate) fn look(run: &Prepared, cold_reads: bool) -> Witness {
        let spec = &run.spec;
        let all = spec.volumes();
        let count = all.len();
        let seen = all.into_iter().enumerate();
        let seen = seen.flat_map(|(whole, workers)| Seen::all(run, whole, workers, count));
        let volumes: Vec<Seen> = seen.collect();
        let colds = RefCell::new(Colds::look(run, &volumes, cold_reads));
        let targets = run.targets.iter().flat_map(|targets| &targets.cores);
        let mut cores: Vec<usize> = spec.cores.iter().chain(targets).copied().collect();
        cores.sort_unstable();
        cores.dedup();
        Witness {
            volumes,
            workloads: spec.workers.iter().map(|worker| worker.workload.clone()).collect(),
            asked_s: spec.seconds,
            cores,
            has_targets: run.targets.is_some(),
            cache_bytes: os::cpu::cache_bytes(),
            memory_bytes: memory_bytes(),
            glanced: RefCell::default(),
            colds,
        }
    }

    /// The counters now.
    pub(crate) fn now(&self) -> Moment {
        Moment::of(&self.volumes, &self.cores)
    }

    /// Looks once more within the window that began at `before`: a setting changed and restored
    /// shows at neither end.
    pub(crate) fn glance(&self, before: &Moment) {
        let mut glanced = self.glanced.borrow_mut();
        glanced.glance(before, &self.volumes, &self.cores);
        glanced.look_at_media(before, &self.volumes, self.asked_s);
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
        let clocks_s = before.clocks_s(after);
        let window = Window { asked_s: self.asked_s, measured_s, stopped_s, clocks_s };
        let limits = self.throttles((before, Some(after)), Some(collected));
        let mut checks = vec![
            verdict::data_exists(&self.readable()),
            clock(cpu.core_us_per_io, Some(window)),
            verdict::repeats(&[(collected.totals().iops, measured_s)]),
            verdict::direct_io(&self.opened(before, after, &moved), self.no_files()),
            self.counters(
                before,
                after,
                &moved,
                before.apart(after, collected.whole().start, measured_s),
            ),
            self.block_layer((before, Some(after)), limits.as_deref()),
            self.content(),
            self.preconditioning(before, after),
            self.working_set(Some(collected)),
            self.cache(collected),
            self.frequency(before, after),
            self.rested(before, after, collected, cpu),
            self.placement(),
            self.shared(before, after, &moved, measured_s),
            self.one_medium(),
            self.scheduling(before, after),
        ];
        checks.extend(self.sectors());
        checks.extend(self.flushed(before, collected));
        checks.extend(self.naps(collected));
        checks.extend(self.replaced());
        checks.extend(self.unseen_groups());
        checks.extend(self.distinct());
        checks.extend(self.quota(before, Some(cpu)));
        let pair = before.throttled.zip(after.throttled);
        let is_remote = self.volumes.iter().any(|seen| aside::any_is_remote(&*seen.volume));
        Testimony {
            checks,
            kept: self.kept(),
            is_remote,
            throttled: pair.map(|(before, after)| after.saturating_sub(before)),
            retransmitted_percent: retransmitted(
                &before.segments,
                &self.glanced.borrow().segments_until(after),
            ),
            threads: busy_threads(before, after, measured_s),
            devices: self.devices(before, after, measured_s),
            lenders: self.lenders(),
        }
    }

    /// H18: disks, limits, and volumes without a disk of this host.
    fn block_layer(
        &self,
        (before, after): (&Moment, Option<&Moment>),
        limits: Option<&[Throttle]>,
    ) -> Check {
        let has_disk = |seen: &Seen| seen.file().is_some_and(|file| file.device.is_some());
        verdict::block_layer(&self.disks(before, after), limits, self.asides(has_disk))
    }

    /// Checks that rest on files which are not the kernel's.
    fn replaced(&self) -> Vec<Check> {
        let devices = self.volumes.iter().filter_map(|seen| seen.file());
        let devices = devices.flat_map(|file| &file.stack.devices);
        let counters: BTreeSet<PathBuf> =
            devices.filter_map(os::Device::foreign_counters).collect();
        let names = counters.iter().map(|path| path.display().to_string());
        let names = os::kernel_files::replaced().into_iter().map(str::to_owned).chain(names);
        verdict::replaced(&names.collect::<Vec<_>>())
    }

    /// Checks that rest on control groups, where some of these do not show.
    fn unseen_groups(&self) -> Vec<Check> {
        match namespaces::own().contains(&namespaces::Kind::Cgroup) {
            true => {
                let may_limit = |seen: &Seen| seen.file().is_some() || self.has_targets;
                verdict::unseen_groups(self.volumes.iter().any(may_limit))
            }
            false => Vec::new(),
        }
    }

    fn readable(&self) -> Vec<Readable> {
        let one = |seen: &Seen| {
            let (name, existence) = (seen.name.clone(), seen.existence.clone());
            Readable { name, existence, reads: seen.reads, clears: seen.clears }
        };
        self.volumes.iter().map(one).collect()
    }

    /// Returns the findings of H01 on volumes that are not files.
    fn no_files(&self) -> Vec<Finding> {
        self.asides(|seen| seen.file().is_some())
    }

    /// Bytes read and written by each volume's workers, those of ramps of their own as well, which
    /// devices count.
    fn moved(&self, collected: &Collector) -> Vec<[u64; 2]> {
        let workers = collected.workers();
        let sum = |seen: &Seen| {
            let done = seen.workers.iter().map(|at| (&workers[*at], collected.ramp_bytes(*at)));
            let whole = done.fold([0; 2], |[read, written], (worker, ramp)| {
                let bytes = [worker.read.bytes, worker.write.bytes];
                let [reads, writes] = [0, 1].map(|way| bytes[way].saturating_add_signed(ramp[way]));
                [read + reads, written + writes]
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
        workloads: Vec::new(),
        asked_s: 0.0,
        cores: Vec::new(),
        has_targets: false,
        cache_bytes: os::cpu::cache_bytes(),
        memory_bytes: memory_bytes(),
        glanced: RefCell::default(),
        colds: RefCell::default(),
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
        let limits = witness.throttles((&now, None), None);
        checks.extend([
            verdict::data_exists(&witness.readable()),
            verdict::direct_io(&files, witness.no_files()),
            witness.block_layer((&now, None), limits.as_deref()),
            witness.content(),
            witness.working_set(None),
        ]);
    }
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
