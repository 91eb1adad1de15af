//! `drumfire report`: a result again, in another form.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Result;
use block::Text;
use clap::{Args as Flags, ValueEnum};
use report::fio::Include;
use report::json::Seal;
use report::page::Page;
use report::pages::Scenarios;
use serde_json::error::Category;
use stats::sweep::{CellRun, SweepResult};
use stats::{Bound, Class, EVERY_CHECK_SINCE, RunResult, SAME_FIGURES_SINCE, SCHEMA_VERSION};

use crate::args::Color;
use crate::exit::{Exit, UsageError, of_file};
use crate::tables::{self, Table};
use crate::thresholds::{self, Thresholds};
use crate::{output, picture, show, sweep};

/// `drumfire report`.
#[derive(Flags, Debug)]
#[command(after_long_help = "Bounds of a run or sweep, and whether they were kept, are in its \
    report. With --fail-if those take their place.\n\
    In a workflow: drumfire report my-run --as markdown >> \"$GITHUB_STEP_SUMMARY\"")]
pub struct Args {
    /// Folders of runs or sweeps, their result.json, or what scenario --json printed.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Format.
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = Form::Text)]
    pub form: Form,
    /// Rows of csv and parquet [default: worker].
    #[arg(long, value_enum, value_name = "ROWS")]
    pub rows: Option<Table>,
    /// Chart of svg and png, as rate-over-time; all without it.
    #[arg(long, value_name = "NAME")]
    pub chart: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub asked: Thresholds,
}

/// Forms of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// The table that a run prints.
    Text,
    /// The document itself.
    Json,
    /// A page with charts in one file.
    Html,
    /// The same page in Markdown, for reviews and summaries of build servers.
    Markdown,
    /// The charts of the page as one SVG file, or one of them with --chart.
    Svg,
    /// The chart as PNG, 2 dots per pixel, in builds with the feature png.
    Png,
    /// Honesty checks and bounds as test cases for build servers.
    Junit,
    /// The document of fio's --output-format=json.
    Fio,
    /// The same with histograms: --output-format=json+.
    #[value(name = "fio+")]
    FioPlus,
    /// Comma-separated values: a header, and the rows of --rows.
    #[value(alias = "csv-tidy")]
    Csv,
    /// The rows as a Parquet file, in builds with the feature parquet.
    Parquet,
    /// InfluxDB line protocol: a point for each second of each worker, and of all.
    Influx,
    /// Iometer's result file.
    Iometer,
    /// A HdrHistogram log, a line for each second.
    Hlog,
}

/// Longest document that is read: a run of thousands of workers has some ten megabytes.
const DOCUMENT_MAX_BYTES: u64 = 1 << 30;

/// Prints the results.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    args.asked.check()?;
    tables::only_with(args.rows, matches!(args.form, Form::Csv | Form::Parquet))?;
    if args.chart.is_some() && !matches!(args.form, Form::Svg | Form::Png) {
        let why = "--chart selects a chart of --as svg or --as png";
        return Err(UsageError(why.to_owned()).into());
    }
    let bounds = asked_now(args)?;
    match args.form {
        Form::Html | Form::Markdown | Form::Svg | Form::Png => page(args)?,
        Form::Junit => junit(args)?,
        Form::Csv => tables::print_csv(tables::named(&args.runs), args.rows.unwrap_or_default())?,
        Form::Parquet => {
            tables::print_parquet(tables::named(&args.runs), args.rows.unwrap_or_default())?
        }
        Form::Influx => tables::print_influx(tables::named(&args.runs))?,
        _ => plain(args, color)?,
    }
    Ok(thresholds::say(&bounds))
}

/// The verdicts of this command's bounds. Bounds that a run had decided its own exit code: they
/// are shown, and decide none.
fn asked_now(args: &Args) -> Result<Vec<Bound>> {
    let mut bounds = Vec::new();
    if args.asked.fail_if.is_empty() {
        return Ok(bounds);
    }
    for run in &args.runs {
        if sweep::is_one(run) {
            bounds.extend(bounded_sweep(args, run)?.bounds);
        } else {
            bounds.extend(bounded(args, run)?.into_iter().flat_map(|result| result.bounds));
        }
    }
    Ok(bounds)
}

