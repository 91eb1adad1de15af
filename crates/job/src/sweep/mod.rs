//! Sweeps: the same job with settings that vary, one run after the other.
//!
//! A [`Sweep`] is a pure function of its document: [`next_run`](Sweep::next_run) returns the next
//! run to make, [`record`](Sweep::record) adds its result. The caller runs the job by any
//! [`Runner`](crate::Runner), measured or simulated, and saves the document: an interrupted sweep
//! resumes from its document.

mod axis;
mod knee;
mod search;
mod settings;

use std::collections::HashMap;
use std::path::{Component, Path};

use block::Rng;
use stats::sweep::journal::{Entry, Event, Journal, digest};
use stats::sweep::{Cell, CellRun, Search, Setting, Source, SweepPlan, SweepResult, doubts};
use stats::{Bound, RunResult, SCHEMA_VERSION, Spread};

use crate::spec::{JobSpec, Rate, SpecError};

pub use self::axis::parse as parse_axis;
pub use self::settings::{WORDS, Word};

/// Maximum number of cells of a sweep: at a second each they take a day.
const MAX_CELLS: usize = 100_000;
/// Maximum number of cells of a search per combination: a closed loop, and a rate for each two
/// percent of it.
const SEARCHED: usize = 51;
/// Maximum number of runs of a cell.
const MAX_REPEATS: u32 = 1000;

/// Error of a sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Unknown setting.
    #[error("unknown setting '{word}'{near}: one of {known}, or workload.KEY…")]
    Word {
        /// Name as given.
        word: String,
        /// Hint at a similar setting, if there is one.
        near: String,
        /// Known names: the settings of the job's setup, then those of any job.
        known: String,
    },
    /// Text other than `WORD=VALUE,VALUE…`.
    #[error("'{0}' is not WORD=VALUE,VALUE…, such as size=512,4k")]
    Axis(String),
    /// Duplicate setting or value.
    #[error("{0} is set twice")]
    Twice(String),
    /// Invalid value of a setting.
    #[error("{word}={value}: {why}")]
    Value {
        /// Name of the setting.
        word: String,
        /// Value as given.
        value: String,
        /// Reason.
        why: String,
    },
    /// Combination of settings without a valid job.
    #[error("{settings}: {error}")]
    Job {
        /// Settings of the combination.
        settings: String,
        /// Reason.
        error: SpecError,
    },
    /// Job of several steps.
    #[error("a sweep needs a job of one step, not {0}")]
    Steps(usize),
    /// Too many cells or repeats, or none.
    #[error("{what} must be {range}, not {count}")]
    Count {
        /// Name of what is counted.
        what: &'static str,
        /// Allowed range.
        range: &'static str,
        /// Actual count.
        count: usize,
    },
    /// Search for a rate together with a given rate.
    #[error("a search sets the rate: remove --rate and the rate axis")]
    Rate,
    /// Document of another sweep.
    #[error("the document of the sweep: {0}")]
    Document(String),
}

/// A sweep in progress.
#[derive(Clone, Debug)]
pub struct Sweep {
    job: JobSpec,
    document: SweepResult,
    /// True if runs were added since series and findings were derived.
    stale: bool,
}

/// A run to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Ticket {
    /// Index of the cell in the document.
    pub cell: usize,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Job of the run.
    pub job: JobSpec,
    /// Folder of the run inside that of the sweep.
    pub folder: String,
}

impl Sweep {
    /// Checks every combination of a plan before anything runs; its job becomes `job`.
    ///
    /// # Errors
    ///
    /// [`SweepError`] for a setting, value or combination that makes no job.
    pub fn new(job: JobSpec, mut plan: SweepPlan) -> Result<Sweep, SweepError> {
        let to_document = |error: serde_json::Error| SweepError::Document(error.to_string());
        plan.job = serde_json::to_value(&job).map_err(to_document)?;
        check(&job, &plan)?;
        let search = plan.search;
        let document =
            SweepResult { schema_version: SCHEMA_VERSION, plan, ..SweepResult::default() };
        let mut sweep = Sweep { job, document, stale: false };
        for settings in axis::combinations(&sweep.document.plan.axes) {
            sweep.job_of(&settings, None)?;
            match search {
                Search::Nothing => sweep.add_cell(settings, None),
                Search::Ladder | Search::P99 { .. } => sweep.add_cell(search::top(settings), None),
            }
        }
        Ok(sweep)
    }

