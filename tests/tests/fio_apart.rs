//! Jobs and clones of fio with separate start times or parts, compared with the installed fio.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::fio::{ours, with};
use drumfire_tests::{Drumfire, Folder, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// Writes of each job.
fn writes(document: &Value) -> Vec<u64> {
    let jobs = document["jobs"].as_array().unwrap().iter();
    jobs.map(|job| job["write"]["total_ios"].as_u64().unwrap()).collect()
}

/// I/Os of a job's ramp count towards its size, but not in its results: 400 writes, 200 of them
/// after the ramp of a second job that starts later.
#[test]
fn jobs_that_begin_later_have_a_ramp_of_their_own() {
    let Some(drumfire) = Drumfire::find() else { return };
    let text = "[global]\nioengine=psync\nrw=write\nbs=4k\nsize=1600k\nrate_iops=400\n[first]\n\
                filename=a.img\nramp_time=500ms\n[later]\nfilename=b.img\nstartdelay=500ms\n\
                ramp_time=500ms\n[none]\nfilename=c.img\n";
    let folder = with(text);
    let said = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
    assert_eq!(said.matches("the first 0.5 s not measured").count(), 2, "{said}");
    let near = |ios: &[u64]| {
        let [first, later, none] = ios else { panic!("{ios:?}") };
        // A stall moves some I/Os from the ramp into the measured time, or back.
        for ios in [first, later] {
            assert!((100..=300).contains(ios), "{ios}");
        }
        assert_eq!(*none, 400);
    };
    near(&writes(&ours(&drumfire, folder.path())));
    let toml = drumfire.run(folder.path(), "explain job.fio --as toml", LIMIT).ok().stdout;
    assert_eq!(toml.matches("ramp_seconds = 0.5").count(), 2, "{toml}");
    let again = drumfire.run(folder.path(), "explain job.fio --as fio", LIMIT).ok().stdout;
    assert_eq!(again.matches("ramp_time=500000us").count(), 2, "{again}");
    let Some(fio) = require("fio") else { return };
    let folder = with(text);
    let mut command = Command::new(fio);
    command.args(["job.fio", "--output-format=json"]).current_dir(folder.path());
    near(&writes(&run(&mut command, LIMIT).ok().json()));
}

/// Offsets of a trace, in the order of its I/Os.
fn visited(folder: &Path, trace: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(folder.join(trace)).unwrap();
    let place = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "read")?;
        words.get(at + 1)?.parse().ok()
    };
    text.lines().filter_map(place).collect()
}

#[test]
fn jobs_of_one_file_visit_all_of_their_parts() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let text = "[global]\nfilename=x.img\nsize=1m\nbs=4k\n[a]\nrw=read\nwrite_iolog=a\n[b]\n\
                rw=randread\nwrite_iolog=b\n[c]\noffset=1m\nrw=read\nwrite_iolog=c\n";
    let (we, they) = (with(text), with(text));
    for folder in [&we, &they] {
        folder.file("x.img", &vec![1; 2 << 20]);
    }
    drumfire.run(we.path(), "run job.fio", LIMIT).ok();
    run(Command::new(fio).arg("job.fio").current_dir(they.path()), LIMIT).ok();
    for trace in ["a", "b", "c"] {
        let (mut ours, mut theirs) = (visited(we.path(), trace), visited(they.path(), trace));
        if trace == "b" {
            ours.sort_unstable();
            theirs.sort_unstable();
        }
        assert_eq!((ours.len(), &ours), (256, &theirs), "{trace}");
    }
}

#[test]
fn clones_verify_what_they_write() {
    let Some(drumfire) = Drumfire::find() else { return };
    for words in ["offset_increment=1m", "rw=randrw\nverify_backlog=8", "verify=meta"] {
        let text = "[a]\nfilename=x.img\nsize=1m\nbs=4k\nrw=randwrite\nverify=crc32c\nnumjobs=3\n";
        let folder = with(&format!("{text}group_reporting\n{words}\n"));
        let done = drumfire.run(folder.path(), "run job.fio --out out", LIMIT).ok();
        // Each writes 256 blocks and reads them again.
        assert!(words.starts_with("rw") || done.stdout.contains("1,536 I/Os"), "{done:?}");
    }
}

#[test]
fn what_null_forgets_is_no_mismatch() {
    let Some(drumfire) = Drumfire::find() else { return };
    for rw in ["write", "randrw", "read"] {
        let folder = with(&format!("[a]\nioengine=null\nsize=1m\nverify=crc32c\nrw={rw}\n"));
        let said = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
        assert!(said.contains("ioengine=null stores nothing"), "{said}");
        drumfire.run(folder.path(), "run job.fio", LIMIT).ok();
    }
}

/// Files that are only created are as compressible as those of fio, and have the same pattern.
#[test]
fn files_that_are_only_made_hold_what_their_buffers_say() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let text = "[global]\nsize=1m\ncreate_only=1\nrw=read\nbs=64k\nzero_buffers=0\n[a]\n\
                filename=a.img\nbuffer_compress_percentage=75\nbuffer_compress_chunk=4k\n[b]\n\
                filename=b.img\nbuffer_pattern=0xab12\n[c]\nfilename=c.img\n";
    let (we, they) = (with(text), with(text));
    drumfire.run(we.path(), "run job.fio", LIMIT).ok();
    run(Command::new(fio).arg("job.fio").current_dir(they.path()), LIMIT).ok();
    let read = |folder: &Folder, name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert_eq!(read(&we, "b.img"), read(&they, "b.img"));
    let zeroes = |bytes: Vec<u8>| bytes.iter().filter(|byte| **byte == 0).count();
    for (name, percent) in [("a.img", 75), ("c.img", 0)] {
        for folder in [&we, &they] {
            let found = zeroes(read(folder, name)) * 100 / (1 << 20);
            assert!((percent..percent + 2).contains(&found), "{name}: {found} %");
        }
    }
}
