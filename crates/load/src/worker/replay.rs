//! Next action of a worker that replays a trace.

use block::Nanos;

use super::{Upcoming, Worker};
use crate::pattern::Pattern;

impl Worker {
    /// The next I/O of its trace, once due. Timed I/Os have planned starts, as in an open loop;
    /// otherwise times only end pauses.
    pub(super) fn replay_next(&mut self, now: Nanos) -> Upcoming {
        let Pattern::Replay(stream) = &mut self.pattern else { return Upcoming::Nothing };
        let Some((next, at)) = stream.upcoming() else {
            self.plan.exhausted = true;
            return Upcoming::Nothing;
        };
        let due = self.plan.began + at;
        if due > now {
            return Upcoming::At(due);
        }
        stream.advance();
        Upcoming::Now(next, if stream.is_timed() { due } else { now })
    }

    /// Whether the trace says when its I/Os start.
    pub(super) fn follows_times(&self) -> bool {
        matches!(&self.pattern, Pattern::Replay(stream) if stream.is_timed())
    }
}
