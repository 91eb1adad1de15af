//! A job: the document that a run is made from and kept as (`job.toml`).

use std::collections::BTreeMap;

use block::Geometry;
use serde::{Deserialize, Serialize};

use super::access::{Access, AccessError, is_default};
use super::cache::Cache;
use super::control::{Demands, DepthSearch, Flow, Think};
use super::data_pattern::DataPattern;
use super::figures::Figures;
use super::logs::Logs;
use super::size::{self, Range};
use super::steady::Steady;
use super::when::When;

/// A whole job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// The command or file that it came from; only for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// What it is called; "run" if not said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Decides every random choice, with the number of the worker. At most 2⁶³ − 1.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// What is made for the run and driven, where no volumes that exist are named: settings by
    /// name. `load` hands them on to whoever makes it, and groups then name [`MADE`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<String, String>,
    /// What the files held that the setup names: a run again means the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// What is done, one after the other; at least one.
    pub steps: Vec<Step>,
}

/// One measurement: groups of workers that run at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it is called, as the name of an access specification.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Length of the measured window. It ends before if every worker has reached its limit.
    pub seconds: f64,
    /// Time before it, under load but not measured.
    #[serde(default)]
    pub ramp_seconds: f64,
    /// It ends as soon as the first worker has done all that it was to do.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ends_with_first: bool,
    /// It ends when what it measures has come to rest, if that is before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Who does what; at least one.
    pub groups: Vec<Group>,
}

/// Workers that do the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What it is called, as the name of a job of fio or of a manager; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// URIs of the volumes; at least one.
    pub volumes: Vec<String>,
    /// All volumes are one for each worker, which goes from one to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stripes: Option<Stripes>,
    /// Workers for each volume, or for all of them where they are one: 1 to 4096.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub workers: u32,
    /// What has an entry of its own in forms that know jobs, as fio's.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reported: Reported,
    /// When they begin and end, where that is not with the step.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: When,
    /// Processors that they may be on; empty for those of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<usize>,
    /// What the kernel is told of their files.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache: Cache,
    /// What is written of it over time in fio's form.
    #[serde(default, skip_serializing_if = "is_default")]
    pub logs: Logs,
    /// What fio's forms show of it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub figures: Figures,
    /// What each does.
    pub workload: Workload,
}

/// Volumes in turn: the first so many bytes of the first, then of the second, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stripes {
    /// Length of each stripe: no I/O goes beyond its end. A whole number of blocks.
    #[serde(deserialize_with = "size::bytes")]
    pub bytes: u64,
    /// Part of each volume that is used, from its beginning on; all that the smallest of them has
    /// by default.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub share_bytes: Option<u64>,
}

/// What has an entry of its own in forms that know jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reported {
    /// The group.
    #[default]
    Group,
    /// Each of its workers, as each clone of a job of fio.
    Worker,
    /// All such groups of a step that stand next to each other, as with `group_reporting`.
    Step,
}

/// What one worker does to its volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Most I/Os under way, 1 to 65536: always so many in a closed loop.
    #[serde(default = "one")]
    pub outstanding: u32,
    /// Once so many are under way, no more begin until only this many are; `None` begins one for
    /// each that is done. For closed loops only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refill_at: Option<u32>,
    /// When I/Os begin.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pacing: Pacing,
    /// What they are and where they go.
    pub access: Access,
    /// The part of the volume that is used.
    #[serde(default, skip_serializing_if = "Range::is_whole")]
    pub range: Range,
    /// What is written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub content: Content,
    /// Writes are stamped and reads compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// The worker stops when it has begun I/Os of so many bytes. Those of the ramp count, those
    /// that fill a volume for verification do not.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub limit_bytes: Option<u64>,
    /// The worker stops when it has begun so many I/Os; flushes between them do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ios: Option<u64>,
    /// The worker ends with a flush, which it waits for: the measured window lasts until then.
    #[serde(default, skip_serializing_if = "is_default")]
    pub end_flush: bool,
    /// Pauses between I/Os.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// What ends it before its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demands: Option<Demands>,
    /// The depth is searched, up to the outstanding I/Os.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_search: Option<DepthSearch>,
    /// It keeps to its share of the I/Os of several workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
}

