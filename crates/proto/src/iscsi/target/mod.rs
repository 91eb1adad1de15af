//! The end that serves: one connection of a portal.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Done, Memory, Nanos, Pool};

use crate::{Ending, Endpoint, Outbox, Request, Target};

use super::directory::Directory;

/// How connections behave. Shared by those of a portal.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Commands that a connection may have under way, 1 to 4096: the window that CmdSN moves in.
    pub max_commands: u16,
    /// Longest data segment that we take, 512 to 2²⁴−1.
    pub max_recv_data_segment_bytes: u32,
    /// Longest solicited burst that we agree to, 512 to 2²⁴−1.
    pub max_burst_bytes: u32,
    /// Longest unsolicited burst that we agree to, 512 to `max_burst_bytes`.
    pub first_burst_bytes: u32,
    /// How long a login may take.
    pub login_timeout: Nanos,
    /// An initiator that was silent for so long is pinged.
    pub nop_interval: Nanos,
    /// A ping unanswered for so long ends the connection.
    pub nop_timeout: Nanos,
}

impl Default for TargetConfig {
    fn default() -> TargetConfig {
        TargetConfig {
            max_commands: 128,
            max_recv_data_segment_bytes: Pool::LARGE_BYTES as u32,
            max_burst_bytes: 1 << 20,
            first_burst_bytes: Pool::LARGE_BYTES as u32,
            login_timeout: Nanos::from_secs(15),
            nop_interval: Nanos::from_secs(15),
            nop_timeout: Nanos::from_secs(15),
        }
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Logging in.
    Login,
    /// In full feature phase of a discovery session.
    Discovery,
    /// In full feature phase of a normal session.
    Normal,
}

/// One connection, which is one session.
#[derive(Debug)]
pub struct IscsiTarget {}

impl IscsiTarget {
    /// A fresh connection.
    ///
    /// `portal` is what SendTargets tells as the address of every target, `host:port,tag`, such as
    /// `192.0.2.1:3260,1`. `connection_id` tells connections apart: their sessions' TSIH.
    pub fn new(
        config: Arc<TargetConfig>,
        directory: Arc<Directory>,
        portal: &str,
        connection_id: u32,
        now: Nanos,
    ) -> IscsiTarget {
        let _ = (config, directory, portal, connection_id, now);
        todo!()
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        todo!()
    }

    /// Who asks, once that was said.
    pub fn initiator_name(&self) -> Option<&str> {
        todo!()
    }

    /// Which target is asked, once that was said.
    pub fn target_name(&self) -> Option<&str> {
        todo!()
    }

    /// Asks the initiator to log out, because the portal is about to close.
    pub fn ask_logout(&mut self, _now: Nanos, _out: &mut Outbox) {
        todo!()
    }
}

impl Endpoint for IscsiTarget {
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

impl Target for IscsiTarget {
    fn requests(&mut self) -> &mut VecDeque<Request> {
        todo!()
    }

    fn complete(&mut self, _now: Nanos, _done: Done, _m: Option<&Memory>, _out: &mut Outbox) {
        todo!()
    }

    fn finished(&self) -> bool {
        todo!()
    }

    fn abandon(&mut self, _pool: &Pool) {
        todo!()
    }
}
