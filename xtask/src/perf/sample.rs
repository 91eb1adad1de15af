//! Parses the figures of a run from the programs' outputs.

use std::fmt;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// The row's figure, in its unit.
    pub value: f64,
    /// Mean latency in microseconds.
    pub mean_us: Option<f64>,
    /// 99th percentile of latency in microseconds.
    pub p99_us: Option<f64>,
    /// CPU time of both sides per I/O, in microseconds.
    pub core_us: Option<f64>,
}

impl Sample {
    /// A figure without latencies.
    pub fn of(value: f64) -> Sample {
        Sample { value, ..Sample::default() }
    }

    /// Parses the result document of `drumfire run --json` and `race --json`.
    pub fn of_drumfire(json: &str) -> Result<Sample> {
        let result: Value = serde_json::from_str(json).context("the result is no JSON")?;
        let number = |path: &str| result.pointer(path).and_then(Value::as_f64);
        if number("/totals/errors") != Some(0.0) {
            bail!("the run had errors");
        }
        let value = number("/totals/iops").context("no totals.iops in the result")?;
        let micros = |path: &str| number(path).map(|ns| ns / 1e3);
        Ok(Sample {
            value,
            mean_us: micros("/totals/latency_ns/mean"),
            p99_us: micros("/totals/latency_ns/p99"),
            core_us: number("/cpu/core_us_per_io"),
        })
    }

    /// Parses the mean service time of an open loop, in microseconds, as the figure.
    pub fn of_service(json: &str) -> Result<Sample> {
        let result: Value = serde_json::from_str(json).context("the result is no JSON")?;
        let mean = result.pointer("/totals/paced/service_ns/mean").and_then(Value::as_f64);
        Ok(Sample::of(mean.context("no service time in the result")? / 1e3))
    }

    /// Parses the 99th percentile of an open loop's lag, in microseconds, as the figure.
    pub fn of_lag(json: &str) -> Result<Sample> {
        let result: Value = serde_json::from_str(json).context("the result is no JSON")?;
        let p99 = result.pointer("/totals/paced/lag_ns/p99").and_then(Value::as_f64);
        Ok(Sample::of(p99.context("no 99th percentile of the lag in the result")? / 1e3))
    }

    /// Parses the last line of iscsi-perf, after carriage returns.
    pub fn of_iscsi_perf(text: &str) -> Result<Sample> {
        let average = text.rsplit_once("iops average ").context("no average from iscsi-perf")?;
        let number = average.1.split(' ').next().unwrap_or_default();
        Ok(Sample::of(number.parse().context("the average of iscsi-perf is no number")?))
    }

    /// Parses the last line of spdk_nvme_perf's table: IOPS, MiB/s, and mean, minimum and maximum
    /// latency in microseconds.
    pub fn of_spdk_perf(text: &str) -> Result<Sample> {
        let total = text.lines().find(|line| line.starts_with("Total"));
        let total = total.context("no total from spdk_nvme_perf")?;
        let figures = total.split_whitespace().skip(2).map(str::parse);
        let figures: Vec<f64> = figures.collect::<Result<_, _>>().context("SPDK's total")?;
        let [iops, _, mean, ..] = figures[..] else { bail!("SPDK's total is short: {total}") };
        Ok(Sample { mean_us: Some(mean), ..Sample::of(iops) })
    }

    /// Parses the lines of fio's `t/io_uring`, one per second: the mean without the first.
    pub fn of_t_io_uring(text: &str) -> Result<Sample> {
        let figures = text.lines().filter_map(|line| line.strip_prefix("IOPS="));
        let figures: Vec<f64> = figures.skip(1).map(with_unit).collect::<Result<_>>()?;
        if figures.is_empty() {
            bail!("t/io_uring ended before its second second");
        }
        Ok(Sample::of(figures.iter().sum::<f64>() / figures.len() as f64))
    }

    /// Parses `fio --output-format=json` of a job that reads.
    pub fn of_fio(json: &str) -> Result<Sample> {
        let result: Value = serde_json::from_str(json).context("fio printed no JSON")?;
        let read = result.pointer("/jobs/0/read").context("no job in fio's result")?;
        let number = |path: &str| read.pointer(path).and_then(Value::as_f64);
        Ok(Sample {
            value: number("/iops").context("no iops in fio's result")?,
            mean_us: number("/lat_ns/mean").map(|ns| ns / 1e3),
            p99_us: number("/clat_ns/percentile/99.000000").map(|ns| ns / 1e3),
            core_us: None,
        })
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>12}", figure(self.value))?;
        match self.mean_us {
            Some(mean) => write!(f, "  mean {:>9} µs", figure(mean)),
            None => Ok(()),
        }
    }
}

