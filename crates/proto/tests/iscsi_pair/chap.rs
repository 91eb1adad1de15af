//! CHAP: both ends, and each against a scripted peer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::Nanos;
use md5::{Digest, Md5};
use proto::auth::{Chance, Credentials, Secret};
use proto::iscsi::pdu::{LoginRequest, LoginResponse};
use proto::iscsi::{Chap, Proof};
use proto::{Endpoint, Initiator, Peers, Phase, Target};

use crate::harness::{INITIATOR, Pair, Rng, Setup, TARGET};
use crate::raw::{Raw, text, value};

const SECRET: &[u8] = b"the secret of one";
const OTHER: &[u8] = b"the secret of another";

fn user(name: &str, secret: &[u8]) -> Credentials {
    Credentials { user: name.to_owned(), secret: Secret::new(secret).unwrap() }
}

/// Secrets with challenges from a seed.
fn chap(initiator: (&str, &[u8]), target: Option<(&str, &[u8])>, seed: u64) -> Chap {
    let state = std::sync::Mutex::new(Rng(seed));
    let chance = Chance::new(move |bytes| {
        let mut state = state.lock().unwrap();
        bytes.iter_mut().for_each(|byte| *byte = state.next() as u8);
    });
    let target = target.map(|(name, secret)| user(name, secret));
    Chap { initiator: user(initiator.0, initiator.1), target, chance }
}

fn proof(chap: Chap) -> Proof {
    Proof { chap, only_md5: Arc::new(AtomicBool::new(false)) }
}

/// Logs in; the words of the refusal.
fn login(setup: &Setup) -> Result<(), String> {
    let mut pair = Pair::new(setup);
    pair.chunk = 7;
    pair.initiator.tick(pair.now, &mut pair.out).unwrap();
    loop {
        match pair.step() {
            Ok(true) => {}
            Ok(false) => break,
            Err(ending) => return Err(ending.to_string()),
        }
    }
    assert!(matches!(pair.initiator.phase(), Phase::Ready(_)), "{:?}", pair.initiator.phase());
    Ok(())
}

type Side = Option<((&'static str, &'static [u8]), Option<(&'static str, &'static [u8])>)>;

#[test]
fn both_ends_agree_or_say_why_not() {
    let one = ("one", SECRET);
    let target = ("target", OTHER);
    let cases: [(&str, Side, Side, Option<&str>); 13] = [
        ("nothing demanded", None, None, None),
        ("one way", Some((one, None)), Some((one, None)), None),
        ("mutual", Some((one, Some(target))), Some((one, Some(target))), None),
        ("target could prove itself", Some((one, Some(target))), Some((one, None)), None),
        ("no secrets", Some((one, None)), None, Some("chap=FILE")),
        ("nothing asked", None, Some((one, None)), Some("no CHAP")),
        ("other secret", Some((one, None)), Some((("one", OTHER), None)), Some("refuses user one")),
        ("other name", Some((one, None)), Some((("two", SECRET), None)), Some("refuses user two")),
        ("prefix", Some((one, None)), Some((("on", SECRET), None)), Some("refuses user on")),
        ("cannot prove itself", Some((one, None)), Some((one, Some(target))), Some("0x0201")),
        (
            "false target",
            Some((one, Some(("target", b"a false secret")))),
            Some((one, Some(target))),
            Some("does not prove"),
        ),
        (
            "target of another name",
            Some((one, Some(("other", OTHER)))),
            Some((one, Some(target))),
            Some("does not prove"),
        ),
        (
            "one secret for both ways",
            Some((one, Some(("target", SECRET)))),
            Some((one, Some(("target", SECRET)))),
            Some("0x0201"),
        ),
    ];
    for (seed, (name, theirs, ours, words)) in cases.into_iter().enumerate() {
        let seed = seed as u64;
        let made = |side: Side, seed| side.map(|(one, other)| chap(one, other, seed));
        let proof = made(ours, seed + 100).map(proof);
        let setup = Setup { chap: made(theirs, seed), proof, ..Setup::default() };
        match (login(&setup), words) {
            (Ok(()), None) => {}
            (Err(said), Some(words)) if said.contains(words) => {}
            (result, _) => panic!("{name}: {result:?}"),
        }
    }
}

