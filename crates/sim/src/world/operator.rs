//! The operator of the server: removes volumes, and adds them again.

use serve::Departure;

use super::*;

/// Removals that have not ended are looked at this often.
const LOOK: Nanos = Nanos::from_millis(100);
/// Longest removal, pauses and stalls of the disk included.
const LONGEST: Nanos = Nanos::from_secs(120);

/// The removal of a disk.
pub(super) struct Removal {
    departure: Arc<Departure>,
    disk: usize,
    began: Nanos,
    /// Time for which the disk stays away.
    span: Nanos,
}

impl World {
    /// Time of the next event, or of a look at removals.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        let look = (!self.leaving.is_empty()).then(|| self.now() + LOOK);
        self.events.last().map(|due| due.at).into_iter().chain(look).min()
    }

    /// Begins to remove a disk, which stays away for a while.
    pub(super) fn remove(&mut self, disk: usize, span: Nanos) -> Result<(), String> {
        // The server is dead, or an earlier removal has not ended, or the disk is not back.
        if self.portals.is_empty() {
            return Ok(());
        }
        let Address { target, lun } = address(self.plan.together, disk);
        let Ok(departure) = self.shared.remove(&format!("iqn.{target}"), lun) else {
            return Ok(());
        };
        for client in self.clients.iter_mut().filter(|client| client.unit == disk) {
            client.disturbed = true;
        }
        let began = self.now();
        self.leaving.push(Removal { departure, disk, began, span });
        Ok(())
    }

    /// Ends removals that all cores have carried out. Returns whether there were any.
    pub(super) fn end_removals(&mut self) -> Result<bool, String> {
        let (over, left) = std::mem::take(&mut self.leaving)
            .into_iter()
            .partition::<Vec<_>, _>(|removal| removal.departure.is_over());
        self.leaving = left;
        let now = self.now();
        if let Some(late) = self.leaving.iter().find(|one| now.since(one.began) > LONGEST) {
            return Err(format!("the removal of disk {} does not end", late.disk));
        }
        for Removal { departure, disk, span, .. } in &over {
            self.shared.release(departure).ok_or("a removed volume was not in its place")?;
            let state = self.disks[*disk].borrow();
            if state.in_flight > 0 || state.is_left_open() {
                return Err(format!("disk {disk} is still in use after its removal"));
            }
            drop(state);
            // A volume that is added again is opened without a pause.
            self.check_attempts()?;
            self.disks[*disk].borrow_mut().begun.clear();
            self.will_return(*disk, *span);
        }
        Ok(!over.is_empty())
    }

    /// Serves a disk again.
    pub(super) fn bring_back(&mut self, disk: usize) -> Result<(), String> {
        // A server that was restarted meanwhile serves all disks, and a dead one none.
        let Address { target, lun } = address(self.plan.together, disk);
        let target = format!("iqn.{target}");
        let is_it = |export: &Export| export.target == target && export.lun == lun;
        let is_served = |one: &serve::VolumeInfo| is_it(&one.export);
        if self.portals.is_empty() || self.shared.volumes().iter().any(is_served) {
            return Ok(());
        }
        let memory = is_memory(&self.plan, disk).then(|| self.disks[disk].borrow().bytes.clone());
        let added = self.shared.add(export(self.plan.together, disk, self.geometry, memory));
        let unit = added.map_err(|error| format!("disk {disk} cannot come back: {error}"))?;
        self.units.borrow_mut()[unit.0 as usize] = disk;
        Ok(())
    }
}
