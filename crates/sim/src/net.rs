//! The network: connections with latency, which split data anywhere and may lose it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use block::{Chain, Nanos, Piece, Rng};
use os::End;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client = 0,
    Server = 1,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

/// All connections, and the time.
pub(crate) struct Net {
    pub(crate) now: Nanos,
    pub(crate) rng: Rng,
    conns: Vec<Conn>,
    /// Arrivals of segments and ends: time, connection and side.
    arrivals: BinaryHeap<Reverse<(Nanos, usize, Side)>>,
    /// Connections with events for the client.
    client_news: Vec<usize>,
    /// Connections with events for the server, by core.
    server_news: Vec<Vec<usize>>,
    /// Maximum segment length, if data is split.
    pub(crate) cut_bytes: u64,
    /// Minimum and maximum latency of a segment.
    pub(crate) latency: (Nanos, Nanos),
    /// Receive window.
    pub(crate) window_bytes: usize,
}

/// A connection: data in both directions.
struct Conn {
    to: [Pipe; 2],
    /// The owner of this side is gone.
    left: [bool; 2],
    /// Client of the connection, if any.
    client: Option<usize>,
    /// Core of the connection, and its socket there.
    server: Option<(usize, u32)>,
    /// The connection is on the event list of this side.
    has_news: [bool; 2],
}

/// One direction.
#[derive(Default)]
struct Pipe {
    /// Data that the window does not allow yet.
    unsent: Stream,
    /// Segments in flight, with their arrival times.
    flight: VecDeque<(Nanos, Vec<u8>)>,
    flight_bytes: usize,
    /// Data that has arrived.
    arrived: Stream,
    /// End of the stream, and the time at which the receiver sees it.
    end: Option<(Nanos, End)>,
    /// Sent data is lost.
    is_dead: bool,
    last_arrival: Nanos,
    /// Number of splits.
    cuts: u32,
}

/// Cuts per stream, after which they become rare: enough for a login and the first commands.
const CUTS: u32 = 300;

/// Maximum segment length otherwise.
const PIECE_BYTES: usize = 16 << 10;

/// A reset: the stream ends without its remaining data.
pub(crate) const RESET: End = End::Broken(104);

impl Net {
    pub(crate) fn new(rng: Rng, cores: usize) -> Net {
        Net {
            now: Nanos(0),
            rng,
            conns: Vec::new(),
            arrivals: BinaryHeap::new(),
            client_news: Vec::new(),
            server_news: vec![Vec::new(); cores],
            cut_bytes: 0,
            latency: (Nanos(5_000), Nanos(50_000)),
            window_bytes: 256 << 10,
        }
    }

    /// Creates a connection of a client, or of a peer that polls without events.
    pub(crate) fn connect(&mut self, client: Option<usize>) -> usize {
        self.conns.push(Conn {
            to: [Pipe::default(), Pipe::default()],
            left: [false; 2],
            client,
            server: None,
            has_news: [false; 2],
        });
        self.conns.len() - 1
    }

    /// Assigns a connection to a socket of a core.
    pub(crate) fn adopted(&mut self, conn: usize, core: usize, token: u32) {
        self.conns[conn].server = Some((core, token));
        self.tell(conn, Side::Server);
    }

    /// Signals an event to this side.
    pub(crate) fn tell(&mut self, conn: usize, side: Side) {
        let Conn { client, server, has_news, .. } = &mut self.conns[conn];
        let news = match side {
            Side::Client if client.is_some() => &mut self.client_news,
            Side::Server if let Some((core, _)) = *server => &mut self.server_news[core],
            _ => return,
        };
        if !std::mem::replace(&mut has_news[side as usize], true) {
            news.push(conn);
        }
    }

    /// Takes the clients with events, possibly with duplicates.
    pub(crate) fn take_client_news(&mut self, mut note: impl FnMut(usize)) {
        for conn in self.client_news.drain(..) {
            let conn = &mut self.conns[conn];
            conn.has_news[Side::Client as usize] = false;
            conn.client.into_iter().for_each(&mut note);
        }
    }

    /// The sockets of a core with events, which stay listed.
    pub(crate) fn server_news(&self, core: usize) -> impl Iterator<Item = (usize, u32)> {
        let sockets = self.server_news[core].iter();
        sockets.filter_map(|conn| self.conns[*conn].server.map(|(_, token)| (*conn, token)))
    }

