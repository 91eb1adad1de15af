//! I/Os from our initiator to our target, against a model of the volume.

use block::{Buf, Fault, Geometry, Nanos, Op, Pool};
use proptest::prelude::*;
use proto::nvme::pdu::kind;
use proto::{Initiator, Phase};

use crate::joined::{Joined, config};
use crate::server::{Server, Store};

const DIGESTS: [[bool; 2]; 4] = [[false, false], [true, false], [false, true], [true, true]];

fn bytes(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8)
        .collect()
}

#[test]
fn the_shape_of_the_namespace_is_learned() {
    for (nsid, block_bytes) in [(1, 512), (2, 4096)] {
        let joined = Joined::usual(nsid);
        let expect = Geometry { volatile: true, ..Geometry::new(4 << 20, block_bytes) };
        assert_eq!(joined.admin.host.phase(), Phase::Ready(expect));
        assert_eq!(joined.queue.host.phase(), Phase::Ready(expect));
        let association = joined.admin.host.ready().unwrap();
        assert_eq!((association.controller.id, association.queues), (1, 1));
        assert_eq!(association.max_queue_entries, 1024);
        assert_eq!(association.max_transfer_bytes, 1 << 20);
        assert_eq!(association.in_capsule_bytes, 16 << 10);
        assert!(association.write_zeroes && association.trim && association.disconnect);
        assert_eq!(joined.queue.host.room(), 128);
        assert_eq!(joined.queue.peer.end.queue_id(), Some(1));
    }
}

#[test]
fn every_length_and_digest_is_moved_whole() {
    for digests in DIGESTS {
        for nsid in [1, 2] {
            let settings = config(nsid, digests[0], digests[1]);
            let mut joined = Joined::new(Server::usual(), settings, usize::MAX);
            for (round, kib) in [4, 8, 16, 20, 128, 256, 260, 1024, 3000].into_iter().enumerate() {
                let offset = 64 << 10;
                let data = bytes(round as u32, kib << 10);
                assert_eq!(joined.write(offset, &data), Ok(()), "{kib} KiB");
                let stored = joined.server.stores[nsid as usize - 1].bytes(offset, data.len());
                assert!(stored == data, "write of {kib} KiB, {digests:?}");
                assert!(joined.read(offset, data.len() as u32).unwrap() == data, "{kib} KiB");
            }
            joined.check_pool();
        }
    }
}

#[test]
fn the_stream_may_be_cut_anywhere() {
    for digests in DIGESTS {
        for chunk in (1..=30).chain([71, 72, 73, 75, 76, 77, 127, 128, 129, 4095, 4096]) {
            let mut server = Server::usual();
            server.config.max_h2c_data_bytes = 8192;
            let mut joined = Joined::new(server, config(1, digests[0], digests[1]), chunk);
            // One write with in-capsule data, and one with an R2T.
            for len in [512, 20 << 10] {
                let data = bytes(chunk as u32, len);
                assert_eq!(joined.write(1024, &data), Ok(()));
                assert_eq!(joined.read(1024, len as u32).unwrap(), data, "chunk {chunk}");
            }
            assert_eq!(joined.run(Op::Trim, 1024, 512, None).result, Ok(()));
            assert_eq!(joined.run(Op::WriteZeroes, 8192, 512, None).result, Ok(()));
            assert_eq!(joined.run(Op::Flush, 0, 0, None).result, Ok(()));
            assert_eq!(joined.read(1024, 512).unwrap(), [0; 512]);
            joined.check_pool();
        }
    }
}

#[test]
fn operations_reach_the_volume_as_they_are() {
    let mut joined = Joined::usual(1);
    joined.run(Op::Flush, 0, 0, None);
    joined.run(Op::Trim, 4096, 8192, None);
    joined.run(Op::WriteZeroes, 512, 1024, None);
    let log = std::mem::take(&mut joined.server.stores[0].log);
    let expect = [(Op::Flush, 0, 0), (Op::Trim, 4096, 8192), (Op::WriteZeroes, 512, 1024)];
    assert_eq!(log, expect.map(|(op, offset, len)| (op, offset, len, false)));
}

#[test]
fn force_unit_access_is_passed_on() {
    let mut joined = Joined::usual(2);
    for fua in [false, true] {
        let buf = Some(Buf::new(4096).unwrap());
        let io = block::Io { tag: block::Tag(9), op: Op::Write, fua, len: 4096, offset: 0, buf };
        joined.queue.host.submit(joined.server.now, io, &mut joined.queue.out);
        joined.settle();
    }
    let flags: Vec<bool> = joined.server.stores[1].log.iter().map(|entry| entry.3).collect();
    assert_eq!(flags, [false, true]);
}

