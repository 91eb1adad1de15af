//! Completions of the legs, and what follows from them.

use super::*;

impl<R: Rules> MirrorLane<R> {
    /// Handles a completion of a leg.
    pub(super) fn answered(&mut self, leg: usize, one: Done) {
        let task = Tasks::number(one.tag);
        match self.tasks.get(task) {
            Task::Read(_) => self.read_answered(leg, task, one),
            Task::Repair(_) => self.repair_answered(leg, task, one),
            Task::Change(change) => {
                change.votes.note(leg, one.result, one.cause);
                // The submitter gets one of the buffers back: all hold the same data.
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
                if change.votes.left == 0 {
                    self.settle(task);
                }
            }
            Task::Flush(flush) => {
                flush.votes.note(leg, one.result, one.cause);
                if flush.votes.left == 0 {
                    self.settle(task);
                }
            }
        }
    }

    /// Acknowledges an I/O that all legs completed, if that is allowed yet.
    pub(super) fn settle(&mut self, task: u32) {
        let (op, votes) = match self.tasks.get(task) {
            Task::Change(change) => (change.op, change.votes),
            Task::Flush(flush) => (Op::Flush, flush.votes),
            Task::Read(_) | Task::Repair(_) => return,
        };
        let Some((result, cause)) = self.verdict(op, votes) else { return self.held.push(task) };
        match self.tasks.leave(task) {
            Task::Change(Change { tag, offset, len, buf, .. }) => {
                // Some legs may hold the data and some not; an I/O that all legs refuse is on none.
                if result.is_err_and(|fault| votes.good != 0 || !refuses(fault)) {
                    self.legs.differs(offset, len.into());
                }
                // After the verdict: the next writer here meets only legs that hold this write.
                self.give_back(offset, len.into());
                self.ready.push(Done { tag, result, cause, buf });
            }
            Task::Flush(Flush { tag, .. }) => {
                self.ready.push(Done { tag, result, cause, buf: None });
            }
            Task::Read(_) | Task::Repair(_) => {}
        }
    }

    /// The combined result of all legs, once it is certain. A leg that failed leaves if another one
    /// succeeded.
    pub(super) fn verdict(&self, op: Op, votes: Votes) -> Option<(Result<(), Fault>, Cause)> {
        let Votes { good, bad, fault, since, .. } = votes;
        let (fault, cause) = fault.unwrap_or((Fault::Medium, Cause::NONE));
        if good == 0 || (bad != 0 && refuses(fault)) {
            return Some((Err(fault), cause));
        }
        for leg in legs(bad) {
            self.legs.leave(leg, &|| format!("{} failed: {fault}", op.word()));
        }
        match self.legs.settled(Answers { good, since }) {
            Verdict::Done => Some((Ok(()), Cause::NONE)),
            Verdict::Lost => Some((Err(Fault::Medium), Cause::NONE)),
            Verdict::Wait => None,
        }
    }

    pub(super) fn read_answered(&mut self, leg: usize, task: u32, one: Done) {
        let Task::Read(read) = self.tasks.get(task) else { return };
        let Read { tag, offset, len, tried, fault } = *read;
        let bit = 1 << leg;
        match one.result {
            // A leg that left meanwhile may have missed a write that was in flight beside the read.
            Ok(()) => {
                self.tasks.leave(task);
                self.ready.push(Done { tag, ..one });
                let bad = self.legs.in_it() & tried;
                legs(bad).for_each(|leg| self.repair(leg, offset, len));
                return;
            }
            Err(fault) if refuses(fault) => {
                self.tasks.leave(task);
                return self.ready.push(Done { tag, ..one });
            }
            Err(Fault::Medium) => self.legs.read_failed(leg),
            Err(fault) => {
                self.legs.leave(leg, &|| format!("read failed: {fault}"));
            }
        }
        let told = one.result.err().map(|fault| (fault, one.cause)).or(fault);
        match self.reader(offset, len, tried | bit) {
            Some(other) => {
                if let Task::Read(read) = self.tasks.get(task) {
                    (read.tried, read.fault) = (tried | bit, told);
                }
                let (op, fua, buf) = (Op::Read, false, one.buf);
                self.give(other, task, Io { tag, op, fua, len, offset, buf });
            }
            None => {
                self.tasks.leave(task);
                let (fault, cause) = told.unwrap_or((Fault::Medium, Cause::NONE));
                self.ready.push(Done { tag, result: Err(fault), cause, buf: one.buf });
            }
        }
    }

    /// Writes data read from another leg back to the one that failed, or ends the repair.
    pub(super) fn repair_answered(&mut self, from: usize, task: u32, one: Done) {
        let Task::Repair(Repair { leg, offset, len }) = *self.tasks.get(task) else { return };
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

/// The I/O is invalid or unsupported by this kind of volume: not the leg's failure.
fn refuses(fault: Fault) -> bool {
    matches!(fault, Fault::OutOfRange | Fault::ReadOnly | Fault::Unsupported | Fault::Miscompare)
}
