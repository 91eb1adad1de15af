//! What the cores of a server have in common: what they answer from, the limits, their
//! mailboxes, a few counters.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use block::Budget;
use volume::Volume;

use crate::config::{Export, Limits, ServeConfig};
use crate::hosts::Hosts;
use crate::log::Log;
use crate::mailbox::Mailbox;
use crate::memory;
use crate::protocol::Protocols;
use crate::server::ServeError;

/// Shared by the threads of a server. No field is written on the I/O path.
pub struct Shared {
    pub(crate) protocols: Protocols,
    pub(crate) volumes: Vec<Arc<dyn Volume>>,
    /// By unit: what it is called in the log.
    pub(crate) units: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) log: Log,
    /// One for each core, in the order of the configuration.
    pub(crate) mailboxes: Vec<Mailbox>,
    /// Memory for connections, and places for them by host.
    pub(crate) budget: Budget,
    pub(crate) hosts: Arc<Hosts>,
    next_connection: AtomicU32,
    stop: AtomicBool,
    failure: Mutex<Failure>,
}

/// Takes the reason why a server cannot go on.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// Why a core cannot serve any more, and who is to learn of it.
#[derive(Default)]
struct Failure {
    why: Option<String>,
    tell: Option<Tell>,
}

impl Shared {
    /// What the cores of a server with this configuration share.
    ///
    /// # Errors
    ///
    /// Too little memory is configured.
    pub fn new(protocols: Protocols, config: &ServeConfig, log: Log) -> Result<Shared, ServeError> {
        let budget = memory::budget(&config.limits, config.cores.len())?;
        let exports = || config.exports.iter();
        let name = |export: &Export| format!("{}/{}", export.target, export.lun);
        Ok(Shared {
            protocols,
            volumes: exports().map(|export| Arc::clone(&export.volume)).collect(),
            units: exports().map(name).collect(),
            limits: config.limits,
            log,
            mailboxes: config.cores.iter().map(|_| Mailbox::default()).collect(),
            budget,
            hosts: Hosts::new(config.limits.connections),
            next_connection: AtomicU32::new(1),
            stop: AtomicBool::new(false),
            failure: Mutex::default(),
        })
    }

    /// The memory that connections may take, of which each core's pool takes its steps.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Has `wake` called when another core has news for core number `core`, on whatever thread.
    pub fn wakes(&self, core: usize, wake: impl Fn() + Send + Sync + 'static) {
        self.mailboxes[core].belongs_to(wake);
    }

    /// How many connections there are now.
    pub fn connection_count(&self) -> usize {
        self.hosts.count()
    }

    /// A number that no other connection of this server has.
    pub(crate) fn connection_id(&self) -> u32 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    /// A core cannot serve any more: the first such reason is told.
    pub(crate) fn fail(&self, why: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.why.is_none() {
            if let Some(tell) = &failure.tell {
                tell(&why);
            }
            failure.why = Some(why);
        }
    }

    /// Who is to learn of it; at once if it has happened.
    pub(crate) fn on_failure(&self, tell: Tell) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &failure.why {
            tell(why);
        }
        failure.tell = Some(tell);
    }

    /// Asks all cores to end.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
