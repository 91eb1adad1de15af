//! I/Os in flight of a mirror's lane.

use block::{Buf, Cause, Fault, Nanos, Op, Tag};

/// One I/O of the mirror: an I/O on each leg, or several in turn.
pub(super) enum Task {
    Read(Read),
    Change(Change),
    Flush(Flush),
    Repair(Repair),
    Fill(Fill),
}

/// A read; the legs in `tried` failed, the last of them with `blame`.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub(super) tag: Tag,
    pub(super) offset: u64,
    pub(super) len: u32,
    /// Leg that has the I/O.
    pub(super) leg: usize,
    pub(super) tried: u32,
    pub(super) blame: Option<Blame>,
    /// Time at which the leg got the I/O.
    pub(super) begun: Nanos,
}

/// A write, trim or zeroing.
pub(super) struct Change {
    pub(super) tag: Tag,
    pub(super) op: Op,
    pub(super) fua: bool,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) votes: Votes,
    pub(super) buf: Option<Buf>,
}

/// A flush of all legs.
pub(super) struct Flush {
    pub(super) tag: Tag,
    pub(super) votes: Votes,
    /// Reported losses of the last leg when the task began.
    pub(super) told: u64,
}

/// The fault of a leg.
#[derive(Clone, Copy)]
pub(super) struct Blame {
    pub(super) leg: usize,
    pub(super) fault: Fault,
    pub(super) cause: Cause,
}

/// Completions of one I/O on all legs: the number outstanding, a bit for each leg that got it, that
/// succeeded or that failed, and the first fault.
#[derive(Clone, Copy)]
pub(super) struct Votes {
    pub(super) left: u32,
    pub(super) sent: u32,
    pub(super) good: u32,
    pub(super) bad: u32,
    pub(super) blame: Option<Blame>,
    /// A failed leg may hold all or a part of the I/O.
    pub(super) torn: bool,
    /// [`Rules::events`](super::rules::Rules::events) when the I/O was begun.
    pub(super) since: u64,
    pub(super) begun: Nanos,
}

/// A block that a leg could not read, being copied back from another one.
#[derive(Clone, Copy)]
pub(super) struct Repair {
    pub(super) leg: usize,
    /// Leg that has the I/O: first the one that is read, then the one that is repaired.
    pub(super) asked: usize,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) begun: Nanos,
}

/// A range that a leg cannot zero by a command, being written with zeroes.
#[derive(Clone, Copy)]
pub(super) struct Fill {
    /// The task of the trim or zeroing.
    pub(super) change: u32,
    pub(super) leg: usize,
    /// Remaining range, and the length of the write in flight.
    pub(super) at: u64,
    pub(super) end: u64,
    pub(super) len: u32,
    pub(super) fua: bool,
    pub(super) begun: Nanos,
}

/// All tasks, by number.
#[derive(Default)]
pub(super) struct Tasks {
    all: Vec<Option<Task>>,
    free: Vec<u32>,
    /// Tasks that change data.
    changes: Vec<u32>,
}

/// Number of bits of a tag for the leg.
const LEG_BITS: u32 = 8;

impl Votes {
    /// Starts a vote of these legs.
    pub(super) fn of(legs: u32, since: u64, begun: Nanos) -> Votes {
        let left = legs.count_ones();
        Votes { left, sent: legs, good: 0, bad: 0, blame: None, torn: false, since, begun }
    }

    /// Notes a completion of a leg.
    pub(super) fn note(&mut self, leg: usize, result: Result<(), Fault>, cause: Cause) {
        self.left -= 1;
        match result {
            Ok(()) => self.good |= 1 << leg,
            Err(fault) => {
                self.bad |= 1 << leg;
                self.torn |= !is_refusal(fault);
                self.blame.get_or_insert(Blame { leg, fault, cause });
            }
        }
    }

    /// A bit for each leg that has not completed the change.
    pub(super) fn missing(&self) -> u32 {
        self.sent & !self.good & !self.bad
    }
}

