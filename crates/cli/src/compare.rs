//! `drumfire compare`: changes between two runs or two sweeps, and differences that cannot be
//! resolved.

mod turns;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args as Flags, ValueEnum};
use job::sweep::words_of;
use report::compare::{Both, Comparison, ENOUGH, Judged, compare, mark, refuse};
use report::threshold::Threshold;
use stats::sweep::Doubt;
use stats::sweep::journal::Counts;
use stats::{Bound, RunResult};

use crate::args::Color;
use crate::exit::{Exit, UsageError};
use crate::report::Look;
use crate::tables::{self, Table};
use crate::{output, report as results, show, sweep, thresholds};

/// `drumfire compare`.
#[derive(Flags, Clone, Debug)]
#[command(
    after_long_help = "A figure is higher or lower if the 95 % interval of its ratio, from three \
    or more runs on each side, does not include 1, after correction for the number of figures. \
    It is unchanged if the interval is within 5 %; else the verdict is \"cannot tell\". Sides that \
    were not measured in turns have wider intervals, as hosts change between runs. Exit code 3: a \
    side is invalid; 4: --fail-if 'iops<-3%' is missed or cannot be decided."
)]
pub struct Args {
    /// Side A (before): folder of a run or a sweep, or a result.json; with --run, a run.
    pub a: PathBuf,
    /// Side B (after).
    pub b: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Format: text, a page (html, markdown), its charts (svg, png), or rows of both sides (csv).
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = Form::Text)]
    #[arg(conflicts_with = "json")]
    pub form: Form,
    /// Rows of csv [default: worker].
    #[arg(long, value_enum, value_name = "ROWS")]
    pub rows: Option<Table>,
    /// Exit with 4 unless the whole interval of a change is within: 'iops<-3%', 'p99>+10%'; or if a
    /// figure of B crosses a bound: 'p99>500us'. With --fail-if-unknown=ignore, a change fails only
    /// if its whole interval crosses the bound, and a change within the noise is printed.
    #[arg(long, value_name = "BOUND", allow_hyphen_values = true)]
    pub fail_if: Vec<Threshold>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub told: thresholds::Told,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub turns: turns::Turns,
}

/// Forms of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// A table.
    Text,
    /// A page with charts in one file.
    Html,
    /// The same page in Markdown.
    Markdown,
    /// The charts of the page as one SVG file.
    Svg,
    /// The chart as PNG, in builds with the feature png.
    Png,
    /// Comma-separated values: the rows of both sides, by the column side.
    #[value(alias = "csv-tidy")]
    Csv,
}

/// One run or cell, to be compared with its counterpart.
struct Side {
    name: String,
    runs: Vec<RunResult>,
    /// Command that repeats the runs.
    again: String,
    /// Figures that differed between identical runs of the control.
    unkept: Vec<String>,
    /// Doubts about the runs as repeats.
    doubts: Vec<Doubt>,
}

/// Runs or cells of one side, and the counts of its journal.
struct Sides {
    all: Vec<Side>,
    journal: Option<Counts>,
}

/// Results other than the pairs.
struct Around {
    judged: Judged,
    /// Cells that only one side has.
    alone: Vec<String>,
    /// Counts of the journals of both sides.
    journals: [Option<Counts>; 2],
    bounds: Vec<Bound>,
}

/// Two sides that are compared with each other.
struct Pair<'a> {
    comparison: Comparison,
    before: &'a [RunResult],
    after: &'a [RunResult],
    again: [&'a str; 2],
}

impl<'a> Pair<'a> {
    fn of(name: &str, a: &'a Side, b: &'a Side, one_path: bool) -> Pair<'a> {
        let unkept = [&a.unkept[..], &b.unkept].concat();
        let comparison = compare(name, &a.runs, &b.runs).beside_control(&unkept);
        let copies = copies(&a.runs, &b.runs).filter(|_| !one_path);
        let second: Vec<Doubt> = b.doubts.iter().cloned().chain(copies).collect();
        let comparison = comparison.doubted([&a.doubts, &second]);
        let again = [&a.again[..], &b.again];
        Pair { comparison, before: &a.runs, after: &b.runs, again }
    }
}

