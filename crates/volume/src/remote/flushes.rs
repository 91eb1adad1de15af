//! Flushes of a lane: their coverage, and failures because writes may be lost.

use std::sync::Arc;

use block::{Cause, Done, Fault, Plant, Tag, planted};

use super::cover::{Cover, Covers};
use super::past::Past;
use crate::losses::Telling;

/// The cause of a flush that fails because acknowledged changes may be lost.
pub(crate) const LOST: Cause = Cause(0xfa20_0001);

/// The flushes of one lane.
pub(crate) struct Flushes {
    past: Arc<Past>,
    /// Covered changes of all lanes connected to the same server, or of this lane alone if its
    /// flushes cover no more.
    cover: Arc<Cover>,
    /// Without a volatile cache nothing can be lost.
    volatile: bool,
    in_flight: Vec<InFlight>,
    /// The endpoint's count of changes.
    changes: u64,
    /// Losses that a flush of this lane has reported, by failing at the target or here.
    told: u64,
    telling: Telling,
    /// State of an open connection: the instance of its target, and the earlier suspicions.
    open: Option<Opened>,
}

/// A flush in flight.
struct InFlight {
    tag: Tag,
    /// Number of the flush among those that cover the same changes.
    number: u64,
    /// Losses reported when the flush began.
    told: u64,
}

#[derive(Clone, Copy)]
struct Opened {
    instance: Option<u64>,
    suspicions: u64,
    /// Number of losses reported when the connection was opened.
    told: u64,
}

impl Flushes {
    pub(crate) fn new(past: &Arc<Past>, volatile: bool) -> Flushes {
        Flushes {
            past: Arc::clone(past),
            cover: Arc::default(),
            volatile,
            in_flight: Vec::new(),
            changes: 0,
            told: 0,
            telling: Telling::default(),
            open: None,
        }
    }

    /// Records that a flush is sent.
    #[cold]
    pub(crate) fn begin(&mut self, tag: Tag) {
        if self.volatile {
            let told = self.told.max(self.past.losses().told());
            self.in_flight.push(InFlight { tag, number: self.cover.begin(), told });
        }
    }

    /// Records the number of changes that the endpoint has completed and that only a flush makes
    /// durable.
    #[inline]
    pub(crate) fn note_changes(&mut self, changes: u64) {
        if changes != self.changes && self.open.is_some() {
            self.changes = changes;
            self.cover.change();
        }
    }

    /// Whether completions are to be [settled](Self::settle).
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Handles a completion: a flush fails if changes before it may be lost.
    #[cold]
    pub(crate) fn settle(&mut self, done: &mut Done) {
        let Some(at) = self.in_flight.iter().position(|one| one.tag == done.tag) else { return };
        let InFlight { number, told, .. } = self.in_flight.swap_remove(at);
        match done.result {
            Ok(()) => {
                self.resolve(None);
                let losses = self.past.losses().count();
                if told < losses {
                    (done.result, done.cause) = (Err(Fault::Medium), LOST);
                    self.telling.answer(losses);
                    self.told = losses;
                } else {
                    self.cover.end(number);
                }
            }
            Err(fault) if fault.is_lost() || fault == Fault::Unsupported => {}
            Err(_) => {
                // Changes that the flush should have covered may be lost for the other lanes, too.
                self.past.lose("failed a flush");
                self.told = self.past.losses().count();
            }
        }
    }

    /// Handles a poll of the lane that returns all completions that were settled.
    #[inline]
    pub(crate) fn returned(&mut self) {
        if !planted(Plant::TellOnEachLane) {
            self.telling.returned(self.past.losses());
        }
    }

    /// Whether a connection is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Handles a lost connection; `power_lost` if the target reported the loss of its cache.
    #[cold]
    pub(crate) fn lost(&mut self, power_lost: bool) {
        let Some(Opened { instance, told, .. }) = self.open.take() else { return };
        if !self.volatile || !self.cover.take_open() {
            return;
        }
        if planted(Plant::TellForOthers) && told < self.past.losses().told() {
            return;
        }
        match power_lost {
            true => self.past.lose("reported a power loss"),
            false => self.past.suspect(instance),
        }
    }

