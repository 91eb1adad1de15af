//! Bills and profiles in virtual time, compared with theory.

use std::sync::Arc;

use job::spec::{Arrivals, Pacing, WorkerSpec, Workload};
use load::Prepared;
use model::{Method, solve};
use stats::{Job, Origin, Verdict};
use volume::{Purpose, Uri};

use super::*;
use crate::predict::predict;
use crate::system::Tweak;
use catalogue::Catalogue;

/// True if a percentile was shown.
struct Viewer(bool);

impl Live for Viewer {
    fn start(&mut self, _: &About) {}
    fn update(&mut self, snapshot: &Snapshot) -> Action {
        self.0 |= snapshot.latency_ns.p50.is_some();
        Action::Continue
    }
    fn end(&mut self) {}
}

/// Runs one worker for each drive.
pub(crate) fn run(simulator: Simulator, workload: &Workload, seconds: f64) -> RunResult {
    run_seed(simulator, workload, seconds, 1)
}

pub(crate) fn run_seed(
    simulator: Simulator,
    workload: &Workload,
    seconds: f64,
    seed: u64,
) -> RunResult {
    run_all(simulator, std::slice::from_ref(workload), seconds, seed)
}

/// Returns the IOPS of one worker for each workload on each drive, workload by workload.
pub(crate) fn rates(bill: &Bill, workloads: &[Workload], seconds: f64) -> Vec<f64> {
    let result = run_all(Simulator::of_bill(bill).unwrap(), workloads, seconds, 1);
    result.workers.iter().map(|worker| worker.iops).collect()
}

fn run_all(mut simulator: Simulator, workloads: &[Workload], seconds: f64, seed: u64) -> RunResult {
    let uri: Uri = "null:1t".parse().unwrap();
    let volume = volume::open(&uri, Purpose::Destroy).unwrap();
    let driven: Vec<Arc<Workload>> = workloads.iter().cloned().map(Arc::new).collect();
    let each = driven.iter().flat_map(|driven| simulator.drives().iter().map(move |d| (driven, d)));
    let workers = (0..).zip(each).map(|(number, (driven, drive))| WorkerSpec {
        name: format!("worker {number}"),
        uri: drive.name.clone(),
        number,
        ..WorkerSpec::new(driven.clone())
    });
    let workload = &workloads[0];
    let access = &workload.access;
    let count = simulator.drives().len();
    let job = Job {
        size_bytes: access.size_bytes(),
        read_percent: access.read_percent(),
        random_percent: access.random_percent(),
        outstanding: Some(u64::from(workload.outstanding) * count as u64),
        workers: count as u32,
        volumes: count as u32,
        ..Job::default()
    };
    let spec = RunSpec {
        job,
        workers: workers.collect(),
        seconds,
        ramp_seconds: seconds / 10.0,
        seed,
        cores: vec![0],
        ..RunSpec::default()
    };
    let run = Prepared { spec, volumes: vec![volume], targets: None };
    let mut viewer = Viewer(false);
    let result = simulator.run(run, &mut viewer).unwrap();
    assert!(simulator.calibrated().is_some() || !viewer.0, "a percentile that means nothing");
    result
}

pub(crate) fn workload(size: u32, read_percent: f64, outstanding: u32) -> Workload {
    Workload::new(Access::new(size, read_percent, 100.0), outstanding)
}

fn bill(text: &str) -> Bill {
    Bill::read("b.toml", text, &Catalogue::shipped()).unwrap_or_else(|error| panic!("{error}"))
}

fn near(found: f64, expected: f64, share: f64) -> bool {
    (found / expected - 1.0).abs() < share
}

#[test]
fn a_bill_does_what_theory_says() {
    for (text, seconds) in [
        (include_str!("../../systems/intel-ssd.toml"), 0.05),
        (include_str!("../../systems/p4800x.toml"), 0.1),
        (include_str!("../../systems/marvell-write.toml"), 0.1),
        (include_str!("../../systems/thirdio-fc.toml"), 0.05),
        (include_str!("../../systems/iscsi-wire.toml"), 0.1),
    ] {
        let bill = bill(text);
        let work = bill.work;
        let theory = predict(&bill, &Tweak::default()).unwrap();
        let workload = workload(work.size_bytes as u32, work.read_share * 100.0, work.outstanding);
        let simulator = Simulator::of_bill(&bill).unwrap();
        let found = run(simulator, &workload, seconds);
        let name = &bill.name;
        assert!(found.totals.ios > 1000, "{name}: {}", found.totals.ios);
        let iops = found.totals.iops;
        assert!(near(iops, theory.iops, 0.03), "{name}: {iops} for {}", theory.iops);
        if let (Some(percent), Some(share)) = (found.cpu.host_percent, theory.processor) {
            assert!(near(percent, share * 100.0, 0.03), "{name}: {percent} for {share}");
        }
        // A queue depth of 1 needs the latency of a lone I/O: a guess, where a rating need not be.
        assert_eq!(found.origin, Origin::Simulated, "{name}");
        assert!(found.kind >= Some(theory.kind), "{name}: {:?}", found.kind);
    }
}

