//! A server of RAM volumes with any number of connections, without sockets.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use block::{Backing, Cause, Chain, Done, Fault, Geometry, Io, Memory, Nanos, Op, Piece, Pool};
use proto::nvme::{
    ControllerLimits, Controllers, Namespace, NvmeTarget, NvmeTargetConfig, Subsystem, Subsystems,
};
use proto::{DiskId, Ending, Endpoint, Instances, Offers, Outbox, Peers, Target, UnitId};

pub const NQN: &str = "nqn.2026-11.io.drumfire:disk";
pub const OTHER_NQN: &str = "nqn.2026-11.io.drumfire:other";
pub const HOST_NQN: &str = "nqn.2026-11.io.drumfire:host";

/// A volume.
pub struct Store {
    pub memory: Memory,
    pub geometry: Geometry,
    /// Connections know the memory: its reads and writes are not seen.
    pub in_place: bool,
    /// I/Os fail like this.
    pub fault: Option<Fault>,
    /// I/Os that were done.
    pub log: Vec<(Op, u64, u32, bool)>,
}

impl Store {
    pub fn new(bytes: u64, block_bytes: u32, in_place: bool) -> Store {
        let geometry = Geometry { volatile: true, ..Geometry::new(bytes, block_bytes) };
        let memory = Memory::new(bytes).unwrap();
        // The first blocks all differ; made once, because making them is slow.
        static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
        let make = || (0..1 << 20).map(|i| (i / 512 * 31 + i % 509) as u8).collect();
        let pattern = PATTERN.get_or_init(make);
        memory.write(0, &pattern[..pattern.len().min(bytes as usize)]);
        Store { memory, geometry, in_place, fault: None, log: Vec::new() }
    }

    pub fn bytes(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read(offset, &mut bytes);
        bytes
    }

    fn run(&mut self, io: Io) -> Done {
        let Io { tag, op, fua, len, offset, mut buf } = io;
        self.log.push((op, offset, len, fua));
        let here = Io { tag, op, fua, len, offset, buf: None };
        let result = self.geometry.check(&here).and(self.fault.map_or(Ok(()), Err));
        if result.is_ok() {
            match (op, &mut buf) {
                (Op::Read, Some(buf)) => self.memory.read(offset, &mut buf[..len as usize]),
                (Op::Write, Some(buf)) => self.memory.write(offset, &buf[..len as usize]),
                (Op::Read | Op::Write, None) => panic!("{op:?} without a buffer"),
                (Op::Trim | Op::WriteZeroes, _) => self.memory.zero(offset, u64::from(len)),
                (Op::Flush, _) => {}
            }
        }
        Done { tag, result, cause: Cause::NONE, buf }
    }
}

/// Volumes, names, and state shared by connections.
pub struct Server {
    pub config: NvmeTargetConfig,
    pub subsystems: Arc<Subsystems>,
    /// Subsystems that were changed while hosts were connected.
    later: Rc<RefCell<Option<Arc<Subsystems>>>>,
    pub controllers: Arc<Controllers>,
    pub peers: Arc<Peers>,
    pub stores: Vec<Store>,
    pub pool: Pool,
    pub now: Nanos,
    /// I/Os of a batch complete in reverse order.
    pub backwards: bool,
    /// Connections have fair accounts of the pool.
    pub fair: bool,
}

impl Server {
    /// One subsystem with a namespace for each store, and an empty one.
    pub fn new(stores: Vec<Store>) -> Server {
        Server::with_limits(stores, ControllerLimits::default())
    }

    pub fn with_limits(stores: Vec<Store>, limits: ControllerLimits) -> Server {
        let instances = Instances::new(1);
        let namespace = |(index, store): (usize, &Store)| {
            let id = UnitId(index as u32);
            let memory = store.in_place.then(|| store.memory.clone());
            let disk = DiskId::new([index as u8; 16]);
            let (backing, instance) = (Backing::Memory, Some(instances.unit()));
            Some(Namespace {
                id,
                geometry: store.geometry,
                memory,
                disk,
                backing,
                instance,
                shared: Default::default(),
            })
        };
        let namespaces = stores.iter().enumerate().map(namespace).collect();
        let subsystem = |nqn: &str, namespaces| Subsystem {
            nqn: nqn.to_owned(),
            namespaces,
            serial: "SER1".to_owned(),
            model: "Drumfire RAM".to_owned(),
            shared: false,
        };
        let list = vec![subsystem(NQN, namespaces), subsystem(OTHER_NQN, vec![])];
        Server {
            config: NvmeTargetConfig::default(),
            subsystems: Arc::new(Subsystems::new(list).unwrap()),
            later: Rc::default(),
            controllers: Arc::new(Controllers::new(limits)),
            peers: Arc::default(),
            stores,
            pool: Pool::new(2048, 512),
            now: Nanos(1_000_000_000),
            backwards: false,
            fair: false,
        }
    }

