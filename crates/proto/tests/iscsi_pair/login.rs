//! Logins: every legal way, and the answers to illegal ones.

use proptest::prelude::*;
use proto::iscsi::Stage;
use proto::iscsi::pdu::{LoginRequest, LoginResponse, Numbers, Pdu, data_len, opcode, opcode_of};
use proto::{Ending, Target};

use crate::harness::{INITIATOR, OTHER_TARGET, Rng, Setup, TARGET};
use crate::raw::{Raw, split, text, value};

const NAMES: [(&str, &str); 2] = [("InitiatorName", INITIATOR), ("TargetName", TARGET)];

fn request(stage: u8, next: Option<u8>, len: usize) -> LoginRequest {
    LoginRequest {
        transit: next.is_some(),
        more: false,
        stage,
        next_stage: next.unwrap_or(0),
        version_max: 0,
        version_min: 0,
        data_len: len as u32,
        isid: [0x80, 0, 0, 0, 0, 1],
        tsih: 0,
        task_tag: 9,
        connection: 1,
        command_number: 77,
        expected_status: 0,
    }
}

/// Sends a step and returns the answer.
fn step(raw: &mut Raw, request: LoginRequest, data: &[u8]) -> (LoginResponse, Vec<u8>) {
    raw.send(&request, data).unwrap();
    let (header, answer) = raw.one();
    assert_eq!(opcode_of(&header), opcode::LOGIN_RESPONSE);
    let response = LoginResponse::parse(&header);
    assert_eq!((response.task_tag, response.isid), (request.task_tag, request.isid));
    assert_eq!((response.numbers.expected, response.version_active), (77, 0));
    (response, answer)
}

fn refused(request: LoginRequest, data: &[u8]) -> u16 {
    let mut raw = Raw::new(&Setup::default());
    let (response, _) = step(&mut raw, request, data);
    assert!(raw.served.end.finished() && response.status != 0);
    // Later bytes are ignored.
    raw.send_bytes(&[3; 96]).unwrap();
    assert!(raw.answers().is_empty());
    response.status
}

#[test]
fn the_usual_two_steps() {
    let mut raw = Raw::new(&Setup::default());
    let keys = text(&[
        ("InitiatorName", INITIATOR),
        ("InitiatorAlias", "tester"),
        ("TargetName", TARGET),
        ("SessionType", "Normal"),
        ("AuthMethod", "CHAP,None"),
    ]);
    let (response, answer) = step(&mut raw, request(0, Some(1), keys.len()), &keys);
    assert_eq!((response.transit, response.stage, response.next_stage), (true, 0, 1));
    assert_eq!((response.tsih, response.status), (0, 0));
    assert_eq!(value(&answer, "AuthMethod"), Some("None"));
    assert_eq!(value(&answer, "TargetPortalGroupTag"), Some("1"));
    assert_eq!(value(&answer, "TargetAlias"), Some("a disk for tests"));
    // Keys as in libiscsi, QEMU and Linux.
    let keys = text(&[
        ("HeaderDigest", "CRC32C,None"),
        ("DataDigest", "None"),
        ("InitialR2T", "No"),
        ("ImmediateData", "Yes"),
        ("MaxBurstLength", "16776192"),
        ("FirstBurstLength", "262144"),
        ("MaxRecvDataSegmentLength", "262144"),
        ("DataPDUInOrder", "Yes"),
        ("DefaultTime2Wait", "2"),
        ("DefaultTime2Retain", "0"),
        ("IFMarker", "No"),
        ("OFMarker", "No"),
        ("MaxConnections", "1"),
        ("MaxOutstandingR2T", "1"),
        ("ErrorRecoveryLevel", "0"),
        ("DataSequenceInOrder", "Yes"),
        ("iSCSIProtocolLevel", "1"),
        ("TaskReporting", "FastAbort,RFC3720"),
    ]);
    let (response, answer) = step(&mut raw, request(1, Some(3), keys.len()), &keys);
    assert_eq!((response.transit, response.stage, response.next_stage), (true, 1, 3));
    assert_eq!(response.tsih, 8, "one above the connection's number");
    for (key, expect) in [
        ("HeaderDigest", "CRC32C"),
        ("DataDigest", "None"),
        ("InitialR2T", "No"),
        ("ImmediateData", "Yes"),
        ("MaxBurstLength", "1048576"),
        ("FirstBurstLength", "65536"),
        ("MaxRecvDataSegmentLength", "262144"),
        ("DataPDUInOrder", "Yes"),
        ("DefaultTime2Wait", "2"),
        ("DefaultTime2Retain", "0"),
        ("IFMarker", "No"),
        ("OFMarker", "No"),
        ("MaxConnections", "1"),
        ("MaxOutstandingR2T", "1"),
        ("ErrorRecoveryLevel", "0"),
        ("DataSequenceInOrder", "Yes"),
        ("iSCSIProtocolLevel", "1"),
        ("TaskReporting", "RFC3720"),
    ] {
        assert_eq!(value(&answer, key), Some(expect), "{key}");
    }
    assert_eq!(raw.served.end.stage(), Stage::Normal);
}

