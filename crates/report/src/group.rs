//! What belongs together in a result: the workers of one group of the job, or all of them.

use crate::fio::options;
use serde_json::Value;
use stats::{Buckets, Direction, Histograms, Rates, RunResult, WorkerResult};

/// Workers that did the same, and what they did together.
pub(crate) struct Group<'a> {
    /// Its name; that of the run where it has none.
    pub name: String,
    /// Its workers.
    pub workers: &'a [WorkerResult],
    /// Workers for each volume.
    pub per_volume: usize,
    /// Its workload as the document of the job has it; null where the document does not say.
    pub workload: &'a Value,
    /// What of it forms of fio show, likewise.
    pub figures: &'a Value,
    /// Groups of figures begin anew with it.
    pub begins: bool,
    /// Reads.
    pub read: Part,
    /// Writes.
    pub write: Part,
    /// Flushes and trims.
    pub other: Part,
}

/// What was done in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub ios: u64,
    pub errors: u64,
    pub bytes: u64,
    pub iops: f64,
    pub bytes_per_second: f64,
    /// I/Os that latencies are known of: those without an answer with their age, too.
    pub samples: u64,
    /// Of these.
    pub min_ns: u64,
    pub mean_ns: f64,
    pub max_ns: u64,
    pub buckets: Buckets,
    /// Rates of its seconds.
    pub rates: Rates,
}

/// What has an entry of its own where jobs are known, as in fio's documents: a group, each of its
/// workers, or groups that are reported as one.
pub(crate) fn entries(result: &RunResult) -> Vec<Group<'_>> {
    let groups = groups(result);
    let planned = result.spec.pointer("/steps/0/groups").and_then(Value::as_array);
    let words: Vec<&str> = match planned {
        Some(planned) if planned.len() == groups.len() => {
            let words = planned.iter().map(|group| group.get("reported"));
            words.map(|word| word.and_then(Value::as_str).unwrap_or_default()).collect()
        }
        _ => return groups,
    };
    let mut found: Vec<Group<'_>> = Vec::new();
    let mut begin = 0;
    let mut before = "";
    for (mut group, word) in groups.into_iter().zip(words) {
        group.count_flushes();
        let workers = begin..begin + group.workers.len();
        begin = workers.end;
        let joins = before == "step" && !group.begins;
        match (word, found.last_mut().filter(|_| joins)) {
            ("step", Some(last)) => {
                let first = workers.start - last.workers.len();
                last.workers = &result.workers[first..workers.end];
                // As with fio the options are those of the last job.
                (last.figures, last.workload) = (group.figures, group.workload);
                last.read.merge(&group.read);
                last.write.merge(&group.write);
                last.other.merge(&group.other);
            }
            ("worker", _) => {
                let workers = group.workers.iter().enumerate();
                found.extend(workers.map(|(index, worker)| group.alone(index, worker)));
            }
            _ => found.push(group),
        }
        before = word;
    }
    found
}

impl<'a> Group<'a> {
    /// Leaves out what fio does not count among flushes: those of `fdatasync`, and the one at the
    /// end of each worker.
    fn count_flushes(&mut self) {
        // I/Os of cpuio have no bytes.
        if self.workers.iter().any(|worker| worker.volume.contains("?call=spin")) {
            (self.read.bytes, self.read.bytes_per_second) = (0, 0.0);
        }
        let is = |of: &Value, key, default| of.get(key).and_then(Value::as_bool).unwrap_or(default);
        let at_end = is(self.workload, "end_flush", false);
        let at_end = if at_end { self.workers.len() as u64 } else { 0 };
        let trims = options::trims(self.workload);
        match self.other.ios.saturating_sub(at_end) {
            _ if trims => {}
            0 => self.other = Part { errors: self.other.errors, ..Part::default() },
            // Their latencies are shown all the same.
            _ if !is(self.figures, "flushes", true) => self.other.ios = 0,
            ios => self.other.ios = ios,
        }
    }

    /// One worker as a group, by its number in this one.
    pub fn alone(&self, index: usize, worker: &'a WorkerResult) -> Group<'a> {
        let histograms = &worker.histograms;
        let mut group = Group {
            name: self.name.clone(),
            workers: std::slice::from_ref(worker),
            per_volume: self.per_volume,
            workload: self.workload,
            figures: self.figures,
            begins: self.begins && index == 0,
            read: Part::of(&worker.read, &histograms.read),
            write: Part::of(&worker.write, &histograms.write),
            other: Part::of(&worker.other, &histograms.other),
        };
        group.count_flushes();
        group
    }
}

/// The groups of a result, in the order of its job.
pub(crate) fn groups(result: &RunResult) -> Vec<Group<'_>> {
    let counted = |w: &WorkerResult| w.read.ios + w.write.ios + w.other.ios == w.ios;
    let known = !result.workers.is_empty() && result.workers.iter().all(counted);
    match planned(result).filter(|_| known) {
        Some(groups) => groups,
        None => vec![whole(result)],
    }
}

