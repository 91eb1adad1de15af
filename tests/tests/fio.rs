//! Job files of fio, compared with the installed fio: the work done, the files left, and the
//! results.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use drumfire_tests::{Drumfire, Folder, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// A folder with one file.
fn with(name: &str, text: &str) -> Folder {
    let folder = Folder::new();
    folder.file(name, text.as_bytes());
    folder
}

/// Runs a fio job with our program, and returns the result in fio's format.
fn ours(drumfire: &Drumfire, folder: &Path, args: &str) -> Value {
    drumfire.run(folder, &format!("run {args} --out out"), LIMIT).ok();
    drumfire.run(folder, "report out --as fio+", LIMIT).ok().json()
}

fn theirs(fio: &Path, folder: &Path, file: &str) -> Value {
    let mut command = Command::new(fio);
    command.args([file, "--output-format=json+"]).current_dir(folder);
    run(&mut command, LIMIT).ok().json()
}

/// First jobs of both documents for the same file.
fn both(text: &str) -> Option<(Value, Value)> {
    let (drumfire, fio) = (Drumfire::find()?, require("fio")?);
    let folder = with("job.fio", text);
    let ours = ours(&drumfire, folder.path(), "job.fio");
    let theirs = theirs(&fio, folder.path(), "job.fio");
    Some((ours, theirs))
}

