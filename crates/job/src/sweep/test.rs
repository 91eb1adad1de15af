use std::collections::BTreeSet;

use stats::sweep::{Held, Shows};
use stats::{Latency, Origin, Totals};

use super::*;
use crate::spec::{Access, Group, Pacing, Workload};

/// Simulates a device with 100 µs per I/O, eight at a time: its knee is at eight outstanding. The
/// p99 is the response time of a queue that grows towards 80,000 a second.
fn device(job: &JobSpec) -> RunResult {
    let workload = &job.steps[0].groups[0].workload;
    let (iops, mean_us) = match workload.pacing {
        Pacing::Ios { per_second, .. } => {
            let busy = (per_second / 80e3).min(0.999);
            (per_second.min(80e3), 100.0 + 20.0 * busy / (1.0 - busy))
        }
        _ => {
            let depth = f64::from(workload.outstanding);
            (depth.min(8.0) * 10e3, 100.0 * (depth / 8.0).max(1.0))
        }
    };
    let ns = (mean_us * 1e3) as u64;
    let latency_ns = Latency {
        samples: 100_000,
        mean: Some(ns as f64),
        p99: Some(2 * ns),
        ..Latency::default()
    };
    let totals = Totals { iops, latency_ns, ..Totals::default() };
    RunResult { origin: Origin::Simulated, totals, seed: job.seed, ..RunResult::default() }
}

fn sweep(axes: &[&str], repeats: u32, search: Search) -> Result<Sweep, SweepError> {
    let workload = Workload::new(Access::new(512, 100.0, 100.0), 32);
    let group = Group::new(vec!["null:1g".to_owned()], 1, workload);
    let job = JobSpec::of(1, 1.0, 0.0, group);
    let axes = axes.iter().map(|axis| parse_axis(axis, &job)).collect::<Result<_, _>>()?;
    Sweep::new(job, SweepPlan { axes, repeats, seed: 7, search, ..SweepPlan::default() })
}

/// Makes at most `at_most` runs; returns their folders in order.
fn go(sweep: &mut Sweep, at_most: usize) -> Vec<String> {
    let mut made = Vec::new();
    while made.len() < at_most
        && let Some(ticket) = sweep.next_run()
    {
        sweep.record(&ticket, &device(&ticket.job));
        made.push(ticket.folder);
    }
    made
}

const DEPTHS: &str = "outstanding=1,2,4,8,16,32";

#[test]
fn every_cell_runs_once_before_any_runs_again_in_an_order_of_its_own() {
    let mut whole = sweep(&["size=512,4k", DEPTHS], 3, Search::Nothing).unwrap();
    assert_eq!(whole.progress(), (0, 36));
    let made = go(&mut whole, usize::MAX);
    assert_eq!((made.len(), whole.progress()), (36, (36, 36)));
    let cell = |folder: &String| folder.split('/').next().unwrap().to_owned();
    let rounds: Vec<Vec<String>> =
        made.chunks(12).map(|round| round.iter().map(cell).collect()).collect();
    for round in &rounds {
        assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 12, "{round:?}");
        assert!(!round.is_sorted());
    }
    assert_ne!(rounds[0], rounds[1]);
    assert_eq!(made, go(&mut sweep(&["size=512,4k", DEPTHS], 3, Search::Nothing).unwrap(), 99));
}

#[test]
fn a_sweep_that_was_cut_goes_on_where_its_document_ends() {
    for (axes, search) in [
        (vec!["size=512,4k", DEPTHS], Search::Nothing),
        (vec!["size=512,4k"], Search::Ladder),
        (vec![], Search::P99 { ns: 400_000 }),
    ] {
        let fresh = || sweep(&axes, 2, search).unwrap();
        let mut whole = fresh();
        let made = go(&mut whole, usize::MAX);
        for cut in [0, 1, 5, made.len() - 1, made.len()] {
            let mut first = fresh();
            let mut parts = go(&mut first, cut);
            let text = serde_json::to_string(first.document()).unwrap();
            let mut second = Sweep::resume(serde_json::from_str(&text).unwrap()).unwrap();
            assert!(second.has_plan_of(&whole));
            parts.extend(go(&mut second, usize::MAX));
            assert_eq!(parts, made, "cut after {cut}");
            assert_eq!(second.document(), whole.document());
        }
    }
    let other = sweep(&[DEPTHS], 2, Search::Nothing).unwrap();
    assert!(!other.has_plan_of(&sweep(&[DEPTHS], 3, Search::Nothing).unwrap()));
}