/// A refusal after the algorithms were listed makes the next login offer MD5 alone.
#[test]
fn a_refused_login_tries_md5_next() {
    let right = chap(("one", SECRET), None, 1);
    let proof = proof(chap(("one", OTHER), None, 2));
    let setup = Setup { chap: Some(right), proof: Some(proof.clone()), ..Setup::default() };
    assert!(login(&setup).is_err() && proof.only_md5.load(Ordering::Acquire));
    let proof = Proof { chap: chap(("one", SECRET), None, 3), ..proof };
    login(&Setup { proof: Some(proof), ..setup }).unwrap();
}

/// A scripted login to a target with CHAP.
struct Script {
    raw: Raw,
}

impl Script {
    fn new(target: Option<(&str, &[u8])>) -> Script {
        let chap = Some(chap(("one", SECRET), target, 5));
        Script { raw: Raw::new(&Setup { chap, ..Setup::default() }) }
    }

    /// Sends keys in the security stage. The answer, or the status.
    fn say(&mut self, next: Option<u8>, keys: &[(&str, &str)]) -> Result<Vec<u8>, u16> {
        let text = text(keys);
        let request = LoginRequest {
            transit: next.is_some(),
            next_stage: next.unwrap_or(0),
            data_len: text.len() as u32,
            isid: [0x80, 1, 2, 3, 4, 5],
            ..LoginRequest::default()
        };
        self.raw.send(&request, &text).unwrap();
        let (header, text) = self.raw.one();
        let response = LoginResponse::parse(&header);
        let proven = value(&text, "CHAP_R").is_some() || text.is_empty();
        assert!(!response.transit || proven, "went on without a proof");
        if response.status == 0 { Ok(text) } else { Err(response.status) }
    }

    fn names(&mut self) {
        let keys = [("InitiatorName", INITIATOR), ("TargetName", TARGET), ("AuthMethod", "CHAP")];
        let answer = self.say(None, &keys).unwrap();
        assert_eq!(value(&answer, "AuthMethod"), Some("CHAP"));
    }

    /// Identifier, challenge as text, and the right response by MD5.
    fn challenge(&mut self) -> (String, String, String) {
        self.names();
        let answer = self.say(None, &[("CHAP_A", "9,5,7")]).unwrap();
        assert_eq!(value(&answer, "CHAP_A"), Some("5"));
        let own = |key| value(&answer, key).unwrap().to_owned();
        let (identifier, challenge) = (own("CHAP_I"), own("CHAP_C"));
        let digits = &challenge.as_bytes()[2..];
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        let hash = Md5::new()
            .chain_update([identifier.parse::<u8>().unwrap()])
            .chain_update(SECRET)
            .chain_update(bytes)
            .finalize();
        let hash: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
        (identifier, challenge, format!("0X{hash}"))
    }
}

#[test]
fn a_right_response_opens_and_all_else_does_not() {
    let mut script = Script::new(None);
    let (_, _, right) = script.challenge();
    assert_eq!(script.say(Some(1), &[("CHAP_N", "one"), ("CHAP_R", &right)]), Ok(Vec::new()));
    let mut wrong = right.clone().into_bytes();
    let last = wrong.last_mut().unwrap();
    *last = if *last == b'0' { b'1' } else { b'0' };
    let wrong = String::from_utf8(wrong).unwrap();
    let short = &right[..right.len() - 2];
    let longer = format!("{right}00");
    let cases: [(&[(&str, &str)], u16); 12] = [
        (&[("CHAP_N", "one"), ("CHAP_R", &wrong)], 0x0201),
        (&[("CHAP_N", "one"), ("CHAP_R", short)], 0x0201),
        (&[("CHAP_N", "one"), ("CHAP_R", &longer)], 0x0201),
        (&[("CHAP_N", "one"), ("CHAP_R", "0x")], 0x0201),
        (&[("CHAP_N", "One"), ("CHAP_R", &right)], 0x0201),
        (&[("CHAP_N", ""), ("CHAP_R", &right)], 0x0201),
        (&[("CHAP_N", "one")], 0x0200),
        (&[("CHAP_R", &right)], 0x0200),
        (&[("CHAP_N", "one"), ("CHAP_R", "0b====")], 0x0200),
        (&[("AuthMethod", "None")], 0x0200),
        (&[("CHAP_N", "one"), ("CHAP_R", &right), ("CHAP_I", "1"), ("CHAP_C", "0x5a")], 0x0201),
        (&[], 0x0201),
    ];
    for (keys, status) in cases {
        let mut script = Script::new(None);
        script.challenge();
        assert_eq!(script.say(Some(1), keys), Err(status), "{keys:?}");
    }
}

