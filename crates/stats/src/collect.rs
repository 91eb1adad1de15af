//! From the workers' intervals to a result.
//!
//! The runner owns one collector. Each second it hands over every worker's interval and closes
//! the second; at the end it asks for the parts of the result.

mod judged;
mod tracks;

use std::collections::VecDeque;

use block::{Plant, planted};

use crate::buckets::{Buckets, Histograms, Span};
use crate::failures::{self, Failure};
use crate::histogram::Latency;
use crate::interval::{Interval, Tally, per};
use crate::live::{HISTORY_SECONDS, TargetRate, WorkerSecond};
use crate::run::{Direction, PacedTotals, Ramp, Second, Totals, WorkerResult};
use crate::series::Rates;
use crate::timeline::Timeline;
use crate::verdict::{self, Flow, Flows, Seconds};

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
            oldest_ns: vec![0; names.len()],
            names,
            second: Interval::new(),
            whole: Interval::new(),
            timeline: Timeline::default(),
            ramp_errors: 0,
            seconds: Seconds::default(),
            ended_s: 0.0,
            stopped_s: 0.0,
            stood_still_s: 0.0,
            history: VecDeque::with_capacity(HISTORY_SECONDS),
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
        self.rates[worker] = interval.iops();
        self.tracks.add(worker, interval);
        self.oldest_ns[worker] = interval.oldest_ns;
        if let Some(watched) = &mut self.watched {
            let of = &mut watched[worker];
            (of.iops, of.bytes_per_second) = (interval.iops(), interval.bytes_per_second());
            (of.errors, of.oldest_ns) = (interval.errors(), interval.oldest_ns);
            of.latency_ns = interval.latencies().summary();
        }
        if planted(Plant::LeaveOutStarved) && interval.ios() == 0 {
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
        self.timeline.extend(None, late, &late.latencies());
    }

    /// Adds which of a worker's I/Os failed after the last second was closed. It counts in the
    /// totals at once, and in no second.
    pub fn add_late_failures(&mut self, worker: usize, late: &Interval) {
        self.workers[worker].merge_failures(late);
        self.whole.merge_failures(late);
    }

    /// Adds what was done since the last second, which then ends at `t_s` seconds of the phase: a
    /// rest too short to be one of its own.
    pub fn extend_second(&mut self, t_s: f64) {
        self.timeline.extend(Some(t_s), &self.second, &self.second.latencies());
        self.tracks.extend_second(t_s);
        self.stopped_s += verdict::stopped_s(t_s - std::mem::replace(&mut self.ended_s, t_s));
        self.whole.merge(&self.second);
        self.second.clear();
    }

    /// Closes the second that ends at `t_s` seconds of the phase and says what it was like.
    pub fn end_second(&mut self, t_s: f64) -> (Second, Latency) {
        let latencies = self.second.latencies();
        let row = self.timeline.add(t_s, &self.second, &latencies);
        self.tracks.end_second(t_s);
        self.seconds.note(t_s, &self.second, &latencies);
        let lasted_s = t_s - std::mem::replace(&mut self.ended_s, t_s);
        self.stopped_s += verdict::stopped_s(lasted_s);
        if self.history.len() == HISTORY_SECONDS {
            self.history.pop_front();
        }
        self.history.push_back(row.iops);
        if !(planted(Plant::LoseSecond) && lasted_s < 0.999) {
            self.whole.merge(&self.second);
        }
        self.second.clear();
        (row, latencies.summary())
    }

    /// I/Os per second of the latest seconds for a live view, the ramp included.
    pub fn history(&self) -> Vec<f64> {
        self.history.iter().copied().collect()
    }

    /// Forgets everything but the history and what went wrong: the ramp is over and the measured
    /// window begins.
    pub fn restart(&mut self) {
        self.ramp_errors += self.whole.errors() + self.second.errors();
        for connection in [&self.whole.connection, &self.second.connection] {
            self.ramp.connections_lost += connection.lost;
            self.ramp.reconnects += connection.reconnects;
        }
        self.tracks = Tracks::new(self.names.len());
        self.workers.iter_mut().for_each(Interval::clear);
        self.rates.fill(0.0);
        self.second.clear();
        self.whole.clear();
        self.timeline = Timeline::default();
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
        let mut totals =
            Totals { ramp_errors: self.ramp_errors, ramp: self.ramp, ..totals(&self.whole) };
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
        let each = each.zip(self.tracks.rates());
        each.map(|(((name, done), idle), [read, write])| {
            let mut worker = worker(name, done, *idle);
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
        let whole = ("all workers".to_owned(), Flow::of(&self.whole, &self.whole.latencies()));
        let each = self.names.iter().zip(&self.workers);
        let each = each.map(|(name, done)| (name.name.clone(), Flow::of(done, &done.latencies())));
        Flows { each: std::iter::once(whole).chain(each).collect(), seconds: self.seconds }
    }
}

/// The totals of an interval.
pub(crate) fn totals(all: &Interval) -> Totals {
    let seconds = all.seconds();
    Totals {
        seconds,
        ios: all.ios(),
        errors: all.errors(),
        iops: all.iops(),
        bytes_per_second: all.bytes_per_second(),
        mean_outstanding: all.mean_outstanding(),
        read: direction(&all.read, seconds),
        write: direction(&all.write, seconds),
        other: direction(&all.other, seconds),
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
        other: Buckets::of(&done.other.latencies),
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
        other: direction(&done.other, seconds),
        histograms: histograms(done),
        connections: done.connection.into(),
        searched: done.searched,
        missed: None,
    }
}

#[cfg(test)]
mod test {
    use block::{Cause, Fault, Nanos, Op};

    use super::*;
    use crate::failures::Failed;

    /// One worker's second: `ios` reads of 512 bytes that took `ns` each.
    fn part(second: u64, ios: u64, ns: u64) -> Interval {
        let mut interval = Interval::new();
        interval.start = Nanos::from_secs(second);
        interval.end = Nanos::from_secs(second + 1);
        (interval.read.ios, interval.read.bytes) = (ios, ios * 512);
        interval.read.latencies.record_n(ns, ios);
        interval.record_outstanding(1, Nanos(ios * ns));
        interval
    }

    fn collector() -> Collector {
        let name = |name: &str, target: &str| WorkerName {
            name: name.into(),
            volume: format!("ram:1m of {name}"),
            target: target.into(),
            group: Some(0),
            ..WorkerName::default()
        };
        Collector::new(vec![name("a", "t1"), name("b", "t2"), name("c", "t1"), name("d", "")])
    }

    #[test]
    fn percentiles_come_from_merged_histograms() {
        let mut collector = collector();
        // 1 % of the I/Os are slow, all with one worker: the mean of the workers' p99 would be
        // 2575 ns, and that of all I/Os is 100.
        for (worker, ios, ns) in [(0, 33_000, 100), (1, 33_000, 100), (2, 33_000, 100)] {
            collector.add(worker, &part(7, ios, ns));
        }
        collector.add(3, &part(7, 1000, 10_000));
        let (row, latency) = collector.end_second(1.0);
        assert_eq!((row.iops, row.p99_ns, row.max_ns), (100_000.0, Some(100), Some(10_000)));
        assert_eq!((row.mean_ns, latency.p99_9), (Some(199.0), Some(10_000)));
        assert_eq!(collector.workers()[3].latency_ns.p50, Some(10_000));
    }

    #[test]
    fn seconds_add_up_and_the_ramp_is_forgotten() {
        let mut collector = collector();
        for (second, ios) in [(0, 9_000), (1, 1_000), (2, 3_000)] {
            for worker in 0..4 {
                collector.add(worker, &part(second, ios, 1000));
            }
            collector.end_second(second as f64);
            if second == 0 {
                collector.restart();
            }
        }
        let totals = collector.totals();
        assert_eq!((totals.ios, totals.seconds, totals.iops), (16_000, 2.0, 8_000.0));
        assert_eq!((totals.read.bytes_per_second, totals.write.ios), (8_000.0 * 512.0, 0));
        assert_eq!(collector.seconds().iter().map(|s| s.iops).sum::<f64>(), 16_000.0);
        assert_eq!(collector.workers().iter().map(|w| w.ios).sum::<u64>(), 16_000);
        assert_eq!(collector.history(), [36_000.0, 4_000.0, 12_000.0]);
        let flows = collector.flows();
        assert_eq!((flows.each.len(), flows.each[0].1.outstanding_ns), (5, 16_000_000));
        assert_eq!(crate::verdict::littles_law(&flows).verdict, crate::Verdict::Pass);
    }

    #[test]
    fn what_waits_is_in_a_result_that_is_not_over() {
        let mut collector = collector();
        for (worker, oldest_ns) in [(0, 7_000), (1, 900), (2, 0), (3, 5_000)] {
            let mut stalled = part(0, 300, 1000);
            stalled.oldest_ns = oldest_ns;
            collector.add(worker, &stalled);
        }
        let (second, _) = collector.end_second(1.0);
        assert_eq!((second.max_ns, second.oldest_ns), (Some(7_000), Some(7_000)));
        let (totals, workers) = (collector.totals(), collector.workers());
        let mut result = crate::RunResult { totals, workers, ..Default::default() };
        result.count_waiting(collector.oldest_ns());
        let latency = result.totals.latency_ns;
        assert_eq!(result.totals.waiting, crate::Waiting { ios: 2, oldest_ns: 7_000 });
        assert_eq!((latency.max, latency.waiting_from), (Some(7_000), Some(5_000)));
        assert!(latency.at_least(7_000) && !latency.at_least(latency.p50.unwrap()));
        let waiting: Vec<u64> = result.workers.iter().map(|it| it.waiting.ios).collect();
        assert_eq!(waiting, [1, 0, 0, 1]);
        assert_eq!(result.workers[3].latency_ns.max, Some(5_000));
    }

    #[test]
    fn what_comes_back_behind_the_last_second_counts_in_it() {
        let mut collector = collector();
        let mut last = part(0, 100, 1000);
        // One is in flight for the last 400 ms of its second, and for 600 ms more.
        last.record_outstanding(1, Nanos::from_millis(400));
        last.unsettled_ns = 400_000_000;
        collector.add(1, &last);
        collector.end_second(1.0);
        let (mut late, none) = (Interval::new(), Interval::new());
        late.record_outstanding(1, Nanos::from_millis(600));
        late.unsettled_ns = -400_000_000;
        late.read.latencies.record(1_000_000_000);
        (0..4)
            .for_each(|worker| collector.add_late(worker, if worker == 1 { &late } else { &none }));
        let totals = collector.totals();
        assert_eq!((totals.ios, totals.latency_ns.samples, totals.seconds), (100, 101, 1.0));
        assert_eq!((totals.latency_ns.max, totals.waiting.ios), (Some(1_000_000_000), 0));
        let row = collector.seconds()[0];
        assert_eq!((row.iops, row.max_ns), (100.0, Some(1_000_000_000)));
        assert_eq!(row.mean_ns, totals.latency_ns.mean);
        assert_eq!(collector.spans(9)[0].buckets.samples(), 101);
        let check = crate::verdict::littles_law(&collector.flows());
        assert_eq!(check.verdict, crate::Verdict::Pass, "{check:?}");
        // A lost one is found, and one that is counted twice.
        for lie in [late.clone(), none] {
            collector.add_late(1, &lie);
        }
        collector.whole.read.latencies.record(1_000_000_000);
        let check = crate::verdict::littles_law(&collector.flows());
        assert_eq!(check.verdict, crate::Verdict::Fail, "{check:?}");
    }

    #[test]
    fn what_fails_behind_the_last_second_counts_as_failed_only() {
        let mut collector = collector();
        collector.add(1, &part(0, 10, 1));
        collector.end_second(1.0);
        let before = collector.totals();
        let mut late = part(5, 3, 7);
        let (fault, at) = (Fault::Unanswered, Nanos::from_secs(9));
        let failed = Failed { op: Op::Read, fault, cause: Cause::NONE, at, offset: 512, len: 512 };
        late.record_failure(failed, Nanos::from_secs(8), || None);
        collector.add_late_failures(1, &late);
        let after = collector.totals();
        assert_eq!((after.errors, after.read.errors, collector.workers()[1].errors), (1, 1, 1));
        assert_eq!((after.ios, after.seconds), (before.ios, before.seconds));
        assert_eq!(after.latency_ns, before.latency_ns);
        let (failures, _) = collector.failures();
        let first = &failures[0].first;
        assert_eq!((&*failures[0].fault, first.t_s), ("not answered in time", 9.0));
        assert_eq!((first.offset_bytes, &*first.worker), (512, "b"));
        assert_eq!(crate::verdict::ios_succeeded(&after, &[]).verdict, crate::Verdict::Fail);
    }

    #[test]
    fn what_went_wrong_in_the_ramp_is_not_forgotten() {
        let mut collector = collector();
        let mut bad = part(0, 10, 1);
        let (fault, at) = (Fault::Medium, Nanos(5));
        let failed = Failed { op: Op::Read, fault, cause: Cause::NONE, at, offset: 0, len: 512 };
        (0..3).for_each(|_| bad.record_failure(failed, Nanos(5), || None));
        (bad.connection.lost, bad.connection.reconnects) = (2, 1);
        collector.add(0, &bad);
        collector.end_second(1.0);
        // What no second has closed counts, too.
        collector.add(1, &bad);
        collector.restart();
        collector.add(0, &part(1, 10, 1));
        collector.end_second(1.0);
        let totals = collector.totals();
        assert_eq!((totals.errors, totals.connections.connections_lost), (0, 0));
        assert_eq!(totals.ramp_errors, 6);
        assert_eq!(totals.ramp, Ramp { connections_lost: 4, reconnects: 2 });
        let document = serde_json::to_value(totals).unwrap();
        assert_eq!(document["ramp"]["reconnects"], 2);
        let quiet = serde_json::to_value(Totals::default()).unwrap();
        assert!(quiet.get("ramp").is_none());
    }

    #[test]
    fn targets_gather_their_workers() {
        let mut collector = collector();
        (0..4).for_each(|worker| collector.add(worker, &part(0, 10, 1)));
        let rates: Vec<(String, f64)> =
            collector.target_rates().into_iter().map(|row| (row.name, row.iops)).collect();
        let expected = [("t1", 20.0), ("t2", 10.0), ("ram:1m of d", 10.0)];
        assert_eq!(rates, expected.map(|(name, iops)| (name.to_owned(), iops)));
    }
}
