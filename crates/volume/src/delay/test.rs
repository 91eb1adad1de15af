//! Emulated drives in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use block::{Cause, Op, Rng};
use model::{Method, Run, simulate, solve};

use super::*;

const FIXED: &str = "name = 'x'\nqueue_depth = 4\n[[stage]]\nname = 'medium'\nservers = 2\n\
    read = { each_s = 10e-6 }\nwrite = { each_s = 30e-6 }\nshape = 'fixed'\n";
const GEOMETRY: fn() -> Geometry = || Geometry::new(1 << 20, 512);

fn machine(profile: &Profile, drives: u32) -> Arc<Machine> {
    let ways = profile.clone();
    let ways = Box::new(move |way: Way| Ok(ways.route(drives, way.drive, way.op, way.len_bytes)));
    Arc::new(Machine::new(profile.network(drives), ways, 7).unwrap())
}

/// A lane over a null volume that needs to be polled.
fn lane(text: &str) -> DelayLane {
    over(text, null::lane(GEOMETRY()))
}

fn over(text: &str, inner: Box<dyn Lane>) -> DelayLane {
    let profile = Profile::parse(text).unwrap();
    let depth = profile.queue_depth.unwrap_or(u32::MAX);
    DelayLane { wakes: true, ..DelayLane::new(machine(&profile, 1), 0, depth, inner) }
}

fn io(tag: u64, op: Op, offset: u64) -> Io {
    Io { tag: Tag(tag), op, fua: false, len: 512, offset, buf: None }
}

fn submit(lane: &mut dyn Lane, now: u64, ios: impl IntoIterator<Item = Io>) -> VecDeque<Io> {
    let mut ios: VecDeque<Io> = ios.into_iter().collect();
    lane.submit(Nanos(now), &mut ios);
    ios
}

fn polled(lane: &mut dyn Lane, now: u64) -> Vec<(u64, Result<(), Fault>)> {
    let mut done = Vec::new();
    lane.poll(Nanos(now), &mut done);
    done.into_iter().map(|done| (done.tag.0, done.result)).collect()
}

#[test]
fn an_answer_comes_when_the_model_says_and_not_before() {
    let mut lane = lane(FIXED);
    assert_eq!(lane.wake(), None);
    // Equal tags are the caller's responsibility; two servers, and writes that take longer.
    let ios = [io(5, Op::Write, 0), io(5, Op::Read, 0), io(6, Op::Read, 512)];
    assert!(submit(&mut lane, 1000, ios).is_empty());
    assert_eq!(lane.wake(), Some(Nanos(11_000)));
    assert_eq!(polled(&mut lane, 10_999), []);
    assert_eq!(polled(&mut lane, 11_000), [(5, Ok(()))]);
    assert_eq!(lane.wake(), Some(Nanos(21_000)));
    // The write began first and completes last.
    assert_eq!(polled(&mut lane, 50_000), [(6, Ok(())), (5, Ok(()))]);
    assert_eq!(lane.wake(), None);
}

#[test]
fn faults_take_their_time_and_a_lane_closes_when_all_are_back() {
    let mut lane = lane(FIXED);
    submit(&mut lane, 0, [io(1, Op::Read, 1 << 20), io(2, Op::Flush, 0)]);
    assert!(!lane.close(Nanos(0)));
    assert_eq!(polled(&mut lane, 9_999), []);
    assert_eq!(polled(&mut lane, 10_000), [(1, Err(Fault::OutOfRange))]);
    assert!(!lane.close(Nanos(10_000)));
    assert_eq!(polled(&mut lane, 30_000), [(2, Ok(()))]);
    assert!(lane.close(Nanos(30_000)));
    assert!(lane.broken().is_none());
}

#[test]
fn what_the_drive_has_no_room_for_stays_with_the_owner() {
    let mut lane = lane(FIXED);
    let left = submit(&mut lane, 0, (0..7).map(|tag| io(tag, Op::Read, 0)));
    assert_eq!(left.iter().map(|io| io.tag.0).collect::<Vec<_>>(), [4, 5, 6]);
    assert_eq!(polled(&mut lane, 10_000).len(), 2);
    assert_eq!(submit(&mut lane, 10_000, left).len(), 1);
}

/// A lane that accepts two I/Os at once and completes them on the test's command.
struct Slow(Rc<RefCell<Vec<Io>>>, Rc<RefCell<Vec<Done>>>);

