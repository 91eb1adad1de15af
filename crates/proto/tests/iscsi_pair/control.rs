//! Pings, texts, asynchronous messages, and unexpected PDUs.

use block::Nanos;
use proto::iscsi::pdu::{
    AsyncMessage, Header, LoginRequest, LogoutRequest, NopIn, NopOut, Numbers, Pdu, Reject,
    TextRequest, TextResponse, opcode, opcode_of,
};
use proto::iscsi::{Stage, TargetConfig};
use proto::scsi::cdb;
use proto::{Ending, Endpoint, Initiator, Phase, Target};

use crate::harness::{INITIATOR, OTHER_TARGET, PORTAL, Pair, Setup, TARGET, io, pattern};
use crate::raw::{NOTHING, Raw, Way, text, value, values};

fn ping(raw: &mut Raw, len: usize) -> NopOut {
    NopOut {
        immediate: true,
        data_len: len as u32,
        lun: [0; 8],
        task_tag: raw.tag(),
        transfer_tag: NOTHING,
        command_number: raw.number,
        expected_status: raw.status,
    }
}

#[test]
fn pings_are_echoed_with_their_data() {
    let mut raw = Raw::ready(&Setup::default(), &[("MaxRecvDataSegmentLength", "8192")]);
    for (len, back) in [(0, 0), (1, 1), (4, 4), (1000, 1000), (8192, 8192), (100_000, 8192)] {
        let data = pattern(4, len);
        let nop = ping(&mut raw, len);
        raw.send(&nop, &data).unwrap();
        let (header, echo) = raw.one();
        let answer = NopIn::parse(&header);
        assert_eq!((answer.task_tag, answer.transfer_tag), (nop.task_tag, NOTHING));
        assert!(echo == data[..back]);
    }
    // A ping in order has its place in the window.
    let nop = NopOut { immediate: false, ..ping(&mut raw, 0) };
    raw.number += 1;
    raw.send(&nop, &[]).unwrap();
    assert_eq!(NopIn::parse(&raw.one().0).numbers.expected, raw.number);
    // A NOP-Out that only acknowledges gets no answer.
    let nop = NopOut { task_tag: NOTHING, ..ping(&mut raw, 0) };
    raw.send(&nop, &[]).unwrap();
    assert!(raw.answers().is_empty());
    // Tags that name nothing.
    for task_tag in [NOTHING, 7] {
        let nop = NopOut { task_tag, transfer_tag: 5, ..ping(&mut raw, 0) };
        raw.send(&nop, &[]).unwrap();
        assert_eq!(Reject::parse(&raw.one().0).reason, 0x09);
    }
}

#[test]
fn a_silent_initiator_is_pinged_and_then_left() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    let config = TargetConfig::default();
    let due = raw.served.end.deadline().unwrap();
    assert_eq!(due, config.nop_interval);
    let tick = |raw: &mut Raw, at: Nanos| {
        raw.now = at;
        raw.served.end.tick(at, &mut raw.served.out)
    };
    tick(&mut raw, Nanos(due.0 - 1)).unwrap();
    assert!(raw.answers().is_empty());
    tick(&mut raw, due).unwrap();
    let (header, _) = raw.one();
    let nop = NopIn::parse(&header);
    assert_eq!((opcode_of(&header), nop.task_tag), (opcode::NOP_IN, NOTHING));
    assert_ne!(nop.transfer_tag, NOTHING);
    // The answer keeps the session alive; the ping did not consume a status number.
    let answer = NopOut {
        task_tag: NOTHING,
        transfer_tag: nop.transfer_tag,
        lun: nop.lun,
        ..ping(&mut raw, 0)
    };
    raw.send(&answer, &[]).unwrap();
    assert!(raw.answers().is_empty());
    let tag = raw.command(1, cdb::test_unit_ready(), Way::None, 0, &[]);
    raw.served.complete_all(raw.now);
    let (header, _) = raw.one();
    assert_eq!(Numbers::parse(&header).status, nop.numbers.status);
    let _ = tag;
    let due = raw.served.end.deadline().unwrap();
    assert_eq!(due, raw.now + config.nop_interval);
    tick(&mut raw, due).unwrap();
    assert_eq!(raw.answers().len(), 1);
    let due = raw.served.end.deadline().unwrap();
    assert_eq!(due, raw.now + config.nop_timeout);
    assert!(matches!(tick(&mut raw, due), Err(Ending::TimedOut(_))));
}

