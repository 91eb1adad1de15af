//! The initiator's I/Os, against a scripted target.

use block::{Fault, Op, Tag};
use proto::iscsi::pdu::{
    AsyncMessage, Command, DataOut, Header, LogoutRequest, LogoutResponse, NopIn, NopOut, Numbers,
    ReadyToTransfer, Reject, Response, command_number, opcode, opcode_of, task_tag,
};
use proto::scsi::{Key, Sense, encode_lun};
use proto::{Ending, Endpoint, Initiator, Phase};

use crate::harness::io;
use crate::played::Played;
use crate::raw::NOTHING;

#[test]
fn opens_reads_writes_and_closes() {
    let mut played = Played::ready(&[]);
    let tag = played.read(512);
    played.data(tag, &[7; 512], true).unwrap();
    assert_eq!(played.done(), Ok(()));
    let (header, body) = played.write(512);
    let command = Command::parse(&header);
    assert_eq!((command.data_len, command.last, command.write), (512, true, true));
    assert_eq!((command.cdb[0], body.len()), (0x8a, 512));
    played.good(command.task_tag).unwrap();
    assert_eq!(played.done(), Ok(()));
    played.end.close(played.now, &mut played.out);
    let (header, _) = played.next();
    assert_eq!((opcode_of(&header), played.end.phase()), (opcode::LOGOUT_REQUEST, Phase::Closing));
    let numbers = Numbers { status: played.take_status(), ..played.numbers() };
    let answer =
        LogoutResponse { task_tag: task_tag(&header), numbers, ..LogoutResponse::default() };
    played.send(&answer, &[]).unwrap();
    assert_eq!((played.end.phase(), played.end.deadline()), (Phase::Closed, None));
}

#[test]
fn a_protected_unit_refuses_writes_without_asking() {
    let mut played = Played::new();
    played.login(&[]).unwrap();
    played.open(0x80, 0);
    let buf = played.out.pool().take(512);
    played.end.submit(played.now, io(Op::Write, 0, 512, buf), &mut played.out);
    assert_eq!(played.done(), Err(Fault::ReadOnly));
    played.nothing();
}

#[test]
fn trims_by_what_the_unit_promises() {
    for (lbpme, op, code, flags, expected) in [
        (0xc0, Op::Trim, 0x42, 0, 24),
        (0x80, Op::Trim, 0x93, 0x08, 512),
        (0x00, Op::WriteZeroes, 0x93, 0, 512),
        (0xc0, Op::WriteZeroes, 0x93, 0x08, 512),
    ] {
        let mut played = Played::new();
        played.login(&[]).unwrap();
        played.open(0, lbpme);
        played.end.submit(played.now, io(op, 512, 1024, None), &mut played.out);
        let command = Command::parse(&played.next().0);
        assert_eq!((command.cdb[0], command.expected_len), (code, expected), "{op:?} {lbpme:x}");
        if code == 0x93 {
            assert_eq!(command.cdb[1], flags);
        }
        played.good(command.task_tag).unwrap();
        assert_eq!(played.done(), Ok(()));
    }
}

#[test]
fn sends_unsolicited_data_up_to_first_burst() {
    // Keys; immediate, then unsolicited in segments of.
    for (keys, immediate, unsolicited) in [
        (&[("InitialR2T", "No"), ("ImmediateData", "Yes")][..], 8192, &[8192, 8192, 8192][..]),
        (&[("InitialR2T", "No"), ("ImmediateData", "No")], 0, &[8192; 4]),
        (&[("InitialR2T", "Yes"), ("ImmediateData", "Yes")], 8192, &[]),
        (&[("InitialR2T", "Yes"), ("ImmediateData", "No")], 0, &[]),
    ] {
        let mut all = keys.to_vec();
        all.push(("FirstBurstLength", "32768"));
        let mut played = Played::ready(&all);
        let (header, body) = played.write(100 << 10);
        let command = Command::parse(&header);
        assert_eq!((body.len(), command.last), (immediate, unsolicited.is_empty()), "{keys:?}");
        let mut offset = immediate as u32;
        for (number, len) in unsolicited.iter().enumerate() {
            let data = DataOut::parse(&played.next().0);
            assert_eq!((data.transfer_tag, data.data_number), (NOTHING, number as u32));
            assert_eq!((data.offset, data.data_len), (offset, *len));
            assert_eq!(data.last, number + 1 == unsolicited.len());
            offset += len;
        }
        played.nothing();
        // The rest in two bursts.
        for (number, len) in [(0, 20_000), (1, (100 << 10) - 20_000 - offset)] {
            let ready = ReadyToTransfer {
                lun: encode_lun(1),
                task_tag: command.task_tag,
                transfer_tag: 0x55 + number,
                numbers: played.numbers(),
                number,
                offset,
                len,
            };
            played.send(&ready, &[]).unwrap();
            let end = offset + len;
            while offset < end {
                let data = DataOut::parse(&played.next().0);
                assert_eq!((data.transfer_tag, data.offset), (0x55 + number, offset));
                assert_eq!(data.lun, encode_lun(1));
                offset += data.data_len;
                assert_eq!(data.last, offset == end);
            }
            played.nothing();
        }
        played.good(command.task_tag).unwrap();
        assert_eq!(played.done(), Ok(()));
    }
}

