//! Media of volumes: caches above them, data reduction, flash, mixed media.

use std::collections::BTreeMap;

use stats::Check;
use stats::verdict::{self, Data, Flash, Medium, WorkingSet};
use volume::{FileGround, Ground};

use super::Witness;
use super::moment::Moment;
use super::seen::Seen;

impl Seen {
    /// Memory of this process or of a target in it, without data reduction.
    fn is_memory(&self) -> bool {
        self.in_target_memory() || matches!(self.ground, Ground::Memory | Ground::Nothing)
    }

    /// Memory of a target: one in this process, or by its product name.
    fn in_target_memory(&self) -> bool {
        self.in_target || matches!(&self.ground, Ground::Target(product) if is_memory(product))
    }

    /// Its medium with respect to caches. `cached` is that of volumes in the page cache, and
    /// `cache_bytes` the size of the largest CPU cache.
    fn medium(&self, cached: Medium, cache_bytes: Option<u64>) -> Medium {
        let emulated = self.volume.emulates().is_some();
        match &self.ground {
            Ground::Memory => Medium::Memory { cache_bytes: cache_bytes.filter(|_| !emulated) },
            _ if self.in_target_memory() && !emulated => Medium::TargetMemory,
            Ground::File(file) if !emulated => of_file(file, cached, self.turns),
            _ => Medium::Elsewhere,
        }
    }

    fn is_cached(&self) -> bool {
        self.file().is_some_and(is_cached) && self.volume.emulates().is_none()
    }

    /// A word that tells media apart.
    fn kind(&self) -> String {
        if let Some(what) = self.volume.emulates() {
            return format!("an emulated drive ({what})");
        }
        let file = match &self.ground {
            Ground::Nothing => return "nothing at all".to_owned(),
            Ground::Memory => return "memory".to_owned(),
            Ground::Target(product) => {
                let memory = if self.in_target_memory() { "memory of a target" } else { "remote" };
                return format!("{memory} ({}, {product})", self.volume.transport());
            }
            Ground::Elsewhere | Ground::Several(_) => {
                return format!("remote ({})", self.volume.transport());
            }
            Ground::File(file) => file,
        };
        if file.stack.memory().is_some() {
            return "memory".to_owned();
        }
        if !file.direct {
            return "a file in the page cache".to_owned();
        }
        match self.turns {
            Some(true) => "a rotating disk",
            Some(false) => "a solid-state disk",
            None => "a disk",
        }
        .to_owned()
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
    if !file.stack.is_charged {
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
    pub(super) fn content(&self) -> Option<Check> {
        let one = |seen: &Seen| Data {
            name: seen.name.clone(),
            written: seen.written.filter(|_| !seen.is_memory()),
            read: seen.kept,
        };
        verdict::content(&self.volumes.iter().map(one).collect::<Vec<_>>())
    }

    /// H08: the working set is larger than caches.
    pub(super) fn working_set(&self) -> Option<Check> {
        let cached = self.volumes.iter().filter(|seen| seen.is_cached());
        let all_bytes = cached.map(|seen| seen.hot_bytes).sum();
        let cached = Medium::PageCache { memory_bytes: self.memory_bytes, all_bytes };
        let stores = self.volumes.iter().filter(|seen| !matches!(seen.ground, Ground::Nothing));
        let one = |seen: &Seen| WorkingSet {
            name: seen.name.clone(),
            used_bytes: seen.used_bytes,
            hot_bytes: seen.hot_bytes,
            volume_bytes: seen.bytes,
            longest_bytes: seen.asked.most_bytes,
            medium: seen.medium(cached.clone(), self.cache_bytes),
        };
        verdict::working_set(&stores.map(one).collect::<Vec<_>>())
    }

    /// H08: no two volumes, or parts of them, are one file or device.
    pub(super) fn distinct(&self) -> Option<Check> {
        let mut known: BTreeMap<[u64; 2], &Seen> = BTreeMap::new();
        let mut same = Vec::new();
        for seen in &self.volumes {
            let Some(identity) = seen.file().and_then(FileGround::identity) else { continue };
            match known.get(&identity) {
                // Steps of a job may open a volume for each of their groups.
                Some(first) if first.name == seen.name && first.whole != seen.whole => {}
                Some(first) => same.push((seen.name.clone(), first.name.clone())),
                None => drop(known.insert(identity, seen)),
            }
        }
        verdict::distinct(&same)
    }

    /// H07: flash was written before. The kernel's counters until `before` tell.
    pub(super) fn preconditioning(&self, before: &Moment) -> Option<Check> {
        let mut disks: BTreeMap<&str, Flash> = BTreeMap::new();
        for (index, seen) in self.volumes.iter().enumerate() {
            let direct = seen.asked.writes && !seen.asked.buffered;
            let file = seen.file().filter(|file| direct && file.stack.memory().is_none());
            let Some(device) = file.and_then(|file| file.device.as_ref()) else { continue };
            // The device below a loop device has a state of its own, and so has its file.
            let flash = before.settings[index].rotational == Some(false);
            if !flash || device.has_thread() {
                continue;
            }
            let counted = before.disks[index].unwrap_or_default();
            disks.entry(&device.disk).or_insert_with(|| Flash {
                disk: device.disk.clone(),
                capacity_bytes: device.disk_bytes().unwrap_or(0),
                written_bytes: counted.written_bytes,
                trimmed_bytes: counted.trimmed_bytes,
            });
        }
        verdict::preconditioning(&disks.into_values().collect::<Vec<_>>())
    }

    /// H24: all volumes are of one kind.
    pub(super) fn one_medium(&self) -> Option<Check> {
        if self.volumes.len() < 2 {
            return None;
        }
        let kinds = self.volumes.iter().map(|seen| (seen.name.clone(), seen.kind()));
        verdict::one_medium(&kinds.collect::<Vec<_>>())
    }
}
