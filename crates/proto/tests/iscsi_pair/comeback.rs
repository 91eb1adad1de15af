//! Initiators that reconnect while the volume still has I/Os of an earlier session.

use block::{Fault, Nanos};
use proto::iscsi::TargetConfig;
use proto::iscsi::pdu::LoginResponse;
use proto::scsi::{Sense, cdb};
use proto::{Ending, Endpoint, Notice, Target};

use crate::harness::{INITIATOR, Setup, TARGET};
use crate::raw::{Raw, Way, text};

const ISID: [u8; 6] = [0x80, 1, 2, 3, 4, 5];
const OTHER_ISID: [u8; 6] = [0x80, 1, 2, 3, 4, 6];

/// Connections of one server.
struct Server {
    setup: Setup,
}

impl Server {
    fn new() -> Server {
        Server { setup: Setup::default() }
    }

    /// A connection that has sent its last login request.
    fn knock_as(&mut self, name: &str, isid: [u8; 6]) -> Raw {
        self.setup.connection += 1;
        let mut raw = Raw::new(&self.setup);
        raw.knock(&text(&[("InitiatorName", name), ("TargetName", TARGET)]), isid);
        raw
    }

    fn knock(&mut self, isid: [u8; 6]) -> Raw {
        self.knock_as(INITIATOR, isid)
    }

    /// Returns a session whose unit has reported its attention. `others` of the initiator are
    /// alive.
    fn session_beside(&mut self, isid: [u8; 6], others: &mut [&mut Raw]) -> (Raw, Sense) {
        let mut raw = self.knock(isid);
        for came in raw.served.end.take_notices() {
            others.iter_mut().for_each(|other| other.notice(&came));
        }
        assert_eq!(answer(&mut raw), Some(0));
        let tag = raw.command(1, [0; 16], Way::None, 0, &[]);
        let told = raw.end(tag).sense.expect("an attention");
        (raw, told)
    }

    fn session(&mut self, isid: [u8; 6]) -> (Raw, Sense) {
        self.session_beside(isid, &mut [])
    }
}

/// The status of the login, if it was answered.
fn answer(raw: &mut Raw) -> Option<u16> {
    raw.served.end.drained(raw.now, &mut raw.served.out);
    let answers = raw.answers();
    let (header, _) = answers.first()?;
    let response = LoginResponse::parse(header);
    raw.status = response.numbers.status.wrapping_add(1);
    Some(response.status)
}

