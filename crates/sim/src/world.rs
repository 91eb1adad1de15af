//! A world: a server, its volumes and peers, their faults, and the invariants.

mod address;
mod agenda;
mod checks;
mod crash;
mod events;
mod operator;
mod setting;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use block::{Budget, Geometry, Nanos, Pool, Rng};
use serve::{Export, Portal, Protocol, Shared};

use self::address::NAMES;
pub(crate) use self::address::{Address, address};
use self::agenda::Agenda;
use self::events::Due;
use self::operator::Removal;
use self::setting::{SHARE_BYTES, export, is_memory, places, shared};
use crate::client::{Client, Mischief, Shape};
use crate::core::{CoreState, Machine, SimCore, Stream};
use crate::disk::{BLOCK, Disk, Disks, SharedDisk};
use crate::net::Net;
use crate::plan::{Fault, Plan};
use crate::raw::Raw;
use crate::region::Region;

/// Blocks of each client.
const REGION_BLOCKS: u64 = 512;
/// Time at which the last fault begins.
const FAULTS: Nanos = Nanos::from_millis(600);
/// Quiet time after the faults: losses are detected, logins time out.
const SETTLE: Nanos = Nanos::from_secs(45);
/// Time for which memory is short before service is checked.
const HOARDING: Nanos = Nanos::from_secs(1);
/// Latency of a healthy disk.
const DISK: (Nanos, Nanos) = (Nanos(200_000), Nanos(800_000));
/// Upper bound of a core's buffers once all peers have left: two steps of each size.
const KEPT_BYTES: u64 = 6 * Budget::STEP_BYTES;
/// Minimum time before a unit that failed to open is retried.
const PAUSE: Nanos = Nanos::from_millis(250);
/// Memory in MiB from which every client gets all buffers that it can use. With less, the first
/// ones have more, so speeds may differ, but all are served.
const ROOMY: u64 = 40;
/// With less memory, progress of all is checked over this time.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// Longest I/O of a healthy unit, whatever others do.
const LONGEST: Nanos = Nanos::from_millis(100);
/// Interval at which progress is checked.
const LOOKS: Nanos = Nanos::from_millis(2);
/// Maximum steps at one instant: more mean no progress.
const STEPS_MAX: u32 = 20_000;

/// Unit that volume faults affect, if it is not memory.
const SICK: usize = 0;

/// The host of hostile peers.
pub(crate) const BAD_HOST: u8 = 200;

/// Summary of a world without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// I/Os completed by clients.
    pub ios: u64,
    /// Virtual time.
    pub spent: Nanos,
    /// Turns of the server's cores.
    pub turns: u64,
}

/// Connects clients to the server.
pub(crate) struct Dialer {
    pub(crate) machine: Rc<RefCell<Machine>>,
    /// Listeners of each core.
    listeners: Vec<[u32; 2]>,
    /// Core of each connection.
    cores: RefCell<Vec<usize>>,
    rng: RefCell<Rng>,
}

impl Dialer {
    /// Connects a host to a random core.
    pub(crate) fn dial(
        &self,
        protocol: Protocol,
        host: u8,
        client: Option<usize>,
    ) -> Option<usize> {
        if self.listeners.is_empty() {
            return None;
        }
        let core = self.rng.borrow_mut().below(self.listeners.len() as u64) as usize;
        let conn = self.machine.borrow_mut().net.connect(client);
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let (token, local) = match protocol {
            Protocol::Iscsi => (self.listeners[core][0], address(3260)),
            Protocol::NvmeTcp => (self.listeners[core][1], address(4420)),
            Protocol::Nbd => unreachable!("no client of these worlds speaks NBD"),
        };
        self.cores.borrow_mut().push(core);
        let peer = SocketAddr::from(([192, 0, 2, host], 10_000 + (conn % 50_000) as u16));
        let stream = Stream::new(conn, &self.machine, local, peer);
        self.machine.borrow_mut().knock(core, token, stream).then_some(conn)
    }
}

