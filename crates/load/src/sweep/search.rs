//! Searches that plan their cells by what was measured before: a ladder of loads, and the highest
//! rate within a bound of latency.
//!
//! Both begin with the highest rate that a closed loop reaches, the cells `load=max`. Everything
//! after is planned from the document alone, so a search goes on where it was cut.

use std::collections::HashMap;

use stats::sweep::{Cell, Found, Search, Setting, SweepResult};

use super::{Sweep, axis, words_of};

/// The word of what a search sets.
pub(super) const LOAD: &str = "load";
/// Its value for the closed loop.
const TOP: &str = "max";
/// Share of the highest rate between two steps of a ladder, in percent.
const RUNG: u32 = 10;
/// The finest step of the search for a rate, in percent of the highest one.
const STEP: u32 = 2;
/// A planned rate is kept if so much of it was done.
const KEPT: f64 = 0.98;

/// The settings of the closed loop.
pub(super) fn top(settings: Vec<Setting>) -> Vec<Setting> {
    with(settings, TOP.to_owned())
}

/// Whether a cell is the closed loop that a search began with.
pub(super) fn is_top(cell: &Cell) -> bool {
    cell.settings.last().is_some_and(|last| last.word == LOAD && last.value == TOP)
}

/// Adds the cells that follow from what was measured.
pub(super) fn extend(sweep: &mut Sweep) {
    let search = sweep.document.plan.search;
    let known = Known::of(&sweep.document);
    let mut new: Vec<(Vec<Setting>, f64)> = Vec::new();
    for settings in axis::combinations(&sweep.document.plan.axes) {
        let Some(highest) = known.highest(&settings) else { continue };
        let shares: Vec<u32> = match search {
            Search::Nothing => Vec::new(),
            Search::Ladder => (1..=100 / RUNG).map(|step| step * RUNG).collect(),
            Search::P99 { ns } => {
                let (good, bad) = known.bounds(&settings, ns);
                (bad - good > STEP).then(|| (good + bad) / 2 / STEP * STEP).into_iter().collect()
            }
        };
        for share in shares {
            if known.cell(&settings, share).is_none() {
                let rate = highest * f64::from(share) / 100.0;
                new.push((with(settings.clone(), format!("{share}%")), rate));
            }
        }
    }
    new.into_iter().for_each(|(settings, rate)| sweep.add_cell(settings, Some(rate)));
}

/// What a search for a rate came to; nothing as long as it goes on.
pub(super) fn found(document: &SweepResult) -> Vec<Found> {
    let Search::P99 { ns } = document.plan.search else { return Vec::new() };
    let known = Known::of(document);
    let all = axis::combinations(&document.plan.axes);
    let one = |settings: Vec<Setting>| {
        known.highest(&settings)?;
        let (good, bad) = known.bounds(&settings, ns);
        if bad - good > STEP {
            return None;
        }
        let at = |share| known.cell(&settings, share);
        Some(Found {
            rate_per_s: at(good).and_then(|cell| cell.rate_per_s),
            p99_ns: at(good).and_then(|cell| Some(cell.range(|latency| latency.p99)?.1)),
            missed_rate_per_s: at(bad).and_then(|cell| cell.rate_per_s),
            too_short: at(bad)
                .is_some_and(|cell| cell.whole_runs().any(|run| run.latency_ns.p99.is_none())),
            settings,
        })
    };
    all.into_iter().filter_map(one).collect()
}

/// The cells of a search by their settings.
struct Known<'a> {
    cells: HashMap<String, &'a Cell>,
    repeats: usize,
}

impl<'a> Known<'a> {
    fn of(document: &'a SweepResult) -> Known<'a> {
        let cells = document.cells.iter().map(|cell| (words_of(&cell.settings), cell));
        Known { cells: cells.collect(), repeats: document.plan.repeats as usize }
    }

    /// The highest share of the rate that is known to keep the bound, and the lowest that does
    /// not.
    fn bounds(&self, settings: &[Setting], ns: u64) -> (u32, u32) {
        let (mut good, mut bad) = (0, 100 + STEP);
        for share in (STEP..=100).step_by(STEP as usize) {
            let Some(cell) = self.cell(settings, share) else { continue };
            if cell.runs.len() < self.repeats {
                continue;
            }
            match keeps(cell, ns) {
                true => good = good.max(share),
                false => bad = bad.min(share),
            }
        }
        (good.min(bad), bad)
    }

    /// The median of the closed loop's rates.
    fn highest(&self, settings: &[Setting]) -> Option<f64> {
        let cell = self.cells.get(&words_of(&top(settings.to_vec())))?;
        cell.iops.map(|iops| iops.median).filter(|rate| *rate > 0.0)
    }

    fn cell(&self, settings: &[Setting], share: u32) -> Option<&'a Cell> {
        self.cells.get(&words_of(&with(settings.to_vec(), format!("{share}%")))).copied()
    }
}

/// Whether every repeat went through, kept its rate and stayed within the bound. A p99 that rests
/// on too few samples is none.
fn keeps(cell: &Cell, ns: u64) -> bool {
    let rate = cell.rate_per_s.unwrap_or(f64::INFINITY);
    cell.runs.iter().all(|run| {
        let within = run.latency_ns.p99.is_some_and(|p99| p99 <= ns);
        run.failed.is_none() && run.errors == 0 && run.iops >= rate * KEPT && within
    })
}

fn with(mut settings: Vec<Setting>, value: String) -> Vec<Setting> {
    settings.push(Setting { word: LOAD.to_owned(), value });
    settings
}
