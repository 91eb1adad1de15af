//! Checks, warnings and gaps of a merged result.

use std::collections::BTreeMap;

use super::Host;
use super::totals::Merged;
use crate::histogram::Latency;
use crate::run::{CommonWindow, Job};
use crate::verdict::{Check, Shown, Verdict, percentiles_supported};

/// Least share of the longest window in which all hosts must measure, in percent.
pub const OVERLAP_PERCENT: f64 = 95.0;
/// Share of the longest window by which clocks may differ, in percent.
const CLOCKS_PERCENT: f64 = 1.0;
/// First letter of the checks of a measurement as a whole.
const OWN: char = 'M';
/// Hosts that a line names.
const NAMED: usize = 3;

/// The checks of all hosts, the worst of each, and those of the measurement as a whole.
pub(super) fn checks(
    hosts: &[Host],
    common: &CommonWindow,
    merged: &Merged,
    job: &Job,
) -> Vec<Check> {
    let mut worst: BTreeMap<&str, (&Host, &Check, usize)> = BTreeMap::new();
    for host in hosts {
        for check in host.checks.iter().filter(|check| !check.code.starts_with(OWN)) {
            let kept = worst.entry(&check.code).or_insert((host, check, 0));
            match check.verdict {
                verdict if verdict == kept.1.verdict => kept.2 += 1,
                verdict if kept.1.verdict.worse(verdict) == verdict => *kept = (host, check, 1),
                _ => {}
            }
        }
    }
    let each = worst.into_values().map(|(host, check, alike)| of_host(hosts, host, check, alike));
    let mut all: Vec<Check> = each.filter(|check| check.code != "H12").collect();
    let few: Vec<(String, Latency)> =
        hosts.iter().map(|host| (host.row.name.clone(), host.row.latency_ns)).collect();
    let closed = job.outstanding.is_some();
    all.push(percentiles_supported(&Shown { latencies: &merged.all, few: &few, closed }));
    all.extend([together(hosts, common), clocks(hosts, common), machines(hosts)]);
    all.sort_by(|a, b| a.code.cmp(&b.code));
    all
}

/// The worst check of its code, with the host that it is of.
fn of_host(hosts: &[Host], host: &Host, check: &Check, alike: usize) -> Check {
    let mut check = check.clone();
    if hosts.len() > 1 {
        let others = match alike.saturating_sub(1) {
            0 => String::new(),
            _ if alike == hosts.len() => " and all others".to_owned(),
            more => format!(" and {more} more"),
        };
        check.evidence = format!("{}{others}: {}", host.row.name, check.evidence);
    }
    check
}

/// M01: all hosts measured at the same time.
fn together(hosts: &[Host], common: &CommonWindow) -> Check {
    let check = |verdict, words: String| Check::new("M01", "common-window", verdict, words);
    let (overlap, seconds) = (common.overlap_percent, common.seconds);
    let mut words = format!(
        "all {} measured together for {seconds:.3} s, {overlap:.2} % of the longest window (at \
         least {OVERLAP_PERCENT}); start skew {}, end skew {}",
        plural(hosts.len()),
        span(common.start_skew_ns),
        span(common.end_skew_ns),
    );
    if let Some(last) = hosts.iter().max_by_key(|host| host.row.start_skew_ns)
        && common.start_skew_ns > 0
    {
        words += &format!("; {} began last", last.row.name);
    }
    let bound_s = common.clock_bound_ns.unwrap_or(0) as f64 / 1e9;
    let surely = overlap * (1.0 - bound_s / seconds.max(1e-9));
    match () {
        () if overlap < OVERLAP_PERCENT => check(Verdict::Fail, words)
            .mend("drumfire run … --start-at TIME (one time for all hosts, long enough ahead)"),
        () if surely < OVERLAP_PERCENT => {
            let bound = span(common.clock_bound_ns.unwrap_or(0));
            check(Verdict::Warn, format!("{words}; clocks may differ by {bound}"))
        }
        () => check(Verdict::Pass, words),
    }
}

