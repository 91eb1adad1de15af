//! Little's law holds for every honest set of counters, to the nanosecond.

use crate::histogram::Latencies;
use crate::interval::Interval;
use crate::verdict::{Check, Verdict};

/// Sums of Little's law.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flow {
    /// Number of recorded latencies.
    pub samples: u64,
    /// Sum of the latencies in nanoseconds.
    pub latency_ns: u128,
    /// Number of I/Os in flight, integrated over time.
    pub outstanding_ns: i128,
    /// Part of `outstanding_ns` that is in no latency, less the part of the latencies outside the
    /// window: see [`Interval::unsettled_ns`].
    pub unsettled_ns: i128,
    /// Length of the window.
    pub span_ns: u64,
}

/// All flows of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flows {
    /// All workers together first, then each worker.
    pub each: Vec<(String, Flow)>,
    /// Results of the seconds.
    pub seconds: Seconds,
}

/// Results of the seconds, one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    count: u64,
    /// The second with the greatest mismatch, and its end.
    worst: Option<(f64, Flow)>,
    /// Number of seconds with I/Os in flight and no completion, and the end of the first of them.
    silent: u64,
    first_silent_s: f64,
}

impl Flow {
    /// Returns the flow of an interval with these latencies.
    pub fn of(interval: &Interval, latencies: &Latencies) -> Flow {
        Flow {
            samples: latencies.count(),
            latency_ns: latencies.sum(),
            outstanding_ns: interval.outstanding_ns(),
            unsettled_ns: interval.unsettled_ns,
            span_ns: interval.end.since(interval.start).0,
        }
    }

    /// Returns the expected I/Os in flight: from the latencies, and the parts in none.
    fn expected_ns(&self) -> i128 {
        self.latency_ns as i128 + self.unsettled_ns
    }

    /// Returns the mismatch as a share of the I/Os in flight.
    fn mismatch(&self) -> f64 {
        let (is, should) = (self.outstanding_ns, self.expected_ns());
        let apart = is.abs_diff(should) as f64;
        if apart > 0.0 { apart / is.unsigned_abs().max(1) as f64 } else { 0.0 }
    }

    /// Returns whether I/Os were in flight, and none has a known latency.
    fn is_silent(&self) -> bool {
        self.samples == 0 && self.outstanding_ns > 0
    }

    fn mean(&self, sum_ns: f64) -> f64 {
        sum_ns / self.span_ns.max(1) as f64
    }

    fn words(&self) -> String {
        let mean_us = self.latency_ns as f64 / self.samples.max(1) as f64 / 1e3;
        format!(
            "{:.2} in flight; {:.2} by {} latencies of {mean_us:.1} µs on average and {:+.2} \
            outside the window or failed ({} ns apart)",
            self.mean(self.outstanding_ns as f64),
            self.mean(self.expected_ns() as f64),
            self.samples,
            self.mean(self.unsettled_ns as f64),
            self.outstanding_ns.abs_diff(self.expected_ns()),
        )
    }
}

impl Seconds {
    /// Adds the second that ends at `t_s`.
    pub(crate) fn note(&mut self, t_s: f64, second: &Interval, latencies: &Latencies) {
        let flow = Flow::of(second, latencies);
        self.count += 1;
        if self.worst.is_none_or(|(_, worst)| flow.mismatch() > worst.mismatch()) {
            self.worst = Some((t_s, flow));
        }
        if flow.is_silent() {
            if self.silent == 0 {
                self.first_silent_s = t_s;
            }
            self.silent += 1;
        }
    }
}

/// Maximum mismatch: all sums are of whole nanoseconds, and equal, so more than a billionth is an
/// error of accounting. One I/O that is lost, or counted twice, among millions is more than that.
const LITTLE_TOLERANCE: f64 = 1e-9;

/// H11: I/Os in flight must equal the arrival rate times the latency.
///
/// An I/O must count as in flight from the instant that its latency counts from, which in an open
/// loop is its planned start. The law is exact for a window of any length if I/Os that cross its
/// ends count by their part in it; a stall of the host in the window changes nothing. The worst of
/// the flows decides: all workers, each worker and each second, however few I/Os they had. A flow
/// with I/Os in flight and without a latency proves nothing, which is a reservation.
pub fn littles_law(flows: &Flows) -> Check {
    let check = |verdict, evidence| Check::new("H11", "littles-law", verdict, evidence);
    let Flows { each, seconds } = flows;
    let second =
        seconds.worst.map(|(t_s, flow)| (format!("the second that ends at {t_s:.1} s"), flow));
    // Among equal mismatches, that of all workers decides.
    let all = second.iter().chain(each.iter().rev());
    let Some((name, flow)) = all
        .filter(|(_, flow)| flow.outstanding_ns > 0 || flow.latency_ns > 0)
        .max_by(|(_, a), (_, b)| a.mismatch().total_cmp(&b.mismatch()))
    else {
        return check(Verdict::Unknown, "no I/O in flight".into());
    };
    let judged = format!("{} flows and {} seconds judged", each.len(), seconds.count);
    let worst = format!("{name}: {}; {judged}", flow.words());
    if flow.mismatch() > LITTLE_TOLERANCE {
        let mend = "drumfire run JOB --seed N again; if the result is the same, report it as a \
            bug of drumfire";
        return check(Verdict::Fail, worst).mend(mend);
    }
    let silent = seconds.silent_words();
    let mut dumb = each.iter().filter(|(_, flow)| flow.is_silent());
    match dumb.next() {
        Some((name, flow)) => {
            let others = match dumb.count() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let outstanding = flow.mean(flow.outstanding_ns as f64);
            let words = format!(
                "{name}{others}: {outstanding:.2} in flight, and no latency for comparison; \
                {worst}{silent}"
            );
            check(Verdict::Warn, words).mend(
                "--seconds 60 (a worker without a latency by then \
                is stuck)",
            )
        }
        None => check(Verdict::Pass, worst + &silent),
    }
}

