//! Hosts of legs: each runs the real server with one simulated disk.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use block::{Geometry, Lane, Nanos, Pool, Rng};
use os::{ReactorListener, Token};
use serve::{
    DiskId, Export, HostLists, LaneSource, Limits, Log, Portal, Protocol, Protocols, ServeConfig,
    Shared as Serving,
};

use super::super::disk::{Shared as Disks, Way};
use crate::core::{CoreState, Machine, Shared, SimCore, Stream};
use crate::disk::volume;
use crate::net::{Net, Side};

/// Receive buffers of a host.
const BUFFERS: usize = 64;
/// Memory of a host.
const MEMORY_BYTES: u64 = 32 << 20;
/// The name of each host's only disk.
pub(crate) const TARGET: &str = "iqn.2026-11.io.sim:leg";
/// Data that arrive within this time are under way.
const UNDER_WAY: Nanos = Nanos::from_millis(1);
/// Maximum turns at one instant: more mean no progress.
const TURNS_MAX: u32 = 10_000;

/// Network paths to the hosts, by address: the number of the leg.
#[derive(Clone, Default)]
pub(crate) struct Doors(Rc<RefCell<Vec<Door>>>);

/// The host at an address.
#[derive(Clone, Debug)]
struct Door {
    protocol: Protocol,
    /// The listener, of a host that runs.
    listener: Option<u32>,
    /// The network loses everything.
    silent: bool,
    /// Connections to the host, including broken ones.
    conns: Vec<usize>,
    cut: Vec<usize>,
}

impl Doors {
    fn at(address: &str) -> usize {
        address.parse().expect("addresses are numbers of legs")
    }

    /// Whether the host does not respond at all.
    pub(super) fn is_silent(&self, address: &str) -> bool {
        self.0.borrow()[Doors::at(address)].silent
    }

    /// Connects; `None` if the connection is refused.
    pub(super) fn knock(&self, machine: &Shared, address: &str) -> Option<usize> {
        let leg = Doors::at(address);
        let door = &mut self.0.borrow_mut()[leg];
        let token = door.listener.filter(|_| !door.silent)?;
        let conn = machine.borrow_mut().net.connect(None);
        let local = address_of(leg, door.protocol);
        let peer = SocketAddr::from(([192, 0, 2, 1], 10_000 + (conn % 50_000) as u16));
        let stream = Stream::new(conn, machine, local, peer);
        door.conns.push(conn);
        machine.borrow_mut().knock(leg, token, stream).then_some(conn)
    }
}

/// A running server.
struct Server {
    portal: Portal<SimCore>,
    _shared: Arc<Serving>,
}

/// All hosts, with the network.
pub(crate) struct Hosts {
    pub(crate) machine: Shared,
    pub(crate) doors: Doors,
    disks: Disks,
    servers: Vec<Option<Server>>,
    protocols: Vec<Protocol>,
    /// Servers started so far.
    started: u64,
    rng: Rng,
}

impl Hosts {
    /// A host for each disk, all of which run.
    pub(crate) fn new(disks: &Disks, protocols: Vec<Protocol>, seed: u64) -> Hosts {
        let count = protocols.len();
        let net = Net::new(Rng::new(seed, 41), count);
        let cores = (0..count).map(|_| CoreState::new(BUFFERS)).collect();
        let machine = Machine { net, cores, violations: Vec::new(), share_bytes: usize::MAX / 2 };
        let door = |protocol: &Protocol| {
            let (protocol, listener) = (*protocol, None);
            Door { protocol, listener, silent: false, conns: Vec::new(), cut: Vec::new() }
        };
        let doors = Doors(Rc::new(RefCell::new(protocols.iter().map(door).collect())));
        let servers = (0..count).map(|_| None).collect();
        let (machine, disks) = (Rc::new(RefCell::new(machine)), Rc::clone(disks));
        let (started, rng) = (0, Rng::new(seed, 42));
        let mut hosts = Hosts { machine, doors, disks, servers, protocols, started, rng };
        (0..count).for_each(|leg| hosts.start(leg));
        hosts
    }

    /// Number of hosts.
    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The protocol of a leg.
    pub(crate) fn protocol(&self, leg: usize) -> Protocol {
        self.protocols[leg]
    }

    /// Starts the server of a leg, if it is not running, and repairs its network.
    pub(crate) fn start(&mut self, leg: usize) {
        self.doors.0.borrow_mut()[leg].silent = false;
        if self.servers[leg].is_some() {
            return;
        }
        self.started += 1;
        self.machine.borrow_mut().cores[leg] = CoreState::new(BUFFERS);
        let config = config(&self.disks, leg, self.started);
        let protocols =
            Protocols::new(&config, &config.iscsi, &config.nvme_tcp).expect("names are good");
        let shared = Serving::new(protocols, &config, Log::new(|_: &str| {}));
        let shared = Arc::new(shared.expect("there is memory enough"));
        let pool = Pool::within(shared.budget().clone());
        let core = SimCore::new(&self.machine, leg, pool);
        let listener = core.listen();
        let Token(token) = listener.token();
        let listeners = vec![(listener, self.protocols[leg])];
        let ways = Box::new(Only { disks: Rc::clone(&self.disks), leg });
        let portal = Portal::new(core, 0, Arc::clone(&shared), listeners, ways);
        self.servers[leg] = Some(Server { portal, _shared: shared });
        self.doors.0.borrow_mut()[leg].listener = Some(token);
    }

    /// Makes a leg unreachable, in one of several ways; with `power` its server dies and its cache
    /// is lost.
    pub(crate) fn lose(&mut self, leg: usize, power: bool) {
        let ways = if power { 1 } else { 4 };
        match self.rng.below(ways) {
            0 => self.kill(leg),
            way => {
                self.cut(leg);
                self.doors.0.borrow_mut()[leg].silent = way == 1;
            }
        }
        self.disks.borrow_mut().leave(leg, power);
    }

