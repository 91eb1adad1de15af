//! A line of an access specification: an I/O size, and its operations.

use serde::{Deserialize, Serialize};

use super::access_error::{AccessError, share};
use super::defaults::{hundred, is_default, is_hundred, is_one, one};
use super::size;

/// Maximum I/O size: 16 MiB.
pub(crate) const MAX_BYTES: u32 = 16 << 20;

/// One line of an access specification.
///
/// Percentages of operations are shares of the line's I/Os; the rest are writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// I/O size in bytes: whole blocks, at most 16 MiB, and for trims 4 GiB less a byte.
    #[serde(deserialize_with = "size::bytes")]
    pub size_bytes: u32,
    /// Share with which this line is drawn, 0 to 100: once for each burst.
    #[serde(default = "hundred", skip_serializing_if = "is_hundred")]
    pub share_percent: f64,
    /// Share of reads, 0 to 100.
    #[serde(default = "hundred")]
    pub read_percent: f64,
    /// Share of I/Os at a random offset, 0 to 100; the rest are sequential.
    #[serde(default = "hundred")]
    pub random_percent: f64,
    /// Share of trims.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trim_percent: f64,
    /// Share of writes of zeroes without data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zero_percent: f64,
    /// Share of flushes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flush_percent: f64,
    /// Share of the writes with forced unit access: durable before they are acknowledged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fua_percent: f64,
    /// Alignment of the I/Os in bytes; their size by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub align_bytes: Option<u32>,
    /// Wait before each burst, in microseconds, from the start of the previous I/O. For closed
    /// loops only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay_us: u64,
    /// I/Os in a burst, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub burst: u32,
    /// Bytes of a reply, an I/O of the opposite direction after each I/O; 0 for none. For closed
    /// loops only.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "size::bytes")]
    pub reply_bytes: u32,
}

impl Line {
    /// Creates a line of I/Os of one size, with shares of reads and of random offsets, 0 to 100.
    pub fn new(size_bytes: u32, read_percent: f64, random_percent: f64) -> Line {
        Line {
            size_bytes,
            share_percent: 100.0,
            read_percent,
            random_percent,
            trim_percent: 0.0,
            zero_percent: 0.0,
            flush_percent: 0.0,
            fua_percent: 0.0,
            align_bytes: None,
            delay_us: 0,
            burst: 1,
            reply_bytes: 0,
        }
    }

    /// Returns the alignment of the I/Os in bytes.
    pub fn align(&self) -> u32 {
        self.align_bytes.unwrap_or(self.size_bytes)
    }

    /// Returns the share of I/Os that are plain writes, 0 to 100.
    pub fn write_percent(&self) -> f64 {
        let others = [self.read_percent, self.trim_percent, self.zero_percent, self.flush_percent];
        100.0 - others.iter().sum::<f64>()
    }

    /// Whether it reads anything.
    pub fn reads(&self) -> bool {
        self.share_percent > 0.0 && (self.read_percent > 0.0 || self.reply_bytes > 0)
    }

    /// Whether it trims or zeroes blocks without sending data.
    pub fn clears(&self) -> bool {
        self.share_percent > 0.0 && (self.trim_percent > 0.0 || self.zero_percent > 0.0)
    }

    /// Returns whether the line's I/Os change data on the volume.
    pub fn writes(&self) -> bool {
        self.read_percent + self.flush_percent < 100.0 || self.reply_bytes > 0
    }

    pub(super) fn check(&self) -> Result<(), AccessError> {
        if self.size_bytes == 0 {
            return Err(AccessError::Empty);
        }
        // A trim carries no data.
        let carried = if self.trim_percent < 100.0 { self.size_bytes } else { 0 };
        let longest = carried.max(self.reply_bytes);
        if longest > MAX_BYTES {
            return Err(AccessError::TooLong(longest));
        }
        for (what, value) in [
            ("the share of a line", self.share_percent),
            ("the share of reads", self.read_percent),
            ("the share of random I/Os", self.random_percent),
            ("the share of trims", self.trim_percent),
            ("the share of zeroes", self.zero_percent),
            ("the share of flushes", self.flush_percent),
            ("the share of durable writes", self.fua_percent),
            ("the share of reads, trims, zeroes and flushes", 100.0 - self.write_percent()),
        ] {
            share(what, value)?;
        }
        if self.burst == 0 {
            let (what, range) = ("a burst", "at least 1");
            return Err(AccessError::OutOfRange { what, range, value: 0.0 });
        }
        Ok(())
    }

    pub(super) fn fits(&self, block: u32, range_bytes: u64) -> Result<(), AccessError> {
        let sizes = [
            ("a size", self.size_bytes),
            ("an alignment", self.align()),
            ("a reply", self.reply_bytes),
        ];
        for (what, bytes) in sizes {
            let may_be_zero = what == "a reply";
            if (bytes == 0 && !may_be_zero) || !bytes.is_multiple_of(block) {
                return Err(AccessError::NotWholeBlocks { what, bytes, block });
            }
        }
        let size = self.size_bytes.max(self.reply_bytes);
        if range_bytes < u64::from(size) {
            return Err(AccessError::VolumeTooSmall { volume: range_bytes, size });
        }
        Ok(())
    }
}
