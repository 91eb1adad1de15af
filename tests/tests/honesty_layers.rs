//! Layers between a file and its medium, or between two ends of a wire, that are no medium or wire:
//! memory, merges, the same host.

use std::fs::File;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Running, check, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
/// Bytes of a file under test.
const BYTES: usize = 32 << 20;

fn run(drumfire: &Drumfire, folder: &Path, args: &str) -> Value {
    let args = format!("run {args} --size 4k --seconds 1 --ramp 0 --json");
    drumfire.run(folder, &args, LIMIT).json()
}

/// A file system in memory accepts `O_DIRECT`, and is still the page cache.
/// H01 detects: a file on tmpfs.
#[test]
fn memory_is_no_disk() {
    let Some(drumfire) = Drumfire::find() else { return };
    let shared = Path::new("/dev/shm");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !mounts.lines().any(|line| line.split(' ').nth(1) == shared.to_str()) {
        return skip("nothing is mounted on /dev/shm");
    }
    let folder = Folder::new();
    let path = shared.join(format!("drumfire-{}", std::process::id()));
    std::fs::write(&path, vec![0xa5; BYTES]).unwrap();
    let result = run(&drumfire, folder.path(), &format!("file:{}", path.display()));
    std::fs::remove_file(&path).unwrap();
    let (verdict, evidence) = check(&result, "H01");
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(evidence.contains("memory"), "{evidence}");
}

/// Adjacent I/Os that the kernel merges are fewer on the device than in the result.
/// H18 detects: sequential reads that are merged.
#[test]
fn merged_reads_are_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = folder.file("written", &vec![0xa5; BYTES]);
    File::open(&path).unwrap().sync_all().unwrap();
    let args = format!("file:{} --rw read --outstanding 32", path.display());
    let result = run(&drumfire, folder.path(), &args);
    let device = &result["devices"][0];
    let (Some(done), Some(merged)) = (device["reads"].as_u64(), device["merged_reads"].as_u64())
    else {
        return skip("the temporary folder is on no device that counts");
    };
    let (verdict, evidence) = check(&result, "H18");
    if verdict == "unknown" {
        return skip("the device shows no settings");
    }
    let share = merged as f64 / (done + merged).max(1) as f64;
    assert_eq!(evidence.contains("were merged"), share > 0.02, "{share}: {evidence}");
    assert!(share <= 0.02 || verdict == "warn", "{verdict}: {evidence}");
}

/// The way to an address of this host's own is no wire, whatever the address.
/// H19 detects: a target at an address of this host.
#[test]
fn the_same_host_is_no_wire() {
    let Some(drumfire) = Drumfire::find() else { return };
    // Connecting a UDP socket finds the source address for a remote peer; nothing is sent.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let own = socket.connect("192.0.2.77:9").and_then(|()| socket.local_addr()).map(|it| it.ip());
    let Some(own) = own.ok().filter(|own| !own.is_loopback() && !own.is_unspecified()) else {
        return skip("this host has no address of its own");
    };
    let folder = Folder::new();
    let args = format!("serve --iscsi {own}:0 --volume disk=ram:16m");
    let mut target = Running::start(&mut drumfire.command(folder.path(), &args));
    let portal = target.await_stdout(LIMIT, |stdout| {
        let (line, _) = stdout.split_once('\n')?;
        let portal = line.strip_prefix("ready iscsi=")?.split(' ').next()?;
        Some(portal.to_owned())
    });
    let uri = format!("iscsi://{portal}/iqn.2026-11.io.drumfire:disk/1");
    let result = run(&drumfire, folder.path(), &uri);
    assert_eq!(result["job"]["loopback"], true, "{uri}");
    let (verdict, evidence) = check(&result, "H19");
    assert_eq!(verdict, "warn", "{evidence}");
    let (verdict, evidence) = check(&result, "H17");
    assert_eq!(verdict, "unknown", "{evidence}");
    assert!(evidence.contains("another process"), "{evidence}");
}

/// A disk with physical blocks of 4096 bytes does a read-modify-write for 512 bytes.
/// H18 detects: writes of 512 bytes to a disk with physical blocks of 4096 bytes.
/// H18 accepts: writes of whole blocks, and reads of parts.
#[test]
fn writes_of_a_part_of_a_block_are_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = folder.file("written", &vec![0xa5; BYTES]);
    let file = File::open(&path).unwrap();
    file.sync_all().unwrap();
    let number = std::os::unix::fs::MetadataExt::dev(&file.metadata().unwrap());
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let device = format!("/sys/dev/block/{major}:{minor}");
    let kept = ["queue", "../queue"].map(|queue| format!("{device}/{queue}/physical_block_size"));
    let kept = kept.iter().find_map(|file| std::fs::read_to_string(file).ok());
    if kept.as_deref().map(str::trim) != Some("4096") {
        return skip("the temporary folder is on no disk that keeps blocks of 4096 bytes");
    }
    let said = |args: &str| {
        let args = format!("run file:{} {args} --seconds 1 --ramp 0 --json", path.display());
        check(&drumfire.run(folder.path(), &args, LIMIT).json(), "H18")
    };
    let parts = |evidence: &str| evidence.contains("a partial block is a read-modify-write");
    let (verdict, evidence) = said("--size 512 --read 0 --destroy");
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(parts(&evidence), "{evidence}");
    for honest in ["--size 4k --read 0 --destroy", "--size 512 --read 100"] {
        let (_, evidence) = said(honest);
        assert!(!parts(&evidence), "{honest}: {evidence}");
    }
}
