//! Amounts without a unit, or with a wrong one.

use super::{Finding, Outcome, finding, meet, per_second};
use crate::claim::{Claim, bytes_of, day, suits};
use crate::wire;
use catalogue::Catalogue;
use catalogue::unit::Dimension;

pub(super) fn rules(claim: &Claim, catalogue: &Catalogue) -> Vec<Finding> {
    let mut findings: Vec<Finding> = missing(claim);
    findings.extend(network_in_bytes(claim, catalogue));
    findings.extend(stated_rate(claim));
    findings.extend(year(claim));
    findings
}

/// Returns findings on fields with a missing or wrong unit.
fn missing(claim: &Claim) -> Vec<Finding> {
    let unsuited = claim.amounts.iter().filter(|(_, wanted, amount)| !suits(*wanted, amount));
    let describe = |(field, wanted, amount): &(&str, Dimension, catalogue::unit::Amount)| {
        let given = catalogue::digits(amount.value);
        let unit = if amount.unit.is_empty() { "has no unit" } else { "is of another kind" };
        let mut line = format!("{field} {given} {unit}: {wanted} belongs to it");
        if let Some((link, lanes)) = claim.link.filter(|_| *field == "link_rate")
            && let (Some(symbols), Some(bytes)) =
                (link.value("symbol_rate"), wire::line_bytes_per_s(link, lanes))
        {
            let symbols = catalogue::digits(symbols / 1e9);
            line += &format!("; {} has {symbols} GT/s, {} each way", link.id, per_second(bytes));
        }
        finding("unit", Outcome::Unclear, line)
    };
    unsuited.map(describe).collect()
}

/// Finds a network rate in bytes that is meant in bits, the unit of network names: a rate that no
/// link has in bytes, but some link has in bits.
fn network_in_bytes(claim: &Claim, catalogue: &Catalogue) -> Option<Finding> {
    let (link, _) = claim.link?;
    let known = link.known("nominal_rate")?;
    let (nominal, kind) = (known.value, known.kind);
    let rate = claim.amount("link_rate")?;
    if rate.dimension != Dimension::BYTE_RATE {
        let (low, high) = rate.interval();
        let holds = low <= nominal && nominal <= high;
        let rate = block::Rate(nominal);
        let line = format!("{} carries {rate}b/s ({})", link.id, kind.word());
        return Some(finding("unit", super::holds_if(holds), line).by(kind));
    }
    let family = link.id.split('-').next().unwrap_or_default();
    let known = |bits: f64| {
        let rates = catalogue.parts.values().filter(|part| part.id.starts_with(family));
        rates.filter_map(|part| part.value("nominal_rate")).any(|rate| rate == bits)
    };
    let outcome = match known(rate.value * 8.0) {
        true => Outcome::Holds,
        false => Outcome::Unclear,
    };
    let meant =
        if known(rate.value) { ", but one of as many bits exists: bits are meant" } else { "" };
    let line = format!(
        "{} would be {}b/s; no {family} of that rate exists{meant}",
        per_second(rate.value),
        block::Rate(rate.value * 8.0)
    );
    Some(finding("unit", outcome, line).by(kind))
}

/// Compares the claimed rate of a link with that of its standard.
fn stated_rate(claim: &Claim) -> Option<Finding> {
    let (link, lanes) = claim.link?;
    if link.value("nominal_rate").is_some() && !link.id.starts_with("fc") {
        return None;
    }
    let rate = claim.amount("link_rate")?;
    let line_rate = wire::line_bytes_per_s(link, lanes)?;
    let known = link.known("symbol_rate")?;
    let symbols = known.value * f64::from(lanes);
    let (low, high) = rate.interval();
    let bits = rate.value / bytes_of(rate);
    let stated = (low / bits, high / bits);
    // A rule of thumb subtracts a fifth as overhead: a usable rate, not the line rate.
    let usable = (0.75 * line_rate, 1.001 * line_rate);
    let line = format!(
        "{} carries {}T/s ({}) x {:.4} = {} each way; stated {}",
        link.id,
        block::Rate(symbols),
        known.kind.word(),
        link.value("coding")?,
        per_second(line_rate),
        per_second(bytes_of(rate))
    );
    Some(finding("link-rate", super::holds_if(meet(stated, usable)), line).by(known.kind))
}

/// Finds an as-of date a year before the test: in January the old year is typed out of habit.
fn year(claim: &Claim) -> Option<Finding> {
    let (as_of, tested) = (day(claim.text.as_of.as_deref()?)?, day(claim.text.tested.as_deref()?)?);
    let days = tested - as_of;
    let slip = (days - 365).abs() <= 15;
    let line = match () {
        () if days < 0 => format!("current as of {} days after the test", -days),
        () if slip => format!(
            "{days} days before the test: a year and {} days, so the year \
            slipped",
            (days - 365).abs()
        ),
        () => format!("{days} days before the test"),
    };
    Some(finding("date", super::holds_if(days >= 0 && !slip), line))
}
