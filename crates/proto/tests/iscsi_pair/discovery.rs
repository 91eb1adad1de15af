//! Discovery, at our portal and at a misbehaving one.

use block::{Memory, Nanos, Pool};
use proto::iscsi::Discovery;
use proto::iscsi::pdu::{
    AsyncMessage, LoginRequest, LoginResponse, LogoutResponse, NopIn, NopOut, Pdu, Reject,
    Response, TextRequest, TextResponse, opcode, opcode_of,
};
use proto::{Ending, Endpoint, Outbox};

use crate::harness::{INITIATOR, PORTAL, TARGET, drain};
use crate::raw::{NOTHING, bytes, split, text};

#[test]
fn discovery_lists_targets_and_their_addresses() {
    let setup = crate::harness::Setup::default();
    for chunk in [1, 7, 48, 1000] {
        let mut target = setup.target(&Memory::new(setup.bytes).unwrap());
        let mut discovery = Discovery::new(INITIATOR, Nanos(0));
        let (mut up, mut down) = (Outbox::new(Pool::new(8, 8)), Outbox::new(Pool::new(8, 8)));
        assert!(discovery.targets().is_none());
        discovery.tick(Nanos(0), &mut up).unwrap();
        for _ in 0..10 {
            for part in drain(&mut up).chunks(chunk) {
                target.receive(Nanos(0), part, &mut down).unwrap();
            }
            for part in drain(&mut down).chunks(chunk) {
                discovery.receive(Nanos(0), part, &mut up).unwrap();
            }
        }
        let expect = [crate::harness::OTHER_TARGET, TARGET]
            .map(|name| (name.to_owned(), vec![PORTAL.to_owned()]));
        assert_eq!(discovery.targets().unwrap(), expect);
        assert!(discovery.finished() && proto::Target::finished(&target));
        assert_eq!(discovery.deadline(), None);
    }
}

#[test]
fn a_portal_that_does_not_play_along() {
    let (mut up, now) = (Outbox::new(Pool::new(8, 8)), Nanos(0));
    let mut discovery = Discovery::new(INITIATOR, now);
    discovery.tick(now, &mut up).unwrap();
    let late = discovery.deadline().unwrap();
    assert!(matches!(discovery.tick(late, &mut up), Err(Ending::TimedOut(_))));
    let mut discovery = Discovery::new(INITIATOR, now);
    discovery.tick(now, &mut up).unwrap();
    let text = TextResponse { last: true, ..TextResponse::default() };
    assert!(discovery.receive(now, &text.build(), &mut up).is_err());
    let mut discovery = Discovery::new(INITIATOR, now);
    discovery.tick(now, &mut up).unwrap();
    let refusal = LoginResponse { status: 0x0301, ..LoginResponse::default() };
    let ending = discovery.receive(now, &refusal.build(), &mut up).unwrap_err();
    assert!(ending.to_string().contains("0x0301"), "{ending}");
}

/// Returns a discovery with a scripted portal, in full feature phase, and its query's task tag.
fn asking(out: &mut Outbox) -> (Discovery, u32) {
    let now = Nanos(0);
    let mut discovery = Discovery::new(INITIATOR, now);
    drain(out);
    discovery.tick(now, out).unwrap();
    for _ in 0..2 {
        let request = LoginRequest::parse(&split(&drain(out))[0].0);
        let response = LoginResponse {
            transit: true,
            stage: request.stage,
            next_stage: request.next_stage,
            task_tag: request.task_tag,
            ..LoginResponse::default()
        };
        discovery.receive(now, &response.build(), out).unwrap();
    }
    let (header, body) = split(&drain(out)).remove(0);
    assert_eq!(body, text(&[("SendTargets", "All")]));
    (discovery, TextRequest::parse(&header).task_tag)
}

#[test]
fn a_long_list_comes_in_parts() {
    let (mut out, now) = (Outbox::new(Pool::new(8, 8)), Nanos(0));
    let (mut discovery, task_tag) = asking(&mut out);
    let pairs: Vec<(String, String)> = (0..100)
        .map(|index| (format!("iqn.2026-01.org.example:{index}"), format!("[::1]:{index},1")))
        .collect();
    let list: Vec<(&str, &str)> = pairs
        .iter()
        .flat_map(|(name, address)| [("TargetName", &**name), ("TargetAddress", &**address)])
        .collect();
    let all = text(&list);
    for (at, part) in all.chunks(1000).enumerate() {
        // A ping and news in between do no harm.
        let nop = NopIn { task_tag: NOTHING, transfer_tag: 7, ..NopIn::default() };
        discovery.receive(now, &nop.build(), &mut out).unwrap();
        let (header, _) = split(&drain(&mut out)).remove(0);
        assert_eq!(NopOut::parse(&header).transfer_tag, 7);
        let nop = NopIn { task_tag: NOTHING, transfer_tag: NOTHING, ..NopIn::default() };
        discovery.receive(now, &nop.build(), &mut out).unwrap();
        discovery.receive(now, &AsyncMessage::default().build(), &mut out).unwrap();
        assert!(discovery.targets().is_none());
        let last = (at + 1) * 1000 >= all.len();
        let response = TextResponse {
            last,
            more: !last,
            data_len: part.len() as u32,
            task_tag,
            transfer_tag: if last { NOTHING } else { 0x99 },
            ..TextResponse::default()
        };
        discovery.receive(now, &bytes(&response.build(), part), &mut out).unwrap();
        let (header, body) = split(&drain(&mut out)).remove(0);
        if last {
            assert_eq!(opcode_of(&header), opcode::LOGOUT_REQUEST);
        } else {
            assert_eq!(TextRequest::parse(&header).transfer_tag, 0x99);
            assert!(body.is_empty());
        }
    }
    let expect = pairs.into_iter().map(|(name, address)| (name, vec![address]));
    assert!(discovery.targets().unwrap().into_iter().eq(expect));
    discovery.receive(now, &LogoutResponse::default().build(), &mut out).unwrap();
    assert!(discovery.finished());
    discovery.receive(now, &[0xff; 100], &mut out).unwrap();
}

#[test]
fn a_list_without_end_and_answers_to_nothing() {
    let (mut out, now) = (Outbox::new(Pool::new(8, 8)), Nanos(0));
    let (mut discovery, task_tag) = asking(&mut out);
    let part = vec![b'a'; 200_000];
    let data_len = part.len() as u32;
    let response = TextResponse { more: true, data_len, task_tag, ..TextResponse::default() };
    let endless = bytes(&response.build(), &part);
    let result = (0..30).find_map(|_| discovery.receive(now, &endless, &mut out).err());
    assert!(matches!(result, Some(Ending::Refused(_))));
    for pdu in [
        Reject::default().build(),
        TextResponse { last: true, task_tag: 99, ..TextResponse::default() }.build(),
        LoginResponse::default().build(),
        Response::default().build(),
    ] {
        let (mut discovery, _) = asking(&mut out);
        assert!(discovery.receive(now, &bytes(&pdu, &[]), &mut out).is_err());
    }
}
