//! `race` in several shapes: target and initiator in one process, over loopback TCP.

use anyhow::Result;

use super::super::programs::Call;
use super::{Bench, Contender, Row, Sample};

/// The race whose figure is in the README.
pub const DEFAULT: Row = Row {
    name: "race-512",
    title: "Race: 512 B random reads, 50 sessions, 32 outstanding each",
    unit: "IOPS",
    contenders: &[Contender { name: "drumfire race", run: |bench| race(bench, "") }],
};

/// A page per I/O, as databases and hypervisors ask.
pub const PAGES: Row = Row {
    name: "race-4k",
    title: "Race: 4 KiB random reads, 50 sessions, 32 outstanding each",
    unit: "IOPS",
    contenders: &[Contender { name: "drumfire race", run: |bench| race(bench, "--size 4096") }],
};

/// Pages, three in ten written.
pub const MIXED: Row = Row {
    name: "race-4k-mixed",
    title: "Race: 4 KiB, 70 % reads, 50 sessions, 32 outstanding each",
    unit: "IOPS",
    contenders: &[Contender {
        name: "drumfire race",
        run: |bench| race(bench, "--size 4096 --read 70"),
    }],
};

/// Throughput of a single session.
pub const ONE_SESSION: Row = Row {
    name: "session-4k",
    title: "One session: 4 KiB random reads, 64 outstanding",
    unit: "IOPS",
    contenders: &[Contender {
        name: "drumfire race",
        run: |bench| race(bench, "--targets 1 --volumes 1 --size 4096 --outstanding 64"),
    }],
};

/// Latency at depth 1, where no concurrency hides it.
pub const DEPTH_ONE: Row = Row {
    name: "depth-1",
    title: "One session: 512 B random reads, 1 outstanding",
    unit: "IOPS",
    contenders: &[Contender {
        name: "drumfire race",
        run: |bench| race(bench, "--targets 1 --volumes 1 --size 512 --outstanding 1"),
    }],
};

/// Driver and device in shared memory, each pair on one thread.
pub const RINGS: Row = Row {
    name: "race-vhost-user",
    title: "Race in shared memory: 512 B random reads, 2 volumes of 1 MiB, 64 outstanding each",
    unit: "IOPS",
    contenders: &[Contender { name: "drumfire race", run: rings }],
};

fn rings(bench: &Bench) -> Result<Sample> {
    let shape = "--protocol vhost-user --targets 2 --volumes 1 --volume-size 1m --outstanding 64";
    race(bench, &format!("{shape} --size 512"))
}

/// A race of this shape.
pub fn race(bench: &Bench, shape: &str) -> Result<Sample> {
    let args = format!("race --json --ramp 1 --seconds {} {shape}", bench.seconds);
    let call = Call { program: "drumfire", args, core: None };
    Sample::of_drumfire(&bench.programs.run(&call, bench.seconds)?)
}
