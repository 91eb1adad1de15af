//! Discrete-event simulation, for results beyond theory.

mod calendar;
mod emulate;
mod engine;
mod estimate;
mod place;
mod program;

use crate::check::POPULATION_MAX;
use crate::solve::{ClassResult, StationResult};
use crate::{ClassId, ModelError, Network, Picos, Servers, Solution, Source};
pub use emulate::Emulation;
use engine::{Engine, Stop, TOKENS_MAX};
pub use estimate::Estimate;
use estimate::{BATCHES, batch_means};

/// Minimum number of requests for a confidence interval.
const REQUESTS_MIN: u64 = 100;

/// Length and seed of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Random seed. The same seed and network give the same bits, on every machine.
    pub seed: u64,
    /// Number of requests completed before the measurement.
    pub warmup: u64,
    /// Number of requests completed in the measurement, at least 100.
    pub requests: u64,
}

/// A completed request, for a histogram or a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Class of the request.
    pub class: ClassId,
    /// Time of the completion.
    pub at: Picos,
    /// Time from issue to completion.
    pub latency: Picos,
}

/// Result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// Means of classes and stations.
    pub solution: Solution,
    /// Simulated time of the measurement.
    pub span: Picos,
    /// Number of requests completed in the measurement, per class.
    pub requests: Vec<u64>,
    /// Requests completed per second with their interval, per class.
    pub throughput_per_s: Vec<Estimate>,
    /// Mean response time in seconds with its interval, per class.
    pub response_s: Vec<Estimate>,
}

/// Simulates `network`; `done` is called for every measured request, in order of time.
///
/// # Errors
///
/// Errors of [`Network::check`]; [`ModelError::Invalid`] for a deadlock of all requests;
/// [`ModelError::TooLarge`] if the queues of open classes grow without bound.
pub fn simulate(
    network: &Network,
    run: Run,
    mut done: impl FnMut(Completion),
) -> Result<Simulated, ModelError> {
    network.check()?;
    check_run(network, run)?;
    let mut engine = Engine::new(network, run.seed);
    let mut done = |_: u32, completion| done(completion);
    advance(&mut engine, run.warmup, &mut |_, _| ())?;
    let first = Totals::of(&engine);
    let mut marks = vec![first];
    for batch in 1..=BATCHES {
        // 128 bits, because requests times batches may overflow 64.
        let share = u128::from(run.requests) * u128::from(batch) / u128::from(BATCHES);
        advance(&mut engine, run.warmup.saturating_add(share as u64), &mut done)?;
        marks.push(Totals::of(&engine));
    }
    if marks[marks.len() - 1].now == marks[0].now {
        return Err(ModelError::invalid("run", "no time passed: simulate more requests"));
    }
    Ok(simulated(network, &marks))
}

fn check_run(network: &Network, run: Run) -> Result<(), ModelError> {
    if run.requests < REQUESTS_MIN {
        let problem = format!("{} requests; at least {REQUESTS_MIN} are needed", run.requests);
        return Err(ModelError::invalid("run", problem));
    }
    let closed = network.classes.iter().map(|class| match class.source {
        Source::Closed { population, .. } => u64::from(population),
        Source::Open { .. } => 0,
    });
    let (count, limit) = (closed.sum::<u64>(), u64::from(POPULATION_MAX));
    if count > limit {
        let (what, remedy) = (format!("{count} requests of closed classes"), "merge or lower them");
        return Err(ModelError::TooLarge { what, limit, remedy });
    }
    Ok(())
}

/// Runs until `target` requests are complete.
fn advance(
    engine: &mut Engine,
    target: u64,
    done: &mut impl FnMut(u32, Completion),
) -> Result<(), ModelError> {
    while engine.done < target {
        if !engine.step(done) {
            let problem = "all requests wait for each other: hold stations in one order";
            return Err(ModelError::invalid("network", problem));
        }
        check_stop(engine)?;
    }
    Ok(())
}

