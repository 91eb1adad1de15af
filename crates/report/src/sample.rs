//! A fixed result and a fixed snapshot for the tests.

use serde_json::json;
use stats::live::{About, Counts, LiveCpu, Phase, Snapshot, TargetRate};
use stats::verdict::{ALL, complete};
use stats::{
    Buckets, Check, Class, Cpu, Direction, Failure, FirstFailure, Histograms, Host, Job, Latencies,
    Latency, MeasuringCost, Origin, Placement, RunResult, SCHEMA_VERSION, Second, Span, Totals,
    Verdict, WorkerResult,
};

pub fn job() -> Job {
    Job {
        name: "race".into(),
        size_bytes: Some(512),
        read_percent: 100.0,
        random_percent: 100.0,
        outstanding: Some(1600),
        workers: 4,
        volumes: 4,
        targets: 2,
        transport: "iSCSI".into(),
        loopback: true,
        storage: "RAM".into(),
        seconds: 10.0,
        ramp_seconds: 2.0,
        ..Job::default()
    }
}

pub fn latency() -> Latency {
    Latency {
        samples: 34_123_456,
        min: Some(41_000),
        mean: Some(468_700.0),
        p50: Some(412_000),
        p90: Some(540_000),
        p99: Some(690_000),
        p99_9: Some(1_140_000),
        p99_99: None,
        max: Some(12_300_000),
        moments: None,
        waiting_from: None,
        waited_for_cpu: None,
    }
}

fn worker(number: u64) -> WorkerResult {
    WorkerResult {
        name: format!("manager 1 worker {number}"),
        volume: format!(
            "iscsi://127.0.0.1:3260/iqn.2026-11.drumfire:t{}/{number}",
            (number - 1) % 2
        ),
        target: format!("target {}", (number - 1) % 2 + 1),
        ios: 8_530_864,
        errors: number / 4,
        iops: 853_086.4,
        bytes_per_second: 436_780_236.8,
        mean_outstanding: 400.0,
        latency_ns: latency(),
        ..WorkerResult::default()
    }
}

pub fn failures() -> Vec<Failure> {
    let read = Failure {
        volume: "file:/dev/sdz".into(),
        operation: "read".into(),
        fault: "medium error".into(),
        status: Some("EIO (5): Input/output error".into()),
        count: 1234,
        first: FirstFailure {
            t_s: 1.5,
            offset_bytes: 1 << 20,
            length_bytes: 4096,
            worker: "manager 1 worker 2".into(),
        },
    };
    let flush = Failure {
        volume: "null:1g".into(),
        operation: "flush".into(),
        fault: "connection lost".into(),
        count: 1,
        first: FirstFailure {
            t_s: 2.0,
            worker: "manager 1 worker 1".into(),
            ..FirstFailure::default()
        },
        ..Failure::default()
    };
    vec![read, flush]
}

/// The given checks, and all others as passed.
fn checks<const N: usize>(some: [Check; N]) -> Vec<Check> {
    let passed = ALL.iter().filter(|listed| some.iter().all(|check| check.code != listed.code));
    let passed = passed.map(|it| Check::new(it.code, it.name, Verdict::Pass, "as it should be"));
    complete(passed.chain(some.clone()).collect())
}

/// Races of one worker with these rates.
pub fn races(rates: &[f64]) -> Vec<RunResult> {
    let with = |iops: &f64| {
        let mut run = race();
        run.totals.iops = *iops;
        run.workers.truncate(1);
        run
    };
    rates.iter().map(with).collect()
}

pub fn race() -> RunResult {
    let latency_ns = latency();
    let read = Direction {
        ios: 34_123_456,
        errors: 1,
        iops: 3_412_345.6,
        bytes_per_second: 1_747_120_947.2,
        bytes: 17_471_209_472,
        latency_ns,
        ..Direction::default()
    };
    RunResult {
        schema_version: SCHEMA_VERSION,
        origin: Origin::Measured,
        class: Class::Indicative,
        checks: checks([
            Check::new("H11", "littles-law", Verdict::Pass, "1600 = 1599"),
            Check::new("H10", "generator-ceiling", Verdict::Unknown, "not measured"),
            Check::new("H16", "placement", Verdict::DoesNotApply, "a host of one NUMA node"),
            Check::new("H19", "wire", Verdict::Warn, "loopback: no wire was measured"),
        ]),
        job: job(),
        host: Host { cores: 2, ..Host::default() },
        placement: Placement {
            initiator: vec![0, 1],
            target: vec![0, 1],
            pinned: true,
            shared_threads: true,
        },
        started: "2026-11-20T08:00:00Z".into(),
        totals: Totals {
            seconds: 10.0,
            ios: 34_123_456,
            errors: 1,
            iops: 3_412_345.6,
            bytes_per_second: 1_747_120_947.2,
            mean_outstanding: 1599.25,
            read,
            latency_ns,
            ..Totals::default()
        },
        cpu: Cpu {
            host_percent: Some(99.4),
            steal_percent: Some(0.1),
            initiator_cores: Some(0.98),
            target_cores: Some(1.0),
            ..Cpu::default()
        }
        .derive(3_412_345.6),
        cost: Some(MeasuringCost::of([8.1, 5.4], 3_412_345.6, Some(0.98), Some(0.004))),
        workers: (1..=4).map(worker).collect(),
        intervals: vec![Second { t: 1.0, iops: 3_412_345.6, ..Second::default() }],
        ..RunResult::default()
    }
}

