//! Both ends of NBD, joined in memory, with the stream split everywhere; and each end against
//! invalid bytes.

use std::sync::Arc;

use block::{Buf, Chain, Done, Fault, Geometry, Io, Memory, Nanos, Op, Pool, Rng, Tag};
use proto::nbd::{
    NbdConfig, NbdDiscovery, NbdExport, NbdExports, NbdInitiator, NbdTarget, NbdTargetConfig,
};
use proto::{Endpoint, Initiator, Outbox, Phase, Target, UnitId};

const BYTES: u64 = 2 << 20;

/// A server with one volume, which is answered from `bytes` where it is not memory.
struct Server {
    end: NbdTarget,
    out: Outbox,
    chain: Chain,
    bytes: Vec<u8>,
    /// Fault of every I/O of the volume.
    fault: Option<Fault>,
    flushes: usize,
}

fn exports(memory: Option<Memory>, geometry: Geometry) -> Arc<NbdExports> {
    let alias = "iqn.2026-11.io.drumfire:disk".to_owned();
    let export = NbdExport {
        name: "disk".to_owned(),
        alias,
        description: "Drumfire RAM".to_owned(),
        id: UnitId(0),
        geometry,
        memory,
        instance: None,
        extents: None,
        shared: Default::default(),
    };
    Arc::new(NbdExports::new(vec![export]).unwrap())
}

impl Server {
    fn new(in_memory: bool, geometry: Geometry) -> Server {
        let memory = in_memory.then(|| Memory::new(BYTES).unwrap());
        let config = NbdTargetConfig { max_commands: 64, ..NbdTargetConfig::default() };
        let mut end = NbdTarget::new(exports(memory, geometry), config, Nanos(0));
        let mut out = Outbox::new(Pool::new(256, 64));
        end.begin(&mut out);
        let bytes = vec![0; BYTES as usize];
        Server { end, out, chain: Chain::default(), bytes, fault: None, flushes: 0 }
    }

    fn take(&mut self, bytes: &[u8], chunk: usize) -> Result<(), proto::Ending> {
        for part in bytes.chunks(chunk) {
            self.end.receive(Nanos(0), part, &mut self.out)?;
        }
        Ok(())
    }

    /// Does the volume's requests, the last first: completions come in any order.
    fn work(&mut self) {
        while let Some(request) = self.end.requests().pop_back() {
            let Io { tag, op, len, offset, mut buf, .. } = request.io;
            let place = offset as usize..offset as usize + len as usize;
            match (op, &mut buf) {
                (Op::Read, Some(buf)) => buf[..len as usize].copy_from_slice(&self.bytes[place]),
                (Op::Write, Some(buf)) => self.bytes[place].copy_from_slice(&buf[..len as usize]),
                (Op::Flush, None) => self.flushes += 1,
                (Op::Trim | Op::WriteZeroes, None) => self.bytes[place].fill(0),
                other => panic!("{other:?}"),
            }
            let result = self.fault.map_or(Ok(()), Err);
            let done = Done { tag, result, cause: block::Cause::NONE, buf };
            self.end.complete(Nanos(0), done, &mut self.out);
        }
    }

    fn says(&mut self) -> Vec<u8> {
        let bytes = said(&mut self.out, &mut self.chain);
        self.end.drained(Nanos(0), &mut self.out);
        bytes
    }
}

fn said(out: &mut Outbox, chain: &mut Chain) -> Vec<u8> {
    out.exchange(chain);
    chain.pieces().iter().map(block::Piece::to_vec).collect::<Vec<_>>().concat()
}

struct Client {
    end: NbdInitiator,
    out: Outbox,
    chain: Chain,
}

impl Client {
    fn new(export: &str) -> Client {
        let end = NbdInitiator::new(NbdConfig::new(export), Nanos(0));
        Client { end, out: Outbox::new(Pool::new(256, 64)), chain: Chain::default() }
    }

