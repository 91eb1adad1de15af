//! Reconnection: keeps a lane's I/Os when its connection fails, and connects again.

use std::collections::VecDeque;

use block::{Done, Fault, Io, Nanos, Op, Tag};

use super::past::DoubtId;
use super::wire::Wire;
use crate::dial::Dial;

/// Delay before the second attempt; doubles with each attempt.
const FIRST_PAUSE: Nanos = Nanos::from_millis(50);
pub(super) const LONGEST_PAUSE: Nanos = Nanos::from_secs(2);
/// Time limit of a login.
const OPENING: Nanos = Nanos::from_secs(20);

/// State of a lane's connection.
enum LinkState<A> {
    /// The connection works.
    Up,
    /// Waiting for the time of the next attempt.
    Pausing(Nanos),
    /// Connecting.
    Dialling(A),
    /// Logging in, with the time limit.
    Opening(Nanos),
}

/// The next step of a reconnection.
pub(crate) enum Step<S> {
    /// Nothing to do.
    None,
    /// Connected: log in on this stream.
    Begin(S),
    /// An attempt failed.
    Failed(String),
}

/// Queue of I/Os for the next connection, which it also opens.
pub(crate) struct Again<R: Wire> {
    /// Time after which the lane stops reconnecting.
    patience: Nanos,
    state: LinkState<R::Attempt>,
    /// Time at which the connection broke, and the delay after the next failure.
    since: Nanos,
    pause: Nanos,
    ledger: Ledger,
    /// I/Os to be sent, for the first time or again.
    pub(crate) waiting: VecDeque<Io>,
}

impl<R: Wire> Again<R> {
    pub(crate) fn new(patience: Nanos) -> Again<R> {
        let (state, ledger, waiting) = (LinkState::Up, Ledger::default(), VecDeque::new());
        Again { patience, state, since: Nanos(0), pause: FIRST_PAUSE, ledger, waiting }
    }

    /// Whether the connection works.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up)
    }

    /// Whether a login is in progress.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, LinkState::Opening(_))
    }

    /// The login goes on at another address.
    pub(crate) fn redirect(&mut self, attempt: R::Attempt) {
        self.state = LinkState::Dialling(attempt);
    }

    /// The login succeeded.
    pub(crate) fn opened(&mut self) {
        self.state = LinkState::Up;
    }

    /// Queues I/Os until they can be sent.
    pub(crate) fn take(&mut self, ios: &mut VecDeque<Io>) {
        for mut io in ios.drain(..) {
            io.tag = self.ledger.enter(&io);
            self.waiting.push_back(io);
        }
    }

    /// Handles a completion: the caller's, or `None` if the I/O will be sent again. A lost change
    /// is in doubt: `doubt` records its range, and its earlier doubt if it had one.
    pub(crate) fn settle(
        &mut self,
        done: Done,
        doubt: impl FnOnce((u64, u64), Option<DoubtId>) -> DoubtId,
    ) -> Option<Done> {
        if done.result.is_err_and(Fault::is_lost) {
            let entry = self.ledger.entry(done.tag);
            if matches!(entry.op, Op::Write | Op::Trim | Op::WriteZeroes) {
                entry.doubt = Some(doubt((entry.offset, entry.len.into()), entry.doubt));
            }
            self.waiting.push_back(self.ledger.io(done));
            return None;
        }
        Some(self.ledger.leave(done))
    }

    /// The change in doubt that an I/O is.
    pub(crate) fn doubt_of(&mut self, tag: Tag) -> Option<DoubtId> {
        self.ledger.entry(tag).doubt
    }

    /// The completion of an I/O that was never sent, with the caller's tag.
    pub(crate) fn leave(&mut self, done: Done) -> Done {
        self.ledger.leave(done)
    }

    /// Handles a failed connection or attempt. False when the time to reconnect is over.
    pub(crate) fn failed(&mut self, now: Nanos) -> bool {
        if self.is_up() {
            (self.since, self.pause) = (now, FIRST_PAUSE);
            // At once: often only the connection is gone.
            self.state = LinkState::Pausing(now);
            return true;
        }
        self.state = LinkState::Pausing(now + self.pause);
        self.pause = Nanos(self.pause.0 * 2).min(LONGEST_PAUSE);
        now.since(self.since) < self.patience
    }

    /// Does all work that is due.
    pub(crate) fn step<D: Dial>(&mut self, now: Nanos, core: &R, dial: &D) -> Step<R::Stream> {
        match &mut self.state {
            LinkState::Pausing(until) if now >= *until => {
                self.state = LinkState::Dialling(core.attempt(now, dial));
                Step::None
            }
            LinkState::Dialling(attempt) => match core.look(now, attempt, dial) {
                Some(Ok(stream)) => {
                    self.state = LinkState::Opening(now + OPENING);
                    Step::Begin(stream)
                }
                Some(Err(error)) => Step::Failed(error),
                None => Step::None,
            },
            LinkState::Opening(until) if now >= *until => Step::Failed("timed out".to_owned()),
            LinkState::Up | LinkState::Pausing(_) | LinkState::Opening(_) => Step::None,
        }
    }

    /// Time at which [`step`](Self::step) is due.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        match &self.state {
            LinkState::Up => None,
            LinkState::Pausing(until) | LinkState::Opening(until) => Some(*until),
            LinkState::Dialling(attempt) => Some(R::wake(attempt)),
        }
    }

    /// Fails every queued I/O, as there will be no connection.
    pub(crate) fn give_up(&mut self) -> Vec<Done> {
        let lost = self.waiting.drain(..).map(|io| io.failed(Fault::Disconnected));
        lost.map(|done| self.ledger.leave(done)).collect()
    }
}

/// I/Os in flight, retained so that they can be sent again.
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
    doubt: Option<DoubtId>,
}

impl Ledger {
    fn entry(&mut self, tag: Tag) -> &mut Entry {
        &mut self.entries[tag.0 as usize]
    }

    fn enter(&mut self, io: &Io) -> Tag {
        let Io { tag, op, offset, len, fua, .. } = *io;
        let entry = Entry { tag, op, offset, len, fua, doubt: None };
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        });
        self.entries[index as usize] = entry;
        Tag(u64::from(index))
    }

    /// The completion with the caller's tag.
    fn leave(&mut self, mut done: Done) -> Done {
        let index = done.tag.0 as u32;
        done.tag = self.entries[index as usize].tag;
        self.free.push(index);
        done
    }

    /// The I/O of a completion, to be sent again.
    fn io(&self, done: Done) -> Io {
        let Entry { op, offset, len, fua, .. } = self.entries[done.tag.0 as usize];
        Io { tag: done.tag, op, offset, len, fua, buf: done.buf }
    }
}
