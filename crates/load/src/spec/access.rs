//! What a worker does to its volume: sizes, mix of operations, places.

use block::{Geometry, print_size};
use serde::{Deserialize, Serialize};

use super::replay::Replay;
use super::size::{self, Range};
use super::zone_walk::ZoneWalk;
use crate::trace::Facts;

/// An access specification.
///
/// Its lines are drawn by their shares. What differs between reads and writes (sizes, alignment)
/// stands in lines of their own with `read_percent` 100 and 0. A trace takes the place of all else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// What is done, 1 to 4096 lines. Their shares sum up to 100. None where a trace is replayed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// What somebody did once is done again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Replay>,
    /// Where random I/Os go.
    #[serde(default, skip_serializing_if = "is_default")]
    pub random: Places,
    /// Where sequential I/Os go.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sequential: Walk,
    /// I/Os in a row from each random place: the first is random, the others follow it.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub run: u32,
    /// Sequential reads and sequential writes each follow their own kind. Otherwise each follows
    /// whatever was done before it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub apart: bool,
    /// All I/Os of a run go to the place of the first, not one behind the other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_stays: bool,
    /// A flush after so many writes; 0 for none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flush_every: u32,
    /// Before each write a trim of the same place. Nobody waits for it before the write, unless
    /// data are compared.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trims_first: bool,
    /// All of it goes on in one zone, then in the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZoneWalk>,
}

/// One line of an access specification.
///
/// Percentages of operations are shares of the line's I/Os; what is left are writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Length of each I/O in bytes: whole blocks, at most 16 MiB.
    #[serde(deserialize_with = "size::bytes")]
    pub size_bytes: u32,
    /// How often this line is drawn, 0 to 100: once for each burst.
    #[serde(default = "hundred", skip_serializing_if = "is_hundred")]
    pub share_percent: f64,
    /// Share of reads, 0 to 100.
    #[serde(default = "hundred")]
    pub read_percent: f64,
    /// Share of I/Os at a random place, 0 to 100; the rest are sequential.
    #[serde(default = "hundred")]
    pub random_percent: f64,
    /// Share of trims.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trim_percent: f64,
    /// Share of writes of zeroes without data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub zero_percent: f64,
    /// Share of flushes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flush_percent: f64,
    /// Of the writes, the share with forced unit access: durable before they are acknowledged.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fua_percent: f64,
    /// Each I/O begins at a multiple of this; its length by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub align_bytes: Option<u32>,
    /// Wait before each burst, in microseconds, from the start of the last I/O before it.
    /// For closed loops only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delay_us: u64,
    /// I/Os in a burst, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub burst: u32,
    /// After each I/O another one of the opposite direction with so many bytes; 0 for none. For
    /// closed loops only.
    #[serde(default, skip_serializing_if = "is_default", deserialize_with = "size::bytes")]
    pub reply_bytes: u32,
}

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

/// Why an access specification does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AccessError {
    /// No line.
    #[error("an access specification has 1 to {MAX_LINES} lines, not {0}")]
    Lines(usize),
    /// No length.
    #[error("the size of an I/O must not be 0")]
    Empty,
    /// Longer than a buffer may be.
    #[error("an I/O of {} is longer than 16m", print_size(u64::from(*.0)))]
    TooLong(u32),
    /// Not whole blocks.
    #[error("{what} of {bytes} bytes is not a multiple of the volume's block of {block} bytes")]
    NotWholeBlocks {
        /// "a size", "an alignment" or "a reply".
        what: &'static str,
        /// The value.
        bytes: u32,
        /// The volume's block.
        block: u32,
    },
    /// The range is smaller than one I/O.
    #[error("a volume of {volume} bytes is smaller than one I/O of {size} bytes")]
    VolumeTooSmall {
        /// Bytes of the range that may be used.
        volume: u64,
        /// Length of an I/O.
        size: u32,
    },
    /// Not a share.
    #[error("{what} must be 0 to 100 percent, not {value}")]
    NotAShare {
        /// Which.
        what: &'static str,
        /// The value.
        value: f64,
    },
    /// Shares that do not make a whole.
    #[error("{what} must sum up to 100 percent, not {sum}")]
    NotAWhole {
        /// Which.
        what: &'static str,
        /// What they sum up to.
        sum: f64,
    },
    /// A number out of its range.
    #[error("{what} must be {range}, not {value}")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// What it may be.
        range: &'static str,
        /// The value.
        value: f64,
    },
    /// Settings that exclude each other.
    #[error("{0}")]
    Conflict(&'static str),
    /// An I/O of a trace, with its file and line.
    #[error("{0}")]
    Trace(String),
    /// Writes to a volume that takes none.
    #[error("the volume is write-protected, and the job writes")]
    ReadOnly,
}

