//! `drumfire plan`: predicted performance of a system, systems that meet requirements, and the
//! errors of such predictions on known results.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use ::catalogue::unit::{Amount, Dimension};
use ::catalogue::{Catalogue, Class};
use anyhow::Result;
use clap::{Args as Flags, Subcommand};
use job::formats::read_text;
use plan::answer::{DRAWS, SEED};
use plan::bill::{Bill, Group, Setup, Work, shipped, shipped_names};
use plan::chance::DRAWS_MAX;
use plan::search::spread;
use plan::system::PlanError;

use crate::catalogue::Lookup;
use crate::exit::{Exit, UsageError, of_file};
use crate::folder;
use crate::simulate::{self, System};
use crate::typed;
use forms::Form;

mod around;
mod arriving;
mod charts;
mod compared;
mod forms;
mod page;
mod predicted;
mod screen;
mod searched;
mod sized;
mod streams;
mod verified;

/// `drumfire plan`.
#[derive(Flags, Debug)]
#[command(
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    after_long_help = "Exit codes: 0 done, 2 the bill cannot be built, 4 the goal is missed or an \
    error grew."
)]
pub struct Args {
    #[command(subcommand)]
    #[allow(missing_docs)]
    pub command: Option<Command>,
    /// A bill of material, a built-in bill (intel-ssd, intel-iscsi, iodrive-duo, sas-16, spdk-24,
    /// thirdio-fc), a drive of the catalogue, or a profile from `calibrate`.
    #[arg(value_name = "BILL.toml", conflicts_with_all = PARTS)]
    pub bill: Option<PathBuf>,
    /// Compare bills or drives of the catalogue: one system of each, or as many as --money buys or
    /// --goal needs.
    #[arg(long, value_name = "BILL.toml", num_args = 2..=16, conflicts_with = "bill")]
    #[arg(conflicts_with_all = SYSTEM)]
    pub compare: Vec<PathBuf>,
    /// Budget of each side of a comparison, in dollars.
    #[arg(long, value_name = "DOLLARS", requires = "compare")]
    #[arg(conflicts_with_all = ["goal", "bill", "drive"])]
    pub money: Option<String>,
    /// Required I/Os per second. Without a drive or a bill, search for systems that reach the rate.
    #[arg(long, alias = "iops", value_name = "RATE")]
    pub goal: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub system: Flagged,
    /// Maximum price of the drives and adapters of a search.
    #[arg(long, value_name = "DOLLARS", requires = "goal", conflicts_with_all = GIVEN)]
    pub price_max: Option<String>,
    /// Maximum power of the drives and adapters of a search.
    #[arg(long, value_name = "WATTS", requires = "goal", conflicts_with_all = GIVEN)]
    pub power_max: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub around: around::Around,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub sizing: sized::Wanted,
    /// Year in which the drives of a search are on sale, or any [default: the catalogue's, 2026].
    #[arg(long, value_name = "YEAR", requires = "goal", conflicts_with_all = GIVEN)]
    pub year: Option<String>,
    /// Interface of the drives of a search.
    #[arg(long, value_name = "BUS", requires = "goal", conflicts_with_all = GIVEN)]
    pub interface: Option<Interface>,
    /// Price of a part, instead of the price in the catalogue.
    #[arg(long, value_name = "PART=DOLLARS")]
    pub price: Vec<String>,
    /// Search for systems whose p10 reaches the goal, not only their median.
    #[arg(long, requires = "goal", conflicts_with_all = GIVEN)]
    pub confident: bool,
    /// Also list each drive that a search refuses, with its reason.
    #[arg(long, requires = "goal", conflicts_with_all = GIVEN)]
    pub why: bool,
    /// Print everything: figures with their sources, charts, all alternatives.
    #[arg(long)]
    pub details: bool,
    /// Monte Carlo samples.
    #[arg(long, default_value_t = DRAWS, value_name = "N")]
    pub draws: u32,
    /// Seed of the samples.
    #[arg(long, default_value_t = SEED)]
    pub seed: u64,
    /// Accept a profile whose fit is not usable.
    #[arg(long)]
    pub anyway: bool,
    /// Also write an HTML page with charts, in one file, for a system or a comparison.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub lookup: Lookup,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub json: bool,
}

/// Flags of the parts that a bill names.
const PARTS: [&str; 5] = ["drive", "adapter", "adapters", "server", "software"];
/// Flags for settings that a bill has, and a profile has not.
const SYSTEM: [&str; 6] = ["drive", "drives", "adapter", "adapters", "server", "software"];
/// Arguments that name a system: there is nothing to search for.
const GIVEN: [&str; 3] = ["bill", "compare", "drive"];

