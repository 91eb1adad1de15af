//! `drumfire compare --run`: both sides are measured in turn, A-B-B-A, after a control of the first
//! side against itself. Both are saved as sweeps, which record the result of the control.

use std::path::PathBuf;

use anyhow::Result;
use block::Nanos;
use clap::Args as Flags;
use load::Stop;
use os::Clock;
use report::compare::{Change, compare, mark};
use stats::RunResult;

use crate::args::{Color, Command, Drive};
use crate::bench::Allowed;
use crate::exit::{Exit, UsageError};
use crate::folder::{Folder, Place};
use crate::sweep::{Side, Turn};
use crate::{asked, output, race, run, show, signal, simulate, sweep, typed};

/// Flags of `--run`.
#[derive(Flags, Clone, Debug)]
pub struct Turns {
    /// Measure both sides first, in turn: A and B are arguments of drumfire run in quotes, such as
    /// 'ram:1g --size 4k', or commands, such as 'race --targets 2'.
    #[arg(long)]
    pub run: bool,
    /// Runs of each side.
    #[arg(long, default_value_t = 6, value_name = "N", requires = "run")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Pairs of control runs first, A against A: figures that differ in them are not reported. 0
    /// makes none.
    #[arg(long, default_value_t = 3, value_name = "N", requires = "run")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=500))]
    pub control: u32,
    /// Program that makes the runs, instead of this one; given twice, that of A and that of B.
    #[arg(long, value_name = "FILE", requires = "run")]
    pub binary: Vec<PathBuf>,
    /// Folder for the sweeps a, b and control [default: drumfire-runs/TIME-compare].
    #[arg(long, value_name = "DIR", requires = "run")]
    pub out: Option<PathBuf>,
}

/// Sweeps of both sides after their measurement.
pub struct Measured {
    /// Sweep of the first side.
    pub a: PathBuf,
    /// Sweep of the second side.
    pub b: PathBuf,
    /// Exit code of the runs.
    pub exit: Exit,
}

/// Measures both sides.
pub fn measure(turns: &Turns, [a, b]: [&str; 2], color: Color) -> Result<Measured> {
    if turns.binary.len() > 2 {
        return Err(UsageError("--binary is given once or twice".to_owned()).into());
    }
    let program = |at: usize| turns.binary.get(at).or(turns.binary.first()).cloned();
    let a = Side { program: program(0), ..side(a)? };
    let b = Side { program: program(1), ..side(b)? };
    // Refused before any folder is made.
    let sweeps = [a.sweep(turns.rounds)?, b.sweep(turns.rounds)?];
    let folder = Folder::new(turns.out.as_deref(), "compare", false)?;
    let inner = |name: &str| Folder::new(Some(&folder.join(name)), name, false);
    let folders = [inner("a")?, inner("b")?];
    let stop = Stop::default();
    signal::stop_on_signal(&stop)?;
    let mut progress = Progress::of(2 * (turns.control + turns.rounds) as usize);
    let (mut exit, mut unkept) = (Exit::Good, Vec::new());
    if turns.control > 0 {
        let folder = inner("control")?;
        let place = Place::of(&folder);
        let sweep = a.sweep(2 * turns.control)?;
        let turn = Turn::begin(&a, sweep, &place, &stop, color)?;
        (exit, unkept) = control(turn, 2 * turns.control, &mut progress)?;
    }
    let places = folders.each_ref().map(|folder| Place::of(folder));
    if exit != Exit::Interrupted {
        let [sweep_a, sweep_b] = sweeps;
        let mut turn_a = Turn::begin(&a, sweep_a, &places[0], &stop, color)?;
        let mut turn_b = Turn::begin(&b, sweep_b, &places[1], &stop, color)?;
        turn_a.set_unkept(unkept.clone())?;
        turn_b.set_unkept(unkept)?;
        let both = [&mut turn_a, &mut turn_b];
        exit = exit.worse(in_turn(both, turns.rounds, &mut progress)?);
        turn_a.end()?;
        turn_b.end()?;
        output::note(format_args!("drumfire: saved in {}", folder.display()));
    }
    let [a, b] = places.map(|place| place.now);
    Ok(Measured { a, b, exit })
}

