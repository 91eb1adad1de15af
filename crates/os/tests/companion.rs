//! Two loops on one thread, against the kernel: turns, sleeps and wake-ups.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use block::{Chain, Nanos, Piece, Pool};
use os::sample::{thread_cpu, thread_id};
use os::{Companion, Core, SharedThread, SharedTime, Socket, Token, Turned, Waker};

/// A limit that no host reaches.
const LONG: Nanos = Nanos::from_secs(300);

fn core() -> Core {
    Core::open(Pool::new(64, 64)).unwrap()
}

/// An echo server that also wakes its neighbour's core.
struct Echo {
    core: Core,
    socket: Socket,
    tell: Option<Waker>,
    ready: Vec<Token>,
    turns: usize,
    wake: Option<Nanos>,
    /// Time of the turn at which `wake` was due.
    woken: Option<Nanos>,
    /// Waker of the neighbour's core, called at that turn.
    ends_wait: Option<Waker>,
}

impl Echo {
    /// Creates a loop, and the other end of its socket.
    fn new() -> (Rc<RefCell<Echo>>, TcpStream) {
        let core = core();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        peer.set_nodelay(true).unwrap();
        let socket = Socket::new(&core, listener.accept().unwrap().0).unwrap();
        let (tell, ready, turns, wake, woken) = (None, Vec::new(), 0, None, None);
        let echo = Echo { core, socket, tell, ready, turns, wake, woken, ends_wait: None };
        (Rc::new(RefCell::new(echo)), peer)
    }
}

impl Companion for Echo {
    fn turn(&mut self) -> io::Result<Turned> {
        self.turns += 1;
        let now = self.core.now();
        if self.wake.take_if(|wake| now >= *wake).is_some() {
            self.woken = Some(now);
            self.ends_wait.iter().for_each(Waker::wake);
        }
        self.core.turn(Some(Nanos(0)), &mut self.ready)?;
        let busy = !self.ready.is_empty();
        self.ready.clear();
        let mut chain = Chain::default();
        while let Some(chunk) = self.socket.receive() {
            let mut buf = self.core.pool().take(chunk.len()).unwrap();
            buf[..chunk.len()].copy_from_slice(&chunk);
            chain.push(Piece::Owned { buf, len: chunk.len() });
        }
        if !chain.is_empty() {
            self.socket.send(&mut chain);
            chain.recycle(self.core.pool());
            self.tell.iter().for_each(Waker::wake);
        }
        self.core.submit()?;
        Ok(Turned { busy, wake: self.wake })
    }

    fn core(&self) -> &Core {
        &self.core
    }
}

#[test]
fn both_ends_of_a_connection_live_on_one_thread() {
    let (echo, peer) = Echo::new();
    let core = core();
    let time = Arc::new(SharedTime::default());
    let start = core.now();
    core.share(echo.clone(), time.clone()).unwrap();
    let socket = Socket::new(&core, peer).unwrap();
    let (mut ready, mut chain) = (Vec::new(), Chain::default());
    for round in 0..1000_u32 {
        let mut buf = core.pool().take(4).unwrap();
        buf[..4].copy_from_slice(&round.to_ne_bytes());
        chain.push(Piece::Owned { buf, len: 4 });
        socket.send(&mut chain);
        chain.recycle(core.pool());
        let mut back = Vec::new();
        while back.len() < 4 || !socket.can_send() {
            core.turn(Some(core.now() + LONG), &mut ready).unwrap();
            while let Some(chunk) = socket.receive() {
                back.extend_from_slice(&chunk);
            }
            assert!(core.now().since(start) < LONG, "round {round}: no answer");
        }
        assert_eq!(back, round.to_ne_bytes());
    }
    let whole = core.now().since(start);
    assert!(time.companion() > Nanos(0) && time.companion() < time.awake(), "{time:?}");
    assert!(time.awake() < whole, "{time:?} of {whole:?}");
}

/// Computes in each turn.
struct Busy {
    core: Core,
    work: u32,
}

fn compute(rounds: u32) {
    (0..rounds).for_each(|round| _ = std::hint::black_box(round));
}

impl Companion for Busy {
    fn turn(&mut self) -> io::Result<Turned> {
        compute(self.work);
        Ok(Turned { busy: true, wake: None })
    }

    fn core(&self) -> &Core {
        &self.core
    }
}

/// A preempted thread's CPU time is split as without preemption: all turns take longer by the clock
/// alike. Other processes of the host may still favour one kind of turn: three tries.
#[test]
fn time_is_split_rightly_on_a_busy_processor() {
    let shares: Vec<f64> = (0..3).map(|_| share_on_a_busy_processor()).collect();
    // A turn of the core takes two thirds of one of its companion, which has one or two.
    assert!(shares.iter().any(|share| (0.4..0.85).contains(share)), "{shares:?}");
}

