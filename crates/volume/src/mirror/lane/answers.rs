//! Handling of completions of the legs.
//!
//! The mirror has checked each I/O against its own geometry. So a leg that refuses one, as
//! read-only, out of range or unsupported, has failed, like one that reports a medium error:
//! another leg serves the I/O, and the submitter sees a fault only if no good leg is left.

use super::*;
use crate::remote::LOST;

/// Causes of faults that are remembered with their legs.
const BLAMED_MAX: usize = 32;

impl<R: Rules> MirrorLane<R> {
    /// Handles a completion of a leg.
    pub(super) fn answered(&mut self, leg: usize, one: Done) {
        let task = Tasks::number(one.tag);
        let now = self.now;
        match self.tasks.get(task) {
            Task::Read(_) => self.read_answered(leg, task, one),
            Task::Repair(_) => self.repair_answered(leg, task, one),
            Task::Fill(_) => self.fill_answered(task, one),
            Task::Change(change) => {
                let zeroes = matches!(change.op, Op::Trim | Op::WriteZeroes);
                if zeroes && one.result == Err(Fault::Unsupported) {
                    return self.fill(leg, task);
                }
                change.votes.note(leg, one.result, one.cause);
                let (left, spent) = (change.votes.left, now.since(change.votes.begun));
                // The submitter gets one of the buffers back: all have the same data.
                let spare = match (&change.buf, one.buf) {
                    (None, buf) => {
                        change.buf = buf;
                        None
                    }
                    (Some(_), buf) => buf,
                };
                if let Some(buf) = spare {
                    self.pool.give(buf);
                }
                self.took(leg, spent);
                if left == 0 {
                    self.settle(task);
                }
            }
            Task::Flush(flush) => {
                flush.votes.note(leg, one.result, one.cause);
                let (left, spent) = (flush.votes.left, now.since(flush.votes.begun));
                self.took(leg, spent);
                if left == 0 {
                    self.settle(task);
                }
            }
        }
    }

    /// Adds to the time spent by a leg.
    fn took(&mut self, leg: usize, spent: Nanos) {
        let way = &mut self.ways[leg];
        way.changes = way.changes.saturating_add(1);
        way.spent = way.spent + spent;
    }

    /// Acknowledges an I/O that all legs completed, if that is allowed already.
    pub(super) fn settle(&mut self, task: u32) {
        let (op, votes) = match self.tasks.get(task) {
            Task::Change(change) => (change.op, change.votes),
            Task::Flush(flush) => (Op::Flush, flush.votes),
            Task::Read(_) | Task::Repair(_) | Task::Fill(_) => return,
        };
        let Some((result, cause)) = self.verdict(op, votes) else { return self.held.push(task) };
        match self.tasks.leave(task) {
            Task::Change(Change { tag, offset, len, buf, .. }) => {
                // Some legs may have the data and others not. An I/O that all legs refuse is on
                // none.
                if result.is_err() && (votes.good != 0 || votes.torn) {
                    self.legs.differs(offset, len.into());
                }
                // After the verdict: the next writer of this range meets only legs with this write.
                self.give_back(offset, len.into());
                self.ready.push(Done { tag, result, cause, buf });
            }
            Task::Flush(Flush { tag, told, .. }) => {
                let losses = self.legs.losses().map_or(0, Losses::count);
                if told < losses {
                    self.telling.answer(losses);
                }
                let (result, cause) = match result {
                    Ok(()) if told < losses => (Err(Fault::Medium), LOST),
                    result => (result, cause),
                };
                self.ready.push(Done { tag, result, cause, buf: None });
            }
            Task::Read(_) | Task::Repair(_) | Task::Fill(_) => {}
        }
    }

    /// Combined result of all legs, once it is certain. A failed leg is out if another one
    /// succeeded.
    pub(super) fn verdict(&mut self, op: Op, votes: Votes) -> Option<(Result<(), Fault>, Cause)> {
        let Votes { good, bad, blame, since, .. } = votes;
        if good == 0 || planted(Plant::RefuseForAll) && bad != 0 {
            return Some(self.blame(blame));
        }
        for leg in legs(bad & self.legs.writers()) {
            let why = || self.why(op, leg, blame);
            self.legs.leave(leg, &why);
        }
        match self.legs.settled(Answers { good, since }) {
            Verdict::Done => Some((Ok(()), Cause::NONE)),
            Verdict::Lost if blame.is_some() => Some(self.blame(blame)),
            Verdict::Lost => Some((Err(Fault::Medium), Cause::NONE)),
            Verdict::Wait => None,
        }
    }

