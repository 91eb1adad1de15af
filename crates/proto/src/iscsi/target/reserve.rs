//! Reservations: what a session may do, changes of them, and what others hear.
//!
//! The state is the unit's, for all sessions of all cores. A session that may do everything reads
//! one word for each command, and asks again only when that word has changed.

use block::Op;

use crate::scsi::{Medium, Nexus, Refusal, ReserveOut, Sense, Verdict, decode_lun, encode_lun};
use crate::{Notice, Outbox, TasksEnd, UnitId};

use super::super::pdu::{Command, Header};
use super::IscsiTarget;
use super::command::UnitRef;
use super::task::{Flow, NO_MEMORY, Refused, Task, TaskState};

impl IscsiTarget {
    /// Whether this session may execute a command for a unit to which something binds it.
    pub(super) fn judge(&mut self, command: &Command) -> Result<(), Refusal> {
        let Some(unit) = self.unit(command.lun) else { return Ok(()) };
        let id = unit.id;
        match unit.state.judge(&self.nexus, self.connection_id, &command.cdb) {
            Verdict::Free(word) => self.free = (id, word),
            Verdict::Allowed => {}
            Verdict::Refused(refusal) => return Err(refusal),
        }
        Ok(())
    }

    /// Whether something forbids this session a command on any unit.
    pub(super) fn is_refused(&self, command: &Command) -> bool {
        let Some(unit) = self.unit(command.lun).filter(|unit| unit.state.word() != 0) else {
            return false;
        };
        let verdict = unit.state.judge(&self.nexus, self.connection_id, &command.cdb);
        matches!(verdict, Verdict::Refused(_))
    }

    /// RESERVE (6), or RELEASE (6).
    pub(super) fn reserve_unit(
        &mut self,
        header: &Header,
        place: UnitRef,
        reserve: bool,
        out: &mut Outbox,
    ) {
        let lun = Command::parse(header).lun;
        let result = self.unit(lun).map(|unit| unit.state.legacy(self.connection_id, reserve));
        match result {
            Some(Err(_)) => self.conflict(header, place, out),
            Some(Ok(())) | None => self.finish_after_data(header, place, None, out),
        }
    }

    /// START STOP UNIT with LOEJ, or PREVENT ALLOW MEDIUM REMOVAL, of a removable medium.
    //= SBC-4 §START STOP UNIT command: what is in the cache is written before the medium is gone.
    pub(super) fn change_medium(
        &mut self,
        header: &Header,
        place: UnitRef,
        change: Medium,
        out: &mut Outbox,
    ) {
        let lun = Command::parse(header).lun;
        let session = self.connection_id;
        let result =
            self.unit(lun).map(|unit| (unit.id, unit.state.change_medium(session, change)));
        match result {
            Some((_, Err(Refusal::Check(sense)))) => self.refuse(header, place, sense, out),
            Some((_, Err(Refusal::Conflict))) => self.conflict(header, place, out),
            Some((_, Ok(_))) if change == Medium::Eject => {
                self.start_job(header, place, Op::Flush, vec![(0, 0)], vec![], out);
            }
            Some((unit, Ok(loaded))) => {
                if loaded {
                    //= SPC-4 §Unit attention: all other initiators hear of another medium.
                    self.tell(Notice::UnitChanged(unit, Sense::MEDIUM_MAY_HAVE_CHANGED));
                }
                self.finish_after_data(header, place, None, out);
            }
            None => self.finish_after_data(header, place, None, out),
        }
    }

    /// The session ends, and with it its SPC-2 reservations.
    pub(super) fn forget_reserved_units(&self) {
        let units = self.target.units.iter().flatten();
        units.for_each(|unit| unit.state.forget_session(Some(self.connection_id)));
    }

