//! Bounds that a user set, as `p99>500us`, and what figures came to beside them: part of a result,
//! so that every report says what the exit code said.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A bound and what it came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// As it was given: `p99>500us` must not be.
    pub bound: String,
    /// Of what, as `size=4k`; empty where there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Whether it was crossed.
    pub verdict: Kept,
    /// The figures, in words.
    pub evidence: String,
}

/// Whether a bound was crossed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// No.
    Kept,
    /// Yes, or it cannot be told and that counts as a miss: the job is to fail.
    #[default]
    Missed,
    /// Cannot be told, which the user said to ignore.
    Unknown,
}

/// What stands before the evidence of a miss that is one because nothing can be told.
const CANNOT_TELL: &str = "cannot tell: ";

impl Bound {
    /// What a user is told: what cannot be told is missed, unless it is to be ignored.
    #[must_use]
    pub fn settled(mut self, ignores_unknown: bool) -> Bound {
        if self.verdict == Kept::Unknown && !ignores_unknown {
            self.verdict = Kept::Missed;
            self.evidence.insert_str(0, CANNOT_TELL);
        }
        self
    }

    /// Whether the job is to fail for it.
    pub fn is_missed(&self) -> bool {
        self.verdict == Kept::Missed
    }

    /// What must not be, and of what: `size=4k fail if p99>500us`.
    pub fn name(&self) -> String {
        let gap = if self.of.is_empty() { "" } else { " " };
        format!("{}{gap}fail if {}", self.of, self.bound)
    }
}

impl Kept {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Kept::Kept => "kept",
            Kept::Missed => "MISSED",
            Kept::Unknown => "cannot tell",
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.verdict.word(), self.name(), self.evidence)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_cannot_be_told_is_missed_unless_it_is_ignored() {
        let of = |verdict, ignores| {
            let bound = Bound { bound: "p99>1us".into(), verdict, ..Bound::default() };
            Bound { evidence: "too few".into(), ..bound }.settled(ignores).to_string()
        };
        assert_eq!(of(Kept::Unknown, false), "MISSED: fail if p99>1us: cannot tell: too few");
        assert_eq!(of(Kept::Unknown, true), "cannot tell: fail if p99>1us: too few");
        assert_eq!(of(Kept::Missed, true), "MISSED: fail if p99>1us: too few");
        assert_eq!(of(Kept::Kept, false), "kept: fail if p99>1us: too few");
    }

    #[test]
    fn a_bound_is_read_back() {
        let bound = Bound { of: "size=4k".into(), verdict: Kept::Kept, ..Bound::default() };
        let text = serde_json::to_string(&bound).unwrap();
        assert_eq!(serde_json::from_str::<Bound>(&text).unwrap(), bound);
        assert!(text.contains("\"verdict\":\"kept\""), "{text}");
        assert_eq!(bound.name(), "size=4k fail if ");
    }
}
