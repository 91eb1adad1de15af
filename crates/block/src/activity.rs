//! Records a core's activity over time, in a ring of fixed length.

use crate::Nanos;

/// Activity of a core during a span of time. Spans nest: [`Step`](Doing::Step) and
/// [`Turn`](Doing::Turn) alternate, all others lie within one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// Stepping its workers.
    Step,
    /// A worker collects completions.
    Poll,
    /// A worker submits I/Os to its lane.
    Submit,
    /// A turn of the reactor.
    Turn,
    /// A turn of the target that shares the thread.
    Companion,
    /// In the kernel, submitting without waiting.
    Enter,
    /// Handling completions.
    Reap,
    /// Polling without finding anything.
    Wait,
    /// Yielding to other threads on its CPU.
    Yield,
    /// Sleeping in the kernel.
    Sleep,
}

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Start.
    pub start: Nanos,
    /// End, not before the start.
    pub end: Nanos,
    /// The activity.
    pub doing: Doing,
    /// The worker; 0 if it was none.
    pub worker: u32,
}

/// The latest spans of a core. The oldest are overwritten and counted.
#[derive(Debug)]
pub struct Activity {
    ring: Vec<Stretch>,
    /// Index of the next span.
    next: usize,
    limit: usize,
    left_out: u64,
}

impl Activity {
    /// With room for `limit` spans of 24 bytes, at least one; allocated now.
    pub fn new(limit: usize) -> Activity {
        let limit = limit.max(1);
        Activity { ring: Vec::with_capacity(limit), next: 0, limit, left_out: 0 }
    }

    /// Records a span that has ended; the spans within it were recorded before.
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

    /// All recorded spans in order of their ends, and the number of lost ones.
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
