//! The rows of one worker over time. They are columns instead of objects, which keeps documents of
//! many workers small: a row has about 40 bytes.

use serde::{Deserialize, Serialize};

/// The rows of one worker, column by column. A column that is 0 in every row is left out of the
/// document, and reads as 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkerRows {
    /// End of each row in seconds, by the clock of [`Second::t`](crate::Second::t), ascending.
    pub t: Vec<f64>,
    /// Time for which the worker ran in the row, in seconds.
    pub seconds: Vec<f64>,
    /// Reads done without a fault.
    #[serde(skip_serializing_if = "is_zero")]
    pub reads: Vec<u64>,
    /// Writes done without a fault.
    #[serde(skip_serializing_if = "is_zero")]
    pub writes: Vec<u64>,
    /// Trims done without a fault.
    #[serde(skip_serializing_if = "is_zero")]
    pub trims: Vec<u64>,
    /// Flushes done without a fault, which are no I/Os.
    #[serde(skip_serializing_if = "is_zero")]
    pub flushes: Vec<u64>,
    /// Bytes read.
    #[serde(skip_serializing_if = "is_zero")]
    pub read_bytes: Vec<u64>,
    /// Bytes written.
    #[serde(skip_serializing_if = "is_zero")]
    pub written_bytes: Vec<u64>,
    /// Bytes trimmed.
    #[serde(skip_serializing_if = "is_zero")]
    pub trimmed_bytes: Vec<u64>,
    /// I/Os and flushes that ended in a fault. The last row has those, too, that were in flight
    /// when the window ended.
    #[serde(skip_serializing_if = "is_zero")]
    pub errors: Vec<u64>,
    /// Mean number of I/Os in flight.
    pub mean_outstanding: Vec<f64>,
    /// Exact mean latency of reads, writes and trims in nanoseconds; `null` without any.
    pub mean_ns: Vec<Option<f64>>,
    /// The longest of them in nanoseconds, or the age of one that had no answer at the row's end.
    pub max_ns: Vec<Option<u64>>,
}

/// One row of [`WorkerRows`], with its units.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct WorkerRow {
    pub t_s: f64,
    pub seconds: f64,
    pub reads: u64,
    pub writes: u64,
    pub trims: u64,
    pub flushes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub trimmed_bytes: u64,
    pub errors: u64,
    pub mean_outstanding: f64,
    pub mean_ns: Option<f64>,
    pub max_ns: Option<u64>,
}

fn is_zero(column: &[u64]) -> bool {
    column.iter().all(|count| *count == 0)
}

impl WorkerRow {
    /// Adds up reads, writes and trims.
    pub fn ios(&self) -> u64 {
        self.reads.saturating_add(self.writes).saturating_add(self.trims)
    }
}

impl WorkerRows {
    /// Tests for rows; results of earlier versions have none.
    pub fn is_empty(&self) -> bool {
        self.t.is_empty()
    }

    /// Appends a row.
    pub fn push(&mut self, row: &WorkerRow) {
        self.t.push(row.t_s);
        self.seconds.push(row.seconds);
        self.reads.push(row.reads);
        self.writes.push(row.writes);
        self.trims.push(row.trims);
        self.flushes.push(row.flushes);
        self.read_bytes.push(row.read_bytes);
        self.written_bytes.push(row.written_bytes);
        self.trimmed_bytes.push(row.trimmed_bytes);
        self.errors.push(row.errors);
        self.mean_outstanding.push(row.mean_outstanding);
        self.mean_ns.push(row.mean_ns);
        self.max_ns.push(row.max_ns);
    }

    /// Iterates over the rows, one for each end. A shorter column reads as 0 or `None`.
    pub fn iter(&self) -> impl Iterator<Item = WorkerRow> + '_ {
        self.t.iter().enumerate().map(|(index, t_s)| WorkerRow {
            t_s: *t_s,
            seconds: at(&self.seconds, index),
            reads: at(&self.reads, index),
            writes: at(&self.writes, index),
            trims: at(&self.trims, index),
            flushes: at(&self.flushes, index),
            read_bytes: at(&self.read_bytes, index),
            written_bytes: at(&self.written_bytes, index),
            trimmed_bytes: at(&self.trimmed_bytes, index),
            errors: at(&self.errors, index),
            mean_outstanding: at(&self.mean_outstanding, index),
            mean_ns: at(&self.mean_ns, index),
            max_ns: at(&self.max_ns, index),
        })
    }
}

/// Compares rows, so that a column of zeroes equals a missing one.
impl PartialEq for WorkerRows {
    fn eq(&self, other: &WorkerRows) -> bool {
        self.iter().eq(other.iter())
    }
}

fn at<T: Copy + Default>(column: &[T], index: usize) -> T {
    column.get(index).copied().unwrap_or_default()
}

impl<'a> FromIterator<&'a WorkerRow> for WorkerRows {
    fn from_iter<I: IntoIterator<Item = &'a WorkerRow>>(rows: I) -> WorkerRows {
        let mut all = WorkerRows::default();
        rows.into_iter().for_each(|row| all.push(row));
        all
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn columns_of_zeroes_are_left_out_and_come_back_as_zeroes() {
        let row =
            WorkerRow { t_s: 1.0, seconds: 1.0, reads: 7, read_bytes: 3584, ..Default::default() };
        let rows: WorkerRows = [row, WorkerRow { t_s: 2.0, ..row }].iter().collect();
        let text = serde_json::to_string(&rows).unwrap();
        assert!(text.contains("\"reads\":[7,7]") && !text.contains("writes"), "{text}");
        let back: WorkerRows = serde_json::from_str(&text).unwrap();
        assert_eq!(back, rows);
        let other = WorkerRow { writes: 1, ..row };
        assert_ne!(back, [row, other].iter().collect());
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }

    #[test]
    fn a_column_that_is_too_short_ends_no_program() {
        let rows: WorkerRows =
            serde_json::from_str(r#"{"t":[1.0,2.0],"reads":[5],"mean_ns":[]}"#).unwrap();
        let all: Vec<(u64, Option<f64>)> =
            rows.iter().map(|row| (row.reads, row.mean_ns)).collect();
        assert_eq!(all, [(5, None), (0, None)]);
    }
}
