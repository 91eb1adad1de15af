//! Collects the workers' intervals into a result.
//!
//! The runner owns one collector. Each second the runner hands over every worker's interval and
//! closes the second; at the end it requests the parts of the result.

mod covered;
mod judged;
mod rows;
mod tracks;

use std::collections::VecDeque;

use block::{Nanos, Plant, planted};

use crate::buckets::{Buckets, Histograms, Span};
use crate::failures::{self, Failure};
use crate::histogram::{Complete, Exact, Latencies};
use crate::interval::{Interval, Paced, Tally, per};
use crate::live::{Counts, HISTORY_SECONDS, TargetRate, WorkerSecond};
use crate::run::{
    Direction, ExactTotals, PacedTotals, Ramp, Second, Totals, WorkerResult, WorkerRows,
};
use crate::series::Rates;
use crate::timeline::Timeline;
use crate::verdict::{self, Flow, Flows, Seconds};

use self::covered::Covered;
pub(crate) use self::covered::Stretch;
use self::rows::Rows;
use self::tracks::Tracks;

/// Identity of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerName {
    /// Name, such as "manager 1 worker 3".
    pub name: String,
    /// URI of the volume that the worker drives.
    pub volume: String,
    /// Target that serves the volume; empty for local storage.
    pub target: String,
    /// Workers with the same number do the same work throughout, so they are compared with each
    /// other; `None` for a worker whose own plan may leave it idle.
    pub group: Option<u32>,
    /// Workers with the same number do the same work, whenever they begin and end.
    pub load: u32,
    /// True if the worker begins or ends at another time than the run.
    pub has_turn: bool,
    /// Time for which the worker is to be measured, in microseconds; `None` if its own work or that
    /// of other workers may end it earlier.
    pub asked_us: Option<u64>,
}

/// Merges intervals: per worker over time, and per second over workers.
#[derive(Debug)]
pub struct Collector {
    names: Vec<WorkerName>,
    workers: Vec<Interval>,
    /// IOPS of each worker in the open second, and the age of its oldest I/O at the end of that
    /// second.
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
    /// Check of Little's law in each second.
    seconds: Seconds,
    /// End of the last second, and the time that no second accounts for, in seconds.
    ended_s: f64,
    stopped_s: f64,
    /// Time for which the collecting thread could not run for reasons beyond load from others, in
    /// seconds.
    stood_still_s: f64,
    history: VecDeque<f64>,
    /// Counters since the run began.
    counts: Counts,
    /// Each worker's open second, if a viewer wants it.
    watched: Option<Vec<WorkerSecond>>,
    /// Lost and restored connections before the current measured window.
    ramp: Ramp,
}

impl Collector {
    /// Creates a collector for these workers; later calls name a worker by its index in the list.
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

    /// Starts or stops recording each worker's seconds.
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

    /// Returns each worker's latest interval; empty unless the collector is [watched](Self::watch).
    pub fn worker_seconds(&self) -> Vec<WorkerSecond> {
        self.watched.clone().unwrap_or_default()
    }

    /// Adds the interval of a worker since the previous call. The totals include the interval when
    /// its second is closed.
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

    /// Adds the completions of a worker's I/Os that were in flight, or planned and not started,
    /// when the last second was closed. These I/Os were issued in the window, so their latencies
    /// count in its last second. Without a second there was no window.
    pub fn add_late(&mut self, worker: usize, late: &Interval) {
        if self.timeline.is_empty() || planted(Plant::DropUnderWay) {
            return;
        }
        self.workers[worker].merge_late(late);
        self.whole.merge_late(late);
        self.timeline.extend_late(&late.latencies());
        self.rows.add_late(worker, late);
    }

    /// Adds a worker's I/Os that failed after the last second was closed. They count in the totals
    /// at once, and in no second.
    pub fn add_late_failures(&mut self, worker: usize, late: &Interval) {
        self.workers[worker].merge_failures(late);
        self.rows.add_late_failures(worker, late);
        self.whole.merge_failures(late);
    }

    /// Adds the work since the last second and moves that second's end to `t_s` seconds of the
    /// phase: the rest is too short for a separate second.
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

    /// Closes the second that ends at `t_s` seconds of the phase and returns its row. A second in
    /// which no I/O could happen has no row; any I/Os in it belong to the previous row.
    pub fn end_second(&mut self, t_s: f64) -> (Second, Latencies) {
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
        (row, latencies)
    }