/// A system by flags.
#[derive(Flags, Clone, Debug)]
pub struct Flagged {
    /// Drive, by its name in the catalogue.
    #[arg(long, value_name = "PART")]
    pub drive: Option<String>,
    /// Number of drives [default: 1].
    #[arg(long, value_name = "N")]
    pub drives: Option<u32>,
    /// Adapter that the drives are attached to; none for PCIe cards.
    #[arg(long, value_name = "PART")]
    pub adapter: Option<String>,
    /// Number of adapters; each has the same number of drives.
    #[arg(long, default_value_t = 1, value_name = "N", requires_all = ["adapter", "drive"])]
    pub adapters: u32,
    /// The host, with its slots and cores.
    #[arg(long, value_name = "PART")]
    pub server: Option<String>,
    /// Software stack: sets the CPU time of an I/O.
    #[arg(long, value_name = "PART")]
    pub software: Option<String>,
    /// I/O size [default: 4k].
    #[arg(long, alias = "bs")]
    pub size: Option<String>,
    /// Percentage of reads [default: 100].
    #[arg(long, alias = "rwmixread", value_name = "PERCENT")]
    pub read: Option<f64>,
    /// Queue depth of each drive [default: 32].
    #[arg(long, alias = "iodepth", value_name = "N")]
    pub outstanding: Option<u32>,
}

/// Subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Compare the model with every published figure, and print the errors.
    Verify,
}

/// Predicts, compares, searches or verifies.
pub fn main(args: &Args) -> Result<Exit> {
    let mut catalogue = args.lookup.catalogue()?;
    priced(args, &mut catalogue)?;
    if args.command.is_some() {
        return verified::verified(&catalogue, args.json);
    }
    let goal = amount("--goal", &args.goal, Dimension::RATE, (1.0, 1e12))?;
    let money = amount("--money", &args.money, Dimension::MONEY, (1.0, 1e12))?;
    check(args)?;
    let typed = typed::typed();
    if !args.compare.is_empty() {
        Form::Compare.check(&typed)?;
        return compared::compared(args, (money, goal), sides(args, &catalogue)?);
    }
    let named = args.bill.as_deref().map(|file| drive_named(file, &catalogue));
    let named = named.transpose()?.flatten();
    if let Some(drive) = named.or(args.system.drive.clone()) {
        return answered(args, goal, &drive_bill(args, drive, typed, catalogue)?);
    }
    if let Some(file) = &args.bill
        && let System::Profile(profile) = simulate::read(&file.to_string_lossy(), &catalogue)?
    {
        Form::Profile.check(&typed)?;
        simulate::usable(&profile, args.anyway)?;
        let drives = args.system.drives.unwrap_or(1);
        return simulate::theory(&profile, drives, &work(&args.system)?, args.json);
    }
    let said = args.system.work().or(args.around.given()).or(args.sizing.around());
    if let (Some(file), Some(flag)) = (&args.bill, said) {
        let file = file.display();
        return Err(UsageError(format!("{flag}: {file} sets it: change it there")).into());
    }
    match (&args.bill, goal) {
        (None, Some(goal)) => {
            let sized = args.sizing.asked();
            let form = if sized { Form::Sizing } else { Form::Search };
            form.check(&typed)?;
            let price = amount("--price-max", &args.price_max, Dimension::MONEY, (1e-3, 1e15))?;
            let power = amount("--power-max", &args.power_max, Dimension::POWER, (1e-3, 1e15))?;
            match sized {
                true => sized::sized(args, goal, (price, power), bill(&args.system, catalogue)?),
                false => searched::searched(args, goal, (price, power), catalogue),
            }
        }
        (None, None) => {
            let wants = "a bill, --compare with bills, --drive for a prediction, or --goal for a \
                search";
            Err(UsageError(wants.to_owned()).into())
        }
        (Some(file), _) => {
            let bill = read_bill(file, &catalogue)?;
            let form = match (bill.setup.streams.is_empty(), args.around.rate.is_some()) {
                (false, _) => Form::Streams,
                (true, true) => Form::BillArriving,
                (true, false) => Form::Bill,
            };
            form.check(&typed)?;
            answered(args, goal, &bill)
        }
    }
}

/// Answers for a bill, with its queue depth or with an arrival rate.
fn answered(args: &Args, goal: Option<f64>, bill: &Bill) -> Result<Exit> {
    match amount("--rate", &args.around.rate, Dimension::RATE, (1e-3, 1e12))? {
        Some(rate) => arriving::arriving(args, rate, bill),
        None if !bill.setup.streams.is_empty() => streams::streams(args, bill),
        None => predicted::predicted(args, goal, bill),
    }
}

