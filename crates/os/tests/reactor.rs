//! The reactor against the kernel: sockets, files, wakers, time-outs, and the slower paths.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use block::{Buf, Chain, Lap, Nanos, Piece, Pool};
use os::sample::thread_cpu;
use os::{Core, End, File, FileDone, FileOp, FileOpKind, Listener, Polling, Socket, poll_threads};

fn core() -> Core {
    Core::open(Pool::new(64, 64)).unwrap()
}

fn pair(core: &Core) -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (Socket::new(core, listener.accept().unwrap().0).unwrap(), peer)
}

/// A limit that no host reaches.
const LONG: Nanos = Nanos::from_secs(300);

/// Turns until `done` says so; panics after five minutes.
fn turn_until(core: &Core, mut done: impl FnMut() -> bool) {
    let end = core.now() + LONG;
    let mut ready = Vec::new();
    while !done() {
        assert!(core.now() < end, "nothing happened for five minutes");
        core.turn(Some(core.now() + Nanos::from_millis(50)), &mut ready).unwrap();
    }
}

fn received(socket: &Socket, into: &mut Vec<u8>) -> usize {
    while let Some(chunk) = socket.receive() {
        into.extend_from_slice(&chunk);
    }
    into.len()
}

fn chain(core: &Core, bytes: &[u8]) -> Chain {
    let mut chain = Chain::default();
    for part in bytes.chunks(Pool::LARGE_BYTES) {
        let mut buf = core.pool().take(part.len()).unwrap();
        buf[..part.len()].copy_from_slice(part);
        chain.push(Piece::Owned { buf, len: part.len() });
    }
    chain
}

#[test]
fn carries_bytes_both_ways_and_sees_the_end() {
    let core = core();
    let (socket, mut peer) = pair(&core);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|i| ((i * 7) >> 5) as u8).collect();
    let expect = sent.clone();
    let echo = std::thread::spawn(move || {
        let mut back = vec![0; sent.len()];
        peer.write_all(&sent).unwrap();
        peer.read_exact(&mut back).unwrap();
        assert!(back == sent, "bytes differ");
    });
    let mut bytes = Vec::new();
    turn_until(&core, || received(&socket, &mut bytes) == expect.len());
    assert!(bytes == expect, "bytes differ");
    let mut sending = chain(&core, &bytes);
    socket.send(&mut sending);
    turn_until(&core, || socket.can_send());
    socket.send(&mut sending);
    sending.recycle(core.pool());
    assert_eq!(core.pool().lent(), [0, 0]);
    turn_until(&core, || socket.ended() == Some(End::Closed));
    echo.join().unwrap();
}

#[test]
fn a_lone_socket_takes_no_more_at_once_than_its_owner_wants() {
    let core = core();
    let (socket, mut peer) = pair(&core);
    socket.receive_at_most(1000);
    peer.write_all(&[7; 2500]).unwrap();
    let mut lens = Vec::new();
    turn_until(&core, || {
        while let Some(chunk) = socket.receive() {
            lens.push(chunk.len());
        }
        lens.iter().sum::<usize>() == 2500
    });
    assert_eq!(lens, [1000, 1000, 500]);
}

/// A chain of a ring's buffers whose bytes depend on their position.
fn lent(lap: &mut Lap, len: usize) -> (Chain, Vec<u8>) {
    let bytes: Vec<u8> = (0..len).map(|i| ((i * 11) >> 4) as u8).collect();
    let mut chain = Chain::default();
    for part in bytes.chunks(100_000) {
        let mut buf = lap.take(part.len(), Pool::LARGE_BYTES).expect("room in the ring");
        lap.trim(&mut buf, part.len());
        buf.copy_from_slice(part);
        chain.push(Piece::Lent(buf));
    }
    (chain, bytes)
}