#[test]
fn every_legal_path_through_the_stages() {
    let names = text(&NAMES);
    // Each step: current stage, next stage.
    let paths: [&[(u8, Option<u8>)]; 8] = [
        &[(1, Some(3))],
        &[(0, Some(3))],
        &[(0, Some(1)), (1, Some(3))],
        &[(0, None), (0, Some(1)), (1, Some(3))],
        &[(0, None), (0, None), (0, Some(3))],
        &[(1, None), (1, Some(3))],
        &[(0, Some(1)), (1, None), (1, None), (1, Some(3))],
        &[(0, None), (0, Some(1)), (1, None), (1, Some(3))],
    ];
    for path in paths {
        let mut raw = Raw::new(&Setup::default());
        let mut data = &names[..];
        for (stage, next) in path {
            let (response, _) = step(&mut raw, request(*stage, *next, data.len()), data);
            assert_eq!((response.status, response.transit), (0, next.is_some()), "{path:?}");
            assert_eq!(response.next_stage, next.unwrap_or(0));
            data = &[];
        }
        assert_eq!(raw.served.end.stage(), Stage::Normal, "{path:?}");
    }
}

#[test]
fn what_is_refused_and_why() {
    let names = text(&NAMES);
    let whole = request(1, Some(3), names.len());
    let with = |pairs: &[(&str, &str)]| {
        let keys = text(pairs);
        refused(request(1, Some(3), keys.len()), &keys)
    };
    let unknown = ("TargetName", "iqn.2026-01.org.drumfire:none");
    assert_eq!(with(&[("InitiatorName", INITIATOR), unknown]), 0x0203);
    assert_eq!(with(&[("InitiatorName", INITIATOR)]), 0x0207);
    assert_eq!(with(&[("TargetName", TARGET)]), 0x0207);
    assert_eq!(with(&[]), 0x0207);
    assert_eq!(with(&[NAMES[0], NAMES[1], ("SessionType", "Other")]), 0x0209);
    assert_eq!(with(&[NAMES[0], NAMES[1], ("AuthMethod", "CHAP")]), 0x0201);
    assert_eq!(with(&[NAMES[0], NAMES[1], ("AuthMethod", "CHAP,KRB5")]), 0x0201);
    assert_eq!(with(&[NAMES[0], NAMES[1], NAMES[1]]), 0x0200);
    assert_eq!(with(&[NAMES[0], NAMES[1], ("X-a", "1"), ("X-a", "2")]), 0x0200);
    let long = "x".repeat(224);
    for name in ["", "iqn.2026-01.org.drumfire:\u{7}", &long] {
        assert_eq!(with(&[("InitiatorName", name), NAMES[1]]), 0x0200);
    }
    assert_eq!(refused(LoginRequest { version_min: 1, ..whole }, &names), 0x0205);
    assert_eq!(refused(LoginRequest { tsih: 5, ..whole }, &names), 0x020a);
    assert_eq!(refused(LoginRequest { stage: 3, next_stage: 0, ..whole }, &names), 0x020b);
    assert_eq!(refused(LoginRequest { stage: 2, ..whole }, &names), 0x020b);
    assert_eq!(refused(LoginRequest { next_stage: 1, ..whole }, &names), 0x020b);
    assert_eq!(refused(LoginRequest { next_stage: 2, ..whole }, &names), 0x020b);
    assert_eq!(refused(LoginRequest { more: true, ..whole }, &names), 0x020b);
    for bad in [&b"InitiatorName"[..], b"a=b", b"=\0", b"a b=c\0", b"k=\xff\0"] {
        assert_eq!(refused(request(1, Some(3), bad.len()), bad), 0x0200);
    }
    let discovery = text(&[NAMES[0], ("SessionType", "Discovery")]);
    let joins = LoginRequest { tsih: 5, ..request(1, Some(3), discovery.len()) };
    assert_eq!(refused(joins, &discovery), 0x020a);
}

