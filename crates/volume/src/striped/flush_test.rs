//! Flushes against a model of parts that lose unflushed writes: writes, flushes, completions and
//! faults in any order, by several lanes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use block::{Cause, Done, Fault, Io, Nanos, Op, Rng, Tag};

use super::*;

/// Changes by offset on the whole volume, which is unique.
type Changes = BTreeSet<u64>;

/// Content of a part, and its durable content.
#[derive(Default)]
struct Held {
    done: Changes,
    durable: Changes,
    flushes: u32,
}

/// An I/O that a part's lane has accepted. A flush covers changes completed before it began.
struct Taken {
    lane: usize,
    part: usize,
    io: Io,
    covers: Changes,
}

#[derive(Default)]
struct World {
    parts: Vec<Held>,
    taken: Vec<Taken>,
    answered: BTreeMap<(usize, usize), Vec<Done>>,
    faults: u32,
}

/// A lane to one part.
struct Way {
    lane: usize,
    part: usize,
    world: Rc<RefCell<World>>,
}

impl Lane for Way {
    fn geometry(&self) -> Geometry {
        Geometry::new(1 << 40, 512)
    }
    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        let mut world = self.world.borrow_mut();
        let (lane, part) = (self.lane, self.part);
        // A full queue refuses the rest.
        let in_flight = world.taken.iter().filter(|taken| (taken.lane, taken.part) == (lane, part));
        let room = 3_usize.saturating_sub(in_flight.count());
        for io in ios.drain(..room.min(ios.len())) {
            let covers = world.parts[part].done.clone();
            world.parts[part].flushes += u32::from(io.op == Op::Flush);
            world.taken.push(Taken { lane, part, io, covers });
        }
    }
    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        let mut world = self.world.borrow_mut();
        done.append(world.answered.entry((self.lane, self.part)).or_default());
    }
    fn wake(&self) -> Option<Nanos> {
        None
    }
}

impl World {
    /// Completes one of a part's I/Os.
    fn answer(&mut self, index: usize, result: Result<(), Fault>, place: impl Fn(&Taken) -> u64) {
        let taken = self.taken.swap_remove(index);
        let part = &mut self.parts[taken.part];
        match (taken.io.op, result) {
            (Op::Write | Op::Trim | Op::WriteZeroes, Ok(())) => {
                part.done.insert(place(&taken));
                if taken.io.fua && taken.io.op == Op::Write {
                    part.durable.insert(place(&taken));
                }
            }
            (Op::Flush, Ok(())) => part.durable.extend(&taken.covers),
            (_, Err(_)) => self.faults += 1,
            (Op::Read, Ok(())) => {}
        }
        let Io { tag, buf, .. } = taken.io;
        let done = Done { tag, result, cause: Cause::NONE, buf };
        self.answered.entry((taken.lane, taken.part)).or_default().push(done);
    }
}

/// An I/O of the test in flight.
enum Asked {
    Other,
    Change(u64),
    /// Changes that must be durable if the flush succeeds.
    Flush(Changes),
}

struct Rig {
    rng: Rng,
    world: Rc<RefCell<World>>,
    lanes: Vec<Box<dyn Lane>>,
    stripe_bytes: u64,
    asked: BTreeMap<u64, Asked>,
    acknowledged: Changes,
    next: u64,
}

impl Rig {
    fn new(seed: u64, striped: bool) -> Rig {
        let mut rng = Rng::new(seed, 0);
        let (parts, lanes) = (rng.below(4) + 1, rng.below(3) + 1);
        let null = || -> Arc<dyn Volume> { Arc::new(crate::null::Null::new(1 << 40, 512)) };
        let volumes = (0..parts).map(|_| null()).collect();
        let whole = match striped {
            true => Striped::new(volumes, 1024, None),
            false => Striped::joined(volumes),
        };
        let whole = whole.unwrap_or_else(|error| panic!("{error}"));
        let mut world = World::default();
        world.parts.resize_with(parts as usize, Held::default);
        let world = Rc::new(RefCell::new(world));
        let way = |lane, part| -> Box<dyn Lane> {
            Box::new(Way { lane, part, world: Rc::clone(&world) })
        };
        let ways = |lane| {
            whole
                .around((0..parts as usize).map(|part| way(lane, part)).collect(), &Pool::new(9, 9))
        };
        let lanes = (0..lanes as usize).map(ways).collect();
        let (asked, acknowledged) = (BTreeMap::new(), Changes::new());
        let stripe_bytes = whole.stripe_bytes;
        Rig { rng, world, lanes, stripe_bytes, asked, acknowledged, next: 0 }
    }

