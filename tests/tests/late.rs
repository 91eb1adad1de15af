//! A target that is stopped during a measurement, and the effects on the result.

use std::time::{Duration, Instant};

use drumfire_tests::{Drumfire, Finished, Folder, Running, Served, check};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const SECONDS: u32 = 4;
const PARTIAL: i32 = 6;
const INTERRUPTED: i32 = 130;

/// A run on two targets, of which the second is stopped after the first second.
struct Stopped {
    run: Running,
    folder: Folder,
    _goes_on: Served,
    stopped: Served,
    since: Instant,
}

impl Stopped {
    fn begin(query: &str) -> Option<Stopped> {
        let drumfire = Drumfire::find()?;
        let [goes_on, stopped] = [(); 2].map(|()| drumfire.serve(&["disk=ram:16m"]));
        let folder = Folder::new();
        let (one, two) = (goes_on.uri("disk"), stopped.nvme_uri("disk"));
        let args = format!(
            "run {one} {two}{query} --size 4k --outstanding 4 --ramp 0 --seconds {SECONDS}"
        );
        let mut run = Running::start(&mut drumfire.command(folder.path(), &args));
        await_second(&mut run, 1);
        stopped.running.signal(Signal::STOP);
        Some(Stopped { run, folder, _goes_on: goes_on, stopped, since: Instant::now() })
    }

    /// Waits until the window is over; returns for how long the target has been stopped.
    fn await_end(&mut self) -> Duration {
        await_second(&mut self.run, SECONDS);
        self.since.elapsed()
    }

    fn finish(self) -> (Finished, Value) {
        let finished = self.run.finish(LIMIT);
        // Lets the target end cleanly.
        self.stopped.running.signal(Signal::CONT);
        let result = self.folder.result().expect("a result is kept");
        (finished, result)
    }
}

/// Waits for the line of this second. A process that did not run for a while may skip some.
fn await_second(run: &mut Running, second: u32) {
    run.await_stderr(LIMIT, |stderr| {
        let number = |line: &str| line.split_once("s  ")?.0.trim().parse::<u32>().ok();
        stderr.lines().filter_map(number).any(|number| number >= second).then_some(())
    });
}

fn ns(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no time"))
}

fn little_holds(result: &Value) {
    let (verdict, evidence) = check(result, "H11");
    assert_eq!(verdict, "pass", "{evidence}");
    assert!(evidence.contains("(0 ns apart)"), "{evidence}");
}

/// H21 detects: a target stops before the window ends and resumes later.
#[test]
fn what_waits_at_the_end_is_waited_for() {
    let Some(mut stopped) = Stopped::begin("") else { return };
    let least = stopped.await_end();
    stopped.stopped.running.signal(Signal::CONT);
    let (finished, result) = stopped.finish();
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let totals = &result["totals"];
    assert_eq!((&totals["errors"], &totals["waiting"]), (&Value::from(0), &Value::Null));
    // All four slots of the worker were in use while the target was stopped, except for the moment
    // in which the last responses arrived.
    let least = least.as_nanos() as u64 / 2;
    assert!(ns(&totals["latency_ns"]["max"]) >= least, "{totals}, {least} ns");
    let workers = result["workers"].as_array().expect("two");
    assert!(ns(&workers[1]["latency_ns"]["max"]) >= least, "{workers:?}, {least} ns");
    let late = ns(&totals["latency_ns"]["samples"]) - ns(&totals["ios"]);
    assert!((4..=8).contains(&late), "{late} came back late: {totals}");
    let seconds = result["intervals"].as_array().expect("a row a second");
    let waited = seconds.iter().filter_map(|second| second["oldest_ns"].as_u64()).max();
    assert!(waited.is_some_and(|waited| waited >= least), "{seconds:?}, {least} ns");
    assert!(seconds.iter().all(|second| ns(&second["max_ns"]) >= ns(&second["oldest_ns"])));
    assert!(finished.stderr.contains("one waits for"), "{}", finished.stderr);
    little_holds(&result);
}

/// H21 detects: a target stops for good.
#[test]
fn what_a_user_does_not_wait_for_counts_with_its_age() {
    let Some(mut stopped) = Stopped::begin("") else { return };
    let least = stopped.await_end().as_nanos() as u64 / 2;
    // If a late line was mistaken for the last one, the first signal only ends the window.
    stopped.run.signal(Signal::INT);
    std::thread::sleep(Duration::from_secs(5));
    if stopped.run.alive() {
        stopped.run.signal(Signal::INT);
    }
    let (finished, result) = stopped.finish();
    assert_eq!(finished.code, Some(INTERRUPTED), "{finished:?}");
    let totals = &result["totals"];
    assert_eq!((ns(&totals["errors"]), ns(&totals["waiting"]["ios"])), (0, 4), "{totals}");
    assert!(ns(&totals["waiting"]["oldest_ns"]) >= least, "{totals}, {least} ns");
    assert_eq!(totals["latency_ns"]["max"], totals["waiting"]["oldest_ns"]);
    assert!(ns(&totals["latency_ns"]["waiting_from"]) >= least, "{totals}, {least} ns");
    let partial = result["partial"].as_str().expect("it is not whole");
    let words = ["ended with 4 I/Os unanswered", "interrupted after"];
    assert!(words.iter().any(|words| partial.contains(words)), "{partial}");
    little_holds(&result);
}

#[test]
fn what_a_time_out_ends_counts_with_its_age() {
    let Some(stopped) = Stopped::begin("?io_timeout=2") else { return };
    let (finished, result) = stopped.finish();
    assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
    let totals = &result["totals"];
    assert!((1..=4).contains(&ns(&totals["errors"])), "{totals}");
    assert!(ns(&totals["latency_ns"]["max"]) >= 2_000_000_000, "{totals}");
    assert!(ns(&totals["latency_ns"]["waiting_from"]) > 0, "{totals}");
    little_holds(&result);
}
