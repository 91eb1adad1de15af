//! Reads back all formats of the same results and compares each figure with the result: printed
//! figures must be correct within their digits.

pub mod read;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;
use stats::live::Live;
use stats::{Direction, Latency, RunResult, Verdict};

use self::read::{agrees, agrees_latency, base64, cells, piped, rows, written};
use crate::style::Paint;
use crate::targets;
use crate::{ended, fio, generated, hlog, iometer, json, jsonl, junit, pages, text};

fn each(check: impl Fn(&RunResult)) {
    read::each(generated::hundred(), check);
}

/// The directions of a result that have anything, as the table names them.
fn used(result: &RunResult) -> Vec<(&'static str, &Direction)> {
    let totals = &result.totals;
    let all = [
        ("reads", &totals.read),
        ("writes", &totals.write),
        ("trims", &totals.trim),
        ("flushes", &totals.flush),
    ];
    let has = |of: &Direction| of.ios > 0 || of.latency_ns.samples > 0;
    all.into_iter().filter(|(_, of)| has(of)).collect()
}

#[test]
fn what_is_generated_has_everything() {
    let results = generated::hundred();
    let count = |is: fn(&RunResult) -> bool| results.iter().filter(|result| is(result)).count();
    for (what, found) in [
        ("errors", count(|r| r.totals.errors > 0)),
        ("errors of the ramp", count(|r| r.totals.ramp_errors > 0)),
        ("I/Os without an answer", count(|r| r.totals.waiting.ios > 0)),
        ("lost connections", count(|r| r.totals.connections.connections_lost > 0)),
        ("an open loop", count(|r| r.totals.paced.is_some())),
        ("cut runs", count(|r| r.partial.is_some())),
        ("several workers", count(|r| r.workers.len() > 1)),
        ("mixes", count(|r| r.totals.read.ios > 0 && r.totals.write.ios > 0)),
        ("flushes", count(|r| r.totals.flush.ios > 0)),
        ("invalid ones", count(|r| r.class == stats::Class::Invalid)),
        ("others", count(|r| r.class == stats::Class::Indicative)),
        ("withheld percentiles", count(|r| r.totals.latency_ns.p99.is_none())),
        ("all percentiles", count(|r| r.totals.latency_ns.p99_9.is_some())),
    ] {
        assert!(found >= 5, "{found} of a hundred with {what}");
    }
}

#[test]
fn the_table_says_what_the_result_says() {
    each(|result| {
        let text = written(|out| text::write(result, Paint::PLAIN, out));
        let totals = &result.totals;
        let first = text.lines().next().unwrap();
        let (rate, rest) = first.split_once(" IOPS ").unwrap();
        agrees(rate, totals.iops);
        let class = measured(result);
        assert!(rest.starts_with(&class), "{first}");
        assert_eq!(text.contains("\npartial result: "), result.partial.is_some());
        let line = text.lines().find(|line| line.contains(" I/Os in ")).unwrap();
        let parts: Vec<&str> = line.split(" · ").collect();
        agrees(parts[0], totals.bytes_per_second);
        let (ios, seconds) = parts[1].split_once(" I/Os in ").unwrap();
        assert_eq!(ios.replace(',', "").parse::<u64>().unwrap(), totals.ios);
        agrees(seconds, totals.seconds * 1e9);
        let outstanding = parts.last().unwrap().split(' ').next().unwrap();
        agrees(outstanding, totals.mean_outstanding);
        assert_eq!(line.contains("no errors"), ended::troubles(result).is_empty(), "{line}");
        for trouble in ended::troubles(result) {
            assert!(line.contains(&trouble), "{line}");
        }
        latency_row(&text, "all", &totals.latency_ns);
        let used = used(result);
        for (name, of) in used.iter().filter(|_| used.len() > 1) {
            let rest = latency_row(&text, name, &of.latency_ns);
            let unit = if *name == "flushes" { " a second, no IOPS" } else { " IOPS" };
            agrees(rest.trim().strip_suffix(unit).unwrap(), of.iops);
        }
        for failure in &result.failures {
            assert!(text.contains(&format!("{} × {}", failure.count, failure.operation)));
        }
        for check in &result.checks {
            let line = format!("\n  {:<7}  {} ", check.verdict.word(), check.code);
            assert_eq!(text.contains(&line), check.verdict.is_against(), "{line}");
        }
        targets_table(&text, result);
    });
}

