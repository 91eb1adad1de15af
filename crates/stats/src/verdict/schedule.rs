//! H09: an open loop met its plan.

use super::{Check, Verdict};
use crate::histogram::Latency;
use crate::run::Totals;

/// Maximum lag as a share of the service time.
const LAG_SHARE: f64 = 0.05;
/// Maximum share of I/Os that may start late because the queue depth was reached.
const MISSED_SHARE: f64 = 0.001;

/// H09: no coordinated omission. In an open loop: the lag of actual starts behind planned ones,
/// compared with the service time at the same share of I/Os. The response time is no measure: lag
/// is part of it. Response times include the lag, so they are right even if this check warns; but
/// the load was not the planned one. `plans` is true if any I/O has a planned start.
pub fn schedule_kept(totals: &Totals, plans: bool) -> Check {
    let check = |verdict, words: String| Check::new("H09", "schedule-kept", verdict, words);
    let Some(paced) = &totals.paced else {
        return match plans {
            true => check(Verdict::Unknown, "lateness was not recorded".to_owned()),
            false => {
                check(Verdict::DoesNotApply, "a closed loop has no planned start times".to_owned())
            }
        };
    };
    let latest = paced.lag_ns.max.unwrap_or(0) as f64 / 1e3;
    let latest = format!("the latest {latest:.1} µs");
    let known = |of: &Latency| [(of.p99_9, "99.9 %"), (of.p99, "99 %"), (of.p90, "90 %")];
    let pairs = known(&paced.lag_ns).into_iter().zip(known(&paced.service_ns));
    let mut pairs = pairs.filter_map(|((lag, word), (service, _))| Some((lag?, service?, word)));
    let Some((lag, service, word)) = pairs.next() else {
        let words = format!("too few samples to judge lateness, {latest}");
        return check(Verdict::Unknown, words);
    };
    let share = lag as f64 / service.max(1) as f64;
    let [mean_lag, mean_service] =
        [paced.lag_ns.mean, paced.service_ns.mean].map(|mean| mean.unwrap_or(0.0));
    let mean_share = mean_lag / mean_service.max(1.0);
    let missed = paced.missed as f64 / totals.ios.max(1) as f64;
    let evidence = format!(
        "{word} started at most {:.1} µs late, {:.1} % of the service time of {:.1} µs (same \
        percentile, at most 5), {latest}, {:.1} µs on average; {} late because --outstanding \
        I/Os were in flight",
        lag as f64 / 1e3,
        share * 100.0,
        service as f64 / 1e3,
        mean_lag / 1e3,
        paced.missed,
    );
    let late = share > LAG_SHARE || mean_share > LAG_SHARE;
    let mut made = check(Verdict::Pass, evidence);
    if missed > MISSED_SHARE {
        made.verdict = Verdict::Warn;
        made = made.mend("a larger --outstanding; or the storage cannot sustain this --rate");
    } else if late {
        made.verdict = Verdict::Warn;
        made = made.mend("a lower --rate, or more --workers: the generator was late");
    }
    made
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::run::PacedTotals;

    fn flat(ns: u64) -> Latency {
        let (same, mean) = (Some(ns), Some(ns as f64));
        Latency { p90: same, p99: same, p99_9: same, mean, max: same, ..Latency::default() }
    }

    fn judge(lag_ns: Latency, missed: u64) -> Check {
        let paced =
            PacedTotals { lag_ns, service_ns: flat(100_000), missed, ..PacedTotals::default() };
        // The response time is no measure, whatever its length.
        let totals = Totals { ios: 30_000, latency_ns: flat(1 << 40), ..Totals::default() };
        schedule_kept(&Totals { paced: Some(paced), ..totals }, true)
    }

    /// H09 detects: I/Os that start late.
    #[test]
    fn a_missed_schedule_is_said() {
        assert_eq!(judge(flat(5_000), 0).verdict, Verdict::Pass);
        assert_eq!(judge(flat(5_001), 0).verdict, Verdict::Warn);
        assert_eq!(judge(flat(5_000), 30).verdict, Verdict::Pass);
        let check = judge(flat(5_000), 31);
        assert_eq!((check.verdict, check.mend.len()), (Verdict::Warn, 1));
        let none = |plans| schedule_kept(&Totals::default(), plans).verdict;
        assert_eq!([false, true].map(none), [Verdict::DoesNotApply, Verdict::Unknown]);
    }

    /// H09 accepts: one of thousands of I/Os starts late.
    #[test]
    fn one_late_start_is_no_schedule_missed() {
        // One of 30,000 started 4 ms late: p99.9 is unknown, and the maximum is named as such.
        let lag = Latency { p99_9: None, mean: Some(150.0), max: Some(3_917_500), ..flat(4_960) };
        let check = judge(lag, 0);
        assert_eq!(check.verdict, Verdict::Pass, "{check:?}");
        assert!(check.evidence.starts_with("99 % started at most 5.0 µs late, 5.0 %"), "{check:?}");
        assert!(check.evidence.contains("the latest 3917.5 µs"), "{check:?}");
        let few = Latency { max: Some(9_000_000), ..Latency::default() };
        let check = judge(few, 0);
        assert_eq!(check.verdict, Verdict::Unknown);
        assert!(!check.evidence.contains('%'), "{check:?}");
    }

    /// H09 detects: lag of few I/Os that raises the mean of all.
    #[test]
    fn lag_that_few_have_and_all_pay_for_is_said() {
        // Five stops of half a second in 15 s: 0.05 % would not show them, the mean does.
        let lag = Latency { mean: Some(40e6), max: Some(500_000_000), ..flat(100) };
        assert_eq!(judge(lag, 0).verdict, Verdict::Warn);
    }
}
