//! A listening TCP socket on a core.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use io_uring::opcode;
use io_uring::types::Fd;
use socket2::{Domain, Type};

use crate::core::{Core, CoreState, Kind, Slot, Token};
use crate::socket::avoid_pacing;

/// Backlog of connections to accept.
const BACKLOG: i32 = 1024;

/// A listening socket. Dropping it closes the port.
pub struct Listener {
    core: Core,
    index: u32,
    address: SocketAddr,
}

/// Listens on `address` with one socket for each of `cpus`, all on the same port.
///
/// With CPUs, connections whose packets arrive on a CPU go to its socket, so that both ends of a
/// local connection, or the interrupt and the connection, share a core.
///
/// # Errors
///
/// `AddrInUse` if anything listens there already, even a server of the same kind: the first socket
/// is bound alone, and only then shares its port.
pub fn listen(address: SocketAddr, cpus: &[Option<usize>]) -> io::Result<Vec<TcpListener>> {
    let mut listeners: Vec<TcpListener> = Vec::with_capacity(cpus.len());
    let mut bound = address;
    for cpu in cpus {
        let socket = socket2::Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(!listeners.is_empty())?;
        avoid_pacing(&socket, address);
        if let Some(cpu) = cpu {
            socket.set_cpu_affinity(*cpu)?;
        }
        socket.bind(&bound.into())?;
        socket.listen(BACKLOG)?;
        socket.set_reuse_port(cpus.len() > 1)?;
        let listener = TcpListener::from(socket);
        bound = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

impl Listener {
    /// Takes over a listening socket and starts to accept.
    pub fn new(core: &Core, listener: TcpListener) -> io::Result<Listener> {
        let address = listener.local_addr()?;
        let mut state = core.state.borrow_mut();
        let fd = OwnedFd::from(listener);
        let listener = ListenerState { fd, accepted: Vec::new(), accepting: false, dropped: false };
        let index = state.insert(Slot::Listener(Box::new(listener)));
        state.arm_accept(index)?;
        drop(state);
        Ok(Listener { core: core.clone(), index, address })
    }

    /// Token of the listener in the list of [`Core::turn`].
    pub fn token(&self) -> Token {
        Token(self.index)
    }

    /// Address of the listener, with the assigned port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts again after an error. When out of descriptors, accepting at once would only spin.
    pub fn resume(&self) -> io::Result<()> {
        let mut state = self.core.state.borrow_mut();
        if state.listener(self.index).accepting { Ok(()) } else { state.arm_accept(self.index) }
    }

    /// Returns the next accepted connection, or the error of a failed accept; after that, none
    /// until [`resume`](Self::resume).
    pub fn accept(&self) -> Option<io::Result<TcpStream>> {
        let mut state = self.core.state.borrow_mut();
        state.listener(self.index).accepted.pop()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.core.state.borrow_mut().close_listener(self.index);
    }
}

/// The core's state of a listener.
pub(crate) struct ListenerState {
    fd: OwnedFd,
    accepted: Vec<io::Result<TcpStream>>,
    accepting: bool,
    dropped: bool,
}

impl CoreState {
    fn listener(&mut self, index: u32) -> &mut ListenerState {
        match &mut self.slots[index as usize] {
            Slot::Listener(listener) => listener,
            _ => unreachable!("a listener's slot holds a listener until it is dropped"),
        }
    }

    fn arm_accept(&mut self, index: u32) -> io::Result<()> {
        let fd = Fd(self.listener(index).fd.as_raw_fd());
        let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
        let entry = opcode::Accept::new(fd, address, length).flags(libc::SOCK_CLOEXEC).build();
        self.listener(index).accepting = true;
        // SAFETY: the entry points to nothing; the descriptor lives until the slot is removed.
        unsafe { self.push(entry, Kind::Accept, index, 0) }
    }

    pub(crate) fn accepted(&mut self, index: u32, result: i32) {
        let listener = self.listener(index);
        listener.accepting = false;
        let accepted = if result >= 0 {
            // SAFETY: the kernel just made this descriptor for us.
            Ok(TcpStream::from(unsafe { OwnedFd::from_raw_fd(result) }))
        } else {
            Err(io::Error::from_raw_os_error(-result))
        };
        if listener.dropped {
            return self.remove(index);
        }
        let good = accepted.is_ok();
        listener.accepted.push(accepted);
        if good && let Err(error) = self.arm_accept(index) {
            self.listener(index).accepted.push(Err(error));
        }
        self.mark_ready(index);
    }

    pub(crate) fn close_listener(&mut self, index: u32) {
        let listener = self.listener(index);
        listener.dropped = true;
        // SAFETY: a system call on a descriptor that we own; it ends the accept.
        unsafe { libc::shutdown(listener.fd.as_raw_fd(), libc::SHUT_RDWR) };
        if !listener.accepting {
            self.remove(index);
        }
    }
}
