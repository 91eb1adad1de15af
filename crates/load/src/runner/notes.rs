//! Notes for the reader of a result, in sentences.

use std::collections::BTreeSet;

use stats::{Collector, Interval, Origin, Waiting};
use volume::Hidden;

use super::patience;
use crate::run::Prepared;
use job::spec::{RunSpec, Steady};

/// Emulated drives, each once.
pub(super) fn emulated(run: &Prepared) -> impl Iterator<Item = String> {
    let all: BTreeSet<String> = run.driven().filter_map(|volume| volume.emulates()).collect();
    all.into_iter()
}

/// Faults injected by volumes of this process, each sentence once.
pub(super) fn incidents(run: &Prepared) -> impl Iterator<Item = String> {
    let all: BTreeSet<String> = run.driven().filter_map(|volume| volume.incidents()).collect();
    all.into_iter()
}

/// Returns failures below the volumes that no I/O shows, in this run, or before it and lasting;
/// each sentence once.
pub(super) fn hidden(run: &Prepared, before: &BTreeSet<Hidden>) -> Vec<String> {
    let all: BTreeSet<Hidden> = run.driven().flat_map(|volume| volume.hidden()).collect();
    let is_new = |one: &Hidden| one.lasts || !before.contains(one);
    all.into_iter().filter(is_new).map(|one| one.words).collect()
}

/// Overlapping writes of verified blocks are never in flight together: a pattern that repeats
/// offsets has some moved elsewhere, which flattens its distribution.
pub(super) fn displaced(collected: &Collector) -> Option<String> {
    let Interval { displaced, write, trim, .. } = collected.whole();
    let writes = write.ios + trim.ios;
    let percent = *displaced as f64 / writes.max(1) as f64 * 100.0;
    (percent >= 1.0).then(|| {
        format!(
            "{percent:.1} % of the writes were moved to another offset than that of the pattern: \
            with --verify, two writes to one block are never in flight together"
        )
    })
}

/// Describes the errors that verification of an earlier run cannot find.
pub(super) fn earlier(spec: &RunSpec) -> Option<String> {
    let mut verified = spec.workers.iter().filter_map(|worker| worker.workload.verify);
    verified.any(|verify| verify.earlier).then(|| {
        "reads were compared with the stamps of an earlier run: if that run overwrote one of its \
        own blocks and lost the overwrite, it is not detected"
            .to_owned()
    })
}

/// All I/O ended within the ramp, which is measured therefore.
pub(super) fn within_ramp(spec: &RunSpec) -> String {
    let ramp = spec.ramp_seconds;
    format!(
        "all I/O completed within the ramp of {ramp} s: measured from the first I/O, not warmed up"
    )
}

/// I/Os that never completed count in no rate, and in latencies only as a lower bound.
pub(crate) fn unanswered_ios(run: &Prepared, ios: u64) -> Option<String> {
    let seconds = patience(run).as_secs_f64();
    let (were, count) = match ios {
        1 => ("1 I/O was".to_owned(), "counts"),
        _ => (format!("{ios} I/Os were"), "count"),
    };
    (ios > 0).then(|| format!("{were} unanswered {seconds} s after the end, and {count} as failed"))
}

/// I/Os that a hurried user did not wait for.
pub(super) fn not_waited_for(waiting: Waiting) -> Option<String> {
    let Waiting { ios, oldest_ns } = waiting;
    let seconds = oldest_ns as f64 / 1e9;
    (ios > 0).then(|| format!("ended with {ios} I/Os unanswered, the oldest for {seconds:.1} s"))
}

/// Whether a run that was to end once steady became so.
pub(crate) fn steadiness(steady: &Steady, at_s: Option<f64>) -> String {
    match at_s {
        Some(at_s) => format!("steady after {at_s:.0} s: {steady}"),
        None => format!("not steady before its end: {steady}"),
    }
}

/// One emulated volume makes the total emulated.
pub(super) fn origin(run: &Prepared) -> Origin {
    if emulated(run).next().is_some() { Origin::Emulated } else { Origin::Measured }
}
