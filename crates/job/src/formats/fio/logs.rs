//! Logs that fio writes during a run: the requested ones, and the differences of ours.

use super::convert::Converter;
use super::job::FioJob;
use super::option::{Part, Row, Word, Wrong, sets, some_word, switch, word_if};
use super::write::Written;
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::spec::{self, Group};

/// Log options of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logs {
    /// `write_bw_log`.
    pub bandwidth: Log,
    /// `write_iops_log`.
    pub iops: Log,
    /// `write_lat_log`.
    pub latency: Log,
    /// Interval that a line covers, `log_avg_msec`; a line for each I/O if 0.
    pub average_ms: u64,
    /// True if lines of single I/Os have a column for their offset, `log_offset`.
    pub offsets: bool,
    /// True if a line has the maximum latency of its window, `log_max_value`.
    pub longest: bool,
    /// `write_hist_log`.
    pub histograms: Log,
    /// Interval that a histogram covers, `log_hist_msec`; there is none if 0.
    pub histogram_ms: u64,
    /// Number of times that buckets are merged in pairs, `log_hist_coarseness`: 0 to 6.
    pub coarseness: u8,
    /// `write_iolog`.
    pub trace: Option<String>,
    /// True for one log for all jobs of one name, `per_job_logs=0`.
    pub joined: bool,
}

/// Request for a log, with its name if it is not that of the job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    wanted: bool,
    name: Option<String>,
}

impl Log {
    /// Requests the log; an option without a name leaves the one from a section of defaults.
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

/// A row of a log, whose name is optional.
macro_rules! log {
    ($name:literal, $log:ident, |$of:ident| $named:expr) => {
        Row::new(&[$name], false, |settings, given| {
            settings.logs.$log.want(given.text);
            Ok(None)
        })
        .writes(|w| {
            let $of = &w.group.logs;
            some_word($named)
        })
    };
}

/// The options of logs.
pub(super) const ROWS: &[Row] = &[
    log!("write_bw_log", bandwidth, |logs| logs.bandwidth.as_ref()),
    log!("write_iops_log", iops, |logs| logs.iops.as_ref()),
    log!("write_lat_log", latency, |logs| logs.latency.as_ref()),
    sets!("log_avg_msec", logs.average_ms, |v| v.number()?)
        .writes(|w| lines_word(w, w.group.logs.window_ms))
        .tells(Part::Logs, told),
    log!("write_hist_log", histograms, |logs| logs.histograms.as_ref().map(|log| &log.name)).tells(
        Part::Logs,
        |group| {
            let log = group.logs.histograms.as_ref()?;
            let (name, number, window) = (&log.name, number(&group.logs), log.window_ms);
            let coarse = match log.coarseness {
                0 => String::new(),
                coarse => format!(", {} buckets merged", 1 << coarse),
            };
            let file = format!("histograms {name}_clat_hist{number}.log");
            Some(format!("{file}, a line every {window} ms{coarse}"))
        },
    ),
    sets!("log_hist_msec", logs.histogram_ms, |v| v.number()?)
        .writes(|w| some_word(w.group.logs.histograms.as_ref().map(|log| log.window_ms))),
    sets!("log_hist_coarseness", logs.coarseness, |v| match v.number()? {
        number @ 0..=6 => number,
        number => return Err(format!("{number} is out of range: 0 to 6").into()),
    })
    .writes(|w| some_word(w.group.logs.histograms.as_ref().map(|log| log.coarseness))),
    switch!("log_offset", logs.offsets).writes(|w| lines_word(w, w.group.logs.offsets.into())),
    sets!("log_max_value|log_window_value", logs.longest, |v| longest(v.text)?)
        .writes(|w| lines_word(w, w.group.logs.longest.into())),
    sets!("write_iolog", logs.trace, |v| v.name())
        .writes(|w| some_word(w.group.logs.trace.as_ref()))
        .tells(Part::Logs, |group| group.logs.trace.as_ref().map(|path| format!("trace {path}"))),
    sets!("per_job_logs", logs.joined, |v| !v.switch()?)
        .writes(|w| lines_word(w, (!w.group.logs.joined).into())),
];

/// Writes the value if there are logs.
fn lines_word(w: &Written<'_>, value: u64) -> Word {
    word_if(w.group.logs.names().next().is_some(), value)
}

/// Returns the job numbers in the names of logs, which are fio's numbers in the file.
fn number(logs: &spec::Logs) -> String {
    match (logs.joined, logs.jobs) {
        (true, _) => String::new(),
        (false, 1) => format!(".{}", logs.first),
        (false, jobs) => format!(".{}…{}", logs.first, logs.first.saturating_add(jobs - 1)),
    }
}

fn told(group: &Group) -> Option<String> {
    let (logs, number) = (&group.logs, number(&group.logs));
    let words = [
        ("_bw", &logs.bandwidth),
        ("_iops", &logs.iops),
        ("_lat", &logs.latency),
        ("_clat", &logs.latency),
    ];
    let all = words.into_iter().flat_map(|(word, name)| name.iter().map(move |name| (name, word)));
    let all: Vec<String> = all.map(|(name, word)| format!("{name}{word}{number}.log")).collect();
    let line = match logs.window_ms {
        0 => "per I/O".to_owned(),
        ms => format!("every {ms} ms"),
    };
    let offsets = if logs.offsets { ", with offsets" } else { "" };
    let longest = if logs.longest { ", with maximum latencies" } else { "" };
    let all = (!all.is_empty()).then(|| all.join(", "));
    all.map(|all| format!("logs {all}, a line {line}{offsets}{longest}"))
}

/// Reads `log_window_value=`: true for the maximum.
fn longest(value: Option<&str>) -> Result<bool, Wrong> {
    match value {
        Some("avg" | "0") => Ok(false),
        None | Some("max" | "1") => Ok(true),
        Some(text @ ("both" | "2")) => {
            Err(Wrong::Unsupported(format!("{text} is not supported: use avg or max")))
        }
        Some(text) => Err(format!("unknown value '{text}': one of avg, max").into()),
    }
}

/// Returns the logs of `jobs` jobs from the number `first` on, with notes on them.
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
    let trace = trace(converter, job);
    let named = [&bandwidth, &iops, &latency, &trace];
    if named.into_iter().all(Option::is_none) && histograms.is_none() {
        return spec::Logs::default();
    }
    if latency.is_some() {
        let paced = job.settings.rate_ios != [0; 3] || job.settings.rate_bytes != [0; 3];
        let planned =
            if paced { "; with a rate, latencies are measured from the planned start" } else { "" };
        let why = format!(
            "the _slat log is empty, as with fio's synchronous engines: submission is not \
             measured separately, and _clat equals _lat{planned}"
        );
        converter.note(job, "write_lat_log", Differs, &why);
    }
    let lines = [&bandwidth, &iops, &latency].into_iter().any(Option::is_some);
    if asked.joined && (lines || histograms.is_some()) {
        let why = "each run overwrites the log, and the lines of its jobs are in order of time; \
                   fio appends the lines of each job to the existing file";
        converter.note(job, "per_job_logs", Differs, why);
    }
    spec::Logs {
        bandwidth,
        iops,
        latency,
        window_ms: asked.average_ms,
        offsets: asked.offsets,
        longest: asked.longest,
        trace,
        histograms,
        first,
        jobs,
        joined: asked.joined,
    }
}

