//! Controlled workers in virtual time.

use super::depth::Depth;
use super::*;
use crate::worker::test::{Lane, MS, US, ios, run, worker};
use crate::worker::{Order, Trouble, Worker};
use job::spec::{Access, Arrivals, Demand, Demands, DepthSearch, Flow, Pacing, Think, Workload};

fn reads(outstanding: u32) -> Workload {
    Workload::new(Access::new(4096, 100.0, 100.0), outstanding)
}

fn thinks(pause_us: u64, after_ios: u32) -> Think {
    let (spin_us, after_us, counts_begun, shifts_rate) = (0, 0, false, false);
    Think { pause_us, spin_us, after_ios, after_us, counts_begun, shifts_rate }
}

/// Returns the I/Os per second of a worker whose I/Os take 100 µs.
fn ios_of(workload: Workload) -> u64 {
    run(&mut worker(Lane::new(100 * US, 0), &workload), Nanos::from_secs(1)).ios()
}

#[test]
fn a_pause_begins_when_all_is_back() {
    // Four in turn take 400 µs, the pause 600.
    let one = ios_of(Workload { think: Some(thinks(600, 4)), ..reads(1) });
    assert!((3990..=4004).contains(&one), "{one}");
    // Counting completions allows one I/O after each pause, whatever the depth; counting starts
    // fills the depth.
    let done = ios_of(Workload { think: Some(thinks(900, 1)), ..reads(4) });
    assert!((1000..=1010).contains(&done), "{done}");
    let think = Think { counts_begun: true, ..thinks(900, 4) };
    let begun = ios_of(Workload { think: Some(think), ..reads(4) });
    assert!((3990..=4004).contains(&begun), "{begun}");
}

#[test]
fn a_pause_may_come_by_time_and_be_spent_with_work() {
    // 9 ms of I/Os, 1 ms without.
    let timed = Think { after_us: 9000, ..thinks(1000, 0) };
    let done = ios_of(Workload { think: Some(timed), ..reads(1) });
    assert!((8900..=9100).contains(&done), "{done}");
    let spins = Think { spin_us: 600, ..thinks(600, 4) };
    let mut control = Control::new(&Workload { think: Some(spins), ..reads(1) }, true).unwrap();
    control.begin(Nanos(0), Nanos(0));
    let back = |at| Back { op: Op::Read, offset: 0, len: 4096, latency: Nanos(1), at };
    for number in 0..4 {
        assert_eq!(control.gate(Nanos(number), 0, None), Gate::Open);
        control.begun(Op::Read, 4096);
        control.done(back(Nanos(number)));
    }
    assert_eq!(control.gate(Nanos(9), 1, None), Gate::Shut(None));
    // A spinning worker must be called again at once.
    assert_eq!(control.gate(Nanos(10), 0, None), Gate::Shut(Some(Nanos(10))));
    assert_eq!(control.gate(Nanos(599_999), 0, None), Gate::Shut(Some(Nanos(599_999))));
    assert_eq!(control.gate(Nanos(600_010), 0, None), Gate::Open);
}

#[test]
fn a_rate_catches_up_with_a_pause_or_leaves_it_out() {
    let paced = Workload { pacing: ios(2000.0, Arrivals::Constant), ..reads(4) };
    let timed = Think { after_us: 50_000, ..thinks(50_000, 0) };
    let catches_up = ios_of(Workload { think: Some(timed), ..paced.clone() });
    assert!((1890..=2000).contains(&catches_up), "{catches_up}");
    let shifted = Think { shifts_rate: true, ..timed };
    let leaves_out = ios_of(Workload { think: Some(shifted), ..paced });
    assert!((990..=1110).contains(&leaves_out), "{leaves_out}");
}

fn demands(read: Demand) -> Option<Demands> {
    let (write, trim) = (Demand::default(), Demand::default());
    Some(Demands { read, write, trim, every_ms: 500 })
}

