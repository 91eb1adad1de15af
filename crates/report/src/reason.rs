//! The strongest reason against a result.
//!
//! A hurried reader sees a number, its class, and this reason. Verdicts are ranked fail, warn,
//! unknown; equal verdicts by their weight.

use std::collections::BTreeMap;

use stats::{Check, Class, EVERY_CHECK_SINCE, Origin, RunResult, Verdict};

use crate::figure;
use crate::style::Paint;

/// Checks by weight: wrong or missing data first, then another medium than the named one, then
/// disturbances of the measurement, then the number of repeats.
const WEIGHT: [&str; 26] = [
    "H05", "H21", "H23", "H02", "H01", "H03", "H25", "H08", "H24", "H04", "H22", "H15", "H11",
    "H10", "H19", "H09", "H13", "H18", "H16", "H17", "H06", "H26", "H14", "H12", "H07", "H20",
];

/// The check that says most against a result; of a number that passed all of them, none.
pub(crate) fn worst(checks: &[Check]) -> Option<&Check> {
    in_order(checks).into_iter().next().filter(|check| check.verdict.is_against())
}

/// All checks, those first that say most against a result.
pub(crate) fn in_order(checks: &[Check]) -> Vec<&Check> {
    let mut all: Vec<&Check> = checks.iter().collect();
    all.sort_by_key(|check| order(&check.code, check.verdict));
    all
}

/// Same for bare verdicts, each with the number of its check.
pub(crate) fn worst_of<'a>(
    verdicts: impl IntoIterator<Item = (&'a str, Verdict)>,
) -> Option<(&'a str, Verdict)> {
    let against = verdicts.into_iter().filter(|(_, verdict)| verdict.is_against());
    against.min_by_key(|(code, verdict)| order(code, *verdict))
}

/// Sorts checks as [`in_order`] does.
pub(crate) fn order(code: &str, verdict: Verdict) -> (u8, usize) {
    (severity(verdict), weight(code))
}

fn severity(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Fail => 0,
        Verdict::Warn => 1,
        Verdict::Unknown => 2,
        Verdict::Pass => 3,
        Verdict::DoesNotApply => 4,
    }
}

/// Checks that this version does not know come last.
fn weight(code: &str) -> usize {
    WEIGHT.iter().position(|known| *known == code).unwrap_or(WEIGHT.len())
}

/// Number, origin, class and reason in one line: `1.00M IOPS measured, indicative: memory below
/// the file (H01)`.
pub fn headline(result: &RunResult, paint: Paint) -> String {
    let number = paint.bold(&figure::iops(result.totals.iops));
    let origin = result.origin.with(result.kind);
    let class = verdict(result);
    let class = match result.class {
        Class::Invalid => paint.red(&class),
        Class::Indicative | Class::Publishable => class,
    };
    let length = match result.totals.seconds {
        s if is_short(s) && result.origin != Origin::Simulated => {
            format!(" in {}", figure::seconds(s))
        }
        _ => String::new(),
    };
    format!("{number} {origin}{length}, {class}")
}

/// In less time no rate is known to have settled, in seconds.
const SHORT_S: f64 = 5.0;

/// Returns whether a window is so short that its length belongs next to every figure. A length of 0
/// means not measured.
pub(crate) fn is_short(seconds: f64) -> bool {
    seconds > 0.0 && seconds < SHORT_S
}

/// The class of a result with its reason: `indicative: memory below the file (H01)`.
pub fn verdict(result: &RunResult) -> String {
    let class = result.class.word();
    match why(result) {
        Some(why) => format!("{class}: {why}"),
        None => class.to_owned(),
    }
}

fn why(result: &RunResult) -> Option<String> {
    if let Some(check) = worst(&result.checks) {
        return Some(format!("{} ({})", words(check), check.code));
    }
    // Since every check is there, none is missing.
    let missing = match result.schema_version < EVERY_CHECK_SINCE {
        true => Class::unmade(&result.checks),
        false => Vec::new(),
    };
    // The origin already says that a model was not measured.
    let says = result.class == Class::Indicative && result.origin != Origin::Simulated;
    (says && !missing.is_empty()).then(|| format!("not checked: {}", missing.join(", ")))
}