#[test]
fn a_failed_run_is_made_again_when_the_sweep_is_taken_up() {
    let mut broken = sweep(&["size=512,4k"], 1, Search::Nothing).unwrap();
    let ticket = broken.next_run().unwrap();
    broken.record_failure(&ticket, "unplugged".to_owned());
    assert_ne!(broken.next_run().unwrap().folder, ticket.folder);
    go(&mut broken, 9);
    assert_eq!(broken.document().cells[ticket.cell].iops, None);
    let mut again = Sweep::resume(broken.document().clone()).unwrap();
    assert_eq!(go(&mut again, 9), [ticket.folder]);
}

#[test]
fn the_knee_is_where_a_queue_begins() {
    let mut sweep = sweep(&["size=512,4k", DEPTHS], 2, Search::Nothing).unwrap();
    go(&mut sweep, usize::MAX);
    let series = &sweep.document().series;
    assert_eq!((series.len(), series[0].points), (2, 6));
    let knee = series[1].knee.clone().unwrap();
    assert_eq!((knee.value.as_str(), knee.iops, knee.at_end), ("8", 80e3, false));
    assert_eq!((knee.at_start, knee.among), (false, None), "two runs say nothing of their noise");
    assert_eq!(words_of(&series[1].settings), "size=4k");
}

#[test]
fn what_more_workers_bring_stands_beside_the_fewest() {
    let mut sweep = sweep(&["workers=4,1,2,16"], 4, Search::Nothing).unwrap();
    let mut rise = 0.0;
    while let Some(ticket) = sweep.next_run() {
        let workers = f64::from(ticket.job.steps[0].groups[0].workers);
        let mut result = device(&ticket.job);
        rise += 1.0;
        // Sixteen do slightly less than sixteen times as much, as in the second founding document.
        result.totals.iops =
            workers.min(15.0) * 93e3 * if ticket.repeat % 2 == 1 { 0.99 } else { 1.01 };
        sweep.record(&ticket, &result);
    }
    assert_eq!(rise, 16.0);
    let scaling = &sweep.document().series[0].scaling;
    let found: Vec<(&str, f64)> = scaling.iter().map(|s| (s.value.as_str(), s.times)).collect();
    assert_eq!(found.iter().map(|(value, _)| *value).collect::<Vec<_>>(), ["1", "2", "4", "16"]);
    let right = |i: usize, times: f64| (found[i].1 - times).abs() < 1e-9;
    assert!(right(0, 1.0) && right(1, 2.0) && right(2, 4.0) && right(3, 15.0), "{found:?}");
    assert!(scaling[0].range == Some([1.0, 1.0]) && (scaling[3].share - 0.9375).abs() < 1e-9);
    let [low, high] = scaling[3].range.unwrap();
    assert!(14.5 < low && low < 15.0 && 15.0 < high && high < 15.5, "{low} {high}");
}

#[test]
fn a_ladder_climbs_to_the_highest_rate() {
    let mut sweep = sweep(&[], 1, Search::Ladder).unwrap();
    assert_eq!(go(&mut sweep, usize::MAX).len(), 11);
    let rates: Vec<f64> =
        sweep.document().cells.iter().filter_map(|cell| cell.rate_per_s).collect();
    let wanted: Vec<f64> = (1..=10).map(|step| f64::from(step) * 8e3).collect();
    assert_eq!(rates, wanted);
    assert_eq!(sweep.document().series[0].points, 10);
}

#[test]
fn finds_the_highest_rate_within_a_bound() {
    let found = |ns| {
        let mut sweep = sweep(&[], 2, Search::P99 { ns }).unwrap();
        // Two of the closed loop, six that halve, six more at each edge.
        let runs = go(&mut sweep, usize::MAX).len();
        assert!(runs <= 2 + 6 + 12, "{runs} runs");
        sweep.document().found[0].clone()
    };
    let held = |runs| Some(Held { runs, of: 7 });
    // p99 ≤ 400 µs: 100 + 20 b / (1 − b) ≤ 200, so b ≤ 5/6 = 83.3 %: between 82 and 84.
    let inside = found(400_000);
    let rate = inside.rate_per_s.unwrap();
    assert!((rate - 0.83 * 80e3).abs() < 0.003 * 80e3, "{rate}");
    let tried = (inside.held_rate_per_s, inside.missed_rate_per_s);
    assert_eq!(tried, (Some(65_600.0), Some(67_200.0)));
    assert_eq!((inside.held, inside.missed_held), (held(7), held(0)));
    assert_eq!((inside.low_per_s, inside.high_per_s), (Some(65_600.0), Some(67_200.0)));
    assert_eq!((inside.runs, inside.confidence), (5 + 12, 1.0 - 2.0 / 32.0));
    assert!(inside.p99_ns.unwrap() <= 400_000);
    let none = found(100);
    assert_eq!((none.rate_per_s, none.missed_rate_per_s), (None, Some(1600.0)));
    assert_eq!((none.held, none.low_per_s, none.high_per_s), (None, None, Some(1600.0)));
    assert!(!none.too_short);
    let all = found(u64::MAX);
    assert_eq!((all.rate_per_s, all.missed_rate_per_s), (Some(80e3), None));
    assert_eq!((all.held, all.low_per_s, all.high_per_s), (held(7), Some(80e3), None));
    assert_eq!(all.confidence, 1.0 - 1.0 / 32.0);
}

