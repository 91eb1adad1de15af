//! Ranks that serve while the others drive, started and ended by one command under mpirun.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use drumfire_tests::{Folder, Mpi, Running, Wired, rank_of, run, seconds_of_mishaps};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);
const LIGHT: &str = "--size 4k --outstanding 4 --no-cold-reads --no-ceiling --ramp 0.2";

fn launch(mpi: &Mpi, folder: &Path, ranks: u32, serve: &str, args: &str) -> std::process::Command {
    let mut command = mpi.command(folder, ranks, args);
    command.args(["--serve", serve]);
    command
}

fn list<'a>(result: &'a Value, name: &str) -> &'a Vec<Value> {
    result[name].as_array().unwrap_or_else(|| panic!("no {name} in {result}"))
}

/// Two ranks serve two volumes each, and two drive them all.
#[test]
fn some_ranks_serve_and_the_others_drive() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let serve = "2-3: --volume=a=ram:8m --volume=b=ram:8m";
    let args =
        format!("run served {LIGHT} --read 70 --destroy --rate 2k --seconds 3 --json --out o");
    let result = run(&mut launch(&mpi, folder.path(), 4, serve, &args), LIMIT).ok().json();
    assert!(result["partial"].is_null(), "{}", result["partial"]);
    assert_eq!((list(&result, "hosts").len(), list(&result, "servers").len()), (2, 2));
    // Each driving rank shares its rate among all four volumes.
    let iops = result["totals"]["iops"].as_f64().unwrap();
    assert!((iops / 4000.0 - 1.0).abs() < 0.02, "{iops}");
    assert_eq!((&result["totals"]["errors"], &result["job"]["volumes"]), (&0.into(), &8.into()));
    for server in list(&result, "servers") {
        assert_eq!(server["volumes"], serde_json::json!(["a", "b"]));
        // A connection for each volume and driving rank.
        assert_eq!(server["connections"], 4, "{server}");
        assert!(server["target_cores"].as_f64().unwrap() > 0.0, "{server}");
    }
    assert!(result["cpu"]["target_cores"].as_f64().unwrap() > 0.0);
    let shown = run(&mut mpi.command(folder.path(), 1, "report o"), LIMIT).ok().stdout;
    assert_eq!(shown.matches("served   ").count(), 2, "{shown}");
}

/// The job file names the roles, a dry run says them, and the steps of a job share one server.
#[test]
fn a_job_file_has_roles_and_a_dry_run_says_them() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let step = "[[steps]]\nseconds = 1.0\n[[steps.groups]]\nvolumes = ['served:disk']\n\
                workload.outstanding = 4\nworkload.access.lines = [{ size_bytes = '4k' }]\n\
                workload.pacing.ios = { per_second = 500 }\n";
    let job = format!(
        "[[serve]]\nhosts = ['2']\nargs = ['--nbd', '127.0.0.1:0', '--volume', \
         'disk=delay:slow.toml(ram:8m)', '--volume=spare=ram:1m']\n\
         files.'slow.toml' = '''\nname = \"slow\"\n[[stage]]\nname = \"port\"\nservers = 1\n\
         read = {{ each_s = 1e-4 }}\nwrite = {{ each_s = 1e-4 }}\nshape = \"fixed\"\n'''\n\
         {step}{step}"
    );
    fs::write(folder.path().join("job.toml"), job).unwrap();
    let said = run(&mut mpi.command(folder.path(), 3, "run job.toml --dry-run"), LIMIT).ok();
    let rank = |number: u32| said.stdout.find(&format!("rank {number} on ")).expect("each rank");
    assert!(rank(0) < rank(1) && rank(1) < rank(2), "{said:?}");
    let (drives, serves) = said.stdout.split_at(rank(2));
    assert_eq!(
        drives.matches("drives with a worker on each of: served:disk").count(),
        4,
        "{said:?}"
    );
    assert!(serves.contains("serves: --nbd 127.0.0.1:0") && !serves.contains("drives"), "{said:?}");
    assert!(!folder.path().join("drumfire-runs").exists());
    let args = "run job.toml --no-cold-reads --no-ceiling --out of";
    run(&mut mpi.command(folder.path(), 3, args), LIMIT).ok();
    let ports: Vec<Value> = (1..=2)
        .map(|number| {
            let file = folder.path().join(format!("of/step-{number}/result.json"));
            let result: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
            let mean = result["totals"]["latency_ns"]["mean"].as_f64().unwrap();
            assert!(mean > 1e5, "the profile of the file counts: {mean}");
            assert_eq!(list(&result, "hosts").len(), 2);
            list(&result, "servers")[0]["portals"].clone()
        })
        .collect();
    assert_eq!(ports[0], ports[1], "one server for all steps");
    assert!(ports[0][0].as_str().unwrap().starts_with("nbd=127.0.0.1:"), "{ports:?}");
}

