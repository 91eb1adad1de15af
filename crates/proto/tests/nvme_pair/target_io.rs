//! I/O commands at the target, one by one.

use block::{Nanos, Op};
use proto::nvme::pdu::{CommandBuilder, Status, flag, io, kind};
use proto::{Endpoint, Target};

use crate::raw::{Raw, capsule, connect, connect_data, init};
use crate::server::{NQN, Server, Store};

fn command(opcode: u8) -> CommandBuilder {
    CommandBuilder::new(opcode, 7, 1)
}

fn read(start: u64, blocks: u32) -> CommandBuilder {
    command(io::READ).range(start, blocks).transport(blocks * 512)
}

/// An I/O queue of `entries`, with the attributes of its Connect and an ICReq of that kind.
fn queue(entries: u16, attributes: u8, alignment: u8, digests: [bool; 2]) -> Raw {
    queue_of(Server::usual(), entries, attributes, alignment, digests)
}

fn queue_of(
    server: Server,
    entries: u16,
    attributes: u8,
    alignment: u8,
    digests: [bool; 2],
) -> Raw {
    let Raw { server, peer, .. } = Raw::admin(server);
    // The admin queue is not needed any more, but its controller is.
    std::mem::forget(peer);
    let mut raw = Raw::fresh(server);
    raw.send(&init(alignment, digests));
    raw.pdus();
    raw.digests = digests;
    let connect = connect(1, entries - 1).field(46, [attributes]);
    assert!(raw.ask(connect, &connect_data(1, NQN)).status().is_success());
    raw
}

#[test]
fn reads_are_answered_with_the_alignment_and_digests_agreed_on() {
    for alignment in 0..32 {
        for digests in [[false, false], [true, false], [false, true], [true, true]] {
            let mut raw = queue(32, 4, alignment, digests);
            for namespace in [1, 2] {
                let blocks = if namespace == 1 { 8 } else { 1 };
                let command = CommandBuilder::new(io::READ, 7, namespace);
                raw.command(command.range(1, blocks).transport(4096), &[]);
                let pdus = raw.pdus();
                let [pdu] = &pdus[..] else { panic!("{pdus:?}") };
                let least = if digests[0] { 28 } else { 24_usize };
                let start = least.next_multiple_of((usize::from(alignment) + 1) * 4);
                assert_eq!(usize::from(pdu.header[3]), start);
                assert_eq!(pdu.flags() & 0x0c, flag::LAST | flag::SUCCESS);
                let offset = if namespace == 1 { 512 } else { 4096 };
                assert_eq!(pdu.data, raw.server.stores[namespace as usize - 1].bytes(offset, 4096));
            }
        }
    }
}

#[test]
fn ranges_and_transfers_have_limits() {
    let mut raw = queue(32, 4, 0, [false; 2]);
    let blocks = 8192;
    for (start, count, status) in [
        (blocks - 1, 1, Status::SUCCESS),
        (blocks - 1, 2, Status::LBA_OUT_OF_RANGE),
        (blocks, 1, Status::LBA_OUT_OF_RANGE),
        (u64::MAX, 1, Status::LBA_OUT_OF_RANGE),
        (u64::MAX, 65536, Status::LBA_OUT_OF_RANGE),
        (0, 2048, Status::SUCCESS),
        (0, 2049, Status::INVALID_FIELD),
    ] {
        raw.command(read(start, count), &[]);
        let last = raw.pdus().pop().unwrap();
        match last.kind() {
            kind::C2H_DATA => assert!(status.is_success()),
            _ => assert_eq!(last.status(), status, "{start} {count}"),
        }
    }
    for namespace in [0, 3, u32::MAX] {
        let command = read(0, 1).field(4, namespace.to_le_bytes());
        assert_eq!(raw.ask(command, &[]).status(), Status::INVALID_NAMESPACE);
    }
    assert_eq!(raw.ask(read(0, 1).field(1, [0xc0]), &[]).status(), Status::INVALID_FIELD);
    // Every operation code, with pointers that are no SGLs, and with SGLs.
    let known = [0, 1, 2, 5, 8, 9, 0x0c, 0x0d, 0x0e, 0x11, 0x15, 0x19, 0x7f];
    for opcode in 0..=255 {
        for flags in [0x00, 0xc0, 0x43] {
            let status = raw.ask(command(opcode).field(1, [flags]), &[]).status();
            // Namespace 1 is the field of the fabrics command Connect.
            let fabrics = opcode == 0x7f;
            let expect = if fabrics { Status::SEQUENCE_ERROR } else { Status::INVALID_FIELD };
            assert_eq!(status, expect, "{opcode:#x} {flags:#x}");
        }
        if !known.contains(&opcode) {
            let status = raw.ask(command(opcode), &[]).status();
            assert_eq!(status, Status::INVALID_OPCODE, "{opcode:#x}");
        }
    }
}

