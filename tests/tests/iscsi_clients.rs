//! The tools of libiscsi against our target.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, IQN, Running, require, run};

const LIMIT: Duration = Duration::from_secs(300);

fn tool(program: &std::path::Path, args: &str) -> Finished {
    run(Command::new(program).args(args.split(' ')), LIMIT).ok()
}

#[test]
fn discovery_lists_every_target_and_unit() {
    let Some(iscsi_ls) = require("iscsi-ls") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let volumes = ["alone=ram:64m", "pair/1=ram:16m", "pair/2=ram:32m"];
    let served = drumfire.serve(&volumes);
    let listed = tool(&iscsi_ls, &format!("-s {}", served.portal())).stdout;
    let targets = listed.matches("Target:").count();
    assert_eq!(targets, 2, "{listed}");
    for name in ["alone", "pair"] {
        let line = format!("Target:{IQN}:{name} Portal:127.0.0.1:{},1", served.port);
        assert!(listed.contains(&line), "{line} in {listed}");
    }
    let units: Vec<&str> = listed.lines().filter(|line| line.starts_with("Lun:")).collect();
    assert_eq!(units.len(), 3, "{listed}");
    assert!(units.iter().all(|unit| unit.contains("DIRECT_ACCESS")), "{listed}");
    assert!(units.iter().any(|unit| unit.starts_with("Lun:2")), "{listed}");
}

#[test]
fn discovery_in_a_session_of_many_portal_visits() {
    let Some(iscsi_ls) = require("iscsi-ls") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let volumes: Vec<String> = (0..40).map(|i| format!("volume-{i}=ram:1m")).collect();
    let served = drumfire.serve(&volumes.iter().map(String::as_str).collect::<Vec<_>>());
    for _ in 0..20 {
        let listed = tool(&iscsi_ls, &served.portal()).stdout;
        assert_eq!(listed.matches("Target:").count(), 40, "{listed}");
    }
}

#[test]
fn inquiry_says_who_we_are() {
    let Some(iscsi_inq) = require("iscsi-inq") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    let uri = served.uri("disk");
    let standard = tool(&iscsi_inq, &uri).stdout;
    for expected in ["Device Type:DIRECT_ACCESS", "Vendor:DRUMFIRE", "Removable:0", "CmdQue:1"] {
        assert!(standard.contains(expected), "{expected} in {standard}");
    }
    let pages = tool(&iscsi_inq, &format!("-e 1 -c 0 {uri}")).stdout;
    for page in [0x00, 0x80, 0x83, 0xb0, 0xb1, 0xb2] {
        assert!(pages.contains(&format!("Page:0x{page:02x}")), "{page:#x} in {pages}");
        // The tool accepts decimal numbers only.
        tool(&iscsi_inq, &format!("-e 1 -c {page} {uri}"));
    }
}

#[test]
fn serial_numbers_differ_between_units_and_stay_between_starts() {
    let Some(iscsi_inq) = require("iscsi-inq") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let serial = |uri: String| tool(&iscsi_inq, &format!("-e 1 -c 128 {uri}")).stdout;
    let folder = Folder::new();
    let volumes = ["a", "b"]
        .map(|name| format!("{name}=file:{}", folder.file(name, &[0; 1 << 20]).display()));
    let serials = || {
        let served = drumfire.serve(&[&volumes[0], &volumes[1]]);
        [serial(served.uri("a")), serial(served.uri("b"))]
    };
    let first = serials();
    assert_ne!(first[0], first[1]);
    assert_eq!(first, serials());
}

#[test]
fn capacity_is_that_of_the_volume() {
    let Some(readcapacity16) = require("iscsi-readcapacity16") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["small=ram:64m", "huge=null:3t"]);
    for (name, bytes) in [("small", 64_u64 << 20), ("huge", 3 << 40)] {
        let said = tool(&readcapacity16, &format!("-s {}", served.uri(name))).stdout;
        assert_eq!(said.trim(), bytes.to_string());
    }
}

#[test]
fn perf_tool_reads_at_depth() {
    let Some(iscsi_perf) = require("iscsi-perf") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:64m"]);
    for blocks in [1, 8, 64] {
        let args = format!("-r -b {blocks} -m 32 {}", served.uri("disk"));
        // The program prints its progress each second; with a runtime it may miss its end.
        let mut running = Running::start(Command::new(&iscsi_perf).args(args.split(' ')));
        let iops = running.await_stdout(LIMIT, |said| {
            let (_, average) = said.rsplit_once("iops average ")?;
            average.split_once(' ')?.0.parse::<u64>().ok()
        });
        assert!(iops > 0, "{}", running.stdout());
    }
}