/// Formats a number with its significant digits: 4,912,345 or 12.8 or 0.02.
pub fn figure(value: f64) -> String {
    if value.abs() < 10.0 {
        return format!("{value:.2}");
    }
    if value.abs() < 1000.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let groups: Vec<String> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| String::from_utf8_lossy(group).into_owned())
        .collect();
    groups.join(",")
}

/// Parses `239.17K, BW=…`.
fn with_unit(text: &str) -> Result<f64> {
    let number = text.split(',').next().unwrap_or_default();
    let (digits, factor) = match number.strip_suffix('K') {
        Some(digits) => (digits, 1e3),
        None => number.strip_suffix('M').map_or((number, 1.0), |digits| (digits, 1e6)),
    };
    Ok(digits.parse::<f64>().with_context(|| format!("`{number}` is no number of I/Os"))? * factor)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_our_result() {
        let json = r#"{"totals": {"errors": 0, "iops": 2e6, "latency_ns": {"mean": 8000.0,
            "p99": null}}, "cpu": {"core_us_per_io": 0.9}}"#;
        let sample = Sample::of_drumfire(json).unwrap();
        assert_eq!((sample.value, sample.mean_us, sample.p99_us), (2e6, Some(8.0), None));
        assert_eq!(sample.core_us, Some(0.9));
        assert!(Sample::of_drumfire(&json.replace("\"errors\": 0", "\"errors\": 3")).is_err());
        let json = r#"{"totals": {"paced": {"service_ns": {"mean": 160000.0},
            "lag_ns": {"p99": 39000.0}}}}"#;
        assert_eq!(Sample::of_service(json).unwrap(), Sample::of(160.0));
        assert_eq!(Sample::of_lag(json).unwrap(), Sample::of(39.0));
        assert!(Sample::of_drumfire("{}").is_err() && Sample::of_drumfire("IOPS").is_err());
    }

    #[test]
    fn reads_iscsi_perf() {
        let text = "will run for 2 seconds.\n\r00:00:01 - lba 4, iops current 4 (1 MB/s), iops \
                    average 4 (1 MB/s)  \riops average 45582 (178 MB/s)    \nfinished.\n";
        assert_eq!(Sample::of_iscsi_perf(text).unwrap(), Sample::of(45582.0));
        assert!(Sample::of_iscsi_perf("failed to connect").is_err());
    }

    #[test]
    fn reads_spdk_perf() {
        let text = "Device Information  :  IOPS\nTCP ... : 4 5 6\n\
                    Total                  :  482113.50    1883.26     132.68     91.03   961.19\n";
        let sample = Sample::of_spdk_perf(text).unwrap();
        assert_eq!((sample.value, sample.mean_us), (482113.5, Some(132.68)));
        assert!(Sample::of_spdk_perf("Total : 5").is_err() && Sample::of_spdk_perf("").is_err());
    }

    #[test]
    fn reads_t_io_uring() {
        let text = "Engine=io_uring\nIOPS=90, BW=0MiB/s\nIOPS=239.50K, BW=934MiB/s, IOS/call=1/1\n\
                    IOPS=1.25M, BW=9\nIOPS=500, BW=9\nMaximum IOPS=1.25M\n";
        let mean = (239_500.0 + 1_250_000.0 + 500.0) / 3.0;
        assert!((Sample::of_t_io_uring(text).unwrap().value - mean).abs() < 1e-6);
        assert!(Sample::of_t_io_uring("IOPS=90, BW=0\nMaximum IOPS=90\n").is_err());
        assert!(Sample::of_t_io_uring("IOPS=1K\nIOPS=x").is_err());
    }

    #[test]
    fn reads_fio() {
        let json = r#"{"jobs": [{"read": {"iops": 1500000.5, "lat_ns": {"mean": 200.0},
            "clat_ns": {"percentile": {"99.000000": 300}}}}]}"#;
        let sample = Sample::of_fio(json).unwrap();
        assert_eq!((sample.value, sample.mean_us), (1500000.5, Some(0.2)));
        assert_eq!(sample.p99_us, Some(0.3));
        assert!(Sample::of_fio("{\"jobs\": []}").is_err());
    }

    #[test]
    fn figures_have_the_digits_that_mean_something() {
        let figures = [4_912_345.4, 999.96, 12.84, 0.018].map(figure);
        assert_eq!(figures, ["4,912,345", "1000.0", "12.8", "0.02"]);
    }
}
