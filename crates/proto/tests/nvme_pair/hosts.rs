//! Our initiators against controllers made of raw bytes, or whose PDUs are changed in transit.

use block::{Buf, Done, Fault, Io, Nanos, Op, Pool, Tag};
use proptest::prelude::*;
use proto::crc32c::crc32c;
use proto::nvme::pdu::{
    Completion, Data, InitResponse, ReadyToTransfer, Status, Terminate, fatal, flag, kind,
};
use proto::nvme::{NvmeAdmin, NvmeQueue};
use proto::{Ending, Endpoint, Initiator, Outbox, Phase};

use crate::joined::{Joined, Wire, admin, config, queue};
use crate::server::{NQN, Server, sent};

pub const RESPONSE: InitResponse = InitResponse {
    version: 0,
    alignment: 0,
    header_digest: false,
    data_digest: false,
    max_data: 4096,
};

/// An I/O queue whose controller is the test.
pub struct Host {
    pub end: NvmeQueue,
    pub out: Outbox,
    pub now: Nanos,
}

impl Host {
    /// A queue that sent its ICReq.
    fn fresh(header_digest: bool, data_digest: bool) -> Host {
        let mut server = Server::usual();
        let config = config(1, header_digest, data_digest);
        let admin = admin(&mut server, &config, usize::MAX);
        let association = admin.host.ready().unwrap();
        let now = Nanos(5);
        let mut end = NvmeQueue::new(&config, association, 1, now);
        let mut out = Outbox::new(Pool::new(64, 16));
        assert_eq!(end.deadline(), Some(Nanos(0)));
        end.tick(now, &mut out).unwrap();
        let request = sent(&mut out);
        assert_eq!((request.len(), request[0]), (128, 0));
        Host { end, out, now }
    }

    /// Returns a connected host.
    pub fn open(response: InitResponse) -> Host {
        let mut host = Host::fresh(response.header_digest, response.data_digest);
        host.receive(&response.build()).unwrap();
        let connect = sent(&mut host.out);
        assert_eq!(connect[0], kind::CAPSULE_CMD);
        let (result, head, status) = (1, 0, Status::SUCCESS);
        let command = u16::from_le_bytes([connect[10], connect[11]]);
        host.short(Completion { result, head, command, status }.build()).unwrap();
        assert!(matches!(host.end.phase(), Phase::Ready(_)));
        host
    }

    fn receive(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        self.end.receive(self.now, bytes, &mut self.out)
    }

    pub fn short(&mut self, header: [u8; 24]) -> Result<(), Ending> {
        self.receive(&header)
    }

    fn submit(&mut self, op: Op, len: u32) {
        let mut buf = Buf::new(len as usize).unwrap();
        buf.iter_mut().enumerate().for_each(|(i, byte)| *byte = ((i * 13) >> 4) as u8);
        let io = Io { tag: Tag(1), op, fua: false, len, offset: 0, buf: Some(buf) };
        self.end.submit(self.now, io, &mut self.out);
    }

    fn done(&mut self) -> Option<Done> {
        self.end.done().pop()
    }

    /// The last word, an H2CTermReq: status and information.
    fn last_word(&mut self) -> (u16, u32) {
        let bytes = sent(&mut self.out);
        let at = bytes.iter().position(|byte| *byte == kind::H2C_TERM_REQ).unwrap_or(0);
        let terminate = Terminate::parse(bytes[at..].first_chunk().unwrap());
        assert_eq!(terminate.kind, kind::H2C_TERM_REQ);
        (terminate.status, terminate.information)
    }
}

fn data(command: u16, flags: u8, offset: u32, data: &[u8]) -> Vec<u8> {
    let len = data.len() as u32;
    let (kind, data_offset, pdu_len) = (kind::C2H_DATA, 24, 24 + len);
    let header = Data { kind, flags, data_offset, pdu_len, command, transfer_tag: 0, offset, len };
    [&header.build()[..], data].concat()
}

pub fn completion(command: u16, status: Status) -> [u8; 24] {
    Completion { result: 0, head: 0, command, status }.build()
}

fn ready(command: u16, transfer_tag: u16, offset: u32, len: u32) -> [u8; 24] {
    ReadyToTransfer { command, transfer_tag, offset, len }.build()
}

