//! The fit: a profile of four stages, its times by bounded least squares, its width by trial.

use std::collections::BTreeMap;

use model::fit::{Parameter, least_squares};
use model::{Method, ModelError, solve};
use volume::delay::{Calibration, Cost, Infinite, Profile, Scatter, Stage, Width};

use super::{CalibrateError, Calibrated, Fitted, POINTS_MAX, POINTS_MIN, Point, Row};
use crate::catalogue::Part;
use crate::simulate::PROCESSOR;

/// What a measured point is expected to be off by itself: residuals are counted in it, so that
/// points and priors weigh as they should.
const NOISE: f64 = 0.02;
/// Widths of a medium that are tried first; then those between the best one's neighbours.
const WIDTHS: [u32; 6] = [1, 4, 16, 64, 256, 1024];
/// Longest time that a parameter may take, in seconds.
const TIME_S_MAX: f64 = 1.0;
/// From so many stages on, times are as good as fixed.
const STAGES_MAX: f64 = 200.0;

/// Fits a profile called `name` to points; every third is held out. Where `part` is known, its
/// intervals are what is believed beforehand.
///
/// # Errors
///
/// [`CalibrateError::Points`] when the points are too few, too many, of different storage, or all
/// alike.
pub fn calibrate(
    name: &str,
    source: &str,
    points: &[Point],
    part: Option<&Part>,
) -> Result<Calibrated, CalibrateError> {
    let refuse = |reason: String| Err(CalibrateError::Points(reason));
    if !(POINTS_MIN..=POINTS_MAX).contains(&points.len()) {
        let count = points.len();
        return refuse(format!("{count} runs: {POINTS_MIN} to {POINTS_MAX} are needed"));
    }
    if let Some(other) = points.iter().find(|point| point.storage != points[0].storage) {
        let (one, two) = (&points[0].storage, &other.storage);
        return refuse(format!(
            "runs of different storage, '{one}' and '{two}': fit one at a time"
        ));
    }
    let mut points = points.to_vec();
    points.sort_by(|a, b| {
        let key = |p: &Point| (p.drives, p.cores, p.size_bytes, p.outstanding);
        key(a).cmp(&key(b)).then(a.read_share.total_cmp(&b.read_share))
    });
    let (held, fitted): (Vec<_>, Vec<_>) =
        points.iter().enumerate().partition(|(index, _)| index % 3 == 1);
    let fitted: Vec<&Point> = fitted.into_iter().map(|(_, point)| point).collect();
    let shape = Shape::of(&fitted, part)?;
    let best = shape.best(&fitted)?;
    let mut profile = shape.profile(&best.values, best.width);
    profile.name = name.to_owned();
    let scatter = scatter(&profile, &fitted);
    for stage in &mut profile.stages {
        stage.shape = scatter.unwrap_or_default();
    }
    let held: Vec<usize> = held.into_iter().map(|(index, _)| index).collect();
    let rows = rows(&profile, &points, &held)?;
    let median = |held_out: bool| {
        let errors = rows.iter().filter(|row| row.held_out == held_out).map(|row| row.error.abs());
        let mut errors: Vec<f64> = errors.collect();
        errors.sort_by(f64::total_cmp);
        errors[errors.len() / 2] * 100.0
    };
    profile.calibration = Some(Calibration {
        source: source.to_owned(),
        fitted: fitted.len() as u32,
        fit_error_percent: median(false),
        held_out: held.len() as u32,
        held_out_error_percent: median(true),
        scatter: scatter.is_some(),
    });
    let mut remarks = shape.remarks();
    if scatter.is_none() {
        remarks.push(
            "no run of a single I/O under way, so that nothing tells how times scatter: \
             percentiles stay out"
                .to_owned(),
        );
    }
    let mut parameters = shape.fitted(&best);
    parameters.push(Fitted {
        name: "medium.servers",
        value: f64::from(best.width),
        error: None,
        prior: None,
    });
    Ok(Calibrated { profile, parameters, rows, remarks })
}

