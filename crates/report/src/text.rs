//! The final table for a terminal or a pipe.
//!
//! One headline, then its basis: latencies, CPU time, targets, honesty checks, and the published
//! records of the same kind of job. Every line is understandable alone in a log.

use std::io::{self, Write};

use stats::{Check, Latency, MeasuringCost, Placement, RunResult, Verdict};

use crate::asked;
use crate::bounds;
use crate::direction;
use crate::ended;
use crate::failures;
use crate::figure;
use crate::hosts;
use crate::job;
use crate::painted::{Painted, printable_of};
use crate::part;
use crate::reason;
use crate::records::{self, Beside};
use crate::style::Paint;
use crate::targets;

/// Number of published records shown with a result.
const RECORDS_SHOWN: usize = 4;
/// Width of a label at the beginning of a line.
const LABEL: usize = 9;
/// Least part of the longest row that a row of the spread has.
const WHOLE: f64 = 0.9;
/// Label width of the latency table, whose eight columns then end at column 80.
const LATENCY_LABEL: usize = 8;

/// Renders the table for a terminal, now or later.
pub fn painted(result: &RunResult, paint: Paint) -> Painted {
    let mut out = Vec::new();
    // A write to memory does not fail.
    let _ = write(&printable_of(result), paint, &mut out);
    Painted::of(out)
}

/// Renders the summary of a result in a few lines, for the last screen of a terminal: the number,
/// its credibility and reason, latencies, how I/Os ended, bounds, and the number of checks above.
pub fn closing(result: &RunResult, paint: Paint) -> Painted {
    let mut out = Vec::new();
    let _ = write_closing(&printable_of(result), paint, &mut out);
    Painted::of(out)
}

fn write_closing(result: &RunResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{}", reason::headline(result, paint))?;
    writeln!(out, "{}", extent_line(result, paint))?;
    writeln!(out, "{:LABEL$}{}", "spread", spread(result))?;
    let latency = &result.totals.latency_ns;
    let cells = [
        ("p50", figure::bound(latency, latency.p50)),
        ("p99", figure::bound(latency, latency.p99)),
        ("max", figure::bound(latency, latency.max)),
        ("mean", figure::mean(latency)),
    ];
    let cells = cells.map(|(name, cell)| format!("{name} {cell}"));
    writeln!(out, "{:LABEL$}{}", "latency", cells.join("   "))?;
    let against = reason::held_against(result);
    if !against.is_empty() {
        writeln!(out, "{:LABEL$}{against} (above)", "checks")?;
    }
    bounds::write(&result.bounds, paint, out)
}

/// Spread within one run: the lowest and the highest rate of its seconds. One run does not show
/// how much runs differ.
fn spread(result: &RunResult) -> String {
    let longest = result.intervals.iter().map(|row| row.seconds).fold(0.0, f64::max);
    // The end of a run is a short row, or makes the last second longer.
    let longest = if longest < 1.5 { longest.min(1.0) } else { longest };
    let whole = result.intervals.iter().filter(|row| row.seconds >= WHOLE * longest);
    let rates: Vec<f64> = whole.map(|row| row.iops).filter(|rate| rate.is_finite()).collect();
    let low = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let high = rates.iter().copied().fold(0.0, f64::max);
    // Rows of long runs are of several seconds.
    let row = if (0.9..1.1).contains(&longest) { "second" } else { "row" };
    match rates.len() {
        0 | 1 => "one run, no interval".to_owned(),
        _ => {
            format!("one run; {} – {} from {row} to {row}", figure::rate(low), figure::iops(high))
        }
    }
}

/// Writes the table.
pub(crate) fn write(result: &RunResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    write_headline(result, paint, out)?;
    write_latencies(result, paint, out)?;
    asked::write(result, paint, out)?;
    failures::write(result, paint, out)?;
    hosts::write(result, paint, out)?;
    write_cpu(result, out)?;
    write_placement(&result.placement, out)?;
    write_cost(result.cost.as_ref(), out)?;
    targets::write(&result.workers, paint, out)?;
    write_checks(result, paint, out)?;
    bounds::write(&result.bounds, paint, out)?;
    write_records(result, paint, out)
}

