//! `drumfire run`: drive volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use load::spec::{JobSpec, Pacing, Part, Step, Workload};
use load::{Engine, RunSpec, WorkerSpec};
use stats::{Job, RunResult};
use volume::{Purpose, Uri, Volume};

use crate::args::{Color, Run};
use crate::exit::Exit;
use crate::job::Asked;
use crate::{folder, job, placement, recheck, show, signal};

/// Drives the volumes, one step of the job after the other.
pub fn main(run: &Run, color: Color) -> Result<Exit> {
    let Asked { job, cores } = job::of(run)?;
    let run = &Run { cores, ..run.clone() };
    let many = job.steps.len() > 1;
    let mut open = Open::new();
    let mut specs = Vec::new();
    for step in &job.steps {
        specs.push(spec(run, &job, step, &mut open)?);
    }
    if run.verify_only {
        return recheck::main(run, &specs);
    }
    let folder = folder::make(run.drive.out.as_deref(), "run")?;
    let engine = Engine::default();
    signal::stop_on_signal(&engine.stop)?;
    let mut results: Vec<RunResult> = Vec::new();
    let mut right = true;
    for (index, spec) in specs.into_iter().enumerate() {
        if engine.stop.asked() > 0 {
            break;
        }
        let folder = if many { folder.join(format!("step-{}", index + 1)) } else { folder.clone() };
        let unread = only_writes(&spec);
        results.push(one(run, &job, spec, &engine, &folder, color)?);
        if unread && engine.stop.asked() == 0 {
            // Nothing was compared yet.
            let spec = self::spec(run, &job, &job.steps[index], &mut open)?;
            right &= recheck::after(&spec, &folder)?;
        }
    }
    if many && run.drive.json {
        show::print_steps(&results)?;
    }
    let exits = results
        .iter()
        .map(|result| Exit::of_result(result, engine.stop.asked() > 0, run.drive.strict));
    let exit = exits.reduce(Exit::worse).unwrap_or(Exit::Interrupted);
    Ok(if right { exit } else { Exit::worse(exit, Exit::Mismatch) })
}

/// Whether a worker stamps what it writes and reads nothing of it.
fn only_writes(spec: &RunSpec) -> bool {
    let workloads = spec.workers.iter().map(|worker| &worker.workload);
    let mut verified = workloads.filter(|workload| workload.verify.is_some());
    verified.any(|workload| workload.access.read_percent() == 0.0)
}

fn one(
    run: &Run,
    job: &JobSpec,
    mut spec: RunSpec,
    engine: &Engine,
    folder: &Path,
    color: Color,
) -> Result<RunResult> {
    let name = spec.job.name.clone();
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the run's folder {}", folder.display()))?;
    if spec.workers.iter().any(|worker| worker.workload.verify.is_some()) {
        // Kept from the start: a look after a crash needs both.
        folder::write_job(folder, &spec.document)?;
        spec.ledgers = Some(folder.to_owned());
    }
    let mut live = show::view(&run.drive, color)?;
    let mut result = engine.run(spec, &mut *live)?;
    drop(live);
    let alone = job.steps.len() == 1 || !run.drive.json;
    show::finish(&mut result, folder, &run.drive, color, &name, alone)?;
    Ok(result)
}

/// Volumes that are open, by their URIs in full: workers and steps that name the same one share it.
pub type Open = BTreeMap<String, Arc<dyn Volume>>;

/// A step with its volumes open.
pub fn spec(run: &Run, job: &JobSpec, step: &Step, open: &mut Open) -> Result<RunSpec> {
    let uris = open_all(run, job, step, open)?;
    let mut workers: Vec<WorkerSpec> = Vec::new();
    for group in &step.groups {
        let workload = Arc::new(group.workload.clone());
        for text in &group.volumes {
            let uri: Uri = text.parse()?;
            let volume = &open[&uri.to_string()];
            for _ in 0..group.workers {
                workers.push(WorkerSpec {
                    name: format!("manager 1 worker {}", workers.len() + 1),
                    volume: volume.clone(),
                    uri: uri.to_string(),
                    target: uri.target().unwrap_or_default().to_owned(),
                    workload: workload.clone(),
                    number: workers.len() as u64,
                    part: Part::WHOLE,
                });
            }
        }
    }
    share_out(&mut workers);
    let cores = placement::chosen(&run.cores, workers.len())?;
    let alone = JobSpec { steps: vec![step.clone()], ..job.clone() };
    Ok(RunSpec {
        job: job_of(job, step, &uris, &workers),
        document: serde_json::to_value(&alone).context("the job as a document")?,
        workers,
        seconds: step.seconds,
        ramp_seconds: step.ramp_seconds,
        seed: job.seed,
        cores,
        ledgers: None,
        targets: None,
    })
}

