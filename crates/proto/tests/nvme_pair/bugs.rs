//! Bugs of other targets and hosts, by class: ours must not have them.

use block::{Buf, Io, Op, Tag};
use proto::nvme::pdu::{CommandBuilder, Common, Status, admin, fatal, io, kind};
use proto::{Endpoint, Initiator, Target};

use crate::flows::{host_data, ready, write};
use crate::joined::Joined;
use crate::raw::{Raw, capsule, connect, connect_data, init, property_set};
use crate::server::{NQN, Server};

const RANGE: (u16, u32) = (fatal::OUT_OF_RANGE, 0);

fn field(at: u32) -> (u16, u32) {
    (fatal::INVALID_HEADER_FIELD, at)
}

fn io_queue() -> Raw {
    let (raw, admin) = Raw::io(Server::usual());
    // The controller stays alive; its connection does not matter here.
    std::mem::forget(admin);
    raw
}

/// Class of CVE-2026-22998: data for a command without an R2T, or for no command at all.
#[test]
fn data_without_an_r2t_ends_the_connection() {
    for tag in (0..4).chain([127, 128, 129, 255, 256, 1023, 1024, 0x7fff, 0x8000, 0xffff]) {
        let mut raw = io_queue();
        raw.send(&host_data(0, tag, 0, &[0; 512], true));
        let (status, _) = raw.fatal();
        assert!([fatal::INVALID_HEADER_FIELD, fatal::SEQUENCE_ERROR].contains(&status), "{tag}");
        assert_eq!(raw.server.pool.lent(), [0, 0]);
    }
}

/// Data before Connect, and on an admin queue.
#[test]
fn data_without_an_r2t_ends_any_connection() {
    let admin = || Raw::admin(Server::usual());
    for mut raw in [Raw::fresh(Server::usual()), Raw::open(Server::usual()), admin()] {
        raw.send(&host_data(0, 0, 0, &[0; 512], true));
        raw.fatal();
    }
}

/// A tag of 0 was taken for an index below the first.
#[test]
fn transfer_tag_zero_is_a_tag_like_any_other() {
    let mut raw = io_queue();
    raw.command(write(9, 0, 1, 512), &[]);
    let (tag, ..) = ready(&mut raw);
    raw.send(&host_data(9, tag, 0, &[3; 512], true));
    assert!(raw.pdus()[0].status().is_success());
    // Now that it is used up, it names nothing, and neither does 0 where it was not given.
    for stale in [tag, 0] {
        let mut raw = io_queue();
        raw.command(write(9, 0, 1, 512), &[]);
        let (first, ..) = ready(&mut raw);
        raw.send(&host_data(9, first, 0, &[3; 512], true));
        raw.pdus();
        raw.send(&host_data(9, stale, 0, &[3; 512], true));
        raw.fatal();
    }
}

/// Data for a command in the wrong state: a read, or a write with in-capsule data.
#[test]
fn data_for_a_command_that_sends_none() {
    for command in [
        capsule(CommandBuilder::new(io::READ, 4, 1).range(0, 1).transport(512), &[], [false; 2]),
        capsule(CommandBuilder::new(io::WRITE, 4, 1).range(0, 1), &[1; 512], [false; 2]),
        capsule(CommandBuilder::new(io::FLUSH, 4, 1), &[], [false; 2]),
    ] {
        for tag in [0, 1, 2, 127, 128, 0x8000] {
            let mut raw = io_queue();
            let peer = &mut raw.peer;
            peer.end.receive(raw.server.now, &command, &mut peer.out).unwrap();
            raw.server.hold(peer);
            raw.send(&host_data(4, tag, 0, &[0; 512], true));
            raw.fatal();
            raw.server.release(&mut raw.peer);
            raw.peer.leave(&mut raw.server);
            assert_eq!(raw.server.pool.lent(), [0, 0]);
        }
    }
}

