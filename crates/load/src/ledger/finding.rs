//! What may be found wrong with a block.

use std::fmt;

/// A block that does not hold what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finding {
    /// First byte of it on the volume.
    pub offset: u64,
    /// What is wrong.
    pub kind: FindingKind,
}

/// What can be wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// It was erased, and holds an older write.
    Kept {
        /// The write that it holds.
        found: u32,
        /// The trim or zeroing that was acknowledged last.
        erased: u32,
    },
    /// Its writes were acknowledged, and it is empty.
    Lost {
        /// The write that was acknowledged last.
        acknowledged: u32,
    },
    /// It holds an older write than the one that was acknowledged last.
    Stale {
        /// The write that it holds.
        found: u32,
        /// The write that was acknowledged last.
        acknowledged: u32,
    },
    /// It holds parts of different writes, or damaged ones.
    Torn,
    /// It holds what was written elsewhere or by somebody else.
    Foreign,
    /// It holds a write that was never begun.
    Future {
        /// The write that it holds.
        found: u32,
        /// The write that was begun last.
        begun: u32,
    },
    /// Whoever wrote it, it holds what belongs elsewhere.
    Misplaced {
        /// The byte of the volume that its stamp names.
        place: u64,
    },
    /// It was to be stamped by an earlier run, and is not.
    Unstamped,
    /// A byte is not what the data pattern says.
    Differs {
        /// Which byte of the volume.
        at: u64,
        /// What it is.
        found: u8,
        /// What it should be.
        wanted: u8,
    },
}

impl FindingKind {
    /// One word for it.
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
            FindingKind::Torn => {
                f.write_str(", a torn block: its parts belong to different writes")
            }
            FindingKind::Foreign => f.write_str(", a stamp of another block"),
            FindingKind::Future { found, begun } => {
                write!(f, ", write {found} where only {begun} were begun")
            }
            FindingKind::Misplaced { place } => {
                write!(f, ", its stamp is that of byte {place}")
            }
            FindingKind::Unstamped => f.write_str(", no run that verifies wrote it"),
            FindingKind::Differs { at, found, wanted } => {
                write!(f, ", {found:#04x} at byte {at} where the pattern has {wanted:#04x}")
            }
        }
    }
}