/// The companion's share of the time awake, with six busy threads on its CPU.
fn share_on_a_busy_processor() -> f64 {
    let core = core();
    let time = Arc::new(SharedTime::default());
    let cpu = os::cpu::allowed()[0];
    os::cpu::pin(cpu).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..6)
        .map(|_| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                os::cpu::pin(cpu).unwrap();
                while !over.load(Ordering::Relaxed) {
                    compute(1000);
                }
            })
        })
        .collect();
    let busy = Rc::new(RefCell::new(Busy { core: self::core(), work: 60_000 }));
    core.share(busy, time.clone()).unwrap();
    let before = thread_cpu(thread_id()).unwrap();
    let mut ready = Vec::new();
    // Without system calls of ours: where one ends, a thread may be preempted.
    for _ in 0..250 {
        core.turn(Some(Nanos(0)), &mut ready).unwrap();
        compute(40_000);
    }
    let spent = thread_cpu(thread_id()).unwrap().since(before);
    over.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(time.awake() > spent, "nobody kept it from running: {time:?} in {spent:?}");
    time.companion().0 as f64 / time.awake().0 as f64
}

#[test]
fn news_of_the_companion_end_the_sleep_of_both() {
    let (echo, mut peer) = Echo::new();
    let core = core();
    let (waker, told) = core.waker().unwrap();
    echo.borrow_mut().tell = Some(waker);
    core.share(echo.clone(), Arc::default()).unwrap();
    // Asleep several times, so that preparing for sleep is undone, too.
    for round in 0..5_u8 {
        let before = thread_cpu(thread_id()).unwrap();
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            peer.write_all(&[round; 100]).unwrap();
            let mut back = [0; 100];
            peer.read_exact(&mut back).unwrap();
            assert_eq!(back, [round; 100]);
            peer
        });
        let start = core.now();
        let mut ready = Vec::new();
        while !ready.contains(&told) {
            core.turn(Some(start + LONG), &mut ready).unwrap();
            assert!(core.now().since(start) < LONG, "round {round}: slept on");
        }
        // The peer's data are in the kernel by now.
        peer = writer.join().unwrap();
        let spent = thread_cpu(thread_id()).unwrap().since(before);
        assert!(spent < Nanos::from_millis(50), "round {round}: {spent:?} of 100 ms spinning");
    }
}

#[test]
fn the_companion_gets_its_turn_when_it_wants_one() {
    let (echo, _peer) = Echo::new();
    let core = core();
    let (waker, told) = core.waker().unwrap();
    core.share(echo.clone(), Arc::default()).unwrap();
    let start = core.now();
    echo.borrow_mut().wake = Some(start + Nanos::from_millis(50));
    // A busy host may run this thread late.
    while echo.borrow().woken.is_none() && core.now() < start + Nanos::from_secs(10) {
        core.turn(Some(start + Nanos::from_millis(100)), &mut Vec::new()).unwrap();
    }
    let late = echo.borrow().woken.expect("it was called").since(start);
    assert!(late >= Nanos::from_millis(50), "{late:?}");
    // The companion's deadline is long before the core's own, whose wait it ends.
    let start = core.now();
    echo.borrow_mut().ends_wait = Some(waker);
    echo.borrow_mut().wake = Some(start + Nanos::from_millis(50));
    let mut ready = Vec::new();
    while !ready.contains(&told) {
        core.turn(Some(start + LONG), &mut ready).unwrap();
        assert!(core.now().since(start) < LONG, "it was not called");
    }
}

#[test]
fn a_job_runs_on_the_thread_beside_its_loop_and_not_on_one_that_is_gone() {
    let (send, jobs) = mpsc::channel::<os::Job>();
    let (started, wait) = mpsc::channel();
    let host = std::thread::spawn(move || {
        let (echo, _peer) = Echo::new();
        let (waker, _) = echo.borrow().core.waker().unwrap();
        started.send(waker).unwrap();
        jobs.recv().unwrap()(echo.clone());
        assert!(echo.borrow().turns > 0);
    });
    let shared = SharedThread::new(7, send, wait.recv().unwrap());
    assert_eq!(shared.cpu(), 7);
    let (ran, wait) = mpsc::channel();
    assert!(shared.run(Box::new(move |companion| {
        let core = core();
        core.share(companion, Arc::default()).unwrap();
        core.turn(Some(core.now() + Nanos::from_millis(5)), &mut Vec::new()).unwrap();
        ran.send(thread_id()).unwrap();
    })));
    assert_ne!(wait.recv().unwrap(), thread_id());
    host.join().unwrap();
    assert!(!shared.run(Box::new(|_| panic!("nobody is there"))));
}