    /// Carries bytes until both ends are idle.
    fn settle(&mut self, server: &mut Server, chunk: usize) -> Result<(), proto::Ending> {
        loop {
            let there = said(&mut self.out, &mut self.chain);
            server.take(&there, chunk)?;
            server.work();
            let back = server.says();
            for part in back.chunks(chunk) {
                self.end.receive(Nanos(0), part, &mut self.out)?;
            }
            if there.is_empty() && back.is_empty() {
                return Ok(());
            }
        }
    }

    fn submit(&mut self, tag: u64, op: Op, offset: u64, len: u32, buf: Option<Buf>) {
        assert!(self.end.room() > 0);
        let io = Io { tag: Tag(tag), op, fua: op == Op::Write, len, offset, buf };
        self.end.submit(Nanos(0), io, &mut self.out);
    }
}

fn filled(len: usize, byte: u8) -> Option<Buf> {
    let mut buf = Buf::new(len).unwrap();
    buf[..].fill(byte);
    Some(buf)
}

fn joined(in_memory: bool, geometry: Geometry, chunk: usize) -> (Client, Server) {
    let (mut client, mut server) = (Client::new("disk"), Server::new(in_memory, geometry));
    client.settle(&mut server, chunk).unwrap();
    (client, server)
}

#[test]
fn ios_cross_wherever_the_stream_is_cut() {
    for (in_memory, chunk) in [(true, 1), (false, 1), (true, 7), (false, 4093), (false, 1 << 30)] {
        let geometry = Geometry { volatile: true, ..Geometry::new(BYTES, 512) };
        let (mut client, mut server) = joined(in_memory, geometry, chunk);
        let Phase::Ready(shape) = client.end.phase() else { panic!("not open") };
        assert_eq!((shape.bytes(), shape.block_bytes, shape.volatile), (BYTES, 512, true));
        assert_eq!(client.end.product(), Some("Drumfire RAM"));
        // The longest has several parts at the server.
        for (tag, len) in [(1, 512), (2, 4096), (3, 700 << 10)] {
            client.submit(tag, Op::Write, tag * 8192, len, filled(len as usize, tag as u8));
            client.settle(&mut server, chunk).unwrap();
            client.submit(tag + 10, Op::Read, tag * 8192, len, filled(len as usize, 0));
        }
        client.submit(20, Op::Flush, 0, 0, None);
        client.settle(&mut server, chunk).unwrap();
        client.submit(21, Op::Trim, 8192, 512, None);
        client.submit(22, Op::WriteZeroes, 16384, 4096, None);
        client.settle(&mut server, chunk).unwrap();
        client.submit(23, Op::Read, 8192, 512, None);
        client.settle(&mut server, chunk).unwrap();
        let done: Vec<Done> = client.end.done().drain(..).collect();
        assert_eq!(done.len(), 10);
        for done in &done {
            assert_eq!(done.result, Ok(()), "{:?}", done.tag);
            if let (11..=13, Some(buf)) = (done.tag.0, &done.buf) {
                let byte = done.tag.0 as u8 - 10;
                assert!(buf.iter().all(|found| *found == byte), "{:?}", done.tag);
            }
        }
        if !in_memory {
            assert_eq!(server.flushes, 1);
            assert!(server.bytes[8192..8704].iter().all(|byte| *byte == 0));
        }
        client.end.close(Nanos(0), &mut client.out);
        client.settle(&mut server, chunk).unwrap();
        assert!(server.end.finished() && client.end.phase() == Phase::Closed);
    }
}

#[test]
fn a_fault_of_the_volume_is_told() {
    let (mut client, mut server) = joined(false, Geometry::new(BYTES, 512), 100);
    for (fault, told) in [
        (Fault::Medium, Fault::Medium),
        (Fault::NoSpace, Fault::NoSpace),
        (Fault::Disconnected, Fault::Medium),
    ] {
        server.fault = Some(fault);
        client.submit(1, Op::Read, 0, 600 << 10, filled(600 << 10, 0));
        client.submit(2, Op::Write, 0, 512, filled(512, 1));
        client.submit(3, Op::Flush, 0, 0, None);
        client.settle(&mut server, 100).unwrap();
        let done: Vec<Done> = client.end.done().drain(..).collect();
        assert_eq!(done.len(), 3);
        for done in done {
            assert_eq!(done.result, Err(told));
            assert!(client.end.words_of(done.cause).is_some_and(|words| words.contains("NBD_E")));
        }
    }
}

