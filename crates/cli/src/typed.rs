//! The command line as it was typed.
//!
//! A negative number after an option looks like a flag to the parser, which then suggests passing
//! the number differently. This module treats the number as the option's value and refuses it with
//! the option's own message: no numeric option accepts a value below zero.

mod mistakes;

use std::cell::RefCell;
use std::ffi::OsString;

use anyhow::Result;
use block::printable;
use clap::builder::Str;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, Command as Parsed, CommandFactory, FromArgMatches};

use crate::args::Args;
use crate::exit::{Exit, UsageError};
use crate::{help, output, show};

/// Result of parsing a command line.
pub enum Typed {
    /// Something to do.
    Args(Box<Args>),
    /// End without a command: help or the version was requested, or the command line is wrong; the
    /// text has been printed.
    Ended(Exit),
}

/// Parses the command line. Prints help, and the errors that clap finds.
pub fn parse() -> Result<Typed, UsageError> {
    let program = help::program();
    refuse_negative(&program, std::env::args_os().skip(1))?;
    if let Ok(args) = args_of(program.clone(), std::env::args_os()) {
        return Ok(Typed::Args(Box::new(args)));
    }
    // The parser prints words unchanged, and a shell may expand file names among them.
    let words = std::env::args_os().map(|word| printable(&word.to_string_lossy()).into_owned());
    let words: Vec<String> = words.collect();
    match args_of(program.clone(), &words) {
        Err(mut error) => {
            mistakes::add_tip(&mut error, &program, &words);
            Ok(Typed::Ended(printed(&error, &words)))
        }
        Ok(_) => Err(UsageError(
            "an argument is not UTF-8, or contains terminal control characters".to_owned(),
        )),
    }
}

fn args_of<W: Into<OsString> + Clone>(
    program: Parsed,
    words: impl IntoIterator<Item = W>,
) -> Result<Args, clap::Error> {
    Args::from_arg_matches(&program.try_get_matches_from(words)?)
}

/// Prints the parser's final message. Help goes to standard output, also for a command without its
/// required arguments, so that `drumfire | less` shows the help.
fn printed(error: &clap::Error, words: &[String]) -> Exit {
    let is_help = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    let color = mistakes::color(words);
    let text = error.render();
    let text = |paints: bool| if paints { text.ansi().to_string() } else { text.to_string() };
    if is_help || !error.use_stderr() {
        // A closed pipe: nothing else can be done.
        let _ = output::help(&text(show::paint(color).is_on()));
        return Exit::Good;
    }
    output::refusal(&text(show::paint_of_errors(color).is_on()));
    Exit::Usage
}

/// Parses words as a command line of this program, without its name.
pub fn of_words(words: &[String]) -> Result<Args, UsageError> {
    let all = std::iter::once("drumfire").chain(words.iter().map(String::as_str));
    args_of(help::program(), all.map(OsString::from)).map_err(|error| {
        let error = error.to_string();
        let why = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
        UsageError(format!("'{}': {why}", words.join(" ")))
    })
}

thread_local! {
    /// Command line that replaces that of this process.
    static INSTEAD: RefCell<Option<Vec<OsString>>> = const { RefCell::new(None) };
}

/// Parses a command line in an argument of another one, without the program's name. While `then`
/// runs, queries for typed flags refer to that command line.
pub fn within<T>(line: &str, then: impl FnOnce(Args) -> Result<T>) -> Result<T> {
    let words = std::iter::once("drumfire").chain(line.split_whitespace()).map(OsString::from);
    let words: Vec<OsString> = words.collect();
    refuse_negative(&Args::command(), words[1..].iter().cloned())?;
    let args = args_of(help::program(), &words).map_err(|error| {
        let error = error.to_string();
        let why = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
        UsageError(format!("'{line}': {why}"))
    })?;
    let before = INSTEAD.replace(Some(words));
    let done = then(args);
    INSTEAD.set(before);
    done
}

/// Flags typed on this process's command line, with names like `size` and `json_lines`, including
/// flags that repeat their default.
pub fn typed() -> Vec<String> {
    let words = INSTEAD.with_borrow(Clone::clone);
    let words = words.unwrap_or_else(|| std::env::args_os().collect());
    let Ok(matches) = Args::command().try_get_matches_from(words) else { return Vec::new() };
    let (mut given, mut all) = (&matches, Vec::new());
    while let Some((_, flags)) = given.subcommand() {
        given = flags;
        let typed =
            |id: &&clap::Id| flags.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        all.extend(flags.ids().filter(typed).map(ToString::to_string));
    }
    all
}

