//! Mirrors against a model: several lanes, legs that complete in any order, fail and leave. The
//! model has the values that a read of each block may return.

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use block::{Buf, Cause, Done, Fault, Io, Nanos, Op, Pool, Rng, Tag};

use super::*;

/// Blocks of a volume, in two granules.
const BLOCKS: u64 = 6;
const BLOCK: u64 = 32 << 10;
/// A leg holds a value for each block.
type Values = [u32; BLOCKS as usize];

/// The true state of one leg.
#[derive(Default)]
struct Leg {
    values: Values,
    /// A block that cannot be read until it is rewritten.
    bad: Option<u64>,
    /// Every further I/O fails.
    dead: bool,
    /// Some writes fail, in one way; reads succeed.
    sick: bool,
    sickness: Option<Fault>,
    /// Some reads fail, in one way.
    blind: Option<Fault>,
    /// The leg can neither trim nor zero, or does not promise that trimmed blocks read as zeroes.
    plain: bool,
    careless: bool,
    /// The leg completes nothing until it recovers.
    hung: bool,
    /// The leg has failed at least once.
    blamed: bool,
}

struct Taken {
    lane: usize,
    leg: usize,
    io: Io,
    /// The result of a read, fixed some time before it completes.
    found: Option<Result<u32, Fault>>,
}

#[derive(Default)]
struct World {
    legs: Vec<Leg>,
    taken: Vec<Taken>,
    answered: BTreeMap<(usize, usize), Vec<Done>>,
    now: Nanos,
}

struct Way {
    lane: usize,
    leg: usize,
    world: Rc<RefCell<World>>,
}

impl Lane for Way {
    fn geometry(&self) -> Geometry {
        let careless = self.world.borrow().legs[self.leg].careless;
        Geometry { trim_zeroes: !careless, ..Geometry::new(BLOCKS * BLOCK, 512) }
    }
    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        let mut world = self.world.borrow_mut();
        let (lane, leg) = (self.lane, self.leg);
        // A full queue refuses the rest.
        let in_flight = world.taken.iter().filter(|taken| (taken.lane, taken.leg) == (lane, leg));
        let room = 4_usize.saturating_sub(in_flight.count());
        for io in ios.drain(..room.min(ios.len())) {
            world.taken.push(Taken { lane, leg, io, found: None });
        }
    }
    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        let mut world = self.world.borrow_mut();
        done.append(world.answered.entry((self.lane, self.leg)).or_default());
    }
    fn wake(&self) -> Option<Nanos> {
        None
    }
}

fn blocks(io: &Io) -> std::ops::Range<usize> {
    let first = (io.offset / BLOCK) as usize;
    first..first + (u64::from(io.len) / BLOCK) as usize
}

fn value(buf: &Option<Buf>, block: usize) -> u32 {
    let at = block * BLOCK as usize;
    u32::from_le_bytes(buf.as_ref().unwrap()[at..at + 4].try_into().unwrap())
}

impl World {
    /// An I/O in flight is executed, or completes.
    fn go_on(&mut self, rng: &mut Rng) {
        let well = |taken: &&Taken| !self.legs[taken.leg].hung;
        let count = self.taken.iter().filter(well).count() as u64;
        if count == 0 {
            return;
        }
        let at = rng.below(count) as usize;
        let well = |(_, taken): &(usize, &Taken)| !self.legs[taken.leg].hung;
        let (index, _) = self.taken.iter().enumerate().filter(well).nth(at).unwrap();
        let Taken { leg, io, found, .. } = &mut self.taken[index];
        let leg = &mut self.legs[*leg];
        let result = match found {
            Some(found) => *found,
            None => {
                let bad = leg.bad.filter(|bad| blocks(io).contains(&(*bad as usize)));
                let result = match (leg.dead, io.op, bad) {
                    (true, ..) => Err(Fault::Disconnected),
                    (_, Op::Read, Some(_)) => Err(Fault::Medium),
                    (_, Op::Read, _) if rng.below(3) == 0 => leg.blind.map_or(Ok(0), Err),
                    (_, Op::Write, _) if leg.sick && rng.below(3) == 0 => {
                        Err(leg.sickness.unwrap_or(Fault::Medium))
                    }
                    (_, Op::Trim | Op::WriteZeroes, _) if leg.plain => Err(Fault::Unsupported),
                    _ => Ok(0),
                };
                // A careless leg may ignore a trim.
                let ignores = io.op == Op::Trim && leg.careless && rng.below(2) == 0;
                if result.is_ok() && !ignores {
                    leg.touch(io);
                }
                *found = Some(result);
                // Another step completes the I/O.
                return;
            }
        };
        let Taken { lane, leg, io, .. } = self.taken.swap_remove(index);
        let result = result.map(|_| ());
        let done = Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf };
        self.answered.entry((lane, leg)).or_default().push(done);
    }
}

