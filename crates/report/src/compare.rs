//! Two sides: what changed, whether that is more than their spread, and whether they may stand
//! side by side at all.

mod options;

use std::io::{self, Write};

use serde::Serialize;
use stats::{RunResult, Spread};

use crate::figure;
use crate::job;
use crate::style::Paint;

/// What two sides come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What is compared, as "size=4k outstanding=8"; empty for two runs.
    pub name: String,
    /// Whether nothing but what is to be compared differs.
    pub comparable: bool,
    /// What else differs.
    pub differences: Vec<Difference>,
    /// The figures of both.
    pub figures: Vec<Figure>,
}

/// Something that differs beside the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// What, as "size" or "host"; an option of a job by its name.
    pub what: String,
    /// On the first side.
    pub a: String,
    /// On the second side.
    pub b: String,
}

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Which, as "IOPS".
    pub name: &'static str,
    /// On the first side.
    pub a: Sample,
    /// On the second side.
    pub b: Sample,
    /// The second over the first; `null` if the first is 0.
    pub ratio: Option<f64>,
    /// The least and the most that the ratio may be, by the intervals of both.
    pub ratio_range: Option<[f64; 2]>,
    /// What it comes to.
    pub verdict: Change,
}

/// A figure and how far it spreads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The value: of the only run, or the median of several.
    pub value: f64,
    /// The spread of the runs, or of the seconds of the only one.
    pub spread: Option<Spread>,
    /// What the spread is of.
    pub of: Kind,
}

/// What a spread is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Runs: it tells how far another run would be off.
    Runs,
    /// The seconds of one run: it tells less.
    Seconds,
}

/// Whether something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Both intervals lie apart.
    Higher,
    /// Both intervals lie apart.
    Lower,
    /// The difference is within the spread.
    WithinSpread,
    /// There is no spread to hold it against.
    Unknown,
}

impl Change {
    fn words(self) -> &'static str {
        match self {
            Change::Higher => "higher",
            Change::Lower => "lower",
            Change::WithinSpread => "within the spread",
            Change::Unknown => "no spread known",
        }
    }
}

/// Compares two sides of at least one run each. The runs of a side are repeats of each other.
pub fn compare(name: &str, a: &[RunResult], b: &[RunResult]) -> Comparison {
    let differences = differences(&a[0], &b[0]);
    let latency = |of: fn(&stats::Latency) -> Option<u64>| {
        move |run: &RunResult| of(&run.totals.latency_ns).map(|ns| ns as f64)
    };
    let ns = |ns: Option<u64>| ns.map(|ns| ns as f64);
    let figures = [
        figure("IOPS", a, b, |run| Some(run.totals.iops), |second| Some(second.iops)),
        figure(
            "bytes/s",
            a,
            b,
            |run| Some(run.totals.bytes_per_second),
            |second| Some(second.bytes_per_second),
        ),
        figure("mean", a, b, |run| run.totals.latency_ns.mean, |second| second.mean_ns),
        figure("p50", a, b, latency(|l| l.p50), |second| ns(second.p50_ns)),
        figure("p99", a, b, latency(|l| l.p99), |second| ns(second.p99_ns)),
        figure("p99.9", a, b, latency(|l| l.p99_9), |second| ns(second.p99_9_ns)),
        figure("µs core/IO", a, b, |run| run.cpu.core_us_per_io, |_| None),
    ];
    Comparison {
        name: name.to_owned(),
        comparable: differences.is_empty(),
        differences,
        figures: figures.into_iter().flatten().collect(),
    }
}

fn figure(
    name: &'static str,
    a: &[RunResult],
    b: &[RunResult],
    run: impl Fn(&RunResult) -> Option<f64>,
    second: impl Fn(&stats::Second) -> Option<f64>,
) -> Option<Figure> {
    let (a, b) = (sample(a, &run, &second)?, sample(b, &run, &second)?);
    let ratio = (a.value != 0.0).then(|| b.value / a.value);
    let ends = a.spread.zip(b.spread);
    let ratio_range =
        ends.filter(|(a, _)| a.low > 0.0).map(|(a, b)| [b.low / a.high, b.high / a.low]);
    let verdict = match ends {
        None => Change::Unknown,
        Some((a, b)) if !a.is_apart_from(&b) => Change::WithinSpread,
        Some((a, b)) if b.low > a.high => Change::Higher,
        Some(_) => Change::Lower,
    };
    Some(Figure { name, a, b, ratio, ratio_range, verdict })
}

