//! The race in one process and in two: within one, both ends of a core take turns on one thread;
//! there is no other shortcut.

use anyhow::Result;

use super::super::programs::Call;
use super::{Bench, Contender, Row, Sample, race, servers};

/// `race` against `serve` and `run`, each on all cores.
pub const ROW: Row = Row {
    name: "serve-run",
    title: "One process and two: 512 B random reads, 50 sessions, 32 outstanding each",
    unit: "IOPS",
    contenders: &[
        Contender { name: "drumfire serve, drumfire run", run },
        Contender { name: "drumfire race", run: |bench| race::race(bench, "") },
    ],
};

fn run(bench: &Bench) -> Result<Sample> {
    let (_target, uris) = servers::drumfire(&bench.programs, 50, "ram:64m?fill=1", None)?;
    let (uris, seconds) = (uris.join(" "), bench.seconds);
    let args =
        format!("run {uris} --size 512 --outstanding 32 --seconds {seconds} --ramp 1 --json");
    let call = Call { program: "drumfire", args, core: None };
    Sample::of_drumfire(&bench.programs.run(&call, seconds)?)
}
