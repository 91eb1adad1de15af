//! `drumfire plan`: what a system of parts will do, which system does what is wanted, and how far
//! such answers were off where the truth is known.

use std::fmt::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use block::Rate;
use clap::{Args as Flags, Subcommand};
use plan::bill::{Bill, Group, Work};
use plan::catalogue::{Catalogue, Class};
use plan::chance::{Chance, chance};
use plan::cost::{Cost, Sum, cost};
use plan::predict::{Fall, Prediction, WhatIf, bound, predict, waterfall, what_if};
use plan::search::{Found, Goal, search, spread};
use plan::system::Tweak;
use plan::unit::Amount;
use plan::verify::{Report, Row, verify};
use serde_json::json;

use crate::catalogue::{read, say};
use crate::exit::{Exit, UsageError};
use crate::simulate::{self, System};

/// `drumfire plan`.
#[derive(Flags, Debug)]
#[command(
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    after_help = "Examples: drumfire plan --drive x25-m --drives 28 --adapter lsi-9210-8i \
    --adapters 5 --server sr2625urlx --software windows-lsi-iometer\n\
    drumfire plan --goal 1M --size 4k --adapter lsi-9210-8i\n\
    Exit codes: 0 done, 2 the bill cannot be built, 4 the goal is missed or an error grew."
)]
pub struct Args {
    #[command(subcommand)]
    #[allow(missing_docs)]
    pub command: Option<Command>,
    /// A bill of material, or a profile as `calibrate` writes it (then --drives is how many).
    #[arg(value_name = "BILL.toml", conflicts_with_all = ["drive", "server", "adapter"])]
    pub bill: Option<PathBuf>,
    /// I/Os per second that are wanted. Without a drive or a bill: search for what does it.
    #[arg(long, value_name = "RATE")]
    pub goal: Option<String>,
    /// A drive of the catalogue.
    #[arg(long, value_name = "PART")]
    pub drive: Option<String>,
    /// How many.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub drives: u32,
    /// What they hang on; without one they are cards themselves.
    #[arg(long, value_name = "PART")]
    pub adapter: Option<String>,
    /// How many; the drives are spread evenly.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub adapters: u32,
    /// The host, with its slots and cores.
    #[arg(long, value_name = "PART")]
    pub server: Option<String>,
    /// What an I/O costs in processor time.
    #[arg(long, value_name = "PART")]
    pub software: Option<String>,
    /// Length of each I/O.
    #[arg(long, alias = "bs", default_value = "4k")]
    pub size: String,
    /// Percentage of reads.
    #[arg(long, alias = "rwmixread", default_value_t = 100.0, value_name = "PERCENT")]
    pub read: f64,
    /// I/Os under way on each drive.
    #[arg(long, alias = "iodepth", default_value_t = 32, value_name = "N")]
    pub outstanding: u32,
    /// Most dollars for drives and adapters of a search.
    #[arg(long, value_name = "DOLLARS", requires = "goal")]
    pub price_max: Option<f64>,
    /// Most watts of drives and adapters of a search.
    #[arg(long, value_name = "WATTS", requires = "goal")]
    pub power_max: Option<f64>,
    /// How often the figures are drawn from their intervals.
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub draws: u32,
    /// Decides what is drawn.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Parts of your own, beside those of the catalogue.
    #[arg(long, global = true, value_name = "FILE")]
    pub parts: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub json: bool,
}

/// What else can be done.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Hold the model against every published figure, and say how far it is off.
    Verify,
}

/// Predicts, searches or verifies.
pub fn main(args: &Args) -> Result<Exit> {
    let catalogue = read(&args.parts)?;
    if args.command.is_some() {
        return verified(&catalogue, args.json);
    }
    if let Some(file) = &args.bill
        && let System::Profile(profile) = simulate::read(&file.to_string_lossy(), &args.parts)?
    {
        return simulate::theory(&profile, args.drives, &work(args)?, args.json);
    }
    let goal = match args.goal.as_deref().map(Amount::parse).transpose() {
        Ok(goal) => goal.map(|goal| goal.value),
        Err(error) => return Err(UsageError(format!("--goal: {error}")).into()),
    };
    match (&args.bill, &args.drive, goal) {
        (None, None, Some(goal)) => searched(args, goal, catalogue),
        (None, None, None) => {
            let wants = "a bill, --drive for a prediction, or --goal for a search";
            Err(UsageError(wants.to_owned()).into())
        }
        _ => predicted(args, goal, &bill(args, catalogue)?),
    }
}

