//! Non-blocking connect.

use std::io;
use std::net::{SocketAddr, TcpStream};

use socket2::{Domain, Protocol, Socket, Type};

use crate::socket::avoid_pacing;

/// A pending connection.
#[derive(Debug)]
pub struct Connecting {
    /// `None` once the attempt has ended.
    socket: Option<Socket>,
}

impl Connecting {
    /// Starts to connect to `address` without blocking.
    ///
    /// # Errors
    ///
    /// No socket can be created, or there is no route to the address.
    pub fn begin(address: SocketAddr) -> io::Result<Connecting> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        avoid_pacing(&socket, address);
        socket.set_nonblocking(true)?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        Ok(Connecting { socket: Some(socket) })
    }

    /// State of the connection: `None` while pending, then, once, the stream or the error.
    pub fn look(&mut self) -> Option<io::Result<TcpStream>> {
        let socket = self.socket.as_ref()?;
        if socket.peer_addr().is_err() {
            // Not connected: refused, or pending.
            let error = socket.take_error().unwrap_or_else(Some)?;
            self.socket = None;
            return Some(Err(error));
        }
        let socket = self.socket.take()?;
        // Sends and receives block in the ring, which must not see this flag.
        Some(socket.set_nonblocking(false).map(|()| socket.into()))
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::net::TcpListener;
    use std::time::Duration;

    /// The result, after some polls.
    fn outcome(address: SocketAddr) -> io::Result<TcpStream> {
        let mut connecting = Connecting::begin(address)?;
        for _ in 0..1000 {
            if let Some(outcome) = connecting.look() {
                assert!(connecting.look().is_none(), "told once");
                return outcome;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    #[test]
    fn a_listener_is_found_and_a_closed_port_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = outcome(address).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        drop(listener);
        assert_eq!(outcome(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    /// A listener with a full backlog drops SYNs, as a firewall does.
    #[test]
    fn who_does_not_answer_is_not_waited_for() {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        socket.bind(&any.into()).unwrap();
        socket.listen(0).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        // One fits in the backlog, and on some kernels one more.
        let mut all: Vec<_> = (0..4).map(|_| Connecting::begin(address).unwrap()).collect();
        std::thread::sleep(Duration::from_millis(20));
        let looks: Vec<_> = all.iter_mut().map(|one| one.look().is_some()).collect();
        assert!(looks.iter().any(|answered| !answered), "{looks:?}");
    }
}
