//! Knee of a series: the load from which on more load adds more latency than rate.

use std::collections::HashMap;

use stats::Drift;
use stats::ratio;
use stats::sweep::{Cell, CellRun, Knee, Scale, Search, Series, Setting, SweepResult, quantity};

use super::{search, settings, words_of};

/// Minimum number of loads for a knee.
const FEWEST: usize = 3;

/// Returns the series of a sweep along its axis of load, if it has one.
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

/// A load: its size, its value on the axis, and its cell.
type Load<'a> = (f64, &'a str, &'a Cell);

/// Returns the measured loads of a series, in ascending order.
fn loads<'a>(cells: &[&'a Cell], load: &str) -> Vec<Load<'a>> {
    let one = |cell: &&'a Cell| {
        let setting = cell.settings.iter().find(|setting| setting.word == load)?;
        cell.iops.map(|_| (size_of(&setting.value), setting.value.as_str(), *cell))
    };
    let mut loads: Vec<Load> = cells.iter().filter_map(one).collect();
    loads.sort_by(|a, b| a.0.total_cmp(&b.0));
    loads
}

/// Returns the cell with the highest power; among equal ones that with the lowest load.
fn knee(cells: &[&Cell], load: &str) -> Option<Knee> {
    let powers = |cell: &Cell| -> Vec<f64> { cell.whole_runs().filter_map(power).collect() };
    let each = loads(cells, load).into_iter().filter_map(|(_, value, cell)| {
        let powers = powers(cell);
        Some((value, cell, ratio::mean(&powers)?, powers))
    });
    let points: Vec<(&str, &Cell, f64, Vec<f64>)> = each.collect();
    if points.len() < FEWEST {
        return None;
    }
    let higher = |best: usize, i: usize| if points[i].2 > points[best].2 { i } else { best };
    let best = (1..points.len()).fold(0, higher);
    let all: Vec<&[f64]> = points.iter().map(|point| &point.3[..]).collect();
    let among = not_beaten(&all).map(|kept| -> Vec<String> {
        let named = points.iter().zip(kept).filter(|(_, kept)| *kept);
        named.map(|(point, _)| point.0.to_owned()).collect()
    });
    let number = |value: &str| quantity(load, value).map(|it| it.number);
    let among_numbers = among.as_ref().and_then(|all| all.iter().map(|it| number(it)).collect());
    let (value, cell, ..) = &points[best];
    Some(Knee {
        value: (*value).to_owned(),
        number: number(value),
        iops: cell.iops?.median,
        mean_ns: cell.mean_ns()?,
        at_end: best + 1 == points.len(),
        at_start: best == 0,
        among,
        among_numbers,
    })
}

/// Returns the rate divided by the mean latency of one run.
fn power(run: &CellRun) -> Option<f64> {
    let mean_ns = run.latency_ns.mean.filter(|mean_ns| *mean_ns > 0.0)?;
    Some(run.iops / mean_ns).filter(|power| *power > 0.0)
}

/// Returns for each load whether it may be the best: no other one beats it, at a level at which the
/// best one is beaten by any of the others in one of twenty sweeps (Bonferroni). `None` if one has
/// too few runs.
fn not_beaten(powers: &[&[f64]]) -> Option<Vec<bool>> {
    let level = 2.0 * BEATEN / (powers.len() - 1) as f64;
    // Each round of a sweep measures all loads: drift is part of their noise.
    let none = Drift::none();
    let beats = |a: &[f64], b: &[f64]| -> Option<bool> {
        let found = ratio::ratio(b, a, 0.0, &none)?;
        Some(found.value > 1.0 && found.sure?.chance < level)
    };
    let may_be = |one: &&[f64]| -> Option<bool> {
        let mut by_any = false;
        for other in powers.iter().filter(|other| !std::ptr::eq(**other, *one)) {
            by_any |= beats(other, one)?;
        }
        Some(!by_any)
    };
    powers.iter().map(may_be).collect()
}

/// Share of sweeps in which the best load may be left out.
const BEATEN: f64 = 0.05;

