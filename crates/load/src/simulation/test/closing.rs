//! I/Os in flight at the end of the window, against lanes whose every I/O is known.

use block::{Fault, Rng, splitmix};
use stats::{Second, Verdict};

use super::*;
use crate::run::on;

/// Completion time of an I/O that begins at a time on a lane, if it ever completes.
type Law = Box<dyn FnMut(usize, Nanos) -> Option<Nanos>>;

/// The true I/Os of all lanes.
struct Truth {
    law: Law,
    /// Completion time and lane of each I/O that completes.
    in_flight: Vec<(Nanos, usize, Io)>,
    /// Begin and end of each I/O.
    all: Vec<(Nanos, Option<Nanos>)>,
    ready: Vec<Vec<Done>>,
    fault: Result<(), Fault>,
}

type Known = Rc<RefCell<Truth>>;

struct Lawful(usize, Known);

impl Lane for Lawful {
    fn geometry(&self) -> Geometry {
        Geometry::new(1 << 30, 512)
    }
    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        let truth = &mut *self.1.borrow_mut();
        for io in ios.drain(..) {
            let end = (truth.law)(self.0, now);
            truth.all.push((now, end));
            truth.in_flight.extend(end.map(|end| (end, self.0, io)));
        }
    }
    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.1.borrow_mut().ready[self.0]);
    }
    fn wake(&self) -> Option<Nanos> {
        None
    }
}

impl Storage for Known {
    fn next(&mut self) -> Option<Nanos> {
        self.borrow().in_flight.iter().map(|(end, ..)| *end).min()
    }
    fn advance(&mut self, now: Nanos, workers: &mut Vec<usize>) {
        let truth = &mut *self.borrow_mut();
        while let Some(index) = truth.in_flight.iter().position(|(end, ..)| *end <= now) {
            let (_, lane, io) = truth.in_flight.swap_remove(index);
            let (tag, result, cause, buf) = (io.tag, truth.fault, Cause::NONE, io.buf);
            truth.ready[lane].push(Done { tag, result, cause, buf });
            workers.push(lane);
        }
    }
}

fn lanes(spec: &RunSpec, law: Law) -> (Vec<Box<dyn Lane>>, Known) {
    let count = spec.workers.len();
    let ready = (0..count).map(|_| Vec::new()).collect();
    let (in_flight, all, fault) = (Vec::new(), Vec::new(), Ok(()));
    let truth = Rc::new(RefCell::new(Truth { law, in_flight, all, ready, fault }));
    let lane = |number| -> Box<dyn Lane> { Box::new(Lawful(number, truth.clone())) };
    ((0..count).map(lane).collect(), truth)
}

fn run(spec: &RunSpec, law: Law) -> (RunResult, Known) {
    let (lanes, mut truth) = lanes(spec, law);
    let run = on("null:1g", spec.clone());
    let run = Simulation::default().run(&run, lanes, &mut truth, &mut Ends(999));
    (run.unwrap(), truth)
}

fn little(found: &RunResult) -> &stats::Check {
    found.checks.iter().find(|check| check.code == "H11").unwrap()
}

const US: u64 = 1000;

/// 100 µs each; the second lane completes nothing between these times.
fn stalls(from: Nanos, to: Option<Nanos>) -> Law {
    Box::new(move |lane, now| {
        let end = now + Nanos(100 * US);
        if lane == 1 && end > from { to.map(|to| to.max(end)) } else { Some(end) }
    })
}

