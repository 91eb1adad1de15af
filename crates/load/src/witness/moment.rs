//! What the host counts, at an instant and between two.

use std::collections::BTreeMap;

use os::{DeviceCounters, DeviceSettings, counters};
use stats::KernelThread;
use volume::FileGround;

use super::seen::Seen;

/// Counters at an instant.
pub(crate) struct Moment {
    /// Of the device under each volume.
    pub(super) devices: Vec<Option<DeviceCounters>>,
    /// Bytes of each volume in the page cache.
    pub(super) cached: Vec<Option<u64>>,
    pub(super) process: Option<[u64; 2]>,
    pub(super) throttled: Option<u64>,
    pub(super) segments: Option<[u64; 2]>,
    pub(super) settings: Vec<DeviceSettings>,
    pub(super) threads: BTreeMap<u32, (String, f64)>,
}

impl Moment {
    /// The counters now. Those of devices first: they are held against I/Os.
    pub(super) fn of(volumes: &[Seen]) -> Moment {
        let files = || volumes.iter().map(|seen| seen.file());
        let device = |file: Option<&FileGround>| file?.device.as_ref()?.counters();
        Moment {
            devices: files().map(device).collect(),
            process: counters::process_io(),
            cached: files().map(|file| file?.cached_bytes()).collect(),
            throttled: os::cgroup::throttled(),
            segments: counters::tcp_segments(),
            settings: files().map(|file| settings(file).unwrap_or_default()).collect(),
            threads: counters::kernel_threads(),
        }
    }

    /// What the device under a volume did since then.
    pub(super) fn until(&self, after: &Moment, volume: usize) -> Option<DeviceCounters> {
        let (before, after) = self.devices[volume].zip(after.devices[volume])?;
        Some(after.since(&before))
    }
}

fn settings(file: Option<&FileGround>) -> Option<DeviceSettings> {
    Some(file?.device.as_ref()?.settings())
}

/// TCP segments of the host that were sent again between two counts, 0 to 100.
pub(super) fn retransmitted(before: Option<[u64; 2]>, after: Option<[u64; 2]>) -> Option<f64> {
    let ([sent, again], [sent_then, again_then]) = (after?, before?);
    let again = again.saturating_sub(again_then) as f64;
    let all = sent.saturating_sub(sent_then) as f64 + again;
    (all > 0.0).then(|| again / all * 100.0)
}

/// Threads of the kernel below this share of a core are not worth a line.
const BUSY_CORES: f64 = 0.005;
/// Most that are listed.
const LISTED: usize = 16;

/// Threads of the kernel that worked between two moments, the busiest first.
pub(super) fn busy_threads(before: &Moment, after: &Moment, seconds: f64) -> Vec<KernelThread> {
    let used = after.threads.iter().map(|(number, (name, now))| {
        // A thread that began meanwhile began at zero.
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
