//! Images whose size is no multiple of the block: served to the byte, or reported.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Nbd, NbdCommand, Running, qemu_img, require, run};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(120);
const BYTES: usize = 1_000_001;
/// Whole blocks of 512 bytes.
const PADDED: usize = 1_000_448;
const REMARK: &str = "img: 1000001 bytes are not a multiple of 512: ";

/// Writes an image without zero bytes, and returns its bytes.
fn image(folder: &Folder) -> Vec<u8> {
    let bytes: Vec<u8> =
        (0..BYTES as u64).map(|at| ((at * 2_654_435_761) >> 7) as u8 | 1).collect();
    folder.file("img", &bytes);
    bytes
}

/// Serves, and returns the address of each protocol.
fn serving(drumfire: &Drumfire, folder: &Path, args: &str) -> (Running, Vec<String>) {
    let mut running = Running::start(&mut drumfire.command(folder, args));
    let portals = running.await_stdout(LIMIT, |text| {
        let line = text.strip_prefix("ready ")?.split_once('\n')?.0;
        let portals = line.split(' ').map(|portal| portal.split_once('=').unwrap().1.to_owned());
        Some(portals.collect::<Vec<_>>())
    });
    (running, portals)
}

#[test]
fn an_image_is_served_by_nbd_to_its_last_byte() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let mut bytes = image(&folder);
    let args = "serve --nbd 127.0.0.1:0 --volume d=file:img";
    let (running, portals) = serving(&drumfire, folder.path(), args);
    assert_eq!(running.stderr().matches(REMARK).count(), 1, "{}", running.stderr());
    let mut client = Nbd::connect(&portals[0], "d").unwrap();
    assert_eq!(client.bytes, BYTES as u64);
    assert!(client.read(0, BYTES as u32).unwrap() == bytes);
    for (offset, len) in [(999_936, 65), (999_937, 64), (7, 3), (BYTES - 1, 1)] {
        let read = client.read(offset as u64, len as u32).unwrap();
        assert_eq!(read, bytes[offset..offset + len], "{offset} {len}");
    }
    assert!(client.read(BYTES as u64 - 1, 2).is_err());
    client.send(NbdCommand::Write, false, 1, (999_990, 11), &[9; 11]).unwrap();
    assert_eq!(client.answer().unwrap(), (1, true));
    client.send(NbdCommand::WriteZeroes, true, 2, (999_980, 5), &[]).unwrap();
    assert_eq!(client.answer().unwrap(), (2, true));
    client.send(NbdCommand::Write, false, 3, (999_990, 12), &[9; 12]).unwrap();
    assert_eq!(client.answer().unwrap(), (3, false));
    bytes[999_990..].fill(9);
    bytes[999_980..999_985].fill(0);
    assert!(client.flush().unwrap());
    running.signal(Signal::TERM);
    running.finish(LIMIT).ok();
    assert!(fs::read(folder.path().join("img")).unwrap() == bytes);
}

#[test]
fn a_copy_has_all_of_an_image() {
    let (Some(drumfire), Some(img)) = (Drumfire::find(), qemu_img()) else { return };
    let folder = Folder::new();
    let bytes = image(&folder);
    let args = "serve --iscsi 127.0.0.1:0 --nbd 127.0.0.1:0 --volume d=file:img";
    let (_running, portals) = serving(&drumfire, folder.path(), args);
    let sources = [
        format!("iscsi://{}/iqn.2026-11.io.drumfire:d/1", portals[0]),
        format!("nbd://{}/d", portals[1]),
    ];
    for source in sources {
        let copy = folder.path().join("copy");
        let mut command = Command::new(&img);
        command.args(["convert", "-f", "raw", "-O", "raw", &source]).arg(&copy);
        run(&mut command, LIMIT).ok();
        let copied = fs::read(&copy).unwrap();
        // QEMU counts in sectors, and pads as the last block is padded.
        assert!(copied.len() == PADDED && copied[..BYTES] == bytes, "{source}: {}", copied.len());
        assert!(copied[BYTES..].iter().all(|byte| *byte == 0), "{source}");
        fs::remove_file(copy).unwrap();
    }
}

