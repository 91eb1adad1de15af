//! Comparison of two sides: differences, figures without a difference, figures with too few
//! repeats, and whether the two sides are comparable.

mod closing;
mod facts;
mod many;
mod options;
mod text;
mod turns;

use serde::Serialize;
use stats::ratio;
use stats::sweep::Doubt;
use stats::{Class, Drift, Latency, RunResult, SAME_FIGURES_SINCE, Verdict};

use crate::reason;

pub use self::closing::{Both, closing};
pub(crate) use self::facts::volumes;
pub use self::many::{Judged, mark};
pub use self::text::painted;
pub(crate) use self::text::{in_words, row};
pub use self::turns::Turns;

/// Result of comparing two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Setting that is compared, as "size=4k outstanding=8"; empty for two runs.
    pub name: String,
    /// Whether the sides differ only in the compared setting, and none is invalid.
    pub comparable: bool,
    /// Invalid sides, and why: none of their figures is called changed.
    pub invalid: Vec<String>,
    /// Differences other than the compared setting.
    pub differences: Vec<Difference>,
    /// Doubts about the runs of a side as repeats, each with its side; doubts that make a side
    /// invalid are in `invalid`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// Class of each side with its reason, where the classes differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classes: Option<[String; 2]>,
    /// Order in which the runs of both sides followed each other.
    pub turns: Turns,
    /// The figures of both.
    pub figures: Vec<Figure>,
}

/// A difference other than a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The difference, as "size" or "host"; an option of a job by its name.
    pub what: String,
    /// Value of the first side.
    pub a: String,
    /// Value of the second side.
    pub b: String,
}

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Name of the figure, such as "IOPS".
    pub name: &'static str,
    /// Sample of the first side.
    pub a: Sample,
    /// Sample of the second side.
    pub b: Sample,
    /// The second over the first; `null` if one is 0.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; `null` unless each side has at least three runs.
    pub ratio_range: Option<[f64; 2]>,
    /// Smallest change that this number of runs detects in four of five comparisons, as a share:
    /// 0.05 is a rise of 5 %. `null` without an interval.
    pub detectable: Option<f64>,
    /// Chance of such a ratio, or one further from 1, where nothing changed.
    pub chance: Option<f64>,
    /// Figure that it is a multiple of in every run: both are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub follows: Option<&'static str>,
    /// Equal runs in turn on this host differed in it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unkept: bool,
    /// Verdict on the figure.
    pub verdict: Change,
}

/// A figure of one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The value: of the only run, or the geometric mean of several.
    pub value: f64,
    /// Runs that it rests on.
    pub runs: usize,
    /// The least of them.
    pub least: f64,
    /// The most of them.
    pub most: f64,
    /// Whether the value is a lower bound: unanswered I/Os could raise it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// Whether something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The whole interval of the ratio lies above 1.
    Higher,
    /// The whole interval of the ratio lies below 1.
    Lower,
    /// The whole interval is on one side of 1, as some are by chance among many figures.
    NotToldApart,
    /// The interval holds 1 and nothing that is further off than [`SAME`].
    Unchanged,
    /// No interval exists, the interval is too wide, or the figures mean different things.
    CannotTell,
}

/// Reason why a figure has no verdict although it differs: runs of the same side differ, too.
pub(crate) const UNKEPT: &str = "equal runs in turn differed, too";

/// Maximum change, as a share, that is called unchanged if the interval is as narrow.
pub const SAME: f64 = 0.05;
/// Percentiles come from histograms, by so much too high at most.
const BUCKET: f64 = 1.0 / 128.0;

/// Returns why two sides cannot be compared at all, and the remedy: in an older layout, some
/// figures have another meaning.
pub fn refuse(a: &[RunResult], b: &[RunResult]) -> Option<String> {
    let mut all = a.iter().chain(b);
    let first = all.next()?;
    // Figures of later layouts have one meaning.
    let meaning = |run: &RunResult| run.schema_version.min(SAME_FIGURES_SINCE);
    let other = all.find(|run| meaning(run) != meaning(first))?;
    let older = if other.schema_version < first.schema_version { other } else { first };
    Some(format!(
        "a result of layout {} (drumfire {}) has figures of another meaning than one of layout {}: \
         measure it again with this version",
        older.schema_version,
        older.tool.version,
        first.schema_version.max(other.schema_version),
    ))
}

