//! The thread of a core: accepts drivers, polls their rings, and sleeps while they are silent.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use block::{Nanos, Pool};
use os::{Companion, Core, EventSet, Job, SharedThread, Token, Turned, Waker};

use super::session::{Session, Turn};
use super::{Door, VhostError};
use crate::log::Log;

/// Drivers of a thread at once.
const SESSIONS_MOST: usize = 64;
/// Time without requests after which a thread sleeps: waking it takes as long.
const SPIN: Nanos = Nanos(50_000);
/// Rounds between yields of the CPU while there are no requests.
const YIELDS: u32 = 32;
/// Rounds with requests between turns of the core.
const ROUNDS_PER_TURN: u32 = 64;
/// Time until an accept that failed is tried again.
const AGAIN: Nanos = Nanos::from_millis(100);
/// Time for I/Os in flight and lanes to end when the server stops.
const LEAVING: Nanos = Nanos::from_secs(2);

/// Bit of the keys of doors.
const DOOR: u64 = 1 << 32;
/// Bits of a queue in a session's key; 0 is the session's socket.
const QUEUE_BITS: u32 = 8;

/// The key of a session's descriptor in the set.
pub(super) fn key(session: usize, queue: Option<u16>) -> u64 {
    (session as u64) << QUEUE_BITS | queue.map_or(0, |queue| u64::from(queue) + 1)
}

/// A thread that serves.
pub(super) struct Thread {
    pub(super) id: i32,
    pub(super) shared: SharedThread,
    pub(super) waker: Waker,
    pub(super) handle: Option<JoinHandle<()>>,
}

/// Starts the thread of a core.
pub(super) fn start(
    cpu: usize,
    doors: Vec<Door>,
    ends: &Arc<AtomicBool>,
    log: &Arc<Log>,
    failed: Arc<dyn Fn(&str) + Send + Sync>,
) -> Result<Thread, VhostError> {
    let (ends, log) = (Arc::clone(ends), Arc::clone(log));
    let (started, wait) = mpsc::channel();
    let (send, jobs) = mpsc::channel();
    let body = move || {
        let set_up = || -> Result<(Host, Waker), VhostError> {
            os::cpu::pin(cpu)?;
            let core = Core::open(Pool::new(usize::MAX, usize::MAX))?;
            let (waker, _) = core.waker()?;
            Ok((Host::new(core, doors, log)?, waker))
        };
        match set_up() {
            Ok((host, waker)) => {
                let _ = started.send(Ok((os::sample::thread_id(), waker)));
                let watch = Watch { failed: &*failed, cpu };
                if let Err(error) = run(host, &ends, &jobs) {
                    (watch.failed)(&format!("core {cpu}: {error}"));
                }
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    };
    let handle = std::thread::Builder::new().name(format!("vhost {cpu}")).spawn(body)?;
    let died = |_| io::Error::other("the thread ended during startup");
    let (id, waker) = wait.recv().map_err(died)??;
    let shared = SharedThread::new(cpu, send, waker.clone());
    Ok(Thread { id, shared, waker, handle: Some(handle) })
}

/// Reports a thread that panicked.
struct Watch<'a> {
    failed: &'a (dyn Fn(&str) + Send + Sync),
    cpu: usize,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.failed)(&format!("core {}: its thread panicked", self.cpu));
        }
    }
}

/// Serves until the server stops. Runs the jobs that others queue for this thread, and continues to
/// serve meanwhile.
fn run(host: Host, ends: &AtomicBool, jobs: &Receiver<Job>) -> io::Result<()> {
    let host = Rc::new(RefCell::new(host));
    while !ends.load(Ordering::Acquire) {
        if let Ok(job) = jobs.try_recv() {
            job(host.clone());
        }
        let mut host = host.borrow_mut();
        let round = host.round();
        if !round.busy && round.until == Some(Nanos(0)) && host.rounds.is_multiple_of(YIELDS) {
            host.core.yield_now();
        }
        if host.needs_turn(round) {
            host.turn_core(round.until)?;
        }
    }
    let mut host = host.borrow_mut();
    host.leave()
}

impl Companion for Host {
    fn turn(&mut self) -> io::Result<Turned> {
        let round = self.round();
        if self.needs_turn(round) {
            self.turn_core(Some(Nanos(0)))?;
        }
        Ok(Turned { busy: round.busy, wake: round.until })
    }

    fn core(&self) -> &Core {
        &self.core
    }
}

/// Result of a round.
#[derive(Clone, Copy, Debug)]
struct Round {
    busy: bool,
    /// I/Os are in flight that need turns of the core.
    waits: bool,
    /// Time until which the core may wait for an event.
    until: Option<Nanos>,
}

/// The doors and drivers of a thread.
struct Host {
    core: Core,
    events: EventSet,
    doors: Vec<Door>,
    sessions: Vec<Option<Session>>,
    /// Doors where drivers may wait to be accepted.
    knocked: Vec<bool>,
    again: Option<Nanos>,
    keys: Vec<u64>,
    ready: Vec<Token>,
    rounds: u32,
    /// Time of the last round with work.
    idle_since: Nanos,
    /// Drivers were asked for notifications.
    listening: bool,
    log: Arc<Log>,
}

