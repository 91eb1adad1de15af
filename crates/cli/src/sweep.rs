//! `drumfire sweep`: runs of the same job with varying settings, resumable.

mod journal;
mod kept;
mod process;
mod turn;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use block::Nanos;
use clap::{Args as Flags, Subcommand, ValueEnum};
use job::spec::JobSpec;
use job::sweep::{Sweep, Ticket, parse_axis};
use load::{Asked, RunError};
use stats::RunResult;
use stats::sweep::{Cell, CellRun, RepeatAs, Search, Source, SweepPlan, SweepResult};

use self::kept::{DOCUMENT, Index, lock, resume};
pub use self::kept::{is_one, read};
pub use self::turn::{Side, Turn};
use crate::args::{Color, Drive, Race, Run, Spread};
use crate::bench::{self, Allowed, Bench, CORES, Failed, Maker, ReadBack};
use crate::exit::{self, Exit, UsageError};
use crate::folder::{Folder, Place, Successor};
use crate::{asked, folder, hosts, logs, output, race, run, show, signal, simulate, thresholds};

/// `drumfire sweep`.
#[derive(Flags, Clone, Debug)]
#[command(override_usage = "drumfire sweep [OPTIONS] <JOB|URI…|FOLDER>\n       \
    drumfire sweep race [OPTIONS]\n       drumfire sweep simulate [OPTIONS] <BILL.toml|PROFILE>")]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(mut_arg("verify_only", |flag| flag.hide(true)))]
#[command(
    after_long_help = "A sweep goes on after a cut by the same command with --out, or by drumfire \
    sweep FOLDER."
)]
pub struct Args {
    /// Sweep a race or a simulation instead of existing volumes.
    #[command(subcommand)]
    pub made: Option<Made>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub plan: Plan,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: Run,
}

/// The maker of a sweep's volumes.
#[derive(Subcommand, Clone, Debug)]
pub enum Made {
    /// Targets on loopback; also axes targets, volumes, volume-size, protocol and cores.
    Race(Box<Of<Race>>),
    /// A model; also axes system and drives.
    Simulate(Box<Of<simulate::Args>>),
}

/// A command whose runs are swept.
#[derive(Flags, Clone, Debug)]
pub struct Of<C: Flags> {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub plan: Plan,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub command: C,
}

/// The measurement to make.
#[derive(Flags, Clone, Debug)]
pub struct Plan {
    /// A setting and its values; every combination of all axes is a cell.
    #[arg(long, value_name = "WORD=VALUE,…")]
    pub axis: Vec<String>,
    /// Runs per cell, each with its own seed: 6 give a 95 % interval of the median.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub repeats: u32,
    /// Part that is restarted for each run.
    #[arg(long, value_enum, default_value_t = Fresh::Connection)]
    pub repeat_as: Fresh,
    /// Also find the maximum rate of a closed loop, then measure at 10, 20 … 100 % of that rate.
    #[arg(long, conflicts_with = "p99")]
    pub ladder: bool,
    /// Also find the maximum rate that meets this p99: 800us, 2ms. Six runs or more at both ends of
    /// the last step give an interval; more are made if they disagree.
    #[arg(long, value_parser = span_ns, value_name = "TIME")]
    pub p99: Option<u64>,
}

/// Part that is restarted for each run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fresh {
    /// Threads and connections.
    Connection,
    /// The whole process.
    Process,
}

impl Plan {
    /// Removes the arrival distribution from the flags if the sweep plans the rate; returns whether
    /// it was Poisson.
    fn takes_arrivals(&self, drive: &mut Drive) -> bool {
        let plans =
            self.ladder || self.p99.is_some() || self.axis.iter().any(|axis| sets(axis, "rate"));
        let poisson = plans && drive.rate.is_none() && drive.arrivals == Spread::Poisson;
        if poisson {
            drive.arrivals = Spread::Constant;
        }
        poisson
    }

    /// Plan for a job. Files that an axis names are copied into the job.
    fn of(&self, job: &mut JobSpec, poisson: bool) -> Result<SweepPlan> {
        if self.axis.iter().any(|axis| sets(axis, CORES)) {
            job.setup.entry(CORES.to_owned()).or_default();
        }
        let axes =
            self.axis.iter().map(|text| parse_axis(text, job)).collect::<Result<Vec<_>, _>>();
        let axes = axes.map_err(|error| UsageError(error.to_string()))?;
        for axis in axes.iter().filter(|axis| simulate::is_system(&axis.word)) {
            simulate::keep_files(job, &axis.values)?;
        }
        let search = match (self.ladder, self.p99) {
            (true, _) => Search::Ladder,
            (false, Some(ns)) => Search::P99 { ns },
            (false, None) => Search::Nothing,
        };
        let repeat_as = match self.repeat_as {
            Fresh::Connection => RepeatAs::Connection,
            Fresh::Process => RepeatAs::Process,
        };
        let (repeats, seed) = (self.repeats, job.seed);
        Ok(SweepPlan { axes, repeats, seed, search, repeat_as, poisson, ..SweepPlan::default() })
    }
}

