//! Listing of a search for systems that reach a goal.

use ::catalogue::{Catalogue, Kind, PriceTag, price_words};
use anyhow::Result;
use block::{Rate, Text};
use plan::search::{Candidate, Found, Goal, Refused, search};

use super::predicted::unsaid;
use super::screen::Screen;
use super::{Args, bill, percent};
use crate::exit::{Exit, UsageError};
use crate::output;

/// Looks through all drives.
pub fn searched(
    args: &Args,
    iops: f64,
    (price_max, power_max): (Option<f64>, Option<f64>),
    catalogue: Catalogue,
) -> Result<Exit> {
    let bill = bill(&args.system, catalogue)?;
    let goal = Goal {
        iops,
        confident: args.confident,
        draws: (args.draws, args.seed),
        ranges: ranges(args),
        work: bill.work,
        server: bill.server,
        software: bill.software,
        adapter: args
            .system
            .adapter
            .as_ref()
            .map(|_| adapter_id(args, &bill.catalogue))
            .transpose()?,
        price_max,
        power_max,
        year: super::sized::year(args)?,
        interface: args.interface.map(|interface| interface.word().to_owned()),
    };
    let found = search(&goal, &bill.catalogue);
    match args.json {
        true => output::document(&found)?,
        false if args.details => output::print(&listing(&goal, &found)?)?,
        false => output::print(&screen(args, &goal, &found)?)?,
    }
    Ok(if found.candidates.is_empty() { Exit::Missed } else { Exit::Good })
}

fn adapter_id(args: &Args, catalogue: &Catalogue) -> Result<String> {
    let name = args.system.adapter.as_deref().unwrap_or_default();
    let part = catalogue.part(name).map_err(|error| UsageError(format!("--adapter: {error}")))?;
    Ok(part.id.clone())
}

/// Alternatives on a screen, after the first.
pub const SHOWN: usize = 5;

/// Number of systems of a search that are printed with their range.
pub fn ranges(args: &Args) -> usize {
    if args.json || args.details { usize::MAX } else { 1 + SHOWN }
}

/// The answer on one screen, and below it the refusals if somebody asks for them.
fn screen(args: &Args, goal: &Goal, found: &Found) -> Result<Text> {
    let mut screen = Screen::default();
    let (size, reads) =
        (report::size(goal.work.size_bytes.round() as u64), percent(goal.work.read_share));
    let reached = if goal.confident { "p10" } else { "the median" };
    screen.words(&format!(
        "{} IOPS of {size}, {reads} % reads, from one server; reached by {reached}",
        Rate(goal.iops)
    ));
    match found.candidates.first() {
        Some(best) => first(&mut screen, best),
        None => {
            let nearest = nearest(found).map_or(String::new(), |what| format!(": {what}"));
            screen.words(&format!("no system reaches it; the nearest{nearest}"));
        }
    }
    let rest = found.candidates.get(1..).unwrap_or_default();
    if !rest.is_empty() {
        screen.row("  others              number   IOPS    p10    p90 limit       price    power");
    }
    for c in rest.iter().take(SHOWN) {
        let end = |end: Option<f64>| end.map_or("-".to_owned(), |rate| Rate(rate).to_string());
        let (p10, p90) = (end(c.range.map(|r| r.p10)), end(c.range.map(|r| r.p90)));
        let price = c.price.map_or("unknown".to_owned(), |price| format!("${price:.0}"));
        let power = c.power.map_or("unknown".to_owned(), |power| format!("{power:.0} W"));
        let (iops, limit) = (Rate(c.iops).to_string(), &c.limit);
        let (drive, drives) = (&c.drive, c.drives);
        screen.row(&format!(
            "  {drive:<22}{drives:>4} {iops:>6} {p10:>6} {p90:>6} {limit:<9} {price:>7} {power:>8}"
        ));
    }
    others_prices(&mut screen, rest.iter().take(SHOWN).flat_map(|c| &c.prices));
    let of = (rest.len(), found.refused.len(), found.not_sold.len());
    counts(&mut screen, args, of, goal.year);
    let unsourced = found.refused.iter().filter(|one| one.reason.contains(UNSOURCED)).count();
    lacking(&mut screen, unsourced);
    if let Some(words) = unsaid(goal.server.is_some(), goal.software.is_some(), true) {
        screen.words(&words);
    }
    let mut text = screen.text(&[], ORDER);
    if args.why {
        refusals(&mut text, found)?;
    }
    Ok(text)
}

/// Note on the order of a list of systems, and on where all figures are.
pub const ORDER: &str = "order: price, number, power; prices: --price PART=DOLLARS; all: --details";

/// Word of the refusals of drives that lack a figure with a source.
pub const UNSOURCED: &str = "--sourced";

/// Prices of the systems of a table, with their dates and origins.
pub fn others_prices<'a>(screen: &mut Screen, tags: impl Iterator<Item = &'a PriceTag>) {
    let words = price_words(tags);
    if !words.is_empty() {
        screen.words(&format!("prices: {words}"));
    }
}

