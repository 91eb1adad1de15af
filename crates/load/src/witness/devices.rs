//! Use and settings of devices in a window.

use std::collections::{BTreeMap, BTreeSet};

use os::{Device, DeviceCounters, DeviceSettings};
use stats::verdict::{self, Asked, Counted, Disk, Level, Merged, Merges, Queue};
use stats::{Check, DeviceUse};

use super::Witness;
use super::moment::Moment;

impl Witness {
    pub(super) fn counters(
        &self,
        before: &Moment,
        after: &Moment,
        moved: &[[u64; 2]],
        apart: f64,
    ) -> Check {
        let mut devices: BTreeMap<String, Counted> = BTreeMap::new();
        let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        let mut levels: BTreeMap<String, Vec<BTreeSet<&str>>> = BTreeMap::new();
        let groups = self.groups();
        let mut others = self.asides(|seen| seen.file().is_some());
        for (index, seen) in self.volumes.iter().enumerate() {
            let Some(file) = seen.file() else { continue };
            if file.passthrough {
                others.push(seen.untold("the kernel does not count passthrough commands"));
                continue;
            }
            let device = file.device.as_ref();
            let name = match device.and_then(|device| groups.get(device.name.as_str())) {
                Some(group) => group.clone(),
                None => format!("{} of {}", file.file_system.as_deref().unwrap_or("?"), seen.name),
            };
            let since = before.until(after, index);
            let counted = devices.entry(name.clone()).or_insert(Counted {
                name: name.clone(),
                direct: true,
                issued: [0; 2],
                device: since.map(|_| [0; 2]),
                device_ios: 0,
                slack: 0,
                memory: file.device.is_none() && file.stack.memory().is_some(),
                charged: file.stack.is_charged
                    && (file.device.is_some() || file.stack.memory().is_none()),
                hidden: None,
                below: Vec::new(),
                cached: false,
                apart,
            });
            counted.cached |= file.stack.cached_disk().is_some();
            add(levels.entry(name.clone()).or_default(), &file.stack.levels);
            if counted.hidden.is_none() {
                counted.hidden = file.stack.hidden().map(str::to_owned);
            }
            // Each device once, however many volumes are on it.
            let known = names.entry(name).or_default();
            let fresh = device.filter(|device| !known.contains(&device.name.as_str()));
            if let Some((device, since)) = fresh.zip(since) {
                known.push(&device.name);
                counted.device_ios += since.reads + since.writes;
                if let Some([read, written]) = &mut counted.device {
                    *read += since.read_bytes;
                    *written += since.written_bytes;
                }
            }
            counted.direct &= file.direct;
            counted.issued[0] += moved[index][0];
            counted.issued[1] += moved[index][1];
            counted.slack += seen.slack;
        }
        for (name, levels) in &levels {
            if let Some(counted) = devices.get_mut(name) {
                counted.below = below(levels, counted.device.is_some(), (before, after));
            }
        }
        let process = before.process.zip(after.process);
        let process = process
            .map(|([r, w], [read, written])| [read.saturating_sub(r), written.saturating_sub(w)]);
        verdict::counters_agree(&devices.into_values().collect::<Vec<_>>(), process, others)
    }

    /// Devices by name, with the name of all that hold parts of one volume: how I/O spreads over
    /// them is known only for uniform offsets, but always in total.
    fn groups(&self) -> BTreeMap<&str, String> {
        let mut groups: Vec<(Vec<usize>, Vec<&str>)> = Vec::new();
        for seen in &self.volumes {
            let Some(device) = seen.file().and_then(|file| file.device.as_ref()) else { continue };
            let name = device.name.as_str();
            let mut joined = (vec![seen.whole], vec![name]);
            let (same, others): (Vec<_>, Vec<_>) = std::mem::take(&mut groups)
                .into_iter()
                .partition(|(wholes, names)| wholes.contains(&seen.whole) || names.contains(&name));
            same.into_iter().for_each(|(wholes, names)| {
                joined.0.extend(wholes);
                joined.1.extend(names);
            });
            joined.1.sort_unstable();
            joined.1.dedup();
            groups = others;
            groups.push(joined);
        }
        let named = |(_, names): &(Vec<usize>, Vec<&_>)| names.join(", ");
        groups.iter().flat_map(|group| group.1.iter().map(|name| (*name, named(group)))).collect()
    }