/// Returns the trace of a job, if no other job writes it.
fn trace(converter: &mut Converter<'_>, job: &FioJob) -> Option<String> {
    let name = job.settings.logs.trace.clone()?;
    if !job.settings.replays.files.is_empty() {
        let why = "a job that replays a trace does not write one, as in fio";
        converter.note(job, "write_iolog", Ignored, why);
        return None;
    }
    if job.settings.clones > 1 || !converter.traced.insert(name.clone()) {
        let why = "fio writes the traces of several jobs one after the other and replays only the \
                   first: use a separate file for each job, without numjobs";
        converter.refuse(job, "write_iolog", why);
    }
    converter.note(job, "write_iolog", Differs, "each run overwrites the trace; fio appends to it");
    Some(name)
}

#[cfg(test)]
mod test {
    use super::super::settings::Settings;
    use super::super::test::take;
    use super::*;

    #[test]
    fn a_word_without_a_name_leaves_the_one_before() {
        let mut settings = Settings::usual();
        for (name, value) in [
            ("write_bw_log", None),
            ("write_iops_log", Some("x/y")),
            ("write_iops_log", None),
            ("log_avg_msec", Some("500")),
            ("per_job_logs", Some("0")),
        ] {
            assert!(take(name, value, &mut settings).is_ok(), "{name}");
        }
        let Logs { bandwidth, iops, latency, average_ms, joined, .. } = settings.logs.clone();
        assert_eq!(bandwidth, Log { wanted: true, name: None });
        assert_eq!(iops, Log { wanted: true, name: Some("x/y".to_owned()) });
        assert_eq!((latency, average_ms, joined), (Log::default(), 500, true));
        assert!(take("log_avg_msec", None, &mut settings).is_err());
        let coarse = |text| take("log_hist_coarseness", Some(text), &mut Settings::usual());
        assert_eq!(coarse("6"), Ok(()));
        assert_eq!(coarse("7").unwrap_err().why, "7 is out of range: 0 to 6");
    }
}
