//! Hidden memory and caches below a measured volume, in another mount namespace, behind a journal
//! or FUSE: no check of the medium passes, whatever the job; honest twins do.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Chance, Drumfire, Folder, Loop, Running, check, require, run, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const BYTES: usize = 64 << 20;

/// Incompressible data without duplicate blocks.
fn data() -> Vec<u8> {
    let mut chance = Chance(7);
    (0..BYTES / 8).flat_map(|_| chance.below(u64::MAX).to_le_bytes()).collect()
}

/// A job of reads: the position of its ramp, and whether another group runs concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ramp {
    Step,
    Group,
    Bystander,
}

const RAMPS: [Ramp; 3] = [Ramp::Step, Ramp::Group, Ramp::Bystander];

/// Reads of a volume, as a job file.
fn job(volume: &str, ramp: Ramp) -> String {
    let group = |volume: &str, more: &str| {
        format!(
            "[[steps.groups]]\nvolumes = ['{volume}']\n{more}\nworkload.outstanding = 4\n\
             workload.access.lines = [{{ size_bytes = '4k', share_percent = 100, read_percent = \
             100 }}]\n"
        )
    };
    let of_step = if ramp == Ramp::Step { "ramp_seconds = 0.4\n" } else { "" };
    let of_group = if ramp == Ramp::Group { "when.ramp_seconds = 0.4" } else { "" };
    let mut text = format!("[[steps]]\nseconds = 1.5\n{of_step}{}", group(volume, of_group));
    if ramp == Ramp::Bystander {
        let slow = "when.ramp_seconds = 0.1\nworkload.pacing.ios = { per_second = 10 }";
        text += &group("file:beside", slow);
    }
    text
}

/// A file for the bystander, and one with data.
fn files(folder: &Folder) {
    for name in ["beside", "data"] {
        File::open(folder.file(name, &data())).unwrap().sync_all().unwrap();
    }
}

fn measure(drumfire: &Drumfire, folder: &Folder, volume: &str, ramp: Ramp) -> Value {
    folder.file("job.toml", job(volume, ramp).as_bytes());
    drumfire.run(folder.path(), "run job.toml --no-ceiling --json", LIMIT).ok().json()
}

/// Checks that none of the checks of the medium passes.
fn passes_nothing(result: &Value, codes: &[&str], words: &str) {
    for code in codes {
        let (verdict, evidence) = check(result, code);
        assert!(["unknown", "warn", "fail"].contains(&&*verdict), "{words}: {code}: {evidence}");
    }
    assert_ne!(result["class"], "publishable", "{words}");
}

/// H01 detects: a loop device over tmpfs in another mount namespace.
/// H08 detects: a loop device over tmpfs in another mount namespace.
#[test]
fn memory_of_another_space_of_mounts_is_not_passed() {
    let Some(drumfire) = Drumfire::find() else { return };
    let tools = [require("unshare"), require("mount"), require("losetup")];
    let [Some(unshare), Some(_), Some(_)] = tools else { return };
    let folder = Folder::new();
    files(&folder);
    std::fs::create_dir(folder.path().join("memory")).unwrap();
    let script = "mount -t tmpfs memory memory && cp data memory/disk && \
                  losetup --find --show --direct-io=on memory/disk";
    let mut command = Command::new(unshare);
    let made = command.args(["--mount", "sh", "-c", script]).current_dir(folder.path());
    let made = run(made, LIMIT);
    if made.code != Some(0) {
        return skip(&format!("no loop device over a space of its own: {}", made.stderr.trim()));
    }
    let device = Loop::made(made.stdout.trim()).expect("losetup made it");
    for ramp in RAMPS {
        let result = measure(&drumfire, &folder, &format!("file:{}", device.path()), ramp);
        passes_nothing(&result, &["H01", "H03", "H08"], &format!("{ramp:?}"));
        let (_, evidence) = check(&result, "H01");
        let is_told = ["tmpfs", "are not visible"].iter().any(|it| evidence.contains(it));
        assert!(is_told, "{evidence}");
    }
}

/// A file system that journals data reads through the page cache, even with `O_DIRECT`.
/// H03 detects: direct reads of a file with journalled data, with a ramp of any group.
/// H03 accepts: direct reads of the same file system without journalled data.
#[test]
fn the_page_cache_below_direct_reads_is_told_whatever_the_ramp() {
    let Some(drumfire) = Drumfire::find() else { return };
    let tools = [require("mkfs.ext4"), require("unshare"), require("mount")];
    let [Some(mkfs), Some(unshare), Some(_)] = tools else { return };
    let folder = Folder::new();
    files(&folder);
    let image = folder.file("image", b"");
    File::options().write(true).open(&image).unwrap().set_len(256 << 20).unwrap();
    run(Command::new(mkfs).args(["-q", "-F"]).arg(&image), LIMIT).ok();
    let Some(device) = Loop::direct(&image) else { return };
    std::fs::create_dir(folder.path().join("mounted")).unwrap();
    let read_in = |options: &str, ramp: Ramp| -> Option<Value> {
        folder.file("job.toml", job("file:mounted/disk", ramp).as_bytes());
        // The next mount has different options from one that still exists, and the kernel keeps
        // files of a ring open for a moment.
        let script = r#"mount -o "$0" "$1" mounted || exit 77; cp data mounted/disk; sync -f mounted
            cat mounted/disk > /dev/null; shift; "$@"; code=$?
            until umount mounted 2> /dev/null; do sleep 0.2; done; exit $code"#;
        let inner = drumfire.command(folder.path(), "run job.toml --no-ceiling --json");
        let mut command = Command::new(&unshare);
        command.args(["--mount", "sh", "-c", script, options, device.path()]);
        command.arg(inner.get_program()).args(inner.get_args()).current_dir(folder.path());
        let finished = run(&mut command, LIMIT);
        if finished.code == Some(77) {
            skip(&format!("ext4 cannot be mounted: {}", finished.stderr.trim()));
            return None;
        }
        Some(finished.ok().json())
    };
    for ramp in RAMPS {
        let Some(lie) = read_in("data=journal", ramp) else { return };
        let (verdict, evidence) = check(&lie, "H03");
        assert_eq!(verdict, "fail", "{ramp:?}: {evidence}");
        assert_eq!(lie["class"], "invalid", "{ramp:?}");
    }
    let Some(twin) = read_in("data=ordered", Ramp::Step) else { return };
    let (verdict, evidence) = check(&twin, "H03");
    let is_on_disk = check(&twin, "H01").0 == "pass";
    assert!(verdict == "pass" || !is_on_disk && verdict != "fail", "{evidence}");
}

/// H03 detects: a file of FUSE, with a ramp of any group.
#[test]
fn no_ramp_makes_a_file_of_fuse_pass() {
    let Some(drumfire) = Drumfire::find() else { return };
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return skip("no /dev/fuse for us");
    }
    let folder = Folder::new();
    files(&folder);
    let mut attach = drumfire.command(folder.path(), "attach ram:64m attached");
    let mut running = Running::start(&mut attach);
    running.await_stdout(LIMIT, |stdout| stdout.contains("ready ").then_some(()));
    write_over(&folder.path().join("attached"), &data());
    for ramp in RAMPS {
        let result = measure(&drumfire, &folder, "file:attached", ramp);
        passes_nothing(&result, &["H01", "H03", "H08"], &format!("{ramp:?}"));
    }
    running.signal(rustix::process::Signal::TERM);
    running.finish(LIMIT).ok();
}

fn write_over(path: &Path, bytes: &[u8]) {
    let mut file = File::options().write(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
}
