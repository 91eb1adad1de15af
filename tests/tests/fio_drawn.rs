//! Command lines drawn from a seed, run by the installed fio and by ours: the same jobs, errors,
//! I/Os, bytes, shares and keys.
//!
//! `DRUMFIRE_FIO_CASES` sets the number of command lines, 16 by default, and `DRUMFIRE_FIO_SEED`
//! the first seed. A line with different results is printed with its seed.

use std::collections::BTreeSet;
use std::env;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
/// Length of the file that jobs may share, in bytes.
const FILE_BYTES: usize = 1 << 20;

/// Numbers from a seed, by SplitMix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % limit as u64) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// One of the options, in one of `in_cases` cases.
    fn rarely(&mut self, in_cases: usize, of: &[&str]) -> String {
        if self.below(in_cases) == 0 { format!("{} ", self.one(of)) } else { String::new() }
    }
}

/// Options with deterministic I/Os and bytes, or random ones with a known mean.
fn job(draw: &mut Draw, name: char) -> String {
    let reads = ["--rw=read", "--rw=randread", "--readwrite=randread"];
    let writes = ["--rw=write", "--rw=randwrite", "-rw=write"];
    let mixes = ["--rw=randrw", "--rw=rw --rwmixread=70", "--rw=randrw --rwmixwrite=20"];
    let mut line = format!("--name={name} ");
    let way = draw.below(5);
    let rw = match way {
        0 | 1 => draw.one(&reads),
        2 | 3 => draw.one(&writes),
        _ => draw.one(&mixes),
    };
    line += rw;
    line += " ";
    line += draw.one(&["--bs=4k ", "--bs=8k ", "--blocksize=16k ", "--bs=4096 ", ""]);
    let files = draw.rarely(3, &["--filename=t", "--filename=x:y", "--nrfiles=2"]);
    // A remainder of a file that is too small for an I/O is tested elsewhere.
    let odd = if files.is_empty() { "--size=200k " } else { "--size=192k " };
    line += draw.one(&["--size=256k ", "--size=512k ", odd, "--size=1M "]);
    line += &files;
    line += &draw.rarely(3, &["--numjobs=2", "--numjobs=3"]);
    line += &draw.rarely(
        2,
        &[
            "--ioengine=libaio --iodepth=4",
            "--ioengine=io_uring --iodepth 8",
            "--ioengine=psync",
            "--ioengine=libaio --direct=1 --iodepth=16",
        ],
    );
    line += &draw.rarely(4, &["--io_size=128k", "--number_ios=7", "--loops=2", "--io_limit=50%"]);
    // Flushes count among the I/Os of fio's number_ios, as many as are in flight by chance.
    if (way == 2 || way == 3) && !line.contains("number_ios") {
        line += &draw.rarely(3, &["--fsync=4", "--fdatasync=3", "--end_fsync=1"]);
    }
    line += &draw.rarely(5, &["--stonewall", "--new_group"]);
    line += &draw.rarely(4, &["--norandommap", "--thread", "--invalidate=1", "--refill_buffers"]);
    line
}

/// A command line: options for all jobs, then one to three jobs, with some of the options without
/// effect.
fn line(seed: u64, harmless: &[String]) -> String {
    let mut draw = Draw(seed);
    let mut line = String::new();
    line += &draw.rarely(3, &["--direct=0", "--bs=8k", "--randrepeat=1", "--group_reporting"]);
    for name in ['a', 'b', 'c'].into_iter().take(1 + draw.below(3)) {
        line += &job(&mut draw, name);
        if draw.below(3) == 0 {
            line += &format!("--{}=0 ", harmless[draw.below(harmless.len())]);
        }
    }
    line
}

/// The JSON document in a program's output, without the messages before it.
fn document(finished: &Finished) -> Option<Value> {
    let begin = finished.stdout.find('{')?;
    serde_json::from_str(&finished.stdout[begin..]).ok()
}

fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                // Directions without I/Os have no percentiles, and disk activity depends on the
                // machine.
                if key != "percentile" && key != "disk_util" {
                    let path = format!("{path}/{key}");
                    keys(value, &path, found);
                    found.insert(path);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, path, found)),
        _ => {}
    }
}

/// I/Os and bytes of each direction of a job.
fn done(job: &Value) -> [(u64, u64); 3] {
    ["read", "write", "trim"].map(|way| {
        let of = |key: &str| job[way][key].as_u64().unwrap_or_default();
        (of("total_ios"), of("io_bytes"))
    })
}

/// First rate of a job that is not its count over its runtime. Runtimes are in whole milliseconds.
fn rates(job: &Value) -> Option<String> {
    ["read", "write", "trim"].into_iter().find_map(|way| {
        let of = |key: &str| job[way][key].as_f64().unwrap_or_default();
        let runtime_s = of("runtime") / 1e3;
        let off = |rate: f64, count: f64| {
            (rate * runtime_s - count).abs() > rate * 1e-3 + count * 1e-2 + 1.0
        };
        let means = of("iops_samples") > 1.0 && of("iops_mean") > 2.0 * of("iops_max") + 1.0;
        let wrong =
            off(of("iops"), of("total_ios")) || off(of("bw_bytes"), of("io_bytes")) || means;
        wrong.then(|| format!("{way} adds up to something else: {}", job[way]))
    })
}

