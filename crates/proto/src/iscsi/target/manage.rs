//! Task management: aborts commands, and answers when none of their I/Os is left.

use block::{Count, Pool};

use crate::flow::slot_of;
use crate::scsi::{Sense, decode_lun, encode_lun};
use crate::{Fencing, Notice, Outbox, TasksEnd, UnitId};

use super::super::pdu::{Header, TaskRequest, TaskResponse, command_number};
use super::control::reason;
use super::task::{Burst, Task, TaskState};
use super::{IscsiTarget, Sink};

/// An answer that waits until aborted commands have their I/Os back.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) answer: Answer,
    pub(super) task_tag: u32,
    /// Waits for tasks that were aborted up to then.
    pub(super) epoch: u32,
    /// Waits for tasks of other sessions.
    pub(super) fence: Option<Fencing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    TaskResponse,
    Logout,
}

//= RFC 7143 §11.5.1
mod function {
    pub(super) const ABORT_TASK: u8 = 1;
    pub(super) const ABORT_TASK_SET: u8 = 2;
    pub(super) const CLEAR_TASK_SET: u8 = 4;
    pub(super) const LUN_RESET: u8 = 5;
    pub(super) const WARM_RESET: u8 = 6;
    pub(super) const COLD_RESET: u8 = 7;
    pub(super) const TASK_REASSIGN: u8 = 8;
}

//= RFC 7143 §11.6.1
mod response {
    pub(super) const COMPLETE: u8 = 0;
    pub(super) const NO_SUCH_TASK: u8 = 1;
    pub(super) const NO_SUCH_LUN: u8 = 2;
    pub(super) const REASSIGN_NOT_SUPPORTED: u8 = 4;
    pub(super) const NOT_SUPPORTED: u8 = 5;
}

/// Task management requests and logouts that may wait at a time, and commands that may be aborted
/// before they came.
const WAITING_MAX: usize = 16;

impl IscsiTarget {
    pub(super) fn task_request(&mut self, request: &TaskRequest, out: &mut Outbox) {
        if self.waiting.len() >= WAITING_MAX {
            let header = self.gathering;
            let immediate = request.immediate;
            let why = if immediate { reason::TOO_MANY_IMMEDIATE } else { reason::OUT_OF_RESOURCES };
            return self.reject(&header, why, out);
        }
        let answer = match request.function {
            function::ABORT_TASK => self.abort_task(request, out),
            function::ABORT_TASK_SET | function::CLEAR_TASK_SET | function::LUN_RESET => {
                self.abort_unit(request, out)
            }
            function::WARM_RESET | function::COLD_RESET => {
                self.reset_target(out);
                response::COMPLETE
            }
            function::TASK_REASSIGN => response::REASSIGN_NOT_SUPPORTED,
            _ => response::NOT_SUPPORTED,
        };
        let task_tag = request.task_tag;
        if answer != response::COMPLETE {
            return self.send_task_response(task_tag, answer, out);
        }
        //= RFC 7143 §4.2.3.3: the answer follows when all affected tasks have ended.
        let epoch = self.epoch;
        let fence = self.fence_of(request);
        self.wait_for_aborted(Waiting { answer: Answer::TaskResponse, task_tag, epoch, fence });
        self.answer_waiting(out);
    }

    fn abort_task(&mut self, request: &TaskRequest, out: &mut Outbox) -> u8 {
        let tag = request.referenced_tag;
        let alive = |task: &Task| task.state != TaskState::Aborted && task.flow.task_tag == tag;
        let found = self.tasks.iter().any(|(_, task)| alive(task));
        if found {
            self.abort_where(alive, out);
            return response::COMPLETE;
        }
        //= RFC 7143 §11.6.1: a command that is still to come counts as received, and is not done.
        let ahead = request.referenced_number.wrapping_sub(self.expected);
        if ahead < self.tasks.room() && self.aborted_ahead.len() < WAITING_MAX {
            self.aborted_ahead.push(request.referenced_number);
            return response::COMPLETE;
        }
        response::NO_SUCH_TASK
    }

    /// Whether the command that came was aborted before.
    #[cold]
    pub(super) fn was_aborted_ahead(&mut self, header: &Header) -> bool {
        let number = command_number(header);
        let found = self.aborted_ahead.iter().position(|other| *other == number);
        found.is_some_and(|at| self.aborted_ahead.swap_remove(at) == number)
    }

