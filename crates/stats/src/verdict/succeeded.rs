//! H21: I/Os succeeded, and all of them.

use super::{Check, Verdict};
use crate::run::Totals;

/// Maximum share of failed I/Os, in percent; with more, the rate is that of a broken volume.
const FAILED_PERCENT: f64 = 1.0;
/// Maximum share of unanswered I/Os in the queue depth, in percent: beyond it rate and latency are
/// those of the remaining I/Os.
const WAITED_PERCENT: f64 = 10.0;
/// Maximum number of hidden faults to list; the rest is counted.
const HIDDEN_TOLD: usize = 4;

/// H21: I/Os succeeded. Failed I/Os are in no rate and in no latency, yet they occupy queue depth;
/// those that are never answered have no known latency. `hidden` are faults below a volume that no
/// I/O shows, a sentence each: a mirror continues with the remaining legs, and is measured with
/// these.
pub fn ios_succeeded(totals: &Totals, hidden: &[String]) -> Check {
    let check = |verdict, evidence: String| Check::new("H21", "ios-succeeded", verdict, evidence);
    let all = totals.completed() + totals.errors;
    let findings: Vec<(Verdict, String, &str)> =
        [failed(totals), waiting(totals), below(hidden), sent_again(totals), in_the_ramp(totals)]
            .into_iter()
            .flatten()
            .collect();
    let Some(verdict) = findings.iter().map(|(verdict, ..)| *verdict).reduce(Verdict::worse) else {
        return match all {
            0 => check(Verdict::Unknown, "no I/O ended in the measured window".to_owned()),
            _ => check(Verdict::Pass, format!("all {all} I/Os completed without error")),
        };
    };
    let words: Vec<&str> = findings.iter().map(|(_, words, _)| &**words).collect();
    let made = check(verdict, words.join("; "));
    findings.iter().fold(made, |check, (.., mend)| check.mend(*mend))
}

fn failed(totals: &Totals) -> Option<(Verdict, String, &'static str)> {
    let all = totals.completed() + totals.errors;
    let percent = totals.errors as f64 / all.max(1) as f64 * 100.0;
    let verdict = if percent > FAILED_PERCENT { Verdict::Fail } else { Verdict::Warn };
    let words = format!(
        "{} of {all} I/Os failed, {percent:.2} % (at most {FAILED_PERCENT:.0}); rate and \
        latencies do not include them",
        totals.errors
    );
    let mend = "dmesg | tail (kernel messages; for a target see its log)";
    (totals.errors > 0).then_some((verdict, words, mend))
}

fn waiting(totals: &Totals) -> Option<(Verdict, String, &'static str)> {
    let waiting = totals.waiting;
    let oldest_s = waiting.oldest_ns as f64 / 1e9;
    // No I/O is in flight within the window for longer than the window.
    let waited = waiting.ios as f64 * oldest_s.min(totals.seconds);
    let percent = waited / (totals.mean_outstanding * totals.seconds).max(1e-9) * 100.0;
    let fails = percent > WAITED_PERCENT || totals.completed() == 0;
    let verdict = if fails { Verdict::Fail } else { Verdict::Warn };
    let words = format!(
        "{} I/Os were never answered, the oldest for {oldest_s:.2} s: up to {:.0} % of those in \
        flight (at most {WAITED_PERCENT:.0}); their latency is not known",
        waiting.ios,
        percent.min(100.0),
    );
    let mend = "--seconds 60 (distinguishes late completions from lost ones)";
    (waiting.ios > 0).then_some((verdict, words, mend))
}

/// Returns the faults below a volume whose I/Os succeeded nevertheless.
fn below(hidden: &[String]) -> Option<(Verdict, String, &'static str)> {
    let told: Vec<&str> = hidden.iter().take(HIDDEN_TOLD).map(String::as_str).collect();
    let more = match hidden.len().saturating_sub(HIDDEN_TOLD) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let words = format!("faults that no I/O shows: {}{more}", told.join("; "));
    let mend = "drumfire run LEG (with the same flags, to test the leg alone)";
    (!hidden.is_empty()).then_some((Verdict::Warn, words, mend))
}

/// Returns the connections that were lost and restored, in the ramp too: I/Os in flight are sent
/// again, and succeed.
fn sent_again(totals: &Totals) -> Option<(Verdict, String, &'static str)> {
    let (window, ramp) = (totals.connections.reconnects, totals.ramp.reconnects);
    let all = window + ramp;
    let before = if ramp > 0 { format!(", {ramp} of them in the ramp") } else { String::new() };
    let words = format!(
        "{all} connections were made again{before}: I/Os in flight were sent again or failed"
    );
    let mend = "ss -tin (retransmissions, round trips; see the target's log for the reason)";
    (all > 0).then_some((Verdict::Warn, words, mend))
}

