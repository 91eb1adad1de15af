//! Zones of the device itself, which are written from their write pointers on.

use serde::{Deserialize, Serialize};

use super::access::{Access, AccessError};
use super::defaults::is_default;
use super::line::Line;
use super::places::Places;
use super::size;

/// Zoned access: writes go to write pointers, and reads to data before them. A full zone is reset
/// before it is written again. In each zone one write at a time is in flight.
///
/// The device reports its zones when the job begins: those in the range are used, and of these the
/// worker's part. A volume without zones is divided into empty zones of `zone_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zoned {
    /// Required length of the device's zones in bytes, and that for a volume without zones; 0 for
    /// any.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "size::bytes")]
    pub zone_bytes: u64,
    /// Capacity of each zone in bytes, for a volume without zones; 0 for all.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "size::bytes")]
    pub capacity_bytes: u64,
    /// Share of the range with data, 0 to 1, from which on zones are reset before they are full.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reset_threshold: f64,
    /// Share of writes, 0 to 1, that reset their zone then; 0 for none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reset_frequency: f64,
    /// Maximum number of zones that random writes keep open at once; 0 for the device's maximum.
    #[serde(default, skip_serializing_if = "is_default")]
    pub max_open: u32,
    /// True if reads go to all offsets, including unwritten ones.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_beyond: bool,
}

impl Zoned {
    /// Checks the zones together with the rest of the access.
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
                let words = "zones of a device need I/Os that are all random and uniform or all \
                             forward, without run, trims, replies, durable writes and other zones";
                Err(AccessError::Conflict(words))
            }
            () if shares.iter().any(|share| !(0.0..=1.0).contains(share)) => {
                Err(AccessError::Conflict("reset_threshold and reset_frequency must be 0 to 1"))
            }
            () if self.capacity_bytes > self.zone_bytes => {
                Err(AccessError::Conflict("capacity_bytes must be at most zone_bytes"))
            }
            () => Ok(()),
        }
    }
}
