//! Login and first commands of the initiator, against a scripted target.

use block::Nanos;
use proto::iscsi::pdu::LoginRequest;
use proto::scsi::Sense;
use proto::{Ending, Endpoint, Initiator, Phase};

use crate::played::Played;

#[test]
fn refusals_are_told_in_words() {
    for (status, text, words) in [
        (0x0203, &b""[..], "not found"),
        (0x0201, b"", "authentication"),
        (0x0202, b"", "access list"),
        (0x0101, b"TargetAddress=192.0.2.7:3260,1\0", "192.0.2.7:3260"),
        (0x0301, b"", "not operational"),
        (0x0302, b"", "out of resources"),
        (0x0299, b"", "refuses"),
        (0x0377, b"", "failed"),
    ] {
        let mut played = Played::new();
        let request = LoginRequest::parse(&played.next().0);
        let ending = played.login_response(&request, status, text).unwrap_err();
        let moved = matches!(&ending, Ending::Moved(to) if to.address == words);
        assert_eq!(moved, status == 0x0101, "{ending:?}");
        let said = ending.to_string();
        assert!(said.contains(words) && said.contains(&format!("{status:#06x}")), "{said}");
    }
    // The target requires CHAP, or does not support the digests.
    let mut played = Played::new();
    let request = LoginRequest::parse(&played.next().0);
    let ending = played.login_response(&request, 0, b"AuthMethod=CHAP\0").unwrap_err();
    assert!(ending.to_string().contains("CHAP"), "{ending}");
    for answer in [("MaxBurstLength", "16777215"), ("HeaderDigest", "CRC32C"), ("DataDigest", "x")]
    {
        let ending = Played::new().login(&[answer]).unwrap_err();
        assert!(ending.to_string().contains(answer.0), "{ending}");
    }
}

#[test]
fn what_a_target_may_answer_to_an_offer() {
    for keys in [
        &[("InitialR2T", "Yes"), ("ImmediateData", "No"), ("X-target", "1")][..],
        &[("MaxBurstLength", "Reject"), ("FirstBurstLength", "NotUnderstood")],
        &[("ErrorRecoveryLevel", "Irrelevant"), ("MaxRecvDataSegmentLength", "512")],
        &[("TargetAlias", "x"), ("HeaderDigest", "None"), ("MaxOutstandingR2T", "4")],
    ] {
        Played::ready(keys);
    }
}

#[test]
fn a_unit_that_cannot_be_used_is_told_in_words() {
    for (sense, words) in [
        (Sense::LOGICAL_UNIT_NOT_SUPPORTED, "no LUN 1"),
        (Sense::MEDIUM_NOT_PRESENT, "no medium"),
        (Sense::INTERNAL_TARGET_FAILURE, "cannot be used"),
    ] {
        let mut played = Played::new();
        played.login(&[]).unwrap();
        let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
        let ending = played.check_condition(tag, sense).unwrap_err();
        assert!(ending.to_string().contains(words), "{ending}");
    }
    // A unit that is not ready yet is queried again until the time-out.
    let mut played = Played::new();
    played.login(&[]).unwrap();
    for _ in 0..10 {
        let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
        played.check_condition(tag, Sense::BECOMING_READY).unwrap();
        played.nothing();
        played.now = played.end.deadline().unwrap();
        played.end.tick(played.now, &mut played.out).unwrap();
    }
    played.now = Nanos::from_secs(16);
    let ending = played.end.tick(played.now, &mut played.out).unwrap_err();
    assert!(matches!(ending, Ending::TimedOut(_)));
}

