//! Mirrors, driven and served: a leg that dies or cannot read loses no data, and is reported.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, qemu_img, run};

const LIMIT: Duration = Duration::from_secs(300);
const VERIFIED: &str = "--size 4k --read 50 --outstanding 16 --workers 2 --verify --seconds 2 \
                        --ramp 0 --json";

fn leg(folder: &Folder, fault: &str) -> String {
    let text = format!("name = 'test'\nseed = 3\n[[fault]]\n{fault}\n");
    format!("fault:{}(ram:16m)", folder.file("faults.toml", text.as_bytes()).display())
}

#[test]
fn a_leg_that_dies_under_load_costs_no_io_and_is_named() {
    let Some(drumfire) = Drumfire::find() else { return };
    for (fault, why) in [
        ("verb = 'error'\nop = 'write'\nafter_s = 0.5\nsticky = true", "write failed: medium"),
        ("verb = 'error'\nfault = 'disconnected'\nafter_s = 0.5\nsticky = true", "failed: connec"),
    ] {
        let folder = Folder::new();
        let uri = format!("mirror(ram:16m,{})", leg(&folder, fault));
        let args = format!("run {uri} {VERIFIED}");
        let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
        assert_eq!(result["totals"]["errors"], 0, "{result}");
        let warnings = result["warnings"].to_string();
        assert!(warnings.contains("mirror: leg 2") && warnings.contains(why), "{warnings}");
    }
}

#[test]
fn what_a_leg_cannot_read_comes_from_the_other_and_is_repaired() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let fault = "verb = 'error'\nop = 'read'\nchance = 0.01\ncount = 40";
    let uri = format!("mirror({},ram:16m)", leg(&folder, fault));
    let args = format!("run {uri} {}", VERIFIED.replace("--read 50", "--read 100"));
    let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("read errors"), "{warnings}");
    assert!(warnings.contains("repaired from another leg"), "{warnings}");
}

#[test]
fn a_stranger_uses_stripes_of_mirrors() {
    let (Some(qemu_img), Some(drumfire)) = (qemu_img(), Drumfire::find()) else { return };
    let folder = Folder::new();
    let data: Vec<u8> =
        (0..4_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let source = folder.file("source.raw", &data).display().to_string();
    let pair =
        format!("mirror(ram:4m,{})", leg(&folder, "verb = 'error'\nop = 'write'\ncount = 1"));
    let served = drumfire.serve(&[&format!("disk=stripe:64k(mirror(ram:2m,ram:2m),{pair})")]);
    let image = |args: String| run(Command::new(&qemu_img).args(args.split_whitespace()), LIMIT);
    image(format!("convert -n -f raw -O raw {source} {}", served.uri("disk"))).ok();
    image(format!("compare -f raw -F raw {source} {}", served.uri("disk"))).ok();
    served.running.signal(rustix::process::Signal::TERM);
    let ended = served.running.finish(LIMIT);
    assert!(ended.stderr.contains("mirror: leg 2"), "{ended:?}");
}

#[test]
fn legs_that_outlive_a_mirror_by_name_are_not_served() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = folder.path().join("a");
    let args = format!(
        "serve --iscsi 127.0.0.1:0 --volume a=mirror(ram:1m,file:{}?size=1m)",
        path.display()
    );
    let ended = drumfire.run(folder.path(), &args, LIMIT);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stderr.contains("does not save which legs are stale"), "{ended:?}");
    // In a measurement a read error loses no data.
    let args = format!(
        "run mirror(file:{0}?size=1m,file:{0}b?size=1m) --destroy --read 50 --seconds 1 --ramp 0",
        path.display()
    );
    drumfire.run(folder.path(), &args, LIMIT).ok();
}
