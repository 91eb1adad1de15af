//! `drumfire scenario`: the systems of the founding documents, as a model and as real I/O, compared
//! with their published figures.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args as Flags, Subcommand};
use load::Stop;
use serde_json::{Value, json};

use crate::exit::{Exit, UsageError};
use crate::folder::{self, Folder};
use crate::{hosts, output, signal, thresholds};

mod believed;
mod bounds;
mod cast;
mod file;
mod kept;
mod network;
mod print;
mod processes;
mod rows;
mod steps;
mod swing;
mod targets;

use cast::Cast;
pub use file::is_plain;
use file::{Scenario, Step, Way};
use rows::{Done, Found};
use steps::Session;

/// `drumfire scenario`.
#[derive(Flags, Debug)]
pub struct Args {
    #[command(subcommand)]
    #[allow(missing_docs)]
    pub command: Action,
}

/// Subcommands.
#[derive(Subcommand, Debug)]
pub enum Action {
    /// List the shipped scenarios.
    List,
    /// Print the file of a scenario, to copy and change.
    Show {
        /// Name of the scenario.
        name: String,
    },
    /// Model and run scenarios, and compare with published figures.
    Run(Run),
}

/// `drumfire scenario run`.
#[derive(Flags, Debug)]
#[command(
    after_long_help = "Without --modelled and --live, both are run. Another run with the same \
        --out resumes the scenario."
)]
pub struct Run {
    /// Names of scenarios, your own files (.toml), or all.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Model the original hardware.
    #[arg(long)]
    pub modelled: bool,
    /// Real I/O on this machine, scaled to its size.
    #[arg(long)]
    pub live: bool,
    /// Length of each live run, in seconds.
    #[arg(long, default_value_t = 3.0, value_name = "N")]
    pub seconds: f64,
    /// Folder for the results [default: drumfire-runs/TIME-scenario].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Exit with 4 if a figure is too far from the published one, as 'modelled>5%' or 'live>20%',
    /// or if a row crosses a bound, as 'iops-512.live<200k'; can be repeated.
    #[arg(long, value_name = "BOUND", allow_hyphen_values = true)]
    pub fail_if: Vec<bounds::Bound>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub told: thresholds::Told,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Print a page of Markdown.
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
}

/// Lists, shows or runs.
pub fn main(args: &Args) -> Result<Exit> {
    match &args.command {
        Action::List => {
            let all = file::shipped()?;
            let line = |one: &file::Scenario| format!("{:<16} {}", one.name, one.title);
            output::print(&all.iter().map(line).collect())?;
            Ok(Exit::Good)
        }
        Action::Show { name } => {
            output::file(file::text(name)?.as_bytes())?;
            Ok(Exit::Good)
        }
        Action::Run(args) => run(args),
    }
}

fn run(args: &Run) -> Result<Exit> {
    if !(0.1..=86_400.0).contains(&args.seconds) {
        return Err(UsageError("--seconds is 0.1 to 86400".to_owned()).into());
    }
    let scenarios = scenarios(&args.names)?;
    let ways = if args.modelled || args.live { (args.modelled, args.live) } else { (true, true) };
    let out = Folder::shared(args.out.as_deref(), "scenario")?;
    let stop = Stop::default();
    signal::stop_on_signal(&stop)?;
    let mut session = Session {
        out: out.to_path_buf(),
        seconds: args.seconds,
        stop,
        begun: jiff::Timestamp::now().to_string(),
        host: host(),
        cast: None,
    };
    // Before anything runs: each scenario has its ranks.
    let casts = scenarios.iter().map(|scenario| match ways.1 {
        true => Cast::of(scenario),
        false => Ok(None),
    });
    let casts: Vec<Option<Cast>> = casts.collect::<Result<_>>()?;
    let casts: Vec<(&Scenario, Option<Cast>)> = scenarios.iter().zip(casts).collect();
    say_what_is_there(&casts, ways, &mut session);
    let mut outcomes = Vec::new();
    let mut exit = Exit::Good;
    for (scenario, cast) in casts {
        session.cast = cast;
        say_roles(scenario, &session);
        let (found, ended) = steps_of(scenario, ways, &session);
        exit = Exit::worse(exit, ended);
        outcomes.push(rows::outcome(scenario, &found, ways, &session.begun));
        if ended == Exit::Interrupted {
            break;
        }
    }
    let bounds = args.told.of(args.fail_if.iter().flat_map(|bound| bound.held(&outcomes)));
    let whole = json!({ "scenarios": outcomes, "gates": bounds });
    // On a full disk the findings are shown all the same.
    let kept = keep(&session, &whole);
    match (args.json, args.markdown) {
        (true, _) => output::document(&whole)?,
        (_, true) => output::file(print::markdown(&outcomes, ways).as_bytes())?,
        _ => output::print(&print::text(&outcomes, ways)?)?,
    }
    kept?;
    let exit = Exit::worse(exit, thresholds::say(&bounds));
    let out = session.out.display();
    match exit {
        Exit::Interrupted => {
            output::note(format_args!("drumfire: to resume: {}", again(args, &session.out)));
        }
        _ => output::note(format_args!("drumfire: saved in {out}")),
    }
    Ok(exit)
}