/// Paths at which two documents differ in names or types; numbers may differ in value.
fn differences(at: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    // Names that are values: buckets that were hit, settings that were given.
    let free = ["/bins", "/job options", "/global options"].iter().any(|end| at.ends_with(end));
    match (ours, theirs) {
        (Value::Object(_), Value::Object(_)) if free => {}
        (Value::Object(a), Value::Object(b)) => {
            found
                .extend(a.keys().filter(|key| !b.contains_key(*key)).map(|k| format!("+{at}/{k}")));
            for (key, theirs) in b {
                match a.get(key) {
                    Some(ours) => differences(&format!("{at}/{key}"), ours, theirs, found),
                    None => found.push(format!("-{at}/{key}")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for (index, (ours, theirs)) in a.iter().zip(b).enumerate() {
                differences(&format!("{at}/{index}"), ours, theirs, found);
            }
            if a.len() != b.len() {
                found.push(format!("{at} has {} for {}", a.len(), b.len()));
            }
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() == b.is_f64() => {}
        (Value::String(_), Value::String(_)) => {}
        _ => found.push(format!("{at}: {ours} for {theirs}")),
    }
}

/// Two steps each, with everything that gives a document other parts: mixes, sizes, rates, syncs,
/// trims, several workers, verification.
const SHAPES: [&str; 6] = [
    "ioengine=null\nsize=64m\nrw=randrw\niodepth=4\n\
     [two]\nstonewall\nsize=8m\nrw=write\nbs=8k\n",
    "ioengine=null\nsize=16m\nrw=randread\nbssplit=4k/70:16k/30\n\
     [two]\nstonewall\nrw=read\nsize=1m\n",
    "ioengine=null\nsize=1m\nrw=randrw\nrwmixread=70\nrate_iops=700,300\n\
     [two]\nstonewall\nrw=write\nsize=1m\nrate_iops=900\n",
    "filename=x.img\nioengine=psync\nsize=2m\nrw=randwrite\nfsync=16\n\
     [two]\nstonewall\nrw=randread\n",
    "filename=v.img\nioengine=psync\nsize=1m\nrw=randwrite\nverify=crc32c\n\
     [two]\nstonewall\nrw=read\nverify=0\n",
    "ioengine=null\nsize=8m\nrw=randread\nnumjobs=3\ngroup_reporting\n\
     [two]\nstonewall\nrw=randtrim\nsize=1m\n",
];

#[test]
fn our_document_has_the_shape_of_fios() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for shape in SHAPES {
        let text = format!("[global]\n{}", shape.replacen("[two]", "[one]\nstonewall\n[two]", 1));
        let folder = with("job.fio", &text);
        drumfire.run(folder.path(), "run job.fio --out out --destroy", LIMIT).ok();
        let theirs = theirs(&fio, folder.path(), "job.fio");
        let ours = drumfire.run(folder.path(), "report out --as fio+", LIMIT).ok().json();
        assert_eq!(jobs(&ours), jobs(&theirs), "{text}");
        let last = jobs(&ours).len() - 1;
        for (step, job) in [(0, 0), (1, last)] {
            let mut found = Vec::new();
            differences("", &ours["jobs"][job], &theirs["jobs"][job], &mut found);
            for (key, value) in theirs.as_object().unwrap() {
                match ours.get(key) {
                    Some(ours) if key != "jobs" => differences(key, ours, value, &mut found),
                    None => found.push(format!("-{key}")),
                    Some(_) => {}
                }
            }
            // Disks are not monitored. Newer fios report when a job started. fio has no name for
            // the class of a result.
            found.retain(|at| {
                !["disk_util", "job_start", "global options", "+/drumfire"]
                    .iter()
                    .any(|k| at.contains(k))
            });
            assert!(found.is_empty(), "{text}step {step}: {found:?}");
            let names: Vec<&str> =
                ours["jobs"][job].as_object().unwrap().keys().map(String::as_str).collect();
            assert!(names.contains(&"latency_us"), "{names:?}");
        }
    }
}

/// Jobs of a document by name and group, in order.
fn jobs(document: &Value) -> Vec<(String, u64)> {
    let jobs = document["jobs"].as_array().unwrap().iter();
    jobs.map(|job| (job["jobname"].as_str().unwrap().to_owned(), job["groupid"].as_u64().unwrap()))
        .collect()
}

#[test]
fn a_run_is_one_document_with_the_jobs_that_fio_has() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for text in [
        "[a]\nnumjobs=3\n[b]\n[c]\nstonewall\nnumjobs=2\ngroup_reporting\n[d]\ngroup_reporting\n",
        "[a]\n[b]\nstonewall\nnumjobs=2\noffset_increment=1m\n[c]\nstonewall\nnumjobs=2\n\
         group_reporting\noffset_increment=1m\n",
    ] {
        let text = format!("[global]\nioengine=null\nsize=4m\nrw=randread\n{text}");
        let folder = with("job.fio", &text);
        let ours = ours(&drumfire, folder.path(), "job.fio");
        let theirs = theirs(&fio, folder.path(), "job.fio");
        assert_eq!(jobs(&ours), jobs(&theirs), "{text}");
        let ios = |of: &Value| -> Vec<u64> {
            let jobs = of["jobs"].as_array().unwrap().iter();
            jobs.map(|job| job["read"]["total_ios"].as_u64().unwrap()).collect()
        };
        assert_eq!(ios(&ours), ios(&theirs), "{text}");
    }
}

/// `size`, `io_size`, rates and depth of a job are those of all its files.
#[test]
fn several_files_share_what_the_job_has() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for words in ["size=8m", "size=8m\nio_size=2m", "filesize=2m", "filesize=2m\nsize=8m"] {
        let text = format!("[a]\nfilename=x:y\nioengine=psync\nrw=write\nbs=4k\n{words}\n");
        let folder = with("job.fio", &text);
        let length = |name: &str| {
            let path = folder.path().join(name);
            let length = std::fs::metadata(&path).map_or(0, |there| there.len());
            let _ = std::fs::remove_file(path);
            length
        };
        let theirs = theirs(&fio, folder.path(), "job.fio");
        let their_files = [length("x"), length("y")];
        let ours = ours(&drumfire, folder.path(), "job.fio");
        assert_eq!([length("x"), length("y")], their_files, "{words}");
        let bytes = |of: &Value| of["jobs"][0]["write"]["io_bytes"].as_u64().unwrap();
        assert_eq!(bytes(&ours), bytes(&theirs), "{words}");
    }
    let text = "[a]\nfilename=x:y\nioengine=libaio\nrw=write\nsize=8m\nrate_iops=1000\niodepth=8\n";
    let folder = with("job.fio", text);
    let explained = drumfire.run(folder.path(), "explain job.fio --as toml", LIMIT).ok().stdout;
    assert!(explained.contains("per_second = 500.0"), "{explained}");
    assert!(explained.contains("outstanding = 4"), "{explained}");
}

/// Sizes in percent, and defaults, refer to the file that an earlier job creates.
#[test]
fn a_file_has_the_size_that_a_job_before_gives_it() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(fio) = require("fio") else { return };
    for words in ["size=25%", "offset=1m", "offset=50%\nsize=50%", "size=1m", "io_size=10%"] {
        let text = format!(
            "[global]\nfilename=f\nioengine=psync\nname=all\n[w]\nrw=write\nsize=4m\n\
             [r]\nstonewall\nrw=randread\n{words}\n"
        );
        let folder = with("job.fio", &text);
        let ours = ours(&drumfire, folder.path(), "job.fio");
        std::fs::remove_file(folder.path().join("f")).unwrap();
        let theirs = theirs(&fio, folder.path(), "job.fio");
        assert_eq!(jobs(&ours), jobs(&theirs), "{words}");
        let ios = |of: &Value| of["jobs"][1]["read"]["total_ios"].as_u64().unwrap();
        assert_eq!(ios(&ours), ios(&theirs), "{words}");
    }
}