/// Compares two sides of at least one run each. The runs of a side are repeats of each other.
///
/// Each figure is judged as if it were the only one: [`mark`] looks at all of them.
pub fn compare(name: &str, a: &[RunResult], b: &[RunResult]) -> Comparison {
    let differences = differences(a, b);
    let invalid = ["first", "second"].iter().zip([a, b]).filter_map(|(side, runs)| {
        let bad = runs.iter().find(|run| run.class == Class::Invalid)?;
        let of = match runs.len() {
            1 => String::new(),
            of => {
                let bad = runs.iter().filter(|run| run.class == Class::Invalid).count();
                format!("{bad} of {of} runs of ")
            }
        };
        Some(format!("{of}the {side} side: {}", reason::verdict(bad)))
    });
    let invalid: Vec<String> = invalid.collect();
    let (turns, drift) = turns::of(a, b);
    let figures = figures(a, b, &drift).into_iter().map(|figure| match invalid.is_empty() {
        true => figure,
        false => Figure { verdict: Change::CannotTell, ..figure },
    });
    Comparison {
        name: name.to_owned(),
        comparable: differences.is_empty() && invalid.is_empty(),
        figures: figures.collect(),
        invalid,
        differences,
        doubts: Vec::new(),
        classes: facts::classes(a, b),
        turns,
    }
}

impl Comparison {
    /// Withdraws verdicts on figures that also differ between runs of the first side alone.
    #[must_use]
    pub fn beside_control(mut self, unkept: &[String]) -> Comparison {
        for figure in &mut self.figures {
            if unkept.iter().any(|name| name == figure.name) {
                (figure.verdict, figure.unkept) = (Change::CannotTell, true);
            }
        }
        self
    }

    /// Adds the doubts from both sides' journals and start times about their runs as repeats. If
    /// runs are copies or were exchanged, no figure is called changed.
    #[must_use]
    pub fn doubted(mut self, sides: [&[Doubt]; 2]) -> Comparison {
        for (side, doubts) in ["first", "second"].iter().zip(sides) {
            for Doubt { verdict, why } in doubts {
                let words = format!("the {side} side: {why}");
                match verdict {
                    Verdict::Fail => self.invalid.push(words),
                    _ => self.doubts.push(words),
                }
            }
        }
        if !self.invalid.is_empty() {
            self.comparable = false;
            self.figures.iter_mut().for_each(|figure| figure.verdict = Change::CannotTell);
        }
        self
    }
}

