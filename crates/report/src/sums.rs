//! Counts, spans and rates of all formats of the same results, read back: in each format, a rate is
//! a count over the time in which I/Os were possible. The workers here start and end at different
//! times, and flush and trim as well as read and write.

use serde_json::Value;
use stats::live::Snapshot;
use stats::{Direction, RunResult, Second};

use crate::forms::read::{self, agrees, cells, rows, written};
use crate::style::Paint;
use crate::watch::{Moment, metrics};
use crate::{fio, generated, iometer, json, pages, text};

fn each(check: impl Fn(&RunResult)) {
    read::each(generated::drawn(), check);
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0), "{a} and {b}");
}

fn of(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}"))
}

#[test]
fn what_is_drawn_begins_late_flushes_and_trims() {
    let drawn = generated::drawn();
    assert_eq!(drawn.len(), 500);
    let some = |is: fn(&RunResult) -> bool| drawn.iter().filter(|result| is(result)).count();
    let counts = [
        some(|r| r.workers.iter().any(|worker| worker.seconds < 0.5 * r.totals.seconds)),
        some(|r| r.totals.flush.ios > 0 && r.totals.trim.ios > 0),
        some(|r| (r.intervals.len() as f64) < r.job.seconds),
        some(|r| r.intervals.iter().any(|row| row.seconds < 0.9)),
    ];
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}

#[test]
fn the_document_adds_up() {
    each(|result| {
        let document: Value =
            serde_json::from_str(&written(|out| json::write(result, out))).unwrap();
        let rows = document["intervals"].as_array().unwrap();
        let sum = |path: &str| rows.iter().map(|row| of(row, path)).sum::<f64>();
        near(sum("/ios"), of(&document, "/totals/ios"));
        near(sum("/seconds"), of(&document, "/totals/seconds"));
        let mut before = 0.0;
        for row in rows {
            near(of(row, "/iops") * of(row, "/seconds"), of(row, "/ios"));
            let ways = of(row, "/read_iops") + of(row, "/write_iops");
            assert!(ways <= of(row, "/iops") * (1.0 + 1e-9), "{row}");
            // Rows come one after the other, and none is longer than the time up to its end.
            assert!(of(row, "/t") - before >= of(row, "/seconds") - 1e-9, "{row} behind {before}");
            before = of(row, "/t");
        }
        let totals = &document["totals"];
        let seconds = of(totals, "/seconds");
        near(of(totals, "/iops") * seconds, of(totals, "/ios"));
        let ways = ["/read", "/write", "/trim"];
        let all =
            |name: &str| ways.iter().map(|way| of(totals, &format!("{way}{name}"))).sum::<f64>();
        near(all("/ios"), of(totals, "/ios"));
        near(all("/iops"), of(totals, "/iops"));
        for way in ["/read", "/write", "/trim", "/flush"] {
            near(of(totals, &format!("{way}/iops")) * seconds, of(totals, &format!("{way}/ios")));
        }
        let workers = document["workers"].as_array().unwrap();
        let sum = |path: &str| workers.iter().map(|worker| of(worker, path)).sum::<f64>();
        near(sum("/ios"), of(totals, "/ios"));
        near(sum("/flush/ios"), of(totals, "/flush/ios"));
        workers.iter().for_each(|it| near(of(it, "/iops") * of(it, "/seconds"), of(it, "/ios")));
    });
}

