//! Volumes that complete I/Os late, out of order, wrongly, or never.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use block::{Buf, Cause, Done, Fault, Geometry, Io, Lane, Memory, Nanos, Op, Plant, Rng, planted};
use serve::LaneSource;
use volume::{Ground, OpenError, Volume};

use crate::core::SimCore;

/// Bytes of a block.
pub(crate) const BLOCK: u32 = 512;

/// Maximum bytes of a write without a request for its data; the target requests the data of longer
/// ones, and gets them with the submit after the poll that saw the request.
const UNASKED_BYTES: u32 = 4 * BLOCK;

/// Poll interval of an idle lane.
const LOOK: Nanos = Nanos::from_secs(1);

/// The storage of a unit.
pub(crate) struct Disk {
    pub(crate) bytes: Memory,
    /// Minimum and maximum latency.
    pub(crate) latency: (Nanos, Nanos),
    /// Time before which no I/O completes.
    pub(crate) stalled: Nanos,
    /// Failure rate: about one I/O in this many fails, until this time.
    pub(crate) faulty: (u64, Nanos),
    /// Delay rate: about one I/O in this many that begins before this time takes this much longer,
    /// and is executed at the end.
    pub(crate) late: (u64, Nanos, Nanos),
    /// Flushes that failed.
    pub(crate) losses: Rc<Cell<u64>>,
    /// Time until a lane is open, and until when opening fails.
    pub(crate) opening: Nanos,
    pub(crate) refuses: Nanos,
    /// Lanes opened before then are broken.
    pub(crate) broken: Nanos,
    /// Lanes opened: core, time, and whether refused.
    pub(crate) begun: Vec<(usize, Nanos, bool)>,
    /// I/Os in flight.
    pub(crate) in_flight: usize,
    /// Writes that were acknowledged, and those that a flush has made durable.
    acknowledged: u64,
    durable: u64,
    /// Open lanes, and the time at which each last sent data that a poll had queued: answers to
    /// pings, for instance.
    pub(crate) answered: BTreeMap<u64, Nanos>,
    lanes: u64,
    pub(crate) rng: Rng,
}

/// A disk shared by all cores.
pub(crate) type SharedDisk = Rc<RefCell<Disk>>;

impl Disk {
    pub(crate) fn new(bytes: u64, rng: Rng) -> SharedDisk {
        Rc::new(RefCell::new(Disk {
            bytes: Memory::new(bytes).expect("memory for a disk"),
            latency: (Nanos(1000), Nanos(1000)),
            stalled: Nanos(0),
            faulty: (0, Nanos(0)),
            late: (0, Nanos(0), Nanos(0)),
            losses: Rc::default(),
            opening: Nanos(0),
            refuses: Nanos(0),
            broken: Nanos(0),
            begun: Vec::new(),
            in_flight: 0,
            acknowledged: 0,
            durable: 0,
            answered: BTreeMap::new(),
            lanes: 0,
            rng,
        }))
    }

    /// Whether a lane is open, or acknowledged writes are not durable: not after a removal.
    pub(crate) fn is_left_open(&self) -> bool {
        !self.answered.is_empty() || self.durable < self.acknowledged
    }

    /// Acknowledged writes are lost, which hosts will be told, or their server is dead.
    pub(crate) fn forget_writes(&mut self) {
        self.durable = self.acknowledged;
    }

    /// Executes an I/O.
    fn execute(&mut self, io: &mut Io) {
        let (offset, len) = (io.offset, io.len as usize);
        match io.op {
            Op::Read => self.bytes.read(offset, &mut buf(io)[..len]),
            Op::Write => self.bytes.write(offset, &buf(io)[..len]),
            Op::Flush => {}
            Op::Trim | Op::WriteZeroes => self.bytes.zero(offset, len as u64),
        }
    }
}

fn buf(io: &mut Io) -> &mut Buf {
    io.buf.as_mut().expect("reads and writes carry a buffer")
}

