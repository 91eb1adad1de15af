//! Memory use of both ends, without the volumes.

use std::time::Duration;

use anyhow::{Context, Result};

use super::super::programs::{Call, Programs, Service};
use super::{Bench, Contender, Row, Sample, servers};

/// Resident memory of target and initiator under load.
pub const ROW: Row = Row {
    name: "memory",
    title: "Memory at work beyond the volumes: 4 KiB reads, 50 sessions, 32 outstanding each",
    unit: "MiB",
    contenders: &[Contender { name: "drumfire serve and run together", run: ours }],
};

const SESSIONS: usize = 50;
const VOLUME_MIB: usize = 16;
/// Time until all sessions are busy.
const UNDER_WAY: Duration = Duration::from_secs(4);

fn ours(bench: &Bench) -> Result<Sample> {
    let kind = format!("ram:{VOLUME_MIB}m?fill=1");
    let (target, uris) = servers::drumfire(&bench.programs, SESSIONS, &kind, None)?;
    let args = format!("run {} --size 4096 --seconds 60 --ramp 0 --json", uris.join(" "));
    let initiator = bench.programs.start(&Call { program: "drumfire", args, core: None })?;
    if matches!(bench.programs, Programs::Real { .. }) {
        std::thread::sleep(UNDER_WAY);
    }
    let both = resident_mib(&target)? + resident_mib(&initiator)?;
    Ok(Sample::of(both - (SESSIONS * VOLUME_MIB) as f64))
}

fn resident_mib(service: &Service) -> Result<f64> {
    let path = format!("/proc/{}/status", service.id);
    let status = std::fs::read_to_string(path).context("it ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    Ok(kib.context("no VmRSS")? / 1024.0)
}
