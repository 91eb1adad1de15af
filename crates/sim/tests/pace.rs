//! Speed of a resync and its cost to clients: legs that execute I/Os one by one in exactly known
//! times, so that ratios are exact.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use block::{Cause, Done, Geometry, Io, Lane, Nanos, Op, Pool, Rng, Tag};
use volume::array::{
    Array, Assembly, DATA_OFFSET, Generation, Keeper, LegState, Maps, Member, Page, Superblock,
    TAIL_BYTES, Ways, copies_of, page_count, page_slots, region_bytes,
};

const FAST: Speed = Speed { each_ns: 20_000, bytes_per_second: 1_000_000_000 };
const SLOW: Speed = Speed { each_ns: 100_000, bytes_per_second: 200_000_000 };
const MINUTE: Nanos = Nanos::from_secs(60);

/// Service time of a leg: per I/O and per byte.
#[derive(Clone, Copy, Debug)]
struct Speed {
    /// Per I/O, in nanoseconds.
    each_ns: u64,
    /// Bytes per second.
    bytes_per_second: u64,
}

impl Speed {
    fn nanos(self, len: u32) -> u64 {
        self.each_ns + u64::from(len) * 1_000_000_000 / self.bytes_per_second
    }

    /// Bytes per second of sequential I/Os of 256 KiB.
    fn sequential(self) -> f64 {
        f64::from(256 << 10) * 1e9 / self.nanos(256 << 10) as f64
    }
}

/// Client load: random I/Os at constant queue depth.
#[derive(Clone, Copy, Debug)]
struct Clients {
    /// Operation.
    op: Op,
    /// Length in bytes.
    len: u32,
    /// Queue depth.
    outstanding: u64,
}

/// Results.
#[derive(Clone, Copy, Debug)]
struct Paced {
    /// Resynced bytes per second.
    copied: f64,
    /// Client I/Os per second.
    clients: f64,
}

/// A leg: the time at which it is free, and its pending completions.
struct Leg {
    speed: Speed,
    free_at: Nanos,
    due: VecDeque<(Nanos, usize, Io)>,
    /// Superblocks and map, by offset.
    kept: BTreeMap<u64, Vec<u8>>,
    /// Bytes of data written.
    written: u64,
}

impl Leg {
    fn new(speed: Speed) -> Leg {
        Leg { speed, free_at: Nanos(0), due: VecDeque::new(), kept: BTreeMap::new(), written: 0 }
    }

    /// Executes an I/O; data is only counted.
    fn execute(&mut self, io: &mut Io, bytes: u64) {
        let data = DATA_OFFSET..bytes - TAIL_BYTES;
        match (io.op, &mut io.buf) {
            (Op::Write, _) if data.contains(&io.offset) => self.written += u64::from(io.len),
            (Op::Write, Some(buf)) => {
                self.kept.insert(io.offset, buf[..io.len as usize].to_vec());
            }
            (Op::Read, Some(buf)) if !data.contains(&io.offset) => {
                let kept = self.kept.get(&io.offset).cloned();
                let zeroes = || vec![0; io.len as usize];
                buf[..io.len as usize].copy_from_slice(&kept.unwrap_or_else(zeroes));
            }
            _ => {}
        }
    }
}

struct Way {
    leg: usize,
    number: usize,
    bytes: u64,
    world: World,
}

type World = Rc<RefCell<(Vec<Leg>, usize)>>;