impl Lane for Slow {
    fn geometry(&self) -> Geometry {
        GEOMETRY()
    }
    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        while self.0.borrow().len() < 2
            && let Some(io) = ios.pop_front()
        {
            self.0.borrow_mut().push(io);
        }
    }
    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.1.borrow_mut());
    }
    fn wake(&self) -> Option<Nanos> {
        None
    }
}

#[test]
fn an_answer_waits_for_the_data_too() {
    let (taken, done) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
    let mut lane = over(FIXED, Box::new(Slow(taken.clone(), done.clone())));
    let left = submit(&mut lane, 0, (10..13).map(|tag| io(tag, Op::Read, 0)));
    assert_eq!(left.iter().map(|io| io.tag.0).collect::<Vec<_>>(), [12], "its own tag again");
    // Both are due, but only the second is done.
    let second = taken.borrow_mut().remove(1);
    done.borrow_mut().push(Done { tag: second.tag, result: Ok(()), cause: Cause::NONE, buf: None });
    assert_eq!(polled(&mut lane, 10_000), [(11, Ok(()))]);
    assert_eq!(lane.wake(), None);
    let first = taken.borrow_mut().remove(0);
    done.borrow_mut().push(Done {
        tag: first.tag,
        result: Err(Fault::Medium),
        cause: Cause::NONE,
        buf: None,
    });
    assert_eq!(polled(&mut lane, 12_345), [(10, Err(Fault::Medium))]);
    // The service time of the third I/O starts when the drive accepts it.
    assert!(submit(&mut lane, 20_000, left).is_empty());
    let third = taken.borrow_mut().remove(0);
    done.borrow_mut().push(Done { tag: third.tag, result: Ok(()), cause: Cause::NONE, buf: None });
    assert_eq!(polled(&mut lane, 29_999), []);
    assert_eq!(polled(&mut lane, 30_000), [(12, Ok(()))]);
}

/// Keeps `outstanding` reads of 512 bytes on each lane for this many I/Os; returns I/Os per second
/// and mean latency in seconds.
fn closed_loop(machine: &Machine, lanes: &mut [Box<dyn Lane>], outstanding: u64) -> (f64, f64) {
    let (mut now, mut news) = (Nanos(0), Vec::new());
    let (mut count, mut sum_ns, mut done) = (0_u64, 0_u64, Vec::new());
    for lane in lanes.iter_mut() {
        submit(&mut **lane, 0, (0..outstanding).map(|_| io(0, Op::Read, 0)));
    }
    while count < 40_000 {
        now = machine.next().unwrap().max(now);
        machine.advance(now, &mut news);
        for lane in news.drain(..) {
            lanes[lane].poll(now, &mut done);
            for done in done.drain(..) {
                (count, sum_ns) = (count + 1, sum_ns + now.0 - done.tag.0);
                // The tag holds the start time.
                submit(&mut *lanes[lane], now.0, [io(now.0, Op::Read, 0)]);
            }
        }
    }
    (count as f64 / now.as_secs_f64(), sum_ns as f64 / 1e9 / count as f64)
}

#[test]
fn rates_and_latencies_are_those_of_theory() {
    let text = "name = 'x'\n[[stage]]\nname = 'medium'\nservers = 4\nread = { each_s = 80e-6 }\n\
        write = { each_s = 20e-6 }\n[[stage]]\nname = 'link'\nservers = 1\nshared = true\n\
        read = { each_s = 2e-6, per_byte_s = 4e-9 }\n";
    let profile = Profile::parse(text).unwrap();
    for (drives, outstanding) in [(1, 1), (1, 8), (3, 16)] {
        let machine = machine(&profile, drives);
        let mut lanes: Vec<_> =
            (0..drives).map(|d| simulated(&machine, d, u32::MAX, GEOMETRY())).collect();
        let (rate, latency_s) = closed_loop(&machine, &mut lanes, outstanding);
        let network = profile.closed(drives, outstanding as u32, 1.0, 512);
        let theory = solve(&network, Method::Exact).unwrap();
        let run = Run { seed: 3, warmup: 4_000, requests: 40_000 };
        let simulated = simulate(&network, run, |_| ()).unwrap();
        // Two simulations of equal length differ by √2 of their interval.
        let each = &simulated.throughput_per_s[0];
        let interval = 1.5 * each.half_width / each.mean;
        assert!(interval < 0.05, "{interval}");
        let of = (rate / theory.throughput_per_s(), latency_s / theory.response_s());
        assert!((of.0 - 1.0).abs() < interval, "{drives} x {outstanding}: {of:?}, {interval}");
        assert!((of.1 - 1.0).abs() < interval, "{drives} x {outstanding}: {of:?}, {interval}");
    }
}

