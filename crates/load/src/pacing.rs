//! Planned starts of the I/Os of an open loop.

use block::{Nanos, Rng};

use job::spec::{Arrivals, Pacing};

/// Planned starts of one worker, independent of the volume.
///
/// Times have a fraction of 32 bits: any rate is exact to less than one I/O a year.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    next_q32: u128,
    /// Time per I/O, or per byte.
    step_q32: f64,
    per_byte: bool,
    arrivals: Arrivals,
    rng: Rng,
}

const Q32: f64 = (1_u64 << 32) as f64;

impl Schedule {
    /// The schedule of a pacing, if it has one. It does not advance before [`begin`](Self::begin).
    pub(crate) fn new(pacing: &Pacing, rng: Rng) -> Option<Schedule> {
        let (per_second, per_byte, arrivals) = match *pacing {
            Pacing::Closed => return None,
            Pacing::Ios { per_second, arrivals } => (per_second, false, arrivals),
            Pacing::Bytes { per_second, arrivals } => (per_second, true, arrivals),
        };
        let step_q32 = 1e9 / per_second * Q32;
        Some(Schedule { next_q32: u128::MAX, step_q32, per_byte, arrivals, rng })
    }

    /// Starts the plan at `now`; the first I/O is due within one interval, at a different phase for
    /// each worker.
    pub(crate) fn begin(&mut self, now: Nanos, mean_bytes: f64) {
        let first = self.rng.uniform() * self.step_q32;
        let first = if self.per_byte { first * mean_bytes } else { first };
        self.next_q32 = (u128::from(now.0) << 32).saturating_add(first as u128);
    }

    /// Time at which the next I/O is due.
    #[inline]
    pub(crate) fn next(&self) -> Nanos {
        // The far end of time is not its beginning.
        Nanos(u64::try_from(self.next_q32 >> 32).unwrap_or(u64::MAX))
    }

    /// Plans the I/O after the next, which has this length.
    #[inline]
    pub(crate) fn advance(&mut self, len_bytes: u32) {
        let mut step = self.step_q32;
        if self.per_byte {
            step *= f64::from(len_bytes);
        }
        if self.arrivals == Arrivals::Poisson {
            step *= self.rng.exponential();
        }
        // Casts to 128 bits are calls; 2⁶⁴ of these units are four seconds.
        let step = if step < 1e19 { u128::from(step as u64) } else { step as u128 };
        self.next_q32 = self.next_q32.saturating_add(step);
    }

    /// Approximate number of I/Os planned before `until`.
    pub(crate) fn ahead(&self, until: Nanos, mean_bytes: f64) -> u64 {
        let span_q32 = (u128::from(until.0) << 32).saturating_sub(self.next_q32) as f64;
        let step_q32 = if self.per_byte { self.step_q32 * mean_bytes } else { self.step_q32 };
        (span_q32 / step_q32) as u64
    }

    /// Total waiting time by `now` of the I/Os planned up to `until`; exact for the first `most`,
    /// estimated for the others as if evenly spaced. There are at most `left`.
    pub(crate) fn waited_ns(
        &self,
        (until, now): (Nanos, Nanos),
        mean_bytes: f64,
        most: u64,
        left: u64,
    ) -> u128 {
        let (mut ahead, mut sum_ns) = (self.clone(), 0);
        for _ in 0..most.min(left) {
            let due = ahead.next();
            if due > until {
                return sum_ns;
            }
            sum_ns += u128::from(now.since(due).0);
            ahead.advance(mean_bytes as u32);
        }
        if ahead.next() > until || left <= most {
            return sum_ns;
        }
        let more = u128::from(ahead.ahead(until, mean_bytes).min(left - most - 1));
        let step_q32 = if self.per_byte { self.step_q32 * mean_bytes } else { self.step_q32 };
        let middle_q32 = ahead.next_q32 + (step_q32 * more as f64 / 2.0) as u128;
        let waited_q32 = (u128::from(now.0) << 32).saturating_sub(middle_q32);
        sum_ns.saturating_add(waited_q32.saturating_mul(more + 1) >> 32)
    }

