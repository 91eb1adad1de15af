//! An NVMe/TCP initiator that only sends prebuilt commands and counts responses: a target's speed
//! with a nearly free peer, in the same minute on the same cores.
//!
//! Each command has another offset. Data is always the same, responses are checked for type and
//! length only, and nothing is timed or recorded. Sockets are polled.

mod handshake;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::handshake::{Handshake, command};
use super::super::latency::step;
use super::super::probe;
use super::super::programs::Programs;
use super::bare::now;
use super::servers::NvmeAddress;
use super::{Bench, INITIATOR_CORE, Sample};

/// PDU types (NVMe/TCP transport specification, 3.6.2).
const COMMAND: u8 = 0x04;
const RESPONSE: u8 = 0x05;
const C2H_DATA: u8 = 0x07;
/// SUCCESS: no response follows the data.
const SUCCESS: u8 = 1 << 3;
/// The common header and a submission queue entry.
const COMMAND_LEN: usize = 72;
const RESPONSE_LEN: usize = 24;
const BLOCK: usize = 512;
const VOLUME_BYTES: usize = 64 << 20;
/// Longest response with its data.
const LONGEST: usize = 128 << 10;
/// The first part of a run does not count.
const RAMP: Duration = Duration::from_secs(1);

/// The traffic.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Number of connections, one queue each.
    pub connections: u16,
    /// Commands in flight of each.
    pub outstanding: usize,
    /// Length of the data.
    pub size: usize,
    /// Percent of reads; the others write in-capsule data.
    pub read_percent: u64,
}

/// Runs the shape; returns the target's responses per second.
pub fn run(bench: &Bench, address: &NvmeAddress, shape: Shape) -> Result<Sample> {
    if matches!(bench.programs, Programs::Dry) {
        return Ok(Sample::of(1e6));
    }
    let seconds = Duration::from_secs(bench.seconds);
    let NvmeAddress { port, nqn } = address;
    thread::scope(|scope| {
        // A separate thread, because pinning lasts as long as the thread.
        let asking = scope.spawn(|| {
            if let Some(core) = INITIATOR_CORE {
                probe::pin(core);
            }
            drive(port.parse().context("a port")?, nqn, shape, seconds)
        });
        asking.join().map_err(|_| anyhow::anyhow!("the asking thread failed"))?
    })
}

fn drive(port: u16, nqn: &str, shape: Shape, seconds: Duration) -> Result<Sample> {
    let mut admin = Handshake::begin(port)?;
    let controller = admin.connect(nqn, 0, 0xffff)? as u16;
    admin.enable()?;
    let mut queues = Vec::new();
    for index in 1..=shape.connections {
        let mut shaking = Handshake::begin(port)?;
        shaking.connect(nqn, index, controller)?;
        shaking.socket.set_nonblocking(true)?;
        queues.push(Queue::new(shaking.socket, shape, u64::from(index)));
    }
    let mut begun = Instant::now();
    let (mut ramp, mut done) = (true, 0);
    loop {
        for queue in &mut queues {
            done += queue.turn()?;
        }
        match begun.elapsed() {
            taken if ramp && taken >= RAMP => (ramp, done, begun) = (false, 0, Instant::now()),
            taken if !ramp && taken >= seconds => {
                return Ok(Sample::of(done as f64 / taken.as_secs_f64()));
            }
            _ => {}
        }
    }
}

/// A queue with its commands.
struct Queue {
    socket: TcpStream,
    /// The commands in a row, and the end of each.
    ring: Vec<u8>,
    ends: Vec<usize>,
    /// The next command to send, and the bytes of the ring sent.
    next: usize,
    sent: usize,
    /// Commands that may be sent.
    credit: usize,
    /// Commands of the ring with their offsets set.
    placed: usize,
    /// Extents of the volume, of this many blocks each.
    places: usize,
    blocks: usize,
    state: u64,
    room: Vec<u8>,
    /// Bytes in the receive buffer.
    filled: usize,
}

