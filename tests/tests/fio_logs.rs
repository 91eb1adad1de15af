//! Logs that fio's jobs request, compared with those of the installed fio.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::fio::with;
use drumfire_tests::{Drumfire, Folder, Running, require, run};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// Lines of a log of fio's: milliseconds, value, direction.
fn log(folder: &Path, name: &str) -> Vec<[u64; 3]> {
    let text = std::fs::read_to_string(folder.join(name));
    let text = text.unwrap_or_else(|error| panic!("{name}: {error}"));
    let line = |line: &str| {
        let numbers: Vec<u64> = line.split(", ").map(|word| word.parse().unwrap()).collect();
        let [ms, value, direction, _, 0] = numbers[..] else { panic!("{name}: {line}") };
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
    assert!(refused.stderr.contains("create the folder logs"), "{refused:?}");
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
        "mixed_slat.1.log",
        "t_iops.2.log",
        "t_iops.3.log",
        "x_bw.1.log",
    ];
    assert_eq!(names, expected);
    let log = |name: &str| log(folder.path(), name);
    // Directions and times of the points: of each second in which the host gave the job CPU time.
    let points = |name: &str| -> Vec<(u64, u64)> {
        log(name).into_iter().map(|[ms, _, direction]| (ms, direction)).collect()
    };
    let both = points("mixed_iops.1.log");
    assert!((2..).contains(&both.len()) && both.is_sorted(), "{both:?}");
    assert_eq!(points("logs/x_bw.1.log"), both);
    assert_eq!(points("mixed_lat.1.log"), both);
    assert_eq!(log("mixed_lat.1.log"), log("mixed_clat.1.log"));
    assert!(both.iter().all(|(_, direction)| *direction < 2), "{both:?}");
    let both = points("both_bw.log");
    assert!(both.len() >= 2 && both.iter().all(|(_, direction)| *direction == 0), "{both:?}");
    // The rates of the log's seconds equal the counts in the result, except for late I/Os.
    let result = std::fs::read(folder.path().join("out/step-1/result.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    for (direction, part, kib) in [(0, "read", 4.0), (1, "write", 4.0)] {
        let counted = result["workers"][0][part]["ios"].as_f64().unwrap();
        for (name, each) in [("mixed_iops.1.log", 1.0), ("logs/x_bw.1.log", kib)] {
            holds(&log(name), direction, each, (counted, &result));
        }
    }
    // Times count from the beginning of the job, not from that of the run a second before.
    let document = drumfire.run(folder.path(), "report out --as fio", LIMIT).ok().json();
    for (job, name) in [(1, "t_iops.2.log"), (2, "t_iops.3.log")] {
        let points = points(name);
        let job = &document["jobs"][job];
        assert_eq!(job["jobname"], "late");
        let runtime = job["trim"]["runtime"].as_u64().unwrap();
        let last = points.last().expect("it has trimmed").0;
        assert!(last < runtime + 600, "{last} ms, it ran for {runtime} ms");
        assert!(points.iter().all(|(_, direction)| *direction == 2), "{points:?}");
    }
}

/// Asserts that the points of a direction add up to the counted I/Os; a log ends with the job's
/// runtime, whereas the result of a stalled host counts longer.
fn holds(points: &[[u64; 3]], direction: u64, each: f64, (counted, result): (f64, &Value)) {
    let sum = whole(points, direction) / each;
    let in_time = result["totals"]["seconds"].as_f64().unwrap() < 2.1;
    let least = if in_time { 0.8 * counted - 1.0 } else { 0.0 };
    assert!(least <= sum && sum <= 1.2 * counted + 1.0, "{sum} of {counted}: {points:?}");
}

/// Sum over the points of a direction: each is the mean of the second that ends there, of a part of
/// it, or of more than a second if less than half a second was left.
fn whole(points: &[[u64; 3]], direction: u64) -> f64 {
    let of = points.iter().filter(|[_, _, of]| *of == direction);
    of.map(|[ms, value, _]| {
        let part = (ms - 1) % 1000 + 1;
        let length = if part < 500 && *ms > 1000 { part + 1000 } else { part };
        (value * length) as f64 / 1000.0
    })
    .sum()
}

/// Lines of a log as fio and we have them: the shape of each, with its direction and length.
fn shapes(folder: &Path, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(name));
    let text = text.unwrap_or_else(|error| panic!("{name}: {error}"));
    let shape = |line: &str| {
        let words: Vec<&str> = line.split(", ").collect();
        assert!(words.iter().all(|word| word.parse::<u64>().is_ok()), "{name}: {line}");
        format!("{} of {} in {}", words.len(), words[3], words[2])
    };
    let mut shapes: Vec<String> = text.lines().map(shape).collect();
    shapes.sort();
    shapes
}

