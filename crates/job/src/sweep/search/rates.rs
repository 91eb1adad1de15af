//! Rates of one search: the next runs, and the result.

use std::collections::BTreeMap;

use stats::sweep::{Cell, CellRun, Found, Held, Setting, Shows};

use super::curve::{Curve, Tried};
use super::{Known, STEP, Wanted, evidence, with, words_of};

/// Marker for "beyond the highest rate", in percent of it.
const BEYOND: u32 = 100 + STEP;
/// Minimum share of a planned rate for it to be achieved.
const KEPT: f64 = 0.98;
/// Number of standard deviations of independent arrivals below the plan that are still that rate.
const DEVIATIONS: f64 = 4.0;
/// Maximum number of runs for one end of the interval: if a p99 hardly depends on the rate, no
/// number of runs finds an end.
const MOST: u32 = 48;
/// Minimum share of agreeing runs at a rate; with less, another rate is tried.
const AGREED: f64 = 0.75;

/// I/Os of a run that has a p99, plus a fifth, as independent arrivals vary.
const ENOUGH_SAMPLES: f64 = 12_000.0;

/// Next step of a search.
pub(super) enum Next {
    /// Runs to make.
    Runs(Vec<Wanted>),
    /// End of the search: the answer is between these shares of the highest rate, in percent; 0 and
    /// [`BEYOND`] if there is no such end.
    Done((u32, u32)),
}

/// End of the interval.
enum End {
    /// Share at which the end is.
    At(u32),
    /// Runs that are needed to find the end.
    Wants(Wanted),
}

/// Rates of one search.
pub(super) struct Rates<'a> {
    known: &'a Known<'a>,
    settings: &'a [Setting],
    ns: u64,
    /// Cells of planned rates, by their share of the highest.
    cells: BTreeMap<u32, &'a Cell>,
}

impl<'a> Rates<'a> {
    pub(super) fn new(known: &'a Known<'a>, settings: &'a [Setting], ns: u64) -> Rates<'a> {
        let cell = |share: u32| {
            let settings = with(settings.to_vec(), format!("{share}%"));
            Some((share, *known.cells.get(&words_of(&settings))?))
        };
        let cells = (STEP..=100).step_by(STEP as usize).filter_map(cell).collect();
        Rates { known, settings, ns, cells }
    }

    pub(super) fn next(&self) -> Next {
        let (good, bad) = match self.look() {
            Ok(edges) => edges,
            Err(share) => return Next::Runs(vec![Wanted { share, repeats: 1, shows: None }]),
        };
        let mut wanted = Vec::new();
        let mut end = |shows, edge| match self.end(shows, edge) {
            End::At(share) => share,
            End::Wants(runs) => {
                wanted.push(runs);
                edge
            }
        };
        let ends = (end(Shows::Holds, good), end(Shows::Misses, bad));
        if wanted.is_empty() { Next::Done(ends) } else { Next::Runs(wanted) }
    }

    /// Halves the interval by the first run of each rate. Returns the highest share that met the
    /// bound and the lowest that did not, or as an error the share to try.
    fn look(&self) -> Result<(u32, u32), u32> {
        let (mut good, mut bad) = (0, BEYOND);
        while bad - good > STEP {
            let share = (good + bad) / 2 / STEP * STEP;
            let cell = self.cells.get(&share).ok_or(share)?;
            let first = cell.runs.iter().find(|run| run.repeat == 1).ok_or(share)?;
            if self.keeps(cell, first) { good = share } else { bad = share }
        }
        Ok((good, bad))
    }

    /// Returns the end of the interval determined by the repeats, or the runs still needed; `edge`
    /// is the end found by halving.
    fn end(&self, shows: Shows, edge: u32) -> End {
        let none = if shows == Shows::Holds { 0 } else { BEYOND };
        if edge == none {
            return End::At(none);
        }
        let mut cells: Vec<(u32, &Cell)> =
            self.cells.iter().map(|(at, cell)| (*at, *cell)).collect();
        cells.retain(|(_, cell)| cell.shows == Some(shows));
        if shows == Shows::Misses {
            cells.reverse();
        }
        let wants = |share, repeats| End::Wants(Wanted { share, repeats, shows: Some(shows) });
        let Some((furthest, cell)) = cells.first() else {
            return wants(edge, 1 + self.known.deciding());
        };
        if let Some((share, cell)) = cells.iter().find(|(_, cell)| is_short(cell)) {
            return wants(*share, cell.repeats);
        }
        let agreed = |(share, cell): &(u32, &Cell)| {
            let Held { runs, of } = self.held(deciding(cell), cell);
            (*share, if shows == Shows::Holds { runs } else { of - runs }, of)
        };
        let rates: Vec<(u32, u32, u32)> = cells.iter().map(agreed).collect();
        if let Some(share) = evidence::decided(&rates) {
            return End::At(share);
        }
        let all: u32 = rates.iter().map(|rate| rate.2).sum();
        if all >= MOST {
            return End::At(none);
        }
        let (_, agreed, of) = rates[0];
        let mixed = of - agreed >= 2 && f64::from(agreed) < AGREED * f64::from(of);
        match self.beyond(shows, *furthest).filter(|_| mixed) {
            Some(share) => wants(share, 1 + self.known.deciding()),
            None => wants(*furthest, cell.runs.len() as u32 + 2),
        }
    }

    /// Returns a share further out, at which six of seven runs are likely to agree.
    fn beyond(&self, shows: Shows, share: u32) -> Option<u32> {
        let curve = Curve::through(&self.tried());
        let (middle, reach) = (curve.middle(), curve.reach());
        // Shares are whole steps.
        let step = |share: f64| (share.max(0.0) / f64::from(STEP)) as u32 * STEP;
        match shows {
            Shows::Holds if share > self.least() => {
                Some(step(middle - reach).clamp(self.least(), share - STEP))
            }
            Shows::Misses if share < 100 => {
                Some((step(middle + reach) + STEP).clamp(share + STEP, 100))
            }
            Shows::Holds | Shows::Misses => None,
        }
    }

    /// Returns the lowest share at which a run has enough I/Os for a p99, from the I/Os of runs at
    /// others.
    fn least(&self) -> u32 {
        let runs = self.cells.iter().flat_map(|(share, cell)| {
            cell.runs.iter().map(|run| run.latency_ns.samples as f64 / f64::from(*share))
        });
        let of_a_percent = runs.fold(0.0, f64::max);
        let least = (ENOUGH_SAMPLES / of_a_percent.max(1.0)).ceil().min(f64::from(BEYOND)) as u32;
        least.div_ceil(STEP).max(1) * STEP
    }

    /// Returns the runs of all rates. Runs without a p99 neither meet nor miss the bound.
    fn tried(&self) -> Vec<Tried> {
        let of = |(share, cell): (&u32, &&Cell)| {
            let says = |run: &&CellRun| run.failed.is_some() || run.latency_ns.p99.is_some();
            let Held { runs, of } = self.held(cell.runs.iter().filter(says), cell);
            (*share, runs, of)
        };
        self.cells.iter().map(of).filter(|tried| tried.2 > 0).collect()
    }

    /// Counts the runs of a cell that met the bound.
    fn held<'b>(&self, runs: impl Iterator<Item = &'b CellRun>, cell: &Cell) -> Held {
        let mut held = Held::default();
        for run in runs {
            held.of += 1;
            held.runs += u32::from(self.keeps(cell, run));
        }
        held
    }

