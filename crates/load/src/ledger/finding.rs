//! Findings of a verification.

use std::fmt;

/// A block with wrong data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Offset on the volume, in bytes.
    pub offset: u64,
    /// Kind of the error.
    pub kind: FindingKind,
}

/// Kinds of wrong data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// Erased, but holds an older write.
    Kept {
        /// The write found.
        found: u32,
        /// The last acknowledged trim or zeroing.
        erased: u32,
    },
    /// Empty in spite of acknowledged writes.
    Lost {
        /// The last acknowledged write.
        acknowledged: u32,
    },
    /// Holds an older write than the last acknowledged one.
    Stale {
        /// The write found.
        found: u32,
        /// The last acknowledged write.
        acknowledged: u32,
    },
    /// Holds parts of different writes, or damaged ones.
    Torn,
    /// Holds data of another block or writer.
    Foreign,
    /// Holds a write that was never begun.
    Future {
        /// The write found.
        found: u32,
        /// The last begun write.
        begun: u32,
    },
    /// The block has data of another block, from any run.
    Misplaced {
        /// The offset in its stamp.
        place: u64,
    },
    /// Has no stamp, though an earlier run should have written one.
    Unstamped,
    /// A byte differs from the data pattern.
    Differs {
        /// Offset of the byte on the volume.
        at: u64,
        /// The byte found.
        found: u8,
        /// The byte expected.
        wanted: u8,
    },
}

impl FindingKind {
    /// The kind in a word.
    pub fn word(self) -> &'static str {
        match self {
            FindingKind::Kept { .. } => "kept",
            FindingKind::Lost { .. } => "lost",
            FindingKind::Stale { .. } => "stale",
            FindingKind::Torn => "torn",
            FindingKind::Foreign => "foreign",
            FindingKind::Future { .. } => "from the future",
            FindingKind::Misplaced { .. } => "misplaced",
            FindingKind::Unstamped => "unstamped",
            FindingKind::Differs { .. } => "differs",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.kind.word())?;
        match self.kind {
            FindingKind::Kept { found, erased } => {
                write!(f, ", write {found} where erasure {erased} was acknowledged")
            }
            FindingKind::Lost { acknowledged } => {
                let times = if acknowledged == 1 { "" } else { "s" };
                write!(f, ", empty after {acknowledged} acknowledged write{times}")
            }
            FindingKind::Stale { found, acknowledged } => {
                write!(f, ", write {found} where write {acknowledged} was acknowledged")
            }
            FindingKind::Torn => f.write_str(", a torn block: parts of different writes"),
            FindingKind::Foreign => f.write_str(", has the stamp of another block"),
            FindingKind::Future { found, begun } => {
                write!(f, ", write {found} where only {begun} were submitted")
            }
            FindingKind::Misplaced { place } => {
                write!(f, ", has the stamp of byte {place}")
            }
            FindingKind::Unstamped => f.write_str(", not written by a run with verification"),
            FindingKind::Differs { at, found, wanted } => {
                write!(f, ", {found:#04x} at byte {at} where the pattern has {wanted:#04x}")
            }
        }
    }
}
