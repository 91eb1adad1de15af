//! The host's counters, at an instant and between two.

use std::collections::{BTreeMap, BTreeSet};

use block::Nanos;

use super::seen::Seen;
use super::wear::{self, Media};
use os::cgroup::{CpuQuota, IoLimit, cpu_quota, io_limits};
use os::{Clock, DeviceCounters, DeviceSettings, Pace, Rest, Scheduling, Segments, counters};
use stats::KernelThread;

/// Counters at an instant.
pub(crate) struct Moment {
    /// Time at which devices were read.
    read_at: Nanos,
    /// Counters of the device below each volume.
    pub(super) devices: Vec<Option<DeviceCounters>>,
    /// Counters of the whole disk of each of these devices.
    pub(super) disks: Vec<Option<DeviceCounters>>,
    /// Counters of the disk at the bottom of each volume.
    pub(super) lowest: Vec<Option<DeviceCounters>>,
    /// Counters of every device below the volumes, by name.
    pub(super) all: BTreeMap<String, DeviceCounters>,
    /// Bytes of each volume in the page cache.
    pub(super) cached: Vec<Option<u64>>,
    pub(super) process: Option<[u64; 2]>,
    pub(super) throttled: Option<u64>,
    /// Segments of each connection of this process, by socket.
    pub(super) segments: BTreeMap<u64, Segments>,
    pub(super) settings: Vec<DeviceSettings>,
    pub(super) threads: BTreeMap<u32, (String, f64)>,
    /// I/O limits of cgroups, `None` where these do not show, and their least CPU quota.
    pub(super) limits: Option<Vec<IoLimit>>,
    pub(super) quota: Option<CpuQuota>,
    /// Frequency and throttling of each CPU of the run.
    pub(super) paces: Vec<Pace>,
    /// Idle states of each CPU of the run.
    pub(super) rests: Vec<Rest>,
    /// Counters of the disks that are written.
    pub(super) media: Media,
    /// Uptime, and our clock at the same time.
    pub(super) clocks: Option<[Nanos; 2]>,
    /// Scheduling of the threads of this process.
    pub(super) threads_of_ours: Vec<Scheduling>,
}

impl Moment {
    /// The counters now, those of devices first, as they are compared with I/Os. Each is read once,
    /// however many volumes are on it.
    pub(super) fn of(volumes: &[Seen], cores: &[usize]) -> Moment {
        let files = || volumes.iter().map(|seen| seen.file());
        let read_at = Clock::get().now();
        let mut known: BTreeMap<&str, Option<DeviceCounters>> = BTreeMap::new();
        let mut of = |name, count: &dyn Fn() -> Option<DeviceCounters>| {
            *known.entry(name).or_insert_with(count)
        };
        let mut devices = Vec::with_capacity(volumes.len());
        let mut disks = Vec::with_capacity(volumes.len());
        let mut lowest = Vec::with_capacity(volumes.len());
        for file in files() {
            let device = file.and_then(|file| file.device.as_ref());
            devices.push(device.and_then(|it| of(&it.name, &|| it.counters())));
            disks.push(device.and_then(|it| of(&it.disk, &|| it.disk_counters())));
            let low = file.and_then(|file| file.stack.devices.last());
            lowest.push(low.and_then(|it| of(&it.disk, &|| it.disk_counters())));
        }
        let below = files().flatten().flat_map(|file| &file.stack.devices);
        let all = below.filter_map(|it| Some((it.name.clone(), it.counters()?))).collect();
        Moment {
            read_at,
            devices,
            disks,
            lowest,
            all,
            process: counters::process_io(),
            cached: files().map(|file| file?.cached_bytes()).collect(),
            throttled: os::cgroup::throttled(),
            segments: os::own_segments(),
            settings: settings_of(volumes),
            threads: counters::kernel_threads(),
            limits: io_limits(),
            quota: cpu_quota(),
            paces: cores.iter().map(|cpu| Pace::of(*cpu)).collect(),
            rests: cores.iter().map(|cpu| Rest::of(*cpu)).collect(),
            media: wear::of(volumes),
            clocks: clocks(),
            threads_of_ours: Scheduling::of_threads(),
        }
    }

