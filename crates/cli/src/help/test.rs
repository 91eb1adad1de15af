//! Rules of every help page: the lines fit, and each example is a valid command.

use std::collections::BTreeSet;

use clap::Parser;

use super::pages::{LINE_MAX, PAGES};
use super::*;

/// All commands with their words, the program first.
fn all() -> Vec<(String, Command)> {
    fn below(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
        found.push((path.to_owned(), command.clone()));
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            below(sub, format!("{path} {}", sub.get_name()).trim_start(), found);
        }
    }
    let (mut program, mut found) = (program(), Vec::new());
    program.build();
    below(&program, "", &mut found);
    found
}

/// Words of a command line up to the first shell operator.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        match letter {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            '>' | '|' | '&' | ')' if !quoted => break,
            _ => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_command_has_a_page_with_examples_that_are_understood() {
    let commands = all();
    let paths: BTreeSet<&str> = commands.iter().map(|(path, _)| path.as_str()).collect();
    let pages: BTreeSet<&str> = PAGES.iter().map(|page| page.command).collect();
    assert_eq!(pages, paths);
    for page in PAGES {
        // A command with subcommands has their examples, too.
        let begin = format!("{} ", page.command);
        let is_group = pages.iter().any(|other| other.starts_with(&begin));
        let least = if page.command.contains(' ') || is_group { 1 } else { 3 };
        assert!(page.examples.len() >= least, "{}: few examples", page.command);
        for (what, line) in page.examples {
            assert!(line.chars().count() <= LINE_MAX, "{line}");
            assert!(!what.ends_with(['.', ':']), "{what}");
            let begin = line.find("drumfire").expect("an example of this program");
            let words = words(&line[begin..]);
            if let Err(error) = Args::try_parse_from(&words) {
                panic!("{line}: {error}");
            }
        }
    }
}

#[test]
fn main_options_are_options_that_there_are() {
    for (path, command) in all() {
        for id in page(&path).unwrap().brief {
            let is_there = command.get_arguments().any(|arg| arg.get_id() == *id);
            assert!(is_there, "{path}: {id}");
        }
    }
}

#[test]
fn groups_hold_each_command_once() {
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
    let mut program = program();
    program.build();
    let mut there: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
    grouped.sort_unstable();
    there.sort_unstable();
    assert_eq!(grouped, there);
    assert!(GROUPS.iter().all(|(group, _)| group.len() + 1 < GROUP_COLUMNS));
}

#[test]
fn brief_help_fits_on_one_screen() {
    const ROWS: usize = 24;
    for (path, command) in all() {
        let help = command.term_width(80).render_help().to_string();
        let rows = help.trim_end().lines().count();
        assert!(rows <= ROWS, "{path}: {rows} rows\n{help}");
    }
}

#[test]
fn no_help_is_wider_than_its_terminal() {
    for columns in [60, 80, 100] {
        for (path, command) in all() {
            let mut command = command.term_width(columns);
            for help in [command.render_help(), command.render_long_help()] {
                // The usage is wrapped in the output.
                let is_usage = |line: &&str| line.contains(&format!("drumfire {path}"));
                for line in help.to_string().lines().filter(|line| !is_usage(line)) {
                    assert!(line.chars().count() <= columns, "{path}, {columns}: {line}");
                }
            }
        }
    }
}

#[test]
fn first_sentences_keep_the_default() {
    assert_eq!(first_sentence("One. Two [default: 3]"), "One [default: 3]");
    assert_eq!(first_sentence("As 1.5, e. g. this"), "As 1.5, e. g. this");
    assert_eq!(first_sentence("One [default: 1. or so]. Two"), "One [default: 1. or so]");
}