/// Whether a leg that fails a change in this way has executed nothing of it.
fn is_refusal(fault: Fault) -> bool {
    matches!(fault, Fault::OutOfRange | Fault::ReadOnly | Fault::Unsupported)
}

impl Task {
    /// Legs that the task waits for, and the start of the wait.
    pub(super) fn waits(&self) -> (u32, Nanos) {
        match self {
            Task::Read(read) => (1 << read.leg, read.begun),
            Task::Change(Change { votes, .. }) | Task::Flush(Flush { votes, .. }) => {
                (votes.missing(), votes.begun)
            }
            Task::Repair(repair) => (1 << repair.asked, repair.begun),
            Task::Fill(fill) => (1 << fill.leg, fill.begun),
        }
    }

    /// Change that this task completes on this leg by writing zeroes, if it does.
    pub(super) fn fills(&self, leg: usize) -> Option<u32> {
        match self {
            Task::Fill(fill) if fill.leg == leg => Some(fill.change),
            _ => None,
        }
    }

    /// Shifts the start, so that the time since `now` less `gap` does not count.
    fn postpone(&mut self, gap: Nanos, now: Nanos) {
        let begun = match self {
            Task::Read(read) => &mut read.begun,
            Task::Change(Change { votes, .. }) | Task::Flush(Flush { votes, .. }) => {
                &mut votes.begun
            }
            Task::Repair(repair) => &mut repair.begun,
            Task::Fill(fill) => &mut fill.begun,
        };
        *begun = (*begun + gap).min(now);
    }

    /// Name of the legs' operation.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Task::Read(_) => "read",
            Task::Change(change) => change.op.word(),
            Task::Flush(_) => "flush",
            Task::Repair(_) => "repair",
            Task::Fill(_) => "zeroing",
        }
    }
}

impl Tasks {
    pub(super) fn tag(task: u32, leg: usize) -> Tag {
        Tag(u64::from(task) << LEG_BITS | leg as u64)
    }

    pub(super) fn number(tag: Tag) -> u32 {
        (tag.0 >> LEG_BITS) as u32
    }

    pub(super) fn enter(&mut self, task: Task) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() as u32 - 1
        });
        if matches!(task, Task::Change(_) | Task::Repair(_)) {
            self.changes.push(number);
        }
        self.all[number as usize] = Some(task);
        number
    }

    pub(super) fn get(&mut self, number: u32) -> &mut Task {
        self.all[number as usize].as_mut().expect("what is answered is in flight")
    }

    pub(super) fn leave(&mut self, number: u32) -> Task {
        let task = self.all[number as usize].take().expect("what ends is in flight");
        if matches!(task, Task::Change(_) | Task::Repair(_)) {
            self.changes.retain(|change| *change != number);
        }
        self.free.push(number);
        task
    }

    /// All tasks with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Task)> {
        let all = self.all.iter().enumerate();
        all.filter_map(|(number, task)| Some((number as u32, task.as_ref()?)))
    }

    /// Nobody looked for answers in the last `gap`: that time does not count.
    pub(super) fn postpone(&mut self, gap: Nanos, now: Nanos) {
        self.all.iter_mut().flatten().for_each(|task| task.postpone(gap, now));
    }

    /// Whether nothing is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.all.len() == self.free.len()
    }

    /// Whether no change is in flight.
    pub(super) fn changes_nothing(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether a change in flight overlaps a range.
    pub(super) fn overlaps(&self, offset: u64, len: u64) -> bool {
        let place = |number: &u32| match &self.all[*number as usize] {
            Some(
                Task::Change(Change { offset, len, .. }) | Task::Repair(Repair { offset, len, .. }),
            ) => (*offset, u64::from(*len)),
            _ => (0, 0),
        };
        self.changes
            .iter()
            .map(place)
            .any(|(from, wide)| from < offset + len && offset < from + wide)
    }
}
