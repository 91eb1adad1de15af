//! When, within a step, the workers of a group work.

use serde::{Deserialize, Serialize};

use super::defaults::is_default;

/// When the workers of a group begin and end; with the step where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// They begin when all workers of the group of this name have ended: one before theirs in the
    /// step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// They begin so long after that, or after the step: 0 to a year, in seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay_seconds: f64,
    /// They end so long after they began, above 0 to a year, in seconds; not after the step. Where
    /// the step has a ramp, it comes before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// What they do at first is not measured: so long after they began, 0 to a year, in seconds;
    /// their `seconds` begin then. Where the step has a ramp, no group has one of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ramp_seconds: f64,
}
