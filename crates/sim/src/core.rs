//! A core of the server: the reactor of a simulation.
//!
//! Receives are armed, take buffers and run out of them as in the kernel. The real core's code
//! ([`os::Refill`]) decides which waiting socket gets the next buffer.

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::rc::Rc;

use block::{Chain, Nanos, Plant, Pool, planted};
use os::{Arming, End, Reactor, ReactorListener, ReactorSocket, ReactorStream, Refill, Token};

use crate::net::{Net, Side, bytes_of};

/// Bytes of a receive buffer: small, so that there are many.
pub(crate) const BUFFER_BYTES: usize = 4 << 10;
/// Buffers in a row before the kernel serves another socket.
const IN_A_ROW: usize = 32;
/// Linux `EMFILE`: too many open files.
const EMFILE: i32 = 24;

/// Shared by all cores of a world.
pub(crate) type Shared = Rc<RefCell<Machine>>;

/// The network and the cores on it.
pub(crate) struct Machine {
    pub(crate) net: Net,
    pub(crate) cores: Vec<CoreState>,
    /// Violations, in order.
    pub(crate) violations: Vec<String>,
    /// Consecutive bytes served on one connection.
    pub(crate) share_bytes: usize,
}

/// A core.
pub(crate) struct CoreState {
    slots: Vec<Option<Slot>>,
    /// Sockets that are listeners.
    listeners: Vec<u32>,
    /// Number of sockets with chunks not taken yet.
    laden: usize,
    refill: Refill,
    free_buffers: usize,
    /// Slots with events.
    marked: Vec<u32>,
    /// Woken by another thread.
    pub(crate) is_woken: bool,
    /// Time until which no file can be opened.
    pub(crate) out_of_files: Nanos,
    /// The socket served last, and its bytes while others waited.
    served: (u32, usize),
    /// Bytes moved in this turn.
    pub(crate) moved_bytes: usize,
}

enum Slot {
    Socket(SocketState),
    Listener(ListenerState),
}

struct SocketState {
    conn: usize,
    armed: Option<Arming>,
    waits: bool,
    /// The socket holds a buffer without data.
    pinned: bool,
    chunks: VecDeque<Vec<u8>>,
    sending: bool,
    wants_send: bool,
    ended: Option<End>,
    marked: bool,
}

#[derive(Default)]
struct ListenerState {
    backlog: VecDeque<Stream>,
    accepted: VecDeque<io::Result<Stream>>,
    accepting: bool,
}

impl CoreState {
    pub(crate) fn new(buffers: usize) -> CoreState {
        CoreState {
            slots: Vec::new(),
            listeners: Vec::new(),
            laden: 0,
            refill: Refill::new(),
            free_buffers: buffers,
            marked: Vec::new(),
            is_woken: false,
            out_of_files: Nanos(0),
            served: (0, 0),
            moved_bytes: 0,
        }
    }

    fn insert(&mut self, slot: Slot) -> u32 {
        let free = self.slots.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[index] = Some(slot);
        index as u32
    }

    fn socket(&mut self, token: u32) -> &mut SocketState {
        match &mut self.slots[token as usize] {
            Some(Slot::Socket(socket)) => socket,
            _ => panic!("token {token} is no socket"),
        }
    }

    fn listener(&mut self, token: u32) -> &mut ListenerState {
        match &mut self.slots[token as usize] {
            Some(Slot::Listener(listener)) => listener,
            _ => panic!("token {token} is no listener"),
        }
    }

    fn mark(&mut self, token: u32) {
        match &mut self.slots[token as usize] {
            Some(Slot::Socket(socket)) if socket.marked => return,
            Some(Slot::Socket(socket)) => socket.marked = true,
            Some(Slot::Listener(_)) => {}
            None => return,
        }
        self.marked.push(token);
    }

    fn wait(&mut self, token: u32) {
        let socket = self.socket(token);
        if socket.ended.is_none() && !std::mem::replace(&mut socket.waits, true) {
            self.refill.wait(token);
        }
    }
}

impl Machine {
    /// Queues a new connection at a listener; false if the listener is gone.
    pub(crate) fn knock(&mut self, core: usize, token: u32, stream: Stream) -> bool {
        match self.cores[core].slots.get_mut(token as usize) {
            Some(Some(Slot::Listener(listener))) => listener.backlog.push_back(stream),
            _ => return false,
        }
        true
    }

