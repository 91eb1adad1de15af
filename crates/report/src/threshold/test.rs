use stats::sweep::{SweepPlan, SweepResult};
use stats::{Check, Origin, Verdict};

use super::*;
use crate::compare::compare;
use crate::generated;

fn threshold(text: &str) -> Threshold {
    text.parse().unwrap_or_else(|why| panic!("{text}: {why}"))
}

#[test]
fn what_is_typed_is_understood_or_refused_with_what_is_known() {
    assert_eq!(threshold("p99>500us").bound, 500e3);
    assert_eq!(threshold(" iops < 900k ").bound, 900e3);
    assert_eq!(threshold("bw<1.5GB/s").bound, 1.5e9);
    assert_eq!(threshold("read.p99.9>2ms").bound, 2e6);
    assert_eq!(threshold("p100>2ms").figure, threshold("max>2ms").figure);
    assert_eq!(threshold("iops<-3%").bound, -0.03);
    assert!(threshold("iops<-3%").is_relative() && !threshold("cpu>90%").is_relative());
    for wrong in ["", "p99", "p99>5", "p99>=5ms", "p98>5ms", "iops<fast", "iops<1us", "bw<5"] {
        let why = wrong.parse::<Threshold>().unwrap_err();
        assert!(why.contains("p99") || why.contains("there are"), "{wrong}: {why}");
    }
    for wrong in ["iops<NaN", "iops<inf", "errors>1e999"] {
        assert!(wrong.parse::<Threshold>().is_err(), "{wrong}");
    }
    // Comparisons do not have these figures, so the bound would never have a verdict.
    for wrong in ["errors>10%", "max>10%", "read.iops<-3%", "p99.99>1%"] {
        let why = wrong.parse::<Threshold>().unwrap_err();
        assert!(why.contains("in percent is not known"), "{wrong}: {why}");
    }
}

/// Returns a result that is not invalid.
fn sound() -> RunResult {
    let seeds = (1..).map(generated::small);
    { seeds }.find(|run| run.class != Class::Invalid).unwrap()
}

fn runs(rates: &[f64]) -> Vec<RunResult> {
    let one = |rate: &f64| {
        let mut result = sound();
        (result.totals.iops, result.totals.latency_ns.p99) = (*rate, None);
        result
    };
    rates.iter().map(one).collect()
}

#[test]
fn a_run_is_missed_kept_or_not_told() {
    let [run] = &runs(&[1000.0])[..] else { panic!() };
    let verdict = |text: &str| threshold(text).of_run("", run).verdict;
    assert_eq!(verdict("iops<2k"), Kept::Missed);
    assert_eq!(verdict("iops<999"), Kept::Kept);
    assert_eq!(verdict("iops>1000"), Kept::Kept);
    assert_eq!(verdict("p99>1ns"), Kept::Unknown, "withheld");
    let mut run = run.clone();
    run.totals.latency_ns.max = Some(5_000_000);
    run.totals.latency_ns.waiting_from = Some(1_000_000);
    let verdict = |text: &str| threshold(text).of_run("", &run).verdict;
    assert_eq!(verdict("max>4ms"), Kept::Missed, "it is longer in any case");
    assert_eq!(verdict("max>6ms"), Kept::Unknown, "it may be longer");
    assert_eq!(verdict("max<6ms"), Kept::Unknown, "it may be longer");
    assert_eq!(verdict("max<4ms"), Kept::Kept);
}

#[test]
fn several_runs_decide_by_their_interval_and_say_what_that_is_worth() {
    let of = |rates: &[f64]| threshold("iops<1000").of_runs("", &runs(rates));
    assert_eq!(of(&[900.0, 950.0, 990.0]).verdict, Kept::Missed);
    assert_eq!(of(&[1001.0, 1100.0, 1050.0]).verdict, Kept::Kept);
    assert_eq!(of(&[900.0, 1100.0, 1050.0]).verdict, Kept::Unknown);
    // The median lies outside of the range of n runs in one of 2^(n-1) cases.
    for (n, percent) in [(2, "50 %"), (3, "75 %"), (4, "88 %"), (5, "94 %")] {
        let told = of(&vec![2000.0; n]);
        let sure = format!("{n} runs ({percent} confidence; 6 runs give 95 %)");
        assert!(told.evidence.ends_with(&sure), "{told}");
    }
    let told = of(&[2000.0; 6]);
    assert!(told.evidence.ends_with(" of 6 runs"), "{told}");
}

