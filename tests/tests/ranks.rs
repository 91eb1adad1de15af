//! One measurement of many ranks under mpirun: one start, one result, and ranks that are lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use drumfire_tests::{Finished, Folder, Mpi, Running, rank_of, run, seconds_of_mishaps};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);

/// A run of work that two cores can do for all ranks.
const LIGHT: &str = "ram:16m --size 4k --outstanding 4 --no-cold-reads --no-ceiling --ramp 0.2";

fn check<'a>(result: &'a Value, code: &str) -> &'a Value {
    result["checks"].as_array().unwrap().iter().find(|check| check["code"] == code).unwrap()
}

/// Counts by bucket of reads.
fn counts(result: &Value) -> BTreeMap<u64, u64> {
    let buckets = &result["histograms"]["read"];
    let list = |name: &str| buckets[name].as_array().cloned().unwrap_or_default();
    let pairs = list("from_ns").into_iter().zip(list("count"));
    pairs.map(|(from, count)| (from.as_u64().unwrap(), count.as_u64().unwrap())).collect()
}

#[test]
fn four_ranks_are_one_measurement() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let args = format!("run {LIGHT} --rate 2k --seconds 3 --json --out all");
    let result = run(&mut mpi.command(folder.path(), 4, &args), LIMIT).ok().json();
    let hosts = result["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), 4);
    let sum: u64 = hosts.iter().map(|host| host["ios"].as_u64().unwrap()).sum();
    assert_eq!(result["totals"]["ios"], sum);
    // I/Os in flight at the end count with their ages.
    assert_eq!(
        result["totals"]["read"]["latency_ns"]["samples"],
        counts(&result).values().sum::<u64>()
    );
    // 2,000 a second each, whatever the others do.
    let iops = result["totals"]["iops"].as_f64().unwrap();
    assert!((iops / 8000.0 - 1.0).abs() < 0.01, "{iops}");
    let seeds: std::collections::BTreeSet<u64> =
        hosts.iter().map(|host| host["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds.len(), 4);
    assert_eq!(check(&result, "M01")["verdict"], "pass", "{result}");
    let clocks = check(&result, "M02");
    assert!(clocks["evidence"].as_str().unwrap().contains("by round trips"), "{clocks}");
    assert!(result["partial"].is_null(), "{}", result["partial"]);
    // The result repeats the job of all, with the seed that was asked for.
    assert_eq!(result["seed"], 1);
    assert!(folder.path().join("all/job.toml").is_file());
}

#[test]
fn commands_that_drive_work_unchanged() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let race = "race --targets 1 --volumes 1 --volume-size 16m --seconds 1 --ramp 0.2 \
                --no-cold-reads --json --out race";
    let result = run(&mut mpi.command(folder.path(), 2, race), LIMIT).ok().json();
    assert_eq!(result["hosts"].as_array().unwrap().len(), 2);
    fs::write(
        folder.path().join("a.fio"),
        "[global]\nioengine=libaio\nfilename=x.img\nsize=8m\nruntime=1\ntime_based\nrate_iops=500\n\
         [reads]\nrw=randread\n",
    )
    .unwrap();
    let fio = run(&mut mpi.command(folder.path(), 2, "fio --output-format=json a.fio"), LIMIT).ok();
    let ios = fio.json()["jobs"][0]["read"]["total_ios"].as_u64().unwrap();
    assert!((900..=1100).contains(&ios), "{ios}");
    let sweep = format!("sweep {LIGHT} --axis rate=500,1k --seconds 1 --out sweep --repeats 2");
    let swept = run(&mut mpi.command(folder.path(), 2, &sweep), LIMIT).ok();
    let document = fs::read_to_string(folder.path().join("sweep/sweep.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let medians: Vec<f64> = document["cells"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cell| cell["runs"][0]["iops"].as_f64().unwrap())
        .collect();
    assert!((medians[0] / 1000.0 - 1.0).abs() < 0.05, "{medians:?} {swept:?}");
    assert!((medians[1] / 2000.0 - 1.0).abs() < 0.05, "{medians:?}");
    // One that drives nothing is done by rank 0 alone.
    let version = run(&mut mpi.command(folder.path(), 3, "--version"), LIMIT).ok();
    assert_eq!(version.stdout.lines().count(), 1, "{version:?}");
}

#[test]
fn groups_run_where_the_job_says() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let group = |hosts: &str, rate: u32| {
        format!(
            "[[steps.groups]]\nhosts = {hosts}\nvolumes = [\"ram:1{{rank}}m\"]\n\
             workload.outstanding = 4\nworkload.access.lines = [{{ size_bytes = \"4k\" }}]\n\
             workload.pacing.ios = {{ per_second = {rate} }}\n"
        )
    };
    let job =
        format!("[[steps]]\nseconds = 2.0\n{}{}", group("[\"0\"]", 100), group("[\"1-2\"]", 1000));
    fs::write(folder.path().join("job.toml"), job).unwrap();
    let args = "run job.toml --no-cold-reads --json --out of";
    let result = run(&mut mpi.command(folder.path(), 3, args), LIMIT).ok().json();
    let rates: Vec<f64> =
        result["hosts"].as_array().unwrap().iter().map(|of| of["iops"].as_f64().unwrap()).collect();
    for (rate, wanted) in rates.iter().zip([100.0, 1000.0, 1000.0]) {
        assert!((rate / wanted - 1.0).abs() < 0.05, "{rates:?}");
    }
    let args = "run job.toml --no-cold-reads --out of2";
    let refused = run(&mut mpi.command(folder.path(), 2, args), LIMIT);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("no rank is '1-2'"), "{refused:?}");
}

/// Rank 0 leads a job of the others: its result has them alone.
#[test]
fn rank_0_may_have_no_group() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let job = "[[steps]]\nseconds = 3.0\n[[steps.groups]]\nhosts = ['1-2']\nvolumes = ['ram:4m']\n\
               workload.outstanding = 4\nworkload.access.lines = [{ size_bytes = '4k' }]\n\
               workload.pacing.ios = { per_second = 500 }\n";
    fs::write(folder.path().join("job.toml"), job).unwrap();
    let args = "run job.toml --no-cold-reads --out of";
    let done = run(&mut mpi.command(folder.path(), 3, args), LIMIT).ok();
    let text = fs::read_to_string(folder.path().join("of/result.json")).unwrap();
    let result: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> =
        result["hosts"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert!(names.len() == 2 && names[0].ends_with("/2") && names[1].ends_with("/3"), "{names:?}");
    let iops = result["totals"]["iops"].as_f64().unwrap();
    assert!((iops / 1000.0 - 1.0).abs() < 0.02, "{iops}");
    assert!(result["partial"].is_null(), "{}", result["partial"]);
    let second = done.stderr.lines().find_map(|line| line.trim().strip_prefix("2s  "));
    assert!(second.is_some_and(|rate| rate.starts_with(['9', '1'])), "{}", done.stderr);
    // The result repeats the job of all.
    assert_eq!(result["spec"]["steps"][0]["groups"][0]["hosts"][0], "1-2");
}

/// One of four hosts has a volume that is half as fast: it is named, with its reason, in the view
/// during the run, in the result, the report and the page.
#[test]
fn a_slower_host_is_named_with_its_reason() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    for rank in 0..4 {
        let each_s = if rank == 2 { 2e-2 } else { 1e-2 };
        let profile = format!(
            "name = \"slow\"\n[[stage]]\nname = \"port\"\nservers = 1\n\
             read = {{ each_s = {each_s} }}\nwrite = {{ each_s = {each_s} }}\nshape = \"fixed\"\n"
        );
        fs::write(folder.path().join(format!("slow{rank}.toml")), profile).unwrap();
    }
    let args = "run delay:slow{rank}.toml(ram:4m) --size 4k --outstanding 4 --seconds 13 \
                --ramp 0.2 --no-cold-reads --no-ceiling --json --json-lines lines --out of";
    let result = run(&mut mpi.command(folder.path(), 4, args), LIMIT).ok().json();
    let even = check(&result, "M04");
    assert_eq!(even["verdict"], "warn", "{even}");
    let host = &result["hosts"][2];
    let said = format!("{} is 5", host["name"].as_str().unwrap());
    // The view names the host after ten seconds, while all run.
    let lines = fs::read_to_string(folder.path().join("lines")).unwrap();
    assert!(lines.contains(&format!("\"slower\":[\"{said}")), "{lines}");
    let evidence = even["evidence"].as_str().unwrap();
    assert!(evidence.starts_with(&said) && evidence.contains("slower than the others"), "{even}");
    let off = host["apart"]["off_percent"].as_f64().unwrap();
    assert!((off + 50.0).abs() < 10.0, "{host}");
    let why = host["apart"]["why"].as_str().unwrap();
    assert!(why.contains("times as long") || why.contains("CPUs"), "{why}");
    let others = [0, 1, 3].map(|at| &result["hosts"][at]);
    assert!(others.iter().all(|host| host["apart"].is_null()), "{others:?}");
    let shown = run(&mut mpi.command(folder.path(), 1, "report of"), LIMIT).ok().stdout;
    assert!(shown.contains("\napart    "), "{shown}");
    let page = run(&mut mpi.command(folder.path(), 1, "report of --as html"), LIMIT).ok().stdout;
    assert!(page.contains("Rate of each host") && page.contains("slower than the others"));
}