/// A world of one seed.
pub struct World {
    plan: Plan,
    dialer: Dialer,
    shared: Arc<Shared>,
    portals: Vec<Portal<SimCore>>,
    pools: Vec<Pool>,
    /// Geometry of its volumes.
    geometry: Geometry,
    say: fn(&str),
    /// Time at which each core finishes its turn.
    free_at: Rc<RefCell<Vec<Nanos>>>,
    woken: Vec<Arc<AtomicBool>>,
    disks: Vec<SharedDisk>,
    /// The disk of each unit.
    units: Rc<RefCell<Vec<usize>>>,
    /// Disks that are being removed, and for how long they stay away.
    leaving: Vec<Removal>,
    clients: Vec<Client>,
    raws: Vec<Raw>,
    /// Times at which clients and cores have something to do.
    agenda: Agenda,
    /// Events to come, the last first.
    events: Vec<Due>,
    rng: Rng,
    report: Report,
    /// Number of restarts of the server.
    started: u64,
    /// I/Os of healthy units must be fast at all times.
    strict: bool,
    /// Time of the next check of the I/Os' ages.
    next_look: Nanos,
}

impl World {
    /// Builds the world of a plan; the server logs to `say`.
    pub fn new(plan: &Plan, say: fn(&str)) -> World {
        let mut rng = Rng::new(plan.seed, 1);
        let units = (plan.disks + plan.memories + 1).min(NAMES.len() as u64) as usize;
        let crowd = (plan.iscsi + plan.nvme).div_ceil(units as u64 - 1).max(plan.hostile).max(1);
        let bytes = crowd * REGION_BLOCKS * u64::from(BLOCK);
        let geometry = Geometry { volatile: true, ..Geometry::new(bytes, BLOCK) };
        let mut net = Net::new(Rng::new(plan.seed, 2), plan.cores as usize);
        net.cut_bytes = plan.cut;
        let cores = (0..plan.cores).map(|_| CoreState::new(plan.buffers as usize)).collect();
        let machine = Machine { net, cores, violations: Vec::new(), share_bytes: SHARE_BYTES };
        let machine = Rc::new(RefCell::new(machine));
        let disks: Vec<SharedDisk> = (0..units)
            .map(|unit| Disk::new(bytes, Rng::new(plan.seed, 100 + unit as u64)))
            .collect();
        let shared = shared(plan, geometry, &disks, plan.seed << 8, say);
        let free_at = Rc::new(RefCell::new(vec![Nanos(0); plan.cores as usize]));
        let mut world = World {
            plan: plan.clone(),
            dialer: Dialer {
                machine: Rc::clone(&machine),
                listeners: Vec::new(),
                cores: RefCell::default(),
                rng: RefCell::new(Rng::new(plan.seed, 3)),
            },
            shared,
            portals: Vec::new(),
            pools: Vec::new(),
            geometry,
            say,
            free_at,
            woken: Vec::new(),
            units: Rc::new(RefCell::new((0..disks.len()).collect())),
            leaving: Vec::new(),
            disks,
            clients: Vec::new(),
            raws: Vec::new(),
            agenda: Agenda::default(),
            events: Vec::new(),
            rng: Rng::new(plan.seed, 4),
            report: Report::default(),
            started: 0,
            strict: false,
            next_look: Nanos(0),
        };
        (0..plan.cores as usize).for_each(|core| world.add_core(core));
        world.add_clients(units, &mut rng);
        world.draw_events(&mut rng);
        let general = [Fault::NoFiles, Fault::Pause, Fault::Busy, Fault::Leave, Fault::Crash];
        world.strict = !general.iter().any(|fault| plan.has(*fault)) && plan.memory >= ROOMY;
        world
    }

    fn add_core(&mut self, index: usize) {
        let geometry = self.geometry;
        let pool = Pool::within(self.shared.budget().clone());
        let core = SimCore::new(&self.dialer.machine, index, pool.clone());
        let listeners = vec![(core.listen(), Protocol::Iscsi), (core.listen(), Protocol::NvmeTcp)];
        use os::ReactorListener;
        let tokens = [listeners[0].0.token().0, listeners[1].0.token().0];
        let woken = Arc::new(AtomicBool::new(false));
        let wake = Arc::clone(&woken);
        self.shared.wakes(index, move || wake.store(true, Ordering::Relaxed));
        let disks = Disks {
            disks: self.disks.clone(),
            units: Rc::clone(&self.units),
            geometry,
            stands: Rc::clone(&self.free_at),
            core: index,
        };
        let portal = Portal::new(core, index, Arc::clone(&self.shared), listeners, Box::new(disks));
        self.portals.push(portal);
        self.pools.push(pool);
        self.woken.push(woken);
        self.dialer.listeners.push(tokens);
    }

