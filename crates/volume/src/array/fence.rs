//! The keeper's wait at the opening of an array that was not closed cleanly: writes of the process
//! that had it open may still be executed on a remote leg.
//!
//! Until the wait is over, no data are written that such writes could overwrite; regions that may
//! differ are resynced afterwards.

use block::{Nanos, Plant, planted};

use super::map::{Event, Region};
use super::shared::Shared;

pub(super) struct Fence {
    wait: Nanos,
    until: Option<Nanos>,
    /// Regions that may differ according to the maps at the opening.
    regions: Vec<usize>,
    over: bool,
}

impl Fence {
    /// Starts a wait of `wait`, the time for which a leg may still execute earlier I/Os. No wait is
    /// needed without regions that may differ: nothing was in flight.
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
                "unclean shutdown: writes wait {seconds:.0} s, as remote legs may still execute \
                earlier writes"
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
        shared.say("writes resume".to_owned());
    }
}
