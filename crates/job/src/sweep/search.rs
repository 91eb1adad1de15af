//! Searches that plan their cells by what was measured before: a ladder of loads, and the highest
//! rate within a bound of latency.
//!
//! Both begin with the highest rate that a closed loop reaches, the cells `load=max`. Everything
//! after is planned from the document alone, so a search goes on where it was cut.
//!
//! The search for a rate halves the interval by one run of each rate. A run that showed the way
//! says too much: the rate it led to was chosen for it. So the two rates at the end, neighbours,
//! each have [`DECIDING`] runs more, in turns, and only these decide. If they do not say what led
//! there, the search goes on from what they say. Where they are not of one mind, rates further
//! out have as many, until all of them held below and none above: the interval of the answer.

use std::collections::{BTreeMap, HashMap};

use stats::sweep::{Cell, CellRun, Found, Held, Search, Setting, SweepPlan, SweepResult};

use super::{Sweep, axis, words_of};

/// The word of what a search sets.
pub(super) const LOAD: &str = "load";
/// Its value for the closed loop.
const TOP: &str = "max";
/// Share of the highest rate between two steps of a ladder, in percent.
const RUNG: u32 = 10;
/// The finest step of the search for a rate, in percent of the highest one.
const STEP: u32 = 2;
/// What stands for "beyond the highest rate", in percent of it.
const BEYOND: u32 = 100 + STEP;
/// A planned rate is kept if this share of it was done.
const KEPT: f64 = 0.98;
/// Independent arrivals scatter: so many deviations below the plan are still that rate.
const DEVIATIONS: f64 = 4.0;
/// Fewest runs that decide about a rate. All five say what less than half of all would say one
/// time in 32: at both ends of an interval that leaves 94 %.
const DECIDING: u32 = 5;

/// The settings of the closed loop.
pub(super) fn top(settings: Vec<Setting>) -> Vec<Setting> {
    with(settings, TOP.to_owned())
}

/// Whether a cell is the closed loop that a search began with.
pub(super) fn is_top(cell: &Cell) -> bool {
    cell.settings.last().is_some_and(|last| last.word == LOAD && last.value == TOP)
}

/// Adds the cells and runs that follow from what was measured.
pub(super) fn extend(sweep: &mut Sweep) {
    let known = Known::of(&sweep.document);
    let mut new: Vec<(Vec<Setting>, u32, f64)> = Vec::new();
    for settings in axis::combinations(&sweep.document.plan.axes) {
        let Some(highest) = known.highest(&settings) else { continue };
        let wanted: Vec<(u32, u32)> = match sweep.document.plan.search {
            Search::Nothing => Vec::new(),
            Search::Ladder => {
                (1..=100 / RUNG).map(|step| (step * RUNG, known.plan.repeats)).collect()
            }
            Search::P99 { ns } => match Rates::new(&known, &settings, ns).next() {
                Next::Look(share) => vec![(share, 1)],
                Next::Decide(shares) => {
                    shares.into_iter().map(|share| (share, 1 + known.deciding())).collect()
                }
                Next::Done(_) => Vec::new(),
            },
        };
        for (share, repeats) in wanted {
            let settings = with(settings.clone(), format!("{share}%"));
            new.push((settings, repeats, highest * f64::from(share) / 100.0));
        }
    }
    for (settings, repeats, rate) in new {
        let words = words_of(&settings);
        let place = sweep.document.cells.iter().position(|c| words_of(&c.settings) == words);
        let place = place.unwrap_or_else(|| {
            sweep.add_cell(settings, Some(rate));
            sweep.document.cells.len() - 1
        });
        sweep.document.cells[place].repeats = repeats;
    }
}

/// What a search for a rate came to; nothing as long as it goes on.
pub(super) fn found(document: &SweepResult) -> Vec<Found> {
    let Search::P99 { ns } = document.plan.search else { return Vec::new() };
    let known = Known::of(document);
    let all = axis::combinations(&document.plan.axes);
    let one = |settings: Vec<Setting>| {
        known.highest(&settings)?;
        let rates = Rates::new(&known, &settings, ns);
        let Next::Done(answer) = rates.next() else { return None };
        Some(rates.found(&answer))
    };
    all.into_iter().filter_map(one).collect()
}