    /// Whether a core has something to do.
    pub(crate) fn has_news(&mut self, index: usize) -> bool {
        let (net, core) = (&mut self.net, &mut self.cores[index]);
        if core.is_woken || !core.marked.is_empty() {
            return true;
        }
        if !core.refill.is_empty() && core.free_buffers > 0 {
            return true;
        }
        let knocked = core.listeners.iter().any(|token| match &core.slots[*token as usize] {
            Some(Slot::Listener(listener)) => listener.accepting && !listener.backlog.is_empty(),
            _ => false,
        });
        if knocked {
            return true;
        }
        let mut any = false;
        net.keep_server_news(index, |net, conn, token| {
            let Some(Slot::Socket(socket)) = &core.slots[token as usize] else { return false };
            let comes = net.available(conn, Side::Server) > 0;
            let ends = socket.ended.is_none() && net.ended(conn, Side::Server).is_some();
            let received = socket.armed.is_some() && (comes || ends);
            let sent = socket.sending && net.all_sent(conn, Side::Server);
            any |= received || sent && socket.wants_send;
            received || sent
        });
        any
    }

    /// One system call.
    fn turn(&mut self, index: usize, ready: &mut Vec<Token>) {
        self.cores[index].is_woken = false;
        self.cores[index].moved_bytes = 0;
        self.cores[index].served = (u32::MAX, 0);
        self.finish_sends(index);
        self.accept(index);
        // A core without events checks again while sockets wait for buffers.
        loop {
            let armed = self.arm(index);
            let news: Vec<u32> = self.net.server_news(index).map(|(_, token)| token).collect();
            for token in news {
                if matches!(self.cores[index].slots[token as usize], Some(Slot::Socket(_))) {
                    self.receive(index, token);
                }
            }
            if !armed || !self.cores[index].marked.is_empty() {
                break;
            }
        }
        let core = &mut self.cores[index];
        for token in std::mem::take(&mut core.marked) {
            if let Some(Slot::Socket(socket)) = &mut core.slots[token as usize] {
                socket.marked = false;
            }
            if core.slots[token as usize].is_some() {
                ready.push(Token(token));
            }
        }
    }

    /// Arms waiting sockets, the first of which get buffers. Returns whether there were any.
    fn arm(&mut self, index: usize) -> bool {
        let core = &mut self.cores[index];
        let (arming, count) = core.refill.plan(core.free_buffers);
        for _ in 0..count {
            let Some(token) = self.cores[index].refill.take() else { break };
            let core = &mut self.cores[index];
            let socket = core.socket(token);
            (socket.waits, socket.armed) = (false, Some(arming));
            if planted(Plant::PinBuffers) {
                socket.pinned = true;
                core.free_buffers -= 1;
            }
            self.receive(index, token);
        }
        count > 0
    }

    /// The kernel's work for an armed socket.
    fn receive(&mut self, index: usize, token: u32) {
        let (net, core) = (&mut self.net, &mut self.cores[index]);
        let conn = core.socket(token).conn;
        for _ in 0..IN_A_ROW {
            let Some(arming) = core.socket(token).armed else { return };
            if net.available(conn, Side::Server) == 0 {
                if let Some(end) = net.ended(conn, Side::Server) {
                    let socket = core.socket(token);
                    (socket.ended, socket.armed) = (Some(end), None);
                    if std::mem::take(&mut socket.pinned) {
                        core.free_buffers += 1;
                    }
                    core.mark(token);
                }
                return;
            }
            if std::mem::take(&mut core.socket(token).pinned) {
                core.free_buffers += 1;
            }
            if core.free_buffers == 0 {
                core.socket(token).armed = None;
                core.wait(token);
                return core.mark(token);
            }
            core.free_buffers -= 1;
            let chunk = net.take(conn, Side::Server, BUFFER_BYTES);
            let socket = core.socket(token);
            socket.chunks.push_back(chunk);
            core.laden += usize::from(socket.chunks.len() == 1);
            core.mark(token);
            if arming == Arming::Once || planted(Plant::PinBuffers) {
                core.socket(token).armed = None;
                return core.wait(token);
            }
        }
    }

