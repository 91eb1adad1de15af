//! Common features of users' job files, compared with the installed fio: file name formats,
//! memory-mapped engines, rates of both directions.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::fio::{ours, theirs, with};
use drumfire_tests::{Drumfire, require};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

fn bytes(document: &Value, direction: &str) -> u64 {
    let jobs = document["jobs"].as_array().unwrap();
    jobs.iter().map(|job| job[direction]["io_bytes"].as_u64().unwrap()).sum()
}

/// Files of a folder and its subfolders, with their sizes.
fn files(folder: &Path, found: &mut BTreeMap<String, u64>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let kind = entry.metadata().unwrap();
        match kind.is_dir() {
            true => files(&entry.path(), found),
            false => drop(found.insert(entry.path().display().to_string(), kind.len())),
        }
    }
}

/// Files that a job leaves in `data`, by their relative names, with sizes.
fn left(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    files(&folder.join("data"), &mut found);
    let below = format!("{}/", folder.join("data").display());
    found.into_iter().map(|(name, bytes)| (name.replacen(&below, "", 1), bytes)).collect()
}

#[test]
fn files_are_called_as_fio_calls_them() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for words in [
        "filename_format=$jobnum/work.$filenum\nnrfiles=2",
        "filename_format=deep/$jobname/$JOBNUM.bin",
        "filename_format=all",
        "nrfiles=3",
    ] {
        let text = format!(
            "[global]\ndirectory=data\nsize=192k\nbs=16k\nrw=write\nnumjobs=2\n{words}\n[some]\n"
        );
        let (we, they) = (with(&text), with(&text));
        for folder in [&we, &they] {
            std::fs::create_dir(folder.path().join("data")).unwrap();
        }
        let (ours, theirs) = (ours(&drumfire, we.path()), theirs(&fio, they.path()));
        assert_eq!(left(we.path()), left(they.path()), "{words}");
        // If clones share a file, only the first one does I/O in fio.
        let first = if words.ends_with("all") { 2 } else { 1 };
        assert_eq!(bytes(&ours, "write"), first * bytes(&theirs, "write"), "{words}");
    }
}

#[test]
fn pages_of_a_map_are_read_and_written_by_calls() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for engine in ["mmap", "splice"] {
        let text = format!(
            "[global]\nioengine={engine}\nfilename=x.img\nsize=1m\nbs=4k\n[w]\nrw=randwrite\n\
             [r]\nstonewall\nrw=read\n"
        );
        let (we, they) = (with(&text), with(&text));
        let (ours, theirs) = (ours(&drumfire, we.path()), theirs(&fio, they.path()));
        for direction in ["read", "write"] {
            assert_eq!(bytes(&ours, direction), bytes(&theirs, direction), "{engine} {direction}");
        }
    }
}

#[test]
fn rates_of_both_directions_decide_over_rwmixread() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let text = "[a]\nfilename=x.img\nsize=4m\nbs=4k\nrw=randrw\nrwmixread=90\nrate_iops=150,50\n\
                number_ios=400\n";
    let folder = with(text);
    let image = vec![1; 4 << 20];
    std::fs::write(folder.path().join("x.img"), image).unwrap();
    let share = |document: &Value| {
        let (read, write) = (bytes(document, "read") as f64, bytes(document, "write") as f64);
        assert!(read + write > 0.0, "{document}");
        read / (read + write)
    };
    let they = share(&theirs(&fio, folder.path()));
    let done = drumfire.run(folder.path(), "run job.fio --out out --destroy", LIMIT).ok();
    let we = share(&drumfire.run(folder.path(), "report out --as fio", LIMIT).ok().json());
    // A host without CPU time for either slows both down, but not to ninety.
    assert!((0.65..0.85).contains(&we), "{we} {they} {}", done.stdout);
    assert!((0.6..0.9).contains(&they), "{they}");
}
