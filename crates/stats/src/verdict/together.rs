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

/// Bytes as MiB.
pub(super) fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
