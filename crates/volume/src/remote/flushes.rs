//! Flushes of a lane: what they cover, and which of them fails because writes may be lost.

use std::sync::Arc;

use block::{Cause, Done, Fault, Tag};

use super::cover::Cover;
use super::past::Past;

/// The cause of a flush that fails because acknowledged changes may be lost.
pub(crate) const LOST: Cause = Cause(0xfa20_0001);

/// The flushes of one lane.
pub(crate) struct Flushes {
    past: Arc<Past>,
    /// Covered changes of all lanes of the volume, or of this one alone where its flushes cover no
    /// more.
    cover: Arc<Cover>,
    /// Without a volatile cache nothing can be lost.
    volatile: bool,
    /// Flushes in flight: the tag and the number of each.
    in_flight: Vec<(Tag, u64)>,
    /// The endpoint's count of changes.
    changes: u64,
    /// Losses that this lane has reported.
    told: u64,
    /// The connection is open: the instance of its target, and what was suspected before.
    open: Option<Opened>,
}

#[derive(Clone, Copy)]
struct Opened {
    instance: Option<u64>,
    suspicions: u64,
}

impl Flushes {
    pub(crate) fn new(past: &Arc<Past>, cover: &Arc<Cover>, volatile: bool) -> Flushes {
        Flushes {
            told: past.told(),
            past: Arc::clone(past),
            cover: Arc::clone(cover),
            volatile,
            in_flight: Vec::new(),
            changes: 0,
            open: None,
        }
    }

    /// A flush is sent.
    #[cold]
    pub(crate) fn begin(&mut self, tag: Tag) {
        if self.volatile {
            self.in_flight.push((tag, self.cover.begin()));
        }
    }

    /// The endpoint has completed `changes` changes so far that only a flush makes durable.
    #[inline]
    pub(crate) fn note_changes(&mut self, changes: u64) {
        if changes != self.changes {
            self.changes = changes;
            self.cover.change();
        }
    }

    /// Whether completions are to be [settled](Self::settle).
    #[inline]
    pub(crate) fn any(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Looks at a completion: a flush fails if changes before it may be lost.
    #[cold]
    pub(crate) fn settle(&mut self, done: &mut Done) {
        let Some(at) = self.in_flight.iter().position(|(tag, _)| *tag == done.tag) else { return };
        let (_, number) = self.in_flight.swap_remove(at);
        match done.result {
            Ok(()) => {
                self.resolve(None);
                self.told = self.told.max(self.past.forgotten());
                if self.told < self.past.losses() {
                    (done.result, done.cause) = (Err(Fault::Medium), LOST);
                    self.told = self.past.losses();
                    self.past.tell(self.told);
                } else {
                    self.cover.end(number);
                }
            }
            Err(fault) if fault.is_lost() || fault == Fault::Unsupported => {}
            Err(_) => {
                // Changes that the flush should have covered may be lost for the other lanes, too.
                self.past.lose("failed a flush");
                self.told = self.past.losses();
                self.past.tell(self.told);
            }
        }
    }

    /// Whether a connection is open.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The connection is lost; `power_lost` if the target said that it lost its cache.
    #[cold]
    pub(crate) fn lost(&mut self, power_lost: bool) {
        // The next connection counts anew.
        self.changes = 0;
        let Some(Opened { instance, .. }) = self.open.take() else { return };
        if !self.volatile || !self.cover.take_open() {
            return;
        }
        match power_lost {
            true => self.past.lose("says that it lost its power"),
            false => self.past.suspect(instance),
        }
    }

    /// A connection is open.
    #[cold]
    pub(crate) fn opened(&mut self, instance: Option<u64>, power_lost: Option<bool>) {
        let suspicions = self.past.suspicions();
        self.open = Some(Opened { instance, suspicions });
        self.past.meet(instance);
        self.resolve(power_lost);
    }

    fn resolve(&self, power_lost: Option<bool>) {
        let Some(Opened { instance, suspicions }) = self.open else { return };
        if self.past.resolve(instance, power_lost, suspicions) {
            // They are still in the target's cache.
            self.cover.change();
        }
    }
}
