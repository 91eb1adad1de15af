//! A target that answers all I/Os but one: during the run, and at its end.

use std::time::Duration;

use drumfire_tests::{
    Between, Drumfire, Fate, Finished, Folder, READ_BYTES, Served, Speech, check,
};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const FAILED: i32 = 1;
const DIFFERS: i32 = 5;
const PARTIAL: i32 = 6;

/// Runs reads at a target that withholds the response to one of them.
fn run(speech: Speech, fate: Fate, query: &str, args: &str) -> Option<(Finished, Folder)> {
    let drumfire = Drumfire::find()?;
    let served: Served = drumfire.serve(&["disk=ram:1m"]);
    let (port, uri) = match speech {
        Speech::Iscsi => (served.port, served.uri("disk")),
        Speech::Nvme => (served.nvme_port, served.nvme_uri("disk")),
    };
    let between = Between::new(speech, port, fate);
    let uri = uri.replace(&format!(":{port}/"), &format!(":{}/", between.port));
    let folder = Folder::new();
    let args =
        format!("run {uri}{query} --size {READ_BYTES} --outstanding 4 --ramp 0 {args} --json");
    let finished = drumfire.run(folder.path(), &args, LIMIT);
    Some((finished, folder))
}

/// Number of I/Os that failed with this fault.
fn failed(result: &Value, fault: &str) -> u64 {
    let failures = result["failures"].as_array().map(Vec::as_slice).unwrap_or_default();
    let alike = failures.iter().filter(|failure| failure["fault"] == fault);
    alike.map(|failure| failure["count"].as_u64().unwrap()).sum()
}

/// Asserts that a result reports one timed-out read.
fn says_so(result: &Value) {
    assert_eq!(failed(result, "not answered in time"), 1, "{}", result["failures"]);
    let (verdict, evidence) = check(result, "H21");
    assert!(verdict == "warn" || verdict == "fail", "{verdict}: {evidence}");
    let errors = result["totals"]["errors"].as_u64().unwrap();
    assert!((1..=4).contains(&errors), "{errors}: {}", result["failures"]);
    assert!(result["totals"]["ios"].as_u64().unwrap() > 90, "{}", result["totals"]);
}

/// All other I/Os complete, and the run would continue for an hour.
fn a_lost_io_ends_the_run(speech: Speech) {
    let ran = run(speech, Fate::Lost, "?io_timeout=1", "--read 100 --seconds 3600");
    let Some((finished, folder)) = ran else { return };
    assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
    for part in ["a read of 512 bytes at offset ", "was not answered within 1 s", "io_timeout=1s"] {
        assert!(finished.stderr.contains(part), "{part}: {finished:?}");
    }
    let result = folder.result().expect("a result is kept");
    says_so(&result);
    assert!(result["totals"]["seconds"].as_f64().unwrap() < 3000.0, "{}", result["totals"]);
}

#[test]
fn a_lost_io_ends_the_run_over_iscsi() {
    a_lost_io_ends_the_run(Speech::Iscsi);
}

#[test]
fn a_lost_io_ends_the_run_over_nvme_tcp() {
    a_lost_io_ends_the_run(Speech::Nvme);
}

/// Checks that the I/O is sent again on another connection, and that its full latency is reported.
fn a_run_that_reconnects_goes_on(speech: Speech) {
    let ran = run(speech, Fate::Lost, "?io_timeout=1&reconnect=20s", "--read 100 --seconds 5");
    let Some((finished, _)) = ran else { return };
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let result = finished.json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    let longest = result["totals"]["latency_ns"]["max"].as_u64().unwrap();
    assert!(longest >= 1_000_000_000, "{longest} ns");
}

#[test]
fn a_run_that_reconnects_goes_on_over_iscsi() {
    a_run_that_reconnects_goes_on(Speech::Iscsi);
}

#[test]
fn a_run_that_reconnects_goes_on_over_nvme_tcp() {
    a_run_that_reconnects_goes_on(Speech::Nvme);
}

/// Checks that the run ends before the limit, and waits no longer than that.
fn what_never_comes_back_counts_as_failed(speech: Speech) {
    let ran = run(speech, Fate::Lost, "?io_timeout=10", "--read 100 --seconds 2");
    let Some((finished, folder)) = ran else { return };
    assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
    assert!(finished.stderr.contains("was not answered within 10 s"), "{finished:?}");
    let result = folder.result().expect("a result is kept");
    says_so(&result);
    assert_eq!(result["totals"]["errors"], 1, "{result}");
    let first = &result["failures"][0]["first"];
    assert!(first["t_s"].as_f64().unwrap() > 9.0, "{first}");
    assert_eq!(first["length_bytes"], READ_BYTES, "{first}");
}

#[test]
fn what_never_comes_back_counts_as_failed_over_iscsi() {
    what_never_comes_back_counts_as_failed(Speech::Iscsi);
}

#[test]
fn what_never_comes_back_counts_as_failed_over_nvme_tcp() {
    what_never_comes_back_counts_as_failed(Speech::Nvme);
}

/// The limit is over after the end of the run: its connection is lost, and the run does not wait
/// for the rest of the ten seconds.
#[test]
fn a_connection_that_is_lost_after_the_end_makes_the_result_partial() {
    for speech in [Speech::Iscsi, Speech::Nvme] {
        let ran = run(speech, Fate::Lost, "?io_timeout=5", "--read 100 --seconds 2");
        let Some((finished, folder)) = ran else { return };
        assert_eq!(finished.code, Some(PARTIAL), "{finished:?}");
        assert!(finished.stderr.contains("was not answered within 5 s"), "{finished:?}");
        let result = folder.result().expect("a result is kept");
        says_so(&result);
        assert!(result["partial"].as_str().unwrap().contains(" lost "), "{}", result["partial"]);
        assert!(result["totals"]["seconds"].as_f64().unwrap() < 6.5, "{}", result["totals"]);
    }
}

/// An answer that comes after the end, and is an error, is not passed over.
#[test]
fn what_fails_after_the_end_counts_as_failed() {
    let fate = Fate::Fails(Duration::from_secs(5));
    let ran = run(Speech::Nvme, fate, "", "--read 100 --seconds 2");
    let Some((finished, folder)) = ran else { return };
    assert_eq!(finished.code, Some(FAILED), "{finished:?}");
    let result = folder.result().expect("a result is kept");
    assert_eq!((failed(&result, "medium error"), &result["partial"]), (1, &Value::Null));
    assert_eq!(result["totals"]["errors"], 1, "{}", result["failures"]);
    let status = result["failures"][0]["status"].as_str().unwrap_or_default();
    assert!(status.contains("SCT 2h, SC 81h"), "{status}");
    assert_ne!(check(&result, "H21").0, "pass");
}

/// Wrong data that arrive after the end are reported, too.
#[test]
fn data_that_differ_after_the_end_are_told() {
    let fate = Fate::Damaged(Duration::from_secs(5));
    let ran = run(Speech::Nvme, fate, "", "--read 50 --verify --destroy --seconds 2");
    let Some((finished, folder)) = ran else { return };
    assert_eq!(finished.code, Some(DIFFERS), "{finished:?}");
    assert!(finished.stderr.contains("read wrong data"), "{finished:?}");
    let result = folder.result().expect("a result is kept");
    assert_eq!(check(&result, "H05").0, "fail", "{}", result["checks"]);
}
