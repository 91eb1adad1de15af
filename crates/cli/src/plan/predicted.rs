//! Prediction for one system.

use anyhow::Result;
use block::{Rate, Text};
use plan::bill::{Bill, Work};
use plan::chance::{Chance, chance};
use plan::cost::{Cost, Sum, cost};
use plan::evidence::{Sure, sure};
use plan::predict::{Fall, Limit, Prediction, WhatIf, bound, limit, predict, waterfall, what_if};
use plan::system::{Tweak, rests_on};
use serde_json::json;

use super::{Args, blame, charts, page, percent, write_page};
use crate::exit::Exit;
use crate::output;

/// Predicts one bill.
pub fn predicted(args: &Args, goal: Option<f64>, bill: &Bill) -> Result<Exit> {
    let usage = |error| blame(args.bill.as_deref(), error);
    let found = predict(bill, &Tweak::default()).map_err(usage)?;
    let drawn = chance(bill, args.draws, args.seed, goal).map_err(usage)?;
    let what_ifs = what_if(bill).map_err(usage)?;
    let answer = Answer {
        bill,
        falls: waterfall(bill).map_err(usage)?,
        limit: limit(bill, &what_ifs).map_err(usage)?,
        what_ifs,
        evidence: sure(bill, &found, drawn.spread()).map_err(usage)?,
        sure: drawn,
        most: bound(bill).map_err(usage)?,
        costs: cost(bill),
        goal,
        found,
    };
    write_page(args, || page::prediction(&answer))?;
    match args.json {
        true => output::json(&answer.json()?)?,
        false => output::print(&answer.text()?)?,
    }
    let missed = goal.is_some_and(|goal| answer.found.iops < goal * 0.999);
    Ok(if missed { Exit::Missed } else { Exit::Good })
}

/// Everything reported about one bill.
pub struct Answer<'a> {
    /// The bill.
    pub bill: &'a Bill,
    /// Predicted performance.
    pub found: Prediction,
    /// Uncertainty from the figures' intervals.
    pub sure: Chance,
    /// Uncertainty from published results of such systems.
    pub evidence: Sure,
    /// Bottleneck.
    pub limit: Option<Limit>,
    /// Upper bound from means alone, in I/Os per second.
    pub most: f64,
    /// Rates from the drives to the whole system.
    pub falls: Vec<Fall>,
    /// Gains from more of each level.
    pub what_ifs: Vec<WhatIf>,
    /// Money, watts, rack units.
    pub costs: Cost,
    /// Required I/Os per second.
    pub goal: Option<f64>,
}

impl Answer<'_> {
    /// The middle, and where eight of ten published results of such systems would be.
    fn answer(&self) -> serde_json::Value {
        let kind = self.found.kind;
        let at = |factor: f64| {
            json!({
                "iops": self.found.iops * factor,
                "bytes_per_s": self.found.bytes_per_s * factor,
                "latency_s": self.found.latency_s / factor,
                "kind": kind,
            })
        };
        json!({
            "class": self.evidence.class,
            "evidence": self.evidence.learned,
            "p50": at(self.evidence.middle),
            "p10": self.evidence.ends.map(|(low, _)| at(low)),
            "p90": self.evidence.ends.map(|(_, high)| at(high)),
            "kind": kind,
        })
    }

    fn json(&self) -> Result<String> {
        let document = json!({
            "name": self.bill.name,
            "origin": "simulated",
            "kind": self.found.kind,
            "work": self.bill.work,
            "in_flight": self.bill.setup.in_flight,
            "prediction": self.found,
            "bound_iops": self.most,
            "chance": self.sure,
            "answer": self.answer(),
            "limit": self.limit,
            "waterfall": self.falls,
            "what_if": self.what_ifs,
            "cost": self.costs,
            "goal": self.goal,
        });
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    fn text(&self) -> Result<Text> {
        let mut text = Text::new();
        summary(&mut text, self)?;
        writeln!(text, "  bound      {} IOPS, whatever the distributions", Rate(self.most))?;
        for chart in [
            charts::falls(&self.falls, &self.sure),
            charts::busy(&self.found),
            charts::gains(&self.what_ifs),
        ] {
            text.append(&chart.text(charts::COLUMNS));
        }
        parts(&mut text, &self.costs, &self.bill.extras)?;
        basis(&mut text, self.bill, &self.found)?;
        Ok(text)
    }
}

