//! Legs over a network: real initiators, the network, real servers, and simulated disks.

mod associations;
mod hosts;
mod wire;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use block::{Lane, Nanos, Pool, Rng};
use proto::{Initiator, Phase};
use serve::Protocol;
use volume::remote::{Dial, Facts, IscsiDial, Learned, NvmeDial, RemoteLane};
use volume::{IscsiUri, NbdUri, NvmeUri, Session};

use self::associations::{Associations, Desk, is_under_way};
pub(crate) use self::hosts::Hosts;
use self::hosts::TARGET;
use self::wire::ClientCore;
use super::story::Over;
use crate::link::Link;
use crate::net::Side;

/// Maximum time for which the opening of a volume waits for its target.
const OPENING: Nanos = Nanos::from_secs(20);
/// Grace periods, one per story. After this time a hung leg fails in its array, or not.
const GRACES_SECONDS: [u32; 3] = [2, 8, 24];
/// Difference between the grace period and the maximum delay of disks: a grace period resolves only
/// shorter delays.
const MARGIN: Nanos = Nanos::from_millis(500);
/// A nested leg that would reconnect by itself.
const NESTED: &str = "stripe:64k(nbd://a/x,mirror(nbd://b/x,nbd://c/x?reconnect=30s))";

/// A volume of a process: state shared by its lanes.
enum Leg {
    Iscsi(Arc<Facts<IscsiDial>>),
    Nbd(Arc<Facts<NbdUri>>),
    Nvme(Arc<Facts<NvmeDial<Desk>>>),
}

/// The volumes of a process, and its core.
#[derive(Clone)]
pub(crate) struct Client {
    core: ClientCore,
    session: Session,
    /// Legs by number; `None` before they are opened.
    legs: Rc<RefCell<Vec<Option<Leg>>>>,
    associations: Rc<RefCell<Associations>>,
}

impl Client {
    /// A process without open volumes. All its sessions have the same options.
    pub(crate) fn new(hosts: &Hosts, session: &Session) -> Client {
        let core = ClientCore::new(&hosts.machine, &hosts.doors, Pool::new(256, 64));
        let legs = (0..hosts.count()).map(|_| None).collect();
        let associations = Associations::new(&hosts.machine, &hosts.doors);
        Client {
            core,
            session: session.clone(),
            legs: Rc::new(RefCell::new(legs)),
            associations: Rc::new(RefCell::new(associations)),
        }
    }

    /// Opens the volume of a leg. Returns the properties that its target reports; `None` if the
    /// target does not answer in time. `go_on` lets the disks work.
    pub(crate) fn open(
        &self,
        hosts: &mut Hosts,
        leg: usize,
        now: &mut Nanos,
        go_on: impl FnMut(),
    ) -> Result<Option<Learned>, String> {
        let learned = match hosts.protocol(leg) {
            Protocol::NvmeTcp => return self.associate(hosts, leg, now, go_on),
            Protocol::Nbd => hosts.learn(leg, &self.nbd(leg), now, go_on)?,
            Protocol::Iscsi => hosts.learn(leg, &self.iscsi(leg), now, go_on)?,
        };
        learned.iter().for_each(|learned| self.assume(hosts, leg, learned));
        Ok(learned)
    }

    /// Assumes the properties that an unreachable leg's target reported earlier. An NVMe
    /// association cannot be assumed.
    pub(crate) fn assume(&self, hosts: &Hosts, leg: usize, learned: &Learned) {
        self.legs.borrow_mut()[leg] = match hosts.protocol(leg) {
            Protocol::NvmeTcp => None,
            Protocol::Nbd => Some(Leg::Nbd(Arc::new(Facts::new(self.nbd(leg), learned)))),
            Protocol::Iscsi => Some(Leg::Iscsi(Arc::new(Facts::new(self.iscsi(leg), learned)))),
        };
    }

    /// Opens the volume of a leg over NVMe.
    fn associate(
        &self,
        hosts: &mut Hosts,
        leg: usize,
        now: &mut Nanos,
        mut go_on: impl FnMut(),
    ) -> Result<Option<Learned>, String> {
        let (address, subsystem) = (leg.to_string(), TARGET.replace("iqn", "nqn"));
        let uri = NvmeUri { address, subsystem, nsid: 1, session: self.session.clone() };
        let desk = self.associations.borrow_mut().desk(leg);
        let end = *now + OPENING;
        let dial = loop {
            hosts.step(*now)?;
            self.step(*now);
            go_on();
            match NvmeDial::held_by(desk.clone(), &uri) {
                Ok(dial) => break dial,
                Err(why) if is_under_way(&why) && *now < end => {}
                Err(_) => return Ok(None),
            }
            let soon = hosts.next().into_iter().chain(self.wake()).min().unwrap_or(end);
            *now = soon.clamp(*now + Nanos(1_000), *now + Nanos::from_millis(50));
        };
        let learned = dial.learn().map_err(|why| why.to_string())?;
        let facts = Facts::new(dial, &learned);
        self.legs.borrow_mut()[leg] = Some(Leg::Nvme(Arc::new(facts)));
        Ok(Some(learned))
    }

