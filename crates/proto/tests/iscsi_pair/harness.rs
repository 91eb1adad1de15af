//! Both ends joined in memory, and the target's disk.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use block::{
    Buf, Cause, Chain, Done, Extents, Fault, Geometry, Io, Memory, Nanos, Op, Piece, Pool, Tag,
};
use proto::iscsi::{
    Chap, Directory, InitiatorConfig, IscsiInitiator, IscsiTarget, Proof, TargetConfig, TargetEntry,
};
use proto::scsi::{Identity, Unit, UnitShared};
use proto::{
    DiskId, Ending, Endpoint, Initiator, Instance, Instances, Offers, Outbox, Peers, Phase, Target,
    UnitId,
};

pub const TARGET: &str = "iqn.2026-01.org.drumfire:disk";
pub const OTHER_TARGET: &str = "iqn.2026-01.org.drumfire:other";
pub const INITIATOR: &str = "iqn.2026-01.org.drumfire:tester";
pub const PORTAL: &str = "192.0.2.1:3260,1";

/// A small generator of chance, the same everywhere.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        block::splitmix(&mut self.0)
    }

    /// Below `limit`, which is not zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Settings that differ between tests.
#[derive(Clone, Debug)]
pub struct Setup {
    pub bytes: u64,
    pub block_bytes: u32,
    /// The disk is memory that the target knows: its reads and writes are not seen.
    pub in_place: bool,
    pub header_digest: bool,
    pub data_digest: bool,
    pub max_outstanding: u16,
    pub io_timeout: Nanos,
    pub target: TargetConfig,
    /// The other connections of the server, and the number of this one.
    pub peers: Arc<Peers>,
    pub connection: u32,
    pub instance: Instance,
    pub extents: Option<Arc<dyn Extents>>,
    /// Secrets that the target demands, and those of the initiator.
    pub chap: Option<Chap>,
    pub proof: Option<Proof>,
    /// Small and large buffers of the target.
    pub pool: [usize; 2],
    /// Directory and disk that several connections share; see [`Setup::together`].
    pub shared: Option<(Arc<Directory>, Memory)>,
    /// A directory that was changed while initiators were connected.
    pub later: Rc<RefCell<Option<Arc<Directory>>>>,
    /// Other addresses of the portal group.
    pub other_portals: Vec<String>,
    /// Reservations of its units, if hosts of other protocols have them, too.
    pub bonds: Option<UnitShared>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            bytes: 8 << 20,
            block_bytes: 512,
            in_place: false,
            header_digest: false,
            data_digest: false,
            max_outstanding: 64,
            io_timeout: proto::IO_TIMEOUT,
            target: TargetConfig::default(),
            peers: Arc::default(),
            connection: 7,
            instance: Instances::new(1).unit(),
            extents: None,
            chap: None,
            proof: None,
            pool: [256, 64],
            shared: None,
            later: Rc::default(),
            other_portals: Vec::new(),
            bonds: None,
        }
    }
}

impl Setup {
    pub fn geometry(&self) -> Geometry {
        Geometry::new(self.bytes, self.block_bytes)
    }

    /// Settings for all connections of one server: they share units and disk.
    pub fn together(self) -> Setup {
        let disk = Memory::new(self.bytes).unwrap();
        Setup { shared: Some((self.directory(&disk), disk)), ..self }
    }

    fn directory(&self, disk: &Memory) -> Arc<Directory> {
        if let Some((directory, _)) = &self.shared {
            return Arc::clone(directory);
        }
        let unit = || {
            let identity = Identity { disk: DiskId::new([1; 16]), product: "ram".to_owned() };
            let memory = self.in_place.then(|| disk.clone());
            let unit = Unit::new(UnitId(0), self.geometry(), memory, identity);
            let unit = unit.of_instance(self.instance.clone());
            let unit = unit.sharing(&self.bonds.clone().unwrap_or_default());
            Some(unit.of_extents(self.extents.clone()))
        };
        let entry = |name: &str, units| TargetEntry {
            name: name.to_owned(),
            units,
            alias: "a disk for tests".to_owned(),
            chap: self.chap.clone(),
        };
        let disk = entry(TARGET, vec![None, unit(), unit()]);
        let directory = Directory::new(vec![entry(OTHER_TARGET, vec![]), disk]).unwrap();
        Arc::new(directory.with_discovery_chap(self.chap.clone()))
    }

