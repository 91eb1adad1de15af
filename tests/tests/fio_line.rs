//! fio's command line, compared with the installed fio: the same jobs, I/Os and keys.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// Lines with deterministic I/Os and bytes.
const LINES: [&str; 26] = [
    "--name=a --filename=t --rw=randread --bs=4k --size=1m --ioengine=psync",
    "--name=a --filename=t --rw=write --bs 8k -size=1m --iodepth=4 --ioengine=libaio --direct=1",
    "--bs=4k --size=256k --ioengine=psync --name=a --rw=read --name=b --rw=write --bs=16k",
    "--size=64k --name=global --rw=write --name=a --name=b --number_ios=3",
    "--name=a --filename=t --rw=write --size=64k --numjobs=2 --group_reporting --thread",
    "jobs.conf --filename=t",
    "jobs.conf --size=4m --section=two",
    "--name=first --rw=write --size=128k --filename=x jobs.conf",
    "jobs.conf jobs.conf --filename=t --size=64k",
    "--name=a --filename=x:y --rw=write --size=256k --numjobs=2 --ioengine=libaio --iodepth=8",
    "--name=a --filename=t --rw=read --size=2m",
    "--name=v --rw=randwrite --size=256k --verify=crc32c",
    "--name=a --rw=write --size=64k --iodepth=128*1 --thread=32 --blocksize=4k-8k",
    "--readonly --name=a --filename=t --rw=read --size=64k --eta=never --max-jobs=4",
    "--name=a --size=4k-256k --rw=write --bs=16k/32k",
    "--name=v --rw=randwrite --size=256k --verify=crc32c --loops=2 --buffer_compress_percentage=9",
    "--name=v --rw=write --size=256k --verify=md5 --verify_backlog=16 --direct=1",
    "-name=a -rw=write -size=64k -ioengine=pvsync2 -hipri -direct=1 --sync_file_range=write:4",
    "--bsrange=4k-64k --name=a --rw=write --size=256k --bssplit=8k/100 --unlink=1",
    "--name=a --ioengine=falloc --filename=x --size=1m --bs=64k --rw=write",
    "--name=a --ioengine=ftruncate --filename=x --size=1m --bs=64k --rw=write",
    "--name=a --ioengine=filecreate --nrfiles=20 --filesize=4k --openfiles=1 --numjobs=2",
    "--name=a --ioengine=filestat --nrfiles=8 --filesize=8k --rw=randread",
    "--name=a --ioengine=filedelete --nrfiles=8 --filesize=4k",
    "--filename=x --size=256k --rw=write --name=a --filename=y --name=b",
    "--name=a --nrfiles=3 --filesize=1m --rw=read --bs=4k,16k --file_service_type=sequential",
];

const JOBS: &str = "# any name\n[global]\nbs=4k\nsize=256k\nfilename=f\n[one]\nrw=randread\n\
                    [two]\nrw=write\nbs=32k\n";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("jobs.conf", JOBS.as_bytes());
    folder.file("t", &vec![7; 1 << 20]);
    folder
}

/// The JSON document in a program's output, without the messages before it.
fn document(finished: &Finished) -> Value {
    let begin = finished.stdout.find('{').unwrap_or_else(|| panic!("{finished:?}"));
    serde_json::from_str(&finished.stdout[begin..]).unwrap_or_else(|_| panic!("{finished:?}"))
}

/// Name, group, bytes and I/Os of each job.
fn done(document: &Value) -> Vec<String> {
    let of = |job: &Value| {
        let part = |name: &str| format!("{} {}", job[name]["io_bytes"], job[name]["total_ios"]);
        format!("{} {} {} {}", job["jobname"], job["groupid"], part("read"), part("write"))
    };
    document["jobs"].as_array().expect("there are jobs").iter().map(of).collect()
}

/// Keys of the jobs, and of their directions.
fn keys(document: &Value) -> BTreeSet<String> {
    let jobs = document["jobs"].as_array().expect("there are jobs").iter();
    let of = |value: &Value| -> Vec<String> {
        value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default()
    };
    jobs.flat_map(|job| [of(job), of(&job["read"]), of(&job["write"])].concat()).collect()
}

fn fio(program: &Path, folder: &Path, line: &str) -> Finished {
    let words = line.split_whitespace();
    run(Command::new(program).current_dir(folder).args(words).arg("--output-format=json"), LIMIT)
}

