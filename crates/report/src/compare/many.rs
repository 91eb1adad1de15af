//! Many figures at once: among them some lie apart by chance alone.

use super::{Change, Comparison, Figure};

/// Share of the figures called higher or lower that may be so by chance, in the mean (Y. Benjamini,
/// Y. Hochberg, Controlling the false discovery rate, 1995). Where nothing changed, any is called
/// so in as many of all comparisons.
const FALSE: f64 = 0.05;
/// Share of that error which is spent on the rate, of which every comparison asks first (C. R.
/// Genovese, K. Roeder, L. Wasserman, False discovery control with p-value weighting, 2006). The
/// other figures of a comparison share the rest.
const FOR_THE_RATE: f64 = 0.5;
const RATE: &str = "IOPS";

/// Number of judged figures, and their verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Figures with an interval; one that only follows another is not counted.
    pub figures: usize,
    /// Figures of these that are higher or lower.
    pub changed: usize,
    /// Figures that would be if they were alone.
    pub not_told_apart: usize,
}

/// Judges the figures of all comparisons as the many that they are.
pub fn mark<'a>(comparisons: impl IntoIterator<Item = &'a mut Comparison>) -> Judged {
    let mut comparisons: Vec<&mut Comparison> = comparisons.into_iter().collect();
    let weights: Vec<Weights> = comparisons.iter().map(|of| Weights::of(&of.figures)).collect();
    let weighted = comparisons.iter().zip(&weights).flat_map(|(of, weights)| {
        of.figures
            .iter()
            .filter(|figure| counts(figure))
            .filter_map(|figure| weights.chance(figure))
    });
    let mut chances: Vec<f64> = weighted.collect();
    chances.sort_unstable_by(f64::total_cmp);
    let all = chances.len();
    let kept = (1..=all).rev().find(|n| chances[n - 1] <= FALSE * *n as f64 / all as f64);
    // A figure that follows another one may differ from it in its last digits.
    let limit = kept.map_or(-1.0, |n| chances[n - 1] * (1.0 + 1e-6));
    for (of, weights) in comparisons.iter_mut().zip(&weights) {
        for figure in &mut of.figures {
            let is_changed = matches!(figure.verdict, Change::Higher | Change::Lower);
            if is_changed && weights.chance(figure).is_none_or(|chance| chance > limit) {
                figure.verdict = Change::NotToldApart;
            }
        }
    }
    let count = |wanted: fn(Change) -> bool| {
        let figures = comparisons.iter().flat_map(|of| &of.figures);
        figures.filter(|figure| counts(figure) && wanted(figure.verdict)).count()
    };
    Judged {
        figures: all,
        changed: count(|verdict| matches!(verdict, Change::Higher | Change::Lower)),
        not_told_apart: count(|verdict| verdict == Change::NotToldApart),
    }
}

/// Weights of the figures of a comparison, one in the mean.
struct Weights {
    rate: f64,
    other: f64,
}

impl Weights {
    fn of(figures: &[Figure]) -> Weights {
        let all = figures.iter().filter(|figure| counts(figure)).count() as f64;
        match figures.iter().any(|figure| counts(figure) && figure.name == RATE) {
            true if all > 1.0 => Weights {
                rate: all * FOR_THE_RATE,
                other: all * (1.0 - FOR_THE_RATE) / (all - 1.0),
            },
            _ => Weights { rate: 1.0, other: 1.0 },
        }
    }

    /// Returns the chance of a figure over its weight; bytes that follow the rate have its weight.
    fn chance(&self, figure: &Figure) -> Option<f64> {
        let is_rate = figure.follows.unwrap_or(figure.name) == RATE;
        figure.chance.map(|chance| chance / if is_rate { self.rate } else { self.other })
    }
}

/// Returns whether a figure counts: it follows no other figure and has a verdict.
fn counts(figure: &Figure) -> bool {
    let is_open = figure.a.at_least || figure.b.at_least || figure.unkept;
    figure.follows.is_none() && figure.chance.is_some() && !is_open
}

