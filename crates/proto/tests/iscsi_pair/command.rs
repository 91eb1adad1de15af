//! SCSI commands: residual counts, directions, order, existing and missing units.

use block::{Fault, Op};
use proto::iscsi::TargetConfig;
use proto::iscsi::pdu::{Command, Header, NopIn, NopOut, Numbers, Pdu, Reject, opcode, opcode_of};
use proto::scsi::{Key, Sense, cdb};
use proto::{Ending, Endpoint, Target};

use crate::harness::{Setup, pattern};
use crate::raw::{End, NOTHING, Raw, Way, bytes, end_of};

fn good(residual: i64, data: &[u8]) -> End {
    End { status: 0, sense: None, residual, data: data.to_vec() }
}

fn bad(sense: Sense, residual: i64) -> End {
    End { status: 2, sense: Some(sense), residual, data: Vec::new() }
}

#[test]
fn residual_counts_of_reads() {
    for in_place in [false, true] {
        let mut raw = Raw::ready(&Setup { in_place, ..Setup::default() }, &[]);
        let data = pattern(1, 1024);
        raw.served.disk.write(512, &data);
        for (blocks, way, expected, residual, len) in [
            (1, Way::Read, 512, 0, 512),
            (2, Way::Read, 1024, 0, 1024),
            (1, Way::Read, 0, 512, 0),
            (1, Way::None, 0, 512, 0),
            (1, Way::Read, 200, 312, 200),
            (1, Way::Read, 201, 311, 201),
            (1, Way::Read, 1, 511, 1),
            (1, Way::Read, 10_000, 512 - 10_000, 512),
            (2, Way::Read, 512, 512, 512),
            (2, Way::Read, 513, 511, 513),
            (0, Way::Read, 0, 0, 0),
            (0, Way::Read, 512, -512, 0),
        ] {
            let tag = raw.command(1, cdb::read10(1, blocks), way, expected, &[]);
            assert_eq!(raw.end(tag), good(residual, &data[..len]), "{blocks} {way:?} {expected}");
        }
    }
}

/// The announced length does not fit the command.
const UNFIT: Sense = Sense::new(Key::IllegalRequest, 0x0e, 0x03);

#[test]
fn residual_counts_of_writes() {
    let keys = [("InitialR2T", "Yes"), ("ImmediateData", "Yes")];
    for in_place in [false, true] {
        let mut raw = Raw::ready(&Setup { in_place, ..Setup::default() }, &keys);
        for (blocks, way, expected, residual, written) in [
            (1, Way::Write, 512, 0, 512),
            (1, Way::Write, 0, 512, 0),
            (1, Way::None, 0, 512, 0),
            (1, Way::Write, 200, 312, 0),
            (1, Way::Write, 10_000, 512 - 10_000, 512),
            (2, Way::Write, 512, 512, 512),
            (2, Way::Write, 1000, 24, 0),
            (1, Way::Write, 1024, -512, 512),
            (0, Way::Write, 512, -512, 0),
        ] {
            raw.served.disk.zero(0, 4096);
            let data = pattern(7, expected as usize);
            let tag = raw.command(1, cdb::write10(1, blocks, false), way, expected, &data);
            // Part of a block would not be stored: never GOOD.
            let cut = residual > 0 && expected % 512 != 0;
            let end = if cut { bad(UNFIT, residual) } else { good(residual, &[]) };
            assert_eq!(raw.end(tag), end, "{blocks} {way:?} {expected}");
            let mut there = [0; 4096];
            raw.served.disk.read(0, &mut there);
            let mut expect = [0; 4096];
            expect[512..512 + written].copy_from_slice(&data[..written]);
            assert!(there == expect, "{blocks} {way:?} {expected}");
        }
    }
}

#[test]
fn residual_counts_of_answers_in_bytes() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    for (allocation, expected, residual, len) in
        [(36, 36, 0, 36), (36, 100, -64, 36), (36, 10, 26, 10), (36, 0, 36, 0), (5, 36, -31, 5)]
    {
        let tag = raw.command(1, cdb::inquiry(None, allocation), Way::Read, expected, &[]);
        let end = raw.end(tag);
        assert_eq!((end.status, end.residual, end.data.len()), (0, residual, len));
    }
}

