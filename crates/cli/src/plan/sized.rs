//! Listing of a sizing: the systems that meet the requirements.

use std::collections::BTreeMap;

use ::catalogue::unit::Dimension;
use ::catalogue::{Class, Kind, TODAY, price_words};
use anyhow::Result;
use block::{Rate, Text};
use clap::{Args as Flags, ValueEnum};
use plan::bill::{Bill, Down, HOSTS_MAX, Raid, Setup};
use plan::size::{Need, Sized, Sizing, size};
use report::span;

use super::predicted::unsaid;
use super::screen::Screen;
use super::searched::{ORDER, SHOWN, UNSOURCED, counts, lacking, others_prices, ranges, rests};
use super::{Args, amount, percent};
use crate::exit::{Exit, UsageError};
use crate::output;

/// Requirements other than the rate. Any of them sizes hosts, not one server.
#[derive(Flags, Debug, Default)]
#[command(next_help_heading = "Sizing, with --goal")]
pub struct Wanted {
    /// Maximum number of hosts.
    #[arg(long, value_name = "N", requires = "goal", conflicts_with_all = super::GIVEN)]
    pub hosts: Option<u32>,
    /// Maximum drives per host [default: 64].
    #[arg(long, value_name = "N", requires = "goal", conflicts_with_all = super::GIVEN)]
    pub drives_max: Option<u32>,
    /// Maximum mean response time at the goal, such as 500us.
    #[arg(long, value_name = "TIME", requires = "goal", conflicts_with_all = super::GIVEN)]
    pub latency: Option<String>,
    /// Maximum 99th percentile at the goal; estimated from published runs.
    #[arg(long, value_name = "TIME", requires = "goal", conflicts_with_all = super::GIVEN)]
    pub p99: Option<String>,
    /// Usable capacity, after spares, parity and copies, such as 100TB.
    #[arg(long, value_name = "BYTES", requires = "goal", conflicts_with_all = super::GIVEN)]
    pub capacity: Option<String>,
    /// Growth of rate and capacity, in percent a year.
    #[arg(long, value_name = "PERCENT", requires = "years", conflicts_with_all = super::GIVEN)]
    pub growth: Option<f64>,
    /// Years of growth to plan for.
    #[arg(long, value_name = "N", requires = "growth", conflicts_with_all = super::GIVEN)]
    pub years: Option<f64>,
    /// RAID level within a host.
    #[arg(long, value_name = "LEVEL", conflicts_with_all = ["bill", "compare"])]
    pub raid: Option<Level>,
    /// Drives of a parity group [default: all drives of a host].
    #[arg(long, value_name = "N", requires = "raid", conflicts_with_all = super::GIVEN)]
    pub width: Option<u32>,
    /// Hot spares of each host.
    #[arg(long, value_name = "N", requires = "goal", conflicts_with_all = super::GIVEN)]
    pub spares: Option<u32>,
    /// Copies of the data, on different hosts.
    #[arg(long, value_name = "N", requires = "hosts", conflicts_with_all = super::GIVEN)]
    pub replicas: Option<u32>,
    /// Drives of a host that may be down while the goal is still reached.
    #[arg(long, value_name = "N", requires = "goal", conflicts_with_all = super::GIVEN)]
    pub down_drives: Option<u32>,
    /// Hosts that may be down while the goal is still reached.
    #[arg(long, value_name = "N", requires = "hosts", conflicts_with_all = super::GIVEN)]
    pub down_hosts: Option<u32>,
    /// The link of each host's ports, such as ethernet-100: NVMe/TCP.
    #[arg(long, value_name = "PART", conflicts_with_all = ["bill", "compare"])]
    pub link: Option<String>,
    /// Ports of each host [default: 1].
    #[arg(long, value_name = "N", requires = "link", conflicts_with_all = ["bill", "compare"])]
    pub ports: Option<u32>,
    /// Maximum rack units of the hosts.
    #[arg(long, value_name = "UNITS", requires = "server", conflicts_with_all = super::GIVEN)]
    pub height_max: Option<f64>,
}

/// RAID levels by their numbers.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    #[value(name = "0")]
    #[allow(missing_docs)]
    None,
    #[value(name = "1", alias = "10")]
    #[allow(missing_docs)]
    Mirror,
    #[value(name = "5", alias = "50")]
    #[allow(missing_docs)]
    Single,
    #[value(name = "6", alias = "60")]
    #[allow(missing_docs)]
    Double,
}

