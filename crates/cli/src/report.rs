//! `drumfire report`: a result again, in another form.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args as Flags, ValueEnum};
use serde_json::error::Category;
use stats::sweep::{CellRun, SweepResult};
use stats::{RunResult, SCHEMA_VERSION};

use crate::args::Color;
use crate::exit::{Exit, UsageError, of_file};
use crate::{output, show, sweep};

/// `drumfire report`.
#[derive(Flags, Debug)]
#[command(after_help = "Examples: drumfire report drumfire-runs/* --as csv > runs.csv\n\
    drumfire report my-sweep --as html > sweep.html")]
pub struct Args {
    /// Folders of runs or sweeps, or their result.json.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// The form.
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = Form::Text)]
    pub form: Form,
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
    /// What fio prints with --output-format=json.
    Fio,
    /// The same with histograms: --output-format=json+.
    #[value(name = "fio+")]
    FioPlus,
    /// Iometer's result file.
    Csv,
    /// A HdrHistogram log, a line for each second.
    Hlog,
}

/// Longest document that is read: a run of thousands of workers has some ten megabytes.
const DOCUMENT_MAX_BYTES: u64 = 1 << 30;

/// Prints the results.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    if args.form == Form::Html {
        return page(&args.runs);
    }
    let mut found = Vec::new();
    for run in &args.runs {
        if sweep::is_one(run) {
            found.extend(of_sweep(run, args.form)?);
        } else {
            let steps = read(run)?;
            match args.form {
                // One document, whatever the run did one after the other.
                Form::Fio | Form::FioPlus => found.push(Found::Run(steps)),
                _ => found.extend(steps.into_iter().map(|result| Found::Run(vec![result]))),
            }
        }
    }
    output::write(|out| {
        found.iter().try_for_each(|one| match (one, args.form) {
            (Found::Run(steps), form) => write(steps, form, color, out),
            (Found::Sweep(sweep), Form::Json) => report::json::write_value(sweep, out),
            (Found::Sweep(sweep), _) => report::sweep::write(sweep, show::paint(color), out),
        })
    })?;
    Ok(Exit::Good)
}

/// Prints the page of one run, with all its steps, or of one sweep.
fn page(runs: &[PathBuf]) -> Result<Exit> {
    let [run] = runs else {
        let why = "a page holds one run or sweep: name one of them";
        return Err(UsageError(why.to_owned()).into());
    };
    let page = match sweep::is_one(run) {
        true => report::pages::sweep(&sweep::read(run)?),
        false => report::pages::runs(&read(run)?),
    };
    output::print(&page.html())?;
    Ok(Exit::Good)
}

/// What is printed.
enum Found {
    /// Of one run: several only where a form takes them at once.
    Run(Vec<RunResult>),
    Sweep(Box<SweepResult>),
}

/// A sweep as it is, or all its runs in the forms that know no sweeps.
fn of_sweep(folder: &Path, form: Form) -> Result<Vec<Found>> {
    let sweep = sweep::read(folder)?;
    if matches!(form, Form::Text | Form::Json) {
        return Ok(vec![Found::Sweep(Box::new(sweep))]);
    }
    let runs = sweep.cells.iter().flat_map(|cell| cell.whole_runs());
    let result = |run: &CellRun| read_document(&folder.join(&run.folder).join("result.json"));
    runs.map(|run| Ok(Found::Run(vec![result(run)?]))).collect()
}

fn write(steps: &[RunResult], form: Form, color: Color, out: &mut impl Write) -> io::Result<()> {
    let Some(result) = steps.first() else { return Ok(()) };
    match form {
        Form::Text => report::text::write(result, show::paint(color), out),
        Form::Json => report::json::write(result, out),
        Form::Html => unreachable!("a page is made of all results at once"),
        Form::Fio => report::fio::write(steps, false, out),
        Form::FioPlus => report::fio::write(steps, true, out),
        Form::Csv => report::iometer::write(result, out),
        Form::Hlog => report::hlog::write(result, out),
    }
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
    let mut result = read_own(path)?;
    let name = path.display();
    if let Some(why) = report::sound::doubt(&result) {
        let job = path.with_file_name("job.toml");
        let again = match job.is_file() {
            true => format!(": drumfire run {}", job.display()),
            false => String::new(),
        };
        let why = format!(
            "{name}: {why}: the file was changed since it was made. Use the one that the run wrote, \
             or measure again{again}"
        );
        return Err(UsageError(why).into());
    }
    if result.schema_version < SCHEMA_VERSION {
        result.warnings.push(format!(
            "made by an earlier version (layout {}): its latencies leave out the I/Os that were under \
             way when the window ended, so its longest and its percentiles may be too low",
            result.schema_version
        ));
    }
    Ok(result)
}

/// Reads one `result.json` that this program has just made.
pub fn read_own(path: &Path) -> Result<RunResult> {
    use std::io::Read;
    let name = path.display();
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(DOCUMENT_MAX_BYTES).read_to_end(&mut text))
        .map_err(|error| of_file(&name, error))?;
    if let Some(why) = newer(&text) {
        return Err(UsageError(format!("cannot read {name}: {why}")).into());
    }
    report::json::read(&text).map_err(|error| {
        let why = match (error.classify(), is_document(&text)) {
            (Category::Eof, _) => format!(
                "it is no JSON: it ends in the middle, at line {}: the file was cut",
                error.line()
            ),
            (Category::Syntax, _) => format!("it is no JSON: {error}"),
            // It is one of ours, of another version or spoilt.
            (_, true) => error.to_string(),
            (_, false) => "it holds something else than the result of a run".to_owned(),
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

/// Whether a text is a document of ours, be it a spoilt one.
fn is_document(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(text).is_ok_and(|it| it["schema_version"].is_u64())
}
