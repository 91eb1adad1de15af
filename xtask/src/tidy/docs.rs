//! Pages: valid links, and a CHANGELOG with a section for the next release.

use super::{File, Finding, Tree};

/// Links resolve, and the CHANGELOG has its first section.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    let mut findings: Vec<Finding> = pages.flat_map(|page| links(tree, page)).collect();
    let changelog = tree.at("CHANGELOG.md").map_or("", |file| &file.text);
    if !changelog.lines().any(|line| matches!(line, "## Unreleased" | "## [Unreleased]")) {
        let remedy = "keep a chapter `## Unreleased` on top: Added, Faster, Fixed, Breaking";
        findings.push(Finding::new("CHANGELOG.md", 1, "no chapter Unreleased", remedy));
    }
    findings
}

fn links(tree: &Tree, page: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (line, text) in (1..).zip(page.text.lines()) {
        fenced ^= text.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for target in targets(text).filter(|target| !resolves(tree, &page.path, target)) {
            let rule = format!("the link to {target} leads nowhere");
            let remedy = "name a file relative to this page, and a heading that it has";
            findings.push(Finding::new(&page.path, line, rule, remedy));
        }
    }
    findings
}

/// Link targets of a line, except in code.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split('`').step_by(2);
    prose.flat_map(|part| part.split("](").skip(1).filter_map(|rest| rest.split(')').next()))
}

fn resolves(tree: &Tree, page: &str, target: &str) -> bool {
    if target.contains("://") || target.starts_with("mailto:") {
        return true;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { page.to_string() } else { join(page, path) };
    let exists = path.is_empty() || tree.paths.contains(&path);
    let headed = || tree.at(&path).is_some_and(|page| has_heading(&page.text, heading));
    exists && (heading.is_empty() || headed())
}

/// The path of a link `relative` in `page`.
fn join(page: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn has_heading(page: &str, anchor: &str) -> bool {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| slug(line.trim_start_matches('#').trim())).any(|slug| slug == anchor)
}

/// Anchor of a heading on code hosts: lower case, spaces to hyphens, no punctuation.
fn slug(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c => c.is_alphanumeric().then(|| c.to_ascii_lowercase()),
    };
    heading.chars().filter_map(kept).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    const LOG: (&str, &str) = ("CHANGELOG.md", "# Changes\n\n## Unreleased\n");

    fn found(page: &str) -> Vec<usize> {
        let style = ("docs/style.md", "# Style\n## Who may import: whom?\n");
        let tree = Tree::of(&[LOG, ("docs/page.md", page), style, ("docs/a/0001.md", "# A\n")]);
        check(&tree).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn follows_links_to_files_and_headings() {
        let page = "[a](style.md) [b](style.md#who-may-import-whom) [c](../CHANGELOG.md)\n\
                    [d](a/0001.md) [e](https://example.org/x) `[f](none.md)`\n\
                    ```\n[g](none.md)\n```\n# Here\n[h](#here)\n";
        assert!(found(page).is_empty());
    }

    #[test]
    fn finds_links_that_lead_nowhere() {
        assert_eq!(found("x [a](none.md)\n[b](style.md#none) [c](#none)\n"), [1, 2, 2]);
    }

    #[test]
    fn wants_a_chapter_for_the_next_release() {
        assert_eq!(check(&Tree::of(&[LOG])).len(), 0);
        assert_eq!(check(&Tree::of(&[("CHANGELOG.md", "# Changes\n## 0.1.0\n")])).len(), 1);
        assert_eq!(check(&Tree::default()).len(), 1);
    }
}
