//! Volumes of a job and their runner: existing volumes, targets created for the run, or a model.
//!
//! `run`, `race`, `simulate` and `sweep` differ in how they create a job. From here on they share
//! all code.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use job::spec::{JobSpec, MAKER, Step};
use load::{Asked, Engine, Gate, Prepared, Recording, RunError, Runner, Shared, Stop};
use stats::RunResult;
use stats::live::Live;
use volume::{Uri, Volume};

use crate::args::{Color, Drive};
use crate::ceiling::Length;
use crate::exit::{Exit, UsageError};
use crate::folder::{Folder, Place, Successor};
use crate::hosts::{self, Order, Ranks};
use crate::layout::Manner;
use crate::news::News;
use crate::part::Signed;
use crate::run::Volumes;
use crate::simulate::Systems;
use crate::traced::Traced;
use crate::watch::Watch;
use crate::{
    ceiling, fewer, folder, gate, logs, output, placement, race, recheck, show, signal, simulate,
    thresholds,
};

/// The setting of a setup that names the processors.
pub const CORES: &str = "cores";

/// Permissions of the user for a run: not part of the job, and given again for each run.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// CPUs to drive from; if empty, one for each worker.
    pub cores: Vec<usize>,
    /// Volumes that hold data and may be overwritten.
    pub destroy: Vec<String>,
    /// Whether all writes are refused.
    pub only_looks: bool,
    /// Handling of the files of the job, which other ranks lay out, too.
    pub layout: Option<Manner>,
    /// Whether only a sample of the written data is read back.
    pub samples: bool,
}

/// Creator of the volumes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// No creator: the job's volumes exist.
    Nobody,
    /// `race`: targets on loopback.
    Race,
    /// `simulate`: a model.
    Simulate,
}

impl Maker {
    /// Maker named in the setup of a job.
    pub fn of(job: &JobSpec) -> Result<Maker, UsageError> {
        match job.setup.get(MAKER).map(String::as_str) {
            None if job.setup.keys().all(|key| key == CORES) => Ok(Maker::Nobody),
            None => Err(UsageError(format!("setup: set {MAKER} = \"race\" or \"simulate\""))),
            Some("race") => Ok(Maker::Race),
            Some("simulate") => Ok(Maker::Simulate),
            Some(other) => {
                let why = format!("setup: {MAKER} = \"{other}\": use race or simulate");
                Err(UsageError(why))
            }
        }
    }

    /// Word for runs of this maker.
    pub fn word(self) -> &'static str {
        match self {
            Maker::Nobody => "run",
            Maker::Race => "race",
            Maker::Simulate => "simulate",
        }
    }
}

/// A failed run and its reason. Other runs are unaffected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failed(pub String);

/// State that persists across the runs of one command.
pub struct Bench {
    /// Permissions of the user.
    pub allowed: Allowed,
    /// Ends a run early.
    pub stop: Stop,
    /// Writes the logs that jobs request, except for a model, which has no single I/Os.
    pub logged: bool,
    /// JSON Lines of all runs that could not be written.
    pub lost: show::Lost,
    /// Viewers of the live page.
    pub watch: Watch,
    /// Records the activity of the cores.
    pub traced: Option<Traced>,
    /// Reads random offsets of the volumes before and after each run (H25).
    pub cold_reads: bool,
    /// The run is one of several hosts'.
    pub signed: Option<Signed>,
    /// Holds runs back until other ranks are ready.
    pub gate: Option<Arc<dyn Gate>>,
    volumes: Volumes,
    systems: Systems,
}

/// A step that only waits to be run.
pub struct Ready {
    /// Step to run.
    pub run: Prepared,
    runner: Box<dyn Runner>,
    /// The runner, if it is the engine of this host.
    engine: Option<Engine>,
    /// Ends the run early.
    stop: Stop,
    lost: show::Lost,
    watch: Watch,
    /// Activity of its cores.
    recording: Option<Recording>,
    /// Targets of the run.
    server: Option<race::Targets>,
    /// Name under which the result is compared with the user's bounds; `None` for a run of a sweep.
    bounded_as: Option<String>,
    /// The run is one of several hosts'.
    signed: Option<Signed>,
}

