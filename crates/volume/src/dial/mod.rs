//! How to reach a remote volume: the only module of this crate that knows protocols.

mod iscsi;
mod keeper;
mod nbd;
mod nvme;
mod orders;
mod subsystems;

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use block::{Geometry, Nanos};
use os::Clock;
use proto::Initiator;

use self::keeper::{Errand, Keeper, Kept};
use crate::{OpenError, Session};

pub use iscsi::discover_iscsi;
pub(crate) use nvme::NvmeDial;
pub use subsystems::discover_nvme;

/// Time limit of an address.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a target reports of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Learned {
    /// Its geometry.
    pub(crate) geometry: Geometry,
    /// Its product name.
    pub(crate) product: Option<String>,
    /// A flush on one connection covers writes that completed on others.
    pub(crate) flushes_all: bool,
}

/// A protocol and an address in it.
pub(crate) trait Dial: Clone + Send + Sync + 'static {
    /// Our endpoint of a connection.
    type End: Initiator + 'static;

    /// Queries the volume's properties from the target.
    fn learn(&self) -> Result<Learned, OpenError>;

    /// A resource that an endpoint holds while its connection lives, such as a queue id. Dropped
    /// after it.
    type Place: 'static;

    /// A new endpoint. An error for the user if the target allows no more.
    fn initiator(&self, now: Nanos) -> Result<(Self::End, Self::Place), String>;

    /// Why no connection is usable before [`renew`](Self::renew), if so: the association reports
    /// it, not its I/O queues.
    fn stale(&self) -> Option<String> {
        None
    }

    /// Prepares for a new connection after one broke. May take seconds.
    fn renew(&self) -> Result<(), OpenError> {
        Ok(())
    }

    /// Options of its connections.
    fn session(&self) -> &Session;

    /// Host and port.
    fn address(&self) -> &str;

    /// The volume's URI.
    fn uri(&self) -> String;

    /// The protocol's name for people.
    fn transport(&self) -> &'static str;
}

/// Connects to `host:port`, trying each address of the host.
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

/// Connects to `address` and waits for the answer of the endpoint that `begin` makes. `name` tells
/// the user what is asked. The connection lives until its handle is dropped.
fn learn<E: Errand>(
    address: &str,
    name: impl FnOnce() -> String,
    begin: impl FnOnce(Nanos) -> E,
) -> Result<(E::Found, Kept), OpenError> {
    let stream = connect(address)?;
    let keeper = Keeper::get().map_err(|error| connect_error(address, error))?;
    let found = keeper.send(stream, begin(Clock::get().now()));
    found.map_err(|ending| OpenError::Refused { uri: name(), ending })
}

/// Why there is no connection with `address`.
pub(crate) fn connect_error(address: &str, error: io::Error) -> OpenError {
    OpenError::Connect { address: address.to_owned(), error }
}
