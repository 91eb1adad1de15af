//! `drumfire backup` with files of other users, faults and wrong arguments: no backup and no file
//! is lost, no file is read or written in place of another, and missing data are reported.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, Running, require, run, skip};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(120);
const MIB: usize = 1 << 20;

/// The program, and a folder for its run.
struct Rig {
    drumfire: Drumfire,
    folder: Folder,
}

impl Rig {
    fn new() -> Option<Rig> {
        Drumfire::find().map(|drumfire| Rig { drumfire, folder: Folder::new() })
    }

    fn run(&self, args: &str) -> Finished {
        self.drumfire.run(self.folder.path(), args, LIMIT)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, and creates its parent folders.
    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        self.folder.file(name, bytes)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Bytes that are no holes and compress.
fn lines(len: usize) -> Vec<u8> {
    b"a line of real data, sixty-three bytes long, again and again..\n"
        .iter()
        .copied()
        .cycle()
        .take(len)
        .collect()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_wrong_word_a_bad_source_or_an_interrupt_costs_no_old_backup() {
    let Some(rig) = Rig::new() else { return };
    rig.file("data/a", &lines(100_000));
    rig.run("backup data --to keep").ok();
    let old = fs::read(rig.at("keep")).unwrap();
    let stays = |why: &str| {
        assert!(fs::read(rig.at("keep")).unwrap() == old, "{why}");
        assert!(!rig.names().iter().any(|name| name.ends_with(".part")), "{why}");
    };
    for (args, code) in [
        ("backup data nosuchfile --to keep --replace", 2),
        ("backup data iscsi://127.0.0.1:1/iqn.2026-11.x.y:z/1 --to keep --replace", 1),
        ("backup data file:nosuchfile --to keep --replace", 2),
        ("backup data file:keep --to keep --replace", 2),
        ("backup keep --to keep --replace", 2),
        ("backup data keep --to ./keep --replace", 2),
        ("backup data null --to keep --replace", 2),
        ("backup data --to keep --replace --transfer 100k", 2),
        ("backup data --to keep --replace --readers 0", 2),
        ("backup data --to keep", 1),
    ] {
        let run = rig.run(args);
        assert_eq!(run.code, Some(code), "{args}: {}", run.stderr);
        stays(args);
    }
    // A source that is partly read when the user interrupts.
    rig.file("slow.toml", b"name='slow'\nseed=1\n[[fault]]\nverb='slow'\nop='read'\nadd_s=0.2\n");
    let args = "backup data fault:./slow.toml(ram:64m?fill=1) --to keep --replace --readers 1";
    let mut running = Running::start(&mut rig.drumfire.command(rig.folder.path(), args));
    running.await_stderr(LIMIT, |stderr| stderr.contains("10 percent").then_some(()));
    running.signal(Signal::INT);
    let ended = running.finish(LIMIT);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    stays("interrupted");
    // A volume, too, is not overwritten before its sources are open.
    rig.run("backup data --to file:volume?size=4m --destroy").ok();
    for source in ["nosuchfile", "file:nosuchfile", "file:volume", "volume"] {
        let run = rig.run(&format!("backup data {source} --to file:volume --destroy"));
        assert_eq!(run.code, Some(2), "{source}: {}", run.stderr);
        rig.run("backup --from file:volume --verify").ok();
    }
    rig.run("backup data --to keep --replace").ok();
    assert!(fs::read(rig.at("keep")).unwrap() != old);
}

#[test]
fn a_backup_is_as_private_as_its_sources_may_be() {
    let Some(rig) = Rig::new() else { return };
    rig.file("data/secret", b"private");
    let old = rig.file("keep", b"");
    fs::set_permissions(&old, PermissionsExt::from_mode(0o666)).unwrap();
    rig.run("backup data --to keep --replace").ok();
    rig.run("backup data --to other").ok();
    rig.run("backup data --to mirror(file:left?size=1m,file:right?size=1m) --destroy").ok();
    for name in ["keep", "other", "left", "right"] {
        assert_eq!(mode(&rig.at(name)), 0o600, "{name}");
    }
    // A symbolic link is neither followed nor replaced.
    symlink("other", rig.at("link")).unwrap();
    let refused = rig.run("backup data --to link --replace");
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("symbolic link"), "{}", refused.stderr);
    rig.run("backup --from other --verify").ok();
}

#[test]
fn a_backup_with_a_bad_extent_says_so_for_ever() {
    let Some(rig) = Rig::new() else { return };
    let image = lines(8 * MIB);
    rig.file("img", &image);
    let bad = "name='bad'\nseed=1\n[[fault]]\nverb='error'\nop='read'\nrange=['2m','3m']\n";
    rig.file("bad.toml", bad.as_bytes());
    let made = rig.run("backup fault:./bad.toml(file:img) --to out --readers 4");
    assert_eq!(made.code, Some(6), "{made:?}");
    assert!(made.stdout.contains("1048576 at 2097152"), "{}", made.stdout);
    for args in ["--verify", "--into back"] {
        let found = rig.run(&format!("backup --from out {args}"));
        assert_eq!(found.code, Some(6), "{args}: {}", found.stdout);
        assert!(found.stdout.contains("volume-1"), "{}", found.stdout);
        assert!(found.stdout.contains("1048576 at 2097152"), "{}", found.stdout);
        assert!(!found.stdout.contains("all data"), "{}", found.stdout);
    }
    let json = rig.run("backup --from out --verify --json").json();
    assert_eq!((&json["damaged"], &json["partial"]), (&0.into(), &1.into()));
    assert_eq!(json["not_whole"][0]["missing"][0]["at"], 2 * MIB);
    // All other data is restored, under a name that marks the restore as incomplete.
    assert!(!rig.at("back").exists());
    let back = fs::read(rig.at("back.incomplete/volume-1")).unwrap();
    let mut right = image;
    right[2 * MIB..3 * MIB].fill(0);
    assert!(back == right);
    // A backup that lacks data does not replace a complete one.
    rig.run("backup file:img --to keep").ok();
    let old = fs::read(rig.at("keep")).unwrap();
    let made = rig.run("backup fault:./bad.toml(file:img) --to keep --replace --verify");
    assert_eq!(made.code, Some(6), "{made:?}");
    assert!(made.stderr.contains("keep.partial"), "{}", made.stderr);
    assert!(fs::read(rig.at("keep")).unwrap() == old);
    assert_eq!(rig.run("backup --from keep.partial --verify").code, Some(6));
}

/// A file on a failing drive, read through FUSE.
#[test]
fn a_file_with_a_bad_extent_is_kept_around_it() {
    let Some(rig) = Rig::new() else { return };
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return skip("no /dev/fuse for us");
    }
    let image = lines(8 * MIB);
    rig.file("img", &image);
    fs::create_dir(rig.at("d")).unwrap();
    let bad = "name='bad'\nseed=1\n[[fault]]\nverb='error'\nop='read'\nrange=['2m','2100k']\n";
    rig.file("bad.toml", bad.as_bytes());
    let args = "attach fault:./bad.toml(file:img) d/drive";
    let mut attached = Running::start(&mut rig.drumfire.command(rig.folder.path(), args));
    attached.await_stdout(LIMIT, |stdout| stdout.contains("ready ").then_some(()));
    let made = rig.run("backup d/drive --to out --direct");
    attached.signal(Signal::TERM);
    attached.finish(LIMIT);
    assert_eq!(made.code, Some(6), "{made:?}");
    let found = rig.run("backup --from out --into back");
    assert_eq!(found.code, Some(6), "{found:?}");
    let back = fs::read(rig.at("back.incomplete/drive")).unwrap();
    assert_eq!(back.len(), image.len());
    let differs: Vec<usize> = (0..image.len()).filter(|at| back[*at] != image[*at]).collect();
    let (first, last) = (differs[0], differs[differs.len() - 1]);
    // No more than the pieces that are read again.
    assert!(first >= 2 * MIB && last < 2100 * 1024 + 65_536, "{first} {last}");
    assert!(found.stdout.contains("drive: cannot be read"), "{}", found.stdout);
}

#[test]
fn what_a_user_swaps_in_is_not_read() {
    let Some(rig) = Rig::new() else { return };
    rig.file("data/a", &lines(64 * MIB));
    rig.file("data/link", b"listed");
    rig.file("data/pipe", b"listed");
    rig.file("data/hard", b"listed");
    rig.file("data/sub/file", b"listed");
    rig.file("secret", b"private text");
    rig.file("other/file", b"private text");
    // One reader is still at the first file when the others are swapped.
    let args = "backup data --to out --readers 1 --buffers 1 --transfer 64k";
    let mut running = Running::start(&mut rig.drumfire.command(rig.folder.path(), args));
    running.await_stderr(LIMIT, |stderr| stderr.contains("10 percent").then_some(()));
    running.signal(Signal::STOP);
    let gone = |name: &str| fs::remove_file(rig.at(name)).unwrap();
    gone("data/link");
    symlink(rig.at("secret"), rig.at("data/link")).unwrap();
    gone("data/pipe");
    let fifo = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, rig.at("data/pipe"), fifo).unwrap();
    gone("data/hard");
    fs::hard_link(rig.at("secret"), rig.at("data/hard")).unwrap();
    fs::rename(rig.at("data/sub"), rig.at("moved")).unwrap();
    symlink(rig.at("other"), rig.at("data/sub")).unwrap();
    running.signal(Signal::CONT);
    let made = running.finish(LIMIT);
    assert_eq!(made.code, Some(6), "{made:?}");
    assert!(!fs::read(rig.at("out")).unwrap().windows(7).any(|bytes| bytes == b"private"));
    for name in ["link", "pipe", "hard", "sub/file"] {
        let line = format!("data/{name}: changed after it was listed and was not read");
        assert!(made.stdout.contains(&line), "{name}: {}", made.stdout);
    }
    let found = rig.run("backup --from out --into back");
    assert_eq!(found.code, Some(6), "{found:?}");
    assert!(found.stdout.contains("data/sub/file: changed"), "{}", found.stdout);
    assert!(!rig.at("back.incomplete/data/link").exists());
    assert!(fs::metadata(rig.at("data/pipe")).unwrap().file_type().is_fifo());
}