#[test]
fn a_refused_command_moves_nothing() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    let beyond = cdb::read16(1 << 40, 1);
    let tag = raw.command(1, beyond, Way::Read, 512, &[]);
    assert_eq!(raw.end(tag), bad(Sense::LBA_OUT_OF_RANGE, -512));
    let beyond = cdb::write16(1 << 40, 1, false);
    let tag = raw.command(1, beyond, Way::Write, 512, &[1; 512]);
    assert_eq!(raw.end(tag), bad(Sense::LBA_OUT_OF_RANGE, -512));
    let tag = raw.command(1, [0xff; 16], Way::None, 0, &[]);
    assert_eq!(raw.end(tag).sense.unwrap().key, Key::IllegalRequest);
    assert!(raw.served.seen.is_empty());
}

#[test]
fn flags_against_the_command() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    let wrong = UNFIT;
    // A read flagged as a write brings unexpected data.
    let tag = raw.command(1, cdb::read10(0, 1), Way::Write, 512, &[1; 512]);
    assert_eq!(raw.end(tag), good(-512, &[]));
    // A write flagged as a read cannot be done, and must not be called done.
    let tag = raw.command(1, cdb::write10(0, 1, false), Way::Read, 512, &[]);
    assert_eq!(raw.end(tag), bad(wrong, -512));
    for cdb in [cdb::read10(0, 1), cdb::write10(0, 1, false), cdb::test_unit_ready()] {
        let tag = raw.command(1, cdb, Way::Both, 512, &[]);
        assert_eq!(raw.end(tag), bad(wrong, -512));
    }
    let tag = raw.command(1, cdb::test_unit_ready(), Way::Read, 512, &[]);
    assert_eq!(raw.end(tag), good(-512, &[]));
    let tag = raw.command(1, cdb::test_unit_ready(), Way::Write, 512, &[1; 512]);
    assert_eq!(raw.end(tag), good(-512, &[]));
    assert!(raw.served.seen.is_empty());
}