/// The spread of several runs; of one run that of its seconds, and around its own value.
fn sample(
    runs: &[RunResult],
    run: &impl Fn(&RunResult) -> Option<f64>,
    second: &impl Fn(&stats::Second) -> Option<f64>,
) -> Option<Sample> {
    let values: Option<Vec<f64>> = runs.iter().map(run).collect();
    let values = values?;
    if let [value] = values[..] {
        let seconds = runs[0].intervals.iter().filter_map(second);
        let spread = Spread::of(seconds).filter(|spread| spread.n > 1);
        let around = |spread: Spread| Spread {
            low: spread.low.min(value),
            high: spread.high.max(value),
            ..spread
        };
        return Some(Sample { value, spread: spread.map(around), of: Kind::Seconds });
    }
    let spread = Spread::of(values)?;
    Some(Sample { value: spread.median, spread: Some(spread), of: Kind::Runs })
}

/// What differs beside the figures: the kind of job, the host, how the numbers came about.
fn differences(a: &RunResult, b: &RunResult) -> Vec<Difference> {
    let share = |percent: f64| format!("{percent} %");
    let some = |number: Option<f64>| number.map_or_else(|| "none".to_owned(), figure::rate);
    let size = |size: Option<u32>| {
        size.map_or_else(|| "mixed".to_owned(), |bytes| figure::size(bytes.into()))
    };
    let facts = |run: &RunResult| {
        let (job, host) = (&run.job, &run.host);
        [
            ("origin", run.origin.with(run.kind)),
            ("size", size(job.size_bytes)),
            ("reads", share(job.read_percent)),
            ("random", share(job.random_percent)),
            ("outstanding", some(job.outstanding.map(|n| n as f64))),
            ("planned rate", some(job.rate_per_s)),
            ("workers", job.workers.to_string()),
            ("volumes", job.volumes.to_string()),
            ("transport", job.transport.clone()),
            ("loopback", job.loopback.to_string()),
            ("storage", job.storage.clone()),
            ("seconds", figure::seconds(job.seconds)),
            ("host", host.name.clone()),
            ("processor", format!("{}, {} cores", host.cpu, host.cores)),
            ("memory", figure::size(host.memory_bytes)),
            ("kernel", host.kernel.clone()),
            ("hypervisor", host.hypervisor.clone().unwrap_or_else(|| "none".to_owned())),
            ("cores of workers", format!("{:?}", run.placement.initiator)),
            ("version", format!("{} {}", run.tool.version, run.tool.git.as_deref().unwrap_or(""))),
            ("failed I/Os", run.totals.errors.to_string()),
            ("reconnects", run.totals.connections.reconnects.to_string()),
            ("connections lost", run.totals.connections.connections_lost.to_string()),
            ("whole run", run.partial.clone().unwrap_or_else(|| "yes".to_owned())),
        ]
    };
    let both = facts(a).into_iter().zip(facts(b));
    let mut found: Vec<Difference> = both
        .filter(|((_, a), (_, b))| a != b)
        .map(|((what, a), (_, b))| Difference {
            what: what.to_owned(),
            a: a.trim().to_owned(),
            b: b.trim().to_owned(),
        })
        .collect();
    for option in options::differences(&a.spec, &b.spec) {
        // Some stand among the facts, in better words.
        if found.iter().all(|known| known.what != option.what) {
            found.push(option);
        }
    }
    found
}

/// Writes a comparison: first what forbids it, then the figures.
pub fn write(
    comparison: &Comparison,
    run: &RunResult,
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    let name =
        if comparison.name.is_empty() { job::kind(&run.job) } else { comparison.name.clone() };
    writeln!(out, "{}", paint.bold(&name))?;
    for difference in &comparison.differences {
        let line = format!("  {}: {} → {}", difference.what, difference.a, difference.b);
        writeln!(out, "{}", paint.yellow(&line))?;
    }
    if !comparison.comparable {
        let line = "  not the same measurement: a change below may come from any of these";
        writeln!(out, "{}", paint.yellow(line))?;
    }
    for figure in &comparison.figures {
        let change = match (figure.ratio, figure.ratio_range) {
            (Some(ratio), Some([low, high])) => {
                format!("{} ({} to {})", percent(ratio), percent(low), percent(high))
            }
            (Some(ratio), None) => percent(ratio),
            (None, _) => figure::UNKNOWN.to_owned(),
        };
        let verdict = match figure.verdict {
            Change::Higher | Change::Lower => paint.bold(figure.verdict.words()),
            Change::WithinSpread | Change::Unknown => figure.verdict.words().to_owned(),
        };
        let (a, b) = (show(figure.name, figure.a.value), show(figure.name, figure.b.value));
        writeln!(out, "  {:<10} {a:>10} → {b:>10}  {change:<32}  {verdict}", figure.name)?;
    }
    writeln!(out, "  {}", paint.dim(&rests_on(comparison)))
}