    /// PERSISTENT RESERVE OUT, whose parameter list is complete.
    pub(super) fn reserve(&mut self, slot: u16, request: &ReserveOut, out: &mut Outbox) {
        let lun = self.tasks[slot].lun;
        let Some(unit) = self.unit(lun) else { return self.fail_when_drained(slot, out) };
        let id = unit.id;
        let result = unit.state.reserve(&self.nexus, request);
        let task = &mut self.tasks[slot];
        task.state = TaskState::Working;
        match result {
            Err(Refusal::Check(sense)) => task.spoil(sense),
            Err(Refusal::Conflict) => {
                task.refused = Refused::Conflict;
                task.spoil(NO_MEMORY);
            }
            Ok(effects) => {
                let (notices, fence) = Notice::of_effects(id, effects);
                self.notices.extend(notices);
                if let Some(job) = &mut self.tasks[slot].job {
                    job.fence = fence;
                }
            }
        }
        self.continue_work(slot, out);
    }

    /// Another session has changed something about a unit that these are to hear of.
    pub(super) fn hear(&mut self, unit: UnitId, told: &[(Nexus, Sense)]) {
        for lun in self.luns_of(unit) {
            for (_, sense) in told.iter().filter(|(nexus, _)| *nexus == self.nexus) {
                self.attentions.establish(encode_lun(lun), *sense);
            }
        }
    }

    /// Another session has changed something that everybody is to hear of.
    pub(super) fn hear_change(&mut self, unit: UnitId, sense: Sense) {
        let luns = self.luns_of(unit);
        luns.into_iter().for_each(|lun| self.attentions.establish(encode_lun(lun), sense));
    }

    /// MODE SELECT sets or clears software write protection.
    pub(super) fn protect(&mut self, slot: u16, protected: bool, out: &mut Outbox) {
        let lun = self.tasks[slot].lun;
        let unit = self.unit(lun).map(|unit| (unit.id, unit.state.protect(protected)));
        if let Some((unit, true)) = unit {
            //= SPC-4 §MODE SELECT (6) command: all other initiators get an attention.
            self.tell(Notice::UnitChanged(unit, Sense::MODE_PARAMETERS_CHANGED));
        }
        self.tasks[slot].state = TaskState::Working;
        self.continue_work(slot, out);
    }

    /// Another session ends commands of this one.
    //= SAM-5 §Aborting commands: with TAS zero they end without a status, and an attention tells it.
    pub(super) fn tasks_end(&mut self, end: &TasksEnd, out: &mut Outbox) {
        if end.of.as_ref().is_some_and(|of| !of.contains(&self.nexus)) {
            return;
        }
        if self.abandoned {
            // I/Os that a lost connection has left with the volume are awaited, too.
            if !self.leftovers.have_no_changes() {
                self.fences.push((self.epoch, end.fence.clone()));
            }
            return;
        }
        for lun in end.units.iter().flat_map(|unit| self.luns_of(*unit)).collect::<Vec<_>>() {
            let field = encode_lun(lun);
            let of_unit = |task: &Task| decode_lun(task.lun) == Some(lun);
            let alive = |task: &Task| task.state != TaskState::Aborted && of_unit(task);
            if self.tasks.iter().any(|(_, task)| alive(task)) {
                self.abort_where(of_unit, out);
                end.told.into_iter().for_each(|sense| self.attentions.establish(field, sense));
            }
        }
        self.fences.push((self.epoch, end.fence.clone()));
        self.open_fences();
    }

    /// Opens the fences whose aborted commands have all ended.
    pub(super) fn open_fences(&mut self) {
        let tasks = &self.tasks;
        self.fences.retain(|(epoch, _)| tasks.have_aborted(*epoch));
    }

    /// A reservation of another initiator forbids a command.
    //= SAM-5 §Status codes: RESERVATION CONFLICT
    #[cold]
    pub(super) fn conflict(&mut self, header: &Header, place: UnitRef, out: &mut Outbox) {
        let command = Command::parse(header);
        let flow = Flow::new(command.task_tag, command.expected_len, 0, 0);
        if command.last || !command.write {
            return self.send_conflict(flow, out);
        }
        let Some(slot) = self.begin(header, place, TaskState::Writing) else {
            return self.reject_immediate(header, out);
        };
        let task = &mut self.tasks[slot];
        task.begin(flow);
        task.refused = Refused::Conflict;
        task.spoil(NO_MEMORY);
        self.expect_data(slot, header, out);
    }
}
