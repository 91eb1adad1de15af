//! The thread that talks to the other ranks. Only this thread uses the [`Fleet`], so that an MPI
//! library need not be safe for threads; the program speaks to it through channels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use block::Nanos;

use crate::follower::{Follower, Heard, LEADER};
use crate::leader::{Event, Leader};
use crate::message::Message;
use crate::{Fleet, SILENCE};

/// The clock of a process: the one that instants of a start are of.
pub type Now = Arc<dyn Fn() -> Nanos + Send + Sync>;

/// Naps between two looks for messages: while something happens, and otherwise. A nap is 10 µs of a
/// core that may be measured.
const SHORT: Duration = Duration::from_micros(200);
const LONG: Duration = Duration::from_millis(15);
/// Time after the last message in which naps are short.
const LIVELY: Nanos = Nanos::from_millis(5);
/// Time after a clock query in which the next one is awaited without a nap.
const HOT: Nanos = Nanos::from_millis(1);
/// Time limit at the end for messages that are being sent.
const PARTING: Nanos = Nanos::from_secs(2);
/// Time limit at the end for the thread.
const LAST: Duration = Duration::from_secs(3);

/// Handle of the rank that leads.
#[derive(Debug)]
pub struct Lead {
    size: u32,
    words: Sender<Word>,
    events: Receiver<Event>,
    thread: Running,
}

/// The thread. An MPI library that lost a rank may never return from a call.
struct Running {
    thread: Option<JoinHandle<()>>,
    now: Now,
    /// Time of the thread's last turn.
    turned: Arc<AtomicU64>,
}

/// Handle of a rank that follows.
#[derive(Debug)]
pub struct Follow {
    rank: u32,
    words: Sender<Message>,
    events: Receiver<Heard>,
    thread: Running,
}

/// Commands of the program to the leader.
#[derive(Debug)]
enum Word {
    Order { body: Vec<u8>, ramp: Nanos, serving: Vec<u32> },
    Say { rank: u32, body: Vec<u8> },
    Ready,
    Done,
    Stop,
    Hurry,
    Leave,
}

/// Starts the rank that leads. `join` makes the connection, on the thread that keeps it.
///
/// # Errors
///
/// Those of `join`, and of starting a thread.
pub fn lead<E: From<std::io::Error> + Send + 'static>(
    join: impl FnOnce() -> Result<Box<dyn Fleet>, E> + Send + 'static,
    now: Now,
) -> Result<Lead, E> {
    let (words, heard) = mpsc::channel();
    let (tell, events) = mpsc::channel();
    let body = move |fleet, clock: &Turns| leading(fleet, clock, &heard, &tell);
    let ((_, size), thread) = start(join, now, body)?;
    Ok(Lead { size, words, events, thread })
}

/// Starts a rank that follows, with facts about its host for the leader.
///
/// # Errors
///
/// Those of `join`, and of starting a thread.
pub fn follow<E: From<std::io::Error> + Send + 'static>(
    join: impl FnOnce() -> Result<Box<dyn Fleet>, E> + Send + 'static,
    now: Now,
    facts: Vec<u8>,
) -> Result<Follow, E> {
    let (words, heard) = mpsc::channel();
    let (tell, events) = mpsc::channel();
    let body = move |fleet, clock: &Turns| following(fleet, clock, facts, &heard, &tell);
    let ((rank, _), thread) = start(join, now, body)?;
    Ok(Follow { rank, words, events, thread })
}

/// Joins on a new thread, and runs `body` there. Returns rank and size.
fn start<E: From<std::io::Error> + Send + 'static>(
    join: impl FnOnce() -> Result<Box<dyn Fleet>, E> + Send + 'static,
    now: Now,
    body: impl FnOnce(Box<dyn Fleet>, &Turns) + Send + 'static,
) -> Result<((u32, u32), Running), E> {
    let (tell, joined) = mpsc::channel();
    let turns = Turns { now: Arc::clone(&now), turned: Arc::default() };
    let turned = Arc::clone(&turns.turned);
    let run = move || match join() {
        Ok(fleet) => {
            let _ = tell.send(Ok((fleet.rank(), fleet.size())));
            body(fleet, &turns);
        }
        Err(error) => drop(tell.send(Err(error))),
    };
    let thread = thread::Builder::new().name("fleet".to_owned()).spawn(run)?;
    let gone = || E::from(std::io::Error::other("the thread of the fleet ended"));
    let who = joined.recv().map_err(|_| gone())??;
    turned.store(now().0, Ordering::Relaxed);
    Ok((who, Running { thread: Some(thread), now, turned }))
}

