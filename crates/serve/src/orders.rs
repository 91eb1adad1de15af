//! Orders of the server's owner to its cores, carried out between two turns.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proto::UnitId;

use crate::protocol::Protocol;

/// A server that ends is noticed within this time.
const LOOK: Duration = Duration::from_millis(50);

/// An order to a core.
#[derive(Clone)]
pub(crate) enum Order {
    /// A volume has a new place.
    Welcome(UnitId),
    /// The hosts of its target are to be told.
    Renew,
    /// The hosts of a volume are to leave, and then its lane is to be closed.
    Remove(UnitId, Arc<Departure>),
    /// The core's connections are asked for.
    List(Sender<Vec<ConnectionInfo>>),
    /// Connections are to be closed; the answer is their number.
    Disconnect(Whom, Sender<usize>),
}

/// The connections that an operator means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The connection with this number.
    Number(u32),
    /// Connections of a host, by its address, IQN or NQN.
    Host(String),
    /// Connections that have chosen the volume in this place.
    Users(UnitId),
}

/// A connection of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Unique among the connections of the server.
    pub number: u32,
    /// Protocol.
    pub protocol: Protocol,
    /// Address and port of the peer.
    pub peer: String,
    /// The name that the peer gave itself: IQN or NQN.
    pub host: Option<String>,
    /// The volumes that it has chosen, as `TARGET/LUN`.
    pub volumes: Vec<String>,
    /// I/Os in flight on volumes.
    pub in_flight: usize,
}

/// The removal of a volume, until all cores have carried it out.
#[derive(Debug)]
pub struct Departure {
    unit: UnitId,
    cores: Mutex<usize>,
    over: Condvar,
}

impl Departure {
    /// A removal that `cores` have to carry out.
    pub(crate) fn new(unit: UnitId, cores: usize) -> Departure {
        Departure { unit, cores: Mutex::new(cores), over: Condvar::new() }
    }

    /// The place of the volume.
    pub fn unit(&self) -> UnitId {
        self.unit
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more core has closed its lane.
    pub(crate) fn one_more(&self) {
        let mut cores = self.lock();
        *cores = cores.saturating_sub(1);
        if *cores == 0 {
            self.over.notify_all();
        }
    }

    /// Whether all cores have closed their lanes.
    pub fn is_over(&self) -> bool {
        *self.lock() == 0
    }

    /// Waits until all cores have closed their lanes, or `ends` says that the server does.
    pub(crate) fn wait(&self, ends: impl Fn() -> bool) {
        let mut cores = self.lock();
        while *cores > 0 && !ends() {
            let waited = self.over.wait_timeout(cores, LOOK);
            (cores, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
