//! Typing mistakes in command lines: unknown words, and suggestions for them.
//!
//! The parser itself suggests corrections of long words, but not of short ones or transposed
//! letters: for `rnu` the parser only reports an unknown command.

use block::nearest;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, ValueEnum};

use crate::args::Color;

/// Adds a suggestion to an error that has none.
pub fn add_tip(error: &mut clap::Error, program: &Command, words: &[String]) {
    let command = named(program, words);
    let (wrong, tip) = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand)
        }
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        ErrorKind::InvalidValue => (ContextKind::InvalidValue, ContextKind::SuggestedValue),
        _ => return,
    };
    let Some(ContextValue::String(wrong)) = error.get(wrong) else { return };
    if error.get(tip).is_some() {
        return;
    }
    let meant = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let names = command.get_subcommands().map(Command::get_name);
            nearest(wrong, names).map(str::to_owned)
        }
        ErrorKind::UnknownArgument => option(command, wrong, words),
        _ => match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(valid)) => {
                nearest(wrong, valid.iter().map(String::as_str)).map(str::to_owned)
            }
            _ => None,
        },
    };
    if let Some(meant) = meant {
        error.insert(tip, ContextValue::String(meant));
        // Removes the hint about passing a value that looks like an option: no such value is valid.
        error.remove(ContextKind::Suggested);
    }
}

/// Suggested option: one with a similar name, or one whose second dash is missing.
fn option(command: &Command, wrong: &str, words: &[String]) -> Option<String> {
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let names: Vec<&str> = visible
        .flat_map(|arg| arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default()))
        .collect();
    if let Some(name) = wrong.strip_prefix("--") {
        let name = name.split('=').next().unwrap_or(name);
        return nearest(name, names).map(|name| format!("--{name}"));
    }
    let short = wrong.strip_prefix('-')?;
    let typed = words.iter().filter_map(|word| word.strip_prefix('-'));
    let mut typed = typed.filter(|word| word.starts_with(short) && word.len() > short.len());
    let name = typed.next()?.split('=').next()?;
    names.contains(&name).then(|| format!("--{name}"))
}

/// The command that the words name, as far as they match.
fn named<'a>(program: &'a Command, words: &[String]) -> &'a Command {
    let mut found = program;
    for word in words.iter().skip(1).filter(|word| !word.starts_with('-')) {
        match found.find_subcommand(word) {
            Some(below) => found = below,
            None => break,
        }
    }
    found
}

/// Colour choice in unparsed words.
pub fn color(words: &[String]) -> Color {
    let flag = words.iter().position(|word| word == "--color");
    let behind = flag.and_then(|at| words.get(at + 1)).map(String::as_str);
    let joint = words.iter().find_map(|word| word.strip_prefix("--color="));
    let choice = joint.or(behind).and_then(|word| Color::from_str(word, true).ok());
    choice.unwrap_or(Color::Auto)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::help;

    fn said(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let program = help::program();
        let mut error = program.clone().try_get_matches_from(&words).unwrap_err();
        add_tip(&mut error, &program, &words);
        error.to_string()
    }

    #[test]
    fn each_typing_mistake_has_a_tip() {
        for (line, tip) in [
            ("drumfire rnu", "a similar subcommand exists: 'run'"),
            ("drumfire swep", "'sweep'"),
            ("drumfire volume cerate", "'create'"),
            ("drumfire catalogue shwo", "'show'"),
            ("drumfire run null:1g --raed 70", "a similar argument exists: '--read'"),
            ("drumfire run null:1g --iodpeth 3", "'--iodepth'"),
            ("drumfire run null:1g -size 4k", "'--size'"),
            ("drumfire run null:1g -size=4k", "'--size'"),
            ("drumfire run null:1g --rw wriet", "a similar value exists: 'write'"),
            ("drumfire run null:1g --rw=rwo", "'rw'"),
            ("drumfire race --protocol iscs", "'iscsi'"),
            ("drumfire report x --as txet", "'text'"),
            ("drumfire completions bsah", "'bash'"),
            ("drumfire race --color nver", "'never'"),
        ] {
            let said = said(line);
            assert!(said.contains(tip) && said.matches("tip:").count() == 1, "{line}: {said}");
        }
        for line in ["drumfire xyzzy", "drumfire run null:1g --xyzzy", "drumfire run null:1g -z"] {
            assert!(!said(line).contains("similar"), "{line}");
        }
    }

    #[test]
    fn colour_is_chosen_before_the_rest_is_understood() {
        let color = |line: &str| color(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(color("drumfire rnu --color never"), Color::Never);
        assert_eq!(color("drumfire --color=always rnu"), Color::Always);
        assert_eq!(color("drumfire rnu --color"), Color::Auto);
        assert_eq!(color("drumfire rnu --color blue"), Color::Auto);
    }
}