/// Opens the volumes of a step that are not open yet; returns all of its volumes, each once.
fn open_all(run: &Run, job: &JobSpec, step: &Step, open: &mut Open) -> Result<Vec<Uri>> {
    let mut uris: Vec<Uri> = Vec::new();
    let mut seen = BTreeSet::new();
    for text in step.groups.iter().flat_map(|group| &group.volumes) {
        let uri: Uri = text.parse()?;
        if seen.insert(uri.to_string()) {
            uris.push(uri);
        }
    }
    let groups = job.steps.iter().flat_map(|step| &step.groups);
    let written = groups.filter(|group| group.workload.writes()).flat_map(|group| &group.volumes);
    let written: BTreeSet<String> =
        written.filter_map(|text| Some(text.parse::<Uri>().ok()?.to_string())).collect();
    let new = uris.iter().filter(|uri| !open.contains_key(&uri.to_string()));
    let purpose = |uri: &Uri| purpose(run, uri, written.contains(&uri.to_string()));
    let new: Vec<(Uri, Purpose)> = new.map(|uri| (uri.clone(), purpose(uri))).collect();
    let opened = volume::open_all(&new)?;
    open.extend(new.iter().map(|(uri, _)| uri.to_string()).zip(opened));
    Ok(uris)
}

/// What a volume is opened for: to be written if any part of the job writes it.
fn purpose(run: &Run, uri: &Uri, writes: bool) -> Purpose {
    match (writes && !run.verify_only, volume::may_destroy(uri, &run.destroy)) {
        (false, _) => Purpose::Read,
        (true, false) => Purpose::Write,
        (true, true) => Purpose::Destroy,
    }
}

/// Tells each worker which one of its volume's it is.
fn share_out(workers: &mut [WorkerSpec]) {
    let mut counts: std::collections::HashMap<String, u64> = std::collections::HashMap::new();
    for worker in &mut *workers {
        let count = counts.entry(worker.uri.clone()).or_default();
        worker.part.index = *count;
        *count += 1;
    }
    workers.iter_mut().for_each(|worker| worker.part.of = counts[&worker.uri]);
}

fn job_of(job: &JobSpec, step: &Step, uris: &[Uri], workers: &[WorkerSpec]) -> Job {
    let count = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.dedup();
        names.iter().filter(|name| !name.is_empty()).count() as u32
    };
    let mean = |of: &dyn Fn(&Workload) -> f64| {
        workers.iter().map(|worker| of(&worker.workload)).sum::<f64>() / workers.len() as f64
    };
    let size = workers[0].workload.access.size_bytes();
    let same_size = workers.iter().all(|worker| worker.workload.access.size_bytes() == size);
    let rates: Option<Vec<f64>> = workers.iter().map(|w| rate_of(&w.workload)).collect();
    let closed = workers.iter().all(|worker| worker.workload.pacing == Pacing::Closed);
    let outstanding = workers.iter().map(|worker| u64::from(worker.workload.outstanding)).sum();
    let first = &workers[0].volume;
    let name = [&step.name, &job.name].into_iter().find(|name| !name.is_empty());
    Job {
        name: name.map_or("run", |name| name).to_owned(),
        size_bytes: size.filter(|_| same_size),
        read_percent: mean(&|workload| workload.access.read_percent()),
        random_percent: mean(&|workload| workload.access.random_percent()),
        outstanding: closed.then_some(outstanding),
        rate_per_s: rates.map(|rates| rates.iter().sum()),
        workers: workers.len() as u32,
        volumes: uris.len() as u32,
        targets: count(uris.iter().filter_map(Uri::target).collect()),
        transport: first.transport().to_owned(),
        loopback: uris.iter().any(is_loopback),
        storage: first.kind().to_owned(),
        seconds: step.seconds,
        ramp_seconds: step.ramp_seconds,
    }
}

/// Planned I/Os per second of a worker, if it has a plan.
fn rate_of(workload: &Workload) -> Option<f64> {
    match workload.pacing {
        Pacing::Closed => None,
        Pacing::Ios { per_second, .. } => Some(per_second),
        Pacing::Bytes { per_second, .. } => Some(per_second / workload.access.mean_bytes()),
    }
}

/// Whether it is reached without any wire.
pub fn is_loopback(uri: &Uri) -> bool {
    use std::net::ToSocketAddrs;
    let addresses = uri.address().and_then(|address| address.to_socket_addrs().ok());
    addresses.is_some_and(|mut all| all.any(|address| address.ip().is_loopback()))
}
