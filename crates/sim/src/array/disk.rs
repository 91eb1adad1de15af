//! Legs of a simulated array: durable data, and a volatile cache that a crash may lose.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use block::{Cause, Done, Fault, Geometry, Io, Lane, Nanos, Op, Rng};
use volume::array::{DATA_OFFSET, Page, Put, page_slots, region_bytes};

use super::rig::{ARRAY, BYTES, REGIONS};

mod leg;

/// Bytes of a page, which is written completely or not at all; only superblocks may be torn.
pub(super) const PAGE: u64 = 4096;
/// Unit of tearing.
const SECTOR: usize = 512;
/// Number of turns of which one executes late I/Os, too.
const LATE: u64 = 200;
/// Queue depth of a lane.
const DEPTH: usize = 8;

/// Content of a page: of data its first eight bytes, of superblocks and maps everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Value(u64),
    Bytes(Box<[u8; PAGE as usize]>),
}

/// A cached version of a page, not durable yet.
struct Version {
    content: Content,
    /// I/O that wrote the content.
    io: u64,
    /// Completion time of that I/O.
    answered: u64,
}

/// The true state of a leg.
pub(super) struct Leg {
    pub(super) bytes: u64,
    durable: BTreeMap<u64, Content>,
    cache: BTreeMap<u64, Vec<Version>>,
    /// Every I/O fails.
    pub(super) dead: bool,
    /// The host cannot be reached, or does not run. The disk may be working.
    pub(super) away: bool,
    /// Some writes fail.
    pub(super) sick: bool,
    /// A page that cannot be read until it is rewritten.
    pub(super) bad: Option<u64>,
    /// The leg refuses some I/Os, in this way.
    pub(super) refuses: Option<Fault>,
    /// The leg completes nothing.
    pub(super) hung: bool,
    /// Some writes are executed long after they were submitted.
    pub(super) slow: bool,
    /// The leg does not promise that trimmed blocks read as zeroes, and ignores some trims.
    pub(super) careless: bool,
    /// The leg can neither trim nor zero.
    pub(super) plain: bool,
    /// The leg went back to a snapshot, and was not recorded as in since.
    pub(super) rolled: bool,
    /// Snapshot of the leg's data.
    image: Option<BTreeMap<u64, Content>>,
    /// Number of changes of the map's marks at the time of the image, and now.
    image_marks: u64,
    marks: u64,
    /// The leg's true data, while the snapshot replaces them.
    own: Option<BTreeMap<u64, Content>>,
    /// The leg is full: superblocks, maps and pages never written before cannot be written.
    pub(super) full: bool,
    /// The leg had a bad page: failed reads are repaired, even in clean regions.
    pub(super) spoiled: bool,
    /// Lanes with a lower epoch are broken.
    epoch: u32,
    /// The leg had faults, and was not resynced since.
    pub(super) blamed: bool,
    /// The leg lost its cache, and was not recorded as in since.
    pub(super) lost: bool,
    /// Number of losses of acknowledged writes, of losses that a flush has reported, and of losses
    /// that were repaired. The next flush fails, as that of a remote volume does.
    losses: u64,
    losses_told: u64,
    forgiven: u64,
}

struct Taken {
    id: u64,
    way: usize,
    /// Epoch of its lane.
    epoch: u32,
    leg: usize,
    io: Io,
    /// Time of the submission, as a count of events and by the clock.
    at: u64,
    came: Nanos,
    /// Earliest time of a late execution; without one, in one of many turns.
    late: Option<Nanos>,
    result: Option<Result<(), Fault>>,
}

/// All legs with their I/Os.
pub(super) struct World {
    pub(super) legs: Vec<Leg>,
    taken: Vec<Taken>,
    /// Completions by lane.
    answered: Vec<Vec<Done>>,
    /// Lanes that were dropped with I/Os in flight.
    gone: Vec<usize>,
    /// Completions not polled yet.
    waiting: usize,
    next: u64,
    /// Legs that are recorded as in and read.
    pub(super) in_it: u32,
    /// Violation: a write to a leg whose map did not mark it.
    pub(super) unmarked: Option<String>,
    /// Flushes that failed for a cache that was lost.
    pub(super) told: u64,
    /// Pages torn by crashes.
    pub(super) torn: u64,
    /// Events so far.
    pub(super) time: u64,
    /// The clock.
    pub(super) now: Nanos,
    /// Maximum time after its submission until a late I/O is executed, and until a hung leg fails
    /// an I/O. Without this limit the time is random, and a leg hangs for ever.
    pub(super) latest: Option<Nanos>,
    pub(super) rng: Rng,
}

