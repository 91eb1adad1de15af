//! Checks of a job by itself, with their errors.

use super::Line;
use super::access::{Access, AccessError};
use super::data_pattern::DataPattern;
use super::group::Group;
use super::job::{JobSpec, Step};
use super::laid_out::LaidOut;
use super::line::MAX_BYTES;
use super::serving::Serving;
use super::when::When;
use super::workload::{Content, Pacing, Verify, Workload};

/// Error of a job, with its location.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// Invalid count, or a value out of its range.
    #[error("{at}: {what} must be {range}, not {value}")]
    OutOfRange {
        /// Location, such as "step 2, group 1".
        at: String,
        /// Name of the value.
        what: &'static str,
        /// Allowed range.
        range: &'static str,
        /// The value.
        value: f64,
    },
    /// Settings that exclude each other.
    #[error("{at}: {what}")]
    Conflict {
        /// Location, such as "step 2, group 1".
        at: String,
        /// Incompatible settings.
        what: &'static str,
    },
    /// Error of the access specification.
    #[error("{at}: {error}")]
    Access {
        /// Location, such as "step 2, group 1".
        at: String,
        /// Reason.
        error: AccessError,
    },
}

impl SpecError {
    /// Returns the number of the step and of the group in it, counted from 1; `None` for the whole
    /// job.
    pub fn place(&self) -> Option<(usize, Option<usize>)> {
        let (SpecError::OutOfRange { at, .. }
        | SpecError::Conflict { at, .. }
        | SpecError::Access { at, .. }) = self;
        let numbers = at.strip_prefix("step ")?;
        let (step, group) = match numbers.split_once(", group ") {
            Some((step, group)) => (step, Some(group)),
            None => (numbers, None),
        };
        Some((step.parse().ok()?, group.and_then(|group| group.parse().ok())))
    }
}

/// Maximum number of workers of a step.
const MAX_WORKERS: u64 = 65536;
/// Maximum queue depth of one worker.
const MAX_OUTSTANDING: u32 = 65536;
/// Minimum window in which something can be counted, and maximum: a year.
const MIN_SECONDS: f64 = 1e-3;
const MAX_SECONDS: f64 = 366.0 * 86400.0;
const SECONDS: &str = "1 ms to a year";
/// Minimum rate of a worker: an I/O a year; and maximum: one each nanosecond, or the bytes of the
/// largest size at that rate.
const MIN_RATE: f64 = 1.0 / MAX_SECONDS;
const MAX_RATE: f64 = 1e9;

impl JobSpec {
    /// Checks the job by itself. Volumes may still not fit: [`Workload::fits`].
    pub fn check(&self) -> Result<(), SpecError> {
        let seed = self.seed as f64;
        within("the job", "the seed", "below 2^63", seed, self.seed <= i64::MAX as u64)?;
        let (steps, made) = (self.steps.len(), self.laid_out.len());
        within("the job", "the number of steps", "at least 1", steps as f64, steps + made > 0)?;
        let fits = self.laid_out.iter().all(|file| file.size_bytes > 0 && !file.path.is_empty());
        within("the job", "the size of a laid-out file", "at least 1", 0.0, fits)?;
        self.laid_out.iter().try_for_each(LaidOut::check)?;
        let whole = |of: &Serving| !of.hosts.is_empty() && !of.args.is_empty();
        if !self.serve.iter().all(whole) {
            let (at, what) = ("the job".to_owned(), "serve needs hosts and args");
            return Err(SpecError::Conflict { at, what });
        }
        for (index, step) in self.steps.iter().enumerate() {
            step.check(index + 1)?;
        }
        Ok(())
    }
}

impl LaidOut {
    fn check(&self) -> Result<(), SpecError> {
        let at = format!("the laid-out file {}", self.path);
        let (bytes, range) = (self.write_bytes.unwrap_or(1), "1 to 16 MiB");
        let fits = (1..=MAX_BYTES).contains(&bytes);
        within(&at, "write_bytes", range, f64::from(bytes), fits)?;
        let content = self.content.clone();
        Workload { content, ..Workload::new(Access::new(512, 0.0, 0.0), 1) }.check(&at)
    }
}

