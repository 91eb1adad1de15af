//! What is done before a job of fio's begins, beside the real fio where it is installed: files that
//! are read into the page cache.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

fn with(text: &str) -> Folder {
    let folder = Folder::new();
    folder.file("job.fio", text.as_bytes());
    folder
}

fn theirs(fio: &Path, folder: &Path) -> Value {
    let mut command = Command::new(fio);
    command.args(["job.fio", "--output-format=json"]).current_dir(folder);
    run(&mut command, LIMIT).ok().json()
}

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
    assert_eq!(said.matches("read into the page cache before").count(), 2, "{said}");
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
    assert!(said.contains("ignored job.fio:4: `pre_read=1`: its I/Os go around"), "{said}");
}