#[test]
fn a_read_only_namespace_takes_no_changes() {
    let mut store = Store::new(1 << 20, 512, true);
    store.geometry.read_only = true;
    let (mut raw, _admin) = Raw::io(Server::new(vec![store]));
    let write = command(io::WRITE).range(0, 1);
    assert_eq!(raw.ask(write, &[1; 512]).status(), Status::WRITE_PROTECTED);
    assert_eq!(raw.ask(write.transport(512), &[]).status(), Status::WRITE_PROTECTED);
    let zeroes = command(io::WRITE_ZEROES).range(0, 1);
    assert_eq!(raw.ask(zeroes, &[]).status(), Status::WRITE_PROTECTED);
    let trim = command(io::DATASET_MANAGEMENT);
    assert_eq!(raw.ask(trim.word(11, 4), &[0; 16]).status(), Status::WRITE_PROTECTED);
    assert!(raw.ask(trim, &[0; 16]).status().is_success(), "a hint");
    assert!(raw.ask(command(io::FLUSH), &[]).status().is_success());
    assert!(raw.server.stores[0].log.iter().all(|entry| entry.0 == Op::Flush));
}

#[test]
fn flush_names_one_namespace() {
    let mut raw = queue(32, 4, 0, [false; 2]);
    assert!(raw.ask(command(io::FLUSH), &[]).status().is_success());
    for namespace in [0, 9, u32::MAX] {
        let status = raw.ask(CommandBuilder::new(io::FLUSH, 1, namespace), &[]).status();
        assert_eq!(status, Status::INVALID_NAMESPACE);
    }
    assert_eq!(raw.server.stores[0].log, [(Op::Flush, 0, 0, false)]);
}

#[test]
fn zeroing_may_deallocate() {
    let mut raw = queue(32, 4, 0, [false; 2]);
    let zeroes = command(io::WRITE_ZEROES);
    assert!(raw.ask(zeroes.range(2, 4), &[]).status().is_success());
    let deallocate = zeroes.range(8, 1).field(51, [2]);
    assert!(raw.ask(deallocate, &[]).status().is_success());
    let log = [(Op::WriteZeroes, 1024, 2048, false), (Op::Trim, 4096, 512, false)];
    assert_eq!(raw.server.stores[0].log, log);
    for (start, count) in [(8192, 1), (8191, 2), (u64::MAX, 2)] {
        assert_eq!(raw.ask(zeroes.range(start, count), &[]).status(), Status::LBA_OUT_OF_RANGE);
    }
}

#[test]
fn zeroing_with_force_unit_access_is_durable_before_it_is_answered() {
    for (volatile, deallocate) in [(true, false), (true, true), (false, false)] {
        let mut store = Store::new(4 << 20, 512, true);
        store.geometry.volatile = volatile;
        let (mut raw, _admin) = Raw::io(Server::new(vec![store]));
        let flags = 0x40 | if deallocate { 2 } else { 0 };
        let zeroes = command(io::WRITE_ZEROES).range(2, 4).field(51, [flags]);
        assert!(raw.ask(zeroes, &[]).status().is_success());
        let op = if deallocate { Op::Trim } else { Op::WriteZeroes };
        let mut log = vec![(op, 1024, 2048, false)];
        log.extend(volatile.then_some((Op::Flush, 0, 0, false)));
        assert_eq!(raw.server.stores[0].log, log);
        // Without it there is no flush, and the next one finds no trace of the last.
        assert!(raw.ask(zeroes.field(51, [0]), &[]).status().is_success());
        assert!(raw.ask(command(io::FLUSH), &[]).status().is_success());
        let more = [(Op::WriteZeroes, 1024, 2048, false), (Op::Flush, 0, 0, false)];
        assert_eq!(raw.server.stores[0].log[log.len()..], more);
    }
}

/// The data of a Dataset Management command.
fn ranges(list: &[(u64, u32)]) -> Vec<u8> {
    let range = |(start, count): &(u64, u32)| {
        [&[0xaa; 4][..], &count.to_le_bytes(), &start.to_le_bytes()].concat()
    };
    list.iter().flat_map(range).collect()
}