/// Writes the most important lines: the number, its credibility and the reason; then the job, and
/// how its I/Os ended.
fn write_headline(result: &RunResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let job = &result.job;
    writeln!(out, "{}", reason::headline(result, paint))?;
    if let Some(partial) = &result.partial {
        writeln!(out, "{}", paint.red(&format!("partial result: {partial}")))?;
    }
    let name = if job.name.is_empty() { "run" } else { &job.name };
    writeln!(out, "\n{name}: {}", job::kind(job))?;
    let lines = [job::extent(job), part::words(&result.spec).join(" · ")];
    lines.iter().filter(|line| !line.is_empty()).try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out, "{}\n", extent_line(result, paint))
}

/// Returns bytes per second, the number of I/Os and their time, and how they ended.
fn extent_line(result: &RunResult, paint: Paint) -> String {
    let totals = &result.totals;
    let flushes = match totals.flush.ios {
        0 => String::new(),
        many => format!(" · {}", figure::plural_of(many, "flush", "flushes")),
    };
    let troubles = ended::troubles(result);
    let ended = match troubles.is_empty() {
        true => "no errors".to_owned(),
        false => paint.red(&troubles.join(" · ")),
    };
    format!(
        "{} · {} I/Os in {}{flushes} · {ended} · {:.1} outstanding on average",
        figure::bytes_per_second(totals.bytes_per_second),
        figure::count(totals.ios),
        figure::seconds(totals.seconds),
        totals.mean_outstanding,
    )
}

