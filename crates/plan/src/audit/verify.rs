//! Tests the audit with claims that are known to be possible or impossible.

use serde::Serialize;

use super::{Verdict, audit};
use crate::claim::{Claim, ClaimError, ClaimText, Document};
use crate::evidence::{Evidence, Row};
use catalogue::{Catalogue, Class, Part};

/// Maximum share of true claims that the audit calls impossible.
pub const FALSE_MAX: f64 = 0.02;
/// Minimum share of impossible claims that the audit detects.
pub const FOUND_MIN: f64 = 0.90;

const MADE: &str = include_str!("../../claims/made.toml");

/// Claims of one origin, by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Called possible.
    pub possible: u32,
    /// Called unclear.
    pub unclear: u32,
    /// Called impossible.
    pub impossible: u32,
}

impl Counts {
    fn add(&mut self, verdict: Verdict) {
        *match verdict {
            Verdict::Possible => &mut self.possible,
            Verdict::Unclear => &mut self.unclear,
            Verdict::Impossible => &mut self.impossible,
        } += 1;
    }

    /// Returns the number of claims.
    pub fn all(&self) -> u32 {
        self.possible + self.unclear + self.impossible
    }

    fn condemned(&self) -> f64 {
        f64::from(self.impossible) / f64::from(self.all().max(1))
    }
}

/// The confusion matrix.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Matrix {
    /// Claims made to be impossible.
    pub planted: Counts,
    /// Claims made to be possible.
    pub sound: Counts,
    /// Rates of the drives in the catalogue, by any source, each claimed of its drive.
    pub figures: Counts,
    /// Published results of measurements.
    pub published: Counts,
    /// Claims with a wrong verdict, and the responsible findings.
    pub wrong: Vec<String>,
}

impl Matrix {
    /// Returns whether made and published claims are both within the limits.
    pub fn meets(&self) -> bool {
        self.planted.condemned() >= FOUND_MIN
            && self.figures.condemned() <= FALSE_MAX
            && self.sound.condemned() <= FALSE_MAX
            && self.published.condemned() <= FALSE_MAX
    }
}

/// Checks all known claims.
///
/// # Errors
///
/// [`ClaimError`] for claims that cannot be parsed.
pub fn verify(catalogue: &Catalogue) -> Result<Matrix, ClaimError> {
    let mut matrix = Matrix::default();
    for claim in Document::read("made.toml", MADE, catalogue)?.claims {
        let planted = claim.text.is == "impossible";
        let counts = if planted { &mut matrix.planted } else { &mut matrix.sound };
        if let Some(wrong) = hold(&claim, counts, planted, &claim.text.says, catalogue) {
            matrix.wrong.push(wrong);
        }
    }
    for part in catalogue.parts.values() {
        for text in figures(part) {
            let claim = Claim::read(text, catalogue)?;
            let name = claim.text.says.clone();
            if let Some(wrong) = hold(&claim, &mut matrix.figures, false, &name, catalogue) {
                matrix.wrong.push(wrong);
            }
        }
    }
    let evidence = Evidence::shipped();
    for row in evidence.rows.iter().filter(|row| !row.recalled) {
        let claim = Claim::read(published(row), catalogue)?;
        if let Some(wrong) = hold(&claim, &mut matrix.published, false, &row.name(), catalogue) {
            matrix.wrong.push(wrong);
        }
    }
    Ok(matrix)
}

fn hold(
    claim: &Claim,
    counts: &mut Counts,
    planted: bool,
    name: &str,
    catalogue: &Catalogue,
) -> Option<String> {
    let findings = audit(claim, catalogue);
    let verdict = Verdict::of(&findings);
    counts.add(verdict);
    let wrong = planted != (verdict == Verdict::Impossible);
    let shown = findings.iter().filter(|f| planted || f.outcome == super::Outcome::Breaks);
    let lines: Vec<String> = shown.map(|f| format!("{}: {}", f.rule, f.line)).collect();
    wrong.then(|| format!("{name} is called {} ({})", verdict.word(), lines.join("; ")))
}

/// Returns the sources' figures of a drive as claims: no rule may be stricter than they are.
fn figures(part: &Part) -> Vec<ClaimText> {
    let mut all = Vec::new();
    if part.class != Class::Drive {
        return all;
    }
    for (is, read, depth) in [
        ("read_iops", "100", None),
        ("write_iops", "0", None),
        ("mix_iops", "70", None),
        ("depth16_iops", "100", Some("16")),
    ] {
        for figure in part.figures.get(is).into_iter().flatten() {
            let latency = part.value("depth16_latency").filter(|_| depth.is_some());
            all.push(ClaimText {
                says: format!("{} of {}, {}", is, part.id, figure.source),
                iops: Some(format!("{} IOPS", figure.value)),
                read: Some(read.to_owned()),
                // A data sheet without a size may have meant 512 bytes.
                size: figure.condition.contains("4 KiB").then(|| "4k".to_owned()),
                drive: Some(part.id.clone()),
                drives: Some("1".to_owned()),
                outstanding: depth.map(str::to_owned),
                latency: latency.map(|s| format!("{} us", s * 1e6)),
                ..ClaimText::default()
            });
        }
    }
    all
}

/// Returns a published result as a claim: workload, result, and the source's figures of the drive.
/// Hosts and copies are left out: they multiply the I/Os in flight.
fn published(row: &Row) -> ClaimText {
    let hosts = row.hosts.unwrap_or(1);
    let drives = row.drives * row.adapters * hosts;
    let rated = |names: &[&str]| {
        let of_drive = |g: &&crate::evidence::Given| g.part.is_none() && names.contains(&&*g.is);
        row.given.iter().find(of_drive).map(|given| format!("{} IOPS", given.value))
    };
    // A rating is for 4 KiB, and for reads or writes alone.
    let rating = match (row.size.as_str(), row.read) {
        ("4k", 100.0) => rated(&["read_iops"]),
        ("4k", 0.0) => rated(&["write_iops"]),
        _ => None,
    };
    let behind = row.ports.unwrap_or(0).max(drives);
    let network = row.link.is_some();
    ClaimText {
        iops: row.iops.map(|iops| format!("{iops} IOPS")),
        bandwidth: row.mb_s.map(|mb| format!("{mb} MB/s")),
        latency: row.latency_us.map(|us| format!("{us} us")),
        size: Some(row.size.clone()),
        read: Some(row.read.to_string()),
        outstanding: row
            .drive
            .is_some()
            .then(|| row.in_flight.unwrap_or(row.depth * behind).to_string()),
        drives: row.drive.is_some().then(|| drives.to_string()),
        rating: rating.filter(|_| row.drive.is_some() && !network),
        link: row.link.clone(),
        ports: row.ports.map(|ports| (ports * hosts).to_string()),
        ..ClaimText::default()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_known_is_told_apart() {
        let matrix = verify(&Catalogue::shipped()).unwrap();
        assert!(matrix.planted.all() + matrix.sound.all() >= 100, "{matrix:#?}");
        assert!(matrix.published.all() + matrix.figures.all() >= 100, "{matrix:#?}");
        assert!(matrix.meets(), "{matrix:#?}");
    }
}