#[test]
fn ranges_are_deallocated_all_or_none() {
    for in_capsule in [true, false] {
        let mut raw = queue(32, 4, 0, [false; 2]);
        let mut trim = |list: &[(u64, u32)], attributes| {
            let data = ranges(list);
            let trim = command(io::DATASET_MANAGEMENT).word(10, list.len() as u32 - 1);
            let trim = trim.word(11, attributes);
            if in_capsule {
                return raw.ask(trim, &data).status();
            }
            let ready = raw.ask(trim.transport(data.len() as u32), &[]);
            assert_eq!(ready.kind(), kind::R2T);
            raw.send(&crate::flows::host_data(7, ready.u16(10), 0, &data, true));
            raw.pdus().remove(0).status()
        };
        let many: Vec<_> = (0..256).map(|i| (i * 3, 2)).collect();
        assert_eq!(trim(&many, 4), Status::SUCCESS);
        assert_eq!(trim(&[(0, 1), (5, 0), (8191, 1)], 4), Status::SUCCESS);
        assert_eq!(trim(&[(0, 1), (8191, 2)], 4), Status::LBA_OUT_OF_RANGE);
        assert_eq!(trim(&[(u64::MAX, 1)], 4), Status::LBA_OUT_OF_RANGE);
        assert_eq!(trim(&[(8192, 0)], 4), Status::SUCCESS);
        assert_eq!(trim(&[(0, 1)], 3), Status::SUCCESS, "hints only");
        let log = &raw.server.stores[0].log;
        assert_eq!(log.len(), 258);
        assert_eq!(log[255], (Op::Trim, 255 * 3 * 512, 1024, false));
        assert_eq!(log[257], (Op::Trim, 8191 * 512, 512, false));
    }
}

#[test]
fn ranges_come_with_their_data() {
    let mut raw = queue(32, 4, 0, [false; 2]);
    let trim = command(io::DATASET_MANAGEMENT).word(10, 1).word(11, 4);
    assert_eq!(raw.ask(trim, &[0; 16]).status(), Status::SGL_LENGTH_INVALID);
    assert_eq!(raw.ask(trim.transport(31), &[]).status(), Status::SGL_LENGTH_INVALID);
    // Some hosts send more data than needed.
    assert!(raw.ask(trim, &[0; 4096]).status().is_success());
}

#[test]
fn compare_finds_every_difference() {
    for namespace in [1, 2] {
        let (mut raw, _admin) = Raw::io(Server::usual());
        let block = [512, 4096][namespace as usize - 1];
        for len in [8192, 300 << 10] {
            let mut data = raw.server.stores[namespace as usize - 1].bytes(8192, len);
            let blocks = (len / block) as u32;
            let start = (8192 / block) as u64;
            let compare = CommandBuilder::new(io::COMPARE, 7, namespace).range(start, blocks);
            let run = |raw: &mut Raw, data: &[u8]| {
                if data.len() <= 16 << 10 {
                    return raw.ask(compare, data).status();
                }
                raw.command(compare.transport(data.len() as u32), &[]);
                loop {
                    let pdu = raw.pdus().remove(0);
                    if pdu.kind() != kind::R2T {
                        return pdu.status();
                    }
                    let (at, part) = (pdu.u32(12), pdu.u32(16));
                    let range = at as usize..(at + part) as usize;
                    let bytes = crate::flows::host_data(7, pdu.u16(10), at, &data[range], true);
                    raw.send(&bytes);
                }
            };
            assert_eq!(run(&mut raw, &data), Status::SUCCESS);
            for at in [0, len / 2, len - 1] {
                data[at] ^= 1;
                assert_eq!(run(&mut raw, &data), Status::COMPARE_FAILURE, "byte {at} of {len}");
                data[at] ^= 1;
            }
            raw.server.stores[namespace as usize - 1].fault = Some(block::Fault::Medium);
            assert_eq!(run(&mut raw, &data), Status::UNRECOVERED_READ_ERROR);
            raw.server.stores[namespace as usize - 1].fault = None;
            assert_eq!(raw.server.pool.lent(), [0, 0]);
        }
    }
}

#[test]
fn identifiers_are_the_hosts_business() {
    let mut raw = queue(32, 4, 0, [false; 2]);
    // The same identifier twice, and unusual ones.
    for id in [0_u16, 5, 5, 0xffff] {
        let read = capsule(read(0, 1).field(2, id.to_le_bytes()), &[], [false; 2]);
        let peer = &mut raw.peer;
        peer.end.receive(raw.server.now, &read, &mut peer.out).unwrap();
    }
    raw.server.run(&mut raw.peer);
    let ids: Vec<u16> = raw.pdus().iter().map(|pdu| pdu.u16(8)).collect();
    assert_eq!(ids, [0, 5, 5, 0xffff]);
}

