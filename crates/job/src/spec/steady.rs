//! Steady-state criterion that ends a step early.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use stats::Second;

use super::defaults::is_default;

/// Criterion of the latest seconds, over all workers of a step, that ends the step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Steady {
    /// Observed quantity.
    pub of: Quantity,
    /// True for the slope per interval of the least-squares line through all values; false for the
    /// maximum deviation of any value from their mean.
    #[serde(default, skip_serializing_if = "is_default")]
    pub slope: bool,
    /// Limit, above 0: in percent of the mean, or in units of the quantity.
    pub below: f64,
    /// True if `below` is in percent.
    #[serde(default, skip_serializing_if = "is_default")]
    pub percent: bool,
    /// Length of the observed window in seconds: two intervals to a year.
    pub seconds: f64,
    /// Time after the beginning of the measured window before the criterion applies, in seconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after_seconds: f64,
    /// Seconds per value, at least one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub interval_seconds: u32,
}

/// Observed quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// I/Os per second.
    Iops,
    /// Bytes per second.
    Bandwidth,
    /// Mean latency in nanoseconds.
    Latency,
}

impl Steady {
    /// Returns whether the criterion is met by these seconds.
    fn holds(&self, latest: &[Second]) -> bool {
        let (each, count) = (self.interval_seconds as usize, self.values());
        let mean_of =
            |part: &[Second]| part.iter().map(|s| self.value(s)).sum::<f64>() / each as f64;
        let values: Vec<f64> = latest.chunks(each).map(mean_of).collect();
        let mean = values.iter().sum::<f64>() / count as f64;
        let change = if self.slope { slope(&values, mean) } else { deviation(&values, mean) };
        let change = if self.percent { 100.0 * change / mean } else { change };
        change.abs() < self.below
    }

    /// Returns the number of values in the window.
    pub(crate) fn values(&self) -> usize {
        (self.seconds / f64::from(self.interval_seconds)).round() as usize
    }

    fn value(&self, second: &Second) -> f64 {
        match self.of {
            Quantity::Iops => second.iops,
            Quantity::Bandwidth => second.bytes_per_second,
            Quantity::Latency => second.mean_ns.unwrap_or(0.0),
        }
    }
}

impl std::fmt::Display for Steady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (of, unit) = match self.of {
            Quantity::Iops => ("IOPS", " IOPS"),
            Quantity::Bandwidth => ("bandwidth", " bytes per second"),
            Quantity::Latency => ("mean latency", " ns"),
        };
        let unit = if self.percent { " % of the mean" } else { unit };
        let change = match (self.slope, self.interval_seconds) {
            (false, _) => "all deviations from the mean below".to_owned(),
            (true, 1) => "a slope per second below".to_owned(),
            (true, s) => format!("a slope per {s} s below"),
        };
        write!(f, "{of} with {change} {}{unit} for {} s", self.below, self.seconds)
    }
}

/// Observes a run, second by second, until it is steady.
#[derive(Debug)]
pub struct Watch {
    steady: Option<Steady>,
    /// The latest seconds, at most as many as the window has.
    latest: VecDeque<Second>,
    seen: usize,
}

impl Watch {
    /// Creates a watch of a run that ends by this criterion, if there is one.
    pub fn new(steady: Option<Steady>) -> Watch {
        Watch { steady, latest: VecDeque::new(), seen: 0 }
    }

    /// Adds the next second of the measured window; returns whether the run is steady.
    pub fn is_steady(&mut self, second: Second) -> bool {
        let Some(steady) = self.steady.filter(|steady| second.t > steady.after_seconds + 0.5)
        else {
            return false;
        };
        let (each, wanted) =
            (steady.interval_seconds as usize, steady.values() * steady.interval_seconds as usize);
        self.seen += 1;
        self.latest.push_back(second);
        if self.latest.len() > wanted {
            self.latest.pop_front();
        }
        // Only whole intervals since the beginning count, each once.
        self.latest.len() == wanted
            && self.seen.is_multiple_of(each)
            && steady.holds(self.latest.make_contiguous())
    }
}

