//! Honesty checks: numbers in, a verdict and its evidence out.
//!
//! Whoever runs a job gathers the numbers; nothing here looks at a host. What could not be
//! gathered is [`Verdict::Unknown`], never a pass.

use serde::{Deserialize, Serialize};

use crate::histogram::supports;
use crate::run::Totals;

mod block_layer;
mod ceiling;
mod counters;
mod direct_io;
mod existence;
mod host;
mod little;
mod steady;
mod together;

pub use block_layer::{Asked, Disk, Merged, Merges, Queue, block_layer};
pub use ceiling::{Ceiling, generator_ceiling};
pub use counters::{Counted, counters_agree};
pub use direct_io::{Beneath, Opened, direct_io};
pub use existence::{Existence, Readable, data_exists};
pub(crate) use host::stopped_s;
pub use host::{Window, clock, repeats};
pub(crate) use little::Seconds;
pub use little::{Flow, Flows, littles_law};
pub use steady::steady_state;

/// What a check came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Pass,
    /// The number stands, with a reservation that must be read along with it.
    Warn,
    /// The number is wrong or means something else.
    Fail,
    /// Could not be checked.
    #[default]
    Unknown,
}

impl Verdict {
    /// Of two, the one that says more against a result.
    pub fn worse(self, other: Verdict) -> Verdict {
        if other.rank() > self.rank() { other } else { self }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
            Verdict::Unknown => "unknown",
        }
    }

    fn rank(self) -> u8 {
        match self {
            Verdict::Pass => 0,
            Verdict::Unknown => 1,
            Verdict::Warn => 2,
            Verdict::Fail => 3,
        }
    }
}

/// How far to believe a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Every check that a published number needs was made and passed.
    Publishable,
    /// Nothing is known to be wrong.
    #[default]
    Indicative,
    /// A check failed.
    Invalid,
}

/// Checks that a published number needs: without one of them it is indicative at best.
const NEEDED: [&str; 7] = ["H06", "H10", "H11", "H12", "H13", "H20", "H21"];

impl Class {
    /// A failed check makes a result invalid. It is publishable when every needed check was made
    /// and nothing warned or stayed unknown.
    pub fn of(checks: &[Check]) -> Class {
        Class::of_verdicts(checks.iter().map(|check| (check.code.as_str(), check.verdict)))
    }

    /// The same of verdicts, each with the number of its check.
    pub fn of_verdicts<'a>(verdicts: impl Iterator<Item = (&'a str, Verdict)> + Clone) -> Class {
        let all = || verdicts.clone().map(|(_, verdict)| verdict);
        if all().any(|verdict| verdict == Verdict::Fail) {
            return Class::Invalid;
        }
        let made = |needed| verdicts.clone().any(|(code, _)| code == needed);
        let clean = all().all(|verdict| verdict == Verdict::Pass);
        if clean && NEEDED.into_iter().all(made) { Class::Publishable } else { Class::Indicative }
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Class::Publishable => "publishable",
            Class::Indicative => "indicative",
            Class::Invalid => "invalid",
        }
    }
}

/// One honesty check and what it came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its number: "H11".
    pub code: String,
    /// Its name: "littles-law".
    pub name: String,
    /// What it came to.
    pub verdict: Verdict,
    /// The arithmetic, in words.
    pub evidence: String,
    /// Commands that mend it, where there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mend: Vec<String>,
}

impl Check {
    /// A check with its verdict.
    pub fn new(code: &str, name: &str, verdict: Verdict, evidence: impl Into<String>) -> Check {
        let (code, name) = (code.into(), name.into());
        Check { code, name, verdict, evidence: evidence.into(), mend: Vec::new() }
    }

    /// The same with a command that mends it, each said once.
    #[must_use]
    pub fn mend(mut self, command: impl Into<String>) -> Check {
        let command = command.into();
        if !self.mend.contains(&command) {
            self.mend.push(command);
        }
        self
    }
}

/// Percentiles that a result shows, with their names.
const SHOWN: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// H12: percentiles rest on enough samples. Those that do not are withheld, and a result that
/// cannot even show p99 is warned about.
pub fn percentiles_supported(samples: u64) -> Check {
    let withheld: Vec<&str> =
        SHOWN.into_iter().filter(|(p, _)| !supports(samples, *p)).map(|(_, name)| name).collect();
    let verdict = if supports(samples, 0.99) { Verdict::Pass } else { Verdict::Warn };
    let shown = if withheld.is_empty() {
        "every percentile has at least 100 samples above it".to_owned()
    } else {
        format!("withheld for want of 100 samples above them: {}", withheld.join(", "))
    };
    let evidence = format!("{samples} samples; {shown}; merged histograms, error at most 0.78 %");
    Check::new("H12", "percentiles-supported", verdict, evidence)
}

/// With more failed I/Os than this share, the rate is that of a broken volume.
const FAILED_PERCENT: f64 = 1.0;