/// Work that one rank refuses is done by none; the message is that of the rank.
#[test]
fn a_rank_that_cannot_ends_the_run_before_it_begins() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    fs::write(folder.path().join("f0"), vec![0; 1 << 20]).unwrap();
    let args = "run file:f{rank} --seconds 2 --out of";
    let refused = run(&mut mpi.command(folder.path(), 3, args), LIMIT);
    assert_ne!(refused.code, Some(0));
    assert!(
        refused.stderr.contains("(rank 1)") || refused.stderr.contains("(rank 2)"),
        "{refused:?}"
    );
    assert!(refused.stderr.contains("f1") || refused.stderr.contains("f2"), "{refused:?}");
    assert!(!folder.path().join("of").exists());
}

/// Runs four ranks, does something to rank 2 at a second of a run, and returns what is left and how
/// long the result took from then.
fn with_a_mishap(mpi: &Mpi, folder: &Path, second: u64, signal: Signal) -> (Finished, Duration) {
    // A stopped rank is reported while the others measure.
    let args = format!("run {LIGHT} --rate 1k --seconds {} --out of", second + 12);
    let mut running = Running::start(&mut mpi.command(folder, 4, &args));
    let pid = rank_of(2, folder);
    let reached = format!("\n  {second}s ");
    running.await_stderr(LIMIT, |shown| shown.contains(&reached).then_some(()));
    std::thread::sleep(Duration::from_millis(500));
    kill_process(pid, signal).unwrap();
    let hit = Instant::now();
    let result = folder.join("of/result.json");
    let is_final = || {
        let text = fs::read_to_string(&result).unwrap_or_default();
        // A draft is there before.
        text.contains(" is lost: ")
    };
    while !is_final() && hit.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let took = hit.elapsed();
    (running.finish(LIMIT), took)
}