/// Origin and class; the length of the window where it is short.
fn measured(result: &RunResult) -> String {
    let seconds = result.totals.seconds;
    let length = if seconds < 5.0 { format!(" in {seconds:.0} s") } else { String::new() };
    format!("measured{length}, {}", result.class.word())
}

/// Compares a row of latencies with a latency; returns the text after the row.
fn latency_row(text: &str, name: &str, latency: &Latency) -> String {
    let label = format!("{name:8}");
    let row = text.lines().find(|line| line.starts_with(&label)).unwrap();
    let letters: Vec<char> = row.chars().skip(8).collect();
    let cell = |index: usize| letters[index * 9..index * 9 + 9].iter().collect::<String>();
    latency_cells(latency, &(0..8).map(cell).collect::<Vec<String>>());
    letters[72..].iter().collect()
}

/// min, mean, p50, p90, p99, p99.9, p99.99, max.
fn latency_cells(latency: &Latency, cells: &[String]) {
    let ns = |ns: Option<u64>| ns.map(|ns| (ns as f64, latency.at_least(ns)));
    let mean = latency.mean.map(|mean| (mean, latency.mean_at_least()));
    let figures = [
        latency.min.map(|ns| (ns as f64, latency.at_least(ns))),
        mean,
        ns(latency.p50),
        ns(latency.p90),
        ns(latency.p99),
        ns(latency.p99_9),
        ns(latency.p99_99),
        ns(latency.max),
    ];
    assert_eq!(cells.len(), figures.len(), "{cells:?}");
    cells.iter().zip(figures).for_each(|(cell, figure)| agrees_latency(cell, figure));
}

fn targets_table(text: &str, result: &RunResult) {
    let rows = targets::rows(&result.workers);
    assert_eq!(rows.iter().map(|row| row.ios).sum::<u64>(), result.totals.ios);
    assert_eq!(rows.iter().map(|row| row.errors).sum::<u64>(), result.totals.errors);
    assert_eq!(rows.iter().map(|row| row.waiting).sum::<u64>(), result.totals.waiting.ios);
    if rows.len() < 2 {
        return;
    }
    let is_head = |line: &&str| line.ends_with("   max  errors");
    let head = text.lines().find(is_head).unwrap();
    let name = head.chars().count() - (14 + 13 + 11 + 11 + 8);
    let shown = text.lines().skip_while(|line| *line != head).skip(1).take(rows.len());
    for (line, row) in shown.zip(&rows) {
        let letters: Vec<char> = line.chars().collect();
        let part = |from: usize, len: usize| {
            letters[name + from..name + from + len].iter().collect::<String>()
        };
        agrees(part(0, 14).trim().trim_end_matches(" IOPS"), row.iops);
        agrees(&part(14, 13), row.bytes_per_second);
        let bound = row.waiting_from.is_some();
        agrees_latency(&part(27, 11), row.mean_ns.map(|mean| (mean, bound)));
        let at_least = |ns: u64| row.waiting_from.is_some_and(|from| ns >= from);
        agrees_latency(&part(38, 11), row.max_ns.map(|ns| (ns as f64, at_least(ns))));
        let errors = part(49, 8).trim().replace(',', "");
        assert_eq!(errors.parse::<u64>().unwrap(), row.errors, "{line}");
    }
}

#[test]
fn the_document_is_the_result() {
    each(|result| {
        let text = written(|out| json::write(result, out));
        assert!(json::read(text.as_bytes()).unwrap() == *result);
    });
}

#[test]
fn the_lines_end_with_the_result() {
    each(|result| {
        let text = written(|out| {
            let mut lines = jsonl::JsonLines::new(&mut *out);
            lines.failed(&result.failures);
            lines.end();
            lines.finished(result);
            Ok(())
        });
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (end, failures) = lines.split_last().unwrap();
        let counts = failures.iter().map(|line| line["count"].as_u64().unwrap());
        assert_eq!(counts.sum::<u64>() + result.failures_unlisted, result.totals.errors);
        let totals = serde_json::from_value::<stats::Totals>(end["totals"].clone()).unwrap();
        assert!(totals == result.totals, "{totals:?} for {:?}", result.totals);
        assert_eq!(end["class"], result.class.word());
        assert_eq!(end["partial"].as_str(), result.partial.as_deref());
    });
}

