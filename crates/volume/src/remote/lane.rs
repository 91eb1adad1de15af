//! One core's lane to a remote volume.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

use block::{Cause, Connection, Done, Fault, Geometry, Io, Lane, Nanos, Op};
use os::ReactorSocket;
use proto::{Ending, Endpoint, Fence, Initiator, Phase};

use super::Facts;
use super::again::{Again, Step};
use super::flushes::{Flushes, LOST};
use super::link::Link;
use super::past::{Name, Past};
use super::wire::Wire;
use crate::dial::{Dial, Place, REDIRECTS_MAX};

mod doubts;

/// A connection with our endpoint.
struct Line<D: Dial, R: Wire> {
    link: Link<D::End, R::Socket>,
    /// Released after the link, when the connection is closed.
    place: D::Place,
}

impl<D: Dial, R: Wire> Line<D, R> {
    /// Creates a line; `wanted` is the name of an earlier connection with changes in doubt, which
    /// this one is to replace.
    fn new(
        core: &R,
        dial: &D,
        stream: R::Stream,
        wanted: Option<Name>,
    ) -> Result<Line<D, R>, String> {
        let (end, place) = dial.initiator(core.now(), wanted)?;
        Ok(Line { link: Link::new(core, end, stream)?, place })
    }
}

/// State of a lane that has not been open yet.
enum Opening<A> {
    Connecting(A),
    /// Logging in.
    Joining,
}

/// A lane to a remote volume: a connection, and later ones if the lane reconnects.
pub struct RemoteLane<D: Dial, R: Wire> {
    facts: Arc<Facts<D>>,
    past: Arc<Past>,
    /// `None` before the first connection, and after the last.
    line: Option<Line<D, R>>,
    core: R,
    /// Completions of I/Os lost with the connection.
    finished: Vec<Done>,
    /// The first login is not complete.
    opening: Option<Opening<R::Attempt>>,
    /// The lane is being closed.
    closing: bool,
    /// Time of the next check whether an idle connection is still usable.
    look: Nanos,
    broken: Option<String>,
    /// Connection counters, without the time since a loss that lasts.
    counted: Connection,
    lost: Option<Nanos>,
    /// Reconnects a lane that was open.
    again: Option<Box<Again<R>>>,
    flushes: Flushes,
    /// Changes that wait until earlier ones of the same ranges are no longer in doubt, and those
    /// that waited.
    held: VecDeque<Io>,
    released: VecDeque<Io>,
    /// The lane's owner checks the data itself, whichever server has them.
    looks: Cell<bool>,
    /// The name of the last connection.
    name: Option<Name>,
    /// Number of redirections of the login in progress.
    redirects: u8,
    /// Time of the last call.
    now: Nanos,
}

/// Interval at which lanes without I/Os are checked.
const LOOK: Nanos = Nanos::from_secs(1);
/// Interval at which held-back changes are checked.
const LOOK_HELD: Nanos = Nanos::from_millis(10);

/// Reconnecting does not help.
const CHANGED: &str = "the capacity or block size of the volume changed";
const ANOTHER: &str = "another disk is at this address";
/// The first connection has met another server than the one whose data the owner has checked: that
/// server may have an older image.
const EXCHANGED: &str = "its target was restarted after the array had checked it";

impl<D: Dial, R: Wire> RemoteLane<D, R> {
    /// Starts to connect.
    pub fn begin(facts: &Arc<Facts<D>>, core: &R) -> RemoteLane<D, R> {
        RemoteLane {
            opening: Some(Opening::Connecting(core.attempt(core.now(), &facts.dial))),
            line: None,
            core: core.clone(),
            finished: Vec::new(),
            closing: false,
            look: core.now(),
            broken: None,
            counted: Connection::default(),
            lost: None,
            again: None,
            flushes: Flushes::new(&facts.past, facts.geometry.volatile),
            held: VecDeque::new(),
            released: VecDeque::new(),
            looks: Cell::new(false),
            name: None,
            redirects: 0,
            now: core.now(),
            past: Arc::clone(&facts.past),
            facts: Arc::clone(facts),
        }
    }

