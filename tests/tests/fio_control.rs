//! Runtime control of fio's jobs, compared with the installed fio: zones, think times, target rates
//! and latencies, depth searches, and flows.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::fio::with;
use drumfire_tests::{Drumfire, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// The result of a job in fio's form, and the exit code.
fn ours(drumfire: &Drumfire, folder: &Path) -> (Value, Option<i32>) {
    let done = drumfire.run(folder, "run job.fio --out out", LIMIT);
    let code = done.code;
    (drumfire.run(folder, "report out --as fio", LIMIT).ok().json(), code)
}

/// Runs the job file with fio.
fn theirs(fio: &Path, folder: &Path) -> Value {
    let mut command = Command::new(fio);
    command.args(["job.fio", "--output-format=json"]).current_dir(folder);
    let text = run(&mut command, LIMIT).stdout;
    let begin = text.find('{').expect("fio prints a document");
    serde_json::from_str(&text[begin..]).expect("fio's document is JSON")
}

fn ios(document: &Value, job: usize, direction: &str) -> u64 {
    document["jobs"][job][direction]["total_ios"].as_u64().unwrap()
}

/// Blocks of 4 KiB of a file that are not all zeroes.
fn written(path: &Path) -> Vec<usize> {
    let data = std::fs::read(path).unwrap();
    let blocks = data.chunks(4096).enumerate();
    blocks.filter(|(_, block)| block.iter().any(|byte| *byte != 0)).map(|(n, _)| n).collect()
}

#[test]
fn zones_are_written_where_fio_writes_them() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for words in [
        "rw=write\nzonesize=16k\nzonerange=32k\nzoneskip=64k\nio_size=176k",
        "rw=write\nzonesize=12k\nzonerange=8k\nzoneskip=8k\nio_size=300k",
        "rw=randwrite\nzonesize=32k\nzonerange=32k\nzoneskip=96k\nio_size=256k",
        "rw=write\nzonesize=4k\nzoneskip=12k\nio_size=200k",
    ] {
        let text = format!(
            "[a]\nfilename=x.img\nsize=1m\nbs=4k\nzonemode=strided\nend_fsync=1\n{words}\n"
        );
        let folder = with(&text);
        let image = folder.path().join("x.img");
        let zeroes = || std::fs::write(&image, vec![0; 1 << 20]).unwrap();
        zeroes();
        drumfire.run(folder.path(), "run job.fio --destroy --out out", LIMIT).ok();
        let found = written(&image);
        zeroes();
        theirs(&fio, folder.path());
        assert_eq!(found, written(&image), "{words}");
    }
}

#[test]
fn a_job_that_is_too_slow_or_late_ends_with_an_error_and_a_result() {
    let Some(drumfire) = Drumfire::find() else { return };
    let slow = "[a]\nioengine=null\nsize=1g\ntime_based\nruntime=60\nrw=randread\nrate_iops=900\n\
        rate_iops_min=800\nthinktime=100ms\nthinktime_blocks=20\nrate_cycle=300\n\
        [b]\nioengine=null\nsize=1g\ntime_based\nruntime=5\nrate_iops=100\n";
    let folder = with(slow);
    let (document, code) = ours(&drumfire, folder.path());
    assert_eq!(code, Some(6));
    assert_eq!(
        (&document["jobs"][0]["error"], &document["jobs"][1]["error"]),
        (&5.into(), &0.into())
    );
    // The other job continues to its end.
    assert!(document["jobs"][1]["read"]["runtime"].as_u64().unwrap() >= 4990, "{document}");
    assert!(ios(&document, 1, "read") > 0);
    assert!(ios(&document, 0, "read") > 0);
    let table = drumfire.run(folder.path(), "report out", LIMIT).ok().stdout;
    assert!(table.contains("below the required minimum of 800"), "{table}");
    let late = "[a]\nioengine=psync\nfilename=x.img\nsize=8m\ntime_based\nruntime=60\nrw=randread\n\
        direct=1\nmax_latency=1us\n";
    let folder = with(late);
    let (document, code) = ours(&drumfire, folder.path());
    assert_eq!((code, &document["jobs"][0]["error"]), (Some(6), &110.into()));
    let partial = drumfire.run(folder.path(), "report out --as json", LIMIT).ok().json();
    let why = partial["partial"].as_str().unwrap();
    assert!(why.contains("a read of 4k at offset") && why.contains("is 1000 ns"), "{why}");
}

