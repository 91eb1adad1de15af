//! One volume made of several: striped (RAID-0), so that sequential I/O visits each in turn, or
//! concatenated.
//!
//! Each volume has its own lane. A flush goes to the volumes with unflushed writes, also those of
//! other lanes.

mod immediate;
mod lane;
mod slots;
mod split;
mod written;

use std::ops::Range;
use std::sync::Arc;

use block::{Geometry, Lane, Pool};
use os::Core;

use self::lane::StripedLane;
use self::written::Written;
use crate::{Ground, Hints, OpenError, Several, Volume};

/// Several volumes, each used up to the same size.
pub(crate) struct Striped {
    parts: Vec<Arc<dyn Volume>>,
    stripe_bytes: u64,
    geometry: Geometry,
    /// Unflushed writes of each part, shared by all lanes.
    written: Arc<[Written]>,
    /// I/Os may cross stripe boundaries.
    splits: bool,
}

impl Striped {
    /// Stripes of `stripe_bytes` over the first `share_bytes` of each volume, or over the size of
    /// the smallest.
    pub(crate) fn new(
        parts: Vec<Arc<dyn Volume>>,
        stripe_bytes: u64,
        share_bytes: Option<u64>,
    ) -> Result<Striped, OpenError> {
        let shapes: Vec<Geometry> = parts.iter().map(|part| part.geometry()).collect();
        let block_bytes = shapes.iter().map(|shape| shape.block_bytes).max().unwrap_or(512);
        let least = shapes.iter().map(Geometry::bytes).min().unwrap_or(0);
        let share = share_bytes.map_or(least, |bytes| bytes.min(least));
        let stripe_bytes = stripe_bytes.max(1);
        let used = share - share % stripe_bytes;
        if used == 0 || !stripe_bytes.is_multiple_of(u64::from(block_bytes)) {
            let name = format!("each of {} volumes in stripes of {stripe_bytes}", parts.len());
            return Err(OpenError::TooSmall(name, block_bytes));
        }
        let geometry = whole(&shapes, used * parts.len() as u64, block_bytes);
        Ok(Striped::of(parts, stripe_bytes, geometry))
    }

    /// Stripes over as much as the smallest volume has, for I/Os of any offset and length.
    pub(crate) fn whole(
        parts: Vec<Arc<dyn Volume>>,
        stripe_bytes: u64,
    ) -> Result<Striped, OpenError> {
        Ok(Striped { splits: true, ..Striped::new(parts, stripe_bytes, None)? })
    }

    /// Concatenated volumes: one stripe each, as long as the largest volume. The lane of a smaller
    /// volume refuses I/Os past its end.
    pub(crate) fn joined(parts: Vec<Arc<dyn Volume>>) -> Result<Striped, OpenError> {
        let shapes: Vec<Geometry> = parts.iter().map(|part| part.geometry()).collect();
        // Each part checks its own block size.
        let block_bytes = shapes.iter().map(|shape| shape.block_bytes).min().unwrap_or(512);
        let most = shapes.iter().map(Geometry::bytes).max().unwrap_or(0);
        let stripe_bytes = most.checked_next_multiple_of(u64::from(block_bytes.max(1)));
        let bytes = stripe_bytes.and_then(|bytes| bytes.checked_mul(parts.len() as u64));
        match (stripe_bytes, bytes) {
            (Some(stripe_bytes), Some(bytes)) if bytes > 0 => {
                let geometry = whole(&shapes, bytes, block_bytes);
                Ok(Striped::of(parts, stripe_bytes, geometry))
            }
            _ => {
                let name = format!("each of {} concatenated volumes", parts.len());
                Err(OpenError::TooSmall(name, block_bytes))
            }
        }
    }

    fn of(parts: Vec<Arc<dyn Volume>>, stripe_bytes: u64, geometry: Geometry) -> Striped {
        let written = parts.iter().map(|_| Written::default()).collect();
        Striped { parts, stripe_bytes, geometry, written, splits: false }
    }

    fn around(&self, lanes: Vec<Box<dyn Lane>>, pool: &Pool) -> Box<dyn Lane> {
        let written = Arc::clone(&self.written);
        let pool = self.splits.then(|| pool.clone());
        Box::new(StripedLane::new(lanes, self.stripe_bytes, self.geometry, written, pool))
    }
}

/// Geometry of the whole volume.
fn whole(shapes: &[Geometry], bytes: u64, block_bytes: u32) -> Geometry {
    Geometry {
        read_only: shapes.iter().any(|shape| shape.read_only),
        volatile: shapes.iter().any(|shape| shape.volatile),
        trim_zeroes: shapes.iter().all(|shape| shape.trim_zeroes),
        ..Geometry::new(bytes, block_bytes)
    }
}

impl Volume for Striped {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        self.hinted_lane(core, Hints::default())
    }

    fn hinted_lane(&self, core: &Core, hints: Hints) -> Result<Box<dyn Lane>, OpenError> {
        let lanes: Result<Vec<_>, _> =
            self.parts.iter().map(|part| part.hinted_lane(core, hints)).collect();
        Ok(self.around(lanes?, core.pool()))
    }

    /// Reads the used part of each volume into the page cache: a sequential pass covers all of it.
    fn read_in(&self, _: Range<u64>, goes_on: &dyn Fn() -> bool) -> Result<u64, OpenError> {
        let share = self.geometry.bytes() / self.parts.len().max(1) as u64;
        let read = self.parts.iter().map(|part| part.read_in(0..share, goes_on));
        read.sum()
    }

    fn below(&self) -> Vec<&dyn Volume> {
        self.parts.iter().map(|part| &**part).collect()
    }

    fn kind(&self) -> &'static str {
        self.parts.first().map_or("nothing", |part| part.kind())
    }

    fn ground(&self) -> Ground {
        let parts = self.parts.iter().map(|part| (part.ground(), part.geometry().bytes()));
        let parts = parts.collect();
        Ground::Several(Several { parts, stripe_bytes: Some(self.stripe_bytes) })
    }
}

#[cfg(test)]
mod flush_test;
#[cfg(test)]
mod split_test;
#[cfg(test)]
mod test;
