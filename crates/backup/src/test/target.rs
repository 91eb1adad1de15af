//! The target: the earlier content stays until a new backup is complete.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::{Published, add_volume};

/// A backup of `data` by this name.
fn old_backup(scratch: &Scratch, name: &str) -> Vec<u8> {
    let path = scratch.at(name);
    let target = Target::create(&path, true, false).unwrap();
    keep(&listed(&scratch.at("data")), &target, OPTIONS);
    assert_eq!(target.publish(true).unwrap(), Published::There);
    fs::read(path).unwrap()
}

#[test]
fn the_old_backup_stays_until_the_new_one_is_published() {
    let scratch = Scratch::new();
    let data = database(&scratch);
    let path = scratch.at("to");
    let old = old_backup(&scratch, "to");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let begun = Target::create(&path, true, false).unwrap();
    assert!(fs::read(&path).unwrap() == old);
    keep(&listed(&data), &begun, OPTIONS);
    assert!(fs::read(&path).unwrap() == old);
    drop(begun);
    assert_eq!(scratch.names(), ["data", "to"]);
    let stopped = Target::create(&path, true, false).unwrap();
    let asked = AtomicU32::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 2;
    let error = run(&listed(&data), &stopped, OPTIONS, &|_| (), &stop).unwrap_err();
    assert!(error.is_stopped(), "{error}");
    drop(stopped);
    assert!(fs::read(&path).unwrap() == old);
    assert_eq!(old_backup(&scratch, "to").len(), old.len());
    assert!(fs::read(&path).unwrap() != old, "each backup has an identity of its own");
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode, scratch.names()), (0o600, vec!["data".to_owned(), "to".to_owned()]));
}

#[test]
fn an_image_in_use_is_not_replaced_whenever_its_use_begins() {
    let scratch = Scratch::new();
    let data = database(&scratch);
    let path = scratch.at("to");
    let old = old_backup(&scratch, "to");
    let take = |name: &str, writes| os::ImageLock::take(&scratch.at(name), writes);
    let create = || Target::create(&path, true, false);
    for writes in [true, false] {
        let used = take("to", writes).unwrap();
        let Err(BackupError::Used(error)) = create() else { panic!("it is replaced") };
        assert!(error.to_string().contains("to is in use: this process, under another path"));
        drop(used);
    }
    let target = create().unwrap();
    assert!(take("to", false).is_err(), "somebody may use what is about to be replaced");
    // Another image takes its name, and is in use.
    keep(&listed(&data), &target, OPTIONS);
    fs::rename(scratch.file("image", b"served"), &path).unwrap();
    let used = take("to", true).unwrap();
    let error = target.publish(true).unwrap_err().to_string();
    assert!(
        error.contains("to is in use") && error.contains("the data written so far is in"),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"served");
    let left = scratch.names().into_iter().find(|name| name.ends_with(".part")).unwrap();
    assert_eq!(fs::read(scratch.at(&left)).unwrap().len(), old.len());
    drop(used);
    create().unwrap().publish(true).unwrap();
    // The name of an incomplete backup is protected, too.
    old_backup(&scratch, "to");
    scratch.file("to.partial", b"served");
    let target = create().unwrap();
    let _used = take("to.partial", true).unwrap();
    assert!(target.publish(false).unwrap_err().to_string().contains("to.partial is in use"));
    assert_eq!(fs::read(scratch.at("to.partial")).unwrap(), b"served");
}

#[test]
fn only_a_file_is_replaced_and_only_when_asked() {
    let scratch = Scratch::new();
    let old = scratch.file("old", b"text");
    symlink(&old, scratch.at("link")).unwrap();
    symlink("nowhere", scratch.at("dangling")).unwrap();
    fs::create_dir(scratch.at("folder")).unwrap();
    let create = |name: &str, replace| Target::create(&scratch.at(name), replace, false);
    let why = |name: &str, replace| create(name, replace).err().unwrap();
    for name in ["old", "link", "dangling", "folder"] {
        assert!(matches!(why(name, false), BackupError::Exists(_)), "{name}");
    }
    for (name, word) in
        [("link", "symbolic link"), ("dangling", "symbolic link"), ("folder", "folder")]
    {
        let error = why(name, true).to_string();
        assert!(error.contains(word), "{name}: {error}");
    }
    assert_eq!(fs::read(old).unwrap(), b"text");
    assert!(why("none/x", true).to_string().contains("o such file"));
}