    fn finish_sends(&mut self, index: usize) {
        let news: Vec<u32> = self.net.server_news(index).map(|(_, token)| token).collect();
        for token in news {
            let Some(Slot::Socket(socket)) = &mut self.cores[index].slots[token as usize] else {
                continue;
            };
            let gone = self.net.ended(socket.conn, Side::Server).is_some_and(|e| e != End::Closed);
            if socket.sending && (gone || self.net.all_sent(socket.conn, Side::Server)) {
                socket.sending = false;
                if std::mem::take(&mut socket.wants_send) {
                    self.cores[index].mark(token);
                }
            }
        }
    }

    fn accept(&mut self, index: usize) {
        let core = &mut self.cores[index];
        let short = core.out_of_files > self.net.now;
        for token in core.listeners.clone() {
            let Some(Slot::Listener(listener)) = &mut core.slots[token as usize] else { continue };
            let mut any = false;
            while listener.accepting && !listener.backlog.is_empty() {
                any = true;
                let accepted = if short {
                    listener.accepting = false;
                    Err(io::Error::from_raw_os_error(EMFILE))
                } else {
                    Ok(listener.backlog.pop_front().expect("there is a front"))
                };
                listener.accepted.push_back(accepted);
            }
            if any {
                core.mark(token);
            }
        }
    }

    /// Checks that a connection is served a share at a time while others wait.
    fn note_served(&mut self, index: usize, token: u32, bytes: usize) {
        let core = &mut self.cores[index];
        core.moved_bytes += bytes;
        let others = core.laden > usize::from(!core.socket(token).chunks.is_empty());
        let before = if core.served.0 == token && others { core.served.1 } else { 0 };
        core.served = (token, before + bytes);
        if before + bytes > self.share_bytes + BUFFER_BYTES {
            let line = format!("one connection was served {} bytes in a row", before + bytes);
            self.violations.push(line);
        }
    }
}

/// A handle to a core.
#[derive(Clone)]
pub(crate) struct SimCore {
    machine: Shared,
    index: usize,
    pool: Pool,
}

impl SimCore {
    pub(crate) fn new(machine: &Shared, index: usize, pool: Pool) -> SimCore {
        SimCore { machine: Rc::clone(machine), index, pool }
    }

    /// Starts to listen.
    pub(crate) fn listen(&self) -> SimListener {
        let listener = ListenerState { accepting: true, ..ListenerState::default() };
        let mut state = self.state();
        let core = &mut state.cores[self.index];
        let token = core.insert(Slot::Listener(listener));
        core.listeners.push(token);
        SimListener { core: self.clone(), token }
    }

    fn state(&self) -> RefMut<'_, Machine> {
        self.machine.borrow_mut()
    }
}

impl Reactor for SimCore {
    type Socket = SimSocket;
    type Listener = SimListener;
    type Stream = Stream;

    fn now(&self) -> Nanos {
        self.state().net.now
    }

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn turn(&self, _until: Option<Nanos>, ready: &mut Vec<Token>) -> io::Result<()> {
        self.state().turn(self.index, ready);
        Ok(())
    }

    fn adopt(&self, stream: Stream) -> io::Result<SimSocket> {
        let mut state = self.state();
        let conn = stream.take();
        let socket = SocketState {
            conn,
            armed: None,
            waits: false,
            pinned: false,
            chunks: VecDeque::new(),
            sending: false,
            wants_send: false,
            ended: None,
            marked: false,
        };
        let core = &mut state.cores[self.index];
        let token = core.insert(Slot::Socket(socket));
        if planted(Plant::PinBuffers) {
            core.wait(token);
        } else {
            core.socket(token).armed = Some(Arming::Multishot);
        }
        state.net.adopted(conn, self.index, token);
        Ok(SimSocket { core: self.clone(), token })
    }
}

/// A socket on a simulated core.
pub(crate) struct SimSocket {
    core: SimCore,
    token: u32,
}

impl ReactorSocket for SimSocket {
    type Chunk = SimChunk;

    fn token(&self) -> Token {
        Token(self.token)
    }

