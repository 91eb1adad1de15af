//! One measurement of several hosts without a protocol: `run --start-at --part`, then `merge`.
//! Hosts are processes with a name each, or namespaces with a name and a network of their own.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use drumfire_tests::{Drumfire, Finished, Folder, Running, require, run, skip};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// Returns the Unix time `seconds` from now.
fn ahead(seconds: f64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    now.as_secs_f64() + seconds
}

/// A run on this machine as host `name`.
fn args(name: &str, at: f64, more: &str) -> String {
    format!(
        "run ram:16m --size 4k --rate 2k --outstanding 4 --ramp 0 --no-cold-reads --no-ceiling \
         --start-at {at:.6} --part {name}.json --host {name} --out {name} {more}"
    )
}

/// Runs hosts at the same time, to their end.
fn all_run(drumfire: &Drumfire, folder: &Path, names: &[&str], seconds: u32) -> Vec<Finished> {
    let at = ahead(4.0);
    let start = |name: &&str| {
        let args = args(name, at, &format!("--seconds {seconds}"));
        Running::start(&mut drumfire.command(folder, &args))
    };
    let running: Vec<Running> = names.iter().map(start).collect();
    running.into_iter().map(|one| one.finish(LIMIT)).collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn check<'a>(result: &'a Value, code: &str) -> &'a Value {
    result["checks"].as_array().unwrap().iter().find(|check| check["code"] == code).unwrap()
}

/// Counts by bucket of all directions.
fn counts(result: &Value) -> BTreeMap<u64, u64> {
    let mut all = BTreeMap::new();
    for of in ["read", "write"] {
        let buckets = &result["histograms"][of];
        let list = |name: &str| buckets[name].as_array().cloned().unwrap_or_default();
        for (from, count) in list("from_ns").iter().zip(&list("count")) {
            *all.entry(from.as_u64().unwrap()).or_default() += count.as_u64().unwrap();
        }
    }
    all
}