#[test]
fn a_target_that_stops_before_the_end_is_in_the_result() {
    let (stop, back) = (Nanos::from_secs(1), Nanos::from_secs(7));
    let (found, _) = run(&spec(2, &reads(4), 5.0, 0.0), stalls(stop, Some(back)));
    let [one, two] = &found.workers[..] else { panic!("two workers") };
    // Four were in flight when it stalled, and completed at 7 s.
    assert_eq!(two.latency_ns.max, Some(6_000_000_000));
    assert_eq!((two.ios, two.latency_ns.samples), (40_000, 40_004));
    assert_eq!(one.latency_ns.max, Some(100_000));
    assert_eq!(found.totals.latency_ns.max, two.latency_ns.max);
    assert_eq!((found.totals.errors, found.totals.waiting.ios, &found.partial), (0, 0, &None));
    assert_eq!(found.totals.latency_ns.waiting_from, None);
    // The rate counts completions in the window.
    assert_eq!(found.totals.ios, one.ios + two.ios);
    assert_eq!(found.totals.read.latency_ns.samples, found.totals.ios + 8);
    // A second's maximum is at least the age of the I/Os waiting in it.
    let longest = |second: &Second| second.max_ns.unwrap() / 100_000_000;
    let rows: Vec<u64> = found.intervals.iter().map(longest).collect();
    assert_eq!(rows, [0, 10, 20, 30, 60]);
    let oldest: Vec<u64> = found.intervals.iter().map(|s| s.oldest_ns.unwrap_or(0)).collect();
    assert!(oldest[3] == 3_000_000_000 && oldest[4] == 4_000_000_000, "{oldest:?}");
    assert_eq!(found.spans.last().unwrap().max_ns, 6_000_000_000);
    assert_eq!(little(&found).verdict, Verdict::Pass, "{:?}", little(&found));
    assert!(little(&found).evidence.contains("3 flows and 5 seconds"), "{:?}", little(&found));
}

#[test]
fn what_never_comes_back_counts_with_its_age() {
    let stop = Nanos::from_secs(1);
    let (found, _) = run(&spec(2, &reads(4), 5.0, 0.0), stalls(stop, None));
    let two = &found.workers[1];
    // Waited for 4 s in the window and 31 s after it.
    assert_eq!(two.waiting, stats::Waiting { ios: 4, oldest_ns: 35_000_000_000 });
    assert_eq!(found.totals.waiting, two.waiting);
    assert_eq!(two.latency_ns.max, Some(35_000_000_000));
    assert!(two.latency_ns.at_least(35_000_000_000) && two.latency_ns.mean_at_least());
    assert!(!two.latency_ns.at_least(two.latency_ns.p50.unwrap()));
    assert_eq!(found.workers[0].latency_ns.waiting_from, None);
    assert_eq!((found.totals.errors, two.errors), (4, 4));
    assert!(found.partial.as_ref().unwrap().contains("4 I/Os were unanswered 31 s after"));
    assert_eq!(found.intervals[4].waiting_from_ns, Some(35_000_000_000));
    assert_eq!(found.intervals[4].mean_ns.map(|ns| ns > 100_000.0), Some(true));
    assert_eq!(little(&found).verdict, Verdict::Pass, "{:?}", little(&found));
}

#[test]
fn a_target_that_never_answers_has_latencies_all_the_same() {
    let (found, _) = run(&spec(2, &reads(4), 3.0, 1.0), stalls(Nanos(0), None));
    let two = &found.workers[1];
    assert_eq!((two.ios, two.latency_ns.samples), (0, 4));
    // Since the start of the ramp.
    assert_eq!(two.latency_ns.max, Some(35_000_000_000));
    assert_eq!((two.mean_outstanding, two.waiting.ios), (4.0, 4));
    assert_eq!(little(&found).verdict, Verdict::Pass, "{:?}", little(&found));
}

/// A late failure is an error, and in no latency.
#[test]
fn what_fails_after_the_end_has_failed() {
    let (lanes, mut truth) = lanes(&spec(1, &reads(4), 1.0, 0.0), Box::new(|_, _| None));
    let end = |_: usize, _: Nanos| Some(Nanos::from_secs(3));
    (truth.borrow_mut().law, truth.borrow_mut().fault) = (Box::new(end), Err(Fault::Medium));
    let spec = spec(1, &reads(4), 1.0, 0.0);
    let run = on("null:1g", spec);
    let found = Simulation::default().run(&run, lanes, &mut truth, &mut Ends(9)).unwrap();
    assert_eq!((found.totals.errors, found.totals.latency_ns.samples), (4, 0));
    assert_eq!((found.totals.waiting.ios, found.failures[0].first.t_s), (0, 3.0));
    // No latencies at all: that is no pass.
    assert_eq!(little(&found).verdict, Verdict::Warn, "{:?}", little(&found));
}

