//! Options of fio and of our own commands, as pages: the output of `drumfire fio --cmdhelp` and of
//! `drumfire man --as markdown`. `--write` generates both; tests compare them with the program.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Tree;

const PAGE: &str = "docs/reference/fio.md";
const COMMANDS: &str = "docs/reference/cli.md";
const BEGIN: &str = "<!-- made by `cargo xtask tidy --write` -->\n";
const END: &str = "<!-- end -->\n";
/// The treatments in the order of the page, each with its heading.
const TREATMENTS: [(&str, &str); 4] = [
    ("taken", "Taken: as in fio, or as listed under differences"),
    ("differs", "Differs: accepted, with another effect or none; `explain` says which"),
    ("ignored", "Ignored: the load is the same without the option"),
    ("refused", "Refused: the file is not run"),
];

/// Writes the lists into the page below `root`.
pub fn write(tree: &Tree, root: &Path) -> Result<()> {
    let page = tree.at(PAGE).with_context(|| format!("no {PAGE}"))?;
    let printed = printed(root, &["fio", "--cmdhelp"])?;
    let text = with_lists(&page.text, &printed);
    let text = text.with_context(|| format!("{PAGE} has no mark for its lists"))?;
    std::fs::write(root.join(PAGE), text).with_context(|| format!("cannot write {PAGE}"))
}

/// Writes the page of all commands and their options below `root`.
pub fn write_commands(root: &Path) -> Result<()> {
    let text = printed(root, &["man", "--as", "markdown"])?;
    std::fs::write(root.join(COMMANDS), text).with_context(|| format!("cannot write {COMMANDS}"))
}

/// Output of the program of the sources below `root`.
fn printed(root: &Path, args: &[&str]) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["run", "--quiet", "--package", "drumfire", "--"]);
    let printed = command.args(args).output()?;
    if !printed.status.success() {
        bail!("drumfire {}: {}", args.join(" "), String::from_utf8_lossy(&printed.stderr));
    }
    String::from_utf8(printed.stdout).with_context(|| format!("drumfire {}", args.join(" ")))
}

/// The page with the lists from the command's output: "bs, blocksize : taken".
fn with_lists(page: &str, printed: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let options: Vec<(&str, &str)> = printed
        .lines()
        .filter_map(|line| line.rsplit_once(':'))
        .map(|(names, treatment)| (names.trim(), treatment.trim()))
        .collect();
    let mut lists = String::new();
    for (treatment, heading) in TREATMENTS {
        let names = options.iter().filter(|option| option.1 == treatment);
        let names: Vec<String> = names.map(|(names, _)| shown(names)).collect();
        lists.push_str(&format!("\n**{heading}** ({}).\n{}.\n", names.len(), names.join(", ")));
    }
    Some(format!("{before}{BEGIN}{lists}\n{END}{after}"))
}

/// An option's name with its other names in brackets: "`bs` (`blocksize`)".
fn shown(names: &str) -> String {
    match names.split_once(", ") {
        None => format!("`{names}`"),
        Some((first, others)) => format!("`{first}` (`{}`)", others.replace(", ", "`, `")),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn options_are_listed_by_their_treatment() {
        let printed = "bs, blocksize : taken\nsize : taken\nnice : differs\n";
        let page = format!("# fio\n{BEGIN}old\n{END}rest\n");
        let made = with_lists(&page, printed).unwrap();
        assert!(made.contains("(2).\n`bs` (`blocksize`), `size`.\n"), "{made}");
        assert!(made.contains("(1).\n`nice`.\n") && made.contains("(0)."), "{made}");
        assert!(made.ends_with("<!-- end -->\nrest\n") && !made.contains("old"), "{made}");
        assert_eq!(with_lists("no mark", printed), None);
    }
}