    pub fn target(&self, disk: &Memory) -> IscsiTarget {
        let config = Arc::new(self.target.clone());
        let (first, later) = (self.directory(disk), Rc::clone(&self.later));
        let current = move || later.borrow().clone().unwrap_or_else(|| Arc::clone(&first));
        IscsiTarget::new(config, Offers::new(current), PORTAL, self.connection, Nanos(0))
            .with_portals(self.other_portals.clone().into())
            .among(Arc::clone(&self.peers))
    }

    pub fn initiator(&self) -> IscsiInitiator {
        let config = InitiatorConfig {
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            max_outstanding: self.max_outstanding,
            io_timeout: self.io_timeout,
            proof: self.proof.clone(),
            ..InitiatorConfig::new(INITIATOR, TARGET, 1)
        };
        IscsiInitiator::new(config, Nanos(0))
    }
}

/// The unit of LUN 2 where a test has two volumes.
pub const SECOND_UNIT: UnitId = UnitId(5);

/// All bytes of an outbox.
pub fn drain(out: &mut Outbox) -> Vec<u8> {
    let mut chain = Chain::default();
    out.exchange(&mut chain);
    let bytes = chain.pieces().iter().map(Piece::to_vec).collect::<Vec<_>>().concat();
    chain.recycle(out.pool());
    bytes
}

/// The target's side: an end, its outbox and a disk whose I/Os complete on request.
pub struct Served {
    pub end: IscsiTarget,
    pub out: Outbox,
    pub disk: Memory,
    geometry: Geometry,
    /// I/Os that are with the disk.
    pub flying: VecDeque<Io>,
    /// The next I/Os fail.
    pub faults: VecDeque<Fault>,
    pub seen: Vec<(Op, u64, u32, bool)>,
}

impl Served {
    pub fn new(setup: &Setup) -> Served {
        let shared = setup.shared.as_ref().map(|(_, disk)| disk.clone());
        let disk = shared.unwrap_or_else(|| Memory::new(setup.bytes).unwrap());
        Served {
            end: setup.target(&disk),
            out: Outbox::new(Pool::new(setup.pool[0], setup.pool[1])),
            disk,
            geometry: setup.geometry(),
            flying: VecDeque::new(),
            faults: VecDeque::new(),
            seen: Vec::new(),
        }
    }

    /// Takes requests to the disk. Whether there were any.
    pub fn take_requests(&mut self) -> bool {
        let requests = self.end.requests();
        let any = !requests.is_empty();
        self.flying.extend(requests.drain(..).map(|request| {
            assert!([UnitId(0), SECOND_UNIT].contains(&request.unit));
            request.io
        }));
        any
    }

    /// The disk does the I/O at this place of the queue.
    pub fn complete(&mut self, now: Nanos, at: usize) {
        let mut io = self.flying.remove(at).unwrap();
        let result = match self.faults.pop_front() {
            Some(fault) => Err(fault),
            None => self.execute(&mut io),
        };
        self.seen.push((io.op, io.offset, io.len, io.fua));
        let (tag, cause) = (Tag(io.tag.0 & 0xffff_ffff), Cause::NONE);
        let done = Done { tag, result, cause, buf: io.buf };
        self.end.complete(now, done, &mut self.out);
    }

    fn execute(&mut self, io: &mut Io) -> Result<(), Fault> {
        self.geometry.check(io)?;
        let len = io.len as usize;
        match io.op {
            Op::Read => self.disk.read(io.offset, &mut io.buf.as_mut().unwrap()[..len]),
            Op::Write => self.disk.write(io.offset, &io.buf.as_ref().unwrap()[..len]),
            Op::Flush => {}
            Op::Trim | Op::WriteZeroes => self.disk.zero(io.offset, io.len.into()),
        }
        Ok(())
    }

    pub fn complete_all(&mut self, now: Nanos) {
        while self.take_requests() || !self.flying.is_empty() {
            if !self.flying.is_empty() {
                self.complete(now, 0);
            }
        }
    }
}

/// Both ends joined.
pub struct Pair {
    pub initiator: IscsiInitiator,
    pub out: Outbox,
    pub served: Served,
    pub now: Nanos,
    /// Size of the pieces of the stream: at most this many bytes, exactly this many if `rng` is
    /// `None`.
    pub chunk: usize,
    pub rng: Option<Rng>,
    /// I/Os complete in any order, some time later.
    pub shuffle: bool,
}

impl Pair {
    pub fn new(setup: &Setup) -> Pair {
        Pair {
            initiator: setup.initiator(),
            out: Outbox::new(Pool::new(256, 64)),
            served: Served::new(setup),
            now: Nanos(0),
            chunk: usize::MAX,
            rng: None,
            shuffle: false,
        }
    }

