//! The I/Os of a trace, in order, with their times.

use std::sync::Arc;

use block::{Geometry, Nanos, Op};

use super::Next;
use job::spec::Replay;
use job::trace::{Cursor, Trace};

/// A worker's position in its trace.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    trace: Arc<Trace>,
    cursor: Cursor,
    /// The next I/O, and its due time from the start.
    upcoming: Option<(Next, Nanos)>,
    /// Distance between the starts of striped volumes.
    stride_bytes: u64,
    /// Times are planned starts, not only pauses.
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

    /// The next I/O, and its due time from the start.
    #[inline]
    pub(crate) fn upcoming(&self) -> Option<(Next, Nanos)> {
        self.upcoming
    }

    /// Total waiting time of the I/Os due by `now`, of the first `most`.
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

    /// Advances to the next I/O.
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
