//! The fit: a profile of four stages, its times by bounded least squares, its width by trial.

use std::collections::{BTreeMap, BTreeSet};

use model::device::{Calibration, Profile, Scatter, Width};
use model::fit::{Fit, least_squares};
use model::{Method, ModelError, solve};

use super::{CalibrateError, Calibrated, Fitted, POINTS_MAX, POINTS_MIN, Point, Row};
use crate::simulate::PROCESSOR;
use crate::verify::Tag;
use catalogue::{Kind, Part};

mod cores;
mod shape;

use shape::Shape;

/// Expected relative error of a measured point: residuals are in units of it, so that points and
/// priors have the right weights.
const NOISE: f64 = 0.02;
/// Maximum ratio of the residual variances for a structure to replace another.
const BETTER: f64 = 0.9;
/// Maximum relative difference of repeats.
const UNEQUAL: f64 = 0.10;
/// Widths of a medium to try first; then those between the neighbours of the best.
const WIDTHS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// Maximum excess of the sum of squares of a width over the minimum, in units of the noise: the 95
/// % point of chi square with one degree of freedom.
const AS_GOOD: f64 = 3.84;
/// Number of Erlang stages from which on times count as fixed.
const STAGES_MAX: f64 = 200.0;

/// Fits a profile called `name` to points. Every third point is held out to estimate the error; the
/// profile is then fitted to all. If `part` is known, its intervals are the prior.
///
/// # Errors
///
/// [`CalibrateError::Points`] when the points are too few, too many, of different storage or
/// origin, or all alike.
pub fn calibrate(
    name: &str,
    source: &str,
    points: &[Point],
    part: Option<&Part>,
) -> Result<Calibrated, CalibrateError> {
    belong_together(points)?;
    let mut points = points.to_vec();
    points.sort_by(|a, b| {
        let key = |p: &Point| (p.drives, p.cores, p.size_bytes, p.outstanding);
        key(a).cmp(&key(b)).then(a.read_share.total_cmp(&b.read_share))
    });
    repeats(&mut points);
    let (held, fitted): (Vec<_>, Vec<_>) =
        points.iter().enumerate().partition(|(index, _)| index % 3 == 1);
    let fitted: Vec<&Point> = fitted.into_iter().map(|(_, point)| point).collect();
    let (shape, best) = explain(&fitted, part)?;
    let (profile, _) = profile_of(&shape, &best, &fitted);
    let held: Vec<usize> = held.into_iter().map(|(index, _)| index).collect();
    let rows = rows(&profile, &points, &held)?;
    let median = |tag: Tag| {
        let errors = rows.iter().filter(|row| row.tag == tag).map(|row| row.error.abs());
        let mut errors: Vec<f64> = errors.collect();
        errors.sort_by(f64::total_cmp);
        errors[errors.len() / 2] * 100.0
    };
    // Held-out points showed the error of the structure; the profile is fitted to them, too.
    let all: Vec<&Point> = points.iter().collect();
    let (shape, best) = explain(&all, part)?;
    let (mut profile, scatter) = profile_of(&shape, &best, &all);
    profile.name = name.to_owned();
    profile.calibration = Some(Calibration {
        source: source.to_owned(),
        fitted: fitted.len() as u32,
        fit_error_percent: median(Tag::Fit),
        held_out: held.len() as u32,
        held_out_error_percent: median(Tag::Pred),
        scatter: scatter.is_some(),
    });
    let mut parameters = shape.fitted(&best.fit);
    let mut remarks = shape.remarks(&parameters);
    remarks.extend(doubted(&points));
    if scatter.is_none() {
        remarks.push(
            "no run of a thousand I/Os, one at a time, so the spread of times is unknown: \
             percentiles stay out"
                .to_owned(),
        );
    }
    remarks.extend(best.remark());
    parameters.push(best.servers());
    Ok(Calibrated { profile, parameters, rows, remarks })
}

/// Returns the structure and the times that explain points best.
fn explain(points: &[&Point], part: Option<&Part>) -> Result<(Shape, Best), CalibrateError> {
    let apart = Shape::of(points, part)?;
    let best = best_width(&apart, points)?;
    // Another structure must be better, not equally good.
    if let Some(together) = apart.with_one_server(points)
        && let Ok(other) = best_width(&together, points)
        && other.fit.rms < best.fit.rms * BETTER
    {
        return Ok((together, other));
    }
    Ok((apart, best))
}

/// Returns the profile that explains points, and the distribution of its times, if a run shows it.
fn profile_of(shape: &Shape, best: &Best, points: &[&Point]) -> (Profile, Option<Scatter>) {
    let mut profile = shape.profile(&best.fit.values, best.width);
    let scatter = scatter(&profile, points);
    for stage in &mut profile.stages {
        stage.shape = scatter.unwrap_or_default();
    }
    (profile, scatter)
}

