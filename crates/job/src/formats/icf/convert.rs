//! Conversion of an Iometer configuration to a job of ours: a step for each test, a group for each
//! worker.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::cycle::{self, Test};
use super::file::{Icf, Spec, SpecLine, Worker};
use super::scan::Text;
use super::specs::{is_idle, is_same};
use crate::formats::note::{FormatError, Location, Note, Notes, Treatment};
use crate::formats::reading::Reading;
use crate::spec::{Access, Extent, Group, JobSpec, Line, Range, Step, Workload};

/// Choices and lookups of the caller.
pub struct Options<'a> {
    /// URIs for the targets of the file, in order of appearance. Without any, the names of the
    /// targets are used as URIs.
    pub volumes: &'a [String],
    /// Returns whether a target's name names a volume on this host.
    pub is_volume: &'a dyn Fn(&str) -> bool,
    /// Length of each test in seconds, instead of the file's.
    pub seconds: Option<f64>,
    /// Meaning of "on sector boundaries": the largest block of the volumes, in bytes.
    pub sector_bytes: u32,
}

/// Unit of positions, in bytes.
const SECTOR_BYTES: u64 = 512;
/// Maximum number of volumes of one file, over all tests.
const PLACED_MAX: usize = 1 << 18;

/// Maximum number of targets that a message about too many or too few of them names.
const SHOWN_MAX: usize = 8;

/// Converts a configuration to a job of ours.
pub fn convert(icf: &Icf, options: &Options<'_>) -> Result<Reading, FormatError> {
    let mut converter =
        Converter { icf, options, notes: icf.notes.iter().cloned().collect(), placed: 0 };
    let targets = converter.targets();
    let steps = match icf.managers.iter().all(|manager| manager.workers.is_empty()) {
        true => converter.specs_only(),
        false => converter.steps(&targets)?,
    };
    Ok(converter.finish(steps))
}

/// Returns a key for a target of the n-th manager.
fn key(manager: usize, target: &str) -> String {
    format!("{manager}\0{target}")
}

struct Converter<'a> {
    icf: &'a Icf,
    options: &'a Options<'a>,
    notes: Notes,
    /// Number of volumes over all steps.
    placed: usize,
}

impl<'a> Converter<'a> {
    fn note(&mut self, at: &Location, text: &str, treatment: Treatment, why: impl Into<String>) {
        self.notes.take(Note::new(at, text, treatment, why));
    }

    fn finish(mut self, steps: Vec<Step>) -> Reading {
        let workers = || self.icf.managers.iter().flat_map(|manager| &manager.workers);
        let seed = workers().find_map(|worker| worker.seed);
        let odd = workers().find(|worker| worker.seed != seed && seed.is_some());
        let odd = odd.map(|worker| (worker.at.clone(), worker.name.clone()));
        if let Some((at, name)) = odd {
            self.note(&at, &name, Treatment::Differs, "all workers use the same seed");
        }
        let job = JobSpec {
            command: String::new(),
            name: self.icf.setup.description.clone(),
            seed: seed.unwrap_or(1) & (u64::MAX >> 1),
            setup: BTreeMap::new(),
            files: BTreeMap::new(),
            options: Vec::new(),
            laid_out: Vec::new(),
            serve: Vec::new(),
            steps,
        };
        let mut reading = Reading { job: None, cores: Vec::new(), notes: self.notes.into_vec() };
        let refused = reading.notes_of(Treatment::Refused).next().is_some();
        match job.check() {
            _ if refused => {}
            Ok(()) => reading.job = Some(job),
            Err(error) => {
                let at = &self.icf.specs[0].at;
                let note = Note::new(at, &job.name, Treatment::Refused, error.to_string());
                reading.notes.push(note);
            }
        }
        reading
    }

    /// Returns the names of all targets in order, each once, with the volume of each.
    fn targets(&mut self) -> HashMap<String, String> {
        let mut names: Vec<Text> = Vec::new();
        let mut known = HashSet::new();
        for (number, manager) in self.icf.managers.iter().enumerate() {
            for target in manager.workers.iter().flat_map(|worker| &worker.targets) {
                // Managers are separate hosts, some with the same name: the same name is another
                // disk there.
                let name = Text { text: key(number, &target.text), ..target.clone() };
                if known.insert(name.text.clone()) {
                    names.push(name);
                }
            }
        }
        let given = self.options.volumes;
        if given.is_empty() {
            for name in &names {
                let target = name.text.split_once('\0').map_or("", |(_, target)| target);
                if !(self.options.is_volume)(target) {
                    let why = "the target is not a volume: name one URI per target after the file";
                    self.note(&name.at, target, Treatment::Refused, why);
                }
            }
        } else if let Some(first) = names.first().filter(|_| given.len() != names.len()) {
            let target =
                |name: &Text| name.text.split_once('\0').map(|(_, target)| format!("`{target}`"));
            let mut shown: Vec<String> = names.iter().take(SHOWN_MAX).filter_map(target).collect();
            shown.extend((names.len() > SHOWN_MAX).then(|| "…".to_owned()));
            let (has, given) = (names.len(), given.len());
            let are = if has == 1 { "1 target" } else { &format!("{has} targets") };
            let volumes = if given == 1 { "1 volume" } else { &format!("{given} volumes") };
            let why = format!(
                "the file has {are}, {}, but the command line names {volumes}",
                shown.join(", ")
            );
            self.note(&first.at, "targets", Treatment::Refused, why);
        }
        let volume = |(index, name): (usize, Text)| {
            let own = name.text.split_once('\0').map_or("", |(_, target)| target);
            let volume = given.get(index).map_or(own, String::as_str).to_owned();
            (name.text, volume)
        };
        names.into_iter().enumerate().map(volume).collect()
    }

