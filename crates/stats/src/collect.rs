//! From the workers' intervals to a result.
//!
//! The runner owns one collector. Each second it hands over every worker's interval and closes
//! the second; at the end it asks for the parts of the result.

mod covered;
mod judged;
mod rows;
mod tracks;

use std::collections::VecDeque;

use block::{Nanos, Plant, planted};

use crate::buckets::{Buckets, Histograms, Span};
use crate::failures::{self, Failure};
use crate::histogram::Latency;
use crate::interval::{Interval, Tally, per};
use crate::live::{Counts, HISTORY_SECONDS, TargetRate, WorkerSecond};
use crate::run::{Direction, PacedTotals, Ramp, Second, Totals, WorkerResult, WorkerRows};
use crate::series::Rates;
use crate::timeline::Timeline;
use crate::verdict::{self, Flow, Flows, Seconds};

use self::covered::Covered;
pub(crate) use self::covered::Stretch;
use self::rows::Rows;
use self::tracks::Tracks;

/// Who a worker is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerName {
    /// As "manager 1 worker 3".
    pub name: String,
    /// URI of the volume it drives.
    pub volume: String,
    /// Target that serves it; empty for local storage.
    pub target: String,
    /// Workers of the same number do the same for as long as they work, so that they are held
    /// against each other; `None` for one whose own plan may give it nothing to do.
    pub group: Option<u32>,
    /// Workers of the same number do the same, at whatever time they begin and end.
    pub load: u32,
    /// It begins, or ends, at a time of its own.
    pub has_turn: bool,
    /// Time that it is to be measured, in millionths of a second; `None` where its work, or that of
    /// others, may end it before.
    pub asked_us: Option<u64>,
}

/// Merges intervals: per worker over time, and per second over workers.
#[derive(Debug)]
pub struct Collector {
    names: Vec<WorkerName>,
    workers: Vec<Interval>,
    /// I/Os per second of each worker in the open second, and the age of its oldest at its end.
    rates: Vec<f64>,
    oldest_ns: Vec<u64>,
    second: Interval,
    whole: Interval,
    timeline: Timeline,
    tracks: Tracks,
    rows: Rows,
    /// Time in which I/Os could happen.
    covered: Covered,
    /// I/Os that failed before the measured window.
    ramp_errors: u64,
    /// How Little's law holds in each.
    seconds: Seconds,
    /// Where the last second ended, and what no second accounts for, in seconds.
    ended_s: f64,
    stopped_s: f64,
    /// What the collecting thread was kept from by more than others, in seconds.
    stood_still_s: f64,
    history: VecDeque<f64>,
    /// What was done since the run began.
    counts: Counts,
    /// What each worker did in the open second, where somebody watches.
    watched: Option<Vec<WorkerSecond>>,
    /// What became of connections before the window that is measured now.
    ramp: Ramp,
}

impl Collector {
    /// For these workers; later calls name them by their place in the list.
    pub fn new(names: Vec<WorkerName>) -> Collector {
        Collector {
            workers: names.iter().map(|_| Interval::new()).collect(),
            rates: vec![0.0; names.len()],
            tracks: Tracks::new(names.len()),
            rows: Rows::new(names.len()),
            oldest_ns: vec![0; names.len()],
            names,
            second: Interval::new(),
            whole: Interval::new(),
            timeline: Timeline::default(),
            covered: Covered::default(),
            ramp_errors: 0,
            seconds: Seconds::default(),
            ended_s: 0.0,
            stopped_s: 0.0,
            stood_still_s: 0.0,
            history: VecDeque::with_capacity(HISTORY_SECONDS),
            counts: Counts::default(),
            watched: None,
            ramp: Ramp::default(),
        }
    }

    /// Keeps what each worker does in a second, or no longer.
    pub fn watch(&mut self, wanted: bool) {
        if wanted == self.watched.is_some() {
            return;
        }
        let of = |name: &WorkerName| WorkerSecond {
            name: name.name.clone(),
            volume: name.volume.clone(),
            target: name.target.clone(),
            ..WorkerSecond::default()
        };
        self.watched = wanted.then(|| self.names.iter().map(of).collect());
    }