#[test]
fn both_ends_keep_each_other_alive() {
    let mut pair = Pair::ready(&Setup::default());
    for _ in 0..50 {
        let ends = [pair.initiator.deadline(), pair.served.end.deadline()];
        pair.now = ends.into_iter().flatten().min().unwrap();
        pair.initiator.tick(pair.now, &mut pair.out).unwrap();
        pair.served.end.tick(pair.now, &mut pair.served.out).unwrap();
        pair.drive();
    }
    assert!(pair.now > Nanos::from_secs(100));
    assert!(pair.write(0, &[1; 512]).is_ok());
    // A target that fell silent is noticed.
    let silent = pair.now;
    let mut result = Ok(());
    while result.is_ok() {
        pair.now = pair.initiator.deadline().unwrap();
        result = pair.initiator.tick(pair.now, &mut pair.out);
    }
    assert!(matches!(result, Err(Ending::TimedOut(_))));
    // 5 s until a ping, and as long as an I/O may take at most.
    assert_eq!(pair.now.since(silent), Nanos(46_250_000_000));
}

#[test]
fn a_login_that_never_ends_is_cut_off() {
    let mut raw = Raw::new(&Setup::default());
    assert_eq!(raw.served.end.stage(), Stage::Login);
    assert!(raw.served.end.half_open());
    let due = raw.served.end.deadline().unwrap();
    raw.served.end.tick(Nanos(due.0 - 1), &mut raw.served.out).unwrap();
    let result = raw.served.end.tick(due, &mut raw.served.out);
    assert!(matches!(result, Err(Ending::TimedOut(_))));
}

#[test]
fn asks_the_initiator_to_log_out() {
    let mut pair = Pair::ready(&Setup::default());
    let buf = pair.buf(512);
    pair.submit(io(block::Op::Write, 0, 512, Some(buf)));
    pair.served.end.ask_logout(pair.now, &mut pair.served.out);
    pair.served.end.ask_logout(pair.now, &mut pair.served.out);
    pair.drive();
    // I/Os in flight were still done.
    let done = pair.initiator.done().pop().unwrap();
    assert_eq!(done.result, Ok(()));
    assert_eq!((pair.initiator.phase(), pair.initiator.room()), (Phase::Closed, 0));
    assert!(pair.served.end.finished());
    // An initiator that ignores the request is disconnected.
    let mut raw = Raw::ready(&Setup::default(), &[]);
    raw.served.end.ask_logout(raw.now, &mut raw.served.out);
    let (header, _) = raw.one();
    let message = AsyncMessage::parse(&header);
    assert_eq!((message.event, message.parameters), (1, [0, 0, 5]));
    let due = raw.served.end.deadline().unwrap();
    assert_eq!(due, Nanos::from_secs(5));
    assert!(raw.served.end.tick(due, &mut raw.served.out).is_err());
    // An initiator that is still logging in has no session to end.
    let mut raw = Raw::new(&Setup::default());
    raw.served.end.ask_logout(raw.now, &mut raw.served.out);
    assert!(raw.served.end.finished() && raw.answers().is_empty());
}

fn ask(raw: &mut Raw, pairs: &[u8]) -> (Header, Vec<u8>) {
    let request = TextRequest {
        immediate: true,
        last: true,
        more: false,
        data_len: pairs.len() as u32,
        lun: [0; 8],
        task_tag: raw.tag(),
        transfer_tag: NOTHING,
        command_number: raw.number,
        expected_status: raw.status,
    };
    raw.send(&request, pairs).unwrap();
    raw.one()
}

