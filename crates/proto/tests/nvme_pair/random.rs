//! Both ends against noise, and against conversations with bytes flipped, cut, doubled or left out,
//! before and after Connect. No panic, unbounded growth or lost buffer; every I/O is answered once.

use block::{Buf, Io, Op, Tag};
use proptest::prelude::*;
use proto::nvme::pdu::{
    CommandBuilder, Completion, Data, InitResponse, ReadyToTransfer, Status, admin, fabrics, io,
    kind,
};
use proto::nvme::{NvmeAdmin, NvmeDiscovery};
use proto::{Endpoint, Initiator, Outbox, Target};

use crate::flows::host_data;
use crate::joined::{HOST_ID, Joined, config};
use crate::raw::{Raw, capsule, connect, connect_data, init, property_get, property_set};
use crate::server::{HOST_NQN, NQN, Server, sent};

/// Change of a stream before it is fed.
#[derive(Clone, Debug)]
enum Change {
    Flip(usize, u8),
    Set(usize, u8),
    Cut(usize, usize),
    Double(usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let at = || 0_usize..1 << 16;
    prop_oneof![
        (at(), 0_u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (at(), any::<u8>()).prop_map(|(at, value)| Change::Set(at, value)),
        (at(), 1_usize..100).prop_map(|(at, len)| Change::Cut(at, len)),
        (at(), 1_usize..100).prop_map(|(at, len)| Change::Double(at, len)),
    ]
}

fn apply(changes: &[Change], bytes: &mut Vec<u8>) {
    for change in changes {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match *change {
            Change::Flip(at, bit) => bytes[at % len] ^= 1 << bit,
            Change::Set(at, value) => bytes[at % len] = value,
            Change::Cut(at, count) => {
                bytes.drain(at % len..(at % len + count).min(len));
            }
            Change::Double(at, count) => {
                let again = bytes[at % len..(at % len + count).min(len)].to_vec();
                let at = at % len;
                bytes.splice(at..at, again);
            }
        }
    }
}

/// State of a connection before the noise begins.
#[derive(Clone, Copy, Debug)]
enum Start {
    Fresh,
    Open,
    Admin,
    Io,
    IoDigests,
}

fn start() -> impl Strategy<Value = Start> {
    use Start::{Admin, Fresh, Io, IoDigests, Open};
    prop::sample::select(vec![Fresh, Open, Admin, Io, IoDigests])
}

fn begin(start: Start) -> Raw {
    let server = Server::usual();
    match start {
        Start::Fresh => Raw::fresh(server),
        Start::Open => Raw::open(server),
        Start::Admin => Raw::admin(server),
        Start::Io | Start::IoDigests => {
            let Raw { server, peer, .. } = Raw::admin(server);
            std::mem::forget(peer);
            let mut raw = Raw::fresh(server);
            let digests = [matches!(start, Start::IoDigests); 2];
            raw.send(&init(0, digests));
            raw.pdus();
            raw.digests = digests;
            assert!(raw.ask(connect(1, 31), &connect_data(1, NQN)).status().is_success());
            raw
        }
    }
}

/// A conversation that makes sense at that start, as far as one side can lead it.
fn conversation(start: Start) -> Vec<u8> {
    let digests = [matches!(start, Start::IoDigests); 2];
    let command = |command: CommandBuilder, data: &[u8]| capsule(command, data, digests);
    let admin_queue = || {
        let page =
            |opcode, id, namespace| CommandBuilder::new(opcode, id, namespace).transport(4096);
        vec![
            command(property_get(1, 0, 1), &[]),
            command(property_set(2, 0x14, 0x46_0001), &[]),
            command(page(admin::IDENTIFY, 3, 1).word(10, 1), &[]),
            command(page(admin::IDENTIFY, 4, 1).word(10, 3), &[]),
            command(page(admin::GET_LOG_PAGE, 5, 0).word(10, 5 | 1023 << 16), &[]),
            command(CommandBuilder::new(admin::ASYNC_EVENT, 6, 0), &[]),
            command(CommandBuilder::new(admin::SET_FEATURES, 7, 0).word(10, 7), &[]),
            command(CommandBuilder::new(admin::ABORT, 8, 0).word(10, 6 << 16), &[]),
            command(CommandBuilder::new(admin::KEEP_ALIVE, 9, 0), &[]),
            command(property_set(10, 0x14, 0x46_4001), &[]),
        ]
    };
    let io_queue = || {
        let range = |opcode, id, namespace, blocks: u32, len: u32| {
            CommandBuilder::new(opcode, id, namespace).range(3, blocks).transport(len)
        };
        // The first command of a queue has the transfer tag 0.
        let mut parts = vec![command(range(io::WRITE, 8, 1, 64, 32 << 10), &[])];
        if !digests[0] {
            parts.push(host_data(8, 0, 0, &[5; 10_000], false));
            parts.push(host_data(8, 0, 10_000, &[5; 22_768], true));
        }
        parts.extend([
            command(range(io::READ, 1, 1, 8, 4096), &[]),
            command(range(io::READ, 2, 2, 100, 400 << 10), &[]),
            command(range(io::WRITE, 3, 1, 2, 0), &[7; 1024]),
            command(range(io::COMPARE, 4, 1, 2, 0), &[7; 1024]),
            command(range(io::WRITE_ZEROES, 5, 1, 2, 0), &[]),
            command(range(io::DATASET_MANAGEMENT, 6, 1, 1, 0).word(11, 4), &[0; 16]),
            command(range(io::FLUSH, 7, 1, 1, 0), &[]),
        ]);
        parts.push(command(CommandBuilder::fabrics(fabrics::DISCONNECT, 9), &[]));
        parts
    };
    let hello = || vec![init(0, [false; 2]).to_vec()];
    let connect = || vec![command(connect(0, 31), &connect_data(0xffff, NQN))];
    match start {
        Start::Fresh => [hello(), connect(), admin_queue()].concat().concat(),
        Start::Open => [connect(), admin_queue()].concat().concat(),
        Start::Admin => admin_queue().concat(),
        Start::Io | Start::IoDigests => io_queue().concat(),
    }
}

/// A command of chance: its opcode is one that we have, and if `small` its fields are, too.
fn any_command(start: Start, which: usize, noise: [u64; 8], shape: usize, small: bool) -> Vec<u8> {
    let fabrics = [fabrics::PROPERTY_SET, fabrics::CONNECT, fabrics::PROPERTY_GET, 8, 5];
    let io = [0, 1, 2, 5, 8, 9, 12, 13, 14, 17, 21, 25, admin::FABRICS, 0xff];
    let all = [2, 6, 8, 9, 10, 12, 0x18, admin::FABRICS, 0x80];
    let opcode = match start {
        Start::Io | Start::IoDigests => io[which % io.len()],
        _ => all[which % all.len()],
    };
    let word = |at: usize| if small { noise[at] & 0x0303_0107 } else { noise[at] };
    let mut command = CommandBuilder::new(opcode, noise[0] as u16, word(0) as u32);
    if opcode == admin::FABRICS {
        command = command.field(4, [fabrics[which % fabrics.len()]]);
    }
    for at in 5..8 {
        command = command.field(at * 8, word(at).to_le_bytes());
    }
    let len = [0, 16, 512, 1024, 4096, 8192][shape] as u32;
    let digests = [matches!(start, Start::IoDigests); 2];
    let data = vec![noise[1] as u8; if noise[2] & 1 == 0 { len as usize } else { 0 }];
    capsule(command.transport(len), &data, digests)
}

/// Feeds a target, and checks its invariants.
fn feed_target(mut raw: Raw, bytes: &[u8], chunk: usize) {
    let mut said = 0;
    for part in bytes.chunks(chunk) {
        if raw.peer.ended.is_some() || raw.peer.end.finished() {
            break;
        }
        raw.peer.receive(&mut raw.server, part, usize::MAX);
        raw.peer.tick(&mut raw.server);
        said += raw.peer.sent().len();
    }
    // A byte of a host brings at most a page of a log, or the blocks of a read.
    assert!(said <= (bytes.len() / 72 + 1) * (2 << 20), "{said} bytes for {}", bytes.len());
    raw.peer.leave(&mut raw.server);
    assert_eq!(raw.server.pool.lent(), [0, 0]);
}

/// An I/O queue of ours with I/Os in flight.
fn busy_queue(digests: bool) -> (Joined, usize) {
    let mut joined = Joined::new(Server::usual(), config(1, digests, digests), usize::MAX);
    let ops = [Op::Read, Op::Write, Op::Trim, Op::WriteZeroes, Op::Flush];
    let mut count = 0;
    for (op, len) in ops.into_iter().zip([8192, 100 << 10, 4096, 4096, 0]).cycle().take(15) {
        let buf = matches!(op, Op::Read | Op::Write).then(|| Buf::new(100 << 10).unwrap());
        let io = Io { tag: Tag(count), op, fua: false, len, offset: 0, buf };
        joined.queue.host.submit(joined.server.now, io, &mut joined.queue.out);
        count += 1;
    }
    (joined, count as usize)
}

/// Returns PDUs of a controller for a queue with I/Os in flight.
fn answers() -> Vec<u8> {
    let ok = Status::SUCCESS;
    let completion = |command| Completion { result: 0, head: 0, command, status: ok }.build();
    let data = |command, flags, offset, len: u32| {
        let (kind, data_offset, pdu_len) = (kind::C2H_DATA, 24, 24 + len);
        let header =
            Data { kind, flags, data_offset, pdu_len, command, transfer_tag: 0, offset, len };
        [&header.build()[..], &vec![3; len as usize]].concat()
    };
    let ready = |command, transfer_tag, offset, len| {
        ReadyToTransfer { command, transfer_tag, offset, len }.build().to_vec()
    };
    [
        data(0, 0, 0, 4096),
        data(0, 12, 4096, 4096),
        ready(1, 0, 0, 50 << 10),
        ready(1, 9, 50 << 10, 50 << 10),
        completion(1).to_vec(),
        completion(2).to_vec(),
        data(5, 4, 0, 8192),
        completion(5).to_vec(),
        completion(3).to_vec(),
        completion(4).to_vec(),
    ]
    .concat()
}

fn feed_queue(bytes: &[u8], chunk: usize, digests: bool) {
    let (mut joined, count) = busy_queue(digests);
    let host = &mut joined.queue.host;
    let mut said = 0;
    for part in bytes.chunks(chunk) {
        let result = host.receive(joined.server.now, part, &mut joined.queue.out);
        said += sent(&mut joined.queue.out).len();
        if result.is_err() {
            break;
        }
    }
    said += sent(&mut joined.queue.out).len();
    host.abandon();
    assert_eq!(host.done().drain(..).count(), count, "every I/O is answered once");
    // At most the writes in flight can be requested.
    assert!(said < 10 << 20);
    joined.check_pool();
}

/// Returns the recorded PDUs of a controller for a new association or a discovery.
fn recorded(discovery: bool) -> Vec<u8> {
    let mut server = Server::usual();
    let mut all = Vec::new();
    let record = |back: Vec<u8>| {
        all.extend_from_slice(&back);
        back
    };
    if discovery {
        let host = NvmeDiscovery::new(HOST_NQN, HOST_ID, server.now);
        crate::joined::Wire::new(&mut server, host, usize::MAX).settle_with(&mut server, record);
    } else {
        let host = NvmeAdmin::new(&config(1, false, false), server.now);
        crate::joined::Wire::new(&mut server, host, usize::MAX).settle_with(&mut server, record);
    }
    all
}

fn feed_opening(host: &mut dyn Endpoint, bytes: &[u8], chunk: usize) {
    let server = Server::usual();
    let mut out = Outbox::new(server.pool.clone());
    let mut said = 0;
    host.tick(server.now, &mut out).unwrap();
    for part in bytes.chunks(chunk) {
        let result = host.receive(server.now, part, &mut out);
        said += sent(&mut out).len();
        if result.is_err() || host.tick(server.now, &mut out).is_err() {
            break;
        }
    }
    said += sent(&mut out).len();
    assert!(said <= 4096 + bytes.len() * 50, "{said} bytes for {}", bytes.len());
    assert_eq!(server.pool.lent(), [0, 0]);
}

#[test]
fn the_conversations_make_sense() {
    for start in [Start::Fresh, Start::Open, Start::Admin, Start::Io, Start::IoDigests] {
        let mut raw = begin(start);
        raw.send(&conversation(start));
        assert_eq!(raw.peer.ended, None, "{start:?}");
        let pdus = raw.pdus();
        // The aborted event request, the miscompare, and commands that this start lacks.
        let may_fail = [2, 4, 5, 6, 8];
        let failed =
            |pdu: &&crate::raw::Pdu| pdu.kind() == kind::CAPSULE_RESP && !pdu.status().is_success();
        let mut bad = pdus.iter().filter(failed);
        let bad = bad.find(|pdu| !may_fail.contains(&pdu.completion().command));
        assert!(bad.is_none() && pdus.len() > 5, "{start:?}: {bad:?}");
    }
    let (mut joined, count) = busy_queue(false);
    let host = &mut joined.queue.host;
    host.receive(joined.server.now, &answers(), &mut joined.queue.out).unwrap();
    assert_eq!(host.done().len(), 6);
    assert_eq!(count, 15);
    let response = InitResponse {
        version: 0,
        alignment: 0,
        header_digest: false,
        data_digest: false,
        max_data: 256 << 10,
    };
    for discovery in [false, true] {
        assert_eq!(recorded(discovery)[..128], response.build());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn targets_bear_noise(
        start in start(),
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        chunk in 1_usize..500,
    ) {
        feed_target(begin(start), &bytes, chunk);
    }

    /// Noise that at least begins as a PDU does.
    #[test]
    fn targets_bear_noise_in_pdus(
        start in start(),
        pdus in prop::collection::vec((0_u8..10, any::<[u8; 72]>(), 0_u32..300), 1..20),
        chunk in 1_usize..500,
    ) {
        let mut bytes = Vec::new();
        for (kind, noise, extra) in pdus {
            let hlen = proto::nvme::pdu::header_len(kind).unwrap_or(24);
            let mut pdu = noise[..hlen.min(72)].to_vec();
            pdu.resize(hlen, 0);
            let len = hlen as u32 + extra;
            pdu[..4].copy_from_slice(&[kind, noise[1] & 0x0c, hlen as u8, hlen as u8]);
            pdu[4..8].copy_from_slice(&len.to_le_bytes());
            pdu.resize(len as usize, 0x11);
            bytes.extend(pdu);
        }
        feed_target(begin(start), &bytes, chunk);
    }

    /// Commands that exist, with fields of chance.
    #[test]
    fn targets_bear_any_command(
        start in start(),
        commands in prop::collection::vec((0_usize..20, any::<[u64; 8]>(), 0_usize..6), 1..40),
        small: bool,
    ) {
        let mut bytes = Vec::new();
        for (which, noise, shape) in commands {
            bytes.extend(any_command(start, which, noise, shape, small));
        }
        feed_target(begin(start), &bytes, 1000);
    }

    #[test]
    fn targets_bear_conversations_with_faults(
        start in start(),
        changes in prop::collection::vec(change(), 1..6),
        chunk in 1_usize..5000,
    ) {
        let mut bytes = conversation(start);
        apply(&changes, &mut bytes);
        feed_target(begin(start), &bytes, chunk);
    }

    #[test]
    fn queues_bear_noise(
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        chunk in 1_usize..500,
        digests: bool,
    ) {
        feed_queue(&bytes, chunk, digests);
    }

    #[test]
    fn queues_bear_answers_with_faults(
        changes in prop::collection::vec(change(), 1..6),
        chunk in 1_usize..5000,
    ) {
        let mut bytes = answers();
        apply(&changes, &mut bytes);
        feed_queue(&bytes, chunk, false);
    }

    #[test]
    fn openings_bear_answers_with_faults(
        discovery: bool,
        changes in prop::collection::vec(change(), 1..6),
        chunk in 1_usize..5000,
    ) {
        let mut bytes = recorded(discovery);
        apply(&changes, &mut bytes);
        let now = Server::usual().now;
        if discovery {
            feed_opening(&mut NvmeDiscovery::new(HOST_NQN, HOST_ID, now), &bytes, chunk);
        } else {
            feed_opening(&mut NvmeAdmin::new(&config(1, false, false), now), &bytes, chunk);
        }
    }

    #[test]
    fn openings_bear_noise(
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
        opened: bool,
        chunk in 1_usize..500,
    ) {
        let now = Server::usual().now;
        let begin = if opened { recorded(false)[..128].to_vec() } else { Vec::new() };
        let bytes = [begin, bytes].concat();
        feed_opening(&mut NvmeAdmin::new(&config(1, false, false), now), &bytes, chunk);
        feed_opening(&mut NvmeDiscovery::new(HOST_NQN, HOST_ID, now), &bytes, chunk);
    }
}
