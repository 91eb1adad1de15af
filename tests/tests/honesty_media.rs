//! Backing stores of volumes: memory that looks like a disk, offsets that caches hold, compressible
//! data. Each lie has an honest twin, on which the check is silent.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Loop, Served, check, require, run, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
/// Bytes of a file under test: more than the caches of SSDs.
const BYTES: usize = 64 << 20;
/// Reads of a second.
const SECOND: &str = "--size 4k --seconds 1 --ramp 0 --json";

/// Incompressible data without duplicate blocks.
fn data() -> Vec<u8> {
    let mut data = Vec::with_capacity(BYTES);
    let random = File::open("/dev/urandom").expect("a Linux host has it");
    random.take(BYTES as u64).read_to_end(&mut data).expect("it has no end");
    data
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
    File::open(path).unwrap().sync_all().unwrap();
}

fn read(drumfire: &Drumfire, folder: &Folder, uri: &str) -> Value {
    drumfire.run(folder.path(), &format!("run {uri} {SECOND}"), LIMIT).json()
}

/// Verdict and evidence of a check, which must be present.
fn said(result: &Value, code: &str) -> (String, String) {
    let (verdict, evidence) = check(result, code);
    assert!(!verdict.is_empty(), "{code} is missing: {result}");
    (verdict, evidence)
}

/// A folder in memory, removed at the end.
struct Shared(PathBuf);

impl Shared {
    fn new(name: &str) -> Option<Shared> {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        if !mounts.any(|it| it.get(1) == Some(&"/dev/shm") && it.get(2) == Some(&"tmpfs")) {
            skip("nothing in memory is mounted on /dev/shm");
            return None;
        }
        let name = format!("/dev/shm/drumfire-{name}-{}", std::process::id());
        std::fs::create_dir(&name).unwrap();
        Some(Shared(PathBuf::from(name)))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether the temporary folder is on a disk, as far as the program can find out.
fn is_on_disk(drumfire: &Drumfire, folder: &Folder) -> bool {
    let path = folder.file("probe", &data());
    let result = read(drumfire, folder, &format!("file:{}", path.display()));
    let on_disk = check(&result, "H01").0 == "pass" && result["devices"][0].is_object();
    if !on_disk {
        skip("the temporary folder is on no disk that goes around the page cache");
    }
    on_disk
}

/// H01 detects: a direct loop device over tmpfs.
#[test]
fn a_loop_device_over_memory_is_memory() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(shared) = Shared::new("loop") else { return };
    let folder = Folder::new();
    let path = shared.0.join("disk");
    write(&path, &data());
    let Some(device) = Loop::direct(&path) else { return };
    if device.told("loop/dio") != "1" {
        return skip("this file system of memory takes no direct I/O from a loop device");
    }
    let result = read(&drumfire, &folder, &format!("file:{}", device.path()));
    let (verdict, evidence) = said(&result, "H01");
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(evidence.contains("memory") && evidence.contains("tmpfs"), "{evidence}");
    assert_ne!(result["class"], "publishable");
    drop(device);
    // A file that has no name any more is still memory.
    let Some(device) = Loop::direct(&path) else { return };
    std::fs::remove_file(&path).unwrap();
    let result = read(&drumfire, &folder, &format!("file:{}", device.path()));
    assert_eq!(said(&result, "H01").0, "warn", "{result}");
    assert!(said(&result, "H01").1.contains("tmpfs"), "{result}");
}

/// H01 accepts: a direct loop device over a disk.
#[test]
fn a_loop_device_over_a_disk_is_no_memory() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    if !is_on_disk(&drumfire, &folder) {
        return;
    }
    let path = folder.file("disk", &data());
    File::open(&path).unwrap().sync_all().unwrap();
    let Some(device) = Loop::direct(&path) else { return };
    if device.told("loop/dio") != "1" {
        return skip("this file system takes no direct I/O from a loop device");
    }
    let result = read(&drumfire, &folder, &format!("file:{}", device.path()));
    assert_eq!(said(&result, "H01").0, "pass", "{result}");
    // A second loop device over the first, through the page cache, is partly memory.
    drop(device);
    let Some(lower) = Loop::over(&path) else { return };
    let Some(upper) = Loop::direct(Path::new(lower.path())) else { return };
    let result = read(&drumfire, &folder, &format!("file:{}", upper.path()));
    let (verdict, evidence) = said(&result, "H01");
    assert_eq!(verdict, "warn", "{evidence}");
    let name = lower.path().trim_start_matches("/dev/");
    assert!(
        evidence.contains(&format!("caches in the page cache the file of {name}")),
        "{evidence}"
    );
}