impl Judged {
    /// Returns a sentence with the numbers; `None` if no figure has an interval.
    pub fn words(self) -> Option<String> {
        let Judged { figures, changed, not_told_apart } = self;
        let percent = FALSE * 100.0;
        let of = format!("{changed} of {figures} figures higher or lower");
        let chance = match (changed, not_told_apart) {
            (0, 0) => String::new(),
            (0, apart) => format!("; {apart} would be if looked at alone"),
            (_, 0) => format!("; about {percent:.0} % of those called so are by chance"),
            (_, apart) => format!(
                "; about {percent:.0} % of those called so are by chance, {apart} more would be \
                 if looked at alone"
            ),
        };
        (figures > 0).then(|| format!("{of} (Benjamini–Hochberg, {percent:.0} %){chance}"))
    }
}

#[cfg(test)]
mod test {
    use stats::{Drift, ratio};

    use super::*;
    use crate::compare::{Sample, Turns};

    const FIGURES: [&str; 7] = ["IOPS", "bytes/s", "mean", "p50", "p99", "p99.9", "µs core/IO"];

    fn figure(name: &'static str, a: &[f64], b: &[f64], drift: &Drift) -> Figure {
        let found = ratio::ratio(a, b, 0.0, drift).unwrap();
        let sure = found.sure.unwrap();
        let sample = |of: &[f64]| Sample {
            value: of[0],
            runs: of.len(),
            least: of[0],
            most: of[0],
            at_least: false,
        };
        let verdict = match sure.range {
            [low, _] if low > 1.0 => Change::Higher,
            [_, high] if high < 1.0 => Change::Lower,
            _ => Change::CannotTell,
        };
        Figure {
            name,
            a: sample(a),
            b: sample(b),
            ratio: Some(found.value),
            ratio_range: Some(sure.range),
            detectable: None,
            chance: Some(sure.chance),
            follows: (name == "bytes/s").then_some("IOPS"),
            unkept: false,
            verdict,
        }
    }

    fn comparison(figures: Vec<Figure>) -> Comparison {
        Comparison {
            name: String::new(),
            comparable: true,
            invalid: Vec::new(),
            differences: Vec::new(),
            doubts: Vec::new(),
            classes: None,
            turns: Turns::Rounds,
            figures,
        }
    }

