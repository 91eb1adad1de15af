//! Files of this host: polled I/O, and trims among verified I/O.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run, skip};

const LIMIT: Duration = Duration::from_secs(300);

#[test]
fn a_polling_thread_is_counted() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = folder.file("disk.img", &vec![7; 4 << 20]);
    let run = |options: &str| {
        let uri = format!("file:{}{options}", path.display());
        let args = format!("run {uri} --size 4k --outstanding 8 --seconds 1 --ramp 0 --json");
        drumfire.run(folder.path(), &args, LIMIT).ok().json()
    };
    let (plain, polled) = (run(""), run("?sqpoll"));
    let cores = |result: &serde_json::Value, name: &str| result["cpu"][name].as_f64().unwrap();
    assert_eq!(cores(&plain, "initiator_poll_cores"), 0.0);
    assert_eq!(polled["totals"]["errors"], 0);
    assert!(polled["totals"]["iops"].as_f64().unwrap() > 0.0);
    let poll = cores(&polled, "initiator_poll_cores");
    assert!(poll > 0.0 && cores(&polled, "initiator_cores") > poll, "{}", polled["cpu"]);
}

/// Reads of tmpfs block, so the polling thread hands each to a worker thread.
#[test]
fn workers_of_a_polling_thread_are_counted() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(memory) = InMemory::file() else { return };
    let folder = Folder::new();
    let uri = format!("file:{}?sqpoll", memory.path().display());
    let args = format!("run {uri} --size 4k --outstanding 8 --seconds 1 --ramp 0 --json");
    let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    let cores = |name: &str| result["cpu"][name].as_f64().unwrap();
    let [all, poll, workers] =
        ["initiator_cores", "initiator_poll_cores", "initiator_io_worker_cores"].map(cores);
    assert!(workers > 0.0 && poll > 0.0 && all > poll + workers, "{}", result["cpu"]);
}

/// Kernel helper threads free space; their CPU time counts as the worker's.
#[test]
fn the_kernels_io_workers_are_counted() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("disk.img", &vec![7; 4 << 20]);
    // Trims of a file block, so the kernel hands each to one of our worker threads; a null volume
    // needs none.
    let run = |volume: &str| {
        let job = format!(
            "[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = [\"{volume}\"]\n\
             workload.outstanding = 4\nworkload.access.lines = [{{ size_bytes = \"4k\", \
             read_percent = 0, trim_percent = 100 }}]\n"
        );
        folder.file("job.toml", job.as_bytes());
        let finished = drumfire.run(folder.path(), "run job.toml --destroy --json", LIMIT);
        let result = finished.ok().json();
        let cores = |name: &str| result["cpu"][name].as_f64().unwrap();
        [cores("initiator_cores"), cores("initiator_io_worker_cores")]
    };
    let [all, workers] = run("file:disk.img");
    assert!(0.0 < workers && workers < all, "{workers} of {all}");
    let [all, workers] = run("null:4m");
    assert!(workers == 0.0 && all > 0.0, "{workers} of {all}");
}

#[test]
fn what_cannot_be_polled_says_why() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("disk.img", &vec![7; 1 << 20]);
    for (uri, why) in [
        ("file:disk.img?iopoll&direct=0", "direct I/O"),
        ("file:/dev/shm?iopoll", "not a file or a block device"),
    ] {
        let finished = drumfire.run(folder.path(), &format!("run {uri} --seconds 1"), LIMIT);
        assert_ne!(finished.code, Some(0), "{finished:?}");
        assert!(finished.stderr.contains(why), "{finished:?}");
    }
    let finished = drumfire.run(folder.path(), "run file:disk.img?iopoll --seconds 1", LIMIT);
    if finished.code == Some(0) {
        eprintln!("the disk of {} has poll queues", folder.path().display());
        return;
    }
    let says = ["poll queues", "direct I/O", "on a block device"];
    assert!(says.iter().any(|why| finished.stderr.contains(why)), "{finished:?}");
}