/// Random I/Os of several lengths: how many and how long is chance, where they were is not.
#[test]
fn lengths_drawn_reach_each_place_once() {
    let (Some(program), Some(drumfire)) = (require("fio"), Drumfire::find()) else { return };
    let line = "--name=a --rw=randwrite --bssplit=4k/50:16k/25:64k/25 --size=4m --verify=crc32c \
                --unlink=1 --write_lat_log=l";
    let (theirs, ours) = (folder(), folder());
    let fio = document(&fio(&program, theirs.path(), line).ok());
    let args = format!("fio {line} --output-format=json");
    let drumfire = document(&drumfire.run(ours.path(), &args, LIMIT).ok());
    let of = |document: &Value, part: &str, key: &str| {
        document["jobs"][0][part][key].as_u64().unwrap_or_else(|| panic!("{document}"))
    };
    for part in ["read", "write"] {
        assert_eq!(of(&fio, part, "io_bytes"), 4 << 20);
        assert_eq!(of(&drumfire, part, "io_bytes"), 4 << 20);
        let (theirs, ours) = (of(&fio, part, "total_ios"), of(&drumfire, part, "total_ios"));
        assert!(ours.abs_diff(theirs) * 4 < theirs, "{part}: {ours} I/Os, fio {theirs}");
        assert_eq!(ours, of(&drumfire, "read", "total_ios"));
        let latency = &drumfire["jobs"][0][part]["clat_ns"];
        assert_eq!(latency["N"], ours, "{part}");
        assert!(latency["percentile"].is_object(), "{part}");
    }
    for folder in [&theirs, &ours] {
        assert!(!folder.path().join("a.0.0").exists());
        assert!(folder.path().join("l_slat.1.log").exists());
    }
}

#[test]
fn a_line_does_what_it_does_with_fio() {
    let (Some(program), Some(drumfire)) = (require("fio"), Drumfire::find()) else { return };
    for line in LINES {
        let (theirs, ours) = (folder(), folder());
        let theirs = document(&fio(&program, theirs.path(), line).ok());
        let args = format!("fio {line} --output-format=json");
        let ours = document(&drumfire.run(ours.path(), &args, LIMIT).ok());
        assert_eq!(done(&ours), done(&theirs), "{line}");
        let missing: Vec<_> = keys(&theirs).difference(&keys(&ours)).cloned().collect();
        assert!(missing.is_empty(), "{line}: {missing:?}");
    }
}

#[test]
fn files_are_as_fio_leaves_them_and_programs_run_around_jobs() {
    let (Some(program), Some(drumfire)) = (require("fio"), Drumfire::find()) else { return };
    let line = "--size=256k --bs=64k --rw=write --name=a --ioengine=falloc --exec_prerun=pwd \
                --name=c --ioengine=ftruncate --name=d --ioengine=filecreate --nrfiles=3 \
                --name=e --ioengine=filedelete --nrfiles=3 --filesize=64k --exec_postrun=pwd \
                --name=f --ioengine=cpuio --cpuload=20 --cpuchunks=1000 --runtime=1";
    let (theirs, ours) = (Folder::new(), Folder::new());
    let fio = document(&fio(&program, theirs.path(), line).ok());
    let args = format!("fio {line} --output-format=json");
    let drumfire = document(&drumfire.run(ours.path(), &args, LIMIT).ok());
    let files = |folder: &Folder| {
        let entries = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
        let length = |path: &Path| match path.extension().is_some_and(|end| end == "txt") {
            true => std::fs::read_to_string(path).unwrap().trim().len(),
            false => std::fs::metadata(path).unwrap().len() as usize,
        };
        let named = |it: std::fs::DirEntry| (it.file_name(), length(&it.path()));
        entries.map(named).collect::<std::collections::BTreeMap<_, _>>()
    };
    assert_eq!(files(&ours).len(), 7, "{:?}", files(&ours));
    assert_eq!(files(&ours), files(&theirs));
    let busy = |document: &Value| {
        let read = &document["jobs"][4]["read"];
        assert_eq!(read["io_bytes"], 0, "{document}");
        assert!(read["clat_ns"]["min"].as_u64() >= Some(990_000), "{document}");
        read["total_ios"].as_u64().unwrap()
    };
    // A fifth of a second in chunks of a millisecond, or fewer where the host is busy.
    let (theirs, ours) = (busy(&fio), busy(&drumfire));
    assert!((20..=201).contains(&ours), "{ours}, fio {theirs}");
}

#[test]
fn calls_about_files_want_to_be_allowed() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = folder();
    for (line, code, why) in [
        ("run null:4k?call=delete,4096,t --size 4k --seconds 1", 2, "give --destroy"),
        ("run delay:x25-m(null:4k?call=delete,4096,t) --seconds 1", 2, "give --destroy"),
        ("serve --iscsi 127.0.0.1:0 --volume v=null:4k?call=delete,4096,t", 1, "drumfire run"),
    ] {
        let finished = drumfire.run(folder.path(), line, LIMIT);
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert!(finished.stderr.contains(why), "{finished:?}");
    }
    assert!(folder.path().join("t").exists());
}

