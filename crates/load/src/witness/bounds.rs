//! Limits and interference from outside: cgroups, other users of the disks, heat, NUMA distance.

use std::collections::BTreeMap;

use os::Scheduling;
use os::cgroup::{IoLimit, Limited};
use stats::verdict::{self, Beside, Heat, Paced, Scheduled, Shared, Throttle};
use stats::{Check, Collector, Cpu, WorkerResult};

use super::Witness;
use super::moment::Moment;

impl Witness {
    /// I/O limits on the disks below the volumes, with the rates reached; `None` where they do not
    /// show. If the disks are unknown, and for targets in this process, all limits count.
    pub(super) fn throttles(
        &self,
        (before, after): (&Moment, Option<&Moment>),
        collected: Option<&Collector>,
    ) -> Option<Vec<Throttle>> {
        let mut limits: Vec<&IoLimit> = before.limits.as_deref()?.iter().collect();
        let later = after.map_or(Some(&[][..]), |after| after.limits.as_deref())?;
        let glanced = self.glanced.borrow();
        later.iter().chain(&glanced.limits).for_each(|limit| {
            if !limits.contains(&limit) {
                limits.push(limit);
            }
        });
        let throttle = |limit: &IoLimit| {
            let below: Vec<usize> =
                (0..self.volumes.len()).filter(|index| self.may_reach(*index, limit)).collect();
            if below.is_empty() {
                return None;
            }
            let reached = collected.map(|collected| self.rate(collected, &below, limit.of));
            let (file, disk) = (limit.file.display().to_string(), limit.device.clone());
            let (what, word) = words(limit.of);
            let none =
                if file.ends_with("io.max") { format!("{word}=max") } else { "0".to_owned() };
            let mend = format!("echo '{disk} {none}' > {file}");
            let (what, per_second) = (what.to_owned(), limit.per_second as f64);
            Some(Throttle { file, disk, what, per_second, reached, mend })
        };
        Some(limits.into_iter().filter_map(throttle).collect())
    }

    /// Whether I/O of a volume may reach the device of a limit.
    fn may_reach(&self, volume: usize, limit: &IoLimit) -> bool {
        let seen = &self.volumes[volume];
        match seen.file() {
            Some(file) => {
                let mut numbers = file.stack.devices.iter().filter_map(os::Device::disk_number);
                !file.stack.is_whole || numbers.any(|number| number == limit.device)
            }
            // A target in this process may use files.
            None => seen.volume.transport() != "local" && self.has_targets && !seen.in_target,
        }
    }

