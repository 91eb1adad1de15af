//! Whether a job makes sense in itself, and what is wrong with it where it does not.

use super::Line;
use super::access::{self, AccessError};
use super::job::{Content, Group, JobSpec, Pacing, Step, Verify, Workload};
use super::when::When;

/// What is wrong with a job, and where.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// Too few or too many of something, or a number out of its range.
    #[error("{at}: {what} must be {range}, not {value}")]
    OutOfRange {
        /// As "step 2, group 1".
        at: String,
        /// Which.
        what: &'static str,
        /// What it may be.
        range: &'static str,
        /// The value.
        value: f64,
    },
    /// Settings that exclude each other.
    #[error("{at}: {what}")]
    Conflict {
        /// As "step 2, group 1".
        at: String,
        /// What does not go together.
        what: &'static str,
    },
    /// The access specification.
    #[error("{at}: {error}")]
    Access {
        /// As "step 2, group 1".
        at: String,
        /// Why.
        error: AccessError,
    },
}

/// Most workers of a step.
const MAX_WORKERS: u64 = 65536;
/// Most I/Os of one worker under way.
const MAX_OUTSTANDING: u32 = 65536;
/// Longest window: a year.
const MAX_SECONDS: f64 = 366.0 * 86400.0;
/// Highest rate of a worker: an I/O each nanosecond, and the bytes of the longest.
const MAX_RATE: f64 = 1e9;

impl JobSpec {
    /// Whether it makes sense in itself. Volumes may still not fit it: [`Workload::fits`].
    pub fn check(&self) -> Result<(), SpecError> {
        let seed = self.seed as f64;
        within("the job", "the seed", "below 2^63", seed, self.seed <= i64::MAX as u64)?;
        let steps = self.steps.len();
        within("the job", "the number of steps", "at least 1", steps as f64, steps > 0)?;
        for (index, step) in self.steps.iter().enumerate() {
            step.check(index + 1)?;
        }
        Ok(())
    }
}

impl Step {
    fn check(&self, number: usize) -> Result<(), SpecError> {
        let at = format!("step {number}");
        let s = self.seconds;
        within(&at, "seconds", "above 0 and at most a year", s, s > 0.0 && s <= MAX_SECONDS)?;
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
            let (jobs, fits) = (group.logs.jobs, group.logs.jobs > 0);
            within(&at, "logs.jobs", "at least 1", f64::from(jobs), fits)?;
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
                let what = "a step that ends when it is steady has no flush at its end";
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
        let inside = |line: &Line| {
            let (bytes, reply) = (u64::from(line.size_bytes), u64::from(line.reply_bytes));
            let align = u64::from(line.align());
            stripes.bytes.is_multiple_of(align) && align.is_multiple_of(bytes) && reply <= bytes
        };
        if self.volumes.is_empty() {
            return conflict("stripes want volumes");
        }
        if self.workload.access.zones.is_some() {
            return conflict("zones are those of one volume: leave stripes away");
        }
        match stripes.bytes > 0 && self.workload.access.lines.iter().all(inside) {
            true => Ok(()),
            false => {
                conflict("a stripe is a whole number of I/Os, and no I/O begins within another")
            }
        }
    }

    fn check_when(&self, at: &str, before: &[Group]) -> Result<(), SpecError> {
        let When { after, delay_seconds: delay, seconds } = &self.when;
        let (range, fits) = ("0 to a year", (0.0..=MAX_SECONDS).contains(delay));
        within(at, "delay_seconds", range, *delay, fits)?;
        if let Some(s) = *seconds {
            let fits = s > 0.0 && s <= MAX_SECONDS;
            within(at, "seconds", "above 0 and at most a year", s, fits)?;
        }
        if !after.is_empty() && self.waits_for(before).next().is_none() {
            let what = "after must name a group before it in the step";
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
        within(at, "the number of outstanding I/Os", "1 to 65536", f64::from(depth), fits)?;
        let low = self.refill_at.unwrap_or(0);
        let fits = low < self.outstanding;
        within(at, "refill_at", "below the outstanding I/Os", f64::from(low), fits)?;
        self.check_pacing(at)?;
        self.check_control(at)?;
        for (what, value) in [
            ("compress_percent", self.content.compress_percent),
            ("dedupe_percent", self.content.dedupe_percent),
        ] {
            within(at, what, "0 to 100", value, (0.0..=100.0).contains(&value))?;
        }
        if let Some(Verify { sample_percent: sample, .. }) = self.verify {
            within(
                at,
                "sample_percent",
                "above 0 to 100",
                sample,
                sample > 0.0 && sample <= 100.0,
            )?;
            if self.content != Content::default() {
                let what = "verified data are incompressible: leave content away";
                return Err(SpecError::Conflict { at: at.to_owned(), what });
            }
        }
        within(at, "limit_bytes", "above 0", 0.0, self.limit_bytes != Some(0))?;
        within(at, "limit_ios", "above 0", 0.0, self.limit_ios != Some(0))
    }

    fn check_pacing(&self, at: &str) -> Result<(), SpecError> {
        let rate = match self.pacing {
            Pacing::Closed => return Ok(()),
            Pacing::Ios { per_second, .. } => per_second,
            Pacing::Bytes { per_second, .. } => per_second / f64::from(access::MAX_BYTES),
        };
        within(at, "a rate", "above 0, at most 1e9 I/Os", rate, rate > 0.0 && rate <= MAX_RATE)?;
        let closed = |line: &Line| line.delay_us > 0 || line.reply_bytes > 0;
        if self.access.lines.iter().any(closed) || self.refill_at.is_some() {
            let what = "delays and replies, and refill_at, go with a closed loop, not with a rate";
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
    fn says_where_it_is_wrong() {
        let says = |from: &str, to: &str| {
            let text = SHORT.replace(from, to);
            match toml::from_str::<JobSpec>(&text) {
                Ok(job) => job.check().unwrap_err().to_string(),
                Err(error) => error.to_string(),
            }
        };
        assert!(says("seconds", "second").contains("unknown field `second`"));
        assert!(says("10", "0").contains("step 1: seconds must be above 0"));
        assert!(says("'null:1t'", "").contains("number of workers must be 1 to 65536, not 0"));
        assert!(says("= 70", "= 170").contains("step 1, group 1: the share of reads must be 0"));
        let paced = "workload.pacing.ios.per_second = 0\nworkload.access";
        assert!(says("workload.access", paced).contains("a rate must be above 0"));
        let deep = "workload.outstanding = 0\nworkload.access";
        assert!(says("workload.access", deep).contains("outstanding I/Os must be 1 to 65536"));
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
        assert!(timed("seconds = 0").contains("group 1: seconds must be above 0"));
        assert!(timed("after = 'x'").contains("must name a group before it"));
        let across = "stripes.bytes = 6144\nworkload.access";
        assert!(says("workload.access", across).contains("a stripe is a whole number"));
        let none = "workload.limit_ios = 0\nworkload.access";
        assert!(says("workload.access", none).contains("limit_ios must be above 0"));
        let line = "[{ delay_us = 5, ";
        let paced = "workload.pacing.ios.per_second = 5\nworkload.access.lines = ";
        let text = SHORT.replace("workload.access.lines = ", paced).replace("[{ ", line);
        let job: JobSpec = toml::from_str(&text).unwrap();
        assert!(job.check().unwrap_err().to_string().contains("delays and replies"));
    }
}