/// Which parameters there are, by what was swept.
struct Shape {
    parameters: Vec<(&'static str, Parameter)>,
    /// Core seconds of an I/O by what was counted: (read, write, per byte).
    cores: Option<(f64, f64, f64)>,
    cores_max: u32,
    /// I/Os under way on a drive were varied.
    depths: bool,
}

/// The outcome for a width of the medium.
struct Best {
    width: u32,
    values: Vec<f64>,
    errors: Vec<f64>,
    rms: f64,
}

/// Whether so many runs tell so many parameters.
fn enough(count: usize, wanted: usize) -> Result<(), CalibrateError> {
    if count > wanted {
        return Ok(());
    }
    let why = format!(
        "{count} runs that are not held out for {wanted} parameters: sweep more of outstanding, \
         size, reads, drives or cores"
    );
    Err(CalibrateError::Points(why))
}

impl Shape {
    fn of(points: &[&Point], part: Option<&Part>) -> Result<Shape, CalibrateError> {
        let varied = |of: &dyn Fn(&Point) -> u64| {
            let mut all: Vec<u64> = points.iter().map(|point| of(point)).collect();
            all.sort_unstable();
            all.dedup();
            all.len()
        };
        let depths = varied(&|point| u64::from(point.outstanding)) > 1;
        let sizes = varied(&|point| u64::from(point.size_bytes)) > 1;
        let counts = varied(&|point| u64::from(point.cores));
        if !depths {
            let why = "all runs have as many I/Os outstanding: sweep 1, 2, 4 … to tell waiting \
                       from working";
            return Err(CalibrateError::Points(why.to_owned()));
        }
        let least = |share: &dyn Fn(&Point) -> bool| {
            let all = points.iter().filter(|point| share(point)).map(|p| {
                // A lone round on one drive, as far as the points tell.
                f64::from(p.outstanding) * f64::from(p.drives) / p.iops
            });
            all.fold(f64::INFINITY, f64::min)
        };
        let inverse = |quantity: &str| inverse(part, quantity);
        let alone = |latency: &str, rate: &str| alone(part, latency, rate);
        let mut parameters = Vec::new();
        let mut add = |name: &'static str, start: f64, prior: Option<(f64, f64)>| {
            let start = prior.map_or(start, |(mean, _)| mean).clamp(1e-12, TIME_S_MAX);
            let high = (start * 100.0).min(TIME_S_MAX);
            let name_of = name.to_owned();
            parameters.push((name, Parameter { name: name_of, start, low: 0.0, high, prior }));
        };
        let rates = |reads: bool| {
            let mine = |p: &&&Point| if reads { p.read_share > 0.0 } else { p.read_share < 1.0 };
            points.iter().filter(mine).map(|p| p.iops / f64::from(p.drives)).fold(0.0, f64::max)
        };
        if rates(true) > 0.0 {
            let start = least(&|p| p.read_share > 0.0 && p.outstanding == 1);
            let start = if start.is_finite() { start } else { 1.0 / rates(true) };
            add("medium.read.each_s", start, alone("read_latency", "read_iops"));
            add("controller.read.each_s", 0.5 / rates(true), inverse("read_iops"));
        }
        if rates(false) > 0.0 {
            let start = least(&|p| p.read_share < 1.0 && p.outstanding == 1);
            let start = if start.is_finite() { start } else { 1.0 / rates(false) };
            add("medium.write.each_s", start, alone("write_latency", "write_iops"));
            add("controller.write.each_s", 0.5 / rates(false), inverse("write_iops"));
        }
        if sizes {
            let bytes = points.iter().map(|p| p.iops * f64::from(p.size_bytes)).fold(0.0, f64::max);
            add("link.per_byte_s", 0.5 / bytes, inverse("read_bandwidth"));
        }
        let cores = cores(points)?;
        if cores.is_some() && counts > 2 {
            let contention = Parameter {
                name: "contention".to_owned(),
                start: 0.01,
                low: 0.0,
                high: 1.0,
                prior: None,
            };
            parameters.push(("processor.contention", contention));
        }
        enough(points.len(), parameters.len())?;
        let cores_max = points.iter().map(|point| point.cores).max().unwrap_or(0).max(1);
        Ok(Shape { parameters, cores, cores_max, depths })
    }

    /// The width that explains the points best, and the times with it.
    fn best(&self, points: &[&Point]) -> Result<Best, CalibrateError> {
        let deepest = points.iter().map(|point| point.outstanding).max().unwrap_or(1);
        let mut tried: BTreeMap<u32, Best> = BTreeMap::new();
        // A medium wider than anything that was under way is as good as infinitely wide.
        for width in WIDTHS.into_iter().filter(|width| *width < deepest * 4) {
            tried.insert(width, self.at(width, points)?);
        }
        loop {
            let best = least(&tried);
            let below = tried.range(..best).next_back().map_or(best, |(width, _)| *width);
            let above = tried.range(best + 1..).next().map_or(best, |(width, _)| *width);
            let middle = [mean(below, best), mean(best, above)];
            let new: Vec<u32> =
                middle.into_iter().filter(|width| !tried.contains_key(width)).collect();
            if new.is_empty() {
                return Ok(tried.remove(&best).expect("it was tried"));
            }
            for width in new {
                tried.insert(width, self.at(width, points)?);
            }
        }
    }

