//! Failures during a run: the target dies, the user interrupts. Results are saved.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Patience, Running, Served, free_port, under_way};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
/// Duration of a run that is ended early: longer than any stall of a host.
const ENDLESS_S: f64 = 600.0;
/// Time for which a returning target is gone.
const AWAY: Duration = Duration::from_millis(700);
const PARTIAL: i32 = 6;
const INTERRUPTED: i32 = 130;

/// A run of ten minutes, after its first second.
fn endless(drumfire: &Drumfire, folder: &Folder, uri: &str) -> Running {
    let args = format!("run {uri} --seconds {ENDLESS_S} --ramp 0 --json");
    under_way(&mut drumfire.command(folder.path(), &args))
}

/// Asserts that the saved result has the measurements so far.
fn result_is_kept(folder: &Folder) {
    let result = folder.result().expect("a result is kept");
    assert!(result["totals"]["ios"].as_u64().is_some_and(|ios| ios > 0), "{result}");
    let seconds = result["totals"]["seconds"].as_f64().unwrap_or(0.0);
    assert!(seconds > 0.0 && seconds < ENDLESS_S, "{seconds} s measured: {result}");
}

/// A way to the volume of a target.
type Way = fn(&Served, &str) -> String;

fn a_dead_target_leaves_a_partial_result(way: Way) {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let running = endless(&drumfire, &folder, &way(&served, "disk"));
    drop(served);
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
    assert!(!finished.stderr.is_empty(), "{finished:?}");
    result_is_kept(&folder);
}

#[test]
fn a_dead_target_leaves_a_partial_result_over_iscsi() {
    a_dead_target_leaves_a_partial_result(Served::uri);
}

#[test]
fn a_dead_target_leaves_a_partial_result_over_nvme_tcp() {
    a_dead_target_leaves_a_partial_result(Served::nvme_uri);
}

/// Unanswered I/Os are reported.
fn a_silent_target_leaves_a_partial_result(way: Way) {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let uri = way(&served, "disk");
    // The window ends before the connection is closed for silence.
    let args = format!("run {uri}?io_timeout=7 --outstanding 3 --seconds 4 --ramp 0 --json");
    let running = under_way(&mut drumfire.command(folder.path(), &args));
    served.running.signal(Signal::STOP);
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
    for part in ["was not answered within 7 s (io_timeout)", "3 I/Os failed"] {
        assert!(finished.stderr.contains(part), "{part}: {finished:?}");
    }
    // The age of the unanswered I/Os is a lower bound of every latency that they could move.
    let latency = &finished.json()["totals"]["latency_ns"];
    assert!(latency["max"].as_u64() >= Some(7_000_000_000), "{latency}");
    assert!(latency["waiting_from"].as_u64() <= latency["max"].as_u64(), "{latency}");
    assert!(latency["waiting_from"].is_u64(), "{latency}");
    result_is_kept(&folder);
}

#[test]
fn a_silent_target_leaves_a_partial_result_over_iscsi() {
    a_silent_target_leaves_a_partial_result(Served::uri);
}

#[test]
fn a_silent_target_leaves_a_partial_result_over_nvme_tcp() {
    a_silent_target_leaves_a_partial_result(Served::nvme_uri);
}

