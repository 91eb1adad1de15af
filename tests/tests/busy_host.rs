//! A host whose CPUs other processes use as well: CPU use is still attributed correctly.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Patience, Running, require};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);

/// One thread serves both ends of a race. Time in which it cannot run belongs to neither.
#[test]
fn a_race_beside_others_tells_what_each_end_used() {
    let (Some(drumfire), Some(taskset), Some(shell)) =
        (Drumfire::find(), require("taskset"), require("sh"))
    else {
        return;
    };
    let folder = Folder::new();
    let race = |out: &str| {
        let args = format!(
            "race --cores 0 --targets 2 --volumes 5 --volume-size 1m --seconds 3 --ramp 0.5 \
             --json --out {out}"
        );
        let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
        let used = |end: &str| result["cpu"][end].as_f64().unwrap();
        (used("initiator_cores"), used("target_cores"))
    };
    let quiet = race("quiet");
    let spin = || {
        let mut command = Command::new(&taskset);
        command.args(["-c", "0"]).arg(&shell).args(["-c", "while :; do :; done"]);
        Running::start(&mut command)
    };
    let others: Vec<Running> = (0..5).map(|_| spin()).collect();
    let busy = race("busy");
    drop(others);
    let share = |(initiator, target): (f64, f64)| initiator / (initiator + target);
    let (quiet_share, busy_share) = (share(quiet), share(busy));
    assert!((0.2..0.8).contains(&quiet_share), "{quiet:?}");
    assert!((busy_share / quiet_share - 1.0).abs() < 0.4, "{quiet:?}, {busy:?}");
}

/// A run that has hardly any CPU time when the user requests a stop saves its results.
#[test]
fn a_run_that_is_starved_at_its_end_is_waited_for() {
    let (Some(drumfire), Some(taskset), Some(shell)) =
        (Drumfire::find(), require("taskset"), require("sh"))
    else {
        return;
    };
    for run in ["run null:1g --rate 1000 --seconds 100 --ramp 0 --out kept", FIO] {
        let folder = Folder::new();
        let inner = drumfire.command(folder.path(), run);
        let mut command = Command::new(&taskset);
        command.args(["-c", "0", "nice", "-n", "19"]).arg(inner.get_program());
        command.args(inner.get_args()).current_dir(folder.path());
        let run = Running::start(&mut command);
        let mut patience = Patience::new(Duration::from_secs(2));
        while patience.wait() {}
        let spin = || {
            let mut command = Command::new(&taskset);
            command.args(["-c", "0"]).arg(&shell).args(["-c", "while :; do :; done"]);
            Running::start(&mut command)
        };
        let others: Vec<Running> = (0..4).map(|_| spin()).collect();
        let mut patience = Patience::new(Duration::from_millis(500));
        while patience.wait() {}
        run.signal(Signal::INT);
        let ended = run.finish(LIMIT);
        drop(others);
        let kept = folder.path().join("kept/result.json").is_file();
        assert!(kept || ended.stdout.contains("Run status group"), "{ended:?}");
    }
}

const FIO: &str =
    "fio --name=a --ioengine=null --size=1g --time_based --runtime=100 --rate_iops=1000";
