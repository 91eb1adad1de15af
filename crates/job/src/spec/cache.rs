//! Page cache options of files.

use serde::{Deserialize, Serialize};

use super::defaults::is_default;

/// Page cache options of a group's files at the beginning of the run. Volumes with direct I/O are
/// not affected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// True if cached pages that are already on the device are dropped first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drop: bool,
    /// True if the used part of the files is read into the cache before everything that is
    /// measured. Not together with `drop`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read: bool,
    /// Expected access order, which determines the kernel's read-ahead.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expect: Expect,
}

/// Expected access order of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// No expectation.
    #[default]
    Unknown,
    /// Random: the kernel does not read ahead.
    Random,
    /// Sequential: the kernel doubles its read-ahead.
    Sequential,
}