/// A run with `reconnect` returns to a target that was away, and loses nothing: every block is
/// compared with the last data written to it.
fn a_run_comes_back(way: Way) {
    let Some(drumfire) = Drumfire::find() else { return };
    let (store, folder) = (Folder::new(), Folder::new());
    let volume = format!("disk=file:{}/disk?size=4m", store.path().display());
    // No other test may get these ports while the target is away.
    let ports = [free_port(), free_port()];
    let serve = || drumfire.serve_at(ports, &format!("--volume {volume}"));
    let served = serve();
    let uri = format!("{}?reconnect=200s", way(&served, "disk"));
    let args = format!("run {uri} --size 4k --read 50 --verify --seconds 7 --ramp 0 --json");
    let args = format!("{args} --destroy");
    let running = under_way(&mut drumfire.command(folder.path(), &args));
    // A killed process closes its sockets at its end, on a busy host some time later.
    served.running.signal(Signal::KILL);
    drop(served);
    std::thread::sleep(AWAY);
    let _back = serve();
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let result = finished.json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    // I/Os in flight waited for the target: their latency is not hidden.
    let longest = result["totals"]["latency_ns"]["max"].as_u64().unwrap_or(0);
    assert!(u128::from(longest) >= AWAY.as_nanos(), "{longest} ns");
    // Nor that the connection was lost, for how long, and when.
    for place in [&result["totals"], &result["workers"][0]] {
        assert_eq!((&place["connections_lost"], &place["reconnects"]), (&1.into(), &1.into()));
        assert!(place["disconnected_seconds"].as_f64().unwrap() >= AWAY.as_secs_f64(), "{place}");
    }
    let seconds = result["intervals"].as_array().unwrap().iter();
    assert_eq!(seconds.map(|second| second["reconnects"].as_u64().unwrap()).sum::<u64>(), 1);
    let runs = folder.path().join("drumfire-runs");
    let run = std::fs::read_dir(runs).unwrap().next().expect("a run is kept").unwrap().path();
    let report = format!("report {}", run.display());
    let report = drumfire.run(folder.path(), &report, LIMIT).ok().stdout;
    assert!(report.contains("1 reconnect") && report.contains(" s disconnected"), "{report}");
}

#[test]
fn a_run_comes_back_over_iscsi() {
    a_run_comes_back(Served::uri);
}

#[test]
fn a_run_comes_back_over_nvme_tcp() {
    a_run_comes_back(Served::nvme_uri);
}

/// The target does not return: the run ends when its reconnect time is over, with its results.
#[test]
fn a_run_gives_up_when_nobody_comes_back() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let uri = format!("{}?reconnect=2s", served.uri("disk"));
    let running = endless(&drumfire, &folder, &uri);
    drop(served);
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
    result_is_kept(&folder);
    let totals = &folder.result().expect("a result is kept")["totals"];
    assert_eq!((&totals["connections_lost"], &totals["reconnects"]), (&1.into(), &0.into()));
    assert!(totals["failed_attempts"].as_u64().unwrap() > 1, "{totals}");
}

fn an_interrupt_stops_drains_and_keeps(way: Way) {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    // By the user, and by whoever shuts the host down.
    for signal in [Signal::INT, Signal::TERM] {
        let folder = Folder::new();
        let running = endless(&drumfire, &folder, &way(&served, "disk"));
        running.signal(signal);
        let finished = running.finish(LIMIT);
        assert_eq!(finished.code, Some(INTERRUPTED), "{signal:?}: {finished:?}");
        assert_eq!(finished.json()["schema_version"], 5);
        result_is_kept(&folder);
    }
}

/// The results up to the kill are in the folder, and `report` reads them in every format.
#[test]
fn a_run_that_is_killed_leaves_what_it_measured() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run null:1g --rate 10k --seconds 600 --ramp 0 --json --out killed";
    let mut running = Running::start(&mut drumfire.command(folder.path(), args));
    let result = folder.path().join("killed/result.json");
    running.await_that(LIMIT, |_| result.is_file().then_some(()));
    running.signal(Signal::KILL);
    assert_eq!(running.finish(LIMIT).code, None);
    let report = |form: &str| {
        drumfire.run(folder.path(), &format!("report killed --as {form}"), LIMIT).ok().stdout
    };
    let kept: serde_json::Value = serde_json::from_str(&report("json")).unwrap();
    assert!(kept["partial"].as_str().unwrap().starts_with("cut off after"), "{kept}");
    // All of the run's I/Os are in its seconds.
    let intervals = kept["intervals"].as_array().unwrap();
    let (mut done, mut begin) = (0.0, 0.0);
    for second in intervals {
        let end = second["t"].as_f64().unwrap();
        done += (end - begin) * second["iops"].as_f64().unwrap();
        begin = end;
    }
    let ios = kept["totals"]["ios"].as_f64().unwrap();
    assert!(ios > 0.0 && (done / ios - 1.0).abs() < 0.01, "{done} of {kept}");
    for form in ["text", "fio", "csv", "iometer", "hlog", "html"] {
        assert!(!report(form).is_empty(), "{form}");
    }
}