/// Number of drives that figures of documents cannot judge.
pub fn lacking(screen: &mut Screen, drives: usize) {
    if drives > 0 {
        screen.words(&format!(
            "{drives} drives cannot be judged by sourced figures alone: --why, or without \
             {UNSOURCED}"
        ));
    }
}

/// Number of drives that a screen leaves out: others that reach the goal, refused ones, those not
/// sold.
pub fn counts(
    screen: &mut Screen,
    args: &Args,
    (others, refused, unsold): (usize, usize, usize),
    year: Option<u32>,
) {
    let mut all = Vec::new();
    let others = others.saturating_sub(SHOWN);
    if others > 0 {
        all.push(format!("{others} other drives reach it: --details"));
    }
    if refused > 0 && !args.why {
        all.push(format!("{refused} do not: --why"));
    }
    if let Some(year) = year.filter(|_| unsold > 0) {
        all.push(format!("{unsold} were not sold in {year}: --year YEAR|any"));
    }
    if !all.is_empty() {
        screen.words(&all.join("; "));
    }
}

/// The system that comes first.
fn first(screen: &mut Screen, best: &Candidate) {
    let range = best.range.map_or(String::new(), |range| {
        format!(", p10 {}, p90 {}", Rate(range.p10), Rate(range.p90))
    });
    let Candidate { drive, drives, cards, limit, .. } = best;
    let on = if cards == drives { String::new() } else { format!(" on {cards} adapters") };
    screen.field("system", &format!("{drives} x {drive}{on}"));
    screen.field("IOPS", &format!("{} predicted{range}", Rate(best.iops)));
    screen.field("limited by", limit);
    screen.field("price", &price(best));
    screen.field("power", &power(best));
    let (recalled, all, kind) = (best.recalled, best.figures, best.kind.word());
    screen.field("rests on", &rests(recalled, all, kind));
}

/// Number of figures behind a system of a list, and of those that are only recalled.
pub fn rests(recalled: usize, all: usize, kind: &str) -> String {
    format!("{all} figures, {recalled} of them recalled; the least sure kind is {kind}")
}

fn price(c: &Candidate) -> String {
    let known = |kind: Option<Kind>| kind.unwrap_or(Kind::Derived).word();
    match (c.price, c.break_even) {
        (Some(price), _) => {
            format!("${price:.0} ({}: {})", known(c.price_kind), price_words(&c.prices))
        }
        (None, Some(even)) => format!("not known; even at ${even:.0} each (derived)"),
        (None, None) => "not known".to_owned(),
    }
}

fn power(c: &Candidate) -> String {
    match c.power {
        Some(power) => format!("{power:.0} W ({})", c.power_kind.unwrap_or(Kind::Derived).word()),
        None => "not known".to_owned(),
    }
}

fn listing(goal: &Goal, found: &Found) -> Result<Text> {
    let mut text = Text::new();
    let reads = percent(goal.work.read_share);
    let size = report::size(goal.work.size_bytes.round() as u64);
    writeln!(
        text,
        "{} IOPS of {size}, {reads} % reads, reached by {}; predicted, in brackets the least \
         sure figure that a number rests on; * is beaten by none",
        Rate(goal.iops),
        if goal.confident { "p10" } else { "the median" }
    )?;
    for c in &found.candidates {
        let (price, power) = (price(c), power(c));
        let range = c.range.map_or(String::new(), |range| {
            format!(", p10 {}, p90 {}", Rate(range.p10), Rate(range.p90))
        });
        let mark = if c.pareto { '*' } else { ' ' };
        writeln!(
            text,
            "{mark} {:>4} x {:<24} on {:>3} cards  {:>6} IOPS {:<10} limit {:<9} price {price}, \
             power {power}{range}",
            c.drives,
            c.drive,
            c.cards,
            Rate(c.iops).to_string(),
            format!("({})", c.kind.word()),
            c.limit
        )?;
    }
    if let (true, Some(nearest)) = (found.candidates.is_empty(), nearest(found)) {
        writeln!(text, "no system reaches it; the nearest is {nearest}")?;
    }
    refusals(&mut text, found)?;
    super::sized::not_sold(&mut text, goal.year, &found.not_sold)?;
    Ok(text)
}

/// Each drive that does not reach the goal, with its reason.
fn refusals(text: &mut Text, found: &Found) -> Result<()> {
    if !found.refused.is_empty() {
        writeln!(text, "not:")?;
    }
    for refused in &found.refused {
        let Refused { drive, reason, relax, within } = refused;
        let within = within.as_ref().map_or(String::new(), |most| {
            let iops = Rate(most.iops);
            format!("; {} of them do {iops} IOPS ({})", most.drives, most.kind.word())
        });
        writeln!(text, "  {drive:<24} {reason}: try {relax}{within}")?;
    }
    Ok(())
}

/// The drive that gets nearest to the goal, and how near.
fn nearest(found: &Found) -> Option<String> {
    let first = found.refused.first()?;
    let most = first.within.as_ref()?;
    let iops = Rate(most.iops);
    Some(format!("{} x {} with {iops} IOPS ({})", most.drives, first.drive, most.kind.word()))
}
