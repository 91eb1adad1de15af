//! Recovery of I/Os after faults: they succeed again, and soon.

use block::{Fault, Nanos, Op};

use super::*;

/// Time within which I/Os succeed again after the first failure that noticed a lost connection, or
/// after all legs are good again: connections time out, targets end late writes, and graces pass.
const RETURNS: Nanos = Nanos::from_secs(120);
/// Time between attempts to write.
const AGAIN: Nanos = Nanos::from_millis(500);

/// Idle connections whose loss may be unnoticed: an I/O of a client notices it, and fails if there
/// is no other leg.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unseen {
    /// The array's own connection: writes that need to mark regions fail.
    marks: Lost,
    /// Connections of clients.
    answers: Lost,
}

/// Whether a connection may have been lost.
#[derive(Clone, Copy, Debug, Default)]
enum Lost {
    #[default]
    No,
    Perhaps,
    /// An I/O noticed the loss at this time.
    Since(Nanos),
}

impl Unseen {
    /// Connections may be lost from now on.
    pub(super) fn trouble(&mut self) {
        (self.marks, self.answers) = (Lost::Perhaps, Lost::Perhaps);
    }

    /// Notes that a leg is reachable again: noticed losses end soon.
    pub(super) fn heals(&mut self) {
        for lost in [&mut self.marks, &mut self.answers] {
            if let Lost::Since(_) = lost {
                *lost = Lost::Perhaps;
            }
        }
    }

    /// An I/O succeeded: a change shows that regions are marked.
    pub(super) fn works(&mut self, op: Op) {
        if op != Op::Flush {
            self.marks = Lost::No;
        }
    }

    /// Whether an I/O on the last leg may fail, because it notices a loss, or soon after another
    /// I/O did.
    pub(super) fn excuses(&mut self, now: Nanos, op: Op, fault: Fault) -> bool {
        let changes = matches!(op, Op::Write | Op::Trim | Op::WriteZeroes);
        let lost = match fault {
            Fault::Unanswered => &mut self.answers,
            Fault::Medium if changes => &mut self.marks,
            _ => return false,
        };
        match *lost {
            Lost::No => false,
            Lost::Perhaps => {
                *lost = Lost::Since(now);
                true
            }
            Lost::Since(first) => now <= first + RETURNS,
        }
    }
}

impl Run {
    /// Checks a failed I/O: it must not fail while a good leg is in.
    pub(super) fn may_fail(&mut self, asked: &Asked, fault: Fault) -> Result<(), String> {
        let world = self.world.borrow();
        let in_it = self.process.as_ref().map_or(0, |process| process.array.in_it());
        let all = asked.legs & in_it;
        let good = |leg: &usize| all & 1 << leg != 0 && !world.legs[*leg].blamed;
        let Some(leg) = (0..self.legs).find(good) else { return Ok(()) };
        if all.count_ones() == 1 && self.unseen.excuses(self.now, asked.op, fault) {
            return Ok(());
        }
        if asked.op == Op::Flush && asked.begun <= self.told_at {
            return Ok(());
        }
        if asked.op == Op::Flush && self.untold > 0 {
            self.untold -= 1;
            self.told_at = world.time;
            return Ok(());
        }
        Err(format!("{:?} fails, {fault}, though leg {leg} is good", asked.op))
    }

    /// Checks that writes succeed again within a time limit when all legs are good, unless the
    /// array has reported that they will not.
    pub(super) fn writes_go_on(&mut self) -> Result<(), String> {
        let end = self.now + RETURNS;
        loop {
            let failed = self.failed;
            self.write_scratch();
            self.rest()?;
            if self.failed == failed || self.has_older_image() {
                return Ok(());
            }
            if self.now >= end {
                let process = self.process.as_ref().expect("it is open");
                let words = process.array.words().unwrap_or_default();
                return Err(format!("writes fail long after all legs are good again; {words}"));
            }
            self.wait(AGAIN)?;
        }
    }

    /// Whether the last leg returned as an older image, for which I/Os fail until the array is
    /// reopened.
    pub(super) fn has_older_image(&self) -> bool {
        let process = self.process.as_ref().expect("it is open");
        let words = process.array.words().unwrap_or_default();
        words.contains("came back as an older image")
    }

    fn write_scratch(&mut self) {
        let region = (SCRATCH / region_bytes(BYTES)) as usize;
        (self.touched[region], self.ever[region]) = (true, true);
        self.submit_at(Op::Write, false, 0..0, (SCRATCH, PAGE as u32));
    }
}