/// Longest I/O: 16 MiB.
pub(crate) const MAX_BYTES: u32 = 16 << 20;
/// Most lines: every size of a range from one block to 2 MiB fits.
const MAX_LINES: usize = 4096;
/// Most zones.
const MAX_ZONES: usize = 256;
/// How far shares may be from 100: rounded decimals of three lines are allowed.
const ROUNDING: f64 = 0.1;

impl Line {
    /// I/Os of one size, with shares of reads and of random places, 0 to 100.
    pub fn new(size_bytes: u32, read_percent: f64, random_percent: f64) -> Line {
        Line {
            size_bytes,
            share_percent: 100.0,
            read_percent,
            random_percent,
            trim_percent: 0.0,
            zero_percent: 0.0,
            flush_percent: 0.0,
            fua_percent: 0.0,
            align_bytes: None,
            delay_us: 0,
            burst: 1,
            reply_bytes: 0,
        }
    }

    /// What each I/O begins at a multiple of.
    pub fn align(&self) -> u32 {
        self.align_bytes.unwrap_or(self.size_bytes)
    }

    /// Share of I/Os that are plain writes, 0 to 100.
    pub fn write_percent(&self) -> f64 {
        let others = [self.read_percent, self.trim_percent, self.zero_percent, self.flush_percent];
        100.0 - others.iter().sum::<f64>()
    }

    /// Whether it changes anything on the volume.
    pub fn writes(&self) -> bool {
        self.read_percent + self.flush_percent < 100.0 || self.reply_bytes > 0
    }

    fn check(&self) -> Result<(), AccessError> {
        match self.size_bytes.max(self.reply_bytes) {
            _ if self.size_bytes == 0 => return Err(AccessError::Empty),
            size if size > MAX_BYTES => return Err(AccessError::TooLong(size)),
            _ => {}
        }
        for (what, value) in [
            ("the share of a line", self.share_percent),
            ("the share of reads", self.read_percent),
            ("the share of random", self.random_percent),
            ("the share of trims", self.trim_percent),
            ("the share of zeroes", self.zero_percent),
            ("the share of flushes", self.flush_percent),
            ("the share of durable writes", self.fua_percent),
            ("the share of reads, trims, zeroes and flushes", 100.0 - self.write_percent()),
        ] {
            share(what, value)?;
        }
        if self.burst == 0 {
            let (what, range) = ("a burst", "at least 1");
            return Err(AccessError::OutOfRange { what, range, value: 0.0 });
        }
        Ok(())
    }

    fn fits(&self, block: u32, range_bytes: u64) -> Result<(), AccessError> {
        let sizes = [
            ("a size", self.size_bytes),
            ("an alignment", self.align()),
            ("a reply", self.reply_bytes),
        ];
        for (what, bytes) in sizes {
            let may_be_zero = what == "a reply";
            if (bytes == 0 && !may_be_zero) || !bytes.is_multiple_of(block) {
                return Err(AccessError::NotWholeBlocks { what, bytes, block });
            }
        }
        let size = self.size_bytes.max(self.reply_bytes);
        if range_bytes < u64::from(size) {
            return Err(AccessError::VolumeTooSmall { volume: range_bytes, size });
        }
        Ok(())
    }
}

impl Access {
    /// I/Os of one size, with shares of reads and of random places, 0 to 100.
    pub fn new(size_bytes: u32, read_percent: f64, random_percent: f64) -> Access {
        Access::of(vec![Line::new(size_bytes, read_percent, random_percent)])
    }