/// Whether an axis varies `word`.
fn sets(axis: &str, word: &str) -> bool {
    axis.split('=').next().is_some_and(|name| name.trim() == word)
}

/// A new or resumed sweep.
struct Begun {
    sweep: Sweep,
    successor: Successor,
    bench: Bench,
    /// Lock against other sweeps in the folder.
    lock: File,
    /// Lock of the sweep that this one replaces.
    _old: Option<File>,
}

/// Makes all missing runs, and prints their results.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    let drive = match &args.made {
        None => &args.run.drive,
        Some(Made::Race(race)) => &race.command.drive,
        Some(Made::Simulate(simulate)) => &simulate.command.drive,
    };
    show::check(drive)?;
    if drive.trace.is_some() {
        let why = "--trace shows one run: use it with run or race and the settings of the cell";
        return Err(UsageError(why.to_owned()).into());
    }
    let Begun { mut sweep, mut successor, mut bench, lock, _old } = begin(args, drive)?;
    let place = successor.place.clone();
    let folder = &place.now;
    bench.watch = drive.watch.open()?;
    bench.cold_reads = !drive.no_cold_reads;
    signal::stop_on_signal(&bench.stop)?;
    sweep.set_tool(show::tool());
    let asked = drive.asked.or_kept(&sweep.document().bounds)?;
    asked.check()?;
    sweep.set_bounds(asked.before_the_end());
    let index = Index::new(folder);
    let cells = &sweep.document().cells;
    let has_measured = cells.iter().any(|cell| cell.whole_runs().any(|run| run.iops > 0.0));
    let mut journal = journal::Kept::open(folder, &place.home, &sweep)?;
    kept::close_open(folder, &mut sweep, &mut journal)?;
    sweep.hold_against(Some(journal.journal()), |_| None);
    let (place, program) = (&place, None);
    let mut runs = Runs { bench, drive, color, place, lock, index, journal, has_measured, program };
    runs.index.write(&mut sweep)?;
    let made = runs.go(&mut sweep);
    if made.as_ref().is_ok_and(|exit| *exit != Exit::Interrupted) {
        let bounds = asked.of_sweep(sweep.document(), folder);
        sweep.set_bounds(bounds);
    }
    // Results so far are saved, however the sweep ended.
    let kept = runs.index.write(&mut sweep);
    let exit = made.and_then(|exit| kept.map(|()| exit));
    let exit = exit.map_err(|error| match exit::of_error(&error) {
        Exit::Usage => error,
        _ => Failed(format!("{error:#}; to resume: drumfire sweep {}", folder.display())).into(),
    })?;
    write_text(sweep.document(), folder)?;
    if runs.has_measured {
        successor.take_place()?;
    }
    // Lines of the bounds are printed before the final screen.
    let exit = exit.worse(thresholds::say(&sweep.document().bounds));
    print(sweep.document(), drive, color, runs.home())?;
    runs.bench.lost.check(drive)?;
    let missed = sweep.document().found.iter().any(|found| found.rate_per_s.is_none());
    Ok(if missed && exit == Exit::Good { Exit::Missed } else { exit })
}

/// Estimated remaining time at the rate so far: ", some 5 min left". Empty before the first run is
/// done.
pub fn left(took: Nanos, done: usize, rest: usize) -> String {
    if done == 0 {
        return String::new();
    }
    let seconds = took.as_secs_f64() / done as f64 * rest as f64;
    match seconds {
        s if s < 90.0 => format!(", some {s:.0} s left"),
        s if s < 5400.0 => format!(", some {:.0} min left", s / 60.0),
        s => format!(", some {:.1} h left", s / 3600.0),
    }
}

