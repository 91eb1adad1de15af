//! Traces: those written by the installed fio, and one of our own in every format.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// Two files, every action, 0.4 s. The trimmed range was written long before.
const TRACE: &str = "fio version 3 iolog\n\
    12 a.img add\n12 b.img add\n40 a.img open\n41 b.img open\n\
    100 a.img write 0 65536\n200 b.img write 61440 4096\n300 b.img sync 0 0\n\
    200400 a.img trim 4096 8192\n200500 b.img datasync 0 0\n200600 a.img read 1044480 4096\n\
    400100 b.img read 512 1024\n400200 a.img close\n400200 b.img close\n";

/// A folder with the trace, its files and a job.
fn with(job: &str) -> Folder {
    let folder = Folder::new();
    folder.file("t.log", TRACE.as_bytes());
    folder.file("a.img", &vec![7; 1 << 20]);
    folder.file("b.img", &vec![7; 1 << 16]);
    folder.file("job.fio", job.as_bytes());
    folder
}

/// Reads, writes, trims and syncs of the n-th job, with the bytes of the first two.
fn counts(document: &Value, job: usize) -> [u64; 5] {
    let job = &document["jobs"][job];
    let of = |direction: &str, key: &str| job[direction][key].as_u64().unwrap();
    let others = of("trim", "total_ios") + of("sync", "total_ios");
    let [reads, writes] = ["read", "write"].map(|way| [of(way, "total_ios"), of(way, "io_bytes")]);
    [reads[0], reads[1], writes[0], writes[1], others]
}

fn ours(drumfire: &Drumfire, folder: &Path, file: &str, out: &str) -> Value {
    drumfire.run(folder, &format!("run {file} --destroy --out {out}"), LIMIT).ok();
    drumfire.run(folder, &format!("report {out} --as fio"), LIMIT).ok().json()
}

fn theirs(fio: &Path, folder: &Path, file: &str) -> Value {
    let mut command = Command::new(fio);
    command.args([file, "--output-format=json"]).current_dir(folder);
    run(&mut command, LIMIT).ok().json()
}

#[test]
fn what_fio_writes_is_what_we_replay() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let folder = with(
        "[w]\nfilename=a.img\nsize=1m\nrw=randrw\nbssplit=4k/50:16k/50\nfsync=8\n\
         ioengine=psync\nnumber_ios=60\nwrite_iolog=fio.log\n",
    );
    let written = theirs(&fio, folder.path(), "job.fio");
    let expected = counts(&written, 0);
    assert!(expected[0] + expected[2] > 50, "{written}");
    for words in ["", "replay_no_stall=1\nioengine=io_uring\niodepth=4\ndirect=1\n"] {
        folder.file("again.fio", format!("[r]\nread_iolog=fio.log\n{words}").as_bytes());
        let out = if words.is_empty() { "timed" } else { "fast" };
        assert_eq!(counts(&ours(&drumfire, folder.path(), "again.fio", out), 0), expected);
        let theirs = counts(&theirs(&fio, folder.path(), "again.fio"), 0);
        // With a depth fio omits the bytes of I/Os in flight at the end.
        assert_eq!([theirs[0], theirs[2]], [expected[0], expected[2]]);
    }
}

#[test]
fn a_trace_is_replayed_at_its_times_on_the_files_that_it_names() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with("[r]\nread_iolog=t.log\ndirect=1\nioengine=io_uring\niodepth=4\nnumjobs=2\n");
    let explained = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
    let said = "replays t.log, 2 reads, 2 writes, 1 trim, 2 flushes, at the trace's times, 0.4 s";
    assert!(explained.contains(said), "{explained}");
    assert!(explained.contains("2 workers on file:a.img?direct=1, file:b.img"), "{explained}");
    // Each clone replays the whole trace. Trims and flushes are counted as one.
    let document = ours(&drumfire, folder.path(), "job.fio", "out");
    for clone in 0..2 {
        assert_eq!(counts(&document, clone), [2, 5120, 2, 69632, 3], "{document}");
        let ms = document["jobs"][clone]["job_runtime"].as_u64().unwrap();
        assert!(ms >= 400, "{ms}");
    }
    let [a, b] = ["a.img", "b.img"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
    assert!(a[..4096].iter().any(|byte| *byte != 7) && a[65536..].iter().all(|byte| *byte == 7));
    assert!(b[61440..].iter().any(|byte| *byte != 7) && b[..61440].iter().all(|byte| *byte == 7));
    assert!(a[4096..12288].iter().all(|byte| *byte == 0), "trimmed");
    // In our own format and in fio's, the job is the same.
    let toml = drumfire.run(folder.path(), "explain job.fio --as toml", LIMIT).ok().stdout;
    folder.file("job.toml", toml.as_bytes());
    assert_eq!(counts(&ours(&drumfire, folder.path(), "job.toml", "own"), 1)[4], 3);
    let fio = drumfire.run(folder.path(), "explain job.toml --as fio", LIMIT).ok().stdout;
    assert!(fio.contains("read_iolog=t.log") && !fio.contains("filename"), "{fio}");
    // A result is saved with its job, which can be run again.
    drumfire.run(folder.path(), "run own/job.toml --destroy --out again", LIMIT).ok();
}

#[test]
fn a_job_of_ours_replays_all_files_on_one_volume() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with("");
    let job = "[[steps]]\nseconds = 3600\n[[steps.groups]]\nvolumes = ['ram:1m']\n\
        workload.outstanding = 2\n\
        workload.access.trace = { file = 't.log', stalls = false, skip = ['trim', 'sync'] }\n";
    folder.file("job.toml", job.as_bytes());
    let document = ours(&drumfire, folder.path(), "job.toml", "out");
    // A datasync does not count as a sync, as with fio.
    assert_eq!(counts(&document, 0), [2, 5120, 2, 69632, 1], "{document}");
    assert!(document["jobs"][0]["job_runtime"].as_u64().unwrap() < 3_600_000, "{document}");
}

#[test]
fn what_does_not_fit_is_refused_with_file_and_line() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with("[r]\nread_iolog=t.log\nreplay_redirect=b.img\ndirect=1\n");
    let refused = |file: &str| {
        let ran = drumfire.run(folder.path(), &format!("run {file} --destroy --out no"), LIMIT);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        ran.stderr
    };
    let far = refused("job.fio");
    assert!(far.contains("t.log:11: 4096 bytes at 1044480 of a.img end past the volume"), "{far}");
    let job = "[[steps]]\nseconds = 9\n[[steps.groups]]\nvolumes = ['ram:1m', 'ram:64k']\n\
        workload.access.trace.file = 'x.log'\n";
    folder.file("job.toml", job.as_bytes());
    let missing = refused("job.toml");
    assert!(missing.contains("cannot read the trace x.log: No such file"), "{missing}");
    folder.file("x.log", TRACE.replace("512 1024", "512 1000").as_bytes());
    let odd = refused("job.toml");
    assert!(odd.contains("x.log:12: 1000 bytes at 512 of b.img are not whole blocks"), "{odd}");
    folder.file("x.log", b"\x07tae\0\0\0\0");
    assert!(refused("job.toml").contains("binary blktrace files are not supported"));
    let simulated = drumfire.run(folder.path(), "simulate x25-m job.toml --out no", LIMIT);
    assert!(simulated.code != Some(0), "{simulated:?}");
}
