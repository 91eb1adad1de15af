//! What one worker among those of a run does: when, where, and which part of a volume.

use super::cache::Cache;
use super::when::When;

/// When within a run a worker works, and on which processors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shift {
    /// Which group it belongs to.
    pub group: usize,
    /// The job of another tool's file that it works for, if that wants logs.
    pub job: Option<u32>,
    /// Groups whose workers must have ended before it begins.
    pub after: Vec<usize>,
    /// When it begins and ends.
    pub when: When,
    /// Processors that it may be on; empty for all of the run.
    pub cores: Vec<usize>,
    /// What the kernel is told of its file.
    pub cache: Cache,
}

/// One of several workers of a volume, on all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which, from 0.
    pub index: u64,
    /// How many there are.
    pub of: u64,
}

impl Part {
    /// The only one.
    pub const WHOLE: Part = Part { index: 0, of: 1 };

    /// Where this part of `count` things begins; the next one begins where it ends.
    pub fn begin(self, count: u64) -> u64 {
        (u128::from(count) * u128::from(self.index) / u128::from(self.of)) as u64
    }

    /// Where this part of `count` things ends.
    pub fn end(self, count: u64) -> u64 {
        Part { index: self.index + 1, ..self }.begin(count)
    }
}