impl Host {
    fn new(core: Core, doors: Vec<Door>, log: Arc<Log>) -> io::Result<Host> {
        let events = EventSet::new(&core)?;
        for (at, door) in (0..).zip(&doors) {
            events.add(&door.port, DOOR | at)?;
        }
        events.await_events(&core)?;
        let (knocked, idle_since) = (vec![true; doors.len()], core.now());
        let (sessions, keys, ready) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Host {
            core,
            events,
            doors,
            sessions,
            knocked,
            again: None,
            keys,
            ready,
            rounds: 0,
            idle_since,
            listening: false,
            log,
        })
    }

    /// Serves once. Without work for a while, asks the drivers for notifications.
    fn round(&mut self) -> Round {
        if std::mem::take(&mut self.listening) {
            self.sessions.iter_mut().flatten().for_each(Session::silence);
        }
        let Turn { busy, waits } = self.serve();
        self.rounds = self.rounds.wrapping_add(1);
        let now = self.core.now();
        if busy {
            self.idle_since = now;
        }
        let spins = now.since(self.idle_since) < SPIN && !self.core.is_crowded(now);
        let polls = busy || spins;
        if polls {
            return Round { busy, waits, until: Some(Nanos(0)) };
        }
        self.listening = true;
        let until = if self.listen() { Some(Nanos(0)) } else { self.wake() };
        Round { busy, waits, until }
    }

    /// Whether the core has to turn before the next round.
    fn needs_turn(&self, round: Round) -> bool {
        !round.busy || round.waits || self.rounds.is_multiple_of(ROUNDS_PER_TURN)
    }

    /// Takes a turn of the core, which waits at most until then.
    fn turn_core(&mut self, until: Option<Nanos>) -> io::Result<()> {
        self.core.turn(until, &mut self.ready)?;
        if self.ready.is_empty() {
            return Ok(());
        }
        self.ready.clear();
        self.heed_events()
    }

    /// Takes new events to their doors and sessions.
    fn heed_events(&mut self) -> io::Result<()> {
        self.events.take(&mut self.keys)?;
        self.events.await_events(&self.core)?;
        for key in self.keys.drain(..) {
            if key & DOOR != 0 {
                self.knocked[(key & !DOOR) as usize] = true;
            } else if let Some(Some(session)) = self.sessions.get_mut((key >> QUEUE_BITS) as usize)
                && key & ((1 << QUEUE_BITS) - 1) == 0
            {
                session.readable = true;
            }
        }
        Ok(())
    }

    /// One round of all doors and sessions.
    fn serve(&mut self) -> Turn {
        let mut all = Turn::default();
        if self.again.is_some_and(|again| again <= self.core.now()) {
            (self.again, self.knocked) = (None, vec![true; self.doors.len()]);
        }
        for at in 0..self.doors.len() {
            if std::mem::take(&mut self.knocked[at]) {
                self.accept(at);
            }
        }
        for at in 0..self.sessions.len() {
            let Some(session) = &mut self.sessions[at] else { continue };
            let turn = session.turn(&self.core, &self.events, &self.doors[session.door]);
            all.busy |= turn.busy;
            all.waits |= turn.waits;
            if let Some(line) = session.news.take() {
                let name = &self.doors[session.door].name;
                self.log.say(self.core.now(), &format!("{name}: {line}"));
            }
            if session.is_over() {
                self.sessions[at] = None;
            }
        }
        all
    }

    /// Accepts the drivers that wait at a door.
    fn accept(&mut self, door: usize) {
        loop {
            match self.doors[door].port.accept() {
                Ok(None) => return,
                Ok(Some(link)) => {
                    let free = self.sessions.iter().position(Option::is_none);
                    let at = free.unwrap_or(self.sessions.len());
                    let name = &self.doors[door].name;
                    if at >= SESSIONS_MOST {
                        let line = format!("{name}: a driver is refused: {SESSIONS_MOST} others");
                        self.log.say(self.core.now(), &line);
                        continue;
                    }
                    match Session::new(at, door, &self.doors[door], link, &self.events) {
                        Ok(session) if at < self.sessions.len() => {
                            self.sessions[at] = Some(session);
                        }
                        Ok(session) => self.sessions.push(Some(session)),
                        Err(error) => {
                            let line = format!("{name}: a driver is refused: {error}");
                            self.log.say(self.core.now(), &line);
                        }
                    }
                }
                Err(error) => {
                    let line = format!("{}: cannot accept: {error}", self.doors[door].name);
                    self.log.say(self.core.now(), &line);
                    self.again = Some(self.core.now() + AGAIN);
                    return;
                }
            }
        }
    }

    /// Asks all drivers for notifications. Whether one has requests already.
    fn listen(&mut self) -> bool {
        let mut more = false;
        for session in self.sessions.iter_mut().flatten() {
            more |= session.listen();
        }
        more
    }

    /// The time at which a lane or a door needs a round without an event.
    fn wake(&self) -> Option<Nanos> {
        let lanes = self.sessions.iter().flatten().filter_map(Session::wake);
        lanes.chain(self.again).min()
    }

    /// Ends all sessions: I/Os in flight end first.
    fn leave(&mut self) -> io::Result<()> {
        let end = self.core.now() + LEAVING;
        self.sessions.iter_mut().flatten().for_each(Session::end);
        while self.sessions.iter().any(Option::is_some) && self.core.now() < end {
            self.serve();
            self.core.turn(Some(self.core.now() + Nanos::from_millis(1)), &mut Vec::new())?;
        }
        Ok(())
    }
}
