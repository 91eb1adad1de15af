use std::collections::BTreeSet;

use super::*;
use crate::claim::{ClaimText, FOUNDING};

/// The faults of the founding documents, with the rule that finds each, and a correction that the
/// same rule accepts: (claim, rule, replaced text, replacement).
const FAULTS: &[(u32, &str, &str, &str)] = &[
    (18, "drives", "iops = \"995K\"", "iops = \"840K\""),
    (43, "arithmetic", "= 2920 MB/s", "= 2990 MB/s"),
    (52, "link", "iops = \"2.44M\"", "iops = \"2.11M\""),
    (54, "same", "over 2.7M", "about 2.7M"),
    (60, "arithmetic", "nearly 8 GB/s", "over 8 GB/s"),
    (68, "date", "as_of = \"2009-01-05\"", "as_of = \"2010-01-05\""),
    (77, "shares", "iops = \"nearly 1.3M\"", "iops = \"nearly 1.25M\""),
    (84, "depth-1", "latency = \"2 us\"", "latency = \"68 us\""),
    (91, "arithmetic", "about 15", "about 13"),
    (92, "unit", "link_rate = \"6.4\"", "link_rate = \"12.8 GB/s\""),
    (93, "link-rate", "600 MB/s", "300 MB/s"),
    (102, "unit", "capacity = \"73K\"", "capacity = \"73 GB\""),
    (104, "unit", "link_rate = \"1 GB/s\"", "link_rate = \"1 Gb/s\""),
    (105, "same", "value = \"10\"", "value = \"16\""),
    (106, "arithmetic", "about 150 GB", "about 64 GB"),
    (107, "same", "361 MB/s", "360.3 MB/s"),
    (111, "arithmetic", "over 3 GB/s", "over 2.5 GB/s"),
    (112, "arithmetic", "= 2", "= 1.72"),
];

fn faults(files: &[(&str, String)], catalogue: &Catalogue) -> Vec<(u32, Finding)> {
    let read = |(name, text): &(&str, String)| {
        Document::read(name, text, catalogue).unwrap_or_else(|error| panic!("{error}"))
    };
    let documents: Vec<Document> = files.iter().map(read).collect();
    let findings = audit_all(&documents, catalogue);
    let mut all = Vec::new();
    for (document, found) in documents.iter().zip(findings) {
        for (claim, found) in document.claims.iter().zip(found) {
            let number = claim.text.number.unwrap();
            all.extend(found.into_iter().map(|finding| (number, finding)));
        }
    }
    all
}

fn founding() -> Vec<(&'static str, String)> {
    FOUNDING.iter().map(|(name, text)| (*name, (*text).to_owned())).collect()
}

#[test]
fn every_claim_of_the_founding_documents_is_there_once() {
    let catalogue = Catalogue::shipped();
    let mut numbers = Vec::new();
    for (name, text) in FOUNDING {
        let document = Document::read(name, text, &catalogue).unwrap();
        for claim in &document.claims {
            assert!(!claim.text.at.is_empty() && !claim.text.says.is_empty());
            let is = claim.text.is.as_str();
            assert!(["input", "output", "arithmetic", "context"].contains(&is), "{is}");
            numbers.push(claim.text.number.unwrap());
        }
    }
    assert_eq!(numbers, (1..=118).collect::<Vec<u32>>());
}

#[test]
fn rules_find_the_eighteen_faults_and_no_others() {
    let catalogue = Catalogue::shipped();
    let all = faults(&founding(), &catalogue);
    let bad: BTreeSet<(u32, &str)> = all
        .iter()
        .filter(|(_, finding)| finding.outcome != Outcome::Holds)
        .map(|(number, finding)| (*number, finding.rule))
        .collect();
    let expected: BTreeSet<(u32, &str)> = FAULTS.iter().map(|fault| (fault.0, fault.1)).collect();
    assert_eq!(expected.len(), 18);
    assert_eq!(bad, expected, "{all:#?}");
    // The other claims are not silent for lack of rules.
    let held = all.iter().filter(|(_, finding)| finding.outcome == Outcome::Holds).count();
    assert!(held >= 90, "{held}");
}