    fn rate(&self, collected: &Collector, volumes: &[usize], of: Limited) -> f64 {
        let workers = collected.workers();
        let count = |index: &usize| -> u64 {
            let seen = &self.volumes[*index];
            let done = seen.workers.iter().map(|worker| &workers[*worker]);
            let sum = |one: fn(&WorkerResult) -> [u64; 2]| {
                let all = done.clone().map(one);
                seen.part_of(all.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]]))
            };
            let ios = || sum(|worker| [worker.read.ios, worker.write.ios]);
            let bytes = || sum(|worker| [worker.read.bytes, worker.write.bytes]);
            match of {
                Limited::Reads => ios()[0],
                Limited::Writes => ios()[1],
                Limited::ReadBytes => bytes()[0],
                Limited::WrittenBytes => bytes()[1],
            }
        };
        volumes.iter().map(count).sum::<u64>() as f64 / collected.totals().seconds.max(1e-9)
    }

    /// H13, for quotas. Before a run nothing is used.
    pub(super) fn quota(&self, before: &Moment, cpu: Option<&Cpu>) -> Option<Check> {
        let glanced = self.glanced.borrow();
        let all = before.quota.iter().chain(&glanced.quota);
        let quota = all.min_by(|a, b| a.cores.total_cmp(&b.cores))?;
        let used = match cpu {
            Some(cpu) => cpu.initiator_cores.map(|cores| cores + cpu.target_cores.unwrap_or(0.0)),
            None => Some(0.0),
        };
        verdict::quota(Some((&quota.file.display().to_string(), quota.cores)), used)
    }

    /// H13, for the scheduling of threads.
    pub(super) fn scheduling(&self, before: &Moment, after: &Moment) -> Check {
        let glanced = self.glanced.borrow();
        let mut threads: BTreeMap<u32, Scheduled> = BTreeMap::new();
        let ends = before.threads_of_ours.iter().chain(&after.threads_of_ours);
        for seen in ends.chain(&glanced.scheduled) {
            let Scheduling { thread, name, class, nice, io, cpus } = seen;
            let known = threads.entry(*thread).or_default();
            name.clone_into(&mut known.name);
            if *class != Scheduling::OTHER {
                known.class = Some((*class).to_owned());
            }
            if *nice != 0 {
                known.nice = *nice;
            }
            if io.is_some() {
                known.io.clone_from(io);
            }
            if !known.cpus.contains(cpus) {
                known.cpus.push(cpus.clone());
            }
        }
        verdict::scheduling(&threads.into_values().collect::<Vec<_>>())
    }

    /// H17, for disks.
    pub(super) fn shared(
        &self,
        before: &Moment,
        after: &Moment,
        moved: &[[u64; 2]],
        seconds: f64,
    ) -> Check {
        // The kernel reads and writes through the page cache when it likes.
        let buffered = |seen: &&super::Seen| seen.asked.buffered && !seen.is_in_memory();
        if let Some(seen) = self.volumes.iter().find(buffered) {
            let why = "uses the page cache, so other programs' use of its disk cannot be measured";
            return verdict::disks_shared(&[], seconds, vec![seen.untold(why)]);
        }
        let mut disks: BTreeMap<&str, (Shared, Vec<&str>)> = BTreeMap::new();
        let mut others = Vec::new();
        let charged = charged_no_more(before, after, moved);
        for (index, seen) in self.volumes.iter().enumerate() {
            let device = seen.file().filter(|file| file.direct).and_then(|it| it.device.as_ref());
            let pair = before.disks[index].zip(after.disks[index]);
            let Some(((device, since), (then, now))) =
                device.zip(before.until(after, index)).zip(pair)
            else {
                others.push(self.aside(seen));
                continue;
            };
            let whole = now.since(&then);
            let (shared, parts) = disks.entry(&device.disk).or_insert_with(|| {
                let whole = [whole.read_bytes, whole.written_bytes];
                let disk = device.disk.clone();
                (Shared { disk, whole, charged, ..Shared::default() }, Vec::new())
            });
            shared.asked[0] += moved[index][0];
            shared.asked[1] += moved[index][1];
            if !parts.contains(&device.name.as_str()) {
                parts.push(&device.name);
                shared.device[0] += since.read_bytes;
                shared.device[1] += since.written_bytes;
                shared.took_ms[0] += since.read_ms;
                shared.took_ms[1] += since.write_ms;
            }
        }
        let lower = self.lowest(before, after, moved);
        let disks = disks.into_values().map(|(shared, _)| shared).chain(lower);
        verdict::disks_shared(&disks.collect::<Vec<_>>(), seconds, others)
    }

    /// Writes at the bottom of read-only volumes, below a loop device or a mapper. Reads prove
    /// nothing: arrays read around writes. Nor do writes below the page cache, which may be from
    /// filling a volume.
    fn lowest(&self, before: &Moment, after: &Moment, moved: &[[u64; 2]]) -> Vec<Shared> {
        let mut disks: BTreeMap<&str, Shared> = BTreeMap::new();
        for (index, seen) in self.volumes.iter().enumerate() {
            let file = seen.file().filter(|file| file.stack.cached_disk().is_none());
            let devices = file.map_or(&[][..], |file| &file.stack.devices);
            let pair = before.lowest[index].zip(after.lowest[index]);
            let (Some(low), Some((then, now)), true) = (devices.last(), pair, devices.len() > 1)
            else {
                continue;
            };
            let since = now.since(&then);
            let disk = disks.entry(&low.disk).or_insert_with(|| {
                let all = [0, since.written_bytes];
                let took_ms = [since.read_ms, since.write_ms];
                let disk = low.disk.clone();
                Shared { disk, device: all, whole: all, took_ms, ..Shared::default() }
            });
            disk.asked[0] += moved[index][0];
            disk.asked[1] += moved[index][1];
        }
        // Another volume may use the same disk.
        let ours = |disk: &str| {
            let mut writing = self.volumes.iter().zip(moved).filter(|(_, moved)| moved[1] > 0);
            writing.any(|(seen, _)| {
                let devices = seen.file().map_or(&[][..], |file| &file.stack.devices);
                devices.iter().any(|device| device.disk == disk)
            })
        };
        disks.into_values().filter(|it| it.asked[1] == 0 && !ours(&it.disk)).collect()
    }

    /// H14: the CPUs over the window.
    pub(super) fn frequency(&self, before: &Moment, after: &Moment) -> Check {
        let glanced = self.glanced.borrow();
        // Not every kernel counts heat: then it does so for no CPU.
        let counts = after.paces.iter().any(|pace| pace.throttled.is_some());
        let one = |(index, cpu): (usize, &usize)| {
            let between = glanced.paces.iter().map(|paces| &paces[index]);
            let ends = [&before.paces[index], &after.paces[index]];
            let all: Vec<&os::Pace> = ends.into_iter().chain(between).collect();
            let mut governors: Vec<String> =
                all.iter().filter_map(|pace| pace.governor.clone()).collect();
            governors.sort_unstable();
            governors.dedup();
            let pair = before.paces[index].throttled.zip(after.paces[index].throttled);
            let heat = match pair {
                Some((before, after)) => Heat::Counted(after.saturating_sub(before)),
                None if counts => Heat::Unknown,
                None => Heat::Uncounted,
            };
            let khz = all.iter().filter_map(|pace| pace.khz).collect();
            Paced { cpu: *cpu, khz, governors, heat }
        };
        let paced: Vec<Paced> = self.cores.iter().enumerate().map(one).collect();
        verdict::frequency(&paced, os::cpu::is_guest())
    }

    /// H16: NUMA distance of CPUs and disks.
    pub(super) fn placement(&self) -> Check {
        let all = os::cpu::nodes().len();
        if all < 2 {
            return verdict::placement(&[], &[], (all > 0).then_some(all), Vec::new());
        }
        let nodes: Vec<Option<usize>> =
            self.cores.iter().map(|cpu| os::cpu::node_of(*cpu)).collect();
        let devices = |seen: &super::Seen| {
            seen.file().map_or_else(Vec::new, |file| file.stack.devices.clone())
        };
        let mut disks: Vec<Beside> = Vec::new();
        for device in self.volumes.iter().flat_map(devices) {
            if disks.iter().all(|known| known.disk != device.disk) {
                let node = device.node();
                let cores = node.and_then(os::cpu::of_node).unwrap_or_default();
                disks.push(Beside { disk: device.disk, node, cores });
            }
        }
        let others = self.asides(|seen| !devices(seen).is_empty());
        verdict::placement(&nodes, &disks, Some(all), others)
    }
}

/// This process read no more than its workers asked: by the kernel's account of the process.
fn charged_no_more(before: &Moment, after: &Moment, moved: &[[u64; 2]]) -> bool {
    let asked: u64 = moved.iter().map(|[read, _]| read).sum();
    let most = asked + asked / 50;
    let read = before.process.zip(after.process).map(|(then, now)| now[0].saturating_sub(then[0]));
    read.is_some_and(|read| read <= most)
}

/// The limit in words, and its key in cgroup v2.
fn words(of: Limited) -> (&'static str, &'static str) {
    match of {
        Limited::Reads => ("reads", "riops"),
        Limited::Writes => ("writes", "wiops"),
        Limited::ReadBytes => ("bytes read", "rbps"),
        Limited::WrittenBytes => ("bytes written", "wbps"),
    }
}