#[test]
fn sends_by_reference_and_copies_what_the_socket_does_not_take_at_once() {
    let core = core();
    for len in [300_000, 12_000_000] {
        let (socket, mut peer) = pair(&core);
        let mut lap = Lap::new(16 << 20).unwrap();
        let (mut sending, expect) = lent(&mut lap, len);
        socket.send(&mut sending);
        // The socket is full before the peer reads the first byte.
        let reader = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let mut bytes = vec![0; len];
            peer.read_exact(&mut bytes).unwrap();
            (peer, bytes)
        });
        turn_until(&core, || socket.can_send());
        let (_peer, bytes) = reader.join().unwrap();
        assert!(bytes == expect, "bytes differ");
        socket.send(&mut sending);
        assert_eq!(sending.was_referred(), core.features().send_by_reference);
        sending.recycle_with(core.pool(), |buf| lap.give(buf, Some(1)));
        lap.acknowledge(1);
        assert!(lap.take(Pool::LARGE_BYTES, Pool::LARGE_BYTES).is_some());
    }
}

#[test]
fn a_reference_outlives_the_socket_and_the_ring() {
    let core = core();
    let (socket, mut peer) = pair(&core);
    let mut lap = Lap::new(4 << 20).unwrap();
    let (mut sending, expect) = lent(&mut lap, 200_000);
    socket.send(&mut sending);
    turn_until(&core, || socket.can_send());
    drop((socket, lap));
    let mut bytes = Vec::new();
    peer.read_to_end(&mut bytes).unwrap();
    assert!(bytes == expect, "bytes differ");
}

#[test]
fn a_ring_pays_where_the_peer_is_on_another_core() {
    let core = core();
    let (socket, mut peer) = pair(&core);
    let [here, there, ..] = os::cpu::allowed()[..] else { return };
    let (mut lap, mut asked) = (Lap::new(4 << 20).unwrap(), Vec::new());
    // The socket looks at powers of two from the 16th chain on: three times, and then twice.
    for (cpu, chains) in [(here, 64), (there, 192)] {
        os::cpu::pin(here).unwrap();
        peer = std::thread::spawn(move || {
            os::cpu::pin(cpu).unwrap();
            peer.write_all(b"here I am").unwrap();
            peer
        })
        .join()
        .unwrap();
        turn_until(&core, || received(&socket, &mut Vec::new()) == 9);
        let (chain, _) = lent(&mut lap, 50_000);
        asked.push((0..chains).any(|_| socket.lap_bytes(&chain).is_some()));
    }
    assert_eq!(asked, [false, core.features().send_by_reference]);
}

#[test]
fn many_sockets_share_the_buffers_without_loss() {
    let core = core();
    let sockets: Vec<_> = (0..40).map(|_| pair(&core)).collect();
    let message: Vec<u8> = (0..200_000_u32).map(|i| ((i * 13) >> 3) as u8).collect();
    let mut bytes = vec![Vec::new(); sockets.len()];
    std::thread::scope(|scope| {
        for (_, peer) in &sockets {
            let (mut peer, message) = (peer, &message);
            scope.spawn(move || peer.write_all(message).unwrap());
        }
        turn_until(&core, || {
            let each = sockets.iter().zip(&mut bytes);
            each.map(|((socket, _), into)| received(socket, into)).sum::<usize>()
                == 40 * message.len()
        });
    });
    assert!(bytes.iter().all(|b| *b == message), "bytes differ");
}

/// More sockets have data than there are buffers; waiting ones close.
#[test]
fn a_socket_that_waits_for_a_buffer_may_go() {
    let core = core();
    let mut pairs: Vec<(Socket, TcpStream)> = (0..100).map(|_| pair(&core)).collect();
    for (_, peer) in &mut pairs {
        peer.write_all(&[7; 1000]).unwrap();
    }
    let mut ready = Vec::new();
    for _ in 0..10 {
        core.turn(Some(Nanos(0)), &mut ready).unwrap();
    }
    // The last ones close first, while the first still hold the buffers.
    let waiting = pairs.split_off(50);
    drop(waiting);
    for _ in 0..10 {
        core.turn(Some(Nanos(0)), &mut ready).unwrap();
    }
    // The slots of both are reused now, and the data of the first is intact.
    pairs.extend((0..50).map(|_| pair(&core)));
    for (_, peer) in &mut pairs[50..] {
        peer.write_all(&[7; 1000]).unwrap();
    }
    let mut bytes = Vec::new();
    turn_until(&core, || {
        pairs.iter().fold(0, |_, (socket, _)| received(socket, &mut bytes)) == 100 * 1000
    });
}

