//! Side-by-side comparison of systems.

use std::path::Path;

use ::catalogue::{PriceTag, price_words};
use anyhow::Result;
use block::{Rate, Text};
use plan::bill::Bill;
use plan::compare::{Alternative, CompareError, Comparison, Equal, compare};
use plan::predict::Use;
use plan::system::rests_on;
use report::chart::Chart;
use report::span;
use serde::Serialize;
use serde_json::json;

use super::predicted::total;
use super::screen::Screen;
use super::{Args, blame, charts, page, percent, write_page};
use crate::exit::{Exit, UsageError};
use crate::output;

/// Sides of a comparison.
#[derive(Default)]
pub struct Sides<'a> {
    /// Bill of each side that can be read.
    pub bills: Vec<Bill>,
    /// Argument that each bill is from.
    pub files: Vec<&'a Path>,
    left_out: Vec<LeftOut>,
}

/// A side without an answer. It costs the others none.
#[derive(Serialize)]
struct LeftOut {
    name: String,
    reason: String,
    #[serde(skip)]
    error: anyhow::Error,
}

impl<'a> Sides<'a> {
    /// Leaves out a side that has no answer.
    pub fn leave_out(&mut self, file: &Path, error: anyhow::Error) {
        let (name, reason) = (file.display().to_string(), format!("{error:#}"));
        self.left_out.push(LeftOut { name, reason, error });
    }

    /// The sides, if any is left.
    ///
    /// # Errors
    ///
    /// The error of the first side that was left out.
    pub fn checked(mut self) -> Result<Sides<'a>> {
        match self.bills.is_empty() && !self.left_out.is_empty() {
            true => Err(self.left_out.swap_remove(0).error),
            false => Ok(self),
        }
    }
}

/// Compares bills for the same money, for the same I/Os, or unscaled.
pub fn compared(
    args: &Args,
    (money, goal): (Option<f64>, Option<f64>),
    mut sides: Sides<'_>,
) -> Result<Exit> {
    let equal = match (money, goal) {
        (Some(money), _) => Equal::Money(money),
        (None, Some(goal)) => Equal::Iops(goal),
        (None, None) => Equal::Systems,
    };
    let found = loop {
        match compare(&sides.bills, equal, (args.draws, args.seed)) {
            Ok(found) => break found,
            Err(CompareError::Plan { index, source, .. }) => {
                let file = sides.files.remove(index);
                sides.bills.remove(index);
                sides.leave_out(file, blame(Some(file), source));
                sides = sides.checked()?;
            }
            Err(other) => return Err(UsageError(other.to_string()).into()),
        }
    };
    write_page(args, || page::comparison(&found, &sides.bills))?;
    let left_out = &sides.left_out;
    match args.json {
        true => output::document(
            &json!({ "origin": "simulated", "comparison": found, "left_out": left_out }),
        )?,
        false if args.details => output::print(&text(&found)?)?,
        false => output::print(&screen(args, &found))?,
    }
    left_out.iter().for_each(|one| output::note(format_args!("drumfire: {}", one.reason)));
    let nothing = |one: &Alternative| one.systems.is_some_and(|number| number == 0.0);
    Ok(match found.alternatives.iter().all(nothing) {
        _ if !left_out.is_empty() => Exit::Partial,
        true => Exit::Missed,
        false => Exit::Good,
    })
}

/// First line: the property that all alternatives share.
pub fn lead(found: &Comparison) -> String {
    let count = match found.alternatives.len() {
        1 => "1 alternative".to_owned(),
        many => format!("{many} alternatives"),
    };
    let how = match found.equal {
        Equal::Systems => "one system of each".to_owned(),
        Equal::Money(sum) => format!("as many whole systems as ${sum:.0} buys"),
        Equal::Iops(goal) => format!("as many whole systems as {} IOPS take", Rate(goal)),
    };
    let reads = percent(found.work.read_share);
    let size = report::size(found.work.size_bytes.round() as u64);
    format!("{count}, {size}, {reads} % reads: {how}; predicted")
}

/// All charts that something is known for.
pub fn all_charts(found: &Comparison) -> Vec<Chart> {
    let yields = [
        charts::yields(found, "IOPS for a dollar", |one| one.yields.per_dollar),
        charts::yields(found, "IOPS for a watt", |one| one.yields.per_watt),
        charts::yields(found, "IOPS for a rack unit", |one| one.yields.per_unit),
    ];
    [charts::ranks(found)].into_iter().chain(yields.into_iter().flatten()).collect()
}

/// Alternatives on a screen.
const SHOWN: usize = 5;

