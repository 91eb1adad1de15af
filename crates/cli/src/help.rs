//! Help of each command: description, examples, usage, options, in the width of the terminal.
//!
//! `-h` fits on one screen: examples and the main options. `--help` has all of them, and notes. The
//! parser, the completions and the manual pages are made from [`program`].

mod pages;

use std::fmt::Write as _;

use clap::builder::{StyledStr, Styles};
use clap::{Arg, Command, CommandFactory};
use textwrap::Options;

use crate::args::Args;
use crate::output;
pub use pages::page;

/// Commands by purpose.
pub const GROUPS: [(&str, &[&str]); 6] = [
    ("Serve", &["serve", "attach", "detach", "discover", "ctl"]),
    ("Drive", &["race", "run", "fio", "sweep", "explain", "doctor"]),
    ("Read results", &["report", "compare", "merge"]),
    ("Predict", &["plan", "simulate", "database", "scenario", "calibrate", "audit", "catalogue"]),
    ("Arrays, backups", &["volume", "backup"]),
    ("This program", &["completions", "man", "help"]),
];

/// Widest help: longer lines are hard to read.
const COLUMNS_MAX: usize = 100;
/// Help template of a command. The text of `before-help` ends with an empty line.
const TEMPLATE: &str =
    "{about-with-newline}\n{before-help}{usage-heading} {usage}\n\n{all-args}{after-help}";

/// The program with its commands, for parsing, completion and documentation.
pub fn program() -> Command {
    let columns = output::reader_columns().unwrap_or(COLUMNS_MAX).min(COLUMNS_MAX);
    let program = dressed(Args::command(), "").term_width(columns);
    let styles = program.get_styles().clone();
    // Commands are listed in groups, instead of the parser's flat list.
    let template = TEMPLATE.replace("{all-args}", &(heading("Options", &styles) + "\n{options}"));
    let brief = examples("", &styles, false) + "\n\n" + &names(&styles, columns);
    let long = examples("", &styles, true) + "\n\n" + &listing(&program, &styles, columns);
    let more = "A command's examples and options: drumfire COMMAND -h";
    program
        .help_template(template)
        .before_help(StyledStr::from(brief))
        .before_long_help(StyledStr::from(long))
        .after_help(more)
}

/// Adds the examples and the set of options of `-h` to a command and its subcommands.
fn dressed(command: Command, path: &str) -> Command {
    let styles = command.get_styles().clone();
    let command = command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        dressed(below, path.trim_start())
    });
    let brief = page(path).map_or(&[][..], |page| page.brief);
    let mut hidden = 0;
    let command = command.mut_args(|arg| {
        let is_seen = is_brief(&arg, brief);
        hidden += usize::from(!is_seen && !arg.is_hide_set());
        worded(arg).hide_short_help(!is_seen)
    });
    let notes = command.get_after_long_help();
    let notes = notes.map_or_else(String::new, |notes| format!("{notes}\n\n"));
    let manual = format!("Manual page: drumfire man {path}");
    // `drumfire help` prints the help of every command: `drumfire volume help` would be redundant.
    let command = command
        .disable_help_subcommand(!path.is_empty())
        .help_template(TEMPLATE)
        .before_help(StyledStr::from(examples(path, &styles, false)))
        .before_long_help(StyledStr::from(examples(path, &styles, true)))
        .after_long_help(notes + manual.trim_end());
    match hidden {
        0 => command,
        _ => command.after_help(format!("All options: drumfire {path} --help")),
    }
}

/// Whether `-h` shows an argument. The colour is a choice of every command, and rarely made.
fn is_brief(arg: &Arg, brief: &[&str]) -> bool {
    let id = arg.get_id().as_str();
    id != "color" && (brief.is_empty() || brief.contains(&id))
}

/// An argument whose short help is the first sentence of its text.
fn worded(arg: Arg) -> Arg {
    let Some(text) = arg.get_help().map(ToString::to_string) else { return arg };
    match arg.get_long_help() {
        Some(_) => arg,
        None => arg.help(first_sentence(&text)).long_help(text),
    }
}

/// First sentence, and the default from the end of the text.
fn first_sentence(text: &str) -> String {
    let ends = |at: &usize| text[at + 2..].starts_with(char::is_uppercase);
    let Some(end) = text.match_indices(". ").map(|(at, _)| at).find(ends) else {
        return text.to_owned();
    };
    match text.rfind(" [default") {
        Some(at) if at > end => format!("{}{}", &text[..end], &text[at..]),
        _ => text[..end].to_owned(),
    }
}

/// Examples of a command under their heading; with descriptions if `in_full`.
fn examples(path: &str, styles: &Styles, in_full: bool) -> String {
    let Some(page) = page(path) else { return String::new() };
    let (mut text, literal) = (heading("Examples", styles), styles.get_literal());
    for (what, line) in page.examples {
        if in_full {
            let _ = write!(text, "\n  # {what}");
        }
        let _ = write!(text, "\n  {literal}{line}{literal:#}");
    }
    text
}

fn heading(words: &str, styles: &Styles) -> String {
    let style = styles.get_header();
    format!("{style}{words}:{style:#}")
}

/// The names of all commands, a line for each group.
fn names(styles: &Styles, columns: usize) -> String {
    let line = |(group, names): (&str, &[&str])| {
        let label = format!("  {:<GROUP_COLUMNS$}", format!("{group}:"));
        wrapped(&label, &names.join(", "), columns)
    };
    let lines = GROUPS.map(line).join("\n");
    format!("{}\n{lines}", heading("Commands", styles))
}

/// Columns of the longest group's name and the separator after it.
const GROUP_COLUMNS: usize = 17;

/// Commands with their descriptions, in groups.
fn listing(program: &Command, styles: &Styles, columns: usize) -> String {
    let literal = styles.get_literal();
    let about = |name: &str| match program.find_subcommand(name).and_then(Command::get_about) {
        Some(about) => about.to_string(),
        None => "Print the help of a command".to_owned(),
    };
    let line = |name: &&str| {
        let label = format!("  {literal}{name:<13}{literal:#}");
        wrapped(&label, &about(name), columns)
    };
    let group = |(group, names): (&str, &[&str])| {
        let lines: Vec<String> = names.iter().map(line).collect();
        format!("{}\n{}", heading(group, styles), lines.join("\n"))
    };
    GROUPS.map(group).join("\n\n")
}

/// A label and its text, whose continuation lines are indented to the label's width.
fn wrapped(label: &str, text: &str, columns: usize) -> String {
    let below = " ".repeat(textwrap::core::display_width(label));
    let options = Options::new(columns).initial_indent(label).subsequent_indent(&below);
    let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation).break_words(false);
    textwrap::wrap(text, options).join("\n")
}

#[cfg(test)]
mod test;
