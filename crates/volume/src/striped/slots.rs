//! I/Os in flight on a striped lane. A slot's index is the tag of its I/O on the part.

use block::{Cause, Count, Fault, Tag};

/// The I/O in a slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// An I/O that changes nothing.
    Read(Tag),
    /// An I/O that changes a part; `durable` if it needs no flush.
    Change { tag: Tag, durable: bool },
    /// A flush of the whole volume, sent to some parts.
    Flush(Flush),
    /// A flush of one part: the slot of the whole flush, and the flush's number on that part.
    Share { whole: u32, number: u64 },
    /// A piece of a split I/O on one part: the number of the whole I/O, whether the piece changes
    /// the part, and whether it needs no flush.
    Piece { whole: u32, changes: bool, durable: bool },
}

/// A flush of the whole volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pub(super) tag: Tag,
    /// Number of parts that have not completed the flush.
    pub(super) left: u32,
    pub(super) told: Told,
}

/// The combined result of an I/O on several parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) result: Result<(), Fault>,
    pub(super) cause: Cause,
}

impl Told {
    /// Nothing has failed.
    pub(super) const GOOD: Told = Told { result: Ok(()), cause: Cause::NONE };

    /// Adds the result of a part. The first of several faults is reported; but a retryable fault
    /// yields to a permanent one, or a retry would hide that.
    pub(super) fn take(&mut self, result: Result<(), Fault>, cause: Cause) {
        let tells = match (self.result, result) {
            (_, Ok(())) => false,
            (Ok(()), Err(_)) => true,
            (Err(known), Err(fault)) => known.is_lost() && !fault.is_lost(),
        };
        if tells {
            (self.result, self.cause) = (result, cause);
        }
    }
}

impl Flush {
    /// Adds the completion of a part.
    pub(super) fn answered(&mut self, result: Result<(), Fault>, cause: Cause) {
        self.left.lower(1);
        self.told.take(result, cause);
    }
}

/// All slots; grows to the highest number in flight.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    pub(super) fn new() -> Slots {
        Slots { slots: Vec::with_capacity(1024), free: Vec::with_capacity(1024) }
    }

    /// Takes a slot; its index is the tag for the part.
    pub(super) fn enter(&mut self, slot: Slot) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = slot;
            return index;
        }
        self.slots.push(slot);
        (self.slots.len() - 1) as u32
    }

    /// Frees the slot of a completed I/O.
    pub(super) fn leave(&mut self, tag: Tag) -> Slot {
        self.free.push(tag.0 as u32);
        self.slots[tag.0 as usize]
    }

    /// The flush in a slot.
    pub(super) fn flush(&mut self, index: u32) -> &mut Flush {
        match &mut self.slots[index as usize] {
            Slot::Flush(flush) => flush,
            other => unreachable!("a share of a flush belongs to {other:?}"),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_fault_that_stays_is_told() {
        let (lost, bad) = (Err(Fault::Disconnected), Err(Fault::Medium));
        let (gone, other) = (Err(Fault::Unanswered), Err(Fault::Unsupported));
        let told = |answers: &[Result<(), Fault>]| {
            let left = answers.len() as u32;
            let mut flush = Flush { tag: Tag(0), left, told: Told::GOOD };
            for (number, answer) in (1..).zip(answers) {
                flush.answered(*answer, Cause(number));
            }
            (flush.left, flush.told.result, flush.told.cause.0)
        };
        assert_eq!(told(&[Ok(()), Ok(())]), (0, Ok(()), 0));
        assert_eq!(told(&[Ok(()), bad, Ok(()), other]), (0, bad, 2));
        assert_eq!(told(&[lost, gone]), (0, lost, 1));
        assert_eq!(told(&[lost, Ok(()), bad, gone, other]), (0, bad, 3));
    }

    #[test]
    #[should_panic(expected = "answered twice")]
    fn nobody_answers_twice() {
        let mut flush = Flush { tag: Tag(0), left: 0, told: Told::GOOD };
        flush.answered(Ok(()), Cause::NONE);
    }
}