/// Class of the iovec overrun in nvmet-tcp: offsets and lengths beyond the requested range.
#[test]
fn data_beyond_its_r2t() {
    type Change = fn(u16) -> Vec<u8>;
    let cases: [(Change, (u16, u32)); 9] = [
        (|tag| host_data(9, tag, 0, &[0; 1025], true), RANGE),
        (|tag| host_data(9, tag, 1, &[0; 1024], true), RANGE),
        (|tag| host_data(9, tag, 512, &[0; 512], true), RANGE),
        (|tag| host_data(9, tag, u32::MAX, &[0; 1024], true), RANGE),
        (|tag| host_data(9, tag, u32::MAX - 511, &[0; 1024], true), RANGE),
        (|tag| host_data(8, tag, 0, &[0; 1024], true), field(8)),
        (|tag| host_data(9, tag ^ 0x100, 0, &[0; 1024], true), field(10)),
        (|tag| host_data(9, tag, 0, &[0; 1024], false), field(1)),
        (|tag| host_data(9, tag, 0, &[0; 512], true), field(1)),
    ];
    for (case, (change, expect)) in cases.into_iter().enumerate() {
        for chunk in [1, 23, 1 << 20] {
            let mut raw = io_queue();
            raw.command(write(9, 0, 2, 1024), &[]);
            let (tag, ..) = ready(&mut raw);
            raw.peer.receive(&mut raw.server, &change(tag), chunk);
            assert_eq!(raw.fatal(), expect, "case {case}");
            raw.peer.leave(&mut raw.server);
            assert_eq!(raw.server.pool.lent(), [0, 0]);
            assert!(raw.server.stores[0].log.is_empty());
        }
    }
}

/// The second half of a burst is checked as the first one is.
#[test]
fn data_twice_or_backwards() {
    for (offset, len) in [(0, 512), (511, 512), (513, 511), (512, 513)] {
        let mut raw = io_queue();
        raw.command(write(9, 0, 2, 1024), &[]);
        let (tag, ..) = ready(&mut raw);
        raw.send(&host_data(9, tag, 0, &[0; 512], false));
        raw.send(&host_data(9, tag, offset, &vec![0; len], true));
        assert_eq!(raw.fatal(), RANGE);
    }
}

#[test]
fn data_longer_than_agreed_on() {
    let mut server = Server::usual();
    server.config.max_h2c_data_bytes = 4096;
    let (mut raw, _admin) = Raw::io(server);
    raw.command(write(9, 0, 16, 8192), &[]);
    let (tag, ..) = ready(&mut raw);
    raw.send(&host_data(9, tag, 0, &[0; 4100], false));
    assert_eq!(raw.fatal(), (fatal::LIMIT_EXCEEDED, 0));
    // DATAL that does not agree with PLEN.
    let mut raw = io_queue();
    raw.command(write(9, 0, 2, 1024), &[]);
    let (tag, ..) = ready(&mut raw);
    let mut bytes = host_data(9, tag, 0, &[0; 1024], true);
    bytes[17] = 2;
    raw.send(&bytes);
    assert_eq!(raw.fatal(), field(16));
}

#[test]
fn more_in_a_capsule_than_agreed_on() {
    for len in [16385, 1 << 20, u32::MAX - 72] {
        let mut raw = io_queue();
        let header = CommandBuilder::new(io::WRITE, 1, 1).in_capsule(len).capsule(0, 72, 72 + len);
        raw.send(&header);
        assert_eq!(raw.fatal(), (fatal::LIMIT_EXCEEDED, 0));
        assert_eq!(raw.server.pool.lent(), [0, 0]);
    }
    // Admin queues accept 8 KiB regardless of the I/O queues, and not a byte more.
    let mut raw = Raw::admin(Server::usual());
    let command = CommandBuilder::new(admin::KEEP_ALIVE, 1, 0);
    assert!(raw.ask(command, &[0; 8192]).status().is_success());
    raw.command(command, &[0; 8193]);
    assert_eq!(raw.fatal(), (fatal::LIMIT_EXCEEDED, 0));
}

/// Class of the header length bugs in nvme-tcp and isert: lengths that underflow or overflow.
#[test]
fn lengths_that_make_no_sense() {
    for (kind, header_len) in [(4, 72), (6, 24), (2, 24), (0, 128)] {
        for (hlen, pdo, plen) in [
            (header_len, 0, 0),
            (header_len, 0, 1),
            (header_len, 0, 8),
            (header_len, 0, u32::from(header_len) - 1),
            (0, 0, u32::from(header_len)),
            (header_len - 1, 0, u32::from(header_len)),
            (header_len + 1, 0, u32::from(header_len)),
            (255, 0, u32::from(header_len)),
            (header_len, 255, u32::from(header_len) + 4),
            (header_len, 252, 252),
            (header_len, 4, u32::MAX),
            (8, 8, 8),
        ] {
            // A TermReq may have four more bytes, wherever it says they are.
            if (kind, plen) == (2, 28) {
                continue;
            }
            for chunk in [1, 1 << 20] {
                let (flags, data_offset, len) = (0, pdo, plen);
                let header = Common { kind, flags, header_len: hlen, data_offset, len };
                let mut bytes = header.build().to_vec();
                bytes.resize(300, 0);
                let mut raw = io_queue();
                raw.peer.receive(&mut raw.server, &bytes, chunk);
                let (status, _) = raw.fatal();
                assert_eq!(status, fatal::INVALID_HEADER_FIELD, "{kind} {hlen} {pdo} {plen}");
            }
        }
    }
}

