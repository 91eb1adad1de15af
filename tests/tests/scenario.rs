//! `drumfire scenario`: published figures, compared with those of a model and of real I/O, and no
//! figure for an implausible run.

use std::time::{Duration, Instant};

use drumfire_tests::{Drumfire, Finished, Folder, Running, skip};
use rustix::process::Signal;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const NAMES: [&str; 5] =
    ["intel-28-ssd", "marvell-modules", "intel-iscsi", "third-io-iris", "fusion-vs-sas"];

fn rows(document: &Value, at: usize) -> &Vec<Value> {
    document["scenarios"][at]["rows"].as_array().expect("a scenario has rows")
}

#[test]
fn those_that_come_along_are_listed_and_shown() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let list = drumfire.run(folder.path(), "scenario list", LIMIT).ok().stdout;
    for name in NAMES {
        assert!(list.contains(name), "{list}");
        let shown = drumfire.run(folder.path(), &format!("scenario show {name}"), LIMIT).ok();
        assert!(shown.stdout.starts_with(&format!("name = \"{name}\"")), "{}", shown.stdout);
    }
    let wrong = drumfire.run(folder.path(), "scenario show nothing", LIMIT);
    assert_eq!(wrong.code, Some(2), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("third-io-iris"), "{}", wrong.stderr);
}

#[test]
fn modelled_figures_keep_the_contract_and_say_what_agreement_proves() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "scenario run all --modelled --out kept --json";
    let document = drumfire.run(folder.path(), args, LIMIT).ok().json();
    for (at, name) in NAMES.into_iter().enumerate() {
        assert_eq!(document["scenarios"][at]["name"], name);
        for row in rows(&document, at) {
            assert!(row["id"].is_string() && row["unit"].is_string(), "{row}");
            assert!(row["live"].is_null(), "nobody asked for it: {row}");
            let Some(modelled) = row["modelled"].as_f64() else {
                assert!(!row["reason"].as_str().unwrap().is_empty(), "{row}");
                continue;
            };
            let Some(published) = row["published"].as_f64().or(row["derived"].as_f64()) else {
                assert!(row["error_percent"].is_null(), "{row}");
                continue;
            };
            let error = row["error_percent"].as_f64().expect("a number");
            assert!((100.0 * (modelled / published - 1.0) - error).abs() < 1e-9, "{row}");
            let far = error.abs() > 5.0 && row["reason"].as_str().unwrap().is_empty();
            assert!(!far, "a difference without words: {row}");
        }
    }
    let processor = rows(&document, 0).iter().find(|row| row["id"] == "cpu-28").unwrap();
    assert_eq!(processor["modelled_origin"], "fitted");
    assert!(processor["reason"].as_str().unwrap().contains("proves nothing"), "{processor}");
    let page = drumfire.run(folder.path(), "report kept/scenarios.json --as html", LIMIT).ok();
    assert!(page.stdout.contains("third-io-iris") && page.stdout.contains("proves nothing"));
    // The page of the documents has the output of this command.
    let args = "scenario run all --modelled --out kept --markdown";
    let printed = drumfire.run(folder.path(), args, LIMIT).ok().stdout;
    let page = include_str!("../../docs/explanations/founding-systems.md");
    let same = page.contains(&format!("tidy --write` -->\n\n{printed}\n<!-- end -->"));
    assert!(same, "cargo xtask tidy --write; now it is\n{printed}");
    let run = |bound| {
        let args = format!("scenario run all --modelled --out kept --fail-if {bound}");
        drumfire.run(folder.path(), &args, LIMIT)
    };
    assert_eq!(run("modelled>60%").code, Some(0));
    let missed = run("third-io-iris/iops-2k.modelled>1%");
    assert_eq!((missed.code, missed.stderr.contains("MISSED")), (Some(4), true));
    assert_eq!(run("iops-2k.live>1%").code, Some(4), "no figure where one is asked for");
    assert_eq!(run("p99>1").code, Some(2));
}

#[test]
fn several_scenarios_are_run_in_their_order_and_none_twice() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |names: &str| {
        let args = format!("scenario run {names} --modelled --out kept --json");
        drumfire.run(folder.path(), &args, LIMIT)
    };
    let both = run("third-io-iris marvell-modules").ok().json();
    let names: Vec<&Value> =
        both["scenarios"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["third-io-iris", "marvell-modules"]);
    for (names, why) in [
        ("marvell-modules marvell-modules", "'marvell-modules' is already given"),
        ("all marvell-modules", "takes no further names"),
        ("marvell-modules third-iris", "did you mean 'third-io-iris'"),
    ] {
        let refused = run(names);
        assert_eq!(refused.code, Some(2), "{names}: {refused:?}");
        assert!(refused.stderr.contains(why), "{names}: {}", refused.stderr);
    }
}

