//! Where I/Os go: the laws of random places, and how sequential ones follow each other.

use serde::{Deserialize, Serialize};

use super::access_error::{AccessError, share, whole};
use super::size;

/// Most zones.
const MAX_ZONES: usize = 256;

/// How random places are chosen among all that a line's size and alignment allow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Places {
    /// Each as likely, whatever was chosen before.
    #[default]
    Uniform,
    /// Each once, in an order without pattern, before any comes again. Workers of one volume
    /// share the places out. All lines must have one size and alignment.
    Once,
    /// The k-th most popular with a probability in proportion to 1 / kᵉ. The popular ones are
    /// scattered over the volume.
    Zipf {
        /// e, above 0 and at most 10; near 1 for many caches.
        exponent: f64,
    },
    /// Self-similar: the fraction `hot` of the places gets `1 − hot` of the I/Os, and so on within
    /// each part. 0.2 is the rule of 80 and 20. The popular ones are scattered over the volume.
    Pareto {
        /// Above 0 and below 1.
        hot: f64,
    },
    /// Around the middle of the range.
    Normal {
        /// Standard deviation in percent of the range, above 0 and at most 100.
        deviation_percent: f64,
    },
    /// Zones one after the other, each uniform in itself.
    Zones {
        /// 1 to 256 zones from the start of the range. The shares of I/Os sum up to 100, and so
        /// do the shares of space; where sizes are given in bytes they are the whole story.
        zones: Vec<Zone>,
    },
}

/// A part of the range and how busy it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Share of the I/Os, 0 to 100.
    pub io_percent: f64,
    /// How long it is: bytes, or a share of the range as `"25%"`.
    pub space: size::Extent,
}

/// How sequential places follow each other. At the end of the range they begin again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Walk {
    /// Each begins where the one before it ended.
    #[default]
    Forward,
    /// Each ends where the one before it began.
    Backward,
    /// Each begins so far behind the beginning of the one before it.
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
                number("the exponent of zipf", "above 0 and at most 10", *e, *e > 0.0 && *e <= 10.0)
            }
            Places::Pareto { hot } => {
                number("the hot part", "above 0 and below 1", *hot, *hot > 0.0 && *hot < 1.0)
            }
            Places::Normal { deviation_percent: d } => {
                let (what, range) = ("the standard deviation", "above 0 and at most 100");
                number(what, range, *d, *d > 0.0 && *d <= 100.0)
            }
            Places::Zones { zones } => check_zones(zones),
        }
    }
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
                share("the space of a zone", percent)?;
                percents.map(|sum| sum + percent)
            }
            size::Extent::Bytes(_) => None,
        };
    }
    whole("the shares of the zones' I/Os", zones.iter().map(|zone| zone.io_percent).sum())?;
    percents.map_or(Ok(()), |sum| whole("the spaces of the zones", sum))
}
