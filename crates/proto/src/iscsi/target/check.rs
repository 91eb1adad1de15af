//! Commands that look at what blocks hold: VERIFY, WRITE AND VERIFY, COMPARE AND WRITE, ORWRITE.
//!
//! Data-out comes as that of a write. Each part of it is a chunk with exactly one I/O at a time:
//! reads into a second buffer, compares or merges, and writes. A chunk that finds no second buffer
//! fails its command with a status that requests a retry; it never waits, so that whoever claims a
//! range always gets on.

use block::{Buf, Count, Done, Io, Op, Pool};

use crate::Outbox;
use crate::flow::{IOS_PER_COMMAND, part_begin, part_tag, slot_of};
use crate::scsi::{Check, CheckKind, Claim, Sense};

use super::super::pdu::{Command, Header};
use super::IscsiTarget;
use super::command::UnitRef;
use super::job::Job;
use super::task::{Burst, Flow, NO_MEMORY, Refused, Task, TaskState};

/// Progress of a [`Check`].
#[derive(Debug)]
pub(super) struct Checking {
    check: Check,
    /// The range is claimed, if the command is atomic.
    claim: Option<Claim>,
    chunks: Vec<Chunk>,
}

/// A part of a range with its data, and one I/O with the volume.
#[derive(Debug)]
struct Chunk {
    /// Offset in the command's range, and length.
    begin: u32,
    len: u32,
    /// Bytes of it that were read, and looked at.
    done: u32,
    /// Data of the initiator; with the volume while it is written.
    data: Option<Buf>,
}

/// Next step after a completed I/O of a chunk.
enum Next {
    Read,
    Write,
    End,
}

impl Checking {
    pub(super) fn new(check: Check) -> Checking {
        Checking { check, claim: None, chunks: Vec::new() }
    }

    /// Gives the buffers back, of a command that is aborted. The claim stays while an I/O is with
    /// the volume.
    pub(super) fn give_bufs(&mut self, pool: &Pool) {
        let bufs = self.chunks.drain(..).filter_map(|chunk| chunk.data);
        bufs.for_each(|buf| pool.give(buf));
    }

    /// Takes the claim of a lost connection.
    pub(super) fn take_claim(&mut self) -> Option<Claim> {
        self.claim.take()
    }

    fn chunk(&mut self, begin: u32) -> Option<usize> {
        self.chunks.iter().position(|chunk| chunk.begin == begin)
    }
}

impl Chunk {
    /// Compares or merges bytes that were read, and counts them. The error is the offset of the
    /// first byte that differs, in the command's range.
    fn look(&mut self, kind: CheckKind, read: &[u8], block_bytes: usize) -> Result<(), u32> {
        let at = self.done as usize;
        let end = at + read.len();
        let data = self.data.as_deref_mut().unwrap_or_default();
        let differs = match kind {
            CheckKind::Medium | CheckKind::WriteRead => None,
            CheckKind::Compare | CheckKind::WriteCompare | CheckKind::CompareWrite => {
                first_difference(&data[at..end], read)
            }
            CheckKind::CompareSame => {
                let pattern = &data[..block_bytes];
                let blocks = read.chunks(block_bytes).enumerate();
                let differs =
                    |(i, block)| Some(i * block_bytes + first_difference(pattern, block)?);
                blocks.into_iter().find_map(differs)
            }
            CheckKind::Or => {
                data[at..end].iter_mut().zip(read).for_each(|(data, read)| *data |= read);
                None
            }
        };
        match differs {
            Some(differs) => Err(self.begin + self.done + differs as u32),
            None => {
                self.done += read.len() as u32;
                Ok(())
            }
        }
    }
}

fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other { None } else { one.iter().zip(other).position(|(one, other)| one != other) }
}

/// A buffer of at least a block, for at most `len` bytes.
fn buf_for_blocks(len: u32, block_mask: u32, out: &Outbox) -> Option<Buf> {
    let mut buf = out.take_part((len as usize).min(Pool::LARGE_BYTES));
    let short = buf.take_if(|buf| buf.len() <= block_mask as usize);
    short.into_iter().for_each(|buf| out.give(buf));
    buf
}