/// Rank of a class: 0 for publishable, then rising.
pub(crate) fn rank(class: Class) -> u8 {
    match class {
        Class::Publishable => 0,
        Class::Indicative => 1,
        Class::Invalid => 2,
    }
}

/// Returns the verdict of each check, by its number.
pub(crate) fn verdicts(result: &RunResult) -> BTreeMap<&str, &'static str> {
    let checks = result.checks.iter();
    checks.map(|check| (check.code.as_str(), check.verdict.word())).collect()
}

/// Checks that did not pass, the worst first: `H02 fail, H19 warn`.
pub(crate) fn held_against(result: &RunResult) -> String {
    let against = in_order(&result.checks).into_iter();
    let against = against.filter(|check| check.verdict.is_against());
    let words = against.map(|check| format!("{} {}", check.code, check.verdict.word()));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the fix of a check that did not pass: the command that fixes it, or one that measures
/// again.
pub(crate) fn next(check: &Check) -> String {
    if let Some(mend) = check.mend.first() {
        return mend.clone();
    }
    settles(&check.code).to_owned()
}

/// Returns the default fix of a check, by its number; empty if none is known.
pub(crate) fn settles(code: &str) -> &'static str {
    match code {
        "H02" => "precondition: write all of each volume (--read 0), then repeat this run",
        "H06" | "H12" => "repeat with a longer --seconds",
        "H10" => "repeat with --ceiling",
        "H13" | "H14" | "H15" => "drumfire doctor",
        "H19" => "drumfire serve on another host, and drumfire run iscsi://HOST/… here",
        "H20" => "drumfire sweep RUN/job.toml --repeats 6",
        _ => "",
    }
}

/// Returns the finding of a check in a few words, without its evidence.
pub(crate) fn words(check: &Check) -> String {
    let says = |word: &str| check.evidence.contains(word);
    let words = match (check.code.as_str(), check.verdict) {
        ("H01", Verdict::Warn) if says("uses the page cache") => "through the page cache",
        ("H01", Verdict::Warn) => "memory below the file",
        ("H02", Verdict::Warn) if says("stores nothing") => "nothing is stored",
        ("H10", Verdict::Warn) if says("the client is part of the rate") => {
            "the client's processors were the limit"
        }
        ("H10", Verdict::Unknown) if says("whether the rate holds") => {
            "unknown whether the client was the limit"
        }
        ("H14", Verdict::Warn) if says("CPUs woke late") => "CPUs woke late from idle states",
        ("H14", Verdict::Warn) if says("slow each other") => "threads of one core slow each other",
        ("H14", Verdict::Warn) if says(" I/Os in a second") => "a drive napped between I/Os",
        ("H18", Verdict::Warn) if says("changes and writes") || says("changed and written") => {
            "parts of physical blocks were written"
        }
        ("H18", Verdict::Warn | Verdict::Unknown) if says("half of the flushes and FUA writes") => {
            "flushes end sooner than a medium writes"
        }
        ("H15", Verdict::Warn | Verdict::Fail) if says("not scheduled for") => {
            "the run was suspended, or its CPU was busy"
        }
        ("H19", Verdict::Warn | Verdict::Fail) if says("loopback") => "loopback, no wire",
        ("H20", Verdict::Unknown | Verdict::Warn) if says("one run") => "measured once",
        ("H12", Verdict::Warn) if !check.evidence.starts_with(|c: char| c.is_ascii_digit()) => {
            "percentiles leave some I/Os out"
        }
        ("H21", Verdict::Warn | Verdict::Fail) if says(" I/Os failed, ") => "I/Os failed",
        ("H21", Verdict::Warn | Verdict::Fail) if says("never answered") => {
            "I/Os without an answer"
        }
        ("H21", Verdict::Warn) if says(" left: ") || says(" legs are in") => "a mirror lost a leg",
        ("H21", Verdict::Warn) if says("no I/O shows") => "faults that a mirror hid",
        ("H21", Verdict::Warn) if says("were made again") => "connections were lost",
        ("H21", Verdict::Warn | Verdict::Fail) if says("in the ramp") => "I/Os failed in the ramp",
        (code, verdict) => short(code, verdict).unwrap_or(&check.name),
    };
    words.to_owned()
}

