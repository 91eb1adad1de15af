//! The logs that `fio` writes with `write_bw_log`, `write_iops_log` and `write_lat_log`, in the
//! form of a `log_avg_msec`: programs that draw fio's draw these too.
//!
//! A line is a point of one direction: milliseconds since the job began at which its second ends,
//! value, direction, and two columns that fio fills for single I/Os only. A direction without an
//! I/O in a second has no line, as with fio. Submission is not measured apart: there is no `_slat`
//! log, and `_clat` says the same as `_lat`.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;
use stats::{Amount, JobSeries, RunResult};

use super::options;

/// The logs that the job of a run wants: name and content of each. `steps` are its results so far.
pub fn logs(steps: &[RunResult]) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for result in steps {
        let logged = logged(result);
        for series in &result.series {
            if let Some(group) = Logged::of(&logged, series.job) {
                group.add(&mut found, series);
            }
        }
    }
    found
}

/// What a line says of so much in so many seconds.
type Point = fn(&Amount, f64) -> f64;

/// Logs by the setting of our job, with fio's word for each.
const KINDS: [(&str, &str, Point); 4] = [
    ("bandwidth", "bw", |amount, seconds| amount.bytes as f64 / seconds / 1024.0),
    ("iops", "iops", |amount, seconds| amount.ios as f64 / seconds),
    ("latency", "lat", |amount, _| amount.mean_ns.unwrap_or_default()),
    ("latency", "clat", |amount, _| amount.mean_ns.unwrap_or_default()),
];

/// A group of the job whose jobs have logs.
struct Logged<'a> {
    /// Numbers of its jobs: the first, and the one behind the last.
    first: u64,
    end: u64,
    /// What it says of logs.
    logs: &'a Value,
    workload: &'a Value,
}

/// The groups that want logs, in the order of their jobs.
fn logged(result: &RunResult) -> Vec<Logged<'_>> {
    let groups = result.spec.pointer("/steps/0/groups").and_then(Value::as_array);
    let each = groups.into_iter().flatten().filter_map(|group| {
        let logs = group.get("logs")?;
        let number = |key| logs.get(key).and_then(Value::as_u64).unwrap_or(1);
        let first = number("first");
        let workload = group.get("workload").unwrap_or(&Value::Null);
        Some(Logged { first, end: first.saturating_add(number("jobs")), logs, workload })
    });
    let mut each: Vec<Logged<'_>> = each.collect();
    each.sort_by_key(|group| group.first);
    each
}

impl Logged<'_> {
    /// The one of them that a job belongs to.
    fn of<'a, 'b>(groups: &'b [Logged<'a>], job: u32) -> Option<&'b Logged<'a>> {
        let job = u64::from(job);
        let begun = groups.partition_point(|group| group.first <= job);
        groups[..begun].last().filter(|group| job < group.end)
    }

    fn add(&self, found: &mut BTreeMap<String, String>, series: &JobSeries) {
        let trims = options::trims(self.workload);
        let joined = self.logs.get("joined").and_then(Value::as_bool).unwrap_or(false);
        let number = if joined { String::new() } else { format!(".{}", series.job) };
        for (key, word, value) in KINDS {
            if let Some(name) = self.logs.get(key).and_then(Value::as_str) {
                let log = found.entry(format!("{name}_{word}{number}.log")).or_default();
                lines(log, series, trims, value);
            }
        }
    }
}

fn lines(out: &mut String, series: &JobSeries, trims: bool, value: Point) {
    let begin_s = series.stretches.first().map_or(0.0, |first| first.from_s);
    for stretch in &series.stretches {
        let seconds = (stretch.to_s - stretch.from_s).max(f64::MIN_POSITIVE);
        let ms = (stretch.to_s - begin_s) * 1000.0;
        // Flushes are in no log of fio's.
        let other = trims.then_some(&stretch.other);
        let parts = [Some(&stretch.read), Some(&stretch.write), other];
        for (direction, amount) in parts.into_iter().enumerate() {
            if let Some(amount) = amount.filter(|amount| amount.ios > 0) {
                let value = value(amount, seconds);
                let _ = writeln!(out, "{ms:.0}, {value:.0}, {direction}, 0, 0");
            }
        }
    }
}

