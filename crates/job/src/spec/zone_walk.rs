//! Zones that are visited one after the other.

use block::Geometry;
use serde::{Deserialize, Serialize};

use super::access::{Access, AccessError};
use super::places::{Places, Walk};
use super::size::{self, Range};

/// Strided zones: all I/Os stay in one zone until `transfer_bytes` were read and written there, and
/// then continue in the next one. The first zone follows the last.
///
/// The first zone begins at the start of the range. A zone that crosses the end of the range is
/// used up to that end, if the largest I/O fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneWalk {
    /// Bytes read and written in each zone, above 0: more than its length starts again in the zone,
    /// less leaves a part out.
    #[serde(deserialize_with = "size::bytes")]
    pub transfer_bytes: u64,
    /// Length of each zone in bytes, at least that of the largest I/O.
    #[serde(deserialize_with = "size::bytes")]
    pub range_bytes: u64,
    /// Bytes between the end of a zone and the beginning of the next.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "size::bytes")]
    pub skip_bytes: u64,
}

impl ZoneWalk {
    /// Returns the distance from the beginning of one zone to that of the next.
    pub fn distance_bytes(&self) -> u64 {
        self.range_bytes.saturating_add(self.skip_bytes)
    }

    /// Checks the walk together with the rest of the access.
    pub(super) fn check(&self, access: &Access) -> Result<(), AccessError> {
        if self.transfer_bytes == 0 {
            let (what, range) = ("zones.transfer_bytes", "above 0");
            return Err(AccessError::OutOfRange { what, range, value: 0.0 });
        }
        if self.range_bytes < u64::from(access.longest_bytes()) {
            let (what, range) = ("zones.range_bytes", "at least the largest I/O");
            return Err(AccessError::OutOfRange { what, range, value: self.range_bytes as f64 });
        }
        let replies = access.lines.iter().any(|line| line.reply_bytes > 0);
        let law = !matches!(access.random, Places::Uniform | Places::Once);
        if access.sequential != Walk::Forward || law || replies || access.trims_first {
            let words = "zones need forward sequential I/Os, random offsets uniform or once, and \
                         no replies and trims_first";
            return Err(AccessError::Conflict(words));
        }
        Ok(())
    }

    /// Checks that the zones begin with blocks.
    pub(super) fn fits(&self, range: &Range, geometry: Geometry) -> Result<(), AccessError> {
        let (_, bytes) = range.on(geometry);
        let whole = self.distance_bytes().is_multiple_of(u64::from(geometry.block_bytes));
        match whole || bytes <= self.distance_bytes() {
            true => Ok(()),
            false => {
                let words = "zones.range_bytes and skip_bytes together must be whole blocks of the \
                             volume";
                Err(AccessError::Conflict(words))
            }
        }
    }
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}
