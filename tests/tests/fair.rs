//! One core of a server has many volumes and many peers: each gets its share, and none is affected
//! by the others.

use std::process::Command;
use std::time::{Duration, Instant};

use drumfire_tests::{Client, Drumfire, Finished, Folder, Running};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
/// Profile of a drive that executes one I/O at a time, 2 ms each.
const SLOW: &str = "name = \"slow\"\nabout = \"one I/O at a time\"\nqueue_depth = 32\n\
                    [[stage]]\nname = \"drive\"\nservers = 1\nread = { each_s = 2e-3 }\n\
                    write = { each_s = 2e-3 }\n";

/// The rate of each worker of a result.
fn rates(finished: &Finished) -> Vec<f64> {
    let document = finished.json();
    let workers = document["workers"].as_array().expect("workers");
    workers.iter().map(|worker| worker["iops"].as_f64().expect("a rate")).collect()
}

/// Asserts that all rates of a run are nearly equal. A server's favourite is the same in each run;
/// a victim of a busy host is a different one in each of the three runs.
fn assert_equal(what: &str, run: impl Fn() -> Vec<f64>) {
    let mut runs = Vec::new();
    for _ in 0..3 {
        let rates = run();
        let [least, most] = [f64::min, f64::max].map(|of| rates.iter().copied().reduce(of));
        if least.unwrap_or(0.0) >= 0.8 * most.unwrap_or(0.0) {
            return;
        }
        runs.push(rates);
    }
    panic!("{what}: {runs:?}");
}

#[test]
fn slow_volumes_of_one_core_have_equal_shares() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let profile = folder.path().join("slow.toml");
    std::fs::write(&profile, SLOW).unwrap();
    for (count, depth) in [(3, 16), (5, 1), (16, 4)] {
        let volume = |number| format!("v{number}=delay:{}(ram:16m)", profile.display());
        let volumes: Vec<String> = (0..count).map(volume).collect();
        let args: Vec<String> = volumes.iter().map(|it| format!("--volume {it}")).collect();
        let served = drumfire.serve_with(&format!("--cores 0 {}", args.join(" ")));
        for nvme in [false, true] {
            let uri = |number| {
                let name = format!("v{number}");
                if nvme { served.nvme_uri(&name) } else { served.uri(&name) }
            };
            let uris: Vec<String> = (0..count).map(uri).collect();
            let args = format!(
                "run {} --size 4k --outstanding {depth} --seconds 2 --ramp 0 --json",
                uris.join(" ")
            );
            let run = || rates(&drumfire.run(folder.path(), &args, LIMIT).ok());
            assert_equal(&format!("{count} volumes, depth {depth}"), run);
        }
    }
}

#[test]
fn a_stalled_backend_stops_no_other_volume() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let backend = drumfire.serve(&["back=ram:16m"]);
    let far = format!("far={}", backend.uri("back"));
    let served = drumfire.serve_with(&format!("--cores 0 --volume {far} --volume near=ram:16m"));
    let run = |name: &str, seconds: u32| {
        let uri = served.uri(name);
        format!("run {uri} --size 4k --seconds {seconds} --ramp 0 --json --outstanding 1")
    };
    let before = drumfire.run(folder.path(), &run("near", 2), LIMIT).ok();
    backend.running.signal(Signal::STOP);
    // The run requests a login that nobody answers.
    let asking = Running::start(&mut drumfire.command(folder.path(), &run("far", 1)));
    let during = drumfire.run(folder.path(), &run("near", 6), LIMIT);
    backend.running.signal(Signal::CONT);
    drop(asking);
    let [before, during] = [before, during.ok()].map(|it| rates(&it)[0]);
    assert!(during >= 0.5 * before, "{before} IOPS, and {during} beside a stalled backend");
    // The backend is used again.
    drumfire.run(folder.path(), &run("far", 1), LIMIT).ok();
}

#[test]
fn idle_sessions_keep_no_buffers_on_old_kernels() {
    let Some(drumfire) = Drumfire::find() else { return };
    let mut command = Command::new(drumfire.path());
    command.env("DRUMFIRE_WITHOUT", "multishot_receive");
    let served = drumfire.serve_by(command, [0, 0], "--cores 0 --volume disk=ram:16m");
    let mut idle = Vec::new();
    for number in 0..150 {
        let mut client = Client::connect(served.port);
        assert!(client.login_as("disk", number), "login {number}");
        idle.push(client);
    }
    let folder = Folder::new();
    let args = format!("run {} --seconds 1 --ramp 0 --json", served.uri("disk"));
    assert!(rates(&drumfire.run(folder.path(), &args, LIMIT).ok())[0] > 100.0);
}

#[test]
fn a_server_accepts_again_when_it_has_files_again() {
    let Some(drumfire) = Drumfire::find() else { return };
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -Sn 40; ulimit -Hn 64; exec \"$@\"", "sh"]).arg(drumfire.path());
    let served = drumfire.serve_by(limited, [0, 0], "--cores 0 --volume disk=ram:16m");
    let mut sessions = Vec::new();
    for number in 0..100 {
        let mut client = Client::connect(served.port);
        client.waits_for(Duration::from_secs(2));
        if !client.login_as("disk", number) {
            break;
        }
        sessions.push(client);
    }
    // The soft limit of 40 was raised to the hard one, and then no more descriptors were left.
    assert!((30..64).contains(&sessions.len()), "{} sessions", sessions.len());
    drop(sessions);
    let portal = format!("discover 127.0.0.1:{}", served.port);
    let begin = Instant::now();
    loop {
        let finished = drumfire.run(&std::env::temp_dir(), &portal, LIMIT);
        if finished.code == Some(0) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "deaf: {}", finished.stderr);
    }
    let said = served.running.stderr();
    assert!(said.contains("ulimit -n"), "the remedy is named: {said}");
}
