//! H26: detects a rate that is a burst: credits of a cloud or an array that run out, or a cache
//! that fills.

use super::together::{Finding, together};
use super::{Check, Verdict};
use crate::run::Second;

/// Source that may give a volume a temporary rate.
#[derive(Clone, Debug, PartialEq)]
pub enum Lender {
    /// No source: memory of this host, or no medium at all, for the given reason.
    Nothing(String),
    /// The disk itself, with its description: a rate that fell is reported all the same.
    Disk(String),
    /// A hypervisor or another host, with its description, and the maximum duration of its credits
    /// in seconds.
    Credits(String, f64),
}

/// Maximum ratio of a rate to the one before for the two to be different rates.
const BASE_SHARE: f64 = 0.8;
/// Minimum number of seconds before and after a fall: fewer are a stall.
const LEAST: [usize; 2] = [2, 3];
/// Maximum share of seconds on the wrong side of a fall: one of twenty.
const STRAY: f64 = 0.05;
/// Maximum standard deviation of the rates on each side, as a share of their mean: limits are even.
const SCATTER: f64 = 0.15;
/// Factor by which credits that are refilled meanwhile prolong a burst.
const REFILL: f64 = 1.1;

/// A lasting fall of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fall {
    /// Time of the fall, in seconds from the beginning of the window.
    at_s: f64,
    /// I/Os per second before and after.
    rates: [f64; 2],
}

/// H26: the rate can last. `seconds` are those of the window, and `driven_s` is the time for which
/// the volumes were driven until its end, with the ramp. A longer burst does not show.
pub fn burst_credits(seconds: &[Second], driven_s: f64, lenders: &[Lender]) -> Check {
    let fall = fall(seconds);
    let judged = lenders.iter().map(|lender| lender.judge(fall, driven_s));
    let check = together("H26", "burst-credits", judged, "no volume was examined");
    match (check.verdict, needed_s(lenders)) {
        (Verdict::Warn, _) => {
            let at_s = fall.map_or(0.0, |fall| fall.at_s).ceil();
            check.mend(format!(
                "drumfire run … --ramp {at_s:.0} # uses up the burst credits before the measured \
                window"
            ))
        }
        (Verdict::Unknown, Some(needed_s)) => {
            check.mend(format!("--seconds {:.0}", needed_s.ceil()))
        }
        _ => check,
    }
}

/// Returns the time in seconds for which the volumes must be driven before a burst has ended;
/// `None` if no source gives credits.
fn needed_s(lenders: &[Lender]) -> Option<f64> {
    let lasts = |lender: &Lender| match lender {
        Lender::Credits(_, lasts_s) => Some(lasts_s * REFILL),
        Lender::Nothing(_) | Lender::Disk(_) => None,
    };
    lenders.iter().filter_map(lasts).reduce(f64::max)
}

impl Lender {
    fn judge(&self, fall: Option<Fall>, driven_s: f64) -> Finding {
        let (words, lasts_s) = match (self, fall) {
            (Lender::Nothing(words), _) => return (Verdict::DoesNotApply, words.clone()),
            (Lender::Disk(words) | Lender::Credits(words, _), Some(fall)) => {
                return (Verdict::Warn, format!("{words}; {}", fall.words()));
            }
            (Lender::Disk(words), None) => return (Verdict::DoesNotApply, words.clone()),
            (Lender::Credits(words, lasts_s), None) => (words, *lasts_s),
        };
        let needed_s = lasts_s * REFILL;
        if driven_s >= needed_s {
            let words = format!(
                "{words}: no drop in {driven_s:.0} s; burst credits for {lasts_s:.0} s would have \
                run out"
            );
            return (Verdict::Pass, words);
        }
        let words = format!(
            "{words}, with bursts of up to {lasts_s:.0} s: {driven_s:.0} s are too short to show \
            the rate after a burst (at least {needed_s:.0})"
        );
        (Verdict::Unknown, words)
    }
}

impl Fall {
    fn words(self) -> String {
        let [before, after] = self.rates;
        format!(
            "the rate dropped from {before:.0} to {after:.0} IOPS after {:.0} s and stayed \
            there, as when burst credits or a cache are exhausted",
            self.at_s
        )
    }
}

