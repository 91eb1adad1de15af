//! The truth of a situation: computed from the I/Os that the volumes saw, by sorting and adding.
//!
//! Nothing here uses histograms, intervals or collectors.

use std::ops::Range;

use block::{Connection, Nanos, Op, Rng};

use super::medium::{Medium, Seen};
use super::script::nanos;
use super::situation::{PACES, Situation};
use super::spec;

/// Time for which the run waits for I/Os after the window: the kernel's timeout of a device, and a
/// little longer.
const PATIENCE: u64 = 31_000_000_000;
/// Time for which workers start planned I/Os late.
const CATCH_UP: u64 = 1_000_000_000;

/// An I/O as a user counts it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub(super) op: Op,
    pub(super) len: u32,
    /// Start of its latency: in an open loop the planned start.
    pub(super) start: u64,
    /// Time at which the worker submitted the I/O; `None` if only planned.
    pub(super) given: Option<u64>,
    /// Time of the I/O's end; `fate` describes the end.
    pub(super) end: u64,
    pub(super) fate: Fate,
    /// The I/O was due while the queue was full.
    pub(super) held_back: bool,
    /// The I/O returned wrong data.
    lied: bool,
}

/// End of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    Failed,
    /// The lane failed the I/O, and is lost.
    Lost,
    /// The I/O had not completed when the run ended.
    Silent,
    /// Planned and never submitted.
    Backlog,
}

/// The truth of a run.
pub(super) struct Truth {
    /// The I/Os of each worker.
    pub(super) facts: Vec<Vec<Fact>>,
    /// The measured window.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Measured seconds, from and to.
    pub(super) seconds: Vec<(u64, u64)>,
    /// Start of each worker's measurement, if later than the run's; else 0.
    pub(super) opens: Vec<u64>,
    /// End of each worker.
    pub(super) ended: Vec<Option<u64>>,
    /// Time at which a lane was first lost, or data was wrong.
    pub(super) lost: Option<u64>,
    /// Time at which a read returned wrong data.
    pub(super) lied: Option<u64>,
    pub(super) stopped: bool,
    /// Time at which the run stopped waiting for late completions.
    pub(super) given_up: u64,
    /// Some planned I/Os were not submitted, and only the worker knows their kind.
    pub(super) unsure: bool,
    /// Number of waiting I/Os whose due times workers know; they estimate those of more, or of all
    /// if they depend on sizes not drawn yet.
    known: u64,
}

impl Truth {
    pub(super) fn of(situation: &Situation, medium: &Medium) -> Truth {
        let (seen, script) = (medium.seen(), medium.script());
        let workers = 0..seen.len();
        let plan = |worker| Planned::new(situation, script.capacity(), worker);
        let mut plans: Vec<Option<Planned>> = workers.clone().map(plan).collect();
        let facts = seen.iter().zip(&mut plans).enumerate().map(|(worker, (seen, plan))| {
            let mut facts = facts(seen, plan);
            hold_back(&mut facts, situation.depth_of(worker));
            facts
        });
        let facts = facts.collect();
        let mut truth = Truth {
            facts,
            begin: 0,
            end: 0,
            seconds: Vec::new(),
            opens: Vec::new(),
            ended: Vec::new(),
            lost: None,
            lied: None,
            stopped: false,
            given_up: 0,
            unsure: false,
            known: match PACES[situation.pace as usize] {
                "bytes" if situation.sizes > 1 => 0,
                "poisson" => 1024,
                _ => u64::MAX,
            },
        };
        let lost = truth.facts.iter().flatten().filter(|fact| fact.fate == Fate::Lost);
        let lies = truth.facts.iter().flatten().filter(|fact| fact.lied);
        truth.lied = lies.map(|fact| fact.end).min();
        truth.lost = lost.map(|fact| fact.end).chain(truth.lied).min();
        for (worker, plan) in workers.zip(&plans) {
            truth.opens.push(truth.opens(situation, worker));
            truth.ended.push(truth.ended(situation, worker, plan.as_ref()));
        }
        truth.lay_out(situation, script.begin);
        truth.close(situation, plans);
        truth
    }