    fn seconds(&mut self) -> f64 {
        let at = &self.icf.specs[0].at;
        let file = Some(self.icf.setup.run_seconds as f64).filter(|seconds| *seconds > 0.0);
        self.options.seconds.or(file).unwrap_or_else(|| {
            let why = "the test has no end: set --seconds, or a 'Run Time above 0";
            self.note(at, "'Run Time", Treatment::Refused, why);
            1.0
        })
    }

    /// Returns the steps of a file without workers: each specification in turn, one worker for each
    /// volume.
    fn specs_only(&mut self) -> Vec<Step> {
        let icf = self.icf;
        let assigned: Vec<&Spec> = icf.specs.iter().filter(|spec| spec.by_default).collect();
        let specs = if assigned.is_empty() { icf.specs.iter().collect() } else { assigned };
        if self.options.volumes.is_empty() {
            let why = "the file has no targets: name volumes after the file";
            self.note(&icf.specs[0].at, &icf.specs[0].name, Treatment::Refused, why);
        }
        let mut steps = Vec::new();
        for spec in specs {
            let access = self.access(spec);
            let volumes = self.options.volumes.to_vec();
            let group = Group::new(volumes, 1, Workload::new(access, 1));
            steps.push(self.step(&spec.name, vec![group]));
        }
        steps
    }

    fn step(&mut self, name: &str, groups: Vec<Group>) -> Step {
        let ramp_seconds = self.icf.setup.ramp_seconds as f64;
        let (name, seconds) = (name.to_owned(), self.seconds());
        Step { name, seconds, ramp_seconds, ends_with_first: false, steady: None, groups }
    }

    /// Returns the steps of the cycle: the k-th specifications of all workers run at the same time,
    /// in all tests.
    fn steps(&mut self, targets: &HashMap<String, String>) -> Result<Vec<Step>, FormatError> {
        let icf = self.icf;
        let workers = || icf.managers.iter().flat_map(|manager| &manager.workers);
        for worker in workers().filter(|worker| !worker.disk) {
            let why = "network workers are not supported";
            self.note(&worker.at, &worker.name, Treatment::Refused, why);
        }
        let rounds = workers().map(|worker| worker.specs.len()).max().unwrap_or(0);
        let mut steps = Vec::new();
        for round in 0..rounds {
            let mut has = Vec::new();
            for manager in &icf.managers {
                let busy = |worker: &Worker| {
                    let spec = worker.specs.get(round);
                    worker.disk && spec.is_some_and(|spec| !is_idle(&spec.text))
                };
                let count = |worker: &Worker| if busy(worker) { worker.targets.len() } else { 0 };
                has.push(manager.workers.iter().map(count).collect::<Vec<_>>());
            }
            self.all_idle(round, &has);
            let at = icf.specs[0].at.clone();
            let Some(tests) = cycle::tests(&icf.setup, &has) else {
                let why = format!("more than {} tests in a cycle", cycle::TESTS_MAX);
                return Err(FormatError::new(&at, "'Test Type", why));
            };
            if steps.len() + tests.len() > cycle::TESTS_MAX {
                return Err(FormatError::new(&at, "'Test Type", "too many tests in total"));
            }
            for test in &tests {
                steps.extend(self.test(round, test, targets)?);
            }
        }
        if steps.is_empty() {
            let at = icf.specs[0].at.clone();
            let why = "no worker has both an access specification and a target";
            self.note(&at, "'MANAGER LIST", Treatment::Refused, why);
        }
        Ok(steps)
    }

    /// Notes that nothing is done in a round in which every worker with targets is idle.
    fn all_idle(&mut self, round: usize, has: &[Vec<usize>]) {
        if has.iter().flatten().any(|targets| *targets > 0) {
            return;
        }
        let workers = self.icf.managers.iter().flat_map(|manager| &manager.workers);
        let mut specs = workers.filter_map(|worker| worker.specs.get(round));
        if let Some(spec) = specs.find(|spec| is_idle(&spec.text)) {
            let why = "every worker is idle in this test: the test is skipped, without waiting \
                       for its time";
            self.note(&spec.at, &spec.text, Treatment::Differs, why);
        }
    }

