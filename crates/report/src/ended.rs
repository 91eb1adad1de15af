//! Outcome of the I/Os of a run, in words: "no errors" only if no problem is known.

use stats::{RunResult, Waiting};

use crate::connections;
use crate::figure;

/// Returns the problems of a run: failed I/Os, unanswered I/Os, lost connections, and those of the
/// ramp. Empty if there are none.
pub(crate) fn troubles(result: &RunResult) -> Vec<String> {
    let totals = &result.totals;
    let several = result.workers.len() > 1;
    let ramp = &totals.ramp;
    let ramp_lost = || connections::lost_and_made(ramp.connections_lost, ramp.reconnects);
    let lost = ramp.connections_lost > 0 || ramp.reconnects > 0;
    let before = [
        (totals.ramp_errors > 0).then(|| figure::plural(totals.ramp_errors, "error")),
        lost.then(ramp_lost),
    ];
    let before: Vec<String> = before.into_iter().flatten().collect();
    [
        (totals.errors > 0).then(|| figure::plural(totals.errors, "error")),
        waiting(&totals.waiting),
        totals.paced.as_ref().and_then(|paced| backlog(&paced.backlog)),
        connections::words(&totals.connections, several),
        (!before.is_empty()).then(|| format!("{} in the ramp", before.join(", "))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// I/Os of an open loop that were due: `4 I/Os due and not begun, the oldest for 4.00 s`.
fn backlog(backlog: &Waiting) -> Option<String> {
    let Waiting { ios, oldest_ns } = *backlog;
    let words = || {
        let (ios, oldest) = (figure::plural(ios, "I/O"), figure::span(oldest_ns as f64));
        format!("{ios} due and not begun, the oldest for {oldest}")
    };
    (!backlog.is_none()).then(words)
}

/// I/Os without an answer: `4 I/Os without an answer, the oldest for 4.00 s`.
pub(crate) fn waiting(waiting: &Waiting) -> Option<String> {
    let Waiting { ios, oldest_ns } = *waiting;
    let words = || {
        let (ios, oldest) = (figure::plural(ios, "I/O"), figure::span(oldest_ns as f64));
        format!("{ios} without an answer, the oldest for {oldest}")
    };
    (!waiting.is_none()).then(words)
}

/// Beginning and end of the measured window.
pub(crate) fn window(result: &RunResult) -> (jiff::Timestamp, jiff::Timestamp) {
    let started: jiff::Timestamp = result.started.parse().unwrap_or_default();
    // Rates omit times in which no worker was active, but these times pass.
    let last_s = result.intervals.last().map_or(0.0, |row| row.t);
    let seconds = result.totals.seconds.max(last_s).clamp(0.0, 1e9);
    (started, started + jiff::SignedDuration::from_millis((seconds * 1000.0) as i64))
}

#[cfg(test)]
mod test {
    use super::*;
    use stats::{Connections, PacedTotals, Ramp, Totals};

    #[test]
    fn whatever_did_not_end_well_is_told() {
        let of = |totals| troubles(&RunResult { totals, ..RunResult::default() });
        assert!(of(Totals::default()).is_empty());
        let waiting = Waiting { ios: 4, oldest_ns: 4_000_000_000 };
        let said = of(Totals { waiting, ..Totals::default() });
        assert_eq!(said, ["4 I/Os without an answer, the oldest for 4.00 s"]);
        let paced = Some(PacedTotals { backlog: waiting, ..PacedTotals::default() });
        let said = of(Totals { paced, ..Totals::default() });
        assert_eq!(said, ["4 I/Os due and not begun, the oldest for 4.00 s"]);
        let ramp = Ramp { connections_lost: 2, reconnects: 2 };
        let said = of(Totals { ramp_errors: 214, ramp, ..Totals::default() });
        assert_eq!(said, ["214 errors, 2 reconnects in the ramp"]);
        let connections =
            Connections { reconnects: 1, connections_lost: 1, ..Connections::default() };
        let said = of(Totals { errors: 1, connections, ..Totals::default() });
        assert_eq!(said, ["1 error", "1 reconnect, 0.0 s disconnected"]);
    }
}
