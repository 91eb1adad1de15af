//! Several files in one range, one behind the other, of which one at a time is used.

use serde::{Deserialize, Serialize};

use super::access::{Access, AccessError};
use super::defaults::{is_one, one};
use super::line::Line;
use super::places::{Places, Walk};

/// Most files, and most of their lines together: each has a state of its own.
const MAX_FILES: u32 = 65536;
const MAX_STATES: usize = 1 << 18;

/// The range is so many files of one length, one behind the other. So many I/Os go to one of them,
/// then as many to another; each file has a walk and an order of places of its own.
///
/// By turns or uniformly at random, a file in which all was done where it is done once, forward or
/// at places each once, has no turn until that holds for all. By another law it begins anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileWalk {
    /// How many files, 1 to 65536.
    pub count: u32,
    /// I/Os on one before the next, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub ios: u32,
    /// Which file comes next: uniform, or by zipf, pareto or normal, of which the first is the most
    /// popular, or with normal the one in the middle; in turn where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random: Option<Places>,
}

impl FileWalk {
    /// Length of each file in a range of this many bytes: whole I/Os begin at its end.
    pub fn share_bytes(&self, bytes: u64, access: &Access) -> u64 {
        let share = bytes / u64::from(self.count.max(1));
        share - share % longest_align(access)
    }

    /// Whether it makes sense in itself, with what else is done.
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
            let words = "files come in turn, uniform, or by zipf, pareto or normal";
            return Err(AccessError::Conflict(words));
        }
        let align = longest_align(access);
        let divides = |line: &Line| align.is_multiple_of(u64::from(line.align().max(1)));
        let apart = access.lines.iter().all(divides);
        let replies = access.lines.iter().any(|line| line.reply_bytes > 0);
        if access.sequential != Walk::Forward || access.zones.is_some() || replies || !apart {
            let words = "from file to file go I/Os forward or at random, without zones and \
                         replies; of several alignments the longest is a multiple of all";
            return Err(AccessError::Conflict(words));
        }
        self.random.as_ref().map_or(Ok(()), Places::check)
    }

    /// Whether the longest I/O fits into each file of a range.
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
