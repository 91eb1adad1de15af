//! The exposition, read by its grammar, and what a collector computes of it.

use std::collections::{BTreeMap, BTreeSet};

use block::{Nanos, Op};
use stats::live::About;
use stats::{Collector, Interval, Origin, WorkerName};

use super::*;
use crate::sample;
use crate::watch::{ServedHost, ServedVolume};

/// A sample: its name, labels and value.
type Sample = (String, BTreeMap<String, String>, f64);

/// Reads an exposition by its grammar, and fails where that is broken: each family once, with help
/// and type before its samples, names and labels of the right letters, no series twice.
fn parsed(text: &str, counters_end: &str) -> (BTreeMap<String, String>, Vec<Sample>) {
    let (mut kinds, mut helped, mut samples) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let (mut open, mut series) = (String::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert!(helped.contains(name), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{line}");
            name.clone_into(&mut open);
        } else {
            let (name, labels, value) = sample_of(line);
            assert!(series.insert((name.clone(), labels.clone())), "twice: {line}");
            let family = match kinds[&open].as_str() {
                "histogram" => ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| name.strip_suffix(end))
                    .unwrap_or_else(|| panic!("{line}"))
                    .to_owned(),
                "counter" => {
                    assert!(name.ends_with("_total") && value >= 0.0, "{line}");
                    name.strip_suffix(counters_end).unwrap_or(&name).to_owned()
                }
                _ => name.clone(),
            };
            assert_eq!(family, open, "{line}");
            samples.push((name, labels, value));
        }
    }
    (kinds, samples)
}

fn sample_of(line: &str) -> Sample {
    let is_name = |text: &str| {
        let mut chars = text.chars();
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let end = line.find(['{', ' ']).unwrap_or_else(|| panic!("{line}"));
    let (name, mut rest) = line.split_at(end);
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
            assert!(is_name(label), "{line}");
            let (mut value, mut chars) = (String::new(), after.char_indices());
            let end = loop {
                match chars.next().unwrap_or_else(|| panic!("{line}")) {
                    (_, '\\') => match chars.next().unwrap().1 {
                        'n' => value.push('\n'),
                        c @ ('\\' | '"') => value.push(c),
                        c => panic!("an escape of {c}: {line}"),
                    },
                    (at, '"') => break at,
                    (_, c) => value.push(c),
                }
            };
            assert!(labels.insert(label.to_owned(), value).is_none(), "{line}");
            rest = &after[end + 1..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => break,
            }
        }
        rest = rest.strip_prefix('}').unwrap_or_else(|| panic!("{line}"));
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    (name.to_owned(), labels, value.parse().unwrap_or_else(|_| panic!("{line}")))
}

/// A moment after seconds of five reads each, of which one in fifty takes 40 ms.
fn slow(seconds: u64) -> (Moment, Vec<u64>) {
    let mut collector = Collector::new(vec![WorkerName::default()]);
    let mut moment = Moment::default();
    moment.begin(&sample::about());
    let mut all = Vec::new();
    for second in 0..seconds {
        let mut done = Interval::new();
        (done.start, done.end) = (Nanos::from_secs(second), Nanos::from_secs(second + 1));
        for io in 0..5 {
            let number = second * 5 + io;
            let ns = if number % 50 == 7 { 40_000_000 } else { 2_000_000 + number * 997 };
            done.record(Op::Read, 4096, Nanos(ns));
            all.push(ns);
        }
        collector.add(0, &done);
        let (row, latencies) = collector.end_second(second as f64 + 1.0);
        let latency_ns = latencies.summary();
        let counts = collector.counts().clone();
        let snapshot = Snapshot { iops: row.iops, latency_ns, counts, ..sample::snapshot() };
        moment.second(&snapshot);
    }
    all.sort_unstable();
    (moment, all)
}

/// Metric of the histograms of a run.
const HISTOGRAM: &str = "drumfire_io_latency_seconds";

fn of_reads((_, labels, _): &&Sample) -> bool {
    labels["direction"] == "read"
}

