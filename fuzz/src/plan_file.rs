//! Malformed files of parts, bills and claims.

use catalogue::Catalogue;
use plan::audit::audit_all;
use plan::bill::Bill;
use plan::claim::{ClaimError, Document};
use plan::cost::cost;
use plan::predict::{bound, predict};
use plan::system::Tweak;

/// Most drives and ports of a bill solved here; more take longer and find nothing new.
const DEVICES_MAX: u32 = 8;

/// Parses a file of parts: all of it is taken, or nothing.
pub fn read_parts(text: &str) {
    let mut catalogue = Catalogue::default();
    if let Err(error) = catalogue.add("noise.toml", text) {
        refused(text, error.line, &error.reason);
        assert_eq!(catalogue, Catalogue::default(), "half of it was taken");
        return;
    }
    for part in catalogue.parts.values() {
        assert_eq!(catalogue.part(&part.id).map(|found| found.id.as_str()), Ok(part.id.as_str()));
        for (name, figures) in &part.figures {
            let known = part.known(name).expect("it stands there");
            assert!(known.low <= known.value && known.value <= known.high, "{name}: {known:?}");
            assert!(known.low >= 0.0 && known.high.is_finite(), "{name}: {known:?}");
            let from = |source: &String| catalogue.sources.contains_key(source);
            assert!(figures.iter().all(|figure| from(&figure.source)), "{name} without a source");
        }
    }
}

/// Parses a bill: it is refused with its line, has no answer for a reason, or an answer within the
/// laws.
pub fn read_bill(text: &str) {
    let bill = match Bill::read("noise.toml", text, &Catalogue::shipped()) {
        Ok(bill) => bill,
        Err(error) => return refused(text, error.line, &error.reason),
    };
    let cost = cost(&bill);
    for sum in [&cost.price, &cost.power, &cost.height] {
        assert!(sum.low <= sum.high && sum.high.is_finite(), "{sum:?}");
    }
    let devices: u32 = bill.groups.iter().map(plan::bill::Group::devices).sum();
    if devices > DEVICES_MAX || bill.work.outstanding > 256 {
        return;
    }
    let Ok(found) = predict(&bill, &Tweak::default()) else { return };
    assert!(found.iops > 0.0 && found.iops.is_finite(), "{found:?}");
    assert!((found.iops * found.latency_s / found.outstanding - 1.0).abs() < 1e-6, "{found:?}");
    assert!(found.uses.iter().all(|used| (0.0..=1.0).contains(&used.utilisation)), "{found:?}");
    let most = bound(&bill).expect("it has an answer");
    assert!(found.iops <= most * 1.01, "{} beyond {most}", found.iops);
}

/// Parses a file of claims, and audits it.
pub fn read_claims(text: &str) {
    let catalogue = Catalogue::shipped();
    let document = match Document::read("noise.toml", text, &catalogue) {
        Ok(document) => document,
        Err(ClaimError::File { line, reason, .. }) => return refused(text, line, &reason),
        Err(other) => panic!("{other}: without file and line"),
    };
    let claims = document.claims.len();
    let findings = audit_all(&[document], &catalogue);
    assert_eq!(findings.first().map(Vec::len), Some(claims));
    for finding in findings.iter().flatten().flatten() {
        assert!(!finding.line.is_empty() && !finding.line.contains("NaN"), "{finding:?}");
    }
}

fn refused(text: &str, line: usize, reason: &str) {
    assert!((1..=text.lines().count() + 1).contains(&line), "line {line}");
    assert!(!reason.is_empty());
}
