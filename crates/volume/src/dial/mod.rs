//! How to reach a remote volume: the only module of this crate that knows protocols.

mod allocation;
mod iscsi;
mod keeper;
mod nbd;
mod nvme;
mod orders;
mod subsystems;

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use block::{Allocation, Backing, Geometry, Nanos};
use os::Clock;
use proto::Initiator;

use self::keeper::{Errand, Keeper, Kept};
use crate::{OpenError, Session};

pub use iscsi::{IscsiDial, discover_iscsi};
pub use nvme::{Hold, NvmeDial};
pub use subsystems::discover_nvme;

/// Time limit of an address.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a target reports of a volume.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Its geometry.
    pub geometry: Geometry,
    /// Its product name.
    pub product: Option<String>,
    /// Backing store of the volume, where a server of this project says so.
    pub backing: Option<Backing>,
    /// A flush on one connection covers writes that completed on others.
    pub flushes_all: bool,
    /// Name of the disk.
    pub identity: Option<String>,
    /// The running server, of one of this project.
    pub instance: Option<u64>,
    /// Length in bytes, if the rest beyond the blocks is left out.
    pub odd_bytes: Option<u64>,
}

/// The name by which a target knows a connection, held while the connection lives. Once this is
/// dropped, the name is free for another connection.
pub trait Place: 'static {
    /// The name; 0 where connections have none.
    fn name(&self) -> u64 {
        0
    }

    /// Whether what the target says of earlier connections is said of the one of this name.
    fn concerns(&self, name: u64) -> bool {
        name == self.name()
    }
}

impl Place for () {}

/// A protocol and an address in it.
pub trait Dial: Clone + Send + Sync + 'static {
    /// Our endpoint of a connection.
    type End: Initiator + 'static;

    /// Queries the volume's properties from the target.
    fn learn(&self) -> Result<Learned, OpenError>;

    /// Asks the target which parts of ranges of whole blocks are holes, on a connection of its own.
    /// `None` if the protocol or the target has no answer; the answer may be of a part of them.
    ///
    /// # Errors
    ///
    /// There is no connection, or the answer breaks the rules of the protocol.
    fn allocation(&self, _ranges: &[(u64, u64)]) -> Result<Option<Allocation>, OpenError> {
        Ok(None)
    }

    /// The name by which the target knows a connection, such as a queue id.
    type Place: Place;

    /// A new endpoint. `wanted` is the name of a lost connection with changes in doubt: the new one
    /// takes its place, if that is possible, so that the target ends them. An error for the user if
    /// the target allows no more.
    fn initiator(
        &self,
        now: Nanos,
        wanted: Option<u64>,
    ) -> Result<(Self::End, Self::Place), String>;

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
