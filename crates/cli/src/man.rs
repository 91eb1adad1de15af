//! `drumfire man`: manual pages, out of the definitions that the parser has, with examples first.

mod markdown;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};

use anyhow::{Context, Result};
use block::{Text, hint};
use clap::{Command, ValueEnum};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::exit::{Exit, UsageError};
use crate::folder;
use crate::{help, output};

/// `drumfire man`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The command, such as run, or volume create [default: the program itself].
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write all pages into this folder, as drumfire.1, drumfire-run.1 and so on.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
    /// Print all commands on one page, in this format.
    #[arg(long = "as", value_enum, value_name = "FORMAT", conflicts_with_all = ["command", "out"])]
    form: Option<Form>,
}

/// Formats of the page of all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Markdown.
    Markdown,
}

/// Shows a page on a terminal, prints its source elsewhere, or writes all pages.
pub fn main(args: &Args) -> Result<Exit> {
    let mut program = help::program();
    program.build();
    if args.form == Some(Form::Markdown) {
        output::file(markdown::page(&program).as_bytes())?;
        return Ok(Exit::Good);
    }
    if let Some(out) = &args.out {
        write_all(&program, out)?;
        return Ok(Exit::Good);
    }
    let command = find(&program, &args.command)?;
    let page = page(&program, command)?;
    if !output::is_terminal() {
        output::file(&page)?;
    } else if !is_shown(&page) {
        // Without the program `man`, prints the help, which has the same content.
        let help = command.clone().render_long_help().to_string();
        output::print(&help.lines().collect::<Text>())?;
    }
    Ok(Exit::Good)
}

/// Finds the command with these words.
fn find<'a>(program: &'a Command, words: &[String]) -> Result<&'a Command> {
    let mut found = program;
    for word in words {
        found = found.find_subcommand(word).ok_or_else(|| {
            let near = hint(word, found.get_subcommands().map(Command::get_name));
            UsageError(format!(
                "{} has no command '{word}'{near}",
                found.get_bin_name().unwrap_or(found.get_name())
            ))
        })?;
    }
    Ok(found)
}

/// Whether the program `man` has shown a page to its end.
fn is_shown(page: &[u8]) -> bool {
    let man = Program::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut man) = man else { return false };
    // A reader that quits early closes the pipe.
    let _ = man.stdin.take().map(|mut end| end.write_all(page));
    man.wait().is_ok_and(|status| status.success())
}

/// Writes the pages of a command and its subcommands.
fn write_all(command: &Command, out: &Path) -> Result<()> {
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let mut rest = vec![command];
    while let Some(next) = rest.pop() {
        let path = out.join(format!("{}.1", name(next)));
        let page = page(command, next)?;
        folder::write_file(&path, |out| Ok(out.write_all(&page)?))?;
        rest.extend(documented(next));
    }
    Ok(())
}

/// Subcommands, without the one that prints their help.
fn documented(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set())
}

