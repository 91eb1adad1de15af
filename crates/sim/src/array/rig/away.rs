//! Legs on separate hosts: the rig's use of the network.

use super::super::remote::{Client, Hosts, latest, leg_session, protocols};
use super::super::story::Over;
use super::*;
use volume::Session;
use volume::remote::Learned;

/// Hosts of the legs, and the properties of their targets known to a process.
pub(super) struct Away {
    hosts: Hosts,
    session: Session,
    /// Properties that each target reported last.
    learned: Vec<Option<Learned>>,
    client: Option<Client>,
}

impl Away {
    /// `None` if the legs are local.
    pub(super) fn new(story: &Story, world: &Shared, legs: usize) -> Option<Away> {
        if story.over == Over::Nothing {
            return None;
        }
        let hosts = Hosts::new(world, protocols(story.over, legs), story.seed);
        let session = leg_session(story.seed);
        Some(Away { hosts, session, learned: vec![None; legs], client: None })
    }

    /// Maximum delay of the disks.
    pub(super) fn latest(&self) -> Nanos {
        latest(&self.session)
    }

    /// Lanes of the open process.
    pub(super) fn lanes(&self) -> Rc<dyn Fn(usize) -> Option<Box<dyn Lane>>> {
        let client = self.client.clone().expect("a process is there");
        Rc::new(move |leg| client.lane(leg))
    }

    /// Makes a leg reachable again.
    pub(super) fn start(&mut self, leg: usize) {
        self.hosts.start(leg);
    }

    /// Whether a leg is not in reach before the array is opened again.
    pub(super) fn is_missing(&self) -> bool {
        self.client.as_ref().is_some_and(Client::is_missing)
    }

    /// Whether the network has something under way.
    pub(super) fn is_busy(&self) -> bool {
        self.hosts.is_busy()
    }
}

impl Run {
    /// Legs that a new process reaches; over a network those whose targets answer.
    pub(super) fn reach(&mut self) -> Result<u32, String> {
        let here = |world: &Shared, leg: usize| !world.borrow().legs[leg].is_gone();
        let mut reached =
            (0..self.legs).filter(|leg| here(&self.world, *leg)).fold(0, |all, leg| all | 1 << leg);
        let Some(away) = &mut self.away else { return Ok(reached) };
        let (world, client) = (&self.world, Client::new(&away.hosts, &away.session));
        for leg in 0..self.legs {
            let go_on = || world.borrow_mut().go_on();
            let found = match here(world, leg) {
                true => client.open(&mut away.hosts, leg, &mut self.now, go_on)?,
                false => None,
            };
            match (&found, &away.learned[leg]) {
                (Some(learned), _) => client.looked(leg, learned),
                (None, Some(before)) => client.assume(&away.hosts, leg, before),
                (None, None) => return Err(format!("leg {leg} does not answer at first")),
            }
            match found {
                Some(learned) => away.learned[leg] = Some(learned),
                None => reached &= !(1 << leg),
            }
        }
        away.client = Some(client);
        Ok(reached)
    }

    /// Advances the network and the servers.
    pub(super) fn network(&mut self) -> Result<(), String> {
        self.before_the_network();
        if let Some(away) = &mut self.away {
            away.hosts.step(self.now)?;
            away.client.iter().for_each(|client| client.step(self.now));
        }
        self.seen()
    }

    fn before_the_network(&mut self) {
        if self.process.is_some() {
            self.before();
        }
    }

    /// Time to wait when nothing is under way. Silently lost connections are noticed after half a
    /// minute.
    pub(super) fn pause(&self) -> Nanos {
        Nanos::from_millis(if self.away.is_some() { 200 } else { 50 })
    }

    /// Time after a resync until the map is clean. A region stays dirty while a leg that is out may
    /// still execute a write of the region, until its connection counts as lost; and an unnoticed
    /// loss of a connection is detected by the I/O that cleans the map.
    pub(super) fn quiet(&self) -> Nanos {
        let lost = proto::IO_TIMEOUT;
        if self.away.is_some() { QUIET + QUIET + lost + lost } else { QUIET }
    }

    /// Time of the next event of the network or a server.
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        let away = self.away.as_ref()?;
        let client = away.client.as_ref().and_then(Client::wake);
        away.hosts.next().into_iter().chain(client).min()
    }

    /// Kills the server of a leg.
    pub(super) fn stop_server(&mut self, leg: usize) {
        if let Some(away) = &mut self.away {
            away.hosts.kill(leg);
            self.world.borrow_mut().legs[leg].away = true;
        }
    }

    /// A leg cannot be reached any more.
    pub(super) fn part(&mut self, leg: usize, power: bool) {
        if let Some(away) = &mut self.away {
            away.hosts.lose(leg, power);
            self.unseen.trouble();
        }
    }

    /// Ends the process, with the power of all hosts or alone.
    pub(super) fn process_died(&mut self) {
        let Some(away) = &mut self.away else { return };
        away.client = None;
        if self.rng.below(3) > 0 {
            return away.hosts.client_dies();
        }
        away.hosts.power_fails();
    }
}
