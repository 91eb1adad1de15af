//! By how much one side differs from the other, and how sure that is: the ratio of two means of
//! repeats with its interval, and the change that so many repeats would have shown.
//!
//! Noise of rates and latencies is a share of them, so their logarithms are compared: the difference
//! of two means whose variances differ (B. L. Welch, The generalization of 'Student's' problem,
//! 1947). Sides with fewer than three repeats say nothing of their own noise.

/// Fewest repeats of a side that give an interval.
pub(super) const FEWEST: usize = 3;
/// How often the interval holds the truth.
const CONFIDENCE: f64 = 0.95;
/// How often a change of the size that is called detectable is found.
const POWER: f64 = 0.8;

/// A ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratio {
    /// The second mean over the first.
    pub value: f64,
    /// Between what it lies with 95 %, where both sides have enough repeats.
    pub range: Option<[f64; 2]>,
    /// The smallest change that such repeats show in four of five comparisons: 0.05 is a rise of
    /// 5 %.
    pub detectable: Option<f64>,
}

/// Of the repeats of two sides. `blur` is by what share each value may be wrong however often it is
/// measured. `None` if a value is not above zero, where ratios mean nothing.
pub(super) fn ratio(a: &[f64], b: &[f64], blur: f64) -> Option<Ratio> {
    let (a, b) = (Side::of(a)?, Side::of(b)?);
    let difference = b.mean - a.mean;
    let value = difference.exp();
    if a.n < FEWEST || b.n < FEWEST {
        return Some(Ratio { value, range: None, detectable: None });
    }
    let (va, vb) = (a.variance / a.n as f64, b.variance / b.n as f64);
    let error = (va + vb).sqrt();
    let freedom = match va * va / (a.n - 1) as f64 + vb * vb / (b.n - 1) as f64 {
        share if share > 0.0 => (va + vb).powi(2) / share,
        // Values without any spread leave none to their mean.
        _ => (a.n + b.n - 2) as f64,
    };
    let slack = blur.ln_1p();
    let t = quantile((1.0 + CONFIDENCE) / 2.0, freedom);
    let half = t * error + slack;
    let found = (t + quantile(POWER, freedom)) * error + slack;
    Some(Ratio {
        value,
        range: Some([(difference - half).exp(), (difference + half).exp()]),
        detectable: Some(found.exp_m1()),
    })
}

/// The mean that belongs to ratios: the geometric one. `None` as with [`ratio`].
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    Side::of(values).map(|side| side.mean.exp())
}

/// Logarithms of one side.
struct Side {
    n: usize,
    mean: f64,
    variance: f64,
}

impl Side {
    fn of(values: &[f64]) -> Option<Side> {
        let usable = |value: &f64| value.is_finite() && *value > 0.0;
        if values.is_empty() || !values.iter().all(usable) {
            return None;
        }
        let n = values.len();
        // Around the first, so that equal values have no spread at all.
        let from = values[0].ln();
        let logs: Vec<f64> = values.iter().map(|value| value.ln() - from).collect();
        let mean = logs.iter().sum::<f64>() / n as f64;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        Some(Side { n, mean: from + mean, variance: squares / n.saturating_sub(1).max(1) as f64 })
    }
}

/// Student's t of a share from 0.5 to 1, for any number of degrees of freedom from 1 on.
fn quantile(share: f64, freedom: f64) -> f64 {
    let half = freedom / 2.0;
    let scale =
        (log_gamma(half + 0.5) - log_gamma(half)).exp() / (freedom * std::f64::consts::PI).sqrt();
    let density = |t: f64| scale * (1.0 + t * t / freedom).powf(-half - 0.5);
    // The curve bends down from 0 on: tangents never lead beyond the place.
    let mut t = 0.0;
    for _ in 0..100 {
        let step = (share - below(t, freedom)) / density(t);
        t += step;
        if step < 1e-10 {
            break;
        }
    }
    t
}

/// The share of Student's distribution below `t`, which is not negative.
fn below(t: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The regularized incomplete beta function, by its continued fraction (modified Lentz).
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front =
        (log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // It converges quickly on this side of the mean only.
    match x < (a + 1.0) / (a + b + 2.0) {
        true => front * fraction(x, a, b) / a,
        false => 1.0 - front * fraction(1.0 - x, b, a) / b,
    }
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let held = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / held(1.0 - (a + b) * x / (a + 1.0));
    let mut whole = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / held(1.0 + term * d);
            c = held(1.0 + term / c);
            step = c * d;
            whole *= step;
        }
        if (step - 1.0).abs() < 1e-14 {
            break;
        }
    }
    whole
}

