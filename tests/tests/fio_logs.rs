//! The logs that fio's jobs ask for, beside those of the real fio where it is installed.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run};

const LIMIT: Duration = Duration::from_secs(300);

/// A folder with a job.
fn with(text: &str) -> Folder {
    let folder = Folder::new();
    std::fs::write(folder.path().join("job.fio"), text).unwrap();
    folder
}

/// Lines of a log of fio's: milliseconds, value, direction.
fn log(folder: &Path, name: &str) -> Vec<[u64; 3]> {
    let text = std::fs::read_to_string(folder.join(name));
    let text = text.unwrap_or_else(|error| panic!("{name}: {error}"));
    let line = |line: &str| {
        let numbers: Vec<u64> = line.split(", ").map(|word| word.parse().unwrap()).collect();
        let [ms, value, direction, 0, 0] = numbers[..] else { panic!("{name}: {line}") };
        [ms, value, direction]
    };
    text.lines().map(line).collect()
}

#[test]
fn the_logs_of_fio_are_written() {
    let Some(drumfire) = Drumfire::find() else { return };
    let text = "[global]\nioengine=null\nsize=1g\ntime_based\nruntime=2\nlog_avg_msec=1000\n\
        [mixed]\nrw=randrw\nrate_iops=300,300\nwrite_bw_log=logs/x\nwrite_iops_log\n\
        write_lat_log\n[late]\nstartdelay=1\nruntime=1\nrw=randtrim\nbs=8k\nrate_iops=200\n\
        numjobs=2\nwrite_iops_log=t\n[both]\nstonewall\nruntime=1\nrw=read\nnumjobs=2\n\
        rate_iops=100\nper_job_logs=0\nwrite_bw_log\n";
    let folder = with(text);
    let refused = drumfire.run(folder.path(), "run job.fio --out out", LIMIT);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("make the folder logs"), "{refused:?}");
    std::fs::create_dir(folder.path().join("logs")).unwrap();
    drumfire.run(folder.path(), "run job.fio --out out", LIMIT).ok();
    let mut names: Vec<String> = [".", "logs"]
        .iter()
        .flat_map(|place| std::fs::read_dir(folder.path().join(place)).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".log"))
        .collect();
    names.sort();
    let expected = [
        "both_bw.log",
        "mixed_clat.1.log",
        "mixed_iops.1.log",
        "mixed_lat.1.log",
        "t_iops.2.log",
        "t_iops.3.log",
        "x_bw.1.log",
    ];
    assert_eq!(names, expected);
    let log = |name: &str| log(folder.path(), name);
    let near = |value: u64, expected: u64| value.abs_diff(expected) * 10 <= expected;
    // Directions and times of the points, and that all have about the value.
    let shape = |name: &str, expected: u64| -> Vec<(u64, u64)> {
        let points = log(name);
        assert!(points.iter().all(|[_, value, _]| near(*value, expected)), "{name}: {points:?}");
        points.iter().map(|[ms, _, direction]| ((ms + 300) / 1000, *direction)).collect()
    };
    let both = [(1, 0), (1, 1), (2, 0), (2, 1)];
    assert_eq!(shape("mixed_iops.1.log", 300), both);
    assert_eq!(shape("logs/x_bw.1.log", 1200), both);
    assert_eq!(log("mixed_lat.1.log"), log("mixed_clat.1.log"));
    assert_eq!(log("mixed_lat.1.log").len(), 4);
    // Times count from the beginning of the job.
    assert_eq!(shape("t_iops.2.log", 200), [(1, 2)]);
    assert_eq!(shape("t_iops.3.log", 200), [(1, 2)]);
    assert_eq!(shape("both_bw.log", 400), [(1, 0), (1, 0)]);
}

#[test]
fn a_log_has_the_lines_that_fio_writes() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let text = "[a]\nioengine=null\nsize=1g\ntime_based\nruntime=2\nlog_avg_msec=1000\nrw=randrw\n\
        rate_iops=300,300\nwrite_bw_log=b\nwrite_iops_log\nwrite_lat_log=b\n";
    let (mine, other) = (with(text), with(text));
    drumfire.run(mine.path(), "run job.fio --out out", LIMIT).ok();
    run(Command::new(fio).arg("job.fio").current_dir(other.path()), LIMIT).ok();
    for (name, rate) in [("b_bw", Some(1200)), ("a_iops", Some(300)), ("b_lat", None)] {
        let name = format!("{name}.1.log");
        let (mine, theirs) = (log(mine.path(), &name), log(other.path(), &name));
        // fio's last point is not always there.
        assert!(theirs.len() >= 2 && mine.len() >= theirs.len(), "{name}: {theirs:?}");
        for [_, value, _] in mine.iter().chain(&theirs) {
            assert!(rate.is_none_or(|rate| value.abs_diff(rate) * 5 <= rate), "{name}: {value}");
        }
    }
}
