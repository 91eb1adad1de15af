//! `drumfire calibrate`: a profile from the results of sweeps.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use block::{Rate, Text};
use clap::Args as Flags;
use plan::calibrate::{Calibrated, Point, Prior, calibrate};
use serde_json::json;

use crate::catalogue::read;
use crate::exit::{Exit, UsageError};
use crate::output;
use crate::{folder, report as results, sweep};

/// `drumfire calibrate`.
#[derive(Flags, Debug)]
#[command(
    after_long_help = "Calibrate with sweeps over queue depth, I/O size and share of reads: \
        --axis outstanding=1,4,16,64 --axis size=4k,64k --axis read=0,100\n`simulate`, `plan` and \
        delay:drive.toml(URI) use the profile."
)]
pub struct Args {
    /// Folders of sweeps or runs, or a result.json: closed loops of one I/O size each. A cell of a
    /// sweep counts once, by its median run.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// File for the profile.
    #[arg(long, value_name = "PROFILE.toml")]
    pub out: PathBuf,
    /// A drive of the catalogue: its intervals are the prior.
    #[arg(long, value_name = "PART")]
    pub part: Option<String>,
    /// Your own parts, added to those of the catalogue.
    #[arg(long, value_name = "FILE")]
    pub parts: Vec<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}

/// Fits and writes a profile, and reports its quality.
pub fn main(args: &Args) -> Result<Exit> {
    let catalogue = read(&args.parts)?;
    let part = args.part.as_deref().map(|name| catalogue.part(name)).transpose();
    let part = part.map_err(|error| UsageError(format!("--part: {error}")))?;
    let mut points = Vec::new();
    for run in &args.runs {
        for folder in folders(run)? {
            for result in results::read(&folder)? {
                let point = Point::of(&folder.display().to_string(), &result);
                points.push(point.map_err(|error| UsageError(error.to_string()))?);
            }
        }
    }
    let name = args.out.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let source = source(&args.runs, &points);
    let found = calibrate(&name, &source, &points, part);
    let found = found.map_err(|error| UsageError(error.to_string()))?;
    let text = found.profile.print().map_err(anyhow::Error::msg)?;
    let out = &args.out;
    folder::write_file(out, |file| Ok(file.write_all(text.as_bytes())?))?;
    match args.json {
        true => {
            let document = json!({
                "profile": found.profile,
                "parameters": found.parameters,
                "points": found.rows,
                "remarks": found.remarks,
                "usable": found.profile.usable().is_ok(),
                "out": out,
            });
            output::document(&document)?;
        }
        false => output::print(&table(&found, out)?)?,
    }
    Ok(if found.profile.usable().is_ok() { Exit::Good } else { Exit::Missed })
}

/// Folders of a sweep's measured cells, or the path itself if it is no sweep.
fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    if !sweep::is_one(path) {
        return Ok(vec![path.to_owned()]);
    }
    let cells = sweep::read(path)?.cells.into_iter();
    let measured = cells.filter(|cell| cell.whole_runs().next().is_some());
    Ok(measured.map(|cell| path.join(cell.folder)).collect())
}

fn source(runs: &[PathBuf], points: &[Point]) -> String {
    let origin = points.first().map_or("", |point| point.origin.word());
    let points = points.len();
    let names: Vec<String> = runs.iter().map(|run| run.display().to_string()).collect();
    let of = match &names[..] {
        [first, .., last] => format!("{first} to {last}"),
        names => names.concat(),
    };
    format!("{points} {origin} runs, {of}")
}

fn table(found: &Calibrated, out: &Path) -> Result<Text> {
    let mut text = Text::new();
    for row in &found.rows {
        let point = &row.point;
        writeln!(
            text,
            "{:<5} {:>3} x {:>5} outstanding, {:>8} B, {:>3.0} % reads  {} {:>8} model {:>8} \
             {:+6.1} %  {}",
            row.tag.word(),
            point.drives,
            point.outstanding,
            point.size_bytes,
            point.read_share * 100.0,
            point.origin.word(),
            Rate(point.iops).to_string(),
            Rate(row.model_iops).to_string(),
            row.error * 100.0,
            point.name,
        )?;
    }
    for p in &found.parameters {
        let kind = p.kind.word();
        let interval = match p.interval {
            Some((low, high)) => format!(", 95 %: {low:.3e} to {high:.3e}"),
            None => String::new(),
        };
        let prior = p.prior.map_or(String::new(), |prior| {
            let Prior { mean, error, kind } = prior;
            format!("; catalogue {mean:.3e} ± {error:.1e} ({})", kind.word())
        });
        writeln!(text, "{:<24} {:.4e} ({kind}{interval}){prior}", p.name, p.value)?;
    }
    if let Some(fitted) = &found.profile.calibration {
        writeln!(
            text,
            "median error: FIT {:.2} % of {} runs, PRED {:.2} % of {} held out",
            fitted.fit_error_percent, fitted.fitted, fitted.held_out_error_percent, fitted.held_out
        )?;
    }
    for remark in &found.remarks {
        writeln!(text, "note: {remark}")?;
    }
    if let Err(why) = found.profile.usable() {
        writeln!(text, "NOT USABLE: {why}")?;
    }
    writeln!(text, "saved in {}", out.display())?;
    Ok(text)
}
