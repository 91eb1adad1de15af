//! Sweeps and comparisons, as a user calls them: cells, resumption after a kill, refusals.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use drumfire_tests::{Drumfire, Folder, Patience, Running};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const TINY: &str = "sweep null:1g --seconds 0.2 --ramp 0";

/// Document of a sweep, if it exists.
fn document(folder: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(folder.join("sweep.json")).ok()?;
    Some(serde_json::from_str(&text).expect("sweep.json is JSON at any time"))
}

/// Completion time of each run in the document, by its folder.
fn finished(folder: &Path) -> BTreeMap<String, SystemTime> {
    let document = document(folder).unwrap_or_default();
    let cells = document["cells"].as_array().cloned().unwrap_or_default();
    let runs = cells.iter().flat_map(|cell| cell["runs"].as_array().cloned().unwrap_or_default());
    let time = |run: Value| {
        let name = run["folder"].as_str().unwrap().to_owned();
        let result = std::fs::metadata(folder.join(&name).join("result.json")).unwrap();
        (name, result.modified().unwrap())
    };
    runs.map(time).collect()
}

#[test]
fn every_cell_has_a_result_and_a_row() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args =
        format!("{TINY} --axis size=512,4k --axis outstanding=1,4,16 --repeats 2 --out s --json");
    let document = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    let cells = document["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 6);
    for cell in cells {
        let sweep = folder.path().join("s");
        let text = std::fs::read(sweep.join(cell["folder"].as_str().unwrap()).join("result.json"));
        let result: Value = serde_json::from_slice(&text.unwrap()).unwrap();
        let size = if cell["settings"][0]["value"] == "4k" { 4096 } else { 512 };
        assert_eq!(result["job"]["size_bytes"], size);
        let outstanding = cell["settings"][1]["value"].as_str().unwrap();
        assert_eq!(result["job"]["outstanding"].to_string(), outstanding);
        assert_eq!(cell["settings"][0]["number"].as_f64(), Some(f64::from(size)));
        assert_eq!(cell["settings"][0]["unit"], "bytes");
        assert_eq!(cell["settings"][1]["number"].as_f64(), outstanding.parse().ok());
        assert_eq!((&cell["iops"]["n"], &cell["iops"]["confidence"]), (&2.into(), &0.5.into()));
        assert!(cell["iops"]["median"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(document["series"].as_array().unwrap().len(), 2);
    assert_eq!(document["plan"]["axes"][0]["numbers"], serde_json::json!([512.0, 4096.0]));
    let flag = drumfire.run(folder.path(), "sweep s --size 4k", LIMIT);
    assert_eq!(flag.code, Some(2), "{flag:?}");
    assert!(flag.stderr.contains("--size cannot be used with s, which sets it"), "{flag:?}");
    let again = drumfire.run(folder.path(), "sweep s", LIMIT).ok();
    assert!(again.stdout.contains("min–max of 2 runs (50 % confidence)"));
    assert_eq!(again.stdout.matches("knee size=").count(), 2, "{}", again.stdout);
    let table = again.stdout.split_once("\nsaved in").unwrap().0;
    let report = |form: &str| drumfire.run(folder.path(), &format!("report s {form}"), LIMIT).ok();
    assert_eq!(report("").stdout.trim_end(), table.trim_end());
    let kept: Value = serde_json::from_str(&report("--as json").stdout).unwrap();
    for (kept, cell) in kept["cells"].as_array().unwrap().iter().zip(cells) {
        assert_eq!((&kept["folder"], &kept["class"]), (&cell["folder"], &cell["class"]));
        let median = |cell: &Value| cell["iops"]["median"].as_f64().unwrap();
        assert!((median(kept) / median(cell) - 1.0).abs() < 1e-12);
    }
    let page = report("--as html").stdout;
    assert!(page.contains("size=4k outstanding=16") && page.contains("knee size=512"), "{page}");
    let iometer = report("--as iometer").stdout;
    assert_eq!(iometer.matches("'Version\n").count(), 12, "each run");
    rows_are_those_of_every_run(&report("--as csv --rows run").stdout);
    let run = drumfire.run(folder.path(), "report s/001-size=512-outstanding=1 --as html", LIMIT);
    assert!(run.ok().stdout.contains("honesty checks"));
    let two = drumfire.run(folder.path(), "report s s --as html", LIMIT);
    assert_eq!(two.code, Some(2), "{two:?}");
    // A busy host may have made one of them invalid, which results in another exit code.
    let same = drumfire.run(folder.path(), "compare s s", LIMIT);
    assert!([Some(0), Some(3)].contains(&same.code), "{same:?}");
    assert!(same.stdout.matches("cannot tell: no interval").count() >= 6 * 5, "{}", same.stdout);
    assert!(same.stdout.contains("2 runs and 2 runs; 3 runs of each side"), "{}", same.stdout);
    assert!(!same.stdout.contains("higher") && !same.stdout.contains("lower"), "{}", same.stdout);
}

#[test]
fn goes_on_after_a_kill_and_makes_no_run_twice() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    // Six seconds remain when it is killed.
    let args = "sweep null:1g --seconds 1 --ramp 0 --axis outstanding=1,2,4,8 --repeats 2 --out s";
    let sweep = folder.path().join("s");
    let mut running = Running::start(&mut drumfire.command(folder.path(), args));
    running.await_that(LIMIT, |_| (finished(&sweep).len() >= 2).then_some(()));
    running.signal(Signal::KILL);
    assert_eq!(running.finish(LIMIT).code, None);
    let before = finished(&sweep);
    assert!(before.len() < 8, "killed too late to tell anything");
    let other = drumfire.run(folder.path(), &args.replace("1,2,4,8", "1,2"), LIMIT);
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(other.stderr.contains("holds another sweep"), "{other:?}");
    drumfire.run(folder.path(), args, LIMIT).ok();
    let after = finished(&sweep);
    assert_eq!(after.len(), 8);
    for (run, time) in &before {
        assert_eq!(after.get(run), Some(time), "{run} was made again");
    }
}

#[test]
fn an_interrupt_leaves_a_sweep_that_can_go_on() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "sweep null:1g --seconds 1 --ramp 0 --axis outstanding=1,2,3,4,5,6 --repeats 1 \
        --out s";
    let sweep = folder.path().join("s");
    let mut running = Running::start(&mut drumfire.command(folder.path(), args));
    running.await_that(LIMIT, |_| (!finished(&sweep).is_empty()).then_some(()));
    running.signal(Signal::INT);
    let done = running.finish(LIMIT);
    assert_eq!(done.code, Some(130), "{done:?}");
    assert!(done.stderr.contains("to resume: drumfire sweep s"), "{done:?}");
    let before = finished(&sweep);
    assert!((1..6).contains(&before.len()), "{before:?}");
    drumfire.run(folder.path(), "sweep s", LIMIT).ok();
    let after = finished(&sweep);
    assert_eq!(after.len(), 6);
    assert!(before.iter().all(|(run, time)| after.get(run) == Some(time)), "{before:?} {after:?}");
}

#[test]
fn what_does_not_exist_is_refused_with_what_does() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for (args, says) in [
        (
            "sweep null:1g --axis sise=1,2",
            "unknown setting 'sise' (did you mean 'size'?): one of size, read",
        ),
        ("sweep null:1g --axis size", "is not WORD=VALUE"),
        ("sweep null:1g --axis outstanding=0", "outstanding=0"),
        ("sweep null:1g --axis workload.acces=0", "unknown field `acces`"),
        ("sweep null:1g --ladder --rate 5k", "sets the rate"),
        ("run null:1g --preset oltp", "oltp-4k: 4 KiB, 70 % reads"),
        ("run null:1g --preset oltp-4k --size 8k", "--size cannot be used with"),
        ("run null:1g --preset steady-state --read 5", "--read cannot be used with"),
    ] {
        let done = drumfire.run(folder.path(), args, LIMIT);
        assert_eq!(done.code, Some(2), "{args}: {done:?}");
        assert!(done.stderr.contains(says), "{args}: {done:?}");
    }
    assert!(!folder.path().join("drumfire-runs").exists(), "nothing was begun");
}

