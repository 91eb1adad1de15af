//! A rate second by second, as the five numbers that `fio` reports.

use serde::{Deserialize, Serialize};

/// Statistics of the values of a series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Sum of the squared deviations from the mean.
    pub squares: f64,
    /// Number of values.
    pub samples: u64,
}

impl Series {
    /// Adds a value.
    pub fn note(&mut self, value: f64) {
        self.min = if self.samples == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.samples += 1;
        let distance = value - self.mean;
        self.mean += distance / self.samples as f64;
        self.squares += distance * (value - self.mean);
    }

    /// Adds the statistics of a concurrent series, as `fio` adds up jobs that are reported as one:
    /// sum by sum, counts included.
    pub fn add(&mut self, other: &Series) {
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        self.squares += other.squares;
        self.samples += other.samples;
    }

    /// Converts to a unit that is `size` times as large.
    pub fn in_units_of(self, size: f64) -> Series {
        let Series { min, max, mean, squares, samples } = self;
        let (min, max, mean) = (min / size, max / size, mean / size);
        Series { min, max, mean, squares: squares / (size * size), samples }
    }

    /// Returns the standard deviation of the values.
    pub fn deviation(&self) -> f64 {
        (self.squares / (self.samples as f64 - 1.0).max(1.0)).max(0.0).sqrt()
    }
}

/// Rates of one direction, second by second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Bytes per second.
    pub bytes_per_second: Series,
    /// I/Os per second.
    pub iops: Series,
}

impl Rates {
    /// Returns whether nothing was done, or nothing is known.
    pub fn is_none(&self) -> bool {
        self.iops.max == 0.0
    }

    /// Adds a second.
    pub fn note(&mut self, bytes_per_second: f64, iops: f64) {
        self.bytes_per_second.note(bytes_per_second);
        self.iops.note(iops);
    }

    /// Adds the rates of a concurrent series.
    pub fn add(&mut self, other: &Rates) {
        self.bytes_per_second.add(&other.bytes_per_second);
        self.iops.add(&other.iops);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn five_numbers_are_those_of_the_values() {
        let mut series = Series::default();
        for value in [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0] {
            series.note(value);
        }
        assert_eq!((series.min, series.max, series.mean, series.samples), (2.0, 9.0, 5.0, 8));
        assert!((series.deviation() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        let half = series.in_units_of(2.0);
        assert_eq!((half.min, half.max, half.mean, half.samples), (1.0, 4.5, 2.5, 8));
        assert!((half.deviation() * 2.0 - series.deviation()).abs() < 1e-12);
        let mut both = series;
        both.add(&series);
        assert_eq!((both.min, both.mean, both.samples), (4.0, 10.0, 16));
        assert_eq!(Series::default().deviation(), 0.0);
    }
}