/// As "+3.1 %".
fn percent(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn show(name: &str, value: f64) -> String {
    match name {
        "IOPS" => figure::rate(value),
        "bytes/s" => figure::bytes_per_second(value),
        "µs core/IO" => format!("{value:.3}"),
        _ => figure::span(value),
    }
}

fn rests_on(comparison: &Comparison) -> String {
    let Some(figure) = comparison.figures.first() else { return "nothing is known".to_owned() };
    let side = |sample: &Sample| match (sample.of, sample.spread) {
        (Kind::Seconds, Some(spread)) => format!("{} seconds of one run", spread.n),
        (Kind::Seconds, None) => "one run".to_owned(),
        (Kind::Runs, Some(spread)) => {
            format!("{} runs ({:.0} %)", spread.n, spread.confidence * 100.0)
        }
        (Kind::Runs, None) => "runs without a figure".to_owned(),
    };
    let more = match (figure.a.spread, figure.b.spread) {
        (Some(a), Some(b)) if figure.a.of == Kind::Runs && figure.b.of == Kind::Runs => {
            by_chance(&a, &b)
        }
        _ => "; how far runs differ is not known: sweep --repeats tells".to_owned(),
    };
    format!("spreads: {} and {}{more}", side(&figure.a), side(&figure.b))
}

/// How often the ranges of a few runs lie apart though nothing changed: in two of all the orders
/// that the runs of both sides can have.
fn by_chance(a: &Spread, b: &Spread) -> String {
    const RARE: f64 = 0.05;
    let orders = (1..=a.n).fold(1.0, |orders, k| orders * (b.n + k) as f64 / k as f64);
    match 2.0 / orders {
        chance if chance <= RARE => String::new(),
        chance => format!(
            "; equal sides lie apart in {:.0} % of such comparisons: more repeats tell better",
            chance * 100.0
        ),
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    fn runs(rates: &[f64]) -> Vec<RunResult> {
        let with = |iops: &f64| {
            let mut run = sample::race();
            run.totals.iops = *iops;
            run
        };
        rates.iter().map(with).collect()
    }

    fn iops(a: &[f64], b: &[f64]) -> Figure {
        compare("", &runs(a), &runs(b)).figures.remove(0)
    }

    #[test]
    fn a_change_is_more_than_the_spread() {
        let same = iops(&[100.0, 110.0, 105.0], &[109.0, 120.0, 115.0]);
        assert_eq!(same.verdict, Change::WithinSpread);
        let higher = iops(&[100.0, 110.0, 105.0], &[121.0, 111.0, 115.0]);
        assert_eq!((higher.verdict, higher.ratio), (Change::Higher, Some(115.0 / 105.0)));
        assert_eq!(higher.ratio_range, Some([111.0 / 110.0, 121.0 / 100.0]));
        assert_eq!(iops(&[100.0, 101.0], &[90.0, 99.0]).verdict, Change::Lower);
    }

    #[test]
    fn few_runs_lie_apart_by_chance() {
        let rests = |n: usize| rests_on(&compare("", &runs(&vec![1.0; n]), &runs(&vec![2.0; n])));
        assert!(rests(2).contains("in 33 % of such"), "{}", rests(2));
        assert!(rests(3).contains("in 10 % of such"), "{}", rests(3));
        assert_eq!(rests(4), "spreads: 4 runs (88 %) and 4 runs (88 %)");
    }

    #[test]
    fn one_run_has_the_spread_of_its_seconds_at_best() {
        let mut alone = runs(&[100.0]);
        alone[0].intervals.clear();
        let unknown = compare("", &alone, &alone);
        assert_eq!(unknown.figures[0].verdict, Change::Unknown);
        let second = |iops| stats::Second { iops, ..stats::Second::default() };
        alone[0].intervals = [90.0, 100.0, 110.0].map(second).to_vec();
        let mut other = alone.clone();
        other[0].totals.iops = 109.0;
        let figure = compare("", &alone, &other).figures.remove(0);
        assert_eq!((figure.verdict, figure.a.of), (Change::WithinSpread, Kind::Seconds));
        let mut out = Vec::new();
        write(&compare("", &alone, &other), &alone[0], Paint::PLAIN, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("3 seconds of one run") && text.contains("+9.0 %"), "{text}");
    }

    #[test]
    fn says_what_else_differs() {
        let (a, mut b) = (runs(&[1.0]), runs(&[1.0]));
        assert!(compare("", &a, &b).comparable);
        b[0].origin = stats::Origin::Simulated;
        b[0].job.size_bytes = Some(8192);
        b[0].host.name = "elsewhere".to_owned();
        let comparison = compare("", &a, &b);
        let what: Vec<&str> = comparison.differences.iter().map(|d| &*d.what).collect();
        assert_eq!(what, ["origin", "size", "host"]);
        assert!(!comparison.comparable);
    }
}
