//! Random bytes, and valid streams with errors, at both ends before and after login.
//!
//! No panic, no I/O outside of the volume, and no lost buffer.

use std::sync::OnceLock;

use block::{Fault, Nanos, Op, Tag};
use proptest::prelude::*;
use proto::iscsi::{IscsiInitiator, TargetConfig};
use proto::{Endpoint, Initiator, Outbox, Phase, Target};

use crate::harness::{Pair, Rng, Served, Setup, drain, io};
use crate::raw::Raw;

/// Feeds a target, whose disk completes at once, until the target ends the connection.
fn feed_target(served: &mut Served, bytes: &[u8], rng: &mut Rng) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (part, more) = rest.split_at((1 + rng.below(700) as usize).min(rest.len()));
        rest = more;
        let result = served.end.receive(Nanos(1), part, &mut served.out);
        served.take_requests();
        if rng.below(3) != 0 {
            served.complete_all(Nanos(1));
        }
        assert!(served.out.len_bytes() < 32 << 20, "{} bytes wait", served.out.len_bytes());
        if result.is_err() || served.end.finished() {
            break;
        }
    }
    // The connection goes away with I/Os in flight.
    let pool = served.out.pool().clone();
    served.end.abandon(&pool);
    while !served.flying.is_empty() {
        served.complete(Nanos(1), 0);
    }
    drain(&mut served.out);
    assert_eq!(pool.lent(), [0, 0]);
    for (op, offset, len, _) in served.seen.drain(..) {
        assert!(op == Op::Flush || offset + u64::from(len) <= 8 << 20, "{op:?} {offset} {len}");
    }
}

fn feed_initiator(end: &mut IscsiInitiator, out: &mut Outbox, bytes: &[u8], rng: &mut Rng) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let (part, more) = rest.split_at((1 + rng.below(700) as usize).min(rest.len()));
        rest = more;
        if end.receive(Nanos(1), part, out).is_err() {
            break;
        }
        assert!(out.len_bytes() < 32 << 20);
    }
    end.abandon();
    let done: Vec<_> = end.done().drain(..).collect();
    let known = |result| matches!(result, Ok(()) | Err(Fault::Disconnected | Fault::Medium | _));
    done.iter().for_each(|done| assert!(known(done.result)));
    done.into_iter().filter_map(|done| done.buf).for_each(|buf| out.pool().give(buf));
    drain(out);
    assert_eq!(out.pool().lent(), [0, 0]);
    assert_eq!((end.phase(), end.room()), (Phase::Closed, 0));
}

/// The bytes of a session in both directions: the login, and then I/Os of all kinds.
struct Recorded {
    up: Vec<u8>,
    down: Vec<u8>,
    /// Length of the login in bytes.
    login: [usize; 2],
}

fn submit_some(end: &mut IscsiInitiator, out: &mut Outbox) -> usize {
    let mut count = 0;
    for (op, len) in [
        (Op::Write, 4096),
        (Op::Read, 4096),
        (Op::Write, 100 << 10),
        (Op::Read, 200 << 10),
        (Op::Flush, 0),
        (Op::Trim, 4096),
        (Op::WriteZeroes, 8192),
        (Op::Write, 512),
        (Op::Read, 512),
    ] {
        if end.room() == 0 {
            break;
        }
        let moves = matches!(op, Op::Read | Op::Write);
        let buf = moves.then(|| out.pool().take(len as usize).unwrap());
        let offset = if op == Op::Flush { 0 } else { 4096 };
        end.submit(Nanos(1), block::Io { tag: Tag(count), ..io(op, offset, len, buf) }, out);
        count += 1;
    }
    count as usize
}

fn setup(digests: bool) -> Setup {
    let target = TargetConfig {
        max_recv_data_segment_bytes: 16 << 10,
        first_burst_bytes: 16 << 10,
        max_burst_bytes: 64 << 10,
        ..TargetConfig::default()
    };
    Setup { header_digest: digests, data_digest: digests, target, ..Setup::default() }
}

fn recorded(digests: bool) -> &'static Recorded {
    static RECORDED: [OnceLock<Recorded>; 2] = [OnceLock::new(), OnceLock::new()];
    RECORDED[usize::from(digests)].get_or_init(|| record(&setup(digests)))
}

fn record(setup: &Setup) -> Recorded {
    let mut pair = Pair::new(setup);
    pair.initiator.tick(Nanos(0), &mut pair.out).unwrap();
    let mut recorded = Recorded { up: Vec::new(), down: Vec::new(), login: [0; 2] };
    let carry = |pair: &mut Pair, recorded: &mut Recorded| {
        for _ in 0..40 {
            let up = drain(&mut pair.out);
            pair.served.end.receive(pair.now, &up, &mut pair.served.out).unwrap();
            pair.served.complete_all(pair.now);
            let down = drain(&mut pair.served.out);
            pair.initiator.receive(pair.now, &down, &mut pair.out).unwrap();
            recorded.up.extend(up);
            recorded.down.extend(down);
        }
    };
    carry(&mut pair, &mut recorded);
    recorded.login = [recorded.up.len(), recorded.down.len()];
    let count = submit_some(&mut pair.initiator, &mut pair.out);
    carry(&mut pair, &mut recorded);
    assert_eq!(pair.initiator.done().len(), count);
    recorded
}