    /// Returns whether a run completed, achieved its rate and stayed within the bound. A p99 of too
    /// few samples does not count.
    fn keeps(&self, cell: &Cell, run: &CellRun) -> bool {
        let rate = cell.rate_per_s.unwrap_or(f64::INFINITY);
        let scatter = match self.known.plan.poisson {
            true => DEVIATIONS / (run.latency_ns.samples.max(1) as f64).sqrt(),
            false => 0.0,
        };
        let within = run.latency_ns.p99.is_some_and(|p99| p99 <= self.ns);
        let kept = run.iops >= rate * (KEPT - scatter);
        run.failed.is_none() && run.errors == 0 && kept && within
    }

    pub(super) fn found(&self, (low, high): (u32, u32)) -> Found {
        let tried = self.tried();
        let middle = Curve::through(&tried).middle();
        let middle = middle.clamp(f64::from(low), f64::from(high.min(100)));
        let highest = self.known.highest(self.settings).unwrap_or(0.0);
        let below = self.cells.range(..=middle as u32).next_back().map(|(share, _)| *share);
        let above = self.cells.range(middle as u32 + 1..).next().map(|(share, _)| *share);
        let cell = |share: Option<u32>| share.and_then(|share| self.cells.get(&share).copied());
        let rate = |share| cell(share).and_then(|cell| cell.rate_per_s);
        let held = |share| cell(share).map(|cell| self.held(cell.runs.iter(), cell));
        let few = |run: &CellRun| run.failed.is_none() && run.latency_ns.p99.is_none();
        let few = |share| cell(share).is_some_and(|cell| cell.runs.iter().any(few));
        // Runs without a p99 do not show that it is beyond the bound.
        let high = if few(Some(high)) { BEYOND } else { high };
        let wrong = |is_end: bool| if is_end { 1.0 / evidence::ENOUGH } else { 0.0 };
        Found {
            settings: self.settings.to_vec(),
            // Below the first rate of all no run was made, and a bound that was never met has no
            // rate.
            rate_per_s: (middle >= f64::from(STEP) && tried.iter().any(|tried| tried.1 > 0))
                .then_some(highest * middle / 100.0),
            runs: self.cells.values().map(|cell| cell.runs.len() as u32).sum(),
            held_rate_per_s: rate(below),
            held: held(below),
            p99_ns: cell(below).and_then(median_p99),
            missed_rate_per_s: rate(above),
            missed_held: held(above),
            low_per_s: rate(Some(low)),
            high_per_s: rate(Some(high)),
            confidence: 1.0 - wrong(low > 0) - wrong(high < BEYOND),
            too_short: few(above),
        }
    }
}

/// Returns whether runs of a cell are planned and not made.
fn is_short(cell: &Cell) -> bool {
    (cell.runs.len() as u32) < cell.repeats
}

/// Returns all runs except the first, for which the rate was chosen.
fn deciding(cell: &Cell) -> impl Iterator<Item = &CellRun> {
    cell.runs.iter().filter(|run| run.repeat > 1)
}

/// Returns the median of the runs' p99; of two the higher one. A run without a p99 is above all.
fn median_p99(cell: &Cell) -> Option<u64> {
    let p99 = |run: &CellRun| run.latency_ns.p99.filter(|_| run.failed.is_none());
    let mut all: Vec<u64> = cell.runs.iter().map(|run| p99(run).unwrap_or(u64::MAX)).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().filter(|ns| *ns < u64::MAX)
}
