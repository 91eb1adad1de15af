//! Offsets of I/Os: the distributions of random ones, and the order of sequential ones.

use serde::{Deserialize, Serialize};

use super::access_error::{AccessError, share, whole};
use super::size;

/// Maximum number of zones.
const MAX_ZONES: usize = 256;

/// Distribution of random offsets over all that a line's size and alignment allow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Places {
    /// Uniform, independent of previous offsets.
    #[default]
    Uniform,
    /// Each offset once, in an order without pattern, before any repeats. Workers of one volume
    /// divide the offsets among them. With lines of several sizes and one alignment each worker
    /// visits all offsets by itself, and an I/O ends before the next visited one.
    Once,
    /// Zipf: the k-th most popular offset has a probability proportional to 1 / kᵉ. Popular offsets
    /// are scattered over the volume.
    Zipf {
        /// Exponent e, above 0 and at most 10; near 1 for many caches.
        exponent: f64,
    },
    /// Self-similar: the fraction `hot` of the offsets gets `1 − hot` of the I/Os, and so on within
    /// each part. 0.2 is the rule of 80 and 20. Popular offsets are scattered over the volume.
    Pareto {
        /// Hot fraction, above 0 and below 1.
        hot: f64,
    },
    /// Normal, around the middle of the range.
    Normal {
        /// Standard deviation in percent of the range, above 0 and at most 100.
        deviation_percent: f64,
    },
    /// Zones one after the other, each uniform.
    Zones {
        /// Zones from the start of the range, 1 to 256. The shares of I/Os sum up to 100, and so do
        /// the shares of space; sizes in bytes define the zones completely.
        zones: Vec<Zone>,
    },
}

/// A part of the range with its share of the I/Os.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Share of the I/Os, 0 to 100.
    pub io_percent: f64,
    /// Length of the zone: bytes, or a share of the range as `"25%"`.
    pub space: size::Extent,
}

/// Order of sequential offsets. At the end of the range the offsets wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Walk {
    /// Forward: each I/O begins where the previous one ended.
    #[default]
    Forward,
    /// Backward: each I/O ends where the previous one began.
    Backward,
    /// Strided: each I/O begins at a fixed distance after the beginning of the previous one.
    Strided {
        /// Distance in bytes; a multiple of the alignment.
        #[serde(deserialize_with = "size::bytes")]
        bytes: u64,
    },
}

impl Places {
    pub(super) fn check(&self) -> Result<(), AccessError> {
        let number = |what, range, value, fits: bool| match fits {
            true => Ok(()),
            false => Err(AccessError::OutOfRange { what, range, value }),
        };
        match self {
            Places::Uniform | Places::Once => Ok(()),
            Places::Zipf { exponent: e } => {
                number("the zipf exponent", "above 0 and at most 10", *e, *e > 0.0 && *e <= 10.0)
            }
            Places::Pareto { hot } => number(
                "the hot share of pareto",
                "above 0 and below 1",
                *hot,
                *hot > 0.0 && *hot < 1.0,
            ),
            Places::Normal { deviation_percent: d } => {
                let (what, range) = ("the standard deviation", "above 0 and at most 100");
                number(what, range, *d, *d > 0.0 && *d <= 100.0)
            }
            Places::Zones { zones } => check_zones(zones),
        }
    }
}

/// Share of the I/Os that the hot offsets of a range get.
pub const HOT_SHARE: f64 = 0.9;

impl Places {
    /// Returns the share, above 0 and at most 1, of a range of `bytes` with `places` offsets that
    /// gets [`HOT_SHARE`] of the I/Os: 1 if no offsets are hotter than others.
    pub fn hot_part(&self, bytes: u64, places: u64) -> f64 {
        let part = match self {
            Places::Uniform | Places::Once => 1.0,
            Places::Zipf { exponent } => hot_of_zipf(*exponent, places.max(1) as f64),
            Places::Pareto { hot } => {
                let hot = hot.min(1.0 - hot);
                // A part hotᵏ of the offsets gets a part (1 − hot)ᵏ of the I/Os.
                HOT_SHARE.powf(hot.ln() / (1.0 - hot).ln())
            }
            // This many standard deviations on both sides of the mean cover 90 % of a normal
            // distribution.
            Places::Normal { deviation_percent } => 2.0 * 1.645 * deviation_percent / 100.0,
            Places::Zones { zones } => hot_of_zones(zones, bytes),
        };
        part.clamp(f64::MIN_POSITIVE, 1.0)
    }
}