#[test]
fn each_fault_once_corrected_passes_the_same_rule() {
    let catalogue = Catalogue::shipped();
    for (number, rule, from, to) in FAULTS {
        let mut files = founding();
        let mark = format!("number = {number}\n");
        let (_, text) = files.iter_mut().find(|(_, text)| text.contains(&mark)).unwrap();
        let start = text.find(&mark).unwrap();
        let end = text[start..].find("[[claim]]").map_or(text.len(), |end| start + end);
        let claim = text[start..end].replace(from, to);
        assert_ne!(claim, text[start..end], "{from} is not in claim {number}");
        text.replace_range(start..end, &claim);
        let all = faults(&files, &catalogue);
        let found: Vec<&Finding> = all
            .iter()
            .filter(|(n, finding)| n == number && finding.rule == *rule)
            .map(|(_, finding)| finding)
            .collect();
        let bad = all.iter().filter(|(_, finding)| finding.outcome != Outcome::Holds);
        let left: Vec<u32> = bad.map(|(number, _)| *number).collect();
        assert_eq!(left.len(), FAULTS.len() - 1, "claim {number}: {left:?}");
        // A figure with its unit raises no question, and a figure that agrees has no finding; every
        // other rule must report that it holds.
        let silent = ["unit", "same"].contains(rule);
        assert!(silent || !found.is_empty(), "claim {number}: {rule} is silent");
        for finding in found {
            assert_eq!(finding.outcome, Outcome::Holds, "claim {number}: {}", finding.line);
        }
    }
}

fn verdict(fill: impl FnOnce(&mut ClaimText)) -> (Verdict, Vec<Finding>) {
    let catalogue = Catalogue::shipped();
    let mut text = ClaimText::default();
    fill(&mut text);
    let claim = Claim::read(text, &catalogue).unwrap();
    let findings = audit(&claim, &catalogue);
    (Verdict::of(&findings), findings)
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn the_million_of_28_drives_is_possible() {
    let (verdict, findings) = verdict(|claim| {
        claim.iops = some("1M");
        claim.size = some("4k");
        claim.latency = some("0.88ms");
        claim.outstanding = some("896");
        claim.drives = some("28");
        claim.drive = some("x25-m");
        claim.cpu_percent = some("82");
        claim.cores = some("8");
        claim.bandwidth = some("4.1GB/s");
    });
    assert_eq!(verdict, Verdict::Possible, "{findings:#?}");
    let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(
        rules,
        ["little", "queue", "depth-1", "bandwidth", "processor", "drives", "drive-bandwidth"]
    );
}

#[test]
fn what_breaks_a_law_is_impossible() {
    let little = verdict(|claim| {
        (claim.iops, claim.latency) = (some("2.58M"), some("34.9us"));
        claim.outstanding = some("128");
    });
    // A queue depth is the maximum in flight: fewer I/Os are a question, more are impossible.
    assert_eq!(little.0, Verdict::Unclear, "{little:#?}");
    let deeper = verdict(|claim| {
        (claim.iops, claim.latency) = (some("2.58M"), some("62us"));
        claim.outstanding = some("128");
    });
    assert_eq!(deeper.0, Verdict::Impossible, "{deeper:#?}");
    let mended = verdict(|claim| {
        (claim.iops, claim.latency) = (some("2.58M"), some("49.6us"));
        claim.outstanding = some("128");
    });
    assert_eq!(mended.0, Verdict::Possible, "{mended:#?}");
    // A million 4 KiB reads do not fit through one port of 10 GbE, nor two, but through four.
    let over = |ports: &str| {
        verdict(|claim| {
            (claim.iops, claim.size) = (some("1M"), some("4k"));
            (claim.link, claim.ports) = (some("10gbe"), some(ports));
        })
    };
    assert_eq!(over("1").0, Verdict::Impossible);
    assert_eq!(over("2").0, Verdict::Impossible);
    assert_eq!(over("4").0, Verdict::Possible);
    let cpu = verdict(|claim| claim.cpu_percent = some("120"));
    assert_eq!(cpu.0, Verdict::Impossible);
    // With half of them written, both directions of the link are used.
    let half = verdict(|claim| {
        (claim.iops, claim.size, claim.read) = (some("500K"), some("4k"), some("50"));
        claim.link = some("10gbe");
    });
    assert_eq!(half.0, Verdict::Possible, "{half:#?}");
}

#[test]
fn what_lacks_a_unit_or_a_rule_is_unclear() {
    let none = verdict(|claim| claim.iops = some("1M"));
    assert_eq!(none.0, Verdict::Unclear);
    let unit = verdict(|claim| {
        (claim.iops, claim.latency) = (some("1M"), some("0.88"));
        claim.outstanding = some("896");
    });
    assert_eq!(unit.0, Verdict::Unclear, "{unit:#?}");
    let binary = verdict(|claim| {
        (claim.iops, claim.size) = (some("1.00M"), some("8k"));
        claim.bandwidth = some("7.63 GB/s");
    });
    assert_eq!(binary.0, Verdict::Unclear, "{binary:#?}");
}

#[test]
fn writes_are_held_against_what_drives_write() {
    let write = |iops: &str| {
        verdict(|claim| {
            (claim.iops, claim.size, claim.read) = (some(iops), some("4k"), some("0"));
            (claim.drives, claim.drive) = (some("28"), some("x25-m"));
        })
        .0
    };
    assert_eq!(write("1M"), Verdict::Impossible);
    assert_eq!(write("240K"), Verdict::Possible);
}