#[test]
fn zeroing_and_trimming_have_no_limit() {
    let mut server = Server::new(vec![Store::new(80 << 20, 512, true)]);
    server.config.max_transfer_bytes = 128 << 10;
    let mut joined = Joined::new(server, config(1, false, false), usize::MAX);
    // 32 MiB are the most that a Write Zeroes of 512 byte blocks says.
    assert_eq!(joined.run(Op::WriteZeroes, 512, 70 << 20, None).result, Ok(()));
    let lens: Vec<u32> = joined.server.stores[0].log.iter().map(|entry| entry.2).collect();
    assert_eq!(lens, [32 << 20, 32 << 20, 6 << 20]);
    assert!(joined.server.stores[0].bytes(512, 70 << 20).iter().all(|byte| *byte == 0));
    assert_eq!(joined.run(Op::Trim, 0, 80 << 20, None).result, Ok(()));
    assert_eq!(joined.server.stores[0].log[3], (Op::Trim, 0, 80 << 20, false));
}

#[test]
fn long_ios_become_several_commands() {
    let mut server = Server::usual();
    server.config.max_transfer_bytes = 64 << 10;
    let mut joined = Joined::new(server, config(2, false, false), usize::MAX);
    let data = bytes(3, 1000 << 10);
    assert_eq!(joined.write(4096, &data), Ok(()));
    assert!(joined.read(4096, data.len() as u32).unwrap() == data);
    assert!(joined.server.stores[1].log.iter().all(|entry| entry.2 <= 64 << 10));
}

#[test]
fn faults_come_back_as_themselves() {
    for fault in [
        Fault::Medium,
        Fault::OutOfRange,
        Fault::ReadOnly,
        Fault::NoSpace,
        Fault::Unsupported,
        Fault::Disconnected,
        Fault::Aborted,
    ] {
        let mut joined = Joined::usual(2);
        joined.server.stores[1].fault = Some(fault);
        for len in [4096, 300 << 10] {
            let buf = || Some(Buf::new(len as usize).unwrap());
            for (op, buf) in [(Op::Read, buf()), (Op::Write, buf()), (Op::Trim, None)] {
                let done = joined.run(op, 8192, len, buf);
                assert_eq!(done.result, Err(fault), "{op:?} of {len}");
            }
        }
        assert_eq!(joined.run(Op::WriteZeroes, 0, 4096, None).result, Err(fault));
        // No retry of a flush is allowed.
        let flush = if fault == Fault::Disconnected { Fault::Medium } else { fault };
        assert_eq!(joined.run(Op::Flush, 0, 0, None).result, Err(flush));
        joined.check_pool();
    }
}

#[test]
fn what_lies_outside_is_refused_before_it_is_sent() {
    let mut joined = Joined::usual(1);
    let sent = joined.queue.carried[0];
    assert_eq!(joined.read(4 << 20, 512), Err(Fault::OutOfRange));
    assert_eq!(joined.read(100, 512), Err(Fault::OutOfRange));
    assert_eq!(joined.run(Op::Read, 0, 0, Some(Buf::new(1).unwrap())).result, Ok(()));
    assert_eq!(joined.queue.carried[0], sent);
}

#[test]
fn a_read_only_volume_is_known_to_be_one() {
    let mut store = Store::new(1 << 20, 512, true);
    store.geometry.read_only = true;
    store.geometry.volatile = false;
    let geometry = store.geometry;
    let mut joined = Joined::new(Server::new(vec![store]), config(1, false, false), 4096);
    assert_eq!(joined.queue.host.phase(), Phase::Ready(geometry));
    assert_eq!(joined.write(0, &[0; 512]), Err(Fault::ReadOnly));
    assert!(joined.read(0, 512).is_ok());
}

#[test]
fn many_ios_keep_their_data_apart() {
    for backwards in [false, true] {
        for nsid in [1, 2] {
            let mut server = Server::usual();
            server.backwards = backwards;
            let mut joined = Joined::new(server, config(nsid, false, false), 10_000);
            let len = 12 << 10;
            for i in 0..128 {
                let mut buf = Buf::new(len as usize).unwrap();
                buf.copy_from_slice(&bytes(i, len as usize));
                joined.submit(Op::Write, u64::from(i * len), len, Some(buf));
            }
            assert_eq!(joined.queue.host.room(), 0);
            assert_eq!(joined.settle().len(), 128);
            assert_eq!(joined.queue.host.room(), 128);
            for i in 0..128 {
                let buf = Some(Buf::new(len as usize).unwrap());
                joined.submit(Op::Read, u64::from(i * len), len, buf);
            }
            for done in joined.settle() {
                let i = (done.tag.0 - 129) as u32;
                assert!(done.buf.unwrap()[..] == bytes(i, len as usize), "read {i}");
            }
            joined.check_pool();
        }
    }
}

