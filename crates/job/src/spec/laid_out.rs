//! Files that are made before anything runs.

use serde::{Deserialize, Serialize};

use super::defaults::is_default;
use super::size;
use super::workload::Content;

/// A file that is made before anything runs, where it is missing or empty. What one holds is never
/// touched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaidOut {
    /// Where it is.
    pub path: String,
    /// How long it becomes, in bytes; at least 1.
    #[serde(deserialize_with = "size::bytes")]
    pub size_bytes: u64,
    /// All of it is written; otherwise it has its length only, and reads as zeroes.
    #[serde(default = "super::defaults::yes")]
    pub written: bool,
    /// One that holds something and is shorter is made longer, by what reads as zeroes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grows: bool,
    /// What is written; by default what nothing can compress or share.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content: Content,
    /// A pattern restarts after this many bytes, at least 1; 1 MiB by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub write_bytes: Option<u32>,
}