#[test]
fn an_icresp_that_makes_no_sense_is_refused() {
    let good = RESPONSE;
    for (response, at) in [
        (InitResponse { version: 1, ..good }, 8),
        (InitResponse { alignment: 32, ..good }, 10),
        (InitResponse { header_digest: true, ..good }, 11),
        (InitResponse { data_digest: true, ..good }, 11),
        (InitResponse { max_data: 4092, ..good }, 12),
        (InitResponse { max_data: 4098, ..good }, 12),
        (InitResponse { max_data: 0, ..good }, 12),
    ] {
        let mut host = Host::fresh(false, false);
        let Err(Ending::Violation(violation)) = host.receive(&response.build()) else {
            panic!("{response:?} was taken");
        };
        assert_eq!(violation.at, at);
        assert_eq!(host.last_word(), (fatal::INVALID_HEADER_FIELD, at as u32));
    }
    for [header, data] in [[true, false], [false, true], [true, true]] {
        let mut host = Host::fresh(header, data);
        let Err(Ending::Refused(why)) = host.receive(&good.build()) else { panic!("it was taken") };
        assert!(why.contains("digests"), "{why}");
    }
    let mut host = Host::open(good);
    assert!(host.receive(&good.build()).is_err());
    assert_eq!(host.last_word(), (fatal::SEQUENCE_ERROR, 0));
}

#[test]
fn nothing_comes_before_an_icresp_and_the_answer_to_connect() {
    for bytes in [
        completion(128, Status::SUCCESS).to_vec(),
        ready(0, 0, 0, 4).to_vec(),
        data(0, flag::LAST, 0, &[1, 2, 3, 4]),
    ] {
        let mut host = Host::fresh(false, false);
        assert!(host.receive(&bytes).is_err());
        assert_eq!(host.last_word(), (fatal::SEQUENCE_ERROR, 0));
        if bytes[0] != kind::CAPSULE_RESP {
            let mut host = Host::fresh(false, false);
            host.receive(&RESPONSE.build()).unwrap();
            assert!(host.receive(&bytes).is_err());
        }
    }
}

#[test]
fn data_may_come_in_any_pieces() {
    let content: Vec<u8> = (0..10_240).map(|i| (i * 3) as u8).collect();
    for (pieces, shortcut) in [
        (&[10_240][..], true),
        (&[1, 2, 3, 10_234], true),
        (&[4096, 4096, 2048], false),
        (&[10_239, 1], false),
    ] {
        for chunk in [1, 7, 24, 25, 1 << 20] {
            let mut host = Host::open(RESPONSE);
            host.submit(Op::Read, 10_240);
            let mut bytes = Vec::new();
            let mut at = 0;
            for piece in pieces {
                let last = at + piece == content.len();
                let success = if shortcut { flag::SUCCESS } else { 0 };
                let flags = if last { flag::LAST | success } else { 0 };
                bytes.extend(data(0, flags, at as u32, &content[at..at + piece]));
                at += piece;
            }
            if !shortcut {
                bytes.extend(completion(0, Status::SUCCESS));
            }
            bytes.chunks(chunk).for_each(|chunk| host.receive(chunk).unwrap());
            let done = host.done().expect("it is done");
            assert_eq!(done.result, Ok(()));
            assert_eq!(done.buf.unwrap()[..10_240], content);
            assert_eq!(host.end.room(), 128);
        }
    }
}

