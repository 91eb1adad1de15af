//! The list of all honesty checks. Every result has each of them, and its class is computed over
//! this list and nothing else.

use super::{Check, Verdict, joined};

/// A check that every result has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Number of the check: "H11".
    pub code: &'static str,
    /// Name of the check: "littles-law".
    pub name: &'static str,
    /// Question of the check.
    pub asks: &'static str,
    /// True if the check applies to every run: "does not apply" is no answer.
    pub always: bool,
    /// First [layout](crate::SCHEMA_VERSION) whose results have the check.
    pub since: u32,
}

const fn some(code: &'static str, name: &'static str, asks: &'static str) -> Listed {
    Listed { code, name, asks, always: false, since: crate::EVERY_CHECK_SINCE }
}

const fn every(code: &'static str, name: &'static str, asks: &'static str) -> Listed {
    Listed { code, name, asks, always: true, since: crate::EVERY_CHECK_SINCE }
}

impl Listed {
    /// Sets the first layout whose results have the check.
    const fn since(self, layout: u32) -> Listed {
        Listed { since: layout, ..self }
    }
}

/// All checks in the order of their numbers. An additional one makes a new
/// [layout](crate::SCHEMA_VERSION): results are judged by the list of their layout.
pub const ALL: [Listed; 26] = [
    some("H01", "direct-io", "do I/Os bypass the page cache if they should?"),
    every("H02", "data-exist", "was every block that is read written before?"),
    some("H03", "device-counters", "did the device see the I/Os?"),
    some("H04", "content", "can storage reduce the data?"),
    every("H05", "data", "are the data correct?"),
    every("H06", "steady-state", "has the rate settled?"),
    some("H07", "preconditioning", "was flash written before it was measured?"),
    some("H08", "working-set", "is the working set larger than the caches?"),
    some("H09", "schedule-kept", "did the I/Os of an open loop start on time?"),
    every("H10", "generator-ceiling", "is the generator or the client's CPU the limit?"),
    every("H11", "littles-law", "do the I/Os in flight equal rate × latency?"),
    every(
        "H12",
        "percentiles-supported",
        "are there enough samples for each percentile, and do the percentiles show the whole?",
    ),
    every("H13", "cpu-was-ours", "did the run have its CPUs?"),
    some("H14", "frequency", "did CPUs and disks keep their pace and wake up in time?"),
    every("H15", "clock", "was time measured cheaply and correctly?"),
    some("H16", "placement", "on NUMA hosts, are the CPUs near the disks?"),
    every("H17", "nobody-else", "did others use the host, the CPUs of the run, or its disks?"),
    some("H18", "block-layer", "does the kernel leave the I/Os unchanged?"),
    some("H19", "wire", "what was between the two ends?"),
    every("H20", "repeats", "was it measured more than once?"),
    every("H21", "ios-succeeded", "did all I/Os succeed?"),
    every("H22", "even", "did every worker get its share?"),
    some("H23", "connections", "did the connections to remote volumes hold?"),
    some("H24", "one-medium", "are all volumes of one kind?"),
    some("H25", "cache", "did a cache serve the job?").since(5),
    some("H26", "burst-credits", "can the rate last?").since(5),
];

/// Returns the checks that every result of a layout has, from 3 on.
pub fn of_layout(layout: u32) -> impl Iterator<Item = &'static Listed> + Clone {
    ALL.iter().filter(move |listed| listed.since <= layout)
}

/// Returns the check of this number; `None` if this version does not have it.
pub fn listed(code: &str) -> Option<&'static Listed> {
    ALL.iter().find(|listed| listed.code == code)
}

/// Returns every check of the list once, in its order, followed by those of no list. A check that
/// was not made has an unknown verdict.
pub fn complete(checks: Vec<Check>) -> Vec<Check> {
    let mut all = joined(checks);
    let made = |listed: &&Listed, all: &[Check]| all.iter().any(|check| check.code == listed.code);
    let unmade: Vec<&Listed> = ALL.iter().filter(|listed| !made(listed, &all)).collect();
    all.extend(unmade.iter().map(|listed| Check::unknown(listed.code, "not checked")));
    all.sort_by(|a, b| a.code.cmp(&b.code));
    all
}

/// Returns whether every check of a layout is present.
pub(super) fn is_whole<'a>(
    layout: u32,
    verdicts: impl Iterator<Item = (&'a str, Verdict)> + Clone,
) -> bool {
    of_layout(layout).all(|listed| verdicts.clone().any(|(code, _)| code == listed.code))
}

/// Returns whether every present check speaks for a number.
pub(super) fn all_are_clean<'a>(mut verdicts: impl Iterator<Item = (&'a str, Verdict)>) -> bool {
    let clean = |(code, verdict): (&str, Verdict)| match verdict {
        Verdict::Pass => true,
        Verdict::DoesNotApply => listed(code).is_some_and(|listed| !listed.always),
        Verdict::Warn | Verdict::Fail | Verdict::Unknown => false,
    };
    verdicts.all(clean)
}

#[cfg(test)]
mod test;
