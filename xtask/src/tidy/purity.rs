//! Words forbidden in crates: the invariants of `docs/architecture.md` beyond imports.

use super::source::is_word;
use super::{File, Finding, Tree};

/// Words that the code of some crates must not contain, except in tests.
struct Ban {
    crates: &'static [&'static str],
    words: &'static [&'static str],
    /// Files that may contain them.
    except: &'static [&'static str],
    rule: &'static str,
    remedy: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        crates: &["block", "model", "stats", "catalogue", "proto"],
        words: &["std::fs", "std::net", "std::process", "std::thread", "Instant"],
        except: &[],
        rule: "a crate without I/O and clock names",
        remedy: "take bytes and `now` as arguments; sockets, files and clocks live in os",
    },
    Ban {
        crates: &["job"],
        words: &["TcpStream", "UdpSocket", "std::process", "std::thread", "Instant"],
        except: &[],
        rule: "job only says what is to be done, but names",
        remedy: "load runs jobs; os has the clock",
    },
    Ban {
        crates: &["os"],
        words: &["iscsi", "nvme", "Pdu", "proto"],
        except: &[],
        rule: "os knows no protocol, but names",
        remedy: "hand the bytes up; proto parses them",
    },
    Ban {
        crates: &["load"],
        words: &["iscsi", "nvme", "Iscsi", "Nvme", "proto"],
        except: &[],
        rule: "load knows no protocol, but names",
        remedy: "drive a Lane; volume knows what is behind it",
    },
    Ban {
        crates: &["load", "serve"],
        words: &["Ram", "Stripe", "Mirror", "volume::ram", "volume::file", "volume::remote"],
        except: &[],
        rule: "a kind of volume is named:",
        remedy: "use volume::open and what every volume can do",
    },
    Ban {
        crates: &[
            "cli", "report", "attach", "backup", "load", "serve", "volume", "job", "plan", "os",
        ],
        words: &["stdout()", "stderr()", "println!", "eprintln!", "print!", "eprint!", "dbg!"],
        except: &[
            "crates/cli/src/output.rs",
            "crates/cli/src/show.rs",
            "crates/report/src/keys.rs",
            "crates/report/src/live.rs",
            "crates/job/src/sweep/test.rs",
            "crates/plan/src/evidence/test.rs",
        ],
        rule: "texts of others might reach a terminal as they are by",
        remedy: "print a Text, a Painted or a document by cli's output.rs",
    },
];

/// Checks that no crate contains its forbidden words.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| file.path.contains("/src/")) {
        let Some(name) = file.crate_name() else { continue };
        let path = file.path.as_str();
        let held = |ban: &&Ban| ban.crates.contains(&name) && !ban.except.contains(&path);
        for ban in BANS.iter().filter(held) {
            findings.extend(named(file, ban));
        }
    }
    findings
}

fn named(file: &File, ban: &Ban) -> Vec<Finding> {
    let source = file.source();
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(source.code_without_tests().lines()) {
        for word in ban.words.iter().filter(|word| holds(text, word)) {
            let rule = format!("{} {word}", ban.rule);
            findings.push(Finding::new(&file.path, line, rule, ban.remedy));
        }
    }
    findings
}

/// Whether `text` contains `word` as a whole word.
pub fn holds(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let open = |end: Option<char>| !end.is_some_and(is_word);
        // A word that ends in punctuation, such as a macro's `!`, needs no boundary there.
        let ends = !word.ends_with(is_word) || open(after);
        let begins = !word.starts_with(is_word) || open(before);
        begins && ends
    })
}

#[cfg(test)]
mod test {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_io_in_a_pure_crate_but_not_in_its_tests_and_comments() {
        let text = "// std::fs\nuse std::fs::File;\n#[cfg(test)]\nmod test { use std::thread; }\n";
        assert_eq!(found("crates/proto/src/lib.rs", text), [2]);
        assert!(found("crates/os/src/lib.rs", text).is_empty());
        assert!(found("crates/proto/tests/x.rs", text).is_empty());
    }

    #[test]
    fn finds_protocols_and_kinds_of_volume() {
        assert_eq!(found("crates/load/src/worker.rs", "use proto::iscsi;\n"), [1, 1]);
        assert!(found("crates/load/src/worker.rs", "let iscsi_like = \"iscsi\";\n").is_empty());
        assert_eq!(found("crates/serve/src/lib.rs", "\nuse volume::Ram;\n"), [2]);
        assert!(found("crates/serve/src/lib.rs", "use proto::iscsi;\n").is_empty());
    }

    #[test]
    fn finds_what_prints_beside_the_one_place() {
        let text = "let out = io::stdout().lock();\neprintln!(\"{name}\");\n";
        assert_eq!(found("crates/cli/src/discover.rs", text), [1, 2]);
        assert!(found("crates/cli/src/output.rs", text).is_empty());
    }

    #[test]
    fn words_have_ends() {
        assert!(holds("a dbg!(x)", "dbg!") && holds("#[ignore]", "#[ignore"));
        assert!(!holds("undbg!(x)", "dbg!") && !holds("Instants", "Instant"));
    }
}
