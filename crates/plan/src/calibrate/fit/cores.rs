//! CPU time of an I/O, from runs that measured it.

use std::collections::BTreeMap;

use model::ModelError;
use model::fit::{Parameter, least_squares};

use super::super::{Fitted, Point};
use catalogue::Kind;

/// CPU time of an I/O in seconds, linear in its size.
#[derive(Clone)]
pub(super) struct Cores {
    /// CPU time of a read command.
    pub read_s: f64,
    /// CPU time of a write command.
    pub write_s: f64,
    /// CPU time of each byte.
    pub per_byte_s: f64,
    /// Times of the runs with their intervals.
    pub fitted: Vec<Fitted>,
}

/// Minimum ratio of the rates of two equally busy runs of the same kind for cores to spin, and
/// minimum ratio of their busy cores.
const FASTER: f64 = 1.5;
const AS_BUSY: f64 = 0.9;

/// Returns whether cores are as busy at a much higher rate of the same I/Os: they spin while they
/// wait, and their time does not show the CPU time of an I/O.
fn spin(points: &[&Point]) -> bool {
    let alike = |a: &Point, b: &Point| {
        (a.size_bytes, a.read_share.to_bits(), a.cores, a.drives)
            == (b.size_bytes, b.read_share.to_bits(), b.cores, b.drives)
    };
    let busy = |point: &Point| point.core_s.map(|core_s| core_s * point.iops);
    let spins = |slow: &Point, fast: &Point| match (busy(slow), busy(fast)) {
        (Some(one), Some(other)) => fast.iops > FASTER * slow.iops && one > AS_BUSY * other,
        _ => false,
    };
    points.iter().any(|slow| points.iter().any(|fast| alike(slow, fast) && spins(slow, fast)))
}

/// Returns the CPU time of an I/O. For each kind of I/O the run with the lowest CPU time counts,
/// which waits least; `None` if CPU time or the number of cores was not recorded, or if cores spin.
pub(super) fn cores(points: &[&Point]) -> Result<Option<Cores>, ModelError> {
    let mut least: BTreeMap<(u32, u64), (f64, f64)> = BTreeMap::new();
    for point in points {
        let Some(core_s) = point.core_s else { continue };
        let kind = (point.size_bytes, point.read_share.to_bits());
        let entry = least.entry(kind).or_insert((core_s, point.read_share));
        entry.0 = entry.0.min(core_s);
    }
    if least.is_empty() || points.iter().any(|point| point.cores == 0) || spin(points) {
        return Ok(None);
    }
    let rows: Vec<(f64, f64, f64)> = least
        .iter()
        .map(|((size, _), (core_s, read))| (f64::from(*size), *read, *core_s))
        .collect();
    let mean = rows.iter().map(|row| row.2).sum::<f64>() / rows.len() as f64;
    let shortest = rows.iter().map(|row| row.0).fold(f64::INFINITY, f64::min);
    let free = |name: &str, start: f64, high: f64| Parameter {
        name: name.to_owned(),
        start,
        low: 0.0,
        high,
        prior: None,
    };
    let both = rows.iter().any(|row| row.1 != rows[0].1);
    let sizes = rows.iter().any(|row| row.0 != rows[0].0);
    let mut parameters = vec![free("core", mean, mean * 20.0)];
    if both {
        parameters.push(free("core of a write", mean, mean * 20.0));
    }
    if sizes {
        parameters.push(free("core of a byte", 0.1 * mean / shortest, 10.0 * mean / shortest));
    }
    let (write, byte) = (usize::from(both), parameters.len() - 1);
    let per_byte = |p: &[f64]| if sizes { p[byte] } else { 0.0 };
    let fit = least_squares(&parameters, |p, out| {
        out.extend(rows.iter().map(|(size, share, core_s)| {
            (share * p[0] + (1.0 - share) * p[write] + per_byte(p) * size) / core_s - 1.0
        }));
    })?;
    let told = |name, at: usize| Fitted {
        name,
        value: fit.values[at],
        kind: Kind::Fit,
        // With as many parameters as kinds of I/O there is no residual, so no interval.
        interval: fit.errors[at].is_finite().then_some(fit.intervals[at]),
        prior: None,
    };
    let mut fitted = vec![told("processor.read.each_s", 0), told("processor.write.each_s", write)];
    if sizes {
        fitted.push(told("processor.per_byte_s", byte));
    }
    let (read_s, write_s) = (fit.values[0], fit.values[write]);
    Ok(Some(Cores { read_s, write_s, per_byte_s: per_byte(&fit.values), fitted }))
}
