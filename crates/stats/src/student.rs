//! Student's distribution: quantiles, tails, and the size of an effect that a test detects with a
//! given power.

/// Returns the share of a normal distribution below `x`, to seven digits (M. Abramowitz, I. Stegun,
/// Handbook of Mathematical Functions, 1964, 7.1.26).
pub(crate) fn normal_below(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let terms = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let series = terms.iter().rev().fold(0.0, |sum, term| (sum + term) * t);
    let above = 0.5 * series * (-z * z).exp();
    if x < 0.0 { above } else { 1.0 - above }
}

/// Returns the two-sided tail probability of Student's distribution at `t`.
pub(crate) fn tails(t: f64, freedom: f64) -> f64 {
    beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the two-sided probability that the ratio of two estimates of one variance is as far from
/// 1, with these degrees of freedom.
pub(crate) fn unequal(ratio: f64, freedom: [f64; 2]) -> f64 {
    let [above, below] = freedom;
    let beyond = beta(below / (below + above * ratio), below / 2.0, above / 2.0);
    2.0 * beyond.min(1.0 - beyond)
}

/// Returns the shift, in errors as one sample estimates them, that another sample of the same noise
/// detects with `power`: both estimate their error with `freedom` degrees of freedom, and the test
/// requires one of `limits` errors, each with its share of all samples.
///
/// The error of the first sample is random as well, so the power is the mean over such samples: the
/// noncentral t of a shift that is itself estimated.
pub(crate) fn shift_found(limits: &[(f64, f64)], freedom: f64, power: f64) -> f64 {
    let errors = errors(freedom);
    let asked = |(limit, share): &(f64, f64)| {
        errors.iter().map(|(seen, weight)| (limit * seen, share * weight)).collect::<Vec<_>>()
    };
    let asked: Vec<(f64, f64)> = limits.iter().flat_map(asked).collect();
    let found_at = |shift: f64| -> f64 {
        let of = |(said, weight): &(f64, f64)| {
            let one = |(asked, share): &(f64, f64)| share * normal_below(shift * said - asked);
            weight * asked.iter().map(one).sum::<f64>()
        };
        errors.iter().map(of).sum()
    };
    // The result is never a shift that the sample itself would not have detected.
    let own: Vec<(f64, f64, f64)> =
        limits.iter().map(|(limit, share)| (*limit, *share, found_at(*limit))).collect();
    let found = |shift: f64| -> f64 {
        let usual = found_at(shift);
        own.iter()
            .map(|(limit, share, own)| share * if *limit > shift { *own } else { usual })
            .sum()
    };
    let (mut low, mut high) = (0.0, 1.0);
    while found(high) < power && high < 1e6 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..14 {
        let middle = (low + high) / 2.0;
        if found(middle) < power { low = middle } else { high = middle }
    }
    high
}

/// Returns estimated errors relative to the true one, at equidistant points, each with its
/// probability.
fn errors(freedom: f64) -> Vec<(f64, f64)> {
    const POINTS: usize = 24;
    let far = 5.0 / freedom.sqrt();
    let (least, most) = ((1.0 - far).max(0.0), 1.0 + far);
    let density = |x: f64| ((freedom - 1.0) * x.ln() - freedom * x * x / 2.0 + freedom / 2.0).exp();
    let at = |i: usize| least + (i as f64 + 0.5) / POINTS as f64 * (most - least);
    let whole: f64 = (0..POINTS).map(|i| density(at(i))).sum();
    (0..POINTS).map(|i| (at(i), density(at(i)) / whole)).collect()
}

/// Returns Student's t of a share from 0.5 to 1, for any number of degrees of freedom from 1 on.
pub(crate) fn quantile(share: f64, freedom: f64) -> f64 {
    let half = freedom / 2.0;
    let scale =
        (log_gamma(half + 0.5) - log_gamma(half)).exp() / (freedom * std::f64::consts::PI).sqrt();
    let density = |t: f64| scale * (1.0 + t * t / freedom).powf(-half - 0.5);
    // The curve is concave from 0 on: tangents never overshoot the quantile.
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

/// Returns the share of Student's distribution below `t`, which is not negative.
fn below(t: f64, freedom: f64) -> f64 {
    1.0 - 0.5 * beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the regularized incomplete beta function, by its continued fraction (modified Lentz).
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front =
        (log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The fraction converges quickly on this side of the mean only.
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

/// Returns the logarithm of the gamma function of a positive number by Stirling's series, with the
/// argument shifted to the range in which the series is accurate.
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
            let tails = tails(t, freedom);
            assert!((tails - 2.0 * (1.0 - share)).abs() < 1e-6, "{freedom}, {share}: {tails}");
        }
    }

    #[test]
    fn ratios_of_variances_are_those_of_the_tables() {
        // The upper 2.5 % of F with 5 and 5, and 2 and 10 degrees of freedom.
        for (ratio, freedom) in [(7.146, [5.0, 5.0]), (5.456, [2.0, 10.0])] {
            let chance = unequal(ratio, freedom);
            assert!((chance - 0.05).abs() < 1e-4, "{ratio}: {chance}");
        }
        assert!((unequal(1.0, [5.0, 5.0]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_normal_distribution_is_that_of_the_tables() {
        for (x, table) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.96, 0.024_997_9), (4.0, 0.999_968_3)]
        {
            let share = normal_below(x);
            assert!((share - table).abs() < 2e-7, "{x}: {share}, not {table}");
        }
    }

    #[test]
    fn with_many_degrees_of_freedom_a_shift_is_found_as_in_a_normal_distribution() {
        let shift = shift_found(&[(1.96, 1.0)], 1e4, 0.8);
        assert!((shift - (1.96 + 0.8416)).abs() < 0.01, "{shift}");
        // Few repeats cannot estimate their own noise.
        assert!(shift_found(&[(2.776, 1.0)], 4.0, 0.8) > 2.776 + 0.941 + 0.3);
    }
}