#[test]
fn data_that_was_not_asked_for_is_the_end() {
    let (invalid, range) = (fatal::INVALID_HEADER_FIELD, fatal::OUT_OF_RANGE);
    for (bytes, expect) in [
        (data(1, 4, 0, &[0; 512]), (invalid, 8)),
        (data(0xffff, 4, 0, &[0; 512]), (invalid, 8)),
        (data(0, 4, 512, &[0; 512]), (range, 0)),
        (data(0, 4, 0, &[0; 8193]), (range, 0)),
        (data(0, 4, u32::MAX, &[0; 512]), (range, 0)),
        (data(0, 8, 0, &[0; 8192]), (invalid, 1)),
        (data(0, 12, 0, &[0; 512]), (invalid, 1)),
        (ready(0, 0, 0, 512).to_vec(), (invalid, 8)),
        (ready(9, 0, 0, 512).to_vec(), (invalid, 8)),
        (completion(1, Status::SUCCESS).to_vec(), (invalid, 20)),
        (completion(128, Status::SUCCESS).to_vec(), (invalid, 20)),
        (completion(0xffff, Status::SUCCESS).to_vec(), (invalid, 20)),
    ] {
        let mut host = Host::open(RESPONSE);
        host.submit(Op::Read, 8192);
        sent(&mut host.out);
        assert!(host.receive(&bytes).is_err(), "{expect:?}");
        assert_eq!(host.last_word(), expect);
        host.end.abandon();
        assert_eq!(host.done().unwrap().result, Err(Fault::Disconnected));
    }
    // DATAL says less than there is.
    let mut host = Host::open(RESPONSE);
    host.submit(Op::Read, 8192);
    sent(&mut host.out);
    let mut bytes = data(0, 4, 0, &[0; 512]);
    bytes[16] ^= 4;
    assert!(host.receive(&bytes).is_err());
    assert_eq!(host.last_word(), (invalid, 16));
}

#[test]
fn success_without_all_data_is_no_success() {
    for part in [0, 512] {
        let mut host = Host::open(RESPONSE);
        host.submit(Op::Read, 8192);
        if part != 0 {
            host.receive(&data(0, flag::LAST, 0, &vec![0; part])).unwrap();
        }
        host.short(completion(0, Status::SUCCESS)).unwrap();
        assert_eq!(host.done().unwrap().result, Err(Fault::Medium));
        // A write completed before its data was requested fails as well.
        host.submit(Op::Write, 128 << 10);
        host.short(completion(0, Status::SUCCESS)).unwrap();
        assert_eq!(host.done().unwrap().result, Err(Fault::Medium));
    }
}

#[test]
fn writes_answer_every_request_for_data() {
    let len = 70_000_u32 / 512 * 512;
    for alignment in [0, 1, 31] {
        for max_data in [4096, 10_000, 1 << 20] {
            let mut host = Host::open(InitResponse { alignment, max_data, ..RESPONSE });
            host.submit(Op::Write, len);
            let command = sent(&mut host.out);
            assert_eq!((command.len(), command[47]), (72, 0x5a));
            let mut got = Vec::new();
            for (tag, part) in [(0, 1), (0xffff, 4096), (7, 20_000), (8, len - 24_097)] {
                host.short(ready(0, tag, got.len() as u32, part)).unwrap();
                let bytes = sent(&mut host.out);
                let mut rest = &bytes[..];
                let before = got.len();
                while !rest.is_empty() {
                    let pdu = Data::parse(rest.first_chunk().unwrap());
                    let start = usize::from(pdu.data_offset);
                    assert_eq!(start, 24_usize.next_multiple_of((usize::from(alignment) + 1) * 4));
                    assert!(pdu.len <= max_data);
                    assert_eq!((pdu.command, pdu.transfer_tag), (0, tag));
                    assert_eq!(pdu.offset as usize, got.len());
                    let (data, behind) = rest[start..].split_at(pdu.len as usize);
                    got.extend_from_slice(data);
                    rest = behind;
                    assert_eq!(pdu.last(), rest.is_empty());
                }
                assert_eq!(got.len() - before, part as usize);
            }
            host.short(completion(0, Status::SUCCESS)).unwrap();
            let done = host.done().unwrap();
            assert_eq!(done.result, Ok(()));
            assert!(done.buf.unwrap()[..len as usize] == got);
        }
    }
}

#[test]
fn requests_for_the_wrong_data_are_the_end() {
    for (offset, len) in [(512, 512), (0, 0), (0, 32_769), (u32::MAX, 1), (u32::MAX, u32::MAX)] {
        let mut host = Host::open(RESPONSE);
        host.submit(Op::Write, 32 << 10);
        sent(&mut host.out);
        assert!(host.short(ready(0, 0, offset, len)).is_err());
        assert_eq!(host.last_word(), (fatal::OUT_OF_RANGE, 0));
    }
    // In-capsule data cannot be requested again.
    let mut host = Host::open(RESPONSE);
    host.submit(Op::Write, 4096);
    sent(&mut host.out);
    assert!(host.short(ready(0, 0, 0, 4096)).is_err());
}