#[test]
fn a_full_queue_is_the_end() {
    let mut raw = queue_of(Server::apart(), 32, 4, 0, [false; 2]);
    let read = capsule(read(0, 1), &[], [false; 2]).repeat(32);
    let peer = &mut raw.peer;
    assert!(peer.end.receive(raw.server.now, &read, &mut peer.out).is_ok());
    let result = peer.end.receive(raw.server.now, &read, &mut peer.out);
    assert!(result.is_err());
    raw.peer.ended = result.err();
    assert_eq!(raw.fatal(), (2, 0));
}

#[test]
fn a_host_with_flow_control_learns_of_the_head_in_time() {
    for (entries, always) in [(32_u16, true), (33, true), (2, true), (5, true), (32, false)] {
        let mut server = Server::usual();
        server.config.always_shortcut = always;
        let (mut raw, _admin) = Raw::io(server);
        let Raw { server, .. } = raw;
        raw = Raw::open(server);
        let answer = raw.ask(connect(2, entries - 1), &connect_data(1, NQN)).completion();
        // A host that follows SQHD: it has this many free entries until SQHD advances.
        let (mut head, mut tail) = (answer.head, 1 % entries);
        assert_eq!(head, tail);
        for _ in 0..500 {
            assert_ne!((tail + 1) % entries, head, "the host has no entry left");
            raw.command(read(0, 1), &[]);
            tail = (tail + 1) % entries;
            for pdu in raw.pdus() {
                let shortcut = pdu.flags() & flag::SUCCESS != 0;
                assert!(always || !shortcut);
                if pdu.kind() == kind::CAPSULE_RESP {
                    head = pdu.completion().head;
                    assert_eq!(head, tail);
                }
            }
        }
    }
}

#[test]
fn a_wrong_data_digest_fails_the_command_only() {
    let mut raw = queue(32, 4, 0, [false, true]);
    let mut bytes = capsule(command(io::WRITE).range(0, 1), &[1; 512], raw.digests);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    raw.send(&bytes);
    assert_eq!(raw.pdus()[0].status(), Status::TRANSIENT_TRANSPORT_ERROR);
    assert!(raw.server.stores[0].log.is_empty());
    assert!(raw.ask(command(io::WRITE).range(0, 1), &[1; 512]).status().is_success());
    assert_eq!(raw.server.pool.lent(), [0, 0]);
}

#[test]
fn a_connection_that_goes_gives_everything_back() {
    let mut raw = queue(64, 4, 0, [false; 2]);
    let mut bytes = Vec::new();
    for (id, namespace) in [(1, 1), (2, 2), (3, 1), (4, 2)] {
        let blocks = if namespace == 1 { 800 } else { 100 };
        let opcode = if id < 3 { io::READ } else { io::WRITE };
        let command = CommandBuilder::new(opcode, id, namespace).range(0, blocks);
        bytes.extend(capsule(command.transport(400 << 10), &[], [false; 2]));
    }
    let write = CommandBuilder::new(io::WRITE, 9, 2).range(0, 4);
    let write = capsule(write, &[1; 16 << 10], [false; 2]);
    // The last one stops in the middle of its data.
    bytes.extend([&write[..], &write[..5000]].concat());
    let peer = &mut raw.peer;
    peer.end.receive(raw.server.now, &bytes, &mut peer.out).unwrap();
    raw.server.hold(&mut raw.peer);
    assert_ne!(raw.server.pool.lent(), [0, 0]);
    raw.peer.leave(&mut raw.server);
    assert_eq!(raw.server.pool.lent(), [0, 0]);
    assert!(raw.server.stores[1].log.len() >= 3, "what was asked for is done, into nothing");
}

#[test]
fn commands_wait_for_buffers_in_turn() {
    let mut server = Server::usual();
    server.pool = block::Pool::new(0, 2);
    let (mut raw, _admin) = Raw::io(server);
    let big = CommandBuilder::new(io::READ, 0, 2).range(0, 128).transport(512 << 10);
    let bytes: Vec<u8> =
        (0..8).flat_map(|id| capsule(big.field(2, [id, 0]), &[], [false; 2])).collect();
    raw.send(&bytes);
    let mut len = 0;
    for _ in 0..100 {
        let data: usize = raw.pdus().iter().map(|pdu| pdu.data.len()).sum();
        len += data;
        raw.server.now = raw.server.now + Nanos::from_millis(1);
        assert!(raw.peer.end.deadline().is_some());
        raw.peer.tick(&mut raw.server);
    }
    assert_eq!(len, (8 * 512) << 10);
}

