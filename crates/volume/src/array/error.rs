//! Why an array cannot be opened, created or changed. Nothing was written then.

use super::superblock::Generation;

/// Reason why an array is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// A leg holds no superblock.
    #[error(
        "array {array}: {leg} is not a leg of an array: create an array with `drumfire volume \
        create`, or add the leg with `drumfire volume add`"
    )]
    NoLeg {
        /// The array's name.
        array: String,
        /// The leg.
        leg: String,
    },
    /// Both superblocks of a leg are damaged.
    #[error(
        "array {array}: both superblocks of {leg} are damaged: name only the other legs, and \
        re-add this one with `drumfire volume replace`"
    )]
    Damaged {
        /// The array's name.
        array: String,
        /// The leg.
        leg: String,
    },
    /// A leg was made by another version.
    #[error(
        "array {array}: {leg} has superblock version {version}, and this program supports \
        version 1"
    )]
    Version {
        /// The array's name.
        array: String,
        /// The leg.
        leg: String,
        /// Version of the superblock.
        version: u32,
    },
    /// A leg belongs to an array of another name.
    #[error("array {array}: {leg} is a leg of another array, {other}")]
    Foreign {
        /// The array's name.
        array: String,
        /// The leg.
        leg: String,
        /// Name of the leg's array.
        other: String,
    },
    /// Two arrays have the same name.
    #[error("array {array}: {one} and {other} belong to two different arrays of this name")]
    TwoArrays {
        /// The name.
        array: String,
        /// Leg of one array.
        one: String,
        /// A leg of the other.
        other: String,
    },
    /// Two legs have the same identity.
    #[error(
        "array {array}: {one} and {other} are the same leg or bit-identical copies: name \
        only one of them"
    )]
    Twice {
        /// The array's name.
        array: String,
        /// A leg.
        one: String,
        /// Copy of that leg.
        other: String,
    },
    /// Legs diverged (split brain).
    #[error(
        "array {array}: {one} and {other} diverged (split brain): {one} was {one_history}, \
        {other} was {other_history}; name only the leg with the correct data, with &degraded=1, \
        and re-add the other with `drumfire volume replace`"
    )]
    SplitBrain {
        /// The array's name.
        array: String,
        /// A leg.
        one: String,
        /// The other leg.
        other: String,
        /// Generations of the first, the newest first.
        one_history: String,
        /// History of the second leg.
        other_history: String,
    },
    /// Legs that are in have images of different times.
    #[error(
        "array {array}: legs {one} and {other} each lack changes of the other: both were replaced \
        by older images; name only the leg with the correct data, with &degraded=1, and re-add \
        the other with `drumfire volume replace`"
    )]
    OlderImages {
        /// The array's name.
        array: String,
        /// A leg's number, from 1.
        one: usize,
        /// Number of the other leg.
        other: usize,
    },
    /// A leg is not a member any more.
    #[error(
        "array {array}: {leg} was removed from the array: do not name it, or re-add it with \
        `drumfire volume add`"
    )]
    Removed {
        /// The array's name.
        array: String,
        /// Leg concerned.
        leg: String,
    },
    /// A leg that may have newer data is missing.
    #[error(
        "array {array}: leg {number} is missing{why}, and may have newer data: bring it back, or \
        add &degraded=1 to the URI if it is lost"
    )]
    Missing {
        /// The array's name.
        array: String,
        /// Number of the leg, from 1.
        number: usize,
        /// Reason of the failure, in brackets; empty if there is none.
        why: String,
    },
    /// No leg is in.
    #[error("array {array}: no available leg has all the data: {legs}")]
    NoneIsIn {
        /// The array's name.
        array: String,
        /// The state of each leg.
        legs: String,
    },
    /// A leg is smaller than its array.
    #[error("array {array}: {leg} has {bytes} bytes, minimum {wanted}")]
    Small {
        /// The array's name.
        array: String,
        /// The leg.
        leg: String,
        /// Size in bytes.
        bytes: u64,
        /// Bytes that a leg of this array needs.
        wanted: u64,
    },
    /// A leg's blocks are too large.
    #[error("array {array}: {leg} has blocks of {block_bytes} bytes, maximum {wanted}")]
    Blocks {
        /// The array's name.
        array: String,
        /// The leg.
        leg: String,
        /// Bytes of its blocks.
        block_bytes: u32,
        /// Largest block size allowed.
        wanted: u32,
    },
    /// A leg could not be read or written.
    #[error("array {array}: {leg}: {why}")]
    Io {
        /// The array's name.
        array: String,
        /// The leg.
        leg: String,
        /// Reason of the failure.
        why: String,
    },
    /// A leg holds data that would be overwritten.
    #[error("{leg} holds {what}: give --destroy={leg} if it may be overwritten")]
    HoldsData {
        /// Leg concerned.
        leg: String,
        /// Content of the leg.
        what: String,
    },
    /// The requested change is impossible.
    #[error("array {array}: {why}")]
    Change {
        /// The array's name.
        array: String,
        /// Reason of the refusal.
        why: String,
    },
    /// A job would overwrite the array's data.
    #[error("array {0} holds data: give --destroy to overwrite it")]
    Written(String),
}

impl ArrayError {
    /// Whether the user's input is at fault, not the state of a leg.
    pub fn is_usage(&self) -> bool {
        !matches!(
            self,
            ArrayError::Damaged { .. }
                | ArrayError::SplitBrain { .. }
                | ArrayError::OlderImages { .. }
                | ArrayError::Missing { .. }
                | ArrayError::NoneIsIn { .. }
                | ArrayError::Io { .. }
        )
    }
}

/// The newest generations, for messages.
pub(super) fn history(present: Generation, past: &[Generation]) -> String {
    let shown: Vec<String> = std::iter::once(&present)
        .chain(past)
        .take(4)
        .map(|one| format!("{}.{:04x}", one.number, one.tag & 0xffff))
        .collect();
    shown.join(" after ")
}