#[test]
fn a_trim_without_room_in_the_capsule_is_asked_for() {
    let mut server = Server::usual();
    server.config.in_capsule_bytes = 0;
    let mut joined = Joined::new(server, config(1, true, true), 50);
    assert_eq!(joined.admin.host.ready().unwrap().in_capsule_bytes, 0);
    assert_eq!(joined.run(Op::Trim, 512, 1024, None).result, Ok(()));
    assert_eq!(joined.server.stores[0].log, [(Op::Trim, 512, 1024, false)]);
    assert_eq!(joined.write(512, &[5; 512]), Ok(()));
    assert_eq!(joined.read(512, 512).unwrap(), [5; 512]);
}

#[test]
fn wrong_digests_are_noticed() {
    let digests = InitResponse { header_digest: true, data_digest: true, ..RESPONSE };
    let protect = |header: &[u8]| {
        let mut bytes = header.to_vec();
        bytes[1] |= 1;
        bytes[4] += 4;
        let digest = crc32c(&bytes).to_le_bytes();
        [&bytes[..], &digest].concat()
    };
    let mut host = Host::fresh(true, true);
    host.receive(&digests.build()).unwrap();
    let mut bad = protect(&completion(128, Status::SUCCESS));
    bad[26] ^= 0x40;
    let digest = u32::from_le_bytes(*bad[24..].first_chunk().unwrap());
    assert!(host.receive(&bad).is_err());
    let bytes = sent(&mut host.out);
    let terminate = Terminate::parse(bytes[bytes.len() - 48..].first_chunk().unwrap());
    assert_eq!((terminate.status, terminate.information), (fatal::HEADER_DIGEST_ERROR, digest));
    // Data with a wrong digest fails its I/O and nothing else.
    let mut joined = Joined::new(Server::usual(), config(1, false, true), usize::MAX);
    for kind in [0, 1] {
        let buf = Some(Buf::new(4096).unwrap());
        joined.submit(Op::Read, 0, 4096, buf);
        joined.queue.settle_with(&mut joined.server, |mut bytes| {
            if let Some(byte) = bytes.last_mut() {
                *byte ^= kind;
            }
            bytes
        });
        let expect = if kind == 0 { Ok(()) } else { Err(Fault::Medium) };
        assert_eq!(joined.queue.host.done().pop().unwrap().result, expect);
    }
}

#[test]
fn a_target_that_gives_up_is_quoted() {
    let term = Terminate {
        kind: kind::C2H_TERM_REQ,
        status: fatal::INVALID_HEADER_FIELD,
        information: 0x2c,
        offender_len: 0,
    };
    let mut host = Host::open(RESPONSE);
    let Err(Ending::Refused(why)) = host.short(term.build()) else { panic!("it goes on") };
    assert!(why.contains("invalid field in a PDU header") && why.contains("0x2c"), "{why}");
}

#[test]
fn a_queue_that_never_opens_ends() {
    let mut host = Host::fresh(false, false);
    host.now = host.end.deadline().unwrap();
    assert!(matches!(host.end.tick(host.now, &mut host.out), Err(Ending::TimedOut(_))));
}

#[test]
fn a_queue_closes_when_its_ios_are_done() {
    let mut joined = Joined::usual(1);
    let buf = Some(Buf::new(4096).unwrap());
    joined.submit(Op::Read, 0, 4096, buf);
    joined.queue.host.close(joined.server.now, &mut joined.queue.out);
    assert_eq!((joined.queue.host.phase(), joined.queue.host.room()), (Phase::Closing, 0));
    let done = joined.settle();
    assert_eq!(done[0].result, Ok(()));
    assert_eq!(joined.queue.host.phase(), Phase::Closed);
    assert!(proto::Target::finished(&joined.queue.peer.end));
    joined.queue.peer.leave(&mut joined.server);
    // The number is free for another queue.
    let mut again = queue(&mut joined.server, &joined.config, &joined.admin, 1);
    assert!(matches!(again.host.phase(), Phase::Ready(_)));
    joined.admin.host.close(joined.server.now, &mut joined.admin.out);
    joined.admin.settle(&mut joined.server);
    // The shutdown ends it, and is complete when nothing of it is left.
    assert_eq!(joined.admin.host.phase(), Phase::Closing);
    again.peer.leave(&mut joined.server);
    proto::Target::drained(
        &mut joined.admin.peer.end,
        joined.server.now,
        &mut joined.admin.peer.out,
    );
    joined.server.now = joined.server.now + Nanos::from_millis(10);
    joined.admin.settle(&mut joined.server);
    joined.server.now = joined.server.now + Nanos::from_millis(10);
    joined.admin.settle(&mut joined.server);
    assert_eq!(joined.admin.host.phase(), Phase::Closed);
    // The shutdown flushed both volumes.
    let flushed = |store: &crate::server::Store| store.log.iter().any(|entry| entry.0 == Op::Flush);
    assert!(joined.server.stores.iter().all(flushed));
}