/// H21: I/Os succeeded. Those that fail are in no rate and in no latency, yet they take their part
/// of what may be outstanding.
pub fn ios_succeeded(totals: &Totals) -> Check {
    let all = totals.ios + totals.errors;
    let percent = totals.errors as f64 / all.max(1) as f64 * 100.0;
    let verdict = match totals.errors {
        _ if all == 0 => Verdict::Unknown,
        0 => Verdict::Pass,
        _ if percent <= FAILED_PERCENT => Verdict::Warn,
        _ => Verdict::Fail,
    };
    let evidence = match all {
        0 => "no I/O ended in the measured window".to_owned(),
        _ => format!(
            "{} of {all} I/Os failed, {percent:.2} % (at most {FAILED_PERCENT:.0}); no rate and no \
             latency counts them",
            totals.errors
        ),
    };
    Check::new("H21", "ios-succeeded", verdict, evidence)
}

/// Stolen time above this share of the window is not ours.
const STEAL_PERCENT: f64 = 1.0;

/// H13: the processor was ours. `steal_percent` is the share of the window (0 to 100) that the
/// hypervisor gave to others; `throttled` is how often a CPU quota stopped us. `None` where not
/// known.
pub fn cpu_was_ours(steal_percent: Option<f64>, throttled: Option<u64>) -> Check {
    let check = |verdict, evidence| Check::new("H13", "cpu-was-ours", verdict, evidence);
    let Some(steal) = steal_percent else {
        return check(Verdict::Unknown, "stolen time was not measured".into());
    };
    let quota = match throttled {
        Some(times) => format!("throttled {times} times"),
        None => "throttling not known".to_owned(),
    };
    let bad = steal > STEAL_PERCENT || throttled.is_some_and(|times| times > 0);
    let evidence = format!("{steal:.2} % stolen by the hypervisor (at most 1), {quota}");
    check(if bad { Verdict::Warn } else { Verdict::Pass }, evidence)
}

/// Others may use this share of the host's processor time.
const OTHERS_PERCENT: f64 = 10.0;

/// H17: nobody else used the host. `host_percent` is how busy all `cores` were, `ours` how many of
/// them our threads used, at both ends. `None` where one end's share is not known.
pub fn nobody_else(host_percent: Option<f64>, ours: Option<f64>, cores: u32) -> Check {
    let check = |verdict, evidence| Check::new("H17", "nobody-else", verdict, evidence);
    let (Some(host), Some(ours), true) = (host_percent, ours, cores > 0) else {
        return check(Verdict::Unknown, "what others used was not measured".to_owned());
    };
    let others = (host - ours / f64::from(cores) * 100.0).max(0.0);
    let verdict = if others > OTHERS_PERCENT { Verdict::Warn } else { Verdict::Pass };
    let evidence = format!("{others:.0} % of the host went to others or interrupts (at most 10)");
    check(verdict, evidence)
}

/// A schedule may be missed by this share of the median response time.
const LAG_SHARE: f64 = 0.05;

/// H09: no coordinated omission. Of an open loop: how far actual starts were behind planned ones,
/// against its median response time. Response times count the lag, so they are right even where
/// this warns; but the load was not the one that was planned.
pub fn schedule_kept(totals: &Totals) -> Option<Check> {
    let paced = totals.paced.as_ref()?;
    let check = |verdict, evidence| Some(Check::new("H09", "schedule-kept", verdict, evidence));
    let (Some(lag), Some(median)) =
        (paced.lag_ns.p99_9.or(paced.lag_ns.max), totals.latency_ns.p50)
    else {
        return check(Verdict::Unknown, "too few samples".to_owned());
    };
    let share = lag as f64 / median as f64;
    let verdict = match share > LAG_SHARE || paced.missed > 0 {
        true => Verdict::Warn,
        false => Verdict::Pass,
    };
    let evidence = format!(
        "99.9 % began at most {:.1} µs late, {:.1} % of the median response (at most 5); {} late \
         for want of outstanding I/Os",
        lag as f64 / 1e3,
        share * 100.0,
        paced.missed,
    );
    check(verdict, evidence)
}

/// What lay between initiator and target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wire {
    /// Nothing: the storage is local.
    None,
    /// Both were one host.
    Loopback,
    /// A network, with the share of segments that were sent again (0 to 100) where known.
    Network {
        /// Segments sent again, 0 to 100.
        retransmitted_percent: Option<f64>,
    },
}

/// More segments sent again than this share are a broken network.
const RETRANSMITTED_PERCENT: f64 = 0.01;