/// Scenarios by names and files, in their order. Results are kept by name, so no two have the same.
fn scenarios(names: &[String]) -> Result<Vec<Scenario>> {
    if names == ["all"] {
        return file::shipped();
    }
    let mut all: Vec<Scenario> = Vec::new();
    for name in names {
        if name == "all" {
            let why = "`all` takes no further names: scenario run all, or scenario run NAME NAME";
            return Err(UsageError(why.to_owned()).into());
        }
        let one = file::read(name)?;
        if all.iter().any(|other| other.name == one.name) {
            let why = format!("{name}: a scenario with the name '{}' is already given", one.name);
            return Err(UsageError(why).into());
        }
        all.push(one);
    }
    Ok(all)
}

/// Requested steps of a scenario.
fn asked_for(scenario: &Scenario, ways: (bool, bool)) -> impl Iterator<Item = &Step> {
    scenario.steps.iter().filter(move |step| match step.way {
        Way::Modelled => ways.0,
        Way::Live => ways.1,
    })
}

/// Says who drives and who serves, if there are several ranks.
fn say_roles(scenario: &Scenario, session: &Session) {
    let name = &scenario.name;
    match &session.cast {
        Some(cast) => output::note(format_args!("drumfire: {name}: {}", cast.line())),
        None if hosts::ranks().is_some() => output::note(format_args!(
            "drumfire: {name}: no step for several hosts: all is done on this one"
        )),
        None => {}
    }
}

/// Says how many steps need not be run again.
fn say_what_is_there(
    cast: &[(&Scenario, Option<Cast>)],
    ways: (bool, bool),
    session: &mut Session,
) {
    let (mut done, mut all) = (0, 0);
    for (scenario, cast) in cast {
        session.cast.clone_from(cast);
        for step in asked_for(scenario, ways) {
            all += 1;
            done += usize::from(session.kept(&scenario.name, step).is_some());
        }
    }
    if done > 0 {
        output::note(format_args!("drumfire: {done} of {all} steps already done"));
    }
}

/// Command that resumes the scenario.
fn again(args: &Run, out: &Path) -> String {
    let mut words = "drumfire scenario run".to_owned();
    for name in &args.names {
        let quote = if name.contains(' ') { "'" } else { "" };
        let _ = write!(words, " {quote}{name}{quote}");
    }
    for (flag, is_given) in [(" --modelled", args.modelled), (" --live", args.live)] {
        words.push_str(if is_given { flag } else { "" });
    }
    let _ = write!(words, " --seconds {} --out {}", args.seconds, out.display());
    words
}

/// Fingerprint of this machine, as far as live figures depend on it.
fn host() -> Value {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    json!([name.trim(), os::cpu::model(), os::cpu::allowed().len()])
}

/// Runs the requested steps of a scenario. A failed step is reported, and its rows stay empty.
fn steps_of(scenario: &Scenario, ways: (bool, bool), session: &Session) -> (Found, Exit) {
    let mut found = Found::default();
    let verify = Step {
        id: rows::VERIFY.to_owned(),
        way: Way::Modelled,
        each: Vec::new(),
        files: Default::default(),
        serve: Vec::new(),
        hosts: 1,
        wire_bits: None,
        times: 1.0,
        clients: 1,
        each_client: Vec::new(),
        run: vec!["plan".to_owned(), "verify".to_owned()],
    };
    let needs_it = scenario.rows.iter().filter_map(|row| row.modelled.as_ref());
    let needs_it = ways.0 && needs_it.filter(|place| place.verify.is_some()).count() > 0;
    let wanted = asked_for(scenario, ways);
    let wanted: Vec<&Step> = needs_it.then_some(&verify).into_iter().chain(wanted).collect();
    let mut exit = Exit::Good;
    for (index, step) in wanted.iter().enumerate() {
        let of = wanted.len();
        let id = &step.id;
        // All scenarios share the answers of the model.
        let is_verify = std::ptr::eq(*step, &verify);
        let folder = if is_verify { "." } else { scenario.name.as_str() };
        let kept = session.kept(folder, step);
        if kept.is_none() {
            output::note(format_args!("drumfire: {} {}/{of} {id}", scenario.name, index + 1));
        }
        match kept.map_or_else(|| session.result(folder, step), |kept| Ok(Some(kept))) {
            Ok(Some(kept)) if is_verify => found.verified = kept.result,
            Ok(Some(kept)) => {
                found.done.insert(id.clone(), Done { run: kept.run, ended: kept.ended });
                found.results.insert(id.clone(), kept.result);
            }
            Ok(None) => return (found, Exit::Interrupted),
            Err(error) => {
                output::note(format_args!("drumfire: {}: {error:#}", scenario.name));
                found.failed.insert(id.clone(), format!("{error:#}"));
                exit = Exit::Failed;
            }
        }
    }
    (found, exit)
}

/// Saves the document in the folder, next to files of other commands.
fn keep(session: &Session, whole: &Value) -> Result<()> {
    folder::write_file(&session.out.join("scenarios.json"), |out| {
        use std::io::Write;
        Ok(writeln!(out, "{whole:#}")?)
    })
}