/// The bill of a file, or that of the flags.
fn bill(args: &Args, catalogue: Catalogue) -> Result<Bill> {
    if let Some(file) = &args.bill {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        let bill = Bill::read(&name, &text, &catalogue);
        return bill.map_err(|error| UsageError(error.to_string()).into());
    }
    let part = |flag: &str, name: &Option<String>, classes: &[Class]| match name {
        None => Ok(None),
        Some(name) => {
            let part = catalogue.part(name).map_err(|e| UsageError(format!("{flag}: {e}")))?;
            match classes.contains(&part.class) {
                true => Ok(Some(part.id.clone())),
                false => {
                    let class = part.class.word();
                    Err(UsageError(format!("{flag}: {} is a {class}", part.id)))
                }
            }
        }
    };
    let drive = part("--drive", &args.drive, &[Class::Drive])?;
    let adapter = part("--adapter", &args.adapter, &[Class::Adapter, Class::Nic])?;
    let server = part("--server", &args.server, &[Class::Server])?;
    let software = part("--software", &args.software, &[Class::Software])?;
    let groups = match (&adapter, &drive) {
        (Some(adapter), Some(drive)) => spread(adapter, args.adapters, drive, args.drives),
        (None, Some(drive)) => vec![Group::of_drives(None, args.drives, drive, 1)],
        _ => Vec::new(),
    };
    let name = match (&drive, &adapter) {
        (Some(drive), Some(adapter)) => {
            format!("{} x {drive} on {} x {adapter}", args.drives, args.adapters)
        }
        (Some(drive), None) => format!("{} x {drive}", args.drives),
        _ => "a search".to_owned(),
    };
    let work = work(args)?;
    let bill = Bill { name, server, software, work, groups, catalogue, extras: Vec::new() };
    if drive.is_some() {
        bill.check().map_err(|(_, reason)| UsageError(reason))?;
    }
    Ok(bill)
}

fn work(args: &Args) -> Result<Work, UsageError> {
    let size = block::parse_size(&args.size).map_err(|error| UsageError(error.to_string()))?;
    let (size_bytes, outstanding) = (size as f64, args.outstanding);
    if !(0.0..=100.0).contains(&args.read) {
        return Err(UsageError("--read: 0 to 100".to_owned()));
    }
    Ok(Work { size_bytes, read_share: args.read / 100.0, outstanding })
}

fn predicted(args: &Args, goal: Option<f64>, bill: &Bill) -> Result<Exit> {
    let usage = |error: plan::system::PlanError| match error {
        plan::system::PlanError::Part { line, reason } => match &args.bill {
            Some(file) => UsageError(format!("{}:{line}: {reason}", file.display())).into(),
            None => anyhow::Error::from(UsageError(reason)),
        },
        other => other.into(),
    };
    let found = predict(bill, &Tweak::default()).map_err(usage)?;
    let falls = waterfall(bill).map_err(usage)?;
    let what_ifs = what_if(bill).map_err(usage)?;
    let sure = chance(bill, args.draws, args.seed, goal).map_err(usage)?;
    let most = bound(bill).map_err(usage)?;
    let costs = cost(bill);
    let text = if args.json {
        let document = json!({
            "name": bill.name,
            "origin": "simulated",
            "work": bill.work,
            "prediction": found,
            "bound_iops": most,
            "chance": sure,
            "waterfall": falls,
            "what_if": what_ifs,
            "cost": costs,
            "goal": goal,
        });
        serde_json::to_string_pretty(&document)? + "\n"
    } else {
        let mut text = String::new();
        summary(&mut text, bill, &found, &sure, goal)?;
        writeln!(text, "  bound      {} IOPS, whatever the distributions", Rate(most))?;
        reasons(&mut text, &found, &falls, &what_ifs)?;
        parts(&mut text, &costs, &bill.extras)?;
        basis(&mut text, bill, &found)?;
        text
    };
    say(&text)?;
    Ok(if goal.is_some_and(|goal| found.iops < goal * 0.999) { Exit::Missed } else { Exit::Good })
}

