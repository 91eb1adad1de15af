//! A run shared with other hosts: begins at a planned instant, and reports when it ran.

use std::time::Duration;

use block::Nanos;
use os::wall;
use stats::live::Live;
use stats::{PART_LAYOUT, Part, WallClock};

use super::crew::Crew;
use super::progress::{Opening, POLL, Run};

/// Lead time with which the workers get the instant: early enough for each to be awake by then,
/// late enough for both clocks to agree.
const TOLD: Duration = Duration::from_millis(10);

impl Run<'_> {
    /// Waits for the planned instant, less the ramp, unless the user asks for an end: the instant
    /// that the gate `named` by the clock of the cores, or that of the wall clock. Returns the
    /// instant by the clock of the cores; `None` if none is planned, or it was missed.
    pub(super) fn await_start(
        &mut self,
        named: Option<Nanos>,
        crew: &Crew,
        live: &mut dyn Live,
    ) -> Option<Nanos> {
        let ramp_ns = (self.spec.ramp_seconds * 1e9) as u64;
        if let Some(window) = named {
            return self.await_own(Nanos(window.0.saturating_sub(ramp_ns)), crew, live);
        }
        let window_ns = self.shared?.start_ns?;
        let start_ns = window_ns.saturating_sub(ramp_ns);
        if start_ns <= wall::now_ns() {
            return None;
        }
        let told_ns = start_ns.saturating_sub(TOLD.as_nanos() as u64);
        while !wall::approach(told_ns, POLL) {
            self.poll(live);
            if self.stop.asked() > 0 {
                return None;
            }
        }
        let (now_ns, now) = wall::beside(self.clock);
        let start = now + Nanos(start_ns.saturating_sub(now_ns));
        crew.start_at(start);
        while !wall::approach(start_ns, TOLD) {}
        Some(start)
    }

    /// Waits for an instant of the clock of the cores.
    fn await_own(&mut self, start: Nanos, crew: &Crew, live: &mut dyn Live) -> Option<Nanos> {
        if self.clock.now() >= start {
            return None;
        }
        // Nobody sets this clock: the workers may have the instant at once.
        crew.start_at(start);
        while !self.clock.approach(start, POLL) {
            self.poll(live);
            if self.stop.asked() > 0 {
                return None;
            }
        }
        Some(start)
    }

    /// Returns the data for a merge with the results of other hosts.
    pub(super) fn part(&self, opening: &Opening) -> Option<Part> {
        let shared = self.shared?;
        let whole = self.collected.whole();
        let (started_ns, ended_ns) = match whole.start <= whole.end {
            true => {
                (on_wall(opening.wall, whole.start), on_wall(wall::beside(self.clock), whole.end))
            }
            // No worker began.
            false => (opening.wall.0, opening.wall.0),
        };
        let known = wall::discipline();
        Some(Part {
            layout: PART_LAYOUT,
            machine: wall::machine().unwrap_or_default(),
            clock: WallClock {
                source: os::counters::clock_source().unwrap_or_default(),
                synchronised: known.map(|known| known.synchronised),
                error_ns: known
                    .filter(|known| known.synchronised)
                    .map(|known| u64::try_from(known.error.as_nanos()).unwrap_or(u64::MAX)),
                ..WallClock::default()
            },
            planned_ns: shared.start_ns,
            started_ns,
            ended_ns: ended_ns.max(started_ns),
            exact: self.collected.exact(),
            window: (whole.start <= whole.end).then_some((whole.start.0, whole.end.0)),
            ..Part::default()
        })
    }
}

/// An instant on the wall clock, by one that both clocks have in common.
fn on_wall((wall_ns, at): (u64, Nanos), instant: Nanos) -> u64 {
    match instant >= at {
        true => wall_ns.saturating_add(instant.since(at).0),
        false => wall_ns.saturating_sub(at.since(instant).0),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn instants_before_and_after_the_common_one() {
        let common = (1_000_000, Nanos(500));
        assert_eq!(on_wall(common, Nanos(700)), 1_000_200);
        assert_eq!(on_wall(common, Nanos(400)), 999_900);
    }
}
