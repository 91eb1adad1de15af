//! A trace that workers replay, with its options.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::access::AccessError;
use super::defaults::is_default;
use super::job::JobSpec;
use super::size;
use super::workload::{Pacing, Workload};
use crate::formats::FormatError;
use crate::trace::{self, Trace};

/// A trace: recorded I/Os in fio's format (`write_iolog`), instead of lines.
///
/// Each worker replays all of the trace, once. The files of the trace are the volumes of the group,
/// in the order in which the trace adds them, which one worker drives together; a single volume
/// replaces all of its files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Path of the trace.
    pub file: String,
    /// True if I/Os start at their recorded times, with pauses; otherwise each starts as soon as
    /// possible.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub stalls: bool,
    /// Speed of the replay in percent: 200 is twice as fast. 1 to 1,000,000.
    #[serde(default = "hundred", skip_serializing_if = "is_hundred")]
    pub speed_percent: u32,
    /// Divisor of offsets, at least 1.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub divide_by: u32,
    /// Alignment to which offsets are rounded down: a power of two.
    #[serde(default = "one", skip_serializing_if = "is_one", deserialize_with = "size::bytes")]
    pub align_bytes: u32,
    /// Operations to skip.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip: Vec<Skip>,
    /// Number of volumes that one worker drives together, one for each file of the trace; set by
    /// the reader.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub volumes: u32,
    /// The trace, once it was read.
    #[serde(skip)]
    pub(crate) trace: Option<Arc<Trace>>,
    /// True if the trace starts again at its end, and has no times.
    #[serde(skip)]
    pub endless: bool,
}

/// Operations of a trace that can be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Skip {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Trims.
    Trim,
    /// Flushes of data and metadata; flushes of data alone remain.
    Sync,
}

/// Reason why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened.
    #[error("cannot read the trace {file}: {error}")]
    Open {
        /// File of the trace.
        file: String,
        /// Reason.
        error: io::Error,
    },
    /// Invalid line of the trace, or an empty result.
    #[error(transparent)]
    Line(#[from] FormatError),
    /// Number of volumes of the group differs from the files of its trace.
    #[error(
        "{file} names {files} files, but the job names {volumes} volumes: name as many, or one"
    )]
    Volumes {
        /// File of the trace.
        file: String,
        /// Number of files in the trace.
        files: usize,
        /// Number of volumes of the group.
        volumes: usize,
    },
}

/// Opens a trace by its name.
pub type OpenTrace<'a> = dyn Fn(&Path) -> io::Result<Box<dyn Read>> + 'a;

/// Opens a trace on this host: a plain file only, as others may be endless.
pub fn open_trace(path: &Path) -> io::Result<Box<dyn Read>> {
    let kind = std::fs::metadata(path)?;
    if !kind.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(Box::new(std::fs::File::open(path)?))
}

impl Replay {
    /// Creates the replay of a whole trace, at its times.
    pub fn new(file: String) -> Replay {
        Replay {
            file,
            stalls: true,
            speed_percent: 100,
            divide_by: 1,
            align_bytes: 1,
            skip: Vec::new(),
            volumes: 1,
            trace: None,
            endless: false,
        }
    }

    /// Returns the trace, if it was read.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.trace.as_ref()
    }

    /// Reads the trace. `one` is true if all of its files are one volume.
    pub fn load(&mut self, open: &OpenTrace<'_>, one: bool) -> Result<Arc<Trace>, TraceError> {
        let failed = |error| TraceError::Open { file: self.file.clone(), error };
        let from = open(Path::new(&self.file)).map_err(failed)?;
        let trace = Arc::new(trace::read(from, self, one)?);
        self.volumes = trace.volumes() as u32;
        self.trace = Some(Arc::clone(&trace));
        Ok(trace)
    }

    /// Reads the trace, unless it is among those that are `known`.
    pub(crate) fn load_once(
        &mut self,
        known: &mut Vec<(Replay, bool)>,
        open: &OpenTrace<'_>,
        one: bool,
    ) -> Result<(), TraceError> {
        let numbers = |of: &Replay| (of.stalls, of.speed_percent, of.divide_by, of.align_bytes);
        let same = |(other, of_one): &&(Replay, bool)| {
            let alike = *of_one == one && numbers(other) == numbers(self);
            alike && other.skip == self.skip && other.file == self.file
        };
        if let Some((other, _)) = known.iter().find(same) {
            self.clone_from(other);
            return Ok(());
        }
        self.load(open, one)?;
        known.push((self.clone(), one));
        Ok(())
    }

    /// Returns the offset of an I/O of the trace.
    pub fn place_of(&self, offset: u64) -> u64 {
        let align = u64::from(self.align_bytes.max(1));
        let place = offset / u64::from(self.divide_by.max(1));
        place - place % align
    }

    /// Returns whether I/Os start at their own times, whatever the volume does.
    pub fn is_timed(&self) -> bool {
        !self.endless && self.trace.as_ref().is_some_and(|trace| trace.facts().timed)
    }

    pub(super) fn check(&self) -> Result<(), AccessError> {
        let out = |what, range, value: u32| {
            Err(AccessError::OutOfRange { what, range, value: f64::from(value) })
        };
        if !(1..=1_000_000).contains(&self.speed_percent) {
            return out("trace.speed_percent", "1 to 1000000", self.speed_percent);
        }
        if self.divide_by == 0 {
            return out("trace.divide_by", "at least 1", 0);
        }
        if !self.align_bytes.is_power_of_two() {
            return out("trace.align_bytes", "a power of two", self.align_bytes);
        }
        match self.trace {
            Some(_) => Ok(()),
            None => Err(AccessError::Conflict("only run and explain support traces")),
        }
    }
}

