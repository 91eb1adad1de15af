//! Coming back: what a lane does about a connection that broke, when it was asked to.

use std::collections::VecDeque;
use std::net::TcpStream;

use block::{Cause, Done, Fault, Io, Nanos, Op, Tag};

use crate::attempt::Attempt;
use crate::dial::Dial;

/// The pause before the second attempt; each is twice as long as the one before.
const FIRST_PAUSE: Nanos = Nanos::from_millis(50);
const LONGEST_PAUSE: Nanos = Nanos::from_secs(2);
/// How long the other end has to let us in.
const OPENING: Nanos = Nanos::from_secs(20);

/// How far a lane is that comes back.
enum LinkState {
    /// The connection works.
    Up,
    /// The next attempt is due then.
    Pausing(Nanos),
    /// A connection is being made.
    Dialling(Attempt),
    /// The other end is to let us in by then.
    Opening(Nanos),
}

/// What to do next.
pub(crate) enum Step {
    /// Nothing.
    None,
    /// A connection is there: begin anew on it.
    Begin(TcpStream),
    /// An attempt failed.
    Failed(String),
}

/// Keeps I/Os for the next connection, and makes it.
pub(crate) struct Again {
    /// After so long the lane gives up.
    patience: Nanos,
    state: LinkState,
    /// When the connection broke, and the pause after the next failure.
    since: Nanos,
    pause: Nanos,
    ledger: Ledger,
    /// I/Os that are to be sent, first or again.
    pub(crate) waiting: VecDeque<Io>,
}

impl Again {
    pub(crate) fn new(patience: Nanos) -> Again {
        let (state, ledger, waiting) = (LinkState::Up, Ledger::default(), VecDeque::new());
        Again { patience, state, since: Nanos(0), pause: FIRST_PAUSE, ledger, waiting }
    }

    /// Whether I/Os flow.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up)
    }

    /// Whether the other end is about to let us in.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, LinkState::Opening(_))
    }

    /// The other end let us in.
    pub(crate) fn opened(&mut self) {
        self.state = LinkState::Up;
    }

    /// Takes I/Os, to be sent when that is possible.
    pub(crate) fn take(&mut self, ios: &mut VecDeque<Io>) {
        for mut io in ios.drain(..) {
            io.tag = self.ledger.enter(&io);
            self.waiting.push_back(io);
        }
    }

    /// What came back: an answer for the caller, or an I/O that has to be sent again.
    pub(crate) fn settle(&mut self, done: Done) -> Option<Done> {
        if done.result.is_err_and(Fault::is_lost) {
            self.waiting.push_back(self.ledger.io(done));
            return None;
        }
        Some(self.ledger.leave(done))
    }

    /// The connection broke, or an attempt to make one did. False when it is time to give up.
    pub(crate) fn failed(&mut self, now: Nanos) -> bool {
        if self.is_up() {
            (self.since, self.pause) = (now, FIRST_PAUSE);
            // At once: the other end may be there, and only the connection gone.
            self.state = LinkState::Pausing(now);
            return true;
        }
        self.state = LinkState::Pausing(now + self.pause);
        self.pause = Nanos(self.pause.0 * 2).min(LONGEST_PAUSE);
        now.since(self.since) < self.patience
    }

    /// Does what is due.
    pub(crate) fn step<D: Dial>(&mut self, now: Nanos, dial: &D) -> Step {
        match &mut self.state {
            LinkState::Pausing(until) if now >= *until => {
                self.state = LinkState::Dialling(Attempt::begin(dial, now));
                Step::None
            }
            LinkState::Dialling(attempt) => match attempt.look(now, dial) {
                Some(Ok(stream)) => {
                    self.state = LinkState::Opening(now + OPENING);
                    Step::Begin(stream)
                }
                Some(Err(error)) => Step::Failed(error),
                None => Step::None,
            },
            LinkState::Opening(until) if now >= *until => {
                Step::Failed("no answer in time".to_owned())
            }
            LinkState::Up | LinkState::Pausing(_) | LinkState::Opening(_) => Step::None,
        }
    }

    /// When [`step`](Self::step) has something to do.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        match &self.state {
            LinkState::Up => None,
            LinkState::Pausing(until) | LinkState::Opening(until) => Some(*until),
            LinkState::Dialling(attempt) => Some(attempt.wake()),
        }
    }

    /// Every I/O that waits, answered: there will be no connection.
    pub(crate) fn give_up(&mut self) -> Vec<Done> {
        let lost = |Io { tag, buf, .. }: Io| {
            let (result, cause) = (Err(Fault::Disconnected), Cause::NONE);
            Done { tag, result, cause, buf }
        };
        self.waiting.drain(..).map(|io| self.ledger.leave(lost(io))).collect()
    }
}

/// I/Os between the caller and the initiator, so that they can be sent again.
#[derive(Default)]
struct Ledger {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Entry {
    tag: Tag,
    op: Op,
    offset: u64,
    len: u32,
    fua: bool,
}

impl Ledger {
    fn enter(&mut self, io: &Io) -> Tag {
        let Io { tag, op, offset, len, fua, .. } = *io;
        let entry = Entry { tag, op, offset, len, fua };
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        });
        self.entries[index as usize] = entry;
        Tag(u64::from(index))
    }

    /// The answer under the name that the caller knows.
    fn leave(&mut self, mut done: Done) -> Done {
        let index = done.tag.0 as u32;
        done.tag = self.entries[index as usize].tag;
        self.free.push(index);
        done
    }

    /// The I/O that an answer was for, to be sent again.
    fn io(&self, done: Done) -> Io {
        let Entry { op, offset, len, fua, .. } = self.entries[done.tag.0 as usize];
        Io { tag: done.tag, op, offset, len, fua, buf: done.buf }
    }
}
