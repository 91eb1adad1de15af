//! NBD clients that reconnect while the volume still has I/Os of an earlier connection, and the
//! report of a lost cache to clients.
#![forbid(unsafe_code)]

use std::sync::Arc;

use block::{Buf, Cause, Chain, Done, Fault, Geometry, Io, Nanos, Op, Pool, Tag};
use proto::nbd::{NbdConfig, NbdExport, NbdExports, NbdInitiator, NbdTarget, NbdTargetConfig};
use proto::{Endpoint, Fence, Initiator, Instances, Outbox, Peers, Phase, Target, UnitId};

const BYTES: u64 = 1 << 20;
const HOST: u128 = 7;

/// State that connections of a server share.
struct Server {
    exports: Arc<NbdExports>,
    peers: Arc<Peers>,
}

/// A connection: both ends, and the I/Os that its volume has.
struct Wire {
    client: NbdInitiator,
    out: Outbox,
    end: NbdTarget,
    back: Outbox,
    chains: [Chain; 2],
    flying: Vec<Io>,
    now: Nanos,
    ended: Option<String>,
}

impl Server {
    fn new() -> Server {
        let instances = Instances::new(1);
        let export = |(id, name): (u32, &str)| NbdExport {
            name: name.to_owned(),
            alias: String::new(),
            description: "Drumfire FILE".to_owned(),
            id: UnitId(id),
            geometry: Geometry { volatile: true, ..Geometry::new(BYTES, 512) },
            memory: None,
            instance: Some(instances.unit()),
            extents: None,
            shared: Default::default(),
        };
        let exports = [(0, "disk"), (1, "other")].map(export);
        let exports = Arc::new(NbdExports::new(exports.to_vec()).unwrap());
        Server { exports, peers: Arc::default() }
    }

    fn connect(&self, host: u128, export: &str) -> Wire {
        let config = NbdTargetConfig { login_timeout: Nanos::from_secs(9), ..Default::default() };
        let end = NbdTarget::new(Arc::clone(&self.exports), config, Nanos(0));
        let pool = || Outbox::new(Pool::new(64, 64));
        let mut wire = Wire {
            client: NbdInitiator::new(NbdConfig::new(export), Nanos(0)),
            out: pool(),
            end: end.among(Arc::clone(&self.peers), host),
            back: pool(),
            chains: Default::default(),
            flying: Vec::new(),
            now: Nanos(0),
            ended: None,
        };
        wire.end.begin(&mut wire.back);
        wire.settle();
        wire
    }

    /// Connects while other connections of the host are alive.
    fn connect_beside(&self, host: u128, export: &str, others: &mut [&mut Wire]) -> Wire {
        let mut wire = self.connect(host, export);
        for notice in wire.end.take_notices() {
            for other in others.iter_mut() {
                other.end.notice(&notice, &mut || true, &mut other.back);
            }
        }
        wire.settle();
        wire
    }
}

fn said(out: &mut Outbox, chain: &mut Chain) -> Vec<u8> {
    out.exchange(chain);
    chain.pieces().iter().map(block::Piece::to_vec).collect::<Vec<_>>().concat()
}

impl Wire {
    /// Carries bytes until both ends are idle. The volume keeps its I/Os.
    fn settle(&mut self) {
        loop {
            let there = said(&mut self.out, &mut self.chains[0]);
            self.end.receive(self.now, &there, &mut self.back).unwrap();
            self.end.drained(self.now, &mut self.back);
            self.flying.extend(self.end.requests().drain(..).map(|request| request.io));
            let back = said(&mut self.back, &mut self.chains[1]);
            if let Err(ending) = self.client.receive(self.now, &back, &mut self.out) {
                self.ended = Some(ending.to_string());
            }
            if there.is_empty() && back.is_empty() {
                return;
            }
        }
    }

    fn is_ready(&mut self) -> bool {
        self.settle();
        matches!(self.client.phase(), Phase::Ready(_))
    }

    fn submit(&mut self, op: Op, offset: u64, len: u32) {
        let buf = matches!(op, Op::Read | Op::Write).then(|| Buf::new(len as usize).unwrap());
        let io = Io { tag: Tag(offset), op, fua: false, len, offset, buf };
        self.client.submit(self.now, io, &mut self.out);
        self.settle();
    }

    /// Completes all I/Os at the volume.
    fn work(&mut self, fault: Option<Fault>) {
        for Io { tag, buf, .. } in std::mem::take(&mut self.flying) {
            let done = Done { tag, result: fault.map_or(Ok(()), Err), cause: Cause::NONE, buf };
            self.end.complete(self.now, done, &mut self.back);
        }
    }

    /// One I/O from beginning to end.
    fn run(&mut self, op: Op, fault: Option<Fault>) -> Result<(), Fault> {
        self.submit(op, 0, if op == Op::Flush { 0 } else { 512 });
        self.work(fault);
        self.settle();
        self.client.done().pop().expect("an answer").result
    }

    /// Loses the connection. The volume still has its I/Os.
    fn lose(&mut self) {
        let pool = self.back.pool().clone();
        self.end.abandon(&pool);
    }
}

