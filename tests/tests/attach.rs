//! A volume as a file, used by programs without a client for our protocols.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Loop, Running, require, run, skip};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

/// An attached volume, detached on drop.
struct Attached {
    running: Running,
    file: PathBuf,
}

/// Transport of the kernel's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Channel,
    /// FUSE over io_uring.
    Ring,
}

/// Tests both, as far as this host has them.
fn either_way(test: impl Fn(&Drumfire, &Folder, By)) {
    let Some(drumfire) = Drumfire::find() else { return };
    test(&drumfire, &Folder::new(), By::Channel);
    match RingsOn::new() {
        Some(_on) => test(&drumfire, &Folder::new(), By::Ring),
        None => skip("FUSE over io_uring: needs Linux 6.14 with CONFIG_FUSE_IO_URING, and root"),
    }
}

/// FUSE over io_uring is enabled in the kernel while a value of this type exists.
struct RingsOn;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// Number of live values, and the earlier setting of the switch.
static ON: Mutex<(usize, String)> = Mutex::new((0, String::new()));

impl RingsOn {
    fn new() -> Option<RingsOn> {
        let mut on = ON.lock().unwrap();
        if on.0 == 0 {
            on.1 = std::fs::read_to_string(SWITCH).ok()?;
            std::fs::write(SWITCH, "Y").ok()?;
        }
        on.0 += 1;
        Some(RingsOn)
    }
}

impl Drop for RingsOn {
    fn drop(&mut self) {
        let mut on = ON.lock().unwrap_or_else(PoisonError::into_inner);
        on.0 -= 1;
        if on.0 == 0 {
            std::fs::write(SWITCH, on.1.trim()).unwrap();
        }
    }
}

/// Without FUSE, the calling test is recorded as skipped.
fn attach(drumfire: &Drumfire, folder: &Folder, by: By, args: &str) -> Option<Attached> {
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        skip("no /dev/fuse for us");
        return None;
    }
    let file = folder.path().join("drive");
    let args = format!("attach {args} {}", file.display());
    let mut command = drumfire.command(folder.path(), &args);
    if by == By::Channel {
        command.env("DRUMFIRE_WITHOUT", "fuse_uring");
    }
    let mut running = Running::start(&mut command);
    running.await_stdout(LIMIT, |stdout| stdout.contains("ready ").then_some(()));
    let attached = Attached { running, file };
    assert_eq!(attached.has_ring_of_entries(), by == By::Ring);
    Some(attached)
}