impl Leg {
    fn touch(&mut self, io: &mut Io) {
        for (at, block) in blocks(io).enumerate() {
            match io.op {
                Op::Read => {
                    let from = at * BLOCK as usize;
                    let word = self.values[block].to_le_bytes();
                    io.buf.as_mut().unwrap()[from..from + 4].copy_from_slice(&word);
                }
                Op::Write => {
                    self.values[block] = value(&io.buf, at);
                    self.bad = self.bad.filter(|bad| *bad != block as u64);
                }
                Op::Trim | Op::WriteZeroes => {
                    self.values[block] = 0;
                    self.bad = self.bad.filter(|bad| *bad != block as u64);
                }
                Op::Flush => {}
            }
        }
    }
}

/// Values that a block may hold: that of the last completed change, and of those in flight since.
#[derive(Clone, Default)]
struct Block {
    may: Vec<u32>,
    in_flight: Vec<(u64, u32)>,
    /// Trims in flight that may be left undone, and the values that they leave.
    undone: Vec<(u64, Vec<u32>)>,
}

/// A read in flight, and the values that each of its blocks may return.
struct Asked {
    first: usize,
    may: Vec<Vec<u32>>,
}

/// Maximum time for which a leg may leave an I/O unanswered.
const LIMIT: Nanos = Nanos::from_secs(30);

struct Run {
    world: Rc<RefCell<World>>,
    /// All legs promise zeroes: a trim is never left undone.
    zeroes: bool,
    lanes: Vec<MirrorLane<Legs>>,
    legs: Arc<Legs>,
    model: Vec<Block>,
    reads: BTreeMap<u64, Asked>,
    changes: BTreeMap<u64, (usize, usize)>,
    pool: Pool,
    next: u64,
}

impl Run {
    fn new(legs: usize, lanes: usize, rng: &mut Rng) -> Run {
        let world = Rc::new(RefCell::new(World::default()));
        let leg =
            || Leg { plain: rng.below(8) == 0, careless: rng.below(8) == 0, ..Leg::default() };
        world.borrow_mut().legs.resize_with(legs, leg);
        let zeroes = world.borrow().legs.iter().all(|leg| !leg.careless);
        let names = (0..legs).map(|leg| format!("leg {leg}")).collect();
        let shared = Arc::new(Legs::new(names, LIMIT));
        let claims = Arc::new(Claims::new(BLOCKS * BLOCK));
        let numbers: Arc<Numbers> = Arc::default();
        let pool = Pool::new(64, 64);
        let lane = |lane| {
            let number = numbers.take().unwrap();
            let way = |leg| -> Option<Box<dyn Lane>> {
                Some(Box::new(Way { lane, leg, world: world.clone() }))
            };
            let ways = (0..legs).map(way).collect();
            let geometry = Geometry { trim_zeroes: zeroes, ..Geometry::new(BLOCKS * BLOCK, 512) };
            let shared = (shared.clone(), claims.clone());
            MirrorLane::new(ways, number, geometry, shared, pool.clone())
        };
        let lanes = (0..lanes).map(lane).collect();
        let zero = Block { may: vec![0], ..Block::default() };
        Run {
            lanes,
            legs: shared,
            world,
            zeroes,
            model: vec![zero; BLOCKS as usize],
            reads: BTreeMap::new(),
            changes: BTreeMap::new(),
            pool,
            next: 1,
        }
    }

