//! What a core does, stretch by stretch, in a ring of fixed length.

use crate::Nanos;

/// What a core does in a stretch of time. Stretches nest: those of [`Step`](Doing::Step) and
/// [`Turn`](Doing::Turn) follow each other, all others lie within one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Its workers have their turn.
    Step,
    /// A worker takes what came back.
    Poll,
    /// A worker begins I/Os and hands them to its lane.
    Submit,
    /// The reactor has its turn.
    Turn,
    /// The loop that shares the thread, of a target, has its turn.
    Companion,
    /// In the kernel, which takes what was queued, without waiting.
    Enter,
    /// Completions are taken, and given to whom they belong.
    Reap,
    /// Nothing has come: it looks again and again.
    Wait,
    /// It has given way to others on its processor.
    Yield,
    /// It sleeps in the kernel.
    Sleep,
}

/// One stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Its beginning.
    pub start: Nanos,
    /// Its end, not before that.
    pub end: Nanos,
    /// What was done.
    pub doing: Doing,
    /// Which worker of the core did it; 0 where it was none.
    pub worker: u32,
}

/// The latest stretches of a core. When it is full the oldest make room, and are counted.
#[derive(Debug)]
pub struct Activity {
    ring: Vec<Stretch>,
    /// Where the next one goes.
    next: usize,
    limit: usize,
    left_out: u64,
}

impl Activity {
    /// With room for `limit` stretches of 24 bytes, at least one; the memory is taken now.
    pub fn new(limit: usize) -> Activity {
        let limit = limit.max(1);
        Activity { ring: Vec::with_capacity(limit), next: 0, limit, left_out: 0 }
    }

    /// Writes down a stretch that has ended; those within it were written before.
    #[inline]
    pub fn note(&mut self, stretch: Stretch) {
        if self.ring.len() < self.limit {
            self.ring.push(stretch);
            return;
        }
        self.ring[self.next] = stretch;
        self.next = (self.next + 1) % self.limit;
        self.left_out += 1;
    }

    /// All that are there, in the order in which they ended, and how many are not.
    pub fn take(mut self) -> (Vec<Stretch>, u64) {
        self.ring.rotate_left(self.next);
        (self.ring, self.left_out)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn stretch(start: u64) -> Stretch {
        Stretch { start: Nanos(start), end: Nanos(start + 1), doing: Doing::Turn, worker: 0 }
    }

    #[test]
    fn the_oldest_make_room_and_are_counted() {
        for count in [0, 1, 3, 4, 5, 9, 400] {
            let mut activity = Activity::new(4);
            (0..count).for_each(|start| activity.note(stretch(start)));
            let (kept, left_out) = activity.take();
            let expected: Vec<_> = (count.saturating_sub(4)..count).map(stretch).collect();
            assert_eq!((kept, left_out), (expected, count.saturating_sub(4)), "{count}");
        }
    }
}
