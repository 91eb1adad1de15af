//! Round trips: restored data equal the saved data.

use std::fs::Permissions;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::Mutex;

use super::*;
use crate::{Limit, Stage, add_volume};

#[test]
fn what_is_kept_comes_back_from_a_file_and_from_volumes_of_all_shapes() {
    let scratch = Scratch::new();
    let data = database(&scratch);
    fs::set_permissions(data.join("base/4"), Permissions::from_mode(0o640)).unwrap();
    let entries = listed(&data);
    let targets = [
        Target::create(&scratch.at("to"), false, false).unwrap(),
        volume("ram:2m"),
        volume("ram:4m?block=4096"),
        volume("stripe:64k(mirror(ram:1m,ram:2m),mirror(ram:3m,ram:1m))"),
    ];
    for (number, target) in targets.iter().enumerate() {
        let entries = if number == 0 { &entries } else { &listed(&data) };
        let outcome = keep(entries, target, OPTIONS);
        assert_eq!(outcome.source_bytes, 3 + 1_000_000 + 150_000 + 65_536);
        assert!(outcome.stored_bytes < 900_000, "{}", outcome.stored_bytes);
        let into = scratch.at(&format!("back-{number}"));
        let checked = restored(target, &into).unwrap();
        assert_eq!((checked.damaged, checked.files), (0, 5), "{:?}", checked.damages);
        assert_eq!((checked.frames, checked.missing.len()), (outcome.frames, 0));
        assert_eq!(checked.in_folder.as_ref(), Some(&into));
        same(&data, &into.join("data"));
        let mode = fs::metadata(into.join("data/base/4")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        // A second restore overwrites nothing, and leaves nothing.
        let error = restored(target, &into).unwrap_err().to_string();
        assert!(error.contains("exists"), "{error}");
        assert!(!scratch.at(&format!("back-{number}.incomplete")).exists());
    }
}

#[test]
fn any_number_of_threads_and_buffers_will_do() {
    let scratch = Scratch::new();
    let data = database(&scratch);
    for (readers, compressors, writers, buffers) in [(1, 1, 1, 1), (9, 1, 1, 1), (1, 5, 4, 2)] {
        let options = Options { readers, compressors, writers, buffers, ..OPTIONS };
        for codec in [Codec::Lz4, Codec::Stored] {
            let entries = listed(&data);
            let target = volume("ram:4m");
            let outcome = keep(&entries, &target, Options { codec, ..options });
            assert_eq!(outcome.stages.map(|(_, times)| times.threads), [readers, compressors, 1]);
            let checked = verify(&target).unwrap();
            assert_eq!((checked.damaged, checked.source_bytes), (0, outcome.source_bytes));
        }
    }
}

#[test]
fn volumes_are_kept_beside_files() {
    let scratch = Scratch::new();
    let mut entries = listed(&database(&scratch));
    add_volume(&mut entries, "volume-1", open_volume("ram:300k?fill=3"));
    let target = volume("ram:4m");
    keep(&entries, &target, OPTIONS);
    let into = scratch.at("back");
    assert_eq!(restored(&target, &into).unwrap().damaged, 0);
    let back = fs::read(into.join("volume-1")).unwrap();
    let again = Target::volume("again", open_volume("ram:300k?fill=3"));
    let mut way = again.way(&|| false).unwrap();
    let read = way.read(0, block::Buf::new(300 << 10).unwrap(), 300 << 10).ok().unwrap();
    assert!(back[..] == read[..]);
}

/// Bytes of a file's blocks, and its length. Blocks are counted once they are allocated.
fn size(path: &Path) -> (u64, u64) {
    fs::File::open(path).unwrap().sync_all().unwrap();
    let about = fs::metadata(path).unwrap();
    (about.blocks() * 512, about.len())
}

#[test]
fn holes_stay_holes_and_are_not_read() {
    let scratch = Scratch::new();
    let path = scratch.file("d/sparse", b"");
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_len((1 << 40) + 5).unwrap();
    for at in [0, 5 << 20, (5 << 20) + 8192, (9 << 30) - 100] {
        file.write_all_at(&noise(4096), at).unwrap();
    }
    let (stored, len) = size(&path);
    let entries = listed(&scratch.at("d"));
    let target = volume("ram:4m");
    let outcome = keep(&entries, &target, OPTIONS);
    let into = scratch.at("back");
    let checked = restored(&target, &into).unwrap();
    assert_eq!((checked.damaged, checked.missing.len()), (0, 0), "{:?}", checked.damages);
    let back = into.join("d/sparse");
    // On a file system that does not report holes they are read, which takes hours for this file.
    assert!(stored < 1 << 20, "the temporary folder has holes");
    // File systems list extents in blocks of their own, more or fewer by chance.
    let (restored, restored_len) = size(&back);
    assert!(restored <= stored + (16 << 10), "{restored} bytes of blocks, and there were {stored}");
    assert_eq!(restored_len, len);
    assert!(outcome.source_bytes <= 32 << 10 && outcome.hole_bytes > 1 << 39);
    let back = fs::File::open(back).unwrap();
    for at in [0, 5 << 20, (5 << 20) + 8192, (9 << 30) - 100] {
        let mut bytes = vec![0; 4096];
        back.read_exact_at(&mut bytes, at).unwrap();
        assert!(bytes == noise(4096), "{at}");
    }
}

#[test]
fn zeroes_that_were_written_stay_and_those_of_a_volume_become_a_hole() {
    let scratch = Scratch::new();
    scratch.file("d/zeroes", &[0; 1 << 20]);
    fs::File::open(scratch.at("d/zeroes")).unwrap().sync_all().unwrap();
    let mut entries = listed(&scratch.at("d"));
    add_volume(&mut entries, "volume-1", open_volume("ram:1m"));
    let target = volume("ram:4m");
    let outcome = keep(&entries, &target, OPTIONS);
    assert_eq!((outcome.source_bytes, outcome.hole_bytes), (2 << 20, 1 << 20));
    let into = scratch.at("back");
    assert_eq!(restored(&target, &into).unwrap().damaged, 0);
    assert_eq!(size(&into.join("d/zeroes")), size(&scratch.at("d/zeroes")));
    assert_eq!(size(&into.join("volume-1")), (0, 1 << 20));
}

#[test]
fn names_of_one_file_are_names_of_one_file_again() {
    let scratch = Scratch::new();
    let one = scratch.file("d/one", &noise(100_000));
    fs::hard_link(&one, scratch.at("d/two")).unwrap();
    fs::create_dir(scratch.at("d/deep")).unwrap();
    fs::hard_link(&one, scratch.at("d/deep/three")).unwrap();
    fs::set_permissions(&one, Permissions::from_mode(0o604)).unwrap();
    let target = volume("ram:4m");
    let outcome = keep(&listed(&scratch.at("d")), &target, OPTIONS);
    assert_eq!(outcome.source_bytes, 100_000);
    let into = scratch.at("back");
    assert_eq!(restored(&target, &into).unwrap().damaged, 0);
    let about = |name: &str| fs::metadata(into.join(name)).unwrap();
    assert_eq!((about("d/one").nlink(), about("d/one").mode() & 0o777), (3, 0o604));
    for name in ["d/two", "d/deep/three"] {
        assert_eq!(about(name).ino(), about("d/one").ino(), "{name}");
    }
    assert!(fs::read(into.join("d/deep/three")).unwrap() == noise(100_000));
}

#[test]
fn set_id_bits_are_left_out_and_told() {
    let scratch = Scratch::new();
    let program = scratch.file("d/program", b"#!/bin/sh\n");
    fs::set_permissions(&program, Permissions::from_mode(0o6755)).unwrap();
    fs::set_permissions(scratch.at("d"), Permissions::from_mode(0o3750)).unwrap();
    let target = volume("ram:1m");
    keep(&listed(&scratch.at("d")), &target, OPTIONS);
    let into = scratch.at("back");
    let checked = restored(&target, &into).unwrap();
    let mode = |name: &str| fs::metadata(into.join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("d/program"), mode("d") & 0o7777), (0o755, 0o1750));
    assert_eq!(checked.left_out, 2);
    if rustix::process::geteuid().is_root() {
        let into = scratch.at("owned");
        let to = Destination { folder: &into, owners: true };
        std::os::unix::fs::chown(&program, Some(1234), Some(2345)).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o6755)).unwrap();
        keep(&listed(&scratch.at("d")), &target, OPTIONS);
        let checked = restore(&target, Some(to), &|_| (), &|| false).unwrap();
        let about = fs::metadata(into.join("d/program")).unwrap();
        assert_eq!((about.uid(), about.gid(), about.mode() & 0o7777), (1234, 2345, 0o6755));
        assert_eq!(checked.left_out, 0);
    }
}

