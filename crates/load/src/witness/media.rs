//! Media of volumes: caches above them, data reduction, flash, mixed media.

use std::collections::BTreeMap;

use os::Device;
use stats::verdict::{self, Data, Finding, Flash, Medium, WorkingSet, Writes};
use stats::{Check, Collector};
use volume::{FileGround, Ground};

use super::Witness;
use super::aside::{all_are_remote, any_is_remote};
use super::moment::Moment;
use super::seen::Seen;
use super::wear;

impl Seen {
    /// Memory of this process or of a target in it, without data reduction.
    pub(super) fn is_memory(&self) -> bool {
        self.in_target_memory() || matches!(self.ground, Ground::Memory | Ground::Nothing)
    }

    /// Memory of a target: one in this process, or by its product name.
    pub(super) fn in_target_memory(&self) -> bool {
        self.in_target || matches!(&self.ground, Ground::Target(product) if is_memory(product))
    }

    /// Returns the volume's medium with respect to caches. `cached` is that of volumes in the page
    /// cache, and `cache_bytes` the size of the largest CPU cache.
    fn medium(&self, cached: Medium, cache_bytes: Option<u64>) -> Medium {
        match &self.ground {
            _ if self.volume.emulates().is_some() => Medium::Emulated,
            Ground::Memory => Medium::Memory { cache_bytes },
            _ if self.in_target_memory() => Medium::TargetMemory,
            Ground::File(file) => of_file(file, cached, self.turns),
            _ => Medium::Elsewhere,
        }
    }

    fn is_cached(&self) -> bool {
        self.file().is_some_and(is_cached) && self.volume.emulates().is_none()
    }

    /// Returns a word that distinguishes media; `None` if the medium is unknown.
    fn kind(&self) -> Option<String> {
        if let Some(what) = self.volume.emulates() {
            return Some(format!("an emulated drive ({what})"));
        }
        let file = match &self.ground {
            Ground::Nothing => return Some("null".to_owned()),
            Ground::Memory => return Some("memory".to_owned()),
            Ground::Target(product) => {
                let memory = if self.in_target_memory() { "memory of a target" } else { "remote" };
                return Some(format!("{memory} ({}, {product})", self.volume.transport()));
            }
            _ if self.in_target => return Some("memory of a target".to_owned()),
            Ground::Elsewhere | Ground::Several(_) => return None,
            Ground::File(file) => file,
        };
        let word = match self.turns {
            _ if file.stack.memory().is_some() => "memory",
            _ if file.stack.hidden().is_some() => return None,
            _ if !file.direct => "a file in the page cache",
            Some(true) => "a rotating disk",
            Some(false) => "a solid-state disk",
            None => "a disk",
        };
        Some(word.to_owned())
    }
}

/// Whether a target's product name means memory, such as `DRUMFIRE RAM`, `LIO-ORG RAMDISK-MCP` or
/// `SPDK Malloc disk`.
fn is_memory(product: &str) -> bool {
    let product = product.to_lowercase();
    product
        .split(|letter: char| !letter.is_alphanumeric())
        .any(|word| ["ram", "ramdisk", "memory", "malloc"].contains(&word))
}

/// Whether it uses the page cache, or is on a loop device that does.
fn is_cached(file: &FileGround) -> bool {
    let elsewhere = !file.stack.is_charged;
    let cached = !file.direct || file.stack.cached_disk().is_some();
    cached && !elsewhere && file.stack.memory().is_none()
}

fn of_file(file: &FileGround, cached: Medium, rotational: Option<bool>) -> Medium {
    if let Some(what) = file.stack.memory() {
        return Medium::Beneath(what.to_owned());
    }
    if is_cached(file) {
        return cached;
    }
    if !file.stack.is_charged || file.stack.hidden().is_some() {
        return Medium::Elsewhere;
    }
    let Some(device) = &file.device else {
        let name = file.file_system.clone().unwrap_or_else(|| "?".to_owned());
        return Medium::Disk { name, rotational };
    };
    Medium::Disk { name: device.disk.clone(), rotational }
}

impl Witness {
    /// H04: data written and read cannot be reduced.
    pub(super) fn content(&self) -> Check {
        let plain = |seen: &&Seen| seen.is_memory();
        let data = self.volumes.iter().filter(|seen| !plain(seen)).map(|seen| Data {
            name: seen.name.clone(),
            written: seen.written,
            reads: seen.reads,
            read: seen.kept,
        });
        let data: Vec<Data> = data.collect();
        let others = self.volumes.iter().filter(plain);
        let others = others.map(|seen| seen.unasked_for("stores no data, or stores it unchanged"));
        verdict::content(&data, others.collect())
    }

