//! Whether a result is unchanged: figures that it has twice must agree.
//!
//! Rates follow from counts, totals from workers, percentiles from histograms, the class from the
//! checks. A manual change of one figure leaves the others.

use stats::verdict::of_layout;
use stats::{
    Buckets, Direction, EVERY_CHECK_SINCE, FLUSHES_APART_SINCE, Histograms, Latency, RunResult,
    Verdict, WorkerResult, WorkerRow,
};

use crate::figure;

/// Layouts from this one on hold every histogram.
const WITH_HISTOGRAMS: u32 = 2;
/// Floating point may differ by this share.
const SLACK: f64 = 1e-6;

/// The first contradiction in a result, in words; `None` if there is none.
pub fn doubt(result: &RunResult) -> Option<String> {
    rates(result).or_else(|| sums(result)).or_else(|| latencies(result)).or_else(|| class(result))
}

fn near(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= SLACK * a.abs().max(b.abs())
}

fn rates(result: &RunResult) -> Option<String> {
    let totals = &result.totals;
    let window = totals.seconds;
    rate("totals.iops", totals.iops, totals.ios, window)
        .or_else(|| direction("totals.read", &totals.read, window))
        .or_else(|| direction("totals.write", &totals.write, window))
        .or_else(|| direction("totals.trim", &totals.trim, window))
        .or_else(|| direction("totals.flush", &totals.flush, window))
        .or_else(|| {
            let parts = [&totals.read, &totals.write, &totals.trim, &totals.flush];
            let sum: f64 = parts.iter().map(|part| part.bytes_per_second).sum();
            let says = totals.bytes_per_second;
            (parts.iter().any(|part| part.ios > 0) && !near(says, sum)).then(|| {
                let (says, sum) = (figure::bytes_per_second(says), figure::bytes_per_second(sum));
                format!("totals.bytes_per_second says {says}, its directions come to {sum}")
            })
        })
        .or_else(|| {
            let known = result.workers.iter().filter(|worker| worker.seconds > 0.0);
            let mut each = known.enumerate();
            each.find_map(|(index, worker)| {
                rate(&format!("workers[{index}].iops"), worker.iops, worker.ios, worker.seconds)
            })
        })
}

fn rate(name: &str, says: f64, ios: u64, seconds: f64) -> Option<String> {
    let is = if seconds > 0.0 { ios as f64 / seconds } else { 0.0 };
    (!near(says, is)).then(|| {
        let (says, ios, is) = (figure::rate(says), figure::count(ios), figure::rate(is));
        format!("{name} says {says}, its {ios} I/Os in {} are {is}", figure::seconds(seconds))
    })
}

fn direction(name: &str, of: &Direction, seconds: f64) -> Option<String> {
    rate(&format!("{name}.iops"), of.iops, of.ios, seconds).or_else(|| {
        // Earlier documents have no bytes.
        let is = if seconds > 0.0 { of.bytes as f64 / seconds } else { 0.0 };
        (of.bytes > 0 && !near(of.bytes_per_second, is)).then(|| {
            let says = figure::bytes_per_second(of.bytes_per_second);
            let (bytes, is) = (figure::count(of.bytes), figure::bytes_per_second(is));
            let seconds = figure::seconds(seconds);
            format!("{name}.bytes_per_second says {says}, its {bytes} bytes in {seconds} are {is}")
        })
    })
}

/// Totals are the sums of directions, and of workers.
fn sums(result: &RunResult) -> Option<String> {
    let totals = &result.totals;
    let differs = |name: &str, says: u64, of: &str, sum: u64| {
        let (a, b) = (figure::count(says), figure::count(sum));
        (says != sum).then(|| format!("{name} says {a}, {of} come to {b}"))
    };
    let apart = result.schema_version >= FLUSHES_APART_SINCE;
    let none = Direction::default();
    let flushes = if apart { &none } else { &totals.flush };
    let parts = [&totals.read, &totals.write, &totals.trim, flushes];
    let own = parts.iter().fold(0_u64, |sum, part| sum.saturating_add(part.ios));
    let found = (own > 0).then(|| differs("totals.ios", totals.ios, "its directions", own));
    if let Some(found) = found.flatten() {
        return Some(found);
    }
    if result.workers.is_empty() {
        return None;
    }
    let sum =
        |of: fn(&WorkerResult) -> u64| result.workers.iter().map(of).fold(0, u64::saturating_add);
    let any = |worker: &WorkerResult| worker.read.ios | worker.write.ios | worker.trim.ios;
    let known = result.workers.iter().any(|worker| any(worker) > 0);
    differs("totals.ios", totals.ios, "its workers", sum(|worker| worker.ios))
        .or_else(|| differs("totals.errors", totals.errors, "its workers", sum(|w| w.errors)))
        .or_else(|| {
            let bytes = [
                ("totals.read.bytes", totals.read.bytes, sum(|worker| worker.read.bytes)),
                ("totals.write.bytes", totals.write.bytes, sum(|worker| worker.write.bytes)),
            ];
            let mut wrong = bytes.into_iter().filter(|_| known);
            wrong.find_map(|(name, says, sum)| differs(name, says, "its workers", sum))
        })
        .or_else(|| result.workers.iter().enumerate().find_map(rows))
}