/// When I/Os begin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum Pacing {
    /// When another one is done: the volume sets the pace.
    #[default]
    Closed,
    /// By the clock, whatever the volume does: so many I/Os per second of each worker. Response
    /// time counts from the planned start.
    Ios {
        /// I/Os per second.
        per_second: f64,
        /// When each is due.
        #[serde(default)]
        arrivals: Arrivals,
    },
    /// By the clock: so many bytes per second of each worker.
    Bytes {
        /// Bytes per second.
        per_second: f64,
        /// When each is due.
        #[serde(default)]
        arrivals: Arrivals,
    },
}

/// How the planned starts of an open loop are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At equal distances.
    #[default]
    Constant,
    /// Independent of each other: distances are distributed exponentially.
    Poisson,
}

/// What is written. By default nothing can compress or share it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    /// Share of each chunk that a compressor can take away, 0 to 100.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compress_percent: f64,
    /// Length of a chunk: 512 bytes to 1 MiB, whole 512 bytes, and 4 KiB by default. With
    /// duplicates it is 4 KiB.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "size::some_bytes"
    )]
    pub chunk_bytes: Option<u32>,
    /// Share of 4 KiB blocks that equal one of few others, 0 to 100.
    #[serde(default, skip_serializing_if = "is_default")]
    pub dedupe_percent: f64,
    /// How many others: 1 and more, 64 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_blocks: Option<u64>,
    /// The bytes of a buffer come again in its next write, but for a new number in each 512. Only
    /// for storage that compresses nothing: it saves a pass over the data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub repeats: bool,
    /// Every write is this from its beginning on; with `compress_percent` only that share of each
    /// chunk is, behind what is random. Text of at most 512 bytes: `0xdeadbeef`, `"abcd"`, `12`,
    /// `%o` for the place of the write, where data are verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<DataPattern>,
}

/// How data are compared.
///
/// Every 512 bytes that are written carry their place, how often that place was written, and a
/// checksum; with a `content.pattern` they hold that and nothing else. What was never written is
/// not compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// The range is written once before the run, so that every read has something to compare.
    #[serde(default = "yes")]
    pub fill: bool,
    /// Share of reads that are compared, 0 to 100. With 0 nothing is, and what is only written is
    /// not looked at when the run is over either: a later run may do it.
    #[serde(default = "hundred")]
    pub sample_percent: f64,
    /// What is read was written by an earlier run, of which only the data are known: each block
    /// holds the pattern, or stamps of its place that belong together. For workloads that only
    /// read, without `fill`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub earlier: bool,
}

impl Default for Verify {
    fn default() -> Verify {
        Verify { fill: true, sample_percent: 100.0, earlier: false }
    }
}

/// Stands for the volumes that a setup makes.
pub const MADE: &str = "made";
/// The setting of a setup that says who makes it; it is the same in all runs of a sweep.
pub const MAKER: &str = "by";
impl JobSpec {
    /// A job of one step and one group.
    pub fn of(seed: u64, seconds: f64, ramp_seconds: f64, group: Group) -> JobSpec {
        let step = Step {
            name: String::new(),
            seconds,
            ramp_seconds,
            ends_with_first: false,
            steady: None,
            groups: vec![group],
        };
        JobSpec {
            command: String::new(),
            name: String::new(),
            seed,
            setup: BTreeMap::new(),
            files: BTreeMap::new(),
            steps: vec![step],
        }
    }
}

impl Step {
    /// Workers of all groups.
    pub fn workers(&self) -> u64 {
        self.groups.iter().map(Group::count).sum()
    }

    /// Puts volumes in the place of [`MADE`]. Planned starts per second stay what they are over
    /// all workers.
    pub fn make_volumes(&mut self, volumes: &[String]) {
        let groups = self.groups.iter_mut().filter(|group| group.volumes == [MADE]);
        for group in groups {
            group.workload.scale_pacing(1.0 / volumes.len().max(1) as f64);
            group.volumes = volumes.to_vec();
        }
    }
}

impl Group {
    /// So many workers for each volume, all through the step, on any processor.
    pub fn new(volumes: Vec<String>, workers: u32, workload: Workload) -> Group {
        Group {
            name: String::new(),
            volumes,
            stripes: None,
            workers,
            reported: Reported::default(),
            when: When::default(),
            cores: Vec::new(),
            cache: Cache::default(),
            logs: Logs::default(),
            figures: Figures::default(),
            workload,
        }
    }

    /// Whether each worker drives all of its volumes as one: in stripes, or as those of a trace.
    pub fn is_one(&self) -> bool {
        self.stripes.is_some() || self.joins()
    }