#[test]
fn only_a_session_that_is_there_has_too_many_connections() {
    let setup = Setup::default().together();
    let mut first = Raw::new(&setup);
    first.login(&text(&NAMES)).unwrap();
    let join = |tsih: u16, isid: [u8; 6]| {
        let mut raw = Raw::new(&Setup { connection: 9, ..setup.clone() });
        let names = text(&NAMES);
        let request = LoginRequest { tsih, isid, ..request(1, Some(3), names.len()) };
        raw.send(&request, &names).unwrap();
        LoginResponse::parse(&raw.one().0).status
    };
    let isid = [0x80, 1, 2, 3, 4, 5];
    // The TSIH of connection 7.
    assert_eq!(join(8, isid), 0x0206);
    assert_eq!(join(9, isid), 0x020a, "another TSIH");
    assert_eq!(join(8, [0x80, 1, 2, 3, 4, 6]), 0x020a, "another ISID");
    let pool = first.served.out.pool().clone();
    proto::Target::abandon(&mut first.served.end, &pool);
    assert_eq!(join(8, isid), 0x020a, "gone");
}

#[test]
fn what_may_not_change_between_requests() {
    let names = text(&NAMES);
    let first = request(0, None, names.len());
    let next = request(0, Some(1), 0);
    for changed in [
        LoginRequest { isid: [0x80, 0, 0, 0, 0, 2], ..next },
        LoginRequest { tsih: 1, ..next },
        LoginRequest { task_tag: 8, ..next },
        LoginRequest { connection: 2, ..next },
        LoginRequest { command_number: 78, ..next },
        LoginRequest { stage: 1, next_stage: 3, ..next },
    ] {
        let mut raw = Raw::new(&Setup::default());
        assert_eq!(step(&mut raw, first, &names).0.status, 0);
        raw.send(&changed, &[]).unwrap();
        let (header, _) = raw.one();
        assert_eq!(LoginResponse::parse(&header).status, 0x020b, "{changed:?}");
    }
}

#[test]
fn keys_that_are_wrong_or_unknown() {
    let mut raw = Raw::new(&Setup::default());
    let keys = text(&[
        NAMES[0],
        NAMES[1],
        ("X-org.example.speed", "ludicrous"),
        ("initialr2t", "No"),
        ("InitialR2T", "no"),
        ("MaxBurstLength", "1"),
        ("HeaderDigest", "MD5"),
        ("DataDigest", "X-a,CRC32C"),
        ("OFMarkInt", "1~2"),
        ("IFMarkInt", "1"),
        ("SendTargets", "All"),
        ("TargetAddress", "192.0.2.9"),
        ("TaskReporting", "FastAbort"),
        ("FirstBurstLength", "0x2000"),
    ]);
    let (response, answer) = step(&mut raw, request(1, Some(3), keys.len()), &keys);
    assert_eq!(response.status, 0);
    for (key, expect) in [
        ("X-org.example.speed", "NotUnderstood"),
        ("initialr2t", "NotUnderstood"),
        ("InitialR2T", "Reject"),
        ("MaxBurstLength", "Reject"),
        ("HeaderDigest", "Reject"),
        ("DataDigest", "CRC32C"),
        ("OFMarkInt", "Reject"),
        ("IFMarkInt", "Reject"),
        ("SendTargets", "Reject"),
        ("TargetAddress", "Reject"),
        ("TaskReporting", "Reject"),
        ("FirstBurstLength", "8192"),
    ] {
        assert_eq!(value(&answer, key), Some(expect), "{key}");
    }
}

