//! Measures against peers: `cargo xtask perf`; raw tables go to `target/perf`.
//!
//! A row is one question with several contenders. Their runs are interleaved, so that drift of the
//! machine affects all, and probes of CPU placement and memory surround each run. A contender whose
//! program is missing is listed as not measured.

mod latency;
mod page;
mod probe;
mod profile;
mod programs;
mod rows;
mod sample;
mod width;

use std::path::Path;

use anyhow::{Context, Result, bail};
use block::Rng;

use crate::dist;
use probe::State;
use programs::Programs;
use rows::{Contender, ROWS, Row};
use sample::Sample;

/// Parameters of every run.
pub struct Bench {
    /// Seconds of the measured part of a run.
    pub seconds: u64,
    /// Way to run programs.
    pub programs: Programs,
}

/// Results of a contender of a row.
pub struct Entry {
    /// The row.
    pub row: &'static Row,
    /// The contender.
    pub contender: &'static str,
    /// Runs of the row with the state of the machine, or the reason why there are none.
    pub runs: Result<Vec<(Sample, State)>, String>,
}

#[derive(Debug, PartialEq)]
struct Options {
    rows: Vec<String>,
    runs: usize,
    seconds: u64,
    dry: bool,
    list: bool,
    profile: bool,
}

/// Measures the named rows, or all, and writes the page.
pub fn main(args: &[String]) -> Result<bool> {
    let options = parse(args)?;
    if options.list {
        ROWS.iter().for_each(|row| println!("{:26}{}", row.name, row.title));
        return Ok(true);
    }
    let rows: Vec<&'static Row> = match &options.rows[..] {
        [] => ROWS.iter().collect(),
        names => names.iter().map(|name| find(name)).collect::<Result<_>>()?,
    };
    let programs = if options.dry { Programs::Dry } else { build()? };
    let bench = Bench { seconds: options.seconds, programs };
    if options.profile {
        keep(&page::path(&["profile".into()], &options.rows), &profile::page(&bench, &rows)?)?;
        return Ok(true);
    }
    let entries = measure(&bench, &rows, options.runs);
    let page = page::write(&page::Host::read(), &entries, options.runs, options.seconds);
    println!("{page}");
    if !options.dry {
        keep(&page::path(&[], &options.rows), &page)?;
    }
    Ok(entries.iter().all(|entry| entry.runs.is_ok()))
}

fn keep(path: &Path, page: &str) -> Result<()> {
    std::fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
    std::fs::write(path, page).with_context(|| format!("writing {}", path.display()))?;
    println!("written to {}", path.display());
    Ok(())
}

fn parse(args: &[String]) -> Result<Options> {
    let mut options =
        Options { rows: vec![], runs: 5, seconds: 5, dry: false, list: false, profile: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || -> Result<u64> {
            let value = args.next().with_context(|| format!("{arg} needs a number"))?;
            let number: u64 = value.parse().with_context(|| format!("{arg} {value}"))?;
            if number == 0 {
                bail!("{arg} needs at least one");
            }
            Ok(number)
        };
        match arg.as_str() {
            "--runs" => options.runs = number()? as usize,
            "--seconds" => options.seconds = number()?,
            "--dry" => options.dry = true,
            "--list" => options.list = true,
            "--profile" => options.profile = true,
            option if option.starts_with('-') => bail!("perf does not know `{option}`"),
            row => options.rows.push(row.into()),
        }
    }
    Ok(options)
}

fn find(name: &str) -> Result<&'static Row> {
    let row = ROWS.iter().find(|row| row.name == name);
    row.with_context(|| format!("no row `{name}`; `cargo xtask perf --list` names them"))
}

/// Builds the program as for packages.
fn build() -> Result<Programs> {
    let folder = dist::build::build(&dist::build::host()?, &["-p", "drumfire"])?;
    Ok(Programs::Real { drumfire: folder.join("drumfire"), record: None })
}

/// Runs every row, its contenders in turn.
///
/// Each turn has its own order, because a run affects the next: after our target under a mix of
/// SPDK's initiator, runs were a third slower for a second or two.
fn measure(bench: &Bench, rows: &[&'static Row], runs: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    for row in rows {
        let mut found: Vec<Entry> = row
            .contenders
            .iter()
            .map(|Contender { name, .. }| Entry { row, contender: name, runs: Ok(Vec::new()) })
            .collect();
        for run in 0..runs {
            for index in order(run, row.contenders.len()) {
                one(bench, &mut found[index], &row.contenders[index]);
            }
        }
        entries.extend(found);
    }
    entries
}

/// Order of the contenders in a turn, deterministic per turn.
fn order(turn: usize, contenders: usize) -> Vec<usize> {
    let mut chance = Rng::new(turn as u64, contenders as u64);
    let mut order: Vec<usize> = (0..contenders).collect();
    for last in (1..contenders).rev() {
        order.swap(last, chance.below(last as u64 + 1) as usize);
    }
    order
}

/// Runs one contender once, between two probes.
fn one(bench: &Bench, entry: &mut Entry, contender: &Contender) {
    let Ok(runs) = &mut entry.runs else { return };
    let probe = || if dry(bench) { State::default() } else { State::probe() };
    let before = probe();
    let sample = (contender.run)(bench);
    let state = before.and(&probe());
    match sample {
        Ok(sample) => {
            let row = entry.row.name;
            eprintln!("{row:26}{:28}{sample}  {state}", entry.contender);
            runs.push((sample, state));
        }
        Err(error) => {
            eprintln!("{:26}{:28}{error:#}", entry.row.name, entry.contender);
            entry.runs = Err(format!("{error:#}"));
        }
    }
}

fn dry(bench: &Bench) -> bool {
    matches!(bench.programs, Programs::Dry)
}

#[cfg(test)]
mod test {
    use super::*;

    fn options(args: &str) -> Result<Options> {
        parse(&args.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn nobody_always_follows_the_same() {
        let turns: Vec<usize> = (0..12).flat_map(|turn| order(turn, 3)).collect();
        for contender in 0..3 {
            assert_eq!(turns.iter().filter(|index| **index == contender).count(), 12);
            let before = |other| turns.windows(2).filter(|w| **w == [other, contender]).count();
            let others = (0..3).filter(|other| *other != contender);
            assert!(others.map(before).all(|count| count >= 2), "{turns:?}");
        }
        assert_eq!(order(7, 1), [0]);
    }

    #[test]
    fn options_are_checked() {
        let all = options("race-512 --runs 3 --seconds 2 --dry").unwrap();
        assert_eq!(
            (all.rows, all.runs, all.seconds, all.dry),
            (vec!["race-512".into()], 3, 2, true)
        );
        assert_eq!(options("").unwrap().runs, 5);
        for bad in ["--runs", "--runs 0", "--runs x", "--fast"] {
            assert!(options(bad).is_err(), "{bad}");
        }
        assert!(find("race-512").is_ok() && find("race").is_err());
    }

    /// A dry run with canned outputs, so that the code does not rot between measurements.
    #[test]
    fn every_row_runs_dry() {
        let bench = Bench { seconds: 1, programs: Programs::Dry };
        let rows: Vec<_> = ROWS.iter().collect();
        let entries = measure(&bench, &rows, 2);
        for entry in &entries {
            let runs = entry.runs.as_ref().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(runs.len(), 2, "{} {}", entry.row.name, entry.contender);
        }
        let page = page::write(&page::Host::read(), &entries, 2, 1);
        for row in ROWS {
            assert!(page.contains(row.title), "{} in {page}", row.title);
        }
        assert!(!page.contains("not measured"), "{page}");
    }
}
