//! How a figure is known, where it was not counted in a run of our own.

use serde::{Deserialize, Serialize};

/// How a figure is known, the surest first: what rests on several figures is of the greatest of
/// their kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The maker, or a standard, says so.
    Spec,
    /// Somebody measured it.
    Measured,
    /// It follows from other figures by arithmetic.
    Derived,
    /// It was chosen so that a model meets a published result.
    Fit,
    /// Somebody supposes it.
    Guess,
}

impl Kind {
    /// The word for it.
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
