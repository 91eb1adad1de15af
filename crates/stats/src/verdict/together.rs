//! Combination of findings on several things into one check.

use super::{Check, Verdict};

/// Finding on one of several things, in words that begin with its name.
pub type Finding = (Verdict, String);

/// Maximum number of listed things; more are counted: fifty volumes are still one line.
pub(super) const LISTED: usize = 2;

/// Combines several findings into one check: the worst verdict, and the finding of each.
pub(super) fn together(
    code: &str,
    name: &str,
    judged: impl Iterator<Item = Finding>,
    nothing: &str,
) -> Check {
    let mut all: Vec<Finding> = judged.collect();
    let Some(verdict) = all.iter().map(|(verdict, _)| *verdict).reduce(Verdict::worse) else {
        return Check::new(code, name, Verdict::Unknown, nothing);
    };
    // A thing to which the check does not apply is mentioned only if it applies to none.
    all.retain(|(one, _)| verdict == Verdict::DoesNotApply || *one != Verdict::DoesNotApply);
    // The worst finding is first, as a reader must see it.
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

/// Merges checks of the same number, with the worst verdict and all findings: a host and its disks
/// are checked by different means.
pub fn joined(checks: Vec<Check>) -> Vec<Check> {
    let mut all: Vec<Check> = Vec::with_capacity(checks.len());
    for check in checks {
        let Some(first) = all.iter_mut().find(|first| first.code == check.code) else {
            all.push(check);
            continue;
        };
        // The worse finding is first, as a reader must see it.
        let is_worse = check.verdict.rank() > first.verdict.rank();
        let (front, back) = match is_worse {
            true => (&check.evidence, &first.evidence),
            false => (&first.evidence, &check.evidence),
        };
        let least = if is_worse { first.verdict } else { check.verdict };
        // A check that does not apply adds nothing to one that does.
        first.evidence = match least {
            Verdict::DoesNotApply => front.clone(),
            _ => format!("{front}; {back}"),
        };
        first.verdict = first.verdict.worse(check.verdict);
        check.mend.into_iter().for_each(|command| {
            if !first.mend.contains(&command) {
                first.mend.push(command);
            }
        });
    }
    all
}

/// Things with the same finding.
struct Group {
    verdict: Verdict,
    /// Words of the first of them.
    first: String,
    count: usize,
}

impl Group {
    /// Returns the words of the first, and the number of further ones.
    fn words(self) -> String {
        match self.count - 1 {
            0 => self.first,
            more => format!("{} (and of {more} more)", self.first),
        }
    }
}

/// Returns the text after a name, as in "file:a: never written"; all of it if there is no name.
fn found(words: &str) -> &str {
    words.split_once(": ").map_or(words, |(_, found)| found)
}

/// Merges equal findings: nobody reads fifty identical lines.
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

/// Formats bytes as KiB.
pub(super) fn kib(bytes: u64) -> String {
    format!("{:.1} KiB", bytes as f64 / 1024.0)
}

/// Formats bytes as MiB.
pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn checks_of_one_number_are_one() {
        let check = |code, verdict, words| Check::new(code, "name", verdict, words).mend("do");
        let all = joined(vec![
            check("H17", Verdict::Pass, "quiet"),
            check("H18", Verdict::Pass, "none"),
            check("H17", Verdict::Warn, "the disk was used"),
            check("H17", Verdict::Unknown, "or not"),
        ]);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].verdict, all[0].mend.len()), (Verdict::Warn, 1));
        assert_eq!(all[0].evidence, "the disk was used; quiet; or not");
        let part = || {
            vec![
                check("H17", Verdict::DoesNotApply, "no disk"),
                check("H17", Verdict::Pass, "quiet"),
            ]
        };
        assert_eq!(
            (joined(part())[0].verdict, &*joined(part())[0].evidence),
            (Verdict::Pass, "quiet")
        );
    }

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
        let skips = (Verdict::DoesNotApply, "z: memory");
        assert_eq!(said(&[skips, (pass, "b: x")]), "b: x");
        assert_eq!(said(&[skips, skips]), "z: memory (and of 1 more)");
        // Same words with a worse verdict are a different finding.
        assert_eq!(said(&[(warn, "a: x"), (pass, "b: x")]), "a: x; b: x");
        assert_eq!(said(&[(warn, "no name"), (warn, "no name")]), "no name (and of 1 more)");
    }
}
