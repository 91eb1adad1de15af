//! Legs over a network: real initiators, the network, real servers, and simulated disks.

mod hosts;
mod wire;

use std::rc::Rc;
use std::sync::Arc;

use block::{Lane, Nanos, Pool};
use proto::{Initiator, Phase};
use serve::Protocol;
use volume::remote::{Dial, Facts, IscsiDial, Learned, RemoteLane};
use volume::{IscsiUri, NbdUri, Session};

pub(crate) use self::hosts::Hosts;
use self::hosts::TARGET;
use self::wire::ClientCore;
use crate::link::Link;
use crate::net::Side;

/// How long the opening of a volume waits for its target.
const OPENING: Nanos = Nanos::from_secs(20);
/// Options of all sessions.
const GRACE_SECONDS: u32 = 2;

/// A volume of a process: what its lanes share.
pub(crate) enum Leg {
    Iscsi(Arc<Facts<IscsiDial>>),
    Nbd(Arc<Facts<NbdUri>>),
}

/// The volumes of a process, and its core.
#[derive(Clone)]
pub(crate) struct Client {
    core: ClientCore,
    legs: Rc<Vec<Leg>>,
}

impl Client {
    /// A process that has opened these volumes. `session` options are the same for all.
    pub(crate) fn new(hosts: &Hosts, learned: &[Learned], session: &Session) -> Client {
        let core = ClientCore::new(&hosts.machine, &hosts.doors, Pool::new(256, 64));
        let leg = |(leg, learned): (usize, &Learned)| match hosts.protocol(leg) {
            Protocol::Nbd => Leg::Nbd(Arc::new(Facts::new(nbd(leg, session), learned))),
            _ => Leg::Iscsi(Arc::new(Facts::new(iscsi(leg, session), learned))),
        };
        Client { core, legs: Rc::new(learned.iter().enumerate().map(leg).collect()) }
    }

    /// A new lane to a leg.
    pub(crate) fn lane(&self, leg: usize) -> Box<dyn Lane> {
        match &self.legs[leg] {
            Leg::Iscsi(facts) => Box::new(RemoteLane::begin(facts, &self.core)),
            Leg::Nbd(facts) => Box::new(RemoteLane::begin(facts, &self.core)),
        }
    }
}

/// Options of the sessions of an array's legs.
pub(crate) fn session() -> Session {
    Session { grace_seconds: Some(GRACE_SECONDS), ..Session::default() }
}

fn iscsi(leg: usize, session: &Session) -> IscsiDial {
    let (address, target) = (leg.to_string(), TARGET.to_owned());
    IscsiDial::new(IscsiUri { address, target, lun: 1, session: session.clone() })
}

fn nbd(leg: usize, session: &Session) -> NbdUri {
    let (address, export) = (leg.to_string(), TARGET.to_owned());
    NbdUri { address, export, session: session.clone() }
}

impl Hosts {
    /// Asks the target of a leg for its properties, as a process does that opens it. `None` if the
    /// target does not answer in time. `go_on` lets the disks work.
    pub(crate) fn learn(
        &mut self,
        leg: usize,
        now: &mut Nanos,
        go_on: impl FnMut(),
    ) -> Result<Option<Learned>, String> {
        match self.protocol(leg) {
            Protocol::Nbd => self.learn_from(leg, nbd(leg, &session()), now, go_on),
            _ => self.learn_from(leg, iscsi(leg, &session()), now, go_on),
        }
    }

    fn learn_from<D: Dial>(
        &mut self,
        leg: usize,
        dial: D,
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
