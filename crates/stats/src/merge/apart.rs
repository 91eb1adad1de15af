//! Hosts whose rate differs from that of hosts with the same work by more than the noise of their
//! own seconds explains.
//!
//! Each second of a host is compared with the mean of all others in that second, by logarithms:
//! what all hosts share is no noise. The differences of a host are a series. Their mean is tested
//! by Student's t, with as many independent seconds as their correlation leaves. The limit is that
//! of a false alarm in one of [`FALSE_ALARMS`] results, however many hosts there are. The furthest
//! host is left out before the others are tested.

use super::Host;
use crate::run::{CommonWindow, HostApart, HostResult, RunResult};
use crate::student::tails;
use crate::verdict::{Check, Verdict};

/// Results of equal hosts of which one names a host.
const FALSE_ALARMS: f64 = 100.0;
/// Fewest seconds that all hosts share.
const SECONDS_MIN: usize = 5;
/// Seconds that are looked at: the first ones.
pub(crate) const SECONDS_MAX: usize = 600;
/// Smallest difference that is named.
const SHARE_MIN: f64 = 0.02;
/// Hosts from which on their own spread is known: a difference that many hosts have is no outlier.
const SPREAD_OF: usize = 5;
/// Robust deviations beyond which a host is none of the others.
const DEVIATIONS: f64 = 4.0;
/// Standard errors by which the correlation of seconds is taken to be higher than it was seen.
const CORRELATION_ERRORS: f64 = 0.5;
/// Median absolute deviation of a normal distribution, in standard deviations.
const MAD: f64 = 0.6745;

/// A host that is apart from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Apart {
    /// Number of the host.
    pub host: usize,
    /// Rate of the host over that of the others, less one.
    pub off: f64,
    /// Half of the interval in which the noise of its seconds leaves that.
    pub noise: f64,
}

/// Share of a second that counts as a whole one.
const WHOLE: f64 = 0.99;
/// Starts that are further apart, in nanoseconds, are of other seconds.
const ALIGNED_NS: u64 = 250_000_000;
/// Hosts that a line names.
const NAMED: usize = 3;
/// CPUs that are this busy, in percent, hold a host back; those of others have room below.
const BUSY: f64 = 90.0;
const ROOM: f64 = 80.0;
/// Mean latency over that of the others that is a reason.
const LONGER: f64 = 1.15;

/// Rates of the whole seconds of a result, the first ones.
pub(super) fn rates(result: &RunResult) -> Vec<f32> {
    let width = result.intervals.first().map_or(1.0, |row| row.seconds);
    let whole = result.intervals.iter().take_while(|row| row.seconds >= WHOLE * width);
    whole.take(SECONDS_MAX).map(|row| row.iops as f32).collect()
}