    /// Drops sockets of a core without work from the event list.
    pub(crate) fn keep_server_news(
        &mut self,
        core: usize,
        mut keep: impl FnMut(&Net, usize, u32) -> bool,
    ) {
        let mut news = std::mem::take(&mut self.server_news[core]);
        news.retain(|conn| {
            let kept = self.conns[*conn].server.is_some_and(|(_, token)| keep(self, *conn, token));
            self.conns[*conn].has_news[Side::Server as usize] = kept;
            kept
        });
        self.server_news[core] = news;
    }

    fn pipe(&mut self, conn: usize, to: Side) -> &mut Pipe {
        &mut self.conns[conn].to[to as usize]
    }

    /// Sends data from one side.
    pub(crate) fn send(&mut self, conn: usize, from: Side, pieces: Vec<Vec<u8>>) {
        let to = from.other();
        if self.conns[conn].left[to as usize] || self.pipe(conn, to).end.is_some() {
            return;
        }
        let unsent = &mut self.pipe(conn, to).unsent;
        pieces.into_iter().for_each(|piece| unsent.push(piece));
        self.push(conn, to);
    }

    /// Whether the kernel took all data sent by a side.
    pub(crate) fn all_sent(&self, conn: usize, from: Side) -> bool {
        self.conns[conn].to[from.other() as usize].unsent.is_empty()
    }

    /// Sends as much as the window allows.
    fn push(&mut self, conn: usize, to: Side) {
        let window = self.window_bytes;
        loop {
            let pipe = &self.conns[conn].to[to as usize];
            if pipe.is_dead && pipe.flight_bytes + pipe.arrived.len() + pipe.unsent.len() > window {
                return;
            }
            let room = window.saturating_sub(pipe.flight_bytes + pipe.arrived.len());
            let mut count = room.min(pipe.unsent.first_len());
            if count == 0 {
                return;
            }
            if self.cut_bytes > 0 && (pipe.cuts < CUTS || self.rng.below(32) == 0) {
                count = count.min(1 + self.rng.below(self.cut_bytes) as usize);
                self.pipe(conn, to).cuts += 1;
            }
            let (least, most) = self.latency;
            let travel = least + Nanos(self.rng.below(most.0 - least.0 + 1));
            let at = self.now + travel;
            let pipe = self.pipe(conn, to);
            let piece = pipe.unsent.take(count);
            let all = pipe.unsent.is_empty();
            // Without acknowledgements the data fill the window.
            pipe.flight_bytes += count;
            if !pipe.is_dead {
                pipe.last_arrival = pipe.last_arrival.max(at);
                let arrival = pipe.last_arrival;
                pipe.flight.push_back((arrival, piece));
                self.arrivals.push(Reverse((arrival, conn, to)));
            }
            if all {
                return self.tell(conn, to.other());
            }
        }
    }

    /// Bytes that a side can receive.
    pub(crate) fn available(&self, conn: usize, at: Side) -> usize {
        self.conns[conn].to[at as usize].arrived.len()
    }

    /// Takes at most this many bytes that arrived at a side.
    pub(crate) fn take(&mut self, conn: usize, at: Side, most: usize) -> Vec<u8> {
        let pipe = self.pipe(conn, at);
        let count = most.min(pipe.arrived.len());
        let bytes = pipe.arrived.take(count);
        self.push(conn, at);
        bytes
    }

    /// End of the stream at a side, once all data was taken.
    pub(crate) fn ended(&self, conn: usize, at: Side) -> Option<End> {
        let pipe = &self.conns[conn].to[at as usize];
        let (when, end) = pipe.end?;
        let empty = pipe.arrived.is_empty() && pipe.flight.is_empty();
        (when <= self.now && (empty || end != End::Closed)).then_some(end)
    }

    /// Whether the end of the stream has arrived at a side, even if data before it was not taken.
    pub(crate) fn is_ending(&self, conn: usize, at: Side) -> bool {
        let end = self.conns[conn].to[at as usize].end;
        end.is_some_and(|(when, _)| when <= self.now)
    }

    /// Closes a side: the other one sees the end after all data.
    pub(crate) fn close(&mut self, conn: usize, side: Side) {
        if side == Side::Server {
            self.conns[conn].server = None;
        }
        if std::mem::replace(&mut self.conns[conn].left[side as usize], true) {
            return;
        }
        let now = self.now;
        let other = self.pipe(conn, side.other());
        if !other.is_dead {
            let at = other.last_arrival.max(now);
            other.end.get_or_insert((at, End::Closed));
            self.arrivals.push(Reverse((at, conn, side.other())));
        }
        // Data for a closed side is answered by a reset.
        let mine = self.pipe(conn, side);
        let unread = !mine.arrived.is_empty() || !mine.flight.is_empty();
        *mine = Pipe { end: Some((now, RESET)), is_dead: mine.is_dead, ..Pipe::default() };
        if unread {
            let other = self.pipe(conn, side.other());
            if !other.is_dead {
                other.end = Some((now, RESET));
            }
        }
        self.tell(conn, side.other());
    }

