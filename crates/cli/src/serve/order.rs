//! Orders to a running server, and its answers: one JSON object each, on a connection of its own.

use serde::{Deserialize, Serialize};

/// Longest order, in bytes.
pub const ORDER_MAX_BYTES: u64 = 64 << 10;

/// An order.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// List the volumes.
    Volumes {},
    /// List the connections.
    Connections {},
    /// Serve one more volume.
    Add {
        /// NAME=URI or NAME/LUN=URI.
        volume: String,
    },
    /// Serve a volume no more.
    Remove {
        /// NAME or NAME/LUN.
        volume: String,
    },
    /// Close connections.
    Disconnect {
        /// Number of a connection, or address, IQN or NQN of a host.
        whom: String,
    },
    /// Change what hosts may do.
    Set {
        /// NAME or NAME/LUN.
        volume: String,
        /// No host may change the volume.
        read_only: bool,
    },
    /// Close a volume and open it again.
    Reopen {
        /// NAME or NAME/LUN.
        volume: String,
    },
    /// Read serve.toml again.
    Reload {},
    /// Print the state as a serve.toml.
    Dump {},
}

/// The answer to an order.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The volumes.
    Volumes(Vec<VolumeRow>),
    /// The connections.
    Connections(Vec<ConnectionRow>),
    /// Done; lines about what has changed.
    Done(Vec<String>),
    /// The state as a serve.toml.
    Dump(String),
    /// Not done.
    Refused {
        /// The reason.
        why: String,
        /// The order makes no sense: exit code 2.
        usage: bool,
    },
}

/// A volume in a list.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct VolumeRow {
    /// NAME, or NAME/LUN.
    pub name: String,
    /// URI.
    pub uri: String,
    /// Name of the iSCSI target.
    pub target: String,
    /// Name of the NVMe subsystem.
    pub subsystem: String,
    /// Logical unit number and namespace identifier.
    pub lun: u8,
    /// Capacity.
    pub bytes: u64,
    /// No host may change it.
    pub read_only: bool,
    /// Connections that have chosen it.
    pub connections: usize,
    /// Reads since it was added.
    pub read: Ios,
    /// Writes, likewise.
    pub write: Ios,
}

/// Counters of I/Os.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Ios {
    /// I/Os without a fault.
    pub ios: u64,
    /// Bytes of these I/Os.
    pub bytes: u64,
    /// I/Os that ended in a fault.
    pub errors: u64,
}

/// A connection in a list.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct ConnectionRow {
    /// Number, unique in the life of the server.
    pub number: u32,
    /// Protocol.
    pub protocol: String,
    /// Address and port of the peer.
    pub peer: String,
    /// IQN or NQN of the host, once it has said one.
    pub host: Option<String>,
    /// Volumes that it has chosen.
    pub volumes: Vec<String>,
    /// I/Os in flight on volumes.
    pub in_flight: usize,
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn orders_are_objects_with_a_verb() {
        let add = Order::Add { volume: "a=ram:1m".to_owned() };
        let text = serde_json::to_string(&add).unwrap();
        assert_eq!(text, r#"{"do":"add","volume":"a=ram:1m"}"#);
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), add);
        assert_eq!(serde_json::from_str::<Order>(r#"{"do":"dump"}"#).unwrap(), Order::Dump {});
        for wrong in [r#"{"do":"drop"}"#, r#"{"do":"add"}"#, "[]", r#"{"do":"dump","x":1}"#] {
            assert!(serde_json::from_str::<Order>(wrong).is_err(), "{wrong}");
        }
    }
}
