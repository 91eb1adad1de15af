//! The generator's ceiling, measured right after a run: its own workers on its own cores, on null
//! volumes.
//!
//! A remote volume is replaced with one of a target on this host, because the initiator is part of
//! the generator. The figure includes the cost of that target and is then a lower bound. The
//! ceiling is also a lower bound if data are verified, because memory must store them.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use block::Geometry;
use job::spec::{Group, JobSpec, RunSpec};
use load::{Engine, Prepared, StandIn};
use serve::{Export, HostLists, Limits, Log, ServeConfig, Server};
use stats::verdict::Ceiling;
use stats::{Origin, RunResult};
use volume::{Ground, IscsiUri, Lifetime, NbdUri, NvmeUri, Purpose, Uri, Volume};

use crate::identity::{self, Identity};
use crate::{output, race};

/// Seconds of an unrequested ceiling run, and of its ramp.
const SHORT: (f64, f64) = (1.0, 0.25);
/// CPU utilisation of workers from which they may be the bottleneck. Workers are equally busy if
/// the storage runs in their threads or if they poll; the ceiling then shows this.
const BUSY_SHARE: f64 = 0.9;
/// Minimum seconds of a run that is worth a ceiling.
const LEAST_SECONDS: f64 = 1.0;

/// Length of the ceiling run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The requested length.
    Asked,
    /// One second, because none was requested.
    Short,
}

/// Whether the generator may have been the bottleneck of a run, so that its ceiling is measured
/// without a request. Slow storage leaves CPUs idle. Verified data need memory and time for a first
/// pass; a target that shares the workers' threads makes them as busy. A run on null volumes is
/// itself the ceiling.
pub fn is_needed(result: &RunResult, run: &Prepared) -> bool {
    let compares = run.spec.workers.iter().any(|worker| worker.workload.verify.is_some());
    let nothing = |volume: &Arc<dyn Volume>| matches!(volume.ground(), Ground::Nothing);
    !compares && !run.volumes.iter().all(nothing) && is_busy(result)
}

fn is_busy(result: &RunResult) -> bool {
    let cores = result.placement.initiator.len() as f64;
    let used = result.cpu.initiator_cores.unwrap_or(0.0);
    let long = result.totals.seconds >= LEAST_SECONDS && result.totals.ios > 0;
    result.origin == Origin::Measured && long && cores > 0.0 && used >= BUSY_SHARE * cores
}

/// Measures the ceiling of `run`, and judges `result`. The result of a partial run is not judged,
/// nor one whose ceiling cannot be measured, which is reported.
pub fn judge(result: &mut RunResult, run: &Prepared, engine: &Engine, length: Length) {
    if result.partial.is_some() || result.origin == Origin::Simulated || engine.stop.asked() > 0 {
        return;
    }
    match measure(run, engine, length) {
        Ok(Some(ceiling)) => result.set_ceiling(ceiling),
        // Interrupted: the run itself is complete.
        Ok(None) => {}
        Err(error) => output::note(format_args!(
            "drumfire: the limit of the load generator was not measured: {error:#}"
        )),
    }
}

fn measure(run: &Prepared, engine: &Engine, length: Length) -> Result<Option<Ceiling>> {
    let wanted = load::stand_ins(run);
    let keeps = wanted.iter().any(|stand_in| stand_in.keeps);
    let (server, volumes) = open(&run.spec, wanted)?;
    let mut bare = load::on_stand_ins(run, &volumes);
    if length == Length::Short {
        (bare.spec.seconds, bare.spec.ramp_seconds) = SHORT;
    }
    let shares = run.targets.as_ref().is_some_and(|targets| !targets.shared.is_empty());
    // If workers share their threads with a target, this server replaces that target.
    if let Some(server) = server.as_ref().filter(|_| shares) {
        bare.targets = Some(race::target_threads(server, Vec::new()));
    }
    let measured = engine.run(bare, &mut report::Silent)?;
    let what = if keeps { "memory" } else { "null volumes" };
    let where_from = match server.is_some() {
        true => format!(", {} from a target on this host", run.spec.job.transport),
        false => String::new(),
    };
    let ceiling = Ceiling {
        iops: measured.totals.iops,
        seconds: measured.totals.seconds,
        against: format!("{what}{where_from}"),
        at_least: keeps || server.is_some(),
    };
    Ok(measured.partial.is_none().then_some(ceiling))
}

/// Volumes that are driven instead, and the target that serves those of remote ones.
type Opened = (Option<Server>, Vec<(StandIn, Arc<dyn Volume>)>);

fn open(spec: &RunSpec, wanted: Vec<StandIn>) -> Result<Opened> {
    let job: JobSpec = serde_json::from_value(spec.document.clone()).context("the run's job")?;
    let group =
        |stand_in: &StandIn| job.steps.first().and_then(|step| step.groups.get(stand_in.group));
    let parts: Vec<Vec<StandIn>> =
        wanted.iter().map(|stand_in| parts(stand_in, group(stand_in))).collect();
    let (identity, mut exports) = (Identity::of_process(), Vec::new());
    for (index, part) in parts.iter().flatten().enumerate() {
        if remote(&part.uri.parse()?).is_some() {
            exports.push(export(&identity, index, local(part)?));
        }
    }
    let server = if exports.is_empty() { None } else { Some(serve(spec, exports)?) };
    let mut index = 0;
    let mut one = |part: &StandIn| -> Result<Arc<dyn Volume>> {
        let uri: Uri = part.uri.parse()?;
        index += 1;
        match (&server, remote(&uri)) {
            (Some(server), Some(uri)) => {
                let served = served(uri, index - 1, server);
                let purpose = Purpose::Destroy;
                volume::open(&served, purpose).with_context(|| format!("in place of {uri}"))
            }
            _ => local(part),
        }
    };
    let mut volumes = Vec::new();
    for (stand_in, parts) in wanted.into_iter().zip(&parts) {
        let mut opened = parts.iter().map(&mut one).collect::<Result<Vec<_>>>()?;
        let stripes = group(&stand_in).and_then(|group| group.stripes);
        let volume = match (opened.len(), stripes) {
            (1, _) => opened.remove(0),
            (_, Some(stripes)) => volume::striped(opened, stripes.bytes, None)?,
            (_, None) => volume::joined(opened)?,
        };
        volumes.push((stand_in, volume));
    }
    Ok((server, volumes))
}