/// A page's name: `drumfire-volume-create`.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The source of a page, in the language of `man`.
fn page(program: &Command, command: &Command) -> Result<Vec<u8>> {
    let version = format!("drumfire {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(name(command)).source(version).manual("Drumfire");
    let mut page = Vec::new();
    write(program, command, &man, &mut page).context("cannot write a manual page")?;
    Ok(ascii(&String::from_utf8_lossy(&page)).into_bytes())
}

/// A page in ASCII, because some readers show other characters wrongly.
fn ascii(page: &str) -> String {
    let letter = |letter: char| match letter.is_ascii() {
        true => letter.to_string(),
        false => format!("\\[u{:04X}]", u32::from(letter)),
    };
    page.chars().map(letter).collect()
}

fn write(program: &Command, command: &Command, man: &Man, page: &mut Vec<u8>) -> io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    examples(command).to_writer(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if documented(command).next().is_some() {
        commands(program, command).to_writer(page)?;
    }
    notes(command).to_writer(page)?;
    see_also(command).to_writer(page)
}

/// Examples: a description and a command line each.
fn examples(command: &Command) -> Roff {
    let mut roff = Roff::default();
    let words = command.get_bin_name().unwrap_or_default();
    let path = words.split_once(' ').map_or("", |(_, path)| path);
    let Some(page) = help::page(path) else { return roff };
    roff.control("SH", ["EXAMPLES"]);
    for (what, line) in page.examples {
        roff.control("PP", []);
        roff.text([roman(*what)]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        roff.text([bold(*line)]);
        roff.control("fi", []);
        roff.control("RE", []);
    }
    roff
}

/// Subcommands with the names of their pages; those of the program in groups.
fn commands(program: &Command, command: &Command) -> Roff {
    let mut roff = Roff::default();
    roff.control("SH", ["COMMANDS"]);
    let line = |roff: &mut Roff, below: &Command| {
        roff.control("TP", []);
        roff.text([bold(format!("{}(1)", name(below)))]);
        roff.text([roman(below.get_about().map(ToString::to_string).unwrap_or_default())]);
    };
    if name(command) != name(program) {
        documented(command).for_each(|below| line(&mut roff, below));
        return roff;
    }
    for (group, names) in help::GROUPS {
        roff.control("SS", [group]);
        let there = names.iter().filter(|name| **name != "help");
        there.filter_map(|name| command.find_subcommand(name)).for_each(|c| line(&mut roff, c));
    }
    roff
}

/// Lines of the closing notes of the long help, without the reference to the manual page.
fn note_lines(command: &Command) -> Vec<String> {
    let notes = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let notes = notes.lines().filter(|line| !line.is_empty() && !line.starts_with("Manual page"));
    notes.map(str::to_owned).collect()
}

/// Closing notes of the long help.
fn notes(command: &Command) -> Roff {
    let mut roff = Roff::default();
    for (at, line) in note_lines(command).into_iter().enumerate() {
        match at {
            0 => roff.control("SH", ["NOTES"]),
            _ => roff.control("br", []),
        };
        roff.text([roman(line)]);
    }
    roff
}

/// The page of the command above.
fn see_also(command: &Command) -> Roff {
    let mut roff = Roff::default();
    let Some((above, _)) = name(command).rsplit_once('-') else { return roff };
    roff.control("SH", ["SEE ALSO"]);
    roff.text([bold(above), roman("(1)")]);
    roff
}

#[cfg(test)]
mod test {
    use super::*;

    fn source(words: &str) -> String {
        let mut program = help::program();
        program.build();
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let page = page(&program, find(&program, &words).unwrap()).unwrap();
        String::from_utf8(page).unwrap()
    }

    #[test]
    fn examples_come_before_the_options() {
        let page = source("volume create");
        let at = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words}: {page}"));
        assert!(page.contains(".TH drumfire-volume-create 1"), "{page}");
        assert!(at(".SH NAME") < at(".SH EXAMPLES"));
        assert!(at(".SH EXAMPLES") < at(".SH SYNOPSIS"));
        assert!(at(".SH SYNOPSIS") < at(".SH OPTIONS"));
        assert!(at("volume create mirror a") < at(".SH SYNOPSIS"));
        assert!(page.contains("Stripe size of raid10"), "{page}");
        assert!(page.is_ascii() && source("run").contains("CPU,\\[u2026]"), "{page}");
        assert!(page.trim_end().ends_with("\\fBdrumfire\\-volume\\fR(1)"), "{page}");
    }

    #[test]
    fn the_programs_page_has_all_commands_in_groups() {
        let page = source("");
        for (group, names) in help::GROUPS {
            assert!(
                page.contains(&format!(".SS \"{group}\""))
                    || page.contains(&format!(".SS {group}"))
            );
            for name in names.iter().filter(|name| **name != "help") {
                assert!(page.contains(&format!("drumfire\\-{name}(1)")), "{name}: {page}");
            }
        }
    }

    #[test]
    fn a_mistyped_command_has_a_hint() {
        let mut program = help::program();
        program.build();
        let words = ["volume".to_owned(), "creat".to_owned()];
        let error = find(&program, &words).unwrap_err().to_string();
        assert_eq!(error, "drumfire volume has no command 'creat' (did you mean 'create'?)");
    }
}
