//! Block status of NBD: both ends joined in memory, and our client against servers that break the
//! rules.

use std::sync::Arc;

use block::{Allocation, Chain, Extent, Extents, Geometry, Memory, Nanos, Pool};
use proto::nbd::{NbdConfig, NbdExport, NbdExports, NbdInitiator, NbdTarget, NbdTargetConfig};
use proto::{Ending, Endpoint, Initiator, Outbox, Phase, Target, UnitId};

const MIB: u64 = 1 << 20;
const BYTES: u64 = 256 * MIB;

/// Every second MiB is a hole.
#[derive(Debug)]
struct Striped;

impl Extents for Striped {
    fn at(&self, offset: u64, len: u64) -> Extent {
        let left = MIB - offset % MIB;
        Extent { bytes: left.min(len), is_hole: offset / MIB % 2 == 1 }
    }
}

fn said(out: &mut Outbox) -> Vec<u8> {
    let mut chain = Chain::default();
    out.exchange(&mut chain);
    let bytes = chain.pieces().iter().map(block::Piece::to_vec).collect::<Vec<_>>().concat();
    chain.recycle(out.pool());
    bytes
}

fn outbox() -> Outbox {
    Outbox::new(Pool::new(64, 16))
}

/// A server whose export has a hole map, or not.
struct Server {
    end: NbdTarget,
    out: Outbox,
}

impl Server {
    fn new(knows: bool) -> Server {
        let export = NbdExport {
            name: "disk".to_owned(),
            alias: String::new(),
            description: "Drumfire FILE".to_owned(),
            id: UnitId(0),
            geometry: Geometry::new(BYTES, 512),
            memory: Some(Memory::new(BYTES).unwrap()),
            instance: None,
            extents: knows.then(|| Arc::new(Striped) as Arc<dyn Extents>),
            shared: Default::default(),
        };
        let exports = Arc::new(NbdExports::new(vec![export]).unwrap());
        let mut end = NbdTarget::new(exports, NbdTargetConfig::default(), Nanos(0));
        let mut out = outbox();
        end.begin(&mut out);
        Server { end, out }
    }

    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.end.receive(Nanos(0), bytes, &mut self.out).unwrap();
        let bytes = said(&mut self.out);
        self.end.drained(Nanos(0), &mut self.out);
        [bytes, said(&mut self.out)].concat()
    }
}

struct Client {
    end: NbdInitiator,
    out: Outbox,
}

impl Client {
    fn new(asks_allocation: bool) -> Client {
        let config = NbdConfig { asks_allocation, ..NbdConfig::new("disk") };
        Client { end: NbdInitiator::new(config, Nanos(0)), out: outbox() }
    }

    fn take(&mut self, bytes: &[u8], chunk: usize) -> Result<(), Ending> {
        bytes.chunks(chunk).try_for_each(|part| self.end.receive(Nanos(0), part, &mut self.out))
    }

    fn settle(&mut self, server: &mut Server, chunk: usize) {
        let mut back = said(&mut server.out);
        while !back.is_empty() {
            self.take(&back, chunk).unwrap();
            back = server.take(&said(&mut self.out));
        }
    }

    fn ask(&mut self, offset: u64, len: u64) -> bool {
        self.end.ask_allocation(offset, len, &mut self.out)
    }
}

fn joined(knows: bool, asks: bool, chunk: usize) -> (Client, Server) {
    let (mut client, mut server) = (Client::new(asks), Server::new(knows));
    client.settle(&mut server, chunk);
    assert!(matches!(client.end.phase(), Phase::Ready(_)));
    (client, server)
}