    /// Resumes a sweep. Failed runs are repeated.
    ///
    /// # Errors
    ///
    /// [`SweepError`] for a document that is not one of a sweep.
    pub fn resume(document: SweepResult) -> Result<Sweep, SweepError> {
        let read = |job| serde_json::from_value(job);
        let job: JobSpec = read(document.plan.job.clone())
            .map_err(|error: serde_json::Error| SweepError::Document(error.to_string()))?;
        let search = document.plan.search;
        let mut sweep = Sweep::new(job, document.plan)?;
        sweep.document.tool = document.tool;
        sweep.document.schema_version = document.schema_version;
        sweep.document.bounds = document.bounds;
        sweep.document.unkept = document.unkept;
        // Findings by an earlier rule remain until there are new ones.
        sweep.document.found = document.found;
        let places: HashMap<String, usize> =
            (0..).zip(&sweep.document.cells).map(|(at, c)| (words_of(&c.settings), at)).collect();
        for cell in document.cells {
            let known = places.get(&words_of(&cell.settings)).copied();
            if known.is_none() && search == Search::Nothing {
                return Err(SweepError::Document(format!(
                    "{} is not a cell of the sweep",
                    cell.folder
                )));
            }
            let index = known.unwrap_or_else(|| {
                sweep.add_cell(cell.settings.clone(), cell.rate_per_s);
                sweep.document.cells.len() - 1
            });
            let repeats = match cell.repeats {
                0 => sweep.document.plan.repeats,
                repeats => repeats.min(MAX_REPEATS),
            };
            if let Some(run) = cell.runs.iter().find(|run| !is_inside(&run.folder)) {
                let why = format!("the folder of a run, {}, is outside the sweep", run.folder);
                return Err(SweepError::Document(why));
            }
            let shows = cell.shows;
            let finished = cell.runs.into_iter().filter(|run| run.failed.is_none());
            let cell = &mut sweep.document.cells[index];
            (cell.repeats, cell.shows) = (repeats, shows);
            cell.runs = finished.collect();
            cell.iops = Spread::of(cell.whole_runs().map(|run| run.iops));
            cell.doubts = doubts(cell, None);
            cell.class = cell.judge(document.schema_version);
        }
        sweep.stale = true;
        Ok(sweep)
    }

    /// Returns the document so far.
    pub fn document(&mut self) -> &SweepResult {
        if std::mem::take(&mut self.stale) {
            self.document.series = knee::series(&self.document);
            let found = search::found(&self.document);
            if !found.is_empty() {
                self.document.found = found;
            }
        }
        &self.document
    }

    /// Returns the plan.
    pub fn plan(&self) -> &SweepPlan {
        &self.document.plan
    }

    /// Returns the cell of a ticket.
    pub fn cell(&self, ticket: &Ticket) -> &Cell {
        &self.document.cells[ticket.cell]
    }

    /// Returns the runs that are planned by now and not made, in the order of their cells.
    pub fn missing(&self) -> impl Iterator<Item = Ticket> {
        let cells = self.document.cells.iter().enumerate();
        cells.flat_map(move |(index, cell)| {
            let made = |repeat: &u32| cell.runs.iter().any(|run| run.repeat == *repeat);
            let repeats = (1..=cell.repeats).filter(move |repeat| !made(repeat));
            repeats.map(move |repeat| self.ticket(index, repeat))
        })
    }

    /// Returns the jobs of all cells that are known by now. A search changes their rate only.
    pub fn jobs(&self) -> impl Iterator<Item = JobSpec> {
        let job = |cell: &Cell| self.job_of(&cell.settings, cell.rate_per_s).ok();
        self.document.cells.iter().filter_map(job)
    }

    /// Sets the program that makes the runs.
    pub fn set_tool(&mut self, tool: stats::Tool) {
        self.document.tool = tool;
    }

    /// Sets the verdicts on the user's bounds.
    pub fn set_bounds(&mut self, bounds: Vec<Bound>) {
        self.document.bounds = bounds;
    }

    /// Sets the figures that differed between identical runs.
    pub fn set_unkept(&mut self, unkept: Vec<String>) {
        self.document.unkept = unkept;
    }

    /// Returns whether `other` has the same plan; the command lines may differ.
    pub fn has_plan_of(&self, other: &Sweep) -> bool {
        let plan = |sweep: &Sweep| {
            let mut plan = sweep.document.plan.clone();
            if let Some(job) = plan.job.as_object_mut() {
                job.remove("command");
            }
            plan
        };
        plan(self) == plan(other)
    }

    /// Returns the number of completed runs, and of those planned by now; a search may plan more.
    pub fn progress(&self) -> (usize, usize) {
        let cells = &self.document.cells;
        let done = cells.iter().map(|cell| cell.runs.len()).sum();
        (done, cells.iter().map(|cell| cell.repeats as usize).sum())
    }

