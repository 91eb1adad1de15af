//! Runs without a clock, on lanes with fixed service times.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use block::{Cause, Done, Geometry, Io};
use stats::SearchedDepth;

mod closing;

use super::*;
use crate::run::on;
use job::spec::{
    Access, Arrivals, Demand, Demands, DepthSearch, Pacing, Steady, Verify, WorkerSpec, Workload,
};

/// I/Os in flight on all lanes: due time, lane, and I/O.
type Shared = Rc<RefCell<VecDeque<(Nanos, usize, Io)>>>;

/// All I/Os take the same time: first in, first out.
struct Fixed {
    number: usize,
    service: Nanos,
    shared: Shared,
    ready: Rc<RefCell<Vec<Vec<Done>>>>,
}

impl Lane for Fixed {
    fn geometry(&self) -> Geometry {
        Geometry::new(1 << 30, 512)
    }
    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        let number = self.number;
        let due = ios.drain(..).map(|io| (now + self.service, number, io));
        self.shared.borrow_mut().extend(due);
    }
    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.ready.borrow_mut()[self.number]);
    }
    fn wake(&self) -> Option<Nanos> {
        None
    }
}

struct Medium(Shared, Rc<RefCell<Vec<Vec<Done>>>>);

impl Storage for Medium {
    fn next(&mut self) -> Option<Nanos> {
        self.0.borrow().front().map(|(at, _, _)| *at)
    }
    fn advance(&mut self, now: Nanos, workers: &mut Vec<usize>) {
        while self.next().is_some_and(|at| at <= now) {
            let (_, lane, io) = self.0.borrow_mut().pop_front().unwrap();
            let result = Ok(());
            self.1.borrow_mut()[lane].push(Done {
                tag: io.tag,
                result,
                cause: Cause::NONE,
                buf: io.buf,
            });
            workers.push(lane);
        }
    }
}

/// No view; ends the run after this many seconds.
pub(super) struct Ends(pub(super) u32);

impl Live for Ends {
    fn start(&mut self, about: &About) {
        assert_eq!(about.origin, Origin::Simulated);
    }
    fn update(&mut self, _: &Snapshot) -> Action {
        self.0 -= 1;
        if self.0 == 0 { Action::Stop } else { Action::Continue }
    }
    fn end(&mut self) {}
}

pub(super) fn spec(workers: u64, workload: &Workload, seconds: f64, ramp_seconds: f64) -> RunSpec {
    let workload = Arc::new(workload.clone());
    let worker = |number| WorkerSpec {
        name: format!("worker {number}"),
        uri: "null:1g".to_owned(),
        number,
        ..WorkerSpec::new(workload.clone())
    };
    let workers = (0..workers).map(worker).collect();
    RunSpec { workers, seconds, ramp_seconds, seed: 3, cores: vec![0], ..RunSpec::default() }
}

fn run(spec: &RunSpec, service_ns: u64, live: u32) -> Result<RunResult, RunError> {
    let (shared, count) = (Shared::default(), spec.workers.len());
    let ready = Rc::new(RefCell::new((0..count).map(|_| Vec::new()).collect::<Vec<_>>()));
    let lane = |number| -> Box<dyn Lane> {
        let (shared, ready) = (shared.clone(), ready.clone());
        Box::new(Fixed { number, service: Nanos(service_ns), shared, ready })
    };
    let lanes = (0..count).map(lane).collect();
    let mut storage = Medium(shared.clone(), ready.clone());
    let run = on("null:1g", spec.clone());
    Simulation::default().run(&run, lanes, &mut storage, &mut Ends(live))
}

pub(super) fn reads(outstanding: u32) -> Workload {
    Workload::new(Access::new(4096, 100.0, 100.0), outstanding)
}