#[test]
fn trims_are_verified() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for volume in ["ram:4m", "file:new.img?size=4m"] {
        let job = format!(
            "[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = [\"{volume}\"]\n\
             workload.outstanding = 16\nworkload.verify = {{ fill = true }}\n\
             workload.access.lines = [{{ size_bytes = \"4k\", read_percent = 50, \
             trim_percent = 15, zero_percent = 5 }}]\n"
        );
        folder.file("job.toml", job.as_bytes());
        let finished =
            drumfire.run(folder.path(), "run job.toml --json --out kept --replace", LIMIT);
        let result = finished.ok().json();
        assert_eq!(result["totals"]["errors"], 0, "{volume}");
        if volume.starts_with("file:") {
            let look = "run kept/job.toml --verify-only";
            drumfire.run(folder.path(), look, LIMIT).ok();
            // An undone trim is detected: no block of the volume has its written data.
            std::fs::write(folder.path().join("new.img"), vec![1; 4 << 20]).unwrap();
            let finished = drumfire.run(folder.path(), look, LIMIT);
            assert_eq!(finished.code, Some(5), "{finished:?}");
        }
    }
}

/// `--verify` verifies jobs of files and presets that do not configure it, in every format.
#[test]
fn verify_goes_with_files_and_presets() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let job = "[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = [\"ram:4m\"]\n\
               workload.access.lines = [{ size_bytes = \"4k\", read_percent = 50 }]\n";
    folder.file("job.toml", job.as_bytes());
    let fio = "[a]\nioengine=io_uring\nfilename=disk.img\nrw=randrw\nbs=4k\nsize=1m\n\
               time_based\nruntime=1\n";
    folder.file("job.fio", fio.as_bytes());
    for (number, args) in
        ["job.toml", "job.fio", "ram:4m --preset oltp-4k --seconds 1 --ramp 0"].iter().enumerate()
    {
        for (flag, verdict) in [("", "unknown"), ("--verify", "pass")] {
            let args = format!("run {args} {flag} --destroy --json --out o{number}{verdict}");
            let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
            let checks = result["checks"].as_array().unwrap();
            let data = checks.iter().find(|check| check["code"] == "H05").unwrap();
            assert_eq!(data["verdict"], verdict, "{args}: {data}");
        }
    }
    // Verified data can be verified again.
    let look = "run o1pass/job.toml --verify-only";
    drumfire.run(folder.path(), look, LIMIT).ok();
}

/// A file of 8 MiB on tmpfs, optionally with a loop device over it; removed at the end.
struct InMemory {
    file: PathBuf,
    device: Option<PathBuf>,
}

impl InMemory {
    /// Without tmpfs, the calling test is recorded as skipped.
    fn file() -> Option<InMemory> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("/dev/shm/drumfire-test-{}-{number}.img", std::process::id());
        if let Err(error) = std::fs::write(&name, vec![7; 8 << 20]) {
            skip(&format!("no file in /dev/shm: {error}"));
            return None;
        }
        Some(InMemory { file: name.into(), device: None })
    }

    /// Without permission to create a loop device, the calling test is recorded as skipped.
    fn device() -> Option<InMemory> {
        let mut memory = InMemory::file()?;
        let mut losetup = Command::new(require("losetup")?);
        losetup.args(["--find", "--show"]).arg(&memory.file);
        let made = run(&mut losetup, LIMIT);
        if made.code != Some(0) {
            skip(&format!("no loop device: {}", made.stderr.trim()));
            return None;
        }
        memory.device = Some(made.stdout.trim().into());
        Some(memory)
    }

    fn path(&self) -> &Path {
        self.device.as_deref().unwrap_or(&self.file)
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
        let _ = std::fs::remove_file(&self.file);
    }
}

/// All operations of a volume, with verified reads.
fn takes_everything(memory: &InMemory) {
    let Some(drumfire) = Drumfire::find() else { return };
    let (folder, path) = (Folder::new(), memory.path().display());
    let job = format!(
        "[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = [\"file:{path}\"]\n\
         workload.outstanding = 48\nworkload.verify = {{ fill = true }}\n\
         workload.access.lines = [{{ size_bytes = \"4k\", read_percent = 40, \
         trim_percent = 10, zero_percent = 10, flush_percent = 5, fua_percent = 10 }}]\n"
    );
    folder.file("job.toml", job.as_bytes());
    let args = format!("run job.toml --json --destroy={path}");
    let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    assert_eq!(result["totals"]["errors"], 0, "{path}");
    assert!(result["totals"]["flush"]["ios"].as_u64().unwrap() > 0, "{path}");
}

/// The loop device can discard, but not write zeroes by unmapping.
#[test]
fn a_loop_device_takes_everything() {
    if let Some(memory) = InMemory::device() {
        takes_everything(&memory);
    }
}

/// The file supports holes, but no other way of zeroing a range.
#[test]
fn a_file_in_memory_takes_everything() {
    if let Some(memory) = InMemory::file() {
        takes_everything(&memory);
    }
}
