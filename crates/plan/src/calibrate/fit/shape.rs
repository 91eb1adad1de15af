//! Parameters of a fit, from the swept settings and the catalogue.

use model::device::{Cost, Infinite, Profile, Scatter, Stage, Width};
use model::fit::{Fit, Parameter};

use super::super::{CalibrateError, Fitted, Point, Prior};
use super::cores::{Cores, cores};
use crate::simulate::PROCESSOR;
use catalogue::{Kind, Part};

/// Upper bound of a time parameter, in seconds.
const TIME_S_MAX: f64 = 1.0;
/// Minimum number of core counts that determine contention, and coherence too: as for `model`'s own
/// fit.
const COUNTS: (usize, usize) = (3, 5);
/// Maximum coherence: two cores would be as slow as one by a tenth.
const COHERENCE_MAX: f64 = 0.1;
/// Maximum ratio of the runs' interval to the catalogue's for the runs to determine a parameter.
const TOLD: f64 = 0.9;
/// Number of the catalogue's standard deviations beyond which the runs contradict it.
const CONTRADICTS: f64 = 3.0;

/// The parameters of a fit.
#[derive(Clone)]
pub(super) struct Shape {
    /// Parameters, each with the kind of its prior's figure, if it has a prior.
    parameters: Vec<(&'static str, Parameter, Option<Kind>)>,
    /// CPU time, if it was recorded.
    cores: Option<Cores>,
    cores_max: u32,
    /// True if the controller handles command and bytes one after the other, without a separate
    /// link.
    together: bool,
    /// Remarks for the reader.
    remarks: Vec<String>,
}

/// Lower bound of the time of a medium, in seconds: 0 would be a division by zero in the solver.
const MEDIUM_S_MIN: f64 = 1e-9;

/// Points of the fit, with their swept settings.
struct Swept<'a> {
    points: &'a [&'a Point],
}