#[test]
fn pauses_let_as_many_begin_as_fio_does() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    // I/Os per second that the think times allow: ten between two of 20 ms, half of 1000.
    for (words, per_second) in [
        ("thinktime=20ms\nthinktime_blocks=10\niodepth=4", 500),
        ("thinktime=20ms\nthinktime_blocks=10\nthinktime_blocks_type=issue\niodepth=4", 500),
        ("rate_iops=1000\nthinktime=200ms\nthinktime_iotime=200ms\nrate_ignore_thinktime=1", 500),
    ] {
        let folder = with(&format!(
            "[a]\nioengine=null\nsize=1g\nrw=randread\ntime_based\nruntime=2\n{words}\n"
        ));
        // A busy host makes think times much longer, which a rate compensates; one of three runs is
        // quiet enough.
        let few = |document: &Value| {
            let ms = document["jobs"][0]["read"]["runtime"].as_u64().unwrap();
            let found = ios(document, 0, "read");
            (10..=ms * per_second / 1000 * 4 / 3 + 20).contains(&found)
        };
        let run = || {
            let (document, code) = ours(&drumfire, folder.path());
            assert_eq!(code, Some(0));
            document
        };
        assert!((0..3).any(|_| few(&run())), "{words}: more than fio's pauses leave");
        assert!((0..3).any(|_| few(&theirs(&fio, folder.path()))), "{words}: fio itself");
    }
}

#[test]
fn a_depth_is_searched_and_stands_in_the_result() {
    let Some(drumfire) = Drumfire::find() else { return };
    let text = "[a]\nioengine=libaio\ndirect=1\nfilename=x.img\nsize=8m\nrw=randread\niodepth=4\n\
        time_based\nruntime=3600\nlatency_target=20s\nlatency_window=100ms\n";
    let folder = with(text);
    let (document, code) = ours(&drumfire, folder.path());
    let job = &document["jobs"][0];
    assert_eq!((code, &job["latency_depth"]), (Some(0), &4.into()));
    assert_eq!(job["latency_target"], 20_000_000_000_u64);
    assert_eq!(
        (&job["latency_window"], &job["latency_percentile"]),
        (&100_000.into(), &100.0.into())
    );
    // The search is not in the figures: only the window is.
    assert!(job["read"]["runtime"].as_u64().unwrap() < 3_000_000, "{job}");
    let table = drumfire.run(folder.path(), "report out", LIMIT).ok().stdout;
    assert!(table.contains("queue depth 4, the maximum of the job, meets"), "{table}");
}

#[test]
fn jobs_of_a_flow_keep_their_proportion() {
    let Some(drumfire) = Drumfire::find() else { return };
    for sleep in ["", "flow_sleep=100\n"] {
        let text = format!(
            "[global]\nioengine=null\nsize=1g\nrw=randread\ntime_based\nruntime=2\nflow_id=5\n\
             {sleep}[a]\nflow=3\n[b]\nflow=1\n[c]\nflow=0\nrate_iops=100\n"
        );
        let folder = with(&text);
        let (document, code) = ours(&drumfire, folder.path());
        assert_eq!(code, Some(0));
        let (a, b) = (ios(&document, 0, "read") as f64, ios(&document, 1, "read") as f64);
        // A host that stalls both at once leaves few of each.
        assert!((a - 3.0 * b).abs() < 0.5 * b + 64.0, "{a} {b}");
    }
}

#[test]
fn what_steers_a_job_is_explained_and_written_again() {
    let Some(drumfire) = Drumfire::find() else { return };
    let text = "[a]\nioengine=null\nsize=1g\nrw=randread\nruntime=1\ntime_based\niodepth=4\n\
        thinktime=5ms\nthinktime_blocks=7\nmax_latency=9s\nflow=2\nzonemode=strided\nzonesize=1m\n\
        zonerange=64k\nzoneskip=4k\n";
    let folder = with(text);
    let said = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
    for words in [
        "1m in each zone of 64k, then 4k skipped",
        "thinks 5 ms after 7 I/Os completed",
        "the latency of reads exceeds 9000 ms",
        "weight 2 in flow 0",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let again = drumfire.run(folder.path(), "explain job.fio --as fio", LIMIT).ok().stdout;
    for words in ["thinktime_blocks=7", "max_latency=9000000", "flow=2", "zonerange=65536"] {
        assert!(again.contains(words), "{words}: {again}");
    }
    let icf = drumfire.run(folder.path(), "explain job.fio --as icf", LIMIT);
    assert_ne!(icf.code, Some(0), "{icf:?}");
}
