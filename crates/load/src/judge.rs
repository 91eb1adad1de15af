//! The checks that a finished run is held against.

use stats::verdict::{self, Wire};
use stats::{Check, Collector, Cpu, Job, Verdict};

use crate::witness::Testimony;

/// The checks of a run in virtual time: those of numbers, and none of a host.
pub(crate) fn of_simulation(collected: &Collector) -> Vec<Check> {
    let totals = collected.totals();
    let mut checks = vec![
        verdict::steady_state(&collected.seconds()),
        verdict::littles_law(&collected.flows()),
        verdict::percentiles_supported(totals.ios),
        verdict::ios_succeeded(&totals),
    ];
    checks.extend(verdict::schedule_kept(&totals));
    checks.sort_by(|a, b| a.code.cmp(&b.code));
    checks
}

/// Every check that can be made from the numbers of a run and what the host said of it.
/// `data_right` is what comparing every read came to, if reads were compared.
pub(crate) fn checks(
    job: &Job,
    collected: &Collector,
    cpu: &Cpu,
    testimony: &Testimony,
    data_right: Option<bool>,
) -> Vec<Check> {
    let wire = match job.transport.as_str() {
        "local" => Wire::None,
        _ if job.loopback => Wire::Loopback,
        _ => Wire::Network { retransmitted_percent: testimony.retransmitted_percent },
    };
    // A target on this host that is not ours to count would pass for somebody else.
    let whole = cpu.target_cores.is_some() || !job.loopback;
    let ours = cpu.initiator_cores.map(|cores| cores + cpu.target_cores.unwrap_or(0.0));
    let others = if whole {
        verdict::nobody_else(cpu.host_percent, ours, os::cpu::allowed().len() as u32)
    } else {
        let words = "the target is another program of this host: what else used it is not known";
        Check::new("H17", "nobody-else", Verdict::Unknown, words)
    };
    let data = match data_right {
        Some(true) => (Verdict::Pass, "every read was compared with what was written"),
        Some(false) => (Verdict::Fail, "a read returned other data than were written"),
        None => (Verdict::Unknown, "reads were not compared: --verify does"),
    };
    let totals = collected.totals();
    let mut checks = vec![
        Check::new("H05", "data", data.0, data.1),
        verdict::steady_state(&collected.seconds()),
        verdict::generator_ceiling(totals.iops, None),
        verdict::littles_law(&collected.flows()),
        verdict::percentiles_supported(totals.ios),
        verdict::ios_succeeded(&totals),
        verdict::cpu_was_ours(cpu.steal_percent, testimony.throttled),
        others,
        verdict::wire(wire),
    ];
    checks.extend(testimony.checks.iter().cloned());
    let mut checks = verdict::joined(checks);
    checks.extend(verdict::schedule_kept(&totals));
    checks.sort_by(|a, b| a.code.cmp(&b.code));
    checks
}
