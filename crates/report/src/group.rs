//! Units of a result: the workers of one group of the job, or all of them.

use crate::fio::options;
use serde_json::Value;
use stats::{
    Buckets, Direction, FLUSHES_APART_SINCE, Histograms, Rates, RunResult, TailMoments,
    WorkerResult,
};

/// Workers with the same work, and their sums.
pub(crate) struct Group<'a> {
    /// Name of the group, or of the run if the group has none.
    pub name: String,
    /// Workers of the group.
    pub workers: &'a [WorkerResult],
    /// Workers for each volume.
    pub per_volume: usize,
    /// Workload from the job's document; null if the document has none.
    pub workload: &'a Value,
    /// Figures that fio formats show, from the job's document; null if it has none.
    pub figures: &'a Value,
    /// Whether fio's figures start a new group here.
    pub begins: bool,
    /// Reads.
    pub read: Part,
    /// Writes.
    pub write: Part,
    /// Trims.
    pub trim: Part,
    /// Flushes.
    pub flush: Part,
}

/// Figures of one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub ios: u64,
    pub errors: u64,
    pub bytes: u64,
    /// Over the time of the worker that took longest, as with fio.
    pub iops: f64,
    pub bytes_per_second: f64,
    /// Time of that worker; 0 if unknown.
    pub seconds: f64,
    /// I/Os with a known latency, including unanswered I/Os with their age.
    pub samples: u64,
    /// Latencies of these samples.
    pub min_ns: u64,
    pub mean_ns: f64,
    pub max_ns: u64,
    pub buckets: Buckets,
    /// Moments of the tails: the maximum over the workers, which may share all moments.
    pub moments: Option<TailMoments>,
    /// Rates of each second.
    pub rates: Rates,
}

/// Returns the job entries of fio's documents: a group, each of its workers, or groups that are
/// reported as one.
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
                // As in fio, the options are those of the last job.
                (last.figures, last.workload) = (group.figures, group.workload);
                last.read.merge(&group.read);
                last.write.merge(&group.write);
                last.trim.merge(&group.trim);
                last.flush.merge(&group.flush);
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
    /// Removes the flushes that fio does not count: those of `fdatasync`, and the one at the end of
    /// each worker.
    fn count_flushes(&mut self) {
        // I/Os of cpuio have no bytes.
        if self.workers.iter().any(|worker| worker.volume.contains("?call=spin")) {
            (self.read.bytes, self.read.bytes_per_second) = (0, 0.0);
        }
        let is = |of: &Value, key, default| of.get(key).and_then(Value::as_bool).unwrap_or(default);
        let at_end = is(self.workload, "end_flush", false);
        let at_end = if at_end { self.workers.len() as u64 } else { 0 };
        match self.flush.ios.saturating_sub(at_end) {
            0 => self.flush = Part { errors: self.flush.errors, ..Part::default() },
            // Latencies of these jobs are shown nevertheless.
            _ if !is(self.figures, "flushes", true) => self.flush.ios = 0,
            ios => self.flush.ios = ios,
        }
    }

    /// Counts flushes as trims in documents before layout 4, if the job trims.
    fn split_earlier(mut self) -> Group<'a> {
        if self.trim.samples == 0 && options::trims(self.workload) {
            std::mem::swap(&mut self.trim, &mut self.flush);
        }
        self
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
            read: Part::of(&worker.read, &histograms.read, worker.seconds),
            write: Part::of(&worker.write, &histograms.write, worker.seconds),
            trim: Part::of(&worker.trim, &histograms.trim, worker.seconds),
            flush: Part::of(&worker.flush, &histograms.flush, worker.seconds),
        }
        .split_earlier();
        group.count_flushes();
        group
    }
}

/// The groups of a result, in the order of its job.
pub(crate) fn groups(result: &RunResult) -> Vec<Group<'_>> {
    let apart = result.schema_version >= FLUSHES_APART_SINCE;
    let counted = |w: &WorkerResult| {
        let flushes = if apart { 0 } else { w.flush.ios };
        w.read.ios + w.write.ios + w.trim.ios + flushes == w.ios
    };
    let known = !result.workers.is_empty() && result.workers.iter().all(counted);
    match planned(result).filter(|_| known) {
        Some(groups) => groups,
        None => vec![whole(result)],
    }
}