    fn blame(&self, leg: usize) -> RefMut<'_, Leg> {
        let mut leg = RefMut::map(self.world.borrow_mut(), |world| &mut world.legs[leg]);
        leg.blamed = true;
        leg
    }

    fn submit(&mut self, lane: usize, op: Op, first: u64, count: u64) {
        let number = self.next;
        self.next += 1;
        let (offset, len) = (first * BLOCK, (count * BLOCK) as u32);
        let mut buf = match op {
            Op::Read | Op::Write => Some(self.pool.take_beyond(len as usize).unwrap()),
            _ => None,
        };
        let range = first as usize..(first + count) as usize;
        let new = if op == Op::Write { number as u32 } else { 0 };
        match op {
            Op::Read => {
                let may = |block: &Block| {
                    let in_flight = block.in_flight.iter().map(|(_, value)| *value);
                    block.may.iter().copied().chain(in_flight).collect()
                };
                let may = self.model[range].iter().map(may).collect();
                self.reads.insert(number, Asked { first: first as usize, may });
            }
            Op::Flush => {}
            _ => {
                for block in range.clone() {
                    if let (Op::Write, Some(buf)) = (op, &mut buf) {
                        let at = (block - range.start) * BLOCK as usize;
                        buf[at..at + 4].copy_from_slice(&new.to_le_bytes());
                    }
                    self.model[block].in_flight.push((number, new));
                    self.model[block].undone.retain(|(this, _)| *this != number);
                    if op == Op::Trim && !self.zeroes {
                        // The trim may be left undone.
                        let undone = self.model[block].may.clone();
                        self.model[block].undone.push((number, undone));
                    }
                }
                // Reads in flight may return it, too.
                for asked in self.reads.values_mut() {
                    for (at, may) in asked.may.iter_mut().enumerate() {
                        if range.contains(&(asked.first + at)) {
                            may.push(new);
                        }
                    }
                }
                self.changes.insert(number, (range.start, range.end));
            }
        }
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
        let io = Io { tag: Tag(number), op, fua: false, len, offset, buf };
        let now = self.world.borrow().now;
        self.lanes[lane].submit(now, &mut VecDeque::from([io]));
    }

    fn poll(&mut self, lane: usize) -> Result<(), String> {
        let mut done = Vec::new();
        let now = self.world.borrow().now;
        self.lanes[lane].poll(now, &mut done);
        self.lanes[lane].submit(now, &mut VecDeque::new());
        done.into_iter().try_for_each(|one| self.check(one))
    }

    fn quiet(&mut self, rng: &mut Rng) -> Result<(), String> {
        for round in 0..1000 {
            if round >= 400 {
                // Legs that hang now are failed.
                let mut world = self.world.borrow_mut();
                world.now = world.now + Nanos::from_millis(100);
            }
            (0..self.lanes.len()).try_for_each(|lane| self.poll(lane))?;
            if !self.world.borrow().taken.is_empty() {
                self.world.borrow_mut().go_on(rng);
            }
        }
        Ok(())
    }

    fn check(&mut self, one: Done) -> Result<(), String> {
        let number = one.tag.0;
        if let Some(asked) = self.reads.remove(&number) {
            if one.result.is_err() {
                return self.may_fail(one.result);
            }
            for (at, may) in asked.may.iter().enumerate() {
                let found = value(&one.buf, at);
                if !may.contains(&found) {
                    let block = asked.first + at;
                    return Err(format!("block {block} reads as {found}, and may be {may:?}"));
                }
            }
        } else if let Some((from, to)) = self.changes.remove(&number) {
            for block in &mut self.model[from..to] {
                let at = block.in_flight.iter().position(|(this, _)| *this == number);
                let (_, value) = block.in_flight.remove(at.ok_or("answered twice")?);
                match one.result {
                    // Overlapping changes in flight are ordered before or after it.
                    Ok(()) if block.in_flight.is_empty() => {
                        let undone = block.undone.iter().find(|(this, _)| *this == number);
                        let undone = undone.map_or(Vec::new(), |(_, values)| values.clone());
                        let before = if undone.is_empty() { Vec::new() } else { block.may.clone() };
                        block.may = [vec![value], undone, before].concat();
                    }
                    _ => block.may.push(value),
                }
            }
            if one.result.is_err() {
                return self.may_fail(one.result);
            }
        }
        Ok(())
    }

    /// Checks an error: no I/O fails while a leg is good; the last leg that is in decides.
    fn may_fail(&self, result: Result<(), Fault>) -> Result<(), String> {
        let world = self.world.borrow();
        let mut legs = (0..world.legs.len()).filter(|leg| self.legs.has(*leg));
        match legs.all(|leg| world.legs[leg].blamed) {
            true => Ok(()),
            false => Err(format!("{result:?} though a leg is good")),
        }
    }
}