/// Returns the point where rates fall to a lasting lower one, if a single point explains them.
fn fall(seconds: &[Second]) -> Option<Fall> {
    // The last row may be very short.
    let whole = seconds.iter().filter(|second| second.seconds == 0.0 || second.seconds >= 0.5);
    let rates: Vec<(f64, f64)> = whole.map(|second| (second.t, second.iops)).collect();
    let splits = LEAST[0]..(rates.len() + 1).saturating_sub(LEAST[1]);
    let explained = |at: usize| {
        let (before, after) = rates.split_at(at);
        let (high, low) = (mean(before), mean(after));
        let weight = (before.len() * after.len()) as f64;
        (at, (high - low) * (high - low).abs() * weight)
    };
    let (at, _) = splits.map(explained).max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (before, after) = rates.split_at(at);
    let [high, low] = [mean(before), mean(after)];
    let between = (high + low) / 2.0;
    let stray = before.iter().filter(|(_, iops)| *iops < between).count()
        + after.iter().filter(|(_, iops)| *iops > between).count();
    let fell = low <= high * BASE_SHARE && stray as f64 <= rates.len() as f64 * STRAY;
    let even = scatter(before, high) <= SCATTER && scatter(after, low) <= SCATTER;
    let is_step = left(before, high) + left(after, low) < left_by_line(&rates) / 2.0;
    let at_s = before.last()?.0;
    (fell && even && is_step).then_some(Fall { at_s, rates: [high, low] })
}

/// Returns the sum of squared deviations from a level.
fn left(rates: &[(f64, f64)], level: f64) -> f64 {
    rates.iter().map(|(_, iops)| (iops - level).powi(2)).sum()
}

/// Returns the sum of squared deviations from the best-fit line.
fn left_by_line(rates: &[(f64, f64)]) -> f64 {
    let (middle, level) = (rates.len().saturating_sub(1) as f64 / 2.0, mean(rates));
    let each =
        || rates.iter().enumerate().map(|(at, (_, iops))| (at as f64 - middle, iops - level));
    let below: f64 = each().map(|(at, _)| at * at).sum();
    let slope = each().map(|(at, iops)| at * iops).sum::<f64>() / below.max(1.0);
    each().map(|(at, iops)| (iops - slope * at).powi(2)).sum()
}

fn mean(rates: &[(f64, f64)]) -> f64 {
    rates.iter().map(|(_, iops)| iops).sum::<f64>() / rates.len().max(1) as f64
}

/// Returns the standard deviation as a share of the mean, without the part that chance adds to
/// counts.
fn scatter(rates: &[(f64, f64)], mean: f64) -> f64 {
    let variance = left(rates, mean) / rates.len().saturating_sub(1).max(1) as f64;
    ((variance - mean).max(0.0)).sqrt() / mean.max(1e-9)
}

#[cfg(test)]
mod test {
    use block::Rng;

    use super::*;

    fn seconds(rates: impl IntoIterator<Item = f64>) -> Vec<Second> {
        let one = |(t, iops)| Second { t: t as f64, seconds: 1.0, iops, ..Second::default() };
        (1..).zip(rates).map(|(t, iops): (u32, f64)| one((t, iops))).collect()
    }

    fn lends() -> Lender {
        Lender::Credits("vda: a disk of a hypervisor".into(), 60.0)
    }