/// Returns the points with a lower weight than clean runs, with the reason.
fn doubted(points: &[Point]) -> impl Iterator<Item = String> {
    points.iter().filter(|point| point.doubt > 1.0).map(|point| {
        let weight = 1.0 / (point.doubt * point.doubt);
        let why = point.doubts.join(", ");
        format!("{}: weight {weight:.2} of a clean run: {why}", point.name)
    })
}

/// Returns whether two runs are repeats of the same job.
fn same(a: &Point, b: &Point) -> bool {
    (a.drives, a.cores, a.size_bytes, a.outstanding)
        == (b.drives, b.cores, b.size_bytes, b.outstanding)
        && a.read_share == b.read_share
}

/// Lowers the weight of repeats by their difference.
fn repeats(points: &mut [Point]) {
    for group in points.chunk_by_mut(same) {
        let least = group.iter().map(|point| point.iops).fold(f64::INFINITY, f64::min);
        let most = group.iter().map(|point| point.iops).fold(0.0, f64::max);
        let apart = most / least - 1.0;
        if apart > UNEQUAL {
            for point in group {
                point.doubt *= 1.0 + apart / UNEQUAL;
                point.doubts.push(format!("repeats differ by {:.0} %", apart * 100.0));
            }
        }
    }
}

/// Checks that the points are enough, and all of the same storage.
fn belong_together(points: &[Point]) -> Result<(), CalibrateError> {
    let refuse = |reason: String| Err(CalibrateError::Points(reason));
    if !(POINTS_MIN..=POINTS_MAX).contains(&points.len()) {
        let count = points.len();
        return refuse(format!("{POINTS_MIN} to {POINTS_MAX} runs are needed, not {count}"));
    }
    if let Some(other) = points.iter().find(|point| point.storage != points[0].storage) {
        let (one, two) = (&points[0].storage, &other.storage);
        return refuse(format!(
            "runs of different storage, '{one}' and '{two}': fit one at a time"
        ));
    }
    if let Some(other) = points.iter().find(|point| point.origin != points[0].origin) {
        let (one, two) = (points[0].origin.word(), other.origin.word());
        return refuse(format!("runs that were {one} and {two}: fit one at a time"));
    }
    Ok(())
}

/// The outcome for a width of the medium.
struct Best {
    width: u32,
    /// Fit, whose intervals include those of all equally good widths.
    fit: Fit,
    /// Minimum and maximum of these widths.
    as_good: (u32, u32),
}

impl Best {
    /// Returns the width as a parameter.
    fn servers(&self) -> Fitted {
        let (low, high) = self.as_good;
        Fitted {
            name: "medium.servers",
            value: f64::from(self.width),
            kind: Kind::Fit,
            interval: (low < high).then_some((f64::from(low), f64::from(high))),
            prior: None,
        }
    }

    /// Returns a remark if other widths are equally good.
    fn remark(&self) -> Option<String> {
        let (low, high) = self.as_good;
        (low < high).then(|| {
            format!(
                "{low} to {high} servers of the medium explain the runs as well as {}: its width \
                 and the times of the controller are told apart no better than their intervals say",
                self.width
            )
        })
    }

    /// Returns the best of the widths tried; the choice among equally good widths is noise.
    fn of(width: u32, mut tried: BTreeMap<u32, Fit>, points: usize) -> Best {
        let mut fit = tried.remove(&width).expect("it was tried");
        let free = points.saturating_sub(fit.values.len() + 1).max(1);
        let limit = fit.rms * (1.0 + AS_GOOD / free as f64).sqrt();
        let mut as_good = (width, width);
        for (other, theirs) in tried.into_iter().filter(|(_, theirs)| theirs.rms <= limit) {
            as_good = (as_good.0.min(other), as_good.1.max(other));
            for (ours, theirs) in fit.intervals.iter_mut().zip(&theirs.intervals) {
                *ours = (ours.0.min(theirs.0), ours.1.max(theirs.1));
            }
        }
        Best { width, fit, as_good }
    }
}

