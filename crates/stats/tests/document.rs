//! The result document retains its names: users script against them.

use block::{Connection, Nanos, Op};
use serde_json::Value;
use stats::verdict::{Shown, complete, littles_law, percentiles_supported};
use stats::{
    Class, Collector, Connections, Cpu, Interval, Job, Latency, RunResult, SCHEMA_VERSION, Tool,
    WorkerName,
};

/// The promised names, with values of the promised types.
const CONTRACT: &str = include_str!("contract.json");

/// Returns a run of one worker that read for one second: enough I/Os for every percentile.
fn result() -> RunResult {
    let mut done = Interval::new();
    (done.start, done.end) = (Nanos::from_secs(100), Nanos::from_secs(101));
    for i in 0..1_000_000 {
        done.record(Op::Read, 512, Nanos(200_000 + i % 1000));
    }
    done.record_outstanding(1, Nanos(done.read.latencies.sum() as u64));
    let disconnected = Nanos::from_millis(1300);
    done.connection = Connection { lost: 3, reconnects: 2, failed_attempts: 7, disconnected };
    let name = WorkerName {
        name: "manager 1 worker 1".into(),
        volume: "iscsi://[::1]:3260/iqn/1".into(),
        target: "target 1".into(),
        group: Some(0),
        ..WorkerName::default()
    };
    let mut collector = Collector::new(vec![name]);
    collector.add(0, &done);
    collector.end_second(1.0);
    let totals = collector.totals();
    let cpu = Cpu {
        host_percent: Some(99.5),
        steal_percent: Some(0.0),
        initiator_cores: Some(0.75),
        target_cores: Some(1.25),
        ..Cpu::default()
    };
    let latencies = collector.latencies();
    let shown = Shown { latencies: &latencies, few: &[], closed: true };
    let checks = complete(vec![littles_law(&collector.flows()), percentiles_supported(&shown)]);
    RunResult {
        schema_version: SCHEMA_VERSION,
        tool: Tool { name: "drumfire".into(), version: "0.1.0".into(), git: Some("0".into()) },
        class: Class::of(&checks),
        checks,
        job: Job { name: "race".into(), size_bytes: Some(512), ..Job::default() },
        spec: serde_json::json!({"size": 512}),
        started: "2026-11-20T08:00:00Z".into(),
        seed: 1,
        totals,
        cpu: cpu.derive(totals.iops),
        workers: collector.workers(),
        intervals: collector.seconds(),
        ..RunResult::default()
    }
}

/// Asserts that every name of `promised` is in `given`, with a value of the same type. Null is
/// allowed for a number, because an unknown number is null.
fn assert_keeps(promised: &Value, given: &Value, path: &str) {
    match (promised, given) {
        (Value::Object(promised), Value::Object(given)) => {
            for (key, value) in promised {
                let found = given.get(key).unwrap_or_else(|| panic!("{path}.{key} is missing"));
                assert_keeps(value, found, &format!("{path}.{key}"));
            }
        }
        (Value::Array(promised), Value::Array(given)) => {
            for (promised, given) in promised.iter().zip(given) {
                assert_keeps(promised, given, &format!("{path}[]"));
            }
            assert!(promised.is_empty() || !given.is_empty(), "{path} is empty");
        }
        (Value::String(_), Value::String(_)) | (Value::Number(_), Value::Null) => {}
        (Value::Number(p), Value::Number(g)) => assert_eq!(p.is_u64(), g.is_u64(), "{path}: {g}"),
        _ => panic!("{path} is {given}, promised is {promised}"),
    }
}

#[test]
fn the_document_keeps_every_promised_name() {
    let contract: Value = serde_json::from_str(CONTRACT).unwrap();
    let document = serde_json::to_value(result()).unwrap();
    assert_keeps(&contract, &document, "result");
    assert_eq!(document["origin"], "measured");
    assert_eq!(document["class"], "indicative");
    let verdict = |number: usize| document["checks"][number - 1]["verdict"].clone();
    assert_eq!((verdict(1), verdict(11)), ("unknown".into(), "pass".into()));
    assert_eq!(document["totals"]["latency_ns"]["mean"], 200_499.5);
    assert_eq!(document["cpu"]["core_us_per_io"], 2.0);
    for place in ["totals", "workers/0"].map(|place| format!("/{place}")) {
        let place = document.pointer(&place).unwrap();
        let counted = ["connections_lost", "reconnects", "failed_attempts"];
        assert_eq!(counted.map(|name| &place[name]), [3, 2, 7]);
        assert_eq!(place["disconnected_seconds"], 1.3);
    }
    let second = &document["intervals"][0];
    assert_eq!((&second["connections_lost"], &second["reconnects"]), (&3.into(), &2.into()));
    assert_eq!(document["cpu"]["iops_per_core"], 500_000.0);
}

#[test]
fn the_promised_document_can_be_read() {
    let read: RunResult = serde_json::from_str(CONTRACT).unwrap();
    assert_eq!(read.workers[0].latency_ns, Latency::default());
    // Documents of earlier versions do not count connections.
    assert_eq!(read.workers[0].connections, Connections::default());
    assert_eq!(read.totals.connections, Connections::default());
    assert_eq!((read.seed, read.cpu.host_percent, read.partial), (1, Some(0.0), None));
}

#[test]
fn a_result_survives_writing_and_reading() {
    for result in [result(), RunResult::default()] {
        let text = serde_json::to_string(&result).unwrap();
        assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
    }
}

#[test]
fn few_samples_are_null() {
    let document = serde_json::to_value(RunResult::default()).unwrap();
    for name in ["min", "mean", "p50", "p99_99", "max"] {
        assert_eq!(document["totals"]["latency_ns"][name], Value::Null, "{name}");
    }
}

/// An hour at a million I/Os a second, whose latencies wander over three decades, has a row for
/// each second, histograms over time in few spans, and nothing that grows with the I/Os.
#[test]
fn an_hour_at_a_million_a_second_stays_small() {
    const MOST_BYTES: usize = 8 << 20;
    let mut done = Interval::paced();
    (done.start, done.end) = (Nanos(0), Nanos::from_secs(1));
    let mut ns = 1;
    for _ in 0..1_000_000 {
        ns = ns * 48_271 % 2_147_483_647;
        let op = if ns % 3 == 0 { Op::Write } else { Op::Read };
        done.record(op, 4096, Nanos(10_000 << (ns % 10)) + Nanos(ns % 10_000));
    }
    done.record_outstanding(5_000, Nanos::from_secs(1));
    let mut collector = Collector::new(vec![WorkerName::default()]);
    let mut document = |from: u32, to: u32| {
        for second in from..=to {
            collector.add(0, &done);
            collector.end_second(f64::from(second));
        }
        let result = RunResult {
            totals: collector.totals(),
            workers: collector.workers(),
            intervals: collector.seconds(),
            histograms: collector.histograms(),
            spans: collector.spans(usize::MAX),
            ..RunResult::default()
        };
        (result.totals.ios, serde_json::to_string(&result).unwrap().len())
    };
    let (_, half) = document(1, 1800);
    let (ios, hour) = document(1801, 3600);
    assert_eq!(ios, 3_600_000_000);
    assert!(hour < MOST_BYTES, "{hour} bytes after an hour, {half} after half of it");
    // The second half adds only its rows.
    assert!(hour - half < 1800 * 512, "{} bytes for half an hour", hour - half);
}
