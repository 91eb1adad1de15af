//! H12: percentiles mean what a reader expects.

use super::{Check, Verdict};
use crate::histogram::{Latencies, Latency, supports};
use crate::moments::{MOMENTS_ABOVE, TailMoments};

/// Percentiles that a result shows, with their names.
const SHOWN: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];
/// Maximum share of the total time for I/Os above the highest percentile, and maximum ratio of that
/// share to their share of the number: with exponential latencies 1 % takes 6 % of the time.
const ABOVE: (f64, f64) = (0.05, 10.0);

/// Input of H12.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// All latencies together.
    pub latencies: &'a Latencies,
    /// Latencies of each volume with few of the I/Os, or of each such worker of one volume.
    pub few: &'a [(String, Latency)],
    /// True for a closed loop: I/Os start when others complete, so none starts during a stall.
    pub closed: bool,
}

/// H12: percentiles rest on enough samples; those that do not are withheld, and a result that
/// cannot even show p99 has a warning. They must also cover stalls, which a closed loop counts only
/// once for each I/O in flight, and a volume so slow that all its I/Os are a small share.
pub fn percentiles_supported(shown: &Shown<'_>) -> Check {
    let check = |verdict, words: String| Check::new("H12", "percentiles-supported", verdict, words);
    let samples = shown.latencies.count();
    let tail = shown.latencies.tail_moments();
    let few = SHOWN.into_iter().filter(|(p, _)| !supports(samples, *p));
    let few: Vec<&str> = few.map(|(_, name)| name).collect();
    let words = if few.is_empty() {
        "every percentile has at least 100 samples above it".to_owned()
    } else {
        format!("not reported, fewer than 100 samples above them: {}", few.join(", "))
    };
    let gathered = gathered(samples, tail);
    let words =
        format!("{samples} samples; {words}{gathered}; merged histograms, error at most 0.78 %");
    if !shown.latencies.supports(0.99) {
        return check(Verdict::Warn, words).mend("--seconds 60 (10,000 I/Os support p99)");
    }
    let stalls = stalls(shown).map(|words| {
        (
            words,
            "--rate RATE (an open loop also counts the I/Os that a closed loop delays)".to_owned(),
        )
    });
    let hidden = hidden(shown);
    let findings: Vec<(String, String)> = [stalls, hidden].into_iter().flatten().collect();
    let verdict = if findings.is_empty() { Verdict::Pass } else { Verdict::Warn };
    let all: Vec<&str> = findings.iter().map(|(words, _)| &**words).chain([&*words]).collect();
    let made = check(verdict, all.join("; "));
    findings.iter().fold(made, |check, (_, mend)| check.mend(&**mend))
}

/// Returns the tails with enough samples but too few moments: a few stalls hit them all.
fn gathered(samples: u64, tail: Option<TailMoments>) -> String {
    let Some(tail) = tail else { return String::new() };
    let few = SHOWN.into_iter().filter(|(p, _)| supports(samples, *p) && !tail.supports(*p));
    let each: Vec<String> =
        few.map(|(p, name)| format!("{name} of {}", tail.of(p).unwrap_or_default())).collect();
    match each.is_empty() {
        true => String::new(),
        false => format!(
            "; not reported, samples from fewer than {MOMENTS_ABOVE} moments (of 1 ms): {}",
            each.join(", ")
        ),
    }
}

/// Returns the time that no percentile shows. In a closed loop the total time of all I/Os is the
/// window times the queue depth: the share of a few I/Os is the share of the window in which the
/// storage stalled for them.
fn stalls(shown: &Shown<'_>) -> Option<String> {
    let all = shown.latencies;
    let (p, name) = SHOWN.into_iter().rev().find(|(p, _)| all.supports(*p))?;
    let highest = all.percentile(p).filter(|_| shown.closed)?;
    let above = all.buckets().filter(|bucket| bucket.from_ns > highest);
    let (ios, took) = above.fold((0, 0.0), |(ios, took), bucket| {
        (ios + bucket.count, took + bucket.count as f64 * bucket.from_ns as f64)
    });
    let share = took / (all.sum() as f64).max(1.0);
    if share <= ABOVE.0 + ABOVE.1 * (1.0 - p) {
        return None;
    }
    Some(format!(
        "the {ios} I/Os above {name} ({:.1} µs) took {:.0} % of the time: a closed loop starts \
        no others meanwhile, so percentiles hardly show them (coordinated omission)",
        highest as f64 / 1e3,
        share * 100.0,
    ))
}

/// Returns a volume, or worker, that the overall percentiles do not show.
fn hidden(shown: &Shown<'_>) -> Option<(String, String)> {
    let p99 = shown.latencies.percentile(0.99)? as f64;
    let middle = |latency: &Latency| latency.p50.map(|ns| ns as f64).or(latency.mean);
    let slow =
        shown.few.iter().filter_map(|(name, latency)| Some((name, latency, middle(latency)?)));
    let slow: Vec<_> = slow.filter(|(.., middle)| *middle > p99).collect();
    let (name, latency, middle) = slow.iter().max_by(|a, b| a.2.total_cmp(&b.2))?;
    let more = match slow.len() - 1 {
        0 => String::new(),
        more => format!(" ({more} more like it)"),
    };
    let words = format!(
        "{name} did {} of the I/Os, with a median of {:.1} µs{more}, above the p99 of all, {:.1} \
        µs: the percentiles of all do not describe it",
        latency.samples,
        middle / 1e3,
        p99 / 1e3,
    );
    Some((words, "--json (`workers` has the percentiles of each worker)".to_owned()))
}