impl Bench {
    /// Creates the environment of all possible steps.
    pub fn new<'a>(allowed: Allowed, steps: impl Iterator<Item = &'a Step>) -> Bench {
        let volumes = Volumes::of(steps, &allowed);
        Bench {
            allowed,
            stop: Stop::default(),
            logged: false,
            lost: show::Lost::default(),
            watch: Watch::default(),
            traced: None,
            cold_reads: false,
            signed: None,
            gate: None,
            volumes,
            systems: Systems::default(),
        }
    }

    /// Refuses impossible jobs before anything is opened or created.
    pub fn check(&mut self, job: &JobSpec) -> Result<()> {
        placement::parse(job.setup.get(CORES).map_or("", |cores| cores))?;
        match Maker::of(job)? {
            Maker::Nobody => {
                hosts::serve(job)?;
                let groups = job.steps.iter().flat_map(|step| &step.groups);
                let mut volumes = groups.flat_map(|group| &group.volumes);
                volumes.try_for_each(|text| {
                    let mut uris = hosts::here(text)?.into_iter();
                    Ok(uris.try_for_each(|uri| uri.parse::<Uri>().map(drop))?)
                })
            }
            Maker::Race => race::check(job),
            Maker::Simulate => simulate::check(job, &mut self.systems),
        }
    }

    /// Refuses a search for percentiles that a simulation does not report.
    pub fn check_percentiles(&mut self, job: &JobSpec) -> Result<()> {
        match Maker::of(job)? {
            Maker::Simulate => simulate::check_percentiles(job, &mut self.systems),
            Maker::Nobody | Maker::Race => Ok(()),
        }
    }

    /// Opens or creates the volumes of a step; on rank 0 of many, those of its own part.
    pub fn prepare(&mut self, job: &JobSpec, step: &Step) -> Result<Ready> {
        let maker = Maker::of(job)?;
        let Some(ranks) = hosts::ranks().filter(|_| maker != Maker::Simulate) else {
            hosts::refuse_hosts(job)?;
            return self.prepare_here(job, step);
        };
        let alone = JobSpec { steps: vec![step.clone()], ..job.clone() };
        let order = ranks.order(&alone, &self.allowed, self.cold_reads)?;
        let own = order.part_of(0)?;
        if own.steps[0].groups.is_empty() {
            let run = hosts::Onlooker::prepared(&alone, step);
            let onlooker = hosts::Onlooker::new(ranks, order, self.stop.clone());
            return Ok(self.ready(run, Box::new(onlooker)));
        }
        let ready = self.prepare_here(&own, &own.steps[0])?;
        Ok(ready.together(ranks, order))
    }

    /// Opens or creates the volumes of a step on this host.
    pub fn prepare_here(&mut self, job: &JobSpec, step: &Step) -> Result<Ready> {
        match Maker::of(job)? {
            Maker::Nobody => {
                let run = self.volumes.prepare(job, step, &self.allowed)?;
                Ok(self.driven(step, run, None))
            }
            Maker::Race => {
                race::check(job)?;
                let made = race::prepare(job, step);
                let (run, server) = made.map_err(|error| Failed(format!("{error:#}")))?;
                Ok(self.driven(step, run, Some(server)))
            }
            Maker::Simulate => {
                let (run, mut simulator) = simulate::prepare(job, step, &mut self.systems)?;
                simulator.stop = self.stop.clone();
                Ok(self.ready(run, Box::new(simulator)))
            }
        }
    }

    /// Verifies the data that a step has written and not read, and judges its result: whether all
    /// data match.
    pub fn read_back(
        &mut self,
        job: &JobSpec,
        step: usize,
        (folder, asked): (&Path, Asked),
        result: &mut RunResult,
    ) -> Result<bool> {
        let ready = self.prepare(job, &job.steps[step])?;
        recheck::after(&ready.run, folder, asked, result)
    }

    /// Volumes that the engine drives.
    fn driven(&self, step: &Step, run: Prepared, server: Option<race::Targets>) -> Ready {
        let recording = self.traced.as_ref().map(Traced::recording);
        let here = self.gate.is_some().then(Shared::default);
        let engine = Engine {
            stop: self.stop.clone(),
            scribe: self.logged.then(|| logs::scribe(step, &run.spec)).flatten(),
            recording: recording.clone(),
            gate: Some(self.gate.clone().unwrap_or_else(|| Arc::new(gate::Parent))),
            cold_reads: self.cold_reads,
            shared: self.signed.as_ref().map(Signed::shared).or(here),
        };
        let ready = self.ready(run, Box::new(engine.clone()));
        Ready { recording, server, engine: Some(engine), ..ready }
    }

    fn ready(&self, run: Prepared, runner: Box<dyn Runner>) -> Ready {
        Ready {
            run,
            runner,
            stop: self.stop.clone(),
            lost: self.lost.clone(),
            watch: self.watch.clone(),
            recording: None,
            engine: None,
            server: None,
            bounded_as: None,
            signed: self.signed.clone(),
        }
    }
}