/// Runs reads of a file in an overlay with this upper folder, in a mount namespace that ends with
/// the run.
fn overlaid(drumfire: &Drumfire, folder: &Folder, upper: &Path) -> Option<Value> {
    let unshare = require("unshare")?;
    require("mount")?;
    let work = upper.with_file_name("work");
    let [lower, merged] = ["lower", "merged"].map(|name| folder.path().join(name));
    for path in [&work, &lower, &merged] {
        std::fs::create_dir_all(path).unwrap();
    }
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.display(),
        work.display()
    );
    let uri = format!("file:{}", merged.join("disk").display());
    let inner = drumfire.command(folder.path(), &format!("run {uri} {SECOND}"));
    let script = r#"mount -t overlay overlay -o "$0" "$1" || exit 77; shift; exec "$@""#;
    let mut command = Command::new(unshare);
    command.args(["--mount", "sh", "-c", script, &options]).arg(&merged);
    command.arg(inner.get_program()).args(inner.get_args()).current_dir(folder.path());
    let finished = run(&mut command, LIMIT);
    if matches!(finished.code, Some(1 | 77)) && finished.stdout.is_empty() {
        skip(&format!("no overlay can be mounted: {}", finished.stderr.trim()));
        return None;
    }
    Some(finished.json())
}

/// H01 detects: an overlay on tmpfs.
/// H01 accepts: an overlay on a disk.
#[test]
fn an_overlay_is_what_lies_below_it() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    if let Some(shared) = Shared::new("overlay") {
        let upper = shared.0.join("upper");
        std::fs::create_dir(&upper).unwrap();
        write(&upper.join("disk"), &data());
        if let Some(result) = overlaid(&drumfire, &folder, &upper) {
            let (verdict, evidence) = said(&result, "H01");
            assert_eq!(verdict, "warn", "{evidence}");
            assert!(evidence.contains("memory (overlay on tmpfs)"), "{evidence}");
            assert!(["warn", "fail"].contains(&said(&result, "H03").0.as_str()), "{result}");
        }
    }
    if !is_on_disk(&drumfire, &folder) {
        return;
    }
    let upper = folder.path().join("upper");
    std::fs::create_dir(&upper).unwrap();
    write(&upper.join("disk"), &data());
    if let Some(result) = overlaid(&drumfire, &folder, &upper) {
        assert_eq!(said(&result, "H01").0, "pass", "{result}");
        // Other processes may use the disk, too: its counters are higher then.
        let (verdict, evidence) = said(&result, "H03");
        assert!(verdict == "pass" || evidence.contains("more than requested"), "{evidence}");
    }
}