    /// Use of the device below a volume since then.
    pub(super) fn until(&self, after: &Moment, volume: usize) -> Option<DeviceCounters> {
        let (before, after) = self.devices[volume].zip(after.devices[volume])?;
        Some(after.since(&before))
    }
}

impl Moment {
    /// Bytes that devices read and wrote since then, all together; `None` if one does not count.
    pub(super) fn moved(&self, after: &Moment, devices: &BTreeSet<&str>) -> Option<[u64; 2]> {
        devices.iter().try_fold([0; 2], |[read, written], name| {
            let since = after.all.get(*name)?.since(self.all.get(*name)?);
            Some([read + since.read_bytes, written + since.written_bytes])
        })
    }
}

/// Uptime and our clock: read once more where a pause between the two was long.
fn clocks() -> Option<[Nanos; 2]> {
    let one = || {
        let before = Clock::get().now();
        let uptime = os::sample::uptime()?;
        let after = Clock::get().now();
        Some((after.since(before), [uptime, before]))
    };
    let tries = (0..4).filter_map(|_| one());
    tries.min_by_key(|(gap, _)| *gap).map(|(_, clocks)| clocks)
}

/// A longer gap is no excuse, as a share of the window.
const APART_MOST: f64 = 0.1;

impl Moment {
    /// Distance between the window of the given seconds from `start` and the two readings of
    /// devices, as a share of the window.
    pub(super) fn apart(&self, after: &Moment, start: Nanos, seconds: f64) -> f64 {
        let end = Nanos(start.0 + (seconds * 1e9) as u64);
        let gaps = [(self.read_at, start), (after.read_at, end)];
        let gap_ns: u64 = gaps.into_iter().map(|(read, at)| read.0.abs_diff(at.0)).sum();
        (gap_ns as f64 / (seconds * 1e9).max(1.0)).min(APART_MOST)
    }

    /// Seconds since then by uptime and by our clock.
    pub(super) fn clocks_s(&self, after: &Moment) -> Option<[f64; 2]> {
        let [then, now] = [self.clocks?, after.clocks?];
        Some([0, 1].map(|which| now[which].since(then[which]).0 as f64 / 1e9))
    }
}

/// Settings of the disk below each volume. Each disk is read once.
fn settings_of(volumes: &[Seen]) -> Vec<DeviceSettings> {
    let mut known: BTreeMap<&str, DeviceSettings> = BTreeMap::new();
    volumes
        .iter()
        .map(|seen| {
            let Some(device) = seen.file().and_then(|file| file.device.as_ref()) else {
                return DeviceSettings::default();
            };
            known.entry(&device.disk).or_insert_with(|| device.settings()).clone()
        })
        .collect()
}

/// Evidence from within a window.
#[derive(Default)]
pub(super) struct Glanced {
    /// Settings at its start.
    base: Vec<DeviceSettings>,
    /// The last different settings of each volume.
    pub(super) other: Vec<Option<DeviceSettings>>,
    /// Frequency and throttling of the CPUs, at each sample.
    pub(super) paces: Vec<Vec<Pace>>,
    /// Scheduling of threads that has changed.
    pub(super) scheduled: Vec<Scheduling>,
    /// I/O limits that were there within the window.
    pub(super) limits: Vec<IoLimit>,
    /// The least CPU quota that was there within the window.
    pub(super) quota: Option<CpuQuota>,
    /// Counters of disks, from the middle of the window.
    pub(super) media: Option<Media>,
    /// Segments of each connection when last seen: workers close theirs as the window ends.
    segments: BTreeMap<u64, Segments>,
}

/// Maximum number of frequency readings in a window.
const MOST_PACES: usize = 4096;

