//! H17: no other program used the host.

use super::{Check, Verdict};

/// Maximum share of CPU time of other programs, in percent.
const OTHERS_PERCENT: f64 = 10.0;

/// Minimum busy time in `/proc/stat`, as a share of our threads' CPU time: `/proc/stat` is sampled
/// by ticks and may miss part of it.
const ACCOUNTS_SHARE: f64 = 0.8;
const ACCOUNTS_CORES: f64 = 0.05;

/// CPU usage of a host, and our share of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostUse {
    /// CPU usage of all CPUs, 0 to 100.
    pub host_percent: Option<f64>,
    /// Number of CPUs.
    pub cores: u32,
    /// CPUs that our threads used, at both ends. `None` if the part of one end is unknown.
    pub ours: Option<f64>,
    /// Number of CPUs that our threads run on, none before a run, and how many of them were busy.
    /// `None` if unknown.
    pub taken: Option<(u32, f64)>,
}

/// H17: no other program used the host, or the CPUs that we ran on: on a large host one neighbour
/// on our CPUs is a small share of the host, and may be half of our CPU time.
pub fn nobody_else(host: HostUse) -> Check {
    let check = |verdict, evidence: String| Check::new("H17", "nobody-else", verdict, evidence);
    let HostUse { host_percent, cores, ours, taken } = host;
    let (Some(busy), Some(ours), true) = (host_percent, ours, cores > 0) else {
        return check(Verdict::Unknown, "CPU use of other programs was not measured".to_owned());
    };
    // Threads have separate clocks in the kernel, in addition to its counts per CPU.
    let all = busy / 100.0 * f64::from(cores);
    if all < ACCOUNTS_SHARE * ours - ACCOUNTS_CORES {
        let words = "this process alone used more CPU time than all CPUs were busy";
        return check(Verdict::Unknown, format!("{words}: {ours:.2} and {all:.2} cores"));
    }
    let of_all = (busy - ours / f64::from(cores) * 100.0).max(0.0);
    let of_taken = taken.filter(|(count, _)| *count > 0).map(|(count, busy)| {
        let others = (busy - ours).max(0.0) / f64::from(count) * 100.0;
        let processors = match count {
            1 => "the CPU".to_owned(),
            _ => format!("the {count} CPUs"),
        };
        (others, format!(", {others:.0} % of {processors} of the run"))
    });
    let (of_taken, taken_words) = of_taken.unwrap_or_default();
    let evidence = format!(
        "other programs or interrupts used {of_all:.0} % of the CPU{taken_words} (at most 10)"
    );
    match of_all.max(of_taken) > OTHERS_PERCENT {
        true => check(Verdict::Warn, evidence)
            .mend("top -H -d 1 (find the other program; stop it, or choose other CPUs: --cores)"),
        false if taken.is_none() => {
            let words = "the utilization of the run's CPUs is not known";
            check(Verdict::Unknown, format!("{evidence}; {words}"))
        }
        false => check(Verdict::Pass, evidence),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// H17 detects: other processes use half of the host.
    /// H17 accepts: all load is the run's own.
    #[test]
    fn others_are_noticed() {
        let verdict = |host_percent, ours| {
            let taken = Some((0, 0.0));
            nobody_else(HostUse { host_percent, ours, cores: 2, taken }).verdict
        };
        assert_eq!(verdict(Some(100.0), Some(1.95)), Verdict::Pass);
        assert_eq!(verdict(Some(99.0), Some(1.03)), Verdict::Warn);
        assert_eq!(verdict(Some(50.0), Some(1.2)), Verdict::Pass);
        assert_eq!(verdict(Some(50.0), None), Verdict::Unknown);
        let none = HostUse { host_percent: Some(50.0), ours: Some(1.0), ..HostUse::default() };
        assert_eq!(nobody_else(none).verdict, Verdict::Unknown);
        // On a large host a neighbour on our own CPU shows nowhere else.
        let some = HostUse { cores: 2, ours: Some(1.0), host_percent: Some(50.0), taken: None };
        assert_eq!(nobody_else(some).verdict, Verdict::Unknown);
    }

    /// H17 detects: idle CPUs, and another process that used one of them.
    #[test]
    fn two_accounts_must_agree() {
        let host = |busy, ours| HostUse {
            host_percent: Some(busy),
            cores: 2,
            ours: Some(ours),
            taken: Some((1, busy / 100.0)),
        };
        let lie = nobody_else(host(0.0, 0.9));
        assert_eq!(lie.verdict, Verdict::Unknown);
        assert!(lie.evidence.contains("0.90 and 0.00 cores"), "{lie:?}");
        assert_eq!(nobody_else(host(42.0, 1.0)).verdict, Verdict::Pass);
    }

    /// H17 detects: another process uses half of the run's only CPU of 64.
    /// H17 accepts: another process uses 5 % of that CPU.
    #[test]
    fn a_neighbour_on_our_own_processor_is_noticed_on_a_large_host() {
        // 64 CPUs, of which we use one; another program uses half of it.
        let host = |ours, busy| HostUse {
            host_percent: Some(100.0 / 64.0),
            cores: 64,
            ours: Some(ours),
            taken: Some((1, busy)),
        };
        let check = nobody_else(host(0.5, 1.0));
        assert_eq!((check.verdict, check.mend.len()), (Verdict::Warn, 1), "{check:?}");
        assert!(check.evidence.contains("50 % of the CPU of the run"), "{check:?}");
        assert_eq!(nobody_else(host(0.95, 1.0)).verdict, Verdict::Pass);
    }
}
