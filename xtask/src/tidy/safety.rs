//! Unsafe code: allowed files, and the attribute that forbids it in all other crates.

use super::purity::holds;
use super::{Finding, Tree};

/// Crates and files that may have unsafe code.
const ALLOWED: &[&str] = &[
    "crates/os/",
    "crates/block/src/buf.rs",
    // Assembly and atomic words: safe code has no racy copy.
    "crates/block/src/copy",
    "crates/block/src/memory.rs",
    "crates/block/src/pages.rs",
    // Memory of another process: bounds are checked at each access.
    "crates/block/src/window.rs",
    // A counting allocator needs unsafe code.
    "crates/cli/tests/no_allocation.rs",
];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// Checks that unsafe code is only in allowed files, and that crates without any forbid it.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut holders = Vec::new();
    for file in tree.rust() {
        let allowed = ALLOWED.iter().any(|place| file.path.starts_with(place));
        let code = file.source().code;
        for (line, _) in (1..).zip(code.lines()).filter(|(_, text)| holds(text, "unsafe")) {
            holders.push(package(&file.path));
            if !allowed {
                let rule = "unsafe code outside of os and block's buffers";
                let remedy = "use what these offer; a new place needs a number and a decision page";
                findings.push(Finding::new(&file.path, line, rule, remedy));
            }
        }
    }
    for file in tree.rust().filter(|file| is_root(&file.path)) {
        let forbids = file.source().code.contains(FORBID);
        if !forbids && !holders.contains(&package(&file.path)) {
            let rule = format!("a crate without unsafe code lacks {FORBID}");
            findings.push(Finding::new(&file.path, 1, rule, "put it below the module's doc"));
        }
    }
    findings
}

/// The folder of the manifest: `crates/os` for `crates/os/src/ring.rs`.
fn package(path: &str) -> &str {
    path.split_once("/src/").map_or(path, |(package, _)| package)
}

fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

#[cfg(test)]
mod test {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn finds_unsafe_code_in_the_wrong_place() {
        let text = "//! x\nfn f() { unsafe { g() } }\n";
        assert_eq!(found("crates/load/src/worker.rs", text), [2]);
        assert_eq!(found("crates/block/src/chain.rs", text), [2]);
        assert!(found("crates/block/src/buf.rs", text).is_empty());
        assert!(found("crates/os/src/lib.rs", text).is_empty());
        assert!(found("crates/load/src/worker.rs", "// unsafe\nlet s = \"unsafe\";").is_empty());
    }

    #[test]
    fn finds_a_root_that_does_not_forbid() {
        assert_eq!(found("crates/load/src/lib.rs", "//! Drives.\n"), [1]);
        assert_eq!(found("crates/os/src/lib.rs", "//! Linux.\n"), [1]);
        assert!(found("crates/load/src/lib.rs", "//! D.\n#![forbid(unsafe_code)]\n").is_empty());
        assert_eq!(found("xtask/src/main.rs", "fn main() {}\n"), [1]);
    }
}