/// Findings of a search, in percent of the highest rate.
struct Percent {
    rate: f64,
    low: f64,
    high: f64,
    runs: f64,
}

/// Runs a search in which the probability of a run to meet the bound follows a normal distribution
/// around `middle` percent of the highest rate, with a standard deviation of `sigma` percent.
fn scattered(middle: f64, sigma: f64, seed: u64) -> Percent {
    let mut sweep = sweep(&[], 1, Search::P99 { ns: 400_000 }).unwrap();
    let mut chance = Rng::new(seed, 0);
    while let Some(ticket) = sweep.next_run() {
        let mut result = device(&ticket.job);
        // The sum of twelve uniform numbers has a variance of one.
        let normal = (0..12).map(|_| chance.uniform()).sum::<f64>() - 6.0;
        if let Some(rate) = sweep.cell(&ticket).rate_per_s {
            let holds = rate / 800.0 + sigma * normal < middle;
            result.totals.latency_ns.p99 = Some(if holds { 1 } else { u64::MAX });
            result.totals.iops = rate;
        }
        sweep.record(&ticket, &result);
    }
    let found = &sweep.document().found[0];
    let percent = |rate: Option<f64>, none| rate.map_or(none, |rate| rate / 800.0);
    Percent {
        rate: percent(found.rate_per_s, 0.0),
        low: percent(found.low_per_s, 0.0),
        high: percent(found.high_per_s, 102.0),
        runs: f64::from(found.runs),
    }
}

/// Searches of each distribution; `SEARCHES` in the environment sets another number.
const SEARCHES: u64 = 24;

#[test]
fn the_interval_holds_the_rate_of_the_law_as_often_as_it_says() {
    let searches = std::env::var("SEARCHES").map_or(SEARCHES, |text| text.parse().unwrap());
    let n = searches as f64;
    for middle in [61.0, 35.0] {
        for sigma in [0.5, 5.0, 20.0, 80.0] {
            let all: Vec<_> = (0..searches).map(|seed| scattered(middle, sigma, seed)).collect();
            let mean = |of: fn(&Percent) -> f64| all.iter().map(of).sum::<f64>() / n;
            let too_high = all.iter().filter(|found| found.low > middle).count() as f64 / n;
            let too_low = all.iter().filter(|found| found.high < middle).count() as f64 / n;
            let rate = mean(|found| found.rate);
            let width = mean(|found| found.high - found.low);
            println!(
                "{middle} ± {sigma}: wrong {too_high:.3} {too_low:.3}, found {rate:.1}, width \
                 {width:.1}, runs {:.1}",
                mean(|found| found.runs),
            );
            // Chance: one of 32 at each end, and two standard deviations of the remaining chance
            // error.
            let most = 1.0 / 32.0 + 2.0 * (1.0 / 32.0 / n).sqrt();
            assert!(too_high <= most && too_low <= most, "{middle} {sigma}: {too_high} {too_low}");
            // The answer has no bias if the distribution is no wider than the rates.
            let off = (rate - middle).abs();
            assert!(sigma > 20.0 || off < 1.0 + 0.5 * sigma / n.sqrt(), "{middle} {sigma}: {rate}");
        }
    }
}

#[test]
fn runs_that_disagree_are_followed_by_others_further_out() {
    let mut sweep = sweep(&[], 1, Search::P99 { ns: 400_000 }).unwrap();
    while let Some(ticket) = sweep.next_run() {
        let mut result = device(&ticket.job);
        // Every other run misses from 60 % of the rate on.
        let rate = sweep.cell(&ticket).rate_per_s.unwrap_or(0.0);
        if rate > 0.6 * 80e3 && ticket.repeat % 2 == 0 {
            result.totals.latency_ns.p99 = Some(u64::MAX);
        }
        sweep.record(&ticket, &result);
    }
    let found = &sweep.document().found[0];
    assert!(found.low_per_s.unwrap() <= 0.6 * 80e3, "{found:?}");
    assert_eq!(found.high_per_s, Some(67_200.0));
    let asked: Vec<Shows> = sweep.document().cells.iter().filter_map(|cell| cell.shows).collect();
    assert!(asked.contains(&Shows::Holds) && asked.contains(&Shows::Misses), "{asked:?}");
}

