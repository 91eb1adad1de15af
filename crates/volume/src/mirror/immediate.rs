//! A mirror of memory: a write is copied to every leg within the call, straight from the
//! submitter's buffer.
//!
//! Legs in memory never fail. Claims order the I/Os of several lanes, as in the normal path; an I/O
//! whose granule is claimed waits in the normal path.

use std::collections::VecDeque;

use block::{Ahead, Change, Immediate, Io, Op};

use super::lane::{MirrorLane, legs};
use super::rules::Rules;

impl<R: Rules> MirrorLane<R> {
    /// Executes I/Os within the call; those that must wait stay queued.
    pub(super) fn execute_all(&mut self, ios: &mut VecDeque<Io>) {
        let (mut batch, mut ready) = (std::mem::take(&mut self.batch), Vec::new());
        std::mem::swap(&mut ready, &mut self.ready);
        batch.execute(self, |lane, io| lane.geometry.check(io), ios, &mut ready);
        (self.batch, self.ready) = (batch, ready);
    }
}

impl<R: Rules> Immediate for MirrorLane<R> {
    fn ahead(&mut self, op: Op, offset: u64) -> Ahead {
        let leg = match op {
            Op::Read => self.reader(offset, 1, 0),
            _ => legs(self.legs_in_it()).next(),
        };
        leg.and_then(|leg| self.leg(leg)).map_or(Ahead::NONE, |leg| leg.ahead(op, offset))
    }

    fn read(&mut self, offset: u64, to: &mut [u8], next: Ahead) {
        let leg = self.reader(offset, to.len() as u32, 0).expect("one leg is always in");
        self.leg(leg).expect("all legs are memory").read(offset, to, next);
    }

    fn change(&mut self, offset: u64, change: Change<'_>, next: Ahead) {
        let mut left = self.legs_in_it();
        while let Some(leg) = legs(left).next() {
            left &= left - 1;
            let other = legs(left).next().and_then(|other| self.leg(other));
            let then = other.map_or(next, |other| {
                let ahead = other.ahead(Op::Write, offset);
                ahead.prefetch(change.len_bytes() as usize);
                ahead
            });
            self.leg(leg).expect("all legs are memory").change(offset, change, then);
        }
    }

    fn claim(&mut self, offset: u64, len: u64) -> bool {
        self.is_idle() && self.claims(offset, len)
    }

    fn release(&mut self, offset: u64, len: u64) {
        self.give_back(offset, len);
    }
}
