//! Unanswered changes: the initiator's report on them, and its handling of those of an older
//! session.

use block::{Fault, Io, Nanos, Op, Tag};
use proto::iscsi::InitiatorConfig;
use proto::iscsi::pdu::{
    LoginRequest, Numbers, Reject, TaskRequest, TaskResponse, opcode, opcode_of, task_tag,
};
use proto::scsi::{Key, Sense};
use proto::{Ending, Fence, Initiator, Phase};

use crate::harness::{INITIATOR, TARGET, io};
use crate::played::{DESIGNATION, Played};

const ISID: [u8; 6] = [0x80, 1, 2, 3, 4, 5];
const RESET_BY_TMF: Sense = Sense::new(Key::UnitAttention, 0x29, 0x03);
const NEXUS_LOSS: Sense = Sense::new(Key::UnitAttention, 0x29, 0x07);

fn send(played: &mut Played, op: Op, offset: u64, len: u32) -> u32 {
    let buf = (op == Op::Write).then(|| played.out.pool().take(len as usize).unwrap());
    let io = Io { tag: Tag(offset), ..io(op, offset, len, buf) };
    played.end.submit(played.now, io, &mut played.out);
    task_tag(&played.next().0)
}

#[test]
fn what_was_sent_and_not_answered_is_in_doubt() {
    let mut played = Played::ready(&[]);
    let written = send(&mut played, Op::Write, 4096, 512);
    send(&mut played, Op::Write, 8192, 1024);
    let busy = send(&mut played, Op::Write, 0, 512);
    send(&mut played, Op::Read, 512, 512);
    send(&mut played, Op::Flush, 0, 0);
    send(&mut played, Op::WriteZeroes, 1 << 16, 4096);
    send(&mut played, Op::Trim, 1 << 17, 512);
    played.good(written).unwrap();
    // The command was not executed.
    played.response(busy, 0x08, &[]).unwrap();
    let mut doubt = played.end.in_doubt();
    doubt.sort_unstable();
    assert_eq!(doubt, [(8192, 1024), (1 << 16, 4096), (1 << 17, 512)]);
    played.end.abandon();
    assert_eq!(played.end.in_doubt(), []);
}

#[test]
fn a_write_whose_flush_is_under_way_was_executed() {
    let mut played = Played::new();
    played.login(&[]).unwrap();
    played.open_with(0, 0);
    let buf = played.out.pool().take(512);
    let write = Io { fua: true, ..io(Op::Write, 0, 512, buf) };
    played.end.submit(played.now, write, &mut played.out);
    let tag = task_tag(&played.next().0);
    assert_eq!(played.end.in_doubt(), [(0, 512)]);
    played.good(tag).unwrap();
    assert_eq!(played.end.in_doubt(), []);
}

#[test]
fn news_that_change_the_unit_end_the_session() {
    for (sense, lost_power, words) in [
        (Sense::POWER_ON_RESET, true, "power on"),
        (RESET_BY_TMF, true, "bus device reset"),
        (NEXUS_LOSS, false, "I_T nexus loss occurred (29/07)"),
        (Sense::CAPACITY_CHANGED, false, "capacity data has changed (2a/09)"),
        (Sense::new(Key::UnitAttention, 0x2a, 0x01), false, "mode parameters changed"),
        (Sense::new(Key::UnitAttention, 0x2f, 0x00), false, "commands cleared"),
        (Sense::new(Key::UnitAttention, 0x3f, 0x03), false, "inquiry data has changed"),
    ] {
        let mut played = Played::ready(&[]);
        send(&mut played, Op::Write, 4096, 512);
        let told = send(&mut played, Op::Write, 0, 512);
        let ending = played.check_condition(told, sense).unwrap_err();
        assert_eq!(ending.lost_power(), lost_power);
        let said = ending.to_string();
        assert!(said.contains(words) && said.contains("may be lost") == lost_power, "{said}");
        assert_eq!(played.end.in_doubt(), [(4096, 512)], "the other one was not executed");
        played.end.abandon();
        let faults: Vec<_> = played.end.done().drain(..).map(|done| done.result).collect();
        assert_eq!(faults, [Err(Fault::Disconnected); 2]);
    }
}

/// A unit of another identity.
const OTHER: [u8; 12] = [0, 0x83, 0, 8, 1, 0x03, 0, 4, 9, 9, 9, 9];

