//! Failed I/Os: the result reports kind, offset, time and reason, over every way to a volume.

use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Running, await_second, check};
use serde_json::Value;

/// Exit code of a run in which I/Os failed.
const ERRORS: i32 = 1;
const LIMIT: Duration = Duration::from_secs(300);
/// Size of the file, and of its remainder.
const WHOLE: u64 = 8 << 20;
const LEFT: u64 = 2 << 20;

fn file(folder: &Folder) -> std::path::PathBuf {
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![7; WHOLE as usize]).unwrap();
    path
}

fn cut(path: &Path) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(LEFT).unwrap();
}

/// Runs reads of 4 KiB, truncates the file when they are in flight, and returns the output.
fn run_and_cut(drumfire: &Drumfire, folder: &Folder, uri: &str, path: &Path, out: &str) -> Value {
    let args = format!(
        "run {uri} --size 4k --outstanding 4 --seconds 6 --ramp 0 --json --out {out} \
         --json-lines {out}.jsonl"
    );
    let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
    // Cut the volume after the run's first second, and long before its last.
    await_second(&mut running, &folder.path().join(format!("{out}.jsonl")));
    cut(path);
    let finished = running.finish(LIMIT);
    assert_eq!(finished.code, Some(ERRORS), "{}", finished.stderr);
    assert!(finished.stderr.contains(" I/Os failed: read on "), "{}", finished.stderr);
    finished.json()
}

/// Expected report of reads past the end of a truncated file.
fn says(result: &Value, uri: &str, status: &str) {
    let failures = result["failures"].as_array().unwrap_or_else(|| panic!("none: {result}"));
    let [failure] = &failures[..] else { panic!("not one kind: {failures:?}") };
    assert_eq!(failure["operation"], "read", "{failure}");
    assert_eq!(failure["fault"], "medium error", "{failure}");
    assert_eq!(failure["status"], status, "{failure}");
    assert!(failure["volume"].as_str().unwrap().starts_with(uri), "{failure}");
    assert_eq!(failure["count"], result["totals"]["errors"], "{failure}");
    assert_eq!((check(result, "H21").0.as_str(), &result["class"]), ("fail", &"invalid".into()));
    let first = &failure["first"];
    assert_eq!((&first["length_bytes"], first["worker"].is_string()), (&4096.into(), true));
    let offset = first["offset_bytes"].as_u64().unwrap();
    assert!((LEFT..WHOLE).contains(&offset) && offset.is_multiple_of(4096), "{failure}");
    let t_s = first["t_s"].as_f64().unwrap();
    let seconds = result["totals"]["seconds"].as_f64().unwrap();
    assert!(t_s > 0.2 && t_s < seconds, "{failure}");
}

#[test]
fn reads_beyond_the_end_of_a_file_are_named() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = file(&folder);
    let uri = format!("file:{}", path.display());
    let result = run_and_cut(&drumfire, &folder, &uri, &path, "o");
    says(&result, &uri, "read past the end of the file");
    // Every other format has the failure, too.
    let lines = std::fs::read_to_string(folder.path().join("o.jsonl")).unwrap();
    let kinds: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let failure = kinds.iter().find(|line| line["type"] == "failure").expect("a line for it");
    assert_eq!(failure["count"], result["totals"]["errors"]);
    let report = |form: &str| {
        drumfire.run(folder.path(), &format!("report o --as {form}"), LIMIT).ok().stdout
    };
    let text = report("text");
    assert!(text.contains("× read: read past the end of the file"), "{text}");
    assert!(report("html").contains("<h2>errors"));
    let fio: Value = serde_json::from_str(&report("fio")).unwrap();
    let job = &fio["jobs"][0];
    assert_eq!((&job["error"], &job["total_err"]), (&5.into(), &result["totals"]["errors"]));
}

/// A loop device, detached at the end however the test ends.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        losetup(&["--detach", &self.0]);
    }
}

fn losetup(args: &[&str]) -> Option<String> {
    let done = std::process::Command::new("losetup").args(args).output().ok()?;
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).trim().to_owned())
}

/// Blocks that become unreadable are named, not only counted, when a volume is verified again.
#[test]
fn blocks_that_cannot_be_compared_again_are_named() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = "run file:v.img?size=8m --size 4k --verify --seconds 1 --ramp 0 --out o --json";
    drumfire.run(folder.path(), run, LIMIT).ok();
    // Truncated while a target has it open: the initiator still sees the old size.
    let path = folder.path().join("v.img");
    let served = drumfire.serve(&[&format!("disk=file:{}", path.display())]);
    cut(&path);
    let job = std::fs::read_to_string(folder.path().join("o/job.toml")).unwrap();
    let job = job.replace("file:v.img?size=8m", &served.uri("disk"));
    std::fs::write(folder.path().join("o/job.toml"), job).unwrap();
    let found = drumfire.run(folder.path(), "run o/job.toml --verify-only", LIMIT);
    assert_eq!(found.code, Some(5), "{found:?}");
    for says in
        ["  unreadable  ", " bytes at offset ", ": medium error: unrecovered read error (11/"]
    {
        assert!(found.stdout.contains(says), "{found:?}");
    }
}

#[test]
fn what_a_target_answers_is_said_in_the_words_of_its_standard() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = file(&folder);
    let served = drumfire.serve(&[&format!("disk=file:{}", path.display())]);
    let ways = [
        (served.uri("disk"), "medium error: unrecovered read error (11/00)"),
        (served.nvme_uri("disk"), "unrecovered read error (SCT 2h, SC 81h)"),
    ];
    for (number, (uri, status)) in ways.into_iter().enumerate() {
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(WHOLE).unwrap();
        let result = run_and_cut(&drumfire, &folder, &uri, &path, &format!("o{number}"));
        says(&result, &uri, status);
    }
}

/// A device that is removed during a run: earlier results are saved, with the reason of the
/// failure.
#[test]
fn a_device_that_is_taken_away_leaves_its_errno() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = file(&folder);
    let Some(device) = losetup(&["--find", "--show", path.to_str().unwrap()]) else {
        return drumfire_tests::skip("no loop device may be made");
    };
    let device = Loop(device);
    let uri = format!("file:{}", device.0);
    let result = run_and_cut(&drumfire, &folder, &uri, &path, "o");
    says(&result, &uri, "EIO (5): Input/output error");
}