    /// Start of a worker's measurement. Never if its lane was lost in its own ramp.
    fn opens(&self, situation: &Situation, worker: usize) -> u64 {
        let (delay, warm, _) = situation.times_of(worker);
        let opens = nanos(delay) + nanos(warm);
        let lost = |fact: &Fact| fact.fate == Fate::Lost && fact.end <= opens;
        if self.facts[worker].iter().any(lost) { u64::MAX } else { opens }
    }

    /// Time at which a worker ended: all I/Os are complete, and its limit or its time is reached. A
    /// worker with a lost lane or wrong data does not end by itself.
    fn ended(&self, situation: &Situation, worker: usize, plan: Option<&Planned>) -> Option<u64> {
        let facts = &self.facts[worker];
        let is_trouble = |fact: &Fact| fact.lied || matches!(fact.fate, Fate::Lost | Fate::Silent);
        if facts.iter().any(is_trouble) {
            return None;
        }
        let last = facts.iter().map(|fact| fact.end).max().unwrap_or(0);
        if self.is_spent(situation, worker) {
            return Some(last);
        }
        // A worker that starts nothing before the end of its time ends then; a last completion may
        // come later, and planned I/Os may never start.
        let over = over(situation, worker)?;
        let waits = plan.is_some_and(|plan| plan.due() <= over);
        Some(over.max(last).max(if waits { over + CATCH_UP } else { 0 }))
    }

    /// Whether a worker reached its I/O limit.
    fn is_spent(&self, situation: &Situation, worker: usize) -> bool {
        let counted = self.facts[worker].iter().filter(|fact| fact.op != Op::Flush).count() as u64;
        situation.limit_of(worker).is_some_and(|limit| counted >= limit)
    }

    /// Ends of the seconds: a remainder below half a second belongs to the last. The run ends with
    /// the second in which it was interrupted, a lane was lost, or the last worker ended.
    fn lay_out(&mut self, situation: &Situation, ramp: u64) {
        let window = nanos(situation.window);
        let (mut now, mut ticks, mut lost) = (0, 0, false);
        for (measured, length) in [(false, ramp), (true, window)] {
            let end = now + length;
            if measured {
                (self.begin, self.end) = (now, now);
            }
            while now < end && !lost && !self.stopped {
                let from = now;
                now = if now + 1_500_000_000 > end { end } else { now + 1_000_000_000 };
                ticks += 1;
                if measured {
                    self.seconds.push((from, now));
                    self.end = now;
                }
                self.stopped = ticks == situation.stop;
                lost = self.lost.is_some_and(|at| at < now);
                if self.ended.iter().all(|ended| ended.is_some_and(|at| at < now)) {
                    break;
                }
            }
        }
    }

