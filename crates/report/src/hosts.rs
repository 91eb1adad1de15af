//! Hosts of a merged result: times, figures, and the slowest.

use std::io::{self, Write};

use stats::{CommonWindow, HostResult, RunResult};

use crate::figure;
use crate::style::Paint;

/// Width of a label at the beginning of a line.
const LABEL: usize = 9;
/// Hosts that a table shows: of more, the slowest ones.
const ROWS_MAX: usize = 16;
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
    match slowest(&result.hosts) {
        Some(words) => writeln!(out, "{:LABEL$}{}", "slowest", paint.yellow(&words)),
        None => Ok(()),
    }
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
        result.hosts[2].iops = 990.0;
        assert!(!lines(&result).contains("slowest"));
        result.hosts = (0..100).map(|n| host(&format!("node{n}"), 1000.0 + f64::from(n))).collect();
        let many = lines(&result);
        assert!(many.contains("and 84 faster ones") && many.contains("node0 "), "{many}");
        assert!(many.lines().all(|line| line.chars().count() <= 80), "{many}");
    }
}
