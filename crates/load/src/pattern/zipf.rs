//! Zipf-distributed ranks, for any number of ranks, without a table.

use block::Rng;

/// Draws rank k of 1..=n with a probability proportional to 1 / kᵉ.
///
/// Rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates
/// from monotone discrete distributions", ACM TOMACS 6 (1996). The integral of 1 / xᵉ is inverted
/// and the result rounded to a rank; the rare ranks that rounding favours are rejected in
/// proportion.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    ranks: f64,
    exponent: f64,
    /// 1 − e, or 0 if it is so near that the logarithm is more exact.
    power: f64,
    inverse_power: f64,
    /// The integral from 1 to 3/2 less the weight of the first rank, and to n + 1/2.
    from: f64,
    span: f64,
    /// A result this little below its rank is accepted without a test.
    near: f64,
    /// e(e + 1) / 12: how much below 1/2 that is for higher ranks, times their square.
    curve: f64,
}

impl Zipf {
    /// For `ranks`, at least 1 and below 2⁵³, and an exponent above 0.
    pub(super) fn new(ranks: u64, exponent: f64) -> Zipf {
        let power = if (1.0 - exponent).abs() < 1e-9 { 0.0 } else { 1.0 - exponent };
        let ranks = ranks as f64;
        let mut zipf = Zipf {
            ranks,
            exponent,
            power,
            inverse_power: 1.0 / power,
            from: 0.0,
            span: 0.0,
            near: 0.0,
            curve: exponent * (exponent + 1.0) / 12.0,
        };
        zipf.from = zipf.integral(1.5) - 1.0;
        zipf.span = zipf.integral(ranks + 0.5) - zipf.from;
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// A rank, from 1.
    #[inline]
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.from + rng.uniform() * self.span;
            let x = self.inverse(area);
            let rank = (x + 0.5).floor().clamp(1.0, self.ranks);
            // The first rank is never rejected; of another only what lies within e(e + 1) / 24k² of
            // its lower end, and twice that leaves room for the rest of the series.
            let sure = 0.5 - self.curve / (rank * rank);
            if rank == 1.0
                || rank - x <= self.near.max(sure)
                || area >= self.integral(rank + 0.5) - self.weight(rank)
            {
                return rank as u64;
            }
        }
    }

    fn weight(&self, rank: f64) -> f64 {
        rank.powf(-self.exponent)
    }

    /// The integral of the weights from 1 to x.
    fn integral(&self, x: f64) -> f64 {
        match self.power {
            0.0 => x.ln(),
            // Exact also for x^power near 1.
            power => (power * x.ln()).exp_m1() * self.inverse_power,
        }
    }

    /// The x of this integral.
    #[inline]
    fn inverse(&self, area: f64) -> f64 {
        match self.power {
            0.0 => area.exp(),
            power if power.abs() > 0.01 => (1.0 + area * power).max(0.0).powf(self.inverse_power),
            power => ((area * power).ln_1p() * self.inverse_power).exp(),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// The sum of 1 / kᵉ, k from 1 to n: exact at first, then by the Euler–Maclaurin formula.
    fn harmonic(ranks: u64, e: f64) -> f64 {
        let head = ranks.min(10_000);
        let exact: f64 = (1..=head).map(|k| (k as f64).powf(-e)).sum();
        if head == ranks {
            return exact;
        }
        let (a, b) = (head as f64, ranks as f64);
        let integral = match (1.0 - e).abs() < 1e-12 {
            true => (b / a).ln(),
            false => (b.powf(1.0 - e) - a.powf(1.0 - e)) / (1.0 - e),
        };
        exact + integral + (b.powf(-e) - a.powf(-e)) / 2.0
    }

    #[test]
    fn follows_the_law() {
        for (ranks, exponent) in [
            (1_000_000_000, 1.2),
            (1_000_000_000, 1.0),
            (1_000_000, 0.8),
            (50, 2.0),
            (1, 1.1),
            (9, 0.999_999),
        ] {
            let zipf = Zipf::new(ranks, exponent);
            let mut rng = Rng::new(11, 0);
            let draws = 200_000;
            let mut counts = vec![0_u64; 1001];
            let mut most = 0;
            for _ in 0..draws {
                let rank = zipf.draw(&mut rng);
                assert!(rank >= 1 && rank <= ranks);
                most = most.max(rank);
                if rank <= 1000 {
                    counts[rank as usize] += 1;
                }
            }
            let sum = harmonic(ranks, exponent);
            let (mut chi, mut classes) = (0.0_f64, 0.0_f64);
            for (rank, count) in counts.iter().enumerate().skip(1).take(ranks.min(1000) as usize) {
                let share = (rank as f64).powf(-exponent) / sum;
                let expected = draws as f64 * share;
                let sigma = (expected * (1.0 - share)).sqrt();
                let off = *count as f64 - expected;
                // 4.5 sigma: once in 150,000 ranks by chance.
                assert!(off.abs() <= 4.5 * sigma + 1e-6, "e {exponent}, rank {rank}: {count}");
                chi += off * off / expected;
                classes += 1.0;
            }
            // All ranks together: chi squared has mean n and variance 2n.
            assert!(chi <= classes + 5.0 * (2.0 * classes).sqrt(), "e {exponent}: {chi}");
            assert!(ranks < 1_000_000_000 || most > ranks / 1000, "the tail is cut at {most}");
        }
    }
}