    /// Reason why a leg fails.
    fn why(&self, op: Op, leg: usize, blame: Option<Blame>) -> String {
        let Some(Blame { fault, cause, .. }) = blame.filter(|blame| blame.leg == leg) else {
            return format!("{} failed", op.word());
        };
        let words = self.ways[leg].lane.as_ref().and_then(|lane| lane.words_of(cause));
        let words = words.map_or_else(String::new, |words| format!(": {words}"));
        format!("{} failed: {fault}{words}", op.word())
    }

    /// Result of an I/O that no good leg has completed, and the leg that explains it.
    fn blame(&mut self, blame: Option<Blame>) -> (Result<(), Fault>, Cause) {
        let Some(Blame { leg, fault, cause }) = blame else {
            return (Err(Fault::Medium), Cause::NONE);
        };
        if cause != Cause::NONE {
            self.blamed.retain(|(known, _)| *known != cause);
            if self.blamed.len() == BLAMED_MAX {
                self.blamed.pop_front();
            }
            self.blamed.push_back((cause, leg));
        }
        (Err(fault), cause)
    }

    pub(super) fn read_answered(&mut self, leg: usize, task: u32, one: Done) {
        let Task::Read(read) = self.tasks.get(task) else { return };
        let Read { tag, offset, len, tried, .. } = *read;
        let tried = tried | 1 << leg;
        let fault = match one.result {
            // A leg that failed meanwhile may have missed a write that was in flight concurrently
            // with the read.
            Ok(()) => {
                self.tasks.leave(task);
                self.ready.push(Done { tag, ..one });
                let bad = self.legs.in_it() & tried & !(1 << leg);
                legs(bad).for_each(|leg| self.repair(leg, offset, len));
                return;
            }
            Err(fault) => fault,
        };
        match fault {
            Fault::Medium => self.legs.read_failed(leg),
            fault => self.legs.leave(leg, &|| format!("read failed: {fault}")),
        }
        let blame = Some(Blame { leg, fault, cause: one.cause });
        // The buffer of a hung leg is not returned.
        let buf = one.buf.or_else(|| self.pool.take_beyond(len as usize));
        match self.reader(offset, len, tried).filter(|_| buf.is_some()) {
            Some(other) => {
                let now = self.now;
                if let Task::Read(read) = self.tasks.get(task) {
                    (read.tried, read.blame, read.leg, read.begun) = (tried, blame, other, now);
                }
                let (op, fua) = (Op::Read, false);
                self.give(other, task, Io { tag, op, fua, len, offset, buf });
            }
            None => {
                self.tasks.leave(task);
                let (result, cause) = self.blame(blame);
                self.ready.push(Done { tag, result, cause, buf });
            }
        }
    }

    /// Writes data read from another leg back to the one that failed, or ends the repair.
    pub(super) fn repair_answered(&mut self, from: usize, task: u32, one: Done) {
        let now = self.now;
        let Task::Repair(repair) = self.tasks.get(task) else { return };
        let Repair { leg, offset, len, .. } = *repair;
        (repair.asked, repair.begun) = (leg, now);
        if from != leg && one.result.is_ok() && self.has(leg) {
            let (tag, op, fua, buf) = (one.tag, Op::Write, false, one.buf);
            return self.give(leg, task, Io { tag, op, fua, len, offset, buf });
        }
        if from == leg {
            match one.result {
                Ok(()) => self.legs.repaired(),
                Err(fault) => {
                    self.legs.leave(leg, &|| format!("a block could not be repaired: {fault}"));
                }
            }
        }
        self.tasks.leave(task);
        self.give_back(offset, len.into());
        if let Some(buf) = one.buf {
            self.pool.give(buf);
        }
    }
}
