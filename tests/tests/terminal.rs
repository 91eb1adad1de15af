//! Terminals that go away or accept no more output: the run ends, and saves its results.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, OnTerminal, Running, Terminal, require};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
/// Time limit: longer than any orderly end, and shorter than any run here.
const SOON: Duration = Duration::from_secs(60);
/// Exit code after an interruption; the result up to then is saved.
const INTERRUPTED: Option<i32> = Some(130);

/// The command in a session whose controlling terminal is its standard input, as a shell starts it.
fn in_session(command: &Command) -> Option<Command> {
    let setsid = require("setsid")?;
    heeding_hang_ups(&[setsid.as_os_str(), "-c".as_ref()], command)
}

/// The command after these words, and with default handling of SIGHUP also if the tests run under
/// `nohup`.
fn heeding_hang_ups(words: &[&OsStr], command: &Command) -> Option<Command> {
    let mut inside = Command::new(require("env")?);
    inside.arg("--default-signal=HUP").args(words);
    inside.arg(command.get_program()).args(command.get_args());
    inside.current_dir(command.get_current_dir().expect("it has a folder"));
    Some(inside)
}

/// Whether a run in `folder` has measured a second.
fn measures(folder: &Path) -> bool {
    let text = std::fs::read_to_string(folder.join("seconds.jsonl")).unwrap_or_default();
    text.contains(r#""phase":"run""#)
}

/// Drives for longer than any test waits, in a full screen.
fn long(drumfire: &Drumfire, folder: &Folder, args: &str) -> Command {
    let args = format!("{args} --seconds 3000 --ramp 0 --json-lines seconds.jsonl --out kept");
    drumfire.command(folder.path(), &args)
}

fn is_drawn(program: &OnTerminal) -> bool {
    // The alternate screen, and text of the view's last line.
    program.seen().contains("\x1b[?1049h") && program.seen().contains("IOPS")
}

fn result(folder: &Folder, name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.path().join(name)).expect("a result is kept");
    serde_json::from_str(&text).unwrap()
}

fn ends_with_its_window(args: &str, session: bool) {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let command = long(&drumfire, &folder, args);
    let inside = if session { in_session(&command) } else { heeding_hang_ups(&[], &command) };
    let Some(command) = inside else { return };
    let terminal = Terminal::open();
    let mut run = terminal.start(&command);
    run.await_that(LIMIT, |run| is_drawn(run) && measures(folder.path()));
    terminal.close();
    assert_eq!(run.finish(SOON), INTERRUPTED, "{}", run.seen());
    let result = result(&folder, "kept/result.json");
    let partial = result["partial"].as_str().unwrap_or_default();
    assert!(partial.contains("3000"), "{result}");
    assert!(result["totals"]["ios"].as_f64().unwrap() > 0.0, "{result}");
    // The run drained: the hang-up of a user who is gone counts as one stop request.
    assert_eq!(result["totals"]["errors"], 0, "{result}");
}

#[test]
fn a_run_ends_with_its_window() {
    ends_with_its_window("run null:1g --rate 1000", true);
}

/// The kernel sends SIGHUP only to the session of the terminal.
#[test]
fn a_run_ends_with_a_terminal_that_is_not_its_sessions() {
    ends_with_its_window("run null:1g --rate 1000", false);
}

#[test]
fn a_race_ends_with_its_window() {
    ends_with_its_window("race --targets 2 --volumes 2 --volume-size 1m --rate 1000", true);
}

/// Gigabytes take seconds to fill: a note is printed meanwhile, before the first picture.
#[test]
fn a_race_says_at_once_what_it_prepares() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "race --targets 2 --volumes 5 --volume-size 32m --seconds 1 --ramp 0";
    let terminal = Terminal::open();
    let mut race = terminal.start(&drumfire.command(folder.path(), args));
    race.await_that(LIMIT, |race| !race.seen().is_empty());
    let seen = race.seen();
    assert!(seen.starts_with("drumfire: preparing 10 volumes of 32 MiB …"), "{seen}");
    assert_eq!(race.finish(LIMIT), Some(0), "{}", race.seen());
    let seen = race.seen();
    assert!(seen.find("preparing") < seen.find("\x1b[?1049h"), "{seen}");
}

