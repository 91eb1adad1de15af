//! Files that are laid out before the run.

use serde::{Deserialize, Serialize};

use super::defaults::is_default;
use super::size;
use super::workload::Content;

/// A file that is laid out before the run, if it is missing or empty. Existing content is never
/// changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaidOut {
    /// Path.
    pub path: String,
    /// Size in bytes; at least 1.
    #[serde(deserialize_with = "size::bytes")]
    pub size_bytes: u64,
    /// True if all of the file is written; otherwise it is sparse, and reads as zeroes.
    #[serde(default = "super::defaults::yes")]
    pub written: bool,
    /// True if a shorter file with content is extended with zeroes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grows: bool,
    /// Data to write; incompressible and unique by default.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content: Content,
    /// Bytes after which a pattern restarts, at least 1; 1 MiB by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub write_bytes: Option<u32>,
}
