//! `drumfire run`: drive volumes.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;

use anyhow::{Context, Result};
use job::spec::{
    Group, JobSpec, Pacing, Replay, RunSpec, Serving, Shift, Step, WorkerSpec, Workload,
};
use load::Prepared;
use stats::Job;
use volume::{Locks, OpenError, Purpose, Uri, Volume};

use crate::args::{Color, Run};
use crate::asked::Asked;
use crate::bench::{self, Allowed, Bench, CORES};
use crate::exit::{Exit, UsageError};
use crate::{
    asked, folder, foreign, hosts, layout, opened, output, placement, recheck, show, signal,
};

/// Drives the volumes, one step of the job after the other.
pub fn main(run: &Run, color: Color) -> Result<Exit> {
    let Asked { mut job, cores } = asked::of(run)?;
    if run.dry_run {
        output::print(&hosts::lines(&job)?)?;
        return Ok(Exit::Good);
    }
    refuse_strangers(&run.destroy, job.steps.iter())?;
    let destroy = run.destroy.clone();
    let mut allowed = Allowed { cores, destroy, only_looks: run.verify_only, ..Allowed::default() };
    if !run.verify_only {
        let manner = layout::Manner::of(&run.volumes[0]);
        if manner == layout::Manner::Fio || !job.laid_out.is_empty() {
            show::check(&run.drive)?;
            if let Some(out) = &run.drive.out {
                folder::refuse_kept(out, run.drive.replace)?;
            }
            let stop = load::Stop::default();
            signal::stop_on_signal(&stop)?;
            // Other ranks lay out their own files.
            allowed.layout = Some(manner);
            let here = hosts::files_here(&job)?;
            layout::has_room(&here, manner)?;
            layout::folders(&here, manner)?;
            let Some(made) = layout::make(&here, manner, &run.destroy, &stop)? else {
                return Ok(Exit::Interrupted);
            };
            let made = made.iter().filter(|_| layout::only_files(&job));
            allowed.destroy.extend(made.map(|path| path.display().to_string()));
            if job.steps.is_empty() {
                output::note("drumfire: all files exist, nothing to do");
                return Ok(Exit::Good);
            }
        }
        if run.part.is_asked() && hosts::ranks().is_some() {
            let why = "--start-at and --part are for hosts that do not talk to each other: leave \
                       them out under mpirun";
            return Err(UsageError(why.to_owned()).into());
        }
        let signed = run.part.prepare(&mut job)?;
        return bench::go_as(&job, allowed, &run.drive, color, signed);
    }
    run.part.refuse("--verify-only")?;
    let mut bench = Bench::new(allowed, job.steps.iter());
    let runs = job.steps.iter().map(|step| Ok(bench.prepare(&job, step)?.run));
    recheck::main(run, &runs.collect::<Result<Vec<_>>>()?)
}

/// Refuses a name in `--destroy` that no step drives: it is probably a mistake.
pub fn refuse_strangers<'a>(
    destroy: &[String],
    steps: impl Iterator<Item = &'a Step> + Clone,
) -> Result<(), UsageError> {
    for what in destroy.iter().filter(|what| !what.is_empty()) {
        let volumes = steps.clone().flat_map(|step| &step.groups).flat_map(|group| &group.volumes);
        let here = |text: &str| hosts::here(text).map_err(|error| UsageError(error.to_string()));
        // A served volume has no URI until its rank serves.
        let is_served = volumes.clone().any(|text| text == what && Serving::is_served(text));
        let uris = volumes.flat_map(|text| hosts::here(text).unwrap_or_default());
        let mut uris = uris.filter_map(|text| text.parse::<Uri>().ok());
        let what_here = here(what)?;
        let is_named = |uri: Uri| what_here.iter().any(|what| volume::is_named(&uri, what));
        if !is_served && !uris.any(is_named) {
            let why = format!("--destroy={what}: the job has no such volume");
            return Err(UsageError(why));
        }
    }
    Ok(())
}

/// Open volumes: workers, steps and runs that name the same one share it.
pub struct Volumes {
    open: HashMap<String, Named>,
    /// Volumes that some step writes, as jobs name them.
    written: HashSet<String>,
    /// Locks of all volumes: steps may use one file in several ways.
    locks: Locks,
}

/// A volume by its name.
#[derive(Clone)]
pub struct Named {
    /// The opened volume.
    pub volume: Arc<dyn Volume>,
    /// URI of the volume in its canonical form.
    pub uri: String,
    /// Target that serves the volume; empty if it is local.
    pub target: String,
}

