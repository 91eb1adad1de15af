//! Targets with the same client: iscsi-perf against ours and against tgt.

use anyhow::Result;

use super::super::programs::Call;
use super::{Bench, Contender, INITIATOR_CORE, Row, Sample, TARGET_CORE, servers};

/// One client, two targets.
pub const ROW: Row = Row {
    name: "target",
    title: "Targets under iscsi-perf: 4 KiB random reads, one session, 32 outstanding",
    unit: "IOPS",
    contenders: &[
        Contender { name: "drumfire serve", run: ours },
        Contender { name: "tgtd", run: tgt },
    ],
};

fn ours(bench: &Bench) -> Result<Sample> {
    let (_target, uris) = servers::drumfire(&bench.programs, 1, "ram:64m?fill=1", TARGET_CORE)?;
    iscsi_perf(bench, &uris[0])
}

fn tgt(bench: &Bench) -> Result<Sample> {
    let tgt = servers::tgt(&bench.programs)?;
    iscsi_perf(bench, &tgt.uri)
}

/// A run of iscsi-perf: eight blocks of 512 B at a time.
pub fn iscsi_perf(bench: &Bench, uri: &str) -> Result<Sample> {
    let args = format!("-r -b 8 -m 32 -t {} {uri}", bench.seconds);
    let call = Call { program: "iscsi-perf", args, core: INITIATOR_CORE };
    Sample::of_iscsi_perf(&bench.programs.run(&call, bench.seconds)?)
}
