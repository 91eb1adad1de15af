//! Uncertainty of a prediction: draws of the figures from their intervals.
//!
//! The draws are a Latin hypercube (McKay, Beckman and Conover 1979): the interval of each figure
//! is cut into as many slices as there are draws, and each slice is used once, in random order.
//! Values are uniform within an interval, since sources publish no more than its ends.

use std::collections::BTreeMap;

use block::Rng;
use serde::Serialize;

use crate::bill::Bill;
use crate::predict::{BUSY, predict};
use crate::system::{PlanError, System, Tweak};

/// Median and 80 % interval of the draws.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// 10th percentile.
    pub p10: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
}

/// Results of the draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chance {
    /// Number of draws.
    pub draws: u32,
    /// Seed of the draws.
    pub seed: u64,
    /// I/Os per second.
    pub iops: Spread,
    /// Mean latency in seconds.
    pub latency_s: Spread,
    /// Bottlenecks, each with its share of the draws, the most likely first.
    pub limits: Vec<(String, f64)>,
    /// Share of the draws that reach the goal, if there is one.
    pub reaches: Option<f64>,
}

impl Chance {
    /// Returns p10 and p90 of the draws' rates over their median.
    pub fn spread(&self) -> (f64, f64) {
        (self.iops.p10 / self.iops.p50, self.iops.p90 / self.iops.p50)
    }
}

/// Maximum number of draws; more do not improve the result, given the intervals.
pub const DRAWS_MAX: u32 = 10_000;

/// Draws the figures of a bill and predicts each time. The same bill and seed result in the same
/// bits.
///
/// # Errors
///
/// Errors of [`predict`].
pub fn chance(bill: &Bill, draws: u32, seed: u64, goal: Option<f64>) -> Result<Chance, PlanError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    on_threads(threads, bill, (draws, seed), goal)
}

/// Draws on the given number of threads, which does not affect the result.
fn on_threads(
    threads: usize,
    bill: &Bill,
    (draws, seed): (u32, u64),
    goal: Option<f64>,
) -> Result<Chance, PlanError> {
    let draws = draws.clamp(10, DRAWS_MAX);
    let inputs = System::build(bill, &Tweak::default())?.inputs;
    let columns: Vec<((String, &'static str), Vec<f64>)> = inputs
        .iter()
        .zip(0..)
        .filter(|(input, _)| input.known.low < input.known.high)
        .map(|(input, stream)| {
            let (low, high) = (input.known.low, input.known.high);
            let at = slices(draws, Rng::new(seed, stream));
            let values = at.into_iter().map(|at| low + (high - low) * at).collect();
            ((input.part.clone(), input.quantity), values)
        })
        .collect();
    let one = |draw: usize| {
        let values = columns.iter().map(|(key, values)| (key.clone(), values[draw]));
        let tweak = Tweak { values: values.collect(), ..Tweak::default() };
        let found = predict(bill, &tweak)?;
        let limit = found.bottleneck().map(|limit| match limit.utilisation < BUSY {
            true => "queue depth",
            false => limit.level.word(),
        });
        Ok((found.iops, found.latency_s, limit))
    };
    let found = in_parts(threads, draws as usize, one)?;
    let mut limits: BTreeMap<String, u32> = BTreeMap::new();
    for level in found.iter().filter_map(|(.., limit)| *limit) {
        *limits.entry(level.to_owned()).or_default() += 1;
    }
    let rates: Vec<f64> = found.iter().map(|(iops, ..)| *iops).collect();
    let latencies = found.iter().map(|(_, latency_s, _)| *latency_s).collect();
    let share = |count: usize| count as f64 / f64::from(draws);
    let reaches = goal.map(|goal| share(rates.iter().filter(|rate| **rate >= goal).count()));
    let mut limits: Vec<(String, f64)> =
        limits.into_iter().map(|(name, count)| (name, share(count as usize))).collect();
    limits.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (iops, latency_s) = (spread(rates), spread(latencies));
    Ok(Chance { draws, seed, iops, latency_s, limits, reaches })
}

/// Returns the results of `one` for 0 to `count`, in this order, each thread a part of them.
fn in_parts<T: Send>(
    threads: usize,
    count: usize,
    one: impl Fn(usize) -> Result<T, PlanError> + Sync,
) -> Result<Vec<T>, PlanError> {
    let each = count.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let stretch = |first: usize| {
            let one = &one;
            scope.spawn(move || (first..count.min(first + each)).map(one).collect())
        };
        let threads: Vec<_> = (0..count).step_by(each).map(stretch).collect();
        let mut all = Vec::with_capacity(count);
        for thread in threads {
            let found: Result<Vec<T>, PlanError> = thread.join().expect("no panic in a prediction");
            all.extend(found?);
        }
        Ok(all)
    })
}

/// Returns a number in each of `count` equal slices of 0 to 1, in random order.
pub(crate) fn slices(count: u32, mut rng: Rng) -> Vec<f64> {
    let mut order: Vec<u32> = (0..count).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let place = |slice: u32| (f64::from(slice) + rng.uniform()) / f64::from(count);
    order.into_iter().map(place).collect()
}

pub(crate) fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    Spread { p10: at(0.1), p50: at(0.5), p90: at(0.9) }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::bill::Group;
    use catalogue::Catalogue;

    #[test]
    fn every_slice_is_used_once() {
        let mut at = slices(50, Rng::new(3, 1));
        assert!(at.windows(2).any(|pair| pair[0] > pair[1]), "in order");
        at.sort_by(f64::total_cmp);
        for (slice, value) in at.iter().enumerate() {
            assert_eq!((value * 50.0) as usize, slice);
        }
    }

    #[test]
    fn the_number_of_threads_changes_no_bit() {
        let text = include_str!("../systems/intel-ssd.toml");
        let bill = Bill::read("intel-ssd.toml", text, &Catalogue::shipped()).unwrap();
        let bits = |threads| {
            let found = on_threads(threads, &bill, (64, 5), Some(980e3)).unwrap();
            let Spread { p10, p50, p90 } = found.iops;
            ([p10, p50, p90, found.latency_s.p50].map(f64::to_bits), found)
        };
        let one = bits(1);
        assert!(one.1.iops.p10 < one.1.iops.p90, "{one:?}");
        for threads in [2, 3, 64, 1000] {
            assert_eq!(bits(threads), one, "{threads} threads");
        }
    }

    #[test]
    fn the_middle_is_the_prediction_and_the_ends_are_the_intervals() {
        let catalogue = Catalogue::shipped();
        let text = "name = 'x'\nsize = '4k'\noutstanding = 32\n[[group]]\ndrive = 'x25-m'\n";
        let bill = Bill::read("x.toml", text, &catalogue).unwrap();
        assert_eq!(bill.groups[0].devices(), Group::of_drives(None, 1, "x25-m", 1).devices());
        let found = chance(&bill, 100, 7, Some(35_000.0)).unwrap();
        // One drive of 35,000 ± 5 %, uniform in between.
        let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 0.003;
        assert!(near(found.iops.p10, 33_600.0), "{found:?}");
        assert!(near(found.iops.p50, 35_000.0), "{found:?}");
        assert!(near(found.iops.p90, 36_400.0), "{found:?}");
        assert_eq!(found.limits[0], ("drives".to_owned(), 1.0));
        assert!((0.45..0.55).contains(&found.reaches.unwrap()));
        assert_eq!(found, chance(&bill, 100, 7, Some(35_000.0)).unwrap());
        assert_ne!(found.iops, chance(&bill, 100, 8, None).unwrap().iops);
    }
}