#[test]
fn three_hosts_are_one_measurement() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let names = ["a", "b", "c"];
    for finished in all_run(&drumfire, folder.path(), &names, 3) {
        assert_eq!(finished.code, Some(0), "{finished:?}");
        assert!(finished.stderr.contains("start skew: began"), "{finished:?}");
    }
    let parts: Vec<Value> =
        names.iter().map(|name| json(&folder.path().join(format!("{name}.json")))).collect();
    let merged =
        drumfire.run(folder.path(), "merge a.json b.json c --json --out merged --expect 3", LIMIT);
    assert_eq!(merged.code, Some(0), "{merged:?}");
    let merged = merged.json();
    let sum = |path: &str| -> u64 {
        parts.iter().map(|part| part.pointer(path).unwrap().as_u64().unwrap()).sum()
    };
    assert_eq!(merged["totals"]["ios"], sum("/totals/ios"));
    assert_eq!(merged["hosts"].as_array().unwrap().len(), 3);
    let mut own: BTreeMap<u64, u64> = BTreeMap::new();
    for (from, count) in parts.iter().flat_map(counts) {
        *own.entry(from).or_default() += count;
    }
    assert_eq!(counts(&merged), own);
    let ends = |of: &str| -> Vec<u64> {
        parts.iter().map(|part| part["totals"]["latency_ns"][of].as_u64().unwrap()).collect()
    };
    assert_eq!(merged["totals"]["latency_ns"]["min"], *ends("min").iter().min().unwrap());
    assert_eq!(merged["totals"]["latency_ns"]["max"], *ends("max").iter().max().unwrap());
    // Three times 2,000 I/Os a second.
    let rate = merged["totals"]["iops"].as_f64().unwrap();
    assert!((rate / 6000.0 - 1.0).abs() < 0.05, "{rate}");
    assert_eq!(check(&merged, "M01")["verdict"], "pass", "{}", check(&merged, "M01"));
    assert_eq!(check(&merged, "M02")["verdict"], "pass");
    // Processes of one machine.
    assert_eq!(check(&merged, "M03")["verdict"], "warn");
    assert!(merged["skew_ns"].as_u64().unwrap() < 100_000_000, "{}", merged["skew_ns"]);
    let seeds: Vec<&Value> = parts.iter().map(|part| &part["seed"]).collect();
    assert!(seeds[0] != seeds[1] && seeds[1] != seeds[2], "{seeds:?}");
    assert_eq!(merged["seed"], 1);
    // The folder is that of a run, in every form.
    let report = drumfire.run(folder.path(), "report merged", LIMIT);
    assert!(report.stdout.contains("hosts    3 · together for"), "{report:?}");
    assert!(report.stdout.contains("M03 own-machines"), "{report:?}");
    for form in ["html", "csv", "fio+", "junit", "influx", "hlog"] {
        let shown = drumfire.run(folder.path(), &format!("report merged --as {form}"), LIMIT);
        assert_eq!(shown.code, Some(0), "{form}: {shown:?}");
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let names = ["a", "b"];
    for finished in all_run(&drumfire, folder.path(), &names, 1) {
        assert_eq!(finished.code, Some(0), "{finished:?}");
    }
    let other = args("c", ahead(3.0), "--seconds 2");
    assert_eq!(drumfire.run(folder.path(), &other, LIMIT).code, Some(0));
    let merge = |what: &str| drumfire.run(folder.path(), &format!("merge {what}"), LIMIT);
    let refused = |what: &str, why: &str| {
        let finished = merge(what);
        assert_eq!(finished.code, Some(2), "{what}: {finished:?}");
        assert!(finished.stderr.contains(why), "{what}: {finished:?}");
    };
    refused("a.json a", "host a twice");
    refused("a.json c.json", "settings differ, steps.0.seconds: 1.0 on a, 2.0 on c");
    refused("a.json b.json --expect 1", "2 parts of 1 hosts");
    let text = fs::read_to_string(folder.path().join("a.json")).unwrap();
    let spoilt = |name: &str, spoil: &dyn Fn(&str) -> String| {
        fs::write(folder.path().join(name), spoil(&text)).unwrap();
    };
    spoilt("cut.json", &|text| text[..text.len() / 2].to_owned());
    spoilt("empty.json", &|_| String::new());
    spoilt("more.json", &|text| text.replacen("\"ios\": ", "\"ios\": 9", 1));
    spoilt("nan.json", &|text| text.replacen("\"seconds\": ", "\"seconds\": NaN, \"x\": ", 1));
    spoilt("deep.json", &|_| "[".repeat(1 << 20));
    for name in ["cut.json", "empty.json", "more.json", "nan.json", "deep.json"] {
        refused(&format!("{name} b.json"), name);
    }
    assert_eq!(
        drumfire.run(folder.path(), "run ram:1m --seconds 1 --ramp 0 --out d", LIMIT).code,
        Some(0)
    );
    refused("a.json d", "made without --part");
    // A file that claims to be long is not read.
    let huge = fs::File::create(folder.path().join("huge.json")).unwrap();
    huge.set_len(1 << 40).unwrap();
    refused("huge.json", "larger than any part");
    // Hosts that measured one after the other are reported.
    let args = args("late", ahead(3.0), "--seconds 1");
    assert_eq!(drumfire.run(folder.path(), &args, LIMIT).code, Some(0));
    let apart = merge("a.json late.json --strict --json");
    assert_eq!(apart.code, Some(3), "{}", apart.stderr);
    let apart = apart.json();
    assert_eq!(
        (&apart["class"], &check(&apart, "M01")["verdict"]),
        (&"invalid".into(), &"fail".into())
    );
    assert!(check(&apart, "M01")["because"].as_str().unwrap().contains("late began last"));
}

#[test]
fn times_are_refused_with_what_to_do() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for (flags, why) in [
        ("--start-at 2020-01-01T00:00:00Z", "is past, now is"),
        ("--start-at soon", "is no time"),
        ("--start-at +1s --ramp 5", "the ramp before it takes 5.00 s: give a later time"),
        ("--start-at 1764500000000", "days ahead"),
        ("--start-at +30s --host x", "--part"),
        ("--part none/a.json", "none"),
    ] {
        let run = format!("run ram:1m --seconds 1 {flags}");
        let finished = drumfire.run(folder.path(), &run, LIMIT);
        assert_eq!(finished.code, Some(2), "{flags}: {finished:?}");
        assert!(finished.stderr.contains(why), "{flags}: {finished:?}");
    }
}