#[test]
fn parts_of_a_long_read_may_come_back_in_any_order() {
    for nsid in [1, 2] {
        for digest in [false, true] {
            let mut server = Server::usual();
            server.backwards = true;
            let mut joined = Joined::new(server, config(nsid, digest, digest), usize::MAX);
            let expect = joined.server.stores[nsid as usize - 1].bytes(8192, 1 << 20);
            assert!(joined.read(8192, 1 << 20).unwrap() == expect);
            joined.check_pool();
        }
    }
}

#[test]
fn a_dry_pool_delays_and_loses_nothing() {
    let mut server = Server::usual();
    // One large buffer for parts of I/Os; outboxes allocate the rest.
    server.pool = Pool::new(1, 1);
    let mut joined = Joined::new(server, config(2, false, false), usize::MAX);
    for i in 0..64_u32 {
        let (op, len) = if i % 2 == 0 { (Op::Read, 512 << 10) } else { (Op::Write, 64 << 10) };
        let mut buf = Buf::new(len as usize).unwrap();
        buf.fill(i as u8);
        joined.submit(op, u64::from(i % 4) << 20, len, Some(buf));
    }
    let mut done = 0;
    for _ in 0..1000 {
        done += joined.settle().len();
        joined.server.now = joined.server.now + Nanos::from_millis(10);
    }
    assert_eq!(done, 64);
}

#[test]
fn reads_that_succeed_need_no_completion() {
    let mut joined = Joined::usual(1);
    let expect = joined.server.stores[0].bytes(0, 4096);
    let buf = Some(Buf::new(4096).unwrap());
    joined.submit(Op::Read, 0, 4096, buf);
    let there = crate::server::sent(&mut joined.queue.out);
    joined.queue.peer.receive(&mut joined.server, &there, usize::MAX);
    let back = joined.queue.peer.sent();
    assert_eq!(back.len(), 24 + 4096);
    assert_eq!((back[0], back[1]), (kind::C2H_DATA, 0x0c));
    assert_eq!(back[24..], expect);
    // The test took the response, so the read is still in flight at the host.
    joined.queue.host.abandon();
    let lost = joined.queue.host.done().pop().unwrap();
    assert_eq!((lost.result, lost.buf.is_some()), (Err(Fault::Disconnected), true));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Random reads, writes, trims and zeroings have the same result as on a vector of bytes.
    #[test]
    fn random_ios_agree_with_a_model(
        nsid in 1_u32..=2,
        digests in 0_usize..4,
        chunk in 1_usize..5000,
        backwards: bool,
        ops in prop::collection::vec((0_u8..5, 0_u32..64, 1_u32..100, any::<u32>()), 1..24),
    ) {
        let [header_digest, data_digest] = DIGESTS[digests];
        let mut server = Server::usual();
        server.backwards = backwards;
        let settings = config(nsid, header_digest, data_digest);
        let mut joined = Joined::new(server, settings, chunk);
        let block = [512, 4096][nsid as usize - 1];
        let mut model = joined.server.stores[nsid as usize - 1].bytes(0, 4 << 20);
        for (op, at, count, seed) in ops {
            let (at, len) = ((at * block) as usize, (count * block) as usize);
            let range = at..at + len;
            let (offset, len) = (at as u64, len as u32);
            match op {
                0 | 1 => prop_assert!(joined.read(offset, len).unwrap() == model[range]),
                2 => {
                    let data = bytes(seed, len as usize);
                    prop_assert_eq!(joined.write(offset, &data), Ok(()));
                    model[range].copy_from_slice(&data);
                }
                _ => {
                    let op = if op == 3 { Op::Trim } else { Op::WriteZeroes };
                    prop_assert_eq!(joined.run(op, offset, len, None).result, Ok(()));
                    model[range].fill(0);
                }
            }
        }
        let stored = joined.server.stores[nsid as usize - 1].bytes(0, 4 << 20);
        prop_assert!(stored == model);
        joined.check_pool();
    }
}