/// Groups by the document of the job, if its numbers of workers are those of the result.
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
            workers.iter().for_each(|w| part.add(direction(w), histograms(of)(w), w.seconds));
            part
        };
        let group = Group {
            name: name.to_owned(),
            workers,
            per_volume,
            workload,
            figures,
            begins,
            read: part(|worker| &worker.read, |h| &h.read),
            write: part(|worker| &worker.write, |h| &h.write),
            trim: part(|worker| &worker.trim, |h| &h.trim),
            flush: part(|worker| &worker.flush, |h| &h.flush),
        };
        found.push(group.split_earlier());
    }
    rest.is_empty().then_some(found)
}

/// Everything as one group.
pub(crate) fn whole(result: &RunResult) -> Group<'_> {
    let part = |direction: &Direction, buckets: &Buckets| {
        let mut part = Part::default();
        part.add(direction, buckets.clone(), result.totals.seconds);
        part
    };
    let totals = &result.totals;
    let group = Group {
        name: result.job.name.clone(),
        workers: &result.workers,
        per_volume: 1,
        workload: result.spec.pointer("/steps/0/groups/0/workload").unwrap_or(&Value::Null),
        figures: result.spec.pointer("/steps/0/groups/0/figures").unwrap_or(&Value::Null),
        begins: false,
        read: part(&totals.read, &result.histograms.read),
        write: part(&totals.write, &result.histograms.write),
        trim: part(&totals.trim, &result.histograms.trim),
        flush: part(&totals.flush, &result.histograms.flush),
    };
    group.split_earlier()
}

impl Part {
    /// Returns the figures of one direction of one worker.
    pub fn of(direction: &Direction, buckets: &Buckets, seconds: f64) -> Part {
        let mut part = Part::default();
        part.add(direction, buckets.clone(), seconds);
        part
    }

    /// Adds I/Os, and the seconds that they took. Rates are over the longest time: rates of jobs
    /// that begin and end at different times do not add up.
    fn add(&mut self, direction: &Direction, buckets: Buckets, seconds: f64) {
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
        self.moments = match (self.moments, latency.moments) {
            (Some(a), Some(b)) => Some(a.most(b)),
            (a, b) => a.or(b),
        };
        self.ios += direction.ios;
        self.errors += direction.errors;
        self.bytes += direction.bytes;
        self.seconds = self.seconds.max(lasted(direction, seconds));
        match self.seconds {
            // The duration is unknown.
            0.0 => {
                self.iops += direction.iops;
                self.bytes_per_second += direction.bytes_per_second;
            }
            seconds => {
                self.iops = self.ios as f64 / seconds;
                self.bytes_per_second = self.bytes as f64 / seconds;
            }
        }
        self.rates.add(&direction.each_second);
        match self.buckets.is_empty() {
            true => self.buckets = buckets,
            false => self.buckets.merge(&buckets),
        }
    }

    /// Adds the figures of another part.
    pub fn merge(&mut self, other: &Part) {
        let latency_ns = stats::Latency {
            samples: other.samples,
            min: (other.samples > 0).then_some(other.min_ns),
            mean: (other.samples > 0).then_some(other.mean_ns),
            max: (other.samples > 0).then_some(other.max_ns),
            moments: other.moments,
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
        self.add(&direction, other.buckets.clone(), other.seconds);
    }
}

/// Returns a direction's duration, from its rate: reads that verify have a different duration.
/// Without a rate, that of the worker.
fn lasted(direction: &Direction, seconds: f64) -> f64 {
    match direction.ios > 0 && direction.iops > 0.0 {
        true => direction.ios as f64 / direction.iops,
        false => seconds,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn direction(ios: u64, seconds: f64) -> Direction {
        let iops = ios as f64 / seconds;
        let (bytes, bytes_per_second) = (ios * 512, iops * 512.0);
        Direction { ios, iops, bytes, bytes_per_second, ..Direction::default() }
    }

    #[test]
    fn jobs_that_end_apart_have_one_rate() {
        let none = Buckets::default();
        let [mut one, other] =
            [(100, 1.0), (300, 3.0)].map(|(ios, s)| Part::of(&direction(ios, s), &none, s));
        one.merge(&other);
        assert_eq!(
            (one.ios, one.iops.round(), one.bytes_per_second.round()),
            (400, 133.0, 68267.0)
        );
        // A worker that ran longer without an I/O of this kind.
        one.merge(&Part::of(&Direction::default(), &none, 4.0));
        assert_eq!(one.iops, 100.0);
    }
}
