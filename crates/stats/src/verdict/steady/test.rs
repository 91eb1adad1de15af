//! Unsteady runs that must be found, and honest runs that must not.

use block::Rng;

use super::*;

fn judge(seconds: &[Second]) -> Check {
    steady_state(&Steadiness { seconds, ..Steadiness::default() })
}

#[test]
fn steady_state_follows_the_specification() {
    // Windows of a minute.
    let verdict = |rates: &[f64]| judge(&seconds(rates, 60.0)).verdict;
    assert_eq!(verdict(&[100.0; 4]), Verdict::Unknown);
    assert_eq!(verdict(&[100.0; 5]), Verdict::Pass);
    assert_eq!(verdict(&[0.0; 5]), Verdict::Warn);
    // A range of 20 % of the mean without slope passes, a slightly greater one does not.
    assert_eq!(verdict(&[110.0, 95.0, 90.0, 95.0, 110.0]), Verdict::Pass);
    assert_eq!(verdict(&[112.0, 95.0, 86.0, 95.0, 112.0]), Verdict::Warn);
    // A steady climb of 10 % of the mean is the limit.
    assert_eq!(verdict(&[95.0, 97.5, 100.0, 102.5, 105.0]), Verdict::Pass);
    assert_eq!(verdict(&[94.0, 97.0, 100.0, 103.0, 106.0]), Verdict::Warn);
    assert_eq!(verdict(&[105.0, 105.0, 100.0, 95.0, 95.0]), Verdict::Warn, "slope -12 %");
}

#[test]
fn seconds_left_over_are_the_first_ones() {
    let mut rates = vec![110.0, 90.0];
    rates.extend([100.0; 10]);
    let check = judge(&seconds(&rates, 1.0));
    assert_eq!(check.verdict, Verdict::Pass);
    assert!(check.evidence.contains("range 0.0 %"), "{check:?}");
}

#[test]
fn stretches_count_by_their_length() {
    // The last stretch of a long run may be short: it must not weigh as much as a whole one.
    let mut rates = seconds(&[100.0; 10], 128.0);
    let last = Second { t: rates[9].t - 127.0, iops: 1.0, ..Second::default() };
    rates[9] = last;
    let check = judge(&rates);
    assert_eq!(check.verdict, Verdict::Pass, "{check:?}");
    assert!(check.evidence.contains("windows of 256 s"), "{check:?}");
}

/// H06 detects: a rate that falls from 60k to 8k.
/// H06 accepts: five seconds of a busy host.
#[test]
fn a_drift_is_seen_in_few_seconds_if_it_is_smooth() {
    assert_eq!(judge(&seconds(&[94.0, 97.0, 100.0, 103.0, 106.0], 1.0)).verdict, Verdict::Warn);
    // The rate falls from 60k to 8k.
    let fall: Vec<f64> = (0..10).map(|n| 60e3 * 0.8_f64.powi(n)).collect();
    let check = judge(&seconds(&fall, 1.0));
    assert_eq!((check.verdict, check.mend.len()), (Verdict::Warn, 1), "{check:?}");
    // Effect of a busy host on five seconds: a range of 14.5 %, and 13.6 % of slope.
    let busy = judge(&seconds(&[93.0, 98.0, 101.0, 107.5, 100.5], 1.0));
    assert_eq!(busy.verdict, Verdict::Pass, "{busy:?}");
}

/// H06 detects: throttling in two of each four seconds.
/// H06 accepts: throttling by a sixth.
#[test]
fn throttling_in_turns_is_seen_though_its_windows_are_equal() {
    // Two of each four seconds are throttled.
    let rates: Vec<f64> = (0..20).map(|n| if n % 4 < 2 { 80e3 } else { 2e3 }).collect();
    let check = judge(&seconds(&rates, 1.0));
    assert_eq!(check.verdict, Verdict::Warn, "{check:?}");
    assert!(check.evidence.contains("between 2000 and 80000 IOPS"), "{check:?}");
    let mild: Vec<f64> = (0..20).map(|n| if n % 4 < 2 { 80e3 } else { 66e3 }).collect();
    assert_eq!(judge(&seconds(&mild, 1.0)).verdict, Verdict::Pass);
}

