//! Trims and zeroings on legs that do not support them.
//!
//! A leg that does not promise that trimmed blocks read as zeroes is zeroed instead. A leg that
//! cannot zero by a command is written with zeroes. So legs are identical after a trim, too. Once a
//! leg is known to need writes, a trim does nothing on any leg: without the promise of all legs the
//! mirror promises nothing either, and writing zeroes costs more than a trim is worth.

use super::*;

/// Longest write of zeroes.
const FILL_BYTES: u64 = 256 << 10;

impl<R: Rules> MirrorLane<R> {
    /// Whether a trim is skipped: a leg would have to be written.
    pub(super) fn trims_nothing(&self, writers: u32) -> bool {
        !self.geometry.trim_zeroes && legs(writers).any(|leg| self.ways[leg].cannot_zero)
    }

    /// The operation that trims a leg.
    pub(super) fn trim_of(&self, leg: usize) -> Op {
        let lane = self.ways[leg].lane.as_ref();
        let promises = lane.is_some_and(|lane| lane.geometry().trim_zeroes);
        if promises || planted(Plant::TrimUnzeroed) { Op::Trim } else { Op::WriteZeroes }
    }

    /// Begins to write zeroes to a leg that refused a trim or a zeroing.
    #[cold]
    pub(super) fn fill(&mut self, leg: usize, change: u32) {
        self.ways[leg].cannot_zero = true;
        let Task::Change(Change { offset, len, fua, .. }) = self.tasks.get(change) else { return };
        let (at, end, fua) = (*offset, *offset + u64::from(*len), *fua);
        let fill = Fill { change, leg, at, end, len: 0, fua, begun: self.now };
        let task = self.tasks.enter(Task::Fill(fill));
        self.fill_next(task, fill);
    }

    /// Writes the next zeroes; after the last ones the leg has completed the change.
    fn fill_next(&mut self, task: u32, fill: Fill) {
        let len = (fill.end - fill.at).min(FILL_BYTES) as u32;
        if len == 0 {
            return self.filled(task, fill, Ok(()), Cause::NONE);
        }
        let Some(mut buf) = self.pool.take_beyond(len as usize) else {
            return self.filled(task, fill, Err(Fault::Aborted), Cause::NONE);
        };
        buf[..len as usize].fill(0);
        if let Task::Change(change) = self.tasks.get(fill.change) {
            // A long range takes long: that is no reason to fail the leg.
            change.votes.begun = self.now;
        }
        if let Task::Fill(kept) = self.tasks.get(task) {
            *kept = Fill { len, begun: self.now, ..fill };
        }
        let (tag, op, offset, buf) = (Tag(0), Op::Write, fill.at, Some(buf));
        self.give(fill.leg, task, Io { tag, op, fua: fill.fua, len, offset, buf });
    }

    /// Handles the completion of a write of zeroes.
    #[cold]
    pub(super) fn fill_answered(&mut self, task: u32, one: Done) {
        let Task::Fill(fill) = *self.tasks.get(task) else { return };
        if let Some(buf) = one.buf {
            self.pool.give(buf);
        }
        match one.result {
            Ok(()) => self.fill_next(task, Fill { at: fill.at + u64::from(fill.len), ..fill }),
            Err(_) => self.filled(task, fill, one.result, one.cause),
        }
    }

    fn filled(&mut self, task: u32, fill: Fill, result: Result<(), Fault>, cause: Cause) {
        self.tasks.leave(task);
        if let Task::Change(change) = self.tasks.get(fill.change) {
            change.votes.note(fill.leg, result, cause);
            // A part of the range may be zero already.
            change.votes.torn |= result.is_err();
            if change.votes.left == 0 {
                self.settle(fill.change);
            }
        }
    }
}
