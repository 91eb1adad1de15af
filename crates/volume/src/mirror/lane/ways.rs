//! The lanes to the legs, which break and are reopened.

use super::*;

/// The lane to one leg.
pub(super) struct Way {
    /// `None` without a connection.
    pub(super) lane: Option<Box<dyn Lane>>,
    pub(super) waiting: VecDeque<Io>,
    pub(super) in_flight: u32,
    /// Number of returns of the leg when this lane was opened.
    pub(super) joined: u32,
    /// Connection counters of earlier lanes: totals never fall.
    pub(super) before: Connection,
    /// The leg has refused to trim or to zero.
    pub(super) cannot_zero: bool,
    /// Changes and flushes completed since the last look, and their time.
    pub(super) changes: u32,
    pub(super) spent: Nanos,
}

impl Way {
    pub(super) fn new(lane: Option<Box<dyn Lane>>, joined: u32) -> Way {
        Way {
            lane,
            waiting: VecDeque::with_capacity(64),
            in_flight: 0,
            joined,
            before: Connection::default(),
            cannot_zero: false,
            changes: 0,
            spent: Nanos(0),
        }
    }

    /// Replaces the lane.
    pub(super) fn renew(&mut self, now: Nanos, lane: Option<Box<dyn Lane>>) {
        self.before = self.connection(now);
        self.lane = lane;
    }

    pub(super) fn connection(&self, now: Nanos) -> Connection {
        let present = self.lane.as_ref().map(|lane| lane.connection(now));
        self.before + present.unwrap_or_default()
    }
}

impl<R: Rules> MirrorLane<R> {
    /// Fails legs whose lane is lost for good, and reopens lanes to legs that returned.
    pub(super) fn look_after_ways(&mut self) {
        for leg in 0..self.ways.len() {
            let joined = self.legs.joined(leg);
            if joined != self.ways[leg].joined && self.ways[leg].in_flight == 0 {
                let way = self.source.as_mut().map(|source| source(leg));
                if let Some(Err(why)) = &way {
                    self.legs.leave(leg, &|| why.clone());
                }
                self.ways[leg].renew(self.now, way.and_then(Result::ok));
                self.ways[leg].joined = joined;
            }
            self.look_for_broken(leg, joined);
        }
    }

    /// Fails a leg whose lane is lost; the last leg stays.
    pub(super) fn look_for_broken(&mut self, leg: usize, joined: u32) {
        let gets = (self.legs.writers() | self.legs.in_it()) & 1 << leg != 0;
        let way = &self.ways[leg];
        let broken = way.lane.as_ref().map_or(Some("not connected"), |lane| lane.broken());
        let Some(why) = broken.filter(|_| gets && joined == way.joined) else { return };
        self.legs.leave(leg, &|| why.to_owned());
        if self.legs.in_it() & 1 << leg != 0 {
            self.legs.lost(leg);
        }
    }

    pub(super) fn send(&mut self, now: Nanos) {
        for leg in 0..self.ways.len() {
            let came_back = self.legs.joined(leg) != self.ways[leg].joined;
            let way = &mut self.ways[leg];
            match &mut way.lane {
                // I/Os for the new lane must not go to the old one, which still sends data of
                // others.
                Some(lane) if came_back => lane.submit(now, &mut VecDeque::new()),
                None if came_back => {}
                Some(lane) if lane.broken().is_some() => self.answer_lost(leg),
                Some(lane) if lane.is_open() || !self.opened => {
                    let before = way.waiting.len();
                    lane.submit(now, &mut way.waiting);
                    way.in_flight += (before - way.waiting.len()) as u32;
                }
                Some(lane) => lane.submit(now, &mut VecDeque::new()),
                None => self.answer_lost(leg),
            }
        }
    }

    /// Fails I/Os that wait for a leg whose lane is lost.
    pub(super) fn answer_lost(&mut self, leg: usize) {
        for io in std::mem::take(&mut self.ways[leg].waiting) {
            self.answered(leg, io.failed(Fault::Disconnected));
        }
    }
}
