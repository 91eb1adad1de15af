//! The controllers of a server. Each has several connections on several cores.
//!
//! A controller begins with the Connect command of its admin queue and ends with that queue's
//! connection. I/O queues join and leave in between. All of this takes one lock, which no I/O
//! takes: an I/O queue checks one atomic number per batch, its controller's
//! [`life`](Controller::life).
//!
//! A queue leaves when nothing of it is left: its membership lasts until the volumes have completed
//! its changes. Resets, shutdowns and later controllers of the same host wait for that.

mod membership;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Plant, planted};

pub(super) use self::membership::Membership;
use super::directory::Subsystem;

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ControllerLimits {
    /// Maximum number of controllers, 1 to 65519. A host, by NQN and by address, may have half of
    /// those that others leave. Beyond that it gets a busy status, unless an idle controller can be
    /// ended.
    pub controllers: usize,
    /// I/O queues of a controller, 1 to 65535.
    pub queues: u16,
    /// In-capsule data of all queues together; a host may have half of what others leave. A queue
    /// that could exceed it is refused as busy.
    pub memory_bytes: u64,
}

impl Default for ControllerLimits {
    fn default() -> ControllerLimits {
        ControllerLimits { controllers: 16_384, queues: 64, memory_bytes: 32 << 30 }
    }
}

/// The controllers of a server. Locked when one begins, ends or changes, never for an I/O.
#[derive(Debug)]
pub struct Controllers {
    limits: ControllerLimits,
    /// A number that was drawn by chance.
    drawn: u64,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    entries: BTreeMap<u16, Entry>,
    /// The last identifier given out; identifiers are not reused soon.
    last: u16,
    /// Usage of all hosts, and of each host by NQN and by address.
    all: Holding,
    by_host: BTreeMap<HostKey, Holding>,
    /// Number of controllers ever begun.
    begun: u64,
    /// I/O queues, by their controller's ordinal and their own, until nothing of them is left.
    seats: BTreeMap<(u64, u64), Seat>,
    /// Number of controllers that are ending.
    ending: usize,
    /// Number of queues that ever joined, and of instances of controllers.
    joined: u64,
    instances: u64,
}

/// The place of an I/O queue.
#[derive(Debug)]
struct Seat {
    controller: Arc<Controller>,
    life: u32,
    /// The controller was reset or has ended, or the queue's connection is lost.
    is_ending: bool,
}

/// The identity of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HostKey {
    Name(String),
    Address(u128),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holding {
    controllers: usize,
    memory_bytes: u64,
}

/// Parameters of a new queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    /// In-capsule data of all its commands together.
    pub(super) memory_bytes: u64,
    /// Longest in-capsule data of the controller's I/O queues.
    pub(super) in_capsule_bytes: u32,
    /// The host sends Keep Alives.
    pub(super) keeps_alive: bool,
}

#[derive(Debug)]
struct Entry {
    controller: Arc<Controller>,
    /// Existing I/O queues, and their maximum number.
    queues: BTreeSet<u16>,
    granted: u16,
}

/// End of the valid identifiers.
//= NVMe base §CNTLID: FFF0h to FFFFh are reserved.
const IDS_END: u16 = 0xfff0;

/// State shared by the queues of a controller.
#[derive(Debug)]
pub(super) struct Controller {
    /// Identifier.
    pub(super) id: u16,
    /// Ordinal among all controllers that ever began.
    number: u64,
    /// CIU and CIRN.
    uniquifier: AtomicU32,
    random: AtomicU64,
    /// `None` for the discovery service.
    pub(super) subsystem: Option<Arc<Subsystem>>,
    pub(super) host: Host,
    /// Longest in-capsule data of its I/O queues.
    pub(super) in_capsule_bytes: u32,
    keeps_alive: AtomicBool,
    was_enabled: AtomicBool,
    /// Whether the controller was ended to make room for another host, or was reset by another
    /// controller of its host.
    is_given_up: AtomicBool,
    is_replaced: AtomicBool,
    /// Odd while enabled; incremented at each change.
    life: AtomicU32,
}

