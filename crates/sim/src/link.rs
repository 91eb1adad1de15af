//! A client's endpoint with its connection.

use block::{Chain, Nanos, Pool};
use proto::{Endpoint, Outbox};

use crate::net::{Net, Side, bytes_of};

/// A protocol endpoint on a connection of the network.
pub(crate) struct Link<E> {
    pub(crate) end: E,
    pub(crate) out: Outbox,
    pub(crate) conn: usize,
    /// Bytes received: the client is being served.
    pub(crate) received_bytes: u64,
}

impl<E: Endpoint> Link<E> {
    pub(crate) fn new(end: E, pool: &Pool, conn: usize) -> Link<E> {
        Link { end, out: Outbox::new(pool.clone()), conn, received_bytes: 0 }
    }

    /// Receives data and does all work that is due. An error ends the connection.
    pub(crate) fn take(&mut self, net: &mut Net) -> Result<(), String> {
        let now = net.now;
        let bytes = net.take(self.conn, Side::Client, usize::MAX);
        self.received_bytes += bytes.len() as u64;
        if !bytes.is_empty() {
            self.end.receive(now, &bytes, &mut self.out).map_err(|error| error.to_string())?;
        }
        if self.end.deadline().is_some_and(|deadline| deadline <= now) {
            self.end.tick(now, &mut self.out).map_err(|error| error.to_string())?;
        }
        match net.ended(self.conn, Side::Client) {
            Some(end) => Err(end.to_string()),
            None => Ok(()),
        }
    }

    /// Sends the endpoint's PDUs, altered by `change`.
    pub(crate) fn flush(&mut self, net: &mut Net, change: impl FnMut(Vec<u8>) -> Vec<u8>) {
        if self.out.is_empty() {
            return;
        }
        let mut chain = Chain::default();
        self.out.exchange(&mut chain);
        let pieces = bytes_of(&chain).into_iter().map(change).collect();
        chain.recycle(self.out.pool());
        net.send(self.conn, Side::Client, pieces);
    }

    /// Time at which the link has work to do without an event.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        self.end.deadline()
    }
}