/// Adds the single prices of the flags to the catalogue.
fn priced(args: &Args, catalogue: &mut Catalogue) -> Result<()> {
    for price in &args.price {
        let usage = |why: String| UsageError(format!("--price: {why}"));
        let (part, dollars) = price
            .split_once('=')
            .ok_or_else(|| usage(format!("'{price}': a part and dollars, as x25-m=99")))?;
        let dollars = amount("--price", &Some(dollars.to_owned()), Dimension::MONEY, (0.0, 1e7))?;
        catalogue.set_price(part, dollars.unwrap_or_default()).map_err(usage)?;
    }
    Ok(())
}

/// Interfaces of drives.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// Serial ATA.
    Sata,
    /// Serial attached SCSI.
    Sas,
    /// PCI Express.
    #[value(alias = "nvme")]
    Pcie,
}

impl Interface {
    /// Name in the catalogue.
    pub fn word(self) -> &'static str {
        match self {
            Interface::Sata => "sata",
            Interface::Sas => "sas",
            Interface::Pcie => "pcie",
        }
    }
}

/// A share in percent, rounded to two decimal places.
pub fn percent(share: f64) -> f64 {
    (share * 1e4).round() / 1e2
}

/// Amount in a flag: without a unit, or with a unit of its dimension.
fn amount(
    flag: &str,
    given: &Option<String>,
    dimension: Dimension,
    (least, most): (f64, f64),
) -> Result<Option<f64>, UsageError> {
    let Some(text) = given else { return Ok(None) };
    let amount = Amount::parse(text).map_err(|error| UsageError(format!("{flag}: {error}")))?;
    if ![dimension, Dimension::NUMBER].contains(&amount.dimension) || amount.unit == "%" {
        return Err(UsageError(format!("{flag}: {} where {dimension} belongs", amount.unit)));
    }
    if !(least..=most).contains(&amount.value) {
        return Err(UsageError(format!("{flag}: {least} to {most:e} {dimension}")));
    }
    Ok(Some(amount.value))
}

/// Checks on flags beyond their types.
fn check(args: &Args) -> Result<(), UsageError> {
    if !(10..=DRAWS_MAX).contains(&args.draws) {
        return Err(UsageError(format!("--draws: 10 to {DRAWS_MAX}")));
    }
    let given = args.bill.is_some() || !args.compare.is_empty() || args.system.drive.is_some();
    if args.html.is_some() && !given {
        return Err(UsageError("--html: give a bill, --compare or --drive".to_owned()));
    }
    if !given && args.system.drives.is_some() {
        return Err(UsageError("--drives: say of which --drive".to_owned()));
    }
    Ok(())
}

impl Flagged {
    /// First flag given that sets a count, a size, a read share or a queue depth.
    fn work(&self) -> Option<&'static str> {
        let given = [
            ("--drives", self.drives.is_some()),
            ("--size", self.size.is_some()),
            ("--read", self.read.is_some()),
            ("--outstanding", self.outstanding.is_some()),
        ];
        given.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
    }
}

/// The drive of the catalogue that an argument names: no file, bill or path has this name.
fn drive_named(file: &Path, catalogue: &Catalogue) -> Result<Option<String>, UsageError> {
    let is_name = |name: &&str| !name.contains(['/', '.']) && shipped(name).is_none();
    let Some(name) = file.to_str().filter(is_name).filter(|_| !file.exists()) else {
        return Ok(None);
    };
    match catalogue.part(name) {
        Ok(part) if part.class == Class::Drive => Ok(Some(part.id.clone())),
        Err(error) if !error.capacities.is_empty() => Err(UsageError(error.to_string())),
        _ => Ok(None),
    }
}

/// The bill of a drive with what the flags put around it.
fn drive_bill(
    args: &Args,
    drive: String,
    mut typed: Vec<String>,
    catalogue: Catalogue,
) -> Result<Bill> {
    let form = if args.around.rate.is_some() { Form::DriveArriving } else { Form::Drive };
    // A drive that is named without its flag is no bill.
    typed.retain(|name| name != "bill");
    form.check(&typed)?;
    let system = Flagged { drive: Some(drive), ..args.system.clone() };
    let mut bill = bill(&system, catalogue)?;
    args.around.put(&mut bill, &args.sizing)?;
    bill.check().map_err(|(_, reason)| UsageError(reason))?;
    Ok(bill)
}