#[test]
fn reads_of_one_connection_hold_so_much_and_no_more() {
    let (mut raw, _admin) = Raw::io(Server::usual());
    let read = CommandBuilder::new(io::READ, 0, 2).range(0, 256).transport(1 << 20);
    let bytes: Vec<u8> =
        (0..100).flat_map(|id| capsule(read.field(2, [id, 0]), &[], [false; 2])).collect();
    let peer = &mut raw.peer;
    peer.end.receive(raw.server.now, &bytes, &mut peer.out).unwrap();
    let mut answers = 0;
    for _ in 0..1000 {
        raw.server.hold(&mut raw.peer);
        let [small, large] = raw.server.pool.lent();
        assert!(small * block::Pool::SMALL_BYTES + large * block::Pool::LARGE_BYTES < 18 << 20);
        raw.server.release(&mut raw.peer);
        answers += raw.pdus().iter().filter(|pdu| pdu.flags() & flag::SUCCESS != 0).count();
        answers += raw.pdus().iter().filter(|pdu| pdu.kind() == kind::CAPSULE_RESP).count();
        raw.server.now = raw.server.now + Nanos::from_millis(1);
        raw.peer.tick(&mut raw.server);
    }
    assert!(answers >= 75, "{answers}");
    assert_eq!(raw.server.pool.lent(), [0, 0]);
}

#[test]
fn a_connection_that_is_asked_to_leave_ends_between_commands() {
    let mut raw = queue_of(Server::apart(), 32, 4, 0, [false; 2]);
    let read = capsule(read(0, 1), &[], [false; 2]);
    let peer = &mut raw.peer;
    peer.end.receive(raw.server.now, &read, &mut peer.out).unwrap();
    peer.end.ask_to_leave(raw.server.now, &mut peer.out);
    assert!(!peer.end.finished());
    raw.server.run(&mut raw.peer);
    assert_eq!(raw.pdus().len(), 1);
    assert!(raw.peer.end.finished());
    let mut raw = queue(32, 4, 0, [false; 2]);
    raw.peer.end.ask_to_leave(raw.server.now, &mut raw.peer.out);
    assert!(raw.peer.end.finished());
}

/// A write that memory gets at once, if all of its data is there and intact.
#[test]
fn data_land_in_memory_as_a_whole_or_not_at_all() {
    let data: Vec<u8> = (0..8192).map(|i| (i % 251) as u8 | 1).collect();
    for digests in [[false; 2], [true; 2]] {
        let bytes = capsule(command(io::WRITE).range(16, 16), &data, digests);
        for cut in [0, 1, 71, 72, 73, 76, 77, 4000, bytes.len() - 1, bytes.len()] {
            let mut raw = queue(32, 4, 0, digests);
            let before = raw.server.stores[0].bytes(8192, 8192);
            let peer = &mut raw.peer;
            peer.end.receive(raw.server.now, &bytes[..cut], &mut peer.out).unwrap();
            let landed = raw.server.stores[0].bytes(8192, 8192) == data;
            assert_eq!(landed, cut == bytes.len());
            assert!(landed || raw.server.stores[0].bytes(8192, 8192) == before, "cut at {cut}");
            peer.end.receive(raw.server.now, &bytes[cut..], &mut peer.out).unwrap();
            raw.server.run(&mut raw.peer);
            assert!(raw.server.stores[0].bytes(8192, 8192) == data, "cut at {cut}");
            assert!(raw.pdus()[0].status().is_success());
            assert_eq!(raw.server.pool.lent(), [0, 0], "cut at {cut}");
        }
    }
    let mut bytes = capsule(command(io::WRITE).range(16, 16), &data, [true; 2]);
    bytes[100] ^= 1;
    let mut raw = queue(32, 4, 0, [true; 2]);
    let before = raw.server.stores[0].bytes(8192, 8192);
    raw.peer.receive(&mut raw.server, &bytes, usize::MAX);
    assert_eq!(raw.pdus()[0].status(), Status::TRANSIENT_TRANSPORT_ERROR);
    assert!(raw.server.stores[0].bytes(8192, 8192) == before);
}
