//! `drumfire run` against a foreign target, our own, and without any wire.

use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, IQN, NQN, Tgt};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// Result that a run printed, after checks that apply to every good result.
fn good(finished: Finished) -> Value {
    let result = finished.ok().json();
    assert_eq!(result["schema_version"], 5, "{result}");
    assert_eq!(result["origin"], "measured", "{result}");
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    assert!(result["totals"]["ios"].as_u64().is_some_and(|ios| ios > 0), "{result}");
    result
}

/// Runs two seconds of everything against a remote volume, data verified.
fn verify(drumfire: &Drumfire, uri: &str) {
    let folder = Folder::new();
    for shape in [
        "--size 4k --read 50 --outstanding 32",
        "--size 512 --read 30 --outstanding 8",
        // Longer than a burst, so that R2Ts and several data PDUs are needed.
        "--size 256k --read 50 --outstanding 4",
        "--size 4k --read 0 --random 0 --outstanding 1",
    ] {
        let args = format!("run {uri} {shape} --verify --destroy --seconds 2 --ramp 0 --json");
        let result = good(drumfire.run(folder.path(), &args, LIMIT));
        let writes = result["totals"]["write"]["ios"].as_u64();
        assert!(writes.is_some_and(|ios| ios > 0), "{shape}: {result}");
    }
}

#[test]
fn verifies_data_on_a_foreign_target() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(tgt) = Tgt::serve(64 << 20) else { return };
    verify(&drumfire, &tgt.uri);
}

#[test]
fn verifies_data_on_our_target() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    verify(&drumfire, &served.uri("disk"));
}

#[test]
fn verifies_data_on_a_file_behind_our_target() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let disk = folder.file("disk", &vec![0; 32 << 20]);
    let served = drumfire.serve(&[&format!("disk=file:{}", disk.display())]);
    verify(&drumfire, &served.uri("disk"));
}

#[test]
fn verifies_data_over_nvme_tcp() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    verify(&drumfire, &served.nvme_uri("disk"));
}

#[test]
fn both_protocols_reach_the_same_volume() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let disk = folder.file("disk", &vec![0; 16 << 20]);
    let served = drumfire.serve(&[&format!("disk=file:{}", disk.display())]);
    let (iscsi, nvme) = (served.uri("disk"), served.nvme_uri("disk"));
    let run = |args: String| {
        good(drumfire.run(folder.path(), &format!("run {args} --ramp 0 --json"), LIMIT));
    };
    run(format!("{nvme} --size 4k --read 0 --seconds 1 --destroy"));
    assert!(std::fs::read(&disk).unwrap() != vec![0; 16 << 20], "nothing was written");
    run(format!("{iscsi} {nvme} --size 4k --seconds 1"));
}

#[test]
fn discovers_what_a_portal_has() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["one=ram:1m", "two=ram:1m"]);
    let folder = Folder::new();
    let discover = |portal: &str| {
        let found = drumfire.run(folder.path(), &format!("discover {portal}"), LIMIT).ok();
        found.stdout.lines().map(String::from).collect::<Vec<_>>()
    };
    let targets = ["one", "two"].map(|name| format!("{}/{IQN}:{name}", served.portal()));
    assert_eq!(discover(&served.portal()), targets);
    let nvme = format!("nvme+tcp://127.0.0.1:{}", served.nvme_port);
    let found = discover(&nvme);
    for name in ["one", "two"] {
        assert!(found.contains(&format!("{nvme}/{NQN}:{name}")), "{name} in {found:?}");
    }
    let Some(tgt) = Tgt::serve(1 << 20) else { return };
    let (target, _) = tgt.uri.rsplit_once('/').expect("a URI ends in a LUN");
    let (portal, _) = target.rsplit_once('/').expect("before it stands a name");
    assert_eq!(discover(portal), [target]);
}

#[test]
fn the_doctor_can_be_asked() {
    let Some(drumfire) = Drumfire::find() else { return };
    let said = drumfire.run(Folder::new().path(), "doctor", LIMIT).ok().stdout;
    assert!(said.contains("io_uring"), "{said}");
}

