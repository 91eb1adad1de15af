//! Simulation of a known profile, and its fit from the results.

use stats::RunResult;

use super::*;
use crate::simulate::Simulator;
use crate::simulate::test::{run, run_seed, workload};
use catalogue::Catalogue;

const KNOWN: &str = "name = 'known'\n[[stage]]\nname = 'medium'\nservers = 16\n\
    read = { each_s = 80e-6 }\nwrite = { each_s = 40e-6 }\n\
    [[stage]]\nname = 'controller'\nservers = 1\nread = { each_s = 8e-6 }\n\
    write = { each_s = 12e-6 }\n[[stage]]\nname = 'link'\nservers = 1\nshared = true\n\
    read = { per_byte_s = 1e-9 }\nwrite = { per_byte_s = 1e-9 }\n\
    [[stage]]\nname = 'processor'\nservers = 4\nshared = true\n\
    read = { each_s = 3e-6 }\nwrite = { each_s = 4e-6 }\n";

/// Returns a sweep of the known profile, simulated once for all tests.
fn sweep() -> Vec<Point> {
    static SWEPT: std::sync::OnceLock<Vec<Point>> = std::sync::OnceLock::new();
    let swept = || {
        let mut profile = Profile::parse(KNOWN).unwrap();
        profile.calibration = Some(Calibration {
            source: "itself".to_owned(),
            fitted: 1,
            fit_error_percent: 0.0,
            held_out: 1,
            held_out_error_percent: 0.0,
            scatter: true,
        });
        let mut points = Vec::new();
        for drives in [1, 2] {
            for size in [4096, 65536] {
                for read in [100.0, 0.0] {
                    for outstanding in [1, 4, 16, 64] {
                        let simulator = Simulator::of_profile(&profile, drives).unwrap();
                        let mut result = run(simulator, &workload(size, read, outstanding), 0.2);
                        result.job.storage = "known".to_owned();
                        points.push(Point::of("a run", &result).unwrap());
                    }
                }
            }
        }
        points
    };
    SWEPT.get_or_init(swept).clone()
}

/// All cores are busy at any rate: the CPU time of an I/O is that of its wait.
#[test]
fn cores_that_spin_are_no_stage() {
    let mut spinning = sweep();
    for point in &mut spinning {
        point.core_s = Some(f64::from(point.cores) / point.iops);
    }
    let found = calibrate("found", "a simulation", &spinning, None).unwrap();
    assert!(found.profile.stages.iter().all(|stage| stage.name != "processor"));
    assert!(found.remarks.iter().any(|remark| remark.contains("spin")), "{:?}", found.remarks);
    let fitted = found.profile.calibration.as_ref().unwrap();
    assert!(fitted.held_out_error_percent < 5.0, "{fitted:?}");
}

#[test]
fn a_known_profile_is_found_again() {
    let found = calibrate("found", "a simulation", &sweep(), None).unwrap();
    let of = |name: &str| found.parameters.iter().find(|p| p.name == name).unwrap();
    for (name, expected, within) in [
        ("medium.read.each_s", 80e-6, 0.06),
        ("medium.write.each_s", 40e-6, 0.08),
        ("controller.read.each_s", 8e-6, 0.05),
        ("controller.write.each_s", 12e-6, 0.05),
        ("link.read.per_byte_s", 1e-9, 0.03),
        ("link.write.per_byte_s", 1e-9, 0.03),
        ("processor.read.each_s", 3e-6, 0.01),
        ("processor.write.each_s", 4e-6, 0.01),
    ] {
        let value = of(name).value;
        let off = value / expected - 1.0;
        assert!(off.abs() <= within, "{name}: {value} for {expected}, {off:+.3}; {found:#?}");
    }
    // Reads keep ten servers busy before the controller limits: more hardly make a difference.
    assert!(of("medium.servers").value >= 10.0, "{:?}", of("medium.servers"));
    let fitted = found.profile.calibration.as_ref().unwrap();
    assert_eq!((fitted.fitted, fitted.held_out), (21, 11));
    assert!(fitted.held_out_error_percent < 1.5, "{fitted:?}");
    let worst = found.rows.iter().map(|row| row.error.abs()).fold(0.0, f64::max);
    assert!(worst < 0.06, "{worst}");
    assert!(fitted.scatter);
    assert!(found.profile.stages.iter().all(|stage| stage.shape == Scatter::Exponential));
    // The written profile is read again, and simulated with percentiles.
    let again = Profile::parse(&found.profile.print().unwrap()).unwrap();
    assert_eq!(again, found.profile);
    let result = run(Simulator::of_profile(&again, 1).unwrap(), &workload(4096, 100.0, 8), 0.1);
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
    assert!(says(&|r| r.job.size_bytes = None).contains("not of one size"));
    assert!(says(&|r| r.job.size_bytes = Some(0)).contains("not of one size"));
    assert!(says(&|r| r.job.rate_per_s = Some(1.0)).contains("open loop"));
    assert!(says(&|r| r.job.volumes = 0).contains("0 volumes"));
    assert!(says(&|r| r.job.volumes = 3).contains("queue depth"));
    assert!(says(&|r| r.job.outstanding = Some(u64::MAX)).contains("queue depth"));
    assert!(says(&|r| r.job.read_percent = -1.0).contains("-1 %"));
}