/// The results of a run with the bounds that they are to be shown with.
fn bounded(args: &Args, run: &Path) -> Result<Vec<RunResult>> {
    let mut results = read(run)?;
    if !args.asked.fail_if.is_empty() {
        let of = results.len();
        for (number, result) in (1..).zip(&mut results) {
            result.bounds = args.asked.of_result(&thresholds::step(number, of), result);
        }
    }
    Ok(results)
}

/// A sweep with the bounds that it is to be shown with.
fn bounded_sweep(args: &Args, folder: &Path) -> Result<SweepResult> {
    let mut sweep = sweep::read(folder)?;
    if !args.asked.fail_if.is_empty() {
        sweep.bounds = args.asked.of_sweep(&sweep, folder);
    }
    Ok(sweep)
}

fn junit(args: &Args) -> Result<()> {
    let mut found: Vec<(String, RunResult)> = Vec::new();
    let mut swept: Vec<(String, Vec<Bound>)> = Vec::new();
    for run in &args.runs {
        let results = match sweep::is_one(run) {
            true => {
                swept.push((run.display().to_string(), bounded_sweep(args, run)?.bounds));
                of_sweep(args, run)?.into_iter().flat_map(Found::runs).collect()
            }
            false => bounded(args, run)?,
        };
        let many = results.len() > 1;
        for (number, result) in (1..).zip(results) {
            let step = if many { format!(" {number}") } else { String::new() };
            found.push((format!("{}{step}", run.display()), result));
        }
    }
    let named: Vec<(&str, &RunResult)> = found.iter().map(|(name, run)| (&name[..], run)).collect();
    let swept: Vec<(&str, &[Bound])> =
        swept.iter().map(|(name, all)| (&name[..], &all[..])).collect();
    let mut text = Vec::new();
    report::junit::write(&named, &swept, &mut text)?;
    output::file(&text)
}

fn plain(args: &Args, color: Color) -> Result<()> {
    let mut found = Vec::new();
    for run in &args.runs {
        if sweep::is_one(run) {
            found.extend(of_sweep(args, run)?);
        } else {
            let steps = bounded(args, run)?;
            match args.form {
                // One document, whatever the run did one after the other.
                Form::Fio | Form::FioPlus => found.push(Found::Run(steps)),
                _ => found.extend(steps.into_iter().map(|result| Found::Run(vec![result]))),
            }
        }
    }
    found.iter().try_for_each(|one| match (one, args.form) {
        (Found::Run(steps), form) => print(steps, form, color),
        (Found::Sweep(sweep), Form::Json) => output::document(sweep),
        (Found::Sweep(sweep), _) => {
            let (paint, columns) = (show::paint(color), output::terminal_columns());
            output::painted(&report::sweep::painted(sweep, paint, columns))?;
            output::end(&report::sweep::closing(sweep, paint), &Text::new())
        }
    })
}

/// Prints the page of one run, with all its steps, of one sweep, or of scenarios.
fn page(args: &Args) -> Result<()> {
    let [run] = &args.runs[..] else {
        let why = "a page shows one run or sweep: name one";
        return Err(UsageError(why.to_owned()).into());
    };
    let page = match (scenarios(run)?, sweep::is_one(run)) {
        (Some((found, text)), _) => report::pages::scenarios(&found, &text),
        (None, true) => report::pages::sweep(&bounded_sweep(args, run)?),
        (None, false) => report::pages::runs(&bounded(args, run)?),
    };
    let chart = args.chart.as_deref();
    match args.form {
        Form::Markdown => print_page(&page, Look::Markdown),
        Form::Svg => print_page(&page, Look::Svg(chart)),
        Form::Png => print_page(&page, Look::Png(chart)),
        _ => print_page(&page, Look::Html),
    }
}

