//! Planted lies and their honest twins, in virtual time: the number checks on lanes that starve,
//! stall, drift and fall behind.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use block::{Cause, Done, Fault, Geometry, Io, Lane, Nanos, Rng};
use stats::live::{About, Action, Live, Snapshot};
use stats::{Class, RunResult, Verdict};

use super::*;
use crate::run::on;
use crate::simulation::{Simulation, Storage};
use job::spec::{Access, Arrivals, Pacing, Verify, Workload};

/// Service time of an I/O begun now, and whether it fails.
type Serves = Rc<RefCell<dyn FnMut(usize, Nanos) -> (Nanos, bool)>>;

#[derive(Default)]
struct Medium {
    /// I/Os in flight: due time, number, worker.
    due: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    ios: BTreeMap<u64, (Io, bool)>,
    ready: Vec<Vec<Done>>,
    next: u64,
}

struct Served {
    number: usize,
    serves: Serves,
    medium: Rc<RefCell<Medium>>,
}

impl Lane for Served {
    fn geometry(&self) -> Geometry {
        Geometry::new(1 << 30, 512)
    }
    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        let mut medium = self.medium.borrow_mut();
        for io in ios.drain(..) {
            let (takes, fails) = self.serves.borrow_mut()(self.number, now);
            let number = medium.next;
            medium.next += 1;
            medium.due.push(Reverse((now + takes, number, self.number)));
            medium.ios.insert(number, (io, fails));
        }
    }
    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.medium.borrow_mut().ready[self.number]);
    }
    fn wake(&self) -> Option<Nanos> {
        None
    }
}

impl Storage for Rc<RefCell<Medium>> {
    fn next(&mut self) -> Option<Nanos> {
        self.borrow().due.peek().map(|Reverse((at, ..))| *at)
    }
    fn advance(&mut self, now: Nanos, workers: &mut Vec<usize>) {
        while self.next().is_some_and(|at| at <= now) {
            let mut medium = self.borrow_mut();
            let Some(Reverse((_, number, worker))) = medium.due.pop() else { return };
            let Some((io, fails)) = medium.ios.remove(&number) else { return };
            let result = if fails { Err(Fault::Medium) } else { Ok(()) };
            let done = Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf };
            medium.ready[worker].push(done);
            workers.push(worker);
        }
    }
}

struct Nobody;

impl Live for Nobody {
    fn start(&mut self, _: &About) {}
    fn update(&mut self, _: &Snapshot) -> Action {
        Action::Continue
    }
    fn end(&mut self) {}
}

pub(super) fn spec(workers: usize, workload: &Workload, seconds: f64) -> RunSpec {
    let workload = Arc::new(workload.clone());
    let worker = |number: usize| WorkerSpec {
        name: format!("worker {}", number + 1),
        uri: format!("file:{number}"),
        number: number as u64,
        ..WorkerSpec::new(workload.clone())
    };
    let workers = (0..workers).map(worker).collect();
    RunSpec { workers, seconds, seed: 3, cores: vec![0], ..RunSpec::default() }
}

pub(super) fn run(
    spec: &RunSpec,
    serves: impl FnMut(usize, Nanos) -> (Nanos, bool) + 'static,
) -> RunResult {
    let serves: Serves = Rc::new(RefCell::new(serves));
    let count = spec.workers.len();
    let ready = (0..count).map(|_| Vec::new()).collect();
    let medium = Rc::new(RefCell::new(Medium { ready, ..Medium::default() }));
    let lane = |number| -> Box<dyn Lane> {
        Box::new(Served { number, serves: serves.clone(), medium: medium.clone() })
    };
    let lanes = (0..count).map(lane).collect();
    let run = on("null:1g", spec.clone());
    Simulation::default().run(&run, lanes, &mut medium.clone(), &mut Nobody).unwrap()
}

pub(super) fn reads(outstanding: u32) -> Workload {
    Workload::new(Access::new(4096, 100.0, 100.0), outstanding)
}

fn paced(outstanding: u32, per_second: f64) -> Workload {
    let mut open = reads(outstanding);
    open.pacing = Pacing::Ios { per_second, arrivals: Arrivals::Constant };
    open
}

fn check<'a>(result: &'a RunResult, code: &str) -> &'a Check {
    result.checks.iter().find(|check| check.code == code).unwrap()
}

