//! Search for the highest rate within a bound, on drives with known response times.
//!
//! A drive with one server and exponential times under Poisson arrivals is the queue M/M/1: its
//! response time is exponential with the rate μ − λ, so p99 ≤ X up to λ = μ − ln 100 / X.

use std::sync::Arc;

use job::spec::{Access, Group, JobSpec, RunSpec, WorkerSpec, Workload};
use job::sweep::Sweep;
use load::{Prepared, Runner};
use model::device::Profile;
use plan::simulate::Simulator;
use stats::live::{About, Action, Live, Snapshot};
use stats::sweep::{Found, Search, SweepPlan};
use stats::{Origin, RunResult};
use volume::Purpose;

/// Profile that is known exactly, so its percentiles count.
const KNOWN: &str = "name = 'known'\n[calibration]\nsource = 'a law'\nfitted = 1\nheld_out = 1\n\
    fit_error_percent = 0\nheld_out_error_percent = 0\nscatter = true\n\
    [[stage]]\nname = 'server'\nservers = 1\nshape = 'exponential'\n\
    read = { each_s = 100e-6 }\nwrite = { each_s = 100e-6 }\n";
/// Service rate of the server, in I/Os per second.
const MU: f64 = 10e3;

struct Nobody;

impl Live for Nobody {
    fn start(&mut self, _: &About) {}
    fn update(&mut self, _: &Snapshot) -> Action {
        Action::Continue
    }
    fn end(&mut self) {}
}

/// Runs a job of one group on all drives of a simulator.
fn run(simulator: &mut Simulator, job: &JobSpec) -> RunResult {
    let step = &job.steps[0];
    let volume = volume::open(&"null:1t".parse().unwrap(), Purpose::Destroy).unwrap();
    let workload = Arc::new(step.groups[0].workload.clone());
    let workers = (0..).zip(simulator.drives()).map(|(number, drive)| WorkerSpec {
        name: format!("worker {number}"),
        uri: drive.name.clone(),
        number,
        ..WorkerSpec::new(workload.clone())
    });
    let spec = RunSpec {
        document: serde_json::to_value(job).unwrap(),
        workers: workers.collect(),
        seconds: step.seconds,
        ramp_seconds: step.ramp_seconds,
        seed: job.seed,
        cores: vec![0],
        ..RunSpec::default()
    };
    let run = Prepared { spec, volumes: vec![volume], targets: None };
    simulator.run(run, &mut Nobody).unwrap()
}

/// Searches for the highest rate with a p99 within `ns`.
fn search(ns: u64, seconds: f64, repeats: u32, seed: u64) -> Found {
    let profile = Profile::parse(KNOWN).unwrap();
    let workload = Workload::new(Access::new(4096, 100.0, 100.0), 256);
    let volumes = vec!["made".to_owned()];
    let job = JobSpec::of(seed, seconds, 0.5, Group::new(volumes, 1, workload));
    let search = Search::P99 { ns };
    let plan = SweepPlan { repeats, seed, search, poisson: true, ..SweepPlan::default() };
    let mut sweep = Sweep::new(job, plan).unwrap();
    while let Some(ticket) = sweep.next_run() {
        let result = run(&mut Simulator::of_profile(&profile, 1).unwrap(), &ticket.job);
        assert_eq!(result.origin, Origin::Simulated);
        sweep.record(&ticket, &result);
    }
    let [found] = &sweep.document().found[..] else { panic!("a search comes to one answer") };
    found.clone()
}

/// Asserts that the rate found is that of the formula.
fn finds_the_law(bound_ns: u64, seed: u64) {
    let right = MU - 100_f64.ln() / (bound_ns as f64 * 1e-9);
    let found = search(bound_ns, 40.0, 1, seed);
    let rate = found.rate_per_s.unwrap();
    // A step of the search; the p99 of forty seconds has a smaller error.
    let step = 0.02 * MU;
    let (low, high) = (found.low_per_s.unwrap(), found.high_per_s.unwrap());
    println!("p99 <= {bound_ns} ns: {rate:.0}, by the law {right:.0}");
    println!("interval {low:.0} to {high:.0}, held {:?}, {:?}", found.held, found.missed_held);
    assert!(low <= right && right <= high, "{found:?}, by the law {right}");
    assert!((rate - right).abs() < step, "{found:?}, by the law {right}");
    assert!(high - low < 5.0 * step, "{found:?}");
}

#[test]
fn the_rate_within_a_wide_bound_is_the_one_of_the_law() {
    finds_the_law(700_000, 1);
}

#[test]
fn the_rate_within_a_narrow_bound_is_the_one_of_the_law() {
    finds_the_law(500_000, 2);
}
