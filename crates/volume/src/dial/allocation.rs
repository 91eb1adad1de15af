//! Queries a target for the holes of a volume, on a separate connection.

use std::collections::VecDeque;

use block::{Allocation, Nanos};
use proto::{Ending, Endpoint, Initiator, Outbox, Phase};

use super::keeper::Errand;

/// Time limit from the first query; a target with many extents, or a slow one, reports on a part.
const PATIENCE: Nanos = Nanos::from_millis(1_500);

/// Time limit of the login of such a connection: its report is optional, so the wait is short.
pub(super) const LOGIN: Nanos = Nanos::from_secs(3);

/// A connection that asks about ranges, one question after the other.
pub(super) struct Asking<E> {
    end: E,
    /// Ranges that are not yet requested: offset and length.
    ranges: VecDeque<(u64, u64)>,
    sum: Allocation,
    waits: bool,
    /// Until when it asks; `None` before the first question.
    until: Option<Nanos>,
    found: Option<Option<Allocation>>,
}

impl<E: Initiator> Asking<E> {
    /// Asks about these ranges once `end` is open. They have whole blocks.
    pub(super) fn new(end: E, ranges: &[(u64, u64)]) -> Asking<E> {
        let ranges = ranges.iter().copied().filter(|(_, len)| *len > 0).collect();
        let (sum, waits, until, found) = (Allocation::default(), false, None, None);
        Asking { end, ranges, sum, waits, until, found }
    }

    /// Takes an answer, and asks the next question.
    fn go_on(&mut self, now: Nanos, out: &mut Outbox) {
        if self.found.is_some() || !matches!(self.end.phase(), Phase::Ready(_)) {
            return;
        }
        if self.waits {
            match self.end.take_allocation() {
                None => return,
                Some(None) => return self.conclude(),
                Some(Some(told)) => self.take(told),
            }
        }
        let until = *self.until.get_or_insert(now + PATIENCE);
        match self.ranges.front() {
            Some((offset, len)) if now < until => {
                self.waits = self.end.ask_allocation(*offset, *len, out);
                if !self.waits {
                    self.conclude();
                }
            }
            _ => self.conclude(),
        }
    }

    fn take(&mut self, told: Allocation) {
        self.waits = false;
        if let Some((offset, len)) = self.ranges.pop_front() {
            let done = told.bytes.clamp(1, len);
            if done < len {
                self.ranges.push_front((offset + done, len - done));
            }
            self.sum.add(told);
        }
    }

    /// The answers are all that there will be; none at all is that the target cannot tell.
    fn conclude(&mut self) {
        self.found.get_or_insert(Some(self.sum).filter(|sum| sum.bytes > 0));
    }
}

impl<E: Initiator> Endpoint for Asking<E> {
    fn receive(&mut self, now: Nanos, bytes: &[u8], out: &mut Outbox) -> Result<(), Ending> {
        self.end.receive(now, bytes, out)?;
        self.go_on(now, out);
        Ok(())
    }

    fn deadline(&self) -> Option<Nanos> {
        let until = self.until.filter(|_| self.found.is_none());
        self.end.deadline().into_iter().chain(until).min()
    }

    fn tick(&mut self, now: Nanos, out: &mut Outbox) -> Result<(), Ending> {
        if self.until.is_some_and(|until| now >= until) {
            self.conclude();
        }
        if self.end.deadline().is_some_and(|deadline| deadline <= now) {
            self.end.tick(now, out)?;
        }
        self.go_on(now, out);
        Ok(())
    }
}

impl<E: Initiator + Send + 'static> Errand for Asking<E> {
    type Found = Option<Allocation>;

    fn found(&self) -> Option<Option<Allocation>> {
        self.found
    }

    fn leave(&mut self, now: Nanos, out: &mut Outbox) {
        self.end.close(now, out);
    }

    fn has_left(&self) -> bool {
        self.end.phase() == Phase::Closed
    }
}

#[cfg(test)]
mod test {
    use block::{Done, Geometry, Io, Pool};

    use super::*;

    /// A connection whose answers are known beforehand; `None` is a refusal.
    struct Scripted {
        answers: VecDeque<Option<Allocation>>,
        asked: Vec<(u64, u64)>,
        done: Vec<Done>,
    }

    impl Endpoint for Scripted {
        fn receive(&mut self, _: Nanos, _: &[u8], _: &mut Outbox) -> Result<(), Ending> {
            Ok(())
        }

        fn deadline(&self) -> Option<Nanos> {
            None
        }

        fn tick(&mut self, _: Nanos, _: &mut Outbox) -> Result<(), Ending> {
            Ok(())
        }
    }

    impl Initiator for Scripted {
        fn phase(&self) -> Phase {
            Phase::Ready(Geometry::new(1 << 20, 512))
        }

        fn room(&self) -> usize {
            0
        }

        fn submit(&mut self, _: Nanos, _: Io, _: &mut Outbox) {}

        fn done(&mut self) -> &mut Vec<Done> {
            &mut self.done
        }

        fn ask_allocation(&mut self, offset: u64, len: u64, _: &mut Outbox) -> bool {
            self.asked.push((offset, len));
            true
        }

        fn take_allocation(&mut self) -> Option<Option<Allocation>> {
            self.answers.pop_front()
        }

        fn close(&mut self, _: Nanos, _: &mut Outbox) {}

        fn abandon(&mut self) {}
    }

    fn told(bytes: u64, holes: u64) -> Option<Allocation> {
        Some(Allocation { bytes, holes, zeroes: 0 })
    }

    /// The questions and the result of ranges, at times in milliseconds.
    fn run(
        ranges: &[(u64, u64)],
        answers: &[Option<Allocation>],
        times_ms: &[u64],
    ) -> (Vec<(u64, u64)>, Option<Option<Allocation>>) {
        let answers = answers.iter().copied().collect();
        let end = Scripted { answers, asked: Vec::new(), done: Vec::new() };
        let mut asking = Asking::new(end, ranges);
        let mut out = Outbox::new(Pool::new(4, 4));
        for ms in times_ms {
            let now = Nanos::from_millis(*ms);
            asking.tick(now, &mut out).unwrap();
            asking.receive(now, &[], &mut out).unwrap();
        }
        (asking.end.asked, asking.found)
    }

    #[test]
    fn the_next_question_begins_where_an_answer_ends() {
        let ranges = [(0, 4096), (8192, 0), (8192, 1024)];
        let answers = [told(512, 512), told(3584, 0), told(1024, 1024)];
        let (asked, found) = run(&ranges, &answers, &[0, 1, 2]);
        assert_eq!(asked, [(0, 4096), (512, 3584), (8192, 1024)]);
        assert_eq!(found, Some(told(5120, 1536)));
        assert_eq!(run(&[], &[], &[0]).1, Some(None), "nothing was asked");
    }

    #[test]
    fn a_refusal_or_the_end_of_patience_leaves_a_part() {
        let ranges = [(0, 4096)];
        assert_eq!(run(&ranges, &[None], &[0, 1]).1, Some(None));
        assert_eq!(run(&ranges, &[told(512, 512), None], &[0, 1]).1, Some(told(512, 512)));
        assert_eq!(run(&ranges, &[], &[0, 1]).1, None, "it waits");
        assert_eq!(run(&ranges, &[], &[0, 1499]).1, None);
        assert_eq!(run(&ranges, &[], &[0, 1500]).1, Some(None));
        let slow = [told(512, 512)];
        assert_eq!(run(&ranges, &slow, &[0, 1, 1501]).1, Some(told(512, 512)));
    }
}
