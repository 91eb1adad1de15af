//! Hosts of a merged result: times, figures, and the slowest.

use std::io::{self, Write};

use stats::{CommonWindow, HostApart, HostResult, RunResult, ServerResult};

use crate::figure;
use crate::style::Paint;

/// Width of a label at the beginning of a line.
const LABEL: usize = 9;
/// Hosts that a table shows: of more, the slowest ones.
const ROWS_MAX: usize = 16;
/// Hosts that are named as apart.
const NAMED_MAX: usize = 4;
/// Longest name that is shown whole.
const NAME: usize = 16;
/// A host below this share of the median is named as slow.
const SLOW: f64 = 0.9;

/// Writes the lines of hosts; nothing for the result of one process.
pub(crate) fn write(result: &RunResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    if result.hosts.is_empty() {
        return Ok(());
    }
    if let Some(window) = &result.common_window {
        writeln!(out, "\n{:LABEL$}{}", "hosts", together(result.hosts.len(), window))?;
    }
    let mut rows: Vec<&HostResult> = result.hosts.iter().collect();
    if rows.len() > ROWS_MAX {
        rows.sort_by(|a, b| a.iops.total_cmp(&b.iops));
        rows.truncate(ROWS_MAX);
    }
    let head = format!(
        "{:NAME$} {:>13} {:>11} {:>9} {:>9} {:>9} {:>7}",
        "host", "rate", "data", "mean", "max", "began", "errors"
    );
    writeln!(out, "{}", paint.dim(&head))?;
    for host in &rows {
        let began = format!("+{}", figure::span(host.start_skew_ns as f64));
        writeln!(
            out,
            "{:NAME$} {:>13} {:>11} {:>9} {:>9} {began:>9} {:>7}",
            shortened(&host.name),
            figure::iops(host.iops),
            figure::bytes_per_second(host.bytes_per_second),
            figure::mean(&host.latency_ns),
            figure::bound(&host.latency_ns, host.latency_ns.max),
            host.errors,
        )?;
    }
    if result.hosts.len() > rows.len() {
        let more = result.hosts.len() - rows.len();
        writeln!(out, "{}", paint.dim(&format!("and {more} faster ones: --json has all")))?;
    }
    let judged = result.checks.iter().any(|check| check.code == "M04");
    if let Some(words) = slowest(&result.hosts).filter(|_| !judged) {
        writeln!(out, "{:LABEL$}{}", "slowest", paint.yellow(&words))?;
    }
    for (host, apart) in apart(&result.hosts) {
        let than = if apart.off_percent < 0.0 { "slower" } else { "faster" };
        let words = format!(
            "{}: {:.0} % {than} than the others, and noise explains {:.1} %: {}",
            shortened(&host.name),
            apart.off_percent.abs(),
            apart.noise_percent,
            apart.why
        );
        writeln!(out, "{:LABEL$}{}", "apart", paint.yellow(&words))?;
    }
    for server in result.servers.iter().take(ROWS_MAX) {
        let line = match &server.lost {
            Some(why) => paint.red(&format!("{} {why}", shortened(&server.name))),
            None => served(server),
        };
        writeln!(out, "{:LABEL$}{line}", "served")?;
    }
    match result.servers.len().saturating_sub(ROWS_MAX) {
        0 => Ok(()),
        more => writeln!(out, "{}", paint.dim(&format!("and {more} more: --json has all"))),
    }
}

/// Hosts that are apart from the others, the furthest first.
fn apart(hosts: &[HostResult]) -> Vec<(&HostResult, &HostApart)> {
    let mut all: Vec<(&HostResult, &HostApart)> =
        hosts.iter().filter_map(|host| Some((host, host.apart.as_ref()?))).collect();
    all.sort_by(|(_, a), (_, b)| b.off_percent.abs().total_cmp(&a.off_percent.abs()));
    all.truncate(NAMED_MAX);
    all
}

/// Volumes and portals of a host that served, with its CPU time.
fn served(server: &ServerResult) -> String {
    let count = |number: usize, one: &str| match number {
        1 => format!("1 {one}"),
        number => format!("{number} {one}s"),
    };
    let cores = server.target_cores.map(|used| format!(" · {used:.2} of {} CPUs", server.cores));
    let busy = server.cpu_percent.map(|cpu| format!(", host {cpu:.0} % busy"));
    format!(
        "{}: {} at {}{}{}",
        shortened(&server.name),
        count(server.volumes.len(), "volume"),
        count(server.portals.len(), "portal"),
        cores.unwrap_or_default(),
        busy.unwrap_or_default()
    )
}