#[cfg(test)]
mod test {
    use super::*;

    fn judge(latencies: &Latencies) -> Check {
        percentiles_supported(&Shown { latencies, few: &[], closed: true })
    }

    fn of(parts: &[(u64, u64)]) -> Latencies {
        let mut latencies = Latencies::new();
        parts.iter().for_each(|(ns, count)| latencies.record_n(*ns, *count));
        latencies
    }

    /// H12 detects: a p99 of too few samples.
    #[test]
    fn percentiles_need_samples() {
        assert_eq!(judge(&of(&[(5, 1_000_000)])).verdict, Verdict::Pass);
        let some = judge(&of(&[(5, 10_000)]));
        assert_eq!(some.verdict, Verdict::Pass);
        assert!(some.evidence.contains("p99.9, p99.99"), "{some:?}");
        let few = judge(&of(&[(5, 9_999)]));
        assert_eq!((few.verdict, few.mend.len()), (Verdict::Warn, 1));
        assert_eq!(judge(&of(&[])).verdict, Verdict::Warn);
    }

    /// H12 detects: a p99 of 200 I/Os that two stalls delayed.
    /// H12 accepts: as many slow I/Os, each at another time.
    #[test]
    fn percentiles_need_moments() {
        let of = |each: u64| {
            let mut latencies = Latencies::new();
            for at in 0..20_000_u64 {
                latencies.turn(at / 20);
                let slow = at % (80 * each) < each;
                latencies.record(if slow { 300_000 } else { 100_000 });
            }
            judge(&latencies)
        };
        let check = of(100);
        assert_eq!((check.verdict, check.mend.len()), (Verdict::Warn, 1), "{check:?}");
        let words = "not reported, samples from fewer than 50 moments (of 1 ms): p99 of 15";
        assert!(check.evidence.contains(words), "{check:?}");
        assert_eq!(of(1).verdict, Verdict::Pass);
    }

    /// H12 detects: stalls that no percentile shows.
    #[test]
    fn stalls_of_a_closed_loop_are_told_with_the_percentile_that_hides_them() {
        // Five stops of half a second in 15 s, 8 outstanding.
        let stalled = of(&[(100_000, 1_000_000), (438_000, 20), (500_000_000, 40)]);
        let check = judge(&stalled);
        assert_eq!(check.verdict, Verdict::Warn, "{check:?}");
        assert!(check.evidence.starts_with("the 60 I/Os above p99.99 (100."), "{check:?}");
        assert!(check.evidence.contains("took 17 % of the time"), "{check:?}");
        // An open loop counts the waiting I/Os: its percentiles are right.
        let open = Shown { latencies: &stalled, few: &[], closed: false };
        assert_eq!(percentiles_supported(&open).verdict, Verdict::Pass);
        // Enough stalls for a percentile to show them.
        assert_eq!(judge(&of(&[(100_000, 990_000), (5_000_000, 10_000)])).verdict, Verdict::Pass);
    }

    /// Long tails are no stalls: exponential latencies, and log-normal ones whose p99.99 is forty
    /// times their median.
    /// H12 accepts: latency tails of honest drives.
    #[test]
    fn honest_tails_raise_no_alarm() {
        for samples in [10_000_u64, 150_000] {
            let at = |rank: u64| (rank as f64 + 0.5) / samples as f64;
            let mut exponential = Latencies::new();
            (0..samples).for_each(|n| exponential.record((-(1.0 - at(n)).ln() * 1e5) as u64));
            assert_eq!(judge(&exponential).verdict, Verdict::Pass, "{samples}");
            // The inverse of the normal distribution, approximated by the logistic one with longer
            // tails.
            let mut long = Latencies::new();
            (0..samples).for_each(|n| {
                let z = (at(n) / (1.0 - at(n))).ln() / 1.702;
                long.record(((0.7 * z).exp() * 1e5) as u64);
            });
            assert_eq!(judge(&long).verdict, Verdict::Pass, "{samples}");
        }
    }

    /// H12 detects: a slow volume above the p99 of all volumes.
    #[test]
    fn a_volume_that_no_percentile_of_all_tells_of_is_named() {
        let all = of(&[(300_000, 120_000), (160_000_000, 300)]);
        let starved = ("file:slow".to_owned(), of(&[(160_000_000, 300)]).summary());
        let check =
            percentiles_supported(&Shown { latencies: &all, few: &[starved], closed: false });
        assert_eq!(check.verdict, Verdict::Warn, "{check:?}");
        assert!(check.evidence.contains("file:slow did 300 of the I/Os"), "{check:?}");
        assert_eq!(check.mend.len(), 1, "{check:?}");
        let alike = ("file:b".to_owned(), of(&[(300_000, 300)]).summary());
        let check = percentiles_supported(&Shown { latencies: &all, few: &[alike], closed: false });
        assert_eq!(check.verdict, Verdict::Pass, "{check:?}");
    }
}