#[test]
fn set_id_programs_of_others_do_not_become_ours() {
    let Some(rig) = Rig::new() else { return };
    let program = rig.file("data/program", b"#!/bin/sh\n");
    if is_root() {
        std::os::unix::fs::chown(&program, Some(65_534), Some(65_534)).unwrap();
    }
    fs::set_permissions(&program, PermissionsExt::from_mode(0o6755)).unwrap();
    rig.run("backup data --to out").ok();
    let back = rig.run("backup --from out --into back").ok();
    assert_eq!(mode(&rig.at("back/data/program")), 0o755);
    assert!(back.stdout.contains("set-user-ID"), "{}", back.stdout);
    let owned = rig.run("backup --from out --into owned --owners");
    if is_root() {
        owned.ok();
        let about = fs::metadata(rig.at("owned/data/program")).unwrap();
        assert_eq!((about.uid(), about.gid(), about.mode() & 0o7777), (65_534, 65_534, 0o6755));
    } else {
        assert_eq!(owned.code, Some(2), "{owned:?}");
    }
}

#[test]
fn a_restore_makes_a_new_folder_and_touches_nothing_else() {
    let Some(rig) = Rig::new() else { return };
    rig.file("data/a", &lines(10_000));
    rig.run("backup data --to out").ok();
    rig.file("into/data/a", b"original");
    fs::create_dir(rig.at("empty")).unwrap();
    symlink("into", rig.at("to-link")).unwrap();
    symlink("nowhere", rig.at("dangling")).unwrap();
    for name in ["into", "empty", "to-link", "dangling", "out", ".", "/"] {
        let refused = rig.run(&format!("backup --from out --into {name}"));
        assert_eq!(refused.code, Some(1), "{name}: {refused:?}");
        assert_eq!(refused.stderr.lines().count(), 1, "{name}: {}", refused.stderr);
    }
    assert_eq!(fs::read(rig.at("into/data/a")).unwrap(), b"original");
    assert_eq!(rig.names(), ["dangling", "data", "empty", "into", "out", "to-link"]);
    // Parent folders are created; leftovers of an earlier attempt are neither used nor deleted.
    rig.file("deep/er/back.incomplete/precious", b"original");
    rig.run("backup --from out --into deep/er/back").ok();
    assert!(fs::read(rig.at("deep/er/back/data/a")).unwrap() == lines(10_000));
    assert_eq!(fs::read(rig.at("deep/er/back.incomplete/precious")).unwrap(), b"original");
    assert!(!rig.at("deep/er/back.incomplete-2").exists());
    assert!(!rig.at("nowhere").exists());
}