/// Why the runs of the second side are no runs of their own: they are those of the first.
fn copies(a: &[RunResult], b: &[RunResult]) -> Option<Doubt> {
    let is_one = |one: &RunResult, other: &RunResult| {
        one.started == other.started && one.seed == other.seed && one.totals == other.totals
    };
    let count = b.iter().filter(|other| a.iter().any(|one| is_one(one, other))).count();
    (count > 0).then(|| Doubt {
        verdict: stats::Verdict::Fail,
        why: format!("{count} of {} runs are copies of the first side's runs", b.len()),
    })
}

/// The command that repeats the run in a folder often enough.
fn repeats(folder: &Path, run: &RunResult) -> String {
    let name = folder.display();
    // Local files are overwritten only with `--destroy`.
    let writes = run.job.read_percent < 100.0 && run.job.transport == "local";
    let destroy = if writes { " --destroy" } else { "" };
    format!("drumfire sweep {name}/job.toml --repeats {ENOUGH} --out {name}-repeats{destroy}")
}

/// Prints the changes; with `--run`, measures both sides first.
pub fn main(args: &Args, color: Color) -> Result<Exit> {
    tables::only_with(args.rows, args.form == Form::Csv)?;
    if !args.turns.run {
        return print_changes(args, color);
    }
    let sides = [&args.a, &args.b].map(|side| side.to_str().unwrap_or_default());
    let measured = turns::measure(&args.turns, sides, color)?;
    if measured.exit == Exit::Interrupted {
        return Ok(Exit::Interrupted);
    }
    let both = Args { a: measured.a, b: measured.b, ..args.clone() };
    Ok(print_changes(&both, color)?.worse(measured.exit))
}

fn print_changes(args: &Args, color: Color) -> Result<Exit> {
    let (a, b) = (sides(&args.a)?, sides(&args.b)?);
    let journals = [a.journal, b.journal];
    let (a, b) = (a.all, b.all);
    let all = |sides: &[Side]| -> Vec<RunResult> {
        sides.iter().flat_map(|side| side.runs.first().cloned()).collect()
    };
    if let Some(why) = refuse(&all(&a), &all(&b)) {
        let (a, b) = (args.a.display(), args.b.display());
        return Err(UsageError(format!("{a} and {b}: {why}")).into());
    }
    let (mut pairs, alone) = pairs(args, &a, &b);
    if pairs.is_empty() {
        let why = "no equal cells: compare two runs, or sweeps with equal cells";
        return Err(UsageError(why.to_owned()).into());
    }
    let judged = mark(pairs.iter_mut().map(|pair| &mut pair.comparison));
    let around = Around { judged, alone, journals, bounds: bounds(args, &pairs) };
    // Bounds are printed above the last screen.
    let exit = thresholds::say(&around.bounds);
    match args.form {
        Form::Text if args.json => print_document(&pairs, &around)?,
        Form::Text => print(args, &pairs, &around, color)?,
        Form::Csv => {
            let named = vec![("a", args.a.clone()), ("b", args.b.clone())];
            tables::print_csv(named, args.rows.unwrap_or_default())?;
        }
        Form::Html => print_page(args, &pairs, &around, Look::Html)?,
        Form::Markdown => print_page(args, &pairs, &around, Look::Markdown)?,
        Form::Svg => print_page(args, &pairs, &around, Look::Svg(None))?,
        Form::Png => print_page(args, &pairs, &around, Look::Png(None))?,
    }
    let invalid = pairs.iter().any(|pair| !pair.comparison.invalid.is_empty());
    Ok(if invalid { exit.worse(Exit::Dishonest) } else { exit })
}

