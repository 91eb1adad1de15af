//! `drumfire race`: targets and workers in one process, over real sockets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use block::print_size;
use load::spec::{Group, JobSpec, Part, Range, Rate, Workload};
use load::{Engine, RunSpec, TargetThreads, WorkerSpec};
use serve::{Export, Limits, Log, ServeConfig, Server};
use stats::Job;
use volume::{Purpose, Uri, Volume};

use crate::args::{Color, Drive, Protocol, Race};
use crate::exit::{Exit, UsageError};
use crate::{folder, job, placement, show, signal};

/// The founding test bed ran two Iometer managers with half of the workers each.
const MANAGERS: u32 = 2;

/// Runs the race.
pub fn main(race: &Race, color: Color) -> Result<Exit> {
    check(race)?;
    let folder = folder::make(race.drive.out.as_deref(), "race")?;
    let engine = Engine::default();
    signal::stop_on_signal(&engine.stop)?;
    let count = (race.targets * race.volumes) as usize;
    let place = placement::race(&os::cpu::allowed(), count);
    let (server, targets) = start_targets(race, &place.targets)?;
    let spec = spec(race, place, &server, &targets)?;
    let mut live = show::view(&race.drive, color)?;
    let mut result = engine.run(spec, &mut *live)?;
    drop((live, server));
    show::finish(&mut result, &folder, &race.drive, color, "race", true)?;
    Ok(Exit::of_result(&result, engine.stop.asked() > 0, race.drive.strict))
}

fn check(race: &Race) -> Result<()> {
    let usage = |message: String| Err(UsageError(message).into());
    if race.targets == 0 || race.volumes == 0 || race.volumes > 255 {
        return usage("a race needs at least one target and 1 to 255 volumes on each".to_owned());
    }
    let count = u64::from(race.targets) * u64::from(race.volumes);
    if count > 4096 {
        return usage(format!("{count} volumes are more than 4096"));
    }
    let uri = Uri::Ram { bytes: race.volume_size, block_bytes: 512, fill: None };
    if race.volume_size < 512 {
        return usage(format!("{uri} is smaller than one block"));
    }
    race.drive
        .access()?
        .fits(&Range::WHOLE, block::Geometry::new(race.volume_size, 512))
        .map_err(|error| UsageError(format!("{uri}: {error}")))?;
    let wanted = count.saturating_mul(race.volume_size);
    let available = os::sample::memory_available_bytes().unwrap_or(u64::MAX);
    ensure!(
        wanted < available / 10 * 9,
        "{count} volumes of {} need {} of memory, and {} are available: give a smaller \
         --volume-size",
        print_size(race.volume_size),
        print_size(wanted),
        print_size(available >> 20 << 20),
    );
    Ok(())
}

/// Starts the targets; returns the URIs of their volumes with the names of their targets.
fn start_targets(race: &Race, cores: &[usize]) -> Result<(Server, Vec<(String, u8)>)> {
    let names: Vec<(String, u8)> = (1..=race.targets)
        .flat_map(|target| (1..=race.volumes as u8).map(move |lun| (target_name(target), lun)))
        .collect();
    let volumes = filled_volumes(race, names.len())?;
    let exports = names.iter().zip(volumes).map(|((target, lun), volume)| {
        let serial = format!("{}-{lun}", target.rsplit(':').next().unwrap_or_default());
        let subsystem = subsystem_name(target);
        Export { target: target.clone(), subsystem, lun: *lun, volume, serial }
    });
    let any_port = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let (iscsi, nvme_tcp) = match race.protocol {
        Protocol::Iscsi => (any_port, Vec::new()),
        Protocol::NvmeTcp => (Vec::new(), any_port),
    };
    let config = ServeConfig {
        iscsi,
        nvme_tcp,
        exports: exports.collect(),
        nvme_hosts: BTreeMap::new(),
        cores: cores.to_vec(),
        limits: Limits {
            // NVMe/TCP has an admin queue for each volume besides.
            connections: 2 * names.len() + 64,
            commands: race.drive.outstanding.clamp(1, 1024) as u16,
            ..Limits::default()
        },
    };
    let server = Server::start(config, Log::new(|line| eprintln!("target: {line}")))?;
    Ok((server, names))
}

fn target_name(number: u32) -> String {
    format!("iqn.2026-11.io.drumfire:race-{number:02}")
}

/// The NVMe subsystem of an iSCSI target.
fn subsystem_name(target: &str) -> String {
    target.replacen("iqn.", "nqn.", 1)
}

