//! The controllers of a server, each of which is several connections, on several cores.
//!
//! A controller begins with the Connect command of its admin queue and ends with that queue's
//! connection. I/O queues join and leave in between. All of that goes through one lock, which no
//! I/O ever takes: what an I/O queue asks for each batch is one atomic number, its controller's
//! [`life`](Controller::life).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Count;

use super::directory::Subsystem;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct ControllerLimits {
    /// Controllers at once, 1 to 65519. One more is told that the server is busy.
    pub controllers: usize,
    /// I/O queues of one controller, 1 to 65535.
    pub queues: u16,
    /// What commands may bring along unasked on all queues together. A queue that could exceed it
    /// is told that the server is busy.
    pub memory_bytes: u64,
}

impl Default for ControllerLimits {
    fn default() -> ControllerLimits {
        ControllerLimits { controllers: 1024, queues: 64, memory_bytes: 8 << 30 }
    }
}

/// The controllers of a server. Locked when one begins, ends or changes, never for an I/O.
#[derive(Debug)]
pub struct Controllers {
    limits: ControllerLimits,
    registry: Mutex<Registry>,
}

#[derive(Debug, Default)]
struct Registry {
    entries: BTreeMap<u16, Entry>,
    /// The identifier given last, so that a fresh one is not soon taken for an old one.
    last: u16,
    memory_bytes: u64,
}

#[derive(Debug)]
struct Entry {
    controller: Arc<Controller>,
    /// I/O queues that exist, and how many may.
    queues: BTreeSet<u16>,
    granted: u16,
}

/// Identifiers from here on mean something else.
//= NVMe base §CNTLID: FFF0h to FFFFh are reserved.
const IDS_END: u16 = 0xfff0;

/// What the queues of a controller have in common.
#[derive(Debug)]
pub(super) struct Controller {
    /// Its identifier.
    pub(super) id: u16,
    /// `None` for the discovery service.
    pub(super) subsystem: Option<Arc<Subsystem>>,
    pub(super) host: Host,
    /// Odd while it is enabled; another number each time.
    life: AtomicU32,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) nqn: String,
    pub(super) id: [u8; 16],
}

/// Why a queue cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A limit is reached.
    Busy,
    /// No controller has that identifier in that subsystem.
    Controller,
    /// The controller is another host's.
    HostName,
    /// The same, by its number.
    HostId,
    /// No queue may have that number.
    Queue,
    /// The queue exists, or the controller is not enabled.
    Sequence,
}

impl Controllers {
    /// None yet.
    pub fn new(limits: ControllerLimits) -> Controllers {
        Controllers { limits, registry: Mutex::default() }
    }

    /// Gives `id` to the first controller and goes on from there. A host takes no two controllers
    /// of one identifier below one subsystem's name, and several servers may have that name in
    /// common: each begins somewhere else.
    pub fn beginning_at(self, id: u16) -> Controllers {
        self.lock().last = id.wrapping_sub(1);
        self
    }

    /// How many there are now.
    pub fn count(&self) -> usize {
        self.lock().entries.len()
    }