/// H19: what the wire was. Loopback is no wire, and a result must say so.
pub fn wire(wire: Wire) -> Check {
    let check = |verdict, evidence: String| Check::new("H19", "wire", verdict, evidence);
    match wire {
        Wire::None => check(Verdict::Pass, "local storage, no wire".into()),
        Wire::Loopback => check(
            Verdict::Warn,
            "loopback: initiator and target share one host and its cores, no wire was measured"
                .into(),
        ),
        Wire::Network { retransmitted_percent: None } => {
            check(Verdict::Unknown, "retransmissions were not measured".into())
        }
        Wire::Network { retransmitted_percent: Some(percent) } => {
            let bad = percent > RETRANSMITTED_PERCENT;
            let evidence = format!("{percent:.4} % of segments sent again (at most 0.01)");
            check(if bad { Verdict::Warn } else { Verdict::Pass }, evidence)
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::histogram::Latency;
    use crate::run::PacedTotals;

    #[test]
    fn others_are_noticed() {
        let verdict = |host, ours| nobody_else(host, ours, 2).verdict;
        assert_eq!(verdict(Some(100.0), Some(1.95)), Verdict::Pass);
        assert_eq!(verdict(Some(99.0), Some(1.03)), Verdict::Warn);
        assert_eq!(verdict(Some(50.0), Some(1.2)), Verdict::Pass);
        assert_eq!(verdict(Some(50.0), None), Verdict::Unknown);
        assert_eq!(nobody_else(Some(50.0), Some(1.0), 0).verdict, Verdict::Unknown);
    }

    #[test]
    fn a_missed_schedule_is_said() {
        let verdict = |lag: u64, missed| {
            let latency = |ns| Latency { p50: Some(ns), p99_9: Some(ns), ..Latency::default() };
            let paced = PacedTotals { lag_ns: latency(lag), missed, ..PacedTotals::default() };
            let latency_ns = latency(100_000);
            let totals = Totals { latency_ns, paced: Some(paced), ..Totals::default() };
            schedule_kept(&totals).unwrap().verdict
        };
        assert_eq!(verdict(5_000, 0), Verdict::Pass);
        assert_eq!(verdict(5_001, 0), Verdict::Warn);
        assert_eq!(verdict(5_000, 1), Verdict::Warn);
        assert_eq!(schedule_kept(&Totals::default()), None);
    }

    #[test]
    fn percentiles_need_samples() {
        assert_eq!(percentiles_supported(1_000_000).verdict, Verdict::Pass);
        let some = percentiles_supported(10_000);
        assert_eq!(some.verdict, Verdict::Pass);
        assert!(some.evidence.contains("p99.9, p99.99"), "{some:?}");
        assert_eq!(percentiles_supported(9_999).verdict, Verdict::Warn);
        assert_eq!(percentiles_supported(0).verdict, Verdict::Warn);
    }

    #[test]
    fn failed_ios_are_said() {
        let verdict = |ios, errors| ios_succeeded(&Totals { ios, errors, ..Totals::default() });
        assert_eq!(verdict(1000, 0).verdict, Verdict::Pass);
        assert_eq!(verdict(990, 10).verdict, Verdict::Warn);
        assert_eq!(verdict(989, 11).verdict, Verdict::Fail);
        assert_eq!(verdict(0, 1).verdict, Verdict::Fail);
        assert_eq!(verdict(0, 0).verdict, Verdict::Unknown);
        let words = verdict(3, 1).evidence;
        assert!(words.starts_with("1 of 4 I/Os failed, 25.00 % (at most 1)"), "{words}");
    }

    #[test]
    fn stolen_time_and_loopback_are_said() {
        assert_eq!(cpu_was_ours(Some(1.0), Some(0)).verdict, Verdict::Pass);
        assert_eq!(cpu_was_ours(Some(1.01), None).verdict, Verdict::Warn);
        assert_eq!(cpu_was_ours(Some(0.0), Some(1)).verdict, Verdict::Warn);
        assert_eq!(cpu_was_ours(None, None).verdict, Verdict::Unknown);
        assert_eq!(wire(Wire::Loopback).verdict, Verdict::Warn);
        assert_eq!(wire(Wire::None).verdict, Verdict::Pass);
        let network = |percent| wire(Wire::Network { retransmitted_percent: percent }).verdict;
        assert_eq!(
            [Some(0.01), Some(0.02), None].map(network),
            [Verdict::Pass, Verdict::Warn, Verdict::Unknown]
        );
    }

    #[test]
    fn the_class_follows_from_the_checks() {
        let check = |code: &str, verdict| Check::new(code, "x", verdict, "");
        let mut checks: Vec<Check> = NEEDED.iter().map(|code| check(code, Verdict::Pass)).collect();
        assert_eq!(Class::of(&checks), Class::Publishable);
        assert_eq!(Class::of(&checks[1..]), Class::Indicative);
        checks.push(check("H19", Verdict::Warn));
        assert_eq!(Class::of(&checks), Class::Indicative);
        checks.push(check("H05", Verdict::Fail));
        assert_eq!(Class::of(&checks), Class::Invalid);
        assert_eq!(Class::of(&[]), Class::Indicative);
    }
}