/// A missing file that a job reads is written first, as with fio; nothing else is touched.
#[test]
fn a_missing_file_is_written_before_it_is_read() {
    let Some(drumfire) = Drumfire::find() else { return };
    let text = "[global]\nioengine=psync\nsize=4m\n[r]\nrw=randread\nnumjobs=2\n[w]\nrw=write\n\
        filename=w.img\n[rw]\nstonewall\nfilename=w.img\nrw=randrw\n";
    let folder = with("job.fio", text);
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let explained = run("explain job.fio").ok().stdout;
    assert!(explained.contains("before the run, r.0.0 is written, 4m"), "{explained}");
    assert!(!explained.contains("w.img is written"), "{explained}");
    let done = run("run job.fio --json --out out").ok();
    assert!(done.stderr.contains("laying out r.1.0, 4m"), "{done:?}");
    let exists = |step: &Value| {
        let checks = step["checks"].as_array().unwrap();
        checks.iter().find(|check| check["code"] == "H02").unwrap()["verdict"].clone()
    };
    for step in ["out/step-1", "out/step-2"] {
        let result = run(&format!("report {step} --as json")).ok().json();
        assert_eq!(exists(&result), "pass", "{result}");
    }
    let bytes = std::fs::read(folder.path().join("r.0.0")).unwrap();
    assert_eq!(bytes.len(), 4 << 20);
    assert!(bytes.chunks(4096).all(|block| block.iter().any(|byte| *byte != 0)));
    // A job may overwrite files that it has just created.
    std::fs::write(folder.path().join("both.fio"), "[a]\nsize=4m\nrw=randrw\n").unwrap();
    run("run both.fio").ok();
    assert_eq!(run("run both.fio").code, Some(2), "it holds data now");
    // Files with content are left as they are.
    std::fs::write(folder.path().join("r.0.0"), b"mine").unwrap();
    let done = run("run job.fio");
    assert_ne!(done.code, Some(0), "{done:?}");
    assert_eq!(std::fs::read(folder.path().join("r.0.0")).unwrap(), b"mine");
    assert!(!folder.path().join("r.0.0.part").exists());
}

#[test]
fn we_do_the_work_that_fio_does() {
    let same = |what: &str, a: f64, b: f64, tolerance: f64| {
        assert!((a - b).abs() <= tolerance * b.max(1.0), "{what}: {a} for {b}");
    };
    for (words, exact) in [
        ("rw=randread\nsize=32m", true),
        // The last block does not fit; an io_size is exceeded by it.
        ("rw=write\nbs=64k\nsize=1000k\nloops=2", true),
        ("rw=randread\nbs=3k\nsize=1m", true),
        ("rw=read\nbs=3k\nsize=1m\nio_size=100k", true),
        ("rw=write\nbs=64k\nsize=32m\nloops=3", true),
        ("rw=read\nbs=4k\nsize=64m\nio_size=16m", true),
        ("rw=read:12k\nbs=4k\nsize=64m\nio_size=8m", true),
        ("rw=randrw\nrwmixread=70\nsize=256m\nnorandommap", false),
        ("rw=randread\nbssplit=512/10:4k/60:64k/30\nsize=1g\nnorandommap", false),
        ("rw=randread\nbsrange=4k-10k\nsize=512m\nnorandommap", false),
        ("rw=trimwrite\nsize=8m", true),
        ("rw=randtrimwrite\nsize=8m", true),
        ("rw=randwrite\nnumjobs=2\nbs=8k,16k\nsize=32m\nnorandommap\ngroup_reporting", true),
    ] {
        let Some((ours, theirs)) = both(&format!("[a]\nioengine=null\n{words}\n")) else { return };
        let tolerance = if exact { 0.0 } else { 0.03 };
        for direction in ["read", "write", "trim"] {
            for key in ["total_ios", "io_bytes"] {
                let of = |document: &Value| document["jobs"][0][direction][key].as_f64().unwrap();
                let what = format!("{words:?}: {direction} {key}");
                same(&what, of(&ours), of(&theirs), tolerance);
            }
        }
    }
}

