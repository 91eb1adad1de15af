//! Missing evidence is never a pass: every result has every check, and no key of a job removes one
//! or improves a class.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Chance, Drumfire, Folder, Loop, check};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const BYTES: usize = 16 << 20;
/// Checks that find out whether memory answers, or nothing is stored.
const OF_THE_MEDIUM: [&str; 4] = ["H01", "H02", "H03", "H08"];

/// Verdict of each check.
fn verdicts(result: &Value) -> Vec<(String, String)> {
    let checks = result["checks"].as_array().expect("a list of checks");
    let text = |check: &Value, name: &str| check[name].as_str().unwrap_or_default().to_owned();
    checks.iter().map(|check| (text(check, "code"), text(check, "verdict"))).collect()
}

fn has_every_check(result: &Value, job: &str) {
    let codes: Vec<String> = verdicts(result).into_iter().map(|(code, _)| code).collect();
    let all: Vec<String> = (1..=26).map(|number| format!("H{number:02}")).collect();
    assert_eq!(codes, all, "{job}");
    for check in result["checks"].as_array().unwrap() {
        assert_ne!(check["evidence"], "", "{check}\n{job}");
        assert_ne!(check["evidence"], "not checked", "{check}\n{job}");
    }
}

/// Rank of a verdict or a class, higher for better ones.
fn worth(word: &str) -> u8 {
    match word {
        "fail" | "invalid" => 0,
        "warn" | "indicative" => 1,
        "unknown" => 2,
        "pass" | "not-applicable" | "publishable" => 3,
        other => panic!("{other} is no verdict"),
    }
}

/// Keys of a group of a job.
#[derive(Clone, Debug, Default)]
struct Keys {
    ramp: bool,
    delay: bool,
    ends: bool,
    range: bool,
    open: bool,
    verify: bool,
}

impl Keys {
    fn drawn(chance: &mut Chance, may_verify: bool) -> Keys {
        let mut one_in = |of| chance.below(of) == 0;
        let (ramp, delay, ends) = (one_in(2), one_in(3), one_in(4));
        let (range, open, verify) = (one_in(3), one_in(3), may_verify && one_in(2));
        Keys { ramp, delay, ends, range, open, verify }
    }

    fn group(&self, volume: &str) -> String {
        let mut text = format!(
            "[[steps.groups]]\nvolumes = ['{volume}']\nworkload.outstanding = 4\n\
             workload.access.lines = [{{ size_bytes = '4k', share_percent = 100, read_percent = \
             100 }}]\n"
        );
        let keys = [
            (self.ramp, "when.ramp_seconds = 0.3"),
            (self.delay, "when.delay_seconds = 0.2"),
            (self.ends, "when.seconds = 0.4"),
            (self.range, "workload.range = { start = '25%', length = '50%' }"),
            (self.open, "workload.pacing.ios = { per_second = 2000 }"),
            (self.verify, "workload.verify = {}"),
        ];
        for (_, key) in keys.iter().filter(|(has, _)| *has) {
            text += &format!("{key}\n");
        }
        text
    }
}

fn run(drumfire: &Drumfire, folder: &Folder, groups: &str, more: &str) -> Value {
    folder.file("job.toml", format!("[[steps]]\nseconds = 1\n{groups}").as_bytes());
    let args = format!("run job.toml --json --no-ceiling {more}");
    drumfire.run(folder.path(), &args, LIMIT).ok().json()
}

/// Groups have their own ramps, delays, ends and ranges, or a bystander has one.
/// H03 detects: reads from the page cache or a hole, in a group with its own ramp.
#[test]
fn no_key_of_a_job_takes_a_check_away() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let mut chance = Chance(42);
    let random: Vec<u8> =
        (0..BYTES / 8).flat_map(|_| chance.below(u64::MAX).to_le_bytes()).collect();
    let warm = folder.file("warm", &random);
    File::open(&warm).unwrap().sync_all().unwrap();
    File::create(folder.path().join("hole")).unwrap().set_len(BYTES as u64).unwrap();
    let bystander = Keys { ramp: true, open: true, ..Keys::default() }.group("null:1g");
    for volume in ["file:warm?direct=0", "file:hole", "ram:16m"] {
        let may_verify = volume.starts_with("ram:");
        let plain = run(&drumfire, &folder, &Keys::default().group(volume), "");
        has_every_check(&plain, volume);
        for draw in 0..6 {
            let one = Keys::drawn(&mut chance, may_verify);
            let mut groups = one.group(volume);
            match draw {
                0 | 1 => {}
                2 => groups += &Keys::drawn(&mut chance, false).group(volume),
                3 => groups += &bystander,
                _ => groups = Keys { ramp: true, ..Keys::default() }.group(volume),
            }
            let other = run(&drumfire, &folder, &groups, "");
            has_every_check(&other, &groups);
            let class = |result: &Value| worth(result["class"].as_str().unwrap());
            assert!(class(&other) <= class(&plain), "{groups}\n{other}");
            for code in OF_THE_MEDIUM {
                let ((is, _), (was, words)) = (check(&other, code), check(&plain, code));
                assert!(worth(&is) <= worth(&was), "{code} is {is}, was {was}: {words}\n{groups}");
            }
        }
    }
}

/// H01 detects: a loop device over a memfd.
/// H08 detects: a loop device over a memfd.
#[test]
fn memory_that_hides_below_a_loop_device_is_not_known() {
    let Some(drumfire) = Drumfire::find() else { return };
    let memory = rustix::fs::memfd_create("hidden", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let memory = File::from(memory);
    std::io::Write::write_all(&mut &memory, &vec![0xa5; BYTES]).unwrap();
    let name = std::os::fd::AsRawFd::as_raw_fd(&memory);
    let path = format!("/proc/{}/fd/{name}", std::process::id());
    let Some(device) = Loop::direct(Path::new(&path)) else { return };
    let folder = Folder::new();
    let groups = Keys::default().group(&format!("file:{}", device.path()));
    let result = run(&drumfire, &folder, &groups, "");
    has_every_check(&result, &groups);
    for code in ["H01", "H03", "H08"] {
        let (verdict, evidence) = check(&result, code);
        assert!(["unknown", "warn", "fail"].contains(&&*verdict), "{code} {verdict}: {evidence}");
    }
    let (_, evidence) = check(&result, "H01");
    assert!(evidence.contains("are not visible"), "{evidence}");
}
