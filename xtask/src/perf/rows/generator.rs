//! Generators alone: null volumes.

use anyhow::Result;

use super::super::programs::Call;
use super::{Bench, Contender, Row, Sample};

/// The upper bound of everything else.
pub const ROW: Row = Row {
    name: "generator",
    title: "Generators alone: 4 KiB random reads of nothing, one worker, 32 outstanding",
    unit: "IOPS",
    contenders: &[
        Contender { name: "drumfire run null:1t", run: ours },
        Contender { name: "fio null engine", run: fio },
    ],
};

fn ours(bench: &Bench) -> Result<Sample> {
    let seconds = bench.seconds;
    let args =
        format!("run null:1t --size 4096 --outstanding 32 --seconds {seconds} --ramp 1 --json");
    let call = Call { program: "drumfire", args, core: None };
    Sample::of_drumfire(&bench.programs.run(&call, seconds)?)
}

fn fio(bench: &Bench) -> Result<Sample> {
    let seconds = bench.seconds;
    let args = format!(
        "--name=n --ioengine=null --size=1t --rw=randread --bs=4k --iodepth=32 --norandommap \
         --runtime={seconds} --ramp_time=1 --time_based --output-format=json"
    );
    let call = Call { program: "fio", args, core: None };
    Sample::of_fio(&bench.programs.run(&call, seconds)?)
}
