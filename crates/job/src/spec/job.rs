//! A job: the document that a run is made from and saved as (`job.toml`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Group;
use super::defaults::is_default;
use super::laid_out::LaidOut;
use super::serving::Serving;
use super::steady::Steady;

/// A whole job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Command or file of origin; only for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Name; "run" by default.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Seed of every random choice, together with the number of the worker. At most 2⁶³ − 1.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Setup that is created for the run and driven, if no existing volumes are named: settings by
    /// name. `load` passes them to its creator, and groups then name [`MADE`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub setup: BTreeMap<String, String>,
    /// Content of the files that the setup names, so that a repeated run means the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Options that a fio job file sets for all of its jobs, each as name and value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
    /// Files that a `run` lays out first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub laid_out: Vec<LaidOut>,
    /// Hosts of a run of many that serve volumes to the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serve: Vec<Serving>,
    /// Steps, one after the other; at least one, unless only files are laid out.
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// One measurement: groups of workers that run at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Name, such as that of an access specification.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Length of the measured window in seconds. The window ends earlier if every worker has
    /// reached its limit.
    pub seconds: f64,
    /// Ramp time before the window in seconds, under load but not measured.
    #[serde(default)]
    pub ramp_seconds: f64,
    /// True if the step ends as soon as the first worker has reached its limit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ends_with_first: bool,
    /// Steady-state criterion that ends the step early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Steady>,
    /// Groups; at least one.
    pub groups: Vec<Group>,
}

/// Placeholder for the volumes that a setup creates.
pub const MADE: &str = "made";
/// Setting of a setup that names its creator; it is the same in all runs of a sweep.
pub const MAKER: &str = "by";

impl JobSpec {
    /// Creates a job of one step and one group.
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
            options: Vec::new(),
            laid_out: Vec::new(),
            serve: Vec::new(),
            steps: vec![step],
        }
    }
}

impl JobSpec {
    /// Returns the job without the options of its original file: its load is the same.
    pub fn without_options(mut self) -> JobSpec {
        self.options.clear();
        let groups = self.steps.iter_mut().flat_map(|step| &mut step.groups);
        groups.for_each(|group| group.figures.options.clear());
        self
    }
}

impl Step {
    /// Returns the number of workers of all groups.
    pub fn workers(&self) -> u64 {
        self.groups.iter().map(Group::count).sum()
    }

    /// Replaces [`MADE`] by volumes. The total rate over all workers is unchanged.
    pub fn make_volumes(&mut self, volumes: &[String]) {
        let groups = self.groups.iter_mut().filter(|group| group.volumes == [MADE]);
        for group in groups {
            group.workload.scale_pacing(1.0 / volumes.len().max(1) as f64);
            group.volumes = volumes.to_vec();
        }
    }
}

fn first_seed() -> u64 {
    1
}

#[cfg(test)]
pub(super) mod test {
    use super::*;
    use crate::spec::{
        Access, Arrivals, Cache, Content, Demand, Demands, DepthSearch, Extent, Figures, FileWalk,
        Flow, Line, Logs, Pacing, Places, Range, Reported, Stripes, Think, Verify, Walk, When,
        Workload, Zone, ZoneWalk,
    };

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
            own_places: false,
            reported: Reported::Group,
            when: When::default(),
            hosts: Vec::new(),
            cores: Vec::new(),
            cache: Cache::default(),
            logs: Logs::default(),
            figures: Figures::default(),
            unlink: false,
            workload: Workload::new(Access::new(4096, 70.0, 100.0), 1),
        };
        assert_eq!(job, JobSpec::of(1, 10.0, 0.0, group));
        assert_eq!(toml::from_str::<JobSpec>(&toml::to_string(&job).unwrap()).unwrap(), job);
    }

    #[test]
    fn the_job_of_the_manual_is_one() {
        let manual = include_str!("../../../../docs/guide/load.md");
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

    /// Returns an access with all compatible features.
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
            files: Some(FileWalk {
                count: 3,
                ios: 2,
                random: Some(Places::Zipf { exponent: 2.0 }),
            }),
            zones: Some(ZoneWalk { transfer_bytes: 1 << 20, range_bytes: 65536, skip_bytes: 512 }),
            zoned: None,
        }
    }

    fn serving() -> Serving {
        let files = [("p.toml".to_owned(), "name = 'p'".to_owned())].into();
        let args = vec!["--volume".to_owned(), "disk=ram:1m".to_owned()];
        Serving { hosts: vec!["1-3".to_owned()], args, files }
    }

    const VERIFY: Verify =
        Verify { fill: false, sample_percent: 100.0, earlier: false, read_back_bytes: 9 };

    #[test]
    fn everything_survives_being_kept() {
        let mut job: JobSpec = toml::from_str(SHORT).unwrap();
        job.laid_out.push(LaidOut {
            path: "x".to_owned(),
            size_bytes: 4096,
            written: false,
            grows: true,
            content: Content { compress_percent: 50.0, ..Content::default() },
            write_bytes: Some(8192),
        });
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
        let zones = vec![Zone { io_percent: 100.0, space: Extent::Percent(100.0) }];
        job.serve.push(serving());
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
            workload.range = Range { start: Extent::Percent(10.0), length: None };
            let pattern = toml::from_str::<Content>("pattern = '0xff%o\"ab\"'").unwrap().pattern;
            let (compress_percent, dedupe_percent, repeats) = (50.0, 25.0, true);
            let content =
                Content { compress_percent, dedupe_percent, repeats, ..Content::default() };
            workload.content =
                Content { chunk_bytes: Some(512), dedupe_blocks: Some(9), pattern, ..content };
            workload.verify = Some(Verify { sample_percent: 1.5, earlier: true, ..VERIFY });
            workload.limit_bytes = Some(1 << 30);
            workload.refill_at = Some(3);
            steer(workload);
            (workload.limit_ios, workload.end_flush, workload.until_full) = (Some(9), true, true);
            let group = &mut job.steps[0].groups[0];
            let after = "first".to_owned();
            group.when = When { after, delay_seconds: 0.5, seconds: Some(2.5), ramp_seconds: 1.5 };
            group.cores = vec![1, 3];
            (group.own_places, group.unlink) = (true, true);
            group.stripes = Some(Stripes { bytes: 4096, share_bytes: Some(1 << 20) });
            let latency = Some("x/y".to_owned());
            group.logs = Logs { latency, first: 3, jobs: 2, joined: true, ..Logs::default() };
            group.cache = Cache { drop: true, read: true, expect: crate::spec::Expect::Random };
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