/// Bench for the runs of a sweep, if all its cells can be run.
fn bench_of(sweep: &Sweep, allowed: Allowed) -> Result<Bench> {
    if sweep.plan().repeat_as == RepeatAs::Process && hosts::ranks().is_some() {
        let why = "--repeat-as process measures on this host alone, and a launcher started several \
                   ranks: leave it out, or start the sweep without mpirun";
        return Err(UsageError(why.to_owned()).into());
    }
    let jobs: Vec<JobSpec> = sweep.jobs().collect();
    run::refuse_strangers(&allowed.destroy, jobs.iter().flat_map(|job| &job.steps))?;
    let mut bench = Bench::new(allowed, jobs.iter().flat_map(|job| &job.steps));
    bench.logged = true;
    jobs.iter().try_for_each(|job| bench.check(job))?;
    if matches!(sweep.plan().search, Search::P99 { .. }) {
        jobs.iter().try_for_each(|job| bench.check_percentiles(job))?;
    }
    Ok(bench)
}

/// Refuses flags of a run that a sweep has not.
fn refuse_flags(run: &Run) -> Result<()> {
    let given = [("--verify-only", run.verify_only), ("--dry-run", run.dry_run)];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => {
            Err(UsageError(format!("{flag} is an option of run, not of sweep")).into())
        }
        None => Ok(run.part.refuse("sweep")?),
    }
}

/// Creates the sweep, its folder and its bench. A refused sweep leaves no files.
fn begin(args: &Args, drive: &Drive) -> Result<Begun> {
    let destroy = args.run.destroy.clone();
    let allowed =
        |cores| Allowed { cores, destroy: destroy.clone(), samples: true, ..Allowed::default() };
    let plan = match &args.made {
        None => &args.plan,
        Some(Made::Race(race)) => &race.plan,
        Some(Made::Simulate(simulate)) => &simulate.plan,
    };
    let mut drive = drive.clone();
    let poisson = plan.takes_arrivals(&mut drive);
    let (mut job, allowed) = match &args.made {
        Some(Made::Race(of)) => {
            let race = Race { drive: drive.clone(), ..of.command.clone() };
            (race::job(&race)?, allowed(Vec::new()))
        }
        Some(Made::Simulate(of)) => {
            let of = simulate::Args { drive: drive.clone(), ..of.command.clone() };
            (simulate::job(&of)?, allowed(Vec::new()))
        }
        None => {
            refuse_flags(&args.run)?;
            let first = Path::new(&args.run.volumes[0]);
            if first.is_dir() && !is_one(first) {
                let why = format!("{} is not a sweep: {DOCUMENT} is missing", first.display());
                return Err(UsageError(why).into());
            }
            if is_one(first) {
                return taken_up(first, &args.run, allowed(args.run.cores.clone()));
            }
            let asked = asked::of(&Run { drive: drive.clone(), ..args.run.clone() })?;
            (asked.job, allowed(asked.cores))
        }
    };
    let plan = plan.of(&mut job, poisson)?;
    let new = Sweep::new(job, plan).map_err(|error| UsageError(error.to_string()))?;
    let there = drive.out.as_deref().filter(|out| is_one(out));
    let Some(there) = there else {
        let bench = bench_of(&new, allowed.clone())?;
        let folder = Folder::new(drive.out.as_deref(), "sweep", drive.replace)?;
        if drive.replace {
            try_first(&new, allowed)?;
        }
        let successor = Successor::begin(folder, drive.replace)?;
        let lock = lock(&successor.place.now)?;
        return Ok(Begun { sweep: new, successor, bench, lock, _old: None });
    };
    let held = lock(there)?;
    if drive.replace {
        let bench = bench_of(&new, allowed.clone())?;
        try_first(&new, allowed)?;
        let successor = Successor::begin(Folder::at(there)?, true)?;
        let lock = lock(&successor.place.now)?;
        return Ok(Begun { sweep: new, successor, bench, lock, _old: Some(held) });
    }
    let sweep = resume(there)?;
    if !sweep.has_plan_of(&new) {
        let there = there.display();
        let why = format!("{there} holds another sweep: choose another --out, or add --replace");
        return Err(UsageError(why).into());
    }
    let bench = bench_of(&sweep, allowed)?;
    let successor = Successor::begin(Folder::at(there)?, false)?;
    Ok(Begun { sweep, successor, bench, lock: held, _old: None })
}

/// Opens the volumes of the first cell, and closes them again: a wrong name costs no old sweep. A
/// cell that merely cannot be run does not affect the others.
fn try_first(sweep: &Sweep, allowed: Allowed) -> Result<()> {
    let Some(job) = sweep.jobs().next() else { return Ok(()) };
    match bench_of(sweep, allowed)?.prepare(&job, &job.steps[0]) {
        Err(error) if !error.is::<RunError>() && !error.is::<Failed>() => Err(error),
        _ => Ok(()),
    }
}