#[test]
fn each_io_has_the_line_that_fio_writes() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for words in ["", "log_offset=1\n", "log_avg_msec=400\nlog_offset=1\n"] {
        let text = format!(
            "[a]\nioengine=null\nsize=256k\nbs=4k,16k\nrw=rw\nfsync=4\n\
             write_bw_log=b\nwrite_iops_log=b\nwrite_lat_log=b\n{words}"
        );
        let windows = words.contains("msec");
        let text = if windows { text + "rate_iops=20,20\n" } else { text };
        let (mine, other) = (with(&text), with(&text));
        let ran = drumfire.run(mine.path(), "run job.fio --out out --json", LIMIT).ok().json();
        run(Command::new(&fio).arg("job.fio").current_dir(other.path()), LIMIT).ok();
        for name in ["b_bw.1.log", "b_iops.1.log", "b_lat.1.log", "b_clat.1.log"] {
            let (mine, theirs) = (shapes(mine.path(), name), shapes(other.path(), name));
            let kinds = |mut lines: Vec<String>| {
                lines.dedup();
                lines
            };
            assert!(windows || mine.len() as u64 == ios(&ran), "{words}: {}", mine.len());
            let (mine, theirs) = (kinds(mine), kinds(theirs));
            // fio's last windows are not always there.
            assert!(!mine.is_empty() && theirs.iter().all(|kind| mine.contains(kind)), "{words}");
            assert!(windows || mine == theirs, "{words}: {mine:?} {theirs:?}");
        }
    }
}

/// Reads and writes of a result.
fn ios(result: &Value) -> u64 {
    ["read", "write"].iter().map(|part| result["totals"][part]["ios"].as_u64().unwrap()).sum()
}

/// All I/Os of the job complete after its runtime: no log ends before them.
#[test]
fn logs_hold_what_came_back_late() {
    let Some(drumfire) = Drumfire::find() else { return };
    let slow = "name = 'slow'\n[[stage]]\nname = 'medium'\nservers = 'infinite'\nshape = 'fixed'\n\
        read = { each_s = 1.5 }\nwrite = { each_s = 1.5 }\n";
    for (words, lines) in [("", 8), ("log_avg_msec=100\n", 1)] {
        let folder = with(&format!(
            "[a]\nioengine=null\nfilename=x\nsize=1m\nbs=4k\niodepth=8\nrw=randread\ntime_based\n\
             runtime=1\nwrite_lat_log=b\nwrite_iolog=t\n{words}"
        ));
        std::fs::write(folder.path().join("slow.toml"), slow).unwrap();
        let ran = drumfire.run(folder.path(), "run job.fio delay:slow.toml(ram:16m)", LIMIT);
        ran.ok();
        let log = log(folder.path(), "b_lat.1.log");
        assert_eq!(log.len(), lines, "{words}: {log:?}");
        let late = |[ms, ns, _]: &[u64; 3]| *ms >= 1500 && *ns >= 1_500_000_000;
        assert!(log.iter().all(late), "{words}: {log:?}");
        let trace = std::fs::read_to_string(folder.path().join("t")).unwrap();
        assert_eq!(trace.lines().filter(|line| line.contains(" read ")).count(), 8, "{trace}");
    }
}

#[test]
fn what_was_recorded_outlives_a_kill() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with(
        "[a]\nioengine=null\nsize=1g\ntime_based\nruntime=600\nrw=randread\nrate_iops=100\n\
         write_lat_log=b\nwrite_iolog=t\n",
    );
    let mut running = Running::start(&mut drumfire.command(folder.path(), "run job.fio --out out"));
    let lines = |name: &str| {
        std::fs::read_to_string(folder.path().join(name)).unwrap_or_default().lines().count()
    };
    // Each log line is written at once.
    running.await_that(LIMIT, |_| (lines("b_lat.1.log") >= 100 && lines("t") >= 100).then_some(()));
    running.signal(Signal::KILL);
    running.finish(LIMIT);
    assert!(lines("b_lat.1.log") >= 100 && lines("t") >= 100);
}

#[test]
fn a_log_that_cannot_be_written_is_said_to_be_cut() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with("[a]\nioengine=null\nsize=1m\nwrite_bw_log=b\nwrite_iops_log=b\n");
    std::os::unix::fs::symlink("/dev/full", folder.path().join("b_bw.1.log")).unwrap();
    let result = drumfire.run(folder.path(), "run job.fio --out out --json", LIMIT).ok().json();
    let said = result["warnings"].to_string();
    assert!(said.contains("the log b_bw.1.log is incomplete: No space left on device"), "{said}");
    assert_eq!(shapes(folder.path(), "b_iops.1.log").len(), 256);
    let nowhere = with("[a]\nioengine=null\nsize=1m\nwrite_iolog=none/t\n");
    let refused = drumfire.run(nowhere.path(), "run job.fio", LIMIT);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("create the folder none"), "{refused:?}");
}