/// M02: the clocks of the hosts agree.
fn clocks(hosts: &[Host], common: &CommonWindow) -> Check {
    let check = |verdict, words: String| Check::new("M02", "clocks", verdict, words);
    let longest_s = hosts.iter().map(|host| host.row.seconds).fold(0.0, f64::max);
    match common.clock_bound_ns {
        Some(0) => check(Verdict::Pass, "one machine, which has one clock".to_owned()),
        Some(bound) => {
            let percent = bound as f64 / 1e9 / longest_s.max(1e-9) * 100.0;
            let by_trips = hosts.iter().all(|host| host.row.clock.by_round_trips);
            let by = if by_trips { "by round trips before and after" } else { "by their kernels" };
            let words = format!(
                "{by} the clocks differ by at most {}, {percent:.2} % of the window (at most \
                 {CLOCKS_PERCENT})",
                span(bound)
            );
            let verdict = if percent > CLOCKS_PERCENT { Verdict::Warn } else { Verdict::Pass };
            match by_trips {
                true => check(verdict, words),
                false => check(verdict, words)
                    .mend("chronyc waitsync 30 0.001 (on each host, before the run)"),
            }
        }
        None => {
            let free = |host: &&Host| host.row.clock.synchronised != Some(true);
            let names = hosts.iter().filter(free).map(|host| &*host.row.name);
            let words = format!(
                "not known by how much the clocks differ: nothing disciplines those of {}",
                listed(names)
            );
            check(Verdict::Unknown, words).mend("systemctl start chrony (or another NTP client)")
        }
    }
}

/// M03: each host is a separate machine.
fn machines(hosts: &[Host]) -> Check {
    let check = |verdict, words: String| Check::new("M03", "own-machines", verdict, words);
    let mut on: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for host in hosts {
        on.entry(&host.row.machine).or_default().push(&host.row.name);
    }
    let shared = on.iter().find(|(machine, names)| names.len() > 1 && !machine.is_empty());
    match shared {
        Some((_, names)) => {
            let names = listed(names.iter().copied());
            check(Verdict::Warn, format!("{names} are on one machine and share its CPUs"))
                .mend("kubectl get pods -o wide (spread them: topologySpreadConstraints)")
        }
        None if on.contains_key("") => {
            check(Verdict::Unknown, "the machine of some host is not known".to_owned())
        }
        None => check(Verdict::Pass, format!("{} on as many machines", plural(hosts.len()))),
    }
}

/// Why the result is incomplete, if it is.
pub(super) fn partial(hosts: &[Host], expected: Option<u32>) -> Option<String> {
    let lost = expected.map_or(0, |expected| (expected as usize).saturating_sub(hosts.len()));
    let cut: Vec<&Host> = hosts.iter().filter(|host| host.row.partial.is_some()).collect();
    let lost = (lost > 0).then(|| {
        let expected = hosts.len() + lost;
        let is = if lost == 1 { "is" } else { "are" };
        format!("{lost} of {expected} hosts {is} lost: no part of theirs")
    });
    let first = cut.first().map(|host| {
        let why = host.row.partial.as_deref().unwrap_or_default();
        let more = match cut.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more hosts are incomplete)"),
        };
        format!("{}: {why}{more}", host.row.name)
    });
    let all: Vec<String> = [lost, first].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The warnings of all hosts, each once, and late ones.
pub(super) fn warnings(hosts: &[Host], common: &CommonWindow) -> Vec<String> {
    let mut said: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for host in hosts {
        for warning in &host.warnings {
            said.entry(warning).or_default().push(&host.row.name);
        }
    }
    let each = said.into_iter().map(|(warning, names)| match names.len() == hosts.len() {
        true => warning.to_owned(),
        false => format!("{}: {warning}", listed(names.iter().copied())),
    });
    let late = hosts.iter().filter(|host| host.row.late_ns.is_some_and(|late| late > LATE_NS));
    let late: Vec<&str> = late.map(|host| &*host.row.name).collect();
    let late = (!late.is_empty()).then(|| {
        format!(
            "{} began more than {} after the planned time: the host was busy, or its volumes took \
             until then to open",
            listed(late.iter().copied()),
            span(LATE_NS as u64)
        )
    });
    let none = (common.seconds == 0.0 && hosts.len() > 1)
        .then(|| "there is no time at which all hosts measured".to_owned());
    each.chain(late).chain(none).collect()
}

/// Beginning that is late, in nanoseconds.
const LATE_NS: i64 = 10_000_000;

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.len() {
        0..=NAMED => names.join(", "),
        many => format!("{} and {} more", names[..NAMED].join(", "), many - NAMED),
    }
}

fn plural(hosts: usize) -> String {
    if hosts == 1 { "1 host".to_owned() } else { format!("{hosts} hosts") }
}

/// A span of time in words.
fn span(ns: u64) -> String {
    match ns as f64 {
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}
