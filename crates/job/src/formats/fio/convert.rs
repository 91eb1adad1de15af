//! Conversion of fio's jobs to a job of ours: a step per stonewall, a group for each job.
//!
//! Options that our specification cannot express are refused, and options with a different effect
//! are noted.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::bdev::Bdevs;
use super::job::{FioJob, Jobs};
use super::settings::Engine;
use super::times::{self, Steps};
use super::value::Amount;
use super::{
    access, cached, calls, control, data, fill, laid_out, logs, parts, rates, remote, replay,
    service, storage, zones,
};
use crate::formats::note::{Note, Notes, Treatment};
use crate::formats::reading::{Reading, Storage};
use crate::formats::surroundings::Surroundings;
use crate::spec::{Access, Group, JobSpec, Pacing, Places, Replay, Reported, Step, Workload};

/// Choices and lookups of the caller.
pub struct Options<'a> {
    /// Volumes to use instead of those in the file, in the order in which the file names them.
    pub volumes: &'a [String],
    /// Returns the URI of a volume, or the reason why there is none.
    pub volume: &'a dyn Fn(&Storage) -> Result<String, String>,
    /// Returns the capacity of an existing volume, in bytes.
    pub capacity: &'a dyn Fn(&str) -> Option<u64>,
    /// Returns whether a volume is on another host: the capacity of such a volume is queried only
    /// if a job would not end otherwise.
    pub is_far: &'a dyn Fn(&str) -> bool,
    /// Returns the CPUs of a NUMA node, by its number; `None` if the host does not have the node.
    pub node: &'a dyn Fn(usize) -> Option<Vec<usize>>,
    /// Returns whether a file or device supports polling for completions, by its path.
    pub polls: &'a dyn Fn(&str) -> bool,
    /// True if files are overwritten and programs started without confirmation, as in fio.
    pub is_fio: bool,
    /// Length of every step in seconds, instead of the run times and sizes of the file.
    pub seconds: Option<f64>,
}

/// Maximum number of workers of one file, over all clones: more is a typing mistake.
const WORKERS_MAX: u64 = 65536;
/// Maximum number of lines of access specifications of one file.
const LINES_MAX: usize = 1 << 18;

/// Converts the jobs of a file to a job of ours.
pub fn convert(
    Jobs { jobs, options: shared }: Jobs,
    notes: Notes,
    options: &Options<'_>,
    around: &Surroundings<'_>,
) -> Reading {
    let mut converter = Converter {
        options,
        around,
        traces: Vec::new(),
        notes,
        workers: 0,
        jobs: 0,
        lines: 0,
        drawn: 0,
        named: HashMap::new(),
        traced: HashSet::new(),
        bdevs: HashMap::new(),
        made: HashMap::new(),
        laid_out: laid_out::Files::default(),
        capacities: HashMap::new(),
        unreached: false,
    };
    let mut steps = Steps::default();
    for job in &jobs {
        if job.settings.before.only_made {
            laid_out::lay_out(&mut converter, job);
            steps.leave_out(job);
            continue;
        }
        let job = rates::by_rates(&mut converter, job);
        let job = data::stored(&mut converter, job);
        let job = &calls::as_ios(&mut converter, job);
        let groups = converter.groups(job);
        steps.add(&mut converter, job, groups);
    }
    let steps = steps.finish(jobs.iter().any(|job| job.settings.exit_all));
    if let (Some(first), true) = (jobs.first(), steps.is_empty() && converter.laid_out.is_empty()) {
        converter.refuse(first, "rw", "no job remains to run");
    }
    let (named, given) = (converter.named.len(), options.volumes.len());
    if let Some(first) = jobs.first().filter(|_| given > 0 && given != named) {
        let why = format!("the file names {named} volumes, but the command line names {given}");
        converter.refuse(first, "filename", &why);
    }
    converter.finish(&jobs, shared, steps)
}

/// Converts jobs and collects notes.
pub(super) struct Converter<'a> {
    pub(super) options: &'a Options<'a>,
    pub(super) around: &'a Surroundings<'a>,
    /// Traces that were read, and whether all of their files are one volume.
    pub(super) traces: Vec<(Replay, bool)>,
    notes: Notes,
    workers: u64,
    /// Number of fio's jobs so far, counting each clone.
    pub(super) jobs: u32,
    lines: usize,
    /// Number of random delays so far.
    drawn: u64,
    /// Volumes that the file names, numbered in order of appearance.
    pub(super) named: HashMap<Storage, usize>,
    /// Paths of traces to write.
    pub(super) traced: HashSet<String>,
    /// Configurations of SPDK that were read, by path.
    pub(super) bdevs: HashMap<String, Rc<Bdevs>>,
    /// Sizes of files that previous jobs create, by path.
    pub(super) made: HashMap<String, u64>,
    /// Files that are only laid out.
    pub(super) laid_out: laid_out::Files,
    /// Capacities queried so far, by URI.
    capacities: HashMap<String, Option<u64>>,
    /// True if a host did not answer: no other is queried, since each may take seconds.
    unreached: bool,
}

