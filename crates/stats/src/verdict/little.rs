//! Little's law holds for every honest set of counters.

use crate::interval::Interval;
use crate::verdict::{Check, Verdict};

/// The three numbers of Little's law, and how many I/Os they rest on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// I/Os that were done.
    pub ios: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Mean number under way, from the time integral.
    pub mean_outstanding: f64,
    /// Mean latency in nanoseconds.
    pub mean_latency_ns: f64,
    /// Of those under way on average, what is in no latency: I/Os that cross the ends of the
    /// window, and those that failed. May be below zero.
    pub mean_unsettled: f64,
}

impl Flow {
    /// The flow of an interval.
    pub fn of(interval: &Interval) -> Flow {
        Flow {
            ios: interval.ios(),
            iops: interval.iops(),
            mean_outstanding: interval.mean_outstanding(),
            mean_latency_ns: interval.latencies().mean().unwrap_or(0.0),
            mean_unsettled: interval.mean_unsettled(),
        }
    }

    /// What should be under way by the rate and the latency, and by what is in no latency.
    fn expected_outstanding(&self) -> f64 {
        self.iops * self.mean_latency_ns / 1e9 + self.mean_unsettled
    }

    /// How far that is off, as a share of what is under way.
    fn mismatch(&self) -> f64 {
        (self.expected_outstanding() / self.mean_outstanding - 1.0).abs()
    }
}

/// More than this share between outstanding and IOPS × latency is an error of accounting.
const LITTLE_TOLERANCE: f64 = 0.05;
/// Fewer I/Os than this prove nothing.
const LITTLE_IOS: u64 = 1000;

/// H11: what is outstanding must be what arrives times how long it stays.
///
/// An I/O must be outstanding from the instant that its latency counts from, which in an open
/// loop is its planned start. The law is exact for a window of any length if I/Os that cross its
/// ends count by their part in it; a host that stood still there changes nothing. The worst of the
/// flows decides; flows with too few I/Os are left out.
pub fn littles_law(flows: &[(String, Flow)]) -> Check {
    let check = |verdict, evidence| Check::new("H11", "littles-law", verdict, evidence);
    let enough = |flow: &Flow| flow.ios >= LITTLE_IOS && flow.mean_outstanding > 0.0;
    let judged = flows.iter().filter(|(_, flow)| enough(flow));
    let worst = judged.clone().max_by(|(_, a), (_, b)| a.mismatch().total_cmp(&b.mismatch()));
    let Some((name, flow)) = worst else {
        return check(Verdict::Unknown, "too few I/Os to hold them against Little's law".into());
    };
    let evidence = format!(
        "{name}: {:.2} outstanding, {:.2} = {:.0} IOPS × {:.1} µs {:+.2} across the ends or \
         failed ({:.1} % apart, at most 5 %); {} of {} flows judged",
        flow.mean_outstanding,
        flow.expected_outstanding(),
        flow.iops,
        flow.mean_latency_ns / 1e3,
        flow.mean_unsettled,
        flow.mismatch() * 100.0,
        judged.count(),
        flows.len(),
    );
    let fits = flow.mismatch() <= LITTLE_TOLERANCE;
    check(if fits { Verdict::Pass } else { Verdict::Fail }, evidence)
}

#[cfg(test)]
mod test {
    use super::*;

    fn flow(ios: u64, iops: f64, mean_outstanding: f64, us: f64) -> (String, Flow) {
        let mean_latency_ns = us * 1e3;
        let flow = Flow { ios, iops, mean_outstanding, mean_latency_ns, mean_unsettled: 0.0 };
        ("worker 1".to_owned(), flow)
    }

    #[test]
    fn little_judges_the_worst_flow_that_is_long_enough() {
        let good = flow(1_000_000, 100_000.0, 32.0, 320.0);
        let check = littles_law(std::slice::from_ref(&good));
        assert_eq!(check.verdict, Verdict::Pass);
        assert!(check.evidence.contains("32.00 = 100000 IOPS × 320.0 µs +0.00"), "{check:?}");
        let bad = flow(1_000_000, 100_000.0, 34.0, 320.0);
        assert_eq!(littles_law(&[good.clone(), bad]).verdict, Verdict::Fail);
        let short = flow(999, 100_000.0, 99.0, 320.0);
        assert_eq!(littles_law(std::slice::from_ref(&short)).verdict, Verdict::Unknown);
        assert_eq!(littles_law(&[good, short]).verdict, Verdict::Pass);
        // Stood still for 100 ms before the window: its latencies reach back there.
        let mut reaches_back = flow(1_000_000, 100_000.0, 32.0, 352.0);
        assert_eq!(littles_law(std::slice::from_ref(&reaches_back)).verdict, Verdict::Fail);
        reaches_back.1.mean_unsettled = -3.2;
        let check = littles_law(&[reaches_back]);
        assert_eq!(check.verdict, Verdict::Pass);
        assert!(check.evidence.contains("× 352.0 µs -3.20 across"), "{check:?}");
        assert_eq!(littles_law(&[]).verdict, Verdict::Unknown);
    }
}
