//! Results as tables for statistics programs: `report --as csv` and its like, for runs, sweeps and
//! both sides of a comparison.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;
use report::rows::{Rows, Source, columns, csv, influx, rows};
use stats::RunResult;
use stats::sweep::{CellRun, Setting, SweepResult};

use crate::exit::UsageError;
use crate::{output, report as results, sweep};

/// A table of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// A row for each run, worker and second.
    #[default]
    Worker,
    /// A row for each run and second, with percentiles.
    Second,
    /// A row for each run and direction, with percentiles.
    Run,
}

impl Table {
    fn rows(self) -> Rows {
        match self {
            Table::Worker => Rows::WorkerSeconds,
            Table::Second => Rows::Seconds,
            Table::Run => Rows::Totals,
        }
    }
}

/// Refuses `--rows` for a form without rows.
pub fn only_with(rows: Option<Table>, has_rows: bool) -> Result<()> {
    match rows {
        Some(_) if !has_rows => {
            let why = "--rows selects the rows of --as csv or --as parquet";
            Err(UsageError(why.to_owned()).into())
        }
        _ => Ok(()),
    }
}

/// Side of a comparison (`a`, `b` or empty), and the folder of its run or sweep.
type Named = (&'static str, PathBuf);

/// Sides that `compare --run` saves in one folder.
const SIDES: [&str; 2] = ["a", "b"];

/// Lists the folders of runs. A folder of `compare --run` gives its two sides.
pub fn named(runs: &[PathBuf]) -> Vec<Named> {
    let both = |run: &PathBuf| -> Vec<Named> {
        let sides = SIDES.map(|side| (side, run.join(side)));
        let is_comparison = !holds_result(run) && sides.iter().all(|(_, path)| holds_result(path));
        if is_comparison { sides.to_vec() } else { vec![("", run.clone())] }
    };
    runs.iter().flat_map(both).collect()
}

fn holds_result(path: &Path) -> bool {
    let results = ["result.json", "step-1/result.json"];
    path.is_file() || sweep::is_one(path) || results.iter().any(|name| path.join(name).is_file())
}

/// Runs and sweeps whose results are read one at a time: a sweep may have more than memory holds.
pub struct Sources {
    each: Vec<Each>,
}

enum Each {
    Run(Named),
    Sweep(Named, Box<SweepResult>),
}

impl Sources {
    /// Opens runs, and reads the documents of sweeps.
    pub fn read(named: Vec<Named>) -> Result<Sources> {
        let one = |(side, path): Named| match sweep::is_one(&path) {
            true => {
                let found = Box::new(sweep::read(&path)?);
                Ok(Each::Sweep((side, path), found))
            }
            false => Ok(Each::Run((side, path))),
        };
        Ok(Sources { each: named.into_iter().map(one).collect::<Result<_>>()? })
    }

    /// Returns the settings of all cells.
    pub fn settings(&self) -> Vec<Setting> {
        let sweeps = self.each.iter().filter_map(|each| match each {
            Each::Run(_) => None,
            Each::Sweep(_, sweep) => Some(sweep),
        });
        let cells = sweeps.flat_map(|sweep| &sweep.cells);
        cells.flat_map(|cell| cell.settings.iter().cloned()).collect()
    }

    /// Reads each result, and passes it to `take`.
    pub fn each(&self, mut take: impl FnMut(&Source, &RunResult) -> Result<()>) -> Result<()> {
        self.each.iter().try_for_each(|each| match each {
            Each::Run((side, path)) => {
                (1..).zip(results::read(path)?).try_for_each(|(step, result)| {
                    let run = path.display().to_string();
                    let source = Source {
                        run,
                        side: (*side).to_owned(),
                        step,
                        repeat: 1,
                        ..Source::default()
                    };
                    take(&source, &result)
                })
            }
            Each::Sweep((side, folder), sweep) => of_sweep(side, folder, sweep, &mut take),
        })
    }
}

/// Passes every run with a result to `take`, complete or not.
fn of_sweep(
    side: &str,
    folder: &Path,
    sweep: &SweepResult,
    take: &mut impl FnMut(&Source, &RunResult) -> Result<()>,
) -> Result<()> {
    let each = sweep.cells.iter().flat_map(|cell| cell.runs.iter().map(move |run| (cell, run)));
    let place = |run: &CellRun| folder.join(&run.folder);
    for (cell, run) in each.filter(|(_, run)| place(run).join("result.json").is_file()) {
        let path = place(run);
        let result = results::read_document(&path.join("result.json"))
            .with_context(|| format!("{}, a cell of {}", cell.folder, folder.display()))?;
        let source = Source {
            run: path.display().to_string(),
            side: side.to_owned(),
            step: 1,
            settings: cell.settings.clone(),
            repeat: run.repeat.into(),
        };
        take(&source, &result)?;
    }
    Ok(())
}

/// Prints a table of runs, sweeps and comparisons as CSV, with one header.
pub fn print_csv(named: Vec<Named>, table: Table) -> Result<()> {
    let sources = Sources::read(named)?;
    let which = table.rows();
    let columns = columns(which, &sources.settings());
    let mut text = Vec::new();
    csv::head(&columns, &mut text)?;
    sources.each(|source, result| {
        csv::write(&rows(which, &columns, source, result), &mut text)?;
        output::file(&std::mem::take(&mut text))
    })?;
    // The header of nothing.
    output::file(&text)
}

/// Prints a table of runs, sweeps and comparisons as one Parquet file.
#[cfg(feature = "parquet")]
pub fn print_parquet(named: Vec<Named>, table: Table) -> Result<()> {
    let sources = Sources::read(named)?;
    let which = table.rows();
    let mut file = report::rows::parquet::Table::new(columns(which, &sources.settings()))?;
    sources.each(|source, result| {
        let rows = rows(which, file.columns(), source, result);
        Ok(file.add(rows)?)
    })?;
    output::bytes(&file.finish()?)
}

/// Refuses, and names the build that writes Parquet.
#[cfg(not(feature = "parquet"))]
pub fn print_parquet(_named: Vec<Named>, _table: Table) -> Result<()> {
    let why = "--as parquet: this build has no feature parquet. fix: cargo install --path \
               crates/cli --features parquet, or use --as csv, which has the same columns";
    Err(UsageError(why.to_owned()).into())
}

/// Prints the seconds of runs, sweeps and comparisons as InfluxDB line protocol.
pub fn print_influx(named: Vec<Named>) -> Result<()> {
    Sources::read(named)?.each(|source, result| {
        let mut text = Vec::new();
        influx::write(source, result, &mut text)?;
        output::file(&text)
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_folder_of_two_sides_is_both() {
        let folder = std::env::temp_dir().join(format!("drumfire-tables-{}", std::process::id()));
        let make = |name: &str| {
            let path = folder.join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("result.json"), "{}").unwrap();
        };
        ["turns/a", "turns/b", "run", "run/a", "run/b"].into_iter().for_each(make);
        let of = |name: &str| -> Vec<(&str, PathBuf)> { named(&[folder.join(name)]) };
        assert_eq!(of("turns").iter().map(|it| it.0).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(of("run"), [("", folder.join("run"))]);
        assert_eq!(of("nothing"), [("", folder.join("nothing"))]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
