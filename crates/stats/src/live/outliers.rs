//! Hosts that are slower than the others while they measure: by the test that judges the result,
//! asked rarely, as each question is another chance of a false alarm.

use std::collections::BTreeMap;

use super::{HostSecond, Phase, Snapshot};
use crate::merge::apart;

/// Seconds after which hosts are compared first. Each later comparison has twice as many.
const FIRST: usize = 10;
/// Hosts that are named.
const NAMED: usize = 3;
/// CPUs that are this busy, in percent, hold a host back; those of others have room below.
const BUSY: f64 = 90.0;
const ROOM: f64 = 80.0;
/// Mean latency over that of the others that is a reason.
const LONGER: f64 = 1.15;

/// Whole seconds of hosts that measure.
#[derive(Debug, Default)]
pub struct Outliers {
    hosts: BTreeMap<String, Course>,
    /// Seconds at the last comparison.
    compared: usize,
    words: Vec<String>,
}

/// Seconds of a host.
#[derive(Debug, Default)]
struct Course {
    rates: Vec<f32>,
    /// Beginning of the last of them.
    t_s: f64,
    errors: u64,
    cpu_percent: Option<f64>,
    mean_ns: Option<f64>,
}

impl Outliers {
    /// Takes a second of a host, once.
    pub fn add(&mut self, name: &str, second: &HostSecond) {
        if second.phase != Phase::Run {
            return;
        }
        if !self.hosts.contains_key(name) {
            self.hosts.insert(name.to_owned(), Course::default());
        }
        let Some(course) = self.hosts.get_mut(name) else { return };
        if second.t_s <= course.t_s || course.rates.len() == apart::SECONDS_MAX {
            return;
        }
        course.t_s = second.t_s;
        course.rates.push(second.iops as f32);
        course.errors = second.errors;
        course.cpu_percent = second.host_percent;
        course.mean_ns = second.latency_ns.mean;
    }

    /// Takes the second of this host.
    pub fn add_own(&mut self, name: &str, second: &Snapshot) {
        self.add(name, &HostSecond { buckets: Default::default(), ..HostSecond::of(second) });
    }

    /// Forgets a host that is lost.
    pub fn forget(&mut self, name: &str) {
        self.hosts.remove(name);
    }

    /// Hosts that are slower than the others by more than noise, with the likely reason, as of the
    /// last comparison.
    pub fn words(&mut self) -> &[String] {
        let seconds = self.hosts.values().map(|of| of.rates.len()).min().unwrap_or(0);
        if seconds >= (2 * self.compared).max(FIRST) {
            self.compared = seconds;
            self.words = self.compare(seconds);
        }
        &self.words
    }

    fn compare(&self, seconds: usize) -> Vec<String> {
        let all: Vec<(&String, &Course)> = self.hosts.iter().collect();
        let rates: Vec<&[f32]> = all.iter().map(|(_, of)| &of.rates[..seconds]).collect();
        let found = apart::apart(&rates).unwrap_or_default();
        let slow = found.iter().filter(|one| one.off < 0.0).take(NAMED);
        let words = slow.map(|one| {
            let (name, host) = all[one.host];
            let others = all.iter().map(|(_, of)| *of).filter(|of| !std::ptr::eq(*of, host));
            let why = why(host, &others.collect::<Vec<_>>());
            format!("{name} is {:.0} % slower than the others: {why}", -100.0 * one.off)
        });
        words.collect()
    }
}

/// The likely reason why a host is slower.
fn why(host: &Course, others: &[&Course]) -> String {
    let of = |figure: fn(&Course) -> Option<f64>| {
        let rest: Vec<f64> = others.iter().filter_map(|other| figure(other)).collect();
        Some((figure(host)?, apart::median(rest)))
    };
    if let Some((busy, rest)) = of(|of| of.cpu_percent).filter(|of| of.0 >= BUSY && of.1 < ROOM) {
        return format!("its CPUs are {busy:.0} % busy, those of the others {rest:.0} %");
    }
    if host.errors > 0 && others.iter().all(|other| other.errors == 0) {
        return format!("{} of its I/Os failed", host.errors);
    }
    match of(|of| of.mean_ns).filter(|(own, rest)| *rest > 0.0 && *own > LONGER * rest) {
        Some((own, rest)) => format!("its I/Os take {:.1} times as long", own / rest),
        None => "no reason is known".to_owned(),
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::histogram::Latency;

    fn second(t_s: f64, iops: f64, mean: f64) -> HostSecond {
        let latency_ns = Latency { mean: Some(mean), ..Latency::default() };
        HostSecond { phase: Phase::Run, t_s, iops, latency_ns, ..HostSecond::default() }
    }

    /// Noise of a few percent, different in each second and host.
    fn noise(host: u64, t: u64) -> f64 {
        let mixed = (host * 1000 + t).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        0.97 + 0.06 * ((mixed >> 40) as f64 / (1_u64 << 24) as f64)
    }

    fn after(seconds: u64, slow: f64) -> Outliers {
        let mut outliers = Outliers::default();
        for t in 1..=seconds {
            for host in 0..4 {
                let factor = if host == 2 { slow } else { 1.0 };
                let rate = 1000.0 * factor * noise(host, t);
                outliers.add(&format!("h{host}"), &second(t as f64, rate, 1e6 / factor));
            }
            outliers.words();
        }
        outliers
    }

    #[test]
    fn a_slower_host_is_named_during_the_run() {
        assert!(after(9, 0.5).words().is_empty());
        let mut outliers = after(10, 0.5);
        let words = outliers.words();
        assert_eq!(words.len(), 1, "{words:?}");
        assert!(words[0].starts_with("h2 is 5") && words[0].contains("2.0 times as long"));
        // The next question is at 20 seconds.
        assert_eq!(after(19, 0.5).compared, 10);
        assert_eq!(after(21, 0.5).compared, 20);
    }

    #[test]
    fn equal_hosts_are_not_named() {
        for seconds in [10, 20, 40, 80] {
            assert!(after(seconds, 1.0).words().is_empty(), "{seconds}");
        }
    }

    #[test]
    fn a_second_counts_once_and_a_lost_host_not_at_all() {
        let mut outliers = after(10, 0.5);
        outliers.add("h0", &second(10.0, 5.0, 1.0));
        outliers.add("h0", &HostSecond { phase: Phase::Drain, ..second(11.0, 5.0, 1.0) });
        assert_eq!(outliers.hosts["h0"].rates.len(), 10);
        outliers.forget("h2");
        outliers.compared = 0;
        assert!(outliers.words().is_empty());
    }
}
