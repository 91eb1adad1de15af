//! CPU time of an idle target.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use super::super::programs::{Call, Programs, Service};
use super::{Bench, Contender, Row, Sample, servers};

/// CPU time of a target with idle sessions.
pub const ROW: Row = Row {
    name: "idle",
    title: "Idle target, 50 sessions logged in",
    unit: "% of a core",
    contenders: &[
        Contender { name: "drumfire serve, 50 sessions", run: ours },
        Contender { name: "tgtd, no session", run: tgt },
    ],
};

/// Idle target over NVMe/TCP: SPDK's poll loop is busy by design and not measured.
pub const NVME: Row = Row {
    name: "nvme-idle",
    title: "NVMe/TCP: idle target, 50 queues connected",
    unit: "% of a core",
    contenders: &[Contender { name: "drumfire serve, 50 queues", run: ours_nvme }],
};

const SESSIONS: usize = 50;
/// Until all sessions are logged in.
const UNDER_WAY: Duration = Duration::from_secs(3);

/// Stops the initiator at work: its sessions stay and fall silent.
fn ours(bench: &Bench) -> Result<Sample> {
    let (target, uris) = servers::drumfire(&bench.programs, SESSIONS, "ram:1m", None)?;
    watch_silent(bench, &target, &uris.join(" "))
}

fn ours_nvme(bench: &Bench) -> Result<Sample> {
    let (target, address) = servers::drumfire_nvme(&bench.programs, "ram:1m", None)?;
    let servers::NvmeAddress { port, nqn } = address;
    let uri = format!("nvme+tcp://127.0.0.1:{port}/{nqn}/1");
    watch_silent(bench, &target, &[uri.as_str(); SESSIONS].join(" "))
}

fn watch_silent(bench: &Bench, target: &Service, uris: &str) -> Result<Sample> {
    let args = format!("run {uris} --size 4096 --seconds 60 --ramp 0 --json");
    let initiator = bench.programs.start(&Call { program: "drumfire", args, core: None })?;
    if matches!(bench.programs, Programs::Real { .. }) {
        std::thread::sleep(UNDER_WAY);
        let id = Pid::from_raw(initiator.id.cast_signed()).context("a process has a number")?;
        kill_process(id, Signal::STOP).context("stopping the initiator")?;
        std::thread::sleep(Duration::from_millis(500));
    }
    watch(bench, target)
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

/// CPU time of a process since its start.
fn processor_seconds(id: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).context("it ended")?;
    // After the name, which may contain anything: state is field 3, utime and stime 14 and 15.
    let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    // USER_HZ is 100.
    Ok(ticks.iter().sum::<u64>() as f64 / 100.0)
}
