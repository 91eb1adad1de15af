//! Buffers that are sent by reference are not reused before the peer has read them: both ends of
//! both protocols over a stream that is read late.

#![allow(dead_code, unused_imports)] // Each harness is made for tests of its own.

#[path = "iscsi_pair/harness.rs"]
mod harness;
#[path = "nvme_pair/joined.rs"]
mod joined;
#[path = "nvme_pair/server.rs"]
mod server;

use std::collections::VecDeque;
use std::ops::Range;

use block::{Buf, Cause, Chain, Done, Io, Memory, Nanos, Op, Piece, Tag};
use proto::{Endpoint, Initiator, Outbox, Target};

const BLOCK: u64 = 4096;
const DISK: u64 = 4 << 20;
/// Ring size, less than the data in flight: a buffer that is freed too early is reused too early.
const LAP: usize = 96 << 10;

/// One direction of a connection. What is sent lies where the sender put it until it is read.
#[derive(Default)]
struct Line {
    chain: Chain,
    unread: VecDeque<Segment>,
    /// Bytes that went by reference.
    referred: usize,
}

struct Segment {
    place: Range<usize>,
    lent: bool,
    bytes: Vec<u8>,
    read: usize,
}

impl Line {
    fn send(&mut self, out: &mut Outbox) {
        out.exchange(&mut self.chain);
        let lent = self.chain.may_refer();
        for piece in self.chain.pieces() {
            let (from, len) = piece.as_raw();
            let place = from as usize..from as usize + len;
            let overlaps = |old: &&Segment| {
                old.lent && old.place.start < place.end && place.start < old.place.end
            };
            assert_eq!(self.unread.iter().filter(overlaps).count(), 0, "unread bytes are reused");
            self.unread.push_back(Segment { place, lent, bytes: piece.to_vec(), read: 0 });
        }
        if lent && !self.chain.is_empty() {
            self.chain.refer();
            self.referred += self.chain.len_bytes();
        }
    }

    /// The peer reads up to `most` bytes.
    fn read(&mut self, most: usize, mut take: impl FnMut(&[u8])) {
        let mut left = most;
        while left > 0
            && let Some(segment) = self.unread.front_mut()
        {
            let part = left.min(segment.bytes.len() - segment.read);
            take(&segment.bytes[segment.read..segment.read + part]);
            segment.read += part;
            left -= part;
            if segment.read == segment.bytes.len() {
                self.unread.pop_front();
            }
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit
    }
}

/// Does the target's requests at once; reads and most writes need none.
fn serve(target: &mut impl Target, disk: &Memory, out: &mut Outbox) {
    while let Some(request) = target.requests().pop_front() {
        let Io { tag, op, offset, len, buf, .. } = request.io;
        if op == Op::Write {
            disk.write(offset, &buf.as_ref().expect("a write brings data")[..len as usize]);
        }
        target.complete(Nanos(0), Done { tag, result: Ok(()), cause: Cause::NONE, buf }, out);
    }
}

/// Returns the content of a block, which is the same in every write.
fn content(block: u64) -> u8 {
    (block * 37 % 251) as u8
}

/// Random reads and writes, up to `depth` in flight, over two lines that are read in random parts.
/// Returns how many bytes went by reference, up and down.
fn exercise<I: Initiator, T: Target>(
    (host, host_out): (&mut I, &mut Outbox),
    (target, target_out): (&mut T, &mut Outbox),
    disk: &Memory,
    (depth, reads): (usize, u64),
    seed: u64,
) -> [usize; 2] {
    let mut random = Random(seed);
    for block in 0..DISK / BLOCK {
        disk.write(block * BLOCK, &[content(block); BLOCK as usize]);
    }
    let (mut up, mut down) = (Line::default(), Line::default());
    let (mut in_flight, mut ended, mut places) = (0, 0, vec![(Op::Read, 0); depth]);
    let mut free: Vec<usize> = (0..depth).collect();
    host_out.lend(LAP);
    target_out.lend(LAP);
    while ended < 1500 {
        while random.below(3) != 0 && host.room() > 0 && !free.is_empty() {
            let slot = free.swap_remove(random.below(free.len() as u64) as usize);
            let block = random.below(DISK / BLOCK - 2);
            let len = (1 + random.below(2)) * BLOCK;
            let op = if random.below(100) < reads { Op::Read } else { Op::Write };
            let mut buf = Buf::new(len as usize).unwrap();
            for (i, part) in buf.chunks_mut(BLOCK as usize).enumerate() {
                part.fill(if op == Op::Write { content(block + i as u64) } else { 0xee });
            }
            places[slot] = (op, block);
            let (tag, offset, len) = (Tag(slot as u64), block * BLOCK, len as u32);
            let io = Io { tag, op, offset, len, fua: false, buf: Some(buf) };
            host.submit(Nanos(0), io, host_out);
            in_flight += 1;
        }
        up.send(host_out);
        let most = random.below(40_000) as usize;
        up.read(most, |bytes| target.receive(Nanos(0), bytes, target_out).unwrap());
        serve(target, disk, target_out);
        down.send(target_out);
        let most = random.below(40_000) as usize;
        down.read(most, |bytes| host.receive(Nanos(0), bytes, host_out).unwrap());
        for done in host.done().drain(..) {
            let slot = done.tag.0 as usize;
            assert_eq!(done.result, Ok(()), "seed {seed}");
            let (op, block) = places[slot];
            let bytes = done.buf.expect("the buffer comes back");
            for (i, part) in bytes.chunks(BLOCK as usize).enumerate() {
                let expect = content(block + i as u64);
                assert!(part.iter().all(|byte| *byte == expect), "seed {seed}: {op:?} of {block}");
            }
            free.push(slot);
            in_flight -= 1;
            ended += 1;
        }
    }
    assert!(in_flight <= depth);
    [up.referred, down.referred]
}

/// Bytes must have wrapped around the rings many times, or the test proves nothing.
fn assert_went_round(referred: [usize; 2], reads: u64) {
    let [up, down] = referred;
    assert!(reads == 100 || up > 1 << 20, "{up} bytes by reference to the target");
    assert!(reads == 0 || down > 1 << 20, "{down} bytes by reference to the host");
}

#[test]
fn iscsi_reuses_only_what_was_read() {
    for (seed, digests) in [(1, false), (2, true)] {
        for reads in [100, 50, 0] {
            let setup = harness::Setup {
                header_digest: digests,
                data_digest: digests,
                in_place: true,
                bytes: DISK,
                ..harness::Setup::default()
            };
            let mut pair = harness::Pair::ready(&setup);
            let host = (&mut pair.initiator, &mut pair.out);
            let target = (&mut pair.served.end, &mut pair.served.out);
            let disk = &pair.served.disk;
            assert_went_round(exercise(host, target, disk, (32, reads), seed), reads);
        }
    }
}

#[test]
fn nvme_reuses_only_what_was_read() {
    for (seed, digests) in [(1, false), (2, true)] {
        for reads in [100, 50, 0] {
            let store = server::Store::new(DISK, 4096, true);
            let disk = store.memory.clone();
            let mut config = joined::config(1, digests, digests);
            config.queue_depth = 32;
            let server = server::Server::new(vec![store]);
            let mut joined = joined::Joined::new(server, config, usize::MAX);
            let wire = &mut joined.queue;
            let host = (&mut wire.host, &mut wire.out);
            let target = (&mut wire.peer.end, &mut wire.peer.out);
            assert_went_round(exercise(host, target, &disk, (32, reads), seed), reads);
        }
    }
}
