//! Honesty checks: numbers in, a verdict and its evidence out.
//!
//! The program that runs a job gathers the numbers; nothing here looks at a host. A number that
//! could not be gathered results in [`Verdict::Unknown`], never a pass. [`ALL`] lists the checks:
//! every result has each of them.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

mod amplified;
mod block_layer;
mod cache;
mod ceiling;
mod client;
mod connections;
mod content;
mod counters;
mod course;
mod credits;
mod direct_io;
mod even;
mod existence;
mod flash;
mod flushes;
mod host;
mod list;
mod little;
mod machine;
mod others;
mod percentiles;
mod rest;
mod schedule;
mod sectors;
mod sharing;
mod standing;
mod steady;
mod succeeded;
mod together;
mod working_set;

pub use amplified::Amplified;
pub use block_layer::{Asked, Disk, Merged, Merges, Queue, Throttle, block_layer};
pub use cache::{Below, Cached, JobReads, PLACES_LEAST, Probed, cache};
pub use ceiling::{Ceiling, generator_ceiling};
pub use client::{Client, FewerCores, client};
pub use connections::connections;
pub use content::{Data, Kept, Reducible, content};
pub use counters::{Counted, Level, counters_agree};
pub use course::Course;
pub use credits::{Lender, burst_credits};
pub use direct_io::{Beneath, Opened, direct_io};
pub use even::{Peer, even};
pub use existence::{Existence, Readable, data_exists};
pub use flash::{Flash, Writes, preconditioning};
pub use flushes::{Flushed, FlushedTo, flushed};
pub(crate) use host::stopped_s;
pub use host::{Window, clock, repeats};
pub use list::{ALL, Listed, complete, listed, of_layout};
pub(crate) use little::Seconds;
pub use little::{Flow, Flows, littles_law};
pub use machine::{Beside, Heat, Paced, frequency, one_medium, placement, quota};
pub use others::{HostUse, nobody_else};
pub use percentiles::{Shown, percentiles_supported};
pub use rest::{Idle, Nap, PerIo, Rested, naps, rested};
pub use schedule::schedule_kept;
pub use sectors::{Sectors, common_unit, whole_sectors};
pub use sharing::{Shared, disks_shared};
pub use standing::{Scheduled, replaced, scheduling, unseen_groups};
pub use steady::{Plan, Steadiness, steady_state};
pub use succeeded::ios_succeeded;
pub use together::{Finding, joined};
pub use working_set::{Medium, WorkingSet, distinct, working_set};

/// Verdict of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The check passed.
    Pass,
    /// The number is valid, with a reservation that must be read along with it.
    Warn,
    /// The number is wrong or means something else.
    Fail,
    /// The check could not be made.
    #[default]
    Unknown,
    /// The check's question is known not to apply.
    #[serde(rename = "not-applicable", alias = "does-not-apply")]
    DoesNotApply,
}

impl Verdict {
    /// Returns the worse of two verdicts.
    pub fn worse(self, other: Verdict) -> Verdict {
        if other.rank() > self.rank() { other } else { self }
    }

    /// Returns the word for the verdict.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
            Verdict::Unknown => "unknown",
            Verdict::DoesNotApply => "not-applicable",
        }
    }

    /// Returns whether the verdict is evidence against a number.
    pub fn is_against(self) -> bool {
        matches!(self, Verdict::Warn | Verdict::Fail | Verdict::Unknown)
    }

    fn rank(self) -> u8 {
        match self {
            Verdict::DoesNotApply => 0,
            Verdict::Pass => 1,
            Verdict::Unknown => 2,
            Verdict::Warn => 3,
            Verdict::Fail => 4,
        }
    }
}

/// Credibility of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Every check passed, or does not apply.
    Publishable,
    /// No error is known.
    #[default]
    Indicative,
    /// A check failed, or is missing.
    Invalid,
}

/// Checks that a published number needed before there was a [list](ALL): layouts before 3 have only
/// those checks that applied.
const NEEDED: [&str; 8] = ["H06", "H10", "H11", "H12", "H13", "H20", "H21", "H22"];

impl Class {
    /// Returns the class of a result. A failed check makes a result invalid, and so does a missing
    /// check of the [list](ALL), as it may have failed. A result is publishable if each check
    /// passed or does not apply.
    pub fn of(checks: &[Check]) -> Class {
        Class::of_layout(crate::SCHEMA_VERSION, checks)
    }

    /// Returns the class by the list of a layout, 3 or later.
    pub fn of_layout(layout: u32, checks: &[Check]) -> Class {
        let verdicts = checks.iter().map(|check| (check.code.as_str(), check.verdict));
        Class::of_verdicts(layout, verdicts)
    }