/// Keeps `outstanding` I/Os on an emulated drive, woken by its own lane, over real memory; returns
/// I/Os per second and mean latency in seconds from the time at which the drive accepts an I/O.
fn emulated(profile: &Profile, op: Op, outstanding: u32, ios: u64) -> (f64, f64) {
    let depth = profile.queue_depth.unwrap_or(u32::MAX);
    let inner = null::lane(GEOMETRY());
    let mut lane =
        DelayLane { wakes: true, ..DelayLane::new(machine(profile, 1), 0, depth, inner) };
    let (mut now, mut count, mut sum_ns, mut done) = (Nanos(0), 0_u64, 0_u64, Vec::new());
    let mut waiting: VecDeque<Io> = (0..outstanding).map(|_| io(0, op, 0)).collect();
    let mut begun: Vec<(u64, u64)> = Vec::new();
    let mut number = 0;
    while count < ios {
        lane.poll(now, &mut done);
        for done in done.drain(..) {
            let at = begun.iter().position(|(tag, _)| *tag == done.tag.0).unwrap();
            (count, sum_ns) = (count + 1, sum_ns + now.0 - begun.swap_remove(at).1);
            waiting.push_back(io(0, op, 0));
        }
        waiting.iter_mut().for_each(|io| {
            number += 1;
            io.tag = Tag(number);
        });
        let tags: Vec<u64> = waiting.iter().map(|io| io.tag.0).collect();
        lane.submit(now, &mut waiting);
        let taken = tags.len() - waiting.len();
        begun.extend(tags[..taken].iter().map(|tag| (*tag, now.0)));
        now = lane.wake().unwrap().max(now);
    }
    (count as f64 / now.as_secs_f64(), sum_ns as f64 / 1e9 / count as f64)
}

#[test]
fn a_flush_has_a_price_of_its_own_and_worn_flash_is_slow() {
    let text = "name = 'x'\n[[stage]]\nname = 'a'\nservers = 1\nread = { each_s = 10e-6 }\n\
        write = { per_byte_s = 1e-9 }\nshape = 'fixed'\n";
    // I/Os without a modelled time take none.
    let mut free = lane(text);
    submit(&mut free, 0, [io(1, Op::Flush, 0)]);
    assert_eq!(polled(&mut free, 1000), [(1, Ok(()))]);
    let mut lane = lane(&format!(
        "{text}flush = {{ each_s = 2e-3 }}\n\
         reserve = {{ capacity = 5120, low = 1024, high = 2048, refill_per_s = 1e-3, \
         slowdown = 8 }}\n"
    ));
    submit(&mut lane, 0, [io(1, Op::Flush, 0), io(2, Op::Read, 0)]);
    assert_eq!(polled(&mut lane, 1_999_999), []);
    assert_eq!(polled(&mut lane, 2_010_000), [(1, Ok(())), (2, Ok(()))]);
    // Ten writes use up the reserve; the last two find it low.
    let mut now = 3_000_000;
    let times: Vec<u64> = (0..10)
        .map(|tag| {
            submit(&mut lane, now, [io(tag, Op::Write, 0)]);
            let begun = std::mem::replace(&mut now, lane.wake().unwrap().0);
            assert_eq!(polled(&mut lane, now).len(), 1);
            now - begun
        })
        .collect();
    assert_eq!(times, [512, 512, 512, 512, 512, 512, 512, 512, 4096, 4096]);
    let reserve = "capacity = 1, low = 2, high = 1, refill_per_s = 1, slowdown = 2";
    let wrong = format!("{text}reserve = {{ {reserve} }}");
    assert!(Profile::parse(&wrong).unwrap_err().contains("low"));
}

