//! Times in which hosts measured: each host, all at once, and any of them.

use super::Host;
use crate::run::CommonWindow;

/// Longest window that is believed: a year.
pub(super) const LONGEST_NS: u64 = 366 * 86_400 * 1_000_000_000;
/// Tolerance for a window that is shorter than the time in it: two clocks measured them.
pub(super) const SLACK_S: f64 = 0.05;

/// Computes the time in which all hosts measured.
pub(super) fn common(hosts: &[Host]) -> CommonWindow {
    let starts = || hosts.iter().map(|host| host.started_ns);
    let ends = || hosts.iter().map(|host| host.ended_ns);
    let spread = |first: Option<u64>, last: Option<u64>| {
        last.unwrap_or_default().saturating_sub(first.unwrap_or_default())
    };
    let started_ns = starts().max().unwrap_or_default();
    let ended_ns = ends().min().unwrap_or_default();
    let longest = hosts.iter().map(|host| host.ended_ns.saturating_sub(host.started_ns)).max();
    let common_ns = ended_ns.saturating_sub(started_ns);
    let overlap_percent = match longest {
        Some(longest) if longest > 0 => common_ns as f64 / longest as f64 * 100.0,
        _ => 0.0,
    };
    CommonWindow {
        started_ns,
        ended_ns: ended_ns.max(started_ns),
        seconds: common_ns as f64 / 1e9,
        overlap_percent,
        start_skew_ns: spread(starts().min(), starts().max()),
        end_skew_ns: spread(ends().min(), ends().max()),
        clock_bound_ns: clock_bound_ns(hosts),
    }
}

/// The bound of the difference of any two clocks: the two largest errors. One machine has one
/// wall clock.
fn clock_bound_ns(hosts: &[Host]) -> Option<u64> {
    let first = hosts.first()?;
    let measured = hosts.iter().all(|host| host.row.clock.by_round_trips);
    if !measured
        && !first.row.machine.is_empty()
        && hosts.iter().all(|host| host.row.machine == first.row.machine)
    {
        return Some(0);
    }
    let errors = hosts
        .iter()
        .map(|host| host.row.clock.error_ns.filter(|_| host.row.clock.synchronised == Some(true)));
    let mut errors: Vec<u64> = errors.collect::<Option<_>>()?;
    errors.sort_unstable_by(|a, b| b.cmp(a));
    Some(errors.iter().take(2).fold(0, |sum, error| sum.saturating_add(*error)))
}

/// Writes into the row of each host when it began and ended among the others.
pub(super) fn place(hosts: &mut [Host], common: &CommonWindow) {
    let first = common.started_ns.saturating_sub(common.start_skew_ns);
    let last = hosts.iter().map(|host| host.ended_ns).max().unwrap_or_default();
    for host in hosts {
        host.row.start_skew_ns = host.started_ns.saturating_sub(first);
        host.row.end_skew_ns = last.saturating_sub(host.ended_ns);
    }
}

/// Computes the time in seconds in which any host measured.
pub(super) fn union_s(hosts: &[Host]) -> f64 {
    if let [one] = hosts {
        return one.row.seconds;
    }
    let own = |host: &Host| {
        let lasted_ns = (host.row.seconds * 1e9).round() as u64;
        (host.started_ns, host.started_ns.saturating_add(lasted_ns))
    };
    let mut spans: Vec<(u64, u64)> = hosts.iter().map(own).collect();
    spans.sort_unstable();
    let (mut covered_ns, mut reached_ns) = (0_u64, 0_u64);
    for (from_ns, to_ns) in spans {
        covered_ns = covered_ns.saturating_add(to_ns.saturating_sub(from_ns.max(reached_ns)));
        reached_ns = reached_ns.max(to_ns);
    }
    covered_ns as f64 / 1e9
}