    /// Continues to open the first connection.
    #[cold]
    fn open(&mut self, now: Nanos) {
        match &mut self.opening {
            Some(Opening::Connecting(attempt)) => {
                let Some(made) = self.core.look(now, attempt, &self.facts.dial) else { return };
                self.opening = Some(Opening::Joining);
                let made = made.and_then(|stream| self.log_in(now, stream));
                if let Err(why) = made {
                    self.break_off(why);
                }
            }
            Some(Opening::Joining) => match self.is_logged_in() {
                Ok(false) => {}
                Ok(true) if self.is_exchanged() => self.break_off(EXCHANGED.to_owned()),
                Ok(true) => {
                    self.opening = None;
                    self.opened(now);
                    let patience = self.facts.dial.session().patience();
                    self.again = patience.map(|time| Box::new(Again::new(time)));
                }
                Err(why) => self.break_off(why),
            },
            None => {}
        }
    }

    /// Whether the target is ready for I/Os; an error if it never will be.
    fn is_logged_in(&self) -> Result<bool, String> {
        let Some(line) = &self.line else { return Ok(false) };
        match line.link.end.phase() {
            Phase::Ready(found) if !self.suits(found) => Err(CHANGED.to_owned()),
            Phase::Ready(_) if self.is_another() => Err(ANOTHER.to_owned()),
            Phase::Ready(_) => Ok(true),
            Phase::Closing | Phase::Closed => Err("closed by the target".to_owned()),
            Phase::Opening => Ok(false),
        }
    }

    /// Whether the volume is unchanged, or larger.
    fn suits(&self, found: Geometry) -> bool {
        let own = self.facts.geometry;
        found.bytes() >= own.bytes() && Geometry { blocks: own.blocks, ..found } == own
    }

    /// Whether the target names another disk than the first time.
    fn is_another(&self) -> bool {
        let found = self.line.as_ref().and_then(|line| line.link.end.identity());
        let both = self.facts.identity.as_ref().zip(found);
        both.is_some_and(|(own, found)| *own != found)
    }

    /// Whether the server is a different one from the one that its owner has checked.
    fn is_exchanged(&self) -> bool {
        if self.looks.get() {
            return false;
        }
        let found = self.line.as_ref().and_then(|line| line.link.end.instance());
        self.past.is_exchanged(found)
    }

    /// Handles the loss of the connection, which is unusable.
    #[cold]
    fn lose(&mut self, now: Nanos, why: String, power_lost: bool) {
        self.note_loss(now, power_lost);
        self.abandon();
        self.count_loss(now);
        let closing = self.closing;
        let goes_on = self.again.as_mut().is_some_and(|again| !closing && again.failed(now));
        if goes_on { self.collect() } else { self.break_off(why) }
    }

    /// Counts a lost connection or a failed reconnection.
    fn count_loss(&mut self, now: Nanos) {
        match self.lost {
            Some(_) => self.counted.failed_attempts += 1,
            // A connection that was never open, or being closed, is not lost.
            None if self.opening.is_some() || self.closing => {}
            None => {
                self.counted.lost += 1;
                self.lost = Some(now);
            }
        }
    }

    /// Counts a reconnection.
    fn count_return(&mut self, now: Nanos) {
        let since = self.lost.take().unwrap_or(now);
        self.counted.reconnects += 1;
        self.counted.disconnected = self.counted.disconnected + now.since(since);
    }

    #[cold]
    fn break_off(&mut self, why: String) {
        self.note_loss(self.now, false);
        self.abandon();
        self.collect();
        let held = self.held.drain(..).chain(self.released.drain(..));
        let held: Vec<Done> = held.map(|io| io.failed(Fault::Disconnected)).collect();
        match &mut self.again {
            Some(again) => {
                self.finished.extend(held.into_iter().map(|done| again.leave(done)));
                self.finished.append(&mut again.give_up());
            }
            None => self.finished.extend(held),
        }
        // The owner may keep this lane for long. As long as the connection exists, its target
        // considers it alive, and lets others in without waiting for the changes in doubt.
        self.line = None;
        self.broken.get_or_insert(why);
    }

    fn abandon(&mut self) {
        if let Some(line) = &mut self.line {
            line.link.end.abandon();
        }
    }

