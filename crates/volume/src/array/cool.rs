//! The keeper's job that marks idle regions clean.
//!
//! A dirty region starts cooling at one look. If it is still cooling at the next one and none of
//! its granules is claimed, all writes into it have completed. A flush of all legs makes them
//! durable, and unless a write occurred meanwhile, the region is clean.

use block::{Nanos, Op, Plant, planted};

use super::map::{Event, PAGE_REGIONS, Region};
use super::port::{Deed, Job, Port, legs};
use crate::mirror::Rules;

/// Time between looks.
const LOOK: Nanos = Nanos::from_secs(5);
/// Interval during a resync: the maximum copying that an interruption repeats.
const LOOK_COPYING: Nanos = Nanos::from_secs(1);

pub(super) struct Cool {
    job: Job,
    /// Time of the last look.
    looked: Option<Nanos>,
    /// Regions that become clean when the flush in flight completes.
    flushing: Option<Vec<usize>>,
    /// Legs that got writes when the flush began.
    legs: u32,
}

impl Cool {
    pub(super) fn new(job: Job) -> Cool {
        Cool { job, looked: None, flushing: None, legs: 0 }
    }

    pub(super) fn wake(&self, copying: bool) -> Option<Nanos> {
        self.flushing.is_none().then(|| self.next(copying))
    }

    fn next(&self, copying: bool) -> Nanos {
        let every = if copying { LOOK_COPYING } else { LOOK };
        self.looked.map_or(Nanos(0), |looked| looked + every)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.flushing.is_none()
    }

    /// Marks idle regions clean. `calm`: no leg that might miss them is out, and none is joining.
    /// `at_once`: no more writes will come.
    pub(super) fn step(&mut self, port: &mut Port, calm: bool, at_once: bool) {
        if let Some(regions) = self.flushing.take() {
            let Some((good, bad)) = port.verdict(self.job) else {
                return self.flushing = Some(regions);
            };
            for leg in legs(bad) {
                port.shared.leave(leg, &|| "flush failed".to_owned());
            }
            let same = good == self.legs && port.shared.writers_now() == self.legs;
            // Legs that are out may fail once more, such as one whose connection dies late.
            if calm && same && port.shared.leaving() & self.legs == 0 {
                for region in regions {
                    port.shared.map.tell(region, Event::Flushed);
                }
            }
            return;
        }
        if port.now < self.next(port.shared.map.behind() > 0) && !at_once {
            return;
        }
        self.looked = Some(port.now);
        if !calm {
            return;
        }
        let ripe = look(port, at_once);
        if ripe.is_empty() {
            return;
        }
        self.legs = port.shared.writers_now();
        for leg in legs(self.legs) {
            if planted(Plant::CleanUnflushed) {
                self.legs = 0;
                break;
            }
            let (op, offset, len, fua, buf) = (Op::Flush, 0, 0, false, None);
            port.send(self.job, leg, Deed { op, offset, len, fua, buf });
        }
        if self.legs == 0 {
            for region in ripe {
                port.shared.map.tell(region, Event::Flushed);
            }
            return;
        }
        self.flushing = Some(ripe);
    }
}

/// Regions not written since the last look. Dirty ones start cooling.
fn look(port: &Port, at_once: bool) -> Vec<usize> {
    let map = &port.shared.map;
    let mut ripe = Vec::new();
    for region in 0..map.len() {
        let was = map.tell(region, Event::Look);
        if was == Region::Dirty {
            // The region's page gets a new version: an older image of a leg is recognised by the
            // older version.
            map.ask(region / PAGE_REGIONS);
        }
        let cooled = was == Region::Cooling || (at_once && was == Region::Dirty);
        // A writer claims first and then reads the region's state: a writer that claims a free
        // granule now will see that the region is cooling.
        if cooled {
            let bytes = map.region_bytes();
            match port.shared.claims.is_free(region as u64 * bytes, bytes) {
                true => ripe.push(region),
                false => {
                    map.tell(region, Event::Write);
                }
            }
        }
    }
    ripe
}
