//! Why an access specification does not fit, and the rules of shares.

use block::print_size;

use super::access::MAX_LINES;

/// How far shares may be from 100: rounded decimals of three lines are allowed.
const ROUNDING: f64 = 0.1;

/// Why an access specification does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AccessError {
    /// No line.
    #[error("an access specification has 1 to {MAX_LINES} lines, not {0}")]
    Lines(usize),
    /// No length.
    #[error("the size of an I/O must not be 0")]
    Empty,
    /// Longer than a buffer may be.
    #[error("an I/O of {} is longer than 16m", print_size(u64::from(*.0)))]
    TooLong(u32),
    /// Not whole blocks.
    #[error("{what} of {bytes} bytes is not a multiple of the volume's block of {block} bytes")]
    NotWholeBlocks {
        /// "a size", "an alignment" or "a reply".
        what: &'static str,
        /// The value.
        bytes: u32,
        /// The volume's block.
        block: u32,
    },
    /// The range is smaller than one I/O.
    #[error("a volume of {volume} bytes is smaller than one I/O of {size} bytes")]
    VolumeTooSmall {
        /// Bytes of the range that may be used.
        volume: u64,
        /// Length of an I/O.
        size: u32,
    },
    /// Not a share.
    #[error("{what} must be 0 to 100 percent, not {value}")]
    NotAShare {
        /// Which.
        what: &'static str,
        /// The value.
        value: f64,
    },
    /// Shares that do not make a whole.
    #[error("{what} must sum up to 100 percent, not {sum}")]
    NotAWhole {
        /// Which.
        what: &'static str,
        /// What they sum up to.
        sum: f64,
    },
    /// A number out of its range.
    #[error("{what} must be {range}, not {value}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// What it may be.
        range: &'static str,
        /// The value.
        value: f64,
    },
    /// Settings that exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// An I/O of a trace, with its file and line.
    #[error("{0}")]
    Trace(String),
    /// Writes to a volume that takes none.
    #[error("the volume is write-protected, and the job writes")]
    ReadOnly,
}

/// Whether a percentage is one of a whole.
pub(super) fn share(what: &'static str, value: f64) -> Result<(), AccessError> {
    // Sums of shares that were rounded end a little beyond.
    match (0.0..=100.0 + 1e-9).contains(&value) {
        true => Ok(()),
        false => Err(AccessError::NotAShare { what, value }),
    }
}

/// Whether percentages sum up to a whole.
pub(super) fn whole(what: &'static str, sum: f64) -> Result<(), AccessError> {
    match (sum - 100.0).abs() <= ROUNDING {
        true => Ok(()),
        false => Err(AccessError::NotAWhole { what, sum }),
    }
}
