//! Results of made-up runs for the tests: several workers, directions and seconds, errors in the
//! window and in the ramp, unanswered I/Os, lost connections, open loops, interrupted runs.

use std::sync::OnceLock;

use block::{Cause, Connection, Fault, Nanos, Op};
use serde_json::json;
use stats::{
    Check, Class, Collector, Failed, Host, Interval, Job, RunResult, SCHEMA_VERSION, Tool, Verdict,
    WorkerName,
};

/// Numbers of chance that are the same for a seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Random number from 0 to below `most`.
    pub fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Shape of a made-up run.
struct Shape {
    workers: u64,
    seconds: u64,
    size: u32,
    /// Reads, writes and flushes per worker and second.
    ios: [u64; 3],
    paced: bool,
    remote: bool,
    /// Trims per worker and second.
    trims: u64,
    /// Begin and end of each worker, in milliseconds of the window; empty where all are there.
    turns: Vec<(u64, u64)>,
}

impl Shape {
    fn of(chance: &mut Chance, most: u64) -> Shape {
        let ios = match chance.below(4) {
            0 => [1 + chance.below(most), 0, 0],
            1 => [0, 1 + chance.below(most), 0],
            2 => [1 + chance.below(most), 1 + chance.below(most), 0],
            _ => [1 + chance.below(most), 1 + chance.below(most), 1 + chance.below(30)],
        };
        Shape {
            workers: 1 + chance.below(5),
            seconds: 1 + chance.below(6),
            size: 512 << chance.below(8),
            ios,
            paced: chance.one_in(4),
            remote: chance.one_in(2),
            trims: 0,
            turns: Vec::new(),
        }
    }

    /// Begin and end of a worker within a second, in nanoseconds.
    fn span(&self, worker: u64, at: u64) -> Option<(Nanos, Nanos)> {
        let whole = (at * 1000, at * 1000 + 1000);
        let turn = self.turns.get(worker as usize).copied();
        let (from, to) = turn.map_or(whole, |(from, to)| (1000 + from, 1000 + to));
        let (from, to) = (from.max(whole.0), to.min(whole.1));
        (to > from).then(|| (Nanos::from_millis(from), Nanos::from_millis(to)))
    }
}

/// Results of workers that trim, too, and begin and end at times of their own, made once.
pub fn drawn() -> &'static [RunResult] {
    static MADE: OnceLock<Vec<RunResult>> = OnceLock::new();
    MADE.get_or_init(|| (0..500).map(of_turns).collect())
}

/// A result of workers that trim, too, and begin and end at times of their own.
fn of_turns(seed: u64) -> RunResult {
    let mut chance = Chance::new(seed ^ 0x5bd1_e995);
    let mut shape = Shape::of(&mut chance, 3000);
    (shape.workers, shape.seconds) = (shape.workers.min(3), shape.seconds.min(4));
    shape.trims = if chance.one_in(3) { 1 + chance.below(200) } else { 0 };
    let last = shape.seconds * 1000;
    shape.turns = (0..shape.workers)
        .map(|_| match chance.below(3) {
            0 => (0, last),
            _ => {
                let from = chance.below(last - 1);
                (from, from + 1 + chance.below(last - from))
            }
        })
        .collect();
    made(&mut chance, &shape)
}

/// A hundred results, made once for all tests.
pub fn hundred() -> &'static [RunResult] {
    static MADE: OnceLock<Vec<RunResult>> = OnceLock::new();
    MADE.get_or_init(|| (0..100).map(result).collect())
}

/// A result of up to some hundred thousand I/Os.
fn result(seed: u64) -> RunResult {
    let mut chance = Chance::new(seed);
    let shape = Shape::of(&mut chance, 20_000);
    made(&mut chance, &shape)
}

/// A run of two reading workers, with few I/Os and no problem other than findings of checks.
pub fn small(seed: u64) -> RunResult {
    let mut chance = Chance::new(seed);
    let (size, seconds) = (4096, 2 + chance.below(3));
    let ios = [200 + chance.below(500), 0, 0];
    made(
        &mut chance,
        &Shape {
            workers: 2,
            seconds,
            size,
            ios,
            paced: false,
            remote: false,
            trims: 0,
            turns: Vec::new(),
        },
    )
}

fn made(chance: &mut Chance, shape: &Shape) -> RunResult {
    let name = |worker: u64| WorkerName {
        name: format!("manager 1 worker {worker}"),
        volume: match shape.remote {
            true => format!("iscsi://127.0.0.1:3260/iqn.2026-11.x:t{}/{worker}", worker % 2),
            false => format!("file:/data/disk{worker}?size=1g"),
        },
        target: if shape.remote { format!("target {}", worker % 2) } else { String::new() },
        group: Some(0),
        ..WorkerName::default()
    };
    let names: Vec<WorkerName> = (1..=shape.workers).map(name).collect();
    let mut collector = Collector::new(names.clone());
    if chance.one_in(3) {
        second(&mut collector, chance, shape, 0);
        collector.restart();
    }
    for at in 1..=shape.seconds {
        second(&mut collector, chance, shape, at);
    }
    finished(&collector, chance, shape, &names)
}

