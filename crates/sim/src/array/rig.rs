//! Runs a story: an array over simulated legs, with its keeper, lanes and clients.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use block::{Buf, Done, Fault, Geometry, Io, Lane, Nanos, Op, Pool, Rng, Tag};
use volume::array::{
    Array, Assembly, CheckOrder, DATA_OFFSET, Found, Generation, Keeper, LegState, Maps, Member,
    SUPERBLOCK_BYTES, Superblock, Ways, assemble, blank_pages, copies_of, leave_older_images,
    page_slots, region_bytes,
};

use super::disk::{PAGE, Shared, Way, World};
use super::model::Block;
use super::story::{BLOCKS, BLOCKS_GROWN, Step, Story};
use super::{Happened, Kept};

mod away;
mod end;
mod grow;
mod harm;
mod heals;
mod open;

use self::away::Away;
use self::grow::sizes;
use self::heals::Unseen;

/// Offsets of the blocks: at the ends of a region, at the start of the next, and in another; and at
/// the ends of the grown part.
pub(super) const PLACES: [u64; BLOCKS_GROWN] =
    [0, (64 << 10) - PAGE, 64 << 10, (192 << 10) + PAGE, BYTES, BYTES + (128 << 10) - PAGE];
/// A page in a region that no step writes.
pub(super) const SCRATCH: u64 = (128 << 10) + PAGE;
/// Maximum number of regions.
pub(super) const REGIONS: usize = 12;
/// Initial size of the array: four regions.
pub(super) const BYTES: u64 = 256 << 10;
/// Arrays grow in multiples of this.
const GRANULE: u64 = 64 << 10;
pub(super) const ARRAY: u128 = 0xa;
/// Time between events.
pub(super) const EVENT: Nanos = Nanos(5_000);
/// Rounds within which I/Os complete, unless they wait for a timer.
const ROUNDS: u32 = 4000;
/// Time after a resync until the map is clean, and to look again at an older image.
const QUIET: Nanos = Nanos::from_secs(25);
/// Events until a syncing leg is recorded as in, if nothing else happens.
const ENTERING_EVENTS: u32 = 500;
/// Maximum time for which a leg may leave an I/O unanswered.
const PATIENCE: Nanos = Nanos::from_secs(5);
/// Faults of a leg that refuses I/Os.
pub(super) const REFUSALS: [Fault; 4] =
    [Fault::ReadOnly, Fault::OutOfRange, Fault::Unsupported, Fault::Aborted];
/// Minimum time between rounds of a wait in which nothing is under way.
const STEP: Nanos = Nanos::from_millis(1);
/// Number of attempts to bring legs back: a server may wait for late writes for longer than one
/// login.
pub(super) const TRIES: u32 = 3;
/// Time limit of a resync.
const MINUTE: Nanos = Nanos::from_secs(60);

/// The process that has the array open.
struct Process {
    array: Array,
    keeper: Keeper,
    lanes: Vec<Box<dyn Lane>>,
    pool: Pool,
}

/// A client's I/O.
struct Asked {
    op: Op,
    fua: bool,
    blocks: std::ops::Range<usize>,
    begun: u64,
    /// Legs that were in at its start.
    legs: u32,
}

struct Run {
    world: Shared,
    /// The hosts of the legs, if they are not in the process.
    away: Option<Away>,
    process: Option<Process>,
    model: Vec<Block>,
    asked: BTreeMap<u64, Asked>,
    next: u64,
    now: Nanos,
    rng: Rng,
    legs: usize,
    lanes: usize,
    /// Legs recorded as in when something was last acknowledged.
    truth: u32,
    /// Regions written since all were clean, and those ever written.
    touched: [bool; REGIONS],
    ever: [bool; REGIONS],
    /// Size of the array, and its possible size at the next opening.
    bytes: u64,
    grows_to: u64,
    /// Number of flushes that may fail because connections to the last leg were lost, and the time
    /// of the last failure: others that had begun by then fail, too.
    untold: usize,
    told_at: u64,
    /// Idle connections to the last leg whose loss may be unnoticed.
    unseen: Unseen,
    /// Generation of the array when it was opened, until data are shown.
    opened: Option<u64>,
    /// Number of client I/Os completed, and of those that failed.
    answered: u64,
    failed: u64,
    kept: Kept,
    /// Writes must succeed at the end. They could hide findings of other checks, so half of the
    /// stories end without them.
    ends_with_writes: bool,
}

