//! H22: every worker had its share.
//!
//! A mean over workers of which many are stalled is the mean of the others. Workers that do the
//! same work by design are compared with each other; those that differ by design are not.

use std::collections::BTreeMap;

use super::{Check, Verdict};

/// Minimum share of a worker relative to its peers; a worker below it was held back.
const LEAST_SHARE: f64 = 0.5;
/// Number of square roots of a count of independent I/Os that chance does not exceed.
const DEVIATIONS: f64 = 4.0;
/// Expected number of I/Os, by the rate of its peers, from which on a worker without any is no
/// chance: of 500 workers one such happens once in a million runs.
const SURE_IOS: f64 = 20.0;
/// Time without an I/O that is no chance if no peer worked either, in seconds.
const SURE_SECONDS: f64 = 1.0;
/// Maximum number of listed names.
const LISTED: usize = 3;

/// A worker for the comparison with others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peer {
    /// Name, such as "manager 1 worker 3".
    pub name: String,
    /// URI of the volume.
    pub volume: String,
    /// Target that serves the volume; empty for local storage.
    pub target: String,
    /// Workers with the same number do the same work throughout. `None` for a worker whose own plan
    /// may leave it idle.
    pub group: Option<u32>,
    /// Workers with the same number do the same work, whenever they begin and end.
    pub load: u32,
    /// I/Os completed without a fault.
    pub ios: u64,
    /// Active time, in seconds.
    pub seconds: f64,
    /// Whole seconds in which the worker completed nothing while another worker did.
    pub idle_seconds: u32,
}

impl Peer {
    /// Returns whether the worker did nothing, and it is unknown whether it should have.
    fn is_quiet(&self) -> bool {
        let had_time = self.seconds >= SURE_SECONDS && self.group.is_none();
        self.ios == 0 && (had_time || self.seconds <= 0.0)
    }

    fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.ios as f64 / self.seconds } else { 0.0 }
    }
}

/// H22: no worker starved. A worker that completed nothing while others did makes the result that
/// of fewer workers than it names; a worker with less than half of what its peers did, or with
/// seconds without an I/O, is reported. Every session, volume and target is as even as its workers.
pub fn even(peers: &[Peer]) -> Check {
    let check = |verdict, words: String| Check::new("H22", "even", verdict, words);
    let judged: Vec<&Peer> =
        peers.iter().filter(|peer| peer.group.is_some() && peer.seconds > 0.0).collect();
    if peers.iter().all(|peer| peer.ios == 0) {
        return check(Verdict::Unknown, "no I/O completed".to_owned());
    }
    let found = Found::of(&judged);
    let findings: Vec<(Verdict, String)> =
        [found.starved(peers), found.short(), found.idle()].into_iter().flatten().collect();
    let Some(verdict) = findings.iter().map(|(verdict, _)| *verdict).reduce(Verdict::worse) else {
        let unsure = quiet(peers).or_else(|| short_at_other_times(&judged));
        return match unsure.or_else(|| short_by_own_plans(peers)) {
            None => check(Verdict::Pass, found.passed(peers.len())),
            Some(words) => check(Verdict::Unknown, words),
        };
    };
    let words: Vec<String> = findings.into_iter().map(|(_, words)| words).collect();
    check(verdict, words.join("; "))
        .mend("--seconds 30 --ramp 10 (excludes workers that only start late)")
        .mend("--outstanding 1 (fewer I/Os in flight separate the volume from its queue)")
}

/// Returns the workers that did nothing, if it is unknown whether they should have.
fn quiet(peers: &[Peer]) -> Option<String> {
    let mut quiet = peers.iter().filter(|peer| peer.is_quiet());
    let (first, more) = (quiet.next()?, quiet.count());
    let words = "completed no I/O, which their settings may allow";
    Some(format!("{} of {} workers ({}) {words}", more + 1, peers.len(), first.name))
}

/// Returns a worker that did less than half of what others did with the same load at other times:
/// its conditions may have been worse.
fn short_at_other_times(judged: &[&Peer]) -> Option<String> {
    let mut loads: BTreeMap<u32, Vec<&Peer>> = BTreeMap::new();
    judged.iter().for_each(|peer| loads.entry(peer.load).or_default().push(peer));
    loads.retain(|_, alike| alike.iter().any(|peer| peer.group != alike[0].group));
    loads.values().find_map(|alike| {
        let (short, fair) = short_of(alike)?;
        Some(format!(
            "{} did {:.0} IOPS, others with the same load {fair:.0} at other times: it is not \
            known whether it had its share",
            short.name,
            short.rate(),
        ))
    })
}