#[test]
fn an_emulated_drive_is_the_simulated_one_at_any_depth() {
    let wide = Profile::parse(&FIXED.replace("servers = 2", "servers = 48")).unwrap();
    let wide = Profile { queue_depth: None, ..wide };
    let shipped = ["x25-m", "sas-15k"].map(|name| Profile::shipped(name).unwrap());
    for profile in shipped.into_iter().chain([wide]) {
        let ops = [Op::Read, Op::Write].into_iter().cycle();
        for (outstanding, op) in [1, 4, 16, 64, 256].into_iter().zip(ops) {
            let found = emulated(&profile, op, outstanding, 30_000);
            let share = if op == Op::Read { 1.0 } else { 0.0 };
            let network = profile.closed(1, outstanding, share, 512);
            let run = Run { seed: 3, warmup: 3_000, requests: 30_000 };
            let simulated = simulate(&network, run, |_| ()).unwrap();
            let rate = simulated.throughput_per_s[0].mean;
            let latency_s = simulated.response_s[0].mean;
            let name = &profile.name;
            let what = format!("{name}, {op:?} x {outstanding}: {found:?}, {rate}, {latency_s}");
            assert!((found.0 / rate - 1.0).abs() < 0.02, "{what}");
            let off = (found.1 - latency_s).abs();
            assert!(off < 20e-6 || off / latency_s < 0.03, "{what}");
        }
    }
}

#[test]
fn any_length_has_a_way_within_a_limit() {
    let profile = Profile::parse(FIXED).unwrap();
    let machine = machine(&profile, 1);
    let number = machine.join();
    let way = |len_bytes| Way { drive: 0, op: Op::Read, len_bytes };
    let extent = Extent { offset: 0, bytes: 0, within: 1 << 20, write: false };
    machine.begin(Nanos(0), number, (0..5000).map(|n| (n, way(512 * n), extent))).unwrap();
    machine.begin(Nanos(0), number, [(5000, way(u32::MAX), extent)].into_iter()).unwrap();
    assert!(machine.ways() < 300);
    let mut due = Vec::new();
    machine.due(Nanos::from_secs(1), number, &mut due);
    assert_eq!(due.len(), 5001);
}

const DISK: fn() -> Geometry = || Geometry::new(8 << 30, 512);

/// Keeps `outstanding` I/Os of 4 KiB on an HDD, woken by its own lane or, as in a simulation, by
/// its machine; returns I/Os per second and mean latency in seconds from the time at which the
/// drive accepts an I/O.
fn disk(
    profile: &Profile,
    op: Op,
    outstanding: u64,
    is_simulated: bool,
    mut offset: impl FnMut(u64) -> u64,
) -> (f64, f64) {
    let (machine, ios) = (machine(profile, 1), 20_000);
    let depth = profile.queue_depth.unwrap_or(u32::MAX);
    let mut lane: Box<dyn Lane> = match is_simulated {
        true => simulated(&machine, 0, depth, DISK()),
        false => {
            let lane = DelayLane::new(machine.clone(), 0, depth, null::lane(DISK()));
            Box::new(DelayLane { wakes: true, ..lane })
        }
    };
    let (mut now, mut count, mut sum_ns) = (Nanos(0), 0_u64, 0_u64);
    let (mut done, mut news, mut made) = (Vec::new(), Vec::new(), 0);
    let (mut waiting, mut begun) = (VecDeque::new(), std::collections::HashMap::new());
    while count < ios {
        while made - count < outstanding {
            waiting.push_back(Io { len: 4096, ..io(made, op, offset(made)) });
            made += 1;
        }
        let before = waiting.front().map_or(made, |io| io.tag.0);
        lane.submit(now, &mut waiting);
        begun.extend((before..made - waiting.len() as u64).map(|tag| (tag, now)));
        now = if is_simulated { machine.next() } else { lane.wake() }.unwrap().max(now);
        if is_simulated {
            machine.advance(now, &mut news);
            news.clear();
        }
        lane.poll(now, &mut done);
        for done in done.drain(..) {
            count += 1;
            sum_ns += now.since(begun.remove(&done.tag.0).unwrap()).0;
        }
    }
    (count as f64 / now.as_secs_f64(), sum_ns as f64 / 1e9 / count as f64)
}

#[test]
fn a_disk_is_the_same_emulated_simulated_and_in_theory_at_any_depth() {
    let profile = Profile::shipped("disk-15k").unwrap();
    let mut rates = Vec::new();
    for (outstanding, op) in [
        (1, Op::Read),
        (1, Op::Write),
        (4, Op::Read),
        (16, Op::Write),
        (32, Op::Read),
        (64, Op::Read),
        (128, Op::Write),
        (256, Op::Read),
    ] {
        let found = [5, 6].map(|seed| {
            let mut rng = Rng::new(seed, 0);
            let offset = move |_| rng.below((8 << 30) / 4096) * 4096;
            disk(&profile, op, outstanding, seed == 6, offset)
        });
        let share = if op == Op::Read { 1.0 } else { 0.0 };
        let network = profile.closed(1, outstanding as u32, share, 4096);
        let theory = solve(&network, Method::Exact).unwrap();
        let theory = (theory.throughput_per_s(), theory.response_s());
        for other in [found[1], theory] {
            let what = format!("{op:?} x {outstanding}: {found:?}, {theory:?}");
            assert!((found[0].0 / other.0 - 1.0).abs() < 0.02, "{what}");
            let off = (found[0].1 - other.1).abs();
            assert!(off < 20e-6 || off / other.1 < 0.03, "{what}");
        }
        rates.push(found[0].0);
    }
    // Seek 2.9 ms, half a rotation, 4 KiB and the controller: 201 IOPS, more with a larger choice
    // of I/Os.
    assert!((rates[0] - 201.0).abs() < 4.0, "{rates:?}");
    assert!(rates[5] > 2.2 * rates[0] && rates[7] > rates[5], "{rates:?}");
}

