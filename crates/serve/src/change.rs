//! Changes of a running server: volumes that come and go, hosts that may use them, connections.
//!
//! A volume that comes gets a place, and then a new table shows it. One that goes is first left out
//! of the table, so that no host can choose it. If its target has other volumes, hosts stay
//! connected and hear of it; otherwise each core asks its hosts to leave, and closes the
//! connections of those that do not. Each core then waits for the volume's I/Os, flushes its lane
//! and closes it. When the last core has done so, the place is free and the server holds nothing of
//! the volume.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use proto::UnitId;

use crate::config::Export;
use crate::host_lists::HostLists;
use crate::orders::{ConnectionInfo, Departure, Order, Whom};
use crate::server::{ServeError, Server};
use crate::shared::{Shared, VolumeInfo};

/// Time for which answers of cores are awaited: a core that takes longer has other worries.
const PATIENCE: Duration = Duration::from_secs(5);

impl Shared {
    /// One change at a time.
    fn changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one more volume.
    ///
    /// # Errors
    ///
    /// There is no place for it, or its name or number is invalid, taken or being removed.
    pub fn add(&self, export: Export) -> Result<UnitId, ServeError> {
        let _only = self.changes();
        let (places, full) = (self.protocols.places(), ServeError::Full);
        if places.is_leaving(&export) {
            return Err(ServeError::Leaving(export.name()));
        }
        let unit = places.take(export, |unit| self.counts_of(unit)).ok_or(full)?;
        self.mailboxes.iter().for_each(|core| core.order(Order::Welcome(unit)));
        let shown = self.protocols.show(self.protocols.table().host_lists.clone());
        if let Err(error) = shown {
            places.free(unit);
            return Err(error);
        }
        self.mailboxes.iter().for_each(|core| core.order(Order::Renew));
        Ok(unit)
    }

    /// Begins the removal of a volume: no host can choose it from now on.
    ///
    /// # Errors
    ///
    /// There is no such volume.
    pub fn remove(&self, target: &str, lun: u8) -> Result<Arc<Departure>, ServeError> {
        let _only = self.changes();
        let unit = self.place_of(target, lun)?;
        self.protocols.places().leaves(unit);
        self.protocols.show(self.protocols.table().host_lists.clone())?;
        self.protocols.places().withdraw(unit);
        let departure = Arc::new(Departure::new(unit, self.mailboxes.len()));
        for core in &self.mailboxes {
            core.order(Order::Remove(unit, Arc::clone(&departure)));
        }
        Ok(departure)
    }

    /// Ends a removal that [is over](Departure::is_over), and returns the volume.
    pub fn release(&self, departure: &Departure) -> Option<Export> {
        let _only = self.changes();
        self.protocols.places().free(departure.unit())
    }

    /// Changes who may use what. Connected hosts stay.
    ///
    /// # Errors
    ///
    /// An invalid name of a host.
    pub fn set_host_lists(&self, lists: HostLists) -> Result<(), ServeError> {
        let _only = self.changes();
        self.protocols.show(lists)
    }

    /// The place of a volume.
    ///
    /// # Errors
    ///
    /// There is no such volume.
    fn place_of(&self, target: &str, lun: u8) -> Result<UnitId, ServeError> {
        let offered = self.protocols.places().offered().into_iter();
        let mut found = offered.filter(|it| it.export.target == target && it.export.lun == lun);
        let unknown = || ServeError::NoSuchVolume(format!("{target}/{lun}"));
        found.next().map(|place| place.unit).ok_or_else(unknown)
    }

    /// The connections of all cores, by number.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let mut all: Vec<_> = self.ask(Order::List).into_iter().flatten().collect();
        all.sort_by_key(|connection| connection.number);
        all
    }

    /// Closes connections, and returns how many.
    pub fn disconnect(&self, whom: &Whom) -> usize {
        self.ask(|answer| Order::Disconnect(whom.clone(), answer)).into_iter().sum()
    }

    /// The answers of the cores to an order.
    fn ask<T>(&self, order: impl Fn(Sender<T>) -> Order) -> Vec<T> {
        let (answer, answers) = mpsc::channel();
        self.mailboxes.iter().for_each(|core| core.order(order(answer.clone())));
        let all = self.mailboxes.iter();
        all.map_while(|_| answers.recv_timeout(PATIENCE).ok()).collect()
    }
}

impl Server {
    /// The volumes that hosts may choose.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        self.shared.volumes()
    }

    /// Serves one more volume.
    ///
    /// # Errors
    ///
    /// There is no place for it, or its name or number is invalid or taken.
    pub fn add(&self, export: Export) -> Result<(), ServeError> {
        self.shared.add(export).map(|_| ())
    }

    /// Removes a volume: waits until its hosts have left or were disconnected, and its I/Os and a
    /// last flush have ended. Returns the volume, which nobody else holds then.
    ///
    /// # Errors
    ///
    /// There is no such volume.
    pub fn remove(&self, target: &str, lun: u8) -> Result<Option<Export>, ServeError> {
        let departure = self.shared.remove(target, lun)?;
        departure.wait(|| self.shared.stopping());
        Ok(self.shared.release(&departure))
    }

    /// Returns the lists of hosts.
    pub fn host_lists(&self) -> HostLists {
        self.shared.protocols.table().host_lists.clone()
    }

    /// Changes who may use what. Connected hosts stay.
    ///
    /// # Errors
    ///
    /// An invalid name of a host.
    pub fn set_host_lists(&self, lists: HostLists) -> Result<(), ServeError> {
        self.shared.set_host_lists(lists)
    }

    /// All connections, by number.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.shared.connections()
    }

    /// Closes connections, and returns how many.
    pub fn disconnect(&self, whom: &Whom) -> usize {
        self.shared.disconnect(whom)
    }

    /// Closes the connections of a volume, so that its hosts see what has changed; returns how
    /// many.
    ///
    /// # Errors
    ///
    /// There is no such volume.
    pub fn disconnect_users(&self, target: &str, lun: u8) -> Result<usize, ServeError> {
        let unit = self.shared.place_of(target, lun)?;
        Ok(self.shared.disconnect(&Whom::Users(unit)))
    }
}
