//! What really happened in a situation: from the I/Os that the volumes saw, by sorting and adding.
//!
//! Nothing here knows histograms, intervals or collectors, or takes a number from them.

use std::ops::Range;

use block::{Connection, Nanos, Op, Rng};

use super::medium::{Medium, Seen};
use super::script::nanos;
use super::situation::{PACES, Situation};
use super::spec;

/// How long I/Os that are never answered are waited for when the window has ended: as long as the
/// kernel gives a device, and a little longer.
const PATIENCE: u64 = 31_000_000_000;
/// For how long I/Os that were planned in a worker's time are begun after it.
const CATCH_UP: u64 = 1_000_000_000;

/// One I/O as a user would count it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fact {
    pub(super) op: Op,
    pub(super) len: u32,
    /// What its latency counts from: in an open loop the planned start.
    pub(super) start: u64,
    /// When the worker gave it away; never, if it was planned only.
    pub(super) given: Option<u64>,
    /// When nobody waited for it any more, and why.
    pub(super) end: u64,
    pub(super) fate: Fate,
    /// It was due while all that may be outstanding were.
    pub(super) held_back: bool,
    /// It was answered with other data than were written.
    lied: bool,
}

/// What became of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    Failed,
    /// It was given up by its way, which is lost with it.
    Lost,
    /// It was not answered when the run gave it up.
    Silent,
    /// It was planned and never begun.
    Backlog,
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
    /// When a way was lost first, or a lie was told.
    pub(super) lost: Option<u64>,
    /// When a read was answered with other data than were written.
    pub(super) lied: Option<u64>,
    pub(super) stopped: bool,
    /// When nobody waited any more for what came late.
    pub(super) given_up: u64,
    /// Something was planned and not begun of which only the worker knows what it was to be.
    pub(super) unsure: bool,
    /// Of so many I/Os that wait to begin workers know when they were due; of more they estimate
    /// it, and of all where it depends on sizes that are not drawn yet.
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

    /// When a worker begins to be measured. Who lost the way in its own ramp never is.
    fn opens(&self, situation: &Situation, worker: usize) -> u64 {
        let (delay, warm, _) = situation.times_of(worker);
        let opens = nanos(delay) + nanos(warm);
        let lost = |fact: &Fact| fact.fate == Fate::Lost && fact.end <= opens;
        if self.facts[worker].iter().any(lost) { u64::MAX } else { opens }
    }

    /// When a worker had done all that it was to do: everything is back, and it had begun as many
    /// as it may, or its time is over. Who lost the way or met a lie does not end by itself.
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
        // Who begins nothing before its time is over has ended then; a last answer may come later,
        // and what was planned may not begin at all.
        let over = over(situation, worker)?;
        let waits = plan.is_some_and(|plan| plan.due() <= over);
        Some(over.max(last).max(if waits { over + CATCH_UP } else { 0 }))
    }

    /// Whether a worker has begun as many I/Os as it may.
    fn is_spent(&self, situation: &Situation, worker: usize) -> bool {
        let counted = self.facts[worker].iter().filter(|fact| fact.op != Op::Flush).count() as u64;
        situation.limit_of(worker).is_some_and(|limit| counted >= limit)
    }

    /// Where the seconds end: each after a whole one, and a rest shorter than half a one belongs to
    /// the last. The run ends with the second in which it was told to, in which a way was lost, or
    /// in which the last worker ended.
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

    /// The window is over: what was planned in it and never began is known now, and what is never
    /// answered is given up.
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
            // The mix of a worker is its own: only where all are alike is it known what these are.
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

    /// When nobody waits any more: a whole number of seconds after the end, when all has come back
    /// that can, or when the patience with those is over that do not answer.
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

    /// From when to when a worker worked within a stretch, and was measured; if at all.
    pub(super) fn worked(&self, worker: usize, from: u64, to: u64) -> Option<(u64, u64)> {
        let from = from.max(self.opens[worker]);
        match self.ended[worker] {
            _ if self.is_unmeasured(worker, to) => None,
            Some(ended) if ended < from => None,
            Some(ended) => Some((from, to.min(ended))),
            None => Some((from, to)),
        }
    }

    /// Whole seconds in which a worker that was there finished nothing, while another one did.
    pub(super) fn idle_seconds(&self, worker: usize) -> u32 {
        let done =
            |worker: usize, stretch| self.figures(worker..worker + 1, stretch, |_| true).0.ios;
        let is_idle = |stretch: &&(u64, u64)| {
            let (from, to) = **stretch;
            let there = self.worked(worker, from, to).map_or(0, |(from, to)| to - from);
            let others = 0..self.facts.len();
            // The rest of a window is no second; who was there for less than half of it had no
            // chance.
            to - from >= 900_000_000
                && there * 2 >= to - from
                && done(worker, **stretch) == 0
                && others.into_iter().any(|other| done(other, **stretch) > 0)
        };
        self.seconds.iter().filter(is_idle).count() as u32
    }

    /// Whether nothing of what a worker did before `to` counts.
    fn is_unmeasured(&self, worker: usize, to: u64) -> bool {
        self.opens[worker] > 0 && self.opens[worker] >= to
    }

    /// What became of the connections of some workers within a stretch; if it is the last, until
    /// nobody waited any more.
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

    /// What some workers' I/Os that `belongs` names come to within a stretch, and the time in which
    /// any of the workers worked, in seconds.
    pub(super) fn figures(
        &self,
        workers: Range<usize>,
        (from, to): (u64, u64),
        belongs: fn(&Fact) -> bool,
    ) -> (Figures, f64) {
        let (mut figures, mut hull) = (Figures { exact: true, ..Figures::default() }, None);
        let late = to == self.end && to > from;
        for worker in workers {
            if let Some((from, to)) = self.worked(worker, from, to) {
                let (first, last) = hull.unwrap_or((from, to));
                hull = Some((from.min(first), to.max(last)));
            }
            if self.is_unmeasured(worker, to) {
                continue;
            }
            let opens = self.opens[worker];
            for fact in self.facts[worker].iter().filter(|fact| belongs(fact)) {
                if self.begin == self.end {
                    // Of a run that ended in its ramp only this is told.
                    figures.errors += u64::from(fact.fate == Fate::Silent);
                    continue;
                }
                figures.add(fact, (from.max(opens), to), opens, (late, self.known));
            }
        }
        for times in [&mut figures.latencies, &mut figures.service, &mut figures.lag] {
            times.0.sort_unstable();
        }
        let (first, last) = hull.unwrap_or_default();
        (figures, Nanos(last - first).as_secs_f64())
    }
}

