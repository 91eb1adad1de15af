//! I/Os of a worker on its volume: sizes, mix of operations, offsets.

use block::Geometry;
use serde::{Deserialize, Serialize};

pub use super::access_error::AccessError;
use super::access_error::whole;
use super::defaults::{is_default, is_one, one};
use super::file_walk::FileWalk;
use super::line::Line;
use super::places::{Places, Walk};
use super::replay::Replay;
use super::size::Range;
use super::zone_walk::ZoneWalk;
use super::zoned::Zoned;
use crate::trace::Facts;

/// An access specification.
///
/// Lines are drawn by their shares. Differences between reads and writes (sizes, alignment) are in
/// separate lines with `read_percent` 100 and 0. A trace replaces all other fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// Lines, 1 to 4096, whose shares sum up to 100. None if a trace is replayed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// Trace to replay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Replay>,
    /// Distribution of random offsets.
    #[serde(default, skip_serializing_if = "is_default")]
    pub random: Places,
    /// Order of sequential I/Os.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sequential: Walk,
    /// Number of sequential I/Os from each random offset: the first is random, the others follow
    /// it.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub run: u32,
    /// True if sequential reads and sequential writes each continue after their own kind. Otherwise
    /// each continues after the previous I/O of any kind.
    #[serde(default, skip_serializing_if = "is_default")]
    pub apart: bool,
    /// True if all I/Os of a run go to the offset of the first, and do not follow each other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub run_stays: bool,
    /// Number of writes before a flush; 0 for no flushes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub flush_every: u32,
    /// True if each write is preceded by a trim of the same offset. The write does not wait for the
    /// trim, unless data are verified.
    #[serde(default, skip_serializing_if = "is_default")]
    pub trims_first: bool,
    /// Walk over several files in the range, of which one at a time is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<FileWalk>,
    /// Walk over zones: I/O stays in one zone, then continues in the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZoneWalk>,
    /// Zones of the device itself, which the I/O follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zoned: Option<Zoned>,
}

/// Maximum number of lines: every size of a range from one block to 2 MiB fits.
pub(super) const MAX_LINES: usize = 4096;
/// Maximum number of offsets in a map of visited ones: 512 MiB for each worker.
const MAP_MAX: u64 = 1 << 32;

impl Access {
    /// Creates a specification of I/Os of one size, with shares of reads and of random offsets, 0
    /// to 100.
    pub fn new(size_bytes: u32, read_percent: f64, random_percent: f64) -> Access {
        Access::of(vec![Line::new(size_bytes, read_percent, random_percent)])
    }