/// Makes the volumes on all cores at once: filling them with data takes most of the start.
fn filled_volumes(race: &Race, count: usize) -> Result<Vec<Arc<dyn Volume>>> {
    let uri = |index: usize| Uri::Ram {
        bytes: race.volume_size,
        block_bytes: 512,
        fill: Some(race.drive.seed.wrapping_add(index as u64)),
    };
    let threads = os::cpu::allowed().len().min(count);
    let part = |thread: usize| {
        let mine = (thread..count).step_by(threads);
        mine.map(|index| volume::open(&uri(index), Purpose::Store)).collect::<Result<Vec<_>, _>>()
    };
    let parts = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|t| scope.spawn(move || part(t))).collect();
        let joined = handles.into_iter().map(|handle| handle.join().expect("no panic in filling"));
        joined.collect::<Result<Vec<_>, _>>()
    });
    let parts = parts.context("cannot make the volumes")?;
    Ok((0..count).map(|index| Arc::clone(&parts[index % threads][index / threads])).collect())
}

/// What a protocol calls the target that iSCSI calls so.
fn name_of(protocol: Protocol, target: &str) -> String {
    match protocol {
        Protocol::Iscsi => target.to_owned(),
        Protocol::NvmeTcp => subsystem_name(target),
    }
}

/// The volumes that the workers drive, through the targets.
fn open_all(uris: impl Iterator<Item = String>, writes: bool) -> Result<Vec<Arc<dyn Volume>>> {
    let purpose = if writes { Purpose::Write } else { Purpose::Read };
    let wanted: Result<Vec<(Uri, Purpose)>> = uris.map(|uri| Ok((uri.parse()?, purpose))).collect();
    Ok(volume::open_all(&wanted?)?)
}

fn spec(
    race: &Race,
    place: placement::Placement,
    server: &Server,
    targets: &[(String, u8)],
) -> Result<RunSpec> {
    let drive = &race.drive;
    let count = targets.len() as u32;
    let workload = Arc::new(drive.workload(count)?);
    let access = &workload.access;
    let (scheme, portal) = match race.protocol {
        Protocol::Iscsi => ("iscsi", server.iscsi()[0]),
        Protocol::NvmeTcp => ("nvme+tcp", server.nvme_tcp()[0]),
    };
    let per_manager = count.div_ceil(MANAGERS);
    let name_of = |target: &str| name_of(race.protocol, target);
    let uri_of =
        |(target, lun): &(String, u8)| format!("{scheme}://{portal}/{}/{lun}", name_of(target));
    let volumes = open_all(targets.iter().map(uri_of), access.writes())?;
    let worker = |index: u32| {
        let target = &targets[index as usize];
        WorkerSpec {
            name: format!("manager {} worker {}", index / per_manager + 1, index % per_manager + 1),
            volume: volumes[index as usize].clone(),
            uri: uri_of(target),
            target: name_of(&target.0),
            workload: workload.clone(),
            number: u64::from(index),
            part: Part::WHOLE,
        }
    };
    let workers: Vec<WorkerSpec> = (0..count).map(worker).collect();
    let rate = match drive.rate {
        None => None,
        Some(Rate::Ios(rate)) => Some(rate),
        Some(Rate::Bytes(rate)) => Some(rate / access.mean_bytes()),
    };
    let outstanding = u64::from(count) * u64::from(drive.outstanding);
    Ok(RunSpec {
        job: Job {
            name: "race".to_owned(),
            size_bytes: Some(drive.size),
            read_percent: access.read_percent(),
            random_percent: access.random_percent(),
            outstanding: rate.is_none().then_some(outstanding),
            rate_per_s: rate,
            workers: count,
            volumes: count,
            targets: race.targets,
            transport: match race.protocol {
                Protocol::Iscsi => "iSCSI".to_owned(),
                Protocol::NvmeTcp => "NVMe/TCP".to_owned(),
            },
            loopback: true,
            storage: "RAM".to_owned(),
            seconds: drive.seconds(),
            ramp_seconds: drive.ramp,
        },
        document: document(drive, &workload, &workers)?,
        workers,
        seconds: drive.seconds(),
        ramp_seconds: drive.ramp,
        seed: drive.seed,
        cores: place.workers,
        ledgers: None,
        targets: Some(TargetThreads { cores: place.targets, threads: server.thread_ids() }),
    })
}

/// The job of the initiators. Its targets end with the race: the command makes them again.
fn document(
    drive: &Drive,
    workload: &Workload,
    workers: &[WorkerSpec],
) -> Result<serde_json::Value> {
    let group = Group {
        name: String::new(),
        volumes: workers.iter().map(|worker| worker.uri.clone()).collect(),
        workers: 1,
        workload: workload.clone(),
    };
    let job = JobSpec {
        command: job::command(),
        name: "race".to_owned(),
        ..JobSpec::of(drive.seed, drive.seconds(), drive.ramp, group)
    };
    job.check().map_err(|error| UsageError(error.to_string()))?;
    serde_json::to_value(&job).context("the job as a document")
}
