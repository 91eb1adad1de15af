//! `drumfire sweep`: the same job with settings that vary, resumable.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args as Flags;
use load::spec::JobSpec;
use load::sweep::{Sweep, Ticket, parse_axis};
use load::{Engine, RunError, Runner, Stop};
use stats::sweep::{Axis, Search, SweepResult};

use crate::args::{Color, Run};
use crate::exit::{Exit, UsageError};
use crate::{folder, job, run, show, signal};

/// The document in the folder of a sweep.
pub const DOCUMENT: &str = "sweep.json";

/// `drumfire sweep`.
#[derive(Flags, Clone, Debug)]
#[command(override_usage = "drumfire sweep [OPTIONS] <JOB|URI…|FOLDER>")]
#[command(after_help = "Example: drumfire sweep null:1t --axis size=512,4k --axis \
    outstanding=1,2,4,8,16 --repeats 6\nIt goes on after a cut by the same command with --out, or \
    by drumfire sweep FOLDER.")]
pub struct Args {
    /// A setting and the values that it takes; every combination of all axes is a cell.
    #[arg(long, value_name = "WORD=VALUE,…")]
    pub axis: Vec<String>,
    /// Runs of each cell, each over new connections and with another seed. Six give 95 %.
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub repeats: u32,
    /// Also find the highest rate of a closed loop, then measure at 10, 20 … 100 % of it.
    #[arg(long, conflicts_with = "p99")]
    pub ladder: bool,
    /// Also find the highest rate whose p99 is at most so long in every repeat: 800us, 2ms.
    #[arg(long, value_parser = span_ns, value_name = "TIME")]
    pub p99: Option<u64>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub run: Run,
}

/// Makes all runs that are missing, and prints what they came to.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    if args.run.verify_only {
        return Err(UsageError("--verify-only goes with run, not with sweep".to_owned()).into());
    }
    let (mut sweep, folder, cores) = begin(args)?;
    let run = Run { cores, ..args.run.clone() };
    let mut engine = Engine::default();
    let stop = engine.stop.clone();
    signal::stop_on_signal(&stop)?;
    sweep.set_tool(show::tool());
    keep(&folder, sweep.document())?;
    let mut bench = Bench { run: &run, color, folder: &folder, open: run::Open::new(), stop };
    let exit = bench.go(&mut sweep, &mut engine)?;
    keep(&folder, sweep.document())?;
    print(sweep.document(), &run, color, &folder)?;
    let missed = sweep.document().found.iter().any(|found| found.rate_per_s.is_none());
    Ok(if missed && exit == Exit::Good { Exit::Missed } else { exit })
}

/// The sweep, new or taken up again, its folder and the processors to drive from.
fn begin(args: &Args) -> Result<(Sweep, PathBuf, Vec<usize>)> {
    let first = Path::new(&args.run.volumes[0]);
    if first.join(DOCUMENT).is_file() {
        if !args.axis.is_empty() || args.run.volumes.len() > 1 {
            let why = format!("{} says by itself what it sweeps", first.display());
            return Err(UsageError(why).into());
        }
        return Ok((resume(first)?, first.to_owned(), args.run.cores.clone()));
    }
    let asked = job::of(&args.run)?;
    let axes = args.axis.iter().map(|text| parse_axis(text)).collect::<Result<Vec<Axis>, _>>();
    let search = match (args.ladder, args.p99) {
        (true, _) => Search::Ladder,
        (false, Some(ns)) => Search::P99 { ns },
        (false, None) => Search::Nothing,
    };
    let seed = args.run.drive.seed;
    let new = axes.and_then(|axes| Sweep::new(asked.job, axes, args.repeats, seed, search));
    let new = new.map_err(|error| UsageError(error.to_string()))?;
    let there = args.run.drive.out.as_deref().filter(|out| out.join(DOCUMENT).is_file());
    let Some(there) = there else {
        let folder = folder::make(args.run.drive.out.as_deref(), "sweep")?;
        return Ok((new, folder, asked.cores));
    };
    let old = resume(there)?;
    if !old.has_plan_of(&new) {
        let why = format!("{} holds another sweep: give another --out", there.display());
        return Err(UsageError(why).into());
    }
    Ok((old, there.to_owned(), asked.cores))
}

