//! Prediction for one system.

use ::catalogue::{PriceTag, price_words};
use anyhow::Result;
use block::{Rate, Text};
use plan::answer::{Answer, Range};
use plan::bill::Bill;
use plan::chance::{Chance, chance};
use plan::cost::{Cost, Sum, cost};
use plan::predict::{Fall, Limit, Prediction, WhatIf, bound, limit, waterfall, what_if};
use plan::system::rests_on;
use report::{bytes_per_second, span};
use serde_json::json;

use super::screen::Screen;
use super::{Args, blame, charts, page, percent, write_page};
use crate::exit::Exit;
use crate::output;

/// Predicts one bill.
pub fn predicted(args: &Args, goal: Option<f64>, bill: &Bill) -> Result<Exit> {
    let usage = |error| blame(args.bill.as_deref(), error);
    let found = Answer::of(bill, args.draws, args.seed).map_err(usage)?;
    // The draws are of the network alone: a goal is corrected as the answer is.
    let alone = goal.map(|goal| goal / found.evidence.middle);
    let drawn = chance(bill, args.draws, args.seed, alone).map_err(usage)?;
    let what_ifs = what_if(bill).map_err(usage)?;
    let answer = Whole {
        bill,
        falls: waterfall(bill).map_err(usage)?,
        limit: limit(bill, &what_ifs).map_err(usage)?,
        what_ifs,
        drawn,
        most: bound(bill).map_err(usage)?,
        costs: cost(bill),
        goal,
        found,
    };
    write_page(args, || page::prediction(&answer))?;
    match args.json {
        true => output::json(&answer.json()?)?,
        false if args.details => output::print(&answer.text()?)?,
        false => output::print(&answer.screen())?,
    }
    let missed = goal.is_some_and(|goal| answer.found.iops < goal * 0.999);
    Ok(if missed { Exit::Missed } else { Exit::Good })
}

/// Everything that is known of one bill.
pub struct Whole<'a> {
    /// The bill.
    pub bill: &'a Bill,
    /// Rate and latency, with their ranges.
    pub found: Answer,
    /// Draws of its figures, by the network alone.
    pub drawn: Chance,
    /// The limits of the prediction.
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