    fn lock(&self) -> MutexGuard<'_, Registry> {
        // The registry is whole between any two statements, so a panic elsewhere does no harm.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a controller with its admin queue.
    pub(super) fn begin(
        self: &Arc<Self>,
        subsystem: Option<Arc<Subsystem>>,
        host: Host,
        memory_bytes: u64,
    ) -> Result<Membership, Refusal> {
        let mut registry = self.lock();
        if registry.entries.len() >= self.limits.controllers.min(usize::from(IDS_END) - 1) {
            return Err(Refusal::Busy);
        }
        self.take_memory(&mut registry, memory_bytes)?;
        let mut id = registry.last;
        while id == 0 || id >= IDS_END || id == registry.last || registry.entries.contains_key(&id)
        {
            id = if id >= IDS_END { 1 } else { id + 1 };
        }
        registry.last = id;
        let life = AtomicU32::new(0);
        let controller = Arc::new(Controller { id, subsystem, host, life });
        let (queues, granted) = (BTreeSet::new(), self.limits.queues);
        let entry = Entry { controller: Arc::clone(&controller), queues, granted };
        registry.entries.insert(id, entry);
        let controllers = Arc::clone(self);
        Ok(Membership { controllers, controller, queue: 0, life: 0, memory_bytes })
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
        if !controller.subsystem.as_ref().is_some_and(|own| Arc::ptr_eq(own, subsystem)) {
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
        if life & 1 == 0 || entry.queues.contains(&queue) {
            return Err(Refusal::Sequence);
        }
        entry.queues.insert(queue);
        if let Err(refusal) = self.take_memory(&mut registry, memory_bytes) {
            let entry = registry.entries.get_mut(&id).ok_or(Refusal::Controller)?;
            entry.queues.remove(&queue);
            return Err(refusal);
        }
        let controllers = Arc::clone(self);
        Ok(Membership { controllers, controller, queue, life, memory_bytes })
    }

    fn take_memory(&self, registry: &mut Registry, bytes: u64) -> Result<(), Refusal> {
        let sum = registry.memory_bytes.saturating_add(bytes);
        if sum > self.limits.memory_bytes {
            return Err(Refusal::Busy);
        }
        registry.memory_bytes = sum;
        Ok(())
    }
}

impl Controller {
    /// A number that changes whenever the controller is enabled, reset or ended. Odd if enabled.
    #[inline(always)]
    pub(super) fn life(&self) -> u32 {
        self.life.load(Ordering::Acquire)
    }
}

/// A queue's place in its controller. Dropping it ends the queue; that of an admin queue ends the
/// controller.
#[derive(Debug)]
pub(super) struct Membership {
    controllers: Arc<Controllers>,
    controller: Arc<Controller>,
    queue: u16,
    life: u32,
    memory_bytes: u64,
}

impl Membership {
    /// What the queue shares with the others.
    pub(super) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Number of the queue; 0 is the admin queue.
    pub(super) fn queue(&self) -> u16 {
        self.queue
    }

    /// Whether an I/O queue is still one of an enabled controller.
    #[inline(always)]
    pub(super) fn lives(&self) -> bool {
        self.controller.life() == self.life
    }

    /// Enables or disables the controller; disabling ends its I/O queues. For the admin queue.
    pub(super) fn enable(&self, enable: bool) {
        let mut registry = self.controllers.lock();
        let Some(entry) = registry.entries.get_mut(&self.controller.id) else { return };
        if (self.controller.life() & 1 != 0) != enable {
            self.controller.life.fetch_add(1, Ordering::AcqRel);
            entry.queues.clear();
            entry.granted = self.controllers.limits.queues;
        }
    }

    /// Answers a request for `queues` I/O queues by how many may be had. `None` when some exist
    /// already.
    pub(super) fn grant(&self, queues: u16) -> Option<u16> {
        let mut registry = self.controllers.lock();
        let entry = registry.entries.get_mut(&self.controller.id)?;
        if !entry.queues.is_empty() {
            return None;
        }
        entry.granted = queues.clamp(1, self.controllers.limits.queues);
        Some(entry.granted)
    }

    /// How many I/O queues may be had.
    pub(super) fn granted(&self) -> u16 {
        let registry = self.controllers.lock();
        registry.entries.get(&self.controller.id).map_or(0, |entry| entry.granted)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut registry = self.controllers.lock();
        registry.memory_bytes.lower(self.memory_bytes);
        let id = self.controller.id;
        if self.queue == 0 {
            registry.entries.remove(&id);
            // Its I/O queues see that it is no longer theirs.
            self.controller.life.fetch_or(1, Ordering::AcqRel);
            self.controller.life.fetch_add(1, Ordering::AcqRel);
        } else if let Some(entry) = registry.entries.get_mut(&id)
            && self.controller.life() == self.life
        {
            // After a reset the number belongs to a later queue, if to any.
            entry.queues.remove(&self.queue);
        }
    }
}

#[cfg(test)]
mod test {
    use block::Geometry;

    use super::super::directory::{Namespace, Subsystems};
    use super::*;
    use crate::{DiskId, UnitId};

    fn subsystem() -> Arc<Subsystem> {
        let geometry = Geometry::new(1 << 20, 512);
        let disk = DiskId::new([0; 16]);
        let namespace = Namespace { id: UnitId(0), geometry, memory: None, disk };
        let subsystem = Subsystem {
            nqn: "nqn.2026-01.io.drumfire:a".to_owned(),
            namespaces: vec![Some(namespace)],
            serial: "S".to_owned(),
            model: "M".to_owned(),
            shared: false,
        };
        Arc::clone(&Subsystems::new(vec![subsystem]).unwrap().list()[0])
    }

    fn host(name: &str) -> Host {
        Host { nqn: name.to_owned(), id: [name.len() as u8; 16] }
    }

    fn controllers(controllers: usize, queues: u16, memory_bytes: u64) -> Arc<Controllers> {
        Arc::new(Controllers::new(ControllerLimits { controllers, queues, memory_bytes }))
    }