/// A run started by another program, such as `nohup`.
fn begun_by(program: &std::path::Path, word: Option<&str>, inner: &Command) -> Running {
    let mut command = Command::new(program);
    command.args(word).arg(inner.get_program()).args(inner.get_args());
    let folder = inner.get_current_dir().expect("it runs in a folder of its own");
    let running = under_way(command.current_dir(folder));
    running.signal(Signal::HUP);
    running
}

/// A run under `nohup` completes.
#[test]
fn a_run_under_nohup_outlives_its_terminal() {
    let (Some(drumfire), Some(nohup)) = (Drumfire::find(), drumfire_tests::require("nohup")) else {
        return;
    };
    let folder = Folder::new();
    let run = drumfire.command(folder.path(), "run null:1g --seconds 3 --ramp 0 --json --out o");
    let finished = begun_by(&nohup, None, &run).finish(LIMIT);
    assert_eq!(finished.code, Some(0), "{finished:?}");
}

/// Other runs end with their terminal, and save their results. The tests themselves may run under
/// `nohup`, which would reach the run.
#[test]
fn a_run_ends_with_its_terminal() {
    let (Some(drumfire), Some(env)) = (Drumfire::find(), drumfire_tests::require("env")) else {
        return;
    };
    let folder = Folder::new();
    let run = drumfire.command(folder.path(), "run null:1g --seconds 600 --ramp 0 --json");
    let finished = begun_by(&env, Some("--default-signal=HUP"), &run).finish(LIMIT);
    assert_eq!(finished.code, Some(INTERRUPTED), "{finished:?}");
    result_is_kept(&folder);
}

#[test]
fn an_interrupt_stops_drains_and_keeps_over_iscsi() {
    an_interrupt_stops_drains_and_keeps(Served::uri);
}

#[test]
fn an_interrupt_stops_drains_and_keeps_over_nvme_tcp() {
    an_interrupt_stops_drains_and_keeps(Served::nvme_uri);
}

/// An initiator that vanishes silently leaves a target that serves the next.
#[test]
fn a_dead_initiator_leaves_the_target_to_others() {
    let Some(drumfire) = Drumfire::find() else { return };
    for way in [Served::uri, Served::nvme_uri] {
        let mut served = drumfire.serve(&["disk=ram:64m"]);
        let folder = Folder::new();
        let uri = way(&served, "disk");
        // Ended by SIGKILL.
        drop(endless(&drumfire, &folder, &uri));
        assert!(served.running.alive(), "{}", served.running.stderr());
        let args = format!("run {uri} --seconds 1 --ramp 0 --json");
        let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
        assert_eq!(result["totals"]["errors"], 0, "{result}");
        served.running.signal(Signal::TERM);
        let ended = served.running.finish(LIMIT);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

#[test]
fn a_second_interrupt_means_now() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let mut running = endless(&drumfire, &folder, &served.uri("disk"));
    // The run cannot drain while its target sleeps.
    served.running.signal(Signal::STOP);
    // The second signal counts only after the first was handled, because two pending ones merge.
    // Less than the ten seconds of draining.
    let mut patience = Patience::new(Duration::from_secs(8));
    while running.alive() {
        running.signal(Signal::INT);
        assert!(patience.wait(), "it drains: {running:?}");
    }
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(INTERRUPTED), "{finished:?}");
}

#[test]
fn the_race_can_be_interrupted() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "race --targets 2 --volumes 2 --volume-size 16m --seconds 600 --ramp 0 --json";
    let running = under_way(&mut drumfire.command(folder.path(), args));
    running.signal(Signal::INT);
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(INTERRUPTED), "{finished:?}");
    result_is_kept(&folder);
}

#[test]
fn a_target_ends_when_told_to_with_sessions_open() {
    let Some(drumfire) = Drumfire::find() else { return };
    let ways: [Way; 2] = [Served::uri, Served::nvme_uri];
    for (signal, way) in [Signal::TERM, Signal::INT].into_iter().zip(ways) {
        let served = drumfire.serve(&["disk=ram:64m"]);
        let folder = Folder::new();
        let running = endless(&drumfire, &folder, &way(&served, "disk"));
        served.running.signal(signal);
        let ended = served.running.finish(LIMIT);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(running.finish(LIMIT).code, Some(PARTIAL));
    }
}