/// Form of a printed page.
#[derive(Clone, Copy, Debug)]
pub enum Look<'a> {
    /// HTML with tables and charts.
    Html,
    /// Markdown for reviews and summaries.
    Markdown,
    /// The charts as SVG, or one of them.
    Svg(Option<&'a str>),
    /// The charts as PNG, or one of them.
    Png(Option<&'a str>),
}

/// Prints a page.
pub fn print_page(page: &Page, look: Look<'_>) -> Result<()> {
    let svg = |chart| page.svg(chart).map_err(|why| UsageError(format!("--as svg: {why}")));
    match look {
        Look::Html => output::file(page.html().as_bytes()),
        Look::Markdown => output::file(page.markdown().as_bytes()),
        Look::Svg(chart) => output::file(svg(chart)?.as_bytes()),
        Look::Png(chart) => output::bytes(&picture::png(&svg(chart)?)?),
    }
}

/// The document of `scenario run --json`, if a file has one, with its text.
fn scenarios(path: &Path) -> Result<Option<(Scenarios, String)>> {
    use std::io::Read;
    // Long documents are results, and are read as such.
    const MAX_BYTES: u64 = 16 << 20;
    let is_short = |of: std::fs::Metadata| of.is_file() && of.len() <= MAX_BYTES;
    if !path.metadata().is_ok_and(is_short) {
        return Ok(None);
    }
    let mut text = String::new();
    let name = path.display();
    let file = File::open(path).map_err(|error| of_file(&name, error))?;
    if file.take(MAX_BYTES).read_to_string(&mut text).is_err() {
        return Ok(None);
    }
    let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else { return Ok(None) };
    if value.get("scenarios").is_none() {
        return Ok(None);
    }
    let found = serde_json::from_value(value).map_err(|error| {
        UsageError(format!("cannot read {name}: its scenarios are not as they were made: {error}"))
    })?;
    Ok(Some((found, text)))
}

/// The output.
enum Found {
    /// Report of one run; of several if a format accepts them at once.
    Run(Vec<RunResult>),
    Sweep(Box<SweepResult>),
}

impl Found {
    fn runs(self) -> Vec<RunResult> {
        match self {
            Found::Run(results) => results,
            Found::Sweep(_) => Vec::new(),
        }
    }
}

/// A sweep as it is, or all its runs in the forms that know no sweeps.
fn of_sweep(args: &Args, folder: &Path) -> Result<Vec<Found>> {
    let sweep = bounded_sweep(args, folder)?;
    if matches!(args.form, Form::Text | Form::Json) {
        return Ok(vec![Found::Sweep(Box::new(sweep))]);
    }
    let runs = sweep.cells.iter().flat_map(|cell| cell.whole_runs());
    let result = |run: &CellRun| read_document(&folder.join(&run.folder).join("result.json"));
    runs.map(|run| Ok(Found::Run(vec![result(run)?]))).collect()
}

fn print(steps: &[RunResult], form: Form, color: Color) -> Result<()> {
    let Some(result) = steps.first() else { return Ok(()) };
    let mut text = Vec::new();
    let fio = |plus| {
        let mut text = Vec::new();
        report::fio::write(steps, Include { plus, trust: true }, &mut text)?;
        output::json(&String::from_utf8(text)?)
    };
    match form {
        Form::Text => {
            let paint = show::paint(color);
            output::painted(&report::text::painted(result, paint))?;
            return output::end(&report::text::closing(result, paint), &Text::new());
        }
        Form::Json => return show::print_json(result),
        Form::Fio => return fio(false),
        Form::FioPlus => return fio(true),
        Form::Iometer => report::iometer::write(result, &mut text)?,
        Form::Hlog => report::hlog::write(result, &mut text)?,
        _ => unreachable!("made of all results at once"),
    }
    output::file(&text)
}

/// The results of a run, read from its folder or document: one, or one for each step in its order.
pub fn read(run: &Path) -> Result<Vec<RunResult>> {
    if run.is_file() {
        return Ok(vec![read_document(run)?]);
    }
    let alone = run.join("result.json");
    if alone.is_file() {
        return Ok(vec![read_document(&alone)?]);
    }
    let steps = (1..).map(|number| run.join(format!("step-{number}/result.json")));
    let results: Vec<RunResult> = steps
        .take_while(|path| path.is_file())
        .map(|path| read_document(&path))
        .collect::<Result<_>>()?;
    if results.is_empty() {
        // A run that was killed before it kept anything.
        let early = match run.read_dir().is_ok_and(|mut inside| inside.next().is_none()) {
            true => " (one that is killed in its first seconds has none)",
            false => "",
        };
        let run = run.display();
        let why = format!("{run} holds no result.json: name the folder of a run{early}");
        return Err(UsageError(why).into());
    }
    Ok(results)
}

/// Reads one `result.json`, and refuses one that is not as it was made.
pub fn read_document(path: &Path) -> Result<RunResult> {
    let text = read_text(path)?;
    let mut result = parse(path, &text)?;
    let name = path.display();
    // A figure that contradicts another says more than the digest.
    let seal = report::json::seal(&text).unwrap_or(Seal::Broken);
    let broken = (seal == Seal::Broken)
        .then(|| "its digest does not match its figures, checks or settings".to_owned());
    if let Some(why) = report::sound::doubt(&result).or(broken) {
        let job = path.with_file_name("job.toml");
        let again = match job.is_file() {
            true => format!(": drumfire run {}", job.display()),
            false => String::new(),
        };
        let why = format!(
            "{name}: {why}: the file was changed since it was made. Use the one that the run \
             wrote, or measure again{again}"
        );
        return Err(UsageError(why).into());
    }
    if seal == Seal::Missing {
        let words = "it has no digest, so later changes cannot be ruled out: an earlier version or \
            a killed run wrote it, or the digest was removed";
        result.warnings.push(words.to_owned());
        // A result that anybody may have changed is not for publication.
        if result.class == Class::Publishable {
            result.class = Class::Indicative;
        }
    }
    if (SAME_FIGURES_SINCE..EVERY_CHECK_SINCE).contains(&result.schema_version) {
        result.warnings.push(format!(
            "made by an earlier version (layout {}): checks that did not apply are not in it, and \
             its class is by the rule of then",
            result.schema_version
        ));
    }
    if result.schema_version < SAME_FIGURES_SINCE {
        result.warnings.push(format!(
            "made by an earlier version (layout {}): its latencies leave out the I/Os in flight \
             when the window ended, so maximum and percentiles may be too low",
            result.schema_version
        ));
    }
    Ok(result)
}

/// The digest in a `result.json`; empty where there is none.
pub fn digest_of(path: &Path) -> String {
    let text = read_text(path).unwrap_or_default();
    report::json::digest_at_end(&text).unwrap_or_default().to_owned()
}

/// Reads one `result.json` that this program has just made.
pub fn read_own(path: &Path) -> Result<RunResult> {
    parse(path, &read_text(path)?)
}

fn read_text(path: &Path) -> Result<Vec<u8>> {
    use std::io::Read;
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(DOCUMENT_MAX_BYTES).read_to_end(&mut text))
        .map_err(|error| of_file(path.display(), error))?;
    Ok(text)
}