#[test]
fn what_is_not_there_is_refused_in_words() {
    let mut server = Server::new(true, Geometry::new(BYTES, 512));
    let mut client = Client::new("tape");
    let why = client.settle(&mut server, 9).unwrap_err().to_string();
    assert!(why.contains("no export 'tape'"), "{why}");
    let geometry = Geometry { read_only: true, ..Geometry::new(BYTES, 4096) };
    let mut server = Server::new(true, geometry);
    let mut client = Client::new("");
    client.settle(&mut server, 9).unwrap();
    let Phase::Ready(shape) = client.end.phase() else { panic!("not open") };
    assert!(shape.read_only && shape.block_bytes == 4096);
}

/// A client that speaks without structured replies, as EXPORT_NAME has it.
fn plain(in_memory: bool) -> Server {
    let mut server = Server::new(in_memory, Geometry::new(BYTES, 512));
    let greeting = server.says();
    assert_eq!(greeting, *b"NBDMAGICIHAVEOPT\0\x03");
    let mut bytes = vec![0, 0, 0, 3];
    bytes.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk");
    server.take(&bytes, 3).unwrap();
    let told = server.says();
    assert_eq!(told.len(), 10);
    assert_eq!(told[..8], BYTES.to_be_bytes());
    server
}

fn request(flags: u16, kind: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = Vec::from(0x2560_9513_u32.to_be_bytes());
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// The error in a simple reply, and how many bytes follow it.
fn reply(server: &mut Server) -> (u32, usize) {
    server.work();
    let bytes = server.says();
    assert_eq!(bytes[..4], [0x67, 0x44, 0x66, 0x98]);
    (u32::from_be_bytes(bytes[4..8].try_into().unwrap()), bytes.len() - 16)
}

#[test]
fn a_plain_client_is_served_and_corrected() {
    for in_memory in [true, false] {
        let mut server = plain(in_memory);
        for (flags, kind, offset, len, error, data) in [
            (0, 0, 0, 512, 0, 512),
            // A read in several parts, which complete in another order and are sent as one.
            (0, 0, 512, 1 << 20, 0, 1 << 20),
            (0, 0, BYTES - 512, 1024, 22, 0),
            (0, 0, u64::MAX - 511, 1024, 22, 0),
            (0, 0, 1, 512, 22, 0),
            (4, 0, 0, 512, 22, 0),
            (0, 0, 0, u32::MAX, 22, 0),
            (0, 0, 0, 0, 0, 0),
            (0, 3, 0, 0, 0, 0),
            (0, 3, 0, 512, 22, 0),
            (1, 4, 0, 512, 0, 0),
            (3, 6, 0, 512, 0, 0),
            (16, 6, 0, 512, 22, 0),
            (0, 4, BYTES, 512, 22, 0),
            (0, 5, 0, 512, 22, 0),
            (0, 7, 0, 512, 22, 0),
            (0, 99, 0, 0, 22, 0),
        ] {
            server.take(&request(flags, kind, 7, offset, len), 5).unwrap();
            if kind == 6 && in_memory {
                // Only reads and writes of memory go without the volume.
                assert!(error != 0 || !server.end.requests().is_empty());
            }
            assert_eq!(reply(&mut server), (error, data), "{kind} {offset} {len}");
        }
        // The data of a write that fails are passed over.
        let mut write = request(0, 1, 8, BYTES, 1024);
        write.extend([9; 1024]);
        write.extend(request(0, 0, 9, 0, 512));
        server.take(&write, 100).unwrap();
        server.work();
        assert_eq!(server.says().len(), 16 + 16 + 512);
    }
}

#[test]
fn too_much_ends_the_connection() {
    let mut server = plain(false);
    let many = request(0, 0, 1, 0, 512).repeat(65);
    assert!(server.take(&many, 4096).is_err());
    let pool = server.out.pool().clone();
    server.end.abandon(&pool);
    // The earlier output is discarded.
    server.says();
    server.chain.recycle(&pool);
    assert_eq!(pool.lent(), [0, 0]);
    let mut server = plain(false);
    assert!(server.take(&request(0, 1, 1, 0, (32 << 20) + 1), 28).is_err());
    let mut server = plain(true);
    assert!(server.take(&[0; 28], 28).is_err());
    // Options without end, and one of 4 GiB.
    let option = b"IHAVEOPT\0\0\0\x03\0\0\0\0".repeat(300);
    let mut server = Server::new(true, Geometry::new(BYTES, 512));
    server.take(&[0, 0, 0, 3], 4).unwrap();
    assert!(server.take(&option, 1000).is_err());
    let mut server = Server::new(true, Geometry::new(BYTES, 512));
    assert!(server.take(b"\0\0\0\x03IHAVEOPT\0\0\0\x06\xff\xff\xff\xff", 7).is_err());
    let end = Nanos::from_secs(31);
    let mut server = Server::new(true, Geometry::new(BYTES, 512));
    assert!(server.end.half_open() && server.end.tick(end, &mut server.out).is_err());
}

#[test]
fn a_lost_connection_gives_every_buffer_back() {
    let mut server = plain(false);
    let mut bytes = request(0, 0, 1, 0, 600 << 10);
    bytes.extend(request(0, 1, 2, 0, 4096));
    bytes.extend([1; 100]);
    server.take(&bytes, 1000).unwrap();
    let request = server.end.requests().pop_front().unwrap();
    let pool = server.out.pool().clone();
    server.end.abandon(&pool);
    let Io { tag, buf, .. } = request.io;
    let done = Done { tag, result: Ok(()), cause: block::Cause::NONE, buf };
    server.end.complete(Nanos(0), done, &mut server.out);
    assert!(server.says().is_empty());
    assert_eq!(pool.lent(), [0, 0]);
}

#[test]
fn noise_at_either_end_ends_or_waits() {
    let mut rng = Rng::new(23, 0);
    for round in 0..400 {
        let (mut client, mut server) = joined(round % 2 == 0, Geometry::new(BYTES, 512), 64);
        for tag in 0..4 {
            client.submit(tag, Op::Read, tag * 512, 4096, filled(4096, 0));
        }
        server.take(&said(&mut client.out, &mut client.chain), 64).unwrap();
        server.work();
        let mut answers = server.says();
        for _ in 0..=rng.below(4) {
            let at = rng.below(answers.len() as u64) as usize;
            answers[at] ^= 1 << rng.below(8);
        }
        for part in answers.chunks(1 + rng.below(300) as usize) {
            if client.end.receive(Nanos(0), part, &mut client.out).is_err() {
                break;
            }
        }
        client.end.abandon();
        assert_eq!(client.end.done().len(), 4, "round {round}");
        let noise: Vec<u8> = (0..2000).map(|_| rng.below(256) as u8).collect();
        let _ = server.take(&noise, 1 + rng.below(300) as usize);
        server.work();
        let pool = server.out.pool().clone();
        server.end.abandon(&pool);
    }
}

#[test]
fn an_answer_that_never_comes_is_missed() {
    let (mut client, _) = joined(true, Geometry::new(BYTES, 512), 64);
    client.submit(1, Op::Read, 0, 512, filled(512, 0));
    let mut late = None;
    for second in 0..60 {
        let now = Nanos::from_secs(second);
        if client.end.deadline().is_some_and(|deadline| deadline <= now)
            && client.end.tick(now, &mut client.out).is_err()
        {
            late.get_or_insert(second);
        }
    }
    assert!(late.is_some_and(|second| (30..=40).contains(&second)), "{late:?}");
    client.end.abandon();
    assert_eq!(client.end.done()[0].result, Err(Fault::Unanswered));
}

/// One I/O more than there are slots: none may leak a slot.
#[test]
fn ios_that_cannot_be_sent_keep_no_slot() {
    let (mut client, mut server) = joined(true, Geometry::new(BYTES, 512), 1 << 30);
    let room = client.end.room();
    for tag in 0..=room as u64 {
        client.submit(tag, Op::Read, BYTES, 512, None);
        let done = client.end.done().pop().unwrap();
        assert_eq!((done.tag, done.result), (Tag(tag), Err(Fault::OutOfRange)));
    }
    assert_eq!(client.end.room(), room);
    client.submit(0, Op::Read, 0, 512, None);
    client.settle(&mut server, 1 << 30).unwrap();
    assert_eq!(client.end.done().pop().unwrap().result, Ok(()));
}

/// Runs a discovery against a server, with the stream split in chunks.
fn discovered(server: &mut Server, chunk: usize) -> Result<Option<Vec<String>>, proto::Ending> {
    let mut end = NbdDiscovery::new(Nanos(0));
    let (mut out, mut chain) = (Outbox::new(Pool::new(256, 64)), Chain::default());
    loop {
        let back = server.says();
        for part in back.chunks(chunk) {
            end.receive(Nanos(0), part, &mut out)?;
        }
        let there = said(&mut out, &mut chain);
        server.take(&there, chunk)?;
        if there.is_empty() && back.is_empty() {
            return Ok(end.exports());
        }
    }
}

#[test]
fn a_server_lists_its_exports() {
    for chunk in [1, 3, 20, 4096] {
        let mut server = Server::new(true, Geometry::new(BYTES, 512));
        let found = discovered(&mut server, chunk).unwrap();
        assert_eq!(found, Some(vec!["disk".to_owned()]));
        assert!(server.end.finished(), "it was told that this is all");
    }
}

#[test]
fn a_list_that_lies_is_left() {
    let greeting = |flags: u16| {
        let mut bytes = [0; 18];
        bytes[..8].copy_from_slice(b"NBDMAGIC");
        bytes[8..16].copy_from_slice(b"IHAVEOPT");
        bytes[16..].copy_from_slice(&flags.to_be_bytes());
        bytes.to_vec()
    };
    let reply = |option: u32, kind: u32, data: &[u8]| {
        let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
        bytes.extend([option, kind, data.len() as u32].map(u32::to_be_bytes).concat());
        [bytes, data.to_vec()].concat()
    };
    let name = [&4_u32.to_be_bytes()[..], b"dis"].concat();
    for (said, why) in [
        (greeting(0), "old NBD protocol"),
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "NBDMAGIC"),
        ([greeting(3), reply(7, 2, b"")].concat(), "for the option that was sent"),
        ([greeting(3), reply(3, 2, &name)].concat(), "a length and a name"),
        ([greeting(3), reply(3, 2, b"ab")].concat(), "a length and a name"),
        ([greeting(3), reply(3, 7, b"")].concat(), "exports, then the end"),
        ([greeting(3), reply(3, 1 << 31 | 5, b"")].concat(), "requires TLS"),
        ([greeting(3), reply(3, 1 << 31 | 2, b"no")].concat(), "does not list"),
    ] {
        let mut end = NbdDiscovery::new(Nanos(0));
        let mut out = Outbox::new(Pool::new(16, 4));
        let ended = end.receive(Nanos(0), &said, &mut out).unwrap_err().to_string();
        assert!(ended.contains(why), "{ended}");
        assert_eq!(end.exports(), None);
    }
    // A list without end takes no more memory than ours may.
    let mut end = NbdDiscovery::new(Nanos(0));
    let mut out = Outbox::new(Pool::new(16, 4));
    end.receive(Nanos(0), &greeting(3), &mut out).unwrap();
    let one = reply(3, 2, &[&4_u32.to_be_bytes()[..], b"disk"].concat());
    let ended = (0..100_000).find_map(|_| end.receive(Nanos(0), &one, &mut out).err());
    assert!(ended.unwrap().to_string().contains("has no end"));
    assert!(end.tick(Nanos::from_secs(11), &mut out).is_err(), "it is not waited for");
}
