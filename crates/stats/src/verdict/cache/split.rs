//! Comparison of two sets of latencies: whether one is faster than the other, beyond the noise of a
//! busy host, and the limit between them below which a read counts as fast.

/// Distance between two distributions (Kolmogorov, Smirnov) from which on they differ: with 64 and
/// 64 values of one distribution 1 of 1000 pairs is this far apart.
const APART: f64 = 0.35;
/// Number of standard deviations of pairs that is beyond chance: 1 of 1000.
const DEVIATIONS: f64 = 3.0;
/// Deviations required in each half of the offsets if all together are beyond chance.
const HALF_DEVIATIONS: f64 = 1.0;
/// Minimum ratio at which second reads come from another medium: over a network a cache saves only
/// half of the time of flash.
const TIMES: f64 = 1.5;
/// Limit between the two sets below which a read counts as one of the faster, on a logarithmic
/// scale: nearer to the faster ones, as some offsets of a medium are faster than others.
const BETWEEN: f64 = 0.4;
/// Minimum share of second reads that count as fast; with fewer, they say nothing about first ones.
const ALIKE_LEAST: f64 = 0.6;
/// Share of second reads below which nothing about first ones is certain: noise makes both alike.
const ALIKE_CERTAIN: f64 = 0.68;
/// Maximum ratio of the 62.5th percentile of a drive's reads to their 25th. A drive with a wide
/// spread (log-normal, sigma 0.5) has 1.6.
const UNEVEN_TIMES: u64 = 4;

/// First and second reads at the same offsets, if they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// Median of the first reads that are no faster than second ones.
    pub(super) cold_ns: u64,
    /// Median of the second reads.
    pub(super) again_ns: u64,
}

impl Split {
    /// Returns the split of two sets; `None` if second reads are no faster.
    pub(super) fn of(first: &[u64], again: &[u64]) -> Option<Split> {
        let (distance, at) = distance(again, first);
        let all = distance >= APART;
        if !all && !some_are_slower(first, again) {
            return None;
        }
        let is_cold = |(first, again): &(&u64, &u64)| match all {
            true => **first > at,
            false => is_slower(**first, **again),
        };
        let cold = first.iter().zip(again).filter(is_cold).map(|(first, _)| *first);
        let (cold_ns, again_ns) = (median(&cold.collect::<Vec<_>>()), median(again));
        let times = cold_ns as f64 / again_ns.max(1) as f64;
        (times >= TIMES).then_some(Split { cold_ns, again_ns })
    }

    /// Returns whether second reads are the faster ones in both halves of the offsets: a burst of
    /// noise in one half is no cache.
    pub(super) fn is_in_both_halves(&self, first: &[u64], again: &[u64]) -> bool {
        let deviations = HALF_DEVIATIONS;
        let half = first.len().min(again.len()) / 2;
        more_are_slower(&first[..half], &again[..half], deviations)
            && more_are_slower(&first[half..], &again[half..], deviations)
    }

    /// Returns the ratio of the latency of first reads to that of second ones.
    pub(super) fn apart(&self) -> f64 {
        self.cold_ns as f64 / self.again_ns.max(1) as f64
    }
}

/// First reads of which a cache answered some, compared with second ones at the same offsets and
/// times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Held {
    /// Share of the first reads that the cache answered, 0 to 1.
    pub(super) part: f64,
    /// Minimum of the shares in the two halves of the offsets.
    pub(super) least: f64,
    /// Maximum latency of a read that is as fast as second ones.
    pub(super) limit_ns: u64,
}