#[test]
fn drives_what_needs_no_wire() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let disk = folder.file("disk", &vec![1; 16 << 20]);
    for volume in ["null:1t", "ram:64m", &format!("file:{}", disk.display())] {
        let args = format!("run {volume} --seconds 1 --ramp 0 --json");
        good(drumfire.run(folder.path(), &args, LIMIT));
    }
}

#[test]
fn several_workers_drive_several_volumes() {
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["a=ram:16m", "b=ram:16m", "c=ram:16m"]);
    let uris = ["a", "b", "c"].map(|name| served.uri(name)).join(" ");
    let folder = Folder::new();
    let args = format!("run {uris} --workers 2 --seconds 1 --ramp 0 --json");
    let result = good(drumfire.run(folder.path(), &args, LIMIT));
    let workers = result["workers"].as_array().map_or(0, Vec::len);
    assert!(workers >= 3, "every volume has a worker: {result}");
}

#[test]
fn the_words_of_fio_are_understood() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run null:1t --bs 4k --rw randread --iodepth 16 --runtime 1 --ramp_time 0 --json";
    let result = good(drumfire.run(folder.path(), args, LIMIT));
    assert_eq!(result["totals"]["write"]["ios"], 0, "{result}");
    let bytes = result["totals"]["bytes_per_second"].as_f64().unwrap();
    let iops = result["totals"]["iops"].as_f64().unwrap();
    assert!((bytes / iops - 4096.0).abs() < 1.0, "{result}");
}

/// A run ends cleanly: a target with responses left to send is not abandoned. At a low rate no
/// other I/O is in flight meanwhile.
#[test]
fn nobody_is_reset_at_the_end() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for protocol in ["iscsi", "nvme-tcp"] {
        let args = format!(
            "race --protocol {protocol} --rate 1000 --targets 2 --volumes 4 --volume-size 1m \
             --seconds 1 --ramp 0 --json"
        );
        let race = drumfire.run(folder.path(), &args, LIMIT).ok();
        assert_eq!(race.stderr, "", "{protocol}");
    }
    let served = drumfire.serve(&["a=ram:1m", "b=ram:1m"]);
    let names = ["a", "b"];
    let uris: Vec<String> =
        names.iter().flat_map(|name| [served.uri(name), served.nvme_uri(name)]).collect();
    let args = format!("run {} --rate 1000 --seconds 1 --ramp 0 --json", uris.join(" "));
    good(drumfire.run(folder.path(), &args, LIMIT));
    served.running.signal(Signal::TERM);
    let said = served.running.finish(LIMIT);
    assert!(!said.stderr.contains("ended"), "{said:?}");
}

#[test]
fn a_result_is_kept_beside_what_is_printed() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let printed =
        good(drumfire.run(folder.path(), "run null:1t --seconds 1 --ramp 0 --json", LIMIT));
    let kept = folder.result().expect("a run keeps its result");
    assert_eq!(kept["totals"], printed["totals"]);
}

#[test]
fn the_race_runs_as_the_readme_says() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "race --targets 2 --volumes 2 --volume-size 16m --seconds 2 --ramp 0 --json";
    for protocol in ["iscsi", "nvme-tcp"] {
        let args = format!("{args} --protocol {protocol}");
        let result = good(drumfire.run(folder.path(), &args, LIMIT));
        assert_eq!(result["workers"].as_array().map_or(0, Vec::len), 4, "{result}");
        let median = result["totals"]["latency_ns"]["p50"].as_u64();
        assert!(median.is_some_and(|ns| ns > 0), "{result}");
    }
    let shown = drumfire.run(folder.path(), &args.replace(" --json", ""), LIMIT).ok();
    assert!(shown.stdout.contains("IOPS"), "{shown:?}");
    assert!(!shown.stderr.contains('\u{1b}'), "no cursor tricks without a terminal: {shown:?}");
}