#[test]
fn falls_back_where_a_unit_does_not_know_the_question() {
    let mut played = Played::new();
    played.login(&[]).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
    played.good(tag).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x9e).task_tag;
    played.check_condition(tag, Sense::INVALID_OPCODE).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x25).task_tag;
    // In two parts, the status apart.
    played.data(tag, &[0, 0, 0, 99], false).unwrap();
    let mut second = played.data_in(tag, &[0, 0, 2, 0], false);
    (second.offset, second.data_number) = (4, 1);
    played.send(&second, &[0, 0, 2, 0]).unwrap();
    played.good(tag).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x1a).task_tag;
    played.check_condition(tag, Sense::INVALID_FIELD_IN_CDB).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x12).task_tag;
    played.check_condition(tag, Sense::INVALID_FIELD_IN_CDB).unwrap();
    for page in [0x83, 0x80] {
        let tag = played.command(|cdb| cdb[..3] == [0x12, 1, page]).task_tag;
        played.check_condition(tag, Sense::INVALID_FIELD_IN_CDB).unwrap();
    }
    assert_eq!((played.end.product(), played.end.identity()), (None, None));
    let Phase::Ready(geometry) = played.end.phase() else { panic!("not ready") };
    assert_eq!((geometry.blocks, geometry.volatile, geometry.read_only), (100, true, false));
}

#[test]
fn a_target_that_says_nothing_times_out() {
    let mut played = Played::new();
    let due = played.end.deadline().unwrap();
    assert!(matches!(played.end.tick(due, &mut played.out), Err(Ending::TimedOut(_))));
    let mut played = Played::ready(&[]);
    played.end.close(played.now, &mut played.out);
    let due = played.end.deadline().unwrap();
    assert!(matches!(played.end.tick(due, &mut played.out), Err(Ending::TimedOut(_))));
    // Before there is a session there is nothing to log out of.
    let mut played = Played::new();
    played.end.close(played.now, &mut played.out);
    assert_eq!(played.end.phase(), Phase::Closed);
}

#[test]
fn endless_answers_end_the_session() {
    let mut played = Played::new();
    let mut request = LoginRequest::parse(&played.next().0);
    request.transit = false;
    let ended = (0..100).find_map(|_| {
        let result = played.login_response(&request, 0, &[]);
        if result.is_ok() {
            played.next();
        }
        result.err()
    });
    assert!(matches!(ended, Some(Ending::Refused(_))));
    // Sense data of 8 KiB and more.
    let mut played = Played::ready(&[]);
    let tag = played.read(512);
    Played::violates(played.response(tag, 2, &[0; 9000]));
}

#[test]
fn a_target_s_text_may_come_in_parts() {
    let mut played = Played::new();
    let first = LoginRequest::parse(&played.next().0);
    let (head, tail) = b"AuthMethod=None\0TargetAlias=a disk\0".split_at(9);
    played.login_part(&first, head, true).unwrap();
    let (header, body) = played.next();
    let more = LoginRequest::parse(&header);
    assert_eq!((more.transit, more.stage, body.len()), (false, 0, 0));
    played.login_part(&LoginRequest { transit: true, next_stage: 1, ..more }, tail, false).unwrap();
    assert_eq!(LoginRequest::parse(&played.next().0).stage, 1);
}

#[test]
fn a_target_that_goes_elsewhere_is_left() {
    for (stage, next_stage) in [(0, 3), (1, 3), (0, 2)] {
        let mut played = Played::new();
        let first = LoginRequest::parse(&played.next().0);
        let wrong = LoginRequest { stage, next_stage, ..first };
        let ending = played.login_part(&wrong, &[], false).unwrap_err();
        assert!(ending.to_string().contains("stage"), "{ending}");
    }
    let mut played = Played::new();
    let first = LoginRequest::parse(&played.next().0);
    let other = LoginRequest { task_tag: 9, ..first };
    assert!(matches!(played.login_part(&other, &[], false), Err(Ending::Refused(_))));
    // Data where a login response should be.
    let mut played = Played::new();
    played.next();
    assert!(matches!(played.data(0, &[0; 8], true), Err(Ending::Violation(_))));
    let mut played = Played::new();
    assert!(matches!(played.good(0), Err(Ending::Violation(_))));
}