fn together(hosts: usize, window: &CommonWindow) -> String {
    let bound = match window.clock_bound_ns {
        Some(0) => "one clock".to_owned(),
        Some(bound) => format!("clocks within {}", figure::span(bound as f64)),
        None => "clocks not disciplined".to_owned(),
    };
    format!(
        "{hosts} · together for {} ({:.2} %) · {bound}\n{:LABEL$}start skew {} · end skew {}",
        figure::seconds(window.seconds),
        window.overlap_percent,
        "",
        figure::span(window.start_skew_ns as f64),
        figure::span(window.end_skew_ns as f64),
    )
}

/// The slowest host, where it is clearly slower than the one in the middle.
fn slowest(hosts: &[HostResult]) -> Option<String> {
    let mut rates: Vec<&HostResult> = hosts.iter().collect();
    rates.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    let (first, middle) = (rates.first()?, rates.get(rates.len() / 2)?);
    if hosts.len() < 2 || middle.iops <= 0.0 || first.iops >= SLOW * middle.iops {
        return None;
    }
    let percent = first.iops / middle.iops * 100.0;
    let busy = first.cpu_percent.map(|cpu| format!(", its CPUs {cpu:.0} % busy"));
    let name = shortened(&first.name);
    Some(format!("{name}: {percent:.0} % of the median rate{}", busy.unwrap_or_default()))
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        None => name.to_owned(),
        Some(_) => {
            let kept: String = name.chars().take(NAME - 1).collect();
            format!("{kept}…")
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    fn host(name: &str, iops: f64) -> HostResult {
        let name = name.to_owned();
        HostResult { name, iops, cpu_percent: Some(99.0), ..HostResult::default() }
    }

    fn lines(result: &RunResult) -> String {
        let mut out = Vec::new();
        write(result, Paint::PLAIN, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn hosts_have_a_row_each_and_the_slow_one_is_named() {
        let mut result = sample::race();
        assert_eq!(lines(&result), "");
        result.hosts = vec![host("a", 1000.0), host("b", 1010.0), host("c", 500.0)];
        result.common_window = Some(CommonWindow {
            seconds: 9.9,
            overlap_percent: 99.0,
            start_skew_ns: 20_000,
            clock_bound_ns: Some(0),
            ..CommonWindow::default()
        });
        let text = lines(&result);
        assert!(text.contains("3 · together for 9.90 s (99.00 %) · one clock\n"), "{text}");
        assert!(text.contains("start skew 20.0 µs · end skew 0 ns"), "{text}");
        assert!(text.contains("slowest  c: 50 % of the median rate, its CPUs 99 % busy"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("IOPS")).count(), 3);
        let volumes = vec!["a".to_owned(), "b".to_owned()];
        let server = ServerResult { name: "z".to_owned(), cores: 4, volumes, ..Default::default() };
        let busy = ServerResult { target_cores: Some(0.5), cpu_percent: Some(12.5), ..server };
        let lost = ServerResult { lost: Some("is lost: silent".to_owned()), ..busy.clone() };
        result.servers = vec![busy, lost];
        let served = lines(&result);
        assert!(
            served.contains("served   z: 2 volumes at 0 portals · 0.50 of 4 CPUs, host 12 % busy")
        );
        assert!(served.contains("served   z is lost: silent"), "{served}");
        let why = "its CPUs are 99 % busy".to_owned();
        let apart = HostApart { off_percent: -49.6, noise_percent: 2.04, why };
        result.hosts[2].apart = Some(apart);
        let named = "apart    c: 50 % slower than the others, and noise explains 2.0 %: its CPUs";
        assert!(lines(&result).contains(named), "{}", lines(&result));
        result.hosts[2].apart = None;
        result.hosts[2].iops = 990.0;
        assert!(!lines(&result).contains("slowest"));
        result.hosts = (0..100).map(|n| host(&format!("node{n}"), 1000.0 + f64::from(n))).collect();
        let many = lines(&result);
        assert!(many.contains("and 84 faster ones") && many.contains("node0 "), "{many}");
        assert!(many.lines().all(|line| line.chars().count() <= 80), "{many}");
    }
}
