//! One line per second, for pipes and plain terminals.

use std::io::Write;

use stats::live::{About, Action, Live, Phase, Snapshot};

use crate::connections;
use crate::figure;
use crate::job;

/// Writes one line per second to a stream, usually stderr.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
    cores: u32,
    /// Slower hosts that were named last.
    slower: Vec<String>,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Lines<W> {
        Lines { out, cores: 0, slower: Vec::new() }
    }

    fn write(&mut self, line: &str) {
        // A reader that went away must not end the run.
        let _ = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
    }
}

impl<W: Write> Live for Lines<W> {
    fn start(&mut self, about: &About) {
        self.cores = about.cores;
        self.write(&heading(about));
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        self.write(&line(snapshot, self.cores));
        if self.slower != snapshot.slower {
            snapshot.slower.iter().for_each(|words| self.write(&format!("      {words}")));
            self.slower.clone_from(&snapshot.slower);
        }
        Action::Continue
    }
}

/// A job of another tool that ends when all is done may take so long.
const MONTH_SECONDS: f64 = 30.0 * 86_400.0;

/// Returns the first line: the job, its duration, and the origin of the numbers.
pub fn heading(about: &About) -> String {
    let job = &about.job;
    let name = if job.name.is_empty() { "run" } else { &job.name };
    let ramp = match job.ramp_seconds {
        s if s > 0.0 => format!(" after {} of ramp", figure::seconds(s)),
        _ => String::new(),
    };
    let length = match job.seconds {
        s if s >= MONTH_SECONDS => "30 days at most".to_owned(),
        s => figure::seconds(s),
    };
    format!("{name}: {} · {} · {length}{ramp}", job::kind(job), about.origin.with(about.kind))
}

/// An I/O that has waited for as long as the second that is shown is in none of its figures.
const WAITS_NS: u64 = 1_000_000_000;

/// The line for one second on a host of `cores` logical processors (0: not known).
pub fn line(snapshot: &Snapshot, cores: u32) -> String {
    let latency = &snapshot.latency_ns;
    let mut line = format!(
        "{:>3.0}s  {}  {}  p50 {} p99 {}",
        snapshot.t_s,
        figure::iops(snapshot.iops),
        figure::bytes_per_second(snapshot.bytes_per_second),
        figure::bound(latency, latency.p50),
        figure::bound(latency, latency.p99),
    );
    if let Some(used) = snapshot.cpu.cores() {
        line += &format!("  CPU {used:.2}");
        if cores > 0 {
            line += &format!(" of {cores}");
        }
    }
    if snapshot.flush_iops > 0.0 {
        line += &format!("  {} flushes/s", figure::rate(snapshot.flush_iops));
    }
    if snapshot.errors > 0 {
        line += &format!("  {} so far", figure::plural(snapshot.errors, "error"));
    }
    if let Some(words) = connections::so_far(snapshot) {
        line += &format!("  {words} so far");
    }
    if let Some(ns) = snapshot.oldest_ns.filter(|ns| *ns >= WAITS_NS) {
        line += &format!("  one waits for {}", figure::latency(Some(ns)));
    }
    if snapshot.phase != Phase::Run {
        line += &format!("  ({})", snapshot.phase.word());
    }
    line
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    #[test]
    fn one_line_per_second() {
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out);
        lines.start(&sample::about());
        let ramp = Snapshot { t_s: 1.0, phase: Phase::Ramp, errors: 2, ..Snapshot::default() };
        assert_eq!(lines.update(&ramp), Action::Continue);
        lines.update(&sample::snapshot());
        let mut again = Snapshot { t_s: 2.0, connections_lost: 3, ..Snapshot::default() };
        again.phase = Phase::Run;
        lines.update(&again);
        again.reconnects = 2;
        lines.update(&again);
        let (oldest_ns, t_s) = (Some(3_210_000_000), 4.0);
        lines.update(&Snapshot { t_s, oldest_ns, phase: Phase::Run, ..Snapshot::default() });
        let slower = vec!["b is 50 % slower than the others: no reason is known".to_owned()];
        let oldest_ns = Some(999_999_999);
        let second = Snapshot { t_s: 5.0, phase: Phase::Run, slower, ..Snapshot::default() };
        lines.update(&second);
        lines.update(&second);
        lines.update(&Snapshot { t_s, oldest_ns, phase: Phase::Drain, ..Snapshot::default() });
        lines.end();
        assert_eq!(String::from_utf8(out).unwrap(), GOLDEN);
    }

    const GOLDEN: &str = "\
race: 512 B · 100 % read · random · iSCSI on loopback · RAM · measured · 10 s after 2 s of ramp
  1s  0.00 IOPS  0.00 B/s  p50 n/a p99 n/a  2 errors so far  (ramp)
  3s  3.41M IOPS  1.75 GB/s  p50 412 µs p99 690 µs  CPU 1.98 of 2
  2s  0.00 IOPS  0.00 B/s  p50 n/a p99 n/a  3 connections lost so far
  2s  0.00 IOPS  0.00 B/s  p50 n/a p99 n/a  2 reconnects, 1 connection lost so far
  4s  0.00 IOPS  0.00 B/s  p50 n/a p99 n/a  one waits for 3.21 s
  5s  0.00 IOPS  0.00 B/s  p50 n/a p99 n/a
      b is 50 % slower than the others: no reason is known
  5s  0.00 IOPS  0.00 B/s  p50 n/a p99 n/a
  4s  0.00 IOPS  0.00 B/s  p50 n/a p99 n/a  (drain)
";
}
