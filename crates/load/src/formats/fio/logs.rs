//! The logs that fio writes while it runs: which of them are wanted, and in what ours differ.

use super::convert::Converter;
use super::job::FioJob;
use super::settings::Settings;
use super::value;
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::spec;

/// What a job says about its logs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logs {
    /// `write_bw_log`.
    pub bandwidth: Log,
    /// `write_iops_log`.
    pub iops: Log,
    /// `write_lat_log`.
    pub latency: Log,
    /// Length of what a line stands for, `log_avg_msec`; a line for each I/O if 0.
    pub average_ms: u64,
    /// Lines of single I/Os have a column for their place, `log_offset`.
    pub offsets: bool,
    /// Of latencies the longest of a window stands in its line, `log_max_value`.
    pub longest: bool,
    /// `write_hist_log`.
    pub histograms: Log,
    /// Length of what a histogram stands for, `log_hist_msec`; there is none if 0.
    pub histogram_ms: u64,
    /// How often buckets are joined in pairs, `log_hist_coarseness`: 0 to 6.
    pub coarseness: u8,
    /// `write_iolog`.
    pub trace: Option<String>,
    /// One log for all jobs of one name, `per_job_logs=0`.
    pub joined: bool,
}

/// Whether a log is wanted, and its name where it is not that of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    wanted: bool,
    name: Option<String>,
}

impl Log {
    /// A word without a name leaves the one that a section of defaults gave.
    fn want(&mut self, value: Option<&str>) {
        self.wanted = true;
        if let Some(name) = value.filter(|name| !name.is_empty()) {
            self.name = Some(name.to_owned());
        }
    }

    fn name(&self, job: &FioJob) -> Option<String> {
        self.wanted.then(|| self.name.as_ref().unwrap_or(&job.name).clone())
    }
}

/// The words; `None` where it is none of them.
pub(super) fn take(
    name: &str,
    value: Option<&str>,
    settings: &mut Settings,
) -> Option<Result<(), String>> {
    let logs = &mut settings.logs;
    match name {
        "write_bw_log" => logs.bandwidth.want(value),
        "write_iops_log" => logs.iops.want(value),
        "write_lat_log" => logs.latency.want(value),
        "write_hist_log" => logs.histograms.want(value),
        "log_hist_msec" => {
            let read = value::number(value.unwrap_or_default());
            return Some(read.map(|ms| logs.histogram_ms = ms));
        }
        "log_hist_coarseness" => {
            let read = value::number(value.unwrap_or_default()).and_then(|number| match number {
                0..=6 => Ok(number),
                _ => Err(format!("{number} is not 0 to 6")),
            });
            return Some(read.map(|number| logs.coarseness = number));
        }
        "log_avg_msec" => {
            let read = value::number(value.unwrap_or_default());
            return Some(read.map(|ms| logs.average_ms = ms));
        }
        "log_offset" => return Some(value::switch(value).map(|on| logs.offsets = on)),
        "log_window_value" => return Some(longest(value).map(|on| logs.longest = on)),
        "write_iolog" => logs.trace = value.filter(|name| !name.is_empty()).map(str::to_owned),
        "per_job_logs" => {
            return Some(value::switch(value).map(|apart| logs.joined = !apart));
        }
        _ => return None,
    }
    Some(Ok(()))
}

/// Reads `log_window_value=`: whether it is the longest.
fn longest(value: Option<&str>) -> Result<bool, String> {
    match value {
        Some("avg" | "0") => Ok(false),
        None | Some("max" | "1") => Ok(true),
        Some(text @ ("both" | "2")) => Err(format!("{text} is not supported: take avg or max")),
        Some(text) => Err(format!("'{text}' is none of avg, max")),
    }
}

/// The logs of so many jobs from a number on, and notes on them.
pub(super) fn logs(
    converter: &mut Converter<'_>,
    job: &FioJob,
    first: u32,
    jobs: u32,
) -> spec::Logs {
    let asked = &job.settings.logs;
    let [bandwidth, iops, latency] =
        [&asked.bandwidth, &asked.iops, &asked.latency].map(|log| log.name(job));
    let (window_ms, coarseness) = (asked.histogram_ms, asked.coarseness);
    let histograms = asked.histograms.name(job);
    let histograms = histograms.map(|name| spec::HistogramLog { name, window_ms, coarseness });
    let named = [&bandwidth, &iops, &latency, &asked.trace];
    if named.into_iter().all(Option::is_none) && histograms.is_none() {
        return spec::Logs::default();
    }
    if latency.is_some() {
        let paced = job.settings.rate_ios != [0; 3] || job.settings.rate_bytes != [0; 3];
        let planned =
            if paced { "; with a rate, latencies count from the planned starts" } else { "" };
        let why = format!(
            "no _slat log: submission is not measured apart, and _clat says the same as \
             _lat{planned}"
        );
        converter.note(job, "write_lat_log", Differs, &why);
    }
    let lines = [&bandwidth, &iops, &latency].into_iter().any(Option::is_some);
    if asked.joined && (lines || histograms.is_some()) {
        let why = "each run begins the log anew, and lines of its jobs come as they happen; fio \
                   adds each job's to what is there";
        converter.note(job, "per_job_logs", Differs, why);
    }
    spec::Logs {
        bandwidth,
        iops,
        latency,
        window_ms: asked.average_ms,
        offsets: asked.offsets,
        longest: asked.longest,
        trace: trace(converter, job),
        histograms,
        first,
        jobs,
        joined: asked.joined,
    }
}

/// The trace of a job, if it is the only one that writes it.
fn trace(converter: &mut Converter<'_>, job: &FioJob) -> Option<String> {
    let name = job.settings.logs.trace.clone()?;
    if !job.settings.replays.files.is_empty() {
        let why = "as with fio, a job that replays a trace writes none";
        converter.note(job, "write_iolog", Ignored, why);
        return None;
    }
    if job.settings.clones > 1 || !converter.traced.insert(name.clone()) {
        let why = "fio writes the traces of several jobs one behind the other and replays only the \
                   first: give each job, without clones, a trace of its own";
        converter.refuse(job, "write_iolog", why);
    }
    converter.note(job, "write_iolog", Differs, "each run begins the trace anew; fio adds to it");
    Some(name)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_word_without_a_name_leaves_the_one_before() {
        let mut settings = Settings::default();
        for (name, value) in [
            ("write_bw_log", None),
            ("write_iops_log", Some("x/y")),
            ("write_iops_log", None),
            ("log_avg_msec", Some("500")),
            ("per_job_logs", Some("0")),
        ] {
            assert_eq!(take(name, value, &mut settings), Some(Ok(())), "{name}");
        }
        let Logs { bandwidth, iops, latency, average_ms, joined, .. } = settings.logs.clone();
        assert_eq!(bandwidth, Log { wanted: true, name: None });
        assert_eq!(iops, Log { wanted: true, name: Some("x/y".to_owned()) });
        assert_eq!((latency, average_ms, joined), (Log::default(), 500, true));
        assert!(take("log_avg_msec", None, &mut settings).unwrap().is_err());
        let coarse = |text| take("log_hist_coarseness", Some(text), &mut Settings::default());
        assert_eq!(coarse("6"), Some(Ok(())));
        assert_eq!(coarse("7"), Some(Err("7 is not 0 to 6".to_owned())));
        assert_eq!(take("log_prio", Some("1"), &mut settings), None);
    }
}
