//! Runs a story of a lone volume that reconnects by itself: real initiators, the network, a real
//! server, and a simulated disk, without an array.
//!
//! A completed flush covers earlier acknowledged writes, unless one has failed since; and data from
//! before an acknowledged newer write never return.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use block::{Buf, Done, Fault, Io, Lane, Nanos, Op, Pool, Rng, Tag};
use volume::Session;
use volume::array::{DATA_OFFSET, TAIL_BYTES};

use super::disk::{PAGE, Shared, World};
use super::model::Block;
use super::remote::{Client, Hosts, latest, protocols, session};
use super::rig::{BYTES, EVENT, PLACES, REFUSALS, SCRATCH, TRIES};
use super::story::{BLOCKS, Over, Step, Story};
use super::{Happened, Kept};

/// Time for which the volume's lanes try to reconnect, in seconds.
const RECONNECT_SECONDS: u32 = 30;
/// Time after the last fault until the volume's connections must work, and must be known to work.
const QUIET: Nanos = Nanos::from_secs(40);
/// Time within which I/Os are answered, after time-outs, reconnections and graces.
const LIMIT: Nanos = Nanos::from_secs(240);
/// Minimum time between rounds in which nothing is under way, and the maximum.
const SHORTEST: Nanos = Nanos::from_millis(1);
const LONGEST: Nanos = Nanos::from_secs(1);

/// A lane, and the I/Os that it has not accepted yet.
struct Way {
    lane: Box<dyn Lane>,
    waiting: VecDeque<Io>,
}

/// A client's I/O.
struct Asked {
    op: Op,
    fua: bool,
    blocks: Range<usize>,
    begun: u64,
    way: usize,
}

struct Run {
    world: Shared,
    hosts: Hosts,
    session: Session,
    client: Option<Client>,
    ways: Vec<Way>,
    lanes: usize,
    pool: Pool,
    model: Vec<Block>,
    asked: BTreeMap<u64, Asked>,
    next: u64,
    now: Nanos,
    rng: Rng,
    /// Number of flushes that may fail because connections were lost, or because flushes of others
    /// failed, and the time of the last failure: others that had begun by then fail, too.
    untold: usize,
    retold: usize,
    told_at: u64,
    answered: u64,
    kept: Kept,
}

/// Runs a story; an error is the first violation.
pub(super) fn run(story: &Story) -> Result<Kept, String> {
    let mut run = Run::new(story);
    run.open()?;
    for (at, step) in story.steps.iter().enumerate() {
        run.step(*step).map_err(|why| format!("step {at}, {step}: {why}"))?;
    }
    run.end().map_err(|why| format!("at the end: {why}"))?;
    run.kept.ios = run.answered;
    Ok(run.kept)
}

