//! Clocks, CPUs and limits that were changed for a run, or for one thread of it, are detected from
//! outside the process, and reported.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{ControlGroup, Drumfire, Folder, Loop, Running, check, require, run, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(60);
const RUN: &str =
    "run ram:64m --size 4k --outstanding 4 --seconds 2 --ramp 0.5 --no-ceiling --json";

/// Result of a run started by the command `by`.
fn started_by(drumfire: &Drumfire, by: &[&str], folder: &Folder) -> Option<Value> {
    require(by[0])?;
    let inner = drumfire.command(folder.path(), RUN);
    let mut command = Command::new(by[0]);
    command.args(&by[1..]).arg(inner.get_program()).args(inner.get_args());
    let finished = run(command.current_dir(folder.path()), LIMIT);
    if finished.code == Some(0) {
        return Some(finished.json());
    }
    assert!(finished.code.is_some_and(|code| code != 101), "{by:?}: {}", finished.stderr);
    skip(&format!("{}: {}", by[0], finished.stderr.trim()));
    None
}

/// H13 detects: a real-time class, a nice value.
/// H13 accepts: default scheduling.
#[test]
fn a_class_or_priority_of_its_own_is_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let lies: [(&[&str], &str); 3] = [
        (&["chrt", "-f", "1"], "SCHED_FIFO"),
        (&["chrt", "-b", "0"], "SCHED_BATCH"),
        (&["nice", "-n", "5"], "nice value 5"),
    ];
    for (by, words) in lies {
        let Some(result) = started_by(&drumfire, by, &folder) else { continue };
        let (verdict, evidence) = check(&result, "H13");
        assert!(verdict == "warn" && evidence.contains(words), "{verdict}: {evidence}");
    }
    let twin = drumfire.run(folder.path(), RUN, LIMIT).ok().json();
    let (_, evidence) = check(&twin, "H13");
    assert!(!evidence.contains("thread '"), "{evidence}");
}

/// H13 detects: idle CPUs in a file mounted over the kernel's.
/// H17 detects: idle CPUs in a file mounted over the kernel's.
/// H15 detects: an uptime of another host.
#[test]
fn files_over_those_of_the_kernel_are_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for (file, codes) in [("/proc/stat", &["H13", "H17"][..]), ("/proc/uptime", &["H15"])] {
        let copy = folder.file("copy", &std::fs::read(file).unwrap());
        let mount = format!("mount --bind {} {file} && exec \"$@\"", copy.display());
        let by = ["unshare", "-m", "sh", "-c", &mount, "sh"];
        let Some(result) = started_by(&drumfire, &by, &folder) else { return };
        for code in codes {
            let (verdict, evidence) = check(&result, code);
            assert!(!["pass", "not-applicable"].contains(&&*verdict), "{code}: {evidence}");
            let words = format!("{file} is not the kernel's");
            assert!(evidence.contains(&words), "{code}: {evidence}");
        }
    }
    let twin = drumfire.run(folder.path(), RUN, LIMIT).ok().json();
    let mounted = |check: &Value| check["evidence"].as_str().unwrap().contains("mounted over");
    assert!(!twin["checks"].as_array().unwrap().iter().any(mounted), "{twin}");
    assert!(has_a_right_clock(&twin), "{twin}");
}

/// Whether H15 finds no fault with the clock itself. A busy host may have held the run up.
fn has_a_right_clock(result: &Value) -> bool {
    let (verdict, evidence) = check(result, "H15");
    verdict == "pass" || evidence.contains("not scheduled for")
}

