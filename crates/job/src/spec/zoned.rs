//! Zones of the device itself, which are written from their write pointers on.

use serde::{Deserialize, Serialize};

use super::access::{Access, AccessError};
use super::defaults::is_default;
use super::places::{Places, Walk};
use super::size;

/// Writes go to write pointers, and reads to what is before them. A zone that is full is reset
/// before it is written again. In each zone one write at a time is in flight.
///
/// Which zones there are the device tells when the job begins: those that lie in the range, and of
/// them this worker's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zoned {
    /// Length that the device's zones must have; 0 for any.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "size::bytes")]
    pub zone_bytes: u64,
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
        let [line] = &access.lines[..] else {
            return Err(AccessError::Conflict("in zones of a device all I/Os are of one line"));
        };
        let plain = Access {
            lines: access.lines.clone(),
            zoned: access.zoned,
            random: Places::Uniform,
            ..Access::of(Vec::new())
        };
        let one = line.reply_bytes == 0 && matches!(line.random_percent, 0.0 | 100.0);
        let uniform = access.random == Places::Uniform && access.sequential == Walk::Forward;
        match *access == plain && one && uniform {
            true => Ok(()),
            false => {
                let words = "in zones of a device I/Os are all at random and uniform or all \
                             forward, without runs, flushes, trims, replies and other zones";
                Err(AccessError::Conflict(words))
            }
        }
    }
}