    /// Closes the window: planned I/Os that never started are known now, and those without a
    /// completion fail.
    fn close(&mut self, situation: &Situation, plans: Vec<Option<Planned>>) {
        let (mut without_way, mut plans_on) = (Vec::new(), false);
        for (worker, plan) in plans.into_iter().enumerate() {
            let Some(mut plan) = plan.filter(|_| !self.is_spent(situation, worker)) else {
                continue;
            };
            let until = over(situation, worker).unwrap_or(u64::MAX).min(self.end);
            let facts = &mut self.facts[worker];
            let lost = facts.iter().filter(|fact| fact.fate == Fate::Lost).map(|fact| fact.end);
            let lost = lost.min();
            plans_on |= lost.is_none() && self.ended[worker].is_none_or(|at| at >= self.end);
            if nanos(situation.times_of(worker).0) >= until {
                continue;
            }
            // Each worker draws its own mix: the kinds are known only if all are alike.
            let known = situation.reads == 100 && (situation.sizes == 1 || !plan.per_byte);
            self.unsure |= plan.due() <= until && !known;
            let left = situation.limit_of(worker).map(|limit| limit as usize - facts.len());
            let most = facts.len() + left.unwrap_or(usize::MAX - facts.len());
            while plan.due() <= until && facts.len() < most {
                let (op, fate, end) = (Op::Read, Fate::Backlog, until + CATCH_UP);
                let (start, given, held_back) = (plan.next(4096), None, true);
                let lied = false;
                facts.push(Fact { op, len: 4096, start, given, end, fate, held_back, lied });
            }
            if lost.is_some_and(|at| at < until + CATCH_UP) {
                without_way.push(worker);
            }
        }
        let given_up = self.given_up(&without_way, plans_on);
        self.given_up = given_up;
        for (worker, facts) in self.facts.iter_mut().enumerate() {
            let lost = without_way.contains(&worker);
            for fact in facts {
                match fact.fate {
                    Fate::Backlog if lost => fact.end = given_up,
                    Fate::Silent => fact.end = given_up,
                    _ => {}
                }
            }
        }
    }

    /// Time at which the run stops waiting: a whole number of seconds after the end, once all I/Os
    /// that can complete have, or at the time limit.
    fn given_up(&self, without_way: &[usize], plans_on: bool) -> u64 {
        let all = self.facts.iter().enumerate();
        let all = all.flat_map(|(worker, facts)| facts.iter().map(move |fact| (worker, fact)));
        let awaited = all.filter(|(worker, fact)| {
            fact.end >= self.end && !(fact.fate == Fate::Backlog && without_way.contains(worker))
        });
        match awaited.map(|(_, fact)| fact.end).max() {
            None if plans_on => self.end + 1_000_000_000,
            None => self.end,
            Some(last) if last - self.end >= PATIENCE => self.end + PATIENCE,
            Some(last) => self.end + ((last - self.end) / 1_000_000_000 + 1) * 1_000_000_000,
        }
    }

    /// Span within which a worker was measured, if at all.
    pub(super) fn worked(&self, worker: usize, from: u64, to: u64) -> Option<(u64, u64)> {
        let from = from.max(self.opens[worker]);
        match self.ended[worker] {
            _ if self.is_unmeasured(worker, to) => None,
            Some(ended) if ended < from => None,
            Some(ended) => Some((from, to.min(ended))),
            None => Some((from, to)),
        }
    }

    /// Spans with a row: seconds without a measured worker belong to the previous row.
    pub(super) fn rows(&self) -> Vec<(u64, u64)> {
        let mut rows: Vec<(u64, u64)> = Vec::new();
        for (from, to) in &self.seconds {
            let spans = |worker| self.worked(worker, *from, *to);
            let is_covered = (0..self.facts.len()).filter_map(spans).any(|(from, to)| to > from);
            match rows.last_mut() {
                _ if is_covered => rows.push((*from, *to)),
                Some(last) => last.1 = *to,
                None => {}
            }
        }
        rows
    }

    /// End of the measured time within a row, in seconds since the first worker was measured.
    pub(super) fn end_of(&self, (from, to): (u64, u64)) -> f64 {
        let workers = 0..self.facts.len();
        let spans =
            |from, to| workers.clone().filter_map(move |worker| self.worked(worker, from, to));
        let spans = |from, to| spans(from, to).filter(|(from, to)| to > from);
        let begin = spans(self.begin, self.end).map(|(from, _)| from).min().unwrap_or(0);
        let end = spans(from, to).map(|(_, to)| to).max().unwrap_or(begin);
        Nanos(end - begin).as_secs_f64()
    }