    /// Offset on the whole volume of a part's I/O.
    fn place(&self) -> impl Fn(&Taken) -> u64 + use<> {
        let (stripe, parts) = (self.stripe_bytes, self.world.borrow().parts.len() as u64);
        move |taken| {
            let (number, inside) = (taken.io.offset / stripe, taken.io.offset % stripe);
            (number * parts + taken.part as u64) * stripe + inside
        }
    }

    fn submit(&mut self, lane: usize) {
        let mut ios = VecDeque::new();
        for _ in 0..self.rng.below(4) {
            let op = [Op::Write, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes, Op::Read];
            let op = op[self.rng.below(6) as usize];
            self.next += 1;
            let tag = Tag(self.next);
            let parts = self.world.borrow().parts.len() as u64;
            // Striped: the next stripes; concatenated: an offset on each part in turn.
            let offset = match self.stripe_bytes {
                1024 => self.next * 512,
                bytes => self.next % parts * bytes + self.next * 512,
            };
            let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, 512) };
            let asked = match op {
                Op::Read => Asked::Other,
                Op::Flush => Asked::Flush(self.acknowledged.clone()),
                Op::Write | Op::Trim | Op::WriteZeroes => Asked::Change(offset),
            };
            self.asked.insert(tag.0, asked);
            let fua = self.rng.below(4) == 0;
            ios.push_back(Io { tag, op, fua, len, offset, buf: None });
        }
        self.lanes[lane].submit(Nanos(0), &mut ios);
    }

    fn answer(&mut self, faults: bool) {
        let count = self.world.borrow().taken.len() as u64;
        if count == 0 {
            return;
        }
        let index = self.rng.below(count) as usize;
        let fault = [Fault::Medium, Fault::Disconnected][self.rng.below(2) as usize];
        let result = if faults && self.rng.below(5) == 0 { Err(fault) } else { Ok(()) };
        let place = self.place();
        self.world.borrow_mut().answer(index, result, place);
    }

    fn poll(&mut self, lane: usize) {
        let mut done = Vec::new();
        self.lanes[lane].poll(Nanos(0), &mut done);
        for Done { tag, result, .. } in done {
            match self.asked.remove(&tag.0).expect("answered once") {
                Asked::Change(place) if result.is_ok() => {
                    self.acknowledged.insert(place);
                }
                Asked::Flush(must) if result.is_ok() => {
                    let world = self.world.borrow();
                    let is_durable =
                        |place: &&u64| world.parts.iter().any(|part| part.durable.contains(place));
                    let lost: Vec<_> = must.iter().filter(|place| !is_durable(place)).collect();
                    assert!(lost.is_empty(), "flush {} lost the changes at {lost:?}", tag.0);
                }
                _ => {}
            }
        }
    }

    /// Completes everything in flight, without faults.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            for lane in 0..self.lanes.len() {
                self.lanes[lane].submit(Nanos(0), &mut VecDeque::new());
                self.answer(false);
                self.poll(lane);
            }
            if self.asked.is_empty() {
                return;
            }
        }
        panic!("{} I/Os are never answered", self.asked.len());
    }

    fn flush(&mut self, lane: usize) -> u32 {
        let flushes = |rig: &Rig| rig.world.borrow().parts.iter().map(|part| part.flushes).sum();
        let before: u32 = flushes(self);
        self.next += 1;
        self.asked.insert(self.next, Asked::Flush(self.acknowledged.clone()));
        let (tag, op) = (Tag(self.next), Op::Flush);
        let io = Io { tag, op, fua: false, len: 0, offset: 0, buf: None };
        self.lanes[lane].submit(Nanos(0), &mut [io].into());
        self.settle();
        flushes(self) - before
    }
}

fn play(seed: u64, striped: bool) -> u32 {
    let mut rig = Rig::new(seed, striped);
    for _ in 0..120 {
        let lane = rig.rng.below(rig.lanes.len() as u64) as usize;
        match rig.rng.below(4) {
            0 => rig.submit(lane),
            1 => rig.poll(lane),
            _ => rig.answer(true),
        }
    }
    rig.settle();
    let lane = rig.rng.below(rig.lanes.len() as u64) as usize;
    rig.flush(lane);
    // Everything is durable now, so one part completes the flush for all.
    assert_eq!(rig.flush(lane), 1, "parts without writes were asked");
    rig.world.borrow().faults
}

#[test]
fn a_flush_that_succeeds_covers_all_that_was_acknowledged_before() {
    for striped in [true, false] {
        let mut faults = 0;
        for seed in 0..1500 {
            let played = std::panic::catch_unwind(|| play(seed, striped));
            faults += played.unwrap_or_else(|_| panic!("seed {seed}, in stripes: {striped}"));
        }
        assert!(faults > 1500, "{faults} faults were too few to tell");
    }
}