/// H06 detects: a second without I/Os in 60 s.
#[test]
fn seconds_with_nothing_are_said() {
    let mut rates = vec![1000.0; 60];
    rates[30] = 0.0;
    let check = judge(&seconds(&rates, 1.0));
    assert_eq!(check.verdict, Verdict::Warn);
    assert!(check.evidence.contains("no completion in 1 of 60 s"), "{check:?}");
    // Two I/Os a second: a second without any is chance.
    let mut rare = vec![2.0; 60];
    rare[30] = 0.0;
    assert_eq!(judge(&seconds(&rare, 1.0)).verdict, Verdict::Pass);
}

/// H06 detects: 2150 I/Os a second are scheduled, 2000 complete, latency rises.
#[test]
fn a_queue_that_builds_up_is_seen() {
    // 2150 a second are planned, 2000 complete: the latency climbs to 600 ms.
    let second = |n: u32| Second {
        t: f64::from(n + 1),
        iops: 2000.0,
        mean_ns: Some(1e5 + 6e7 * f64::from(n)),
        ..Second::default()
    };
    let all: Vec<Second> = (0..10).map(second).collect();
    let plan = Plan::Iops(2150.0);
    let check = steady_state(&Steadiness { seconds: &all, plan, ..Steadiness::default() });
    assert_eq!(check.verdict, Verdict::Warn);
    assert!(check.evidence.contains("2000 of 2150 planned IOPS completed, 93.0 %"), "{check:?}");
    assert!(check.evidence.contains("the mean latency grows"), "{check:?}");
    // I/Os in flight at the end of a run without a ramp are no backlog: 100 ms of one second.
    let second = Second { t: 1.0, iops: 1800.0, mean_ns: Some(1e8), ..Second::default() };
    let plan = Plan::Iops(2000.0);
    let short = Steadiness { seconds: &[second], plan, ..Steadiness::default() };
    assert_eq!(steady_state(&short).verdict, Verdict::Unknown);
}

#[test]
fn too_short_a_run_says_so() {
    let check = judge(&seconds(&[85e3], 0.2));
    assert_eq!(check.verdict, Verdict::Warn);
    assert!(check.evidence.contains("measured for 0.20 s, too short"), "{check:?}");
    assert_eq!(judge(&seconds(&[85e3; 3], 1.0)).verdict, Verdict::Unknown);
}

/// H06 detects: two volumes are fast in turn.
#[test]
fn volumes_that_take_turns_are_seen_though_all_is_steady() {
    let course = |name: &str, rate: &dyn Fn(u32) -> f64| Course {
        name: name.to_owned(),
        rates: (0..20).map(|n| (f64::from(n + 1), rate(n))).collect(),
    };
    let run = |parts: &[Course]| {
        let all = seconds(&[20_200.0; 20], 1.0);
        steady_state(&Steadiness { seconds: &all, parts, ..Steadiness::default() })
    };
    for period in [1, 5, 10] {
        let high = |n: u32| if (n / period).is_multiple_of(2) { 20e3 } else { 200.0 };
        let low = |n: u32| 20_200.0 - high(n);
        let check = run(&[course("file:a", &high), course("file:b", &low)]);
        assert_eq!(check.verdict, Verdict::Warn, "{period}: {check:?}");
        assert!(check.evidence.contains("between 200 and 20000 IOPS, and 1 more"), "{check:?}");
    }
    let check = run(&[course("file:a", &|_| 200.0), course("file:b", &|_| 20e3)]);
    assert_eq!(check.verdict, Verdict::Pass, "uneven, and steady: {check:?}");
}