#[test]
fn closing_works_at_every_step() {
    let mut server = Server::usual();
    let config = config(1, false, false);
    for steps in 0..16 {
        let host = NvmeAdmin::new(&config, server.now);
        let mut wire = Wire::new(&mut server, host, usize::MAX);
        wire.host.tick(server.now, &mut wire.out).unwrap();
        for _ in 0..steps {
            let there = sent(&mut wire.out);
            wire.peer.receive(&mut server, &there, usize::MAX);
            let back = wire.peer.sent();
            wire.host.receive(server.now, &back, &mut wire.out).unwrap();
        }
        wire.host.close(server.now, &mut wire.out);
        wire.settle(&mut server);
        assert_eq!((wire.host.phase(), wire.ended), (Phase::Closed, None), "{steps} steps");
        wire.peer.leave(&mut server);
    }
    assert_eq!(server.controllers.count(), 0);
}

#[test]
fn the_association_is_kept_alive() {
    let mut server = Server::usual();
    let config = config(1, false, false);
    let mut wire = admin(&mut server, &config, usize::MAX);
    let begin = server.now;
    for _ in 0..20 {
        let due = wire.host.deadline().unwrap();
        assert!(due <= server.now + Nanos::from_secs(5));
        server.now = due;
        wire.settle(&mut server);
        assert_eq!((&wire.ended, &wire.peer.ended), (&None, &None));
    }
    assert!(server.now.since(begin) >= Nanos::from_secs(90));
    // The target is silent from now on: 5 s until a sign of life, which has the time of a command.
    let mut ended = Ok(());
    while ended.is_ok() {
        server.now = wire.host.deadline().unwrap();
        ended = wire.host.tick(server.now, &mut wire.out);
        assert!(server.now.since(begin) < Nanos::from_secs(147));
    }
    assert_eq!(ended, Err(Ending::TimedOut("the target does not answer keep-alives")));
}

/// Outcome of the opening of an association when a page of 4096 bytes is changed on the way.
fn opened_with(which: usize, at: usize, bytes: &[u8]) -> Option<String> {
    let mut server = Server::usual();
    let host = NvmeAdmin::new(&config(1, false, false), server.now);
    let mut wire = Wire::new(&mut server, host, usize::MAX);
    let mut seen = 0;
    wire.settle_with(&mut server, |mut back| {
        if back.len() > 4096 {
            if seen == which {
                back[24 + at..24 + at + bytes.len()].copy_from_slice(bytes);
            }
            seen += 1;
        }
        back
    });
    match (wire.host.phase(), wire.ended) {
        (Phase::Ready(_), None) => None,
        (_, Some(ending)) => Some(ending.to_string()),
        (phase, None) => panic!("{phase:?}"),
    }
}