impl Level {
    /// The level.
    pub fn raid(self) -> Raid {
        match self {
            Level::None => Raid::None,
            Level::Mirror => Raid::Mirror,
            Level::Single => Raid::Single,
            Level::Double => Raid::Double,
        }
    }
}

impl Wanted {
    /// First flag given for the surroundings of drives.
    pub fn around(&self) -> Option<&'static str> {
        let given = [("--raid", self.raid.is_some()), ("--link", self.link.is_some())];
        given.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
    }

    /// Whether more is requested than a rate of one server.
    pub fn asked(&self) -> bool {
        let counts = [self.hosts, self.drives_max, self.spares, self.replicas, self.down_drives];
        let texts = [&self.latency, &self.p99, &self.capacity, &self.link];
        counts.iter().any(Option::is_some)
            || texts.iter().any(|text| text.is_some())
            || self.growth.is_some()
            || self.raid.is_some()
            || self.height_max.is_some()
    }
}

/// Year of the flags: today's, another one, or any.
pub fn year(args: &Args) -> Result<Option<u32>, UsageError> {
    match args.year.as_deref() {
        None => Ok(Some(TODAY)),
        Some("any") => Ok(None),
        Some(text) => match text.parse() {
            Ok(year) if (1950..=2100).contains(&year) => Ok(Some(year)),
            _ => Err(UsageError(format!("--year: '{text}': 1950 to 2100, or any"))),
        },
    }
}

/// Searches for systems that meet the requirements.
pub fn sized(
    args: &Args,
    iops: f64,
    (price_max, power_max): (Option<f64>, Option<f64>),
    bill: Bill,
) -> Result<Exit> {
    let flags = &args.sizing;
    let time = |flag, text| amount(flag, text, Dimension::TIME, (1e-9, 1e4));
    let within = |flag: &str, value: u32, least: u32, most: u32| match value {
        value if (least..=most).contains(&value) => Ok(value),
        _ => Err(UsageError(format!("{flag}: {least} to {most}"))),
    };
    let (growth, years) = (flags.growth.unwrap_or(0.0), flags.years.unwrap_or(0.0));
    if !(-50.0..=1000.0).contains(&growth) {
        return Err(UsageError("--growth: -50 to 1000 percent a year".to_owned()).into());
    }
    if !(0.0..=30.0).contains(&years) {
        return Err(UsageError("--years: 0 to 30".to_owned()).into());
    }
    let link = flags.link.as_ref().map(|name| link(name, &bill)).transpose()?;
    let ports = within("--ports", flags.ports.unwrap_or(1), 1, 64)?;
    let ports = link.map(|link| (link, ports));
    let down = Down {
        drives: within("--down-drives", flags.down_drives.unwrap_or(0), 0, 1000)?,
        hosts: within("--down-hosts", flags.down_hosts.unwrap_or(0), 0, 15)?,
    };
    let adapter = args.system.adapter.as_ref().map(|name| bill.catalogue.part(name));
    let adapter = adapter.transpose().map_err(|error| UsageError(format!("--adapter: {error}")))?;
    let need = Need {
        confident: args.confident,
        draws: (args.draws, args.seed),
        ranges: ranges(args),
        latency_s: time("--latency", &flags.latency)?,
        p99_s: time("--p99", &flags.p99)?,
        capacity: amount("--capacity", &flags.capacity, Dimension::BYTES, (1.0, 1e21))?,
        growth: growth / 100.0,
        years,
        raid: flags.raid.map_or(Raid::None, Level::raid),
        setup: Setup {
            width: flags.width.map(|width| within("--width", width, 2, 1000)).transpose()?,
            spares: within("--spares", flags.spares.unwrap_or(0), 0, 1000)?,
            replicas: within("--replicas", flags.replicas.unwrap_or(1), 1, 16)?,
            down,
            ..Setup::default()
        },
        hosts_max: within("--hosts", flags.hosts.unwrap_or(1), 1, HOSTS_MAX)?,
        drives_max: within("--drives-max", flags.drives_max.unwrap_or(64), 1, 2048)?,
        server: bill.server,
        software: bill.software,
        adapter: adapter.map(|part| part.id.clone()),
        ports,
        price_max,
        power_max,
        height_max: flags.height_max,
        year: year(args)?,
        interface: args.interface.map(|interface| interface.word().to_owned()),
        ..Need::rate(iops, bill.work)
    };
    let found = size(&need, &bill.catalogue);
    match args.json {
        true => output::document(&found)?,
        false if args.details => output::print(&listing(&need, &found)?)?,
        false => output::print(&screen(args, &need, &found)?)?,
    }
    Ok(if found.found.is_empty() { Exit::Missed } else { Exit::Good })
}

