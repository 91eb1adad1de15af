//! The keeper's wait at the opening of an array that was not closed in order: writes of the process
//! that had it open may still be executed on a remote leg.
//!
//! Until that is over nothing is written that could be overwritten by them, and regions that may
//! differ are made equal again afterwards.

use block::{Nanos, Plant, planted};

use super::map::{Event, Region};
use super::shared::Shared;

pub(super) struct Fence {
    wait: Nanos,
    until: Option<Nanos>,
    /// Regions that may differ, as the maps said at the opening.
    regions: Vec<usize>,
    over: bool,
}

impl Fence {
    /// `wait` is how long a leg may still execute what it was sent. Without regions that may differ
    /// nothing is waited for: nothing was in flight.
    pub(super) fn new(shared: &Shared, wait: Nanos) -> Fence {
        let map = &shared.map;
        let may_differ = |region: &usize| map.get(*region) == Region::Unsettled;
        let regions: Vec<usize> = (0..map.len()).filter(may_differ).collect();
        let over = wait == Nanos(0) || regions.is_empty() || planted(Plant::JoinWithoutFence);
        Fence { wait, until: None, regions, over }
    }

    /// Whether writes may begin.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn wake(&self) -> Option<Nanos> {
        self.until.filter(|_| !self.over)
    }

    pub(super) fn step(&mut self, now: Nanos, shared: &Shared) {
        if self.over {
            return;
        }
        let seconds = self.wait.as_secs_f64();
        let until = *self.until.get_or_insert_with(|| {
            shared.say(format!(
                "it was not closed in order: writes wait {seconds:.0} s, as earlier ones may still \
                 be executed on remote legs"
            ));
            now + self.wait
        });
        if now < until {
            return;
        }
        self.over = true;
        for region in &self.regions {
            shared.map.tell(*region, Event::Differs);
        }
        shared.map.differed();
        shared.say("writes go on".to_owned());
    }
}