    /// Whole seconds in which an active worker completed nothing while another one did.
    pub(super) fn idle_seconds(&self, worker: usize) -> u32 {
        let done =
            |worker: usize, stretch| self.figures(worker..worker + 1, stretch, |_| true).0.ios;
        let is_idle = |stretch: &&(u64, u64)| {
            let (from, to) = **stretch;
            let there = self.worked(worker, from, to).map_or(0, |(from, to)| to - from);
            let others = 0..self.facts.len();
            // A window's remainder is no second; a worker active for less than half of a second had
            // no chance.
            to - from >= 900_000_000
                && there * 2 >= to - from
                && done(worker, **stretch) == 0
                && others.into_iter().any(|other| done(other, **stretch) > 0)
        };
        self.seconds.iter().filter(is_idle).count() as u32
    }

    /// Whether no I/O of a worker before `to` counts.
    fn is_unmeasured(&self, worker: usize, to: u64) -> bool {
        self.opens[worker] > 0 && self.opens[worker] >= to
    }

    /// Connection counters of some workers within a span; of the last span, until the run stopped
    /// waiting.
    pub(super) fn connections(
        &self,
        workers: Range<usize>,
        (from, to): (u64, u64),
        medium: &Medium,
    ) -> Connection {
        let measured = workers.filter(|worker| !self.is_unmeasured(*worker, to) && to > from);
        measured.fold(Connection::default(), |sum, worker| {
            let last = if to == self.end { self.given_up } else { to };
            let [before, after] =
                [from.max(self.opens[worker]), last].map(|at| medium.connection(worker, at));
            sum + (after - before)
        })
    }

    /// Totals of the workers' I/Os that `belongs` selects within a span, and the time in seconds in
    /// which any worker was active.
    pub(super) fn figures(
        &self,
        workers: Range<usize>,
        (from, to): (u64, u64),
        belongs: fn(&Fact) -> bool,
    ) -> (Figures, f64) {
        let handed_over =
            self.seconds.iter().filter(|row| row.0 < to && row.1 > from).count() as u64;
        let mut figures = Figures { exact: true, handed_over, ..Figures::default() };
        let mut spans = Vec::new();
        let late = to == self.end && to > from;
        for worker in workers {
            spans.extend(self.worked(worker, from, to));
            if self.is_unmeasured(worker, to) {
                continue;
            }
            let opens = self.opens[worker];
            for fact in self.facts[worker].iter().filter(|fact| belongs(fact)) {
                if self.begin == self.end {
                    // A run that ended in its ramp reports only this.
                    figures.errors += u64::from(fact.fate == Fate::Silent);
                    continue;
                }
                figures.worker = worker as u64;
                figures.add(fact, (from.max(opens), to), opens, (late, self.known));
            }
        }
        for times in [&mut figures.latencies, &mut figures.service, &mut figures.lag] {
            sort(&mut times.0);
        }
        spans.sort_unstable();
        let (mut covered, mut until) = (0, 0);
        for (from, to) in spans {
            covered += to.saturating_sub(from.max(until));
            until = until.max(to);
        }
        (figures, Nanos(covered).as_secs_f64())
    }
}

/// End of a worker's time, if before the run's end.
fn over(situation: &Situation, worker: usize) -> Option<u64> {
    let (delay, warm, length) = situation.times_of(worker);
    let all = situation.ramp as f64 / 1e3 + warm as f64 / 1e3 + length? as f64 / 1e3;
    Some(nanos(delay) + (all * 1e9) as u64)
}

/// The facts of a volume's record. Planned starts of an open loop are recomputed.
fn facts(seen: &[Seen], plan: &mut Option<Planned>) -> Vec<Fact> {
    let mut fact = |seen: &Seen| Fact {
        op: seen.op,
        len: seen.len,
        start: plan.as_mut().map_or(seen.given, |plan| plan.next(seen.len)),
        given: Some(seen.given),
        end: seen.answer.map_or(u64::MAX, |(at, _)| at),
        fate: match seen.answer {
            None => Fate::Silent,
            Some((_, Ok(()))) => Fate::Done,
            Some((_, Err(fault))) if fault.is_lost() => Fate::Lost,
            Some((_, Err(_))) => Fate::Failed,
        },
        held_back: false,
        lied: seen.answer.is_some() && seen.lied,
    };
    seen.iter().map(&mut fact).collect()
}