#[test]
fn units_that_are_not_there() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    let tag = raw.command(0, cdb::read10(0, 1), Way::Read, 512, &[]);
    assert_eq!(raw.end(tag), bad(Sense::LOGICAL_UNIT_NOT_SUPPORTED, -512));
    let tag = raw.command(300, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
    assert_eq!(raw.end(tag), bad(Sense::LOGICAL_UNIT_NOT_SUPPORTED, -512));
    let tag = raw.command(0, cdb::inquiry(None, 36), Way::Read, 36, &[]);
    assert_eq!(raw.end(tag).data[0], 0x7f);
    for lun in [0, 1, 77] {
        let tag = raw.command(lun, cdb::report_luns(64), Way::Read, 64, &[]);
        let end = raw.end(tag);
        let mut expect = vec![0, 0, 0, 16, 0, 0, 0, 0];
        expect.extend([0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
        assert_eq!(end, good(24 - 64, &expect));
    }
}

#[test]
fn the_first_command_is_told_of_the_power_on() {
    let mut raw = Raw::logged_in(&Setup::default(), &[]);
    // These three pass, and one of them takes the news along.
    let tag = raw.command(1, cdb::inquiry(None, 36), Way::Read, 36, &[]);
    assert_eq!(raw.end(tag).status, 0);
    let tag = raw.command(1, cdb::report_luns(64), Way::Read, 64, &[]);
    assert_eq!(raw.end(tag).status, 0);
    let tag = raw.command(1, cdb::request_sense(252), Way::Read, 252, &[]);
    let end = raw.end(tag);
    assert_eq!(proto::scsi::decode_sense(&end.data), Some(Sense::POWER_ON_RESET));
    let tag = raw.command(1, cdb::test_unit_ready(), Way::None, 0, &[]);
    assert_eq!(raw.end(tag), good(0, &[]));
    let tag = raw.command(2, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
    assert_eq!(raw.end(tag), bad(Sense::POWER_ON_RESET, -512));
    let tag = raw.command(2, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
    assert_eq!(raw.end(tag), good(0, &[]));
}

#[test]
fn longer_cdbs_are_refused_and_passed_over() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    for words in [1_u8, 5, 255] {
        let command = raw.command_pdu(1, cdb::read10(0, 1), Way::Read, 512, &[]);
        let mut header: Header = command.build();
        header[4] = words;
        let mut stream = header.to_vec();
        stream.extend(vec![0xff; usize::from(words) * 4]);
        for part in stream.chunks(7) {
            raw.send_bytes(part).unwrap();
        }
        let end = raw.end(command.task_tag);
        assert_eq!(end, bad(Sense::INVALID_FIELD_IN_CDB, -512));
    }
    let tag = raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
    assert_eq!(raw.end(tag).status, 0);
}

#[test]
fn command_numbers_outside_of_the_window_are_passed_over() {
    let config = TargetConfig { max_commands: 4, ..TargetConfig::default() };
    let mut raw = Raw::ready(&Setup { target: config, ..Setup::default() }, &[]);
    let right = raw.number;
    for number in [right.wrapping_sub(1), right + 4, right + 1000, right.wrapping_sub(1 << 30)] {
        raw.number = number;
        raw.command(1, cdb::test_unit_ready(), Way::None, 0, &[]);
        assert!(raw.answers().is_empty(), "{number}");
        // The data of these commands is skipped, too.
        raw.number = number;
        raw.command(1, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
        assert!(raw.answers().is_empty());
    }
    raw.number = right;
    let tag = raw.command(1, cdb::test_unit_ready(), Way::None, 0, &[]);
    assert_eq!(raw.end(tag).status, 0);
}

#[test]
fn a_gap_in_the_command_numbers_ends_the_session() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    let mut command = raw.command_pdu(1, cdb::test_unit_ready(), Way::None, 0, &[]);
    command.command_number += 1;
    let ending = raw.send(&command, &[]).unwrap_err();
    assert!(matches!(ending, Ending::Violation(violation) if violation.at == 24));
}

#[test]
fn the_window_closes_and_opens_again() {
    let config = TargetConfig { max_commands: 3, ..TargetConfig::default() };
    let mut raw = Raw::ready(&Setup { target: config, ..Setup::default() }, &[]);
    let tags: Vec<u32> =
        (0..3).map(|lba| raw.command(1, cdb::read10(lba, 1), Way::Read, 512, &[])).collect();
    assert!(raw.answers().is_empty());
    assert_eq!(raw.served.flying.len(), 3);
    // A fourth is outside of the window.
    let number = raw.number;
    raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
    assert!(raw.answers().is_empty() && raw.served.flying.len() == 3);
    raw.number = number;
    raw.served.complete(raw.now, 1);
    let answers = raw.answers();
    let numbers = Numbers::parse(&answers[0].0);
    assert_eq!((numbers.expected, numbers.max), (number, number));
    let (end, _) = end_of(tags[1], answers);
    assert_eq!(end.unwrap().status, 0);
    let tag = raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
    raw.served.complete_all(raw.now);
    let answers = raw.answers();
    assert_eq!(Numbers::parse(&answers.last().unwrap().0).max, number + 3);
    assert_eq!(end_of(tag, answers).0.unwrap().status, 0);
}

#[test]
fn immediate_commands_stand_outside_of_the_window() {
    let config = TargetConfig { max_commands: 1, ..TargetConfig::default() };
    let mut raw = Raw::ready(&Setup { target: config, ..Setup::default() }, &[]);
    raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
    assert!(raw.answers().is_empty());
    let mut tags = Vec::new();
    for _ in 0..5 {
        let number = raw.number;
        let mut command = raw.command_pdu(1, cdb::read10(9, 1), Way::Read, 512, &[]);
        command.immediate = true;
        raw.number = number;
        raw.send(&command, &[]).unwrap();
        tags.push(command.task_tag);
    }
    // Four of them have a slot, the fifth is rejected.
    let (header, body) = raw.one();
    assert_eq!((opcode_of(&header), Reject::parse(&header).reason), (opcode::REJECT, 0x06));
    assert_eq!(body[16..20], tags[4].to_be_bytes());
    raw.served.complete_all(raw.now);
    let answers = raw.answers();
    assert_eq!(answers.len(), 5);
    let (end, _) = end_of(tags[0], answers);
    assert_eq!(end.unwrap().status, 0);
}

#[test]
fn status_numbers_rise_by_one() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    let mut status = None;
    for round in 0..20 {
        let tag = match round % 4 {
            0 => raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]),
            1 => raw.command(1, cdb::write10(0, 1, false), Way::Write, 512, &[0; 512]),
            2 => raw.command(1, [0xff; 16], Way::None, 0, &[]),
            _ => {
                let nop = NopOut {
                    immediate: true,
                    task_tag: 9,
                    transfer_tag: NOTHING,
                    ..NopOut::default()
                };
                raw.send(&nop, &[]).unwrap();
                9
            }
        };
        let _ = tag;
        raw.served.complete_all(raw.now);
        let (header, _) = raw.one();
        let now = NopIn::parse(&header).numbers.status;
        assert!(status.is_none_or(|before| before + 1 == now));
        status = Some(now);
    }
}