fn paced(per_second: f64, outstanding: u32) -> Workload {
    let pacing = Pacing::Ios { per_second, arrivals: Arrivals::Constant };
    Workload { pacing, ..reads(outstanding) }
}

#[test]
fn the_backlog_of_an_open_loop_waits_from_its_planned_starts() {
    // 1000 a second, none of which completes between 1.5 s and 2.2 s.
    let law = || stalls_alone(Nanos::from_millis(1500), Nanos::from_millis(2200));
    let (found, _) = run(&spec(1, &paced(1000.0, 2), 2.0, 0.0), law());
    let latency = found.totals.latency_ns;
    assert_eq!((latency.samples, latency.waiting_from), (2000, None));
    assert!((1498..=1501).contains(&found.totals.ios), "{}", found.totals.ios);
    // I/Os of the last half second waited 0.45 s on average, from 0.7 s to 0.2 s.
    let mean_ms = latency.mean.unwrap() / 1e6;
    assert!((mean_ms - 0.25 * 450.0).abs() < 5.0, "{mean_ms}");
    assert!((699..=701).contains(&(latency.max.unwrap() / 1_000_000)));
    // Planned I/Os are outstanding, too: 500 of them, growing over half a second.
    let outstanding = found.totals.mean_outstanding;
    assert!((outstanding - 125.0 / 2.0).abs() < 2.0, "{outstanding}");
    assert_eq!(little(&found).verdict, Verdict::Pass, "{:?}", little(&found));
    let oldest = found.intervals[1].oldest_ns.unwrap();
    assert!((499..=501).contains(&(oldest / 1_000_000)), "{oldest}");
    assert_eq!(found.totals.paced.unwrap().backlog.ios, 0);
}

#[test]
fn a_backlog_counts_in_the_seconds_in_which_it_waits() {
    // The backlog grows by one per millisecond from 0.5 s to 1.5 s, and is started within 50 ms.
    let law = stalls_alone(Nanos::from_millis(500), Nanos::from_millis(1500));
    let (found, _) = run(&spec(1, &paced(1000.0, 2), 1.0, 1.0), law);
    // From 500 to 1000 in half a second: the wait in the ramp is in the latencies only.
    let outstanding = found.totals.mean_outstanding;
    assert!((375.0..405.0).contains(&outstanding), "{outstanding}");
    assert!((1490..=1500).contains(&found.totals.latency_ns.samples), "{:?}", found.totals);
    assert_eq!(little(&found).verdict, Verdict::Pass, "{:?}", little(&found));
}

/// Returns the law of [`stalls`] for the only lane.
fn stalls_alone(from: Nanos, to: Nanos) -> Law {
    let mut law = stalls(from, Some(to));
    Box::new(move |_, now| law(1, now))
}

#[test]
fn a_backlog_that_nobody_catches_up_with_counts_with_its_age() {
    // Ten times the capacity: 1000 of 10,000 in the window, and 1000 more after it.
    let law = Box::new(|_, now| Some(now + Nanos(1_000_000)));
    let (found, _) = run(&spec(1, &paced(10_000.0, 1), 1.0, 0.0), law);
    let (latency, paced) = (found.totals.latency_ns, found.totals.paced.unwrap());
    assert!((999..=1001).contains(&found.totals.ios), "{}", found.totals.ios);
    assert!((9_999..=10_000).contains(&latency.samples), "{}", latency.samples);
    assert!((7_998..=8_001).contains(&paced.backlog.ios), "{:?}", paced.backlog);
    // The oldest of them was planned for 0.2 s, and nothing begins after 2 s.
    assert!((1799..=1801).contains(&(paced.backlog.oldest_ns / 1_000_000)), "{paced:?}");
    assert!(latency.at_least(latency.p90.unwrap()) && latency.mean_at_least());
    assert_eq!(
        (found.totals.waiting.ios, found.totals.errors, found.partial.clone()),
        (0, 0, None)
    );
    assert_eq!(little(&found).verdict, Verdict::Pass, "{:?}", little(&found));
}

