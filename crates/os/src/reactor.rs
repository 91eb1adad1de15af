//! The event loop interface of a core: time, buffers, socket events.
//!
//! [`Core`] is the reactor with a kernel behind it. A simulation has one with a seeded network
//! behind it, and runs the same loops in virtual time. Loops take the reactor as a type, so the
//! real one costs no virtual call.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;

use block::{Chain, Nanos, Pool};

use crate::core::{Core, Token};
use crate::listener::Listener;
use crate::sample;
use crate::socket::{Chunk, End, Socket};

/// Reactor of one core. A handle: clones are the same reactor.
pub trait Reactor: Clone {
    /// A connected socket on this core.
    type Socket: ReactorSocket;
    /// A listening socket on this core.
    type Listener: ReactorListener<Stream = Self::Stream>;
    /// An accepted connection that is not on a core yet.
    type Stream: ReactorStream;

    /// The time now.
    fn now(&self) -> Nanos;

    /// The buffers of this core.
    fn pool(&self) -> &Pool;

    /// Waits for events until `until` and appends each socket or listener with events to `ready`,
    /// once. `None` waits for events only; a past time does not wait.
    ///
    /// # Errors
    ///
    /// The core has failed and is unusable.
    fn turn(&self, until: Option<Nanos>, ready: &mut Vec<Token>) -> io::Result<()>;

    /// Unregisters all registered buffers, none of which is in use: the kernel may release them.
    fn forget_arenas(&self) {}

    /// Returns free memory of the process to the system, while nothing is in use.
    fn trim_heap(&self) {}

    /// Takes over an accepted connection and starts to receive on it.
    ///
    /// # Errors
    ///
    /// A system call failed; the connection is closed.
    fn adopt(&self, stream: Self::Stream) -> io::Result<Self::Socket>;
}

/// A connected socket. Dropping it closes the connection at once.
pub trait ReactorSocket {
    /// Received bytes; dropping them returns their buffer to the core.
    type Chunk: Deref<Target = [u8]>;

    /// Token of the listener in the list of [`Reactor::turn`].
    fn token(&self) -> Token;

    /// Next bytes that arrived, in order. They occupy a shared buffer: consume them soon.
    fn receive(&self) -> Option<Self::Chunk>;

    /// Whether the stream has ended, once all received data was taken.
    fn ended(&self) -> Option<End>;

    /// Whether [`send`](Self::send) may be called. If not, an event signals when it may.
    fn can_send(&self) -> bool;

    /// Sends a chain with the next turn, and replaces it with the one sent before.
    fn send(&self, chain: &mut Chain);

    /// Receives at most this many bytes at a time, if that is faster.
    fn receive_at_most(&self, _bytes: usize) {}

    /// Whether the peer has neither closed nor broken the connection, as far as the system knows:
    /// there may be more to receive in any case.
    fn is_there(&self) -> bool;

    /// Makes the drop reset the connection (RST) rather than close it.
    fn reset_at_end(&self) {}

    /// Length of the ring for zero-copy sends of chains like this one, if they are faster.
    fn lap_bytes(&self, chain: &Chain) -> Option<usize>;
}

/// A listening socket. Dropping it closes the port.
pub trait ReactorListener {
    /// The accepted connection.
    type Stream;

    /// Token of the socket in the list of [`Reactor::turn`].
    fn token(&self) -> Token;

    /// Next accepted connection, or the error of a failed accept; after that, none until
    /// [`resume`](Self::resume).
    fn accept(&self) -> Option<io::Result<Self::Stream>>;

    /// Accepts again after an error.
    ///
    /// # Errors
    ///
    /// A system call failed.
    fn resume(&self) -> io::Result<()>;
}

/// An accepted connection.
pub trait ReactorStream {
    /// The local address.
    ///
    /// # Errors
    ///
    /// The connection is closed.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The peer's address.
    ///
    /// # Errors
    ///
    /// The connection is closed.
    fn peer_addr(&self) -> io::Result<SocketAddr>;
}

impl Reactor for Core {
    type Socket = Socket;
    type Listener = Listener;
    type Stream = TcpStream;

    #[inline]
    fn now(&self) -> Nanos {
        Core::now(self)
    }

    #[inline]
    fn pool(&self) -> &Pool {
        Core::pool(self)
    }

    #[inline]
    fn turn(&self, until: Option<Nanos>, ready: &mut Vec<Token>) -> io::Result<()> {
        Core::turn(self, until, ready)
    }

    fn forget_arenas(&self) {
        Core::forget_arenas(self);
    }

    fn trim_heap(&self) {
        sample::trim_heap();
    }

    fn adopt(&self, stream: TcpStream) -> io::Result<Socket> {
        Socket::new(self, stream)
    }
}

impl ReactorSocket for Socket {
    type Chunk = Chunk;

    #[inline]
    fn token(&self) -> Token {
        Socket::token(self)
    }

    #[inline]
    fn receive(&self) -> Option<Chunk> {
        Socket::receive(self)
    }

    #[inline]
    fn ended(&self) -> Option<End> {
        Socket::ended(self)
    }

    #[inline]
    fn can_send(&self) -> bool {
        Socket::can_send(self)
    }

    #[inline]
    fn send(&self, chain: &mut Chain) {
        Socket::send(self, chain);
    }

    #[inline]
    fn receive_at_most(&self, bytes: usize) {
        Socket::receive_at_most(self, bytes);
    }

    fn is_there(&self) -> bool {
        Socket::is_there(self)
    }

    fn reset_at_end(&self) {
        Socket::reset_at_end(self);
    }

    #[inline]
    fn lap_bytes(&self, chain: &Chain) -> Option<usize> {
        Socket::lap_bytes(self, chain)
    }
}

impl ReactorListener for Listener {
    type Stream = TcpStream;

    fn token(&self) -> Token {
        Listener::token(self)
    }

    fn accept(&self) -> Option<io::Result<TcpStream>> {
        Listener::accept(self)
    }

    fn resume(&self) -> io::Result<()> {
        Listener::resume(self)
    }
}

impl ReactorStream for TcpStream {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpStream::local_addr(self)
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        TcpStream::peer_addr(self)
    }
}