impl Volumes {
    /// Volumes for the steps that may come: one that any step writes is opened for writing.
    pub fn of<'a>(steps: impl Iterator<Item = &'a Step>, allowed: &Allowed) -> Volumes {
        let writes = steps.flat_map(|step| &step.groups).filter(|group| group.workload.writes());
        let written = match allowed.only_looks {
            true => HashSet::new(),
            false => writes.flat_map(|group| group.volumes.iter().cloned()).collect(),
        };
        Volumes { open: HashMap::new(), written, locks: Locks::default() }
    }

    /// A step with its volumes open.
    pub fn prepare(&mut self, job: &JobSpec, step: &Step, allowed: &Allowed) -> Result<Prepared> {
        self.open(step, &allowed.destroy)?;
        let mut crew = crew(step, |text| Ok(self.open[&foreign::plain_uri(text)].clone()))?;
        let cores = match job.setup.get(CORES).filter(|cores| !cores.is_empty()) {
            Some(cores) => placement::parse(cores)?,
            None => placement::of_workers(&allowed.cores, &mut crew.workers)?,
        };
        prepare(job, step, crew, cores)
    }

    /// Opens the volumes of a step that are not open yet, all at once.
    fn open(&mut self, step: &Step, destroy: &[String]) -> Result<()> {
        let written = self.written.iter().flat_map(|text| hosts::here(text).unwrap_or_default());
        let written: HashSet<String> = written.map(|text| foreign::plain_uri(&text)).collect();
        let mut new: Vec<(Uri, Purpose)> = Vec::new();
        let mut seen = HashSet::new();
        for text in step.groups.iter().flat_map(|group| &group.volumes) {
            let uri: Uri = text.parse()?;
            let name = uri.to_string();
            if self.open.contains_key(&name) || !seen.insert(name.clone()) {
                continue;
            }
            let allowed = volume::may_destroy(&uri, destroy);
            if uri.calls_on_files() && !allowed {
                let why = format!(
                    "{uri} creates, truncates or removes files: give --destroy to allow it"
                );
                return Err(UsageError(why).into());
            }
            let purpose = match (written.contains(&name), allowed) {
                (false, _) => Purpose::Read,
                (true, false) => Purpose::Write,
                (true, true) => Purpose::Destroy,
            };
            new.push((uri, purpose));
        }
        let lock =
            |(uri, purpose): &(Uri, Purpose)| Ok((self.locks.take(uri, *purpose)?, *purpose));
        let locked = new.iter().map(lock).collect::<Result<Vec<_>, OpenError>>()?;
        for ((uri, _), volume) in new.iter().zip(opened::open_all(&locked)?) {
            let target = uri.target().unwrap_or_default().to_owned();
            let named = Named { volume, uri: uri.to_string(), target };
            self.open.insert(uri.to_string(), named);
        }
        Ok(())
    }
}

/// Workers, and the volumes that they drive by their numbers.
pub struct Crew {
    /// The workers.
    pub workers: Vec<WorkerSpec>,
    volumes: Vec<Arc<dyn Volume>>,
}

/// The workers of a step on volumes that `open` finds.
pub fn crew(step: &Step, mut open: impl FnMut(&str) -> Result<Named>) -> Result<Crew> {
    let (mut workers, mut volumes): (Vec<WorkerSpec>, Vec<Arc<dyn Volume>>) = Default::default();
    let mut numbers: HashMap<*const (), usize> = HashMap::new();
    for (number, group) in step.groups.iter().enumerate() {
        let shift = Shift {
            group: number,
            job: None,
            after: group.waits_for(&step.groups[..number]).collect(),
            when: group.when.clone(),
            cores: group.cores.clone(),
            cache: group.cache,
        };
        let workload = Arc::new(group.workload.clone());
        let begin = workers.len();
        for named in driven(group, &mut open)? {
            let key = Arc::as_ptr(&named.volume).cast();
            let volume = *numbers.entry(key).or_insert_with(|| {
                volumes.push(named.volume);
                volumes.len() - 1
            });
            for _ in 0..group.workers {
                let job = group.logs.job_of(workers.len() - begin);
                workers.push(WorkerSpec {
                    name: format!("manager 1 worker {}", workers.len() + 1),
                    volume,
                    uri: named.uri.clone(),
                    target: named.target.clone(),
                    number: workers.len() as u64,
                    shift: Shift { job, ..shift.clone() },
                    ..WorkerSpec::new(workload.clone())
                });
            }
        }
    }
    share_out(&mut workers, &step.groups);
    Ok(Crew { workers, volumes })
}