/// The cells of a search by their settings.
struct Known<'a> {
    cells: HashMap<String, &'a Cell>,
    plan: &'a SweepPlan,
}

impl<'a> Known<'a> {
    fn of(document: &'a SweepResult) -> Known<'a> {
        let cells = document.cells.iter().map(|cell| (words_of(&cell.settings), cell));
        Known { cells: cells.collect(), plan: &document.plan }
    }

    /// The median of the closed loop's rates.
    fn highest(&self, settings: &[Setting]) -> Option<f64> {
        let cell = self.cells.get(&words_of(&top(settings.to_vec())))?;
        cell.iops.map(|iops| iops.median).filter(|rate| *rate > 0.0)
    }

    /// Runs that decide about a rate.
    fn deciding(&self) -> u32 {
        self.plan.repeats.max(DECIDING)
    }
}

/// What a search does next.
enum Next {
    /// One run at this share of the highest rate, to see where to go.
    Look(u32),
    /// Runs at these shares that decide.
    Decide(Vec<u32>),
    /// Nothing more.
    Done(Answer),
}

/// What a search came to, in percent of the highest rate; 0 and [`BEYOND`] where there is no such
/// rate.
struct Answer {
    /// The highest that holds, and the lowest that does not.
    edges: (u32, u32),
    /// The next below at which all runs held, and the next above at which none did.
    interval: (u32, u32),
}

/// The rates of one search.
struct Rates<'a> {
    known: &'a Known<'a>,
    settings: &'a [Setting],
    ns: u64,
    /// Those that were planned, by their share of the highest.
    cells: BTreeMap<u32, &'a Cell>,
}

impl<'a> Rates<'a> {
    fn new(known: &'a Known<'a>, settings: &'a [Setting], ns: u64) -> Rates<'a> {
        let cell = |share: u32| {
            let settings = with(settings.to_vec(), format!("{share}%"));
            Some((share, *known.cells.get(&words_of(&settings))?))
        };
        let cells = (STEP..=100).step_by(STEP as usize).filter_map(cell).collect();
        Rates { known, settings, ns, cells }
    }

    fn next(&self) -> Next {
        let (good, bad) = self.edges();
        if bad - good > STEP {
            return Next::Look((good + bad) / 2 / STEP * STEP);
        }
        let undecided = |share: &u32| (STEP..=100).contains(share) && !self.is_decided(*share);
        let edges: Vec<u32> = [good, bad].into_iter().filter(undecided).collect();
        if !edges.is_empty() {
            return Next::Decide(edges);
        }
        match (self.all_held_from(good), self.none_held_from(bad)) {
            (Ok(low), Ok(high)) => Next::Done(Answer { edges: (good, bad), interval: (low, high) }),
            (low, high) => Next::Decide(low.err().into_iter().chain(high.err()).collect()),
        }
    }

    /// The highest share that holds with nothing below it that does not, and the lowest that does
    /// not.
    fn edges(&self) -> (u32, u32) {
        let shares = || (STEP..=100).step_by(STEP as usize);
        let bad = shares().find(|share| self.holds(*share) == Some(false)).unwrap_or(BEYOND);
        let good = shares().filter(|share| *share < bad && self.holds(*share) == Some(true));
        (good.max().unwrap_or(0), bad)
    }

    /// The next share from `good` down at which all deciding runs held, or the one to try.
    fn all_held_from(&self, good: u32) -> Result<u32, u32> {
        let unanimous = |share: &u32| self.said(*share).is_some_and(|held| held.runs == held.of);
        let mut below = (STEP..=good).rev().step_by(STEP as usize);
        if let Some(share) = below.find(unanimous) {
            return Ok(share);
        }
        let further = distances().map(|far| good.saturating_sub(far).max(STEP));
        let mut further = further.filter(|share| good > 0 && !self.is_decided(*share));
        further.next().map_or(Ok(0), Err)
    }

    /// The next share from `bad` up at which no deciding run held, or the one to try.
    fn none_held_from(&self, bad: u32) -> Result<u32, u32> {
        let unanimous = |share: &u32| self.said(*share).is_some_and(|held| held.runs == 0);
        let mut above = (bad..=100).step_by(STEP as usize);
        if let Some(share) = above.find(unanimous) {
            return Ok(share);
        }
        let further = distances().map(|far| (bad + far).min(100));
        let mut further = further.filter(|share| bad <= 100 && !self.is_decided(*share));
        further.next().map_or(Ok(BEYOND), Err)
    }

    /// Whether a rate keeps the bound: by the runs that decide, else by the first one.
    fn holds(&self, share: u32) -> Option<bool> {
        let cell = self.cell(share)?;
        if (cell.runs.len() as u32) < cell.repeats {
            return None;
        }
        match self.said(share) {
            Some(held) => Some(held.holds()),
            None => cell.runs.first().map(|run| self.keeps(cell, run)),
        }
    }

    fn is_decided(&self, share: u32) -> bool {
        self.said(share).is_some()
    }

    /// What the deciding runs of a rate say, once all are there.
    fn said(&self, share: u32) -> Option<Held> {
        let cell = self.cell(share)?;
        let of = deciding(cell).count() as u32;
        let runs = deciding(cell).filter(|run| self.keeps(cell, run)).count() as u32;
        (of >= self.known.deciding()).then_some(Held { runs, of })
    }

    /// Whether a run went through, kept its rate and stayed within the bound. A p99 that rests on
    /// too few samples is none.
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

    fn cell(&self, share: u32) -> Option<&'a Cell> {
        self.cells.get(&share).copied()
    }

