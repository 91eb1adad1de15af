//! Several files in one range, one after the other, of which one at a time is used.

use serde::{Deserialize, Serialize};

use super::access::{Access, AccessError};
use super::defaults::{is_one, one};
use super::line::Line;
use super::places::{Places, Walk};

/// Maximum number of files, and maximum number of their lines together: each has its own state.
const MAX_FILES: u32 = 65536;
const MAX_STATES: usize = 1 << 18;

/// Walk over `count` files of equal length in the range. `ios` I/Os go to one of them, then as many
/// to another; each file has its own sequence and order of offsets.
///
/// By turns or uniformly at random, a file that is complete where I/O is done once (forward, or
/// each offset once) is skipped until that applies to all files. By another distribution it starts
/// again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileWalk {
    /// Number of files, 1 to 65536.
    pub count: u32,
    /// Number of I/Os on one file before the next, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ios: u32,
    /// Distribution of the next file: uniform, zipf, pareto or normal. The first file is the most
    /// popular, with normal the middle one. In turn by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<Places>,
}

impl FileWalk {
    /// Returns the length of each file in a range of this many bytes: whole I/Os begin at its end.
    pub fn share_bytes(&self, bytes: u64, access: &Access) -> u64 {
        let share = bytes / u64::from(self.count.max(1));
        share - share % longest_align(access)
    }

    /// Checks the walk together with the rest of the access.
    pub(super) fn check(&self, access: &Access) -> Result<(), AccessError> {
        let number = |what, range, value, fits: bool| match fits {
            true => Ok(()),
            false => Err(AccessError::OutOfRange { what, range, value }),
        };
        let count = f64::from(self.count);
        number("files.count", "1 to 65536", count, (1..=MAX_FILES).contains(&self.count))?;
        number("files.ios", "at least 1", f64::from(self.ios), self.ios > 0)?;
        let states = access.lines.len().saturating_mul(self.count as usize);
        number("files times lines", "at most 262144", states as f64, states <= MAX_STATES)?;
        if let Some(Places::Once | Places::Zones { .. }) = self.random {
            let words = "the order of files must be in turn, uniform, zipf, pareto or normal";
            return Err(AccessError::Conflict(words));
        }
        let align = longest_align(access);
        let divides = |line: &Line| align.is_multiple_of(u64::from(line.align().max(1)));
        let apart = access.lines.iter().all(divides);
        let replies = access.lines.iter().any(|line| line.reply_bytes > 0);
        if access.sequential != Walk::Forward || access.zones.is_some() || replies || !apart {
            let words = "files need forward or random I/Os without zones and replies, and a \
                         largest alignment that is a multiple of all others";
            return Err(AccessError::Conflict(words));
        }
        self.random.as_ref().map_or(Ok(()), Places::check)
    }

    /// Checks that the largest I/O fits into each file of a range.
    pub(super) fn fits(&self, bytes: u64, access: &Access) -> Result<(), AccessError> {
        let (volume, size) = (self.share_bytes(bytes, access), access.longest_bytes());
        match volume >= u64::from(size) {
            true => Ok(()),
            false => Err(AccessError::VolumeTooSmall { volume, size }),
        }
    }
}

fn longest_align(access: &Access) -> u64 {
    access.lines.iter().map(|line| u64::from(line.align())).max().unwrap_or(1).max(1)
}