impl Step {
    fn check(&self, number: usize) -> Result<(), SpecError> {
        let at = format!("step {number}");
        let s = self.seconds;
        within(&at, "seconds", SECONDS, s, (MIN_SECONDS..=MAX_SECONDS).contains(&s))?;
        let (s, fits) = (self.ramp_seconds, (0.0..=MAX_SECONDS).contains(&self.ramp_seconds));
        within(&at, "ramp_seconds", "0 to a year", s, fits)?;
        self.check_steady(&at)?;
        let workers = self.workers();
        let fits = (1..=MAX_WORKERS).contains(&workers);
        within(&at, "the number of workers", "1 to 65536", workers as f64, fits)?;
        for (index, group) in self.groups.iter().enumerate() {
            let at = format!("step {number}, group {}", index + 1);
            group.workload.check(&at)?;
            group.check_when(&at, &self.groups[..index])?;
            group.check_stripes(&at)?;
            if group.when.ramp_seconds > 0.0 && self.ramp_seconds > 0.0 {
                let what = "set the ramp for the step or for its groups, not for both";
                return Err(SpecError::Conflict { at, what });
            }
            group.check_places(&at)?;
            let jobs = group.logs.jobs;
            let fits = (1..=group.count()).contains(&u64::from(jobs));
            within(&at, "logs.jobs", "1 to the number of workers", f64::from(jobs), fits)?;
            let (ms, most) = (group.logs.window_ms, (MAX_SECONDS * 1e3) as u64);
            within(&at, "logs.window_ms", "at most a year", ms as f64, ms <= most)?;
            if group.logs.trace.is_some() && group.workload.access.trace.is_some() {
                let what = "a group that replays a trace cannot record one: remove logs.trace";
                return Err(SpecError::Conflict { at, what });
            }
            if let Some(log) = &group.logs.histograms {
                let (ms, coarseness) = (log.window_ms, log.coarseness);
                let what = "logs.histograms.window_ms";
                within(&at, what, "at most a year", ms as f64, ms <= most)?;
                let what = "logs.histograms.coarseness";
                within(&at, what, "0 to 6", f64::from(coarseness), coarseness <= 6)?;
            }
            if group.cache.drop && group.cache.read {
                let what = "cache.drop and cache.read cannot be combined: remove one";
                return Err(SpecError::Conflict { at, what });
            }
            if let Some(what) = group.figures.fault() {
                return Err(SpecError::Conflict { at, what });
            }
        }
        Ok(())
    }

    fn check_steady(&self, at: &str) -> Result<(), SpecError> {
        let Some(steady) = self.steady else { return Ok(()) };
        let (below, s) = (steady.below, steady.seconds);
        within(at, "steady.below", "above 0", below, below > 0.0 && below.is_finite())?;
        within(at, "steady.interval_seconds", "at least 1", 0.0, steady.interval_seconds > 0)?;
        let fits = s <= MAX_SECONDS && steady.values() >= 2;
        within(at, "steady.seconds", "two intervals to a year", s, fits)?;
        let (s, fits) = (steady.after_seconds, (0.0..=MAX_SECONDS).contains(&steady.after_seconds));
        within(at, "steady.after_seconds", "0 to a year", s, fits)?;
        match self.groups.iter().any(|group| group.workload.end_flush) {
            true => {
                let what = "steady and end_flush cannot be combined: remove one";
                Err(SpecError::Conflict { at: at.to_owned(), what })
            }
            false => Ok(()),
        }
    }
}

impl Group {
    fn check_stripes(&self, at: &str) -> Result<(), SpecError> {
        let Some(stripes) = self.stripes else { return Ok(()) };
        let conflict = |what| Err(SpecError::Conflict { at: at.to_owned(), what });
        // A worker that goes from file to file stays within each of them.
        let walks = self.workload.access.files.is_some();
        let walks = walks && stripes.share_bytes == Some(stripes.bytes);
        let inside = |line: &Line| {
            let (bytes, reply) = (u64::from(line.size_bytes), u64::from(line.reply_bytes));
            let align = u64::from(line.align());
            let whole = walks || align.is_multiple_of(bytes);
            stripes.bytes.is_multiple_of(align) && whole && reply <= bytes
        };
        if self.volumes.is_empty() {
            return conflict("stripes need volumes");
        }
        if self.workload.access.trace.is_some() {
            return conflict("a trace cannot be replayed on stripes: remove stripes");
        }
        if self.workload.access.zones.is_some() {
            return conflict("zones need a single volume: remove stripes");
        }
        match stripes.bytes > 0 && self.workload.access.lines.iter().all(inside) {
            true => Ok(()),
            false => conflict(
                "a stripe must be a multiple of every alignment, and I/Os must not overlap",
            ),
        }
    }