#[test]
fn accepts_and_notices_a_taken_port() {
    let core = core();
    let socket = os::listen("127.0.0.1:0".parse().unwrap(), &[None]).unwrap().remove(0);
    let listener = Listener::new(&core, socket).unwrap();
    let taken = os::listen(listener.address(), &[None, None]).unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
    let peers: Vec<_> = (0..5).map(|_| TcpStream::connect(listener.address()).unwrap()).collect();
    let mut accepted = Vec::new();
    turn_until(&core, || {
        accepted.extend(std::iter::from_fn(|| listener.accept()).map(Result::unwrap));
        accepted.len() == peers.len()
    });
    let address = listener.address();
    drop((listener, accepted, peers));
    turn_until(&core, || TcpStream::connect(address).is_err());
}

#[test]
fn a_port_is_shared_by_the_sockets_of_one_call_and_by_no_others() {
    for round in 0..20 {
        let free = os::listen("127.0.0.1:0".parse().unwrap(), &[None]).unwrap().remove(0);
        let address = free.local_addr().unwrap();
        drop(free);
        // Two servers that start at the same time.
        let start = std::sync::Barrier::new(2);
        let listen = || {
            start.wait();
            os::listen(address, &[None; 3]).ok()
        };
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(listen);
            [listen(), other.join().unwrap()]
        });
        let sockets: Vec<_> = both.into_iter().flatten().collect();
        assert!(sockets.len() < 2, "round {round}: both listen on {address}");
    }
    let sockets = os::listen("127.0.0.1:0".parse().unwrap(), &[None; 3]).unwrap();
    let address = sockets[0].local_addr().unwrap();
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).unwrap());
    let _peers: Vec<_> = (0..60).map(|_| TcpStream::connect(address).unwrap()).collect();
    let accepted = |socket: &TcpListener| std::iter::from_fn(|| socket.accept().ok()).count();
    let counts: Vec<_> = sockets.iter().map(accepted).collect();
    assert_eq!(counts.iter().sum::<usize>(), 60);
    assert!(counts.iter().all(|count| *count > 0), "each has its share: {counts:?}");
}

/// Peers that all send more than the core has buffers for: the bytes of each socket when the first
/// had `enough`. Each peer has data in flight before each turn of the core.
fn race_of_floods(count: usize, enough: usize) -> Vec<usize> {
    let core = core();
    let mut pairs: Vec<_> = (0..count).map(|_| pair(&core)).collect();
    pairs.iter().for_each(|(_, peer)| peer.set_nonblocking(true).unwrap());
    let mut had = vec![0; count];
    turn_until(&core, || {
        for ((socket, peer), had) in pairs.iter_mut().zip(&mut had) {
            while let Some(chunk) = socket.receive() {
                *had += chunk.len();
            }
            // An error means that the socket is full: data is in flight.
            let _ = peer.write(&[7; 64 << 10]);
        }
        had.iter().any(|had| *had >= enough)
    });
    had
}

#[test]
fn of_many_sockets_that_receive_each_gets_buffers_in_turn() {
    // There are 64 buffers.
    let had = race_of_floods(150, 4 << 20);
    let (least, most) = (had.iter().min().unwrap(), had.iter().max().unwrap());
    assert!(*least >= most / 2, "least {least} of {most}: {had:?}");
}

