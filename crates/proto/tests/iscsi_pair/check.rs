//! VERIFY, WRITE AND VERIFY, COMPARE AND WRITE, ORWRITE.

use block::{Fault, Op};
use proto::iscsi::pdu::{DataOut, ReadyToTransfer, opcode, opcode_of};
use proto::scsi::Sense;

use crate::harness::{Setup, pattern};
use crate::raw::{End, Raw, Way, end_of};

const BLOCK: usize = 512;

fn raw(setup: &Setup) -> Raw {
    Raw::ready(setup, &[])
}

fn cdb16(code: u8, flags: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = code;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

fn compare_and_write(lba: u64, blocks: u8) -> [u8; 16] {
    let mut cdb = cdb16(0x89, 0, lba, 0);
    cdb[13] = blocks;
    cdb
}

/// Runs a command with data-out, asking for R2Ts where the data is long.
fn run(raw: &mut Raw, cdb: [u8; 16], data: &[u8]) -> End {
    let tag = begin(raw, cdb, data);
    raw.end(tag)
}

fn begin(raw: &mut Raw, cdb: [u8; 16], data: &[u8]) -> u32 {
    let way = if data.is_empty() { Way::None } else { Way::Write };
    raw.command(1, cdb, way, data.len() as u32, data)
}

/// Sends data as R2Ts ask for it, until the command ends.
fn feed(raw: &mut Raw, tag: u32, data: &[u8]) -> End {
    loop {
        let answers = raw.answers();
        for ready in
            answers.iter().filter(|answer| opcode_of(&answer.0) == opcode::READY_TO_TRANSFER)
        {
            let ReadyToTransfer { lun, task_tag, transfer_tag, offset, len, .. } =
                ReadyToTransfer::parse(&ready.0);
            let part = &data[offset as usize..][..len as usize];
            let out = DataOut {
                last: true,
                data_len: len,
                lun,
                task_tag,
                transfer_tag,
                offset,
                ..DataOut::default()
            };
            raw.send(&out, part).unwrap();
        }
        let others =
            answers.into_iter().filter(|answer| opcode_of(&answer.0) != opcode::READY_TO_TRANSFER);
        if let (Some(end), _) = end_of(tag, others.collect()) {
            return end;
        }
        raw.served.complete_all(raw.now);
    }
}

fn good(end: &End) -> bool {
    end.status == 0 && end.residual == 0
}

#[test]
fn verify_compares_and_says_where() {
    for in_place in [false, true] {
        let mut raw = raw(&Setup { in_place, ..Setup::default() });
        let data = pattern(1, 20 * BLOCK);
        raw.served.disk.write(5 * 512, &data);
        assert!(good(&run(&mut raw, cdb16(0x8f, 0x02, 5, 20), &data)));
        let mut other = data.clone();
        other[7777] ^= 1;
        let end = run(&mut raw, cdb16(0x8f, 0x02, 5, 20), &other);
        assert_eq!(end.sense, Some(Sense::MISCOMPARE.with_information(7777)));
        // Without data-out the blocks are read.
        raw.served.seen.clear();
        assert!(good(&run(&mut raw, cdb16(0x8f, 0x00, 5, 20), &[])));
        assert_eq!(raw.served.seen, [(Op::Read, 5 * 512, 20 * 512, false)]);
        raw.served.faults.push_back(Fault::Medium);
        let end = run(&mut raw, cdb16(0x8f, 0x00, 5, 20), &[]);
        assert_eq!(end.sense, Some(Sense::UNRECOVERED_READ_ERROR));
        assert_eq!(raw.served.out.pool().lent(), [0, 0]);
    }
}

#[test]
fn verify_of_one_block_with_many() {
    let mut raw = raw(&Setup::default());
    let block = pattern(2, BLOCK);
    (5..25).for_each(|lba| raw.served.disk.write(lba * 512, &block));
    assert!(good(&run(&mut raw, cdb16(0x8f, 0x06, 5, 20), &block)));
    raw.served.disk.write(17 * 512 + 3, &[block[3] ^ 1]);
    let end = run(&mut raw, cdb16(0x8f, 0x06, 5, 20), &block);
    assert_eq!(end.sense, Some(Sense::MISCOMPARE.with_information(12 * 512 + 3)));
    let end = run(&mut raw, cdb16(0x8f, 0x06, 5, 20), &pattern(2, 2 * BLOCK));
    assert_eq!(end.sense.map(|sense| (sense.asc, sense.ascq)), Some((0x0e, 0x03)));
}

#[test]
fn long_data_goes_in_parts() {
    let setup = Setup::default();
    let mut raw =
        Raw::ready(&setup, &[("MaxBurstLength", "262144"), ("FirstBurstLength", "65536")]);
    let data = pattern(3, 1 << 20);
    raw.served.disk.write(0, &data);
    let mut differs = data.clone();
    differs[900_001] ^= 0x80;
    for (kind, sent, wanted) in [
        (0x8f, &data, None),
        (0x8f, &differs, Some(Sense::MISCOMPARE.with_information(900_001))),
        (0x8e, &differs, None),
    ] {
        raw.served.seen.clear();
        let command = raw.command_pdu(1, cdb16(kind, 0x02, 0, 2048), Way::Write, 1 << 20, &[]);
        raw.send(&command, &[]).unwrap();
        let end = feed(&mut raw, command.task_tag, sent);
        assert_eq!((end.sense, end.residual), (wanted, 0));
        let writes = raw.served.seen.iter().filter(|io| io.0 == Op::Write);
        let written: u32 = writes.map(|io| if io.3 { io.2 } else { 0 }).sum();
        assert_eq!(written, if kind == 0x8e { 1 << 20 } else { 0 }, "durable");
    }
    let mut now = vec![0; 1 << 20];
    raw.served.disk.read(0, &mut now);
    assert!(now == differs);
    assert_eq!(raw.served.out.pool().lent(), [0, 0]);
}

#[test]
fn what_is_not_on_the_medium_as_written_is_a_miscompare() {
    let mut raw = raw(&Setup::default());
    let tag = begin(&mut raw, cdb16(0x8e, 0x02, 5, 2), &[7; 2 * BLOCK]);
    raw.served.take_requests();
    raw.served.complete(raw.now, 0);
    raw.served.disk.write(6 * 512, &[8]);
    assert_eq!(raw.end(tag).sense, Some(Sense::MISCOMPARE.with_information(512)));
    // Without BYTCHK it is only read.
    let tag = begin(&mut raw, cdb16(0x8e, 0x00, 5, 2), &[7; 2 * BLOCK]);
    raw.served.take_requests();
    raw.served.complete(raw.now, 0);
    raw.served.disk.write(6 * 512, &[8]);
    assert!(good(&raw.end(tag)));
    raw.served.faults.push_back(Fault::NoSpace);
    let end = run(&mut raw, cdb16(0x8e, 0x02, 5, 2), &[7; 2 * BLOCK]);
    assert_eq!(end.sense, Some(Sense::SPACE_ALLOCATION_FAILED));
    assert_eq!(raw.served.out.pool().lent(), [0, 0]);
}

#[test]
fn compare_and_write_writes_only_what_compares() {
    for in_place in [false, true] {
        let mut raw = raw(&Setup { in_place, ..Setup::default() });
        let (old, new) = (pattern(4, 3 * BLOCK), pattern(5, 3 * BLOCK));
        raw.served.disk.write(5 * 512, &old);
        let both = [&old[..], &new[..]].concat();
        let mut wrong = both.clone();
        wrong[1000] ^= 1;
        let end = run(&mut raw, compare_and_write(5, 3), &wrong);
        assert_eq!(end.sense, Some(Sense::MISCOMPARE.with_information(1000)));
        assert!(good(&run(&mut raw, compare_and_write(5, 3), &both)));
        let mut now = vec![0; 3 * BLOCK];
        raw.served.disk.read(5 * 512, &mut now);
        assert_eq!(now, new);
        let end = run(&mut raw, compare_and_write(5, 3), &both);
        assert!(matches!(end.sense, Some(Sense { key: proto::scsi::Key::Miscompare, .. })));
        for len in [2 * BLOCK, 8 * BLOCK] {
            let end = run(&mut raw, compare_and_write(5, 3), &vec![0; len]);
            assert_eq!(end.sense.map(|sense| (sense.asc, sense.ascq)), Some((0x0e, 0x03)));
        }
        assert_eq!(raw.served.out.pool().lent(), [0, 0]);
    }
}

#[test]
fn a_count_that_wrapped_to_zero_is_no_success() {
    let mut raw = raw(&Setup::default());
    assert!(good(&run(&mut raw, compare_and_write(5, 0), &[])));
    let end = run(&mut raw, compare_and_write(5, 0), &[1; 2 * BLOCK]);
    assert_eq!(end.sense, Some(Sense::cdb_field(13)));
}

#[test]
fn orwrite_sets_bits() {
    let mut raw = raw(&Setup::default());
    raw.served.disk.write(512, &[0x11; 2 * BLOCK]);
    assert!(good(&run(&mut raw, cdb16(0x8b, 0x08, 1, 2), &[0x82; 2 * BLOCK])));
    assert_eq!(raw.served.seen.last(), Some(&(Op::Write, 512, 1024, true)));
    let mut now = vec![0; 4 * BLOCK];
    raw.served.disk.read(0, &mut now);
    let expect = [&[0; BLOCK][..], &[0x93; 2 * BLOCK], &[0; BLOCK]].concat();
    assert_eq!(now, expect);
}

#[test]
fn two_initiators_never_both_win_a_compare_and_write() {
    let setup = Setup::default().together();
    let mut both = [1, 2].map(|number| Raw::one_of(&setup, number));
    let free = [0; BLOCK];
    let mine = |number: u8| [&free[..], &[number; BLOCK]].concat();
    // Both are with the target before either has read.
    let tags = [0, 1].map(|i| begin(&mut both[i], compare_and_write(9, 1), &mine(i as u8 + 1)));
    both.iter_mut().for_each(|raw| {
        raw.served.take_requests();
    });
    assert_eq!([both[0].served.flying.len(), both[1].served.flying.len()], [1, 0]);
    assert!(proto::Target::starves(&both[1].served.end));
    assert!(good(&both[0].end(tags[0])));
    let Raw { served, now, .. } = &mut both[1];
    proto::Target::drained(&mut served.end, *now, &mut served.out);
    let end = both[1].end(tags[1]);
    assert_eq!(end.sense, Some(Sense::MISCOMPARE.with_information(0)));
    // Other blocks are free.
    let tag = begin(&mut both[0], compare_and_write(9, 1), &mine(3));
    both[0].served.take_requests();
    assert!(good(&run(&mut both[1], compare_and_write(10, 1), &mine(2))));
    assert_eq!(both[0].end(tag).status, 2);
}

#[test]
fn a_claim_ends_with_the_last_io_of_its_command() {
    let setup = Setup::default().together();
    let mut both = [1, 2].map(|number| Raw::one_of(&setup, number));
    let data = [0; 2 * BLOCK];
    begin(&mut both[0], compare_and_write(9, 1), &data);
    both[0].served.take_requests();
    // The connection is lost while its read is with the volume.
    let pool = both[0].served.out.pool().clone();
    proto::Target::abandon(&mut both[0].served.end, &pool);
    let tag = begin(&mut both[1], compare_and_write(9, 1), &data);
    both[1].served.take_requests();
    assert!(both[1].served.flying.is_empty(), "waits");
    let now = both[0].now;
    both[0].served.complete(now, 0);
    assert_eq!(pool.lent(), [0, 0]);
    let Raw { served, now, .. } = &mut both[1];
    proto::Target::drained(&mut served.end, *now, &mut served.out);
    assert!(good(&both[1].end(tag)));
}

#[test]
fn without_a_second_buffer_the_command_is_to_be_retried() {
    let mut raw = raw(&Setup::default());
    let pool = raw.served.out.pool().clone();
    let tag = begin(&mut raw, cdb16(0x8e, 0x02, 0, 1), &[1; BLOCK]);
    raw.served.take_requests();
    // The write is done, and all buffers are taken before it can be read back.
    let bufs: Vec<_> = std::iter::from_fn(|| pool.take(BLOCK)).collect();
    let end = raw.end(tag);
    assert!(matches!(end.status, 0x08 | 0x28), "{end:?}");
    bufs.into_iter().for_each(|buf| pool.give(buf));
    assert!(good(&run(&mut raw, cdb16(0x8e, 0x02, 0, 1), &[1; BLOCK])));
    assert_eq!(pool.lent(), [0, 0]);
}
