//! The workers' results by target: which of them is slow?

use std::io::{self, Write};

use stats::{Latency, WorkerResult};

use crate::figure;
use crate::style::Paint;

/// Maximum number of rows; longer tables show only both ends.
const ROWS: usize = 20;
/// Longest name that is shown whole.
const NAME: usize = 34;

/// One target, or one volume that no target serves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TargetRow {
    /// Name.
    pub name: String,
    /// I/Os done without a fault.
    pub ios: u64,
    /// I/Os that ended in a fault.
    pub errors: u64,
    /// I/Os without an answer.
    pub waiting: u64,
    /// Latencies that the mean rests on.
    pub samples: u64,
    /// Limit in nanoseconds above which latencies are lower bounds.
    pub waiting_from: Option<u64>,
    /// I/Os per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// Mean latency in nanoseconds over all I/Os: the sum of their latencies over their number.
    pub mean_ns: Option<f64>,
    /// The longest latency in nanoseconds.
    pub max_ns: Option<u64>,
}

/// Adds the workers of each target up, in the order in which targets appear. Percentiles are not
/// among it: those of several workers cannot be had from those of each.
pub fn rows(workers: &[WorkerResult]) -> Vec<TargetRow> {
    let mut rows: Vec<TargetRow> = Vec::new();
    for worker in workers {
        let name = if worker.target.is_empty() { &worker.volume } else { &worker.target };
        let at = rows.iter().position(|row| row.name == *name).unwrap_or_else(|| {
            rows.push(TargetRow { name: name.clone(), ..TargetRow::default() });
            rows.len() - 1
        });
        let row = &mut rows[at];
        let latency = &worker.latency_ns;
        // Earlier documents do not say how many latencies they rest on.
        let more = if latency.samples > 0 { latency.samples } else { worker.ios };
        if let Some(mean) = latency.mean.filter(|_| more > 0) {
            let before = row.mean_ns.unwrap_or(0.0) * row.samples as f64;
            row.samples += more;
            row.mean_ns = Some((before + mean * more as f64) / row.samples as f64);
        }
        row.ios += worker.ios;
        row.waiting += worker.waiting.ios;
        row.waiting_from = match (row.waiting_from, latency.waiting_from) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        row.errors += worker.errors;
        row.iops += worker.iops;
        row.bytes_per_second += worker.bytes_per_second;
        row.max_ns = row.max_ns.max(worker.latency_ns.max);
    }
    rows
}

/// Writes the table, or its ends when there are more than 20 rows. One row says nothing new.
pub(crate) fn write(
    workers: &[WorkerResult],
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    let rows = rows(workers);
    if rows.len() < 2 {
        return Ok(());
    }
    let served = workers.iter().any(|worker| !worker.target.is_empty());
    let what = if served { "target" } else { "volume" };
    if rows.len() > ROWS {
        return write_ends(&rows, what, out);
    }
    let width = rows.iter().map(|row| short(&row.name).chars().count()).max().unwrap_or(0).max(9);
    let head = format!(
        "\n{what:width$}{:>14}{:>13}{:>11}{:>11}{:>8}",
        "rate", "data", "mean", "max", "errors"
    );
    writeln!(out, "{}", paint.dim(&head))?;
    for row in &rows {
        let latency = Latency {
            mean: row.mean_ns,
            max: row.max_ns,
            waiting_from: row.waiting_from,
            ..Latency::default()
        };
        let mean = figure::mean(&latency);
        let errors = format!("{:>8}", figure::count(row.errors));
        let waiting = match row.waiting {
            0 => String::new(),
            ios => paint.red(&format!("  {} without an answer", figure::count(ios))),
        };
        writeln!(
            out,
            "{:width$}{:>14}{:>13}{mean:>11}{:>11}{}{waiting}",
            short(&row.name),
            figure::iops(row.iops),
            figure::bytes_per_second(row.bytes_per_second),
            figure::bound(&latency, latency.max),
            if row.errors == 0 { errors } else { paint.red(&errors) },
        )?;
    }
    Ok(())
}

fn write_ends(rows: &[TargetRow], what: &str, out: &mut impl Write) -> io::Result<()> {
    let by_rate = |a: &&TargetRow, b: &&TargetRow| a.iops.total_cmp(&b.iops);
    let ends = rows.iter().min_by(by_rate).zip(rows.iter().max_by(by_rate));
    let Some((slowest, fastest)) = ends else { return Ok(()) };
    let line = |row: &TargetRow| format!("{} {}", figure::iops(row.iops), short(&row.name));
    let count = figure::plural(rows.len() as u64, what);
    writeln!(out, "\n{count}: slowest {}, fastest {}", line(slowest), line(fastest))
}

/// The end of a long name: that is where names differ.
fn short(name: &str) -> String {
    let len = name.chars().count();
    if len <= NAME {
        return name.to_owned();
    }
    let end: String = name.chars().skip(len - (NAME - 1)).collect();
    format!("…{end}")
}

#[cfg(test)]
mod test {
    use super::*;

    fn worker(target: &str, ios: u64, mean: f64) -> WorkerResult {
        WorkerResult {
            target: target.into(),
            volume: "v".into(),
            ios,
            iops: ios as f64,
            latency_ns: Latency {
                mean: (ios > 0).then_some(mean),
                max: Some(ios),
                ..Latency::default()
            },
            ..WorkerResult::default()
        }
    }

    #[test]
    fn a_mean_weighs_every_io_alike() {
        let rows = rows(&[worker("a", 30, 100.0), worker("b", 0, 0.0), worker("a", 10, 500.0)]);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].ios, rows[0].mean_ns, rows[0].max_ns), (40, Some(200.0), Some(30)));
        assert_eq!((rows[1].mean_ns, rows[1].iops), (None, 0.0));
    }

    #[test]
    fn long_tables_are_folded_and_long_names_cut() {
        let mut workers: Vec<_> = (1..=21).map(|i| worker(&format!("t{i}"), i, 1.0)).collect();
        let mut out = Vec::new();
        write(&workers, Paint::PLAIN, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "\n21 targets: slowest 1.00 IOPS t1, fastest 21.0 IOPS t21\n");
        workers.truncate(2);
        workers[1].target = "é".repeat(40);
        let mut out = Vec::new();
        write(&workers, Paint::PLAIN, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains(&format!("\n…{}  ", "é".repeat(33))));
    }
}