/// A host that is lost leaves the seconds it measured, and the result reports the loss.
#[test]
fn a_killed_host_leaves_its_seconds() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let at = ahead(4.0);
    let start = |name: &str| {
        Running::start(&mut drumfire.command(folder.path(), &args(name, at, "--seconds 10")))
    };
    let (whole, killed) = (start("a"), start("b"));
    let part = folder.path().join("b.json");
    let begin = std::time::Instant::now();
    while !part.is_file() && begin.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(50));
    }
    killed.signal(Signal::KILL);
    assert_eq!(killed.finish(LIMIT).code, None);
    assert_eq!(whole.finish(LIMIT).code, Some(0));
    let merged = drumfire.run(folder.path(), "merge a.json b.json --expect 3 --json", LIMIT);
    assert_eq!(merged.code, Some(6), "{merged:?}");
    let merged = merged.json();
    let partial = merged["partial"].as_str().unwrap();
    assert!(
        partial.contains("1 of 3 hosts is lost") && partial.contains("b: cut off"),
        "{partial}"
    );
    let hosts = merged["hosts"].as_array().unwrap();
    let seconds = |at: usize| hosts[at]["seconds"].as_f64().unwrap();
    assert!(seconds(0) > 9.9 && (4.9..9.9).contains(&seconds(1)), "{hosts:?}");
    // The killed host did not measure to the end.
    assert_eq!(check(&merged, "M01")["verdict"], "fail");
}

/// Runs the script of the how-to page for ssh, with namespaces as hosts: each has a separate host
/// name and network.
#[test]
fn hosts_with_names_of_their_own_need_no_flag() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(unshare) = require("unshare") else { return };
    let folder = Folder::new();
    let probe = run(Command::new(&unshare).args(["--uts", "--net", "true"]), LIMIT);
    if probe.code != Some(0) {
        skip("no namespaces: they need root");
        return;
    }
    let script = "set -e\n\
        at=$(($(date +%s) + 4))\n\
        for host in $HOSTS; do\n\
            $LAUNCH \"hostname $host; $DRUMFIRE run ram:16m --seconds 2 --ramp 0 --rate 1k \
                --no-cold-reads --no-ceiling --start-at $at --part $host.json --out $host\" &\n\
        done\n\
        wait\n\
        $DRUMFIRE merge *.json --expect 2 --out merged --json > merged.txt\n";
    let mut launcher = Command::new("sh");
    launcher.args(["-c", script]).current_dir(folder.path());
    launcher.env("HOSTS", "node1 node2").env("DRUMFIRE", drumfire.path());
    launcher.env("LAUNCH", format!("{} --uts --net sh -c", unshare.display()));
    let finished = run(&mut launcher, LIMIT);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let merged = json(&folder.path().join("merged/result.json"));
    let names: Vec<&str> =
        merged["hosts"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["node1", "node2"]);
    assert_eq!(check(&merged, "M01")["verdict"], "pass", "{}", check(&merged, "M01"));
}

/// A thousand hosts: the part of one, with names, machines and seeds of a thousand.
#[test]
fn a_thousand_hosts_take_little_memory() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(python) = require("python3") else { return };
    let folder = Folder::new();
    let args = args("h", ahead(3.0), "--seconds 3");
    assert_eq!(drumfire.run(folder.path(), &args, LIMIT).code, Some(0));
    let part = json(&folder.path().join("h.json"));
    fs::create_dir(folder.path().join("parts")).unwrap();
    for number in 0..1000_u64 {
        let mut part = part.clone();
        part["part"]["host"] = format!("node{number:04}").into();
        part["part"]["machine"] = format!("machine {number}").into();
        part["seed"] = number.into();
        // The result of a killed run has no digest.
        part.as_object_mut().unwrap().remove("digest");
        fs::write(folder.path().join(format!("parts/{number}.json")), part.to_string()).unwrap();
    }
    // The most memory that the program had, in KiB.
    let script = "import glob, resource, subprocess, sys\n\
        parts = glob.glob('parts/*.json')\n\
        done = subprocess.run([sys.argv[1], 'merge', *parts, '--expect', '1000',\n\
            '--out', 'merged'], stdout=subprocess.DEVNULL)\n\
        print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n";
    let mut measured = Command::new(python);
    measured.args(["-c", script]).arg(drumfire.path()).current_dir(folder.path());
    let measured = run(&mut measured, 5 * LIMIT);
    let (code, kib) =
        measured.stdout.trim().split_once(' ').unwrap_or_else(|| panic!("{measured:?}"));
    assert_eq!(code, "0", "{measured:?}");
    assert!(kib.parse::<u64>().unwrap() < 200 * 1024, "{kib} KiB");
    let merged = json(&folder.path().join("merged/result.json"));
    assert_eq!(merged["hosts"].as_array().unwrap().len(), 1000);
    let ios = part["totals"]["ios"].as_u64().unwrap();
    assert_eq!(merged["totals"]["ios"], 1000 * ios);
    assert_eq!(merged["totals"]["latency_ns"]["p50"], part["totals"]["latency_ns"]["p50"]);
}
