//! Forbidden words: leftovers, hidden clocks, unseeded randomness, silent skips, paths of one
//! machine.

use super::purity::holds;
use super::{File, Finding, Tree};

/// A word forbidden in code.
struct Ban {
    word: &'static str,
    /// Paths where the word is allowed: prefixes, or folders anywhere (`/examples/`).
    allowed: &'static [&'static str],
    remedy: &'static str,
}

const LEFTOVER: &str = "finish it or take it out";
const CLOCK: &str = "take `now` as an argument; clocks are read in os";
/// Paths where clocks are allowed, besides os: code that watches from outside.
const OUTSIDE: &[&str] = &["crates/os/", "xtask/", "tests/", "/examples/", "/benches/"];

const CODE: &[Ban] = &[
    Ban { word: "dbg!", allowed: &[], remedy: LEFTOVER },
    Ban { word: "todo!", allowed: &[], remedy: LEFTOVER },
    Ban { word: "unimplemented!", allowed: &[], remedy: LEFTOVER },
    Ban {
        word: "#[ignore",
        allowed: &[],
        remedy: "run it, delete it, or skip aloud with drumfire_tests::require",
    },
    Ban { word: "Instant::now", allowed: OUTSIDE, remedy: CLOCK },
    Ban { word: "SystemTime", allowed: OUTSIDE, remedy: CLOCK },
    Ban {
        word: "thread_rng",
        allowed: &["crates/os/"],
        remedy: "take a seed as an argument, and print it when a test fails",
    },
];

/// Folders of one machine's files. Concatenated, so that this file passes.
const MACHINE: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/"), concat!("/wo", "rk/")];

/// Checks that there are no forbidden words.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.rust().flat_map(rust).collect();
    findings.extend(tree.files.iter().flat_map(machine_paths));
    findings
}

fn rust(file: &File) -> Vec<Finding> {
    let source = file.source();
    let mut findings = Vec::new();
    let mut find = |line, word: &str, remedy| {
        findings.push(Finding::new(&file.path, line, format!("`{word}`"), remedy));
    };
    for (line, text) in (1..).zip(source.code.lines()) {
        for ban in CODE.iter().filter(|ban| holds(text, ban.word)) {
            if !ban.allowed.iter().any(|place| stands_in(&file.path, place)) {
                find(line, ban.word, ban.remedy);
            }
        }
    }
    for (line, text) in (1..).zip(source.comments.lines()) {
        if holds(text, "FIXME") {
            find(line, "FIXME", "mend it, or open an issue and say TODO(#number)");
        }
        if text.match_indices("TODO").any(|(at, word)| !has_issue(&text[at + word.len()..])) {
            find(line, "TODO", "name its issue: TODO(#number)");
        }
    }
    findings
}

fn stands_in(path: &str, place: &str) -> bool {
    path.starts_with(place) || (place.starts_with('/') && path.contains(place))
}

/// Whether `(#12)` follows the word.
fn has_issue(after: &str) -> bool {
    let number = after.strip_prefix("(#").and_then(|rest| rest.split_once(')'));
    number.is_some_and(|(number, _)| number.parse::<u32>().is_ok())
}

fn machine_paths(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(file.text.lines()) {
        for folder in MACHINE.iter().filter(|folder| begins_path(text, folder)) {
            let rule = format!("a path of one machine, below {folder}");
            let remedy = "write it relative to the repository or take it from the environment";
            findings.push(Finding::new(&file.path, line, rule, remedy));
        }
    }
    findings
}

/// Whether a path begins with `folder`: not as a part of a longer path or of a link.
fn begins_path(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || "\"'`(=:<[".contains(c))
    })
}

#[cfg(test)]
mod test {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_leftovers_in_code_only() {
        let text =
            "fn f() {\n    dbg!(1);\n    todo!()\n}\n#[ignore]\n// dbg!\nlet s = \"todo!()\";";
        assert_eq!(found("crates/load/src/x.rs", text), [2, 3, 5]);
    }

    #[test]
    fn clocks_are_read_in_os_and_by_those_outside() {
        let text = "let now = std::time::Instant::now();\nuse std::time::SystemTime;\n";
        assert_eq!(found("crates/serve/src/portal.rs", text), [1, 2]);
        for path in ["crates/os/src/clock.rs", "tests/src/lib.rs", "crates/proto/examples/speed.rs"]
        {
            assert!(found(path, text).is_empty(), "{path}");
        }
        assert_eq!(found("xtask/src/x.rs", "rand::thread_rng()"), [1]);
    }

    #[test]
    fn a_plan_names_its_issue() {
        let text = "// TODO: later\n// TODO(#12): later\n// TODO(#x)\n// FIXME\nlet s = \"TODO\";";
        assert_eq!(found("crates/load/src/x.rs", text), [1, 3, 4]);
    }

    #[test]
    fn finds_paths_of_a_machine_in_any_text() {
        let home = format!("see `{}me/x`", "/ho");
        assert_eq!(found("docs/x.md", &home), [1]);
        assert!(found("docs/x.md", &format!("https://a.example{}me/x", "/ho")).is_empty());
    }
}
