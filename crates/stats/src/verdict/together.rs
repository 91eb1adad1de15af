//! One check out of what was found of several things.

use super::{Check, Verdict};

/// More things than these are counted, not listed: fifty volumes are one line all the same.
pub(super) const LISTED: usize = 2;

/// One check out of several things: the worst verdict, and what was found of each.
pub(super) fn together(
    code: &str,
    name: &str,
    judged: impl Iterator<Item = (Verdict, String)>,
    nothing: &str,
) -> Check {
    let mut all: Vec<(Verdict, String)> = judged.collect();
    if all.is_empty() {
        return Check::new(code, name, Verdict::Unknown, nothing);
    }
    let verdict = all.iter().fold(Verdict::Pass, |worst, (verdict, _)| worst.worse(*verdict));
    // The worst first: those are what a reader must see.
    all.sort_by_key(|(one, _)| std::cmp::Reverse(one.rank()));
    let groups = grouped(all);
    let more: usize = groups.iter().skip(LISTED).map(|group| group.count).sum();
    let listed: Vec<String> = groups.into_iter().take(LISTED).map(Group::words).collect();
    let mut words = listed.join("; ");
    if more > 0 {
        words += &format!("; … and {more} more");
    }
    Check::new(code, name, verdict, words)
}

/// Things of which the same was found.
struct Group {
    verdict: Verdict,
    /// As it was said of the first of them.
    first: String,
    count: usize,
}

impl Group {
    /// What was found of the first, and of how many more.
    fn words(self) -> String {
        match self.count - 1 {
            0 => self.first,
            more => format!("{} (and of {more} more)", self.first),
        }
    }
}

/// What is said behind a name, as "file:a: never written"; all of it where there is none.
fn found(words: &str) -> &str {
    words.split_once(": ").map_or(words, |(_, found)| found)
}

/// Equal findings become one: whoever reads fifty times the same reads nothing.
fn grouped(all: Vec<(Verdict, String)>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (verdict, words) in all {
        let same =
            |group: &&mut Group| group.verdict == verdict && found(&group.first) == found(&words);
        match groups.iter_mut().find(same) {
            Some(group) => group.count += 1,
            None => groups.push(Group { verdict, first: words, count: 1 }),
        }
    }
    groups
}

/// Bytes as MiB.
pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_found_of_several_is_said_once() {
        let said = |judged: &[(Verdict, &str)]| {
            let judged = judged.iter().map(|(verdict, words)| (*verdict, (*words).to_owned()));
            together("H02", "data-exist", judged, "nothing").evidence
        };
        let (pass, warn) = (Verdict::Pass, Verdict::Warn);
        assert_eq!(said(&[(warn, "file:a: zeroes")]), "file:a: zeroes");
        let three = [(warn, "iscsi://[::1]:1/a/1: zeroes"), (pass, "b: fine"), (warn, "c: zeroes")];
        assert_eq!(said(&three), "iscsi://[::1]:1/a/1: zeroes (and of 1 more); b: fine");
        let many: Vec<(Verdict, &str)> =
            [(warn, "b: zeroes"), (warn, "c: holes"), (warn, "d: holes"), (warn, "e: 7")]
                .into_iter()
                .chain([(pass, "x: fine"); 5])
                .collect();
        assert_eq!(said(&many), "b: zeroes; c: holes (and of 1 more); … and 6 more");
        // The same of what is worse is another thing.
        assert_eq!(said(&[(warn, "a: x"), (pass, "b: x")]), "a: x; b: x");
        assert_eq!(said(&[(warn, "no name"), (warn, "no name")]), "no name (and of 1 more)");
    }
}
