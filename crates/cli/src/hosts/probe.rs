//! Probe before the start: which volumes do several ranks share? Each rank describes its volumes.
//! Where that leaves a doubt and the job writes anyway, each rank writes a mark, reads those of the
//! others, and restores the data before.

mod lead;
mod verdict;

use std::sync::Arc;

use load::Prepared;
use serde::{Deserialize, Serialize};
use volume::mark::{self, MARK_BYTES};
use volume::{DataLocation, Lifetime, Uri, Volume};

use super::served::Whereabouts;
use crate::output;

/// Beginnings of names of devices that are unique in the world.
const WORLDWIDE: [&str; 5] = ["naa.", "eui.", "uuid.", "nvme.", "mpath-"];

/// Words of rank 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ask {
    /// Write a mark in each area.
    Mark(u64, Vec<Area>),
    /// Read all areas.
    Look(u64, Vec<Area>),
    /// Restore the data before the marks.
    Restore,
    /// Begin the work.
    Begin,
}

/// Words of the other ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// Volumes of the rank.
    Volumes(Vec<Seen>),
    /// Slots with a mark.
    Marked(Vec<u32>),
    /// Volumes that were read, each with the slots that hold their mark.
    Found(Vec<(usize, Vec<u32>)>),
    /// The marks are gone.
    Restored,
}

/// Blocks of a volume of a rank, one for each slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Area {
    /// Number of the volume.
    pub volume: usize,
    /// Offset of the first block.
    pub at: u64,
    /// First slot.
    pub slot: u32,
    /// Number of slots.
    pub count: u32,
}

/// A volume as a rank sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seen {
    /// URI.
    pub name: String,
    pub bytes: u64,
    pub block_bytes: u32,
    /// Memory of the rank, or an emulated drive: no other rank sees it, or it is not to be read.
    pub is_own: bool,
    /// Whether the volume is local to the host.
    pub is_local: bool,
    /// Keys of its data on this machine: two volumes with a key in common are one.
    pub here: Vec<String>,
    /// WWID of a local volume, or address of a remote one.
    pub world: Option<String>,
    /// Digest of some blocks.
    pub digest: Option<u64>,
    /// Longest range that the job writes: offset and length.
    pub writes: Option<(u64, u64)>,
}

/// Volumes of this rank.
pub struct Rank {
    volumes: Vec<(Arc<dyn Volume>, Seen)>,
    /// Number of a volume, offset and data before of each mark.
    marks: Vec<(usize, u64, Vec<u8>)>,
}

impl Rank {
    pub fn of(run: &Prepared) -> Rank {
        let here = Whereabouts::of_this();
        let one = |workers: Vec<usize>| {
            let all = || workers.iter().map(|index| &run.spec.workers[*index]);
            let first = &run.spec.workers[workers[0]];
            let volume = Arc::clone(run.volume(first));
            let writing = all().filter(|worker| worker.workload.access.writes());
            let ranges = writing.map(|worker| worker.workload.range.on(volume.geometry()));
            let writes = ranges.max_by_key(|(_, length)| *length);
            let mut seen = seen(&first.uri, &*volume, &here);
            seen.is_own |= run.targets.is_some();
            seen.writes = writes.filter(|_| !volume.geometry().read_only);
            if !seen.is_own {
                seen.digest = mark::digest(&*volume).ok().flatten().map(|of| of.value);
            }
            (volume, seen)
        };
        let volumes = run.spec.volumes().into_iter().map(one).collect();
        Rank { volumes, marks: Vec::new() }
    }

    pub fn volumes(&self) -> Said {
        Said::Volumes(self.volumes.iter().map(|(_, seen)| seen.clone()).collect())
    }

    /// Does what rank 0 asks.
    pub fn answer(&mut self, ask: &Ask) -> Said {
        match ask {
            Ask::Mark(nonce, areas) => {
                let marked = areas.iter().filter(|area| self.mark(*nonce, area).is_some());
                Said::Marked(marked.map(|area| area.slot).collect())
            }
            Ask::Look(nonce, areas) => {
                Said::Found(areas.iter().filter_map(|area| self.look(*nonce, area)).collect())
            }
            Ask::Restore | Ask::Begin => {
                self.restore();
                Said::Restored
            }
        }
    }

    /// Writes the mark of an area, if this rank's job writes there.
    fn mark(&mut self, nonce: u64, area: &Area) -> Option<()> {
        let (volume, seen) = self.volumes.get(area.volume)?;
        let (start, length) = seen.writes.filter(|_| !seen.is_own)?;
        let end = area.at.checked_add(MARK_BYTES as u64)?;
        if area.at < start || end > start.checked_add(length)? {
            return None;
        }
        let before = mark::replace(&**volume, area.at, &text(nonce, area.slot)).ok()?;
        self.marks.push((area.volume, area.at, before));
        Some(())
    }

    fn look(&self, nonce: u64, area: &Area) -> Option<(usize, Vec<u32>)> {
        let (volume, _) = self.volumes.get(area.volume)?;
        let mut found = Vec::new();
        let mut show = |number: u32, data: &[u8]| {
            let slot = area.slot + number;
            found.extend((data == text(nonce, slot)).then_some(slot));
        };
        mark::read(&**volume, area.at, area.count, &mut show).ok()?;
        Some((area.volume, found))
    }