#[test]
fn too_few_or_too_similar_runs_are_refused() {
    let point = Point::of("r", &result()).unwrap();
    let says = |points: &[Point]| calibrate("x", "", points, None).unwrap_err().to_string();
    assert!(says(&[]).contains("6 to 2000 runs are needed, not 0"));
    assert!(says(&vec![point.clone(); 5]).contains("needed, not 5"));
    assert!(says(&vec![point.clone(); 9]).contains("sweep outstanding 1, 2, 4"));
    let mut other = vec![point.clone(); 9];
    other[3].storage = "tape".to_owned();
    assert!(says(&other).contains("different storage"));
    // Two queue depths, and as many parameters as points.
    let mut few = vec![point; 6];
    for (index, point) in few.iter_mut().enumerate() {
        point.outstanding = 1 + index as u32;
        point.read_share = 0.5;
        point.size_bytes = 512 << (index % 2);
    }
    assert!(says(&few).contains("4 runs that are not held out for 5 parameters"));
}

/// Cores that wait for each other: with more than fifteen of them all are slower.
const CROWDED: &str = "name = 'crowded'\n[[stage]]\nname = 'medium'\nservers = 'infinite'\n\
    read = { each_s = 20e-6 }\nwrite = { each_s = 20e-6 }\n\
    [[stage]]\nname = 'controller'\nservers = 1\nread = { each_s = 0.2e-6 }\n\
    [[stage]]\nname = 'processor'\nservers = 1\nshared = true\ncontention = 0.08\n\
    coherence = 0.004\nread = { each_s = 10e-6 }\nwrite = { each_s = 10e-6 }\n";

#[test]
fn contention_of_cores_is_found_within_its_interval() {
    let mut points = Vec::new();
    for cores in [1, 2, 3, 4, 6, 8, 12, 16] {
        let text = CROWDED.replace("servers = 1\nshared", &format!("servers = {cores}\nshared"));
        let profile = Profile::parse(&text).unwrap();
        // Four queue depths, so that another one is held out at each number of cores: without the
        // knee nothing shows the width of the medium.
        for outstanding in [1, 4, 16, 64] {
            let simulator = Simulator::of_profile(&profile, 1).unwrap();
            let result = run(simulator, &workload(4096, 100.0, outstanding), 0.02);
            let point = Point::of("a run", &result).unwrap();
            points.push(Point { cores, ..point });
        }
    }
    let found = calibrate("found", "a simulation", &points, None).unwrap();
    for (name, expected) in [("processor.contention", 0.08), ("processor.coherence", 0.004)] {
        let one = found.parameters.iter().find(|p| p.name == name).unwrap();
        let (low, high) = one.interval.unwrap();
        assert!(low <= expected && expected <= high, "{one:?}");
        assert!(high - low < expected, "says too little: {one:?}");
        assert_eq!(one.kind, Kind::Fit);
    }
    let fitted = found.profile.calibration.as_ref().unwrap();
    assert_eq!((fitted.fitted, fitted.held_out), (21, 11));
    assert!(fitted.held_out_error_percent < 1.0, "{fitted:?}");
    // Three numbers of cores do not determine coherence, and the fit reports that.
    let few: Vec<Point> = points.into_iter().filter(|point| point.cores <= 3).collect();
    let found = calibrate("few", "a simulation", &few, None).unwrap();
    assert!(found.parameters.iter().all(|p| p.name != "processor.coherence"));
    assert!(found.remarks.iter().any(|remark| remark.contains("coherence")), "{found:?}");
}

