//! Reads and writes of all shapes, with the stream split everywhere, checked against a model.

use block::{Buf, Done, Fault, Geometry, Io, Op, Pool, Tag};
use proto::iscsi::{Stage, TargetConfig};
use proto::{Initiator, Phase};

use crate::harness::{INITIATOR, Pair, Rng, Setup, TARGET, drain, io, pattern};

#[test]
fn logs_in_reads_writes_and_logs_out() {
    let mut pair = Pair::ready(&Setup::default());
    assert_eq!(pair.served.end.stage(), Stage::Normal);
    assert_eq!(pair.served.end.initiator_name(), Some(INITIATOR));
    assert_eq!(pair.served.end.target_name(), Some(TARGET));
    let data = pattern(1, 4096);
    pair.write(8192, &data).unwrap();
    assert!(pair.read(8192, 4096).unwrap() == data);
    assert!(pair.read(4096, 4096).unwrap() == [0; 4096]);
    let mut there = vec![0; 4096];
    pair.served.disk.read(8192, &mut there);
    assert!(there == data);
    let done = pair.run(io(Op::Flush, 0, 0, None));
    assert_eq!(done.result, Ok(()));
    pair.assert_idle();
    pair.close();
}

#[test]
fn learns_the_shape_of_the_volume() {
    for block_bytes in [512, 4096, 65536] {
        let setup = Setup { block_bytes, ..Setup::default() };
        let pair = Pair::ready(&setup);
        let Phase::Ready(geometry) = pair.initiator.phase() else { panic!("not ready") };
        let expect = Geometry::new(setup.bytes, block_bytes);
        assert_eq!((geometry.blocks, geometry.block_bytes), (expect.blocks, block_bytes));
        assert!(!geometry.read_only);
    }
}

/// A few I/Os of every kind through a pair; panics when anything differs from the model.
fn exercise(pair: &mut Pair, seed: u64, rounds: u64, blocks_max: u64) {
    let Phase::Ready(geometry) = pair.initiator.phase() else { panic!("not ready") };
    let block = u64::from(geometry.block_bytes);
    let mut rng = Rng(seed);
    let mut model = vec![0_u8; geometry.bytes() as usize];
    pair.served.disk.read(0, &mut model);
    let mut reads: Vec<(Tag, Vec<u8>)> = Vec::new();
    let mut tag = seed << 32;
    for _ in 0..rounds {
        // Ranges of I/Os that are in flight together are apart, or they could pass each other.
        let mut at = rng.below(geometry.blocks);
        for _ in 0..1 + rng.below(6) {
            let blocks = 1 + rng.below(blocks_max);
            let (offset, len) = (at * block, (blocks * block) as usize);
            at += blocks + rng.below(3);
            if at > geometry.blocks || len > Pool::LARGE_BYTES || pair.initiator.room() == 0 {
                break;
            }
            let range = offset as usize..offset as usize + len;
            tag += 1;
            let tag = Tag(tag);
            let op = [Op::Read, Op::Write, Op::Trim, Op::WriteZeroes, Op::Flush]
                [[0, 0, 0, 1, 1, 1, 1, 2, 3, 4][rng.below(10) as usize]];
            let fua = op == Op::Write && rng.below(4) == 0;
            let mut buf = None;
            let (mut from, mut io_len) = (offset, len as u32);
            match op {
                Op::Read => {
                    reads.push((tag, model[range].to_vec()));
                    buf = Some(pair.buf(len));
                }
                Op::Write => {
                    let data = pattern(rng.next(), len);
                    model[range].copy_from_slice(&data);
                    let mut held = pair.buf(len);
                    held[..len].copy_from_slice(&data);
                    buf = Some(held);
                }
                Op::Trim | Op::WriteZeroes => model[range].fill(0),
                Op::Flush => (from, io_len) = (0, 0),
            }
            pair.submit(Io { tag, op, fua, len: io_len, offset: from, buf });
        }
        pair.drive();
        check(pair, &mut reads);
    }
    let mut there = vec![0; model.len()];
    pair.served.disk.read(0, &mut there);
    assert!(there == model, "the disk differs from the model, seed {seed}");
    pair.assert_idle();
}

