//! How a remote volume is reached: the only place here that knows protocols.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use block::{Chain, Geometry, Nanos, Piece, Pool};
use os::Clock;
use proto::iscsi::{Discovery, InitiatorConfig, IscsiInitiator};
use proto::{Endpoint, Initiator, Outbox, Phase};

use crate::OpenError;
use crate::uri::{IscsiUri, Uri};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A blocking read wakes this often to look at its end's deadline.
const PATIENCE: Duration = Duration::from_millis(200);
/// Our own name, for targets that log or allow initiators by name.
const INITIATOR_NAME: &str = "iqn.2026-11.io.drumfire:initiator";

/// A protocol and an address in it.
pub(crate) trait Dial: Clone + Send + Sync + 'static {
    /// Our end of a connection.
    type End: Initiator + 'static;

    /// A fresh end.
    fn initiator(&self, now: Nanos) -> Self::End;

    /// Host and port.
    fn address(&self) -> &str;

    /// The volume's name.
    fn uri(&self) -> String;

    /// The protocol's name for people.
    fn transport(&self) -> &'static str;
}

impl Dial for IscsiUri {
    type End = IscsiInitiator;

    fn initiator(&self, now: Nanos) -> IscsiInitiator {
        let config = InitiatorConfig {
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            max_outstanding: 1024,
            ..InitiatorConfig::new(INITIATOR_NAME, &self.target, self.lun)
        };
        IscsiInitiator::new(config, now)
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn uri(&self) -> String {
        Uri::Iscsi(self.clone()).to_string()
    }

    fn transport(&self) -> &'static str {
        "iSCSI"
    }
}

/// Connects to `host:port`, trying each of the host's addresses.
pub(crate) fn connect(address: &str) -> Result<TcpStream, OpenError> {
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    let found = address.to_socket_addrs().map_err(|error| connect_error(address, error))?;
    for socket_address in found {
        match os::connect(socket_address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(connect_error(address, last))
}

pub(crate) fn connect_error(address: &str, error: io::Error) -> OpenError {
    OpenError::Connect { address: address.to_owned(), error }
}

/// Opens a connection, asks for the shape of the volume, and closes it in order.
pub(crate) fn learn_geometry<D: Dial>(dial: &D) -> Result<Geometry, OpenError> {
    let stream = connect(dial.address())?;
    let clock = Clock::get();
    let mut end = dial.initiator(clock.now());
    let mut wire = Wire::new(stream).map_err(|error| connect_error(dial.address(), error))?;
    let refused = |ending: String| OpenError::Refused { uri: dial.uri(), ending };
    let mut geometry = None;
    loop {
        match end.phase() {
            Phase::Ready(shape) => {
                geometry = Some(shape);
                end.close(clock.now(), &mut wire.out);
            }
            Phase::Closed => break,
            Phase::Opening | Phase::Closing => {}
        }
        if let Err(why) = wire.step(&mut end, clock) {
            // Once the shape is known, an end without farewell does no harm.
            if geometry.is_none() {
                return Err(refused(why));
            }
            break;
        }
    }
    geometry.ok_or_else(|| refused("closed by the other end".to_owned()))
}

/// Asks the portal at `address` which targets it has: their names with their addresses.
pub fn discover_iscsi(address: &str) -> Result<Vec<(String, Vec<String>)>, OpenError> {
    let clock = Clock::get();
    let mut wire = Wire::new(connect(address)?).map_err(|error| connect_error(address, error))?;
    let mut end = Discovery::new(INITIATOR_NAME, clock.now());
    loop {
        let result = wire.step(&mut end, clock);
        if let Some(targets) = end.targets() {
            return Ok(targets);
        }
        result.map_err(|ending| OpenError::Refused { uri: address.to_owned(), ending })?;
    }
}

/// A blocking connection, for the few questions before a run.
struct Wire {
    stream: TcpStream,
    out: Outbox,
    bytes: Vec<u8>,
}

impl Wire {
    fn new(stream: TcpStream) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Wire { stream, out: Outbox::new(Pool::new(8, 8)), bytes: vec![0; 64 << 10] })
    }

    /// Does what is due, sends what is to be sent and takes what has come.
    fn step(&mut self, end: &mut dyn Endpoint, clock: Clock) -> Result<(), String> {
        let now = clock.now();
        if end.deadline().is_some_and(|deadline| deadline <= now) {
            end.tick(now, &mut self.out).map_err(|ending| ending.to_string())?;
        }
        if !self.out.is_empty() {
            return self.send().map_err(|error| error.to_string());
        }
        let len = match self.stream.read(&mut self.bytes) {
            Ok(0) => return Err("the other end closed the connection".to_owned()),
            Ok(len) => len,
            Err(error) if is_pause(&error) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let result = end.receive(clock.now(), &self.bytes[..len], &mut self.out);
        result.map_err(|ending| ending.to_string())
    }

    fn send(&mut self) -> io::Result<()> {
        let mut chain = Chain::default();
        self.out.exchange(&mut chain);
        for piece in chain.pieces() {
            match piece {
                Piece::Owned { buf, len } => self.stream.write_all(&buf[..*len])?,
                Piece::Shared { .. } => unreachable!("an initiator that only asks sends no data"),
            }
        }
        chain.recycle(self.out.pool());
        Ok(())
    }
}

fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}