#[test]
fn a_closed_loop_does_what_arithmetic_says() {
    let found = run(&spec(3, &reads(4), 2.0, 1.0), 100_000, 99).unwrap();
    // 12 in flight for 100 µs each.
    assert_eq!((found.totals.seconds, found.totals.iops), (2.0, 120_000.0));
    assert_eq!(found.totals.mean_outstanding, 12.0);
    assert_eq!(found.totals.latency_ns.mean, Some(100_000.0));
    assert_eq!((found.origin, found.intervals.len()), (Origin::Simulated, 2));
    assert_eq!((found.workers[2].ios, found.partial), (80_000, None));
    assert!(found.checks.iter().any(|check| check.code == "H11"));
    assert_eq!(found.class, Class::Indicative);
}

#[test]
fn the_same_seed_gives_the_same_bits_and_buffers_are_not_touched() {
    // 2 GiB of buffers, of which no page is touched.
    let mut workload = Workload::new(Access::new(1 << 20, 30.0, 100.0), 256);
    workload.pacing = Pacing::Ios { per_second: 5000.0, arrivals: Arrivals::Poisson };
    let one = run(&spec(8, &workload, 0.4, 0.1), 50_000, 99).unwrap();
    assert_eq!(one, run(&spec(8, &workload, 0.4, 0.1), 50_000, 99).unwrap());
    let other = RunSpec { seed: 4, ..spec(8, &workload, 0.4, 0.1) };
    assert_ne!(one.totals, run(&other, 50_000, 99).unwrap().totals);
    assert!((one.totals.iops / 40_000.0 - 1.0).abs() < 0.02, "{}", one.totals.iops);
    assert!((one.totals.read.iops / one.totals.iops - 0.3).abs() < 0.02);
}

#[test]
fn open_loops_count_from_the_plan() {
    // One at a time takes 100 µs, and 20,000 a second are planned: half of them cannot be done, and
    // the backlog grows. That half completes in the second after the window, and waits half a
    // second longer on average.
    let mut workload = reads(1);
    workload.pacing = Pacing::Ios { per_second: 20_000.0, arrivals: Arrivals::Constant };
    let found = run(&spec(1, &workload, 1.0, 0.0), 100_000, 99).unwrap();
    assert!((found.totals.iops - 10_000.0).abs() <= 1.0, "{}", found.totals.iops);
    let mean = found.totals.latency_ns.mean.unwrap();
    assert!((mean / 0.5e9 - 1.0).abs() < 0.01, "{mean}");
    assert_eq!(found.totals.paced.unwrap().service_ns.mean, Some(100_000.0));
}

#[test]
fn ends_when_told_and_says_so() {
    let found = run(&spec(1, &reads(1), 1000.0, 0.0), 100_000, 2).unwrap();
    assert_eq!(found.totals.seconds, 2.0);
    assert!(found.partial.unwrap().contains("2.0 of 1000 s"));
}

#[test]
fn what_cannot_be_simulated_is_refused() {
    let error = run(&spec(1, &reads(1), 1.0, 0.0), 0, 99).unwrap_err().to_string();
    assert!(error.contains("no time"), "{error}");
    let verified = Workload { verify: Some(Verify::default()), ..reads(1) };
    let error = run(&spec(1, &verified, 1.0, 0.0), 1, 99).unwrap_err().to_string();
    assert!(error.contains("stores no data"), "{error}");
    let filling = Workload { until_full: true, ..Workload::new(Access::new(512, 0.0, 0.0), 1) };
    let error = run(&spec(1, &filling, 1.0, 0.0), 1, 99).unwrap_err().to_string();
    assert!(error.contains("remove until_full"), "{error}");
    assert!(run(&spec(1, &reads(1), f64::NAN, 0.0), 1, 99).is_err());
    let write = Workload::new(Access::new(512, 0.0, 0.0), 1);
    assert!(write.writes() && run(&spec(1, &write, 0.1, 0.0), 1000, 99).is_ok());
}