    fn add_clients(&mut self, units: usize, rng: &mut Rng) {
        let plan = self.plan.clone();
        let pool = Pool::new(4096, 512);
        let last = units - 1;
        let mut used = vec![0; units];
        let pace = Nanos::from_millis([20, 60, 60, 150][rng.below(4) as usize]);
        let protocols = (0..plan.iscsi + plan.nvme)
            .map(|index| if index < plan.iscsi { Protocol::Iscsi } else { Protocol::NvmeTcp });
        let good = protocols.enumerate().map(|(index, protocol)| {
            let name = format!("good-{index}");
            (name, protocol, index % last, Mischief::None, plan.depth, plan.blocks)
        });
        let mut shapes: Vec<_> = good.collect();
        for index in 0..plan.hostile {
            let name = format!("bad-{index}");
            let after = 2000 + rng.below(100_000);
            let protocol = [Protocol::Iscsi, Protocol::NvmeTcp][rng.below(2) as usize];
            let mischief = match rng.below(8) {
                0 => Mischief::Flip(after),
                1 => Mischief::Deaf(after),
                2 => Mischief::Mute(after),
                3 => Mischief::Flood,
                4 => {
                    let crowd = (0..places(&plan)).map(|n| format!("{name}-{n}"));
                    shapes.extend(crowd.map(|name| (name, protocol, last, Mischief::Crowd, 1, 1)));
                    continue;
                }
                5 => {
                    shapes.push((name, protocol, last, Mischief::Hoard, 64, 1));
                    continue;
                }
                speaks => {
                    let rng = Rng::new(plan.seed, 500 + index);
                    self.raws.push(Raw::new(protocol, speaks == 6, BAD_HOST, rng));
                    continue;
                }
            };
            shapes.push((name, protocol, last, mischief, 16, 128));
        }
        for (index, (name, protocol, unit, mischief, depth, blocks)) in
            shapes.into_iter().enumerate()
        {
            let first = used[unit] * REGION_BLOCKS;
            used[unit] += u64::from(mischief != Mischief::Crowd);
            let region = Region::new(first, REGION_BLOCKS, (index as u64 + 1) << 40);
            let blocks = blocks.min(256 / depth);
            let (depth, digests) = (depth as usize, plan.digests);
            let losses = Rc::clone(&self.disks[unit].borrow().losses);
            let host = if mischief == Mischief::None { index as u8 } else { BAD_HOST };
            let shape = Shape {
                index,
                name,
                host,
                protocol,
                unit,
                address: address(plan.together, unit),
                mischief,
                depth,
                blocks,
                digests,
                losses,
            };
            let rng = Rng::new(plan.seed, 1000 + index as u64);
            let mut client = Client::new(shape, region, &pool, rng);
            client.set_pace(pace, depth);
            self.clients.push(client);
        }
    }

    /// Runs the world; an error is the first violation.
    pub fn run(mut self) -> Result<Report, String> {
        self.latencies(Nanos(200_000), Nanos(3_000_000));
        self.run_until(FAULTS + Nanos::from_millis(50))?;
        // A pause may have ended much later.
        self.set_pace(Nanos::from_millis(200), 1);
        let mut quiet = self.now();
        while let Some(due) = self.next_event() {
            quiet = quiet.max(due + Nanos(1));
            self.run_until(quiet)?;
        }
        self.settle()?;
        self.check_served()?;
        self.measure()?;
        self.finish()?;
        self.report.spent = self.now();
        Ok(self.report)
    }

    /// A quiet time with little load.
    fn settle(&mut self) -> Result<(), String> {
        self.set_pace(Nanos::from_secs(2), 1);
        self.latencies(DISK.0, DISK.1);
        self.raws.iter_mut().for_each(|raw| raw.set_pace(Nanos::from_secs(1)));
        // A server that waits for data polls for buffers all the time: few worlds do so for long.
        if self.rng.below(32) > 0 {
            let net = &mut self.dialer.machine.borrow_mut().net;
            self.clients.iter_mut().try_for_each(|client| client.rest(net, SETTLE - HOARDING))?;
            self.agenda.is_stale = true;
        }
        let settled = self.now() + SETTLE;
        self.run_until(settled)
    }