/// Returns the finding of a check whose words do not depend on its evidence.
pub(crate) fn short(code: &str, verdict: Verdict) -> Option<&'static str> {
    use Verdict::{Fail, Unknown, Warn};
    Some(match (code, verdict) {
        ("H01", Fail) => "the page cache took part",
        ("H01", Warn) => "memory below the file",
        ("H01", Unknown) => "unknown whether memory took part",
        ("H02", Fail) => "reads of blocks never written",
        ("H02", Warn) => "reads returned zeroes or no data",
        ("H02", Unknown) => "unknown whether the blocks were ever written",
        ("H03", Fail) => "the I/Os did not reach the device",
        ("H03", Warn) => "the device counted different I/Os",
        ("H03", Unknown) => "the device's counters are unknown",
        ("H04", Unknown) => "unknown how the data are stored",
        ("H04", Fail | Warn) => "the data can be compressed or deduplicated",
        ("H05", Fail) => "wrong data",
        ("H05", Warn | Unknown) => "data not compared",
        ("H06", Fail | Warn) => "no steady state",
        ("H06", Unknown) => "too short to show a steady state",
        ("H07", Fail | Warn) => "flash is not in the state that it keeps",
        ("H07", Unknown) => "not known to be preconditioned",
        ("H08", Fail | Warn) => "the working set fits into a cache",
        ("H08", Unknown) => "unknown which caches hold the data",
        ("H09", Unknown) => "unknown whether I/Os started as scheduled",
        ("H09", Fail | Warn) => "I/Os started later than scheduled",
        ("H10", Fail | Warn) => "the generator was the limit",
        ("H10", Unknown) => "the generator's limit was not measured",
        ("H11", Fail | Warn) => "rate × latency differs from the queue depth",
        ("H12", Fail | Warn) => "too few I/Os for a p99",
        ("H13", Fail | Warn) => "other programs used CPU time",
        ("H13", Unknown) => "unknown whether the CPU was shared",
        ("H14", Unknown) => "the CPU frequency is unknown",
        ("H14", Fail | Warn) => "the CPU frequency changed",
        ("H15", Fail | Warn) => "the clock is slow to read",
        ("H16", Fail | Warn) => "workers ran far from the device",
        ("H16", Unknown) => "unknown how far workers ran from the device",
        ("H17", Fail | Warn) => "other programs used the host",
        ("H17", Unknown) => "unknown what other programs used",
        ("H18", Fail) => "device settings changed during the run",
        ("H18", Unknown) => "the block layer's settings are unknown",
        ("H18", Warn) => "the block layer changes the I/Os",
        ("H19", Fail | Warn) => "TCP retransmissions",
        ("H19", Unknown) => "TCP retransmissions were not counted",
        ("H20", Fail) => "runs were copied or exchanged",
        ("H20", Warn) => "repeats lie apart, or come from elsewhere",
        ("H20", Unknown) => "measured too rarely",
        ("H21", Fail) => "I/Os failed",
        ("H21", Warn) => "I/Os failed, or faults were hidden",
        ("H22", Unknown) => "unknown whether every worker had its part",
        ("H22", Fail | Warn) => "some workers had far fewer I/Os",
        ("H23", Fail | Warn) => "connections were lost",
        ("H24", Fail | Warn) => "volumes of different kinds",
        ("H24", Unknown) => "unknown whether all volumes are of one kind",
        ("H25", Fail | Warn) => "a cache served the job",
        ("H25", Unknown) => "unknown whether a cache served the job",
        ("H26", Fail | Warn) => "the rate was a burst that ended",
        ("H26", Unknown) => "too short to show whether the rate lasts",
        _ => return None,
    })
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    fn check(code: &str, verdict: Verdict, evidence: &str) -> Check {
        Check::new(code, "some-name", verdict, evidence)
    }

    #[test]
    fn the_worst_verdict_first_and_then_what_takes_most_from_the_number() {
        use Verdict::{Fail, Pass, Unknown, Warn};
        let of = |checks: &[(&str, Verdict)]| {
            let checks: Vec<Check> =
                checks.iter().map(|(code, verdict)| check(code, *verdict, "")).collect();
            worst(&checks).map(|check| check.code.clone())
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("H05", Pass)]), None);
        let mixed = [("H05", Unknown), ("H17", Warn), ("H01", Warn), ("H06", Fail), ("H20", Fail)];
        assert_eq!(of(&mixed).as_deref(), Some("H06"));
        assert_eq!(of(&mixed[..3]).as_deref(), Some("H01"));
        assert_eq!(of(&mixed[..1]).as_deref(), Some("H05"));
        // A check unknown to this version counts, and is last among equal verdicts.
        assert_eq!(of(&[("H99", Warn), ("H05", Unknown)]).as_deref(), Some("H99"));
        assert_eq!(of(&[("H99", Warn), ("H20", Warn)]).as_deref(), Some("H20"));
        let bare = worst_of(mixed);
        assert_eq!(bare, Some(("H06", Fail)));
    }

    #[test]
    fn faults_that_no_io_shows_are_on_the_first_line() {
        let of = |hidden: &[&str], reconnects| {
            let mut totals = stats::Totals { ios: 1000, ..stats::Totals::default() };
            totals.ramp.reconnects = reconnects;
            let hidden: Vec<String> = hidden.iter().map(|words| (*words).to_owned()).collect();
            let mut result = sample::race();
            result.set_check(stats::verdict::ios_succeeded(&totals, &hidden));
            headline(&result, Paint::PLAIN).split_once(": ").unwrap().1.to_owned()
        };
        let left = "mirror: leg 2 (ram:1m) left: not answered for 30 s";
        assert_eq!(of(&[left], 0), "a mirror lost a leg (H21)");
        assert_eq!(of(&["array a: 1 of 2 legs are in"], 3), "a mirror lost a leg (H21)");
        let repaired = "mirror: 40 reads were repaired from another leg";
        assert_eq!(of(&[repaired], 0), "faults that a mirror hid (H21)");
        assert_eq!(of(&[], 1), "connections were lost (H21)");
        assert_eq!(of(&[], 0), "loopback, no wire (H19)");
    }

    #[test]
    fn a_run_that_was_not_scheduled_is_no_slow_clock() {
        let of = |stopped_s, counter| {
            let clocks_s = Some([3.0; 2]);
            let window =
                stats::verdict::Window { asked_s: 3.0, measured_s: 3.0, stopped_s, clocks_s };
            words(&stats::verdict::clock(Some("hpet"), counter, 900.0, Some(0.5), Some(window)))
        };
        assert_eq!(of(1.0, true), "the run was suspended, or its CPU was busy");
        assert_eq!(of(0.0, false), "the clock is slow to read");
    }

    #[test]
    fn what_a_check_found_is_named() {
        use stats::verdict::{FewerCores, Idle, Nap, PerIo, Rested, Sectors};
        let fewer = FewerCores { cores: 1, iops: 5.0, control_iops: 10.0, seconds: 1.0 };
        let mut result = sample::race();
        result.set_ceiling(stats::verdict::Ceiling { iops: 1e9, ..Default::default() });
        let of = |result: &RunResult| {
            words(result.checks.iter().find(|check| check.code == "H10").unwrap())
        };
        assert_eq!(of(&result), "unknown whether the client was the limit");
        result.set_fewer_cores(fewer);
        assert_eq!(of(&result), "the client's processors were the limit");
        let per_io = PerIo { ios: 10, mean_ns: Some(1e5), core_us: Some(50.0) };
        let cpu = |cpu, times, siblings: &[usize]| {
            let idle = Some(vec![Idle { name: "C6".into(), exit_us: 100, times }]);
            Rested { cpu, idle, siblings: Some(siblings.to_vec()) }
        };
        let rested = |cpus: &[Rested]| words(&stats::verdict::rested(cpus, per_io, false));
        assert_eq!(rested(&[cpu(0, 10, &[0])]), "CPUs woke late from idle states");
        let both = [cpu(0, 0, &[0, 1]), cpu(1, 0, &[0, 1])];
        assert_eq!(rested(&both), "threads of one core slow each other");
        let nap = Nap { disk: "nvme0n1".into(), wake_us: Some(9), ..Nap::default() };
        let nap = stats::verdict::naps(&[nap]).unwrap();
        assert_eq!(words(&nap), "a drive napped between I/Os");
        for (unit, offset) in [(512, 0), (4096, 512)] {
            let sectors = Sectors {
                physical_bytes: Some(4096),
                unit_bytes: Some(unit),
                offset_bytes: Some(offset),
                ..Sectors::default()
            };
            let check = stats::verdict::whole_sectors(&[sectors]).unwrap();
            assert_eq!(words(&check), "parts of physical blocks were written");
        }
        let file = stats::verdict::Opened {
            name: "disk.img".into(),
            asked: false,
            had: false,
            beneath: None,
            cache_growth_bytes: None,
            moved_bytes: None,
        };
        let buffered = stats::verdict::direct_io(&[file], Vec::new());
        assert_eq!(words(&buffered), "through the page cache");
        let to = stats::verdict::FlushedTo::Turns;
        let flushed = stats::verdict::Flushed { name: "sda".into(), to, took_ns: Some(20_000) };
        let flushed = stats::verdict::flushed(&[flushed]).unwrap();
        assert_eq!(words(&flushed), "flushes end sooner than a medium writes");
    }

    #[test]
    fn one_line_says_the_number_its_class_and_why() {
        let mut result = sample::race();
        let line = |result: &RunResult| headline(result, Paint::PLAIN);
        assert_eq!(line(&result), "3.41M IOPS measured, indicative: loopback, no wire (H19)");
        let file = "file:a: O_DIRECT bypasses nothing, the file is in memory (tmpfs)";
        result.set_check(check("H01", Verdict::Warn, file));
        assert_eq!(line(&result), "3.41M IOPS measured, indicative: memory below the file (H01)");
        result.set_check(check("H05", Verdict::Fail, "a read returned other data"));
        assert_eq!(line(&result), "3.41M IOPS measured, invalid: wrong data (H05)");
        let text = headline(&result, Paint::COLOR);
        assert!(text.contains("\x1b[31minvalid: wrong data (H05)\x1b[0m"), "{text:?}");
        // From an earlier layout: all checks that were made passed, but some were not made.
        result.schema_version = 2;
        result.checks = vec![check("H06", Verdict::Pass, "")];
        result.class = result.judged();
        let said = line(&result);
        assert!(said.starts_with("3.41M IOPS measured, indicative: not checked: H10, "), "{said}");
        result.totals.seconds = 0.2;
        let said = line(&result);
        assert!(said.starts_with("3.41M IOPS measured in 0.20 s, indicative: "), "{said}");
        result.origin = Origin::Simulated;
        assert_eq!(line(&result), "3.41M IOPS simulated, indicative");
    }

    #[test]
    fn every_check_has_words_of_its_own() {
        let mut weighed = WEIGHT;
        weighed.sort_unstable();
        assert_eq!(weighed, stats::verdict::ALL.map(|listed| listed.code));
        let all = WEIGHT.iter().flat_map(|code| [(code, Verdict::Fail), (code, Verdict::Warn)]);
        for (code, verdict) in all {
            assert!(short(code, verdict).is_some() || *code == "H05", "{code} {verdict:?}");
            assert!(!words(&check(code, verdict, "")).is_empty());
        }
        assert_eq!(words(&check("H99", Verdict::Warn, "")), "some-name");
        assert_eq!(words(&check("H20", Verdict::Unknown, "one run: at least 5")), "measured once");
    }
}
