//! Iometer's result file: the layout of version 1.1.0, column by column.
//!
//! Two errors of Iometer are not copied: latencies of ten seconds and more are counted in the last
//! column, and a DISK row has its sums, not its worker's. Raw times are in nanoseconds. Figures
//! that are not measured (transactions, connections, single CPUs, the network) are 0; targets are
//! volumes.

use std::io::{self, Write};

use stats::RunResult;

use crate::ended;
use crate::group::{self, Group, Part};
use crate::reason;

/// Upper edges of the columns of latencies in microseconds; the last column has none.
const EDGES_US: [u64; 20] = [
    50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 4_700_000, 5_000_000, 10_000_000,
];

/// Columns of the header, as Iometer names them, one a line.
const COLUMNS: &str = include_str!("iometer-columns.txt");

/// Writes the file of one test.
pub fn write(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    let (started, ended) = stamps(result);
    writeln!(out, "'Test Type,Test Description\n0,{}", plain(&result.job.name))?;
    writeln!(out, "'Version\n1.1.0\n'Time Stamp\n{started}")?;
    specifications(result, out)?;
    trust(result, out)?;
    writeln!(out, "'Results\n{}", COLUMNS.trim_end().replace('\n', ","))?;
    let groups = group::groups(result);
    let total = Row::all(result, &groups);
    total.write(result, out)?;
    Row { kind: "MANAGER", name: manager(result), managers: String::new(), raw: true, ..total }
        .write(result, out)?;
    for group in &groups {
        worker_rows(result, group, out)?;
    }
    writeln!(out, "'Time Stamp\n{ended}\n'End Test")
}

/// Class of the result, as comments, which readers of Iometer's files pass over. Programs that
/// count columns would fail on others.
fn trust(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    let of = |what: &str, words: &str| format!("'{what}: {}", words.replace(['\n', '\r'], " "));
    writeln!(out, "{}", of("Origin", &result.origin.with(result.kind)))?;
    writeln!(out, "{}", of("Class", &reason::verdict(result)))?;
    writeln!(out, "{}", of("Checks not passed", &reason::held_against(result)))?;
    if let Some(partial) = &result.partial {
        writeln!(out, "{}", of("Partial result", partial))?;
    }
    for trouble in ended::troubles(result) {
        writeln!(out, "{}", of("Ended with", &trouble))?;
    }
    Ok(())
}

/// Beginning and end of the window as `2026-11-20 08:00:00:000`.
fn stamps(result: &RunResult) -> (String, String) {
    let (started, ended) = ended::window(result);
    let stamp = |at: jiff::Timestamp| {
        let millis = at.as_millisecond().rem_euclid(1000);
        format!("{}:{millis:03}", at.strftime("%Y-%m-%d %H:%M:%S"))
    };
    (stamp(started), stamp(ended))
}

/// Writes the access specifications; as in Iometer, each line ends with a comma.
fn specifications(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "'Access specifications")?;
    let groups = result.spec.pointer("/steps/0/groups").and_then(|groups| groups.as_array());
    for group in groups.into_iter().flatten() {
        let name = group.get("name").and_then(|name| name.as_str()).unwrap_or_default();
        writeln!(out, "'Access specification name,default assignment")?;
        let name = if name.is_empty() { &result.job.name } else { name };
        writeln!(out, "{},NONE", plain(name))?;
        writeln!(out, "'size,% of size,% reads,% random,delay,burst,align,reply")?;
        let lines = group.pointer("/workload/access/lines").and_then(|lines| lines.as_array());
        for line in lines.into_iter().flatten() {
            let number = |key: &str, default: f64| {
                line.get(key).and_then(|value| value.as_f64()).unwrap_or(default)
            };
            let size = number("size_bytes", 0.0);
            writeln!(
                out,
                "{},{},{},{},{},{},{},{},",
                size,
                number("share_percent", 100.0),
                number("read_percent", 100.0),
                number("random_percent", 100.0),
                number("delay_us", 0.0) / 1000.0,
                number("burst", 1.0),
                number("align_bytes", size),
                number("reply_bytes", 0.0),
            )?;
        }
    }
    writeln!(out, "'End access specifications")
}