#[test]
fn holes_are_reported_wherever_the_stream_is_cut() {
    for chunk in [1, 7, 1 << 20] {
        let (mut client, mut server) = joined(true, true, chunk);
        assert_eq!(client.end.take_allocation(), None, "nobody has asked");
        let (mut at, mut sum) = (512, Allocation::default());
        let mut questions = 0;
        while at < BYTES {
            assert!(client.ask(at, BYTES - at));
            assert!(!client.ask(at, BYTES - at), "one question at a time");
            let asked = said(&mut client.out);
            let back = server.take(&asked);
            client.take(&back, chunk).unwrap();
            let told = client.end.take_allocation().unwrap().unwrap();
            assert_eq!(client.end.take_allocation(), None, "once");
            at += told.bytes;
            sum.add(told);
            questions += 1;
        }
        assert_eq!(sum, Allocation { bytes: BYTES - 512, holes: BYTES / 2, zeroes: 0 });
        assert_eq!(questions, 4, "64 extents in an answer");
        for (offset, len) in [(0, 0), (BYTES, 512), (512, BYTES), (u64::MAX, 2)] {
            assert!(!client.ask(offset, len), "{offset} {len}");
        }
    }
}

#[test]
fn what_does_not_know_its_holes_has_no_context() {
    for (knows, asks) in [(false, true), (true, false), (false, false)] {
        let (mut client, _server) = joined(knows, asks, 64);
        assert!(!client.ask(0, 512), "{knows} {asks}");
        assert_eq!(client.end.take_allocation(), None);
    }
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u32).to_be_bytes();
    [b"IHAVEOPT", &kind.to_be_bytes()[..], &len, data].concat()
}

fn word(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text].concat()
}

fn query(export: &[u8], queries: &[&[u8]]) -> Vec<u8> {
    let mut data = word(export);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| word(query)));
    data
}

fn status(flags: u16, offset: u64, len: u32) -> Vec<u8> {
    let kind = 7_u16;
    let head = [&0x2560_9513_u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()];
    [&head.concat()[..], &5_u64.to_be_bytes(), &offset.to_be_bytes(), &len.to_be_bytes()].concat()
}

/// The kinds of the replies to an option.
fn kinds(mut answers: &[u8]) -> Vec<u32> {
    let number = |at: usize, from: &[u8]| u32::from_be_bytes(from[at..at + 4].try_into().unwrap());
    let mut kinds = Vec::new();
    while !answers.is_empty() {
        kinds.push(number(12, answers));
        answers = &answers[20 + number(16, answers) as usize..];
    }
    kinds
}

#[test]
fn contexts_are_listed_and_selected_by_the_rules() {
    const ERROR: u32 = 1 << 31;
    let (list, set, structured, go) = (9, 10, 8, 7);
    let mut server = Server::new(true);
    said(&mut server.out);
    server.take(&[0, 0, 0, 3]);
    let mut ask = |kind, data: &[u8]| kinds(&server.take(&option(kind, data)));
    let base = b"base:allocation".as_slice();
    assert_eq!(ask(set, &query(b"disk", &[base])), [ERROR | 3], "structured replies come first");
    assert_eq!(ask(structured, &[]), [1]);
    for queries in [&[][..], &[b"base:".as_slice()], &[b"x:y".as_slice(), base]] {
        assert_eq!(ask(list, &query(b"disk", queries)), [4, 1], "{queries:?}");
    }
    assert_eq!(ask(list, &query(b"disk", &[b"x:y"])), [1]);
    assert_eq!(ask(list, &query(b"tape", &[])), [ERROR | 6]);
    assert_eq!(ask(set, &query(b"tape", &[base])), [ERROR | 6]);
    assert_eq!(ask(set, &[0, 0, 0, 9, 1]), [ERROR | 3]);
    assert_eq!(ask(set, &query(b"disk", &[b"base:"])), [1], "a namespace selects nothing");
    assert_eq!(ask(set, &query(b"disk", &[base])), [4, 1]);
    let chosen = [word(b"disk"), vec![0, 0]].concat();
    assert_eq!(ask(go, &chosen), [3, 3, 1]);
    // One extent on request, also for a range of many; then refused requests.
    let one = server.take(&status(8, 512, 8 << 20));
    assert_eq!(one.len(), 20 + 4 + 8);
    assert_eq!(one[24..], [&((1 << 20) - 512_u32).to_be_bytes()[..], &[0; 4]].concat());
    for (flags, offset, len) in [(0, 0, 0), (0, 1, 512), (0, BYTES, 512), (4, 0, 512)] {
        let refused = server.take(&status(flags, offset, len));
        assert_eq!((refused.len(), refused[6], refused[23]), (26, 0x80, 22), "{offset} {len}");
    }
}