#[test]
fn trims_zeroes_and_fills() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    raw.served.disk.write(0, &[7; 8192]);
    let list = cdb::unmap_list(&[(1, 2), (5, 1)]);
    let tag = raw.command(1, cdb::unmap(40), Way::Write, 40, &list);
    assert_eq!(raw.end(tag), good(0, &[]));
    let mut block = [3; 512];
    block[511] = 4;
    let tag = raw.command(1, cdb::write_same16(8, 3, false), Way::Write, 512, &block);
    assert_eq!(raw.end(tag), good(0, &[]));
    let mut there = [0; 8192];
    raw.served.disk.read(0, &mut there);
    let mut expect = [7; 8192];
    expect[512..1536].fill(0);
    expect[2560..3072].fill(0);
    (8..11).for_each(|at| expect[at * 512..(at + 1) * 512].copy_from_slice(&block));
    assert!(there == expect);
    // Less data than the command needs.
    for (cdb, expected) in [(cdb::unmap(40), 39), (cdb::write_same16(0, 1, false), 511)] {
        let data = vec![0; expected];
        let tag = raw.command(1, cdb, Way::Write, expected as u32, &data);
        let end = raw.end(tag);
        assert_eq!((end.status, end.sense.unwrap().key), (2, Key::IllegalRequest));
    }
    assert_eq!(raw.served.out.pool().lent(), [0, 0]);
}

#[test]
fn a_fill_of_many_buffers_waits_for_them() {
    let setup = Setup { pool: [1, 1], ..Setup::default() };
    let mut raw = Raw::ready(&setup, &[]);
    let data = pattern(2, 512);
    let tag = raw.command(1, cdb::write_same16(0, 8192, false), Way::Write, 512, &data);
    let end = raw.end(tag);
    assert_eq!(end, good(0, &[]));
    let mut there = vec![0; 4 << 20];
    raw.served.disk.read(0, &mut there);
    assert!(there.chunks(512).all(|block| block == data));
}

#[test]
fn a_volume_that_fails_is_reported_by_sense() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    for (fault, sense) in [
        (Fault::Medium, Sense::UNRECOVERED_READ_ERROR),
        (Fault::Disconnected, Sense::COMMUNICATION_FAILURE),
    ] {
        raw.served.faults.push_back(fault);
        let tag = raw.command(1, cdb::read10(0, 8), Way::Read, 4096, &[]);
        assert_eq!(raw.end(tag), bad(sense, -4096));
    }
    raw.served.faults.push_back(Fault::Medium);
    let tag = raw.command(1, cdb::synchronize_cache16(), Way::None, 0, &[]);
    assert_eq!(raw.end(tag), bad(Sense::INTERNAL_TARGET_FAILURE, 0));
    assert_eq!(raw.served.seen.last().unwrap().0, Op::Flush);
}

#[test]
fn an_initiator_that_reads_nothing_stops_its_own_reads() {
    let mut raw = Raw::ready(&Setup { bytes: 64 << 20, ..Setup::default() }, &[]);
    for _ in 0..8 {
        raw.command(1, cdb::read16(0, 65_536), Way::Read, 32 << 20, &[]);
    }
    let (now, served) = (raw.now, &mut raw.served);
    served.complete_all(now);
    assert!(served.out.len_bytes() < 20 << 20, "{} bytes wait", served.out.len_bytes());
    assert!(served.end.deadline().unwrap().0 < 1_000_000_000, "it looks again soon");
    let mut total = 0;
    for _ in 0..100 {
        total += crate::harness::drain(&mut served.out).len();
        served.end.tick(now, &mut served.out).unwrap();
        served.complete_all(now);
    }
    assert!(total > 8 * (32 << 20), "{total} bytes");
}