#[test]
fn a_changed_list_of_units_makes_the_initiator_look_whether_this_one_is_the_same() {
    for (answer, is_same) in [(DESIGNATION.as_slice(), true), (&OTHER, false)] {
        let mut played = Played::with(InitiatorConfig::new(INITIATOR, TARGET, 1));
        open(&mut played, b"ANY     ", &[]);
        send(&mut played, Op::Write, 4096, 512);
        let told = send(&mut played, Op::Write, 0, 512);
        played.check_condition(told, Sense::REPORTED_LUNS_CHANGED).unwrap();
        assert_eq!(played.end.room(), 0, "new I/Os wait");
        assert!(matches!(played.end.phase(), Phase::Ready(_)));
        let tag = played.command(|cdb| cdb[..3] == [0x12, 1, 0x83]).task_tag;
        let ended = played.data(tag, answer, true);
        assert_eq!(ended.is_ok(), is_same);
        if let Err(ending) = ended {
            assert!(ending.to_string().contains("reported LUNs data has changed"), "{ending}");
            assert_eq!(played.end.in_doubt(), [(4096, 512)], "the other one was not executed");
            continue;
        }
        let again = task_tag(&played.next().0);
        played.good(again).unwrap();
        assert_eq!(played.end.done().len(), 1);
        assert!(played.end.room() > 0);
    }
}

#[test]
fn a_unit_without_identity_cannot_say_that_it_is_the_same() {
    let mut played = Played::with(InitiatorConfig::new(INITIATOR, TARGET, 1));
    let mut tag = open_to_identity(&mut played, b"ANY     ", &[]);
    played.check_condition(tag, Sense::INVALID_FIELD_IN_CDB).unwrap();
    tag = played.command(|cdb| cdb[..3] == [0x12, 1, 0x80]).task_tag;
    played.check_condition(tag, Sense::INVALID_FIELD_IN_CDB).unwrap();
    let told = send(&mut played, Op::Write, 0, 512);
    let ending = played.check_condition(told, Sense::REPORTED_LUNS_CHANGED).unwrap_err();
    assert!(ending.to_string().contains("reported LUNs data has changed"), "{ending}");
}

/// Answers the first questions of a unit of this vendor, after these attentions.
fn open(played: &mut Played, vendor: &[u8; 8], attentions: &[Sense]) {
    let tag = open_to_identity(played, vendor, attentions);
    played.data(tag, &DESIGNATION, true).unwrap();
}

/// The same, up to the question for its identity.
fn open_to_identity(played: &mut Played, vendor: &[u8; 8], attentions: &[Sense]) -> u32 {
    played.login(&[]).unwrap();
    for sense in attentions {
        let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
        played.check_condition(tag, *sense).unwrap();
    }
    let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
    played.good(tag).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x9e).task_tag;
    played.data(tag, &[[0; 7].as_slice(), &[99, 0, 0, 2, 0]].concat(), true).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x1a).task_tag;
    played.check_condition(tag, Sense::INVALID_FIELD_IN_CDB).unwrap();
    let tag = played.command(|cdb| cdb[..2] == [0x12, 0]).task_tag;
    let mut inquiry = [0; 36];
    inquiry[8..32].copy_from_slice(b"        DISK            ");
    inquiry[8..16].copy_from_slice(vendor);
    played.data(tag, &inquiry, true).unwrap();
    played.command(|cdb| cdb[..3] == [0x12, 1, 0x83]).task_tag
}

fn fenced() -> Played {
    let config = InitiatorConfig::new(INITIATOR, TARGET, 1);
    Played::with(InitiatorConfig { isid: Some(ISID), fence: true, ..config })
}

/// Returns the reset of the unit that the initiator requests.
fn reset(played: &mut Played) -> TaskRequest {
    assert_eq!(played.end.phase(), Phase::Opening);
    let (header, _) = played.next();
    assert_eq!(opcode_of(&header), opcode::TASK_REQUEST);
    let request = TaskRequest::parse(&header);
    assert_eq!((request.immediate, request.function), (true, 5));
    request
}

fn is_ready(played: &Played) -> bool {
    matches!(played.end.phase(), Phase::Ready(_))
}

#[test]
fn a_session_is_opened_under_the_isid_of_another() {
    let mut played = fenced();
    assert_eq!(LoginRequest::parse(&played.next().0).isid, ISID);
}

#[test]
fn a_target_that_waits_is_not_disturbed() {
    let mut played = fenced();
    open(&mut played, b"LIO-ORG ", &[]);
    assert!(is_ready(&played));
    assert_eq!((played.end.fence(), played.end.power_was_lost()), (Fence::Ended, None));
    // With its own initiator name, it reports nothing about other sessions.
    let mut played = Played::new();
    open(&mut played, b"LIO-ORG ", &[]);
    assert_eq!(played.end.fence(), Fence::After(Nanos(0)));
}