/// The host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) nqn: String,
    pub(super) id: [u8; 16],
    /// Address as a number that identifies a host, if known.
    pub(super) address: Option<u128>,
}

impl Host {
    fn keys(&self) -> impl Iterator<Item = HostKey> {
        let address = self.address.map(HostKey::Address);
        address.into_iter().chain([HostKey::Name(self.nqn.clone())])
    }
}

/// Why a queue is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A limit is reached.
    Busy,
    /// No controller of the subsystem has this identifier.
    Controller,
    /// The controller belongs to another host (NQN).
    HostName,
    /// The controller belongs to another host (host identifier).
    HostId,
    /// Invalid queue identifier.
    Queue,
    /// The queue exists, or the controller is not enabled.
    Sequence,
}

impl Controllers {
    /// Without controllers.
    pub fn new(limits: ControllerLimits) -> Controllers {
        Controllers { limits, drawn: 0, registry: Mutex::default() }
    }

    /// Draws the random numbers of controllers from this one.
    pub fn drawn_from(self, drawn: u64) -> Controllers {
        Controllers { drawn, ..self }
    }

    /// Gives `id` to the first controller and counts up. A host refuses two controllers of one
    /// identifier in one subsystem, which several servers may share: each starts elsewhere.
    pub fn beginning_at(self, id: u16) -> Controllers {
        self.lock().last = id.wrapping_sub(1);
        self
    }