/// Sides of a comparison that can be read; the others are left out. Fails if there are none.
fn sides<'a>(args: &'a Args, catalogue: &Catalogue) -> Result<compared::Sides<'a>> {
    let mut sides = compared::Sides::default();
    for file in &args.compare {
        match side(&args.system, file, catalogue) {
            Ok(bill) if !bill.setup.streams.is_empty() => {
                let why = format!("--compare: {} has [[stream]]: ask each by itself", bill.name);
                return Err(UsageError(why).into());
            }
            Ok(bill) => {
                sides.files.push(file);
                sides.bills.push(bill);
            }
            Err(error) => sides.leave_out(file, error),
        }
    }
    sides.checked()
}

/// A side of a comparison: a bill, or a drive of the catalogue with the work of the flags.
fn side(flags: &Flagged, file: &Path, catalogue: &Catalogue) -> Result<Bill> {
    if let Some(drive) = drive_named(file, catalogue)? {
        let system = Flagged { drive: Some(drive), ..flags.clone() };
        return bill(&system, catalogue.clone());
    }
    if let Some(flag) = flags.work() {
        let file = file.display();
        return Err(UsageError(format!("{flag}: {file} sets it: change it there")).into());
    }
    read_bill(file, catalogue)
}

fn read_bill(file: &Path, catalogue: &Catalogue) -> Result<Bill> {
    let name = file.display().to_string();
    let text = match (read_text(file), shipped(&name)) {
        (Err(_), Some(text)) => text.to_owned(),
        (text, _) => text.map_err(|error| {
            let near = match catalogue.drives_near(&name) {
                near if near.is_empty() => String::new(),
                near => format!(" (similar: {})", near.join(", ")),
            };
            let bills = shipped_names();
            let known = format!("{name}; name a file, a drive{near}, or one of {bills}");
            of_file(known, error)
        })?,
    };
    let bill = Bill::read(&name, &text, catalogue);
    bill.map_err(|error| UsageError(error.to_string()).into())
}

/// Error of a bill without an answer, at its line if the bill is a file.
fn blame(file: Option<&Path>, error: PlanError) -> anyhow::Error {
    match (error, file) {
        (PlanError::Part { line, reason }, Some(file)) => {
            UsageError(format!("{}:{line}: {reason}", file.display())).into()
        }
        (PlanError::Part { reason, .. }, None) => UsageError(reason).into(),
        (other, _) => other.into(),
    }
}

/// Writes the page of `--html`.
fn write_page(args: &Args, page: impl FnOnce() -> report::page::Page) -> Result<()> {
    let Some(file) = &args.html else { return Ok(()) };
    folder::write_file(file, |out| Ok(out.write_all(page().html().as_bytes())?))
}

/// The bill of the flags.
fn bill(args: &Flagged, catalogue: Catalogue) -> Result<Bill> {
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
    let drives = args.drives.unwrap_or(1);
    let drive = part("--drive", &args.drive, &[Class::Drive])?;
    let adapter = part("--adapter", &args.adapter, &[Class::Adapter, Class::Nic])?;
    let server = part("--server", &args.server, &[Class::Server])?;
    let software = part("--software", &args.software, &[Class::Software])?;
    if args.adapters == 0 {
        return Err(UsageError("--adapters: 1 at least".to_owned()).into());
    }
    if args.adapters > drives && adapter.is_some() && drive.is_some() {
        let why = format!(
            "--adapters {}: at most one for each drive, and there are {drives}",
            args.adapters
        );
        return Err(UsageError(why).into());
    }
    let groups = match (&adapter, &drive) {
        (Some(adapter), Some(drive)) => spread(adapter, args.adapters, drive, drives),
        (None, Some(drive)) => vec![Group::of_drives(None, drives, drive, 1)],
        _ => Vec::new(),
    };
    let name = match (&drive, &adapter) {
        (Some(drive), Some(adapter)) => {
            format!("{} x {drive} on {} x {adapter}", drives, args.adapters)
        }
        (Some(drive), None) => format!("{} x {drive}", drives),
        _ => "a search".to_owned(),
    };
    let work = work(args)?;
    let (setup, extras) = (Setup::default(), Vec::new());
    let bill = Bill { name, server, software, work, groups, catalogue, setup, extras };
    if drive.is_some() {
        bill.check().map_err(|(_, reason)| UsageError(reason))?;
    }
    Ok(bill)
}

fn work(args: &Flagged) -> Result<Work, UsageError> {
    let size = block::parse_size(args.size.as_deref().unwrap_or("4k"));
    let size = size.map_err(|error| UsageError(format!("--size: {error}")))?;
    let (read, outstanding) = (args.read.unwrap_or(100.0), args.outstanding.unwrap_or(32));
    if !(0.0..=100.0).contains(&read) {
        return Err(UsageError("--read: 0 to 100".to_owned()));
    }
    Ok(Work { size_bytes: size as f64, read_share: read / 100.0, outstanding, flush: None })
}