    /// Checks that no pattern has offsets if several volumes are one: such an offset is that of
    /// none of them.
    fn check_places(&self, at: &str) -> Result<(), SpecError> {
        let pattern = &self.workload.content.pattern;
        let places = pattern.as_ref().is_some_and(DataPattern::has_places);
        match places && self.stripes.is_some() {
            true => {
                let what = "%o in a pattern and stripes cannot be combined";
                Err(SpecError::Conflict { at: at.to_owned(), what })
            }
            false => Ok(()),
        }
    }

    fn check_when(&self, at: &str, before: &[Group]) -> Result<(), SpecError> {
        let When { after, delay_seconds: delay, seconds, ramp_seconds: ramp } = &self.when;
        let (range, fits) = ("0 to a year", (0.0..=MAX_SECONDS).contains(ramp));
        within(at, "when.ramp_seconds", range, *ramp, fits)?;
        let (range, fits) = ("0 to a year", (0.0..=MAX_SECONDS).contains(delay));
        within(at, "delay_seconds", range, *delay, fits)?;
        if let Some(s) = *seconds {
            within(at, "seconds", SECONDS, s, (MIN_SECONDS..=MAX_SECONDS).contains(&s))?;
        }
        if !after.is_empty() && self.waits_for(before).next().is_none() {
            let what = "after must name an earlier group of the step";
            return Err(SpecError::Conflict { at: at.to_owned(), what });
        }
        Ok(())
    }
}

impl Workload {
    fn check(&self, at: &str) -> Result<(), SpecError> {
        let access = self.access.check();
        access.map_err(|error| SpecError::Access { at: at.to_owned(), error })?;
        let (depth, fits) = (self.outstanding, (1..=MAX_OUTSTANDING).contains(&self.outstanding));
        within(at, "outstanding", "1 to 65536", f64::from(depth), fits)?;
        let low = self.refill_at.unwrap_or(0);
        let fits = low < self.outstanding;
        within(at, "refill_at", "below the queue depth", f64::from(low), fits)?;
        if let Some(what) = self.beside_a_trace() {
            return Err(SpecError::Conflict { at: at.to_owned(), what });
        }
        self.check_pacing(at)?;
        self.check_control(at)?;
        for (what, value) in [
            ("compress_percent", self.content.compress_percent),
            ("dedupe_percent", self.content.dedupe_percent),
        ] {
            within(at, what, "0 to 100", value, (0.0..=100.0).contains(&value))?;
        }
        self.check_data(at)?;
        within(at, "limit_bytes", "above 0", 0.0, self.limit_bytes != Some(0))?;
        within(at, "limit_ios", "above 0", 0.0, self.limit_ios != Some(0))
    }

    /// Checks the written data, and whether they can be verified.
    fn check_data(&self, at: &str) -> Result<(), SpecError> {
        let conflict = |what| Err(SpecError::Conflict { at: at.to_owned(), what });
        if self.until_full && self.verify.is_some_and(|verify| verify.fill) {
            return conflict("until_full needs fill = false");
        }
        let Content { dedupe_percent, repeats, pattern, .. } = &self.content;
        if pattern.is_some() && (*dedupe_percent > 0.0 || *repeats) {
            return conflict("a pattern cannot be combined with dedupe_percent and repeats");
        }
        let chunk = self.content.chunk_bytes.unwrap_or(4096);
        let fits = (512..=1 << 20).contains(&chunk) && chunk.is_multiple_of(512);
        within(at, "chunk_bytes", "a multiple of 512 from 512 to 1m", f64::from(chunk), fits)?;
        within(at, "dedupe_blocks", "1 or more", 0.0, self.content.dedupe_blocks != Some(0))?;
        if *dedupe_percent > 0.0 && chunk != 4096 {
            return conflict("with dedupe_percent chunk_bytes must be 4 KiB");
        }
        let has_places = pattern.as_ref().is_some_and(DataPattern::has_places);
        let Some(Verify { sample_percent: sample, fill, earlier, .. }) = self.verify else {
            return match has_places {
                true => conflict("%o in a pattern needs verify"),
                false => Ok(()),
            };
        };
        within(at, "sample_percent", "0 to 100", sample, (0.0..=100.0).contains(&sample))?;
        if self.content != (Content { pattern: pattern.clone(), ..Content::default() }) {
            let what = "verify needs incompressible data or a pattern: remove the other content \
                settings";
            return conflict(what);
        }
        if earlier && (fill || self.access.writes()) {
            return conflict(
                "verifying an earlier run only reads: set fill = false and remove writes",
            );
        }
        if self.reads_back() && !self.can_read_back() {
            return conflict(
                "read_back_bytes needs a closed loop without zones and files, sequential or with \
                 random = \"once\"",
            );
        }
        match pattern {
            Some(pattern) => self.pattern_fits(pattern).or_else(conflict),
            None => Ok(()),
        }
    }

