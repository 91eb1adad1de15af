//! What really happened in a situation: from the I/Os that the volumes saw, by sorting and adding.
//!
//! Nothing here knows histograms, intervals or collectors, or takes a number from them.

use std::ops::Range;

use block::{Fault, Nanos, Op, Rng};

use super::medium::{Medium, Seen};
use super::script::nanos;
use super::situation::{PACES, Situation};
use super::spec;

/// One I/O as a user would count it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub(super) op: Op,
    pub(super) len: u32,
    /// What its latency counts from: in an open loop the planned start.
    pub(super) start: u64,
    /// When the worker gave it away.
    pub(super) given: u64,
    pub(super) end: Option<u64>,
    pub(super) failed: bool,
    /// It was given up, and the way with it.
    lost: bool,
}

impl Fact {
    fn lost_by(&self, at: u64) -> bool {
        self.lost && self.end.is_some_and(|end| end <= at)
    }
}

/// Everything that is true of a run.
pub(super) struct Truth {
    /// The I/Os of each worker.
    pub(super) facts: Vec<Vec<Fact>>,
    /// The measured window.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Its seconds, each from and to.
    pub(super) seconds: Vec<(u64, u64)>,
    /// When each worker begins to be measured, where that is not with the run; else 0.
    pub(super) opens: Vec<u64>,
    /// When each worker had done all that it was to do.
    pub(super) ended: Vec<Option<u64>>,
    /// Why it is not the whole run, if it is not.
    pub(super) lost: bool,
    pub(super) stopped: bool,
}

impl Truth {
    pub(super) fn of(situation: &Situation, medium: &Medium) -> Truth {
        let facts: Vec<Vec<Fact>> = medium
            .seen()
            .into_iter()
            .enumerate()
            .map(|(worker, seen)| facts(situation, medium.script().capacity(), worker, seen))
            .collect();
        let lost = |all: &[&[Seen]]| {
            let answers = all.iter().flat_map(|seen| seen.iter()).filter_map(|seen| seen.answer);
            answers.filter(|(_, result)| *result == Err(Fault::Unanswered)).map(|(at, _)| at).min()
        };
        let workers = 0..facts.len();
        let opens = |worker| {
            let (delay, warm, _) = situation.times_of(worker);
            nanos(delay) + nanos(warm)
        };
        // Who lost the way in its own ramp is never measured.
        let never = |worker: usize, opens| facts[worker].iter().any(|fact| fact.lost_by(opens));
        let opens = |worker| if never(worker, opens(worker)) { u64::MAX } else { opens(worker) };
        let opens = workers.clone().map(opens).collect();
        let ended = workers.map(|worker| ended(situation, worker, &facts[worker])).collect();
        let mut truth = Truth {
            facts,
            begin: 0,
            end: 0,
            seconds: Vec::new(),
            opens,
            ended,
            lost: false,
            stopped: false,
        };
        truth.lay_out(situation, medium.script().begin, lost(&medium.seen()));
        truth
    }

    /// Where the seconds end: each after a whole one, and a rest shorter than half a one belongs to
    /// the last. The run ends with the second in which it was told to, in which a way was lost, or
    /// in which the last worker ended.
    fn lay_out(&mut self, situation: &Situation, ramp: u64, lost: Option<u64>) {
        let window = nanos(situation.window);
        let (mut now, mut ticks) = (0, 0);
        for (measured, length) in [(false, ramp), (true, window)] {
            let end = now + length;
            if measured {
                (self.begin, self.end) = (now, now);
            }
            while now < end && !self.lost && !self.stopped {
                let from = now;
                now = if now + 1_500_000_000 > end { end } else { now + 1_000_000_000 };
                ticks += 1;
                if measured {
                    self.seconds.push((from, now));
                    self.end = now;
                }
                self.stopped = ticks == situation.stop;
                self.lost = lost.is_some_and(|at| at < now);
                if self.ended.iter().all(|ended| ended.is_some_and(|at| at < now)) {
                    break;
                }
            }
        }
    }

    /// From when to when a worker worked within a stretch, and was measured; if at all.
    pub(super) fn worked(&self, worker: usize, from: u64, to: u64) -> Option<(u64, u64)> {
        let opens = self.opens[worker];
        let from = from.max(opens);
        match self.ended[worker] {
            _ if opens > 0 && opens >= to => None,
            Some(ended) if ended < from => None,
            Some(ended) => Some((from, to.min(ended))),
            None => Some((from, to)),
        }
    }

    /// What some workers' I/Os that `belongs` names come to within a stretch, and the time in which
    /// any of the workers worked, in seconds.
    pub(super) fn figures(
        &self,
        workers: Range<usize>,
        (from, to): (u64, u64),
        belongs: fn(&Fact) -> bool,
    ) -> (Figures, f64) {
        let (mut figures, mut hull) = (Figures { exact: true, ..Figures::default() }, None);
        for worker in workers {
            if let Some((from, to)) = self.worked(worker, from, to) {
                let (first, last) = hull.unwrap_or((from, to));
                hull = Some((from.min(first), to.max(last)));
            }
            let opens = self.opens[worker];
            for fact in self.facts[worker].iter().filter(|fact| belongs(fact)) {
                figures.add(fact, from.max(opens), to, opens);
            }
        }
        figures.latencies.sort_unstable();
        let (first, last) = hull.unwrap_or_default();
        (figures, Nanos(last - first).as_secs_f64())
    }
}