    /// Plans only one of `factor` I/Os from now on.
    pub(crate) fn thin(&mut self, factor: u64) {
        self.step_q32 *= factor as f64;
    }

    /// Delays everything that is not due yet.
    pub(crate) fn shift(&mut self, span: Nanos) {
        self.next_q32 = self.next_q32.saturating_add(u128::from(span.0) << 32);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn starts(pacing: Pacing, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(&pacing, Rng::new(4, 0)).unwrap();
        schedule.begin(Nanos::from_secs(5), 4096.0);
        let next = |_| {
            let at = schedule.next();
            schedule.advance(4096);
            at.0
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_constant_rate_is_exact() {
        for (per_second, count) in [(3.0, 10), (333_333.0, 333_333), (7e7, 1_000_000)] {
            let pacing = Pacing::Ios { per_second, arrivals: Arrivals::Constant };
            let starts = starts(pacing, count + 1);
            let span = (starts[count] - starts[0]) as f64;
            assert!((span - count as f64 / per_second * 1e9).abs() <= 1.0, "{per_second}: {span}");
            assert!(starts[0] >= 5_000_000_000 && (starts[0] as f64) < 5e9 + 1e9 / per_second);
        }
        let pacing = Pacing::Bytes { per_second: 4096.0 * 1000.0, arrivals: Arrivals::Constant };
        assert!(starts(pacing, 100).windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
        assert!(Schedule::new(&Pacing::Closed, Rng::new(1, 0)).is_none());
    }

    #[test]
    fn a_rate_of_nothing_plans_nothing() {
        for per_second in [1e-9, 1e-20, 1e-300, f64::MIN_POSITIVE, 0.0] {
            for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
                let ios = Pacing::Ios { per_second, arrivals };
                for pacing in [ios, Pacing::Bytes { per_second, arrivals }] {
                    let mut schedule = Schedule::new(&pacing, Rng::new(4, 0)).unwrap();
                    let now = Nanos::from_secs(1 << 30);
                    schedule.begin(now, 4096.0);
                    for _ in 0..10 {
                        schedule.advance(4096);
                    }
                    let day = now + Nanos::from_secs(86_400);
                    assert!(schedule.next() > day, "{per_second}: {:?}", schedule.next());
                    assert_eq!(schedule.ahead(day, 4096.0), 0);
                    assert_eq!(schedule.waited_ns((day, day), 4096.0, 10, u64::MAX), 0);
                }
            }
        }
    }

    #[test]
    fn what_has_waited_is_known_beyond_those_that_are_looked_at() {
        for per_second in [1e3, 333_333.0] {
            let pacing = Pacing::Ios { per_second, arrivals: Arrivals::Constant };
            let mut schedule = Schedule::new(&pacing, Rng::new(4, 0)).unwrap();
            schedule.begin(Nanos(0), 4096.0);
            let now = Nanos::from_secs(1);
            let waited = |most, left| schedule.waited_ns((now, now), 4096.0, most, left);
            for left in [5, 500, u64::MAX] {
                // Planned starts are rounded to whole nanoseconds when read.
                let (all, some) = (waited(u64::MAX, left), waited(10, left));
                assert!(all.abs_diff(some) <= per_second as u128, "{all} {some}");
            }
            assert!(waited(10, 500) < waited(10, 900));
        }
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_the_spread() {
        let pacing = Pacing::Ios { per_second: 1e5, arrivals: Arrivals::Poisson };
        let starts = starts(pacing, 200_001);
        let gaps: Vec<f64> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        // An exponential's second moment is twice the square of its mean.
        assert!((mean / 10_000.0 - 1.0).abs() < 0.01, "{mean}");
        assert!((square / (2.0 * mean * mean) - 1.0).abs() < 0.02, "{square}");
    }
}
