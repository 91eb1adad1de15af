//! qemu-img as a client: a whole disk copied there and back.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, qemu_img, run};

const LIMIT: Duration = Duration::from_secs(300);
const DISK_BYTES: usize = 32 << 20;

/// Bytes that differ from block to block, some blocks empty.
fn pattern() -> Vec<u8> {
    let mut bytes = vec![0; DISK_BYTES];
    for (block, bytes) in bytes.chunks_mut(4096).enumerate().filter(|(block, _)| block % 7 != 0) {
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = (block * 31 + i * 7 + i / 256) as u8;
        }
    }
    bytes
}

#[test]
fn a_disk_goes_in_and_comes_back() {
    let Some(qemu_img) = qemu_img() else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let served = drumfire.serve(&["disk=ram:32m"]);
    let (uri, folder) = (served.uri("disk"), Folder::new());
    let source = folder.file("source.raw", &pattern());
    let back = folder.path().join("back.raw");
    let (source_name, back_name) = (source.display(), back.display());
    let image = |args: String| -> Finished {
        run(Command::new(&qemu_img).args(args.split_whitespace()), LIMIT)
    };
    image(format!("create -f raw {uri} 32M")).ok();
    image(format!("convert -n -f raw -O raw {source_name} {uri}")).ok();
    image(format!("compare -f raw -F raw {source_name} {uri}")).ok();
    image(format!("convert -f raw -O raw {uri} {back_name}")).ok();
    assert!(std::fs::read(&back).unwrap() == pattern(), "the disk came back different");
    // The comparison can fail.
    folder.file("source.raw", &vec![1; DISK_BYTES]);
    let differs = image(format!("compare -f raw -F raw {source_name} {uri}"));
    assert_eq!(differs.code, Some(1), "{differs:?}");
}

#[test]
fn a_compressed_disk_is_unpacked_onto_a_file_volume() {
    let Some(qemu_img) = qemu_img() else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let source = folder.file("source.raw", &pattern());
    let packed = folder.path().join("packed.qcow2");
    let disk = folder.file("disk.raw", &vec![0; DISK_BYTES]);
    let served = drumfire.serve(&[&format!("disk=file:{}", disk.display())]);
    let image =
        |args: String| run(Command::new(&qemu_img).args(args.split_whitespace()), LIMIT).ok();
    image(format!("convert -c -O qcow2 {} {}", source.display(), packed.display()));
    image(format!("convert -n -O raw {} {}", packed.display(), served.uri("disk")));
    drop(served);
    assert!(std::fs::read(&disk).unwrap() == pattern(), "the file holds something else");
}
