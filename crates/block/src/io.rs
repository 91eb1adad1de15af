//! One I/O: an [`Io`] goes into a lane, a [`Done`] is returned.

use crate::Buf;

/// The submitter's tag of an I/O, opaque to the lane, which returns it in the [`Done`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read `len` bytes.
    Read,
    /// Write `len` bytes.
    Write,
    /// Make every acknowledged write durable. Offset and length are zero.
    Flush,
    /// Deallocate the range. It then reads as zeroes, or as its old data if the geometry promises
    /// no zeroes.
    Trim,
    /// Make the range read as zeroes.
    WriteZeroes,
}

/// An I/O.
///
/// A read carries a buffer of at least `len` bytes, unless the lane [lends](crate::Lane::lends)
/// one. A write carries a buffer with its data in the first `len` bytes. Other operations carry
/// none.
#[derive(Debug)]
pub struct Io {
    /// Returned in the [`Done`].
    pub tag: Tag,
    /// The operation.
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

impl Io {
    /// The completion of one that is refused or lost, without more than the fault.
    #[cold]
    pub fn failed(self, fault: Fault) -> Done {
        Done { tag: self.tag, result: Err(fault), cause: Cause::NONE, buf: self.buf }
    }
}

/// The completion of an [`Io`].
#[derive(Debug)]
pub struct Done {
    /// The tag of the [`Io`].
    pub tag: Tag,
    /// Success, or the fault.
    pub result: Result<(), Fault>,
    /// The exact cause of a fault.
    pub cause: Cause,
    /// The buffer of the [`Io`], or the one that the lane lent, filled by a read.
    pub buf: Option<Buf>,
}

/// The exact cause of a [`Fault`]: a number that only [`Lane::words_of`](crate::Lane::words_of) can
/// explain, such as an errno or a protocol status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cause(pub u32);

/// Upper half of causes that close the connection.
const ENDS: u32 = 0xfa18;
/// Upper half of causes that reset the connection.
const RESETS: u32 = 0xfa19;

impl Cause {
    /// No detail beyond the fault.
    pub const NONE: Cause = Cause(0);

    /// On a network connection, closes it instead of completing the I/O, or resets it. `number` is
    /// the lane's own.
    pub fn of_end(reset: bool, number: u16) -> Cause {
        let half = if reset { RESETS } else { ENDS };
        Cause(half << 16 | u32::from(number))
    }

    /// Whether the connection is to end, with a reset if `true`, and the lane's number of the
    /// reason.
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
    /// The storage below is full, or the quota is: the data was not written.
    NoSpace,
    /// The volume cannot do this operation.
    Unsupported,
    /// A compare found other data.
    Miscompare,
    /// The connection to the volume is lost.
    Disconnected,
    /// The I/O was aborted on request.
    Aborted,
    /// The I/O timed out: whether it was executed is unknown.
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
    /// Whether the connection was lost with the I/O, which may be sent again on another.
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