#[test]
fn sendtargets_in_a_normal_session() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    for wish in ["All", "", TARGET] {
        let (header, answer) = ask(&mut raw, &text(&[("SendTargets", wish)]));
        let response = TextResponse::parse(&header);
        assert_eq!((response.last, response.more, response.transfer_tag), (true, false, NOTHING));
        assert_eq!(values(&answer, "TargetName"), [TARGET]);
        assert_eq!(values(&answer, "TargetAddress"), [PORTAL]);
    }
    let (_, answer) = ask(&mut raw, &text(&[("SendTargets", "iqn.2026-01.org.drumfire:none")]));
    assert!(answer.is_empty());
    // The only requested key is invalid.
    for (key, wish) in [
        ("SendTargets", "Alle"),
        ("SendTargets", "A"),
        ("SendTargetsPlease", "All"),
        ("sENDtARGETS", "aLL"),
        ("X-org.example.key", "1"),
    ] {
        let (header, body) = ask(&mut raw, &text(&[(key, wish)]));
        let reject = (opcode_of(&header), Reject::parse(&header).reason, body.len());
        assert_eq!(reject, (opcode::REJECT, 0x04, 48), "{key}={wish}");
    }
    let (_, answer) = ask(&mut raw, &text(&[("MaxBurstLength", "512"), ("X-a.b", "1")]));
    assert_eq!(value(&answer, "MaxBurstLength"), Some("Reject"));
    assert_eq!(value(&answer, "X-a.b"), Some("NotUnderstood"));
    // Segments that we send follow the initiator's new declaration.
    let (_, answer) = ask(&mut raw, &text(&[("MaxRecvDataSegmentLength", "512")]));
    assert!(answer.is_empty());
    let tag = raw.command(1, cdb::read10(0, 4), Way::Read, 2048, &[]);
    raw.served.complete_all(raw.now);
    let answers = raw.answers();
    assert_eq!(answers.len(), 4);
    let _ = tag;
    // Invalid text is rejected.
    for bad in [&b"SendTargets=All"[..], b"SendTargets\0", b"=\0"] {
        let (header, _) = ask(&mut raw, bad);
        assert_eq!(Reject::parse(&header).reason, 0x04);
    }
}

/// Regression class "login and text phase state": a request without data that continues.
#[test]
fn texts_in_parts_both_ways() {
    let mut raw = Raw::ready(&Setup::default(), &[("MaxRecvDataSegmentLength", "512")]);
    let mut request = TextRequest {
        immediate: true,
        more: true,
        task_tag: 77,
        transfer_tag: NOTHING,
        command_number: raw.number,
        ..TextRequest::default()
    };
    raw.send(&request, &[]).unwrap();
    let (header, answer) = raw.one();
    let response = TextResponse::parse(&header);
    assert!(answer.is_empty() && !response.last && !response.more);
    assert_ne!(response.transfer_tag, NOTHING);
    // Sixty unknown keys, cut in the middle of one.
    let keys: Vec<String> = (0..60).map(|key| format!("X-org.example.{key}")).collect();
    let pairs: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "1")).collect();
    let all = text(&pairs);
    let (first, second) = all.split_at(all.len() / 2 + 3);
    request.transfer_tag = response.transfer_tag;
    request.data_len = first.len() as u32;
    raw.send(&request, first).unwrap();
    assert!(raw.one().1.is_empty());
    request = TextRequest { more: false, last: true, data_len: second.len() as u32, ..request };
    raw.send(&request, second).unwrap();
    let mut whole = Vec::new();
    for part in 0.. {
        let (header, answer) = raw.one();
        let response = TextResponse::parse(&header);
        assert!(answer.len() <= 512 && part < 10);
        whole.extend(answer);
        if response.last {
            assert_eq!((response.more, response.transfer_tag), (false, NOTHING));
            break;
        }
        assert!(response.more);
        request = TextRequest { data_len: 0, transfer_tag: response.transfer_tag, ..request };
        raw.send(&request, &[]).unwrap();
    }
    assert!(keys.iter().all(|key| value(&whole, key) == Some("NotUnderstood")));
    // The exchange is over; its tag names nothing any more.
    raw.send(&request, &[]).unwrap();
    assert_eq!(Reject::parse(&raw.one().0).reason, 0x09);
}

#[test]
fn a_text_without_end_is_rejected() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    let mut request = TextRequest {
        immediate: true,
        more: true,
        data_len: 30_000,
        task_tag: 77,
        transfer_tag: NOTHING,
        command_number: raw.number,
        ..TextRequest::default()
    };
    let endless = vec![b'a'; 30_000];
    for _ in 0..2 {
        raw.send(&request, &endless).unwrap();
        request.transfer_tag = TextResponse::parse(&raw.one().0).transfer_tag;
    }
    raw.send(&request, &endless).unwrap();
    assert_eq!(Reject::parse(&raw.one().0).reason, 0x04);
    // A single PDU with text longer than the limit is rejected, too.
    request.transfer_tag = NOTHING;
    request.data_len = 200_000;
    raw.send(&request, &vec![b'a'; 200_000]).unwrap();
    assert_eq!(Reject::parse(&raw.one().0).reason, 0x04);
}

