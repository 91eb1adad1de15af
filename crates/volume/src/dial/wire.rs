//! A blocking connection, for the few words that are not I/O.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use block::{Chain, Nanos, Pool};
use os::Clock;
use proto::{Endpoint, Initiator, Outbox, Phase};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A wait ends this often to look at its end's deadline.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// How long an orderly end may take.
const CLOSING: Nanos = Nanos::from_secs(1);

/// A connection and what waits to be sent on it.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    pub(super) out: Outbox,
    bytes: Vec<u8>,
    /// The other end has said something.
    heard: bool,
    /// Ends a wait when its other half is gone.
    waker: Option<UnixStream>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, waker: Option<UnixStream>) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        Ok(Wire {
            stream,
            out: Outbox::new(Pool::new(8, 8)),
            bytes: vec![0; 64 << 10],
            heard: false,
            waker,
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
        if !self.wait().map_err(|error| error.to_string())? {
            return Ok(());
        }
        let len = match self.stream.read(&mut self.bytes) {
            Ok(0) => {
                let doubt =
                    if self.heard { "" } else { " without a word: is it another protocol's port?" };
                return Err(format!("the other end closed the connection{doubt}"));
            }
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        self.heard = true;
        let result = end.receive(clock.now(), &self.bytes[..len], &mut self.out);
        result.map_err(|ending| ending.to_string())
    }

    /// Waits until there is something to read; false if it is time to look around first.
    fn wait(&self) -> io::Result<bool> {
        let mut sources = vec![PollFd::new(&self.stream, PollFlags::IN)];
        sources.extend(self.waker.as_ref().map(|waker| PollFd::new(waker, PollFlags::IN)));
        match poll(&mut sources, Some(&PATIENCE)) {
            Ok(_) => Ok(!sources[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends in order: the other end's last answers are taken, for they would find a closed socket
    /// otherwise, and the connection would be reset under its feet.
    pub(super) fn close(&mut self, end: &mut dyn Initiator, clock: Clock) {
        self.waker = None;
        let give_up = clock.now() + CLOSING;
        end.close(clock.now(), &mut self.out);
        while end.phase() != Phase::Closed && clock.now() < give_up {
            if self.step(end, clock).is_err() {
                // It is gone already, which is an end too.
                return;
            }
        }
    }

    fn send(&mut self) -> io::Result<()> {
        let mut chain = Chain::default();
        self.out.exchange(&mut chain);
        for piece in chain.pieces() {
            self.stream.write_all(&piece.to_vec())?;
        }
        chain.recycle(self.out.pool());
        Ok(())
    }
}