#[test]
fn histograms_are_those_of_fio() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for coarseness in [0, 4] {
        let text = format!(
            "[a]\nioengine=null\nsize=1600k\nrw=randrw\nrate_iops=200,200\n\
             write_hist_log=h\nlog_hist_msec=250\nlog_hist_coarseness={coarseness}\n"
        );
        let (mine, other) = (with(&text), with(&text));
        let ran = drumfire.run(mine.path(), "run job.fio --out out --json", LIMIT).ok().json();
        run(Command::new(&fio).arg("job.fio").current_dir(other.path()), LIMIT).ok();
        let lines = |folder: &Folder| -> Vec<Vec<u64>> {
            let text = std::fs::read_to_string(folder.path().join("h_clat_hist.1.log")).unwrap();
            let line = |line: &str| line.split(", ").map(|word| word.parse().unwrap()).collect();
            text.lines().map(line).collect()
        };
        let (mine, theirs) = (lines(&mine), lines(&other));
        assert!(!theirs.is_empty(), "fio has written nothing");
        for line in mine.iter().chain(&theirs) {
            assert_eq!((line.len(), line[2]), (3 + (1856 >> coarseness), 4096));
            assert!(line[1] < 2, "{line:?}");
        }
        // Every I/O is in one of our histograms.
        let counted: u64 = mine.iter().flat_map(|line| &line[3..]).sum();
        assert_eq!(counted, ios(&ran));
    }
}

#[test]
fn fio_replays_the_trace() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let folder = with(
        "[a]\nioengine=libaio\niodepth=4\nsize=512k\nnrfiles=2\nrw=randrw\nfsync=8\n\
         end_fsync=1\nwrite_iolog=t\n",
    );
    let ran = drumfire.run(folder.path(), "run job.fio --out out --json", LIMIT).ok().json();
    let mut fio = Command::new(&fio);
    fio.args(["--name=r", "--ioengine=libaio", "--read_iolog=t", "--output-format=json"]);
    let replayed = run(fio.current_dir(folder.path()), LIMIT).ok().json();
    let job = &replayed["jobs"][0];
    for part in ["read", "write"] {
        assert_eq!(job[part]["total_ios"], ran["totals"][part]["ios"], "{part}");
        assert_eq!(job[part]["io_bytes"], ran["totals"][part]["bytes"], "{part}");
    }
    // drumfire replays the log with as many I/Os.
    folder.file("again.fio", b"[r]\nioengine=null\nfilesize=1m\nread_iolog=t\n");
    let again = drumfire.run(folder.path(), "run again.fio --out again --json", LIMIT).ok().json();
    assert_eq!(ios(&again), ios(&ran));
    let text = std::fs::read_to_string(folder.path().join("t")).unwrap();
    let times: Vec<u64> = text.lines().skip(1).map(first_number).collect();
    assert!(times.is_sorted(), "{text}");
    assert!(text.starts_with("fio version 3 iolog\n0 a.0.0 add\n"), "{text}");
}

fn first_number(line: &str) -> u64 {
    line.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_log_has_the_lines_that_fio_writes() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let text = "[a]\nioengine=null\nsize=1g\ntime_based\nruntime=2\nlog_avg_msec=1000\nrw=randrw\n\
        rate_iops=300,300\nwrite_bw_log=b\nwrite_iops_log\nwrite_lat_log=b\n";
    let (mine, other) = (with(text), with(text));
    let ran = drumfire.run(mine.path(), "run job.fio --out out --json", LIMIT).ok().json();
    run(Command::new(fio).arg("job.fio").current_dir(other.path()), LIMIT).ok();
    for (name, kib) in [("b_bw", Some(4.0)), ("a_iops", Some(1.0)), ("b_lat", None)] {
        let name = format!("{name}.1.log");
        let (mine, theirs) = (log(mine.path(), &name), log(other.path(), &name));
        assert!(mine.len() >= 2 && !theirs.is_empty(), "{name}: {mine:?} {theirs:?}");
        // On a busy host a second may have few I/Os, and the next one the missing ones.
        let Some(kib) = kib else { continue };
        for (direction, part) in [(0, "read"), (1, "write")] {
            let counted = ran["totals"][part]["ios"].as_f64().unwrap();
            holds(&mine, direction, kib, (counted, &ran));
        }
        // fio's rate is never far above the requested one; its last point is not always there.
        let (sum, asked) = (whole(&theirs, 0) + whole(&theirs, 1), kib * 1200.0);
        assert!(0.0 < sum && sum <= 10.0 * asked, "{name}: {sum} of {asked}");
    }
}
