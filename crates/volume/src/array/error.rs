//! Why an array cannot be opened, made or changed. Nothing was written then.

use super::superblock::Generation;

/// Why an array is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// Nothing of an array stands on a leg.
    #[error(
        "array {array}: {leg} is no leg of an array: make one with `drumfire volume create`, or \
         add it with `drumfire volume add`"
    )]
    NoLeg {
        /// The array's name.
        array: String,
        /// Which leg.
        leg: String,
    },
    /// Both superblocks of a leg are damaged.
    #[error(
        "array {array}: both superblocks of {leg} are damaged: name the other legs only and \
         put it in again with `drumfire volume replace`"
    )]
    Damaged {
        /// The array's name.
        array: String,
        /// Which leg.
        leg: String,
    },
    /// A leg was made by another version.
    #[error("array {array}: {leg} is of version {version}, and this program knows version 1")]
    Version {
        /// The array's name.
        array: String,
        /// Which leg.
        leg: String,
        /// Its version.
        version: u32,
    },
    /// A leg belongs to an array of another name.
    #[error("array {array}: {leg} is a leg of another array, {other}")]
    Foreign {
        /// The array's name.
        array: String,
        /// Which leg.
        leg: String,
        /// Name of its array.
        other: String,
    },
    /// Two arrays have the same name.
    #[error("array {array}: {one} and {other} are legs of two arrays that are both called so")]
    TwoArrays {
        /// The name.
        array: String,
        /// A leg of one.
        one: String,
        /// A leg of the other.
        other: String,
    },
    /// Two legs say that they are the same.
    #[error("array {array}: {one} is a copy of {other}, bit by bit: name one of them only")]
    Twice {
        /// The array's name.
        array: String,
        /// A leg.
        one: String,
        /// Its copy.
        other: String,
    },
    /// Legs diverged (split brain).
    #[error(
        "array {array}: {one} and {other} diverged (split brain): {one} was {one_history}, {other} \
         was {other_history}; name the leg that is right, with &degraded=1, and put the other in \
         again with `drumfire volume replace`"
    )]
    SplitBrain {
        /// The array's name.
        array: String,
        /// A leg.
        one: String,
        /// Another leg.
        other: String,
        /// Generations of the first, the newest first.
        one_history: String,
        /// Of the second.
        other_history: String,
    },
    /// A leg is not a member any more.
    #[error(
        "array {array}: {leg} was removed from it: leave it out, or add it again with `drumfire \
         volume add`"
    )]
    Removed {
        /// The array's name.
        array: String,
        /// Which leg.
        leg: String,
    },
    /// A leg that may have newer data is not there.
    #[error(
        "array {array}: leg {number} is missing{why}, and may have newer data: bring it back, or \
         add &degraded=1 to the name if it is lost"
    )]
    Missing {
        /// The array's name.
        array: String,
        /// Its number, from 1.
        number: usize,
        /// In brackets, why it could not be opened; empty where it was not named.
        why: String,
    },
    /// No leg has all the data.
    #[error("array {array}: no leg present has all the data: {legs}")]
    NoneIsIn {
        /// The array's name.
        array: String,
        /// What each of them is.
        legs: String,
    },
    /// A leg is smaller than its array.
    #[error("array {array}: {leg} has {bytes} bytes, and {wanted} are needed")]
    Small {
        /// The array's name.
        array: String,
        /// Which leg.
        leg: String,
        /// Its bytes.
        bytes: u64,
        /// The bytes that a leg of this array has at least.
        wanted: u64,
    },
    /// The blocks of a leg do not fit.
    #[error("array {array}: {leg} has blocks of {block_bytes} bytes, and {wanted} is the most")]
    Blocks {
        /// The array's name.
        array: String,
        /// Which leg.
        leg: String,
        /// Bytes of its blocks.
        block_bytes: u32,
        /// Longest blocks that would do.
        wanted: u32,
    },
    /// A leg could not be read or written.
    #[error("array {array}: {leg}: {why}")]
    Io {
        /// The array's name.
        array: String,
        /// Which leg.
        leg: String,
        /// What went wrong.
        why: String,
    },
    /// A leg holds something that would be overwritten.
    #[error("{leg} holds {what}: give --destroy={leg} if it may be overwritten")]
    HoldsData {
        /// Which leg.
        leg: String,
        /// What it holds.
        what: String,
    },
    /// Somebody else uses a leg.
    #[error("array {array}: {leg} is in use by another process")]
    InUse {
        /// The array's name.
        array: String,
        /// Which leg.
        leg: String,
    },
    /// The change makes no sense.
    #[error("array {array}: {why}")]
    Change {
        /// The array's name.
        array: String,
        /// What is wrong with it.
        why: String,
    },
    /// A job would overwrite what the array holds.
    #[error("array {0} holds data: give --destroy to overwrite it")]
    Written(String),
}

impl ArrayError {
    /// Whether what was typed is to blame, and not the state of a leg.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            ArrayError::Damaged { .. }
                | ArrayError::SplitBrain { .. }
                | ArrayError::Missing { .. }
                | ArrayError::NoneIsIn { .. }
                | ArrayError::Io { .. }
        )
    }
}

/// The newest generations in words.
pub(super) fn history(present: Generation, past: &[Generation]) -> String {
    let shown: Vec<String> = std::iter::once(&present)
        .chain(past)
        .take(4)
        .map(|one| format!("{}.{:04x}", one.number, one.tag & 0xffff))
        .collect();
    shown.join(" after ")
}