#[test]
fn a_simulation_ends_with_its_window() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "simulate x25-m --seconds 10000000 --ramp 0 --out kept";
    let Some(command) = in_session(&drumfire.command(folder.path(), args)) else { return };
    let terminal = Terminal::open();
    let mut run = terminal.start(&command);
    run.await_that(LIMIT, is_drawn);
    terminal.close();
    assert_eq!(run.finish(SOON), INTERRUPTED, "{}", run.seen());
    result(&folder, "kept/result.json");
}

#[test]
fn a_sweep_ends_with_its_window_and_goes_on_later() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let command = long(&drumfire, &folder, "sweep null:1g --rate 1000 --repeats 2");
    let Some(command) = in_session(&command) else { return };
    let terminal = Terminal::open();
    let mut run = terminal.start(&command);
    run.await_that(LIMIT, |run| is_drawn(run) && measures(folder.path()));
    terminal.close();
    assert_eq!(run.finish(SOON), INTERRUPTED, "{}", run.seen());
    assert!(result(&folder, "kept/sweep.json")["cells"].is_array());
}

/// A volume is written once before anything is measured.
#[test]
fn filling_ends_with_its_window() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    // About a minute of preparation.
    let command = long(&drumfire, &folder, "run delay:x25-m(null:4g) --verify --rw rw");
    let Some(command) = in_session(&command) else { return };
    let terminal = Terminal::open();
    let mut run = terminal.start(&command);
    run.await_that(LIMIT, is_drawn);
    terminal.close();
    assert_eq!(run.finish(SOON), INTERRUPTED, "{}", run.seen());
}

#[test]
fn a_target_ends_with_its_window() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "serve --iscsi 127.0.0.1:0 --volume disk=ram:1m";
    let Some(command) = in_session(&drumfire.command(folder.path(), args)) else { return };
    let terminal = Terminal::open();
    let mut target = terminal.start(&command);
    target.await_that(LIMIT, |target| target.seen().contains("ready "));
    terminal.close();
    assert_eq!(target.finish(SOON), Some(0), "{}", target.seen());
}

/// A run with SIGHUP ignored completes, also one that began in a full screen.
#[test]
fn a_run_that_ignores_hang_ups_outlives_its_window() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(env) = require("env") else { return };
    let folder = Folder::new();
    let args = "run null:1g --rate 1000 --seconds 4 --ramp 0 --json-lines seconds.jsonl --out kept";
    let plain = drumfire.command(folder.path(), args);
    let mut command = Command::new(env);
    command.arg("--ignore-signal=HUP").arg(plain.get_program()).args(plain.get_args());
    let terminal = Terminal::open();
    let mut run = terminal.start(command.current_dir(folder.path()));
    run.await_that(LIMIT, |run| is_drawn(run) && measures(folder.path()));
    terminal.close();
    assert_eq!(run.finish(LIMIT), Some(0));
    assert!(result(&folder, "kept/result.json")["partial"].is_null());
}

/// A broken connection accepts some kilobytes, then nothing: the run continues as planned and saves
/// its result.
#[test]
fn a_terminal_that_takes_no_more_does_not_hold_the_run_up() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "race --targets 20 --volumes 1 --volume-size 1m --rate 2000 --seconds 3 --ramp 0 \
                --out kept";
    let Some(command) = in_session(&drumfire.command(folder.path(), args)) else { return };
    let terminal = Terminal::unread();
    // Full as after some minutes of pictures, but for a few bytes.
    let mut filler = terminal.start(&Command::new("yes"));
    std::thread::sleep(Duration::from_millis(500));
    filler.signal(Signal::KILL);
    let _ = filler.finish(SOON);
    let mut run = terminal.start(&command);
    let kept = folder.path().join("kept/report.txt");
    run.await_that(SOON, |_| kept.is_file());
    assert!(result(&folder, "kept/result.json")["partial"].is_null());
    // The run is about to print. A second signal ends it.
    run.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    run.signal(Signal::TERM);
    assert_eq!(run.finish(SOON), INTERRUPTED);
}

#[test]
fn keys_end_a_run_in_order() {
    let Some(drumfire) = Drumfire::find() else { return };
    for keys in ["q", "\x03"] {
        let folder = Folder::new();
        let terminal = Terminal::open();
        let mut run = terminal.start(&long(&drumfire, &folder, "run null:1g --rate 1000"));
        run.await_that(LIMIT, |run| is_drawn(run) && measures(folder.path()));
        // Neither an arrow nor Alt-q is one of the keys.
        terminal.press("\x1b[A\x1bqx");
        std::thread::sleep(Duration::from_millis(300));
        terminal.press(keys);
        assert_eq!(run.finish(SOON), INTERRUPTED, "{}", run.seen());
        result(&folder, "kept/result.json");
        // The terminal is restored, then the result is printed there.
        run.await_that(SOON, |run| run.seen().contains("saved in kept"));
        let seen = run.seen();
        assert!(seen.rfind("\x1b[?1049l") < seen.rfind("saved in"), "{seen}");
    }
}