/// A library that changes the clocks of the C library as `WRONG` says: all slower or faster, or
/// clocks of CPU time before zero, as libfaketime does to them.
const WRONG_CLOCK: &str = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdlib.h>\n\
    #include <time.h>\n\
    int clock_gettime(clockid_t id, struct timespec *at) {\n\
    static int (*real)(clockid_t, struct timespec *);\n\
    if (!real) real = dlsym(RTLD_NEXT, \"clock_gettime\");\n\
    int failed = real(id, at);\n\
    long long ns = at->tv_sec * 1000000000LL + at->tv_nsec;\n\
    switch (getenv(\"WRONG\")[0]) {\n\
    case 's': ns /= 4; break;\n\
    case 'f': ns *= 4; break;\n\
    default: if (id < 0 || id == 2 || id == 3) ns -= 10000000000LL; }\n\
    at->tv_sec = ns / 1000000000LL; at->tv_nsec = ns % 1000000000LL;\n\
    if (at->tv_nsec < 0) { at->tv_nsec += 1000000000LL; at->tv_sec--; }\n\
    return failed;\n}\n";

/// A clock that a library changes neither lengthens a window nor raises a rate unseen, and ends no
/// run.
/// H15 detects: libraries that run the C library's clocks at a quarter, or four times as fast.
/// H15 detects: a library that sets clocks of CPU time before zero.
/// H15 accepts: the clocks of the C library.
#[test]
fn a_clock_that_a_library_scales_makes_nothing_faster() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(cc) = require("cc") else { return };
    let folder = Folder::new();
    folder.file("wrong.c", WRONG_CLOCK.as_bytes());
    let library = folder.path().join("wrong.so");
    let made = Command::new(cc)
        .args(["-shared", "-fPIC", "-o", "wrong.so", "wrong.c", "-ldl"])
        .current_dir(folder.path())
        .status();
    if !made.is_ok_and(|made| made.success()) {
        return skip("cc makes no library");
    }
    let preload = format!("LD_PRELOAD={}", library.display());
    let measure = |by: &[&str]| {
        let began = std::time::Instant::now();
        let result = started_by(&drumfire, by, &folder)?;
        Some((result, began.elapsed().as_secs_f64()))
    };
    let Some((twin, twin_s)) = measure(&["env"]) else { return };
    assert!(has_a_right_clock(&twin), "{twin}");
    for wrong in ["WRONG=slow", "WRONG=fast", "WRONG=cpu"] {
        let Some((lie, lie_s)) = measure(&["env", &preload, wrong]) else { return };
        let (verdict, evidence) = check(&lie, "H15");
        // Lengths of both windows, and the overhead of a busy host.
        let is_scaled = lie_s > twin_s + 2.0 * 2.0;
        let at = format!("{wrong}: {lie_s} s for {twin_s} s: {verdict}: {evidence}");
        assert!(!is_scaled || verdict == "fail", "{at}");
        assert!(verdict == "fail" || lie_s < twin_s + 2.0, "{at}");
        let cores = lie["cpu"]["initiator_cores"].as_f64().unwrap();
        assert!(cores > 0.0 && cores < 1.5, "{at}: one worker used {cores} cores");
    }
}

/// H18 detects: an I/O limit of one thread.
/// H18 accepts: no I/O limit.
#[test]
fn a_limit_of_io_of_one_thread_is_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let file = folder.file("disk", &vec![0xa5; 64 << 20]);
    std::fs::File::open(&file).unwrap().sync_all().unwrap();
    let Some(device) = Loop::direct(&file) else { return };
    let old = format!("{} 200\n", device.told("dev"));
    let v1 = ["blkio", "blkio.throttle.read_iops_device", &*old];
    let Some(group) = ControlGroup::with(v1, ["io", "io.max", ""]) else { return };
    if !group.path().join("tasks").exists() {
        return skip("control groups of version 2 take whole processes");
    }
    let args = format!(
        "run file:{} --size 4k --outstanding 8 --seconds 2 --ramp 0.5 --no-ceiling --json",
        device.path()
    );
    let measure = |limited: bool| {
        let running = Running::start(&mut drumfire.command(folder.path(), &args));
        if limited {
            std::thread::sleep(Duration::from_millis(1000));
            move_threads(&running, &group);
        }
        running.finish(LIMIT).ok().json()
    };
    let (verdict, evidence) = check(&measure(true), "H18");
    let name = group.path().display().to_string();
    assert!(verdict == "warn" && evidence.contains(&name), "{verdict}: {evidence}");
    assert!(evidence.contains("200 reads per second"), "{evidence}");
    let (_, evidence) = check(&measure(false), "H18");
    assert!(!evidence.contains(&name), "{evidence}");
}

