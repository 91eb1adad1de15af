//! The logs that fio writes while it runs: which of them are wanted, and in what ours differ.

use super::convert::Converter;
use super::job::FioJob;
use super::settings::Settings;
use super::value;
use crate::formats::note::Treatment::Differs;
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
        "log_avg_msec" => {
            let read = value::number(value.unwrap_or_default());
            return Some(read.map(|ms| logs.average_ms = ms));
        }
        "per_job_logs" => {
            return Some(value::switch(value).map(|apart| logs.joined = !apart));
        }
        _ => return None,
    }
    Some(Ok(()))
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
    let words =
        [("write_bw_log", &bandwidth), ("write_iops_log", &iops), ("write_lat_log", &latency)];
    let wanted = words.into_iter().find(|(_, name)| name.is_some());
    let Some((word, _)) = wanted else { return spec::Logs::default() };
    match asked.average_ms {
        1000 => {}
        0 => {
            let why = "a point for each second, as with log_avg_msec=1000; not for each I/O";
            converter.note(job, word, Differs, why);
        }
        ms => {
            let why = format!("a point for each second, not for each {ms} ms");
            converter.note(job, "log_avg_msec", Differs, &why);
        }
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
    if asked.joined {
        let why = "each run begins the log anew; fio adds to what is there";
        converter.note(job, "per_job_logs", Differs, why);
    }
    spec::Logs { bandwidth, iops, latency, first, jobs, joined: asked.joined }
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
        let Logs { bandwidth, iops, latency, average_ms, joined } = settings.logs.clone();
        assert_eq!(bandwidth, Log { wanted: true, name: None });
        assert_eq!(iops, Log { wanted: true, name: Some("x/y".to_owned()) });
        assert_eq!((latency, average_ms, joined), (Log::default(), 500, true));
        assert!(take("log_avg_msec", None, &mut settings).unwrap().is_err());
        assert_eq!(take("write_hist_log", Some("x"), &mut settings), None);
    }
}