    fn receive(&self) -> Option<SimChunk> {
        let mut state = self.core.state();
        let core = &mut state.cores[self.core.index];
        let socket = core.socket(self.token);
        let bytes = socket.chunks.pop_front()?;
        core.laden -= usize::from(socket.chunks.is_empty());
        state.note_served(self.core.index, self.token, bytes.len());
        Some(SimChunk { core: self.core.clone(), bytes })
    }

    fn ended(&self) -> Option<End> {
        let mut state = self.core.state();
        let socket = state.cores[self.core.index].socket(self.token);
        socket.ended.filter(|_| socket.chunks.is_empty())
    }

    fn can_send(&self) -> bool {
        let mut state = self.core.state();
        let socket = state.cores[self.core.index].socket(self.token);
        socket.wants_send = socket.sending;
        let (conn, can) = (socket.conn, !socket.sending);
        if !can {
            state.net.tell(conn, Side::Server);
        }
        can
    }

    fn send(&self, chain: &mut Chain) {
        let pieces = bytes_of(chain);
        chain.recycle_sent(&self.core.pool);
        let mut state = self.core.state();
        let core = &mut state.cores[self.core.index];
        core.moved_bytes += pieces.iter().map(Vec::len).sum::<usize>();
        let socket = core.socket(self.token);
        assert!(!socket.sending, "one send at a time");
        let conn = socket.conn;
        state.net.send(conn, Side::Server, pieces);
        let all = state.net.all_sent(conn, Side::Server);
        state.cores[self.core.index].socket(self.token).sending = !all;
    }

    fn is_there(&self) -> bool {
        let mut state = self.core.state();
        let socket = state.cores[self.core.index].socket(self.token);
        let (conn, over) = (socket.conn, socket.ended.is_some());
        !over && !state.net.is_ending(conn, Side::Server)
    }

    fn lap_bytes(&self, _: &Chain) -> Option<usize> {
        None
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        let mut state = self.core.state();
        let core = &mut state.cores[self.core.index];
        let slot = core.slots[self.token as usize].take();
        let Some(Slot::Socket(socket)) = slot else { return };
        core.free_buffers += socket.chunks.len() + usize::from(socket.pinned);
        core.laden -= usize::from(!socket.chunks.is_empty());
        if socket.waits {
            core.refill.forget(self.token);
        }
        core.marked.retain(|marked| *marked != self.token);
        state.net.close(socket.conn, Side::Server);
    }
}

/// Received bytes.
pub(crate) struct SimChunk {
    core: SimCore,
    bytes: Vec<u8>,
}

impl Deref for SimChunk {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SimChunk {
    fn drop(&mut self) {
        self.core.state().cores[self.core.index].free_buffers += 1;
    }
}

/// A listener on a simulated core.
pub(crate) struct SimListener {
    core: SimCore,
    token: u32,
}

impl ReactorListener for SimListener {
    type Stream = Stream;

    fn token(&self) -> Token {
        Token(self.token)
    }

    fn accept(&self) -> Option<io::Result<Stream>> {
        let mut state = self.core.state();
        state.cores[self.core.index].listener(self.token).accepted.pop_front()
    }

    fn resume(&self) -> io::Result<()> {
        self.core.state().cores[self.core.index].listener(self.token).accepting = true;
        Ok(())
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.core.state();
        let core = &mut state.cores[self.core.index];
        core.listeners.retain(|token| *token != self.token);
        let slot = core.slots[self.token as usize].take();
        drop(state);
        drop(slot);
    }
}

/// An accepted connection; closed if dropped before a core takes it over.
pub(crate) struct Stream {
    conn: usize,
    /// Machine that closes the connection on drop; `None` once a core has taken it over.
    machine: Option<Shared>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl Stream {
    pub(crate) fn new(
        conn: usize,
        machine: &Shared,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Stream {
        Stream { conn, machine: Some(Rc::clone(machine)), local, peer }
    }

    fn take(mut self) -> usize {
        self.machine = None;
        self.conn
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Dropped within a call of the machine, the connection just leaks: its peer sees nothing.
        if let Some(machine) = &self.machine
            && let Ok(mut machine) = machine.try_borrow_mut()
        {
            machine.net.close(self.conn, Side::Server);
        }
    }
}

impl ReactorStream for Stream {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}