    /// Cells of two equal sides with the figures that comparisons have, which hang together:
    /// bytes are the rate, the mean follows it, percentiles and core time do in part. `changed` of
    /// the cells rise by a tenth.
    fn cells(rng: &mut block::Rng, cells: usize, changed: usize) -> Vec<Comparison> {
        const RUNS: usize = 5;
        let mut normal = || {
            let (u, v) = (1.0 - rng.uniform(), rng.uniform());
            (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        };
        let none = Drift::none();
        let mut cell = |at: usize| {
            let mut side = |rise: f64| -> Vec<Vec<f64>> {
                let rate: Vec<f64> = (0..RUNS).map(|_| normal()).collect();
                let mut of = |share: f64| -> Vec<f64> {
                    let rest = (1.0 - share * share).sqrt();
                    rate.iter()
                        .map(|z| rise * (0.03 * (share * z + rest * normal())).exp())
                        .collect()
                };
                [1.0, 1.0, -1.0, -0.7, -0.5, -0.4, -0.3].map(&mut of).to_vec()
            };
            let (a, b) = (side(1.0), side(if at < changed { 1.1 } else { 1.0 }));
            let each = (0..FIGURES.len()).map(|i| figure(FIGURES[i], &a[i], &b[i], &none));
            comparison(each.collect())
        };
        (0..cells).map(&mut cell).collect()
    }

    #[test]
    fn of_equal_sides_any_figure_is_called_changed_in_one_of_twenty_comparisons() {
        const TIMES: usize = 400;
        let mut rng = block::Rng::new(11, 0);
        for many in [1, 4, 20] {
            let (mut any, mut alone) = (0, 0);
            for _ in 0..TIMES {
                let mut of = cells(&mut rng, many, 0);
                let judged = mark(&mut of);
                assert_eq!(judged.figures, many * 6, "bytes are the rate");
                any += usize::from(judged.changed > 0);
                alone += usize::from(judged.changed + judged.not_told_apart > 0);
            }
            let [any, alone] = [any, alone].map(|count| count as f64 / TIMES as f64);
            println!("{many} cells: {any} any, {alone} if each were alone");
            assert!(any <= 0.07, "{many}: {any}");
            assert!(alone > 0.1, "{many}: {alone}");
        }
    }

    /// Returns verdicts on cells of two equal sides, one after the other or in rounds, on a host
    /// whose noise changes so slowly that consecutive runs have a correlation of 0.9.
    fn on_a_slow_host(rng: &mut block::Rng, cells: usize, runs: usize, rounds: bool) -> Judged {
        let mut normal = || {
            let (u, v) = (1.0 - rng.uniform(), rng.uniform());
            (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        };
        let is_a = |at: &usize| if rounds { matches!(at % 4, 0 | 3) } else { *at < runs };
        let (a, b): (Vec<usize>, Vec<usize>) = (0..2 * runs).partition(is_a);
        let times = [&a, &b].map(|side| side.iter().map(|at| *at as f64).collect::<Vec<_>>());
        let drift = match rounds {
            true => Drift::of_rounds(&times[0], &times[1]),
            false => Drift::of_sides(&times[0], &times[1]),
        };
        let mut one = |name| {
            let mut state = normal();
            let mut all = Vec::new();
            for _ in 0..2 * runs {
                all.push((0.03 * state).exp());
                state = 0.9 * state + (1.0_f64 - 0.81).sqrt() * normal();
            }
            let of = |side: &[usize]| side.iter().map(|at| all[*at]).collect::<Vec<f64>>();
            figure(name, &of(&a), &of(&b), &drift)
        };
        let mut cell = |_| comparison(FIGURES.map(&mut one).to_vec());
        let mut cells: Vec<Comparison> = (0..cells).map(&mut cell).collect();
        mark(&mut cells)
    }

    #[test]
    fn on_a_slow_host_any_figure_is_called_changed_as_seldom() {
        let times = std::env::var("COMPARISONS").map_or(50, |text| text.parse().unwrap());
        let mut rng = block::Rng::new(13, 0);
        for (rounds, runs) in [(false, 3), (false, 10), (true, 3), (true, 6)] {
            for cells in [1, 20] {
                let any = |_: &usize| on_a_slow_host(&mut rng, cells, runs, rounds).changed > 0;
                let share = (0..times).filter(any).count() as f64 / times as f64;
                println!("rounds {rounds}, {runs} runs, {cells} cells: {share}");
                let most = 0.05 + 2.0 * (0.05 * 0.95 / times as f64).sqrt();
                assert!(share <= most, "rounds {rounds}, {runs} runs, {cells} cells: {share}");
            }
        }
    }

    #[test]
    fn what_changed_in_earnest_survives() {
        const TIMES: usize = 50;
        let mut rng = block::Rng::new(12, 0);
        let (mut found, mut wrong) = (0, 0);
        for _ in 0..TIMES {
            let mut of = cells(&mut rng, 20, 10);
            mark(&mut of);
            let changed = |of: &[Comparison]| {
                let rate = |of: &&Comparison| of.figures[0].verdict == Change::Higher;
                of.iter().filter(rate).count()
            };
            found += changed(&of[..10]);
            wrong += changed(&of[10..]);
            assert!(of.iter().all(|of| of.figures[0].verdict == of.figures[1].verdict));
        }
        println!("{found} found, {wrong} wrong of {}", TIMES * 10);
        assert!(found as f64 > 0.9 * 500.0 && (wrong as f64) < 0.05 * 500.0, "{found} {wrong}");
    }

    #[test]
    fn a_sentence_is_said_however_few_there_are() {
        let judged = |figures, changed, not_told_apart| Judged { figures, changed, not_told_apart };
        assert_eq!(judged(0, 0, 0).words(), None);
        let few = judged(6, 0, 0).words().unwrap();
        assert_eq!(few, "0 of 6 figures higher or lower (Benjamini–Hochberg, 5 %)");
        assert!(judged(6, 1, 0).words().unwrap().contains("about 5 % of those"));
        assert!(judged(6, 0, 2).words().unwrap().ends_with("2 would be if looked at alone"));
    }
}
