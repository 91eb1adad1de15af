//! The answer of `plan` for the work of a simulated run: a simulation is of the network alone, so
//! the corrected figure stands next to it.

use job::spec::{Access, Line, WorkerSpec};

use crate::answer::Answer;
use crate::bill::{Bill, Work};

/// Answer of `plan` for a bill with these drives under the work of these workers. `None` if a bill
/// cannot describe the work, such as I/Os at a rate or of several sizes, or has no answer.
pub fn answer(
    bill: &Bill,
    workers: &[WorkerSpec],
    drives: usize,
    (draws, seed): (u32, u64),
) -> Option<Answer> {
    Answer::of(&under(bill, workers, drives)?, draws, seed).ok()
}

/// The line of the answer.
pub fn line(found: &Answer) -> String {
    let rate = block::Rate;
    let range = found.range.map_or_else(String::new, |range| {
        format!(", p10 {}, p90 {}", rate(range.p10), rate(range.p90))
    });
    format!(
        "predicted by plan: {} IOPS{range}; this run is the network of the parts alone, \
         uncorrected by published results",
        rate(found.iops)
    )
}

/// The bill with the work of the workers: each drives one drive, and all work alike.
fn under(bill: &Bill, workers: &[WorkerSpec], drives: usize) -> Option<Bill> {
    let first = &workers.first()?.workload;
    let depth = |uri: &str| {
        let there = workers.iter().filter(|worker| worker.uri == uri);
        there.map(|worker| worker.workload.outstanding).sum::<u32>()
    };
    let mut uris: Vec<&str> = workers.iter().map(|worker| worker.uri.as_str()).collect();
    uris.sort_unstable();
    uris.dedup();
    let outstanding = depth(uris.first()?);
    let alike = |worker: &WorkerSpec| {
        let workload = &worker.workload;
        workload.access == first.access && !workload.is_paced() && workload.refill_at.is_none()
    };
    let equal = uris.len() == drives && uris.iter().all(|uri| depth(uri) == outstanding);
    if !equal || !workers.iter().all(alike) || has_more(bill) {
        return None;
    }
    let line = only_line(&first.access)?;
    let sequential = match line.random_percent {
        100.0 => false,
        0.0 => true,
        _ => return None,
    };
    let mut bill = bill.clone();
    bill.setup.sequential = sequential;
    bill.work = Work {
        size_bytes: f64::from(line.size_bytes),
        read_share: line.read_percent / 100.0,
        outstanding,
        flush: Some(first.access.flush_every).filter(|every| *every > 0),
    };
    Some(bill)
}

/// Whether a bill has more than one kind of work, or counts I/Os in flight over all drives.
fn has_more(bill: &Bill) -> bool {
    bill.setup.in_flight.is_some() || !bill.setup.streams.is_empty()
}

/// The only line of an access that has no more than a size, a mix, an order and flushes.
fn only_line(access: &Access) -> Option<Line> {
    let [line] = access.lines[..] else { return None };
    let plain = Access { flush_every: access.flush_every, ..Access::of(vec![line]) };
    let bare = Line { align_bytes: line.align_bytes, ..Line::new(line.size_bytes, 0.0, 0.0) };
    let (read_percent, random_percent) = (line.read_percent, line.random_percent);
    (*access == plain && line == Line { read_percent, random_percent, ..bare }).then_some(line)
}