/// Differences of two documents.
fn differences(theirs: &Value, ours: &Value) -> Vec<String> {
    let none = Vec::new();
    let jobs = |of: &Value| of["jobs"].as_array().unwrap_or(&none).clone();
    let (theirs_jobs, ours_jobs) = (jobs(theirs), jobs(ours));
    let named = |jobs: &[Value]| -> Vec<String> {
        let name = |job: &Value| format!("{} {} {}", job["jobname"], job["groupid"], job["error"]);
        jobs.iter().map(name).collect()
    };
    let mut found = Vec::new();
    if named(&theirs_jobs) != named(&ours_jobs) {
        return vec![format!("jobs {:?}, not {:?}", named(&ours_jobs), named(&theirs_jobs))];
    }
    for (theirs, ours) in theirs_jobs.iter().zip(&ours_jobs) {
        let (a, b) = (done(theirs), done(ours));
        let sum = |of: [(u64, u64); 3]| {
            of.iter().fold((0, 0), |(ios, bytes), (more, long)| (ios + more, bytes + long))
        };
        let mixed = a.iter().filter(|(ios, _)| *ios > 0).count() > 1;
        // The share of reads in a mix is random: four standard deviations of a coin, and the
        // variation of each program.
        let (ios, spread) = (sum(a).0 as f64, 6.0 * (sum(a).0 as f64).sqrt());
        let same = if mixed { sum(a) == sum(b) } else { a == b };
        if !same || (a[0].0 as f64 - b[0].0 as f64).abs() > spread.min(ios) {
            found.push(format!("{}: {b:?}, not {a:?}", ours["jobname"]));
        }
        found.extend(rates(ours).map(|how| format!("{}: {how}", ours["jobname"])));
        let syncs = |job: &Value| job["sync"]["lat_ns"]["N"].as_u64().unwrap_or_default() > 0;
        if syncs(theirs) != syncs(ours) {
            found.push("latencies of flushes of one only".to_owned());
        }
        let sync = |job: &Value| job["sync"]["total_ios"].clone();
        if sync(theirs) != sync(ours) {
            found.push(format!("flushes {}, not {}", sync(ours), sync(theirs)));
        }
    }
    let all = |document: &Value| {
        let mut found = BTreeSet::new();
        keys(document, "", &mut found);
        found.retain(|key| !key.starts_with("/jobs/drumfire"));
        found
    };
    let apart: Vec<String> = all(theirs).symmetric_difference(&all(ours)).cloned().collect();
    if !apart.is_empty() {
        found.push(format!("keys of one only: {apart:?}"));
    }
    found
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn drawn_lines_do_what_they_do_with_fio() {
    let (Some(program), Some(drumfire)) = (require("fio"), Drumfire::find()) else { return };
    let known = drumfire.run(Folder::new().path(), "fio --cmdhelp", LIMIT).ok().stdout;
    let ignored = known.lines().filter_map(|line| line.strip_suffix(": ignored"));
    let first = ignored.filter_map(|names| names.split([',', ' ']).next());
    // Switched off, one of these hides its job from fio's document, and the other ends the job.
    let first = first.filter(|name| !matches!(*name, "stats" | "allow_file_create"));
    // fio's own help decides which of its options are boolean.
    let switch = |name: &&str| {
        let help = run(Command::new(&program).arg(format!("--cmdhelp={name}")), LIMIT);
        help.stdout.contains("boolean value")
    };
    let harmless: Vec<String> = first.filter(switch).map(str::to_owned).collect();
    assert!(harmless.len() > 10, "{harmless:?}");
    let mut wrong = Vec::new();
    let begin = number("DRUMFIRE_FIO_SEED", 1);
    for seed in begin..begin + number("DRUMFIRE_FIO_CASES", 16) {
        let (theirs, ours) = (Folder::new(), Folder::new());
        for folder in [&theirs, &ours] {
            folder.file("t", &vec![7; FILE_BYTES]);
        }
        let line = format!("{}--output-format=json", line(seed, &harmless));
        let mut command = Command::new(&program);
        let fio = run(command.current_dir(theirs.path()).args(line.split_whitespace()), LIMIT);
        let drumfire = drumfire.run(ours.path(), &format!("fio {line}"), LIMIT);
        let differs = match (document(&fio), document(&drumfire)) {
            (Some(theirs), Some(ours)) => differences(&theirs, &ours),
            (theirs, ours) if theirs.is_none() == ours.is_none() => Vec::new(),
            (_, ours) => {
                vec![format!("a document of {}: {drumfire:?}", ours.map_or("fio", |_| "ours"))]
            }
        };
        if (fio.code == Some(0)) != (drumfire.code == Some(0)) {
            wrong.push(format!(
                "seed {seed}: fio {line}\n  code {:?}, not {:?}",
                drumfire.code, fio.code
            ));
        }
        wrong.extend(differs.iter().map(|how| format!("seed {seed}: fio {line}\n  {how}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
