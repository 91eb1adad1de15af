//! Verify and Copy.

use block::{Fault, Op};
use proto::nvme::pdu::{CommandBuilder, Status, io};

use crate::raw::{Pdu, Raw};
use crate::server::{Server, Store};

fn verify(start: u64, blocks: u32) -> CommandBuilder {
    CommandBuilder::new(io::VERIFY, 7, 1).range(start, blocks)
}

/// A Copy of these ranges, start and blocks, and its data.
fn copy(to: u64, ranges: &[(u64, u32)]) -> (CommandBuilder, Vec<u8>) {
    let mut data = Vec::new();
    for (start, blocks) in ranges {
        data.extend([0; 8]);
        data.extend(start.to_le_bytes());
        data.extend(((blocks - 1) as u16).to_le_bytes());
        data.extend([0; 14]);
    }
    let command = CommandBuilder::new(io::COPY, 7, 1).field(40, to.to_le_bytes());
    (command.word(12, ranges.len() as u32 - 1), data)
}

fn ask(raw: &mut Raw, to: u64, ranges: &[(u64, u32)]) -> Pdu {
    let (command, data) = copy(to, ranges);
    raw.ask(command, &data)
}

#[test]
fn verify_reads_blocks_and_moves_none() {
    for server in [Server::usual(), Server::apart()] {
        let (mut raw, _admin) = Raw::io(server);
        assert_eq!(raw.ask(verify(3, 1000), &[]).status(), Status::SUCCESS);
        let log = std::mem::take(&mut raw.server.stores[0].log);
        assert!(log.iter().all(|(op, ..)| *op == Op::Read));
        assert_eq!(log[0].1, 3 * 512);
        assert_eq!(log.iter().map(|(_, _, len, _)| len).sum::<u32>(), 1000 * 512);
        for (start, blocks, status) in [
            (8191, 1, Status::SUCCESS),
            (8191, 2, Status::LBA_OUT_OF_RANGE),
            (u64::MAX, 1, Status::LBA_OUT_OF_RANGE),
            (0, 2048, Status::SUCCESS),
            (0, 2049, Status::INVALID_FIELD),
        ] {
            assert_eq!(raw.ask(verify(start, blocks), &[]).status(), status, "{start} {blocks}");
        }
        raw.server.stores[0].fault = Some(Fault::Medium);
        let status = raw.ask(verify(0, 8), &[]).status();
        assert_eq!(status, Status::UNRECOVERED_READ_ERROR);
        assert_eq!(raw.server.pool.lent(), [0, 0]);
    }
}

#[test]
fn copy_moves_ranges_one_after_another() {
    let (mut raw, _admin) = Raw::io(Server::usual());
    let before = raw.server.stores[0].bytes(0, 1 << 20);
    let ranges = [(9, 3), (1, 1), (100, 700), (2000, 1)];
    assert_eq!(ask(&mut raw, 4000, &ranges).status(), Status::SUCCESS);
    let expect: Vec<u8> = ranges
        .iter()
        .flat_map(|(start, blocks)| {
            before[*start as usize * 512..][..*blocks as usize * 512].to_vec()
        })
        .collect();
    assert!(raw.server.stores[0].bytes(4000 * 512, 705 * 512) == expect);
    assert!(raw.server.stores[0].log.iter().all(|(.., fua)| !fua));
    let (command, data) = copy(5000, &[(9, 1)]);
    let status = raw.ask(command.word(12, 1 << 30), &data).status();
    assert_eq!(status, Status::SUCCESS);
    assert_eq!(raw.server.stores[0].log.last(), Some(&(Op::Write, 5000 * 512, 512, true)));
    assert_eq!(raw.server.stores[0].bytes(5000 * 512, 512), before[9 * 512..10 * 512]);
    let most: Vec<_> = (0..256).map(|at| (at, 1)).collect();
    assert_eq!(ask(&mut raw, 6000, &most).status(), Status::SUCCESS);
    assert!(raw.server.stores[0].bytes(6000 * 512, 256 * 512) == before[..256 * 512]);
    assert_eq!(raw.server.pool.lent(), [0, 0]);
}

#[test]
fn copies_have_limits() {
    let (mut raw, _admin) = Raw::io(Server::new(vec![Store::new(128 << 20, 512, false)]));
    let blocks = 128 << 11;
    for (to, ranges, status) in [
        (blocks - 1, vec![(0, 1)], Status::SUCCESS),
        (blocks - 1, vec![(0, 2)], Status::LBA_OUT_OF_RANGE),
        (blocks - 1, vec![(0, 1), (1, 1)], Status::LBA_OUT_OF_RANGE),
        (u64::MAX, vec![(0, 1)], Status::LBA_OUT_OF_RANGE),
        (0, vec![(blocks - 1, 2)], Status::LBA_OUT_OF_RANGE),
        (0, vec![(5, 1), (blocks, 1)], Status::LBA_OUT_OF_RANGE),
        (0, vec![(0, 65536)], Status::COMMAND_SIZE_LIMIT_EXCEEDED),
        (0, vec![(0, 50_000), (0, 50_000), (0, 50_000)], Status::COMMAND_SIZE_LIMIT_EXCEEDED),
        (0, vec![(131_072, 65_535), (196_607, 65_535)], Status::SUCCESS),
    ] {
        assert_eq!(ask(&mut raw, to, &ranges).status(), status, "{to} {ranges:?}");
    }
    let (command, data) = copy(0, &[(0, 1)]);
    for format in 1..16 {
        let status = raw.ask(command.word(12, format << 8), &data).status();
        assert_eq!(status, Status::INVALID_FIELD, "format {format}");
    }
    let status = raw.ask(command.word(12, 1), &data).status();
    assert_eq!(status, Status::SGL_LENGTH_INVALID, "a range is lacking");
}

#[test]
fn a_copy_that_fails_tells_how_many_ranges_it_copied() {
    let (mut raw, _admin) = Raw::io(Server::apart());
    let (command, data) = copy(4000, &[(0, 1), (1, 1), (2, 1)]);
    let peer = &mut raw.peer;
    let bytes = crate::raw::capsule(command, &data, [false; 2]);
    proto::Endpoint::receive(&mut peer.end, raw.server.now, &bytes, &mut peer.out).unwrap();
    // One range is read and written, the next is read, and cannot be written.
    for _ in 0..3 {
        raw.server.hold(&mut raw.peer);
        raw.server.release(&mut raw.peer);
    }
    raw.server.stores[0].fault = Some(Fault::NoSpace);
    raw.server.run(&mut raw.peer);
    let completion = raw.pdus().remove(0).completion();
    assert_eq!((completion.status, completion.result), (Status::CAPACITY_EXCEEDED, 1));
    assert_eq!(raw.server.pool.lent(), [0, 0]);
}

#[test]
fn a_copy_whose_connection_is_lost_gives_everything_back() {
    for steps in 0..4 {
        let (mut raw, _admin) = Raw::io(Server::apart());
        let (command, data) = copy(4000, &[(0, 1), (1, 1)]);
        let bytes = crate::raw::capsule(command, &data, [false; 2]);
        let peer = &mut raw.peer;
        proto::Endpoint::receive(&mut peer.end, raw.server.now, &bytes, &mut peer.out).unwrap();
        for _ in 0..steps {
            raw.server.hold(&mut raw.peer);
            raw.server.release(&mut raw.peer);
        }
        raw.peer.vanish(&mut raw.server);
        raw.server.release(&mut raw.peer);
        assert_eq!(raw.server.pool.lent(), [0, 0], "after {steps}");
    }
}