    /// Returns the next run to make; `None` at the end.
    ///
    /// Every cell is measured once before any is measured again, in an order that differs from
    /// round to round: drift is not mistaken for an effect of a setting.
    pub fn next_run(&mut self) -> Option<Ticket> {
        self.next_planned().or_else(|| {
            search::extend(self);
            self.next_planned()
        })
    }

    fn next_planned(&self) -> Option<Ticket> {
        let cells = &self.document.cells;
        let most = cells.iter().map(|cell| cell.repeats).max().unwrap_or(0);
        for repeat in 1..=most {
            let lacks = |cell: &Cell| {
                repeat <= cell.repeats && cell.runs.iter().all(|run| run.repeat != repeat)
            };
            let missing = (0..cells.len()).filter(|index| lacks(&cells[*index]));
            // Sorted by a separate random number for each cell and round: the order of the
            // remaining cells is the same when the sweep is resumed.
            let key = |index: &usize| {
                let stream = (u64::from(repeat) << 32) | *index as u64;
                Rng::new(self.document.plan.seed, stream).next_u64()
            };
            if let Some(cell) = missing.min_by_key(key) {
                return Some(self.ticket(cell, repeat));
            }
        }
        None
    }

    fn ticket(&self, index: usize, repeat: u32) -> Ticket {
        let cell = &self.document.cells[index];
        let mut job = self
            .job_of(&cell.settings, cell.rate_per_s)
            .expect("every combination was checked at the start");
        // Repeats differ in random choices, too: one order of offsets is one sample.
        job.seed = split(job.seed, repeat);
        let single = self.document.plan.repeats == 1
            && !matches!(self.document.plan.search, Search::P99 { .. });
        let folder = match single {
            true => cell.folder.clone(),
            false => format!("{}/repeat-{repeat}", cell.folder),
        };
        Ticket { cell: index, repeat, job, folder }
    }

    /// Adopts a result in the folder of a ticket from before an interruption, unless it is of
    /// another job or incomplete.
    pub fn adopt(&mut self, ticket: &Ticket, result: &RunResult) -> bool {
        // The job as it was saved: a number may change its last bit in a text.
        let kept = serde_json::to_string(&ticket.job).and_then(|text| serde_json::from_str(&text));
        // The logs were in the folder of the run.
        let same = kept.is_ok_and(|kept| without_logs(kept) == without_logs(result.spec.clone()));
        let whole = result.partial.is_none();
        if same && whole {
            self.record(ticket, result);
        }
        same && whole
    }

    /// Adds the result of a run.
    pub fn record(&mut self, ticket: &Ticket, result: &RunResult) {
        let run = CellRun::of(result, ticket.repeat, ticket.folder.clone());
        self.keep(ticket, run);
    }

    /// Adds a run that failed, with the reason.
    pub fn record_failure(&mut self, ticket: &Ticket, why: String) {
        let (repeat, folder) = (ticket.repeat, ticket.folder.clone());
        self.keep(ticket, CellRun { repeat, folder, failed: Some(why), ..CellRun::default() });
    }

    fn keep(&mut self, ticket: &Ticket, run: CellRun) {
        let layout = self.document.schema_version;
        let cell = &mut self.document.cells[ticket.cell];
        cell.runs.push(run);
        cell.runs.sort_by_key(|run| run.repeat);
        cell.iops = Spread::of(cell.whole_runs().map(|run| run.iops));
        cell.doubts = doubts(cell, None);
        cell.class = cell.judge(layout);
        self.stale = true;
    }

    /// Compares the runs with their results and the journal: `source` returns the source of a run
    /// from its own result, if that was read.
    pub fn hold_against(
        &mut self,
        journal: Option<&Journal>,
        mut source: impl FnMut(&CellRun) -> Option<Source>,
    ) {
        let layout = self.document.schema_version;
        for cell in &mut self.document.cells {
            for run in &mut cell.runs {
                run.source = source(run).unwrap_or_else(|| std::mem::take(&mut run.source));
            }
            cell.doubts = doubts(cell, journal);
            cell.class = cell.judge(layout);
        }
        self.document.journal = journal.map(|journal| journal.counts.clone());
        self.stale = true;
    }

    /// Returns the first entry of the journal: the sweep begins, with its plan.
    pub fn begins(&self) -> Entry {
        let mut plan = self.document.plan.clone();
        if let Some(job) = plan.job.as_object_mut() {
            job.remove("command");
        }
        let text = serde_json::to_string(&plan).unwrap_or_default();
        Entry { event: Event::Sweep, digest: digest(text.as_bytes()), ..Entry::default() }
    }