/// Warnings and failures, each with a remedy.
fn said(result: &RunResult) -> Vec<(&str, Verdict)> {
    let bad = |check: &&Check| matches!(check.verdict, Verdict::Warn | Verdict::Fail);
    let said = result.checks.iter().filter(bad);
    said.inspect(|check| assert!(!check.mend.is_empty(), "{check:?}"))
        .map(|check| (&*check.code, check.verdict))
        .collect()
}

/// A service time around `us` with the variance of a drive: exponential beyond its half.
pub(super) fn drive(seed: u64, us: f64) -> impl FnMut() -> Nanos {
    let mut rng = Rng::new(seed, 5);
    move || Nanos((us * 500.0 * (1.0 - (1.0 - rng.uniform()).ln())) as u64)
}

/// H06 accepts: complete runs on drives with exponential service times.
/// H11 accepts: complete runs on drives with exponential service times.
/// H09 accepts: open loops on drives with exponential service times.
/// H22 accepts: eight workers on drives with exponential service times.
#[test]
fn honest_runs_raise_no_alarm() {
    for (seed, seconds) in [(1, 3.0), (2, 10.0), (3, 3.0), (4, 10.0)] {
        for workers in [1, 8] {
            let mut takes = drive(seed, 5000.0);
            let closed = run(&spec(workers, &reads(4), seconds), move |_, _| (takes(), false));
            let rare = |(code, _): &(&str, Verdict)| *code == "H12";
            let told: Vec<_> = said(&closed).into_iter().filter(|told| !rare(told)).collect();
            assert!(told.is_empty(), "{seconds} s, {workers}: {:?}", closed.checks);
            assert_eq!(closed.class, Class::Indicative);
            let mut takes = drive(seed, 5000.0);
            let open = spec(workers, &paced(64, 500.0), seconds);
            let open = run(&open, move |_, _| (takes(), false));
            let told: Vec<_> = said(&open).into_iter().filter(|told| !rare(told)).collect();
            assert!(told.is_empty(), "{seconds} s, {workers}: {:?}", open.checks);
        }
    }
}

/// H22 detects: 314 of 500 sessions are never served, in virtual time.
#[test]
fn sessions_that_are_never_served_are_told() {
    // 314 of 500 sessions complete nothing in three seconds.
    let serve = |worker, _| match worker < 314 {
        true => (Nanos::from_secs(60), false),
        false => (Nanos::from_millis(20), false),
    };
    let found = run(&spec(500, &reads(1), 3.0), serve);
    let even = check(&found, "H22");
    assert_eq!((even.verdict, found.class), (Verdict::Fail, Class::Invalid), "{even:?}");
    assert!(even.evidence.starts_with("314 of 500 workers completed no I/O in 3.0 s"), "{even:?}");
    assert_eq!(found.workers[0].idle_seconds, 3);
    assert_eq!(found.workers[499].idle_seconds, 0);
    let all = run(&spec(500, &reads(1), 3.0), |_, _| (Nanos::from_millis(20), false));
    assert_eq!(check(&all, "H22").verdict, Verdict::Pass, "{:?}", all.checks);
}

/// H22 detects: a worker stops for two seconds.
#[test]
fn a_worker_that_stands_still_for_two_seconds_is_told() {
    let serve = |worker, now: Nanos| {
        let still = Nanos::from_secs(4);
        match worker == 1 && now >= Nanos::from_secs(2) && now < still {
            true => (still.since(now) + Nanos(1_000_000), false),
            false => (Nanos(1_000_000), false),
        }
    };
    let found = run(&spec(3, &reads(1), 10.0), serve);
    let even = check(&found, "H22");
    assert_eq!((even.verdict, found.workers[1].idle_seconds), (Verdict::Warn, 1), "{even:?}");
    assert!(even.evidence.contains("(worker 2)"), "{even:?}");
}

