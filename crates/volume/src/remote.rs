//! A volume elsewhere, through our own initiator. Written once for all protocols.

use std::collections::VecDeque;

use block::{Chain, Done, Fault, Geometry, Io, Lane, Nanos};
use os::{Core, Socket};
use proto::{Ending, Initiator, Outbox, Phase};

use crate::dial::{self, Dial};
use crate::{OpenError, Volume};

/// How long a core waits for the other end to let a new connection in.
const OPENING: Nanos = Nanos::from_secs(20);

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
        let socket = dial::connect(self.dial.address()).and_then(|stream| {
            let error = |error| dial::connect_error(self.dial.address(), error);
            Socket::new(core, stream).map_err(error)
        })?;
        let refused = |ending| OpenError::Refused { uri: self.dial.uri(), ending };
        let (end, place) = self.dial.initiator(core.now()).map_err(refused)?;
        let mut lane = RemoteLane {
            end,
            socket,
            out: Outbox::new(core.pool().clone()),
            chain: Chain::default(),
            geometry: self.geometry,
            finished: Vec::new(),
            closing: false,
            broken: None,
            _place: place,
        };
        lane.wait_until_ready(core).map_err(refused)?;
        Ok(Box::new(lane))
    }

    fn kind(&self) -> &'static str {
        "remote"
    }

    fn transport(&self) -> &'static str {
        self.dial.transport()
    }
}

struct RemoteLane<I, P> {
    end: I,
    socket: Socket,
    out: Outbox,
    /// What was sent last; exchanged for what to send next.
    chain: Chain,
    geometry: Geometry,
    /// Answers that no peer gave: the connection is gone.
    finished: Vec<Done>,
    /// The end was asked for from here.
    closing: bool,
    broken: Option<String>,
    /// Given back last, when the connection is closed.
    _place: P,
}

impl<I: Initiator, P> RemoteLane<I, P> {
    fn wait_until_ready(&mut self, core: &Core) -> Result<(), String> {
        let give_up = core.now() + OPENING;
        let mut ready = Vec::new();
        loop {
            let now = core.now();
            self.poll(now, &mut Vec::new());
            self.submit(now, &mut VecDeque::new());
            if let Some(broken) = &self.broken {
                return Err(broken.clone());
            }
            match self.end.phase() {
                Phase::Ready(geometry) if geometry == self.geometry => return Ok(()),
                Phase::Ready(_) => return Err("the volume has changed its shape".to_owned()),
                Phase::Closing | Phase::Closed => return Err("closed by the other end".to_owned()),
                Phase::Opening if now > give_up => return Err("no answer in time".to_owned()),
                Phase::Opening => {}
            }
            ready.clear();
            let wake = self.wake().unwrap_or(give_up).min(give_up);
            core.turn(Some(wake), &mut ready).map_err(|error| error.to_string())?;
        }
    }

    fn take(&mut self, now: Nanos) -> Result<(), Ending> {
        while let Some(chunk) = self.socket.receive() {
            self.end.receive(now, &chunk, &mut self.out)?;
        }
        if self.end.deadline().is_some_and(|deadline| deadline <= now) {
            self.end.tick(now, &mut self.out)?;
        }
        Ok(())
    }

    fn flush(&mut self) {
        if !self.out.is_empty() && self.broken.is_none() && self.socket.can_send() {
            self.out.exchange(&mut self.chain);
            if !self.out.lends()
                && let Some(bytes) = self.socket.lap_bytes(&self.chain)
            {
                self.out.lend(bytes);
            }
            self.socket.send(&mut self.chain);
        }
    }

    fn break_off(&mut self, why: String) {
        self.end.abandon();
        self.broken.get_or_insert(why);
    }
}

impl<I, P> Drop for RemoteLane<I, P> {
    /// Gives the buffers of what was sent, or never will be, back to the core.
    fn drop(&mut self) {
        let pool = self.out.pool().clone();
        self.out.exchange(&mut self.chain);
        self.chain.recycle(&pool);
    }
}

impl<I: Initiator, P> Lane for RemoteLane<I, P> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        if self.broken.is_some() {
            let lost = |io: Io| Done { tag: io.tag, result: Err(Fault::Disconnected), buf: io.buf };
            self.finished.extend(ios.drain(..).map(lost));
            return;
        }
        let room = self.end.room().min(ios.len());
        for io in ios.drain(..room) {
            self.end.submit(now, io, &mut self.out);
        }
        self.flush();
        // What was refused at once must not wait for an event.
        self.finished.append(self.end.done());
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        if self.broken.is_none() {
            if let Err(ending) = self.take(now) {
                self.flush();
                self.break_off(ending.to_string());
            } else if self.end.phase() == Phase::Closed {
                if !self.closing {
                    self.break_off("the other end asked us to leave".to_owned());
                }
            } else if let Some(end) = self.socket.ended() {
                self.break_off(end.to_string());
            }
        }
        done.append(&mut self.finished);
        done.append(self.end.done());
    }

    fn wake(&self) -> Option<Nanos> {
        match (&self.broken, self.finished.is_empty()) {
            (_, false) => Some(Nanos(0)),
            (Some(_), true) => None,
            (None, true) => self.end.deadline(),
        }
    }

    fn lends(&self) -> bool {
        true
    }

    fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    fn close(&mut self, now: Nanos) -> bool {
        if self.broken.is_some() || self.end.phase() == Phase::Closed {
            return true;
        }
        self.closing = true;
        if self.end.phase() != Phase::Closing {
            self.end.close(now, &mut self.out);
            self.flush();
        }
        false
    }
}
