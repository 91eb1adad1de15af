//! Tests of the honesty checks: each check has a planted lie that it detects, and an honest twin on
//! which it is silent.
//!
//! A test says which by its comment, `/// Lie of H06: two volumes take turns.` or `/// Twin of H06:
//! …`. The table of `docs/honesty.md` is generated from these comments.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::{Finding, Tree};

const PAGE: &str = "docs/honesty.md";
const BEGIN: &str = "<!-- made by `cargo xtask tidy --write` -->\n";
const END: &str = "<!-- end -->\n";

/// The lies and the twins of one check.
#[derive(Default)]
struct Tests {
    lies: Vec<String>,
    twins: Vec<String>,
    files: Vec<String>,
}

/// Every check of the page has a lie and a twin, and the table matches the tests.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.at(PAGE) else { return Vec::new() };
    let found = collect(tree);
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(page.text.lines()) {
        let Some(code) = text.strip_prefix("| ").filter(|rest| is_check(rest)) else { continue };
        let code = &code[..3];
        let tests = found.get(code);
        for (what, has) in [
            ("planted lie", tests.is_some_and(|tests| !tests.lies.is_empty())),
            ("honest twin", tests.is_some_and(|tests| !tests.twins.is_empty())),
        ] {
            if !has {
                let remedy = "write the test, with `/// Lie of Hnn: …` or `/// Twin of Hnn: …`";
                findings.push(Finding::new(PAGE, line, format!("{code} has no {what}"), remedy));
            }
        }
    }
    if with_table(&page.text, &found).as_deref() != Some(&*page.text) {
        let remedy = "run `cargo xtask tidy --write`";
        let rule = "the table of lies is not that of the tests";
        findings.push(Finding::new(PAGE, 1, rule, remedy));
    }
    findings
}

/// Writes the table into the page below `root`.
pub fn write(tree: &Tree, root: &std::path::Path) -> Result<()> {
    let page = tree.at(PAGE).context("no docs/honesty.md")?;
    let text = with_table(&page.text, &collect(tree)).context("docs/honesty.md has no table")?;
    std::fs::write(root.join(PAGE), text).context("cannot write docs/honesty.md")
}

/// A row of the table of checks: "H01 `direct-io` | …".
fn is_check(row: &str) -> bool {
    let code = row.as_bytes();
    row.len() > 5 && code[0] == b'H' && row[1..3].parse::<u8>().is_ok() && &row[3..5] == " `"
}

fn collect(tree: &Tree) -> BTreeMap<String, Tests> {
    let mut all: BTreeMap<String, Tests> = BTreeMap::new();
    let tests = tree.files.iter().filter(|file| file.path.ends_with(".rs"));
    for file in tests.filter(|file| !file.path.starts_with("xtask/")) {
        for line in file.text.lines() {
            let Some(words) = line.trim_start().strip_prefix("/// ") else { continue };
            let (lie, rest) = match (words.strip_prefix("Lie of "), words.strip_prefix("Twin of "))
            {
                (Some(rest), _) => (true, rest),
                (_, Some(rest)) => (false, rest),
                _ => continue,
            };
            let Some((code, what)) = rest.split_once(": ") else { continue };
            let tests = all.entry(code.to_owned()).or_default();
            let said = what.trim_end_matches('.').to_owned();
            if lie { &mut tests.lies } else { &mut tests.twins }.push(said);
            if !tests.files.contains(&file.path) {
                tests.files.push(file.path.clone());
            }
        }
    }
    all
}

fn with_table(page: &str, found: &BTreeMap<String, Tests>) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let mut table =
        String::from("| check | lies that it tells | twins at which it is silent | tests |\n");
    table.push_str("|---|---|---|---|\n");
    for (code, tests) in found {
        let files: Vec<String> =
            tests.files.iter().map(|path| format!("[{}](../{path})", name(path))).collect();
        let (lies, twins) = (tests.lies.join("; "), tests.twins.join("; "));
        table.push_str(&format!("| {code} | {lies} | {twins} | {} |\n", files.join(", ")));
    }
    Some(format!("{before}{BEGIN}{table}{END}{after}"))
}

/// The last meaningful name of a path.
fn name(path: &str) -> &str {
    let path = path.trim_end_matches(".rs").trim_end_matches("/test");
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod test {
    use super::*;

    fn tree(tests: &str, table: &str) -> Tree {
        let page = format!("| H06 `steady` | asks |\n{BEGIN}{table}{END}");
        Tree::of(&[("docs/honesty.md", &page), ("crates/stats/src/a.rs", tests)])
    }

    #[test]
    fn a_check_without_its_lie_or_its_twin_is_found() {
        let lie = "    /// Lie of H06: it falls.\n";
        let both = format!("{lie}    /// Twin of H06: it stays.\n");
        let rules = |tests: &str, table: &str| -> Vec<String> {
            check(&tree(tests, table)).into_iter().map(|finding| finding.rule).collect()
        };
        assert_eq!(rules("", "").len(), 3);
        assert_eq!(rules(lie, "")[0], "H06 has no honest twin");
        let stale = "the table of lies is not that of the tests";
        assert_eq!(rules(&both, ""), [stale]);
        let made = with_table(&tree(&both, "").at(PAGE).unwrap().text, &collect(&tree(&both, "")));
        let table = made.unwrap();
        let row = "| H06 | it falls | it stays | [a](../crates/stats/src/a.rs) |\n";
        assert!(table.contains(row), "{table}");
        let table = table.split_once(BEGIN).unwrap().1.split_once(END).unwrap().0.to_owned();
        assert!(rules(&both, &table).is_empty());
    }
}