/// A sleeping target responds to nothing, and a run would wait for it: the second key ends the run
/// at once, and restores the terminal.
#[test]
fn the_second_key_ends_a_run_that_cannot_drain() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let served = drumfire.serve(&["disk=ram:16m"]);
    let command = long(&drumfire, &folder, &format!("run {}", served.uri("disk")));
    let terminal = Terminal::open();
    let mut run = terminal.start(&command);
    run.await_that(LIMIT, |run| is_drawn(run) && measures(folder.path()));
    served.running.signal(Signal::STOP);
    for _ in 0..2 {
        terminal.press("\x03");
        std::thread::sleep(Duration::from_millis(500));
    }
    // Less than the ten seconds of draining.
    assert_eq!(run.finish(Duration::from_secs(8)), INTERRUPTED, "{}", run.seen());
    let seen = run.seen();
    assert!(seen.contains("\x1b[?1049l"), "the terminal is not given back: {seen}");
}

/// Closes the window at any moment: while the run starts, opens its view, measures, drains, prints.
#[test]
fn whenever_its_window_closes_a_run_ends() {
    let Some(drumfire) = Drumfire::find() else { return };
    let mut moment = 1_u64;
    for round in 0..16 {
        let folder = Folder::new();
        let kind = ["run null:1g --rate 1000", "race --targets 1 --volumes 2 --volume-size 1m"];
        let args = format!("{} --seconds 0.6 --ramp 0.2 --out kept", kind[round % 2]);
        let Some(command) = in_session(&drumfire.command(folder.path(), &args)) else { return };
        let terminal = Terminal::open();
        let mut run = terminal.start(&command);
        moment = moment.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let after = Duration::from_millis((moment >> 33) % 1500);
        std::thread::sleep(after);
        terminal.close();
        // Before signals are handled SIGHUP kills it; later it has ended by itself.
        let code = run.finish(SOON);
        assert!([None, INTERRUPTED, Some(0)].contains(&code), "{after:?}: {code:?}");
        let kept = folder.path().join("kept/result.json").is_file();
        assert!(kept || code.is_none(), "{after:?}: {code:?}, and no trace");
    }
}

/// The second signal ends the program, whatever hangs: here the printing, as nobody reads.
#[test]
fn the_second_signal_ends_a_program_that_hangs() {
    let Some(drumfire) = Drumfire::find() else { return };
    for signal in [Signal::INT, Signal::TERM] {
        let folder = Folder::new();
        let (reader, writer) = std::io::pipe().unwrap();
        let mut full = writer.try_clone().unwrap();
        std::thread::spawn(move || std::io::Write::write_all(&mut full, &[b' '; 1 << 20]));
        let args = "run null:1g --rate 1000 --seconds 1 --ramp 0 --out kept";
        let mut command = drumfire.command(folder.path(), args);
        let mut run = command.stdout(writer).stderr(std::process::Stdio::null()).spawn().unwrap();
        let kept = folder.path().join("kept/report.txt");
        let mut patience = drumfire_tests::Patience::new(SOON);
        while !kept.is_file() {
            assert!(patience.wait(), "no trace");
        }
        let id = rustix::process::Pid::from_child(&run);
        // Two signals that a busy host delivers at once are merged.
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(1500));
            rustix::process::kill_process(id, signal).unwrap();
        }
        let mut patience = drumfire_tests::Patience::new(Duration::from_secs(20));
        while run.try_wait().unwrap().is_none() && patience.wait() {}
        let ended = run.try_wait().unwrap();
        let _ = run.kill().and_then(|()| run.wait());
        drop(reader);
        assert_eq!(ended.and_then(|status| status.code()), INTERRUPTED, "{signal:?}");
    }
}

