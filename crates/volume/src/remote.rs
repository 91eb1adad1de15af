//! A remote volume through our initiator, for all protocols.

use std::collections::VecDeque;
use std::net::TcpStream;

use block::{Cause, Connection, Done, Fault, Geometry, Io, Lane, Nanos};
use os::Core;
use proto::{Endpoint, Initiator, Phase};

use crate::again::{Again, Step};
use crate::attempt::Attempt;
use crate::dial::{Dial, Learned};
use crate::link::Link;
use crate::{Ground, OpenError, Volume, await_open};

/// A remote volume. Each lane is a connection of its own.
pub(crate) struct Remote<D> {
    dial: D,
    geometry: Geometry,
    /// The target's product name.
    product: Option<String>,
    flushes_all: bool,
}

impl<D: Dial> Remote<D> {
    /// Connects once, to query its geometry and to fail early.
    pub(crate) fn open(dial: D) -> Result<Remote<D>, OpenError> {
        let Learned { geometry, product, flushes_all } = dial.learn()?;
        Ok(Remote { dial, geometry, product, flushes_all })
    }
}

impl<D: Dial> Volume for Remote<D> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn io_timeout(&self) -> Option<Nanos> {
        Some(self.dial.session().io_timeout())
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        let mut lane = [self.begin_lane(core)?];
        let refused = |(_, ending)| OpenError::Refused { uri: self.dial.uri(), ending };
        await_open(core, &mut lane).map_err(refused)?;
        let [lane] = lane;
        Ok(lane)
    }

    /// Connects while the lane is polled; any failure breaks the lane.
    fn begin_lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        Ok(Box::new(RemoteLane {
            opening: Some(Opening::Connecting(Attempt::begin(&self.dial, core.now()))),
            dial: self.dial.clone(),
            line: None,
            core: core.clone(),
            geometry: self.geometry,
            finished: Vec::new(),
            closing: false,
            look: core.now(),
            broken: None,
            counted: Connection::default(),
            lost: None,
            again: None,
        }))
    }

    fn flushes_all(&self) -> bool {
        self.flushes_all
    }

    fn kind(&self) -> &'static str {
        "remote"
    }

    fn transport(&self) -> &'static str {
        self.dial.transport()
    }

    fn ground(&self) -> Ground {
        self.product.clone().map_or(Ground::Elsewhere, Ground::Target)
    }
}

/// A connection with our endpoint.
struct Line<D: Dial> {
    link: Link<D::End>,
    /// Released after the link, when the connection is closed.
    _place: D::Place,
}

impl<D: Dial> Line<D> {
    fn new(core: &Core, dial: &D, stream: TcpStream) -> Result<Line<D>, String> {
        let (end, place) = dial.initiator(core.now())?;
        Ok(Line { link: Link::new(core, end, stream)?, _place: place })
    }
}

/// State of a lane that has not been open yet.
enum Opening {
    Connecting(Attempt),
    /// Logging in.
    Joining,
}

struct RemoteLane<D: Dial> {
    dial: D,
    /// `None` before the first connection.
    line: Option<Line<D>>,
    core: Core,
    geometry: Geometry,
    /// Completions of I/Os lost with the connection.
    finished: Vec<Done>,
    /// The first login is not complete.
    opening: Option<Opening>,
    /// The lane is being closed.
    closing: bool,
    /// When to check whether an idle connection is still usable.
    look: Nanos,
    broken: Option<String>,
    /// Connection counters, without the time since a loss that lasts.
    counted: Connection,
    lost: Option<Nanos>,
    /// Reconnects a lane that was open.
    again: Option<Box<Again>>,
}

