//! Commands that are neither reads nor writes: parameter data, flushes, trims, fills, and commands
//! with a parameter list.

use block::{Io, Op, Pool, Tag};

use crate::flow::{CLEAR_BYTES_MAX, Ranges};
use crate::scsi::{Key, Plan, Refusal, Sense, absent, report_luns};

use super::super::pdu::{Command, Header};
use super::IscsiTarget;
use super::check::Checking;
use super::command::UnitRef;
use super::control::reason;
use super::copy::Copying;
use super::task::{Burst, Flow, TaskState};
use crate::{Ending, Fencing, Outbox, UnitId};

/// Answered by the session, which knows the list of units.
const REPORT_LUNS: u8 = 0xa0;

/// The R and W bits do not fit the command.
//= SPC-4 §ASC and ASCQ assignments: 0Eh/03h.
pub(super) const INVALID_INFORMATION_UNIT: Sense = Sense::new(Key::IllegalRequest, 0x0e, 0x03);

/// A command that is neither a read nor a write.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) ranges: Ranges,
    /// The block that a fill repeats.
    pub(super) pattern: Vec<u8>,
    /// The CDB of a command with a parameter list.
    pub(super) cdb: [u8; 16],
    /// Work on what blocks hold.
    pub(super) checking: Option<Checking>,
    /// Commands of others that end before this one does.
    pub(super) fence: Option<Fencing>,
    /// Copies of blocks.
    pub(super) copying: Option<Copying>,
}

impl Job {
    /// Work on ranges, without data of the initiator.
    pub(super) fn new(ranges: Ranges, pattern: Vec<u8>, cdb: [u8; 16]) -> Job {
        Job { ranges, pattern, cdb, checking: None, fence: None, copying: None }
    }

    /// Work on what blocks hold.
    pub(super) fn checking(cdb: [u8; 16], checking: Checking) -> Job {
        let ranges = Ranges::new(Op::Write, Vec::new());
        Job { checking: Some(checking), ..Job::new(ranges, Vec::new(), cdb) }
    }

    /// Copies of blocks.
    pub(super) fn copying(cdb: [u8; 16], copying: Copying) -> Job {
        let ranges = Ranges::new(Op::Write, Vec::new());
        Job { copying: Some(copying), ..Job::new(ranges, Vec::new(), cdb) }
    }

    /// Gives the buffers back.
    pub(super) fn give_bufs(&mut self, pool: &Pool) {
        self.checking.iter_mut().for_each(|checking| checking.give_bufs(pool));
    }
}

impl IscsiTarget {
    /// A command that is immediate, out of order, meets a unit attention or names no logical unit.
    #[cold]
    pub(super) fn slow_command(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        if !self.in_order(header)? {
            return Ok(());
        }
        let command = Command::parse(header);
        if command.cdb[0] == REPORT_LUNS {
            self.attentions.luns_reported();
        }
        let Some(unit) = self.unit(command.lun).filter(|unit| !unit.state.is_gone()) else {
            let luns = self.luns();
            let plan = absent(&command.cdb, &luns);
            let place = UnitRef { unit: UnitId(0), in_place: false, block_mask: 0 };
            self.start_other(header, place, plan, out);
            return Ok(());
        };
        let place = UnitRef {
            unit: unit.id,
            in_place: unit.memory.is_some(),
            block_mask: unit.geometry.block_bytes - 1,
        };
        let plan = unit.plan(&command.cdb);
        let judged = if unit.state.word() == 0 { Ok(()) } else { self.judge(&command) };
        let pending = self.attentions.concern(&command);
        let plan = match judged {
            Err(Refusal::Conflict) if !pending => {
                self.conflict(header, place, out);
                return Ok(());
            }
            Err(Refusal::Check(sense)) => Err(sense),
            _ => plan,
        };
        let plan = self.attentions.before(&command, plan);
        self.start_other(header, place, plan, out);
        Ok(())
    }

    /// A command with additional header segments.
    #[cold]
    pub(super) fn long_command(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        if !self.in_order(header)? {
            return Ok(());
        }
        //= RFC 7143 §11.2.2.1: a longer CDB (1) and the other length of a bidirectional command
        // (2). None of our commands supports either, so any such segment is invalid here.
        let place = UnitRef { unit: UnitId(0), in_place: false, block_mask: 0 };
        self.start_other(header, place, Err(Sense::INVALID_FIELD_IN_CDB), out);
        Ok(())
    }

