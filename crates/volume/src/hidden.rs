//! Faults below a volume that none of its I/Os reports.

/// A fault below a volume that still completed the I/O: a leg of a mirror failed, or another leg
/// served a read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hidden {
    /// Description of the event, in a sentence.
    pub words: String,
    /// The event persists: the volume is degraded.
    pub lasts: bool,
}

impl Hidden {
    /// An event that persists.
    pub(crate) fn lasting(words: String) -> Hidden {
        Hidden { words, lasts: true }
    }

    /// An event that is over.
    pub(crate) fn over(words: String) -> Hidden {
        Hidden { words, lasts: false }
    }
}
