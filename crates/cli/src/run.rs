//! `drumfire run`: drive volumes.

use anyhow::Result;
use load::{Access, Engine, RunSpec, WorkerSpec};
use stats::Job;
use volume::{Purpose, Uri};

use crate::args::{Color, Run};
use crate::exit::{Exit, UsageError};
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
    let drive = &run.drive;
    if run.workers == 0 {
        return Err(UsageError("--workers: at least one worker is needed".to_owned()).into());
    }
    let access = drive.access()?;
    let purpose = match (access.writes() || run.verify, run.destroy) {
        (false, _) => Purpose::Read,
        (true, false) => Purpose::Write,
        (true, true) => Purpose::Destroy,
    };
    let uris = run.volumes.iter().map(|text| text.parse()).collect::<Result<Vec<Uri>, _>>()?;
    let mut workers = Vec::new();
    for uri in &uris {
        let volume = volume::open(uri, purpose)?;
        for _ in 0..run.workers {
            workers.push(WorkerSpec {
                name: format!("manager 1 worker {}", workers.len() + 1),
                volume: volume.clone(),
                uri: uri.to_string(),
                target: target_of(uri),
            });
        }
    }
    let cores = placement::chosen(&run.cores, workers.len())?;
    let job = job(run, &access, &uris, &workers);
    Ok(RunSpec {
        job,
        workers,
        access,
        outstanding: drive.outstanding,
        seconds: drive.seconds,
        ramp_seconds: drive.ramp,
        seed: drive.seed,
        cores,
        verify: run.verify,
        targets: None,
    })
}

fn job(run: &Run, access: &Access, uris: &[Uri], workers: &[WorkerSpec]) -> Job {
    let drive = &run.drive;
    let mut targets: Vec<String> = uris.iter().map(target_of).filter(|t| !t.is_empty()).collect();
    targets.sort_unstable();
    targets.dedup();
    let first = &workers[0].volume;
    Job {
        name: "run".to_owned(),
        size_bytes: Some(drive.size),
        read_percent: access.read_percent,
        random_percent: access.random_percent,
        outstanding: Some(workers.len() as u64 * u64::from(drive.outstanding)),
        rate_per_s: None,
        workers: workers.len() as u32,
        volumes: uris.len() as u32,
        targets: targets.len() as u32,
        transport: first.transport().to_owned(),
        loopback: uris.iter().any(is_loopback),
        storage: first.kind().to_owned(),
        seconds: drive.seconds,
        ramp_seconds: drive.ramp,
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
