//! The verdicts that the checks of a result must give, where the truth is certain.

use block::Op;
use stats::{Class, RunResult, Verdict};

use super::compare::Differences;
use super::script::Script;
use super::situation::{PACES, SERVICES, Situation};
use super::truth::{Fact, Fate, Truth};

/// Enough samples for p99.
const SAMPLES: u64 = 10_000;
/// Length in nanoseconds that the steady-state check needs.
const STEADY_NS: u64 = 5_000_000_000;

/// I/Os below this many nanoseconds complete many times a second.
const SHORT: f64 = 20e6;

/// Checks the verdicts and the class of a result against the truth.
pub(super) fn judge(
    situation: &Situation,
    script: &Script,
    truth: &Truth,
    told: &RunResult,
    found: &mut Differences,
) {
    let verdict = |code: &str| told.checks.iter().find(|c| c.code == code).map(|c| c.verdict);
    let mut never = |code: &str, wrong: Verdict, why: &str| {
        if verdict(code) == Some(wrong) {
            found.say(format!("{code} says {}, and {why}", wrong.word()));
        }
    };
    let all = 0..truth.facts.len();
    let (figures, _) = truth.figures(all, (truth.begin, truth.end), |_| true);
    let ended = figures.ios + figures.errors;
    never("H11", Verdict::Fail, "I/Os are counted for as long as they are in flight");
    // Late I/Os, and those without a completion, have latencies, too.
    let flushes = |fact: &&Fact| fact.op == Op::Flush && fact.fate != Fate::Failed;
    let flushes = truth.facts.iter().flatten().filter(flushes).count() as u64;
    if figures.latencies.count() < SAMPLES && flushes == 0 {
        never("H12", Verdict::Pass, "there are too few samples for p99");
    }
    if figures.errors > 0 {
        never("H21", Verdict::Pass, "I/Os failed");
        never("H21", Verdict::Unknown, "I/Os failed");
    } else {
        never("H21", Verdict::Fail, "none failed");
    }
    if ended > 0 && figures.errors * 100 > ended {
        never("H21", Verdict::Warn, "more than one of a hundred failed");
    }
    if ended == 0 {
        never("H21", Verdict::Pass, "none ended");
    }
    if truth.end - truth.begin >= STEADY_NS && silent_for_a_third(truth) {
        never("H06", Verdict::Pass, "nothing was done for a third of the window");
    }
    if PACES[situation.pace as usize] != "closed" && overloaded(truth) {
        never("H09", Verdict::Pass, "most I/Os began after half of them should have been done");
    }
    if situation.verify > 0 {
        let data = told.checks.iter().find(|check| check.code == "H05").map(|check| check.verdict);
        let failed = data == Some(Verdict::Fail);
        found.equal("that a read returned other data", failed, truth.lied.is_some());
    }
    starved(situation, truth, told, found);
    class(truth, told, found);
    dead_lanes(situation, script, truth, told, found);
    if is_plain(situation) && script.service < SHORT && figures.ios > 0 {
        no_alarm(told, found);
    }
}

/// Checks that a starved worker is reported among workers with the same load.
fn starved(situation: &Situation, truth: &Truth, told: &RunResult, found: &mut Differences) {
    let own_plans = (situation.limit, situation.delay, situation.length, situation.pause);
    let equal = own_plans == (0, 0, 0, 0) && (situation.warm, situation.skew) == (0, 1);
    let (window, long) = ((truth.begin, truth.end), truth.end - truth.begin);
    if !equal || PACES[situation.pace as usize] != "closed" || long < 1_000_000_000 {
        return;
    }
    let done = |worker: usize| truth.figures(worker..worker + 1, window, |_| true).0.ios;
    let done: Vec<u64> = (0..truth.facts.len()).map(done).collect();
    let starves = done.contains(&0) && done.iter().any(|ios| *ios >= 100);
    let even = told.checks.iter().find(|check| check.code == "H22").map(|check| check.verdict);
    if starves && !matches!(even, Some(Verdict::Warn | Verdict::Fail)) {
        found.say(format!("H22 says {even:?}, and of {done:?} I/Os one worker has none"));
    }
}

/// Checks the class, which follows from the verdicts. Virtual time has no host and no ceiling to
/// check, so nothing is publishable.
fn class(truth: &Truth, told: &RunResult, found: &mut Differences) {
    let failed = told.checks.iter().any(|check| check.verdict == Verdict::Fail);
    let class = if failed { Class::Invalid } else { Class::Indicative };
    found.equal("the class", told.class, class);
    let silent = truth.figures(0..truth.facts.len(), (truth.begin, truth.end), |_| true);
    let partial = truth.lost.is_some() || truth.stopped || silent.0.waiting.0 > 0;
    found.equal("that it is not the whole run", told.partial.is_some(), partial);
}

/// No result with a volume dead for a third of the time passes every check.
fn dead_lanes(
    situation: &Situation,
    script: &Script,
    truth: &Truth,
    told: &RunResult,
    found: &mut Differences,
) {
    let driven = (situation.volumes.min(situation.workers)) as usize;
    let (begin, end) = (truth.begin, truth.end);
    let dead = (0..driven).find(|volume| script.was_dead_for_a_third(*volume, begin, end));
    let all_pass = told.checks.iter().all(|check| !check.verdict.is_against());
    if let (Some(volume), true) = (dead, all_pass) {
        found.say(format!("all checks pass, and volume {volume} was dead for a third of the time"));
    }
}

/// Whether no I/O completed in a contiguous third of the window.
fn silent_for_a_third(truth: &Truth) -> bool {
    let (begin, end) = (truth.begin, truth.end);
    let ends = truth.facts.iter().flatten().map(|fact| fact.end);
    let mut ends: Vec<u64> = ends.filter(|at| (begin..end).contains(at)).collect();
    ends.extend([begin, end]);
    ends.sort_unstable();
    ends.windows(2).any(|pair| pair[1] - pair[0] > (end - begin) / 3)
}

/// Whether half of the completed I/Os had queued for as long as they took.
fn overloaded(truth: &Truth) -> bool {
    let (begin, end) = (truth.begin, truth.end);
    let done = truth
        .facts
        .iter()
        .flatten()
        .filter(|fact| fact.fate == Fate::Done && (begin..end).contains(&fact.end));
    let late = |fact: &&Fact| {
        fact.given.is_some_and(|given| given - fact.start > (fact.end - fact.start) / 2)
    };
    done.clone().filter(late).count() * 2 > done.count()
}

/// Whether there are no mishaps, and all I/Os take the same time.
fn is_plain(situation: &Situation) -> bool {
    situation.mishaps.is_empty()
        && SERVICES[situation.service as usize] == "fixed"
        && PACES[situation.pace as usize] == "closed"
        && (situation.limit, situation.stop, situation.delay, situation.length) == (0, 0, 0, 0)
        && (situation.warm, situation.refill, situation.pause, situation.skew) == (0, 0, 0, 1)
        // A worker of a busy volume may get fewer turns than another, but not a tenth fewer.
        && situation.ios >= 1500
}

/// Checks that an honest result raises no alarms except for few samples, or a short run.
fn no_alarm(told: &RunResult, found: &mut Differences) {
    let alarms = told.checks.iter().filter(|check| {
        let few = check.code == "H12" && !told.totals.latency_ns.supports(0.99);
        let short = check.code == "H06" && told.totals.seconds < 1.0;
        !few && !short && matches!(check.verdict, Verdict::Warn | Verdict::Fail)
    });
    for alarm in alarms {
        found
            .say(format!("{} raises an alarm where there is none: {}", alarm.code, alarm.evidence));
    }
}
