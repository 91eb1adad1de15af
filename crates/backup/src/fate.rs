//! Fate of a source during a backup, and its parts that are missing in the backup.

use std::fmt;
use std::ops::Range;

/// Fate of a source during the backup, from best to worst.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// All listed data were read.
    Whole,
    /// The file grew; its listed length was backed up.
    Grew {
        /// The new length.
        to: u64,
    },
    /// The file was truncated; the rest was backed up.
    Shrank,
    /// The file was deleted before its turn: none of its data were backed up.
    Vanished,
    /// Neither file, folder nor link: a socket, pipe or device.
    Skipped,
    /// The name leads to another file than the listed one; that file was not read.
    Changed(String),
    /// The source or parts of it cannot be read.
    Unreadable(String),
}

impl Fate {
    /// Whether the backup lacks data that its source still has.
    pub fn is_partial(&self) -> bool {
        matches!(self, Fate::Changed(_) | Fate::Unreadable(_))
    }

    /// Replaces this fate with a worse one. Of two equally bad ones the first is kept.
    pub(crate) fn worsen(&mut self, other: Fate) {
        if other.rank() > self.rank() {
            *self = other;
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Fate::Whole => 0,
            Fate::Grew { .. } => 1,
            Fate::Shrank => 2,
            Fate::Vanished => 3,
            Fate::Skipped => 4,
            Fate::Changed(_) => 5,
            Fate::Unreadable(_) => 6,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fate::Whole => f.write_str("whole"),
            Fate::Grew { to } => {
                write!(f, "grew to {to} bytes during the backup: saved up to its earlier size")
            }
            Fate::Shrank => f.write_str(
                "was truncated during the backup: the remaining data \
                was saved",
            ),
            Fate::Vanished => f.write_str("was deleted before it was read"),
            Fate::Skipped => f.write_str("is a socket, pipe or device: skipped"),
            Fate::Changed(how) => write!(f, "changed after it was listed and was not read: {how}"),
            Fate::Unreadable(why) => write!(f, "cannot be read: {why}"),
        }
    }
}

/// Why a backup has no data for a part of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// Zeroes, which need no data.
    Hole,
    /// A part that could not be read.
    Unread,
    /// A part that was truncated before it was read.
    Cut,
}

/// A part of a source without data in the backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Reason of the gap.
    pub kind: GapKind,
    /// Bytes of the source.
    pub range: Range<u64>,
}

/// Sorts gaps, and joins adjacent ones of one kind.
pub(crate) fn joined(mut gaps: Vec<Gap>) -> Vec<Gap> {
    gaps.sort_unstable_by_key(|gap| gap.range.start);
    let mut all: Vec<Gap> = Vec::with_capacity(gaps.len());
    for gap in gaps {
        match all.last_mut() {
            Some(last) if last.kind == gap.kind && last.range.end == gap.range.start => {
                last.range.end = gap.range.end;
            }
            _ => all.push(gap),
        }
    }
    all
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_fate_only_gets_worse() {
        let all = [
            Fate::Whole,
            Fate::Grew { to: 7 },
            Fate::Shrank,
            Fate::Vanished,
            Fate::Skipped,
            Fate::Changed("a link".to_owned()),
            Fate::Unreadable("input/output error".to_owned()),
        ];
        for (one, first) in all.iter().enumerate() {
            for (two, second) in all.iter().enumerate() {
                let mut fate = first.clone();
                fate.worsen(second.clone());
                assert_eq!(fate, all[one.max(two)]);
            }
        }
        let mut fate = Fate::Unreadable("first".to_owned());
        fate.worsen(Fate::Unreadable("second".to_owned()));
        assert_eq!(fate, Fate::Unreadable("first".to_owned()));
    }

    #[test]
    fn gaps_of_one_kind_that_touch_are_one() {
        let gap = |kind, range| Gap { kind, range };
        let found = joined(vec![
            gap(GapKind::Unread, 30..40),
            gap(GapKind::Hole, 0..10),
            gap(GapKind::Hole, 10..20),
            gap(GapKind::Unread, 20..30),
        ]);
        assert_eq!(found, [gap(GapKind::Hole, 0..20), gap(GapKind::Unread, 20..40)]);
    }
}