/// A worker that did less than half of what others did with the same load, whose plan (a limit,
/// pauses, a search) may be why.
fn short_by_own_plans(peers: &[Peer]) -> Option<String> {
    let mut loads: BTreeMap<u32, Vec<&Peer>> = BTreeMap::new();
    let planned = peers.iter().filter(|peer| peer.group.is_none() && peer.seconds > 0.0);
    planned.for_each(|peer| loads.entry(peer.load).or_default().push(peer));
    loads.values().find_map(|alike| {
        let (short, fair) = short_of(alike)?;
        Some(format!(
            "{} did {:.0} IOPS, others of the same load {fair:.0}: their own plans may allow it",
            short.name,
            short.rate(),
        ))
    })
}

/// Returns the first worker with less than half of its expected I/Os, and the expected rate, by the
/// rate of all.
fn short_of<'a>(alike: &[&'a Peer]) -> Option<(&'a Peer, f64)> {
    let fair = fair_rate(alike);
    let short = alike.iter().find(|peer| {
        let (done, expected) = (peer.ios as f64, fair * peer.seconds);
        let by_chance = expected - done <= DEVIATIONS * expected.sqrt();
        done < LEAST_SHARE * expected && !by_chance
    })?;
    Some((*short, fair))
}

/// Workers that deviate.
struct Found<'a> {
    judged: &'a [&'a Peer],
    starved: Vec<&'a Peer>,
    /// True if it is no chance that one of them completed nothing.
    sure: bool,
    short: Vec<&'a Peer>,
    /// Minimum share relative to peers, and the worker that had it.
    least: Option<(f64, &'a Peer)>,
    idle: Vec<&'a Peer>,
}

impl<'a> Found<'a> {
    fn of(judged: &'a [&'a Peer]) -> Found<'a> {
        let mut groups: BTreeMap<u32, Vec<&Peer>> = BTreeMap::new();
        for peer in judged {
            groups.entry(peer.group.unwrap_or_default()).or_default().push(peer);
        }
        let (starved, short, idle) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Found { judged, starved, sure: false, short, least: None, idle };
        groups.values().for_each(|group| found.compare(group));
        found
    }

    /// Compares equal workers with each other.
    fn compare(&mut self, group: &[&'a Peer]) {
        let fair = fair_rate(group);
        for peer in group {
            let expected = fair * peer.seconds;
            if peer.ios == 0 {
                self.starved.push(peer);
                self.sure |= match fair > 0.0 {
                    true => expected >= SURE_IOS,
                    false => peer.seconds >= SURE_SECONDS,
                };
                continue;
            }
            let (done, share) = (peer.ios as f64, peer.ios as f64 / expected.max(1e-9));
            if group.len() > 1 && self.least.is_none_or(|(least, _)| share < least) {
                self.least = Some((share, peer));
            }
            let by_chance = expected - done <= DEVIATIONS * expected.sqrt();
            if group.len() > 1 && share < LEAST_SHARE && !by_chance {
                self.short.push(peer);
            } else if peer.idle_seconds > 0 && fair.max(peer.rate()) >= SURE_IOS {
                self.idle.push(peer);
            }
        }
    }

    fn starved(&self, peers: &[Peer]) -> Option<(Verdict, String)> {
        let first = self.starved.first()?;
        let verdict = if self.sure { Verdict::Fail } else { Verdict::Warn };
        let few = if self.sure { "" } else { " (this may be chance, as there were few I/Os)" };
        let words = format!(
            "{} of {} workers completed no I/O in {:.1} s{few}: {}; rate and latencies are those \
            of the others",
            self.starved.len(),
            peers.len(),
            first.seconds,
            names(&self.starved, self.judged),
        );
        Some((verdict, words))
    }

    fn short(&self) -> Option<(Verdict, String)> {
        let (share, least) = self.least.filter(|_| !self.short.is_empty())?;
        let words = format!(
            "{} of {} equal workers did less than half the median, minimum {:.1} % ({}, {:.0} \
            IOPS): {}",
            self.short.len(),
            self.judged.len(),
            share * 100.0,
            least.name,
            least.rate(),
            names(&self.short, self.judged),
        );
        Some((Verdict::Warn, words))
    }

    fn idle(&self) -> Option<(Verdict, String)> {
        let most = self.idle.iter().max_by_key(|peer| peer.idle_seconds)?;
        let words = format!(
            "{} of {} workers completed no I/O for whole seconds while others did, at most {} of \
            {:.0} s ({}): {}",
            self.idle.len(),
            self.judged.len(),
            most.idle_seconds,
            most.seconds,
            most.name,
            names(&self.idle, self.judged),
        );
        Some((Verdict::Warn, words))
    }

    fn passed(&self, all: usize) -> String {
        let differ = match all - self.judged.len() {
            0 => String::new(),
            some => format!("; {some} that differ by design are not compared"),
        };
        match self.least {
            Some((share, _)) => format!(
                "{} equal workers, the slowest did {:.0} % of the median (at least 50){differ}",
                self.judged.len(),
                share * 100.0,
            ),
            None => format!("no equal workers to compare, none stalled{differ}"),
        }
    }
}