pub(super) type Shared = Rc<RefCell<World>>;

impl World {
    /// Legs of these sizes.
    pub(super) fn new(legs: Vec<u64>, rng: Rng) -> Shared {
        Rc::new(RefCell::new(World {
            legs: legs.into_iter().map(Leg::new).collect(),
            taken: Vec::new(),
            answered: Vec::new(),
            gone: Vec::new(),
            waiting: 0,
            next: 1,
            in_it: 0,
            unmarked: None,
            told: 0,
            torn: 0,
            time: 1,
            now: Nanos(0),
            latest: None,
            rng,
        }))
    }

    /// Whether nothing happens without a lane. I/Os of a hung leg wait for time, as late writes do.
    pub(super) fn is_idle(&self) -> bool {
        let waits = |taken: &Taken| taken.late.is_some() || self.legs[taken.leg].hung;
        self.taken.iter().all(waits) && self.waiting == 0
    }

    /// Whether a leg has I/Os that are executed late.
    pub(super) fn is_late(&self, leg: usize) -> bool {
        self.taken.iter().any(|taken| taken.leg == leg && taken.late.is_some())
    }

    /// Time at which a late I/O is executed next, or a hung leg fails one.
    pub(super) fn next_late(&self) -> Option<Nanos> {
        let latest = self.latest?;
        let due = self.taken.iter().filter_map(|taken| match self.legs[taken.leg].hung {
            true => Some(taken.came + latest),
            false => taken.late,
        });
        due.filter(|at| *at > self.now).min()
    }

    /// Time at which a just submitted I/O is executed, if it is a late one. The array's own I/Os
    /// are seldom late: everything waits for them.
    fn lateness(&mut self, leg: usize, io: &Io) -> Option<Nanos> {
        let changes = matches!(io.op, Op::Write | Op::Trim | Op::WriteZeroes);
        if !self.legs[leg].slow || !changes {
            return None;
        }
        let data = io.offset >= DATA_OFFSET && io.offset / PAGE < self.legs[leg].tail();
        let one_in = match self.latest {
            None => 4,
            Some(_) if data => 2,
            Some(_) => 12,
        };
        if self.rng.below(one_in) > 0 {
            return None;
        }
        let wait = self.latest.map_or(0, |latest| self.rng.below(latest.0));
        Some(self.now + Nanos(1 + wait))
    }