    /// These lines, uniform where they are random and forward where they are not.
    pub fn of(lines: Vec<Line>) -> Access {
        Access {
            lines,
            trace: None,
            random: Places::Uniform,
            sequential: Walk::Forward,
            run: 1,
            run_stays: false,
            apart: false,
            flush_every: 0,
            trims_first: false,
            zones: None,
        }
    }

    /// What a trace says.
    pub fn replaying(replay: Replay) -> Access {
        Access { trace: Some(replay), ..Access::of(Vec::new()) }
    }

    /// What is known of its trace, if it is one that was read.
    fn facts(&self) -> Option<&Facts> {
        Some(self.trace.as_ref()?.trace()?.facts())
    }

    /// Whether it makes sense in itself.
    pub fn check(&self) -> Result<(), AccessError> {
        if let Some(replay) = &self.trace {
            if (Access { trace: None, ..self.clone() }) != Access::of(Vec::new()) {
                let words = "a trace takes the place of lines and of all else in access";
                return Err(AccessError::Conflict(words));
            }
            return replay.check();
        }
        if self.lines.is_empty() || self.lines.len() > MAX_LINES {
            return Err(AccessError::Lines(self.lines.len()));
        }
        self.lines.iter().try_for_each(Line::check)?;
        whole("the shares of all lines", self.lines.iter().map(|line| line.share_percent).sum())?;
        if self.run == 0 {
            let (what, range) = ("a run of I/Os", "at least 1");
            return Err(AccessError::OutOfRange { what, range, value: 0.0 });
        }
        if let Walk::Strided { bytes: 0 } = self.sequential {
            let (what, range) = ("a stride", "longer than 0");
            return Err(AccessError::OutOfRange { what, range, value: 0.0 });
        }
        if self.random == Places::Once && !self.is_uniform() {
            let words = "places can be visited once only by I/Os of one size and alignment";
            return Err(AccessError::Conflict(words));
        }
        self.zones.map_or(Ok(()), |zones| zones.check(self))?;
        self.random.check()
    }

    /// Whether it fits the part `range` of a volume of this shape.
    pub fn fits(&self, range: &Range, geometry: Geometry) -> Result<(), AccessError> {
        self.check()?;
        if let Some(trace) = self.trace.as_ref().and_then(Replay::trace) {
            // Its volumes one behind the other, each as long as the longest of them.
            let bytes = geometry.bytes() / trace.volumes() as u64;
            let each = Geometry::new(bytes, geometry.block_bytes);
            trace.fits(&[each]).map_err(AccessError::Trace)?;
        }
        let (_, bytes) = range.on(geometry);
        self.lines.iter().try_for_each(|line| line.fits(geometry.block_bytes, bytes))?;
        if let Walk::Strided { bytes } = self.sequential
            && self.lines.iter().any(|line| !bytes.is_multiple_of(u64::from(line.align())))
        {
            return Err(AccessError::Conflict("a stride must be a multiple of every alignment"));
        }
        self.zones.map_or(Ok(()), |zones| zones.fits(range, geometry))?;
        if self.writes() && geometry.read_only {
            return Err(AccessError::ReadOnly);
        }
        Ok(())
    }

    /// Whether it changes anything on the volume.
    pub fn writes(&self) -> bool {
        let of_trace = |facts: &Facts| facts.ios[1] + facts.ios[2] > 0;
        self.lines.iter().any(Line::writes) || self.facts().is_some_and(of_trace)
    }

    /// Longest I/O in bytes.
    pub fn longest_bytes(&self) -> u32 {
        let longest = |line: &Line| line.size_bytes.max(line.reply_bytes);
        let of_trace = self.facts().map(|facts| facts.longest_bytes);
        self.lines.iter().map(longest).chain(of_trace).max().unwrap_or(0)
    }

    /// Length of every I/O in bytes, if it is one.
    pub fn size_bytes(&self) -> Option<u32> {
        if let Some(facts) = self.facts() {
            return facts.size_bytes();
        }
        let first = self.lines.first()?.size_bytes;
        let same = |line: &Line| {
            line.size_bytes == first && (line.reply_bytes == 0 || line.reply_bytes == first)
        };
        self.lines.iter().all(same).then_some(first)
    }