#[test]
fn hostile_requests_for_data() {
    let keys = [("InitialR2T", "Yes"), ("ImmediateData", "No"), ("MaxBurstLength", "4096")];
    for (number, offset, len, stale) in [
        (0, 512, 512, false),
        (0, 0, 8193, false),
        (0, 0, 4097, false),
        (0, 0, 0, false),
        (1, 0, 512, false),
        (0, 0, u32::MAX, false),
        (0, u32::MAX, 2, false),
        (0, 0, 512, true),
    ] {
        let mut played = Played::ready(&keys);
        let (header, _) = played.write(8192);
        let task_tag = task_tag(&header) ^ if stale { 0x10000 } else { 0 };
        let (lun, transfer_tag, numbers) = ([0; 8], 1, played.numbers());
        let ready = ReadyToTransfer { lun, task_tag, transfer_tag, numbers, number, offset, len };
        Played::violates(played.send(&ready, &[]));
    }
    // For a read.
    let mut played = Played::ready(&keys);
    let task_tag = played.read(512);
    let (lun, transfer_tag, numbers) = ([0; 8], 1, played.numbers());
    let ready =
        ReadyToTransfer { lun, task_tag, transfer_tag, numbers, number: 0, offset: 0, len: 512 };
    Played::violates(played.send(&ready, &[]));
}

#[test]
fn hostile_data() {
    for case in 0..8 {
        let mut played = Played::ready(&[]);
        let tag = if case == 7 { task_tag(&played.write(512).0) } else { played.read(1024) };
        let mut pdu = played.data_in(tag, &[1; 512], false);
        match case {
            0 => pdu.task_tag ^= 0x10000,
            1 => pdu.task_tag = 0x0fff,
            2 => pdu.offset = 512,
            3 => pdu.offset = u32::MAX,
            4 => pdu.data_number = 1,
            5 => pdu.data_len = 1028,
            6 => pdu.task_tag = NOTHING,
            _ => {}
        }
        let data = vec![1; pdu.data_len as usize];
        Played::violates(played.send(&pdu, &data));
    }
    // Same data twice.
    let mut played = Played::ready(&[]);
    let tag = played.read(1024);
    played.data(tag, &[1; 512], false).unwrap();
    Played::violates(played.data(tag, &[1; 512], false));
    // A status twice, and one that does not come next.
    let mut played = Played::ready(&[]);
    let tag = played.read(512);
    played.data(tag, &[1; 512], true).unwrap();
    assert_eq!(played.done(), Ok(()));
    Played::violates(played.good(tag));
    let tag = Played::ready(&[]).read(512);
    let mut played = Played::ready(&[]);
    played.status += 1;
    let same = played.read(512);
    assert_eq!(tag & 0xffff, same & 0xffff);
    Played::violates(played.good(same));
}

#[test]
fn short_reads_and_residuals_are_errors() {
    let mut played = Played::ready(&[]);
    let tag = played.read(1024);
    played.data(tag, &[1; 512], true).unwrap();
    assert_eq!(played.done(), Err(Fault::Medium));
    let tag = played.read(1024);
    played.good(tag).unwrap();
    assert_eq!(played.done(), Err(Fault::Medium));
    let tag = task_tag(&played.write(512).0);
    let numbers = Numbers { status: played.take_status(), ..played.numbers() };
    let response =
        Response { underflow: true, residual: 512, task_tag: tag, numbers, ..Response::default() };
    played.send(&response, &[]).unwrap();
    assert_eq!(played.done(), Err(Fault::Medium));
}