    fn restore(&mut self) {
        for (number, offset, before) in std::mem::take(&mut self.marks) {
            let (volume, seen) = &self.volumes[number];
            if let Err(error) = mark::replace(&**volume, offset, &before) {
                output::note(format_args!(
                    "drumfire: {}: cannot restore {MARK_BYTES} bytes at offset {offset}, which the \
                     job writes, too: {error}",
                    seen.name
                ));
            }
        }
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.restore();
    }
}

/// The block of a mark.
fn text(nonce: u64, slot: u32) -> Vec<u8> {
    let mut state = nonce ^ u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let words = (0..MARK_BYTES / 8).map(|_| block::splitmix(&mut state));
    words.flat_map(u64::to_le_bytes).collect()
}

/// A volume by its names.
fn seen(name: &str, volume: &dyn Volume, whereabouts: &Whereabouts) -> Seen {
    let geometry = volume.geometry();
    let mut seen = Seen {
        name: name.to_owned(),
        bytes: geometry.bytes(),
        block_bytes: geometry.block_bytes,
        // An injected fault is of the job's I/Os.
        is_own: volume.emulates().is_some(),
        is_local: volume.transport() == "local",
        ..Seen::default()
    };
    // Several volumes as one have no URI.
    let Ok(uri) = name.parse::<Uri>() else { return seen };
    match DataLocation::of(&uri) {
        None => seen.is_own = true,
        Some(DataLocation::Here { file, device }) => {
            let file = file.map(|(device, inode)| format!("file {device} {inode}"));
            let device = device.map(|(name, _)| format!("device {name}"));
            let keys = [file, device].into_iter().flatten();
            seen.here = keys.filter_map(|key| whereabouts.key(&key)).collect();
            seen.world = worldwide(&Lifetime::of(&uri, volume));
        }
        // A loopback address is of each host.
        Some(DataLocation::There(address)) if crate::run::is_loopback(&uri) => {
            seen.here = whereabouts.key_of_loopback(&address).into_iter().collect();
        }
        Some(DataLocation::There(address)) => seen.world = Some(address),
        Some(DataLocation::Several(_)) => {}
    }
    seen
}

/// The name of a device that is unique in the world.
fn worldwide(lifetime: &Lifetime) -> Option<String> {
    let Lifetime::Lasting(name) = lifetime else { return None };
    let name = std::str::from_utf8(name).ok()?.strip_prefix("device ")?;
    WORLDWIDE.iter().any(|begin| name.starts_with(begin)).then(|| name.to_owned())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn names_in_the_world_are_told_from_those_of_a_machine() {
        let of = |name: &str| worldwide(&Lifetime::Lasting(name.as_bytes().to_vec()));
        assert_eq!(of("device eui.0025385"), Some("eui.0025385".to_owned()));
        assert_eq!(of("device naa.5000 partition 2"), Some("naa.5000 partition 2".to_owned()));
        for of_a_machine in ["device /srv/disk.img", "device root-disk", "file /srv/naa.5000"] {
            assert_eq!(of(of_a_machine), None);
        }
        assert_eq!(worldwide(&Lifetime::Process), None);
    }

    #[test]
    fn each_slot_has_a_mark_of_its_own() {
        let all: std::collections::HashSet<Vec<u8>> =
            (0..1000).map(|slot| text(7, slot)).chain([text(8, 0)]).collect();
        assert_eq!(all.len(), 1001);
        assert!(all.iter().all(|mark| mark.len() == MARK_BYTES));
    }

    /// Two ranks of one volume, and one of another: a mark is seen where it is written, and the
    /// data before is there again, also if rank 0 never says so.
    #[test]
    fn marks_are_seen_on_the_same_volume_and_leave_no_trace() {
        let open = || volume::open(&"ram:64k".parse().unwrap(), volume::Purpose::Write).unwrap();
        let (shared, other) = (open(), open());
        let rank = |volume: &Arc<dyn Volume>, writes| {
            let seen = Seen { writes, ..Seen::default() };
            Rank { volumes: vec![(Arc::clone(volume), seen)], marks: Vec::new() }
        };
        let whole = Some((0, 64 << 10));
        let mut all = [rank(&shared, whole), rank(&shared, None), rank(&other, whole)];
        let area =
            |slot: u32, count| Area { volume: 0, at: 8192 + u64::from(slot) * 4096, slot, count };
        assert_eq!(all[0].answer(&Ask::Mark(7, vec![area(0, 1)])), Said::Marked(vec![0]));
        // A rank whose job does not write there writes no mark.
        assert_eq!(all[1].answer(&Ask::Mark(7, vec![area(1, 1)])), Said::Marked(vec![]));
        let outside = Area { at: 64 << 10, ..area(2, 1) };
        assert_eq!(all[2].answer(&Ask::Mark(7, vec![outside])), Said::Marked(vec![]));
        let look = Ask::Look(7, vec![area(0, 3)]);
        let found = all.each_mut().map(|rank| rank.answer(&look));
        let of = |slots: &[u32]| Said::Found(vec![(0, slots.to_vec())]);
        assert_eq!(found, [of(&[0]), of(&[0]), of(&[])]);
        drop(all);
        assert_eq!(rank(&shared, None).answer(&look), of(&[]));
    }

    #[test]
    fn words_are_read_back() {
        let area = Area { volume: 1, at: 4096, slot: 3, count: 1 };
        for ask in [Ask::Mark(u64::MAX, vec![area]), Ask::Look(1, vec![]), Ask::Restore] {
            let text = serde_json::to_vec(&ask).unwrap();
            assert_eq!(serde_json::from_slice::<Ask>(&text).unwrap(), ask);
        }
    }
}
