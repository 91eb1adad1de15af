//! How fast legs are made equal, and what is left to clients meanwhile: legs that do one I/O after
//! the other, each in a time that is known, so that the ratios are exact.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use block::{Cause, Done, Geometry, Io, Lane, Nanos, Op, Pool, Rng, Tag};
use volume::array::{
    Array, Assembly, DATA_OFFSET, Generation, Keeper, LegState, Member, Page, Superblock,
    TAIL_BYTES, Ways, copies_of, page_count, region_bytes,
};

/// What a leg needs for an I/O: a time for each, and one for each byte.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// For each I/O, in nanoseconds.
    pub each_ns: u64,
    /// Bytes of a second.
    pub bytes_per_second: u64,
}

impl Speed {
    fn nanos(self, len: u32) -> u64 {
        self.each_ns + u64::from(len) * 1_000_000_000 / self.bytes_per_second
    }

    /// Bytes of a second that it reads or writes one I/O of 256 KiB after the other.
    pub fn sequential(self) -> f64 {
        f64::from(256 << 10) * 1e9 / self.nanos(256 << 10) as f64
    }
}

/// What clients do beside it, always so many at a time, anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    /// Reads or writes.
    pub op: Op,
    /// Bytes of each.
    pub len: u32,
    /// How many at a time.
    pub outstanding: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// Bytes of a second that were made equal.
    pub copied: f64,
    /// I/Os of clients of a second.
    pub clients: f64,
}

/// One leg: when it is free, and what it will have answered when.
struct Leg {
    speed: Speed,
    free_at: Nanos,
    due: VecDeque<(Nanos, usize, Io)>,
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
        for io in ios.drain(..) {
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

/// Lets an array of `bytes` go on after a crash with all of it behind, for so long or until all is
/// equal.
pub fn pace(speeds: &[Speed], bytes: u64, clients: Option<Clients>, limit: Nanos) -> Paced {
    let legs = speeds.len();
    let leg = |speed: &Speed| Leg { speed: *speed, free_at: Nanos(0), due: VecDeque::new() };
    let world: World = Rc::new(RefCell::new((speeds.iter().map(leg).collect(), 0)));
    let leg_bytes = DATA_OFFSET + bytes + TAIL_BYTES;
    let assembly = assembly(legs, bytes);
    // Maps that cannot be read: all may differ.
    let map: Vec<Option<Page>> = (0..page_count(bytes)).map(|_| None).collect();
    let maps = [map];
    let names = (0..legs).map(|leg| format!("leg {leg}")).collect();
    let array = Array::new(&assembly, names, &maps, Geometry::new(bytes, 512));
    let pool = Pool::new(256, 64);
    let source = || -> Ways {
        let world = Rc::clone(&world);
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
    let keeper = array.keeper(&assembly, places, pool.clone(), Rng::new(1, 1), (ways(), source()));
    let lane = array.lane(1, ways(), source(), pool.clone());
    Run { array, keeper, lane, pool, rng: Rng::new(2, 2), bytes }.until(clients, limit)
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
            // Time stands still only while something is due.
            now = wake.unwrap_or(limit).max(now + Nanos(1_000));
        }
        let seconds = now.as_secs_f64();
        let copied = (first - self.array.behind() as u64) * region_bytes(self.bytes);
        Paced { copied: copied as f64 / seconds, clients: answered as f64 / seconds }
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
    Assembly { newest, places, stands, first, missing: 0, notes: Vec::new() }
}

#[cfg(test)]
mod test {
    use super::*;

    const FAST: Speed = Speed { each_ns: 20_000, bytes_per_second: 1_000_000_000 };
    const SLOW: Speed = Speed { each_ns: 100_000, bytes_per_second: 200_000_000 };
    const MINUTE: Nanos = Nanos::from_secs(60);

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
    fn clients_keep_four_fifths_while_legs_are_made_equal() {
        for (op, len, outstanding) in [
            (Op::Write, 4096, 1),
            (Op::Write, 4096, 32),
            (Op::Write, 65_536, 4),
            (Op::Read, 4096, 1),
            (Op::Read, 4096, 32),
        ] {
            let clients = Some(Clients { op, len, outstanding });
            for speeds in [[FAST, FAST], [FAST, SLOW], [SLOW, FAST]] {
                // Writes wait for the slower leg, and what is not equal is read from the first.
                let slower = speeds.into_iter().max_by_key(|one| one.nanos(len));
                let one = if op == Op::Read { speeds[0] } else { slower.unwrap_or(FAST) };
                let alone = pace(&[one], 4 << 30, clients, Nanos::from_secs(1));
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
}