    /// A pair with its session ready.
    pub fn ready(setup: &Setup) -> Pair {
        let mut pair = Pair::new(setup);
        pair.open();
        pair
    }

    pub fn open(&mut self) {
        assert_eq!(self.initiator.deadline(), Some(self.now));
        self.initiator.tick(self.now, &mut self.out).unwrap();
        self.drive();
        assert!(matches!(self.initiator.phase(), Phase::Ready(_)), "{:?}", self.initiator.phase());
    }

    fn cut<'a>(&mut self, bytes: &mut &'a [u8]) -> &'a [u8] {
        let most = match &mut self.rng {
            Some(rng) => 1 + rng.below(self.chunk as u64) as usize,
            None => self.chunk,
        };
        let (now, rest) = bytes.split_at(most.min(bytes.len()));
        *bytes = rest;
        now
    }

    /// Carries bytes both ways once. Whether there were any.
    pub fn step(&mut self) -> Result<bool, Ending> {
        let upward = drain(&mut self.out);
        let mut rest = &upward[..];
        while !rest.is_empty() {
            let part = self.cut(&mut rest);
            self.served.end.receive(self.now, part, &mut self.served.out)?;
            self.disk();
        }
        let mut moved = self.disk();
        let downward = drain(&mut self.served.out);
        let mut rest = &downward[..];
        while !rest.is_empty() {
            let part = self.cut(&mut rest);
            self.initiator.receive(self.now, part, &mut self.out)?;
        }
        moved |= !upward.is_empty() || !downward.is_empty();
        Ok(moved)
    }

    /// Lets the disk do some of its work.
    fn disk(&mut self) -> bool {
        let mut moved = self.served.take_requests();
        let mut count = self.served.flying.len();
        if let (true, Some(rng)) = (self.shuffle, &mut self.rng) {
            count = rng.below(count as u64 + 1) as usize;
        }
        for _ in 0..count {
            let flying = self.served.flying.len() as u64;
            let at = match (self.shuffle, &mut self.rng) {
                (true, Some(rng)) => rng.below(flying) as usize,
                _ => 0,
            };
            self.served.complete(self.now, at);
            moved |= self.served.take_requests();
        }
        moved || !self.served.flying.is_empty()
    }

    /// Carries bytes until nothing moves any more.
    pub fn drive(&mut self) {
        while self.step().unwrap() {}
    }

    pub fn buf(&self, len: usize) -> Buf {
        self.out.pool().take(len).unwrap()
    }

    pub fn submit(&mut self, io: Io) {
        assert!(self.initiator.room() > 0, "no room");
        self.initiator.submit(self.now, io, &mut self.out);
    }

    /// One I/O from beginning to end.
    pub fn run(&mut self, io: Io) -> Done {
        self.submit(io);
        self.drive();
        let done = self.initiator.done().pop().expect("an I/O is answered");
        assert!(self.initiator.done().is_empty());
        done
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Fault> {
        let mut buf = self.buf(data.len());
        buf[..data.len()].copy_from_slice(data);
        let done = self.run(io(Op::Write, offset, data.len() as u32, Some(buf)));
        self.out.pool().give(done.buf.unwrap());
        done.result
    }

    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, Fault> {
        let mut buf = self.buf(len as usize);
        buf.fill(0xcc);
        let done = self.run(io(Op::Read, offset, len, Some(buf)));
        let buf = done.buf.unwrap();
        let data = buf[..len as usize].to_vec();
        self.out.pool().give(buf);
        done.result.map(|()| data)
    }

    /// Checks that no I/Os, buffers or slots are left.
    pub fn assert_idle(&mut self) {
        assert!(self.served.flying.is_empty());
        assert_eq!(self.served.out.pool().lent(), [0, 0], "buffers of the target");
        assert_eq!(self.out.pool().lent(), [0, 0], "buffers of the initiator");
        assert_eq!(self.initiator.room(), usize::from(self.room_when_idle()));
    }

    fn room_when_idle(&self) -> u16 {
        64
    }

    pub fn close(&mut self) {
        self.initiator.close(self.now, &mut self.out);
        assert_eq!(self.initiator.phase(), Phase::Closing);
        self.drive();
        assert_eq!(self.initiator.phase(), Phase::Closed);
        assert!(self.served.end.finished());
    }
}

pub fn io(op: Op, offset: u64, len: u32, buf: Option<Buf>) -> Io {
    Io { tag: Tag(offset ^ 0xabcd_0000_0000_0000), op, fua: false, len, offset, buf }
}

/// Bytes that differ from place to place and from seed to seed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(rng.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
