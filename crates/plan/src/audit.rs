//! Checks claims by laws that need no model: Little's law, the limits of links and parts, units,
//! sums.
//!
//! A rule with all of its inputs reports one line with its arithmetic. A broken rule makes the
//! claim impossible; a missing unit, or a figure that nobody measured, leaves it unclear, as does
//! the lack of any rule that applies. A claim is possible when a rule applies and all hold, which
//! does not make it true.

use serde::Serialize;

use crate::claim::{Claim, Document, bytes_of};
use catalogue::{Catalogue, Kind, Known, Part};

mod across;
mod parts;
mod units;
pub mod verify;

/// Outcome of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The rule holds.
    Holds,
    /// The rule cannot be decided.
    Unclear,
    /// The rule is broken.
    Breaks,
}

impl Outcome {
    /// Returns the word for the outcome.
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::Unclear => "unclear",
            Outcome::Breaks => "breaks",
        }
    }
}

/// The finding of one rule on a claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the rule.
    pub rule: &'static str,
    /// Outcome of the rule.
    pub outcome: Outcome,
    /// The arithmetic, with its meaning.
    pub line: String,
    /// Least certain kind of the figures in the arithmetic other than the claim's own; `derived`
    /// for arithmetic on the claim alone.
    pub kind: Kind,
}

impl Finding {
    fn by(self, kind: Kind) -> Finding {
        Finding { kind, ..self }
    }
}

/// Verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Rules apply, and all hold.
    Possible,
    /// No rule applies, or one cannot be decided.
    Unclear,
    /// A rule is broken.
    Impossible,
}

impl Verdict {
    /// Returns the word for the verdict.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Possible => "possible",
            Verdict::Unclear => "unclear",
            Verdict::Impossible => "impossible",
        }
    }

    /// Returns the verdict of these findings.
    pub fn of(findings: &[Finding]) -> Verdict {
        let any = |outcome| findings.iter().any(|finding| finding.outcome == outcome);
        match () {
            () if any(Outcome::Breaks) => Verdict::Impossible,
            () if any(Outcome::Unclear) || findings.is_empty() => Verdict::Unclear,
            () => Verdict::Possible,
        }
    }
}

/// Checks a claim against every rule.
pub fn audit(claim: &Claim, catalogue: &Catalogue) -> Vec<Finding> {
    let rules: [fn(&Claim, &Catalogue) -> Vec<Finding>; 4] =
        [units::rules, laws, parts::rules, arithmetic];
    rules.iter().flat_map(|rule| rule(claim, catalogue)).collect()
}

/// Checks documents against every rule, and their claims against each other: findings by document
/// and claim, in their order.
pub fn audit_all(documents: &[Document], catalogue: &Catalogue) -> Vec<Vec<Vec<Finding>>> {
    let alone = |document: &Document| {
        document.claims.iter().map(|claim| audit(claim, catalogue)).collect::<Vec<_>>()
    };
    let mut findings: Vec<_> = documents.iter().map(alone).collect();
    for (document, claim, finding) in across::rules(documents) {
        findings[document][claim].push(finding);
    }
    findings
}

fn finding(rule: &'static str, outcome: Outcome, line: String) -> Finding {
    Finding { rule, outcome, line, kind: Kind::Derived }
}

/// Returns whether two intervals overlap.
fn meet(a: (f64, f64), b: (f64, f64)) -> bool {
    a.0 <= b.1 && b.0 <= a.1
}

fn holds_if(holds: bool) -> Outcome {
    if holds { Outcome::Holds } else { Outcome::Breaks }
}

/// Laws that hold for every system.
fn laws(claim: &Claim, catalogue: &Catalogue) -> Vec<Finding> {
    [little(claim), queue(claim), depth_one(claim), bandwidth(claim), processor(claim, catalogue)]
        .into_iter()
        .flatten()
        .collect()
}

/// Tolerance: mean latency, rate and queue depth of a published run are seldom of the same window.
const WINDOWS: f64 = 0.02;
/// Share of the queue depth below which the queue was not kept full.
const KEPT_FULL: f64 = 0.75;