fn figures(a: &[RunResult], b: &[RunResult], drift: &Drift) -> Vec<Figure> {
    let exact = |of: fn(&RunResult) -> Option<f64>| move |run: &RunResult| Some((of(run)?, false));
    let percentile = |of: fn(&Latency) -> Option<u64>| {
        move |run: &RunResult| {
            let latency = &run.totals.latency_ns;
            of(latency).map(|ns| (ns as f64, latency.at_least(ns)))
        }
    };
    let mean = |run: &RunResult| {
        let latency = &run.totals.latency_ns;
        latency.mean.map(|mean| (mean, latency.mean_at_least()))
    };
    let sides = Sides { a: turns::in_order(a), b: turns::in_order(b), drift };
    let mut all: Vec<Figure> = [
        sides.figure("IOPS", 0.0, exact(|run| Some(run.totals.iops))),
        sides.figure("bytes/s", 0.0, exact(|run| Some(run.totals.bytes_per_second))),
        sides.figure("mean", 0.0, mean),
        sides.figure("p50", BUCKET, percentile(|latency| latency.p50)),
        sides.figure("p99", BUCKET, percentile(|latency| latency.p99)),
        sides.figure("p99.9", BUCKET, percentile(|latency| latency.p99_9)),
        sides.figure("µs core/IO", 0.0, exact(|run| run.cpu.core_us_per_io)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if let [rate, bytes, ..] = &mut all[..]
        && bytes.name == "bytes/s"
        && sides.have_one_size()
    {
        bytes.follows = Some(rate.name);
    }
    all
}

/// Two sides, each in the order of its runs.
struct Sides<'a> {
    a: Vec<&'a RunResult>,
    b: Vec<&'a RunResult>,
    drift: &'a Drift,
}

impl Sides<'_> {
    /// Tells whether all I/Os of all runs move as many bytes: then bytes and I/Os are one figure.
    fn have_one_size(&self) -> bool {
        let size = |run: &&RunResult| run.totals.bytes_per_second / run.totals.iops;
        let mut sizes = self.a.iter().chain(&self.b).map(size);
        let first = sizes.next().unwrap_or(f64::NAN);
        sizes.all(|size| (size / first - 1.0).abs() < 1e-9)
    }

    fn figure(
        &self,
        name: &'static str,
        blur: f64,
        of: impl Fn(&RunResult) -> Option<(f64, bool)>,
    ) -> Option<Figure> {
        figure(name, self, blur, of)
    }
}

fn figure(
    name: &'static str,
    sides: &Sides<'_>,
    blur: f64,
    of: impl Fn(&RunResult) -> Option<(f64, bool)>,
) -> Option<Figure> {
    let values =
        |runs: &[&RunResult]| runs.iter().map(|run| of(run)).collect::<Option<Vec<(f64, bool)>>>();
    let bare = |of: &[(f64, bool)]| of.iter().map(|(value, _)| *value).collect::<Vec<f64>>();
    let (a, b) = (values(&sides.a)?, values(&sides.b)?);
    let found = ratio::ratio(&bare(&a), &bare(&b), blur, sides.drift);
    let (a, b) = (sample(&a)?, sample(&b)?);
    let sure = found.and_then(|ratio| ratio.sure);
    let verdict = match sure.map(|sure| sure.range) {
        // The true value of a lower bound is unknown.
        _ if a.at_least || b.at_least => Change::CannotTell,
        None => Change::CannotTell,
        Some([low, _]) if low > 1.0 => Change::Higher,
        Some([_, high]) if high < 1.0 => Change::Lower,
        Some([low, high]) if low >= 1.0 - SAME && high <= 1.0 + SAME => Change::Unchanged,
        Some(_) => Change::CannotTell,
    };
    Some(Figure {
        name,
        a,
        b,
        ratio: found.map(|ratio| ratio.value),
        ratio_range: sure.map(|sure| sure.range),
        detectable: sure.map(|sure| sure.detectable(sides.drift)),
        chance: sure.map(|sure| sure.chance),
        follows: None,
        unkept: false,
        verdict,
    })
}

fn sample(values: &[(f64, bool)]) -> Option<Sample> {
    let bare: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
    let least = bare.iter().copied().reduce(f64::min)?;
    let most = bare.iter().copied().reduce(f64::max)?;
    let value = match &bare[..] {
        [only] => *only,
        several => ratio::mean(several).unwrap_or(least),
    };
    let at_least = values.iter().any(|(_, at_least)| *at_least);
    Some(Sample { value, runs: values.len(), least, most, at_least })
}

/// Differences other than the figures: the kind of job, the host, how it was measured.
fn differences(a: &[RunResult], b: &[RunResult]) -> Vec<Difference> {
    let (one, other) = (&a[0], &b[0]);
    let sides = facts::of_side(a).into_iter().zip(facts::of_side(b));
    let mut found: Vec<Difference> = sides
        .filter(|((_, a), (_, b))| a != b)
        .map(|((what, a), (_, b))| Difference {
            what: what.to_owned(),
            a: a.trim().to_owned(),
            b: b.trim().to_owned(),
        })
        .collect();
    found.extend(facts::of_hosts(one, other));
    found.extend(facts::same_runs(a, b));
    for option in options::differences(&one.spec, &other.spec) {
        // Some options are already among the facts, in better words.
        if found.iter().all(|known| known.what != option.what) {
            found.push(option);
        }
    }
    found
}