    /// H08: the working set is larger than caches.
    pub(super) fn working_set(&self, collected: Option<&Collector>) -> Check {
        let cached = self.volumes.iter().filter(|seen| seen.is_cached());
        let all_bytes = cached.map(|seen| self.hot_bytes(seen, collected)).sum();
        let cached = Medium::PageCache { memory_bytes: self.memory_bytes, all_bytes };
        let stores = |seen: &Seen| !matches!(seen.ground, Ground::Nothing);
        let one = |seen: &Seen| WorkingSet {
            name: seen.name.clone(),
            used_bytes: seen.used_bytes,
            hot_bytes: self.hot_bytes(seen, collected),
            volume_bytes: seen.bytes,
            longest_bytes: seen.asked.most_bytes,
            medium: self.by_reads(seen, seen.medium(cached.clone(), self.cache_bytes), collected),
        };
        let sets: Vec<WorkingSet> =
            self.volumes.iter().filter(|seen| stores(seen)).map(one).collect();
        verdict::working_set(&sets, self.asides(stores))
    }

    /// Returns the medium of a remote volume, inferred from read latencies (H25), the only
    /// evidence.
    fn by_reads(&self, seen: &Seen, medium: Medium, collected: Option<&Collector>) -> Medium {
        if medium != Medium::Elsewhere || !all_are_remote(&*seen.volume) {
            return medium;
        }
        let verdict = collected.and_then(|collected| self.served_by_cache(seen, collected));
        verdict.map_or(medium, Medium::Probed)
    }

    /// H08: no two volumes, or parts of them, are one file or device.
    pub(super) fn distinct(&self) -> Option<Check> {
        let mut known: BTreeMap<[u64; 2], &Seen> = BTreeMap::new();
        let (mut same, mut untold) = (Vec::new(), Vec::new());
        let files = self.volumes.iter().filter_map(|seen| Some((seen, seen.file()?)));
        for (seen, file) in files {
            let Some(identity) = FileGround::identity(file) else {
                untold.push(seen.name.clone());
                continue;
            };
            match known.get(&identity) {
                // Steps of a job may open a volume for each of their groups.
                Some(first) if first.name == seen.name && first.whole != seen.whole => {}
                Some(first) => same.push((seen.name.clone(), first.name.clone())),
                None => drop(known.insert(identity, seen)),
            }
        }
        verdict::distinct(&same, if self.volumes.len() > 1 { &untold } else { &[] })
    }

    /// Returns H07: flash was written before. The evidence is the kernel's counters until `before`,
    /// and in the window those of the disk itself.
    pub(super) fn preconditioning(&self, before: &Moment, after: &Moment) -> Check {
        let glanced = self.glanced.borrow();
        let mut disks: BTreeMap<&str, Flash> = BTreeMap::new();
        let mut others = Vec::new();
        for (index, seen) in self.volumes.iter().enumerate() {
            let device = match self.may_be_flash(index, seen, before) {
                Ok(device) => device,
                Err(why) => {
                    others.push(why);
                    continue;
                }
            };
            let counted = before.disks[index].unwrap_or_default();
            let disk = disks.entry(&device.disk).or_insert_with(|| Flash {
                disk: device.disk.clone(),
                capacity_bytes: device.disk_bytes().unwrap_or(0),
                written_bytes: counted.written_bytes,
                trimmed_bytes: counted.trimmed_bytes,
                writes: counted.writes,
                asked: seen.writes,
                share: 0.0,
                amplified: wear::amplified(
                    &device.disk,
                    &[Some(&before.media), glanced.media.as_ref(), Some(&after.media)],
                ),
            });
            disk.share += seen.used_bytes as f64 / disk.capacity_bytes.max(1) as f64;
            disk.asked = disk.asked.zip(seen.writes).map(|(one, other)| Writes {
                mean_bytes: one.mean_bytes.min(other.mean_bytes),
                random: one.random || other.random,
            });
        }
        verdict::preconditioning(&disks.into_values().collect::<Vec<_>>(), others)
    }

    /// Returns the disk that a volume writes, if that may be flash; else the finding on it.
    fn may_be_flash<'a>(
        &self,
        index: usize,
        seen: &'a Seen,
        before: &Moment,
    ) -> Result<&'a Device, Finding> {
        if !seen.asked.writes {
            return Err(seen.unasked_for("not written"));
        }
        if seen.volume.emulates().is_some() {
            return Err(seen.unasked_for("an emulated drive"));
        }
        if any_is_remote(&*seen.volume) && !seen.in_target_memory() {
            return Err(seen.untold("the storage of its target is not known"));
        }
        let device = seen.file().filter(|_| !seen.is_in_memory());
        let device = device.and_then(|file| file.device.as_ref());
        let device = device.ok_or_else(|| self.aside(seen))?;
        match before.settings[index].rotational {
            // The disk under a loop device has a separate state, and so has its file.
            _ if device.has_thread() => {
                Err(seen.untold("storage below its loop device is not examined"))
            }
            // A hypervisor reports every disk as rotational.
            Some(true) if !device.is_virtual() => Err(seen.unasked_for("a rotating disk")),
            _ => Ok(device),
        }
    }

    /// H24: all volumes are of one kind.
    pub(super) fn one_medium(&self) -> Check {
        let kinds = self.volumes.iter().map(|seen| (seen.name.clone(), seen.kind()));
        verdict::one_medium(&kinds.collect::<Vec<_>>())
    }
}
