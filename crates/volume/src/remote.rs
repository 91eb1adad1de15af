//! A volume elsewhere, through our own initiator. Written once for all protocols.

use std::collections::VecDeque;
use std::net::TcpStream;

use block::{Cause, Done, Fault, Geometry, Io, Lane, Nanos};
use os::Core;
use proto::{Endpoint, Initiator, Phase};

use crate::again::{Again, Step};
use crate::dial::{self, Dial};
use crate::link::Link;
use crate::{OpenError, Volume, await_open};

/// A volume behind a connection. Each lane is a connection of its own.
pub(crate) struct Remote<D> {
    dial: D,
    geometry: Geometry,
}

impl<D: Dial> Remote<D> {
    /// Connects once, to learn the shape and to fail early.
    pub(crate) fn open(dial: D) -> Result<Remote<D>, OpenError> {
        let geometry = dial.geometry()?;
        Ok(Remote { dial, geometry })
    }
}

impl<D: Dial> Volume for Remote<D> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        let mut lane = [self.begin_lane(core)?];
        let refused = |(_, ending)| OpenError::Refused { uri: self.dial.uri(), ending };
        await_open(core, &mut lane).map_err(refused)?;
        let [lane] = lane;
        Ok(lane)
    }

    fn begin_lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        let stream = dial::connect(self.dial.address())?;
        let refused = |ending| OpenError::Refused { uri: self.dial.uri(), ending };
        let (link, place) = join(core, &self.dial, stream).map_err(refused)?;
        let again = |patience| Box::new(Again::new(self.dial.clone(), patience));
        Ok(Box::new(RemoteLane {
            link,
            place,
            core: core.clone(),
            geometry: self.geometry,
            finished: Vec::new(),
            opening: Some(self.dial.patience().map(again)),
            closing: false,
            broken: None,
            again: None,
        }))
    }

    fn kind(&self) -> &'static str {
        "remote"
    }

    fn transport(&self) -> &'static str {
        self.dial.transport()
    }
}

/// Our end of a new connection, and what it takes up.
fn join<D: Dial>(
    core: &Core,
    dial: &D,
    stream: TcpStream,
) -> Result<(Link<D::End>, D::Place), String> {
    let (end, place) = dial.initiator(core.now())?;
    Ok((Link::new(core, end, stream)?, place))
}

struct RemoteLane<D: Dial> {
    link: Link<D::End>,
    /// Given back behind the link, when the connection is closed.
    place: D::Place,
    core: Core,
    geometry: Geometry,
    /// Answers that no peer gave: the connection is gone.
    finished: Vec<Done>,
    /// The other end has not let us in yet; once it has, this is what brings the lane back.
    opening: Option<Option<Box<Again<D>>>>,
    /// The end was asked for from here.
    closing: bool,
    broken: Option<String>,
    /// For lanes that come back when their connection breaks.
    again: Option<Box<Again<D>>>,
}

impl<D: Dial> RemoteLane<D> {
    /// Looks whether the other end has let us in.
    #[cold]
    fn open(&mut self) {
        match self.is_let_in() {
            Ok(false) => {}
            Ok(true) => self.again = self.opening.take().flatten(),
            Err(why) => self.break_off(why),
        }
    }

    /// Whether the other end is ready for I/Os, and why it will never be.
    fn is_let_in(&self) -> Result<bool, String> {
        match self.link.end.phase() {
            Phase::Ready(geometry) if geometry == self.geometry => Ok(true),
            Phase::Ready(_) => Err(CHANGED.to_owned()),
            Phase::Closing | Phase::Closed => Err("closed by the other end".to_owned()),
            Phase::Opening => Ok(false),
        }
    }

    /// The connection is of no more use.
    #[cold]
    fn lose(&mut self, now: Nanos, why: String) {
        self.link.end.abandon();
        let closing = self.closing;
        let goes_on = self.again.as_mut().is_some_and(|again| !closing && again.failed(now));
        if goes_on { self.collect() } else { self.break_off(why) }
    }

