//! What the host says of a run, beside our own numbers: whether the data read exist, what devices
//! counted, what disturbed. The runner asks before the run and at both ends of the measured window;
//! the verdicts are those of [`stats::verdict`].

use std::collections::BTreeMap;
use std::sync::Arc;

use os::{Clock, DeviceCounters, DeviceSettings, counters};
use stats::verdict::{self, Asked, Beneath, Counted, Disk, Existence, Merged, Merges, Opened};
use stats::verdict::{Queue, Readable, Window};
use stats::{Check, Collector, Cpu, DeviceUse, KernelThread};
use volume::{FileGround, Ground, Volume};

use crate::runner::volumes;
use crate::spec::RunSpec;

/// What was seen before a run.
pub(crate) struct Witness {
    volumes: Vec<Seen>,
    /// How long is to be measured; 0 if nothing is.
    asked_s: f64,
}

/// One volume.
struct Seen {
    name: String,
    /// Its workers, as indices into the spec's.
    workers: Vec<usize>,
    ground: Ground,
    existence: Existence,
    reads: bool,
    asked: Asked,
    /// Bytes that may be under way.
    slack: u64,
}

/// Counters at an instant.
pub(crate) struct Moment {
    /// Of the device under each volume.
    devices: Vec<Option<DeviceCounters>>,
    /// Bytes of each volume in the page cache.
    cached: Vec<Option<u64>>,
    process: Option<[u64; 2]>,
    throttled: Option<u64>,
    segments: Option<[u64; 2]>,
    settings: Vec<DeviceSettings>,
    threads: BTreeMap<u32, (String, f64)>,
}

/// What came of it.
pub(crate) struct Testimony {
    /// Checks that need nothing else.
    pub(crate) checks: Vec<Check>,
    /// How often a quota stopped us.
    pub(crate) throttled: Option<u64>,
    /// TCP segments of the host that were sent again, 0 to 100.
    pub(crate) retransmitted_percent: Option<f64>,
    /// Threads of the kernel that worked, the busiest first.
    pub(crate) threads: Vec<KernelThread>,
    /// What the devices did, by their names.
    pub(crate) devices: Vec<DeviceUse>,
}

impl Witness {
    /// Looks at every volume of a run: what is read must be there before the first read.
    pub(crate) fn look(spec: &RunSpec) -> Witness {
        let seen = volumes(spec).into_iter().map(|workers| Seen::of(spec, workers));
        Witness { volumes: seen.collect(), asked_s: spec.seconds }
    }

    /// The counters now. Those of devices first: they are held against I/Os.
    pub(crate) fn now(&self) -> Moment {
        let files = || self.volumes.iter().map(|seen| seen.file());
        let device = |file: Option<&FileGround>| file?.device.as_ref()?.counters();
        Moment {
            devices: files().map(device).collect(),
            process: counters::process_io(),
            cached: files().map(|file| file?.cached_bytes()).collect(),
            throttled: counters::throttled(),
            segments: counters::tcp_segments(),
            settings: files().map(|file| settings(file).unwrap_or_default()).collect(),
            threads: counters::kernel_threads(),
        }
    }