impl Converter<'_> {
    /// Notes that a setting of a job is not applied unchanged.
    pub(super) fn note(&mut self, job: &FioJob, key: &str, treatment: Treatment, why: &str) {
        let (at, text) = job.line_of(key);
        self.notes.take(Note::new(at, text, treatment, why));
    }

    /// Notes that a job is refused because of a setting.
    pub(super) fn refuse(&mut self, job: &FioJob, key: &str, why: &str) {
        self.note(job, key, Treatment::Refused, why);
    }

    /// Returns the URI of a volume: a given one, or that of the volume in the file.
    pub(super) fn volume(&mut self, storage: &Storage) -> Result<String, String> {
        let next = self.named.len();
        let index = *self.named.entry(storage.clone()).or_insert(next);
        match self.options.volumes.get(index) {
            Some(given) => Ok(given.clone()),
            None => (self.options.volume)(storage),
        }
    }

    /// Returns the capacity of an existing volume in bytes, if it is queried.
    pub(super) fn capacity(&mut self, job: &FioJob, uri: &str) -> Option<u64> {
        let settings = &job.settings;
        let timed = settings.time_based && settings.runtime_us.is_some();
        let sizes = [settings.file_size, settings.size, settings.io_size];
        let sized = sizes.iter().any(|size| matches!(size, Some(Amount::Bytes(_))));
        let far = (self.options.is_far)(uri);
        if far && (timed || sized || self.unreached || self.options.seconds.is_some()) {
            return None;
        }
        if let Some(known) = self.capacities.get(uri) {
            return *known;
        }
        let found = (self.options.capacity)(uri);
        self.capacities.insert(uri.to_owned(), found);
        self.unreached |= far && found.is_none();
        found
    }

    fn finish(
        mut self,
        jobs: &[FioJob],
        options: Vec<(String, String)>,
        steps: Vec<Step>,
    ) -> Reading {
        let seed = jobs.first().and_then(|job| job.settings.seed);
        for job in jobs.iter().filter(|job| job.settings.seed != seed) {
            self.refuse(job, "randseed", "all jobs must have the same randseed");
        }
        // Our seeds have 63 bits, and 0 is valid.
        let seed = seed.unwrap_or(1) & (u64::MAX >> 1);
        let mut steps = steps;
        storage::widest(&self, &mut steps);
        times::visit_all(&mut steps);
        let cores = common_cores(&mut steps);
        let (command, name) = (String::new(), String::new());
        let (setup, files) = Default::default();
        let job = JobSpec {
            command,
            name,
            seed,
            setup,
            files,
            options,
            laid_out: self.laid_out.into_vec(),
            serve: Vec::new(),
            steps,
        };
        let mut notes = self.notes.into_vec();
        notes.sort_by(|a, b| (&a.at.file, a.at.line).cmp(&(&b.at.file, b.at.line)));
        let refused = notes.iter().any(|note| note.treatment == Treatment::Refused);
        let mut reading = Reading { job: None, cores, notes };
        if !refused && let Some(first) = jobs.first() {
            match job.check() {
                Ok(()) => reading.job = Some(job),
                Err(error) => {
                    let (at, why) = (&first.at, error.to_string());
                    reading.notes.push(Note::new(at, &first.name, Treatment::Refused, why));
                }
            }
        }
        reading
    }

    /// Returns the number of the next random delay.
    pub(super) fn drawn(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    /// Returns the CPUs of a job: those that it names, and those of the NUMA nodes that it names.
    fn cores(&mut self, job: &FioJob) -> Vec<usize> {
        let mut cores = job.settings.seats.cpus.clone();
        for node in &job.settings.seats.nodes {
            match (self.options.node)(*node) {
                Some(found) => cores.extend(found),
                None => {
                    let why = format!("this host has no CPUs on NUMA node {node}");
                    self.refuse(job, "numa_cpu_nodes", &why);
                }
            }
        }
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    /// Refuses missing files if none may be created.
    fn check_made(&mut self, job: &FioJob, place: &storage::JobFiles) {
        let settings = &job.settings;
        if !settings.before.none_made || !settings.engine.has_files() {
            return;
        }
        let new = |uri: &&String| (self.options.capacity)(uri).is_none();
        if let Some(uri) = place.volumes.iter().find(new) {
            let why = format!("{uri} does not exist: create the file, or remove allow_file_create");
            self.refuse(job, "allow_file_create", &why);
        }
    }

    /// Counts the workers of a job, and refuses too many of them.
    pub(super) fn counts(&mut self, job: &FioJob) -> bool {
        let settings = &job.settings;
        let files = settings.files.len().max(settings.nr_files as usize) as u64;
        self.workers += u64::from(settings.clones) * files;
        let fits = self.workers <= WORKERS_MAX;
        if !fits {
            self.refuse(job, "numjobs", "more than 65536 workers");
        }
        fits
    }

    /// Returns the groups of a job: one, or one for each clone with its own part.
    fn groups(&mut self, job: &FioJob) -> Vec<Group> {
        let settings = &job.settings;
        self.check(job);
        let clones = settings.clones;
        if !self.counts(job) {
            return Vec::new();
        }
        let drawn = settings.delay_us.0 != settings.delay_us.1;
        let Ok(trace) = replay::access(self, job) else { return Vec::new() };
        let many = settings.files.is_empty() && settings.nr_files > 1;
        // Workers for each of several files are distinguished by their clones.
        let named = settings.files.len() as u32;
        let split = named > 1 && !settings.grouped && !service::together(settings, named);
        let moved = settings.offset_increment != Amount::Bytes(0) || settings.appends;
        let parted = moved || many || split;
        let apart = parted && trace.is_none() || drawn;
        let cores = self.cores(job);
        let cache = cached::cache(self, job);
        let parts = if apart { clones } else { 1 };
        let number = self.jobs + 1;
        // The number of workers is within its limit.
        self.jobs += clones;
        let mut groups = Vec::new();
        for part in 0..parts {
            let those = if apart { part..part + 1 } else { 0..clones };
            let logs = logs::logs(self, job, number + those.start, those.len() as u32);
            let place = match &trace {
                Some(access) => replay::place(self, job, access),
                None => storage::place(self, job, those),
            };
            let Some(place) = place else { return Vec::new() };
            self.check_made(job, &place);
            let shared = if apart || place.own_files { 1 } else { clones };
            let workload = self.workload(job, &place, trace.clone());
            let files = workload.access.files.as_ref().map_or(1, |files| files.count as usize);
            self.lines += workload.access.lines.len() * files;
            if self.lines > LINES_MAX {
                self.refuse(job, "bsrange", "more than 262144 block sizes in all jobs and clones");
                return Vec::new();
            }
            let reported = match settings.grouped {
                true => Reported::Step,
                // A clone that goes from file to file is several of our workers.
                false if clones > 1 && place.files == 1 => Reported::Worker,
                false => Reported::Group,
            };
            let mut figures = settings.figures.clone();
            // Clones with separate parts are one job.
            figures.begins &= part == 0;
            groups.push(Group {
                name: job.name.clone(),
                stripes: place.stripes,
                reported,
                cores: cores.clone(),
                cache,
                logs,
                figures,
                unlink: settings.before.unlink,
                ..Group::new(place.volumes, shared, workload)
            });
        }
        groups
    }

    fn workload(
        &mut self,
        job: &FioJob,
        place: &storage::JobFiles,
        trace: Option<Access>,
    ) -> Workload {
        let settings = &job.settings;
        // A trace ends by itself, and has its own times.
        let free = trace.is_none();
        let access = trace.unwrap_or_else(|| {
            let mut access = access::access(self, job);
            access.files.clone_from(&place.turns);
            if access.files.is_some() && access.is_mapped() {
                let why = "offsets of a file may repeat before all of its blocks were visited, \
                           and no I/O is shortened at a visited block";
                self.note(job, "nrfiles", Treatment::Differs, why);
                access.random = Places::Uniform;
            }
            zones::zones(self, job, place, &mut access);
            access
        });
        let writes = if free { settings.mix.writes } else { access.writes() };
        let outstanding = (settings.in_flight() / place.files).max(1);
        let low = (settings.depth_low / place.files).max(1);
        let drains = settings.depth_low > 0 && low < outstanding;
        let mut workload = Workload {
            outstanding,
            refill_at: drains.then_some(low),
            pacing: if free { rates::pacing(self, job, place.files) } else { Pacing::Closed },
            range: place.range,
            content: data::content(self, job, place, writes),
            verify: if free { data::verify(self, job) } else { None },
            limit_bytes: if free { self.limit_bytes(job, place, &access) } else { None },
            limit_ios: settings
                .most_ios
                .filter(|_| free)
                // The limit counts I/Os of each pass over the part.
                .map(|ios| ios.saturating_mul(settings.loops).div_ceil(u64::from(place.files))),
            end_flush: settings.end_flush && writes,
            until_full: fill::ends(settings) && writes,
            ..Workload::new(access, outstanding)
        };
        if free {
            control::control(self, job, place, &mut workload);
            data::fitting(self, job, place, workload)
        } else {
            workload
        }
    }

    /// Returns the bytes after which the job ends by itself; `None` if only time ends it. Bytes of
    /// the ramp count, as in fio, and are in no figure.
    fn limit_bytes(
        &mut self,
        job: &FioJob,
        place: &storage::JobFiles,
        access: &Access,
    ) -> Option<u64> {
        let settings = &job.settings;
        let timed = settings.time_based && settings.runtime_us.is_some();
        if timed || self.options.seconds.is_some() {
            return None;
        }
        if parts::is_too_little(settings, place) {
            self.refuse(
                job,
                "size",
                "the size is smaller than one I/O: set a larger size or a smaller bs",
            );
            return None;
        }
        let whole = parts::all_bytes(settings, place, access);
        if whole.is_none_or(|bytes| bytes == 0) && settings.most_ios.is_none() {
            let missing = place.volumes.iter().find(|uri| self.capacity(job, uri).is_none());
            let there = match (missing, settings.size, settings.io_size) {
                (Some(uri), None, None) => format!("{uri} does not exist or cannot be opened; "),
                _ => String::new(),
            };
            let why = "the end of the job is unknown: set time_based and runtime, or a size in \
                       bytes";
            self.refuse(job, "size", &format!("{there}{why}"));
        }
        whole
    }

    /// Refuses combinations that are invalid for every volume.
    fn check(&mut self, job: &FioJob) {
        let settings = &job.settings;
        let several = settings.depth > 1;
        if settings.engine == Engine::Synchronous && several {
            let why = "this engine is synchronous, so one I/O is in flight, as in fio: for this \
                       queue depth set ioengine=io_uring";
            self.note(job, "iodepth", Treatment::Differs, why);
        }
        if settings.engine == Engine::Libaio && !settings.direct && several {
            let why = "libaio blocks on buffered I/O, so fio reaches a queue depth of 1; here the \
                       configured depth is reached";
            self.note(job, "ioengine", Treatment::Differs, why);
        }
        if settings.flush_every > 0 && settings.mix.reads && settings.mix.writes {
            let word = if job.sets("fsync") { "fsync" } else { "fdatasync" };
            let why = "one flush after the given number of writes; fio flushes again after each \
                       read that follows, until the next write";
            self.note(job, word, Treatment::Differs, why);
        }
        if settings.flush_every > 0 && settings.most_ios.is_some() {
            let why = "flushes do not count as I/Os; in fio they do";
            self.note(job, "number_ios", Treatment::Differs, why);
        }
        for key in ["exec_prerun", "exec_postrun"] {
            if job.sets(key) && !self.options.is_fio {
                self.refuse(job, key, "only `drumfire fio` starts programs");
            }
        }
        fill::check(self, job);
        if settings.hipri && !settings.direct {
            let why = "buffered I/O is not polled: set direct=1";
            self.note(job, "hipri", Treatment::Differs, why);
        }
        if settings.time_based && settings.runtime_us.is_none() {
            let why = "without a runtime the job ends when all I/O is done, as in fio";
            self.note(job, "time_based", Treatment::Ignored, why);
        }
        cached::check(self, job);
        remote::check(self, job);
        data::check(self, job);
    }
}

/// Returns the CPUs that all groups have in common, which are then those of the run; none if they
/// differ.
fn common_cores(steps: &mut [Step]) -> Vec<usize> {
    let mut groups = steps.iter().flat_map(|step| &step.groups);
    let Some(first) = groups.next().map(|group| group.cores.clone()) else { return Vec::new() };
    if !groups.all(|group| group.cores == first) {
        return Vec::new();
    }
    let groups = steps.iter_mut().flat_map(|step| &mut step.groups);
    groups.for_each(|group| group.cores.clear());
    first
}