/// Honest runs of 3 to 60 s whose seconds have a standard deviation of 5 %, of many workers each
/// with another 10 %, and open loops of independent arrivals: no alarm in a thousand.
/// H06 accepts: a thousand runs with 5 % of noise.
#[test]
fn honest_noise_raises_no_alarm() {
    let mut rng = Rng::new(20, 6);
    let mut normal = move || (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
    for run in 0..1000 {
        let length = [3, 5, 6, 10, 20, 60][run % 6];
        let rate = [300.0, 5e3, 1e6][run % 3];
        let all: Vec<Second> = (0..length)
            .map(|n| {
                let iops = rate * (1.0 + 0.05 * normal());
                let mean_ns = Some(32e9 / iops);
                Second { t: f64::from(n + 1), iops, mean_ns, ..Second::default() }
            })
            .collect();
        let part = |number: usize, draw: &mut dyn FnMut() -> f64| {
            let own = |n: u32| (f64::from(n + 1), rate / 8.0 * (1.0 + 0.1 * draw()));
            Course { name: format!("worker {number}"), rates: (0..length).map(own).collect() }
        };
        let parts: Vec<Course> = (0..8).map(|number| part(number, &mut normal)).collect();
        let check =
            steady_state(&Steadiness { seconds: &all, parts: &parts, ..Steadiness::default() });
        let expected = if length < 5 { Verdict::Unknown } else { Verdict::Pass };
        assert_eq!(check.verdict, expected, "run {run}: {check:?} {all:?}");
        // Same rates as an open loop that meets its plan.
        let open: Vec<Second> = (0..length)
            .map(|n| {
                let iops = rate + rate.sqrt() * normal();
                Second { t: f64::from(n + 1), iops, mean_ns: Some(2e6), ..Second::default() }
            })
            .collect();
        let plan = Plan::Iops(rate);
        let check = steady_state(&Steadiness { seconds: &open, plan, ..Steadiness::default() });
        assert_eq!(check.verdict, expected, "run {run}: {check:?}");
    }
}

/// Returns stretches of `width_s` seconds each.
fn seconds(rates: &[f64], width_s: f64) -> Vec<Second> {
    let second = |(number, iops): (usize, &f64)| Second {
        t: (number + 1) as f64 * width_s,
        iops: *iops,
        ..Second::default()
    };
    rates.iter().enumerate().map(second).collect()
}

#[test]
fn a_drift_of_the_size_that_would_have_shown_does() {
    const RUNS: usize = 400;
    let mut rng = Rng::new(6, 0);
    for (length, noise) in [(10, 0.02), (10, 0.05), (60, 0.01), (60, 0.05)] {
        let mut run = |drift: f64| -> Vec<f64> {
            let each = (0..length).map(|i| {
                let normal = (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
                let place = (f64::from(i) + 0.5) / f64::from(length) - 0.5;
                1e5 * (1.0 + drift * place) * (1.0 + noise * normal)
            });
            each.collect()
        };
        let (mut found, mut sum) = (0, 0.0);
        for _ in 0..RUNS {
            let check = judge(&seconds(&run(0.0), 1.0));
            let (_, said) = check.evidence.split_once("a drift of ").unwrap();
            let said: f64 = said.split(' ').next().unwrap().parse().unwrap();
            sum += said;
            found += usize::from(judge(&seconds(&run(said / 100.0), 1.0)).verdict != Verdict::Pass);
        }
        let share = found as f64 / RUNS as f64;
        println!("{length} s ± {noise}: {:.1} % says, {share} shown", sum / RUNS as f64);
        assert!((0.72..=1.0).contains(&share), "{length} {noise}: {share}");
    }
}

/// H06 accepts: a group that starts at half time, by its job.
#[test]
fn a_plan_that_changes_is_no_drift() {
    let rate = |t: u32| if t <= 6 { 1000.0 } else { 3000.0 };
    let second = |t: u32| Second { t: f64::from(t), iops: rate(t), ..Second::default() };
    let seconds: Vec<Second> = (1..=16).map(second).collect();
    let judge = |changes_s: &[f64]| {
        steady_state(&Steadiness { seconds: &seconds, changes_s, ..Steadiness::default() })
    };
    assert_eq!(judge(&[]).verdict, Verdict::Warn);
    let planned = judge(&[6.0]);
    assert_eq!(planned.verdict, Verdict::Pass, "{planned:?}");
    assert!(planned.evidence.starts_with("from 6 to 16 s, between"), "{planned:?}");
    // A change at another time explains nothing.
    assert_eq!(judge(&[2.0]).verdict, Verdict::Warn);
}
