//! A mirror: identical data on several volumes (RAID-1). A write goes to all legs, a read to one.
//! If one leg fails, another one serves the I/O.
//!
//! A plain mirror keeps no metadata: after a reopening it could read from a stale leg. So a plain
//! mirror accepts client data only on volatile legs.

mod claims;
mod ghosts;
mod immediate;
mod lane;
mod legs;
mod numbers;
mod rules;
mod task;
mod turn;

use std::sync::Arc;

use block::{Geometry, Lane, Nanos};
use os::Core;

pub(crate) use self::claims::Claims;
pub(crate) use self::ghosts::Ghosts;
pub(crate) use self::lane::MirrorLane;
pub use self::lane::Ways;
pub(crate) use self::legs::LEGS_MAX;
use self::legs::Legs;
pub(crate) use self::numbers::{Number, Numbers};
pub(crate) use self::rules::{Answers, Opened, Rules, Verdict};
use crate::{Ground, Hidden, Hints, OpenError, Purpose, Several, Volume};

/// Several volumes with identical data.
pub(crate) struct Mirror {
    volumes: Vec<Arc<dyn Volume>>,
    geometry: Geometry,
    legs: Arc<Legs>,
    claims: Arc<Claims>,
    numbers: Arc<Numbers>,
}

/// Maximum time for which a leg may leave an I/O unanswered: the timeout of the kernel's SCSI
/// layer.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// Maximum time for which a leg may leave an I/O unanswered. A volume's own timeout expires first,
/// because its error says more. Remote volumes check for late I/Os four times per timeout.
pub(crate) fn patience(legs: &[Arc<dyn Volume>]) -> Nanos {
    let own = legs.iter().filter_map(|leg| leg.io_timeout()).max().unwrap_or(Nanos(0));
    PATIENCE.max(Nanos(own.0 / 4 * 5) + Nanos::from_secs(5))
}

/// A number for a new lane.
pub(crate) fn number_of(numbers: &Arc<Numbers>, of: &str) -> Result<Number, OpenError> {
    numbers.take().ok_or_else(|| OpenError::Leg {
        leg: of.to_owned(),
        why: "65,534 lanes are open, the maximum of a mirror".to_owned(),
    })
}

impl Mirror {
    /// Opens a mirror of these volumes, as large as the smallest.
    ///
    /// # Errors
    ///
    /// A leg is persistent although clients' data is to be stored, or a leg is smaller than one
    /// block.
    pub(crate) fn open(
        volumes: Vec<Arc<dyn Volume>>,
        names: Vec<String>,
        purpose: Purpose,
    ) -> Result<Mirror, OpenError> {
        let outlives = |(volume, _): &(&Arc<dyn Volume>, &String)| {
            !matches!(volume.ground(), Ground::Memory | Ground::Nothing)
        };
        if purpose == Purpose::Store
            && let Some((_, name)) = volumes.iter().zip(&names).find(outlives)
        {
            return Err(OpenError::Forgets(name.clone()));
        }
        let shapes: Vec<Geometry> = volumes.iter().map(|volume| volume.geometry()).collect();
        let block_bytes = shapes.iter().map(|shape| shape.block_bytes).max().unwrap_or(512);
        let bytes = shapes.iter().map(Geometry::bytes).min().unwrap_or(0);
        if bytes < u64::from(block_bytes) {
            return Err(OpenError::TooSmall(names.join(", "), block_bytes));
        }
        let geometry = Geometry {
            read_only: shapes.iter().any(|shape| shape.read_only),
            // No metadata records which leg is in sync.
            volatile: true,
            trim_zeroes: shapes.iter().all(|shape| shape.trim_zeroes),
            ..Geometry::new(bytes, block_bytes)
        };
        let legs = Arc::new(Legs::new(names, patience(&volumes)));
        let (claims, numbers) = (Arc::new(Claims::new(bytes)), Arc::default());
        Ok(Mirror { volumes, geometry, legs, claims, numbers })
    }
}

impl Volume for Mirror {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        self.hinted_lane(core, Hints::default())
    }

    fn hinted_lane(&self, core: &Core, hints: Hints) -> Result<Box<dyn Lane>, OpenError> {
        let lanes: Result<Vec<_>, _> =
            self.volumes.iter().map(|volume| volume.hinted_lane(core, hints).map(Some)).collect();
        let number = number_of(&self.numbers, "mirror")?;
        let shared = (Arc::clone(&self.legs), Arc::clone(&self.claims));
        let pool = core.pool().clone();
        Ok(Box::new(MirrorLane::new(lanes?, number, self.geometry, shared, pool)))
    }

    fn below(&self) -> Vec<&dyn Volume> {
        self.volumes.iter().map(|volume| &**volume).collect()
    }

    fn kind(&self) -> &'static str {
        self.volumes.first().map_or("nothing", |volume| volume.kind())
    }

    fn own_incidents(&self) -> Vec<String> {
        self.legs.words().into_iter().collect()
    }

    fn hidden(&self) -> Vec<Hidden> {
        let below = self.volumes.iter().flat_map(|volume| volume.hidden());
        self.legs.hidden().into_iter().chain(below).collect()
    }

    fn news(&self) -> Vec<String> {
        let each = self.volumes.iter().flat_map(|volume| volume.news());
        self.legs.news().into_iter().chain(each).collect()
    }

    /// Memory if all legs are memory.
    fn ground(&self) -> Ground {
        let legs = self.volumes.iter().map(|volume| (volume.ground(), volume.geometry().bytes()));
        let parts: Vec<(Ground, u64)> = legs.collect();
        match parts.iter().all(|(ground, _)| matches!(ground, Ground::Memory)) {
            true => Ground::Memory,
            false => Ground::Several(Several { parts, stripe_bytes: None }),
        }
    }
}

#[cfg(test)]
mod test;