fn parse(path: &Path, text: &[u8]) -> Result<RunResult> {
    let name = path.display();
    if let Some(why) = newer(text) {
        return Err(UsageError(format!("cannot read {name}: {why}")).into());
    }
    report::json::read(text).map_err(|error| {
        let why = match (error.classify(), is_document(text)) {
            (Category::Eof, _) => {
                format!("not JSON: it ends at line {}: the file was truncated", error.line())
            }
            (Category::Syntax, _) => format!("not JSON: {error}"),
            _ if is_of_sweep(text) => "it is the document of a sweep: name its folder".to_owned(),
            // The file is one of ours, of another version or damaged.
            (_, true) => error.to_string(),
            (_, false) => "it is not the result of a run".to_owned(),
        };
        UsageError(format!("cannot read {name}: {why}")).into()
    })
}

/// Says which program reads a document whose layout is newer than this one knows.
pub fn newer(text: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema_version: u32,
        #[serde(default)]
        tool: Option<serde_json::Value>,
    }
    let head: Head = serde_json::from_slice(text).ok()?;
    let layout = head.schema_version;
    let version = head.tool.and_then(|tool| Some(tool.get("version")?.as_str()?.to_owned()));
    let version = version.map_or_else(String::new, |version| format!(" of drumfire {version}"));
    (layout > SCHEMA_VERSION).then(|| {
        format!(
            "it has layout {layout}{version}, and this version reads up to {SCHEMA_VERSION}: read \
             it with that version or a newer one"
        )
    })
}

/// Whether a text is the document of a sweep.
fn is_of_sweep(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(text).is_ok_and(|it| it["cells"].is_array())
}

/// Whether a text is a document of ours, be it a spoilt one.
fn is_document(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(text).is_ok_and(|it| it["schema_version"].is_u64())
}
