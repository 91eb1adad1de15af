//! The document of `fio --output-format=json` for a result: names, order, types and buckets are
//! fio's, so that programs that read fio's results read this, too.
//!
//! Values that are not measured are 0, as in fio with a disabled clock: submission latencies
//! (`slat_ns`, with N 0), and how I/Os were batched (`iodepth_submit`, `iodepth_complete`).
//! Latencies of an open loop count from the planned start.

pub(crate) mod bins;
mod directions;
mod disks;
mod document;
mod figures;
mod histograms;
mod logs;
mod normal;
mod number;
pub(crate) mod options;
mod steady;
mod terse;
mod trace;

use std::io::{self, Write};

use block::Fault;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use stats::{Buckets, Failure, RunResult, Second};

use self::document::{Document, Job, Object, Trust};
pub use self::histograms::HistogramLog;
pub use self::logs::{Form, Logs};
use self::normal::write_normal;
use self::terse::write_terse;
pub use self::trace::{Driven, Trace};
use crate::ended;
use crate::group::{self, Group, Part};
use crate::json::as_pretty;
use crate::painted::{Painted, printable_of};
use crate::reason;

/// fio version whose document this is.
const VERSION: &str = "fio-3.33";

/// Optional parts of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// The histograms, as `json+` has them.
    pub plus: bool,
    /// Class of each job, in an object that fio does not write.
    pub trust: bool,
}

/// Writes the document of a run, a result for each of its steps. A step is one or more fio groups,
/// with the jobs that waited for all earlier ones.
pub fn write(steps: &[RunResult], include: Include, out: &mut impl Write) -> io::Result<()> {
    let Some(last) = steps.last() else { return Ok(()) };
    let mut jobs = each_job(steps, include, |job, _| job);
    // As in fio, from the start of the whole run to its end, for each job.
    let took_s = steps.iter().map(|step| step.totals.seconds + step.job.ramp_seconds).sum::<f64>();
    jobs.iter_mut().for_each(|job| job.elapsed = took_s.ceil() as u64);
    let (timestamp_ms, time) = ended(last);
    let document = Document {
        version: format!("{VERSION} ({} {})", last.tool.name, last.tool.version),
        timestamp: timestamp_ms / 1000,
        timestamp_ms,
        time,
        options: last.spec.get("options").map(|all| Object(options::written(Some(all)))),
        jobs,
        disk_util: disks::disks(steps),
    };
    document.serialize(&mut Serializer::with_formatter(&mut *out, AsFio::default()))?;
    writeln!(out)
}

/// fio's default output, for a terminal.
pub fn normal(steps: &[RunResult]) -> Painted {
    let steps: Vec<RunResult> = steps.iter().map(printable_of).collect();
    let mut out = Vec::new();
    // A write to memory does not fail.
    let _ = write_normal(&steps, &mut out);
    Painted::of(out)
}

/// fio's lines of fields, for a terminal.
pub fn terse(steps: &[RunResult], version: u32) -> Painted {
    let steps: Vec<RunResult> = steps.iter().map(printable_of).collect();
    let mut out = Vec::new();
    // A write to memory does not fail.
    let _ = write_terse(&steps, version, &mut out);
    Painted::of(out)
}

/// Maps each job of a run and its group with `of`; the run has a result for each step.
fn each_job<T>(steps: &[RunResult], include: Include, of: impl Fn(Job, &Group<'_>) -> T) -> Vec<T> {
    let mut made = Vec::new();
    let mut id = 0;
    for result in steps {
        let entries = group::entries(result);
        let alone = entries.len() == 1;
        for (index, group) in entries.iter().enumerate() {
            id += u32::from(!made.is_empty() && (index == 0 || group.begins));
            made.push(of(job(result, group, id, alone, include), group));
        }
    }
    made
}

/// Number of fio's jobs, each clone counted, that ended with an error.
pub fn failed(steps: &[RunResult]) -> usize {
    let of = |result: &RunResult| {
        let fails = |group: &Group<'_>| error(result, group).is_some();
        let of_group = |group: &Group<'_>| {
            let alone = group.workers.iter().enumerate().map(|(at, one)| group.alone(at, one));
            alone.filter(fails).count()
        };
        group::entries(result).iter().map(of_group).sum::<usize>()
    };
    steps.iter().map(of).sum()
}