    fn found(&self, answer: &Answer) -> Found {
        let ((good, bad), (low, high)) = (answer.edges, answer.interval);
        let rate = |share| self.cell(share).and_then(|cell| cell.rate_per_s);
        let wrong = |share| match self.said(share) {
            Some(held) => 0.5_f64.powi(held.of as i32),
            None => 0.0,
        };
        let few = |run: &CellRun| run.failed.is_none() && run.latency_ns.p99.is_none();
        let few = |share| self.cell(share).is_some_and(|cell| deciding(cell).any(few));
        // Runs without a p99 do not say that it is beyond the bound.
        let high = if few(high) { BEYOND } else { high };
        Found {
            settings: self.settings.to_vec(),
            rate_per_s: rate(good),
            held: self.said(good),
            p99_ns: self.cell(good).and_then(median_p99),
            missed_rate_per_s: rate(bad),
            missed_held: self.said(bad),
            low_per_s: rate(low),
            high_per_s: rate(high),
            confidence: 1.0 - wrong(low) - wrong(high),
            too_short: few(bad),
        }
    }
}

/// How far from an edge rates are tried, in percent of the highest: a step, then twice as far.
fn distances() -> impl Iterator<Item = u32> {
    (0..).map(|power| STEP << power).take_while(|far| *far < 2 * BEYOND)
}

/// All runs but the first, for which the rate was chosen.
fn deciding(cell: &Cell) -> impl Iterator<Item = &CellRun> {
    cell.runs.iter().filter(|run| run.repeat > 1)
}

/// The middle of the deciding runs' p99; of two the higher one. One that has none is beyond all.
fn median_p99(cell: &Cell) -> Option<u64> {
    let p99 = |run: &CellRun| run.latency_ns.p99.filter(|_| run.failed.is_none());
    let mut all: Vec<u64> = deciding(cell).map(|run| p99(run).unwrap_or(u64::MAX)).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().filter(|ns| *ns < u64::MAX)
}

fn with(mut settings: Vec<Setting>, value: String) -> Vec<Setting> {
    settings.push(Setting { word: LOAD.to_owned(), value });
    settings
}