/// Sends a write that the volume takes and does not execute.
fn write(raw: &mut Raw) {
    raw.command(1, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
    assert!(raw.served.take_requests());
}

fn lose(raw: &mut Raw) {
    let pool = raw.served.out.pool().clone();
    raw.served.end.abandon(&pool);
}

fn began(raw: &mut Raw) -> Notice {
    raw.served.end.take_notices().pop().expect("others are told of a login")
}

#[test]
fn a_login_that_takes_the_place_of_a_session_waits_for_its_writes() {
    let mut server = Server::new();
    let (mut old, told) = server.session(ISID);
    assert_eq!(told, Sense::POWER_ON_RESET);
    write(&mut old);
    let mut new = server.knock(ISID);
    // The old session is alive: it must end, and the volume has its write.
    assert!(answer(&mut new).is_none() && new.served.end.starves() && new.served.end.half_open());
    old.notice(&began(&mut new));
    assert!(old.served.end.finished());
    assert_eq!(answer(&mut new), None);
    lose(&mut old);
    lose(&mut old);
    assert_eq!(answer(&mut new), None);
    old.served.complete(old.now, 0);
    assert_eq!(answer(&mut new), Some(0));
    assert!(!new.served.end.starves() && !new.served.end.half_open());
    // Only the nexus was lost: the server still runs, and the writes are in its cache.
    let tag = new.command(1, [0; 16], Way::None, 0, &[]);
    assert_eq!(new.end(tag).sense, Some(Sense::NEXUS_LOSS));
    let tag = new.command(2, [0; 16], Way::None, 0, &[]);
    assert_eq!(new.end(tag).sense, Some(Sense::POWER_ON_RESET), "this one has not told it yet");
}

#[test]
fn whoever_was_killed_and_started_again_waits_for_what_it_left() {
    let mut server = Server::new();
    let (mut old, _) = server.session(ISID);
    write(&mut old);
    // No login waits for a live session, once that is known.
    let mut beside = server.knock(OTHER_ISID);
    assert_eq!(answer(&mut beside), None);
    old.notice(&began(&mut beside));
    assert_eq!(answer(&mut beside), Some(0));
    lose(&mut beside);
    // A session that has closed may have sent commands that are still unread.
    let mut early = server.knock(OTHER_ISID);
    let came = began(&mut early);
    old.notice_when_closed(&came);
    assert_eq!(answer(&mut early), None);
    lose(&mut early);
    lose(&mut old);
    let mut new = server.knock([0x80, 9, 9, 9, 9, 9]);
    let mut stranger = server.knock_as("iqn.2026-01.org.drumfire:stranger", ISID);
    assert_eq!((answer(&mut new), answer(&mut stranger)), (None, Some(0)));
    old.served.complete(old.now, 0);
    assert_eq!(answer(&mut new), Some(0));
}

#[test]
fn only_changes_that_the_volume_has_are_waited_for() {
    let mut server = Server::new();
    let (mut old, _) = server.session(ISID);
    old.command(1, cdb::read10(0, 8), Way::Read, 4096, &[]);
    old.command(1, cdb::synchronize_cache16(), Way::None, 0, &[]);
    assert!(old.served.take_requests());
    // The volume has not taken this one.
    old.command(1, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
    lose(&mut old);
    assert_eq!(answer(&mut server.knock(ISID)), Some(0));
    // A trim changes blocks, too.
    let (mut old, _) = server.session(OTHER_ISID);
    let tag = old.command(1, cdb::write_same16(0, 8, true), Way::Write, 512, &[0; 512]);
    assert!(tag != 0 && old.served.take_requests());
    lose(&mut old);
    let mut new = server.knock(OTHER_ISID);
    assert_eq!(answer(&mut new), None);
    old.served.complete(old.now, 0);
    assert_eq!(answer(&mut new), Some(0));
}

#[test]
fn a_write_that_was_aborted_is_waited_for_as_well() {
    let mut server = Server::new();
    let (mut old, _) = server.session(ISID);
    write(&mut old);
    old.notice(&Notice::UnitReset(proto::UnitId(0)));
    lose(&mut old);
    let mut new = server.knock(ISID);
    assert_eq!(answer(&mut new), None);
    old.served.complete(old.now, 0);
    assert_eq!(answer(&mut new), Some(0));
}

#[test]
fn a_login_waits_as_long_as_a_login_may_take() {
    let mut server = Server::new();
    server.setup.target =
        TargetConfig { login_timeout: Nanos::from_secs(7), ..TargetConfig::default() };
    let (mut old, _) = server.session(ISID);
    write(&mut old);
    lose(&mut old);
    let mut new = server.knock(ISID);
    let mut remarks = Vec::new();
    let ending = loop {
        new.now = new.served.end.deadline().unwrap();
        assert!(new.now <= Nanos::from_secs(7), "it waits for ever");
        let result = new.served.end.tick(new.now, &mut new.served.out);
        remarks.extend(new.served.end.take_remark());
        if let Err(ending) = result {
            break ending;
        }
        // The others are notified again, because a mailbox may have been full.
        assert!(matches!(began(&mut new), Notice::PeerCame(_)));
    };
    assert!(remarks.len() == 1 && remarks[0].contains(INITIATOR), "{remarks:?}");
    assert!(matches!(ending, Ending::TimedOut(why) if why.contains("earlier session")));
    let (header, _) = new.one();
    assert_eq!(LoginResponse::parse(&header).status, 0x0301);
    // The session was never admitted, so no login waits for it.
    lose(&mut new);
    old.served.complete(old.now, 0);
    assert_eq!(answer(&mut server.knock(ISID)), Some(0));
}

#[test]
fn the_newest_of_several_logins_is_let_in() {
    let mut server = Server::new();
    let (mut old, _) = server.session(ISID);
    write(&mut old);
    let [mut first, mut second] = [server.knock(ISID), server.knock(ISID)];
    old.notice(&began(&mut first));
    lose(&mut old);
    first.notice(&began(&mut second));
    assert!(first.served.end.finished());
    old.served.complete(old.now, 0);
    assert_eq!(answer(&mut second), None, "the first is not gone");
    lose(&mut first);
    assert_eq!((answer(&mut first), answer(&mut second)), (None, Some(0)));
}

/// Outcome of a flush.
fn flush(raw: &mut Raw, fault: Option<Fault>) -> Option<Sense> {
    raw.served.faults.extend(fault);
    let tag = raw.command(1, cdb::synchronize_cache16(), Way::None, 0, &[]);
    raw.end(tag).sense
}

const FAILED: Option<Sense> = Some(Sense::INTERNAL_TARGET_FAILURE);

#[test]
fn a_failed_flush_is_told_to_everybody_who_may_have_written() {
    let mut server = Server::new();
    let before = server.setup.instance.number();
    let (mut one, _) = server.session(ISID);
    let (mut other, _) = server.session_beside(OTHER_ISID, &mut [&mut one]);
    let (mut away, _) = server.session_beside([0x80, 7, 7, 7, 7, 7], &mut [&mut one, &mut other]);
    lose(&mut away);
    assert_eq!(flush(&mut one, Some(Fault::Unsupported)), Some(Sense::INVALID_OPCODE));
    assert_eq!(flush(&mut other, None), None);
    assert_eq!(flush(&mut one, Some(Fault::Medium)), FAILED);
    assert_eq!([flush(&mut one, None), flush(&mut other, None)], [None, FAILED]);
    assert_eq!([flush(&mut one, None), flush(&mut other, None)], [None, None]);
    assert_ne!(server.setup.instance.number(), before, "who comes back sees it");
    // An initiator that was disconnected, and does not support instances, gets the report, too.
    let (mut away, told) =
        server.session_beside([0x80, 7, 7, 7, 7, 7], &mut [&mut one, &mut other]);
    assert_eq!(told, Sense::NEXUS_LOSS);
    assert_eq!([flush(&mut away, None), flush(&mut away, None)], [FAILED, None]);
    let others = &mut [&mut one, &mut other, &mut away];
    let (mut fresh, _) = server.session_beside([0x80, 8, 8, 8, 8, 8], others);
    assert_eq!(flush(&mut fresh, None), None);
}

#[test]
fn a_flush_that_fails_when_its_session_is_gone_is_told_to_the_others() {
    for aborted in [false, true] {
        let mut server = Server::new();
        let (mut one, _) = server.session(ISID);
        let (mut other, _) = server.session_beside(OTHER_ISID, &mut [&mut one]);
        one.command(1, cdb::synchronize_cache16(), Way::None, 0, &[]);
        assert!(one.served.take_requests());
        if aborted {
            one.notice(&Notice::UnitReset(proto::UnitId(0)));
        } else {
            lose(&mut one);
        }
        one.served.faults.push_back(Fault::Disconnected);
        one.served.complete(one.now, 0);
        assert_eq!([flush(&mut other, None), flush(&mut other, None)], [FAILED, None]);
    }
}
