//! H14: CPUs and disks were awake when an I/O needed them, and workers had a core to themselves.

use super::together::{Finding, together};
use super::{Check, Verdict};

/// An idle state of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Name of the state: "C6".
    pub name: String,
    /// Exit latency, in microseconds.
    pub exit_us: u64,
    /// Number of exits in the window.
    pub times: u64,
}

/// Observations of one CPU in the window. `None` if the system does not report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rested {
    /// Number of the CPU.
    pub cpu: usize,
    /// Idle states of the CPU.
    pub idle: Option<Vec<Idle>>,
    /// CPUs that are threads of the same core, itself included.
    pub siblings: Option<Vec<usize>>,
}

/// A disk that may enter low-power states between I/Os.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nap {
    /// Name of the disk.
    pub disk: String,
    /// Maximum wake-up time, in microseconds; 0 if the disk does not sleep, `None` if unknown.
    pub wake_us: Option<u64>,
    /// IOPS of the slowest second.
    pub slowest_iops: f64,
    /// True if the job itself pauses for as long as it takes until a disk sleeps.
    pub pauses: bool,
}

/// Share of an I/O's time from which on other causes are reported.
const SHARE: f64 = 0.05;
/// I/O rate at which a disk does not sleep, per second: Linux lets NVMe drives enter low power
/// after 100 ms at the earliest (`apst_primary_timeout_ms`).
const AWAKE_IOPS: f64 = 20.0;

/// Time of an I/O in the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerIo {
    /// I/Os of the window.
    pub ios: u64,
    /// Mean latency in nanoseconds; `None` without any.
    pub mean_ns: Option<f64>,
    /// CPU time in microseconds; `None` if not measured.
    pub core_us: Option<f64>,
}

impl PerIo {
    /// Returns a time in microseconds per I/O as a share of the mean latency.
    fn share(self, us: f64) -> Option<f64> {
        let mean_us = self.mean_ns? / 1e3;
        (mean_us > 0.0).then(|| us / mean_us)
    }
}

/// H14 for CPUs that wake late and share cores. `is_hidden` is true for CPUs of a virtual machine,
/// whose host decides on their idle states.
pub fn rested(cpus: &[Rested], per_io: PerIo, is_hidden: bool) -> Check {
    let check =
        |verdict, words: Vec<String>| Check::new("H14", "frequency", verdict, words.join(", "));
    if cpus.is_empty() {
        return Check::unknown("H14", "the CPUs of the run are not known");
    }
    let (idle, shared) = (waking(cpus, per_io), sharing(cpus, per_io));
    if is_hidden && shared.0 != Verdict::Warn {
        return Check::does_not_apply(
            "H14",
            "a virtual machine: its host controls the idle states of its CPUs and the sharing of \
            cores",
        );
    }
    let idle = if is_hidden { (Verdict::Pass, None) } else { idle };
    let words = [idle.1, shared.1].into_iter().flatten().collect();
    let made = check(idle.0.worse(shared.0), words);
    let made = match idle.0 {
        Verdict::Warn => made.mend("cpupower idle-set --disable-by-latency 10"),
        _ => made,
    };
    match (shared.0, one_of_each_core(cpus)) {
        (Verdict::Warn, Some(list)) => made.mend(format!("drumfire run … --cores {list}")),
        _ => made,
    }
}

/// Returns the finding on the cost of leaving idle states.
fn waking(cpus: &[Rested], per_io: PerIo) -> (Verdict, Option<String>) {
    let untold = cpus.iter().filter(|cpu| cpu.idle.is_none()).count();
    if untold > 0 {
        let words = format!("idle states of {untold} of {} CPUs are not reported", cpus.len());
        return (Verdict::Unknown, Some(words));
    }
    let states = || cpus.iter().flat_map(|cpu| cpu.idle.iter().flatten());
    let cost = |state: &Idle| state.exit_us as f64 * state.times as f64;
    let us = states().map(cost).sum::<f64>() / per_io.ios.max(1) as f64;
    let Some(share) = per_io.share(us) else {
        return (Verdict::Unknown, Some("no I/O has a latency".to_owned()));
    };
    let deepest = states().max_by(|a, b| cost(a).total_cmp(&cost(b)));
    let name = deepest.map_or("none", |state| &state.name);
    let percent = share * 100.0;
    let words = format!(
        "CPU wake-ups from idle states take up to {us:.1} µs of each I/O, {percent:.1} % of its \
        mean latency (at most 5, mostly from {name})"
    );
    match share > SHARE {
        true => (Verdict::Warn, Some(format!("CPUs woke late: {words}"))),
        false => (Verdict::Pass, Some(words)),
    }
}

