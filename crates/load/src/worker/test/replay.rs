//! Workers that replay a trace.

use super::*;
use job::spec::Replay;

/// Four I/Os 100 µs apart, and one after 10 ms.
const TIMED: &str = "fio version 3 iolog\n0 /a add\n5 /a write 0 4096\n105 /a read 0 4096\n\
    205 /a trim 8192 65536\n305 /a sync 0 0\n10005 /a read 4096 512\n";

fn replaying(text: &'static str, change: impl Fn(&mut Replay), outstanding: u32) -> Workload {
    let mut replay = Replay::new("x.log".to_owned());
    change(&mut replay);
    replay.load(&|_| Ok(Box::new(text.as_bytes())), true).unwrap();
    Workload::new(Access::replaying(replay), outstanding)
}

/// Replays the whole trace. Returns the recorded interval and the duration.
fn go(lane: Lane, workload: &Workload) -> (Box<Interval>, Nanos) {
    let mut worker = worker(lane, workload);
    let paced = worker.is_paced();
    worker.begin(Nanos(0), Box::new(if paced { Interval::paced() } else { Interval::new() }));
    let begin = Nanos(7 * MS);
    worker.start(begin);
    let mut now = begin;
    while !worker.is_finished() {
        let wake = worker.step(now, Order::Run);
        if !worker.is_finished() {
            now = wake.expect("something is to come").max(now + Nanos(1));
        }
    }
    let last = interval(&worker);
    (worker.take_interval(now, last), now.since(begin))
}

fn counts(done: &Interval) -> [u64; 3] {
    [done.read.ios, done.write.ios, done.trim.ios + done.flush.ios]
}

#[test]
fn each_begins_at_its_time() {
    let (done, took) = go(Lane::new(20 * US, 0), &replaying(TIMED, |_| (), 1));
    assert_eq!((counts(&done), took), ([2, 1, 2], Nanos(10_020 * US)));
    assert_eq!((done.read.bytes, done.write.bytes), (4608, 4096));
    let paced = done.paced.as_ref().expect("an open loop");
    assert_eq!((paced.missed, paced.lag.max()), (0, Some(0)));
    let (_, twice) = go(Lane::new(20 * US, 0), &replaying(TIMED, |r| r.speed_percent = 200, 1));
    assert_eq!(twice, Nanos(5_020 * US));
}

#[test]
fn what_waits_for_a_slot_counts_from_its_time() {
    let (done, took) = go(Lane::new(MS, 0), &replaying(TIMED, |_| (), 1));
    let paced = done.paced.as_ref().expect("an open loop");
    // The fourth begins after three of 1 ms, and was due at 300 µs.
    assert_eq!((paced.missed, took), (3, Nanos(11 * MS)));
    let lag = paced.lag.max().unwrap();
    assert!(lag.abs_diff(2700 * US) < 30 * US, "{lag}");
    let (done, _) = go(Lane::new(MS, 0), &replaying(TIMED, |_| (), 8));
    assert_eq!(done.paced.as_ref().expect("an open loop").missed, 0);
}

#[test]
fn without_times_it_is_a_closed_loop() {
    let at_once = |depth| go(Lane::new(MS, 0), &replaying(TIMED, |r| r.stalls = false, depth));
    let (done, took) = at_once(1);
    assert_eq!((counts(&done), took), ([2, 1, 2], Nanos(5 * MS)));
    assert!(done.paced.is_none());
    assert_eq!(at_once(2).1, Nanos(3 * MS));
    let waits = "fio version 2 iolog\n/a add\n/a read 0 512\n/a wait 30 0\n/a read 0 512\n\
        /a read 0 512\n";
    let (done, took) = go(Lane::new(MS, 0), &replaying(waits, |_| (), 1));
    assert_eq!((done.read.ios, took), (3, Nanos(32 * MS)));
    assert!(done.paced.is_none());
}

#[test]
fn without_an_end_it_begins_again() {
    let mut worker = worker(Lane::new(MS, 0), &replaying(TIMED, |r| r.endless = true, 1));
    let done = run(&mut worker, Nanos::from_millis(100));
    assert_eq!(counts(&done).iter().sum::<u64>(), 99);
}