/// Returns the share of offsets k with [`HOT_SHARE`] of the approximate sum of 1 / kᵉ.
fn hot_of_zipf(exponent: f64, places: f64) -> f64 {
    let sum = |k: f64| match (1.0 - exponent).abs() < 1e-9 {
        true => k.ln() + 0.5 * (1.0 + 1.0 / k),
        false => {
            (k.powf(1.0 - exponent) - 1.0) / (1.0 - exponent) + 0.5 * (1.0 + k.powf(-exponent))
        }
    };
    let (mut low, mut high) = (1.0, places);
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        match sum(middle) < HOT_SHARE * sum(places) {
            true => low = middle,
            false => high = middle,
        }
    }
    high / places
}

fn hot_of_zones(zones: &[Zone], bytes: u64) -> f64 {
    let part = |zone: &Zone| (zone.space.of(bytes) as f64 / bytes.max(1) as f64).min(1.0);
    let mut all: Vec<(f64, f64)> =
        zones.iter().map(|zone| (zone.io_percent / 100.0, part(zone))).collect();
    all.sort_by(|a, b| (b.0 * a.1).total_cmp(&(a.0 * b.1)));
    let (mut share, mut space) = (0.0, 0.0);
    for (ios, part) in all {
        if share + ios >= HOT_SHARE {
            return space + part * (HOT_SHARE - share) / ios;
        }
        (share, space) = (share + ios, space + part);
    }
    space
}

fn check_zones(zones: &[Zone]) -> Result<(), AccessError> {
    if zones.is_empty() || zones.len() > MAX_ZONES {
        let (what, range) = ("the number of zones", "1 to 256");
        return Err(AccessError::OutOfRange { what, range, value: zones.len() as f64 });
    }
    let mut percents = Some(0.0);
    for zone in zones {
        share("the share of a zone's I/Os", zone.io_percent)?;
        percents = match zone.space {
            size::Extent::Percent(percent) => {
                share("the size of a zone", percent)?;
                percents.map(|sum| sum + percent)
            }
            size::Extent::Bytes(_) => None,
        };
    }
    whole("the shares of the zones' I/Os", zones.iter().map(|zone| zone.io_percent).sum())?;
    percents.map_or(Ok(()), |sum| whole("the sizes of the zones", sum))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_hot_part_gets_its_share() {
        let part = |places: &Places| places.hot_part(1 << 30, 1 << 18);
        assert_eq!([Places::Uniform, Places::Once].map(|places| part(&places)), [1.0; 2]);
        // By summation.
        for exponent in [0.5, 0.99, 1.0, 1.2, 3.0] {
            let sum = |count: u64| (1..=count).map(|k| (k as f64).powf(-exponent)).sum::<f64>();
            let found = part(&Places::Zipf { exponent }) * f64::from(1 << 18);
            let share = sum(found.round().max(1.0) as u64) / sum(1 << 18);
            let one = found < 2.0;
            assert!(share > 0.8 && (one || (0.88..0.92).contains(&share)), "{exponent}: {share}");
        }
        // 80 and 20: a third of the rest's fifth, and so on.
        let pareto = part(&Places::Pareto { hot: 0.2 });
        assert!((pareto - 0.4677).abs() < 1e-3, "{pareto}");
        let (low, high) = (Places::Pareto { hot: 0.01 }, Places::Pareto { hot: 0.99 });
        assert_eq!(part(&low), part(&high));
        let normal = part(&Places::Normal { deviation_percent: 1.0 });
        assert!((normal - 0.0329).abs() < 1e-6, "{normal}");
        let zone = |io_percent, percent| {
            let space = size::Extent::Percent(percent);
            Zone { io_percent, space }
        };
        let zones =
            Places::Zones { zones: vec![zone(5.0, 90.0), zone(60.0, 1.0), zone(35.0, 9.0)] };
        // All of the hottest, and 30 of 35 of the next.
        assert!((part(&zones) - (0.01 + 0.09 * 30.0 / 35.0)).abs() < 1e-9);
    }
}
