//! Measured points of a result, for the fit.

use serde::Serialize;
use stats::{Class, Origin, RunResult, Verdict};

use super::CalibrateError;
use crate::bill::DEVICES_MAX;

/// Maximum number of I/Os in flight on a drive.
const OUTSTANDING_MAX: u64 = 65_536;
/// Maximum I/O size in bytes.
const SIZE_MAX: u32 = 1 << 30;
/// Maximum plausible IOPS.
const IOPS_MAX: f64 = 1e12;

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Name of the run.
    pub name: String,
    /// Origin: measured, emulated or simulated.
    pub origin: Origin,
    /// Storage of the run.
    pub storage: String,
    /// I/O size in bytes.
    pub size_bytes: u32,
    /// Share of reads, 0 to 1.
    pub read_share: f64,
    /// Number of drives in use.
    pub drives: u32,
    /// Queue depth of each drive.
    pub outstanding: u32,
    /// I/Os per second.
    pub iops: f64,
    /// Number of cores available; 0 if unknown.
    pub cores: u32,
    /// CPU seconds of an I/O, if counted.
    pub core_s: Option<f64>,
    /// Squared coefficient of variation of the latencies at depth 1.
    pub alone_scv: Option<f64>,
    /// Expected error in multiples of that of a clean run, 1 or more.
    pub doubt: f64,
    /// Reasons why it is more than 1.
    pub doubts: Vec<String>,
}

/// CPU usage of the host, in percent, above which the host may limit the rate.
const BUSY_PERCENT: f64 = 95.0;
/// Factors on the expected error for a busy host and a failed check.
const BUSY: f64 = 2.0;
const INVALID: f64 = 3.0;

impl Point {
    /// Returns the point of a result, called `name` in messages.
    ///
    /// # Errors
    ///
    /// [`CalibrateError::Run`] unless it is a complete closed-loop run of one size.
    pub fn of(name: &str, result: &RunResult) -> Result<Point, CalibrateError> {
        let refuse = |reason: &str| {
            let (name, reason) = (name.to_owned(), reason.to_owned());
            Err(CalibrateError::Run { name, reason })
        };
        let (job, totals) = (&result.job, &result.totals);
        if let Some(partial) = &result.partial {
            return refuse(&format!("{partial}: only complete runs are used"));
        }
        if totals.errors > 0 {
            return refuse("some of its I/Os failed");
        }
        let Some(size_bytes) = job.size_bytes.filter(|size| (1..=SIZE_MAX).contains(size)) else {
            return refuse("its I/Os are not of one size: sweep one size at a time");
        };
        let Some(outstanding) = job.outstanding.filter(|_| job.rate_per_s.is_none()) else {
            return refuse("an open loop runs at the requested rate: sweep closed loops");
        };
        let drives = job.volumes;
        if !(1..=DEVICES_MAX).contains(&drives) {
            return refuse(&format!("{drives} volumes: 1 to {DEVICES_MAX} are possible"));
        }
        let each = outstanding / u64::from(drives);
        if !(1..=OUTSTANDING_MAX).contains(&each) || each * u64::from(drives) != outstanding {
            return refuse(
                "its volumes differ in queue depth, or it is not 1 to 65536: give all the same",
            );
        }
        if !(totals.iops > 0.0 && totals.iops <= IOPS_MAX) {
            return refuse(&format!("{} I/Os per second", totals.iops));
        }
        if !(0.0..=100.0).contains(&job.read_percent) {
            return refuse(&format!("{} % of reads", job.read_percent));
        }
        let cores = match result.placement.initiator.len() {
            0 => result.host.cores,
            used => used as u32,
        };
        let (doubt, doubts) = doubts(result);
        let core_s = result.cpu.core_us_per_io.map(|us| us * 1e-6);
        Ok(Point {
            name: name.to_owned(),
            origin: result.origin,
            storage: job.storage.clone(),
            size_bytes,
            read_share: job.read_percent / 100.0,
            drives,
            outstanding: each as u32,
            iops: totals.iops,
            cores: cores.min(4096),
            core_s: core_s.filter(|s| *s > 0.0 && *s < 1.0),
            alone_scv: (outstanding == 1).then(|| scv(result)).flatten(),
            doubt,
            doubts,
        })
    }
}

/// Returns the doubts about a measured run.
fn doubts(result: &RunResult) -> (f64, Vec<String>) {
    let (mut doubt, mut why) = (1.0, Vec::new());
    if result.origin != Origin::Measured {
        return (doubt, why);
    }
    if let Some(percent) = result.cpu.host_percent.filter(|percent| *percent >= BUSY_PERCENT) {
        doubt *= BUSY;
        why.push(format!("the host was {percent:.0} % busy"));
    }
    if result.class == Class::Invalid {
        let failed = result.checks.iter().filter(|check| check.verdict == Verdict::Fail);
        let codes: Vec<&str> = failed.map(|check| check.code.as_str()).collect();
        doubt *= INVALID;
        why.push(format!("invalid by {}", codes.join(", ")));
    }
    (doubt, why)
}

/// Returns the squared coefficient of variation of all latencies, by the buckets of the histogram.
fn scv(result: &RunResult) -> Option<f64> {
    let mut sums = (0.0, 0.0, 0.0);
    for buckets in [&result.histograms.read, &result.histograms.write] {
        for bucket in buckets.iter() {
            let middle = (bucket.from_ns as f64 + bucket.to_ns as f64) / 2.0;
            let count = bucket.count as f64;
            sums = (sums.0 + count, sums.1 + count * middle, sums.2 + count * middle * middle);
        }
    }
    let (count, mean) = (sums.0, sums.1 / sums.0);
    let scv = sums.2 / count / (mean * mean) - 1.0;
    (count >= 1000.0 && scv.is_finite()).then_some(scv.max(0.0))
}
