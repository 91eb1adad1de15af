//! CPU profile of a race: `cargo xtask perf --profile ROW…`, with Linux's `perf`.
//!
//! Samples of both ends' threads are grouped by symbol and reported as core time per I/O. Inlined
//! symbols count for their caller.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::page::Host;
use super::programs::Programs;
use super::rows::Row;
use super::{Bench, sample};
use crate::process::{self, Show};

/// Skips start and ramp of a race.
pub const DELAY_MS: &str = "2000";
/// Samples a second: not a multiple of timer frequencies.
pub const FREQUENCY: &str = "1999";
/// Number of symbols shown in addition to the groups.
const SYMBOLS: usize = 12;
const REPORT_LIMIT: Duration = Duration::from_secs(120);

/// Groups of symbols: a symbol belongs to the first group with a word in its name.
const GROUPS: &[(&str, &[&str])] = &[
    ("copy out of the volume", &["Outbox::close_current", "CopyAhead"]),
    ("the volume: asking ahead, copying in", &["RamLane as block::lane::Lane>", "write_ahead"]),
    ("copy into the socket", &["_copy_from_iter", "copy_page_from_iter"]),
    ("copy out of the socket", &["_copy_to_iter", "__check_object_size", "skb_datagram_iter"]),
    ("copy from buffer to buffer", &["memmove", "memcpy"]),
    ("target's own code", &["serve::", "::target::"]),
    ("initiator's own code", &["load::", "RemoteLane", "::initiator::", "::host::"]),
    ("own code of both", &["proto::", "os::", "block::", "volume::", "stats::"]),
    ("io_uring", &["[k] io_", "[k] __io_"]),
    (
        "TCP, IP and the loopback device",
        &[
            "tcp",
            "ip_",
            "inet",
            "ipv4",
            "[k] sk_",
            "[k] __sk",
            "skb",
            "sock",
            "dev_",
            "netif",
            "net_rx",
            "loopback",
            "validate_xmit",
            "napi",
            "backlog",
            "eth_",
            "cubic",
            "neigh",
        ],
    ),
    ("pages and kernel buffers", &["kmem", "kfree", "slab", "page", "folio", "kmalloc", "pipe"]),
    ("entering the kernel, waiting, the rest of it", &["[k]"]),
    ("the rest", &[""]),
];

/// A thread's symbol and its share of the samples.
struct Line {
    symbol: String,
    percent: f64,
}

/// Profiles the first contender of each row, and returns the page.
pub fn page(bench: &Bench, rows: &[&'static Row]) -> Result<String> {
    let Programs::Real { drumfire, .. } = &bench.programs else { bail!("nothing is run dry here") };
    process::find("perf").context("perf is not installed: apt-get install linux-perf")?;
    let file = std::env::temp_dir().join(format!("drumfire-perf-{}.data", std::process::id()));
    let recorded = Bench {
        programs: Programs::Real { drumfire: drumfire.clone(), record: Some(file.clone()) },
        ..*bench
    };
    let mut page = head(&Host::read(), bench.seconds);
    for row in rows {
        let state = super::probe::State::probe();
        let sample = (row.contenders[0].run)(&recorded)?;
        let state = state.and(&super::probe::State::probe());
        let Some(core_us) = sample.core_us else { bail!("{} has no core time per I/O", row.name) };
        let text = report(&file)?;
        let value = sample::figure(sample.value);
        eprintln!("{:26}{value} {}, {core_us:.2} core µs per I/O, {state}", row.name, row.unit);
        let _ = write!(
            page,
            "\n## {}\n\n{value} {}, {core_us:.2} µs of core time per I/O, {state}.\n\n{}",
            row.title,
            row.unit,
            table(&lines(&text), core_us)
        );
    }
    let _ = std::fs::remove_file(&file);
    Ok(page)
}

fn head(host: &Host, seconds: u64) -> String {
    format!(
        "# Profiles of {}\n\n{}.\n`cargo xtask perf --profile`: one run of {seconds} s each, \
         sampled {FREQUENCY} times a second,\nwhich slows it a little. A share of the samples is \
         a share of the core time of both ends.\n",
        host.date,
        host.line()
    )
}

/// perf's report on the threads of both ends.
fn report(file: &Path) -> Result<String> {
    let mut command = Command::new("perf");
    command.arg("report").arg("-i").arg(file);
    command.args(["--no-children", "--stdio", "-q", "-g", "none", "--sort", "comm,symbol"]);
    let outcome = process::run(&mut command, REPORT_LIMIT, Show::Nothing)?;
    if !outcome.success() {
        bail!("perf report: {}", outcome.ending());
    }
    Ok(outcome.stdout)
}

/// The lines of the threads of targets and workers: share, thread, `[k]` or `[.]`, symbol.
fn lines(text: &str) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines() {
        let Some((percent, rest)) = line.trim().split_once("%") else { continue };
        let Ok(percent) = percent.parse() else { continue };
        let rest = rest.trim();
        if !rest.starts_with("target") && !rest.starts_with("worker") {
            continue;
        }
        let Some(at) = rest.find("[k]").or_else(|| rest.find("[.]")) else { continue };
        // Further columns of perf follow after spaces.
        let symbol = rest[at..].split("  ").next().unwrap_or_default().trim().to_string();
        match lines.iter_mut().find(|line| line.symbol == symbol) {
            Some(line) => line.percent += percent,
            None => lines.push(Line { symbol, percent }),
        }
    }
    lines.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    lines
}