/// An empty unlinked file.
fn scratch(name: &str) -> std::fs::File {
    let path = std::env::temp_dir().join(format!("drumfire-os-{}-{name}", std::process::id()));
    let options =
        std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(true).clone();
    let file = options.open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

#[test]
fn reads_and_writes_a_file() {
    let core = core();
    let file = File::new(&core, scratch("plain"));
    reads_and_writes(&core, &file);
}

#[test]
fn a_thread_of_the_kernel_polls_for_submissions() {
    let core = core();
    assert!(poll_threads().is_empty());
    let polling = Polling { submissions: true, ..Polling::default() };
    let file = File::polled(&core, scratch("polled"), polling).unwrap();
    let [thread] = poll_threads()[..] else { panic!("one thread: {:?}", poll_threads()) };
    for _ in 0..20 {
        reads_and_writes(&core, &file);
    }
    assert!(thread_cpu(thread).unwrap() > Nanos(0));
    // The core sleeps after 100 ms, and has to be woken.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let before = thread_cpu(thread).unwrap();
    reads_and_writes(&core, &file);
    assert!(thread_cpu(thread).unwrap() > before);
}

#[test]
fn more_than_a_ring_holds_goes_through_a_polling_thread() {
    let core = core();
    let file = scratch("many");
    file.set_len(1 << 20).unwrap();
    let polling = Polling { submissions: true, ..Polling::default() };
    let file = File::polled(&core, file, polling).unwrap();
    let (mut done, mut finished) = (Vec::new(), 0);
    for tag in 0..2000 {
        let (kind, buf) = (FileOpKind::Read, Buf::new(512).ok());
        file.submit(FileOp { tag, kind, offset: tag % 2048 * 512, len: 512, buf });
    }
    turn_until(&core, || {
        file.take_done(&mut done);
        finished += done.drain(..).map(|one: FileDone| one.result.unwrap()).count();
        finished == 2000
    });
}

#[test]
fn a_file_that_cannot_be_polled_says_so() {
    let core = core();
    let polling = Polling { completions: true, ..Polling::default() };
    // The file does not use direct I/O.
    let file = scratch("unpolled");
    file.set_len(4096).unwrap();
    let file = File::polled(&core, file, polling).unwrap();
    let (mut done, buf) = (Vec::new(), core.pool().take(4096));
    file.submit(FileOp { tag: 1, kind: FileOpKind::Read, offset: 0, len: 4096, buf });
    turn_until(&core, || {
        file.take_done(&mut done);
        !done.is_empty()
    });
    let error = done.pop().unwrap().result.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported, "{error}");
}

fn reads_and_writes(core: &Core, file: &File) {
    let mut done = Vec::new();
    let run = |kind, offset, len, buf, done: &mut Vec<_>| {
        file.submit(FileOp { tag: offset, kind, offset, len, buf });
        turn_until(core, || {
            file.take_done(done);
            !done.is_empty()
        });
        done.pop().unwrap()
    };
    let mut buf = core.pool().take(8192).unwrap();
    buf[..8192].fill(5);
    let wrote = run(FileOpKind::Write { durable: true }, 4096, 8192, Some(buf), &mut done);
    wrote.result.unwrap();
    run(FileOpKind::Sync, 0, 0, None, &mut done).result.unwrap();
    run(FileOpKind::Punch, 4096, 4096, None, &mut done).result.unwrap();
    let read = run(FileOpKind::Read, 4096, 8192, wrote.buf, &mut done);
    read.result.unwrap();
    let buf = read.buf.unwrap();
    assert!(buf[..4096].iter().all(|b| *b == 0) && buf[4096..8192].iter().all(|b| *b == 5));
    let beyond = run(FileOpKind::Read, 8192, 8192, Some(buf), &mut done);
    assert_eq!(beyond.result.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_turn_ends_at_its_time_or_when_woken() {
    let core = core();
    let (waker, token) = core.waker().unwrap();
    let mut ready = Vec::new();
    let start = core.now();
    core.turn(Some(start + Nanos::from_millis(5)), &mut ready).unwrap();
    let waited = core.now().since(start);
    assert!(waited >= Nanos::from_millis(5) && waited < LONG, "{waited:?}");
    assert!(ready.is_empty());
    let thread = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        waker.wake();
    });
    core.turn(Some(core.now() + LONG), &mut ready).unwrap();
    assert_eq!(ready, [token]);
    thread.join().unwrap();
}