#[test]
fn finds_a_rate_within_a_bound_and_climbs_a_ladder() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = format!("{TINY} --outstanding 4 --repeats 1 --p99 10s --json");
    let found = drumfire.run(folder.path(), &args, LIMIT);
    let found = found.json();
    // Whether a rate can be sustained depends on the machine; the test checks that the search ends.
    assert_eq!(found["found"].as_array().unwrap().len(), 1);
    let one = &found["found"][0];
    for (rate, held) in [("held_rate_per_s", "held"), ("missed_rate_per_s", "missed_held")] {
        assert_eq!(one[rate].is_null(), one[held].is_null(), "{one}");
        assert!(one[held].is_null() || one[held]["of"].as_u64().unwrap() >= 1, "{one}");
    }
    assert!(one["runs"].as_u64().unwrap() >= 7, "{one}");
    assert!(one["confidence"].as_f64().unwrap() > 0.93, "{one}");
    for cell in found["cells"].as_array().unwrap() {
        assert_eq!(cell["runs"].as_array().unwrap().len() as u64, cell["repeats"], "{cell}");
    }
    let args = format!("{TINY} --outstanding 4 --repeats 1 --ladder --json");
    let ladder = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    assert_eq!(ladder["cells"].as_array().unwrap().len(), 11);
    let top = ladder["cells"][0]["iops"]["median"].as_f64().unwrap();
    let half = ladder["cells"][5]["rate_per_s"].as_f64().unwrap();
    assert!((half / top - 0.5).abs() < 1e-9);
}