#[test]
fn workers_begin_and_end_in_their_turn() {
    let mut spec = spec(3, &reads(1), 2.0, 0.0);
    for (group, worker) in spec.workers.iter_mut().enumerate() {
        worker.shift.group = group;
    }
    spec.workers[0].shift.when.seconds = Some(0.5);
    spec.workers[1].shift.after = vec![0];
    spec.workers[1].shift.when.delay_seconds = 0.25;
    let found = run(&spec, 100_000, 99).unwrap();
    assert_eq!((found.workers[0].ios, found.workers[0].seconds), (5000, 0.5));
    // The worker checks every millisecond whether its turn has come.
    let second = &found.workers[1];
    assert!((1.249..=1.25).contains(&second.seconds), "{}", second.seconds);
    // Rates are those of the time in which it worked.
    assert!((second.iops / 10_000.0 - 1.0).abs() < 0.001, "{}", second.iops);
    let third = &found.workers[2];
    assert!(third.ios.abs_diff(20_000) <= 1 && third.seconds == 2.0, "{third:?}");
    assert_eq!((found.totals.seconds, found.partial), (2.0, None));
    assert!(found.checks.iter().all(|check| check.verdict != stats::Verdict::Fail));
}

#[test]
fn who_has_ended_has_no_time_after_it() {
    let mut spec = spec(2, &reads(1), 5.0, 0.0);
    let limited = Workload { limit_ios: Some(2500), ..reads(1) };
    spec.workers[0].workload = Arc::new(limited);
    let found = run(&spec, 100_000, 99).unwrap();
    assert_eq!((found.workers[0].ios, found.workers[0].seconds), (2500, 0.25));
    assert_eq!((found.workers[0].iops, found.workers[1].seconds), (10_000.0, 5.0));
}

#[test]
fn an_open_loop_with_a_limit_ends_with_its_last_io() {
    // The next one would be due ten seconds later.
    let pacing = Pacing::Ios { per_second: 0.1, arrivals: Arrivals::Constant };
    let workload = Workload { limit_ios: Some(1), pacing, ..reads(1) };
    let found = run(&spec(1, &workload, 30.0, 0.0), 100_000, 99).unwrap();
    assert_eq!((found.totals.ios, found.partial), (1, None));
    assert!(found.totals.seconds < 10.0, "{}", found.totals.seconds);
}

#[test]
fn a_flush_at_the_end_belongs_to_the_window() {
    let writes = Workload { end_flush: true, ..Workload::new(Access::new(4096, 0.0, 100.0), 4) };
    let timed = run(&spec(1, &writes, 1.0, 0.0), 100_000, 99).unwrap();
    assert_eq!((timed.totals.write.ios, timed.totals.flush.ios), (40_000, 1));
    assert_eq!((timed.totals.seconds, timed.partial), (1.0001, None));
    let limited = Workload { limit_ios: Some(100), ..writes };
    let limited = run(&spec(1, &limited, 1.0, 0.0), 100_000, 99).unwrap();
    assert_eq!((limited.totals.write.ios, limited.totals.flush.ios), (100, 1));
    assert_eq!(limited.totals.seconds, 0.0026);
}

#[test]
fn all_end_with_the_first_if_that_is_wanted() {
    let mut spec = RunSpec { ends_with_first: true, ..spec(2, &reads(1), 9.0, 0.0) };
    spec.workers[0].workload = Arc::new(Workload { limit_ios: Some(100), ..reads(1) });
    let found = run(&spec, 100_000, 99).unwrap();
    assert!((0.01..0.012).contains(&found.totals.seconds), "{}", found.totals.seconds);
    assert_eq!(found.partial, None);
}

