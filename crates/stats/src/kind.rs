//! Provenance of a figure that was not counted in a run of our own.

use serde::{Deserialize, Serialize};

/// Provenance of a figure, the most certain first: a figure derived from several others has the
/// greatest of their kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Published by the manufacturer or a standard.
    Spec,
    /// Measured by a third party.
    Measured,
    /// Derived from other figures by arithmetic.
    Derived,
    /// Chosen so that a model meets a published result.
    Fit,
    /// Assumed.
    Guess,
}

impl Kind {
    /// Returns the word for the kind.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Spec => "spec",
            Kind::Measured => "measured",
            Kind::Derived => "derived",
            Kind::Fit => "fit",
            Kind::Guess => "guess",
        }
    }
}