/// Pairs of sides with the same name, and the names without a counterpart.
fn pairs<'a>(args: &Args, a: &'a [Side], b: &'a [Side]) -> (Vec<Pair<'a>>, Vec<String>) {
    // A path that is given twice is one file.
    let real = |path: &Path| path.canonicalize().ok();
    let one_path = real(&args.a).is_some() && real(&args.a) == real(&args.b);
    if let ([a], [b]) = (a, b) {
        // Two single runs are compared whatever their names are.
        return (vec![Pair::of(&a.name, a, b, one_path)], Vec::new());
    }
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    for side in a {
        match b.iter().find(|other| other.name == side.name) {
            Some(other) => pairs.push(Pair::of(&side.name, side, other, one_path)),
            None => alone.push(format!("{}: {}", args.a.display(), side.name)),
        }
    }
    let unmatched = b.iter().filter(|side| !a.iter().any(|other| other.name == side.name));
    alone.extend(unmatched.map(|side| format!("{}: {}", args.b.display(), side.name)));
    (pairs, alone)
}

/// Verdicts of `--fail-if` for each pair.
fn bounds(args: &Args, pairs: &[Pair]) -> Vec<Bound> {
    let of = |pair: &Pair| {
        let Pair { comparison, before, after, .. } = pair;
        let judged = args.fail_if.iter().map(|one| one.of_comparison(comparison, before, after));
        args.told.of(judged)
    };
    pairs.iter().flat_map(of).collect()
}

fn print_document(pairs: &[Pair], around: &Around) -> Result<()> {
    let all: Vec<&Comparison> = pairs.iter().map(|pair| &pair.comparison).collect();
    output::document(&serde_json::json!({
        "comparisons": all,
        "figures_judged": around.judged.figures,
        "figures_changed": around.judged.changed,
        "on_one_side_only": around.alone,
        "journals": around.journals,
        "gates": around.bounds,
    }))
}

fn print_page(args: &Args, pairs: &[Pair], around: &Around, look: Look) -> Result<()> {
    let found: Vec<_> =
        pairs.iter().map(|pair| (&pair.comparison, &pair.before[0], &pair.after[0])).collect();
    let names = [args.a.display().to_string(), args.b.display().to_string()];
    let page = report::pages::comparison(
        &found,
        &report::pages::Around {
            names: [&names[0], &names[1]],
            figures: around.judged,
            alone: &around.alone,
            journals: &journals(args, around),
            bounds: &around.bounds,
        },
    );
    results::print_page(&page, look)
}

/// A line for each side that has a journal.
fn journals(args: &Args, around: &Around) -> Vec<String> {
    let sides = [&args.a, &args.b].into_iter().zip(&around.journals);
    let line = |(path, counts): (&PathBuf, &Option<Counts>)| {
        let counts = report::sweep::counted(counts.as_ref()?);
        Some(format!("journal of {}: {counts}", path.display()))
    };
    sides.filter_map(line).collect()
}

fn print(args: &Args, pairs: &[Pair], around: &Around, color: Color) -> Result<()> {
    let paint = show::paint(color);
    for Pair { comparison, before, again, .. } in pairs {
        output::painted(&report::compare::painted(comparison, &before[0], *again, paint))?;
    }
    let alone = around.alone.iter().map(|name| format!("on one side only: {name}"));
    let lines = around.judged.words().into_iter().chain(alone).chain(journals(args, around));
    output::print(&lines.collect())?;
    let both =
        pairs.iter().map(|Pair { comparison, before: a, after: b, .. }| Both { comparison, a, b });
    let both: Vec<Both<'_>> = both.collect();
    let sum = report::compare::closing(&both, around.judged, &around.bounds, paint);
    let (a, b) = (args.a.display(), args.b.display());
    let last = format!("saved in {a} and {b}");
    // The closing lines are for terminals; a script knows its command line.
    match output::is_terminal() {
        true => output::end(&sum, &["".to_owned(), last].iter().collect()),
        false => Ok(()),
    }
}

