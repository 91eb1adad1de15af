//! Honesty checks: numbers in, a verdict and its evidence out.

use serde::{Deserialize, Serialize};

use crate::interval::Interval;

/// What a check came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Pass,
    /// The number stands, with a reservation that must be read along with it.
    Warn,
    /// The number is wrong or means something else.
    Fail,
    /// Could not be checked.
    #[default]
    Unknown,
}

/// How far to believe a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Every check that a published number needs was made and passed.
    Publishable,
    /// Nothing is known to be wrong.
    #[default]
    Indicative,
    /// A check failed.
    Invalid,
}

/// One honesty check and what it came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its number: "H11".
    pub code: String,
    /// Its name: "littles-law".
    pub name: String,
    /// What it came to.
    pub verdict: Verdict,
    /// The arithmetic, in words.
    pub evidence: String,
}

impl Check {
    /// A check with its verdict.
    pub fn new(code: &str, name: &str, verdict: Verdict, evidence: impl Into<String>) -> Check {
        Check { code: code.into(), name: name.into(), verdict, evidence: evidence.into() }
    }
}

/// The three numbers of Little's law, and how many I/Os they rest on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// I/Os that were done.
    pub ios: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Mean number under way, from the time integral.
    pub mean_outstanding: f64,
    /// Mean time from submission to completion in nanoseconds.
    pub mean_latency_ns: f64,
}

impl Flow {
    /// The flow of an interval.
    pub fn of(interval: &Interval) -> Flow {
        Flow {
            ios: interval.ios(),
            iops: interval.iops(),
            mean_outstanding: interval.mean_outstanding(),
            mean_latency_ns: interval.latencies().mean().unwrap_or(0.0),
        }
    }
}