    fn at(&self, width: u32, points: &[&Point]) -> Result<Best, CalibrateError> {
        let parameters: Vec<Parameter> = self.parameters.iter().map(|(_, p)| p.clone()).collect();
        let mut failed: Option<ModelError> = None;
        let fit = least_squares(&parameters, |values, rows| {
            let profile = self.profile(values, width);
            for point in points {
                match model_iops(&profile, point) {
                    Ok(iops) => rows.push((iops / point.iops - 1.0) / NOISE),
                    Err(error) => {
                        failed.get_or_insert(error);
                        rows.push(f64::NAN);
                    }
                }
            }
        });
        match (fit, failed) {
            (Ok(fit), None) => {
                Ok(Best { width, values: fit.values, errors: fit.errors, rms: fit.rms })
            }
            (_, Some(error)) | (Err(error), None) => Err(error.into()),
        }
    }

    /// The profile that parameters stand for.
    fn profile(&self, values: &[f64], width: u32) -> Profile {
        let value = |name: &str| {
            let at = self.parameters.iter().position(|(known, _)| *known == name);
            at.map_or(0.0, |at| values[at])
        };
        let both = |stage: &str| {
            let part = |op: &str| value(&format!("{stage}.{op}.each_s"));
            // What was never done is not known; a profile needs some time for it.
            let (read, write) = (part("read"), part("write"));
            let some = |own: f64, other: f64| Cost {
                each_s: if own > 0.0 { own } else { other.max(1e-9) },
                per_byte_s: 0.0,
            };
            match stage {
                "medium" => (some(read, write), some(write, read)),
                _ => (
                    Cost { each_s: read, ..Cost::default() },
                    Cost { each_s: write, ..Cost::default() },
                ),
            }
        };
        let stage = |name: &str, servers: Width, shared: bool, (read, write): (Cost, Cost)| Stage {
            name: name.to_owned(),
            servers,
            shared,
            contention: 0.0,
            coherence: 0.0,
            read,
            write,
            shape: Scatter::Exponential,
        };
        let wide = self.depths && width >= 1024;
        let servers = if wide { Width::Word(Infinite::Infinite) } else { Width::Count(width) };
        let mut stages = vec![
            stage("medium", servers, false, both("medium")),
            stage("controller", Width::Count(1), false, both("controller")),
        ];
        let per_byte_s = value("link.per_byte_s");
        if per_byte_s > 0.0 {
            let cost = Cost { each_s: 0.0, per_byte_s };
            stages.push(stage("link", Width::Count(1), true, (cost, cost)));
        }
        if let Some((read, write, per_byte_s)) = self.cores {
            let cost = |each_s| Cost { each_s, per_byte_s };
            let costs = (cost(read), cost(write));
            let mut processor = stage(PROCESSOR, Width::Count(self.cores_max), true, costs);
            processor.contention = value("processor.contention").clamp(0.0, 1.0);
            stages.push(processor);
        }
        let (name, about) = (String::new(), String::new());
        Profile { name, about, queue_depth: None, calibration: None, stages }
    }

    fn fitted(&self, best: &Best) -> Vec<Fitted> {
        let each = self.parameters.iter().zip(best.values.iter().zip(&best.errors));
        let mut all: Vec<Fitted> = each
            .map(|((name, parameter), (value, error))| Fitted {
                name,
                value: *value,
                error: error.is_finite().then_some(*error),
                prior: parameter.prior,
            })
            .collect();
        if let Some((read, write, per_byte)) = self.cores {
            let cores = [
                ("processor.read.each_s", read),
                ("processor.write.each_s", write),
                ("processor.per_byte_s", per_byte),
            ];
            let plain = |(name, value)| Fitted { name, value, error: None, prior: None };
            all.extend(cores.map(plain));
        }
        all
    }