impl Seconds {
    fn silent_words(&self) -> String {
        match self.silent {
            0 => String::new(),
            1 => format!("; no completion in the second that ends at {:.1} s", self.first_silent_s),
            more => format!(
                "; no completion in {more} seconds, the first of which ends at {:.1} s",
                self.first_silent_s
            ),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Returns one second with `samples` I/Os of `us` microseconds each.
    fn flow(samples: u64, us: u64) -> Flow {
        let latency_ns = u128::from(samples * us * 1000);
        let (outstanding_ns, span_ns) = (latency_ns as i128, SECOND_NS);
        Flow { samples, latency_ns, outstanding_ns, unsettled_ns: 0, span_ns }
    }

    fn judge(each: &[Flow]) -> Check {
        let named = |(number, flow): (usize, &Flow)| (format!("worker {number}"), *flow);
        let each = each.iter().enumerate().map(named).collect();
        littles_law(&Flows { each, seconds: Seconds::default() })
    }

    /// H11 detects: an I/O of one of three workers is lost, counted twice, or began too early.
    /// H11 accepts: latencies that begin before the window, counted by their part in the window.
    #[test]
    fn the_law_is_exact_and_the_worst_flow_decides() {
        let good = flow(1_000_000, 320);
        let check = judge(&[good]);
        assert_eq!(check.verdict, Verdict::Pass);
        let words = "320.00 in flight; 320.00 by 1000000 latencies of 320.0 µs on average";
        assert!(check.evidence.contains(words), "{check:?}");
        // One of ten thousand is lost, counted twice, or counts from too early.
        for lie_ns in [-320_000, 320_000, 17_000] {
            let mut few = flow(10_000, 320);
            few.latency_ns = (few.latency_ns as i128 + lie_ns) as u128;
            let check = judge(&[good, few, good]);
            assert_eq!(check.verdict, Verdict::Fail, "{lie_ns}");
            assert!(check.evidence.starts_with("worker 1: 3.20 in flight"), "{check:?}");
        }
        // The host stalled for 100 ms before the window: its latencies reach back there.
        let mut reaches_back = flow(1000, 320);
        reaches_back.latency_ns += 100_000_000;
        assert_eq!(judge(&[reaches_back]).verdict, Verdict::Fail);
        reaches_back.unsettled_ns = -100_000_000;
        assert_eq!(judge(&[reaches_back]).verdict, Verdict::Pass);
        assert_eq!(judge(&[]).verdict, Verdict::Unknown);
        assert_eq!(judge(&[Flow::default()]).verdict, Verdict::Unknown);
    }

    /// H11 detects: two workers hold I/Os and report no latency.
    #[test]
    fn who_has_no_latency_is_named() {
        let (outstanding_ns, span_ns) = (2_000_000_000, SECOND_NS);
        let unsettled_ns = 2_000_000_000;
        let dumb = Flow { outstanding_ns, span_ns, unsettled_ns, ..Flow::default() };
        let check = judge(&[flow(9, 1000), dumb, dumb, Flow::default()]);
        assert_eq!(check.verdict, Verdict::Warn);
        let words = "worker 1 and 1 more: 2.00 in flight, and no latency";
        assert!(check.evidence.contains(words), "{check:?}");
    }

    /// H11 detects: 5 µs of one second are missing.
    /// H11 accepts: a second in which no I/O completed.
    #[test]
    fn each_second_is_judged_and_silence_is_told() {
        let second = |latency_ns: u64, unsettled_ns: i128| {
            let mut second = Interval::new();
            (second.start, second.end) = (block::Nanos(0), block::Nanos(SECOND_NS));
            second.outstanding_ns = SECOND_NS.into();
            second.unsettled_ns = unsettled_ns;
            if latency_ns > 0 {
                second.record(block::Op::Read, 512, block::Nanos(latency_ns));
            }
            second
        };
        let check = |rows: &[Interval]| {
            let mut seconds = Seconds::default();
            for (row, t_s) in rows.iter().zip([1.0, 2.0, 3.0]) {
                seconds.note(t_s, row, &row.latencies());
            }
            littles_law(&Flows { each: vec![("all".into(), flow(100, 10))], seconds })
        };
        let stalled = [second(SECOND_NS, 0), second(0, 1_000_000_000), second(SECOND_NS, 0)];
        let found = check(&stalled);
        assert_eq!(found.verdict, Verdict::Pass);
        assert!(found.evidence.contains("no completion in the second that ends at 2.0 s"));
        let found = check(&[second(SECOND_NS, 0), second(SECOND_NS - 5000, 0)]);
        assert_eq!(found.verdict, Verdict::Fail);
        assert!(found.evidence.contains("the second that ends at 2.0 s: 1.00 in flight"));
    }
}