/// A core's lane to a disk.
struct SimLane {
    disk: SharedDisk,
    geometry: Geometry,
    opened: Nanos,
    /// Time at which the lane will be open; never if the disk refuses.
    opens: Nanos,
    refused: bool,
    is_open: bool,
    broken: Option<String>,
    /// I/Os with their completion times; for long writes the time at which the target requests the
    /// data.
    flying: VecDeque<(Nanos, Io)>,
    asked: VecDeque<(Nanos, Io)>,
    /// Data that is sent with the next submit.
    queued: Vec<Io>,
    number: u64,
    polled: Nanos,
}

impl SimLane {
    fn answer(&mut self, at: usize, result: Result<(), Fault>, done: &mut Vec<Done>) {
        let Some((_, Io { tag, op, buf, fua, offset, .. })) = self.flying.remove(at) else {
            return;
        };
        let mut disk = self.disk.borrow_mut();
        disk.in_flight -= 1;
        match op {
            Op::Flush => {
                // Failed writes were reported as lost.
                disk.durable = disk.durable.max(offset);
                let losses = u64::from(result.is_err());
                disk.losses.set(disk.losses.get() + losses);
            }
            Op::Write | Op::WriteZeroes if result.is_ok() && !fua => disk.acknowledged += 1,
            Op::Read | Op::Write | Op::WriteZeroes | Op::Trim => {}
        }
        done.push(Done { tag, result, cause: Cause::NONE, buf });
    }
}

impl Drop for SimLane {
    /// Drops I/Os in flight, as a killed server does: the disk has executed some, or only their
    /// first blocks.
    fn drop(&mut self) {
        let mut disk = self.disk.borrow_mut();
        disk.answered.remove(&self.number);
        disk.in_flight -= self.asked.len() + self.queued.len();
        for (_, mut io) in self.flying.drain(..) {
            disk.in_flight -= 1;
            let blocks = disk.rng.below(2 + u64::from(io.len / BLOCK)) as u32;
            io.len = io.len.min(blocks * BLOCK);
            if self.geometry.check(&io).is_ok() {
                disk.execute(&mut io);
            }
        }
    }
}

impl Lane for SimLane {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        let mut disk = self.disk.borrow_mut();
        if self.broken.is_none() {
            disk.answered.insert(self.number, self.polled);
        }
        let asks = disk.latency.0;
        self.flying.extend(self.queued.drain(..).map(|io| (now + asks, io)));
        for mut io in ios.drain(..) {
            assert!(self.is_open, "an I/O for a lane that is not open");
            if io.op == Op::Flush {
                // Until it is answered: how many writes it covers.
                io.offset = disk.acknowledged;
            }
            let (least, most) = disk.latency;
            let mut span = least + Nanos(disk.rng.below(most.0 - least.0 + 1));
            let (one_of, longer, until) = disk.late;
            if one_of > 0 && now < until && disk.rng.below(one_of) == 0 {
                span = span + Nanos(disk.rng.below(longer.0));
            }
            disk.in_flight += 1;
            match io.op == Op::Write && io.len > UNASKED_BYTES && asks > Nanos(0) {
                true => self.asked.push_back((now + asks, io)),
                false => self.flying.push_back((now + span, io)),
            }
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        if !self.is_open && self.broken.is_none() && now >= self.opens {
            match self.refused {
                true => self.broken = Some("refused".to_owned()),
                false => self.is_open = true,
            }
        }
        if self.disk.borrow().broken > self.opened {
            self.broken.get_or_insert("connection lost".to_owned());
            self.disk.borrow_mut().answered.remove(&self.number);
            self.disk.borrow_mut().forget_writes();
            self.flying.append(&mut self.asked);
            self.flying.extend(self.queued.drain(..).map(|io| (now, io)));
            while !self.flying.is_empty() {
                self.answer(0, Err(Fault::Disconnected), done);
            }
            return;
        }
        self.polled = now;
        if now < self.disk.borrow().stalled {
            return;
        }
        let asked = self.asked.iter().take_while(|(due, _)| *due <= now).count();
        self.queued.extend(self.asked.drain(..asked).map(|(_, io)| io));
        while let Some(at) = self.flying.iter().position(|(due, _)| *due <= now) {
            let mut disk = self.disk.borrow_mut();
            let (one_of, until) = disk.faulty;
            let fails = one_of > 0 && now < until && disk.rng.below(one_of) == 0;
            let io = &mut self.flying[at].1;
            let checked = self.geometry.check(io);
            // A failed I/O may have been executed.
            if checked.is_ok() && (!fails || disk.rng.below(2) == 0) {
                disk.execute(io);
            }
            drop(disk);
            let result = if fails { Err(Fault::Medium) } else { checked };
            self.answer(at, result, done);
        }
    }