/// The clock of the thread, which says when it was read for a turn.
struct Turns {
    now: Now,
    turned: Arc<AtomicU64>,
}

impl Turns {
    fn now(&self) -> Nanos {
        let now = (self.now)();
        self.turned.store(now.0, Ordering::Relaxed);
        now
    }
}

impl Running {
    /// Whether the thread has not turned for as long as a rank may be silent.
    fn is_stuck(&self) -> bool {
        (self.now)().since(Nanos(self.turned.load(Ordering::Relaxed))) >= SILENCE
    }

    /// Waits for the end of the thread, but not for a call that never returns.
    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let mut waited = Duration::ZERO;
        while !thread.is_finished() && waited < LAST {
            thread::sleep(LONG);
            waited += LONG;
        }
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("is_stuck", &self.is_stuck()).finish_non_exhaustive()
    }
}

impl Lead {
    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Hands out work. Its measured window begins no sooner than `ramp` after the start. Ranks of
    /// `serving` serve the others until those have ended.
    pub fn order(&self, body: Vec<u8>, ramp: Nanos, serving: Vec<u32>) {
        self.say(Word::Order { body, ramp, serving });
    }

    /// Says something to a rank before the start.
    pub fn say_to(&self, rank: u32, body: Vec<u8>) {
        self.say(Word::Say { rank, body });
    }

    /// Says that this rank's workers are ready.
    pub fn ready(&self) {
        self.say(Word::Ready);
    }

    /// Says that this rank's part is whole, or will never be.
    pub fn done(&self) {
        self.say(Word::Done);
    }

    /// Ends the round early: the user asked for it.
    pub fn stop(&self) {
        self.say(Word::Stop);
    }

    /// Ends the work of the ranks that drive, and waits for their parts: a rank that served them is
    /// lost.
    pub fn hurry(&self) {
        self.say(Word::Hurry);
    }

    /// Returns the next event; `None` if there is none within `most`.
    pub fn next(&self, most: Duration) -> Option<Event> {
        match self.events.recv_timeout(most) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                let why = "the thread of the fleet ended".to_owned();
                Some(Event::Refused { rank: 0, why })
            }
        }
    }

    /// Returns whether the library of messages no longer returns from a call: nothing more comes.
    pub fn is_stuck(&self) -> bool {
        self.thread.is_stuck()
    }

    /// Sends all ranks home, and waits until the messages are out.
    pub fn leave(&mut self) {
        self.say(Word::Leave);
        self.thread.end();
    }

    // The thread is gone only after it told so.
    fn say(&self, word: Word) {
        let _ = self.words.send(word);
    }
}

impl Follow {
    /// Number of this rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Says something to the leader.
    pub fn say(&self, message: Message) {
        let _ = self.words.send(message);
    }

    /// Returns a way to speak for other threads.
    pub fn speaker(&self) -> Sender<Message> {
        self.words.clone()
    }

    /// Returns the next event; `None` if there is none within `most`.
    pub fn next(&self, most: Duration) -> Option<Heard> {
        match self.events.recv_timeout(most) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) if self.thread.is_stuck() => {
                Some(Heard::LeaderLost { why: STUCK.to_owned() })
            }
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Heard::LeaderLost { why: "the thread of the fleet ended".to_owned() })
            }
        }
    }

    /// Waits until the messages are out, and leaves.
    pub fn leave(mut self) {
        let (words, _) = mpsc::channel();
        drop(std::mem::replace(&mut self.words, words));
        self.thread.end();
    }
}

/// Words for a call that never returns.
pub const STUCK: &str = "the MPI library no longer answers";

