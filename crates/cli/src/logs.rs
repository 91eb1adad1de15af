//! Logs and traces that a fio job requests in addition to its result, with fio's names. They are
//! written during the run, so that a killed run leaves all records up to that point.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use block::Nanos;
use job::formats::Storage;
use job::spec::{Group, JobSpec, RunSpec, Step, WorkerSpec};
use load::{Scribe, SharedScribe};
use report::fio::{Driven, Form, HistogramLog, Logs, Trace};
use serde_json::Value;
use stats::{Moment, Record};

use crate::exit::UsageError;
use crate::folder::Place;
use crate::{folder, foreign, output};

/// Refuses logs in missing folders, before anything is opened.
pub fn check(job: &JobSpec) -> Result<(), UsageError> {
    let groups = job.steps.iter().flat_map(|step| &step.groups);
    for name in groups.flat_map(|group| group.logs.names()) {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() && !folder.is_dir() {
            let folder = folder.display();
            let why = format!("log {name}…: create the folder {folder}, or choose another");
            return Err(UsageError(why));
        }
    }
    Ok(())
}

/// The job with its logs in `folder`, where the folders of their names are made.
pub fn within(job: &JobSpec, folder: &Path) -> io::Result<JobSpec> {
    let mut job = job.clone();
    let groups = job.steps.iter_mut().flat_map(|step| &mut step.groups);
    for name in groups.flat_map(|group| group.logs.names_mut()) {
        let parts = Path::new(&*name).components();
        let inner: PathBuf = parts.filter(|part| matches!(part, Component::Normal(_))).collect();
        let path = folder.join(inner);
        os::Folder::make_trusted(path.parent().unwrap_or(folder))?;
        *name = path.display().to_string();
    }
    Ok(job)
}

/// Sets the paths of the logs in the document of a job to their final folder. Returns whether any
/// log is in another folder now.
pub fn place(document: &mut Value, place: &Place) -> bool {
    if !place.is_apart() {
        return false;
    }
    let mut moved = false;
    let steps = document.get_mut("steps").and_then(Value::as_array_mut);
    for step in steps.into_iter().flatten() {
        let groups = step.get_mut("groups").and_then(Value::as_array_mut);
        for logs in groups.into_iter().flatten().filter_map(|group| group.get_mut("logs")) {
            moved |= put(logs, place);
        }
    }
    moved
}

fn put(value: &mut Value, place: &Place) -> bool {
    match value {
        Value::String(name) => match Path::new(name).strip_prefix(&place.now) {
            Ok(inner) => {
                *name = place.home.join(inner).display().to_string();
                true
            }
            Err(_) => false,
        },
        Value::Array(all) => all.iter_mut().fold(false, |moved, one| put(one, place) | moved),
        Value::Object(all) => all.values_mut().fold(false, |moved, one| put(one, place) | moved),
        _ => false,
    }
}

/// Names the logs that a job writes outside of the working folder, before any is made: the job may
/// be somebody else's.
pub fn name_those_outside(job: &JobSpec) {
    let is_outside = |path: &&PathBuf| {
        !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
    };
    for path in paths(job).iter().filter(is_outside) {
        output::note(format_args!("drumfire: writing the log {}", path.display()));
    }
}

/// The logs of all groups.
fn paths(job: &JobSpec) -> BTreeSet<PathBuf> {
    let mut paths = BTreeSet::new();
    for group in job.steps.iter().flat_map(|step| &step.groups) {
        for number in group.logs.numbers() {
            paths.extend(Paths::of(group, number).all());
        }
    }
    paths
}

/// Truncates all logs of a job. Refuses logs that cannot be written, before anything runs.
pub fn begin(job: &JobSpec) -> Result<(), UsageError> {
    for path in paths(job) {
        let made = folder::begin_file(&path);
        made.map_err(|error| UsageError(format!("the log {}: {error}", path.display())))?;
    }
    Ok(())
}

/// Writer of the logs of a step; `None` if the step requests none.
pub fn scribe(step: &Step, spec: &RunSpec) -> Option<SharedScribe> {
    let mut jobs: BTreeMap<u32, JobLogs> = BTreeMap::new();
    for (worker, of) in (0..).zip(&spec.workers) {
        let (Some(number), Some(group)) = (of.shift.job, step.groups.get(of.shift.group)) else {
            continue;
        };
        let logs = jobs.entry(number).or_insert_with(|| JobLogs::new(group, number));
        if logs.paths.trace.is_some() {
            logs.workers.push((worker, driven(group, of)));
        }
    }
    for logs in jobs.values_mut().filter(|logs| logs.paths.trace.is_some()) {
        logs.trace = Some(Trace::new(std::mem::take(&mut logs.workers)));
    }
    (!jobs.is_empty())
        .then(|| -> SharedScribe { Arc::new(Mutex::new(Writer { jobs, failed: BTreeMap::new() })) })
}

/// The files of a worker under the names that a trace has.
fn driven(group: &Group, worker: &WorkerSpec) -> Driven {
    let name = |(number, uri): (usize, &String)| match foreign::storage_of(uri) {
        Some(Storage::File { path, .. }) => path,
        Some(Storage::Nothing { .. }) => format!("{}.0.{number}", group.name),
        _ => match uri.strip_prefix("file:") {
            Some(path) => path.split('?').next().unwrap_or(path).to_owned(),
            None => uri.clone(),
        },
    };
    match group.stripes {
        Some(stripes) => {
            let names = group.volumes.iter().enumerate().map(name).collect();
            Driven { names, stripe_bytes: stripes.bytes }
        }
        None => Driven { names: vec![name((0, &worker.uri))], stripe_bytes: 0 },
    }
}