/// Little's law: IOPS × latency = I/Os in flight. The queue depth is their maximum: more breaks the
/// law, fewer mean a submitter too slow to keep the queue full.
fn little(claim: &Claim) -> Option<Finding> {
    let (iops, latency) = (claim.amount("iops")?, claim.amount("latency")?);
    let outstanding = claim.amount("outstanding")?;
    let ((rate_low, rate_high), (time_low, time_high)) = (iops.interval(), latency.interval());
    let least = model::laws::population(rate_low, time_low);
    let most = model::laws::population(rate_high, time_high);
    let exact = model::laws::population(iops.value, latency.value);
    let (depth_low, depth_high) = outstanding.interval();
    let (outcome, note) = match () {
        () if least > depth_high * (1.0 + WINDOWS) => {
            (Outcome::Breaks, ": more in flight than the depth allows")
        }
        () if most < depth_low * KEPT_FULL => {
            (Outcome::Unclear, ": far below the depth; was the queue kept full?")
        }
        () => (Outcome::Holds, ""),
    };
    let line = format!(
        "{} IOPS x {} = {} outstanding; claimed {}{note}",
        block::Rate(iops.value),
        seconds(latency.value),
        round(exact),
        round(outstanding.value)
    );
    Some(finding("little", outcome, line))
}

/// The I/Os in flight must fit into the drives' queues.
fn queue(claim: &Claim) -> Option<Finding> {
    let (drive, drives) = (claim.drive?, claim.count("drives")?);
    let known = drive.known("queue_depth")?;
    let depth = known.value;
    let slots = depth * drives;
    let (name, low, text) = match claim.amount("outstanding") {
        Some(outstanding) => ("outstanding", outstanding.interval().0, round(outstanding.value)),
        None => {
            let (iops, latency) = (claim.amount("iops")?, claim.amount("latency")?);
            let low = model::laws::population(iops.interval().0, latency.interval().0);
            ("IOPS x latency", low, round(model::laws::population(iops.value, latency.value)))
        }
    };
    let line = format!(
        "{name} = {text}; {} x {} of queue depth {} ({}) take {}",
        round(drives),
        drive.id,
        round(depth),
        known.kind.word(),
        round(slots)
    );
    // The other I/Os wait in the host, whose latencies may include that wait.
    let outcome = if low <= slots { Outcome::Holds } else { Outcome::Unclear };
    Some(finding("queue", outcome, line).by(known.kind))
}

/// At queue depth 1 the rate is 1 / latency, which cannot exceed the rating; and no busy drive is
/// faster than an idle one.
fn depth_one(claim: &Claim) -> Option<Finding> {
    let latency = claim.amount("latency")?;
    let alone = claim.value("outstanding") == Some(1.0);
    if alone && let Some(rating) = claim.amount("rating") {
        let slowest = model::laws::throughput_per_s(1.0, latency.interval().1);
        let line = format!(
            "depth 1 at {} is {} IOPS; at most {} are claimed",
            seconds(latency.value),
            block::Rate(model::laws::throughput_per_s(1.0, latency.value)),
            block::Rate(rating.value)
        );
        let most = rating.interval().1 * (1.0 + WINDOWS);
        return Some(finding("depth-1", holds_if(slowest <= most), line));
    }
    // The mean of a mix is between the latencies of reads and writes; an unknown one counts as 0.
    let drive = claim.drive?;
    let read = claim.read_share();
    let (reads, writes) = (drive.known("read_latency"), drive.known("write_latency"));
    let mut idle = (0.0, 0.0, Kind::Spec);
    for (share, known) in [(read, reads), (1.0 - read, writes)] {
        if let Some(known) = known.filter(|_| share > 0.0) {
            idle =
                (idle.0 + share * known.low, idle.1 + share * known.value, idle.2.max(known.kind));
        }
    }
    let (low, value, kind) = idle;
    if low <= 0.0 {
        return None;
    }
    let (outcome, note) = parts::beyond(low, latency.interval().1, kind);
    let line = format!(
        "{} claimed; {} takes {} at depth 1 ({}){note}",
        seconds(latency.value),
        drive.id,
        seconds(value),
        kind.word()
    );
    Some(finding("depth-1", outcome, line).by(kind))
}

/// Bandwidth = IOPS × size.
fn bandwidth(claim: &Claim) -> Option<Finding> {
    let (iops, size) = (claim.amount("iops")?, claim.size_bytes?);
    let bandwidth = claim.amount("bandwidth")?;
    let (low, high) = iops.interval();
    let bits = bandwidth.value / bytes_of(bandwidth);
    let (claimed_low, claimed_high) = bandwidth.interval();
    let claimed = (claimed_low / bits, claimed_high / bits);
    let moved = (low * size, high * size);
    let binary = match bandwidth.unit.chars().next() {
        Some('M') => 1.048_576,
        Some('G') => 1.073_741_824,
        _ => 1.0,
    };
    let in_binary = (claimed.0 * binary, claimed.1 * binary);
    let (outcome, note) = match () {
        () if meet((moved.0 * (1.0 - WINDOWS), moved.1 * (1.0 + WINDOWS)), claimed) => {
            (Outcome::Holds, "")
        }
        () if bits == 1.0 && meet(moved, in_binary) => {
            (Outcome::Unclear, "; it fits if the unit is binary")
        }
        () => (Outcome::Breaks, ""),
    };
    let line = format!(
        "{} IOPS x {} B = {}; claimed {}{note}",
        block::Rate(iops.value),
        round(size),
        per_second(iops.value * size),
        per_second(bytes_of(bandwidth))
    );
    Some(finding("bandwidth", outcome, line))
}