/// Faults of a leg that has failed, whatever they say of the I/O.
const FAULTS: [Fault; 6] = [
    Fault::Medium,
    Fault::ReadOnly,
    Fault::OutOfRange,
    Fault::Unsupported,
    Fault::Aborted,
    Fault::NoSpace,
];

/// One run with this seed.
fn run(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed, 7);
    let (legs, lanes) = (2 + rng.below(2) as usize, 1 + rng.below(3) as usize);
    let mut run = Run::new(legs, lanes, &mut rng);
    for _ in 0..200 {
        let lane = rng.below(lanes as u64) as usize;
        match rng.below(20) {
            0..=5 => {
                let op = [Op::Read, Op::Read, Op::Write, Op::Write, Op::Trim, Op::Flush]
                    [rng.below(6) as usize];
                let first = rng.below(BLOCKS);
                let count = 1 + rng.below((BLOCKS - first).min(3));
                run.submit(lane, op, first, count);
            }
            6 if rng.below(10) == 0 => {
                // One leg stays good.
                let leg = 1 + rng.below(legs as u64 - 1) as usize;
                run.blame(leg).dead = true;
            }
            7 if rng.below(4) == 0 => {
                let leg = 1 + rng.below(legs as u64 - 1) as usize;
                run.blame(leg).bad = Some(rng.below(BLOCKS));
            }
            8 if rng.below(4) == 0 => {
                let sickness = FAULTS[rng.below(FAULTS.len() as u64) as usize];
                for leg in (0..legs).filter(|_| rng.below(2) == 0) {
                    run.blame(leg).sick = true;
                    run.blame(leg).sickness = Some(sickness);
                }
            }
            6 if rng.below(10) == 0 => {
                let leg = 1 + rng.below(legs as u64 - 1) as usize;
                run.blame(leg).blind = Some(FAULTS[rng.below(FAULTS.len() as u64) as usize]);
            }
            7 if rng.below(10) == 0 => {
                // The leg hangs until all lanes have failed it, or for a moment.
                let leg = 1 + rng.below(legs as u64 - 1) as usize;
                let hung = !run.world.borrow().legs[leg].hung;
                run.blame(leg).hung = hung;
            }
            8..=12 => run.poll(lane)?,
            _ if !run.world.borrow().taken.is_empty() => run.world.borrow_mut().go_on(&mut rng),
            _ => {}
        }
    }
    // Quiesced: everything completes, reads return the written data, and all legs that are in are
    // identical.
    run.quiet(&mut rng)?;
    // The mirror waits for the last leg, and abandoned I/Os of others are executed late.
    run.world.borrow_mut().legs.iter_mut().for_each(|leg| leg.hung = false);
    run.quiet(&mut rng)?;
    (0..BLOCKS).for_each(|block| run.submit(0, Op::Read, block, 1));
    run.quiet(&mut rng)?;
    if !run.reads.is_empty() || !run.changes.is_empty() {
        return Err(format!("{} I/Os are never answered", run.reads.len() + run.changes.len()));
    }
    let world = run.world.borrow();
    let live: Vec<&Leg> =
        (0..legs).filter(|leg| run.legs.has(*leg)).map(|leg| &world.legs[leg]).collect();
    match live.iter().all(|leg| leg.values == live[0].values) {
        true => Ok(()),
        false => {
            Err(format!("legs differ: {:?}", live.iter().map(|leg| leg.values).collect::<Vec<_>>()))
        }
    }
}

