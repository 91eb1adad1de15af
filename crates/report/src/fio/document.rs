//! fio's result document, in its order and under its names.

use super::steady::SteadyState;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Pairs that are written as an object, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Object<K, V>(pub Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Object<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// The whole document.
#[derive(serde::Serialize)]
pub(super) struct Document {
    #[serde(rename = "fio version")]
    pub version: String,
    pub timestamp: i64,
    pub timestamp_ms: i64,
    pub time: String,
    /// Left out, as with fio, where there is none.
    #[serde(rename = "global options", skip_serializing_if = "Option::is_none")]
    pub options: Option<Object<String, String>>,
    pub jobs: Vec<Job>,
    /// Left out, as with fio, where there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disk_util: Vec<Disk>,
}

/// A disk. Times are in milliseconds, those of all I/Os one added to the other.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(super) struct Disk {
    pub name: String,
    pub read_ios: u64,
    pub write_ios: u64,
    pub read_merges: u64,
    pub write_merges: u64,
    pub read_ticks: u64,
    pub write_ticks: u64,
    pub in_queue: u64,
    pub util: f64,
}

#[derive(serde::Serialize)]
pub(super) struct Job {
    pub jobname: String,
    pub groupid: u32,
    pub error: u32,
    pub eta: u64,
    pub elapsed: u64,
    #[serde(rename = "job options", skip_serializing_if = "Option::is_none")]
    pub options: Option<Object<String, String>>,
    #[serde(flatten)]
    pub directions: Directions,
    pub job_runtime: u64,
    pub usr_cpu: f64,
    pub sys_cpu: f64,
    pub ctx: u64,
    pub majf: u64,
    pub minf: u64,
    pub iodepth_level: Object<&'static str, f64>,
    pub iodepth_submit: Object<&'static str, f64>,
    pub iodepth_complete: Object<&'static str, f64>,
    pub latency_ns: Object<&'static str, f64>,
    pub latency_us: Object<&'static str, f64>,
    pub latency_ms: Object<&'static str, f64>,
    /// With `first_error`, for jobs that continue after errors and had some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_err: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<u32>,
    pub latency_depth: u32,
    pub latency_target: u64,
    pub latency_percentile: f64,
    pub latency_window: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steadystate: Option<SteadyState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drumfire: Option<Trust>,
}

/// Credibility of a job's figures: an object that fio does not write. Readers of fio's documents
/// ignore it.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(super) struct Trust {
    /// Origin of the figures: measured, emulated or simulated.
    pub origin: String,
    pub class: &'static str,
    /// The class with the reason that matters most.
    pub reason: String,
    /// Verdict of each honesty check.
    pub checks: Object<String, &'static str>,
    /// Reason why the result does not cover the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// Unanswered I/Os of the job. Latencies include them with their age.
    pub waiting_ios: u64,
    /// Limit above which latencies are lower bounds therefore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_from_ns: Option<u64>,
    pub connections_lost: u64,
    pub reconnects: u64,
}

/// Directions separately, with flushes, unless only `mixed` is shown.
#[derive(serde::Serialize)]
pub(super) struct Directions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Direction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Direction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim: Option<Direction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync: Option<Sync>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixed: Option<Direction>,
}

#[derive(Default, serde::Serialize)]
pub(super) struct Direction {
    pub io_bytes: u64,
    pub io_kbytes: u64,
    pub bw_bytes: u64,
    pub bw: u64,
    pub iops: f64,
    pub runtime: u64,
    pub total_ios: u64,
    pub short_ios: u64,
    pub drop_ios: u64,
    pub slat_ns: Spread,
    pub clat_ns: Spread,
    pub lat_ns: Spread,
    pub bw_min: u64,
    pub bw_max: u64,
    pub bw_agg: f64,
    pub bw_mean: f64,
    pub bw_dev: f64,
    pub bw_samples: u64,
    pub iops_min: u64,
    pub iops_max: u64,
    pub iops_mean: f64,
    pub iops_stddev: f64,
    pub iops_samples: u64,
}

#[derive(Clone, Debug, Default, serde::Serialize)]
pub(super) struct Spread {
    pub min: u64,
    pub max: u64,
    pub mean: f64,
    pub stddev: f64,
    #[serde(rename = "N")]
    pub samples: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentile: Option<Object<String, u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bins: Option<Object<String, u64>>,
}

#[derive(serde::Serialize)]
pub(super) struct Sync {
    pub total_ios: u64,
    pub lat_ns: Spread,
}