fn resume(folder: &Path) -> Result<Sweep> {
    let sweep = Sweep::resume(read(folder)?).map_err(|error| UsageError(error.to_string()))?;
    let (done, planned) = sweep.progress();
    eprintln!("drumfire: {done} of {planned} runs are there already");
    Ok(sweep)
}

/// Reads the document of a sweep.
pub fn read(folder: &Path) -> Result<SweepResult> {
    let path = folder.join(DOCUMENT);
    let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()))
}

fn keep(folder: &Path, document: &SweepResult) -> Result<()> {
    folder::write_file(&folder.join(DOCUMENT), |out| {
        report::json::write_value(document, out)?;
        Ok(())
    })
}

/// What the runs of a sweep share.
struct Bench<'a> {
    run: &'a Run,
    color: Color,
    folder: &'a Path,
    /// Volumes stay open, as what they hold is the sweep's own by then; each run has connections
    /// of its own.
    open: run::Open,
    stop: Stop,
}

impl Bench<'_> {
    fn go(&mut self, sweep: &mut Sweep, runner: &mut dyn Runner) -> Result<Exit> {
        let mut exit = Exit::Good;
        let steps = sweep.jobs().flat_map(|job| job.steps).collect::<Vec<_>>();
        while let Some(ticket) = sweep.next_run() {
            let (done, planned) = sweep.progress();
            eprintln!("[{}/{planned}] {}", done + 1, ticket.folder);
            let whole = JobSpec { steps: steps.clone(), ..ticket.job.clone() };
            match self.one(&whole, &ticket, runner) {
                Ok(result) => {
                    if self.stop.asked() > 0 {
                        let again = self.folder.display();
                        eprintln!("drumfire: to go on: drumfire sweep {again}");
                        return Ok(Exit::Interrupted);
                    }
                    exit = exit.worse(Exit::of_result(&result, false, self.run.drive.strict));
                    sweep.record(&ticket, &result);
                }
                // A cell that cannot be run says nothing of the others.
                Err(error) if error.is::<RunError>() => {
                    eprintln!("drumfire: {}: {error:#}", ticket.folder);
                    sweep.record_failure(&ticket, format!("{error:#}"));
                    exit = exit.worse(Exit::Failed);
                }
                Err(error) => return Err(error),
            }
            self.keep_median(sweep, ticket.cell)?;
            keep(self.folder, sweep.document())?;
        }
        Ok(exit)
    }

    fn one(
        &mut self,
        whole: &JobSpec,
        ticket: &Ticket,
        runner: &mut dyn Runner,
    ) -> Result<stats::RunResult> {
        let spec = run::spec(self.run, whole, &ticket.job.steps[0], &mut self.open)?;
        let name = spec.job.name.clone();
        let folder = self.folder.join(&ticket.folder);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the run's folder {}", folder.display()))?;
        let mut live = show::view(&self.run.drive, self.color)?;
        let mut result = runner.run(spec, &mut *live)?;
        drop(live);
        show::finish(&mut result, &folder, &self.run.drive, self.color, &name, false)?;
        Ok(result)
    }

    /// The folder of a cell with several runs shows the one with the median rate.
    fn keep_median(&self, sweep: &Sweep, cell: usize) -> Result<()> {
        let cell = &sweep.document().cells[cell];
        let mut runs: Vec<_> = cell.whole_runs().filter(|run| run.folder != cell.folder).collect();
        runs.sort_by(|a, b| a.iops.total_cmp(&b.iops));
        let Some(median) = runs.get(runs.len().saturating_sub(1) / 2) else { return Ok(()) };
        for file in ["result.json", "report.txt", "job.toml"] {
            let from = self.folder.join(&median.folder).join(file);
            let to = self.folder.join(&cell.folder).join(file);
            folder::copy(&from, &to)?;
        }
        Ok(())
    }
}

fn print(document: &SweepResult, run: &Run, color: Color, folder: &Path) -> Result<()> {
    folder::write_file(&folder.join("report.txt"), |out| {
        report::sweep::write(document, report::Paint::PLAIN, out)?;
        Ok(())
    })?;
    let mut out = io::stdout().lock();
    let printed = match run.drive.json {
        true => report::json::write_value(document, &mut out),
        false => report::sweep::write(document, show::paint(color), &mut out)
            .and_then(|()| writeln!(out, "\nkept in {}", folder.display())),
    };
    match printed.and_then(|()| out.flush()) {
        // Whoever read us has enough: that is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => bail!(error),
        _ => Ok(()),
    }
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