    /// Whether volumes could not be opened.
    pub(crate) fn is_missing(&self) -> bool {
        self.legs.borrow().iter().any(Option::is_none)
    }

    /// Records that the process has checked the data of the target with these properties.
    pub(crate) fn looked(&self, leg: usize, learned: &Learned) {
        match &self.legs.borrow()[leg] {
            Some(Leg::Iscsi(facts)) => facts.look_at(learned.instance),
            Some(Leg::Nbd(facts)) => facts.look_at(learned.instance),
            Some(Leg::Nvme(facts)) => facts.look_at(learned.instance),
            None => {}
        }
    }

    /// A new lane to a leg, if that was opened.
    pub(crate) fn lane(&self, leg: usize) -> Option<Box<dyn Lane>> {
        Some(match self.legs.borrow()[leg].as_ref()? {
            Leg::Iscsi(facts) => Box::new(RemoteLane::begin(facts, &self.core)),
            Leg::Nbd(facts) => Box::new(RemoteLane::begin(facts, &self.core)),
            Leg::Nvme(facts) => Box::new(RemoteLane::begin(facts, &self.core)),
        })
    }

    /// Does all work that is due outside lanes.
    pub(crate) fn step(&self, now: Nanos) {
        self.associations.borrow_mut().step(now);
    }

    /// Time at which work is due outside lanes.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        self.associations.borrow().wake()
    }

    fn iscsi(&self, leg: usize) -> IscsiDial {
        let (address, target) = (leg.to_string(), TARGET.to_owned());
        IscsiDial::new(IscsiUri { address, target, lun: 1, session: self.session.clone() })
    }

    fn nbd(&self, leg: usize) -> NbdUri {
        let (address, export) = (leg.to_string(), TARGET.to_owned());
        NbdUri { address, export, session: self.session.clone() }
    }
}

/// Options of the sessions of a story.
pub(crate) fn session(seed: u64) -> Session {
    let drawn = Rng::new(seed, 36).below(GRACES_SECONDS.len() as u64);
    Session { grace_seconds: Some(GRACES_SECONDS[drawn as usize]), ..Session::default() }
}

/// Session of a leg, which reconnects only if an array accepts reconnecting legs.
pub(crate) fn leg_session(seed: u64) -> Session {
    let nested = NESTED.parse().expect("it is a URI");
    let reconnects = volume::array::suit("a", &[nested]).is_ok();
    Session { reconnect_seconds: reconnects.then_some(30), ..session(seed) }
}

/// Maximum delay of the disks.
pub(crate) fn latest(session: &Session) -> Nanos {
    let grace = Nanos::from_secs(session.grace_seconds.map_or(0, u64::from));
    Nanos(grace.0 - MARGIN.0)
}

/// Protocols of `legs` legs.
pub(crate) fn protocols(over: Over, legs: usize) -> Vec<Protocol> {
    let protocol = |leg: usize| match over {
        Over::Nothing | Over::Iscsi => Protocol::Iscsi,
        Over::Nbd => Protocol::Nbd,
        Over::Nvme => Protocol::NvmeTcp,
        Over::Both => [Protocol::Iscsi, Protocol::Nbd][leg % 2],
        Over::Mixed => [Protocol::NvmeTcp, Protocol::Nbd, Protocol::Iscsi][leg % 3],
    };
    (0..legs).map(protocol).collect()
}

impl Hosts {
    /// Queries the properties of a leg's target, like a process that opens the leg. `None` if the
    /// target does not answer in time. `go_on` lets the disks work.
    fn learn<D: Dial>(
        &mut self,
        leg: usize,
        dial: &D,
        now: &mut Nanos,
        mut go_on: impl FnMut(),
    ) -> Result<Option<Learned>, String> {
        let Some(conn) = self.doors.knock(&self.machine, &leg.to_string()) else {
            return Ok(None);
        };
        let end = *now + OPENING;
        let (initiator, _place) = dial.initiator(*now, None)?;
        let mut link = Link::new(initiator, &Pool::new(16, 4), conn);
        let learned = loop {
            link.flush(&mut self.machine.borrow_mut().net, |bytes| bytes);
            self.step(*now)?;
            go_on();
            if link.take(&mut self.machine.borrow_mut().net).is_err() || *now >= end {
                break None;
            }
            if let Phase::Ready(geometry) = link.end.phase() {
                break Some(Learned {
                    geometry,
                    product: None,
                    backing: None,
                    flushes_all: true,
                    identity: link.end.identity(),
                    instance: link.end.instance(),
                    odd_bytes: None,
                });
            }
            let soon = self.next().into_iter().chain(link.wake()).min().unwrap_or(end);
            *now = soon.clamp(*now + Nanos(1_000), *now + Nanos::from_millis(50));
        };
        link.end.close(*now, &mut link.out);
        link.flush(&mut self.machine.borrow_mut().net, |bytes| bytes);
        self.machine.borrow_mut().net.close(conn, Side::Client);
        Ok(learned)
    }
}