    /// Returns the class of verdicts, each with the number of its check.
    pub fn of_verdicts<'a>(
        layout: u32,
        verdicts: impl Iterator<Item = (&'a str, Verdict)> + Clone,
    ) -> Class {
        match () {
            () if verdicts.clone().any(|(_, verdict)| verdict == Verdict::Fail) => Class::Invalid,
            () if !list::is_whole(layout, verdicts.clone()) => Class::Invalid,
            () if list::all_are_clean(verdicts) => Class::Publishable,
            () => Class::Indicative,
        }
    }

    /// Returns the class of a result of a layout before 3, by the rule of that layout.
    pub fn of_earlier(checks: &[Check]) -> Class {
        let all = || checks.iter().map(|check| check.verdict);
        if all().any(|verdict| verdict == Verdict::Fail) {
            return Class::Invalid;
        }
        let clean = all().all(|verdict| verdict == Verdict::Pass);
        match clean && Class::unmade(checks).is_empty() {
            true => Class::Publishable,
            false => Class::Indicative,
        }
    }

    /// Returns the checks that a published number needed in a layout before 3, and that were not
    /// made.
    pub fn unmade(checks: &[Check]) -> Vec<&'static str> {
        let made = |needed: &&str| checks.iter().any(|check| check.code == **needed);
        NEEDED.into_iter().filter(|needed| !made(needed)).collect()
    }

    /// Returns the word for the class.
    pub fn word(self) -> &'static str {
        match self {
            Class::Publishable => "publishable",
            Class::Indicative => "indicative",
            Class::Invalid => "invalid",
        }
    }
}

/// One honesty check and its verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Check {
    /// Number of the check: "H11".
    pub code: String,
    /// Name of the check: "littles-law".
    pub name: String,
    /// Verdict of the check.
    pub verdict: Verdict,
    /// Evidence: the arithmetic, as text.
    pub evidence: String,
    /// Commands that fix the problem, if there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mend: Vec<String>,
}

/// Documents name the evidence `because`, too: the reason of a verdict.
impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = 5 + usize::from(!self.mend.is_empty());
        let mut document = serializer.serialize_struct("Check", fields)?;
        document.serialize_field("code", &self.code)?;
        document.serialize_field("name", &self.name)?;
        document.serialize_field("verdict", &self.verdict)?;
        document.serialize_field("evidence", &self.evidence)?;
        document.serialize_field("because", &self.evidence)?;
        if !self.mend.is_empty() {
            document.serialize_field("mend", &self.mend)?;
        }
        document.end()
    }
}

impl Check {
    /// Creates a check with its verdict.
    pub fn new(code: &str, name: &str, verdict: Verdict, evidence: impl Into<String>) -> Check {
        let (code, name) = (code.into(), name.into());
        Check { code, name, verdict, evidence: evidence.into(), mend: Vec::new() }
    }

    /// Creates a check that could not be made, with the reason.
    pub fn unknown(code: &str, why: impl Into<String>) -> Check {
        Check::new(code, Check::name_of(code), Verdict::Unknown, why)
    }

    /// Creates a check that does not apply, with the reason why that is certain.
    pub fn does_not_apply(code: &str, why: impl Into<String>) -> Check {
        Check::new(code, Check::name_of(code), Verdict::DoesNotApply, why)
    }

    fn name_of(code: &str) -> &str {
        listed(code).map_or(code, |listed| listed.name)
    }

    /// Adds doubts, each with its verdict.
    #[must_use]
    pub fn doubted<'a>(mut self, doubts: impl Iterator<Item = (Verdict, &'a str)>) -> Check {
        for (verdict, why) in doubts {
            self.verdict = self.verdict.worse(verdict);
            self.evidence = format!("{why}; {}", self.evidence);
        }
        self
    }

    /// Adds a command that fixes the problem, unless it is already listed.
    #[must_use]
    pub fn mend(mut self, command: impl Into<String>) -> Check {
        let command = command.into();
        if !self.mend.contains(&command) {
            self.mend.push(command);
        }
        self
    }
}

/// Maximum share of steal time in the window, in percent.
const STEAL_PERCENT: f64 = 1.0;

/// H13: the CPU was ours. `steal_percent` is the share of the window (0 to 100) that the hypervisor
/// gave to others; `throttled` is the number of times that a CPU quota stopped us. `None` if
/// unknown.
pub fn cpu_was_ours(steal_percent: Option<f64>, throttled: Option<u64>) -> Check {
    let check = |verdict, evidence| Check::new("H13", "cpu-was-ours", verdict, evidence);
    let Some(steal) = steal_percent else {
        return check(Verdict::Unknown, "steal time was not measured".into());
    };
    let quota = match throttled {
        Some(times) => format!("throttled {times} times"),
        None => "throttling is not known".to_owned(),
    };
    let verdict = match throttled {
        _ if steal > STEAL_PERCENT => Verdict::Warn,
        Some(0) => Verdict::Pass,
        Some(_) => Verdict::Warn,
        None => Verdict::Unknown,
    };
    let evidence = format!("{steal:.2} % stolen by the hypervisor (at most 1), {quota}");
    let mut made = check(verdict, evidence);
    if steal > STEAL_PERCENT {
        made = made.mend("vmstat 1 (column st: run again when it is 0)");
    }
    if throttled.is_some_and(|times| times > 0) {
        made = made.mend("cat /proc/self/cgroup (raise cpu.max of this group and those above it)");
    }
    made
}

