//! Claims checked against each other: a figure given twice, and shares of the same total.

use std::collections::BTreeMap;

use super::{Finding, Outcome, finding, holds_if, meet, per_second};
use crate::claim::{Claim, Document};
use catalogue::unit::{Amount, Hedge};

/// Returns findings with the document and the claim that they belong to.
pub(super) fn rules(documents: &[Document]) -> Vec<(usize, usize, Finding)> {
    let mut all: Vec<Located> = Vec::new();
    for (document, of) in documents.iter().enumerate() {
        all.extend(of.claims.iter().enumerate().map(|(at, claim)| Located { document, at, claim }));
    }
    let mut findings = same(&all);
    findings.extend(shares(&all));
    findings
}

struct Located<'a> {
    document: usize,
    at: usize,
    claim: &'a Claim<'a>,
}

impl Located<'_> {
    fn name(&self) -> String {
        match self.claim.text.number {
            Some(number) => format!("claim {number}"),
            None => format!("claim {} of its file", self.at + 1),
        }
    }
}

/// Checks that a figure given twice is the same. The more precise one is assumed to be right; the
/// finding is the other's.
fn same(all: &[Located]) -> Vec<(usize, usize, Finding)> {
    let mut groups: BTreeMap<&str, Vec<(&Located, &Amount)>> = BTreeMap::new();
    for place in all {
        for (key, amount) in &place.claim.same {
            groups.entry(key).or_default().push((place, amount));
        }
    }
    let mut findings = Vec::new();
    for (key, group) in groups {
        // The most precise figure is assumed to be right; of equally precise ones the least hedged,
        // then the first.
        let spread = |amount: &Amount| amount.half / amount.value;
        let loose = |amount: &Amount| match amount.hedge {
            Hedge::Plain => 0,
            Hedge::About => 1,
            Hedge::Nearly | Hedge::Over => 2,
        };
        let order = |a: &&(&Located, &Amount), b: &&(&Located, &Amount)| {
            spread(a.1).total_cmp(&spread(b.1)).then(loose(a.1).cmp(&loose(b.1)))
        };
        let Some((best, believed)) = group.iter().min_by(order) else { continue };
        for (place, amount) in &group {
            if std::ptr::eq(*place, *best) {
                continue;
            }
            let (outcome, note) = agree(amount, believed);
            let line = format!(
                "{key}: {} here, {} in {}{note}",
                said(amount),
                said(believed),
                best.name()
            );
            findings.push((place.document, place.at, finding("same", outcome, line)));
        }
    }
    findings
}

fn agree(amount: &Amount, believed: &Amount) -> (Outcome, &'static str) {
    if amount.dimension != believed.dimension {
        return (Outcome::Unclear, ": other units");
    }
    // "Over 2.7M" claims more than "about 2.7M" elsewhere supports.
    let stronger = amount.hedge == Hedge::Over && believed.hedge == Hedge::About;
    if stronger && amount.value == believed.value {
        return (Outcome::Breaks, ": about is not over");
    }
    (holds_if(meet(amount.interval(), believed.interval())), "")
}

fn said(amount: &Amount) -> String {
    let hedge = match amount.hedge {
        Hedge::Plain => "",
        Hedge::About => "about ",
        Hedge::Over => "over ",
        Hedge::Nearly => "nearly ",
    };
    format!("{hedge}{}", super::show(amount.value, amount.dimension))
}

/// A claim and its implied bounds.
type Implied<'a> = (&'a Located<'a>, (f64, f64));

/// Checks shares of the same best, each of which implies its bounds: the bounds must overlap.
fn shares(all: &[Located]) -> Vec<(usize, usize, Finding)> {
    let mut series: BTreeMap<&str, Vec<Implied>> = BTreeMap::new();
    for place in all {
        let Some((of, share)) = &place.claim.share else { continue };
        let (Some(iops), Some(size)) = (place.claim.amount("iops"), place.claim.size_bytes) else {
            continue;
        };
        let (low, high) = iops.next_digit();
        let (share_low, share_high) = share.interval();
        let best = (low * size / share_high, high * size / share_low);
        series.entry(of).or_default().push((place, best));
    }
    let mut findings = Vec::new();
    for (of, members) in series {
        let Some(((first, best), rest)) = members.split_first() else { continue };
        for (place, other) in rest {
            let line = format!(
                "best of {of}: {} to {} by {}, {} to {} here",
                per_second(best.0),
                per_second(best.1),
                first.name(),
                per_second(other.0),
                per_second(other.1)
            );
            let found = finding("shares", holds_if(meet(*best, *other)), line);
            findings.push((place.document, place.at, found));
        }
    }
    findings
}