/// Returns the finding on CPUs of the run that are threads of one core.
fn sharing(cpus: &[Rested], per_io: PerIo) -> (Verdict, Option<String>) {
    let untold = cpus.iter().filter(|cpu| cpu.siblings.is_none()).count();
    if untold > 0 {
        let words = format!("thread siblings of {untold} of {} CPUs are not reported", cpus.len());
        return (Verdict::Unknown, Some(words));
    }
    let sibling = |cpu: &Rested| {
        let all = cpu.siblings.iter().flatten();
        let others = all.filter(|other| **other > cpu.cpu);
        others.copied().find(|other| cpus.iter().any(|cpu| cpu.cpu == *other))
    };
    let pairs: Vec<(usize, usize)> =
        cpus.iter().filter_map(|cpu| Some((cpu.cpu, sibling(cpu)?))).collect();
    let Some((one, other)) = pairs.first() else {
        return (Verdict::Pass, Some("no two CPUs of the run share a core".to_owned()));
    };
    let many = match pairs.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more pairs)"),
    };
    let words = format!("CPUs {one} and {other}{many} are threads of one core");
    let Some(share) = per_io.core_us.and_then(|us| per_io.share(us)) else {
        return (Verdict::Unknown, Some(format!("{words}, and the CPU time is not known")));
    };
    let percent = share * 100.0;
    let words = format!(
        "{words}, and the CPU time is {percent:.1} % of the time of an I/O (at \
        most 5)"
    );
    match share > SHARE {
        true => (Verdict::Warn, Some(format!("{words}: they slow each other"))),
        false => (Verdict::Pass, Some(words)),
    }
}

/// Returns a list of the run's CPUs, one of each core; `None` if these are all.
fn one_of_each_core(cpus: &[Rested]) -> Option<String> {
    let mut kept: Vec<usize> = Vec::new();
    for cpu in cpus {
        let taken = cpu.siblings.iter().flatten().any(|sibling| kept.contains(sibling));
        if !taken {
            kept.push(cpu.cpu);
        }
    }
    let list: Vec<String> = kept.iter().map(usize::to_string).collect();
    (kept.len() < cpus.len()).then(|| list.join(","))
}

/// H14 for disks that sleep: NVMe drives that enter low power autonomously (APST). `None` without
/// such a disk.
pub fn naps(disks: &[Nap]) -> Option<Check> {
    let check = together("H14", "frequency", disks.iter().map(Nap::judge), "");
    let napping = disks.iter().filter(|disk| disk.judge().0 == Verdict::Warn);
    let awake = |check: Check, Nap { disk, .. }: &Nap| {
        let file = format!("/sys/block/{disk}/device/power/pm_qos_latency_tolerance_us");
        check.mend(format!("echo 0 > {file}"))
    };
    (!disks.is_empty()).then(|| napping.fold(check, awake))
}