    /// Whether its volumes are the files of a trace.
    pub fn joins(&self) -> bool {
        self.workload.access.trace.as_ref().is_some_and(|replay| replay.volumes > 1)
    }

    /// How many workers it has.
    pub(super) fn count(&self) -> u64 {
        let volumes = if self.is_one() { 1 } else { self.volumes.len() as u64 };
        volumes * u64::from(self.workers)
    }

    /// The groups before it, of a step, that it waits for: all of the name that it gives.
    pub fn waits_for<'a>(&'a self, before: &'a [Group]) -> impl Iterator<Item = usize> + 'a {
        let named = |group: &Group| !self.when.after.is_empty() && group.name == self.when.after;
        before.iter().enumerate().filter(move |(_, group)| named(group)).map(|(index, _)| index)
    }
}

impl Workload {
    /// A closed loop of so many outstanding I/Os over the whole volume.
    pub fn new(access: Access, outstanding: u32) -> Workload {
        Workload {
            outstanding,
            pacing: Pacing::Closed,
            access,
            range: Range::WHOLE,
            content: Content::default(),
            verify: None,
            limit_bytes: None,
            limit_ios: None,
            end_flush: false,
            refill_at: None,
            think: None,
            demands: None,
            depth_search: None,
            flow: None,
        }
    }

    /// Whether it changes anything on the volume.
    pub fn writes(&self) -> bool {
        self.access.writes() || self.verify.is_some_and(|verify| verify.fill)
    }

    /// Whether a ledger knows what it writes and reads.
    pub fn has_ledger(&self) -> bool {
        self.verify.is_some_and(|verify| !verify.earlier)
    }

    /// Whether it writes what is to be compared, and reads nothing of it.
    pub fn is_unread(&self) -> bool {
        let compares = self.verify.is_some_and(|verify| verify.sample_percent > 0.0);
        compares && self.access.read_percent() == 0.0
    }

    /// Whether it fits a volume of this shape, and its settings each other.
    pub fn fits(&self, geometry: Geometry) -> Result<(), AccessError> {
        self.access.fits(&self.range, geometry)?;
        if self.verify.is_some() && geometry.block_bytes < 512 {
            return Err(AccessError::Conflict("what is verified has blocks of 512 bytes or more"));
        }
        match self.writes() && geometry.read_only {
            true => Err(AccessError::ReadOnly),
            false => Ok(()),
        }
    }

    /// Changes a planned rate by a factor.
    pub(crate) fn scale_pacing(&mut self, factor: f64) {
        match &mut self.pacing {
            Pacing::Closed => {}
            Pacing::Ios { per_second, .. } | Pacing::Bytes { per_second, .. } => {
                *per_second *= factor;
            }
        }
    }
}

fn first_seed() -> u64 {
    1
}

fn one() -> u32 {
    1
}

fn hundred() -> f64 {
    100.0
}

fn yes() -> bool {
    true
}

fn is_one(value: &u32) -> bool {
    *value == 1
}

#[cfg(test)]
pub(super) mod test {
    use super::*;
    use crate::spec::{Demand, Line, Places, Walk, Zone, ZoneWalk};

    pub(in crate::spec) const SHORT: &str = "[[steps]]\nseconds = 10\n[[steps.groups]]\n\
        volumes = ['null:1t']\n\
        workload.access.lines = [{ size_bytes = '4k', read_percent = 70 }]\n";

    #[test]
    fn a_short_job_has_sensible_defaults() {
        let job: JobSpec = toml::from_str(SHORT).unwrap();
        job.check().unwrap();
        let group = Group {
            name: String::new(),
            volumes: vec!["null:1t".to_owned()],
            stripes: None,
            workers: 1,
            reported: Reported::Group,
            when: When::default(),
            cores: Vec::new(),
            cache: Cache::default(),
            logs: Logs::default(),
            figures: Figures::default(),
            workload: Workload::new(Access::new(4096, 70.0, 100.0), 1),
        };
        assert_eq!(job, JobSpec::of(1, 10.0, 0.0, group));
        assert_eq!(toml::from_str::<JobSpec>(&toml::to_string(&job).unwrap()).unwrap(), job);
    }

