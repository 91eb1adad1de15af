//! Preparations before a job of fio, compared with the installed fio: files that are read into the
//! page cache, or only created.

use std::path::Path;
use std::time::Duration;

use drumfire_tests::fio::{theirs, with};
use drumfire_tests::{Drumfire, require};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

fn ios(document: &Value, direction: &str) -> u64 {
    let jobs = document["jobs"].as_array().unwrap();
    jobs.iter().map(|job| job[direction]["total_ios"].as_u64().unwrap()).sum()
}

#[test]
fn files_are_read_into_the_page_cache_before_the_run() {
    let Some(drumfire) = Drumfire::find() else { return };
    let text = "[global]\nsize=4m\noffset=1m\nfilename=x.img\npre_read=1\n[r]\nrw=randread\n\
                [more]\nrw=read\nbs=64k\n";
    let folder = with(text);
    folder.file("x.img", &vec![1; 8 << 20]);
    let said = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
    assert_eq!(said.matches("read into the page cache first").count(), 2, "{said}");
    let done = drumfire.run(folder.path(), "run job.fio --out out", LIMIT).ok();
    // Both jobs use the same part.
    let note = "4m of its files were read into the page cache";
    assert!(done.stdout.contains(note), "{}", done.stdout);
    assert!(done.stderr.contains("reads files into the page cache first"), "{}", done.stderr);
    let ours = drumfire.run(folder.path(), "report out --as fio", LIMIT).ok().json();
    assert_eq!(ios(&ours, "read"), 1024 + 64);
    let Some(fio) = require("fio") else { return };
    assert_eq!(ios(&theirs(&fio, folder.path()), "read"), 1024 + 64);
    let toml = drumfire.run(folder.path(), "explain job.fio --as toml", LIMIT).ok().stdout;
    assert_eq!(toml.matches("[steps.groups.cache]\nread = true").count(), 2, "{toml}");
    folder.file("job.toml", toml.as_bytes());
    let again = drumfire.run(folder.path(), "run job.toml", LIMIT).ok();
    assert!(again.stdout.contains(note), "{}", again.stdout);
}

#[test]
fn what_goes_around_the_page_cache_is_not_read_before() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with("[r]\nsize=1m\nfilename=x.img\npre_read=1\ndirect=1\nrw=read\nbs=64k\n");
    let said = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
    assert!(said.contains("ignored job.fio:4: `pre_read=1`: I/Os of the job bypass"), "{said}");
}

/// Files of a folder with their sizes, without the programs' own files.
fn files(folder: &Path) -> Vec<(String, u64)> {
    let all = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let of = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
    };
    let mut all: Vec<_> = all.map(of).filter(|(name, _)| name.ends_with(".img")).collect();
    all.sort();
    all
}

#[test]
fn files_are_only_made_where_nothing_else_is_asked() {
    let Some(drumfire) = Drumfire::find() else { return };
    let text = "[global]\nfilename_format=$jobname.$jobnum.$filenum.img\nsize=256k\n[a]\n\
                rw=randrw\ncreate_only=1\nnumjobs=2\nnrfiles=2\n[b]\nrw=write\ncreate_only=1\n[c]\n\
                rw=write\nbs=64k\n";
    let ours = with(text);
    let said = drumfire.run(ours.path(), "explain job.fio", LIMIT).ok().stdout;
    assert!(said.contains("before the run, a.1.1.img is written, 128k"), "{said}");
    assert!(said.contains("before the run, b.0.0.img is created without data, 256k"), "{said}");
    drumfire.run(ours.path(), "run job.fio --out out", LIMIT).ok();
    let result = drumfire.run(ours.path(), "report out --as fio", LIMIT).ok().json();
    assert_eq!(ios(&result, "write"), 4);
    assert!(std::fs::read(ours.path().join("a.1.1.img")).unwrap().iter().any(|byte| *byte != 0));
    let Some(fio) = require("fio") else { return };
    let they = with(text);
    assert_eq!(ios(&theirs(&fio, they.path()), "write"), 4);
    assert_eq!(files(ours.path()), files(they.path()));
}

#[test]
fn a_file_that_only_makes_files_ends_well() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with("[global]\ncreate_only=1\nsize=64k\n[a]\nfilename=deep/x.img\nrw=read\n");
    for said in ["laying out deep/x.img", "all files exist"] {
        let done = drumfire.run(folder.path(), "run job.fio", LIMIT);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
    assert_eq!(files(&folder.path().join("deep")), [("x.img".to_owned(), 64 << 10)]);
    let toml = drumfire.run(folder.path(), "explain job.fio --as toml", LIMIT).ok().stdout;
    folder.file("job.toml", toml.as_bytes());
    // A file with content is never rewritten, whereas fio does so.
    folder.file("deep/x.img", &[1; 4096]);
    for file in ["job.fio", "job.toml"] {
        let refused = drumfire.run(folder.path(), &format!("run {file}"), LIMIT);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("has 4k, and the job needs 64k"), "{toml}");
    }
    std::fs::remove_file(folder.path().join("deep/x.img")).unwrap();
    drumfire.run(folder.path(), "run job.toml", LIMIT).ok();
    assert_eq!(files(&folder.path().join("deep")), [("x.img".to_owned(), 64 << 10)]);
    let swept = drumfire.run(folder.path(), "sweep job.toml --axis outstanding=1,2", LIMIT);
    assert!(swept.stderr.contains("only run lays out files"), "{}", swept.stderr);
}
