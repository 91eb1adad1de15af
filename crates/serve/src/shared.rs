//! What the cores of a server have in common: what they answer from, the limits, their
//! mailboxes, a few counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use block::Budget;
use volume::Volume;

use crate::config::Limits;
use crate::hosts::Hosts;
use crate::log::Log;
use crate::mailbox::Mailbox;
use crate::protocol::Protocols;

/// Shared by the threads of a server. No field is written on the I/O path.
pub(crate) struct Shared {
    pub(crate) protocols: Protocols,
    pub(crate) volumes: Vec<Arc<dyn Volume>>,
    pub(crate) limits: Limits,
    pub(crate) log: Log,
    /// One for each core, in the order of the configuration.
    pub(crate) mailboxes: Vec<Mailbox>,
    /// Memory for connections, and places for them by host.
    pub(crate) budget: Budget,
    pub(crate) hosts: Arc<Hosts>,
    next_connection: AtomicU32,
    stop: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        protocols: Protocols,
        volumes: Vec<Arc<dyn Volume>>,
        limits: Limits,
        log: Log,
        cores: usize,
        budget: Budget,
    ) -> Shared {
        Shared {
            protocols,
            volumes,
            limits,
            log,
            mailboxes: (0..cores).map(|_| Mailbox::default()).collect(),
            budget,
            hosts: Hosts::new(limits.connections),
            next_connection: AtomicU32::new(1),
            stop: AtomicBool::new(false),
        }
    }

    /// A number that no other connection of this server has.
    pub(crate) fn connection_id(&self) -> u32 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    /// Asks all cores to end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