#[test]
fn an_error_in_one_of_ten_runs_is_an_error() {
    let mut ten = vec![sound(); 10];
    let of = |text: &str, runs: &[RunResult]| threshold(text).of_runs("", runs);
    assert_eq!(of("errors>0", &ten).verdict, Kept::Kept);
    assert_eq!(of("errors>0", &ten).evidence, "0 errors in 10 runs");
    ten[9].totals.errors = 1;
    assert_eq!(of("errors>0", &ten).verdict, Kept::Missed);
    assert_eq!(of("errors>0", &ten).evidence, "1 error in 1 of 10 runs");
    // Errors are summed over all runs.
    ten.iter_mut().for_each(|run| run.totals.errors = 1);
    assert_eq!(of("errors>9", &ten).verdict, Kept::Missed);
    assert_eq!(of("errors>10", &ten).verdict, Kept::Kept);
    assert_eq!(of("errors>0", &ten[..1]).evidence, "1 error");
}

#[test]
fn the_longest_of_all_runs_decides() {
    let mut ten = vec![sound(); 10];
    ten.iter_mut().for_each(|run| run.totals.latency_ns.max = Some(1_000_000));
    let of = |text: &str, runs: &[RunResult]| threshold(text).of_runs("", runs);
    assert_eq!(of("max>1ms", &ten).verdict, Kept::Kept);
    ten[3].totals.latency_ns.max = Some(9_000_000);
    for text in ["max>5ms", "p100>5ms"] {
        let told = of(text, &ten);
        assert_eq!(told.verdict, Kept::Missed, "{told}");
        assert_eq!(told.evidence, "9.00 ms, the most of 10 runs");
    }
    assert_eq!(of("max>10ms", &ten).verdict, Kept::Kept);
    // An unknown maximum may be longer than all others.
    ten[5].totals.latency_ns.max = None;
    assert_eq!(of("max>10ms", &ten).verdict, Kept::Unknown);
    assert_eq!(of("max>5ms", &ten).verdict, Kept::Missed);
}

#[test]
fn an_invalid_result_keeps_no_bound() {
    let mut three = runs(&[1000.0, 1001.0, 1002.0]);
    let of = |runs: &[RunResult]| threshold("iops<10").of_runs("", runs);
    assert_eq!(of(&three).verdict, Kept::Kept);
    three[1].set_check(Check::new("H02", "data-exist", Verdict::Fail, "a hole"));
    let told = of(&three);
    assert_eq!(told.verdict, Kept::Missed);
    let why = "; 1 of 3 runs are invalid: reads of blocks never written (H02)";
    assert!(told.evidence.ends_with(why), "{told}");
    let told = of(&three[1..2]);
    let why = "1.00k IOPS; the result is invalid: reads of blocks never written (H02)";
    assert_eq!((told.verdict, &*told.evidence), (Kept::Missed, why));
}

#[test]
fn what_nobody_asked_to_imitate_keeps_no_bound() {
    let mut run = sound();
    run.totals.iops = 1000.0;
    let of = |run: &RunResult| threshold("iops<10").of_run("", run);
    assert_eq!(of(&run).verdict, Kept::Kept);
    run.workers[0].volume = "null:1t".into();
    assert_eq!(of(&run).verdict, Kept::Missed);
    assert!(of(&run).evidence.ends_with("; null:1t stores nothing: no storage was measured"));
    run.workers[0].volume = "delay:x25-m(null:1t)".into();
    run.origin = Origin::Emulated;
    assert_eq!(of(&run).verdict, Kept::Kept, "asked for");
    run.workers[0].volume = "file:disk".into();
    assert_eq!(of(&run).verdict, Kept::Missed);
}

