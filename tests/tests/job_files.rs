//! Job files of fio and Iometer: refused options, and results in the tools' own formats.

use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// A folder with one file.
fn with(name: &str, text: &str) -> Folder {
    let folder = Folder::new();
    folder.file(name, text.as_bytes());
    folder
}

fn refused(finished: &Finished, word: &str) {
    assert_eq!(finished.code, Some(2), "{finished:?}");
    let said = format!("{}{}", finished.stdout, finished.stderr);
    assert!(said.contains(word) && !said.contains("panicked"), "{word} in {finished:?}");
}

#[test]
fn what_is_refused_is_refused_by_run_and_named_by_explain() {
    let Some(drumfire) = Drumfire::find() else { return };
    let text = "[a]\nioengine=exec\niodepth=16\nsize=1m\natomic\nclocksource=cpu\n";
    let folder = with("job.fio", text);
    let explained = drumfire.run(folder.path(), "explain job.fio", LIMIT);
    refused(&explained, "refused job.fio:2: `ioengine=exec`: the engine exec is not supported");
    assert!(explained.stdout.contains("refused job.fio:5: `atomic`"), "{explained:?}");
    assert!(explained.stdout.contains("ignored job.fio:6: `clocksource=cpu`"), "{explained:?}");
    let ran = drumfire.run(folder.path(), "run job.fio", LIMIT);
    refused(&ran, "job.fio:2");
    assert_eq!(ran.stdout, "");
    assert!(folder.result().is_none(), "nothing was run");
    refused(&drumfire.run(folder.path(), "run job.fio --size 4k", LIMIT), "--size cannot be used");
    refused(&drumfire.run(folder.path(), "explain job.fio --as icf", LIMIT), "cannot be run");
}

/// One rule for all files: a flag that the job decides is refused by its name, even with the
/// default value; `--seconds` overrides the file's.
#[test]
fn what_a_file_decides_is_not_taken_from_flags() {
    let Some(drumfire) = Drumfire::find() else { return };
    let toml = "[[steps]]\nseconds = 5\n[[steps.groups]]\nvolumes = [\"null:1g\"]\n\
        workload.access.lines = [{ size_bytes = \"4k\" }]\n";
    let folder = with("job.toml", toml);
    folder.file("job.fio", b"[a]\nioengine=null\nsize=1g\nrw=randread\ntime_based\nruntime=5\n");
    folder.file("job.icf", ICF.as_bytes());
    let icf = "job.icf ram:16m ram:32m";
    for (file, named) in [("job.toml", "job.toml"), ("job.fio", "job.fio"), (icf, "job.icf")] {
        for flag in [
            "--size 512",
            "--read 50",
            "--random 0",
            "--rw read",
            "--align 4k",
            "--places once",
            "--outstanding 32",
            "--rate 1k",
            "--rate 1k --arrivals poisson",
            "--ramp 2",
            "--seed 1",
            "--workers 1",
        ] {
            for verb in ["run", "sweep"] {
                let finished = drumfire.run(folder.path(), &format!("{verb} {file} {flag}"), LIMIT);
                let name = flag.split(' ').next().unwrap();
                assert_eq!(finished.code, Some(2), "{verb} {file} {flag}: {finished:?}");
                let says = format!("drumfire: {name} cannot be used with {named}, which sets it\n");
                assert_eq!(finished.stderr, says, "{verb} {file} {flag}");
            }
        }
        assert!(!folder.path().join("drumfire-runs").exists(), "nothing was begun");
        let args = format!("run {file} --seconds 0.2 --out {named}.out --json");
        let done = drumfire.run(folder.path(), &args, LIMIT).ok().json();
        let result = if done["steps"].is_null() { &done } else { &done["steps"][0] };
        assert_eq!(result["job"]["seconds"], 0.2, "{file}");
    }
    let finished = drumfire.run(folder.path(), "run job.toml null:1t", LIMIT);
    let says = "drumfire: job.toml names its volumes: change them in that file\n";
    assert_eq!(finished.stderr, says);
    // A rerun from the saved job has no flags.
    drumfire.run(folder.path(), "run null:1g --size 4k --seconds 0.2 --ramp 0 --out a", LIMIT).ok();
    let again = drumfire.run(folder.path(), "run a/job.toml --out b --json", LIMIT).ok().json();
    assert_eq!(
        (&again["job"]["size_bytes"], &again["job"]["seconds"]),
        (&4096.into(), &0.2.into())
    );
}

