//! Imports between crates: the manifests against the table in `docs/architecture.md`.
//!
//! The table is read from the page itself, so the page is always correct: a fenced block of the
//! kind `imports` with lines like `volume -> block model proto os`.

use super::{Finding, Tree};

const PAGE: &str = "docs/architecture.md";

struct Row {
    name: String,
    /// `None` when the crate may import everything.
    allowed: Option<Vec<String>>,
}

/// Checks that every dependency between our crates is in the table.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.at(PAGE) else {
        let remedy = "write the table of imports there, in a fenced block ```imports";
        return vec![Finding::new(PAGE, 1, "the page is missing", remedy)];
    };
    let table = table(&page.text);
    let names: Vec<&str> = table.iter().map(|row| row.name.as_str()).collect();
    let mut findings = Vec::new();
    for manifest in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let Some(name) = manifest.crate_name() else { continue };
        let Some(row) = table.iter().find(|row| row.name == name) else {
            let remedy = "give it a row in the table of docs/architecture.md";
            findings.push(Finding::new(&manifest.path, 1, "a crate without a row", remedy));
            continue;
        };
        for (line, dependency) in dependencies(&manifest.text) {
            let ours = names.contains(&dependency.as_str());
            let allowed = row.allowed.as_ref().is_none_or(|allowed| allowed.contains(&dependency));
            if dependency == "cli" || (ours && !allowed) {
                let rule = format!("{name} must not import {dependency}");
                let remedy = "move the code down, or make a decision page and change the table";
                findings.push(Finding::new(&manifest.path, line, rule, remedy));
            }
        }
    }
    findings
}

fn table(page: &str) -> Vec<Row> {
    let block = page.lines().skip_while(|line| *line != "```imports").skip(1);
    let rows = block.take_while(|line| !line.starts_with("```"));
    let row = |line: &str| {
        let (name, allowed) = line.split_once("->")?;
        let allowed: Vec<String> = allowed.split_whitespace().map(String::from).collect();
        let everything = allowed == ["everything"];
        Some(Row { name: name.trim().into(), allowed: (!everything).then_some(allowed) })
    };
    rows.filter_map(row).collect()
}

/// All dependencies of a manifest, with their lines, including dev and build ones.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (line, text) in (1..).zip(manifest.lines()) {
        let text = text.trim();
        if let Some(section) = text.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section.ends_with("dependencies");
            // [dependencies.block]
            if let Some((_, name)) = section.split_once("dependencies.") {
                found.push((line, ours(name)));
            }
        } else if inside && !text.starts_with('#') {
            let name = text.split(['.', '=', ' ']).next().unwrap_or_default();
            if !name.is_empty() {
                found.push((line, ours(name)));
            }
        }
    }
    found
}

/// Our packages are named `drumfire-block`, and `block` in code.
fn ours(name: &str) -> String {
    let name = name.trim_matches('"');
    if name == "drumfire" { "cli".into() } else { name.replace("drumfire-", "") }
}

#[cfg(test)]
mod test {
    use super::*;

    const TABLE: &str = "# x\n```imports\nblock ->\nos -> block\nproto -> block\n\
                         cli -> everything\n```\nproto -> os\n";

    fn found(path: &str, manifest: &str) -> Vec<(usize, String)> {
        let tree = Tree::of(&[(PAGE, TABLE), (path, manifest)]);
        check(&tree).into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn allows_the_table_and_strangers() {
        let manifest =
            "[package]\nname = \"os\"\n[dependencies]\nblock.workspace = true\nlibc = \"1\"";
        assert!(found("crates/os/Cargo.toml", manifest).is_empty());
        let all = "[dependencies]\nproto.workspace = true\nos = { path = \"../os\" }\n";
        assert!(found("crates/cli/Cargo.toml", all).is_empty());
    }

    #[test]
    fn finds_each_way_to_write_a_dependency() {
        for manifest in [
            "[dependencies]\nos.workspace = true",
            "[dev-dependencies]\nos = { path = \"../os\" }",
            "[target.'cfg(unix)'.dependencies]\ndrumfire-os = \"1\"",
            "# why\n[dependencies.os]",
        ] {
            let want = [(2, "proto must not import os".to_string())];
            assert_eq!(found("crates/proto/Cargo.toml", manifest), want, "{manifest}");
        }
    }

    #[test]
    fn nobody_imports_the_binary_and_nobody_lacks_a_row() {
        let manifest = "[dependencies]\ndrumfire.workspace = true";
        assert_eq!(found("crates/os/Cargo.toml", manifest).len(), 1);
        assert_eq!(found("crates/util/Cargo.toml", "").len(), 1);
        assert_eq!(check(&Tree::default()).len(), 1);
    }
}
