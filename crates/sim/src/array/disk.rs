//! Legs of a simulated array: durable data, and a volatile cache that a crash may lose.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use block::{Cause, Done, Fault, Geometry, Io, Lane, Nanos, Op, Rng};
use volume::array::{DATA_OFFSET, Page, Put, page_slots, region_bytes};

use super::rig::{ARRAY, BYTES};

/// Bytes of a page, which is written whole or not at all; only superblocks may be torn.
pub(super) const PAGE: u64 = 4096;
/// Unit of tearing.
const SECTOR: usize = 512;
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
    /// The I/O that wrote it.
    io: u64,
    /// When that I/O completed.
    answered: u64,
}

/// The true state of a leg.
pub(super) struct Leg {
    pub(super) bytes: u64,
    durable: BTreeMap<u64, Content>,
    cache: BTreeMap<u64, Vec<Version>>,
    /// Every I/O fails.
    pub(super) dead: bool,
    /// Its host cannot be reached, or does not run. Its disk may be working.
    pub(super) away: bool,
    /// Some writes fail.
    pub(super) sick: bool,
    /// A page that cannot be read until it is rewritten.
    pub(super) bad: Option<u64>,
    /// It refuses some I/Os, in this way.
    pub(super) refuses: Option<Fault>,
    /// It completes nothing.
    pub(super) hung: bool,
    /// It does not promise that trimmed blocks read as zeroes, and ignores some trims.
    pub(super) careless: bool,
    /// It can neither trim nor zero.
    pub(super) plain: bool,
    /// It went back to a snapshot, and was not recorded as in since.
    pub(super) rolled: bool,
    /// A snapshot of it.
    image: Option<BTreeMap<u64, Content>>,
    /// It is full: superblocks, maps and pages never written before cannot be written.
    pub(super) full: bool,
    /// It had a bad page: failed reads are repaired, even in clean regions.
    spoiled: bool,
    /// Lanes with a lower epoch are broken.
    epoch: u32,
    /// It had faults, and was not resynced since.
    pub(super) blamed: bool,
    /// It lost its cache, and was not recorded as in since.
    pub(super) lost: bool,
}

struct Taken {
    id: u64,
    way: usize,
    /// Epoch of its lane.
    epoch: u32,
    leg: usize,
    io: Io,
    /// When it was submitted.
    at: u64,
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
    /// Pages torn by crashes.
    pub(super) torn: u64,
    /// Events so far.
    pub(super) time: u64,
    pub(super) rng: Rng,
}

pub(super) type Shared = Rc<RefCell<World>>;

impl Leg {
    fn new(bytes: u64) -> Leg {
        let (durable, cache) = (BTreeMap::new(), BTreeMap::new());
        let (dead, sick, full, bad, spoiled) = (false, false, false, None, false);
        Leg {
            bytes,
            durable,
            cache,
            dead,
            away: false,
            sick,
            bad,
            full,
            spoiled,
            refuses: None,
            hung: false,
            careless: false,
            plain: false,
            rolled: false,
            image: None,
            epoch: 0,
            blamed: false,
            lost: false,
        }
    }

    /// Makes a page unreadable until it is rewritten.
    pub(super) fn spoil(&mut self, page: u64) {
        (self.bad, self.spoiled, self.blamed) = (Some(page), true, true);
    }

    /// Whether it does everything that it is asked for.
    pub(super) fn is_well(&self) -> bool {
        let refuses = self.refuses.is_some() || self.hung;
        !self.is_gone() && !self.sick && !self.full && !refuses
    }

    /// Whether nobody can use it.
    pub(super) fn is_gone(&self) -> bool {
        self.dead || self.away
    }

    /// Takes a snapshot.
    pub(super) fn snap(&mut self) {
        let pages = self.durable.keys().chain(self.cache.keys());
        let held = pages.filter_map(|page| Some((*page, self.page(*page)?.clone())));
        self.image = Some(held.collect());
    }

    /// Whether its snapshot is older than what another leg holds, as far as maps can tell: one
    /// since which no page was written is the same.
    pub(super) fn image_is_before(&self, other: &Leg) -> bool {
        let own = self.image.as_ref().and_then(map_of).map(|page| page.version());
        let newest = map_of(&other.durable).map(|page| page.version());
        own.zip(newest).is_some_and(|(own, newest)| own.is_before(newest))
    }

    /// Goes back to the snapshot. False if there is none.
    fn roll_back(&mut self) -> bool {
        let Some(image) = self.image.clone() else { return false };
        (self.durable, self.bad, self.rolled) = (image, None, true);
        self.cache.clear();
        true
    }

    /// Whether the durable map marks all of a range.
    fn is_marked(&self, offset: u64, len: u64) -> bool {
        let Some(page) = map_of(&self.durable) else { return false };
        let region = |at: u64| ((at - DATA_OFFSET) / region_bytes(BYTES)) as usize;
        (region(offset)..=region(offset + len - 1)).all(|region| page.is_dirty(region))
    }