/// Whether a row has no live figure because other programs had the processors.
fn busy(row: &Value) -> bool {
    row["live"].is_null()
        && row["reason"].to_string().contains("live: none: the host was not quiet")
}

#[test]
fn a_live_run_of_a_second_gives_figures_and_is_not_run_again() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "scenario run intel-iscsi --live --seconds 1 --out kept --json";
    // A busy machine may give no figure, with a reason: refused steps are run again.
    let mut tries = (0..5).map(|_| drumfire.run(folder.path(), args, LIMIT));
    let believed = |run: &Finished| run.code == Some(0) && !busy(&rows(&run.json(), 0)[0]);
    let Some(first) = tries.find(believed) else {
        skip("the host was not quiet in five live runs");
        return;
    };
    let first = first.json();
    let row = &rows(&first, 0)[0];
    assert!(row["live"].as_f64().is_some_and(|iops| iops > 100.0), "{row}");
    assert_eq!(row["live_origin"], "measured");
    assert!(row["modelled"].is_null(), "nobody asked for it: {row}");
    let mut again = drumfire.run(folder.path(), args, LIMIT).ok().json();
    let earlier = std::mem::replace(&mut again["scenarios"][0]["earlier"], Value::Array(vec![]));
    assert!(earlier[0].as_str().is_some_and(|words| words.contains("race-512")), "{earlier}");
    assert_eq!(first, again, "a step that was done is taken from its file");
}

#[test]
fn twenty_eight_emulated_drives_are_twenty_eight() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "scenario run intel-28-ssd --live --seconds 3 --out kept --json";
    let mut tries = (0..5).map(|_| drumfire.run(folder.path(), args, LIMIT));
    let found = tries.find(|run| run.code == Some(0)).expect("one of five is believed").json();
    let row = rows(&found, 0).iter().find(|row| row["id"] == "iops-24").unwrap();
    // 28 × 350; a busy machine loses some, two processes with a drive each would have 700.
    if !busy(row) {
        let iops = row["live"].as_f64().expect("a figure");
        assert!((4_900.0..9_900.0).contains(&iops), "{row}");
        assert_eq!((&row["live_origin"], &row["live_scale"]), (&"emulated".into(), &100.0.into()));
    }
    // Nothing was published about arrays: the model provides those figures.
    let by_id = |id| rows(&found, 0).iter().find(|row| row["id"] == id).unwrap();
    for (id, least) in [("raid10", 4_900.0), ("oltp-raid0", 2_500.0), ("oltp-raid10", 1_500.0)] {
        let row = by_id(id);
        assert!(row["published"].is_null(), "{row}");
        if busy(row) {
            continue;
        }
        assert_eq!(row["live_origin"], "emulated", "{row}");
        assert!(row["live"].as_f64().is_some_and(|iops| iops > least), "{row}");
    }
    let cpu = by_id("cpu-28");
    assert!(cpu["reason"].as_str().unwrap().contains("live: none: at a hundredth"), "{cpu}");
}

const OWN: &str = "name = 'own'\ntitle = 't'\nsource = 's'\nscaled = 'nothing'\n\
    [[step]]\nid = 'ok'\nway = 'live'\nclients = 2\n\
    serve = ['--iscsi', '127.0.0.1:0', '--volume', 'disk=ram:4m']\n\
    run = ['run', 'iscsi://{iscsi}/iqn.2026-11.io.drumfire:disk/1', '--ramp', '0.5']\n\
    [[step]]\nid = 'errors'\nway = 'live'\n\
    run = ['run', 'fault:faults.toml(ram:4m)']\n\
    [step.files]\n\
    'faults.toml' = \"name='t'\\nseed=1\\n[[fault]]\\nverb='error'\\nchance=0.001\\n\"\n\
    [[step]]\nid = 'hole'\nway = 'live'\nrun = ['run', 'file:../../../hole']\n\
    [[step]]\nid = 'gone'\nway = 'live'\nrun = ['run', 'file:no-such']\n";

#[test]
fn a_run_that_is_not_to_be_believed_gives_a_reason_and_no_figure() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    std::fs::File::create(folder.path().join("hole")).unwrap().set_len(16 << 20).unwrap();
    let ids = ["ok", "errors", "hole", "gone"];
    let row = |id| {
        format!(
            "[[row]]\nid = '{id}'\nfigure = 'f'\npublished = 1.0\nunit = 'IOPS'\n\
             live = {{ step = '{id}', at = '/totals/iops' }}\n"
        )
    };
    let text = format!("{OWN}{}", ids.map(row).concat());
    folder.file("own.toml", text.as_bytes());
    let args = "scenario run own.toml --live --seconds 3 --out kept --json";
    let finished = drumfire.run(folder.path(), args, LIMIT);
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    let document = finished.json();
    let found = rows(&document, 0);
    // On a busy machine the two may have started too far apart: then this is reported.
    let apart = busy(&found[0]) || found[0]["reason"].to_string().contains("do not add up");
    assert!(apart || found[0]["live"].as_f64().is_some_and(|iops| iops > 10.0), "{}", found[0]);
    for (row, why) in found[1..].iter().zip(["step errors: ", "H02", "no-such"]) {
        assert!(row["live"].is_null() && row["live_error_percent"].is_null(), "{row}");
        let reason = row["reason"].as_str().unwrap();
        assert!(reason.contains("live: none") && reason.contains(why), "{row}");
    }
}