/// The loop of the rank that leads.
fn leading(mut fleet: Box<dyn Fleet>, clock: &Turns, words: &Receiver<Word>, tell: &Sender<Event>) {
    let now = || clock.now();
    let mut leader = Leader::new(now(), fleet.size());
    let mut rest = Rest::new(now());
    let mut leaves = false;
    while !leaves {
        let mut moved = false;
        loop {
            match words.try_recv() {
                Ok(Word::Order { body, ramp, serving }) => {
                    leader.order(now(), &body, ramp, &serving);
                }
                Ok(Word::Say { rank, body }) => leader.say(rank, body),
                Ok(Word::Ready) => leader.ready(now()),
                Ok(Word::Done) => leader.done(now()),
                Ok(Word::Stop) => leader.stop(now()),
                Ok(Word::Hurry) => leader.hurry(),
                Ok(Word::Leave) | Err(TryRecvError::Disconnected) => {
                    leader.leave();
                    leaves = true;
                    break;
                }
                Err(TryRecvError::Empty) => break,
            }
            moved = true;
        }
        while let Some((from, bytes)) = fleet.receive() {
            leader.hear(now(), from, &bytes);
            moved = true;
        }
        let wake = leader.step(now());
        while let Some((to, message)) = leader.next_message(now()) {
            fleet.send(to, message.encode());
        }
        while let Some(event) = leader.next_event() {
            let _ = tell.send(event);
        }
        if leader.is_looking() {
            // Answers are under way: a nap would be measured.
            thread::yield_now();
        } else {
            rest.nap(now(), moved || fleet.is_sending(), wake);
        }
    }
    part(fleet, &now, leader.is_whole());
}

/// The loop of a rank that follows.
fn following(
    mut fleet: Box<dyn Fleet>,
    clock: &Turns,
    facts: Vec<u8>,
    words: &Receiver<Message>,
    tell: &Sender<Heard>,
) {
    let now = || clock.now();
    let mut follower = Follower::new(now(), facts);
    let mut rest = Rest::new(now());
    let mut is_whole = true;
    let mut pinged = Nanos(0);
    loop {
        let mut moved = false;
        let leaves = loop {
            match words.try_recv() {
                Ok(message) => follower.say(message),
                Err(TryRecvError::Empty) => break false,
                Err(TryRecvError::Disconnected) => break true,
            }
            moved = true;
        };
        while let Some((from, bytes)) = fleet.receive() {
            if from == LEADER {
                follower.hear(now(), &bytes);
            }
            moved = true;
        }
        let wake = follower.step(now());
        while let Some(message) = follower.next_message() {
            fleet.send(LEADER, message.encode());
        }
        while let Some(heard) = follower.next_event() {
            is_whole &= !matches!(heard, Heard::LeaderLost { .. });
            let _ = tell.send(heard);
        }
        if leaves {
            break;
        }
        let at = now();
        if follower.was_pinged() {
            pinged = at + HOT;
        }
        match at < pinged {
            true => thread::yield_now(),
            false => rest.nap(at, moved || fleet.is_sending(), wake),
        }
    }
    part(fleet, &now, is_whole);
}

/// Sends what waits, and ends the connection.
fn part(mut fleet: Box<dyn Fleet>, now: &dyn Fn() -> Nanos, is_whole: bool) {
    let until = now() + PARTING.min(SILENCE);
    while fleet.is_sending() && now() < until {
        while fleet.receive().is_some() {}
        thread::sleep(SHORT);
    }
    let is_out = !fleet.is_sending();
    fleet.end(is_whole && is_out);
}

/// Naps between two looks.
struct Rest {
    moved_at: Nanos,
}

impl Rest {
    fn new(now: Nanos) -> Rest {
        Rest { moved_at: now }
    }

    /// Naps until something may have happened.
    fn nap(&mut self, now: Nanos, moved: bool, wake: Nanos) {
        if moved {
            self.moved_at = now;
        }
        let nap = if now.since(self.moved_at) < LIVELY { SHORT } else { LONG };
        thread::sleep(nap.min(Duration::from_nanos(wake.since(now).0.max(1000))));
    }
}
