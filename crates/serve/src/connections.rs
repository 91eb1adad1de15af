//! The connections of a core: a slot each, found by the token of its socket.

use std::collections::VecDeque;

use os::{ReactorSocket, Token};

use crate::connection::Connection;

/// The connections of a core.
pub(crate) struct Connections<S> {
    slots: Vec<Option<Box<Connection<S>>>>,
    free: Vec<usize>,
    /// Slot of the connection by socket token.
    owners: Vec<Option<usize>>,
    /// Slots and numbers of connections not logged in when last checked, the oldest first.
    half_open: VecDeque<(usize, u32)>,
}

impl<S: ReactorSocket> Connections<S> {
    pub(crate) fn new() -> Connections<S> {
        let (slots, free, owners) = (Vec::new(), Vec::new(), Vec::new());
        Connections { slots, free, owners, half_open: VecDeque::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// One more than the highest slot.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub(crate) fn get(&mut self, slot: usize) -> Option<&mut Connection<S>> {
        self.slots[slot].as_deref_mut()
    }

    /// The slot of the connection with this socket.
    #[inline]
    pub(crate) fn of(&self, token: Token) -> Option<usize> {
        *self.owners.get(token.0 as usize)?
    }

    /// Adds a connection that has not logged in yet.
    pub(crate) fn insert(&mut self, connection: Connection<S>) -> usize {
        let token = connection.socket.token().0 as usize;
        let number = connection.number;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(Box::new(connection));
        if self.owners.len() <= token {
            self.owners.resize(token + 1, None);
        }
        self.owners[token] = Some(slot);
        self.half_open.push_back((slot, number));
        slot
    }

    /// Removes a connection.
    pub(crate) fn remove(&mut self, slot: usize) -> Option<Box<Connection<S>>> {
        let connection = self.slots[slot].take()?;
        self.owners[connection.socket.token().0 as usize] = None;
        self.free.push(slot);
        Some(connection)
    }

    /// Connection that has waited longest for a login, if `limit` of them wait.
    pub(crate) fn oldest_half_open(&mut self, limit: usize) -> Option<usize> {
        if self.half_open.len() < limit {
            return None;
        }
        let slots = &self.slots;
        self.half_open.retain(|(slot, number)| {
            let connection = slots[*slot].as_deref();
            connection.is_some_and(|it| it.number == *number && it.end.half_open())
        });
        let is_full = self.half_open.len() >= limit;
        self.half_open.front().filter(|_| is_full).map(|(slot, _)| *slot)
    }
}