/// One second of all workers.
fn second(collector: &mut Collector, chance: &mut Chance, shape: &Shape, at: u64) {
    for worker in 0..shape.workers {
        let Some(span) = shape.span(worker, at) else { continue };
        let mut done = if shape.paced { Interval::paced() } else { Interval::new() };
        (done.start, done.end) = span;
        let [reads, writes, flushes] = shape.ios;
        let each = [(Op::Read, reads), (Op::Write, writes), (Op::Flush, flushes)];
        for (op, ios) in each.into_iter().chain([(Op::Trim, shape.trims)]) {
            let bytes = if op == Op::Flush { 0 } else { u64::from(shape.size) };
            let mut left = ios;
            while left > 0 {
                let ns = 2_000 + (chance.below(1 << 20) >> chance.below(10));
                let count = left.min(1 + ios / 40);
                left -= count;
                let tally = done.tally(op);
                tally.latencies.record_n(ns, count);
                (tally.ios, tally.bytes) = (tally.ios + count, tally.bytes + bytes * count);
                if let Some(paced) = &mut done.paced {
                    paced.service.record_n(ns / 2, count);
                    paced.lag.record_n(ns - ns / 2, count);
                }
            }
        }
        let large = shape.ios.iter().sum::<u64>() > 1000;
        if large && chance.one_in(6) {
            fail(&mut done, chance, at);
        }
        if large && shape.remote && chance.one_in(6) {
            let disconnected = Nanos::from_millis(chance.below(900));
            done.connection =
                Connection { lost: 2, reconnects: 1, failed_attempts: 3, disconnected };
        }
        if large && at == shape.seconds && chance.one_in(3) {
            for _ in 0..=chance.below(8) {
                let age = 1_000_000 + chance.below(4_000_000_000);
                let began = !shape.paced || chance.one_in(2);
                done.record_waiting(Op::Read, Nanos(age), 1, began);
            }
        }
        done.record_outstanding(1 + chance.below(64), Nanos::from_secs(1));
        collector.add(worker as usize, &done);
    }
    collector.end_second(at.max(1) as f64);
}

fn fail(done: &mut Interval, chance: &mut Chance, at: u64) {
    for _ in 0..=chance.below(20) {
        let (op, offset) = (Op::Read, chance.below(1 << 30));
        let at = Nanos(at * 1_000_000_000 + chance.below(1_000_000_000));
        let failed = Failed { op, fault: Fault::Medium, cause: Cause(5), at, offset, len: 4096 };
        done.record_failure(failed, Nanos(7), || Some("EIO (5): Input/output error".to_owned()));
    }
}

fn finished(
    collector: &Collector,
    chance: &mut Chance,
    shape: &Shape,
    names: &[WorkerName],
) -> RunResult {
    let totals = collector.totals();
    let (failures, failures_unlisted) = collector.failures();
    let verdicts = [Verdict::Pass, Verdict::Warn, Verdict::Unknown];
    let samples = totals.latency_ns.samples;
    let supported = if stats::supports(samples, 0.99) { Verdict::Pass } else { Verdict::Warn };
    let mut checks =
        vec![Check::new("H12", "percentiles", supported, format!("{samples} samples"))];
    for code in ["H01", "H02", "H06", "H17", "H19"] {
        let verdict = match chance.one_in(12) {
            true => Verdict::Fail,
            false => verdicts[chance.below(3) as usize],
        };
        checks.push(Check::new(code, "some-check", verdict, format!("evidence of {code}")));
    }
    checks.push(Check::does_not_apply("H16", "a host of one NUMA node"));
    let checks = stats::verdict::complete(checks);
    let [reads, writes, _] = shape.ios;
    let read_percent = 100.0 * reads as f64 / (reads + writes).max(1) as f64;
    let line = json!({ "size_bytes": shape.size, "read_percent": read_percent,
        "random_percent": 100.0 });
    let workload = json!({ "outstanding": 16, "access": { "lines": [line] } });
    let volumes: Vec<&str> = names.iter().map(|name| name.volume.as_str()).collect();
    let group = json!({ "volumes": volumes, "workload": workload });
    let partial = chance.one_in(5).then(|| "interrupted after 1.0 of 9 s".to_owned());
    RunResult {
        schema_version: SCHEMA_VERSION,
        tool: Tool { name: "drumfire".into(), version: "0.1.0".into(), git: None },
        class: Class::of(&checks),
        checks,
        job: Job {
            name: "made up".into(),
            size_bytes: Some(shape.size),
            read_percent,
            random_percent: 100.0,
            outstanding: (!shape.paced).then_some(16 * shape.workers),
            rate_per_s: shape.paced.then_some(1000.0),
            workers: shape.workers as u32,
            volumes: shape.workers as u32,
            targets: if shape.remote { 2 } else { 0 },
            transport: if shape.remote { "iSCSI" } else { "local" }.into(),
            loopback: shape.remote,
            storage: "file".into(),
            seconds: shape.seconds as f64,
            ramp_seconds: 0.0,
        },
        spec: json!({ "steps": [{ "seconds": shape.seconds, "groups": [group] }] }),
        host: Host { name: "here".into(), cores: 2, ..Host::default() },
        started: "2026-11-20T08:00:00Z".into(),
        seed: 7,
        partial,
        totals,
        failures,
        failures_unlisted,
        workers: collector.workers(),
        intervals: collector.seconds(),
        histograms: collector.histograms(),
        spans: collector.spans(usize::MAX),
        ..RunResult::default()
    }
}
