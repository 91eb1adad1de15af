//! Stripes over memory: an I/O is executed within the call on the submitter's buffer, also across
//! stripe boundaries.

use std::collections::VecDeque;

use block::{Ahead, Change, Immediate, Io, Op};

use super::lane::StripedLane;

/// A range of one part.
struct Run {
    part: usize,
    offset: u64,
    len: u64,
}

impl StripedLane {
    /// Portion of a range in its first stripe.
    fn run(&self, offset: u64, len: u64) -> Run {
        let (stripe, inside) = (offset / self.stripe_bytes, offset % self.stripe_bytes);
        let count = self.lanes.len() as u64;
        Run {
            part: (stripe % count) as usize,
            offset: stripe / count * self.stripe_bytes + inside,
            len: len.min(self.stripe_bytes - inside),
        }
    }

    fn part(&mut self, part: usize) -> Option<&mut dyn Immediate> {
        self.lanes[part].immediate()
    }

    /// Executes I/Os within the call; those that must wait stay queued.
    pub(super) fn execute_all(&mut self, ios: &mut VecDeque<Io>) {
        let check = |lane: &StripedLane, io: &Io| {
            lane.geometry.check(io)?;
            match lane.may_cross() || io.op == Op::Flush {
                true => Ok(()),
                false => lane.place(io.offset, io.len).map(drop),
            }
        };
        let (mut batch, mut ready) = (std::mem::take(&mut self.batch), Vec::new());
        std::mem::swap(&mut ready, &mut self.ready);
        batch.execute(self, check, ios, &mut ready);
        (self.batch, self.ready) = (batch, ready);
    }

    /// Claims or releases a range; returns how many bytes were done before a part refused.
    fn each_run(
        &mut self,
        offset: u64,
        len: u64,
        mut what: impl FnMut(&mut dyn Immediate, &Run) -> bool,
    ) -> u64 {
        let mut at = 0;
        while at < len {
            let run = self.run(offset + at, len - at);
            if !self.part(run.part).is_some_and(|part| what(part, &run)) {
                break;
            }
            at += run.len;
        }
        at
    }
}

impl Immediate for StripedLane {
    fn ahead(&mut self, op: Op, offset: u64) -> Ahead {
        let Run { part, offset, .. } = self.run(offset, 1);
        self.part(part).map_or(Ahead::NONE, |part| part.ahead(op, offset))
    }

    fn read(&mut self, offset: u64, to: &mut [u8], next: Ahead) {
        let (mut at, len) = (0, to.len() as u64);
        while at < len {
            let run = self.run(offset + at, len - at);
            let here = &mut to[at as usize..(at + run.len) as usize];
            at += run.len;
            let next = if at < len { self.ahead(Op::Read, offset + at) } else { next };
            self.part(run.part).expect("all parts are memory").read(run.offset, here, next);
        }
    }

    fn change(&mut self, offset: u64, change: Change<'_>, next: Ahead) {
        let (mut at, len) = (0, change.len_bytes());
        while at < len {
            let run = self.run(offset + at, len - at);
            let here = match change {
                Change::Write(from) => Change::Write(&from[at as usize..(at + run.len) as usize]),
                Change::Zero(_) => Change::Zero(run.len),
                Change::Trim(_) => Change::Trim(run.len),
            };
            at += run.len;
            let next = if at < len { self.ahead(Op::Write, offset + at) } else { next };
            self.part(run.part).expect("all parts are memory").change(run.offset, here, next);
        }
    }

    fn claim(&mut self, offset: u64, len: u64) -> bool {
        let claimed = self.each_run(offset, len, |part, run| part.claim(run.offset, run.len));
        if claimed < len {
            self.release(offset, claimed);
        }
        claimed == len
    }

    fn release(&mut self, offset: u64, len: u64) {
        self.each_run(offset, len, |part, run| {
            part.release(run.offset, run.len);
            true
        });
    }
}