    /// What the window between two moments was like. `collected` is what we counted in it.
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
            verdict::repeats(&[collected.totals().iops]),
        ];
        checks.extend(verdict::direct_io(&self.opened(before, after, &moved)));
        checks.extend(self.counters(before, after, &moved));
        checks.extend(verdict::block_layer(&self.disks(before, Some(after))));
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

    /// Bytes that each volume's workers read and wrote.
    fn moved(&self, collected: &Collector) -> Vec<[u64; 2]> {
        let workers = collected.workers();
        let sum = |seen: &Seen| {
            let done = seen.workers.iter().map(|index| &workers[*index]);
            done.fold([0; 2], |[read, written], worker| {
                [read + worker.read.bytes, written + worker.write.bytes]
            })
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

    fn counters(&self, before: &Moment, after: &Moment, moved: &[[u64; 2]]) -> Option<Check> {
        let mut devices: BTreeMap<String, Counted> = BTreeMap::new();
        for (index, seen) in self.volumes.iter().enumerate() {
            let Some(file) = seen.file() else { continue };
            let name = match &file.device {
                Some(device) => device.name.clone(),
                None => format!("{} of {}", file.file_system.as_deref().unwrap_or("?"), seen.name),
            };
            let since = since(before, after, index);
            let counted = devices.entry(name.clone()).or_insert(Counted {
                name,
                direct: true,
                issued: [0; 2],
                device: since.map(|since| [since.read_bytes, since.written_bytes]),
                device_ios: since.map_or(0, |since| since.reads + since.writes),
                slack: 0,
            });
            counted.direct &= file.direct;
            counted.issued[0] += moved[index][0];
            counted.issued[1] += moved[index][1];
            counted.slack += seen.slack;
        }
        let process = before.process.zip(after.process);
        let process = process
            .map(|([r, w], [read, written])| [read.saturating_sub(r), written.saturating_sub(w)]);
        verdict::counters_agree(&devices.into_values().collect::<Vec<_>>(), process)
    }

    /// Each disk once, with its settings and what was merged in it.
    fn disks(&self, before: &Moment, after: Option<&Moment>) -> Vec<Disk> {
        let mut disks: BTreeMap<&str, Disk> = BTreeMap::new();
        for (index, seen) in self.volumes.iter().enumerate() {
            let device = seen.file().and_then(|file| file.device.as_ref());
            let Some(device) = device else { continue };
            let disk = disks.entry(&device.disk).or_insert_with(|| Disk {
                asked: Asked::default(),
                before: queue(&device.disk, &before.settings[index]),
                after: after.map(|after| queue(&device.disk, &after.settings[index])),
                merged: after
                    .and_then(|after| since(before, after, index))
                    .map_or_else(Merged::default, |since| merged(&since)),
            });
            disk.asked = Asked {
                reads: disk.asked.reads || seen.asked.reads,
                writes: disk.asked.writes || seen.asked.writes,
                buffered: disk.asked.buffered || seen.asked.buffered,
                most_bytes: disk.asked.most_bytes.max(seen.asked.most_bytes),
            };
        }
        disks.into_values().collect()
    }

    /// What each device did between two moments, whoever asked it.
    fn devices(&self, before: &Moment, after: &Moment, seconds: f64) -> Vec<DeviceUse> {
        let mut devices: BTreeMap<&str, DeviceUse> = BTreeMap::new();
        for (index, seen) in self.volumes.iter().enumerate() {
            let device = seen.file().and_then(|file| file.device.as_ref());
            let Some((device, since)) = device.zip(since(before, after, index)) else { continue };
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

/// What can be said before a run about volumes and the host they would be driven from. Reads
/// nothing but a few blocks of devices.
pub fn inspect(opened: &[(String, Arc<dyn Volume>)]) -> Vec<Check> {
    let seen = opened.iter().map(|(name, volume)| {
        let ground = volume.ground();
        let buffered = matches!(&ground, Ground::File(file) if !file.direct);
        Seen {
            name: name.clone(),
            workers: Vec::new(),
            existence: existence(&ground, [(0, volume.geometry().bytes())]),
            ground,
            reads: true,
            asked: Asked { buffered, ..Asked::default() },
            slack: 0,
        }
    });
    let witness = Witness { volumes: seen.collect(), asked_s: 0.0 };
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
    checks.extend(verdict::block_layer(&witness.disks(&now, None)));
    checks.sort_by(|a, b| a.code.cmp(&b.code));
    checks
}

impl Seen {
    fn of(spec: &RunSpec, workers: Vec<usize>) -> Seen {
        let all = || workers.iter().map(|index| &spec.workers[*index]);
        let first = &spec.workers[workers[0]];
        let (name, volume) = (first.uri.clone(), first.volume.clone());
        let ground = volume.ground();
        let mut ranges: Vec<(u64, u64)> =
            all().map(|worker| worker.workload.range.on(volume.geometry())).collect();
        ranges.sort_unstable();
        ranges.dedup();
        let reads = all().any(|worker| worker.workload.access.read_percent() > 0.0);
        let longest = all().map(|worker| u64::from(worker.workload.access.longest_bytes()));
        let under_way = |index: &usize| {
            let workload = &spec.workers[*index].workload;
            u64::from(workload.outstanding) * u64::from(workload.access.longest_bytes())
        };
        Seen {
            name,
            reads,
            existence: existence(&ground, ranges),
            asked: Asked {
                reads,
                writes: all().any(|worker| worker.workload.writes()),
                buffered: matches!(&ground, Ground::File(file) if !file.direct),
                most_bytes: longest.max().unwrap_or(0),
            },
            slack: workers.iter().map(under_way).sum(),
            ground,
            workers,
        }
    }

    fn file(&self) -> Option<&FileGround> {
        match &self.ground {
            Ground::File(file) => Some(file),
            _ => None,
        }
    }
}

/// What the device under a volume did between two moments.
fn since(before: &Moment, after: &Moment, volume: usize) -> Option<DeviceCounters> {
    let (before, after) = before.devices[volume].zip(after.devices[volume])?;
    Some(after.since(&before))
}

fn merged(since: &DeviceCounters) -> Merged {
    Merged {
        reads: Merges { done: since.reads, merged: since.merged_reads },
        writes: Merges { done: since.writes, merged: since.merged_writes },
    }
}

/// What is memory below a file.
fn beneath(file: &FileGround) -> Option<Beneath> {
    let memory = file.memory().map(|name| Beneath::Memory(name.to_owned()));
    memory.or_else(|| file.cached_disk().map(|disk| Beneath::Cached(disk.to_owned())))
}

/// Whether there are data in ranges of start and length.
fn existence(ground: &Ground, ranges: impl IntoIterator<Item = (u64, u64)>) -> Existence {
    let file = match ground {
        Ground::Nothing => return Existence::Nothing,
        Ground::Memory => return Existence::Memory,
        Ground::Elsewhere => return Existence::Elsewhere,
        Ground::File(file) => file,
    };
    let mut found = None;
    for (start, length) in ranges {
        let next = if file.is_device {
            file.sample(start, length).map(|(blocks, zero)| Existence::Sampled { blocks, zero })
        } else {
            file.extents(start, length).map(|extents| Existence::Mapped {
                bytes: length,
                unwritten: extents.unwritten,
                holes: extents.holes,
                exact: extents.exact,
            })
        };
        found = Some(match (found, next) {
            (_, Err(error)) => return Existence::Unknown(error.to_string()),
            (None, Ok(next)) => next,
            (Some(sum), Ok(next)) => add(sum, next),
        });
    }
    found.unwrap_or_else(|| Existence::Unknown("nothing of it is driven".to_owned()))
}

/// Two ranges of the same volume.
fn add(one: Existence, other: Existence) -> Existence {
    match (one, other) {
        (
            Existence::Mapped { bytes, unwritten, holes, exact },
            Existence::Mapped { bytes: b, unwritten: u, holes: h, exact: e },
        ) => Existence::Mapped {
            bytes: bytes + b,
            unwritten: unwritten + u,
            holes: holes + h,
            exact: exact && e,
        },
        (Existence::Sampled { blocks, zero }, Existence::Sampled { blocks: b, zero: z }) => {
            Existence::Sampled { blocks: blocks + b, zero: zero + z }
        }
        (one, _) => one,
    }
}

fn settings(file: Option<&FileGround>) -> Option<DeviceSettings> {
    Some(file?.device.as_ref()?.settings())
}

fn queue(disk: &str, settings: &DeviceSettings) -> Queue {
    let settings = settings.clone();
    Queue {
        name: disk.to_owned(),
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

fn clock(io_us: Option<f64>, window: Option<Window>) -> Check {
    let clock = Clock::get();
    let source = counters::clock_source();
    verdict::clock(source.as_deref(), clock.uses_counter(), clock.cost_ns(), io_us, window)
}

fn retransmitted(before: Option<[u64; 2]>, after: Option<[u64; 2]>) -> Option<f64> {
    let ([sent, again], [sent_then, again_then]) = (after?, before?);
    let again = again.saturating_sub(again_then) as f64;
    let all = sent.saturating_sub(sent_then) as f64 + again;
    (all > 0.0).then(|| again / all * 100.0)
}

/// Threads of the kernel below this share of a core are not worth a line.
const BUSY_CORES: f64 = 0.005;
/// Most that are listed.
const LISTED: usize = 16;

fn busy_threads(before: &Moment, after: &Moment, seconds: f64) -> Vec<KernelThread> {
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
    fn ranges_add_up() {
        let mapped = |holes| Existence::Mapped { bytes: 10, unwritten: 1, holes, exact: true };
        let sum = Existence::Mapped { bytes: 20, unwritten: 2, holes: 7, exact: true };
        assert_eq!(add(mapped(3), mapped(4)), sum);
        let ground = Ground::Elsewhere;
        assert_eq!(existence(&ground, [(0, 1)]), Existence::Elsewhere);
    }

    #[test]
    fn counts_what_was_sent_again() {
        assert_eq!(retransmitted(Some([100, 1]), Some([199, 2])), Some(1.0));
        assert_eq!(retransmitted(Some([100, 1]), Some([100, 1])), None);
        assert_eq!(retransmitted(None, Some([100, 1])), None);
    }
}
