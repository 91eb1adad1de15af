//! Slots for connections to the page, so that no client can shut out the others.
//!
//! A client that has not sent its request yet, or is being answered, has a slot for a few seconds.
//! If all of these are in use, the next client replaces the one that has waited longest at the
//! address with the most of them. Streams last, so they have separate slots, of which an address
//! has a share; if a token is required, only clients that know it get one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum connections that send a request or are being answered.
const ASKING_MAX: usize = 64;
/// Maximum concurrent streams.
pub(super) const STREAMS_MAX: usize = 32;
/// Maximum concurrent streams of one address.
const STREAMS_OF_ONE_MAX: usize = 24;

/// All slots.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    /// In the order of their arrival.
    guests: Vec<Guest>,
    next: u64,
}

struct Guest {
    number: u64,
    address: IpAddr,
    stream: TcpStream,
    is_stream: bool,
}

/// A slot that is released on drop.
pub(super) struct Place {
    places: Places,
    number: u64,
}

impl Places {
    /// Assigns a slot to a connection; another connection may be closed for it.
    pub(super) fn take(&self, stream: &TcpStream) -> std::io::Result<Place> {
        let (address, stream) = (neighbourhood(stream.peer_addr()?.ip()), stream.try_clone()?);
        let mut taken = self.taken();
        if taken.guests.iter().filter(|guest| !guest.is_stream).count() >= ASKING_MAX {
            taken.close_one();
        }
        let number = taken.next;
        taken.next += 1;
        taken.guests.push(Guest { number, address, stream, is_stream: false });
        Ok(Place { places: self.clone(), number })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Closes the oldest request at the address with the most, or at any with as many: a new
    /// connection is not closed for the next.
    fn close_one(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let asking = self.guests.iter().filter(|guest| !guest.is_stream);
        asking.for_each(|guest| *counts.entry(guest.address).or_default() += 1);
        let most = counts.values().copied().max().unwrap_or_default();
        let is_it = |guest: &Guest| !guest.is_stream && counts[&guest.address] == most;
        let Some(at) = self.guests.iter().position(is_it) else { return };
        // The guest's thread finds the connection at its end.
        let _ = self.guests.remove(at).stream.shutdown(Shutdown::Both);
    }
}

impl Place {
    /// Converts the slot to one for a stream; `false` if none is left, or none for its address.
    pub(super) fn becomes_stream(&self) -> bool {
        let mut taken = self.places.taken();
        let Some(at) = taken.guests.iter().position(|guest| guest.number == self.number) else {
            return false;
        };
        let address = taken.guests[at].address;
        let streams = || taken.guests.iter().filter(|guest| guest.is_stream);
        let of_one = streams().filter(|guest| guest.address == address).count();
        let is_free = streams().count() < STREAMS_MAX && of_one < STREAMS_OF_ONE_MAX;
        taken.guests[at].is_stream = is_free;
        is_free
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().guests.retain(|guest| guest.number != self.number);
    }
}

/// Addresses that count as one: for IPv6 a /64 network, which one subscriber has.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod test {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    /// Connections and their slots.
    fn connected(places: &Places, count: usize) -> Vec<(TcpStream, Place)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = |_| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (served, _) = listener.accept().unwrap();
            (client, places.take(&served).unwrap())
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn who_comes_has_a_place_and_the_oldest_gives_it_up() {
        let places = Places::default();
        let mut all = connected(&places, ASKING_MAX + 2);
        let closed = |(client, _): &mut (TcpStream, Place)| {
            client.set_read_timeout(Some(std::time::Duration::from_millis(20))).unwrap();
            matches!(client.read(&mut [0]), Ok(0))
        };
        let closed: Vec<usize> = (0..all.len()).filter(|index| closed(&mut all[*index])).collect();
        assert_eq!(closed, [0, 1]);
        assert!(!all[0].1.becomes_stream(), "it has no place any more");
        drop(all);
        assert!(places.taken().guests.is_empty());
    }

    #[test]
    fn of_addresses_with_as_many_the_oldest_guest_is_closed() {
        for _ in 0..8 {
            let places = Places::default();
            let _all = connected(&places, ASKING_MAX);
            for (number, guest) in (0..).zip(&mut places.taken().guests) {
                guest.address = IpAddr::from([192, 0, 2, number]);
            }
            let first = places.taken().guests[0].number;
            let _next = connected(&places, 1);
            let taken = places.taken();
            assert!(taken.guests.iter().all(|guest| guest.number != first));
            assert_eq!(taken.guests.len(), ASKING_MAX);
        }
    }

    #[test]
    fn an_address_has_a_share_of_the_streams() {
        let places = Places::default();
        let mut all = connected(&places, STREAMS_MAX);
        let become_streams =
            |all: &[(TcpStream, Place)]| all.iter().filter(|(_, one)| one.becomes_stream()).count();
        assert_eq!(become_streams(&all), STREAMS_OF_ONE_MAX);
        // Streams no longer use slots of requests.
        let others = connected(&places, ASKING_MAX - STREAMS_MAX + STREAMS_OF_ONE_MAX);
        assert_eq!(places.taken().guests.len(), ASKING_MAX + STREAMS_OF_ONE_MAX);
        let address = "192.0.2.1".parse().unwrap();
        places.taken().guests.iter_mut().skip(STREAMS_MAX).for_each(|one| one.address = address);
        assert_eq!(become_streams(&others), STREAMS_MAX - STREAMS_OF_ONE_MAX);
        all.drain(..1);
        assert_eq!(become_streams(&others[STREAMS_MAX - STREAMS_OF_ONE_MAX..]), 1);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let of = |text: &str| neighbourhood(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2::9"));
        assert_ne!(of("2001:db8:1:2::"), of("2001:db8:1:3::"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