fn summary(text: &mut Text, answer: &Answer) -> Result<()> {
    let Answer { bill, found, sure, evidence, .. } = answer;
    let Work { size_bytes, read_share, .. } = bill.work;
    let reads = percent(read_share);
    writeln!(
        text,
        "{}: {size_bytes} B, {reads} % reads, {}; predicted",
        bill.name,
        bill.in_flight()
    )?;
    let middle = evidence.middle;
    let micros = |seconds: f64| seconds * 1e6;
    let class = evidence.class.title();
    let (rate, latency) = (found.iops * middle, micros(found.latency_s / middle));
    match evidence.ends {
        Some((low, high)) => {
            let ends = (Rate(found.iops * low), Rate(found.iops * high));
            writeln!(text, "  IOPS       {}, p10 {}, p90 {}", Rate(rate), ends.0, ends.1)?;
            writeln!(
                text,
                "  latency    {latency:.1} us on average, p10 {:.1}, p90 {:.1}; percentiles of \
                 I/Os need a calibrated device",
                micros(found.latency_s / high),
                micros(found.latency_s / low)
            )?;
        }
        None => {
            writeln!(text, "  IOPS       {}; no evidence for this class: {class}", Rate(rate))?;
            writeln!(
                text,
                "  latency    {latency:.1} us on average; percentiles of I/Os need a calibrated \
                 device"
            )?;
        }
    }
    writeln!(text, "  bandwidth  {}B/s", Rate(found.bytes_per_s * middle))?;
    if let Some(learned) = &evidence.learned {
        let of = if learned.pooled { "its kind, few, and of all others" } else { "its kind" };
        writeln!(
            text,
            "  evidence   {class}: {} published results by {} publishers, of {of}",
            learned.rows, learned.publishers
        )?;
    }
    writeln!(
        text,
        "  figures    {} IOPS by the network alone, p10 {}, p90 {} of {} draws, seed {}",
        Rate(found.iops),
        Rate(sure.iops.p10),
        Rate(sure.iops.p90),
        sure.draws,
        sure.seed
    )?;
    if let Some(used) = found.processor {
        let of = match bill.unused_cores() {
            Some(jobs) => format!("the cores of {jobs} jobs"),
            None => "all cores".to_owned(),
        };
        writeln!(text, "  processor  {:.1} % of {of}", used * 100.0)?;
    }
    writeln!(text, "  rests on   {}", rests_on(&found.inputs))?;
    if let Some(limit) = &answer.limit {
        writeln!(text, "  limited by {}", limit.words())?;
    }
    draws(text, answer)
}

/// Results of the draws: bottlenecks, and the share that meets the goal.
fn draws(text: &mut Text, Answer { sure, goal, .. }: &Answer) -> Result<()> {
    let limits: Vec<String> =
        sure.limits.iter().map(|(name, p)| format!("{name} {:.0} %", p * 100.0)).collect();
    writeln!(text, "  in draws   {}", limits.join(", "))?;
    if let (Some(goal), Some(reaches)) = (goal, sure.reaches) {
        let percent = reaches * 100.0;
        writeln!(
            text,
            "  goal       {} IOPS: reached in {percent:.0} % of the samples",
            Rate(*goal)
        )?;
    }
    Ok(())
}

fn parts(text: &mut Text, costs: &Cost, extras: &[(String, f64)]) -> Result<()> {
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

/// A sum with its kind of source, or the known part of it.
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

fn basis(text: &mut Text, bill: &Bill, found: &Prediction) -> Result<()> {
    writeln!(text, "figures, with what they may be")?;
    for input in &found.inputs {
        let Some(quantity) = ::catalogue::quantity_named(input.quantity) else { continue };
        let known = &input.known;
        let show = |value| ::catalogue::pretty(value, quantity);
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