/// The logarithm of the gamma function of a positive number: Stirling's series, from where it is
/// exact enough.
fn log_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    let series = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, share, table) in [
            (1.0, 0.975, 12.706),
            (2.0, 0.975, 4.303),
            (4.0, 0.975, 2.776),
            (10.0, 0.975, 2.228),
            (30.0, 0.95, 1.697),
            (4.0, 0.8, 0.941),
            (1e4, 0.975, 1.960),
        ] {
            let t = quantile(share, freedom);
            assert!((t - table).abs() < 0.0006, "{freedom}, {share}: {t}, not {table}");
        }
    }

    #[test]
    fn few_repeats_and_nothing_have_no_interval() {
        let alone = ratio(&[100.0], &[43.2], 0.0).unwrap();
        assert!((alone.value - 0.432).abs() < 1e-12 && alone.range.is_none());
        assert_eq!(ratio(&[1.0; 3], &[2.0; 2], 0.0).unwrap().range, None);
        assert_eq!(ratio(&[1.0; 3], &[1.0, 0.0, 1.0], 0.0), None);
        assert_eq!(ratio(&[], &[1.0], 0.0), None);
        assert_eq!(ratio(&[f64::NAN], &[1.0], 0.0), None);
        // What does not spread is as sure as its values are sharp.
        let sharp = ratio(&[2.0; 3], &[4.0; 3], 0.0).unwrap();
        assert_eq!(sharp.range.unwrap().map(|end| (end * 1e9).round()), [2e9, 2e9]);
        let blurred = ratio(&[2.0; 3], &[2.0; 3], 0.01).unwrap();
        assert_eq!(blurred.range.unwrap().map(|end| (end * 1e4).round()), [9901.0, 10100.0]);
    }

    /// Numbers of chance that are the same each time.
    struct Chance(u64);

    impl Chance {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Repeats around `mean` whose noise has this share of it.
        fn repeats(&mut self, n: usize, mean: f64, noise: f64) -> Vec<f64> {
            let mut one = || {
                let (u, v) = (1.0 - self.unit(), self.unit());
                let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                mean * (noise * normal).exp()
            };
            (0..n).map(|_| one()).collect()
        }
    }

    /// Repeats of the two sides, and their noise.
    const SIDES: [(usize, usize, f64, f64); 8] = [
        (3, 3, 0.02, 0.02),
        (3, 3, 0.01, 0.05),
        (3, 5, 0.1, 0.1),
        (5, 5, 0.002, 0.002),
        (5, 5, 0.3, 0.3),
        (5, 10, 0.02, 0.05),
        (6, 6, 0.05, 0.01),
        (20, 20, 0.05, 0.05),
    ];

    /// Whether the interval of two generated sides holds the true ratio.
    fn holds(chance: &mut Chance, truth: f64, sides: (usize, usize, f64, f64)) -> bool {
        let (na, nb, noise_a, noise_b) = sides;
        let a = chance.repeats(na, 80e3, noise_a);
        let b = chance.repeats(nb, 80e3 * truth, noise_b);
        let [low, high] = ratio(&a, &b, 0.0).unwrap().range.unwrap();
        (low..=high).contains(&truth)
    }

    #[test]
    fn an_interval_holds_the_truth_and_equal_sides_are_seldom_called_changed() {
        const PAIRS: usize = 2000;
        let mut chance = Chance(22);
        for truth in [1.0, 0.432] {
            for sides in SIDES {
                let held = (0..PAIRS).filter(|_| holds(&mut chance, truth, sides)).count();
                // Where the truth is 1, what holds it is not called changed.
                let share = held as f64 / PAIRS as f64;
                assert!((0.93..=0.97).contains(&share), "{truth}, {sides:?}: {share}");
            }
        }
    }

    #[test]
    fn a_thousand_pairs_of_any_kind_are_held_too() {
        let mut chance = Chance(1000);
        for truth in [1.0, 3.0] {
            let held = (0..1000).filter(|_| {
                let mut upto = |most: f64| most * chance.unit();
                let (na, nb) = (3 + upto(8.0) as usize, 3 + upto(8.0) as usize);
                let sides = (na, nb, 0.001 + upto(0.2), 0.001 + upto(0.2));
                holds(&mut chance, truth, sides)
            });
            let share = held.count() as f64 / 1000.0;
            assert!((0.93..=0.97).contains(&share), "{truth}: {share}");
        }
    }

    #[test]
    fn a_change_of_the_size_that_is_called_detectable_is_found() {
        let mut chance = Chance(7);
        for (na, nb, noise) in [(5, 5, 0.03), (10, 10, 0.1), (20, 20, 0.01)] {
            // Of what size, say the repeats themselves; in the middle of many.
            let mut sizes: Vec<f64> = (0..999)
                .map(|_| {
                    let (a, b) = (chance.repeats(na, 1.0, noise), chance.repeats(nb, 1.0, noise));
                    ratio(&a, &b, 0.0).unwrap().detectable.unwrap()
                })
                .collect();
            sizes.sort_by(f64::total_cmp);
            let truth = 1.0 + sizes[499];
            let found = (0..1000).filter(|_| {
                let (a, b) = (chance.repeats(na, 1.0, noise), chance.repeats(nb, truth, noise));
                ratio(&a, &b, 0.0).unwrap().range.unwrap()[0] > 1.0
            });
            let share = found.count() as f64 / 1000.0;
            assert!((0.7..=0.9).contains(&share), "{na}, {nb}, {noise}: {share}");
        }
    }
}