fn deviation(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|value| (value - mean).abs()).fold(0.0, f64::max)
}

/// Returns the slope of the least-squares line, per value.
fn slope(values: &[f64], mean: f64) -> f64 {
    let middle = (values.len() - 1) as f64 / 2.0;
    let from_middle = (0..values.len()).map(|index| index as f64 - middle);
    let squares: f64 = from_middle.clone().map(|x| x * x).sum();
    from_middle.zip(values).map(|(x, y)| x * (y - mean)).sum::<f64>() / squares
}

fn one() -> u32 {
    1
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

#[cfg(test)]
mod test {
    use super::*;

    fn seconds(iops: &[f64]) -> Vec<Second> {
        let second = |(t, iops): (usize, &f64)| Second {
            t: (t + 1) as f64,
            iops: *iops,
            bytes_per_second: iops * 512.0,
            mean_ns: Some(1e9 / iops),
            ..Second::default()
        };
        iops.iter().enumerate().map(second).collect()
    }

    fn holds(steady: Steady, iops: &[f64]) -> bool {
        let mut watch = Watch::new(Some(steady));
        seconds(iops).into_iter().map(|second| watch.is_steady(second)).last().unwrap()
    }

    const STEADY: Steady = Steady {
        of: Quantity::Iops,
        slope: false,
        below: 10.0,
        percent: true,
        seconds: 4.0,
        after_seconds: 2.0,
        interval_seconds: 1,
    };

    #[test]
    fn is_steady_when_no_value_is_far_from_the_mean() {
        // Too few seconds after the ignored ones.
        assert!(!holds(STEADY, &[900.0, 900.0, 100.0, 100.0, 100.0]));
        assert!(holds(STEADY, &[900.0, 900.0, 100.0, 100.0, 100.0, 100.0]));
        // 120 is 13 % beyond the mean of 105.
        assert!(!holds(STEADY, &[1.0, 1.0, 100.0, 100.0, 100.0, 120.0]));
        assert!(holds(STEADY, &[1.0, 1.0, 300.0, 100.0, 96.0, 104.0, 100.0]));
        let absolute = Steady { percent: false, below: 4.0, ..STEADY };
        assert!(!holds(absolute, &[1.0, 1.0, 100.0, 96.0, 104.0, 100.0]));
        assert!(holds(absolute, &[1.0, 1.0, 100.0, 97.0, 103.0, 100.0]));
        // A run without I/O is not steady.
        assert!(!holds(STEADY, &[0.0; 9]));
        let latency = Steady { of: Quantity::Latency, percent: false, below: 1.0, ..STEADY };
        assert!(holds(latency, &[1.0, 1.0, 5.0, 5.0, 5.0, 5.0]));
    }

    #[test]
    fn a_slope_is_that_of_the_line_through_all_values() {
        let slope = Steady { slope: true, below: 1.0, percent: true, ..STEADY };
        // 10 a second of a mean of 115: 8.7 %.
        assert!(!holds(slope, &[1.0, 1.0, 100.0, 110.0, 120.0, 130.0]));
        assert!(holds(slope, &[1.0, 1.0, 100.0, 110.0, 110.0, 100.0]));
        let falls = Steady { percent: false, below: 10.0, ..slope };
        assert!(!holds(falls, &[1.0, 1.0, 130.0, 120.0, 110.0, 100.0]));
        assert!(holds(Steady { below: 10.1, ..falls }, &[9.0, 9.0, 13.0, 3.0, -7.0, -17.0]));
    }

    #[test]
    fn several_seconds_may_make_one_value() {
        let wide = Steady { interval_seconds: 2, after_seconds: 0.0, ..STEADY };
        assert_eq!(wide.values(), 2);
        // Single seconds are not steady, their pairs are.
        assert!(holds(wide, &[80.0, 120.0, 120.0, 80.0]));
        assert!(!holds(Steady { interval_seconds: 1, ..wide }, &[80.0, 120.0, 120.0, 80.0]));
        // In the middle of a pair nothing is decided.
        assert!(!holds(wide, &[80.0, 120.0, 80.0, 120.0, 80.0]));
    }
}