    /// Returns the checked job of a combination.
    fn job_of(&self, settings: &[Setting], rate_per_s: Option<f64>) -> Result<JobSpec, SweepError> {
        let mut job = self.job.clone();
        for setting in settings.iter().filter(|setting| setting.word != search::LOAD) {
            settings::set(&mut job, &setting.word, &setting.value)?;
        }
        if let Some(rate) = rate_per_s {
            settings::set_rate(&mut job.steps[0], Rate::Ios(rate));
        }
        if self.document.plan.poisson && settings.iter().all(|s| s.word != "arrivals") {
            settings::set_poisson(&mut job.steps[0]);
        }
        job.steps[0].name = words_of(settings);
        job.check().map_err(|error| SweepError::Job { settings: words_of(settings), error })?;
        Ok(job)
    }

    fn add_cell(&mut self, settings: Vec<Setting>, rate_per_s: Option<f64>) {
        let number = self.document.cells.len() + 1;
        let folder = folder_name(number, &settings);
        let repeats = self.document.plan.repeats;
        let cell = Cell { settings, folder, rate_per_s, repeats, ..Cell::default() };
        self.document.cells.push(cell);
    }
}

/// Derives the seed of a repeat: sweeps with neighbouring seeds have none in common. Every JSON
/// reader supports its 53 bits.
fn split(seed: u64, repeat: u32) -> u64 {
    Rng::new(seed, repeat.into()).next_u64() >> 11
}

/// Returns a saved job without the names of its logs, which are no part of the load.
fn without_logs(mut job: serde_json::Value) -> serde_json::Value {
    let steps = job.get_mut("steps").and_then(serde_json::Value::as_array_mut);
    for step in steps.into_iter().flatten() {
        let groups = step.get_mut("groups").and_then(serde_json::Value::as_array_mut);
        for group in groups.into_iter().flatten().filter_map(serde_json::Value::as_object_mut) {
            group.remove("logs");
        }
    }
    job
}

fn check(job: &JobSpec, plan: &SweepPlan) -> Result<(), SweepError> {
    let job_error = |error| SweepError::Job { settings: "the job".to_owned(), error };
    job.check().map_err(job_error)?;
    if !job.laid_out.is_empty() {
        let (at, what) = ("a sweep".to_owned(), "only run lays out files: run the job first");
        return Err(job_error(SpecError::Conflict { at, what }));
    }
    if job.steps.len() != 1 {
        return Err(SweepError::Steps(job.steps.len()));
    }
    if job.steps[0].groups.iter().any(|group| group.workload.access.trace.is_some()) {
        let (at, what) = ("a sweep".to_owned(), "only run replays a trace");
        return Err(job_error(SpecError::Conflict { at, what }));
    }
    let count = |what, range, count| Err(SweepError::Count { what, range, count });
    if !(1..=MAX_REPEATS).contains(&plan.repeats) {
        return count("the number of repeats", "1 to 1000", plan.repeats as usize);
    }
    let sizes = plan.axes.iter().map(|axis| axis.values.len());
    let each = if plan.search == Search::Nothing { 1 } else { SEARCHED };
    let cells = sizes.fold(each, usize::saturating_mul);
    if !(1..=MAX_CELLS).contains(&cells) {
        return count("the number of cells", "1 to 100000", cells);
    }
    let mut seen: Vec<&str> = Vec::new();
    for axis in &plan.axes {
        if settings::name(&axis.word, &job.setup)? != axis.word {
            let why = format!("'{}' is not the name of a setting", axis.word);
            return Err(SweepError::Document(why));
        }
        if seen.contains(&axis.word.as_str()) {
            return Err(SweepError::Twice(axis.word.clone()));
        }
        seen.push(&axis.word);
    }
    let paced = |group: &crate::spec::Group| group.workload.pacing != crate::spec::Pacing::Closed;
    let rate = job.steps[0].groups.iter().any(paced) || seen.contains(&"rate");
    if rate && plan.search != Search::Nothing {
        return Err(SweepError::Rate);
    }
    Ok(())
}

/// Formats settings, as "size=4k outstanding=8".
pub fn words_of(settings: &[Setting]) -> String {
    let words = settings.iter().map(|setting| format!("{}={}", setting.word, setting.value));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns whether a path is inside the folder in which it begins.
fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components();
    !path.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// Returns a folder name that every file system accepts, unique in the sweep by its number.
fn folder_name(number: usize, settings: &[Setting]) -> String {
    const LONGEST: usize = 100;
    let words = words_of(settings).replace(' ', "-");
    let plain = |c: char| if c.is_ascii_alphanumeric() || "=-.".contains(c) { c } else { '_' };
    let words: String = words.chars().map(plain).take(LONGEST).collect();
    format!("{number:03}-{words}").trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod test;