/// Runs for eight seconds at most; returns the missed demand.
fn ended(lane: Lane, workload: &Workload) -> Option<Missed> {
    let mut worker = worker(lane, workload);
    run(&mut worker, Nanos::from_secs(8));
    match worker.take_trouble() {
        Some(Trouble::Missed(missed)) => {
            assert!(worker.is_finished() && worker.trouble.is_none());
            Some(missed)
        }
        other => {
            assert_eq!(other, None);
            None
        }
    }
}

#[test]
fn who_is_too_slow_ends_and_says_so() {
    let least = |ios_per_second| {
        let demand = Demand { ios_per_second, ..Demand::default() };
        Workload { demands: demands(demand), ..reads(1) }
    };
    let slow = ended(Lane::new(MS, 0), &least(1001)).unwrap();
    assert!(slow.why.contains("1000 IOPS of reads") && slow.errno == 5, "{slow:?}");
    // Two seconds do not count, then half a second does.
    assert!((2490 * MS..2600 * MS).contains(&slow.at.0), "{slow:?}");
    assert_eq!(ended(Lane::new(MS, 0), &least(990)), None);
    // A stall is detected while it lasts.
    let mut stalls = Lane::new(MS, 0);
    stalls.stall = (Nanos(4000 * MS), Nanos(7000 * MS));
    let seen = ended(stalls, &least(900)).unwrap();
    assert!((4000 * MS..5000 * MS).contains(&seen.at.0), "{seen:?}");
    // One I/O every two seconds meets a rate that no window of half a second does.
    let seldom = Demand { bytes_per_second: 2000, ..Demand::default() };
    let slow = Lane::new(2000 * MS, 0);
    assert_eq!(ended(slow, &Workload { demands: demands(seldom), ..reads(1) }), None);
    let bytes = Demand { bytes_per_second: 5 << 20, ..Demand::default() };
    let bytes = ended(Lane::new(MS, 0), &Workload { demands: demands(bytes), ..reads(1) }).unwrap();
    assert!(bytes.why.contains("4096000 bytes per second of reads"), "{bytes:?}");
}

#[test]
fn an_io_that_takes_too_long_ends_its_worker() {
    let most = Demand { latency_us: 150, ..Demand::default() };
    let workload = Workload { demands: demands(most), ..reads(2) };
    assert_eq!(ended(Lane::new(100 * US, 40 * US), &workload), None);
    let mut stalls = Lane::new(100 * US, 0);
    stalls.stall = (Nanos(10 * MS), Nanos(20 * MS));
    let missed = ended(stalls, &workload).unwrap();
    assert!(missed.why.contains("a read of 4k at offset") && missed.errno == 110, "{missed:?}");
    assert_eq!(missed.at.0 / MS, 20);
    // Writes may take any time.
    let writes = Workload::new(Access::new(4096, 0.0, 100.0), 2);
    assert_eq!(ended(Lane::new(MS, 0), &Workload { demands: demands(most), ..writes }), None);
}

/// The depth found if an I/O takes 100 µs per I/O in flight, and the number of windows.
fn search(most: usize, latency_us: u64, percent: f64) -> (Result<usize, Missed>, u32) {
    let (window_us, goes_on) = (1000, false);
    let search = DepthSearch { latency_us, window_us, percent, goes_on };
    let mut depth = Depth::new(search, most);
    depth.begin(Nanos(0), Nanos(0));
    let (mut now, mut windows) = (Nanos(0), 0);
    while !depth.searched().found {
        let in_flight = depth.searched().depth as u64;
        for _ in 0..10 {
            let (op, offset, len) = (Op::Read, 0, 512);
            let back = Back { op, offset, len, latency: Nanos(in_flight * 100 * US), at: now };
            if let Some(missed) = depth.done(back) {
                return (Err(missed), windows);
            }
        }
        now = now + Nanos(MS);
        depth.look(now, false);
        depth.look(now, true);
        windows += 1;
        assert!(windows < 100, "{depth:?}");
    }
    (Ok(depth.searched().depth as usize), windows)
}