/// Two workers of one group, 2 s: each reads 1000 times 4 KiB in 100 µs, and writes 500 times in
/// 8 ms.
pub fn counted() -> RunResult {
    let latencies = |ns, count| {
        let mut latencies = Latencies::new();
        latencies.record_n(ns, count);
        latencies
    };
    let direction = |latencies: &Latencies| Direction {
        ios: latencies.count(),
        iops: latencies.count() as f64 / 2.0,
        bytes: latencies.count() * 4096,
        bytes_per_second: latencies.count() as f64 * 2048.0,
        latency_ns: latencies.summary(),
        ..Direction::default()
    };
    let (read, write) = (latencies(100_000, 1000), latencies(8_000_000, 500));
    let histograms =
        Histograms { read: Buckets::of(&read), write: Buckets::of(&write), ..Default::default() };
    let worker = |number| WorkerResult {
        name: format!("manager 1 worker {number}"),
        volume: format!("ram:{number}g"),
        ios: 1500,
        read: direction(&read),
        write: direction(&write),
        histograms: histograms.clone(),
        ..WorkerResult::default()
    };
    let (reads, writes) = (latencies(100_000, 2000), latencies(8_000_000, 1000));
    let mut all = histograms.clone();
    all.merge(&histograms);
    let span = |second: u32, parts: [u64; 2]| {
        let mut both = latencies(100_000, parts[0]);
        both.merge(&latencies(8_000_000, parts[1]));
        let (from_s, to_s) = (f64::from(second), f64::from(second + 1));
        Span { from_s, to_s, max_ns: 8_000_000, buckets: Buckets::of(&both) }
    };
    let second = |t| Second {
        t,
        read_iops: 1000.0,
        write_iops: 500.0,
        read_bytes_per_second: 4_096_000.0,
        write_bytes_per_second: 2_048_000.0,
        ..Second::default()
    };
    let line = json!({ "size_bytes": 4096, "read_percent": 66.7, "random_percent": 100.0 });
    let workload = json!({ "outstanding": 4, "access": { "lines": [line] } });
    let group = json!({ "volumes": ["ram:1g", "ram:2g"], "workload": workload });
    RunResult {
        job: Job { volumes: 2, workers: 2, ..job() },
        spec: json!({ "steps": [{ "seconds": 2.0, "groups": [group] }] }),
        started: "2026-11-20T08:00:00Z".into(),
        totals: Totals {
            seconds: 2.0,
            ios: 3000,
            iops: 1500.0,
            read: direction(&reads),
            write: direction(&writes),
            ..Totals::default()
        },
        workers: vec![worker(1), worker(2)],
        intervals: vec![second(1.0), second(2.0)],
        histograms: all,
        spans: vec![span(0, [1500, 500]), span(1, [500, 500])],
        ..RunResult::default()
    }
}

pub fn about() -> About {
    About { job: job(), origin: Origin::Measured, kind: None, cores: 2 }
}

pub fn snapshot() -> Snapshot {
    Snapshot {
        t_s: 3.0,
        phase: Phase::Run,
        seconds_left: Some(7.0),
        iops: 3_412_345.6,
        flush_iops: 0.0,
        bytes_per_second: 1_747_120_947.2,
        latency_ns: latency(),
        buckets: None,
        counts: Counts::default(),
        targets: [("target 1", 1_800_000.0), ("target 2", 1_612_345.6)]
            .map(|(name, iops)| TargetRate { name: name.into(), iops })
            .to_vec(),
        workers: Vec::new(),
        cpu: LiveCpu {
            initiator_cores: Some(0.98),
            target_cores: Some(1.0),
            host_percent: Some(99.4),
            per_core_percent: vec![98.0, 100.0],
        },
        errors: 0,
        connections_lost: 0,
        reconnects: 0,
        outstanding: 1599.25,
        oldest_ns: None,
        slower: Vec::new(),
        history: vec![1_000_000.0, 2_500_000.0, 3_412_345.6],
    }
}