#[test]
fn hostile_files_are_refused_in_one_line() {
    let Some(drumfire) = Drumfire::find() else { return };
    for (name, text, word) in [
        ("self.fio", "[a]\ninclude self.fio\n", "cannot have sections"),
        ("text.fio", "\u{1b}[2Jhello\n", "outside a section"),
        ("empty.icf", "", "no access specification"),
        ("cut.icf", "Version 1.1.0\n'TEST SETUP\n'Run Time\n", "before a value"),
        (
            "endless.fio",
            "[a]\nsize=(((((((((((((((((((((((((((((((((((1\n",
            "not a valid expression",
        ),
    ] {
        let folder = with(name, text);
        let finished = drumfire.run(folder.path(), &format!("run {name} null:1t"), LIMIT);
        refused(&finished, word);
        assert!(finished.stderr.contains(name), "{finished:?}");
        assert!(!finished.stderr.contains('\u{1b}'), "nothing for the terminal: {finished:?}");
        assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
    }
    let folder = Folder::new();
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero.fio")).unwrap();
    let finished = drumfire.run(folder.path(), "run zero.fio", LIMIT);
    assert!(finished.stderr.contains("larger than 1 MiB"), "{finished:?}");
}

const ICF: &str = "Version 2006.07.27\n'TEST SETUP ====\n\
    'Run Time\n'\thours minutes seconds\n\t0 0 1\n\
    'Queue Depth Cycling\n'\tstart      end        step       step type\n\t2 4 2 EXPONENTIAL\n\
    'Test Type\n\tCYCLE_OUTSTANDING_IOS\n'END test setup\n\
    'ACCESS SPECIFICATIONS ====\n'Access specification name,default assignment\n\tmix,NONE\n\
    'size,% of size,% reads,% random,delay,burst,align,reply\n\t4096,50,50,100,0,1,0,0\n\
    \t8192,50,100,0,0,1,0,0\n'END access specifications\n'MANAGER LIST ====\n\
    'Manager ID, manager name\n\t1,HOST\n'Manager network address\n\n'Worker\n\tWorker 1\n\
    'Worker type\n\tDISK\n'Assigned access specs\n\tmix\n'End assigned access specs\n\
    'Target assignments\n'Target\n\tC: \"System\"\n'Target type\n\tDISK\n'End target\n'Target\n\
    \tD: \"Data\"\n'Target type\n\tDISK\n'End target\n'End target assignments\n'End worker\n\
    'End manager\n'END manager list\nVersion 2006.07.27\n";

/// Profile of a drive that takes 5 ms for each of any number of I/Os.
const SLOW: &str = "name = 'slow'\n[[stage]]\nname = 'medium'\nservers = 'infinite'\n\
    shape = 'fixed'\nread = { each_s = 5e-3 }\nwrite = { each_s = 5e-3 }\n";

/// Maximum deviation of a share of `ios`: five standard deviations, and the I/Os in flight at the
/// end, which no figure includes. A worker that the host starves completes a handful in a second.
fn by_chance(share: f64, ios: u64, outstanding: u64) -> f64 {
    let ios = ios as f64;
    5.0 * (share * (1.0 - share) / ios).sqrt() + outstanding as f64 / ios
}