    /// The usual one: a namespace with blocks of 512 bytes in memory that connections know, and one
    /// with blocks of 4096 bytes that they do not.
    pub fn usual() -> Server {
        Server::new(vec![Store::new(4 << 20, 512, true), Store::new(4 << 20, 4096, false)])
    }

    /// Creates a server whose reads and writes all reach the stores.
    pub fn apart() -> Server {
        Server::new(vec![Store::new(4 << 20, 512, false), Store::new(4 << 20, 4096, false)])
    }

    /// Offers the first subsystem with these namespaces of those that it had at the start.
    pub fn offer(&mut self, ids: &[usize]) {
        let first = &self.subsystems.list()[0];
        let all = first.namespaces.iter().cloned().enumerate();
        let namespaces = all.map(|(at, one)| one.filter(|_| ids.contains(&(at + 1)))).collect();
        let list = vec![Subsystem { namespaces, ..Subsystem::clone(first) }];
        let generation = self.later.borrow().iter().count() as u64 + 2;
        let all = Subsystems::new(list).unwrap().of_generation(generation);
        *self.later.borrow_mut() = Some(Arc::new(all));
    }

    pub fn accept(&mut self) -> Peer {
        let (first, later) = (Arc::clone(&self.subsystems), Rc::clone(&self.later));
        let current = move || later.borrow().clone().unwrap_or_else(|| Arc::clone(&first));
        let end = NvmeTarget::new(
            Arc::new(self.config.clone()),
            Offers::new(current),
            Arc::clone(&self.controllers),
            "192.0.2.1",
            "4420",
            self.now,
        )
        .among(Arc::clone(&self.peers));
        let out = match self.fair {
            true => Outbox::of(self.pool.fair_account(32 << 10).expect("room for one more")),
            false => Outbox::new(self.pool.clone()),
        };
        Peer { end, out, flying: Vec::new(), ended: None }
    }

    /// Does all requests of the connection.
    pub fn run(&mut self, peer: &mut Peer) {
        loop {
            let mut batch: Vec<_> = peer.end.requests().drain(..).collect();
            if batch.is_empty() {
                return;
            }
            if self.backwards {
                batch.reverse();
            }
            for request in batch {
                let unit = request.unit.0 as usize;
                let done = self.stores[unit].run(request.io);
                peer.end.complete(self.now, done, &mut peer.out);
            }
        }
    }

    /// Takes the connection's requests without doing them.
    pub fn hold(&mut self, peer: &mut Peer) {
        let requests = peer.end.requests().drain(..);
        peer.flying.extend(requests.map(|request| (request.unit.0 as usize, request.io)));
    }

    /// Does the held requests.
    pub fn release(&mut self, peer: &mut Peer) {
        for (unit, io) in std::mem::take(&mut peer.flying) {
            let done = self.stores[unit].run(io);
            peer.end.complete(self.now, done, &mut peer.out);
        }
    }
}

/// The server's end of a connection.
pub struct Peer {
    pub end: NvmeTarget,
    pub out: Outbox,
    flying: Vec<(usize, Io)>,
    pub ended: Option<Ending>,
}

impl Peer {
    /// Receives bytes in chunks, and does the resulting requests.
    pub fn receive(&mut self, server: &mut Server, bytes: &[u8], chunk: usize) {
        for chunk in bytes.chunks(chunk) {
            if self.ended.is_none()
                && let Err(ending) = self.end.receive(server.now, chunk, &mut self.out)
            {
                self.ended = Some(ending);
            }
            server.run(self);
        }
    }

    pub fn tick(&mut self, server: &mut Server) {
        if self.end.deadline().is_some_and(|deadline| deadline <= server.now)
            && let Err(ending) = self.end.tick(server.now, &mut self.out)
        {
            self.ended = Some(ending);
        }
        server.run(self);
    }

    /// Returns the bytes that the connection sends.
    pub fn sent(&mut self) -> Vec<u8> {
        sent(&mut self.out)
    }

    /// Loses the connection while its requests are pending.
    pub fn vanish(&mut self, server: &mut Server) {
        server.hold(self);
        self.end.abandon(&server.pool);
        self.sent();
    }

    /// Loses the connection.
    pub fn leave(&mut self, server: &mut Server) {
        self.end.abandon(&server.pool);
        server.release(self);
        server.run(self);
        self.sent();
    }
}

/// The bytes of an outbox, which is empty afterwards.
pub fn sent(out: &mut Outbox) -> Vec<u8> {
    let mut chain = Chain::default();
    out.exchange(&mut chain);
    let bytes = chain.pieces().iter().map(Piece::to_vec).collect::<Vec<_>>().concat();
    chain.recycle(out.pool());
    bytes
}
