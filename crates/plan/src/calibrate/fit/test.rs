//! A known profile is simulated, and found again.

use stats::RunResult;

use super::*;
use crate::simulate::Simulator;
use crate::simulate::test::{run, workload};

const KNOWN: &str = "name = 'known'\n[[stage]]\nname = 'medium'\nservers = 16\n\
    read = { each_s = 80e-6 }\nwrite = { each_s = 40e-6 }\n\
    [[stage]]\nname = 'controller'\nservers = 1\nread = { each_s = 8e-6 }\n\
    write = { each_s = 12e-6 }\n[[stage]]\nname = 'link'\nservers = 1\nshared = true\n\
    read = { per_byte_s = 1e-9 }\nwrite = { per_byte_s = 1e-9 }\n\
    [[stage]]\nname = 'processor'\nservers = 4\nshared = true\n\
    read = { each_s = 3e-6 }\nwrite = { each_s = 4e-6 }\n";

fn sweep(profile: &Profile) -> Vec<Point> {
    let mut points = Vec::new();
    for drives in [1, 2] {
        for size in [4096, 65536] {
            for read in [100.0, 0.0] {
                for outstanding in [1, 4, 16, 64] {
                    let simulator = Simulator::of_profile(profile, drives, 1).unwrap();
                    let mut result = run(&simulator, &workload(size, read, outstanding), 0.2);
                    result.job.storage = "known".to_owned();
                    points.push(Point::of("a run", &result).unwrap());
                }
            }
        }
    }
    points
}

#[test]
fn a_known_profile_is_found_again() {
    let mut known = Profile::parse(KNOWN).unwrap();
    known.calibration = Some(Calibration {
        source: "itself".to_owned(),
        fitted: 1,
        fit_error_percent: 0.0,
        held_out: 1,
        held_out_error_percent: 0.0,
        scatter: true,
    });
    let found = calibrate("found", "a simulation", &sweep(&known), None).unwrap();
    let of = |name: &str| found.parameters.iter().find(|p| p.name == name).unwrap();
    for (name, expected, within) in [
        ("medium.read.each_s", 80e-6, 0.06),
        ("medium.write.each_s", 40e-6, 0.08),
        ("controller.read.each_s", 8e-6, 0.05),
        ("controller.write.each_s", 12e-6, 0.05),
        ("link.per_byte_s", 1e-9, 0.03),
        ("processor.read.each_s", 3e-6, 0.01),
        ("processor.write.each_s", 4e-6, 0.01),
    ] {
        let value = of(name).value;
        let off = value / expected - 1.0;
        assert!(off.abs() <= within, "{name}: {value} for {expected}, {off:+.3}; {found:#?}");
    }
    // Reads keep ten servers busy before the controller limits: more make hardly a difference.
    assert!(of("medium.servers").value >= 10.0, "{:?}", of("medium.servers"));
    let fitted = found.profile.calibration.as_ref().unwrap();
    assert_eq!((fitted.fitted, fitted.held_out), (21, 11));
    assert!(fitted.held_out_error_percent < 1.5, "{fitted:?}");
    let worst = found.rows.iter().map(|row| row.error.abs()).fold(0.0, f64::max);
    assert!(worst < 0.06, "{worst}");
    assert!(fitted.scatter);
    assert!(found.profile.stages.iter().all(|stage| stage.shape == Scatter::Exponential));
    // What is written is read again, and simulated with percentiles.
    let again = Profile::parse(&found.profile.print().unwrap()).unwrap();
    assert_eq!(again, found.profile);
    let result = run(&Simulator::of_profile(&again, 1, 1).unwrap(), &workload(4096, 100.0, 8), 0.1);
    assert!(result.totals.latency_ns.p90.is_some());
}

fn result() -> RunResult {
    let mut result = RunResult::default();
    result.job.size_bytes = Some(4096);
    result.job.outstanding = Some(4);
    result.job.volumes = 1;
    result.job.read_percent = 100.0;
    result.totals.iops = 1000.0;
    result
}

#[test]
fn results_that_say_nothing_are_refused() {
    assert!(Point::of("r", &result()).is_ok());
    let says = |change: &dyn Fn(&mut RunResult)| {
        let mut result = result();
        change(&mut result);
        Point::of("r", &result).unwrap_err().to_string()
    };
    assert!(says(&|r| r.partial = Some("cut".to_owned())).contains("r: cut"));
    assert!(says(&|r| r.totals.errors = 1).contains("failed"));
    assert!(says(&|r| r.totals.iops = f64::NAN).contains("NaN I/Os"));
    assert!(says(&|r| r.totals.iops = 0.0).contains("0 I/Os"));
    assert!(says(&|r| r.totals.iops = f64::INFINITY).contains("inf"));
    assert!(says(&|r| r.job.size_bytes = None).contains("no single length"));
    assert!(says(&|r| r.job.size_bytes = Some(0)).contains("no single length"));
    assert!(says(&|r| r.job.rate_per_s = Some(1.0)).contains("paced"));
    assert!(says(&|r| r.job.volumes = 0).contains("0 volumes"));
    assert!(says(&|r| r.job.volumes = 3).contains("equally many"));
    assert!(says(&|r| r.job.outstanding = Some(u64::MAX)).contains("equally many"));
    assert!(says(&|r| r.job.read_percent = -1.0).contains("-1 %"));
}

#[test]
fn too_few_or_too_similar_runs_are_refused() {
    let point = Point::of("r", &result()).unwrap();
    let says = |points: &[Point]| calibrate("x", "", points, None).unwrap_err().to_string();
    assert!(says(&[]).contains("0 runs: 6 to 2000"));
    assert!(says(&vec![point.clone(); 5]).contains("5 runs"));
    assert!(says(&vec![point.clone(); 9]).contains("sweep 1, 2, 4"));
    let mut other = vec![point.clone(); 9];
    other[3].storage = "tape".to_owned();
    assert!(says(&other).contains("different storage"));
    // Two depths, and as many parameters as points.
    let mut few = vec![point; 6];
    for (index, point) in few.iter_mut().enumerate() {
        point.outstanding = 1 + index as u32;
        point.read_share = 0.5;
        point.size_bytes = 512 << (index % 2);
    }
    assert!(says(&few).contains("4 runs that are not held out for 5 parameters"));
}