#[test]
fn the_greatest_depth_below_a_target_is_found() {
    for percent in [100.0, 99.0] {
        for (most, latency_us, expected) in
            [(32, 650, 6), (32, 100, 1), (64, 1250, 12), (8, 9999, 8), (1, 500, 1)]
        {
            let (found, windows) = search(most, latency_us, percent);
            assert_eq!(found, Ok(expected), "{most}, {latency_us} us, {percent} %");
            assert!(windows < 15, "{windows}");
        }
    }
    // At depth 1 there is nothing left to try.
    let (none, _) = search(8, 50, 100.0);
    assert!(none.unwrap_err().why.contains("the latency target at queue depth 1 is 50000 ns"));
}

#[test]
fn a_target_that_no_depth_keeps_is_waited_for_without_being_asked_all_the_time() {
    let (latency_us, window_us, percent, goes_on) = (50, 1000, 99.0, false);
    let search = DepthSearch { latency_us, window_us, percent, goes_on };
    let workload = Workload { depth_search: Some(search), ..reads(4) };
    let mut worker = worker(Lane::new(100 * US, 0), &workload);
    worker.begin(Nanos(0), Box::default());
    worker.start(Nanos(0));
    let (mut now, mut steps) = (Nanos(0), 0);
    while now < Nanos(100 * MS) {
        now = worker.step(now, Order::Run).unwrap().max(now + Nanos(1));
        steps += 1;
    }
    assert!(steps < 1300, "{steps} steps for a thousand I/Os");
    let searched = worker.take_interval(now, Box::default()).searched.unwrap();
    assert_eq!((searched.depth, searched.found), (1, false));
}

/// Workers of one flow on lanes of their own; the I/Os of each.
fn share(flows: &[Flow], service_us: u64, limit_ios: Option<u64>) -> Vec<u64> {
    let shared: Arc<Shared> = Arc::default();
    let make = |flow: &Flow| {
        let workload = Workload { flow: Some(*flow), limit_ios, ..reads(4) };
        let mut worker = worker(Lane::new(service_us * US, 0), &workload);
        let control = worker.control.as_mut().unwrap();
        control.tie(Some((Arc::clone(&shared), *flow)), false);
        worker.begin(Nanos(0), Box::default());
        worker
    };
    let mut workers: Vec<Worker> = flows.iter().map(make).collect();
    workers.iter_mut().for_each(|worker| worker.start(Nanos(0)));
    let mut now = Nanos(0);
    while now < Nanos(200 * MS) {
        let wakes = workers.iter_mut().filter_map(|worker| worker.step(now, Order::Run));
        now = wakes.min().unwrap_or(now).max(now + Nanos(US));
    }
    workers.iter_mut().map(|worker| worker.take_interval(now, Box::default()).ios()).collect()
}

#[test]
fn workers_of_a_flow_keep_their_proportion() {
    let flow = |weight, sleep_us| Flow { id: 0, weight, sleep_us };
    for sleep_us in [0, 100] {
        let done = share(&[flow(3, sleep_us), flow(2, sleep_us), flow(1, sleep_us)], 100, None);
        let of = |index: usize| done[index] as f64 / done.iter().sum::<u64>() as f64 * 6.0;
        for (index, expected) in [(0, 3.0), (1, 2.0), (2, 1.0)] {
            assert!((of(index) - expected).abs() < 0.1, "{done:?}");
        }
        assert!(done[0] > 2_000, "{done:?}");
    }
    // Nobody waits for an ended worker.
    let done = share(&[flow(1, 0), flow(1, 0)], 10, Some(8_000));
    assert_eq!(done, [8_000, 8_000]);
    assert_eq!(share(&[flow(1, 0), flow(9, 0)], 10, Some(5_000)), [5_000, 5_000]);
}

#[test]
fn pacing_is_not_touched_by_a_control_without_a_pause() {
    let most = Demand { latency_us: 999_999, ..Demand::default() };
    let pacing = Pacing::Ios { per_second: 500.0, arrivals: Arrivals::Constant };
    assert_eq!(ios_of(Workload { demands: demands(most), pacing, ..reads(2) }), 500);
}
