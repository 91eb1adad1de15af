//! An emulated drive responds according to its profile, and calibration finds the profile again: in
//! real time, so on an otherwise idle host.

use std::time::Duration;

use drumfire_tests::{Drumfire, Folder};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Profile of a drive so slow that the host's overhead hardly shows: 20 ms for each, 2 ms one after
/// another.
const SLOW: &str = "name = 'slow'\n[[stage]]\nname = 'medium'\nservers = 'infinite'\n\
    shape = 'fixed'\nread = { each_s = 20e-3 }\nwrite = { each_s = 20e-3 }\n\
    [[stage]]\nname = 'controller'\nservers = 1\nread = { each_s = 2e-3 }\n";
/// Maximum delay that a host may add: beyond, it does not emulate this drive at all.
const LATE_S_MAX: f64 = 10e-3;

/// The mean response of that drive, exactly: by mean value analysis.
fn response_s(outstanding: u32) -> f64 {
    let mut waiting = 0.0;
    let mut all_s = 0.0;
    for under_way in 1..=outstanding {
        let controller_s = 2e-3 * (1.0 + waiting);
        all_s = 20e-3 + controller_s;
        waiting = f64::from(under_way) / all_s * controller_s;
    }
    all_s
}

/// The tests of `calibrate` show without a clock that intervals cover the profile. Here the host's
/// own delay is part of the measured drive.
#[test]
fn a_sweep_over_an_emulated_drive_finds_its_law() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    std::fs::write(folder.path().join("slow.toml"), SLOW).unwrap();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let (mut runs, mut late_s, mut kept_up) = (String::new(), 0.0_f64, true);
    for outstanding in [1, 2, 4, 8, 16, 32, 64] {
        let args = format!(
            "run delay:slow.toml(ram:64m) --size 4k --read 100 --outstanding {outstanding} \
             --seconds 2 --ramp 0.2 --json --out run-{outstanding}"
        );
        let result = json(&run(&args).ok().stdout);
        assert_eq!(result["origin"], "emulated");
        let mean_s = result["totals"]["latency_ns"]["mean"].as_f64().unwrap() * 1e-9;
        let late_now_s = mean_s - response_s(outstanding);
        // At larger depths the controller always has work, and only a stalled host delays an I/O.
        match outstanding {
            ..=8 => late_s = late_s.max(late_now_s),
            _ => kept_up &= late_now_s < 0.1 * response_s(outstanding),
        }
        runs += &format!(" run-{outstanding}");
    }
    if late_s > LATE_S_MAX || !kept_up {
        drumfire_tests::skip("the host is too busy: it answers 10 ms late and more");
        return;
    }
    let fitted = json(&run(&format!("calibrate{runs} --out fitted.toml --json")).ok().stdout);
    let source = fitted["profile"]["calibration"]["source"].as_str().unwrap();
    assert!(source.contains("emulated"), "{source}");
    let held = fitted["points"].as_array().unwrap().iter().filter(|row| row["tag"] == "PRED");
    assert_eq!(held.count(), 2);
    // Five standard deviations of the random variation in two seconds.
    for (name, truth_s, chance, late_s) in
        [("medium.read.each_s", 20e-3, 0.05, late_s), ("controller.read.each_s", 2e-3, 0.12, 0.0)]
    {
        let parameters = fitted["parameters"].as_array().unwrap();
        let one = parameters.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!(one["kind"], "fit", "{one}");
        let value = one["value"].as_f64().unwrap();
        let (low, high) = (truth_s * (1.0 - chance), truth_s * (1.0 + chance) + late_s);
        assert!(low < value && value < high, "{low} to {high}: {one}");
        let end = |at: usize| one["interval"][at].as_f64().unwrap();
        assert!(end(0) < value && value < end(1), "{one}");
    }
}
