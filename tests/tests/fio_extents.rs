//! Sizes and offsets in percent, compared with the installed fio.

use std::path::Path;
use std::time::Duration;

use drumfire_tests::fio::theirs;
use drumfire_tests::{Drumfire, Folder, require};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// A folder with a job and a file of 8 MiB.
fn with(text: &str) -> Folder {
    let folder = Folder::new();
    folder.file("job.fio", text.as_bytes());
    folder.file("there.img", &vec![0; 8 << 20]);
    folder
}

fn bytes(document: &Value, direction: &str) -> u64 {
    let jobs = document["jobs"].as_array().unwrap();
    jobs.iter().map(|job| job[direction]["io_bytes"].as_u64().unwrap()).sum()
}

/// First non-zero block of 4 KiB of a file, the number of such blocks, and the file's size.
fn written(path: &Path) -> (Option<usize>, usize, usize) {
    let data = std::fs::read(path).unwrap();
    let full = || data.chunks(4096).map(|block| block.iter().any(|byte| *byte != 0));
    (full().position(|full| full), full().filter(|full| *full).count(), data.len())
}

#[test]
fn shares_of_files_are_those_of_fio() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for words in [
        "filename=there.img\nsize=33%",
        "filename=there.img\nsize=33%\noffset=10%\nbs=64k",
        "filename=there.img\nsize=50%\noffset=6m",
        "filename=there.img\noffset=10%\noffset_align=1m\nbs=16k",
        "filename=there.img\nsize=50%\nio_size=50%\noffset=1m",
        "filename=there.img\nsize=50%\nfilesize=2m",
        "filename=new.img\nfilesize=4m\nsize=50%\noffset=1m",
        "filename=new.img\nsize=1m\noffset=10%",
    ] {
        let text = format!("[a]\nrw=write\nend_fsync=1\n{words}\n");
        let (we, they) = (with(&text), with(&text));
        drumfire.run(we.path(), "run job.fio --out out --destroy", LIMIT).ok();
        let ours = drumfire.run(we.path(), "report out --as fio", LIMIT).ok().json();
        let theirs = theirs(&fio, they.path());
        assert_eq!(bytes(&ours, "write"), bytes(&theirs, "write"), "{words}");
        let name = if words.contains("new") { "new.img" } else { "there.img" };
        let [ours, theirs] = [&we, &they].map(|folder| written(&folder.path().join(name)));
        assert_eq!(ours, theirs, "{words}");
    }
}

#[test]
fn a_part_without_a_whole_io_is_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with("[a]\nfilename=there.img\nrw=read\nbs=1m\nsize=1%\n");
    let refused = drumfire.run(folder.path(), "run job.fio", LIMIT);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("the size is smaller than one I/O"), "{}", refused.stderr);
}

#[test]
fn a_job_may_begin_at_the_end_of_its_file() {
    let Some(drumfire) = Drumfire::find() else { return };
    for words in [
        "filename=there.img\nsize=1m",
        "filename=there.img\nfilesize=10m\nrw=randwrite",
        "filename=new.img\nsize=1m\nnumjobs=2",
    ] {
        let text = format!("[a]\nrw=write\nend_fsync=1\nfile_append=1\n{words}\n");
        let name = if words.contains("new") { "new.img" } else { "there.img" };
        let we = with(&text);
        let said = drumfire.run(we.path(), "explain job.fio", LIMIT).ok().stdout;
        let grows = if words.contains("new") { "created without data, 2m" } else { "extended to" };
        assert!(said.contains(&format!("before the run, {name} is {grows}")), "{said}");
        if !words.contains("new") {
            let refused = drumfire.run(we.path(), "run job.fio", LIMIT);
            assert_eq!(refused.code, Some(2), "{}", refused.stderr);
            assert_eq!(written(&we.path().join(name)).2, 8 << 20, "{}", refused.stderr);
        }
        drumfire.run(we.path(), "run job.fio --out out --destroy", LIMIT).ok();
        let ours = drumfire.run(we.path(), "report out --as fio", LIMIT).ok().json();
        // The earlier content is still there: zeroes.
        let (first, blocks, length) = written(&we.path().join(name));
        assert_eq!(first, Some(if words.contains("new") { 0 } else { 2048 }), "{words}");
        let Some(fio) = require("fio") else { continue };
        let they = with(&text);
        let theirs = theirs(&fio, they.path());
        assert_eq!(bytes(&ours, "write"), bytes(&theirs, "write"), "{words}");
        assert_eq!((first, blocks, length), written(&they.path().join(name)), "{words}");
    }
}