/// Catalogue figures of a drive: reads of 88 µs and `rate`, writes of 52 µs and 80,000.
fn part(rate: u32) -> Part {
    let figure = |is: &str, value: &str, unit: &str| {
        format!("{{ is = '{is}', value = {value}, unit = '{unit}', kind = 'spec', source = 's' }},")
    };
    let figures = [
        figure("read_latency", "88", "us"),
        figure("read_iops", &rate.to_string(), "IOPS"),
        figure("write_latency", "52", "us"),
        figure("write_iops", "80000", "IOPS"),
    ];
    let text = format!(
        "[source.s]\ntitle = 'a test'\ndate = '2026'\n[[part]]\nid = 'p'\nname = 'p'\n\
         class = 'drive'\ninterface = 'pcie'\nfigures = [\n{}\n]\n",
        figures.join("\n")
    );
    let mut catalogue = Catalogue::default();
    catalogue.add("p.toml", &text).unwrap();
    catalogue.part("p").unwrap().clone()
}

fn reads() -> Vec<Point> {
    sweep().into_iter().filter(|point| point.read_share == 1.0).collect()
}

#[test]
fn what_was_not_run_is_as_the_catalogue_has_it() {
    let points = reads();
    let found = calibrate("found", "reads", &points, Some(&part(125_000))).unwrap();
    let of = |name: &str| found.parameters.iter().find(|p| p.name == name).unwrap();
    // 80,000 a second take 12.5 µs each; the rest of 52 µs is the medium's time of a lone write.
    for (name, mean, spread) in
        [("controller.write.each_s", 12.5e-6, 0.3126e-6), ("medium.write.each_s", 39.5e-6, 1.3e-6)]
    {
        let one = of(name);
        assert!((one.value / mean - 1.0).abs() < 1e-6, "{one:?}");
        assert_eq!(one.kind, Kind::Spec, "{one:?}");
        let (low, high) = one.interval.unwrap();
        assert!(((high - low) / (2.0 * 1.96 * spread) - 1.0).abs() < 0.01, "{one:?}");
    }
    assert_eq!(of("controller.read.each_s").kind, Kind::Fit);
    assert!(found.remarks.iter().any(|r| r.contains("no writes were run")), "{:?}", found.remarks);
    assert!(!found.remarks.iter().any(|r| r.contains("is it that part")), "{:?}", found.remarks);
}

#[test]
fn many_runs_outweigh_the_catalogue() {
    let points = reads();
    // The data sheet has half the rate of the drive.
    let part = part(62_500);
    let with = |runs: &[Point]| calibrate("found", "reads", runs, Some(&part)).unwrap();
    let of = |found: &Calibrated| {
        let mut all = found.parameters.iter();
        all.find(|p| p.name == "controller.read.each_s").unwrap().clone()
    };
    let many = vec![points.clone(); 5].concat();
    let (few, found) = (of(&with(&points)), with(&many));
    let one = of(&found);
    assert!(few.value > one.value && few.value < 9e-6, "{few:?} {one:?}");
    assert!((one.value / 8e-6 - 1.0).abs() < 0.04 && one.kind == Kind::Fit, "{one:?}");
    assert!((one.prior.unwrap().mean / 16e-6 - 1.0).abs() < 1e-9, "{one:?}");
    let told = |remark: &String| remark.contains("controller.read") && remark.contains("that part");
    assert!(found.remarks.iter().any(told), "{:?}", found.remarks);
}

#[test]
fn runs_of_different_origin_do_not_mix() {
    let mut points = vec![Point::of("r", &result()).unwrap(); 9];
    points[4].origin = stats::Origin::Simulated;
    let error = calibrate("x", "", &points, None).unwrap_err().to_string();
    assert!(error.contains("measured and simulated"), "{error}");
}

/// A parallel medium, and a serial controller: theory is exact.
const EXACT: &str = "name = 'exact'\n[[stage]]\nname = 'medium'\nservers = 'infinite'\n\
    shape = 'fixed'\nread = { each_s = 20e-3 }\nwrite = { each_s = 20e-3 }\n\
    [[stage]]\nname = 'controller'\nservers = 1\nread = { each_s = 2e-3 }\n";

#[test]
fn intervals_hold_the_truth_as_often_as_they_say() {
    let profile = Profile::parse(EXACT).unwrap();
    let mut held = [0, 0];
    for seed in 1..=20 {
        let point = |outstanding| {
            let simulator = Simulator::of_profile(&profile, 1).unwrap();
            let result = run_seed(simulator, &workload(4096, 100.0, outstanding), 2.0, seed);
            Point::of("a run", &result).unwrap()
        };
        let points = [1, 2, 4, 8, 16, 32, 64].map(point);
        let found = calibrate("found", "a simulation", &points, None).unwrap();
        let truths = [("medium.read.each_s", 20e-3), ("controller.read.each_s", 2e-3)];
        for (held, (name, truth)) in held.iter_mut().zip(truths) {
            let one = found.parameters.iter().find(|one| one.name == name).unwrap();
            let (low, high) = one.interval.unwrap();
            *held += u32::from(low <= truth && truth <= high);
            assert!((one.value / truth - 1.0).abs() < 0.1, "{one:?}");
        }
    }
    // With 100 seeds 100 and 95 cover it: the controller rests on the two deepest runs.
    assert!(held.iter().all(|held| *held >= 18), "{held:?} of 20");
}