/// Sorts times, which is half of a rig's work. The closure makes the compiler instantiate the sort
/// in this crate, with its optimization level; the plain sort may come from another crate without.
fn sort(times: &mut [u64]) {
    times.sort_unstable_by_key(|time| *time);
}

/// Marks I/Os due before a completion that occurred while `depth` I/Os were in flight.
fn hold_back(facts: &mut [Fact], depth: u64) {
    let mut ends: Vec<u64> = facts.iter().map(|fact| fact.end).collect();
    sort(&mut ends);
    let begun = |before: u64| facts.partition_point(|fact| fact.given.is_some_and(|g| g < before));
    let ended = |before: u64| ends.partition_point(|end| *end < before);
    let is_full = |at: &u64| (begun(*at) - ended(*at)) as u64 == depth;
    let mut freed: Vec<u64> =
        ends.iter().copied().filter(|at| *at < u64::MAX).filter(is_full).collect();
    freed.dedup();
    for fact in facts {
        let Some(given) = fact.given else { continue };
        let last = freed.partition_point(|at| *at <= given).checked_sub(1);
        fact.held_back = last.is_some_and(|last| freed[last] > fact.start);
    }
}

/// Planned starts, in nanoseconds with a fraction of 32 bits.
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
        let step = 1e9 / (rate * mean) * 4_294_967_296.0;
        let mut rng = Rng::new(!situation.seed, worker as u64);
        let began = u128::from(nanos(situation.times_of(worker).0)) << 32;
        let next = began + (rng.uniform() * step * mean) as u128;
        let (per_byte, poisson) = (pace == "bytes", pace == "poisson");
        (pace != "closed").then_some(Planned { next, step, per_byte, poisson, rng })
    }

    /// Time at which the next I/O is due.
    fn due(&self) -> u64 {
        (self.next >> 32) as u64
    }

    /// Time of the next I/O, if it has this length.
    fn next(&mut self, len: u32) -> u64 {
        let due = self.due();
        let mut step = self.step * if self.per_byte { f64::from(len) } else { 1.0 };
        if self.poisson {
            step *= self.rng.exponential();
        }
        self.next += step as u128;
        due
    }
}

/// Times in nanoseconds, sorted once complete.
#[derive(Debug, Default)]
pub(super) struct Times(pub(super) Vec<u64>);

/// Totals of I/Os in a span.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) ios: u64,
    pub(super) errors: u64,
    /// Errors found after the window.
    pub(super) late_errors: u64,
    pub(super) bytes: u64,
    /// Latencies of completed I/Os, and waiting times of those without a completion; sorted.
    pub(super) latencies: Times,
    /// Each latency, and the moment of its end.
    ended: Vec<(u64, u64)>,
    /// Worker whose facts are added.
    worker: u64,
    /// Intervals that were handed over in the span.
    pub(super) handed_over: u64,
    /// Times from the actual starts, and delays from the planned ones.
    pub(super) service: Times,
    pub(super) lag: Times,
    /// I/Os that were due while the queue was full.
    pub(super) held_back: u64,
    /// Minimum of the latencies that are only lower bounds.
    pub(super) bounded: Option<u64>,
    /// Number of failed I/Os without a completion, and of I/Os never started, each with the age of
    /// the oldest.
    pub(super) waiting: (u64, u64),
    pub(super) backlog: (u64, u64),
    /// Age of the oldest I/O in flight at the end of the span.
    pub(super) oldest: Option<u64>,
    /// I/Os in flight, summed over nanoseconds.
    pub(super) in_flight: u128,
    /// I/Os started late, or never.
    pub(super) begun_late: u64,
    /// The due times are known to the workers, not estimated.
    pub(super) exact: bool,
}

