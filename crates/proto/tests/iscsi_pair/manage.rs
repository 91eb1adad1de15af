//! Task management: aborted commands, answers, and their order.

use block::{Fault, Op};
use proto::iscsi::TargetConfig;
use proto::iscsi::pdu::{
    DataOut, Header, LogoutRequest, LogoutResponse, Numbers, Pdu, ReadyToTransfer, Reject,
    TaskRequest, TaskResponse, opcode, opcode_of, task_tag,
};
use proto::scsi::{Sense, cdb, encode_lun};
use proto::{Notice, Target, UnitId};

use crate::harness::{INITIATOR, Rng, Setup, TARGET};
use crate::raw::{NOTHING, Raw, Way, bytes, end_of, text};

fn raw(in_place: bool) -> Raw {
    let setup = Setup { in_place, ..Setup::default() };
    Raw::ready(&setup, &[("InitialR2T", "Yes"), ("ImmediateData", "Yes")])
}

fn request(raw: &mut Raw, function: u8, lun: u16, referenced_tag: u32) -> TaskRequest {
    TaskRequest {
        immediate: true,
        function,
        lun: encode_lun(lun),
        task_tag: raw.tag(),
        referenced_tag,
        command_number: raw.number,
        expected_status: raw.status,
        referenced_number: raw.number - 1,
    }
}

fn response(header: &Header, tag: u32) -> u8 {
    assert_eq!((opcode_of(header), task_tag(header)), (opcode::TASK_RESPONSE, tag));
    TaskResponse::parse(header).response
}

#[test]
fn abort_task_answers_when_the_volume_is_done_and_nothing_follows() {
    for fails in [false, true] {
        let mut raw = raw(false);
        let gone = raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
        let other = raw.command(1, cdb::read10(1, 1), Way::Read, 512, &[]);
        raw.served.take_requests();
        let abort = request(&mut raw, 1, 1, gone);
        raw.send(&abort, &[]).unwrap();
        // The I/O is with the volume, so the answer waits.
        assert!(raw.answers().is_empty());
        // A second abort of the same task finds none.
        let again = request(&mut raw, 1, 1, gone);
        raw.send(&again, &[]).unwrap();
        assert_eq!(response(&raw.one().0, again.task_tag), 1);
        if fails {
            raw.served.faults.push_back(Fault::Medium);
        }
        raw.served.complete(raw.now, 0);
        assert_eq!(response(&raw.one().0, abort.task_tag), 0);
        assert_eq!(raw.end(other).status, 0);
        assert_eq!(raw.served.out.pool().lent(), [0, 0]);
    }
}

#[test]
fn abort_task_of_one_that_nobody_took_yet_needs_no_volume() {
    for way in [Way::Read, Way::Write] {
        let mut raw = raw(false);
        let cdb = if way == Way::Read { cdb::read10(0, 1) } else { cdb::write10(0, 1, false) };
        let data = if way == Way::Read { &[][..] } else { &[1; 512] };
        let tag = raw.command(1, cdb, way, 512, data);
        let abort = request(&mut raw, 1, 1, tag);
        raw.send(&abort, &[]).unwrap();
        assert_eq!(response(&raw.one().0, abort.task_tag), 0);
        raw.served.complete_all(raw.now);
        assert!(raw.served.seen.is_empty() && raw.answers().is_empty());
        assert_eq!(raw.served.out.pool().lent(), [0, 0]);
    }
}

#[test]
fn abort_of_a_task_that_waits_for_data_ignores_what_comes_late() {
    let mut raw = raw(true);
    let cdb = cdb::write10(0, 2, false);
    let tag = raw.command(1, cdb, Way::Write, 1024, &[1; 512]);
    let (header, _) = raw.one();
    let asked = ReadyToTransfer::parse(&header);
    let abort = request(&mut raw, 1, 1, tag);
    raw.send(&abort, &[]).unwrap();
    assert_eq!(response(&raw.one().0, abort.task_tag), 0);
    // The slot is in use again when the data for its former command comes.
    let next = raw.command(1, cdb::write10(8, 2, false), Way::Write, 1024, &[2; 512]);
    let (header, _) = raw.one();
    let wanted = ReadyToTransfer::parse(&header);
    assert_ne!(asked.transfer_tag, wanted.transfer_tag);
    for asked in [asked, wanted] {
        let data = DataOut {
            last: true,
            data_len: 512,
            lun: asked.lun,
            task_tag: asked.task_tag,
            transfer_tag: asked.transfer_tag,
            offset: 512,
            ..DataOut::default()
        };
        raw.send(&data, &[3; 512]).unwrap();
    }
    assert_eq!(raw.end(next).status, 0);
    assert_eq!(raw.served.seen, [(Op::Write, 4096, 1024, false)]);
    assert_eq!(raw.served.out.pool().lent(), [0, 0]);
}