    /// What each worker did by its latest interval; empty unless it is [watched](Self::watch).
    pub fn worker_seconds(&self) -> Vec<WorkerSecond> {
        self.watched.clone().unwrap_or_default()
    }

    /// Adds what a worker did since its last interval. It counts in the totals when its second
    /// is closed.
    pub fn add(&mut self, worker: usize, interval: &Interval) {
        self.workers[worker].merge(interval);
        self.workers[worker].settle();
        self.rates[worker] = interval.iops();
        self.tracks.add(worker, interval);
        self.rows.add(worker, interval);
        self.covered.add(interval.start, interval.end);
        self.oldest_ns[worker] = interval.oldest_ns;
        if let Some(watched) = &mut self.watched {
            let of = &mut watched[worker];
            (of.iops, of.bytes_per_second) = (interval.iops(), interval.bytes_per_second());
            (of.errors, of.oldest_ns) = (interval.errors(), interval.oldest_ns);
            of.latency_ns = interval.latencies().summary();
        }
        if planted(Plant::LeaveOutStarved) && interval.completed() == 0 {
            return;
        }
        self.second.merge(interval);
    }

    /// Adds what came of a worker's I/Os that were in flight when the last second was closed, or
    /// planned and not begun: they were begun in the window, so their latencies count in it, and
    /// in its last second. Without a second there was no window.
    pub fn add_late(&mut self, worker: usize, late: &Interval) {
        if self.timeline.is_empty() || planted(Plant::DropUnderWay) {
            return;
        }
        self.workers[worker].merge_late(late);
        self.whole.merge_late(late);
        self.timeline.extend_late(&late.latencies());
        self.rows.add_late(worker, late);
    }

    /// Adds which of a worker's I/Os failed after the last second was closed. It counts in the
    /// totals at once, and in no second.
    pub fn add_late_failures(&mut self, worker: usize, late: &Interval) {
        self.workers[worker].merge_failures(late);
        self.rows.add_late_failures(worker, late);
        self.whole.merge_failures(late);
    }

    /// Adds what was done since the last second, which then ends at `t_s` seconds of the phase: a
    /// rest too short to be one of its own.
    pub fn extend_second(&mut self, t_s: f64) {
        self.second.settle();
        let stretch = self.covered.close();
        self.timeline.extend(stretch, &self.second, &self.second.latencies());
        self.tracks.extend_second(stretch.map(|stretch| stretch.to_s));
        self.rows.extend_second(stretch.map(|stretch| stretch.to_s));
        self.stopped_s += verdict::stopped_s(t_s - std::mem::replace(&mut self.ended_s, t_s));
        self.whole.merge(&self.second);
        self.counts.add(&self.second);
        self.second.clear();
    }

    /// Closes the second that ends at `t_s` seconds of the phase and says what it was like. One in
    /// which no I/O could happen has no row; what it holds all the same is of the row before it.
    pub fn end_second(&mut self, t_s: f64) -> (Second, Latency) {
        self.second.settle();
        let latencies = self.second.latencies();
        let row = match self.covered.close() {
            Some(stretch) => {
                self.tracks.end_second(stretch.to_s);
                self.rows.end_second(stretch.to_s);
                self.timeline.add(stretch, &self.second, &latencies)
            }
            None => {
                self.timeline.extend(None, &self.second, &latencies);
                self.tracks.extend_second(None);
                self.rows.extend_second(None);
                Second { t: t_s, ..Second::default() }
            }
        };
        self.seconds.note(t_s, &self.second, &self.second.all_latencies());
        let lasted_s = t_s - std::mem::replace(&mut self.ended_s, t_s);
        self.stopped_s += verdict::stopped_s(lasted_s);
        if self.history.len() == HISTORY_SECONDS {
            self.history.pop_front();
        }
        self.history.push_back(row.iops);
        if !(planted(Plant::LoseSecond) && lasted_s < 0.999) {
            self.whole.merge(&self.second);
        }
        self.counts.add(&self.second);
        self.second.clear();
        (row, latencies.summary())
    }