    /// Creates a specification of these lines, with uniform random and forward sequential I/Os.
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
            files: None,
            zones: None,
            zoned: None,
        }
    }

    /// Creates the specification of a trace.
    pub fn replaying(replay: Replay) -> Access {
        Access { trace: Some(replay), ..Access::of(Vec::new()) }
    }

    /// Returns the facts about the trace, if it was read.
    fn facts(&self) -> Option<&Facts> {
        Some(self.trace.as_ref()?.trace()?.facts())
    }

    /// Checks the specification by itself.
    pub fn check(&self) -> Result<(), AccessError> {
        if let Some(replay) = &self.trace {
            if (Access { trace: None, ..self.clone() }) != Access::of(Vec::new()) {
                let words = "a trace replaces lines and all other keys of access: remove them";
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
            let (what, range) = ("a stride", "above 0");
            return Err(AccessError::OutOfRange { what, range, value: 0.0 });
        }
        if self.is_mapped() && !self.fits_map() {
            let words = "`once` with several sizes needs random I/Os with one alignment, without \
                         replies, run, zones and files";
            return Err(AccessError::Conflict(words));
        }
        self.zones.map_or(Ok(()), |zones| zones.check(self))?;
        self.zoned.map_or(Ok(()), |zoned| zoned.check(self))?;
        self.files.as_ref().map_or(Ok(()), |files| files.check(self))?;
        self.random.check()
    }

    /// Checks that the specification fits the part `range` of a volume of this geometry.
    pub fn fits(&self, range: &Range, geometry: Geometry) -> Result<(), AccessError> {
        self.check()?;
        if let Some(trace) = self.trace.as_ref().and_then(Replay::trace) {
            // The trace's volumes are one after the other, each as long as the longest of them.
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
        if self.is_mapped() && bytes / u64::from(self.lines[0].align()) > MAP_MAX {
            let words = "`once` with several sizes supports at most 2^32 blocks: use uniform";
            return Err(AccessError::Conflict(words));
        }
        self.zones.map_or(Ok(()), |zones| zones.fits(range, geometry))?;
        self.files.as_ref().map_or(Ok(()), |files| files.fits(bytes, self))?;
        if self.writes() && geometry.read_only {
            return Err(AccessError::ReadOnly);
        }
        Ok(())
    }

    /// Whether it reads anything: by I/Os, or by the replies to its writes.
    pub fn reads(&self) -> bool {
        let of_trace = |facts: &Facts| facts.ios[0] > 0;
        self.lines.iter().any(Line::reads) || self.facts().is_some_and(of_trace)
    }

    /// Whether it trims or zeroes blocks without sending data. A trim before each write is no such
    /// thing: data follow.
    pub fn clears(&self) -> bool {
        let of_trace = |facts: &Facts| facts.ios[2] > 0;
        self.lines.iter().any(Line::clears) || self.facts().is_some_and(of_trace)
    }

    /// Returns whether the I/Os change data on the volume.
    pub fn writes(&self) -> bool {
        let of_trace = |facts: &Facts| facts.ios[1] + facts.ios[2] > 0;
        self.lines.iter().any(Line::writes) || self.facts().is_some_and(of_trace)
    }

    /// Returns the largest I/O size in bytes.
    pub fn longest_bytes(&self) -> u32 {
        let longest = |line: &Line| line.size_bytes.max(line.reply_bytes);
        let of_trace = self.facts().map(|facts| facts.longest_bytes);
        self.lines.iter().map(longest).chain(of_trace).max().unwrap_or(0)
    }

    /// Returns the I/O size in bytes, if it is the same for all.
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

    /// Returns the mean I/O size in bytes.
    pub fn mean_bytes(&self) -> f64 {
        self.mean(|line| f64::from(line.size_bytes), Facts::mean_bytes)
    }

    /// Returns the share of reads over all lines, 0 to 100.
    pub fn read_percent(&self) -> f64 {
        self.mean(|line| line.read_percent, Facts::read_percent)
    }

    /// Returns the share of random offsets over all lines, 0 to 100.
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

    /// Returns whether visited offsets are recorded in a map: for I/Os of several sizes that visit
    /// each offset once.
    pub fn is_mapped(&self) -> bool {
        self.random == Places::Once && !self.is_uniform()
    }

    /// Returns whether the I/Os can have a map.
    fn fits_map(&self) -> bool {
        let align = self.lines[0].align();
        let fits = |line: &Line| {
            line.align() == align && line.random_percent == 100.0 && line.reply_bytes == 0
        };
        let apart = self.zones.is_some() || self.zoned.is_some() || self.files.is_some();
        self.lines.iter().all(fits) && self.run == 1 && !apart
    }

    fn is_uniform(&self) -> bool {
        let shape = |line: &Line| (line.size_bytes, line.align(), line.reply_bytes);
        let first = shape(&self.lines[0]);
        self.lines.iter().all(|line| shape(line) == first && line.reply_bytes == 0)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::spec::{Extent, Zone};

    fn says(access: &Access, geometry: Geometry) -> String {
        access.fits(&Range::WHOLE, geometry).unwrap_err().to_string()
    }

    #[test]
    fn replies_are_of_the_opposite_direction() {
        let of = |read_percent, reply_bytes| {
            let line = Line { reply_bytes, ..Line::new(4096, read_percent, 100.0) };
            let access = Access::of(vec![line]);
            (access.reads(), access.writes())
        };
        assert_eq!(of(0.0, 0), (false, true));
        assert_eq!(of(100.0, 0), (true, false));
        assert_eq!((of(0.0, 512), of(100.0, 512)), ((true, true), (true, true)));
        let unused = Line { share_percent: 0.0, ..Line::new(4096, 100.0, 100.0) };
        let writes = Line::new(4096, 0.0, 0.0);
        assert!(!Access::of(vec![writes, unused]).reads());
        let trims = Line { trim_percent: 10.0, ..Line::new(4096, 90.0, 0.0) };
        let zeroes = Line { zero_percent: 10.0, ..Line::new(4096, 90.0, 0.0) };
        assert_eq!(
            [trims, zeroes, writes].map(|line| Access::of(vec![line]).clears()),
            [true, true, false]
        );
    }

    #[test]
    fn says_what_does_not_fit() {
        let g = Geometry::new(1 << 20, 4096);
        let size = |size| says(&Access::new(size, 70.0, 100.0), g);
        assert!(size(0).contains("must not be 0"));
        assert!(size(512).contains("not a multiple of the volume's block size, 4096"));
        assert!(size(2 << 20).contains("smaller than one I/O"));
        assert!(size(32 << 20).contains("exceeds 16m"));
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
        assert!(says(&once, g).contains("one alignment"));
        let line = Line { align_bytes: Some(512), ..line };
        let mut once = Access { random: Places::Once, ..Access::of(vec![line, other]) };
        assert_eq!(once.fits(&Range::WHOLE, g), Ok(()));
        assert!(says(&once, Geometry::new(4 << 40, 512)).contains("2^32 blocks"));
        once.run = 2;
        assert!(says(&once, g).contains("one alignment"));
        let zones = vec![Zone { io_percent: 90.0, space: Extent::Percent(10.0) }];
        let zones = Access { random: Places::Zones { zones }, ..Access::new(512, 0.0, 100.0) };
        assert!(says(&zones, g).contains("zones' I/Os must sum up"));
        let zipf = Places::Zipf { exponent: 0.0 };
        let zipf = Access { random: zipf, ..Access::new(512, 0.0, 100.0) };
        assert!(says(&zipf, g).contains("the zipf exponent must be above 0"));
    }
}