/// Runs a story; an error is the first violation.
pub(super) fn run(story: &Story) -> Result<Kept, String> {
    let mut run = Run::new(story);
    run.open()?;
    for (at, step) in story.steps.iter().enumerate() {
        run.count(*step);
        run.step(*step).map_err(|why| format!("step {at}, {step}: {why}"))?;
    }
    run.end().map_err(|why| format!("at the end: {why}"))?;
    run.kept.ios = run.answered;
    let torn = run.world.borrow().torn;
    run.kept.add_all(Happened::Torn, torn);
    Ok(run.kept)
}

impl Run {
    fn new(story: &Story) -> Run {
        let legs = story.legs + story.spares;
        let world = World::new(sizes(story), Rng::new(story.seed, 31));
        let member = |leg: usize| Member {
            uuid: 100 + leg as u128,
            state: if leg < story.legs { LegState::In } else { LegState::Spare },
            empty: false,
            left: Generation::default(),
        };
        let block = Superblock {
            array: ARRAY,
            name: "a".to_owned(),
            leg: 100,
            generation: Generation { number: 1, tag: 1 },
            bytes: BYTES,
            block_bytes: 512,
            region_bytes: region_bytes(BYTES),
            copies: story.legs as u32,
            members: (0..legs).map(member).collect(),
            history: Vec::new(),
        };
        let mut rng = Rng::new(story.seed, 35);
        let careless: Vec<bool> = (0..legs).map(|_| rng.below(8) == 0).collect();
        for leg in 0..legs {
            let leg_of = &mut world.borrow_mut().legs[leg];
            leg_of.careless = careless[leg];
            leg_of.plain = !careless.contains(&true) && rng.below(8) == 0;
            leg_of.fill_behind(BYTES, 1 << 32 | leg as u64);
            for place in copies_of(leg_of.bytes) {
                leg_of.put(place, &block.encode(100 + leg as u128));
            }
            for (page, bytes) in blank_pages(ARRAY, BYTES).iter().enumerate() {
                leg_of.put(page_slots(page)[0], bytes);
            }
        }
        let away = Away::new(story, &world, legs);
        world.borrow_mut().latest = away.as_ref().map(Away::latest);
        Run {
            world,
            away,
            process: None,
            model: vec![Block::new(); BLOCKS],
            asked: BTreeMap::new(),
            next: 1,
            now: Nanos::from_secs(1),
            rng: Rng::new(story.seed, 32),
            legs,
            lanes: story.lanes,
            truth: (1 << story.legs) - 1,
            touched: [false; REGIONS],
            ever: [false; REGIONS],
            bytes: BYTES,
            grows_to: BYTES,
            untold: 0,
            told_at: 0,
            unseen: Unseen::default(),
            opened: None,
            answered: 0,
            failed: 0,
            kept: Kept::default(),
            ends_with_writes: story.seed.is_multiple_of(2),
        }
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Write { block, long, fua } => {
                let block = self.here(block);
                let count = if long && block == 1 { 2 } else { 1 };
                self.submit(Op::Write, fua, block..block + count);
            }
            Step::Trim(block) => {
                let block = self.here(block);
                self.submit(Op::Trim, false, block..block + 1);
            }
            Step::Zero(block) => {
                let block = self.here(block);
                self.submit(Op::WriteZeroes, false, block..block + 1);
            }
            Step::Snap(leg) if leg < self.legs => self.world.borrow_mut().legs[leg].snap(),
            Step::Roll(leg) if leg < self.legs => self.roll_back(leg),
            Step::Snap(_) | Step::Roll(_) => {}
            Step::Read(block) => {
                let block = self.here(block);
                self.submit(Op::Read, false, block..block + 1);
            }
            Step::Flush => self.submit(Op::Flush, false, 0..0),
            Step::Check { repairs } => self.order_check(repairs),
            Step::Fail(leg)
            | Step::Lose(leg)
            | Step::Sicken(leg)
            | Step::Spoil(leg)
            | Step::Fill(leg)
            | Step::Refuse(leg)
            | Step::Hang(leg)
            | Step::Slow(leg)
                if leg < self.legs =>
            {
                self.harm(leg, step);
            }
            Step::Fail(_)
            | Step::Lose(_)
            | Step::Sicken(_)
            | Step::Spoil(_)
            | Step::Fill(_)
            | Step::Refuse(_)
            | Step::Hang(_)
            | Step::Slow(_) => {}
            Step::Return(leg) if leg < self.legs => self.bring_back(leg),
            Step::Return(_) => {}
            Step::Crash => self.crash()?,
            Step::Go(events) => (0..events).try_for_each(|_| self.event())?,
            Step::Rest => self.rest()?,
            Step::Sync => drop(self.sync(MINUTE, true)?),
            Step::Whole => drop(self.sync(MINUTE, false)?),
            Step::Coming => self.coming()?,
            Step::Entering => self.entering()?,
            Step::Wait(tenths) => self.wait(Nanos::from_millis(u64::from(tenths) * 100))?,
            Step::Grow(writes) => {
                self.grow(writes)?;
                if self.process.is_none() {
                    self.open()?;
                }
            }
        }
        Ok(())
    }

    fn order_check(&self, repairs: bool) {
        let process = self.process.as_ref().expect("it is open");
        process.array.order_check(CheckOrder { repairs, ..CheckOrder::default() });
    }

    fn crash(&mut self) -> Result<(), String> {
        self.kill();
        self.open()
    }

    /// New lanes to legs, by number.
    fn leg_lanes(&self) -> Rc<dyn Fn(usize) -> Option<Box<dyn Lane>>> {
        match &self.away {
            Some(away) => away.lanes(),
            None => {
                let world = Rc::clone(&self.world);
                Rc::new(move |leg| Some(Box::new(Way::new(&world, leg))))
            }
        }
    }

    /// Kills the process.
    fn kill(&mut self) {
        self.own_again();
        self.kept.add(Happened::Crash);
        if self.process.as_ref().is_some_and(|process| process.array.behind() > 0) {
            self.kept.add(Happened::CrashInResync);
        }
        // I/Os in flight never complete.
        self.asked.clear();
        if self.away.is_none() {
            self.world.borrow_mut().crash();
        }
        self.process = None;
        self.process_died();
        let time = self.world.borrow().time;
        self.model.iter_mut().for_each(|block| block.crashed(time));
    }

    fn submit(&mut self, op: Op, fua: bool, blocks: std::ops::Range<usize>) {
        let offset = if op == Op::Flush { 0 } else { PLACES[blocks.start] };
        let len = (blocks.len() as u64 * PAGE) as u32;
        self.submit_at(op, fua, blocks, (offset, len));
    }

    /// Submits an I/O on these bytes, which are blocks of the model or none.
    fn submit_at(
        &mut self,
        op: Op,
        fua: bool,
        blocks: std::ops::Range<usize>,
        (offset, len): (u64, u32),
    ) {
        let number = self.next;
        self.next += 1;
        let lane = self.rng.below(self.lanes as u64) as usize;
        let process = self.process.as_mut().expect("it is open");
        self.world.borrow_mut().time += 1;
        let time = self.world.borrow().time;
        let mut buf = match op {
            Op::Read | Op::Write => process.pool.take_beyond(len as usize),
            _ => None,
        };
        for block in blocks.clone() {
            if matches!(op, Op::Write | Op::Trim | Op::WriteZeroes) {
                let value = if op == Op::Write { number } else { 0 };
                let at = (block - blocks.start) * PAGE as usize;
                if let Some(buf) = &mut buf {
                    buf[at..at + 8].copy_from_slice(&value.to_le_bytes());
                }
                self.model[block].begin(number, value, time);
                let region = (PLACES[block] / region_bytes(BYTES)) as usize;
                (self.touched[region], self.ever[region]) = (true, true);
            }
        }
        let legs = process.array.in_it();
        self.world.borrow_mut().in_it = process.keeper.recorded() & legs;
        let asked = Asked { op, fua, blocks: blocks.clone(), begun: time, legs };
        self.asked.insert(number, asked);
        let io = Io { tag: Tag(number), op, fua, len, offset, buf };
        process.lanes[lane].submit(self.now, &mut VecDeque::from([io]));
    }

    /// One of the possible events happens.
    fn event(&mut self) -> Result<(), String> {
        self.now = self.now + EVENT;
        self.network()?;
        match self.rng.below(10) {
            0..=4 => self.world.borrow_mut().go_on(),
            5..=7 => {
                let lane = self.rng.below(self.lanes as u64) as usize;
                self.poll(lane)?;
            }
            _ => self.keep(),
        }
        Ok(())
    }

    fn keep(&mut self) {
        self.before();
        let process = self.process.as_mut().expect("it is open");
        let before = process.keeper.recorded();
        process.keeper.step(self.now);
        let after = process.keeper.recorded();
        if before & !after != 0 {
            self.kept.add(Happened::Left);
        }
        if after & !before != 0 {
            self.kept.add(Happened::Joined);
            let came = (0..self.legs).filter(|leg| after & !before & 1 << leg != 0);
            let legs = &mut self.world.borrow_mut().legs;
            came.for_each(|leg| (legs[leg].lost, legs[leg].rolled) = (false, false));
        }
    }

    /// Tells the world which legs are in before anything is sent.
    fn before(&mut self) {
        let process = self.process.as_ref().expect("it is open");
        let in_it = process.keeper.recorded() & process.array.in_it();
        self.world.borrow_mut().in_it = in_it;
    }

    /// A violation that the world has seen.
    fn seen(&self) -> Result<(), String> {
        self.world.borrow_mut().unmarked.take().map_or(Ok(()), Err)
    }

    fn poll(&mut self, lane: usize) -> Result<(), String> {
        self.before();
        let process = self.process.as_mut().expect("it is open");
        let mut done = Vec::new();
        process.lanes[lane].poll(self.now, &mut done);
        process.lanes[lane].submit(self.now, &mut VecDeque::new());
        self.seen()?;
        done.into_iter().try_for_each(|one| self.check(one))
    }

    /// Everything advances once. Returns whether I/Os are in flight below.
    fn round(&mut self) -> Result<bool, String> {
        self.now = self.now + EVENT;
        self.network()?;
        (0..self.lanes).try_for_each(|lane| self.poll(lane))?;
        self.keep();
        let busy = self.away.as_ref().is_some_and(|away| away.is_busy());
        let mut world = self.world.borrow_mut();
        let busy = busy || !world.is_idle();
        (0..4).for_each(|_| world.go_on());
        Ok(busy)
    }

    /// Runs until all client I/Os are complete.
    fn rest(&mut self) -> Result<(), String> {
        // Over a network it takes time to notice an unresponsive leg.
        let end = self.now + if self.away.is_some() { MINUTE + MINUTE } else { Nanos(0) };
        for round in 0.. {
            if self.asked.is_empty() {
                return Ok(());
            }
            if round >= ROUNDS && self.now >= end {
                break;
            }
            let process = self.process.as_ref().expect("it is open");
            if round >= ROUNDS / 2 && process.array.in_it().count_ones() == 1 {
                // The array waits for the last leg however long it hangs.
                self.world.borrow_mut().legs.iter_mut().for_each(|leg| leg.hung = false);
            }
            if !self.round()? && round % 8 == 7 {
                // The I/Os wait for a retry.
                self.now = self.now + self.pause();
            }
        }
        Err(format!("{} I/Os are never answered", self.asked.len()))
    }

    /// Runs until the legs are equal, and `calms` for the map to become clean; false on a time-out.
    fn sync(&mut self, limit: Nanos, calms: bool) -> Result<bool, String> {
        let quiet = if calms { self.quiet() } else { Nanos(0) };
        let end = self.now + limit + if self.away.is_some() { quiet } else { Nanos(0) };
        let (mut whole_since, mut told_before) = (None, 0);
        while self.now < end {
            let busy = self.round()?;
            let process = self.process.as_ref().expect("it is open");
            // A flush that reported a lost cache is retried.
            let told = std::mem::replace(&mut told_before, self.world.borrow().told);
            let told = told != told_before;
            let is_late = (0..self.legs).any(|leg| self.world.borrow().is_late(leg));
            if !process.keeper.is_whole() || !self.asked.is_empty() || told || is_late {
                whole_since = None;
            } else if self.now >= *whole_since.get_or_insert(self.now) + quiet {
                if !calms {
                    return Ok(true);
                }
                let world = &mut *self.world.borrow_mut();
                if world.legs.iter().all(|leg| leg.is_well()) {
                    self.touched = [false; REGIONS];
                }
                for leg in 0..self.legs {
                    let is_late = world.is_late(leg);
                    let of = &mut world.legs[leg];
                    if of.is_well() {
                        let is_harmed = of.bad.is_some() || of.is_older_image();
                        (of.blamed, of.rolled) = (is_harmed || is_late, false);
                    }
                }
                return Ok(true);
            }
            if !busy {
                self.jump(self.now + Nanos::from_secs(1));
            }
        }
        Ok(false)
    }

    /// Runs the world for this time.
    fn wait(&mut self, time: Nanos) -> Result<(), String> {
        let end = self.now + time;
        while self.now < end {
            if !self.round()? {
                let soon = self.now + STEP;
                self.jump(end.min(self.now + Nanos::from_secs(1)));
                self.now = self.now.max(soon.min(end));
            }
        }
        Ok(())
    }

    /// Time jumps to the next event, until then at the latest.
    fn jump(&mut self, soon: Nanos) {
        let keeper = self.process.as_ref().and_then(|process| process.keeper.wake());
        let late = self.world.borrow().next_late();
        let wakes = [keeper, self.next_arrival(), late];
        let wake = wakes.into_iter().flatten().min().unwrap_or(soon);
        self.now = self.now.max(wake.min(soon));
    }

    /// Runs until a resync begins, or for a minute.
    fn coming(&mut self) -> Result<(), String> {
        let end = self.now + MINUTE;
        while self.now < end {
            let busy = self.round()?;
            let process = self.process.as_ref().expect("it is open");
            if process.array.behind() > 0 || process.keeper.is_whole() {
                return Ok(());
            }
            if !busy {
                self.jump(self.now + Nanos::from_secs(1));
            }
        }
        Ok(())
    }

    /// Runs until a superblock that records a leg as in is being written, or for some events.
    fn entering(&mut self) -> Result<(), String> {
        self.coming()?;
        for _ in 0..ENTERING_EVENTS {
            let keeper = &self.process.as_ref().expect("it is open").keeper;
            if keeper.superblock().in_state(LegState::In) & !keeper.recorded() != 0 {
                break;
            }
            self.event()?;
        }
        Ok(())
    }

    fn check(&mut self, one: Done) -> Result<(), String> {
        self.answered += 1;
        let number = one.tag.0;
        let asked = self.asked.remove(&number).ok_or("an I/O is answered twice")?;
        let process = self.process.as_ref().expect("it is open");
        let time = self.world.borrow().time;
        if one.result.is_ok() && asked.op != Op::Read {
            self.unseen.works(asked.op);
            self.truth = process.keeper.recorded();
        }
        match asked.op {
            Op::Read => {}
            Op::Flush if one.result.is_ok() => {
                self.model.iter_mut().for_each(|block| block.flushed(asked.begun));
            }
            Op::Flush => self.model.iter_mut().for_each(Block::flush_failed),
            _ => {
                for block in asked.blocks.clone() {
                    self.model[block].end(number, time, one.result.is_ok(), asked.fua);
                }
            }
        }
        if let Err(fault) = one.result {
            self.failed += 1;
            return self.may_fail(&asked, fault);
        }
        let Some(buf) = one.buf.filter(|_| asked.op == Op::Read) else { return Ok(()) };
        self.shown()?;
        for (at, block) in asked.blocks.clone().enumerate() {
            let value = word(&buf, at);
            if self.model[block].may_be(value, asked.begun) {
                self.model[block].seen(value, asked.begun, time);
            } else {
                let may = self.model[block].values();
                return Err(format!("block {block} reads as {value}, and may be one of {may:?}"));
            }
        }
        Ok(())
    }

    /// Data are shown: this opening is recorded, unless legs cannot be written.
    fn shown(&mut self) -> Result<(), String> {
        let is_well = self.world.borrow().legs.iter().all(|leg| !leg.blamed);
        match self.opened.take() {
            Some(opened) if is_well && self.newest().number <= opened => {
                Err("data are shown, and the opening is on no leg".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn word(buf: &Buf, at: usize) -> u64 {
    let at = at * PAGE as usize;
    u64::from_le_bytes(buf[at..at + 8].try_into().expect("a word"))
}

const _: () = assert!(SUPERBLOCK_BYTES as u64 == PAGE);