#[test]
fn fios_document_says_what_the_result_says() {
    each(|result| {
        let steps = std::slice::from_ref(result);
        let text = written(|out| fio::write(steps, fio::Include { plus: true, trust: true }, out));
        let document: Value = serde_json::from_str(&text).unwrap();
        let [job] = &document["jobs"].as_array().unwrap()[..] else { panic!("{document}") };
        let totals = &result.totals;
        for (name, of) in [("read", &totals.read), ("write", &totals.write)] {
            let said = &job[name];
            assert_eq!(said["total_ios"], of.ios, "{name}");
            assert_eq!(said["io_bytes"], of.bytes, "{name}");
            near(&said["iops"], of.iops, 1e-6);
            near(&said["bw_bytes"], of.bytes_per_second, 1.0);
            fio_latency(&said["clat_ns"], &of.latency_ns, &said["clat_ns"]["percentile"]);
        }
        assert_eq!(job["sync"]["total_ios"], totals.flush.ios);
        fio_latency(&job["sync"]["lat_ns"], &totals.flush.latency_ns, &Value::Null);
        assert_eq!(job["error"] == 0, totals.errors == 0);
        assert_eq!(job["total_err"].as_u64().unwrap_or(0), totals.errors);
        let trust = &job["drumfire"];
        assert_eq!(trust["origin"], result.origin.with(result.kind));
        assert_eq!(trust["class"], result.class.word());
        assert_eq!(trust["waiting_ios"], totals.waiting.ios);
        assert_eq!(trust["waiting_from_ns"].as_u64(), totals.latency_ns.waiting_from);
        assert_eq!(trust["reconnects"], totals.connections.reconnects);
        for check in &result.checks {
            assert_eq!(trust["checks"][&check.code], check.verdict.word());
        }
    });
}

/// Fields of version 3: KiB, KiB/s, I/Os per second and milliseconds from the sixth on, 41 for each
/// direction.
#[test]
fn fios_terse_line_says_what_the_result_says() {
    each(|result| {
        let text = fio::terse(std::slice::from_ref(result), 3).as_str().to_owned();
        let fields: Vec<&str> = text.trim_end().split(';').collect();
        let totals = &result.totals;
        assert_eq!(fields[4] == "0", totals.errors == 0, "{text}");
        for (first, of) in [(5, &totals.read), (46, &totals.write)] {
            let said = |at: usize| fields[first + at].parse::<f64>().unwrap();
            assert_eq!(said(0), (of.bytes / 1024) as f64);
            assert!((said(1) - of.bytes_per_second / 1024.0).abs() <= 1.0, "{text}");
            assert!((said(2) - of.iops).abs() <= 1.0, "{text}");
            let us = |ns: Option<u64>| (ns.unwrap_or(0) / 1000) as f64;
            let latency = &of.latency_ns;
            assert_eq!((said(8), said(9)), (us(latency.min), us(latency.max)));
            let mean = latency.mean.unwrap_or(0.0) / 1000.0;
            assert!((said(10) - mean).abs() <= 1e-5 * mean.max(1.0), "{text}");
        }
    });
}

fn fio_latency(said: &Value, is: &Latency, percentiles: &Value) {
    assert_eq!(said["N"], is.samples);
    assert_eq!(said["min"], is.min.unwrap_or(0));
    assert_eq!(said["max"], is.max.unwrap_or(0));
    near(&said["mean"], is.mean.unwrap_or(0.0), 1e-5);
    let names = [(is.p50, "50.000000"), (is.p90, "90.000000"), (is.p99, "99.000000")];
    for (ours, name) in names.into_iter().filter(|_| !percentiles.is_null()) {
        // Two of our buckets are one of fio's, which is called by its middle.
        if let (Some(ours), Some(theirs)) = (ours, percentiles[name].as_f64()) {
            let off = theirs / ours as f64 - 1.0;
            assert!(off.abs() <= 1.0 / 64.0, "{name}: {theirs} for {ours}");
        }
    }
}

