//! Bugs of other targets, by class: ours must not have them.
//!
//! Further classes are tested with their subject: unknown transfer tags in `data_out`, PDUs before
//! their phase in `control` and `login`, connections cut with I/Os in flight in `io`, aborts in the
//! middle of data in `manage`.

use proto::Endpoint;
use proto::iscsi::Stage;
use proto::iscsi::pdu::{LoginRequest, LoginResponse, Pdu, opcode, opcode_of};
use proto::scsi::{Sense, cdb};

use crate::harness::{INITIATOR, Setup, TARGET};
use crate::raw::{Raw, Way, bytes, text, value};

const NAMES: [(&str, &str); 2] = [("InitiatorName", INITIATOR), ("TargetName", TARGET)];

fn request(len: usize) -> LoginRequest {
    LoginRequest {
        transit: true,
        stage: 1,
        next_stage: 3,
        data_len: len as u32,
        isid: [0x80, 0, 0, 0, 0, 1],
        task_tag: 7,
        ..LoginRequest::default()
    }
}

/// Class of CVE-2026-53176: a login shorter than its header made a length go below zero. Here any
/// cut is waited for, and text that is not as long as its parts claim is refused.
#[test]
fn a_login_cut_at_every_byte_is_waited_for() {
    let keys = text(&NAMES);
    let whole = bytes(&request(keys.len()).build(), &keys);
    for cut in 0..whole.len() {
        let mut raw = Raw::new(&Setup::default());
        raw.send_bytes(&whole[..cut]).unwrap();
        assert!(raw.answers().is_empty(), "an answer to {cut} bytes");
        raw.send_bytes(&whole[cut..]).unwrap();
        assert_eq!(LoginResponse::parse(&raw.one().0).status, 0, "cut at {cut}");
    }
    // A text whose last pair is truncated has no terminator.
    for len in 1..keys.len() {
        let mut raw = Raw::new(&Setup::default());
        raw.send(&request(len), &keys[..len]).unwrap();
        assert_ne!(LoginResponse::parse(&raw.one().0).status, 0, "{len} bytes of text");
        assert_eq!(raw.served.end.stage(), Stage::Login);
    }
}

/// Class of CVE-2021-28361: a request without text, but with the Continue bit.
#[test]
fn a_login_without_text_that_goes_on() {
    let mut raw = Raw::new(&Setup::default());
    let nothing = LoginRequest { transit: false, more: true, next_stage: 0, ..request(0) };
    for _ in 0..3 {
        raw.send(&nothing, &[]).unwrap();
        let (header, answer) = raw.one();
        let response = LoginResponse::parse(&header);
        assert!(response.status == 0 && !response.transit && answer.is_empty());
    }
    let keys = text(&NAMES);
    raw.send(&request(keys.len()), &keys).unwrap();
    assert_eq!(LoginResponse::parse(&raw.one().0).status, 0);
}

/// Classes of CVE-2018-14633 and CVE-2024-45751: values of CHAP, which we never offer, are keys
/// like any other unknown key, whatever their form and length.
#[test]
fn an_authentication_that_was_not_offered_has_no_keys() {
    for (key, one) in [
        ("CHAP_A", "5"),
        ("CHAP_I", "256"),
        ("CHAP_I", "-1"),
        ("CHAP_N", "root"),
        ("CHAP_C", "0x5a"),
        ("CHAP_R", "0b===="),
        ("CHAP_R", "0x"),
    ] {
        let mut raw = Raw::new(&Setup::default());
        let keys = text(&[NAMES[0], NAMES[1], (key, one)]);
        let answer = raw.login(&keys).unwrap();
        assert_eq!(value(&answer, key), Some("NotUnderstood"), "{key}={one}");
    }
    //= RFC 7143 §12.1.3: a response has at most 1024 bytes.
    for long in [format!("0x{}", "5a".repeat(2000)), format!("0b{}", "AAAA".repeat(550))] {
        let mut raw = Raw::new(&Setup::default());
        let keys = text(&[NAMES[0], NAMES[1], ("CHAP_R", &long)]);
        assert_eq!(raw.login(&keys), Err(0x0200), "{} bytes", long.len());
    }
}

/// Class of CVE-2013-2850: the answer to an unknown key was longer than its buffer.
#[test]
fn unknown_keys_of_any_length_are_answered_or_refused() {
    for len in [1, 62, 63, 64, 65, 255, 256, 1024, 4000, 8000] {
        let key = "k".repeat(len);
        let mut raw = Raw::new(&Setup::default());
        let keys = text(&[NAMES[0], NAMES[1], (&key, "")]);
        match raw.login(&keys) {
            //= RFC 7143 §6.1: a key name has at most 63 bytes.
            Ok(answer) => {
                assert!(len <= 63, "a name of {len} bytes was taken");
                assert_eq!(value(&answer, &key), Some("NotUnderstood"));
            }
            Err(status) => assert!(len > 63 && status == 0x0200, "{len} bytes: {status:#x}"),
        }
    }
}