    /// Whether there is room for a write.
    fn has_room(&self, io: &Io) -> bool {
        let pages = io.offset / PAGE..(io.offset + u64::from(io.len)) / PAGE;
        let mut data = pages.filter(|page| (DATA_OFFSET / PAGE..self.tail()).contains(page));
        !self.full || data.next().is_some_and(|page| self.page(page).is_some())
    }

    /// The page after the data.
    fn tail(&self) -> u64 {
        (self.bytes >> 12) - 256
    }

    /// Content of a page; `None` for zeroes.
    pub(super) fn page(&self, page: u64) -> Option<&Content> {
        let cached = self.cache.get(&page).and_then(|versions| versions.last());
        cached.map(|version| &version.content).or_else(|| self.durable.get(&page))
    }

    /// The 4 KiB of a superblock or map page.
    pub(super) fn bytes_at(&self, offset: u64) -> Vec<u8> {
        match self.page(offset / PAGE) {
            Some(Content::Bytes(bytes)) => bytes.to_vec(),
            _ => vec![0; PAGE as usize],
        }
    }

    /// All non-zero data pages of an array of `bytes` bytes.
    pub(super) fn data(&self, bytes: u64) -> BTreeMap<u64, Content> {
        let data = DATA_OFFSET / PAGE..(DATA_OFFSET + bytes) / PAGE;
        let pages = self.durable.keys().chain(self.cache.keys()).filter(|page| data.contains(page));
        let held = pages.filter_map(|page| Some((*page, self.page(*page)?.clone())));
        held.filter(|(_, content)| matches!(content, Content::Value(value) if *value != 0))
            .collect()
    }

    /// Stores bytes durably.
    pub(super) fn put(&mut self, offset: u64, bytes: &[u8]) {
        let bytes: Box<[u8; PAGE as usize]> = Box::new(bytes.try_into().expect("a page"));
        self.durable.insert(offset / PAGE, Content::Bytes(bytes));
    }

    /// Fills the space behind an array of `bytes` bytes with old data.
    pub(super) fn fill_behind(&mut self, bytes: u64, junk: u64) {
        for page in (DATA_OFFSET + bytes) / PAGE..self.tail() {
            self.durable.insert(page, Content::Value(junk));
        }
    }

    /// Executes a write of a growth, durably, or a part of it.
    pub(super) fn grow(&mut self, step: &volume::array::Step, whole: bool, rng: &mut Rng) {
        match &step.put {
            Put::Bytes(bytes) => {
                let mut page = self.bytes_at(step.offset);
                let sectors = (0..PAGE as usize).step_by(SECTOR);
                for at in sectors.filter(|_| whole || rng.below(2) == 0) {
                    page[at..at + SECTOR].copy_from_slice(&bytes[at..at + SECTOR]);
                }
                self.cache.remove(&(step.offset / PAGE));
                self.put(step.offset, &page);
            }
            Put::Zeroes(len) => {
                for page in step.offset / PAGE..(step.offset + len) / PAGE {
                    if whole || rng.below(2) == 0 {
                        self.cache.remove(&page);
                        self.durable.remove(&page);
                    }
                }
            }
        }
    }

    /// Loses a random part of its cache.
    fn lose(&mut self, rng: &mut Rng) {
        for (page, mut versions) in std::mem::take(&mut self.cache) {
            let kept = rng.below(versions.len() as u64 + 1) as usize;
            if kept > 0 {
                self.durable.insert(page, versions.swap_remove(kept - 1).content);
            }
        }
    }

    /// Executes a write, trim or zeroing on the pages that `which` picks.
    fn write(&mut self, io: &Io, id: u64, mut which: impl FnMut() -> bool) {
        for at in 0..u64::from(io.len) / PAGE {
            if !which() {
                continue;
            }
            let page = io.offset / PAGE + at;
            self.bad = self.bad.filter(|bad| *bad != page);
            let from = (at * PAGE) as usize;
            let content = match &io.buf {
                Some(buf) if io.offset < DATA_OFFSET || page >= self.tail() => {
                    let bytes = buf[from..from + PAGE as usize].try_into().expect("a page");
                    Content::Bytes(Box::new(bytes))
                }
                Some(buf) => {
                    let word = buf[from..from + 8].try_into().expect("a word");
                    Content::Value(u64::from_le_bytes(word))
                }
                None => Content::Value(0),
            };
            if io.fua {
                self.cache.remove(&page);
                self.durable.insert(page, content);
            } else {
                let version = Version { content, io: id, answered: u64::MAX };
                self.cache.entry(page).or_default().push(version);
            }
        }
    }

    fn read(&self, io: &mut Io) {
        let Some(buf) = io.buf.as_mut() else { return };
        for at in 0..u64::from(io.len) / PAGE {
            let from = (at * PAGE) as usize;
            match self.page(io.offset / PAGE + at) {
                Some(Content::Bytes(bytes)) => {
                    buf[from..from + PAGE as usize].copy_from_slice(&bytes[..]);
                }
                Some(Content::Value(value)) => {
                    buf[from..from + 8].copy_from_slice(&value.to_le_bytes());
                }
                None if io.offset < DATA_OFFSET => buf[from..from + PAGE as usize].fill(0),
                None => buf[from..from + 8].fill(0),
            }
        }
    }