/// Checks that a worker's rows add up to its totals. I/Os that fail after the last row are errors
/// of the worker only.
fn rows((index, worker): (usize, &WorkerResult)) -> Option<String> {
    if worker.intervals.is_empty() {
        return None;
    }
    let sum = |of: fn(&WorkerRow) -> u64| {
        worker.intervals.iter().map(|row| of(&row)).fold(0, u64::saturating_add)
    };
    let errors = sum(|row| row.errors);
    let all = [
        ("ios", worker.ios, sum(WorkerRow::ios)),
        ("errors", worker.errors.min(errors), errors),
        ("read.bytes", worker.read.bytes, sum(|row| row.read_bytes)),
        ("write.bytes", worker.write.bytes, sum(|row| row.written_bytes)),
        ("trim.bytes", worker.trim.bytes, sum(|row| row.trimmed_bytes)),
    ];
    all.into_iter().find(|(_, says, sum)| says != sum).map(|(name, says, sum)| {
        let (says, sum) = (figure::count(says), figure::count(sum));
        format!("workers[{index}].{name} says {says}, its rows add up to {sum}")
    })
}

/// Latencies follow from the histograms as far as these are sharp.
fn latencies(result: &RunResult) -> Option<String> {
    let (totals, all) = (&result.totals, &result.histograms);
    let needed = result.schema_version >= WITH_HISTOGRAMS;
    let of = |name: &str, latency: &Latency, buckets: &Buckets| {
        latency_doubt(latency, buckets, needed).map(|why| format!("{name}.latency_ns {why}"))
    };
    let apart = result.schema_version >= FLUSHES_APART_SINCE;
    // Earlier documents have flushes among all.
    let together = |of: &Histograms| {
        let mut all = of.all();
        if !apart {
            all.merge(&of.flush);
        }
        all
    };
    of("totals", &totals.latency_ns, &together(all))
        .or_else(|| of("totals.read", &totals.read.latency_ns, &all.read))
        .or_else(|| of("totals.write", &totals.write.latency_ns, &all.write))
        .or_else(|| of("totals.trim", &totals.trim.latency_ns, &all.trim))
        .or_else(|| of("totals.flush", &totals.flush.latency_ns, &all.flush))
        .or_else(|| {
            result.workers.iter().enumerate().find_map(|(index, worker)| {
                let has = together(&worker.histograms);
                of(&format!("workers[{index}]"), &worker.latency_ns, &has)
            })
        })
        .or_else(|| {
            let mut sum = Buckets::default();
            result.workers.iter().for_each(|worker| sum.merge(&together(&worker.histograms)));
            let differs = !sum.is_empty() && !all.is_empty() && sum != together(all);
            differs.then(|| "histograms are not the sum of those of the workers".to_owned())
        })
}

fn latency_doubt(latency: &Latency, buckets: &Buckets, needed: bool) -> Option<String> {
    let samples = buckets.samples();
    if buckets.is_empty() && (!needed || latency.samples == 0) {
        return None;
    }
    if samples != latency.samples {
        let (says, has) = (figure::count(latency.samples), figure::count(samples));
        return Some(format!("says {says} samples, its histogram has {has}"));
    }
    let (Some(min), Some(max), Some(mean)) = (latency.min, latency.max, latency.mean) else {
        return Some("has samples, and no shortest, mean or longest".to_owned());
    };
    let span = |ns: u64| figure::span(ns as f64);
    let last = buckets.iter().last()?;
    // A draft says how long an I/O has waited that its histogram does not have.
    let waits = latency.waiting_from.is_some_and(|from_ns| max >= from_ns);
    for (name, p, says) in [
        ("p50", 0.5, latency.p50),
        ("p90", 0.9, latency.p90),
        ("p99", 0.99, latency.p99),
        ("p99.9", 0.999, latency.p99_9),
        ("p99.99", 0.9999, latency.p99_99),
    ] {
        let is = buckets.percentile(p).map(|ns| ns.clamp(min, max.max(min)));
        let is = is.filter(|_| latency.supports(p));
        let shortened = |ns: u64| (last.from_ns..=last.to_ns).contains(&ns);
        let of_draft = waits && is.is_some_and(shortened) && says.is_some_and(shortened);
        if says != is && !of_draft {
            let word = |ns: Option<u64>| ns.map_or_else(|| figure::UNKNOWN.to_owned(), span);
            return Some(format!("says {name} {}, its histogram has {}", word(says), word(is)));
        }
    }
    let longest = if waits { max.min(last.to_ns) } else { max };
    ends_doubt(buckets, (min, mean, longest))
}

