//! The client's reactor: connects to hosts of the simulation, and moves bytes at once.

use std::cell::RefMut;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use block::{Chain, Nanos, Pool};
use os::{End, Reactor, ReactorListener, ReactorSocket, ReactorStream, Token};
use volume::remote::{Dial, Wire};

use super::associations::is_under_way;
use super::hosts::Doors;
use crate::core::{Machine, Shared};
use crate::net::{Side, bytes_of};

/// Bytes taken at once: less than a write, so that reactions fall between parts.
const CHUNK_BYTES: usize = 3 << 10;
/// Time after which an attempt is answered, and after which an unanswered one fails.
pub(super) const ANSWERED: Nanos = Nanos(40_000);
pub(super) const UNANSWERED: Nanos = Nanos::from_secs(5);
/// Poll interval for a new association, and the time limit.
const LOOK: Nanos = Nanos::from_millis(5);
const FINDING: Nanos = Nanos::from_secs(20);

/// A client's core.
#[derive(Clone)]
pub(crate) struct ClientCore {
    machine: Shared,
    doors: Doors,
    pool: Pool,
}

impl ClientCore {
    pub(crate) fn new(machine: &Shared, doors: &Doors, pool: Pool) -> ClientCore {
        ClientCore { machine: Rc::clone(machine), doors: doors.clone(), pool }
    }

    fn state(&self) -> RefMut<'_, Machine> {
        self.machine.borrow_mut()
    }
}

impl Reactor for ClientCore {
    type Socket = ClientSocket;
    type Listener = NoListener;
    type Stream = ClientStream;

    fn now(&self) -> Nanos {
        self.state().net.now
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn turn(&self, _: Option<Nanos>, _: &mut Vec<Token>) -> io::Result<()> {
        Ok(())
    }

    fn adopt(&self, stream: ClientStream) -> io::Result<ClientSocket> {
        Ok(ClientSocket { core: self.clone(), conn: stream.0 })
    }
}

/// An attempt to connect to a host.
pub(crate) struct Attempt {
    at: Nanos,
    until: Nanos,
}

impl Wire for ClientCore {
    type Attempt = Attempt;

    fn attempt<D: Dial>(&self, now: Nanos, dial: &D) -> Attempt {
        let silent = self.doors.is_silent(dial.address());
        Attempt { at: now + if silent { UNANSWERED } else { ANSWERED }, until: now + FINDING }
    }

    fn look<D: Dial>(
        &self,
        now: Nanos,
        attempt: &mut Attempt,
        dial: &D,
    ) -> Option<Result<ClientStream, String>> {
        if now < attempt.at {
            return None;
        }
        if dial.stale().is_some()
            && let Err(why) = dial.renew()
        {
            if is_under_way(&why) && now < attempt.until {
                attempt.at = now + LOOK;
                return None;
            }
            return Some(Err(why.to_string()));
        }
        let conn = self.doors.knock(&self.machine, dial.address());
        Some(conn.map(ClientStream).ok_or("connection refused".to_owned()))
    }

    fn wake(attempt: &Attempt) -> Nanos {
        attempt.at
    }
}

/// A client's end of a connection.
pub(crate) struct ClientSocket {
    core: ClientCore,
    conn: usize,
}

impl ReactorSocket for ClientSocket {
    type Chunk = Vec<u8>;

    fn token(&self) -> Token {
        Token(self.conn as u32)
    }

    fn receive(&self) -> Option<Vec<u8>> {
        let chunk = self.core.state().net.take(self.conn, Side::Client, CHUNK_BYTES);
        (!chunk.is_empty()).then_some(chunk)
    }

    fn ended(&self) -> Option<End> {
        self.core.state().net.ended(self.conn, Side::Client)
    }

    fn can_send(&self) -> bool {
        self.core.state().net.all_sent(self.conn, Side::Client)
    }

    fn send(&self, chain: &mut Chain) {
        let pieces = bytes_of(chain);
        chain.recycle_sent(&self.core.pool);
        self.core.state().net.send(self.conn, Side::Client, pieces);
    }

    fn is_there(&self) -> bool {
        !self.core.state().net.is_ending(self.conn, Side::Client)
    }

    fn lap_bytes(&self, _: &Chain) -> Option<usize> {
        None
    }
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        self.core.state().net.close(self.conn, Side::Client);
    }
}

/// A connection that no lane has yet. A dropped one stays open: nobody notices.
pub(crate) struct ClientStream(usize);

impl ReactorStream for ClientStream {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Clients do not listen.
pub(crate) struct NoListener(Infallible);

impl ReactorListener for NoListener {
    type Stream = ClientStream;

    fn token(&self) -> Token {
        match self.0 {}
    }

    fn accept(&self) -> Option<io::Result<ClientStream>> {
        match self.0 {}
    }

    fn resume(&self) -> io::Result<()> {
        match self.0 {}
    }
}