/// I/Os of the ramp count towards the size, but not in the results.
#[test]
fn a_ramp_takes_its_share_of_the_size() {
    let text = "[a]\nioengine=null\nsize=4m\nbs=4k\nrw=read\nrate_iops=400\nramp_time=1\n";
    let Some((ours, theirs)) = both(text) else { return };
    let ios = |of: &Value| of["jobs"][0]["read"]["total_ios"].as_f64().unwrap();
    // 1024 I/Os, about 400 of them in the first second: on a busy machine fewer, or more. If the
    // ramp did not count towards the size, or were in the results, all 1024 would be reported.
    for (who, ios) in [("ours", ios(&ours)), ("theirs", ios(&theirs))] {
        assert!((1.0..1024.0).contains(&ios), "{who}: {ios}");
    }
    let Some(drumfire) = Drumfire::find() else { return };
    // The job ends after a quarter of a second, when all is done.
    let text = text.replace("4m", "1m").replace("400", "1000").replace("time=1", "time=600");
    let folder = with("job.fio", &text);
    let all = drumfire.run(folder.path(), "run job.fio --json", LIMIT).ok().json();
    assert_eq!(all["totals"]["ios"], 256, "what ends within its ramp is the result: {all}");
    let warned = all["warnings"].to_string();
    assert!(warned.contains("all I/O completed within the ramp of 600 s"), "{all}");
    // One of the two jobs continues, and each has its own ramp.
    let two = "[a]\nioengine=null\nsize=1m\nbs=4k\nrw=read\nramp_time=2\n[b]\nioengine=null\n\
        size=2m\nbs=4k\nrw=read\nrate_iops=150\nramp_time=1\n";
    let Some((ours, theirs)) = both(two) else { return };
    let first = |of: &Value| of["jobs"][0]["read"]["total_ios"].as_u64().unwrap();
    assert_eq!((first(&ours), first(&theirs)), (256, 256), "{ours}");
    let second = |of: &Value| of["jobs"][1]["read"]["total_ios"].as_u64().unwrap();
    assert!((1..512).contains(&second(&ours)), "{ours}");
    assert!((1..512).contains(&second(&theirs)), "{theirs}");
    // Writes that prepare the verification do not count towards `io_size`; reads of the
    // verification do.
    let text = "[a]\nfilename=x.img\nsize=16m\nio_size=4m\nbs=4k\nrw=randrw\nverify=crc32c\n";
    let folder = with("job.fio", text);
    let all = drumfire.run(folder.path(), "run job.fio --json", LIMIT).ok().json();
    let written = all["totals"]["write"]["ios"].as_u64().unwrap();
    assert_eq!(all["totals"]["ios"], 1024 + written, "{all}");
}

/// Start and end of jobs, their amount of work, and their final flush.
#[test]
fn jobs_take_their_turns_as_with_fio() {
    let text = "[global]\nioengine=null\nsize=1m\ntime_based\nruntime=1\nrate_iops=500\n\
        [a]\n[b]\nstartdelay=1500ms\n[c]\nwait_for=b\nruntime=500ms\n\
        [d]\nnumber_ios=40\ntime_based=0\nsize=1g\n";
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let folder = with("job.fio", text);
    let began = Instant::now();
    let ours = ours(&drumfire, folder.path(), "job.fio");
    took_turns(&ours, began.elapsed());
    let began = Instant::now();
    let theirs = theirs(&fio, folder.path(), "job.fio");
    took_turns(&theirs, began.elapsed());
    assert_eq!(jobs(&ours), jobs(&theirs));
    assert_eq!(ours["jobs"][3]["read"]["total_ios"], 40);
}