/// The header length with a digest: it was counted twice, or not at all.
#[test]
fn digests_that_were_not_agreed_on() {
    let read = CommandBuilder::new(io::READ, 4, 1).range(0, 1).transport(512);
    for (agreed, sent) in [(false, true), (true, false)] {
        let Raw { server, peer, .. } = Raw::admin(Server::usual());
        std::mem::forget(peer);
        let mut raw = Raw::fresh(server);
        raw.send(&init(0, [agreed; 2]));
        raw.pdus();
        raw.digests = [agreed; 2];
        assert!(raw.ask(connect(1, 31), &connect_data(1, NQN)).status().is_success());
        raw.send(&capsule(read, &[], [sent; 2]));
        assert_eq!(raw.fatal(), field(1));
    }
}

#[test]
fn a_wrong_header_digest_is_told_with_what_came() {
    let Raw { server, peer, .. } = Raw::admin(Server::usual());
    std::mem::forget(peer);
    for chunk in [1, 1 << 20] {
        let mut raw = Raw::fresh(Server::usual());
        raw.send(&init(0, [true, false]));
        raw.pdus();
        raw.digests = [true, false];
        let mut bytes = capsule(connect(1, 31), &connect_data(1, NQN), raw.digests);
        bytes[75] ^= 1;
        let digest = u32::from_le_bytes(*bytes[72..].first_chunk().unwrap());
        raw.peer.receive(&mut raw.server, &bytes, chunk);
        let peer_bytes = raw.peer.sent();
        let last = crate::raw::parse(&peer_bytes, raw.digests).pop().unwrap();
        assert_eq!((last.u16(8), last.u32(10)), (fatal::HEADER_DIGEST_ERROR, digest));
        assert_eq!(last.data[..], bytes[..72], "the header that offended");
    }
    drop(server);
}

/// Class of spdk #3927: bytes of a port scanner.
#[test]
fn port_scanners_are_sent_away() {
    for hello in [
        &b"GET / HTTP/1.1\r\nHost: storage\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-scan\r\n",
        b"\x00\x00\x00\x54\xffSMBr\x00\x00\x00\x00",
        b"\r\n\r\n",
        &[0; 1000],
        &[0xff; 1000],
        b"\x43\x87\x00\x00\x00\x00\x00\x00",
    ] {
        for chunk in [1, 3, 1 << 20] {
            let mut raw = Raw::fresh(Server::usual());
            raw.peer.receive(&mut raw.server, hello, chunk);
            assert!(raw.peer.sent().len() <= 152);
            raw.peer.leave(&mut raw.server);
            assert_eq!(raw.server.controllers.count(), 0);
        }
    }
}

/// Class of CVE-2023-5178 and CVE-2026-23148: a connection goes while it has I/Os in flight.
#[test]
fn late_answers_are_swallowed() {
    let mut raw = io_queue();
    let mut bytes = Vec::new();
    for id in 0..20 {
        let opcode = if id % 2 == 0 { io::READ } else { io::COMPARE };
        let command = CommandBuilder::new(opcode, id, 2).range(0, 1);
        let len = 4096;
        let data = vec![0; if id % 2 == 0 { 0 } else { len as usize }];
        bytes.extend(capsule(command.transport(len), &data, [false; 2]));
    }
    let peer = &mut raw.peer;
    peer.end.receive(raw.server.now, &bytes, &mut peer.out).unwrap();
    raw.server.hold(peer);
    peer.end.abandon(&raw.server.pool);
    raw.server.release(&mut raw.peer);
    assert!(raw.peer.out.is_empty());
    assert!(raw.peer.end.finished() && raw.peer.end.deadline().is_none());
    assert_eq!(raw.server.pool.lent(), [0, 0]);
}