    /// Fails the power of all hosts, and restarts those that are not gone.
    pub(crate) fn power_fails(&mut self) {
        let count = self.count();
        (0..count).for_each(|leg| self.kill(leg));
        self.disks.borrow_mut().crash();
        let here = |leg: &usize| !self.disks.borrow().legs[*leg].is_gone();
        (0..count).filter(here).collect::<Vec<_>>().into_iter().for_each(|leg| self.start(leg));
    }

    /// Kills the server of a leg: its connections are closed, and the I/Os of its disk have been
    /// executed, or never will be.
    pub(crate) fn kill(&mut self, leg: usize) {
        self.doors.0.borrow_mut()[leg].listener = None;
        self.servers[leg] = None;
        self.disks.borrow_mut().end_all_of(leg);
    }

    /// Breaks the network between a leg and all clients: each connection breaks for both sides, for
    /// the client alone, or for neither. A server that does not see this considers the client
    /// alive, and continues to work for it.
    fn cut(&mut self, leg: usize) {
        let door = &mut self.doors.0.borrow_mut()[leg];
        let net = &mut self.machine.borrow_mut().net;
        for conn in door.conns.drain(..) {
            door.cut.push(conn);
            match self.rng.below(6) {
                0 | 1 => net.reset(conn),
                2 => net.vanish(conn, Side::Client),
                3 => net.vanish(conn, Side::Server),
                _ => net.sever(conn, Side::Client),
            }
        }
    }

    /// Kills the clients' process; the servers see its end at once, later, or after all data that
    /// it had sent. If the network had lost a connection before, the client's kernel has notified
    /// the servers by now: a server that still considers a dead process alive would let the next
    /// one in at once.
    pub(crate) fn client_dies(&mut self) {
        let mut doors = self.doors.0.borrow_mut();
        let net = &mut self.machine.borrow_mut().net;
        for door in doors.iter_mut() {
            for conn in door.conns.drain(..) {
                if self.rng.below(2) == 0 {
                    net.reset(conn);
                }
            }
            door.cut.drain(..).for_each(|conn| net.reset(conn));
        }
    }

    /// Delivers the data that have arrived by now, and runs the servers' due work.
    pub(crate) fn step(&mut self, now: Nanos) -> Result<(), String> {
        self.machine.borrow_mut().net.now = now;
        self.disks.borrow_mut().now = now;
        for _ in 0..TURNS_MAX {
            self.machine.borrow_mut().net.deliver();
            let mut busy = false;
            for (leg, server) in self.servers.iter_mut().enumerate() {
                let Some(server) = server else { continue };
                let due = server.portal.wake().is_some_and(|wake| wake <= now);
                if due || self.machine.borrow_mut().has_news(leg) {
                    let turned = server.portal.take_turn(Some(Nanos(0)), usize::MAX);
                    turned.map_err(|error| error.to_string())?;
                    busy = true;
                }
            }
            if !busy {
                return Ok(());
            }
        }
        Err("time stands still at a host".to_owned())
    }

    /// Whether data are in flight, or a server has something to do now.
    pub(crate) fn is_busy(&self) -> bool {
        let net = &self.machine.borrow().net;
        let servers = self.servers.iter().flatten();
        let due = servers.filter_map(|server| server.portal.wake()).any(|wake| wake <= net.now);
        due || net.next_arrival().is_some_and(|at| at <= net.now + UNDER_WAY)
    }

    /// Time of the next event.
    pub(crate) fn next(&self) -> Option<Nanos> {
        let arrival = self.machine.borrow().net.next_arrival();
        let servers = self.servers.iter().flatten();
        servers.filter_map(|server| server.portal.wake()).chain(arrival).min()
    }
}

fn address_of(leg: usize, protocol: Protocol) -> SocketAddr {
    let port = match protocol {
        Protocol::Iscsi => 3260,
        Protocol::NvmeTcp => 4420,
        Protocol::Nbd => 10809,
    };
    SocketAddr::from(([192, 0, 2, 100 + leg as u8], port))
}

/// The settings of a leg's server.
fn config(disks: &Disks, leg: usize, started: u64) -> ServeConfig {
    let of = &disks.borrow().legs[leg];
    let geometry = Geometry::new(of.bytes, 512);
    let geometry = Geometry { volatile: true, trim_zeroes: !of.careless, ..geometry };
    let export = Export {
        target: TARGET.to_owned(),
        subsystem: TARGET.replace("iqn", "nqn"),
        lun: 1,
        volume: volume(geometry, None),
        disk: DiskId::new([leg as u8; 16]),
        reservations: Default::default(),
    };
    ServeConfig {
        counts: false,
        spare: 0,
        iscsi: vec![address_of(leg, Protocol::Iscsi)],
        nvme_tcp: vec![address_of(leg, Protocol::NvmeTcp)],
        nbd: vec![address_of(leg, Protocol::Nbd)],
        exports: vec![export],
        host_lists: HostLists::default(),
        shared: false,
        first_controller: 1,
        instance: (started << 8) + leg as u64 + 1,
        cores: vec![0],
        idle_cores: Vec::new(),
        limits: Limits { memory_bytes: Some(MEMORY_BYTES), ..Limits::default() },
    }
}

/// The lanes of a server: to its only disk.
struct Only {
    disks: Disks,
    leg: usize,
}

impl LaneSource<SimCore> for Only {
    fn begin(&self, _: usize, _: &SimCore) -> Result<Box<dyn Lane>, String> {
        Ok(Box::new(Way::new(&self.disks, self.leg)))
    }
}
