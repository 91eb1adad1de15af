//! `drumfire man --as markdown`: the reference of all commands on one page, for
//! `docs/reference/cli.md`.

use std::fmt::Write as _;

use clap::{Arg, Command};
use textwrap::Options;

use super::{documented, note_lines};
use crate::help;

/// Columns of the page's text; code is not wrapped.
const COLUMNS: usize = 100;
/// Marks of a generated part: what `cargo xtask tidy` leaves out when it counts words.
const BEGIN: &str = "<!-- made by `cargo xtask tidy --write` -->";
const END: &str = "<!-- end -->";

/// The page: commands in groups, and then each command with its options.
pub fn page(program: &Command) -> String {
    let mut page = format!("# Command line\n\n{BEGIN}\n\n");
    let intro = "All commands and options of `drumfire`, from the definitions of the program. \
        `drumfire COMMAND -h` prints the main options of a command, `--help` all of them, and \
        `drumfire man COMMAND` shows the manual page.";
    paragraph(&mut page, intro);
    for (group, names) in help::GROUPS {
        let there = names.iter().filter(|name| **name != "help");
        let commands = there.filter_map(|name| program.find_subcommand(name));
        let links: Vec<String> = commands.map(link).collect();
        paragraph(&mut page, &format!("{group}: {}.", links.join(", ")));
    }
    command(&mut page, program);
    page + "\n" + END + "\n"
}

/// A link to the section of a command, by its first word.
fn link(command: &Command) -> String {
    let title = title(command);
    let anchor = title.replace(' ', "-");
    format!("[`{}`](#{anchor})", command.get_name())
}

/// The words of a command: `drumfire volume create`.
fn title(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// Writes the section of a command, and those of its subcommands.
fn command(page: &mut String, command: &Command) {
    let title = title(command);
    let _ = write!(page, "\n## {title}\n\n");
    let about = command.get_long_about().or(command.get_about());
    paragraph(page, &about.map(|about| text(&about.to_string())).unwrap_or_default());
    let words = title.split_once(' ').map_or("", |(_, words)| words);
    if let Some(known) = help::page(words) {
        page.push_str("\n```sh\n");
        for (what, line) in known.examples {
            let _ = write!(page, "# {what}\n{line}\n");
        }
        page.push_str("```\n");
    }
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage.split_whitespace().skip(1).collect();
    if !usage.is_empty() {
        let _ = write!(page, "\nUsage: `{}`\n", usage.join(" "));
    }
    let is_first = !title.contains(' ');
    let shown = |arg: &&Arg| {
        let is_built_in = ["help", "version"].contains(&arg.get_id().as_str());
        !arg.is_hide_set() && !is_built_in && (is_first || arg.get_id() != "color")
    };
    let mut options = command.get_arguments().filter(shown).peekable();
    if options.peek().is_some() {
        page.push('\n');
    }
    options.for_each(|arg| option(page, arg));
    let notes = note_lines(command);
    if !notes.is_empty() {
        let _ = write!(page, "\n```text\n{}\n```\n", notes.join("\n"));
    }
    documented(command).for_each(|below| self::command(page, below));
}

/// Writes the item of an option: names, description, default, values.
fn option(page: &mut String, arg: &Arg) {
    let mut item = format!("- `{arg}`");
    let names: Vec<String> = arg.get_all_aliases().into_iter().flatten().map(dashed).collect();
    if !names.is_empty() {
        let _ = write!(item, " (also {})", names.join(", "));
    }
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let _ = write!(item, ": {}", text(&help));
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() && takes_value(arg) {
        let _ = write!(item, " [default: `{}`]", defaults.join(" "));
    }
    let values: Vec<String> =
        arg.get_possible_values().iter().filter(|_| takes_value(arg)).map(value).collect();
    if !values.is_empty() {
        let _ = write!(item, " [values: {}]", values.join("; "));
    }
    let options = Options::new(COLUMNS).subsequent_indent("  ").break_words(false);
    let _ = writeln!(page, "{}", textwrap::fill(&item, unhyphenated(options)));
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn dashed(name: &str) -> String {
    format!("`--{name}`")
}

/// A value with its description: "`poisson`: a Poisson process".
fn value(value: &clap::builder::PossibleValue) -> String {
    let name = format!("`{}`", value.get_name());
    match value.get_help() {
        None => name,
        Some(help) => format!("{name}: {}", text(&help.to_string()).trim_end_matches('.')),
    }
}

fn paragraph(page: &mut String, text: &str) {
    let options = Options::new(COLUMNS).break_words(false);
    let separate = if page.ends_with("\n\n") { "" } else { "\n" };
    let _ = writeln!(page, "{separate}{}", textwrap::fill(text, unhyphenated(options)));
}

/// Breaks lines at blanks only: a hyphen may be in the middle of an option.
fn unhyphenated(options: Options<'_>) -> Options<'_> {
    options
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
}

/// Text of a help page as Markdown: one line, without marks that Markdown knows.
fn text(help: &str) -> String {
    let joined = help.split_whitespace().collect::<Vec<_>>().join(" ");
    joined.replace('*', "\\*").replace('<', "\\<").replace('|', "\\|")
}

#[cfg(test)]
mod test {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/reference/cli.md");

    fn made() -> String {
        let mut program = help::program();
        program.build();
        page(&program)
    }

    #[test]
    fn the_page_of_the_manual_is_the_programs() {
        let made = made();
        let differ = PAGE.lines().zip(made.lines()).find(|(page, made)| page != made);
        assert!(
            PAGE == made,
            "docs/reference/cli.md is stale: cargo xtask tidy --write\n{differ:?}"
        );
    }

    #[test]
    fn every_option_is_on_the_page() {
        let (page, mut program) = (made(), help::program());
        program.build();
        let mut rest = vec![&program];
        while let Some(next) = rest.pop() {
            assert!(page.contains(&format!("\n## {}\n", title(next))), "{}", title(next));
            for arg in next.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let long = arg.get_long().filter(|long| !["help", "version"].contains(long));
                assert!(long.is_none_or(|long| page.contains(&format!("- `--{long}"))), "{arg}");
            }
            rest.extend(documented(next));
        }
        assert!(page.contains("- `--size <SIZE>` (also `--bs`): I/O size [default: `4k`]"));
        assert!(page.contains("`poisson`: A Poisson process"), "{page}");
    }

    #[test]
    fn links_lead_to_sections() {
        let page = made();
        let anchors: Vec<&str> =
            page.split("](#").skip(1).filter_map(|rest| rest.split(')').next()).collect();
        assert!(anchors.len() > 20);
        for anchor in anchors {
            assert!(page.contains(&format!("\n## {}\n", anchor.replace('-', " "))), "{anchor}");
        }
    }
}
