//! The network: connections whose bytes travel, are cut anywhere, and may never arrive.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use block::{Chain, Nanos, Piece, Rng};
use os::End;

/// Which end of a connection.
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
    /// When pieces and ends arrive, and where.
    arrivals: BinaryHeap<Reverse<(Nanos, usize, Side)>>,
    /// Connections on which something has changed for the client.
    client_news: Vec<usize>,
    /// By core: connections on which something has changed for the server.
    server_news: Vec<Vec<usize>>,
    /// Pieces are cut so small, if at all.
    pub(crate) cut_bytes: u64,
    /// How long a piece travels at least and at most.
    pub(crate) latency: (Nanos, Nanos),
    /// What a receiver's kernel takes before the sender must wait.
    pub(crate) window_bytes: usize,
}

/// A connection: what travels to each side.
struct Conn {
    to: [Pipe; 2],
    /// The owner of this side is gone.
    left: [bool; 2],
    /// Which client has it, if it is one.
    client: Option<usize>,
    /// Which core has it, and as which socket.
    server: Option<(usize, u32)>,
    /// It stands among the news of this side.
    has_news: [bool; 2],
}

/// One direction.
#[derive(Default)]
struct Pipe {
    /// What the sender's kernel could not send yet.
    unsent: Stream,
    /// Pieces in flight, with their times of arrival.
    flight: VecDeque<(Nanos, Vec<u8>)>,
    flight_bytes: usize,
    /// What has arrived.
    arrived: Stream,
    /// How the stream ends behind all that, and when the receiver sees it.
    end: Option<(Nanos, End)>,
    /// What is sent vanishes.
    is_dead: bool,
    last_arrival: Nanos,
    /// How often it was cut.
    cuts: u32,
}

/// So many pieces of a stream are cut, then only few: enough for a login and the first commands.
const CUTS: u32 = 300;

/// What is sent at once travels in pieces of at most so many bytes.
const PIECE_BYTES: usize = 16 << 10;

/// No bytes of the stream are left, and it ends like this.
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

    /// A new connection of a client, or of somebody who looks after it without being told.
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

    /// A core has a connection from now on, as this socket.
    pub(crate) fn adopted(&mut self, conn: usize, core: usize, token: u32) {
        self.conns[conn].server = Some((core, token));
        self.tell(conn, Side::Server);
    }

    /// Something has changed for this side.
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

    /// The clients for which something has changed, some of them twice.
    pub(crate) fn take_client_news(&mut self, mut note: impl FnMut(usize)) {
        for conn in self.client_news.drain(..) {
            let conn = &mut self.conns[conn];
            conn.has_news[Side::Client as usize] = false;
            conn.client.into_iter().for_each(&mut note);
        }
    }

    /// The sockets of a core for which something has changed, until they are forgotten.
    pub(crate) fn server_news(&self, core: usize) -> impl Iterator<Item = (usize, u32)> {
        let sockets = self.server_news[core].iter();
        sockets.filter_map(|conn| self.conns[*conn].server.map(|(_, token)| (*conn, token)))
    }

    /// Forgets sockets of a core for which there is nothing to do.
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

    /// Sends bytes from one side.
    pub(crate) fn send(&mut self, conn: usize, from: Side, pieces: Vec<Vec<u8>>) {
        let to = from.other();
        if self.conns[conn].left[to as usize] || self.pipe(conn, to).end.is_some() {
            return;
        }
        let unsent = &mut self.pipe(conn, to).unsent;
        pieces.into_iter().for_each(|piece| unsent.push(piece));
        self.push(conn, to);
    }

    /// Whether all that a side has sent was taken by its kernel.
    pub(crate) fn all_sent(&self, conn: usize, from: Side) -> bool {
        self.conns[conn].to[from.other() as usize].unsent.is_empty()
    }

    /// Lets travel what the window allows.
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
            // If nobody acknowledges it, it fills the window.
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

    /// How many bytes a side can take.
    pub(crate) fn available(&self, conn: usize, at: Side) -> usize {
        self.conns[conn].to[at as usize].arrived.len()
    }

    /// Takes at most so many bytes that arrived at a side.
    pub(crate) fn take(&mut self, conn: usize, at: Side, most: usize) -> Vec<u8> {
        let pipe = self.pipe(conn, at);
        let count = most.min(pipe.arrived.len());
        let bytes = pipe.arrived.take(count);
        self.push(conn, at);
        bytes
    }

    /// How the stream has ended at a side, once all that arrived was taken.
    pub(crate) fn ended(&self, conn: usize, at: Side) -> Option<End> {
        let pipe = &self.conns[conn].to[at as usize];
        let (when, end) = pipe.end?;
        let empty = pipe.arrived.is_empty() && pipe.flight.is_empty();
        (when <= self.now && (empty || end != End::Closed)).then_some(end)
    }

    /// A side closes: the other sees the end behind all that was sent.
    pub(crate) fn close(&mut self, conn: usize, side: Side) {
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
        if side == Side::Server {
            self.conns[conn].server = None;
        }
        // What comes for who is gone is answered by a reset.
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

    /// The connection breaks: both sides see it at once.
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

    /// A side vanishes without a word: nothing comes from it, and what is sent to it is lost.
    pub(crate) fn vanish(&mut self, conn: usize, side: Side) {
        for to in [side, side.other()] {
            let pipe = self.pipe(conn, to);
            pipe.is_dead = true;
            pipe.flight.clear();
        }
        self.conns[conn].left[side as usize] = true;
    }

    /// Delivers what has arrived by now.
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

    /// When the next piece or end arrives.
    pub(crate) fn next_arrival(&self) -> Option<Nanos> {
        self.arrivals.peek().map(|Reverse((at, ..))| *at)
    }
}

/// All bytes of a chain, in pieces that an allocator has at hand.
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

/// Bytes in a row, taken from the front. Pieces go on as they came where that is possible.
#[derive(Default)]
struct Stream {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are taken already.
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

    /// Bytes that are left of the first piece.
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
