//! Orders of the owner to a core: see [`change`](crate::change).

use std::sync::Arc;

use block::Nanos;
use os::Reactor;
use proto::UnitId;

use super::Portal;
use crate::orders::{ConnectionInfo, Departure, Order, Whom};

/// Time for the hosts of a removed volume to log out.
const LEAVING: Nanos = Nanos::from_secs(2);
/// A removal is looked at this often.
const LOOK: Nanos = Nanos::from_millis(1);

/// The removal of a volume on this core.
pub(super) struct Leaving {
    unit: UnitId,
    departure: Arc<Departure>,
    /// Time at which the volume's connections are closed.
    until: Nanos,
    /// Numbers of the connections that were asked to leave.
    asked: Vec<u32>,
}

impl Drop for Leaving {
    /// The core has closed its lane, or ends.
    fn drop(&mut self) {
        self.departure.one_more();
    }
}

impl<R: Reactor> Portal<R> {
    /// Carries out orders.
    #[cold]
    pub(super) fn carry_out(&mut self, orders: Vec<Order>, now: Nanos) {
        for order in orders {
            match order {
                Order::Welcome(unit) => self.units.renew(unit.0 as usize),
                Order::Renew => self.renew(now),
                Order::Remove(unit, departure) => {
                    let (until, asked) = (now + LEAVING, Vec::new());
                    self.leaving.push(Leaving { unit, departure, until, asked });
                }
                // The caller may have given up.
                Order::List(answer) => drop(answer.send(self.list())),
                Order::Disconnect(whom, answer) => drop(answer.send(self.disconnect(&whom, now))),
            }
        }
    }

    /// Connections take over what the server offers now.
    fn renew(&mut self, now: Nanos) {
        for slot in 0..self.connections.slots() {
            let Some(connection) = self.connections.get(slot) else { continue };
            connection.end.renew(&mut connection.out);
            self.unflushed.push(slot);
        }
        self.flush(now);
    }

    fn list(&mut self) -> Vec<ConnectionInfo> {
        let offered = self.shared.protocols.places().offered();
        let mut list = Vec::new();
        for slot in 0..self.connections.slots() {
            let Some(connection) = self.connections.get(slot) else { continue };
            let chosen = offered.iter().filter(|place| connection.end.uses(place.unit));
            list.push(ConnectionInfo {
                number: connection.number,
                protocol: connection.protocol,
                peer: connection.peer.clone(),
                host: connection.end.peer_name().map(str::to_owned),
                volumes: chosen.map(|place| place.export.name()).collect(),
                in_flight: connection.in_flight,
            });
        }
        list
    }

    /// Closes the connections that are meant; returns how many.
    fn disconnect(&mut self, whom: &Whom, now: Nanos) -> usize {
        let mut count = 0;
        for slot in 0..self.connections.slots() {
            let Some(connection) = self.connections.get(slot) else { continue };
            let is_meant = match whom {
                Whom::Number(number) => connection.number == *number,
                Whom::Users(unit) => connection.end.uses(*unit),
                Whom::Host(name) => {
                    let address = connection.peer.rsplit_once(':').map_or("", |(host, _)| host);
                    connection.end.peer_name() == Some(name)
                        || address.trim_matches(['[', ']']) == name
                }
            };
            if is_meant {
                connection.turn_away("disconnected by the operator", now);
                self.unflushed.push(slot);
                count += 1;
            }
        }
        self.flush(now);
        count
    }

    /// Time of the next check of removals.
    pub(super) fn look_at_leaving(&self) -> Option<Nanos> {
        (!self.leaving.is_empty()).then_some(self.looked + LOOK)
    }

    /// Continues the removals of volumes.
    #[cold]
    pub(super) fn see_off(&mut self, now: Nanos) {
        self.looked = now;
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.retain_mut(|one| {
            if self.has_users(one, now) {
                return true;
            }
            let unit = one.unit.0 as usize;
            let Some(is_flushed) = self.units.close(unit, now) else { return true };
            if !is_flushed {
                self.shared.protocols.places().lose(unit);
                let name = self.shared.protocols.places().name(unit);
                let line = format!("volume {name}: its last flush failed: writes may be lost");
                self.shared.log.say(now, &line);
            }
            self.faults.forget(unit);
            false
        });
        // Orders are taken before this, so none has come meanwhile.
        self.leaving = leaving;
        self.flush(now);
    }

    /// Whether connections use a volume. Asks those to leave that have no other volume of its
    /// target, and closes connections when their time is over.
    fn has_users(&mut self, leaving: &mut Leaving, now: Nanos) -> bool {
        let mut any = false;
        for slot in 0..self.connections.slots() {
            let Some(connection) = self.connections.get(slot) else { continue };
            if !connection.end.uses(leaving.unit) {
                continue;
            }
            let stays = connection.end.renew(&mut connection.out);
            self.unflushed.push(slot);
            if !connection.end.uses(leaving.unit) {
                continue;
            }
            any = true;
            if now >= leaving.until {
                connection.turn_away("its volume was removed", now);
                connection.leave();
            } else if !stays && !leaving.asked.contains(&connection.number) {
                leaving.asked.push(connection.number);
                connection.end.ask_to_leave(now, &mut connection.out);
            }
        }
        any
    }
}