/// `histogram_quantile` of Prometheus: within the bucket in proportion.
fn quantile(samples: &[Sample], share: f64) -> f64 {
    let bucket = format!("{HISTOGRAM}_bucket");
    let buckets = samples.iter().filter(|(name, ..)| *name == bucket).filter(of_reads);
    let buckets: Vec<(f64, f64)> = buckets
        .map(|(_, labels, count)| (labels["le"].replace("+Inf", "inf").parse().unwrap(), *count))
        .collect();
    let rank = share * buckets.last().unwrap().1;
    let at = buckets.iter().position(|(_, count)| *count >= rank).unwrap();
    let (from, before) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
    from + (buckets[at].0 - from) * (rank - before) / (buckets[at].1 - before)
}

#[test]
fn five_ios_a_second_have_a_p99() {
    let (moment, all) = slow(60);
    let text = metrics(&moment);
    // The last second alone has none.
    assert!(!text.contains("percentile=\"99\""), "{text}");
    let (_, samples) = parsed(&text, "");
    for (share, near) in [(0.99, 40e-3), (0.5, 2.15e-3)] {
        let is = all[(all.len() as f64 * share) as usize] as f64 / 1e9;
        let says = quantile(&samples, share);
        assert!((is - near).abs() < 0.1 * near, "{is}");
        assert!((says / is - 1.0).abs() < 0.5, "{share}: {says} for {is}");
    }
    let value = |name: &str| samples.iter().find(|(it, ..)| it == name).unwrap().2;
    assert_eq!(value("drumfire_ios_total"), 300.0);
    assert_eq!(value("drumfire_bytes_total"), 300.0 * 4096.0);
    let sum = all.iter().sum::<u64>() as f64 / 1e9;
    assert!((value("drumfire_io_latency_seconds_sum") - sum).abs() < 1e-6);
}

#[test]
fn a_histogram_only_grows_to_its_count() {
    let counts = |seconds| -> Vec<Sample> {
        let (_, samples) = parsed(&metrics(&slow(seconds).0), "");
        let of_run = samples.into_iter().filter(|(name, ..)| name.starts_with(HISTOGRAM));
        of_run.filter(|sample| of_reads(&sample)).collect()
    };
    let (earlier, later) = (counts(20), counts(40));
    let buckets = |all: &[Sample]| -> Vec<f64> {
        all.iter().filter(|(name, ..)| name.ends_with("_bucket")).map(|it| it.2).collect()
    };
    for all in [&earlier, &later] {
        let buckets = buckets(all);
        assert_eq!(buckets.len(), EDGES_NS.len() + 1);
        assert!(buckets.windows(2).all(|pair| pair[0] <= pair[1]), "{buckets:?}");
        let count = all.iter().find(|(name, ..)| name.ends_with("_count")).unwrap().2;
        assert_eq!(buckets.last(), Some(&count));
    }
    assert!(buckets(&earlier).iter().zip(buckets(&later)).all(|(a, b)| *a <= b));
}

#[test]
fn a_direction_without_ios_has_counters_of_0() {
    let (_, samples) = parsed(&metrics(&slow(3).0), "");
    let writes: Vec<&Sample> = samples
        .iter()
        .filter(|(_, labels, _)| labels.get("direction").is_some_and(|name| name == "write"))
        .collect();
    // Two counters; all buckets and the one without an edge, sum and count.
    assert_eq!(writes.len(), 2 + EDGES_NS.len() + 3);
    assert!(writes.iter().all(|(.., value)| *value == 0.0), "{writes:?}");
}

