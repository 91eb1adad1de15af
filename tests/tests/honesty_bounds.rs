//! External limits and disturbances of a run: cgroups, settings, other users of a disk, caches that
//! keep writes. Each lie has an honest twin.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{
    ControlGroup, Drumfire, Folder, Loop, Running, check, require, run, skip, under_way,
};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const BYTES: usize = 64 << 20;
const SECOND: &str = "--size 4k --seconds 1 --ramp 0 --json";

/// A loop device unknown to other programs, over a file in a folder.
fn device(folder: &Folder) -> Option<Loop> {
    let path = folder.file("disk", &vec![0xa5; BYTES]);
    File::open(&path).unwrap().sync_all().unwrap();
    Loop::direct(&path)
}

fn in_group(drumfire: &Drumfire, folder: &Folder, group: &ControlGroup, args: &str) -> Value {
    let inner = drumfire.command(folder.path(), args);
    run(&mut group.put(&inner), LIMIT).ok().json()
}

/// H18 detects: an I/O limit on a disk below.
#[test]
fn a_limit_of_io_is_named() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let Some(device) = device(&folder) else { return };
    let number = device.told("dev");
    let args = format!("run file:{} --outstanding 8 {SECOND}", device.path());
    let (old, new) = (format!("{number} 200\n"), format!("{number} riops=200\n"));
    let file = "blkio.throttle.read_iops_device";
    let v2 = ["io", "io.max", new.as_str()];
    let Some(group) = ControlGroup::with(["blkio", file, &old], v2) else { return };
    let result = in_group(&drumfire, &folder, &group, &args);
    let (verdict, evidence) = check(&result, "H18");
    assert_eq!(verdict, "warn", "{evidence}");
    let name = group.path().display().to_string();
    assert!(evidence.contains(&name) && evidence.contains("200 reads per second"), "{evidence}");
    // A host with much else to do may not even reach that.
    let rate = result["totals"]["iops"].as_f64().unwrap();
    assert_eq!(evidence.contains("the limit was measured"), rate >= 180.0, "{rate}: {evidence}");
    let free = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    let (_, evidence) = check(&free, "H18");
    assert!(!evidence.contains("limits this process"), "{evidence}");
}

/// H13 detects: a CPU quota of the parent cgroup.
#[test]
fn a_quota_of_processors_is_named() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let v1 = ["cpu", "cpu.cfs_quota_us", "20000"];
    let v2 = ["cpu", "cpu.max", "20000 100000"];
    let Some(group) = ControlGroup::with(v1, v2) else { return };
    let args = "run null:1g --seconds 2 --ramp 0 --json";
    let result = in_group(&drumfire, &folder, &group, args);
    let (verdict, evidence) = check(&result, "H13");
    // A host with much else to do may not even grant that.
    let used = result["cpu"]["initiator_cores"].as_f64().unwrap();
    assert!(used < 0.18 || verdict == "warn", "{used}: {evidence}");
    let name = group.path().display().to_string();
    assert!(evidence.contains(&name) && evidence.contains("grants 0.20"), "{evidence}");
    let free = drumfire.run(folder.path(), args, LIMIT).ok().json();
    assert!(!check(&free, "H13").1.contains(&name), "{free}");
}

/// H18 detects: a setting that is changed and restored during the run.
#[test]
fn settings_that_were_put_back_are_seen() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let Some(device) = device(&folder) else { return };
    let args = format!("run file:{} --size 4k --seconds 8 --ramp 0 --json", device.path());
    let setting = device.setting("queue/nomerges");
    let honest = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    assert!(["pass", "warn"].contains(&check(&honest, "H18").0.as_str()), "{honest}");
    let mut running = under_way(&mut drumfire.command(folder.path(), &args));
    if std::fs::write(&setting, "2").is_err() {
        return skip("the settings of a loop device cannot be changed");
    }
    // Waits until two more seconds are logged: between them the program has checked.
    let lines = || -> usize {
        let files = std::fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.path());
        let lines = files.filter(|path| path.extension().is_some_and(|it| it == "jsonl"));
        lines.map(|path| std::fs::read_to_string(path).unwrap().matches('\n').count()).sum()
    };
    let before = lines();
    running.await_that(LIMIT, |_| (lines() >= before + 2).then_some(()));
    std::fs::write(&setting, "0").unwrap();
    let result = running.finish(LIMIT).ok().json();
    let (verdict, evidence) = check(&result, "H18");
    assert_eq!(verdict, "fail", "{evidence}");
    assert!(evidence.contains("nomerges 0") && evidence.contains("nomerges 2"), "{evidence}");
}

/// Writes blocks of zeroes around the page cache until it is dropped.
fn writer(dd: &Path, to: &str) -> Running {
    let dd = dd.display();
    let script = format!("while :; do {dd} if=/dev/zero of={to} bs=1M count=32 oflag=direct; done");
    let mut command = Command::new("sh");
    Running::start(command.args(["-c", &format!("exec 2>/dev/null; {script}")]))
}