    fn now(&self) -> Nanos {
        self.dialer.machine.borrow().net.now
    }

    fn latencies(&mut self, least: Nanos, most: Nanos) {
        let memories = self.plan.disks as usize..(self.plan.disks + self.plan.memories) as usize;
        for (unit, disk) in self.disks.iter().enumerate() {
            let span = if memories.contains(&unit) { (Nanos(0), Nanos(0)) } else { (least, most) };
            disk.borrow_mut().latency = span;
        }
        self.agenda.is_stale = true;
    }

    fn set_pace(&mut self, pace: Nanos, burst: usize) {
        self.clients.iter_mut().for_each(|client| client.set_pace(pace, burst));
        self.agenda.is_stale = true;
    }

    fn good(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().filter(|client| client.mischief == Mischief::None)
    }

    /// Ends the world after all peers have left: nothing may leak, and acknowledged data must be
    /// there.
    fn finish(&mut self) -> Result<(), String> {
        let forever = Nanos::from_secs(1 << 30);
        // I/Os in flight complete first.
        self.set_pace(forever, 0);
        let quiet = self.now() + Nanos::from_secs(2);
        self.run_until(quiet)?;
        for client in self.good() {
            let waited = client.oldest(self.now());
            if waited > Nanos(0) {
                let ms = waited.0 / 1_000_000;
                return Err(format!("an I/O of {} waits for {ms} ms in the end", client.name));
            }
            if self.plan.memory >= ROOMY && client.longest > LONGEST {
                let ms = client.longest.0 / 1_000_000;
                return Err(format!("{} waited {ms} ms for an I/O in quiet times", client.name));
            }
        }
        for client in &mut self.clients {
            client.leave(&mut self.dialer.machine.borrow_mut().net, forever)?;
            self.report.ios += client.completed;
        }
        self.agenda.is_stale = true;
        self.raws.iter_mut().for_each(|raw| raw.leave(&self.dialer));
        let gone = self.now() + Nanos::from_secs(30);
        self.run_until(gone)?;
        let left = self.shared.connection_count();
        if left > 0 {
            return Err(format!("{left} connections stay behind"));
        }
        for (core, pool) in self.pools.iter().enumerate() {
            if pool.lent() != [0, 0] {
                return Err(format!("core {core} lacks buffers: {:?}", pool.lent()));
            }
            let kept = pool.mapped_bytes() as u64;
            if kept >= KEPT_BYTES {
                return Err(format!("core {core} keeps {kept} bytes though all have left"));
            }
        }
        for (unit, disk) in self.disks.iter().enumerate() {
            let now = self.now();
            let silent = |answered: &Nanos| now.since(*answered) > Nanos::from_secs(5);
            if let Some(answered) = disk.borrow().answered.values().find(|at| silent(at)) {
                let seconds = now.since(*answered).0 / 1_000_000_000;
                return Err(format!("a lane of unit {unit} said nothing for {seconds} s"));
            }
            let in_flight = disk.borrow().in_flight;
            if in_flight > 0 {
                return Err(format!("{in_flight} I/Os of unit {unit} were never answered"));
            }
        }
        self.check_attempts()?;
        self.check_blocks()
    }

    fn run_until(&mut self, end: Nanos) -> Result<(), String> {
        let (mut at, mut steps) = (self.now(), 0);
        loop {
            let busy = self.step()?;
            let now = self.now();
            steps = if now == at { steps + 1 } else { 0 };
            at = now;
            if steps > STEPS_MAX {
                return Err(format!("time stands still: {}", self.who_is_due()));
            }
            if busy {
                continue;
            }
            let next = self.next_time().filter(|next| *next < end);
            let mut machine = self.dialer.machine.borrow_mut();
            match next {
                Some(next) => machine.net.now = next.max(now),
                None => {
                    machine.net.now = end.max(now);
                    return Ok(());
                }
            }
        }
    }