/// Percentiles in rising order by fio's buckets and rule, each with its latency in nanoseconds.
pub(crate) fn percentiles(buckets: &Buckets, percents: &[f64]) -> Vec<(f64, u64)> {
    bins::percentiles(&bins::bins(buckets), percents)
}

/// End of the window: in milliseconds, and in words.
fn ended(result: &RunResult) -> (i64, String) {
    let (_, ended) = ended::window(result);
    (ended.as_millisecond(), ended.strftime("%a %b %e %H:%M:%S %Y").to_string())
}

fn job(result: &RunResult, group: &Group<'_>, id: u32, alone: bool, include: Include) -> Job {
    let (trim, sync) = (&group.trim, &group.flush);
    let mut all = group.read.clone();
    all.merge(&group.write);
    all.merge(trim);
    // A group may have begun later or ended sooner than the run.
    let own = group.workers.iter().map(|worker| worker.seconds).fold(0.0, f64::max);
    let seconds = if own > 0.0 { own } else { result.totals.seconds };
    let runtime_ms = (seconds * 1000.0).round() as u64;
    let seconds: &[Second] = if alone { &result.intervals } else { &[] };
    let cpu = &result.cpu;
    // The share of the group's own I/Os: threads are shared by groups.
    let share = all.ios as f64 / result.totals.ios.max(1) as f64;
    let (system, whole) = (cpu.initiator_system_cores, cpu.initiator_cores);
    let system = system.unwrap_or(0.0).min(whole.unwrap_or(0.0));
    // Like fio's for a group: the mean over its jobs.
    let per_job = share * 100.0 / group.workers.len().max(1) as f64;
    let depth = group.workers.iter().map(|worker| worker.mean_outstanding);
    let depth = depth.sum::<f64>() / group.workers.len().max(1) as f64;
    let faults = cpu.initiator_faults.unwrap_or_default();
    let of_group = |count: u64| (count as f64 * share.min(1.0)).round() as u64;
    let errors = all.errors + sync.errors;
    let faulty = (errors > 0).then(|| first_error(result, group));
    let goes_on = faulty.is_some() || options::goes_on(result, group);
    let (latency_depth, latency_target, latency_percentile, latency_window) =
        options::search(group);
    Job {
        jobname: group.name.clone(),
        groupid: id,
        error: error(result, group).unwrap_or(0),
        eta: 0,
        elapsed: 0,
        options: options::options(result, group).map(Object),
        directions: directions::directions(group, &all, runtime_ms, seconds, include.plus),
        job_runtime: runtime_ms * group.workers.len() as u64,
        usr_cpu: (whole.unwrap_or(0.0) - system) * per_job,
        sys_cpu: system * per_job,
        ctx: of_group(cpu.initiator_switches.unwrap_or(0)),
        majf: of_group(faults[1]),
        minf: of_group(faults[0]),
        iodepth_level: level(depth, all.ios > 0),
        iodepth_submit: zeroes(&["0", "4", "8", "16", "32", "64", ">=64"]),
        iodepth_complete: zeroes(&["0", "4", "8", "16", "32", "64", ">=64"]),
        latency_ns: shares(&all, &NANOS, 1, None),
        latency_us: shares(&all, &MICROS, 1000, None),
        latency_ms: shares(&all, &MILLIS, 1_000_000, Some(">=2000")),
        total_err: goes_on.then_some(errors),
        first_error: goes_on.then_some(faulty.unwrap_or(0)),
        latency_depth,
        latency_target,
        latency_percentile,
        latency_window,
        steadystate: steady::steady_state(result),
        desc: group.figures.get("description").and_then(Value::as_str).map(str::to_owned),
        drumfire: include.trust.then(|| trust(result, group)),
    }
}

/// Returns the run's credibility, with the group's unanswered I/Os and lost connections.
fn trust(result: &RunResult, group: &Group<'_>) -> Trust {
    let verdicts = reason::verdicts(result).into_iter();
    let workers = || group.workers.iter();
    Trust {
        origin: result.origin.with(result.kind),
        class: result.class.word(),
        reason: reason::verdict(result),
        checks: Object(verdicts.map(|(code, word)| (code.to_owned(), word)).collect()),
        partial: result.partial.clone(),
        waiting_ios: workers().map(|worker| worker.waiting.ios).sum(),
        waiting_from_ns: workers().filter_map(|worker| worker.latency_ns.waiting_from).min(),
        connections_lost: workers().map(|worker| worker.connections.connections_lost).sum(),
        reconnects: workers().map(|worker| worker.connections.reconnects).sum(),
    }
}