    /// I/Os per second of the latest seconds for a live view, the ramp included.
    pub fn history(&self) -> Vec<f64> {
        self.history.iter().copied().collect()
    }

    /// What was done in all closed seconds since the run began, the ramp included.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Forgets everything but the history, the counters and what went wrong: the ramp is over and
    /// the measured window begins.
    pub fn restart(&mut self) {
        self.ramp_errors += self.whole.errors() + self.second.errors();
        for connection in [&self.whole.connection, &self.second.connection] {
            self.ramp.connections_lost += connection.lost;
            self.ramp.reconnects += connection.reconnects;
        }
        self.tracks = Tracks::new(self.names.len());
        self.rows = Rows::new(self.names.len());
        self.workers.iter_mut().for_each(Interval::clear);
        self.rates.fill(0.0);
        self.second.clear();
        self.whole.clear();
        self.timeline = Timeline::default();
        self.covered = Covered::default();
        self.seconds = Seconds::default();
        (self.ended_s, self.stopped_s, self.stood_still_s) = (0.0, 0.0, 0.0);
    }

    /// The whole process, or its host, stood still for so many seconds of the window.
    pub fn note_standstill(&mut self, seconds: f64) {
        self.stood_still_s += seconds;
    }

    /// I/Os per second of each target, or of each volume without one, by the latest intervals.
    pub fn target_rates(&self) -> Vec<TargetRate> {
        let mut rows: Vec<TargetRate> = Vec::new();
        for (name, iops) in self.names.iter().zip(&self.rates) {
            let key = if name.target.is_empty() { &name.volume } else { &name.target };
            match rows.iter_mut().find(|row| row.name == *key) {
                Some(row) => row.iops += iops,
                None => rows.push(TargetRate { name: key.clone(), iops: *iops }),
            }
        }
        rows
    }

    /// Age of each worker's oldest I/O that had no answer at its latest interval's end; 0 without.
    pub fn oldest_ns(&self) -> &[u64] {
        &self.oldest_ns
    }

    /// Everything of the closed seconds in one interval.
    pub fn whole(&self) -> &Interval {
        &self.whole
    }

    /// The closed seconds, or longer stretches of equal length where they are many.
    pub fn seconds(&self) -> Vec<Second> {
        self.timeline.rows()
    }

    /// For how long nothing ran in the window, in seconds: what no second accounts for because it
    /// lasted too long, or all standstills that were noted, where that is more.
    pub fn stopped_s(&self) -> f64 {
        self.stopped_s.max(self.stood_still_s)
    }

    /// The histograms of all closed seconds.
    pub fn histograms(&self) -> Histograms {
        histograms(&self.whole)
    }

    /// The histograms over time, in about so many spans at most.
    pub fn spans(&self, most: usize) -> Vec<Span> {
        self.timeline.spans(most)
    }

