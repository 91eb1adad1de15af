//! What one system will do.

use std::fmt::Write;

use anyhow::Result;
use block::Rate;
use plan::bill::{Bill, Work};
use plan::chance::{Chance, chance};
use plan::cost::{Cost, Sum, cost};
use plan::predict::{Fall, Prediction, WhatIf, bound, predict, waterfall, what_if};
use plan::system::{Tweak, rests_on};
use serde_json::json;

use super::{Args, blame, charts, page, percent, write_page};
use crate::exit::Exit;
use crate::output::print;

/// Predicts one bill.
pub fn predicted(args: &Args, goal: Option<f64>, bill: &Bill) -> Result<Exit> {
    let usage = |error| blame(args.bill.as_deref(), error);
    let found = predict(bill, &Tweak::default()).map_err(usage)?;
    let answer = Answer {
        bill,
        falls: waterfall(bill).map_err(usage)?,
        what_ifs: what_if(bill).map_err(usage)?,
        sure: chance(bill, args.draws, args.seed, goal).map_err(usage)?,
        most: bound(bill).map_err(usage)?,
        costs: cost(bill),
        goal,
        found,
    };
    write_page(args, || page::prediction(&answer))?;
    print(&if args.json { answer.json()? } else { answer.text()? })?;
    let missed = goal.is_some_and(|goal| answer.found.iops < goal * 0.999);
    Ok(if missed { Exit::Missed } else { Exit::Good })
}

/// Everything that is told of one bill.
pub struct Answer<'a> {
    /// The bill.
    pub bill: &'a Bill,
    /// What it will do.
    pub found: Prediction,
    /// How sure that is.
    pub sure: Chance,
    /// The bound of means alone, in I/Os per second.
    pub most: f64,
    /// From the drives to the whole.
    pub falls: Vec<Fall>,
    /// What more of each level would bring.
    pub what_ifs: Vec<WhatIf>,
    /// Money, watts, rack units.
    pub costs: Cost,
    /// I/Os per second that are wanted.
    pub goal: Option<f64>,
}

impl Answer<'_> {
    fn json(&self) -> Result<String> {
        let document = json!({
            "name": self.bill.name,
            "origin": "simulated",
            "kind": self.found.kind,
            "work": self.bill.work,
            "prediction": self.found,
            "bound_iops": self.most,
            "chance": self.sure,
            "waterfall": self.falls,
            "what_if": self.what_ifs,
            "cost": self.costs,
            "goal": self.goal,
        });
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    fn text(&self) -> Result<String> {
        let mut text = String::new();
        summary(&mut text, self.bill, &self.found, &self.sure, self.goal)?;
        writeln!(text, "  bound      {} IOPS, whatever the distributions", Rate(self.most))?;
        for chart in [
            charts::falls(&self.falls, &self.sure),
            charts::busy(&self.found),
            charts::gains(&self.what_ifs),
        ] {
            text += &chart.text(charts::COLUMNS);
        }
        parts(&mut text, &self.costs, &self.bill.extras)?;
        basis(&mut text, self.bill, &self.found)?;
        Ok(text)
    }
}

fn summary(
    text: &mut String,
    bill: &Bill,
    found: &Prediction,
    sure: &Chance,
    goal: Option<f64>,
) -> Result<()> {
    let Work { size_bytes, read_share, outstanding } = bill.work;
    let reads = percent(read_share);
    writeln!(
        text,
        "{}: {size_bytes} B, {reads} % reads, {outstanding} under way on each; predicted",
        bill.name
    )?;
    let (low, high) = (Rate(sure.iops.p10), Rate(sure.iops.p90));
    writeln!(
        text,
        "  IOPS       {}, p10 {low}, p50 {}, p90 {high} of {} draws, seed {}",
        Rate(found.iops),
        Rate(sure.iops.p50),
        sure.draws,
        sure.seed
    )?;
    writeln!(text, "  bandwidth  {}B/s", Rate(found.bytes_per_s))?;
    let micros = |seconds: f64| seconds * 1e6;
    writeln!(
        text,
        "  latency    {:.1} us on average, p10 {:.1}, p90 {:.1} of the draws; percentiles of I/Os \
         need a calibrated device",
        micros(found.latency_s),
        micros(sure.latency_s.p10),
        micros(sure.latency_s.p90)
    )?;
    if let Some(used) = found.processor {
        writeln!(text, "  processor  {:.1} % of all cores", used * 100.0)?;
    }
    writeln!(text, "  rests on   {}", rests_on(&found.inputs))?;
    let limits: Vec<String> =
        sure.limits.iter().map(|(name, p)| format!("{name} {:.0} %", p * 100.0)).collect();
    writeln!(text, "  limited by {} of the draws", limits.join(", "))?;
    if let (Some(goal), Some(reaches)) = (goal, sure.reaches) {
        let percent = reaches * 100.0;
        writeln!(text, "  goal       {} IOPS: reached in {percent:.0} % of the draws", Rate(goal))?;
    }
    Ok(())
}

fn parts(text: &mut String, costs: &Cost, extras: &[(String, f64)]) -> Result<()> {
    writeln!(text, "parts")?;
    for line in &costs.lines {
        let price = match line.price {
            Some((price, kind)) => format!("${price:.0} ({})", kind.word()),
            None => "price not known".to_owned(),
        };
        let power = match line.power {
            Some((power, kind)) => format!("{power:.1} W ({})", kind.word()),
            None => "power not known".to_owned(),
        };
        writeln!(text, "  {:>4} x {:<24} {price:<20} {power}", line.count, line.part)?;
    }
    for (what, price) in extras {
        writeln!(text, "         {what:<24} ${price:.0} (the bill says so)")?;
    }
    writeln!(text, "  price {}", total(&costs.price, "$", ""))?;
    writeln!(text, "  power {}", total(&costs.power, "", " W"))?;
    writeln!(text, "  height of servers {}", total(&costs.height, "", " U"))?;
    Ok(())
}

/// A sum with how it is known, or what is known of it.
pub fn total(sum: &Sum, before: &str, after: &str) -> String {
    let amount = |value: f64| format!("{before}{value:.0}{after}");
    let kind = sum.kind.map_or(String::new(), |kind| format!(" ({})", kind.word()));
    match sum.total() {
        Some(total) if sum.low < sum.high => {
            format!("{}, {} to {}{kind}", amount(total), amount(sum.low), amount(sum.high))
        }
        Some(total) => amount(total) + &kind,
        None if sum.known == 0.0 => "not known".to_owned(),
        None => {
            let without = sum.unknown.join(", ");
            format!("at least {}{kind}, without {without}", amount(sum.known))
        }
    }
}

fn basis(text: &mut String, bill: &Bill, found: &Prediction) -> Result<()> {
    writeln!(text, "figures, with what they may be")?;
    for input in &found.inputs {
        let Some(quantity) = plan::catalogue::quantity_named(input.quantity) else { continue };
        let known = &input.known;
        let show = |value| plan::catalogue::pretty(value, quantity);
        let source = bill.catalogue.sources.get(&known.source);
        let title = source.map_or(known.source.as_str(), |source| &source.title);
        let range = match known.low < known.high {
            true => format!(", {} to {}", show(known.low), show(known.high)),
            false => String::new(),
        };
        writeln!(
            text,
            "  {} {}: {}{range} ({}: {title})",
            input.part,
            input.quantity,
            show(known.value),
            known.kind.word()
        )?;
    }
    writeln!(text, "solved by {}", found.method)?;
    for remark in &found.remarks {
        writeln!(text, "note: {remark}")?;
    }
    Ok(())
}
