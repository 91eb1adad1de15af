//! Target and initiator as two processes, a core each.

use anyhow::Result;

use super::super::programs::Call;
use super::{Bench, Contender, INITIATOR_CORE, Row, Sample, servers};

/// `serve` on one core, `run` on the other.
pub const ROW: Row = Row {
    name: "serve-run",
    title: "Two processes: 512 B random reads, 10 sessions, 32 outstanding each",
    unit: "IOPS",
    contenders: &[Contender { name: "drumfire serve, drumfire run", run }],
};

fn run(bench: &Bench) -> Result<Sample> {
    let (_target, uris) = servers::drumfire(&bench.programs, 10, "ram:64m")?;
    let (uris, seconds) = (uris.join(" "), bench.seconds);
    let args =
        format!("run {uris} --size 512 --outstanding 32 --seconds {seconds} --ramp 1 --json");
    let call = Call { program: "drumfire", args, core: INITIATOR_CORE };
    Sample::of_drumfire(&bench.programs.run(&call, seconds)?)
}