impl IscsiTarget {
    /// A check without data-out, or with data-out as long as its range.
    pub(super) fn start_check(
        &mut self,
        header: &Header,
        place: UnitRef,
        check: Check,
        out: &mut Outbox,
    ) {
        let command = Command::parse(header);
        let expected = if command.write { command.expected_len } else { 0 };
        let streams = check.kind.streams();
        let wanted = if streams { check.len } else { 0 };
        if streams && self.is_short_of_block(header, place, wanted) {
            return self.refuse_length(header, place, wanted, out);
        }
        let Some(slot) = self.begin(header, place, TaskState::Checking) else {
            return self.reject_immediate(header, out);
        };
        let task = &mut self.tasks[slot];
        // The residual of a command without data-out counts what the initiator announced.
        let announced = if streams { expected } else { command.expected_len };
        task.begin(Flow::new(command.task_tag, announced, wanted, 0));
        task.data.offset = check.offset;
        task.data.fua = check.fua;
        let len = if streams { task.flow.len } else { check.len };
        let checking = Checking::new(Check { len, ..check });
        task.job = Some(Box::new(Job::checking(command.cdb, checking)));
        self.expect_data(slot, header, out);
    }

    /// A check whose data-out was collected, and is in the task's buffer.
    pub(super) fn check_collected(&mut self, slot: u16, check: Check, out: &mut Outbox) {
        let block_mask = self.block_mask_of(slot);
        let task = &mut self.tasks[slot];
        task.state = TaskState::Checking;
        (task.data.block_mask, task.data.fua) = (block_mask, check.fua);
        let cdb = task.job.as_ref().map_or([0; 16], |job| job.cdb);
        task.job = Some(Box::new(Job::checking(cdb, Checking::new(check))));
        self.continue_check(slot, out);
    }

    fn block_mask_of(&self, slot: u16) -> u32 {
        self.unit(self.tasks[slot].lun).map_or(0, |unit| unit.geometry.block_bytes - 1)
    }

    /// Continues when data has come, an I/O has completed, or a claim may be free.
    pub(super) fn continue_check(&mut self, slot: u16, out: &mut Outbox) {
        let Some(check) = self.checking(slot).map(|checking| checking.check) else { return };
        if self.tasks[slot].sense.is_some() {
            return self.fail_when_drained(slot, out);
        }
        if !check.kind.streams() {
            return self.continue_collected(slot, check, out);
        }
        let task = &mut self.tasks[slot];
        let got = task.received.min(task.flow.len);
        if got == task.data.part_end() && task.data.buf.is_some() {
            let (begin, end) = (task.data.asked, task.data.part_end());
            task.data.asked = end;
            let data = task.data.buf.take();
            self.begin_chunk(slot, Chunk { begin, len: end - begin, done: 0, data }, out);
        }
        let task = &self.tasks[slot];
        if task.state != TaskState::Checking || task.burst != Burst::None {
            return;
        }
        if task.sense.is_some() {
            return self.fail_when_drained(slot, out);
        }
        if got < task.flow.len {
            self.solicit(slot, out);
        } else if task.data.in_flight == 0 {
            self.finish(slot, out);
        }
    }

    /// A check whose data is complete, as one chunk.
    fn continue_collected(&mut self, slot: u16, check: Check, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        // Data that the command does not need may still come.
        if task.burst != Burst::None || task.data.in_flight != 0 {
            return;
        }
        let len = check.len;
        if task.data.asked == u32::MAX {
            return self.finish(slot, out);
        }
        if check.kind.is_atomic() && !self.claim(slot, check) {
            return self.starve(slot);
        }
        let task = &mut self.tasks[slot];
        task.data.asked = u32::MAX;
        task.data.offset = check.offset;
        let data = task.data.buf.take();
        self.begin_chunk(slot, Chunk { begin: 0, len, done: 0, data }, out);
        if self.tasks[slot].sense.is_some() {
            self.fail_when_drained(slot, out);
        }
    }

    /// Claims the range of an atomic command. False while another one has it.
    fn claim(&mut self, slot: u16, check: Check) -> bool {
        let lun = self.tasks[slot].lun;
        let Some(unit) = self.unit(lun) else { return true };
        let claim = unit.claims.claim(check.offset, check.len.into());
        let claimed = claim.is_some();
        if let Some(checking) = self.checking(slot) {
            checking.claim = claim;
        }
        claimed
    }

    fn checking(&mut self, slot: u16) -> Option<&mut Checking> {
        self.tasks[slot].job.as_mut()?.checking.as_mut()
    }

    fn begin_chunk(&mut self, slot: u16, chunk: Chunk, out: &mut Outbox) {
        let Some(checking) = self.checking(slot) else { return };
        debug_assert!(checking.chunks.len() < usize::from(IOS_PER_COMMAND));
        let begin = chunk.begin;
        let writes = matches!(checking.check.kind, CheckKind::WriteRead | CheckKind::WriteCompare);
        checking.chunks.push(chunk);
        self.request_chunk(slot, begin, if writes { Next::Write } else { Next::Read }, out);
    }

