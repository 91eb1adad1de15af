//! The end that serves: one connection, which is one queue of a controller.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Done, Memory, Nanos, Pool};

use crate::{Ending, Endpoint, Outbox, Request, Target};

use super::controllers::Controllers;
use super::directory::Subsystems;

/// How connections behave. Shared by those of a portal.
#[derive(Clone, Debug)]
pub struct NvmeTargetConfig {
    /// Entries of an I/O queue, 2 to 1024: one more than commands that it may have under way.
    pub max_queue_depth: u16,
    /// Data that a command on an I/O queue may bring along: a multiple of 16 up to
    /// [`Pool::SMALL_BYTES`].
    pub in_capsule_bytes: u32,
    /// Longest data PDU that we take: a multiple of 4 from 4096 on.
    pub max_h2c_data_bytes: u32,
    /// Longest read or write, a power of two from 4096 to 2²⁸ bytes.
    pub max_transfer_bytes: u32,
    /// How long it may take from accepting a connection to its Connect command.
    pub connect_timeout: Nanos,
    /// Whether hosts that ask for digests get them.
    pub allow_header_digest: bool,
    /// The same for data.
    pub allow_data_digest: bool,
}

impl Default for NvmeTargetConfig {
    fn default() -> NvmeTargetConfig {
        NvmeTargetConfig {
            max_queue_depth: 1024,
            in_capsule_bytes: 16 << 10,
            max_h2c_data_bytes: Pool::LARGE_BYTES as u32,
            max_transfer_bytes: 1 << 20,
            connect_timeout: Nanos::from_secs(15),
            allow_header_digest: true,
            allow_data_digest: true,
        }
    }
}

/// One connection, which is one queue of a controller.
#[derive(Debug)]
pub struct NvmeTarget {}

impl NvmeTarget {
    /// A fresh connection.
    ///
    /// `traddr` and `trsvcid` are the address and port of the portal, as discovery tells them.
    /// `connection_id` tells connections apart.
    pub fn new(
        config: Arc<NvmeTargetConfig>,
        subsystems: Arc<Subsystems>,
        controllers: Arc<Controllers>,
        traddr: &str,
        trsvcid: &str,
        connection_id: u32,
        now: Nanos,
    ) -> NvmeTarget {
        let _ = (config, subsystems, controllers, traddr, trsvcid, connection_id, now);
        todo!()
    }

    /// Who asks, once that was said.
    pub fn host_nqn(&self) -> Option<&str> {
        todo!()
    }

    /// Which subsystem is asked, once that was said.
    pub fn subsystem_nqn(&self) -> Option<&str> {
        todo!()
    }

    /// Number of the queue, 0 for the admin queue, once connected.
    pub fn queue_id(&self) -> Option<u16> {
        todo!()
    }
}

impl Endpoint for NvmeTarget {
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

impl Target for NvmeTarget {
    fn requests(&mut self) -> &mut VecDeque<Request> {
        todo!()
    }

    fn complete(&mut self, _now: Nanos, _done: Done, _memory: Option<&Memory>, _out: &mut Outbox) {
        todo!()
    }

    fn half_open(&self) -> bool {
        todo!()
    }

    fn finished(&self) -> bool {
        todo!()
    }

    fn abandon(&mut self, _pool: &Pool) {
        todo!()
    }
}
