//! Edges: little memory, jobs of others, files of other users.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Running, require, run, skip};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_limit_of_addresses_is_named() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("f", b"x");
    let sh = require("sh").expect("there is a shell");
    // Limits from one with which nothing starts, up to one with which all goes well.
    let mut named = 0;
    for args in [
        "serve --nbd 127.0.0.1:0 --volume d=ram:1m",
        "run null:1m --seconds 0.2 --ramp 0 --no-ceiling",
        "race --seconds 0.2 --ramp 0 --no-ceiling",
        "backup f --to null",
        "attach ram:1m attached",
    ] {
        for kib in [56_000, 60_000, 64_000, 70_000, 80_000] {
            let program = drumfire.path().display();
            let script = format!("ulimit -v {kib}; exec timeout -s INT 1 {program} {args}");
            let mut command = Command::new(&sh);
            let ended = run(command.args(["-c", &script]).current_dir(folder.path()), LIMIT);
            let words = ended.stderr;
            // Messages of the dynamic loader are not the program's.
            if !words.contains("drumfire: ") || words.contains("ready") {
                continue;
            }
            let is_short = ["no memory", "Cannot allocate", "temporarily unavailable"];
            if is_short.iter().any(|part| words.contains(part)) {
                assert!(words.contains("raise 'ulimit -v'"), "{kib}: {args}: {words}");
                assert!(!words.contains("ulimit -l"), "{kib}: {args}: {words}");
                named += 1;
            }
        }
    }
    assert!(named > 0, "nothing was short");
}

#[test]
fn what_a_job_of_others_does_elsewhere_is_named_first() {
    let Some(drumfire) = Drumfire::find() else { return };
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let place = elsewhere.path().display();
    let job = format!(
        "[a]\nioengine=null\nsize=1m\nwrite_lat_log={place}/x\nwrite_bw_log=inside\n\
         exec_prerun=test -e {place}/x_lat.1.log || touch {place}/ran\n"
    );
    folder.file("job.fio", job.as_bytes());
    let (logs, _) = job.split_once("exec_prerun").unwrap();
    folder.file("logs.fio", logs.as_bytes());
    for (args, runs) in [("run logs.fio --out out", false), ("fio job.fio", true)] {
        let ended = drumfire.run(folder.path(), args, LIMIT).ok();
        let lines: Vec<&str> = ended.stderr.lines().collect();
        let at = |part: &str| lines.iter().position(|line| line.contains(part));
        for log in ["x_lat.1.log", "x_clat.1.log", "x_slat.1.log"] {
            assert!(at(&format!("writing the log {place}/{log}")).is_some(), "{ended:?}");
        }
        assert!(at("inside").is_none(), "{ended:?}");
        let said = at(&format!("a: running exec_prerun: test -e {place}"));
        assert_eq!(said.is_some(), runs, "{args}: {ended:?}");
    }
}

#[test]
fn a_command_that_does_not_end_is_named_before_it_runs() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let job = "[a]\nioengine=null\nsize=1m\nexec_prerun=sleep 1000 & sleep 2000\n";
    folder.file("job.fio", job.as_bytes());
    let mut running = Running::start(&mut drumfire.command(folder.path(), "fio job.fio"));
    running.await_stderr(LIMIT, |text| text.contains("running exec_prerun: sleep").then_some(()));
    running.signal(Signal::INT);
    // The job's children keep no pipe open either.
    let ended = running.finish(Duration::from_secs(20));
    assert_eq!(ended.code, Some(128), "{ended:?}");
}

#[test]
fn root_detaches_what_another_user_attached() {
    let Some(drumfire) = Drumfire::find() else { return };
    if fs::metadata("/dev/fuse").is_err() || require("fusermount3").is_none() {
        return;
    }
    let folder = Folder::new();
    let nobody = 65_534;
    if std::os::unix::fs::chown(folder.path(), Some(nobody), Some(nobody)).is_err() {
        skip("only root may be another user");
        return;
    }
    // The other user needs a readable copy of the program.
    let program = folder.path().join("drumfire");
    fs::copy(drumfire.path(), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["attach", "ram:8m", "attached"]).current_dir(folder.path());
    let mut running = Running::start(command.uid(nobody).gid(nobody));
    running.await_stdout(LIMIT, |text| text.starts_with("ready ").then_some(()));
    let mut detach = Command::new(&program);
    run(detach.args(["detach", "attached"]).current_dir(folder.path()), LIMIT).ok();
    running.finish(LIMIT).ok();
    // A folder without a volume is reported as one.
    let mut again = Command::new(&program);
    let ended = run(again.args(["detach", "attached"]).current_dir(folder.path()), LIMIT);
    assert!(ended.stderr.contains("no volume is attached there"), "{ended:?}");
}

#[test]
fn more_adapters_than_drives_are_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let plan = "plan --drive x25-m --adapter lsi-9210-8i";
    let ended = drumfire.run(folder.path(), &format!("{plan} --adapters 40"), LIMIT);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let said = "--adapters 40: at most one for each drive, and there are 1";
    assert!(ended.stderr.contains(said), "{ended:?}");
    let ended = drumfire.run(folder.path(), &format!("{plan} --drives 4 --adapters 4"), LIMIT);
    assert!(ended.ok().stdout.contains("4 x lsi-9210-8i"));
}
