//! What breaks in the middle: the target dies, the user interrupts. Results are kept.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Running};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for a run to be under way.
const UNDER_WAY: Duration = Duration::from_millis(2500);
const PARTIAL: i32 = 6;
const INTERRUPTED: i32 = 130;

/// A run of two minutes, after its first seconds.
fn under_way(drumfire: &Drumfire, folder: &Folder, uri: &str) -> Running {
    let args = format!("run {uri} --seconds 120 --ramp 0 --json");
    let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
    std::thread::sleep(UNDER_WAY);
    assert!(running.alive(), "{running:?}");
    running
}

/// The kept result holds what was measured until then.
fn result_is_kept(folder: &Folder) {
    let result = folder.result().expect("a result is kept");
    assert!(result["totals"]["ios"].as_u64().is_some_and(|ios| ios > 0), "{result}");
    let seconds = result["totals"]["seconds"].as_f64().unwrap_or(0.0);
    assert!(seconds > 0.5 && seconds < 60.0, "{seconds} s measured: {result}");
}

#[test]
fn a_dead_target_leaves_a_partial_result() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let running = under_way(&drumfire, &folder, &served.uri("disk"));
    drop(served);
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
    assert!(!finished.stderr.is_empty(), "{finished:?}");
    result_is_kept(&folder);
}

#[test]
fn an_interrupt_stops_drains_and_keeps() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let running = under_way(&drumfire, &folder, &served.uri("disk"));
    running.signal(Signal::INT);
    let finished = running.finish(Duration::from_secs(10));
    assert_eq!(finished.code, Some(INTERRUPTED), "{finished:?}");
    assert_eq!(finished.json()["schema_version"], 1);
    result_is_kept(&folder);
}

#[test]
fn a_second_interrupt_means_now() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let running = under_way(&drumfire, &folder, &served.uri("disk"));
    // It cannot drain while its target sleeps.
    served.running.signal(Signal::STOP);
    running.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::INT);
    let finished = running.finish(Duration::from_secs(5));
    assert_eq!(finished.code, Some(INTERRUPTED), "{finished:?}");
}

#[test]
fn the_race_can_be_interrupted() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "race --targets 2 --volumes 2 --volume-size 16m --seconds 120 --ramp 0 --json";
    let running = Running::start(&mut drumfire.command(folder.path(), args));
    std::thread::sleep(UNDER_WAY);
    running.signal(Signal::INT);
    let finished = running.finish(Duration::from_secs(10));
    assert_eq!(finished.code, Some(INTERRUPTED), "{finished:?}");
    result_is_kept(&folder);
}

#[test]
fn a_target_ends_when_told_to_with_sessions_open() {
    let Some(drumfire) = Drumfire::find() else { return };
    for signal in [Signal::TERM, Signal::INT] {
        let served = drumfire.serve(&["disk=ram:64m"]);
        let folder = Folder::new();
        let running = under_way(&drumfire, &folder, &served.uri("disk"));
        served.running.signal(signal);
        let ended = served.running.finish(Duration::from_secs(10));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(running.finish(LIMIT).code, Some(PARTIAL));
    }
}
