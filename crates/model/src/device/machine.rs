//! A modelled system shared by lanes: the model computes when each I/O completes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use block::{Nanos, Op};

use crate::{Class, ClassId, Emulation, Extent, ModelError, Network, Service, StationId, Step};

/// Maximum number of I/O lengths of each drive and operation that are modelled exactly; any further
/// length is rounded up to a power of two.
const LENGTHS_MAX: usize = 256;

/// Attributes of an I/O that select its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// The drive.
    pub drive: u32,
    /// The operation.
    pub op: Op,
    /// Length in bytes.
    pub len_bytes: u32,
}

/// Function that returns the route of an I/O through the stations, with its service times.
pub type Ways = Box<dyn FnMut(Way) -> Result<Vec<Step>, ModelError> + Send>;

/// A modelled system in its caller's time, real or virtual.
///
/// The lanes share one queueing network, as the drives of a host share its links. A lock on the
/// network is taken once per batch.
pub struct Machine {
    inside: Mutex<Inside>,
    /// Queue depth of the drive of each lane.
    depth: AtomicU32,
    seed: u64,
}

struct Inside {
    emulation: Emulation,
    /// Replaced networks that still have I/Os in flight.
    ending: Vec<Emulation>,
    ways: Ways,
    known: HashMap<Way, ClassId>,
    /// Number of known lengths of each drive and operation.
    lengths: HashMap<(u32, Op), usize>,
    /// Slots of due I/Os, by lane.
    mail: Vec<Vec<u32>>,
    /// Lanes with due I/Os since the last [`Machine::advance`].
    news: Vec<usize>,
    told: Vec<bool>,
    keys: Vec<u64>,
}

impl Machine {
    /// Creates a system from `stations`, a network whose classes are ignored; `seed` is its random
    /// seed.
    ///
    /// # Errors
    ///
    /// [`ModelError`] for invalid stations.
    pub fn new(stations: Network, ways: Ways, seed: u64) -> Result<Machine, ModelError> {
        let emulation = emulation(stations, seed)?;
        let inside = Inside {
            emulation,
            ending: Vec::new(),
            ways,
            known: HashMap::new(),
            lengths: HashMap::new(),
            mail: Vec::new(),
            news: Vec::new(),
            told: Vec::new(),
            keys: Vec::new(),
        };
        Ok(Machine { inside: Mutex::new(inside), depth: AtomicU32::new(u32::MAX), seed })
    }

    /// Replaces stations and routes for new I/Os. I/Os in flight keep the old ones.
    ///
    /// # Errors
    ///
    /// [`ModelError`] for invalid stations; the system is unchanged then.
    pub fn replace(&self, stations: Network, ways: Ways) -> Result<(), ModelError> {
        let emulation = emulation(stations, self.seed)?;
        let inside = &mut *self.lock();
        let mut old = std::mem::replace(&mut inside.emulation, emulation);
        if old.wake().is_some() {
            inside.ending.push(old);
        }
        inside.ways = ways;
        inside.known.clear();
        inside.lengths.clear();
        Ok(())
    }

    /// Sets the queue depth of each lane's drive.
    pub fn set_depth(&self, depth: u32) {
        self.depth.store(depth, Ordering::Relaxed);
    }

    /// Returns the queue depth of each lane's drive.
    pub fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Returns the time of the next event; `None` without I/Os in flight.
    pub fn next(&self) -> Option<Nanos> {
        self.lock().wake()
    }

    /// Advances to `now`, and appends the numbers of lanes with due I/Os; lanes are numbered in
    /// order of creation. For callers that step lanes only when needed.
    pub fn advance(&self, now: Nanos, lanes: &mut Vec<usize>) {
        let inside = &mut *self.lock();
        inside.advance(now);
        for lane in inside.news.drain(..) {
            inside.told[lane] = false;
            lanes.push(lane);
        }
    }

    /// Adds a lane and returns its number.
    pub fn join(&self) -> usize {
        let inside = &mut *self.lock();
        inside.mail.push(Vec::new());
        inside.told.push(false);
        inside.mail.len() - 1
    }

    /// Submits I/Os of a lane, each with its slot in the lane and its extent on the drive.
    pub fn begin(
        &self,
        now: Nanos,
        lane: usize,
        ios: impl Iterator<Item = (u32, Way, Extent)>,
    ) -> Result<(), ModelError> {
        let inside = &mut *self.lock();
        for (slot, way, extent) in ios {
            let class = inside.class(way)?;
            let key = (lane as u64) << 32 | u64::from(slot);
            inside.emulation.submit_at(now, class, key, Some(extent))?;
        }
        Ok(())
    }

    /// Appends the slots of a lane's due I/Os.
    pub fn due(&self, now: Nanos, lane: usize, slots: &mut Vec<u32>) {
        let inside = &mut *self.lock();
        inside.advance(now);
        slots.append(&mut inside.mail[lane]);
    }

    /// Returns the time of the next poll of a lane: a past time if the lane has due I/Os.
    pub fn wake(&self, lane: usize) -> Option<Nanos> {
        let inside = &mut *self.lock();
        if inside.mail[lane].is_empty() { inside.wake() } else { Some(Nanos(0)) }
    }

    /// Returns the number of known routes.
    pub fn ways(&self) -> usize {
        self.lock().known.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // A thread that panicked has reported its error; the state is consistent between calls.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// Returns the time of the next event.
    fn wake(&mut self) -> Option<Nanos> {
        let now = self.emulation.wake();
        self.ending.iter_mut().filter_map(Emulation::wake).chain(now).min()
    }

    fn advance(&mut self, now: Nanos) {
        self.emulation.poll(now, &mut self.keys);
        if !self.ending.is_empty() {
            self.ending.iter_mut().for_each(|ending| ending.poll(now, &mut self.keys));
            self.ending.retain_mut(|ending| ending.wake().is_some());
        }
        for key in self.keys.drain(..) {
            let lane = (key >> 32) as usize;
            self.mail[lane].push(key as u32);
            if !std::mem::replace(&mut self.told[lane], true) {
                self.news.push(lane);
            }
        }
    }

    fn class(&mut self, way: Way) -> Result<ClassId, ModelError> {
        if let Some(id) = self.known.get(&way) {
            return Ok(*id);
        }
        let lengths = self.lengths.get(&(way.drive, way.op)).copied().unwrap_or(0);
        if lengths >= LENGTHS_MAX && !way.len_bytes.is_power_of_two() {
            // At most 32 lengths are powers of two.
            let len_bytes = way.len_bytes.checked_next_power_of_two().unwrap_or(1 << 31);
            return self.class(Way { len_bytes, ..way });
        }
        let id = self.emulation.add_class(class(way, (self.ways)(way)?))?;
        *self.lengths.entry((way.drive, way.op)).or_default() += 1;
        self.known.insert(way, id);
        Ok(id)
    }
}

fn emulation(stations: Network, seed: u64) -> Result<Emulation, ModelError> {
    let mut network = Network { classes: Vec::new(), ..stations };
    // A network needs at least one class; the classes of I/Os are added at their first use.
    network.add_class(Class::closed("none", 1).visit(StationId(0), Service::fixed(1.0)));
    Emulation::new(&network, seed)
}

fn class(way: Way, route: Vec<Step>) -> Class {
    let Way { drive, op, len_bytes } = way;
    let mut class = Class::closed(format!("{op:?} of {len_bytes} at {drive}"), 1);
    class.route = route;
    class
}