#[test]
fn a_backup_that_lacks_data_is_put_beside_a_whole_one() {
    let scratch = Scratch::new();
    database(&scratch);
    let path = scratch.at("to");
    let old = old_backup(&scratch, "to");
    scratch.file("bad.toml", b"name='bad'\nseed=1\n[[fault]]\nverb='error'\nop='read'\n");
    let bad = format!("fault:{}(ram:1m?fill=1)", scratch.at("bad.toml").display());
    let publish = |replace| {
        let target = Target::create(&path, replace, false).unwrap();
        let mut entries = listed(&scratch.at("data"));
        add_volume(&mut entries, "volume-1", open_volume(&bad));
        keep(&entries, &target, OPTIONS);
        target.publish(entries.iter().all(|entry| !entry.fate().is_partial())).unwrap()
    };
    let beside = scratch.at("to.partial");
    assert_eq!(publish(true), Published::Beside(beside.clone()));
    assert!(fs::read(&path).unwrap() == old);
    assert_eq!(verify(&Target::open(&beside).unwrap()).unwrap().partial, 1);
    // If there is no backup, or no complete one, the file has the requested name.
    fs::remove_file(&path).unwrap();
    assert_eq!(publish(false), Published::There);
    assert_eq!(publish(true), Published::There);
    // One of an older version is not known, and not lost.
    let mut older = old.clone();
    older[16] = 1;
    fs::write(&path, &older).unwrap();
    assert_eq!(publish(true), Published::Beside(beside));
    assert!(fs::read(&path).unwrap() == older);
}

#[test]
fn a_volume_is_given_up_when_data_were_read_and_is_complete_last() {
    let scratch = Scratch::new();
    let data = database(&scratch);
    let target = volume("ram:4m");
    keep(&listed(&data), &target, OPTIONS);
    let is_whole = |target: &Target| verify(target).is_ok_and(|checked| checked.damaged == 0);
    // A backup that is stopped before anything was read, and one that cannot fit.
    let error = run(&listed(&data), &target, OPTIONS, &|_| (), &|| true).unwrap_err();
    assert!(error.is_stopped() && is_whole(&target), "{error}");
    scratch.file("large/file", &noise(5 << 20));
    let large = listed(&scratch.at("large"));
    let stored = Options { codec: Codec::Stored, ..OPTIONS };
    let error = try_keep(&large, &target, stored).unwrap_err();
    assert!(matches!(error, BackupError::Full { kept: 0, .. }), "{error}");
    assert!(is_whole(&target));
    // Data that compress might have fitted.
    let error = try_keep(&listed(&scratch.at("large")), &target, OPTIONS).unwrap_err();
    assert!(matches!(error, BackupError::Full { .. }), "{error}");
    let why = verify(&target).unwrap_err().to_string();
    assert!(why.contains("the backup is incomplete"), "{why}");
    // A stopped backup is incomplete, and the older one is gone.
    keep(&listed(&data), &target, OPTIONS);
    let asked = AtomicU32::new(0);
    let stop = || asked.fetch_add(1, Ordering::Relaxed) > 20;
    let options = Options { buffers: 1, readers: 1, ..OPTIONS };
    let error = run(&listed(&data), &target, options, &|_| (), &stop).unwrap_err();
    assert!(error.is_stopped(), "{error}");
    assert!(verify(&target).is_err());
}

#[test]
fn a_fifo_is_no_backup_and_is_not_waited_for() {
    let scratch = Scratch::new();
    let pipe = scratch.at("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let error = Target::open(&pipe).err().unwrap().to_string();
    assert!(error.contains("not a file or a volume"), "{error}");
}