/// Moves all threads but the first into a group.
fn move_threads(running: &Running, group: &ControlGroup) {
    let process = running.id();
    for thread in std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
        let thread = thread.file_name().into_string().unwrap();
        if thread != process.to_string() {
            // A thread that has ended is in no group.
            let _ = std::fs::write(group.path().join("tasks"), thread);
        }
    }
}

/// H13 detects: a CPU quota of one thread.
#[test]
fn a_quota_of_one_thread_is_told() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let v1 = ["cpu", "cpu.cfs_quota_us", "20000"];
    let Some(group) = ControlGroup::with(v1, ["cpu", "cpu.max", "20000 100000"]) else { return };
    if !group.path().join("tasks").exists() {
        return skip("control groups of version 2 take whole processes");
    }
    let running = Running::start(&mut drumfire.command(folder.path(), RUN));
    std::thread::sleep(Duration::from_millis(1000));
    move_threads(&running, &group);
    let result = running.finish(LIMIT).ok().json();
    let (verdict, evidence) = check(&result, "H13");
    assert!(evidence.contains(&*group.path().to_string_lossy()), "{evidence}");
    let stat = std::fs::read_to_string(group.path().join("cpu.stat")).unwrap();
    let stopped = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
    if stopped == Some("0") {
        return skip("the host is so busy that the quota stopped nothing");
    }
    assert!(verdict == "warn" && evidence.contains("throttled "), "{stat}: {evidence}");
    assert!(!evidence.contains("throttled 0 times"), "{stat}: {evidence}");
}

/// In a cgroup namespace, cgroups above its root are invisible, but their limits apply.
/// H13 detects: a CPU quota of a cgroup above the namespace.
/// H18 detects: cgroups that a namespace hides.
/// H13 accepts: the host's own namespaces.
#[test]
fn groups_above_a_namespace_are_not_passed() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let v1 = ["cpu", "cpu.cfs_quota_us", "20000"];
    let Some(group) = ControlGroup::with(v1, ["cpu", "cpu.max", "20000 100000"]) else { return };
    let Some(unshare) = require("unshare") else { return };
    let file = folder.file("disk", &vec![0xa5; 1 << 20]);
    let args =
        format!("run file:{} --size 4k --seconds 1 --ramp 0 --no-ceiling --json", file.display());
    let inner = drumfire.command(folder.path(), &args);
    let below = |by: &[&str]| {
        let mut command = Command::new(&unshare);
        command.args(by).arg(inner.get_program()).args(inner.get_args());
        run(group.put(command.current_dir(folder.path())).current_dir(folder.path()), LIMIT)
    };
    let hidden = below(&["--cgroup"]);
    if hidden.code != Some(0) {
        return skip(&format!("no namespace of control groups: {}", hidden.stderr.trim()));
    }
    let hidden = hidden.json();
    for code in ["H13", "H18"] {
        let (verdict, evidence) = check(&hidden, code);
        assert!(["unknown", "warn"].contains(&&*verdict), "{code} {verdict}: {evidence}");
        assert!(evidence.contains("cgroups above this namespace are not visible"), "{evidence}");
    }
    assert_eq!(hidden["host"]["namespaces"], "cgroup", "{hidden}");
    let note = "runs in its own namespaces: control groups above are not visible";
    assert!(hidden["warnings"].as_array().unwrap().contains(&note.into()), "{hidden}");
    // Separate user and PID namespaces hide no cgroup, and are reported.
    let own = below(&["--user", "--map-root-user", "--pid", "--fork"]);
    if own.code == Some(0) {
        assert_eq!(own.json()["host"]["namespaces"], "user, pid", "{own:?}");
    }
    let twin = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    if twin["host"]["namespaces"].is_null() {
        let (_, evidence) = check(&twin, "H13");
        assert!(!evidence.contains("this namespace"), "{evidence}");
    }
}