/// Compressed extents are read through the page cache, even with `O_DIRECT`.
/// H03 detects: a compressed file of btrfs.
#[test]
fn what_btrfs_compresses_was_not_read() {
    let Some(drumfire) = Drumfire::find() else { return };
    let (Some(mkfs), Some(unshare)) = (require("mkfs.btrfs"), require("unshare")) else { return };
    let folder = Folder::new();
    let image = folder.file("image", b"");
    File::options().write(true).open(&image).unwrap().set_len(512 << 20).unwrap();
    run(Command::new(mkfs).arg("-q").arg(&image), LIMIT).ok();
    let Some(device) = Loop::over(&image) else { return };
    std::fs::create_dir(folder.path().join("mounted")).unwrap();
    folder.file("random", &data());
    let alike: Vec<u8> = (0..BYTES).map(|at| (at / 4096 % 251) as u8 + (at % 3) as u8).collect();
    folder.file("alike", &alike);
    let read_in = |options: &str, file: &str| -> Option<Value> {
        let script = r#"mount -o "$0" "$1" mounted || exit 77; cp "$2" mounted/disk; sync -f mounted
            cat mounted/disk > /dev/null; shift 2; exec "$@""#;
        let uri = format!("run file:mounted/disk {SECOND}");
        let inner = drumfire.command(folder.path(), &uri);
        let mut command = Command::new(&unshare);
        command.args(["--mount", "sh", "-c", script, options, device.path(), file]);
        command.arg(inner.get_program()).args(inner.get_args()).current_dir(folder.path());
        let finished = run(&mut command, LIMIT);
        if matches!(finished.code, Some(1 | 77)) && finished.stdout.is_empty() {
            skip(&format!("btrfs cannot be mounted: {}", finished.stderr.trim()));
            return None;
        }
        Some(finished.json())
    };
    let Some(packed) = read_in("compress-force=zstd", "alike") else { return };
    assert_eq!(said(&packed, "H03").0, "fail", "{packed}");
    let (verdict, evidence) = said(&packed, "H04");
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(evidence.contains("compressed"), "{evidence}");
    let Some(plain) = read_in("compress=no", "random") else { return };
    // The page cache of the image, below the loop device, may answer some reads.
    let (verdict, evidence) = said(&plain, "H03");
    assert!(
        verdict == "pass" || (verdict == "warn" && evidence.contains("lower device")),
        "{plain}"
    );
    assert_eq!(said(&plain, "H04").0, "pass", "{plain}");
}

/// H04 detects: reads of a file that repeats one block, and of one that repeats one byte.
/// H04 accepts: a file of random data, and a device over it.
#[test]
fn what_is_alike_is_said_where_it_is_read() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let random = data();
    for (name, bytes, verdict) in [
        ("again", random[..4096].repeat(BYTES / 4096), "warn"),
        ("byte", vec![0xff; BYTES], "warn"),
        ("data", random.clone(), "pass"),
    ] {
        let path = folder.path().join(name);
        write(&path, &bytes);
        let of_file = read(&drumfire, &folder, &format!("file:{}", path.display()));
        let (found, evidence) = said(&of_file, "H04");
        assert_eq!(found, verdict, "{name}: {evidence}");
        assert_eq!(evidence.contains("are duplicates"), verdict == "warn", "{name}: {evidence}");
        let Some(device) = Loop::direct(&path) else { continue };
        let of_device = read(&drumfire, &folder, &format!("file:{}", device.path()));
        assert_eq!(said(&of_device, "H04").0, verdict, "{name}: {of_device}");
    }
}

/// H01 detects: a mirror and a stripe of files on tmpfs.
/// H02 detects: a hole in one leg of a stripe and of a mirror.
/// H24 detects: a stripe of a file and memory.
/// H02 accepts: a mirror and a stripe of files that were written.
#[test]
fn parts_of_a_volume_are_looked_at() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let file = |path: &Path| format!("file:{}", path.display());
    let [a, b, hole] = ["a", "b", "hole"].map(|name| folder.path().join(name));
    [&a, &b].into_iter().for_each(|path| write(path, &data()));
    File::create(&hole).unwrap().set_len(BYTES as u64).unwrap();
    let [a, b, hole] = [&a, &b, &hole].map(|path| file(path));
    for way in ["mirror", "stripe:64k"] {
        let of = |one: &str, other: &str| {
            let volume = format!("{way}({one},{other})");
            let job = job(&folder, &format!("{volume:?}"), LINES);
            drumfire.run(folder.path(), &format!("run {job} --json"), LIMIT).ok().json()
        };
        let honest = of(&a, &b);
        assert_eq!(said(&honest, "H02").0, "pass", "{way}: {honest}");
        assert_ne!(check(&honest, "H24").0, "warn", "{way}: {honest}");
        if honest["devices"][0].is_object() {
            let (verdict, evidence) = said(&honest, "H03");
            let others = evidence.contains("more than requested");
            assert!(verdict == "pass" || others, "{way}: {evidence}");
        }
        let (verdict, evidence) = said(&of(&a, &hole), "H02");
        assert_eq!(verdict, "fail", "{way}: {evidence}");
        assert!(evidence.contains(&format!("{hole}: 100.0 % of 64.0 MiB")), "{evidence}");
        let (verdict, evidence) = said(&of(&a, "null:64m"), "H24");
        assert_eq!(verdict, "warn", "{way}: {evidence}");
        let Some(shared) = Shared::new(&format!("parts-{}", &way[..6])) else { continue };
        let kept = ["one", "other"].map(|name| shared.0.join(name));
        kept.iter().for_each(|path| write(path, &data()));
        let (verdict, evidence) = said(&of(&file(&kept[0]), &file(&kept[1])), "H01");
        assert_eq!(verdict, "warn", "{way}: {evidence}");
        assert!(evidence.contains("memory (tmpfs)"), "{way}: {evidence}");
    }
}