    /// The sums of all closed seconds.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            ramp_errors: self.ramp_errors,
            ramp: self.ramp,
            ..totals(&self.whole, self.covered.total())
        };
        if planted(Plant::AveragePercentiles) {
            let medians = self.workers().into_iter().map(|worker| worker.latency_ns.p50);
            let medians: Vec<u64> = medians.flatten().collect();
            let sum: u64 = medians.iter().sum();
            totals.latency_ns.p50 = sum.checked_div(medians.len() as u64);
        }
        totals
    }

    /// One row for each worker.
    pub fn workers(&self) -> Vec<WorkerResult> {
        let each = self.names.iter().zip(&self.workers).zip(self.tracks.idle_seconds());
        let each = each.zip(self.tracks.rates()).enumerate();
        each.map(|(index, (((name, done), idle), [read, write]))| {
            let mut worker = worker(name, done, *idle);
            worker.intervals = self.rows.of_worker(index);
            // A direction without an I/O has none.
            let known = |rates: &Rates| if rates.is_none() { Rates::default() } else { *rates };
            (worker.read.each_second, worker.write.each_second) = (known(read), known(write));
            worker
        })
        .collect()
    }

    /// Bytes that a worker read and wrote in a ramp of its own: no figure has them.
    pub fn ramp_bytes(&self, worker: usize) -> [i64; 2] {
        self.workers[worker].ramp_bytes
    }

    /// Which I/Os failed, the earliest first, and how many more there are that are only counted.
    pub fn failures(&self) -> (Vec<Failure>, u64) {
        let workers = self.names.iter().zip(&self.workers);
        let each = workers.map(|(name, done)| (&*name.name, &*name.volume, &done.failures));
        failures::listed(each, self.whole.start)
    }

    /// What Little's law is checked with: the whole first, then each worker; and what it came to
    /// in the seconds.
    pub fn flows(&self) -> Flows {
        let whole = ("all workers".to_owned(), Flow::of(&self.whole, &self.whole.all_latencies()));
        let each = self.names.iter().zip(&self.workers);
        let each =
            each.map(|(name, done)| (name.name.clone(), Flow::of(done, &done.all_latencies())));
        Flows { each: std::iter::once(whole).chain(each).collect(), seconds: self.seconds }
    }
}

/// The totals of an interval of which so much is covered by workers.
fn totals(all: &Interval, covered: Nanos) -> Totals {
    let seconds = covered.as_secs_f64();
    Totals {
        seconds,
        ios: all.ios(),
        errors: all.errors(),
        iops: per(all.ios() as f64, seconds),
        bytes_per_second: per(all.bytes() as f64, seconds),
        mean_outstanding: per(all.outstanding_ns().max(0) as f64, covered.0 as f64),
        read: direction(&all.read, seconds),
        write: direction(&all.write, seconds),
        trim: direction(&all.trim, seconds),
        flush: direction(&all.flush, seconds),
        latency_ns: all.latencies().summary(),
        waiting: all.waiting,
        ramp_errors: 0,
        connections: all.connection.into(),
        ramp: Ramp::default(),
        paced: all.paced.as_ref().map(|paced| PacedTotals {
            service_ns: paced.service.summary(),
            lag_ns: paced.lag.summary(),
            missed: paced.missed,
            backlog: paced.backlog,
        }),
    }
}

fn direction(tally: &Tally, seconds: f64) -> Direction {
    Direction {
        ios: tally.ios,
        errors: tally.errors,
        iops: per(tally.ios as f64, seconds),
        bytes_per_second: per(tally.bytes as f64, seconds),
        bytes: tally.bytes,
        latency_ns: tally.latencies.summary(),
        ..Direction::default()
    }
}

fn histograms(done: &Interval) -> Histograms {
    Histograms {
        read: Buckets::of(&done.read.latencies),
        write: Buckets::of(&done.write.latencies),
        trim: Buckets::of(&done.trim.latencies),
        flush: Buckets::of(&done.flush.latencies),
    }
}

fn worker(name: &WorkerName, done: &Interval, idle_seconds: u32) -> WorkerResult {
    let seconds = done.seconds();
    WorkerResult {
        name: name.name.clone(),
        volume: name.volume.clone(),
        target: name.target.clone(),
        ios: done.ios(),
        errors: done.errors(),
        seconds,
        iops: done.iops(),
        bytes_per_second: done.bytes_per_second(),
        mean_outstanding: done.mean_outstanding(),
        latency_ns: done.latencies().summary(),
        waiting: done.waiting,
        idle_seconds,
        read: direction(&done.read, seconds),
        write: direction(&done.write, seconds),
        trim: direction(&done.trim, seconds),
        flush: direction(&done.flush, seconds),
        histograms: histograms(done),
        connections: done.connection.into(),
        searched: done.searched,
        missed: None,
        asked_seconds: name.asked_us.map(|us| us as f64 / 1e6),
        intervals: WorkerRows::default(),
    }
}

#[cfg(test)]
mod test;
