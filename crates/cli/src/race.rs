//! `drumfire race`: targets and workers in one process, over real sockets or in shared memory.

mod targets;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use block::{parse_size, print_size};
use clap::ValueEnum;
use job::spec::{Group, JobSpec, MADE, MAKER, Range, Step};
use load::{Prepared, TargetThreads};
use serve::{Export, HostLists, Limits, Log, ServeConfig, Server};
use volume::{Lifetime, Purpose, Uri, Volume};

use crate::args::{Color, Protocol, Race};
use crate::bench::{self, Allowed, CORES, Maker};
use crate::exit::{Exit, UsageError};
use crate::identity::{self, Identity};
use crate::run::{self, Named};
use crate::{asked, output, placement};

pub use self::targets::Targets;

/// The founding test bed ran two Iometer managers with half of the workers each.
const MANAGERS: usize = 2;
/// Maximum volumes of a race, and maximum workers.
const MOST: u64 = 4096;

/// Queues of a vhost-user device.
const QUEUES: u32 = 8;

/// Minimum bytes for a progress note: filling them takes a moment.
const SEEN_BYTES: u64 = 256 << 20;

/// Runs the race.
pub fn main(race: &Race, color: Color) -> Result<Exit> {
    bench::go(&job(race)?, Allowed::default(), &race.drive, color)
}

/// The job of a race: its setup has the targets and volumes to create.
pub fn job(race: &Race) -> Result<JobSpec> {
    let mut workload = race.drive.workload(race.workers)?;
    // The volumes are memory, which neither compresses nor deduplicates.
    workload.content.repeats = true;
    let group = Group::new(vec![MADE.to_owned()], race.workers, workload);
    let drive = &race.drive;
    let protocol = race.protocol.to_possible_value().expect("no protocol is hidden");
    let settings = [
        ("protocol", protocol.get_name().to_owned()),
        ("targets", race.targets.to_string()),
        ("volumes", race.volumes.to_string()),
        ("volume-size", print_size(race.volume_size)),
        (CORES, race.cores.clone()),
    ];
    let job = JobSpec {
        command: asked::command(),
        name: "race".to_owned(),
        setup: bench::setup(Maker::Race, settings),
        ..JobSpec::of(drive.seed, drive.seconds(), drive.ramp, group)
    };
    job.check().map_err(|error| UsageError(error.to_string()))?;
    Ok(job)
}

/// Targets and volumes that a race creates.
struct Shape {
    protocol: Protocol,
    targets: u32,
    /// Volumes of each target.
    volumes: u32,
    volume_size: u64,
    cores: Vec<usize>,
}

impl Shape {
    fn of(job: &JobSpec) -> Result<Shape> {
        let known = [MAKER, "protocol", "targets", "volumes", "volume-size", CORES];
        if let Some(word) = job.setup.keys().find(|word| !known.contains(&word.as_str())) {
            let why = format!("setup: a race has no '{word}': use {}", known.join(", "));
            return Err(UsageError(why).into());
        }
        let text = |word: &str| job.setup.get(word).map_or("", |value| value);
        let wrong = |word: &str, why: String| UsageError(format!("{word}={}: {why}", text(word)));
        let count = |word| u32::from_str(text(word)).map_err(|why| wrong(word, why.to_string()));
        Ok(Shape {
            protocol: Protocol::from_str(text("protocol"), false)
                .map_err(|_| wrong("protocol", "use iscsi, nvme-tcp or vhost-user".to_owned()))?,
            targets: count("targets")?,
            volumes: count("volumes")?,
            volume_size: parse_size(text("volume-size"))
                .map_err(|why| wrong("volume-size", why.to_string()))?,
            cores: placement::parse(text(CORES))?,
        })
    }

    /// Number of volumes of all targets.
    fn count(&self) -> usize {
        (self.targets * self.volumes) as usize
    }
}

/// Refuses a race that cannot be.
pub fn check(job: &JobSpec) -> Result<()> {
    let usage = |message: String| Err(UsageError(message).into());
    let race = Shape::of(job)?;
    let [Step { groups, .. }] = &job.steps[..] else {
        return usage(format!("a race has one step, not {}", job.steps.len()));
    };
    let [group] = &groups[..] else {
        return usage(format!("a race has one group of workers, not {}", groups.len()));
    };
    if group.volumes != [MADE] || group.workload.verify.is_some() {
        return usage(format!(
            "a race creates its volumes and has no verify: set volumes = [\"{MADE}\"] and remove \
            verify"
        ));
    }
    if race.targets == 0 || race.volumes == 0 || race.volumes > 255 {
        return usage("a race needs at least one target and 1 to 255 volumes on each".to_owned());
    }
    let count = u64::from(race.targets) * u64::from(race.volumes);
    if count > MOST {
        return usage(format!("{count} volumes: maximum {MOST}"));
    }
    if race.protocol == Protocol::VhostUser && group.workers > QUEUES {
        return usage(format!(
            "{} workers on a volume: a device has {QUEUES} queues",
            group.workers
        ));
    }
    let workers = count * u64::from(group.workers);
    if !(1..=MOST).contains(&workers) {
        return usage(format!("{workers} workers: use 1 to {MOST}"));
    }
    let uri = Uri::Ram { bytes: race.volume_size, block_bytes: 512, fill: None, name: None };
    if race.volume_size < 512 {
        return usage(format!("{uri} is smaller than one block"));
    }
    let access = &group.workload.access;
    access
        .fits(&Range::WHOLE, block::Geometry::new(race.volume_size, 512))
        .map_err(|error| UsageError(format!("{uri}: {error}")))?;
    let wanted = count.saturating_mul(race.volume_size);
    let Some(room) = os::cgroup::memory_room() else { return Ok(()) };
    ensure!(
        wanted < room.available_bytes / 10 * 9,
        "{count} volumes of {} need {} of memory, and {} are available{}: use a smaller \
        --volume-size",
        report::size(race.volume_size),
        report::size(wanted),
        report::size(room.available_bytes >> 20 << 20),
        room.limit.map_or(String::new(), |limit| format!(" ({limit})")),
    );
    Ok(())
}

