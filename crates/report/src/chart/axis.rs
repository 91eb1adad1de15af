//! Axes: position of a value on a line from 0 to 1, and values of the ticks.

use crate::figure;

/// Most values written on an axis.
const TICKS: usize = 7;

/// One axis of a plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name, as "rate".
    pub name: String,
    /// Unit of the values.
    pub unit: Unit,
    /// Scale of the axis.
    pub scale: Scale,
}

/// Unit of the figures on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// I/Os per second.
    Iops,
    /// Nanoseconds.
    Nanos,
    /// Seconds.
    Seconds,
    /// Things.
    Count,
    /// A share of samples, 0 to 1, written as a percentile.
    Percentile,
    /// A multiple of something.
    Times,
}

/// Scale of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from 0.
    Linear,
    /// Logarithmic, by decades; values of 0 and below have no position.
    Log,
    /// Scale of percentiles, by the share of samples above: 0, 90, 99 and 99.9 % have equal
    /// distances.
    Percentile,
}

impl Axis {
    /// An axis.
    pub fn new(name: &str, unit: Unit, scale: Scale) -> Axis {
        Axis { name: name.to_owned(), unit, scale }
    }

    /// A value in the words of its unit.
    pub fn words(&self, value: f64) -> String {
        match self.unit {
            Unit::Iops => figure::iops(value),
            Unit::Nanos => figure::span(value),
            Unit::Seconds => format!("{} s", trimmed((value * 100.0).round() / 100.0)),
            Unit::Count => trimmed(value),
            Unit::Percentile => format!("{} %", trimmed(value * 100.0)),
            Unit::Times => format!("{} ×", trimmed(value)),
        }
    }

    /// Returns the tick label of a value: rounded and short.
    pub(super) fn tick(&self, value: f64) -> String {
        match self.unit {
            Unit::Iops | Unit::Count => short(value),
            Unit::Nanos => {
                let units = [(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
                let (size, unit) =
                    units.into_iter().find(|(size, _)| value >= *size).unwrap_or((1.0, "ns"));
                if value == 0.0 {
                    "0".to_owned()
                } else {
                    format!("{} {unit}", trimmed(value / size))
                }
            }
            Unit::Percentile => trimmed(value * 100.0),
            Unit::Seconds | Unit::Times => trimmed(value),
        }
    }

    /// Returns the name, with the unit where the tick labels have none.
    pub(super) fn title(&self) -> String {
        let unit = match self.unit {
            Unit::Iops => "IOPS",
            Unit::Nanos | Unit::Count => return self.name.clone(),
            Unit::Seconds => "s",
            Unit::Percentile => "%",
            Unit::Times => "×",
        };
        if self.name.is_empty() { unit.to_owned() } else { format!("{}, {unit}", self.name) }
    }
}

/// Up to four digits without zeros at the end.
fn trimmed(value: f64) -> String {
    let decimals = if value.abs() < 10.0 || (90.0..100.0).contains(&value) { 3 } else { 1 };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Returns a number with a prefix, as `1.5M`, `200k`.
fn short(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let found = units.into_iter().find(|(size, _)| value.abs() >= *size);
    found.map_or_else(|| trimmed(value), |(size, unit)| trimmed(value / size) + unit)
}

/// An axis with its ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Span {
    /// Holds all values that have a place. From 0 where `from_zero` and the scale is linear.
    pub(super) fn of(axis: &Axis, values: impl Iterator<Item = f64>, from_zero: bool) -> Span {
        let has_place = |value: &f64| {
            value.is_finite()
                && match axis.scale {
                    Scale::Linear => true,
                    Scale::Log => *value > 0.0,
                    Scale::Percentile => (0.0..1.0).contains(value),
                }
        };
        let mut ends: Option<(f64, f64)> = None;
        for value in values.filter(has_place) {
            let (low, high) = ends.unwrap_or((value, value));
            ends = Some((low.min(value), high.max(value)));
        }
        let (mut low, mut high) = ends.unwrap_or(match axis.scale {
            Scale::Linear | Scale::Percentile => (0.0, 0.9),
            Scale::Log => (1.0, 10.0),
        });
        match axis.scale {
            Scale::Linear if from_zero => (low, high) = (low.min(0.0), high.max(0.0)),
            Scale::Linear => {}
            Scale::Percentile => low = 0.0,
            Scale::Log => {
                let decade = |value: f64| 10_f64.powf(value.log10().floor());
                let round = [1.0, 2.0, 5.0, 10.0];
                let (under, over) = (decade(low), decade(high));
                let below = round.into_iter().rev().find(|f| under * f <= low * 1.000_001);
                let above = round.into_iter().find(|f| over * f >= high * 0.999_999);
                if from_zero {
                    low = under * below.unwrap_or(1.0);
                    high = over * above.unwrap_or(10.0);
                }
            }
        }
        if high - low <= high.abs() * 1e-12 {
            match axis.scale {
                Scale::Log => (low, high) = (low / 2.0, high * 2.0),
                // A point alone is in the middle.
                Scale::Linear if !from_zero && low != 0.0 => {
                    (low, high) = (low - low.abs() / 2.0, low + low.abs() / 2.0);
                }
                _ => high = low + if low == 0.0 { 1.0 } else { low.abs() },
            }
        }
        let mut span = Span { scale: axis.scale, low, high };
        if axis.scale == Scale::Linear && from_zero {
            let step = span.step();
            span.high = (span.high / step - 1e-9).ceil() * step;
            span.low = (span.low / step + 1e-9).floor() * step;
        }
        span
    }

    fn bent(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Percentile => -(1.0 - value).log10(),
        }
    }

    /// Returns a value's position from 0 to 1; `None` if the value has none.
    pub(super) fn at(&self, value: f64) -> Option<f64> {
        let (low, high) = (self.bent(self.low), self.bent(self.high));
        let share = (self.bent(value) - low) / (high - low);
        (share.is_finite() && (-0.001..=1.001).contains(&share)).then(|| share.clamp(0.0, 1.0))
    }

    fn step(&self) -> f64 {
        let rough = (self.high - self.low) / (TICKS as f64 - 1.0);
        let decade = 10_f64.powf(rough.log10().floor());
        let found = [1.0, 2.0, 5.0].into_iter().find(|f| decade * f >= rough * 0.999_999);
        decade * found.unwrap_or(10.0)
    }

    /// Round values, at most `most` of them.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        let inside = |value: &f64| self.at(*value).is_some();
        let mut all: Vec<f64> = match self.scale {
            Scale::Linear => {
                let step = self.step();
                let first = (self.low / step - 1e-9).ceil();
                (0..=TICKS).map(|i| (first + i as f64) * step).filter(inside).collect()
            }
            Scale::Percentile => {
                [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999].into_iter().filter(inside).collect()
            }
            Scale::Log => {
                let (from, to) = (self.low.log10().floor(), self.high.log10().ceil());
                let decades = (from as i32)..=(to as i32);
                let with = |factors: &[f64]| -> Vec<f64> {
                    let all = decades.clone();
                    let all = all.flat_map(|d| factors.iter().map(move |f| f * 10_f64.powi(d)));
                    all.filter(inside).collect()
                };
                let fine = with(&[1.0, 2.0, 5.0]);
                if fine.len() <= most.min(TICKS) { fine } else { with(&[1.0]) }
            }
        };
        // Thinned evenly: the first always stays.
        let most = most.clamp(2, TICKS);
        if all.len() > most {
            let every = all.len().div_ceil(most);
            all = all.into_iter().step_by(every).collect();
        }
        all
    }

