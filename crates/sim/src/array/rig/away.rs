//! Legs on hosts of their own: what the rig does with the network.

use super::super::remote::{Client, Hosts, session};
use super::super::story::Over;
use super::*;
use serve::Protocol;
use volume::remote::Learned;

/// The hosts of the legs, and what a process knows of them.
pub(super) struct Away {
    hosts: Hosts,
    /// Properties that the targets told at the first opening.
    learned: Vec<Learned>,
    client: Option<Client>,
}

impl Away {
    /// `None` if the legs are local.
    pub(super) fn new(story: &Story, world: &Shared, legs: usize) -> Option<Away> {
        let protocol = |leg: usize| match story.over {
            Over::Nothing => None,
            Over::Iscsi => Some(Protocol::Iscsi),
            Over::Nbd => Some(Protocol::Nbd),
            Over::Both if leg.is_multiple_of(2) => Some(Protocol::Iscsi),
            Over::Both => Some(Protocol::Nbd),
        };
        let protocols: Option<Vec<Protocol>> = (0..legs).map(protocol).collect();
        let hosts = Hosts::new(world, protocols?, story.seed);
        Some(Away { hosts, learned: Vec::new(), client: None })
    }

    /// Lanes of the process that is open.
    pub(super) fn lanes(&self) -> Rc<dyn Fn(usize) -> Box<dyn Lane>> {
        let client = self.client.clone().expect("a process is there");
        Rc::new(move |leg| client.lane(leg))
    }

    /// A leg can be reached again.
    pub(super) fn start(&mut self, leg: usize) {
        self.hosts.start(leg);
    }

    /// Whether the network has something under way.
    pub(super) fn is_busy(&self) -> bool {
        self.hosts.is_busy()
    }
}

impl Run {
    /// The legs that a new process reaches; over a network those whose targets answer.
    pub(super) fn reach(&mut self) -> Result<u32, String> {
        let here = |world: &Shared, leg: usize| !world.borrow().legs[leg].is_gone();
        let mut reached =
            (0..self.legs).filter(|leg| here(&self.world, *leg)).fold(0, |all, leg| all | 1 << leg);
        let Some(away) = &mut self.away else { return Ok(reached) };
        let (first, world) = (away.learned.is_empty(), &self.world);
        for leg in (0..self.legs).filter(|leg| here(world, *leg)) {
            let go_on = || world.borrow_mut().go_on();
            match away.hosts.learn(leg, &mut self.now, go_on)? {
                Some(learned) if first => away.learned.push(learned),
                Some(_) => {}
                None => reached &= !(1 << leg),
            }
        }
        away.client = Some(Client::new(&away.hosts, &away.learned, &session()));
        Ok(reached)
    }

    /// The network and the servers go on.
    pub(super) fn network(&mut self) -> Result<(), String> {
        self.before_the_network();
        self.away.as_mut().map_or(Ok(()), |away| away.hosts.step(self.now))?;
        self.seen()
    }

    fn before_the_network(&mut self) {
        if self.process.is_some() {
            self.before();
        }
    }

    /// All lanes of the process are connected. An image that is exchanged between the look at a leg
    /// and a lane's first connection would be noticed by nobody.
    pub(super) fn connect(&mut self) -> Result<(), String> {
        if self.away.is_some() {
            (0..ROUNDS / 4).try_for_each(|_| self.round().map(drop))?;
        }
        Ok(())
    }

    /// How long to wait when nothing is under way. Connections that are lost silently are noticed
    /// after half a minute.
    pub(super) fn pause(&self) -> Nanos {
        Nanos::from_millis(if self.away.is_some() { 200 } else { 50 })
    }

    /// Time after a resync until the map is clean. A region stays dirty while a leg that is out may
    /// still execute a write of it, which it does until its connection counts as lost; and a
    /// connection that is lost unseen is noticed by what is to clean the map.
    pub(super) fn quiet(&self) -> Nanos {
        let lost = proto::IO_TIMEOUT;
        if self.away.is_some() { QUIET + QUIET + lost + lost } else { QUIET }
    }

    /// When the network or a server does something next.
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        self.away.as_ref()?.hosts.next()
    }

    /// The server of a leg dies.
    pub(super) fn stop_server(&mut self, leg: usize) {
        if let Some(away) = &mut self.away {
            away.hosts.kill(leg);
            self.world.borrow_mut().legs[leg].away = true;
        }
    }

    /// A leg cannot be reached any more, in one of several ways.
    pub(super) fn part(&mut self, leg: usize, power: bool) {
        let Some(away) = &mut self.away else { return };
        let ways = if power { 1 } else { 4 };
        match self.rng.below(ways) {
            0 => away.hosts.kill(leg),
            way => {
                away.hosts.cut(leg);
                away.hosts.part(leg, way == 1);
            }
        }
        self.world.borrow_mut().leave(leg, power);
    }

    /// The process is gone, with the power of all hosts or alone.
    pub(super) fn process_died(&mut self) {
        let Some(away) = &mut self.away else { return };
        away.client = None;
        if self.rng.below(3) > 0 {
            return away.hosts.client_dies();
        }
        (0..self.legs).for_each(|leg| away.hosts.kill(leg));
        let mut world = self.world.borrow_mut();
        world.crash();
        let here: Vec<usize> = (0..self.legs).filter(|leg| !world.legs[*leg].is_gone()).collect();
        drop(world);
        here.into_iter().for_each(|leg| away.hosts.start(leg));
    }
}