#[test]
fn a_run_may_end_when_it_is_steady() {
    let steady = Steady {
        of: job::spec::Quantity::Iops,
        slope: false,
        below: 1.0,
        percent: true,
        seconds: 3.0,
        after_seconds: 2.0,
        interval_seconds: 1,
    };
    let found =
        run(&RunSpec { steady: Some(steady), ..spec(1, &reads(1), 99.0, 1.0) }, 100_000, 99)
            .unwrap();
    assert_eq!((found.totals.seconds, found.partial), (5.0, None));
    assert!(found.warnings[0].starts_with("steady after 5 s: IOPS"), "{:?}", found.warnings);
    let never = Steady { seconds: 9.0, ..steady };
    let found =
        run(&RunSpec { steady: Some(never), ..spec(1, &reads(1), 4.0, 0.0) }, 100_000, 99).unwrap();
    assert_eq!(found.totals.seconds, 4.0);
    assert!(found.warnings[0].starts_with("not steady before its end"), "{:?}", found.warnings);
}

#[test]
fn a_search_stands_in_no_figure_and_what_is_not_kept_ends_a_worker() {
    let (latency_us, window_us, percent, goes_on) = (150, 20_000, 100.0, false);
    let search = DepthSearch { latency_us, window_us, percent, goes_on };
    let searches = Workload { depth_search: Some(search), ..reads(6) };
    let found = run(&spec(2, &searches, 9.0, 0.0), 100_000, 99).unwrap();
    let depth = SearchedDepth { depth: 6, found: true };
    assert_eq!((found.workers[1].searched, found.partial), (Some(depth), None));
    assert!((found.totals.seconds - 0.1).abs() < 1e-6, "{}", found.totals.seconds);
    assert_eq!(found.totals.iops.round(), 120_000.0);
    assert!(found.warnings[0].contains("queue depth 6"), "{:?}", found.warnings);
    // Together with a worker without a search, the search ends on its own, and counts.
    let mut beside = spec(2, &reads(6), 2.0, 0.0);
    beside.workers[0].workload = Arc::new(searches);
    let found = run(&beside, 100_000, 99).unwrap();
    assert_eq!((found.workers[0].searched, found.partial), (Some(depth), None));
    let alone_s = found.workers[0].seconds;
    assert!((0.05..0.2).contains(&alone_s) && found.workers[1].seconds > 1.9, "{alone_s}");
    // Other workers continue.
    let latency_us = 50;
    let demands = Demands {
        read: Demand { latency_us, ..Demand::default() },
        write: Demand::default(),
        trim: Demand::default(),
        every_ms: 1000,
    };
    let mut spec = spec(2, &reads(1), 3.0, 0.0);
    spec.workers[0].workload = Arc::new(Workload { demands: Some(demands), ..reads(1) });
    let found = run(&spec, 100_000, 99).unwrap();
    assert_eq!(found.workers[0].ios, 1);
    assert!(found.workers[1].ios > 29_000, "{}", found.workers[1].ios);
    assert_eq!(found.workers[0].missed.as_ref().unwrap().errno, 110);
    let partial = found.partial.unwrap();
    assert!(partial.contains("a read of 4k") && partial.contains("took 100000 ns"), "{partial}");
}

#[test]
fn each_worker_may_have_a_ramp_of_its_own() {
    let mut spec = spec(3, &reads(4), 10.0, 0.0);
    let starts = [(0.0, 2.25, Some(3.0)), (4.5, 1.5, None), (0.0, 0.0, None)];
    for ((group, worker), start) in (0..).zip(&mut spec.workers).zip(starts) {
        worker.shift.group = group;
        let when = &mut worker.shift.when;
        (when.delay_seconds, when.ramp_seconds, when.seconds) = start;
    }
    let result = run(&spec, 1_000_000, 99).unwrap();
    for (worker, seconds) in result.workers.iter().zip([3.0, 4.0, 10.0]) {
        // Four at a time, each of which takes a millisecond.
        let ios = seconds * 4000.0;
        assert!((worker.ios as f64 - ios).abs() < 10.0, "{} of {ios}", worker.ios);
    }
    assert_eq!(result.partial, None);
    // I/Os in flight at the end of a ramp are no accounting error.
    let little = result.checks.iter().find(|check| check.code == "H11").unwrap();
    assert_eq!(little.verdict, stats::Verdict::Pass, "{little:?}");
}
