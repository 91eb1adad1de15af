//! `drumfire database FILE DRIVE…`: how many transactions a second a database commits on drives.

use std::path::{Path, PathBuf};

use ::catalogue::Catalogue;
use anyhow::Result;
use block::Text;
use clap::Args as Flags;
use job::formats::read_text;
use model::device::Profile;
use plan::database::{Database, Forecast, Watch};
use plan::simulate::kind;

use crate::args::seconds;
use crate::catalogue::Lookup;
use crate::exit::{Exit, UsageError, of_file};
use crate::output;
use crate::simulate::{self, System};

/// `drumfire database`.
#[derive(Flags, Clone, Debug)]
#[command(
    after_long_help = "docs/how-to/predict-a-database.md shows what the file holds, and how to get \
    it from a database that runs."
)]
pub struct Args {
    /// The database: demands of a transaction on host and drive.
    #[arg(value_name = "DATABASE.toml", required_unless_present = "example")]
    pub file: Option<PathBuf>,
    /// Drives: profiles, or drives of the catalogue.
    #[arg(value_name = "PROFILE", required_unless_present = "example")]
    pub drives: Vec<String>,
    /// Print a description to edit: pgbench, 50 branches, 32 MiB of buffers.
    #[arg(long, exclusive = true)]
    pub example: bool,
    /// Number of clients, instead of that of the file.
    #[arg(long, value_name = "N")]
    pub clients: Option<u32>,
    /// Measured seconds of virtual time.
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub seconds: f64,
    /// Seconds of virtual time before the measured ones.
    #[arg(long, default_value = "20", value_name = "SECONDS", value_parser = seconds)]
    pub ramp: f64,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Accept a profile whose fit is not usable.
    #[arg(long)]
    pub anyway: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub lookup: Lookup,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Description of a database that was measured.
const EXAMPLE: &str = include_str!("database/example.toml");

/// Prints a row for each drive, or the example.
pub fn main(args: &Args) -> Result<Exit> {
    let Some(file) = &args.file else {
        output::print(&EXAMPLE.lines().collect())?;
        return Ok(Exit::Good);
    };
    let mut database = read(file)?;
    if let Some(clients) = args.clients {
        database.clients = clients;
        database.check().map_err(|why| UsageError(format!("--clients: {why}")))?;
    }
    let catalogue = args.lookup.catalogue()?;
    let watch = Watch { warmup_s: args.ramp, seconds: args.seconds, seed: args.seed };
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for name in &args.drives {
        match row((&database, &catalogue), name, watch, args.anyway) {
            Ok(found) => rows.push(found),
            Err(error) => wrong.push(error),
        }
    }
    // A name without an answer costs no other answer.
    if !rows.is_empty() {
        match args.json {
            true => output::document(&document(&database, &rows, args))?,
            false => output::print(&table(&database, &rows)?)?,
        }
    }
    match wrong.len() {
        0 => Ok(Exit::Good),
        1 => Err(wrong.remove(0)),
        _ => {
            let all: Vec<String> = wrong.iter().map(|error| format!("{error:#}")).collect();
            Err(UsageError(all.join("; ")).into())
        }
    }
}

/// The forecast on a drive.
fn row(
    (database, catalogue): (&Database, &Catalogue),
    name: &str,
    watch: Watch,
    anyway: bool,
) -> Result<(Profile, Forecast)> {
    let System::Profile(drive) = simulate::read(name, catalogue)? else {
        let why = format!("{name} is a bill of material: name the profile of a drive");
        return Err(UsageError(why).into());
    };
    simulate::usable(&drive, anyway)?;
    let found = database
        .on(&drive, watch)
        .map_err(|error| UsageError(format!("{}: {error}", drive.name)))?;
    Ok((drive, found))
}

/// Share of the cores' time from which they decide the rate.
const CORES_DECIDE: f64 = 0.9;

fn read(file: &Path) -> Result<Database> {
    let name = file.display().to_string();
    let text = read_text(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let fix = format!("fix: drumfire database --example > {name}");
            UsageError(format!("cannot read {name}: {error}. {fix}")).into()
        }
        _ => of_file(&name, error),
    })?;
    Ok(Database::parse(&text).map_err(|why| UsageError(format!("{name}: {why}")))?)
}

fn document(database: &Database, rows: &[(Profile, Forecast)], args: &Args) -> serde_json::Value {
    let drives: Vec<_> = rows
        .iter()
        .map(|(drive, found)| {
            serde_json::json!({ "drive": drive.name, "kind": kind(drive), "forecast": found })
        })
        .collect();
    serde_json::json!({
        "origin": "simulated",
        "corrected": false,
        "database": database,
        "ramp_seconds": args.ramp,
        "seconds": args.seconds,
        "seed": args.seed,
        "drives": drives,
    })
}

fn table(database: &Database, rows: &[(Profile, Forecast)]) -> Result<Text> {
    let name = rows.iter().map(|(drive, _)| drive.name.len()).max().unwrap_or(0).max("drive".len());
    let mut text = Text::new();
    writeln!(
        text,
        "{}: {} clients; simulated, uncorrected by published results",
        database.name, database.clients
    )?;
    writeln!(
        text,
        "{:name$}  {:>9}  {:>7}  {:>9}  {:>9}  {:>9}  {:>6}  {:>9}  \
         figures",
        "drive", "commits/s", "a flush", "commit ms", "p99 ms", "max ms", "cores", "restart s",
    )?;
    for (drive, found) in rows {
        let restart = found.recovery_s.map_or("-".to_owned(), |seconds| format!("{seconds:.1}"));
        writeln!(
            text,
            "{:name$}  {:>9.0}  {:>7.1}  {:>9.2}  {:>9.2}  {:>9.1}  {:>5.0}%  {restart:>9}  {}",
            drive.name,
            found.tps,
            found.group,
            found.commit.mean_s * 1e3,
            found.commit.p99_s * 1e3,
            found.transaction.max_s * 1e3,
            found.cpu_share * 100.0,
            kind(drive).word(),
        )?;
    }
    text.line("commit ms, p99 ms: of the commit alone; max ms: the longest transaction");
    let by_cores = rows.iter().filter(|(_, found)| found.cpu_share >= CORES_DECIDE);
    let names: Vec<&str> = by_cores.map(|(drive, _)| drive.name.as_str()).collect();
    if !names.is_empty() {
        let (names, cores) = (names.join(", "), database.cores);
        writeln!(text, "the {cores} cores decide, not the drive: {names}")?;
    }
    let guessed = rows.iter().filter(|(drive, _)| drive.scatter_is_known().is_none());
    let names: Vec<&str> = guessed.map(|(drive, _)| drive.name.as_str()).collect();
    if !names.is_empty() {
        let names = names.join(", ");
        writeln!(text, "p99 and max of {names}: not calibrated, the spread of times is assumed")?;
    }
    Ok(text)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_example_is_a_database_and_is_on_its_page() {
        let database = Database::parse(EXAMPLE).unwrap();
        assert_eq!((database.clients, database.cores), (8, 2));
        let page = include_str!("../../../docs/how-to/predict-a-database.md");
        assert!(page.contains(&format!("```toml\n{EXAMPLE}```\n")));
    }

    #[test]
    fn a_missing_file_names_the_example() {
        let error = read(Path::new("no/pg.toml")).unwrap_err().to_string();
        assert!(error.ends_with("fix: drumfire database --example > no/pg.toml"), "{error}");
    }
}
