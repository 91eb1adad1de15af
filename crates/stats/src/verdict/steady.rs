//! Whether a rate has settled.

use crate::interval::per;
use crate::run::Second;
use crate::verdict::{Check, Verdict};

/// Windows of the steady-state rule.
const WINDOWS: usize = 5;
/// Largest allowed range of the windows, as a share of their mean.
const STEADY_RANGE: f64 = 0.20;
/// Largest allowed rise or fall of the best line through them, as a share of their mean.
const STEADY_SLOPE: f64 = 0.10;

/// H06: the rate has settled, by the rule of the SNIA performance test specification: cut into
/// five windows, they differ by at most 20 % of their mean, and the best line through them rises
/// or falls by at most 10 %.
///
/// `seconds` are those of the measured window, or longer stretches of it. When five does not
/// divide their number, the first ones are left out.
pub fn steady_state(seconds: &[Second]) -> Check {
    let check = |verdict, evidence| Check::new("H06", "steady-state", verdict, evidence);
    let Some(windows) = windows(seconds) else {
        let ran = seconds.len();
        let evidence = format!("{WINDOWS} windows take {WINDOWS} s at least, and it ran {ran} s");
        return check(Verdict::Unknown, evidence);
    };
    let width_s = windows[0].1;
    let windows = windows.map(|(rate, _)| rate);
    let mean = windows.iter().sum::<f64>() / WINDOWS as f64;
    if mean <= 0.0 {
        return check(Verdict::Warn, "nothing was done".into());
    }
    let most = windows.iter().copied().fold(f64::MIN, f64::max);
    let least = windows.iter().copied().fold(f64::MAX, f64::min);
    let range = (most - least) / mean;
    let slope = drift(&windows) / mean;
    let steady = range <= STEADY_RANGE && slope.abs() <= STEADY_SLOPE;
    let evidence = format!(
        "{}: range {:.1} % (at most 20), slope {:+.1} % (at most 10) over {WINDOWS} windows of \
         {width_s:.0} s",
        if steady { "steady" } else { "not steady" },
        range * 100.0,
        slope * 100.0,
    );
    check(if steady { Verdict::Pass } else { Verdict::Warn }, evidence)
}

/// The rate of each of five windows up to the end, and its length in seconds.
fn windows(seconds: &[Second]) -> Option<[(f64, f64); WINDOWS]> {
    let width = seconds.len() / WINDOWS;
    let from = seconds.len().checked_sub(width * WINDOWS).filter(|_| width > 0)?;
    let mut begin = from.checked_sub(1).map_or(0.0, |before| seconds[before].t);
    let mut chunks = seconds[from..].chunks_exact(width);
    Some(std::array::from_fn(|_| {
        let (first, mut ios) = (begin, 0.0);
        for second in chunks.next().unwrap_or_default() {
            ios += second.iops * (second.t - begin);
            begin = second.t;
        }
        (per(ios, begin - first), begin - first)
    }))
}

/// How far the line of least squares through equally spaced values rises from first to last.
fn drift(values: &[f64; WINDOWS]) -> f64 {
    let middle = (WINDOWS - 1) as f64 / 2.0;
    let mean = values.iter().sum::<f64>() / WINDOWS as f64;
    let at = |i: usize| i as f64 - middle;
    let above: f64 = values.iter().enumerate().map(|(i, y)| at(i) * (y - mean)).sum();
    let below: f64 = (0..WINDOWS).map(|i| at(i) * at(i)).sum();
    above / below * (WINDOWS - 1) as f64
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn steady_state_follows_the_specification() {
        let verdict = |rates: &[f64]| steady_state(&seconds(rates, 1.0)).verdict;
        assert_eq!(verdict(&[100.0; 4]), Verdict::Unknown);
        assert_eq!(verdict(&[100.0; 5]), Verdict::Pass);
        assert_eq!(verdict(&[0.0; 5]), Verdict::Warn);
        // A range of 20 % of the mean without slope passes, a little more does not.
        assert_eq!(verdict(&[110.0, 95.0, 90.0, 95.0, 110.0]), Verdict::Pass);
        assert_eq!(verdict(&[112.0, 95.0, 86.0, 95.0, 112.0]), Verdict::Warn);
        // A steady climb of 10 % of the mean is the limit.
        assert_eq!(verdict(&[95.0, 97.5, 100.0, 102.5, 105.0]), Verdict::Pass);
        assert_eq!(verdict(&[94.0, 97.0, 100.0, 103.0, 106.0]), Verdict::Warn);
        assert_eq!(verdict(&[105.0, 105.0, 100.0, 95.0, 95.0]), Verdict::Warn, "slope -12 %");
        // The seconds left over are the first ones.
        let mut rates = vec![5000.0, 1.0];
        rates.extend([100.0; 10]);
        assert_eq!(verdict(&rates), Verdict::Pass);
    }

    #[test]
    fn stretches_count_by_their_length() {
        // The last stretch of a long run may be short: it must not weigh as much as a whole one.
        let mut rates = seconds(&[100.0; 10], 128.0);
        let last = Second { t: rates[9].t - 127.0, iops: 1.0, ..Second::default() };
        rates[9] = last;
        let check = steady_state(&rates);
        assert_eq!(check.verdict, Verdict::Pass, "{check:?}");
        assert!(check.evidence.contains("windows of 256 s"), "{check:?}");
    }

    /// Stretches of `width_s` seconds each.
    fn seconds(rates: &[f64], width_s: f64) -> Vec<Second> {
        let second = |(number, iops): (usize, &f64)| Second {
            t: (number + 1) as f64 * width_s,
            iops: *iops,
            ..Second::default()
        };
        rates.iter().enumerate().map(second).collect()
    }
}
