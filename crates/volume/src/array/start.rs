//! Opening of an array, and the recording of the opening on the legs.
//!
//! A leg whose server restarts may return as an older image, which is recognised by the array's
//! later writes to the leg. So no data of legs is shown before the superblocks and maps of this
//! opening are durable, unless they cannot be written; until then an image is recognised by the
//! maps that were read.

use std::sync::atomic::{AtomicU8, Ordering};

use block::{Plant, planted};

use super::map::Version;
use super::{Maps, Page};

const ORDER: Ordering = Ordering::SeqCst;

/// States: the opening is being recorded, no leg accepts the record, or the opening is recorded.
const BEGUN: u8 = 0;
const REFUSED: u8 = 1;
const RECORDED: u8 = 2;

pub(super) struct Start {
    state: AtomicU8,
    /// For each leg that was in the versions of its map's pages.
    versions: Vec<Vec<Version>>,
}

impl Start {
    /// Creates the state from the maps read from this many legs.
    pub(super) fn new(legs: usize, maps: &Maps) -> Start {
        let mut versions = vec![Vec::new(); legs];
        let version = |page: &Option<Page>| page.as_ref().map(Page::version).unwrap_or_default();
        for (leg, pages) in maps {
            versions[*leg] = pages.iter().map(version).collect();
        }
        Start { state: AtomicU8::new(BEGUN), versions }
    }

    /// The version of a page that was read from a leg.
    pub(super) fn version(&self, leg: usize, page: usize) -> Version {
        self.versions[leg].get(page).copied().unwrap_or_default()
    }

    /// Superblocks and maps of this opening are durable.
    pub(super) fn record(&self) {
        self.state.store(RECORDED, ORDER);
    }

    /// Notes that no leg accepts the metadata.
    pub(super) fn refuse(&self) {
        let _ = self.state.compare_exchange(BEGUN, REFUSED, ORDER, ORDER);
    }

    /// Retries the recording after the last leg has returned.
    pub(super) fn retry(&self) {
        let _ = self.state.compare_exchange(REFUSED, BEGUN, ORDER, ORDER);
    }

    /// Whether data may be shown.
    pub(super) fn shows(&self) -> bool {
        self.state.load(ORDER) != BEGUN || planted(Plant::ShowUnrecorded)
    }
}
