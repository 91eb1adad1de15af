//! Misleading numbers, and devices that must not be overwritten: the program must notice by itself.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{
    Drumfire, Finished, Folder, Loop, Running, await_second, check, require, run, skip,
};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
/// An honesty check failed under `--strict`.
const DISHONEST: i32 = 3;
/// Exit code for wrong arguments.
const USAGE: i32 = 2;
/// Bytes of a file under test.
const BYTES: u64 = 64 << 20;
/// Reads of a second.
const READS: &str = "--size 4k --seconds 1 --ramp 0 --json";

fn sparse(folder: &Folder) -> PathBuf {
    let path = folder.file("sparse", b"");
    File::options().write(true).open(&path).unwrap().set_len(BYTES).unwrap();
    path
}

fn written(folder: &Folder) -> PathBuf {
    let path = folder.file("written", &vec![0xa5; BYTES as usize]);
    File::open(&path).unwrap().sync_all().unwrap();
    path
}

fn read(drumfire: &Drumfire, folder: &Folder, path: &Path) -> Finished {
    drumfire.run(folder.path(), &format!("run file:{} {READS} --strict", path.display()), LIMIT)
}

/// A rate over a time that includes a stop of the process is not that of the volume.
/// H15 detects: the process is stopped once.
#[test]
fn a_run_that_was_stopped_says_so() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    // After an early stop the window ends on time: only its seconds show the stop.
    for (seconds, pause_s) in [(5, 6), (10, 3)] {
        let args = format!("run null:1g --seconds {seconds} --ramp 0 --json --json-lines lines");
        let mut run = Running::start(&mut drumfire.command(folder.path(), &args));
        await_second(&mut run, &folder.path().join("lines"));
        run.signal(Signal::STOP);
        std::thread::sleep(Duration::from_secs(pause_s));
        run.signal(Signal::CONT);
        let result = run.finish(LIMIT).ok().json();
        std::fs::remove_file(folder.path().join("lines")).unwrap();
        let (verdict, evidence) = check(&result, "H15");
        assert!(evidence.contains("not scheduled for"), "{evidence}");
        assert_eq!((verdict.as_str(), result["class"].as_str()), ("fail", Some("invalid")));
    }
}

/// Many short stops make no second long, but the rate is still wrong.
/// H15 detects: twenty stops of 0.4 s.
#[test]
fn many_short_stops_are_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run null:1g --seconds 6 --ramp 0 --no-ceiling --json --json-lines lines";
    let mut run = Running::start(&mut drumfire.command(folder.path(), args));
    await_second(&mut run, &folder.path().join("lines"));
    for _ in 0..6 {
        run.signal(Signal::STOP);
        std::thread::sleep(Duration::from_millis(300));
        run.signal(Signal::CONT);
        std::thread::sleep(Duration::from_millis(200));
    }
    let (verdict, evidence) = check(&run.finish(LIMIT).ok().json(), "H15");
    assert!(evidence.contains("not scheduled for"), "{evidence}");
    assert_ne!(verdict, "pass");
}

/// H02 detects: a file with a hole.
#[test]
fn a_hole_is_no_measurement() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let finished = read(&drumfire, &folder, &sparse(&folder));
    assert_eq!(finished.code, Some(DISHONEST), "{finished:?}");
    let result = finished.json();
    assert_eq!(result["class"], "invalid");
    let (verdict, evidence) = check(&result, "H02");
    assert_eq!(verdict, "fail", "{evidence}");
    assert!(evidence.contains("100.0 %"), "{evidence}");
    // If a device is below and the file system bypasses the page cache, the device saw nothing.
    if check(&result, "H01").0 == "pass" && check(&result, "H03").0 != "unknown" {
        assert_eq!(check(&result, "H03").0, "fail", "{result}");
    }
}

/// H02 detects: a file that is only preallocated.
#[test]
fn reserved_space_is_no_measurement() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(fallocate) = require("fallocate") else { return };
    let folder = Folder::new();
    let path = folder.file("reserved", b"");
    let bytes = BYTES.to_string();
    run(Command::new(fallocate).args(["-l", &bytes]).arg(&path), LIMIT).ok();
    let finished = read(&drumfire, &folder, &path);
    let (verdict, evidence) = check(&finished.json(), "H02");
    if verdict == "pass" && evidence.contains("SEEK_HOLE") {
        return skip("this file system does not tell reserved from written");
    }
    assert_eq!(finished.code, Some(DISHONEST), "{finished:?}");
    assert!(evidence.contains("64.0 MiB reserved only"), "{evidence}");
}

/// H02 accepts: a file that was written.
#[test]
fn what_was_written_can_be_measured() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let finished = read(&drumfire, &folder, &written(&folder));
    let result = finished.json();
    assert_eq!(check(&result, "H02").0, "pass", "{result}");
    assert_ne!(check(&result, "H01").0, "fail", "{result}");
    // Another program may use the device, too: its counters are then higher, never much lower.
    assert_ne!(check(&result, "H03").0, "fail", "{result}");
    assert_eq!(check(&result, "H20").0, "unknown", "{result}");
    assert!(!result["processors"].as_array().unwrap().is_empty(), "{result}");
}