#[test]
fn sense_becomes_a_fault() {
    let mut played = Played::ready(&[]);
    for (sense, result) in [
        (Sense::UNRECOVERED_READ_ERROR, Err(Fault::Medium)),
        (Sense::LBA_OUT_OF_RANGE, Err(Fault::OutOfRange)),
        (Sense::INVALID_OPCODE, Err(Fault::Unsupported)),
        (Sense::WRITE_PROTECTED, Err(Fault::ReadOnly)),
        (Sense::MISCOMPARE, Err(Fault::Miscompare)),
        (Sense::ABORTED_COMMAND, Err(Fault::Aborted)),
        (Sense::BECOMING_READY, Err(Fault::Medium)),
        (Sense::new(Key::RecoveredError, 0x17, 0), Ok(())),
    ] {
        let tag = task_tag(&played.write(512).0);
        played.check_condition(tag, sense).unwrap();
        assert_eq!(played.done(), result, "{sense}");
    }
    for (status, result) in [(0x18, Fault::Medium), (0x40, Fault::Aborted), (0x30, Fault::Medium)] {
        let tag = task_tag(&played.write(512).0);
        played.response(tag, status, &[]).unwrap();
        assert_eq!(played.done(), Err(result), "{status:#x}");
    }
}

#[test]
fn a_busy_target_is_asked_again_a_few_times() {
    for status in [0x08, 0x28] {
        let mut played = Played::ready(&[]);
        let mut tag = task_tag(&played.write(512).0);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            played.response(tag, status, &[]).unwrap();
            played.nothing();
            let due = played.end.deadline().unwrap();
            pauses.push(due.0 - played.now.0);
            played.now = due;
            played.end.tick(due, &mut played.out).unwrap();
            let (header, body) = played.next();
            assert_eq!((opcode_of(&header), body.len()), (opcode::COMMAND, 512));
            assert_ne!(task_tag(&header), tag, "a fresh name for every try");
            tag = task_tag(&header);
        }
        assert!(pauses.windows(2).all(|pair| pair[1] == 2 * pair[0]), "{pauses:?}");
        played.response(tag, status, &[]).unwrap();
        assert_eq!(played.done(), Err(Fault::Medium));
        // A unit attention is cleared by its report: the command is repeated at once.
        let tag = played.read(512);
        played.check_condition(tag, ACCESS_CHANGED).unwrap();
        let tag = played.command(|cdb| cdb[0] == 0x88).task_tag;
        played.data(tag, &[1; 512], true).unwrap();
        assert_eq!(played.done(), Ok(()));
    }
}

/// An attention that changes nothing for us: asymmetric access state changed.
const ACCESS_CHANGED: Sense = Sense::new(proto::scsi::Key::UnitAttention, 0x2a, 0x06);

#[test]
fn the_window_of_the_target_is_obeyed() {
    let mut played = Played::new();
    played.window = 8;
    played.login(&[]).unwrap();
    played.open(0, 0);
    // Four commands were sent since; the window has not moved.
    let used = played.end.room();
    assert!(used < 8, "{used}");
    for tag in 0..used as u64 {
        let buf = played.out.pool().take(512);
        let io = block::Io { tag: Tag(tag), ..io(Op::Read, 0, 512, buf) };
        played.end.submit(played.now, io, &mut played.out);
    }
    assert_eq!(played.end.room(), 0);
    let first = played.next().0;
    let last = (1..used).map(|_| played.next().0).last().unwrap();
    assert_eq!(command_number(&last), 8);
    // An answer that opens it by two; an older one does not close it.
    played.window = 10;
    let tag = task_tag(&first);
    played.data(tag, &[1; 512], true).unwrap();
    assert_eq!(played.end.room(), 2);
    played.window = 3;
    let nop = NopIn {
        data_len: 0,
        lun: [0; 8],
        task_tag: NOTHING,
        transfer_tag: NOTHING,
        numbers: played.numbers(),
    };
    played.send(&nop, &[]).unwrap();
    assert_eq!(played.end.room(), 2);
}