#[test]
fn a_command_may_be_aborted_before_it_comes() {
    let mut raw = raw(true);
    let mut abort = request(&mut raw, 1, 1, 0x777);
    abort.referenced_number = raw.number;
    raw.send(&abort, &[]).unwrap();
    assert_eq!(response(&raw.one().0, abort.task_tag), 0);
    raw.command(1, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
    raw.served.complete_all(raw.now);
    assert!(raw.answers().is_empty() && raw.served.seen.is_empty());
    let tag = raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
    assert_eq!(raw.end(tag).status, 0);
    // One outside of the window never was.
    let mut abort = request(&mut raw, 1, 1, 0x777);
    abort.referenced_number = raw.number - 1;
    raw.send(&abort, &[]).unwrap();
    assert_eq!(response(&raw.one().0, abort.task_tag), 1);
}

#[test]
fn sets_resets_and_what_they_reach() {
    // Function, LUN, and whether tasks of units 1 and 2 end.
    for (function, lun, ends) in [
        (2, 1, [true, false]),
        (4, 2, [false, true]),
        (5, 1, [true, false]),
        (6, 0, [true, true]),
        (7, 0, [true, true]),
    ] {
        let mut raw = raw(false);
        let tags: Vec<u32> = [1, 2, 1, 2]
            .map(|lun| raw.command(lun, cdb::read10(0, 8), Way::Read, 4096, &[]))
            .to_vec();
        raw.served.take_requests();
        let abort = request(&mut raw, function, lun, NOTHING);
        raw.send(&abort, &[]).unwrap();
        assert!(raw.answers().is_empty());
        for at in [3, 0, 0, 0] {
            raw.served.complete(raw.now, at);
        }
        let mut notices = raw.told();
        let mut answers = raw.answers();
        let at = answers.iter().position(|answer| opcode_of(&answer.0) == opcode::TASK_RESPONSE);
        assert_eq!(response(&answers.remove(at.unwrap()).0, abort.task_tag), 0);
        for (index, tag) in tags.iter().enumerate() {
            let (end, rest) = end_of(*tag, answers);
            assert_eq!(end.is_none(), ends[index % 2], "function {function} task {index}");
            answers = rest;
        }
        assert!(answers.is_empty());
        assert_eq!(raw.served.out.pool().lent(), [0, 0]);
        notices.retain(|notice| matches!(notice, Notice::UnitReset(_)));
        assert_eq!(notices.len(), [0, 0, 0, 0, 0, 1, 1, 1][usize::from(function)]);
    }
}

#[test]
fn functions_that_are_not_offered_and_units_that_are_not_there() {
    let mut raw = raw(true);
    for (function, lun, expect) in
        [(3, 1, 5), (8, 1, 4), (9, 1, 5), (0, 1, 5), (127, 1, 5), (2, 0, 2), (5, 9, 2)]
    {
        let abort = request(&mut raw, function, lun, NOTHING);
        raw.send(&abort, &[]).unwrap();
        assert_eq!(response(&raw.one().0, abort.task_tag), expect, "{function}");
    }
}

#[test]
fn a_reset_by_another_session_aborts_and_is_told() {
    let mut raw = raw(false);
    let write = raw.command(1, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
    raw.served.take_requests();
    raw.notice(&Notice::UnitReset(UnitId(0)));
    raw.served.complete_all(raw.now);
    assert!(end_of(write, raw.answers()).0.is_none());
    for lun in [1, 2] {
        let tag = raw.command(lun, cdb::test_unit_ready(), Way::None, 0, &[]);
        assert_eq!(raw.end(tag).sense, Some(Sense::LUN_RESET));
        let tag = raw.command(lun, cdb::test_unit_ready(), Way::None, 0, &[]);
        assert_eq!(raw.end(tag).status, 0);
    }
    raw.notice(&Notice::UnitReset(UnitId(7)));
    let tag = raw.command(1, cdb::test_unit_ready(), Way::None, 0, &[]);
    assert_eq!(raw.end(tag).status, 0);
}

#[test]
fn a_reset_by_another_session_may_come_in_the_middle_of_data() {
    // A write of 8 KiB whose unsolicited data is cut after this many bytes of header and data.
    let data = [7; 8192];
    for cut in [0, 47, 48, 49, 4096, 48 + 8191] {
        let mut raw = raw(true);
        let command = raw.command_pdu(1, cdb::write10(0, 16, false), Way::Write, 8192, &data);
        let bytes = bytes(&command.build(), &data);
        raw.send_bytes(&bytes[..cut]).unwrap();
        raw.notice(&Notice::UnitReset(UnitId(0)));
        raw.send_bytes(&bytes[cut..]).unwrap();
        raw.served.take_requests();
        raw.served.complete_all(raw.now);
        // The command is aborted once its header has arrived, otherwise it reports the reset.
        let end = end_of(command.task_tag, raw.answers()).0;
        assert_eq!(end.is_none(), cut >= 48, "cut at {cut}");
        let mut there = [1; 8192];
        raw.served.disk.read(0, &mut there);
        assert!(there == [0; 8192], "cut at {cut}: it was written nevertheless");
        assert_eq!(raw.served.out.pool().lent(), [0, 0], "cut at {cut}");
        // The session continues.
        for lun in [1, 2] {
            let tag = raw.command(lun, cdb::test_unit_ready(), Way::None, 0, &[]);
            raw.end(tag);
        }
        let tag = raw.command(1, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
        assert_eq!(raw.end(tag).status, 0, "cut at {cut}");
    }
}

#[test]
fn a_login_of_the_same_name_ends_the_older_session() {
    let setup = Setup::default();
    let mut old = Raw::ready(&setup, &[("InitialR2T", "Yes"), ("ImmediateData", "Yes")]);
    let came = |initiator: &str, isid| {
        let mut new = Raw::new(&setup);
        new.knock(&text(&[("InitiatorName", initiator), ("TargetName", TARGET)]), isid);
        let notices = new.served.end.take_notices();
        let [came @ Notice::PeerCame(_)] = &notices[..] else { panic!("{notices:?}") };
        came.clone()
    };
    let isid = [0x80, 1, 2, 3, 4, 5];
    // No other connection existed, and a connection of another name does not matter.
    assert!(old.served.end.take_notices().is_empty());
    old.notice(&came(INITIATOR, [0x80, 1, 2, 3, 4, 6]));
    assert!(!old.served.end.finished());
    // The session's commands end without a status, and later ones are not executed.
    let write = old.command(1, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
    let read = old.command(1, cdb::read10(0, 8), Way::Read, 4096, &[]);
    // Names are compared without regard to case.
    old.notice(&came(&INITIATOR.to_uppercase(), isid));
    assert!(old.served.end.finished());
    old.command(1, cdb::read10(0, 8), Way::Read, 4096, &[]);
    assert!(!old.served.take_requests(), "it still asks for I/Os");
    let answers = old.answers();
    let (end, answers) = end_of(write, answers);
    assert!(end.is_none() && end_of(read, answers).0.is_none());
    let pool = old.served.out.pool().clone();
    old.served.end.abandon(&pool);
    assert_eq!(pool.lent(), [0, 0]);
}

#[test]
fn requests_that_wait_are_limited() {
    let mut raw = raw(false);
    raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
    raw.served.take_requests();
    let mut tags = Vec::new();
    for index in 0..17 {
        let abort = request(&mut raw, 2, 1, NOTHING);
        raw.send(&abort, &[]).unwrap();
        tags.push(abort.task_tag);
        assert_eq!(raw.answers().len(), usize::from(index == 16));
    }
    raw.served.complete(raw.now, 0);
    let answers = raw.answers();
    assert_eq!(answers.len(), 16);
    for (answer, tag) in answers.iter().zip(tags) {
        assert_eq!(response(&answer.0, tag), 0);
    }
}

#[test]
fn a_logout_waits_for_the_volume_and_ends_the_connection() {
    for reason in [0, 1] {
        let mut raw = raw(false);
        raw.command(1, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
        raw.served.take_requests();
        let task_tag = raw.tag();
        let logout = LogoutRequest {
            immediate: reason == 0,
            reason,
            task_tag,
            connection: 3,
            command_number: raw.number,
            expected_status: raw.status,
        };
        raw.send(&logout, &[]).unwrap();
        assert!(raw.answers().is_empty() && !raw.served.end.finished());
        raw.served.complete(raw.now, 0);
        let (header, _) = raw.one();
        assert_eq!(opcode_of(&header), opcode::LOGOUT_RESPONSE);
        let response = LogoutResponse::parse(&header);
        assert_eq!((response.response, response.task_tag), (0, task_tag));
        assert!(raw.served.end.finished());
        assert_eq!(raw.served.out.pool().lent(), [0, 0]);
        // Later bytes are ignored.
        raw.send_bytes(&[0xff; 1000]).unwrap();
        assert!(raw.answers().is_empty());
    }
}

#[test]
fn logouts_that_cannot_be() {
    let mut raw = raw(true);
    for (reason, connection, expect) in [(1, 4, Some(1)), (2, 3, Some(2)), (3, 3, None)] {
        let logout = LogoutRequest {
            immediate: true,
            reason,
            task_tag: 5,
            connection,
            command_number: raw.number,
            expected_status: raw.status,
        };
        raw.send(&logout, &[]).unwrap();
        let (header, _) = raw.one();
        match expect {
            Some(response) => assert_eq!(LogoutResponse::parse(&header).response, response),
            None => assert_eq!(Reject::parse(&header).reason, 0x09),
        }
        assert!(!raw.served.end.finished());
    }
}

/// Regression class "teardown races": aborts, resets and completions in any order.
#[test]
fn races_of_aborts_with_completions_leave_nothing_behind() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let target = TargetConfig { max_commands: 8, ..TargetConfig::default() };
        let setup = Setup { in_place: seed % 2 == 0, target, ..Setup::default() };
        let mut raw = Raw::ready(&setup, &[("InitialR2T", "Yes"), ("ImmediateData", "Yes")]);
        let (mut commands, mut managed, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        let mut max = raw.number + 7;
        for _ in 0..80 {
            answers.extend(raw.answers());
            let last = answers.last().map_or(max, |answer| Numbers::parse(&answer.0).max);
            max = if last.wrapping_sub(max) < 1 << 31 { last } else { max };
            let room = max.wrapping_sub(raw.number) < 1 << 31;
            match rng.below(8) {
                0..3 if room => {
                    let blocks = 1 + rng.below(600) as u16;
                    let (cdb, len) = (cdb::read10(0, blocks), u32::from(blocks) * 512);
                    commands.push(raw.command(1 + rng.below(2) as u16, cdb, Way::Read, len, &[]));
                }
                3 if room => {
                    // Half of them never get all of their data.
                    let (cdb, lun) = (cdb::write10(0, 9, false), 1 + rng.below(2) as u16);
                    let data = vec![1; if rng.below(2) == 0 { 512 } else { 512 * 9 }];
                    commands.push(raw.command(lun, cdb, Way::Write, 512 * 9, &data));
                }
                4 | 5 if managed.len() < 14 && !commands.is_empty() => {
                    let tag = commands[rng.below(commands.len() as u64) as usize];
                    let function = [1, 1, 2, 4, 5, 6][rng.below(6) as usize];
                    let abort = request(&mut raw, function, 1 + rng.below(2) as u16, tag);
                    raw.send(&abort, &[]).unwrap();
                    managed.push(abort.task_tag);
                }
                _ if !raw.served.flying.is_empty() => {
                    let at = rng.below(raw.served.flying.len() as u64) as usize;
                    raw.served.complete(raw.now, at);
                }
                _ => {}
            }
        }
        let last = request(&mut raw, 6, 0, NOTHING);
        raw.send(&last, &[]).unwrap();
        raw.served.complete_all(raw.now);
        raw.told();
        managed.push(last.task_tag);
        answers.extend(raw.answers());
        for tag in &managed {
            let count = answers.iter().filter(|answer| task_tag(&answer.0) == *tag).count();
            assert_eq!(count, 1, "seed {seed}");
        }
        for tag in commands {
            // At most one status, and no PDUs after the status.
            let (_, rest) = end_of(tag, std::mem::take(&mut answers));
            answers = rest;
        }
        assert_eq!(raw.served.out.pool().lent(), [0, 0], "seed {seed}");
        for sense in [Some(Sense::LUN_RESET), None] {
            let tag = raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
            assert_eq!(raw.end(tag).sense, sense, "seed {seed}");
        }
    }
}