/// The sweep in a folder, which decides all that flags could.
fn taken_up(folder: &Path, run: &Run, allowed: Allowed) -> Result<Begun> {
    let plan =
        ["axis", "repeats", "ladder", "p99", "preset", "seconds", "out", "replace", "verify"];
    let decided = plan.into_iter().chain(asked::DECIDED);
    asked::refuse_beside(&folder.display().to_string(), decided)?;
    if run.volumes.len() > 1 {
        let why = format!("{} names its volumes: remove the others", folder.display());
        return Err(UsageError(why).into());
    }
    let held = lock(folder)?;
    let sweep = resume(folder)?;
    let bench = bench_of(&sweep, allowed)?;
    let (successor, old) = match Successor::again(folder)? {
        Some(successor) => {
            let home = &successor.place.home;
            let old = is_one(home).then(|| lock(home)).transpose()?;
            (successor, old)
        }
        None => (Successor::begin(Folder::at(folder)?, false)?, None),
    };
    Ok(Begun { sweep, successor, bench, lock: held, _old: old })
}

/// State shared by the runs of a sweep.
struct Runs<'a> {
    /// Volumes stay open, because their content is the sweep's own by then; each run has its own
    /// connections.
    bench: Bench,
    drive: &'a Drive,
    color: Color,
    place: &'a Place,
    lock: File,
    index: Index<'a>,
    journal: journal::Kept,
    /// A run was completed, so the sweep may replace an old one: a partial sweep can be resumed.
    has_measured: bool,
    /// Program of runs in separate processes, if not this one.
    program: Option<&'a Path>,
}

impl Runs<'_> {
    /// Folder of the sweep after its end or its interruption.
    fn home(&self) -> &Path {
        if self.has_measured { &self.place.home } else { &self.place.now }
    }

    fn go(&mut self, sweep: &mut Sweep) -> Result<Exit> {
        let mut exit = Exit::Good;
        let mut known = sweep.progress().1;
        let (clock, before) = (os::Clock::get(), sweep.progress().0);
        let begun = clock.now();
        while let Some(ticket) = sweep.next_run() {
            let (done, planned) = sweep.progress();
            if planned > known {
                // Saves the plan of a search before its cells are measured.
                known = planned;
                self.index.write(sweep)?;
            }
            let left = left(clock.now().since(begun), done - before.min(done), planned - done);
            output::note(format_args!("[{}/{planned}] {}{left}", done + 1, ticket.folder));
            self.bench.watch.progress(done, planned, &ticket.folder);
            exit = exit.worse(self.make(sweep, &ticket)?);
            if exit == Exit::Interrupted {
                let again = self.home().display();
                output::note(format_args!("drumfire: to resume: drumfire sweep {again}"));
                return Ok(exit);
            }
        }
        Ok(exit)
    }

    /// Makes one run and saves its result.
    fn make(&mut self, sweep: &mut Sweep, ticket: &Ticket) -> Result<Exit> {
        self.journal.begun(&ticket.folder)?;
        let exit = match self.one(ticket, sweep.plan().repeat_as) {
            Ok(_) if self.bench.stop.asked() > 0 => {
                self.journal.failed(&ticket.folder, "stopped by the user")?;
                return Ok(Exit::Interrupted);
            }
            Ok(result) => {
                self.has_measured |= result.partial.is_none() && result.totals.ios > 0;
                sweep.record(ticket, &result);
                self.end(sweep, ticket, &result)?;
                Exit::of_result(&result, false, self.drive.strict)
            }
            // A cell that cannot be run does not affect the others.
            Err(error) if error.is::<RunError>() || error.is::<Failed>() => {
                output::note(format_args!("drumfire: {}: {error:#}", ticket.folder));
                self.journal.failed(&ticket.folder, &format!("{error:#}"))?;
                sweep.record_failure(ticket, format!("{error:#}"));
                sweep.hold_against(Some(self.journal.journal()), |_| None);
                Exit::Failed
            }
            Err(error) => return Err(error),
        };
        self.keep_median(sweep.cell(ticket))?;
        self.index.keep(sweep)?;
        Ok(exit)
    }

    /// Records the end of a run in the journal, and compares the runs of its cell with the journal.
    fn end(&mut self, sweep: &mut Sweep, ticket: &Ticket, result: &RunResult) -> Result<()> {
        let path = self.place.now.join(&ticket.folder).join("result.json");
        let digest = crate::report::digest_of(&path);
        self.journal.ended(&ticket.folder, result, &digest)?;
        let source = Source { digest, ..Source::of(result) };
        let of_this = |run: &CellRun| (run.folder == ticket.folder).then(|| source.clone());
        sweep.hold_against(Some(self.journal.journal()), of_this);
        Ok(())
    }

    fn one(&mut self, ticket: &Ticket, fresh: RepeatAs) -> Result<RunResult> {
        let place = self.place.inner(&ticket.folder);
        // Each run has its logs in the folder of its result.
        let unlogged = |error: std::io::Error| Failed(format!("its logs: {error}"));
        let job = logs::within(&ticket.job, &place.now).map_err(unlogged)?;
        match fresh {
            RepeatAs::Connection => {
                let ready = self.bench.prepare(&job, &job.steps[0])?;
                if Maker::of(&job)? != Maker::Simulate {
                    logs::begin(&job).map_err(|error| Failed(error.to_string()))?;
                }
                let unread =
                    ready.run.spec.workers.iter().any(|worker| worker.workload.is_unread());
                let mut read_back = |result: &mut RunResult| {
                    let asked = (&*place.home, Asked::UnreadSample);
                    // H05 names the fault; if the volume does not answer, H05 stays unknown.
                    if let Err(error) = self.bench.read_back(&job, 0, asked, result) {
                        output::note(format_args!("drumfire: {}: {error:#}", ticket.folder));
                    }
                };
                let read_back: Option<ReadBack<'_>> =
                    if unread { Some(&mut read_back) } else { None };
                bench::one(ready, &place, self.drive, self.color, false, read_back)
            }
            RepeatAs::Process => {
                let Bench { allowed, stop, .. } = &self.bench;
                let by = (self.program, allowed);
                let run = process::run(&job, &place.now, by, self.drive, &self.lock, stop);
                let mut result = run?;
                if logs::place(&mut result.spec, &place) {
                    folder::write(&place.now, &result)?;
                }
                Ok(result)
            }
        }
    }

    /// Copies the run with the median rate to the folder of a cell with several runs. Once all are
    /// complete, the checks of the cell combine those of its runs: the worst of each, and the
    /// spread of the runs.
    fn keep_median(&self, cell: &Cell) -> Result<()> {
        let mut runs: Vec<_> = cell.whole_runs().filter(|run| run.folder != cell.folder).collect();
        runs.sort_by(|a, b| a.iops.total_cmp(&b.iops));
        let Some(median) = runs.get(runs.len().saturating_sub(1) / 2) else { return Ok(()) };
        let read = |run: &CellRun| {
            crate::report::read_own(&self.place.now.join(&run.folder).join("result.json"))
        };
        let mut result = read(median)?;
        let source = self.place.now.join(&median.folder);
        if !source.join("job.toml").is_file() {
            // The sweep was interrupted after the result of this run.
            folder::render(&source, &result)?;
        }
        if runs.len() == cell.repeats as usize {
            for other in runs.iter().filter(|run| run.repeat != median.repeat) {
                result.take_worse(&read(other)?.checks);
            }
            result.set_check(cell.repeats());
        }
        folder::write(&self.place.now.join(&cell.folder), &result)
    }
}