impl Attached {
    /// Whether each thread has a ring of FUSE entries in addition to its own, which watches it.
    fn has_ring_of_entries(&self) -> bool {
        let of = |folder: &str| {
            let path = format!("/proc/{}/{folder}", self.running.id());
            let entries = std::fs::read_dir(path).unwrap().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let name = |task: &PathBuf| std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        let threads = of("task").iter().filter(|task| name(task).starts_with("file ")).count();
        let is_ring = |fd: &PathBuf| {
            std::fs::read_link(fd).is_ok_and(|to| to.to_string_lossy().contains("io_uring"))
        };
        of("fd").iter().filter(|fd| is_ring(fd)).count() >= 2 * threads
    }

    fn end(self) -> String {
        self.running.signal(Signal::TERM);
        let finished = self.running.finish(LIMIT);
        assert_eq!(finished.code, Some(0), "{finished:?}");
        finished.stderr
    }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn writable(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn bytes_of_any_place_and_length_are_those_of_the_volume() {
    either_way(|drumfire, folder, by| {
        let under = folder.file("disk.img", &vec![0xee; 8 * MIB]);
        let Some(attached) = attach(drumfire, folder, by, &format!("file:{}", under.display()))
        else {
            return;
        };
        let mut expected = vec![0xee; 8 * MIB];
        let file = writable(&attached.file);
        assert_eq!(file.metadata().unwrap().len(), expected.len() as u64);
        for (at, len) in [(0, MIB), (777, 5), (511, 2), (3 * MIB + 100, 300_001), (8 * MIB - 9, 9)]
        {
            let bytes = pattern(len);
            file.write_all_at(&bytes, at as u64).unwrap();
            expected[at..at + len].copy_from_slice(&bytes);
        }
        // At the end there is no more room, and the size stays.
        assert!(file.write_all_at(&[1; 4096], 8 * MIB as u64).is_err());
        assert!(file.set_len(4096).is_err());
        file.sync_all().unwrap();
        assert!(std::fs::read(&attached.file).unwrap() == expected, "the file differs");
        assert!(std::fs::read(&under).unwrap() == expected, "the volume differs");
        // Holes at any offset read as zeroes.
        for (mode, at, len) in [("--punch-hole", 1000, 100_000), ("--zero-range", 2 * MIB, 5000)] {
            let mut command = Command::new("fallocate");
            let command = command.args([mode, "--offset", &at.to_string(), "--length"]);
            run(command.arg(len.to_string()).arg(&attached.file), LIMIT).ok();
            expected[at..at + len].fill(0);
        }
        drop(file);
        attached.end();
        assert!(std::fs::read(&under).unwrap() == expected, "the volume differs after holes");
        assert!(!folder.path().join("drive").exists(), "what attach made is gone");
    });
}

#[test]
fn a_file_system_on_a_loop_device_lives_on_it() {
    either_way(|drumfire, folder, by| {
        let Some(mkfs) = require("mkfs.ext4") else { return };
        let Some(attached) = attach(drumfire, folder, by, "ram:64m") else { return };
        run(Command::new(mkfs).args(["-q", "-F"]).arg(&attached.file), LIMIT).ok();
        if let Some(device) = Loop::direct(&attached.file) {
            let place = folder.path().join("mounted");
            std::fs::create_dir(&place).unwrap();
            run(Command::new("mount").arg(device.path()).arg(&place), LIMIT).ok();
            let bytes = pattern(10 * MIB);
            std::fs::write(place.join("data"), &bytes).unwrap();
            let trimmed = run(Command::new("fstrim").arg("-v").arg(&place), LIMIT).ok();
            assert!(trimmed.stdout.contains("trimmed"), "{trimmed:?}");
            run(Command::new("umount").arg(&place), LIMIT).ok();
            run(Command::new("mount").arg(device.path()).arg(&place), LIMIT).ok();
            let same = std::fs::read(place.join("data")).unwrap() == bytes;
            run(Command::new("umount").arg(&place), LIMIT).ok();
            assert!(same, "the data came back different");
        }
        attached.end();
    });
}

#[test]
fn a_server_that_dies_is_an_error_and_one_that_comes_back_is_none() {
    either_way(|drumfire, folder, by| {
        let under = folder.file("disk.img", &pattern(MIB));
        let volume = format!("--volume disk=file:{}", under.display());
        let mut served = drumfire.serve_with(&volume);
        let ports = [served.port, served.nvme_port];
        for (patience, fails) in [("", true), ("?reconnect=50s", false)] {
            let uri = format!("{}{patience}", served.nvme_uri("disk"));
            let Some(attached) = attach(drumfire, folder, by, &uri) else { return };
            let file = File::open(&attached.file).unwrap();
            let mut block = [0; 4096];
            file.read_exact_at(&mut block, 0).unwrap();
            served.running.signal(Signal::KILL);
            drop(served);
            // Past the kernel's read-ahead.
            let reader = std::thread::spawn(move || {
                let read = file.read_exact_at(&mut block, 900 << 10);
                (read, block)
            });
            std::thread::sleep(Duration::from_millis(700));
            served = drumfire.serve_at(ports, &volume);
            let (read, block) = reader.join().unwrap();
            if fails {
                assert_eq!(read.unwrap_err().raw_os_error(), Some(5));
                attached.running.signal(Signal::TERM);
                let finished = attached.running.finish(LIMIT);
                assert_eq!(finished.code, Some(1), "{finished:?}");
                assert!(finished.stderr.contains("?reconnect"), "{finished:?}");
            } else {
                read.unwrap();
                assert!(block[..] == pattern(MIB)[900 << 10..][..4096]);
                attached.end();
            }
        }
    });
}

#[test]
fn what_cannot_be_is_said_with_the_remedy() {
    either_way(|drumfire, folder, by| {
        let Some(attached) = attach(drumfire, folder, by, "ram:1m") else { return };
        let file = attached.file.display().to_string();
        let said = |args: &str| {
            let finished = drumfire.run(folder.path(), args, LIMIT);
            assert_eq!(finished.code, Some(1), "{finished:?}");
            finished.stderr
        };
        assert!(said(&format!("attach ram:1m {file}")).contains("drumfire detach` first"));
        let full = folder.file("full", b"data");
        assert!(
            said(&format!("attach ram:1m {}", full.display()))
                .contains("which the volume would hide")
        );
        assert!(said(&format!("detach {}", full.display())).contains("no volume is attached"));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&attached.file, &link).unwrap();
        let told = said(&format!("detach {}", link.display()));
        assert!(told.contains(&format!("a symbolic link: detach {file}")), "{told}");
        let open = File::open(&attached.file).unwrap();
        assert!(said(&format!("detach {file}")).contains("in use"));
        drop(open);
        // A killed process leaves a mount that can be removed.
        let Attached { running, .. } = attached;
        running.signal(Signal::KILL);
        running.finish(LIMIT);
        assert!(File::open(&file).is_err());
        assert!(said(&format!("attach ram:1m {file}")).contains("process died"));
        drumfire.run(folder.path(), &format!("detach {file}"), LIMIT).ok();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 0);
    });
}

#[test]
fn stamped_data_under_load_are_those_written() {
    either_way(|drumfire, folder, by| {
        let Some(attached) = attach(drumfire, folder, by, "ram:32m") else { return };
        let file = attached.file.display();
        // Larger I/Os than the kernel's requests, and more in flight than the depth of a ring's
        // queue.
        for load in ["--size 4k --outstanding 100", "--size 256k --outstanding 4"] {
            let args =
                format!("run {file} --verify --destroy {load} --read 50 --workers 2 --seconds 1");
            let finished = drumfire.run(folder.path(), &args, LIMIT);
            assert!(matches!(finished.code, Some(0 | 3)), "{finished:?}");
            assert!(finished.stdout.contains("IOPS"), "{finished:?}");
        }
        attached.end();
    });
}

/// A client in the middle of an I/O gets an error when the process is killed.
#[test]
fn a_process_killed_under_load_leaves_errors_and_nobody_waiting() {
    either_way(|drumfire, folder, by| {
        for _ in 0..3 {
            let Some(attached) = attach(drumfire, folder, by, "ram:16m") else { return };
            let file = attached.file.display().to_string();
            let load = format!("run {file} --size 4k --outstanding 64 --workers 2 --seconds 2");
            let load = Running::start(&mut drumfire.command(folder.path(), &load));
            std::thread::sleep(Duration::from_millis(400));
            attached.running.signal(Signal::KILL);
            let Attached { running, .. } = attached;
            running.finish(LIMIT);
            load.finish(LIMIT);
            let error = File::open(&file).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(107), "ENOTCONN");
            drumfire.run(folder.path(), &format!("detach {file}"), LIMIT).ok();
        }
    });
}

