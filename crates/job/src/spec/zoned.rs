//! Zones of the device itself, which are written from their write pointers on.

use serde::{Deserialize, Serialize};

use super::access::{Access, AccessError};
use super::defaults::is_default;
use super::line::Line;
use super::places::Places;
use super::size;

/// Writes go to write pointers, and reads to what is before them. A zone that is full is reset
/// before it is written again. In each zone one write at a time is in flight.
///
/// Which zones there are the device tells when the job begins: those that lie in the range, and of
/// them this worker's part. A volume without zones is taken as zones of `zone_bytes`, all empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zoned {
    /// Length that the device's zones must have, and that of a volume without zones; 0 for any.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "size::bytes")]
    pub zone_bytes: u64,
    /// How much of each is written where the volume has none itself; 0 for all.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "size::bytes")]
    pub capacity_bytes: u64,
    /// From this share of the range on, 0 to 1, that holds data, zones are reset before they are
    /// full.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reset_threshold: f64,
    /// The share of writes, 0 to 1, that resets its zone then; 0 for none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reset_frequency: f64,
    /// Zones that random writes keep open at once; 0 for as many as the device does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_open: u32,
    /// Reads go everywhere, to what was never written too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_beyond: bool,
}

impl Zoned {
    /// Whether it makes sense with what else is done.
    pub(super) fn check(&self, access: &Access) -> Result<(), AccessError> {
        let first = access.lines.first().map_or(0.0, |line| line.random_percent);
        let plain = Access {
            lines: access.lines.clone(),
            random: access.random.clone(),
            apart: access.apart,
            flush_every: access.flush_every,
            zoned: access.zoned,
            ..Access::of(Vec::new())
        };
        let is_plain = |line: &Line| {
            let usual = Line {
                share_percent: line.share_percent,
                align_bytes: line.align_bytes,
                ..Line::new(line.size_bytes, line.read_percent, first)
            };
            *line == usual
        };
        let one = matches!(first, 0.0 | 100.0) && access.lines.iter().all(is_plain);
        let uniform = matches!(access.random, Places::Uniform | Places::Once);
        let shares = [self.reset_threshold, self.reset_frequency];
        match () {
            () if *access != plain || !one || !uniform => {
                let words = "in zones of a device I/Os are all at random and uniform or all \
                             forward, without runs, trims, replies, durable writes and other zones";
                Err(AccessError::Conflict(words))
            }
            () if shares.iter().any(|share| !(0.0..=1.0).contains(share)) => {
                Err(AccessError::Conflict("shares of resets are 0 to 1"))
            }
            () if self.capacity_bytes > self.zone_bytes => {
                Err(AccessError::Conflict("a zone's capacity is at most its length"))
            }
            () => Ok(()),
        }
    }
}
