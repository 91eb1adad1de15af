//! Faults below a volume that none of its I/Os shows.

/// Something failed below a volume, and the volume answered all the same: a leg of a mirror left,
/// or a read came from another leg.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hidden {
    /// Description of the event, in a sentence.
    pub words: String,
    /// The event persists: the volume is degraded.
    pub lasts: bool,
}

impl Hidden {
    /// Something that goes on.
    pub(crate) fn lasting(words: String) -> Hidden {
        Hidden { words, lasts: true }
    }

    /// Something that is over.
    pub(crate) fn over(words: String) -> Hidden {
        Hidden { words, lasts: false }
    }
}