fn write_text(document: &SweepResult, folder: &Path) -> Result<()> {
    folder::write_file(&folder.join("report.txt"), |out| {
        let text = report::sweep::painted(document, report::Paint::PLAIN, None);
        Ok(out.write_all(text.as_str().as_bytes())?)
    })
}

fn print(document: &SweepResult, drive: &Drive, color: Color, folder: &Path) -> Result<()> {
    if drive.json {
        return output::document(document);
    }
    let (paint, columns) = (show::paint(color), output::terminal_columns());
    output::painted(&report::sweep::painted(document, paint, columns))?;
    output::end(&report::sweep::closing(document, paint), &show::kept_in(folder))
}

/// Reads `800us`, `2ms` or `1s`.
fn span_ns(text: &str) -> Result<u64, String> {
    let error = || format!("'{text}' is not a time: write 800us, 2ms or 1s");
    let digits = text.trim().trim_end_matches(|c: char| c.is_alphabetic());
    let unit = match &text.trim()[digits.len()..] {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(error()),
    };
    let ns = digits.trim().parse::<f64>().map_err(|_| error())? * unit;
    if (1.0..1e15).contains(&ns) { Ok(ns as u64) } else { Err(error()) }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_times() {
        assert_eq!(
            ["800us", "2ms", "1.5 s"].map(|text| span_ns(text).unwrap()),
            [800_000, 2_000_000, 1_500_000_000]
        );
        for wrong in ["", "2", "ms", "-1ms", "0ns", "1e30s", "2min"] {
            assert!(span_ns(wrong).is_err(), "{wrong}");
        }
    }
}