    /// H26 detects: 3000 IOPS for 40 s, and 300 IOPS afterwards.
    /// H26 detects: a plateau in a run that is shorter than the burst credits last.
    /// H26 accepts: the same rate for longer than burst credits last; a disk of this host.
    #[test]
    fn a_plateau_that_ends_is_said() {
        let of = |rates: Vec<f64>, lender| {
            let driven_s = rates.len() as f64;
            burst_credits(&seconds(rates), driven_s, &[lender])
        };
        let plateau = |high: usize, low: usize| {
            let mut rates = vec![3000.0; high];
            rates.resize(high + low, 300.0);
            rates
        };
        let fell = of(plateau(40, 20), lends());
        assert_eq!((fell.verdict, fell.mend.len()), (Verdict::Warn, 1));
        assert!(fell.evidence.contains("from 3000 to 300 IOPS after 40 s"), "{fell:?}");
        assert!(fell.mend[0].contains("--ramp 40"), "{fell:?}");
        let disk = || Lender::Disk("sda: a disk of this host".into());
        assert_eq!(of(plateau(40, 20), disk()).verdict, Verdict::Warn, "a cache that filled");
        let short = of(plateau(30, 0), lends());
        assert_eq!(
            (short.verdict, &*short.mend),
            (Verdict::Unknown, &["--seconds 66".to_owned()][..])
        );
        assert_eq!(of(plateau(66, 0), lends()).verdict, Verdict::Pass);
        assert_eq!(of(plateau(30, 0), disk()).verdict, Verdict::DoesNotApply);
        let memory = || Lender::Nothing("ram:1g: memory of this process".into());
        assert_eq!(of(plateau(40, 20), memory()).verdict, Verdict::DoesNotApply);
        assert_eq!(burst_credits(&[], 99.0, &[]).verdict, Verdict::Unknown);
        assert_eq!(burst_credits(&[], 0.0, &[lends()]).verdict, Verdict::Unknown);
        // The window began after the fall: the measured rate is the base rate.
        assert_eq!(
            burst_credits(&seconds(plateau(0, 30)), 70.0, &[lends()]).verdict,
            Verdict::Pass
        );
    }

    #[test]
    fn falls_are_found_where_they_are() {
        let at = |rates: Vec<f64>| fall(&seconds(rates)).map(|fall| fall.at_s);
        let steps = |parts: &[(usize, f64)]| -> Vec<f64> {
            parts.iter().flat_map(|(count, rate)| vec![*rate; *count]).collect()
        };
        for high in 2..58 {
            let rates = steps(&[(high, 3500.0), (60 - high, 2300.0)]);
            assert_eq!(at(rates), Some(high as f64), "a third less");
        }
        assert_eq!(at(steps(&[(30, 100.0), (30, 81.0)])), None, "a fifth at least");
        assert_eq!(at(steps(&[(30, 100.0), (30, 900.0)])), None, "it rose");
        assert_eq!(at(steps(&[(28, 100.0), (2, 10.0)])), None, "a stall at the end");
        assert_eq!(at(steps(&[(20, 100.0), (5, 10.0), (35, 100.0)])), None, "it came back");
        for steep in [10.0, 33.0, 50.0, 75.0, 100.0] {
            let slope = (0..60).map(|t| 6000.0 - steep * f64::from(t));
            assert_eq!(at(slope.collect()), None, "a slope of {steep}");
        }
        assert_eq!(at(steps(&[(1, 100.0), (1, 10.0)])), None);
        assert_eq!(at(Vec::new()), None);
    }

    /// Independent noise, and noise that is correlated from second to second, is no fall.
    #[test]
    fn noise_is_no_fall() {
        let mut found = 0;
        for seed in 0..2000 {
            let mut rng = Rng::new(seed, 26);
            let mut gauss = || (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
            let (phi, mut noise) = ([0.0, 0.5, 0.9][seed as usize % 3], 0.0_f64);
            let length = 10 + seed as usize % 50;
            let rates = (0..length).map(|_| {
                noise = phi * noise + gauss() * (1.0 - phi * phi).sqrt();
                (1000.0 * (1.0 + 0.1 * noise)).max(0.0)
            });
            found += usize::from(fall(&seconds(rates.collect::<Vec<_>>())).is_some());
        }
        assert!(found <= 20, "{found} of 2000 runs with 10 % of noise have a fall");
    }

    #[test]
    fn a_fall_shows_through_noise() {
        let mut missed = 0;
        for seed in 0..500 {
            let mut rng = Rng::new(seed, 27);
            let at = 5 + rng.below(50) as usize;
            let rates: Vec<f64> = (0..60)
                .map(|t| {
                    let base = if t < at { 3000.0 } else { 1500.0 };
                    base * (0.9 + 0.2 * rng.uniform())
                })
                .collect();
            let found = fall(&seconds(rates));
            missed += usize::from(found.is_none_or(|fall| (fall.at_s - at as f64).abs() > 1.0));
        }
        assert!(missed <= 5, "{missed} of 500 falls to one half were missed");
    }
}