#[test]
fn names_are_found_whatever_their_case() {
    let mut raw = Raw::new(&Setup::default());
    let upper = TARGET.to_uppercase();
    let initiator = INITIATOR.to_uppercase();
    raw.login(&text(&[("InitiatorName", &initiator), ("TargetName", &upper)])).unwrap();
    assert_eq!(raw.served.end.target_name(), Some(TARGET));
    assert_eq!(raw.served.end.initiator_name(), Some(&*initiator));
    let mut raw = Raw::new(&Setup::default());
    let loose = ("InitiatorName", "iqn.2008-11.org.linux-kvm:My machine_1");
    raw.login(&text(&[loose, ("TargetName", OTHER_TARGET)])).unwrap();
    assert_eq!(raw.served.end.initiator_name(), Some(loose.1));
    assert_eq!(raw.served.end.target_name(), Some(OTHER_TARGET));
}

#[test]
fn a_login_has_limits() {
    // Too many keys.
    let keys: Vec<String> = (0..70).map(|key| format!("X-{key}")).collect();
    let mut pairs = NAMES.to_vec();
    pairs.extend(keys.iter().map(|key| (key.as_str(), "1")));
    let data = text(&pairs);
    assert_eq!(refused(request(1, Some(3), data.len()), &data), 0x0200);
    // Too many requests, and text without end.
    for len in [0, 8000] {
        let mut raw = Raw::new(&Setup::default());
        let more = LoginRequest { more: true, ..request(1, None, len) };
        let count = (0..100).find(|_| step(&mut raw, more, &vec![b'a'; len]).0.status != 0);
        assert!(count.is_some_and(|count| count <= 64), "{len}");
        assert!(raw.served.end.finished());
    }
    // A segment beyond the default of 8192.
    let mut raw = Raw::new(&Setup::default());
    let ending = raw.send(&request(1, Some(3), 8193), &[0; 8193]).unwrap_err();
    assert!(matches!(ending, Ending::Violation(violation) if violation.at == 5));
    let (header, _) = raw.one();
    assert_eq!(LoginResponse::parse(&header).status, 0x0200, "it is told before the end");
    // However long it claims to be, and if its header comes in pieces.
    let mut raw = Raw::new(&Setup::default());
    let header = request(1, Some(3), (1 << 24) - 1).build();
    raw.send_bytes(&header[..40]).unwrap();
    raw.send_bytes(&header[40..]).unwrap_err();
    let (header, _) = raw.one();
    assert_eq!(LoginResponse::parse(&header).status, 0x0200);
}

#[test]
fn a_first_burst_is_no_longer_than_a_burst() {
    let with = |first: &str, most: &str| {
        let mut pairs = NAMES.to_vec();
        pairs.extend([("FirstBurstLength", first), ("MaxBurstLength", most)]);
        text(&pairs)
    };
    //= RFC 7143 §13.14: FirstBurstLength MUST NOT exceed MaxBurstLength.
    let keys = with("65536", "512");
    assert_eq!(refused(request(1, Some(3), keys.len()), &keys), 0x0200);
    // The negotiated value counts, and an unoffered key is as short as necessary.
    let keys = with("262144", "131072");
    let mut raw = Raw::new(&Setup::default());
    let (response, answer) = step(&mut raw, request(1, Some(3), keys.len()), &keys);
    assert_eq!((response.status, value(&answer, "FirstBurstLength")), (0, Some("65536")));
    let mut pairs = NAMES.to_vec();
    pairs.push(("MaxBurstLength", "512"));
    let keys = text(&pairs);
    let mut raw = Raw::new(&Setup::default());
    assert_eq!(step(&mut raw, request(1, Some(3), keys.len()), &keys).0.status, 0);
}