fn stored(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn holes_and_names_come_back_as_what_they_were() {
    let Some(rig) = Rig::new() else { return };
    let huge = rig.file("data/huge", b"");
    let file = File::options().write(true).open(&huge).unwrap();
    file.set_len(1 << 40).unwrap();
    file.write_all_at(&lines(5000), (1 << 39) + 77).unwrap();
    fs::hard_link(&huge, rig.at("data/again")).unwrap();
    let hole = rig.file("data/hole", b"");
    File::options().write(true).open(&hole).unwrap().set_len(200 << 20).unwrap();
    if stored(&huge) > 1 << 20 {
        return skip("the temporary folder's file system has no holes");
    }
    let json = rig.run("backup data --to out --json").ok().json();
    assert!(json["totals"]["source_bytes"].as_u64().unwrap() < 1 << 20);
    assert_eq!(json["totals"]["hole_bytes"].as_u64().unwrap() >> 20, (1 << 20) + 199);
    rig.run("backup --from out --into back").ok();
    for name in ["data/huge", "data/hole"] {
        let [old, new] = [rig.at(name), rig.at("back").join(name)];
        assert_eq!(fs::metadata(&new).unwrap().len(), fs::metadata(&old).unwrap().len());
        assert_eq!(stored(&new), stored(&old), "{name}");
    }
    let about = |name: &str| fs::metadata(rig.at("back/data").join(name)).unwrap();
    assert_eq!((about("huge").ino(), about("huge").nlink()), (about("again").ino(), 2));
    let mut bytes = vec![0; 5000];
    let back = File::open(rig.at("back/data/again")).unwrap();
    back.read_exact_at(&mut bytes, (1 << 39) + 77).unwrap();
    assert!(bytes == lines(5000));
}

#[test]
fn a_backup_of_an_older_version_is_refused_with_the_remedy() {
    let Some(rig) = Rig::new() else { return };
    let mut head = b"drumfire backup\n".to_vec();
    head.extend([1, 0, 0, 0, 1, 0, 0, 0]);
    head.resize(8192, 0);
    rig.file("older", &head);
    for args in ["--from older --verify", "--from older --into back"] {
        let refused = rig.run(&format!("backup {args}"));
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("version 1") && refused.stderr.contains("restore it with"));
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    }
    assert_eq!(rig.names(), ["older"]);
}