    /// Returns the step of one test: the groups of all workers that are active in it.
    fn test(
        &mut self,
        round: usize,
        test: &Test,
        targets: &HashMap<String, String>,
    ) -> Result<Option<Step>, FormatError> {
        let icf = self.icf;
        let mut groups = Vec::new();
        let mut name: Option<String> = None;
        let mut driven = HashSet::new();
        for ((number, manager), counts) in icf.managers.iter().enumerate().zip(&test.targets) {
            for (worker, count) in manager.workers.iter().zip(counts) {
                if *count == 0 {
                    continue;
                }
                let spec = self.spec(&worker.specs[round])?;
                name.get_or_insert_with(|| spec.name.clone());
                let volume = |target: &Text| targets.get(&key(number, &target.text)).cloned();
                self.placed += count;
                if self.placed > PLACED_MAX {
                    let why = "more than 262144 targets in all tests";
                    return Err(FormatError::new(&worker.at, &worker.name, why));
                }
                let volumes: Vec<String> =
                    worker.targets[..*count].iter().filter_map(volume).collect();
                let shared = volumes.iter().filter(|one| !driven.insert((*one).clone())).count();
                if shared > 0 && spec.lines.iter().any(|line| line.random_percent < 100) {
                    let why = "workers of one target start at different offsets, which divide the \
                               target; in Iometer all start at its beginning";
                    self.note(&worker.at, &worker.name, Treatment::Differs, why);
                }
                let name = format!("{} {}", manager.name, worker.name);
                let workload = self.workload(worker, spec, test.outstanding);
                groups.push(Group { name, ..Group::new(volumes, 1, workload) });
            }
        }
        let Some(name) = name else { return Ok(None) };
        Ok(Some(self.step(&name, groups)))
    }

    fn spec(&self, name: &Text) -> Result<&'a Spec, FormatError> {
        let icf = self.icf;
        let same = |spec: &&Spec| is_same(&spec.name, &name.text);
        let found = icf.specs.iter().find(same);
        // The oldest versions have no names, and Iometer generated other names from their lines
        // than we do.
        let only = || Some(&icf.specs[0]).filter(|spec| spec.unnamed && icf.specs.len() == 1);
        found.or_else(only).ok_or_else(|| name.error("no access specification of this name"))
    }

    fn workload(&mut self, worker: &Worker, spec: &Spec, depth: Option<u64>) -> Workload {
        let access = self.access(spec);
        if access.writes() && worker.data_pattern == 0 {
            let why = "Iometer repeats one byte in each buffer; here data are incompressible";
            self.note(&worker.at, &worker.name, Treatment::Differs, why);
        }
        let depth = depth.map_or(Some(worker.outstanding), |depth| u32::try_from(depth).ok());
        let mut workload = Workload::new(access, depth.unwrap_or(u32::MAX));
        let bytes = |sectors: u64| Extent::Bytes(sectors.saturating_mul(SECTOR_BYTES));
        workload.range = Range {
            start: bytes(worker.start_sector),
            length: Some(bytes(worker.max_sectors)).filter(|_| worker.max_sectors > 0),
        };
        workload
    }

    fn access(&mut self, spec: &Spec) -> Access {
        let sum: u32 = spec.lines.iter().map(|line| line.share_percent).sum();
        if sum != 100 {
            let why = format!("the lines sum up to {sum} percent: they must sum up to 100");
            self.note(&spec.at, &spec.name, Treatment::Refused, why);
        }
        let lines = spec.lines.iter().map(|line| self.line(line)).collect();
        Access::of(lines)
    }

    fn line(&mut self, line: &SpecLine) -> Line {
        let SpecLine { text, .. } = line;
        let sector_bytes = self.options.sector_bytes;
        let mut narrow = |bytes: u64, what| {
            u32::try_from(bytes).unwrap_or_else(|_| {
                self.note(&text.at, &text.text, Treatment::Refused, format!("{what} is too large"));
                0
            })
        };
        let size = narrow(line.size_bytes, "the size");
        let align = match line.align_bytes {
            0 => sector_bytes,
            bytes => narrow(bytes, "the alignment"),
        };
        let (read, random) = (f64::from(line.read_percent), f64::from(line.random_percent));
        Line {
            share_percent: f64::from(line.share_percent),
            align_bytes: Some(align).filter(|align| *align != size),
            delay_us: line.delay_ms.saturating_mul(1000),
            burst: line.burst.max(1),
            reply_bytes: narrow(line.reply_bytes, "the reply"),
            ..Line::new(size, read, random)
        }
    }
}