#[test]
fn digests_begin_behind_the_login() {
    for (header, data) in [(false, true), (true, false), (true, true)] {
        let yes = |on: bool| if on { "CRC32C" } else { "None" };
        let keys = [("HeaderDigest", yes(header)), ("DataDigest", yes(data))];
        let mut raw = Raw::logged_in(&Setup::default(), &keys);
        let nop = proto::iscsi::pdu::NopOut {
            immediate: true,
            data_len: 4,
            task_tag: 5,
            transfer_tag: u32::MAX,
            command_number: raw.number,
            ..Default::default()
        };
        let head = proto::iscsi::pdu::Pdu::build(&nop);
        let mut stream = head.to_vec();
        if header {
            stream.extend(proto::crc32c::crc32c(&head).to_le_bytes());
        }
        stream.extend(b"ping");
        if data {
            stream.extend(proto::crc32c::crc32c(b"ping").to_le_bytes());
        }
        raw.send_bytes(&stream).unwrap();
        let back = crate::harness::drain(&mut raw.served.out);
        assert_eq!(back.len(), stream.len());
        if header {
            assert_eq!(back[48..52], proto::crc32c::crc32c(&back[..48]).to_le_bytes());
        }
        let at = if header { 52 } else { 48 };
        assert_eq!(back[at..at + 4], *b"ping");
        if data {
            assert_eq!(back[at + 4..], proto::crc32c::crc32c(b"ping").to_le_bytes());
        }
    }
}

/// All keys of a rich login, for any order.
const RICH: [(&str, &str); 14] = [
    ("InitiatorName", INITIATOR),
    ("TargetName", TARGET),
    ("SessionType", "Normal"),
    ("AuthMethod", "None"),
    ("HeaderDigest", "None,CRC32C"),
    ("DataDigest", "None"),
    ("InitialR2T", "No"),
    ("ImmediateData", "Yes"),
    ("MaxBurstLength", "4096"),
    ("FirstBurstLength", "2048"),
    ("MaxRecvDataSegmentLength", "1024"),
    ("ErrorRecoveryLevel", "2"),
    ("X-org.example.one", "1"),
    ("DefaultTime2Wait", "9"),
];

/// Returns the answers to a login in these pieces, sorted.
fn answers(text: &[u8], cuts: &[usize]) -> Vec<String> {
    let mut raw = Raw::new(&Setup::default());
    let mut from = 0;
    for cut in cuts {
        let part = &text[from..*cut];
        let more = LoginRequest { more: true, ..request(1, None, part.len()) };
        let (response, answer) = step(&mut raw, more, part);
        assert!(answer.is_empty() && response.status == 0 && !response.transit);
        from = *cut;
    }
    let part = &text[from..];
    let (response, answer) = step(&mut raw, request(1, Some(3), part.len()), part);
    assert_eq!((response.status, response.transit), (0, true));
    let mut pairs: Vec<String> = answer
        .split(|byte| *byte == 0)
        .map(|pair| String::from_utf8(pair.to_vec()).unwrap())
        .collect();
    pairs.sort();
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn order_and_splits_do_not_matter(
        seed: u64,
        cuts in prop::collection::vec(0..300_usize, 0..9),
    ) {
        let expect = answers(&text(&RICH), &[]);
        let (mut rng, mut keys) = (Rng(seed), RICH.to_vec());
        for at in (1..keys.len()).rev() {
            keys.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let all = text(&keys);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(all.len())).collect();
        cuts.sort_unstable();
        prop_assert_eq!(answers(&all, &cuts), expect);
    }

    #[test]
    fn hostile_text_never_panics(
        data in prop::collection::vec(prop_oneof![
            Just(0_u8), Just(b'='), Just(b','), Just(b'0'), Just(b'x'), any::<u8>()
        ], 0..300),
        names: bool,
        stage in 0..4_u8,
        next in 0..4_u8,
        more: bool,
        transit: bool,
    ) {
        let mut raw = Raw::new(&Setup::default());
        let mut all = if names { text(&NAMES) } else { Vec::new() };
        all.extend(data);
        let base = request(stage, None, all.len());
        let request = LoginRequest { more, transit, next_stage: next, ..base };
        raw.send(&request, &all).unwrap();
        for (header, body) in split(&crate::harness::drain(&mut raw.served.out)) {
            prop_assert_eq!(opcode_of(&header), opcode::LOGIN_RESPONSE);
            prop_assert!(data_len(&header) as usize == body.len() && body.len() <= 8192);
            prop_assert_eq!(Numbers::parse(&header).expected, 77);
        }
    }

    #[test]
    fn hostile_values_of_known_keys(key in 0..RICH.len(), value in "[ -~]{0,40}") {
        let mut raw = Raw::new(&Setup::default());
        let mut keys = RICH.to_vec();
        keys[key].1 = &value;
        let _ = raw.login(&text(&keys));
        prop_assert!(raw.served.end.finished() || raw.served.end.stage() != Stage::Login);
    }
}