    fn wake(&self) -> Option<Nanos> {
        if !self.is_open {
            return self.broken.is_none().then_some(self.opens);
        }
        let disk = self.disk.borrow();
        let mut coming = self.flying.iter().chain(&self.asked).map(|(due, _)| *due).peekable();
        if coming.peek().is_none() && self.queued.is_empty() {
            // A connection checks from time to time whether it is still usable.
            return self.broken.is_none().then_some(self.polled + LOOK);
        }
        if disk.broken > self.opened {
            return Some(Nanos(0));
        }
        // Queued I/Os do not count: polling submits them.
        coming.map(|due| due.max(disk.stalled)).min()
    }

    fn is_open(&self) -> bool {
        self.is_open && self.broken.is_none()
    }

    fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }
}

/// Opens the lanes of a world's cores.
#[derive(Clone)]
pub(crate) struct Disks {
    pub(crate) disks: Vec<SharedDisk>,
    /// The disk of each unit.
    pub(crate) units: Rc<RefCell<Vec<usize>>>,
    pub(crate) geometry: Geometry,
    /// Time until which each core that blocks in its loop is stalled.
    pub(crate) stands: Rc<RefCell<Vec<Nanos>>>,
    pub(crate) core: usize,
}

impl LaneSource<SimCore> for Disks {
    fn begin(&self, unit: usize, core: &SimCore) -> Result<Box<dyn Lane>, String> {
        use os::Reactor;
        let now = core.now();
        let disk = &self.disks[self.units.borrow()[unit]];
        let (opening, refused) = (disk.borrow().opening, now < disk.borrow().refuses);
        disk.borrow_mut().begun.push((self.core, now, refused));
        let waits = planted(Plant::OpenInLoop);
        if waits {
            let mut stands = self.stands.borrow_mut();
            stands[self.core] = stands[self.core].max(now) + opening;
        }
        if waits && refused {
            return Err("refused".to_owned());
        }
        let number = {
            let disk = &mut *disk.borrow_mut();
            disk.lanes += 1;
            disk.lanes
        };
        Ok(Box::new(SimLane {
            number,
            polled: now,
            asked: VecDeque::new(),
            queued: Vec::new(),
            disk: Rc::clone(disk),
            geometry: self.geometry,
            opened: now,
            opens: if waits { now } else { now + opening },
            refused,
            is_open: opening == Nanos(0) && !refused,
            broken: None,
            flying: VecDeque::new(),
        }))
    }
}

/// The server's view of a disk.
pub(crate) struct SimVolume {
    pub(crate) geometry: Geometry,
    /// Memory of the server, if the unit is memory.
    pub(crate) memory: Option<Memory>,
}

impl Volume for SimVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lane(&self, _: &os::Core) -> Result<Box<dyn Lane>, OpenError> {
        unreachable!("the cores of a simulation get their lanes from its disks")
    }

    fn kind(&self) -> &'static str {
        "simulated"
    }

    fn ground(&self) -> Ground {
        Ground::Nothing
    }

    fn memory(&self) -> Option<Memory> {
        self.memory.clone()
    }
}

/// A volume for the server's directory.
pub(crate) fn volume(geometry: Geometry, memory: Option<Memory>) -> Arc<dyn Volume> {
    Arc::new(SimVolume { geometry, memory })
}