    #[test]
    fn queues_join_their_controller_and_no_other() {
        let (all, a, b) = (controllers(4, 2, 100), subsystem(), subsystem());
        let admin = all.begin(Some(Arc::clone(&a)), host("h"), 1).unwrap();
        let id = admin.controller().id;
        let join = |id, subsystem, host: &str, queue| {
            all.join(id, subsystem, &self::host(host), queue, 1).map(|member| member.queue())
        };
        assert_eq!(join(id, &a, "h", 1), Err(Refusal::Sequence));
        admin.enable(true);
        assert_eq!(join(id, &a, "h", 1), Ok(1));
        assert_eq!(join(id + 1, &a, "h", 1), Err(Refusal::Controller));
        assert_eq!(join(id, &b, "h", 1), Err(Refusal::Controller));
        assert_eq!(join(id, &a, "i", 1), Err(Refusal::HostName));
        let impostor = Host { nqn: "h".to_owned(), id: [0; 16] };
        let refusal = all.join(id, &a, &impostor, 1, 1).unwrap_err();
        assert_eq!(refusal, Refusal::HostId);
        assert_eq!(join(id, &a, "h", 3), Err(Refusal::Queue));
        let first = all.join(id, &a, &host("h"), 1, 1).unwrap();
        assert_eq!(join(id, &a, "h", 1), Err(Refusal::Sequence));
        assert_eq!((admin.grant(1), admin.granted()), (None, 2));
        drop(first);
        assert_eq!((admin.grant(9), admin.grant(1), admin.granted()), (Some(2), Some(1), 1));
        assert_eq!(join(id, &a, "h", 2), Err(Refusal::Queue));
    }

    #[test]
    fn a_reset_ends_queues_and_frees_their_numbers() {
        let (all, a) = (controllers(4, 2, 100), subsystem());
        let admin = all.begin(Some(Arc::clone(&a)), host("h"), 1).unwrap();
        let id = admin.controller().id;
        admin.enable(true);
        let old = all.join(id, &a, &host("h"), 1, 1).unwrap();
        assert!(old.lives());
        admin.enable(true);
        assert!(old.lives());
        admin.enable(false);
        assert!(!old.lives());
        admin.enable(true);
        assert!(!old.lives());
        let new = all.join(id, &a, &host("h"), 1, 1).unwrap();
        drop(old);
        assert!(new.lives());
        assert_eq!(all.join(id, &a, &host("h"), 1, 1).unwrap_err(), Refusal::Sequence);
        drop(admin);
        assert!(!new.lives());
        assert_eq!(all.count(), 0);
    }

    #[test]
    fn limits_hold_and_are_given_back() {
        let (all, a) = (controllers(2, 2, 10), subsystem());
        let begin = |memory| all.begin(Some(Arc::clone(&a)), host("h"), memory);
        let [first, second] = [begin(4).unwrap(), begin(4).unwrap()];
        assert_eq!(begin(0).unwrap_err(), Refusal::Busy);
        drop(second);
        assert_eq!(begin(7).unwrap_err(), Refusal::Busy);
        first.enable(true);
        let id = first.controller().id;
        assert_eq!(all.join(id, &a, &host("h"), 1, 7).unwrap_err(), Refusal::Busy);
        let queue = all.join(id, &a, &host("h"), 1, 6).unwrap();
        drop((first, queue));
        assert_eq!(all.lock().memory_bytes, 0);
    }

    #[test]
    fn identifiers_are_not_given_again_at_once() {
        let (all, a) = (controllers(4, 2, 100), subsystem());
        let begin = || all.begin(Some(Arc::clone(&a)), host("h"), 0).unwrap();
        let kept = begin();
        assert_eq!(kept.controller().id, 1);
        assert_eq!([begin(), begin()].map(|one| one.controller().id), [2, 3]);
        all.lock().last = IDS_END - 2;
        assert_eq!([begin(), begin()].map(|one| one.controller().id), [IDS_END - 1, 2]);
        for (first, ids) in [(500, [500, 501]), (0, [1, 2]), (u16::MAX, [1, 2]), (IDS_END, [1, 2])]
        {
            let all = Controllers::new(ControllerLimits::default()).beginning_at(first);
            let all = Arc::new(all);
            let begin = || all.begin(Some(Arc::clone(&a)), host("h"), 0).unwrap();
            assert_eq!([begin(), begin()].map(|one| one.controller().id), ids, "{first}");
        }
    }
}
