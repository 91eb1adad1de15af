//! A moment in the text form of Prometheus, version 0.0.4, and in that of OpenMetrics 1.0.0.

use std::fmt::Write as _;

use stats::live::{Counts, DirectionCounts, EDGES_NS, LiveCpu, Snapshot};
use stats::{Check, Latency, Verdict};

use super::{Moment, Served, Stage};

/// All metrics. Names and labels are a contract: dashboards rest on them.
pub fn metrics(moment: &Moment) -> String {
    let mut out = Out::default();
    let up = if moment.stage == Stage::Ended { 0.0 } else { 1.0 };
    out.one("drumfire_up", "1 while driving, serving or preparing, 0 after a run.", up);
    if let Some(now) = &moment.snapshot {
        out.origin(moment);
        out.rates(now);
        out.counts(&now.counts);
        out.latencies(&now.latency_ns);
        out.processors(&now.cpu);
    }
    out.checks(&moment.checks);
    if let Some(sweep) = &moment.sweep {
        out.one("drumfire_sweep_runs_done", "Completed runs of the sweep.", sweep.done as f64);
        let help = "Planned runs of the sweep.";
        out.one("drumfire_sweep_runs_planned", help, sweep.planned as f64);
    }
    if let Some(served) = &moment.served {
        out.served(served);
    }
    out.text
}

/// Writes all metrics as OpenMetrics: the name of a counter's family has no `_total`, and the text
/// has an end.
pub fn open_metrics(moment: &Moment) -> String {
    let mut text = String::new();
    for line in metrics(moment).lines() {
        let of_family = line.strip_prefix("# ").and_then(|rest| {
            let (keyword, rest) = rest.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            Some((keyword, name.strip_suffix("_total")?, rest))
        });
        // Writing to a string cannot fail.
        let _ = match of_family {
            Some((keyword, family, rest)) => writeln!(text, "# {keyword} {family} {rest}"),
            None => writeln!(text, "{line}"),
        };
    }
    text + "# EOF\n"
}

/// Labels and counters of a series.
type Series<'a> = (Vec<(&'a str, &'a str)>, &'a DirectionCounts);

impl Out {
    /// Writes the counters since the run began, by direction.
    fn counts(&mut self, of: &Counts) {
        let all: Vec<Series> =
            of.shown().map(|(name, of)| (vec![("direction", name)], of)).collect();
        let help = "Completed I/Os and flushes since the run began, the ramp included.";
        self.totals("drumfire_ios_total", help, &all, |of| of.ios);
        let help = "Bytes of completed I/Os since the run began, the ramp included.";
        self.totals("drumfire_bytes_total", help, &all, |of| of.bytes);
        let help = "Latency of I/Os and flushes since the run began.";
        self.histogram("drumfire_io_latency_seconds", help, &all);
    }

    /// Writes the counters of each volume since the server began, by direction.
    fn volumes(&mut self, served: &Served) {
        let volumes = served.volumes.iter();
        let all: Vec<Series> = volumes
            .filter_map(|of| Some((of.name.as_str(), of.counts.as_ref()?)))
            .flat_map(|(volume, of)| {
                let labels = move |name| vec![("volume", volume), ("direction", name)];
                of.shown().map(move |(name, of)| (labels(name), of))
            })
            .collect();
        if all.is_empty() {
            return;
        }
        let help = "I/Os of a served volume without a fault since the server began.";
        self.totals("drumfire_volume_ios_total", help, &all, |of| of.ios);
        let help = "Bytes of these I/Os.";
        self.totals("drumfire_volume_bytes_total", help, &all, |of| of.bytes);
        let help = "Failed I/Os of a served volume since the server began.";
        self.totals("drumfire_volume_errors_total", help, &all, |of| of.errors);
        let help = "Time from the receipt of a command to its answer, in the server.";
        self.histogram("drumfire_volume_latency_seconds", help, &all);
    }

    fn totals(
        &mut self,
        family: &str,
        help: &str,
        all: &[Series],
        count: impl Fn(&DirectionCounts) -> u64,
    ) {
        self.head(family, "counter", help);
        for (labels, of) in all {
            self.line(family, labels, count(of) as f64);
        }
    }

    fn histogram(&mut self, family: &str, help: &str, all: &[Series]) {
        self.head(family, "histogram", help);
        let [bucket, sum, count] = ["bucket", "sum", "count"].map(|end| format!("{family}_{end}"));
        for (labels, of) in all {
            let mut up_to = |edge: &str, count: u64| {
                let labels: Vec<_> = labels.iter().copied().chain([("le", edge)]).collect();
                self.line(&bucket, &labels, count as f64);
            };
            let mut seen = 0;
            for (edge_ns, count) in EDGES_NS.iter().zip(of.buckets) {
                seen += count;
                // A float in either form, so that both have the same label.
                up_to(&format!("{:?}", *edge_ns as f64 / 1e9), seen);
            }
            up_to("+Inf", of.samples);
            self.line(&sum, labels, of.latency_ns as f64 / 1e9);
            self.line(&count, labels, of.samples as f64);
        }
    }