impl Held {
    /// Returns the share of the range that the cache holds, judged by second reads, if a miss takes
    /// `times` as long; `None` if too few second reads are alike.
    pub(super) fn of(first: &[u64], again: &[u64], times: f64) -> Option<Held> {
        let (part, limit_ns) = part(first, again, times)?;
        let scatter = at(again, again.len() * 2 / 3) as f64 / at(again, again.len() / 3) as f64;
        // Second reads that vary as much among themselves as first ones differ from them leave no
        // gap between the two sets.
        if share(again, limit_ns) < ALIKE_CERTAIN || scatter > times.sqrt() {
            return Some(Held { part, least: 0.0, limit_ns });
        }
        let half = first.len().min(again.len()) / 2;
        let halves = [(&first[..half], &again[..half]), (&first[half..], &again[half..])];
        let of = |(first, again)| part_of(first, again, times);
        let least = halves.map(of).into_iter().fold(part, f64::min);
        Some(Held { part, least, limit_ns })
    }
}

/// Returns the share of first reads that are as fast as second ones, and the limit for that.
fn part(first: &[u64], again: &[u64], times: f64) -> Option<(f64, u64)> {
    let limit_ns = (median(again) as f64 * times.powf(BETWEEN)) as u64;
    let like = share(again, limit_ns);
    (like >= ALIKE_LEAST).then(|| ((share(first, limit_ns) / like).min(1.0), limit_ns))
}

/// Returns the share of [`part`] without its limit; 0 if too few second reads are alike.
fn part_of(first: &[u64], again: &[u64], times: f64) -> f64 {
    part(first, again, times).map_or(0.0, |(part, _)| part)
}

/// Returns whether one read took longer than another one by as much as a cache saves.
pub(super) fn is_slower(one: u64, other: u64) -> bool {
    one as f64 > TIMES * other as f64
}

/// Returns whether first reads are slower than second ones at the same offsets more often than the
/// other way round, beyond chance (McNemar): so in a range that a cache holds in part.
fn some_are_slower(first: &[u64], again: &[u64]) -> bool {
    more_are_slower(first, again, DEVIATIONS)
}

/// Returns whether first reads are slower by this many standard deviations of pairs.
fn more_are_slower(first: &[u64], again: &[u64], deviations: f64) -> bool {
    let pairs = || first.iter().zip(again);
    let slower = pairs().filter(|(first, again)| is_slower(**first, **again)).count() as f64;
    let faster = pairs().filter(|(first, again)| is_slower(**again, **first)).count() as f64;
    slower - faster >= deviations * (slower + faster).sqrt() && slower > 0.0
}

/// Returns whether one set is faster than another, beyond chance.
pub(super) fn are_faster(fast: &[u64], slow: &[u64]) -> bool {
    distance(fast, slow).0 >= APART
}

/// Returns the maximum difference between the shares of the two sets below a value, and that value.
fn distance(fast: &[u64], slow: &[u64]) -> (f64, u64) {
    let at = |ns: u64| (share(fast, ns) - share(slow, ns), ns);
    let further = |a: (f64, u64), b: (f64, u64)| if b.0 > a.0 { b } else { a };
    fast.iter().map(|ns| at(*ns)).fold((0.0, 0), further)
}

/// Returns the share of values up to a limit.
pub(super) fn share(all: &[u64], limit_ns: u64) -> f64 {
    let below = all.iter().filter(|ns| **ns <= limit_ns).count();
    below as f64 / all.len().max(1) as f64
}

/// Returns the median; 0 without values.
pub(super) fn median(all: &[u64]) -> u64 {
    at(all, all.len() / 2)
}

/// Returns the 10th percentile: noise only makes reads slower, and does not affect all.
pub(super) fn lower(all: &[u64]) -> u64 {
    at(all, all.len() / 10)
}

/// Returns the 25th percentile.
pub(super) fn quarter(all: &[u64]) -> u64 {
    at(all, all.len() / 4)
}

/// Returns the 90th percentile.
pub(super) fn upper(all: &[u64]) -> u64 {
    at(all, all.len() * 9 / 10)
}

/// Returns whether reads vary by more than those of a drive: a busy host hides caches.
pub(super) fn is_uneven(all: &[u64]) -> bool {
    at(all, all.len() * 5 / 8) > UNEVEN_TIMES * quarter(all)
}

/// Returns the value of this rank; 0 past the last.
fn at(all: &[u64], rank: usize) -> u64 {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    sorted.get(rank).copied().unwrap_or(0)
}