#[test]
fn a_served_volume_has_its_counters_before_its_first_io() {
    let mut used = Counts::default();
    (used.write.ios, used.write.errors, used.write.bytes) = (3, 1, 12_288);
    (used.write.samples, used.write.latency_ns, used.write.buckets[6]) = (3, 2_700, 3);
    let volume = |name: &str, counts| ServedVolume {
        name: name.to_owned(),
        bytes: 1 << 20,
        connections: 2,
        counts: Some(counts),
        ..ServedVolume::default()
    };
    let volumes = vec![volume("idle", Counts::default()), volume("a\"b", used)];
    let host = ServedHost { name: "iqn.h".to_owned(), connections: 2, ..ServedHost::default() };
    let served = Some(Served { volumes, hosts: vec![host], ..Served::default() });
    let (kinds, samples) = parsed(&metrics(&Moment { served, ..Moment::default() }), "");
    assert_eq!(kinds["drumfire_volume_latency_seconds"], "histogram");
    let value = |name: &str, volume: &str, direction: &str, le: Option<&str>| {
        let found = samples.iter().find(|(it, labels, _)| {
            it == name
                && labels.get("volume").is_some_and(|it| it == volume)
                && labels.get("direction").is_none_or(|it| it == direction)
                && labels.get("le").map(String::as_str) == le
        });
        found.unwrap_or_else(|| panic!("{name} of {volume}")).2
    };
    for direction in ["read", "write"] {
        for name in ["ios_total", "bytes_total", "errors_total", "latency_seconds_count"] {
            assert_eq!(value(&format!("drumfire_volume_{name}"), "idle", direction, None), 0.0);
        }
    }
    let host = samples.iter().find(|(name, ..)| name == "drumfire_host_connections").unwrap();
    assert_eq!((&*host.1["host"], host.2), ("iqn.h", 2.0));
    let of_used = |name: &str, le| value(name, "a\"b", "write", le);
    assert_eq!(of_used("drumfire_volume_ios_total", None), 3.0);
    assert_eq!(of_used("drumfire_volume_errors_total", None), 1.0);
    assert_eq!(of_used("drumfire_volume_latency_seconds_bucket", Some("7e-7")), 0.0);
    assert_eq!(of_used("drumfire_volume_latency_seconds_bucket", Some("1e-6")), 3.0);
    assert_eq!(of_used("drumfire_volume_latency_seconds_bucket", Some("+Inf")), 3.0);
    assert_eq!(of_used("drumfire_volume_latency_seconds_sum", None), 2.7e-6);
}

#[test]
fn open_metrics_have_families_without_total_and_an_end() {
    let text = open_metrics(&slow(3).0);
    let body = text.strip_suffix("# EOF\n").unwrap();
    assert!(!body.contains("# EOF"));
    let (kinds, samples) = parsed(body, "_total");
    assert_eq!(kinds["drumfire_ios"], "counter");
    assert!(samples.iter().any(|(name, ..)| name == "drumfire_ios_total"));
    assert!(kinds.keys().all(|name| !name.ends_with("_total")));
}

#[test]
fn the_origin_of_a_run_is_a_label() {
    for origin in [Origin::Measured, Origin::Emulated, Origin::Simulated] {
        let mut moment = Moment::default();
        moment.begin(&About { origin, ..sample::about() });
        moment.second(&sample::snapshot());
        let (kinds, samples) = parsed(&metrics(&moment), "");
        assert_eq!(kinds["drumfire_run_info"], "gauge");
        let info = samples.iter().find(|(name, ..)| name == "drumfire_run_info").unwrap();
        assert_eq!((info.1["origin"].as_str(), info.2), (origin.word(), 1.0));
    }
}

#[test]
fn hostile_names_stay_values() {
    let mut moment = Moment::default();
    moment.begin(&sample::about());
    let mut snapshot = sample::snapshot();
    snapshot.targets[0].name = "a\"} 7\ndrumfire_iops 1\\".to_owned();
    moment.second(&snapshot);
    moment.judge(&sample::race());
    let text = metrics(&moment);
    let (_, samples) = parsed(&text, "");
    let rates: Vec<f64> =
        samples.iter().filter(|(name, ..)| name == "drumfire_iops").map(|it| it.2).collect();
    assert_eq!(rates, [3_412_345.6]);
    let names = samples.iter().filter_map(|(_, labels, _)| labels.get("target"));
    assert!(names.into_iter().any(|name| *name == snapshot.targets[0].name), "{text}");
    assert!(text.ends_with('\n') && metrics(&Moment::default()).contains("drumfire_up 1"));
}