/// The errno with which fio ends a job that finds other data than were written.
const EILSEQ: u32 = 84;

/// Returns the errno with which a job ends: that of a missed demand, EILSEQ for a miscompare, or
/// that of the first failed I/O.
fn error(result: &RunResult, group: &Group<'_>) -> Option<u32> {
    let missed = group.workers.iter().find_map(|worker| worker.missed.as_ref());
    let differs = || differs(result, group).then_some(EILSEQ);
    let failed =
        group.read.errors + group.write.errors + group.trim.errors + group.flush.errors > 0;
    let first = || failed.then(|| first_error(result, group));
    missed.map(|missed| missed.errno).or_else(differs).or_else(first)
}

/// Returns whether the group had a miscompare. If the result names a worker, it must be one of the
/// group; otherwise any group that verifies counts.
fn differs(result: &RunResult, group: &Group<'_>) -> bool {
    let failed =
        |check: &stats::Check| check.code == "H05" && check.verdict == stats::Verdict::Fail;
    if !result.checks.iter().any(failed) {
        return false;
    }
    let said = result.partial.as_deref().unwrap_or_default();
    let read = |worker: &stats::WorkerResult| {
        said.strip_prefix(worker.name.as_str()).is_some_and(|rest| rest.starts_with(" read other"))
    };
    match result.workers.iter().any(read) {
        true => group.workers.iter().any(read),
        false => group.workload.get("verify").is_some(),
    }
}

/// Returns the errno of the first failure; if no system call returned one, ENOSPC or EIO, as the
/// kernel does for network block devices.
fn first_error(result: &RunResult, group: &Group<'_>) -> u32 {
    const EIO: u32 = 5;
    const ENOSPC: u32 = 28;
    let ours = |failure: &&Failure| group.workers.iter().any(|w| w.name == failure.first.worker);
    let first = result.failures.iter().find(ours);
    let status = first.and_then(|failure| failure.status.as_deref());
    let full = first.is_some_and(|failure| failure.fault == Fault::NoSpace.to_string());
    // "EIO (5): Input/output error"
    let number = status.and_then(|status| status.split_once("): ")?.0.split_once(" ("));
    number.and_then(|(_, number)| number.parse().ok()).unwrap_or(if full { ENOSPC } else { EIO })
}

const NANOS: [&str; 10] = ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"];
const MICROS: [&str; 10] = NANOS;
const MILLIS: [&str; 11] = ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000"];

/// Returns the share of I/Os below each edge and not below the previous one, in percent. The first
/// edge of each unit begins at one of the unit; nanoseconds begin at 0. `beyond` is the share above
/// all edges.
fn shares(
    part: &Part,
    edges: &[&'static str],
    unit_ns: u64,
    beyond: Option<&'static str>,
) -> Object<&'static str, f64> {
    let samples = part.buckets.samples().max(1) as f64;
    let between = |from: u64, to: u64| -> f64 {
        let inside = |bucket: &stats::Bucket| (from..to).contains(&bucket.from_ns);
        part.buckets.iter().filter(inside).map(|bucket| bucket.count).sum::<u64>() as f64
    };
    let mut from = if unit_ns == 1 { 0 } else { unit_ns };
    let mut found = Vec::new();
    for edge in edges {
        let to = edge.parse::<u64>().expect("an edge is a number") * unit_ns;
        found.push((*edge, between(from, to) / samples * 100.0));
        from = to;
    }
    found.extend(beyond.map(|edge| (edge, between(from, u64::MAX) / samples * 100.0)));
    Object(found)
}

/// All I/Os at the mean depth of a worker: how the depth was spread is not kept.
fn level(depth: f64, any: bool) -> Object<&'static str, f64> {
    let mut levels = zeroes(&["1", "2", "4", "8", "16", "32", ">=64"]);
    let depth = depth.round().clamp(1.0, 64.0) as u32;
    levels.0[depth.ilog2() as usize].1 = if any { 100.0 } else { 0.0 };
    levels
}