/// Returns the rates relative to that of the lowest value.
fn scaling(cells: &[&Cell], load: &str) -> Vec<Scale> {
    let loads = loads(cells, load);
    let rates = |cell: &Cell| -> Vec<f64> { cell.whole_runs().map(|run| run.iops).collect() };
    let Some((fewest, _, first)) = loads.first() else { return Vec::new() };
    if *fewest <= 0.0 {
        return Vec::new();
    }
    let first = rates(first);
    let scale = |(count, value, cell): &Load| {
        let found = ratio::ratio(&first, &rates(cell), 0.0, &Drift::none())?;
        // The ratio of the first to itself is 1.
        let range = match count == fewest {
            true => Some([1.0, 1.0]),
            false => found.sure.map(|sure| sure.range),
        };
        let (times, value) = (found.value, (*value).to_owned());
        let number = quantity(load, &value).map(|it| it.number);
        Some(Scale { value, number, times, range, share: times * fewest / count })
    };
    loads.iter().filter_map(scale).collect()
}

/// Returns the load of a value, for sorting.
fn size_of(value: &str) -> f64 {
    let plain = value.trim_end_matches('%');
    let rate = || match plain.parse() {
        Ok(crate::spec::Rate::Ios(rate) | crate::spec::Rate::Bytes(rate)) => Some(rate),
        Err(_) => None,
    };
    plain.parse().ok().or_else(rate).unwrap_or(0.0)
}

#[cfg(test)]
mod test {
    use block::Rng;
    use stats::{Latency, Spread};

    use super::*;

    /// Returns rates of a closed network of stations with these service times, by mean value
    /// analysis (M. Reiser, S. Lavenberg, 1980).
    fn rates(stations: &[f64], most: u32) -> Vec<f64> {
        let mut queues = vec![0.0; stations.len()];
        let mut at = |load: u32| {
            let times: Vec<f64> =
                stations.iter().zip(&queues).map(|(s, q)| s * (1.0 + q)).collect();
            let rate = f64::from(load) / times.iter().sum::<f64>();
            queues = times.iter().map(|time| rate * time).collect();
            rate
        };
        (1..=most).map(&mut at).collect()
    }

    /// Measures three runs of each load, with noise, and returns the knee.
    fn measured(rng: &mut Rng, stations: &[f64], loads: &[u32], noise: f64) -> Knee {
        let rates = rates(stations, 128);
        let mut run = |load: u32| {
            let normal = (0..12).map(|_| rng.uniform()).sum::<f64>() - 6.0;
            let iops = rates[load as usize - 1] * (noise * normal).exp();
            let mean = Some(f64::from(load) / iops * 1e9);
            let latency_ns = Latency { mean, ..Latency::default() };
            CellRun { iops, latency_ns, ..CellRun::default() }
        };
        let mut cell = |load: &u32| {
            let runs: Vec<CellRun> = (0..3).map(|_| run(*load)).collect();
            let setting = Setting { word: "outstanding".to_owned(), value: load.to_string() };
            let iops = Spread::of(runs.iter().map(|run| run.iops));
            Cell { settings: vec![setting], runs, iops, ..Cell::default() }
        };
        let cells: Vec<Cell> = loads.iter().map(&mut cell).collect();
        knee(&cells.iter().collect::<Vec<_>>(), "outstanding").unwrap()
    }

    #[test]
    fn the_loads_that_are_not_told_apart_hold_the_right_one() {
        const SWEEPS: usize = 200;
        let mut rng = Rng::new(2, 0);
        let even: Vec<u32> = (1..=16).collect();
        let doubled = [1, 2, 4, 8, 16, 32, 64];
        for (stations, loads, right) in [
            (&[1.0, 1.0, 1.0, 1.0], &doubled[..], "4"),
            (&[1.0, 1.0, 1.0, 1.0], &even[..], "4"),
            (&[1.0, 2.0, 3.0, 2.0], &even[..], "3"),
        ] {
            for noise in [0.01, 0.03] {
                let (mut holds, mut alone, mut size) = (0, 0, 0);
                for _ in 0..SWEEPS {
                    let knee = measured(&mut rng, stations, loads, noise);
                    let among = knee.among.unwrap();
                    assert!(among.contains(&knee.value), "{among:?}");
                    holds += usize::from(among.iter().any(|value| value == right));
                    alone += usize::from(knee.value == right);
                    size += among.len();
                }
                let [holds, alone, size] = [holds, alone, size].map(|n| n as f64 / SWEEPS as f64);
                println!(
                    "{right} of {loads:?} ± {noise}: {holds} held, {alone} best, {size} loads"
                );
                assert!(holds >= 0.93, "{right} of {loads:?} ± {noise}: {holds}");
            }
        }
    }

    #[test]
    fn a_knee_at_the_first_load_is_told() {
        let knee = measured(&mut Rng::new(4, 0), &[1.0], &[1, 2, 4, 8], 0.01);
        assert_eq!((&*knee.value, knee.at_start, knee.at_end), ("1", true, false));
    }
}
