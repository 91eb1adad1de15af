//! What the kernel is told of files that go through its page cache.

use serde::{Deserialize, Serialize};

use super::defaults::is_default;

/// How a group's files stand to the page cache when the run begins. Volumes around it are not
/// touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// What of them is cached and on the device already is dropped first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub drop: bool,
    /// The part of them that is used is read into it first, before all that is measured. Not
    /// beside `drop`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read: bool,
    /// How they will be used: it decides how far the kernel reads ahead.
    #[serde(default, skip_serializing_if = "is_default")]
    pub expect: Expect,
}

/// In which order a file will be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// Nobody says.
    #[default]
    Unknown,
    /// Here and there: the kernel does not read ahead.
    Random,
    /// Forward: it reads twice as far ahead.
    Sequential,
}