#[test]
fn a_selection_that_fails_selects_nothing() {
    let mut server = Server::new(true);
    said(&mut server.out);
    server.take(&[0, 0, 0, 3]);
    let base = b"base:allocation".as_slice();
    server.take(&option(8, &[]));
    server.take(&option(10, &query(b"disk", &[base])));
    server.take(&option(10, &query(b"tape", &[base])));
    server.take(&option(7, &[word(b"disk"), vec![0, 0]].concat()));
    let refused = server.take(&status(0, 0, 512));
    assert_eq!((refused.len(), refused[23]), (26, 22));
}

/// More answers than the 16 MiB that may wait to be sent, and fewer than a window beyond that.
const FLOOD: usize = 32_000;

/// A flood of questions waits for the outbox to be sent, and is answered in full.
#[test]
fn many_questions_wait_for_room() {
    let (_, mut server) = joined(true, true, 64);
    let flood = status(0, 0, BYTES as u32).repeat(FLOOD);
    server.end.receive(Nanos(0), &flood, &mut server.out).unwrap();
    assert!(server.end.starves(), "{} bytes", server.out.len_bytes());
    let mut bytes = 0;
    loop {
        let part = said(&mut server.out);
        bytes += part.len();
        if part.is_empty() {
            break;
        }
        server.end.drained(Nanos(0), &mut server.out);
    }
    assert_eq!(bytes, FLOOD * (20 + 4 + 64 * 8));
    assert!(!server.end.starves());
}

/// A chunk of the reply to the first question: flags, kind, payload.
fn chunk(flags: u16, kind: u16, payload: &[u8]) -> Vec<u8> {
    let cookie = 1_u64 << 32 | 0xffff_fffe;
    let head = [&0x668e_33ef_u32.to_be_bytes()[..], &flags.to_be_bytes(), &kind.to_be_bytes()];
    let len = (payload.len() as u32).to_be_bytes();
    [&head.concat()[..], &cookie.to_be_bytes(), &len, payload].concat()
}