/// The link of a flag.
fn link(name: &str, bill: &Bill) -> Result<String, UsageError> {
    let part = bill.catalogue.part(name).map_err(|e| UsageError(format!("--link: {e}")))?;
    match part.class {
        Class::Link => Ok(part.id.clone()),
        other => Err(UsageError(format!("--link: {} is a {}", part.id, other.word()))),
    }
}

/// The need in words.
fn wanted(need: &Need, sizing: &Sizing) -> String {
    let (size, reads) =
        (report::size(need.work.size_bytes.round() as u64), percent(need.work.read_share));
    let mut words = format!("{} IOPS of {size}, {reads} % reads", Rate(sizing.iops));
    if let Some(bytes) = sizing.capacity {
        words += &format!(", {} for data", space(bytes));
    }
    if need.years > 0.0 {
        words += &format!(", after {} years at {} % a year", need.years, percent(need.growth));
    }
    let Down { drives, hosts } = need.setup.down;
    for (count, one, many) in
        [(drives, "drive of a host", "drives of a host"), (hosts, "host", "hosts")]
    {
        if count > 0 {
            let what = if count == 1 { one } else { many };
            words += &format!(", with {count} {what} down");
        }
    }
    words + ", reached by " + if need.confident { "p10" } else { "the median" }
}

/// The most frequent reason why no drive reaches it, in words: often one that a flag removes.
fn why_none(sizing: &Sizing) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    sizing.short.iter().for_each(|one| *counts.entry(&one.reason).or_default() += 1);
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    let all = sizing.short.len();
    most.map_or_else(String::new, |(why, count)| format!("; {count} of {all} drives: {why}"))
}

/// The answer on one screen, and below it the refusals if somebody asks for them.
fn screen(args: &Args, need: &Need, sizing: &Sizing) -> Result<Text> {
    let mut screen = Screen::default();
    screen.words(&wanted(need, sizing));
    match sizing.found.first() {
        Some(best) => first(&mut screen, best),
        None => screen.words(&format!("no system reaches it{}", why_none(sizing))),
    }
    let rest = sizing.found.get(1..).unwrap_or_default();
    if !rest.is_empty() {
        screen
            .row("  others             hosts drives   IOPS    p10    p90 limit       price  power");
    }
    for s in rest.iter().take(SHOWN) {
        let end = |end: Option<f64>| end.map_or("-".to_owned(), |rate| Rate(rate).to_string());
        let (p10, p90) = (end(s.range.map(|r| r.p10)), end(s.range.map(|r| r.p90)));
        let price = s.price.map_or("unknown".to_owned(), |price| format!("${price:.0}"));
        let power = s.power.map_or("unknown".to_owned(), |power| format!("{power:.0} W"));
        let (iops, limit) = (Rate(s.iops).to_string(), &s.limit);
        let (drive, hosts, drives) = (&s.drive, s.hosts, s.drives);
        screen.row(&format!(
            "  {drive:<22}{hosts:>2} {drives:>6} {iops:>6} {p10:>6} {p90:>6} {limit:<9} {price:>7} \
             {power:>6}"
        ));
    }
    let of = (rest.len(), sizing.short.len(), sizing.not_sold.len());
    others_prices(&mut screen, rest.iter().take(SHOWN).flat_map(|s| &s.prices));
    counts(&mut screen, args, of, need.year);
    let unsourced = sizing.short.iter().filter(|one| one.reason.contains(UNSOURCED)).count();
    lacking(&mut screen, unsourced);
    let ports = need.ports.is_some();
    if let Some(words) = unsaid(need.server.is_some(), need.software.is_some(), ports) {
        screen.words(&words);
    }
    let mut text = screen.text(&[], ORDER);
    if args.why {
        shorts(&mut text, sizing)?;
    }
    Ok(text)
}