#[test]
fn a_mix_of_lengths_takes_the_time_of_its_parts() {
    let text =
        "name = 'x'\nsize = '4k'\noutstanding = 8\n[[group]]\ndrive = 'micron-9550-max-6400'\n";
    let bill = bill(text);
    let small = workload(4096, 70.0, 256);
    let found = run(Simulator::of_bill(&bill).unwrap(), &small, 0.1);
    // The rated mix, though each I/O is either a read or a write.
    assert!(near(found.totals.iops, 720e3, 0.02), "{}", found.totals.iops);
    // Half of the I/Os at a greater size: bytes limit, and the mean time is that of both.
    let mut both = workload(4096, 100.0, 64);
    let long =
        job::spec::Line { share_percent: 50.0, ..job::spec::Line::new(1 << 20, 100.0, 100.0) };
    both.access.lines[0].share_percent = 50.0;
    both.access.lines.push(long);
    let alone = |size: u32| {
        let w = workload(size, 100.0, 64);
        1.0 / run(Simulator::of_bill(&bill).unwrap(), &w, 0.2).totals.iops
    };
    let expected = 2.0 / (alone(4096) + alone(1 << 20));
    let found = run(Simulator::of_bill(&bill).unwrap(), &both, 0.5);
    assert!(near(found.totals.iops, expected, 0.05), "{} {expected}", found.totals.iops);
}

#[test]
fn without_calibration_there_are_no_percentiles_and_the_same_seed_gives_the_same_bits() {
    let profile = Profile::shipped("x25-m").unwrap();
    let mut workload = workload(4096, 70.0, 32);
    workload.pacing = Pacing::Ios { per_second: 8000.0, arrivals: Arrivals::Poisson };
    let one = run(Simulator::of_profile(&profile, 2).unwrap(), &workload, 0.5);
    let two = run(Simulator::of_profile(&profile, 2).unwrap(), &workload, 0.5);
    assert_eq!(one, two);
    let other = run_seed(Simulator::of_profile(&profile, 2).unwrap(), &workload, 0.5, 6);
    assert_ne!(one.totals, other.totals);
    assert!(one.totals.latency_ns.mean.is_some() && one.totals.latency_ns.p99.is_none());
    assert!(one.histograms.is_empty() && one.spans.is_empty());
    assert_eq!(one.kind, Some(Kind::Guess));
    let why = one.checks.iter().find(|check| check.code == "H12").unwrap();
    assert!(why.verdict == Verdict::Unknown && why.evidence.contains("not calibrated"));
    let [said] = &one.warnings[..] else { panic!("said once: {:?}", one.warnings) };
    assert!(said.starts_with("uncorrected: the network of the parts alone"), "{said}");
    let calibrated = Profile {
        calibration: Some(model::device::Calibration {
            source: "runs of a test".to_owned(),
            fitted: 1,
            fit_error_percent: 0.0,
            held_out: 1,
            held_out_error_percent: 0.0,
            scatter: true,
        }),
        ..profile
    };
    let found = run(Simulator::of_profile(&calibrated, 2).unwrap(), &workload, 0.5);
    assert_eq!((found.totals.iops, found.kind), (one.totals.iops, Some(Kind::Fit)));
    assert!(found.totals.latency_ns.p50.is_some() && !found.histograms.is_empty());
    assert_eq!(found.warnings, ["calibrated by runs of a test"]);
}

#[test]
fn a_profile_does_what_theory_says() {
    let profile = Profile::shipped("x25-m").unwrap();
    for (read_percent, outstanding) in [(100.0, 1), (100.0, 8), (0.0, 4)] {
        let workload = workload(4096, read_percent, outstanding);
        let found = run(Simulator::of_profile(&profile, 2).unwrap(), &workload, 0.8);
        let network = profile.closed(2, outstanding, read_percent / 100.0, 4096);
        let exact = solve(&network, Method::Exact).unwrap().throughput_per_s();
        assert!(near(found.totals.iops, exact, 0.03), "{} {exact}", found.totals.iops);
        let read_share = read_percent / 100.0;
        let work = crate::bill::Work { size_bytes: 4096.0, read_share, outstanding, flush: None };
        assert!(near(theory(&profile, 2, &work).unwrap().iops, exact, 0.01));
    }
}

#[test]
fn flushes_between_writes_take_what_plan_says() {
    for (drive, depth) in [("970-evo-500", 1), ("970-evo-500", 4), ("hdd-7k2", 1)] {
        let text = format!(
            "name = 'x'\nsize = '4k'\nread = 0\noutstanding = {depth}\nstate = 'fresh'\n\
             sequential = true\n[[group]]\ndrive = '{drive}'\n"
        );
        let mut writes = workload(4096, 0.0, depth);
        writes.access.lines[0].random_percent = 0.0;
        writes.access.flush_every = 1;
        let found = run(Simulator::of_bill(&bill(&text)).unwrap(), &writes, 20.0);
        let done = found.totals.write.iops;
        let planned = text.replace("read = 0", "read = 0\nflush = 1");
        let planned = crate::predict::predict(&bill(&planned), &Default::default()).unwrap().iops;
        // A flush is a separate I/O here, and a part of its write there.
        assert!(near(done, planned, 0.1), "{drive} at {depth}: {done} for {planned}");
    }
}

