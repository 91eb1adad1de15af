//! The I/Os of a trace, one after the other, with their times.

use std::sync::Arc;

use block::{Geometry, Nanos, Op};

use super::Next;
use job::spec::Replay;
use job::trace::{Cursor, Trace};

/// Where a worker is in its trace.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    trace: Arc<Trace>,
    cursor: Cursor,
    /// What comes next, and when it is due from the beginning on.
    upcoming: Option<(Next, Nanos)>,
    /// Distance between the beginnings of the volumes that it drives as one.
    stride_bytes: u64,
    /// Times are those at which I/Os are planned to begin, not only pauses.
    timed: bool,
    endless: bool,
}

impl Stream {
    /// `None` if the trace was not read.
    pub(super) fn new(replay: &Replay, geometry: Geometry) -> Option<Stream> {
        let trace = Arc::clone(replay.trace()?);
        let stride_bytes = geometry.bytes() / trace.volumes() as u64;
        let (cursor, timed, endless) = (Cursor::default(), replay.is_timed(), replay.endless);
        let mut stream = Stream { trace, cursor, upcoming: None, stride_bytes, timed, endless };
        stream.advance();
        Some(stream)
    }

    /// What comes next, and when it is due from the beginning on.
    #[inline]
    pub(crate) fn upcoming(&self) -> Option<(Next, Nanos)> {
        self.upcoming
    }

    /// For how long the I/Os that are due by `now` have waited, all together; of the first `most`.
    pub(crate) fn waited_ns(&self, now: Nanos, most: u64) -> u128 {
        let (mut ahead, mut sum_ns) = (self.clone(), 0);
        for _ in 0..most {
            match ahead.upcoming.filter(|(_, at)| *at <= now) {
                Some((_, at)) => sum_ns += u128::from(now.since(at).0),
                None => break,
            }
            ahead.advance();
        }
        sum_ns
    }

    /// Whether latencies count from the times of the trace.
    pub(crate) fn is_timed(&self) -> bool {
        self.timed
    }

    /// Goes to the next one.
    #[inline]
    pub(crate) fn advance(&mut self) {
        let mut event = self.trace.next(&mut self.cursor);
        if event.is_none() && self.endless {
            self.cursor = Cursor::default();
            event = self.trace.next(&mut self.cursor);
        }
        self.upcoming = event.map(|event| {
            let base = if event.op == Op::Flush { 0 } else { self.stride_bytes };
            let offset = base * u64::from(event.file) + event.offset;
            let (op, len, fua, pause, reply) = (event.op, event.len, false, Nanos(0), 0);
            let at = if self.endless { Nanos(0) } else { event.at };
            (Next { op, fua, offset, len, pause, reply }, at)
        });
    }

    pub(super) fn next(&mut self) -> Option<Next> {
        let (next, _) = self.upcoming?;
        self.advance();
        Some(next)
    }
}
