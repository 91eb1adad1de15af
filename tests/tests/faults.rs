//! What breaks in the middle: the target dies, the user interrupts. Results are kept.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Running, Served};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for a run to be under way.
const UNDER_WAY: Duration = Duration::from_millis(2500);
/// How long a target is gone that comes back.
const AWAY: Duration = Duration::from_millis(700);
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

/// A way to the volume of a target.
type Way = fn(&Served, &str) -> String;

fn a_dead_target_leaves_a_partial_result(way: Way) {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let running = under_way(&drumfire, &folder, &way(&served, "disk"));
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

/// What is never answered is not passed over in silence.
fn a_silent_target_leaves_a_partial_result(way: Way) {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let uri = way(&served, "disk");
    // Its end and the ten seconds after it come before the connection is given up for silence.
    let args = format!("run {uri} --outstanding 3 --seconds 4 --ramp 0 --json");
    let running = Running::start(&mut drumfire.command(folder.path(), &args));
    std::thread::sleep(UNDER_WAY);
    served.running.signal(Signal::STOP);
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
    assert!(finished.stderr.contains("3 I/Os were not answered"), "{finished:?}");
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

/// A run that was asked to comes back to a target that was away, and loses nothing: every block is
/// compared with what was last written to it.
fn a_run_comes_back(way: Way) {
    let Some(drumfire) = Drumfire::find() else { return };
    let (store, folder) = (Folder::new(), Folder::new());
    let volume = format!("disk=file:{}/disk?size=4m", store.path().display());
    let served = drumfire.serve(&[&volume]);
    let uri = format!("{}?reconnect=20s", way(&served, "disk"));
    let ports = format!(
        "serve --iscsi 127.0.0.1:{} --nvme-tcp 127.0.0.1:{} --volume {volume}",
        served.port, served.nvme_port
    );
    let args = format!("run {uri} --size 4k --read 50 --verify --seconds 7 --ramp 0 --json");
    let args = format!("{args} --destroy");
    let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
    std::thread::sleep(UNDER_WAY);
    assert!(running.alive(), "{running:?}");
    served.running.signal(Signal::KILL);
    std::thread::sleep(AWAY);
    drop(served);
    let mut back = Running::start(&mut drumfire.command(store.path(), &ports));
    back.await_stdout(LIMIT, |stdout| stdout.starts_with("ready ").then_some(()));
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let result = finished.json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    // Those under way waited for the target: what they took is not hidden.
    let longest = result["totals"]["latency_ns"]["max"].as_u64().unwrap_or(0);
    assert!(u128::from(longest) >= AWAY.as_nanos(), "{longest} ns");
}

#[test]
fn a_run_comes_back_over_iscsi() {
    a_run_comes_back(Served::uri);
}

#[test]
fn a_run_comes_back_over_nvme_tcp() {
    a_run_comes_back(Served::nvme_uri);
}

/// Nobody comes back: the run ends when its patience does, with what it has.
#[test]
fn a_run_gives_up_when_nobody_comes_back() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let folder = Folder::new();
    let uri = format!("{}?reconnect=2s", served.uri("disk"));
    let running = under_way(&drumfire, &folder, &uri);
    drop(served);
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
    result_is_kept(&folder);
}

fn an_interrupt_stops_drains_and_keeps(way: Way) {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    // By the user, and by whoever shuts the host down.
    for signal in [Signal::INT, Signal::TERM] {
        let folder = Folder::new();
        let running = under_way(&drumfire, &folder, &way(&served, "disk"));
        running.signal(signal);
        let finished = running.finish(Duration::from_secs(10));
        assert_eq!(finished.code, Some(INTERRUPTED), "{signal:?}: {finished:?}");
        assert_eq!(finished.json()["schema_version"], 1);
        result_is_kept(&folder);
    }
}

/// What was measured until then is in the folder, and `report` reads it in every form.
#[test]
fn a_run_that_is_killed_leaves_what_it_measured() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run null:1g --rate 10k --seconds 60 --ramp 0 --json --out killed";
    let running = Running::start(&mut drumfire.command(folder.path(), args));
    let result = folder.path().join("killed/result.json");
    let began = std::time::Instant::now();
    while !result.is_file() {
        assert!(began.elapsed() < LIMIT, "{running:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    running.signal(Signal::KILL);
    assert_eq!(running.finish(LIMIT).code, None);
    let report = |form: &str| {
        drumfire.run(folder.path(), &format!("report killed --as {form}"), LIMIT).ok().stdout
    };
    let kept: serde_json::Value = serde_json::from_str(&report("json")).unwrap();
    assert!(kept["partial"].as_str().unwrap().starts_with("cut after"), "{kept}");
    assert!(kept["totals"]["ios"].as_u64().unwrap() > 1000, "{kept}");
    assert_eq!(kept["intervals"].as_array().unwrap().len() as u64, {
        kept["totals"]["seconds"].as_f64().unwrap().round() as u64
    });
    for form in ["text", "fio", "csv", "hlog", "html"] {
        assert!(!report(form).is_empty(), "{form}");
    }
}

/// A run that another program begins, such as `nohup`.
fn begun_by(program: &std::path::Path, word: Option<&str>, inner: &Command) -> Running {
    let mut command = Command::new(program);
    command.args(word).arg(inner.get_program()).args(inner.get_args());
    let folder = inner.get_current_dir().expect("it runs in a folder of its own");
    let running = Running::start(command.current_dir(folder));
    std::thread::sleep(UNDER_WAY);
    running.signal(Signal::HUP);
    running
}

/// Who says nohup wants the whole run.
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

/// Others end with their terminal, and keep what they have. Whoever began this test may have said
/// nohup, which would reach the run.
#[test]
fn a_run_ends_with_its_terminal() {
    let (Some(drumfire), Some(env)) = (Drumfire::find(), drumfire_tests::require("env")) else {
        return;
    };
    let folder = Folder::new();
    let run = drumfire.command(folder.path(), "run null:1g --seconds 120 --ramp 0 --json");
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

/// An initiator that is gone without a word leaves a target that serves the next.
#[test]
fn a_dead_initiator_leaves_the_target_to_others() {
    let Some(drumfire) = Drumfire::find() else { return };
    for way in [Served::uri, Served::nvme_uri] {
        let mut served = drumfire.serve(&["disk=ram:64m"]);
        let folder = Folder::new();
        let uri = way(&served, "disk");
        // Ended by SIGKILL.
        drop(under_way(&drumfire, &folder, &uri));
        assert!(served.running.alive(), "{}", served.running.stderr());
        let args = format!("run {uri} --seconds 1 --ramp 0 --json");
        let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
        assert_eq!(result["totals"]["errors"], 0, "{result}");
        served.running.signal(Signal::TERM);
        let ended = served.running.finish(Duration::from_secs(10));
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
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
    let ways: [Way; 2] = [Served::uri, Served::nvme_uri];
    for (signal, way) in [Signal::TERM, Signal::INT].into_iter().zip(ways) {
        let served = drumfire.serve(&["disk=ram:64m"]);
        let folder = Folder::new();
        let running = under_way(&drumfire, &folder, &way(&served, "disk"));
        served.running.signal(signal);
        let ended = served.running.finish(Duration::from_secs(10));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(running.finish(LIMIT).code, Some(PARTIAL));
    }
}