    /// Handles an opened connection. `covers` are those of the volume, if its flushes cover changes
    /// of all lanes.
    #[cold]
    pub(crate) fn opened(
        &mut self,
        instance: Option<u64>,
        power_lost: Option<bool>,
        covers: Option<&Covers>,
    ) {
        let suspicions = self.past.suspicions();
        let told = self.past.losses().told();
        self.open = Some(Opened { instance, suspicions, told });
        if let Some(covers) = covers {
            self.cover = covers.of(instance);
        }
        // The endpoint of each connection counts from zero.
        self.changes = 0;
        self.past.meet(instance);
        self.resolve(power_lost);
    }

    fn resolve(&self, power_lost: Option<bool>) {
        let Some(Opened { instance, suspicions, .. }) = self.open else { return };
        if self.past.resolve(instance, power_lost, suspicions) {
            // The changes are still in the target's cache.
            self.cover.change();
        }
    }
}

#[cfg(test)]
mod test {
    use block::Nanos;

    use super::*;

    /// A volume, and two lanes that are connected to the server 1.
    fn pair(covers: &Covers) -> [Flushes; 2] {
        let past = Arc::new(Past::new(Nanos::from_secs(1)));
        [(); 2].map(|()| {
            let mut lane = Flushes::new(&past, true);
            lane.opened(Some(1), None, Some(covers));
            lane
        })
    }

    /// Settles a flush that the target has done.
    fn settle(lane: &mut Flushes) -> Result<(), Fault> {
        let (tag, cause) = (Tag(7), Cause::NONE);
        let mut done = Done { tag, result: Ok(()), cause, buf: None };
        lane.settle(&mut done);
        lane.returned();
        done.result
    }

    fn flush(lane: &mut Flushes) -> Result<(), Fault> {
        lane.begin(Tag(7));
        settle(lane)
    }

    #[test]
    fn a_loss_is_told_by_one_lane_and_by_flushes_that_were_in_flight() {
        let covers = Covers::default();
        let [mut one, mut other] = pair(&covers);
        other.note_changes(1);
        one.lost(false);
        one.opened(Some(2), None, Some(&covers));
        one.begin(Tag(7));
        other.lost(false);
        other.opened(Some(2), None, Some(&covers));
        assert_eq!(flush(&mut other), Err(Fault::Medium));
        assert_eq!(settle(&mut one), Err(Fault::Medium), "it began before");
        assert_eq!([flush(&mut one), flush(&mut other)], [Ok(()); 2]);
    }

    #[test]
    fn what_is_lost_after_a_loss_was_told_is_told_too() {
        let covers = Covers::default();
        let [mut one, mut other] = pair(&covers);
        one.note_changes(1);
        one.lost(false);
        one.opened(Some(2), None, Some(&covers));
        assert_eq!(flush(&mut one), Err(Fault::Medium));
        // The old server's last answer, which is read late.
        other.note_changes(1);
        other.lost(false);
        other.opened(Some(2), None, Some(&covers));
        assert_eq!([flush(&mut one), flush(&mut other)], [Err(Fault::Medium), Ok(())]);
    }

    #[test]
    fn a_connection_that_is_found_lost_late_has_not_lost_what_the_new_server_acknowledged() {
        let covers = Covers::default();
        let [mut one, mut other] = pair(&covers);
        one.lost(false);
        one.opened(Some(2), None, Some(&covers));
        one.note_changes(1);
        other.lost(false);
        other.opened(Some(2), None, Some(&covers));
        assert_eq!([flush(&mut one), flush(&mut other)], [Ok(()); 2]);
        one.note_changes(2);
        one.lost(false);
        one.opened(Some(3), None, Some(&covers));
        assert_eq!([flush(&mut other), flush(&mut one)], [Err(Fault::Medium), Ok(())]);
    }
}
