//! A blocking connection, for the few words that are not I/O.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use block::{Chain, Pool};
use os::Clock;
use proto::{Endpoint, Outbox};

/// A blocking read wakes this often to look at its end's deadline.
const PATIENCE: Duration = Duration::from_millis(200);

/// A connection and what waits to be sent on it.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    pub(super) out: Outbox,
    bytes: Vec<u8>,
    /// The other end has said something.
    heard: bool,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Wire {
            stream,
            out: Outbox::new(Pool::new(8, 8)),
            bytes: vec![0; 64 << 10],
            heard: false,
        })
    }

    /// Does what is due, sends what is to be sent and takes what has come.
    pub(super) fn step(&mut self, end: &mut dyn Endpoint, clock: Clock) -> Result<(), String> {
        let now = clock.now();
        if end.deadline().is_some_and(|deadline| deadline <= now) {
            end.tick(now, &mut self.out).map_err(|ending| ending.to_string())?;
        }
        if !self.out.is_empty() {
            return self.send().map_err(|error| error.to_string());
        }
        let len = match self.stream.read(&mut self.bytes) {
            Ok(0) => {
                let doubt =
                    if self.heard { "" } else { " without a word: is it another protocol's port?" };
                return Err(format!("the other end closed the connection{doubt}"));
            }
            Ok(len) => len,
            Err(error) if is_pause(&error) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        self.heard = true;
        let result = end.receive(clock.now(), &self.bytes[..len], &mut self.out);
        result.map_err(|ending| ending.to_string())
    }

    pub(super) fn send(&mut self) -> io::Result<()> {
        let mut chain = Chain::default();
        self.out.exchange(&mut chain);
        for piece in chain.pieces() {
            self.stream.write_all(&piece.to_vec())?;
        }
        chain.recycle(self.out.pool());
        Ok(())
    }
}

fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