    /// Makes writes durable that completed before the flush was submitted.
    fn flush(&mut self, came: u64) {
        let durable = &mut self.durable;
        self.cache.retain(|page, versions| {
            let covered = versions.iter().rposition(|version| version.answered < came);
            if let Some(last) = covered {
                let version = versions.drain(..=last).next_back().expect("one is covered");
                durable.insert(*page, version.content);
            }
            !versions.is_empty()
        });
    }
}

/// The first page of the map among these pages.
fn map_of(pages: &BTreeMap<u64, Content>) -> Option<Page> {
    let slots = page_slots(0).into_iter().filter_map(|at| match pages.get(&(at / PAGE)) {
        Some(Content::Bytes(bytes)) => Some(&bytes[..]),
        _ => None,
    });
    Page::newest(0, ARRAY, region_bytes(BYTES), slots)
}

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
            torn: 0,
            time: 1,
            rng,
        }))
    }

    /// Whether nothing happens without a lane. What a hung leg holds waits for time.
    pub(super) fn is_idle(&self) -> bool {
        self.taken.iter().all(|taken| self.legs[taken.leg].hung) && self.waiting == 0
    }

    /// An I/O in flight is executed, or completes.
    pub(super) fn go_on(&mut self) {
        let lively = |taken: &Taken| !self.legs[taken.leg].hung;
        let count = self.taken.iter().filter(|taken| lively(taken)).count() as u64;
        if count == 0 {
            return;
        }
        let at = self.rng.below(count) as usize;
        let lively = self.taken.iter().enumerate().filter(|(_, taken)| lively(taken));
        let (index, _) = lively.into_iter().nth(at).expect("there are more");
        self.time += 1;
        let Taken { id, leg, io, at, result, epoch, .. } = &mut self.taken[index];
        let leg = &mut self.legs[*leg];
        let Some(result) = *result else {
            *result = Some(match *epoch == leg.epoch {
                true => execute(leg, io, *id, *at, &mut self.rng),
                // Its lane is broken.
                false => Err(Fault::Disconnected),
            });
            // Another step completes it.
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

    /// A leg dies; with `power` it loses its cache.
    pub(super) fn fail(&mut self, leg: usize, power: bool) {
        let (leg, rng) = (&mut self.legs[leg], &mut self.rng);
        (leg.dead, leg.blamed) = (true, true);
        // A power loss breaks its connections, too.
        if power || rng.below(2) == 0 {
            leg.epoch += 1;
        }
        leg.lost |= power;
        if power {
            leg.lose(rng);
        }
    }

    /// The server of a leg has died: what its disk had under way is executed, or never will be.
    pub(super) fn end_all_of(&mut self, leg: usize) {
        for Taken { io, result, id, .. } in self.taken.extract_if(.., |taken| taken.leg == leg) {
            let (leg, rng) = (&mut self.legs[leg], &mut self.rng);
            let writes = matches!(io.op, Op::Write | Op::Trim | Op::WriteZeroes);
            if result.is_none() && writes && rng.below(2) == 0 {
                leg.write(&io, id, || true);
            }
        }
    }

    /// A leg's host is gone; with `power` it loses its cache.
    pub(super) fn leave(&mut self, leg: usize, power: bool) {
        let (leg, rng) = (&mut self.legs[leg], &mut self.rng);
        (leg.away, leg.blamed) = (true, true);
        leg.lost |= power;
        if power {
            leg.lose(rng);
        }
    }

    /// A leg dies and goes back to its snapshot. False if it has none.
    pub(super) fn roll_back(&mut self, leg: usize) -> bool {
        if !self.legs[leg].roll_back() {
            return false;
        }
        self.fail(leg, false);
        // Its host was started anew.
        self.legs[leg].epoch += 1;
        true
    }

    /// The process dies: some I/Os in flight are executed, pages are torn, and caches lost.
    pub(super) fn crash(&mut self) {
        self.answered.clear();
        self.gone.clear();
        self.waiting = 0;
        for Taken { leg, io, result, id, epoch, .. } in std::mem::take(&mut self.taken) {
            let (leg, rng) = (&mut self.legs[leg], &mut self.rng);
            // What a host had in flight when it went back to a snapshot is gone with it.
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
            // It may have been executed all the same.
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
        // Those of a dead process are gone already.
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
        // A full queue leaves the rest.
        let room = DEPTH.saturating_sub(mine).min(ios.len());
        for io in ios.drain(..room) {
            world.next += 1;
            world.time += 1;
            world.look(self.leg, &io);
            let (id, at, way, leg) = (world.next, world.time, self.number, self.leg);
            let epoch = self.epoch;
            world.taken.push(Taken { id, way, epoch, leg, io, at, result: None });
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

    fn broken(&self) -> Option<&str> {
        let broken = self.world.borrow().legs[self.leg].epoch != self.epoch;
        broken.then_some("the way is gone")
    }
}