/// Connection between initiator and target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wire {
    /// None: the storage is local.
    None,
    /// Initiator and target were one host.
    Loopback,
    /// A network, with the share of retransmitted segments (0 to 100) if known.
    Network {
        /// Retransmitted segments, 0 to 100.
        retransmitted_percent: Option<f64>,
    },
}

/// Maximum share of retransmitted segments, in percent; more is a broken network.
const RETRANSMITTED_PERCENT: f64 = 0.01;

/// H19: kind of the wire. Loopback is no wire, and a result must say so.
pub fn wire(wire: Wire) -> Check {
    let check = |verdict, evidence: String| Check::new("H19", "wire", verdict, evidence);
    match wire {
        Wire::None => check(Verdict::DoesNotApply, "local storage, no wire".into()),
        Wire::Loopback => check(
            Verdict::Warn,
            "loopback: initiator and target share one host and its cores, no wire was measured"
                .into(),
        )
        .mend(
            "drumfire serve --nvme-tcp 0.0.0.0:4420 … (on another host; run against that \
            target)",
        ),
        Wire::Network { retransmitted_percent: None } => {
            check(Verdict::Unknown, "retransmissions were not measured".into())
        }
        Wire::Network { retransmitted_percent: Some(percent) } => {
            let bad = percent > RETRANSMITTED_PERCENT;
            let evidence = format!("{percent:.4} % of segments retransmitted (at most 0.01)");
            match bad {
                true => check(Verdict::Warn, evidence)
                    .mend("nstat -az TcpRetransSegs; ethtool -S IFACE (which port drops them)"),
                false => check(Verdict::Pass, evidence),
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// H13 detects: 1.01 % of steal time; a CPU quota throttles the run once.
    /// H13 accepts: 1 % of steal time.
    /// H19 detects: loopback; 0.02 % of the segments are retransmitted.
    /// H19 accepts: 0.01 % of the segments are retransmitted.
    #[test]
    fn stolen_time_and_loopback_are_said() {
        assert_eq!(cpu_was_ours(Some(1.0), Some(0)).verdict, Verdict::Pass);
        assert_eq!(cpu_was_ours(Some(1.01), None).verdict, Verdict::Warn);
        assert_eq!(cpu_was_ours(Some(1.0), None).verdict, Verdict::Unknown);
        assert_eq!(cpu_was_ours(Some(0.0), Some(1)).verdict, Verdict::Warn);
        assert_eq!(cpu_was_ours(None, None).verdict, Verdict::Unknown);
        assert_eq!(cpu_was_ours(Some(2.0), Some(1)).mend.len(), 2);
        assert_eq!(
            (wire(Wire::Loopback).verdict, wire(Wire::Loopback).mend.len()),
            (Verdict::Warn, 1)
        );
        assert_eq!(wire(Wire::None).verdict, Verdict::DoesNotApply);
        let network = |percent| wire(Wire::Network { retransmitted_percent: percent }).verdict;
        assert_eq!(
            [Some(0.01), Some(0.02), None].map(network),
            [Verdict::Pass, Verdict::Warn, Verdict::Unknown]
        );
    }

    #[test]
    fn the_class_follows_from_the_checks() {
        let check = |code: &str, verdict| Check::new(code, "x", verdict, "");
        let mut checks: Vec<Check> = ALL.iter().map(|it| check(it.code, Verdict::Pass)).collect();
        assert_eq!(Class::of(&checks), Class::Publishable);
        assert_eq!(Class::of(&checks[1..]), Class::Invalid);
        checks[18].verdict = Verdict::Warn;
        assert_eq!(Class::of(&checks), Class::Indicative);
        checks[4].verdict = Verdict::Fail;
        assert_eq!(Class::of(&checks), Class::Invalid);
        assert_eq!(Class::of(&[]), Class::Invalid);
    }

    #[test]
    fn earlier_results_are_judged_by_the_rule_of_then() {
        let check = |code: &str, verdict| Check::new(code, "x", verdict, "");
        let mut checks: Vec<Check> = NEEDED.iter().map(|code| check(code, Verdict::Pass)).collect();
        assert_eq!(Class::of_earlier(&checks), Class::Publishable);
        assert_eq!(Class::of(&checks), Class::Invalid);
        assert_eq!(Class::of_earlier(&checks[1..]), Class::Indicative);
        assert_eq!(Class::unmade(&checks[1..]), ["H06"]);
        checks.push(check("H19", Verdict::Warn));
        assert_eq!(Class::of_earlier(&checks), Class::Indicative);
        checks.push(check("H05", Verdict::Fail));
        assert_eq!(Class::of_earlier(&checks), Class::Invalid);
    }
}
