//! Queries of a mirror's lane about its legs.
//!
//! [`Legs`] answers from memory; an array's [`Shared`](crate::array) records membership on the
//! legs.

use block::Nanos;

use super::legs::Legs;
use crate::losses::Losses;

/// Result to report for an I/O that all legs completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The I/O succeeded.
    Done,
    /// Not yet: a leg that missed the change is not durably out.
    Wait,
    /// No leg that is in has the change.
    Lost,
}

/// Whether a range may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The range may be written now.
    Yes,
    /// Not yet: its regions are being marked dirty.
    Wait,
    /// The map cannot be written.
    Fails,
}

/// The combined completions of all legs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    /// A bit for each leg that succeeded.
    pub(crate) good: u32,
    /// [`Rules::events`] when the I/O was begun.
    pub(crate) since: u64,
}

/// Membership of the legs, and permissions for ranges.
pub(crate) trait Rules {
    /// A bit for each leg that gets writes.
    fn writers(&self) -> u32;

    /// A bit for each leg that may serve reads of the range: all of them have the same data.
    fn readers(&self, offset: u64, len: u64) -> u32;

    /// Whether a range may be read now. If not, the legs that are in may differ there, and are
    /// resynced first: a later read from another leg must not return older data.
    fn settles(&self, _offset: u64, _len: u64) -> bool {
        true
    }

    /// A bit for each leg that has every acknowledged write.
    fn in_it(&self) -> u32;

    /// Number of times that legs have left or returned.
    fn events(&self) -> u64 {
        0
    }

    /// Number of returns of this leg: on a change the lane reconnects to it.
    fn joined(&self, _leg: usize) -> u32 {
        0
    }

    /// Whether a claimed range may be written now.
    fn opens(&self, _offset: u64, _len: u64) -> Opened {
        Opened::Yes
    }

    /// Fails a leg, unless it is the last.
    fn leave(&self, leg: usize, why: &dyn Fn() -> String);

    /// Whether `answers` may be acknowledged.
    fn settled(&self, answers: Answers) -> Verdict;

    /// Records that a change reached only some legs, or an unknown set of them.
    fn differs(&self, _offset: u64, _len: u64) {}

    /// Counts a read error.
    fn read_failed(&self, leg: usize);

    /// Counts a block that was repaired.
    fn repaired(&self);

    /// Maximum time for which a leg may leave an I/O unanswered before the leg fails.
    fn patience(&self) -> Nanos;

    /// Reports that a leg has left an I/O unanswered for a while, at a limited rate.
    fn waits_for(&self, leg: usize, words: &dyn Fn() -> String);

    /// Adds `count` to the I/Os of this leg that were abandoned and may still be executed; negative
    /// for ended ones. The leg must not return before there are none.
    fn haunts(&self, _leg: usize, _count: i64) {}

    /// Handles the loss of the lane to the last leg. The lane is reopened when the leg has
    /// [`joined`](Self::joined) again.
    fn lost(&self, _leg: usize) {}

    /// Acknowledged changes that may have been lost with the cache of the last leg: the next flush
    /// fails, also where others are in by then, which were copied from that leg. `None` where that
    /// cannot happen.
    fn losses(&self) -> Option<&Losses> {
        None
    }

    /// Records `count` changes and flushes completed by a leg, which took `spent` in all.
    fn took(&self, _leg: usize, _count: u32, _spent: Nanos) {}
}

impl Rules for Legs {
    fn writers(&self) -> u32 {
        Legs::in_it(self)
    }

    fn readers(&self, _: u64, _: u64) -> u32 {
        Legs::in_it(self)
    }

    fn in_it(&self) -> u32 {
        Legs::in_it(self)
    }

    fn leave(&self, leg: usize, why: &dyn Fn() -> String) {
        Legs::leave(self, leg, why);
    }

    /// Checks that a leg with the change is still in: the only one may have failed for another
    /// reason.
    fn settled(&self, answers: Answers) -> Verdict {
        match answers.good & Legs::in_it(self) {
            0 => Verdict::Lost,
            _ => Verdict::Done,
        }
    }

    fn read_failed(&self, leg: usize) {
        Legs::read_failed(self, leg);
    }

    fn repaired(&self) {
        Legs::repaired(self);
    }

    fn patience(&self) -> Nanos {
        Legs::patience(self)
    }

    fn waits_for(&self, leg: usize, words: &dyn Fn() -> String) {
        self.say(leg, &words());
    }
}
