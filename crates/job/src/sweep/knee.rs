//! Where more load begins to buy more latency than rate.

use std::collections::HashMap;

use stats::Spread;
use stats::sweep::{Cell, Knee, Scale, Search, Series, Setting, SweepResult};

use super::{search, settings, words_of};

/// Fewest loads that can have a bend between them.
const FEWEST: usize = 3;

/// The series of a sweep along its axis of load, if it has one.
pub(super) fn series(document: &SweepResult) -> Vec<Series> {
    let axes = document.plan.axes.iter().filter(|axis| axis.values.len() >= FEWEST);
    let load = match document.plan.search {
        Search::Ladder => Some(search::LOAD),
        Search::P99 { .. } => None,
        Search::Nothing => {
            axes.map(|axis| axis.word.as_str()).find(|word| settings::LOADS.contains(word))
        }
    };
    let Some(load) = load else { return Vec::new() };
    let mut all: Vec<(Vec<Setting>, Vec<&Cell>)> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for cell in document.cells.iter().filter(|cell| !search::is_top(cell)) {
        let others: Vec<Setting> =
            cell.settings.iter().filter(|setting| setting.word != load).cloned().collect();
        let place = *places.entry(words_of(&others)).or_insert(all.len());
        if place == all.len() {
            all.push((others, Vec::new()));
        }
        all[place].1.push(cell);
    }
    let one = |(settings, cells): (Vec<Setting>, Vec<&Cell>)| Series {
        settings,
        axis: load.to_owned(),
        points: cells.len(),
        knee: knee(&cells, load),
        scaling: if settings::COUNTS.contains(&load) { scaling(&cells, load) } else { Vec::new() },
    };
    all.into_iter().map(one).collect()
}

/// The cell with the highest power, the least load of equals.
fn knee(cells: &[&Cell], load: &str) -> Option<Knee> {
    let point = |cell: &&Cell| {
        let (iops, mean_ns) = (cell.iops?.median, cell.mean_ns()?);
        let value = &cell.settings.iter().find(|setting| setting.word == load)?.value;
        (mean_ns > 0.0).then(|| (size_of(value), value.clone(), iops, mean_ns))
    };
    let mut points: Vec<(f64, String, f64, f64)> = cells.iter().filter_map(point).collect();
    if points.len() < FEWEST {
        return None;
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let power = |index: usize| points[index].2 / points[index].3;
    let best = (1..points.len()).fold(0, |best, i| if power(i) > power(best) { i } else { best });
    let (_, value, iops, mean_ns) = points[best].clone();
    Some(Knee { value, iops, mean_ns, at_end: best + 1 == points.len() })
}

/// The rates beside that of the fewest.
fn scaling(cells: &[&Cell], load: &str) -> Vec<Scale> {
    let point = |cell: &&Cell| {
        let value = &cell.settings.iter().find(|setting| setting.word == load)?.value;
        Some((size_of(value), value.clone(), cell.iops?))
    };
    let mut points: Vec<(f64, String, Spread)> = cells.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((fewest, _, first)) = points.first().cloned() else { return Vec::new() };
    if fewest <= 0.0 || first.low <= 0.0 {
        return Vec::new();
    }
    let scale = |(count, value, iops): (f64, String, Spread)| {
        let times = iops.median / first.median;
        // The first beside itself is itself.
        let range = match count == fewest {
            true => [1.0, 1.0],
            false => [iops.low / first.high, iops.high / first.low],
        };
        Scale { value, times, range, share: times * fewest / count }
    };
    points.into_iter().map(scale).collect()
}

/// The load that a value says, to sort by.
fn size_of(value: &str) -> f64 {
    let plain = value.trim_end_matches('%');
    let rate = || match plain.parse() {
        Ok(crate::spec::Rate::Ios(rate) | crate::spec::Rate::Bytes(rate)) => Some(rate),
        Err(_) => None,
    };
    plain.parse().ok().or_else(rate).unwrap_or(0.0)
}