/// When a worker's time is over, if that is not with the run.
fn over(situation: &Situation, worker: usize) -> Option<u64> {
    let (delay, warm, length) = situation.times_of(worker);
    let all = situation.ramp as f64 / 1e3 + warm as f64 / 1e3 + length? as f64 / 1e3;
    Some(nanos(delay) + (all * 1e9) as u64)
}

/// Facts out of what a volume saw. The planned starts of an open loop are computed anew.
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

/// Marks who was due before an answer that came while `depth` I/Os were in flight.
fn hold_back(facts: &mut [Fact], depth: u64) {
    let mut ends: Vec<u64> = facts.iter().map(|fact| fact.end).collect();
    ends.sort_unstable();
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
        let step = 1e9 / (rate * mean) * 4_294_967_296.0;
        let mut rng = Rng::new(!situation.seed, worker as u64);
        let began = u128::from(nanos(situation.times_of(worker).0)) << 32;
        let next = began + (rng.uniform() * step * mean) as u128;
        let (per_byte, poisson) = (pace == "bytes", pace == "poisson");
        (pace != "closed").then_some(Planned { next, step, per_byte, poisson, rng })
    }

    /// When the next one is due.
    fn due(&self) -> u64 {
        (self.next >> 32) as u64
    }

    /// The same, and it has so many bytes.
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

/// Times in nanoseconds, sorted when all are there.
#[derive(Debug, Default)]
pub(super) struct Times(pub(super) Vec<u64>);

/// What a set of I/Os comes to in a stretch of time.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub(super) ios: u64,
    pub(super) errors: u64,
    /// Of the errors those that came to light when the window had ended.
    pub(super) late_errors: u64,
    pub(super) bytes: u64,
    /// How long those took that were done, and how long those waited that have no answer; sorted.
    pub(super) latencies: Times,
    /// How long those took from when they really began, and how much later than planned that was.
    pub(super) service: Times,
    pub(super) lag: Times,
    /// Of those that began so many were due while all that may be outstanding were.
    pub(super) held_back: u64,
    /// The least of those that are no shorter, and may be longer.
    pub(super) bounded: Option<u64>,
    /// I/Os that were given up, and those that never began, each with the age of the oldest.
    pub(super) waiting: (u64, u64),
    pub(super) backlog: (u64, u64),
    /// Age of the oldest that had no answer at the end of the stretch.
    pub(super) oldest: Option<u64>,
    /// I/Os in flight, added up over nanoseconds.
    pub(super) under_way: u128,
    /// I/Os that began later than it was planned, or never.
    pub(super) begun_late: u64,
    /// When these were due is known to the workers, not estimated.
    pub(super) exact: bool,
}

impl Figures {
    /// Adds what of an I/O lies in `[from, to)`, and, of the last stretch, what came of it `late`.
    /// What a worker did until it `opens` does not count.
    fn add(&mut self, fact: &Fact, (from, to): (u64, u64), opens: u64, (late, known): (bool, u64)) {
        let (end, age) = (fact.end, fact.end - fact.start);
        self.begun_late += u64::from(fact.given != Some(fact.start));
        self.exact &= self.begun_late <= known;
        self.under_way += u128::from(end.min(to).saturating_sub(fact.start.max(from)));
        // Who begins late by more than the rest of the window begins when that is over.
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

impl Times {
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn mean(&self) -> Option<f64> {
        let sum: u128 = self.0.iter().map(|ns| u128::from(*ns)).sum();
        (!self.0.is_empty()).then(|| sum as f64 / self.0.len() as f64)
    }

    /// The percentile of a share in parts of 10,000, where 100 samples lie above it.
    pub(super) fn percentile(&self, share: u64) -> Option<u64> {
        let count = self.count();
        let rank = (count * share).div_ceil(10_000).max(1);
        (count * (10_000 - share) >= 1_000_000).then(|| self.0[rank as usize - 1])
    }
}
