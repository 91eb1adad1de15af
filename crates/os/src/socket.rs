//! A connected TCP socket on a core.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use block::Chain;
use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode, squeue};
use socket2::{Domain, Protocol, Type};

use crate::core::{Core, CoreState, Kind, Slot, Token};
use crate::direct::{Arrival, Mode};
use crate::receive::{BUFFER_BYTES, GROUP};
use crate::reference;
use crate::refill::Arming;

/// Maximum number of iovecs of one send: the kernel's limit.
const PIECES_PER_SEND: usize = 1024;

/// A connected TCP socket. Dropping it closes the connection at once.
pub struct Socket {
    pub(crate) core: Core,
    pub(crate) index: u32,
}

/// End of the incoming stream of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer closed the connection (FIN).
    Closed,
    /// The connection broke, with this errno.
    Broken(i32),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Closed => write!(f, "the peer closed the connection"),
            End::Broken(errno) => {
                write!(f, "the connection failed: {}", io::Error::from_raw_os_error(*errno))
            }
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Broken(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl Socket {
    /// Takes over a connected stream and starts to receive on it.
    pub fn new(core: &Core, stream: TcpStream) -> io::Result<Socket> {
        stream.set_nodelay(true)?;
        let mut state = core.state.borrow_mut();
        let fd = OwnedFd::from(stream);
        let raw = fd.as_raw_fd();
        let index = state.insert(Slot::Socket(Box::new(SocketState::new(fd))));
        let registered = state.ring().register(index, raw);
        state.socket(index).registered = registered;
        state.live_sockets += 1;
        state.begin_receiving(index);
        drop(state);
        Ok(Socket { core: core.clone(), index })
    }

    /// Token of the socket in the list of [`Core::turn`].
    pub fn token(&self) -> Token {
        Token(self.index)
    }

    /// Next bytes that arrived, in order. They occupy a shared buffer: consume them soon.
    pub fn receive(&self) -> Option<Chunk> {
        let mut state = self.core.state.borrow_mut();
        let socket = state.socket(self.index);
        let core = self.core.clone();
        if let Some(arrival) = socket.arrived.take() {
            return Some(Chunk { core, bytes: Bytes::Own(Some(arrival)) });
        }
        let (id, len) = socket.chunks.pop_front()?;
        let address = state.receive.address(id);
        Some(Chunk { core, bytes: Bytes::Shared { address, id, len } })
    }

    /// Whether the peer has neither closed nor broken the connection, as far as the kernel knows:
    /// there may be more to receive in any case.
    pub fn is_there(&self) -> bool {
        let mut state = self.core.state.borrow_mut();
        let socket = state.socket(self.index);
        let mut asked =
            libc::pollfd { fd: socket.fd.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: the one entry lives through the call, which does not wait; the descriptor is
        // ours.
        let count = unsafe { libc::poll(&mut asked, 1, 0) };
        socket.ended.is_none() && count <= 0
    }

    /// Makes the drop reset the connection (RST) rather than close it.
    pub fn reset_at_end(&self) {
        self.core.state.borrow_mut().socket(self.index).resets = true;
    }

    /// Limits one system call to this many bytes, at least one: while the owner handles one part of
    /// a response, the peer handles the requests that the last part triggered. Receives of the ring
    /// come in parts anyway.
    pub fn receive_at_most(&self, bytes: usize) {
        self.core.state.borrow_mut().socket(self.index).receive_max = bytes.max(1);
    }

    /// Whether the stream has ended, once all received data was taken.
    pub fn ended(&self) -> Option<End> {
        let mut state = self.core.state.borrow_mut();
        let socket = state.socket(self.index);
        socket.ended.filter(|_| socket.chunks.is_empty() && socket.arrived.is_none())
    }

    /// Whether [`send`](Self::send) may be called. If not, an event signals when it may.
    pub fn can_send(&self) -> bool {
        let mut state = self.core.state.borrow_mut();
        let socket = state.socket(self.index);
        socket.wants_send = socket.sending;
        !socket.sending
    }

    /// Sends a chain with the next turn, and replaces it with the one sent before. Buffers of the
    /// core's pool return there once sent: otherwise a thousand idle connections would hold a large
    /// one each. Only if [`can_send`](Self::can_send): two sends of one socket could be reordered.
    pub fn send(&self, chain: &mut Chain) {
        let mut state = self.core.state.borrow_mut();
        let socket = state.socket(self.index);
        assert!(!socket.sending, "one send at a time");
        std::mem::swap(&mut socket.chain, chain);
        socket.sent_bytes = 0;
        if socket.chain.is_empty() {
            return;
        }
        let direct = socket.mode == Mode::Direct;
        let all_sent = match (reference::is_worth(&socket.chain), direct) {
            (true, _) => state.send_by_reference(self.index),
            (false, true) => state.send_direct(self.index),
            (false, false) => false,
        };
        if all_sent {
            self.core.yield_to_peer(&mut state);
            state.recycle_sent(self.index);
        } else {
            // A core woken by an event sends a response, and expects no data.
            if !state.patience.was_called && state.patience.has_rested(self.core.now()) {
                state.delay_acknowledgement(self.index);
            }
            state.push_send(self.index);
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.core.state.borrow_mut().close_socket(self.index);
    }
}

/// Connects to `address` with this timeout.
pub fn connect(address: SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let domain = Domain::for_address(address);
    let socket = socket2::Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    avoid_pacing(&socket, address);
    socket.connect_timeout(&address.into(), timeout)?;
    Ok(socket.into())
}

/// Avoids congestion control with pacing on connections within this host. Pacing timers cost 20 %
/// of the rate there, without any congestion. To be called before the connection: once started,
/// pacing stays on with any algorithm.
pub(crate) fn avoid_pacing(socket: &socket2::Socket, address: SocketAddr) {
    if address.ip().is_loopback() {
        // Without cubic, the system's default stays.
        let _ = socket.set_tcp_congestion(b"cubic");
    }
}

/// Bytes received by a socket. Dropping it returns the buffer to the core.
pub struct Chunk {
    core: Core,
    bytes: Bytes,
}

enum Bytes {
    /// In a buffer shared by all sockets of the core.
    Shared { address: *const u8, id: u16, len: u32 },
    /// A buffer of this chunk alone; present until the drop.
    Own(Option<Arrival>),
}

impl Deref for Chunk {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.bytes {
            // SAFETY: the kernel filled `len` bytes of this buffer and does not touch it again
            // until the drop returns it; the buffer lives as long as the core that we hold.
            Bytes::Shared { address, len, .. } => unsafe {
                std::slice::from_raw_parts(*address, *len as usize)
            },
            Bytes::Own(arrival) => arrival.as_ref().map_or(&[], |a| &a.buf[..a.len]),
        }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let mut state = self.core.state.borrow_mut();
        match &mut self.bytes {
            Bytes::Shared { id, .. } => state.receive.give(*id),
            Bytes::Own(arrival) => {
                state.spare = arrival.take().map(|arrival| arrival.buf);
            }
        }
    }
}

/// The core's state of a socket.
pub(crate) struct SocketState {
    pub(crate) fd: OwnedFd,
    registered: bool,
    pub(crate) mode: Mode,
    /// Bytes received by a system call, not yet taken by the owner.
    pub(crate) arrived: Option<Arrival>,
    /// A poll for data is armed in the ring.
    pub(crate) watched: bool,
    /// A receive is armed.
    receiving: bool,
    /// The socket is on the list of sockets that wait for a buffer.
    pub(crate) waits: bool,
    /// Received buffers not yet taken by the owner: (buffer, length).
    chunks: VecDeque<(u16, u32)>,
    /// The chain being sent, or sent last.
    pub(crate) chain: Chain,
    pub(crate) sent_bytes: usize,
    sending: bool,
    wants_send: bool,
    /// Limit of one direct receive in bytes.
    pub(crate) receive_max: usize,
    /// Long chains sent while the location of the peer is unknown.
    pub(crate) long_chains: u32,
    /// The peer was on another CPU at the last check.
    pub(crate) was_apart: bool,
    /// The message header and its iovecs, which the kernel reads while a send is in flight.
    message: Box<libc::msghdr>,
    pub(crate) parts: Vec<libc::iovec>,
    pub(crate) ended: Option<End>,
    /// The owner has dropped the socket: the slot is freed once no operation is in flight.
    pub(crate) dropped: bool,
    /// The connection ends with a reset.
    resets: bool,
    pub(crate) ready: bool,
}

impl SocketState {
    fn new(fd: OwnedFd) -> SocketState {
        // SAFETY: an all-zero msghdr is a valid one: null pointers and zero lengths.
        let message = Box::new(unsafe { std::mem::zeroed::<libc::msghdr>() });
        SocketState {
            fd,
            registered: false,
            mode: Mode::Ring,
            arrived: None,
            watched: false,
            receiving: false,
            waits: false,
            chunks: VecDeque::with_capacity(16),
            chain: Chain::default(),
            sent_bytes: 0,
            sending: false,
            wants_send: false,
            receive_max: usize::MAX,
            long_chains: 0,
            was_apart: false,
            message,
            parts: Vec::with_capacity(16),
            ended: None,
            dropped: false,
            resets: false,
            ready: false,
        }
    }
}

impl CoreState {
    pub(crate) fn socket(&mut self, index: u32) -> &mut SocketState {
        match &mut self.slots[index as usize] {
            Slot::Socket(socket) => socket,
            _ => unreachable!("a socket's slot holds a socket until it is dropped"),
        }
    }

    /// Arms a poll or a receive on this socket.
    pub(crate) fn begin_on_ring(&mut self, index: u32) {
        if self.ring().features.multishot_receive {
            return self.arm_receive(index, Arming::Multishot);
        }
        // A receive would occupy a buffer until data arrives, and there are fewer buffers than
        // sockets.
        if let Err(error) = self.watch(index) {
            self.end_socket(index, End::from(error));
        }
    }

    /// Queues a socket for a buffer.
    pub(crate) fn wait_for_buffer(&mut self, index: u32) {
        let socket = self.socket(index);
        if socket.dropped || socket.receiving || socket.ended.is_some() {
            return;
        }
        if !std::mem::replace(&mut socket.waits, true) {
            self.refill.wait(index);
        }
    }

    /// Arms a receive on this socket with a free buffer.
    pub(crate) fn arm_receive(&mut self, index: u32, arming: Arming) {
        let multishot = self.ring().features.multishot_receive;
        let socket = self.socket(index);
        if socket.dropped || socket.receiving || socket.ended.is_some() {
            return;
        }
        let (fd, registered) = (Fd(socket.fd.as_raw_fd()), socket.registered);
        let (entry, part) = if multishot {
            (provided_receive(index, fd, registered, arming), 0)
        } else {
            let Some(id) = self.receive.take() else { return self.wait_for_buffer(index) };
            let (address, len) = (self.receive.address(id), BUFFER_BYTES as u32);
            let entry = match registered {
                true => opcode::Recv::new(Fixed(index), address, len).flags(libc::MSG_DONTWAIT),
                false => opcode::Recv::new(fd, address, len).flags(libc::MSG_DONTWAIT),
            };
            (entry.build(), u32::from(id))
        };
        self.socket(index).receiving = true;
        // SAFETY: the buffers belong to the core and are not used by anything else until the
        // completion.
        let pushed = unsafe { self.push(entry, Kind::Receive, index, part) };
        if let Err(error) = pushed {
            self.socket(index).receiving = false;
            if !multishot {
                self.receive.give(part as u16);
            }
            self.end_socket(index, End::from(error));
        }
    }

    pub(crate) fn received(&mut self, index: u32, part: u32, result: i32, flags: u32) {
        let multishot = self.ring().features.multishot_receive;
        let more = cqueue::more(flags);
        let id = if multishot { cqueue::buffer_select(flags) } else { Some(part as u16) };
        self.socket(index).receiving = more;
        if let Some(id) = id {
            self.receive.taken();
            if result > 0 && !self.socket(index).dropped {
                self.socket(index).chunks.push_back((id, result as u32));
            } else {
                self.receive.give(id);
            }
        }
        match result {
            0 => self.end_socket(index, End::Closed),
            // The socket has had its turn.
            1.. if !more && multishot => self.wait_for_buffer(index),
            1.. if !more && result as usize == BUFFER_BYTES => self.wait_for_buffer(index),
            1.. if !more => self.begin_on_ring(index),
            // No free buffer: the data stays in the socket until there is one.
            _ if result == -libc::ENOBUFS => {
                self.receive.wanted();
                self.wait_for_buffer(index);
            }
            _ if result == -libc::EINTR || result == -libc::EAGAIN => self.begin_on_ring(index),
            ..0 => self.end_socket(index, End::Broken(-result)),
            1.. => {}
        }
        self.mark_ready(index);
        self.free_socket(index);
    }

    pub(crate) fn end_socket(&mut self, index: u32, end: End) {
        self.socket(index).ended.get_or_insert(end);
    }

    fn push_send(&mut self, index: u32) {
        let socket = self.socket(index);
        socket.sending = true;
        let entry = socket.send_entry(index);
        // SAFETY: message, parts and the pieces that they point to belong to the slot, whose
        // chain is not exchanged while `sending` and which is not removed before the completion.
        let pushed = unsafe { self.push(entry, Kind::Send, index, 0) };
        if let Err(error) = pushed {
            self.socket(index).sending = false;
            self.end_socket(index, End::from(error));
        }
    }

    pub(crate) fn sent(&mut self, index: u32, result: i32) {
        let socket = self.socket(index);
        if result < 0 && result != -libc::EINTR && result != -libc::EAGAIN {
            socket.sending = false;
            self.end_socket(index, End::Broken(-result));
            self.mark_ready(index);
            return self.free_socket(index);
        }
        socket.sent_bytes += result.max(0) as usize;
        if socket.sent_bytes < socket.chain.len_bytes() && !socket.dropped {
            return self.push_send(index);
        }
        socket.sending = false;
        if std::mem::take(&mut socket.wants_send) {
            self.mark_ready(index);
        }
        self.recycle_sent(index);
        self.free_socket(index);
    }

    /// Recycles a chain that the kernel has accepted completely.
    fn recycle_sent(&mut self, index: u32) {
        if let Slot::Socket(socket) = &mut self.slots[index as usize] {
            socket.chain.recycle_sent(&self.pool);
        }
    }

    /// Cancels operations in flight, because the owner or the core is being dropped.
    pub(crate) fn close_socket(&mut self, index: u32) {
        let socket = self.socket(index);
        if !std::mem::replace(&mut socket.dropped, true) {
            self.live_sockets -= 1;
        }
        self.direct = self.direct.filter(|direct| *direct != index);
        let socket = self.socket(index);
        let chunks = std::mem::take(&mut socket.chunks);
        let fd = socket.fd.as_raw_fd();
        match socket.resets {
            true => reset(fd),
            // SAFETY: a system call on a descriptor that we own; it wakes the receive and the send.
            false => drop(unsafe { libc::shutdown(fd, libc::SHUT_RDWR) }),
        }
        chunks.into_iter().for_each(|(id, _)| self.receive.give(id));
        self.free_socket(index);
    }

    pub(crate) fn free_socket(&mut self, index: u32) {
        let socket = self.socket(index);
        if socket.dropped && !socket.receiving && !socket.sending && !socket.watched {
            self.remove(index);
        }
    }
}

/// Resets the connection at once, which ends its receive and send: Linux disconnects a socket that
/// is connected to AF_UNSPEC, with an RST to the peer.
fn reset(fd: i32) {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    let len = size_of::<libc::sockaddr>() as libc::socklen_t;
    // SAFETY: a system call on a descriptor that we own; it reads `len` bytes of `nowhere`.
    unsafe { libc::connect(fd, &raw const nowhere, len) };
}

/// A multishot receive into provided buffers.
fn provided_receive(index: u32, fd: Fd, registered: bool, arming: Arming) -> squeue::Entry {
    let none = std::ptr::null_mut();
    match (arming, registered) {
        (Arming::Multishot, true) => opcode::RecvMulti::new(Fixed(index), GROUP).build(),
        (Arming::Multishot, false) => opcode::RecvMulti::new(fd, GROUP).build(),
        (Arming::Once, true) => once(opcode::Recv::new(Fixed(index), none, 0)),
        (Arming::Once, false) => once(opcode::Recv::new(fd, none, 0)),
    }
}

fn once(receive: opcode::Recv) -> squeue::Entry {
    receive.buf_group(GROUP).build().flags(squeue::Flags::BUFFER_SELECT)
}

impl SocketState {
    /// The submission entry that sends the rest of the chain.
    fn send_entry(&mut self, index: u32) -> squeue::Entry {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        self.gather();
        let fd = Fd(self.fd.as_raw_fd());
        if let [part] = self.parts[..] {
            let (base, len) = (part.iov_base.cast::<u8>().cast_const(), part.iov_len as u32);
            return match self.registered {
                true => opcode::Send::new(Fixed(index), base, len).flags(flags).build(),
                false => opcode::Send::new(fd, base, len).flags(flags).build(),
            };
        }
        self.message.msg_iov = self.parts.as_mut_ptr();
        self.message.msg_iovlen = self.parts.len() as _;
        let message: *const libc::msghdr = &*self.message;
        match self.registered {
            true => opcode::SendMsg::new(Fixed(index), message).flags(flags as u32).build(),
            false => opcode::SendMsg::new(fd, message).flags(flags as u32).build(),
        }
    }

    /// Lists the parts of the chain that were not sent yet.
    pub(crate) fn gather(&mut self) {
        self.parts.clear();
        let mut skip = self.sent_bytes;
        for piece in self.chain.pieces() {
            let (base, len) = piece.as_raw();
            if skip >= len {
                skip -= len;
                continue;
            }
            if self.parts.len() == PIECES_PER_SEND {
                break;
            }
            let iov_base = base.wrapping_add(skip).cast_mut().cast();
            self.parts.push(libc::iovec { iov_base, iov_len: len - skip });
            skip = 0;
        }
    }
}
