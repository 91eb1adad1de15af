//! The binary: arguments become a specification, the specification one call, the call's result a
//! rendering. One short file per subcommand.
#![forbid(unsafe_code)]

mod args;
mod asked;
mod attached;
mod audit;
mod backup;
mod bench;
mod braces;
mod calibrate;
mod catalogue;
mod ceiling;
mod companion;
mod compare;
mod completions;
mod ctl;
mod database;
mod discover;
mod doctor;
mod exit;
mod explain;
mod fewer;
mod fio;
mod folder;
mod foreign;
mod gate;
mod help;
mod hosts;
mod identity;
mod layout;
mod logs;
mod man;
mod merge;
mod news;
mod opened;
mod output;
mod part;
mod picture;
mod placement;
mod plan;
mod race;
mod recheck;
mod report;
mod run;
mod scenario;
mod serve;
mod settings;
mod show;
mod signal;
mod simulate;
mod sweep;
mod tables;
mod thresholds;
mod traced;
mod typed;
mod volumes;
mod watch;

use crate::args::{Args, Command};
use crate::typed::Typed;

fn main() -> std::process::ExitCode {
    os::heed_signals();
    raise_file_limit();
    if !companion::follow() {
        return exit::Exit::Interrupted.code();
    }
    let followed = match hosts::take_part() {
        Ok(hosts::Role::Program) => None,
        Ok(hosts::Role::Followed(exit)) => Some(Ok(Typed::Ended(exit))),
        Err(error) => Some(Err(error)),
    };
    let typed = followed.unwrap_or_else(|| typed::parse().map_err(Into::into));
    let done = match typed {
        Ok(Typed::Args(args)) => {
            hosts::refuse_alone(&args.command).map_err(Into::into).and_then(|()| run(*args))
        }
        Ok(Typed::Ended(exit)) => Ok(exit),
        Err(error) => Err(error),
    };
    hosts::leave();
    match done {
        Ok(exit) => exit.code(),
        Err(error) => {
            output::note(format_args!("drumfire: {}", exit::words(&error)));
            exit::of_error(&error).code()
        }
    }
}

/// Raises the soft limit of open files, usually 1,024 for the sake of programs that use `select`,
/// to the hard limit: each session is a file.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If refused, a shortage of descriptors is reported where it occurs.
    let _ = setrlimit(Resource::Nofile, limit);
}

fn run(args: Args) -> anyhow::Result<exit::Exit> {
    match args.command {
        Command::Race(race) => race::main(&race, args.color),
        Command::Serve(serve) => serve::main(&serve),
        Command::Backup(of) => backup::main(&of),
        Command::Attach(of) => attached::attach(&of),
        Command::Detach(of) => attached::detach(&of),
        Command::Volume(of) => volumes::main(&of),
        Command::Run(run) => run::main(&run, args.color),
        Command::Fio(of) => fio::main(&of, args.color),
        Command::Sweep(sweep) => sweep::main(&sweep, args.color),
        Command::Compare(of) => compare::main(&of, args.color),
        Command::Discover(discover) => discover::main(&discover),
        Command::Ctl(args) => ctl::main(&args),
        Command::Explain(args) => explain::main(&args),
        Command::Report(of) => crate::report::main(&of, args.color),
        Command::Merge(of) => merge::main(&of, args.color),
        Command::Doctor(args) => doctor::main(&args),
        Command::Catalogue(args) => catalogue::main(&args),
        Command::Audit(args) => audit::main(&args),
        Command::Scenario(of) => scenario::main(&of),
        Command::Database(of) => database::main(&of),
        Command::Simulate(of) => simulate::main(&of, args.color),
        Command::Calibrate(args) => calibrate::main(&args),
        Command::Plan(args) => plan::main(&args),
        Command::Completions(args) => completions::main(&args),
        Command::Man(args) => man::main(&args),
    }
}
