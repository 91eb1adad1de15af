//! A core that only responds sleeps on the CPU of its peer, and works on its own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use block::{Chain, Nanos, Piece, Pool};
use os::{Core, Socket};

/// Answers each byte with the CPU that it was seen on, until the peer closes.
fn answer(listener: &TcpListener, home: usize, among: &[usize]) {
    os::cpu::pin(home).unwrap();
    let core = Core::open(Pool::new(64, 64)).unwrap();
    core.follow_peers(home, among);
    let socket = Socket::new(&core, listener.accept().unwrap().0).unwrap();
    let mut ready = Vec::new();
    while socket.ended().is_none() {
        core.turn(Some(core.now() + Nanos::from_millis(500)), &mut ready).unwrap();
        while let Some(chunk) = socket.receive() {
            for _ in chunk.iter() {
                let [here] = os::cpu::allowed()[..] else { panic!("not on one processor") };
                let mut buf = core.pool().take(1).unwrap();
                buf[0] = here as u8;
                let mut chain = Chain::default();
                chain.push(Piece::Owned { buf, len: 1 });
                assert!(socket.can_send());
                socket.send(&mut chain);
            }
        }
        ready.clear();
    }
}

/// Asks for the CPU that answers the next byte.
fn ask(peer: &mut TcpStream) -> usize {
    let mut byte = [0];
    peer.write_all(&byte).unwrap();
    peer.read_exact(&mut byte).unwrap();
    usize::from(byte[0])
}

#[test]
fn an_idle_core_sleeps_with_its_peer_and_works_at_home() {
    let [here, home, ..] = os::cpu::allowed()[..] else { return };
    if home > 255 {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_nodelay(true).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| answer(&listener, home, &[here, home]));
        os::cpu::pin(here).unwrap();
        let end = Instant::now() + Duration::from_secs(300);
        assert_eq!(ask(&mut peer), home);
        // The first idle time moves the thread away, and the next event finds it on the other CPU.
        let mut idle = || {
            std::thread::sleep(Duration::from_millis(50));
            ask(&mut peer)
        };
        while idle() != here {
            assert!(Instant::now() < end, "it never came");
        }
        // Work moves the thread home, and keeps it there.
        while ask(&mut peer) != home {
            assert!(Instant::now() < end, "it never went home");
        }
        drop(peer);
    });
}

#[test]
fn an_idle_core_goes_nowhere_else_than_it_may() {
    let [here, home, ..] = os::cpu::allowed()[..] else { return };
    if home > 255 {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| answer(&listener, home, &[home]));
        os::cpu::pin(here).unwrap();
        for _ in 0..5 {
            assert_eq!(ask(&mut peer), home);
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(peer);
    });
}