#[test]
fn a_backlog_beyond_all_counting_is_estimated() {
    let law = Box::new(|_, now| Some(now + Nanos::from_secs(1)));
    let (found, _) = run(&spec(1, &paced(1e9, 1), 1.0, 0.0), law);
    let backlog = found.totals.paced.unwrap().backlog.ios;
    assert!(((backlog as f64) / 1e9 - 1.0).abs() < 1e-5, "{backlog}");
    // Planned evenly over the second, they waited 1.5 s on average.
    let mean = found.totals.latency_ns.mean.unwrap();
    assert!((mean / 1.5e9 - 1.0).abs() < 0.01, "{mean}");
    assert_eq!(little(&found).verdict, Verdict::Pass, "{:?}", little(&found));
}

#[test]
fn a_backlog_is_none_where_a_worker_pauses_or_has_ended() {
    let limited = Workload { limit_ios: Some(50), ..paced(1000.0, 4) };
    let law = || -> Law { Box::new(|_, now| Some(now + Nanos(100 * US))) };
    let (found, _) = run(&spec(1, &limited, 1.0, 0.0), law());
    assert_eq!((found.totals.ios, found.totals.latency_ns.samples), (50, 50));
    // A worker with an earlier end only has the backlog of its own time.
    let mut spec = spec(2, &paced(1000.0, 1), 3.0, 0.0);
    spec.workers[0].shift.when.seconds = Some(1.0);
    spec.workers[1].shift.group = 1;
    let law = stalls_alone(Nanos::from_millis(800), Nanos::from_millis(1300));
    let (found, _) = run(&spec, law);
    let one = &found.workers[0];
    assert!((999..=1000).contains(&one.latency_ns.samples), "{:?}", one.latency_ns);
    assert_eq!(one.ios, one.latency_ns.samples);
    assert!((1.3..1.4).contains(&one.seconds), "{}", one.seconds);
    assert_eq!(little(&found).verdict, Verdict::Pass, "{:?}", little(&found));
}

/// A random law: times of all orders of magnitude, with occasional stalls of a lane.
fn chance(seed: u64, lanes: usize) -> Law {
    let mut rng = Rng::new(seed, 7);
    let mut until = vec![Nanos(0); lanes];
    Box::new(move |lane, now| {
        let most = 1 << (10 + rng.below(17));
        let ns = 10_000 + rng.below(most);
        if rng.below(2000) == 0 {
            until[lane] = now + Nanos(rng.below(900_000_000));
        }
        let end = now.max(until[lane]) + Nanos(ns);
        (rng.below(20_000) != 0 || seed.is_multiple_of(3)).then_some(end)
    })
}