    /// Mean length of an I/O in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.mean(|line| f64::from(line.size_bytes), Facts::mean_bytes)
    }

    /// Share of reads over all lines, 0 to 100.
    pub fn read_percent(&self) -> f64 {
        self.mean(|line| line.read_percent, Facts::read_percent)
    }

    /// Share of random places over all lines, 0 to 100.
    pub fn random_percent(&self) -> f64 {
        self.mean(|line| line.random_percent, Facts::random_percent)
    }

    fn mean(&self, of: impl Fn(&Line) -> f64, of_trace: impl Fn(&Facts) -> f64) -> f64 {
        if let Some(facts) = self.facts() {
            return of_trace(facts);
        }
        let sum: f64 = self.lines.iter().map(|line| line.share_percent * of(line)).sum();
        sum / self.lines.iter().map(|line| line.share_percent).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    fn is_uniform(&self) -> bool {
        let shape = |line: &Line| (line.size_bytes, line.align(), line.reply_bytes);
        let first = shape(&self.lines[0]);
        self.lines.iter().all(|line| shape(line) == first && line.reply_bytes == 0)
    }
}

impl Places {
    fn check(&self) -> Result<(), AccessError> {
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

fn share(what: &'static str, value: f64) -> Result<(), AccessError> {
    // Sums of shares that were rounded end a little beyond.
    match (0.0..=100.0 + 1e-9).contains(&value) {
        true => Ok(()),
        false => Err(AccessError::NotAShare { what, value }),
    }
}

fn whole(what: &'static str, sum: f64) -> Result<(), AccessError> {
    match (sum - 100.0).abs() <= ROUNDING {
        true => Ok(()),
        false => Err(AccessError::NotAWhole { what, sum }),
    }
}

fn one() -> u32 {
    1
}

fn hundred() -> f64 {
    100.0
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

fn is_hundred(value: &f64) -> bool {
    *value == 100.0
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod test {
    use super::*;

    fn says(access: &Access, geometry: Geometry) -> String {
        access.fits(&Range::WHOLE, geometry).unwrap_err().to_string()
    }

    #[test]
    fn says_what_does_not_fit() {
        let g = Geometry::new(1 << 20, 4096);
        let size = |size| says(&Access::new(size, 70.0, 100.0), g);
        assert!(size(0).contains("must not be 0"));
        assert!(size(512).contains("not a multiple of the volume's block of 4096"));
        assert!(size(2 << 20).contains("smaller than one I/O"));
        assert!(size(32 << 20).contains("longer than 16m"));
        let access = Access::new(4096, f64::NAN, 100.0);
        assert!(says(&access, g).contains("share of reads"));
        let protected = Geometry { read_only: true, ..g };
        let fits = Access::new(4096, 70.0, 100.0).fits(&Range::WHOLE, protected);
        assert_eq!(fits, Err(AccessError::ReadOnly));
    }

    #[test]
    fn says_which_lines_do_not_make_a_whole() {
        let g = Geometry::new(1 << 20, 512);
        let line = Line { share_percent: 60.0, ..Line::new(4096, 70.0, 100.0) };
        assert!(says(&Access::of(vec![line]), g).contains("must sum up to 100 percent, not 60"));
        assert!(says(&Access::of(vec![]), g).contains("1 to 4096 lines"));
        let trims = Line { trim_percent: 40.0, ..Line::new(4096, 70.0, 100.0) };
        assert!(says(&Access::of(vec![trims]), g).contains("reads, trims, zeroes and flushes"));
        let other = Line { size_bytes: 512, share_percent: 40.0, ..line };
        let once = Access { random: Places::Once, ..Access::of(vec![line, other]) };
        assert!(says(&once, g).contains("one size and alignment"));
        let zones = vec![Zone { io_percent: 90.0, space: size::Extent::Percent(10.0) }];
        let zones = Access { random: Places::Zones { zones }, ..Access::new(512, 0.0, 100.0) };
        assert!(says(&zones, g).contains("zones' I/Os must sum up"));
        let zipf = Places::Zipf { exponent: 0.0 };
        let zipf = Access { random: zipf, ..Access::new(512, 0.0, 100.0) };
        assert!(says(&zipf, g).contains("exponent of zipf must be above 0"));
    }
}