    /// An I/O in flight is executed, or completes.
    pub(super) fn go_on(&mut self) {
        let (late_too, now) = (self.rng.below(LATE) == 0, self.now);
        let lively = |taken: &Taken| match (self.latest, self.legs[taken.leg].hung) {
            (Some(latest), true) => now >= taken.came + latest,
            (Some(_), false) => taken.late.is_none_or(|at| now >= at),
            (None, hung) => !hung && (taken.late.is_none() || late_too),
        };
        let count = self.taken.iter().filter(|taken| lively(taken)).count() as u64;
        if count == 0 {
            return;
        }
        let at = self.rng.below(count) as usize;
        let lively = self.taken.iter().enumerate().filter(|(_, taken)| lively(taken));
        let (index, _) = lively.into_iter().nth(at).expect("there are more");
        self.time += 1;
        let Taken { id, leg, io, at, result, epoch, late, .. } = &mut self.taken[index];
        *late = None;
        let leg = &mut self.legs[*leg];
        let Some(result) = *result else {
            *result = Some(match *epoch == leg.epoch {
                // The I/O fails, as a kernel fails one after half a minute.
                true if leg.hung => Err(Fault::Medium),
                true if io.op == Op::Flush && leg.tells() => {
                    self.told += 1;
                    Err(Fault::Medium)
                }
                true => execute(leg, io, *id, *at, &mut self.rng),
                // The lane of the I/O is broken.
                false => Err(Fault::Disconnected),
            });
            // A later step completes the I/O.
            return;
        };
        let Taken { id, way, io, epoch, .. } = self.taken.swap_remove(index);
        for versions in leg.cache.values_mut() {
            let own = versions.iter_mut().filter(|version| version.io == id);
            own.for_each(|version| version.answered = self.time);
        }
        // A dead leg reports no successes any more.
        let result = if leg.dead || epoch != leg.epoch { Err(Fault::Disconnected) } else { result };
        let done = Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf };
        if !self.gone.contains(&way) {
            self.answered[way].push(done);
            self.waiting += 1;
        }
    }

    /// Checks that the leg's durable map marks data before it is changed.
    fn look(&mut self, leg: usize, io: &Io) {
        let of = &self.legs[leg];
        let changes = matches!(io.op, Op::Write | Op::Trim | Op::WriteZeroes);
        let data = io.offset >= DATA_OFFSET && io.offset / PAGE < of.tail();
        let looks = changes && data && self.in_it & 1 << leg != 0 && !of.spoiled;
        if looks && !of.is_marked(io.offset, io.len.into()) {
            let at = io.offset - DATA_OFFSET;
            self.unmarked = Some(format!("leg {leg} is written at {at}, and its map is clean"));
        }
    }

    /// Kills a leg; with `power` it loses its cache.
    pub(super) fn fail(&mut self, leg: usize, power: bool) {
        let (leg, rng) = (&mut self.legs[leg], &mut self.rng);
        (leg.dead, leg.blamed) = (true, true);
        // A power loss breaks its connections, too.
        if power || rng.below(2) == 0 {
            leg.epoch += 1;
        }
        leg.lost |= power;
        if power {
            leg.losses += u64::from(!leg.cache.is_empty());
            leg.lose(rng);
        }
    }

    /// Ends the I/Os of a leg whose server has died: each is executed, or never will be.
    pub(super) fn end_all_of(&mut self, leg: usize) {
        for Taken { io, result, id, .. } in self.taken.extract_if(.., |taken| taken.leg == leg) {
            let (leg, rng) = (&mut self.legs[leg], &mut self.rng);
            let writes = matches!(io.op, Op::Write | Op::Trim | Op::WriteZeroes);
            if result.is_none() && writes && rng.below(2) == 0 {
                leg.write(&io, id, || true);
            }
        }
        // The next flush covers them: nothing is in flight any more.
        let time = self.time;
        let versions = self.legs[leg].cache.values_mut().flatten();
        versions.for_each(|version| version.answered = version.answered.min(time));
    }

    /// Removes a leg's host; with `power` the leg loses its cache.
    pub(super) fn leave(&mut self, leg: usize, power: bool) {
        let (leg, rng) = (&mut self.legs[leg], &mut self.rng);
        (leg.away, leg.blamed) = (true, true);
        leg.lost |= power;
        if power {
            leg.lose(rng);
        }
    }

    /// Kills a leg and reverts it to its snapshot. False if it has none.
    pub(super) fn roll_back(&mut self, leg: usize) -> bool {
        if !self.legs[leg].roll_back() {
            return false;
        }
        self.fail(leg, false);
        // The leg's host was restarted.
        self.legs[leg].epoch += 1;
        true
    }

    /// Kills the only leg, and replaces its data with its older snapshot.
    pub(super) fn show_older(&mut self, leg: usize) {
        self.fail(leg, true);
        let of = &mut self.legs[leg];
        of.own = of.image.clone().map(|image| std::mem::replace(&mut of.durable, image));
        of.bad = None;
    }

    /// Kills the process: some I/Os in flight are executed, pages are torn, and caches lost.
    pub(super) fn crash(&mut self) {
        self.answered.clear();
        self.gone.clear();
        self.waiting = 0;
        for Taken { leg, io, result, id, epoch, .. } in std::mem::take(&mut self.taken) {
            let (leg, rng) = (&mut self.legs[leg], &mut self.rng);
            // I/Os in flight of a host that reverted to a snapshot are gone with it.
            if leg.rolled && epoch != leg.epoch {
                continue;
            }
            let writes = matches!(io.op, Op::Write | Op::Trim | Op::WriteZeroes);
            if result.is_some() || leg.dead || !writes || rng.below(3) == 0 {
                continue;
            }
            let data = DATA_OFFSET..leg.tail() * PAGE;
            match rng.below(3) {
                0 if !data.contains(&io.offset) => {
                    self.torn += 1;
                    tear(leg, &io, rng);
                }
                _ => leg.write(&io, id, || rng.below(2) == 0),
            }
        }
        for leg in &mut self.legs {
            leg.lose(&mut self.rng);
            leg.forgiven = leg.losses;
        }
    }
}