#[test]
fn presets_run_their_shape() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run ram:16m --preset file-server --seconds 0.2 --ramp 0 --json";
    let result = drumfire.run(folder.path(), args, LIMIT).ok().json();
    assert_eq!(result["job"]["name"], "file-server");
    assert_eq!(result["job"]["size_bytes"], Value::Null);
    assert_eq!(result["job"]["read_percent"].as_f64().map(f64::round), Some(80.0));
    let args = "run ram:16m --preset steady-state --seconds 0.2 --ramp 0 --json";
    let steps = drumfire.run(folder.path(), args, LIMIT).ok().json();
    assert_eq!(steps["steps"][0]["totals"]["write"]["bytes"], 32 << 20);
}

#[test]
fn says_when_two_runs_may_not_stand_side_by_side() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for (name, size) in [("a", "512"), ("b", "4k")] {
        let args = format!("run null:1g --seconds 2 --ramp 0 --size {size} --out {name}");
        drumfire.run(folder.path(), &args, LIMIT).ok();
    }
    let done = drumfire.run(folder.path(), "compare a b", LIMIT).ok();
    assert!(done.stdout.contains("size: 512 B → 4 KiB"), "{}", done.stdout);
    assert!(done.stdout.contains("not the same measurement"), "{}", done.stdout);
    let document = drumfire.run(folder.path(), "compare a a --json", LIMIT).ok().json();
    assert_eq!(document["comparisons"][0]["comparable"], true);
    assert_eq!(document["comparisons"][0]["figures"][0]["ratio"], 1.0);
    assert_eq!(drumfire.run(folder.path(), "compare a nowhere", LIMIT).code, Some(2));
}

/// Results of all runs below `folder`, by their relative path, with their modification times.
fn results(folder: &Path) -> BTreeMap<String, SystemTime> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder_now) = open.pop() {
        for entry in std::fs::read_dir(&folder_now).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.ends_with("result.json") {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.insert(name, path.metadata().unwrap().modified().unwrap());
            }
        }
    }
    found
}

/// Cells without digests, which include the command line.
fn cells_of(sweep: &Value) -> Value {
    let mut cells = sweep["cells"].clone();
    for cell in cells.as_array_mut().unwrap() {
        let runs = cell["runs"].as_array_mut().unwrap();
        runs.iter_mut().for_each(|run| run["source"]["digest"] = Value::Null);
    }
    cells
}

