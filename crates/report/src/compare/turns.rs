//! Order of the runs of two sides, by start time: drift separates sides that were measured one
//! after the other, but not rounds with both sides.

use serde::Serialize;
use stats::{Drift, Origin, RunResult};

/// Order in which the runs of both sides followed each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Turns {
    /// Rounds: one run of each side, then another one of each.
    Rounds,
    /// Mixed, but not in rounds.
    Mixed,
    /// Blocks: a side was over before the other began.
    Apart,
    /// Simulated runs: no drift.
    Simulated,
    /// Unknown order.
    #[default]
    Unknown,
}

impl Turns {
    /// Says which data the intervals of this number of runs are from.
    pub(super) fn words(self, a: usize, b: usize) -> Vec<String> {
        let runs = format!("{a} and {b} runs");
        let of = |how: &str| format!("{runs}{how}: geometric means, 95 % intervals of their ratio");
        let allowed = "the intervals allow for a host that changes slowly between runs; in turns, \
                       by drumfire compare --run, smaller changes show";
        let lines = match self {
            Turns::Rounds => {
                let how = "geometric means, 95 % intervals of the mean ratio of a round";
                return vec![format!("{a} rounds, a run of each side in turn: {how}")];
            }
            Turns::Simulated => return vec![of("")],
            Turns::Mixed => [of(" in mixed order"), allowed.to_owned()],
            Turns::Apart => [of(", one side after the other"), allowed.to_owned()],
            Turns::Unknown => [of(", in an order that is not known"), allowed.to_owned()],
        };
        lines.to_vec()
    }
}

/// Returns the order of the runs, and its effect on noise.
pub(super) fn of(a: &[RunResult], b: &[RunResult]) -> (Turns, Drift) {
    if a.iter().chain(b).all(|run| run.origin == Origin::Simulated) {
        return (Turns::Simulated, Drift::none());
    }
    let (Some(a_s), Some(b_s)) = (starts(a), starts(b)) else {
        return (Turns::Unknown, unknown(a.len(), b.len()));
    };
    let (turns, drift) = match () {
        () if are_rounds(&a_s, &b_s) => (Turns::Rounds, Drift::of_rounds(&a_s, &b_s)),
        () if are_apart(&a_s, &b_s) => (Turns::Apart, Drift::of_sides(&a_s, &b_s)),
        () => (Turns::Mixed, Drift::of_sides(&a_s, &b_s)),
    };
    (turns, drift)
}

/// The runs of a side in the order of time.
pub(super) fn in_order(runs: &[RunResult]) -> Vec<&RunResult> {
    let mut runs: Vec<&RunResult> = runs.iter().collect();
    runs.sort_by_key(|run| start(run));
    runs
}

fn start(run: &RunResult) -> Option<jiff::Timestamp> {
    run.started.parse().ok()
}

/// Seconds at which runs began, in order. `None` where one does not say it, or several say the
/// same.
fn starts(runs: &[RunResult]) -> Option<Vec<f64>> {
    let each = in_order(runs).into_iter().map(|run| Some(start(run)?.as_nanosecond() as f64 / 1e9));
    let each: Vec<f64> = each.collect::<Option<_>>()?;
    each.windows(2).all(|pair| pair[0] < pair[1]).then_some(each)
}

/// Runs of which nothing is known but their order: a side follows the other one after long.
fn unknown(a: usize, b: usize) -> Drift {
    const LONG: usize = 1_000_000;
    let each = |from: usize, runs: usize| (from..from + runs).map(|i| i as f64).collect::<Vec<_>>();
    Drift::of_sides(&each(0, a), &each(LONG, b))
}

/// Tells whether each round, in the order of time, has one run of each side.
fn are_rounds(a_s: &[f64], b_s: &[f64]) -> bool {
    let follows = |round: &[[f64; 2]]| {
        let [[a, b], [c, d]] = [round[0], round[1]];
        a.max(b) < c.min(d)
    };
    let rounds: Vec<[f64; 2]> = a_s.iter().zip(b_s).map(|(a, b)| [*a, *b]).collect();
    a_s.len() == b_s.len() && rounds.len() > 1 && rounds.windows(2).all(follows)
}

fn are_apart(a_s: &[f64], b_s: &[f64]) -> bool {
    let before = |one: &[f64], other: &[f64]| one.last() < other.first();
    before(a_s, b_s) || before(b_s, a_s)
}

#[cfg(test)]
mod test {
    use super::*;

    /// Runs that began in these seconds of a minute.
    fn runs(seconds: &[u32]) -> Vec<RunResult> {
        let run = |second: &u32| RunResult {
            started: format!("2026-11-20T08:00:{second:02}Z"),
            ..RunResult::default()
        };
        seconds.iter().map(run).collect()
    }

    fn turns(a: &[u32], b: &[u32]) -> Turns {
        of(&runs(a), &runs(b)).0
    }

    #[test]
    fn the_order_of_runs_is_seen() {
        assert_eq!(turns(&[0, 1, 2], &[3, 4, 5]), Turns::Apart);
        assert_eq!(turns(&[3, 4, 5], &[0, 1, 2]), Turns::Apart);
        assert_eq!(turns(&[0, 2, 4], &[1, 3, 5]), Turns::Rounds);
        // A-B-B-A, and the order of a resumed sweep.
        assert_eq!(turns(&[0, 3, 4], &[1, 2, 5]), Turns::Rounds);
        assert_eq!(turns(&[4, 0, 3], &[2, 5, 1]), Turns::Rounds);
        assert_eq!(turns(&[0, 1, 5], &[2, 3, 4]), Turns::Mixed);
        assert_eq!(turns(&[0, 2, 4], &[1, 3]), Turns::Mixed);
        assert_eq!(turns(&[7, 7, 7], &[8, 9, 10]), Turns::Unknown);
        let mut odd = runs(&[0, 1, 2]);
        odd[1].started.clear();
        assert_eq!(of(&odd, &runs(&[3, 4, 5])).0, Turns::Unknown);
    }

    #[test]
    fn simulated_runs_have_no_time() {
        let of = |seconds: &[u32]| {
            let mut runs = runs(seconds);
            runs.iter_mut().for_each(|run| run.origin = Origin::Simulated);
            runs
        };
        let (turns, drift) = super::of(&of(&[1, 1, 1]), &of(&[1, 1, 1]));
        assert_eq!((turns, drift), (Turns::Simulated, Drift::none()));
    }
}