fn in_the_ramp(totals: &Totals) -> Option<(Verdict, String, &'static str)> {
    let words = format!(
        "{} I/Os failed before the measured window, in the ramp: the measured load may be less \
         than requested",
        totals.ramp_errors
    );
    let mend = "--ramp 0 (the report then lists the failures)";
    (totals.ramp_errors > 0).then_some((Verdict::Warn, words, mend))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::run::Waiting;

    /// H21 detects: 1 % of the I/Os and more fail.
    /// H21 accepts: no I/O of a thousand fails.
    #[test]
    fn failed_ios_are_said() {
        let verdict =
            |ios, errors| ios_succeeded(&Totals { ios, errors, ..Totals::default() }, &[]);
        assert_eq!(verdict(1000, 0).verdict, Verdict::Pass);
        assert_eq!(verdict(990, 10).verdict, Verdict::Warn);
        assert_eq!(verdict(989, 11).verdict, Verdict::Fail);
        assert_eq!(verdict(0, 1).verdict, Verdict::Fail);
        assert_eq!(verdict(0, 0).verdict, Verdict::Unknown);
        let words = verdict(3, 1).evidence;
        assert!(words.starts_with("1 of 4 I/Os failed, 25.00 % (at most 1)"), "{words}");
        assert_eq!(verdict(3, 1).mend.len(), 1);
    }

    /// H21 detects: four I/Os wait for four of five seconds.
    /// H21 accepts: no I/O waits.
    #[test]
    fn ios_that_wait_are_said() {
        let judge = |ios, oldest_s: f64| {
            let waiting = Waiting { ios, oldest_ns: (oldest_s * 1e9) as u64 };
            let (seconds, mean_outstanding) = (5.0, 8.0);
            let totals = Totals { ios: 1_000_000, seconds, mean_outstanding, ..Totals::default() };
            ios_succeeded(&Totals { waiting, ..totals }, &[])
        };
        assert_eq!(judge(0, 0.0).verdict, Verdict::Pass);
        // One of two targets was silent for the last four seconds.
        let check = judge(4, 4.0);
        assert_eq!(check.verdict, Verdict::Fail, "{check:?}");
        assert!(
            check
                .evidence
                .contains("4 I/Os were never answered, the oldest for 4.00 s: up to 40 %")
        );
        assert_eq!(judge(1, 0.5).verdict, Verdict::Warn);
        // All I/Os waited, for longer than the window.
        let waiting = Waiting { ios: 8, oldest_ns: 15_000_000_000 };
        let check = ios_succeeded(&Totals { waiting, seconds: 5.0, ..Totals::default() }, &[]);
        assert_eq!(check.verdict, Verdict::Fail);
    }

    /// H21 detects: 214 I/Os failed in the ramp.
    #[test]
    fn errors_of_the_ramp_are_said() {
        let totals = Totals { ios: 1_000_000, ramp_errors: 214, ..Totals::default() };
        let check = ios_succeeded(&totals, &[]);
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.evidence.contains("214 I/Os failed before"), "{check:?}");
        assert!(check.mend[0].starts_with("--ramp 0"), "{check:?}");
    }

    /// H21 detects: a mirror loses a leg, and no I/O fails.
    /// H21 accepts: both legs are active.
    #[test]
    fn a_leg_that_was_lost_is_said() {
        let totals = Totals { ios: 1000, ..Totals::default() };
        let judge = |hidden: &[String]| ios_succeeded(&totals, hidden);
        assert_eq!(judge(&[]).verdict, Verdict::Pass);
        let left = "mirror: leg 2 (ram:16m) left: write failed".to_owned();
        let check = judge(std::slice::from_ref(&left));
        assert_eq!((check.verdict, check.mend.len()), (Verdict::Warn, 1));
        assert_eq!(check.evidence, format!("faults that no I/O shows: {left}"));
        let check = judge(&vec![left; 9]);
        assert!(check.evidence.ends_with("; and 5 more"), "{check:?}");
    }

    /// H21 detects: a connection is re-established in the ramp, and no I/O fails.
    /// H21 accepts: no connection was lost.
    #[test]
    fn ios_that_were_sent_again_are_said() {
        let judge = |window, in_ramp| {
            let mut totals = Totals { ios: 1000, ..Totals::default() };
            (totals.connections.reconnects, totals.ramp.reconnects) = (window, in_ramp);
            ios_succeeded(&totals, &[])
        };
        assert_eq!(judge(0, 0).verdict, Verdict::Pass);
        let check = judge(0, 2);
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.evidence.starts_with("2 connections were made again, 2 of them in the ramp"));
        assert!(judge(1, 0).evidence.starts_with("1 connections were made again: I/Os in flight"));
    }
}
