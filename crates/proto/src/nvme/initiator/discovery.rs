//! Asks a portal which subsystems it has.

use block::Nanos;

use crate::{Ending, Endpoint, Outbox};

/// What a portal tells of one subsystem at one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryEntry {
    /// Name of the subsystem.
    pub nqn: String,
    /// IP address at which it answers.
    pub traddr: String,
    /// TCP port at which it answers.
    pub trsvcid: String,
    /// What it is.
    pub kind: SubsystemKind,
}

/// What a subsystem is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubsystemKind {
    /// It knows of further subsystems.
    Referral,
    /// It has namespaces.
    Nvm,
    /// The discovery service that was asked.
    Discovery,
    /// Anything that a later standard has.
    Other(u8),
}

/// A connection to the discovery service of a portal.
#[derive(Debug)]
pub struct NvmeDiscovery {}

impl NvmeDiscovery {
    /// A connection that asks from its first [`tick`](Endpoint::tick), due at once. `host_nqn` and
    /// `host_id` are our own name and number.
    pub fn new(host_nqn: &str, host_id: [u8; 16], now: Nanos) -> NvmeDiscovery {
        let _ = (host_nqn, host_id, now);
        todo!()
    }

    /// The answer, once it is complete: subsystems reached over TCP.
    pub fn entries(&self) -> Option<Vec<DiscoveryEntry>> {
        todo!()
    }
}

impl Endpoint for NvmeDiscovery {
    fn receive(&mut self, _now: Nanos, _bytes: &[u8], _out: &mut Outbox) -> Result<(), Ending> {
        todo!()
    }

    fn deadline(&self) -> Option<Nanos> {
        todo!()
    }

    fn tick(&mut self, _now: Nanos, _out: &mut Outbox) -> Result<(), Ending> {
        todo!()
    }
}