    /// Clients and cores that are due at this instant.
    fn who_is_due(&self) -> String {
        let machine = &self.dialer.machine;
        let clients = self.clients.iter().filter(|it| it.is_due(&machine.borrow().net));
        let clients = clients.map(|client| format!("{} ({:?})", client.name, client.mischief));
        let cores = (0..self.portals.len()).filter(|core| machine.borrow_mut().has_news(*core));
        let cores = cores.map(|core| format!("news of core {core}"));
        let now = self.now();
        let wakes = self.portals.iter().filter_map(|portal| portal.wake());
        let wakes = wakes.filter(|wake| *wake <= now).map(|wake| format!("wake at {wake:?}"));
        clients.chain(cores).chain(wakes).collect::<Vec<_>>().join(", ")
    }

    /// Does everything that is due, once. Returns whether there was anything.
    fn step(&mut self) -> Result<bool, String> {
        let now = self.now();
        let mut busy = false;
        while let Some(due) = self.events.last().copied()
            && due.at <= now
        {
            self.events.pop();
            self.happen(due)?;
            busy = true;
        }
        let now = self.now();
        {
            let net = &mut self.dialer.machine.borrow_mut().net;
            net.deliver();
            self.agenda.learn(&self.clients, &self.portals, net);
        }
        let looks = self.strict && now >= self.next_look;
        if looks {
            self.next_look = now + LOOKS;
        }
        for (index, client) in self.clients.iter_mut().enumerate() {
            if self.agenda.may_be_due(index, now) {
                if client.is_due(&self.dialer.machine.borrow().net) {
                    client.step(&self.dialer)?;
                    busy = true;
                }
                self.agenda.asked(index, client, &self.dialer.machine.borrow().net);
            }
            if looks && client.unit != SICK && client.is_undisturbed() {
                let waited = client.oldest(now).max(client.longest);
                if waited > LONGEST {
                    let ms = waited.0 / 1_000_000;
                    return Err(format!("{} waited {ms} ms, though its unit is well", client.name));
                }
            }
        }
        for raw in self.raws.iter_mut().filter(|raw| raw.wake() <= now) {
            raw.step(&self.dialer);
            busy = true;
        }
        for core in 0..self.portals.len() {
            busy |= self.turn(core)?;
        }
        busy |= self.end_removals()?;
        self.check_memory()?;
        let violation = self.dialer.machine.borrow_mut().violations.drain(..).next();
        violation.map_or(Ok(busy), Err)
    }

    /// Runs a core's turn, if it has work and its last turn is over.
    fn turn(&mut self, core: usize) -> Result<bool, String> {
        let now = self.now();
        if self.free_at.borrow()[core] > now {
            return Ok(false);
        }
        if self.woken[core].swap(false, Ordering::Relaxed) {
            self.dialer.machine.borrow_mut().cores[core].is_woken = true;
        }
        let news = self.dialer.machine.borrow_mut().has_news(core);
        if !news && self.agenda.core(core) > now {
            return Ok(false);
        }
        let turned = self.portals[core].take_turn(Some(Nanos(0)), usize::MAX);
        turned.map_err(|error| error.to_string())?;
        self.report.turns += 1;
        self.agenda.note_core(core, &self.portals[core]);
        let moved = self.dialer.machine.borrow().cores[core].moved_bytes as u64;
        let mut free_at = self.free_at.borrow_mut();
        free_at[core] = free_at[core].max(now + Nanos(1000 + moved));
        Ok(true)
    }

    /// Time of the next event.
    fn next_time(&self) -> Option<Nanos> {
        let now = self.now();
        let mut next = self.dialer.machine.borrow().net.next_arrival();
        let mut note = |at: Nanos| next = Some(next.map_or(at, |next| next.min(at)));
        note(self.agenda.first_client());
        self.raws.iter().for_each(|raw| note(raw.wake()));
        if let Some(due) = self.events.last() {
            note(due.at);
        }
        for core in 0..self.portals.len() {
            let free = self.free_at.borrow()[core];
            let news = self.dialer.machine.borrow_mut().has_news(core);
            if news || self.woken[core].load(Ordering::Relaxed) {
                note(free.max(now));
            }
            note(self.agenda.core(core).max(free));
        }
        next
    }
}