    /// Plans that the fast path does not handle.
    #[cold]
    pub(super) fn start_other(
        &mut self,
        header: &Header,
        place: UnitRef,
        plan: Result<Plan, Sense>,
        out: &mut Outbox,
    ) {
        let command = Command::parse(header);
        let plan = match plan {
            Ok(Plan::Data(_)) if command.cdb[0] == REPORT_LUNS => {
                report_luns(&command.cdb, &self.luns()).map(Plan::Data)
            }
            Ok(Plan::CopyStatus { id }) => self.copy_status(&command, id),
            plan => plan,
        };
        if command.read && command.write {
            return self.refuse(header, place, INVALID_INFORMATION_UNIT, out);
        }
        match plan {
            Err(sense) => self.refuse(header, place, sense, out),
            Ok(Plan::Read { offset, len }) if !command.write => {
                self.start_read(header, place, offset, len, out);
            }
            Ok(Plan::Write { offset, len, fua }) if !command.read => {
                self.start_write(header, place, offset, len, fua, out);
            }
            Ok(Plan::Write { .. } | Plan::Collect { .. } | Plan::Check(_)) if command.read => {
                self.refuse(header, place, INVALID_INFORMATION_UNIT, out);
            }
            Ok(Plan::Data(bytes)) if !command.write => {
                let flow = self.flow_in(header, bytes.len() as u32);
                self.answer_with(flow, &bytes, out);
            }
            Ok(Plan::Collect { len }) => self.collect(header, place, len, out),
            Ok(Plan::Flush) => self.start_job(header, place, Op::Flush, vec![(0, 0)], vec![], out),
            Ok(Plan::Clear { op, ranges }) => {
                self.start_job(header, place, op, ranges, vec![], out);
            }
            Ok(Plan::Fill { offset, len, pattern }) => {
                self.start_job(header, place, Op::Write, vec![(offset, len)], pattern, out);
            }
            Ok(Plan::Check(check)) => self.start_check(header, place, check, out),
            Ok(Plan::Good) if command.write && counts_to_zero(&command) => {
                self.refuse(header, place, Sense::cdb_field(13), out);
            }
            Ok(Plan::Medium(change)) => self.change_medium(header, place, change, out),
            Ok(Plan::ReserveUnit { reserve }) => self.reserve_unit(header, place, reserve, out),
            // No data moves: GOOD, and data-in of a command with the write flag.
            Ok(
                Plan::Good
                | Plan::Data(_)
                | Plan::Read { .. }
                | Plan::Write { .. }
                // A plan that needs data-out follows from that only.
                | Plan::Reserve(_)
                | Plan::Protect { .. }
                | Plan::Copy
                | Plan::CopyStatus { .. },
            ) => {
                self.finish_after_data(header, place, None, out);
            }
        }
    }

    /// The LUNs of the target.
    fn luns(&self) -> Vec<u16> {
        let units = self.target.units.iter().enumerate();
        let there = units.filter(|(_, unit)| unit.as_ref().is_some_and(|it| !it.state.is_gone()));
        there.map(|(lun, _)| lun as u16).collect()
    }

    /// The flow of a command that returns parameter data.
    fn flow_in(&self, header: &Header, wanted: u32) -> Flow {
        let command = Command::parse(header);
        let expected = if command.read { command.expected_len } else { 0 };
        Flow::new(command.task_tag, expected, wanted, self.params.max_burst)
    }

    pub(super) fn refuse(
        &mut self,
        header: &Header,
        place: UnitRef,
        sense: Sense,
        out: &mut Outbox,
    ) {
        self.finish_after_data(header, place, Some(sense), out);
    }

    /// Whether a write announces less data than its `wanted` bytes, and cuts a block. One that
    /// announces nothing moves nothing, as its residual count says.
    pub(super) fn is_short_of_block(&self, header: &Header, place: UnitRef, wanted: u32) -> bool {
        let command = Command::parse(header);
        let expected = if command.write { command.expected_len } else { 0 };
        expected < wanted && expected & place.block_mask != 0
    }