impl Nap {
    fn judge(&self) -> Finding {
        let Nap { disk, wake_us, slowest_iops, pauses } = self;
        match wake_us {
            None => (
                Verdict::Unknown,
                format!(
                    "the power states (APST) of {disk} are not \
                reported"
                ),
            ),
            Some(0) => (Verdict::Pass, format!("{disk} uses no power states (APST)")),
            Some(us) => {
                let us = if *us >= u64::from(u32::MAX) {
                    "any time".into()
                } else {
                    format!("{us} µs")
                };
                let words = format!(
                    "{disk} may enter a power state (APST) and take {us} to \
                    leave it"
                );
                match *pauses || *slowest_iops < AWAKE_IOPS {
                    true => (
                        Verdict::Warn,
                        format!("{words}, and had {slowest_iops:.0} I/Os in a second"),
                    ),
                    false => (Verdict::Pass, format!("{words}, and was never idle for long")),
                }
            }
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const PER_IO: PerIo = PerIo { ios: 10_000, mean_ns: Some(80_000.0), core_us: Some(3.0) };

    fn cpu(cpu: usize, exit_us: u64, times: u64, siblings: &[usize]) -> Rested {
        let state = Idle { name: "C6".into(), exit_us, times };
        Rested { cpu, idle: Some(vec![state]), siblings: Some(siblings.to_vec()) }
    }

    /// H14 detects: each I/O at queue depth 1 wakes a CPU from C6.
    /// H14 accepts: CPUs in shallow or rare idle states; deep queues.
    #[test]
    fn what_wakes_late_is_said() {
        let one = |exit_us, times| rested(&[cpu(0, exit_us, times, &[0])], PER_IO, false);
        let deep = one(133, 10_000);
        assert_eq!((deep.verdict, deep.mend.len()), (Verdict::Warn, 1));
        assert!(deep.evidence.contains("133.0 µs of each I/O, 166.2 %"), "{deep:?}");
        assert_eq!(one(2, 10_000).verdict, Verdict::Pass);
        assert_eq!(one(133, 300).verdict, Verdict::Pass);
        // Each I/O waits for 10 ms in a queue: the wake-up time is negligible.
        let queue = PerIo { mean_ns: Some(1e7), ..PER_IO };
        assert_eq!(rested(&[cpu(0, 133, 10_000, &[0])], queue, false).verdict, Verdict::Pass);
        let hidden = rested(&[cpu(0, 133, 10_000, &[0])], PER_IO, true);
        assert_eq!(hidden.verdict, Verdict::DoesNotApply);
        let nothing = PerIo { mean_ns: None, ..PER_IO };
        assert_eq!(rested(&[cpu(0, 1, 1, &[0])], nothing, false).verdict, Verdict::Unknown);
    }

    /// H14 detects: two CPUs of the run are hyperthreads of one core.
    /// H14 accepts: hyperthreads of one core that wait for storage.
    #[test]
    fn threads_of_one_core_are_said_where_they_matter() {
        let pair = [cpu(0, 0, 0, &[0, 4]), cpu(1, 0, 0, &[1, 5]), cpu(4, 0, 0, &[0, 4])];
        let busy = PerIo { core_us: Some(5.0), ..PER_IO };
        let shared = rested(&pair, busy, false);
        assert_eq!(shared.verdict, Verdict::Warn);
        assert!(shared.evidence.contains("CPUs 0 and 4 are threads of one core"), "{shared:?}");
        assert_eq!(shared.mend, ["drumfire run … --cores 0,1"]);
        assert_eq!(rested(&pair, PER_IO, false).verdict, Verdict::Pass, "3 of 80 µs");
        assert_eq!(rested(&pair[..2], busy, false).verdict, Verdict::Pass);
        assert_eq!(
            rested(&pair, busy, true).verdict,
            Verdict::Warn,
            "a host shows it to its guest"
        );
        let untimed = PerIo { core_us: None, ..PER_IO };
        assert_eq!(rested(&pair, untimed, false).verdict, Verdict::Unknown);
    }

    #[test]
    fn what_does_not_show_is_not_known() {
        let whole = cpu(0, 1, 1, &[0]);
        assert_eq!(rested(&[], PER_IO, false).verdict, Verdict::Unknown);
        for untold in [Rested { idle: None, ..whole.clone() }, Rested { siblings: None, ..whole }] {
            assert_eq!(
                rested(std::slice::from_ref(&untold), PER_IO, false).verdict,
                Verdict::Unknown
            );
            assert_eq!(rested(&[untold], PER_IO, true).verdict, Verdict::DoesNotApply);
        }
    }

    /// H14 detects: a drive in a power-saving state between the I/Os of a slow job.
    /// H14 accepts: a drive without power-saving states; a job without pauses.
    #[test]
    fn naps_are_said() {
        let nap = |wake_us, slowest_iops, pauses| {
            let disk = "nvme0n1".to_owned();
            naps(&[Nap { disk, wake_us, slowest_iops, pauses }]).unwrap()
        };
        let slow = nap(Some(100_000), 5.0, false);
        assert_eq!((slow.verdict, slow.mend.len()), (Verdict::Warn, 1));
        assert!(slow.evidence.contains("take 100000 µs to leave it"), "{slow:?}");
        assert_eq!(nap(Some(100_000), 9000.0, true).verdict, Verdict::Warn);
        assert!(nap(Some(u64::MAX), 1.0, false).evidence.contains("take any time"));
        assert_eq!(nap(Some(100_000), 20.0, false).verdict, Verdict::Pass);
        assert_eq!(nap(Some(0), 1.0, true).verdict, Verdict::Pass);
        assert_eq!(nap(None, 900.0, false).verdict, Verdict::Unknown);
        assert_eq!(naps(&[]), None);
    }
}