#[test]
fn a_model_is_swept_over_what_it_consists_of() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "sweep simulate x25-m --axis drives=1,2,4 --axis outstanding=1,8 --seconds 0.1 \
        --ramp 0.02 --repeats 2 --json";
    let sweep = drumfire.run(folder.path(), &format!("{args} --out a"), LIMIT).ok().json();
    let cells = sweep["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 6);
    let rate = |cell: usize| cells[cell]["iops"]["median"].as_f64().unwrap();
    // Drives share nothing: four complete four times the I/Os of one.
    assert!((rate(5) / rate(1) / 4.0 - 1.0).abs() < 0.05, "{} {}", rate(1), rate(5));
    assert!(cells.iter().all(|cell| cell["runs"][0]["origin"] == "simulated"));
    assert_eq!(sweep["series"][0]["axis"], "drives");
    let again = drumfire.run(folder.path(), &format!("{args} --out b"), LIMIT).ok().json();
    assert_eq!(cells_of(&again), cells_of(&sweep), "the same seed gives the same bits");
    let text = drumfire.run(folder.path(), "report a", LIMIT).ok().stdout;
    let said = "simulated (figures: guess); IOPS: median, min–max of 2 runs";
    assert!(text.contains(said), "{text}");
    assert!(text.contains("percentiles: not calibrated"), "{text}");
    assert_eq!(text.matches("% of linear").count(), 6, "{text}");
    // Without calibration there are no percentiles, nor in a comparison.
    drumfire.run(folder.path(), "run null:1g --size 512 --seconds 1 --ramp 0 --out m", LIMIT).ok();
    let both = drumfire.run(folder.path(), "compare m a/001-drives=1-outstanding=1", LIMIT).ok();
    assert!(both.stdout.contains("measured → simulated"), "{}", both.stdout);
    for (args, says) in [
        ("sweep simulate x25-m --axis drives=0,1", "0 drives: 1 to 2048"),
        ("sweep simulate x25-m --axis drivs=1", "one of drives, parts, system, size"),
        ("sweep simulate x25-m --axis system=x25-m,nothing.toml", "cannot read nothing.toml"),
        ("sweep simulate x25-m --axis volume=null:1g", "creates its own volumes"),
        ("sweep simulate x25-m --p99 1ms", "x25-m is not calibrated"),
        (
            "sweep race --axis protocol=iscsi,nvme",
            "protocol=nvme: use iscsi, nvme-tcp or vhost-user",
        ),
        ("sweep race --axis targets=1,0", "at least one target"),
        ("sweep race --axis by=run", "unknown setting 'by'"),
        ("sweep race --axis cores=64000", "is not available"),
    ] {
        let done = drumfire.run(folder.path(), args, LIMIT);
        assert!(done.stderr.contains(says), "{args}: {done:?}");
        assert!(matches!(done.code, Some(1 | 2)), "{args}: {done:?}");
    }
    assert!(!folder.path().join("drumfire-runs").exists(), "nothing was begun");
}

#[test]
fn races_are_swept_over_their_shape_and_run_again_from_their_job() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "sweep race --axis protocol=iscsi,nvme-tcp --axis targets=1,2 --volumes 2 \
        --workers 2 --volume-size 1m --seconds 0.2 --ramp 0 --repeats 1 --out s --json";
    let sweep = drumfire.run(folder.path(), args, LIMIT).ok().json();
    for cell in sweep["cells"].as_array().unwrap() {
        let path = folder.path().join("s").join(cell["folder"].as_str().unwrap());
        let text = std::fs::read(path.join("result.json")).unwrap();
        let result: Value = serde_json::from_slice(&text).unwrap();
        let nvme = cell["settings"][0]["value"] == "nvme-tcp";
        let transport = if nvme { "NVMe/TCP" } else { "iSCSI" };
        assert_eq!(result["job"]["transport"], transport);
        let targets: u64 = cell["settings"][1]["value"].as_str().unwrap().parse().unwrap();
        assert_eq!(result["job"]["targets"], targets);
        assert_eq!(result["job"]["workers"], targets * 4);
        assert_eq!(result["spec"]["setup"]["by"], "race");
    }
    let again = "run s/001-protocol=iscsi-targets=1/job.toml --out again --json";
    let again = drumfire.run(folder.path(), again, LIMIT).ok().json();
    assert_eq!((&again["job"]["targets"], &again["job"]["loopback"]), (&1.into(), &true.into()));
}

#[test]
fn runs_of_their_own_process_survive_a_kill_and_are_not_made_twice() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "sweep null:1g --seconds 1 --ramp 0 --axis outstanding=1,2,4 --repeats 2 \
        --repeat-as process --out s";
    let sweep = folder.path().join("s");
    let mut running = Running::start(&mut drumfire.command(folder.path(), args));
    running.await_that(LIMIT, |_| (!finished(&sweep).is_empty()).then_some(()));
    running.signal(Signal::KILL);
    assert_eq!(running.finish(LIMIT).code, None);
    let before = finished(&sweep);
    assert!(before.len() < 6, "killed too late to tell anything");
    // The run in progress outlives the sweep: the next sweep waits for it.
    let mut patience = Patience::new(LIMIT);
    let done = loop {
        let done = drumfire.run(folder.path(), args, LIMIT);
        if done.code != Some(2) {
            break done;
        }
        assert!(done.stderr.contains("wait until it ends"), "{done:?}");
        assert!(patience.wait(), "{done:?}");
    };
    done.ok();
    let after = finished(&sweep);
    assert_eq!(after.len(), 6);
    for (run, time) in &before {
        assert_eq!(after.get(run), Some(time), "{run} was made again");
    }
    let document = document(&sweep).unwrap();
    assert_eq!(document["plan"]["repeat_as"], "process");
    let wrong = "sweep file:/nonexistent/x --seconds 0.1 --axis outstanding=1 --repeats 1 \
        --repeat-as process --out w";
    let failed = drumfire.run(folder.path(), wrong, LIMIT);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stdout.contains("its process ended with exit status"), "{failed:?}");
}