/// H02 detects: a file of zeroes.
#[test]
fn a_file_of_zeroes_is_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let mut holed = data();
    holed[BYTES / 4..BYTES / 2].fill(0);
    for (name, bytes, verdict) in
        [("zero", vec![0; BYTES], "warn"), ("holed", holed, "warn"), ("data", data(), "pass")]
    {
        let path = folder.path().join(name);
        write(&path, &bytes);
        let result = read(&drumfire, &folder, &format!("file:{}", path.display()));
        let (found, evidence) = said(&result, "H02");
        assert_eq!(found, verdict, "{name}: {evidence}");
        assert_eq!(evidence.contains("are all zeroes"), verdict == "warn", "{name}: {evidence}");
    }
}

/// H02 detects: a hole of 2 %.
#[test]
fn a_small_hole_is_said_with_its_share() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(fallocate) = require("fallocate") else { return };
    let folder = Folder::new();
    let path = folder.file("holed", &data());
    let mut command = Command::new(fallocate);
    command.args(["--punch-hole", "--offset", "1048576", "--length", "1048576"]).arg(&path);
    if run(&mut command, LIMIT).code != Some(0) {
        return skip("this file system has no holes");
    }
    let result = read(&drumfire, &folder, &format!("file:{}", path.display()));
    let (verdict, evidence) = said(&result, "H02");
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(evidence.contains("1.6 % of 64.0 MiB"), "{evidence}");
}

/// Reads of 4 KiB.
const LINES: &str = "workload.access.lines = [{ size_bytes = \"4k\" }]";

fn job(folder: &Folder, volumes: &str, workload: &str) -> String {
    let text =
        format!("[[steps]]\nseconds = 1\n[[steps.groups]]\nvolumes = [{volumes}]\n{workload}\n");
    folder.file("job.toml", text.as_bytes()).display().to_string()
}

/// H08 detects: one block for every I/O.
#[test]
fn one_block_is_no_working_set() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = folder.file("disk", &data());
    let volume = format!("\"file:{}\"", path.display());
    for (range, word) in [
        ("length = \"4k\"", "all I/Os go to the same 4.0 KiB"),
        ("length = \"256k\"", "only 256.0 KiB of 64.0 MiB are used"),
        ("length = \"32m\"", ""),
    ] {
        let job = job(&folder, &volume, &format!("{LINES}\nworkload.range = {{ {range} }}"));
        let result = drumfire.run(folder.path(), &format!("run {job} --json"), LIMIT).ok().json();
        let (verdict, evidence) = said(&result, "H08");
        if word.is_empty() {
            assert!(!evidence.contains("same") && !evidence.contains("only"), "{evidence}");
        } else {
            assert_eq!(verdict, "warn", "{evidence}");
            assert!(evidence.contains(word), "{evidence}");
        }
    }
}

/// H08 detects: one file by two names.
/// H08 accepts: two files.
#[test]
fn one_file_is_no_two() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name));
    [&a, &b].into_iter().for_each(|path| write(path, &data()));
    let [link, soft] = ["link", "soft"].map(|name| folder.path().join(name));
    std::fs::hard_link(&a, &link).unwrap();
    std::os::unix::fs::symlink(&a, &soft).unwrap();
    let [a, b, link, soft] = [a, b, link, soft].map(|path| format!("\"file:{}\"", path.display()));
    let evidence = |volumes: &str| {
        let job = job(&folder, volumes, LINES);
        let run = drumfire.run(folder.path(), &format!("run {job} --json"), LIMIT).ok();
        said(&run.json(), "H08").1
    };
    assert!(!evidence(&format!("{a}, {b}")).contains("same volume as"));
    assert!(evidence(&format!("{a}, {link}")).contains("same volume as file:"));
    assert!(evidence(&format!("{b}, {a}, {soft}")).contains("same volume as file:"));
}