/// Writes the workers of a group: one for each worker, or one with all volumes if each worker has
/// one.
fn worker_rows(result: &RunResult, group: &Group<'_>, out: &mut impl Write) -> io::Result<()> {
    let of = |worker: &stats::WorkerResult| {
        let read = Part::of(&worker.read, &worker.histograms.read, worker.seconds);
        (read, Part::of(&worker.write, &worker.histograms.write, worker.seconds))
    };
    let depth = group.workload.get("outstanding").and_then(serde_json::Value::as_u64);
    let disk = |worker: &stats::WorkerResult| {
        let (read, write) = of(worker);
        let name = worker.volume.clone();
        Row { depth, raw: true, ..Row::new("DISK", name, read, write) }
    };
    if group.per_volume > 1 {
        for worker in group.workers {
            let (read, write) = of(worker);
            let row = Row::new("WORKER", worker.name.clone(), read, write);
            Row { disks: "1".into(), depth, raw: true, ..row }.write(result, out)?;
            disk(worker).write(result, out)?;
        }
        return Ok(());
    }
    let row = Row::new("WORKER", group.name.clone(), group.read.clone(), group.write.clone());
    let disks = group.workers.len().to_string();
    Row { disks, depth, raw: true, ..row }.write(result, out)?;
    for worker in group.workers {
        disk(worker).write(result, out)?;
    }
    Ok(())
}

fn manager(result: &RunResult) -> String {
    if result.host.name.is_empty() { "drumfire".to_owned() } else { result.host.name.clone() }
}

/// A field may hold no comma and no line.
fn plain(text: &str) -> String {
    text.replace([',', '\n', '\r'], " ")
}

/// One row.
#[derive(Clone)]
struct Row {
    kind: &'static str,
    name: String,
    managers: String,
    workers: String,
    disks: String,
    read: Part,
    write: Part,
    depth: Option<u64>,
    /// Raw times are given.
    raw: bool,
    /// Use of the host is given.
    host: bool,
}

impl Row {
    fn new(kind: &'static str, name: String, read: Part, write: Part) -> Row {
        let (managers, workers, disks) = Default::default();
        let (depth, raw, host) = (None, false, false);
        Row { kind, name, managers, workers, disks, read, write, depth, raw, host }
    }

    fn all(result: &RunResult, groups: &[Group<'_>]) -> Row {
        let whole = group::whole(result);
        let row = Row::new("ALL", "All".to_owned(), whole.read, whole.write);
        let workers = |group: &Group<'_>| match group.per_volume {
            1 => 1,
            _ => group.workers.len(),
        };
        Row {
            managers: "1".to_owned(),
            workers: groups.iter().map(workers).sum::<usize>().to_string(),
            disks: result.job.volumes.to_string(),
            host: true,
            ..row
        }
    }

    fn write(&self, result: &RunResult, out: &mut impl Write) -> io::Result<()> {
        let (read, write) = (&self.read, &self.write);
        let mut both = read.clone();
        both.merge(write);
        let mut fields = vec![
            self.kind.to_owned(),
            plain(&self.name),
            plain(&result.job.name),
            self.managers.clone(),
            self.workers.clone(),
            self.disks.clone(),
        ];
        let mut number = |value: f64| fields.push(format!("{value:.6}"));
        [&both, read, write].iter().for_each(|part| number(part.iops));
        for unit in [(1 << 20) as f64, 1e6] {
            [&both, read, write].iter().for_each(|part| number(part.bytes_per_second / unit));
        }
        // Transactions and connections.
        [0.0; 2].iter().for_each(|none| number(*none));
        [&both, read, write].iter().for_each(|part| number(part.mean_ns / 1e6));
        [0.0; 2].iter().for_each(|none| number(*none));
        [&both, read, write].iter().for_each(|part| number(part.max_ns as f64 / 1e6));
        [0.0; 2].iter().for_each(|none| number(*none));
        let counts = [both.errors, read.errors, write.errors, read.bytes, write.bytes];
        fields.extend(counts.iter().chain([&read.ios, &write.ios, &0]).map(u64::to_string));
        fields.push("-1".to_owned());
        fields.extend(self.raw_times(result));
        fields.extend([String::new(), String::new()]);
        fields.push(self.depth.map_or_else(String::new, |depth| depth.to_string()));
        fields.extend(self.host_use(result, both.iops));
        fields.extend(bins(&both).iter().map(u64::to_string));
        writeln!(out, "{}", fields.join(","))
    }

