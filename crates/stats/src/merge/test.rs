use block::{Nanos, Op, splitmix};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::run::{Host as Machine, Job, PART_LAYOUT, Part, WallClock};
use crate::verdict::{Verdict, complete};
use crate::{Collector, Interval, Latencies, WorkerName};

const STARTED_NS: u64 = 1_764_500_000_000_000_000;

/// An I/O: operation, and latency in nanoseconds.
type Io = (Op, u64);

/// A part with these I/Os in each second.
fn part(number: u64, seconds: &[Vec<Io>]) -> RunResult {
    part_by(&mut collector(), &mut Interval::new(), number, seconds)
}

fn collector() -> Collector {
    let (name, volume) = ("manager 1 worker 1".into(), "ram:1g".into());
    Collector::new(vec![WorkerName { name, volume, ..WorkerName::default() }])
}

/// Makes a part in memory that is there.
fn part_by(
    collector: &mut Collector,
    done: &mut Interval,
    number: u64,
    seconds: &[Vec<Io>],
) -> RunResult {
    collector.restart();
    for (at, ios) in (0..).zip(seconds) {
        done.clear();
        (done.start, done.end) = (Nanos::from_secs(at), Nanos::from_secs(at + 1));
        for (op, ns) in ios {
            done.record(*op, 4096, Nanos(*ns));
        }
        done.record_outstanding(2, Nanos::from_secs(1));
        collector.add(0, done);
        collector.end_second(at as f64 + 1.0);
    }
    finished(collector, number, seconds.len() as u64)
}

fn finished(collector: &Collector, number: u64, seconds: u64) -> RunResult {
    let checks = complete(Vec::new());
    let part = Part {
        layout: PART_LAYOUT,
        host: format!("host-{number:04}"),
        machine: format!("machine {number}"),
        build: "0.1.0 (abc)".into(),
        base_seed: 1,
        clock: WallClock {
            source: "tsc".into(),
            synchronised: Some(true),
            error_ns: Some(100_000),
            ..WallClock::default()
        },
        planned_ns: Some(STARTED_NS),
        started_ns: STARTED_NS + number * 1000,
        ended_ns: STARTED_NS + number * 1000 + seconds * 1_000_000_000,
        exact: collector.exact(),
        window: None,
    };
    let group = json!({ "volumes": ["ram:1g"], "workload": { "outstanding": 2 } });
    RunResult {
        schema_version: SCHEMA_VERSION,
        class: Class::of(&checks),
        checks,
        job: Job { outstanding: Some(2), workers: 1, volumes: 1, ..Job::default() },
        spec: json!({ "seed": number, "steps": [{ "groups": [group] }] }),
        host: Machine { cores: 2, ..Machine::default() },
        started: format!("2025-11-30T10:53:20.{:06}Z", number),
        seed: 100 + number,
        totals: collector.totals(),
        workers: collector.workers(),
        intervals: collector.seconds(),
        histograms: collector.histograms(),
        spans: collector.spans(usize::MAX),
        part: Some(part),
        ..RunResult::default()
    }
}

fn merged(parts: impl IntoIterator<Item = RunResult>) -> Result<RunResult, Refused> {
    let mut merge = Merge::default();
    parts.into_iter().try_for_each(|part| merge.add(part))?;
    merge.finish(None)
}

/// Draws I/Os: latencies of a drive with a tail, and now and then of anything.
fn drawn(seed: u64, count: usize) -> Vec<Io> {
    let mut state = seed;
    let mut next = || splitmix(&mut state);
    let mut one = || {
        let op = [Op::Read, Op::Write, Op::Trim, Op::Flush][(next() % 16 % 7 % 4) as usize];
        let ns = match next() % 50 {
            0 => next() >> (next() % 60),
            1..5 => 1_000_000 + next() % 9_000_000,
            _ => 40_000 + next() % 60_000,
        };
        (op, ns)
    };
    (0..count).map(|_| one()).collect()
}

