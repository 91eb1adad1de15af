//! Tables of the founding systems: the page has exactly the rows of `scenarios/*.toml`. `--write`
//! generates them with the command that the page names; the scenario tests check the figures.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{File, Finding, Tree};

const PAGE: &str = "docs/explanations/founding-systems.md";
const BEGIN: &str = "<!-- made by `cargo xtask tidy --write` -->\n";
const END: &str = "<!-- end -->\n";
/// The command that prints the tables, with a folder for its results.
const COMMAND: [&str; 5] = ["scenario", "run", "all", "--modelled", "--markdown"];
const OUT: &str = "target/founding-systems";

/// Checks that the page has the rows of the files.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.at(PAGE) else { return Vec::new() };
    let remedy = "run `cargo xtask tidy --write`";
    let Some(tables) = tables(&page.text) else {
        return vec![Finding::new(PAGE, 1, "there is no place for its tables", remedy)];
    };
    let mut findings = Vec::new();
    let mut find = |rule: String| findings.push(Finding::new(PAGE, 1, rule, remedy));
    for file in tree.files.iter().filter(|file| is_scenario(file)) {
        let name = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".toml");
        let head = format!("## {name}\n");
        let Some((_, table)) = tables.split_once(&head) else {
            find(format!("{name} has no table"));
            continue;
        };
        let table = table.split("\n## ").next().unwrap_or_default();
        let shown: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).collect();
        let rows = rows(&file.text);
        // One more line is the table's header.
        if shown.len() != rows.len() + 1 {
            find(format!("{name} has {} rows, and its table {}", rows.len(), shown.len() - 1));
        }
        for (figure, unit) in &rows {
            let row = format!("| {figure} | {unit} |");
            // A figure that the document has not itself is shown with its value.
            let (derived, of) = (format!("| {figure} (derived: "), format!(") | {unit} |"));
            let is_derived = |line: &&str| line.starts_with(&derived) && line.contains(&of);
            if !shown.iter().any(|line| line.starts_with(&row) || is_derived(line)) {
                find(format!("{name} has a row that its table lacks: {figure}"));
            }
        }
    }
    findings
}

/// Writes the tables into the page below `root`.
pub fn write(tree: &Tree, root: &Path) -> Result<()> {
    let page = tree.at(PAGE).context("no page of the founding systems")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // Saved results would be mistaken for those of this build.
    let _ = std::fs::remove_dir_all(root.join(OUT));
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["run", "--quiet", "--package", "drumfire", "--"]);
    let printed = command.args(COMMAND).args(["--out", OUT]).output()?;
    if !printed.status.success() {
        bail!("drumfire {}: {}", COMMAND.join(" "), String::from_utf8_lossy(&printed.stderr));
    }
    let tables = String::from_utf8(printed.stdout).context("its tables are no text")?;
    let (before, rest) = page.text.split_once(BEGIN).context("the page has no place for them")?;
    let (_, after) = rest.split_once(END).context("the page has no end of them")?;
    let text = format!("{before}{BEGIN}\n{tables}\n{END}{after}");
    std::fs::write(root.join(PAGE), text).context("cannot write the page of the founding systems")
}

fn is_scenario(file: &File) -> bool {
    file.path.starts_with("scenarios/") && file.path.ends_with(".toml")
}

fn tables(page: &str) -> Option<&str> {
    page.split_once(BEGIN)?.1.split_once(END).map(|(tables, _)| tables)
}

/// Figure and unit of each row in the file.
fn rows(text: &str) -> Vec<(&str, &str)> {
    fn value<'a>(row: &'a str, key: &str) -> Option<&'a str> {
        let line = row.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|rest| rest.strip_prefix(" = \"")?.strip_suffix('"'))
    }
    let rows = text.split("[[row]]\n").skip(1);
    rows.filter_map(|row| Some((value(row, "figure")?, value(row, "unit")?))).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    const FILE: &str = "name = \"a\"\n[[row]]\nid = \"x\"\nfigure = \"one\"\npublished = 1.0\n\
        unit = \"IOPS\"\n\n[[row]]\nid = \"y\"\nfigure = \"two\"\npublished = 2.0\nunit = \"ms\"\n";

    fn found(rows: &str) -> Vec<String> {
        let page = format!("# t\n{BEGIN}\n## a\n\nwords\n\n| figure | unit |\n|---|\n{rows}{END}");
        let tree = Tree::of(&[(PAGE, &page), ("scenarios/a.toml", FILE)]);
        check(&tree).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_row_that_one_of_both_lacks_is_found() {
        assert!(found("| one | IOPS | 1 |\n| two | ms | 2 |\n").is_empty());
        let lacks = found("| one | IOPS | 1 |\n");
        assert_eq!(
            lacks,
            ["a has 2 rows, and its table 1", "a has a row that its table lacks: two"]
        );
        let other = found("| one | IOPS | 1 |\n| two | s | 2 |\n");
        assert_eq!(other, ["a has a row that its table lacks: two"]);
        assert_eq!(found("| one | IOPS |\n| two | ms |\n| more | ms |\n").len(), 1);
    }

    #[test]
    fn a_scenario_without_a_table_is_found() {
        let page = format!("{BEGIN}{END}");
        let tree = Tree::of(&[(PAGE, &page), ("scenarios/a.toml", FILE)]);
        assert_eq!(check(&tree)[0].rule, "a has no table");
        assert_eq!(check(&Tree::of(&[(PAGE, "# t\n")])).len(), 1);
    }
}