    /// The announced data does not fit a command that moves `wanted` bytes: nothing is moved, and
    /// the residual count says how much is missing.
    //= RFC 7143 §11.4.5.1: a command may be refused if EDTL does not fit it.
    #[cold]
    pub(super) fn refuse_length(
        &mut self,
        header: &Header,
        place: UnitRef,
        wanted: u32,
        out: &mut Outbox,
    ) {
        let command = Command::parse(header);
        let expected = if command.write { command.expected_len } else { 0 };
        let mut flow = Flow::new(command.task_tag, expected, wanted, 0);
        flow.len = 0;
        self.end_after_data(header, place, flow, Some(INVALID_INFORMATION_UNIT), out);
    }

    /// Completes a command that moves no data, once its unsolicited data was received.
    pub(super) fn finish_after_data(
        &mut self,
        header: &Header,
        place: UnitRef,
        sense: Option<Sense>,
        out: &mut Outbox,
    ) {
        let command = Command::parse(header);
        let flow = Flow::new(command.task_tag, command.expected_len, 0, 0);
        self.end_after_data(header, place, flow, sense, out);
    }

    /// Sends the response with the residual count of `flow`.
    fn end_after_data(
        &mut self,
        header: &Header,
        place: UnitRef,
        flow: Flow,
        sense: Option<Sense>,
        out: &mut Outbox,
    ) {
        let command = Command::parse(header);
        if command.last || !command.write {
            return self.answer_at_once(flow, sense, out);
        }
        let Some(slot) = self.begin(header, place, TaskState::Writing) else {
            return self.reject_immediate(header, out);
        };
        self.tasks[slot].begin(flow);
        sense.into_iter().for_each(|sense| self.tasks[slot].spoil(sense));
        self.expect_data(slot, header, out);
    }

    /// A command with a parameter list.
    fn collect(&mut self, header: &Header, place: UnitRef, len: u32, out: &mut Outbox) {
        let command = Command::parse(header);
        let expected = if command.write { command.expected_len } else { 0 };
        let flow = Flow::new(command.task_tag, expected, len, 0);
        if moves_blocks(&command.cdb) && expected != len {
            return self.refuse_length(header, place, len, out);
        }
        if len as usize > Pool::LARGE_BYTES {
            return self.refuse(header, place, Sense::PARAMETER_LIST_LENGTH_ERROR, out);
        }
        let Some(slot) = self.begin(header, place, TaskState::Collecting) else {
            return self.reject_immediate(header, out);
        };
        let ranges = Ranges::new(Op::Write, Vec::new());
        // A parameter list has no blocks.
        self.tasks[slot].data.block_mask = 0;
        let job = Job::new(ranges, Vec::new(), command.cdb);
        self.tasks[slot].begin(flow);
        self.tasks[slot].job = Some(Box::new(job));
        self.expect_data(slot, header, out);
    }

    /// The parameter list of a command is complete.
    #[cold]
    pub(super) fn plan_with(&mut self, slot: u16, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        let (lun, len) = (task.lun, task.flow.len as usize);
        let cdb = task.job.as_ref().map_or([0; 16], |job| job.cdb);
        let buf = task.data.buf.take();
        let data = buf.as_ref().map_or(&[][..], |buf| &buf[..len]);
        let plan = self.unit(lun).map(|unit| unit.plan_with(&cdb, data));
        if let Some(Ok(Plan::Copy)) = plan {
            let list = data.to_vec();
            buf.into_iter().for_each(|buf| out.give(buf));
            return self.begin_copy(slot, &list, out);
        }
        if let Some(Ok(Plan::Check(check))) = plan {
            self.tasks[slot].data.buf = buf;
            return self.check_collected(slot, check, out);
        }
        buf.into_iter().for_each(|buf| out.give(buf));
        match plan {
            Some(Ok(Plan::Reserve(request))) => return self.reserve(slot, &request, out),
            Some(Ok(Plan::Protect { protected })) => return self.protect(slot, protected, out),
            _ => {}
        }
        let plan = plan.unwrap_or(Err(Sense::LOGICAL_UNIT_NOT_SUPPORTED));
        let task = &mut self.tasks[slot];
        let (op, ranges, pattern) = match plan {
            Err(sense) => {
                task.spoil(sense);
                return self.fail_when_drained(slot, out);
            }
            Ok(Plan::Flush) => (Op::Flush, vec![(0, 0)], vec![]),
            Ok(Plan::Clear { op, ranges }) => (op, ranges, vec![]),
            Ok(Plan::Fill { offset, len, pattern }) => (Op::Write, vec![(offset, len)], pattern),
            // No other plan follows from a parameter list.
            Ok(_) => (Op::Flush, vec![], vec![]),
        };
        task.state = TaskState::Working;
        task.job = Some(Box::new(Job::new(Ranges::new(op, ranges), pattern, cdb)));
        // Unsolicited data beyond the parameter list may still arrive.
        if task.burst == Burst::None {
            self.continue_work(slot, out);
        }
    }