/// Paths of the logs of a job.
#[derive(Debug, Default)]
struct Paths {
    bandwidth: Option<PathBuf>,
    iops: Option<PathBuf>,
    latency: Option<[PathBuf; 2]>,
    /// Empty, as with fio's synchronous engines: submission is not measured separately.
    submission: Option<PathBuf>,
    histograms: Option<PathBuf>,
    trace: Option<PathBuf>,
}

impl Paths {
    fn of(group: &Group, number: u32) -> Paths {
        let logs = &group.logs;
        let number = if logs.joined { String::new() } else { format!(".{number}") };
        let path = |name: &String, word| PathBuf::from(format!("{name}_{word}{number}.log"));
        Paths {
            bandwidth: logs.bandwidth.as_ref().map(|name| path(name, "bw")),
            iops: logs.iops.as_ref().map(|name| path(name, "iops")),
            latency: logs.latency.as_ref().map(|name| [path(name, "lat"), path(name, "clat")]),
            submission: logs.latency.as_ref().map(|name| path(name, "slat")),
            histograms: logs.histograms.as_ref().map(|log| path(&log.name, "clat_hist")),
            trace: logs.trace.as_ref().map(PathBuf::from),
        }
    }

    fn all(self) -> impl Iterator<Item = PathBuf> {
        let single = [self.bandwidth, self.iops, self.submission, self.histograms, self.trace];
        single.into_iter().flatten().chain(self.latency.into_iter().flatten())
    }
}

/// Logs of a job, and their unwritten text.
#[derive(Debug)]
struct JobLogs {
    paths: Paths,
    logs: Logs,
    histograms: Option<HistogramLog>,
    trace: Option<Trace>,
    /// Workers that the trace does not list yet.
    workers: Vec<(u32, Driven)>,
}

impl JobLogs {
    fn new(group: &Group, number: u32) -> JobLogs {
        let logs = &group.logs;
        let (window, offsets) = (Nanos::from_millis(logs.window_ms), logs.offsets);
        JobLogs {
            paths: Paths::of(group, number),
            logs: Logs::new(Form { window, offsets, longest: logs.longest }),
            histograms: logs
                .histograms
                .as_ref()
                .map(|log| HistogramLog::new(Nanos::from_millis(log.window_ms), log.coarseness)),
            trace: None,
            workers: Vec::new(),
        }
    }

    /// Drains the buffered text, with each destination file.
    fn texts(&mut self) -> Vec<(&Path, String)> {
        let take = std::mem::take;
        let Logs { bandwidth, iops, latency, .. } = &mut self.logs;
        let (bandwidth, iops, latency) = (take(bandwidth), take(iops), take(latency));
        let mut texts: Vec<(&Path, String)> = Vec::new();
        let paths = &self.paths;
        texts.extend(paths.bandwidth.as_ref().map(|path| (path.as_path(), bandwidth)));
        texts.extend(paths.iops.as_ref().map(|path| (path.as_path(), iops)));
        let both = paths.latency.iter().flatten();
        texts.extend(both.map(|path| (path.as_path(), latency.clone())));
        let histograms = paths.histograms.as_ref().zip(self.histograms.as_mut());
        texts.extend(histograms.map(|(path, log)| (path.as_path(), take(&mut log.text))));
        let trace = paths.trace.as_ref().zip(self.trace.as_mut());
        texts.extend(trace.map(|(path, trace)| (path.as_path(), take(&mut trace.text))));
        texts
    }
}

/// Writes the logs of a step.
#[derive(Debug)]
struct Writer {
    jobs: BTreeMap<u32, JobLogs>,
    /// Files that could not be written on, and why.
    failed: BTreeMap<PathBuf, String>,
}

impl Writer {
    /// Appends the buffered text to its files. A log that cannot be written is abandoned: the run
    /// is worth more than its log.
    fn write(&mut self, job: u32) {
        let Some(logs) = self.jobs.get_mut(&job) else { return };
        for (path, text) in logs.texts() {
            if text.is_empty() || self.failed.contains_key(path) {
                continue;
            }
            // Reopened for each write: there may be more logs than open files are allowed.
            let file = os::append_to(path);
            if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
                self.failed.insert(path.to_owned(), error.to_string());
            }
        }
    }
}

impl Scribe for Writer {
    fn take(&mut self, job: u32, records: &[Record]) {
        let Some(logs) = self.jobs.get_mut(&job) else { return };
        for record in records {
            match record.moment {
                Moment::Done => {
                    logs.logs.take(record);
                    logs.histograms.iter_mut().for_each(|log| log.take(record));
                }
                Moment::Begun => logs.trace.iter_mut().for_each(|trace| trace.take(record)),
                Moment::Turn => {}
            }
        }
        self.write(job);
    }

    fn end(&mut self, job: u32, length: Nanos) {
        let Some(logs) = self.jobs.get_mut(&job) else { return };
        logs.logs.end(length);
        logs.histograms.iter_mut().for_each(|log| log.end(length));
        logs.trace.iter_mut().for_each(|trace| trace.end(length));
        self.write(job);
    }

    fn troubles(&mut self) -> Vec<String> {
        let said = std::mem::take(&mut self.failed).into_iter();
        let say = |(path, why): (PathBuf, String)| {
            format!("the log {} is incomplete: {why}", path.display())
        };
        said.map(say).collect()
    }

    fn wants_beginnings(&self, job: u32) -> bool {
        self.jobs.get(&job).is_some_and(|logs| logs.trace.is_some())
    }
}
