//! How a remote volume is reached: the only place here that knows protocols.

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
use crate::OpenError;

pub use iscsi::discover_iscsi;
pub(crate) use nvme::NvmeDial;
pub use subsystems::discover_nvme;

/// How long an address has to answer.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What the other end tells of a volume.
#[derive(Clone, Debug)]
pub(crate) struct Learned {
    /// Its shape.
    pub(crate) geometry: Geometry,
    /// What the target calls it.
    pub(crate) product: Option<String>,
    /// A flush on one connection makes durable what others have written.
    pub(crate) flushes_all: bool,
}

/// A protocol and an address in it.
pub(crate) trait Dial: Clone + Send + Sync + 'static {
    /// Our end of a connection.
    type End: Initiator + 'static;

    /// What the volume is, learned from the other end.
    fn learn(&self) -> Result<Learned, OpenError>;

    /// What an end takes up as long as its connection lives, such as a number. Dropped behind it.
    type Place: 'static;

    /// A fresh end. An error in words for the user if the other end allows no more.
    fn initiator(&self, now: Nanos) -> Result<(Self::End, Self::Place), String>;

    /// Why no connection is of use before [`renew`](Self::renew), if that is so: it is told here,
    /// not on the connections, where they have nothing to carry.
    fn stale(&self) -> Option<String> {
        None
    }

    /// Gets ready for a new connection after one broke. May take seconds.
    fn renew(&self) -> Result<(), OpenError>;

    /// How long a lane tries to come back when its connection breaks; `None`: not at all.
    fn patience(&self) -> Option<Nanos>;

    /// How long a lane waits for the answer to an I/O.
    fn io_timeout(&self) -> Nanos;

    /// Host and port.
    fn address(&self) -> &str;

    /// The volume's name.
    fn uri(&self) -> String;

    /// The protocol's name for people.
    fn transport(&self) -> &'static str;
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

/// Connects to `address` and waits until the end that `begin` makes has learned what it is for.
/// `name` is that of what is asked, for the user. The connection goes on until its hold is dropped.
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
