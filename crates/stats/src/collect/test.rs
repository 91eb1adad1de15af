//! Rows and totals of workers that end, wait and fail at any time.

use block::{Cause, Fault, Op};

use super::*;
use crate::failures::Failed;

/// Returns one worker's second with `ios` reads of 512 bytes that took `ns` nanoseconds each.
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
    let (row, latencies) = collector.end_second(1.0);
    let latency = latencies.summary();
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

/// Returns an interval with `ios` reads of 512 bytes.
fn between(from_ms: u64, to_ms: u64, ios: u64) -> Interval {
    let mut done = part(0, ios, 1000);
    (done.start, done.end) = (Nanos::from_millis(from_ms), Nanos::from_millis(to_ms));
    done
}

#[test]
fn rows_sum_to_the_totals_wherever_work_ends() {
    let mut collector = collector();
    // The collector looks at whole seconds. The first worker hands over 3 ms late and ends by
    // its count; the third begins within the second, and the fourth alone after a pause.
    let seconds: [&[(usize, Interval)]; 4] = [
        &[(0, between(100, 1103, 900)), (1, between(100, 1100, 200))],
        &[(0, between(1103, 1400, 300)), (2, between(1300, 1450, 90))],
        &[],
        &[(3, between(3500, 3511, 60_000))],
    ];
    for (number, second) in seconds.iter().enumerate() {
        second.iter().for_each(|(worker, done)| collector.add(*worker, done));
        collector.end_second(number as f64 + 1.0);
    }
    let (rows, totals) = (collector.seconds(), collector.totals());
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-6 * b.max(1.0), "{a}, {b}");
    let lengths: Vec<f64> = rows.iter().map(|row| (row.seconds * 1e3).round()).collect();
    assert_eq!(lengths, [1003.0, 347.0, 11.0]);
    assert_eq!(rows.iter().map(|row| row.ios).sum::<u64>(), totals.ios);
    rows.iter().for_each(|row| near(row.iops * row.seconds, row.ios as f64));
    near(rows.iter().map(|row| row.seconds).sum(), totals.seconds);
    near(totals.iops * totals.seconds, 61_490.0);
    let ends: Vec<f64> = rows.iter().map(|row| (row.t * 1e3).round()).collect();
    assert_eq!(ends, [1003.0, 1350.0, 3411.0]);
}

#[test]
fn what_fails_when_nobody_is_there_is_of_the_row_before() {
    let mut collector = collector();
    collector.add(0, &part(0, 10, 1));
    collector.end_second(1.0);
    let mut lost = Interval::new();
    lost.connection.lost = 2;
    collector.add(0, &lost);
    collector.end_second(2.0);
    let rows = collector.seconds();
    assert_eq!((rows.len(), rows[0].connections_lost, rows[0].seconds), (1, 2, 1.0));
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
    // One I/O is in flight for the last 400 ms of its second, and for 600 ms more.
    last.record_outstanding(1, Nanos::from_millis(400));
    last.unsettled_ns = 400_000_000;
    collector.add(1, &last);
    collector.end_second(1.0);
    let (mut late, none) = (Interval::new(), Interval::new());
    late.record_outstanding(1, Nanos::from_millis(600));
    late.unsettled_ns = -400_000_000;
    late.read.latencies.record(1_000_000_000);
    (0..4).for_each(|worker| collector.add_late(worker, if worker == 1 { &late } else { &none }));
    let totals = collector.totals();
    assert_eq!((totals.ios, totals.latency_ns.samples, totals.seconds), (100, 101, 1.0));
    assert_eq!((totals.latency_ns.max, totals.waiting.ios), (Some(1_000_000_000), 0));
    let row = collector.seconds()[0];
    assert_eq!((row.iops, row.max_ns), (100.0, Some(1_000_000_000)));
    assert_eq!(row.mean_ns, totals.latency_ns.mean);
    assert_eq!(collector.spans(9)[0].buckets.samples(), 101);
    let check = crate::verdict::littles_law(&collector.flows());
    assert_eq!(check.verdict, crate::Verdict::Pass, "{check:?}");
    // A lost I/O is found, and so is one that is counted twice.
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
    // Failures that no second has closed count, too.
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