/// The cells of a sweep, or the steps of a run.
fn sides(path: &Path) -> Result<Sides> {
    if !sweep::is_one(path) {
        let runs = results::read(path)?;
        let only = runs.len() == 1;
        let name = |(number, _): &(usize, _)| match only {
            true => String::new(),
            false => format!("step {number}"),
        };
        let folder = if path.is_file() { path.parent().unwrap_or(path) } else { path };
        let side = |step: (usize, RunResult)| {
            let folder = match only {
                true => folder.to_owned(),
                false => folder.join(format!("step-{}", step.0)),
            };
            let again = repeats(&folder, &step.1);
            let (unkept, doubts) = (Vec::new(), Vec::new());
            Side { name: name(&step), runs: vec![step.1], again, unkept, doubts }
        };
        return Ok(Sides { all: (1..).zip(runs).map(side).collect(), journal: None });
    }
    let mut all = Vec::new();
    let sweep = sweep::read(path)?;
    for cell in sweep.cells {
        let runs: Vec<RunResult> = cell
            .whole_runs()
            .map(|run| results::read_document(&path.join(&run.folder).join("result.json")))
            .collect::<Result<_>>()
            .with_context(|| format!("{}, a cell of {}", cell.folder, path.display()))?;
        if !runs.is_empty() {
            let again = format!("the sweep of {} with --repeats {ENOUGH}", path.display());
            let (name, unkept) = (words_of(&cell.settings), sweep.unkept.clone());
            all.push(Side { name, runs, again, unkept, doubts: cell.doubts });
        }
    }
    Ok(Sides { all, journal: sweep.journal })
}

#[cfg(test)]
mod test {
    use job::spec::JobSpec;
    use serde_json::{Value, json};

    use super::*;

    /// Fields in which two runs of the same job may differ.
    const LEFT_OUT: [&str; 6] = ["command", "name", "seed", "volumes", "reported", "figures"];

    /// A job with an option in this table.
    fn job(place: &str, name: &str, value: &Value) -> Value {
        let mut job = json!({ "steps": [{ "seconds": 10, "groups": [{
            "volumes": ["null:1g"],
            "workload": { "access": { "lines": [{ "size_bytes": 4096 }] } },
        }] }] });
        job.pointer_mut(place).unwrap()[name] = value.clone();
        job
    }

    /// All options of this table, from the error message about an unknown option.
    fn options(place: &str) -> Vec<String> {
        let odd = job(place, "no such option", &json!(1));
        let why = serde_json::from_value::<JobSpec>(odd).unwrap_err().to_string();
        let (_, known) = why.split_once("expected one of ").expect("all are listed");
        let quoted = known.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    }

    #[test]
    fn every_option_of_a_job_is_compared() {
        let places = [
            ("", ""),
            ("/steps/0", ""),
            ("/steps/0/groups/0", ""),
            ("/steps/0/groups/0/workload", ""),
            ("/steps/0/groups/0/workload/access", "access."),
        ];
        let mut count = 0;
        for (place, prefix) in places {
            for name in options(place) {
                let run = |value: Value| RunResult {
                    spec: job(place, &name, &value),
                    ..RunResult::default()
                };
                // Tables whose options are checked separately.
                let whole = ["steps", "groups", "workload", "access"];
                if whole.contains(&name.as_str()) {
                    continue;
                }
                let compared = compare("", &[run(json!(1))], &[run(json!(2))]);
                let told: Vec<&str> =
                    compared.differences.iter().map(|found| &*found.what).collect();
                let wanted = format!("{prefix}{name}");
                match LEFT_OUT.contains(&name.as_str()) {
                    true => assert_eq!(told, [""; 0], "{place}/{name}"),
                    false => assert_eq!(told, [wanted], "{place}/{name}"),
                }
                count += 1;
            }
        }
        // Minimum count: the number of options when this test was written.
        assert!(count >= 45, "{count} options");
    }
}