/// By the document of the job, if its numbers of workers are those of the result.
fn planned(result: &RunResult) -> Option<Vec<Group<'_>>> {
    let groups = result.spec.pointer("/steps/0/groups")?.as_array()?;
    let mut rest = &result.workers[..];
    let mut found = Vec::new();
    for group in groups {
        // Striped, or the files of a trace, they are one for each worker.
        let traced = group.pointer("/workload/access/trace/volumes").and_then(Value::as_u64);
        let volumes = match group.get("stripes") {
            Some(_) => 1,
            None if traced.is_some_and(|volumes| volumes > 1) => 1,
            None => group.get("volumes")?.as_array()?.len(),
        };
        let per_volume =
            usize::try_from(group.get("workers").map_or(Some(1), Value::as_u64)?).ok()?;
        let (workers, after) = rest.split_at_checked(volumes.checked_mul(per_volume)?)?;
        rest = after;
        let name = group.get("name").and_then(Value::as_str).unwrap_or_default();
        let name = if name.is_empty() { &result.job.name } else { name };
        let workload = group.get("workload").unwrap_or(&Value::Null);
        let figures = group.get("figures").unwrap_or(&Value::Null);
        let begins = figures.get("begins").and_then(Value::as_bool).unwrap_or_default();
        let histograms = |of: fn(&Histograms) -> &Buckets| {
            move |worker: &WorkerResult| of(&worker.histograms).clone()
        };
        let part = |direction: fn(&WorkerResult) -> &Direction, of: fn(&Histograms) -> &Buckets| {
            let mut part = Part::default();
            workers.iter().for_each(|w| part.add(direction(w), histograms(of)(w)));
            part
        };
        found.push(Group {
            name: name.to_owned(),
            workers,
            per_volume,
            workload,
            figures,
            begins,
            read: part(|worker| &worker.read, |h| &h.read),
            write: part(|worker| &worker.write, |h| &h.write),
            other: part(|worker| &worker.other, |h| &h.other),
        });
    }
    rest.is_empty().then_some(found)
}

/// Everything as one group.
pub(crate) fn whole(result: &RunResult) -> Group<'_> {
    let part = |direction: &Direction, buckets: &Buckets| {
        let mut part = Part::default();
        part.add(direction, buckets.clone());
        part
    };
    let totals = &result.totals;
    Group {
        name: result.job.name.clone(),
        workers: &result.workers,
        per_volume: 1,
        workload: result.spec.pointer("/steps/0/groups/0/workload").unwrap_or(&Value::Null),
        figures: result.spec.pointer("/steps/0/groups/0/figures").unwrap_or(&Value::Null),
        begins: false,
        read: part(&totals.read, &result.histograms.read),
        write: part(&totals.write, &result.histograms.write),
        other: part(&totals.other, &result.histograms.other),
    }
}

impl Part {
    /// Of one direction of one worker.
    pub fn of(direction: &Direction, buckets: &Buckets) -> Part {
        let mut part = Part::default();
        part.add(direction, buckets.clone());
        part
    }

    fn add(&mut self, direction: &Direction, buckets: Buckets) {
        let latency = &direction.latency_ns;
        // Earlier documents do not say how many latencies they rest on.
        let more = if latency.samples > 0 { latency.samples } else { direction.ios };
        if let (Some(min), Some(mean), Some(max)) = (latency.min, latency.mean, latency.max) {
            self.min_ns = if self.samples == 0 { min } else { self.min_ns.min(min) };
            self.max_ns = self.max_ns.max(max);
            let (before, weight) = (self.samples as f64, more as f64);
            self.mean_ns = (self.mean_ns * before + mean * weight) / (before + weight).max(1.0);
            self.samples += more;
        }
        self.ios += direction.ios;
        self.errors += direction.errors;
        self.bytes += direction.bytes;
        self.iops += direction.iops;
        self.bytes_per_second += direction.bytes_per_second;
        self.rates.add(&direction.each_second);
        match self.buckets.is_empty() {
            true => self.buckets = buckets,
            false => self.buckets.merge(&buckets),
        }
    }

    /// Adds what another one did.
    pub fn merge(&mut self, other: &Part) {
        let latency_ns = stats::Latency {
            samples: other.samples,
            min: (other.samples > 0).then_some(other.min_ns),
            mean: (other.samples > 0).then_some(other.mean_ns),
            max: (other.samples > 0).then_some(other.max_ns),
            ..stats::Latency::default()
        };
        let direction = Direction {
            ios: other.ios,
            errors: other.errors,
            iops: other.iops,
            bytes_per_second: other.bytes_per_second,
            bytes: other.bytes,
            latency_ns,
            each_second: other.rates,
        };
        self.add(&direction, other.buckets.clone());
    }
}
