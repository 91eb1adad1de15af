//! H06: a rate has settled, in total and for each volume and worker.

use super::course::{Course, deviation, ends, windows};
use crate::interval::per;
use crate::run::Second;
use crate::verdict::{Check, Verdict};

/// Windows of the steady-state rule.
const WINDOWS: usize = 5;
/// Maximum range of the windows, as a share of their mean.
const STEADY_RANGE: f64 = 0.20;
/// Maximum rise or fall of the best-fit line through the windows, as a share of their mean.
const STEADY_SLOPE: f64 = 0.10;
/// Range and rise of one-second windows that chance exceeds once in 10,000 runs: 32 % and 28 %. The
/// rule is made for windows of a minute. Seconds of honest storage on a busy host have a standard
/// deviation of 5 % of their mean, so windows of few seconds may differ by chance. The limits
/// decrease with the square root of the windows' length.
const CHANCE: [f64; 2] = [0.32, 0.28];
/// Maximum standard deviation of single seconds, as a share of their mean. If every other two
/// seconds are throttled to half it is 33 %, and one second of ten without an I/O causes as much.
const SECONDS_DEVIATION: f64 = 0.25;
/// Rise of the mean latency from window to window, as a share of itself, from which on a queue
/// builds up.
const LATENCY_RISE: f64 = 0.50;
/// Minimum share of its plan that an open loop must reach.
const PLAN_SHARE: f64 = 0.99;
/// Maximum late start of its workers, in seconds.
const BEGIN_S: f64 = 0.02;
/// Number of square roots of a count of independent I/Os that chance does not exceed.
const ROOTS: f64 = 4.0;
/// Maximum difference between windows of one worker or volume, as a share of their mean, and
/// maximum standard deviation of its seconds: a rate that is steady in total may be shared in
/// turns.
const PART: [f64; 2] = [1.0, 0.5];
/// Minimum number of I/Os in a window, or a second; with fewer, chance alone makes a part unsteady.
const PART_IOS: f64 = 200.0;
/// Usual number of I/Os per second from which on a second without one is no chance.
const SECOND_IOS: f64 = 20.0;
/// Minimum length of a run, in seconds; a shorter one says nothing about a lasting rate.
const LEAST_SECONDS: f64 = 1.0;

/// Input of H06.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steadiness<'a> {
    /// Seconds of the measured window, or longer stretches of it.
    pub seconds: &'a [Second],
    /// Rates of volumes and workers that do the same work all the time.
    pub parts: &'a [Course],
    /// Number of other workers and volumes, with a plan of their own: nothing is known about their
    /// rates.
    pub others: u32,
    /// Planned load.
    pub plan: Plan,
    /// Times at which workers begin or end by the plan of the job, in seconds since the window
    /// began.
    pub changes_s: &'a [f64],
}

/// Planned load per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Plan {
    /// Closed loop: I/Os start when others complete.
    #[default]
    Closed,
    /// Open loop at a constant rate, in I/Os per second.
    Iops(f64),
    /// Open loop in part, at a rate that varies.
    Varies,
}