/// H17 detects: another process writes to the file system.
#[test]
fn writes_beside_our_reads_are_seen() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(dd) = require("dd") else { return };
    // In memory: no other program writes to the backing store.
    let path = PathBuf::from(format!("/dev/shm/drumfire-beside-{}", std::process::id()));
    if std::fs::write(&path, vec![0xa5; BYTES]).is_err() {
        return skip("there is no /dev/shm");
    }
    let device = Loop::direct(&path);
    std::fs::remove_file(&path).unwrap();
    let Some(device) = device else { return };
    let folder = Folder::new();
    let args = format!("run file:{} --size 4k --seconds 3 --ramp 0 --json", device.path());
    let alone = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    assert!(!check(&alone, "H17").1.contains("other programs read"), "{alone}");
    let mut other = writer(&dd, device.path());
    let beside = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    assert!(other.alive());
    drop(other);
    let (verdict, evidence) = check(&beside, "H17");
    if beside["devices"][0]["writes"].as_u64().unwrap() < 100 {
        return skip("the other program hardly ran");
    }
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(evidence.contains("other programs read 0.0 MiB"), "{evidence}");
}

/// Other programs use a disk even if they do not use the loop device on it.
/// H17 detects: another process writes to the disk below.
#[test]
fn writes_below_our_reads_are_seen() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(dd) = require("dd") else { return };
    let folder = Folder::new();
    let Some(device) = device(&folder) else { return };
    let beside = folder.path().join("beside").display().to_string();
    let mut other = writer(&dd, &beside);
    let args = format!("run file:{} --size 4k --seconds 3 --ramp 0 --json", device.path());
    let said = |result: &Value| check(result, "H17").1.contains("other programs read 0.0 MiB from");
    // On a busy host the other program may hardly run for a time.
    let run = |_| drumfire.run(folder.path(), &args, LIMIT).ok().json();
    let mut results: Vec<Value> = Vec::new();
    while results.len() < 5 && !results.last().is_some_and(said) {
        results.push(run(()));
    }
    let result = results.pop().expect("it ran");
    assert!(other.alive());
    drop(other);
    if check(&result, "H01").0 != "pass" || std::fs::metadata(&beside).is_err() {
        return skip("the temporary folder is on no disk that goes around the page cache");
    }
    let (verdict, evidence) = check(&result, "H17");
    assert!(said(&result) && verdict == "warn", "{evidence}");
    assert!(!evidence.contains("from loop"), "{evidence}");
}

/// H18 detects: direct writes into a volatile cache.
#[test]
fn writes_that_nothing_flushes_are_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let Some(device) = device(&folder) else { return };
    if device.told("queue/write_cache") != "write back" {
        return skip("this loop device has no volatile cache");
    }
    for (flushes, said) in [("", true), ("workload.access.flush_every = 64", false)] {
        let text = format!(
            "[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = [\"file:{}\"]\n\
             workload.access.lines = [{{ size_bytes = \"4k\", read_percent = 0 }}]\n{flushes}\n",
            device.path()
        );
        folder.file("job.toml", text.as_bytes());
        let args = format!("run job.toml --destroy={} --json", device.path());
        let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
        let (verdict, evidence) = check(&result, "H18");
        assert_eq!(evidence.contains("without a flush"), said, "{evidence}");
        assert!(!said || verdict == "warn", "{evidence}");
    }
}

/// Writes in the page cache that no device has seen are not written yet.
/// H03 detects: buffered writes.
#[test]
fn buffered_writes_that_never_arrive_are_no_writes() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = folder.file("disk", &vec![0xa5; BYTES]);
    File::open(&path).unwrap().sync_all().unwrap();
    let run = |more: &str, read: &str| -> Value {
        let args = format!("run file:{}{more} {read} --destroy {SECOND}", path.display());
        drumfire.run(folder.path(), &args, LIMIT).ok().json()
    };
    // The kernel may write back some data on its own; seldom most of it.
    let arrived = (0..5).find_map(|_| {
        let result = run("?direct=0", "--read 0");
        let (verdict, evidence) = check(&result, "H03");
        if verdict == "unknown" || evidence.contains("memory answers") {
            return Some(None);
        }
        let share = evidence.split_once(" (").and_then(|(_, rest)| rest.split_once(" %"));
        let share: f64 = share.expect("a share in percent").0.parse().unwrap();
        assert_eq!(verdict == "fail", share < 50.0, "{evidence}");
        (share < 50.0).then_some(Some(result))
    });
    match arrived {
        Some(Some(result)) => assert_eq!(result["class"], "invalid"),
        Some(None) => return skip("the temporary folder is on no disk"),
        None => return skip("this host writes the page cache out at once"),
    }
    let direct = run("", "--read 0");
    assert_ne!(check(&direct, "H03").0, "fail", "{direct}");
}
