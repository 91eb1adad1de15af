//! Our target with two volumes, and whoever carries its requests out.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Chain, Done, Geometry, Memory, Nanos, Op, Pool};
use proto::iscsi::{Directory, IscsiTarget, TargetConfig, TargetEntry};
use proto::scsi::{Identity, Unit};
use proto::{Endpoint, Outbox, Request, Target, UnitId};

use crate::{TARGET_NAME, VOLUME_BYTES, take};

/// A connection of our target. LUN 1 answers in place, LUN 2 wants buffers.
pub struct Serving {
    pool: Pool,
    out: Outbox,
    sent: Chain,
    end: IscsiTarget,
    memories: [Memory; 2],
    geometry: Geometry,
    taken: VecDeque<Request>,
    now: Nanos,
}

impl Default for Serving {
    fn default() -> Serving {
        let pool = Pool::new(256, 64);
        let geometry = Geometry::new(VOLUME_BYTES, 512);
        let unit = |id: u32| Unit {
            id: UnitId(id),
            geometry,
            in_place: id == 0,
            identity: Identity { serial: format!("fuzz-{id}"), product: "ram".into() },
        };
        let entry = TargetEntry {
            name: TARGET_NAME.into(),
            units: vec![None, Some(unit(0)), Some(unit(1))],
            alias: "fuzz".into(),
        };
        let directory = Arc::new(Directory::new(vec![entry]).expect("a good name"));
        let config = Arc::new(TargetConfig { max_commands: 16, ..TargetConfig::default() });
        let portal = "192.0.2.1:3260,1";
        let memory = || Memory::new(VOLUME_BYTES).expect("a megabyte");
        Serving {
            out: Outbox::new(pool.clone()),
            pool,
            sent: Chain::default(),
            end: IscsiTarget::new(config, directory, portal, 1, Nanos(0)),
            memories: [memory(), memory()],
            geometry,
            taken: VecDeque::new(),
            now: Nanos(0),
        }
    }
}

impl Serving {
    /// Feeds a part of the stream. `None` when the connection has to end.
    pub fn receive(&mut self, bytes: &[u8]) -> Option<()> {
        self.now = self.now + Nanos(1000);
        let result = self.end.receive(self.now, bytes, &mut self.out);
        self.taken.extend(self.end.requests().drain(..));
        for request in self.taken.iter().filter(|request| request.io.op != Op::Flush) {
            assert_eq!(self.geometry.check(&request.io), Ok(()), "{request:?}");
        }
        (result.is_ok() && !self.end.finished()).then_some(())
    }

    /// Carries out at most `count` requests, the newest first if `reversed`.
    pub fn work(&mut self, count: usize, reversed: bool) {
        for _ in 0..count {
            let next = if reversed { self.taken.pop_back() } else { self.taken.pop_front() };
            let Some(Request { unit, mut io }) = next else { return };
            let memory = &self.memories[unit.0 as usize];
            let len = io.len as usize;
            match (io.op, &mut io.buf) {
                (Op::Read, Some(buf)) => memory.read(io.offset, &mut buf[..len]),
                (Op::Read, None) => assert_eq!(unit, UnitId(0), "LUN 2 has no memory to show"),
                (Op::Write, Some(buf)) => memory.write(io.offset, &buf[..len]),
                (Op::Write, None) => panic!("a write without data"),
                (Op::Trim | Op::WriteZeroes, _) => memory.zero(io.offset, io.len.into()),
                (Op::Flush, _) => {}
            }
            let done = Done { tag: io.tag, result: Ok(()), buf: io.buf };
            let memory = (unit == UnitId(0)).then_some(memory);
            self.end.complete(self.now, done, memory, &mut self.out);
            self.taken.extend(self.end.requests().drain(..));
        }
    }

    /// What it has to say by now.
    pub fn answers(&mut self) -> Vec<u8> {
        take(&mut self.out, &mut self.sent)
    }

    /// Waits until the next deadline.
    pub fn wait(&mut self) {
        if let Some(deadline) = self.end.deadline() {
            self.now = Nanos(self.now.0.max(deadline.0));
            let _ = self.end.tick(self.now, &mut self.out);
            self.taken.extend(self.end.requests().drain(..));
        }
    }

    /// The connection is lost while requests are under way. Every buffer comes back.
    pub fn lose(mut self) {
        self.end.abandon(&self.pool);
        self.work(usize::MAX, false);
        self.answers();
        self.sent.recycle(&self.pool);
        assert_eq!(self.pool.lent(), [0, 0], "buffers got lost");
    }
}
