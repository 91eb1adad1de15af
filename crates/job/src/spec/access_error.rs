//! Errors of an access specification, and the rules of shares.

use block::print_size;

use super::access::MAX_LINES;

/// Maximum deviation of shares from 100: rounded decimals of three lines are allowed.
const ROUNDING: f64 = 0.1;

/// Reason why an access specification does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AccessError {
    /// Invalid number of lines.
    #[error("an access specification must have 1 to {MAX_LINES} lines, not {0}")]
    Lines(usize),
    /// Size of 0.
    #[error("the I/O size must not be 0")]
    Empty,
    /// Size above the maximum of a buffer.
    #[error("the I/O size {} exceeds 16m", print_size(u64::from(*.0)))]
    TooLong(u32),
    /// Size that is no whole number of blocks.
    #[error("{what} of {bytes} bytes is not a multiple of the volume's block size, {block} bytes")]
    NotWholeBlocks {
        /// "a size", "an alignment" or "a reply".
        what: &'static str,
        /// Value in bytes.
        bytes: u32,
        /// Block size of the volume in bytes.
        block: u32,
    },
    /// Range smaller than one I/O.
    #[error("a volume of {volume} bytes is smaller than one I/O of {size} bytes")]
    VolumeTooSmall {
        /// Bytes of the usable range.
        volume: u64,
        /// I/O size in bytes.
        size: u32,
    },
    /// Value that is no share.
    #[error("{what} must be 0 to 100 percent, not {value}")]
    NotAShare {
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: f64,
    },
    /// Shares that do not sum up to 100.
    #[error("{what} must sum up to 100 percent, not {sum}")]
    NotAWhole {
        /// Name of the shares.
        what: &'static str,
        /// Sum of the shares.
        sum: f64,
    },
    /// Value out of its range.
    #[error("{what} must be {range}, not {value}")]
    OutOfRange {
        /// Name of the value.
        what: &'static str,
        /// Allowed range.
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
    /// Writes to a read-only volume.
    #[error("the volume is write-protected, and the job writes")]
    ReadOnly,
}

/// Checks that a percentage is 0 to 100.
pub(super) fn share(what: &'static str, value: f64) -> Result<(), AccessError> {
    // Sums of rounded shares may exceed 100 slightly.
    match (0.0..=100.0 + 1e-9).contains(&value) {
        true => Ok(()),
        false => Err(AccessError::NotAShare { what, value }),
    }
}

/// Checks that percentages sum up to 100.
pub(super) fn whole(what: &'static str, sum: f64) -> Result<(), AccessError> {
    match (sum - 100.0).abs() <= ROUNDING {
        true => Ok(()),
        false => Err(AccessError::NotAWhole { what, sum }),
    }
}