fn group(symbol: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| symbol.contains(word));
    GROUPS.iter().find(|(_, words)| has(words)).map_or("the rest", |(name, _)| *name)
}

/// Groups with their time per I/O, then the top symbols.
fn table(lines: &[Line], core_us: f64) -> String {
    let all: f64 = lines.iter().map(|line| line.percent).sum();
    let of = |percent: f64| {
        format!("{:.0} | {:.1}", percent / all * core_us * 1e3, percent / all * 100.0)
    };
    let mut text = "| where | ns per I/O | % |\n|---|--:|--:|\n".to_string();
    for (name, _) in GROUPS {
        let percent: f64 =
            lines.iter().filter(|line| group(&line.symbol) == *name).map(|line| line.percent).sum();
        if percent > 0.0 {
            let _ = writeln!(text, "| {name} | {} |", of(percent));
        }
    }
    text += "\n| symbol | ns per I/O | % |\n|---|--:|--:|\n";
    for line in lines.iter().take(SYMBOLS) {
        let _ = writeln!(text, "| `{}` | {} |", line.symbol.replace('|', "/"), of(line.percent));
    }
    text
}

#[cfg(test)]
mod test {
    use super::*;

    const REPORT: &str = "
    30.00%  df    [k] clear_page_erms            -      -
     4.00%  target 1    [.] proto::outbox::Outbox::close_current     -      -
     3.00%  worker 0    [k] _copy_to_iter   -   -
     1.00%  worker 1    [k] _copy_to_iter   -   -
     2.00%  target 0    [k] tcp_v4_rcv
    ";

    #[test]
    fn threads_of_one_kind_are_one() {
        let lines = lines(REPORT);
        assert_eq!(lines.len(), 3);
        let table = table(&lines, 1.0);
        assert!(table.contains("| copy out of the socket | 400 | 40.0 |"), "{table}");
        assert!(table.contains("| TCP, IP and the loopback device | 200 | 20.0 |"), "{table}");
        assert!(table.contains("| `[k] _copy_to_iter` | 400 | 40.0 |"), "{table}");
    }

    #[test]
    fn symbols_have_a_group() {
        for (symbol, name) in [
            (
                "[.] <volume::remote::RemoteLane<D> as block::lane::Lane>::poll",
                "initiator's own code",
            ),
            (
                "[.] <proto::nvme::target::NvmeTarget as proto::endpoint::Endpoint>::receive",
                "target's own code",
            ),
            ("[.] __memmove_avx512_unaligned_erms", "copy from buffer to buffer"),
            ("[k] io_recv", "io_uring"),
            ("[k] do_sched_yield", "entering the kernel, waiting, the rest of it"),
            ("[.] main", "the rest"),
        ] {
            assert_eq!(group(symbol), name, "{symbol}");
        }
    }
}
