//! Caches detected by read latency: planted ones of known size in front of a slow volume, none, and
//! an honest remote volume.

use std::time::Duration;

use drumfire_tests::{
    Apart, CachedDisk, Chance, Drumfire, Folder, IQN, NQN, Running, Shape, check,
};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);
const BLOCK: u64 = 16 << 10;
const BLOCKS: usize = 4096;
/// Checks that other programs of this host decide, and those that require repeats and longer runs.
const OF_THE_HOST: [&str; 10] =
    ["H06", "H10", "H12", "H13", "H14", "H15", "H17", "H20", "H22", "H26"];

/// A run on a disk with a cache of `cached_blocks`, and the latency of an uncached block.
fn run(drumfire: &Drumfire, cached_blocks: usize, takes: Duration, more: &str) -> Value {
    let bytes = BLOCK * BLOCKS as u64;
    let disk = CachedDisk::of(Shape { bytes, block_bytes: BLOCK, cached_blocks, takes });
    let args = format!(
        "run nbd://127.0.0.1:{}/disk --size 16k --outstanding 16 --seconds 3 --ramp 0 --no-ceiling \
         --json {more}",
        disk.port
    );
    drumfire.run(Folder::new().path(), &args, LIMIT).ok().json()
}

fn came_to(result: &Value, verdict: &str) -> String {
    let (cache, words) = check(result, "H25");
    assert_eq!(cache, verdict, "{words}");
    let (set, evidence) = check(result, "H08");
    assert_eq!(set, verdict, "{evidence}; {words}");
    words
}

/// H25 detects: a target whose cache holds three quarters of the volume.
/// H08 detects: a target whose cache holds three quarters of the volume.
/// H25 accepts: a slow target without a cache, and with a cache of a twentieth.
/// H08 accepts: a slow target without a cache, and with a cache of a twentieth.
#[test]
fn a_cache_before_a_slow_volume_is_found_with_its_size() {
    let Some(drumfire) = Drumfire::find() else { return };
    let slow = Duration::from_millis(2);
    let words = came_to(&run(&drumfire, BLOCKS * 3 / 4, slow, ""), "warn");
    let (_, after) = words.split_once("before the run, ").expect("it says how much");
    let (percent, _) = after.split_once(" %").expect("in percent");
    let percent: f64 = percent.parse().expect("a number");
    assert!((50.0..=95.0).contains(&percent), "{words}");
    // A host that is busier before a run than after it leaves both checks unknown.
    for cached_blocks in [0, BLOCKS / 20] {
        let mut tries = (0..5).map(|_| run(&drumfire, cached_blocks, slow, ""));
        let known = tries.find(|result| check(result, "H25").0 != "unknown");
        came_to(&known.expect("one of five is known"), "pass");
    }
}

/// Without cold reads no check passes.
#[test]
fn what_is_not_read_beside_the_job_is_not_known() {
    let Some(drumfire) = Drumfire::find() else { return };
    let left = run(&drumfire, 0, Duration::from_millis(2), "--no-cold-reads");
    let words = came_to(&left, "unknown");
    assert!(words.contains("no sample reads were made for comparison with the job"), "{words}");
}

/// Address of one of a target's portals.
fn door(target: &mut Running, name: &str) -> String {
    target.await_stdout(LIMIT, |stdout| {
        let (line, _) = stdout.split_once('\n')?;
        let address = line.split(' ').find_map(|word| word.strip_prefix(name));
        address.map(str::to_owned)
    })
}

/// Verdict of H25 on a local file of the same disk and size, by reads of the same size: effects of
/// the disk and the host are no fault of the volume behind the connection.
fn local(drumfire: &Drumfire, folder: &Folder) -> String {
    let args = "run file:twin --size 64k --outstanding 4 --seconds 1 --ramp 0 --no-ceiling --json";
    let result = drumfire.run(folder.path(), args, LIMIT).ok().json();
    check(&result, "H25").0
}

/// Reads are long, because the disk of a test host may be as fast as memory behind a program. On a
/// quiet host the result is publishable: the checks that object require a quiet host, repeats, and
/// a longer run.
/// H08 accepts: a file that another host serves over NVMe/TCP, iSCSI and NBD.
#[test]
fn an_honest_volume_of_another_host_passes_all_that_is_not_its_hosts() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(apart) = Apart::new() else { return };
    let folder = Folder::new();
    let mut chance = Chance(25);
    let data: Vec<u8> = (0..96 << 17).flat_map(|_| chance.below(u64::MAX).to_le_bytes()).collect();
    for name in ["disk", "twin"] {
        let path = folder.file(name, &data);
        std::fs::File::open(&path).unwrap().sync_all().unwrap();
    }
    let at = &apart.address;
    let args =
        format!("serve --iscsi {at}:0 --nvme-tcp {at}:0 --nbd {at}:0 --volume disk=file:disk");
    let mut target = Running::start(&mut apart.command(&drumfire, folder.path(), &args));
    let mut at = |name: &str| door(&mut target, name);
    let uris = [
        format!("nvme+tcp://{}/{NQN}:disk/1", at("nvme-tcp=")),
        format!("iscsi://{}/{IQN}:disk/1", at("iscsi=")),
        format!("nbd://{}/disk", at("nbd=")),
    ];
    for uri in uris {
        let args = format!(
            "run {uri} --size 64k --outstanding 4 --seconds 3 --ramp 0 --verify --destroy \
             --ceiling --json"
        );
        // Noise of a host causes an objection in one run of a hundred, never for the same volume
        // each time.
        let accused: Vec<String> = (0..3)
            .map_while(|_| {
                let before = local(&drumfire, &folder);
                let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
                let is_cached = before == "warn" || local(&drumfire, &folder) == "warn";
                against(&result, is_cached)
            })
            .collect();
        assert!(accused.len() < 3, "{uri}: {accused:?}");
    }
}

/// Objection of a result against a volume that its host does not explain. A cache of the host's own
/// disk holds the data that a run has just read: its twin without a connection gets the same
/// objection then.
fn against(result: &Value, is_cached: bool) -> Option<String> {
    let is_against = |check: &&Value| {
        let (code, verdict) = (check["code"].as_str().unwrap(), &check["verdict"]);
        let is_clean = ["pass", "not-applicable"].contains(&verdict.as_str().unwrap());
        // A busy host answers late: TCP retransmits, and a disk may take no longer than memory
        // behind a program. No check objects to the volume then.
        let busy = match code {
            "H19" => verdict == "warn",
            "H08" | "H25" => verdict == "unknown" || is_cached && verdict == "warn",
            _ => OF_THE_HOST.contains(&code),
        };
        !is_clean && !busy
    };
    result["checks"].as_array().unwrap().iter().find(is_against).map(Value::to_string)
}
