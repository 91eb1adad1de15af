//! Options of fio's jobs for the reported figures, compared with the installed fio.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// Names of all members, of the first job, of each direction and of each of its latencies.
fn shape(document: &Value) -> Vec<String> {
    let keys = |value: &Value| -> Vec<String> {
        value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
    };
    let job = &document["jobs"][0];
    let mut found = Vec::new();
    for direction in ["read", "write", "trim", "sync", "mixed"] {
        let part = &job[direction];
        found.extend(keys(part).into_iter().map(|key| format!("{direction} {key}")));
        for latency in ["slat_ns", "clat_ns", "lat_ns"] {
            for key in keys(&part[latency]) {
                found.push(format!("{direction} {latency} {key}"));
                if key == "percentile" {
                    found.push(keys(&part[latency][&key]).join(" "));
                }
            }
        }
    }
    found.sort();
    found
}

#[test]
fn percentiles_and_directions_are_shown_as_by_fio() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for words in [
        "percentile_list=99.9:50:5",
        "clat_percentiles=0",
        "lat_percentiles=1\nclat_percentiles=0\npercentile_list=99",
        "lat_percentiles=1",
        "unified_rw_reporting=mixed",
        "unified_rw_reporting=both\npercentile_list=1:2:3",
    ] {
        let folder = Folder::new();
        let text = format!("[a]\nioengine=null\nsize=4m\nrw=randrw\nfsync=64\n{words}\n");
        folder.file("job.fio", text.as_bytes());
        drumfire.run(folder.path(), "run job.fio --out out", LIMIT).ok();
        let mine = drumfire.run(folder.path(), "report out --as fio+", LIMIT).ok().json();
        let mut fio = Command::new(&fio);
        fio.args(["job.fio", "--output-format=json+"]).current_dir(folder.path());
        let theirs = run(&mut fio, LIMIT).ok().json();
        assert_eq!(shape(&mine), shape(&theirs), "{words}");
    }
}

#[test]
fn explain_and_the_table_know_them() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let text = "[a]\nioengine=null\nsize=4m\nrw=randrw\npercentile_list=25:75.5\n\
        unified_rw_reporting=both\nslat_percentiles=1\n";
    folder.file("job.fio", text.as_bytes());
    let explained = drumfire.run(folder.path(), "explain job.fio", LIMIT).ok().stdout;
    assert!(explained.contains("shows percentiles 25, 75.5 · all directions combined too"));
    assert!(explained.contains("differs job.fio:7: `slat_percentiles=1`"), "{explained}");
    let again = drumfire.run(folder.path(), "explain job.fio --as fio", LIMIT).ok().stdout;
    assert!(again.contains("percentile_list=25:75.5\nunified_rw_reporting=both\n"), "{again}");
    let ran = drumfire.run(folder.path(), "run job.fio --out out", LIMIT).ok().stdout;
    assert!(ran.contains("p25    p75.5  of a\n"), "{ran}");
    folder.file("wrong.fio", b"[a]\npercentile_list=50:101\n");
    let wrong = drumfire.run(folder.path(), "explain wrong.fio", LIMIT);
    assert_eq!(wrong.code, Some(2));
    assert!(
        wrong.stderr.contains("wrong.fio:2: `percentile_list=50:101`: 101 is not a percentile")
    );
}

#[test]
fn jobs_that_run_together_have_rates_of_their_own_seconds() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let text = "[global]\nioengine=null\nsize=1g\nbs=4k\nrw=read\ntime_based\nruntime=3\n\
                [slow]\nrate_iops=1000\n[fast]\nrate_iops=2000\nnumjobs=2\ngroup_reporting\n\
                [late]\nrate_iops=1000\nstartdelay=1\nruntime=2\n";
    folder.file("job.fio", text.as_bytes());
    let said = drumfire.run(folder.path(), "fio job.fio --output-format=json", LIMIT).ok().json();
    // fio sums a group's jobs, including their numbers of samples.
    for (index, iops, samples) in [(0, 1000.0, 2..=4), (1, 4000.0, 5..=8), (2, 1000.0, 1..=3)] {
        let read = &said["jobs"][index]["read"];
        let mean = read["iops_mean"].as_f64().unwrap();
        assert!((mean / iops - 1.0).abs() < 0.3, "{index}: {read}");
        assert!(samples.contains(&read["iops_samples"].as_u64().unwrap()), "{index}: {read}");
        let bw = read["bw_mean"].as_f64().unwrap();
        assert!((bw / (4.0 * mean) - 1.0).abs() < 0.01, "{index}: {read}");
        assert!(read["bw_min"].as_u64().unwrap() as f64 <= bw, "{index}: {read}");
        assert_eq!(said["jobs"][index]["write"]["bw_samples"], 0, "{index}");
    }
}