/// Returns the width with the smallest residuals, with its times.
fn best_width(shape: &Shape, points: &[&Point]) -> Result<Best, CalibrateError> {
    let deepest = points.iter().map(|point| point.outstanding).max().unwrap_or(1);
    let mut tried: BTreeMap<u32, Fit> = BTreeMap::new();
    let mut refused: BTreeSet<u32> = BTreeSet::new();
    // A medium wider than any queue depth of the runs is as good as infinitely wide.
    // Skip a width without convergence; others may converge.
    let mut failed = None;
    for width in WIDTHS.into_iter().filter(|width| *width < deepest * 4) {
        match with_width(shape, width, points) {
            Ok(fit) => _ = tried.insert(width, fit),
            Err(error) => failed = Some(error),
        }
    }
    if let (true, Some(error)) = (tried.is_empty(), failed) {
        return Err(error);
    }
    loop {
        let best = least(&tried);
        let below = tried.range(..best).next_back().map_or(best, |(width, _)| *width);
        let above = tried.range(best + 1..).next().map_or(best, |(width, _)| *width);
        let middle = [mean(below, best), mean(best, above)];
        let new: Vec<u32> = middle
            .into_iter()
            .filter(|width| !tried.contains_key(width) && !refused.contains(width))
            .collect();
        if new.is_empty() {
            return Ok(Best::of(best, tried, points.len()));
        }
        for width in new {
            match with_width(shape, width, points) {
                Ok(fit) => _ = tried.insert(width, fit),
                Err(_) => _ = refused.insert(width),
            }
        }
    }
}

fn with_width(shape: &Shape, width: u32, points: &[&Point]) -> Result<Fit, CalibrateError> {
    let mut failed: Option<ModelError> = None;
    let fit = least_squares(&shape.parameters(), |values, rows| {
        let profile = shape.profile(values, width);
        // Repeats are adjacent, and need one solution.
        let mut last: Option<(&Point, f64)> = None;
        for point in points {
            let known = last.filter(|(other, _)| same(other, point)).map(|(_, iops)| Ok(iops));
            let asked = known.unwrap_or_else(|| model_iops(&profile, point));
            last = asked.as_ref().ok().map(|iops| (*point, *iops));
            match asked {
                Ok(iops) => rows.push((iops / point.iops - 1.0) / (NOISE * point.doubt)),
                Err(error) => {
                    failed.get_or_insert(error);
                    rows.push(f64::NAN);
                }
            }
        }
    });
    match (fit, failed) {
        (Ok(fit), None) => Ok(fit),
        (_, Some(error)) | (Err(error), None) => Err(error.into()),
    }
}

/// Returns a profile's IOPS for a point.
fn model_iops(profile: &Profile, point: &Point) -> Result<f64, ModelError> {
    let mut profile = profile.clone();
    if let Some(stage) = profile.stages.iter_mut().find(|stage| stage.name == PROCESSOR) {
        stage.servers = Width::Count(point.cores.max(1));
    }
    let Point { drives, outstanding, read_share, size_bytes, .. } = *point;
    let network = profile.closed(drives, outstanding, read_share, size_bytes);
    // The model is solved thousands of times: exactly only if that is fast.
    let method = if drives == 1 { Method::Auto } else { Method::Linearizer };
    Ok(solve(&network, method)?.throughput_per_s())
}

fn rows(profile: &Profile, points: &[Point], held: &[usize]) -> Result<Vec<Row>, ModelError> {
    let row = |(index, point): (usize, &Point)| {
        let model_iops = model_iops(profile, point)?;
        let error = model_iops / point.iops - 1.0;
        let tag = if held.contains(&index) { Tag::Pred } else { Tag::Fit };
        Ok(Row { point: point.clone(), tag, model_iops, error })
    };
    points.iter().enumerate().map(row).collect()
}

/// Returns the variance of the times, from runs at depth 1: without queueing the variances of
/// stages add up.
fn scatter(profile: &Profile, points: &[&Point]) -> Option<Scatter> {
    let mut all = Vec::new();
    for point in points {
        let Some(scv) = point.alone_scv else { continue };
        // The two means of a mix add variance.
        if point.read_share > 0.0 && point.read_share < 1.0 {
            continue;
        }
        let op = if point.read_share > 0.0 { block::Op::Read } else { block::Op::Write };
        let means = profile.stages.iter().map(|stage| stage.cost(op).seconds(point.size_bytes));
        let (sum, squares) = means.fold((0.0, 0.0), |(a, b), mean| (a + mean, b + mean * mean));
        all.push(scv * sum * sum / squares);
    }
    all.sort_by(f64::total_cmp);
    let scv = *all.get(all.len() / 2)?;
    Some(match 1.0 / scv.max(1e-9) {
        stages if stages >= STAGES_MAX => Scatter::Fixed,
        stages if stages < 1.5 => Scatter::Exponential,
        stages => Scatter::Erlang(stages.round() as u32),
    })
}

fn least(tried: &BTreeMap<u32, Fit>) -> u32 {
    let best = tried.iter().reduce(|a, b| if b.1.rms < a.1.rms { b } else { a });
    best.map_or(1, |(width, _)| *width)
}

/// Returns the geometric mean of two widths.
fn mean(a: u32, b: u32) -> u32 {
    (f64::from(a) * f64::from(b)).sqrt().round() as u32
}

#[cfg(test)]
mod test;