/// M04: hosts with the same work have the same rate, but for noise. Notes those that have not.
/// `None` for a single host.
pub(super) fn judge(hosts: &mut [Host], common: &CommonWindow) -> Option<Check> {
    let check = |verdict, words: String| Some(Check::new("M04", "even-hosts", verdict, words));
    if hosts.len() < 2 {
        return None;
    }
    if common.start_skew_ns > ALIGNED_NS {
        return check(Verdict::Unknown, "the hosts did not begin together".to_owned());
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for at in 0..hosts.len() {
        // A host that was lost has too few seconds.
        if hosts[at].row.partial.is_some() {
            continue;
        }
        let alike = |group: &&mut Vec<usize>| hosts[group[0]].costs.is_same_work(&hosts[at].costs);
        match groups.iter_mut().find(alike) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    let (mut compared, mut named) = (0, Vec::new());
    for group in groups {
        let rates: Vec<&[f32]> = group.iter().map(|at| &hosts[*at].rates[..]).collect();
        let Some(found) = apart(&rates) else { continue };
        compared += group.len();
        for one in found {
            let at = group[one.host];
            let others = group.iter().filter(|other| **other != at).map(|other| &hosts[*other]);
            let why = why(&hosts[at], &others.collect::<Vec<_>>(), one.off);
            let (off_percent, noise_percent) = (100.0 * one.off, 100.0 * one.noise);
            named.push((hosts[at].row.name.clone(), off_percent, why.clone()));
            hosts[at].row.apart = Some(HostApart { off_percent, noise_percent, why });
        }
    }
    if compared == 0 {
        let words = "no two hosts have the same work and five seconds in common".to_owned();
        return check(Verdict::Unknown, words);
    }
    if named.is_empty() {
        let words =
            format!("the rates of {compared} hosts with the same work differ by noise only");
        return check(Verdict::Pass, words);
    }
    let line = |(name, off, why): &(String, f64, String)| {
        let than = if *off < 0.0 { "slower" } else { "faster" };
        format!("{name} is {:.0} % {than} than the others: {why}", off.abs())
    };
    let more = named.len().saturating_sub(NAMED);
    let shown: Vec<String> = named.iter().take(NAMED).map(line).collect();
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    check(Verdict::Warn, format!("{}{more}", shown.join("; ")))
}

/// The likely reason why a host is apart.
fn why(host: &Host, others: &[&Host], off: f64) -> String {
    if off > 0.0 {
        return "no reason is known".to_owned();
    }
    let bad = |check: &&Check| check.verdict == Verdict::Fail || check.verdict == Verdict::Warn;
    let fails =
        |other: &&&Host, code: &str| other.checks.iter().filter(bad).any(|c| c.code == code);
    let own = host.checks.iter().filter(bad);
    let mut own = own.filter(|check| {
        let alike = others.iter().filter(|other| fails(other, &check.code)).count();
        2 * alike < others.len()
    });
    let of = |figure: fn(&HostResult) -> Option<f64>| {
        let all: Vec<f64> = others.iter().filter_map(|other| figure(&other.row)).collect();
        Some((figure(&host.row)?, median(all)))
    };
    let cpu = |row: &HostResult| row.cpu_percent;
    if let Some((busy, rest)) = of(cpu).filter(|(busy, rest)| *busy >= BUSY && *rest < ROOM) {
        return format!("its CPUs are {busy:.0} % busy, those of the others {rest:.0} %");
    }
    if host.row.errors > 0 && others.iter().all(|other| other.row.errors == 0) {
        return format!("{} of its I/Os failed", host.row.errors);
    }
    if let Some(check) = own.next() {
        return format!("{} ({})", check.evidence, check.code);
    }
    let mean = |row: &HostResult| row.latency_ns.mean.filter(|mean| *mean > 0.0);
    match of(mean).filter(|(own, rest)| *own > LONGER * rest) {
        Some((own, rest)) => {
            let times = own / rest;
            format!("its I/Os take {times:.1} times as long, so its way to the storage may differ")
        }
        None => "no reason is known".to_owned(),
    }
}

/// Finds the hosts that are apart, the furthest first. `rates` has the seconds of each, in the same
/// order of time. `None` if there is too little to tell.
pub(crate) fn apart(rates: &[&[f32]]) -> Option<Vec<Apart>> {
    let seconds = rates.iter().map(|of| of.len()).min()?.min(SECONDS_MAX);
    if rates.len() < 2 || seconds < SECONDS_MIN {
        return None;
    }
    // A second without an I/O is a small rate: its logarithm is finite.
    let logs = rates.iter().map(|of| -> Vec<f64> {
        of[..seconds].iter().map(|rate| f64::from(*rate).max(LEAST_RATE).ln()).collect()
    });
    let mut left: Vec<(usize, Vec<f64>)> = logs.enumerate().collect();
    let limit = 1.0 / FALSE_ALARMS / rates.len() as f64;
    let mut found = Vec::new();
    // Most hosts are the rule.
    while found.len() < rates.len() / 2 && left.len() > 1 {
        let sums: Vec<f64> =
            (0..seconds).map(|at| left.iter().map(|(_, logs)| logs[at]).sum()).collect();
        let others = (left.len() - 1) as f64;
        let mean = |(_, logs): &(usize, Vec<f64>)| {
            let off = logs.iter().zip(&sums).map(|(own, sum)| own - (sum - own) / others);
            Mean::of(&off.collect::<Vec<f64>>())
        };
        let means: Vec<Mean> = left.iter().map(mean).collect();
        // The slower one of two hosts is named.
        let far = |mean: &Mean| if left.len() == 2 { -mean.mean } else { mean.mean.abs() };
        let furthest =
            (0..means.len()).max_by(|a, b| far(&means[*a]).total_cmp(&far(&means[*b])))?;
        let mean = means[furthest];
        if mean.mean.abs() < SHARE_MIN || !mean.is_beyond(limit) || !is_alone(&means, furthest) {
            break;
        }
        let (host, _) = left.swap_remove(furthest);
        let (off, noise) = (mean.mean.exp_m1(), mean.noise(limit));
        found.push(Apart { host, off, noise });
    }
    Some(found)
}

/// Smallest rate that counts, in I/Os per second.
const LEAST_RATE: f64 = 0.01;

/// Whether a host is further off than the spread of the other hosts explains, where there are
/// enough to know that spread.
fn is_alone(means: &[Mean], host: usize) -> bool {
    if means.len() < SPREAD_OF {
        return true;
    }
    let others = means.iter().enumerate().filter(|(at, _)| *at != host);
    let others: Vec<f64> = others.map(|(_, mean)| mean.mean).collect();
    let middle = median(others.clone());
    let spread = median(others.iter().map(|mean| (mean - middle).abs()).collect()) / MAD;
    (means[host].mean - middle).abs() > DEVIATIONS * spread
}

/// Mean of a series, and how sure it is.
#[derive(Clone, Copy, Debug)]
struct Mean {
    mean: f64,
    /// Standard error of the mean.
    error: f64,
    /// Independent values, less one.
    freedom: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Mean {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let square = |lag: usize| {
            let pairs = values.iter().zip(&values[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>()
        };
        let squares = square(0);
        // Correlation of neighbours, corrected for the bias of a short series.
        let seen = if squares > 0.0 { square(1) / squares } else { 0.0 };
        let unsure = CORRELATION_ERRORS / n.sqrt();
        let correlation = (seen + (1.0 + 4.0 * seen.max(0.0)) / n + unsure).clamp(0.0, 0.95);
        let independent = (n * (1.0 - correlation) / (1.0 + correlation)).max(2.0);
        let variance = squares / (n - 1.0).max(1.0);
        Mean { mean, error: (variance / independent).sqrt(), freedom: independent - 1.0 }
    }

    /// Whether chance puts the mean this far from zero less often than `limit`.
    fn is_beyond(&self, limit: f64) -> bool {
        self.error <= 0.0 || tails(self.mean.abs() / self.error, self.freedom) < limit
    }

    /// The distance that chance exceeds as often as `limit`.
    fn noise(&self, limit: f64) -> f64 {
        let (mut low, mut high) = (0.0, 1e6);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            match tails(middle, self.freedom) < limit {
                true => high = middle,
                false => low = middle,
            }
        }
        high * self.error
    }
}

/// Median of values; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    (values[last / 2] + values[values.len() / 2]) / 2.0
}

#[cfg(test)]
mod test {
    use super::*;

    /// Random numbers of a normal distribution, from a seed.
    struct Normal(u64);

    impl Normal {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            ((mixed ^ (mixed >> 33)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn next(&mut self) -> f64 {
            let (a, b) = (self.uniform().max(1e-300), self.uniform());
            (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        }
    }

    /// Hosts whose seconds have noise of their own, which remembers the second before, and one that
    /// all share. The last host is slower by `slower`.
    fn hosts(
        random: &mut Normal,
        (count, seconds): (usize, usize),
        (noise, memory): (f64, f64),
        slower: f64,
    ) -> Vec<Vec<f32>> {
        let common: Vec<f64> = (0..seconds).map(|_| 1.0 + 0.2 * random.next().abs()).collect();
        let host = |at: usize, random: &mut Normal| {
            let mut held = noise * random.next();
            let factor = if at + 1 == count { 1.0 - slower } else { 1.0 };
            let rate = |common: &f64| {
                held = memory * held + (1.0 - memory * memory).sqrt() * noise * random.next();
                (1000.0 * common * factor * (1.0 + held)).max(0.0) as f32
            };
            common.iter().map(rate).collect::<Vec<f32>>()
        };
        (0..count).map(|at| host(at, random)).collect()
    }

    fn found(hosts: &[Vec<f32>]) -> Vec<Apart> {
        let rates: Vec<&[f32]> = hosts.iter().map(Vec::as_slice).collect();
        apart(&rates).unwrap()
    }

    /// Equal hosts are named in about one of a hundred results, whatever their number, the length
    /// of the run, and the noise: 0.3 % of 1,000 results where seconds are independent, and 4 %
    /// where ten seconds have noise that remembers.
    #[test]
    fn equal_hosts_are_rarely_named() {
        let mut random = Normal(7);
        let (mut alarms, mut all) = (0, 0);
        for count in [2, 3, 6, 24] {
            for seconds in [10, 30, 120] {
                for shape in [(0.02, 0.0), (0.1, 0.0), (0.1, 0.5), (0.3, 0.0), (0.3, 0.7)] {
                    let results = if count == 24 { 40 } else { 120 };
                    let named = (0..results).filter(|_| {
                        !found(&hosts(&mut random, (count, seconds), shape, 0.0)).is_empty()
                    });
                    let named = named.count();
                    assert!(named * 100 <= results * 9, "{count} {seconds} {shape:?}: {named}");
                    (alarms, all) = (alarms + named, all + results);
                }
            }
        }
        assert!(alarms * 100 <= all + all / 2, "{alarms} of {all}");
    }

    /// A host that is a fifth slower than five others is named after ten seconds of 5 % noise, in
    /// three of four results.
    #[test]
    fn a_slower_host_is_named() {
        let mut random = Normal(11);
        let mut named = 0;
        for _ in 0..200 {
            let hosts = hosts(&mut random, (6, 10), (0.05, 0.0), 0.2);
            let found = found(&hosts);
            if let [Apart { host: 5, off, noise }] = found[..] {
                assert!((off + 0.2).abs() < 0.1 && noise < 0.3, "{found:?}");
                named += 1;
            }
        }
        assert!(named >= 140, "{named} of 200");
    }

    #[test]
    fn of_two_hosts_the_slower_one_is_named() {
        let hosts = [vec![1000.0_f32; 10], vec![500.0; 10]];
        let found = found(&hosts);
        assert_eq!((found.len(), found[0].host), (1, 1));
        assert!((found[0].off + 0.5).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn too_little_says_nothing() {
        let few = [vec![1.0_f32; 4], vec![1.0; 9]];
        assert_eq!(apart(&[&few[0], &few[1]]), None);
        assert_eq!(apart(&[&few[1]]), None);
        assert_eq!(apart(&[&[0.0; 9], &[0.0; 9]]), Some(Vec::new()));
    }
}