fn near(said: &Value, is: f64, slack: f64) {
    let said = said.as_f64().unwrap();
    assert!((said - is).abs() <= slack * is.abs().max(1.0), "{said} for {is}");
}

#[test]
fn iometers_file_says_what_the_result_says() {
    each(|result| {
        let text = written(|out| iometer::write(result, out));
        let head: Vec<&str> = text
            .lines()
            .find(|line| line.starts_with("'Target Type"))
            .unwrap()
            .split(',')
            .collect();
        let row = |kind: &str| -> Vec<Vec<&str>> {
            let rows = text.lines().filter(|line| line.starts_with(&format!("{kind},")));
            rows.map(|line| line.split(',').collect()).collect()
        };
        let [all] = &row("ALL")[..] else { panic!("{text}") };
        let of = |row: &[&str], name: &str| -> f64 {
            let at = head.iter().position(|column| *column == name).unwrap();
            row[at].parse().unwrap()
        };
        let totals = &result.totals;
        let (read, write) = (&totals.read, &totals.write);
        let close = |name: &str, is: f64| {
            let said = of(all, name);
            assert!((said - is).abs() <= 1e-6 * is.abs().max(1.0), "{name} {said} for {is}");
        };
        close("IOps", read.iops + write.iops);
        close("Read IOps", read.iops);
        close("Write IOps", write.iops);
        close("MBps (Decimal)", (read.bytes_per_second + write.bytes_per_second) / 1e6);
        close("MiBps (Binary)", (read.bytes_per_second + write.bytes_per_second) / 1048576.0);
        close("Errors", (read.errors + write.errors) as f64);
        close("Bytes Read", read.bytes as f64);
        close("Bytes Written", write.bytes as f64);
        close("Read I/Os", read.ios as f64);
        close("Write I/Os", write.ios as f64);
        for (name, of) in [("Read", read), ("Write", write)] {
            let ms = |ns: f64| ns / 1e6;
            let mean = of.latency_ns.mean.map_or(0.0, ms);
            close(&format!("Average {name} Response Time"), mean);
            let max = of.latency_ns.max.map_or(0.0, |max| ms(max as f64));
            close(&format!("Maximum {name} Response Time"), max);
        }
        let first = head.iter().position(|column| *column == "0 to 50 uS").unwrap();
        let bins: u64 = all[first..first + 21].iter().map(|bin| bin.parse::<u64>().unwrap()).sum();
        assert_eq!(bins, read.latency_ns.samples + write.latency_ns.samples);
        let disks = row("DISK");
        assert_eq!(disks.len(), result.workers.len());
        for (disk, worker) in disks.iter().zip(&result.workers) {
            assert_eq!(of(disk, "Read I/Os"), worker.read.ios as f64);
            assert_eq!(of(disk, "Write I/Os"), worker.write.ios as f64);
            let raw = of(disk, "Total Raw Read Response Time");
            let latency = &worker.read.latency_ns;
            let is = latency.mean.unwrap_or(0.0) * latency.samples as f64;
            assert!((raw - is).abs() <= 1.0 + is * 1e-9, "{raw} for {is}");
        }
        assert!(rows(&text).iter().all(|row| row.len() == 80), "{text}");
        let class = format!("\n'Class: {}", result.class.word());
        let (head, _) = text.split_once("\n'Results\n").unwrap();
        let origin = format!("\n'Origin: {}\n", result.origin.with(result.kind));
        assert!(head.contains(&class) && head.contains(&origin), "{text}");
        assert_eq!(text.contains("\n'Partial result: "), result.partial.is_some());
        for trouble in ended::troubles(result) {
            assert!(text.contains(&format!("\n'Ended with: {trouble}\n")), "{text}");
        }
    });
}