/// Reset and shutdown while I/Os are in flight on another connection.
#[test]
fn a_reset_under_load_loses_no_buffer() {
    for value in [0, 0x0046_4001] {
        let (mut raw, mut admin) = Raw::io(Server::usual());
        let read = CommandBuilder::new(io::READ, 1, 2).range(0, 4).transport(16 << 10);
        let write = write(2, 0, 1000, 500 << 10);
        let bytes = [capsule(read, &[], [false; 2]), capsule(write, &[], [false; 2])].concat();
        let peer = &mut raw.peer;
        peer.end.receive(raw.server.now, &bytes, &mut peer.out).unwrap();
        raw.server.hold(peer);
        let reset = capsule(property_set(1, 0x14, value), &[], [false; 2]);
        admin.receive(&mut raw.server, &reset, usize::MAX);
        raw.server.release(&mut raw.peer);
        raw.send(&host_data(2, 1, 0, &[0; 4096], false));
        assert!(raw.peer.end.finished());
        raw.peer.leave(&mut raw.server);
        admin.leave(&mut raw.server);
        assert_eq!(raw.server.pool.lent(), [0, 0]);
        assert_eq!(raw.server.controllers.count(), 0);
    }
}

/// Class of the split-buffer bugs: pages that are read in parts of the stream.
#[test]
fn a_host_that_sends_byte_by_byte_sees_the_same() {
    let run = |chunk: usize| {
        let mut raw = Raw::fresh(Server::usual());
        let identify = CommandBuilder::new(admin::IDENTIFY, 3, 1).transport(4096);
        let bytes = [
            init(0, [false; 2]).to_vec(),
            capsule(connect(0, 31), &connect_data(0xffff, NQN), [false; 2]),
            capsule(property_set(1, 0x14, 0x46_0001), &[], [false; 2]),
            capsule(identify.word(10, 1), &[], [false; 2]),
            capsule(identify.word(10, 0), &[], [false; 2]),
            capsule(identify.word(10, 3), &[], [false; 2]),
        ]
        .concat();
        raw.peer.receive(&mut raw.server, &bytes, chunk);
        raw.peer.sent()
    };
    let whole = run(usize::MAX);
    assert_eq!(whole.len(), 128 + 24 + 24 + 3 * (24 + 4096 + 24));
    for chunk in [1, 2, 3, 5, 8, 71, 72, 73, 1023, 1024] {
        assert!(run(chunk) == whole, "chunk {chunk}");
    }
}

/// Class of the information leaks: the next reader must not see a buffer's earlier content.
#[test]
fn a_read_that_fails_sends_no_data() {
    let mut raw = io_queue();
    raw.server.stores[1].fault = Some(block::Fault::Medium);
    let read = CommandBuilder::new(io::READ, 1, 2).range(0, 4).transport(16 << 10);
    let answer = raw.ask(read, &[]);
    assert_eq!(answer.status(), Status::UNRECOVERED_READ_ERROR);
}

/// A host that answers commands it never got from us, and answers twice.
#[test]
fn an_answer_counts_once() {
    let mut joined = Joined::usual(1);
    let buf = Some(Buf::new(512).unwrap());
    let io = Io { tag: Tag(1), op: Op::Read, fua: false, len: 512, offset: 0, buf };
    joined.queue.host.submit(joined.server.now, io, &mut joined.queue.out);
    let there = crate::server::sent(&mut joined.queue.out);
    joined.queue.peer.receive(&mut joined.server, &there, usize::MAX);
    let back = joined.queue.peer.sent();
    let host = &mut joined.queue.host;
    host.receive(joined.server.now, &back, &mut joined.queue.out).unwrap();
    assert_eq!(host.done().drain(..).count(), 1);
    assert!(host.receive(joined.server.now, &back, &mut joined.queue.out).is_err());
    assert_eq!(host.done().len(), 0);
    let bytes = crate::server::sent(&mut joined.queue.out);
    assert_eq!(bytes[0], kind::H2C_TERM_REQ);
    // The target takes our word for it, and quotes it.
    joined.queue.peer.receive(&mut joined.server, &bytes, usize::MAX);
    let ended = joined.queue.peer.ended.as_ref().unwrap().to_string();
    assert!(ended.contains("the host gave up"), "{ended}");
}
