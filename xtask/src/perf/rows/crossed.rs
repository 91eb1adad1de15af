//! NVMe/TCP, each of our ends with SPDK's other end, and both of SPDK's: separates target from
//! initiator in the comparison with SPDK. A core per end.
//!
//! The host idles before each run. The kernel's free page lists depend on the last run: after our
//! target, `nvmf_tgt` gets socket pages that are in the other core's cache, and copies into them
//! take twice as long, with any initiator. After some seconds the effect is gone.

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;

use super::super::programs::{Call, Programs};
use super::nvme::{SPDK, perf, spdk};
use super::ready_made::{self, Shape};
use super::{Bench, Contender, INITIATOR_CORE, Row, Sample, TARGET_CORE, servers};

macro_rules! crossed {
    ($name:literal, $title:literal, $perf:literal, $run:literal, $shape:expr) => {
        Row {
            name: $name,
            title: concat!("NVMe/TCP, ends crossed: ", $title),
            unit: "IOPS",
            contenders: &[
                Contender { name: SPDK, run: |bench| rested(bench, || spdk(bench, $perf)) },
                Contender {
                    name: OUR_TARGET,
                    run: |bench| rested(bench, || our_target(bench, $perf)),
                },
                Contender {
                    name: OUR_INITIATOR,
                    run: |bench| rested(bench, || our_initiator(bench, $run)),
                },
                Contender { name: READY_MADE, run: |bench| rested(bench, || ready(bench, $shape)) },
            ],
        }
    };
}

const OUR_TARGET: &str = "drumfire serve, spdk_nvme_perf";
const OUR_INITIATOR: &str = "nvmf_tgt, drumfire run";
const READY_MADE: &str = "nvmf_tgt, ready-made bytes";
/// Rest of the host.
const REST: Duration = Duration::from_secs(4);

/// One connection, pages.
pub const SESSION_PAGES: Row = crossed!(
    "nvme-crossed-session-4k",
    "4 KiB random reads, 1 connection, 64 outstanding",
    "-o 4096 -w randread -P 1 -q 64",
    "--size 4096 --outstanding 64",
    shape(1, 64, 4096, 100)
);

/// One connection, blocks.
pub const SESSION: Row = crossed!(
    "nvme-crossed-session-512",
    "512 B random reads, 1 connection, 64 outstanding",
    "-o 512 -w randread -P 1 -q 64",
    "--size 512 --outstanding 64",
    shape(1, 64, 512, 100)
);

/// Many connections, pages.
pub const MANY_PAGES: Row = crossed!(
    "nvme-crossed-race-4k",
    "4 KiB random reads, 50 connections, 32 outstanding each",
    "-o 4096 -w randread -P 50 -q 1600",
    "--workers 50 --size 4096 --outstanding 32",
    shape(50, 32, 4096, 100)
);

/// Many connections, blocks.
pub const MANY: Row = crossed!(
    "nvme-crossed-race-512",
    "512 B random reads, 50 connections, 32 outstanding each",
    "-o 512 -w randread -P 50 -q 1600",
    "--workers 50 --size 512 --outstanding 32",
    shape(50, 32, 512, 100)
);

/// Writes only.
pub const WRITES: Row = crossed!(
    "nvme-crossed-write-4k",
    "4 KiB random writes, 4 connections, 64 outstanding each",
    "-o 4096 -w randwrite -P 4 -q 256",
    "--workers 4 --size 4096 --outstanding 64 --read 0",
    shape(4, 64, 4096, 0)
);

/// A database's mix.
pub const MIXED: Row = crossed!(
    "nvme-crossed-mixed-4k",
    "4 KiB, 70 % reads, 16 connections, 32 outstanding each",
    "-o 4096 -w randrw -M 70 -P 16 -q 512",
    "--workers 16 --size 4096 --outstanding 32 --read 70",
    shape(16, 32, 4096, 70)
);

/// Latency at depth 1, where no concurrency hides it.
pub const DEPTH_ONE: Row = crossed!(
    "nvme-crossed-depth-1",
    "4 KiB random reads, 1 connection, 1 outstanding",
    "-o 4096 -w randread -P 1 -q 1",
    "--size 4096 --outstanding 1",
    shape(1, 1, 4096, 100)
);

/// Runs a contender after a rest.
fn rested(bench: &Bench, run: impl FnOnce() -> Result<Sample>) -> Result<Sample> {
    if !matches!(bench.programs, Programs::Dry) {
        sleep(REST);
    }
    run()
}

fn our_target(bench: &Bench, shape: &str) -> Result<Sample> {
    let (_target, address) = servers::drumfire_nvme(&bench.programs, "ram:64m", TARGET_CORE)?;
    perf(bench, &address, shape)
}

fn our_initiator(bench: &Bench, shape: &str) -> Result<Sample> {
    let target = servers::nvmf(&bench.programs)?;
    let servers::NvmeAddress { port, nqn } = &target.address;
    let (uri, seconds) = (format!("nvme+tcp://127.0.0.1:{port}/{nqn}/1"), bench.seconds);
    let args = format!("run {uri} {shape} --seconds {seconds} --ramp 1 --json");
    let call = Call { program: "drumfire", args, core: INITIATOR_CORE };
    Sample::of_drumfire(&bench.programs.run(&call, seconds)?)
}

fn ready(bench: &Bench, shape: Shape) -> Result<Sample> {
    let target = servers::nvmf(&bench.programs)?;
    ready_made::run(bench, &target.address, shape)
}

const fn shape(connections: u16, outstanding: usize, size: usize, read_percent: u64) -> Shape {
    Shape { connections, outstanding, size, read_percent }
}