    /// Collects completions from our endpoint.
    #[inline]
    fn collect(&mut self) {
        let Some(Line { link, place }) = &mut self.line else { return };
        link.in_flight = link.in_flight.saturating_sub(link.end.done().len());
        self.flushes.note_changes(link.end.changes());
        if self.flushes.any() {
            link.end.done().iter_mut().for_each(|done| self.flushes.settle(done));
        }
        match &mut self.again {
            None => self.finished.append(link.end.done()),
            Some(again) => {
                let (past, name, now) = (&self.past, place.name(), self.now);
                let done = link.end.done().drain(..);
                self.finished.extend(done.filter_map(|done| {
                    again.settle(done, |place, before| past.doubt(now, name, place, before))
                }));
            }
        }
    }

    /// Receives data, if the connection is usable.
    #[inline]
    fn take(&mut self, now: Nanos) {
        if !self.is_linked() {
            return;
        }
        let Some(Line { link, .. }) = &mut self.line else { return };
        if let Err(ending) = link.take(now) {
            link.flush();
            if let Ending::Moved(moved) = &ending
                && self.follow(now, &moved.address)
            {
                return;
            }
            self.lose(now, ending.to_string(), ending.lost_power());
        } else if link.end.phase() == Phase::Closed {
            if !self.closing {
                self.lose(now, "the target requested a logout".to_owned(), false);
            }
        } else if let Some(end) = link.socket.ended() {
            self.lose(now, end.to_string(), false);
        } else if link.in_flight == 0 && now >= self.look {
            self.look(now);
        }
    }

    /// Checks an idle connection, which has no I/O time-out that would detect a dead target.
    #[cold]
    fn look(&mut self, now: Nanos) {
        self.look = now + LOOK;
        let ready = self.is_logged_in() == Ok(true);
        if let Some(why) = self.facts.dial.stale().filter(|_| ready && !self.closing) {
            self.lose(now, why, false);
        }
    }

    /// Continues a login at the address to which the target sends it. False if there is no way.
    #[cold]
    fn follow(&mut self, now: Nanos, address: &str) -> bool {
        self.redirects += 1;
        let Some(dial) = self.facts.dial.moved_to(address) else { return false };
        if self.redirects > REDIRECTS_MAX || self.closing {
            return false;
        }
        let attempt = self.core.attempt(now, &dial);
        match &mut self.again {
            _ if self.opening.is_some() => self.opening = Some(Opening::Connecting(attempt)),
            Some(again) if again.is_opening() => again.redirect(attempt),
            _ => return false,
        }
        // The name is free for the next login.
        self.line = None;
        true
    }

    /// Continues to reconnect.
    #[cold]
    fn come_back(&mut self, now: Nanos) {
        let logged_in = self.is_logged_in();
        let Some(again) = &mut self.again else { return };
        let opening = again.is_opening();
        match again.step(now, &self.core, &self.facts.dial) {
            Step::Failed(why) => self.lose(now, why, false),
            Step::Begin(stream) => {
                if let Err(why) = self.log_in(now, stream) {
                    self.lose(now, why, false);
                }
            }
            Step::None if opening => match logged_in {
                Ok(false) => {}
                Ok(true) => {
                    again.opened();
                    self.count_return(now);
                    self.opened(now);
                }
                Err(why) if why == CHANGED || why == ANOTHER => self.break_off(why),
                Err(why) => self.lose(now, why, false),
            },
            Step::None => {}
        }
    }

    /// Whether the connection is usable.
    fn is_linked(&self) -> bool {
        self.again.as_ref().is_none_or(|again| again.is_up() || again.is_opening())
    }

    /// Sends I/Os of the queue, as many as the connection has room for.
    #[inline]
    fn send(&mut self, now: Nanos, queue: &mut VecDeque<Io>) {
        let Some(Line { link, .. }) = &mut self.line else { return };
        let room = link.end.room().min(queue.len());
        let flushes = &mut self.flushes;
        let note = |io: &Io| {
            if io.op == Op::Flush {
                flushes.begin(io.tag);
            }
        };
        link.submit(now, queue.drain(..room).inspect(note));
    }
}