/// Writes some sectors of a page.
fn tear(leg: &mut Leg, io: &Io, rng: &mut Rng) {
    let Some(buf) = &io.buf else { return };
    let mut bytes = leg.bytes_at(io.offset);
    for at in (0..PAGE as usize).step_by(SECTOR) {
        if rng.below(2) == 0 {
            bytes[at..at + SECTOR].copy_from_slice(&buf[at..at + SECTOR]);
        }
    }
    leg.cache.remove(&(io.offset / PAGE));
    leg.put(io.offset / PAGE * PAGE, &bytes);
}

fn execute(leg: &mut Leg, io: &mut Io, id: u64, at: u64, rng: &mut Rng) -> Result<(), Fault> {
    let pages = io.offset / PAGE..(io.offset + u64::from(io.len)) / PAGE;
    let bad = leg.bad.is_some_and(|bad| pages.contains(&bad));
    match io.op {
        _ if leg.dead => return Err(Fault::Disconnected),
        Op::Trim | Op::WriteZeroes if leg.plain => return Err(Fault::Unsupported),
        _ if leg.refuses.is_some() && rng.below(3) == 0 => {
            return Err(leg.refuses.unwrap_or(Fault::ReadOnly));
        }
        Op::Flush if leg.sick && rng.below(6) == 0 => return Err(Fault::Medium),
        Op::Trim if leg.careless && rng.below(2) == 0 => {}
        Op::Read if bad => return Err(Fault::Medium),
        Op::Write if !leg.has_room(io) => return Err(Fault::NoSpace),
        Op::Write if leg.sick && rng.below(3) == 0 => {
            // The failed I/O may have been executed all the same.
            if rng.below(2) == 0 {
                leg.write(io, id, || true);
            }
            return Err(Fault::Medium);
        }
        Op::Read => leg.read(io),
        Op::Flush => leg.flush(at),
        Op::Write | Op::Trim | Op::WriteZeroes => leg.write(io, id, || true),
    }
    Ok(())
}

/// A lane to a leg.
pub(super) struct Way {
    number: usize,
    leg: usize,
    epoch: u32,
    world: Shared,
}

impl Way {
    pub(super) fn new(world: &Shared, leg: usize) -> Way {
        let mut of = world.borrow_mut();
        of.answered.push(Vec::new());
        let (number, epoch) = (of.answered.len() - 1, of.legs[leg].epoch);
        Way { number, leg, epoch, world: Rc::clone(world) }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        let world = &mut *self.world.borrow_mut();
        // Completions for a dead process are gone already.
        if let Some(answered) = world.answered.get_mut(self.number) {
            world.waiting -= answered.len();
            answered.clear();
            world.gone.push(self.number);
        }
    }
}

impl Lane for Way {
    fn geometry(&self) -> Geometry {
        let leg = &self.world.borrow().legs[self.leg];
        Geometry { trim_zeroes: !leg.careless, ..Geometry::new(leg.bytes, 512) }
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        if ios.is_empty() {
            return;
        }
        let mut world = self.world.borrow_mut();
        let mine = world.taken.iter().filter(|taken| taken.way == self.number).count();
        // A full queue refuses the rest.
        let room = DEPTH.saturating_sub(mine).min(ios.len());
        for io in ios.drain(..room) {
            world.next += 1;
            world.time += 1;
            world.look(self.leg, &io);
            let (id, at, way, leg) = (world.next, world.time, self.number, self.leg);
            let epoch = self.epoch;
            let late = world.lateness(leg, &io);
            let came = world.now;
            world.taken.push(Taken { id, way, epoch, leg, io, at, came, late, result: None });
        }
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        let world = &mut *self.world.borrow_mut();
        // Nobody polls the lanes of a dead process.
        if let Some(answered) = world.answered.get_mut(self.number) {
            world.waiting -= answered.len();
            done.append(answered);
        }
    }

    fn wake(&self) -> Option<Nanos> {
        let world = self.world.borrow();
        let answered = world.answered.get(self.number).is_some_and(|done| !done.is_empty());
        answered.then_some(Nanos(0))
    }

    fn forget_losses(&self) -> bool {
        let leg = &mut self.world.borrow_mut().legs[self.leg];
        std::mem::replace(&mut leg.forgiven, leg.losses) < leg.losses
    }

    fn broken(&self) -> Option<&str> {
        let broken = self.world.borrow().legs[self.leg].epoch != self.epoch;
        broken.then_some("the way is gone")
    }
}