    fn abort_unit(&mut self, request: &TaskRequest, out: &mut Outbox) -> u8 {
        let Some(unit) = self.unit(request.lun).map(|unit| unit.id) else {
            return response::NO_SUCH_LUN;
        };
        let lun = decode_lun(request.lun);
        self.abort_where(|task| decode_lun(task.lun) == lun, out);
        if request.function == function::LUN_RESET {
            self.reset_unit(unit);
        }
        response::COMPLETE
    }

    fn reset_target(&mut self, out: &mut Outbox) {
        self.abort_where(|_| true, out);
        let units: Vec<UnitId> = self.target.units.iter().flatten().map(|unit| unit.id).collect();
        units.into_iter().for_each(|unit| self.reset_unit(unit));
    }

    /// A logical unit is reset by this session, which hears of it like all others.
    //= SAM-5 §Logical unit reset: every initiator port gets an attention; reservations of SPC-2 end.
    fn reset_unit(&mut self, unit: UnitId) {
        self.tell(Notice::UnitReset(unit));
        for lun in self.luns_of(unit) {
            let field = encode_lun(lun);
            self.unit(field).into_iter().for_each(|unit| unit.state.forget_session(None));
            self.attentions.establish(field, Sense::LUN_RESET);
        }
    }

    /// Ends the commands of all other sessions, if the function says so.
    //= SAM-5 §CLEAR TASK SET function: with TST zero there is one task set for all initiators.
    fn fence_of(&mut self, request: &TaskRequest) -> Option<Fencing> {
        let told = match request.function {
            function::CLEAR_TASK_SET => Some(Sense::COMMANDS_CLEARED),
            // The reset itself is told.
            function::LUN_RESET | function::WARM_RESET | function::COLD_RESET => None,
            _ => return None,
        };
        let of_target = matches!(request.function, function::WARM_RESET | function::COLD_RESET);
        let named = self.unit(request.lun).map(|unit| unit.id);
        let all = self.target.units.iter().flatten().map(|unit| unit.id);
        let units: Vec<UnitId> = all.filter(|unit| of_target || Some(*unit) == named).collect();
        let fence = Fencing::default();
        let end = TasksEnd { units, of: None, told, fence: fence.clone() };
        self.notices.push(Notice::TasksEnd(end));
        Some(fence)
    }

    /// Whether an answer waits for tasks of other sessions.
    pub(super) fn is_fenced(&self) -> bool {
        self.waiting.iter().any(|waiting| waiting.fence.is_some())
    }

    /// The LUNs of a unit.
    pub(super) fn luns_of(&self, unit: UnitId) -> Vec<u16> {
        let units = self.target.units.iter().enumerate();
        let same = units.filter(|(_, other)| other.as_ref().is_some_and(|it| it.id == unit));
        same.map(|(lun, _)| lun as u16).collect()
    }

    /// Queues a notice for other connections. A notice is queued only once, so an initiator cannot
    /// queue more than there are units.
    pub(super) fn tell(&mut self, notice: Notice) {
        if !self.notices.contains(&notice) {
            self.notices.push(notice);
        }
    }

    /// Handles a logical unit reset by another session: commands for the unit end without a status,
    /// and the next one reports a unit attention.
    //= SAM-5 §Logical unit reset: all commands are aborted, all other initiators get an attention.
    pub(super) fn unit_was_reset(&mut self, unit: UnitId, out: &mut Outbox) {
        for lun in self.luns_of(unit) {
            self.abort_where(|task| decode_lun(task.lun) == Some(lun), out);
            self.attentions.establish(encode_lun(lun), Sense::LUN_RESET);
        }
    }

    /// Ends this session after the initiator's new login with the same name: its commands end
    /// without a status.
    //= RFC 7143 §6.3.5: the old session and its tasks are terminated.
    pub(super) fn end_session(&mut self, out: &mut Outbox) {
        self.abort_where(|_| true, out);
        self.waiting.clear();
        self.held = None;
        self.remark = Some("session reinstatement by a new login".to_owned());
        self.finished = true;
    }

    /// Every logical unit says to a new session that it was switched on, or that the session before
    /// was lost.
    pub(super) fn announce_power_on(&mut self) {
        let units = self.target.units.iter().enumerate();
        for (lun, _) in units.filter(|(_, unit)| unit.is_some()) {
            self.attentions.begin(lun as u16);
        }
    }

    /// Aborts the tasks that fit: they end without a status.
    #[cold]
    pub(super) fn abort_where(&mut self, fits: impl Fn(&Task) -> bool, out: &mut Outbox) {
        self.epoch = self.epoch.wrapping_add(1);
        let fit =
            self.tasks.iter().filter(|(_, task)| task.state != TaskState::Aborted && fits(task));
        let slots: Vec<u16> = fit.map(|(slot, _)| slot).collect();
        for slot in slots {
            self.abort(slot, out.pool());
        }
    }

