//! Memory: a server stays within its budget and returns unused memory, and refuses to start
//! anything that its cgroup would kill.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use drumfire_tests::{Client, Drumfire, Folder, Served, pdu, run, skip};

const LIMIT: Duration = Duration::from_secs(120);
const BUDGET_MIB: u64 = 96;

/// Resident memory of the server in KiB.
fn memory_kib(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.running.id()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).expect("a size in kB")
}

/// A server with a file of 64 MiB and little memory.
fn serve(drumfire: &Drumfire, folder: &Folder) -> Served {
    let file = folder.file("disk.img", &vec![0; 64 << 20]);
    let memory = format!("--memory {BUDGET_MIB}m --volume disk=file:{}", file.display());
    drumfire.serve_with(&memory)
}

/// A command of ten bytes for LUN 1 that moves `len` bytes and brings `data` along.
fn command(opcode: u8, flags: u8, number: u32, len: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = pdu(&[0x01, flags], data);
    bytes[9] = 1;
    bytes[16..20].copy_from_slice(&(100 + number).to_be_bytes());
    bytes[20..24].copy_from_slice(&len.to_be_bytes());
    bytes[24..28].copy_from_slice(&number.to_be_bytes());
    bytes[32] = opcode;
    bytes[39..41].copy_from_slice(&((len / 512) as u16).to_be_bytes());
    bytes
}

#[test]
fn twelve_that_hold_all_they_can_keep_the_server_within_its_budget() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let mut served = serve(&drumfire, &folder);
    let mut hogs = Vec::new();
    for _ in 0..12 {
        let mut hog = Client::connect(served.port);
        assert!(hog.login("disk"), "there is room for one more");
        // Nearly all of the data of 127 writes; the rest is requested, and never sent.
        for number in 0..127 {
            let data = vec![7; 60 << 10];
            if !hog.send(&command(0x2a, 0xa1, number, 64 << 10, &data)) {
                break;
            }
        }
        hogs.push(hog);
    }
    for (uri, size) in [(served.uri("disk"), "4k"), (served.nvme_uri("disk"), "64k")] {
        let args = format!("run {uri} --size {size} --outstanding 4 --read 50 --destroy");
        let args = format!("{args} --seconds 2 --ramp 0 --json");
        let works = || {
            let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
            assert_eq!(result["totals"]["errors"].as_u64(), Some(0), "{result}");
            result["totals"]["ios"].as_u64().is_some_and(|ios| ios > 20)
        };
        // The disk below may stall for seconds when others write to it.
        assert!((0..5).any(|_| works()), "hardly any I/O was done in any of five runs: {args}");
    }
    let held = memory_kib(&served);
    assert!(held <= BUDGET_MIB * 1024 * 105 / 100, "{held} KiB");
    assert!(served.running.alive());
}

#[test]
fn memory_goes_back_when_slow_readers_leave() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let served = serve(&drumfire, &folder);
    let before = memory_kib(&served);
    let mut readers = Vec::new();
    for _ in 0..100 {
        let mut reader = Client::connect(served.port);
        // When memory is used up, later sessions are refused.
        if !reader.login("disk") {
            break;
        }
        (0..100).all(|number| reader.send(&command(0x28, 0xc1, number, 1 << 20, &[])));
        readers.push(reader);
    }
    let began = Instant::now();
    while memory_kib(&served) < before + (16 << 10) {
        assert!(began.elapsed() < LIMIT, "{} readers hold nothing", readers.len());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
    let held = memory_kib(&served);
    assert!(held <= BUDGET_MIB * 1024 * 105 / 100, "{held} KiB");
    drop(readers);
    let began = Instant::now();
    while memory_kib(&served) > before + (16 << 10) {
        let now = memory_kib(&served);
        assert!(began.elapsed() < LIMIT, "{before} KiB at first, {held} with readers, {now} now");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_budget_that_is_too_small_is_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "serve --iscsi 127.0.0.1:0 --memory 1m --volume a=ram:1m";
    let refused = drumfire.run(folder.path(), args, LIMIT);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("1m of memory are too little"), "{refused:?}");
}

/// A separate memory cgroup, removed at the end.
struct Cgroup(PathBuf);

impl Cgroup {
    /// Creates a cgroup limited to `bytes`. If that is not possible, the test is recorded as
    /// skipped.
    fn limited(bytes: u64) -> Option<Cgroup> {
        let name = format!("drumfire-test-{}", std::process::id());
        let limits =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (mount, limit) in limits {
            let folder = Path::new(mount).join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let cgroup = Cgroup(folder);
            if std::fs::write(cgroup.0.join(limit), bytes.to_string()).is_ok() {
                return Some(cgroup);
            }
        }
        skip("no memory cgroup can be made here");
        None
    }

    /// A command that runs in the cgroup.
    fn command(&self, drumfire: &Drumfire, folder: &Path, args: &str) -> Command {
        let mut command = Command::new("sh");
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" {args}", self.0.display());
        command.arg("-c").arg(script).arg(drumfire.path()).current_dir(folder);
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The kernel takes a moment to notice that a process has gone.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_cgroup_is_asked_before_it_ends_a_run() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(cgroup) = Cgroup::limited(64 << 20) else { return };
    let folder = Folder::new();
    for (args, wanted) in [
        ("run ram:256m --seconds 1", "256m of memory are needed"),
        ("run ram:40m ram:41m --seconds 1", "81m of memory are needed"),
        ("race --targets 1 --volumes 2 --volume-size 128m --seconds 1", "need 256 MiB of memory"),
    ] {
        let refused = run(&mut cgroup.command(&drumfire, folder.path(), args), LIMIT);
        assert_eq!(refused.code, Some(1), "{args}: {refused:?}");
        let stderr = &refused.stderr;
        assert!(stderr.contains(wanted), "{args}: {stderr}");
        assert!(stderr.contains("limit of the memory cgroup"), "{args}: {stderr}");
    }
    let args = "run ram:8m --seconds 1 --ramp 0";
    run(&mut cgroup.command(&drumfire, folder.path(), args), LIMIT).ok();
}
