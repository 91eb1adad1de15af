//! What a target keeps in memory besides its volumes.

use anyhow::{Context, Result};

use super::super::programs::{Call, Service};
use super::target::iscsi_perf;
use super::{Bench, Contender, INITIATOR_CORE, Row, Sample, servers};

/// Resident memory after work.
pub const ROW: Row = Row {
    name: "memory",
    title: "Memory of a target after a run, volumes aside",
    unit: "MiB",
    contenders: &[
        Contender { name: "drumfire serve, 10 sessions", run: ours },
        Contender { name: "tgtd, 1 session", run: tgt },
    ],
};

fn ours(bench: &Bench) -> Result<Sample> {
    let (target, uris) = servers::drumfire(&bench.programs, 10, "null:1g")?;
    let args = format!("run {} --size 4096 --seconds 1 --ramp 0 --json", uris.join(" "));
    bench.programs.run(&Call { program: "drumfire", args, core: INITIATOR_CORE }, 1)?;
    resident(&target)
}

fn tgt(bench: &Bench) -> Result<Sample> {
    let tgt = servers::tgt(&bench.programs)?;
    iscsi_perf(&Bench { seconds: 1, programs: bench.programs.clone() }, &tgt.uri)?;
    resident(&tgt.service)
}

fn resident(service: &Service) -> Result<Sample> {
    let path = format!("/proc/{}/status", service.id);
    let status = std::fs::read_to_string(path).context("it ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    Ok(Sample::of(kib.context("no VmRSS")? / 1024.0))
}
