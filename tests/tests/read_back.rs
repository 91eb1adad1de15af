//! Jobs that only write: their data are read back after the run, and the result reports this.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, check};

const LIMIT: Duration = Duration::from_secs(120);
/// 16 MiB at random, each block several times.
const JOB: &str = "--size 4k --read 0 --outstanding 4 --verify --destroy --seconds 2 --ramp 0 \
                   --no-ceiling --json";

/// A file of random content.
fn filled(folder: &Folder) {
    let noise = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24).to_le_bytes();
    folder.file("disk", &(0..2 << 20).flat_map(noise).collect::<Vec<u8>>());
}

/// H05 detects: one write of twenty is acknowledged and not executed.
/// H05 accepts: a file that stores all writes.
#[test]
fn a_job_that_only_writes_is_judged_by_what_is_there_afterwards() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    filled(&folder);
    let whole = drumfire.run(folder.path(), &format!("run file:disk {JOB}"), LIMIT).ok();
    let (verdict, words) = check(&whole.json(), "H05");
    assert_eq!(verdict, "pass", "{words}");
    assert!(words.contains(" blocks that the run wrote were read after it"), "{words}");
    assert!(whole.stderr.contains("all acknowledged writes are there"), "{whole:?}");

    let fault = "name = 'test'\nseed = 3\n[[fault]]\nverb = 'drop'\nop = 'write'\nchance = 0.05\n";
    std::fs::write(folder.path().join("faults.toml"), fault).unwrap();
    let args = format!("run fault:faults.toml(file:disk) {JOB}");
    let lost = drumfire.run(folder.path(), &args, LIMIT);
    assert_eq!(lost.code, Some(5), "{lost:?}");
    let (verdict, words) = check(&lost.json(), "H05");
    assert_eq!(verdict, "fail", "{words}");
    assert!(words.contains("miscompare when read after the run"), "{words}");
    assert_eq!(lost.json()["class"], "invalid");
}

/// Repeats of a sweep are read back, too: a sample of each.
#[test]
fn each_repeat_of_a_sweep_is_read_back() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    filled(&folder);
    let job = JOB.replace(" --json", "").replace("--seconds 2", "--seconds 0.5");
    let args = format!("sweep file:disk {job} --repeats 2 --out kept");
    drumfire.run(folder.path(), &args, LIMIT).ok();
    let mut results = Vec::new();
    let mut folders = vec![folder.path().join("kept")];
    while let Some(at) = folders.pop() {
        for entry in std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => folders.push(entry),
                false if entry.ends_with("result.json") => results.push(entry),
                false => {}
            }
        }
    }
    assert!(results.len() >= 2, "{results:?}");
    for path in results {
        let result = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let (verdict, words) = check(&result, "H05");
        assert_eq!(verdict, "pass", "{words}");
    }
}