impl Workload {
    /// Returns whether I/Os start by the clock: at a rate, or at the times of a trace.
    pub fn is_paced(&self) -> bool {
        self.pacing != Pacing::Closed || self.access.trace.as_ref().is_some_and(Replay::is_timed)
    }

    /// Returns a reason if a setting is incompatible with a trace.
    pub(super) fn beside_a_trace(&self) -> Option<&'static str> {
        let replay = self.access.trace.as_ref()?;
        let paced = self.pacing != Pacing::Closed;
        [
            (paced, "a trace has its own times: remove the rate"),
            (self.verify.is_some(), "a trace's writes cannot be verified: remove verify"),
            (
                self.range != super::size::Range::WHOLE,
                "a trace has its own offsets: remove the range",
            ),
            (self.refill_at.is_some() && replay.is_timed(), "refill_at needs trace.stalls = false"),
            (
                self.is_steered(),
                "a trace cannot be combined with think, demands, depth_search and flow: remove \
                 them",
            ),
            (
                self.limit_bytes.is_some() || self.limit_ios.is_some(),
                "a trace has its own end: remove the limit",
            ),
        ]
        .into_iter()
        .find_map(|(wrong, why)| wrong.then_some(why))
    }
}

impl JobSpec {
    /// Reads the traces of all groups that replay one, each once.
    pub fn load_traces(&mut self, open: &OpenTrace<'_>) -> Result<(), TraceError> {
        let mut known: Vec<(Replay, bool)> = Vec::new();
        for group in self.steps.iter_mut().flat_map(|step| &mut step.groups) {
            let one = group.volumes.len() <= 1;
            let volumes = group.volumes.len();
            let Some(replay) = &mut group.workload.access.trace else { continue };
            replay.load_once(&mut known, open, one)?;
            let files = replay.volumes as usize;
            if files > 1 && files != volumes {
                let file = replay.file.clone();
                return Err(TraceError::Volumes { file, files, volumes });
            }
        }
        Ok(())
    }
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn hundred() -> u32 {
    100
}

fn is_hundred(value: &u32) -> bool {
    *value == 100
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

    const JOB: &str = "[[steps]]\nseconds = 10\n[[steps.groups]]\nvolumes = ['ram:1m']\n\
        workload.access.trace = { file = 'x.log', stalls = false, skip = ['sync'], \
        speed_percent = 50, divide_by = 2, align_bytes = '4k' }\n";
    const TRACE: &str = "fio version 2 iolog\n/a add\n/b add\n/a read 8192 4096\n\
        /b write 9000 512\n/b sync 0 0\n";

    fn load(text: &str) -> Result<JobSpec, TraceError> {
        let mut job: JobSpec = toml::from_str(text).unwrap();
        job.load_traces(&|_| Ok(Box::new(TRACE.as_bytes())))?;
        Ok(job)
    }

    #[test]
    fn a_job_is_kept_with_the_name_of_its_trace() {
        let job = load(JOB).unwrap();
        job.check().unwrap();
        let access = &job.steps[0].groups[0].workload.access;
        let facts = access.trace.as_ref().unwrap().trace().unwrap().facts();
        assert_eq!((facts.ios, facts.end_bytes()), ([1, 1, 0, 0], 8192));
        assert_eq!((access.longest_bytes(), access.mean_bytes()), (4096, 2304.0));
        assert!(access.writes() && !job.steps[0].groups[0].joins());
        let kept = toml::to_string(&job).unwrap();
        assert_eq!(load(&kept).unwrap(), job, "{kept}");
        assert!(!kept.contains("lines"), "{kept}");
        let unread: JobSpec = toml::from_str(JOB).unwrap();
        assert!(unread.check().unwrap_err().to_string().contains("only run and explain"));
    }

    #[test]
    fn volumes_are_those_of_the_trace() {
        let two = JOB.replace("'ram:1m'", "'ram:1m', 'ram:2m'");
        let job = load(&two).unwrap();
        assert_eq!((job.steps[0].workers(), job.steps[0].groups[0].joins()), (1, true));
        assert_eq!(load(&toml::to_string(&job).unwrap()).unwrap(), job);
        let three = load(&JOB.replace("'ram:1m'", "'a', 'b', 'c'")).unwrap_err().to_string();
        assert!(three.contains("x.log names 2 files, but the job names 3 volumes"), "{three}");
    }

    #[test]
    fn says_what_does_not_go_with_a_trace() {
        let says = |more: &str| {
            let text = format!("{JOB}{more}\n");
            load(&text).unwrap().check().unwrap_err().to_string()
        };
        for (more, why) in [
            ("workload.pacing.ios.per_second = 5", "remove the rate"),
            ("workload.verify = {}", "remove verify"),
            ("workload.range.start = '4k'", "remove the range"),
            ("workload.limit_ios = 5", "its own end"),
            ("workload.access.run = 4", "replaces lines"),
            ("workload.access.lines = [{ size_bytes = 512 }]", "replaces lines"),
            ("stripes.bytes = '4k'", "cannot be replayed on stripes"),
        ] {
            let said = says(more);
            assert!(said.contains(why), "{more}: {said}");
        }
        for (from, to, why) in [
            ("= 50", "= 0", "speed_percent must be 1 to"),
            ("divide_by = 2", "divide_by = 0", "divide_by must be at least 1"),
            ("'4k'", "3000", "a power of two"),
        ] {
            let said = load(&JOB.replace(from, to)).unwrap().check().unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