    fn remarks(&self) -> Vec<String> {
        let has = |name: &str| self.parameters.iter().any(|(known, _)| *known == name);
        let mut remarks = Vec::new();
        let mut say = |absent: bool, text: &str| {
            if absent {
                remarks.push(text.to_owned());
            }
        };
        say(!has("medium.read.each_s"), "no reads were run: they are taken to be as writes");
        say(!has("medium.write.each_s"), "no writes were run: they are taken to be as reads");
        say(!has("link.per_byte_s"), "one length only: nothing tells what a byte takes");
        say(self.cores.is_none(), "no processor time was counted: cores are not in the profile");
        remarks
    }
}

/// What a part's rate says about the time of an I/O: its interval is taken as two standard
/// deviations to either side.
fn inverse(part: Option<&Part>, quantity: &str) -> Option<(f64, f64)> {
    let known = part?.known(quantity)?;
    let error = (1.0 / known.low - 1.0 / known.high) / 4.0;
    Some((1.0 / known.value, error.max(1e-3 / known.value)))
}

/// What a lone I/O takes beyond the time that it keeps others waiting.
fn alone(part: Option<&Part>, latency: &str, rate: &str) -> Option<(f64, f64)> {
    let known = part?.known(latency)?;
    let busy = inverse(part, rate).map_or(0.0, |(busy, _)| busy);
    let error = (known.high - known.low) / 4.0;
    Some(((known.value - busy).max(0.0), error.max(1e-3 * known.value)))
}

/// Core seconds of an I/O on a line: read, write, and per byte. A core that waits may spin, so that
/// of each kind of I/O the run that used least is taken.
fn cores(points: &[&Point]) -> Result<Option<(f64, f64, f64)>, CalibrateError> {
    let mut least: BTreeMap<(u32, u64), (f64, f64)> = BTreeMap::new();
    for point in points {
        let Some(core_s) = point.core_s else { continue };
        let kind = (point.size_bytes, point.read_share.to_bits());
        let entry = least.entry(kind).or_insert((core_s, point.read_share));
        entry.0 = entry.0.min(core_s);
    }
    if least.is_empty() || points.iter().any(|point| point.cores == 0) {
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
    let values = |p: &[f64]| {
        let write = if both { p[1] } else { p[0] };
        (p[0], write, if sizes { p[p.len() - 1] } else { 0.0 })
    };
    let fit = least_squares(&parameters, |p, out| {
        let (read, write, per_byte) = values(p);
        out.extend(rows.iter().map(|(size, share, core_s)| {
            (share * read + (1.0 - share) * write + per_byte * size) / core_s - 1.0
        }));
    })?;
    Ok(Some(values(&fit.values)))
}

/// What a profile says about a point.
fn model_iops(profile: &Profile, point: &Point) -> Result<f64, ModelError> {
    let mut profile = profile.clone();
    if let Some(stage) = profile.stages.iter_mut().find(|stage| stage.name == PROCESSOR) {
        stage.servers = Width::Count(point.cores.max(1));
    }
    let Point { drives, outstanding, read_share, size_bytes, .. } = *point;
    let network = profile.closed(drives, outstanding, read_share, size_bytes);
    // Thousands of these are solved: exactly only where that is quick.
    let method = if drives == 1 { Method::Auto } else { Method::Linearizer };
    Ok(solve(&network, method)?.throughput_per_s())
}

fn rows(profile: &Profile, points: &[Point], held: &[usize]) -> Result<Vec<Row>, ModelError> {
    let row = |(index, point): (usize, &Point)| {
        let model_iops = model_iops(profile, point)?;
        let error = model_iops / point.iops - 1.0;
        Ok(Row { point: point.clone(), held_out: held.contains(&index), model_iops, error })
    };
    points.iter().enumerate().map(row).collect()
}

/// How times scatter, by the lone I/Os: stages without a queue add up their variances.
fn scatter(profile: &Profile, points: &[&Point]) -> Option<Scatter> {
    let mut all = Vec::new();
    for point in points {
        let Some(scv) = point.alone_scv else { continue };
        // A mix scatters by its two means too.
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

fn least(tried: &BTreeMap<u32, Best>) -> u32 {
    let best = tried.values().reduce(|a, b| if b.rms < a.rms { b } else { a });
    best.map_or(1, |best| best.width)
}

/// Between two widths, by their ratio.
fn mean(a: u32, b: u32) -> u32 {
    (f64::from(a) * f64::from(b)).sqrt().round() as u32
}

#[cfg(test)]
mod test;
