//! The whole program under MPICH: a launcher and a library with other variables and other limits
//! than those of Open MPI.

use std::fs;
use std::time::Duration;

use drumfire_tests::{Folder, Mpi, check, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);
const LIGHT: &str = "--size 4k --outstanding 4 --no-cold-reads --no-ceiling --ramp 0.2";

#[test]
fn four_ranks_of_mpich_are_one_measurement() {
    let Some(mpi) = Mpi::find_mpich() else { return };
    let folder = Folder::new();
    let args = format!("run ram:16m {LIGHT} --rate 1k --seconds 3 --json --out all");
    let result = run(&mut mpi.plain_command(folder.path(), 4, &args), LIMIT).ok().json();
    assert_eq!(result["hosts"].as_array().unwrap().len(), 4);
    let iops = result["totals"]["iops"].as_f64().unwrap();
    assert!((iops / 4000.0 - 1.0).abs() < 0.02, "{iops}");
    assert_eq!(check(&result, "M01").0, "pass", "{result}");
    assert!(result["partial"].is_null(), "{}", result["partial"]);
}

/// Ranks that serve, steps of a sweep, and a fio job whose files each rank lays out.
#[test]
fn commands_and_roles_work_under_mpich() {
    let Some(mpi) = Mpi::find_mpich() else { return };
    let folder = Folder::new();
    let launch = |ranks, args: &str| run(&mut mpi.plain_command(folder.path(), ranks, args), LIMIT);
    let args = format!("run served {LIGHT} --rate 500 --seconds 2 --json --out roles");
    let mut command = mpi.plain_command(folder.path(), 3, &args);
    let served = run(command.args(["--serve", "2: --volume=d=ram:8m"]), LIMIT).ok().json();
    let rows = |name: &str| served[name].as_array().unwrap().len();
    assert_eq!((rows("hosts"), rows("servers")), (2, 1));
    let args = format!("sweep ram:4m {LIGHT} --axis rate=500,1k --seconds 1 --repeats 1 --out s");
    launch(2, &args).ok();
    let swept: Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("s/sweep.json")).unwrap())
            .unwrap();
    assert_eq!(swept["cells"].as_array().unwrap().len(), 2);
    let job = "[reads]\nioengine=libaio\nfilename=f{rank}\nsize=1m\nrw=randread\nrate_iops=200\n\
               runtime=1\ntime_based\n";
    fs::write(folder.path().join("job.fio"), job).unwrap();
    launch(2, "fio job.fio").ok();
    assert!(["f0", "f1"].iter().all(|name| folder.path().join(name).is_file()));
}

/// A program of MPICH that the launcher of Open MPI starts would be several measurements of one
/// rank.
#[test]
fn the_launcher_of_another_mpi_is_refused() {
    let (Some(mpich), Some(open)) = (Mpi::find_mpich(), Mpi::find()) else { return };
    let folder = Folder::new();
    let args = format!("run ram:4m {LIGHT} --seconds 1 --out none");
    let refused = run(&mut open.launch(folder.path(), 2, mpich.path(), &args), LIMIT);
    assert!(refused.code.is_some_and(|code| code != 0), "{refused:?}");
    assert!(refused.stderr.contains("use the launcher of the MPI"), "{refused:?}");
    assert!(!folder.path().join("none").exists());
}
