//! Times of a group's workers within a step.

use serde::{Deserialize, Serialize};

use super::defaults::is_default;

/// Start and end of a group's workers; those of the step by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Name of the group after whose end the workers begin: one before theirs in the step.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub after: String,
    /// Delay after that, or after the beginning of the step: 0 to a year, in seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay_seconds: f64,
    /// Time after which the workers end, above 0 to a year, in seconds; at the end of the step at
    /// the latest. A ramp of the step precedes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Ramp time of the workers, which is not measured: 0 to a year, in seconds; their `seconds`
    /// begin after it. If the step has a ramp, no group has its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ramp_seconds: f64,
}