    /// Nine columns.
    fn raw_times(&self, result: &RunResult) -> Vec<String> {
        if !self.raw {
            return vec![String::new(); 9];
        }
        let sum = |part: &Part| (part.mean_ns * part.samples as f64).round() as u64;
        let (read, write) = (&self.read, &self.write);
        let run_ns = (result.totals.seconds * 1e9).round() as u64;
        let times = [sum(read), sum(write), 0, 0, read.max_ns, write.max_ns, 0, 0, run_ns];
        times.iter().map(u64::to_string).collect()
    }

    /// Eleven columns: processors, interrupts, network.
    fn host_use(&self, result: &RunResult, iops: f64) -> Vec<String> {
        let number = |value: f64| format!("{value:.6}");
        let speed = if self.raw { number(1e9) } else { String::new() };
        if !self.host {
            let none = String::new;
            let mut fields = vec![none(); 11];
            fields[5] = speed;
            return fields;
        }
        let cpu = &result.cpu;
        let all = cpu.host_percent.unwrap_or(0.0);
        let shares = [
            cpu.host_percent,
            cpu.user_percent,
            cpu.system_percent,
            cpu.softirq_percent,
            cpu.irq_percent,
        ];
        let mut fields: Vec<String> =
            shares.iter().map(|share| number(share.unwrap_or(0.0))).collect();
        fields.push(speed);
        let effectiveness = if all > 0.0 { iops / all } else { 0.0 };
        fields.extend([0.0, effectiveness, 0.0, 0.0, 0.0].map(number));
        fields
    }
}

/// I/Os in each column of latencies.
fn bins(part: &Part) -> [u64; 21] {
    let mut bins = [0; 21];
    for bucket in part.buckets.iter() {
        // A bucket across an edge is counted where its middle is.
        let middle_us = (bucket.from_ns / 2 + bucket.to_ns / 2) / 1000;
        let column = EDGES_US.iter().position(|edge| middle_us < *edge).unwrap_or(20);
        bins[column] += bucket.count;
    }
    bins
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    fn rows(result: &RunResult) -> Vec<Vec<String>> {
        let mut out = Vec::new();
        write(result, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("'Test Type,Test Description\n0,race\n'Version\n1.1.0\n"));
        assert!(text.ends_with("'End Test\n"));
        let rows = text.lines().skip_while(|line| !line.starts_with("'Target Type"));
        let fields = |line: &str| line.split(',').map(str::to_owned).collect();
        rows.take_while(|line| !line.starts_with("'Time")).map(fields).collect()
    }

    #[test]
    fn every_row_has_eighty_columns_and_the_sums_are_right() {
        let rows = rows(&sample::counted());
        assert!(rows.iter().all(|row| row.len() == 80), "{rows:?}");
        let kinds: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
        assert_eq!(kinds, ["ALL", "MANAGER", "WORKER", "DISK", "DISK"]);
        let (all, worker, disk) = (&rows[1], &rows[3], &rows[4]);
        assert_eq!((&*all[6], &*all[7], &*all[8]), ("1500.000000", "1000.000000", "500.000000"));
        // 4 KiB each: in 2²⁰ bytes, and in millions.
        assert_eq!((&*all[9], &*all[12]), ("5.859375", "6.144000"));
        assert_eq!((&*worker[32], &*worker[33], &*disk[32]), ("2000", "1000", "1000"));
        // Means and maxima in milliseconds, raw sums in nanoseconds.
        assert_eq!((&*all[18], &*all[19], &*all[24]), ("0.100000", "8.000000", "8.000000"));
        assert_eq!((&*worker[36], &*worker[44]), ("200000000", "2000000000"));
        assert_eq!(all[36..45].join(""), "");
        let bins: Vec<u64> = all[59..].iter().map(|bin| bin.parse().unwrap()).collect();
        assert_eq!((bins[2], bins[7], bins.iter().sum::<u64>()), (2000, 1000, 3000));
    }

    #[test]
    fn the_last_column_has_the_longest() {
        let mut latencies = stats::Latencies::new();
        latencies.record_n(11_000_000_000, 5);
        latencies.record_n(4_500_000_000, 3);
        let buckets = stats::Buckets::of(&latencies);
        let bins = bins(&Part { buckets, ..Part::default() });
        assert_eq!((bins[20], bins[17]), (5, 3));
    }
}