impl Figures {
    /// Adds an I/O's part in `[from, to)` and, in the last span, its `late` end. Nothing counts
    /// before the worker's measurement `opens`.
    fn add(&mut self, fact: &Fact, (from, to): (u64, u64), opens: u64, (late, known): (bool, u64)) {
        let (end, age) = (fact.end, fact.end - fact.start);
        self.begun_late += u64::from(fact.given != Some(fact.start));
        self.exact &= self.begun_late <= known;
        self.in_flight += u128::from(end.min(to).saturating_sub(fact.start.max(from)));
        // An I/O later than the rest of the window starts after its end.
        if let Some(given) = fact.given.filter(|given| *given >= from && (late || *given < to)) {
            self.lag.0.push(given - fact.start);
            self.held_back += u64::from(fact.held_back);
        }
        if fact.start < to && end >= to {
            self.oldest = self.oldest.max(Some(to - fact.start));
        }
        let is_late = end >= to;
        if end < from || (is_late && !late) || (opens > 0 && end == opens) {
            return;
        }
        let oldest = |(count, oldest): (u64, u64)| (count + 1, oldest.max(age));
        match fact.fate {
            Fate::Done => {
                self.ios += u64::from(!is_late);
                self.bytes += if is_late { 0 } else { u64::from(fact.len) };
            }
            Fate::Failed | Fate::Lost => {}
            Fate::Silent => self.waiting = oldest(self.waiting),
            Fate::Backlog => self.backlog = oldest(self.backlog),
        }
        if matches!(fact.fate, Fate::Failed | Fate::Lost | Fate::Silent) {
            self.errors += 1;
            self.late_errors += u64::from(is_late);
        }
        if fact.fate != Fate::Failed {
            self.latencies.0.push(age);
            // An I/O that never began counts by its planned start, for each worker.
            let moment = match fact.fate {
                Fate::Backlog => (self.worker + 1) << 48 | fact.start >> 20,
                // Late ones belong to one interval, which has 2048 moments.
                _ if is_late => (end >> 20).min((to >> 20) + 2047),
                _ => end >> 20,
            };
            self.ended.push((age, moment));
            match fact.given {
                Some(given) => self.service.0.push(end - given),
                None => self.lag.0.push(age),
            }
        }
        if matches!(fact.fate, Fate::Lost | Fate::Silent | Fate::Backlog) {
            self.bounded = Some(self.bounded.map_or(age, |least| least.min(age)));
        }
    }
}

impl Figures {
    /// Number of moments in which an I/O took as long as the percentile of a share, or longer:
    /// within the same of 128 buckets for each power of two.
    pub(super) fn moments(&self, share: u64) -> u64 {
        let sorted = &self.latencies.0;
        let rank = (sorted.len() as u64 * share).div_ceil(10_000).max(1);
        let Some(ns) = sorted.get(rank as usize - 1) else { return 0 };
        let wide = 1_u64 << (63 - (ns | 1).leading_zeros()).saturating_sub(7);
        let least = ns / wide * wide;
        let above = self.ended.iter().filter(|(age, _)| *age >= least);
        let mut moments: Vec<u64> = above.map(|(_, moment)| *moment).collect();
        sort(&mut moments);
        moments.dedup();
        moments.len() as u64
    }
}

impl Times {
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn mean(&self) -> Option<f64> {
        let sum: u128 = self.0.iter().map(|ns| u128::from(*ns)).sum();
        (!self.0.is_empty()).then(|| sum as f64 / self.0.len() as f64)
    }

    /// Percentile of a share in units of 1/10,000, if at least 100 samples are above it.
    pub(super) fn percentile(&self, share: u64) -> Option<u64> {
        let count = self.count();
        let rank = (count * share).div_ceil(10_000).max(1);
        (count * (10_000 - share) >= 1_000_000).then(|| self.0[rank as usize - 1])
    }
}
