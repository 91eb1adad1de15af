//! Volumes in stripes, driven and served, over files and over other targets.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, qemu_img, run};

const LIMIT: Duration = Duration::from_secs(300);

#[test]
fn what_crosses_from_chunk_to_chunk_reads_back() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for size in ["512", "12k", "64k"] {
        let args = format!(
            "run stripe:4k(ram:1m,ram:1m,file:part?size=1m&direct=0) --size {size} --align 512 \
             --read 50 --outstanding 4 --verify --destroy --seconds 1 --ramp 0 --json"
        );
        let finished = drumfire.run(folder.path(), &args, LIMIT).ok();
        assert!(finished.json()["totals"]["ios"].as_u64() > Some(0), "{finished:?}");
    }
}

#[test]
fn a_stripe_over_two_targets_is_one_disk_to_a_stranger() {
    let (Some(qemu_img), Some(drumfire)) = (qemu_img(), Drumfire::find()) else { return };
    let folder = Folder::new();
    let backend = drumfire.serve(&["a=ram:4m", "b=ram:4m"]);
    let stripe = format!("stripe:64k({},{})", backend.uri("a"), backend.nvme_uri("b"));
    let front = drumfire.serve(&[&format!("disk={stripe}")]);
    let data: Vec<u8> = (0..8 << 20).map(|at: u32| (at / 4096 * 31 + at) as u8).collect();
    let source = folder.file("source.raw", &data);
    let (source, uri) = (source.display(), front.uri("disk"));
    let image = |args: String| run(Command::new(&qemu_img).args(args.split_whitespace()), LIMIT);
    image(format!("convert -n -f raw -O raw {source} {uri}")).ok();
    image(format!("compare -f raw -F raw {source} {uri}")).ok();
    // Each target has every other chunk.
    let half = folder.path().join("half.raw");
    image(format!("convert -f raw -O raw {} {}", backend.uri("a"), half.display())).ok();
    let every_other: Vec<u8> = data.chunks(64 << 10).step_by(2).flatten().copied().collect();
    assert!(std::fs::read(half).unwrap() == every_other);
}

#[test]
fn the_same_data_twice_is_no_stripe() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("a.img", &[0; 1 << 20]);
    let args = "run stripe:64k(file:a.img,file:./a.img) --seconds 1";
    let finished = drumfire.run(folder.path(), args, LIMIT);
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.stderr.contains("the same data: name each part once"), "{finished:?}");
}