/// Everything that the one histogram of all I/Os says.
fn agree(result: &RunResult, ios: &[Io]) {
    let of = |ops: &[Op]| {
        let mut latencies = Latencies::new();
        ios.iter().filter(|(op, _)| ops.contains(op)).for_each(|(_, ns)| latencies.record(*ns));
        latencies
    };
    let totals = &result.totals;
    let all = of(&[Op::Read, Op::Write, Op::Trim]);
    assert_eq!(totals.latency_ns, all.summary());
    let kept = &result.histograms;
    for (op, direction, buckets) in [
        (Op::Read, &totals.read, &kept.read),
        (Op::Write, &totals.write, &kept.write),
        (Op::Trim, &totals.trim, &kept.trim),
        (Op::Flush, &totals.flush, &kept.flush),
    ] {
        let one = of(&[op]);
        assert_eq!(direction.latency_ns, one.summary(), "{op:?}");
        assert_eq!(direction.ios, one.count());
        assert_eq!(*buckets, crate::Buckets::of(&one));
        // Percentiles that a summary withholds are included.
        for p in [0.001, 0.01, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999, 1.0] {
            let from_document = buckets.percentile(p).map(|ns| {
                ns.clamp(direction.latency_ns.min.unwrap(), direction.latency_ns.max.unwrap())
            });
            assert_eq!(from_document, one.percentile(p), "{op:?} {p}");
        }
    }
    assert_eq!(totals.ios, all.count());
}

/// A thousand drawn splits over 1 to 64 parts are one histogram, bit for bit.
#[test]
fn any_split_merges_to_what_one_process_counts() {
    let (mut collector, mut done) = (collector(), Interval::new());
    for seed in 0..1000_u64 {
        let mut state = seed;
        let most = 1 << (splitmix(&mut state) % 7);
        let hosts = 1 + splitmix(&mut state) % most;
        let count = (splitmix(&mut state) % 3000) as usize;
        let ios = drawn(seed, count);
        let mut split: Vec<Vec<Vec<Io>>> = vec![vec![Vec::new(); 2]; hosts as usize];
        for io in &ios {
            let host = (splitmix(&mut state) % hosts) as usize;
            split[host][(splitmix(&mut state) % 2) as usize].push(*io);
        }
        let each = (0..).zip(&split);
        let parts =
            each.map(|(number, seconds)| part_by(&mut collector, &mut done, number, seconds));
        let result = merged(parts).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        agree(&result, &ios);
        assert_eq!(result.hosts.len(), hosts as usize);
    }
}

