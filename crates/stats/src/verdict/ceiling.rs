//! H10: the storage, and not the generator, was the limit.

use serde::{Deserialize, Serialize};

use super::{Check, Verdict};

/// Rate that the generator reaches without storage: the same workload, on the same cores, on null
/// volumes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// I/Os per second.
    pub iops: f64,
    /// Length of the measured window, in seconds.
    pub seconds: f64,
    /// Description of the volumes driven instead of the job's.
    pub against: String,
    /// True if those volumes cost CPU time themselves: the generator alone reaches this rate or
    /// more.
    pub at_least: bool,
}

/// Share of the ceiling above which the run may have measured the generator.
const CEILING_SHARE: f64 = 0.80;
/// Share of the ceiling from which on the run measured the generator.
const ALL_SHARE: f64 = 0.95;

/// H10: the generator is not the limit. `iops` is the rate of the run, `ceiling` the rate of the
/// generator without storage, `None` if not measured.
///
/// A rate of [`ALL_SHARE`] of the ceiling is the generator's own rate, whatever storage the run
/// names, unless the ceiling is a lower bound.
pub fn generator_ceiling(iops: f64, ceiling: Option<&Ceiling>) -> Check {
    let check = |verdict, evidence| Check::new("H10", "generator-ceiling", verdict, evidence);
    let Some(ceiling) = ceiling else {
        return check(Verdict::Unknown, "generator limit not measured; add --ceiling".to_owned())
            .mend("--ceiling (measures it after the run)");
    };
    if !(iops.is_finite() && ceiling.iops.is_finite() && ceiling.iops > 0.0) {
        return check(Verdict::Unknown, format!("no I/O completed on {}", ceiling.against));
    }
    let share = iops / ceiling.iops;
    let (verdict, word) = match () {
        () if share >= ALL_SHARE && !ceiling.at_least => (Verdict::Fail, "generator-bound: "),
        () if share > CEILING_SHARE => (Verdict::Warn, "possibly generator-bound: "),
        () => (Verdict::Pass, ""),
    };
    let evidence = format!(
        "{word}{:.0} % of the {}{:.0} IOPS that the same workload reaches on {} (at most 80)",
        share * 100.0,
        if ceiling.at_least { "at least " } else { "" },
        ceiling.iops,
        ceiling.against,
    );
    let made = check(verdict, evidence);
    match verdict {
        Verdict::Pass | Verdict::Unknown => made,
        _ => {
            made.mend("--workers N on more --cores, or larger I/Os, which cost the generator less")
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// H10 detects: 95 % of the load generator's ceiling.
    /// H10 accepts: 80 % of the load generator's ceiling.
    #[test]
    fn the_generator_has_a_ceiling() {
        let verdict = |iops, ceiling, at_least| {
            let ceiling = Ceiling { iops: ceiling, at_least, ..Ceiling::default() };
            generator_ceiling(iops, Some(&ceiling)).verdict
        };
        assert_eq!(verdict(80.0, 100.0, false), Verdict::Pass);
        assert_eq!(verdict(80.1, 100.0, false), Verdict::Warn);
        assert_eq!(verdict(94.9, 100.0, false), Verdict::Warn);
        assert_eq!(verdict(95.0, 100.0, false), Verdict::Fail);
        assert_eq!(verdict(300.0, 100.0, false), Verdict::Fail);
        assert_eq!(verdict(300.0, 100.0, true), Verdict::Warn, "the real ceiling may be higher");
        assert_eq!(verdict(80.0, 100.0, true), Verdict::Pass);
        for nothing in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(verdict(10.0, nothing, false), Verdict::Unknown, "{nothing}");
        }
        assert_eq!(verdict(f64::NAN, 100.0, false), Verdict::Unknown);
        assert_eq!(generator_ceiling(10.0, None).verdict, Verdict::Unknown);
    }
}
