//! What a target costs while nobody asks it anything.

use std::time::Duration;

use anyhow::{Context, Result};

use super::super::programs::{Programs, Service};
use super::{Bench, Contender, Row, Sample, servers};

/// Processor time without work.
pub const ROW: Row = Row {
    name: "idle",
    title: "Idle target, no session",
    unit: "% of a core",
    contenders: &[
        Contender { name: "drumfire serve, 10 volumes", run: ours },
        Contender { name: "tgtd, 1 volume", run: tgt },
    ],
};

fn ours(bench: &Bench) -> Result<Sample> {
    let (target, _) = servers::drumfire(&bench.programs, 10, "ram:64m")?;
    watch(bench, &target)
}

fn tgt(bench: &Bench) -> Result<Sample> {
    watch(bench, &servers::tgt(&bench.programs)?.service)
}

fn watch(bench: &Bench, service: &Service) -> Result<Sample> {
    let dry = matches!(bench.programs, Programs::Dry);
    let span = if dry { Duration::from_millis(1) } else { Duration::from_secs(bench.seconds) };
    let before = processor_seconds(service.id)?;
    std::thread::sleep(span);
    let used = processor_seconds(service.id)? - before;
    Ok(Sample::of(100.0 * used / span.as_secs_f64()))
}

/// Processor time of a process since its start.
fn processor_seconds(id: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).context("it ended")?;
    // Behind the name, which may hold anything: state is field 3, utime and stime 14 and 15.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    // The kernel shows hundredths of a second to all programs.
    Ok(ticks.iter().sum::<u64>() as f64 / 100.0)
}