    /// Each disk once, with its settings and merge counts.
    pub(super) fn disks(&self, before: &Moment, after: Option<&Moment>) -> Vec<Disk> {
        let glanced = self.glanced.borrow();
        let mut disks: BTreeMap<&str, Disk> = BTreeMap::new();
        for (index, seen) in self.volumes.iter().enumerate() {
            let device = seen.file().and_then(|file| file.device.as_ref());
            let Some(device) = device else { continue };
            let disk = disks.entry(&device.disk).or_insert_with(|| Disk {
                asked: Asked { flushes: true, ..Asked::default() },
                before: queue(device, &before.settings[index]),
                after: after.map(|after| queue(device, &after.settings[index])),
                meanwhile: glanced
                    .other
                    .get(index)
                    .and_then(|other| Some(queue(device, other.as_ref()?))),
                merged: after
                    .and_then(|after| before.until(after, index))
                    .map(|since| merged(&since)),
            });
            disk.asked = Asked {
                reads: disk.asked.reads || seen.asked.reads,
                writes: disk.asked.writes || seen.asked.writes,
                buffered: disk.asked.buffered || seen.asked.buffered,
                most_bytes: disk.asked.most_bytes.max(seen.asked.most_bytes),
                flushes: disk.asked.flushes && seen.asked.flushes,
            };
        }
        disks.into_values().collect()
    }

    /// Use of each device between two moments, by anybody.
    pub(super) fn devices(&self, before: &Moment, after: &Moment, seconds: f64) -> Vec<DeviceUse> {
        let mut devices: BTreeMap<&str, DeviceUse> = BTreeMap::new();
        for (index, seen) in self.volumes.iter().enumerate() {
            let device = seen.file().and_then(|file| file.device.as_ref());
            let Some((device, since)) = device.zip(before.until(after, index)) else { continue };
            let busy_s = since.busy_ms as f64 / 1e3;
            devices.entry(&device.name).or_insert_with(|| DeviceUse {
                name: device.name.clone(),
                reads: since.reads,
                writes: since.writes,
                merged_reads: since.merged_reads,
                merged_writes: since.merged_writes,
                read_ms: since.read_ms,
                write_ms: since.write_ms,
                queue_ms: since.queue_ms,
                busy_percent: (busy_s / seconds.max(1e-9) * 100.0).min(100.0),
            });
        }
        devices.into_values().collect()
    }
}

/// Adds the devices of a volume to those of others, level by level.
fn add<'a>(all: &mut Vec<BTreeSet<&'a str>>, levels: &'a [Vec<Device>]) {
    all.resize_with(all.len().max(levels.len()), BTreeSet::new);
    for (all, level) in all.iter_mut().zip(levels) {
        all.extend(level.iter().map(|device| device.name.as_str()));
    }
}

/// The levels below a device, which is the first level itself where there is one.
fn below(
    levels: &[BTreeSet<&str>],
    has_device: bool,
    (before, after): (&Moment, &Moment),
) -> Vec<Level> {
    let below = levels.iter().skip(usize::from(has_device));
    below.map(|names| level(names, before.moved(after, names))).collect()
}

fn level(names: &BTreeSet<&str>, moved: Option<[u64; 2]>) -> Level {
    let names: Vec<&str> = names.iter().copied().collect();
    Level { name: names.join(", "), moved }
}

fn merged(since: &DeviceCounters) -> Merged {
    Merged {
        reads: Merges { done: since.reads, merged: since.merged_reads },
        writes: Merges { done: since.writes, merged: since.merged_writes },
    }
}

fn queue(device: &Device, settings: &DeviceSettings) -> Queue {
    let settings = settings.clone();
    Queue {
        name: device.disk.clone(),
        is_virtual: device.is_virtual(),
        scheduler: settings.scheduler,
        nomerges: settings.nomerges,
        rq_affinity: settings.rq_affinity,
        wbt_us: settings.wbt_us,
        read_ahead_bytes: settings.read_ahead_bytes,
        most_bytes: settings.most_bytes,
        rotational: settings.rotational,
        volatile_cache: settings.volatile_cache,
    }
}
