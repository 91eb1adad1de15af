//! Logical units that come and go while a session uses their target.
//!
//! The server withdraws a unit before it leaves the target, so that no new command reaches it. The
//! session keeps the former target until the unit's last command has ended.

use std::sync::Arc;

use crate::UnitId;
use crate::scsi::{Unit, decode_lun};

use super::task::TaskState;
use super::{IscsiTarget, Stage};

impl IscsiTarget {
    /// Takes over the target as the server offers it now, unless commands are in flight on units
    /// that it has no more. Returns whether the server still offers the target.
    //= SAM-5 §Logical unit inventory: a change is a unit attention of every other logical unit.
    pub(super) fn take_over(&mut self) -> bool {
        let is_chosen = self.login.is_none() && !self.target.name.is_empty();
        if !is_chosen || self.finished {
            return true;
        }
        let directory = self.offers.now();
        let Some(at) = directory.find(&self.target.name) else { return false };
        let new = &directory.targets()[at];
        let former = &self.target.units;
        let gone = |lun: usize| id(former, lun).is_some() && id(former, lun) != id(&new.units, lun);
        let all = 0..former.len().max(new.units.len());
        let is_same = all.clone().all(|lun| id(former, lun) == id(&new.units, lun));
        if is_same || all.into_iter().any(|lun| gone(lun) && self.works_on(lun)) {
            return true;
        }
        let former = std::mem::replace(&mut self.target, Arc::clone(new));
        if self.stage == Stage::Normal {
            self.attentions.renew(&former.units, &self.target.units);
        }
        // The number of a unit may be that of another volume later.
        self.free = (UnitId(0), 0);
        true
    }

    /// Whether a command is in flight on a logical unit. Copies name any.
    fn works_on(&self, lun: usize) -> bool {
        self.tasks.iter().any(|(_, task)| {
            let is_of = decode_lun(task.lun) == u16::try_from(lun).ok();
            is_of || task.state == TaskState::Copying
        })
    }
}

fn id(units: &[Option<Unit>], lun: usize) -> Option<UnitId> {
    Some(units.get(lun)?.as_ref()?.id)
}