impl Glanced {
    /// Looks once more in the window that began at `before`.
    pub(super) fn glance(&mut self, before: &Moment, volumes: &[Seen], cores: &[usize]) {
        if self.base != before.settings || self.other.len() != volumes.len() {
            let base = before.settings.clone();
            *self = Glanced { base, other: vec![None; volumes.len()], ..Glanced::default() };
        }
        self.look_at_threads();
        self.segments.extend(os::own_segments());
        let now = settings_of(volumes).into_iter().zip(&self.base).zip(&mut self.other);
        now.filter(|((now, base), _)| now != *base)
            .for_each(|((now, _), other)| *other = Some(now));
        // Without any data at the start it is not read again.
        let tells = before.paces.iter().any(|pace| *pace != Pace::default());
        if tells && self.paces.len() < MOST_PACES {
            self.paces.push(cores.iter().map(|cpu| Pace::of(*cpu)).collect());
        }
    }
}

impl Glanced {
    /// Reads the counters of disks once, as soon as half of the window is over.
    pub(super) fn look_at_media(&mut self, before: &Moment, volumes: &[Seen], asked_s: f64) {
        let over_s = Clock::get().now().since(before.read_at).0 as f64 / 1e9;
        if self.media.is_none() && over_s >= asked_s / 2.0 && !before.media.is_empty() {
            self.media = Some(wear::of(volumes));
        }
    }

    /// Segments of each connection at the end of the window, or when it was seen last.
    pub(super) fn segments_until(&self, after: &Moment) -> BTreeMap<u64, Segments> {
        let mut all = self.segments.clone();
        all.extend(after.segments.iter().map(|(socket, now)| (*socket, *now)));
        all
    }

    /// Looks at the scheduling of the threads and at their groups' limits.
    fn look_at_threads(&mut self) {
        for thread in Scheduling::of_threads() {
            if self.scheduled.len() < MOST_PACES && !self.scheduled.contains(&thread) {
                self.scheduled.push(thread);
            }
        }
        for limit in io_limits().into_iter().flatten() {
            if !self.limits.contains(&limit) {
                self.limits.push(limit);
            }
        }
        let least = |a: &CpuQuota, b: &CpuQuota| a.cores.total_cmp(&b.cores);
        self.quota = self.quota.take().into_iter().chain(cpu_quota()).min_by(least);
    }
}

/// Segments that were sent again on connections that lived between two readings, in percent; `None`
/// without any.
pub(super) fn retransmitted(
    before: &BTreeMap<u64, Segments>,
    after: &BTreeMap<u64, Segments>,
) -> Option<f64> {
    let both = after.iter().filter_map(|(socket, now)| Some((before.get(socket)?, now)));
    let (sent, again) = both.fold((0, 0), |(sent, again), (then, now)| {
        let more = now.sent.saturating_sub(then.sent);
        (sent + more, again + now.again.saturating_sub(then.again))
    });
    let all = (sent + again) as f64;
    (all > 0.0).then(|| again as f64 / all * 100.0)
}

/// Kernel threads below this share of a core are not listed.
const BUSY_CORES: f64 = 0.005;
/// Maximum number listed.
const LISTED: usize = 16;

/// Kernel threads that worked between two moments, the busiest first.
pub(super) fn busy_threads(before: &Moment, after: &Moment, seconds: f64) -> Vec<KernelThread> {
    let used = after.threads.iter().map(|(number, (name, now))| {
        // A new thread started at zero.
        let then = before.threads.get(number).map_or(0.0, |(_, then)| *then);
        KernelThread { name: name.clone(), cores: (now - then) / seconds.max(1e-9) }
    });
    let mut busy: Vec<KernelThread> = used.filter(|thread| thread.cores >= BUSY_CORES).collect();
    busy.sort_by(|a, b| b.cores.total_cmp(&a.cores));
    busy.truncate(LISTED);
    busy
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn counts_what_was_sent_again() {
        let of = |all: &[(u64, u64, u64)]| -> BTreeMap<u64, Segments> {
            let one = |(socket, sent, again): &(u64, u64, u64)| {
                (*socket, Segments { sent: *sent, again: *again, shortest: None })
            };
            all.iter().map(one).collect()
        };
        let before = of(&[(1, 100, 1), (2, 50, 0)]);
        let after = of(&[(1, 198, 2), (2, 51, 0), (3, 1000, 900)]);
        assert_eq!(retransmitted(&before, &after), Some(1.0), "a new connection does not count");
        assert_eq!(retransmitted(&before, &before), None);
        assert_eq!(retransmitted(&of(&[]), &after), None);
    }
}