#[test]
fn a_change_within_noise_is_not_told_and_one_beyond_it_is() {
    let of = |a: &[RunResult], b: &[RunResult]| {
        threshold("iops<-3%").of_comparison(&compare("", a, b), a, b).verdict
    };
    let verdict = |a: &[f64], b: &[f64]| of(&runs(a), &runs(b));
    let steady = [1000.0, 1001.0, 1000.5, 999.0, 1000.0];
    assert_eq!(verdict(&[1000.0], &[100.0]), Kept::Unknown, "one run each");
    let slow: Vec<f64> = steady.iter().map(|rate| rate * 0.9).collect();
    assert_eq!(verdict(&steady, &slow), Kept::Missed);
    assert_eq!(verdict(&steady, &steady), Kept::Kept);
    let wild = [1000.0, 850.0, 1150.0, 900.0, 1100.0];
    assert_eq!(verdict(&wild, &wild), Kept::Unknown);
    // A hole is no faster disk.
    let (good, mut hole) = (runs(&steady), runs(&steady));
    hole[2].set_check(Check::new("H02", "data-exist", Verdict::Fail, "a hole"));
    assert_eq!(of(&good, &hole), Kept::Missed);
    let mut null = runs(&steady);
    null[0].workers[0].volume = "null:1t".into();
    assert_eq!([of(&good, &null), of(&null, &good)], [Kept::Missed; 2]);
}

/// A cell with a run for each result.
fn swept(results: &[RunResult]) -> SweepResult {
    let run = |(repeat, result): (u32, &RunResult)| {
        CellRun::of(result, repeat, format!("c/repeat-{repeat}"))
    };
    let runs = (1..).zip(results).map(run).collect();
    let plan = SweepPlan { job: sound().spec, ..SweepPlan::default() };
    SweepResult { plan, cells: vec![Cell { runs, ..Cell::default() }], ..SweepResult::default() }
}

#[test]
fn a_sweep_says_what_its_runs_say() {
    let mut ten = runs(&[1000.0; 10]);
    let none = |_: &CellRun| None;
    let of =
        |text: &str, runs: &[RunResult]| threshold(text).of_sweep(&swept(runs), &none).remove(0);
    for text in ["iops<10", "errors>0", "max>1ns", "p99>1ns", "iops<1001"] {
        assert_eq!(of(text, &ten).verdict, threshold(text).of_runs("", &ten).verdict, "{text}");
    }
    // A run that was cut has no rate, but it had an error.
    (ten[4].totals.errors, ten[4].partial) = (1, Some("interrupted".to_owned()));
    assert_eq!(of("errors>0", &ten).verdict, Kept::Missed);
    assert!(of("iops<10", &ten).evidence.contains(" of 9 runs"));
    let only = &ten[4..5];
    assert_eq!(of("errors>0", only).verdict, Kept::Missed);
    assert_eq!(of("errors>1", only).verdict, Kept::Unknown);
    assert_eq!(of("iops<10", only).evidence, "no run went through");
    ten[3].set_check(Check::new("H02", "data-exist", Verdict::Fail, "a hole"));
    let told = of("iops<10", &ten);
    assert_eq!(told.verdict, Kept::Missed);
    let why = "; 1 of 9 runs are invalid: reads of blocks never written (H02)";
    assert!(told.evidence.ends_with(why), "{told}");
}

#[test]
fn figures_that_a_sweep_lacks_are_those_of_its_results() {
    let three = runs(&[1000.0, 1001.0, 1002.0]);
    let sweep = swept(&three);
    let read = |run: &CellRun| three.get(run.repeat as usize - 1).cloned();
    for text in ["read.iops<1G", "read.max>100s", "read.mean>1s"] {
        let wanted = threshold(text).of_runs("", &three);
        assert_eq!(threshold(text).of_sweep(&sweep, &read), [wanted], "{text}");
    }
    let told = threshold("read.iops<1").of_sweep(&sweep, &|_| None).remove(0);
    let why = "the result of c/repeat-1 cannot be read";
    assert_eq!((told.verdict, &*told.evidence), (Kept::Unknown, why));
}
