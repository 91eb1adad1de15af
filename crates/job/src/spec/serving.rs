//! Hosts of a run of many that serve volumes to the others.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Placeholder for the volumes that hosts of the run serve; `served:NAME` stands for one of them on
/// each of these hosts.
pub const SERVED: &str = "served";

/// Volumes that some hosts of a run serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serving {
    /// Hosts that serve: ranks ("0", "1-3") or names of hosts; at least one.
    pub hosts: Vec<String>,
    /// Arguments of `drumfire serve`; `{rank}` and `{host}` are replaced. Without an address the
    /// hosts listen for iSCSI on a free port of all their addresses.
    pub args: Vec<String>,
    /// Content of files that the arguments name, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
}

impl Serving {
    /// Returns whether a volume of a job is a placeholder for served ones.
    pub fn is_served(volume: &str) -> bool {
        volume.strip_prefix(SERVED).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }
}
