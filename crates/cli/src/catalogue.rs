//! `drumfire catalogue`: known figures of parts, and their sources.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::catalogue::unit::{Amount, Dimension};
use ::catalogue::{
    Basis, Catalogue, Class, Figure, Part, PriceTag, QUANTITIES, interface_named, pretty,
    quantity_named,
};
use anyhow::Result;
use block::{Text, hint};
use clap::{Args as Flags, Subcommand};
use job::formats::read_text;
use serde_json::json;

use crate::exit::{Exit, UsageError, of_file};
use crate::output::{self, print, print_line};

/// `drumfire catalogue`.
#[derive(Flags, Debug)]
#[command(arg_required_else_help = true)]
pub struct Args {
    /// The action.
    #[command(subcommand)]
    pub command: Action,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub lookup: Lookup,
    /// Print one JSON document.
    #[arg(long, global = true)]
    pub json: bool,
}

/// Files that commands add to the catalogue, and figures that they leave out.
#[derive(Flags, Clone, Debug, Default)]
pub struct Lookup {
    /// File of your own parts. They replace parts of the catalogue with the same name.
    #[arg(long, global = true, value_name = "FILE")]
    pub parts: Vec<PathBuf>,
    /// File of your own prices, TOML or CSV. Make one with `drumfire catalogue prices`.
    #[arg(long, global = true, value_name = "FILE")]
    pub prices: Vec<PathBuf>,
    /// Use only figures with a document. Answers that need other figures are refused.
    #[arg(long, global = true)]
    pub sourced: bool,
}

impl Lookup {
    /// Reads the built-in catalogue and the user's files.
    pub fn catalogue(&self) -> Result<Catalogue> {
        let mut catalogue = read(&self.parts)?;
        for file in &self.prices {
            let text = read_text(file).map_err(|error| of_file(file.display(), error))?;
            let added = catalogue.add_prices(&file.display().to_string(), &text);
            added.map_err(|error| UsageError(error.to_string()))?;
        }
        if self.sourced {
            catalogue.keep_sourced();
        }
        Ok(catalogue)
    }
}

/// Subcommands.
#[derive(Subcommand, Debug)]
pub enum Action {
    /// List all parts, or the selected ones.
    List(Filter),
    /// Show all known figures of a part, with sources.
    Show {
        /// Id of the part, or an alias.
        part: String,
    },
    /// Print the profile of a drive, for delay:, plan and simulate.
    ///
    /// The profile has the stages of service of the drive, from its published figures.
    Profile {
        /// Id of the part, or an alias.
        part: String,
        /// Write the profile to a file, for delay:FILE(URI).
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print a file of prices to fill, for --prices.
    ///
    /// The file has the prices in use with date and source, and a line for each part on sale
    /// without a price.
    Prices(Filter),
    /// Check the catalogue, or a file of parts, and list the possible figures of a part.
    Check {
        /// A file of parts.
        file: Option<PathBuf>,
    },
}

/// Filter of parts.
#[derive(Flags, Debug, Default)]
pub struct Filter {
    /// drive, adapter, nic, link, server or software.
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
    /// Interface of drives: sata, sas, pcie (or nvme), network, usb, mmc.
    #[arg(long, value_name = "BUS")]
    pub interface: Option<String>,
    /// Parts sold new in this year.
    #[arg(long, value_name = "YEAR")]
    pub year: Option<u32>,
    /// Minimum capacity of drives, for example 3.84TB.
    #[arg(long, value_name = "BYTES")]
    pub capacity: Option<String>,
}

impl Filter {
    fn check(&self) -> Result<Option<f64>, UsageError> {
        let known = |word: &str| CLASSES.iter().any(|class| class.word() == word);
        if let Some(class) = self.class.as_deref().filter(|class| !known(class)) {
            let all = CLASSES.map(Class::word);
            let (near, all) = (hint(class, all), all.join(", "));
            return Err(UsageError(format!(
                "--class: unknown value '{class}': one of {all}{near}"
            )));
        }
        if let Some(bus) = &self.interface {
            interface_named(bus).map_err(|reason| UsageError(format!("--interface: {reason}")))?;
        }
        let Some(text) = &self.capacity else { return Ok(None) };
        let amount = Amount::parse(text).map_err(|e| UsageError(format!("--capacity: {e}")))?;
        match amount.dimension == Dimension::BYTES {
            true => Ok(Some(amount.value)),
            false => Err(UsageError(format!(
                "--capacity: '{text}' is not a capacity: write \
                3.84TB"
            ))),
        }
    }

