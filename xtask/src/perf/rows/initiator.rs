//! Initiators on the same target: ours and iscsi-perf against tgt.

use anyhow::Result;

use super::super::programs::Call;
use super::target::iscsi_perf;
use super::{Bench, Contender, INITIATOR_CORE, Row, Sample, servers};

/// Two clients, one target.
pub const ROW: Row = Row {
    name: "initiator",
    title: "Initiators against tgt: 4 KiB random reads, one session, 32 outstanding",
    unit: "IOPS",
    contenders: &[
        Contender { name: "drumfire run", run: ours },
        Contender { name: "iscsi-perf", run: theirs },
    ],
};

fn ours(bench: &Bench) -> Result<Sample> {
    let tgt = servers::tgt(&bench.programs)?;
    let (uri, seconds) = (&tgt.uri, bench.seconds);
    let args =
        format!("run {uri} --size 4096 --outstanding 32 --seconds {seconds} --ramp 1 --json");
    let call = Call { program: "drumfire", args, core: INITIATOR_CORE };
    Sample::of_drumfire(&bench.programs.run(&call, seconds)?)
}

fn theirs(bench: &Bench) -> Result<Sample> {
    let tgt = servers::tgt(&bench.programs)?;
    iscsi_perf(bench, &tgt.uri)
}
