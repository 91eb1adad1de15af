//! Ranks on hosts of their own: network namespaces between which packets may be lost.

use std::fs;
use std::time::{Duration, Instant};

use drumfire_tests::{Folder, Mpi, Running, Wired, check, run, seconds_of_mishaps};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// A number `name=N` of a line.
fn figure(line: &str, name: &str) -> f64 {
    let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line}"))
}

/// Clocks that are a second off and drift by 200 ppm: all begin together, and each bound holds.
#[test]
fn ranks_with_wrong_clocks_begin_together() {
    let Some(mpi) = Mpi::find() else { return };
    let Some(starts) = Mpi::program("starts-mpi") else { return };
    let folder = Folder::new();
    let Some(hosts) = Wired::new(folder.path(), 2) else { return };
    let count = std::env::var("DRUMFIRE_STARTS").unwrap_or_else(|_| "60".to_owned());
    let program = starts.display().to_string();
    let mut launch = hosts.launch(&mpi, folder.path(), &[2, 2], &[&program, &count]);
    let line = run(&mut launch, LIMIT).ok().stdout;
    println!("{line}");
    assert_eq!(figure(&line, "ranks"), 4.0);
    let (held, of) = (figure(&line, "bounds_held"), figure(&line, "of"));
    assert!(held >= 0.99 * of, "{line}");
    // A host that is busy with other tests is late, not wrong.
    assert!(figure(&line[line.find("skew_us").unwrap()..], "p50") < 20_000.0, "{line}");
}

/// Two hosts, five ranks and four: one result with all.
#[test]
fn nine_ranks_on_two_hosts_are_one_measurement() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let Some(hosts) = Wired::new(folder.path(), 2) else { return };
    let args = "run ram:8m --size 4k --outstanding 2 --rate 500 --seconds 2 --ramp 0.2 \
                --no-cold-reads --no-ceiling --json --out of";
    let result = run(&mut hosts.program(&mpi, folder.path(), &[5, 4], args), LIMIT).ok().json();
    let names: Vec<&str> =
        result["hosts"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    let of = |host: &str| names.iter().filter(|name| name.starts_with(host)).count();
    assert_eq!([of(&hosts.names()[0]), of(&hosts.names()[1])], [5, 4], "{names:?}");
    let iops = result["totals"]["iops"].as_f64().unwrap();
    // A host that is busy with other tests misses planned starts, and H09 says so.
    let (verdict, evidence) = check(&result, "H09");
    let is_whole = (iops / 4500.0 - 1.0).abs() < 0.02;
    assert!(is_whole || verdict != "pass" && iops < 4500.0, "{iops}: {evidence}");
}

/// A host that dies, and one whose network is cut: the result says so within seconds.
#[test]
fn a_lost_host_is_told_and_the_others_are_kept() {
    let Some(mpi) = Mpi::find() else { return };
    let all = |is_cut, most| {
        seconds_of_mishaps(most as u64).into_iter().map(move |second| (is_cut, second, most))
    };
    for (is_cut, second, most) in all(false, 5.0).chain(all(true, 10.0)) {
        let folder = Folder::new();
        let Some(hosts) = Wired::new(folder.path(), 2) else { return };
        let args = "run ram:8m --size 4k --outstanding 2 --rate 500 --seconds 20 --ramp 0.2 \
                    --no-cold-reads --no-ceiling --out of";
        let mut running = Running::start(&mut hosts.program(&mpi, folder.path(), &[2, 2], args));
        let reached = format!("\n  {second}s ");
        running.await_stderr(LIMIT, |shown| shown.contains(&reached).then_some(()));
        if is_cut {
            hosts.cut(1)
        } else {
            hosts.kill(1)
        }
        let hit = Instant::now();
        let file = folder.path().join("of/result.json");
        let text = || fs::read_to_string(&file).unwrap_or_default();
        // A draft is there before.
        while !text().contains(" is lost: ") && hit.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = hit.elapsed().as_secs_f64();
        println!("cut: {is_cut} at {second} s: {took:.2} s");
        let result: Value = serde_json::from_str(&text()).unwrap();
        let partial = result["partial"].as_str().unwrap_or_default();
        assert!(partial.contains(&hosts.names()[1]) && partial.contains("is lost"), "{partial}");
        assert!(took < most, "{took:.1} s, cut: {is_cut}");
        let survivors = result["hosts"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|host| host["name"].as_str().unwrap().starts_with(&hosts.names()[0]));
        for host in survivors {
            let (seconds, ios) = (host["seconds"].as_f64().unwrap(), host["ios"].as_f64().unwrap());
            // MPI gives up with the host: of the second survivor the drafts are left.
            let is_first = host["name"].as_str().unwrap().ends_with("/1");
            let least = second as f64 - if is_first { 0.1 } else { 2.1 };
            assert!(seconds >= least && (ios / seconds / 500.0 - 1.0).abs() < 0.1, "{host}");
        }
        let _ = running.finish(LIMIT);
    }
}
