//! The host's counters, at an instant and between two.

use std::collections::BTreeMap;

use super::seen::Seen;
use os::cgroup::{CpuQuota, IoLimit, cpu_quota, io_limits};
use os::{DeviceCounters, DeviceSettings, Pace, counters};
use stats::KernelThread;

/// Counters at an instant.
pub(crate) struct Moment {
    /// Of the device below each volume.
    pub(super) devices: Vec<Option<DeviceCounters>>,
    /// Of the whole disk of each of these.
    pub(super) disks: Vec<Option<DeviceCounters>>,
    /// Of the disk at the bottom of each volume.
    pub(super) lowest: Vec<Option<DeviceCounters>>,
    /// Bytes of each volume in the page cache.
    pub(super) cached: Vec<Option<u64>>,
    pub(super) process: Option<[u64; 2]>,
    pub(super) throttled: Option<u64>,
    pub(super) segments: Option<[u64; 2]>,
    pub(super) settings: Vec<DeviceSettings>,
    pub(super) threads: BTreeMap<u32, (String, f64)>,
    /// I/O limits of cgroups, `None` where these do not show, and their least CPU quota.
    pub(super) limits: Option<Vec<IoLimit>>,
    pub(super) quota: Option<CpuQuota>,
    /// Of each CPU of the run.
    pub(super) paces: Vec<Pace>,
}

impl Moment {
    /// The counters now, those of devices first, as they are compared with I/Os. Each is read once,
    /// however many volumes are on it.
    pub(super) fn of(volumes: &[Seen], cores: &[usize]) -> Moment {
        let files = || volumes.iter().map(|seen| seen.file());
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
        Moment {
            devices,
            disks,
            lowest,
            process: counters::process_io(),
            cached: files().map(|file| file?.cached_bytes()).collect(),
            throttled: os::cgroup::throttled(),
            segments: counters::tcp_segments(),
            settings: settings_of(volumes),
            threads: counters::kernel_threads(),
            limits: io_limits(),
            quota: cpu_quota(),
            paces: cores.iter().map(|cpu| Pace::of(*cpu)).collect(),
        }
    }

    /// Use of the device below a volume since then.
    pub(super) fn until(&self, after: &Moment, volume: usize) -> Option<DeviceCounters> {
        let (before, after) = self.devices[volume].zip(after.devices[volume])?;
        Some(after.since(&before))
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
    /// Of the CPUs, each time.
    pub(super) paces: Vec<Vec<Pace>>,
}

/// Maximum number of frequency readings in a window.
const MOST_PACES: usize = 4096;

impl Glanced {
    /// Looks once more in the window that began at `before`.
    pub(super) fn glance(&mut self, before: &Moment, volumes: &[Seen], cores: &[usize]) {
        if self.base != before.settings || self.other.len() != volumes.len() {
            let base = before.settings.clone();
            *self = Glanced { base, other: vec![None; volumes.len()], paces: Vec::new() };
        }
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

/// Retransmitted TCP segments of the host between two readings, in percent.
pub(super) fn retransmitted(before: Option<[u64; 2]>, after: Option<[u64; 2]>) -> Option<f64> {
    let ([sent, again], [sent_then, again_then]) = (after?, before?);
    let again = again.saturating_sub(again_then) as f64;
    let all = sent.saturating_sub(sent_then) as f64 + again;
    (all > 0.0).then(|| again / all * 100.0)
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
        assert_eq!(retransmitted(Some([100, 1]), Some([199, 2])), Some(1.0));
        assert_eq!(retransmitted(Some([100, 1]), Some([100, 1])), None);
        assert_eq!(retransmitted(None, Some([100, 1])), None);
    }
}