    pub(super) fn start_job(
        &mut self,
        header: &Header,
        place: UnitRef,
        op: Op,
        ranges: Vec<(u64, u64)>,
        pattern: Vec<u8>,
        out: &mut Outbox,
    ) {
        let command = Command::parse(header);
        let flow = Flow::new(command.task_tag, command.expected_len, 0, 0);
        let Some(slot) = self.begin(header, place, TaskState::Working) else {
            return self.reject_immediate(header, out);
        };
        let job = Job::new(Ranges::new(op, ranges), pattern, command.cdb);
        self.tasks[slot].begin(flow);
        self.tasks[slot].job = Some(Box::new(job));
        // Unsolicited data, which the command does not need, is received first.
        self.expect_data(slot, header, out);
    }

    /// Continues a job, as far as there are buffers.
    pub(super) fn continue_work(&mut self, slot: u16, out: &mut Outbox) {
        loop {
            let task = &mut self.tasks[slot];
            if task.sense.is_some() {
                return self.fail_when_drained(slot, out);
            }
            let Some(job) = task.job.as_mut() else { return };
            if job.fence.as_ref().is_some_and(|fence| !fence.is_open()) {
                return self.starve(slot);
            }
            job.fence = None;
            let Some((offset, left)) = job.ranges.next() else {
                if task.data.in_flight == 0 && task.burst == Burst::None {
                    self.finish(slot, out);
                }
                return;
            };
            if !task.data.has_room() {
                return;
            }
            let filling = !job.pattern.is_empty();
            let most = if filling { Pool::LARGE_BYTES as u32 } else { CLEAR_BYTES_MAX };
            let (mut buf, mut len) = (None, left.min(most.into()) as u32);
            if filling {
                buf = out.take_part(len as usize);
                let Some(buf) = &mut buf else { return self.starve(slot) };
                len = len.min(buf.len() as u32);
                let blocks = buf[..len as usize].chunks_mut(job.pattern.len());
                blocks.for_each(|block| block.copy_from_slice(&job.pattern[..block.len()]));
            }
            job.ranges.advance(len);
            let (tag, op) = (Tag(u64::from(slot)), job.ranges.op);
            let io = Io { tag, op, fua: false, len, offset, buf };
            task.data.in_flight += 1;
            self.backlog.request(task.data.unit, io);
        }
    }

    /// All slots for immediate commands are taken.
    //= RFC 7143 §11.17.1: "immediate command reject - too many immediate commands".
    #[cold]
    pub(super) fn reject_immediate(&mut self, header: &Header, out: &mut Outbox) {
        self.reject(header, reason::TOO_MANY_IMMEDIATE, out);
    }
}

/// Whether a COMPARE AND WRITE of no blocks brings data: the number did not fit its byte, and GOOD
/// would say that something was compared.
fn counts_to_zero(command: &Command) -> bool {
    command.cdb[0] == 0x89 && command.expected_len != 0
}

/// Whether the data-out of a command with a parameter list is blocks, of which none may be missing
/// or in excess: WRITE SAME (10 and 16), COMPARE AND WRITE, ORWRITE, VERIFY with one block.
fn moves_blocks(cdb: &[u8; 16]) -> bool {
    matches!(cdb[0], 0x41 | 0x93 | 0x89 | 0x8b | 0x2f | 0xaf | 0x8f)
}
