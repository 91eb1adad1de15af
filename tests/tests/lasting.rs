//! Stability of a rate: bursts that end, and those that would end after the run.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, check};

const LIMIT: Duration = Duration::from_secs(120);
/// Delay of each I/O, 4 ms, which is steady enough on a busy host.
const EVEN: &str = "[[fault]]\nverb = 'slow'\nop = ['read', 'write']\nadd_s = 0.004\n";
/// Additional delay after six seconds: an I/O takes four times as long.
const ENDS: &str = "[[fault]]\nverb = 'slow'\nop = ['read', 'write']\nadd_s = 0.012\nafter_s = 6\n";

/// A volume behind a connection, slowed by a schedule of faults.
/// H26 detects: a remote volume that becomes four times slower after six seconds.
/// H26 accepts: a remote volume at a constant rate, in a short run; memory.
#[test]
fn a_burst_that_ends_in_the_window_is_said() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let ends = folder.file("ends.toml", format!("name = 'ends'\n{EVEN}{ENDS}").as_bytes());
    let stays = folder.file("stays.toml", format!("name = 'stays'\n{EVEN}").as_bytes());
    let volume = |name: &str, schedule: &std::path::Path| {
        format!("{name}=fault:{}(ram:16m)", schedule.display())
    };
    let served = drumfire.serve(&[&volume("a", &ends), &volume("b", &stays)]);
    let said = |uri: &str, seconds: u32| {
        let args =
            format!("run {uri} --size 4k --outstanding 4 --seconds {seconds} --ramp 0 --json");
        check(&drumfire.run(folder.path(), &args, LIMIT).json(), "H26")
    };
    let (verdict, evidence) = said(&served.nvme_uri("a"), 12);
    assert_eq!(verdict, "warn", "{evidence}");
    assert!(evidence.contains(" IOPS after 6 s and stayed there"), "{evidence}");
    let (verdict, evidence) = said(&served.nvme_uri("b"), 6);
    assert_eq!(verdict, "unknown", "{evidence}");
    assert!(evidence.contains("at least 66"), "{evidence}");
    let (verdict, evidence) = said("ram:16m", 1);
    assert_eq!(verdict, "not-applicable", "{evidence}");
}