#[test]
fn a_signal_ends_what_lays_files_out() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("job.fio", b"[global]\nrw=randread\nsize=4g\nfilename=big.img\n[a]\n");
    let mut run = Running::start(&mut drumfire.command(folder.path(), "run job.fio"));
    let names = || {
        let inside = std::fs::read_dir(folder.path()).unwrap().flatten();
        inside.map(|entry| entry.file_name()).filter(|name| name != "job.fio").collect::<Vec<_>>()
    };
    run.await_that(LIMIT, |_| (!names().is_empty()).then_some(()));
    run.signal(Signal::TERM);
    let finished = run.finish(SOON);
    assert_eq!(finished.code, INTERRUPTED, "{finished:?}");
    assert!(names().is_empty(), "half a file stays: {:?}", names());
}

/// Output of a command on a terminal of 24 × 80, and its last twelve lines: no word is split.
fn printed_on_80_columns(drumfire: &Drumfire, folder: &Folder, args: &str) -> (String, String) {
    let terminal = Terminal::sized(24, 80);
    let mut run = terminal.start(&drumfire.command(folder.path(), args));
    assert_eq!(run.finish(LIMIT), Some(0), "{}", run.seen());
    let seen = run.seen();
    let (_, printed) = seen.rsplit_once("\x1b[?1049l").unwrap_or(("", &seen));
    let lines: Vec<&str> = printed.lines().map(|line| line.trim_end_matches('\r')).collect();
    for line in &lines {
        // A colour ends with a letter.
        let parts = line.split("\x1b[").enumerate();
        let shown = parts.map(|(at, part)| match at {
            0 => part,
            _ => part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest),
        });
        let wide = shown.map(|part| part.chars().count()).sum::<usize>() > 80;
        assert!(!wide || !line.trim().contains(' '), "{line}");
    }
    (lines.join("\n"), lines[lines.len().saturating_sub(12)..].join("\n"))
}

/// A hurried reader finds number, latencies, class and folder on the last screen.
#[test]
fn the_last_screen_says_what_was_measured() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "run ram:64m --size 4k --read 70 --outstanding 4 --seconds 2 --ramp 0.2 \
                --no-ceiling --fail-if iops<1 --out kept";
    let (_, last) = printed_on_80_columns(&drumfire, &folder, args);
    for words in [" IOPS", " measured", "p50 ", "p99 ", "max ", "fail if iops<1", "saved in "] {
        assert!(last.contains(words), "no '{words}' in\n{last}");
    }
}

/// The last screen of a sweep with any number of cells, and of a comparison of two, has the
/// results, too.
#[test]
fn the_last_screen_of_a_sweep_and_of_a_comparison_says_what_they_came_to() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let sweep = |out: &str| {
        format!(
            "sweep ram:64m --size 4k --axis outstanding=1,2,4,8 --repeats 2 --seconds 0.5 --ramp 0 \
             --no-ceiling --fail-if iops<1 --fail-if errors>0 --out {out}"
        )
    };
    let (all, last) = printed_on_80_columns(&drumfire, &folder, &sweep("s"));
    let sum = [
        "best: ",
        " IOPS",
        " measured in 0.50 s at",
        "runs     2 of 2; ",
        "p50 ",
        "p99 ",
        "max ",
        "cells    4: 4 indicative",
        "bounds   0 of 8 missed",
        "saved in s",
    ];
    for words in sum {
        assert!(last.contains(words), "no '{words}' in\n{last}\nof\n{all}");
    }
    // The table above is split between its columns.
    let heads = all.lines().filter(|line| line.contains("outstanding  "));
    assert!(heads.count() >= 2, "{all}");
    // Half a second of a busy host may be no measurement, which misses the bounds.
    let again = drumfire.run(folder.path(), &sweep("t"), LIMIT);
    assert!([Some(0), Some(4)].contains(&again.code), "{again:?}");
    let (all, last) = printed_on_80_columns(&drumfire, &folder, "compare s t --fail-if errors>0");
    for words in
        ["pairs    4; IOPS ", "class    ", "  outstanding=", "bounds   0 of 4", "saved in s and t"]
    {
        assert!(last.contains(words), "no '{words}' in\n{last}\nof\n{all}");
    }
    let one = |folder: &str| format!("{folder}/001-outstanding=1/repeat-1");
    let args = format!("compare {} {}", one("s"), one("t"));
    let (all, last) = printed_on_80_columns(&drumfire, &folder, &args);
    for words in
        ["IOPS     ", "class    indicative: ", "p50      ", "p99 ", "max      ", "saved in "]
    {
        assert!(last.contains(words), "no '{words}' in\n{last}\nof\n{all}");
    }
}