    /// Number of controllers.
    pub fn count(&self) -> usize {
        self.lock().entries.len()
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // The registry is consistent between any two statements, so a panic elsewhere does no harm.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a controller with its admin queue.
    pub(super) fn begin(
        self: &Arc<Self>,
        subsystem: Option<Arc<Subsystem>>,
        host: Host,
        terms: Terms,
    ) -> Result<Membership, Refusal> {
        let mut registry = self.lock();
        self.make_room(&mut registry, &host)?;
        self.take_memory(&mut registry, &host, terms.memory_bytes)?;
        let mut id = registry.last;
        while id == 0 || id >= IDS_END || id == registry.last || registry.entries.contains_key(&id)
        {
            id = if id >= IDS_END { 1 } else { id + 1 };
        }
        registry.last = id;
        registry.count(&host, |holding| holding.controllers += 1);
        registry.begun += 1;
        let number = registry.begun;
        let controller = Arc::new(Controller {
            id,
            number,
            uniquifier: AtomicU32::new(0),
            random: AtomicU64::new(0),
            subsystem,
            host,
            in_capsule_bytes: terms.in_capsule_bytes,
            keeps_alive: AtomicBool::new(terms.keeps_alive),
            was_enabled: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            is_replaced: AtomicBool::new(false),
            life: AtomicU32::new(0),
        });
        let (queues, granted) = (BTreeSet::new(), self.limits.queues);
        let entry = Entry { controller: Arc::clone(&controller), queues, granted };
        registry.entries.insert(id, entry);
        self.draw(&mut registry, &controller);
        let (controllers, memory_bytes) = (Arc::clone(self), terms.memory_bytes);
        Ok(Membership { controllers, controller, queue: 0, life: 0, seat: 0, memory_bytes })
    }

    /// Gives a controller its next CIU and CIRN.
    //= NVMe base §Identify Controller data structure: CIU is not zero; both change with CSTS.RDY.
    fn draw(&self, registry: &mut Registry, controller: &Controller) {
        registry.instances += 1;
        let mut drawn = self.drawn;
        let mut random = block::splitmix(&mut drawn) ^ registry.instances;
        controller.random.store(block::splitmix(&mut random).max(1), Ordering::Relaxed);
        let last = controller.uniquifier.load(Ordering::Relaxed);
        controller.uniquifier.store(last % 255 + 1, Ordering::Relaxed);
    }

    /// Returns whether changes are left from queues of this host and subsystem whose connection is
    /// lost or whose controller has ended.
    fn has_leftovers_of(&self, subsystem: &Arc<Subsystem>, host: &Host) -> bool {
        let registry = self.lock();
        let left = |seat: &&Seat| seat.is_ending && seat.controller.is_of(subsystem, host);
        registry.ending > 0 && registry.seats.values().any(|seat| left(&seat))
    }

    /// Ends a controller, for another one of the same host and subsystem: that with this
    /// identifier, CIU and CIRN. False if it is `own`.
    pub(super) fn end_other(&self, own: &Controller, id: u16, (ciu, cirn): (u8, u64)) -> bool {
        let mut registry = self.lock();
        let Some(entry) = registry.entries.get(&id) else { return true };
        let other = Arc::clone(&entry.controller);
        let is_there = other.instance() == (ciu, cirn);
        if std::ptr::eq(own, &*other) {
            return !is_there;
        }
        let subsystem = own.subsystem.as_ref();
        if is_there && subsystem.is_some_and(|subsystem| other.is_of(subsystem, &own.host)) {
            other.is_replaced.store(true, Ordering::Release);
            registry.give_up(id);
        }
        true
    }

    /// Makes room for one more controller of a host: ends an idle controller of this host if its
    /// share is used up, and one of any host if the table is full.
    fn make_room(&self, registry: &mut Registry, host: &Host) -> Result<(), Refusal> {
        let limit = self.limits.controllers.min(usize::from(IDS_END) - 1);
        for key in host.keys() {
            let own = registry.held_by(&key).controllers;
            let is_full = own >= (limit - (registry.all.controllers - own)) / 2;
            if own != 0 && is_full && !planted(Plant::OneHostTakesAll) {
                registry.give_up_idle(|entry| entry.controller.host.keys().any(|it| it == key))?;
            }
        }
        if registry.all.controllers >= limit {
            registry.give_up_idle(|_| true)?;
        }
        Ok(())
    }

    /// Adds an I/O queue to a controller.
    pub(super) fn join(
        self: &Arc<Self>,
        id: u16,
        subsystem: &Arc<Subsystem>,
        host: &Host,
        queue: u16,
        memory_bytes: u64,
    ) -> Result<Membership, Refusal> {
        let mut registry = self.lock();
        let entry = registry.entries.get_mut(&id).ok_or(Refusal::Controller)?;
        let controller = Arc::clone(&entry.controller);
        if controller.subsystem.as_ref().is_none_or(|own| own.nqn != subsystem.nqn) {
            return Err(Refusal::Controller);
        }
        //= NVMe-oF §Connect command: host NQN and identifier are those of the admin queue.
        if controller.host.nqn != host.nqn {
            return Err(Refusal::HostName);
        }
        if controller.host.id != host.id {
            return Err(Refusal::HostId);
        }
        if queue > entry.granted {
            return Err(Refusal::Queue);
        }
        let life = controller.life();
        let is_taken = entry.queues.contains(&queue);
        if life & 1 == 0 || is_taken || registry.has_older(&controller, life) {
            return Err(Refusal::Sequence);
        }
        let entry = registry.entries.get_mut(&id).ok_or(Refusal::Controller)?;
        entry.queues.insert(queue);
        if let Err(refusal) = self.take_memory(&mut registry, host, memory_bytes) {
            let entry = registry.entries.get_mut(&id).ok_or(Refusal::Controller)?;
            entry.queues.remove(&queue);
            return Err(refusal);
        }
        registry.joined += 1;
        let seat = registry.joined;
        let taken = Seat { controller: Arc::clone(&controller), life, is_ending: false };
        registry.seats.insert((controller.number, seat), taken);
        let controllers = Arc::clone(self);
        Ok(Membership { controllers, controller, queue, life, seat, memory_bytes })
    }

    fn take_memory(&self, registry: &mut Registry, host: &Host, bytes: u64) -> Result<(), Refusal> {
        let (limit, all) = (self.limits.memory_bytes, registry.all.memory_bytes);
        let fits = |key| {
            let own = registry.held_by(&key).memory_bytes;
            own == 0 || own.saturating_add(bytes) <= (limit - (all - own)) / 2
        };
        if all.saturating_add(bytes) > limit || !host.keys().all(fits) {
            return Err(Refusal::Busy);
        }
        registry.count(host, |holding| holding.memory_bytes += bytes);
        Ok(())
    }
}

impl Registry {
    fn held_by(&self, key: &HostKey) -> Holding {
        self.by_host.get(key).copied().unwrap_or_default()
    }