/// The answer on one screen.
fn screen(args: &Args, found: &Comparison) -> Text {
    let mut screen = Screen::default();
    screen.words(&format!("{}; * cannot be told from the best", lead(found)));
    // A heading that needs three lines leaves room for four lines of each.
    for one in found.alternatives.iter().take(SHOWN) {
        let mark = if one.as_good { '*' } else { ' ' };
        screen.row(&format!("{mark} {} ({})", one.name, charts::systems(one)));
        let (iops, range) = match &one.all {
            Some(all) => (all.iops, all.range),
            None => (one.one.iops, one.one.range),
        };
        let whose = if one.all.is_some() { "" } else { " each" };
        let ends = range.map_or("; no interval".to_owned(), |range| {
            format!(", p10 {}, p90 {}", Rate(range.p10), Rate(range.p90))
        });
        let limit = one.one.uncorrected.bottleneck().map_or("unknown", |used| used.level.word());
        screen.row(&format!("    {} IOPS{whose}{ends}; limited by {limit}", Rate(iops)));
        let price = one.all.as_ref().map_or(&one.cost.price, |all| &all.price);
        let even = one
            .break_even
            .filter(|even| *even > 0.0)
            .map_or(String::new(), |even| format!("; even with the cheapest at ${even:.0} each"));
        screen.row(&format!("    price {}{even}", total(price, "$", "")));
        screen.row(&format!("    {}", rests_on(&one.one.uncorrected.inputs)));
    }
    let left = found.alternatives.len().saturating_sub(SHOWN);
    if left > 0 {
        screen.words(&format!("{left} other alternatives: --details"));
    }
    if args.lookup.sourced {
        screen.words("figures that no document has are left out (--sourced)");
    }
    let tags: Vec<PriceTag> = found.alternatives.iter().flat_map(|one| one.cost.tags()).collect();
    // Four lines of each of three leave room for the prices.
    match found.alternatives.len() {
        _ if tags.is_empty() => {}
        1..=3 => screen.words(&format!("prices: {}", price_words(&tags))),
        _ => screen.words("prices: dates and sources by --details"),
    }
    screen.text(&[], "details: charts, parts and notes by --details; a page by --html FILE")
}

fn text(found: &Comparison) -> Result<Text> {
    let mut text = Text::new();
    writeln!(text, "{}; * is beaten by none", lead(found))?;
    for chart in all_charts(found) {
        text.append(&chart.text(charts::COLUMNS));
    }
    for one in &found.alternatives {
        writeln!(text, "{}", one.name)?;
        for (what, said) in lines(one) {
            writeln!(text, "  {what:<11} {said}")?;
        }
    }
    Ok(text)
}

/// Lines about an alternative: label and text.
pub fn lines(one: &Alternative) -> Vec<(&'static str, String)> {
    let alone = &one.one.uncorrected;
    let limit = alone.bottleneck().map_or("nothing known".to_owned(), |limit: &Use| {
        format!("{} (known by {})", limit.name, limit.kind.word())
    });
    let ends = match one.one.range {
        Some(range) => format!(", p10 {}, p90 {}", Rate(range.p10), Rate(range.p90)),
        None => format!("; no evidence for this class: {}", one.one.evidence.class.title()),
    };
    let slow = one.one.latency_range().map_or(String::new(), |(short, long)| {
        format!(", p10 {}, p90 {}", span(short * 1e9), span(long * 1e9))
    });
    let mut lines = vec![
        ("number", charts::systems(one)),
        ("each does", format!("{} IOPS{ends}", Rate(one.one.iops))),
        ("rests on", rests_on(&alone.inputs)),
        ("latency", format!("{} on average{slow}", span(one.one.latency_s * 1e9))),
        ("uncorrected", format!("{} IOPS by the parts' figures alone", Rate(alone.iops))),
        ("limited by", limit),
        ("each costs", total(&one.cost.price, "$", "")),
        ("each takes", total(&one.cost.power, "", " W")),
    ];
    let prices = price_words(&one.cost.tags());
    if !prices.is_empty() {
        lines.insert(7, ("prices", prices));
    }
    let height = &one.cost.height;
    if height.known > 0.0 || !height.unknown.is_empty() {
        lines.push(("each is", total(height, "", " U")));
    }
    if let Some(all) = &one.all {
        lines.push(("all cost", total(&all.price, "$", "")));
        lines.push(("all take", total(&all.power, "", " W")));
    }
    if let Some(even) = one.break_even {
        let missing = one.cost.price.unknown.join(", ");
        lines.push(match even > 0.0 {
            true => ("even", format!("with the cheapest if {missing} cost ${even:.0} in each")),
            false => ("even", format!("never: dearer than the cheapest even if {missing} is free")),
        });
    }
    lines.extend(alone.remarks.iter().map(|remark| ("note", remark.clone())));
    lines
}