/// When a worker had done all that it was to do: everything is back, and it had begun as many as it
/// may, or its time is over. Who lost the way does not end by itself.
fn ended(situation: &Situation, worker: usize, facts: &[Fact]) -> Option<u64> {
    let last = facts.iter().map(|fact| fact.end).collect::<Option<Vec<u64>>>()?;
    let last = last.into_iter().max().unwrap_or(0);
    if facts.iter().any(|fact| fact.lost) {
        return None;
    }
    let counted = facts.iter().filter(|fact| fact.op != Op::Flush).count() as u64;
    if situation.limit_of(worker).is_some_and(|limit| counted >= limit) {
        return Some(last);
    }
    let (delay, warm, length) = situation.times_of(worker);
    let all = situation.ramp as f64 / 1e3 + warm as f64 / 1e3 + length? as f64 / 1e3;
    let over = nanos(delay) + (all * 1e9) as u64;
    // Who begins nothing before its time is over has ended then; a last answer may come later.
    Some(over.max(last))
}

/// Facts out of what a volume saw. The planned starts of an open loop are computed anew.
fn facts(situation: &Situation, capacity: f64, worker: usize, seen: &[Seen]) -> Vec<Fact> {
    let mut plan = Planned::new(situation, capacity, worker);
    let fact = |seen: &Seen| Fact {
        op: seen.op,
        len: seen.len,
        start: plan.as_mut().map_or(seen.given, |plan| plan.next(seen.len)),
        given: seen.given,
        end: seen.answer.map(|(at, _)| at),
        failed: seen.answer.is_some_and(|(_, result)| result.is_err()),
        lost: seen.answer.is_some_and(|(_, result)| result == Err(Fault::Unanswered)),
    };
    seen.iter().map(fact).collect()
}

/// Planned starts, in whole nanoseconds and parts of 2³² of one.
struct Planned {
    next: u128,
    step: f64,
    per_byte: bool,
    poisson: bool,
    rng: Rng,
}

impl Planned {
    fn new(situation: &Situation, capacity: f64, worker: usize) -> Option<Planned> {
        let pace = PACES[situation.pace as usize];
        let rate = spec::rate(situation, capacity);
        let mean = if pace == "bytes" { spec::mean_bytes(situation) } else { 1.0 };
        let step = 1e9 / (rate * if pace == "bytes" { mean } else { 1.0 }) * 4_294_967_296.0;
        let mut rng = Rng::new(!situation.seed, worker as u64);
        let first = rng.uniform() * step * mean;
        let began = u128::from(nanos(situation.times_of(worker).0)) << 32;
        let (per_byte, poisson) = (pace == "bytes", pace == "poisson");
        (pace != "closed").then_some(Planned {
            next: began + first as u128,
            step,
            per_byte,
            poisson,
            rng,
        })
    }

    fn next(&mut self, len: u32) -> u64 {
        let due = (self.next >> 32) as u64;
        let mut step = self.step * if self.per_byte { f64::from(len) } else { 1.0 };
        if self.poisson {
            step *= self.rng.exponential();
        }
        self.next += step as u128;
        due
    }
}

/// What a set of I/Os comes to in a stretch of time.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) ios: u64,
    pub(super) errors: u64,
    pub(super) bytes: u64,
    /// Sorted.
    pub(super) latencies: Vec<u64>,
    /// I/Os under way, added up over nanoseconds.
    pub(super) under_way: u128,
    pub(super) exact: bool,
}

impl Figures {
    /// Adds what of an I/O lies in `[from, to)`; what a worker did until it `opens` does not count.
    fn add(&mut self, fact: &Fact, from: u64, to: u64, opens: u64) {
        let end = fact.end.unwrap_or(u64::MAX);
        self.exact &= fact.start == fact.given;
        self.under_way += u128::from(end.min(to).saturating_sub(fact.start.max(from)));
        if end < from || end >= to || (opens > 0 && end == opens) {
            return;
        }
        match fact.failed {
            true => self.errors += 1,
            false => {
                self.ios += 1;
                self.bytes += u64::from(fact.len);
                self.latencies.push(end - fact.start);
            }
        }
    }

    pub(super) fn mean(&self) -> Option<f64> {
        let sum: u128 = self.latencies.iter().map(|ns| u128::from(*ns)).sum();
        (self.ios > 0).then(|| sum as f64 / self.ios as f64)
    }

    /// The percentile of a share in parts of 10,000, where 100 samples lie above it.
    pub(super) fn percentile(&self, share: u64) -> Option<u64> {
        let count = self.latencies.len() as u64;
        let rank = (count * share).div_ceil(10_000).max(1);
        (count * (10_000 - share) >= 1_000_000).then(|| self.latencies[rank as usize - 1])
    }
}