    /// Returns the lowest and the highest value of the axis.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn axis(unit: Unit, scale: Scale) -> Axis {
        Axis::new("", unit, scale)
    }

    fn ticks(unit: Unit, scale: Scale, values: &[f64]) -> Vec<String> {
        let axis = axis(unit, scale);
        let span = Span::of(&axis, values.iter().copied(), true);
        span.ticks(TICKS).into_iter().map(|tick| axis.tick(tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_in_words_of_people() {
        let rates = ticks(Unit::Iops, Scale::Linear, &[1_010_000.0, 3.0]);
        assert_eq!(rates, ["0", "200k", "400k", "600k", "800k", "1M", "1.2M"]);
        let latency = ticks(Unit::Nanos, Scale::Log, &[90_000.0, 31e6]);
        assert_eq!(latency, ["100 µs", "1 ms", "10 ms"]);
        let near = ticks(Unit::Nanos, Scale::Log, &[110_000.0, 190_000.0]);
        assert_eq!(near, ["100 µs", "200 µs"]);
        let shares = ticks(Unit::Percentile, Scale::Percentile, &[0.5, 0.9999]);
        assert_eq!(shares, ["0", "50", "90", "99", "99.9", "99.99"]);
    }

    #[test]
    fn every_value_is_within_and_any_number_has_an_answer() {
        for scale in [Scale::Linear, Scale::Log, Scale::Percentile] {
            for values in [
                vec![],
                vec![0.0],
                vec![0.5],
                vec![7.0, 7.0],
                vec![f64::NAN, -3.0, f64::INFINITY],
                vec![1e-9, 1e15],
                vec![0.2, 0.999_999],
            ] {
                let span = Span::of(&axis(Unit::Count, scale), values.iter().copied(), true);
                let (low, high) = span.ends();
                assert!(low < high, "{scale:?} {values:?}: {span:?}");
                assert!(span.ticks(TICKS).len() <= TICKS);
                let has_place = |v: &&f64| match scale {
                    Scale::Linear => v.is_finite(),
                    Scale::Log => v.is_finite() && **v > 0.0,
                    Scale::Percentile => (0.0..1.0).contains(*v),
                };
                for value in values.iter().filter(has_place) {
                    assert!(span.at(*value).is_some(), "{scale:?} {value} in {span:?}");
                }
            }
        }
    }
}
