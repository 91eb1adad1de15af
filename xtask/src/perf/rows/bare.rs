//! Baseline without a protocol: the same bytes over the same sockets show the maximum rate that the
//! kernel allows.
//!
//! Responses are copied from a volume's memory to the socket; writes into it. There is no parsing,
//! queue, clock or histogram, and received data stays in its buffer. Sockets are polled, with the
//! system's congestion control.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use block::Memory;

use super::super::latency::step;
use super::super::probe;
use super::super::programs::Programs;
use super::{Bench, Sample};

/// Name of the contender.
pub const NAME: &str = "bare sockets, the same bytes";

/// Lengths of a command capsule, and of the header of data or of a write's response.
const COMMAND: usize = 72;
const ANSWER: usize = 24;
const VOLUME_BYTES: u64 = 64 << 20;
/// Responses written at once.
const BATCH: usize = 64;
/// The first part of a run does not count.
const RAMP: Duration = Duration::from_millis(300);

/// Traffic on the sockets.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Number of connections; a single one has its ends on different cores, several have both on
    /// one.
    pub connections: usize,
    /// Requests in flight on each connection.
    pub outstanding: usize,
    /// Length of the data.
    pub size: usize,
    /// Writes: data is sent with the requests.
    pub write: bool,
}

/// Runs the shape; returns requests per second.
pub fn run(bench: &Bench, shape: Shape) -> Result<Sample> {
    if matches!(bench.programs, Programs::Dry) {
        return Ok(Sample::of(1e6));
    }
    let mut cores = [Vec::new(), Vec::new()];
    for index in 0..shape.connections {
        let (asking, answering) = pair(shape).context("two sockets")?;
        let apart = usize::from(shape.connections == 1);
        cores[index % 2].push(End::Answering(answering));
        cores[(index + apart) % 2].push(End::Asking(asking));
    }
    let seconds = Duration::from_secs(bench.seconds);
    let threads: Vec<_> = (0..)
        .zip(cores)
        .map(|(core, ends)| thread::spawn(move || drive(core, ends, seconds)))
        .collect();
    let join = |thread: JoinHandle<io::Result<Driven>>| {
        thread.join().map_err(|_| anyhow::anyhow!("a thread of sockets failed"))?.context("sockets")
    };
    // Sockets are closed once both threads have ended.
    let driven: Vec<Driven> = threads.into_iter().map(join).collect::<Result<_>>()?;
    Ok(Sample::of(driven.iter().map(|driven| driven.rate).sum()))
}

enum End {
    Asking(Asking),
    Answering(Answering),
}

/// Results of a core.
struct Driven {
    /// Responses per second.
    rate: f64,
    _ends: Vec<End>,
}

/// Runs turns until the time is over.
fn drive(core: usize, mut ends: Vec<End>, seconds: Duration) -> io::Result<Driven> {
    probe::pin(core);
    let mut began = Instant::now();
    let (mut ramp, mut done) = (true, 0);
    loop {
        for _ in 0..BATCH {
            for end in &mut ends {
                match end {
                    End::Asking(end) => done += end.turn()?,
                    End::Answering(end) => end.turn()?,
                }
            }
        }
        match began.elapsed() {
            taken if ramp && taken >= RAMP => (ramp, done, began) = (false, 0, Instant::now()),
            taken if !ramp && taken >= seconds => {
                return Ok(Driven { rate: done as f64 / taken.as_secs_f64(), _ends: ends });
            }
            _ => {}
        }
    }
}

fn pair(shape: Shape) -> Result<(Asking, Answering)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    for socket in [&near, &far] {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
    }
    let (ask, answer) = match shape.write {
        true => (COMMAND + shape.size, ANSWER),
        false => (COMMAND, ANSWER + shape.size),
    };
    let asking = Asking {
        message: vec![1; ask * shape.outstanding],
        room: vec![0; answer * shape.outstanding],
        owed: ask * shape.outstanding,
        ask,
        answer,
        part: 0,
        socket: near,
    };
    let memory = Memory::new(VOLUME_BYTES)?;
    memory.write(0, &vec![1; VOLUME_BYTES as usize]);
    let answering = Answering {
        room: vec![0; ask * shape.outstanding],
        message: vec![0; answer * BATCH.min(shape.outstanding)],
        shape,
        sent: 0..0,
        part: 0,
        pending: 0,
        place: 1,
        memory,
        socket: far,
    };
    Ok((asking, answering))
}

/// The requesting end.
struct Asking {
    socket: TcpStream,
    message: Vec<u8>,
    room: Vec<u8>,
    /// Lengths of a request and of a response.
    ask: usize,
    answer: usize,
    /// Received bytes of an incomplete response.
    part: usize,
    /// Bytes of requests to be sent.
    owed: usize,
}

impl Asking {
    /// Returns the responses received.
    fn turn(&mut self) -> io::Result<u64> {
        self.part += now(self.socket.read(&mut self.room))?;
        let complete = self.part / self.answer;
        self.part %= self.answer;
        self.owed += complete * self.ask;
        if self.owed > 0 {
            self.owed -= now(self.socket.write(&self.message[..self.owed]))?;
        }
        Ok(complete as u64)
    }
}

/// The responding end with the memory.
struct Answering {
    socket: TcpStream,
    shape: Shape,
    memory: Memory,
    place: u64,
    room: Vec<u8>,
    message: Vec<u8>,
    /// The part of `message` to be sent.
    sent: std::ops::Range<usize>,
    /// Received bytes of an incomplete request.
    part: usize,
    /// Requests without a response.
    pending: usize,
}

impl Answering {
    fn turn(&mut self) -> io::Result<()> {
        let ask = self.room.len() / self.shape.outstanding;
        self.part += now(self.socket.read(&mut self.room))?;
        let complete = self.part / ask;
        self.part %= ask;
        self.pending += complete;
        if self.shape.write {
            let data = self.room.chunks_exact(ask).take(complete);
            for (place, data) in places(&mut self.place, self.shape.size).zip(data) {
                self.memory.write(place, &data[COMMAND..]);
            }
        }
        if self.sent.is_empty() {
            self.prepare();
        }
        if !self.sent.is_empty() {
            self.sent.start += now(self.socket.write(&self.message[self.sent.clone()]))?;
        }
        Ok(())
    }

    /// Builds the responses of a batch.
    fn prepare(&mut self) {
        let len = if self.shape.write { ANSWER } else { ANSWER + self.shape.size };
        let count = self.pending.min(self.message.len() / len);
        self.pending -= count;
        self.sent = 0..count * len;
        if self.shape.write {
            return;
        }
        let mut ahead = self.place;
        for place in places(&mut ahead, self.shape.size).take(count) {
            self.memory.prefetch(place, self.shape.size);
        }
        let answers = self.message.chunks_exact_mut(len).take(count);
        for (place, answer) in places(&mut self.place, self.shape.size).zip(answers) {
            self.memory.read(place, &mut answer[ANSWER..]);
        }
    }
}

/// Random offsets in a volume.
fn places(state: &mut u64, size: usize) -> impl Iterator<Item = u64> {
    std::iter::repeat_with(move || {
        *state = step(*state);
        (*state >> 33) % (VOLUME_BYTES / size as u64) * size as u64
    })
}

/// The result of a non-blocking call.
pub(super) fn now(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}