impl<D: Dial, R: Wire> Lane for RemoteLane<D, R> {
    fn geometry(&self) -> Geometry {
        self.facts.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        self.now = now;
        if self.broken.is_some() {
            self.finished.extend(ios.drain(..).map(|io| io.failed(Fault::Disconnected)));
            return;
        }
        // I/Os for a lane that is not open yet stay with the caller; a login has PDUs to send.
        let Some(Line { link, .. }) = &mut self.line else { return };
        if self.opening.is_some() {
            return link.flush();
        }
        if let Some(again) = &mut self.again {
            again.take(ios);
            if !again.is_up() {
                // A login has PDUs to send, too.
                if again.is_opening() {
                    link.flush();
                }
                return;
            }
        }
        let mut waiting = self.again.as_mut().map(|again| std::mem::take(&mut again.waiting));
        let queue = waiting.as_mut().unwrap_or(ios);
        if self.past.has_doubts() || !self.held.is_empty() {
            self.hold_back(now, queue);
        }
        if !self.released.is_empty() {
            let mut released = std::mem::take(&mut self.released);
            self.send(now, &mut released);
            self.released = released;
        }
        self.send(now, queue);
        if let (Some(again), Some(waiting)) = (&mut self.again, waiting) {
            again.waiting = waiting;
        }
        // I/Os refused at once must not wait for an event.
        self.collect();
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.now = now;
        self.past.prefetch();
        if self.broken.is_none() {
            self.take(now);
            if self.again.as_ref().is_some_and(|again| !again.is_up()) {
                self.come_back(now);
            }
            if self.opening.is_some() && self.broken.is_none() {
                self.open(now);
            }
        }
        self.collect();
        done.append(&mut self.finished);
        self.flushes.returned();
    }

    fn wake(&self) -> Option<Nanos> {
        if !self.finished.is_empty() {
            return Some(Nanos(0));
        }
        if self.broken.is_some() {
            return None;
        }
        let line = self.line.as_ref().filter(|_| self.is_linked());
        // A poll queued PDUs, such as the data that a target solicited; the next submit sends them.
        if line.is_some_and(|line| line.link.has_unsent()) {
            return Some(Nanos(0));
        }
        let deadline = line.and_then(|line| line.link.end.deadline());
        let again = self.again.as_ref().and_then(|again| again.wake());
        let attempt = match &self.opening {
            Some(Opening::Connecting(attempt)) => Some(R::wake(attempt)),
            Some(Opening::Joining) | None => None,
        };
        let idle = line.filter(|line| line.link.in_flight == 0 && self.opening.is_none());
        let look = idle.map(|_| self.look);
        let held = (!self.held.is_empty()).then_some(self.now + LOOK_HELD);
        [deadline, again, attempt, look, held].into_iter().flatten().min()
    }

    fn socket(&self) -> Option<u32> {
        let up = self.is_open() && self.again.as_ref().is_none_or(|again| again.is_up());
        let line = self.line.as_ref().filter(|_| up)?;
        Some(line.link.socket.token().0)
    }

    fn lends(&self) -> bool {
        true
    }

    fn is_open(&self) -> bool {
        self.opening.is_none() && self.broken.is_none()
    }

    fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        if cause == LOST {
            return Some("acknowledged writes since the last flush may be lost".to_owned());
        }
        self.line.as_ref()?.link.end.words_of(cause)
    }

    fn connection(&self, now: Nanos) -> Connection {
        let since = self.lost.map_or(Nanos(0), |lost| now.since(lost));
        Connection { disconnected: self.counted.disconnected + since, ..self.counted }
    }

    fn in_doubt_until(&self) -> Option<Nanos> {
        self.past.look(self.core.now());
        self.past.in_doubt_until()
    }

    fn doubts(&self) -> u64 {
        self.facts.past.doubts()
    }

    fn forget_losses(&self) -> bool {
        if let Some(line) = self.line.as_ref().filter(|_| self.looks.get()) {
            self.past.look_at(line.link.end.instance());
        }
        self.past.forget()
    }

    fn looks(&self) {
        self.looks.set(true);
    }

    fn close(&mut self, now: Nanos) -> bool {
        let up = self.again.as_ref().is_none_or(|again| again.is_up());
        let line = self.line.as_mut().filter(|_| up && self.broken.is_none());
        let Some(Line { link, .. }) = line.filter(|line| line.link.end.phase() != Phase::Closed)
        else {
            return true;
        };
        self.closing = true;
        if link.end.phase() != Phase::Closing {
            link.end.close(now, &mut link.out);
            link.flush();
        }
        false
    }
}

impl<D: Dial, R: Wire> Drop for RemoteLane<D, R> {
    /// Changes in flight may be executed later: they are in doubt.
    fn drop(&mut self) {
        if let Some(Line { link, place }) = &self.line {
            for change in link.end.in_doubt() {
                self.past.doubt(self.now, place.name(), change, None);
            }
        }
    }
}