fn write_latencies(result: &RunResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let heads = ["min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    let heads: String = heads.iter().map(|head| format!("{head:>9}")).collect();
    writeln!(out, "{}", paint.dim(&format!("{:LATENCY_LABEL$}{heads}", "latency")))?;
    let totals = &result.totals;
    let used: Vec<_> = direction::used(totals).collect();
    writeln!(out, "{:LATENCY_LABEL$}{}", "all", latency_cells(&totals.latency_ns))?;
    // One direction alone is the same line again.
    for (name, direction) in used.iter().filter(|_| used.len() > 1) {
        let rate = match *name {
            direction::FLUSHES => format!("{} a second, no IOPS", figure::rate(direction.iops)),
            _ => figure::iops(direction.iops),
        };
        writeln!(out, "{name:LATENCY_LABEL$}{}  {rate}", latency_cells(&direction.latency_ns))?;
    }
    match figure::tails(&totals.latency_ns) {
        Some(words) => writeln!(out, "{:LABEL$}{}", "", paint.dim(&words)),
        None => Ok(()),
    }
}

fn latency_cells(latency: &Latency) -> String {
    let cells = [
        figure::bound(latency, latency.min),
        figure::mean(latency),
        figure::bound(latency, latency.p50),
        figure::bound(latency, latency.p90),
        figure::bound(latency, latency.p99),
        figure::bound(latency, latency.p99_9),
        figure::bound(latency, latency.p99_99),
        figure::bound(latency, latency.max),
    ];
    cells.iter().map(|cell| format!("{cell:>9}")).collect()
}

fn write_cpu(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    let (cpu, cores) = (&result.cpu, result.host.cores);
    let of = if cores > 0 { format!("of {cores} cores") } else { "cores".to_owned() };
    let used = match (cpu.initiator_cores, cpu.target_cores) {
        (None, None) => None,
        (Some(one), None) => Some(format!("{one:.2} {of}: initiator")),
        (None, Some(one)) => Some(format!("{one:.2} {of}: target")),
        (Some(one), Some(two)) => {
            Some(format!("{:.2} {of}: {one:.2} initiator + {two:.2} target", one + two))
        }
    };
    let poll = cpu.initiator_poll_cores.filter(|cores| *cores > 0.0);
    let io_workers = cpu.initiator_io_worker_cores.filter(|cores| *cores >= 0.005);
    let first = [
        used,
        poll.map(|cores| format!("{cores:.2} of it polling in the kernel")),
        io_workers.map(|cores| format!("{cores:.2} of it the kernel's I/O workers")),
        cpu.host_percent.map(|percent| format!("host {percent:.0} %")),
        cpu.steal_percent.map(|percent| format!("{percent:.1} % stolen")),
    ];
    let second = [
        cpu.core_us_per_io.map(|us| format!("{us:.3} µs of core time per I/O")),
        cpu.iops_per_core.map(|rate| format!("{} per core", figure::iops(rate))),
    ];
    let third = [figure::waited(&result.totals.latency_ns)];
    let lines = [first.to_vec(), second.to_vec(), third.to_vec()]
        .map(|parts| parts.into_iter().flatten().collect::<Vec<String>>().join(" · "));
    if lines.iter().all(String::is_empty) {
        return writeln!(out, "\n{:LABEL$}not measured", "CPU");
    }
    writeln!(out)?;
    for (label, line) in ["CPU", "", ""].into_iter().zip(lines).filter(|(_, line)| !line.is_empty())
    {
        writeln!(out, "{label:LABEL$}{line}")?;
    }
    Ok(())
}

fn write_placement(placement: &Placement, out: &mut impl Write) -> io::Result<()> {
    let list = |cores: &[u32]| cores.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let parts: Vec<String> = [("workers", &placement.initiator), ("targets", &placement.target)]
        .into_iter()
        .filter(|(_, cores)| !cores.is_empty())
        .map(|(who, cores)| format!("{who} on core {}", list(cores)))
        .collect();
    if parts.is_empty() {
        return Ok(());
    }
    let pinned = if placement.pinned { " · pinned" } else { "" };
    let shared = if placement.shared_threads { " · one thread for both" } else { "" };
    writeln!(out, "{:LABEL$}{}{pinned}{shared}", "", parts.join(" · "))
}

/// Writes the cost of measuring.
fn write_cost(cost: Option<&MeasuringCost>, out: &mut impl Write) -> io::Result<()> {
    let Some(cost) = cost else { return Ok(()) };
    let share = cost.initiator_percent.map(|percent| format!(" ({percent:.1} % of the workers)"));
    let collecting = cost.collector_cores.map(|cores| format!(" · collecting {cores:.3} cores"));
    writeln!(
        out,
        "{:LABEL$}measuring ≤ {:.0} ns per I/O{}{}",
        "",
        cost.ns_per_io,
        share.unwrap_or_default(),
        collecting.unwrap_or_default()
    )
}

fn write_checks(result: &RunResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let count = |verdict| result.checks.iter().filter(|c| c.verdict == verdict).count();
    let passed = count(Verdict::Pass);
    let apply = result.checks.len() - count(Verdict::DoesNotApply);
    writeln!(out, "\n{:LABEL$}{passed} of {apply} passed", "checks")?;
    let against = reason::in_order(&result.checks).into_iter();
    for check in against.filter(|check| check.verdict.is_against()) {
        writeln!(out, "  {}", check_line(check, paint))?;
        check.mend.iter().try_for_each(|command| writeln!(out, "{:11}fix: {command}", ""))?;
    }
    for warning in &result.warnings {
        writeln!(out, "  {}", paint.yellow(&format!("note     {warning}")))?;
    }
    Ok(())
}

fn check_line(check: &Check, paint: Paint) -> String {
    let Check { code, name, verdict, evidence, .. } = check;
    let word = format!("{:<7}", verdict.word());
    let verdict = match verdict {
        Verdict::Pass => paint.green(&word),
        Verdict::Warn => paint.yellow(&word),
        Verdict::Fail => paint.red(&word),
        Verdict::Unknown | Verdict::DoesNotApply => paint.dim(&word),
    };
    format!("{verdict}  {code} {name}: {evidence}")
}

fn write_records(result: &RunResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    let records = match records::beside(result) {
        Beside::Nothing => return Ok(()),
        Beside::Withheld(why) => {
            return writeln!(out, "\nrecords  not compared with published figures: {why}");
        }
        Beside::These(records) => records,
    };
    writeln!(
        out,
        "\nrecords  this run as a multiple of published figures for the same kind of job\n         \
         (theirs, on their hardware)"
    )?;
    for record in records.into_iter().take(RECORDS_SHOWN) {
        let multiple = format!("{:>5} ×", multiple(result.totals.iops / record.iops));
        writeln!(
            out,
            "  {} {:<5}  {}: {}, {}",
            paint.bold(&multiple),
            record.figure(),
            record.name(),
            record.job(),
            record.system,
        )?;
    }
    Ok(())
}

/// A ratio in three digits: `0.005`, `1.26`, `34.1`, `1234`.
fn multiple(ratio: f64) -> String {
    match ratio {
        r if !r.is_finite() => figure::UNKNOWN.to_owned(),
        r if r >= 99.95 => format!("{r:.0}"),
        r if r >= 9.995 => format!("{r:.1}"),
        r if r >= 0.1 => format!("{r:.2}"),
        r => format!("{r:.3}"),
    }
}

#[cfg(test)]
mod test {
    use stats::Class;

    use super::*;
    use crate::sample;

    fn text(result: &RunResult, paint: Paint) -> String {
        let mut out = Vec::new();
        write(result, paint, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_table_of_a_race() {
        assert_eq!(text(&sample::race(), Paint::PLAIN), GOLDEN);
    }

    const GOLDEN: &str = include_str!("../tests/race.txt");

    #[test]
    fn colour_adds_nothing_but_itself() {
        let colored = text(&sample::race(), Paint::COLOR);
        let mut plain = String::new();
        for (i, part) in colored.split("\x1b[").enumerate() {
            plain += if i == 0 { part } else { part.split_once('m').unwrap().1 };
        }
        assert_eq!(plain, GOLDEN);
    }

    #[test]
    fn the_sum_has_the_spread_of_whole_seconds() {
        let row = |seconds, iops| stats::Second { seconds, iops, ..stats::Second::default() };
        let said = |intervals: Vec<stats::Second>| {
            let result = RunResult { intervals, ..sample::race() };
            let text = closing(&result, Paint::PLAIN);
            let lines: Vec<&str> = text.as_str().lines().collect();
            assert!(
                lines[1].contains(" IOPS ") && lines[4].starts_with("latency  p50 "),
                "{text:?}"
            );
            lines[3].to_owned()
        };
        let seconds = vec![row(1.0, 2e6), row(0.98, 3e6), row(0.2, 9e6), row(1.0, 2.5e6)];
        assert_eq!(said(seconds), "spread   one run; 2.00M – 3.00M IOPS from second to second");
        assert!(said(vec![row(4.0, 1e6), row(4.0, 2e6)]).ends_with(" from row to row"));
        assert_eq!(said(vec![row(0.3, 1e6)]), "spread   one run, no interval");
        assert_eq!(said(Vec::new()), "spread   one run, no interval");
    }

    #[test]
    fn an_invalid_result_is_not_compared_with_records() {
        let mut result = sample::race();
        assert!(text(&result, Paint::PLAIN).contains("as a multiple of published figures"));
        result.set_check(Check::new("H02", "data-exist", Verdict::Fail, "a hole"));
        assert_eq!(result.class, Class::Invalid);
        let said = text(&result, Paint::PLAIN);
        assert!(!said.contains("as a multiple") && !said.contains("Third I/O"), "{said}");
        let why = "records  not compared with published figures: the result is invalid (H02)\n";
        assert!(said.ends_with(why), "{said}");
        // A job without comparable records has no such line.
        result.job.storage = "null".into();
        assert!(!text(&result, Paint::PLAIN).contains("records"));
    }

    #[test]
    fn nothing_and_nonsense_are_shown_without_panic() {
        let empty = text(&RunResult::default(), Paint::COLOR);
        assert!(empty.contains("0.00 IOPS") && empty.contains("not measured"), "{empty}");
        let mut result = sample::race();
        result.totals.iops = f64::INFINITY;
        result.totals.bytes_per_second = f64::NAN;
        result.totals.latency_ns.max = Some(u64::MAX);
        result.totals.ios = u64::MAX;
        result.cpu = stats::Cpu { target_cores: Some(f64::MAX), ..stats::Cpu::default() };
        result.partial = Some("interrupted after 3 s of 10 s".into());
        let text = text(&result, Paint::PLAIN);
        assert!(
            text.contains("n/a IOPS") && text.contains("partial result: interrupted"),
            "{text}"
        );
    }
}