    /// Returns whether writes can be read back in the same order: their offsets do not depend on
    /// other I/Os in flight.
    pub fn can_read_back(&self) -> bool {
        let access = &self.access;
        let apart = access.zones.is_some() || access.zoned.is_some() || access.files.is_some();
        let sequential = access.lines.iter().all(|line| line.random_percent == 0.0);
        let replies = access.lines.iter().any(|line| line.reply_bytes > 0);
        let known = sequential || access.random == super::Places::Once;
        self.pacing == Pacing::Closed && access.trace.is_none() && !apart && !replies && known
    }

    /// Checks that a block that is compared with a pattern has the same content whichever I/O wrote
    /// it; the error is the reason why not.
    pub fn pattern_fits(&self, pattern: &DataPattern) -> Result<(), &'static str> {
        let lines = &self.access.lines;
        let erases = |line: &Line| line.trim_percent > 0.0 || line.zero_percent > 0.0;
        if self.access.trims_first || lines.iter().any(erases) {
            return Err("a pattern cannot be verified with trims or zeroes");
        }
        let size = self.access.size_bytes();
        let apart = |size: u32| lines.iter().all(|line| line.align().is_multiple_of(size.max(1)));
        let fits = |line: &Line| {
            let lengths = [line.size_bytes, line.align(), line.reply_bytes];
            lengths.iter().all(|bytes| pattern.repeats_in(u64::from(*bytes)))
        };
        match size.is_some_and(apart) || lines.iter().all(fits) {
            true => Ok(()),
            false => Err(
                "verifying a pattern that has %o, or does not divide all sizes and alignments, \
                 needs a single I/O size without partial overlaps",
            ),
        }
    }

    fn check_pacing(&self, at: &str) -> Result<(), SpecError> {
        // Bytes of the smallest and of the largest I/O.
        let (rate, [least, most]) = match self.pacing {
            Pacing::Closed => return Ok(()),
            Pacing::Ios { per_second, .. } => (per_second, [1.0; 2]),
            Pacing::Bytes { per_second, .. } => (per_second, [1.0, f64::from(MAX_BYTES)]),
        };
        let fits = (MIN_RATE * least..=MAX_RATE * most).contains(&rate);
        within(at, "a rate", "one per year to 1e9 I/Os per second", rate, fits)?;
        let closed = |line: &Line| line.delay_us > 0 || line.reply_bytes > 0;
        if self.access.lines.iter().any(closed) || self.refill_at.is_some() {
            let what = "delays, replies and refill_at need a closed loop: remove the rate";
            return Err(SpecError::Conflict { at: at.to_owned(), what });
        }
        Ok(())
    }
}

pub(super) fn within(
    at: &str,
    what: &'static str,
    range: &'static str,
    value: f64,
    fits: bool,
) -> Result<(), SpecError> {
    match fits {
        true => Ok(()),
        false => Err(SpecError::OutOfRange { at: at.to_owned(), what, range, value }),
    }
}

#[cfg(test)]
mod test {
    use super::super::job::test::SHORT;
    use super::*;

    #[test]
    fn a_block_that_is_compared_holds_one_pattern() {
        let says = |pattern: &str, lines: &str| {
            let text = SHORT.replace("{ size_bytes = '4k', read_percent = 70 }", lines);
            let data = format!("workload.content.pattern = '{pattern}'\nworkload.verify = {{}}\n");
            let text = text.replace("workload.access", &format!("{data}workload.access"));
            let job = toml::from_str::<JobSpec>(&text).unwrap();
            job.check().err().map_or_else(String::new, |error| error.to_string())
        };
        let two = "{ size_bytes = '4k', share_percent = 50 }, \
                   { size_bytes = '6k', share_percent = 50, align_bytes = 512 }";
        let apart = "{ size_bytes = '4k', align_bytes = '8k' }";
        let over = "{ size_bytes = '4k', align_bytes = 512 }";
        for (pattern, lines) in [("%o", apart), ("\"abc\"", apart), ("0xdead", two), ("1", over)] {
            assert_eq!(says(pattern, lines), "", "{pattern} {lines}");
        }
        for (pattern, lines) in [("%o", two), ("%o", over), ("\"abc\"", two)] {
            assert!(says(pattern, lines).contains("single I/O size"), "{pattern} {lines}");
        }
        let trims = "{ size_bytes = '4k', read_percent = 50, trim_percent = 50 }";
        assert!(says("1", trims).contains("with trims"));
    }

