//! Limits connections per host, so that no host locks out all others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use block::{Plant, planted};

/// Connection counts by address. Locked when a connection opens or closes, never for an I/O.
#[derive(Debug)]
pub(crate) struct Hosts {
    limit: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// A counted connection, until dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    hosts: Arc<Hosts>,
    address: IpAddr,
}

/// Reason why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The limit of all connections is reached.
    All(usize),
    /// This host has reached its part of the limit.
    Host(usize),
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Full::All(count) => write!(f, "the maximum of {count} connections is reached"),
            Full::Host(count) => write!(
                f,
                "the maximum of {count} connections of one host is \
                reached"
            ),
        }
    }
}

impl Hosts {
    /// Creates a registry with a limit on all connections together.
    pub(crate) fn new(limit: usize) -> Arc<Hosts> {
        Arc::new(Hosts { limit, taken: Mutex::default() })
    }

    /// Number of connections.
    pub(crate) fn count(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    /// Admits a connection from this address, where there is memory for `affordable` more. A host
    /// gets at most half of the connections that others do not use, in count and in memory, so a
    /// new host always gets one.
    pub(crate) fn admit(
        self: &Arc<Self>,
        address: IpAddr,
        affordable: usize,
    ) -> Result<Seat, Full> {
        let address = host_of(address);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.all >= self.limit {
            return Err(Full::All(taken.all));
        }
        let own = taken.by_address.get(&address).copied().unwrap_or(0);
        let left_by_others = self.limit - (taken.all - own);
        let is_full = own >= left_by_others / 2 || own >= affordable;
        if own != 0 && is_full && !planted(Plant::OneHostTakesAll) {
            return Err(Full::Host(own));
        }
        taken.by_address.insert(address, own + 1);
        taken.all += 1;
        drop(taken);
        Ok(Seat { hosts: Arc::clone(self), address })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.hosts.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        if let Some(count) = taken.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

/// Number of a host, for its key.
pub(crate) fn number_of(address: IpAddr) -> u128 {
    match host_of(address) {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Key of a host: an IPv4 address, or an IPv6 /64, from which a host picks its addresses.
fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            // Loopback and link-local addresses count by themselves.
            let single = address.is_loopback() || address.is_unicast_link_local();
            if single { address.into() } else { std::net::Ipv6Addr::from(network).into() }
        }
        address => address,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn fill(hosts: &Arc<Hosts>, host: &str) -> Vec<Seat> {
        std::iter::from_fn(|| hosts.admit(address(host), usize::MAX).ok()).collect()
    }

    #[test]
    fn no_host_takes_the_place_of_another() {
        let hosts = Hosts::new(64);
        let seats: Vec<_> = (1..=6).map(|host| fill(&hosts, &format!("192.0.2.{host}"))).collect();
        let counts: Vec<_> = seats.iter().map(Vec::len).collect();
        assert_eq!(counts, [32, 16, 8, 4, 2, 1]);
        assert_eq!(hosts.admit(address("192.0.2.1"), 99).unwrap_err(), Full::Host(32));
        let last = hosts.admit(address("192.0.2.9"), 0).unwrap();
        assert_eq!(hosts.admit(address("192.0.2.10"), 99).unwrap_err(), Full::All(64));
        drop((seats, last));
        let taken = hosts.taken.lock().unwrap();
        assert!(taken.all == 0 && taken.by_address.is_empty());
    }

    #[test]
    fn a_host_leaves_memory_to_others() {
        // There is memory for 100 connections in all.
        let hosts = Hosts::new(1000);
        let mut seats = Vec::new();
        for (host, expect) in [("192.0.2.1", 50), ("192.0.2.2", 25), ("192.0.2.3", 13)] {
            let before = seats.len();
            while let Ok(seat) = hosts.admit(address(host), 100 - seats.len()) {
                seats.push(seat);
            }
            assert_eq!(seats.len() - before, expect, "{host}");
        }
        assert_eq!(hosts.admit(address("192.0.2.3"), 12).unwrap_err(), Full::Host(13));
    }

    #[test]
    fn an_ipv6_host_is_its_network() {
        let same = |a, b| host_of(address(a)) == host_of(address(b));
        assert!(same("2001:db8::1", "2001:db8::ffff:1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1"));
        assert!(!same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(!same("fe80::1", "fe80::2") && !same("192.0.2.1", "192.0.2.2"));
    }
}
