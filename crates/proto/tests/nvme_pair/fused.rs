//! Compare fused with Write.

use block::{Fault, Op};
use proto::nvme::pdu::{CommandBuilder, Completion, Status, io};
use proto::{Endpoint, Target};

use crate::raw::{Raw, capsule};
use crate::server::{Server, Store};

const COMPARE: u16 = 70;
const WRITE: u16 = 71;
const FAILED: Status = Status::FAILED_FUSED;
const MISSING: Status = Status::MISSING_FUSED;

fn compare(start: u64) -> CommandBuilder {
    CommandBuilder::new(io::COMPARE, COMPARE, 1).range(start, 1).field(1, [0x41])
}

fn write(start: u64) -> CommandBuilder {
    CommandBuilder::new(io::WRITE, WRITE, 1).range(start, 1).field(1, [0x42])
}

/// Status of each command, by identifier.
fn ends(raw: &mut Raw) -> Vec<(u16, Status)> {
    let ends = raw.pdus().into_iter().map(|pdu| pdu.completion());
    let mut ends: Vec<_> =
        ends.map(|Completion { command, status, .. }| (command, status)).collect();
    ends.sort_by_key(|(command, _)| *command);
    ends
}

fn both(compare: Status, write: Status) -> Vec<(u16, Status)> {
    vec![(COMPARE, compare), (WRITE, write)]
}

fn block(raw: &Raw, start: u64) -> Vec<u8> {
    raw.server.stores[0].bytes(start * 512, 512)
}

fn queue() -> Raw {
    let (raw, admin) = Raw::io(Server::apart());
    std::mem::forget(admin);
    raw
}

#[test]
fn a_block_is_written_if_it_holds_what_the_host_says() {
    for server in [Server::usual(), Server::apart()] {
        let (mut raw, _admin) = Raw::io(server);
        let old = block(&raw, 5);
        raw.command(compare(5), &old);
        assert!(raw.pdus().is_empty(), "the second command decides");
        raw.command(write(5), &[9; 512]);
        assert_eq!(ends(&mut raw), both(Status::SUCCESS, Status::SUCCESS));
        assert_eq!(block(&raw, 5), [9; 512]);
        raw.command(compare(5), &old);
        raw.command(write(5), &[8; 512]);
        assert_eq!(ends(&mut raw), both(Status::COMPARE_FAILURE, FAILED));
        assert_eq!(block(&raw, 5), [9; 512]);
        assert_eq!(raw.server.pool.lent(), [0, 0]);
    }
}

#[test]
fn data_may_be_requested() {
    let mut raw = queue();
    let old = block(&raw, 5);
    raw.command(compare(5).transport(512), &[]);
    raw.command(write(5).transport(512), &[]);
    let asks: Vec<_> = raw.pdus().iter().map(|pdu| (pdu.u16(8), pdu.u16(10))).collect();
    assert_eq!(asks.iter().map(|ask| ask.0).collect::<Vec<_>>(), [COMPARE, WRITE]);
    // The data of the Write comes first.
    for (command, tag, data) in [(WRITE, asks[1].1, vec![9; 512]), (COMPARE, asks[0].1, old)] {
        let header = proto::nvme::pdu::Data {
            kind: proto::nvme::pdu::kind::H2C_DATA,
            flags: proto::nvme::pdu::flag::LAST,
            data_offset: 24,
            pdu_len: 24 + 512,
            command,
            transfer_tag: tag,
            offset: 0,
            len: 512,
        };
        raw.send(&[&header.build()[..], &data].concat());
    }
    assert_eq!(ends(&mut raw), both(Status::SUCCESS, Status::SUCCESS));
    assert_eq!(block(&raw, 5), [9; 512]);
}

#[test]
fn a_command_without_its_partner_is_aborted() {
    let mut raw = queue();
    let old = block(&raw, 5);
    raw.command(write(5), &[9; 512]);
    assert_eq!(ends(&mut raw), [(WRITE, MISSING)]);
    let read = CommandBuilder::new(io::READ, 90, 1).range(0, 1).transport(512);
    raw.command(compare(5), &old);
    raw.command(read, &[]);
    let pdus = raw.pdus();
    assert_eq!((pdus[0].completion().command, pdus[0].status()), (COMPARE, MISSING));
    assert_eq!(pdus[1].data.len(), 512, "the read is executed");
    // Two first ones: the second of them is the one that counts.
    raw.command(compare(5), &[1; 512]);
    raw.command(compare(5).field(2, [69, 0]), &old);
    raw.command(write(5), &[9; 512]);
    assert_eq!(
        ends(&mut raw),
        [(69, Status::SUCCESS), (COMPARE, MISSING), (WRITE, Status::SUCCESS)]
    );
    let flush = CommandBuilder::new(io::FLUSH, 90, 1);
    raw.command(compare(6), &old);
    raw.command(flush, &[]);
    assert_eq!(ends(&mut raw), [(COMPARE, MISSING), (90, Status::SUCCESS)]);
    assert_eq!(raw.server.pool.lent(), [0, 0]);
}

