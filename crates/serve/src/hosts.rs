//! Who is connected from where, so that no host takes the places of all others.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use block::{Plant, planted};

/// Places for connections, by address. Locked when a connection comes or goes, never for an I/O.
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

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    hosts: Arc<Hosts>,
    address: IpAddr,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All places are taken: so many.
    All(usize),
    /// This host has as many as it may have while others have theirs.
    Host(usize),
}

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Full::All(count) => write!(f, "{count} connections already"),
            Full::Host(count) => write!(f, "its host already has {count} connections"),
        }
    }
}

impl Hosts {
    /// With so many places in all.
    pub(crate) fn new(limit: usize) -> Arc<Hosts> {
        Arc::new(Hosts { limit, taken: Mutex::default() })
    }

    /// How many places are taken.
    pub(crate) fn count(&self) -> usize {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    /// Takes a place for a connection from this address, where there is memory for `affordable`
    /// more. A host has at most half of the places that others leave, and no more than there is
    /// memory for others, so there is always one for a host that has none.
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

/// A number for what counts as one host.
pub(crate) fn number_of(address: IpAddr) -> u128 {
    match host_of(address) {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// What counts as one host: an address, or the network of 64 bits that an IPv6 host picks its
/// addresses from.
fn host_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            // Those of this host and of this link stand for themselves.
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
