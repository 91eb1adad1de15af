//! Citations of the standards, in one searchable form: `//= RFC 7143 §11.2.1`.

use super::{Finding, Tree};

/// Documents that we cite. Numbers and revisions follow.
const DOCUMENTS: &[&str] = &[
    "RFC ",
    "SPC-",
    "SBC-",
    "SAM-",
    "NVMe ",
    "NVMe-TCP",
    "NVMe-oF",
    "NBD",
    "VIRTIO 1.2",
    "vhost-user",
];

/// Every citation names a known document and a clause.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let comments = file.source().comments;
        for (line, text) in (1..).zip(comments.lines()) {
            let Some(citation) = text.trim_start().strip_prefix("//=") else { continue };
            if !well_formed(citation) {
                let rule = format!("a citation that cannot be searched: `//={citation}`");
                let remedy = "write `//= RFC 7143 §11.2.1: why`: document, §, clause or its title";
                findings.push(Finding::new(&file.path, line, rule, remedy));
            }
        }
    }
    findings
}

fn well_formed(citation: &str) -> bool {
    let Some((document, clause)) = citation.split_once(" §") else { return false };
    let Some(document) = document.strip_prefix(' ') else { return false };
    let known = DOCUMENTS.iter().any(|known| document.starts_with(known));
    // A clause is its number, or its title if revisions number it differently.
    let clause = clause.split([':', ',', ' ']).next().unwrap_or_default();
    let numbered = clause.split('.').all(|part| {
        !part.is_empty() && part.len() <= 3 && part.chars().all(|c| c.is_ascii_alphanumeric())
    });
    known && (numbered || clause.starts_with(|c: char| c.is_ascii_uppercase()))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn knows_the_form() {
        for good in
            [" RFC 7143 §11.2.1", " NVMe-TCP §3.4.1: why", " SPC-4 §Sense data", " SBC-3 §A.1"]
        {
            assert!(well_formed(good), "{good}");
        }
        for bad in ["RFC 7143 §11", " RFC 7143 11.2", " Book §1", " RFC 7143 §", " RFC 7143 §1..2"]
        {
            assert!(!well_formed(bad), "{bad}");
        }
    }

    #[test]
    fn finds_the_line() {
        let text = "//= RFC 7143 §11.2\nfn f() {} //= see the standard\n// = no\n";
        let found = check(&Tree::of(&[("crates/proto/src/x.rs", text)]));
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
    }
}