/// Returns the expected rate of each of equal workers: the median, or the mean, which is greater if
/// many workers starve.
fn fair_rate(group: &[&Peer]) -> f64 {
    let mut rates: Vec<f64> = group.iter().map(|peer| peer.rate()).collect();
    rates.sort_by(f64::total_cmp);
    let count = rates.len();
    let median = (rates[(count - 1) / 2] + rates[count / 2]) / 2.0;
    median.max(rates.iter().sum::<f64>() / count as f64)
}

/// Returns the names of `some`, or the target or volume that consists of exactly these workers.
fn names(some: &[&Peer], all: &[&Peer]) -> String {
    let whole = |of: fn(&Peer) -> &str, word: &str| {
        let place = of(some.first()?);
        let is_whole = !place.is_empty()
            && some.iter().all(|peer| of(peer) == place)
            && all.iter().filter(|peer| of(peer) == place).count() == some.len()
            && some.len() < all.len();
        is_whole.then(|| format!("all workers of {word} {place}"))
    };
    let place = whole(|peer| &peer.target, "target").or_else(|| whole(|p| &p.volume, "volume"));
    if let Some(place) = place {
        return place;
    }
    let listed: Vec<&str> = some.iter().take(LISTED).map(|peer| &*peer.name).collect();
    match some.len().saturating_sub(LISTED) {
        0 => listed.join(", "),
        more => format!("{}, … and {more} more", listed.join(", ")),
    }
}

#[cfg(test)]
mod test {
    use block::Rng;

    use super::*;

    fn peers(ios: &[u64]) -> Vec<Peer> {
        let peer = |(number, ios): (usize, &u64)| Peer {
            name: format!("worker {}", number + 1),
            volume: format!("nvme+tcp://h/{}", number / 2),
            target: format!("t{}", number / 2),
            group: Some(0),
            load: 0,
            ios: *ios,
            seconds: 3.0,
            idle_seconds: if *ios == 0 { 3 } else { 0 },
        };
        ios.iter().enumerate().map(peer).collect()
    }

    /// H22 detects: 314 of 500 sessions complete no I/O.
    /// H22 accepts: all 500 sessions have their share.
    #[test]
    fn starved_sessions_are_never_silent() {
        // 314 of 500 sessions completed nothing in three seconds.
        let ios: Vec<u64> = (0..500).map(|n| if n % 500 < 314 { 0 } else { 3000 }).collect();
        let check = even(&peers(&ios));
        assert_eq!(check.verdict, Verdict::Fail, "{check:?}");
        assert!(
            check.evidence.contains("314 of 500 workers completed no I/O in 3.0 s"),
            "{check:?}"
        );
        assert!(check.evidence.contains("worker 1, worker 2, worker 3, … and 311"), "{check:?}");
        assert!(!check.mend.is_empty());
        // All had their share.
        let check = even(&peers(&[2900; 500]));
        assert_eq!(check.verdict, Verdict::Pass, "{check:?}");
        // Slow workers of which some were not served yet: reported, and no verdict on the rate.
        assert_eq!(even(&peers(&[2, 3, 0, 4, 2, 3])).verdict, Verdict::Warn);
        assert_eq!(even(&peers(&[0; 3])).verdict, Verdict::Unknown);
    }

    #[test]
    fn a_target_that_was_silent_is_named() {
        let check = even(&peers(&[500, 510, 0, 0, 490, 500]));
        assert!(check.evidence.contains("all workers of target t1"), "{check:?}");
        let mut local = peers(&[500, 510, 0, 0, 490, 500]);
        local.iter_mut().for_each(|peer| peer.target.clear());
        assert!(even(&local).evidence.contains("all workers of volume nvme+tcp://h/1"));
    }

    /// H22 detects: two workers with a rate limit above the volume's rate, one of them starved.
    /// H22 accepts: two workers with a rate limit, both served.
    #[test]
    fn a_limit_does_not_hide_a_starved_worker() {
        let mut limited = peers(&[150, 60_000]);
        limited.iter_mut().for_each(|peer| peer.group = None);
        let check = even(&limited);
        assert_eq!(check.verdict, Verdict::Unknown, "{check:?}");
        assert!(check.evidence.contains("worker 1 did 50 IOPS, others of the same load"));
        limited[1].load = 1;
        assert_eq!(even(&limited).verdict, Verdict::Pass, "other loads");
        let mut both = peers(&[40_000, 60_000]);
        both.iter_mut().for_each(|peer| peer.group = None);
        assert_eq!(even(&both).verdict, Verdict::Pass);
    }