/// The exact shortest, mean and longest lie where the histogram has room for them.
fn ends_doubt(buckets: &Buckets, (min, mean, max): (u64, f64, u64)) -> Option<String> {
    let (first, last) = (buckets.iter().next()?, buckets.iter().last()?);
    let sum = |of: fn(&stats::Bucket) -> u64| {
        let parts = buckets.iter().map(|bucket| of(&bucket) as f64 * bucket.count as f64);
        parts.sum::<f64>() / buckets.samples() as f64
    };
    let (low, high) = (sum(|bucket| bucket.from_ns), sum(|bucket| bucket.to_ns));
    // The last bucket also counts all longer latencies.
    let beyond = max > last.to_ns;
    let fits = mean >= low * (1.0 - SLACK) && (beyond || mean <= high * (1.0 + SLACK));
    let span = |ns: u64| figure::span(ns as f64);
    if !fits {
        let (low, high) = (figure::span(low), figure::span(high));
        return Some(format!(
            "says a mean of {}, its histogram one of {low} to {high}",
            figure::span(mean)
        ));
    }
    let alone = beyond && buckets.iter().count() == 1;
    if !alone && !(first.from_ns..=first.to_ns).contains(&min) {
        return Some(format!(
            "says that the shortest took {}, its histogram {}",
            span(min),
            span(first.from_ns)
        ));
    }
    (max < last.from_ns || beyond && last.to_ns < BUCKETS_END_NS).then(|| {
        format!("says that the longest took {}, its histogram {}", span(max), span(last.to_ns))
    })
}

/// The last bucket ends at 2⁴² nanoseconds, more than an hour.
const BUCKETS_END_NS: u64 = (1 << 42) - 1;