#[test]
fn the_log_of_histograms_has_every_latency() {
    each(|result| {
        let mut out = Vec::new();
        hlog::write(result, &mut out).unwrap();
        let text = String::from_utf8(out.clone()).unwrap();
        assert!(text.contains(&format!("#[Class: {}", result.class.word())), "{text}");
        let origin = format!("#[Origin: {}]\n", result.origin.with(result.kind));
        assert!(text.contains(&origin), "{text}");
        assert_eq!(text.contains("without an answer"), result.totals.waiting.ios > 0);
        let mut all = Histogram::<u64>::new(3).unwrap();
        let mut deserializer = Deserializer::new();
        for entry in IntervalLogIterator::new(&out) {
            let Ok(LogEntry::Interval(line)) = entry else { continue };
            let bytes = base64(line.encoded_histogram());
            let one: Histogram<u64> = deserializer.deserialize(&mut &bytes[..]).unwrap();
            all.add(one).unwrap();
        }
        let latency = &result.totals.latency_ns;
        assert_eq!(all.len(), latency.samples);
        for (share, is) in [(0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99)] {
            let Some(is) = is else { continue };
            let said = all.value_at_quantile(share) as f64;
            assert!((said / is as f64 - 1.0).abs() < 0.01, "{share}: {said} for {is}");
        }
        let (said, is) = (all.max() as f64, latency.max.unwrap() as f64);
        assert!((said / is - 1.0).abs() < 0.01, "{said} for {is}");
    });
}

#[test]
fn markdown_says_what_the_result_says() {
    each(|result| {
        let text = pages::runs(std::slice::from_ref(result)).markdown();
        let lead = text.lines().find(|line| line.starts_with("**")).unwrap();
        let (rate, rest) = lead.trim_start_matches('*').split_once(" IOPS ").unwrap();
        agrees(rate, result.totals.iops);
        assert!(rest.starts_with(&measured(result)), "{lead}");
        assert!(text.contains(&format!(" **{}** · ", result.class.word().to_uppercase())));
        assert_eq!(lead.contains("no errors"), ended::troubles(result).is_empty(), "{lead}");
        let table = piped(&text);
        let row = |name: &str| table.iter().find(|row| row[0] == name).unwrap();
        agrees(&row("all")[1], result.totals.iops);
        latency_cells(&result.totals.latency_ns, &row("all")[2..]);
        for (name, of) in used(result) {
            agrees(&row(name)[1], of.iops);
            latency_cells(&of.latency_ns, &row(name)[2..]);
        }
        for check in &result.checks {
            assert_eq!(row(&check.code)[2], check.verdict.word());
            assert_eq!(row(&check.code).len(), 5, "{}", check.evidence);
        }
    });
}

#[test]
fn junit_says_what_the_result_says() {
    each(|result| {
        let text = written(|out| junit::write(&[("run", result)], &[], out));
        assert_eq!(text.matches("<testcase ").count(), result.checks.len() + 1);
        let failed = result.checks.iter().filter(|check| check.verdict == Verdict::Fail).count();
        let ended = usize::from(result.totals.errors > 0 || result.partial.is_some());
        assert_eq!(text.matches("<failure ").count(), failed + ended, "{text}");
        let head = format!("failures=\"{}\"", failed + ended);
        assert!(text.lines().nth(1).unwrap().contains(&head), "{text}");
        let skipped = |check: &&stats::Check| {
            matches!(check.verdict, Verdict::Unknown | Verdict::DoesNotApply)
        };
        let skipped = result.checks.iter().filter(skipped).count();
        assert_eq!(text.matches("<skipped ").count(), skipped);
    });
}

#[test]
fn the_page_says_what_the_result_says() {
    each(|result| {
        let html = pages::runs(std::slice::from_ref(result)).html();
        let (_, lead) = html.split_once("<p class=\"lead\">").unwrap();
        let (rate, rest) = lead.split_once(" IOPS ").unwrap();
        agrees(rate, result.totals.iops);
        assert!(rest.starts_with(&measured(result)), "{lead}");
        let lead = lead.split_once("</p>").unwrap().0;
        assert_eq!(lead.contains("no errors"), ended::troubles(result).is_empty(), "{lead}");
        let table = cells(&html);
        let row = |name: &str| table.iter().find(|row| row[0] == name).unwrap();
        agrees(&row("all")[1], result.totals.iops);
        latency_cells(&result.totals.latency_ns, &row("all")[2..]);
        for (name, of) in used(result) {
            agrees(&row(name)[1], of.iops);
            latency_cells(&of.latency_ns, &row(name)[2..]);
        }
        for check in &result.checks {
            assert_eq!(row(&check.code)[2], check.verdict.word());
        }
    });
}