/// A rank that is killed, or stands still: a result that is labelled, with the seconds of all.
#[test]
fn a_lost_rank_leaves_its_seconds_and_a_label() {
    let Some(mpi) = Mpi::find() else { return };
    let all =
        |signal, most| seconds_of_mishaps(most as u64).into_iter().map(move |s| (signal, s, most));
    for (signal, seconds, most) in all(Signal::KILL, 3.0).chain(all(Signal::STOP, 10.0)) {
        let folder = Folder::new();
        let (finished, took) = with_a_mishap(&mpi, folder.path(), seconds, signal);
        println!("{signal:?} at {seconds} s: {:.2} s, {:?}", took.as_secs_f64(), finished.code);
        let text = fs::read_to_string(folder.path().join("of/result.json")).unwrap();
        let result: Value = serde_json::from_str(&text).unwrap();
        let partial = result["partial"].as_str().unwrap_or_default();
        assert!(partial.contains("is lost: ") && partial.contains("/3 "), "{partial}");
        let hosts = result["hosts"].as_array().unwrap();
        assert_eq!(hosts.len(), 4, "{finished:?}");
        let lasted = |at: usize| hosts[at]["seconds"].as_f64().unwrap();
        let most_of =
            hosts.iter().map(|host| host["seconds"].as_f64().unwrap()).fold(0.0, f64::max);
        // The last second, or the one before: a busy host may drop a draft.
        let second = seconds as f64;
        assert!(
            lasted(2) > (second - 2.5).max(0.9) && lasted(2) < most_of,
            "{partial} {finished:?}"
        );
        for at in [0, 1, 3] {
            // 1,000 a second: no second of a survivor is missing.
            let rate = hosts[at]["ios"].as_f64().unwrap() / lasted(at);
            assert!((rate / 1000.0 - 1.0).abs() < 0.1, "{hosts:?}");
            let kept = if at == 0 { second - 0.5 } else { (second - 1.5).max(0.9) };
            let least = if signal == Signal::STOP { second + 11.9 } else { kept };
            assert!(lasted(at) > least, "{signal:?} at {seconds} s: {hosts:?}");
        }
        assert!(hosts[2]["partial"].as_str().unwrap().contains("lost after"), "{hosts:?}");
        // mpirun has its own code for a killed rank, and ends the one that stands still.
        let code = if signal == Signal::STOP { 6 } else { 137 };
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert!(took.as_secs_f64() < most, "{took:?} for {signal:?} at {seconds} s");
    }
}