/// Something that is not steady, and the options of the next run that settle it.
type Finding = (String, &'static str);

/// H06: the rate has settled, by the rule of the SNIA performance test specification: cut into five
/// windows, the rates differ by at most 20 % of their mean, and the best-fit line through them
/// rises or falls by at most 10 %. If five does not divide the number of seconds, the first ones
/// are left out.
///
/// A rate may be settled by that rule and yet be the mean of two rates: single seconds, the
/// latency, the plan of an open loop, every volume and every worker are checked, too.
///
/// If workers begin or end by plan, the longest stretch between two such times is judged.
pub fn steady_state(run: &Steadiness<'_>) -> Check {
    let Some((stretch, [from_s, to_s])) = longest_stretch(run) else { return judge(run) };
    let mut check = judge(&Steadiness { seconds: &stretch, changes_s: &[], ..*run });
    let words = format!("from {from_s:.0} to {to_s:.0} s, between starts and ends of workers: ");
    check.evidence.insert_str(0, &words);
    check
}

/// Returns the seconds of the longest stretch in which no worker begins or ends by plan, with times
/// relative to its beginning; `None` if no worker does.
fn longest_stretch(run: &Steadiness<'_>) -> Option<(Vec<Second>, [f64; 2])> {
    let end_s = run.seconds.last()?.t;
    let within = run.changes_s.iter().copied().filter(|at_s| *at_s > 0.0 && *at_s < end_s);
    let mut edges: Vec<f64> = within.chain([0.0, end_s]).collect();
    edges.sort_by(f64::total_cmp);
    if edges.len() == 2 {
        return None;
    }
    let length = |pair: &&[f64]| pair[1] - pair[0];
    let longest = edges.windows(2).max_by(|a, b| length(a).total_cmp(&length(b)))?;
    let (from_s, to_s) = (longest[0], longest[1]);
    let begins = [0.0].into_iter().chain(run.seconds.iter().map(|second| second.t));
    let inside = begins
        .zip(run.seconds)
        .filter(|(begin_s, second)| *begin_s >= from_s - EDGE_S && second.t <= to_s + EDGE_S);
    let stretch = inside.map(|(_, second)| Second { t: second.t - from_s, ..*second });
    Some((stretch.collect(), [from_s, to_s]))
}

/// Tolerance of a second's end, in seconds.
const EDGE_S: f64 = 0.1;

fn judge(run: &Steadiness<'_>) -> Check {
    let check = |verdict, evidence: String| Check::new("H06", "steady-state", verdict, evidence);
    let rates = course(run.seconds, |second| second.iops);
    if !rates.is_empty() && rates.iter().all(|(_, iops)| *iops <= 0.0) {
        return check(Verdict::Warn, "no I/O completed".to_owned())
            .mend("--seconds 60 (an I/O may take longer than the run did)");
    }
    let rule = Rule::of(&rates);
    let settled = rule.as_ref().is_none_or(|rule| rule.settled);
    let mut findings: Vec<Finding> = [
        too_short(&rates),
        nothing_in(&rates),
        uneven_seconds(&rates).filter(|_| settled),
        rising_latency(run.seconds).filter(|_| settled),
        behind_plan(run, &rates),
    ]
    .into_iter()
    .flatten()
    .collect();
    if settled && findings.is_empty() {
        findings.extend(unsteady_part(run.parts));
    }
    let steady = settled && findings.is_empty();
    let unheld = unheld(run);
    let verdict = match (steady, &rule) {
        (false, _) => Verdict::Warn,
        (true, Some(_)) if unheld.is_empty() => Verdict::Pass,
        (true, _) => Verdict::Unknown,
    };
    let by_rule = match &rule {
        Some(rule) if steady => format!("{}; {}", rule.words(), rule.sees()),
        Some(rule) => rule.words(),
        None => {
            let ran = run.seconds.len();
            format!("{WINDOWS} windows need at least {WINDOWS} s, and the run had {ran} s")
        }
    };
    let word = match (steady, &rule) {
        (false, _) => "not steady: ",
        (true, Some(_)) => "steady: ",
        (true, None) => "",
    };
    let drifts = (!settled).then_some(
        "--ramp 60 --seconds 60 (drift that remains is that of \
        the storage)",
    );
    let mends = findings.iter().map(|(_, mend)| *mend).chain(drifts);
    let words = findings.iter().map(|(words, _)| &**words).chain([&*by_rule]);
    let words: Vec<&str> = words.chain(unheld.iter().map(|words| &**words)).collect();
    mends.fold(check(verdict, format!("{word}{}", words.join("; "))), Check::mend)
}

/// Returns a figure of each row with the row's end, in seconds of the time in which I/Os could
/// happen, so that lengths are those of the rows.
fn course(seconds: &[Second], of: impl Fn(&Second) -> f64) -> Vec<(f64, f64)> {
    let (mut from_s, mut to_s) = (0.0, 0.0);
    let row = |second: &Second| {
        let apart_s = second.t - std::mem::replace(&mut from_s, second.t);
        to_s += if second.seconds > 0.0 { second.seconds } else { apart_s };
        (to_s, of(second))
    };
    seconds.iter().map(row).collect()
}

/// Returns the facts that are not judged, because the expected value is unknown.
fn unheld(run: &Steadiness<'_>) -> Vec<String> {
    let varies = (run.plan == Plan::Varies)
        .then(|| "its plan is not one rate: it is not known whether it was met".to_owned());
    let others = (run.others > 0).then(|| {
        let words = "workers or volumes have different plans: their rates are not examined";
        format!("{} {words}", run.others)
    });
    varies.into_iter().chain(others).collect()
}

/// Results of the five-window rule.
struct Rule {
    range: f64,
    slope: f64,
    /// Maximum of each.
    limits: [f64; 2],
    width_s: f64,
    /// Linear drift over all of the windows, as a share of the mean, that is detected in four of
    /// five runs.
    visible: f64,
    settled: bool,
}

impl Rule {
    fn of(rates: &[(f64, f64)]) -> Option<Rule> {
        let windows = windows::<WINDOWS>(rates)?;
        let width_s = windows[0].1;
        let windows = windows.map(|(rate, _)| rate);
        let mean = windows.iter().sum::<f64>() / WINDOWS as f64;
        if mean <= 0.0 {
            return None;
        }
        let (least, most) = ends(&windows);
        let (range, slope) = ((most - least) / mean, drift(&windows) / mean);
        let by_chance = CHANCE.map(|chance| chance / width_s.max(1.0).sqrt());
        let straight = slope.abs() > STEADY_SLOPE && is_straight(rates);
        let slope_limit = if straight { STEADY_SLOPE } else { STEADY_SLOPE.max(by_chance[1]) };
        let limits = [STEADY_RANGE.max(by_chance[0]), slope_limit];
        let settled = range <= limits[0] && slope.abs() <= limits[1];
        let visible = visible(&windows, rates, limits);
        Some(Rule { range, slope, limits, width_s, visible, settled })
    }

    fn sees(&self) -> String {
        let percent = self.visible * 100.0;
        format!(
            "a drift of {percent:.0} % from start to end would be detected in four of five runs"
        )
    }

    fn words(&self) -> String {
        let [range, slope] = self.limits.map(|limit| limit * 100.0);
        format!(
            "range {:.1} % (at most {range:.0}), slope {:+.1} % (at most {slope:.0}) over \
             {WINDOWS} windows of {:.0} s",
            self.range * 100.0,
            self.slope * 100.0,
            self.width_s,
        )
    }
}

/// Returns the linear drift from the first second to the last, as a share of the mean, that exceeds
/// the limits in four of five runs whose windows deviate from their line as these do.
fn visible(windows: &[f64; WINDOWS], rates: &[(f64, f64)], limits: [f64; 2]) -> f64 {
    // The centres of the first and the last window are four fifths of the length apart.
    const SEEN: f64 = 0.8;
    /// Standard deviations that a normal distribution exceeds in one of five cases.
    const ONE_OF_FIVE: f64 = 0.84;
    let mean = windows.iter().sum::<f64>() / WINDOWS as f64;
    let middle = (WINDOWS - 1) as f64 / 2.0;
    let step = drift(windows) / (WINDOWS - 1) as f64;
    let off = |(i, rate): (usize, &f64)| (rate - mean - step * (i as f64 - middle)).powi(2);
    let by_windows = windows.iter().enumerate().map(off).sum::<f64>() / (WINDOWS - 2) as f64;
    // Three numbers are few: the seconds are a better estimate of independent noise.
    let (level, spread) = deviation(rates);
    let each = (rates.len() / WINDOWS).max(1) as f64;
    let by_seconds = (spread * level).powi(2) / each;
    let scatter = by_windows.max(by_seconds).sqrt() / mean;
    // Standard deviation of the rise of the line through five windows, from first to last.
    let slope = limits[1] + ONE_OF_FIVE * scatter * (1.6_f64).sqrt();
    slope / SEEN
}

/// Returns whether single seconds are so close to a line that it is no chance: its slope is many
/// times the error that their residuals allow.
fn is_straight(rates: &[(f64, f64)]) -> bool {
    let free = rates.len() as f64 - 2.0;
    if free < 1.0 {
        return false;
    }
    let count = rates.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| rates.iter().map(of).sum::<f64>() / count;
    let (middle, level) = (mean(|rate| rate.0), mean(|rate| rate.1));
    let below: f64 = rates.iter().map(|(t, _)| (t - middle).powi(2)).sum();
    let above: f64 = rates.iter().map(|(t, iops)| (t - middle) * (iops - level)).sum();
    let slope = above / below;
    let off = |(t, iops): &(f64, f64)| (iops - level - slope * (t - middle)).powi(2);
    let error = (rates.iter().map(off).sum::<f64>() / free / below).sqrt();
    // Few seconds are on a line by chance more often.
    slope.abs() > (6.0 + 40.0 / free) * error
}

fn too_short(rates: &[(f64, f64)]) -> Option<Finding> {
    let ran_s = rates.last()?.0;
    let words = format!("measured for {ran_s:.2} s, too short for a steady state");
    (ran_s < LEAST_SECONDS).then_some((words, "--seconds 10"))
}

/// Returns the length of each stretch, and its rate.
fn lasted(rates: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + '_ {
    let mut from_s = 0.0;
    rates.iter().map(move |(t, iops)| (t - std::mem::replace(&mut from_s, *t), *iops))
}

fn nothing_in(rates: &[(f64, f64)]) -> Option<Finding> {
    let all_s = rates.last()?.0;
    let ios: f64 = lasted(rates).map(|(length_s, iops)| length_s * iops).sum();
    let empty = lasted(rates).filter(|(length_s, iops)| *iops <= 0.0 && *length_s >= 0.5);
    let empty_s: f64 = empty.map(|(length_s, _)| length_s).sum();
    if empty_s == 0.0 || per(ios, all_s) < SECOND_IOS {
        return None;
    }
    let words = format!("no completion in {empty_s:.0} of {all_s:.0} s");
    Some((words, "--json-lines - (shows which seconds)"))
}

fn uneven_seconds(rates: &[(f64, f64)]) -> Option<Finding> {
    let all_s = rates.last().filter(|_| rates.len() >= WINDOWS)?.0;
    let (mean, spread) = deviation(rates);
    let by_chance = 2.0 / (mean * all_s / rates.len() as f64).max(1e-9).sqrt();
    if spread <= SECONDS_DEVIATION + by_chance {
        return None;
    }
    let each: Vec<f64> = rates.iter().map(|(_, iops)| *iops).collect();
    let (least, most) = ends(&each);
    let words = format!(
        "single seconds are between {least:.0} and {most:.0} IOPS, their deviation is {:.0} % of \
        the mean (at most 25): throttled at intervals?",
        spread * 100.0
    );
    Some((words, "--json-lines - (shows which seconds)"))
}

fn rising_latency(seconds: &[Second]) -> Option<Finding> {
    // IOPS, and the total time of the I/Os of a second: their ratio is the mean latency.
    let busy = |second: &Second| second.iops * second.mean_ns.unwrap_or(0.0);
    let took = windows::<WINDOWS>(&course(seconds, busy))?;
    let done = windows::<WINDOWS>(&course(seconds, |second| second.iops))?;
    if done.iter().any(|(iops, length_s)| iops * length_s < PART_IOS) {
        return None;
    }
    let means: [f64; WINDOWS] = std::array::from_fn(|at| took[at].0 / done[at].0);
    let mean = means.iter().sum::<f64>() / WINDOWS as f64;
    let rise = drift(&means) / mean;
    if rise <= LATENCY_RISE || means.windows(2).any(|pair| pair[1] <= pair[0]) {
        return None;
    }
    let words = format!(
        "the mean latency grows from window to window, from {:.1} to {:.1} µs: the queue grows, so \
         a longer run shows a longer latency",
        means[0] / 1e3,
        means[WINDOWS - 1] / 1e3,
    );
    Some((words, "a --rate below the completed one"))
}

fn behind_plan(run: &Steadiness<'_>, rates: &[(f64, f64)]) -> Option<Finding> {
    let Plan::Iops(planned) = run.plan else { return None };
    let all_s = rates.last()?.0;
    let done: f64 = lasted(rates).map(|(length_s, iops)| length_s * iops).sum();
    // I/Os in flight without queueing complete after the end.
    let quick = run.seconds.iter().filter_map(|second| second.mean_ns);
    let quick_s = quick.reduce(f64::min).unwrap_or(0.0) / 1e9;
    let due = planned * (all_s - quick_s - BEGIN_S).max(0.0);
    if done >= due * PLAN_SHARE || due - done <= ROOTS * due.sqrt() {
        return None;
    }
    let words = format!(
        "{:.0} of {planned:.0} planned IOPS completed, {:.1} % (at least 99): the storage cannot \
        sustain this rate, and the queue grows",
        done / all_s,
        done / all_s / planned * 100.0,
    );
    Some((words, "a --rate below the completed one"))
}

/// Returns the worst of the unsteady parts, if the total is steady.
fn unsteady_part(parts: &[Course]) -> Option<Finding> {
    let judged = parts.iter().filter_map(|part| Some((part, unsteady(part)?)));
    let unsteady: Vec<(&Course, f64)> = judged.collect();
    let (worst, _) = unsteady.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let rates: Vec<f64> = worst.rates.iter().map(|(_, iops)| *iops).collect();
    let (least, most) = ends(&rates);
    let more = match unsteady.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more like it"),
    };
    let words = format!(
        "steady in total only: {} varied between {least:.0} and {most:.0} IOPS{more}",
        worst.name
    );
    Some((words, "run each of them separately"))
}

