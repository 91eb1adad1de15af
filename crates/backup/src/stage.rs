//! Time splits of the threads of each stage, and the bottleneck.

use std::fmt;

use block::Nanos;
use os::{Clock, sample};

/// A stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reads the sources.
    Reading,
    /// Compresses.
    Compressing,
    /// Writes the target.
    Writing,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Reading => "reading",
            Stage::Compressing => "compressing",
            Stage::Writing => "writing",
        })
    }
}

/// Time split of all threads of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Threads.
    pub threads: u32,
    /// Doing I/O or compression, on a CPU or not.
    pub working: Nanos,
    /// Waiting for input of the stage before.
    pub starved: Nanos,
    /// Time waiting for room in the next stage.
    pub blocked: Nanos,
    /// Time on a CPU.
    pub cpu: Nanos,
    /// Time runnable, waiting for a CPU, whatever for.
    pub queued: Nanos,
}

impl Times {
    /// The sum with another thread of the stage.
    pub fn and(self, other: Times) -> Times {
        let sum = |one: Nanos, two: Nanos| Nanos(one.0 + two.0);
        Times {
            threads: self.threads + other.threads,
            working: sum(self.working, other.working),
            starved: sum(self.starved, other.starved),
            blocked: sum(self.blocked, other.blocked),
            cpu: sum(self.cpu, other.cpu),
            queued: sum(self.queued, other.queued),
        }
    }

    /// Share of the time its threads worked, in percent.
    pub fn working_percent(&self) -> f64 {
        self.percent(self.working)
    }

    /// Share of the time they waited for input, in percent.
    pub fn starved_percent(&self) -> f64 {
        self.percent(self.starved)
    }

    /// Share of the time they waited for room, in percent.
    pub fn blocked_percent(&self) -> f64 {
        self.percent(self.blocked)
    }

    /// Share of the time they were on a CPU or runnable, in percent.
    pub fn processor_percent(&self) -> f64 {
        // The two clocks differ by a little.
        self.percent(Nanos(self.cpu.0 + self.queued.0)).min(100.0)
    }

    fn percent(&self, part: Nanos) -> f64 {
        let all = self.working.0 + self.starved.0 + self.blocked.0;
        100.0 * part.0 as f64 / (all as f64).max(1.0)
    }
}

/// Measures a thread's times: working, starved or blocked.
pub struct Watch {
    clock: Clock,
    last: Nanos,
    times: Times,
    /// Runnable time of the thread at the start.
    queued_before: Nanos,
}

impl Watch {
    /// Starts now.
    pub fn start() -> Watch {
        let clock = Clock::get();
        let queued_before = sample::waited_for_processor().unwrap_or_default();
        let times = Times { threads: 1, ..Times::default() };
        Watch { clock, last: clock.now(), times, queued_before }
    }

    fn lap(&mut self) -> Nanos {
        let now = self.clock.now();
        let lap = now.since(self.last);
        self.last = now;
        lap
    }

    /// Counts the time since the last call as work.
    pub fn worked(&mut self) {
        self.times.working.0 += self.lap().0;
    }

    /// Splits the time since the last call: `busy` of `places` in flight were working, the rest
    /// starved.
    pub fn shared(&mut self, busy: usize, places: usize) {
        let lap = self.lap().0;
        let worked = lap * busy as u64 / places.max(1) as u64;
        self.times.working.0 += worked;
        self.times.starved.0 += lap - worked;
    }

    /// Counts the time since the last call as waiting for input.
    pub fn starved(&mut self) {
        self.times.starved.0 += self.lap().0;
    }

    /// Counts the time since the last call as waiting for room.
    pub fn blocked(&mut self) {
        self.times.blocked.0 += self.lap().0;
    }

    /// The thread's times at its end.
    pub fn end(self) -> Times {
        // Zero if the system does not show them.
        let cpu = sample::thread_cpu(sample::thread_id()).unwrap_or_default();
        let queued = sample::waited_for_processor().unwrap_or_default().since(self.queued_before);
        Times { cpu, queued, ..self.times }
    }
}

/// The bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// This stage: its threads waited least for the others.
    Stage(Stage),
    /// CPUs: no stage worked all the time, because one lacked CPU time.
    Processors,
    /// The hand-over: no stage worked all the time, as they waited for each other.
    HandOver,
}

/// Minimum share of working, or of being on a CPU or runnable, that makes a stage the bottleneck,
/// in percent.
const BUSY_PERCENT: f64 = 80.0;

/// Finds the bottleneck by waiting times: the stage the others wait for hardly waits.
pub fn limit(stages: &[(Stage, Times)]) -> Limit {
    let share = |times: &Times| times.working_percent();
    let busiest = stages.iter().max_by(|(_, a), (_, b)| share(a).total_cmp(&share(b)));
    match busiest {
        Some((stage, times)) if share(times) >= BUSY_PERCENT => Limit::Stage(*stage),
        Some((_, times)) if times.processor_percent() >= BUSY_PERCENT => Limit::Processors,
        _ => Limit::HandOver,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn times(working: u64, starved: u64, blocked: u64) -> Times {
        let [working, starved, blocked] = [working, starved, blocked].map(Nanos);
        Times { threads: 1, working, starved, blocked, ..Times::default() }
    }

    #[test]
    fn the_stage_that_waits_least_limits() {
        let of = |reading, compressing, writing| {
            limit(&[
                (Stage::Reading, reading),
                (Stage::Compressing, compressing),
                (Stage::Writing, writing),
            ])
        };
        let disk = of(times(10, 0, 90), times(30, 0, 70), times(98, 2, 0));
        assert_eq!(disk, Limit::Stage(Stage::Writing));
        let processors = of(times(40, 0, 60), times(99, 1, 0), times(5, 95, 0));
        assert_eq!(processors, Limit::Stage(Stage::Compressing));
        let source = of(times(100, 0, 0), times(20, 80, 0), times(5, 95, 0));
        assert_eq!(source, Limit::Stage(Stage::Reading));
        // One buffer: each stage works while the others wait.
        assert_eq!(of(times(40, 0, 60), times(30, 70, 0), times(30, 70, 0)), Limit::HandOver);
        assert_eq!(limit(&[]), Limit::HandOver);
        // The hand-over is slow, as others use the CPUs.
        let slow = Times { cpu: Nanos(30), queued: Nanos(55), ..times(40, 0, 60) };
        assert_eq!(of(times(5, 0, 95), slow, times(5, 95, 0)), Limit::Processors);
    }

    #[test]
    fn times_of_threads_add_up() {
        let both = times(10, 20, 30).and(times(30, 0, 10));
        assert_eq!(both, Times { threads: 2, ..times(40, 20, 40) });
        assert_eq!((both.working_percent(), both.starved_percent()), (40.0, 20.0));
        assert_eq!(Times::default().blocked_percent(), 0.0);
    }
}
