//! Bounds that a user set, such as `p99>500us`, with the figures measured for them. They are part
//! of a result, so every report agrees with the exit code.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A bound and its verdict.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The bound as the user wrote it: `p99>500us` is the condition of failure.
    pub bound: String,
    /// Scope of the bound, such as `size=4k`; empty if there is only one scope.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// Figure compared with the bound: I/Os or bytes per second, nanoseconds, a count, or the ratio
    /// of the second side to the first; the median of several runs. `None` if it is not known.
    #[serde(default)]
    pub value: Option<f64>,
    /// Verdict: met, missed or unknown.
    pub verdict: Kept,
    /// Measured figures, as text.
    pub evidence: String,
}

/// Verdict on a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// The bound is met.
    Kept,
    /// The bound is missed, or its verdict is unknown and counts as a miss: the job fails.
    #[default]
    Missed,
    /// The verdict is unknown, and the user said to ignore that.
    Unknown,
}

/// Prefix of the evidence of a miss whose verdict was unknown.
const CANNOT_TELL: &str = "cannot tell: ";

impl Bound {
    /// Returns the final verdict: an unknown one is a miss unless `ignores_unknown`.
    #[must_use]
    pub fn settled(mut self, ignores_unknown: bool) -> Bound {
        if self.verdict == Kept::Unknown && !ignores_unknown {
            self.verdict = Kept::Missed;
            self.evidence.insert_str(0, CANNOT_TELL);
        }
        self
    }

    /// Returns whether the job fails because of this bound.
    pub fn is_missed(&self) -> bool {
        self.verdict == Kept::Missed
    }

    /// Returns the scope and the condition of failure: `size=4k fail if p99>500us`.
    pub fn name(&self) -> String {
        let gap = if self.of.is_empty() { "" } else { " " };
        format!("{}{gap}fail if {}", self.of, self.bound)
    }
}

impl Kept {
    /// Returns the word for the verdict.
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
