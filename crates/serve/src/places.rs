//! The places of a server's volumes. A volume has one from when it is added until its removal has
//! ended on all cores; the number of its place is its [`UnitId`] in all protocols.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::scsi::UnitShared;
use proto::{DiskId, Instance, Instances, UnitId};
use volume::Volume;

use crate::config::Export;
use crate::counts::VolumeCounts;

/// All places. Locked when volumes change and when a lane opens, never for an I/O.
pub(crate) struct Places {
    state: Mutex<State>,
    /// Number of places.
    pub(crate) count: usize,
}

struct State {
    places: Vec<Option<Place>>,
    all: Instances,
    /// Instances of disks that are or were served: a failed flush is not forgotten when its disk
    /// comes back.
    known: Vec<(DiskId, Instance)>,
}

/// A volume in its place.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) unit: UnitId,
    pub(crate) export: Export,
    pub(crate) instance: Instance,
    /// Reservations, and what else binds all hosts.
    pub(crate) shared: UnitShared,
    /// The volume is being removed: no host can choose it any more.
    is_leaving: bool,
    /// Counts of the volumes that had the place before.
    pub(crate) before: VolumeCounts,
}

impl Places {
    /// Places of `exports`, in that order, and `spare` free ones. `drawn`: a random number, unique
    /// to each run of a server.
    pub(crate) fn new(exports: &[Export], spare: usize, drawn: u64) -> Places {
        let count = exports.len() + spare;
        let places = (0..count).map(|_| None).collect();
        let (all, known) = (Instances::new(drawn), Vec::new());
        let places = Places { state: Mutex::new(State { places, all, known }), count };
        for export in exports {
            places.take(export.clone(), |_| VolumeCounts::default());
        }
        places
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Places are consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a volume in the first free place; `None` if there is none. `counts` are those of the
    /// place until now.
    pub(crate) fn take(
        &self,
        export: Export,
        counts: impl FnOnce(UnitId) -> VolumeCounts,
    ) -> Option<UnitId> {
        let mut state = self.lock();
        let index = state.places.iter().position(Option::is_none)?;
        let unit = UnitId(u32::try_from(index).ok()?);
        let known = state.known.iter().find(|(disk, _)| *disk == export.disk);
        let instance = known.map(|(_, instance)| instance.clone()).unwrap_or_else(|| {
            let new = state.all.unit();
            state.known.push((export.disk, new.clone()));
            new
        });
        let (shared, is_leaving, before) = (export.reservations.clone(), false, counts(unit));
        state.places[index] = Some(Place { unit, export, instance, shared, is_leaving, before });
        Some(unit)
    }

    /// The volume is not offered any more.
    pub(crate) fn leaves(&self, unit: UnitId) {
        if let Some(Some(place)) = self.lock().places.get_mut(unit.0 as usize) {
            place.is_leaving = true;
        }
    }

    /// Whether a volume of this target and number is being removed.
    pub(crate) fn is_leaving(&self, export: &Export) -> bool {
        let state = self.lock();
        let is_it = |one: &Export| one.target == export.target && one.lun == export.lun;
        state.places.iter().flatten().any(|place| place.is_leaving && is_it(&place.export))
    }

    /// The volume's hosts may send no more commands to it, if they keep others of its target.
    pub(crate) fn withdraw(&self, unit: UnitId) {
        let state = self.lock();
        let Some(Some(gone)) = state.places.get(unit.0 as usize) else { return };
        let stays = |other: &&Place| {
            let (export, gone) = (&other.export, &gone.export);
            export.target == gone.target && export.subsystem == gone.subsystem
        };
        let mut others = state.places.iter().flatten().filter(|place| !place.is_leaving);
        if others.any(|other| stays(&other)) {
            gone.shared.withdraw();
        }
    }

    /// Frees a place, and returns its volume.
    pub(crate) fn free(&self, unit: UnitId) -> Option<Export> {
        Some(self.lock().places.get_mut(unit.0 as usize)?.take()?.export)
    }

    /// The volumes that hosts may choose.
    pub(crate) fn offered(&self) -> Vec<Place> {
        let state = self.lock();
        state.places.iter().flatten().filter(|place| !place.is_leaving).cloned().collect()
    }

    /// The volume in a place.
    pub(crate) fn volume(&self, unit: usize) -> Option<Arc<dyn Volume>> {
        let state = self.lock();
        let place = state.places.get(unit)?.as_ref();
        place.map(|place| Arc::clone(&place.export.volume))
    }

    /// The name of a volume in the log.
    pub(crate) fn name(&self, unit: usize) -> String {
        let state = self.lock();
        let place = state.places.get(unit).and_then(Option::as_ref);
        place.map_or_else(String::new, |place| place.export.name())
    }

    /// Writes to a volume that were acknowledged may be lost: the next flush of every connection
    /// fails.
    pub(crate) fn lose(&self, unit: usize) {
        if let Some(Some(place)) = self.lock().places.get(unit) {
            place.instance.lose();
        }
    }
}

#[cfg(test)]
mod test {
    use volume::Purpose;

    use super::*;

    fn export(disk: u8) -> Export {
        Export {
            target: format!("iqn.2026-11.io.drumfire:{disk}"),
            subsystem: format!("nqn.2026-11.io.drumfire:{disk}"),
            lun: 1,
            volume: volume::open(&"null:1m".parse().unwrap(), Purpose::Store).unwrap(),
            disk: DiskId::new([disk; 16]),
            reservations: UnitShared::default(),
        }
    }

    fn take(places: &Places, disk: u8) -> Option<u32> {
        places.take(export(disk), |_| VolumeCounts::default()).map(|unit| unit.0)
    }

    #[test]
    fn a_place_is_free_again_when_its_removal_has_ended() {
        let places = Places::new(&[export(0), export(1)], 1, 7);
        assert_eq!((places.count, take(&places, 2), take(&places, 3)), (3, Some(2), None));
        places.leaves(UnitId(1));
        let offered: Vec<u32> = places.offered().iter().map(|place| place.unit.0).collect();
        assert_eq!((offered, take(&places, 3)), (vec![0, 2], None));
        assert!(places.volume(1).is_some(), "a core may still open a lane");
        assert_eq!(places.free(UnitId(1)).unwrap().name(), "iqn.2026-11.io.drumfire:1/1");
        assert!(places.volume(1).is_none() && places.name(1).is_empty());
        assert_eq!(take(&places, 3), Some(1));
    }

    #[test]
    fn a_disk_that_comes_back_has_lost_what_it_lost() {
        let places = Places::new(&[export(0), export(1)], 0, 7);
        let numbers = || -> Vec<u64> {
            places.offered().iter().map(|place| place.instance.number()).collect()
        };
        let before = numbers();
        places.lose(1);
        let lost = numbers();
        assert!(lost[0] == before[0] && lost[1] != before[1]);
        places.free(UnitId(1));
        take(&places, 1);
        assert_eq!(numbers(), lost);
    }
}
