//! The part of a volume that gets nine of ten I/Os, by each worker's I/Os: a worker that
//! occasionally reads all of the volume does not widen the working set of the others.

use stats::Collector;

use super::Witness;
use super::seen::{Seen, hot_part, united};

/// The share of the I/Os that hot places get.
const HOT_SHARE: f64 = 0.9;

/// I/Os of a worker, and their range.
#[derive(Clone, Copy, Debug)]
struct Done {
    ios: u64,
    /// Offset and length of its range.
    range: (u64, u64),
    /// The part of the range that gets nine of ten of its I/Os; 1 if all places get the same.
    part: f64,
}

impl Done {
    /// I/Os of its hot places.
    fn hot_ios(&self) -> f64 {
        self.ios as f64 * if self.part < 1.0 { HOT_SHARE } else { 1.0 }
    }
}

impl Witness {
    /// Bytes of a volume, or of a part of one, that get nine of ten I/Os.
    pub(super) fn hot_bytes(&self, seen: &Seen, collected: Option<&Collector>) -> u64 {
        let Some(collected) = collected else { return seen.hot_bytes };
        let workers = collected.workers();
        let done = seen.workers.iter().map(|at| {
            let (workload, worker) = (&self.workloads[*at], &workers[*at]);
            let range = workload.range.on(seen.volume.geometry());
            let ios = worker.read.ios + worker.write.ios;
            Done { ios, range, part: hot_part(workload, range.1) }
        });
        let share = hot_share(done.collect());
        seen.hot_bytes.min((seen.used_bytes as f64 * share) as u64)
    }
}

/// The part of all that workers use which gets nine of ten of their I/Os: places with the most I/Os
/// for each byte come first.
fn hot_share(mut done: Vec<Done>) -> f64 {
    // Cold places of a skewed worker do not count.
    let all: f64 = done.iter().map(Done::hot_ios).sum();
    let bytes = |ranges: &[(u64, u64)]| {
        united(ranges.iter().copied()).iter().map(|(_, length)| *length as f64).sum::<f64>()
    };
    let ranges: Vec<(u64, u64)> = done.iter().map(|one| one.range).collect();
    let used = bytes(&ranges);
    if all == 0.0 || used == 0.0 {
        return 1.0;
    }
    let density = |one: &Done| one.ios as f64 / (one.range.1.max(1) as f64 * one.part);
    done.sort_by(|a, b| density(b).total_cmp(&density(a)));
    let (mut got, mut widest, mut hot) = (0.0, 0.0_f64, Vec::new());
    for one in done {
        // Tolerance for the rounding of sums of shares.
        if got >= all * HOT_SHARE * (1.0 - 1e-9) {
            break;
        }
        got += one.hot_ios();
        widest = widest.max(one.part);
        hot.push(one.range);
    }
    (bytes(&hot) * widest / used).min(1.0)
}

#[cfg(test)]
mod test {
    use super::*;

    fn share(done: &[(u64, (u64, u64), f64)]) -> f64 {
        hot_share(
            done.iter()
                .map(|(ios, range, part)| Done { ios: *ios, range: *range, part: *part })
                .collect(),
        )
    }

    /// H08 detects: nearly all I/Os use a small range, another worker a few of the whole volume.
    /// H08 accepts: two workers, each with half of the I/Os and of the volume.
    #[test]
    fn a_bystander_does_not_widen_the_working_set() {
        assert_eq!(share(&[(990_000, (0, 10), 1.0), (10, (0, 1000), 1.0)]), 0.01);
        assert_eq!(share(&[(10, (0, 1000), 1.0), (990_000, (500, 10), 1.0)]), 0.01);
        assert_eq!(share(&[(500, (0, 500), 1.0), (500, (500, 500), 1.0)]), 1.0);
        assert_eq!(share(&[(850, (0, 10), 1.0), (150, (0, 1000), 1.0)]), 1.0, "15 % elsewhere");
        assert_eq!(share(&[(50, (0, 100), 1.0); 8]), 1.0, "all of one range");
    }

    #[test]
    fn hot_places_of_skewed_workers_count() {
        assert_eq!(share(&[(100, (0, 1000), 0.2)]), 0.2);
        assert_eq!(share(&[(100, (0, 1000), 0.2), (100, (0, 1000), 0.2)]), 0.2);
        assert_eq!(share(&[(5, (0, 1000), 1.0), (95, (0, 1000), 0.2)]), 0.2, "and a bystander");
        assert_eq!(share(&[(50, (0, 1000), 1.0), (50, (0, 1000), 0.2)]), 1.0);
        assert_eq!(share(&[(0, (0, 1000), 0.2)]), 1.0, "nothing was done");
        assert_eq!(share(&[]), 1.0);
    }
}
