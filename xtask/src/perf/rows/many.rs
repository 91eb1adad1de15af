//! Time of a run with a thousand volumes beyond the measurement: opening and closing.

use std::time::Instant;

use anyhow::Result;

use super::super::programs::Call;
use super::{Bench, Contender, Row, Sample, servers};

/// Logins, lanes and threads, all at once.
pub const ROW: Row = Row {
    name: "many",
    title: "Start and end of a run with 1,000 volumes, 1 outstanding each",
    unit: "ms",
    contenders: &[
        Contender { name: "iSCSI", run: iscsi },
        Contender { name: "NVMe/TCP", run: nvme },
        Contender { name: "1,000 workers of null:1t", run: local },
    ],
};

const VOLUMES: usize = 1000;

fn iscsi(bench: &Bench) -> Result<Sample> {
    let (_target, uris) = servers::drumfire(&bench.programs, VOLUMES, "null:1g", None)?;
    beyond(bench, &uris.join(" "))
}

fn nvme(bench: &Bench) -> Result<Sample> {
    let (_target, uris) = servers::drumfire_nvme_uris(&bench.programs, VOLUMES, "null:1g")?;
    beyond(bench, &uris.join(" "))
}

fn local(bench: &Bench) -> Result<Sample> {
    beyond(bench, &format!("null:1t --workers {VOLUMES}"))
}

/// Total time less the measured second.
fn beyond(bench: &Bench, volumes: &str) -> Result<Sample> {
    let args = format!("run {volumes} --size 4096 --outstanding 1 --seconds 1 --ramp 0 --json");
    let call = Call { program: "drumfire", args, core: None };
    let began = Instant::now();
    let json = bench.programs.run(&call, 1)?;
    let whole = began.elapsed().as_secs_f64();
    // A run with errors is invalid.
    Sample::of_drumfire(&json)?;
    Ok(Sample::of((whole - 1.0).max(0.0) * 1e3))
}
