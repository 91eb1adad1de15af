//! From a goal to systems: the listing of a search.

use ::catalogue::{Catalogue, Kind};
use anyhow::Result;
use block::{Rate, Text};
use plan::search::{Found, Goal, Refused, search};

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
        false => output::print(&listing(&goal, &found)?)?,
    }
    Ok(if found.candidates.is_empty() { Exit::Missed } else { Exit::Good })
}

fn adapter_id(args: &Args, catalogue: &Catalogue) -> Result<String> {
    let name = args.system.adapter.as_deref().unwrap_or_default();
    let part = catalogue.part(name).map_err(|error| UsageError(format!("--adapter: {error}")))?;
    Ok(part.id.clone())
}

fn listing(goal: &Goal, found: &Found) -> Result<Text> {
    let mut text = Text::new();
    let reads = percent(goal.work.read_share);
    let size = goal.work.size_bytes;
    writeln!(
        text,
        "{} IOPS of {size} B, {reads} % reads, reached by {}; predicted, in brackets the least \
         sure figure that a number rests on; * is beaten by none",
        Rate(goal.iops),
        if goal.confident { "p10" } else { "the median" }
    )?;
    for c in &found.candidates {
        let known = |kind: Option<Kind>| kind.unwrap_or(Kind::Derived).word();
        let price = match (c.price, c.break_even) {
            (Some(price), _) => format!("${price:.0} ({})", known(c.price_kind)),
            (None, Some(even)) => format!("not known; even at ${even:.0} each (derived)"),
            (None, None) => "not known".to_owned(),
        };
        let power = match c.power {
            Some(power) => format!("{power:.0} W ({})", known(c.power_kind)),
            None => "power not known".to_owned(),
        };
        let range = c.range.map_or(String::new(), |range| {
            format!(", p10 {}, p90 {}", Rate(range.p10), Rate(range.p90))
        });
        let mark = if c.pareto { '*' } else { ' ' };
        writeln!(
            text,
            "{mark} {:>4} x {:<24} on {:>3} cards  {:>6} IOPS {:<10} limit {:<9} {price}, \
             {power}{range}",
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
    writeln!(text, "not:")?;
    for refused in &found.refused {
        let Refused { drive, reason, relax, within } = refused;
        let within = within.as_ref().map_or(String::new(), |most| {
            let iops = Rate(most.iops);
            format!("; {} of them do {iops} IOPS ({})", most.drives, most.kind.word())
        });
        writeln!(text, "  {drive:<24} {reason}: try {relax}{within}")?;
    }
    super::sized::not_sold(&mut text, goal.year, &found.not_sold)?;
    Ok(text)
}

/// The drive that gets nearest to the goal, and how near.
fn nearest(found: &Found) -> Option<String> {
    let first = found.refused.first()?;
    let most = first.within.as_ref()?;
    let iops = Rate(most.iops);
    Some(format!("{} x {} with {iops} IOPS ({})", most.drives, first.drive, most.kind.word()))
}