/// A job's runtime includes neither its wait nor the time after it: sequential jobs take no longer
/// than all together did, however long a busy host made that. With its wait, `b` would take a
/// second and a half more, `c` two and a half; with the time after it, `d` three more. The last
/// I/Os may be missing on a busy host.
fn took_turns(document: &Value, all: Duration) {
    let of = |job: usize, key: &str| document["jobs"][job]["read"][key].as_f64().unwrap();
    let [a, b, c, d] = [0, 1, 2, 3].map(|job| of(job, "runtime"));
    assert!(a >= 900.0 && b >= 900.0 && c >= 400.0, "{a} {b} {c}");
    let most = all.as_secs_f64() * 1e3 + 800.0;
    assert!(a + b + c <= most && d + b + c <= most, "{a} {b} {c} {d} of {most} ms");
    for job in 0..4 {
        let (ms, ios) = (of(job, "runtime"), of(job, "total_ios"));
        assert!(ios > 0.0 && ios <= ms / 2.0 + 100.0, "{ios} in {ms} ms");
        // Runtimes are in whole milliseconds, of which a short job has few.
        let rate = ios / ms * 1e3;
        assert!((of(job, "iops") - rate).abs() <= 0.03 * rate, "{rate}: {}", of(job, "iops"));
    }
}

/// Block sizes that are no multiple of a sector, as in the well-known test for etcd.
#[test]
fn any_length_goes_to_a_file_as_with_fio() {
    let text = "[mytest]\nrw=write\nioengine=sync\nfdatasync=1\nsize=300k\nbs=2300\n\
        [back]\nstonewall\nrw=randrw\nsize=300k\nbssplit=100/50:700/50\nfilename=mytest.0.0\n";
    let Some((ours, theirs)) = both(text) else { return };
    let writes = |of: &Value| of["jobs"][0]["write"]["total_ios"].as_u64().unwrap();
    assert_eq!((writes(&ours), writes(&theirs)), (133, 133));
    // Flushes of fdatasync are not counted, and their latencies are shown.
    for of in [&ours, &theirs] {
        let sync = &of["jobs"][0]["sync"];
        assert_eq!(sync["total_ios"], 0);
        assert!(sync["lat_ns"]["percentile"]["50.000000"].as_u64() > Some(0), "{sync}");
    }
    let bytes = |of: &Value| {
        let job = &of["jobs"][1];
        let bytes = |way: &str| job[way]["io_bytes"].as_u64().unwrap();
        bytes("read") + bytes("write")
    };
    // The last I/O may be the shorter or the longer one.
    assert!(bytes(&ours).abs_diff(bytes(&theirs)) <= 700, "{} {}", bytes(&ours), bytes(&theirs));
}

/// Files are those of fio, of the same sizes, written completely by the same number of I/Os.
#[test]
fn a_job_of_many_files_makes_those_of_fio() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for words in ["", "file_service_type=sequential\n", "rw=randwrite\nfile_service_type=random\n"]
    {
        let text = format!(
            "[many]\nnrfiles=6\nnumjobs=2\nsize=768k\nrw=write\nbs=16k\nend_fsync=1\n{words}"
        );
        let (one, two) = (with("job.fio", &text), with("job.fio", &text));
        let ours = ours(&drumfire, one.path(), "job.fio");
        let theirs = theirs(&fio, two.path(), "job.fio");
        let ios = |of: &Value| -> Vec<u64> {
            let jobs = of["jobs"].as_array().unwrap().iter();
            jobs.map(|job| job["write"]["total_ios"].as_u64().unwrap()).collect()
        };
        assert_eq!((ios(&ours), ios(&theirs)), (vec![48, 48], vec![48, 48]), "{text}");
        let files = |folder: &Folder| -> Vec<(String, u64, bool)> {
            let file = |entry: std::io::Result<std::fs::DirEntry>| {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let data = std::fs::read(path).unwrap();
                let whole = data.chunks(16 << 10).all(|part| part.iter().any(|byte| *byte != 0));
                (name, data.len() as u64, whole)
            };
            let all = std::fs::read_dir(folder.path()).unwrap();
            let all = all.filter(|entry| entry.as_ref().unwrap().path().is_file()).map(file);
            let mut all: Vec<_> = all.filter(|(name, ..)| name.starts_with("many")).collect();
            all.sort();
            all
        };
        assert_eq!(files(&one), files(&two), "{text}");
        assert_eq!(files(&one).len(), 12);
        assert!(files(&one).iter().all(|(_, bytes, whole)| *bytes == 128 << 10 && *whole));
    }
}