proptest! {
    /// The order of the parts does not matter.
    #[test]
    fn any_order_is_the_same(seed in any::<u64>(), turn in 0_usize..5) {
        let all: Vec<RunResult> =
            (0..5).map(|n| part(n, &[drawn(seed ^ n, 300), drawn(seed ^ n ^ 77, 200)])).collect();
        let mut turned = all.clone();
        turned.rotate_left(turn);
        let (one, other) = (merged(all).unwrap(), merged(turned).unwrap());
        let text = |result: &RunResult| serde_json::to_string(result).unwrap();
        prop_assert_eq!(one.totals, other.totals);
        // All but the first part's own job and host.
        let other = RunResult { spec: one.spec.clone(), job: one.job.clone(), ..other };
        prop_assert_eq!(text(&one), text(&other));
    }

    /// Rows of all hosts are the sums of theirs.
    #[test]
    fn seconds_add_up(seed in any::<u64>(), hosts in 1_u64..9) {
        let parts: Vec<RunResult> =
            (0..hosts).map(|n| part(n, &[drawn(seed ^ n, 300), drawn(seed ^ n, 200)])).collect();
        let result = merged(parts.clone()).unwrap();
        prop_assert_eq!(result.intervals.len(), 2);
        for (at, row) in result.intervals.iter().enumerate() {
            let ios: u64 = parts.iter().map(|part| part.intervals[at].ios).sum();
            prop_assert_eq!(row.ios, ios);
            prop_assert!((row.iops * row.seconds - ios as f64).abs() < 1e-6);
            let longest = parts.iter().filter_map(|part| part.intervals[at].max_ns).max();
            prop_assert_eq!(row.max_ns, longest);
        }
        let ios: u64 = parts.iter().map(|part| part.totals.ios).sum();
        prop_assert!((result.totals.iops * result.totals.seconds - ios as f64).abs() < 1e-3);
        prop_assert_eq!(result.job.outstanding, Some(2 * hosts));
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let good = || [part(1, &[drawn(1, 50)]), part(2, &[drawn(2, 50)])];
    assert!(merged(good()).is_ok());
    type Spoil = fn(&mut RunResult);
    let spoils: [(Spoil, &str); 17] = [
        (
            |r| r.spec["steps"][0]["groups"][0]["workload"]["outstanding"] = 4.into(),
            "steps.0.groups.0.workload.outstanding: 2 on host-0001, 4 on host-0002",
        ),
        (|r| r.spec["steps"][0]["groups"][0]["volumes"] = json!(["null:1g"]), "settings differ"),
        (|r| r.tool.version = "0.2.0".into(), "builds differ"),
        (|r| r.part.as_mut().unwrap().build = "0.1.0 (def)".into(), "builds differ"),
        (|r| r.part.as_mut().unwrap().clock.source = "hpet".into(), "clock sources differ"),
        (|r| r.origin = crate::Origin::Emulated, "origins differ"),
        (|r| r.seed = 101, "seeds collide: host-0001 and host-0002"),
        (
            |r| r.part.as_mut().unwrap().host = "host-0001".into(),
            "two machines are called host-0001",
        ),
        (
            |r| {
                let part = r.part.as_mut().unwrap();
                (part.host, part.machine) = ("host-0001".into(), "machine 1".into());
            },
            "host host-0001 twice",
        ),
        (|r| r.part.as_mut().unwrap().host = "a\u{1b}[2J".into(), "name of its host"),
        (|r| r.part = None, "made without --part"),
        (|r| r.part.as_mut().unwrap().layout = 9, "layouts"),
        (|r| r.part.as_mut().unwrap().ended_ns = 5, "ends before it begins"),
        (|r| r.totals.seconds = 1e9, "measured for longer"),
        (|r| r.totals.read.latency_ns.samples = u64::MAX, "latencies"),
        (|r| r.part.as_mut().unwrap().exact.all.sum_ns = [u64::MAX; 2], "no room for a sum"),
        (|r| r.spans[0].buckets.count.clear(), "histograms over time"),
    ];
    for (number, (spoil, why)) in spoils.iter().enumerate() {
        let [one, mut other] = good();
        spoil(&mut other);
        let refused = merged([one, other]).expect_err(&format!("spoil {number}")).0;
        assert!(refused.contains(why), "{number}: {refused}");
    }
    let mut twice = Merge::default();
    twice.add(merged(good()).unwrap()).unwrap_err();
    assert!(Merge::default().finish(None).is_err());
}

/// Returns a run of ten seconds in which host 2 is late by `late_ns`.
fn skewed(late_ns: u64, clock: WallClock) -> RunResult {
    let seconds: Vec<Vec<Io>> = (0..10).map(|second| drawn(second, 20)).collect();
    let late = |number: u64| {
        let mut of = part(number, &seconds);
        let part = of.part.as_mut().unwrap();
        part.clock = clock.clone();
        if number == 2 {
            (part.started_ns, part.ended_ns) = (part.started_ns + late_ns, part.ended_ns + late_ns);
        }
        of
    };
    merged((1..=3).map(late)).unwrap()
}

fn check(result: &RunResult, code: &str) -> Check {
    result.checks.iter().find(|check| check.code == code).unwrap().clone()
}

#[test]
fn hosts_that_measure_apart_are_invalid() {
    let clock = WallClock {
        source: "tsc".into(),
        synchronised: Some(true),
        error_ns: Some(1000),
        ..WallClock::default()
    };
    let good = skewed(400_000_000, clock.clone());
    let window = good.common_window.as_ref().unwrap();
    assert_eq!(check(&good, "M01").verdict, Verdict::Pass, "{window:?}");
    assert_eq!((good.skew_ns, window.end_skew_ns), (Some(400_001_000), 400_000_000 + 1000));
    assert!((window.overlap_percent - 95.9999).abs() < 1e-3, "{window:?}");
    assert_eq!(
        (good.hosts[1].start_skew_ns, good.hosts[1].late_ns),
        (400_001_000, Some(400_002_000))
    );
    let bad = skewed(600_000_000, clock.clone());
    let failed = check(&bad, "M01");
    assert_eq!((failed.verdict, bad.class), (Verdict::Fail, Class::Invalid));
    assert!(failed.evidence.contains("93.99") || failed.evidence.contains("94.00"), "{failed:?}");
    assert!(failed.evidence.contains("host-0002 began last"), "{failed:?}");
    let never = skewed(11_000_000_000, clock.clone());
    assert_eq!(never.common_window.as_ref().unwrap().seconds, 0.0);
    assert_eq!(check(&never, "M01").verdict, Verdict::Fail);
    // Clocks that may differ by more than is left.
    let loose = WallClock { error_ns: Some(100_000_000), ..clock.clone() };
    assert_eq!(check(&skewed(400_000_000, loose.clone()), "M01").verdict, Verdict::Warn);
    assert_eq!(check(&skewed(0, loose), "M02").verdict, Verdict::Warn);
    let free = WallClock { synchronised: Some(false), ..clock };
    let unknown = check(&skewed(0, free), "M02");
    assert_eq!(unknown.verdict, Verdict::Unknown);
    assert!(unknown.evidence.contains("host-0001, host-0002, host-0003"), "{unknown:?}");
}

#[test]
fn lost_and_cut_hosts_are_named() {
    let mut merge = Merge::default();
    let mut cut = part(2, &[drawn(2, 50)]);
    cut.partial = Some("interrupted after 1.0 of 9 s".into());
    merge.add(part(1, &[drawn(1, 50)])).unwrap();
    merge.add(cut).unwrap();
    let result = merge.finish(Some(4)).unwrap();
    let partial = result.partial.unwrap();
    assert!(partial.contains("2 of 4 hosts are lost"), "{partial}");
    assert!(partial.contains("host-0002: interrupted after 1.0 of 9 s"), "{partial}");
    let mut more = Merge::default();
    (1..4).for_each(|number| more.add(part(number, &[drawn(number, 9)])).unwrap());
    assert!(more.finish(Some(2)).unwrap_err().0.contains("3 parts of 2 hosts"));
}

#[test]
fn containers_of_one_machine_are_told() {
    let mut parts = [part(1, &[drawn(1, 50)]), part(2, &[drawn(2, 50)])];
    assert_eq!(check(&merged(parts.clone()).unwrap(), "M03").verdict, Verdict::Pass);
    parts[1].part.as_mut().unwrap().machine = "machine 1".into();
    let result = merged(parts).unwrap();
    assert_eq!(check(&result, "M03").verdict, Verdict::Warn);
    assert_eq!(result.common_window.unwrap().clock_bound_ns, Some(0));
}

/// With very many workers only the rows of their hosts stay, whichever part has them.
#[test]
fn workers_of_many_are_left_out() {
    let few = || (0..3).map(|number| part(number, &[drawn(number, 500)]));
    let all = merged(few()).unwrap();
    assert_eq!((all.workers.len(), &*all.workers[2].name), (3, "host-0002: manager 1 worker 1"));
    for many in 0..3 {
        let parts = (0..).zip(few()).map(|(number, mut part)| {
            if number == many {
                part.workers = vec![part.workers[0].clone(); 2000];
            }
            part
        });
        let result = merged(parts).unwrap();
        assert_eq!((result.workers.len(), result.hosts.len()), (0, 3));
        assert_eq!(result.totals, all.totals);
    }
}