/// Classes of CVE-2025-57275 (reservations), and of CVE-2020-28374 and CVE-2021-3139 (copies that
/// name other units; see `copy`): lists of impossible lengths are not read.
#[test]
fn parameter_lists_have_possible_lengths() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    // RESERVE and RELEASE (10).
    for code in [0x56, 0x57] {
        let mut command = [0xff; 16];
        command[0] = code;
        let tag = raw.command(1, command, Way::Write, 512, &[0xff; 512]);
        let end = raw.end(tag);
        assert_eq!(end.sense, Some(Sense::INVALID_OPCODE), "{code:#x}");
    }
    for (code, byte) in [
        (0x16, 0xfb),
        (0x17, 0xfb),
        (0x5e, 0xfb),
        (0x5f, 0x06),
        (0x5f, 0x07),
        (0x83, 0x00),
        (0x83, 0x01),
        (0x84, 0x04),
    ] {
        let mut command = [0xfb; 16];
        (command[0], command[1]) = (code, byte);
        let tag = raw.command(1, command, Way::Write, 512, &[0xff; 512]);
        let key = raw.end(tag).sense.map(|sense| sense.key);
        assert_eq!(key, Some(proto::scsi::Key::IllegalRequest), "{code:#x}");
    }
    let mut disk = [1; 4096];
    raw.served.disk.read(0, &mut disk);
    assert_eq!(disk, [0; 4096]);
}

/// Class of CVE-2014-4027: the earlier content of a buffer was sent after a short answer.
#[test]
fn answers_end_where_their_content_ends() {
    let mut raw = Raw::ready(&Setup::default(), &[]);
    // Leaves its bytes in the buffers of the pool.
    let secret = [0x5e; 65536];
    let tag = raw.command(1, cdb::write10(0, 128, false), Way::Write, 65536, &secret);
    assert_eq!(raw.end(tag).status, 0);
    for command in [
        cdb::inquiry(None, 0xffff),
        cdb::inquiry(Some(0x00), 0xffff),
        cdb::inquiry(Some(0x80), 0xffff),
        cdb::inquiry(Some(0x83), 0xffff),
        cdb::inquiry(Some(0xb0), 0xffff),
        cdb::inquiry(Some(0xb2), 0xffff),
        cdb::mode_sense6(0x3f, 0xff),
        cdb::mode_sense10(0x3f, 0xffff),
        cdb::request_sense(0xff),
        cdb::report_luns(0xffff),
        cdb::read_capacity16(0xffff),
    ] {
        let tag = raw.command(1, command, Way::Read, 0xffff, &[]);
        let end = raw.end(tag);
        assert_eq!(end.status, 0, "{command:x?}");
        assert!(end.data.len() < 1024 && !end.data.contains(&0x5e), "{command:x?}: {end:x?}");
        assert_eq!(end.residual, end.data.len() as i64 - 0xffff, "{command:x?}");
    }
}

/// Class of nbdkit's CVE-2019-14851: commands sent after the last login request, before its answer,
/// are commands of the session only.
#[test]
fn a_command_right_behind_the_login_is_one_of_the_session() {
    let keys = text(&NAMES);
    let mut raw = Raw::new(&Setup::default());
    raw.number = 0;
    let command = raw.command_pdu(1, cdb::read10(0, 1), Way::Read, 512, &[]);
    let mut stream = bytes(&request(keys.len()).build(), &keys);
    stream.extend(bytes(&command.build(), &[]));
    raw.served.end.receive(raw.now, &stream, &mut raw.served.out).unwrap();
    let answers = raw.answers();
    let kinds: Vec<u8> = answers.iter().map(|(header, _)| opcode_of(header)).collect();
    assert_eq!(kinds, [opcode::LOGIN_RESPONSE, opcode::RESPONSE]);
    // Without the names: the command is ignored.
    let mut raw = Raw::new(&Setup::default());
    let mut stream = bytes(&request(0).build(), &[]);
    stream.extend(bytes(&command.build(), &[]));
    let _ = raw.served.end.receive(raw.now, &stream, &mut raw.served.out);
    assert_eq!(LoginResponse::parse(&raw.one().0).status, 0x0207);
}