impl Lane for Way {
    fn geometry(&self) -> Geometry {
        Geometry::new(self.bytes, 512)
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        let leg = &mut self.world.borrow_mut().0[self.leg];
        for mut io in ios.drain(..) {
            leg.execute(&mut io, self.bytes);
            leg.free_at = leg.free_at.max(now) + Nanos(leg.speed.nanos(io.len));
            leg.due.push_back((leg.free_at, self.number, io));
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        let due = &mut self.world.borrow_mut().0[self.leg].due;
        let is_mine = |(at, way, _): &(Nanos, usize, Io)| *way == self.number && *at <= now;
        while let Some(at) = due.iter().position(is_mine) {
            let Some((_, _, Io { tag, buf, .. })) = due.remove(at) else { return };
            done.push(Done { tag, result: Ok(()), cause: Cause::NONE, buf });
        }
    }

    fn wake(&self) -> Option<Nanos> {
        let due = &self.world.borrow().0[self.leg].due;
        due.iter().find(|(_, way, _)| *way == self.number).map(|(at, ..)| *at)
    }
}

/// Resyncs an array of `bytes` completely after a crash, for this long or until it is done.
fn pace(speeds: &[Speed], bytes: u64, clients: Option<Clients>, limit: Nanos) -> Paced {
    let world: World = Rc::new(RefCell::new((speeds.iter().copied().map(Leg::new).collect(), 0)));
    // Unreadable maps: all may differ.
    let map: Vec<Option<Page>> = (0..page_count(bytes)).map(|_| None).collect();
    open(&world, &assembly(speeds.len(), bytes), &vec![(0, map)], Nanos(0)).until(clients, limit)
}

/// Replaces a leg, and kills the process `cuts` times during the resync, each time after this long.
/// Returns the number of times that its bytes were written in all.
fn interrupted(speeds: [Speed; 2], bytes: u64, cuts: u64, each: Nanos) -> f64 {
    let world: World = Rc::new(RefCell::new((speeds.map(Leg::new).into(), 0)));
    let map: Vec<Option<Page>> = (0..page_count(bytes)).map(|_| None).collect();
    let mut assembly = assembly(2, bytes);
    // Everything was written once, and is clean.
    let mut run = open(&world, &assembly, &vec![(0, map)], Nanos(0));
    let mut now = run.whole(Nanos(0), Nanos::from_secs(600));
    assembly.newest = run.keeper.superblock().clone();
    let member = &mut assembly.newest.members[1];
    (member.state, member.empty) = (LegState::Out, true);
    assembly.newest.advance(77);
    assembly.stands = vec![assembly.newest.generation; 2];
    for leg in 0..2_usize {
        let copy = assembly.newest.encode(leg as u128).to_vec();
        for at in copies_of(DATA_OFFSET + bytes + TAIL_BYTES) {
            world.borrow_mut().0[leg].kept.insert(at, copy.clone());
        }
    }
    world.borrow_mut().0[1].written = 0;
    for cut in 0..=cuts {
        let page = |page: usize| {
            let world = world.borrow();
            let slots = page_slots(page).into_iter().filter_map(|at| world.0[0].kept.get(&at));
            Page::newest(page, 1, region_bytes(bytes), slots.map(|bytes| &bytes[..]))
        };
        let map: Vec<Option<Page>> = (0..page_count(bytes)).map(page).collect();
        let mut run = open(&world, &assembly, &vec![(0, map)], now);
        let limit = if cut < cuts { each } else { Nanos::from_secs(600) };
        now = run.whole(now, now + limit);
        assembly.newest = run.keeper.superblock().clone();
        assembly.stands = vec![assembly.newest.generation; 2];
        let is_whole = run.keeper.is_whole();
        assert!(cut < cuts || is_whole, "it is never equal");
    }
    let written = world.borrow().0[1].written;
    written as f64 / bytes as f64
}

/// A process that has the array open.
fn open(world: &World, assembly: &Assembly, maps: &Maps, now: Nanos) -> Run {
    let (legs, bytes) = (assembly.newest.members.len(), assembly.newest.bytes);
    let leg_bytes = DATA_OFFSET + bytes + TAIL_BYTES;
    let names = (0..legs).map(|leg| format!("leg {leg}")).collect();
    let array = Array::new(assembly, names, maps, Geometry::new(bytes, 512), MINUTE);
    let pool = Pool::new(256, 64);
    let source = || -> Ways {
        let world = Rc::clone(world);
        Box::new(move |leg| {
            world.borrow_mut().1 += 1;
            let number = world.borrow().1;
            Ok(Box::new(Way { leg, number, bytes: leg_bytes, world: Rc::clone(&world) }))
        })
    };
    let ways = || {
        let mut source = source();
        (0..legs).map(|leg| source(leg).ok()).collect::<Vec<_>>()
    };
    let places = vec![copies_of(leg_bytes); legs];
    let keeper = array.keeper(
        assembly,
        places,
        pool.clone(),
        Rng::new(1, now.0),
        (ways(), source()),
        Nanos(0),
    );
    let lane = array.lane(ways(), source(), pool.clone()).expect("lanes have numbers");
    Run { array, keeper, lane, pool, rng: Rng::new(2, 2), bytes }
}

struct Run {
    array: Array,
    keeper: Keeper,
    lane: Box<dyn Lane>,
    pool: Pool,
    rng: Rng,
    bytes: u64,
}

impl Run {
    fn until(mut self, clients: Option<Clients>, limit: Nanos) -> Paced {
        let (mut now, mut done, mut answered) = (Nanos(0), Vec::new(), 0_u64);
        let first = self.array.behind() as u64;
        let mut waiting = clients.map_or(0, |clients| clients.outstanding);
        while now < limit {
            self.keeper.step(now);
            if clients.is_none() && self.array.behind() == 0 {
                break;
            }
            self.lane.poll(now, &mut done);
            answered += done.len() as u64;
            for one in done.drain(..) {
                waiting += 1;
                if let Some(buf) = one.buf {
                    self.pool.give(buf);
                }
            }
            let mut ios: VecDeque<Io> =
                (0..std::mem::take(&mut waiting)).filter_map(|_| Some(self.io(clients?))).collect();
            self.lane.submit(now, &mut ios);
            let wake = [self.keeper.wake(), self.lane.wake()].into_iter().flatten().min();
            // Time only stops while something is due.
            now = wake.unwrap_or(limit).max(now + Nanos(1_000));
        }
        let seconds = now.as_secs_f64();
        let copied = (first - self.array.behind() as u64) * region_bytes(self.bytes);
        Paced { copied: copied as f64 / seconds, clients: answered as f64 / seconds }
    }