    /// Requests the next I/O of a chunk.
    fn request_chunk(&mut self, slot: u16, begin: u32, next: Next, out: &mut Outbox) {
        let task = &mut self.tasks[slot];
        let (unit, offset, fua) = (task.data.unit, task.data.offset, task.data.fua);
        let block_mask = task.data.block_mask;
        let Some(checking) = task.job.as_mut().and_then(|job| job.checking.as_mut()) else {
            return;
        };
        let Some(at) = checking.chunk(begin) else { return };
        let chunk = &mut checking.chunks[at];
        let (op, buf, from, len) = match next {
            Next::Read => {
                let left = chunk.len - chunk.done;
                let buf = buf_for_blocks(left, block_mask, out);
                let len = buf.as_ref().map_or(0, |buf| left.min(buf.len() as u32 & !block_mask));
                (Op::Read, buf, chunk.done, len)
            }
            Next::Write => (Op::Write, chunk.data.take(), 0, chunk.len),
            Next::End => (Op::Read, None, 0, 0),
        };
        if let Some(buf) = buf {
            task.data.in_flight += 1;
            let offset = offset + u64::from(begin) + u64::from(from);
            let fua = fua && op == Op::Write;
            let io = Io { tag: part_tag(slot, begin), op, fua, len, offset, buf: Some(buf) };
            return self.backlog.request(unit, io);
        }
        let data = checking.chunks.swap_remove(at).data;
        data.into_iter().for_each(|buf| out.give(buf));
        if !matches!(next, Next::End) {
            task.refused = Refused::Busy;
            task.spoil(NO_MEMORY);
        }
    }

    /// An I/O of a chunk has completed.
    #[cold]
    pub(super) fn check_completed(&mut self, done: Done, out: &mut Outbox) {
        let (slot, begin) = (slot_of(done.tag), part_begin(done.tag));
        let task = &mut self.tasks[slot];
        task.data.in_flight.lower(1);
        let next = match done.result {
            Ok(()) => task.look(begin, done.buf, out),
            Err(fault) => {
                let wrote = task.is_writing(begin);
                task.spoil(Sense::from_fault(fault, if wrote { Op::Write } else { Op::Read }));
                done.buf.into_iter().for_each(|buf| out.give(buf));
                Next::End
            }
        };
        self.request_chunk(slot, begin, next, out);
        self.continue_check(slot, out);
    }

    /// Keeps the claims of commands that are lost with I/Os at their volumes.
    pub(super) fn keep_claims(&mut self) {
        let claims = self
            .tasks
            .iter_mut()
            .filter_map(|task| task.job.as_mut()?.checking.as_mut()?.take_claim());
        self.left_claims = claims.collect();
    }
}

impl Task {
    /// Whether the I/O of a chunk is a write.
    fn is_writing(&mut self, begin: u32) -> bool {
        let Some(checking) = self.job.as_mut().and_then(|job| job.checking.as_mut()) else {
            return false;
        };
        let at = checking.chunk(begin);
        checking.check.kind != CheckKind::Medium
            && at.is_some_and(|at| checking.chunks[at].data.is_none())
    }

    /// Looks at the result of a chunk's I/O, whose buffer is `buf`.
    fn look(&mut self, begin: u32, buf: Option<Buf>, out: &Outbox) -> Next {
        let writing = self.is_writing(begin);
        let (block_bytes, failed) = (self.data.block_bytes(), self.sense.is_some());
        let checking = self.job.as_mut().and_then(|job| job.checking.as_mut());
        let Some((checking, buf)) = checking.zip(buf) else { return Next::End };
        let kind = checking.check.kind;
        let Some(at) = checking.chunk(begin) else {
            out.give(buf);
            return Next::End;
        };
        let chunk = &mut checking.chunks[at];
        if writing {
            chunk.data = Some(buf);
            let reads = matches!(kind, CheckKind::WriteRead | CheckKind::WriteCompare);
            return if reads && !failed { Next::Read } else { Next::End };
        }
        let left = (chunk.len - chunk.done) as usize;
        let len = left.min(buf.len() & !(block_bytes - 1));
        let looked = chunk.look(kind, &buf[..len], block_bytes);
        let all = chunk.done == chunk.len;
        if kind == CheckKind::CompareWrite
            && all
            && let Some(data) = &mut chunk.data
        {
            let len = chunk.len as usize;
            data.copy_within(len..2 * len, 0);
        }
        out.give(buf);
        if let Err(differs) = looked {
            //= SBC-4 §COMPARE AND WRITE command: INFORMATION is the offset of the first byte that
            // differs.
            self.spoil(Sense::MISCOMPARE.with_information(differs.into()));
            return Next::End;
        }
        match (failed, all) {
            (true, _) => Next::End,
            (false, false) => Next::Read,
            (false, true) if kind.is_atomic() => Next::Write,
            (false, true) => Next::End,
        }
    }
}