    #[test]
    fn the_job_of_the_manual_is_one() {
        let manual = include_str!("../../../../docs/load.md");
        let text = manual.split("```toml").nth(1).unwrap().split("```").next().unwrap();
        let job: JobSpec = toml::from_str(text).unwrap();
        job.check().unwrap();
        let access = &job.steps[0].groups[0].workload.access;
        assert_eq!((job.steps[0].workers(), access.lines.len()), (4, 2));
        assert_eq!(access.random, Places::Zipf { exponent: 1.1 });
    }

    fn steer(workload: &mut Workload) {
        let (pause_us, shifts_rate) = (50, true);
        workload.think = Some(Think {
            pause_us,
            spin_us: 5,
            after_ios: 3,
            after_us: 9,
            counts_begun: true,
            shifts_rate,
        });
        let read = Demand { bytes_per_second: 5, ios_per_second: 6, latency_us: 7 };
        let (write, trim) = (Demand { ios_per_second: 1, ..read }, Demand::default());
        workload.demands = Some(Demands { read, write, trim, every_ms: 500 });
        let (latency_us, window_us) = (100, 5000);
        workload.depth_search =
            Some(DepthSearch { latency_us, window_us, percent: 99.5, goes_on: true });
        workload.flow = Some(Flow { id: 2, weight: 3, sleep_us: 4 });
    }

    /// All of it that goes together.
    fn access(line: Line, random: Places) -> Access {
        Access {
            lines: vec![line, line],
            random,
            sequential: Walk::Strided { bytes: 65536 },
            run: 4,
            apart: true,
            flush_every: 7,
            trims_first: true,
            trace: None,
            run_stays: true,
            zones: Some(ZoneWalk { transfer_bytes: 1 << 20, range_bytes: 65536, skip_bytes: 512 }),
        }
    }

    #[test]
    fn everything_survives_being_kept() {
        let mut job: JobSpec = toml::from_str(SHORT).unwrap();
        let line = Line {
            share_percent: 50.0,
            trim_percent: 1.0,
            zero_percent: 2.0,
            flush_percent: 3.0,
            fua_percent: 4.0,
            align_bytes: Some(512),
            delay_us: 1000,
            burst: 8,
            reply_bytes: 512,
            ..Line::new(8192, 60.0, 70.0)
        };
        let zones = vec![Zone { io_percent: 100.0, space: size::Extent::Percent(100.0) }];
        for random in [
            Places::Uniform,
            Places::Once,
            Places::Zipf { exponent: 1.2 },
            Places::Pareto { hot: 0.2 },
            Places::Normal { deviation_percent: 12.5 },
            Places::Zones { zones },
        ] {
            let workload = &mut job.steps[0].groups[0].workload;
            workload.access = access(line, random);
            workload.pacing = Pacing::Ios { per_second: 1e5, arrivals: Arrivals::Poisson };
            workload.range = Range { start: size::Extent::Percent(10.0), length: None };
            let pattern = toml::from_str::<Content>("pattern = '0xff%o\"ab\"'").unwrap().pattern;
            let (compress_percent, dedupe_percent, repeats) = (50.0, 25.0, true);
            let content =
                Content { compress_percent, dedupe_percent, repeats, ..Content::default() };
            workload.content =
                Content { chunk_bytes: Some(512), dedupe_blocks: Some(9), pattern, ..content };
            workload.verify = Some(Verify { fill: false, sample_percent: 1.5, earlier: true });
            workload.limit_bytes = Some(1 << 30);
            workload.refill_at = Some(3);
            steer(workload);
            (workload.limit_ios, workload.end_flush) = (Some(9), true);
            let group = &mut job.steps[0].groups[0];
            let after = "first".to_owned();
            group.when = When { after, delay_seconds: 0.5, seconds: Some(2.5) };
            group.cores = vec![1, 3];
            group.stripes = Some(Stripes { bytes: 4096, share_bytes: Some(1 << 20) });
            let latency = Some("x/y".to_owned());
            group.logs = Logs { latency, first: 3, jobs: 2, joined: true, ..Logs::default() };
            group.cache = Cache { drop: true, expect: crate::spec::Expect::Random };
            job.steps[0].ends_with_first = true;
            job.steps[0].steady = Some(Steady {
                of: crate::spec::Quantity::Bandwidth,
                slope: true,
                below: 0.5,
                percent: true,
                seconds: 30.0,
                after_seconds: 9.0,
                interval_seconds: 5,
            });
            let text = toml::to_string(&job).unwrap();
            assert_eq!(toml::from_str::<JobSpec>(&text).unwrap(), job, "{text}");
        }
    }
}
