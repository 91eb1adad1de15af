//! What a worker does next where it replays a trace.

use block::Nanos;

use super::{Upcoming, Worker};
use crate::pattern::Pattern;

impl Worker {
    /// The next I/O of its trace, as soon as it is due. Where I/Os have times they are planned
    /// starts, as in an open loop; otherwise times are only the ends of pauses.
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

    /// Whether a trace says when its I/Os begin.
    pub(super) fn follows_times(&self) -> bool {
        matches!(&self.pattern, Pattern::Replay(stream) if stream.is_timed())
    }
}
