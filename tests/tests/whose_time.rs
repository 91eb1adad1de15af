//! The host's share of a latency: a witness at the device, the kernel's tracepoints of a loop
//! device, checks the volume's share of the mean on a busy host.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Loop, require, skip};

const LIMIT: Duration = Duration::from_secs(60);
/// Words of 4 bytes of the image.
const WORDS: u32 = 16 << 20;
/// Major number of loop devices.
const LOOP_MAJOR: u64 = 7;

/// A trace of one device's I/Os, in a separate instance of the kernel's tracing.
struct Trace {
    mounted: Folder,
    instance: PathBuf,
}

impl Trace {
    fn new(minor: u64) -> Option<Trace> {
        let mount = require("mount")?;
        let mounted = Folder::new();
        let made = Command::new(mount).args(["-t", "tracefs", "none"]).arg(mounted.path()).status();
        let instance = mounted.path().join(format!("instances/drumfire-{}", std::process::id()));
        if !made.is_ok_and(|made| made.success()) || std::fs::create_dir(&instance).is_err() {
            skip("the kernel's tracing cannot be used here");
            return None;
        }
        let trace = Trace { mounted, instance };
        trace.set("buffer_size_kb", "16384");
        trace.set("trace_clock", "mono");
        let device = (LOOP_MAJOR << 20) | minor;
        for event in ["block_io_start", "block_rq_complete"] {
            trace.set(&format!("events/block/{event}/filter"), &format!("dev == {device}"));
            trace.set(&format!("events/block/{event}/enable"), "1");
        }
        Some(trace)
    }

    fn set(&self, file: &str, value: &str) {
        std::fs::write(self.instance.join(file), value).unwrap_or_else(|why| {
            panic!("{file}: {why}");
        });
    }

    /// Seconds of each I/O of this length, from the device's queue to its completion, with its end.
    fn take(&self, sectors: &str) -> Vec<(f64, f64)> {
        let text = std::fs::read_to_string(self.instance.join("trace")).unwrap();
        let (mut begun, mut all) = (HashMap::new(), Vec::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            // "… 12.345678: block_io_start: 7,0 R 4096 () 1234 + 8 none,0,0 [name]"
            let Some((left, right)) = line.split_once(": block_") else { continue };
            let at: f64 = left.rsplit(' ').next().unwrap().parse().unwrap();
            let (before, after) = right.split_once(" + ").unwrap();
            let sector = before.rsplit(' ').next().unwrap().to_owned();
            if after.split(' ').next() != Some(sectors) {
                continue;
            }
            if right.starts_with("io_start") {
                begun.insert(sector, at);
            } else if let Some(start) = begun.remove(&sector) {
                all.push((at - start, at));
            }
        }
        self.set("trace", "");
        all
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.instance);
        let gone = Command::new("umount").arg(self.mounted.path()).status();
        assert!(gone.is_ok_and(|gone| gone.success()), "{} stays", self.mounted.path().display());
    }
}

fn image(folder: &Folder) -> PathBuf {
    let words = (0..WORDS).map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes());
    folder.file("image", &words.flatten().collect::<Vec<u8>>())
}

fn holds(drumfire: &Drumfire, device: &str, trace: &Trace, sectors: &str, args: &str) {
    let folder = Folder::new();
    let args = format!("run {device} {args} --seconds 2 --ramp 0.5 --json");
    let finished = drumfire.run(folder.path(), &args, LIMIT).ok();
    let result: serde_json::Value = serde_json::from_str(&finished.stdout).unwrap();
    let seen = trace.take(sectors);
    let end = seen.iter().map(|(_, at)| *at).fold(0.0, f64::max);
    let window: Vec<f64> = seen.iter().filter(|(_, at)| end - at <= 2.0).map(|(s, _)| *s).collect();
    let ios = result["totals"]["ios"].as_f64().unwrap();
    // The witness also sees I/Os in flight, and the reads of H02 and H25.
    let more = window.len() as f64 / ios;
    assert!((0.93..1.3).contains(&more), "{args}: {ios} I/Os, {} seen", window.len());
    let latency = &result["totals"]["latency_ns"];
    let (mean, waited) = (&latency["mean"], &latency["waited_for_cpu"]["mean"]);
    let volume = (mean.as_f64().unwrap() - waited.as_f64().unwrap()) / 1e3;
    let device = window.iter().sum::<f64>() / window.len() as f64 * 1e6;
    // Reads of checks, a debug build and two hops are in it. A share of the window instead of the
    // I/Os' was a millisecond off.
    let off = (volume - device).abs();
    assert!(
        off <= (device * 0.5).max(150.0),
        "{args}: the mean {mean}, {waited} of it waited, so {volume:.1} µs are the volume's; \
         {device:.1} µs by the witness"
    );
}

#[test]
fn the_volume_s_share_of_the_mean_is_the_device_s() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let Some(device) = Loop::direct(&image(&folder)) else { return };
    let minor = device.path().trim_start_matches("/dev/loop").parse().unwrap();
    let Some(trace) = Trace::new(minor) else { return };
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let hogs = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
        for _ in 0..hogs {
            threads.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let stops = Stops(&over);
        for (sectors, args) in [
            ("8", "--size 4k --outstanding 1"),
            ("32", "--size 16k --outstanding 4"),
            ("8", "--size 4k --rate 1000"),
        ] {
            holds(&drumfire, device.path(), &trace, sectors, args);
        }
        drop(stops);
    });
}

/// Ends the hogs, after a failure, too.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
