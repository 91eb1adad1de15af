//! Tests of the honesty checks: each check has a planted lie that it detects, and an honest twin on
//! which it is silent.
//!
//! A test has a comment for each, `/// H06 detects: two volumes are fast in turn.` or
//! `/// H06 accepts: …`. The lists of `docs/explanations/testing-the-checks.md` are generated from
//! these comments.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::{Finding, Tree};

/// Page with a section for each check: `### H01 direct-io`.
const CHECKS: &str = "docs/reference/honesty-checks.md";
/// Page with the generated lists.
const PAGE: &str = "docs/explanations/testing-the-checks.md";
const BEGIN: &str = "<!-- made by `cargo xtask tidy --write` -->\n";
const END: &str = "<!-- end -->\n";

/// Lies and twins of one check.
#[derive(Default)]
struct Tests {
    lies: Vec<String>,
    twins: Vec<String>,
    files: Vec<String>,
}

/// Checks that every check has a lie and a twin, and that the lists match the tests.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let found = collect(tree);
    let mut findings = Vec::new();
    let checks = tree.at(CHECKS).map_or("", |page| &page.text);
    for (line, text) in (1..).zip(checks.lines()) {
        let Some(code) = text.strip_prefix("### ").and_then(code_of) else { continue };
        let tests = found.get(code);
        for (what, has) in [
            ("planted lie", tests.is_some_and(|tests| !tests.lies.is_empty())),
            ("honest twin", tests.is_some_and(|tests| !tests.twins.is_empty())),
        ] {
            if !has {
                let remedy = "write the test, with `/// Hnn detects: …` or `/// Hnn accepts: …`";
                findings.push(Finding::new(CHECKS, line, format!("{code} has no {what}"), remedy));
            }
        }
    }
    let Some(page) = tree.at(PAGE) else { return findings };
    if with_lists(&page.text, &found).as_deref() != Some(&*page.text) {
        let remedy = "run `cargo xtask tidy --write`";
        let rule = "the lists of lies are not those of the tests";
        findings.push(Finding::new(PAGE, 1, rule, remedy));
    }
    findings
}

/// Writes the lists into the page below `root`.
pub fn write(tree: &Tree, root: &std::path::Path) -> Result<()> {
    let page = tree.at(PAGE).with_context(|| format!("no {PAGE}"))?;
    let text = with_lists(&page.text, &collect(tree));
    let text = text.with_context(|| format!("{PAGE} has no mark for its lists"))?;
    std::fs::write(root.join(PAGE), text).with_context(|| format!("cannot write {PAGE}"))
}

/// The number at the start of a heading: "H01 direct-io".
fn code_of(heading: &str) -> Option<&str> {
    let (code, _) = heading.split_once(' ')?;
    is_code(code).then_some(code)
}

fn is_code(word: &str) -> bool {
    let digits = word.strip_prefix('H').unwrap_or_default();
    digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit())
}

fn collect(tree: &Tree) -> BTreeMap<String, Tests> {
    let mut all: BTreeMap<String, Tests> = BTreeMap::new();
    let tests = tree.files.iter().filter(|file| file.path.ends_with(".rs"));
    for file in tests.filter(|file| !file.path.starts_with("xtask/")) {
        for line in file.text.lines() {
            let Some(words) = line.trim_start().strip_prefix("/// ") else { continue };
            let Some((head, what)) = words.split_once(": ") else { continue };
            let (code, lie) = match (head.strip_suffix(" detects"), head.strip_suffix(" accepts")) {
                (Some(code), _) => (code, true),
                (_, Some(code)) => (code, false),
                _ => continue,
            };
            if !is_code(code) {
                continue;
            }
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

fn with_lists(page: &str, found: &BTreeMap<String, Tests>) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let mut lists = String::new();
    for (code, tests) in found {
        let files: Vec<String> =
            tests.files.iter().map(|path| format!("[{}](../../{path})", name(path))).collect();
        lists.push_str(&format!("\n### {code}\n\nTests: {}.\n", files.join(", ")));
        for (title, all) in [("Detects:", &tests.lies), ("Accepts:", &tests.twins)] {
            if !all.is_empty() {
                lists.push_str(&format!("\n{title}\n\n"));
            }
            all.iter().for_each(|one| lists.push_str(&format!("- {one}\n")));
        }
    }
    Some(format!("{before}{BEGIN}{lists}{END}{after}"))
}

/// The last meaningful name of a path.
fn name(path: &str) -> &str {
    let path = path.trim_end_matches(".rs").trim_end_matches("/test");
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod test {
    use super::*;

    fn tree(tests: &str, lists: &str) -> Tree {
        let page = format!("# Testing\n{BEGIN}{lists}{END}");
        let checks = "## Checks\n### H06 steady\n### How the list is read\n";
        Tree::of(&[(CHECKS, checks), (PAGE, &page), ("crates/stats/src/a.rs", tests)])
    }

    #[test]
    fn a_check_without_its_lie_or_its_twin_is_found() {
        let lie = "    /// H06 detects: it falls.\n";
        let both = format!("{lie}    /// H06 accepts: it stays.\n");
        let rules = |tests: &str, lists: &str| -> Vec<String> {
            check(&tree(tests, lists)).into_iter().map(|finding| finding.rule).collect()
        };
        assert_eq!(rules("", ""), ["H06 has no planted lie", "H06 has no honest twin"]);
        assert_eq!(rules(lie, "")[0], "H06 has no honest twin");
        let stale = "the lists of lies are not those of the tests";
        assert_eq!(rules(&both, ""), [stale]);
        let made = with_lists(&tree(&both, "").at(PAGE).unwrap().text, &collect(&tree(&both, "")));
        let lists = made.unwrap();
        let section = "### H06\n\nTests: [a](../../crates/stats/src/a.rs).\n\n\
                       Detects:\n\n- it falls\n\nAccepts:\n\n- it stays\n";
        assert!(lists.contains(section), "{lists}");
        let lists = lists.split_once(BEGIN).unwrap().1.split_once(END).unwrap().0.to_owned();
        assert!(rules(&both, &lists).is_empty());
    }
}
