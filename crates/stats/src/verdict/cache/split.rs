//! Two sets of latencies: whether one is faster than the other, beyond what a busy host makes of
//! equal ones, and where between them a read counts as fast.

/// Distance between two distributions (Kolmogorov, Smirnov) from which on they differ: of 64 and 64
/// values of one distribution 1 of 1000 pairs is this far apart.
const APART: f64 = 0.35;
/// So many standard deviations of pairs are beyond chance: 1 of 1000.
const DEVIATIONS: f64 = 3.0;
/// Deviations that show in each half of places of which all together are beyond chance.
const HALF_DEVIATIONS: f64 = 1.0;
/// Second reads that are so many times as fast come from elsewhere: over a network a cache saves
/// flash only half of the time.
const TIMES: f64 = 1.5;
/// Where between the two a read counts as one of the faster, on a scale of logarithms: nearer to
/// the faster ones, as a medium has places that answer sooner than others.
const BETWEEN: f64 = 0.4;
/// Second reads of which a smaller share counts as fast say nothing of first ones.
const ALIKE_LEAST: f64 = 0.6;
/// Share of second reads below which nothing of first ones is certain: noise makes both alike.
const ALIKE_CERTAIN: f64 = 0.68;
/// Most that the 62.5th percentile of a drive's reads may be above their 25th, as a ratio. A drive
/// with a wide spread (log-normal, sigma 0.5) has 1.6.
const UNEVEN_TIMES: u64 = 4;

/// First and second reads of the same places, where these differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    /// Median of the first reads that are no faster than second ones.
    pub(super) cold_ns: u64,
    /// Median of the second reads.
    pub(super) again_ns: u64,
}

impl Split {
    /// The split of two sets; `None` where second reads are no faster.
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

    /// Whether second reads are the faster ones in the first half of the places as in the second
    /// one: a burst of noise in one of them is no cache.
    pub(super) fn is_in_both_halves(&self, first: &[u64], again: &[u64]) -> bool {
        let deviations = HALF_DEVIATIONS;
        let half = first.len().min(again.len()) / 2;
        more_are_slower(&first[..half], &again[..half], deviations)
            && more_are_slower(&first[half..], &again[half..], deviations)
    }

    /// How many times as long first reads take.
    pub(super) fn apart(&self) -> f64 {
        self.cold_ns as f64 / self.again_ns.max(1) as f64
    }
}

/// First reads of which a cache answered some, beside second ones of the same places and moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Held {
    /// Part of the first reads that it answered, 0 to 1.
    pub(super) part: f64,
    /// The smaller one of those of both halves of the places.
    pub(super) least: f64,
    /// Up to here a read is as fast as second ones.
    pub(super) limit_ns: u64,
}

impl Held {
    /// Part of the range that the cache holds, judged by second reads, if a miss takes `times` as
    /// long; `None` where too few second reads are alike.
    pub(super) fn of(first: &[u64], again: &[u64], times: f64) -> Option<Held> {
        let (part, limit_ns) = part(first, again, times)?;
        let scatter = at(again, again.len() * 2 / 3) as f64 / at(again, again.len() / 3) as f64;
        // Second reads that differ by as much as first ones from them leave no place between both.
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

/// Part of first reads that are as fast as second ones, and up to where that is.
fn part(first: &[u64], again: &[u64], times: f64) -> Option<(f64, u64)> {
    let limit_ns = (median(again) as f64 * times.powf(BETWEEN)) as u64;
    let like = share(again, limit_ns);
    (like >= ALIKE_LEAST).then(|| ((share(first, limit_ns) / like).min(1.0), limit_ns))
}

/// The part alone, none where second reads are not alike.
fn part_of(first: &[u64], again: &[u64], times: f64) -> f64 {
    part(first, again, times).map_or(0.0, |(part, _)| part)
}

/// Whether one read took longer than another one by as much as a cache saves.
pub(super) fn is_slower(one: u64, other: u64) -> bool {
    one as f64 > TIMES * other as f64
}

/// Whether first reads are slower than the second ones of the same places more often than the other
/// way round, beyond chance (McNemar): of a range that a cache holds in part.
fn some_are_slower(first: &[u64], again: &[u64]) -> bool {
    more_are_slower(first, again, DEVIATIONS)
}

/// Whether they are by so many standard deviations of pairs.
fn more_are_slower(first: &[u64], again: &[u64], deviations: f64) -> bool {
    let pairs = || first.iter().zip(again);
    let slower = pairs().filter(|(first, again)| is_slower(**first, **again)).count() as f64;
    let faster = pairs().filter(|(first, again)| is_slower(**again, **first)).count() as f64;
    slower - faster >= deviations * (slower + faster).sqrt() && slower > 0.0
}

/// Whether one set is faster than another, beyond chance.
pub(super) fn are_faster(fast: &[u64], slow: &[u64]) -> bool {
    distance(fast, slow).0 >= APART
}

/// By how much more of the faster set lies below some value than of the slower one, at most, and
/// that value.
fn distance(fast: &[u64], slow: &[u64]) -> (f64, u64) {
    let at = |ns: u64| (share(fast, ns) - share(slow, ns), ns);
    let further = |a: (f64, u64), b: (f64, u64)| if b.0 > a.0 { b } else { a };
    fast.iter().map(|ns| at(*ns)).fold((0.0, 0), further)
}

/// Share of values up to a limit.
pub(super) fn share(all: &[u64], limit_ns: u64) -> f64 {
    let below = all.iter().filter(|ns| **ns <= limit_ns).count();
    below as f64 / all.len().max(1) as f64
}

/// Median; 0 of nothing.
pub(super) fn median(all: &[u64]) -> u64 {
    at(all, all.len() / 2)
}

/// A value that nine of ten are above: noise only makes reads longer, and leaves some alone.
pub(super) fn lower(all: &[u64]) -> u64 {
    at(all, all.len() / 10)
}

/// A value that three of four are above.
pub(super) fn quarter(all: &[u64]) -> u64 {
    at(all, all.len() / 4)
}

/// A value that nine of ten are below.
pub(super) fn upper(all: &[u64]) -> u64 {
    at(all, all.len() * 9 / 10)
}

/// Whether reads differ among each other by more than those of a drive: a busy host hides caches.
pub(super) fn is_uneven(all: &[u64]) -> bool {
    at(all, all.len() * 5 / 8) > UNEVEN_TIMES * quarter(all)
}

/// The value of this rank; 0 beyond the last.
fn at(all: &[u64], rank: usize) -> u64 {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    sorted.get(rank).copied().unwrap_or(0)
}