    /// H22 detects: a volume at 50 IOPS next to one at 20,000.
    /// H22 accepts: workers with different workloads.
    #[test]
    fn a_small_share_is_said() {
        // One volume at 50 IOPS next to one at 20,000.
        let check = even(&peers(&[150, 60_000]));
        assert_eq!(check.verdict, Verdict::Warn, "{check:?}");
        assert!(check.evidence.contains("worker 1, 50 IOPS"), "{check:?}");
        assert_eq!(even(&peers(&[10_000, 10_000, 5_001, 10_000])).verdict, Verdict::Pass);
        assert_eq!(even(&peers(&[10_000, 10_000, 4_900, 10_000])).verdict, Verdict::Warn);
        // The workers with the smallest shares are the majority.
        assert_eq!(even(&peers(&[1000, 1000, 1000, 90_000])).verdict, Verdict::Warn);
        // Workers differ by design: no share is fair. Neither is one of a worker that may have
        // nothing to do.
        let mut differ = peers(&[150, 60_000]);
        (differ[1].group, differ[1].load) = (Some(1), 1);
        assert_eq!(even(&differ).verdict, Verdict::Pass);
        differ[0].ios = 0;
        assert_eq!(even(&differ).verdict, Verdict::Fail, "it had something to do");
        differ[0].group = None;
        assert_eq!(even(&differ).verdict, Verdict::Unknown, "its plan may allow it");
        differ[0].ios = 1;
        let check = even(&differ);
        assert_eq!(check.verdict, Verdict::Pass);
        assert!(check.evidence.contains("1 that differ"), "{check:?}");
    }

    /// H22 detects: the volume at 50 IOPS starts a moment later than the other volume.
    #[test]
    fn who_begins_later_is_not_out_of_sight() {
        let mut late = peers(&[150, 60_000]);
        late[0].group = Some(1);
        let check = even(&late);
        assert_eq!(check.verdict, Verdict::Unknown, "{check:?}");
        assert!(check.evidence.starts_with("worker 1 did 50 IOPS"), "{check:?}");
        late[0].ios = 0;
        assert_eq!(even(&late).verdict, Verdict::Fail);
        late[0] = Peer { ios: 40_000, ..late[0].clone() };
        assert_eq!(even(&late).verdict, Verdict::Pass);
        // The worker's time never came.
        (late[0].seconds, late[0].ios) = (0.0, 0);
        assert_eq!(even(&late).verdict, Verdict::Unknown);
    }

    /// H22 detects: a worker has a second without an I/O, and others do not.
    /// H22 accepts: a second without an I/O by chance, at five I/Os a second.
    #[test]
    fn seconds_without_an_io_are_said() {
        let mut some = peers(&[30_000, 29_000]);
        some[1].idle_seconds = 1;
        let check = even(&some);
        assert_eq!(check.verdict, Verdict::Warn, "{check:?}");
        assert!(check.evidence.contains("at most 1 of 3 s (worker 2)"), "{check:?}");
        // Workers with five I/Os a second have seconds without one by chance.
        let mut slow = peers(&[15, 16]);
        slow[1].idle_seconds = 1;
        assert_eq!(even(&slow).verdict, Verdict::Pass);
    }

    /// Honest workers with independent I/Os raise no alarm, few or many.
    /// H22 accepts: a thousand runs of 50 workers with Poisson counts.
    #[test]
    fn chance_alone_raises_no_alarm() {
        let mut rng = Rng::new(7, 1);
        for run in 0..1000_u64 {
            let mean = [1, 5, 20, 50, 300][run as usize % 5];
            let mut draw = || {
                // A Poisson count, drawn by its gaps.
                let (mut at, mut count) = (0.0_f64, 0);
                loop {
                    at -= (1.0 - (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64).ln();
                    if at > f64::from(mean) {
                        return count;
                    }
                    count += 1;
                }
            };
            let ios: Vec<u64> = (0..50).map(|_| draw()).collect();
            let check = even(&peers(&ios));
            if mean >= 20 {
                assert_eq!(check.verdict, Verdict::Pass, "run {run}: {check:?} {ios:?}");
            } else {
                assert_ne!(check.verdict, Verdict::Fail, "run {run}: {check:?} {ios:?}");
            }
        }
    }
}