/// Returns points of a profile without any noise.
fn exactly(profile: &Profile, sizes: &[u32], depths: &[u32]) -> Vec<Point> {
    let mut points = Vec::new();
    for size_bytes in sizes {
        for read_share in [1.0, 0.0] {
            for outstanding in depths {
                let mut point = Point::of("exact", &result()).unwrap();
                (point.size_bytes, point.read_share) = (*size_bytes, read_share);
                (point.outstanding, point.storage) = (*outstanding, "known".to_owned());
                point.iops = model_iops(profile, &point).unwrap();
                points.push(point);
            }
        }
    }
    points
}

const NAND: &str = "name = 'nand'\n[[stage]]\nname = 'controller'\nservers = 1\n\
    read = { each_s = 1.2e-6 }\nwrite = { each_s = 2e-6 }\n\
    [[stage]]\nname = 'medium'\nservers = 32\nread = { each_s = 75e-6 }\n\
    write = { each_s = 250e-6 }\n[[stage]]\nname = 'link'\nservers = 1\n\
    read = { per_byte_s = 0.3e-9 }\nwrite = { per_byte_s = 0.3e-9 }\n";

#[test]
fn a_sweep_without_noise_is_fitted() {
    let points = exactly(&Profile::parse(NAND).unwrap(), &[4096, 65536], &[1, 4, 16, 64]);
    let found = calibrate("found", "exact", &points, None).unwrap();
    let fitted = found.profile.calibration.as_ref().unwrap();
    assert!(fitted.held_out_error_percent < 5.0, "{found:#?}");
    assert_eq!(found.profile.usable(), Ok(()));
}

#[test]
fn one_server_for_command_and_bytes_is_told() {
    let text = "name = 'one'\n[[stage]]\nname = 'medium'\nservers = 8\n\
        read = { each_s = 60e-6 }\nwrite = { each_s = 80e-6 }\n\
        [[stage]]\nname = 'controller'\nservers = 1\n\
        read = { each_s = 20e-6, per_byte_s = 4e-9 }\n\
        write = { each_s = 30e-6, per_byte_s = 8e-9 }\n";
    let truth = Profile::parse(text).unwrap();
    let points = exactly(&truth, &[4096, 65536], &[1, 2, 8, 32]);
    let found = calibrate("found", "exact", &points, None).unwrap();
    assert!(found.remarks.iter().any(|remark| remark.contains("one server")), "{found:#?}");
    // A size between the swept ones.
    for mut point in exactly(&truth, &[16384], &[1, 8, 32]) {
        let measured = std::mem::take(&mut point.iops);
        let error = model_iops(&found.profile, &point).unwrap() / measured - 1.0;
        assert!(error.abs() < 0.05, "{error:+.3} at {point:?}");
    }
}

#[test]
fn what_is_in_doubt_is_named_and_weighs_less() {
    let mut points = exactly(&Profile::parse(NAND).unwrap(), &[4096, 65536], &[1, 4, 16, 64]);
    let mut again = points[5].clone();
    (again.name, again.iops) = ("again".to_owned(), again.iops * 1.5);
    points.push(again);
    let found = calibrate("found", "exact", &points, None).unwrap();
    let named = found.remarks.iter().filter(|remark| remark.contains("repeats differ by 50 %"));
    assert_eq!(named.count(), 2, "{:?}", found.remarks);
    // A host without CPU time for the load generator measures itself.
    let mut busy = result();
    busy.cpu.host_percent = Some(99.0);
    busy.class = stats::Class::Invalid;
    let point = Point::of("busy", &busy).unwrap();
    assert!((point.doubt, point.doubts.len()) == (6.0, 2), "{point:?}");
}

#[test]
fn a_fit_that_is_far_off_is_not_usable() {
    let mut points = exactly(&Profile::parse(NAND).unwrap(), &[4096, 65536], &[1, 4, 16, 64]);
    // No queueing model explains these.
    for (at, point) in points.iter_mut().enumerate() {
        point.iops *= if at % 2 == 0 { 3.0 } else { 0.4 };
    }
    let found = calibrate("found", "exact", &points, None).unwrap();
    let why = found.profile.usable().unwrap_err();
    assert!(why.contains("not usable"), "{why}");
}
