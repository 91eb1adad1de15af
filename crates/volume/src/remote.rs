//! A remote volume through our initiator, for all protocols.
//!
//! A lane is a connection; [`Past`] has the state of earlier connections of all lanes.

mod again;
mod attempt;
mod cover;
mod flushes;
mod lane;
mod link;
mod past;
mod wire;

use std::sync::Arc;

use block::{Allocation, Backing, Geometry, Lane, Nanos};
use os::Core;

use self::cover::Covers;
pub(crate) use self::flushes::LOST;
pub use self::lane::RemoteLane;
pub(crate) use self::link::Link;
use self::past::Past;
pub use self::wire::Wire;
pub use crate::dial::{Dial, Hold, IscsiDial, Learned, NvmeDial, Place};
use crate::file::left_out;
use crate::{Ground, OpenError, Volume, await_open};

/// A remote volume. Each lane has its own connection.
pub(crate) struct Remote<D> {
    facts: Arc<Facts<D>>,
    /// The target's product name.
    product: Option<String>,
    /// Backing store, as reported by the target.
    backing: Backing,
    odd_bytes: Option<u64>,
    fence: Nanos,
}

/// State that all lanes of a volume share.
pub struct Facts<D> {
    dial: D,
    geometry: Geometry,
    /// Name of the disk, if the target reports one.
    identity: Option<String>,
    /// Durable changes, if a flush of one lane covers changes of all.
    covers: Option<Covers>,
    past: Arc<Past>,
}

impl<D: Dial> Facts<D> {
    /// Facts of a volume as its target reports them.
    pub fn new(dial: D, learned: &Learned) -> Facts<D> {
        let past = Arc::new(Past::new(dial.session().grace()));
        let covers = learned.flushes_all.then(Covers::default);
        let identity = learned.identity.clone();
        Facts { dial, geometry: learned.geometry, identity, covers, past }
    }

    /// Records that the owner has checked the data of the server with this instance: lanes opened
    /// later must meet the same one, or break.
    pub fn look_at(&self, instance: Option<u64>) {
        self.past.look_at(instance);
    }

    /// Events since the last call, a line each.
    pub fn news(&self) -> Vec<String> {
        self.past.news()
    }
}

impl<D: Dial> Remote<D> {
    /// Connects once, to query its geometry and to fail early.
    pub(crate) fn open(dial: D) -> Result<Remote<D>, OpenError> {
        let learned = dial.learn()?;
        let grace = dial.session().grace();
        // Our server answers a login only after it has ended the host's earlier I/Os.
        let fence = if learned.instance.is_some() { Nanos(0) } else { grace };
        let facts = Arc::new(Facts::new(dial, &learned));
        let Learned { product, backing, odd_bytes, .. } = learned;
        let by_name = || product.as_deref().and_then(Backing::of_product);
        let backing = backing.or_else(by_name).unwrap_or_default();
        Ok(Remote { facts, product, backing, odd_bytes, fence })
    }

    fn line(&self, event: &str) -> String {
        format!("{}: {event}", self.facts.dial.uri())
    }
}

impl<D: Dial> Volume for Remote<D> {
    fn geometry(&self) -> Geometry {
        self.facts.geometry
    }

    fn io_timeout(&self) -> Option<Nanos> {
        Some(self.facts.dial.session().io_timeout())
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        let mut lane = [self.begin_lane(core)?];
        let refused = |(_, ending)| OpenError::Refused { uri: self.facts.dial.uri(), ending };
        await_open(core, &mut lane).map_err(refused)?;
        let [lane] = lane;
        Ok(lane)
    }

    /// Connects while the lane is polled; any failure breaks the lane.
    fn begin_lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        Ok(Box::new(RemoteLane::begin(&self.facts, core)))
    }

    fn flushes_all(&self) -> bool {
        self.facts.covers.is_some()
    }

    fn fence_time(&self) -> Nanos {
        self.fence
    }

    fn backing(&self) -> Backing {
        self.backing.clone()
    }

    fn remarks(&self) -> Vec<String> {
        let block_bytes = self.facts.geometry.block_bytes;
        let told = |bytes| left_out(&self.facts.dial.uri(), bytes, block_bytes);
        self.odd_bytes.map(told).into_iter().collect()
    }

    fn kind(&self) -> &'static str {
        "remote"
    }

    fn transport(&self) -> &'static str {
        self.facts.dial.transport()
    }

    fn own_incidents(&self) -> Vec<String> {
        self.facts.past.all_events().iter().map(|event| self.line(event)).collect()
    }

    fn news(&self) -> Vec<String> {
        self.facts.past.news().iter().map(|event| self.line(event)).collect()
    }

    fn allocation(&self, ranges: &[(u64, u64)]) -> Result<Option<Allocation>, OpenError> {
        self.facts.dial.allocation(ranges)
    }

    fn ground(&self) -> Ground {
        self.product.clone().map_or(Ground::Elsewhere, Ground::Target)
    }
}

#[cfg(test)]
mod test;