impl Swept<'_> {
    fn counts(&self, of: impl Fn(&Point) -> u32) -> usize {
        let mut all: Vec<u32> = self.points.iter().map(|point| of(point)).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    /// Returns the points with reads, or with writes.
    fn of(&self, reads: bool) -> impl Iterator<Item = &Point> {
        let mine = move |p: &&&Point| if reads { p.read_share > 0.0 } else { p.read_share < 1.0 };
        self.points.iter().filter(mine).copied()
    }

    /// Returns the number of sizes of pure reads, or pure writes: mixes determine less.
    fn lengths(&self, reads: bool) -> usize {
        let share = if reads { 1.0 } else { 0.0 };
        let pure = self.points.iter().filter(|point| point.read_share == share);
        let mut all: Vec<u32> = pure.map(|point| point.size_bytes).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    /// Returns the highest IOPS of a drive; 0 without any.
    fn rate(&self, reads: bool) -> f64 {
        self.of(reads).map(|p| p.iops / f64::from(p.drives)).fold(0.0, f64::max)
    }

    /// Returns the shortest response time of a lone I/O, as far as the points show it.
    fn alone_s(&self, reads: bool) -> f64 {
        let alone = self.of(reads).filter(|p| p.outstanding == 1);
        let round = alone.map(|p| f64::from(p.drives) / p.iops).fold(f64::INFINITY, f64::min);
        if round.is_finite() { round } else { 1.0 / self.rate(reads) }
    }
}

impl Shape {
    pub fn of(points: &[&Point], part: Option<&Part>) -> Result<Shape, CalibrateError> {
        let swept = Swept { points };
        if swept.counts(|point| point.outstanding) < 2 {
            let why = "all runs have the same queue depth: sweep outstanding 1, 2, 4 … to separate \
                       waiting from service time";
            return Err(CalibrateError::Points(why.to_owned()));
        }
        let cores_max = points.iter().map(|point| point.cores).max().unwrap_or(0).max(1);
        let (cores, remarks) = (cores(points)?, Vec::new());
        let mut shape =
            Shape { parameters: Vec::new(), cores, cores_max, together: false, remarks };
        shape.drive(&swept, part);
        shape.scaling(&swept);
        let wanted = shape.parameters.iter().filter(|(.., prior)| prior.is_none()).count();
        if points.len() <= wanted {
            let count = points.len();
            let why = format!(
                "{count} runs that are not held out for {wanted} parameters: sweep more of \
                 outstanding, size, reads, drives or cores"
            );
            return Err(CalibrateError::Points(why));
        }
        Ok(shape)
    }

    /// Adds the times of the drive: from the runs, and from the catalogue.
    fn drive(&mut self, swept: &Swept, part: Option<&Part>) {
        for (reads, names, [latency, rate], absent) in [
            (
                true,
                ["medium.read.each_s", "controller.read.each_s"],
                ["read_latency", "read_iops"],
                ["reads", "writes"],
            ),
            (
                false,
                ["medium.write.each_s", "controller.write.each_s"],
                ["write_latency", "write_iops"],
                ["writes", "reads"],
            ),
        ] {
            let run = swept.rate(reads) > 0.0;
            let [what, other] = absent;
            let alone = alone(part, latency, rate);
            if run || alone.is_some() {
                let start = if run { swept.alone_s(reads) } else { 0.0 };
                self.time(names[0], start, alone);
                let start = if run { 0.5 / swept.rate(reads) } else { 0.0 };
                self.time(names[1], start, inverse(part, rate));
            }
            if !run {
                let how = if alone.is_some() { "the catalogue says" } else { other };
                self.remarks.push(format!("no {what} were run: they are taken to be as {how}"));
            }
        }
        self.bytes(swept, part);
    }

    /// Adds the time per byte: for reads and writes each if both were run in several sizes, because
    /// flash seldom has the same for both.
    fn bytes(&mut self, swept: &Swept, part: Option<&Part>) {
        let most = |points: &mut dyn Iterator<Item = &Point>| {
            points.map(|p| p.iops * f64::from(p.size_bytes)).fold(0.0, f64::max)
        };
        if swept.lengths(true) > 1 && swept.lengths(false) > 1 {
            for (reads, name, known) in [
                (true, "link.read.per_byte_s", "read_bandwidth"),
                (false, "link.write.per_byte_s", "write_bandwidth"),
            ] {
                self.time(name, 0.5 / most(&mut swept.of(reads)), inverse(part, known));
            }
            return;
        }
        let known = inverse(part, "read_bandwidth");
        let sizes = swept.counts(|point| point.size_bytes) > 1;
        if sizes || known.is_some() {
            self.time("link.per_byte_s", 0.5 / most(&mut swept.points.iter().copied()), known);
        }
        if !sizes {
            let how = if known.is_some() { "but the catalogue tells" } else { "nothing tells" };
            self.remarks.push(format!("one length only: {how} what a byte takes"));
        }
    }

    /// Adds contention and coherence of the cores.
    fn scaling(&mut self, swept: &Swept) {
        if self.cores.is_none() {
            let text = "no CPU time was recorded, or cores spin while they wait: they are not in \
                        the profile";
            self.remarks.push(text.to_owned());
            return;
        }
        let counts = swept.counts(|point| point.cores);
        if counts >= COUNTS.0 {
            self.share("processor.contention", 0.01, 1.0);
        }
        let alone = swept.points.iter().all(|point| point.drives == 1);
        if counts >= COUNTS.1 && alone {
            self.share("processor.coherence", 1e-3, COHERENCE_MAX);
        } else if counts >= COUNTS.0 {
            let text = "coherence of the cores is taken as 0: to fit it, run one drive on five \
                        numbers of cores";
            self.remarks.push(text.to_owned());
        }
    }

    fn time(&mut self, name: &'static str, start: f64, prior: Option<Prior>) {
        let start = prior.map_or(start, |prior| prior.mean).clamp(1e-12, TIME_S_MAX);
        let high = (start * 100.0).min(TIME_S_MAX);
        let believed = prior.map(|prior| (prior.mean, prior.error));
        let name_of = name.to_owned();
        let parameter = Parameter { name: name_of, start, low: 0.0, high, prior: believed };
        self.parameters.push((name, parameter, prior.map(|prior| prior.kind)));
    }

    fn share(&mut self, name: &'static str, start: f64, high: f64) {
        let parameter = Parameter { name: name.to_owned(), start, low: 0.0, high, prior: None };
        self.parameters.push((name, parameter, None));
    }

    /// Returns the parameters with one server for command and bytes; `None` if bytes take no time,
    /// or runs of several drives determine the shared resource.
    pub fn with_one_server(&self, points: &[&Point]) -> Option<Shape> {
        let alone = points.iter().all(|point| point.drives == 1);
        let bytes = self.parameters.iter().any(|(name, ..)| name.ends_with("per_byte_s"));
        let remark = "one server takes the time of the command and then that of the bytes: the \
                      runs say so, and link.* are its times";
        let remarks = self.remarks.iter().cloned().chain([remark.to_owned()]).collect();
        (alone && bytes).then(|| Shape { together: true, remarks, ..self.clone() })
    }

    /// Returns the parameters to fit.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.parameters.iter().map(|(_, parameter, _)| parameter.clone()).collect()
    }

    /// Returns the profile of these values.
    pub fn profile(&self, values: &[f64], width: u32) -> Profile {
        let value = |name: &str| {
            let at = self.parameters.iter().position(|(known, ..)| *known == name);
            at.map_or(0.0, |at| values[at])
        };
        let times = |stage: &str| {
            let part = |op: &str| value(&format!("{stage}.{op}.each_s"));
            (part("read"), part("write"))
        };
        let each = |each_s: f64| Cost { each_s, per_byte_s: 0.0 };
        let (read, write) = times("medium");
        // A profile needs a non-zero time for an operation that was never run.
        let some =
            |own: f64, other: f64| each(if own > 0.0 { own } else { other }.max(MEDIUM_S_MIN));
        let servers = match width {
            0..1024 => Width::Count(width),
            _ => Width::Word(Infinite::Infinite),
        };
        let mut stages = vec![stage("medium", servers, (some(read, write), some(write, read)))];
        let (read, write) = times("controller");
        let mut controller = stage("controller", Width::Count(1), (each(read), each(write)));
        // Either one time for both, or one for each.
        let byte = |name| Cost { each_s: 0.0, per_byte_s: value("link.per_byte_s") + value(name) };
        let (read, write) = (byte("link.read.per_byte_s"), byte("link.write.per_byte_s"));
        if self.together {
            controller.read.per_byte_s = read.per_byte_s;
            controller.write.per_byte_s = write.per_byte_s;
        }
        stages.push(controller);
        if !self.together && (read.per_byte_s > 0.0 || write.per_byte_s > 0.0) {
            let link = stage("link", Width::Count(1), (read, write));
            stages.push(Stage { shared: true, ..link });
        }
        if let Some(Cores { read_s, write_s, per_byte_s, .. }) = self.cores {
            let cost = |each_s| Cost { each_s, per_byte_s };
            let servers = Width::Count(self.cores_max);
            let processor = stage(PROCESSOR, servers, (cost(read_s), cost(write_s)));
            let (contention, coherence) =
                (value("processor.contention"), value("processor.coherence"));
            stages.push(Stage { shared: true, contention, coherence, ..processor });
        }
        let (name, about) = (String::new(), String::new());
        Profile { name, about, queue_depth: None, calibration: None, stages }
    }

    /// Returns the fitted parameters.
    pub fn fitted(&self, fit: &Fit) -> Vec<Fitted> {
        let mut all = Vec::new();
        for (index, (name, parameter, kind)) in self.parameters.iter().enumerate() {
            let (value, error) = (fit.values[index], fit.errors[index]);
            let prior = parameter.prior.zip(*kind);
            let prior = prior.map(|((mean, error), kind)| Prior { mean, error, kind });
            let known = match prior {
                Some(prior) if error > TOLD * prior.error => prior.kind,
                None if !error.is_finite() => Kind::Guess,
                _ => Kind::Fit,
            };
            let interval = error.is_finite().then_some(fit.intervals[index]);
            all.push(Fitted { name, value, kind: known, interval, prior });
        }
        all.extend(self.cores.iter().flat_map(|cores| cores.fitted.clone()));
        all
    }

    /// Returns remarks on the outcome.
    pub fn remarks(&self, fitted: &[Fitted]) -> Vec<String> {
        let mut remarks = self.remarks.clone();
        for Fitted { name, value, prior, .. } in fitted {
            if let Some(Prior { mean, error, .. }) = prior
                && (value - mean).abs() > CONTRADICTS * error
            {
                remarks.push(format!(
                    "{name}: the runs say {value:.3e}, the catalogue {mean:.3e}: is it that part?"
                ));
            }
        }
        remarks
    }
}

fn stage(name: &str, servers: Width, (read, write): (Cost, Cost)) -> Stage {
    Stage {
        name: name.to_owned(),
        servers,
        shared: false,
        contention: 0.0,
        coherence: 0.0,
        read,
        write,
        flush: None,
        shape: Scatter::Exponential,
        reserve: None,
        head: None,
    }
}

/// Returns the prior of the time of an I/O from the rate of a part: its interval is assumed to be
/// two standard deviations on either side.
fn inverse(part: Option<&Part>, quantity: &str) -> Option<Prior> {
    let known = part?.known(quantity)?;
    let error = ((1.0 / known.low - 1.0 / known.high) / 4.0).max(1e-3 / known.value);
    Some(Prior { mean: 1.0 / known.value, error, kind: known.kind })
}

/// Returns the latency at depth 1 beyond the service time that delays others.
fn alone(part: Option<&Part>, latency: &str, rate: &str) -> Option<Prior> {
    let known = part?.known(latency)?;
    let busy = inverse(part, rate).map_or(0.0, |busy| busy.mean);
    let error = ((known.high - known.low) / 4.0).max(1e-3 * known.value);
    Some(Prior { mean: (known.value - busy).max(0.0), error, kind: known.kind })
}