#[test]
fn pings_and_news_of_the_target() {
    let mut played = Played::ready(&[]);
    let numbers = played.numbers();
    let (lun, task_tag, transfer_tag) = (encode_lun(1), NOTHING, 0x1234);
    let nop = NopIn { data_len: 3, lun, task_tag, transfer_tag, numbers };
    played.send(&nop, b"abc").unwrap();
    let (header, _) = played.next();
    let answer = NopOut::parse(&header);
    assert_eq!((answer.task_tag, answer.transfer_tag, answer.lun), (NOTHING, 0x1234, lun));
    assert!(answer.immediate);
    // A ping of ours that was never sent is not answered.
    let mut bad = Played::ready(&[]);
    Played::violates(bad.send(&NopIn { task_tag: 5, data_len: 0, ..nop }, &[]));
    // The target drops the connection.
    for event in [2, 3] {
        let mut played = Played::ready(&[]);
        let numbers = Numbers { status: played.take_status(), ..played.numbers() };
        let message = AsyncMessage { event, numbers, ..AsyncMessage::default() };
        assert!(matches!(played.send(&message, &[]), Err(Ending::Refused(_))));
    }
    // The target requests a logout: it follows once the I/Os have ended, or after the time limit.
    for waits in [false, true] {
        let mut played = Played::ready(&[]);
        let tag = played.read(512);
        let numbers = Numbers { status: played.take_status(), ..played.numbers() };
        let parameters = [0, 0, 3];
        let message = AsyncMessage { event: 1, numbers, parameters, ..AsyncMessage::default() };
        played.send(&message, &[]).unwrap();
        assert_eq!((played.end.phase(), played.end.room()), (Phase::Closing, 0));
        played.nothing();
        if waits {
            played.data(tag, &[1; 512], true).unwrap();
            assert_eq!(played.done(), Ok(()));
        } else {
            played.now = played.end.deadline().unwrap();
            played.end.tick(played.now, &mut played.out).unwrap();
        }
        let (header, _) = played.next();
        assert_eq!(LogoutRequest::parse(&header).reason, 0);
    }
    // A rejection ends the session.
    let mut played = Played::ready(&[]);
    let numbers = Numbers { status: played.take_status(), ..played.numbers() };
    let reject = Reject { reason: 4, data_len: 48, numbers };
    assert!(matches!(played.send(&reject, &[0; 48]), Err(Ending::Refused(_))));
}

#[test]
fn opcodes_of_an_initiator_are_not_a_target_s() {
    for code in (0..64_u8).filter(|code| !(0x20..0x27).contains(code)) {
        let mut played = Played::ready(&[]);
        let mut header: Header = [0; 48];
        header[0] = code;
        header[16..20].copy_from_slice(&NOTHING.to_be_bytes());
        let result = played.end.receive(played.now, &header, &mut played.out);
        assert!(result.is_err() || code == opcode::ASYNC_MESSAGE, "{code:#x}");
    }
}

#[test]
fn forced_access_is_a_flush_where_the_unit_does_not_know_it() {
    let mut played = Played::new();
    played.login(&[]).unwrap();
    played.open_with(0, 0);
    for fails in [false, true] {
        let buf = played.out.pool().take(512);
        let write = block::Io { fua: true, ..io(Op::Write, 0, 512, buf) };
        played.end.submit(played.now, write, &mut played.out);
        let (header, _) = played.next();
        let command = Command::parse(&header);
        assert_eq!((command.cdb[0], command.cdb[1] & 0x08), (0x8a, 0));
        played.good(command.task_tag).unwrap();
        assert!(played.end.done().is_empty());
        let flush = played.command(|cdb| cdb[0] == 0x91).task_tag;
        assert_ne!(flush, command.task_tag);
        if fails {
            played.check_condition(flush, Sense::WRITE_ERROR).unwrap();
            assert_eq!(played.done(), Err(Fault::Medium));
        } else {
            played.good(flush).unwrap();
            assert_eq!(played.done(), Ok(()));
        }
    }
    // A write that failed needs no flush.
    let buf = played.out.pool().take(512);
    let write = block::Io { fua: true, ..io(Op::Write, 0, 512, buf) };
    played.end.submit(played.now, write, &mut played.out);
    let tag = task_tag(&played.next().0);
    played.check_condition(tag, Sense::WRITE_ERROR).unwrap();
    assert_eq!(played.done(), Err(Fault::Medium));
}

#[test]
fn reads_may_come_without_a_buffer() {
    let mut played = Played::ready(&[]);
    played.end.submit(played.now, io(Op::Read, 0, 4096, None), &mut played.out);
    let tag = played.command(|cdb| cdb[0] == 0x88).task_tag;
    assert_eq!(played.out.pool().lent(), [0, 0]);
    // A first attempt that fails half way gives nothing away.
    played.data(tag, &[1; 2048], false).unwrap();
    played.check_condition(tag, ACCESS_CHANGED).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x88).task_tag;
    played.data(tag, &[7; 4096], true).unwrap();
    let done = played.end.done().pop().unwrap();
    assert_eq!(done.result, Ok(()));
    let buf = done.buf.unwrap();
    assert_eq!(buf[..4096], [7; 4096]);
    played.out.pool().give(buf);
    assert_eq!(played.out.pool().lent(), [0, 0]);
    // A read that fails at once has no buffer.
    played.end.submit(played.now, io(Op::Read, 0, 4096, None), &mut played.out);
    let tag = played.command(|cdb| cdb[0] == 0x88).task_tag;
    played.check_condition(tag, Sense::UNRECOVERED_READ_ERROR).unwrap();
    assert!(played.end.done().pop().unwrap().buf.is_none());
}
