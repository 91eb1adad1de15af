//! What a reader of a result should know, in sentences.

use stats::{Collector, Interval, Origin, Waiting};

use super::patience;
use crate::run::Prepared;
use job::spec::{RunSpec, Steady};

/// What of it is emulated, each drive once.
pub(super) fn emulated(run: &Prepared) -> impl Iterator<Item = &str> {
    let all: std::collections::BTreeSet<&str> =
        run.driven().filter_map(|volume| volume.emulates()).collect();
    all.into_iter()
}

/// What faults the volumes of this process put into I/Os, each sentence once.
pub(super) fn incidents(run: &Prepared) -> impl Iterator<Item = String> {
    let all: std::collections::BTreeSet<String> =
        run.driven().filter_map(|volume| volume.incidents()).collect();
    all.into_iter()
}

/// Two writes of a block that is compared are never in flight at once: a pattern that wants them
/// loses some to other places, which flattens its law.
pub(super) fn displaced(collected: &Collector) -> Option<String> {
    let Interval { displaced, write, other, .. } = collected.whole();
    let writes = write.ios + other.ios;
    let percent = *displaced as f64 / writes.max(1) as f64 * 100.0;
    (percent >= 1.0).then(|| {
        format!(
            "{percent:.1} % of the writes went to another offset than the pattern's: --verify \
             never has two writes to one block in flight"
        )
    })
}

/// What comparing with an earlier run cannot find.
pub(super) fn earlier(spec: &RunSpec) -> Option<String> {
    let mut verified = spec.workers.iter().filter_map(|worker| worker.workload.verify);
    verified.any(|verify| verify.earlier).then(|| {
        "reads were compared with the stamps of an earlier run: a lost overwrite of one of its own \
         blocks is not noticed"
            .to_owned()
    })
}

/// What never came back is in no rate, and in the latencies only as a lower bound.
pub(crate) fn unanswered_ios(run: &Prepared, ios: u64) -> Option<String> {
    let seconds = patience(run).as_secs_f64();
    let (were, count) = match ios {
        1 => ("1 I/O was".to_owned(), "counts"),
        _ => (format!("{ios} I/Os were"), "count"),
    };
    (ios > 0).then(|| {
        format!("{were} not answered within {seconds} s after the end, and {count} as failed")
    })
}

/// For what a user in a hurry did not wait.
pub(super) fn not_waited_for(waiting: Waiting) -> Option<String> {
    let Waiting { ios, oldest_ns } = waiting;
    let seconds = oldest_ns as f64 / 1e9;
    (ios > 0).then(|| {
        format!("ended before {ios} I/Os were answered, the oldest of which waited {seconds:.1} s")
    })
}

/// Whether a run became steady that was to end then.
pub(crate) fn steadiness(steady: &Steady, at_s: Option<f64>) -> String {
    match at_s {
        Some(at_s) => format!("steady after {at_s:.0} s: {steady}"),
        None => format!("not steady before its end: {steady}"),
    }
}

/// One emulated volume among others makes the sum a number that nothing real has.
pub(super) fn origin(run: &Prepared) -> Origin {
    if emulated(run).next().is_some() { Origin::Emulated } else { Origin::Measured }
}