#[test]
fn the_text_has_the_lines_that_scripts_look_for() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = folder();
    let line = "fio --name=a --filename=t --rw=randread --size=1m --output=out.txt";
    let finished = drumfire.run(folder.path(), line, LIMIT).ok();
    assert_eq!(finished.stdout, "");
    let text = std::fs::read_to_string(folder.path().join("out.txt")).unwrap();
    for part in
        ["a: (groupid=0, jobs=1): err= 0: pid=", "  read: IOPS=", "   READ: bw=", "total=256,0"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!folder.path().join("drumfire-runs").exists(), "fio keeps nothing");
}

#[test]
fn what_is_not_done_is_said_and_nothing_is_run() {
    let Some(drumfire) = Drumfire::find() else { return };
    for (line, part) in [
        (
            "--name=a --filename=t --rw=write --size=1m --readonly",
            "--readonly is given and a job writes",
        ),
        ("--name=a --filename=t --size=1m --bogus=1", "unknown fio option"),
        ("--name=a --filename=t --size=1m --ioengine=rbd", "rbd"),
        ("--name=a --rw=read", "nor a size"),
        ("--terse-version=2 --name=a", "3, 4 or 5"),
        ("--name=a --filename=t --bogus --size=1m", "`bogus`: unknown fio option"),
        ("--enghelp=rbd", "the engine rbd is not supported"),
        ("", "no jobs"),
    ] {
        let folder = folder();
        let before = std::fs::read(folder.path().join("t")).unwrap();
        let finished = drumfire.run(folder.path(), &format!("fio {line}"), LIMIT);
        assert_eq!(finished.code, Some(2), "{line}: {finished:?}");
        assert!(finished.stderr.contains(part), "{line}: {finished:?}");
        assert_eq!(finished.stdout, "", "{line}");
        assert!(std::fs::read(folder.path().join("t")).unwrap() == before, "{line}");
    }
}

#[test]
fn names_may_be_short_and_a_rate_counts_no_flushes() {
    let Some(drumfire) = Drumfire::find() else { return };
    let line = "fio --name=a --filename=u --rw=write --bs=4k --size=1m --numjob=2 --fdatasync=1 \
                --rate_iops=100 --time_based --runtime=1 --gtod_reduce=1 --disk_util=0 \
                --output-format=json";
    let text = drumfire.run(folder().path(), line, LIMIT).ok().stdout;
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document.get("disk_util"), None, "{text}");
    let jobs = document["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 2, "{text}");
    for job in jobs {
        let written = job["write"]["total_ios"].as_u64().unwrap();
        // A disk may be slow to flush and a busy host late to end; half would be the flushes.
        assert!((60..=110).contains(&written), "{text}");
        assert_eq!(job["write"]["clat_ns"].get("percentile"), None, "{text}");
    }
}

#[test]
fn what_only_reads_makes_no_file() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = folder();
    let finished = drumfire.run(folder.path(), "fio --name=a --size=1m --readonly", LIMIT);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("a.0.0 would be laid out first"), "{finished:?}");
    assert!(!folder.path().join("a.0.0").exists());
}

#[test]
fn a_job_file_that_is_not_there_is_named() {
    let Some(drumfire) = Drumfire::find() else { return };
    let finished = drumfire.run(folder().path(), "fio none.conf", LIMIT);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("unable to open 'none.conf' job file"), "{finished:?}");
}

#[test]
fn jobs_that_fail_are_counted_by_the_exit_code() {
    let Some(drumfire) = Drumfire::find() else { return };
    // More than two I/Os of each take longer than a microsecond.
    let line = "fio --name=a --filename=t --rw=randread --size=64k --max_latency=1us --numjobs=2";
    let finished = drumfire.run(folder().path(), line, LIMIT);
    assert_eq!(finished.code, Some(2), "{finished:?}");
}

#[test]
fn the_terse_form_is_a_line_for_each_job() {
    let Some(drumfire) = Drumfire::find() else { return };
    let line = "fio --minimal --name=a --filename=t --rw=read --size=64k --name=b --size=64k";
    let text = drumfire.run(folder().path(), line, LIMIT).ok().stdout;
    let begins: Vec<Vec<_>> = text.lines().map(|line| line.split(';').take(4).collect()).collect();
    let want: [Vec<&str>; 2] = [vec!["3", "fio-3.33", "a", "0"], vec!["3", "fio-3.33", "b", "0"]];
    assert_eq!(begins, want, "{text}");
}

#[test]
fn run_takes_a_job_file_of_any_name_for_what_it_is() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = folder();
    let finished = drumfire.run(folder.path(), "run jobs.conf --destroy --json", LIMIT).ok();
    assert!(finished.stdout.contains("jobs"), "{finished:?}");
    assert_eq!(std::fs::read(folder.path().join("jobs.conf")).unwrap(), JOBS.as_bytes());
    assert_eq!(std::fs::metadata(folder.path().join("f")).unwrap().len(), 256 << 10);
}