impl<D: Dial> RemoteLane<D> {
    /// Continues to open the first connection.
    #[cold]
    fn open(&mut self, now: Nanos) {
        match &mut self.opening {
            Some(Opening::Connecting(attempt)) => {
                let Some(made) = attempt.look(now, &self.dial) else { return };
                self.opening = Some(Opening::Joining);
                match made.and_then(|stream| Line::new(&self.core, &self.dial, stream)) {
                    Ok(line) => self.line = Some(line),
                    Err(why) => self.break_off(why),
                }
            }
            Some(Opening::Joining) => match self.is_logged_in() {
                Ok(false) => {}
                Ok(true) => {
                    self.opening = None;
                    self.again =
                        self.dial.session().patience().map(|time| Box::new(Again::new(time)));
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
            Phase::Ready(geometry) if geometry == self.geometry => Ok(true),
            Phase::Ready(_) => Err(CHANGED.to_owned()),
            Phase::Closing | Phase::Closed => Err("closed by the target".to_owned()),
            Phase::Opening => Ok(false),
        }
    }

    /// The connection is unusable.
    #[cold]
    fn lose(&mut self, now: Nanos, why: String) {
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
        self.abandon();
        self.collect();
        if let Some(again) = &mut self.again {
            self.finished.append(&mut again.give_up());
        }
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
        let Some(Line { link, .. }) = &mut self.line else { return };
        link.in_flight = link.in_flight.saturating_sub(link.end.done().len());
        match &mut self.again {
            None => self.finished.append(link.end.done()),
            Some(again) => {
                let done = link.end.done().drain(..);
                self.finished.extend(done.filter_map(|done| again.settle(done)));
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
            self.lose(now, ending.to_string());
        } else if link.end.phase() == Phase::Closed {
            if !self.closing {
                self.lose(now, "the target asked for a logout".to_owned());
            }
        } else if let Some(end) = link.socket.ended() {
            self.lose(now, end.to_string());
        } else if link.in_flight == 0 && now >= self.look {
            self.look(now);
        }
    }

    /// An idle connection has no I/O time-out that would notice a dead target.
    #[cold]
    fn look(&mut self, now: Nanos) {
        self.look = now + LOOK;
        let ready = self.is_logged_in() == Ok(true);
        if let Some(why) = self.dial.stale().filter(|_| ready && !self.closing) {
            self.lose(now, why);
        }
    }

    /// Continues to reconnect.
    #[cold]
    fn come_back(&mut self, now: Nanos) {
        let logged_in = self.is_logged_in();
        let Some(again) = &mut self.again else { return };
        let opening = again.is_opening();
        match again.step(now, &self.dial) {
            Step::Failed(why) => self.lose(now, why),
            Step::Begin(stream) => match Line::new(&self.core, &self.dial, stream) {
                Ok(line) => self.line = Some(line),
                Err(why) => self.lose(now, why),
            },
            Step::None if opening => match logged_in {
                Ok(false) => {}
                Ok(true) => {
                    again.opened();
                    self.count_return(now);
                }
                Err(why) if why == CHANGED => self.break_off(why),
                Err(why) => self.lose(now, why),
            },
            Step::None => {}
        }
    }

    /// Whether the connection is usable.
    fn is_linked(&self) -> bool {
        self.again.as_ref().is_none_or(|again| again.is_up() || again.is_opening())
    }
}

/// How often lanes without I/Os are checked.
const LOOK: Nanos = Nanos::from_secs(1);

/// Reconnecting does not help.
const CHANGED: &str = "capacity or block size of the volume changed";

impl<D: Dial> Lane for RemoteLane<D> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        if self.broken.is_some() {
            self.finished.extend(ios.drain(..).map(|io| io.failed(Fault::Disconnected)));
            return;
        }
        // I/Os for a lane that is not open yet stay with the caller.
        let Some(Line { link, .. }) = &mut self.line else { return };
        let queue = match &mut self.again {
            None => ios,
            Some(again) => {
                again.take(ios);
                if !again.is_up() {
                    // A login has PDUs to send, too.
                    if again.is_opening() {
                        link.flush();
                    }
                    return;
                }
                &mut again.waiting
            }
        };
        let room = link.end.room().min(queue.len());
        link.submit(now, queue.drain(..room));
        // I/Os refused at once must not wait for an event.
        self.collect();
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
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
    }

    fn wake(&self) -> Option<Nanos> {
        if !self.finished.is_empty() {
            return Some(Nanos(0));
        }
        if self.broken.is_some() {
            return None;
        }
        let line = self.line.as_ref().filter(|_| self.is_linked());
        let deadline = line.and_then(|line| line.link.end.deadline());
        let again = self.again.as_ref().and_then(|again| again.wake());
        let attempt = match &self.opening {
            Some(Opening::Connecting(attempt)) => Some(attempt.wake()),
            Some(Opening::Joining) | None => None,
        };
        let idle = line.filter(|line| line.link.in_flight == 0 && self.opening.is_none());
        let look = idle.map(|_| self.look);
        [deadline, again, attempt, look].into_iter().flatten().min()
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
        self.line.as_ref()?.link.end.words_of(cause)
    }

    fn connection(&self, now: Nanos) -> Connection {
        let since = self.lost.map_or(Nanos(0), |lost| now.since(lost));
        Connection { disconnected: self.counted.disconnected + since, ..self.counted }
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

#[cfg(test)]
mod test;