    #[test]
    fn says_where_it_is_wrong() {
        let says = |from: &str, to: &str| {
            let text = SHORT.replace(from, to);
            match toml::from_str::<JobSpec>(&text) {
                Ok(job) => job.check().unwrap_err().to_string(),
                Err(error) => error.to_string(),
            }
        };
        assert!(says("seconds", "second").contains("unknown field `second`"));
        assert!(says("10", "0").contains("step 1: seconds must be 1 ms to a year"));
        assert!(says("'null:1t'", "").contains("number of workers must be 1 to 65536, not 0"));
        assert!(says("= 70", "= 170").contains("step 1, group 1: the share of reads must be 0"));
        let paced = "workload.pacing.ios.per_second = 0\nworkload.access";
        assert!(says("workload.access", paced).contains("a rate must be one per year"));
        for rate in ["1e-20", "1e-300", "3e-8", "1.1e9", "1e300", "inf", "nan"] {
            let paced = format!("workload.pacing.ios.per_second = {rate}\nworkload.access");
            let said = says("workload.access", &paced);
            assert!(said.contains("a rate must be one per year to 1e9 I/Os"), "{rate}: {said}");
        }
        let deep = "workload.outstanding = 0\nworkload.access";
        assert!(says("workload.access", deep).contains("outstanding must be 1 to 65536"));
        let steady = |words: &str| {
            says(
                "[[steps.groups]]",
                &format!("steady = {{ of = 'iops', {words} }}\n[[steps.groups]]"),
            )
        };
        assert!(steady("below = 0, seconds = 9").contains("steady.below must be above 0"));
        assert!(steady("below = 1, seconds = 1").contains("seconds must be two intervals"));
        let timed = |when: &str| says("workload.access", &format!("when.{when}\nworkload.access"));
        assert!(timed("delay_seconds = -1").contains("delay_seconds must be 0 to a year"));
        assert!(timed("seconds = 0").contains("group 1: seconds must be 1 ms"));
        assert!(timed("after = 'x'").contains("must name an earlier group"));
        let across = "stripes.bytes = 6144\nworkload.access";
        assert!(says("workload.access", across).contains("a stripe must be a multiple"));
        let data = |words: &str| says("workload.access", &format!("{words}\nworkload.access"));
        let verify = "workload.verify = { fill = false, earlier = true }";
        assert!(data(verify).contains("only reads"));
        let pattern = |words: &str| data(&format!("workload.content.pattern = '{words}"));
        assert!(pattern("%o'").contains("needs verify"));
        assert!(pattern("0xzz'").contains("0x needs digits"));
        assert!(
            pattern("1'\nworkload.content.repeats = true").contains("combined with dedupe_percent")
        );
        let verify = "'\nworkload.verify = { sample_percent = ";
        assert!(pattern(&format!("1{verify}101 }}")).contains("sample_percent must be 0 to 100"));
        let compress = format!("1{verify}9 }}\nworkload.content.compress_percent = 1");
        assert!(pattern(&compress).contains("incompressible data or a pattern"));
        let none = "workload.limit_ios = 0\nworkload.access";
        assert!(says("workload.access", none).contains("limit_ios must be above 0"));
        let fallen = "figures.percentiles = [99, 50]\nworkload.access";
        assert!(says("workload.access", fallen).contains("in ascending order"));
        let line = "[{ delay_us = 5, ";
        let paced = "workload.pacing.ios.per_second = 5\nworkload.access.lines = ";
        let text = SHORT.replace("workload.access.lines = ", paced).replace("[{ ", line);
        let job: JobSpec = toml::from_str(&text).unwrap();
        assert!(job.check().unwrap_err().to_string().contains("delays, replies"));
    }
}