    fn abort(&mut self, slot: u16, pool: &Pool) {
        self.drop_held(slot, pool);
        self.unsolicited.retain(|other| *other != slot);
        self.forget_starving(slot);
        // Another session may abort it while a PDU of its data is coming in.
        if self.incoming.sink == Sink::Task(slot) {
            self.incoming.sink = Sink::Discard;
        }
        // Requests that were not taken yet are dropped.
        for _ in 0..self.backlog.requests.len() {
            let Some(request) = self.backlog.requests.pop_front() else { break };
            if slot_of(request.io.tag) == slot {
                let task = &mut self.tasks[slot];
                task.data.in_flight.lower(1);
                if task.reads {
                    let len = task.data.part_len(request.io.tag, request.io.buf.as_ref());
                    self.backlog.end_read(len);
                }
                request.io.buf.into_iter().for_each(|buf| pool.give(buf));
            } else {
                self.backlog.requests.push_back(request);
            }
        }
        let epoch = self.epoch;
        let task = &mut self.tasks[slot];
        task.flushed = task.flushes();
        task.data.give_buf(pool);
        task.sense = None;
        // A claim lasts as long as I/Os of its command are with the volume.
        task.job.iter_mut().for_each(|job| job.give_bufs(pool));
        task.state = TaskState::Aborted;
        task.burst = Burst::None;
        task.epoch = epoch;
        if task.data.in_flight == 0 {
            task.job = None;
            self.release(slot);
        }
    }

    /// Counts a completed I/O of an aborted task.
    #[cold]
    pub(super) fn aborted_completed(&mut self, slot: u16, out: &mut Outbox) {
        if self.tasks[slot].data.in_flight == 0 {
            self.tasks[slot].job = None;
            self.release(slot);
            self.open_fences();
            self.answer_waiting(out);
        }
    }

    pub(super) fn wait_for_aborted(&mut self, waiting: Waiting) {
        self.waiting.push(waiting);
    }

    /// Sends the answers whose tasks have all ended, in order.
    pub(super) fn answer_waiting(&mut self, out: &mut Outbox) {
        while let Some(first) = self.waiting.first() {
            let fenced = first.fence.as_ref().is_some_and(|fence| !fence.is_open());
            if fenced || self.tasks.have_aborted(first.epoch) {
                return;
            }
            let first = self.waiting.remove(0);
            match first.answer {
                Answer::TaskResponse => {
                    self.send_task_response(first.task_tag, response::COMPLETE, out);
                }
                Answer::Logout => self.send_logout_response(first.task_tag, 0, out),
            }
        }
    }

    fn send_task_response(&mut self, task_tag: u32, response: u8, out: &mut Outbox) {
        let numbers = self.next_status();
        self.send(&TaskResponse { response, task_tag, numbers }, &[], out);
    }

    /// Has a task wait for a buffer, or for room in the outbox.
    #[cold]
    pub(super) fn starve(&mut self, slot: u16) {
        if !self.backlog.starving.contains(&slot) {
            self.backlog.starving.push_back(slot);
        }
    }

    /// Retries the commands that wait for a buffer, in order, until one waits again.
    #[cold]
    pub(super) fn retry_all(&mut self, out: &mut Outbox) {
        for _ in 0..self.backlog.starving.len() {
            let Some(slot) = self.backlog.starving.pop_front() else { return };
            match self.tasks[slot].state {
                TaskState::Reading => {
                    if self.backlog.holds_any() {
                        self.send_held(slot, out);
                    }
                    // The command may have ended meanwhile and have no slot.
                    if self.tasks[slot].state == TaskState::Reading
                        && !self.backlog.starving.contains(&slot)
                    {
                        self.continue_read(slot, out);
                    }
                }
                TaskState::Working => self.continue_work(slot, out),
                TaskState::Checking => self.continue_check(slot, out),
                TaskState::Copying => self.continue_copy(slot, out),
                _ => self.solicit(slot, out),
            }
            if self.backlog.starving.back() == Some(&slot) {
                // No buffer is free yet: the command stays at the front.
                self.backlog.starving.rotate_right(1);
                return;
            }
        }
    }

    /// A task that ends or is aborted waits for nothing any more.
    #[cold]
    pub(super) fn forget_starving(&mut self, slot: u16) {
        self.backlog.starving.retain(|other| *other != slot);
    }
}