fn check(pair: &mut Pair, reads: &mut Vec<(Tag, Vec<u8>)>) {
    let done: Vec<Done> = pair.initiator.done().drain(..).collect();
    for Done { tag, result, buf, .. } in done {
        assert_eq!(result, Ok(()));
        if let Some(at) = reads.iter().position(|read| read.0 == tag) {
            let (_, expect) = reads.swap_remove(at);
            assert!(buf.as_ref().unwrap()[..expect.len()] == expect, "read data differs");
        }
        buf.into_iter().for_each(|buf: Buf| pair.out.pool().give(buf));
    }
    assert!(reads.is_empty(), "reads without an answer");
}

#[test]
fn every_chunk_size() {
    let sizes = (1..=600).chain([1000, 4095, 4096, 8191, 65_537]);
    for chunk in sizes {
        let digests = chunk % 4;
        let setup = Setup {
            header_digest: digests & 1 != 0,
            data_digest: digests & 2 != 0,
            in_place: chunk % 3 != 0,
            bytes: 64 << 10,
            ..Setup::default()
        };
        let mut pair = Pair::new(&setup);
        pair.chunk = chunk;
        pair.open();
        exercise(&mut pair, chunk as u64, 2, 16);
        pair.close();
    }
}

#[test]
fn random_splits_and_completion_in_any_order() {
    for seed in 0..32 {
        let mut rng = Rng(seed);
        let setup = Setup {
            header_digest: seed & 1 != 0,
            data_digest: seed & 2 != 0,
            in_place: seed & 4 != 0,
            block_bytes: if seed & 8 == 0 { 512 } else { 4096 },
            bytes: 2 << 20,
            ..Setup::default()
        };
        let mut pair = Pair::new(&setup);
        pair.chunk = 64 << rng.below(12);
        pair.rng = Some(rng);
        pair.open();
        pair.shuffle = true;
        exercise(&mut pair, seed, 12, 64);
        pair.close();
    }
}

#[test]
fn every_way_that_writes_may_go() {
    let mut count = 0;
    for (receive, burst, first) in [
        (512, 512, 512),
        (1024, 4096, 512),
        (4096, 1024, 1024),
        (8192, 65_536, 8192),
        (65_536, 262_144, 65_536),
        (262_144, 1 << 20, 262_144),
        (513, 1000, 700),
    ] {
        for digests in [0, 3] {
            let setup = Setup {
                header_digest: digests & 1 != 0,
                data_digest: digests & 2 != 0,
                in_place: count % 2 == 0,
                bytes: 2 << 20,
                target: TargetConfig {
                    max_recv_data_segment_bytes: receive,
                    max_burst_bytes: burst,
                    first_burst_bytes: first,
                    ..TargetConfig::default()
                },
                ..Setup::default()
            };
            count += 1;
            let mut pair = Pair::new(&setup);
            pair.chunk = 5000;
            pair.rng = Some(Rng(count));
            pair.open();
            pair.shuffle = true;
            exercise(&mut pair, count, 12, 512);
            pair.close();
        }
    }
}

#[test]
fn a_megabyte_in_one_buffer_is_many_commands_of_the_pool_and_one_of_its_own() {
    for (block_bytes, in_place) in [(512, true), (4096, false), (512, false), (4096, true)] {
        for data_digest in [false, true] {
            let setup = Setup { block_bytes, in_place, data_digest, ..Setup::default() };
            let mut pair = Pair::ready(&setup);
            pair.rng = Some(Rng(9));
            pair.chunk = 100_000;
            pair.shuffle = true;
            let data = pattern(3, 1 << 20);
            let mut buf = Buf::new(1 << 20).unwrap();
            buf.copy_from_slice(&data);
            let done = pair.run(io(Op::Write, 4096, 1 << 20, Some(buf)));
            assert_eq!(done.result, Ok(()));
            let mut there = vec![0; 1 << 20];
            pair.served.disk.read(4096, &mut there);
            assert!(there == data);
            let mut buf = done.buf.unwrap();
            buf.fill(0);
            let done = pair.run(io(Op::Read, 4096, 1 << 20, Some(buf)));
            assert_eq!(done.result, Ok(()));
            assert!(done.buf.unwrap()[..] == data[..]);
            pair.assert_idle();
        }
    }
}