impl Ready {
    /// The run as that of all ranks.
    fn together(self, ranks: Arc<Ranks>, order: Order) -> Ready {
        let Some(engine) = self.engine.clone() else { return self };
        let runner = Box::new(hosts::Together::new(ranks, order, engine));
        Ready { runner, ..self }
    }

    /// Runs the step; targets created for it end with it.
    pub fn run(mut self, live: &mut dyn Live) -> Result<RunResult, RunError> {
        let result = self.runner.run(self.run, live);
        drop(self.server);
        result
    }
}

/// The settings of a setup, by name.
pub fn setup<const N: usize>(
    maker: Maker,
    settings: [(&str, String); N],
) -> BTreeMap<String, String> {
    let maker = (MAKER.to_owned(), maker.word().to_owned());
    let settings = settings.into_iter().map(|(word, value)| (word.to_owned(), value));
    settings.chain([maker]).collect()
}

/// Runs a job, one step after the other, and saves a result for each.
pub fn go(job: &JobSpec, allowed: Allowed, drive: &Drive, color: Color) -> Result<Exit> {
    go_as(job, allowed, drive, color, None)
}

/// Runs a job that may be one of several hosts'.
pub fn go_as(
    job: &JobSpec,
    allowed: Allowed,
    drive: &Drive,
    color: Color,
    signed: Option<Signed>,
) -> Result<Exit> {
    let mut bench = checked(job, allowed, drive)?;
    bench.signed = signed;
    let word = Maker::of(job)?.word();
    let new = |out: Option<&Path>| Folder::new(out, word, drive.replace);
    // Checks the folder before anything is created or measured.
    let named = drive.out.as_deref().map(|out| new(Some(out))).transpose()?;
    let many = job.steps.len() > 1;
    // A race reports its preparations itself.
    let is_race = Maker::of(job)? == Maker::Race;
    let preparing = (!is_race).then(|| output::Wait::says("preparing"));
    let steps = job.steps.iter().map(|step| bench.prepare(job, step));
    let steps = steps.collect::<Result<Vec<Ready>>>()?;
    drop(preparing);
    if bench.logged {
        logs::name_those_outside(job);
        logs::begin(job)?;
    }
    let folder = named.map_or_else(|| new(None), Ok)?;
    signal::stop_on_signal(&bench.stop)?;
    let mut successor = Successor::begin(folder, drive.replace)?;
    let mut results: Vec<RunResult> = Vec::new();
    let mut right: Result<bool> = Ok(true);
    for (index, mut ready) in steps.into_iter().enumerate() {
        ready.bounded_as = Some(thresholds::step(index + 1, job.steps.len()));
        if bench.stop.asked() > 0 {
            break;
        }
        let place = match many {
            true => successor.place.inner(&format!("step-{}", index + 1)),
            false => successor.place.clone(),
        };
        let unread = ready.run.spec.workers.iter().any(|worker| worker.workload.is_unread());
        let mut read_back = |result: &mut RunResult| {
            let found = bench.read_back(job, index, (&*place.home, Asked::Unread), result);
            right = std::mem::replace(&mut right, Ok(true)).and_then(|right| Ok(found? && right));
        };
        let read_back: Option<ReadBack<'_>> = if unread { Some(&mut read_back) } else { None };
        results.push(one(ready, &place, drive, color, !many || !drive.json, read_back)?);
        if right.is_err() {
            break;
        }
    }
    if show::are_successful(results.iter()) {
        successor.take_place()?;
    }
    let right = right?;
    crate::layout::unlink(&hosts::files_here(job)?);
    if many && drive.json {
        show::print_steps(&results)?;
    }
    bench.lost.check(drive)?;
    let interrupted = bench.stop.asked() > 0;
    let exits = results.iter().map(|result| Exit::of_result(result, interrupted, drive.strict));
    let exit = exits.reduce(Exit::worse).unwrap_or(Exit::Interrupted);
    let exit = exit.worse(thresholds::say(results.iter().flat_map(|result| &result.bounds)));
    Ok(if right { exit } else { Exit::worse(exit, Exit::Mismatch) })
}