#[test]
fn paths_longer_than_a_call_takes_come_back() {
    let scratch = Scratch::new();
    let folder = os::Folder::open(&scratch.at("")).unwrap();
    let name = "n".repeat(250);
    let mut path = PathBuf::from("d");
    folder.create_folder(&path, 0o700).unwrap();
    for _ in 0..20 {
        path.push(&name);
        folder.create_folder(&path, 0o700).unwrap();
    }
    path.push("file");
    folder.create(&path, 0o640, 0).unwrap().write_all_at(b"deep", 0).unwrap();
    let target = volume("ram:1m");
    keep(&listed(&scratch.at("d")), &target, OPTIONS);
    let into = scratch.at("back");
    assert_eq!(restored(&target, &into).unwrap().damaged, 0);
    let mut bytes = [0; 4];
    let file = os::Folder::open(&into).unwrap().file(&path, 0).unwrap();
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"deep");
}

#[test]
fn each_tenth_is_told_once_and_nothing_is_written_to_null() {
    let scratch = Scratch::new();
    let entries = listed(&database(&scratch));
    let told = Mutex::new(Vec::new());
    let tell = |progress: crate::Progress| told.lock().unwrap().push(progress.percent);
    let options = Options { writers: 1, ..OPTIONS };
    let outcome = run(&entries, &Target::null(), options, &tell, &|| false).unwrap();
    assert_eq!(*told.lock().unwrap(), (1..=10).map(|tenth| 10 * tenth).collect::<Vec<u32>>());
    assert_ne!(outcome.limit, Limit::Stage(Stage::Writing));
    assert!(verify(&Target::null()).is_err());
}