    fn rates(&mut self, now: &Snapshot) {
        self.one("drumfire_iops", "I/Os per second, of the last second.", now.iops);
        let help = "Flushes per second, of the last second; they are no I/Os.";
        self.one("drumfire_flushes_per_second", help, now.flush_iops);
        self.one(
            "drumfire_bytes_per_second",
            "Bytes per second, of the last second.",
            now.bytes_per_second,
        );
        self.one("drumfire_outstanding", "I/Os in flight, on average.", now.outstanding);
        if let Some(oldest) = now.oldest_ns {
            let help = "Age of the oldest I/O in flight.";
            self.one("drumfire_oldest_seconds", help, oldest as f64 / 1e9);
        }
        let help = "Failed I/Os since the run began.";
        self.count("drumfire_errors_total", help, now.errors);
        let help = "Connections lost since the run began.";
        self.count("drumfire_connections_lost_total", help, now.connections_lost);
        let help = "Reconnections since the run began.";
        self.count("drumfire_reconnects_total", help, now.reconnects);
        if let Some(left) = now.seconds_left {
            self.one("drumfire_seconds_left", "Time to the end of the phase.", left);
        }
        self.head("drumfire_target_iops", "gauge", "I/Os per second of a target or volume.");
        for target in &now.targets {
            self.line("drumfire_target_iops", &[("target", &target.name)], target.iops);
        }
    }

    fn latencies(&mut self, of: &Latency) {
        self.head("drumfire_latency_seconds", "gauge", "Latency of the last second's I/Os.");
        let shares = [("50", of.p50), ("99", of.p99), ("99.9", of.p99_9), ("100", of.max)];
        // A percentile of too few I/Os is left out, not 0.
        for (share, ns) in shares.into_iter().filter_map(|(share, ns)| Some((share, ns?))) {
            self.line("drumfire_latency_seconds", &[("percentile", share)], ns as f64 / 1e9);
        }
        if let Some(mean) = of.mean {
            let help = "Mean latency of the last second's I/Os.";
            self.one("drumfire_latency_mean_seconds", help, mean / 1e9);
        }
    }

    fn processors(&mut self, cpu: &LiveCpu) {
        self.head("drumfire_cpu_cores", "gauge", "CPU seconds per second of an end.");
        for (end, cores) in [("initiator", cpu.initiator_cores), ("target", cpu.target_cores)] {
            if let Some(cores) = cores {
                self.line("drumfire_cpu_cores", &[("end", end)], cores);
            }
        }
        let help = "Busy share of a logical processor, 0 to 1.";
        self.head("drumfire_core_busy_ratio", "gauge", help);
        for (core, percent) in cpu.per_core_percent.iter().enumerate() {
            self.line("drumfire_core_busy_ratio", &[("core", &core.to_string())], percent / 100.0);
        }
    }

    fn checks(&mut self, checks: &[Check]) {
        if checks.is_empty() {
            return;
        }
        let help = "Honesty checks that apply: 1 passed, 0 failed, 0.5 warning or unknown.";
        self.head("drumfire_check_passed", "gauge", help);
        for check in checks {
            let value = match check.verdict {
                Verdict::DoesNotApply => continue,
                Verdict::Pass => 1.0,
                Verdict::Fail => 0.0,
                Verdict::Warn | Verdict::Unknown => 0.5,
            };
            self.line("drumfire_check_passed", &[("check", &check.code)], value);
        }
    }

    fn served(&mut self, served: &Served) {
        self.one("drumfire_connections", "Connections of hosts.", served.connections as f64);
        let [used, most] = served.memory_bytes.map(|bytes| bytes as f64);
        self.one("drumfire_connection_memory_bytes", "Memory used by connections.", used);
        let help = "Memory limit of connections.";
        self.one("drumfire_connection_memory_limit_bytes", help, most);
        if let Some(cores) = served.cores {
            let help = "CPU seconds per second of the serving threads.";
            self.one("drumfire_serve_cpu_cores", help, cores);
        }
        self.head("drumfire_volume_bytes", "gauge", "Size of a served volume.");
        for of in &served.volumes {
            self.line("drumfire_volume_bytes", &[("volume", &of.name)], of.bytes as f64);
        }
        self.head("drumfire_volume_connections", "gauge", "Connections that use a served volume.");
        for of in &served.volumes {
            let labels = [("volume", of.name.as_str())];
            self.line("drumfire_volume_connections", &labels, of.connections as f64);
        }
        let help = "Connections of a host, by its IQN, NQN or address.";
        self.head("drumfire_host_connections", "gauge", help);
        for of in &served.hosts {
            let labels = [("host", of.name.as_str())];
            self.line("drumfire_host_connections", &labels, of.connections as f64);
        }
        self.volumes(served);
    }
}

#[derive(Default)]
struct Out {
    text: String,
}

impl Out {
    /// Writes where the figures of a run come from: a dashboard shows emulated ones like others.
    fn origin(&mut self, moment: &Moment) {
        let help = "The run: its figures are measured, emulated or simulated, by the label origin.";
        self.head("drumfire_run_info", "gauge", help);
        let labels = [("run", &*moment.about.job.name), ("origin", moment.about.origin.word())];
        self.line("drumfire_run_info", &labels, 1.0);
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn one(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, "gauge", help);
        self.line(name, &[], value);
    }

    fn count(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.line(name, &[], value as f64);
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text += name;
        if !labels.is_empty() {
            let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escaped(value));
            let labels: Vec<String> = labels.iter().map(label).collect();
            let _ = write!(self.text, "{{{}}}", labels.join(","));
        }
        // Rust writes infinities as the form wants them, but for their sign and NaN's letters.
        let value = match value {
            v if v.is_nan() => "NaN".to_owned(),
            f64::INFINITY => "+Inf".to_owned(),
            f64::NEG_INFINITY => "-Inf".to_owned(),
            v => v.to_string(),
        };
        let _ = writeln!(self.text, " {value}");
    }
}

/// A value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod test;