fn extents(context: u32, list: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::from(context.to_be_bytes());
    for (len, flags) in list {
        bytes.extend(len.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
    }
    bytes
}

/// Gives our client a reply to its question about the first MiB.
fn answered(reply: &[u8]) -> Result<Option<Option<Allocation>>, Ending> {
    let (mut client, _server) = joined(true, true, 64);
    assert!(client.ask(0, MIB));
    said(&mut client.out);
    client.take(reply, 3)?;
    Ok(client.end.take_allocation())
}

#[test]
fn a_server_may_say_less_or_refuse() {
    let (done, status, none, error) = (1, 5, 0, 1 << 15 | 1);
    let some = |bytes, holes, zeroes| Ok(Some(Some(Allocation { bytes, holes, zeroes })));
    let one = |list: &[(u32, u32)]| answered(&chunk(done, status, &extents(1, list)));
    assert_eq!(one(&[(512, 0)]), some(512, 0, 0));
    assert_eq!(one(&[(512, 0), (4096, 3), (1024, 2), (512, 1)]), some(6144, 4608, 1024));
    assert_eq!(one(&[(u32::MAX, 3)]), some(MIB, MIB, 0), "beyond the request, and cut to it");
    let two = [chunk(0, status, &extents(1, &[(512, 1)])), chunk(done, none, &[])].concat();
    assert_eq!(answered(&two), some(512, 512, 0));
    assert_eq!(answered(&two[..two.len() - 20]), Ok(None), "the reply goes on");
    let words = [&22_u32.to_be_bytes()[..], &[0, 3], b"why"].concat();
    assert_eq!(answered(&chunk(done, error, &words)), Ok(Some(None)));
    let later = [chunk(0, error, &words), chunk(done, none, &[])].concat();
    assert_eq!(answered(&later), Ok(Some(None)));
    let mut simple = Vec::from(0x6744_6698_u32.to_be_bytes());
    simple.extend(95_u32.to_be_bytes());
    simple.extend((1_u64 << 32 | 0xffff_fffe).to_be_bytes());
    assert_eq!(answered(&simple), Ok(Some(None)));
    simple[4..8].fill(0);
    assert!(answered(&simple).is_err(), "success without an answer");
}

#[test]
fn a_server_that_breaks_the_rules_is_left() {
    let (done, status, none) = (1, 5, 0);
    let good = extents(1, &[(512, 0)]);
    let twice = [chunk(0, status, &good), chunk(done, status, &good)].concat();
    let mut huge = chunk(done, status, &good);
    huge[16..20].copy_from_slice(&(u32::MAX - 3).to_be_bytes());
    for (why, reply) in [
        ("an extent of nothing: no progress", chunk(done, status, &extents(1, &[(0, 1)]))),
        ("nothing at the end", chunk(done, status, &extents(1, &[(512, 0), (0, 0)]))),
        ("more than was asked", chunk(done, status, &extents(1, &[(1 << 20, 0), (512, 1)]))),
        ("more than was asked, after a long one", {
            chunk(done, status, &extents(1, &[(u32::MAX, 0), (512, 1)]))
        }),
        ("a context that nobody selected", chunk(done, status, &extents(2, &[(512, 0)]))),
        ("no extents", chunk(done, status, &extents(1, &[]))),
        ("a part of an extent", chunk(done, status, &good[..9])),
        ("a reply without extents", chunk(done, none, &[])),
        ("two chunks of a context", twice),
        ("a length of 4 GiB", huge),
        ("data of a read", chunk(done, 1, &[0; 520])),
        ("a hole of a read", chunk(done, 2, &[0; 12])),
    ] {
        let result = answered(&reply);
        assert!(matches!(result, Err(Ending::Violation(_))), "{why}: {result:?}");
    }
    // An unexpected answer.
    let reply = chunk(done, status, &good);
    assert!(answered(&[&reply[..], &reply].concat()).is_err());
}

#[test]
fn contexts_of_a_server_that_breaks_the_rules() {
    let replies = |answers: &[(u32, Vec<u8>)]| {
        let mut client = Client::new(true);
        let answer = |option: u32, kind: u32, data: &[u8]| {
            let numbers = [option, kind, data.len() as u32].map(u32::to_be_bytes).concat();
            [&0x0003_e889_0455_65a9_u64.to_be_bytes()[..], &numbers, data].concat()
        };
        client.take(b"NBDMAGICIHAVEOPT\0\x03", 5).unwrap();
        client.take(&answer(8, 1, &[]), 5).unwrap();
        for (kind, data) in answers {
            client.take(&answer(10, *kind, data), 5)?;
        }
        // The client continues with its choice of an export.
        let asked = said(&mut client.out);
        Ok::<bool, Ending>(asked.windows(12).any(|part| part == b"IHAVEOPT\0\0\0\x07"))
    };
    let context = |name: &[u8]| (4, [&7_u32.to_be_bytes()[..], name].concat());
    let ack = || (1, Vec::new());
    let base = b"base:allocation";
    assert_eq!(replies(&[context(base), ack()]), Ok(true));
    assert_eq!(replies(&[ack()]), Ok(true));
    assert_eq!(replies(&[(1 << 31 | 1, b"unknown".to_vec())]), Ok(true));
    assert_eq!(replies(&[context(base)]), Ok(false), "the list goes on");
    for bad in [
        vec![context(b"base:other")],
        vec![context(base), context(base)],
        vec![(4, vec![0, 0])],
        vec![(3, vec![0; 12])],
    ] {
        assert!(matches!(replies(&bad), Err(Ending::Violation(_))), "{bad:?}");
    }
}