#[test]
fn any_order_of_ios_answers_and_faults() {
    for seed in 0..1000 {
        run(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Several cores write the same blocks of a mirror of memory, each straight to both legs: the legs
/// end up identical.
#[test]
fn legs_in_memory_stay_the_same() {
    const BYTES: u64 = 256 << 10;
    let ram = || -> Arc<dyn Volume> {
        crate::open(&"ram:256k".parse().unwrap(), Purpose::Write).unwrap()
    };
    let legs = vec![ram(), ram()];
    let names = vec!["a".to_owned(), "b".to_owned()];
    let mirror = Mirror::open(legs.clone(), names, Purpose::Store).unwrap();
    std::thread::scope(|scope| {
        for number in 1..4_u8 {
            let mirror = &mirror;
            scope.spawn(move || {
                let core = Core::open(Pool::new(64, 64)).unwrap();
                let mut lane = mirror.lane(&core).unwrap();
                let mut rng = Rng::new(7, number.into());
                let (mut left, mut done, mut ios) = (3000_u32, Vec::new(), VecDeque::new());
                let mut in_flight = 0;
                while left > 0 || in_flight > 0 {
                    for _ in 0..rng.below(9).min(left.into()) {
                        let len = (1 + rng.below(40)) * 512;
                        let offset = rng.below((BYTES - len) / 512) * 512;
                        let mut buf = Buf::new(len as usize).unwrap();
                        buf[..len as usize].fill(number << 6 | (left as u8 & 63));
                        let (tag, op, len) = (Tag(left.into()), Op::Write, len as u32);
                        ios.push_back(Io { tag, op, fua: false, len, offset, buf: Some(buf) });
                        (left, in_flight) = (left - 1, in_flight + 1);
                    }
                    lane.submit(Nanos(0), &mut ios);
                    lane.poll(Nanos(0), &mut done);
                    assert!(done.iter().all(|done| done.result == Ok(())), "{done:?}");
                    in_flight -= done.drain(..).count();
                }
            });
        }
    });
    let core = Core::open(Pool::new(64, 64)).unwrap();
    let held = legs.iter().map(|leg| {
        let mut lane = leg.lane(&core).unwrap();
        let (op, tag, buf) = (Op::Read, Tag(0), Buf::new(BYTES as usize).ok());
        let io = Io { tag, op, fua: false, len: BYTES as u32, offset: 0, buf };
        let mut done = Vec::new();
        lane.submit(Nanos(0), &mut VecDeque::from([io]));
        lane.poll(Nanos(0), &mut done);
        done.remove(0).buf.unwrap()[..BYTES as usize].to_vec()
    });
    let held: Vec<Vec<u8>> = held.collect();
    assert!(held[0] == held[1], "the legs differ");
    assert!(held[0].iter().any(|byte| byte >> 6 > 1), "several have written");
}

/// A leg refuses trims, zeroings and one write: only this leg is at fault.
#[test]
fn a_leg_that_cannot_trim_is_zeroed_and_stays() {
    let mut rng = Rng::new(1, 1);
    let mut run = Run::new(2, 1, &mut rng);
    for leg in &mut run.world.borrow_mut().legs {
        *leg = Leg { values: [7; BLOCKS as usize], ..Leg::default() };
    }
    run.world.borrow_mut().legs[1].plain = true;
    for op in [Op::Trim, Op::WriteZeroes] {
        run.submit(0, op, 1, 3);
        run.quiet(&mut rng).unwrap();
        let world = run.world.borrow();
        for leg in &world.legs {
            assert_eq!(leg.values, [7, 0, 0, 0, 7, 7], "{op:?}");
        }
        assert!(run.legs.has(0) && run.legs.has(1));
    }
}
