//! Our target with two volumes, and the completion of its requests.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Cause, Chain, Done, Extents, Geometry, Memory, Nanos, Op, Pool};
use proto::auth::{Chance, Credentials, Secret};
use proto::iscsi::{Chap, Directory, IscsiTarget, TargetConfig, TargetEntry};
use proto::nvme::{
    ControllerLimits, Controllers, Namespace, NvmeTarget, NvmeTargetConfig, Subsystem, Subsystems,
};
use proto::scsi::{Identity, Unit};
use proto::{DiskId, Outbox, Peers, Request, Target, UnitId};

use crate::nbd::Patches;
use crate::{SUBSYSTEM_NAME, TARGET_NAME, VOLUME_BYTES, take};

/// A connection of our target. Unit 1 completes inline, unit 2 needs buffers.
pub struct Serving<E> {
    pool: Pool,
    out: Outbox,
    sent: Chain,
    end: E,
    memories: [Memory; 2],
    geometry: Geometry,
    taken: VecDeque<Request>,
    now: Nanos,
}

/// A volume's memory.
fn memory() -> Memory {
    Memory::new(VOLUME_BYTES).expect("a megabyte")
}

/// Identity of a volume.
fn disk(id: u32) -> DiskId {
    DiskId::new([id as u8; 16])
}

/// Name of a target that demands CHAP.
const LOCKED_NAME: &str = "iqn.2026-01.org.drumfire:locked";

/// Secrets of that target, with the same challenge each time.
fn secrets() -> Chap {
    let user = |user: &str, secret: &[u8]| Credentials {
        user: user.to_owned(),
        secret: Secret::new(secret).expect("a good length"),
    };
    Chap {
        initiator: user("fuzz", b"a secret of one"),
        target: Some(user("target", b"a secret of another")),
        chance: Chance::new(|bytes| bytes.fill(7)),
    }
}

/// Geometry of both volumes.
fn geometry() -> Geometry {
    Geometry::new(VOLUME_BYTES, 512)
}

impl Serving<IscsiTarget> {
    /// An iSCSI connection; the units are LUNs 1 and 2.
    pub fn iscsi() -> Serving<IscsiTarget> {
        let [one, _] = Serving::iscsi_two();
        one
    }

    /// Two connections of one server, with the same units.
    pub fn iscsi_two() -> [Serving<IscsiTarget>; 2] {
        let memories = [memory(), memory()];
        let (memory, peers) = (memories[0].clone(), Arc::new(Peers::new()));
        let unit = |id: u32| {
            let identity = Identity { disk: disk(id), product: "ram".into() };
            let memory = (id == 0).then(|| memory.clone());
            let extents = (id == 0).then(|| Arc::new(Patches) as Arc<dyn Extents>);
            Unit::new(UnitId(id), geometry(), memory, identity).of_extents(extents)
        };
        let entry = TargetEntry {
            name: TARGET_NAME.into(),
            units: vec![None, Some(unit(0)), Some(unit(1))],
            alias: "fuzz".into(),
            chap: None,
        };
        let locked =
            TargetEntry { name: LOCKED_NAME.into(), chap: Some(secrets()), ..entry.clone() };
        let directory = Directory::new(vec![entry, locked]).expect("good names");
        let directory = Arc::new(directory);
        let config = Arc::new(TargetConfig { max_commands: 16, ..TargetConfig::default() });
        [1, 2].map(|number| {
            let (config, directory) = (Arc::clone(&config), Arc::clone(&directory));
            let portal = "192.0.2.1:3260,1";
            let end = IscsiTarget::new(config, directory, portal, number, Nanos(0));
            let serving = Serving::new(end.among(Arc::clone(&peers)), memories[0].clone());
            Serving { memories: memories.clone(), ..serving }
        })
    }

    /// Tells the other connection what this one has for it, and continues what waited for that.
    pub fn tell(&mut self, other: &mut Serving<IscsiTarget>) {
        let notices = self.end.take_notices();
        for notice in &notices {
            other.end.notice(notice, &mut || true, &mut other.out);
        }
        drop(notices);
        for serving in [self, other] {
            serving.end.drained(serving.now, &mut serving.out);
            serving.taken.extend(serving.end.requests().drain(..));
        }
    }
}

/// State shared by the connections of an NVMe/TCP server.
pub struct NvmeServer {
    config: Arc<NvmeTargetConfig>,
    subsystems: Arc<Subsystems>,
    controllers: Arc<Controllers>,
    /// Memory of the first namespace.
    memory: Memory,
    /// Open admin queues: their controllers end with them.
    kept: Vec<Serving<NvmeTarget>>,
}