#[test]
fn what_holds_no_data_says_so() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for (uri, verdict, word) in [("null:1g", "warn", "no data"), ("ram:16m", "pass", "memory")] {
        let finished = drumfire.run(folder.path(), &format!("run {uri} {READS}"), LIMIT).ok();
        let (found, evidence) = check(&finished.json(), "H02");
        assert_eq!(found, verdict, "{uri}: {evidence}");
        assert!(evidence.contains(word), "{uri}: {evidence}");
    }
}

/// fio reads the same hole around the page cache without a warning: rates that no device reached.
#[test]
fn fio_believes_a_hole() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(fio) = require("fio") else { return };
    let folder = Folder::new();
    let path = sparse(&folder);
    let mut command = Command::new(fio);
    command.args(["--name=hole", "--direct=1", "--rw=randread", "--bs=4k", "--iodepth=32"]);
    command.args(["--ioengine=libaio", "--runtime=1", "--time_based", "--output-format=json"]);
    command.arg(format!("--size={BYTES}")).arg(format!("--filename={}", path.display()));
    let finished = run(&mut command, LIMIT);
    if finished.stderr.contains("Invalid argument") || finished.stdout.contains("Invalid argument")
    {
        return skip("the temporary folder's file system refuses O_DIRECT");
    }
    let said = finished.ok().json();
    let job = &said["jobs"][0];
    assert_eq!(job["error"], 0, "{said}");
    let ios = job["read"]["total_ios"].as_u64().unwrap();
    // The whole hole, read several times.
    assert!(ios > BYTES / 4096, "{said}");
    let ours = read(&drumfire, &folder, &path);
    assert_eq!(ours.code, Some(DISHONEST), "fio: {ios} reads; {ours:?}");
}

fn write(drumfire: &Drumfire, folder: &Folder, device: &Loop, destroy: &str) -> Finished {
    let args = format!("run file:{} --read 0 --size 4k --seconds 1 --ramp 0", device.path());
    drumfire.run(folder.path(), &format!("{args} --json {destroy}"), LIMIT)
}

/// Asserts that a run was refused with this message, and that the device's data are unchanged.
fn refused(finished: &Finished, word: &str, device: &Loop, held: &[u8]) {
    assert_eq!(finished.code, Some(USAGE), "{finished:?}");
    assert!(finished.stderr.contains(word), "{word}: {finished:?}");
    assert!(std::fs::read(device.path()).unwrap() == held, "it was written all the same");
}

#[test]
fn a_device_is_overwritten_by_name_only() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let mut held = vec![0; 8 << 20];
    held[512..520].copy_from_slice(b"EFI PART");
    held[1536..1544].copy_from_slice(b"LABELONE");
    let Some(device) = Loop::over(&folder.file("disk", &held)) else { return };
    let refused = |destroy: &str, word: &str| {
        refused(&write(&drumfire, &folder, &device, destroy), word, &device, &held);
    };
    refused("", "a GPT partition table and an LVM physical volume");
    refused("--destroy", &format!("--destroy={}", device.path()));
    refused("--destroy=/dev/null", "the job has no such volume");
    // Another program has claimed the device: naming it does not help.
    const O_EXCL: i32 = 0o200;
    let claimed = OpenOptions::new().read(true).custom_flags(O_EXCL).open(device.path()).unwrap();
    refused(&format!("--destroy={}", device.path()), "in use");
    drop(claimed);
    write(&drumfire, &folder, &device, &format!("--destroy={}", device.path())).ok();
    assert!(std::fs::read(device.path()).unwrap() != held, "nothing was written");
}

#[test]
fn a_mounted_device_is_never_written() {
    let Some(drumfire) = Drumfire::find() else { return };
    let (Some(mkfs), Some(mount)) = (require("mkfs.ext4"), require("mount")) else { return };
    let Some(umount) = require("umount") else { return };
    let folder = Folder::new();
    let Some(device) = Loop::over(&folder.file("disk", &vec![0; 8 << 20])) else { return };
    run(Command::new(mkfs).args(["-q", device.path()]), LIMIT).ok();
    let held = std::fs::read(device.path()).unwrap();
    refused(&write(&drumfire, &folder, &device, ""), "ext4 file system", &device, &held);
    let point = folder.path().join("mounted");
    std::fs::create_dir(&point).unwrap();
    let mounted = run(Command::new(mount).args(["-o", "ro", device.path()]).arg(&point), LIMIT);
    if mounted.code != Some(0) {
        return skip(&format!("cannot mount: {}", mounted.stderr.trim()));
    }
    let finished = write(&drumfire, &folder, &device, &format!("--destroy={}", device.path()));
    run(Command::new(umount).arg(&point), LIMIT).ok();
    refused(&finished, "is mounted on", &device, &held);
}

#[test]
fn the_doctor_looks_at_volumes() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let uri = format!("file:{}", sparse(&folder).display());
    let said = drumfire.run(folder.path(), &format!("doctor {uri}"), LIMIT).ok().stdout;
    assert!(said.contains("H02 FAIL"), "{said}");
    assert!(said.contains("fix: drumfire run"), "{said}");
    let strict = drumfire.run(folder.path(), &format!("doctor {uri} --strict --json"), LIMIT);
    assert_eq!(strict.code, Some(DISHONEST), "{strict:?}");
    assert!(strict.json().as_array().is_some_and(|checks| checks.len() > 3), "{strict:?}");
}