/// CPU time per I/O, compared with that of known stacks.
fn processor(claim: &Claim, catalogue: &Catalogue) -> Option<Finding> {
    let used = claim.amount("cpu_percent")?;
    let share = if used.unit == "%" || used.value <= 1.0 { used.value } else { used.value / 100.0 };
    if share > 1.0 {
        let line = format!("{:.0} % of all cores: 100 % is all there is", share * 100.0);
        return Some(finding("processor", Outcome::Breaks, line));
    }
    let (iops, cores) = (claim.value("iops")?, claim.count("cores")?);
    let each = share * cores / iops;
    let stacks =
        catalogue.parts.values().filter_map(|part| Some((&**part, part.known("core_time")?)));
    let mut stacks: Vec<(&Part, Known)> = stacks.collect();
    stacks.sort_by(|(_, a), (_, b)| a.low.total_cmp(&b.low));
    let least = stacks.first()?;
    let most = stacks.iter().max_by(|(_, a), (_, b)| a.high.total_cmp(&b.high))?;
    let known = least.1.low <= each && each <= most.1.high;
    let named = |(part, time): &(&Part, Known), seconds_each: f64| {
        format!("{} ({}, {})", seconds(seconds_each), part.id, time.kind.word())
    };
    let line = format!(
        "{:.0} % of {} cores / {} IOPS = {} of a core each; known stacks need {} to {}",
        share * 100.0,
        round(cores),
        block::Rate(iops),
        seconds(each),
        named(least, least.1.low),
        named(most, most.1.high)
    );
    let outcome = if known { Outcome::Holds } else { Outcome::Unclear };
    Some(finding("processor", outcome, line).by(least.1.kind.max(most.1.kind)))
}

/// The claim's own arithmetic.
fn arithmetic(claim: &Claim, _: &Catalogue) -> Vec<Finding> {
    use crate::expression::Standing;
    let check = |(text, equation): &(String, crate::expression::Equation)| {
        let (outcome, note) = match equation.standing() {
            Standing::Holds => (Outcome::Holds, ""),
            Standing::HoldsInBinary => (Outcome::Holds, "; its unit is binary"),
            Standing::MixedThousands => {
                (Outcome::Breaks, "; its unit is neither decimal nor binary: thousands of 1024")
            }
            Standing::Breaks => (Outcome::Breaks, ""),
            Standing::Units => {
                (Outcome::Unclear, "; the sides have different dimensions: state the units")
            }
        };
        let left = equation.left;
        let value = show(left.value, left.dimension);
        finding("arithmetic", outcome, format!("{text}: it is {value}{note}"))
    };
    claim.equations.iter().map(check).collect()
}

fn show(value: f64, dimension: catalogue::unit::Dimension) -> String {
    use catalogue::unit::Dimension;
    match dimension {
        Dimension::BYTE_RATE => per_second(value),
        Dimension::BIT_RATE => format!("{}b/s", block::Rate(value)),
        Dimension::BYTES => format!("{}B", block::Rate(value)),
        Dimension::TIME => seconds(value),
        Dimension::MONEY => format!("${value:.0}"),
        Dimension::RATE => format!("{}/s", block::Rate(value)),
        _ => round(value),
    }
}

/// Formats a number without insignificant decimals.
fn round(value: f64) -> String {
    match value.abs() {
        v if v >= 1e5 => block::Rate(value).to_string(),
        v if v >= 100.0 || v == v.round() => format!("{value:.0}"),
        _ => catalogue::digits(value),
    }
}

fn seconds(value: f64) -> String {
    match value {
        v if v >= 1.0 => format!("{} s", catalogue::digits(v)),
        v if v >= 1e-3 * 0.1 => format!("{} ms", catalogue::digits(v * 1e3)),
        v if v >= 1e-6 * 0.1 => format!("{} µs", catalogue::digits(v * 1e6)),
        v => format!("{} ns", catalogue::digits(v * 1e9)),
    }
}

fn per_second(value: f64) -> String {
    let text = block::Rate(value).to_string();
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    format!("{number} {}B/s", &text[number.len()..])
}

#[cfg(test)]
mod test;