#[test]
fn nothing_at_all_is_a_backup_too() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.at("none")).unwrap();
    let entries = listed(&scratch.at("none"));
    let target = volume("ram:64k");
    assert_eq!(keep(&entries, &target, OPTIONS).source_bytes, 0);
    let into = scratch.at("back");
    assert_eq!(restored(&target, &into).unwrap().files, 0);
    assert!(into.join("none").is_dir());
}

/// Round trips of random trees: lengths around those of transfers and blocks, holes, names of
/// arbitrary bytes.
#[test]
fn trees_of_chance_come_back() {
    for seed in 0..8 {
        let scratch = Scratch::new();
        let mut state = seed;
        let mut chance = |below: u64| block::splitmix(&mut state) % below;
        let mut names = Vec::new();
        for number in 0..1 + chance(12) {
            let name = format!("d/{}/f\u{202e}{number}\n", chance(3));
            let len = [0, 1, 4095, 4096, 65_535, 65_536, 65_537, 200_000][chance(8) as usize];
            let path = scratch.file(&name, &noise(len));
            if chance(3) == 0 {
                let more = len as u64 + chance(400_000);
                fs::File::options().write(true).open(path).unwrap().set_len(more).unwrap();
            }
            names.push(name);
        }
        let options = Options {
            readers: 1 + chance(4) as u32,
            compressors: 1 + chance(3) as u32,
            writers: 1 + chance(3) as u32,
            buffers: 1 + chance(4) as u32,
            codec: if chance(2) == 0 { Codec::Lz4 } else { Codec::Stored },
            direct: chance(2) == 0,
            ..OPTIONS
        };
        let path = scratch.at("to");
        let target = Target::create(&path, false, options.direct).unwrap();
        keep(&listed(&scratch.at("d")), &target, options);
        target.publish(true).unwrap();
        let into = scratch.at("back");
        let checked = restored(&Target::open(&path).unwrap(), &into).unwrap();
        assert_eq!((checked.damaged, checked.missing.len()), (0, 0), "seed {seed}");
        for name in names {
            let read = |path: PathBuf| fs::read(path).unwrap();
            assert!(read(scratch.at(&name)) == read(into.join(&name)), "seed {seed}: {name:?}");
            let dense = |path: PathBuf| size(&path).0;
            assert!(dense(into.join(&name)) <= dense(scratch.at(&name)) + 4096, "seed {seed}");
        }
    }
}