fn class(result: &RunResult) -> Option<String> {
    let passes = |code: &str| {
        result.checks.iter().any(|check| check.code == code && check.verdict == Verdict::Pass)
    };
    let totals = &result.totals;
    if passes("H21") && totals.errors > 0 {
        let errors = figure::plural(totals.errors, "I/O");
        return Some(format!("H21 passes with {errors} that failed"));
    }
    if passes("H12") && !totals.latency_ns.supports(0.99) {
        let samples = figure::plural(totals.latency_ns.samples, "sample");
        return Some(format!("H12 passes with {samples}"));
    }
    let times = |code: &str| result.checks.iter().filter(|check| check.code == code).count();
    let every = result.schema_version >= EVERY_CHECK_SINCE;
    let mut all = of_layout(result.schema_version).filter(|_| every);
    if let Some(listed) = all.find(|listed| times(listed.code) != 1) {
        let (code, times) = (listed.code, times(listed.code));
        return Some(format!("check {code} appears {times} times, expected once"));
    }
    let is = result.judged();
    (result.class != is).then(|| {
        let (says, is) = (result.class.word(), is.word());
        format!("its class says {says}, its checks come to {is}")
    })
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::generated;
    use stats::{Check, Class};

    #[test]
    fn results_that_were_made_are_believed() {
        for (seed, result) in generated::hundred().iter().enumerate() {
            assert_eq!(doubt(result), None, "seed {seed}");
        }
        assert_eq!(doubt(&RunResult::default()), None);
        // Earlier ones have those checks only that applied, and a class by the rule of then.
        let mut earlier = generated::small(1);
        earlier.schema_version = 2;
        earlier.checks.retain(|check| check.code == "H12" || check.code == "H06");
        earlier.class = Class::Indicative;
        earlier.checks.iter_mut().for_each(|check| check.verdict = Verdict::Warn);
        assert_eq!(doubt(&earlier), None);
        let needed = ["H06", "H10", "H11", "H13", "H20", "H21", "H22"];
        earlier.checks = needed.map(|code| Check::new(code, "x", Verdict::Pass, "")).to_vec();
        earlier.checks.push(Check::new("H12", "x", Verdict::Warn, ""));
        assert_eq!(doubt(&earlier), None);
        earlier.class = Class::Publishable;
        assert!(doubt(&earlier).unwrap().contains("its checks come to indicative"));
    }

    /// An I/O has no answer for longer than any took that has one.
    #[test]
    fn drafts_that_were_made_are_believed() {
        for (seed, whole) in generated::hundred().iter().enumerate() {
            let longest_ns = whole.workers.iter().filter_map(|worker| worker.latency_ns.max).max();
            for over in [1, 64, 1_000, 7_000_000] {
                let mut draft = whole.clone();
                draft.count_waiting(&[longest_ns.unwrap_or(0) + over]);
                assert_eq!(doubt(&draft), None, "seed {seed}, {over} ns longer");
                draft.totals.latency_ns.p99_99 = Some(1);
                draft.totals.latency_ns.p50 = draft.totals.latency_ns.max;
                assert!(doubt(&draft).is_some(), "seed {seed}");
            }
        }
    }

    /// A manual change, and the expected message.
    type Lie = (fn(&mut RunResult), &'static str);

    const LIES: [Lie; 24] = [
        (|r| r.totals.iops *= 4.5, "totals.iops says"),
        (|r| r.totals.ios += 1, "totals.iops says"),
        (|r| r.totals.seconds *= 0.5, "totals.iops says"),
        (|r| r.totals.read.iops += 1.0, "totals.read.iops says"),
        (|r| r.totals.read.bytes_per_second *= 1.1, "totals.read.bytes_per_second says"),
        (|r| r.totals.bytes_per_second *= 2.0, "its directions come to"),
        (|r| r.totals.errors += 3, "totals.errors says"),
        (|r| r.workers[0].iops += 1.0, "workers[0].iops says"),
        (|r| r.workers[1].intervals.reads[0] += 1, "its rows add up to"),
        (|r| r.workers[1].intervals.read_bytes[1] *= 2, "its rows add up to"),
        (|r| drop(r.workers.pop()), "its workers come to"),
        (|r| r.totals.latency_ns.p50 = r.totals.latency_ns.min, "says p50"),
        (|r| r.totals.latency_ns.p99_99 = Some(1), "says p99.99"),
        (|r| r.totals.latency_ns.mean = Some(3.0), "says a mean of"),
        (|r| r.totals.latency_ns.max = Some(u64::MAX), "the longest took"),
        (|r| r.totals.latency_ns.min = Some(0), "the shortest took"),
        (|r| r.totals.read.latency_ns.samples -= 1, "totals.read.latency_ns says"),
        (|r| r.workers[0].latency_ns.max = Some(2), "workers[0].latency_ns says"),
        (|r| r.histograms = stats::Histograms::default(), "its histogram has 0"),
        (|r| r.class = Class::Publishable, "its class says publishable"),
        (
            |r| {
                let clean = |code: &&str| Check::new(code, "x", Verdict::Pass, "");
                r.checks = ["H06", "H10"].iter().map(clean).collect();
                r.class = Class::Publishable;
            },
            "check H01 appears 0 times",
        ),
        (|r| r.checks.retain(|check| check.code != "H25"), "check H25 appears 0 times"),
        (|r| r.checks.push(r.checks[0].clone()), "check H01 appears 2 times"),
        (|r| r.set_check(Check::new("H12", "x", Verdict::Pass, "")), "H12 passes with"),
    ];

    #[test]
    fn every_figure_that_is_changed_by_hand_is_found() {
        for (number, (lie, word)) in LIES.iter().enumerate() {
            let mut caught = 0;
            for seed in 0..6 {
                let mut result = generated::small(seed);
                assert_eq!(doubt(&result), None);
                lie(&mut result);
                let why = doubt(&result).unwrap_or_else(|| panic!("lie {number}, seed {seed}"));
                caught += usize::from(why.contains(word));
            }
            assert!(caught > 3, "lie {number} is called something else than '{word}'");
        }
    }

    #[test]
    fn what_failed_does_not_pass() {
        let mut result = generated::small(1);
        result.totals.errors = 7;
        result.workers[0].errors = 7;
        result.workers[1..].iter_mut().for_each(|worker| worker.errors = 0);
        result.workers[0].intervals.errors[0] = 7;
        result.set_check(Check::new("H21", "x", Verdict::Pass, ""));
        assert_eq!(doubt(&result).unwrap(), "H21 passes with 7 I/Os that failed");
    }
}
