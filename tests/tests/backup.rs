//! `drumfire backup`: data saved from a file and from a remote volume can be restored, and failures
//! are reported with their exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};

const LIMIT: Duration = Duration::from_secs(300);

/// Files of a small database, a link and an empty folder.
fn database(folder: &Folder) {
    fs::create_dir_all(folder.path().join("data/base")).unwrap();
    fs::create_dir(folder.path().join("data/empty")).unwrap();
    folder.file("data/PG_VERSION", b"15\n");
    let pages: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 977) as u8).collect();
    folder.file("data/base/1", &pages);
    folder.file("data/base/2", &pages[..8193]);
    std::os::unix::fs::symlink("base/1", folder.path().join("data/link")).unwrap();
}

fn is_back(folder: &Folder, into: &str) {
    for name in ["PG_VERSION", "base/1", "base/2", "link"] {
        let read = |root: &str| fs::read(folder.path().join(root).join("data").join(name)).unwrap();
        assert!(read("") == read(into), "{name}");
    }
    assert!(folder.path().join(into).join("data/empty").is_dir());
}

#[test]
fn a_folder_comes_back_from_a_file() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    database(&folder);
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let kept = run("backup data --to data/kept --verify").ok();
    let tenths: Vec<&str> =
        kept.stderr.lines().filter(|line| line.ends_with("percent processed.")).collect();
    assert_eq!(tenths.len(), 10, "{}", kept.stderr);
    assert!(kept.stdout.contains("370 pages in "), "{}", kept.stdout);
    assert!(kept.stdout.contains("MiB/s") && kept.stdout.contains("limit"), "{}", kept.stdout);
    assert!(kept.stdout.contains("all data intact"), "{}", kept.stdout);
    run("backup --from data/kept --into again").ok();
    is_back(&folder, "again");
    // The target is in its source's folder, and does not contain itself.
    assert!(!folder.path().join("again/data/kept").exists());
    let refused = run("backup data --to data/kept");
    assert_eq!((refused.code, refused.stderr.contains("--replace")), (Some(1), true));
    let json =
        run("backup data --to data/kept --replace --readers 1 --buffers 1 --json").ok().json();
    assert_eq!(json["totals"]["source_bytes"], 3 + 3_000_000 + 8193);
    assert_eq!((&json["totals"]["pages"], &json["origin"]), (&370.into(), &"measured".into()));
    let ratio = json["totals"]["ratio"].as_f64().unwrap();
    assert!(ratio > 20.0, "{ratio}");
}

#[test]
fn a_folder_comes_back_from_an_array_of_targets() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    database(&folder);
    let served = drumfire.serve(&["a=ram:4m", "b=ram:4m"]);
    let array = format!("mirror({},{})", served.uri("a"), served.nvme_uri("b"));
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    // 1 MiB in an I/O, more than any buffer of a pool has.
    run(&format!("backup data --to {array} --destroy --compress none --verify")).ok();
    for side in [served.uri("b"), served.nvme_uri("a")] {
        let into = side.rsplit(':').next().unwrap().replace('/', "-");
        run(&format!("backup --from {side} --into {into}")).ok();
        is_back(&folder, &into);
    }
}

#[test]
fn damage_a_small_target_and_what_cannot_be_read_are_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    database(&folder);
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    run("backup data --to kept").ok();
    let path = folder.path().join("kept");
    let mut bytes = fs::read(&path).unwrap();
    // In the head of the first frame.
    bytes[4096 + 20] ^= 1;
    fs::write(&path, bytes).unwrap();
    let found = run("backup --from kept --verify");
    assert_eq!(found.code, Some(5), "{}", found.stdout);
    assert!(found.stdout.contains("data/"), "{}", found.stdout);
    let full = run("backup data --to ram:64k --compress none");
    assert_eq!((full.code, full.stderr.contains("is full")), (Some(1), true), "{}", full.stderr);
    for (args, code) in [
        ("backup no-such --to null", 2),
        ("backup data --to null --verify", 2),
        ("backup data --to null --transfer 100k", 2),
        ("backup data", 2),
        ("backup --from data/PG_VERSION --verify", 1),
        ("backup --from no-such --verify", 1),
    ] {
        let run = run(args);
        assert_eq!(run.code, Some(code), "{args}: {}", run.stderr);
        assert_eq!(run.stderr.lines().filter(|l| l.starts_with("drumfire: ")).count().max(1), 1);
    }
    fs::set_permissions(folder.path().join("data/base/2"), PermissionsExt::from_mode(0o000))
        .unwrap();
    let partial = run("backup data --to null");
    // A user who may read everything, such as root, finds no unreadable file.
    let may = fs::read(folder.path().join("data/base/2")).is_ok();
    assert_eq!(partial.code, Some(if may { 0 } else { 6 }), "{}", partial.stdout);
}