#[test]
fn the_last_block_cannot_be_written_where_it_is_padded() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let bytes = image(&folder);
    let args = "--volume d=file:img";
    let command = format!("serve --iscsi 127.0.0.1:0 --nvme-tcp 127.0.0.1:0 {args}");
    let (_running, portals) = serving(&drumfire, folder.path(), &command);
    for uri in [
        format!("iscsi://{}/iqn.2026-11.io.drumfire:d/1", portals[0]),
        format!("nvme+tcp://{}/nqn.2026-11.io.drumfire:d/1", portals[1]),
    ] {
        // The whole volume, block by block, once.
        let job = format!(
            "[[steps]]\nseconds = 60\n[[steps.groups]]\nvolumes = ['{uri}']\n\
             [steps.groups.workload]\nlimit_bytes = {PADDED}\naccess = {{ lines = [{{ \
             size_bytes = 512, read_percent = 0, random_percent = 0 }}] }}\n"
        );
        folder.file("job.toml", job.as_bytes());
        let ended = drumfire.run(folder.path(), "run job.toml --destroy --json", LIMIT);
        let result = ended.json();
        assert_eq!(result["totals"]["errors"], 1, "{uri}: {ended:?}");
        let failure = &result["failures"][0];
        assert!(failure.to_string().contains("write-protected"), "{uri}: {failure}");
    }
    let now = fs::read(folder.path().join("img")).unwrap();
    assert_eq!((now.len(), &now[999_936..]), (BYTES, &bytes[999_936..]));
}

#[test]
fn an_attached_image_has_its_length() {
    let Some(drumfire) = Drumfire::find() else { return };
    if !Path::new("/dev/fuse").exists() || require("fusermount3").is_none() {
        return;
    }
    let folder = Folder::new();
    let mut bytes = image(&folder);
    let mut running =
        Running::start(&mut drumfire.command(folder.path(), "attach file:img attached"));
    running.await_stdout(LIMIT, |text| text.starts_with("ready ").then_some(()));
    let path = folder.path().join("attached");
    assert!(fs::read(&path).unwrap() == bytes);
    let mut file = fs::File::options().read(true).write(true).open(&path).unwrap();
    file.seek(SeekFrom::End(-3)).unwrap();
    file.write_all(b"end").unwrap();
    file.sync_all().unwrap();
    bytes[BYTES - 3..].copy_from_slice(b"end");
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    assert!(all == bytes);
    drop(file);
    drumfire.run(folder.path(), "detach attached", LIMIT).ok();
    running.finish(LIMIT).ok();
    assert!(fs::read(folder.path().join("img")).unwrap() == bytes);
}

#[test]
fn what_is_left_out_is_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    image(&folder);
    let left_out = format!("{REMARK}the last 65 bytes are not used");
    for args in [
        "run file:img --seconds 0.5 --ramp 0 --no-ceiling --out r --replace",
        "run mirror(file:img,ram:999936) --seconds 0.5 --ramp 0 --no-ceiling --out r --replace",
        "backup file:img --to copy",
    ] {
        let ended = drumfire.run(folder.path(), args, LIMIT).ok();
        assert_eq!(ended.stderr.matches(&left_out).count(), 1, "{args}: {ended:?}");
    }
    for volume in ["fault:fail-slow(file:img)", "file:img?direct=1"] {
        let args = format!("serve --nbd 127.0.0.1:0 --volume d={volume}");
        let (running, portals) = serving(&drumfire, folder.path(), &args);
        assert_eq!(Nbd::connect(&portals[0], "d").unwrap().bytes, 999_936, "{volume}");
        assert_eq!(running.stderr().matches(&left_out).count(), 1, "{}", running.stderr());
    }
    // A size of whole blocks causes no remark.
    folder.file("even", &vec![1; 1 << 20]);
    let ended = drumfire.run(folder.path(), "run file:even --seconds 0.5 --ramp 0 --out e", LIMIT);
    assert!(!ended.ok().stderr.contains("not a multiple"));
}
