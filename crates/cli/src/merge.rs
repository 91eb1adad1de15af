//! `drumfire merge`: the parts of several hosts as one result.

mod others;
mod reading;

use std::path::{Path, PathBuf};

use anyhow::Result;
use block::Text;
use clap::Args as Flags;
use stats::merge::{HOSTS_MAX, Merge, Refused};
use stats::{RunResult, WorkerResult};

use crate::args::Color;
use crate::exit::{Exit, UsageError};
use crate::folder::{self, Folder, Successor};
use crate::thresholds::{self, Thresholds};
use crate::{output, part, show};

/// `drumfire merge`.
#[derive(Flags, Debug)]
#[command(
    after_long_help = "Counts, sums and histograms of the parts add up: percentiles are those \
    that one process would have computed, never averages. Exit codes: 2 if parts do not belong \
    together (settings, builds, clock sources, seeds, a host twice), 6 if hosts are missing or \
    their runs incomplete. With less than 95 % overlap the result is invalid (M01); with --strict \
    that is exit code 3.\n\
    Results of other tools need histograms: fio --output-format=json+, spdk_nvme_perf -LL, \
    elbencho --lat --latpercent --lathisto"
)]
pub struct Args {
    /// Parts that run --part wrote, or folders of such runs; or results of fio, spdk_nvme_perf or
    /// elbencho.
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<PathBuf>,
    /// Number of hosts: with fewer parts the result is partial, and the exit code 6.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub expect: Option<u32>,
    /// Print one JSON document, the result, instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Folder for the merged result [default: none].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace the result in the folder of --out.
    #[arg(long, requires = "out")]
    pub replace: bool,
    /// Exit with 3 if an honesty check fails.
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub asked: Thresholds,
}

/// Merges the parts, saves the result if wanted, and prints it.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    args.asked.check()?;
    if args.parts.len() > HOSTS_MAX {
        let why = format!("{} parts: {HOSTS_MAX} at most", args.parts.len());
        return Err(UsageError(why).into());
    }
    if let Some(exit) = others::merge(args, color)? {
        return Ok(exit);
    }
    let folder = args.out.as_deref().map(|out| Folder::new(Some(out), "merge", args.replace));
    let folder = folder.transpose()?;
    let mut result = merged(args)?;
    result.tool = part::tool();
    result.bounds = args.asked.of_result("merged", &result);
    if let Some(folder) = folder {
        let mut successor = Successor::begin(folder, args.replace)?;
        write(&successor.place.now, &result)?;
        successor.take_place()?;
    }
    if let Some(partial) = &result.partial {
        output::note(format_args!("drumfire: partial result: {partial}"));
    }
    match args.json {
        true => show::print_json(&result)?,
        false => {
            let (paint, light) = (show::paint(color), light(&result));
            output::painted(&report::text::painted(&light, paint))?;
            let kept = args.out.as_deref().map_or_else(Text::new, show::kept_in);
            output::end(&report::text::closing(&light, paint), &kept)?;
        }
    }
    let exit = Exit::of_result(&result, false, args.strict);
    Ok(exit.worse(thresholds::say(&result.bounds)))
}

/// Writes the result, and its renderings.
fn write(folder: &Path, result: &RunResult) -> Result<()> {
    folder::write_file(&folder.join("result.json"), |out| {
        report::json::write(result, out)?;
        Ok(())
    })?;
    folder::render(folder, &light(result))
}

/// Returns the part of a result that the table shows: histograms of a thousand hosts are most of a
/// result.
fn light(result: &RunResult) -> RunResult {
    let few = |worker: &WorkerResult| WorkerResult {
        name: worker.name.clone(),
        volume: worker.volume.clone(),
        target: worker.target.clone(),
        ios: worker.ios,
        errors: worker.errors,
        seconds: worker.seconds,
        iops: worker.iops,
        bytes_per_second: worker.bytes_per_second,
        mean_outstanding: worker.mean_outstanding,
        latency_ns: worker.latency_ns,
        waiting: worker.waiting,
        connections: worker.connections,
        ..WorkerResult::default()
    };
    RunResult {
        workers: result.workers.iter().map(few).collect(),
        schema_version: result.schema_version,
        tool: result.tool.clone(),
        origin: result.origin,
        kind: result.kind,
        class: result.class,
        checks: result.checks.clone(),
        bounds: result.bounds.clone(),
        job: result.job.clone(),
        spec: result.spec.clone(),
        host: result.host.clone(),
        started: result.started.clone(),
        seed: result.seed,
        partial: result.partial.clone(),
        totals: result.totals,
        cpu: result.cpu,
        failures: result.failures.clone(),
        failures_unlisted: result.failures_unlisted,
        intervals: result.intervals.clone(),
        hosts: result.hosts.clone(),
        skew_ns: result.skew_ns,
        common_window: result.common_window.clone(),
        warnings: result.warnings.clone(),
        ..RunResult::default()
    }
}

/// The result of all parts.
fn merged(args: &Args) -> Result<RunResult> {
    let mut merge = Merge::default();
    reading::in_order(&args.parts, |path, result| {
        let named = |why: Refused| UsageError(format!("{}: {why}", path.display()));
        Ok(merge.add(result).map_err(named)?)
    })?;
    let merged = merge.finish(args.expect);
    Ok(merged.map_err(|why| UsageError(format!("--expect: {why}")))?)
}