#[test]
fn controllers_and_namespaces_of_other_kinds_are_refused_in_words() {
    // The pages come in the order: controller, list, namespace, descriptors, limits.
    let (controller, list, namespace, descriptors) = (0, 1, 2, 3);
    assert_eq!(opened_with(9, 0, &[]), None);
    for (page, at, bytes, word) in [
        (controller, 111, &[2][..], "not an I/O controller"),
        (controller, 536, &[0; 4], "SGL"),
        (controller, 1792, &[3, 0, 0, 0], "IOCCSZ"),
        (controller, 1800, &[1, 0], "ICDOFF"),
        (list, 0, &[2, 0, 0, 0], "no namespace 1"),
        (list, 0, &[0, 0, 0, 0], "no namespace 1"),
        (namespace, 0, &[0; 8], "no namespace 1"),
        (namespace, 128, &[8, 0, 9, 0], "metadata"),
        (namespace, 29, &[1], "metadata"),
        (namespace, 130, &[8], "2^8"),
        (namespace, 130, &[200], "2^200"),
        (namespace, 0, &[0xff; 8], "blocks"),
        (descriptors, 56, &[2], "lacks the NVM command set"),
    ] {
        let why = opened_with(page, at, bytes).expect("it is refused");
        assert!(why.contains(word), "{why}");
    }
    // Formats beyond the first 16, no limits, and descriptors of unknown kinds are fine.
    assert_eq!(opened_with(controller, 77, &[0]), None);
    assert_eq!(opened_with(controller, 77, &[255]), None);
    assert_eq!(opened_with(controller, 514, &[0, 0]), None);
    assert_eq!(opened_with(controller, 1792, &[0xff; 4]), None);
    assert_eq!(opened_with(descriptors, 0, &[9, 255]), None);
    assert_eq!(opened_with(4, 0, &[255; 16]), None);
}

#[test]
fn a_refused_connect_says_what_to_change() {
    let mut server = Server::usual();
    let refusal = |server: &mut Server, change: &dyn Fn(&mut proto::nvme::NvmeInitiatorConfig)| {
        let mut config = config(1, false, false);
        change(&mut config);
        let host = NvmeAdmin::new(&config, server.now);
        let mut wire = Wire::new(server, host, usize::MAX);
        wire.settle(server);
        wire.ended.expect("it is refused").to_string()
    };
    let other = |config: &mut proto::nvme::NvmeInitiatorConfig| config.subsystem_nqn.push('x');
    let why = refusal(&mut server, &other);
    assert_eq!(why, format!("the target has no subsystem '{NQN}x'"));
    let unnamed = |config: &mut proto::nvme::NvmeInitiatorConfig| config.host_nqn = "m".repeat(224);
    assert!(refusal(&mut server, &unnamed).starts_with("the target refuses host 'mmm"));
    let nowhere = |config: &mut proto::nvme::NvmeInitiatorConfig| config.nsid = 9;
    assert_eq!(refusal(&mut server, &nowhere), "the subsystem has no namespace 9");
    let zero = |config: &mut proto::nvme::NvmeInitiatorConfig| config.nsid = 0;
    assert_eq!(refusal(&mut server, &zero), "the subsystem has no namespace 0");
}

#[test]
fn reads_may_come_without_a_buffer() {
    let mut joined = Joined::usual(1);
    let expect = joined.server.stores[0].bytes(0, 4096);
    let done = joined.run(Op::Read, 0, 4096, None);
    let lent = done.buf.expect("a buffer is lent");
    assert!(lent[..4096] == expect);
    joined.server.pool.give(lent);
    joined.check_pool();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A target may have fewer entries, shorter transfers and smaller capsules than we request.
    #[test]
    fn limits_of_the_target_are_kept(
        entries in 1_u16..200,
        transfer in 4096_u32..300_000,
        in_capsule in 0_u32..20_000,
        depth in 1_u16..300,
    ) {
        let mut server = Server::usual();
        server.config.max_queue_depth = entries;
        server.config.max_transfer_bytes = transfer;
        server.config.in_capsule_bytes = in_capsule;
        let mut settings = config(1, false, false);
        settings.queue_depth = depth;
        let mut joined = Joined::new(server, settings, usize::MAX);
        let room = joined.queue.host.room();
        prop_assert_eq!(room, usize::from(depth.min(entries.max(32) - 1)));
        for i in 0..room {
            let mut buf = Buf::new(20_480).unwrap();
            buf.fill(i as u8);
            joined.submit(Op::Write, (i % 100 * 20_480) as u64, 20_480, Some(buf));
        }
        prop_assert_eq!(joined.settle().len(), room);
        prop_assert_eq!(joined.queue.host.room(), room);
        let last = (room - 1) as u8;
        let at = (room - 1) % 100 * 20_480;
        prop_assert_eq!(joined.read(at as u64, 20_480).unwrap(), vec![last; 20_480]);
    }
}