impl Whole<'_> {
    /// The middle, and the ends of the range that holds eight of ten published results.
    fn answer(&self) -> serde_json::Value {
        let Answer { iops, bytes_per_s, latency_s, range, evidence, uncorrected } = &self.found;
        let kind = uncorrected.kind;
        let at = |rate: f64| {
            let factor = rate / iops;
            json!({
                "iops": rate,
                "bytes_per_s": bytes_per_s * factor,
                "latency_s": latency_s / factor,
                "kind": kind,
            })
        };
        json!({
            "class": evidence.class,
            "evidence": evidence.learned,
            "p50": at(*iops),
            "p10": range.map(|range| at(range.p10)),
            "p90": range.map(|range| at(range.p90)),
            "kind": kind,
        })
    }

    fn json(&self) -> Result<String> {
        let document = json!({
            "name": self.bill.name,
            "origin": "simulated",
            "kind": self.found.uncorrected.kind,
            "work": self.bill.work,
            "in_flight": self.bill.setup.in_flight,
            "prediction": {
                "iops": self.found.iops,
                "bytes_per_s": self.found.bytes_per_s,
                "latency_s": self.found.latency_s,
                "range": self.found.range,
            },
            "uncorrected": self.found.uncorrected,
            "bound_iops": self.most,
            "chance": self.drawn,
            "answer": self.answer(),
            "limit": self.limit,
            "waterfall": self.falls,
            "what_if": self.what_ifs,
            "cost": self.costs,
            "goal": self.goal,
        });
        Ok(serde_json::to_string_pretty(&document)? + "\n")
    }

    /// The answer on one screen.
    fn screen(&self) -> Text {
        // The line "free" says so.
        let said = |remark: &&String| !remark.starts_with("no software given");
        let notes = self.found.uncorrected.remarks.iter().filter(said);
        let notes: Vec<String> = notes.cloned().collect();
        self.head()
            .text(&notes, "details: figures, parts and charts by --details; a page by --html FILE")
    }

    /// The answer without notes.
    fn head(&self) -> Screen {
        let Whole { bill, found, drawn, costs, .. } = self;
        let (evidence, alone) = (&found.evidence, &found.uncorrected);
        let reads = percent(bill.work.read_share);
        let mut screen = Screen::default();
        let size = report::size(bill.work.size_bytes.round() as u64);
        screen.words(&format!("{}: {size}, {reads} % reads, {}", bill.name, bill.in_flight()));
        let class = evidence.class.title();
        let ends = match found.range {
            Some(Range { p10, p90 }) => format!(", p10 {}, p90 {}", Rate(p10), Rate(p90)),
            None => format!("; no interval: nobody published results of its class, {class}"),
        };
        screen.field("IOPS", &format!("{} predicted{ends}", Rate(found.iops)));
        let at = |seconds: f64| span(seconds * 1e9);
        let ends = found.latency_range().map_or(String::new(), |(short, long)| {
            format!(", p10 {}, p90 {}", at(short), at(long))
        });
        screen.field("latency", &format!("{} on average{ends}", at(found.latency_s)));
        screen.field("bandwidth", &bytes_per_second(found.bytes_per_s));
        if let Some(limit) = &self.limit {
            screen.field("limited by", &limit.words());
        }
        if let Some(best) = self.what_ifs.first().filter(|best| best.gain > 1.0005) {
            let (level, gain) = (best.level.word(), (best.gain - 1.0) * 100.0);
            screen.field("next", &format!("{level} ten percent faster: {gain:+.1} %"));
        }
        if let (Some(goal), Some(reaches)) = (self.goal, drawn.reaches) {
            let percent = reaches * 100.0;
            let goal = Rate(goal);
            screen.field("goal", &format!("{goal} IOPS: reached in {percent:.0} % of the draws"));
        }
        screen.field("price", &total(&costs.price, "$", ""));
        let prices = price_words(&costs.tags());
        if !prices.is_empty() {
            screen.field("prices", &prices);
        }
        screen.field("power", &total(&costs.power, "", " W"));
        if bill.server.is_some() {
            screen.field("height", &total(&costs.height, "", " U"));
        }
        screen.field("rests on", &rests_on(&alone.inputs));
        if let Some(learned) = &evidence.learned {
            let of = if learned.pooled { ", few of its kind and all others" } else { "" };
            let (rows, publishers) = (learned.rows, learned.publishers);
            let words = format!("{rows} published results by {publishers} publishers, {class}{of}");
            screen.field("interval", &words);
        }
        screen.field("uncorrected", &format!("{} IOPS by these figures alone", Rate(alone.iops)));
        if let Some(words) = unsaid(bill.server.is_some(), bill.software.is_some(), true) {
            screen.field("free", &words);
        }
        screen
    }

    /// Everything.
    fn text(&self) -> Result<Text> {
        let mut text = self.head().all();
        if let Some(used) = self.found.uncorrected.processor {
            let of = match self.bill.unused_cores() {
                Some(jobs) => format!("the cores of {jobs} jobs"),
                None => "all cores".to_owned(),
            };
            writeln!(text, "  processor   {:.1} % of {of}, uncorrected", used * 100.0)?;
        }
        let Chance { iops, draws, seed, limits, .. } = &self.drawn;
        let (p10, p90) = (Rate(iops.p10), Rate(iops.p90));
        writeln!(text, "  draws       p10 {p10}, p90 {p90} of {draws}, seed {seed}, uncorrected")?;
        let limits: Vec<String> =
            limits.iter().map(|(name, p)| format!("{name} {:.0} %", p * 100.0)).collect();
        writeln!(text, "  in draws    {}", limits.join(", "))?;
        writeln!(text, "  bound       {} IOPS, whatever the distributions", Rate(self.most))?;
        for chart in [
            charts::falls(&self.falls, &self.drawn),
            charts::busy(&self.found.uncorrected),
            charts::gains(&self.what_ifs),
        ] {
            text.append(&chart.text(charts::COLUMNS));
        }
        parts(&mut text, &self.costs, &self.bill.extras)?;
        basis(&mut text, self.bill, &self.found.uncorrected)?;
        Ok(text)
    }
}

/// Parts that an answer takes as free because no flag describes them; `None` if all are described.
pub fn unsaid(server: bool, software: bool, ports: bool) -> Option<String> {
    let all = [
        (server, "cores, lanes and bays (--server)"),
        (software, "CPU time (--software)"),
        (ports, "ports (--link)"),
    ];
    let free: Vec<&str> = all.iter().filter(|(said, _)| !said).map(|(_, words)| *words).collect();
    (!free.is_empty()).then(|| format!("not given, so unlimited: {}", free.join(", ")))
}

fn parts(text: &mut Text, costs: &Cost, extras: &[(String, f64)]) -> Result<()> {
    writeln!(text, "parts")?;
    for line in &costs.lines {
        let price = priced(line.price.as_ref());
        let power = match line.power {
            Some((power, kind)) => format!("{power:.1} W ({})", kind.word()),
            None => "power not known".to_owned(),
        };
        writeln!(text, "  {:>4} x {:<24} {power:<18} {price}", line.count, line.part)?;
    }
    for (what, price) in extras {
        writeln!(text, "         {what:<24} ${price:.0} (the bill says so)")?;
    }
    writeln!(text, "  price {}", total(&costs.price, "$", ""))?;
    writeln!(text, "  power {}", total(&costs.power, "", " W"))?;
    writeln!(text, "  height of servers {}", total(&costs.height, "", " U"))?;
    Ok(())
}

/// The price of a part, with its kind, its date and its origin.
pub fn priced(tag: Option<&PriceTag>) -> String {
    match tag {
        Some(PriceTag { price, kind, date, source, .. }) => {
            format!("${price:.0} ({}, {date}, {source})", kind.word())
        }
        None => "price not known".to_owned(),
    }
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
            "  {} {}: {}{range} ({}, {}: {title})",
            input.part,
            input.quantity,
            show(known.value),
            known.basis.word(),
            known.kind.word()
        )?;
    }
    writeln!(text, "solved by {}", found.method)?;
    for remark in &found.remarks {
        writeln!(text, "note: {remark}")?;
    }
    Ok(())
}
