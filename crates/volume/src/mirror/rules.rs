//! What a lane of a mirror asks of those who know its legs.
//!
//! [`Legs`] knows them while the process lives; an array remembers them on the legs themselves.

use super::legs::Legs;

/// How an answer that all legs have given is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is done.
    Done,
    /// Not yet: a leg that missed it has not left durably.
    Wait,
    /// Nobody has it who is still in.
    Lost,
}

/// Whether a range may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// Now.
    Yes,
    /// Not yet: that is asked for.
    Wait,
    /// What must be durable before it can not be written.
    Fails,
}

/// What all legs came to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answers {
    /// A bit for each leg that has done it.
    pub(crate) good: u32,
    /// Value of [`Rules::events`] when it was begun.
    pub(crate) since: u64,
}

/// Who is in, and what may be done where.
pub(crate) trait Rules {
    /// A bit for each leg that gets writes.
    fn writers(&self) -> u32;

    /// A bit for each leg that may be read. All have the same there.
    fn readers(&self, offset: u64, len: u64) -> u32;

    /// A bit for each leg that has every write that was told as done.
    fn in_it(&self) -> u32;

    /// How often legs have come or gone.
    fn events(&self) -> u64 {
        0
    }

    /// How often this leg has come back: a lane then takes a new way to it.
    fn joined(&self, _leg: usize) -> u32 {
        0
    }

    /// Whether a claimed range may be written now.
    fn opens(&self, _offset: u64, _len: u64) -> Opened {
        Opened::Yes
    }

    /// Takes a leg out, unless it is the last.
    fn leave(&self, leg: usize, why: &dyn Fn() -> String);

    /// Whether what `answers` says may be told.
    fn settled(&self, answers: Answers) -> Verdict;

    /// A change was done on some legs only, or on nobody knows which.
    fn differs(&self, _offset: u64, _len: u64) {}

    /// Counts a read error.
    fn read_failed(&self, leg: usize);

    /// Counts a block that was written back where it could not be read.
    fn repaired(&self);
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

    /// One that has it may have left for another reason: then nobody has.
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
}