/// H06 detects: two volumes are fast in turn, every three seconds.
/// H06 accepts: two volumes of different, constant rates.
#[test]
fn two_volumes_that_take_turns_are_told() {
    let takes = |high: bool| Nanos(if high { 500_000 } else { 50_000_000 });
    let turns = move |worker, now: Nanos| {
        (takes((now.0 / 3_000_000_000 + worker as u64).is_multiple_of(2)), false)
    };
    let found = run(&spec(2, &reads(1), 12.0), turns);
    let steady = check(&found, "H06");
    assert_eq!(steady.verdict, Verdict::Warn, "{steady:?}");
    assert!(steady.evidence.contains("steady in total only: file:"), "{steady:?}");
    // Constantly uneven is not unsteady, and is reported once, by shares and percentiles.
    let found = run(&spec(2, &reads(1), 12.0), move |worker, _| (takes(worker == 1), false));
    assert_eq!(check(&found, "H06").verdict, Verdict::Pass, "{:?}", found.checks);
    assert_eq!(said(&found), [("H12", Verdict::Warn), ("H22", Verdict::Warn)]);
}

/// H12 detects: five stalls of half a second in 15 s.
/// H12 accepts: the same run without stalls.
#[test]
fn stalls_of_a_closed_loop_are_told() {
    // Five stalls of half a second in 15 s: no percentile shows them.
    let stalls = |_, now: Nanos| {
        let at = now.0 % 3_000_000_000;
        let left = 500_000_000_u64.saturating_sub(at);
        (Nanos(1_000_000 + left), false)
    };
    let found = run(&spec(1, &reads(8), 15.0), stalls);
    let told = check(&found, "H12");
    assert_eq!(told.verdict, Verdict::Warn, "{told:?}");
    assert!(told.evidence.contains("took 17 % of the time"), "{told:?}");
    let quick = run(&spec(1, &reads(8), 15.0), |_, _| (Nanos(1_000_000), false));
    assert!(said(&quick).is_empty(), "{:?}", quick.checks);
}

/// H06 detects: an open loop above the rate of the storage.
/// H06 accepts: an open loop below the rate of the storage.
#[test]
fn a_rate_beyond_what_the_storage_does_is_told() {
    // 2000 a second complete, one at a time; 2150 are planned.
    let mut free = Nanos(0);
    let one_by_one = move |_, now: Nanos| {
        free = free.max(now) + Nanos(500_000);
        (free.since(now), false)
    };
    let found = run(&spec(1, &paced(4000, 2150.0), 10.0), one_by_one);
    let steady = check(&found, "H06");
    assert_eq!(steady.verdict, Verdict::Warn, "{steady:?}");
    assert!(steady.evidence.contains("2000 of 2150 planned IOPS"), "{steady:?}");
    assert!(steady.evidence.contains("the mean latency grows"), "{steady:?}");
    let mut free = Nanos(0);
    let one_by_one = move |_, now: Nanos| {
        free = free.max(now) + Nanos(400_000);
        (free.since(now), false)
    };
    let kept = run(&spec(1, &paced(4000, 2150.0), 10.0), one_by_one);
    assert!(said(&kept).is_empty(), "{:?}", kept.checks);
}

/// H21 detects: errors in the ramp.
/// H21 accepts: no error.
#[test]
fn errors_of_the_ramp_are_told() {
    let fails = |until: u64| {
        let mut spec = spec(1, &reads(4), 3.0);
        spec.ramp_seconds = 1.0;
        run(&spec, move |_, now| (Nanos(1_000_000), now < Nanos::from_millis(until)))
    };
    let found = fails(50);
    assert_eq!((found.totals.ramp_errors, found.totals.errors), (200, 0));
    let told = check(&found, "H21");
    assert_eq!(told.verdict, Verdict::Warn, "{told:?}");
    assert!(told.evidence.starts_with("200 I/Os failed before"), "{told:?}");
    let none = fails(0);
    assert_eq!(check(&none, "H21").verdict, Verdict::Pass);
}