#[test]
fn the_challenge_of_a_target_is_not_answered_by_itself() {
    for form in [str::to_owned, str::to_uppercase] {
        let mut script = Script::new(Some(("target", OTHER)));
        let (_, challenge, right) = script.challenge();
        let challenge = format!("0x{}", form(&challenge[2..]));
        let keys =
            [("CHAP_N", "one"), ("CHAP_R", &*right), ("CHAP_I", "3"), ("CHAP_C", &*challenge)];
        assert_eq!(script.say(Some(1), &keys), Err(0x0201));
    }
    for (identifier, challenge, status) in
        [("256", "0x5a", 0x0200), ("-1", "0x5a", 0x0200), ("3", "0x", 0x0200), ("3", "5a", 0x0200)]
    {
        let mut script = Script::new(Some(("target", OTHER)));
        let (_, _, right) = script.challenge();
        let keys =
            [("CHAP_N", "one"), ("CHAP_R", &*right), ("CHAP_I", identifier), ("CHAP_C", challenge)];
        assert_eq!(script.say(Some(1), &keys), Err(status), "{identifier} {challenge}");
    }
}

#[test]
fn no_way_leads_around_the_proof() {
    let names = [("InitiatorName", INITIATOR), ("TargetName", TARGET)];
    // Straight to the operational stage.
    let chap = Some(chap(("one", SECRET), None, 5));
    let mut raw = Raw::new(&Setup { chap, ..Setup::default() });
    assert_eq!(raw.login(&text(&names)), Err(0x0201));
    // Without the security keys, with None, with other methods.
    assert_eq!(Script::new(None).say(Some(1), &names), Err(0x0201));
    for method in ["None", "KRB5", "", "chap", "CHAP2"] {
        let keys = [names[0], names[1], ("AuthMethod", method)];
        assert_eq!(Script::new(None).say(None, &keys), Err(0x0201), "{method}");
    }
    // The demand for the next stage is not met before the proof.
    for next in [1, 3] {
        let mut script = Script::new(None);
        let keys = [names[0], names[1], ("AuthMethod", "CHAP,None")];
        script.say(Some(next), &keys).unwrap();
        assert_eq!(script.say(Some(next), &[]), Err(0x0201));
    }
    for algorithms in ["9", "", "MD5", "5 ", "05"] {
        let mut script = Script::new(None);
        script.names();
        assert_eq!(script.say(None, &[("CHAP_A", algorithms)]), Err(0x0201), "{algorithms}");
    }
    // A response before the challenge.
    let mut script = Script::new(None);
    script.names();
    assert_eq!(script.say(Some(1), &[("CHAP_N", "one"), ("CHAP_R", "0x00")]), Err(0x0200));
}

#[test]
fn wrong_proofs_are_refused_later_and_later_and_right_ones_never() {
    let peers = Arc::new(Peers::new());
    let fresh = || {
        let (chap, peers) = (Some(chap(("one", SECRET), None, 5)), Arc::clone(&peers));
        Script { raw: Raw::new(&Setup { chap, peers, ..Setup::default() }) }
    };
    let wrong = || {
        let mut script = fresh();
        script.challenge();
        let keys = text(&[("CHAP_N", "one"), ("CHAP_R", "0x00")]);
        let request = LoginRequest {
            transit: true,
            next_stage: 1,
            data_len: keys.len() as u32,
            isid: [0x80, 1, 2, 3, 4, 5],
            ..LoginRequest::default()
        };
        script.raw.send(&request, &keys).unwrap();
        script
    };
    let told = |script: &mut Script| {
        let (header, _) = script.raw.one();
        assert_eq!(LoginResponse::parse(&header).status, 0x0201);
    };
    for _ in 0..5 {
        told(&mut wrong());
    }
    let mut late = wrong();
    assert!(late.raw.answers().is_empty());
    // Whoever knows the secret is not held up by those who do not.
    let mut script = fresh();
    let (_, _, right) = script.challenge();
    assert_eq!(script.say(Some(1), &[("CHAP_N", "one"), ("CHAP_R", &right)]), Ok(Vec::new()));
    let served = &mut late.raw.served;
    let due = served.end.deadline().unwrap();
    assert_eq!(due, Nanos::from_millis(500));
    served.end.tick(due, &mut served.out).unwrap();
    assert!(served.end.finished());
    told(&mut late);
}
