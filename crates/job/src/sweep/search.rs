//! Searches that plan their cells from previous results: a ladder of loads, and the highest rate
//! within a bound of latency.
//!
//! Both begin with the highest rate of a closed loop, the cells `load=max`. All later cells are
//! planned from the document alone, so an interrupted search resumes.
//!
//! The search for a rate halves the interval by one run of each rate. Then it gathers [evidence]
//! for both ends of an interval: that at one rate, and below, more than half of all runs meet the
//! bound, and at another one, and above, less than half. If the runs of a rate disagree, rates
//! further out follow. The answer between the ends is that of a [curve] through all runs.

mod curve;
mod evidence;
mod rates;

use std::collections::HashMap;

use stats::sweep::{Cell, Found, Search, Setting, Shows, SweepPlan, SweepResult};

use self::rates::{Next, Rates};
use super::{Sweep, axis, words_of};

/// Name of the setting of a search.
pub(super) const LOAD: &str = "load";
/// Value of the setting for the closed loop.
const TOP: &str = "max";
/// Step of a ladder, in percent of the highest rate.
const RUNG: u32 = 10;
/// Finest step of the search for a rate, in percent of the highest one.
const STEP: u32 = 2;
/// Minimum number of runs that decide about a rate, if all agree.
const DECIDING: u32 = 6;

/// Returns the settings of the closed loop.
pub(super) fn top(settings: Vec<Setting>) -> Vec<Setting> {
    with(settings, TOP.to_owned())
}

/// Returns whether a cell is the closed loop with which a search began.
pub(super) fn is_top(cell: &Cell) -> bool {
    cell.settings.last().is_some_and(|last| last.word == LOAD && last.value == TOP)
}

/// Adds the cells and runs that follow from the results.
pub(super) fn extend(sweep: &mut Sweep) {
    let known = Known::of(&sweep.document);
    let mut new: Vec<(Vec<Setting>, Wanted, f64)> = Vec::new();
    for settings in axis::combinations(&sweep.document.plan.axes) {
        let Some(highest) = known.highest(&settings) else { continue };
        let wanted: Vec<Wanted> = match sweep.document.plan.search {
            Search::Nothing => Vec::new(),
            Search::Ladder => {
                let repeats = known.plan.repeats;
                let rung = |step| Wanted { share: step * RUNG, repeats, shows: None };
                (1..=100 / RUNG).map(rung).collect()
            }
            Search::P99 { ns } => match Rates::new(&known, &settings, ns).next() {
                Next::Runs(wanted) => wanted,
                Next::Done(_) => Vec::new(),
            },
        };
        for wanted in wanted {
            let settings = with(settings.clone(), format!("{}%", wanted.share));
            let rate = highest * f64::from(wanted.share) / 100.0;
            new.push((settings, wanted, rate));
        }
    }
    for (settings, wanted, rate) in new {
        let words = words_of(&settings);
        let place = sweep.document.cells.iter().position(|c| words_of(&c.settings) == words);
        let place = place.unwrap_or_else(|| {
            sweep.add_cell(settings, Some(rate));
            sweep.document.cells.len() - 1
        });
        let cell = &mut sweep.document.cells[place];
        cell.repeats = wanted.repeats;
        cell.shows = cell.shows.or(wanted.shows);
    }
}

/// Runs to make.
struct Wanted {
    /// Share of the highest rate, in percent.
    share: u32,
    /// Number of runs at that share in total.
    repeats: u32,
    /// End of the interval that the runs are evidence for.
    shows: Option<Shows>,
}

/// Returns the results of a search for a rate; none until it ends.
pub(super) fn found(document: &SweepResult) -> Vec<Found> {
    let Search::P99 { ns } = document.plan.search else { return Vec::new() };
    let known = Known::of(document);
    let all = axis::combinations(&document.plan.axes);
    let one = |settings: Vec<Setting>| {
        known.highest(&settings)?;
        let rates = Rates::new(&known, &settings, ns);
        let Next::Done(answer) = rates.next() else { return None };
        Some(rates.found(answer))
    };
    all.into_iter().filter_map(one).collect()
}

/// Cells of a search by their settings.
struct Known<'a> {
    cells: HashMap<String, &'a Cell>,
    plan: &'a SweepPlan,
}

impl<'a> Known<'a> {
    fn of(document: &'a SweepResult) -> Known<'a> {
        let cells = document.cells.iter().map(|cell| (words_of(&cell.settings), cell));
        Known { cells: cells.collect(), plan: &document.plan }
    }

    /// Returns the median of the closed loop's rates.
    fn highest(&self, settings: &[Setting]) -> Option<f64> {
        let cell = self.cells.get(&words_of(&top(settings.to_vec())))?;
        cell.iops.map(|iops| iops.median).filter(|rate| *rate > 0.0)
    }

    /// Returns the number of runs that decide about a rate.
    fn deciding(&self) -> u32 {
        self.plan.repeats.max(DECIDING)
    }
}

fn with(mut settings: Vec<Setting>, value: String) -> Vec<Setting> {
    settings.push(Setting { word: LOAD.to_owned(), value });
    settings
}