    fn wants(&self, part: &Part, capacity: Option<f64>) -> bool {
        self.class.as_ref().is_none_or(|class| part.class.word() == class)
            && self.interface.as_ref().is_none_or(|bus| interface_named(bus) == Ok(&part.interface))
            && self.year.is_none_or(|year| part.sold.is_some_and(|sold| sold.in_year(year)))
            && capacity.is_none_or(|least| part.value("capacity").is_some_and(|c| c >= least))
    }
}

/// In the order of the listing.
const CLASSES: [Class; 6] =
    [Class::Drive, Class::Adapter, Class::Nic, Class::Link, Class::Server, Class::Software];

/// Answers from the catalogue.
pub fn main(args: &Args) -> Result<Exit> {
    let catalogue = args.lookup.catalogue()?;
    match &args.command {
        Action::List(filter) => list(catalogue, filter, args.json),
        Action::Show { part } => {
            let part = catalogue.part(part).map_err(|error| UsageError(error.to_string()))?;
            show(&catalogue, part, args.json)
        }
        Action::Profile { part, out } => {
            let part = catalogue.part(part).map_err(|error| UsageError(error.to_string()))?;
            profile(&catalogue, part, out.as_deref(), args.json)
        }
        Action::Prices(filter) => prices(&catalogue, filter, args.json),
        Action::Check { file } => check(catalogue, file.as_deref(), args.json),
    }
}

/// Reads the built-in catalogue and the user's files of parts.
pub fn read(files: &[PathBuf]) -> Result<Catalogue> {
    let mut catalogue = Catalogue::shipped();
    for file in files {
        add(&mut catalogue, file)?;
    }
    Ok(catalogue)
}

fn add(catalogue: &mut Catalogue, file: &Path) -> Result<()> {
    let text = read_text(file).map_err(|error| of_file(file.display(), error))?;
    let added = catalogue.add(&file.display().to_string(), &text);
    added.map_err(|error| UsageError(error.to_string()).into())
}

fn pretty_json(document: &serde_json::Value) -> Result<Exit> {
    output::document(document)?;
    Ok(Exit::Good)
}

fn list(mut catalogue: Catalogue, filter: &Filter, json: bool) -> Result<Exit> {
    let capacity = filter.check()?;
    Arc::make_mut(&mut catalogue.parts).retain(|_, part| filter.wants(part, capacity));
    if json {
        return pretty_json(&json!({ "parts": catalogue.parts }));
    }
    let mut text = Text::new();
    for class in CLASSES {
        for part in catalogue.parts.values().filter(|part| part.class == class) {
            writeln!(text, "{:<9}{:<24}{:<58}{}", class.word(), part.id, part.name, brief(part))?;
        }
    }
    print(&text)?;
    Ok(Exit::Good)
}

/// Prints the prices in use as a file, and the parts without one as lines to fill.
fn prices(catalogue: &Catalogue, filter: &Filter, json: bool) -> Result<Exit> {
    let capacity = filter.check()?;
    let all = catalogue.parts.values().map(|part| &**part);
    let parts = all.filter(|part| filter.wants(part, capacity));
    if json {
        let tags: Vec<PriceTag> = parts.filter_map(|part| catalogue.price_tag(part)).collect();
        return pretty_json(&json!({ "currency": "USD", "prices": tags }));
    }
    output::file(catalogue.price_template(parts).as_bytes())?;
    Ok(Exit::Good)
}

/// The two or three figures that a part is chosen by.
fn brief(part: &Part) -> String {
    let names = [
        "read_iops",
        "write_iops",
        "iops",
        "port_iops",
        "symbol_rate",
        "nominal_rate",
        "slots",
        "cores",
        "core_time",
    ];
    let figures = names.iter().filter_map(|name| {
        let quantity = quantity_named(name)?;
        let known = part.known(name)?;
        let (name, value) = (name.replace('_', " "), pretty(known.value, quantity));
        let recalled = if known.basis == Basis::Recalled { ", recalled" } else { "" };
        Some(format!("{name} {value} ({}{recalled})", known.kind.word()))
    });
    figures.collect::<Vec<_>>().join(", ")
}

fn show(catalogue: &Catalogue, part: &Part, json: bool) -> Result<Exit> {
    if json {
        let used = part.figures.values().flatten().map(|figure| &figure.source);
        let sources: std::collections::BTreeMap<_, _> =
            used.filter_map(|key| Some((key, catalogue.sources.get(key)?))).collect();
        let document = json!({ "part": part, "sources": sources });
        return pretty_json(&document);
    }
    let mut text = Text::new();
    writeln!(text, "{}: {} ({})", part.id, part.name, part.class.word())?;
    if !part.aliases.is_empty() {
        writeln!(text, "also called {}", part.aliases.join(", "))?;
    }
    if let Some(sold) = part.sold {
        writeln!(text, "{}", sold.words())?;
    }
    if !part.note.is_empty() {
        writeln!(text, "{}", part.note)?;
    }
    // Quantities in the order of their definition; contradictory figures are all listed.
    for quantity in QUANTITIES {
        for figure in part.figures.get(quantity.name).into_iter().flatten() {
            let value = pretty(figure.value, quantity);
            let range = match figure.low < figure.high {
                true => {
                    format!("{} to {}", pretty(figure.low, quantity), pretty(figure.high, quantity))
                }
                false => "exact".to_owned(),
            };
            writeln!(
                text,
                "  {:<20}{value:<14}{range:<26}{}",
                quantity.name,
                source(catalogue, figure)
            )?;
        }
    }
    let left_out: Vec<&str> = catalogue.left_out(&part.id).collect();
    if !left_out.is_empty() {
        writeln!(text, "  recalled, so left out by --sourced: {}", left_out.join(", "))?;
    }
    let unknown = QUANTITIES
        .iter()
        .filter(|q| !part.figures.contains_key(q.name) && !left_out.contains(&q.name));
    let unknown: Vec<&str> =
        unknown.filter(|q| expected(part.class, q.name)).map(|q| q.name).collect();
    if !unknown.is_empty() {
        writeln!(text, "  not known: {}", unknown.join(", "))?;
    }
    print(&text)?;
    Ok(Exit::Good)
}

fn profile(catalogue: &Catalogue, part: &Part, out: Option<&Path>, json: bool) -> Result<Exit> {
    let text = catalogue.profile_text(part).map_err(|why| UsageError(why.to_string()))?;
    if let Some(file) = out {
        crate::folder::write_file(file, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    match (json, out) {
        (true, _) => {
            let profile = catalogue.profile(part).map_err(|why| UsageError(why.to_string()))?;
            return pretty_json(&serde_json::to_value(profile)?);
        }
        (false, Some(file)) => {
            let file = file.display();
            let id = &part.id;
            print_line(format_args!(
                "{file}: written, the profile of {id}; use it as \
                delay:{file}(ram:1g)"
            ))?;
        }
        (false, None) => output::file(text.as_bytes())?,
    }
    Ok(Exit::Good)
}

fn source(catalogue: &Catalogue, figure: &Figure) -> String {
    let source = catalogue.sources.get(&figure.source);
    let title = source.map_or(figure.source.as_str(), |source| &source.title);
    let weak = if source.is_some_and(|source| source.weak) { ", weak source" } else { "" };
    let condition = match figure.condition.as_str() {
        "" => String::new(),
        text => format!("{text}; "),
    };
    let address = match source.map(|source| source.url.as_str()) {
        Some(url) if figure.basis == Basis::Published => format!(", {url}"),
        _ => String::new(),
    };
    let quote = match figure.quote.as_str() {
        "" => String::new(),
        words => format!(": \"{words}\""),
    };
    let (basis, kind, date) = (figure.basis.word(), figure.kind.word(), &figure.date);
    format!("{basis}, {kind} ({condition}{title}{address}, {date}{weak}{quote})")
}

/// Whether a part of this class is expected to have this quantity.
fn expected(class: Class, quantity: &str) -> bool {
    let wanted: &[&str] = match class {
        Class::Drive => &[
            "read_iops",
            "write_iops",
            "read_bandwidth",
            "write_bandwidth",
            "read_latency",
            "write_latency",
            "price",
            "power_active",
            "capacity",
        ],
        Class::Adapter => &["ports", "price", "power_active"],
        Class::Nic => &["ports", "port_bandwidth", "price", "power_active"],
        Class::Server => &["slots", "cores", "clock", "bays", "price", "power_active", "height"],
        Class::Link | Class::Software => &[],
    };
    wanted.contains(&quantity)
}

fn check(mut catalogue: Catalogue, file: Option<&Path>, json: bool) -> Result<Exit> {
    if let Some(file) = file {
        add(&mut catalogue, file)?;
    }
    let figures: usize =
        catalogue.parts.values().flat_map(|part| part.figures.values()).map(Vec::len).sum();
    let (parts, sources) = (catalogue.parts.len(), catalogue.sources.len());
    let all = || catalogue.parts.values().flat_map(|part| part.figures.values().flatten());
    let count = |basis| all().filter(|figure| figure.basis == basis).count();
    let counts = Basis::ALL.map(|basis| (basis.word(), count(basis)));
    if json {
        let basis: std::collections::BTreeMap<_, _> = counts.into_iter().collect();
        let document =
            json!({ "parts": parts, "figures": figures, "sources": sources, "basis": basis });
        return pretty_json(&document);
    }
    let mut text = Text::new();
    let counts = counts.map(|(word, count)| format!("{count} {word}")).join(", ");
    writeln!(text, "{parts} parts, {figures} figures, {sources} sources: good")?;
    writeln!(text, "{counts}")?;
    writeln!(
        text,
        "  published: address, date and words are known; cited: a document is named; recalled: no \
         document, left out by --sourced"
    )?;
    writeln!(text, "What may be said about a part:")?;
    for quantity in QUANTITIES {
        writeln!(text, "  {:<24}{:<12}{}", quantity.name, quantity.unit(), quantity.meaning)?;
    }
    print(&text)?;
    Ok(Exit::Good)
}