    /// Runs until the legs are equal and the map is clean, or until the limit; returns the time.
    fn whole(&mut self, begin: Nanos, limit: Nanos) -> Nanos {
        let (mut now, mut whole_since) = (begin, None);
        while now < limit {
            self.keeper.step(now);
            match self.keeper.is_whole() {
                true if now.since(*whole_since.get_or_insert(now)) > Nanos::from_secs(12) => break,
                true => {}
                false => whole_since = None,
            }
            // Polls like the keeper's thread, also without events.
            let wake = self.keeper.wake().unwrap_or(limit).min(now + Nanos::from_millis(100));
            now = wake.max(now + Nanos(1_000)).min(limit);
        }
        now
    }

    fn io(&mut self, clients: Clients) -> Io {
        let Clients { op, len, .. } = clients;
        let offset = self.rng.below(self.bytes / u64::from(len)) * u64::from(len);
        let buf = self.pool.take_beyond(len as usize);
        Io { tag: Tag(0), op, fua: false, len, offset, buf }
    }
}

fn assembly(legs: usize, bytes: u64) -> Assembly {
    let left = Generation::default();
    let member = |leg: usize| Member { uuid: leg as u128, state: LegState::In, empty: false, left };
    let newest = Superblock {
        array: 1,
        name: "a".to_owned(),
        leg: 0,
        generation: Generation { number: 1, tag: 1 },
        bytes,
        block_bytes: 512,
        region_bytes: region_bytes(bytes),
        copies: legs as u32,
        members: (0..legs).map(member).collect(),
        history: Vec::new(),
    };
    let (places, stands) = ((0..legs).map(Some).collect(), vec![newest.generation; legs]);
    let first = vec![0; legs];
    let sizes = vec![newest.bytes; newest.members.len()];
    Assembly { newest, places, stands, sizes, first, missing: 0, notes: Vec::new() }
}

#[test]
fn resync_goes_at_the_rate_of_the_slowest_leg_while_clients_rest() {
    for speeds in [&[FAST, FAST][..], &[FAST, SLOW], &[SLOW, FAST], &[FAST, FAST, SLOW]] {
        let slowest = speeds.iter().map(|one| one.sequential()).fold(f64::MAX, f64::min);
        let rate = pace(speeds, 64 << 20, None, MINUTE).copied;
        println!("{:.3} of the slowest leg: {speeds:?}", rate / slowest);
        assert!(rate >= 0.9 * slowest, "{rate:.0} of {slowest:.0}: {speeds:?}");
    }
}

#[test]
fn what_was_copied_and_is_clean_is_not_copied_again() {
    let alone = interrupted([SLOW, SLOW], 1 << 30, 0, Nanos(0));
    let ten = interrupted([SLOW, SLOW], 4 << 30, 10, Nanos::from_secs(6));
    println!("copied {alone:.3} times, with ten deaths {ten:.3} times");
    assert!((0.999..1.001).contains(&alone), "{alone}");
    // Each cut may cost the copies of two seconds, out of 23 in all.
    assert!(ten > 1.0 && ten < 1.9, "{ten}");
}

#[test]
fn clients_keep_four_fifths_while_legs_are_made_equal() {
    for (op, len, outstanding) in
        [(Op::Write, 4096, 1), (Op::Write, 4096, 32), (Op::Write, 65_536, 4)]
    {
        let clients = Some(Clients { op, len, outstanding });
        for speeds in [[FAST, FAST], [FAST, SLOW], [SLOW, FAST]] {
            // Writes wait for the slower leg.
            let slower = speeds.into_iter().max_by_key(|one| one.nanos(len));
            let alone = pace(&[slower.unwrap_or(FAST)], 4 << 30, clients, Nanos::from_secs(1));
            let both = pace(&speeds, 4 << 30, clients, Nanos::from_secs(1));
            let kept = both.clients / alone.clients;
            println!(
                "{kept:.3} kept, {:.0} MB/s copied: {op:?} {len} x {outstanding} {speeds:?}",
                both.copied / 1e6
            );
            assert!(kept >= 0.8, "{kept:.2} of {op:?} {len} x {outstanding}: {speeds:?}");
            assert!(both.copied > 0.02 * SLOW.sequential(), "{both:?} {op:?} {speeds:?}");
        }
    }
}

/// After a crash a read waits until its own region is resynced: for copies in progress, and no
/// more.
#[test]
fn a_read_after_a_crash_waits_for_few_other_regions() {
    for speeds in [[FAST, FAST], [FAST, SLOW], [SLOW, FAST]] {
        let clients = Some(Clients { op: Op::Read, len: 4096, outstanding: 1 });
        let both = pace(&speeds, 4 << 30, clients, Nanos::from_secs(1));
        let slowest = speeds.iter().map(|one| one.sequential()).fold(f64::MAX, f64::min);
        let waits_bytes = slowest / both.clients;
        println!("a read waits for {:.1} MB to be copied: {speeds:?}", waits_bytes / 1e6);
        assert!(waits_bytes < 6e6, "{both:?}: {speeds:?}");
    }
}
