//! Membership of a queue in its controller.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::{Count, Plant, planted};

use super::{Controller, Controllers};

/// A queue's membership in its controller. Dropping it ends the queue; for an admin queue, the
/// controller.
#[derive(Debug)]
pub(in super::super) struct Membership {
    pub(super) controllers: Arc<Controllers>,
    pub(super) controller: Arc<Controller>,
    pub(super) queue: u16,
    pub(super) life: u32,
    /// The place of an I/O queue.
    pub(super) seat: u64,
    pub(super) memory_bytes: u64,
}

impl Membership {
    /// The controller.
    pub(in super::super) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Whether that was because another controller of its host has reset it.
    pub(in super::super) fn is_replaced(&self) -> bool {
        self.controller.is_replaced.load(Ordering::Acquire)
    }

    /// Whether the controller was ended without its doing.
    pub(in super::super) fn is_given_up(&self) -> bool {
        self.controller.is_given_up.load(Ordering::Acquire)
    }

    /// Whether the controller was ever enabled.
    pub(in super::super) fn was_enabled(&self) -> bool {
        self.controller.was_enabled.load(Ordering::Relaxed)
    }

    /// Notes whether the host sends Keep Alives.
    pub(in super::super) fn keep_alive(&self, keeps: bool) {
        self.controller.keeps_alive.store(keeps, Ordering::Relaxed);
    }

    /// Queue identifier; 0 is the admin queue.
    pub(in super::super) fn queue(&self) -> u16 {
        self.queue
    }

    /// Whether this I/O queue still belongs to an enabled controller.
    #[inline(always)]
    pub(in super::super) fn lives(&self) -> bool {
        self.controller.life() == self.life
    }

    /// The connection of this I/O queue is lost, but changes of it are left.
    pub(in super::super) fn end(&self) {
        let mut registry = self.controllers.lock();
        let seat = registry.seats.get_mut(&(self.controller.number, self.seat));
        if seat.is_some_and(|seat| !std::mem::replace(&mut seat.is_ending, true)) {
            registry.ending += 1;
        }
    }

    /// Whether the controller has I/O queues, ending ones too. Only for the admin queue.
    pub(in super::super) fn has_queues(&self) -> bool {
        let number = self.controller.number;
        self.controllers.lock().seats.range((number, 0)..=(number, u64::MAX)).next().is_some()
    }

    /// Whether changes are left of I/O queues of this controller that have ended. Only for the
    /// admin queue.
    pub(in super::super) fn has_leftovers(&self) -> bool {
        let registry = self.controllers.lock();
        registry.has_ending(&self.controller) && !planted(Plant::CompleteResetEarly)
    }

    /// Whether changes are left of ended queues of any controller of this host and subsystem.
    pub(in super::super) fn host_has_leftovers(&self) -> bool {
        let subsystem = self.controller.subsystem.as_ref();
        let left = |subsystem| self.controllers.has_leftovers_of(subsystem, &self.controller.host);
        subsystem.is_some_and(left) && !planted(Plant::CompleteResetEarly)
    }

    /// Ends another controller of the same host: see [`Controllers::end_other`].
    pub(in super::super) fn end_other(&self, id: u16, instance: (u8, u64)) -> bool {
        self.controllers.end_other(&self.controller, id, instance)
    }

    /// Enables or disables the controller; disabling ends its I/O queues. Only for the admin queue.
    pub(in super::super) fn enable(&self, enable: bool) {
        let mut registry = self.controllers.lock();
        let Some(entry) = registry.entries.get_mut(&self.controller.id) else { return };
        if !Arc::ptr_eq(&entry.controller, &self.controller) {
            return;
        }
        if enable {
            self.controller.was_enabled.store(true, Ordering::Relaxed);
        }
        if (self.controller.life() & 1 != 0) == enable {
            return;
        }
        entry.queues.clear();
        entry.granted = self.controllers.limits.queues;
        if enable {
            self.controllers.draw(&mut registry, &self.controller);
        } else {
            registry.end_queues(&self.controller);
        }
        self.controller.life.fetch_add(1, Ordering::AcqRel);
    }

    /// Grants up to `queues` I/O queues; returns how many. `None` if some exist already.
    pub(in super::super) fn grant(&self, queues: u16) -> Option<u16> {
        let mut registry = self.controllers.lock();
        let entry = registry.entries.get_mut(&self.controller.id)?;
        if !entry.queues.is_empty() {
            return None;
        }
        entry.granted = queues.clamp(1, self.controllers.limits.queues);
        Some(entry.granted)
    }

    /// Number of I/O queues granted.
    pub(in super::super) fn granted(&self) -> u16 {
        let registry = self.controllers.lock();
        registry.entries.get(&self.controller.id).map_or(0, |entry| entry.granted)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut registry = self.controllers.lock();
        let seat = registry.seats.remove(&(self.controller.number, self.seat));
        registry.ending -= usize::from(seat.is_some_and(|seat| seat.is_ending));
        let bytes = self.memory_bytes;
        registry.count(&self.controller.host, |holding| holding.memory_bytes.lower(bytes));
        let id = self.controller.id;
        if self.is_given_up() {
            // Another controller has its place.
        } else if self.queue == 0 {
            registry.entries.remove(&id);
            registry.end_queues(&self.controller);
            registry.count(&self.controller.host, |holding| holding.controllers -= 1);
            self.controller.end();
        } else if let Some(entry) = registry.entries.get_mut(&id)
            && self.controller.life() == self.life
        {
            // After a reset the identifier may belong to a later queue.
            entry.queues.remove(&self.queue);
        }
    }
}