#[test]
fn discovery_lists_every_address_of_a_target_once() {
    let others = ["198.51.100.1:3260,1", PORTAL, "[2001:db8::1]:3260,1"];
    let setup = Setup { other_portals: others.map(str::to_owned).to_vec(), ..Setup::default() };
    let mut raw = Raw::new(&setup);
    raw.login(&text(&[("InitiatorName", INITIATOR), ("SessionType", "Discovery")])).unwrap();
    let (_, answer) = ask(&mut raw, &text(&[("SendTargets", TARGET)]));
    assert_eq!(values(&answer, "TargetName"), [TARGET]);
    assert_eq!(
        values(&answer, "TargetAddress"),
        [PORTAL, others[0], others[2]],
        "that asked first"
    );
}

#[test]
fn a_discovery_session_tells_all_targets_and_does_no_commands() {
    let mut raw = Raw::new(&Setup::default());
    let keys = text(&[("InitiatorName", INITIATOR), ("SessionType", "Discovery")]);
    let answer = raw.login(&keys).unwrap();
    assert_eq!(value(&answer, "TargetPortalGroupTag"), None);
    assert_eq!(raw.served.end.stage(), Stage::Discovery);
    let (_, answer) = ask(&mut raw, &text(&[("SendTargets", "All")]));
    assert_eq!(values(&answer, "TargetName"), [OTHER_TARGET, TARGET]);
    assert_eq!(values(&answer, "TargetAddress"), [PORTAL, PORTAL]);
    let (_, answer) = ask(&mut raw, &text(&[("SendTargets", OTHER_TARGET)]));
    assert_eq!(values(&answer, "TargetName"), [OTHER_TARGET]);
    let (header, _) = ask(&mut raw, &text(&[("SendTargets", "")]));
    assert_eq!((opcode_of(&header), Reject::parse(&header).reason), (opcode::REJECT, 0x04));
    let tag = raw.command(1, cdb::test_unit_ready(), Way::None, 0, &[]);
    let (header, _) = raw.one();
    assert_eq!((opcode_of(&header), Reject::parse(&header).reason), (opcode::REJECT, 0x05));
    let _ = tag;
    let logout = LogoutRequest { immediate: true, task_tag: 4, ..LogoutRequest::default() };
    raw.send(&logout, &[]).unwrap();
    assert_eq!(opcode_of(&raw.one().0), opcode::LOGOUT_RESPONSE);
    assert!(raw.served.end.finished());
}

#[test]
fn opcodes_that_do_not_belong_are_rejected() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    for (code, reason) in
        [(0x10, 0x03), (0x07, 0x05), (0x1f, 0x05), (0x20, 0x05), (0x25, 0x05), (0x3f, 0x05)]
    {
        let mut header = [0; 48];
        header[0] = code;
        header[7] = 8;
        raw.send_bytes(&crate::raw::bytes(&header, &[1; 8])).unwrap();
        let (answer, body) = raw.one();
        assert_eq!((opcode_of(&answer), Reject::parse(&answer).reason), (opcode::REJECT, reason));
        assert_eq!(body, header);
    }
}

/// Regression class "non-login PDU before login", which a port scanner found elsewhere.
#[test]
fn whatever_is_not_a_login_ends_the_connection_before_login() {
    for code in (0..64).filter(|code| *code != opcode::LOGIN_REQUEST) {
        let mut raw = Raw::new(&Setup::default());
        let mut header = [0; 48];
        header[0] = code;
        assert!(raw.send_bytes(&header).is_err(), "{code:#x}");
        assert!(raw.answers().is_empty());
    }
    for bytes in [&b"GET / HTTP/1.1\r\nHost: 192.0.2.1:3260\r\nAccept: */*\r\n\r\n"[..], &[0; 500]]
    {
        let mut raw = Raw::new(&Setup::default());
        assert!(raw.send_bytes(bytes).is_err());
    }
}

#[test]
fn a_login_in_full_feature_phase_ends_the_connection() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    let login = LoginRequest { transit: true, stage: 1, next_stage: 3, ..LoginRequest::default() };
    assert!(raw.send_bytes(&login.build()).is_err());
}

#[test]
fn a_ping_with_a_wrong_digest_is_rejected() {
    let mut raw = Raw::logged_in(&Setup::default(), &[("DataDigest", "CRC32C")]);
    let nop = ping(&mut raw, 4);
    let mut stream = crate::raw::bytes(&nop.build(), b"ping");
    stream.extend([1, 2, 3, 4]);
    raw.send_bytes(&stream).unwrap();
    let answer = crate::harness::drain(&mut raw.served.out);
    assert_eq!(answer.len(), 48 + 48 + 4);
    assert_eq!((answer[0], answer[2]), (opcode::REJECT, 0x02));
}