#[test]
fn fua_reaches_the_volume() {
    let mut pair = Pair::ready(&Setup::default());
    for fua in [false, true] {
        pair.served.seen.clear();
        let buf = pair.buf(512);
        let done = pair.run(Io { fua, ..io(Op::Write, 512, 512, Some(buf)) });
        pair.out.pool().give(done.buf.unwrap());
        assert_eq!(pair.served.seen, [(Op::Write, 512, 512, fua)]);
    }
}

#[test]
fn faults_come_back_as_faults() {
    let mut pair = Pair::ready(&Setup::default());
    for op in [Op::Read, Op::Write, Op::Flush, Op::Trim] {
        for (fault, expect) in [
            (Fault::Medium, Fault::Medium),
            (Fault::ReadOnly, Fault::ReadOnly),
            (Fault::NoSpace, Fault::NoSpace),
            (Fault::OutOfRange, Fault::OutOfRange),
            (Fault::Unsupported, Fault::Unsupported),
            (Fault::Miscompare, Fault::Miscompare),
            (Fault::Aborted, Fault::Aborted),
            (Fault::Disconnected, Fault::Aborted),
        ] {
            pair.served.faults.push_back(fault);
            let len = if op == Op::Flush { 0 } else { 4096 };
            let buf = matches!(op, Op::Read | Op::Write).then(|| pair.buf(4096));
            let done = pair.run(io(op, 0, len, buf));
            done.buf.into_iter().for_each(|buf| pair.out.pool().give(buf));
            // A unit without a cache may not support flushes.
            let expect = match (op, fault) {
                (Op::Flush, Fault::Unsupported) => Ok(()),
                // No retry is allowed.
                (Op::Flush, Fault::Disconnected) => Err(Fault::Medium),
                _ => Err(expect),
            };
            assert_eq!(done.result, expect, "{op:?} {fault:?}");
        }
    }
    pair.assert_idle();
}

#[test]
fn one_bad_part_fails_the_whole_read_and_write() {
    for op in [Op::Read, Op::Write] {
        for bad in 0..4 {
            let mut pair = Pair::ready(&Setup::default());
            // The part after the failed one was already requested.
            pair.submit(io(op, 0, 1 << 20, Some(Buf::new(1 << 20).unwrap())));
            for _ in 0..bad {
                pair.served.faults.push_back(Fault::Miscompare);
            }
            pair.served.faults.truncate(1);
            if bad == 0 {
                pair.served.faults.clear();
            }
            pair.rng = Some(Rng(bad));
            pair.shuffle = true;
            pair.drive();
            let done = pair.initiator.done().pop().unwrap();
            let expect = if bad == 0 { Ok(()) } else { Err(Fault::Miscompare) };
            assert_eq!(done.result, expect);
            pair.assert_idle();
            assert!(pair.write(0, &[1; 512]).is_ok(), "the session goes on");
        }
    }
}

#[test]
fn what_cannot_be_is_answered_without_asking() {
    let mut pair = Pair::ready(&Setup::default());
    for (offset, len) in [(8 << 20, 512), (1, 512), (0, 513), (u64::MAX - 511, 512)] {
        let buf = pair.buf(1024);
        pair.submit(io(Op::Read, offset, len, Some(buf)));
        let done = pair.initiator.done().pop().unwrap();
        assert_eq!(done.result, Err(Fault::OutOfRange));
        pair.out.pool().give(done.buf.unwrap());
    }
    assert!(drain(&mut pair.out).is_empty());
    pair.assert_idle();
}