/// Refuses a numeric option with a value below zero.
fn refuse_negative(
    program: &Parsed,
    words: impl IntoIterator<Item = OsString>,
) -> Result<(), UsageError> {
    let mut command = program;
    let mut option: Option<(String, String)> = None;
    for word in words {
        let word = word.to_string_lossy().into_owned();
        if word == "--" {
            return Ok(());
        }
        let (name, value) = match (option.take(), word.strip_prefix("--")) {
            (_, Some(long)) => match long.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => {
                    option = must(command, long).map(|must| (long.to_owned(), must));
                    continue;
                }
            },
            (Some((name, _)), None) => (name, word),
            (None, None) => {
                command = command.find_subcommand(&word).unwrap_or(command);
                continue;
            }
        };
        let digits = value.strip_prefix('-').unwrap_or_default();
        let is_negative = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
        if let Some(must) = must(command, &name).filter(|_| is_negative) {
            return Err(UsageError(format!("--{name} {value}: must be {must}")));
        }
    }
    Ok(())
}

/// Requirement for the value of a numeric option.
fn must(command: &Parsed, long: &str) -> Option<String> {
    let is_it = |arg: &&Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(long) || aliases.contains(&long)
    };
    let arg = command.get_arguments().find(is_it)?;
    let kind = arg.get_value_names().and_then(<[Str]>::first)?;
    let must = match (kind.as_str(), arg.get_id().as_str()) {
        ("N", "control") => "a whole number, 0 or more",
        ("N", _) => "a whole number above 0",
        ("SEED", _) => "a whole number, 0 or more",
        ("PERCENT", _) => "0 to 100",
        ("SECONDS", "ramp") => "0 or more, in seconds",
        ("SECONDS", _) => "above 0, in seconds",
        ("TIME", _) => "a time above 0, such as 800us",
        ("SIZE" | "BYTES", _) => "a size above 0, such as 4k",
        ("YEAR", _) => "a year, such as 2024",
        ("UNITS", _) => "a height above 0, in rack units",
        ("RATE", _) => "a rate above 0, such as 50k",
        ("DOLLARS", _) => "an amount above 0, such as 20K",
        ("WATTS", _) => "a power above 0, such as 300W",
        ("CPU,…" | "CPU-CPU", _) => "CPU numbers, from 0",
        _ => return None,
    };
    Some(must.to_owned())
}

#[cfg(test)]
mod test {
    use super::*;

    fn refused(words: &str) -> Option<String> {
        let words = words.split_whitespace().map(OsString::from);
        refuse_negative(&Args::command(), words).err().map(|error| error.0)
    }

    /// Value names of options that are not numeric.
    const WORDS: [&str; 37] = [
        "ADDRESS:PORT",
        "AS",
        "ARRIVALS",
        "BILL.toml",
        "BUS",
        "CLASS",
        "COLOR",
        "DIR",
        "FILE",
        "FORM",
        "FORMAT",
        "LAW",
        "LINK",
        "NAME",
        "NAME=URI",
        "BOUND",
        "PART",
        "PROFILE.toml",
        "PROTOCOL",
        "REPEAT_AS",
        "ROWS",
        "TEXT",
        "TIME[:FILE]",
        "WHAT",
        "WORD",
        "WORD=VALUE,…",
        "HOST",
        "HOSTS: ARGS",
        "LEG",
        "LEVEL",
        "METHOD",
        "PART=DOLLARS",
        "NAME,…",
        "PATH|URI",
        "SOCKET",
        "STATE",
        "URI",
    ];

    /// Checks every option of a command and its subcommands; returns the number of numeric ones.
    fn look(command: &Parsed, path: &str) -> usize {
        let mut count = 0;
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let Some(long) = arg.get_long() else { continue };
            let kind = arg.get_value_names().and_then(<[Str]>::first).expect("it takes a value");
            let names = arg.get_all_aliases().unwrap_or_default();
            for name in names.into_iter().chain([long]) {
                for value in ["-1", "-4k", "-5", "-0.5", "-.5M"] {
                    for joint in [" ", "="] {
                        let said = refused(&format!("{path} --{name}{joint}{value}"));
                        if WORDS.contains(&kind.as_str()) {
                            assert_eq!(said, None, "{path} --{name}");
                            continue;
                        }
                        let said = said.unwrap_or_else(|| panic!("{path} --{name} <{kind}>"));
                        assert!(said.starts_with(&format!("--{name} {value}: must be ")), "{said}");
                        count += 1;
                    }
                }
            }
        }
        for below in command.get_subcommands() {
            count += look(below, &format!("{path} {}", below.get_name()));
        }
        count
    }

    /// An option with a new value name is added to one of the two lists.
    #[test]
    fn every_option_with_numbers_refuses_those_below_zero() {
        let mut program = Args::command();
        program.build();
        assert!(look(&program, "") > 500);
    }

    #[test]
    fn what_is_no_value_of_a_number_stays() {
        for words in [
            "run null:1g --size 4k",
            "run null:1g --json -1",
            "run null:1g --size --seed 1",
            "run null:1g --out -1",
            "run -- --size -1",
            "run null:1g --axis size=-1",
            "run null:1g -1",
            "run null:1g --size -k",
        ] {
            assert_eq!(refused(words), None, "{words}");
        }
    }
}