/// Minimum number of repeats that is recommended: it detects changes of about twice the noise.
pub const ENOUGH: usize = 5;

#[cfg(test)]
mod test {
    use super::text::{show, words, write};
    use super::*;
    use crate::sample;
    use crate::style::Paint;

    /// Compares both sides, run in turn.
    fn in_turn(a: &[f64], b: &[f64]) -> Comparison {
        let at = |runs: &mut [RunResult], from: usize| {
            for (i, run) in runs.iter_mut().enumerate() {
                run.started = format!("2026-11-20T08:00:{:02}Z", 2 * i + from);
            }
        };
        let (mut a, mut b) = (sample::races(a), sample::races(b));
        at(&mut a, 0);
        at(&mut b, 1);
        compare("", &a, &b)
    }

    fn iops(a: &[f64], b: &[f64]) -> Figure {
        in_turn(a, b).figures.remove(0)
    }

    fn text(comparison: &Comparison) -> String {
        let mut out = Vec::new();
        write(comparison, &sample::race(), ["a", "b"], Paint::PLAIN, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn changed_unchanged_or_cannot_tell() {
        let figure = iops(&[100.0, 101.0, 99.0], &[121.0, 120.0, 122.0]);
        assert_eq!(figure.verdict, Change::Higher);
        let [low, high] = figure.ratio_range.unwrap();
        assert!(1.0 < low && high < 1.45, "three rounds say little: {low} to {high}");
        assert_eq!(iops(&[100.0, 101.0, 99.0], &[90.0, 91.0, 89.0]).verdict, Change::Lower);
        let same = iops(&[100.0, 100.5, 99.5, 100.2], &[100.1, 99.9, 100.3, 99.8]);
        assert_eq!((same.verdict, words(&same).contains("would show")), (Change::Unchanged, true));
        // Too far apart to say that nothing changed, and too wide to say that something did.
        let wide = iops(&[100.0, 180.0, 60.0], &[90.0, 170.0, 70.0]);
        assert_eq!(wide.verdict, Change::CannotTell);
        assert!(wide.detectable.unwrap() > 0.5, "{wide:?}");
        assert!(words(&wide).starts_with("cannot tell; only a change from "), "{}", words(&wide));
    }

    #[test]
    fn doubts_about_repeats_are_told_and_copies_are_not_compared() {
        let doubt = |verdict, why: &str| Doubt { verdict, why: why.to_owned() };
        let (a, b) = (sample::races(&[100.0, 101.0, 99.0]), sample::races(&[121.0, 120.0, 122.0]));
        let honest = compare("", &a, &b).doubted([&[], &[]]);
        assert_eq!((honest.clone(), honest.comparable), (compare("", &a, &b), true));
        let picked = [doubt(Verdict::Warn, "repeats 2 were measured before")];
        let found = compare("", &a, &b).doubted([&[], &picked]);
        assert_eq!(found.doubts, ["the second side: repeats 2 were measured before"]);
        assert!(text(&found).contains("the second side: repeats 2 were measured before"));
        assert_eq!(found.figures, honest.figures);
        let copied = [doubt(Verdict::Fail, "repeats 1, 2 are one run: same digest")];
        let found = compare("", &a, &b).doubted([&copied, &picked]);
        assert_eq!(found.invalid, ["the first side: repeats 1, 2 are one run: same digest"]);
        assert!(!found.comparable);
        assert!(found.figures.iter().all(|figure| figure.verdict == Change::CannotTell));
        let said = text(&found);
        assert!(said.contains("NOT COMPARABLE, the first side: repeats 1, 2 are one"), "{said}");
        assert!(!said.contains("higher"), "{said}");
    }

    #[test]
    fn one_run_each_has_no_interval_whatever_it_says() {
        let text = |a: &[RunResult], b: &[RunResult]| {
            let mut out = Vec::new();
            let again = ["drumfire sweep a", "drumfire sweep b"];
            write(&compare("", a, b), &a[0], again, Paint::PLAIN, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let (mut a, mut b) = (sample::races(&[100.0]), sample::races(&[43.2]));
        let second = |iops| stats::Second { iops, ..stats::Second::default() };
        a[0].intervals = [10.0, 100.0, 300.0].map(second).to_vec();
        b[0].intervals = [9.0, 43.0, 110.0].map(second).to_vec();
        let figure = compare("", &a, &b).figures.remove(0);
        assert_eq!((figure.verdict, figure.ratio_range), (Change::CannotTell, None));
        let said = text(&a, &b);
        assert!(said.contains("-56.8 %") && !said.contains("-56.8 % ("), "{said}");
        assert!(said.contains("no interval: one run each; 3 runs of each side"), "{said}");
        assert!(
            said.ends_with("repeat with\n    drumfire sweep a\n    drumfire sweep b\n"),
            "{said}"
        );
        for verdict in ["higher", "lower", "unchanged", "within"] {
            assert!(!said.contains(verdict), "{said}");
        }
        let said = text(&sample::races(&[1.0; 3]), &sample::races(&[2.0; 2]));
        assert!(said.contains("3 runs and 2 runs") && !said.contains("sweep a"), "{said}");
    }

    #[test]
    fn what_is_invalid_is_not_compared() {
        let (a, mut b) = (sample::races(&[1.0; 3]), sample::races(&[9.0; 3]));
        assert_eq!(compare("", &a, &b).figures[0].verdict, Change::Higher);
        b[1].set_check(stats::Check::new("H02", "x", stats::Verdict::Fail, "a hole"));
        let compared = compare("", &a, &b);
        assert!(compared.figures.iter().all(|figure| figure.verdict == Change::CannotTell));
        let why = "1 of 3 runs of the second side: invalid: reads of blocks never written (H02)";
        assert_eq!((compared.invalid[0].as_str(), compared.comparable), (why, false));
        assert!(compared.differences.is_empty(), "{:?}", compared.differences);
        let said = text(&compared);
        assert!(said.contains("\n  indicative: loopback, no wire (H19) → invalid: "), "{said}");
        assert!(said.contains("\n  NOT COMPARABLE, 1 of 3 runs of the second"), "{said}");
    }

    #[test]
    fn lower_bounds_and_other_layouts_are_not_compared() {
        let (a, mut b) = (sample::races(&[1.0; 3]), sample::races(&[1.0; 3]));
        b[2].totals.latency_ns.waiting_from = Some(600_000);
        b.iter_mut().for_each(|run| run.totals.latency_ns.p99 = Some(7_000_000));
        let compared = compare("", &a, &b);
        let of = |name| compared.figures.iter().find(|figure| figure.name == name).unwrap();
        assert_eq!(of("p50").verdict, Change::Unchanged);
        assert_eq!(
            (of("p99").verdict, of("mean").verdict),
            (Change::CannotTell, Change::CannotTell)
        );
        assert_eq!(show("p99", &of("p99").b), "≥7.00 ms");
        assert_eq!(words(of("p99")), "cannot tell: a lower bound");
        assert_eq!(refuse(&a, &b), None);
        b[1].schema_version = 2;
        assert_eq!(refuse(&a, &b), None);
        b[1].schema_version = 1;
        let why = refuse(&a, &b).unwrap();
        assert!(why.contains("measure it again with this version"), "{why}");
    }

    #[test]
    fn says_what_else_differs() {
        let (a, mut b) = (sample::races(&[1.0]), sample::races(&[1.0]));
        assert!(compare("", &a, &b).comparable);
        b[0].origin = stats::Origin::Simulated;
        b[0].job.size_bytes = Some(8192);
        b[0].host.name = "elsewhere".to_owned();
        b[0].host.more.insert("clock_source".to_owned(), "hpet".into());
        b[0].workers[0].volume = "file:hole".to_owned();
        let comparison = compare("", &a, &b);
        let what: Vec<&str> = comparison.differences.iter().map(|d| &*d.what).collect();
        assert_eq!(what, ["origin", "size", "volume", "host", "clock source"]);
        assert!(!comparison.comparable);
    }

    #[test]
    fn reasons_of_a_class_are_no_settings() {
        let (a, mut b) = (sample::races(&[1.0]), sample::races(&[1.0]));
        b[0].set_check(stats::Check::new("H06", "x", stats::Verdict::Warn, "drifts"));
        let compared = compare("", &a, &b);
        assert!(compared.comparable && compared.classes.is_none(), "{compared:?}");
    }

    #[test]
    fn simulated_runs_of_equal_seeds_are_named() {
        let simulated = |seeds: &[u64]| -> Vec<RunResult> {
            let mut all = sample::races(&[1.0; 3]);
            for (run, seed) in all.iter_mut().zip(seeds) {
                (run.origin, run.seed) = (stats::Origin::Simulated, *seed);
            }
            all
        };
        let found = compare("", &simulated(&[1, 2, 3]), &simulated(&[3, 2, 9])).differences;
        let told: Vec<_> = found.iter().map(|it| (&*it.what, &*it.a, &*it.b)).collect();
        assert_eq!(told, [("seeds", "3, 2", "the same seeds: the same runs")]);
        assert!(compare("", &simulated(&[1, 2, 3]), &simulated(&[4, 5, 6])).comparable);
        // Equal seeds of another model are no more than equal numbers.
        let mut other = simulated(&[1, 2, 3]);
        other.iter_mut().for_each(|run| run.totals.iops = 2.0);
        assert!(compare("", &simulated(&[1, 2, 3]), &other).comparable);
    }

    #[test]
    fn sides_one_after_the_other_have_wider_intervals_than_rounds() {
        let (a, b) = ([100.0, 101.0, 99.0, 100.5], [103.0, 104.0, 102.0, 103.5]);
        let rounds = in_turn(&a, &b);
        let mut after = sample::races(&b);
        let mut before = sample::races(&a);
        for (i, run) in before.iter_mut().chain(&mut after).enumerate() {
            run.started = format!("2026-11-20T08:00:{i:02}Z");
        }
        let apart = compare("", &before, &after);
        assert_eq!((rounds.turns, apart.turns), (Turns::Rounds, Turns::Apart));
        let figure = |of: &Comparison| of.figures[0].verdict;
        assert_eq!((figure(&rounds), figure(&apart)), (Change::Higher, Change::CannotTell));
        assert!(text(&rounds).contains("4 rounds, a run of each side in turn"));
        assert!(text(&apart).contains("one side after the other"), "{}", text(&apart));
    }

    #[test]
    fn what_equal_runs_do_not_keep_is_not_told() {
        let (a, b) = ([100.0, 101.0, 99.0], [121.0, 120.0, 122.0]);
        let mut compared = in_turn(&a, &b).beside_control(&["IOPS".to_owned()]);
        let judged = mark([&mut compared]);
        assert_eq!((compared.figures[0].verdict, judged.changed), (Change::CannotTell, 0));
        assert!(text(&compared).contains("cannot tell: equal runs in turn differed, too"));
    }

    #[test]
    fn targets_of_loopback_have_other_ports_each_time() {
        let (mut a, mut b) = (sample::races(&[1.0]), sample::races(&[1.0]));
        a[0].workers[0].volume = "iscsi://127.0.0.1:40001/iqn.x/1".to_owned();
        b[0].workers[0].volume = "iscsi://127.0.0.1:51234/iqn.x/1".to_owned();
        assert!(compare("", &a, &b).comparable);
        for other in ["iscsi://127.0.0.1:51234/iqn.y/1", "iscsi://10.0.0.1:40001/iqn.x/1"] {
            b[0].workers[0].volume = other.to_owned();
            assert_eq!(compare("", &a, &b).differences[0].what, "volume");
        }
    }
}
