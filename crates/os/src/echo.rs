//! Round trip to a program of this host that answers from memory, through the kernel's network: a
//! lower bound for a target that keeps its data in memory.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use block::Nanos;

use crate::Clock;

/// Round trips that are made.
const TRIPS: usize = 64;
/// Bytes of a request.
const ASKED_BYTES: usize = 64;
/// Time limit of one round trip.
const PATIENCE: Duration = Duration::from_millis(500);

/// Median round trip to another thread of this process that answers a short request with
/// `answer_bytes`, over loopback. Takes a few milliseconds.
///
/// # Errors
///
/// Errors of sockets and threads.
pub fn program_round_trip(answer_bytes: usize) -> io::Result<Nanos> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let (peer, _) = listener.accept()?;
    let answering = thread::Builder::new().name("echo".to_owned());
    let answering = answering.spawn(move || answer(peer, answer_bytes))?;
    // At the end the peer sees the connection closed, and its thread ends.
    let asked = ask(stream, answer_bytes);
    drop(answering.join());
    let mut trips = asked?;
    trips.sort_unstable();
    Ok(trips[TRIPS / 2])
}

fn ask(mut stream: TcpStream, answer_bytes: usize) -> io::Result<Vec<Nanos>> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (clock, mut answer) = (Clock::get(), vec![0; answer_bytes]);
    let mut one = || {
        let began = clock.now();
        stream.write_all(&[1; ASKED_BYTES])?;
        stream.read_exact(&mut answer)?;
        Ok(clock.now().since(began))
    };
    (0..TRIPS).map(|_| one()).collect()
}

fn answer(mut stream: TcpStream, answer_bytes: usize) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut asked, answer) = ([0; ASKED_BYTES], vec![1; answer_bytes]);
    while stream.read_exact(&mut asked).is_ok() {
        stream.write_all(&answer)?;
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_program_answers() {
        let trip = program_round_trip(4096).unwrap();
        assert!(trip > Nanos(1_000) && trip < Nanos::from_secs(1), "{trip:?}");
    }
}