#[test]
fn elsewhere_the_unit_is_reset() {
    let mut played = fenced();
    open(&mut played, b"IET     ", &[NEXUS_LOSS]);
    let request = reset(&mut played);
    let numbers = Numbers { status: played.take_status(), ..played.numbers() };
    let answer = TaskResponse { response: 0, task_tag: request.task_tag, numbers };
    played.send(&answer, &[]).unwrap();
    // The resulting attention is of our own reset.
    let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
    played.check_condition(tag, RESET_BY_TMF).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
    played.good(tag).unwrap();
    assert!(is_ready(&played));
    assert_eq!((played.end.fence(), played.end.power_was_lost()), (Fence::Ended, Some(false)));
    // An initiator with nothing in doubt resets nothing.
    let config = InitiatorConfig::new(INITIATOR, TARGET, 1);
    let mut played = Played::with(InitiatorConfig { isid: Some(ISID), ..config });
    open(&mut played, b"IET     ", &[]);
    assert!(is_ready(&played));
    assert_eq!(played.end.fence(), Fence::After(Nanos(0)));
}

#[test]
fn where_a_reset_is_refused_only_time_helps() {
    for rejected in [false, true] {
        let mut played = fenced();
        open(&mut played, b"QEMU    ", &[]);
        let request = reset(&mut played);
        let numbers = Numbers { status: played.take_status(), ..played.numbers() };
        if rejected {
            let reject = Reject { reason: 5, data_len: 48, numbers };
            use proto::iscsi::pdu::Pdu;
            played.send(&reject, &request.build()).unwrap();
        } else {
            let answer = TaskResponse { response: 5, task_tag: request.task_tag, numbers };
            played.send(&answer, &[]).unwrap();
        }
        let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
        played.good(tag).unwrap();
        assert!(is_ready(&played));
        assert_eq!(played.end.fence(), Fence::After(Nanos(0)));
    }
    // An answer to nothing.
    let mut played = Played::ready(&[]);
    let numbers = Numbers { status: played.take_status(), ..played.numbers() };
    let answer = TaskResponse { response: 0, task_tag: 7, numbers };
    Played::violates(played.send(&answer, &[]));
}

#[test]
fn a_reset_that_is_never_answered_takes_as_long_as_a_login() {
    use proto::Endpoint;
    let mut played = fenced();
    open(&mut played, b"IET     ", &[]);
    reset(&mut played);
    played.now = played.end.deadline().unwrap();
    let ending = played.end.tick(played.now, &mut played.out).unwrap_err();
    let words = "the target did not end what an earlier session had sent";
    assert_eq!(ending, Ending::TimedOut(words));
}

#[test]
fn a_lost_cache_is_known_from_the_first_questions() {
    for (attentions, lost) in [
        (&[][..], None),
        (&[NEXUS_LOSS], Some(false)),
        (&[Sense::POWER_ON_RESET], Some(true)),
        (&[Sense::POWER_ON_RESET, NEXUS_LOSS], Some(true)),
        (&[Sense::CAPACITY_CHANGED], None),
    ] {
        let mut played = Played::new();
        open(&mut played, b"IET     ", attentions);
        assert_eq!(played.end.power_was_lost(), lost, "{attentions:?}");
    }
}

#[test]
fn a_unit_that_changes_while_it_is_opened_is_looked_at_anew() {
    let mut played = Played::new();
    played.login(&[]).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
    played.good(tag).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x9e).task_tag;
    played.data(tag, &[[0; 7].as_slice(), &[9, 0, 0, 2, 0]].concat(), true).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x1a).task_tag;
    played.check_condition(tag, Sense::CAPACITY_CHANGED).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
    played.good(tag).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x9e).task_tag;
    played.data(tag, &[[0; 7].as_slice(), &[99, 0, 0, 2, 0]].concat(), true).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x1a).task_tag;
    played.check_condition(tag, Sense::INVALID_FIELD_IN_CDB).unwrap();
    for _ in 0..3 {
        let tag = played.command(|cdb| cdb[0] == 0x12).task_tag;
        played.check_condition(tag, Sense::INVALID_FIELD_IN_CDB).unwrap();
    }
    let Phase::Ready(geometry) = played.end.phase() else { panic!("not ready") };
    assert_eq!(geometry.blocks, 100);
}
