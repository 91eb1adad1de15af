//! What a lane of a mirror has in flight.

use block::{Buf, Cause, Fault, Op, Tag};

/// One I/O of the mirror: an I/O on each leg, or several in turn.
pub(super) enum Task {
    Read(Read),
    Change(Change),
    Flush(Flush),
    Repair(Repair),
}

/// A read; the legs in `tried` failed, the last of them with `fault`.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub(super) tag: Tag,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) tried: u32,
    pub(super) fault: Option<(Fault, Cause)>,
}

/// A write, trim or zeroing.
pub(super) struct Change {
    pub(super) tag: Tag,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) votes: Votes,
    pub(super) buf: Option<Buf>,
}

/// A flush of all legs.
pub(super) struct Flush {
    pub(super) tag: Tag,
    pub(super) votes: Votes,
}

/// The completions of one I/O on all legs: how many are outstanding, a bit for each leg that
/// succeeded or failed, and the first fault.
#[derive(Clone, Copy)]
pub(super) struct Votes {
    pub(super) left: u32,
    pub(super) good: u32,
    pub(super) bad: u32,
    pub(super) fault: Option<(Fault, Cause)>,
    /// [`Rules::events`](super::rules::Rules::events) when the I/O was begun.
    pub(super) since: u64,
}

/// A block that a leg could not read, being copied back from another one.
#[derive(Clone, Copy)]
pub(super) struct Repair {
    pub(super) leg: usize,
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// All tasks, by number.
#[derive(Default)]
pub(super) struct Tasks {
    all: Vec<Option<Task>>,
    free: Vec<u32>,
    /// Tasks that change data.
    changes: Vec<u32>,
}

/// Bits of a tag that hold the leg.
const LEG_BITS: u32 = 8;

impl Votes {
    /// For these legs.
    pub(super) fn of(legs: u32, since: u64) -> Votes {
        Votes { left: legs.count_ones(), good: 0, bad: 0, fault: None, since }
    }

    /// Notes a completion of a leg.
    pub(super) fn note(&mut self, leg: usize, result: Result<(), Fault>, cause: Cause) {
        self.left -= 1;
        match result {
            Ok(()) => self.good |= 1 << leg,
            Err(fault) => {
                self.bad |= 1 << leg;
                self.fault.get_or_insert((fault, cause));
            }
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
