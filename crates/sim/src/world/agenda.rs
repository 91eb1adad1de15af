//! Due times of clients and cores, so that not all are polled at each step.

use block::Nanos;
use serve::Portal;

use crate::client::Client;
use crate::core::SimCore;
use crate::net::Net;

/// Known times of a world's clients and cores.
#[derive(Default)]
pub(super) struct Agenda {
    /// Time at which each client has something to do without an event.
    clients: Vec<Nanos>,
    /// Clients that have events.
    news: Vec<bool>,
    /// Time at which each core has something to do without an event.
    cores: Vec<Nanos>,
    /// An outside change: all must be polled again.
    pub(super) is_stale: bool,
}

const NEVER: Nanos = Nanos(u64::MAX);

impl Agenda {
    /// Notes events of clients, and polls all if necessary.
    pub(super) fn learn(&mut self, clients: &[Client], portals: &[Portal<SimCore>], net: &mut Net) {
        if std::mem::take(&mut self.is_stale) || self.clients.len() < clients.len() {
            self.clients.resize(clients.len(), NEVER);
            self.news.resize(clients.len(), true);
            self.cores.resize(portals.len(), NEVER);
            (0..clients.len()).for_each(|index| self.note_client(index, &clients[index], net));
            (0..portals.len()).for_each(|index| self.note_core(index, &portals[index]));
        }
        net.take_client_news(|index| self.news[index] = true);
    }

    /// Whether a client may have something to do.
    pub(super) fn may_be_due(&self, index: usize, now: Nanos) -> bool {
        self.news[index] || self.clients[index] <= now
    }

    /// Notes that a client was polled and has acted.
    pub(super) fn asked(&mut self, index: usize, client: &Client, net: &Net) {
        self.news[index] = client.is_due(net);
        self.note_client(index, client, net);
    }

    /// A stopped client sees events only later.
    fn note_client(&mut self, index: usize, client: &Client, net: &Net) {
        let later = client.stopped > net.now;
        let wake = client.wake().unwrap_or(NEVER);
        self.clients[index] = if later { client.stopped } else { wake };
    }

    /// Notes that a core has completed its turn.
    pub(super) fn note_core(&mut self, index: usize, portal: &Portal<SimCore>) {
        self.cores[index] = portal.wake().unwrap_or(NEVER);
    }

    /// Time at which a core acts without an event.
    pub(super) fn core(&self, index: usize) -> Nanos {
        self.cores[index]
    }

    /// Time at which the first client acts without an event.
    pub(super) fn first_client(&self) -> Nanos {
        self.clients.iter().copied().min().unwrap_or(NEVER)
    }
}