/// H08 detects: `ram:`.
#[test]
fn memory_is_told_as_memory() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let result = read(&drumfire, &folder, "ram:64k");
    let (verdict, evidence) = said(&result, "H08");
    assert!(evidence.contains("memory"), "{evidence}");
    let known = Path::new("/sys/devices/system/cpu/cpu0/cache/index0/size").exists();
    assert_eq!(verdict, if known { "warn" } else { "unknown" }, "{evidence}");
    // Volumes of a race are memory because the user requested them.
    let args = "race --seconds 1 --ramp 0 --targets 1 --volumes 2 --workers 2 --json";
    let result = drumfire.run(folder.path(), args, LIMIT).ok().json();
    let (verdict, evidence) = said(&result, "H08");
    assert_eq!(verdict, "pass", "{evidence}");
    assert!(evidence.contains("memory of the target"), "{evidence}");
    for silent in ["H01", "H03", "H04", "H07", "H18"] {
        assert_eq!(check(&result, silent).0, "not-applicable", "{silent}: {result}");
    }
    assert_eq!(check(&result, "H24").0, "pass", "{result}");
}

/// H24 detects: a target's memory and a file of it, by both protocols.
/// H24 accepts: two volumes of a target's memory.
#[test]
fn memory_of_a_target_elsewhere_is_told_as_memory() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = folder.file("disk", &data());
    let file = format!("b=file:{}?direct=0", path.display());
    let served = drumfire.serve(&["a=ram:64m", &file, "c=ram:64m"]);
    for uri in [Served::uri, Served::nvme_uri] {
        let [memory, file, other] = ["a", "b", "c"].map(|name| uri(&served, name));
        let (verdict, evidence) = said(&read(&drumfire, &folder, &memory), "H08");
        assert_eq!(verdict, "pass", "{evidence}");
        assert!(evidence.contains("memory of the target"), "{evidence}");
        // The target's page cache has all of the file.
        assert_ne!(check(&read(&drumfire, &folder, &file), "H08").0, "pass");
        let (verdict, evidence) =
            said(&read(&drumfire, &folder, &format!("{memory} {file}")), "H24");
        assert_eq!(verdict, "warn", "{evidence}");
        assert!(evidence.contains("memory of a target ("), "{evidence}");
        let alike = read(&drumfire, &folder, &format!("{memory} {other}"));
        assert_eq!(check(&alike, "H24").0, "pass", "{alike}");
    }
}

/// H24 detects: `null:` and a file.
#[test]
fn two_media_are_no_one() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let uris = ["a", "b"].map(|name| {
        let path = folder.path().join(name);
        write(&path, &data());
        format!("file:{}", path.display())
    });
    let [one, other] = &uris;
    let mixed = read(&drumfire, &folder, &format!("null:1g {one}"));
    let (verdict, evidence) = said(&mixed, "H24");
    assert_eq!(verdict, "warn", "{evidence}");
    let alike = read(&drumfire, &folder, &format!("{one} {other}"));
    assert_ne!(check(&alike, "H24").0, "warn", "{alike}");
}

/// H04 detects: writes of repeated data.
#[test]
fn writes_that_can_be_reduced_are_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = folder.file("disk", &data());
    let volume = format!("\"file:{}\"", path.display());
    let lines = "workload.access.lines = [{ size_bytes = \"4k\", read_percent = 0 }]";
    for (content, word) in [
        ("dedupe_percent = 100", "100 % of the blocks are duplicates"),
        ("compress_percent = 50", "50 % of each write is compressible"),
        ("pattern = \"0\"", "one pattern"),
        ("repeats = true", "rewritten unchanged"),
        ("", ""),
    ] {
        let job = job(&folder, &volume, &format!("{lines}\nworkload.content = {{ {content} }}"));
        let args = format!("run {job} --destroy --json");
        let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
        let (verdict, evidence) = said(&result, "H04");
        assert_eq!(verdict, if word.is_empty() { "pass" } else { "warn" }, "{evidence}");
        assert!(evidence.contains(word), "{evidence}");
    }
}