impl Run {
    fn new(story: &Story) -> Run {
        let world = World::new(vec![DATA_OFFSET + BYTES + TAIL_BYTES], Rng::new(story.seed, 31));
        let over = if story.over == Over::Nothing { Over::Iscsi } else { story.over };
        let hosts = Hosts::new(&world, protocols(over, 1), story.seed);
        let reconnect_seconds = Some(RECONNECT_SECONDS);
        let session = Session { reconnect_seconds, ..session(story.seed) };
        world.borrow_mut().latest = Some(latest(&session));
        Run {
            world,
            hosts,
            session,
            client: None,
            ways: Vec::new(),
            lanes: story.lanes,
            pool: Pool::new(64, 16),
            model: vec![Block::new(); BLOCKS],
            asked: BTreeMap::new(),
            next: 1,
            now: Nanos::from_secs(1),
            rng: Rng::new(story.seed, 32),
            untold: 0,
            retold: 0,
            told_at: 0,
            answered: 0,
            kept: Kept::default(),
        }
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Write { block, long, fua } => {
                let block = block % BLOCKS;
                let count = if long && block == 1 { 2 } else { 1 };
                self.submit(Op::Write, fua, block..block + count);
            }
            Step::Trim(block) => self.submit_one(Op::Trim, block),
            Step::Zero(block) => self.submit_one(Op::WriteZeroes, block),
            Step::Read(block) => self.submit_one(Op::Read, block),
            Step::Flush => self.submit(Op::Flush, false, 0..0),
            Step::Fail(_)
            | Step::Lose(_)
            | Step::Sicken(_)
            | Step::Spoil(_)
            | Step::Fill(_)
            | Step::Refuse(_)
            | Step::Hang(_)
            | Step::Slow(_) => self.harm(step),
            Step::Return(_) => self.bring_back(),
            Step::Crash => {
                let power = self.rng.below(3) == 0;
                self.crash(power)?;
            }
            Step::Go(events) => (0..events).try_for_each(|_| self.event())?,
            Step::Rest => self.rest()?,
            Step::Wait(tenths) => self.wait(Nanos::from_millis(u64::from(tenths) * 100))?,
            Step::Sync | Step::Whole | Step::Coming | Step::Entering => drop(self.calm()?),
            Step::Snap(_) | Step::Roll(_) | Step::Check { .. } | Step::Grow(_) => {}
        }
        Ok(())
    }

    /// Opens the volume in a restarted process.
    fn open(&mut self) -> Result<(), String> {
        for _ in 0..=TRIES {
            let (world, client) = (&self.world, Client::new(&self.hosts, &self.session));
            let go_on = || world.borrow_mut().go_on();
            let is_gone = world.borrow().legs[0].is_gone();
            if !is_gone && client.open(&mut self.hosts, 0, &mut self.now, go_on)?.is_some() {
                let lanes = (0..self.lanes).filter_map(|_| client.lane(0));
                self.ways = lanes.map(|lane| Way { lane, waiting: VecDeque::new() }).collect();
                self.client = Some(client);
                return Ok(());
            }
            self.bring_back();
        }
        Err("its target lets no process in".to_owned())
    }

    /// Kills the process; a new process opens the volume.
    fn crash(&mut self, power: bool) -> Result<(), String> {
        self.kept.add(Happened::Crash);
        self.asked.clear();
        self.ways.clear();
        self.client = None;
        match power {
            true => self.hosts.power_fails(),
            false => self.hosts.client_dies(),
        }
        self.untold += self.lanes;
        let time = self.world.borrow().time;
        self.model.iter_mut().for_each(|block| block.crashed(time));
        self.open()
    }

    fn harm(&mut self, step: Step) {
        let power = matches!(step, Step::Lose(_));
        {
            let mut world = self.world.borrow_mut();
            let place = PLACES[world.rng.below(BLOCKS as u64) as usize];
            let fault = REFUSALS[world.rng.below(REFUSALS.len() as u64) as usize];
            let leg = &mut world.legs[0];
            leg.blamed = true;
            match step {
                Step::Sicken(_) => leg.sick = true,
                Step::Spoil(_) => leg.spoil((DATA_OFFSET + place) / PAGE),
                Step::Fill(_) => leg.full = true,
                Step::Refuse(_) => leg.refuses = Some(fault),
                Step::Hang(_) => leg.hung = true,
                Step::Slow(_) => leg.slow = true,
                _ => {}
            }
        }
        if matches!(step, Step::Fail(_) | Step::Lose(_)) {
            self.hosts.lose(0, power);
        }
        self.kept.add(match step {
            Step::Lose(_) => Happened::LostCache,
            Step::Sicken(_) => Happened::Sick,
            Step::Spoil(_) => Happened::Unreadable,
            Step::Fill(_) => Happened::Full,
            Step::Refuse(_) => Happened::Refusing,
            Step::Hang(_) => Happened::Hung,
            Step::Slow(_) => Happened::Slow,
            _ => Happened::Failed,
        });
        // A loss is reported once, whichever lanes have lost their connections.
        self.untold += 1;
        if power {
            let time = self.world.borrow().time;
            self.model.iter_mut().for_each(|block| block.lost(time));
        }
    }

    fn bring_back(&mut self) {
        {
            let leg = &mut self.world.borrow_mut().legs[0];
            (leg.dead, leg.away, leg.sick, leg.full, leg.bad) = (false, false, false, false, None);
            (leg.refuses, leg.hung, leg.slow) = (None, false, false);
        }
        self.hosts.start(0);
        self.kept.add(Happened::Returned);
    }

    fn submit_one(&mut self, op: Op, block: usize) {
        let block = block % BLOCKS;
        self.submit(op, false, block..block + 1);
    }

    fn submit(&mut self, op: Op, fua: bool, blocks: Range<usize>) {
        let offset = if op == Op::Flush { 0 } else { DATA_OFFSET + PLACES[blocks.start] };
        let len = (blocks.len() as u64 * PAGE) as u32;
        self.submit_at(op, blocks, fua, (offset, len));
    }

    /// Submits an I/O on these bytes, which are blocks of the model or none.
    fn submit_at(&mut self, op: Op, blocks: Range<usize>, fua: bool, (offset, len): (u64, u32)) {
        let number = self.next;
        self.next += 1;
        let way = self.rng.below(self.lanes as u64) as usize;
        self.world.borrow_mut().time += 1;
        let time = self.world.borrow().time;
        let mut buf = match op {
            Op::Read | Op::Write => self.pool.take_beyond(len as usize),
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
            }
        }
        self.asked.insert(number, Asked { op, fua, blocks, begun: time, way });
        self.ways[way].waiting.push_back(Io { tag: Tag(number), op, fua, len, offset, buf });
    }

    /// Advances the network and everything else outside the lanes.
    fn network(&mut self) -> Result<(), String> {
        self.now = self.now + EVENT;
        self.hosts.step(self.now)?;
        self.client.iter().for_each(|client| client.step(self.now));
        Ok(())
    }

    /// One of the possible events happens.
    fn event(&mut self) -> Result<(), String> {
        self.network()?;
        match self.rng.below(10) {
            0..=4 => self.world.borrow_mut().go_on(),
            _ => {
                let way = self.rng.below(self.lanes as u64) as usize;
                self.poll(way)?;
            }
        }
        Ok(())
    }

    /// Everything advances once. Returns whether something is under way.
    fn round(&mut self) -> Result<bool, String> {
        self.network()?;
        (0..self.lanes).try_for_each(|way| self.poll(way))?;
        let busy = self.hosts.is_busy();
        let mut world = self.world.borrow_mut();
        let busy = busy || !world.is_idle();
        (0..4).for_each(|_| world.go_on());
        Ok(busy)
    }

    fn poll(&mut self, number: usize) -> Result<(), String> {
        let mut done = Vec::new();
        let way = &mut self.ways[number];
        way.lane.poll(self.now, &mut done);
        way.lane.submit(self.now, &mut way.waiting);
        // A server does the same with a volume whose lane is lost for good.
        let is_over = way.lane.broken().is_some() && way.waiting.is_empty();
        done.into_iter().try_for_each(|one| self.check(one))?;
        let waits = self.asked.values().any(|asked| asked.way == number);
        if is_over && !waits && !self.world.borrow().legs[0].is_gone() {
            let lane = self.client.as_ref().and_then(|client| client.lane(0));
            self.ways[number].lane = lane.expect("a process has it open");
        }
        Ok(())
    }

    /// Time jumps to the next event.
    fn jump(&mut self, end: Nanos) {
        let lanes = self.ways.iter().filter_map(|way| way.lane.wake());
        let late = self.world.borrow().next_late();
        let client = self.client.as_ref().and_then(Client::wake);
        let others = [self.hosts.next(), client, late];
        let wake = lanes.chain(others.into_iter().flatten()).min().unwrap_or(end);
        let wake = wake.clamp(self.now + SHORTEST, self.now + LONGEST);
        self.now = self.now.max(wake.min(end));
    }

    /// Runs until all I/Os are complete.
    fn rest(&mut self) -> Result<(), String> {
        let end = self.now + LIMIT;
        while !self.asked.is_empty() {
            if self.now >= end {
                return Err(format!("{} I/Os are never answered", self.asked.len()));
            }
            if !self.round()? {
                self.jump(end);
            }
        }
        Ok(())
    }

    /// Runs the world for this time.
    fn wait(&mut self, time: Nanos) -> Result<(), String> {
        let end = self.now + time;
        while self.now < end {
            if !self.round()? {
                self.jump(end);
            }
        }
        Ok(())
    }

    /// Runs until all faults of the world have ended. Returns `false` if the disk has a fault or
    /// the limit is reached.
    fn calm(&mut self) -> Result<bool, String> {
        let end = self.now + LIMIT;
        let mut calm_since = None;
        while self.now < end && self.world.borrow().legs[0].is_well() {
            let busy = self.round()?;
            let mut world = self.world.borrow_mut();
            let open = self.ways.iter().all(|way| way.lane.is_open());
            if !open || !self.asked.is_empty() || world.is_late(0) {
                calm_since = None;
            } else if self.now >= *calm_since.get_or_insert(self.now) + QUIET {
                world.legs[0].blamed = world.legs[0].bad.is_some();
                // However often connections were lost.
                self.untold = self.untold.min(1);
                return Ok(true);
            }
            drop(world);
            if !busy {
                self.jump(end);
            }
        }
        Ok(false)
    }

    fn check(&mut self, one: Done) -> Result<(), String> {
        self.answered += 1;
        let number = one.tag.0;
        let asked = self.asked.remove(&number).ok_or("an I/O is answered twice")?;
        let (time, is_good) = (self.world.borrow().time, one.result.is_ok());
        match asked.op {
            Op::Read => {}
            Op::Flush if is_good => {
                self.model.iter_mut().for_each(|block| block.flushed(asked.begun));
            }
            Op::Flush => self.model.iter_mut().for_each(Block::flush_failed),
            _ => {
                for block in asked.blocks.clone() {
                    self.model[block].end(number, time, is_good, asked.fua);
                }
            }
        }
        if let Err(fault) = one.result {
            return self.may_fail(&asked, fault);
        }
        let Some(buf) = one.buf.filter(|_| asked.op == Op::Read) else { return Ok(()) };
        for (at, block) in asked.blocks.clone().enumerate() {
            let value = word(&buf, at);
            if !self.model[block].may_be(value, asked.begun) {
                let may = self.model[block].values();
                return Err(format!("block {block} reads as {value}, and may be one of {may:?}"));
            }
            self.model[block].seen(value, asked.begun, time);
        }
        Ok(())
    }

    /// I/Os fail only in trouble, and flushes once for each loss.
    fn may_fail(&mut self, asked: &Asked, fault: Fault) -> Result<(), String> {
        let flush = asked.op == Op::Flush;
        if self.world.borrow().legs[0].blamed {
            // The server reports a failed flush to other connections, and the volume repeats the
            // report for each of these.
            let fails = flush && !self.world.borrow().legs[0].is_well();
            self.retold += if fails { 2 * self.lanes } else { 0 };
            return Ok(());
        }
        if flush && asked.begun <= self.told_at {
            return Ok(());
        }
        let budget = if self.untold > 0 { &mut self.untold } else { &mut self.retold };
        match budget.checked_sub(1).filter(|_| flush) {
            Some(left) => (*budget, self.told_at) = (left, self.world.borrow().time),
            None => return Err(format!("{:?} fails, {fault}, without trouble", asked.op)),
        }
        Ok(())
    }

    /// Checks the end of a case with a healthy disk: reads everything, also after the power has
    /// failed.
    fn end(&mut self) -> Result<(), String> {
        self.bring_back();
        self.rest()?;
        if !self.calm()? {
            return Err("it does not become calm".to_owned());
        }
        self.flush()?;
        // Writes a block that no step uses; the write fails only under faults.
        self.submit_at(Op::Write, 0..0, false, (DATA_OFFSET + SCRATCH, PAGE as u32));
        self.rest()?;
        self.read_all()?;
        self.crash(true)?;
        self.read_all()
    }

    /// Flushes until a flush succeeds: there may be losses to report.
    fn flush(&mut self) -> Result<(), String> {
        let fails = self.untold + self.retold;
        for _ in 0..=fails {
            let before = self.untold + self.retold;
            self.submit(Op::Flush, false, 0..0);
            self.rest()?;
            if self.untold + self.retold == before {
                return Ok(());
            }
        }
        Err("no flush succeeds".to_owned())
    }

    fn read_all(&mut self) -> Result<(), String> {
        (0..BLOCKS).for_each(|block| self.submit_one(Op::Read, block));
        self.rest()
    }
}

fn word(buf: &Buf, at: usize) -> u64 {
    let at = at * PAGE as usize;
    u64::from_le_bytes(buf[at..at + 8].try_into().expect("a word"))
}