/// H05 detects: a miscompare; 1 % of the reads compared; only another worker compares.
/// H05 accepts: every read compared.
#[test]
fn data_are_right_as_far_as_they_were_compared() {
    let judge = |samples: &[Option<f64>], reads_done: u64, mismatch| {
        let mut spec = spec(samples.len(), &reads(1), 1.0);
        for (worker, sample) in spec.workers.iter_mut().zip(samples) {
            let verify =
                sample.map(|percent| Verify { sample_percent: percent, ..Verify::default() });
            worker.workload = Arc::new(Workload { verify, ..reads(1) });
        }
        let mut totals = Totals::default();
        totals.read.ios = reads_done;
        // The last of several workers is busier.
        let others = samples.len() as u64 - 1;
        let mut done = vec![reads_done / 10_000; samples.len()];
        done[others as usize] = reads_done - others * (reads_done / 10_000);
        data(&spec, &totals, &done, (mismatch, None))
    };
    assert_eq!(judge(&[None], 9, false).verdict, Verdict::Unknown);
    let all = judge(&[Some(100.0)], 9, false);
    assert_eq!(
        (all.verdict, &*all.evidence),
        (Verdict::Pass, "every read was compared with the data written")
    );
    let some = judge(&[Some(1.0)], 10_000, false);
    assert_eq!(some.verdict, Verdict::Pass);
    assert!(some.evidence.contains("about 1 % of the reads") && !some.evidence.contains("every"));
    assert_eq!(judge(&[Some(1.0)], 9_999, false).verdict, Verdict::Unknown, "99 reads");
    let few = judge(&[Some(0.5)], 1 << 30, false);
    assert!(few.evidence.contains("too few to speak for the others"), "{few:?}");
    assert_eq!(few.verdict, Verdict::Unknown);
    // A bystander of a ten-thousandth compares, and the worker that counts does not.
    assert_eq!(judge(&[Some(100.0), None], 1 << 30, false).verdict, Verdict::Unknown);
    let half = judge(&[None, Some(100.0)], 9, false);
    assert!(half.evidence.contains("those of 1 other workers were not"), "{half:?}");
    assert_eq!(judge(&[Some(100.0)], 0, false).verdict, Verdict::Unknown);
    assert_eq!(judge(&[Some(1.0)], 9, true).verdict, Verdict::Fail);
}

/// H05 detects: written data are missing in the reads after the run.
/// H05 accepts: written data are found in the reads after the run.
#[test]
fn what_is_only_written_is_judged_by_reads_after_the_run() {
    let writes = |verify| Workload { verify, ..Workload::new(Access::new(4096, 0.0, 100.0), 1) };
    let found = |compared, lost: u64| {
        let found = (lost > 0).then_some(("lost", lost)).into_iter().collect();
        vec![Recheck { compared, found, ..Recheck::default() }]
    };
    let judge = |workload: &Workload, found: &[Recheck]| {
        let spec = spec(2, workload, 1.0);
        let before = data(&spec, &Totals::default(), &[0, 0], (false, None));
        assert_eq!(before.verdict, Verdict::Unknown);
        read_back(&spec, &before, found).map(|check| check.verdict)
    };
    let all = writes(Some(Verify::default()));
    assert_eq!(judge(&all, &found(900, 0)), Some(Verdict::Pass));
    assert_eq!(judge(&all, &found(900, 1)), Some(Verdict::Fail));
    let unreadable = Recheck { compared: 9, unreadable: 1, ..Recheck::default() };
    assert_eq!(judge(&all, &[unreadable]), Some(Verdict::Fail));
    assert_eq!(judge(&all, &found(0, 0)), None);
    assert_eq!(judge(&writes(None), &found(900, 0)), None);
    // The verdict of the run stays if the read-back finds nothing wrong.
    let spec = spec(1, &all, 1.0);
    for verdict in [Verdict::Pass, Verdict::Fail] {
        let before = Check::new("H05", "data", verdict, "");
        assert_eq!(read_back(&spec, &before, &found(9, 0)), None);
    }
}

/// H05 detects: an offset with real data reads differently after the run.
/// H05 accepts: offsets with real data read the same after the run.
#[test]
fn real_data_are_the_same_before_and_after_a_job_that_only_reads() {
    let mut totals = Totals::default();
    totals.read.ios = 9;
    let of = |workload: &Workload, kept| {
        data(&spec(1, workload, 1.0), &totals, &[9], (false, kept)).verdict
    };
    assert_eq!(of(&reads(1), Some([64, 0])), Verdict::Pass);
    assert_eq!(of(&reads(1), Some([64, 1])), Verdict::Warn);
    assert_eq!(of(&reads(1), None), Verdict::Unknown);
    let writes = Workload::new(Access::new(4096, 50.0, 100.0), 1);
    assert_eq!(of(&writes, Some([64, 0])), Verdict::Unknown);
}