/// The job ends long before its hour, as with fio, and reports why.
#[test]
fn a_job_ends_when_it_is_steady() {
    let text = "[a]\nioengine=null\nsize=1g\ntime_based\nruntime=3600\nrate_iops=400\n\
        ss=iops:15%\nss_dur=3\nss_ramp=1\n";
    let Some((ours, theirs)) = both(text) else { return };
    let runtime = |of: &Value| of["jobs"][0]["read"]["runtime"].as_u64().unwrap();
    // Later if the host makes the rate vary.
    for ms in [runtime(&ours), runtime(&theirs)] {
        assert!((3500..3_000_000).contains(&ms), "{ms}");
    }
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with("job.fio", text);
    let run = drumfire.run(folder.path(), "run job.fio --json", LIMIT).ok().json();
    let said = run["warnings"][0].as_str().unwrap();
    assert!(said.starts_with("steady after ") && run["partial"] == Value::Null, "{said}");
}

/// Written data are durable when the job ends, and its runtime lasts until then, however the job
/// ends.
#[test]
fn the_flush_at_the_end_is_done_and_counted() {
    let Some(drumfire) = Drumfire::find() else { return };
    for (words, least_s) in [("", 0.0), ("time_based\nruntime=1\n", 1.0)] {
        for flush in ["end_fsync=1", "fsync_on_close=1"] {
            let text = format!("[a]\nfilename=x\nsize=4m\nrw=write\nbs=64k\n{words}{flush}\n");
            let folder = with("job.fio", &text);
            let run = drumfire.run(folder.path(), "run job.fio --json", LIMIT).ok().json();
            let totals = &run["totals"];
            assert_eq!(totals["flush"]["ios"], 1, "{text}{totals}");
            assert!(totals["seconds"].as_f64().unwrap() > least_s, "{totals}");
            assert_eq!(run["partial"], Value::Null);
            let whole = totals["write"]["bytes"] == 4 << 20;
            assert_eq!(whole, words.is_empty(), "{totals}");
        }
    }
}

#[test]
fn fio_reads_what_we_write() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    let text = "[global]\nioengine=io_uring\nfilename=x.img\nsize=64m\ndirect=0\nruntime=1500ms\n\
        time_based\n[a]\nrw=randrw\nrwmixread=80\nbssplit=512/10:4k/90,8k\niodepth=4\nrate=8m,2m\n\
        [b]\nstonewall\nrw=read:12k\nthinktime=50\nsync=dsync\n[c]\nstonewall\nrw=randwrite\n\
        random_distribution=zipf:1.2\nverify=0\nfsync=8\npercentage_random=50\n";
    let folder = with("job.fio", text);
    let written = drumfire.run(folder.path(), "explain job.fio --as fio", LIMIT).ok().stdout;
    std::fs::write(folder.path().join("again.fio"), &written).unwrap();
    let mut command = Command::new(fio);
    command.args(["--parse-only", "again.fio"]).current_dir(folder.path());
    let parsed = run(&mut command, LIMIT).ok();
    assert!(!parsed.stderr.contains("fio:"), "{parsed:?}\n{written}");
    let explain = |name: &str| {
        let explained = drumfire.run(folder.path(), &format!("explain {name} --as toml"), LIMIT);
        let words = |line: &&str| !line.starts_with("options = ");
        explained.ok().stdout.lines().filter(words).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(explain("again.fio"), explain("job.fio"));
}
