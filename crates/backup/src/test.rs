//! Backups and restores from end to end: restored data, and reports about the rest.

mod forged;
mod partial;
mod round;
mod target;

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volume::{Purpose, Uri, Volume};

use crate::{
    BackupError, Checked, Codec, Destination, Entry, Options, Outcome, Skip, Target, list, restore,
    run,
};

/// A temporary folder, removed on drop.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        let name = format!("drumfire-backup-{:x}", os::random());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Names in this folder.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const OPTIONS: Options = Options {
    readers: 3,
    compressors: 2,
    writers: 2,
    buffers: 4,
    transfer_bytes: 64 << 10,
    codec: Codec::Lz4,
    direct: false,
};

/// A small database: files of many lengths, some compressible, an empty folder and a link.
fn database(scratch: &Scratch) -> PathBuf {
    let words = |len: usize| -> Vec<u8> {
        (0..len).map(|at| if at % 3 == 0 { (at / 700) as u8 } else { 7 }).collect()
    };
    scratch.file("data/PG_VERSION", b"15\n");
    scratch.file("data/base/1", &words(1_000_000));
    scratch.file("data/base/2", &noise(150_000));
    scratch.file("data/base/3", b"");
    scratch.file("data/base/4", &words(65_536));
    fs::create_dir(scratch.at("data/pg_notify")).unwrap();
    std::os::unix::fs::symlink("../x", scratch.at("data/link")).unwrap();
    scratch.at("data")
}

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1;
    (0..len).map(|_| block::splitmix(&mut state) as u8).collect()
}

fn listed(path: &Path) -> Vec<Entry> {
    list(&[path.to_owned()], &Skip::default(), &|| false).unwrap()
}

fn try_keep(entries: &[Entry], target: &Target, options: Options) -> Result<Outcome, BackupError> {
    run(entries, target, options, &|_| (), &|| false)
}

fn keep(entries: &[Entry], target: &Target, options: Options) -> Outcome {
    try_keep(entries, target, options).unwrap()
}

fn verify(target: &Target) -> Result<Checked, BackupError> {
    restore(target, None, &|_| (), &|| false)
}

fn restored(target: &Target, folder: &Path) -> Result<Checked, BackupError> {
    restore(target, Some(Destination { folder, owners: false }), &|_| (), &|| false)
}

fn volume(uri: &str) -> Target {
    Target::volume(uri, open_volume(uri))
}

fn open_volume(uri: &str) -> Arc<dyn Volume> {
    volume::open(&uri.parse::<Uri>().unwrap(), Purpose::Destroy).unwrap()
}

fn only(range: Range<u64>) -> Vec<Range<u64>> {
    vec![range]
}

fn same(one: &Path, two: &Path) {
    for name in ["PG_VERSION", "base/1", "base/2", "base/3", "base/4"] {
        assert!(fs::read(one.join(name)).unwrap() == fs::read(two.join(name)).unwrap(), "{name}");
    }
    assert!(two.join("pg_notify").is_dir());
    assert_eq!(fs::read_link(two.join("link")).unwrap(), Path::new("../x"));
}
