//! `drumfire run`: drive volumes.

use anyhow::Result;
use load::{Engine, RunSpec, WorkerSpec};
use stats::Job;
use volume::{Purpose, Uri};

use crate::args::{Color, Run};
use crate::exit::{Exit, UsageError};
use crate::job::{self, JobFile};
use crate::{folder, placement, show, signal};

/// Drives the volumes.
pub fn main(run: &Run, color: Color) -> Result<Exit> {
    let spec = spec(run)?;
    let folder = folder::make(run.drive.out.as_deref(), "run")?;
    let engine = Engine::default();
    signal::stop_on_signal(&engine.stop)?;
    let mut live = show::view(&run.drive, color);
    let mut result = engine.run(spec, &mut *live)?;
    drop(live);
    show::finish(&mut result, &folder, &run.drive, color, "run")?;
    Ok(Exit::of_result(&result, engine.stop.asked() > 0, run.drive.strict))
}

fn spec(run: &Run) -> Result<RunSpec> {
    if run.workers == 0 {
        return Err(UsageError("--workers: at least one worker is needed".to_owned()).into());
    }
    let file = JobFile::of(run)?;
    let purpose = match (file.access.writes() || file.verify, run.destroy) {
        (false, _) => Purpose::Read,
        (true, false) => Purpose::Write,
        (true, true) => Purpose::Destroy,
    };
    let uris = file.volumes.iter().map(|text| text.parse()).collect::<Result<Vec<Uri>, _>>()?;
    let mut workers: Vec<WorkerSpec> = Vec::new();
    for uri in &uris {
        let text = uri.to_string();
        // Workers of one volume share it.
        let known = workers.iter().find(|worker| worker.uri == text);
        let volume = match known {
            Some(worker) => worker.volume.clone(),
            None => volume::open(uri, purpose)?,
        };
        workers.push(WorkerSpec {
            name: format!("manager 1 worker {}", workers.len() + 1),
            volume,
            uri: text,
            target: target_of(uri),
        });
    }
    if workers.is_empty() {
        return Err(UsageError("the job names no volume".to_owned()).into());
    }
    let cores = placement::chosen(&run.cores, workers.len())?;
    let job = job_of(&file, &uris, &workers);
    Ok(RunSpec {
        job,
        command: job::command(),
        workers,
        access: file.access,
        outstanding: file.outstanding,
        seconds: file.seconds,
        ramp_seconds: file.ramp_seconds,
        seed: file.seed,
        cores,
        verify: file.verify,
        targets: None,
    })
}

fn job_of(file: &JobFile, uris: &[Uri], workers: &[WorkerSpec]) -> Job {
    let count = |mut names: Vec<String>| {
        names.sort_unstable();
        names.dedup();
        names.iter().filter(|name| !name.is_empty()).count() as u32
    };
    let first = &workers[0].volume;
    Job {
        name: "run".to_owned(),
        size_bytes: Some(file.access.size_bytes),
        read_percent: file.access.read_percent,
        random_percent: file.access.random_percent,
        outstanding: Some(workers.len() as u64 * u64::from(file.outstanding)),
        rate_per_s: None,
        workers: workers.len() as u32,
        volumes: count(workers.iter().map(|worker| worker.uri.clone()).collect()),
        targets: count(uris.iter().map(target_of).collect()),
        transport: first.transport().to_owned(),
        loopback: uris.iter().any(is_loopback),
        storage: first.kind().to_owned(),
        seconds: file.seconds,
        ramp_seconds: file.ramp_seconds,
    }
}

fn target_of(uri: &Uri) -> String {
    uri.target().unwrap_or_default().to_owned()
}

fn is_loopback(uri: &Uri) -> bool {
    use std::net::ToSocketAddrs;
    let addresses = uri.address().and_then(|address| address.to_socket_addrs().ok());
    addresses.is_some_and(|mut all| all.any(|address| address.ip().is_loopback()))
}