/// The bench of a job that is possible.
fn checked(job: &JobSpec, allowed: Allowed, drive: &Drive) -> Result<Bench> {
    show::check(drive)?;
    let mut bench = Bench::new(allowed, job.steps.iter());
    bench.watch = drive.watch.open()?;
    bench.check(job)?;
    drive.trace.iter().try_for_each(|traced| traced.check(job))?;
    bench.traced = drive.trace.clone();
    bench.cold_reads = !drive.no_cold_reads;
    bench.logged = Maker::of(job)? != Maker::Simulate;
    if bench.logged {
        logs::check(job)?;
    }
    Ok(bench)
}

/// The volumes of a run, each once, with their names.
fn volumes_of(run: &Prepared) -> Vec<(String, Arc<dyn Volume>)> {
    let mut found: Vec<(String, Arc<dyn Volume>)> = Vec::new();
    for worker in &run.spec.workers {
        if found.iter().all(|(uri, _)| *uri != worker.uri) {
            found.push((worker.uri.clone(), Arc::clone(&run.volumes[worker.volume])));
        }
    }
    found
}

/// Reads data that a run wrote and did not read, over new connections, and judges its result.
pub type ReadBack<'a> = &'a mut dyn FnMut(&mut RunResult);

/// Runs a step and saves its result in `place`.
pub fn one(
    mut ready: Ready,
    place: &Place,
    drive: &Drive,
    color: Color,
    print: bool,
    read_back: Option<ReadBack<'_>>,
) -> Result<RunResult> {
    let spec = &mut ready.run.spec;
    let name = spec.job.name.clone();
    let _measuring = signal::Measuring::begin();
    let folder = Folder::at(&place.now)?;
    if spec.workers.iter().any(|worker| worker.workload.verify.is_some()) {
        let home = Folder::at(&place.home)?;
        // Kept from the start: a look after a crash needs both.
        folder::write_job(&home, &spec.document)?;
        spec.ledgers = Some(home.to_path_buf());
    }
    if spec.workers.iter().any(|worker| worker.shift.cache.read) {
        output::note("drumfire: reads files into the page cache first");
    }
    let lost = ready.lost.clone();
    let signed = ready.signed.take();
    signed.iter().for_each(Signed::announce);
    let view = ready.watch.beside(show::view(drive, color, &lost)?);
    let mut live = show::Keeping::new(view, &folder, &name, signed.clone());
    // Other ranks drive no ceiling of theirs, so one of this rank would say nothing of the whole.
    let again = (!drive.no_ceiling && hosts::ranks().is_none())
        .then(|| (ready.run.clone(), Engine { stop: ready.stop.clone(), ..Engine::default() }));
    let bounded_as = ready.bounded_as.take();
    let recording = ready.recording.clone();
    let stop = ready.stop.clone();
    let watched = volumes_of(&ready.run);
    let news = News::of(move || watched.clone())?;
    let mut result = ready.run(&mut live)?;
    drop(news);
    signed.iter().for_each(|signed| signed.sign(&mut result));
    logs::place(&mut result.spec, place);
    if let Some(traced) = &drive.trace {
        result.warnings.push(traced.warning());
    }
    if let Some((run, engine)) = again {
        let length = if drive.ceiling { Length::Asked } else { Length::Short };
        if drive.ceiling || ceiling::is_needed(&result, &run) {
            ceiling::judge(&mut result, &run, &engine, length);
        }
        if fewer::is_needed(&result, &run) {
            fewer::judge(&mut result, &run, &engine);
        }
    }
    if let Some(read_back) = read_back.filter(|_| stop.asked() == 0) {
        read_back(&mut result);
    }
    if let Some(name) = bounded_as {
        result.bounds = drive.asked.of_result(&name, &result);
    }
    live.finished(&result);
    drop(live);
    signed.iter().for_each(|signed| signed.tell_start(&result));
    let kept = show::finish(&mut result, place, drive, color, &name, print);
    signed.iter().try_for_each(|signed| signed.keep(&result))?;
    kept?;
    if let (Some(traced), Some(recording)) = (&drive.trace, &recording) {
        traced.keep(recording, place)?;
    }
    Ok(result)
}