    #[cold]
    fn break_off(&mut self, why: String) {
        self.link.end.abandon();
        self.collect();
        if let Some(again) = &mut self.again {
            self.finished.append(&mut again.give_up());
        }
        self.broken.get_or_insert(why);
    }

    /// Takes what is finished from our end of the connection.
    #[inline]
    fn collect(&mut self) {
        self.link.under_way = self.link.under_way.saturating_sub(self.link.end.done().len());
        match &mut self.again {
            None => self.finished.append(self.link.end.done()),
            Some(again) => {
                let done = self.link.end.done().drain(..);
                self.finished.extend(done.filter_map(|done| again.settle(done)));
            }
        }
    }

    /// Works on a new connection.
    #[cold]
    fn come_back(&mut self, now: Nanos) {
        let let_in = self.is_let_in();
        let Some(again) = &mut self.again else { return };
        let opening = again.is_opening();
        match again.step(now) {
            Step::Failed(why) => self.lose(now, why),
            Step::Begin(stream) => match join(&self.core, &again.dial, stream) {
                Ok((link, place)) => (self.link, self.place) = (link, place),
                Err(why) => self.lose(now, why),
            },
            Step::None if opening => match let_in {
                Ok(false) => {}
                Ok(true) => again.opened(),
                Err(why) if why == CHANGED => self.break_off(why),
                Err(why) => self.lose(now, why),
            },
            Step::None => {}
        }
    }

    /// Whether the connection may be worked on.
    fn is_linked(&self) -> bool {
        self.again.as_ref().is_none_or(|again| again.is_up() || again.is_opening())
    }
}

/// Reconnecting helps no more.
const CHANGED: &str = "the volume has changed its shape";

impl<D: Dial> Lane for RemoteLane<D> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        if self.broken.is_some() {
            let lost = |Io { tag, buf, .. }: Io| {
                let (result, cause) = (Err(Fault::Disconnected), Cause::NONE);
                Done { tag, result, cause, buf }
            };
            self.finished.extend(ios.drain(..).map(lost));
            return;
        }
        let queue = match &mut self.again {
            None => ios,
            Some(again) => {
                again.take(ios);
                if !again.is_up() {
                    // A login has words to send, too.
                    if again.is_opening() {
                        self.link.flush();
                    }
                    return;
                }
                &mut again.waiting
            }
        };
        let room = self.link.end.room().min(queue.len());
        self.link.submit(now, queue.drain(..room));
        // What was refused at once must not wait for an event.
        self.collect();
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        if self.broken.is_none() {
            if self.is_linked() {
                if let Err(ending) = self.link.take(now) {
                    self.link.flush();
                    self.lose(now, ending.to_string());
                } else if self.link.end.phase() == Phase::Closed {
                    if !self.closing {
                        self.lose(now, "the other end asked us to leave".to_owned());
                    }
                } else if let Some(end) = self.link.socket.ended() {
                    self.lose(now, end.to_string());
                }
            }
            if self.again.as_ref().is_some_and(|again| !again.is_up()) {
                self.come_back(now);
            }
            if self.opening.is_some() && self.broken.is_none() {
                self.open();
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
        let deadline = self.is_linked().then(|| self.link.end.deadline()).flatten();
        let again = self.again.as_ref().and_then(|again| again.wake());
        deadline.into_iter().chain(again).min()
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
        self.link.end.words_of(cause)
    }

    fn close(&mut self, now: Nanos) -> bool {
        let up = self.again.as_ref().is_none_or(|again| again.is_up());
        if self.broken.is_some() || !up || self.link.end.phase() == Phase::Closed {
            return true;
        }
        self.closing = true;
        if self.link.end.phase() != Phase::Closing {
            self.link.end.close(now, &mut self.link.out);
            self.link.flush();
        }
        false
    }
}
