//! Results as tables of rows for statistics programs: each row is one observation, each column one
//! variable, with its unit in its name. [`csv`] and Parquet write the same columns.
//!
//! Each of the three tables ([`Rows`]) has one kind of row.

mod columns;
pub mod csv;
pub mod influx;
#[cfg(feature = "parquet")]
pub mod parquet;

use stats::sweep::{Quantity, Setting};
use stats::{Direction, Latency, RunResult, Second, WorkerResult, WorkerRow};

pub use self::columns::columns;

/// A table, by the meaning of its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rows {
    /// One worker of one run in one second: counts, rates, mean and longest latency.
    #[default]
    WorkerSeconds,
    /// One run in one second, all workers together, with percentiles.
    Seconds,
    /// One direction of one run, with percentiles: reads, writes, trims, flushes, and `all`, which
    /// has all but the flushes.
    Totals,
}

/// Origin of a result, which is in each of its rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Source {
    /// Folder or file of the result.
    pub run: String,
    /// Side of a comparison, `a` or `b`; empty elsewhere.
    pub side: String,
    /// Step of a job of several, from 1.
    pub step: u64,
    /// Settings of a cell of a sweep.
    pub settings: Vec<Setting>,
    /// Repeat of a cell, from 1.
    pub repeat: u64,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name of the column, with its unit at the end.
    pub name: String,
    /// Kind of its values.
    pub kind: Kind,
    of: Of,
}

/// Kind of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text in UTF-8.
    Text,
    /// A whole number from 0.
    Whole,
    /// A 64-bit floating-point number.
    Real,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A value that is unknown or does not apply.
    None,
    /// A value of [`Kind::Text`].
    Text(String),
    /// A value of [`Kind::Whole`].
    Whole(u64),
    /// A value of [`Kind::Real`]; finite.
    Real(f64),
}

/// Source of the values of a column.
#[derive(Clone, Debug)]
enum Of {
    Known(fn(&Row) -> Value),
    /// The setting of a sweep with this name.
    Setting(String),
}

/// Parts of a result that make a row.
#[derive(Clone, Copy)]
struct Row<'a> {
    source: &'a Source,
    result: &'a RunResult,
    worker: Option<&'a WorkerResult>,
    of_worker: WorkerRow,
    second: Second,
    direction: (&'static str, Direction),
}

/// Worker name for results of earlier versions, which have no rows of workers.
const ALL: &str = "all";

/// Makes the rows of a result, with a value for each of the [`columns`].
pub fn rows(
    which: Rows,
    columns: &[Column],
    source: &Source,
    result: &RunResult,
) -> Vec<Vec<Value>> {
    let empty = Row {
        source,
        result,
        worker: None,
        of_worker: WorkerRow::default(),
        second: Second::default(),
        direction: (ALL, Direction::default()),
    };
    let value =
        |row: Row<'_>| -> Vec<Value> { columns.iter().map(|column| column.value(&row)).collect() };
    match which {
        Rows::WorkerSeconds if result.workers.iter().all(|worker| worker.intervals.is_empty()) => {
            let each = seconds(result).map(of_all);
            each.map(|of_worker| value(Row { of_worker, ..empty })).collect()
        }
        Rows::WorkerSeconds => {
            let each = result.workers.iter().flat_map(|worker| {
                worker.intervals.iter().map(move |of_worker| (worker, of_worker))
            });
            let row = |(worker, of_worker)| Row { worker: Some(worker), of_worker, ..empty };
            each.map(|each| value(row(each))).collect()
        }
        Rows::Seconds => seconds(result).map(|second| value(Row { second, ..empty })).collect(),
        Rows::Totals => {
            let each = directions(result).into_iter();
            each.map(|direction| value(Row { direction, ..empty })).collect()
        }
    }
}

impl Column {
    fn value(&self, row: &Row) -> Value {
        let value = match &self.of {
            Of::Known(of) => of(row),
            Of::Setting(word) => row.setting(word, self.kind),
        };
        // No statistics program reads an infinity in the same way as another.
        match value {
            Value::Real(number) if !number.is_finite() => Value::None,
            value => value,
        }
    }
}

impl Row<'_> {
    fn setting(&self, word: &str, kind: Kind) -> Value {
        let found = self.source.settings.iter().find(|setting| setting.word == word);
        match (found, kind) {
            (None, _) => Value::None,
            (Some(setting), Kind::Text) => Value::Text(setting.value.clone()),
            (Some(setting), _) => setting
                .quantity()
                .map_or(Value::None, |Quantity { number, .. }| Value::Real(number)),
        }
    }
}

/// Returns the rows of all workers with their lengths. Earlier documents have no lengths; their
/// rows follow each other.
fn seconds(result: &RunResult) -> impl Iterator<Item = Second> {
    let mut from_s = 0.0;
    result.intervals.iter().map(move |second| {
        let since_s = second.t - std::mem::replace(&mut from_s, second.t);
        let seconds = if second.seconds > 0.0 { second.seconds } else { since_s.max(0.0) };
        let counted = second.ios > 0 || second.iops == 0.0;
        let ios = if counted { second.ios } else { (second.iops * seconds).round() as u64 };
        Second { seconds, ios, ..*second }
    })
}

/// Makes a worker's row of the work of all workers.
fn of_all(second: Second) -> WorkerRow {
    let count = |per_second: f64| (per_second * second.seconds).round() as u64;
    let (reads, writes) = (count(second.read_iops), count(second.write_iops));
    WorkerRow {
        t_s: second.t,
        seconds: second.seconds,
        reads,
        writes,
        trims: second.ios.saturating_sub(reads.saturating_add(writes)),
        flushes: count(second.flush_iops),
        read_bytes: count(second.read_bytes_per_second),
        written_bytes: count(second.write_bytes_per_second),
        trimmed_bytes: 0,
        errors: second.errors,
        mean_outstanding: second.mean_outstanding,
        mean_ns: second.mean_ns,
        max_ns: second.max_ns,
    }
}

/// Returns all directions together, then each direction with I/Os.
fn directions(result: &RunResult) -> Vec<(&'static str, Direction)> {
    let totals = &result.totals;
    let parts = [&totals.read, &totals.write, &totals.trim];
    let all = Direction {
        ios: totals.ios,
        errors: totals.errors.saturating_sub(totals.flush.errors),
        iops: totals.iops,
        bytes_per_second: totals.bytes_per_second,
        bytes: parts.iter().fold(0, |sum, part| sum.saturating_add(part.bytes)),
        latency_ns: totals.latency_ns,
        ..Direction::default()
    };
    let used =
        [("read", parts[0]), ("write", parts[1]), ("trim", parts[2]), ("flush", &totals.flush)];
    let used =
        used.into_iter().filter(|(_, of)| of.ios > 0 || of.errors > 0 || of.latency_ns.samples > 0);
    std::iter::once((ALL, all)).chain(used.map(|(name, of)| (name, *of))).collect()
}

fn latency(row: &Row) -> Latency {
    row.direction.1.latency_ns
}

#[cfg(test)]
mod test;