#[test]
fn a_choice_waits_for_what_the_host_left_behind() {
    let server = Server::new();
    let mut old = server.connect(HOST, "disk");
    old.submit(Op::Write, 4096, 4096);
    old.submit(Op::Read, 0, 512);
    assert_eq!(old.client.in_doubt(), [(4096, 4096)]);
    let mut beside = server.connect_beside(HOST, "disk", &mut [&mut old]);
    assert!(beside.is_ready(), "nobody waits for one that lives");
    beside.lose();
    old.lose();
    let mut new = server.connect(HOST, "disk");
    assert!(!new.is_ready() && new.end.starves() && new.end.half_open());
    assert!(
        server.connect(HOST + 1, "disk").is_ready() && server.connect(HOST, "other").is_ready()
    );
    old.work(None);
    assert!(new.is_ready() && !new.end.starves());
    assert_eq!(new.client.fence(), Fence::After(Nanos(0)), "a server of NBD cannot say so");
    new.lose();
    // A login does not wait for reads and flushes, or for I/Os that the volume has not taken.
    let mut old = server.connect(HOST, "disk");
    old.submit(Op::Read, 0, 512);
    old.submit(Op::Flush, 0, 0);
    let io = Io { tag: Tag(1), op: Op::WriteZeroes, fua: false, len: 512, offset: 0, buf: None };
    old.client.submit(old.now, io, &mut old.out);
    let bytes = said(&mut old.out, &mut old.chains[0]);
    old.end.receive(old.now, &bytes, &mut old.back).unwrap();
    assert_eq!(old.end.requests().len(), 1);
    old.lose();
    old.lose();
    assert!(server.connect(HOST, "disk").is_ready());
    old.work(None);
}

#[test]
fn an_old_client_waits_as_well_and_may_speak_meanwhile() {
    let server = Server::new();
    let mut old = server.connect(HOST, "disk");
    old.submit(Op::Trim, 0, 512);
    old.lose();
    let mut new = server.connect(HOST, "other");
    let mut end = NbdTarget::new(Arc::clone(&server.exports), Default::default(), Nanos(0))
        .among(Arc::clone(&server.peers), HOST);
    let mut bytes = vec![0, 0, 0, 1];
    bytes.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk");
    // A flush that came too early.
    let flush = [0x25, 0x60, 0x95, 0x13, 0, 0, 0, 3];
    bytes.extend(flush);
    end.receive(Nanos(0), &bytes, &mut new.back).unwrap();
    end.receive(Nanos(0), &[0; 20], &mut new.back).unwrap();
    assert!(said(&mut new.back, &mut new.chains[1]).is_empty());
    old.work(None);
    end.drained(Nanos(0), &mut new.back);
    assert_eq!(said(&mut new.back, &mut new.chains[1]).len(), 8 + 2 + 124, "size, flags, padding");
    assert_eq!(end.requests().len(), 1);
    // A client that sends too much meanwhile is disconnected.
    let mut old = server.connect(HOST, "disk");
    old.submit(Op::Trim, 0, 512);
    old.lose();
    let mut end = NbdTarget::new(Arc::clone(&server.exports), Default::default(), Nanos(0))
        .among(Arc::clone(&server.peers), HOST);
    end.receive(Nanos(0), &bytes, &mut new.back).unwrap();
    let result = end.receive(Nanos(0), &vec![0; 65 << 10], &mut new.back);
    assert!(matches!(result, Err(proto::Ending::Violation(_))), "{result:?}");
}

#[test]
fn a_choice_waits_as_long_as_a_login_may_take() {
    let server = Server::new();
    let mut old = server.connect(HOST, "disk");
    old.submit(Op::Write, 0, 512);
    old.lose();
    let mut new = server.connect(HOST, "disk");
    let mut remarks = Vec::new();
    let ending = loop {
        new.now = new.end.deadline().unwrap();
        let result = new.end.tick(new.now, &mut new.back);
        remarks.extend(new.end.take_remark());
        if let Err(ending) = result {
            break ending.to_string();
        }
        assert!(!new.is_ready());
    };
    assert_eq!((new.now, remarks.len()), (Nanos::from_secs(9), 1));
    assert!(ending.contains("earlier connection"), "{ending}");
    new.settle();
    let why = new.ended.expect("the client is told");
    assert!(why.contains("does not let us use 'disk'") && why.contains("earlier"), "{why}");
}

#[test]
fn a_failed_flush_is_told_to_everybody_who_may_have_written() {
    let server = Server::new();
    let [mut one, mut apart] = ["disk", "other"].map(|name| server.connect(HOST, name));
    let mut other = server.connect_beside(HOST, "disk", &mut [&mut one]);
    let mut away = server.connect(HOST + 1, "disk");
    away.lose();
    let before = one.client.instance();
    assert!(before.is_some() && before == other.client.instance());
    assert_eq!(one.client.product(), Some("Drumfire FILE"));
    assert_eq!(one.run(Op::Flush, Some(Fault::Medium)), Err(Fault::Medium));
    let flush = |wire: &mut Wire| wire.run(Op::Flush, None);
    assert_eq!([flush(&mut one), flush(&mut apart)], [Ok(()); 2]);
    assert_eq!(other.run(Op::Write, None), Ok(()), "a write has nothing to do with it");
    assert_eq!([flush(&mut other), flush(&mut other)], [Err(Fault::Medium), Ok(())]);
    let mut away = server.connect(HOST + 1, "disk");
    assert_ne!(away.client.instance(), before);
    assert_eq!([flush(&mut away), flush(&mut away)], [Err(Fault::Medium), Ok(())]);
    // A client whose flush fails after its connection was lost gets the report, too.
    one.submit(Op::Flush, 0, 0);
    one.lose();
    one.work(Some(Fault::Disconnected));
    assert_eq!([flush(&mut other), flush(&mut other)], [Err(Fault::Medium), Ok(())]);
}