impl Default for NvmeServer {
    fn default() -> NvmeServer {
        let memory = memory();
        let namespace = |id: u32| Namespace {
            id: UnitId(id),
            geometry: geometry(),
            memory: (id == 0).then(|| memory.clone()),
            disk: disk(id),
            backing: block::Backing::Memory,
            instance: None,
            shared: Default::default(),
        };
        let subsystem = Subsystem {
            nqn: SUBSYSTEM_NAME.into(),
            namespaces: vec![Some(namespace(0)), Some(namespace(1))],
            serial: "fuzz".into(),
            model: "ram".into(),
            shared: false,
        };
        let subsystems = Subsystems::new(vec![subsystem]).expect("a good name");
        NvmeServer {
            config: Arc::new(NvmeTargetConfig { max_queue_depth: 16, ..Default::default() }),
            subsystems: Arc::new(subsystems),
            controllers: Arc::new(Controllers::new(ControllerLimits::default())),
            memory,
            kept: Vec::new(),
        }
    }
}

impl NvmeServer {
    /// A new connection for a queue; the units are namespaces 1 and 2.
    pub fn accept(&mut self) -> Serving<NvmeTarget> {
        let (config, subsystems) = (Arc::clone(&self.config), Arc::clone(&self.subsystems));
        let controllers = Arc::clone(&self.controllers);
        let (address, port, now) = ("192.0.2.1", "4420", Nanos(0));
        let end = NvmeTarget::new(config, subsystems, controllers, address, port, now);
        Serving::new(end, self.memory.clone())
    }

    /// Keeps an admin queue open.
    pub fn keep(&mut self, admin: Serving<NvmeTarget>) {
        self.kept.push(admin);
    }
}

impl<E: Target> Serving<E> {
    fn new(end: E, known: Memory) -> Serving<E> {
        let pool = Pool::new(256, 64);
        Serving {
            out: Outbox::new(pool.clone()),
            pool,
            sent: Chain::default(),
            end,
            memories: [known, memory()],
            geometry: geometry(),
            taken: VecDeque::new(),
            now: Nanos(0),
        }
    }

    /// Receives a piece of the stream. `None` if the connection ends.
    pub fn receive(&mut self, bytes: &[u8]) -> Option<()> {
        self.now = self.now + Nanos(1000);
        let result = self.end.receive(self.now, bytes, &mut self.out);
        self.taken.extend(self.end.requests().drain(..));
        for request in self.taken.iter().filter(|request| request.io.op != Op::Flush) {
            assert_eq!(self.geometry.check(&request.io), Ok(()), "{request:?}");
        }
        (result.is_ok() && !self.end.finished()).then_some(())
    }

    /// Completes at most `count` requests, the newest first if `reversed`.
    pub fn work(&mut self, count: usize, reversed: bool) {
        for _ in 0..count {
            let next = if reversed { self.taken.pop_back() } else { self.taken.pop_front() };
            let Some(Request { unit, mut io }) = next else { return };
            let memory = &self.memories[unit.0 as usize];
            let len = io.len as usize;
            match (io.op, &mut io.buf) {
                (Op::Read, Some(buf)) => memory.read(io.offset, &mut buf[..len]),
                (Op::Write, Some(buf)) => memory.write(io.offset, &buf[..len]),
                (Op::Read | Op::Write, None) => panic!("{:?} without a buffer", io.op),
                (Op::Trim | Op::WriteZeroes, _) => memory.zero(io.offset, io.len.into()),
                (Op::Flush, _) => {}
            }
            let done = Done { tag: io.tag, result: Ok(()), cause: Cause::NONE, buf: io.buf };
            self.end.complete(self.now, done, &mut self.out);
            self.taken.extend(self.end.requests().drain(..));
        }
    }

    /// Bytes to send.
    pub fn answers(&mut self) -> Vec<u8> {
        take(&mut self.out, &mut self.sent)
    }

    /// Advances time to the next deadline.
    pub fn wait(&mut self) {
        if let Some(deadline) = self.end.deadline() {
            self.now = Nanos(self.now.0.max(deadline.0));
            let _ = self.end.tick(self.now, &mut self.out);
            self.taken.extend(self.end.requests().drain(..));
        }
    }

    /// Disconnects with requests in flight: every buffer must come back.
    pub fn lose(mut self) {
        self.end.abandon(&self.pool);
        self.work(usize::MAX, false);
        self.answers();
        self.sent.recycle(&self.pool);
        assert_eq!(self.pool.lent(), [0, 0], "buffers got lost");
    }
}