/// Two hosts, each driven by a separate process.
const HOSTS: &str = "name = 'own'\ntitle = 't'\nsource = 's'\nscaled = 'nothing'\n\
    [[step]]\nid = 'plain'\nway = 'live'\nhosts = 2\nclients = 2\n\
    each_client = [{ hosts = '{1..1}' }, { hosts = '{2..2}' }]\n\
    serve = ['--iscsi', '{address}:0', '--volume', 'disk-{host}=ram:4m']\n\
    run = ['run', 'iscsi://{iscsi-{hosts}}/iqn.2026-11.io.drumfire:disk-{client}/1',\
    '--outstanding', '4', '--size', '4k', '--ramp', '0.5']\n";

#[test]
fn hosts_are_apart_where_they_can_be_and_a_wire_has_its_rate() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let row = |id: &str, at: &str| {
        format!(
            "[[row]]\nid = '{id}'\nfigure = 'f'\npublished = 1.0\nunit = 'IOPS'\n\
             live = {{ step = '{id}', at = '{at}' }}\n"
        )
    };
    folder.file("plain.toml", format!("{HOSTS}{}", row("plain", "/swing/most")).as_bytes());
    let args = "scenario run plain.toml --live --seconds 3 --out plain --json";
    let found = drumfire.run(folder.path(), args, LIMIT).ok().json();
    let shown = &rows(&found, 0)[0];
    if busy(shown) {
        return;
    }
    assert!(shown["live"].as_f64().is_some_and(|most| (1.0..3.0).contains(&most)), "{shown}");
    let words = shown["words"].to_string();
    assert!(words.contains("rate of single seconds"), "{words}");
    let apart = words.contains("2 hosts, each in its own network namespace");
    assert!(apart || words.contains("2 targets on loopback"), "{words}");

    let wire =
        HOSTS.replace("'plain'", "'wire'").replace("hosts = 2", "hosts = 2\nwire_bits = 2e7");
    folder.file("wire.toml", format!("{wire}{}", row("wire", "/totals/iops")).as_bytes());
    let args = "scenario run wire.toml --live --seconds 3 --out wire --json";
    let found = drumfire.run(folder.path(), args, LIMIT).json();
    let shown = &rows(&found, 0)[0];
    if !apart {
        assert!(shown["words"].to_string().contains("namespaces"), "{shown}");
        return;
    }
    if busy(shown) {
        return;
    }
    // 20 Mb/s of frames: 4 KiB and 48 bytes of header in three segments of at most 1,538 bytes.
    assert_eq!(shown["live_origin"], "emulated", "{shown}");
    let iops = shown["live"].as_f64().expect("a figure");
    let most = 2e7 / 8.0 / (4144.0 * 1538.0 / 1448.0);
    assert!((0.8 * most..1.05 * most).contains(&iops), "{iops} of {most}");
}

#[test]
fn nothing_is_left_of_a_scenario_that_is_killed() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let row = "[[row]]\nid = 'ok'\nfigure = 'f'\npublished = 1.0\nunit = 'IOPS'\n\
        live = { step = 'ok', at = '/totals/iops' }\n";
    folder.file("own.toml", format!("{OWN}{row}").as_bytes());
    let args = "scenario run own.toml --live --seconds 600 --out kept";
    let running = Running::start(&mut drumfire.command(folder.path(), args));
    // A target and two that drive.
    let begun = Instant::now();
    let children = loop {
        let children = children(running.id());
        if children.len() == 3 {
            break children;
        }
        assert!(begun.elapsed() < LIMIT, "{children:?}");
        std::thread::sleep(Duration::from_millis(20));
    };
    running.signal(Signal::KILL);
    let runs = |child: &u32| state(*child).is_some_and(|state| state != 'Z');
    while children.iter().any(runs) {
        assert!(begun.elapsed() < LIMIT, "still there: {children:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes of this parent.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| after_name(*number, 1) == Some(parent.to_string())).collect()
}

fn state(process: u32) -> Option<char> {
    after_name(process, 0)?.chars().next()
}

/// A word of `/proc/PID/stat` after the name, which may contain anything.
fn after_name(process: u32, word: usize) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(word).map(str::to_owned)
}