#[test]
fn a_target_without_buffers_makes_reads_wait_and_loses_none() {
    let setup = Setup { in_place: false, pool: [2, 1], ..Setup::default() };
    let mut pair = Pair::ready(&setup);
    let data = pattern(5, 1 << 20);
    pair.served.disk.write(0, &data);
    let lens = [512, 512, 4096, 300 << 10, 512, 1 << 20, 512, 16 << 10];
    for (index, len) in lens.into_iter().enumerate() {
        let buf = Buf::new(len).unwrap();
        let tag = Tag(index as u64);
        pair.submit(Io { tag, ..io(Op::Read, 0, len as u32, Some(buf)) });
    }
    pair.drive();
    // The outbox has returned its buffers by now; a tick retries the waiting commands.
    for _ in 0..100 {
        let Some(due) = proto::Endpoint::deadline(&pair.served.end) else { break };
        pair.now = pair.now.max(due);
        let (now, served) = (pair.now, &mut pair.served);
        proto::Endpoint::tick(&mut served.end, now, &mut served.out).unwrap();
        pair.drive();
        if pair.initiator.done().len() == lens.len() {
            break;
        }
    }
    let done: Vec<Done> = pair.initiator.done().drain(..).collect();
    assert_eq!(done.len(), lens.len());
    for done in done {
        assert_eq!(done.result, Ok(()));
        let len = lens[done.tag.0 as usize];
        assert!(done.buf.unwrap()[..] == data[..len]);
    }
    assert!(pair.served.end.target_name().is_some());
}

#[test]
fn writes_beyond_the_pool_of_the_target_are_not_lost() {
    let setup = Setup { in_place: false, pool: [1, 1], ..Setup::default() };
    let mut pair = Pair::ready(&setup);
    for index in 0..8_u64 {
        let len = [512, 200 << 10, 1 << 20][index as usize % 3];
        let mut buf = Buf::new(len).unwrap();
        buf.fill(index as u8 + 1);
        let tag = Tag(index);
        pair.submit(Io { tag, ..io(Op::Write, index << 20, len as u32, Some(buf)) });
    }
    for _ in 0..100 {
        pair.drive();
        if pair.initiator.done().len() == 8 {
            break;
        }
        let due = proto::Endpoint::deadline(&pair.served.end).unwrap();
        pair.now = pair.now.max(due);
        let (now, served) = (pair.now, &mut pair.served);
        proto::Endpoint::tick(&mut served.end, now, &mut served.out).unwrap();
    }
    assert_eq!(pair.initiator.done().len(), 8);
    for index in 0..8_u64 {
        let mut there = [0; 512];
        pair.served.disk.read(index << 20, &mut there);
        assert_eq!(there, [index as u8 + 1; 512]);
    }
}

#[test]
fn a_cut_connection_answers_everything_and_keeps_no_buffer() {
    for seed in 0..40 {
        let setup = Setup { in_place: seed % 2 == 0, ..Setup::default() };
        let mut pair = Pair::ready(&setup);
        let mut rng = Rng(seed);
        for index in 0..10 {
            let op = if rng.below(2) == 0 { Op::Read } else { Op::Write };
            let len = 512 << rng.below(9);
            let buf = pair.buf(len as usize);
            pair.submit(Io { tag: Tag(index), ..io(op, 0, len, Some(buf)) });
        }
        // Some bytes arrive, some I/Os are done, then the line is cut at either end.
        pair.chunk = 1 + rng.below(5000) as usize;
        let upward = drain(&mut pair.out);
        let arrived = &upward[..rng.below(upward.len() as u64) as usize];
        for part in arrived.chunks(pair.chunk) {
            let served = &mut pair.served;
            proto::Endpoint::receive(&mut served.end, pair.now, part, &mut served.out).unwrap();
        }
        pair.served.take_requests();
        let count = pair.served.flying.len() as u64;
        for _ in 0..rng.below(count + 1) {
            pair.served.complete(pair.now, 0);
        }
        let pool = pair.served.out.pool().clone();
        proto::Target::abandon(&mut pair.served.end, &pool);
        while !pair.served.flying.is_empty() {
            pair.served.complete(pair.now, 0);
        }
        drain(&mut pair.served.out);
        assert_eq!(pool.lent(), [0, 0], "seed {seed}");
        pair.initiator.abandon();
        let done: Vec<Done> = pair.initiator.done().drain(..).collect();
        assert_eq!(done.len(), 10, "seed {seed}");
        for done in done {
            assert_eq!(done.result, Err(Fault::Disconnected));
            pair.out.pool().give(done.buf.unwrap());
        }
        assert_eq!(pair.out.pool().lent(), [0, 0]);
    }
}