#[test]
fn bytes_of_a_command_are_padded() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    let command = raw.command_pdu(1, cdb::write10(0, 1, false), Way::Write, 511, &[0; 511]);
    let stream = bytes(&command.build(), &[9; 511]);
    assert_eq!(stream.len(), 48 + 512);
    stream.chunks(100).for_each(|part| raw.send_bytes(part).unwrap());
    assert_eq!(raw.end(command.task_tag), bad(UNFIT, 1));
}

#[test]
fn every_kind_of_command_may_be_immediate_and_find_no_place() {
    let config = TargetConfig { max_commands: 1, ..TargetConfig::default() };
    let setup = Setup { target: config, ..Setup::default() };
    let mut raw = Raw::ready(&setup, &[("ImmediateData", "Yes"), ("InitialR2T", "No")]);
    let mut zero = cdb::write_same16(0, 1, false);
    // WRITE SAME with NDOB: the command has no data.
    zero[1] |= 0x01;
    let list = cdb::unmap_list(&[(1, 2)]);
    let block = vec![1; 512];
    let commands: [([u8; 16], Way, &[u8]); 5] = [
        (cdb::synchronize_cache16(), Way::None, &[]),
        (cdb::unmap(24), Way::Write, &list),
        (cdb::write10(0, 1, false), Way::Write, &block),
        (cdb::read10(0, 1), Way::Read, &[]),
        (zero, Way::None, &[]),
    ];
    for (cdb, way, data) in commands {
        for place in [true, false] {
            let fill = if place { 0 } else { 4 };
            let immediate = |raw: &mut Raw, cdb, way, data: &[u8]| {
                let number = raw.number;
                let expected = if way == Way::Read { 512 } else { data.len() as u32 };
                let command = raw.command_pdu(1, cdb, way, expected, data);
                let command = Command { immediate: true, ..command };
                raw.number = number;
                raw.send(&command, data).unwrap();
                command.task_tag
            };
            for _ in 0..fill {
                immediate(&mut raw, cdb::synchronize_cache16(), Way::None, &[]);
            }
            let tag = immediate(&mut raw, cdb, way, data);
            if place {
                let end = raw.end(tag);
                assert_eq!(end.status, 0, "{cdb:x?} {:?}", end.sense);
                continue;
            }
            let answers = raw.answers();
            assert_eq!(Reject::parse(&answers[0].0).reason, 0x06, "{cdb:x?}");
            raw.served.complete_all(raw.now);
            assert_eq!(raw.answers().len(), 4);
        }
    }
    assert_eq!(raw.served.out.pool().lent(), [0, 0]);
}

#[test]
fn a_long_read_of_memory_keeps_to_the_backlog() {
    let setup = Setup { in_place: true, bytes: 64 << 20, ..Setup::default() };
    let mut raw = Raw::ready(&setup, &[]);
    let data = pattern(5, 40 << 20);
    raw.served.disk.write(0, &data);
    let blocks = (data.len() / 512) as u32;
    let tag = raw.command(1, cdb::read16(0, blocks), Way::Read, data.len() as u32, &[]);
    assert!(raw.served.out.len_bytes() <= 17 << 20, "{}", raw.served.out.len_bytes());
    let mut read = Vec::new();
    for _ in 0..1000 {
        for (header, part) in raw.answers() {
            assert_eq!(opcode_of(&header), opcode::DATA_IN);
            read.extend(part);
        }
        if read.len() == data.len() {
            break;
        }
        // The peer sends nothing more; the sent data makes room.
        raw.served.end.drained(raw.now, &mut raw.served.out);
        raw.served.complete_all(raw.now);
        assert!(raw.served.out.len_bytes() <= 17 << 20, "{}", raw.served.out.len_bytes());
    }
    assert!(read == data, "{} bytes for {tag}", read.len());
}
