//! The systems of the founding documents with hosts of their own: ranks in network namespaces,
//! each system started by one command.

use std::fs;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Finished, Folder, Mpi, Wired, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(600);

fn read(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    serde_json::from_str(&text).unwrap()
}

/// Runs a scenario until each step is believed: a busy machine may give no figure, and refused
/// steps are run again.
fn believed(launch: impl Fn() -> std::process::Command) -> Finished {
    let mut tries = (0..5).map(|_| run(&mut launch(), LIMIT));
    tries.find(|done| done.code == Some(0)).expect("one of five is believed")
}

/// Checks that rows have a live figure, or say that the hosts were busy.
fn has_figures(document: &Value, ids: &[&str]) {
    let rows = document["scenarios"][0]["rows"].as_array().unwrap();
    for id in ids {
        let row = rows.iter().find(|row| row["id"] == *id).unwrap_or_else(|| panic!("no {id}"));
        let busy = row["reason"].to_string().contains("live: none: the host was not quiet");
        assert!(busy || row["live"].as_f64().is_some_and(|figure| figure > 0.0), "{row}");
    }
}

/// One appliance with 24 portals, and six clients with eight workers each.
#[test]
fn third_io_iris_has_an_appliance_and_six_clients() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let Some(hosts) = Wired::new(folder.path(), 7) else { return };
    let args = "scenario run third-io-iris --live --seconds 1 --json --out o";
    let done = believed(|| hosts.program(&mpi, folder.path(), &[1; 7], args));
    let names = hosts.names();
    let roles = format!("{} drive; {} serve", names[..6].join(", "), names[6]);
    assert!(done.stderr.contains(&roles), "{}", done.stderr);
    let rows = ["iops-512", "iops-8k", "nvme-512", "bandwidth-512k", "ports-24", "cpu-4k"];
    has_figures(&done.json(), &rows);
    for step in ["iris-512", "iris-8k", "nvme-4k", "mix-512k"] {
        let result = read(&folder.path().join(format!("o/third-io-iris/{step}/all/result.json")));
        let clients: Vec<&str> = result["hosts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|host| host["name"].as_str().unwrap())
            .collect();
        assert_eq!(clients, names[..6], "{step}");
        let server = &result["servers"][0];
        assert_eq!(server["portals"].as_array().unwrap().len(), 24, "{step}: {server}");
        assert_eq!(
            (&server["name"], &result["job"]["loopback"]),
            (&names[6].as_str().into(), &false.into())
        );
        // Each client has four portals of its own: of 24 targets each is driven by one.
        assert_eq!(result["job"]["volumes"], 24, "{step}");
        let workers = if step == "mix-512k" { 24 } else { 48 };
        assert_eq!(result["job"]["workers"], workers, "{step}");
        assert_eq!(result["totals"]["errors"], 0, "{step}");
    }
    let ports = read(&folder.path().join("o/third-io-iris/ports-24/all/result.json"));
    assert_eq!(
        (ports["hosts"].as_array().unwrap().len(), &ports["job"]["volumes"]),
        (6, &24.into())
    );
    let kept = read(&folder.path().join("o/third-io-iris/iris-4k.json"));
    assert!(kept["result"]["cpu"]["target_percent"].as_f64().unwrap() > 0.0, "{kept}");
    let network = kept["result"]["network"].as_str().unwrap();
    assert!(network.starts_with("1 host serves of 7 started by one command"), "{network}");
    // Another run of the same ranks has nothing to do.
    let again = run(&mut hosts.program(&mpi, folder.path(), &[1; 7], args), LIMIT).ok();
    assert!(again.stderr.contains("15 of 15 steps already done"), "{}", again.stderr);
}

/// Ten hosts with five drives in memory each, and one that drives them all.
#[test]
fn intel_iscsi_has_ten_targets_and_an_initiator() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let Some(hosts) = Wired::new(folder.path(), 11) else { return };
    let args = "scenario run intel-iscsi --live --seconds 1 --json --out o";
    let done = believed(|| hosts.program(&mpi, folder.path(), &[1; 11], args));
    has_figures(&done.json(), &["iops-512", "race-512", "swing", "wire-512"]);
    let result = read(&folder.path().join("o/intel-iscsi/hosts-512/all/result.json"));
    let servers = result["servers"].as_array().unwrap();
    let serving: Vec<&str> = servers.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(serving, hosts.names()[1..]);
    // Two managers of 25 workers: each target has five connections.
    assert!(servers.iter().all(|one| one["connections"] == 5), "{servers:?}");
    let job = &result["job"];
    assert_eq!(
        (&job["workers"], &job["volumes"], &job["targets"]),
        (&50.into(), &50.into(), &5.into())
    );
    assert_eq!((&job["loopback"], &result["totals"]["errors"]), (&false.into(), &0.into()));
    // A wire of half a gigabit is made by this machine: that step is not of the ranks.
    assert!(!folder.path().join("o/intel-iscsi/wire-512/all").exists());
}

/// A wrong number of ranks is refused with the right one. Scenarios without roles run as on one
/// host.
#[test]
fn a_scenario_says_how_many_ranks_it_needs() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let refused = |ranks: u32, name: &str| {
        let args = format!("scenario run {name} --live --seconds 1 --out none");
        let done = run(&mut mpi.command(folder.path(), ranks, &args), LIMIT);
        assert_eq!(done.code, Some(2), "{done:?}");
        done.stderr
    };
    let many = refused(8, "third-io-iris");
    assert!(many.contains("1 of its ranks serve") && many.contains("mpirun -n 7"), "{many}");
    let few = refused(2, "intel-iscsi");
    assert!(few.contains("10 of its ranks serve") && few.contains("mpirun -n 12"), "{few}");
    // A scenario without hosts of its own, and a model, run as always.
    let mine = "name='mine'\ntitle='t'\nsource='s'\nscaled='1:1'\n\
        [[row]]\nid='r'\nfigure='f'\nderived=1.0\nunit='IOPS'\nwhy='none'\n\
        live={step='s',at='/totals/iops'}\n\
        [[step]]\nid='s'\nway='live'\nrun=['race','--targets','1','--volumes','1',\
        '--volume-size','4m','--ramp','0.2']\n";
    fs::write(folder.path().join("mine.toml"), mine).unwrap();
    let args = "scenario run mine.toml --live --seconds 1 --json --out mine";
    let done = run(&mut mpi.command(folder.path(), 2, args), LIMIT).ok();
    assert!(done.stderr.contains("all is done on this one"), "{}", done.stderr);
    has_figures(&done.json(), &["r"]);
    let modelled = "scenario run intel-iscsi --modelled --json --out m";
    run(&mut mpi.command(folder.path(), 2, modelled), LIMIT).ok();
}