/// Spoils a stream: some bytes changed, a piece left out, twice, or moved.
fn spoil(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + rng.below(4) {
        if bytes.len() < 96 {
            break;
        }
        // Headers are where it hurts, so most changes go to a multiple of four near one.
        let len = bytes.len() as u64;
        let at = if rng.below(2) == 0 { rng.below(len) } else { rng.below(len / 4) * 4 } as usize;
        let piece = (1 + rng.below(120) as usize).min(bytes.len() - at);
        match rng.below(6) {
            0 | 1 => bytes[at] = rng.next() as u8,
            2 => bytes[at] ^= 1 << rng.below(8),
            3 => drop(bytes.drain(at..at + piece)),
            4 => {
                let copy = bytes[at..at + piece].to_vec();
                bytes.splice(at..at, copy);
            }
            _ => bytes[at..at + piece].fill([0x00, 0xff][rng.below(2) as usize]),
        }
    }
    bytes
}

fn ready_target(setup: &Setup, recorded: &Recorded) -> Served {
    let mut served = Served::new(setup);
    let login = &recorded.up[..recorded.login[0]];
    served.end.receive(Nanos(0), login, &mut served.out).unwrap();
    served.complete_all(Nanos(0));
    drain(&mut served.out);
    served
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_before_login(bytes in prop::collection::vec(any::<u8>(), 0..3000), seed: u64) {
        let mut rng = Rng(seed);
        let mut served = Served::new(&Setup::default());
        feed_target(&mut served, &bytes, &mut rng);
        let mut login = bytes;
        login.splice(0..0, [0x43, 0x87, 0, 0, 0, 0]);
        feed_target(&mut Served::new(&Setup::default()), &login, &mut rng);
        let mut pair = Pair::new(&Setup::default());
        pair.initiator.tick(Nanos(0), &mut pair.out).unwrap();
        feed_initiator(&mut pair.initiator, &mut pair.out, &login, &mut rng);
    }

    #[test]
    fn random_pdus_after_login(
        headers in prop::collection::vec((0..64_u8, any::<[u8; 12]>(), any::<u64>()), 1..60),
        seed: u64,
    ) {
        let mut rng = Rng(seed);
        let mut raw = Raw::ready(&setup(false), &[]);
        // Headers with the right opcode and number, and anything else in their other fields.
        let mut stream = Vec::new();
        for (opcode, some, lots) in headers {
            let mut header = [0_u8; 48];
            let usual = [1, 5, 2, 4, 0][rng.below(5) as usize];
            header[0] = if rng.below(2) == 0 { usual } else { opcode };
            header[0] |= if rng.below(4) == 0 { 0x40 } else { 0 };
            header[1] = some[0];
            header[9] = 1 + rng.below(2) as u8;
            header[6..8].copy_from_slice(&(rng.below(3000) as u16).to_be_bytes());
            if rng.below(3) == 0 {
                header[6..8].fill(0);
            }
            header[19] = rng.below(6) as u8;
            header[20..24].copy_from_slice(&(rng.below(9000) as u32).to_be_bytes());
            if rng.below(3) == 0 {
                header[20..24].copy_from_slice(&[[0xff; 4], [0; 4]][rng.below(2) as usize]);
            }
            header[24..28].copy_from_slice(&raw.number.to_be_bytes());
            if header[0] & 0x40 == 0 && matches!(header[0], 0 | 1 | 2 | 4 | 6) {
                raw.number += 1;
            }
            header[32..44].copy_from_slice(&some);
            if rng.below(2) == 0 {
                let codes = [0x28, 0x2a, 0x88, 0x8a, 0x42, 0x93, 0x35, 0xa0, 0x12, 0x1a, 0x5a];
                header[32..48].fill(0);
                header[32] = codes[rng.below(codes.len() as u64) as usize];
                header[37..42].copy_from_slice(&lots.to_le_bytes()[..5]);
                header[38] &= 3;
            }
            let len = usize::from(u16::from_be_bytes([header[6], header[7]]));
            stream.extend(header);
            stream.extend(vec![some[1]; len.next_multiple_of(4)]);
        }
        feed_target(&mut raw.served, &stream, &mut rng);
    }

    #[test]
    fn spoiled_streams_at_the_target(seed: u64, digests: bool, whole: bool) {
        let mut rng = Rng(seed);
        let setup = setup(digests);
        let recorded = recorded(digests);
        if whole {
            let stream = spoil(&recorded.up, &mut rng);
            feed_target(&mut Served::new(&setup), &stream, &mut rng);
        } else {
            let mut served = ready_target(&setup, recorded);
            let stream = spoil(&recorded.up[recorded.login[0]..], &mut rng);
            feed_target(&mut served, &stream, &mut rng);
        }
    }

    #[test]
    fn spoiled_streams_at_the_initiator(seed: u64, digests: bool, whole: bool) {
        let mut rng = Rng(seed);
        let setup = setup(digests);
        let recorded = recorded(digests);
        let mut pair = Pair::new(&setup);
        let (end, out) = (&mut pair.initiator, &mut pair.out);
        end.tick(Nanos(0), out).unwrap();
        let (login, rest) = recorded.down.split_at(recorded.login[1]);
        if whole {
            feed_initiator(end, out, &spoil(&recorded.down, &mut rng), &mut rng);
            return Ok(());
        }
        end.receive(Nanos(0), login, out).unwrap();
        prop_assert!(matches!(end.phase(), Phase::Ready(_)));
        submit_some(end, out);
        feed_initiator(end, out, &spoil(rest, &mut rng), &mut rng);
    }
}
