//! Waits of the worker's thread for a processor.

use super::*;

/// A worker whose thread starts I/Os, then is away for 900 µs.
fn away(workload: &Workload) -> Box<Interval> {
    let mut worker = worker(Lane::new(100 * US, 0), workload);
    worker.begin(Nanos(0), interval(&worker));
    worker.start(Nanos(0));
    let (start, end) = (Nanos(100 * US), Nanos(MS));
    worker.step(start, Order::Run);
    worker.count_wait(end.since(start));
    worker.step(end, Order::Run);
    let empty = interval(&worker);
    worker.take_interval(end, empty)
}

#[test]
fn a_closed_loop_waits_in_each_io() {
    let done = away(&Workload::new(Access::new(4096, 100.0, 100.0), 4));
    assert_eq!((done.ios(), done.latencies().mean()), (4, Some(900e3)));
    assert_eq!(done.mean_wait_ns(), Some(900e3));
    let mut whole = Interval::new();
    assert_eq!(whole.mean_wait_ns(), None);
    whole.merge(&done);
    whole.merge(&done);
    assert_eq!(whole.mean_wait_ns(), Some(900e3));
    whole.clear();
    assert_eq!(whole, Interval::new());
}

#[test]
fn planned_ios_wait_from_their_times() {
    let of = |outstanding| {
        let pacing = ios(10_000.0, Arrivals::Constant);
        let access = Access::new(512, 100.0, 100.0);
        away(&Workload { pacing, ..Workload::new(access, outstanding) })
    };
    let lag = |done: &Interval| {
        let lag = &done.paced.as_ref().unwrap().lag;
        u128::from(lag.count()) * lag.mean().unwrap() as u128
    };
    // The first was in flight; those due in the meantime had free slots.
    let done = of(16);
    let planned = done.waited_ns - u128::from(900 * US);
    assert!(planned > u128::from(3 * MS) && planned.abs_diff(lag(&done)) < 1000, "{planned}");
    // With one slot, the others would have waited for it anyway.
    assert!(of(1).waited_ns <= u128::from(MS));
}
