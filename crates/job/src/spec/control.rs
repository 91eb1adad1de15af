//! Control of a running worker: think time, demands that end it, a searched queue depth, and
//! workers limited to their share.

use serde::{Deserialize, Serialize};

use super::check::{SpecError, within};
use super::defaults::is_default;
use super::workload::{Pacing, Workload};

/// Maximum of a time: a year in microseconds.
const MOST_US: u64 = 366 * 86_400 * 1_000_000;

/// Think time after a number of I/Os: the worker drains, then pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// Duration, above 0 to a year, in microseconds.
    pub pause_us: u64,
    /// Part of the pause spent with CPU time, as by a program that processes data that it read: at
    /// most `pause_us`. A simulated worker only waits.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spin_us: u64,
    /// Number of I/Os between two pauses; 0 for any number. Flushes do not count.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after_ios: u32,
    /// Time between two pauses in microseconds, at most a year; 0 for any. The earlier limit
    /// counts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after_us: u64,
    /// True if I/Os count when they start, not when they complete.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counts_begun: bool,
    /// With a rate: true if I/Os due in the pause are skipped instead of caught up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shifts_rate: bool,
}

/// Demands that a worker must meet; otherwise it ends, and the result is a partial one with the
/// reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demands {
    /// Demand on reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read: Demand,
    /// Demand on writes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write: Demand,
    /// Demand on trims.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trim: Demand,
    /// Interval over which rates are averaged, in milliseconds, 1 to a year, or more: from I/O to
    /// I/O. The ramp and the first two seconds of the worker do not count.
    #[serde(default = "second_ms", skip_serializing_if = "is_second_ms")]
    pub every_ms: u64,
}

/// Demand on one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// Minimum bytes per second; 0 for any. A direction without I/O has no rate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bytes_per_second: u64,
    /// Minimum I/Os per second; 0 for any.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ios_per_second: u64,
    /// Maximum latency of any I/O in microseconds; 0 for any.
    #[serde(default, skip_serializing_if = "is_default")]
    pub latency_us: u64,
}

impl Demands {
    /// Returns the demands on reads, writes and trims, each with its word.
    pub fn each(&self) -> [(&'static str, Demand); 3] {
        [("reads", self.read), ("writes", self.write), ("trims", self.trim)]
    }
}

/// Search for the greatest queue depth at which latencies stay below a target, from 1 to the
/// outstanding I/Os of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DepthSearch {
    /// Target latency in microseconds, above 0.
    pub latency_us: u64,
    /// Time at each depth in microseconds, at most a year.
    pub window_us: u64,
    /// Share of the I/Os of a window that must be below the target, 0 to 100.
    #[serde(default = "hundred")]
    pub percent: f64,
    /// True if the search continues until the end of the run, with a varying depth. Otherwise the
    /// depth is fixed once found, one more window is measured at it, and no figure includes the
    /// search.
    #[serde(default, skip_serializing_if = "is_default")]
    pub goes_on: bool,
}

/// Flow control: workers of a run with the same number do I/Os in proportion to their weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Number of the workers that belong together.
    #[serde(default, skip_serializing_if = "is_default")]
    pub id: u32,
    /// Weight of each worker, 1 to 1000.
    pub weight: u32,
    /// Time that a worker beyond its share waits once it has no I/O in flight, in microseconds;
    /// with 0 it continues as soon as the others have caught up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sleep_us: u64,
}

impl Workload {
    /// Returns whether anything controls the running worker.
    pub fn is_steered(&self) -> bool {
        self.think.is_some()
            || self.demands.is_some()
            || self.depth_search.is_some()
            || self.flow.is_some()
    }

    /// Checks the control settings.
    pub(super) fn check_control(&self, at: &str) -> Result<(), SpecError> {
        let time = |what, least: u64, us: u64| {
            let range = if least > 0 { "above 0 to a year" } else { "at most a year" };
            within(at, what, range, us as f64, (least..=MOST_US).contains(&us))
        };
        if let Some(think) = self.think {
            time("think.pause_us", 1, think.pause_us)?;
            time("think.after_us", 0, think.after_us)?;
            let (spin, fits) = (think.spin_us as f64, think.spin_us <= think.pause_us);
            within(at, "think.spin_us", "at most pause_us", spin, fits)?;
            let fits = think.after_ios > 0 || think.after_us > 0;
            within(at, "think.after_ios", "above 0 if after_us is 0", 0.0, fits)?;
        }
        if let Some(demands) = self.demands {
            time("demands.every_ms", 1, demands.every_ms.saturating_mul(1000))?;
            for (_, demand) in demands.each() {
                time("demands.latency_us", 0, demand.latency_us)?;
            }
        }
        if let Some(flow) = self.flow {
            time("flow.sleep_us", 0, flow.sleep_us)?;
            let (weight, fits) = (f64::from(flow.weight), (1..=1000).contains(&flow.weight));
            within(at, "flow.weight", "1 to 1000", weight, fits)?;
        }
        let Some(search) = self.depth_search else { return Ok(()) };
        time("depth_search.latency_us", 1, search.latency_us)?;
        time("depth_search.window_us", 0, search.window_us)?;
        let fits = (0.0..=100.0).contains(&search.percent);
        within(at, "depth_search.percent", "0 to 100", search.percent, fits)?;
        match self.pacing == Pacing::Closed && self.refill_at.is_none() && self.verify.is_none() {
            true => Ok(()),
            false => {
                let what = "depth_search cannot be combined with a rate, refill_at and verify";
                Err(SpecError::Conflict { at: at.to_owned(), what })
            }
        }
    }
}

fn second_ms() -> u64 {
    1000
}

fn is_second_ms(ms: &u64) -> bool {
    *ms == second_ms()
}

fn hundred() -> f64 {
    100.0
}

#[cfg(test)]
mod test {
    use super::super::JobSpec;
    use super::super::job::test::SHORT;

    #[test]
    fn says_what_is_wrong() {
        let says = |words: &str| {
            let text =
                SHORT.replace("workload.access", &format!("workload.{words}\nworkload.access"));
            toml::from_str::<JobSpec>(&text).unwrap().check().unwrap_err().to_string()
        };
        for (words, why) in [
            ("think = { pause_us = 0, after_ios = 1 }", "think.pause_us must be above 0"),
            ("think = { pause_us = 5, spin_us = 9, after_ios = 1 }", "at most pause_us"),
            ("think = { pause_us = 5 }", "think.after_ios must be above 0 if"),
            ("demands = { every_ms = 0 }", "every_ms must be above 0"),
            ("flow.weight = 0", "flow.weight must be 1 to 1000"),
            ("depth_search = { latency_us = 0, window_us = 1 }", "latency_us must be above 0"),
            ("depth_search = { latency_us = 9, window_us = 1, percent = 101 }", "0 to 100"),
        ] {
            let said = says(words);
            assert!(said.contains(why), "{words}: {said}");
        }
        let paced = "depth_search = { latency_us = 9, window_us = 9 }\n\
                     workload.pacing.ios.per_second = 9";
        assert!(says(paced).contains("combined with a rate"));
    }
}