/// The system that comes first.
fn first(screen: &mut Screen, best: &Sized) {
    let Sized { hosts, drives, drive, .. } = best;
    let of = if *hosts == 1 { "host" } else { "hosts" };
    screen.field("system", &format!("{hosts} {of} of {drives} x {drive}"));
    let range = best.range.map_or("; no interval".to_owned(), |range| {
        format!(", p10 {}, p90 {}", Rate(range.p10), Rate(range.p90))
    });
    let down =
        best.iops_down.map_or(String::new(), |down| format!("; {} with that down", Rate(down)));
    screen.field("IOPS", &format!("{} predicted{range}{down}", Rate(best.iops)));
    let p99 = best.p99_s.map_or(String::new(), |p99| {
        format!(", p99 {} ({})", span(p99 * 1e9), best.p99_s_kind.word())
    });
    screen.field("latency", &format!("{} at the goal{p99}", span(best.latency_s * 1e9)));
    if let Some(bytes) = best.usable_bytes {
        screen.field("data", &space(bytes));
    }
    screen.field("decided by", &best.limit);
    let word = |kind: Option<Kind>| kind.unwrap_or(Kind::Derived).word();
    let price = best.price.map_or("not known".to_owned(), |price| {
        format!("${price:.0} ({}: {})", word(best.price_kind), price_words(&best.prices))
    });
    let power = best.power.map(|power| format!("{power:.0} W ({})", word(best.power_kind)));
    let power = power.unwrap_or("not known".to_owned());
    let height = best.height.map_or(String::new(), |height| format!("; height {height} U"));
    screen.field("costs", &format!("price {price}; power {power}{height}"));
    screen.field("rests on", &rests(best.recalled, best.figures, best.kind.word()));
}

/// Each drive that does not reach the goal, with its reason.
fn shorts(text: &mut Text, sizing: &Sizing) -> Result<()> {
    if !sizing.short.is_empty() {
        writeln!(text, "not:")?;
    }
    for short in &sizing.short {
        writeln!(text, "  {:<24} {}", short.drive, short.reason)?;
    }
    Ok(())
}

fn listing(need: &Need, sizing: &Sizing) -> Result<Text> {
    let mut text = Text::new();
    writeln!(
        text,
        "{}; predicted, in brackets the least sure figure that a number rests on; * is beaten by \
         none",
        wanted(need, sizing)
    )?;
    for sized in &sizing.found {
        line(&mut text, sized)?;
    }
    if sizing.found.is_empty() {
        writeln!(text, "nothing does it")?;
    }
    shorts(&mut text, sizing)?;
    not_sold(&mut text, need.year, &sizing.not_sold)?;
    Ok(text)
}

/// Lists the drives that were left out because they are not sold.
pub fn not_sold(text: &mut Text, year: Option<u32>, drives: &[String]) -> std::fmt::Result {
    match (year, drives) {
        (_, []) | (None, _) => Ok(()),
        (Some(year), _) => {
            let count = drives.len();
            writeln!(text, "{count} drives were not sold in {year}: --year YEAR, or --year any")
        }
    }
}

fn line(text: &mut Text, s: &Sized) -> std::fmt::Result {
    let word = |kind: Option<Kind>| kind.unwrap_or(Kind::Derived).word();
    write!(
        text,
        "{} {:>3} hosts x {:>3} x {:<24} {:>6} IOPS ({})",
        if s.pareto { '*' } else { ' ' },
        s.hosts,
        s.drives,
        s.drive,
        Rate(s.iops).to_string(),
        s.kind.word(),
    )?;
    if let Some(range) = s.range {
        write!(text, ", p10 {}, p90 {}", Rate(range.p10), Rate(range.p90))?;
    }
    if let Some(down) = s.iops_down {
        write!(text, ", {} with that down", Rate(down))?;
    }
    write!(text, ", {} at the goal", span(s.latency_s * 1e9))?;
    if let Some(p99) = s.p99_s {
        write!(text, ", p99 {} ({})", span(p99 * 1e9), s.p99_s_kind.word())?;
    }
    if let Some(bytes) = s.usable_bytes {
        write!(text, ", {} for data", space(bytes))?;
    }
    write!(text, ", limit {}", s.limit)?;
    match s.price {
        Some(price) => {
            write!(text, ", ${price:.0} ({}: {})", word(s.price_kind), price_words(&s.prices))?;
        }
        None => write!(text, ", price not known: --price {}=N", s.drive)?,
    }
    if let Some(power) = s.power {
        write!(text, ", {power:.0} W ({})", word(s.power_kind))?;
    }
    match s.height {
        Some(height) => writeln!(text, ", {height} U"),
        None => writeln!(text),
    }
}

fn space(bytes: f64) -> String {
    match bytes {
        b if b >= 1e15 => format!("{:.2} PB", b / 1e15),
        b if b >= 1e12 => format!("{:.1} TB", b / 1e12),
        b => format!("{:.1} GB", b / 1e9),
    }
}