#[test]
fn pairs_that_make_no_sense_change_nothing() {
    let mut raw = queue();
    let old = block(&raw, 5);
    let invalid = Status::INVALID_FIELD;
    let two = |command: CommandBuilder| command.range(5, 2);
    let outside = Status::LBA_OUT_OF_RANGE;
    let unit = Status::ATOMIC_WRITE_UNIT_EXCEEDED;
    for (first, second, expect) in [
        (compare(5), write(6), both(invalid, invalid)),
        (compare(5), write(5).field(4, [2, 0, 0, 0]), both(invalid, invalid)),
        (compare(5), write(5).field(0, [io::READ]), both(invalid, invalid)),
        (compare(5).field(0, [io::READ]), write(5), both(invalid, FAILED)),
        (compare(5).field(0, [io::FLUSH]), write(5), both(invalid, FAILED)),
        (compare(8192), write(8192), both(outside, FAILED)),
        (two(compare(5)), two(write(5)), both(unit, FAILED)),
        (compare(5).field(4, [9, 0, 0, 0]), write(5), both(Status::INVALID_NAMESPACE, FAILED)),
    ] {
        let len = 512 * (u64::from(first.build()[48]) + 1) as usize;
        let data = [&old[..], &old[..]].concat();
        raw.command(first, &data[..len]);
        raw.command(second, &[9; 1024][..len]);
        assert_eq!(ends(&mut raw), expect, "{first:?}");
    }
    assert_eq!(block(&raw, 5), old);
    // A Compare with wrong data length.
    raw.command(compare(5), &old[..511]);
    raw.command(write(5), &[9; 512]);
    assert_eq!(ends(&mut raw), both(Status::SGL_LENGTH_INVALID, FAILED));
    raw.command(compare(5), &old);
    raw.command(write(5), &[9; 511]);
    assert_eq!(ends(&mut raw), both(FAILED, Status::SGL_LENGTH_INVALID));
    assert_eq!((block(&raw, 5), raw.server.pool.lent()), (old, [0, 0]));
}

#[test]
fn a_read_only_namespace_is_compared_and_not_written() {
    let mut store = Store::new(1 << 20, 512, true);
    store.geometry.read_only = true;
    let (mut raw, _admin) = Raw::io(Server::new(vec![store]));
    let old = block(&raw, 5);
    raw.command(compare(5), &old);
    raw.command(write(5), &[9; 512]);
    assert_eq!(ends(&mut raw), both(FAILED, Status::WRITE_PROTECTED));
}

#[test]
fn faults_of_the_volume_are_told() {
    let mut raw = queue();
    let old = block(&raw, 5);
    raw.server.stores[0].fault = Some(Fault::Medium);
    raw.command(compare(5), &old);
    raw.command(write(5), &[9; 512]);
    assert_eq!(ends(&mut raw), both(Status::UNRECOVERED_READ_ERROR, FAILED));
    raw.server.stores[0].fault = None;
    for (command, data) in [(compare(5), &old[..]), (write(5), &[9; 512][..])] {
        let bytes = capsule(command, data, [false; 2]);
        let now = raw.server.now;
        raw.peer.end.receive(now, &bytes, &mut raw.peer.out).unwrap();
    }
    raw.server.hold(&mut raw.peer);
    raw.server.release(&mut raw.peer);
    raw.server.stores[0].fault = Some(Fault::Medium);
    raw.server.run(&mut raw.peer);
    assert_eq!(ends(&mut raw), both(Status::SUCCESS, Status::WRITE_FAULT));
    assert_eq!(raw.server.pool.lent(), [0, 0]);
}

/// Two pairs for one block, of which the second waits for the first.
#[test]
fn pairs_exclude_each_other() {
    let mut raw = queue();
    let old = block(&raw, 5);
    let again = |command: CommandBuilder, id: u8| command.field(2, [id, 0]);
    for (command, data) in [
        (compare(5), &old[..]),
        (write(5), &[9; 512][..]),
        (again(compare(5), 80), &old[..]),
        (again(write(5), 81), &[8; 512][..]),
    ] {
        let bytes = capsule(command, data, [false; 2]);
        let now = raw.server.now;
        raw.peer.end.receive(now, &bytes, &mut raw.peer.out).unwrap();
    }
    raw.server.hold(&mut raw.peer);
    assert!(raw.peer.end.starves(), "the second pair waits");
    raw.server.release(&mut raw.peer);
    raw.server.run(&mut raw.peer);
    let expect = vec![
        (COMPARE, Status::SUCCESS),
        (WRITE, Status::SUCCESS),
        (80, Status::COMPARE_FAILURE),
        (81, FAILED),
    ];
    assert_eq!((ends(&mut raw), block(&raw, 5)), (expect, vec![9; 512]));
    assert!(!raw.peer.end.starves());
    let ops: Vec<Op> = raw.server.stores[0].log.iter().map(|entry| entry.0).collect();
    assert_eq!(ops, [Op::Read, Op::Write, Op::Read]);
}

#[test]
fn a_pair_whose_connection_is_lost_gives_everything_back() {
    for steps in 0..4 {
        let mut raw = queue();
        let old = block(&raw, 5);
        let commands = [(compare(5), &old[..]), (write(5), &[9; 512][..])];
        for (command, data) in commands.into_iter().take(1 + usize::from(steps > 0)) {
            let bytes = capsule(command, data, [false; 2]);
            let now = raw.server.now;
            raw.peer.end.receive(now, &bytes, &mut raw.peer.out).unwrap();
        }
        for _ in 2..steps {
            raw.server.hold(&mut raw.peer);
            raw.server.release(&mut raw.peer);
        }
        raw.peer.vanish(&mut raw.server);
        raw.server.release(&mut raw.peer);
        assert_eq!(raw.server.pool.lent(), [0, 0], "after {steps}");
        // The claim is gone: another queue executes a pair.
        let (mut raw, _admin) = Raw::io(raw.server);
        let old = block(&raw, 5);
        raw.command(compare(5), &old);
        raw.command(write(5), &[9; 512]);
        assert_eq!(ends(&mut raw), both(Status::SUCCESS, Status::SUCCESS));
    }
}