/// Starts the targets of a race that passed [`check`], and prepares the workers.
pub fn prepare(job: &JobSpec, step: &Step) -> Result<(Prepared, Targets)> {
    let race = Shape::of(job)?;
    let group = &step.groups[0];
    let place = placement::race(&race.cores, race.count() * group.workers as usize);
    let (server, targets) = start_targets(&race, job.seed, group, &place.targets)?;
    let uris = server.uris(&targets);
    let name = |target: &str| match race.protocol {
        Protocol::Iscsi | Protocol::VhostUser => target.to_owned(),
        Protocol::NvmeTcp => subsystem_name(target),
    };
    let names: HashMap<&String, String> =
        uris.iter().zip(&targets).map(|(uri, (target, _))| (uri, name(target))).collect();
    let mut step = step.clone();
    step.make_volumes(&uris);
    let purpose = if group.workload.access.writes() { Purpose::Write } else { Purpose::Read };
    let wanted: Result<Vec<(Uri, Purpose)>> =
        uris.iter().map(|uri| Ok((uri.parse()?, purpose))).collect();
    let volumes: HashMap<&String, Arc<dyn Volume>> =
        uris.iter().zip(volume::open_all(&wanted?)?).collect();
    let mut crew = run::crew(&step, |text| {
        let volume = volumes[&text.to_owned()].clone();
        Ok(Named { volume, uri: text.to_owned(), target: names[&text.to_owned()].clone() })
    })?;
    let per_manager = crew.workers.len().div_ceil(MANAGERS);
    for (index, worker) in crew.workers.iter_mut().enumerate() {
        let (manager, number) = (index / per_manager + 1, index % per_manager + 1);
        worker.name = format!("manager {manager} worker {number}");
    }
    let mut run = run::prepare(job, &step, crew, place.workers)?;
    // The targets end with the race; a repeated run creates them again.
    let job = serde_json::to_value(job).context("the job as a document")?;
    run.spec.document = job;
    run.spec.job.storage = "RAM".to_owned();
    run.targets = Some(server.threads(place.targets));
    Ok((run, server))
}

/// The threads of a server that drive as well.
pub fn target_threads(server: &Server, cores: Vec<usize>) -> TargetThreads {
    TargetThreads { cores, threads: server.thread_ids(), shared: server.shared_threads() }
}

/// Starts the targets; returns their names and the LUN of each volume.
fn start_targets(
    race: &Shape,
    seed: u64,
    group: &Group,
    cores: &[usize],
) -> Result<(Targets, Vec<(String, u8)>)> {
    let names: Vec<(String, u8)> = (1..=race.targets)
        .flat_map(|target| (1..=race.volumes as u8).map(move |lun| (target_name(target), lun)))
        .collect();
    if race.volume_size.saturating_mul(names.len() as u64) >= SEEN_BYTES {
        let (count, size) = (names.len(), report::size(race.volume_size));
        output::note(format_args!("drumfire: preparing {count} volumes of {size} …"));
    }
    let volumes = filled_volumes(race, seed, names.len())?;
    let identity = Identity::of_process();
    let exports = names.iter().zip(volumes).map(|((target, lun), volume)| {
        let disk = identity.disk(target, *lun, &Lifetime::Process);
        let subsystem = subsystem_name(target);
        let (target, reservations) = (target.clone(), Default::default());
        Export { target, subsystem, lun: *lun, volume, disk, reservations }
    });
    if race.protocol == Protocol::VhostUser {
        return Ok((Targets::in_memory(exports.collect(), cores.to_vec())?, names));
    }
    let any_port = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let (iscsi, nvme_tcp) = match race.protocol {
        Protocol::Iscsi => (any_port, Vec::new()),
        _ => (Vec::new(), any_port),
    };
    let config = ServeConfig {
        counts: false,
        spare: 0,
        iscsi,
        nvme_tcp,
        nbd: Vec::new(),
        exports: exports.collect(),
        host_lists: HostLists::default(),
        shared: false,
        first_controller: identity::first_controller(),
        instance: identity::instance(),
        cores: cores.to_vec(),
        idle_cores: os::cpu::allowed(),
        limits: Limits {
            // NVMe/TCP also has an admin queue for each volume, and one host gets half.
            connections: 4 * names.len() * group.workers as usize + 128,
            commands: group.workload.outstanding.clamp(1, 1024) as u16,
            ..Limits::default()
        },
    };
    let server =
        Server::start(config, Log::new(|line| output::note(format_args!("target: {line}"))))?;
    crate::serve::end_with(&server);
    Ok((Targets::Network(server), names))
}

fn target_name(number: u32) -> String {
    format!("iqn.2026-11.io.drumfire:race-{number:02}")
}

/// The NVMe subsystem of an iSCSI target.
fn subsystem_name(target: &str) -> String {
    target.replacen("iqn.", "nqn.", 1)
}

/// Creates the volumes on all cores at once: filling them with data takes most of the start.
fn filled_volumes(race: &Shape, seed: u64, count: usize) -> Result<Vec<Arc<dyn Volume>>> {
    let uri = |index: usize| Uri::Ram {
        bytes: race.volume_size,
        block_bytes: 512,
        fill: Some(seed.wrapping_add(index as u64)),
        name: None,
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
    let parts = parts.context("cannot create the volumes")?;
    Ok((0..count).map(|index| Arc::clone(&parts[index % threads][index / threads])).collect())
}
