//! Requested logs of a fio job. The program that runs the job writes them meanwhile.

use serde::{Deserialize, Serialize};

use super::defaults::is_default;

/// Logs of the jobs of a group. Each name is a path without the suffix that fio appends, such as
/// `_bw.1.log`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// Name of the bandwidth logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<String>,
    /// Name of the IOPS logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<String>,
    /// Name of the latency logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// Interval that a line covers, in milliseconds; each I/O has its own line if 0.
    #[serde(default = "second", skip_serializing_if = "is_second")]
    pub window_ms: u64,
    /// True if lines of single I/Os have their offset.
    #[serde(default, skip_serializing_if = "is_default")]
    pub offsets: bool,
    /// True if a window has its maximum latency, not the mean.
    #[serde(default, skip_serializing_if = "is_default")]
    pub longest: bool,
    /// Path of the trace: every I/O in the order of submission.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Log of histograms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histograms: Option<HistogramLog>,
    /// Number of the group's first job among those of all steps.
    #[serde(default = "one")]
    pub first: u32,
    /// Number of jobs of the group: workers belong to them in turn.
    #[serde(default = "one")]
    pub jobs: u32,
    /// True if jobs whose logs have one name share a log.
    #[serde(default, skip_serializing_if = "is_default")]
    pub joined: bool,
}

/// A log with a histogram of latencies for each window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistogramLog {
    /// Name of the log, without fio's suffix.
    pub name: String,
    /// Length of a window in milliseconds; no line is written if 0.
    pub window_ms: u64,
    /// Coarseness: 2 to the power of this number, 0 to 6, of fio's buckets are merged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub coarseness: u8,
}

impl Default for Logs {
    fn default() -> Logs {
        Logs {
            bandwidth: None,
            iops: None,
            latency: None,
            window_ms: SECOND_MS,
            offsets: false,
            longest: false,
            trace: None,
            histograms: None,
            first: 1,
            jobs: 1,
            joined: false,
        }
    }
}

impl Logs {
    /// Returns the names that are given, including the path of a trace.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let all = [&self.bandwidth, &self.iops, &self.latency, &self.trace];
        let histograms = self.histograms.as_ref().map(|log| log.name.as_str());
        all.into_iter().filter_map(Option::as_deref).chain(histograms)
    }

    /// Returns the same names, to be changed.
    pub fn names_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let all = [&mut self.bandwidth, &mut self.iops, &mut self.latency, &mut self.trace];
        let histograms = self.histograms.as_mut().map(|log| &mut log.name);
        all.into_iter().filter_map(Option::as_mut).chain(histograms)
    }

    /// Returns the numbers of the group's jobs.
    pub fn numbers(&self) -> std::ops::Range<u32> {
        self.first..self.first.saturating_add(self.jobs)
    }

    /// Returns the job of the group's n-th worker, if a log of it is requested.
    pub fn job_of(&self, worker: usize) -> Option<u32> {
        let place = worker as u32 % self.jobs.max(1);
        self.names().next().map(|_| self.first.saturating_add(place))
    }
}

/// Default interval of a line.
const SECOND_MS: u64 = 1000;

fn second() -> u64 {
    SECOND_MS
}

fn is_second(ms: &u64) -> bool {
    *ms == SECOND_MS
}

fn one() -> u32 {
    1
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn everything_survives_being_kept() {
        for window_ms in [0, 100, SECOND_MS] {
            let name = |name: &str| Some(name.to_owned());
            let logs = Logs {
                bandwidth: name("b"),
                iops: name("x/i"),
                latency: name("l"),
                window_ms,
                offsets: true,
                longest: true,
                trace: name("t.log"),
                histograms: Some(HistogramLog { name: "h".into(), window_ms, coarseness: 6 }),
                first: 3,
                jobs: 2,
                joined: true,
            };
            let text = toml::to_string(&logs).unwrap();
            assert_eq!(toml::from_str::<Logs>(&text).unwrap(), logs, "{text}");
        }
        assert_eq!(toml::from_str::<Logs>("").unwrap(), Logs::default());
    }
}
