//! State that the cores of a server share: exports, limits, mailboxes, counters.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use block::Budget;
use proto::UnitId;

use crate::config::{Export, Limits, ServeConfig};
use crate::counts::{Cells, VolumeCounts};
use crate::hosts::Hosts;
use crate::log::Log;
use crate::mailbox::Mailbox;
use crate::memory;
use crate::orders::Order;
use crate::places::Place;
use crate::protocol::Protocols;
use crate::server::ServeError;

/// Shared by the threads of a server. Nothing here is written on the I/O path, except counters of a
/// watched core, which no other core writes.
pub struct Shared {
    pub(crate) protocols: Protocols,
    pub(crate) limits: Limits,
    pub(crate) log: Log,
    /// One per core, in the order of the configuration.
    pub(crate) mailboxes: Vec<Mailbox<Order>>,
    /// Memory for connections, and their limits by host.
    pub(crate) budget: Budget,
    pub(crate) hosts: Arc<Hosts>,
    /// Counters of each core; none if nobody watches.
    cells: Vec<Arc<Cells>>,
    next_connection: AtomicU32,
    /// Held during a change of volumes or lists.
    pub(crate) changing: Mutex<()>,
    stop: AtomicBool,
    failure: Mutex<Failure>,
}

/// A volume of a server.
pub struct VolumeInfo {
    /// Names, and the volume.
    pub export: Export,
    /// Counters since it was added; `None` without [`ServeConfig::counts`].
    pub counts: Option<VolumeCounts>,
}

/// Receives the reason why a server cannot continue.
type Tell = Box<dyn Fn(&str) + Send + Sync>;

/// The first failure of a core, and the callback for it.
#[derive(Default)]
struct Failure {
    why: Option<String>,
    tell: Option<Tell>,
}

impl Shared {
    /// The shared state of a server with this configuration.
    ///
    /// # Errors
    ///
    /// The memory budget is too small.
    pub fn new(protocols: Protocols, config: &ServeConfig, log: Log) -> Result<Shared, ServeError> {
        let budget = memory::budget(&config.limits, config.cores.len())?;
        let units = protocols.places().count;
        Ok(Shared {
            protocols,
            limits: config.limits,
            log,
            mailboxes: config.cores.iter().map(|_| Mailbox::default()).collect(),
            budget,
            hosts: Hosts::new(config.limits.connections),
            cells: match config.counts {
                true => config.cores.iter().map(|_| Cells::new(units)).collect(),
                false => Vec::new(),
            },
            next_connection: AtomicU32::new(1),
            changing: Mutex::default(),
            stop: AtomicBool::new(false),
            failure: Mutex::default(),
        })
    }

    /// Memory budget of connections, from which each core's pool reserves steps.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Sets the function that wakes core number `core` for notices of other cores, from any thread.
    pub fn wakes(&self, core: usize, wake: impl Fn() + Send + Sync + 'static) {
        self.mailboxes[core].belongs_to(wake);
    }

    /// Number of connections.
    pub fn connection_count(&self) -> usize {
        self.hosts.count()
    }

    /// Counters of core number `core`; `None` if nobody watches.
    pub(crate) fn cells(&self, core: usize) -> Option<&Arc<Cells>> {
        self.cells.get(core)
    }

    /// The volumes that hosts may choose, in the order of their places.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let info = |place: Place| VolumeInfo {
            counts: (!self.cells.is_empty())
                .then(|| self.counts_of(place.unit).since(&place.before)),
            export: place.export,
        };
        self.protocols.places().offered().into_iter().map(info).collect()
    }

    /// Counters of a place over all cores.
    pub(crate) fn counts_of(&self, unit: UnitId) -> VolumeCounts {
        let mut sum = VolumeCounts::default();
        self.cells.iter().for_each(|cells| cells.add_to(unit.0 as usize, &mut sum));
        sum
    }

    /// A unique number for a connection.
    pub(crate) fn connection_id(&self) -> u32 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that a core failed, and reports the first reason.
    pub(crate) fn fail(&self, why: String) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.why.is_none() {
            if let Some(tell) = &failure.tell {
                tell(&why);
            }
            failure.why = Some(why);
        }
    }

    /// Sets the callback for a failure; called at once if one has happened.
    pub(crate) fn on_failure(&self, tell: Tell) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &failure.why {
            tell(why);
        }
        failure.tell = Some(tell);
    }

    /// Asks all cores to stop.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}