/// Volumes that the workers of a group drive: those of the group, or one volume of all of them.
fn driven(group: &Group, open: &mut impl FnMut(&str) -> Result<Named>) -> Result<Vec<Named>> {
    let parts: Result<Vec<Named>> = group.volumes.iter().map(|text| open(text)).collect();
    let parts = parts?;
    let (true, Some(first)) = (group.is_one(), parts.first().cloned()) else {
        return Ok(parts);
    };
    let volumes: Vec<_> = parts.iter().map(|part| Arc::clone(&part.volume)).collect();
    let volume = match group.stripes {
        Some(stripes) => volume::striped(volumes, stripes.bytes, stripes.share_bytes)?,
        None => {
            // A mismatch is an error of the trace file, not of the combined volume.
            let shapes: Vec<_> = volumes.iter().map(|volume| volume.geometry()).collect();
            let trace = group.workload.access.trace.as_ref().and_then(Replay::trace);
            trace.map_or(Ok(()), |trace| trace.fits(&shapes)).map_err(UsageError)?;
            volume::joined(volumes)?
        }
    };
    let uri = match parts.len() {
        1 => first.uri,
        count => format!("{} and {} more", first.uri, count - 1),
    };
    Ok(vec![Named { volume, uri, target: first.target }])
}

/// Numbers the workers of each volume.
fn share_out(workers: &mut [WorkerSpec], groups: &[Group]) {
    // Workers of a volume, or only those of one group.
    let crew = |worker: &WorkerSpec| {
        let own = groups[worker.shift.group].own_places;
        (worker.uri.clone(), own.then_some(worker.shift.group))
    };
    let mut counts: HashMap<(String, Option<usize>), u64> = HashMap::new();
    for worker in &mut *workers {
        let count = counts.entry(crew(worker)).or_default();
        worker.part.index = *count;
        *count += 1;
    }
    for worker in workers {
        worker.part.of = counts[&crew(worker)];
    }
}

/// Prepares a step with its workers; its document can repeat it.
pub fn prepare(job: &JobSpec, step: &Step, crew: Crew, cores: Vec<usize>) -> Result<Prepared> {
    let Crew { workers, volumes } = crew;
    if workers.is_empty() {
        return Err(UsageError("the job names no volumes".to_owned()).into());
    }
    let alone = JobSpec { steps: vec![step.clone()], ..job.clone() };
    let spec = RunSpec {
        job: job_of(job, step, &workers, &*volumes[workers[0].volume]),
        document: serde_json::to_value(&alone).context("the job as a document")?,
        workers,
        seconds: step.seconds,
        ramp_seconds: step.ramp_seconds,
        ends_with_first: step.ends_with_first,
        steady: step.steady,
        seed: job.seed,
        cores,
        ledgers: None,
    };
    Ok(Prepared { spec, volumes, targets: None })
}

fn job_of(job: &JobSpec, step: &Step, workers: &[WorkerSpec], first: &dyn Volume) -> Job {
    let distinct = |of: &dyn Fn(&WorkerSpec) -> String| -> HashSet<String> {
        workers.iter().map(of).filter(|name| !name.is_empty()).collect()
    };
    let mean = |of: &dyn Fn(&Workload) -> f64| {
        workers.iter().map(|worker| of(&worker.workload)).sum::<f64>() / workers.len() as f64
    };
    let size = workers[0].workload.access.size_bytes();
    let same_size = workers.iter().all(|worker| worker.workload.access.size_bytes() == size);
    let rates: Option<Vec<f64>> = workers.iter().map(|w| rate_of(&w.workload)).collect();
    let closed = workers.iter().all(|worker| !worker.workload.is_paced());
    let outstanding = workers.iter().map(|worker| u64::from(worker.workload.outstanding)).sum();
    let name = [&step.name, &job.name].into_iter().find(|name| !name.is_empty());
    let uris = distinct(&|worker| worker.uri.clone());
    let is_loopback = |text: &String| text.parse().is_ok_and(|uri| is_loopback(&uri));
    Job {
        name: name.map_or("run", |name| name).to_owned(),
        size_bytes: size.filter(|_| same_size),
        read_percent: mean(&|workload| workload.access.read_percent()),
        random_percent: mean(&|workload| workload.access.random_percent()),
        outstanding: closed.then_some(outstanding),
        rate_per_s: rates.map(|rates| rates.iter().sum()),
        workers: workers.len() as u32,
        volumes: uris.len() as u32,
        targets: distinct(&|worker| worker.target.clone()).len() as u32,
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

/// Whether the volume is reached without a wire: by a loopback address or one of this host, or in
/// shared memory.
pub fn is_loopback(uri: &Uri) -> bool {
    match uri {
        Uri::VhostUser { .. } => return true,
        Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => return is_loopback(inner),
        _ => {}
    }
    let addresses = uri.address().and_then(|address| address.to_socket_addrs().ok());
    addresses.is_some_and(|mut all| all.any(is_own))
}

/// Whether an address is one of this host: packets to it have it as their source. Connecting a UDP
/// socket sends nothing.
fn is_own(address: SocketAddr) -> bool {
    let any: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let from = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    address.ip().is_loopback() || from.is_ok_and(|from| from.ip() == address.ip())
}