/// Progress of a comparison.
struct Progress {
    clock: Clock,
    begun: Nanos,
    made: usize,
    planned: usize,
}

impl Progress {
    fn of(planned: usize) -> Progress {
        let clock = Clock::get();
        Progress { begun: clock.now(), clock, made: 0, planned }
    }

    /// Prints the next run.
    fn next(&mut self, name: &str) {
        let took = self.clock.now().since(self.begun);
        let left = sweep::left(took, self.made, self.planned - self.made);
        self.made += 1;
        output::note(format_args!("[{}/{}] {name}{left}", self.made, self.planned));
    }
}

/// Runs one side against itself: returns the exit code, and the figures that differ.
fn control(mut turn: Turn, runs: u32, progress: &mut Progress) -> Result<(Exit, Vec<String>)> {
    let mut exit = Exit::Good;
    for _ in 0..runs {
        progress.next("control: A compared with A");
        exit = exit.worse(turn.next()?);
        if exit == Exit::Interrupted {
            break;
        }
    }
    let unkept = differing(turn.results()?);
    turn.end()?;
    if !unkept.is_empty() {
        let figures = unkept.join(", ");
        output::note(format_args!("drumfire: A compared with A differs in {figures}"));
    }
    Ok((exit, unkept))
}

/// Runs both sides: A-B, then B-A, so that a steady drift favours neither.
fn in_turn(turns: [&mut Turn; 2], rounds: u32, progress: &mut Progress) -> Result<Exit> {
    let mut exit = Exit::Good;
    for round in 1..=rounds {
        let order = if round % 2 == 1 { [0, 1] } else { [1, 0] };
        for side in order {
            progress.next(["A", "B"][side]);
            exit = exit.worse(turns[side].next()?);
            if exit == Exit::Interrupted {
                return Ok(exit);
            }
        }
    }
    Ok(exit)
}

/// Figures that differ between identical runs: the first and the second of each pair, in turn.
fn differing(results: Vec<(u32, RunResult)>) -> Vec<String> {
    // The first, fourth, fifth … are one side.
    let (one, other): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|(repeat, _)| repeat % 4 < 2);
    let [one, other] = [one, other].map(|side| side.into_iter().map(|(_, run)| run).collect());
    let (one, other): (Vec<RunResult>, Vec<RunResult>) = (one, other);
    if one.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let mut control = compare("control", &one, &other);
    mark([&mut control]);
    let differ = |verdict| matches!(verdict, Change::Higher | Change::Lower);
    let figures = control.figures.iter().filter(|figure| differ(figure.verdict));
    figures.map(|figure| figure.name.to_owned()).collect()
}

/// Parses the command line of one side.
fn side(line: &str) -> Result<Side> {
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_command = ["run", "race", "simulate"].contains(&first);
    let line = if is_command { line.to_owned() } else { format!("run {line}") };
    let nothing = Allowed::default();
    typed::within(&line, |args| {
        let (job, drive, allowed) = match args.command {
            Command::Run(run) if run.verify_only => {
                let why = "--verify-only measures nothing to compare";
                return Err(UsageError(why.to_owned()).into());
            }
            Command::Run(run) => {
                let asked::Asked { job, cores } = asked::of(&run)?;
                run::refuse_strangers(&run.destroy, job.steps.iter())?;
                let allowed = Allowed { cores, destroy: run.destroy, ..Allowed::default() };
                (job, run.drive, allowed)
            }
            Command::Race(race) => (race::job(&race)?, race.drive, nothing),
            Command::Simulate(of) => (simulate::job(&of)?, of.drive, nothing),
            _ => unreachable!("a line begins with one of these"),
        };
        refuse_outputs(&line, &drive)?;
        show::check(&drive)?;
        Ok(Side { job, drive, allowed, program: None })
    })
}

/// Refuses options that belong to the whole comparison.
fn refuse_outputs(line: &str, drive: &Drive) -> Result<()> {
    let given = [
        ("--out", drive.out.is_some()),
        ("--json", drive.json),
        ("--json-lines", drive.json_lines.is_some()),
        ("--trace", drive.trace.is_some()),
        ("--fail-if", !drive.asked.fail_if.is_empty()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => {
            let why = format!("'{line}': {flag} cannot be used in a side of a comparison");
            Err(UsageError(why).into())
        }
    }
}