/// Lanes with random behaviour: the known I/Os and the result agree to the nanosecond in the
/// counted I/Os, their latencies, and the queue depth.
#[test]
fn of_generated_lanes_everything_is_known() {
    for seed in 0..60_u64 {
        let mut bits = seed;
        let (workers, depth) = (1 + splitmix(&mut bits) % 3, 1 + splitmix(&mut bits) % 9);
        let (ramp_ms, ms) = (splitmix(&mut bits) % 300, 200 + splitmix(&mut bits) % 2000);
        let workload = reads(depth as u32);
        let spec = spec(workers, &workload, ms as f64 / 1e3, ramp_ms as f64 / 1e3);
        let (found, truth) = run(&spec, chance(seed, workers as usize));
        let from = Nanos((spec.ramp_seconds * 1e9) as u64);
        let to = from + Nanos((spec.seconds * 1e9) as u64);
        let all = &truth.borrow().all;
        let within =
            all.iter().filter(|(start, end)| *start < to && end.is_none_or(|end| end > from));
        let given_up = to + patience(&on("null:1g", spec.clone()));
        let (mut sum, mut outstanding, mut longest, mut waiting) = (0, 0, 0, 0);
        for (start, end) in within.clone() {
            // A completion after the time limit counts as none.
            waiting += u64::from(end.is_none_or(|end| end > given_up));
            let latency = end.unwrap_or(given_up).min(given_up).since(*start).0;
            sum += u128::from(latency);
            longest = longest.max(latency);
            let inside = end.unwrap_or(to).min(to).since((*start).max(from)).0;
            outstanding += u128::from(inside);
        }
        let ios = all.iter().filter(|(_, end)| end.is_some_and(|end| end > from && end < to));
        let totals = &found.totals;
        assert_eq!(totals.ios, ios.count() as u64, "seed {seed}");
        assert_eq!(totals.latency_ns.samples, within.clone().count() as u64, "seed {seed}");
        let mean = sum as f64 / within.count() as f64;
        assert!((totals.latency_ns.mean.unwrap() - mean).abs() < 1e-3, "seed {seed}: {mean}");
        assert_eq!(totals.latency_ns.max, Some(longest), "seed {seed}");
        assert_eq!((totals.waiting.ios, totals.errors), (waiting, waiting), "seed {seed}");
        let mean = outstanding as f64 / to.since(from).0 as f64;
        assert!((totals.mean_outstanding - mean).abs() < 1e-9, "seed {seed}: {mean}");
        let sums: u64 = found.workers.iter().map(|worker| worker.latency_ns.samples).sum();
        assert_eq!(sums, totals.latency_ns.samples, "seed {seed}");
        assert_eq!(found.histograms.all().samples(), sums, "seed {seed}");
        assert_eq!(found.spans.iter().map(|s| s.buckets.samples()).sum::<u64>(), sums);
        assert_eq!(little(&found).verdict, Verdict::Pass, "seed {seed}: {:?}", little(&found));
    }
}

/// The planned I/Os of open loops are known, and so the number that belongs to the window.
#[test]
fn of_generated_open_loops_none_is_lost() {
    for seed in 0..40_u64 {
        let mut bits = seed;
        let depth = 1 + splitmix(&mut bits) % 9;
        let (per_second, ms) = (100 + splitmix(&mut bits) % 4000, 200 + splitmix(&mut bits) % 2000);
        let workload = paced(per_second as f64, depth as u32);
        let spec = spec(2, &workload, ms as f64 / 1e3, 0.0);
        let (found, truth) = run(&spec, chance(seed, 2));
        let planned = (2 * per_second * ms) as f64 / 1e3;
        let samples = found.totals.latency_ns.samples;
        assert!((samples as f64 - planned).abs() <= 2.0, "seed {seed}: {samples} of {planned}");
        let backlog = found.totals.paced.unwrap().backlog.ios;
        assert_eq!(samples, truth.borrow().all.len() as u64 + backlog, "seed {seed}");
        assert_eq!(found.totals.paced.unwrap().lag_ns.samples, samples, "seed {seed}");
        let outstanding: f64 = found.workers.iter().map(|it| it.mean_outstanding).sum();
        assert!((outstanding - found.totals.mean_outstanding).abs() < 1e-9, "seed {seed}");
        assert_eq!(little(&found).verdict, Verdict::Pass, "seed {seed}: {:?}", little(&found));
        // Each second's maximum is at least the age of the I/Os waiting in it.
        let behind = |s: &Second| s.oldest_ns > s.max_ns;
        assert!(!found.intervals.iter().any(behind), "seed {seed}: {:?}", found.intervals);
    }
}
