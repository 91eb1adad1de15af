//! One I/O: what goes into a lane and what comes back.

use crate::Buf;

/// The submitter's name for an I/O, opaque to the lane, which hands it back in the [`Done`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// What an I/O does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read `len` bytes.
    Read,
    /// Write `len` bytes.
    Write,
    /// Make every acknowledged write durable. Offset and length are zero.
    Flush,
    /// Say that the range is no longer needed. It reads as zeroes afterwards, or as what it held
    /// before where the geometry promises no zeroes.
    Trim,
    /// Make the range read as zeroes.
    WriteZeroes,
}

/// An I/O on its way to a volume.
///
/// A read carries a buffer of at least `len` bytes to be filled, unless the lane
/// [lends](crate::Lane::lends) one. A write carries the buffer whose first `len` bytes are to be
/// written. The others carry none.
#[derive(Debug)]
pub struct Io {
    /// Comes back in the [`Done`].
    pub tag: Tag,
    /// What to do.
    pub op: Op,
    /// Force unit access: the write is durable before it is acknowledged.
    pub fua: bool,
    /// Length in bytes, whole blocks.
    pub len: u32,
    /// First byte, on a block boundary.
    pub offset: u64,
    /// The data, owned by the lane until the [`Done`].
    pub buf: Option<Buf>,
}

/// The one answer to an [`Io`].
#[derive(Debug)]
pub struct Done {
    /// The tag of the [`Io`].
    pub tag: Tag,
    /// Whether it was done.
    pub result: Result<(), Fault>,
    /// Of an I/O that failed, what exactly the lane was told.
    pub cause: Cause,
    /// The buffer of the [`Io`], or the one that the lane lent, filled if it was a read.
    pub buf: Option<Buf>,
}

/// What exactly a lane was told when an I/O failed, beyond its [`Fault`]: a number that only
/// [`Lane::words_of`](crate::Lane::words_of) can read, such as an errno or the status of a
/// protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cause(pub u32);

/// What the upper half of a cause says that ends connections.
const ENDS: u32 = 0xfa18;
/// The same for those that are reset.
const RESETS: u32 = 0xfa19;

impl Cause {
    /// Nothing beyond the fault.
    pub const NONE: Cause = Cause(0);

    /// Where the I/O came over a network, its connection ends in place of an answer: closed, or
    /// with a reset. `number` is the lane's own.
    pub fn of_end(reset: bool, number: u16) -> Cause {
        let half = if reset { RESETS } else { ENDS };
        Cause(half << 16 | u32::from(number))
    }

    /// Whether a connection is to end, with a reset if `true`, and the lane's number for why.
    pub fn as_end(self) -> Option<(bool, u16)> {
        let half = self.0 >> 16;
        (half == ENDS || half == RESETS).then_some((half == RESETS, self.0 as u16))
    }
}

/// Why an I/O failed. Each protocol maps this in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The medium or the system below reported an error.
    Medium,
    /// Not inside the volume, or not on whole blocks.
    OutOfRange,
    /// The volume is write-protected.
    ReadOnly,
    /// The storage below has no room left, or not for this user: what was written is not there.
    NoSpace,
    /// The volume cannot do this operation.
    Unsupported,
    /// A compare found other data.
    Miscompare,
    /// The way to the volume is gone.
    Disconnected,
    /// The I/O was aborted on request.
    Aborted,
    /// It was not answered in time: whether it was done, nobody knows.
    Unanswered,
}

impl Op {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Trim => "trim",
            Op::WriteZeroes => "write zeroes",
        }
    }
}

impl Fault {
    /// Whether the way to the volume went with the I/O, which may be sent again on another.
    pub fn is_lost(self) -> bool {
        matches!(self, Fault::Disconnected | Fault::Unanswered)
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Fault::Medium => "medium error",
            Fault::OutOfRange => "outside the volume or not on whole blocks",
            Fault::ReadOnly => "volume is write-protected",
            Fault::NoSpace => "no space left",
            Fault::Unsupported => "operation not supported by the volume",
            Fault::Miscompare => "data differs",
            Fault::Disconnected => "connection lost",
            Fault::Aborted => "aborted",
            Fault::Unanswered => "not answered in time",
        })
    }
}

impl std::error::Error for Fault {}