/// Returns the deviation of a part from steady, if it is too great.
fn unsteady(part: &Course) -> Option<f64> {
    let windows = windows::<WINDOWS>(&part.rates)?;
    let all_s = part.rates.last()?.0;
    let (mean, spread) = deviation(&part.rates);
    let each: Vec<f64> = windows.iter().map(|(rate, _)| *rate).collect();
    let (least, most) = ends(&each);
    let range = per(most - least, mean);
    let many = |length_s: f64| mean * length_s >= PART_IOS;
    let by_windows = range > PART[0] && many(windows[0].1);
    let by_seconds = spread > PART[1] && many(all_s / part.rates.len() as f64);
    (by_windows || by_seconds).then(|| (range / PART[0]).max(spread / PART[1]))
}

/// Returns the rise of the least-squares line through equally spaced values, from first to last.
fn drift(values: &[f64; WINDOWS]) -> f64 {
    let middle = (WINDOWS - 1) as f64 / 2.0;
    let mean = values.iter().sum::<f64>() / WINDOWS as f64;
    let at = |i: usize| i as f64 - middle;
    let above: f64 = values.iter().enumerate().map(|(i, y)| at(i) * (y - mean)).sum();
    let below: f64 = (0..WINDOWS).map(|i| at(i) * at(i)).sum();
    above / below * (WINDOWS - 1) as f64
}

#[cfg(test)]
mod test;
