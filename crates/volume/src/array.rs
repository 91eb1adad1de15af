//! An array: a mirror with persistent metadata. Each leg carries a superblock, which lists the legs
//! in sync, and a write-intent map of the regions where legs may differ. So no stale leg is ever
//! read, and a resync after a crash or a leg's return copies only those regions.
//!
//! Lanes are those of a mirror, under the rules of [`Shared`]. The one [`Keeper`] of an array makes
//! metadata durable before a dependent I/O begins or completes. Both get the time as an argument
//! and start no threads: whole arrays run in virtual time.

mod admin;
mod assemble;
mod check;
mod cool;
mod copy;
mod desk;
mod error;
mod fence;
mod grow;
mod join;
mod keeper;
mod map;
mod pages;
mod port;
mod record;
mod revive;
mod shared;
mod slow;
mod start;
mod superblock;
mod volume;

use std::sync::Arc;

use block::{Geometry, Lane, Nanos, Pool, Rng};

pub(crate) use self::admin::is_name;
pub use self::admin::{Change, change, create, grow, show, suit};
pub use self::assemble::{Assembly, Found, Maps, assemble, copies_of, leave_older_images};
pub use self::check::{CheckOrder, CheckReport, Difference, words as words_of_check};
pub use self::error::ArrayError;
pub use self::grow::{Growth, Put, Step};
pub use self::keeper::Keeper;
use self::map::Map;
pub use self::map::{PAGE_BYTES, Page, Region, Version, page_slots};
use self::shared::Shared;
use self::start::Start;
pub use self::superblock::{
    DATA_OFFSET, Damage, Generation, LegState, MEMBERS_MAX, Member, NAME_MAX_BYTES,
    SUPERBLOCK_BYTES, Superblock, TAIL_BYTES, data_bytes, second_copy,
};
pub(crate) use self::volume::ArrayVolume;
pub use self::volume::check;
pub use crate::mirror::Ways;
use crate::mirror::{Claims, MirrorLane, Numbers, Rules, number_of};
use crate::{Hidden, OpenError};

/// An open array: state that its lanes and its keeper share.
#[derive(Clone)]
pub struct Array {
    shared: Arc<Shared>,
    geometry: Geometry,
    numbers: Arc<Numbers>,
}

/// Pages of the map of an array of `bytes` bytes.
pub fn page_count(bytes: u64) -> usize {
    Map::new(bytes).pages()
}

/// Returns the pages of an array's map before any write.
pub fn blank_pages(array: u128, bytes: u64) -> Vec<[u8; PAGE_BYTES]> {
    pages_of(&Map::new(bytes), array)
}

/// Pages of a map as the legs should hold them now.
fn pages_of(map: &Map, array: u128) -> Vec<[u8; PAGE_BYTES]> {
    let page = |page| {
        let mut bytes = [0; PAGE_BYTES];
        map.encode(page, array, &mut bytes);
        bytes
    };
    (0..map.pages()).map(page).collect()
}

/// Bytes of a region of an array of `bytes` bytes.
pub fn region_bytes(bytes: u64) -> u64 {
    map::region_bytes(bytes)
}

impl Array {
    /// Opens an assembled array. `names` are those of the members, `maps` the maps of the legs that
    /// are in; `patience` is the maximum time for which a leg may leave an I/O unanswered.
    pub fn new(
        assembly: &Assembly,
        names: Vec<String>,
        maps: &Maps,
        geometry: Geometry,
        patience: Nanos,
    ) -> Array {
        let block = &assembly.newest;
        let map = Map::read(block.bytes, maps);
        map.opened();
        let (claims, legs) = (Claims::new(block.bytes), block.in_state(LegState::In));
        let legs = (legs, assembly.missing);
        let start = Start::new(block.members.len(), maps);
        let shared = Shared::new(block.name.clone(), names, (map, start), claims, legs, patience);
        Array { shared: Arc::new(shared), geometry, numbers: Arc::default() }
    }

    /// Creates the array's only keeper. `lanes` lead to the legs that are present; `fence` is the
    /// time for which these legs may still execute I/Os of an earlier process.
    pub fn keeper(
        &self,
        assembly: &Assembly,
        places: Vec<[u64; 2]>,
        pool: Pool,
        rng: Rng,
        ways: (Vec<Option<Box<dyn Lane>>>, Ways),
        fence: Nanos,
    ) -> Keeper {
        let (shared, block) = (Arc::clone(&self.shared), assembly.newest.clone());
        let places = places.into_iter().zip(&assembly.first);
        let places = places.map(|([one, other], first)| match first {
            0 => [one, other],
            _ => [other, one],
        });
        let places = (places.collect(), assembly.stands.clone());
        Keeper::new(shared, block, places, pool, rng, ways, fence)
    }

    /// A lane.
    ///
    /// # Errors
    ///
    /// 65,534 lanes are open.
    pub fn lane(
        &self,
        lanes: Vec<Option<Box<dyn Lane>>>,
        source: Ways,
        pool: Pool,
    ) -> Result<Box<dyn Lane>, OpenError> {
        let number = number_of(&self.numbers, &self.shared.name)?;
        let shared = (Arc::clone(&self.shared), Arc::clone(&self.shared.claims));
        let lane = MirrorLane::new(lanes, number, self.geometry, shared, pool);
        Ok(Box::new(lane.based(DATA_OFFSET, source)))
    }

    /// Has the keeper compare the legs.
    pub fn order_check(&self, order: CheckOrder) {
        self.shared.order_check(order);
    }

    /// Findings of the last check so far.
    pub fn checked(&self) -> CheckReport {
        self.shared.checked()
    }

    /// A bit for each leg that is in.
    pub fn in_it(&self) -> u32 {
        self.shared.in_it()
    }

    /// Events of its legs so far, in a sentence.
    pub fn words(&self) -> Option<String> {
        self.shared.words()
    }

    /// Failed legs, and reads that other legs served. Some of the `members` legs may still be out.
    pub fn hidden(&self, members: usize) -> Vec<Hidden> {
        self.shared.hidden(members)
    }

    /// Events since the last call, a line each.
    pub fn news(&self) -> Vec<String> {
        self.shared.news()
    }

    /// Whether anything was ever written.
    pub fn is_written(&self) -> bool {
        let map = &self.shared.map;
        (0..map.len()).any(|region| map.get(region) != Region::Unwritten)
    }

    /// Regions still to be resynced.
    pub fn behind(&self) -> usize {
        self.shared.map.behind()
    }
}
