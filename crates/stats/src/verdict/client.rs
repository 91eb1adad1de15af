//! H10: the rate is that of the storage, not that of the client's CPUs.

use serde::{Deserialize, Serialize};

use super::ceiling::Ceiling;
use super::{Check, Verdict};

/// Rate that the same workers reach on fewer CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FewerCores {
    /// Number of these CPUs.
    pub cores: u32,
    /// I/Os per second on these CPUs.
    pub iops: f64,
    /// I/Os per second on all CPUs of the run, in the same seconds.
    pub control_iops: f64,
    /// Length of each of the two windows, in seconds.
    pub seconds: f64,
}

/// Usage of the client's CPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// Number of CPUs of the workers.
    pub cores: u32,
    /// Number of busy CPUs among them, for whatever reason; `None` if not measured.
    pub busy: Option<f64>,
    /// Rate with fewer CPUs, if measured.
    pub fewer: Option<FewerCores>,
}

/// Busy share of the CPUs up to which half of them would suffice.
const IDLE_SHARE: f64 = 0.4;
/// Share of the rate from which on the rate is unaffected.
const HOLDS_SHARE: f64 = 0.9;

impl Client {
    /// Returns whether the CPUs were so busy that half of them may be too few, as far as known.
    pub fn may_bound(&self) -> bool {
        self.busy.is_none_or(|busy| busy > IDLE_SHARE * f64::from(self.cores))
    }
}

/// H10, by whether the rate would be the same with half of the client's CPUs. Null volumes have no
/// interrupts, no driver and no network: a [`Ceiling`] is above the rate of a client with real
/// volumes. `iops` is the rate of the run.
pub fn client(iops: f64, ceiling: &Ceiling, client: &Client) -> Check {
    let check = |verdict, words: String| Check::new("H10", "generator-ceiling", verdict, words);
    let Client { cores, busy, fewer } = client;
    if let Some(fewer) = fewer {
        return fewer.judge();
    }
    if *cores == 0 {
        return check(Verdict::Unknown, "the CPUs of the workers are not known".to_owned());
    }
    let busy_words = match busy {
        Some(busy) => format!("{busy:.2} of {cores} CPUs were busy"),
        None => "the CPU utilization is not known".to_owned(),
    };
    if !client.may_bound() {
        return check(Verdict::Pass, format!("{busy_words}: half of them would be enough"));
    }
    let share = iops / ceiling.iops;
    match *cores {
        // A single CPU cannot be halved: half of its capacity must be enough.
        1 if (0.0..=IDLE_SHARE).contains(&share) => {
            let words = format!(
                "{busy_words}, waiting or working, at {:.0} % of what the generator can do there \
                 (at most 40)",
                share * 100.0
            );
            check(Verdict::Pass, words)
        }
        _ => {
            let words = format!(
                "{busy_words}: whether the rate holds with half of them is not \
                known"
            );
            check(Verdict::Unknown, words)
                .mend("the same job without --verify, or on one CPU (--cores 0)")
        }
    }
}

impl FewerCores {
    fn judge(&self) -> Check {
        let check = |verdict, words: String| Check::new("H10", "generator-ceiling", verdict, words);
        let FewerCores { cores, iops, control_iops, seconds } = self;
        let share = iops / control_iops;
        if !(share.is_finite() && control_iops.is_finite() && *control_iops > 0.0) {
            let words = format!("no I/O completed on {cores} of the CPUs");
            return check(Verdict::Unknown, words);
        }
        let words = format!(
            "with half of the CPUs ({cores}) {:.0} % of the rate is left (at least 90): {iops:.0} \
             of {control_iops:.0} IOPS, {seconds:.0} s each",
            share * 100.0
        );
        match share >= HOLDS_SHARE {
            true => check(Verdict::Pass, words),
            false => check(Verdict::Warn, format!("the client is part of the rate: {words}"))
                .mend("--workers N on more --cores, until the rate no longer rises"),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn ceiling(iops: f64) -> Ceiling {
        Ceiling { iops, ..Ceiling::default() }
    }

    /// H10 detects: half of the CPUs reach 60 % of the rate.
    /// H10 accepts: half of the CPUs reach the whole rate; idle CPUs.
    #[test]
    fn a_rate_of_the_client_is_said() {
        let judge = |busy, fewer: Option<(f64, f64)>| {
            let fewer = fewer.map(|(iops, control_iops)| FewerCores {
                cores: 2,
                iops,
                control_iops,
                seconds: 1.0,
            });
            client(100.0, &ceiling(1e4), &Client { cores: 4, busy, fewer })
        };
        let bound = judge(Some(4.0), Some((60.0, 100.0)));
        assert_eq!((bound.verdict, bound.mend.len()), (Verdict::Warn, 1));
        assert!(bound.evidence.contains("60 % of the rate is left"), "{bound:?}");
        assert_eq!(judge(Some(4.0), Some((90.0, 100.0))).verdict, Verdict::Pass);
        assert_eq!(judge(Some(4.0), Some((130.0, 100.0))).verdict, Verdict::Pass);
        assert_eq!(judge(Some(1.6), None).verdict, Verdict::Pass);
        assert_eq!(judge(Some(1.7), None).verdict, Verdict::Unknown);
        assert_eq!(judge(None, None).verdict, Verdict::Unknown);
        for nothing in [0.0, f64::NAN, f64::INFINITY] {
            assert_eq!(judge(None, Some((60.0, nothing))).verdict, Verdict::Unknown, "{nothing}");
        }
    }

    #[test]
    fn one_processor_cannot_be_halved() {
        let judge = |iops, all| {
            let one = Client { cores: 1, busy: Some(1.0), fewer: None };
            client(iops, &ceiling(all), &one).verdict
        };
        assert_eq!(judge(40.0, 100.0), Verdict::Pass);
        assert_eq!(judge(41.0, 100.0), Verdict::Unknown);
        assert_eq!(judge(41.0, 0.0), Verdict::Unknown);
        let none = client(1.0, &ceiling(100.0), &Client::default());
        assert_eq!(none.verdict, Verdict::Unknown);
    }
}