#[test]
fn a_stream_is_as_fast_as_the_medium() {
    let profile = Profile::shipped("disk-15k").unwrap();
    for outstanding in [1, 2, 32] {
        for is_simulated in [false, true] {
            let (rate, _) = disk(&profile, Op::Read, outstanding, is_simulated, |made| made * 4096);
            assert!((rate * 4096.0 / 100e6 - 1.0).abs() < 0.01, "{outstanding}: {rate}");
        }
    }
    // Uncached writes at depth 1 miss a rotation each; at depth 2 they do not.
    let (rate, _) = disk(&profile, Op::Write, 1, false, |made| made * 4096);
    assert!((240.0..=250.0).contains(&rate), "{rate}");
    let (rate, _) = disk(&profile, Op::Write, 2, false, |made| made * 4096);
    assert!((rate * 4096.0 / 100e6 - 1.0).abs() < 0.01, "{rate}");
}

#[test]
fn a_drive_may_change_in_use_and_what_began_ends_as_it_began() {
    let mut lane = lane(FIXED);
    submit(&mut lane, 0, (0..4).map(|tag| io(tag, Op::Read, 0)));
    let quick = Profile::parse(&FIXED.replace("10e-6", "1e-6")).unwrap();
    lane.machine.replace(quick.network(1), ways(&quick)).unwrap();
    lane.machine.set_depth(2);
    // Full by the new depth.
    let left = submit(&mut lane, 4_000, [io(9, Op::Read, 0)]);
    assert_eq!(left.len(), 1);
    assert_eq!(lane.wake(), Some(Nanos(10_000)));
    assert_eq!(polled(&mut lane, 10_000), [(0, Ok(())), (1, Ok(()))]);
    lane.machine.set_depth(4);
    assert!(submit(&mut lane, 10_500, left).is_empty());
    assert_eq!(lane.wake(), Some(Nanos(11_500)));
    assert_eq!(polled(&mut lane, 11_500), [(9, Ok(()))]);
    assert_eq!(polled(&mut lane, 20_000), [(2, Ok(())), (3, Ok(()))]);
    assert_eq!(lane.wake(), None);
}

#[test]
fn a_change_that_makes_no_sense_is_told_and_changes_nothing() {
    let profile = Profile::parse(FIXED).unwrap();
    let drive = Drive { machine: machine(&profile, 1), anyway: false, changes: Mutex::default() };
    assert!(drive.incidents().is_empty());
    drive.change(Ok(FIXED.replace("queue_depth = 4", "queue_depth = 9")));
    assert_eq!(drive.machine.depth(), 9);
    assert!(drive.incidents()[0].contains("changed once during the run, last to x"));
    drive.change(Ok(FIXED.replace("servers = 2", "servers = 0")));
    drive.change(Err("no such file".to_owned()));
    assert_eq!(drive.machine.depth(), 9);
    assert!(drive.incidents()[1].ends_with("was invalid and not applied: no such file"));
}

#[test]
fn bytes_alone_may_have_a_price() {
    let mut lane = lane(
        "name = 'x'\n[[stage]]\nname = 'a'\nservers = 1\nread = { per_byte_s = 1e-9 }\n\
         write = { per_byte_s = 2e-9 }\nshape = 'fixed'\n",
    );
    for (tag, op, took) in [(1, Op::Flush, 1), (2, Op::Trim, 1), (3, Op::Write, 1024)] {
        let now = tag * 10_000;
        submit(&mut lane, now, [io(tag, op, 0)]);
        assert_eq!(lane.wake(), Some(Nanos(now + took)), "{op:?}");
        assert_eq!(polled(&mut lane, now + took), [(tag, Ok(()))]);
    }
}