    /// Changes the usage of a host and the total.
    fn count(&mut self, host: &Host, change: impl Fn(&mut Holding)) {
        change(&mut self.all);
        for key in host.keys() {
            let holding = self.by_host.entry(key.clone()).or_default();
            change(holding);
            if *holding == Holding::default() {
                self.by_host.remove(&key);
            }
        }
    }

    /// Ends an idle controller: the oldest that was never enabled, or else the oldest without I/O
    /// queues and Keep Alive.
    fn give_up_idle(&mut self, fits: impl Fn(&Entry) -> bool) -> Result<(), Refusal> {
        let idle = |entry: &&Entry| {
            let controller = &entry.controller;
            let never = !controller.was_enabled.load(Ordering::Relaxed);
            let kept = controller.keeps_alive.load(Ordering::Relaxed);
            (never || !kept && entry.queues.is_empty()) && fits(entry)
        };
        let rank = |entry: &&Entry| {
            let controller = &entry.controller;
            (controller.was_enabled.load(Ordering::Relaxed), controller.number)
        };
        let found = self.entries.values().filter(idle).min_by_key(rank);
        let id = found.ok_or(Refusal::Busy)?.controller.id;
        self.give_up(id);
        Ok(())
    }

    /// Ends a controller whose admin queue still has its connection.
    fn give_up(&mut self, id: u16) {
        let Some(entry) = self.entries.remove(&id) else { return };
        entry.controller.is_given_up.store(true, Ordering::Release);
        self.end_queues(&entry.controller);
        entry.controller.end();
        self.count(&entry.controller.host, |holding| holding.controllers -= 1);
    }

    /// The I/O queues of a controller end.
    fn end_queues(&mut self, controller: &Controller) {
        let seats = self.seats.range_mut((controller.number, 0)..=(controller.number, u64::MAX));
        for (_, seat) in seats.filter(|(_, seat)| !seat.is_ending) {
            seat.is_ending = true;
            self.ending += 1;
        }
    }

    /// Whether something is left of I/O queues that a controller had before its last reset.
    fn has_older(&self, controller: &Controller, life: u32) -> bool {
        let all = (controller.number, 0)..=(controller.number, u64::MAX);
        self.ending > 0 && self.seats.range(all).any(|(_, seat)| seat.life != life)
    }

    /// Whether something is left of ending I/O queues of a controller.
    fn has_ending(&self, controller: &Controller) -> bool {
        let all = (controller.number, 0)..=(controller.number, u64::MAX);
        self.ending > 0 && self.seats.range(all).any(|(_, seat)| seat.is_ending)
    }
}

impl Controller {
    /// CIU and CIRN now.
    pub(super) fn instance(&self) -> (u8, u64) {
        let uniquifier = self.uniquifier.load(Ordering::Relaxed) as u8;
        (uniquifier, self.random.load(Ordering::Relaxed))
    }

    /// Whether it is one of this host and subsystem. Hosts are the same by their names: one that
    /// was started again may have another identifier.
    fn is_of(&self, subsystem: &Arc<Subsystem>, host: &Host) -> bool {
        let own = self.subsystem.as_ref();
        self.host.nqn == host.nqn && own.is_some_and(|own| own.nqn == subsystem.nqn)
    }

    /// Changes whenever the controller is enabled, reset or ended. Odd if enabled.
    #[inline(always)]
    pub(super) fn life(&self) -> u32 {
        self.life.load(Ordering::Acquire)
    }

    /// Ends it, which its I/O queues notice.
    fn end(&self) {
        self.life.fetch_or(1, Ordering::AcqRel);
        self.life.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod test;
