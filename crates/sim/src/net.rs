//! The network: connections whose bytes travel, are cut anywhere, and may never arrive.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use block::{Chain, Nanos, Piece, Rng};
use os::End;

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    arrivals: BinaryHeap<Reverse<(Nanos, usize)>>,
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
}

/// One direction.
#[derive(Default)]
struct Pipe {
    /// What the sender's kernel could not send yet.
    unsent: Stream,
    /// Pieces under way, with their times of arrival.
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

/// No bytes of the stream are left, and it ends like this.
pub(crate) const RESET: End = End::Broken(104);

impl Net {
    pub(crate) fn new(rng: Rng) -> Net {
        Net {
            now: Nanos(0),
            rng,
            conns: Vec::new(),
            arrivals: BinaryHeap::new(),
            cut_bytes: 0,
            latency: (Nanos(5_000), Nanos(50_000)),
            window_bytes: 256 << 10,
        }
    }

    /// A new connection; its number.
    pub(crate) fn connect(&mut self) -> usize {
        self.conns.push(Conn { to: [Pipe::default(), Pipe::default()], left: [false; 2] });
        self.conns.len() - 1
    }

    fn pipe(&mut self, conn: usize, to: Side) -> &mut Pipe {
        &mut self.conns[conn].to[to as usize]
    }

    /// Sends bytes from one side.
    pub(crate) fn send(&mut self, conn: usize, from: Side, bytes: &[u8]) {
        let to = from.other();
        if self.conns[conn].left[to as usize] || self.pipe(conn, to).end.is_some() {
            return;
        }
        self.pipe(conn, to).unsent.push(bytes);
        self.push(conn, to);
    }

    /// Whether all that a side has sent was taken by its kernel.
    pub(crate) fn all_sent(&mut self, conn: usize, from: Side) -> bool {
        self.pipe(conn, from.other()).unsent.is_empty()
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
            let mut count = room.min(pipe.unsent.len());
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
            if pipe.is_dead {
                // Nobody acknowledges it: it fills the window.
                pipe.flight_bytes += count;
                continue;
            }
            pipe.last_arrival = pipe.last_arrival.max(at);
            pipe.flight_bytes += count;
            let arrival = pipe.last_arrival;
            pipe.flight.push_back((arrival, piece));
            self.arrivals.push(Reverse((arrival, conn)));
        }
    }

    /// How many bytes a side can take.
    pub(crate) fn available(&mut self, conn: usize, at: Side) -> usize {
        self.pipe(conn, at).arrived.len()
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
    pub(crate) fn ended(&mut self, conn: usize, at: Side) -> Option<End> {
        let now = self.now;
        let pipe = self.pipe(conn, at);
        let (when, end) = pipe.end?;
        let empty = pipe.arrived.is_empty() && pipe.flight.is_empty();
        (when <= now && (empty || end != End::Closed)).then_some(end)
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
            self.arrivals.push(Reverse((at, conn)));
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
        while let Some(Reverse((at, conn))) = self.arrivals.peek().copied()
            && at <= self.now
        {
            self.arrivals.pop();
            for pipe in &mut self.conns[conn].to {
                while pipe.flight.front().is_some_and(|(at, _)| *at <= self.now) {
                    let (_, piece) = pipe.flight.pop_front().expect("there is a front");
                    pipe.flight_bytes -= piece.len();
                    pipe.arrived.push(&piece);
                }
            }
        }
    }

    /// When the next piece or end arrives.
    pub(crate) fn next_arrival(&self) -> Option<Nanos> {
        self.arrivals.peek().map(|Reverse((at, _))| *at)
    }
}

/// All bytes of a chain.
pub(crate) fn bytes_of(chain: &Chain) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(chain.len_bytes());
    for piece in chain.pieces() {
        match piece {
            Piece::Owned { buf, len } => bytes.extend_from_slice(&buf[..*len]),
            Piece::Lent(buf) => bytes.extend_from_slice(buf),
            Piece::Shared { memory, offset, len } => {
                let from = bytes.len();
                bytes.resize(from + len, 0);
                memory.read(*offset, &mut bytes[from..]);
            }
        }
    }
    bytes
}

/// Bytes in a row, taken from the front.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    taken: usize,
}

impl Stream {
    fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let taken = self.bytes[self.taken..self.taken + count].to_vec();
        self.taken += count;
        taken
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
    }
}