fn check_stop(engine: &Engine) -> Result<(), ModelError> {
    let (what, limit, remedy) = match engine.stop {
        None => return Ok(()),
        Some(Stop::Tokens) => {
            let remedy = "the network is overloaded: lower the rate";
            ("requests in flight", TOKENS_MAX as u64, remedy)
        }
        Some(Stop::Time) => {
            let remedy = "simulate fewer requests, or scale the times down";
            ("simulated time in picoseconds", u64::MAX, remedy)
        }
    };
    Err(ModelError::TooLarge { what: what.to_owned(), limit, remedy })
}

/// Totals up to an instant. Times are in picoseconds.
struct Totals {
    now: Picos,
    worked: Vec<u128>,
    /// Time spent and number of requests completed, class by station.
    cells: Vec<(u128, u64)>,
    classes: Vec<ClassTotals>,
}

#[derive(Clone, Copy)]
struct ClassTotals {
    outstanding: u128,
    done: u64,
    latency: u128,
}

impl Totals {
    fn of(engine: &Engine) -> Totals {
        let now = engine.now;
        let class = |line: &engine::Line| ClassTotals {
            outstanding: line.stayed.until(now, line.outstanding),
            done: line.done,
            latency: line.latency,
        };
        Totals {
            now,
            worked: engine.places.iter().map(|place| place.worked(now)).collect(),
            cells: engine.cells.iter().map(|c| (c.stayed.until(now, c.present), c.left)).collect(),
            classes: engine.lines.iter().map(class).collect(),
        }
    }
}

fn simulated(network: &Network, marks: &[Totals]) -> Simulated {
    let (first, last) = (&marks[0], &marks[marks.len() - 1]);
    let span = Picos(last.now.0 - first.now.0);
    let classes = 0..network.classes.len();
    let solution = Solution {
        method: None,
        classes: classes.clone().map(|class| class_result(class, first, last)).collect(),
        stations: (0..network.stations.len())
            .map(|station| station_result(network, station, first, last))
            .collect(),
        caveats: Vec::new(),
    };
    let done = |class: usize| move |mark: &Totals| mark.classes[class].done as f64;
    Simulated {
        solution,
        span,
        requests: classes
            .clone()
            .map(|class| last.classes[class].done - first.classes[class].done)
            .collect(),
        throughput_per_s: classes
            .clone()
            .map(|class| batch_means(marks, done(class), |mark| mark.now.as_secs_f64()))
            .collect(),
        response_s: classes
            .map(|class| batch_means(marks, |mark| mark.classes[class].latency_s(), done(class)))
            .collect(),
    }
}

impl ClassTotals {
    fn latency_s(&self) -> f64 {
        self.latency as f64 / 1e12
    }
}

fn class_result(class: usize, first: &Totals, last: &Totals) -> ClassResult {
    let span_ps = (last.now.0 - first.now.0) as f64;
    let (from, to) = (first.classes[class], last.classes[class]);
    let done = (to.done - from.done) as f64;
    ClassResult {
        throughput_per_s: done / span_ps * 1e12,
        response_s: if done > 0.0 { (to.latency - from.latency) as f64 / 1e12 / done } else { 0.0 },
        outstanding: (to.outstanding - from.outstanding) as f64 / span_ps,
    }
}

fn station_result(
    network: &Network,
    station: usize,
    first: &Totals,
    last: &Totals,
) -> StationResult {
    let span_ps = (last.now.0 - first.now.0) as f64;
    let classes = network.classes.len();
    let cell = |class: usize| {
        let at = class * network.stations.len() + station;
        let (from, to) = (first.cells[at], last.cells[at]);
        ((to.0 - from.0) as f64, (to.1 - from.1) as f64)
    };
    let done = |class: usize| (last.classes[class].done - first.classes[class].done) as f64;
    let present: f64 = (0..classes).map(|class| cell(class).0).sum();
    let left: f64 = (0..classes).map(|class| cell(class).1).sum();
    let busy = (last.worked[station] - first.worked[station]) as f64 / span_ps;
    let servers = match &network.stations[station].servers {
        Servers::Infinite => 1.0,
        servers => servers.speed_max(),
    };
    StationResult {
        utilisation: busy / servers,
        present: present / span_ps,
        throughput_per_s: left / span_ps * 1e12,
        residence_s: (0..classes)
            .map(|class| cell(class).0 / 1e12 / done(class).max(1.0))
            .collect(),
    }
}