    /// Returns the IOPS of the latest seconds for a live view, the ramp included.
    pub fn history(&self) -> Vec<f64> {
        self.history.iter().copied().collect()
    }

    /// Counters of all closed seconds since the run began, the ramp included.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Clears everything but the history, the counters and the errors: the ramp is over and the
    /// measured window begins.
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

    /// Adds a standstill of the whole process, or its host, in seconds of the window.
    pub fn note_standstill(&mut self, seconds: f64) {
        self.stood_still_s += seconds;
    }

    /// Returns the latest IOPS of each target, or of each volume that has no target.
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

    /// Returns the age in nanoseconds of each worker's oldest unanswered I/O at the end of its
    /// latest interval; 0 if there is none.
    pub fn oldest_ns(&self) -> &[u64] {
        &self.oldest_ns
    }

    /// Returns one interval that covers all closed seconds.
    pub fn whole(&self) -> &Interval {
        &self.whole
    }

    /// Returns the closed seconds, or longer stretches of equal length if there are many.
    pub fn seconds(&self) -> Vec<Second> {
        self.timeline.rows()
    }

    /// Returns the time in seconds in which nothing ran in the window: the time that no second
    /// accounts for because it was too long, or the sum of all noted standstills if that is
    /// greater.
    pub fn stopped_s(&self) -> f64 {
        self.stopped_s.max(self.stood_still_s)
    }

    /// Returns the histograms of all closed seconds.
    pub fn histograms(&self) -> Histograms {
        histograms(&self.whole)
    }

    /// Returns the data that histograms lack, so that results of several hosts can be merged.
    pub fn exact(&self) -> ExactTotals {
        let whole = &self.whole;
        let paced = |of: fn(&Paced) -> &Latencies| {
            whole.paced.as_ref().map(|paced| Complete::of(of(paced)))
        };
        ExactTotals {
            all: Exact::of(&whole.latencies()),
            read: Exact::of(&whole.read.latencies),
            write: Exact::of(&whole.write.latencies),
            trim: Exact::of(&whole.trim.latencies),
            flush: Exact::of(&whole.flush.latencies),
            service: paced(|paced| &paced.service),
            lag: paced(|paced| &paced.lag),
        }
    }

    /// Returns the histograms over time, in at most about `most` spans.
    pub fn spans(&self, most: usize) -> Vec<Span> {
        self.timeline.spans(most)
    }

    /// Returns the sums of all closed seconds.
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

    /// Returns one row for each worker.
    pub fn workers(&self) -> Vec<WorkerResult> {
        let each = self.names.iter().zip(&self.workers).zip(self.tracks.idle_seconds());
        let each = each.zip(self.tracks.rates()).enumerate();
        each.map(|(index, (((name, done), idle), [read, write]))| {
            let mut worker = worker(name, done, *idle);
            worker.intervals = self.rows.of_worker(index);
            // A direction without I/Os has no rates.
            let known = |rates: &Rates| if rates.is_none() { Rates::default() } else { *rates };
            (worker.read.each_second, worker.write.each_second) = (known(read), known(write));
            worker
        })
        .collect()
    }

    /// Returns the bytes that a worker read and wrote in its own ramp; no figure includes them.
    pub fn ramp_bytes(&self, worker: usize) -> [i64; 2] {
        self.workers[worker].ramp_bytes
    }

    /// Returns the failed I/Os, earliest first, and the number of further ones that are only
    /// counted.
    pub fn failures(&self) -> (Vec<Failure>, u64) {
        let workers = self.names.iter().zip(&self.workers);
        let each = workers.map(|(name, done)| (&*name.name, &*name.volume, &done.failures));
        failures::listed(each, self.whole.start)
    }

    /// Returns the input of the check of Little's law: all workers together, then each worker, and
    /// the results of the seconds.
    pub fn flows(&self) -> Flows {
        let whole = ("all workers".to_owned(), Flow::of(&self.whole, &self.whole.all_latencies()));
        let each = self.names.iter().zip(&self.workers);
        let each =
            each.map(|(name, done)| (name.name.clone(), Flow::of(done, &done.all_latencies())));
        Flows { each: std::iter::once(whole).chain(each).collect(), seconds: self.seconds }
    }
}

/// Returns the totals of an interval in which workers covered `covered`.
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