#[test]
fn an_iometer_configuration_runs_on_the_volumes_that_are_given() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = with("spec.icf", ICF);
    refused(&drumfire.run(folder.path(), "run spec.icf", LIMIT), "the target is not a volume");
    let one = drumfire.run(folder.path(), "run spec.icf ram:16m", LIMIT);
    refused(&one, "but the command line names 1 volume");
    // A drive has I/Os in flight while the host does not run a worker; memory has none then.
    folder.file("slow.toml", SLOW.as_bytes());
    let args = "run spec.icf delay:slow.toml(ram:16m) delay:slow.toml(ram:32m) --json --out out";
    let steps = drumfire.run(folder.path(), args, LIMIT).ok().json();
    let outstanding: Vec<f64> = steps["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["totals"]["mean_outstanding"].as_f64().unwrap())
        .collect();
    // Two and four on each of two targets.
    assert!((2.1..4.1).contains(&outstanding[0]), "{outstanding:?}");
    assert!((4.2..8.1).contains(&outstanding[1]), "{outstanding:?}");
    let csv = drumfire.run(folder.path(), "report out --as iometer", LIMIT).ok().stdout;
    let rows: Vec<Vec<&str>> = csv
        .lines()
        .filter(|line| line.starts_with("ALL,") || line.starts_with("DISK,"))
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(rows.len(), 6, "{csv}");
    for row in &rows {
        assert_eq!(row.len(), 80, "{row:?}");
        let ios: Vec<u64> = row[32..34].iter().map(|field| field.parse().unwrap()).collect();
        let bins: u64 = row[59..].iter().map(|field| field.parse::<u64>().unwrap()).sum();
        let done = ios.iter().sum::<u64>();
        // I/Os in flight at the end are in the latencies, too.
        assert!((done..done + 64).contains(&bins), "{row:?}");
        let reads = ios[0] as f64 / done as f64;
        assert!((reads - 0.75).abs() < by_chance(0.75, done, 4), "{reads} of {done}");
    }
}

#[test]
fn what_is_only_written_is_compared_at_the_end() {
    let Some(drumfire) = Drumfire::find() else { return };
    let text = "[a]\nfilename=disk.img\nsize=8m\nioengine=io_uring\niodepth=8\nrw=randwrite\n\
        bs=4k\nverify=crc32c\n";
    let folder = with("job.fio", text);
    let finished = drumfire.run(folder.path(), "run job.fio --out out --json", LIMIT).ok();
    let totals = finished.json()["totals"].clone();
    assert_eq!((&totals["write"]["ios"], &totals["read"]["ios"]), (&2048.into(), &2048.into()));
    // In an open loop data are read when the run is over.
    let open = text.replace("rw=", "rate_iops=9000\nrw=");
    let open = drumfire.run(with("job.fio", &open).path(), "run job.fio --out out", LIMIT).ok();
    assert!(open.stderr.contains("2048 blocks of 4096 bytes compared"), "{open:?}");
    // Overwrites some of the written data.
    let path = folder.path().join("disk.img");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5 * 4096 + 100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let again = drumfire.run(folder.path(), "run out/job.toml --verify-only --destroy", LIMIT);
    assert_eq!(again.code, Some(5), "{again:?}");
}

#[test]
fn seconds_come_as_lines_and_logs() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run ram:16m --seconds 2 --ramp 0 --json-lines - --out out";
    let lines = drumfire.run(folder.path(), args, LIMIT).ok().stdout;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["type"].as_str()).collect();
    assert_eq!(kinds, ["start", "second", "second", "end"]);
    let kept = std::fs::read(folder.path().join("out/result.json")).unwrap();
    let kept: Value = serde_json::from_slice(&kept).unwrap();
    let sum = |buckets: &Value| -> u64 {
        buckets["count"].as_array().map_or(0, |c| c.iter().filter_map(Value::as_u64).sum())
    };
    // I/Os in flight at the end have a latency, too.
    let samples = kept["totals"]["latency_ns"]["samples"].as_u64().unwrap();
    let ios = kept["totals"]["ios"].as_u64().unwrap();
    assert!((ios..=ios + 32).contains(&samples), "{samples} latencies of {ios}");
    assert_eq!(sum(&kept["histograms"]["read"]), samples);
    assert_eq!(kept["spans"].as_array().unwrap().iter().map(sum).sum::<u64>(), samples);
    let log = drumfire.run(folder.path(), "report out --as hlog", LIMIT).ok().stdout;
    assert_eq!(log.lines().filter(|line| !line.starts_with('#')).count(), 2, "{log}");
    let text = drumfire.run(folder.path(), "report out", LIMIT).ok().stdout;
    let report = std::fs::read_to_string(folder.path().join("out/report.txt")).unwrap();
    assert_eq!(text, report);
}