#[test]
fn runs_at_the_edges_take_turns() {
    let mut sweep = sweep(&[], 1, Search::P99 { ns: 400_000 }).unwrap();
    let made = go(&mut sweep, usize::MAX);
    let cells: Vec<&str> =
        made[made.len() - 12..].iter().map(|folder| folder.split('/').next().unwrap()).collect();
    for round in cells.chunks(2) {
        assert_ne!(round[0], round[1], "{made:?}");
    }
    assert_eq!(sweep.progress().0, sweep.progress().1);
}

#[test]
fn independent_arrivals_may_scatter() {
    // A thousand planned: one standard deviation is 3 %.
    for (iops, keeps) in [(0.95, true), (0.8, false)] {
        let mut sweep = sweep(&[], 1, Search::P99 { ns: u64::MAX }).unwrap();
        sweep.document.plan.poisson = true;
        while let Some(ticket) = sweep.next_run() {
            let mut result = device(&ticket.job);
            result.totals.latency_ns.samples = 1000;
            result.totals.iops *= if sweep.cell(&ticket).rate_per_s.is_some() { iops } else { 1.0 };
            sweep.record(&ticket, &result);
        }
        assert_eq!(sweep.document().found[0].rate_per_s.is_some(), keeps, "{iops}");
    }
}

#[test]
fn a_rate_too_low_for_a_p99_is_said_to_be() {
    let mut sweep = sweep(&[], 1, Search::P99 { ns: u64::MAX }).unwrap();
    while let Some(ticket) = sweep.next_run() {
        let mut result = device(&ticket.job);
        result.totals.latency_ns.p99 = None;
        sweep.record(&ticket, &result);
    }
    let found = &sweep.document().found[0];
    assert_eq!((found.rate_per_s, found.too_short), (None, true));
    assert_eq!((found.low_per_s, found.high_per_s), (None, None), "nothing was compared");
}

#[test]
fn repeats_differ_in_their_seed_and_jobs_keep_their_name() {
    let mut sweep = sweep(&["size=4k"], 3, Search::Nothing).unwrap();
    let mut seeds = Vec::new();
    while let Some(ticket) = sweep.next_run() {
        assert_eq!(ticket.job.steps[0].name, "size=4k");
        seeds.push(ticket.job.seed);
        sweep.record(&ticket, &device(&ticket.job));
    }
    assert_eq!(seeds, [1, 2, 3].map(|repeat| split(1, repeat)));
}

#[test]
fn sweeps_of_neighbouring_seeds_have_no_seed_in_common() {
    let all: BTreeSet<u64> =
        (0..200).flat_map(|seed| (1..=10).map(move |repeat| split(seed, repeat))).collect();
    assert_eq!(all.len(), 2000);
    assert!(all.iter().all(|seed| *seed < 1 << 53));
}

#[test]
fn what_makes_no_job_is_refused_before_anything_runs() {
    let wrong = |axes: &[&str], search| sweep(axes, 1, search).unwrap_err().to_string();
    assert!(wrong(&["outstanding=1,0"], Search::Nothing).starts_with("outstanding=0: step 1"));
    assert!(wrong(&["sise=1"], Search::Nothing).contains("one of size, read"));
    assert!(wrong(&["size=1k", "bs=2k"], Search::Nothing).contains("twice"));
    assert!(wrong(&["rate=1k"], Search::Ladder).contains("sets the rate"));
    let many: String = (0..400).map(|i| format!("{i},")).collect();
    let axes = ["delay", "burst"].map(|word| format!("{word}={many}x"));
    assert!(wrong(&[&axes[0], &axes[1]], Search::Nothing).contains("1 to 100000, not 160801"));
    assert!(sweep(&[], 0, Search::Nothing).is_err());
}

#[test]
fn folders_have_plain_names() {
    let mut sweep = sweep(&["volume=file:/dev/a b,null:1g"], 1, Search::Nothing).unwrap();
    let folders: Vec<&str> = sweep.document().cells.iter().map(|c| c.folder.as_str()).collect();
    assert_eq!(folders, ["001-volume=file__dev_a-b", "002-volume=null_1g"]);
}
