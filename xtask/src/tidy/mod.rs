//! Checks beyond compiler and rustfmt. The rules are those of `docs/style.md`.
//!
//! Each rule is a function from the [`Tree`] to findings, so that a test can feed it a fixture of
//! three lines.

mod citations;
mod dependencies;
mod docs;
mod imports;
mod lies;
mod options;
mod prose;
mod purity;
mod safety;
mod scenarios;
mod shape;
mod source;
mod spdx;
mod tree;
mod words;

use anyhow::{Result, bail};

pub use tree::{File, Tree};

/// A broken rule.
#[derive(Debug, PartialEq)]
pub struct Finding {
    /// Path from the root.
    pub path: String,
    /// Line number, from 1.
    pub line: usize,
    /// The rule in a few words, and the finding.
    pub rule: String,
    /// Remedy for the finding.
    pub remedy: &'static str,
    /// A note: the command still succeeds.
    pub note: bool,
}

impl Finding {
    /// A finding that fails the command.
    pub fn new(path: &str, line: usize, rule: impl Into<String>, remedy: &'static str) -> Finding {
        Finding { path: path.into(), line, rule: rule.into(), remedy, note: false }
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[Rule] = &[
    imports::check,
    purity::check,
    safety::check,
    words::check,
    shape::check,
    docs::check,
    citations::check,
    lies::check,
    scenarios::check,
    prose::check,
];

/// Checks the whole repository. True if there are no findings. `--write` regenerates the tables of
/// pages first.
pub fn main(args: &[String]) -> Result<bool> {
    let mut tree = Tree::read(&crate::root())?;
    match args.first().map(String::as_str) {
        None => {}
        Some("--write") => {
            lies::write(&tree, &crate::root())?;
            scenarios::write(&tree, &crate::root())?;
            options::write(&tree, &crate::root())?;
            options::write_commands(&crate::root())?;
            tree = Tree::read(&crate::root())?;
        }
        Some(arg) => bail!("tidy takes `--write` or nothing, not `{arg}`"),
    }
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    findings.extend(dependencies::check(&crate::root())?);
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    for finding in &findings {
        let grade = if finding.note { "note: " } else { "" };
        println!("{}:{}: {grade}{}", finding.path, finding.line, finding.rule);
        println!("    {}", finding.remedy);
    }
    let grave = findings.iter().filter(|finding| !finding.note).count();
    println!("tidy: {} files, {grave} findings", tree.files.len());
    Ok(grave == 0)
}