#[cfg(test)]
mod test {
    use serde_json::json;
    use stats::Stretch;

    use super::*;

    /// Two jobs of one group, then one that trims; the first second of each begins late.
    fn result(joined: bool) -> RunResult {
        let amount =
            |ios, kib: u64, ns: f64| Amount { ios, bytes: ios * kib * 1024, mean_ns: Some(ns) };
        let stretch = |from_s: f64, to_s| Stretch { from_s, to_s, ..Stretch::default() };
        let mixed = |from_s, to_s, factor: u64| Stretch {
            read: amount(5002 * factor, 4, 159.4),
            write: amount(1000 * factor, 4, 145.5),
            // Flushes.
            other: amount(9, 0, 1e6),
            ..stretch(from_s, to_s)
        };
        let logs = json!({
            "bandwidth": "pre", "latency": "out/x", "first": 3, "jobs": 2, "joined": joined,
        });
        let plain = json!({ "access": { "lines": [{ "size_bytes": 4096 }] } });
        let trims = json!({ "access": { "lines": [{ "size_bytes": 8192, "trim_percent": 100 }] } });
        let groups = json!([
            { "workload": plain },
            { "logs": logs, "workload": plain },
            { "logs": { "iops": "t", "first": 5, "jobs": 1 }, "workload": trims },
        ]);
        let series = |job, stretches| JobSeries { job, stretches };
        let quiet = stretch(3.0, 4.0);
        let trim = Stretch { other: amount(700, 8, 203.0), ..stretch(0.0, 0.5) };
        RunResult {
            spec: json!({ "steps": [{ "groups": groups }] }),
            series: vec![
                series(3, vec![mixed(2.0, 3.0, 1), quiet, mixed(4.0, 6.0, 2)]),
                series(4, vec![mixed(2.0, 3.001, 1)]),
                series(5, vec![trim]),
            ],
            ..RunResult::default()
        }
    }

    /// The form of `fio-3.33` with `log_avg_msec=1000`.
    #[test]
    fn lines_are_those_of_fio() {
        let logs = logs(&[result(false)]);
        let expected = [
            (
                "out/x_clat.3.log",
                "1000, 159, 0, 0, 0\n1000, 146, 1, 0, 0\n4000, 159, 0, 0, 0\n\
              4000, 146, 1, 0, 0\n",
            ),
            ("out/x_clat.4.log", "1001, 159, 0, 0, 0\n1001, 146, 1, 0, 0\n"),
            (
                "out/x_lat.3.log",
                "1000, 159, 0, 0, 0\n1000, 146, 1, 0, 0\n4000, 159, 0, 0, 0\n\
              4000, 146, 1, 0, 0\n",
            ),
            ("out/x_lat.4.log", "1001, 159, 0, 0, 0\n1001, 146, 1, 0, 0\n"),
            (
                "pre_bw.3.log",
                "1000, 20008, 0, 0, 0\n1000, 4000, 1, 0, 0\n4000, 20008, 0, 0, 0\n\
              4000, 4000, 1, 0, 0\n",
            ),
            ("pre_bw.4.log", "1001, 19988, 0, 0, 0\n1001, 3996, 1, 0, 0\n"),
            ("t_iops.5.log", "500, 1400, 2, 0, 0\n"),
        ];
        let found: Vec<(&str, &str)> =
            logs.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn jobs_may_share_a_log() {
        let logs = logs(&[result(true), RunResult::default()]);
        let names: Vec<&str> = logs.keys().map(String::as_str).collect();
        assert_eq!(names, ["out/x_clat.log", "out/x_lat.log", "pre_bw.log", "t_iops.5.log"]);
        assert_eq!(logs["pre_bw.log"].lines().count(), 6);
        assert!(logs["pre_bw.log"].ends_with("1001, 3996, 1, 0, 0\n"));
    }
}