/// Repeats a test until it succeeds: one try on a busy host may fail.
fn try_until(mut went_well: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !went_well() {
        assert!(start.elapsed().as_secs() < 300, "it never went as it should");
    }
}

#[test]
fn a_long_wait_ends_a_little_before_its_time() {
    let core = core();
    try_until(|| {
        let until = core.now() + Nanos::from_millis(50);
        core.turn(Some(until), &mut Vec::new()).unwrap();
        let early = until.since(core.now());
        assert!(early < Nanos::from_millis(1), "{early:?}");
        core.turn(Some(until), &mut Vec::new()).unwrap();
        assert!(core.now() >= until);
        early > Nanos(0)
    });
}

/// Bytes sent on a socket and not acknowledged by its peer.
fn unacknowledged(socket: &TcpStream) -> libc::c_int {
    let mut bytes = 0;
    // SAFETY: the kernel writes the number that we own.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(result, 0);
    bytes
}

/// Sends requests after rests until the ACK of a response is delayed.
fn asks_after_rests(core: &Core, socket: &Socket, mut peer: TcpStream) {
    peer.set_nodelay(true).unwrap();
    let mut bytes = Vec::new();
    let mut asked = 0;
    try_until(|| {
        bytes.clear();
        asked += 1;
        core.turn(Some(core.now() + Nanos::from_millis(100)), &mut Vec::new()).unwrap();
        socket.send(&mut chain(core, &[1; 72]));
        core.turn(Some(Nanos(0)), &mut Vec::new()).unwrap();
        peer.read_exact(&mut [0; 72]).unwrap();
        peer.write_all(&[2; 4120]).unwrap();
        turn_until(core, || received(socket, &mut bytes) == 4120);
        // At first the kernel has seen no rest.
        unacknowledged(&peer) == 4120 && asked > 1
    });
}

#[test]
fn after_a_rest_an_acknowledgement_does_not_go_before_the_data_are_taken() {
    let core = core();
    let (socket, peer) = pair(&core);
    asks_after_rests(&core, &socket, peer);
}

#[test]
fn after_a_rest_one_of_many_sockets_acknowledges_no_sooner() {
    let core = core();
    let _others = [pair(&core), pair(&core)];
    let (socket, peer) = pair(&core);
    asks_after_rests(&core, &socket, peer);
}

#[test]
fn a_lone_socket_that_is_never_quiet_does_not_silence_the_other() {
    let core = core();
    let (quiet, mut peer) = pair(&core);
    let (loud, mut loud_peer) = pair(&core);
    loud_peer.set_write_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| while loud_peer.write_all(&[1; 4096]).is_ok() {});
        // One byte at a time: there is more in each turn.
        loud.receive_at_most(1);
        turn_until(&core, || received(&loud, &mut Vec::new()) > 0);
        for _ in 0..100 {
            peer.write_all(&[2]).unwrap();
            turn_until(&core, || {
                received(&loud, &mut Vec::new());
                received(&quiet, &mut Vec::new()) == 1
            });
        }
        drop(loud);
    });
}

#[test]
fn a_dropped_socket_takes_nothing_with_it() {
    let core = core();
    for _ in 0..200 {
        let (socket, peer) = pair(&core);
        (&peer).write_all(&[1; 100_000]).unwrap();
        let mut sending = chain(&core, &[2; 300_000]);
        socket.send(&mut sending);
        core.turn(Some(core.now()), &mut Vec::new()).unwrap();
        drop(socket);
        core.turn(Some(core.now()), &mut Vec::new()).unwrap();
    }
    let (socket, peer) = pair(&core);
    (&peer).write_all(&[3; 50_000]).unwrap();
    let mut bytes = Vec::new();
    turn_until(&core, || received(&socket, &mut bytes) == 50_000);
}
