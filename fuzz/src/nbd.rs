//! Both ends of NBD, with a volume of 1 MiB at the server.

use std::sync::Arc;

use block::{
    Buf, Cause, Chain, Done, Extent, Extents, Geometry, Io, Memory, Nanos, Op, Pool, Tag,
};
use proto::nbd::{NbdConfig, NbdExport, NbdExports, NbdInitiator, NbdTarget, NbdTargetConfig};
use proto::{Endpoint, Initiator, Outbox, Phase, Target, UnitId};

use crate::take;

const BYTES: u64 = 1 << 20;

/// Every second 4 KiB are a hole.
#[derive(Debug)]
pub(crate) struct Patches;

impl Extents for Patches {
    fn at(&self, offset: u64, len: u64) -> Extent {
        assert!(len > 0 && offset + len <= BYTES, "{offset} {len}");
        let left = 4096 - offset % 4096;
        Extent { bytes: left.min(len), is_hole: offset / 4096 % 2 == 1 }
    }
}

/// A connection of our target.
pub struct Nbd {
    end: NbdTarget,
    out: Outbox,
    sent: Chain,
    pool: Pool,
}

impl Nbd {
    /// A new connection; its volume is in memory or not.
    pub fn new(in_memory: bool) -> Nbd {
        let export = NbdExport {
            name: "disk".to_owned(),
            alias: String::new(),
            description: "Drumfire RAM".to_owned(),
            id: UnitId(0),
            geometry: Geometry { volatile: true, ..Geometry::new(BYTES, 512) },
            memory: in_memory.then(|| Memory::new(BYTES).expect("memory")),
            instance: None,
            extents: Some(Arc::new(Patches)),
            shared: Default::default(),
        };
        let exports = Arc::new(NbdExports::new(vec![export]).expect("one name"));
        let config = NbdTargetConfig { max_commands: 32, ..NbdTargetConfig::default() };
        let pool = Pool::new(64, 64);
        let (mut end, mut out) =
            (NbdTarget::new(exports, config, Nanos(0)), Outbox::new(pool.clone()));
        end.begin(&mut out);
        Nbd { end, out, sent: Chain::default(), pool }
    }

    /// Receives a piece of the stream; false if the connection ends.
    pub fn receive(&mut self, bytes: &[u8]) -> bool {
        self.end.receive(Nanos(0), bytes, &mut self.out).is_ok()
    }

    /// Completes the volume's I/Os.
    pub fn work(&mut self) {
        while let Some(request) = self.end.requests().pop_back() {
            let Io { tag, op, len, offset, buf, .. } = request.io;
            assert!(offset + u64::from(len) <= BYTES, "{op:?} outside of the volume");
            assert!(buf.as_ref().is_none_or(|buf| buf.len() >= len as usize));
            let done = Done { tag, result: Ok(()), cause: Cause::NONE, buf };
            self.end.complete(Nanos(0), done, &mut self.out);
        }
    }

    /// Bytes to send.
    pub fn says(&mut self) -> Vec<u8> {
        let bytes = take(&mut self.out, &mut self.sent);
        self.end.drained(Nanos(0), &mut self.out);
        bytes
    }

    /// Disconnects: every buffer must come back.
    pub fn lose(mut self) {
        self.end.abandon(&self.pool);
        self.work();
        self.says();
        self.says();
        drop(self.out);
        self.sent.recycle(&self.pool);
        assert_eq!(self.pool.lent(), [0, 0], "buffers are back");
    }
}

/// A connection of our initiator.
pub struct NbdAsking {
    end: NbdInitiator,
    out: Outbox,
    sent: Chain,
    submitted: usize,
}

impl Default for NbdAsking {
    fn default() -> NbdAsking {
        NbdAsking::new()
    }
}

impl NbdAsking {
    /// A new connection.
    pub fn new() -> NbdAsking {
        let config = NbdConfig { asks_allocation: true, ..NbdConfig::new("disk") };
        let end = NbdInitiator::new(config, Nanos(0));
        let out = Outbox::new(Pool::new(64, 64));
        NbdAsking { end, out, sent: Chain::default(), submitted: 0 }
    }

    /// Connects it to our own target. Panics if that takes too long.
    pub fn open(&mut self, server: &mut Nbd) {
        for _ in 0..16 {
            let answers = server.says();
            assert!(self.receive(&answers), "our target keeps the rules");
            if matches!(self.end.phase(), Phase::Ready(_)) {
                return;
            }
            let asked = take(&mut self.out, &mut self.sent);
            assert!(server.receive(&asked), "our initiator keeps the rules");
        }
        panic!("not open after 16 exchanges");
    }

    /// Asks which parts of the volume are holes: the first command.
    pub fn ask(&mut self) {
        assert!(self.end.ask_allocation(0, BYTES, &mut self.out), "our target has the context");
        take(&mut self.out, &mut self.sent);
    }

    /// Submits I/Os.
    pub fn submit(&mut self, count: u8) {
        for i in 0..u64::from(count.min(32)) {
            let op = [Op::Read, Op::Write, Op::Read, Op::Flush][i as usize % 4];
            let len = if op == Op::Flush { 0 } else { 512 << (i % 8) };
            let buf = (len > 0).then(|| Buf::new(len as usize).expect("memory"));
            let io = Io { tag: Tag(i), op, fua: i % 3 == 0, len, offset: i * 4096, buf };
            self.end.submit(Nanos(0), io, &mut self.out);
            self.submitted += 1;
        }
        take(&mut self.out, &mut self.sent);
    }

    /// Receives a piece of the stream; false if the connection ends.
    pub fn receive(&mut self, bytes: &[u8]) -> bool {
        let is_open = self.end.receive(Nanos(0), bytes, &mut self.out).is_ok();
        if let Some(Some(told)) = self.end.take_allocation() {
            assert!(0 < told.bytes && told.bytes <= BYTES, "{told:?}");
            assert!(told.holes + told.zeroes <= told.bytes, "{told:?}");
        }
        is_open
    }

    /// Disconnects: each I/O must complete once.
    pub fn lose(mut self) {
        self.end.abandon();
        assert_eq!(self.end.done().len(), self.submitted, "one answer for each I/O");
    }
}