/// `cargo xtask kernel` tests ublk with the driver in a virtual machine.
#[test]
fn a_block_device_without_the_driver_is_refused_with_the_remedy() {
    let Some(drumfire) = Drumfire::find() else { return };
    if Path::new("/dev/ublk-control").exists() {
        return skip("this kernel has ublk");
    }
    let folder = Folder::new();
    for args in ["attach --ublk ram:16m", "attach --ublk ram:16m /dev/ublkb0", "detach /dev/ublkb0"]
    {
        let finished = drumfire.run(folder.path(), args, LIMIT);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains("modprobe ublk_drv"), "{finished:?}");
        assert_eq!((finished.stderr.lines().count(), finished.stdout.as_str()), (1, ""));
    }
    // A path that is no device, and a missing file name.
    for (args, code, says) in [
        ("attach --ublk ram:16m here", 1, "/dev/ublkb0"),
        ("attach ram:16m", 2, "<FILE>"),
        ("attach --ublk ram:16m --allow-other", 2, "cannot be used with"),
    ] {
        let finished = drumfire.run(folder.path(), args, LIMIT);
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert!(finished.stderr.contains(says), "{finished:?}");
    }
}

/// Root may not open a file that another user attached privately, but can detach it with all
/// written data.
#[test]
fn root_detaches_however_another_user_attached() {
    let Some(drumfire) = Drumfire::find() else { return };
    let (Some(setpriv), true) = (require("setpriv"), rustix::process::geteuid().is_root()) else {
        return skip("only root acts as another user");
    };
    if !Path::new("/dev/fuse").exists() {
        return skip("there is no /dev/fuse");
    }
    let folder = Folder::new();
    let image = folder.file("img", &vec![0; MIB]);
    let user = Some(65_534);
    for path in [folder.path(), &image] {
        std::os::unix::fs::chown(path, user, user).unwrap();
    }
    // With these rights alone the user may mount here.
    let by_user = |rights: &[&str]| {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(rights);
        command.current_dir(folder.path());
        command
    };
    let rights = ["--inh-caps", "+sys_admin,+dac_override", "--ambient-caps"];
    for (name, others, dies) in [
        ("one", "", false),
        ("with blank", "", false),
        ("two", "--allow-other", false),
        ("dead", "", true),
    ] {
        let file = folder.path().join(name);
        let mut command = by_user(&[&rights[..], &["+sys_admin,+dac_override"]].concat());
        command.arg("--").arg(drumfire.path()).args(["attach", "file:img"]).arg(&file);
        command.args(others.split_whitespace());
        let mut running = Running::start(&mut command);
        running.await_stdout(LIMIT, |text| text.starts_with("ready ").then_some(()));
        let text = format!("written to {name}");
        let mut write = by_user(&[]);
        let script = format!("printf '{text}' | dd of='{name}' conv=notrunc status=none");
        run(write.args(["--", "sh", "-c", &script]), LIMIT).ok();
        if dies {
            running.signal(Signal::KILL);
            while running.alive() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let mut detach = drumfire.command(folder.path(), "detach");
        run(detach.arg(&file), LIMIT).ok();
        let ended = running.finish(LIMIT);
        if !dies {
            assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
            let kept = std::fs::read(&image).unwrap();
            assert!(kept.starts_with(text.as_bytes()), "{name}: {ended:?}");
            assert!(!file.exists(), "{name}: {ended:?}");
        }
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&folder.path().display().to_string()), "{mounts}");
    }
}
