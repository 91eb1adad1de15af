//! SCSI as a logical unit sees it: a CDB goes in, a [`Plan`] or [`Sense`] comes out.
//!
//! No I/O happens here and no transport is known: `iscsi` moves the data that a plan asks for.

use block::{Geometry, Op};

use crate::UnitId;

/// A logical unit: a volume with a SCSI face.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Which volume is behind.
    pub id: UnitId,
    /// Its shape.
    pub geometry: Geometry,
    /// Its lane has memory: reads are requested without a buffer and answered in place.
    pub in_place: bool,
    /// What INQUIRY says about it.
    pub identity: Identity,
}

/// Names of a logical unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Unit serial number, printable ASCII, at most 36 characters.
    pub serial: String,
    /// What the product identification shows, at most 16 characters: the kind of volume.
    pub product: String,
}

/// What a command asks for, once its CDB is understood and allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing to move: GOOD.
    Good,
    /// Answer with these bytes, already cut to the allocation length.
    Data(Vec<u8>),
    /// Read from the volume. Offset and length in bytes, inside the volume.
    Read {
        /// First byte.
        offset: u64,
        /// Number of bytes; zero is legal and means GOOD without data.
        len: u64,
    },
    /// Write data-out of `len` bytes to the volume.
    Write {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// Durable before GOOD.
        fua: bool,
    },
    /// Make everything durable.
    Flush,
    /// Collect `len` bytes of data-out, then ask [`Unit::plan_with`].
    Collect {
        /// How many bytes the command brings.
        len: u32,
    },
    /// Trim or zero these ranges of (offset, length) in bytes.
    Clear {
        /// [`Op::Trim`] or [`Op::WriteZeroes`].
        op: Op,
        /// Non-empty ranges inside the volume.
        ranges: Vec<(u64, u64)>,
    },
    /// Write `pattern`, one block, over a range.
    Fill {
        /// First byte.
        offset: u64,
        /// Number of bytes, a multiple of the block.
        len: u64,
        /// One block of data.
        pattern: Vec<u8>,
    },
}
