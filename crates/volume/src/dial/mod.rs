//! Connections to remote volumes: the only module of this crate that knows protocols.

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

use self::keeper::{Errand, Failed, Keeper, Kept};
use crate::{OpenError, Session};

pub use iscsi::{IscsiDial, discover_iscsi};
pub use nbd::discover_nbd;
pub use nvme::{Hold, NvmeDial};
pub use subsystems::discover_nvme;

/// Time limit of an address.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of redirections of a login: targets with a group address do it once.
pub(crate) const REDIRECTS_MAX: u8 = 4;

/// Properties that a target reports for a volume.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Geometry of the volume.
    pub geometry: Geometry,
    /// Product name of the target.
    pub product: Option<String>,
    /// Backing store of the volume, if a server of this project reports it.
    pub backing: Option<Backing>,
    /// A flush on one connection covers writes that completed on others.
    pub flushes_all: bool,
    /// Name of the disk.
    pub identity: Option<String>,
    /// Instance of a running server of this project.
    pub instance: Option<u64>,
    /// Capacity in bytes, if a partial block at the end is left out.
    pub odd_bytes: Option<u64>,
}

/// Name by which a target knows a connection, held while the connection lives. Once this is
/// dropped, another connection may use the name.
pub trait Place: 'static {
    /// Name of the connection; 0 if connections have none.
    fn name(&self) -> u64 {
        0
    }

    /// Whether the target's statements about earlier connections apply to the one with this name.
    fn concerns(&self, name: u64) -> bool {
        name == self.name()
    }
}

impl Place for () {}

/// A protocol and an address.
pub trait Dial: Clone + Send + Sync + 'static {
    /// Our endpoint of a connection.
    type End: Initiator + 'static;

    /// Queries the volume's properties from the target.
    fn learn(&self) -> Result<Learned, OpenError>;

    /// Queries the target for holes in ranges of whole blocks, on a separate connection. `None` if
    /// the protocol or the target has no answer; the answer may cover only a part of the ranges.
    ///
    /// # Errors
    ///
    /// There is no connection, or the answer breaks the rules of the protocol.
    fn allocation(&self, _ranges: &[(u64, u64)]) -> Result<Option<Allocation>, OpenError> {
        Ok(None)
    }

    /// Name by which the target knows the connection, such as a queue ID.
    type Place: Place;

    /// Creates an endpoint. `wanted` is the name of a lost connection with changes in doubt: the
    /// new connection replaces it, if possible, so that the target ends those changes. Fails with
    /// an error for the user if the target allows no more connections.
    fn initiator(
        &self,
        now: Nanos,
        wanted: Option<u64>,
    ) -> Result<(Self::End, Self::Place), String>;

    /// Reason why no connection is usable before [`renew`](Self::renew), if so: the association
    /// reports it, not its I/O queues.
    fn stale(&self) -> Option<String> {
        None
    }

    /// Prepares a new connection after a failed one. May take seconds.
    fn renew(&self) -> Result<(), OpenError> {
        Ok(())
    }

    /// Volume at another address, to which its target has sent a login; `None` if the
    /// protocol has nothing of the kind.
    fn moved_to(&self, _address: &str) -> Option<Self> {
        None
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

/// Connects to `address` and waits for the answer of the endpoint that `begin` makes. `name`
/// describes the request for the user. The connection lives until its handle is dropped.
fn learn<E: Errand>(
    address: &str,
    name: impl FnOnce() -> String,
    begin: impl FnOnce(Nanos) -> E,
) -> Result<(E::Found, Kept), OpenError> {
    let stream = connect(address)?;
    let keeper = Keeper::get().map_err(|error| connect_error(address, error))?;
    let found = keeper.send(stream, begin(Clock::get().now()));
    found.map_err(|Failed { why: ending, moved }| match moved {
        Some(address) => OpenError::Moved { uri: name(), address, ending },
        None => OpenError::Refused { uri: name(), ending },
    })
}

/// Error for a failed connection to `address`.
pub(crate) fn connect_error(address: &str, error: io::Error) -> OpenError {
    OpenError::Connect { address: address.to_owned(), error }
}
