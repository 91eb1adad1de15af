//! What the cores of a server have in common: the directory, the limits, a few counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use proto::iscsi::{Directory, TargetConfig};
use volume::Volume;

use crate::config::Limits;
use crate::log::Log;

/// Shared by the threads of a server. No field is written on the I/O path.
pub(crate) struct Shared {
    pub(crate) directory: Arc<Directory>,
    pub(crate) iscsi: Arc<TargetConfig>,
    pub(crate) volumes: Vec<Arc<dyn Volume>>,
    pub(crate) limits: Limits,
    pub(crate) log: Log,
    pub(crate) connections: AtomicUsize,
    next_connection: AtomicU32,
    stop: AtomicBool,
}

impl Shared {
    pub(crate) fn new(
        directory: Directory,
        iscsi: TargetConfig,
        volumes: Vec<Arc<dyn Volume>>,
        limits: Limits,
        log: Log,
    ) -> Shared {
        Shared {
            directory: Arc::new(directory),
            iscsi: Arc::new(iscsi),
            volumes,
            limits,
            log,
            connections: AtomicUsize::new(0),
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