/// A sweep drives one server; what cannot be served, or is served by nobody, is refused by name.
#[test]
fn roles_are_refused_or_kept_for_a_whole_sweep() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let args = format!("sweep served {LIGHT} --axis rate=500,1k --seconds 1 --repeats 1 --out s");
    run(&mut launch(&mpi, folder.path(), 2, "1: --volume d=ram:8m", &args), LIMIT).ok();
    let document = fs::read_to_string(folder.path().join("s/sweep.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let rates: Vec<f64> =
        list(&document, "cells").iter().map(|of| of["runs"][0]["iops"].as_f64().unwrap()).collect();
    assert!(
        (rates[0] / 500.0 - 1.0).abs() < 0.1 && (rates[1] / 1000.0 - 1.0).abs() < 0.1,
        "{rates:?}"
    );
    let refused = |serve: &str, volume: &str| {
        let args = format!("run {volume} {LIGHT} --seconds 1 --out none");
        let done = run(&mut launch(&mpi, folder.path(), 2, serve, &args), LIMIT);
        assert!(done.code.is_some_and(|code| code != 0), "{done:?}");
        assert!(!folder.path().join("none").exists(), "{done:?}");
        done.stderr
    };
    let missing = refused("1: --volume d=file:not-there", "served");
    assert!(missing.contains("(rank 1)") && missing.contains("not-there"), "{missing}");
    assert!(refused("1: --volume d=ram:1m", "served:e").contains("served:e: no rank serves it"));
    assert!(refused("0: --volume d=ram:1m", "served").contains("rank 0 leads"));
    assert!(refused("7: --volume d=ram:1m", "served").contains("no rank is '7'"));
    assert!(refused("1: --what", "served").contains("--what"));
    let alone = format!("run served {LIGHT}");
    let alone = run(&mut launch(&mpi, folder.path(), 1, "1: --volume d=ram:1m", &alone), LIMIT);
    assert_eq!(alone.code, Some(2), "{alone:?}");
    assert!(alone.stderr.contains("this is one host"), "{alone:?}");
}

/// A rank that serves and is killed, or stands still, is a lost host with a label.
#[test]
fn a_lost_server_has_a_label() {
    let Some(mpi) = Mpi::find() else { return };
    let all = |signal, most| {
        seconds_of_mishaps(most as u64).into_iter().map(move |second| (signal, second, most))
    };
    for (signal, second, most) in all(Signal::KILL, 3.0).chain(all(Signal::STOP, 10.0)) {
        let folder = Folder::new();
        let serve = "2-3: --volume=d=ram:8m";
        let args = format!("run served {LIGHT} --rate 1k --seconds 10 --out of");
        let mut running = Running::start(&mut launch(&mpi, folder.path(), 4, serve, &args));
        let pid = rank_of(2, folder.path());
        let reached = format!("\n  {second}s ");
        running.await_stderr(LIMIT, |shown| shown.contains(&reached).then_some(()));
        kill_process(pid, signal).unwrap();
        let hit = Instant::now();
        let file = folder.path().join("of/result.json");
        let text = || fs::read_to_string(&file).unwrap_or_default();
        while !text().contains("is lost: ") && hit.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = hit.elapsed().as_secs_f64();
        println!("{signal:?} at {second} s: {took:.2} s");
        let done = running.finish(LIMIT);
        let result: Value = serde_json::from_str(&text()).unwrap();
        let partial = result["partial"].as_str().unwrap_or_default();
        assert!(partial.contains(", which serves, is lost: "), "{partial} {done:?}");
        assert!(took < most, "{took:.1} s for {signal:?}");
        let lost: Vec<bool> =
            list(&result, "servers").iter().map(|one| one["lost"].is_string()).collect();
        assert!(lost[0], "{result}");
        for host in list(&result, "hosts") {
            assert!(host["seconds"].as_f64().unwrap() > second as f64 - 1.1, "{host}");
        }
    }
}

/// Hosts with networks of their own: the address is found, and an own name is taken.
#[test]
fn what_another_host_serves_is_reached_over_the_wire() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let Some(hosts) = Wired::new(folder.path(), 3) else { return };
    let args = format!("run served {LIGHT} --rate 500 --seconds 2 --json --out o --serve");
    for serve in ["1-2: --volume=d=ram:8m", "1-2: --nvme-tcp=198.18.7.{rank}1:0 --volume=d=ram:8m"]
    {
        let is_own = serve.contains("nvme");
        let mut command = hosts.program(&mpi, folder.path(), &[1, 1, 1], &args);
        // Ranks 1 and 2 have the addresses .11 and .21, too.
        for (at, address) in [(1, "198.18.7.11/24"), (2, "198.18.7.21/24")] {
            let name = &hosts.names()[at];
            let verb = if is_own { "add" } else { "replace" };
            let words = ["-n", name, "addr", verb, address, "dev", "wire"];
            let _ = std::process::Command::new("ip").args(words).output();
        }
        let result = run(command.arg(serve).arg("--replace"), LIMIT).ok().json();
        assert_eq!(list(&result, "servers").len(), 2);
        let iops = result["totals"]["iops"].as_f64().unwrap();
        // A busy host has no time for all of them.
        assert!((50.0..525.0).contains(&iops), "{iops}");
        assert_eq!(result["job"]["loopback"], false, "{}", result["job"]);
        let want = if is_own { "nvme-tcp=198.18.7.11:" } else { "iscsi=0.0.0.0:" };
        let portal = list(&result, "servers")[0]["portals"][0].as_str().unwrap();
        assert!(portal.starts_with(want), "{portal}");
    }
}
