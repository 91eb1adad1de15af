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
    let more = all.len().saturating_sub(LISTED);
    let listed: Vec<String> = all.into_iter().take(LISTED).map(|(_, words)| words).collect();
    let mut words = listed.join("; ");
    if more > 0 {
        words += &format!("; … and {more} more");
    }
    Check::new(code, name, verdict, words)
}

/// Checks of the same number become one, with the worst verdict and all that was found: a host and
/// its disks are looked at by different means.
pub fn joined(checks: Vec<Check>) -> Vec<Check> {
    let mut all: Vec<Check> = Vec::with_capacity(checks.len());
    for check in checks {
        let Some(first) = all.iter_mut().find(|first| first.code == check.code) else {
            all.push(check);
            continue;
        };
        // The worse one stands first: it is what a reader must see.
        let (front, back) = match check.verdict.rank() > first.verdict.rank() {
            true => (&check.evidence, &first.evidence),
            false => (&first.evidence, &check.evidence),
        };
        first.evidence = format!("{front}; {back}");
        first.verdict = first.verdict.worse(check.verdict);
        check.mend.into_iter().for_each(|command| {
            if !first.mend.contains(&command) {
                first.mend.push(command);
            }
        });
    }
    all
}

/// Bytes as MiB.
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
    }
}
