//! A lane's changes in doubt, and changes that its target may have lost.

use super::*;

impl<D: Dial, R: Wire> RemoteLane<D, R> {
    /// Logs in on a new connection, as the replacement of one with changes in doubt if there is
    /// one.
    pub(super) fn log_in(&mut self, now: Nanos, stream: R::Stream) -> Result<(), String> {
        // Releases the slot of the old connection first.
        self.line = None;
        let past = &self.past;
        let wanted = if past.has_doubts() { self.name.or_else(|| past.oldest()) } else { None };
        let line = Line::new(&self.core, &self.facts.dial, stream, wanted)?;
        let name = line.place.name();
        past.asks(now, name, true);
        (self.line, self.name) = (Some(line), Some(name));
        Ok(())
    }

    /// Handles a connection that is ready for I/Os: notes the target's statements about earlier
    /// ones.
    pub(super) fn opened(&mut self, now: Nanos) {
        self.redirects = 0;
        let Some(Line { link, place }) = &self.line else { return };
        let past = &self.past;
        match link.end.fence() {
            Fence::Ended => past.ended(now, |name| place.concerns(name)),
            Fence::After(time) => past.takes(|name| place.concerns(name), time),
        }
        let (instance, power_lost) = (link.end.instance(), link.end.power_was_lost());
        self.flushes.opened(instance, power_lost, self.facts.covers.as_ref());
    }

    /// Handles a connection that is being lost: notes changes in doubt, and changes that no flush
    /// has covered.
    pub(super) fn note_loss(&mut self, now: Nanos, power_lost: bool) {
        let Some(Line { link, place }) = &self.line else { return };
        let (past, name) = (&self.past, place.name());
        if !self.flushes.is_open() {
            // No other connection has this name: the target's answer about it is unknown.
            past.asks(now, name, false);
        }
        // A reconnecting lane notes its own changes as they are returned.
        if self.again.is_none() {
            for change in link.end.in_doubt() {
                past.doubt(now, name, change, None);
            }
        }
        // The changes that were acknowledged last.
        self.flushes.note_changes(link.end.changes());
        self.flushes.lost(power_lost);
    }

    /// Removes changes from the queue that must wait, and releases those that need not wait any
    /// more.
    #[cold]
    pub(super) fn hold_back(&mut self, now: Nanos, queue: &mut VecDeque<Io>) {
        let (past, again) = (&self.past, &mut self.again);
        let mut waits = |io: &Io| {
            let changes = matches!(io.op, Op::Write | Op::Trim | Op::WriteZeroes);
            let own = again.as_mut().and_then(|again| again.doubt_of(io.tag));
            changes && past.holds(now, (io.offset, io.len.into()), own)
        };
        for _ in 0..self.held.len() {
            let Some(io) = self.held.pop_front() else { break };
            if waits(&io) { self.held.push_back(io) } else { self.released.push_back(io) }
        }
        for _ in 0..queue.len() {
            let Some(io) = queue.pop_front() else { break };
            if waits(&io) { self.held.push_back(io) } else { queue.push_back(io) }
        }
    }
}
