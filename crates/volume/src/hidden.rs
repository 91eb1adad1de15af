//! Faults below a volume that none of its I/Os shows.

/// Something failed below a volume, and the volume answered all the same: a leg of a mirror left,
/// or a read came from another leg.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hidden {
    /// What happened, in a sentence.
    pub words: String,
    /// It goes on: the volume is less than it was.
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