fn summary(
    text: &mut String,
    bill: &Bill,
    found: &Prediction,
    sure: &Chance,
    goal: Option<f64>,
) -> Result<()> {
    let Work { size_bytes, read_share, outstanding } = bill.work;
    let reads = read_share * 100.0;
    writeln!(
        text,
        "{}: {size_bytes} B, {reads:.0} % reads, {outstanding} under way on each; predicted",
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
    let limits: Vec<String> =
        sure.limits.iter().map(|(name, p)| format!("{name} {:.0} %", p * 100.0)).collect();
    writeln!(text, "  limited by {} of the draws", limits.join(", "))?;
    if let (Some(goal), Some(reaches)) = (goal, sure.reaches) {
        let percent = reaches * 100.0;
        writeln!(text, "  goal       {} IOPS: reached in {percent:.0} % of the draws", Rate(goal))?;
    }
    Ok(())
}

fn reasons(
    text: &mut String,
    found: &Prediction,
    falls: &[Fall],
    what_ifs: &[WhatIf],
) -> Result<()> {
    writeln!(text, "from the medium to the answer")?;
    for fall in falls {
        let kind = found.uses.iter().find(|u| u.level == fall.up_to).map(|u| u.kind.word());
        let kind = kind.unwrap_or_default();
        writeln!(text, "  up to {:<10} {:>7} IOPS ({kind})", fall.up_to.word(), Rate(fall.iops))?;
    }
    writeln!(text, "how busy")?;
    for used in &found.uses {
        let busy = used.utilisation.min(1.0);
        let room = (1.0 / busy.max(1e-9) - 1.0) * 100.0;
        let room = if room > 999.0 { "much".to_owned() } else { format!("{room:.0} %") };
        let (name, kind) = (&used.name, used.kind.word());
        writeln!(text, "  {:>5.1} %  room {room:<6} {name} ({kind})", busy * 100.0)?;
    }
    writeln!(text, "ten percent faster")?;
    for change in what_ifs {
        let gain = (change.gain - 1.0) * 100.0;
        let next = change.next.as_ref().map(|u| u.name.as_str()).unwrap_or_default();
        writeln!(text, "  {:<10} {gain:+.1} %, then {next} limits", change.level.word())?;
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
    let said = |sum: &Sum, before: &str, after: &str| match sum.total() {
        Some(total) => format!("{before}{total:.0}{after}"),
        None if sum.known == 0.0 => "not known".to_owned(),
        None => {
            format!("at least {before}{:.0}{after}, without {}", sum.known, sum.unknown.join(", "))
        }
    };
    writeln!(text, "  price {}", said(&costs.price, "$", ""))?;
    writeln!(text, "  power {}", said(&costs.power, "", " W"))?;
    writeln!(text, "  height of servers {}", said(&costs.height, "", " U"))?;
    Ok(())
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

fn searched(args: &Args, iops: f64, catalogue: Catalogue) -> Result<Exit> {
    let bill = bill(args, catalogue)?;
    let goal = Goal {
        iops,
        work: bill.work,
        server: bill.server,
        software: bill.software,
        adapter: args.adapter.as_ref().map(|_| adapter_id(args, &bill.catalogue)).transpose()?,
        price_max: args.price_max,
        power_max: args.power_max,
    };
    if !(1.0..=1e12).contains(&iops) {
        bail!(UsageError("--goal: 1 to 1T IOPS".to_owned()));
    }
    let found = search(&goal, &bill.catalogue);
    let text = match args.json {
        true => serde_json::to_string_pretty(&found)? + "\n",
        false => listing(&goal, &found)?,
    };
    say(&text)?;
    Ok(if found.candidates.is_empty() { Exit::Missed } else { Exit::Good })
}

fn adapter_id(args: &Args, catalogue: &Catalogue) -> Result<String> {
    let name = args.adapter.as_deref().unwrap_or_default();
    let part = catalogue.part(name).map_err(|error| UsageError(format!("--adapter: {error}")))?;
    Ok(part.id.clone())
}

fn listing(goal: &Goal, found: &Found) -> Result<String> {
    let mut text = String::new();
    let reads = goal.work.read_share * 100.0;
    let size = goal.work.size_bytes;
    writeln!(
        text,
        "{} IOPS of {size} B, {reads:.0} % reads; * is beaten by none",
        Rate(goal.iops)
    )?;
    for c in &found.candidates {
        let price = match (c.price, c.break_even) {
            (Some(price), _) => format!("${price:.0}"),
            (None, Some(even)) => format!("not known; even at ${even:.0} each"),
            (None, None) => "not known".to_owned(),
        };
        let power = c.power.map_or("power not known".to_owned(), |power| format!("{power:.0} W"));
        let mark = if c.pareto { '*' } else { ' ' };
        writeln!(
            text,
            "{mark} {:>4} x {:<24} on {:>3} cards  {:>6} IOPS, limit {:<9} {price}, {power}",
            c.drives,
            c.drive,
            c.cards,
            Rate(c.iops),
            c.limit
        )?;
    }
    writeln!(text, "not:")?;
    for (drive, reason) in &found.refused {
        writeln!(text, "  {drive:<24} {reason}")?;
    }
    Ok(text)
}

fn verified(catalogue: &Catalogue, json: bool) -> Result<Exit> {
    let report = verify(catalogue)?;
    let text = match json {
        true => {
            serde_json::to_string_pretty(&json!({
                "passed": report.passed(),
                "report": report,
            }))? + "\n"
        }
        false => table(&report)?,
    };
    say(&text)?;
    Ok(if report.passed() { Exit::Good } else { Exit::Missed })
}

fn table(report: &Report) -> Result<String> {
    let mut text = String::new();
    let mut case = "";
    for row in &report.rows {
        if row.case != case {
            case = row.case;
            writeln!(text, "{case}")?;
        }
        writeln!(text, "  {:<5} {}", row.tag.word(), line(row))?;
    }
    writeln!(text, "fitted, never counted as predictions")?;
    for fitted in &report.fitted {
        let of = if fitted.founding { "founding" } else { "others" };
        writeln!(text, "  {:<34} {:<12} to {} ({of})", fitted.name, fitted.value, fitted.to)?;
    }
    writeln!(text, "held out (PRED); in brackets against bare numbers, 'nearly 1.3M' as 1.3M")?;
    for s in &report.summaries {
        let (median, worst) = s.set.bars();
        let bars = match median.is_finite() {
            true => format!(
                "bars {:.1} % and {:.1} %: {}",
                median * 100.0,
                worst * 100.0,
                if s.met { "met" } else { "MISSED" }
            ),
            false => "no bar: do not rely on them".to_owned(),
        };
        writeln!(
            text,
            "  {:<38} {:>2} rows, median {:.2} % ({:.2} %), worst {:.1} % ({:.1} %); {bars}",
            s.set.title(),
            s.rows,
            s.median * 100.0,
            s.median_bare * 100.0,
            s.worst * 100.0,
            s.worst_bare * 100.0
        )?;
    }
    for key in &report.grown {
        writeln!(text, "grew beyond what is recorded: {key}")?;
    }
    Ok(text)
}

fn line(row: &Row) -> String {
    let number = |value: f64| match value.abs() {
        v if v >= 1e4 => Rate(value).to_string(),
        v if v >= 1.0 => format!("{value:.2}"),
        v if v >= 0.01 => format!("{value:.4}"),
        _ => format!("{:.1}u", value * 1e6),
    };
    let bare = match row.meant == row.published {
        true => String::new(),
        false => format!(" ({:+.1} % of {})", row.error() * 100.0, number(row.published)),
    };
    format!(
        "{:<44} published {:>8} model {:>8} {:+6.1} %{bare}  {}",
        row.figure,
        number(row.meant),
        number(row.model),
        row.error_meant() * 100.0,
        row.note
    )
}