impl Queue {
    fn new(socket: TcpStream, shape: Shape, seed: u64) -> Queue {
        let Shape { outstanding, size, read_percent, .. } = shape;
        let (mut ring, mut ends, mut state) = (Vec::new(), Vec::new(), seed);
        for id in 0..outstanding {
            state = step(step(state));
            let read = (state >> 33) % 100 < read_percent;
            let mut capsule = command(if read { 2 } else { 1 }, id as u16, size, !read);
            let entry = &mut capsule[8..];
            entry[4] = 1;
            entry[48] = (size / BLOCK - 1) as u8;
            ring.extend_from_slice(&capsule);
            if !read {
                ring.resize(ring.len() + size, 1);
            }
            ends.push(ring.len());
        }
        Queue {
            socket,
            ring,
            ends,
            next: 0,
            sent: 0,
            credit: outstanding,
            placed: 0,
            places: VOLUME_BYTES / size,
            blocks: size / BLOCK,
            state,
            room: vec![0; 2 * LONGEST],
            filled: 0,
        }
    }

    /// Returns the responses received.
    fn turn(&mut self) -> Result<u64> {
        self.send()?;
        match self.socket.read(&mut self.room[self.filled..]) {
            Ok(0) => bail!("the target hung up"),
            some => self.filled += now(some)?,
        }
        let (mut at, mut done) = (0, 0);
        while let Some(head) = self.room[..self.filled].get(at..at + 8) {
            let len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
            ensure!((RESPONSE_LEN..=LONGEST).contains(&len), "an answer of {len} bytes");
            let Some(answer) = self.room[..self.filled].get(at..at + len) else { break };
            match answer[0] {
                RESPONSE if answer[22..] == [0, 0] => done += 1,
                C2H_DATA => done += u64::from(answer[1] & SUCCESS != 0),
                _ => bail!("the target answers {answer:?}"),
            }
            at += len;
        }
        self.room.copy_within(at..self.filled, 0);
        self.filled -= at;
        self.credit += done as usize;
        Ok(done)
    }

    fn send(&mut self) -> Result<()> {
        while self.credit > 0 {
            let last = self.ends.len().min(self.next + self.credit) - 1;
            self.place(last + 1);
            let some = now(self.socket.write(&self.ring[self.sent..self.ends[last]]))?;
            self.sent += some;
            while self.ends.get(self.next).is_some_and(|end| *end <= self.sent) {
                (self.next, self.credit) = (self.next + 1, self.credit - 1);
            }
            if self.next == self.ends.len() {
                (self.next, self.sent, self.placed) = (0, 0, 0);
            }
            if some == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Sets new offsets in the commands before this one.
    fn place(&mut self, end: usize) {
        for index in self.placed..end {
            self.state = step(self.state);
            let block = (self.state >> 33) as usize % self.places * self.blocks;
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            let place = &mut self.ring[start + 8 + 40..][..8];
            place.copy_from_slice(&(block as u64).to_le_bytes());
        }
        self.placed = self.placed.max(end);
    }
}

#[cfg(test)]
mod test {
    use std::net::TcpListener;

    use super::*;

    /// Runs turns until a response, or a time limit.
    fn answered(queue: &mut Queue) -> u64 {
        let mut turns = (0..1000).map(|_| {
            thread::sleep(Duration::from_millis(1));
            queue.turn().unwrap()
        });
        turns.find(|done| *done > 0).unwrap_or(0)
    }

    #[test]
    fn commands_go_around_with_other_places_and_answers_may_come_in_parts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let shape = Shape { connections: 1, outstanding: 3, size: 1024, read_percent: 0 };
        let mut queue = Queue::new(near, shape, 7);
        let mut answer = [0; RESPONSE_LEN];
        (answer[0], answer[4]) = (RESPONSE, RESPONSE_LEN as u8);
        let mut places = Vec::new();
        for lap in 0..3 {
            assert_eq!(queue.turn().unwrap(), 0);
            let mut capsule = [0; COMMAND_LEN + 1024];
            for id in 0..3 {
                far.read_exact(&mut capsule).unwrap();
                assert_eq!((capsule[8], capsule[10], capsule[56]), (1, id, 1), "lap {lap}");
                places.push(u64::from_le_bytes(capsule[48..56].try_into().unwrap()));
            }
            let answers = [answer; 3].concat();
            far.write_all(&answers[..30]).unwrap();
            assert_eq!(answered(&mut queue), 1);
            far.write_all(&answers[30..]).unwrap();
            assert_eq!(answered(&mut queue), 2);
        }
        assert!(
            places.iter().all(|place| *place < (VOLUME_BYTES / BLOCK) as u64 && place % 2 == 0)
        );
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 9);
        far.write_all(&[0x03; RESPONSE_LEN]).unwrap();
        thread::sleep(Duration::from_millis(5));
        assert!(queue.turn().is_err());
    }
}