/// Stand-ins for the volumes that a group drives as one: each with its share of the size.
fn parts(whole: &StandIn, group: Option<&Group>) -> Vec<StandIn> {
    let Some(group) = group.filter(|group| group.is_one() && group.volumes.len() > 1) else {
        return vec![whole.clone()];
    };
    let block_bytes = whole.geometry.block_bytes;
    let share = whole.geometry.bytes() / group.volumes.len() as u64;
    let bytes = share - share % u64::from(block_bytes.max(1));
    let geometry = Geometry::new(bytes, block_bytes);
    let part = |uri: &String| StandIn { uri: uri.clone(), geometry, ..whole.clone() };
    group.volumes.iter().map(part).collect()
}

/// The remote volume in a URI, also inside `delay:` and `fault:`, if there is one.
fn remote(uri: &Uri) -> Option<&Uri> {
    match uri {
        Uri::Iscsi(_) | Uri::Nvme(_) | Uri::Nbd(_) => Some(uri),
        Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => remote(inner),
        _ => None,
    }
}

fn local(stand_in: &StandIn) -> Result<Arc<dyn Volume>> {
    let (bytes, block_bytes) = (stand_in.geometry.bytes(), stand_in.geometry.block_bytes);
    let uri = match stand_in.keeps {
        true => Uri::Ram { bytes, block_bytes, fill: None, name: None },
        false => Uri::Null { bytes, block_bytes, call: None },
    };
    Ok(volume::open(&uri, Purpose::Store)?)
}

fn export(identity: &Identity, index: usize, volume: Arc<dyn Volume>) -> Export {
    let target = format!("iqn.{}", name(index));
    let disk = identity.disk(&target, 1, &Lifetime::Process);
    let (subsystem, reservations) = (format!("nqn.{}", name(index)), Default::default());
    Export { target, subsystem, lun: 1, volume, disk, reservations }
}

fn name(index: usize) -> String {
    format!("2026-11.io.drumfire:ceiling-{index}")
}

/// A target on the cores that the workers leave free, or on the workers' cores if none are free.
fn serve(spec: &RunSpec, exports: Vec<Export>) -> Result<Server> {
    let allowed = os::cpu::allowed();
    let used = &spec.cores[..spec.cores.len().min(spec.workers.len())];
    let free: Vec<usize> = allowed.iter().copied().filter(|core| !used.contains(core)).collect();
    let any_port = || vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let deepest = spec.workers.iter().map(|worker| worker.workload.outstanding).max();
    let config = ServeConfig {
        counts: false,
        spare: 0,
        iscsi: any_port(),
        nvme_tcp: any_port(),
        nbd: any_port(),
        limits: Limits {
            // NVMe/TCP also has an admin queue for each worker.
            connections: 2 * spec.workers.len() + 64,
            commands: deepest.unwrap_or(1).clamp(1, 1024) as u16,
            ..Limits::default()
        },
        exports,
        host_lists: HostLists::default(),
        shared: false,
        first_controller: identity::first_controller(),
        instance: identity::instance(),
        idle_cores: allowed.clone(),
        cores: if free.is_empty() { allowed } else { free },
    };
    let log = Log::new(|line| output::note(format_args!("ceiling: {line}")));
    let server = Server::start(config, log)?;
    crate::serve::end_with(&server);
    Ok(server)
}

/// URI of the volume of `server` that replaces a remote one, with the same transport.
fn served(uri: &Uri, index: usize, server: &Server) -> Uri {
    match uri {
        Uri::Iscsi(real) => Uri::Iscsi(IscsiUri {
            address: server.iscsi()[0].to_string(),
            target: format!("iqn.{}", name(index)),
            lun: 1,
            ..real.clone()
        }),
        Uri::Nvme(real) => Uri::Nvme(NvmeUri {
            address: server.nvme_tcp()[0].to_string(),
            subsystem: format!("nqn.{}", name(index)),
            nsid: 1,
            ..real.clone()
        }),
        Uri::Nbd(real) => Uri::Nbd(NbdUri {
            address: server.nbd()[0].to_string(),
            export: format!("ceiling-{index}"),
            ..real.clone()
        }),
        other => unreachable!("{other} is not remote"),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_generator_that_is_always_busy_may_be_the_limit() {
        let run = |used: f64, cores: u32, seconds: f64| {
            let mut result = RunResult::default();
            result.cpu.initiator_cores = Some(used);
            result.placement.initiator = (0..cores).collect();
            (result.totals.seconds, result.totals.ios) = (seconds, 1000);
            result
        };
        assert!(is_busy(&run(1.9, 2, 10.0)));
        // A disk leaves the CPUs idle; both ends of a race share theirs.
        assert!(!is_busy(&run(0.4, 2, 10.0)));
        assert!(!is_busy(&run(1.7, 2, 10.0)));
        assert!(!is_busy(&run(1.9, 2, 0.5)), "not worth it");
        let simulated = RunResult { origin: Origin::Simulated, ..run(2.0, 2, 10.0) };
        assert!(!is_busy(&simulated));
    }
}