#[test]
fn a_pipe_in_the_place_of_a_backup_or_a_source_is_refused_at_once() {
    let Some(rig) = Rig::new() else { return };
    let Some(mkfifo) = require("mkfifo") else { return };
    run(Command::new(mkfifo).arg(rig.at("pipe")), LIMIT).ok();
    rig.file("data", b"text");
    for (args, code) in [
        ("backup --from pipe --verify", 1),
        ("backup pipe --to out", 1),
        ("backup data --to pipe", 1),
        ("backup data --to pipe --replace", 1),
    ] {
        let refused = rig.run(args);
        assert_eq!(refused.code, Some(code), "{args}: {refused:?}");
    }
}

/// Mode of a restore's folder during the restore, and afterwards.
#[test]
fn a_restore_is_private_until_it_is_whole() {
    let Some(rig) = Rig::new() else { return };
    rig.file("data/a", &lines(256 * MIB));
    rig.run("backup data --to out --compress none").ok();
    let args = "backup --from out --into back";
    let mut running = Running::start(&mut rig.drumfire.command(rig.folder.path(), args));
    let working = rig.at("back.incomplete");
    let begun = || working.join("data/a").exists() || rig.at("back").exists();
    running.await_that(LIMIT, |_| begun().then_some(()));
    running.signal(Signal::STOP);
    let (shown, is_there) = (working.exists(), rig.at("back").exists());
    let private = shown.then(|| mode(&working));
    running.signal(Signal::INT);
    running.signal(Signal::CONT);
    let ended = running.finish(LIMIT);
    if shown {
        assert_eq!((private, is_there), (Some(0o700), false));
        assert_eq!(ended.code, Some(130), "{ended:?}");
        assert!(ended.stderr.contains("back.incomplete"), "{}", ended.stderr);
    }
    let into = if is_there { "back" } else { "again" };
    if !is_there {
        rig.run("backup --from out --into again").ok();
    }
    assert_ne!(mode(&rig.at(into)), 0o700);
    assert_eq!(fs::metadata(rig.at(into).join("data/a")).unwrap().len(), 256 << 20);
}