#[test]
fn what_no_figure_tells_is_refused() {
    let text = "name = 'x'\nsize = '4k'\noutstanding = 8\n[[group]]\ndrive = 'x25-m'\n";
    let mut access = Access::new(4096, 50.0, 100.0);
    access.lines[0].trim_percent = 1.0;
    let refused = |text: &str, access: &Access| {
        let simulator = Simulator::of_bill(&bill(text));
        let asked = simulator.and_then(|simulator| simulator.check(&[access]));
        asked.unwrap_err().to_string()
    };
    assert!(refused(text, &access).contains("trims"));
    let text = text.replace("x25-m", "any-sata-ssd");
    assert!(refused(&text, &Access::new(4096, 50.0, 100.0)).contains("read_iops of any-sata-ssd"));
    assert!(Simulator::of_profile(&Profile::shipped("x25-m").unwrap(), 0).is_err());
}

fn on(threads: usize, mut simulator: Simulator, workload: &Workload, seed: u64) -> RunResult {
    simulator.threads = Some(threads);
    run_seed(simulator, workload, 0.8, seed)
}

#[test]
fn one_thread_and_many_simulate_the_same_bits() {
    let profile = Profile::shipped("x25-m").unwrap();
    let several = bill(
        "name = 'x'\nhosts = 5\nsize = '4k'\noutstanding = 4\nserver = 'sr2625urlx'\n\
         software = 'windows-lsi-iometer'\n[[group]]\nadapter = 'lsi-9210-8i'\n\
         drive = 'x25-m'\ndrives = 3\n",
    );
    let workload = workload(4096, 70.0, 4);
    let make: [&dyn Fn() -> Simulator; 2] =
        [&|| Simulator::of_profile(&profile, 6).unwrap(), &|| {
            Simulator::of_bill(&several).unwrap()
        }];
    for make in make {
        let one = on(1, make(), &workload, 3);
        assert!(one.totals.iops > 1000.0 && one.partial.is_none());
        for threads in [2, 4, 64] {
            assert_eq!(on(threads, make(), &workload, 3), one, "{threads} threads");
        }
        assert_ne!(on(2, make(), &workload, 4), one, "the seed decides");
        // Identical drives have their own random numbers.
        assert_ne!(one.workers[0].iops, one.workers[one.workers.len() - 1].iops);
    }
}

#[test]
fn several_hosts_are_simulated_each_with_its_own_parts() {
    let text = |hosts: u32| {
        format!(
            "name = 'x'\nhosts = {hosts}\nsize = '4k'\noutstanding = 8\nserver = 'sr2625urlx'\n\
             software = 'windows-lsi-iometer'\n[[group]]\nadapter = 'lsi-9210-8i'\n\
             drive = 'x25-m'\ndrives = 8\n"
        )
    };
    let found = |hosts: u32| {
        let bill = bill(&text(hosts));
        let theory = predict(&bill, &Tweak::default()).unwrap().iops;
        let simulator = Simulator::of_bill(&bill).unwrap();
        assert_eq!(simulator.drives().len(), 8 * hosts as usize);
        let found = run(simulator, &workload(4096, 100.0, 8), 0.5).totals.iops;
        assert!((found / theory - 1.0).abs() < 0.04, "{found} for {theory}");
        found
    };
    let (one, four) = (found(1), found(4));
    assert!((four / one / 4.0 - 1.0).abs() < 0.01, "{four} for four of {one}");
}

#[test]
fn shares_of_several_streams_are_by_their_ios() {
    let text = "name = 'x'\nsize = '4k'\noutstanding = 1\n[[group]]\n\
        drive = 'micron-9550-max-6400'\n";
    let both = [workload(4096, 70.0, 32), workload(131_072, 100.0, 1)];
    let result = run_all(Simulator::of_bill(&bill(text)).unwrap(), &both, 0.3, 1);
    let of_ios = result.totals.read.iops / result.totals.iops * 100.0;
    let said = result.job.read_percent;
    assert!(
        (said - of_ios).abs() < 0.5 && said < 80.0,
        "{said} of {of_ios}: no mean of 70 and 100"
    );
    // The mix of a single access is the configured one.
    let alone = run(Simulator::of_bill(&bill(text)).unwrap(), &both[0], 0.1);
    assert_eq!(alone.job.read_percent, 70.0);
}

#[test]
fn a_disk_chooses_among_what_is_in_flight() {
    let text = "name = 'x'\nsize = '4k'\noutstanding = 32\n[[group]]\nadapter = 'lsi-9210-8i'\n\
        drive = 'hdd'\n";
    let bill = bill(text);
    let planned = predict(&bill, &Tweak::default()).unwrap().iops;
    let found = run(Simulator::of_bill(&bill).unwrap(), &workload(4096, 100.0, 32), 60.0);
    assert!(near(found.totals.iops, planned, 0.03), "{} for {planned}", found.totals.iops);
}
