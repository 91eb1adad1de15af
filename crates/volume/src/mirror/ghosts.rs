//! Abandoned lanes to legs, with I/Os in flight. The I/Os were completed as failed, and may still
//! be executed: a leg must not return before they have ended.

use block::{Count, Done, Lane, Nanos, Pool};

/// Abandoned lanes.
#[derive(Default)]
pub(crate) struct Ghosts(Vec<Ghost>);

struct Ghost {
    leg: usize,
    lane: Box<dyn Lane>,
    in_flight: u32,
}

impl Ghosts {
    /// Keeps a lane with this many I/Os in flight.
    pub(crate) fn keep(&mut self, leg: usize, lane: Box<dyn Lane>, in_flight: u32) {
        if in_flight > 0 {
            self.0.push(Ghost { leg, lane, in_flight });
        }
    }

    /// Collects ended I/Os, returns their buffers, and reports their number for each leg.
    pub(crate) fn poll(&mut self, now: Nanos, pool: &Pool, mut ended: impl FnMut(usize, u32)) {
        let mut done: Vec<Done> = Vec::new();
        for ghost in &mut self.0 {
            ghost.lane.poll(now, &mut done);
            ghost.lane.submit(now, &mut std::collections::VecDeque::new());
            let count = done.len() as u32;
            done.drain(..).filter_map(|one| one.buf).for_each(|buf| pool.give(buf));
            if count > 0 {
                ghost.in_flight.lower(count);
                ended(ghost.leg, count);
            }
        }
        self.0.retain(|ghost| ghost.in_flight > 0);
    }

    /// Time at which a lane needs a poll without an event.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        self.0.iter().filter_map(|ghost| ghost.lane.wake()).min()
    }
}