#[test]
fn what_the_document_lacks_is_read_from_the_results() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = format!("{TINY} --axis outstanding=1,2,4 --repeats 1 --out s");
    drumfire.run(folder.path(), &args, LIMIT).ok();
    let sweep = folder.path().join("s");
    let before = results(&sweep);
    let mut lacking = document(&sweep).unwrap();
    for cell in 0..3 {
        lacking["cells"][cell]["runs"] = Value::Array(Vec::new());
    }
    std::fs::write(sweep.join("sweep.json"), lacking.to_string()).unwrap();
    // A result of another job does not count, nor does half a one.
    let cells = &lacking["cells"];
    let path =
        |cell: usize| sweep.join(cells[cell]["folder"].as_str().unwrap()).join("result.json");
    std::fs::copy(path(0), path(1)).unwrap();
    std::fs::write(path(2), "{").unwrap();
    let text = drumfire.run(folder.path(), "report s", LIMIT).ok().stdout;
    assert_eq!(text.matches("1/1").count(), 1, "{text}");
    let done = drumfire.run(folder.path(), "sweep s", LIMIT).ok();
    assert!(done.stderr.contains("1 of 3 runs already done"), "{done:?}");
    assert_eq!(finished(&sweep).len(), 3);
    let after = results(&sweep);
    let again = before.iter().filter(|(name, time)| after.get(*name) != Some(time));
    assert_eq!(again.count(), 2);
    std::fs::write(sweep.join("sweep.json"), "{ \"schema_version\": 1, \"plan\"").unwrap();
    let done = drumfire.run(folder.path(), "sweep s", LIMIT);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("cannot read s/sweep.json"), "{done:?}");
}

#[test]
fn a_full_disk_ends_a_sweep_that_can_go_on() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let disk = folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |words: &[&str]| {
        let done = std::process::Command::new(words[0]).args(&words[1..]).arg(&disk).output();
        done.is_ok_and(|done| done.status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs"]) {
        return drumfire_tests::skip("no tmpfs may be mounted");
    }
    let args = format!("{TINY} --axis outstanding=1,2,3,4,5,6,7,8 --repeats 2 --out disk/s");
    let full = drumfire.run(folder.path(), &args, LIMIT);
    let sweep = disk.join("s");
    let before = results(&sweep);
    let more = mount(&["mount", "-o", "remount,size=64m"]);
    let done = drumfire.run(folder.path(), &args, LIMIT);
    let (after, finished) = (results(&sweep), finished(&sweep).len());
    assert!(mount(&["umount"]));
    assert!(more && full.code == Some(1), "{full:?}");
    assert!(full.stderr.contains("No space left on device"), "{full:?}");
    assert!(full.stderr.contains("to resume: drumfire sweep disk/s"), "{full:?}");
    done.ok();
    assert_eq!(finished, 16);
    let repeats = before.iter().filter(|(name, _)| name.contains("repeat"));
    let again = repeats.filter(|(name, time)| after.get(*name) != Some(time));
    assert!(before.len() >= 2, "{before:?}");
    assert_eq!(again.count(), 0, "what was measured was kept");
}

/// Rows of CSV have a number for each setting, and a row for each run.
fn rows_are_those_of_every_run(csv: &str) {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == names.len()), "{csv}");
    let of = |name: &str| {
        let at = names.iter().position(|it| *it == name).unwrap_or_else(|| panic!("{csv}"));
        rows.iter().map(move |row| row[at])
    };
    let all = of("direction").filter(|direction| *direction == "all").count();
    assert_eq!(all, 12, "{csv}");
    for (size, axis) in of("size_bytes").zip(of("axis_size_bytes")) {
        assert!(size == axis && ["512", "4096"].contains(&size), "{csv}");
    }
    assert!(of("axis_outstanding").all(|depth| ["1", "4", "16"].contains(&depth)), "{csv}");
    assert!(of("origin").all(|origin| origin == "measured"), "{csv}");
    let repeats: Vec<&str> = of("repeat").filter(|repeat| *repeat == "2").collect();
    assert!(repeats.len() >= 6, "{csv}");
}
