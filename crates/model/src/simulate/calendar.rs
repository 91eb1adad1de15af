//! Event queue, in order of time.

use crate::Picos;

/// An event: its time, and the token that continues then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub at: Picos,
    /// Event number in the upper bits, which keeps simultaneous events in the order in which they
    /// were scheduled; token in the lower bits.
    ticket: u64,
}

/// Number of bits of a ticket for the token; the other bits count 10¹² events.
const TOKEN_BITS: u32 = 24;
/// Maximum number of tokens.
pub(super) const TOKENS_MAX: u32 = 1 << TOKEN_BITS;

impl Event {
    pub fn token(self) -> u32 {
        self.ticket as u32 & (TOKENS_MAX - 1)
    }

    /// Returns the ticket, which identifies the event among those of its token.
    pub fn ticket(self) -> u64 {
        self.ticket
    }
}

/// Event heap with four children per node: half the depth of a binary heap, and siblings share a
/// cache line.
///
/// Removing an event leaves a hole at the top, which the next scheduled event fills: most events
/// schedule exactly one other, so one pass through the heap suffices.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    heap: Vec<Event>,
    hole: bool,
    planned: u64,
}

impl Calendar {
    /// Schedules `token` to continue at `at`; returns the event's ticket.
    #[inline]
    pub fn plan(&mut self, at: Picos, token: u32) -> u64 {
        self.planned += 1;
        let event = Event { at, ticket: self.planned << TOKEN_BITS | u64::from(token) };
        if self.hole {
            self.hole = false;
            self.sink(event);
        } else {
            self.heap.push(event);
            self.rise(self.heap.len() - 1);
        }
        event.ticket
    }

    /// Removes and returns the next event.
    #[inline]
    pub fn next(&mut self) -> Option<Event> {
        let first = self.peek();
        self.hole = first.is_some();
        first
    }

    /// Returns the next event.
    #[inline]
    pub fn peek(&mut self) -> Option<Event> {
        if self.hole {
            self.hole = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
        self.heap.first().copied()
    }

    /// Puts `event` at the top of the heap, and sifts it down.
    #[inline]
    fn sink(&mut self, event: Event) {
        let heap = self.heap.as_mut_slice();
        let mut at = 0;
        loop {
            let child = 4 * at + 1;
            let Some(children) = heap.get(child..) else { break };
            let mut least = child;
            let Some(mut first) = children.first().copied() else { break };
            for (offset, other) in children.iter().enumerate().take(4).skip(1) {
                if *other < first {
                    (least, first) = (child + offset, *other);
                }
            }
            if event < first {
                break;
            }
            heap[at] = first;
            at = least;
        }
        heap[at] = event;
    }

    #[inline]
    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 4;
            if self.heap[parent] < self.heap[at] {
                break;
            }
            self.heap.swap(parent, at);
            at = parent;
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use block::Rng;

    #[test]
    fn events_come_in_order_of_time_then_of_planning() {
        let mut calendar = Calendar::default();
        let mut rng = Rng::new(1, 0);
        let mut planned = 0;
        let mut last = Picos(0);
        let mut taken = 0;
        for round in 0..20_000_u64 {
            // Zero to two new events per event, as for visits, waits and forks.
            for _ in 0..rng.below(3).max(u64::from(round < 10)) {
                calendar.plan(Picos(last.0 + rng.below(50)), planned & 0xffff);
                planned += 1;
            }
            if let Some(event) = calendar.next() {
                assert!(event.at >= last);
                last = event.at;
                taken += 1;
            }
        }
        while let Some(event) = calendar.next() {
            assert!(event.at >= last);
            last = event.at;
            taken += 1;
        }
        assert_eq!(taken, planned);
        let tokens: Vec<u32> = [5, 3, 9].to_vec();
        for token in &tokens {
            calendar.plan(last, *token);
        }
        let order: Vec<u32> = std::iter::from_fn(|| calendar.next()).map(Event::token).collect();
        assert_eq!(order, tokens);
    }
}