#[test]
fn text_and_page_say_the_same_rates() {
    each(|result| {
        let totals = &result.totals;
        let rate = |of: &Direction| of.ios as f64 / totals.seconds;
        let told = written(|out| text::write(result, Paint::PLAIN, out));
        let (headline, _) = told.split_once(" IOPS ").unwrap();
        agrees(headline, totals.ios as f64 / totals.seconds);
        let line = told.lines().find(|line| line.contains(" I/Os in ")).unwrap();
        let ios = line.split(" · ").nth(1).unwrap().split(" I/Os").next().unwrap();
        assert_eq!(ios.replace(',', "").parse::<u64>().unwrap(), totals.ios);
        let flushes = line.split(" · ").find(|part| part.contains("flush"));
        let flushes = flushes.map_or(0, |part| {
            part.split(' ').next().unwrap().replace(',', "").parse::<u64>().unwrap()
        });
        assert_eq!(flushes, totals.flush.ios);
        let html = pages::runs(std::slice::from_ref(result)).html();
        let table = cells(&html);
        let row = |name: &str| table.iter().find(|row| row[0] == name);
        agrees(&row("all").unwrap()[1], totals.ios as f64 / totals.seconds);
        let parts = [("reads", &totals.read), ("trims", &totals.trim), ("flushes", &totals.flush)];
        for (name, part) in parts {
            assert_eq!(row(name).is_some(), part.ios > 0 || part.latency_ns.samples > 0);
            row(name).into_iter().for_each(|row| agrees(&row[1], rate(part)));
        }
    });
}

#[test]
fn fios_forms_have_counts_over_their_runtime() {
    each(|result| {
        let steps = std::slice::from_ref(result);
        let text = written(|out| fio::write(steps, fio::Include::default(), out));
        let document: Value = serde_json::from_str(&text).unwrap();
        let job = &document["jobs"][0];
        let longest = result.workers.iter().map(|worker| worker.seconds).fold(0.0, f64::max);
        let totals = &result.totals;
        let ways = [("read", &totals.read), ("write", &totals.write), ("trim", &totals.trim)];
        for (name, part) in ways.into_iter().filter(|(_, part)| part.ios > 0) {
            let (said, runtime_s) = (&job[name], of(job, &format!("/{name}/runtime")) / 1e3);
            assert_eq!(said["total_ios"], part.ios);
            assert!((runtime_s - longest).abs() <= 5e-4 + 1e-9, "{runtime_s} of {longest}");
            let rate = of(said, "/iops");
            assert!((rate * longest - part.ios as f64).abs() < 1e-3, "{rate} in {longest}");
            assert!(
                (of(said, "/bw_bytes") * longest - part.bytes as f64).abs() <= longest.max(1.0)
            );
            let [least, mean, most] =
                ["/iops_min", "/iops_mean", "/iops_max"].map(|it| of(said, it));
            assert!(least <= mean + 1.0 && mean <= most + 1.0, "{said}");
        }
        assert_eq!(job["sync"]["total_ios"], totals.flush.ios);
        let normal = fio::normal(steps);
        assert_eq!(
            normal.as_str().contains("fsync/fdatasync"),
            totals.flush.latency_ns.samples > 0
        );
    });
}

#[test]
fn iometers_file_has_counts_over_the_window() {
    each(|result| {
        let text = written(|out| iometer::write(result, out));
        let all = rows(&text);
        assert!(all.iter().all(|row| row.len() == 80));
        let head = text.lines().find(|line| line.starts_with("'Target Type")).unwrap();
        let at = |name: &str| head.split(',').position(|column| column == name).unwrap();
        let of = |row: &[&str], name: &str| row[at(name)].parse::<f64>().unwrap();
        let (total, seconds) = (&all[0], result.totals.seconds);
        for name in ["Read", "Write"] {
            let (rate, ios) =
                (of(total, &format!("{name} IOps")), of(total, &format!("{name} I/Os")));
            assert!((rate * seconds - ios).abs() <= 1e-5 * ios.max(1.0), "{name}: {rate}, {ios}");
        }
    });
}

#[test]
fn metrics_are_those_of_a_row() {
    each(|result| {
        let last: Second = *result.intervals.last().unwrap();
        let (iops, flush_iops) = (last.iops, last.flush_iops);
        let mut moment = Moment::default();
        moment.second(&Snapshot { iops, flush_iops, ..Snapshot::default() });
        let text = metrics(&moment);
        let value = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        near(value("drumfire_iops") * last.seconds, last.ios as f64);
        near(value("drumfire_flushes_per_second"), last.flush_iops);
    });
}