fn zeroes(keys: &[&'static str]) -> Object<&'static str, f64> {
    Object(keys.iter().map(|key| (*key, 0.0)).collect())
}

/// fio's JSON format: a blank before each colon, six decimal places.
#[derive(Default)]
struct AsFio(PrettyFormatter<'static>);

impl Formatter for AsFio {
    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        write!(out, "{value:.6}")
    }

    as_pretty!(begin_array, end_array, end_array_value, begin_object, end_object, end_object_value);
    as_pretty!(begin_array_value(first: bool), begin_object_key(first: bool));

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b" : ")
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    const PLUS: Include = Include { plus: true, trust: false };

    fn document(plus: bool) -> Value {
        let mut out = Vec::new();
        write(&[sample::counted()], Include { plus, trust: true }, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn what_was_counted_stands_where_fio_has_it() {
        let document = document(true);
        let job = &document["jobs"][0];
        let (read, write) = (&job["read"], &job["write"]);
        assert_eq!((&read["total_ios"], &write["total_ios"]), (&2000.into(), &1000.into()));
        assert_eq!((&read["io_bytes"], &read["bw"]), (&8_192_000.into(), &4000.into()));
        assert_eq!((&read["iops"], &read["runtime"]), (&1000.0.into(), &2000.into()));
        let clat = &read["clat_ns"];
        assert_eq!(
            (&clat["min"], &clat["max"], &clat["N"]),
            (&100_000.into(), &100_000.into(), &2000.into())
        );
        // The middle of fio's bucket from 99328 on, 1024 wide.
        assert_eq!(clat["percentile"]["50.000000"], 99_840);
        assert_eq!(clat["bins"]["99840"], 2000);
        assert_eq!(clat["percentile"].as_object().unwrap().len(), 17);
        assert_eq!(job["latency_us"]["100"], 66.666_667);
        assert_eq!(job["latency_ms"]["10"], 33.333_333);
        assert_eq!((&read["bw_samples"], &read["iops_mean"]), (&2.into(), &1000.0.into()));
        assert_eq!(
            (&job["job options"]["rw"], &job["job options"]["rwmixread"]),
            (&"randrw".into(), &"67".into())
        );
        assert_eq!(job["trim"]["total_ios"], 0);
        assert_eq!(job["trim"]["clat_ns"].get("percentile"), None);
    }

    #[test]
    fn every_job_says_how_long_all_steps_took() {
        let mut out = Vec::new();
        write(&[sample::counted(), sample::counted()], Include::default(), &mut out).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        let one = sample::counted();
        let took = (2.0 * (one.totals.seconds + one.job.ramp_seconds)).ceil() as u64;
        let elapsed = document["jobs"].as_array().unwrap().iter().map(|job| &job["elapsed"]);
        assert!(took > 1 && elapsed.eq([&Value::from(took); 2]), "{document}");
    }

    #[test]
    fn figures_are_those_that_the_job_asks_for() {
        let of = |figures: Value| {
            let mut result = sample::counted();
            result.spec["steps"][0]["groups"][0]["figures"] = figures;
            let mut out = Vec::new();
            write(&[result], PLUS, &mut out).unwrap();
            serde_json::from_slice::<Value>(&out).unwrap()["jobs"][0].clone()
        };
        let has = |spread: &Value| ["percentile", "bins"].map(|key| spread.get(key).is_some());
        let none = of(serde_json::json!({ "of_completion": false, "percentiles": [99.0] }));
        assert_eq!([has(&none["read"]["clat_ns"]), has(&none["read"]["lat_ns"])], [[false; 2]; 2]);
        let whole = of(serde_json::json!({ "of_whole": true, "percentiles": [5.0, 99.0] }));
        assert_eq!(has(&whole["write"]["clat_ns"]), [true; 2]);
        let shown = whole["write"]["lat_ns"]["percentile"].as_object().unwrap();
        assert!(shown.keys().eq(["5.000000", "99.000000"]), "{shown:?}");
        let keys = |job: &Value| {
            let all = ["read", "write", "trim", "sync", "mixed"];
            all.map(|key| job.get(key).is_some())
        };
        assert_eq!(keys(&whole), [true, true, true, true, false]);
        let mixed = of(serde_json::json!({ "directions": "mixed" }));
        assert_eq!(keys(&mixed), [false, false, false, false, true]);
        let mixed = &mixed["mixed"];
        assert_eq!((&mixed["total_ios"], &mixed["iops"]), (&3000.into(), &1500.0.into()));
        assert_eq!((&mixed["clat_ns"]["N"], &mixed["iops_max"]), (&3000.into(), &1500.into()));
        let both = of(serde_json::json!({ "directions": "both" }));
        assert_eq!((keys(&both), &both["mixed"]), ([true; 5], mixed));
    }

    /// A job without options shows none, as in fio, and a job whose options have no values shows an
    /// empty object.
    #[test]
    fn options_are_those_of_the_file() {
        let of = |own: Value| {
            let mut result = sample::counted();
            result.spec["options"] = serde_json::json!([["bs", "4k"]]);
            result.spec["steps"][0]["groups"][0]["figures"] = own;
            let mut out = Vec::new();
            write(&[result], Include::default(), &mut out).unwrap();
            serde_json::from_slice::<Value>(&out).unwrap()["jobs"][0].get("job options").cloned()
        };
        assert_eq!(of(Value::Null), None);
        let bare = of(serde_json::json!({ "options": [["stonewall", ""]] }));
        assert_eq!(bare, Some(serde_json::json!({})));
        let own = of(serde_json::json!({ "options": [["bs", "8k"]] }));
        assert_eq!(own, Some(serde_json::json!({ "bs": "8k" })));
    }

    #[test]
    fn buckets_come_with_plus_only_and_the_text_looks_like_fios() {
        assert_eq!(document(false)["jobs"][0]["read"]["clat_ns"].get("bins"), None);
        let mut out = Vec::new();
        write(&[sample::counted()], Include::default(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("{\n  \"fio version\" : \"fio-3.33 ("), "{text}");
        assert!(text.contains("\n        \"iops\" : 1000.000000,\n"), "{text}");
        assert!(!text.contains("-0.0"), "{text}");
    }

    #[test]
    fn what_steered_a_job_stands_where_fio_has_it() {
        let mut result = sample::counted();
        let keys = ["latency_depth", "latency_target", "latency_window", "error"];
        let says = |result: &RunResult| {
            let mut out = Vec::new();
            write(std::slice::from_ref(result), Include::default(), &mut out).unwrap();
            let document: Value = serde_json::from_slice(&out).unwrap();
            let job = &document["jobs"][0];
            (keys.map(|key| job[key].as_u64().unwrap()), job["latency_percentile"].as_f64())
        };
        let (plain, _) = says(&result);
        assert_eq!(plain[1..], [0, 0, 0]);
        result.workers[1].searched = Some(stats::SearchedDepth { depth: 6, found: true });
        let missed = stats::MissedDemand { t_s: 1.0, why: "slow".to_owned(), errno: 110 };
        result.workers[0].missed = Some(missed);
        let search = serde_json::json!({ "latency_us": 500, "window_us": 9, "percent": 99.5 });
        result.spec["steps"][0]["groups"][0]["workload"]["depth_search"] = search;
        assert_eq!(says(&result), ([6, 500_000, 9, 110], Some(99.5)));
    }

    #[test]
    fn errors_are_numbers_of_the_system() {
        let mut result = sample::counted();
        let errors = |result: &RunResult| {
            let mut out = Vec::new();
            write(std::slice::from_ref(result), Include::default(), &mut out).unwrap();
            let document: Value = serde_json::from_slice(&out).unwrap();
            let job = &document["jobs"][0];
            ["error", "first_error", "total_err"].map(|key| job.get(key).and_then(Value::as_u64))
        };
        assert_eq!(errors(&result), [Some(0), None, None]);
        result.workers[0].read.errors = 2;
        result.workers[1].flush.errors = 1;
        let mut failure = sample::failures()[0].clone();
        failure.first.worker.clone_from(&result.workers[0].name);
        failure.status = Some("medium error: unrecovered read error (11/00)".into());
        result.failures = vec![failure];
        assert_eq!(errors(&result), [Some(5), Some(5), Some(3)]);
        result.failures[0].status = Some("ENOSPC (28): No space left on device".into());
        assert_eq!(errors(&result), [Some(28), Some(28), Some(3)]);
        // Same error, reported by a target.
        result.failures[0].status = Some("capacity exceeded (SCT 0h, SC 81h)".into());
        result.failures[0].fault = "no space left".into();
        assert_eq!(errors(&result), [Some(28), Some(28), Some(3)]);
    }

    #[test]
    fn a_result_without_histograms_has_no_percentiles() {
        let mut out = Vec::new();
        write(&[sample::race()], PLUS, &mut out).unwrap();
        let document: Value = serde_json::from_slice(&out).unwrap();
        let read = &document["jobs"][0]["read"];
        assert_eq!(read["total_ios"], 34_123_456);
        assert_eq!(read["clat_ns"].get("percentile"), None);
    }
}