    /// Breaks the connection: both sides see the reset at once.
    pub(crate) fn reset(&mut self, conn: usize) {
        let now = self.now;
        for side in [Side::Client, Side::Server] {
            let pipe = self.pipe(conn, side);
            pipe.unsent.clear();
            pipe.flight.clear();
            pipe.flight_bytes = 0;
            pipe.arrived.clear();
            pipe.end = Some((now, RESET));
            self.tell(conn, side);
        }
    }

    /// Makes a side vanish silently: it sends nothing, and data for it is lost.
    pub(crate) fn vanish(&mut self, conn: usize, side: Side) {
        for to in [side, side.other()] {
            let pipe = self.pipe(conn, to);
            pipe.is_dead = true;
            pipe.flight.clear();
        }
        self.conns[conn].left[side as usize] = true;
    }

    /// Breaks the connection so that only this side sees it: the other side hears nothing any more.
    pub(crate) fn sever(&mut self, conn: usize, seen_by: Side) {
        self.vanish(conn, seen_by);
        let now = self.now;
        let pipe = self.pipe(conn, seen_by);
        *pipe = Pipe { end: Some((now, RESET)), is_dead: true, ..Pipe::default() };
        self.tell(conn, seen_by);
    }

    /// Delivers the data that have arrived by now.
    pub(crate) fn deliver(&mut self) {
        while let Some(Reverse((at, conn, side))) = self.arrivals.peek().copied()
            && at <= self.now
        {
            self.arrivals.pop();
            let pipe = &mut self.conns[conn].to[side as usize];
            while pipe.flight.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, piece) = pipe.flight.pop_front().expect("there is a front");
                pipe.flight_bytes -= piece.len();
                pipe.arrived.push(piece);
            }
            self.tell(conn, side);
        }
    }

    /// Time at which the next segment or end arrives.
    pub(crate) fn next_arrival(&self) -> Option<Nanos> {
        self.arrivals.peek().map(|Reverse((at, ..))| *at)
    }
}

/// All bytes of a chain, in pieces of a size that allocators cache.
pub(crate) fn bytes_of(chain: &Chain) -> Vec<Vec<u8>> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut add = |part: &mut dyn FnMut(&mut [u8], usize), len: usize| {
        let mut at = 0;
        while at < len {
            let has_room = pieces.last().is_some_and(|last| last.len() < PIECE_BYTES);
            if !has_room {
                pieces.push(Vec::new());
            }
            let last = pieces.last_mut().expect("there is a last");
            let (from, count) = (last.len(), (len - at).min(PIECE_BYTES - last.len()));
            last.resize(from + count, 0);
            part(&mut last[from..], at);
            at += count;
        }
    };
    let copy = |from: &[u8], to: &mut [u8], at: usize| to.copy_from_slice(&from[at..][..to.len()]);
    for piece in chain.pieces() {
        match piece {
            Piece::Owned { buf, len } => add(&mut |to, at| copy(buf, to, at), *len),
            Piece::Lent(buf) => add(&mut |to, at| copy(buf, to, at), buf.len()),
            Piece::Shared { memory, offset, len } => {
                add(&mut |to, at| memory.read(offset + at as u64, to), *len);
            }
        }
    }
    pieces
}

/// A queue of bytes. Pieces move on without copying where possible.
#[derive(Default)]
struct Stream {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes taken of the first piece.
    taken: usize,
    len: usize,
}

impl Stream {
    fn len(&self) -> usize {
        self.len
    }

    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes left in the first piece.
    fn first_len(&self) -> usize {
        self.pieces.front().map_or(0, |piece| piece.len() - self.taken)
    }

    fn push(&mut self, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push_back(piece);
        }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        self.len -= count;
        if self.taken == 0 && self.pieces.front().is_some_and(|piece| piece.len() == count) {
            return self.pieces.pop_front().expect("there is a front");
        }
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            let front = &self.pieces[0][self.taken..];
            let part = front.len().min(count - bytes.len());
            bytes.extend_from_slice(&front[..part]);
            if part == front.len() {
                self.pieces.pop_front();
                self.taken = 0;
            } else {
                self.taken += part;
            }
        }
        bytes
    }

    fn clear(&mut self) {
        *self = Stream::default();
    }
}
